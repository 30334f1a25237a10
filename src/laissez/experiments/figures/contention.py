"""Figure 6: what is left of everybody's performance when demand meets capacity, or exceeds it.

Each seed is a crowd of projects (`population`). In a regime as many of them come as bring demand
over capacity nearest to it (`regimes`), and the same crowd is played under every contract. What
each project gets done over what it gets done alone is its retention.

First every seed's projects run alone, which says who comes in which regime, what they could do and
what money they have. Then every contract plays every crowd: with both readings of the budget; and
the market's contracts with both floors, the base shares, which mean nothing to the others. The
clairvoyant bound knows neither budgets nor floors.

The goals are those that the mechanism was built for: by how much the market's degradation is lower
than that of first come first served, with and without preemption; and that where there is plenty
for all, the market's retention is at most 2% lower.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Literal, NamedTuple

import msgspec

from laissez.experiments.figures.figure import Closeup, Wanted, WatchedRun, percent
from laissez.experiments.intervals import lowering
from laissez.experiments.metrics import measure
from laissez.experiments.runs import Runs
from laissez.experiments.summaries import ContractSummary, RunOutcome, summary_of
from laissez.simulation.contracts.clairvoyant import bound
from laissez.simulation.contracts.registry import CLAIRVOYANT, CONTRACTS
from laissez.simulation.demand.fitted import requests_of
from laissez.simulation.demand.population import number_of, project
from laissez.simulation.demand.projects import Project
from laissez.simulation.demand.requests import Requests
from laissez.simulation.scenarios.regimes import (
    BASE_SHARES,
    READINGS,
    RESOURCES,
    Alone,
    BudgetReading,
    crowd,
    crowd_of,
    setting_of,
)

MARKET = "market"
LABELS = {
    "market": "market",
    "fcfs": "FCFS",
    "fcfs_p": "FCFS-P",
    "fair": "fair share",
    "no_displacement": "no displacement",
    CLAIRVOYANT: "clairvoyant",
}
"""All contracts, and the bound, in the order in which they are shown."""
WITH_FLOORS = ("market", "no_displacement")


class LoweringTarget(NamedTuple):
    """By which share something of the market's is to be lower than another's, at least or most."""

    of: Literal["degradation", "mean_retention"]
    against: str
    regime: float
    share: float

    @property
    def sentence(self) -> str:
        name = f"{percent(self.share)} lower than {LABELS[self.against]}'s"
        return f"degradation at least {name}" if self.is_least else f"retention at most {name}"

    @property
    def is_least(self) -> bool:
        return self.of == "degradation"


TARGETS = (
    LoweringTarget("mean_retention", "fcfs", 0.4, 0.02),
    LoweringTarget("degradation", "fcfs", 1.0, 0.17),
    LoweringTarget("degradation", "fcfs", 1.125, 0.08),
    LoweringTarget("degradation", "fcfs", 2.25, 0.23),
    LoweringTarget("degradation", "fcfs_p", 1.0, 0.19),
    LoweringTarget("degradation", "fcfs_p", 1.125, 0.12),
    LoweringTarget("degradation", "fcfs_p", 2.25, 0.08),
)


# --- the tasks ----------------------------------------------------------------------------------


class AloneTask(msgspec.Struct, frozen=True):
    """Everybody of a seed runs alone."""

    seed: int
    is_small: bool
    regimes: tuple[float, ...]


class DrawnProject(msgspec.Struct, frozen=True):
    """One of those who come: its number, and what it does alone."""

    number: int
    alone: Alone


class AloneResult(msgspec.Struct, frozen=True):
    """Everybody who comes, in their order; and how many of them come in each regime, and what their
    demand over capacity is."""

    comers: tuple[DrawnProject, ...]
    joining: tuple[int, ...]
    ratios: tuple[float, ...]


class ContentionPlay(msgspec.Struct, frozen=True):
    """A contract plays the crowd of a seed in a regime."""

    seed: int
    is_small: bool
    regime: float
    contract: str
    reading: BudgetReading
    base_share: float
    comers: tuple[DrawnProject, ...]


def run_alone(task: AloneTask, data: Path | None) -> AloneResult:
    cluster = cluster_of(task.is_small)
    everybody = crowd(task.seed, max(task.regimes), _requests(data), cluster)
    comers = [(each, everybody.alone[each.name]) for each in everybody.projects]
    crowds = [crowd_of(comers, regime, cluster) for regime in task.regimes]
    return AloneResult(
        tuple(DrawnProject(number_of(each.name), own) for each, own in comers),
        tuple(len(each.projects) for each in crowds),
        tuple(each.ratio for each in crowds),
    )


def run_play(task: ContentionPlay, data: Path | None) -> RunOutcome:
    cluster = cluster_of(task.is_small)
    comers = ((_project(task.seed, each.number, data), each.alone) for each in task.comers)
    found = crowd_of(comers, task.regime, cluster)
    setting = setting_of(found, task.reading, task.base_share, cluster)
    if task.contract == CLAIRVOYANT:
        alone = {name: own.performance for name, own in found.alone.items()}
        return RunOutcome(dict(bound(setting, alone).retention))
    history = CONTRACTS[task.contract].play(setting, task.seed)
    metrics = measure(setting, found.alone, history)
    return RunOutcome(metrics.retention, metrics)


def cluster_of(is_small: bool) -> tuple[str, ...]:
    """The cluster, or of each kind its first scale-up domain."""
    return tuple(each for each in RESOURCES if not is_small or "/z0/r0/n0/" in each)


@lru_cache(maxsize=1)
def _requests(data: Path | None) -> Requests:
    return requests_of(data)


@lru_cache(maxsize=512)
def _project(seed: int, number: int, data: Path | None) -> Project:
    """Neighbouring tasks are of the same seed, and a trace takes a while to be put together."""
    return project(seed, number, _requests(data))


# --- the report ---------------------------------------------------------------------------------

Key = tuple[str, float, BudgetReading, float]
"""Contract, regime, reading, base share."""
ByRegime = dict[str, dict[str, ContractSummary]]
"""By regime, by contract."""


class Goal(msgspec.Struct, frozen=True):
    """What the market is to reach against another contract, and what was measured."""

    goal: str
    regime: str
    against: str
    reading: str
    base_share: float
    wanted: float
    measured: float | None
    """None if the other loses nothing at all, so that nothing can be lower."""
    ci95: tuple[float | None, float | None]
    is_met: bool


class Realised(msgspec.Struct, frozen=True):
    """What demand over capacity came to: projects are whole, so a regime is met nearly."""

    mean: float
    lowest: float
    highest: float


class ContentionReport(msgspec.Struct, frozen=True):
    """`regimes` is what is meant where nothing else is said: `reading` and `base_share` say it.
    `goals` are those of the whole cluster; a quick run has none."""

    figure: str
    regimes: ByRegime
    reading: str
    base_share: float
    readings: dict[str, dict[str, ByRegime]]
    goals: tuple[Goal, ...]
    seeds: tuple[int, ...]
    data: str
    demand_over_capacity: dict[str, Realised]
    """By regime."""
    is_quick: bool


def compute(wanted: Wanted, runs: Runs) -> ContentionReport:
    comers = [AloneTask(seed, wanted.is_quick, wanted.regimes) for seed in wanted.seeds]
    everybody = dict(zip(wanted.seeds, runs.all(comers, run_alone, AloneResult), strict=True))
    keys = list(product(wanted.contracts, wanted.regimes, READINGS, BASE_SHARES))
    plays = {
        (seed, key): _play(wanted, seed, key, everybody[seed])
        for seed in wanted.seeds
        for key in keys
    }
    found = dict(zip(plays, runs.all(tuple(plays.values()), run_play, RunOutcome), strict=True))
    outcomes = {key: {seed: found[seed, key] for seed in wanted.seeds} for key in keys}
    readings: dict[str, dict[str, ByRegime]] = {
        reading: {str(share): _by_regime(outcomes, reading, share) for share in BASE_SHARES}
        for reading in READINGS
    }
    return ContentionReport(
        figure="6",
        regimes=readings[READINGS[0]][str(BASE_SHARES[0])],
        reading=READINGS[0],
        base_share=BASE_SHARES[0],
        readings=readings,
        goals=() if wanted.is_quick else tuple(_goals(outcomes)),
        seeds=wanted.seeds,
        data="fitted" if runs.data is None else "azure",
        demand_over_capacity={
            str(regime): _realised([each.ratios[at] for each in everybody.values()])
            for at, regime in enumerate(wanted.regimes)
        },
        is_quick=wanted.is_quick,
    )


def _realised(ratios: Sequence[float]) -> Realised:
    return Realised(fmean(ratios), min(ratios), max(ratios))


def _play(wanted: Wanted, seed: int, key: Key, everybody: AloneResult) -> ContentionPlay:
    """What makes no difference is the same in all tasks, so that it is run once."""
    contract, regime, reading, share = key
    joining = everybody.joining[wanted.regimes.index(regime)]
    return ContentionPlay(
        seed,
        wanted.is_quick,
        regime,
        contract,
        READINGS[0] if contract == CLAIRVOYANT else reading,
        share if contract in WITH_FLOORS else BASE_SHARES[0],
        everybody.comers[:joining],
    )


BySeed = Mapping[Key, Mapping[int, RunOutcome]]


def _by_regime(outcomes: BySeed, reading: BudgetReading, share: float) -> ByRegime:
    found: ByRegime = {}
    for (contract, regime, *others), by_seed in outcomes.items():
        if others == [reading, share]:
            summaries = found.setdefault(str(regime), {})
            summary = summary_of(tuple(by_seed.values()))
            market = outcomes.get((MARKET, regime, reading, share))
            if market and contract not in (MARKET, CLAIRVOYANT):
                its = _each(by_seed, "degradation")
                lower = lowering(_each(market, "degradation"), its)
                summary = msgspec.structs.replace(summary, market_lower_by=lower)
            summaries[contract] = summary
    return found


def _goals(outcomes: BySeed) -> Iterator[Goal]:
    for reading, share, target in product(READINGS, BASE_SHARES, TARGETS):
        mine = outcomes.get((MARKET, target.regime, reading, share))
        its = outcomes.get((target.against, target.regime, reading, share))
        if mine and its:
            yield _goal(target, reading, share, _each(mine, target.of), _each(its, target.of))


def _each(by_seed: Mapping[int, RunOutcome], of: str) -> dict[int, float]:
    return {seed: getattr(outcome, of) for seed, outcome in by_seed.items()}


def _goal(
    target: LoweringTarget,
    reading: BudgetReading,
    share: float,
    mine: dict[int, float],
    its: dict[int, float],
) -> Goal:
    found = lowering(mine, its)
    if found is None:  # who has nothing can't have less
        is_met = not any(mine.values())
    elif target.is_least:
        is_met = found.estimate >= target.share
    else:
        is_met = found.estimate <= target.share
    return Goal(
        target.sentence,
        str(target.regime),
        target.against,
        reading,
        share,
        target.share,
        None if found is None else found.estimate,
        (None, None) if found is None else (found.low, found.high),
        is_met,
    )


# --- one run, closely ---------------------------------------------------------------------------


def scene(closeup: Closeup, data: Path | None) -> WatchedRun:
    cluster = cluster_of(closeup.is_quick)
    found = crowd(closeup.seed, closeup.regime, _requests(data), cluster)
    setting = setting_of(found, closeup.reading, closeup.base_share, cluster)
    return WatchedRun(setting, dict(found.alone))
