"""The wall: what is wanted, as far as it can be paid for whatever happens until the next step.

Usually everything can. If not, everything that is kept or wished for first gets what it costs now,
in the order of its importance; what is left then raises limits in that order. A holding that a
guard protects is charged up to the limit that it won with, whatever its limit is now; it is counted
with that, and released if it can't be paid. So an order never gets all of the wall for its limit:
won under a guard, it could not be kept a moment later.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from laissez.adapters.intent import Intent, Keep, Terms, Wish
from laissez.adapters.view import MarketView
from laissez.model import Holding

ROOMY = 2 / 3
"""What part of the wall an order may have."""


def within_budget(
    intent: Intent, terms: Terms, view: MarketView, held: Sequence[Holding]
) -> tuple[Sequence[Keep], Sequence[Wish]]:
    """The intent as far as it can be paid for."""
    if terms.budget is None:
        return intent.keep, intent.wishes
    left = terms.budget.affordable_rate(view, terms.period_us)
    by_resource = {holding.resource: holding for holding in held}
    keep = [
        _counted(each, by_resource[each.resource], view)
        for each in intent.keep
        if each.resource in by_resource
    ]
    most = sum(max(each.limit, least) for each, least in keep)
    wished = sum(wish.limit for wish in intent.wishes)
    if most + wished <= (ROOMY * left if wished else left):
        return intent.keep, intent.wishes
    roomy = int(ROOMY * left)
    kept: list[tuple[Keep, int]] = []
    for each, least in keep:
        if least <= left:
            kept.append((each, least))
            left -= least
    wishes: list[tuple[Wish, int]] = []
    for wish in intent.wishes:
        least = min(max(1, wish.rate), wish.limit)
        if least <= left:
            wishes.append((wish, least))
            left -= least
    return _raised(kept, wishes, left, roomy)


def is_protected(holding: Holding, view: MarketView) -> bool:
    """A guard keeps it from being lost to price."""
    return holding.safe_until is not None and holding.safe_until > view.at_us


def _counted(keep: Keep, holding: Holding, view: MarketView) -> tuple[Keep, int]:
    """A holding, and what it may be charged even if its limit is cut as far as it goes."""
    if is_protected(holding, view):
        return msgspec.structs.replace(keep, limit=holding.limit), holding.limit
    # At 0, anybody's lowest bid would take it.
    return keep, min(keep.limit, max(1, holding.rate))


def _raised(
    kept: Sequence[tuple[Keep, int]],
    wishes: Sequence[tuple[Wish, int]],
    left: int,
    roomy: int,
) -> tuple[list[Keep], list[Wish]]:
    """Limits as high as they were asked for, while there is something left."""
    raised, raised_wishes = [], []
    for keep, least in kept:
        limit = min(keep.limit, least + left)
        left -= max(0, limit - least)
        raised.append(msgspec.structs.replace(keep, limit=limit))
    for wish, least in wishes:
        limit = min(wish.limit, least + left, max(least, roomy))
        left -= limit - least
        raised_wishes.append(
            msgspec.structs.replace(wish, price=min(wish.price, limit), limit=limit)
        )
    return raised, raised_wishes
