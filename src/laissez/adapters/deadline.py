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

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from laissez.adapters.asking import Turns, WishToAsk, scope_to_ask
from laissez.adapters.budget import STEPS_COVERED
from laissez.adapters.econ import EconAdapter, WeighedWish
from laissez.adapters.intent import (
    Intent,
    Keep,
    TradingTerms,
    Wish,
    own_promises,
    staying_holdings,
    tree_terms,
)
from laissez.adapters.pricing import Pricing
from laissez.adapters.urgency import (
    DeadlinePlan,
    DeadlineWork,
    Hurry,
    at_work,
    hurry,
    is_better,
    plan_for,
    soonest_done,
    time_needed_us,
)
from laissez.adapters.view import MarketView
from laissez.deadline.classic import UniformProgress
from laissez.deadline.job import US_PER_HOUR, Job
from laissez.deadline.policy import Policy
from laissez.model import Holding
from laissez.model.paths import tree_of
from laissez.model.values import MAX_RATE
from laissez.performance.application import US_PER_S

JOB_PRICING = Pricing()
WHY_URGENT = {
    Hurry.BEHIND: "it is behind: this is what it can afford",
    Hurry.LAST_CHANCE: "no slack is left: this is what it can afford",
}


def deadline_adapter(
    app: DeadlineWork,
    terms: TradingTerms,
    *,
    micros_per_unit: float,
    checkpoint_every_us: int,
    released_us: int = 0,
    pricing: Pricing = JOB_PRICING,
    policy: Callable[[Job], Policy] = UniformProgress,
    most_micros_per_hour: int = MAX_RATE,
) -> DeadlineAdapter:
    """An adapter for a job that has not begun; BadJob if it can't be in time."""
    plan = plan_for(
        app,
        {tree_of(scope) for scope in terms.scopes},
        released_us=released_us,
        period_us=terms.period_us,
        checkpoint_every_us=checkpoint_every_us,
    )
    return DeadlineAdapter(
        terms,
        micros_per_unit,
        pricing,
        plan=plan,
        policy=policy(plan.job),
        most_micros_per_hour=most_micros_per_hour,
    )


class DeadlineAdapter(EconAdapter, frozen=True, kw_only=True):
    """`most_micros_per_hour` bounds what it offers when it is urgent, beside the budget."""

    plan: DeadlinePlan
    policy: Policy
    most_micros_per_hour: int = MAX_RATE

    def decide(self, app: DeadlineWork, view: MarketView) -> Intent:
        held = [
            each
            for each in staying_holdings(self.terms, view)
            if tree_of(each.resource) in app.kinds
        ]
        how_near = hurry(self.plan, self.policy, self, app, view, held)
        if how_near is Hurry.NONE:
            intent = self._patient(app, view, held)
            if not _gives_up(intent, held):
                return intent
            # To be without a node must not be what makes it urgent: it would buy the same again.
            how_near = hurry(self.plan, self.policy, self, app, view, ())
            if how_near is Hurry.NONE:
                return intent
        return self._urgent(app, view, held, how_near)

    def value(self, app: Any, view: MarketView, spend_micros_per_hour: int) -> float:
        """What it can afford is paced by the work that is left, not by the end of its budget."""
        return self.micros_per_unit

    def offer(
        self, app: Any, view: MarketView, scope: str, coming: Sequence[str], spend: int
    ) -> WeighedWish | None:
        """What any application would order, as far as the budget bears it to the end."""
        offer = super().offer(app, view, scope, coming, spend)
        affordable = self.affordable(app, view, scope)
        if offer is None or offer.wish.limit <= affordable:
            return offer
        if affordable < 1:
            return None
        wish = msgspec.structs.replace(
            offer.wish, price=min(offer.wish.price, affordable), limit=affordable
        )
        is_free = offer.is_free and wish.rate <= affordable
        return msgspec.structs.replace(offer, wish=wish, is_free=is_free)

    def affordable(self, app: DeadlineWork, view: MarketView, place: str) -> int:
        """The rate that the rest of the budget pays until the work is done there, or until its
        end: then there is nothing more to pay for."""
        budget = self.terms.budget
        if budget is None:
            return self.most_micros_per_hour
        needed_us = time_needed_us(app, place)
        if budget.ends_us is not None:
            needed_us = min(needed_us, max(0, budget.ends_us - view.at_us))
        if place not in app.nodes:
            needed_us = max(needed_us, tree_terms(view, place).commit_us)
        needed_us += STEPS_COVERED * self.terms.period_us
        return min(self.most_micros_per_hour, max(0, budget.left(view)) // needed_us)

    # Urgent -----------------------------------------------------------------------------------

    def _urgent(
        self, app: DeadlineWork, view: MarketView, held: Sequence[Holding], how_near: Hurry
    ) -> Intent:
        """One node that is in time, whatever it costs within the budget."""
        best = soonest_done(app, held)
        keep = [] if best is None else [best]
        if best is not None and best.resource not in app.workers:
            keep += at_work(app, held)  # until it takes over, the others go on
        is_in_time = best is not None and self._is_in_time(app, view, best.resource)
        is_in_time = is_in_time or bool(own_promises(self.terms, view))
        return Intent(
            tuple(self._urgent_keep(app, view, each, WHY_URGENT[how_near]) for each in keep),
            () if is_in_time else self._urgent_wishes(app, view, best, how_near),
            "another node is done sooner",
        )

    def _urgent_keep(self, app: DeadlineWork, view: MarketView, holding: Holding, why: str) -> Keep:
        """What it can afford to the end, and what a move would cost on top: that is not spent
        unless somebody offers as much, and there is less to pay for with every step."""
        path = holding.resource
        limit = self.up_to(app, view, holding, self.affordable(app, view, path))
        return Keep(path, min(limit, self.most_micros_per_hour), why)

    def _urgent_wishes(
        self, app: DeadlineWork, view: MarketView, best: Holding | None, how_near: Hurry
    ) -> tuple[Wish, ...]:
        """The places that are in time, the cheapest first; after them those that are late, if that
        is better than what it has. They are asked in turn, or all at the last chance."""
        scopes = [scope for scope in self.terms.scopes if tree_of(scope) in app.kinds]
        in_time = [scope for scope in scopes if self._is_in_time(app, view, scope)]
        in_time.sort(key=lambda scope: self._cost_there(app, view, scope))
        late = [
            scope
            for scope in scopes
            if scope not in in_time
            and (best is None or is_better(app, view.at_us, scope, best.resource))
        ]
        late.sort(key=lambda scope: time_needed_us(app, scope))
        why = WHY_URGENT[how_near]
        sure = list(self._urgent_offers(app, view, in_time, why))
        better_than_none = list(self._urgent_offers(app, view, late, why))
        if how_near is Hurry.BEHIND:
            return tuple(Turns(self.terms, view).ask([*sure, *better_than_none]))
        if filled := _first_filled(sure):
            return filled
        asked = tuple(offer.wish for offer in sure)
        return asked + (
            _first_filled(better_than_none) or tuple(offer.wish for offer in better_than_none)
        )

    def _urgent_offers(
        self, app: DeadlineWork, view: MarketView, scopes: Sequence[str], why: str
    ) -> Iterator[WishToAsk]:
        for scope in scopes:
            place, limit = scope_to_ask(view, scope), self.affordable(app, view, scope)
            if place is not None and limit >= 1:
                is_filled = place.is_free and place.rate <= limit
                wish = Wish(scope, place.price(view, limit), limit, why, rate=place.rate)
                yield WishToAsk(wish, is_filled, place.is_seen)

    def _cost_there(self, app: DeadlineWork, view: MarketView, scope: str) -> tuple[bool, int]:
        """What is free first; then by what the rest would cost at the quote."""
        place = scope_to_ask(view, scope)
        if place is None:
            return True, MAX_RATE * US_PER_HOUR
        return not place.is_free, place.rate * app.work_left_us(tree_of(scope))

    def _is_in_time(self, app: DeadlineWork, view: MarketView, place: str) -> bool:
        return view.at_us + time_needed_us(app, place) <= app.deadline_us

    # Patient ----------------------------------------------------------------------------------

    def _patient(self, app: DeadlineWork, view: MarketView, held: Sequence[Holding]) -> Intent:
        """Trade for what the work is worth; with a node, look for a cheaper one."""
        if not held:
            return Intent((), self.wishes(app, view, (), nodes_max=1))
        target = min(held, key=lambda each: self._rest_costs(app, each))
        working = at_work(app, held)
        if target in working or not working:
            keep = self._patient_keep(app, view, target)
            cheaper = self._cheaper(app, view, target) if working else ()
            return Intent((keep,), cheaper, "another node is cheaper")
        is_warm = app.cold_start_s(target.resource) <= 0
        since_us = app.since_checkpoint_s(working[0].resource) * US_PER_S
        moves_now = is_warm and since_us <= self.terms.period_us
        keeps = (target,) if moves_now else (target, *working)
        return Intent(
            tuple(self._patient_keep(app, view, each) for each in keeps),
            (),
            "a cheaper node is warm, and a checkpoint has just been made",
        )

    def _patient_keep(self, app: DeadlineWork, view: MarketView, holding: Holding) -> Keep:
        """As if it were the only node, for soon it is."""
        others = [node for node in app.nodes if node != holding.resource]
        worth = app.worth_of_losing(holding.resource, others)
        value = self.value(app, view, holding.rate)
        affordable = self.affordable(app, view, holding.resource)
        if value * worth.now > affordable:
            value = affordable / worth.now
        kept = self.kept(app, view, holding, worth, value)
        return msgspec.structs.replace(kept, limit=max(1, kept.limit))

    def _rest_costs(self, app: DeadlineWork, holding: Holding) -> tuple[int, str]:
        kind = tree_of(holding.resource)
        return holding.rate * app.work_left_us(kind), holding.resource

    def _cheaper(self, app: DeadlineWork, view: MarketView, holding: Holding) -> tuple[Wish, ...]:
        """A free node that would finish the rest for less, the move counted, and in time."""
        left_us = app.work_left_us(tree_of(holding.resource))
        till_us = round((app.till_checkpoint_s(holding.resource) or 0) * US_PER_S)
        best, least = None, float(holding.rate * left_us)
        for scope in self.terms.scopes:
            place = scope_to_ask(view, scope)
            if place is None or not place.is_free or tree_of(scope) not in app.kinds:
                continue
            if tree_of(scope) == tree_of(holding.resource):
                continue  # its own presence may be what makes its place dearer
            needed_us = time_needed_us(app, scope)
            both_us = min(app.cold_start_us(tree_of(scope)) + till_us, left_us)
            costs = place.rate * needed_us + holding.rate * both_us
            move = costs * (1 + self.pricing.hysteresis)
            is_safe = view.at_us + needed_us + self.policy.net_us <= app.deadline_us
            if move < least and is_safe:
                best, least = place, move
        if best is None:
            return ()
        rate = max(1, best.rate)
        return (Wish(best.scope, rate, rate, "the rest costs less there", rate=best.rate),)


def _first_filled(offers: Sequence[WishToAsk]) -> tuple[Wish, ...]:
    """The first that would be filled at once, if there is one."""
    return tuple([offer.wish for offer in offers if offer.is_filled][:1])


def _gives_up(intent: Intent, held: Sequence[Holding]) -> bool:
    """It would lose its node to its own limit."""
    limits = {each.resource: each.limit for each in intent.keep}
    return bool(held) and all(limits.get(each.resource, 0) < each.rate for each in held)
