"""The market on a terminal: who holds what at what rate, who owes what, what just moved and why.

What is to be copied stands above all else, each line whole: no box around it and no break in it,
though the terminal may continue it on its next row. The picture below is as wide as the terminal
and has as many rows as are left; where there are too few, older news go first.

`Painter` shows it on the terminal's other screen, from the same corner each time, so that nothing
piles up when the terminal is resized, and what was there before is back at the end. What is to be
copied is painted anew every few seconds only, so that a selection of it lasts a while: it has to
be, because anything else that is written to the terminal may scroll it away.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from datetime import datetime

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from laissez.client.money import show_charge
from laissez.model import Resource, TenantSummary
from laissez.sample.amounts import show_rate
from laissez.sample.scene import MarketScene

COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red", "bright_cyan", "bright_magenta")
US_PER_S = 1_000_000
CELLS_MAX = 8
GAP = "  "
REPAINT_S = 5.0
HOME = "\x1b[H"
CLEAR_TO_END_OF_LINE = "\x1b[K"
CLEAR_BELOW = "\x1b[J"


def colour_of(tenant: str | None) -> str:
    """A tenant's colour, the same in every run."""
    return "dim" if tenant is None else COLOURS[zlib.crc32(tenant.encode()) % len(COLOURS)]


def picture(scene: MarketScene, width: int) -> RenderableType:
    """Everything as it is now, the latest last but the news, which are the latest first."""
    return Group(
        _resources_table(_by_rack(scene.resources), [t.tenant for t in scene.tenants], width),
        Text(),
        _tenants_table(scene.tenants),
        Rule("what just moved, and why", style="dim", align="left"),
        _news(scene),
    )


def _by_rack(resources: tuple[Resource, ...]) -> list[list[Resource]]:
    racks: dict[str, list[Resource]] = {}
    for resource in resources:
        racks.setdefault(resource.resource.rpartition("/")[0], []).append(resource)
    return list(racks.values())


def _resources_table(racks: list[list[Resource]], tenants: Sequence[str], width: int) -> Table:
    """A rack is a row, or several where a terminal is narrow; no cell is ever cut."""
    names = [rack[0].resource.rpartition("/")[0] for rack in racks]
    # As narrow as the names allow: each row that is saved is a row for news. Whoever holds nothing
    # now may do so soon, and then the picture is not to be another one.
    owners = [_owner(each) for rack in racks for each in rack]
    longest = max(map(cell_len, (*owners, *tenants)), default=0)
    cells = [[_cell(resource, longest) for resource in rack] for rack in racks]
    widest = max((cell.cell_len for rack in cells for cell in rack), default=1)
    room = width - max(map(cell_len, names), default=0)
    in_a_row = min(max(room // (widest + len(GAP)), 1), CELLS_MAX)
    table = Table.grid(padding=(0, len(GAP), 0, 0), pad_edge=False)
    for _ in range(1 + in_a_row):
        table.add_column(no_wrap=True)
    for name, rack in zip(names, cells, strict=True):
        for start in range(0, len(rack), in_a_row):
            table.add_row(
                Text(name if start == 0 else "", style="bold"), *rack[start : start + in_a_row]
            )
    return table


def _owner(resource: Resource) -> str:
    return resource.owner or "free"


def _cell(resource: Resource, longest: int) -> Text:
    name = resource.resource.rpartition("/")[2]
    said = f"{name} {_owner(resource):<{longest}} {show_rate(resource.rate)}"
    return Text(said, style=colour_of(resource.owner))


def _tenants_table(tenants: tuple[TenantSummary, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("tenant", no_wrap=True)
    for title in ("holds", "orders waiting", "owes"):
        table.add_column(title, justify="right", no_wrap=True)
    for tenant in tenants:
        table.add_row(
            Text(tenant.tenant, style=colour_of(tenant.tenant)),
            str(tenant.holdings),
            str(tenant.orders),
            show_charge(tenant.charge),
        )
    return table


def _news(scene: MarketScene) -> Table:
    """Whole sentences: a long one goes on under itself."""
    table = Table.grid(padding=(0, len(GAP), 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for at, sentence in scene.news:
        table.add_row(clock(at), Text(sentence))
    if not scene.news:
        table.add_row("nothing yet")
    return table


def clock(at_us: int) -> str:
    return datetime.fromtimestamp(at_us // US_PER_S).strftime("%H:%M:%S")


class Painter:
    """Paints the picture again and again, on a terminal that may be resized."""

    def __init__(
        self,
        console: Console,
        to_copy: Sequence[str],
        *,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._to_copy = tuple(to_copy)
        self._clock_s = clock_s
        self._painted_for: tuple[int, int] | None = None
        self._painted_at_s = 0.0

    def paint(self, scene: MarketScene) -> None:
        size = self._console.size
        width, height = size
        # The terminal continues a long line by itself, and so knows that it is one.
        above = sum(max(-(-cell_len(line) // width), 1) for line in self._to_copy) + 1
        lines = self._lines_of(picture(scene, width), width)[: max(height - above, 0)]
        out = []
        now_s = self._clock_s()
        if size != self._painted_for or now_s - self._painted_at_s >= REPAINT_S:
            self._painted_for, self._painted_at_s = size, now_s
            out += [HOME, CLEAR_BELOW, "\r\n".join(self._to_copy)]
        if lines:
            out += [f"\x1b[{above + 1};1H", "\r\n".join(lines), CLEAR_BELOW]
        self._console.file.write("".join(out))
        self._console.file.flush()

    def _lines_of(self, shown: RenderableType, width: int) -> list[str]:
        with self._console.capture() as captured:
            self._console.print(shown, width=width, end="")
        lines = captured.get().rstrip("\n").split("\n")
        # Cleared before it is written: at the right edge, clearing after would take the last sign.
        return [CLEAR_TO_END_OF_LINE + line for line in lines]
