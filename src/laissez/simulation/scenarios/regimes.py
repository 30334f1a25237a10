"""How much demand meets how much capacity, and what money tenants bring, in writing.

**Alone.** Every project first runs alone on the whole cluster, first come first served, whatever it
costs. The node-hours that it uses are its demand; what it gets done is the most that it can, and
the denominator of its retention under every contract.

**Regime.** Demand over capacity: the node-hours of all projects alone over those of the cluster.
Projects come in the order of their numbers, as many as bring the ratio nearest to the regime. So a
regime has all the projects of every lower one.

**Budgets**, in two readings. What a project would pay alone at list prices, times four, is the
money that it has (`demand`); or all have the same, the mean of that (`equal`). Four times, because
a tenant that wins its place at twice the list price must be able to stay. A project is worth its
budget: see `projects`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Literal

import msgspec

from laissez.model.paths import tree_of
from laissez.simulation.contracts.queueing import Queueing
from laissez.simulation.contracts.rules import FirstCome
from laissez.simulation.contracts.setting import History, Prices, Setting, nodes_of
from laissez.simulation.demand.population import HORIZON_US, project
from laissez.simulation.demand.projects import US_PER_HOUR, Project, Serving
from laissez.simulation.demand.requests import Requests

REGIMES = (0.4, 0.7, 1.0, 1.125, 2.25)
BudgetReading = Literal["equal", "demand"]
READINGS: tuple[BudgetReading, ...] = ("equal", "demand")
BASE_SHARES = (0.7, 1.0)
"""The market's floors, as a share of list prices: 0.7 as in LaissezCloud, section 5.1."""
BUDGET_FACTOR = 4

ON_DEMAND = {"h100": 6_880_000, "a100": 3_430_900}
"""AWS in the US since 2025-06-06, p5.48xlarge and p4de.24xlarge, a GPU (SkyPilot catalogue)."""
SPOT_SHARES = {"h100": 0.30, "a100": 0.41}
"""Median share of on-demand, AWS in the US, second half of 2025 (the same; A100 of 40 GB)."""

TREE = {"z": 2, "r": 2, "n": 2, "h": 2, "g": 4}
"""Two zones, in each two racks, in each two scale-up domains, in each two hosts with four GPUs: the
smallest tree in which every level branches. Hosts are as in Sailor (ETH Zurich, SOSP 2025)."""
RESOURCES = tuple(node for tree in ON_DEMAND for node in nodes_of(tree, TREE))
"""The same of each kind, so 128 GPUs."""


class Alone(msgspec.Struct, frozen=True):
    """What a project does with the whole cluster to itself."""

    node_hours: float
    performance: float
    list_cost_micros: float


class Crowd(msgspec.Struct, frozen=True):
    """The projects of a regime, and what each would do alone."""

    projects: tuple[Project, ...]
    alone: Mapping[str, Alone]
    ratio: float


def prices(base_share: float = BASE_SHARES[0]) -> Prices:
    return Prices(
        ON_DEMAND,
        {tree: round(rate * SPOT_SHARES[tree]) for tree, rate in ON_DEMAND.items()},
        {tree: round(rate * base_share) for tree, rate in ON_DEMAND.items()},
    )


def alone(project: Project, setting: Setting, seed: int) -> Alone:
    """Runs a project with the whole cluster to itself."""
    history = Queueing("fcfs", FirstCome()).play(setting.alone(project), seed)
    return Alone(
        node_hours(history),
        history.performance[project.name],
        sum(
            (stint.to_us - stint.from_us)
            / US_PER_HOUR
            * setting.prices.on_demand[tree_of(stint.resource)]
            for stint in history.stints
        ),
    )


def node_hours(history: History) -> float:
    return sum(stint.to_us - stint.from_us for stint in history.stints) / US_PER_HOUR


def is_satisfiable(project: Project, own: Alone) -> bool:
    """Alone, a job is done in time. There are nodes for all of a service's requests; those that it
    misses came sooner than it could start a node for them."""
    return isinstance(project.labour, Serving) or own.performance >= 1


def crowd(
    seed: int, ratio: float, requests: Requests, resources: tuple[str, ...] = RESOURCES
) -> Crowd:
    """Whoever comes in this regime."""
    empty = Setting(resources, prices(), (), {}, HORIZON_US)
    comers = (project(seed, number, requests) for number in count())
    return crowd_of(((each, alone(each, empty, seed)) for each in comers), ratio, resources)


def crowd_of(
    comers: Iterable[tuple[Project, Alone]], ratio: float, resources: tuple[str, ...] = RESOURCES
) -> Crowd:
    """The first of those who come, as many as bring demand nearest to the ratio. Who could not be
    satisfied alone is sent away."""
    capacity = len(resources) * HORIZON_US / US_PER_HOUR
    found: dict[str, Alone] = {}
    projects: list[Project] = []
    demand = 0.0
    for newcomer, own in comers:
        if not is_satisfiable(newcomer, own):
            continue
        if abs(demand + own.node_hours - ratio * capacity) > abs(demand - ratio * capacity):
            break
        projects.append(newcomer)
        found[newcomer.name] = own
        demand += own.node_hours
    return Crowd(tuple(projects), found, demand / capacity)


def budgets(crowd: Crowd, reading: BudgetReading) -> dict[str, int]:
    costs = {name: own.list_cost_micros for name, own in crowd.alone.items()}
    mean = sum(costs.values()) / len(costs)
    return {
        name: round(BUDGET_FACTOR * (mean if reading == "equal" else cost))
        for name, cost in costs.items()
    }


def setting_of(
    crowd: Crowd,
    reading: BudgetReading,
    base_share: float = BASE_SHARES[0],
    resources: tuple[str, ...] = RESOURCES,
) -> Setting:
    """The regime as something that a contract can play."""
    return Setting(
        resources, prices(base_share), crowd.projects, budgets(crowd, reading), HORIZON_US
    )
