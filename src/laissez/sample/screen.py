"""The market on a terminal: who holds what at what rate, who owes what, what just moved and why."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from laissez.client.money import show_charge, show_rate
from laissez.model import Resource, TenantSummary
from laissez.sample.scene import Scene

COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red", "bright_cyan", "bright_magenta")
US_PER_S = 1_000_000
ROW = 4
FRAMES = 8


def colour_of(tenant: str | None) -> str:
    """A tenant's colour, the same in every run."""
    return "dim" if tenant is None else COLOURS[zlib.crc32(tenant.encode()) % len(COLOURS)]


def screen(scene: Scene, directions: Sequence[str], height: int) -> RenderableType:
    """Everything, as it is now."""
    racks = _by_rack(scene.resources)
    taken = len(directions) + sum(-(-len(rack) // ROW) for rack in racks) + len(scene.tenants)
    return Group(
        Panel(Text("\n".join(directions)), title="laissez", title_align="left"),
        _resources_table(racks),
        _tenants_table(scene.tenants),
        Panel(
            _news(scene, max(height - taken - FRAMES, 5)),
            title="what just moved, and why",
            title_align="left",
        ),
    )


def _by_rack(resources: tuple[Resource, ...]) -> list[list[Resource]]:
    racks: dict[str, list[Resource]] = {}
    for resource in resources:
        racks.setdefault(resource.resource.rpartition("/")[0], []).append(resource)
    return list(racks.values())


def _resources_table(racks: list[list[Resource]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(1 + ROW):
        table.add_column(no_wrap=True)
    for rack in racks:
        name = rack[0].resource.rpartition("/")[0]
        for start in range(0, len(rack), ROW):
            cells = [_cell(resource) for resource in rack[start : start + ROW]]
            table.add_row(Text(name if start == 0 else "", style="bold"), *cells)
    return table


def _cell(resource: Resource) -> Text:
    name = resource.resource.rpartition("/")[2]
    owner = resource.owner or "free"
    rate = show_rate(resource.rate)
    return Text(f"{name} {owner:<9.9}{rate:>9}", style=colour_of(resource.owner))


def _tenants_table(tenants: tuple[TenantSummary, ...]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("tenant")
    for title in ("holds", "orders waiting", "owes"):
        table.add_column(title, justify="right")
    for tenant in tenants:
        table.add_row(
            Text(tenant.tenant, style=colour_of(tenant.tenant)),
            str(tenant.holdings),
            str(tenant.orders),
            show_charge(tenant.charge),
        )
    return table


def _news(scene: Scene, lines: int) -> Text:
    shown = [f"{clock(at)}  {sentence}" for at, sentence in list(scene.news)[:lines]]
    return Text("\n".join(shown) or "nothing yet", overflow="ellipsis", no_wrap=True)


def clock(at_us: int) -> str:
    return datetime.fromtimestamp(at_us // US_PER_S).strftime("%H:%M:%S")
