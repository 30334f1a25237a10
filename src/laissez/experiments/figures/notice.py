"""Figure notice: what it is worth to be told before a node is lost, and what it costs who waits.

On the market of figure 6, at 1.125 times capacity, holders are told 0, 10, 30, 120 or 300 s before
they lose a node, and winners are bound for as long (`commit`): a call costs its holder money and
work, so whoever makes one in vain pays for it. Who is told can save its work and look for another
node while it still has this one; who has bid more has to wait meanwhile. Beside those of figure 6
come urgent buyers, all alike: at random instants batch jobs of three minutes on one H100 or A100
that start at once, with twenty times the money of what their work costs at list prices.

Shown are the mean retention of everybody who is not urgent, the work that was lost with nodes, in
projects' worth, nodes displaced, and how long urgent buyers wait from their arrival to their first
node: the median, and what one in twenty exceeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import product
from pathlib import Path
from statistics import fmean

import msgspec

from laissez.experiments.figures.contention import (
    AloneResult,
    AloneTask,
    DrawnProject,
    cluster_of,
    run_alone,
)
from laissez.experiments.figures.figure import (
    Figure,
    FigureTable,
    Wanted,
    drawn_title,
    means_over,
)
from laissez.experiments.intervals import Interval, mean_interval, quantile
from laissez.experiments.metrics import measure
from laissez.experiments.runs import Runs
from laissez.model.paths import tree_of
from laissez.performance.application import US_PER_S
from laissez.simulation.contracts.registry import CONTRACTS
from laissez.simulation.contracts.setting import History, MarketGuards, Setting
from laissez.simulation.demand.fitted import requests_of
from laissez.simulation.demand.population import HORIZON_US, MINUTE_US, SPEEDS, project
from laissez.simulation.demand.projects import US_PER_HOUR, Batch, Project
from laissez.simulation.demand.requests import Requests
from laissez.simulation.kernel.streams import stream
from laissez.simulation.scenarios.regimes import BASE_SHARES, READINGS, alone, crowd_of, setting_of

TITLE = "Notice before a node is lost"
REGIME = 1.125
NOTICES_S = (0, 10, 30, 120, 300)
URGENT = 20
"""So many urgent buyers an hour."""
URGENT_WORK_US = 3 * MINUTE_US
URGENT_LIFE_US = 15 * MINUTE_US
URGENT_FACTOR = 20


class NoticePlay(msgspec.Struct, frozen=True):
    """The market plays the crowd of a seed and its urgent buyers, with this notice."""

    seed: int
    is_small: bool
    notice_s: int
    comers: tuple[DrawnProject, ...]


class NoticeOutcome(msgspec.Struct, frozen=True):
    """One run; `retention` is of those who are not urgent."""

    retention: float
    wasted_projects: float
    displaced: float
    urgent_wait_p50_s: float
    urgent_wait_p95_s: float
    urgent_retention: float


class NoticeReport(msgspec.Struct, frozen=True):
    """By notice in seconds, by what is measured (`NoticeOutcome`)."""

    figure: str
    notices: dict[str, dict[str, Interval]]
    regime: float
    seeds: tuple[int, ...]
    data: str
    is_quick: bool


# --- the tasks ----------------------------------------------------------------------------------


def urgent_buyers(seed: int) -> tuple[Project, ...]:
    """They come at random instants, and leave when they are done."""
    chance = stream(seed, "urgent")
    found = []
    for number in range(URGENT):
        arrives_us = chance.randrange(HORIZON_US - URGENT_LIFE_US + 1)
        ends_us = arrives_us + URGENT_LIFE_US
        labour = Batch(URGENT_WORK_US / US_PER_HOUR, SPEEDS, ends_us, cold_start_s=0.0)
        found.append(Project(f"urgent-{number}", arrives_us, ends_us, labour))
    return tuple(found)


def setting_with(task: NoticePlay, data: Path | None) -> tuple[Setting, dict[str, float]]:
    """What is played, and what each does alone."""
    cluster = cluster_of(task.is_small)
    comers = ((_project(task.seed, each.number, data), each.alone) for each in task.comers)
    found = crowd_of(comers, REGIME, cluster)
    setting = setting_of(found, READINGS[0], BASE_SHARES[0], cluster)
    urgent = urgent_buyers(task.seed)
    own = {each.name: alone(each, setting, task.seed) for each in urgent}
    budgets = {name: round(URGENT_FACTOR * each.list_cost_micros) for name, each in own.items()}
    guard = MarketGuards(task.notice_s * US_PER_S or None, task.notice_s * US_PER_S or None)
    return msgspec.structs.replace(
        setting,
        projects=(*setting.projects, *urgent),
        budgets={**setting.budgets, **budgets},
        guards=dict.fromkeys(map(tree_of, cluster), guard) if task.notice_s else {},
    ), {name: each.performance for name, each in {**found.alone, **own}.items()}


class _Done(msgspec.Struct, frozen=True):
    performance: float


def run_play(task: NoticePlay, data: Path | None) -> NoticeOutcome:
    setting, done = setting_with(task, data)
    history = CONTRACTS["market"].play(setting, task.seed)
    metrics = measure(setting, {name: _Done(each) for name, each in done.items()}, history)
    urgent = {each.name for each in urgent_buyers(task.seed)}
    waits = [first_wait_s(each, history) for each in setting.projects if each.name in urgent]
    return NoticeOutcome(
        retention=fmean(kept for name, kept in metrics.retention.items() if name not in urgent),
        wasted_projects=metrics.wasted_projects,
        displaced=metrics.moves.displaced,
        urgent_wait_p50_s=quantile(waits, 0.5),
        urgent_wait_p95_s=quantile(waits, 0.95),
        urgent_retention=fmean(metrics.retention[name] for name in urgent),
    )


def first_wait_s(project: Project, history: History) -> float:
    """From its arrival to its first node; all of its time if it never gets one."""
    begun = [stint.from_us for stint in history.stints if stint.tenant == project.name]
    return (min(begun, default=project.ends_us) - project.arrives_us) / US_PER_S


@lru_cache(maxsize=1)
def _requests(data: Path | None) -> Requests:
    return requests_of(data)


@lru_cache(maxsize=512)
def _project(seed: int, number: int, data: Path | None) -> Project:
    return project(seed, number, _requests(data))


# --- the report ---------------------------------------------------------------------------------


def compute(wanted: Wanted, runs: Runs) -> NoticeReport:
    seeds = [AloneTask(seed, wanted.is_quick, (REGIME,)) for seed in wanted.seeds]
    crowds = dict(zip(wanted.seeds, runs.all(seeds, run_alone, AloneResult), strict=True))
    keys = list(product(NOTICES_S, wanted.seeds))
    tasks = [
        NoticePlay(seed, wanted.is_quick, notice_s, crowds[seed].comers) for notice_s, seed in keys
    ]
    found: dict[str, list[NoticeOutcome]] = {}
    for (notice_s, _), outcome in zip(keys, runs.all(tasks, run_play, NoticeOutcome), strict=True):
        found.setdefault(str(notice_s), []).append(outcome)
    return NoticeReport(
        figure="notice",
        notices={
            notice: {
                field: mean_interval([getattr(each, field) for each in outcomes])
                for field in NoticeOutcome.__struct_fields__
            }
            for notice, outcomes in found.items()
        },
        regime=REGIME,
        seeds=wanted.seeds,
        data="fitted" if runs.data is None else "azure",
        is_quick=wanted.is_quick,
    )


# --- for people ---------------------------------------------------------------------------------


def tell(report: NoticeReport) -> Iterator[FigureTable | str]:
    yield FigureTable(
        f"The market at {report.regime}, by notice",
        (
            "notice",
            *("mean\nretention", "projects'\nwork lost", "displaced"),
            *("urgent: median\nwait, s", "urgent: 95%\nwait, s", "urgent:\nretention"),
        ),
        tuple(_row(notice, its) for notice, its in report.notices.items()),
    )
    requests = "of the Azure traces" if report.data == "azure" else "made up by the fitted model"
    yield f"{means_over(report.seeds)}; requests {requests}."


def _row(notice: str, its: Mapping[str, Interval]) -> tuple[str, ...]:
    return (
        f"{notice} s",
        _shown(its["retention"], 100, "%"),
        _shown(its["wasted_projects"], 1, digits=2),
        _shown(its["displaced"], 1),
        _shown(its["urgent_wait_p50_s"], 1),
        _shown(its["urgent_wait_p95_s"], 1),
        _shown(its["urgent_retention"], 100, "%"),
    )


def _shown(interval: Interval, times: float, unit: str = "", digits: int = 1) -> str:
    low = interval.low
    margin = "" if low is None else f" ±{times * (interval.estimate - low):.{digits}f}"
    return f"{times * interval.estimate:.{digits}f}{unit}{margin}"


def draw(report: NoticeReport, path: Path) -> None:
    """Only who wants a picture waits for matplotlib."""
    from laissez.experiments.contract_pictures import draw_bars, look  # noqa: PLC0415

    draw_bars(
        path,
        title=drawn_title(TITLE, is_quick=report.is_quick),
        groups={
            f"{notice} s": {"market": its["retention"], "fair": its["urgent_retention"]}
            for notice, its in report.notices.items()
        },
        labels={"market": "everybody else", "fair": "urgent buyers"},
        looks={"market": look("market"), "fair": look("fair")},
        axis="Mean retention",
        footnote=f"{len(report.seeds)} seeds, 95% intervals; demand over capacity {report.regime}",
    )


FIGURE = Figure(name="notice", title=TITLE, compute=compute, tell=tell, draw=draw)
