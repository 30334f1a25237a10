"""Figure gangs: what becomes of training jobs of a fixed size beside elastic ones and services.

Rigid jobs of 4 to 32 GPUs in one scale-up domain, elastic training and services come to a cluster
whose domains have 32 GPUs, two of each kind, with demand at 1.0 and 1.5 times capacity
(`fixed_sizes`). First come first served and fair share know gangs as schedulers of today do: all or
nothing, with a reservation for the first that waits, and backfill behind it. The market is played
with an operator's map that raises the floor of a domain for a gang that waits, and without.

What a job of a fixed size waits for are all of its nodes; so what counts is how long it waits, in
all and until it first starts, and which of them starve. Beside that stand the retention of these
jobs and of everybody else, the share of node-hours held, and the work that was lost with nodes: a
contract could give gangs all they want at the cost of others, or of what they had done.

Budgets are by demand: with equal ones a job of 32 GPUs could pay an eighth of one of 4 for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import count, product
from pathlib import Path
from statistics import fmean

import msgspec

from laissez.experiments.figures.figure import (
    Closeup,
    Figure,
    FigureTable,
    Wanted,
    WatchedRun,
    drawn_title,
    means_over,
)
from laissez.experiments.gang_waits import summed_up
from laissez.experiments.intervals import Interval, mean_interval
from laissez.experiments.metrics import measure
from laissez.experiments.runs import Runs
from laissez.simulation.contracts.registry import PLAYED
from laissez.simulation.contracts.setting import Contract, Setting, nodes_of
from laissez.simulation.demand.fitted import requests_of
from laissez.simulation.demand.fixed_sizes import PATIENCE_US, SIZES, project
from laissez.simulation.demand.population import HORIZON_US, MINUTE_US, number_of
from laissez.simulation.demand.projects import Project, Rigid
from laissez.simulation.demand.requests import Requests
from laissez.simulation.scenarios.regimes import (
    BASE_SHARES,
    ON_DEMAND,
    Alone,
    BudgetReading,
    Crowd,
    alone,
    crowd_of,
    prices,
    setting_of,
)

TITLE = "Jobs of a fixed size"
REGIMES = (1.0, 1.5)
READING: BudgetReading = "demand"
TREE = {"z": 2, "r": 1, "n": 1, "h": 8, "g": 4}
"""Two zones, in each a scale-up domain of eight hosts with four GPUs."""
RESOURCES = tuple(node for tree in ON_DEMAND for node in nodes_of(tree, TREE))
WAYS: dict[str, Contract] = {name: PLAYED[name] for name in ("with_map", "market", "fcfs", "fair")}
LABELS = {
    "with_map": "market, map",
    "market": "market alone",
    "fcfs": "FCFS, backfill",
    "fair": "fair share",
}


class SizedSeed(msgspec.Struct, frozen=True):
    """Everybody of a seed runs alone."""

    seed: int
    is_small: bool
    regimes: tuple[float, ...]


class SizedComer(msgspec.Struct, frozen=True):
    """One of those who come: its number, and what it does alone."""

    number: int
    alone: Alone


class SizedCrowd(msgspec.Struct, frozen=True):
    """Everybody who comes, in their order; in each regime the first of them."""

    comers: tuple[SizedComer, ...]
    joining: tuple[int, ...]


class SizedPlay(msgspec.Struct, frozen=True):
    """A contract plays those who come in a regime."""

    seed: int
    is_small: bool
    contract: str
    comers: tuple[SizedComer, ...]


class SizedOutcome(msgspec.Struct, frozen=True):
    """One run. Times are in seconds, shares between 0 and 1, lost work in projects' worth."""

    wait_p50_s: float
    wait_p95_s: float
    first_wait_p50_s: float
    first_wait_p95_s: float
    starved_share: float
    stops: float
    """A job."""
    rigid_retention: float
    other_retention: float
    mean_retention: float
    utilisation: float
    wasted_projects: float
    cost_dollars: float
    """Of all tenants together."""
    starved_by_size: dict[str, float]
    """By how many nodes a job needs; of sizes that come."""


class SizedReport(msgspec.Struct, frozen=True):
    """By regime, by contract, by what is measured (`SizedOutcome`)."""

    figure: str
    regimes: dict[str, dict[str, dict[str, Interval]]]
    starved_by_size: dict[str, dict[str, dict[str, float]]]
    """By regime, by contract, by size, over all seeds in which jobs of that size come."""
    patience_s: float
    seeds: tuple[int, ...]
    data: str
    is_quick: bool


# --- the tasks ----------------------------------------------------------------------------------


def run_alone(task: SizedSeed, data: Path | None) -> SizedCrowd:
    cluster = cluster_for(task.is_small)
    everybody = _crowd(task.seed, max(task.regimes), _requests(data), cluster)
    comers = [(each, everybody.alone[each.name]) for each in everybody.projects]
    joining = [len(crowd_of(comers, each, cluster).projects) for each in task.regimes]
    return SizedCrowd(
        tuple(SizedComer(number_of(each.name), own) for each, own in comers), tuple(joining)
    )


def run_play(task: SizedPlay, data: Path | None) -> SizedOutcome:
    comers = [(_project(task.seed, each.number, data), each.alone) for each in task.comers]
    found = Crowd(
        tuple(each for each, _ in comers), {each.name: own for each, own in comers}, ratio=0.0
    )
    setting = setting_of(found, READING, BASE_SHARES[0], cluster_for(task.is_small))
    metrics = measure(setting, found.alone, WAYS[task.contract].play(setting, task.seed))
    waits = summed_up(metrics.gangs.values())
    assert waits is not None, "half of all are rigid"
    sizes: dict[str, list[bool]] = {}
    kept: dict[bool, list[float]] = {True: [], False: []}
    for each in setting.projects:
        kept[isinstance(each.labour, Rigid)].append(metrics.retention[each.name])
        if isinstance(each.labour, Rigid):
            own = sizes.setdefault(str(each.labour.spec.count), [])
            own.append(metrics.gangs[each.name].is_starved)
    return SizedOutcome(
        wait_p50_s=waits.wait_p50_s,
        wait_p95_s=waits.wait_p95_s,
        first_wait_p50_s=waits.first_wait_p50_s,
        first_wait_p95_s=waits.first_wait_p95_s,
        starved_share=waits.starved / waits.jobs,
        stops=waits.stops / waits.jobs,
        rigid_retention=fmean(kept[True]),
        other_retention=fmean(kept[False] or [1.0]),
        mean_retention=metrics.mean_retention,
        utilisation=metrics.utilisation,
        wasted_projects=metrics.wasted_projects,
        cost_dollars=metrics.total_cost_dollars,
        starved_by_size={size: fmean(each) for size, each in sizes.items()},
    )


def cluster_for(is_small: bool) -> tuple[str, ...]:
    """The cluster, or one domain of each kind."""
    return tuple(each for each in RESOURCES if not is_small or "/z0/" in each)


def _crowd(seed: int, ratio: float, requests: Requests, cluster: tuple[str, ...]) -> Crowd:
    empty = Setting(cluster, prices(), (), {}, HORIZON_US)
    comers = (project(seed, number, requests) for number in count())
    return crowd_of(((each, alone(each, empty, seed)) for each in comers), ratio, cluster)


@lru_cache(maxsize=1)
def _requests(data: Path | None) -> Requests:
    return requests_of(data)


@lru_cache(maxsize=512)
def _project(seed: int, number: int, data: Path | None) -> Project:
    """Neighbouring tasks are of the same seed, and a trace takes a while to be put together."""
    return project(seed, number, _requests(data))


# --- the report ---------------------------------------------------------------------------------


def compute(wanted: Wanted, runs: Runs) -> SizedReport:
    seeds = [SizedSeed(seed, wanted.is_quick, wanted.regimes) for seed in wanted.seeds]
    crowds = dict(zip(wanted.seeds, runs.all(seeds, run_alone, SizedCrowd), strict=True))
    keys = list(product(wanted.seeds, enumerate(wanted.regimes), wanted.contracts))
    tasks = [
        SizedPlay(seed, wanted.is_quick, name, crowds[seed].comers[: crowds[seed].joining[at]])
        for seed, (at, _), name in keys
    ]
    played = runs.all(tasks, run_play, SizedOutcome)
    found: dict[str, dict[str, list[SizedOutcome]]] = {}
    for (_, (_, regime), name), outcome in zip(keys, played, strict=True):
        found.setdefault(str(regime), {}).setdefault(name, []).append(outcome)
    return SizedReport(
        figure="gangs",
        regimes={
            regime: {name: _intervals(outcomes) for name, outcomes in by.items()}
            for regime, by in found.items()
        },
        starved_by_size={
            regime: {name: _by_size(outcomes) for name, outcomes in by.items()}
            for regime, by in found.items()
        },
        patience_s=PATIENCE_US / MINUTE_US * 60,
        seeds=wanted.seeds,
        data="fitted" if runs.data is None else "azure",
        is_quick=wanted.is_quick,
    )


def _intervals(outcomes: list[SizedOutcome]) -> dict[str, Interval]:
    return {
        field: mean_interval([getattr(each, field) for each in outcomes])
        for field in SizedOutcome.__struct_fields__
        if field != "starved_by_size"
    }


def _by_size(outcomes: list[SizedOutcome]) -> dict[str, float]:
    found = {
        str(size): [
            each.starved_by_size[str(size)]
            for each in outcomes
            if str(size) in each.starved_by_size
        ]
        for size in SIZES
    }
    return {size: fmean(shares) for size, shares in found.items() if shares}


# --- for people ---------------------------------------------------------------------------------


def tell(report: SizedReport) -> Iterator[FigureTable | str]:
    for regime, by_contract in report.regimes.items():
        yield FigureTable(
            f"Demand over capacity {regime}: minutes that jobs of a fixed size wait",
            (
                "",
                *("in all,\nmedian", "in all,\n95%", "until they\nstart, median"),
                *("until they\nstart, 95%", "starved", "stopped,\na job"),
            ),
            tuple(
                (
                    LABELS[name],
                    *(_shown(its[field], 1 / 60) for field in ("wait_p50_s", "wait_p95_s")),
                    *(
                        _shown(its[field], 1 / 60)
                        for field in ("first_wait_p50_s", "first_wait_p95_s")
                    ),
                    _shown(its["starved_share"], 100, "%"),
                    _shown(its["stops"], 1, digits=2),
                )
                for name, its in by_contract.items()
            ),
        )
        yield FigureTable(
            f"Demand over capacity {regime}: everybody",
            (
                "",
                *("retention,\nfixed size", "retention,\nothers", "retention,\nall"),
                *("nodes\nheld", "projects'\nwork lost", "all pay,\n$"),
            ),
            tuple(
                (
                    LABELS[name],
                    *(
                        _shown(its[field], 100, "%")
                        for field in (
                            *("rigid_retention", "other_retention", "mean_retention"),
                            "utilisation",
                        )
                    ),
                    _shown(its["wasted_projects"], 1, digits=2),
                    _shown(its["cost_dollars"], 1, digits=0),
                )
                for name, its in by_contract.items()
            ),
        )
        yield _sizes(regime, report.starved_by_size[regime])
    minutes = report.patience_s / 60
    yield f"A job is starved if it never starts, or waits longer than {minutes:.0f} minutes to."
    requests = "of the Azure traces" if report.data == "azure" else "made up by the fitted model"
    yield f"{means_over(report.seeds)}; requests {requests}."


def _sizes(regime: str, by_contract: Mapping[str, Mapping[str, float]]) -> FigureTable:
    sizes = [str(size) for size in SIZES if any(str(size) in by for by in by_contract.values())]
    return FigureTable(
        f"Demand over capacity {regime}: starved, in %, by how many GPUs they need",
        ("", *sizes),
        tuple(
            (LABELS[name], *(f"{100 * by[size]:.0f}" if size in by else "" for size in sizes))
            for name, by in by_contract.items()
        ),
    )


def _shown(interval: Interval, times: float, unit: str = "", digits: int = 1) -> str:
    low = interval.low
    margin = "" if low is None else f" ±{times * (interval.estimate - low):.{digits}f}"
    return f"{times * interval.estimate:.{digits}f}{unit}{margin}"


def draw(report: SizedReport, path: Path) -> None:
    """Only who wants a picture waits for matplotlib."""
    from laissez.experiments.contract_pictures import draw_bars, look  # noqa: PLC0415

    measured = {"rigid_retention": "fixed size", "other_retention": "others", "utilisation": "held"}
    draw_bars(
        path,
        title=drawn_title(TITLE, is_quick=report.is_quick),
        groups={
            f"{label},\n{regime}": {name: its[field] for name, its in by_contract.items()}
            for field, label in measured.items()
            for regime, by_contract in report.regimes.items()
        },
        labels=LABELS,
        looks={name: look(name) for name in LABELS},
        axis="Retention, and share of nodes held",
        footnote=f"{len(report.seeds)} seeds, 95% intervals; demand over capacity 1.0 and 1.5",
    )


def scene(closeup: Closeup, data: Path | None) -> WatchedRun:
    cluster = cluster_for(closeup.is_quick)
    found = _crowd(closeup.seed, closeup.regime, _requests(data), cluster)
    setting = setting_of(found, closeup.reading, closeup.base_share, cluster)
    return WatchedRun(setting, dict(found.alone))


FIGURE = Figure(
    name="gangs",
    title=TITLE,
    regimes=REGIMES,
    quick_regimes=REGIMES,
    contracts=tuple(WAYS),
    compute=compute,
    tell=tell,
    draw=draw,
    scene=scene,
)
