"""Figure 10: what it is worth to bid for nodes near each other, instead of for any.

Training jobs only, of 4 to 8 H100s each, with demand at 1.5 times capacity. Each trains with a
global batch of 64: fine-tuning uses such batches (that of InstructGPT, 32; Ouyang et al., 2022),
gradients are exchanged often, and it matters where GPUs are. The larger the batch, the longer GPUs
compute between two exchanges, and the less distance matters; so 32 and 128 are shown as well.

The same jobs are played twice on the market. *Aware*, a job asks for nodes in the scale-up domain
of those it has, then in their rack, then anywhere, and pays for each what it adds there.
*Oblivious*, it asks for nodes of a kind, wherever they are; and the market spreads strangers over
the cluster.
How fast a job really is follows in both cases from where its nodes are. First come first served,
which places a job on as few hosts as it can, is shown beside them.

What counts is throughput: hours of work done per hour, an hour being what one H100 does alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from statistics import fmean

import msgspec

from laissez.simulation.contracts import CONTRACTS
from laissez.simulation.figures.contention import cluster_of
from laissez.simulation.figures.figure import Figure, Scene, Table, Wanted
from laissez.simulation.intervals import Interval, mean_interval, ratio
from laissez.simulation.metrics import measure
from laissez.simulation.population import HORIZON_US, training
from laissez.simulation.projects import Project, Training
from laissez.simulation.regimes import (
    READINGS,
    Alone,
    Crowd,
    Reading,
    alone,
    crowd_of,
    prices,
    setting_of,
)
from laissez.simulation.runs import Runs
from laissez.simulation.setting import Setting

TITLE = "Topology-aware against oblivious bidding"
OVERSUBSCRIBED = 1.5
NODES = (4.0, 8.0)
GLOBAL_BATCH = 64
BATCHES = (32, GLOBAL_BATCH, 128)
WANTED_RATIO = 1.8
LABELS = {"aware": "market, aware", "oblivious": "market, oblivious", "fcfs": "FCFS"}
"""The ways to get nodes; what the market's two are compared with may be left out."""


class Play(msgspec.Struct, frozen=True):
    """The jobs of a seed, bidding in one way."""

    seed: int
    is_small: bool
    global_batch: int
    way: str


class Outcome(msgspec.Struct, frozen=True):
    hours_per_hour: float
    mean_retention: float
    displaced: int


class Comparison(msgspec.Struct, frozen=True):
    """All ways, with one batch."""

    throughput: dict[str, Interval]
    """By way, in hours of work per hour."""
    retention: dict[str, Interval]
    displaced: dict[str, float]
    ratio: float
    """Aware over oblivious, in throughput."""
    ci95: tuple[float | None, float | None]


class Report(msgspec.Struct, frozen=True):
    """`ratio` is that of the batch that is meant where nothing else is said."""

    figure: str
    ratio: float
    wanted_ratio: float
    is_met: bool
    global_batch: int
    batches: dict[str, Comparison]
    oversubscribed: float
    seeds: tuple[int, ...]


def run(task: Play, data: Path | None) -> Outcome:
    found = jobs_of(task.seed, task.is_small, task.global_batch)
    setting = setting_for(found, task.way, task.is_small)
    contract = CONTRACTS["fcfs" if task.way == "fcfs" else "market"]
    metrics = measure(setting, found.alone, contract.play(setting, task.seed))
    return Outcome(
        metrics.throughput.training_hours_per_hour,
        metrics.mean_retention,
        metrics.moves.displaced,
    )


def jobs_of(seed: int, is_small: bool, global_batch: int = GLOBAL_BATCH) -> Crowd:
    cluster = cluster_of(is_small)
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
    crowd: Crowd, way: str, is_small: bool, reading: Reading = READINGS[0], base_share: float = 0.7
) -> Setting:
    setting = setting_of(crowd, reading, base_share, cluster_of(is_small))
    return msgspec.structs.replace(
        setting, projects=tuple(_looking(each, way != "oblivious") for each in setting.projects)
    )


def _looking(project: Project, looks_near: bool) -> Project:
    labour = project.labour
    assert isinstance(labour, Training)
    labour = msgspec.structs.replace(labour, looks_near=looks_near)
    return msgspec.structs.replace(project, labour=labour)


def compute(wanted: Wanted, runs: Runs) -> Report:
    ways = [way for way in LABELS if way != "fcfs" or "fcfs" in wanted.contracts]
    batches = (GLOBAL_BATCH,) if wanted.is_quick else BATCHES
    keys = list(product(batches, ways, wanted.seeds))
    tasks = [Play(seed, wanted.is_quick, batch, way) for batch, way, seed in keys]
    found = dict(zip(keys, runs.all(tasks, run, Outcome), strict=True))
    compared = {
        str(batch): _compared(
            {way: {seed: found[batch, way, seed] for seed in wanted.seeds} for way in ways}
        )
        for batch in batches
    }
    main = compared[str(GLOBAL_BATCH)]
    return Report(
        figure="10",
        ratio=main.ratio,
        wanted_ratio=WANTED_RATIO,
        is_met=main.ratio >= WANTED_RATIO,
        global_batch=GLOBAL_BATCH,
        batches=compared,
        oversubscribed=OVERSUBSCRIBED,
        seeds=wanted.seeds,
    )


def _compared(by_way: Mapping[str, Mapping[int, Outcome]]) -> Comparison:
    hours = {
        way: {seed: each.hours_per_hour for seed, each in outcomes.items()}
        for way, outcomes in by_way.items()
    }
    gained = ratio(hours["aware"], hours["oblivious"]) or Interval(0.0, None, None)
    return Comparison(
        throughput={way: mean_interval(list(each.values())) for way, each in hours.items()},
        retention={
            way: mean_interval([each.mean_retention for each in outcomes.values()])
            for way, outcomes in by_way.items()
        },
        displaced={
            way: fmean(each.displaced for each in outcomes.values())
            for way, outcomes in by_way.items()
        },
        ratio=gained.estimate,
        ci95=(gained.low, gained.high),
    )


# --- for people ---------------------------------------------------------------------------------


def tell(report: Report) -> Iterator[Table | str]:
    for batch, its in report.batches.items():
        yield Table(
            f"Training only, demand {report.oversubscribed} times capacity, global batch {batch}",
            ("", "hours of work\nper hour", "mean\nretention", "displaced\nper run"),
            tuple(
                (
                    LABELS[way],
                    _shown(its.throughput[way], 1.0),
                    _shown(its.retention[way], 100.0, "%"),
                    f"{its.displaced[way]:.1f}",
                )
                for way in its.throughput
            ),
        )
        yield f"Aware over oblivious, in throughput: {_ratio(its)}."
    verdict = "met" if report.is_met else "NOT MET"
    yield f"The goal of {report.wanted_ratio} with a batch of {report.global_batch} is {verdict}."
    seeds = report.seeds
    yield f"Means over {len(seeds)} seeds from {seeds[0]} on, with 95% intervals."


def _ratio(its: Comparison) -> str:
    low, high = its.ci95
    interval = "" if low is None or high is None else f" ({low:.2f} to {high:.2f})"
    return f"{its.ratio:.2f}{interval}"


def _shown(interval: Interval, times: float, unit: str = "") -> str:
    margin = "" if interval.low is None else f" ±{times * (interval.estimate - interval.low):.1f}"
    return f"{times * interval.estimate:.1f}{unit}{margin}"


def draw(report: Report, path: Path) -> None:
    """Only who wants a picture waits for matplotlib."""
    from laissez.simulation.figures.drawing import draw_bars  # noqa: PLC0415

    draw_bars(
        path,
        title=TITLE,
        bars={
            f"{LABELS[way]},\nbatch {batch}": interval
            for batch, its in report.batches.items()
            for way, interval in its.throughput.items()
        },
        axis="Hours of work done per hour",
        footnote=f"{len(report.seeds)} seeds, 95% intervals; "
        f"demand over capacity {report.oversubscribed}",
    )


def scene(
    seed: int, regime: float, reading: Reading, base_share: float, is_quick: bool, data: Path | None
) -> Scene:
    found = jobs_of(seed, is_quick)
    return Scene(setting_for(found, "aware", is_quick, reading, base_share), dict(found.alone))


FIGURE = Figure(
    name="10",
    title=TITLE,
    regimes=(OVERSUBSCRIBED,),
    quick_regimes=(OVERSUBSCRIBED,),
    contracts=("market", "fcfs"),
    compute=compute,
    tell=tell,
    draw=draw,
    scene=scene,
)
