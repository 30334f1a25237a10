"""What a tenant can know beforehand and afterwards: will it fill, why did it not, what is near.

Everything here follows from what the tenant may see anyway: its own order, the quote of the
order's scope if that is visible, its own holding. A quote says what is charged and never what a
holder would bear, so that no sentence here can.
"""

from __future__ import annotations

import msgspec

from laissez.client.money import show_rate
from laissez.model import Holding, OpenOrder, Quoted

LEVELS_ATTRIBUTE = "levels"
UNSEEN = "the private limit of any holder who may lose its resource now"


class Preview(msgspec.Struct, frozen=True):
    """What an order would do now; `quote` is None where the scope is not visible.

    `fills_now` is certain when True. When False the order would rest, unless its price passes a
    holder's private limit, which nobody can know.
    """

    fills_now: bool
    price: int
    limit: int
    quote: Quoted | None
    sentence: str


def preview_order(
    scope: str, price: int | None, limit: int | None, quote: Quoted | None
) -> Preview:
    """A dry run by the market's own rules for what is not given."""
    if limit is None:
        limit = price
    if limit is None:
        raise ValueError("give a price, a limit or both: the market has to know how far you go")
    if price is None:
        if quote is None:
            raise ValueError(
                f"you see no quote of {scope}: check the name, or give the price of the order"
            )
        price = limit if quote.rate is None else max(1, min(quote.rate, limit))
    if not 0 < price <= limit:
        raise ValueError(
            f"a price is above 0 and not above the limit; {show_rate(price)} with the limit "
            f"{show_rate(limit)} would be refused"
        )
    idle = quote is not None and quote.idle and quote.rate is not None
    fills_now = idle and quote is not None and (quote.rate or 0) <= limit
    return Preview(fills_now, price, limit, quote, _forecast(scope, price, limit, quote))


def _forecast(scope: str, price: int, limit: int, quote: Quoted | None) -> str:
    rests = f"the order would rest at {show_rate(price)}, unless that passes {UNSEEN}"
    if quote is None:
        return f"you see no quote of {scope}; if nothing is idle there at your limit, {rests}"
    if quote.rate is None:
        return f"there is nothing under {scope} that is not yours already; {rests}"
    if not quote.idle:
        return (
            f"nothing is idle under {scope}, and the lowest rate charged there is "
            f"{show_rate(quote.rate)}; {rests}"
        )
    if quote.rate <= limit:
        return f"a resource under {scope} is idle: the order fills now, at {show_rate(quote.rate)}"
    return (
        f"what is idle under {scope} costs {show_rate(quote.rate)} at least, above your limit of "
        f"{show_rate(limit)}; {rests}"
    )


def why_not_filled(order: OpenOrder, quote: Quoted | None) -> str:
    """Why an open order is not filled, and what would help."""
    if order.price is None:
        return (
            f"no domain under {order.scope} has {order.count:,} resources that are idle within "
            f"your limit of {show_rate(order.limit)} each, or held by others with a lower limit"
        )
    passes = f"your price of {show_rate(order.price)} does not pass {UNSEEN}"
    if quote is None:
        return (
            f"nothing is idle under {order.scope} at or below your limit of "
            f"{show_rate(order.limit)}, and {passes}; more can't be said, because you hold nothing "
            "there and do not see its quote"
        )
    if quote.rate is None:
        return (
            f"there is nothing under {order.scope} that is not yours already; order at a wider "
            "scope, or wait until the operator adds something"
        )
    if quote.idle and quote.rate <= order.limit:
        return (
            f"a resource under {order.scope} has just become idle at {show_rate(quote.rate)}, "
            "within your limit; look at your holdings"
        )
    if quote.idle:
        return (
            f"what is idle under {order.scope} costs {show_rate(quote.rate)} at least, above your "
            f"limit of {show_rate(order.limit)}; {passes}; raise the limit to take what is idle"
        )
    return (
        f"nothing is idle under {order.scope} at or below your limit of {show_rate(order.limit)}; "
        f"the lowest rate charged there is {show_rate(quote.rate)}; {passes}; raise the price, or "
        "wait until somebody leaves"
    )


def scope_around(holding: Holding, level: str | int) -> str:
    """The scope of a level around a held resource, by name or by the number of names in it."""
    names = holding.resource.split("/")
    if isinstance(level, str):
        levels = holding.attributes.get(LEVELS_ATTRIBUTE, "")
        known = levels.split("/") if levels else []
        if level not in known:
            choices = ", ".join(known) or "none, so give the number of names instead"
            raise ValueError(
                f"{holding.resource} has no level {level[:80]!r}; its levels are: {choices}"
            )
        level = known.index(level) + 2  # the levels are those below the root
    if not 1 <= level <= len(names):
        raise ValueError(f"{holding.resource} has 1 to {len(names)} names, not {level}")
    return "/".join(names[:level])
