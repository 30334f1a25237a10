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
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from laissez.adapters.intent import Intent, Keep, TradingTerms, Wish
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
    wall = terms.budget.affordable_rate(view, terms.period_us)
    by_resource = {holding.resource: holding for holding in held}
    keep = [
        _counted(each, by_resource[each.resource], view)
        for each in intent.keep
        if each.resource in by_resource
    ]
    most = sum(each.limit for each, _ in keep) + sum(wish.limit for wish in intent.wishes)
    if most <= FOR_ORDERS * wall:
        return intent.keep, intent.wishes
    kept, left = _paid(keep, wall)
    beyond = wall - int(FOR_ORDERS * wall)
    wishes, for_orders = _paid(
        [(wish, min(max(1, wish.rate), wish.limit)) for wish in intent.wishes], left - beyond
    )
    raised, left = _raised(kept, left if not wishes else for_orders + beyond)
    return raised, _raised(wishes, min(left, for_orders))[0]


def is_protected(holding: Holding, view: MarketView) -> bool:
    """A guard keeps it from being lost to price."""
    return holding.safe_until is not None and holding.safe_until > view.at_us


def _counted(keep: Keep, holding: Holding, view: MarketView) -> tuple[Keep, int]:
    """A holding, and what it may be charged even if its limit is cut as far as it goes."""
    if is_protected(holding, view):
        return replace(keep, limit=holding.limit), holding.limit
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
    by_need = sorted(range(len(paid)), key=lambda at: paid[at][0].limit - paid[at][1])
    for served, at in enumerate(by_need):
        each, least = paid[at]
        share = min(each.limit - least, left // (len(paid) - served))
        raised[at] = each.limited(least + share)
        left -= share
    return [raised[at] for at in range(len(paid))], left
