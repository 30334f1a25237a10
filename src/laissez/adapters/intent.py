"""From what an adapter wants to the fewest actions that bring it about.

An adapter's decision is an `Intent`: what to keep, each with a limit, most important first, and
what to wish for, each wish one order. Whatever of the tenant's under the adapter's scopes is not
kept is released; whatever order of the adapter's own serves no wish is cancelled. So nothing
remains that nobody wants, and an adapter that has just been restarted goes on from the orders and
holdings that it finds.

Orders carry the adapter's name in their ids, so that it touches no order that a person placed. They
expire if it stops stepping, so that no stale order outlives it. A change by less than a trifle is
not sent. An order that covers what is about to be given up is cancelled first, or it might win it
back.

An order is lowered by amending it. It is raised, or made to last longer, by placing another and
cancelling it: under a guard a price may only rise from what was quoted before, and an amendment
would take the order's own pressure out of that quote first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from laissez.adapters.budget import Budget
from laissez.adapters.view import Action, MarketView
from laissez.model import AmendOrder, CancelOrder, ChangeLimit, Holding, OpenOrder, PlaceOrder
from laissez.model import Release as ReleaseResource
from laissez.model.paths import covers, tree_of
from laissez.model.values import MAX_RATE

TRIFLE = 0.05
LEASE_STEPS = 20


class Keep(msgspec.Struct, frozen=True):
    """A holding to keep, up to a limit. `why` is filled in with `figures` if it is ever told."""

    resource: str
    limit: int
    why: str = ""
    figures: tuple[float, ...] = ()


class Wish(msgspec.Struct, frozen=True):
    """One more resource under a scope, at this price and limit; `rate` is what it may cost."""

    scope: str
    price: int
    limit: int
    why: str = ""
    figures: tuple[float, ...] = ()
    rate: int = 0


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


def own_holdings(terms: Terms, view: MarketView) -> list[Holding]:
    """What the tenant holds under the adapter's scopes."""
    under = tuple(f"{scope}/" for scope in terms.scopes)
    return [each for each in view.holdings if f"{each.resource}/".startswith(under)]


def own_orders(terms: Terms, view: MarketView) -> list[OpenOrder]:
    """The adapter's orders, known by their ids."""
    return [order for order in view.orders if order.order.startswith(terms.prefix)]


def actions_for(intent: Intent, terms: Terms, view: MarketView) -> tuple[Action, ...]:
    """What to do now: give up first, then set limits, then order."""
    held = own_holdings(terms, view)
    keep, wishes = within_budget(intent, terms, view, held)
    kept = {each.resource: each for each in keep}
    given_up = [
        each.resource
        for each in held
        if (wanted := kept.get(each.resource)) is None or wanted.limit < each.rate
    ]
    served, stale = _matched(wishes, own_orders(terms, view), given_up)
    return (
        *(Action(CancelOrder(each.order), "the order serves no wish any more") for each in stale),
        *(
            Action(ReleaseResource(each.resource), _why_released(each, intent))
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


def _why_released(holding: Holding, intent: Intent) -> str:
    if any(each.resource == holding.resource for each in intent.keep):
        return "the budget does not pay for it any more"
    return intent.why_release


# The budget -------------------------------------------------------------------------------------


def within_budget(
    intent: Intent, terms: Terms, view: MarketView, held: Sequence[Holding]
) -> tuple[list[Keep], list[Wish]]:
    """The intent as far as it can be paid for, whatever happens until the next step."""
    by_resource = {holding.resource: holding for holding in held}
    keep = [
        msgspec.structs.replace(each, limit=min(each.limit, MAX_RATE))
        if each.limit > MAX_RATE
        else each
        for each in intent.keep
        if each.resource in by_resource
    ]
    if terms.budget is None:
        return keep, list(intent.wishes)
    left = terms.budget.affordable_rate(view, terms.period_us)
    paid: list[tuple[Keep, int]] = []
    for each in keep:
        costs = _costs_at_least(each, by_resource[each.resource], view)
        if costs <= left:
            paid.append((each, costs))
            left -= costs
    wishes: list[tuple[Wish, int]] = []
    for wish in intent.wishes:
        costs = min(max(1, wish.rate), wish.limit)
        if costs <= left:
            wishes.append((wish, costs))
            left -= costs
    return _raised(paid, left), _raised_wishes(wishes, left - _extra(paid, left))


def _costs_at_least(keep: Keep, holding: Holding, view: MarketView) -> int:
    """What a holding may be charged even if its limit is cut as far as it goes."""
    if _is_protected(holding, view):
        return holding.limit
    return min(keep.limit, holding.rate)


def _extra(paid: Sequence[tuple[Keep, int]], left: int) -> int:
    """How much of what is left goes into limits."""
    return min(left, sum(max(0, each.limit - costs) for each, costs in paid))


def _raised(paid: Sequence[tuple[Keep, int]], left: int) -> list[Keep]:
    raised = []
    for each, costs in paid:
        limit = min(each.limit, costs + left)
        left -= max(0, limit - costs)
        raised.append(each if limit == each.limit else msgspec.structs.replace(each, limit=limit))
    return raised


def _raised_wishes(paid: Sequence[tuple[Wish, int]], left: int) -> list[Wish]:
    raised = []
    for wish, costs in paid:
        limit = min(wish.limit, costs + left)
        left -= limit - costs
        raised.append(
            wish
            if limit == wish.limit
            else msgspec.structs.replace(wish, price=min(wish.price, limit), limit=limit)
        )
    return raised


def _is_protected(holding: Holding, view: MarketView) -> bool:
    return holding.safe_until is not None and holding.safe_until > view.at_us


def _is_worth_sending(holding: Holding, limit: int, terms: Terms, view: MarketView) -> bool:
    """A limit lowered under a guard's protection would act later, at a moment nobody chose."""
    if limit == holding.limit or (limit < holding.limit and _is_protected(holding, view)):
        return False
    if limit < holding.rate:
        return True
    is_near = holding.rate >= holding.limit * (1 - 2 * terms.trifle)
    if limit > holding.limit and is_near:
        return True  # it is about to be lost for a trifle
    return not _is_trifle(limit, holding.limit, terms.trifle)


def _is_trifle(new: int, old: int, trifle: float) -> bool:
    return abs(new - old) <= trifle * old


# Orders -----------------------------------------------------------------------------------------

_Served = tuple[Wish, OpenOrder | None]


def _matched(
    wishes: Sequence[Wish], orders: Sequence[OpenOrder], given_up: Sequence[str]
) -> tuple[list[_Served], list[OpenOrder]]:
    """Each wish with an order for its scope, where there is one; and the orders to cancel."""
    free: dict[str, list[OpenOrder]] = {}
    stale = []
    for order in orders:
        if any(covers(order.scope, resource) for resource in given_up):
            stale.append(order)
        else:
            free.setdefault(order.scope, []).append(order)
    served: list[_Served] = []
    for wish in wishes:
        same_scope = free.get(wish.scope)
        served.append((wish, same_scope.pop(0) if same_scope else None))
    return served, stale + [order for left_over in free.values() for order in left_over]


def _order_actions(served: Sequence[_Served], terms: Terms, view: MarketView) -> Iterator[Action]:
    expires = view.at_us + LEASE_STEPS * terms.period_us
    taken = {order.order for order in own_orders(terms, view)}
    numbers = _free_numbers(terms.prefix, taken)
    for wish, order in served:
        wish = _within_rates(wish)
        if order is not None and _may_stay(wish, order, terms, view):
            continue
        if order is not None and wish.price < order.price:
            yield Action(AmendOrder(order.order, wish.price, wish.limit), _why(wish))
            continue
        limit = wish.limit
        if order is not None and order.price < wish.price and order.limit >= limit:
            limit = min(order.limit + 1, MAX_RATE)  # the new one wins first, and the old never
        order_id = f"{terms.prefix}{next(numbers)}"
        yield Action(PlaceOrder(wish.scope, wish.price, limit, order_id, expires), _why(wish))
        if order is not None:
            yield Action(CancelOrder(order.order), "another order takes its place")


def _why(wish: Wish) -> str:
    return wish.why.format(*wish.figures)


def _within_rates(wish: Wish) -> Wish:
    if wish.limit <= MAX_RATE:
        return wish
    return msgspec.structs.replace(wish, price=min(wish.price, MAX_RATE), limit=MAX_RATE)


def _free_numbers(prefix: str, taken: set[str]) -> Iterator[int]:
    number = 0
    while True:
        if f"{prefix}{number}" not in taken:
            yield number
        number += 1


def _may_stay(wish: Wish, order: OpenOrder, terms: Terms, view: MarketView) -> bool:
    """The order differs by no more than a trifle, and lasts."""
    lease_us = LEASE_STEPS * terms.period_us
    if order.expires is None or order.expires - view.at_us < lease_us // 2:
        return False
    return _is_trifle(wish.price, order.price, terms.trifle) and _is_trifle(
        wish.limit, order.limit, terms.trifle
    )
