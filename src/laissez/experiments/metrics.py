"""What one run was like: for the projects, for whoever pays, for the operator.

**Retention** is what a project got done over what it gets done alone on the whole cluster, at most
1: the same denominator under every contract. It is in projects, so different work can be added up.
Degradation is what is missing to 1 on average.

**Performance per cost** is the retention of all projects over the dollars of all projects: how many
projects' worth of work a dollar bought. It is no mean of ratios, in which a project that paid
nearly nothing for nearly nothing would count as much as all others.

**Credits** are what services give back to their customers where they miss their objectives too
often, by the tiers of their agreement. Customers pay what the project is worth for all requests,
and for those within the objective as much of it as they are of all.

**Moves.** A holding can end in three ways. The holder is *displaced*: another's bid, the operator's
floor, a preemption or a withdrawal takes it, whatever the holder wants. Or the holder has *given it
up*: it has lowered its limit below the rate, or released the node, on purpose, since the node is
worth less to it than it costs. Or it has *relinquished* what it needs no more, or can't pay, or
leaves behind at its end.
A holder whose own order takes the node from it has kept it, and who has had a node for no time has
never had it: nothing has moved.

**Wasted work** is what had been done and was lost with a node, in projects' worth: each loss is a
share of what its project gets done alone. Cold starts are no part of it.

**Utilisation** is of nodes held, cold or warm: a history does not tell when a node began to work.

**Volatility** is of the mean rate of a tree's nodes, so it knows two sources: rates that change,
and holders at different rates who come and go. With fixed prices only the second is left.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import fmean, pstdev
from typing import Literal, Protocol

import msgspec

from laissez.experiments.gang_waits import GangWait, gang_waits
from laissez.experiments.intervals import quantile
from laissez.model.values import MICROS_PER_DOLLAR
from laissez.performance.application import US_PER_S
from laissez.performance.inference import service_credit
from laissez.simulation.contracts.recording import micros
from laissez.simulation.contracts.setting import TOO_DEAR, History, Setting, Stint
from laissez.simulation.demand.projects import US_PER_HOUR, Batch, Project, Serving, Training

STARVED_BELOW = 0.1
"""The retention below which a project counts as starved."""

HoldingEnd = Literal["displaced", "given_up", "relinquished"]
ENDINGS: dict[str, HoldingEnd] = {
    "outbid": "displaced",
    "floor": "displaced",
    "withdrawn": "displaced",
    "preempted": "displaced",
    "limit": "given_up",
    TOO_DEAR: "given_up",
    "relinquished": "relinquished",
}
"""Whose will it was, by the reason for which a stint ended."""


class Reference(Protocol):
    """What a project does alone."""

    @property
    def performance(self) -> float: ...


class Quartiles(msgspec.Struct, frozen=True):
    p25: float
    median: float
    p75: float


class Throughput(msgspec.Struct, frozen=True):
    """What all projects of a class got done, over the whole run."""

    requests_within_objective_per_s: float
    training_hours_per_hour: float
    """Hours of work on one node of the job's first kind."""
    batch_jobs_done: int


class Moves(msgspec.Struct, frozen=True):
    displaced: int = 0
    given_up: int = 0
    relinquished: int = 0


class Metrics(msgspec.Struct, frozen=True):
    """All that is measured of a run; by project or by tree where it says so."""

    retention: dict[str, float]
    mean_retention: float
    quartiles: Quartiles
    degradation: float
    cost_dollars: dict[str, float]
    total_cost_dollars: float
    revenue_charge: int
    """The sum of all charges, exactly, in the market's unit."""
    retention_per_dollar: float | None
    """None if nothing was charged."""
    credits_dollars: dict[str, float]
    """Of services that give some back."""
    throughput: Throughput
    utilisation: float
    moves: Moves
    wasted_projects: float
    volatility: dict[str, float]
    fairness: float
    """Jain's index over retention."""
    starved: int
    starved_share: float
    gangs: dict[str, GangWait] = {}
    """Of jobs of a fixed size, how long each waited for its nodes."""


def measure(setting: Setting, alone: Mapping[str, Reference], history: History) -> Metrics:
    """Everything at once; `alone` has all projects of the setting, and may have more."""
    own = {project.name: alone[project.name] for project in setting.projects}
    kept = retention(own, history)
    shares = tuple(kept.values())
    charges = _charges(setting.projects, history.stints)
    revenue = sum(charges.values())
    starved = sum(share < STARVED_BELOW for share in shares)
    return Metrics(
        retention=kept,
        mean_retention=fmean(shares),
        quartiles=Quartiles(*(quantile(shares, at) for at in (0.25, 0.5, 0.75))),
        degradation=1 - fmean(shares),
        cost_dollars={name: _dollars(charge) for name, charge in charges.items()},
        total_cost_dollars=_dollars(revenue),
        revenue_charge=revenue,
        retention_per_dollar=sum(shares) / _dollars(revenue) if revenue else None,
        credits_dollars=_credits(setting, history),
        throughput=_throughput(setting, history),
        utilisation=_utilisation(setting, history.stints),
        moves=_moves(history.stints),
        wasted_projects=_wasted(own, history),
        volatility={tree: volatility(rates) for tree, rates in history.rates.items()},
        fairness=fairness(shares),
        starved=starved,
        starved_share=starved / len(shares),
        gangs=gang_waits(setting, history),
    )


def retention(alone: Mapping[str, Reference], history: History) -> dict[str, float]:
    """By project, what it got done over what it gets done alone, at most 1.

    Who gets nothing done alone has nothing to lose, and retains 1 under every contract, whatever it
    does there: so no contract looks better than another for it. All of them look a little better
    than they are; whoever draws projects should draw none like that.
    """
    return {
        name: min(1.0, history.performance[name] / own.performance) if own.performance else 1.0
        for name, own in alone.items()
    }


def fairness(shares: Sequence[float]) -> float:
    """Jain's index: the square of the sum over the count times the sum of squares. 1 if all have
    the same, also if all have nothing; 1/count if one has everything."""
    most = max(shares)
    if not most:
        return 1.0
    scaled = [share / most for share in shares]  # or squares of very small ones would be 0
    squares = sum(share * share for share in scaled)
    return min(1.0, sum(scaled) ** 2 / (len(shares) * squares))


def volatility(rates: Iterable[int]) -> float:
    """The standard deviation of the logarithmic changes from one minute to the next.

    Only minutes with a holder who pays count, and only a change between two that are neighbours; 0
    where there is none.
    """
    changes = [
        math.log(later / earlier) for earlier, later in pairwise(rates) if earlier > 0 and later > 0
    ]
    return pstdev(changes) if changes else 0.0


def _dollars(charge: int) -> float:
    return micros(charge) / MICROS_PER_DOLLAR


def _charges(projects: Iterable[Project], stints: Iterable[Stint]) -> dict[str, int]:
    """By project, and exactly."""
    charges = {project.name: 0 for project in projects}
    for stint in stints:
        charges[stint.tenant] += stint.charge
    return charges


def _credits(setting: Setting, history: History) -> dict[str, float]:
    """By project; who has no budget is worth no certain amount."""
    credits: dict[str, float] = {}
    for project in setting.projects:
        labour = project.labour
        worth = setting.budgets.get(project.name, 0) / MICROS_PER_DOLLAR
        if isinstance(labour, Serving) and labour.requests:
            attainment = history.performance[project.name] / labour.requests
            credit = service_credit(attainment) * attainment * worth
            if credit:
                credits[project.name] = credit
    return credits


def _throughput(setting: Setting, history: History) -> Throughput:
    requests, hours, jobs = 0.0, 0.0, 0
    for project in setting.projects:
        done = history.performance[project.name]
        match project.labour:
            case Serving():
                requests += done
            case Training() as training:
                hours += done * training.hours
            case Batch():
                jobs += done >= 1
    horizon_us = setting.horizon_us
    return Throughput(requests * US_PER_S / horizon_us, hours * US_PER_HOUR / horizon_us, jobs)


def _utilisation(setting: Setting, stints: Iterable[Stint]) -> float:
    """Node-hours held over node-hours there are."""
    held_us = sum(stint.to_us - stint.from_us for stint in stints)
    return held_us / (len(setting.resources) * setting.horizon_us)


def _moves(stints: Sequence[Stint]) -> Moves:
    counts = Counter[str](ending for _, ending in moves(stints))
    return Moves(**counts)


def moves(stints: Sequence[Stint]) -> Iterator[tuple[str, HoldingEnd]]:
    """Who had a node no more, and how that came. A history tells the stints of each resource in
    their order; here they are read backwards, so that it is known who had the resource next."""
    following: dict[str, Stint] = {}
    for stint in reversed(stints):
        after = following.get(stint.resource)
        following[stint.resource] = stint
        is_kept = after is not None and (after.tenant, after.from_us) == (stint.tenant, stint.to_us)
        if stint.reason is not None and stint.to_us > stint.from_us and not is_kept:
            yield stint.tenant, ENDINGS[stint.reason]


def _wasted(alone: Mapping[str, Reference], history: History) -> float:
    return math.fsum(
        loss.wasted / alone[loss.tenant].performance
        for loss in history.losses
        if alone[loss.tenant].performance
    )
