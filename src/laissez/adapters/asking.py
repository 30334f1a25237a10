"""Where to ask for one more node, if there are several places that may give it.

Where something is free, an order is filled at once. Where nothing is, nobody knows whose limit an
order would pass, so the places are asked in turn: the best one first, and the next as well while
that order rests. If all were asked at once, two tenants could lose a node where one is enough.

A scope can be seen if something is held under it, and a tree always. Of a scope that can't be seen
the quote of its tree tells nothing: it is never taken for free, and is asked in its turn. It may
not even exist, so that what is free elsewhere is asked beside it; should both be filled, one is
given back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from laissez.adapters.intent import TradingTerms, Wish, own_orders, tree_terms
from laissez.adapters.view import MarketView
from laissez.model import Quoted
from laissez.model.paths import tree_of

NEARLY = 0.9
"""An order that waits with so much of a wish's limit has asked for it."""


class ScopeToAsk(msgspec.Struct, frozen=True):
    """A scope, what a node there costs now as far as that can be known, and if one is free."""

    scope: str
    rate: int
    is_free: bool
    is_seen: bool

    def price(self, view: MarketView, most: int) -> int:
        """What to offer there. Whoever wins is bound to its price, where winners are bound; so
        nobody offers more than it takes for what is free."""
        if self.is_free and tree_terms(view, self.scope).commit_us:
            return max(1, min(most, self.rate))
        return most


def scope_to_ask(view: MarketView, scope: str) -> ScopeToAsk | None:
    """None if there is nothing under the scope that is not this tenant's already."""
    quote: Quoted | None = view.quotes.get(scope)
    is_seen = quote is not None
    if quote is None:
        quote = view.quotes.get(tree_of(scope))
    if quote is None or quote.rate is None:
        return None
    return ScopeToAsk(scope, quote.rate, is_seen and quote.idle, is_seen)


class WishToAsk(NamedTuple):
    """A wish that could be made, whether it would be filled at once, whether its scope is seen."""

    wish: Wish
    is_filled: bool
    is_seen: bool


class Turns:
    """Asks in turn, for one node after the other of one step."""

    def __init__(self, terms: TradingTerms, view: MarketView) -> None:
        self._resting = [
            (order.scope, order.limit) for order in own_orders(terms, view) if order.count == 1
        ]
        self._asked: Counter[str] = Counter()

    def ask(self, wishes: Iterable[WishToAsk]) -> list[Wish]:
        """The wishes to make now for one node."""
        asked = []
        only_what_is_filled = False
        for wish, is_filled, is_seen in wishes:
            if only_what_is_filled and not is_filled:
                continue
            asked.append(wish)
            rests = self._rests(wish)
            self._asked[wish.scope] += 1
            if is_filled or (is_seen and not rests):
                break
            only_what_is_filled |= not rests
        return asked

    def _rests(self, wish: Wish) -> bool:
        """An order of nearly this limit waits there, beyond those that other wishes count on."""
        waiting = sum(
            scope == wish.scope and limit >= NEARLY * wish.limit for scope, limit in self._resting
        )
        return waiting > self._asked[wish.scope]
