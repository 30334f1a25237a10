"""A scenario's runs in words: contracts beside each other, and tenants one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

import msgspec
from rich.console import RenderableType
from rich.table import Table

from laissez.cli.terminal.amounts import counted, show_duration, show_rate
from laissez.cli.terminal.output import table
from laissez.experiments.intervals import Interval
from laissez.experiments.scenario.comparing import Played, ScenarioComparison, done_alone
from laissez.experiments.summaries import ContractSummary
from laissez.model.message import Message
from laissez.model.paths import tree_of
from laissez.model.values import MICROS_PER_DOLLAR
from laissez.performance.application import US_PER_S
from laissez.simulation.contracts.setting import Setting
from laissez.simulation.demand.projects import Class, Project
from laissez.simulation.life.life import Life
from laissez.simulation.scenarios.regimes import Alone
from laissez.simulation.scenarios.scenario import Scenario

ENOUGH: dict[Class, float] = {
    "inference": 0.6,
    "training": 0.99,
    "batch": 0.99,
    "rigid": 0.99,
}
"""Who gets less than this done alone asks for more than the cluster can do. Even a service that has
enough of it is late when it begins, and when a burst comes."""


class CheckedTenant(msgspec.Struct, frozen=True):
    kind: Class
    arrives_us: int
    ends_us: int
    node_hours_alone: float
    performance_alone: float
    done_alone: float
    budget_dollars: float


class ScenarioChecked(Message, frozen=True):
    """What a scenario was understood to say, for one seed."""

    title: str
    seed: int
    nodes: dict[str, int]
    on_demand_micros_per_hour: dict[str, int]
    spot_micros_per_hour: dict[str, int]
    base_micros_per_hour: dict[str, int]
    duration_us: int
    period_us: int
    contracts: tuple[str, ...]
    demand_over_capacity: float
    tenants: dict[str, CheckedTenant]
    doubts: tuple[str, ...]
    """What can be played, and is perhaps not what was meant."""


class MeanTenant(msgspec.Struct, frozen=True):
    """A tenant under one contract: means over the seeds in which it comes."""

    kind: Class
    retention: float
    cost_dollars: float
    budget_dollars: float
    node_hours: float
    node_hours_alone: float
    done_alone: float
    nodes_lost: float


class ScenarioCompared(Message, frozen=True):
    """By contract, what it comes to."""

    title: str
    seeds: tuple[int, ...]
    data: str
    nodes: dict[str, int]
    demand_over_capacity: float
    contracts: dict[str, ContractSummary]
    tenants: dict[str, dict[str, MeanTenant]]
    """By contract, by tenant."""
    doubts: tuple[str, ...]


class ScenarioExplained(Message, frozen=True):
    life: Life


# --- check --------------------------------------------------------------------------------------


def checked(
    scenario: Scenario, setting: Setting, alone: Mapping[str, Alone], *, title: str, seed: int
) -> ScenarioChecked:
    prices = setting.prices
    tenants = {
        project.name: CheckedTenant(
            project.kind,
            project.arrives_us,
            project.ends_us,
            alone[project.name].node_hours,
            alone[project.name].performance,
            done_alone(project, alone[project.name]),
            setting.budgets[project.name] / MICROS_PER_DOLLAR,
        )
        for project in setting.projects
    }
    return ScenarioChecked(
        title,
        seed,
        dict(scenario.sizes),
        dict(prices.on_demand),
        dict(prices.spot),
        dict(prices.base),
        setting.horizon_us,
        setting.period_us,
        scenario.spec.contracts,
        sum(own.node_hours for own in alone.values()) / scenario.node_hours,
        tenants,
        (*_idle(scenario.sizes, setting.projects), *_too_much(tenants)),
    )


def check_report(found: ScenarioChecked, setting: Setting) -> Iterator[RenderableType]:
    nodes = counted(sum(found.nodes.values()), "node")
    yield f"{found.title}: {nodes} for {show_duration(found.duration_us)}"
    yield ""
    prices = ("on demand", "spot", "market's floor")
    rows = [
        [
            tree,
            f"{number:,}",
            show_rate(found.on_demand_micros_per_hour[tree]),
            show_rate(found.spot_micros_per_hour[tree]),
            show_rate(found.base_micros_per_hour[tree]),
        ]
        for tree, number in found.nodes.items()
    ]
    yield table("tree", "nodes", *prices, rows=rows, right=("nodes", *prices))
    yield ""
    yield _comers(found)
    yield ""
    yield (
        f"Demand over capacity: {found.demand_over_capacity:.2f} (the node-hours that tenants use "
        "alone, over those that there are)"
    )
    yield f"Contracts: {', '.join(found.contracts)}"
    yield from found.doubts


def _idle(sizes: Mapping[str, int], projects: Sequence[Project]) -> Iterator[str]:
    usable = {tree_of(scope) for project in projects for scope in project.scopes}
    for tree, number in sizes.items():
        if tree not in usable:
            nodes = counted(number, "node")
            yield f"Nobody can use {tree}; what it has ({nodes}) stays idle, and is capacity."


def _too_much(tenants: Mapping[str, CheckedTenant | MeanTenant]) -> Iterator[str]:
    for name, its in tenants.items():
        if its.done_alone < ENOUGH[its.kind]:
            yield (
                f"{name} gets {its.done_alone:.0%} done even with the whole cluster, and retention "
                "is of that: make it ask for less, let it have more nodes, or make the cluster "
                "larger."
            )


def _comers(found: ScenarioChecked) -> Table:
    columns = ("from", "to", "node-hours\nalone", "done alone", "budget")
    rows = []
    for name, its in found.tenants.items():
        what = "of requests" if its.kind == "inference" else "of the work"
        rows.append(
            [
                name,
                its.kind,
                _clock(its.arrives_us),
                _clock(its.ends_us),
                f"{its.node_hours_alone:.2f}",
                f"{its.done_alone:.0%} {what}",
                f"${its.budget_dollars:,.2f}",
            ]
        )
    return table("tenant", "kind", *columns, rows=rows, right=columns)


def _clock(at_us: int) -> str:
    return show_duration(at_us // 1_000_000 * 1_000_000)


# --- run and compare ----------------------------------------------------------------------------


def compared(
    scenario: Scenario, comparison: ScenarioComparison, *, title: str, data: str
) -> ScenarioCompared:
    tenants = {name: mean_tenants(runs) for name, runs in comparison.played.items()}
    everybody = next((each for each in tenants.values() if each), {})
    return ScenarioCompared(
        title,
        comparison.seeds,
        data,
        dict(scenario.sizes),
        comparison.demand_over_capacity,
        comparison.summaries(),
        tenants,
        tuple(_too_much(everybody)),
    )


def mean_tenants(runs: Sequence[Played]) -> dict[str, MeanTenant]:
    names = dict.fromkeys(name for run in runs for name in run.tenants)
    means = {}
    for name in names:
        own = [run.tenants[name] for run in runs if name in run.tenants]
        figures = {
            field: fmean(getattr(each, field) for each in own)
            for field in MeanTenant.__struct_fields__
            if field != "kind"
        }
        means[name] = MeanTenant(own[0].kind, **figures)
    return means


def compare_report(
    found: ScenarioCompared, comparison: ScenarioComparison
) -> Iterator[RenderableType]:
    yield _contracts(found)
    yield from _gangs(found)
    yield ""
    yield _by_tenant(found)
    yield ""
    yield _basis(found)
    yield from _against(comparison)
    yield from found.doubts


def _contracts(found: ScenarioCompared) -> Table:
    money = ("paid in\nall", "paid a\nnode-hour")
    columns = ("mean\nretention", "quartiles", *money, "nodes\nheld", "nodes\nlost", "starved")
    rows = [[name, *_figures(found, name)] for name in found.contracts]
    return table("contract", *columns, rows=rows, right=columns, title=found.title)


def _figures(found: ScenarioCompared, contract: str) -> Iterator[str]:
    its = found.contracts[contract]
    margin = "" if its.ci95[0] is None else f" ±{100 * (its.mean_retention - its.ci95[0]):.1f}"
    yield f"{100 * its.mean_retention:.1f}%{margin}"
    middle = its.quartiles
    if middle is None or its.cost_dollars is None or its.moves is None:  # a bound
        yield from [""] * 6
        return
    yield f"{middle.p25:.0%} {middle.median:.0%} {middle.p75:.0%}"
    hours = sum(each.node_hours for each in found.tenants[contract].values())
    paid = sum(each.cost_dollars for each in found.tenants[contract].values())
    yield f"${its.cost_dollars:,.2f}"
    yield f"${paid / hours:,.2f}" if hours else ""
    yield f"{its.utilisation:.0%}"
    yield f"{its.moves['displaced'] + its.moves['given_up']:.1f}".removesuffix(".0")
    yield f"{its.starved:.1f}".removesuffix(".0")


def _by_tenant(found: ScenarioCompared) -> Table:
    contracts = [name for name in found.contracts if found.tenants[name]]
    kinds = {name: its.kind for by in found.tenants.values() for name, its in by.items()}
    rows = [
        [name, kind, *(f"{found.tenants[each][name].retention:.0%}" for each in contracts)]
        for name, kind in kinds.items()
    ]
    title = "Retention by tenant"
    return table("tenant", "kind", *contracts, rows=rows, right=contracts, title=title)


def _basis(found: ScenarioCompared) -> str:
    seeds = found.seeds
    said = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    interval = "" if len(seeds) == 1 else "; ± is the 95% interval of the mean"
    return f"Demand over capacity {found.demand_over_capacity:.2f}, {said}{interval}."


def _against(comparison: ScenarioComparison) -> Iterator[str]:
    """By how much the market's degradation is lower, or higher, than that of each other one."""
    if "market" not in comparison.played:
        return
    others = [name for name, runs in comparison.played.items() if runs[0].tenants]
    for other in others:
        if other == "market":
            continue
        found = comparison.lowering("market", other)
        if found is None:
            yield f"Nobody loses anything under {other}, so the market can't lose less."
            continue
        mine, its = (_lost(comparison, name) for name in ("market", other))
        yield _verdict(other, mine, its, found, len(comparison.seeds))


def _lost(comparison: ScenarioComparison, contract: str) -> float:
    """The share that is lost under a contract, on average over the seeds."""
    return fmean(run.outcome.degradation for run in comparison.played[contract])


def _verdict(other: str, mine: float, its: float, found: Interval, seeds: int) -> str:
    """A share of a small loss looks large, so what is lost stands beside it; and who loses less is
    said only where chance does not explain it."""
    both = f"The market loses {mine:.1%}, {other} {its:.1%}"
    if seeds == 1:
        return f"{both}, with one seed; whether that is chance, more --seeds tell."
    word = "less" if found.estimate >= 0 else "more"
    share = f"{abs(found.estimate):.0%} {word}"
    if found.low is None or found.high is None or found.low <= 0 <= found.high:
        return f"{both}: {share}, which may be chance with {seeds} seeds."
    low, high = sorted((abs(found.low), abs(found.high)))
    return f"{both}: {share} ({low:.0%} to {high:.0%})."


def _gangs(found: ScenarioCompared) -> Iterator[RenderableType]:
    """How long jobs of a fixed size wait, if there are any."""
    waits = {name: its.gangs for name, its in found.contracts.items() if its.gangs is not None}
    if not waits:
        return
    columns = ("jobs", "wait\nmedian", "wait\n95%", "until they\nstart", "stopped", "starved")
    rows = [
        [
            name,
            str(its.jobs),
            *(
                show_duration(round(each) * US_PER_S)
                for each in (its.wait_p50_s, its.wait_p95_s, its.first_wait_p50_s)
            ),
            str(its.stops),
            str(its.starved),
        ]
        for name, its in waits.items()
    ]
    yield ""
    title = "Jobs of a fixed size"
    yield table("contract", *columns, rows=rows, right=columns, title=title)


def run_report(found: ScenarioCompared, contract: str) -> Iterator[RenderableType]:
    yield _contracts(found)
    yield from _gangs(found)
    yield ""
    columns = ("retention", "node-\nhours", "alone", "paid", "budget", "nodes\nlost")
    rows = [
        [
            name,
            its.kind,
            f"{its.retention:.1%}",
            f"{its.node_hours:.2f}",
            f"{its.node_hours_alone:.2f}",
            f"${its.cost_dollars:,.2f}",
            f"${its.budget_dollars:,.2f}",
            f"{its.nodes_lost:.1f}".removesuffix(".0"),
        ]
        for name, its in found.tenants[contract].items()
    ]
    yield table("tenant", "kind", *columns, rows=rows, right=columns)
    yield ""
    yield _basis(found)
    yield from found.doubts
