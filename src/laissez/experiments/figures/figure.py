"""What a figure is: a question that many runs answer, told as JSON, as tables, and as a picture.

A figure says which tasks it needs and what a task does, makes a report of the results, and shows
it. `Runs` does the rest: processes, cache, progress. A file per figure holds all of it, and reads
like its description; long tables have a file of their own.

Seeds from 100 on are those that are reported. Policies are developed on those below 20: no policy
was ever tried on a reported seed before it was chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from laissez.experiments.intervals import Interval
from laissez.experiments.runs import Runs
from laissez.simulation.contracts.setting import Setting
from laissez.simulation.scenarios.regimes import Alone, BudgetReading

SEEDS = tuple(range(100, 120))
QUICK_SEEDS = SEEDS[:2]


class Wanted(msgspec.Struct, frozen=True):
    """What of a figure is asked for; a quick one is of a small cluster."""

    seeds: tuple[int, ...]
    regimes: tuple[float, ...] = ()
    contracts: tuple[str, ...] = ()
    is_quick: bool = False


class FigureTable(msgspec.Struct, frozen=True):
    """For people: the first column names the row, the others are figures."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class WatchedRun(msgspec.Struct, frozen=True):
    """One run of a figure, to be looked at closely: what is played, and what each does alone."""

    setting: Setting
    alone: dict[str, Alone]


class Closeup(msgspec.Struct, frozen=True, kw_only=True):
    """Which of a figure's runs to look at; `way` is how tenants bid, if there is a choice."""

    seed: int
    regime: float
    reading: BudgetReading
    base_share: float
    is_quick: bool
    way: str | None = None


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    title: str
    regimes: tuple[float, ...] = ()
    """Those it has; none if it has no choice of them. The same with contracts."""
    quick_regimes: tuple[float, ...] = ()
    contracts: tuple[str, ...] = ()
    always: tuple[str, ...] = ()
    """The contracts without which there is nothing to show."""
    compute: Callable[[Wanted, Runs], Any]
    """The report: a value that is JSON as it stands."""
    tell: Callable[[Any], Iterator[FigureTable | str]]
    draw: Callable[[Any, Path], None]
    scene: Callable[[Closeup, Path | None], WatchedRun] | None = None
    """Of one run, with data or without."""
    ways: tuple[str, ...] = ()
    """In which tenants bid on the market, if there is a choice; the first is the usual one."""


def percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def spread(interval: Interval) -> str:
    """Where an estimate may lie, as people read it; nothing if that is not known."""
    if interval.low is None:
        return "" if interval.high is None else f" (at most {100 * interval.high:.0f})"
    if interval.high is None:
        return f" (at least {100 * interval.low:.0f})"
    return f" ({100 * interval.low:.0f} to {100 * interval.high:.0f})"


def drawn_title(title: str, *, is_quick: bool) -> str:
    """Over a picture, which is looked at without the words around it."""
    return f"{title}: a quick look at a small cluster, not the figure" if is_quick else title


def means_over(seeds: Sequence[int]) -> str:
    """Of what the numbers of a report are."""
    if len(seeds) == 1:
        return f"Of seed {seeds[0]} alone, so without intervals"
    return f"Means over {len(seeds)} seeds from {seeds[0]} on, with 95% intervals"
