"""Work with a deadline: patient while there is slack, and sure of a node when there is none.

While there is slack the job trades like any other (`econ`): it takes what is free at a price below
its value, bids what the pace that it still needs is worth, gives way to whoever offers more, and
resumes later. A deadline policy watches meanwhile, in the time of the slowest kind of node on
which the job can be in time. When the policy would go to on-demand, or when the slack is down to
the safety margin, the job is urgent. On this market nothing has to move for that: the node that is
held turns from spot into on-demand by a higher limit, and is charged no more than before unless
somebody competes. An urgent job offers what it can afford, which is what is left of its budget over
the time that it still needs; so it is late only if no node can be had within its budget.

What may go wrong between two looks is in the margin: a node lost at the worst moment, the work
since the last checkpoint, a cold start, and the time until the next step.

Ahead of time, it trades down: where another kind would finish the rest for less, by more than the
start there costs, it orders a node there, works on until that one is warm, and leaves the old one
right after a checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from laissez.adapters.budget import STEPS_COVERED
from laissez.adapters.econ import EconAdapter, quote_of
from laissez.adapters.intent import Intent, Keep, Terms, Wish, actions_for, own_holdings
from laissez.adapters.view import Action, MarketView, kind_of
from laissez.deadline.job import US_PER_HOUR, BadJob, Job, Kind, Observation, Offer, hours
from laissez.deadline.policy import Policy
from laissez.model import Holding
from laissez.model.values import MAX_RATE
from laissez.workloads.application import US_PER_S, Application


class DeadlineWork(Application, Protocol):
    """What is asked of an application beyond the hooks."""

    @property
    def deadline_us(self) -> int: ...

    def work_left_us(self, kind: str) -> int: ...

    def cold_start_us(self, kind: str) -> int: ...

    def pace_of(self, kind: str) -> float:
        """The utility of one warm node of this kind, at full use."""


class Plan(msgspec.Struct, frozen=True):
    """The job as the policies see it: on one node of the `reference` kind, from `released_us`."""

    job: Job
    reference: str
    released_us: int


def plan_for(
    app: DeadlineWork, *, released_us: int, period_us: int, checkpoint_every_us: int
) -> Plan:
    """The job on the slowest kind of node that can be in time; made before the work begins."""
    kinds = sorted(app.kinds, key=app.work_left_us, reverse=True)
    fastest_us = app.work_left_us(kinds[-1])
    for kind in kinds:
        work_us = app.work_left_us(kind)
        redone_us = -(-checkpoint_every_us * work_us // max(1, fastest_us))
        changeover_us = max(map(app.cold_start_us, app.kinds)) + redone_us
        try:
            job = Job(work_us, app.deadline_us - released_us, changeover_us, period_us)
        except BadJob:
            continue
        return Plan(job, kind, released_us)
    raise BadJob(
        f"the deadline is {hours(app.deadline_us - released_us)} away, and even on {kinds[-1]} the "
        f"work takes {hours(fastest_us)}, a start and a checkpoint lost not counted; move the "
        "deadline or make the work shorter"
    )


class DeadlineAdapter(msgspec.Struct, frozen=True):
    """`econ` is how it trades while it is patient; `most_micros_per_hour` bounds what it offers
    when it is urgent, beside the budget."""

    econ: EconAdapter
    plan: Plan
    policy: Policy
    most_micros_per_hour: int = MAX_RATE

    @property
    def terms(self) -> Terms:
        return self.econ.terms

    def step(self, app: DeadlineWork, view: MarketView, at_us: int) -> tuple[Action, ...]:
        return actions_for(self.decide(app, view), self.terms, view)

    def scopes_to_quote(self, app: DeadlineWork, holdings: Sequence[Holding]) -> tuple[str, ...]:
        return self.terms.scopes_and_trees

    def decide(self, app: DeadlineWork, view: MarketView) -> Intent:
        if app.is_done:
            return Intent(why_release="the work is done")
        held = own_holdings(self.terms, view)
        if self.is_urgent(app, view, held):
            return self._urgent(app, view, held)
        return self._patient(app, view, held)

    # How much of a hurry it is in -------------------------------------------------------------

    def is_urgent(self, app: DeadlineWork, view: MarketView, held: Sequence[Holding]) -> bool:
        """The policy would pay for on-demand now, or the safety margin is reached."""
        seen = self.observation(app, view, held)
        if self.policy.slack_us(seen) < self.policy.net_us:
            return True
        decided = self.policy.decide(seen)
        return decided is not None and decided.kind is Kind.ON_DEMAND

    def observation(
        self, app: DeadlineWork, view: MarketView, held: Sequence[Holding]
    ) -> Observation:
        """What the policy sees: free nodes below the job's value are its spot capacity."""
        free = [offer for scope in self.terms.scopes if (offer := self._free(app, view, scope))]
        node = self._best(app, held)
        running = None
        if node is not None:
            cheap = node.rate <= self._value(app, kind_of(node.resource))
            kind = Kind.SPOT if cheap else Kind.ON_DEMAND
            running = Offer(kind_of(node.resource), kind, node.rate)
        return Observation(
            view.at_us - self.plan.released_us,
            app.work_left_us(self.plan.reference),
            running,
            0 if node is None else round(app.cold_start_s(node.resource) * US_PER_S),
            Offer(self.plan.reference, Kind.ON_DEMAND, self.most_micros_per_hour),
            tuple(sorted(free, key=lambda offer: offer.micros_per_hour)),
            (),
        )

    def _free(self, app: DeadlineWork, view: MarketView, scope: str) -> Offer | None:
        quote, kind = quote_of(view, scope), kind_of(scope)
        if quote is None or quote.rate is None or not quote.idle or kind not in app.kinds:
            return None
        return Offer(kind, Kind.SPOT, quote.rate) if quote.rate <= self._value(app, kind) else None

    def _value(self, app: DeadlineWork, kind: str) -> float:
        """What an hour on this kind of node is worth, at full use."""
        return self.econ.micros_per_unit * app.pace_of(kind)

    # Urgent -----------------------------------------------------------------------------------

    def _urgent(self, app: DeadlineWork, view: MarketView, held: Sequence[Holding]) -> Intent:
        """One node that is in time, whatever it costs within the budget."""
        best = self._best(app, held)
        if best is None:
            return Intent((), self._urgent_wishes(app, view))
        keep = [self._urgent_keep(app, view, best)]
        if app.cold_start_s(best.resource) > 0:  # meanwhile the one that works goes on
            keep += [self._urgent_keep(app, view, each) for each in self._working(app, held)]
        wishes: tuple[Wish, ...] = ()
        if not self._is_in_time(app, view, best.resource):
            wishes = self._urgent_wishes(app, view, only_in_time=True)
        return Intent(tuple(keep), wishes, "another node is done sooner")

    def _urgent_keep(self, app: DeadlineWork, view: MarketView, holding: Holding) -> Keep:
        limit = self.affordable(app, view, holding.resource)
        return Keep(holding.resource, limit, "the deadline is near: this is what it can afford")

    def _urgent_wishes(
        self, app: DeadlineWork, view: MarketView, *, only_in_time: bool = False
    ) -> tuple[Wish, ...]:
        """The cheapest free node that is in time; if none is free, an order for each kind."""
        scopes = [scope for scope in self.terms.scopes if kind_of(scope) in app.kinds]
        in_time = [scope for scope in scopes if self._is_in_time(app, view, scope)]
        why = "the deadline is near, and no node that it has is in time"
        orders = [
            Wish(scope, limit, limit, why)
            for scope in (in_time if only_in_time else in_time or scopes)
            if (limit := self.affordable(app, view, scope)) >= 1
        ]
        free = [
            (quote.rate * app.work_left_us(kind_of(order.scope)), order)
            for order in orders
            if (quote := quote_of(view, order.scope)) is not None
            and quote.idle
            and quote.rate is not None
            and quote.rate <= order.limit
        ]
        return (min(free, key=lambda pair: pair[0])[1],) if free else tuple(orders)

    def affordable(self, app: DeadlineWork, view: MarketView, place: str) -> int:
        """The rate that the rest of the budget pays until the work is done there."""
        if self.terms.budget is None:
            return self.most_micros_per_hour
        reserve_us = STEPS_COVERED * self.terms.period_us
        left_us = self._time_needed_us(app, place) + reserve_us
        return min(self.most_micros_per_hour, max(0, self.terms.budget.left(view)) // left_us)

    def _is_in_time(self, app: DeadlineWork, view: MarketView, place: str) -> bool:
        return view.at_us + self._time_needed_us(app, place) <= app.deadline_us

    def _time_needed_us(self, app: DeadlineWork, place: str) -> int:
        """Until the work is done, on a node of its own or on one that it would have to get."""
        cold_us = round(app.cold_start_s(place) * US_PER_S)
        return cold_us + app.work_left_us(kind_of(place))

    def _working(self, app: DeadlineWork, held: Sequence[Holding]) -> list[Holding]:
        """The warm node that would be done first, if there is one."""
        warm = [each for each in held if app.cold_start_s(each.resource) <= 0]
        best = self._best(app, warm)
        return [] if best is None else [best]

    def _best(self, app: DeadlineWork, held: Sequence[Holding]) -> Holding | None:
        """Of the nodes held, the one that would be done first."""
        usable = [each for each in held if kind_of(each.resource) in app.kinds]
        return min(usable, key=lambda each: self._time_needed_us(app, each.resource), default=None)

    # Patient ----------------------------------------------------------------------------------

    def _patient(self, app: DeadlineWork, view: MarketView, held: Sequence[Holding]) -> Intent:
        """Trade for what the work is worth; with a node, look for a cheaper one."""
        budget = self.terms.budget
        value = self.econ.micros_per_unit * (1.0 if budget is None else budget.pace(view))
        usable = [each for each in held if kind_of(each.resource) in app.kinds]
        if not usable:
            return Intent((), self.econ.wishes(app, view, value)[: len(self.terms.scopes)])
        target = min(usable, key=lambda each: self._rest_costs(app, each))
        working = self._working(app, usable)
        if target in working or not working:
            keep = self._patient_keep(app, view, target, value)
            return Intent((keep,), self._cheaper(app, view, target), "another node is cheaper")
        worker = working[0]
        is_warm = app.cold_start_s(target.resource) <= 0
        since_us = app.since_checkpoint_s(worker.resource) * US_PER_S
        moving = (target,) if is_warm and since_us <= self.terms.period_us else (target, worker)
        keeps = tuple(self._patient_keep(app, view, each, value) for each in moving)
        return Intent(keeps, (), "a cheaper node is warm, and a checkpoint has just been made")

    def _patient_keep(
        self, app: DeadlineWork, view: MarketView, holding: Holding, value: float
    ) -> Keep:
        """As if it were the only node, for soon it is."""
        others = [node for node in app.nodes if node != holding.resource]
        worth = app.worth_of_losing(holding.resource, others)
        limit = self.econ.limit(app, holding, worth, value)
        why = "what the work is worth at the pace that is still needed"
        return Keep(
            holding.resource, max(1, min(limit, self.affordable(app, view, holding.resource))), why
        )

    def _rest_costs(self, app: DeadlineWork, holding: Holding) -> tuple[int, str]:
        kind = kind_of(holding.resource)
        return holding.rate * app.work_left_us(kind), holding.resource

    def _cheaper(self, app: DeadlineWork, view: MarketView, holding: Holding) -> tuple[Wish, ...]:
        """A free node that would finish the rest for less, the move counted, and in time."""
        here = kind_of(holding.resource)
        stay = holding.rate * app.work_left_us(here)
        till_us = round((app.till_checkpoint_s(holding.resource) or 0) * US_PER_S)
        best: tuple[float, Wish] | None = None
        for scope in self.terms.scopes:
            quote, kind = quote_of(view, scope), kind_of(scope)
            if quote is None or quote.rate is None or not quote.idle or kind not in app.kinds:
                continue
            rate, needed_us = quote.rate, self._time_needed_us(app, scope)
            both_us = min(app.cold_start_us(kind) + till_us, app.work_left_us(here))
            move = (rate * needed_us + holding.rate * both_us) * (1 + self.econ.pricing.hysteresis)
            ends_us = view.at_us + needed_us + self.policy.net_us
            if move < stay and ends_us <= app.deadline_us and (best is None or move < best[0]):
                saved = (stay - move) / US_PER_HOUR / 1e6
                best = move, Wish(scope, rate, rate, f"the rest costs ${saved:.2f} less there")
        return () if best is None or best[1].price < 1 else (best[1],)
