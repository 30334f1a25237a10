"""The cluster as a table.

Rows that changed since the last table are marked, stand out, and say what was before; the others
step back. The mark is a character, so that it is there without colours too. Columns have fixed
widths, 79 characters in all, so that the eye finds a GPU in the same place in every table.
"""

from rich.box import SIMPLE_HEAD
from rich.table import Table

from laissez.model import OpenOrder
from laissez.sample.amounts import show_clock, show_rate
from laissez.sample.story.cluster import ClusterRow, ClusterView
from laissez.sample.story.sentence import scope_in_words


def cluster_table(before: ClusterView, after: ClusterView) -> Table:
    table = _empty_table()
    for row in after.rows.values():
        old = before.rows.get(row.resource, row)
        changed = _terms(old) != _terms(row)
        cells = _cells(row, ">" if changed else " ", _before_in_words(row, old) if changed else "")
        table.add_row(*cells, style="bold green" if changed else "dim")
    return table


def waiting_line(cluster: ClusterView) -> str:
    if not cluster.waiting:
        return "No order waits."
    return "Waiting: " + "; ".join(map(_order_in_words, cluster.waiting)) + "."


def _empty_table() -> Table:
    table = Table(
        box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="dim"
    )
    table.add_column("  GPU", width=17, no_wrap=True)
    table.add_column("holder", width=6, no_wrap=True)
    table.add_column("rate", width=6, no_wrap=True, justify="right")
    table.add_column("limit", width=6, no_wrap=True, justify="right")
    table.add_column("why this rate", width=23, no_wrap=True)
    table.add_column("before", width=11, no_wrap=True)
    return table


def _terms(row: ClusterRow) -> tuple[str | None, int, int | None]:
    return row.holder, row.rate, row.limit


def _cells(row: ClusterRow, mark: str, before: str) -> tuple[str, ...]:
    return (
        f"{mark} {row.resource}",
        row.holder or "free",
        show_rate(row.rate),
        "" if row.limit is None else show_rate(row.limit),
        _cause_in_words(row),
        before,
    )


def _cause_in_words(row: ClusterRow) -> str:
    if row.rival is None:
        return "floor"
    if row.cause == "hold":
        return f"hold: {row.rival.tenant} bids more"
    return f"{row.rival.tenant} bids for {_short(row.rival.scope)}"


def _before_in_words(row: ClusterRow, old: ClusterRow) -> str:
    if row.holder != old.holder:
        return old.holder or "free"
    return show_rate(old.rate)


def _order_in_words(order: OpenOrder) -> str:
    price, limit = show_rate(order.price or order.limit), show_rate(order.limit)
    until = "" if order.expires is None else f", until {show_clock(order.expires)}"
    return f"{order.tenant}, {scope_in_words(order.scope)} at {price}, limit {limit}{until}"


def _short(scope: str) -> str:
    """A place without its tree, which the row names already."""
    return scope.partition("/")[2] or scope_in_words(scope)
