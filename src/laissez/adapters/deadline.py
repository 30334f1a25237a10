"""Work with a deadline: patient while there is slack, and sure of a node when there is none.

While there is slack the job trades like any other (`econ`): it takes what is free at a price below
its value, bids what the pace that it still needs is worth, gives way to whoever offers more, and
resumes later. A deadline policy watches meanwhile (`urgency`). When it says that the job is
urgent, nothing has to move on this market: the node that is held turns from spot into on-demand by
a higher limit, and is charged no more than before unless somebody competes. An urgent job offers
what it can afford, which is what is left of its budget over the time that it still needs; so it is
late only if no node can be had within its budget.

Ahead of time, it trades down: where another kind would finish the rest for less, by more than the
start there costs, it orders a node there, works on until that one is warm, and leaves the old one
right after a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from laissez.adapters.budget import STEPS_COVERED
from laissez.adapters.econ import EconAdapter, quote_of
from laissez.adapters.intent import Intent, Keep, Terms, Wish, actions_for, own_holdings, own_orders
from laissez.adapters.pricing import BATCH_HORIZON_S, Pricing
from laissez.adapters.urgency import (
    DeadlineClock,
    DeadlineWork,
    Hurry,
    at_work,
    plan_for,
    soonest_done,
    time_needed_us,
)
from laissez.adapters.view import Action, MarketView
from laissez.deadline.classic import UniformProgress
from laissez.deadline.job import US_PER_HOUR, Job
from laissez.deadline.policy import Policy
from laissez.model import Holding
from laissez.model.paths import tree_of
from laissez.model.values import MAX_RATE
from laissez.workloads.application import US_PER_S

BATCH_PRICING = Pricing(horizon_s=BATCH_HORIZON_S)


def deadline_adapter(
    app: DeadlineWork,
    terms: Terms,
    *,
    micros_per_unit: float,
    checkpoint_every_us: int,
    released_us: int = 0,
    pricing: Pricing = BATCH_PRICING,
    policy: Callable[[Job], Policy] = UniformProgress,
    most_micros_per_hour: int = MAX_RATE,
) -> DeadlineAdapter:
    """An adapter for a job that has not begun; BadJob if it can't be in time."""
    plan = plan_for(
        app,
        released_us=released_us,
        period_us=terms.period_us,
        checkpoint_every_us=checkpoint_every_us,
    )
    econ = EconAdapter(terms, micros_per_unit, pricing)
    clock = DeadlineClock(plan, policy(plan.job), econ)
    return DeadlineAdapter(econ, clock, most_micros_per_hour)


class DeadlineAdapter(msgspec.Struct, frozen=True):
    """`econ` is how it trades while it is patient; `most_micros_per_hour` bounds what it offers
    when it is urgent, beside the budget."""

    econ: EconAdapter
    clock: DeadlineClock
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
        hurry = self.clock.hurry(app, view, held)
        if hurry is Hurry.NONE:
            return self._patient(app, view, held)
        return self._urgent(app, view, held, hurry)

    # Urgent -----------------------------------------------------------------------------------

    def _urgent(
        self, app: DeadlineWork, view: MarketView, held: Sequence[Holding], hurry: Hurry
    ) -> Intent:
        """One node that is in time, whatever it costs within the budget."""
        best = soonest_done(app, held)
        if best is None:
            return Intent((), self._urgent_wishes(app, view, hurry))
        keep = [self._urgent_keep(app, view, best)]
        working = [each for each in at_work(app, held) if each is not best]
        if best.resource not in app.workers:  # until it takes over, the others go on
            keep += [self._urgent_keep(app, view, each) for each in working]
        wishes: tuple[Wish, ...] = ()
        if not self._is_in_time(app, view, best.resource):
            wishes = self._urgent_wishes(app, view, hurry, only_in_time=True)
        return Intent(tuple(keep), wishes, "another node is done sooner")

    def _urgent_keep(self, app: DeadlineWork, view: MarketView, holding: Holding) -> Keep:
        limit = self.affordable(app, view, holding.resource)
        return Keep(holding.resource, limit, "the deadline is near: this is what it can afford")

    def _urgent_wishes(
        self, app: DeadlineWork, view: MarketView, hurry: Hurry, *, only_in_time: bool = False
    ) -> tuple[Wish, ...]:
        """The kind that finishes for least, then, while that order rests, the next; all at once
        if it is the last chance."""
        scopes = [scope for scope in self.terms.scopes if tree_of(scope) in app.kinds]
        in_time = [scope for scope in scopes if self._is_in_time(app, view, scope)]
        wishes: list[Wish] = []
        cheapest_first = sorted(
            in_time if only_in_time else in_time or scopes,
            key=lambda scope: self._cost_there(app, view, scope),
        )
        for scope in cheapest_first:
            limit = self.affordable(app, view, scope)
            if limit < 1:
                continue
            wishes.append(Wish(scope, limit, limit, "the deadline is near, and it has no node"))
            quote = quote_of(view, scope)
            is_filled = quote is not None and quote.idle and (quote.rate or 0) <= limit
            if is_filled or (hurry is Hurry.BEHIND and not self._rests(view, scope, limit)):
                break
        return tuple(wishes)

    def _cost_there(self, app: DeadlineWork, view: MarketView, scope: str) -> tuple[bool, int]:
        """What is free first; then by what the rest would cost at the quote."""
        quote = quote_of(view, scope)
        if quote is None or quote.rate is None:
            return True, MAX_RATE * US_PER_HOUR
        return not quote.idle, quote.rate * app.work_left_us(tree_of(scope))

    def _rests(self, view: MarketView, scope: str, limit: int) -> bool:
        """An order of nearly this limit waits there already, and was not filled."""
        orders = own_orders(self.terms, view)
        return any(each.scope == scope and 10 * each.limit >= 9 * limit for each in orders)

    def affordable(self, app: DeadlineWork, view: MarketView, place: str) -> int:
        """The rate that the rest of the budget pays until the work is done there."""
        if self.terms.budget is None:
            return self.most_micros_per_hour
        reserve_us = STEPS_COVERED * self.terms.period_us
        left_us = time_needed_us(app, place) + reserve_us
        return min(self.most_micros_per_hour, max(0, self.terms.budget.left(view)) // left_us)

    def _is_in_time(self, app: DeadlineWork, view: MarketView, place: str) -> bool:
        return view.at_us + time_needed_us(app, place) <= app.deadline_us

    # Patient ----------------------------------------------------------------------------------

    def _patient(self, app: DeadlineWork, view: MarketView, held: Sequence[Holding]) -> Intent:
        """Trade for what the work is worth; with a node, look for a cheaper one."""
        budget = self.terms.budget
        value = self.econ.micros_per_unit * (1.0 if budget is None else budget.pace(view))
        usable = [each for each in held if tree_of(each.resource) in app.kinds]
        if not usable:
            return Intent((), self.econ.wishes(app, view, value, nodes_max=1))
        target = min(usable, key=lambda each: self._rest_costs(app, each))
        working = at_work(app, usable)
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
        kept = self.econ.kept(app, holding, worth, value)
        affordable = self.affordable(app, view, holding.resource)
        return msgspec.structs.replace(kept, limit=max(1, min(kept.limit, affordable)))

    def _rest_costs(self, app: DeadlineWork, holding: Holding) -> tuple[int, str]:
        kind = tree_of(holding.resource)
        return holding.rate * app.work_left_us(kind), holding.resource

    def _cheaper(self, app: DeadlineWork, view: MarketView, holding: Holding) -> tuple[Wish, ...]:
        """A free node that would finish the rest for less, the move counted, and in time."""
        here = tree_of(holding.resource)
        stay = holding.rate * app.work_left_us(here)
        till_us = round((app.till_checkpoint_s(holding.resource) or 0) * US_PER_S)
        best: tuple[float, Wish] | None = None
        for scope in self.terms.scopes:
            quote, kind = quote_of(view, scope), tree_of(scope)
            if quote is None or quote.rate is None or not quote.idle or kind not in app.kinds:
                continue
            rate, needed_us = quote.rate, time_needed_us(app, scope)
            both_us = min(app.cold_start_us(kind) + till_us, app.work_left_us(here))
            move = (rate * needed_us + holding.rate * both_us) * (1 + self.econ.pricing.hysteresis)
            ends_us = view.at_us + needed_us + self.clock.policy.net_us
            if move < stay and ends_us <= app.deadline_us and (best is None or move < best[0]):
                saved = (stay - move) / US_PER_HOUR / 1e6
                best = move, Wish(scope, rate, rate, f"the rest costs ${saved:.2f} less there")
        return () if best is None or best[1].price < 1 else (best[1],)
