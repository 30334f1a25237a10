"""What a run is about: a cluster, its prices, the projects and their budgets, and for how long.

A contract plays a setting and gives its history: who held what from when to when, at what charge,
why it ended, and what became of every project.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Protocol

import msgspec

from laissez.model.message import written_name
from laissez.simulation.demand.projects import Project
from laissez.simulation.kernel.stage import LogLine

CHARGE_UNITS_PER_MICRO = 3_600_000_000


def nodes_of(tree: str, counts: Mapping[str, int]) -> tuple[str, ...]:
    """The nodes of a tree that has so many of each level in every one above it."""
    names = [[f"{level}{at}" for at in range(number)] for level, number in counts.items()]
    return tuple("/".join((tree, *path)) for path in product(*names))


class Prices(msgspec.Struct, frozen=True):
    """By tree, in micro-dollars per hour: what on-demand and spot cost, and the market's floor."""

    on_demand: Mapping[str, int]
    spot: Mapping[str, int]
    base: Mapping[str, int]


class MarketGuards(msgspec.Struct, frozen=True):
    """Of the market in a tree: how long before it loses a node its holder is told, and for how long
    whoever wins one is bound to it."""

    notice_us: int | None = None
    commit_us: int | None = None


class Setting(msgspec.Struct, frozen=True):
    resources: tuple[str, ...]
    prices: Prices
    projects: tuple[Project, ...]
    budgets: Mapping[str, int]
    """In micro-dollars, by project."""
    horizon_us: int
    period_us: int = 10_000_000
    guards: Mapping[str, MarketGuards] = {}
    """By tree; under other contracts they mean nothing."""

    def alone(self, project: Project) -> Setting:
        """The whole cluster for one of them, whatever it costs."""
        return msgspec.structs.replace(self, projects=(project,), budgets={})


TOO_DEAR = "too_dear"
"""Why a stint ended whose holder left because of the price, before anybody took the node."""


class Stint(msgspec.Struct, frozen=True, rename=written_name):
    """One tenant's time with one resource; `charge` is in the market's unit. `reason` is why it
    ended, None if it was held to the end of the run."""

    tenant: str
    resource: str
    from_us: int
    to_us: int
    charge: int
    reason: str | None


class Loss(msgspec.Struct, frozen=True):
    """A node lost or given back, with what was done on it and is to be done again: in the unit of
    the project's performance."""

    tenant: str
    resource: str
    at_us: int
    wasted: float


class History(msgspec.Struct, frozen=True):
    stints: tuple[Stint, ...]
    losses: tuple[Loss, ...]
    performance: Mapping[str, float]
    rates: Mapping[str, tuple[int, ...]]
    """By tree, what a node was charged on average, minute by minute; -1 where none was held."""
    log: tuple[LogLine, ...] = ()


class Contract(Protocol):
    @property
    def name(self) -> str: ...

    def play(self, setting: Setting, seed: int, *, keeps_log: bool = False) -> History: ...
