"""The bills: everything that was settled, by tenant, each charge with the stretches it is made of.

A bill is the sum of its `Settled` events, and the revenue is the sum of the bills, to the unit:
the sum is worked out here from the events, and stands beside what the market says it has earned.
"""

from collections.abc import Iterable
from typing import NamedTuple

from rich.columns import Columns
from rich.table import Table

from laissez.model import Segment, Settled
from laissez.sample.amounts import show_charge, show_clock, show_rate, show_span
from laissez.sample.story.scene import PlayedScene


class TenantBill(NamedTuple):
    tenant: str
    holdings: tuple[Settled, ...]

    @property
    def charge(self) -> int:
        return sum(holding.charge for holding in self.holdings)


def bills(scenes: Iterable[PlayedScene], tenants: Iterable[str]) -> tuple[TenantBill, ...]:
    settled = [event for scene in scenes for event in scene.events if isinstance(event, Settled)]
    return tuple(
        TenantBill(tenant, tuple(event for event in settled if event.tenant == tenant))
        for tenant in tenants
    )


def bill_table(bill: TenantBill) -> Table:
    """One line for each holding, and beside it as many as its explanation needs."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(ratio=1, style="dim")
    for holding in bill.holdings:
        table.add_row(
            f"  {holding.resource}",
            f"{show_clock(holding.since)}-{show_clock(holding.at)}",
            show_charge(holding.charge),
            Columns(map(_segment_in_words, holding.segments), padding=(0, 2), equal=True),
        )
    return table


def sum_table(every: tuple[TenantBill, ...], revenue: int) -> Table:
    """The sum of the bills and the revenue, one under the other, in the unit they are kept in."""
    total = sum(bill.charge for bill in every)
    amounts = " + ".join(show_charge(bill.charge) for bill in every)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_row("Bills", f"{amounts} = {show_charge(total)}", f"{total:,}", style="bold")
    table.add_row("Revenue", show_charge(revenue), f"{revenue:,}", style="bold")
    return table


def _segment_in_words(segment: Segment) -> str:
    start, end, rate, cause = segment
    return f"{show_span(end - start):>6} {cause:<6} {show_rate(rate)}"
