"""How near a deadline is: the deadline policies, looking at a market.

The policies know spot and on-demand. Here a free node that costs less than the work on it is worth
is spot capacity; so is a node that is held with no more than a patient limit. On-demand is the node
that the budget can pay for, and a node that is held with a higher limit than a patient one: the
limit itself says how a node is held, and nothing has to be remembered.

Time is that of the reference, the slowest kind of node on which the job can be in time. On a faster
one the work left shrinks faster than time passes, and slack grows. So whichever node can be had at
the last moment, if it is the reference or better, it is in time.

What may go wrong between two looks is in the safety margin: a node lost at the worst moment, the
work since the last checkpoint, a cold start, twice over, and the time until the next step.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import Enum
from typing import Protocol

import msgspec

from laissez.adapters.asking import scope_to_ask
from laissez.adapters.econ import EconAdapter
from laissez.adapters.intent import own_orders
from laissez.adapters.view import MarketView
from laissez.deadline.job import BadJob, Job, Kind, Observation, Offer, hours
from laissez.deadline.policy import Policy
from laissez.model import Holding
from laissez.model.paths import tree_of
from laissez.performance.application import US_PER_S, Application


class DeadlineWork(Application, Protocol):
    """What is asked of an application beyond the hooks."""

    @property
    def deadline_us(self) -> int: ...

    @property
    def workers(self) -> tuple[str, ...]:
        """The nodes that work now; with those that are still starting it waits."""

    def work_left_us(self, kind: str) -> int: ...

    def cold_start_us(self, kind: str) -> int: ...

    def pace_of(self, kind: str) -> float:
        """The utility of one warm node of this kind, at full use."""


class Hurry(Enum):
    """How near the deadline is."""

    NONE = 0
    BEHIND = 1
    """The policy would pay for on-demand now."""
    LAST_CHANCE = 2
    """The slack is down to the safety margin."""


class DeadlinePlan(msgspec.Struct, frozen=True):
    """The job as the policies see it: on one node of the `reference` kind, from `released_us`."""

    job: Job
    reference: str
    released_us: int
    checkpoint_every_us: int


def plan_for(
    app: DeadlineWork,
    kinds: Collection[str],
    *,
    released_us: int,
    period_us: int,
    checkpoint_every_us: int,
) -> DeadlinePlan:
    """The job on the slowest kind of node that can be in time; made before the work begins.

    `kinds` are those that it may order.
    """
    usable = sorted({*kinds} & {*app.kinds}, key=lambda kind: (-app.work_left_us(kind), kind))
    if not usable:
        raise BadJob(
            f"none of {', '.join(sorted(kinds))} is a kind of node that the work can use; name "
            f"scopes in {', '.join(app.kinds)}"
        )
    fastest_us = app.work_left_us(usable[-1])
    cold_us = max(map(app.cold_start_us, usable))
    lost_us = min(checkpoint_every_us, fastest_us)  # nobody loses more than all the work
    for kind in usable:
        work_us = app.work_left_us(kind)
        changeover_us = cold_us + -(-lost_us * work_us // max(1, fastest_us))
        try:
            job = Job(work_us, app.deadline_us - released_us, changeover_us, period_us)
        except BadJob:
            continue
        return DeadlinePlan(job, kind, released_us, checkpoint_every_us)
    raise BadJob(
        f"the deadline is {hours(app.deadline_us - released_us)} away, and even on {usable[-1]} "
        f"the work takes {hours(fastest_us)}, with {hours(cold_us)} for a start and "
        f"{hours(lost_us)} for work lost since a checkpoint "
        f"{hours(fastest_us + cold_us + lost_us)}; move the deadline, make the work shorter or "
        "save it oftener"
    )


def hurry(
    plan: DeadlinePlan,
    policy: Policy,
    econ: EconAdapter,
    app: DeadlineWork,
    view: MarketView,
    held: Sequence[Holding],
) -> Hurry:
    """How much of a hurry a job is in, by a policy made for its plan."""
    seen = observation(plan, econ, app, view, held)
    if policy.slack_us(seen) < policy.net_us:
        return Hurry.LAST_CHANCE
    decided = policy.decide(seen)
    is_urgent = decided is not None and decided.kind is Kind.ON_DEMAND
    return Hurry.BEHIND if is_urgent else Hurry.NONE


def observation(
    plan: DeadlinePlan,
    econ: EconAdapter,
    app: DeadlineWork,
    view: MarketView,
    held: Sequence[Holding],
) -> Observation:
    """What the policy sees."""
    node = soonest_done(app, held)
    return Observation(
        view.at_us - plan.released_us,
        app.work_left_us(plan.reference),
        None if node is None else _held_as(plan, econ, app, node),
        0 if node is None else round(app.cold_start_s(node.resource) * US_PER_S),
        Offer(plan.reference, Kind.ON_DEMAND, 0),
        tuple(sorted(_spot(econ, app, view), key=lambda offer: offer.micros_per_hour)),
        (),
    )


def _spot(econ: EconAdapter, app: DeadlineWork, view: MarketView) -> Iterator[Offer]:
    """What is free, or can't be seen and was not asked yet, and costs less than work is worth."""
    asked = {order.scope for order in own_orders(econ.terms, view)}
    for scope in econ.terms.scopes:
        place, kind = scope_to_ask(view, scope), tree_of(scope)
        if place is None or place.rate > _value(econ, app, kind):
            continue
        if place.is_free or not (place.is_seen or scope in asked):
            yield Offer(kind, Kind.SPOT, place.rate)


def _held_as(plan: DeadlinePlan, econ: EconAdapter, app: DeadlineWork, node: Holding) -> Offer:
    """No limit is higher while the job is patient."""
    kind = tree_of(node.resource)
    redone_s = plan.checkpoint_every_us / US_PER_S
    patient_most = econ.pricing.limit(
        _value(econ, app, kind),
        app.cold_start_s(kind),
        redone_s,
        node.rate,
        ends_in_s=app.ends_in_s(node.resource),
    )
    return Offer(kind, Kind.SPOT if node.limit <= patient_most else Kind.ON_DEMAND, node.rate)


def _value(econ: EconAdapter, app: DeadlineWork, kind: str) -> float:
    """What an hour on this kind of node is worth, at full use."""
    return econ.micros_per_unit * app.pace_of(kind) if kind in app.kinds else 0.0


def time_needed_us(app: DeadlineWork, place: str) -> int:
    """Until the work is done, on a node of its own or on one that it would have to get."""
    cold_us = round(app.cold_start_s(place) * US_PER_S)
    return cold_us + app.work_left_us(tree_of(place))


def is_better(app: DeadlineWork, at_us: int, place: str, held: str) -> bool:
    """Where neither is in time: whether more would be done by the deadline there, or if that has
    passed, whether all would be done sooner."""
    left_us = app.deadline_us - at_us
    if left_us <= 0:
        return time_needed_us(app, place) < time_needed_us(app, held)

    def done(at: str, work_us: float) -> float:
        return app.pace_of(tree_of(at)) * max(0.0, work_us - app.cold_start_s(at) * US_PER_S)

    redone_us = app.since_checkpoint_s(held) * US_PER_S
    return done(place, left_us) > done(held, left_us + redone_us)


def soonest_done(app: DeadlineWork, held: Sequence[Holding]) -> Holding | None:
    """Of the nodes held, the one that would be done first."""
    usable = [each for each in held if tree_of(each.resource) in app.kinds]
    return min(usable, key=lambda each: time_needed_us(app, each.resource), default=None)


def at_work(app: DeadlineWork, held: Sequence[Holding]) -> list[Holding]:
    """The nodes on which the work is done now."""
    return [each for each in held if each.resource in app.workers]
