"""Today's two contracts, as adapters: a fixed number of nodes, at a fixed limit.

On-demand pays whatever it takes up to a high limit, so that it is not interrupted while the limit
suffices, and takes a node from whoever values it less. Spot offers little, takes what is free or
weakly held, and gives way at once to anybody who offers more. Both pay the rate, not their limit.

If a limit is lost to a higher price, the adapter asks again at once and waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from laissez.adapters.intent import Intent, Keep, Terms, Wish, actions_for, own_holdings, own_orders
from laissez.adapters.view import Action, MarketView
from laissez.model import Holding


class Finite(Protocol):
    """All that these contracts ask of an application: whether it still wants anything."""

    @property
    def is_done(self) -> bool: ...


class Footprint(msgspec.Struct, frozen=True):
    """`nodes` nodes anywhere under the adapter's scopes, the first scope first."""

    terms: Terms
    nodes: int
    limit: int

    def step(self, app: Finite, view: MarketView, at_us: int) -> tuple[Action, ...]:
        return actions_for(self.decide(app, view), self.terms, view)

    def scopes_to_quote(self, app: Finite, holdings: Sequence[Holding]) -> tuple[str, ...]:
        return self.terms.scopes_and_trees

    def decide(self, app: Finite, view: MarketView) -> Intent:
        if app.is_done:
            return Intent(why_release="the work is done")
        held = own_holdings(self.terms, view)[: self.nodes]
        keep = tuple(Keep(each.resource, self.limit, "the contract's limit") for each in held)
        why = f"{len(held)} of {self.nodes} nodes are held"
        scope = self._scope_to_ask(view)
        missing = self.nodes - len(held)
        wishes = (Wish(scope, self.limit, self.limit, why),) * missing
        return Intent(keep, wishes, "it is more than the contract asks for")

    def _scope_to_ask(self, view: MarketView) -> str:
        """The first scope with something free within the limit; one that can't be seen is asked
        before the next. If nothing is free anywhere, the first."""
        asked = {order.scope for order in own_orders(self.terms, view)}
        for scope in self.terms.scopes:
            quote = view.quotes.get(scope)
            if quote is None and scope not in asked:
                return scope
            if quote is not None and quote.idle and (quote.rate or 0) <= self.limit:
                return scope
        return self.terms.scopes[0]
