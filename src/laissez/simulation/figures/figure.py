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
from statistics import fmean
from typing import Any

import msgspec

from laissez.simulation.intervals import Interval, mean_interval, quantile, ratio
from laissez.simulation.metrics import Metrics, Moves, Quartiles, Throughput
from laissez.simulation.regimes import Alone, Reading
from laissez.simulation.runs import Runs
from laissez.simulation.setting import Setting

SEEDS = tuple(range(100, 120))
QUICK_SEEDS = SEEDS[:2]


class Wanted(msgspec.Struct, frozen=True):
    """What of a figure is asked for; a quick one is of a small cluster."""

    seeds: tuple[int, ...]
    regimes: tuple[float, ...] = ()
    contracts: tuple[str, ...] = ()
    is_quick: bool = False


class Table(msgspec.Struct, frozen=True):
    """For people: the first column names the row, the others are figures."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class Scene(msgspec.Struct, frozen=True):
    """One run of a figure, to be looked at closely: what is played, and what each does alone."""

    setting: Setting
    alone: dict[str, Alone]


class Closeup(msgspec.Struct, frozen=True, kw_only=True):
    """Which of a figure's runs to look at; `way` is how tenants bid, if there is a choice."""

    seed: int
    regime: float
    reading: Reading
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
    tell: Callable[[Any], Iterator[Table | str]]
    draw: Callable[[Any, Path], None]
    scene: Callable[[Closeup, Path | None], Scene] | None = None
    """Of one run, with data or without."""
    ways: tuple[str, ...] = ()
    """In which tenants bid on the market, if there is a choice; the first is the usual one."""


class Outcome(msgspec.Struct, frozen=True):
    """What a run of one contract came to; of a bound there is nothing but retention."""

    retention: dict[str, float]
    metrics: Metrics | None = None

    @property
    def mean_retention(self) -> float:
        return fmean(self.retention.values())

    @property
    def degradation(self) -> float:
        return 1 - self.mean_retention


Sides = tuple[float | None, float | None]
"""From where to where; None where nothing is known to bound it."""


class Summary(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A contract over all seeds: means, and quartiles over the projects of all seeds. Of a bound
    there is the mean retention only: nobody has all of it at once, so its quartiles bound nothing.
    """

    mean_retention: float
    ci95: Sides
    degradation: float
    market_lower_by: Interval | None = None
    """Of another contract: by which share of it the market's degradation is lower, paired."""
    p25: float | None = None
    median: float | None = None
    p75: float | None = None
    cost_dollars: float | None = None
    """Of all projects, per run: the operator's revenue."""
    retention_per_dollar: float | None = None
    credits_dollars: float | None = None
    """What all services of a run give back to their customers."""
    throughput: dict[str, float] | None = None
    utilisation: float | None = None
    moves: dict[str, float] | None = None
    wasted_projects: float | None = None
    volatility: dict[str, float] | None = None
    fairness: float | None = None
    starved: float | None = None
    starved_share: float | None = None
    ci95_of: dict[str, Sides] | None = None
    """The intervals of all other figures by their names, such as `moves.displaced`; none of a
    single seed."""

    @property
    def quartiles(self) -> Quartiles | None:
        """All three of them, or none."""
        if self.p25 is None or self.median is None or self.p75 is None:
            return None
        return Quartiles(self.p25, self.median, self.p75)


def summary_of(outcomes: Sequence[Outcome]) -> Summary:
    """Of one outcome per seed."""
    mean = mean_interval([each.mean_retention for each in outcomes])
    retained = Summary(
        mean_retention=mean.estimate, ci95=(mean.low, mean.high), degradation=1 - mean.estimate
    )
    found = [each.metrics for each in outcomes if each.metrics is not None]
    return _with_metrics(retained, found) if found else retained


def _with_metrics(retained: Summary, found: Sequence[Metrics]) -> Summary:
    shares = [share for each in found for share in each.retention.values()]
    means = {name: mean_interval(values) for name, values in _by_name(found).items()}
    per_dollar = ratio(
        {at: sum(each.retention.values()) for at, each in enumerate(found)},
        {at: each.total_cost_dollars for at, each in enumerate(found)},
    )
    intervals = means if per_dollar is None else {**means, "retention_per_dollar": per_dollar}

    def part(group: str) -> dict[str, float]:
        return {
            name.removeprefix(f"{group}."): its.estimate
            for name, its in means.items()
            if name.startswith(f"{group}.")
        }

    return msgspec.structs.replace(
        retained,
        p25=quantile(shares, 0.25),
        median=quantile(shares, 0.5),
        p75=quantile(shares, 0.75),
        retention_per_dollar=None if per_dollar is None else per_dollar.estimate,
        **{name: its.estimate for name, its in means.items() if "." not in name},
        **{group: part(group) for group in ("throughput", "moves", "volatility")},
        ci95_of={name: (its.low, its.high) for name, its in intervals.items()}
        if len(found) > 1
        else None,
    )


def _by_name(found: Sequence[Metrics]) -> dict[str, list[float]]:
    """What is measured of every run, in the order of runs."""
    by_name = {
        "cost_dollars": [each.total_cost_dollars for each in found],
        "credits_dollars": [sum(each.credits_dollars.values()) for each in found],
    }
    for name in ("utilisation", "wasted_projects", "fairness", "starved", "starved_share"):
        by_name[name] = [getattr(each, name) for each in found]
    for group, kind in (("throughput", Throughput), ("moves", Moves)):
        for name in kind.__struct_fields__:
            by_name[f"{group}.{name}"] = [getattr(getattr(each, group), name) for each in found]
    for tree in found[0].volatility:
        by_name[f"volatility.{tree}"] = [each.volatility[tree] for each in found]
    return by_name


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
