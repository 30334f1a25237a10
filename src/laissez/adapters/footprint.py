"""Today's two contracts, as adapters: a fixed number of nodes, at a fixed limit.

On-demand pays whatever it takes up to a high limit, so that it is not interrupted while the limit
suffices, and takes a node from whoever values it less. Spot offers little, takes what is free or
weakly held, and gives way at once to anybody who offers more. Both pay the rate, not their limit.

Of several scopes the first one with something free is taken, where one that can't be seen may have
something; if nothing is free, they are asked in turn.
"""

from __future__ import annotations

from typing import Protocol

from laissez.adapters.adapter import Trader
from laissez.adapters.asking import Place, Turns, place_at
from laissez.adapters.intent import Intent, Keep, Wish, own_holdings
from laissez.adapters.view import MarketView


class Finite(Protocol):
    """All that these contracts ask of an application: whether it still wants anything."""

    @property
    def is_done(self) -> bool: ...


class Footprint(Trader, frozen=True):
    """`nodes` nodes anywhere under the adapter's scopes, the first scope first."""

    nodes: int
    limit: int

    def decide(self, app: Finite, view: MarketView) -> Intent:
        held = own_holdings(self.terms, view)[: self.nodes]
        spend = 0
        keep = []
        for holding in held:
            spend += holding.rate
            keep.append(Keep(holding.resource, self._limit(view, spend), "the contract's limit"))
        wishes: list[Wish] = []
        places = [place for scope in self.terms.scopes if (place := place_at(view, scope))]
        places.sort(key=lambda place: place.is_seen and not place.is_free)
        turns = Turns(self.terms, view)
        for number in range(len(held), self.nodes):
            why = f"{number} of {self.nodes} nodes are held"
            offers = [self._offer(view, place, spend, why) for place in places]
            asked = turns.ask(offer for offer in offers if offer[0].limit >= 1)
            wishes += asked
            spend += asked[0].rate if asked else 0
        return Intent(tuple(keep), tuple(wishes), "it is more than the contract asks for")

    def _offer(self, view: MarketView, place: Place, spend: int, why: str) -> tuple[Wish, bool]:
        limit = self._limit(view, spend + place.rate)
        is_filled = place.is_free and place.rate <= limit
        return Wish(place.scope, limit, limit, why, rate=place.rate), is_filled

    def _limit(self, view: MarketView, spend: int) -> int:
        """Lower for what the budget does not bear to its end."""
        budget = self.terms.budget
        return self.limit if budget is None else int(self.limit * budget.pace(view, spend))
