"""The wall: what is wanted, as far as it can be paid for whatever happens until the next step.

Usually everything can. If not, everything that is kept or wished for first gets what it costs now,
in the order of its importance; what is left then raises all limits alike, each as far as it asks.
If the most important were raised first, the last would be lost to any bid above its rate. But where
all stop with one, as in a crew that is nearly done and would pay hundreds to go on, the last is as
dear as the first. A holding that a guard protects is charged up to the limit that it won with,
whatever its limit is now; it is counted with that, and released if it can't be paid.

New orders may fill the wall only up to a part of it. The wall comes nearer with every moment that
is paid for, and what is won under a guard counts with its whole limit: if it had been bought with
the last of the money, it would have to be released at once, and would be bought again.

What is called is charged its limit to the end of its notice, and what is promised may be charged up
to its limit as soon as it comes: nothing can be done about either. Where winners are bound, the
rest of that time is spoken for at the price that was bid; and no order is made for more than can be
paid to the end of the time that it would bind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from laissez.adapters.intent import (
    Intent,
    Keep,
    TradingTerms,
    Wish,
    own_holdings,
    own_promises,
    tree_terms,
)
from laissez.adapters.view import MarketView
from laissez.model import Holding

T = TypeVar("T", Keep, Wish)

FOR_ORDERS = 2 / 3
"""Up to what part of the wall there may be new orders."""


def within_budget(
    intent: Intent, terms: TradingTerms, view: MarketView, held: Sequence[Holding]
) -> tuple[Sequence[Keep], Sequence[Wish]]:
    """The intent as far as it can be paid for."""
    if terms.budget is None:
        return intent.keep, intent.wishes
    by_resource = {holding.resource: holding for holding in held}
    keep = [
        _counted(each, by_resource[each.resource], view)
        for each in intent.keep
        if each.resource in by_resource
    ]
    owed = _owed(by_resource, view)
    wanted = _bindable(intent.wishes, terms.budget.left(view) - owed, view)
    certain = _certain(terms, view) + _given_up(by_resource, intent, view)
    wall = max(0, terms.budget.affordable_rate(view, terms.period_us, owed) - certain)
    most = sum(each.limit for each, _ in keep) + sum(wish.limit * wish.count for wish in wanted)
    if most <= FOR_ORDERS * wall:
        return intent.keep, wanted
    kept, left = _paid(keep, wall)
    beyond = wall - int(FOR_ORDERS * wall)
    wishes, for_orders = _paid(
        [(wish, wish.count * min(max(1, wish.rate), wish.limit)) for wish in wanted], left - beyond
    )
    raised, left = _raised(kept, left if not wishes else for_orders + beyond)
    return raised, _raised(wishes, min(left, for_orders))[0]


def _owed(held: Mapping[str, Holding], view: MarketView) -> int:
    """What it is bound to, to the end, in the market's unit of charge."""
    return sum(
        bond.rate * max(0, bond.until_us - view.at_us)
        for path, bond in view.bonds.items()
        if path in held
    )


def _bindable(wishes: Sequence[Wish], left: int, view: MarketView) -> Sequence[Wish]:
    """Wishes that can be paid as long as they would bind."""
    if not view.terms:
        return wishes
    bindable = []
    for wish in wishes:
        bound_us = wish.count * tree_terms(view, wish.scope).commit_us
        price = min(wish.price, max(0, left) // bound_us) if bound_us else wish.price
        if price >= 1:
            is_gang = wish.count > 1
            bindable.append(replace(wish, price=price, limit=price if is_gang else wish.limit))
            left -= price * bound_us
    return bindable


def _certain(terms: TradingTerms, view: MarketView) -> int:
    """What may be charged for what is called and for what is promised, whatever is wanted."""
    called = (each.limit for each in own_holdings(terms, view) if each.resource in view.calls)
    return sum(called) + sum(view.promises[path].limit for path in own_promises(terms, view))


def _given_up(held: Mapping[str, Holding], intent: Intent, view: MarketView) -> int:
    """The same for what is not wanted any more, and can't be given back yet."""
    kept = {each.resource for each in intent.keep}
    return sum(
        max(held[path].rate, bond.rate)
        for path, bond in view.bonds.items()
        if path in held and path not in kept and bond.until_us > view.at_us
    )


def is_protected(holding: Holding, view: MarketView) -> bool:
    """A guard keeps it from being lost to price."""
    return holding.safe_until is not None and holding.safe_until > view.at_us


def _counted(keep: Keep, holding: Holding, view: MarketView) -> tuple[Keep, int]:
    """A holding, and what it may be charged even if its limit is cut as far as it goes."""
    if is_protected(holding, view):
        return replace(keep, limit=holding.limit), holding.limit
    bond = view.bonds.get(holding.resource)
    if bond is not None and bond.until_us > view.at_us:
        least = max(bond.rate, min(keep.limit, holding.rate), 1)
        return replace(keep, limit=max(keep.limit, least)), least
    # At 0, anybody's lowest bid would take it.
    return keep, min(keep.limit, max(1, holding.rate))


def _paid(wanted: Sequence[tuple[T, int]], left: int) -> tuple[list[tuple[T, int]], int]:
    """Those whose least is paid, in their order; and what is left."""
    paid = []
    for each, least in wanted:
        if least <= left:
            paid.append((each, least))
            left -= least
    return paid, left


def _raised(paid: Sequence[tuple[T, int]], left: int) -> tuple[list[T], int]:
    """Limits as high as they were asked for; where that is too much, all by the same amount."""
    raised: dict[int, T] = {}
    by_need = sorted(range(len(paid)), key=lambda at: _most(paid[at][0]) - paid[at][1])
    for served, at in enumerate(by_need):
        each, least = paid[at]
        share = min(_most(each) - least, left // (len(paid) - served))
        raised[at] = each.limited((least + share) // _count(each))
        left -= share
    return [raised[at] for at in range(len(paid))], left


def _count(wanted: Keep | Wish) -> int:
    return wanted.count if isinstance(wanted, Wish) else 1


def _most(wanted: Keep | Wish) -> int:
    return wanted.limit * _count(wanted)
