"""The adapter that every application with hooks can use.

To keep, a staircase: the nodes held are ranked, cold and slow ones first, and each is priced as if
those before it were gone. The first is worth what the application loses with one node, the last
what it loses with its last one. If each were priced at the loss of one, a tenant whose nodes are
many would lose all of them at once to a bid that only one of them deserved.

To grow, the same staircase downwards: the first wish is worth what one more node adds, the second
what a second one adds after it. Where a free node can be had for no more than it could be worth at
full use, it is taken, also if it is not urgent: whoever waits for cheaper prices while nodes stand
idle is late in the end. Such a node is kept at its floor until somebody else wants it.

A wish goes to where a unit of utility costs least, of the scopes where something is free. If
nothing is free anywhere it goes to every scope at once, one order each, and when one of them is
filled the next step withdraws the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from laissez.adapters.intent import Intent, Keep, Terms, Wish, actions_for, own_holdings
from laissez.adapters.pricing import Pricing
from laissez.adapters.view import Action, MarketView
from laissez.model import Holding, Quoted
from laissez.model.paths import tree_of
from laissez.workloads.application import Application, Worth

WISHES_MAX = 16
WHY_KEPT = "without it {:.3g} of utility is lost, and {:.0f} s of work"
WHY_WANTED = "one more adds {:.3g} of utility, {:.3g} at full use"


class EconAdapter(msgspec.Struct, frozen=True):
    """Trades for an application, given what a unit of its utility is worth an hour."""

    terms: Terms
    micros_per_unit: float
    pricing: Pricing = Pricing()
    wishes_max: int = WISHES_MAX

    def step(self, app: Application, view: MarketView, at_us: int) -> tuple[Action, ...]:
        """What to do now."""
        return actions_for(self.decide(app, view), self.terms, view)

    def scopes_to_quote(self, app: Application, holdings: Sequence[Holding]) -> tuple[str, ...]:
        """The scopes whose quotes the next step wants to know, with their trees."""
        return self.terms.scopes_and_trees

    def decide(self, app: Application, view: MarketView) -> Intent:
        if app.is_done:
            return Intent(why_release="the work is done")
        budget = self.terms.budget
        value = self.micros_per_unit * (1.0 if budget is None else budget.pace(view))
        held = own_holdings(self.terms, view)
        keep = self.keeps(app, held, value)
        return Intent(keep, self.wishes(app, view, value), "it is redundant")

    # Keeping ----------------------------------------------------------------------------------

    def keeps(self, app: Application, held: Sequence[Holding], value: float) -> tuple[Keep, ...]:
        """The staircase over what is held; the most valuable comes first in the answer."""
        gone = [each.resource for each in held if app.is_redundant(each.resource)]
        ranked = _cold_and_slow_first(app, [each for each in held if each.resource not in gone])
        is_paper = self.pricing.variant == "paper"
        keep: list[Keep] = []
        for holding in ranked:
            worth = app.worth_of_losing(holding.resource, gone)
            kept = self.kept(app, holding, worth, value)
            if kept.limit >= 1:
                keep.append(kept)
            if not is_paper:
                gone.append(holding.resource)
        return tuple(reversed(keep))

    def kept(self, app: Application, holding: Holding, worth: Worth, value: float) -> Keep:
        """A node that is worth this much, with how far to follow its rate."""
        path = holding.resource
        restart_s = app.cold_start_s(tree_of(path))
        redone_s = app.since_checkpoint_s(path)
        limit = int(self.pricing.limit(value * worth.now, restart_s, redone_s, holding.rate))
        nobody_else = holding.cause == "floor" and value * worth.full >= holding.rate
        if nobody_else and self.pricing.variant != "paper":
            limit = max(limit, holding.rate)
        return Keep(path, limit, WHY_KEPT, (worth.now, redone_s))

    # Growing ----------------------------------------------------------------------------------

    def wishes(
        self, app: Application, view: MarketView, value: float, nodes_max: int = WISHES_MAX
    ) -> tuple[Wish, ...]:
        """One order for each node that is worth having, on each scope that may give it."""
        wishes: list[Wish] = []
        coming: list[str] = []
        scopes = self.growing_scopes(app, view)
        while len(coming) < nodes_max and len(wishes) < self.wishes_max:
            offers = [
                offer
                for scope in scopes
                if (offer := self.offer(app, view, scope, coming, value)) is not None
            ]
            if not offers:
                break
            free = [offer for offer in offers if offer.is_free]
            best = min(free or offers, key=self.preference)
            wishes += [best.wish] if free else [offer.wish for offer in offers]
            coming.append(best.wish.scope)
        return tuple(wishes[: self.wishes_max])

    def preference(self, offer: Offer) -> float:
        """The lower, the better: what a unit of utility costs."""
        return offer.rate_per_unit

    def growing_scopes(self, app: Application, view: MarketView) -> tuple[str, ...]:
        """Where to look for another node."""
        return tuple(scope for scope in self.terms.scopes if tree_of(scope) in app.kinds)

    def offer(
        self, app: Application, view: MarketView, scope: str, coming: Sequence[str], value: float
    ) -> Offer | None:
        """The order that a node under a scope deserves, after those that are coming."""
        quote = quote_of(view, scope)
        if quote is None or quote.rate is None:
            return None  # there is nothing there that is not held by this tenant already
        rate = quote.rate
        worth = app.worth_of_gaining(scope, coming)
        bid = int(self.pricing.bid(value * worth.now, app.cold_start_s(scope), rate))
        if quote.idle and value * worth.full >= rate and self.pricing.variant != "paper":
            bid = max(bid, rate)
        if bid < 1:
            return None
        wish = Wish(scope, bid, bid, WHY_WANTED, worth)
        return Offer(wish, worth, rate, quote.idle and rate <= bid)


class Offer(msgspec.Struct, frozen=True):
    """A wish that could be made, what it would bring, and whether it would be filled at once."""

    wish: Wish
    worth: Worth
    rate: int
    is_free: bool

    @property
    def rate_per_unit(self) -> float:
        """What a unit of utility costs there."""
        return self.rate / self.worth.full if self.worth.full > 0 else float("inf")


def quote_of(view: MarketView, scope: str) -> Quoted | None:
    """The quote of a scope, or of the nearest scope above it that is visible."""
    while True:
        quote = view.quotes.get(scope)
        if quote is not None or "/" not in scope:
            return quote
        scope = scope.rpartition("/")[0]


def _cold_and_slow_first(app: Application, held: Sequence[Holding]) -> list[Holding]:
    """Of siblings one is asked for all: they differ in nothing but how cold they are."""
    worths: dict[str, float] = {}

    def rank(holding: Holding) -> tuple[bool, float, str]:
        path = holding.resource
        parent = path.rpartition("/")[0]
        if parent not in worths:
            worths[parent] = app.worth_of_losing(path).full
        return app.cold_start_s(path) <= 0, worths[parent], path

    return sorted(held, key=rank)
