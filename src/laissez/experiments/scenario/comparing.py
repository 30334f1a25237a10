"""Runs of a scenario: every seed alone first, then every contract on every seed.

A task is the text of the file and where it lies, so that it can run in any process and be found
again in a cache; the files that it names are among those that the cache knows of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path

import msgspec

from laissez.experiments.intervals import Interval, lowering
from laissez.experiments.metrics import Metrics, measure, moves
from laissez.experiments.runs import Runs
from laissez.experiments.summaries import ContractSummary, RunOutcome, summary_of
from laissez.model.values import MICROS_PER_DOLLAR
from laissez.simulation.contracts.clairvoyant import bound
from laissez.simulation.contracts.recording import MINUTE_US
from laissez.simulation.contracts.registry import CLAIRVOYANT, CONTRACTS
from laissez.simulation.contracts.setting import History, Setting
from laissez.simulation.demand import requests as traces
from laissez.simulation.demand.fitted import requests_of
from laissez.simulation.demand.projects import US_PER_HOUR, Class, Project, Serving
from laissez.simulation.demand.requests import Requests
from laissez.simulation.scenarios.regimes import Alone
from laissez.simulation.scenarios.scenario import Scenario, read_scenario


class ScenarioFile(msgspec.Struct, frozen=True):
    """The file: its text, its name, and where it lies."""

    text: str
    file_name: str
    folder: str

    def scenario(self) -> Scenario:
        return _read(self)


@lru_cache(maxsize=1)
def _read(source: ScenarioFile) -> Scenario:
    return read_scenario(source.text, file_name=source.file_name, folder=Path(source.folder))


@lru_cache(maxsize=1)
def _requests(data: Path | None) -> Requests:
    return requests_of(data)


class ScenarioSeed(msgspec.Struct, frozen=True):
    source: ScenarioFile
    seed: int


class ScenarioPlay(msgspec.Struct, frozen=True):
    source: ScenarioFile
    seed: int
    contract: str
    alone: dict[str, Alone]


class TenantOutcome(msgspec.Struct, frozen=True):
    """What became of one tenant in one run."""

    kind: Class
    arrives_us: int
    ends_us: int
    retention: float
    cost_dollars: float
    budget_dollars: float
    node_hours: float
    node_hours_alone: float
    done_alone: float
    """Which share of its work, or of its requests in time."""
    nodes_lost: int
    """Those that others took, or that it gave up to them."""


class Played(msgspec.Struct, frozen=True):
    outcome: RunOutcome
    tenants: dict[str, TenantOutcome] = {}
    held: dict[str, tuple[float, ...]] = {}
    """By tenant, its nodes on average, minute by minute."""
    rates: dict[str, tuple[int, ...]] = {}
    """By tree, in micro-dollars per hour, minute by minute; -1 where no node was held."""


class ScenarioComparison(msgspec.Struct, frozen=True):
    """All runs of a scenario."""

    seeds: tuple[int, ...]
    demand_over_capacity: float
    """On average over the seeds."""
    played: dict[str, tuple[Played, ...]]
    """By contract, a run for each seed."""

    def summaries(self) -> dict[str, ContractSummary]:
        return {
            name: summary_of([run.outcome for run in runs]) for name, runs in self.played.items()
        }

    def lowering(self, one: str, other: str) -> Interval | None:
        """By how much one's degradation is lower than the other's."""

        def degradations(name: str) -> Mapping[int, float]:
            runs = zip(self.seeds, self.played[name], strict=True)
            return {seed: run.outcome.degradation for seed, run in runs}

        return lowering(degradations(one), degradations(other))


def run_alone(task: ScenarioSeed, data: Path | None) -> dict[str, Alone]:
    return task.source.scenario().all_alone(task.seed, _requests(data))


def run_play(task: ScenarioPlay, data: Path | None) -> Played:
    setting = setting_of(task.source, task.seed, task.alone, data)
    if task.contract == CLAIRVOYANT:
        alone = {name: own.performance for name, own in task.alone.items()}
        return Played(RunOutcome(dict(bound(setting, alone).retention)))
    history = CONTRACTS[task.contract].play(setting, task.seed)
    metrics = measure(setting, task.alone, history)
    lost = Counter(who for who, how in moves(history.stints) if how != "relinquished")
    tenants = {
        project.name: _tenant(project, setting, task.alone, history, metrics, lost[project.name])
        for project in setting.projects
    }
    outcome = RunOutcome(metrics.retention, metrics)
    return Played(outcome, tenants, _held(setting, history), dict(history.rates))


def setting_of(
    source: ScenarioFile, seed: int, alone: Mapping[str, Alone], data: Path | None
) -> Setting:
    return source.scenario().setting(seed, _requests(data), alone)


def alone_of(source: ScenarioFile, seeds: Sequence[int], runs: Runs) -> list[dict[str, Alone]]:
    return runs.all([ScenarioSeed(source, seed) for seed in seeds], run_alone, dict[str, Alone])


def compare(
    source: ScenarioFile, contracts: Sequence[str], seeds: Sequence[int], runs: Runs
) -> ScenarioComparison:
    alone_by_seed = alone_of(source, seeds, runs)
    tasks = [
        ScenarioPlay(source, seed, contract, alone)
        for contract, (seed, alone) in product(contracts, zip(seeds, alone_by_seed, strict=True))
    ]
    found = runs.all(tasks, run_play, Played)
    played = {
        contract: tuple(found[at * len(seeds) : (at + 1) * len(seeds)])
        for at, contract in enumerate(contracts)
    }
    hours = sum(own.node_hours for alone in alone_by_seed for own in alone.values())
    capacity = source.scenario().node_hours * len(seeds)
    return ScenarioComparison(tuple(seeds), hours / capacity, played)


def files_of(source: ScenarioFile, data: Path | None) -> tuple[Path, ...]:
    """All that the runs read beside the text."""
    return (*source.scenario().files, *traces.files_of(data))


def _tenant(
    project: Project,
    setting: Setting,
    alone: Mapping[str, Alone],
    history: History,
    metrics: Metrics,
    nodes_lost: int,
) -> TenantOutcome:
    own = [stint for stint in history.stints if stint.tenant == project.name]
    return TenantOutcome(
        kind=project.kind,
        arrives_us=project.arrives_us,
        ends_us=project.ends_us,
        retention=metrics.retention[project.name],
        cost_dollars=metrics.cost_dollars[project.name],
        budget_dollars=setting.budgets[project.name] / MICROS_PER_DOLLAR,
        node_hours=sum(stint.to_us - stint.from_us for stint in own) / US_PER_HOUR,
        node_hours_alone=alone[project.name].node_hours,
        done_alone=done_alone(project, alone[project.name]),
        nodes_lost=nodes_lost,
    )


def done_alone(project: Project, alone: Alone) -> float:
    """Which share of its work, or of its requests in time, with the whole cluster to itself."""
    labour = project.labour
    return alone.performance / labour.requests if isinstance(labour, Serving) else alone.performance


def _held(setting: Setting, history: History) -> dict[str, tuple[float, ...]]:
    minutes = -(-setting.horizon_us // MINUTE_US)
    held = {project.name: [0.0] * minutes for project in setting.projects}
    for stint in history.stints:
        own = held[stint.tenant]
        for minute in range(stint.from_us // MINUTE_US, -(-stint.to_us // MINUTE_US)):
            begins_us = max(stint.from_us, minute * MINUTE_US)
            ends_us = min(stint.to_us, (minute + 1) * MINUTE_US)
            own[minute] += (ends_us - begins_us) / MINUTE_US
    return {name: tuple(nodes) for name, nodes in held.items()}
