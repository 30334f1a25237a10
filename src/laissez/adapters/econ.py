"""The adapter that every application with hooks can use.

To keep, a staircase: the nodes held are ranked, cold and slow ones first, and each is priced as if
those before it were gone. The first is worth what the application loses with one node, the last
what it loses with its last one. If each were priced at the loss of one, a tenant whose nodes are
many would lose all of them at once to a bid that only one of them deserved.

To grow, the same staircase downwards: the first wish is worth what one more node adds, the second
what a second one adds after it. Where a free node can be had for no more than it could be worth at
full use, for as long as it would be of use, it is taken, also if it is not urgent: whoever waits
for cheaper prices while nodes stand idle is late in the end. Such a node is kept while nobody else
wants it, a little beyond its floor, so that a floor that moves does not drive it away. And what has
just been won is kept for a step at least, at its rate: a node is no use in between.

A wish goes to where a unit of utility costs least, of the scopes where something is free; if
nothing is free anywhere, they are asked in turn (`asking`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from laissez.adapters.adapter import Trader
from laissez.adapters.asking import Turns, WishToAsk, scope_to_ask
from laissez.adapters.intent import Intent, Keep, Wish, own_promises, staying_holdings, tree_terms
from laissez.adapters.pricing import Pricing
from laissez.adapters.view import MarketView
from laissez.model import Holding
from laissez.model.paths import tree_of
from laissez.model.values import MICROS_PER_DOLLAR
from laissez.performance.application import US_PER_S, Application, Worth

WISHES_MAX = 8
FLOOR_MOVES = 1.25
"""So far above its floor a node is kept that nobody else wants."""
WHY_KEPT = "its work is worth ${:.2f}/h, and {:.0f} s of it would have to be done again"
WHY_WANTED = "one more is worth ${:.2f}/h now, ${:.2f}/h at full use"


class WeighedWish(msgspec.Struct, frozen=True):
    """A wish that could be made, what it would bring, and whether it would be filled at once."""

    wish: Wish
    worth: Worth
    is_free: bool
    is_seen: bool

    @property
    def rate_per_unit(self) -> float:
        """What a unit of utility costs there."""
        return self.wish.rate / self.worth.full if self.worth.full > 0 else float("inf")


class EconAdapter(Trader, frozen=True):
    """Trades for an application, given what a unit of its utility is worth an hour."""

    micros_per_unit: float
    pricing: Pricing = Pricing()
    wishes_max: int = WISHES_MAX

    def decide(self, app: Any, view: MarketView) -> Intent:
        held = staying_holdings(self.terms, view)
        return Intent(self.keeps(app, view, held), self.wishes(app, view, held), "it is redundant")

    def value(self, app: Any, view: MarketView, spend_micros_per_hour: int) -> float:
        """What a unit of utility is worth an hour to somebody who spends so much."""
        budget = self.terms.budget
        pace = 1.0 if budget is None else budget.pace(view, spend_micros_per_hour)
        return self.micros_per_unit * pace

    # Keeping ----------------------------------------------------------------------------------

    def keeps(
        self, app: Application, view: MarketView, held: Sequence[Holding]
    ) -> tuple[Keep, ...]:
        """The staircase over what is held; the most valuable comes first in the answer."""
        gone = [each.resource for each in held if app.is_redundant(each.resource)]
        ranked = _cold_and_slow_first(app, [each for each in held if each.resource not in gone])
        spend = sum(each.rate for each in ranked)
        is_paper = self.pricing.variant == "paper"
        keep: list[Keep] = []
        for holding in ranked:
            worth = app.worth_of_losing(holding.resource, gone)
            kept = self.kept(app, view, holding, worth, self.value(app, view, spend))
            if view.at_us - holding.since < self.terms.period_us and not is_paper:
                kept = msgspec.structs.replace(kept, limit=max(kept.limit, holding.rate, 1))
            if kept.limit >= 1:
                keep.append(kept)
            if not is_paper:
                gone.append(holding.resource)
                spend -= holding.rate
        return tuple(reversed(keep))

    def kept(
        self, app: Application, view: MarketView, holding: Holding, worth: Worth, value: float
    ) -> Keep:
        """A node that is worth this much, with how far to follow its rate."""
        path, rate = holding.resource, holding.rate
        limit = self.limit(app, view, holding, worth, value)
        full = value * worth.full * FLOOR_MOVES
        nobody_else = holding.cause == "floor" and full >= rate and full > 0
        if nobody_else and self.pricing.variant != "paper":
            limit = max(limit, int(min(full, rate * FLOOR_MOVES)), 1)
        dollars = value * worth.now / MICROS_PER_DOLLAR
        return Keep(path, limit, WHY_KEPT, (dollars, redone_of(app, view, path)))

    def limit(
        self, app: Application, view: MarketView, holding: Holding, worth: Worth, value: float
    ) -> int:
        """Up to what rate to keep something worth this much that is lost with a node."""
        at_stake = value * app.at_stake(holding.resource)
        return self.up_to(app, view, holding, value * worth.now, at_stake)

    def up_to(
        self,
        app: Application,
        view: MarketView,
        holding: Holding,
        value: float,
        at_stake: float | None = None,
    ) -> int:
        """Who is outbid has notice, and loses what can't be saved by then; but a limit below the
        rate acts at once, and is set only where leaving is worth it without notice, too."""
        path = holding.resource
        warned_s, redone_s = redone_of(app, view, path), app.since_checkpoint_s(path)

        def limit(lost_s: float) -> int:
            return int(
                self.pricing.limit(
                    value,
                    restart_of(app, path),
                    lost_s,
                    holding.rate,
                    at_stake=at_stake,
                    ends_in_s=app.ends_in_s(path),
                )
            )

        with_notice = limit(warned_s)
        if with_notice >= holding.rate or warned_s == redone_s:
            return with_notice
        return min(holding.rate, limit(redone_s))

    # Growing ----------------------------------------------------------------------------------

    def wishes(
        self,
        app: Any,
        view: MarketView,
        held: Sequence[Holding],
        nodes_max: int = WISHES_MAX,
    ) -> tuple[Wish, ...]:
        """One order for each node that is worth having, where it is to be asked for."""
        wishes: list[Wish] = []
        coming = list(own_promises(self.terms, view))
        sure = list(coming)
        turns = Turns(self.terms, view)
        spend = sum(each.rate for each in held)
        scopes = [scope for scope in self.terms.scopes if tree_of(scope) in app.kinds]
        while len(coming) < nodes_max and len(wishes) < self.wishes_max:
            offers = [
                offer
                for scope in scopes
                if (offer := self._sure_offer(app, view, scope, coming, sure, spend)) is not None
            ]
            if not offers:
                break
            offers.sort(key=lambda offer: (not offer.is_free, offer.rate_per_unit))
            wishes += turns.ask(
                WishToAsk(offer.wish, offer.is_free, offer.is_seen) for offer in offers
            )
            coming.append(offers[0].wish.scope)
            if offers[0].is_free:
                sure.append(offers[0].wish.scope)
            spend += offers[0].wish.rate
        return tuple(wishes[: self.wishes_max])

    def _sure_offer(
        self,
        app: Application,
        view: MarketView,
        scope: str,
        coming: Sequence[str],
        sure: Sequence[str],
        spend: int,
    ) -> WeighedWish | None:
        """What a node is worth after all that may come, and no more than if what comes is only of
        its own kind and what is free: one that is of use beside another kind waits for that."""
        offer = self.offer(app, view, scope, coming, spend)
        likely = [each for each in coming if each in sure or tree_of(each) == tree_of(scope)]
        if offer is None or len(likely) == len(coming):
            return offer
        alone = self.offer(app, view, scope, likely, spend)
        return None if alone is None else min(offer, alone, key=lambda each: each.wish.limit)

    def offer(
        self, app: Application, view: MarketView, scope: str, coming: Sequence[str], spend: int
    ) -> WeighedWish | None:
        """The order that a node under a scope deserves, after those that are coming."""
        place = scope_to_ask(view, scope)
        if place is None:
            return None
        worth = app.worth_of_gaining(scope, coming)
        value = self.value(app, view, spend + place.rate)
        starts_in_s, ends_in_s = self.starts_in_s(app, scope), app.ends_in_s(scope)
        share = bound_share(view, scope, ends_in_s)
        full = int(share * self.pricing.idle(value * worth.full, starts_in_s, ends_in_s))
        bid = int(share * self.pricing.bid(value * worth.now, starts_in_s, place.rate, ends_in_s))
        limit = bid
        if self.pricing.variant != "paper":
            if place.is_free and full >= place.rate and worth.full > 0:
                bid = limit = max(bid, place.rate, 1)
            elif not place.is_seen:
                # Whatever is free there is taken, as far as it is still worth that once it is paid.
                limit = max(bid, min(full, int(self.value(app, view, spend + full) * worth.full)))
        if limit < 1:
            return None
        dollars = tuple(value * each / MICROS_PER_DOLLAR for each in worth)
        price = place.price(view, max(1, bid))
        wish = Wish(scope, price, limit, WHY_WANTED, dollars, place.rate)
        return WeighedWish(wish, worth, place.is_free and place.rate <= limit, place.is_seen)

    def starts_in_s(self, app: Any, scope: str) -> float:
        """How long a node to come would cost and do nothing."""
        start_s: float = app.cold_start_s(scope)
        return start_s


def redone_of(app: Application, view: MarketView, resource: str) -> float:
    """How much work would have to be done again if this node were lost to somebody: what is not
    saved, or only what is done while it is saved, if that fits into the notice."""
    since_s, ready_s = app.since_checkpoint_s(resource), app.vacate_s(resource)
    notice_s = tree_terms(view, resource).notice_us / US_PER_S
    return since_s if ready_s is None or ready_s >= notice_s else min(since_s, ready_s)


def bound_share(view: MarketView, scope: str, ends_in_s: float | None) -> float:
    """For how much of the time that a winner is bound to a node there it would need it."""
    commit_s = tree_terms(view, scope).commit_us / US_PER_S
    if ends_in_s is None or commit_s <= ends_in_s:
        return 1.0
    return max(0.0, ends_in_s) / commit_s


def restart_of(app: Application, resource: str) -> float:
    """How long it takes until a successor is as far as this node is."""
    return max(0.0, app.cold_start_s(tree_of(resource)) - app.cold_start_s(resource))


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
