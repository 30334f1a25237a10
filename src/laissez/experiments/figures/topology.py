"""Figure 10: what it is worth to bid for nodes near each other, instead of for any.

Training jobs only, of 4 to 8 H100s each, with demand at 1.5 times capacity. Each trains with a
global batch of 64: fine-tuning uses such batches (that of InstructGPT, 32; Ouyang et al., 2022),
gradients are exchanged often, and it matters where GPUs are. The larger the batch, the longer GPUs
compute between two exchanges, and the less distance matters; so 32 and 128 are shown as well. The
cluster is that of figure 6. In it a rack has domains to choose between, with fast links from one to
the other; so a flat one is shown as well, whose racks are a domain and a host each, and in which
nodes are near or far. All jobs have the same budget, and floors are at 0.7 of list prices; so
budgets by demand and floors at list prices are shown, too.

The same jobs are played in several ways on the market. *Aware*, a job asks for nodes in the
scale-up domain of those it has, then in their rack, then anywhere, and pays for each what it adds
there. *Oblivious*, it knows nothing of distances: it asks for nodes of a kind as if all were
neighbours, and the market spreads strangers over the cluster. Between the two, *anywhere*, it asks
for any, but knows how far apart they are: it expects little of them, and keeps those that help.
First come first served, which places a job on as few hosts as it can, is shown beside them, and the
clairvoyant, whose throughput no contract can exceed.

How fast a job really is follows in all cases from where its nodes are, in the best configuration
that there is for them. What counts is throughput: hours of work done per hour, an hour being what
one H100 does alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Literal

import msgspec

from laissez.experiments.figures.contention import cluster_of
from laissez.experiments.figures.figure import (
    Closeup,
    Figure,
    FigureTable,
    Wanted,
    WatchedRun,
    drawn_title,
    means_over,
)
from laissez.experiments.intervals import Interval, mean_interval, ratio
from laissez.experiments.metrics import measure
from laissez.experiments.runs import Runs
from laissez.simulation.contracts.clairvoyant import bound
from laissez.simulation.contracts.registry import CLAIRVOYANT, CONTRACTS
from laissez.simulation.contracts.setting import Setting, nodes_of
from laissez.simulation.demand.population import HORIZON_US, training
from laissez.simulation.demand.projects import US_PER_HOUR, Bidding, Project, Training
from laissez.simulation.scenarios.regimes import (
    BASE_SHARES,
    ON_DEMAND,
    READINGS,
    TREE,
    Alone,
    BudgetReading,
    Crowd,
    alone,
    crowd_of,
    prices,
    setting_of,
)

TITLE = "Topology-aware against oblivious bidding"
OVERSUBSCRIBED = 1.5
NODES = (4.0, 8.0)
GLOBAL_BATCH = 64
BATCHES = (32, GLOBAL_BATCH, 128)
WANTED_RATIO = 1.8
BIDDINGS: dict[str, Bidding] = {
    "aware": "aware",
    "anywhere": "anywhere",
    "oblivious": "oblivious",
    "fcfs": "aware",
    CLAIRVOYANT: "aware",
}
"""The ways to get nodes, and how jobs bid in each; the last two may be left out."""
LABELS = {
    "aware": "market, aware",
    "anywhere": "market, anywhere",
    "oblivious": "market, oblivious",
    "fcfs": "FCFS",
    CLAIRVOYANT: "clairvoyant",
}
Size = Literal["small", "usual", "flat"]
FLAT_TREE = {**TREE, "n": 1, "h": 1, "g": 8}
"""The same racks, each of them one host with as many GPUs as a domain has."""


class BiddingCase(msgspec.Struct, frozen=True):
    """What is the same for all ways that are compared."""

    size: Size = "usual"
    global_batch: int = GLOBAL_BATCH
    reading: BudgetReading = READINGS[0]
    base_share: float = BASE_SHARES[0]


FLAT, BY_DEMAND, AT_LIST = (
    BiddingCase("flat"),
    BiddingCase(reading="demand"),
    BiddingCase(base_share=1.0),
)


class BiddingPlay(msgspec.Struct, frozen=True):
    """The jobs of a seed, bidding in one way."""

    seed: int
    case: BiddingCase
    way: str


class BiddingOutcome(msgspec.Struct, frozen=True):
    """Of the bound there is nothing but throughput."""

    hours_per_hour: float
    mean_retention: float | None = None
    displaced: int | None = None


class BiddingComparison(msgspec.Struct, frozen=True):
    """All ways, in one case."""

    nodes: int
    throughput: dict[str, Interval]
    """By way, in hours of work per hour."""
    retention: dict[str, Interval]
    displaced: dict[str, Interval]
    aware_over: dict[str, Interval]
    """By each other way, how many times its throughput aware jobs have."""


class BiddingReport(msgspec.Struct, frozen=True):
    """`ratio` is aware over oblivious with the batch that is meant where nothing else is said, in
    the usual cluster, with equal budgets and floors below list prices. With that batch, `flat` is
    in a flat cluster, `by_demand` with budgets by demand, `at_list` with floors at list prices."""

    figure: str
    ratio: float
    wanted_ratio: float
    is_met: bool | None
    """None in a quick run: its cluster is too small to tell."""
    global_batch: int
    batches: dict[str, BiddingComparison]
    flat: BiddingComparison | None
    by_demand: BiddingComparison | None
    at_list: BiddingComparison | None
    oversubscribed: float
    seeds: tuple[int, ...]
    is_quick: bool


def run(task: BiddingPlay, data: Path | None) -> BiddingOutcome:
    case = task.case
    found = jobs_of(task.seed, case.size, case.global_batch)
    setting = setting_for(found, task.way, case.size, case.reading, case.base_share)
    if task.way == CLAIRVOYANT:
        return BiddingOutcome(most_hours_per_hour(setting, found))
    contract = CONTRACTS["fcfs" if task.way == "fcfs" else "market"]
    metrics = measure(setting, found.alone, contract.play(setting, task.seed))
    return BiddingOutcome(
        metrics.throughput.training_hours_per_hour,
        metrics.mean_retention,
        metrics.moves.displaced,
    )


def most_hours_per_hour(setting: Setting, crowd: Crowd) -> float:
    """No more work can be done with this cluster by these jobs, whoever gets what."""
    alone = {name: own.performance for name, own in crowd.alone.items()}
    hours = {
        project.name: alone[project.name] * project.labour.hours
        for project in setting.projects
        if isinstance(project.labour, Training)
    }
    retention = bound(setting, alone, weights=hours).retention
    done = sum(retention[name] * each for name, each in hours.items())
    return done * US_PER_HOUR / setting.horizon_us


@lru_cache(maxsize=4)
def cluster_for(size: Size) -> tuple[str, ...]:
    """That of figure 6, or of its quick variant; or the flat one."""
    if size == "flat":
        return tuple(node for tree in ON_DEMAND for node in nodes_of(tree, FLAT_TREE))
    return cluster_of(is_small=size == "small")


@lru_cache(maxsize=8)
def jobs_of(seed: int, size: Size, global_batch: int = GLOBAL_BATCH) -> Crowd:
    """Neighbouring tasks are of the same seed and batch."""
    cluster = cluster_for(size)
    return crowd_of(_comers(seed, cluster, global_batch), OVERSUBSCRIBED, cluster)


def _comers(
    seed: int, cluster: tuple[str, ...], global_batch: int
) -> Iterator[tuple[Project, Alone]]:
    empty = Setting(cluster, prices(), (), {}, HORIZON_US)
    number = 0
    while True:
        job = training(f"training-{number}", seed, number, NODES, global_batch)
        yield job, alone(job, empty, seed)
        number += 1


def setting_for(
    crowd: Crowd,
    way: str,
    size: Size,
    reading: BudgetReading = READINGS[0],
    base_share: float = BASE_SHARES[0],
) -> Setting:
    setting = setting_of(crowd, reading, base_share, cluster_for(size))
    return msgspec.structs.replace(
        setting, projects=tuple(_bidding(each, BIDDINGS[way]) for each in setting.projects)
    )


def _bidding(project: Project, bidding: Bidding) -> Project:
    labour = project.labour
    assert isinstance(labour, Training)
    labour = msgspec.structs.replace(labour, bidding=bidding)
    return msgspec.structs.replace(project, labour=labour)


def compute(wanted: Wanted, runs: Runs) -> BiddingReport:
    ways = [way for way in LABELS if way in FIGURE.ways or way in wanted.contracts]
    size: Size = "small" if wanted.is_quick else "usual"
    batches = (GLOBAL_BATCH,) if wanted.is_quick else BATCHES
    cases = [BiddingCase(size, batch) for batch in batches]
    if not wanted.is_quick:
        cases += [FLAT, BY_DEMAND, AT_LIST]
    keys = list(product(cases, wanted.seeds, ways))
    tasks = [BiddingPlay(seed, case, way) for case, seed, way in keys]
    found = dict(zip(keys, runs.all(tasks, run, BiddingOutcome), strict=True))
    compared = {
        case: _compared(
            len(cluster_for(case.size)),
            {way: {seed: found[case, seed, way] for seed in wanted.seeds} for way in ways},
        )
        for case in cases
    }
    main = compared[BiddingCase(size)].aware_over["oblivious"].estimate
    return BiddingReport(
        figure="10",
        ratio=main,
        wanted_ratio=WANTED_RATIO,
        is_met=None if wanted.is_quick else main >= WANTED_RATIO,
        global_batch=GLOBAL_BATCH,
        batches={str(batch): compared[BiddingCase(size, batch)] for batch in batches},
        flat=compared.get(FLAT),
        by_demand=compared.get(BY_DEMAND),
        at_list=compared.get(AT_LIST),
        oversubscribed=OVERSUBSCRIBED,
        seeds=wanted.seeds,
        is_quick=wanted.is_quick,
    )


def _compared(nodes: int, by_way: Mapping[str, Mapping[int, BiddingOutcome]]) -> BiddingComparison:
    hours = {
        way: {seed: each.hours_per_hour for seed, each in outcomes.items()}
        for way, outcomes in by_way.items()
    }
    return BiddingComparison(
        nodes=nodes,
        throughput={way: mean_interval(list(each.values())) for way, each in hours.items()},
        retention=_means(by_way, lambda outcome: outcome.mean_retention),
        displaced=_means(by_way, lambda outcome: outcome.displaced),
        aware_over={
            way: ratio(hours["aware"], hours[way]) or Interval(0.0, None, None)
            for way in hours
            if way != "aware"
        },
    )


def _means(
    by_way: Mapping[str, Mapping[int, BiddingOutcome]], of: Callable[[BiddingOutcome], float | None]
) -> dict[str, Interval]:
    """By way; not of one that has no such thing."""
    found = {
        way: [value for each in outcomes.values() if (value := of(each)) is not None]
        for way, outcomes in by_way.items()
    }
    return {way: mean_interval(values) for way, values in found.items() if values}


# --- for people ---------------------------------------------------------------------------------


def tell(report: BiddingReport) -> Iterator[FigureTable | str]:
    for where, its in _cases(report):
        yield FigureTable(
            f"Training only, demand {report.oversubscribed} times capacity, {where}",
            (
                *("", "hours of work\nper hour", "mean\nretention", "displaced\nper run"),
                "aware over it,\nin throughput",
            ),
            tuple(
                (
                    LABELS[way],
                    _shown(its.throughput[way], 1.0),
                    _shown(its.retention[way], 100.0, "%") if way in its.retention else "",
                    _shown(its.displaced[way], 1.0) if way in its.displaced else "",
                    _ratio(its.aware_over[way]) if way in its.aware_over else "",
                )
                for way in its.throughput
            ),
        )
    verdict = "met" if report.is_met else "NOT MET"
    if report.is_met is None:
        verdict = "one for the whole cluster, not for a quick run"
    yield (
        f"Aware over oblivious with a batch of {report.global_batch}: {report.ratio:.2f}. "
        f"The goal of {report.wanted_ratio} is {verdict}."
    )
    yield f"{means_over(report.seeds)}."


def _cases(report: BiddingReport) -> Iterator[tuple[str, BiddingComparison]]:
    for batch, its in report.batches.items():
        yield f"global batch {batch}", its
    for what, one in (
        ("flat cluster", report.flat),
        ("budgets by demand", report.by_demand),
        ("floors at list", report.at_list),
    ):
        if one is not None:
            yield f"global batch {report.global_batch}, {what}", one


def _ratio(interval: Interval) -> str:
    low, high = interval.low, interval.high
    between = "" if low is None or high is None else f" ({low:.2f} to {high:.2f})"
    return f"{interval.estimate:.2f}{between}"


def _shown(interval: Interval, times: float, unit: str = "") -> str:
    margin = "" if interval.low is None else f" ±{times * (interval.estimate - interval.low):.1f}"
    return f"{times * interval.estimate:.1f}{unit}{margin}"


def draw(report: BiddingReport, path: Path) -> None:
    """Only who wants a picture waits for matplotlib."""
    from laissez.experiments.contract_pictures import UNKNOWN_LOOK, draw_bars, look  # noqa: PLC0415

    looks = {
        "aware": look("market"),
        "anywhere": look("no_displacement"),
        "oblivious": UNKNOWN_LOOK,
        "fcfs": look("fcfs"),
        CLAIRVOYANT: look(CLAIRVOYANT),
    }
    draw_bars(
        path,
        title=drawn_title(TITLE, is_quick=report.is_quick),
        groups={
            where.replace(", ", ",\n"): {
                way: _times(interval, 1 / its.nodes) for way, interval in its.throughput.items()
            }
            for where, its in _cases(report)
        },
        labels=LABELS,
        looks=looks,
        axis="Hours of work per hour and node",
        footnote=f"{len(report.seeds)} seeds, 95% intervals; "
        f"demand over capacity {report.oversubscribed}",
    )


def _times(interval: Interval, factor: float) -> Interval:
    low, high = interval.low, interval.high
    return Interval(
        interval.estimate * factor,
        None if low is None else low * factor,
        None if high is None else high * factor,
    )


def scene(closeup: Closeup, data: Path | None) -> WatchedRun:
    size: Size = "small" if closeup.is_quick else "usual"
    found = jobs_of(closeup.seed, size)
    way = closeup.way or FIGURE.ways[0]
    setting = setting_for(found, way, size, closeup.reading, closeup.base_share)
    return WatchedRun(setting, dict(found.alone))


FIGURE = Figure(
    name="10",
    title=TITLE,
    regimes=(OVERSUBSCRIBED,),
    quick_regimes=(OVERSUBSCRIBED,),
    contracts=("market", "fcfs", CLAIRVOYANT),
    always=("market",),
    compute=compute,
    tell=tell,
    draw=draw,
    scene=scene,
    ways=("aware", "anywhere", "oblivious"),
)
