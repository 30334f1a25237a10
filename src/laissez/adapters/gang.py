"""Trades for a rigid job: a gang order for all of its nodes, and limits for its crew as a whole.

To start, it asks for all nodes at once, of the kind of which a whole crew is worth most beyond what
it costs, and offers for each its part of that. A gang presses on nobody, so there is nothing to be
gained by offering less. Its limit is what it can pay: the wall counts a gang as all of its nodes.

To keep, the crew is worth what all of it does, and what stopping costs; each node is held at its
part of it. If one is lost, or called, the others are of no use, so all save and are given back at
once; and if all of them together cost more than they are worth, it leaves. Of what it holds without
a crew it keeps only what waits for nodes that are promised to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from laissez.adapters.adapter import Trader
from laissez.adapters.asking import ScopeToAsk, scope_to_ask
from laissez.adapters.budget import Budget
from laissez.adapters.econ import WHY_KEPT, bound_share, redone_of, restart_of
from laissez.adapters.intent import Intent, Keep, Wish, own_promises, staying_holdings
from laissez.adapters.pricing import Pricing
from laissez.adapters.view import GangAsk, MarketView
from laissez.adapters.wall import FOR_ORDERS
from laissez.model import Holding
from laissez.model.paths import tree_of
from laissez.model.values import MICROS_PER_DOLLAR
from laissez.performance.application import US_PER_S
from laissez.performance.rigid import RigidJob, domain_of

WHY_WANTED = "{:.0f} nodes at once are worth ${:.2f}/h now, ${:.2f}/h at full use"
WHY_LEFT = "its crew of {} costs ${:.2f} an hour; it and a new start are worth ${:.2f}"
WHY_BROKEN = "its crew is not whole, and without the others it is of no use"


class GangAdapter(Trader, frozen=True):
    """`micros_per_unit` is what an hour of a whole crew is worth."""

    micros_per_unit: float
    pricing: Pricing = Pricing()

    def decide(self, app: RigidJob, view: MarketView) -> Intent:
        held = staying_holdings(self.terms, view)
        if app.crew and not any(each in view.calls for each in app.crew):
            return self._kept(app, view, [each for each in held if each.resource in app.crew])
        if not app.crew and self._is_gathering(app, view, held):
            return Intent(tuple(Keep(each.resource, each.limit) for each in held))
        wish = self._wish(app, view)
        return Intent((), () if wish is None else (wish,), WHY_BROKEN)

    def gangs_to_quote(self, app: RigidJob, holdings: Sequence[Holding]) -> tuple[GangAsk, ...]:
        if app.crew or app.is_done:
            return ()
        scopes = (scope for scope in self.terms.scopes if tree_of(scope) in app.kinds)
        return tuple(_ask(app, scope) for scope in scopes)

    def value(
        self, app: RigidJob, view: MarketView, place: str, spend_micros_per_hour: int
    ) -> float:
        """What a unit is worth an hour to somebody who spends so much there. Its money has to last
        until it is done, which may be long before the deadline."""
        budget = self.terms.budget
        if budget is None:
            return self.micros_per_unit
        ends_us = budget.ends_us
        if (ends_in_s := app.ends_in_s(place)) is not None:
            done_us = view.at_us + round(ends_in_s * US_PER_S)
            ends_us = done_us if ends_us is None else min(ends_us, done_us)
        pace = Budget(budget.total_micros, ends_us).pace(view, spend_micros_per_hour)
        return self.micros_per_unit * pace

    # Keeping ----------------------------------------------------------------------------------

    def _kept(self, app: RigidJob, view: MarketView, crew: Sequence[Holding]) -> Intent:
        cost = sum(each.rate for each in crew)
        first = app.crew[0]
        value = self.value(app, view, first, cost)
        limit = self.pricing.limit(
            value * app.worth_of_crew.full,
            restart_of(app, first),
            redone_of(app, view, first),
            cost,
            at_stake=value * app.at_stake(first),
            ends_in_s=app.ends_in_s(first),
        )
        if cost > limit:
            figures = (len(crew), cost / MICROS_PER_DOLLAR, limit / MICROS_PER_DOLLAR)
            return Intent(why_release=WHY_LEFT.format(*figures), is_too_dear=True)
        each_limit = max(1, int(limit / len(crew)), *(each.rate for each in crew))
        dollars = value * app.worth_of_crew.now / MICROS_PER_DOLLAR
        figures_kept = (dollars, app.since_checkpoint_s(first))
        keep = (Keep(each.resource, each_limit, WHY_KEPT, figures_kept) for each in crew)
        return Intent(tuple(keep), why_release="it is redundant")

    def _is_gathering(self, app: RigidJob, view: MarketView, held: Sequence[Holding]) -> bool:
        """The rest of its crew is promised to it, and comes when its holders have left."""
        coming = own_promises(self.terms, view)
        nodes = (*(each.resource for each in held), *coming)
        domains = Counter(domain_of(each, app.spec.within) for each in nodes)
        return bool(coming) and max(domains.values()) >= app.spec.count

    # Growing ----------------------------------------------------------------------------------

    def _wish(self, app: RigidJob, view: MarketView) -> Wish | None:
        """For all of its nodes, in one tree: if two gangs were filled, one would be too many."""
        found = [
            wish
            for scope in self.terms.scopes
            if tree_of(scope) in app.kinds
            and (place := self._place(app, view, scope)) is not None
            and (wish := self._offer(app, view, place)) is not None
        ]
        return max(found, key=lambda wish: wish.limit - wish.rate, default=None)

    def _place(self, app: RigidJob, view: MarketView, scope: str) -> ScopeToAsk | None:
        """What each costs where all can be had; what one costs, where nobody says that."""
        quote = view.gang_quotes.get(_ask(app, scope))
        if quote is None or quote.rate is None:
            return scope_to_ask(view, scope)
        return ScopeToAsk(scope, quote.rate, quote.idle, is_seen=True)

    def _offer(self, app: RigidJob, view: MarketView, place: ScopeToAsk) -> Wish | None:
        spec, cost = app.spec, app.spec.count * place.rate
        worth = app.worth_of_all(tree_of(place.scope))
        value = self.value(app, view, place.scope, cost)
        starts_in_s, ends_in_s = app.cold_start_s(place.scope), app.ends_in_s(place.scope)
        share = bound_share(view, place.scope, ends_in_s)
        full = share * self.pricing.idle(value * worth.full, starts_in_s, ends_in_s)
        limit = int(full / spec.count)
        if self.terms.budget is not None:
            wall = self.terms.budget.affordable_rate(view, self.terms.period_us)
            limit = min(limit, int(FOR_ORDERS * wall) // spec.count)
        if limit < 1:
            return None
        dollars = (value * each / MICROS_PER_DOLLAR for each in worth)
        return Wish(
            place.scope,
            limit,
            limit,
            WHY_WANTED,
            (float(spec.count), *dollars),
            place.rate,
            spec.count,
            spec.within,
        )


def _ask(app: RigidJob, scope: str) -> GangAsk:
    return GangAsk(scope, app.spec.count, app.spec.within)
