"""Today's two contracts, as adapters: a fixed number of nodes, at a fixed limit.

On-demand pays whatever it takes up to a high limit, so that it is not interrupted while the limit
suffices, and takes a node from whoever values it less. Spot offers little, takes what is free or
weakly held, and gives way at once to anybody who offers more. Both pay the rate, not their limit.

Of several scopes the first one with something free is taken, where one that can't be seen may have
something; if nothing is free, they are asked in turn.

A budget that is to last bears fewer nodes than the contract asks for, if that is so; the limit
stays. A node is added only if its cost is borne to the end, and kept if it nearly is, so that a
rate that moves a little changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from laissez.adapters.adapter import Trader
from laissez.adapters.asking import Turns, WishToAsk, scope_to_ask
from laissez.adapters.intent import Intent, Keep, Wish, own_promises, staying_holdings
from laissez.adapters.view import MarketView
from laissez.model import Holding

NEARLY_BORNE = 0.8


class Finite(Protocol):
    """All that these contracts ask of an application: whether it still wants anything."""

    @property
    def is_done(self) -> bool: ...


class Footprint(Trader, frozen=True):
    """`nodes` nodes anywhere under the adapter's scopes, the first scope first."""

    nodes: int
    limit: int

    def decide(self, app: Finite, view: MarketView) -> Intent:
        held = self._borne(staying_holdings(self.terms, view)[: self.nodes], view)
        keep = tuple(Keep(each.resource, self.limit, "the contract's limit") for each in held)
        spend = sum(each.rate for each in held)
        wishes: list[Wish] = []
        turns = Turns(self.terms, view)
        for number in range(len(held) + len(own_promises(self.terms, view)), self.nodes):
            why = f"it is to hold {self.nodes}, and this is number {number + 1}"
            asked = turns.ask(self._offers(view, spend, why))
            wishes += asked
            spend += asked[0].rate if asked else 0
        return Intent(keep, tuple(wishes), "it is more than the contract or its budget bears")

    def _borne(self, held: Sequence[Holding], view: MarketView) -> list[Holding]:
        """Those that the budget bears nearly to its end, at what they cost now."""
        borne, spend = [], 0
        for holding in held:
            spend += holding.rate
            if self._pace(view, spend) >= NEARLY_BORNE:
                borne.append(holding)
        return borne

    def _offers(self, view: MarketView, spend: int, why: str) -> Iterator[WishToAsk]:
        """One order for each scope where the budget bears another node to its end."""
        places = [place for scope in self.terms.scopes if (place := scope_to_ask(view, scope))]
        places.sort(key=lambda place: place.is_seen and not place.is_free)
        for place in places:
            rate = place.rate if place.is_seen else self.limit
            if self._pace(view, spend + rate) == 1.0:
                price = place.price(view, self.limit)
                wish = Wish(place.scope, price, self.limit, why, rate=rate)
                yield WishToAsk(wish, place.is_free and place.rate <= self.limit, place.is_seen)

    def _pace(self, view: MarketView, spend: int) -> float:
        budget = self.terms.budget
        return 1.0 if budget is None else budget.pace(view, spend)
