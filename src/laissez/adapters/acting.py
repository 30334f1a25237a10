"""From what an adapter wants to the fewest actions that bring it about.

Whatever of the tenant's under the adapter's scopes is not kept is released; whatever order of the
adapter's own serves no wish is cancelled. So nothing remains that nobody wants, and an adapter that
has just been restarted goes on from the orders and holdings that it finds.

Orders carry the adapter's name in their ids, so that it touches no order that a person placed. They
expire if it stops stepping, so that no stale order outlives it. A change by less than a trifle is
not sent. An order that covers what is about to be given up is cancelled first, or it might win it
back.

An order is lowered by amending it. It is raised, or made to last longer, by placing another and
cancelling it: under a guard a price may only rise from what was quoted before, and an amendment
would take the order's own pressure out of that quote first. A gang presses on nobody, and is
amended always.

What is called is no longer reckoned with: `leaving` sees to it. What a holder is bound to is never
released, for that would cost the rest of its time at once, at the price that was bid. Its limit is
lowered as far as it goes: so it costs no more than its rate, and nothing once somebody takes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from laissez.adapters.intent import Intent, TradingTerms, Wish, own_orders, staying_holdings
from laissez.adapters.view import Action, MarketView, OrderGang
from laissez.adapters.wall import is_protected, within_budget
from laissez.model import AmendOrder, CancelOrder, ChangeLimit, Holding, OpenOrder, PlaceOrder
from laissez.model import Release as ReleaseResource
from laissez.model.paths import covers
from laissez.model.values import MAX_RATE

LEASE_STEPS = 20


def actions_for(intent: Intent, terms: TradingTerms, view: MarketView) -> tuple[Action, ...]:
    """What to do now: give up first, then set limits, then order."""
    held = staying_holdings(terms, view)
    keep, wishes = within_budget(_within_rates(intent), terms, view, held)
    kept = {each.resource: each for each in keep}
    wanted_limits = {each.resource: each.limit for each in intent.keep}
    given_up = [
        each.resource
        for each in held
        if (wanted := kept.get(each.resource)) is None or wanted.limit < each.rate
    ]
    served, stale = _matched(wishes, own_orders(terms, view), given_up)
    return (
        *(Action(CancelOrder(each.order), "the order serves no wish any more") for each in stale),
        *(
            action
            for each in held
            if each.resource not in kept and (action := _give_up(each, intent, view)) is not None
        ),
        *(
            Action(
                ChangeLimit(each.resource, wanted.limit),
                wanted.why.format(*wanted.figures)
                if wanted.limit >= min(wanted_limits[each.resource], MAX_RATE)
                else "the budget allows no more until the next step",
            )
            for each in held
            if (wanted := kept.get(each.resource)) is not None
            and _is_worth_sending(each, wanted.limit, terms, view)
        ),
        *_order_actions(served, terms, view),
    )


def _give_up(holding: Holding, intent: Intent, view: MarketView) -> Action | None:
    path, why = holding.resource, intent.why_release
    if any(each.resource == path for each in intent.keep):
        why = "the budget does not pay for it any more"
    bond = view.bonds.get(path)
    if bond is None or bond.until_us <= view.at_us:
        return Action(ReleaseResource(path), why, intent.is_too_dear)
    if holding.limit <= bond.rate:
        return None  # it is given up already, and goes as soon as it may
    return Action(ChangeLimit(path, 1), f"{why}, but it is bound to it for a while")


def _is_worth_sending(holding: Holding, limit: int, terms: TradingTerms, view: MarketView) -> bool:
    """Under a guard's protection a limit means nothing yet but what may be charged meanwhile, and
    below what its holder is bound to it means nothing at all."""
    bond = view.bonds.get(holding.resource)
    if bond is not None and bond.until_us > view.at_us:
        limit = max(limit, bond.rate)
    if limit == holding.limit or is_protected(holding, view):
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
_Sort = tuple[str, int, int | None]


def _matched(
    wishes: Sequence[Wish], orders: Sequence[OpenOrder], given_up: Sequence[str]
) -> tuple[list[_Served], list[OpenOrder]]:
    """Each wish with an order for its scope, where there is one; and the orders to cancel."""
    free: dict[_Sort, list[OpenOrder]] = {}
    stale = []
    for order in orders:
        if any(covers(order.scope, resource) for resource in given_up):
            stale.append(order)
        else:
            free.setdefault((order.scope, order.count, order.within), []).append(order)
    served: list[_Served] = []
    for wish in wishes:
        same = free.get((wish.scope, wish.count, wish.within))
        served.append((wish, same.pop(0) if same else None))
    return served, stale + [order for left_over in free.values() for order in left_over]


def _order_actions(
    served: Sequence[_Served], terms: TradingTerms, view: MarketView
) -> Iterator[Action]:
    expires = view.at_us + LEASE_STEPS * terms.period_us
    taken = {order.order for order in own_orders(terms, view)}
    taken |= {promised.order for promised in view.promises.values()}
    numbers = _free_numbers(terms.prefix, taken)
    for wish, order in served:
        if order is not None and _may_stay(wish, order, terms, view):
            continue
        if wish.count > 1:
            yield _gang_action(wish, order, f"{terms.prefix}{next(numbers)}", expires)
            continue
        before = 0 if order is None or order.price is None else order.price
        if order is not None and wish.price < before:
            yield Action(AmendOrder(order.order, wish.price, wish.limit), _why(wish))
            continue
        limit = wish.limit
        if order is not None and before < wish.price and order.limit >= limit:
            limit = min(order.limit + 1, MAX_RATE)  # the new one wins first, and the old never
        order_id = f"{terms.prefix}{next(numbers)}"
        yield Action(PlaceOrder(wish.scope, wish.price, limit, order_id, expires), _why(wish))
        if order is not None:
            yield Action(CancelOrder(order.order), "another order takes its place")


def _gang_action(wish: Wish, order: OpenOrder | None, new_id: str, expires: int) -> Action:
    if order is not None:
        return Action(AmendOrder(order.order, None, wish.limit, expires), _why(wish))
    gang = OrderGang(wish.scope, wish.count, wish.within, wish.limit, new_id, expires)
    return Action(gang, _why(wish))


def _why(wish: Wish) -> str:
    return wish.why.format(*wish.figures)


def _within_rates(intent: Intent) -> Intent:
    """No rate is higher than the market knows."""
    if max((each.limit for each in intent.keep), default=0) <= MAX_RATE and (
        max((wish.limit for wish in intent.wishes), default=0) <= MAX_RATE
    ):
        return intent
    return msgspec.structs.replace(
        intent,
        keep=tuple(
            msgspec.structs.replace(each, limit=min(each.limit, MAX_RATE)) for each in intent.keep
        ),
        wishes=tuple(
            msgspec.structs.replace(
                each, price=min(each.price, MAX_RATE), limit=min(each.limit, MAX_RATE)
            )
            for each in intent.wishes
        ),
    )


def _free_numbers(prefix: str, taken: set[str]) -> Iterator[int]:
    number = 0
    while True:
        if f"{prefix}{number}" not in taken:
            yield number
        number += 1


def _may_stay(wish: Wish, order: OpenOrder, terms: TradingTerms, view: MarketView) -> bool:
    """The order differs by no more than a trifle, and lasts."""
    lease_us = LEASE_STEPS * terms.period_us
    if order.expires is None or order.expires - view.at_us < lease_us // 2:
        return False
    is_same_price = order.price is None or _is_trifle(wish.price, order.price, terms.trifle)
    return is_same_price and _is_trifle(wish.limit, order.limit, terms.trifle)
