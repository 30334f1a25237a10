"""What an adapter wants, and on what terms it deals.

A decision is an `Intent`: what to keep, each with a limit, most important first, and what to wish
for, each wish one order. `acting` turns it into the fewest actions, `wall` cuts it to the budget.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from laissez.adapters.budget import Budget
from laissez.adapters.view import NO_TERMS, MarketView, TreeTerms
from laissez.model import Holding, OpenOrder
from laissez.model.paths import tree_of

TRIFLE = 0.05


class Keep(msgspec.Struct, frozen=True):
    """A holding to keep, up to a limit. `why` is filled in with `figures` if it is ever told."""

    resource: str
    limit: int
    why: str = ""
    figures: tuple[float, ...] = ()

    def limited(self, limit: int) -> Keep:
        return replace(self, limit=limit)


class Wish(msgspec.Struct, frozen=True):
    """One more resource under a scope, at this price and limit; `rate` is what it may cost. With a
    `count` above 1 it is a gang: so many at once, in one domain, each up to the limit."""

    scope: str
    price: int
    limit: int
    why: str = ""
    figures: tuple[float, ...] = ()
    rate: int = 0
    count: int = 1
    within: int | None = None

    def limited(self, limit: int) -> Wish:
        return replace(self, price=min(self.price, limit), limit=limit)


class Intent(msgspec.Struct, frozen=True):
    """What an adapter wants now. What is most important comes first. What is not kept is of no use,
    or costs more than it is worth: then it `is_too_dear`."""

    keep: tuple[Keep, ...] = ()
    wishes: tuple[Wish, ...] = ()
    why_release: str = "it is of no use"
    is_too_dear: bool = False


class TradingTerms(msgspec.Struct, frozen=True):
    """How an adapter deals: under what name, within which scopes, how often, for how much."""

    name: str
    scopes: tuple[str, ...]
    period_us: int
    budget: Budget | None = None
    trifle: float = TRIFLE

    @property
    def prefix(self) -> str:
        return f"{self.name}."

    @property
    def scopes_and_trees(self) -> tuple[str, ...]:
        """Its scopes, and the trees that they lie in: a tree can always be seen."""
        trees = (tree_of(scope) for scope in self.scopes)
        return tuple(dict.fromkeys((*self.scopes, *trees)))


def own_holdings(terms: TradingTerms, view: MarketView) -> list[Holding]:
    """What the tenant holds under the adapter's scopes."""
    under = tuple(f"{scope}/" for scope in terms.scopes)
    return [each for each in view.holdings if f"{each.resource}/".startswith(under)]


def staying_holdings(terms: TradingTerms, view: MarketView) -> list[Holding]:
    """What it holds and is not called to leave: what there is to reckon with."""
    return [each for each in own_holdings(terms, view) if each.resource not in view.calls]


def own_promises(terms: TradingTerms, view: MarketView) -> tuple[str, ...]:
    """The nodes under the adapter's scopes that are on their way to it."""
    under = tuple(f"{scope}/" for scope in terms.scopes)
    return tuple(path for path in view.promises if f"{path}/".startswith(under))


def tree_terms(view: MarketView, path: str) -> TreeTerms:
    """Notice and commitment where a path is."""
    return view.terms.get(tree_of(path), NO_TERMS)


def own_orders(terms: TradingTerms, view: MarketView) -> list[OpenOrder]:
    """The adapter's orders, known by their ids."""
    return [order for order in view.orders if order.order.startswith(terms.prefix)]
