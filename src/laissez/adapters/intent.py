"""From what an adapter wants to the fewest actions that bring it about.

An adapter's decision is an `Intent`: what to keep, each with a limit, most important first, and
what to wish for, each wish one order. Whatever of the tenant's under the adapter's scopes is not
kept is released; whatever order of the adapter's own serves no wish is cancelled. So nothing
remains that nobody wants, and an adapter that has just been restarted goes on from the orders and
holdings that it finds.

Orders carry the adapter's name in their ids, so that it touches no order that a person placed. They
expire if it stops stepping, so that no stale order outlives it. A change by less than a trifle is
not sent: an amendment loses its place in the queue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import UNSET, UnsetType

from laissez.adapters.budget import Budget
from laissez.adapters.view import Action, MarketView
from laissez.model import AmendOrder, CancelOrder, ChangeLimit, Holding, OpenOrder, PlaceOrder
from laissez.model import Release as ReleaseResource
from laissez.model.paths import tree_of
from laissez.model.values import MAX_RATE

TRIFLE = 0.05
LEASE_STEPS = 10


class Keep(msgspec.Struct, frozen=True):
    """A holding to keep, up to a limit. `why` is filled in with `figures` if it is ever told."""

    resource: str
    limit: int
    why: str = ""
    figures: tuple[float, ...] = ()


class Wish(msgspec.Struct, frozen=True):
    """One more resource under a scope, at this price and limit."""

    scope: str
    price: int
    limit: int
    why: str = ""
    figures: tuple[float, ...] = ()


class Intent(msgspec.Struct, frozen=True):
    """What an adapter wants now. What is most important comes first."""

    keep: tuple[Keep, ...] = ()
    wishes: tuple[Wish, ...] = ()
    why_release: str = "it is of no use"


class Terms(msgspec.Struct, frozen=True):
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


def actions_for(intent: Intent, terms: Terms, view: MarketView) -> tuple[Action, ...]:
    """What to do now: cancel first, so that no order wins back what is released; then the rest."""
    held = own_holdings(terms, view)
    keep, wishes = within_budget(intent, terms, view, held)
    kept = {each.resource: each for each in keep}
    served, stale = _matched(wishes, own_orders(terms, view))
    return (
        *(Action(CancelOrder(each.order), "the order serves no wish any more") for each in stale),
        *(
            Action(ReleaseResource(each.resource), _why_released(each.resource, intent))
            for each in held
            if each.resource not in kept
        ),
        *(
            Action(ChangeLimit(each.resource, wanted.limit), wanted.why.format(*wanted.figures))
            for each in held
            if (wanted := kept.get(each.resource)) is not None
            and _is_worth_sending(each, wanted.limit, terms, view)
        ),
        *_order_actions(served, terms, view),
    )


def _why_released(resource: str, intent: Intent) -> str:
    if any(each.resource == resource for each in intent.keep):
        return "the budget does not pay for it any more"
    return intent.why_release


def own_holdings(terms: Terms, view: MarketView) -> list[Holding]:
    """What the tenant holds under the adapter's scopes."""
    under = tuple(f"{scope}/" for scope in terms.scopes)
    return [each for each in view.holdings if f"{each.resource}/".startswith(under)]


def own_orders(terms: Terms, view: MarketView) -> list[OpenOrder]:
    """The adapter's orders, known by their ids."""
    return [order for order in view.orders if order.order.startswith(terms.prefix)]


def within_budget(
    intent: Intent, terms: Terms, view: MarketView, held: Sequence[Holding]
) -> tuple[tuple[Keep, ...], tuple[Wish, ...]]:
    """The intent as far as it can be paid for, whatever happens until the next step."""
    if terms.budget is None:
        return intent.keep, intent.wishes
    left = terms.budget.affordable_rate(view, terms.period_us)
    by_resource = {holding.resource: holding for holding in held}
    keep = []
    for each in intent.keep:
        holding = by_resource.get(each.resource)
        if holding is None:
            continue
        limit = min(each.limit, left)
        most = max(limit, holding.limit) if _is_protected(holding, view) else limit
        if limit < holding.rate or most > left:
            continue
        keep.append(each if limit == each.limit else msgspec.structs.replace(each, limit=limit))
        left -= most
    wishes = []
    for wish in intent.wishes:
        limit = min(wish.limit, left)
        if limit < 1:
            break
        wishes.append(
            wish
            if limit == wish.limit
            else msgspec.structs.replace(wish, price=min(wish.price, limit), limit=limit)
        )
        left -= limit
    return tuple(keep), tuple(wishes)


def _is_protected(holding: Holding, view: MarketView) -> bool:
    return holding.safe_until is not None and holding.safe_until > view.at_us


def _is_worth_sending(holding: Holding, limit: int, terms: Terms, view: MarketView) -> bool:
    """A limit lowered under a guard's protection would act later, at a moment nobody chose."""
    if limit == holding.limit or (limit < holding.limit and _is_protected(holding, view)):
        return False
    if limit < holding.rate:
        return True
    if terms.budget is not None and limit < holding.limit:
        return True  # the wall counts with the limit that was asked for
    return not _is_trifle(limit, holding.limit, terms.trifle)


def _is_trifle(new: int, old: int, trifle: float) -> bool:
    return abs(new - old) <= trifle * old


def _matched(
    wishes: Sequence[Wish], orders: Sequence[OpenOrder]
) -> tuple[list[tuple[Wish, OpenOrder | None]], list[OpenOrder]]:
    """Each wish with an order for its scope, where there is one; and the orders left over."""
    free: dict[str, list[OpenOrder]] = {}
    for order in orders:
        free.setdefault(order.scope, []).append(order)
    served = []
    for wish in wishes:
        same_scope = free.get(wish.scope)
        served.append((wish, same_scope.pop(0) if same_scope else None))
    return served, [order for left_over in free.values() for order in left_over]


def _order_actions(
    served: Sequence[tuple[Wish, OpenOrder | None]], terms: Terms, view: MarketView
) -> Iterator[Action]:
    expires = view.at_us + LEASE_STEPS * terms.period_us
    taken = {order.order for _, order in served if order is not None}
    numbers = _free_numbers(terms.prefix, taken)
    for wish, order in served:
        price, limit = min(wish.price, MAX_RATE), min(wish.limit, MAX_RATE)
        if order is None:
            order_id = f"{terms.prefix}{next(numbers)}"
            do = PlaceOrder(wish.scope, price, limit, order_id, expires)
            yield Action(do, wish.why.format(*wish.figures))
        else:
            changed = _amendment(order, price, limit, expires, terms, view)
            if changed is not None:
                yield Action(changed, wish.why.format(*wish.figures))


def _free_numbers(prefix: str, taken: set[str]) -> Iterator[int]:
    number = 0
    while True:
        if f"{prefix}{number}" not in taken:
            yield number
        number += 1


def _amendment(
    order: OpenOrder, price: int, limit: int, expires: int, terms: Terms, view: MarketView
) -> AmendOrder | None:
    """The change that an order needs, if it is more than a trifle or its lease runs out."""
    lease_us = LEASE_STEPS * terms.period_us
    ends_soon = order.expires is None or order.expires - view.at_us < lease_us // 2
    same_limit = limit == order.limit or (
        _is_trifle(limit, order.limit, terms.trifle)
        and (terms.budget is None or limit > order.limit)
    )
    if same_limit and _is_trifle(price, order.price, terms.trifle):
        if not ends_soon:
            return None
        return AmendOrder(order.order, expires=expires)
    renewed: int | UnsetType = expires if ends_soon else UNSET
    return AmendOrder(order.order, price=price, limit=limit, expires=renewed)
