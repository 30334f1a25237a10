"""May this request go on to the sequencer? Each check passes or gives the refusal.

Everything here looks at the request and the token, and a little at the market: at what the tenant
may see, and how much of it there is already. A refusal changes nothing and is not journaled. So
what is plainly malformed is refused here, in the market's own words, before it is written down for
ever: numbers that are no rate and no time, texts that are too long or no names. Lengths are of
UTF-8, in bytes, because that is what is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from laissez.exchange.access import Principal
from laissez.exchange.levels import LEVEL_NAME, wrong_levels
from laissez.exchange.tickets import UnderWay
from laissez.market import Market, checks
from laissez.model import (
    AmendOrder,
    AskQuote,
    AskResources,
    CancelOrder,
    ChangeFloor,
    ChangeGuard,
    ChangeLimit,
    CloseStatements,
    Code,
    CordonScope,
    Instruction,
    NameLevels,
    OfferResource,
    PlaceOrder,
    Question,
    Refused,
    Release,
    Role,
    ServiceCode,
    Subscribe,
    UncordonScope,
    WithdrawResource,
)
from laissez.model.dollars import show_rate
from laissez.model.sentences import needs_role
from laissez.model.values import MAX_RATE, MAX_TIME

# In bytes.
ORDER_ID_MAX = 128
KEY_MAX = 128
PATH_MAX = 2_048
WIDE_MAX = KEY_MAX // 4
"""So many characters are never too many bytes, whatever they are. Nearly all texts are as short,
and numbers within bounds: so that is looked at in place, for speed, and the check is only called
for what is left, and to word the refusal. The forms below go about it the same way."""

ATTRIBUTES_MAX = 64
ATTRIBUTE_TEXT_MAX = 8_192
QUOTES_MAX = 100
FALL_WINDOW_LEAST_US = 100_000
FALL_LEAST_MICROS = 1_000


def check_allowance(caller: Principal, request_id: int | None, at: int) -> Refused | None:
    """Is the token alive, and has it requests left?"""
    if caller.is_mortal and caller.token.is_dead(at):
        return Refused(
            request_id,
            ServiceCode.UNAUTHENTICATED,
            "this token has expired or was revoked; ask the operator for a new one",
        )
    wait_us = caller.token_allowance.take_request(at) if caller.is_alone else caller.wait_us(at)
    if wait_us:
        return Refused(
            request_id,
            ServiceCode.TOO_MANY_REQUESTS,
            f"this token may send {caller.limits.requests_per_s} requests a second; slow down",
            wait_us // 1_000 + 1,
        )
    return None


def check_instruction(
    caller: Principal, request_id: int, do: Instruction, key: str | None
) -> Refused | None:
    """May this caller ask for this change, and is it of a size that we take?"""
    role, path, own_check = _RULES[type(do)]
    if caller.role != role:
        return _forbidden(request_id, needs_role(type(do), role, caller.role))
    if key is not None and not 0 < len(key) <= WIDE_MAX and (refused := check_key(request_id, key)):
        return refused
    if (
        path is not None
        and len(text := getattr(do, path)) > WIDE_MAX
        and _is_longer(text, PATH_MAX)
    ):
        return _bad(request_id, f"a path has at most {PATH_MAX} bytes")
    return None if own_check is None else own_check(request_id, do)


def check_form(
    caller: Principal, market: Market, request_id: int, do: Instruction, under_way: UnderWay
) -> Refused | None:
    """Is it a change that this market could make, and is there room for it? Orders of this tenant
    that are under way count: each may come to rest."""
    check = _FORMS.get(type(do))
    if check is not None:
        try:
            check(market, do)
        except checks.CommandRefused as refused:
            return Refused(request_id, refused.code, refused.message)
    if type(do) is PlaceOrder:
        if do.count > caller.limits.gang_most:
            return too_many(request_id, caller, do.count)
        placing = under_way.placing(caller.name)
        if market.order_count(caller.name) + placing >= caller.limits.orders:
            return Refused(
                request_id,
                ServiceCode.TOO_MANY_ORDERS,
                f"a tenant may have {caller.limits.orders} orders at a time; cancel some first",
            )
        if do.count > 1:
            gangs = market.gang_count(caller.name) + under_way.placing_gangs(caller.name)
            if gangs >= caller.limits.gangs:
                return Refused(
                    request_id,
                    ServiceCode.TOO_MANY_ORDERS,
                    f"a tenant may have {caller.limits.gangs} orders for several at once waiting; "
                    "cancel some first",
                )
        if do.price is None and do.count == 1:  # a gang has no price
            return check_price(caller, market, request_id, do)
    return None


def _check_path(market: Market, path: str) -> None:
    if not market.knows(path):  # what it knows is a path
        checks.check_path(path)


def _form_of_order(market: Market, do: PlaceOrder) -> None:
    if not market.knows(do.scope):  # what it knows is a path
        checks.check_path(do.scope)
    order, price, limit, expires = do.order, do.price, do.limit, do.expires
    if order is not None and (not order.isprintable() or order[0] == " " or order[-1] == " "):
        checks.check_order_id(order)
    if price is None:
        if limit is None:
            raise checks.CommandRefused(
                Code.NO_PRICE, "neither price nor limit is given; give at least one"
            )
    elif not 0 < price <= MAX_RATE:
        checks.check_price(price)
    if limit is not None and not 0 < limit <= MAX_RATE:
        checks.check_limit(limit, 1)
    if expires is not None and not 0 <= expires <= MAX_TIME:
        checks.check_expiry(expires, -1)
    if do.count != 1 or do.within is not None or do.together:
        _check_gang(do)


def _check_gang(do: PlaceOrder) -> None:
    check_several(do.count, do.within)
    if do.together and do.count == 1:
        raise checks.CommandRefused(
            Code.BAD_COUNT,
            "together is for several resources at once; give a count of 2 or more",
        )


def check_several(count: int, within: int | str | None) -> None:
    """Are these a count and a level at all? Raises `CommandRefused`."""
    checks.check_count(count)
    if within is None:
        return
    is_level = (
        bool(LEVEL_NAME.fullmatch(within))
        if isinstance(within, str)
        else (1 <= within <= checks.MAX_DEPTH)
    )
    if not is_level:
        raise checks.CommandRefused(
            Code.BAD_WITHIN,
            f"within {checks.shown(within)} is neither the name of a level nor a number of names "
            f"from 1 to {checks.MAX_DEPTH}",
        )


def too_many(request_id: int, caller: Principal, count: int) -> Refused:
    return Refused(
        request_id,
        Code.BAD_COUNT,
        f"count {checks.shown(count)} is more than the {caller.limits.gang_most} resources that "
        "may be asked for at once; ask for fewer",
    )


def _form_of_amendment(market: Market, do: AmendOrder) -> None:
    _form_of_cancel(market, do)
    price, limit = do.price, do.limit
    if price is not None and not 0 < price <= MAX_RATE:
        checks.check_price(price)
    if limit is not None and not 0 < limit <= MAX_RATE:
        checks.check_limit(limit, 1)
    if do.expires is not UNSET and do.expires is not None:
        checks.check_expiry(do.expires, -1)


def _form_of_cancel(market: Market, do: CancelOrder | AmendOrder) -> None:
    order = do.order
    if not order.isprintable() or order[0] == " " or order[-1] == " ":
        checks.check_order_id(order)


def _form_of_limit(market: Market, do: ChangeLimit) -> None:
    _check_path(market, do.resource)
    checks.check_limit(do.limit, 0)


def _form_of_release(market: Market, do: Release) -> None:
    _check_path(market, do.resource)


def _form_of_operators(market: Market, do: Instruction) -> None:
    """An operator is not refused for what the market refuses, but for numbers without end."""
    for name in do.__struct_fields__:
        value = getattr(do, name)
        if type(value) is int and not -MAX_TIME <= value <= MAX_TIME:
            raise checks.CommandRefused(
                Code.BAD_FLOOR if type(do) is ChangeFloor else Code.BAD_GUARD,
                f"{name} {checks.shown(value)} is beyond all bounds; see /v1/openapi.json",
            )


_FORMS: dict[type, Callable[[Market, Any], None]] = {
    PlaceOrder: _form_of_order,
    AmendOrder: _form_of_amendment,
    CancelOrder: _form_of_cancel,
    ChangeLimit: _form_of_limit,
    Release: _form_of_release,
    ChangeFloor: _form_of_operators,
    ChangeGuard: _form_of_operators,
}


def check_price(
    caller: Principal, market: Market, request_id: int, do: PlaceOrder
) -> Refused | None:
    """The price of an order may come from a quote, but only from one that its tenant may see."""
    assert caller.tenant is not None
    rejected = market.check_visible(caller.tenant, do.scope)
    if rejected is None:
        return None
    return Refused(
        request_id,
        rejected.code,
        f"there is no quote of {do.scope!r} for you that could be the price of your order; "
        "check the name, or give a price",
    )


def _check_order(request_id: int, do: PlaceOrder | AmendOrder | CancelOrder) -> Refused | None:
    order = do.order
    if order is not None and not (0 < len(order) <= WIDE_MAX or _is_order_id(order)):
        return _bad(request_id, f"an order id has 1 to {ORDER_ID_MAX} bytes")
    return None


def _check_attributes(request_id: int, do: OfferResource) -> Refused | None:
    size = sum(_size(name) + _size(value) for name, value in do.attributes.items())
    if len(do.attributes) > ATTRIBUTES_MAX or size > ATTRIBUTE_TEXT_MAX:
        return _bad(
            request_id,
            f"a resource has at most {ATTRIBUTES_MAX} attributes, of {ATTRIBUTE_TEXT_MAX} "
            "bytes together",
        )
    return None


def _check_guard(request_id: int, do: ChangeGuard) -> Refused | None:
    """Every step of a falling floor is work, now and in every replay, and an event."""
    fall, window = do.fall, do.window
    if not fall or fall < 0 or window is None:  # no step at all, or for the market to refuse
        return None
    if fall >= FALL_LEAST_MICROS and window >= FALL_WINDOW_LEAST_US:
        return None
    return Refused(
        request_id,
        Code.BAD_GUARD,
        "floors under this guard would fall in too many steps; let them fall by at least "
        f"{show_rate(FALL_LEAST_MICROS)}, or by 0, in a window of at least "
        f"{FALL_WINDOW_LEAST_US // 1_000} ms",
    )


def _check_levels(request_id: int, do: NameLevels) -> Refused | None:
    wrong = wrong_levels(do.tree, do.levels)
    return None if wrong is None else Refused(request_id, *wrong)


def _check_deadline(request_id: int, do: CordonScope) -> Refused | None:
    if do.deadline is None or 0 <= do.deadline <= MAX_TIME:
        return None
    message = "the deadline of a drain is no time; give microseconds since 1970"
    return Refused(request_id, ServiceCode.BAD_DEADLINE, message)


Check = Callable[[int, Any], Refused | None]

# Who may give an instruction, which of its fields is a path, and what else is looked at.
_RULES: dict[type, tuple[Role, str | None, Check | None]] = {
    PlaceOrder: ("tenant", "scope", _check_order),
    AmendOrder: ("tenant", None, _check_order),
    CancelOrder: ("tenant", None, _check_order),
    ChangeLimit: ("tenant", "resource", None),
    Release: ("tenant", "resource", None),
    OfferResource: ("operator", "resource", _check_attributes),
    WithdrawResource: ("operator", "resource", None),
    ChangeFloor: ("operator", "scope", None),
    ChangeGuard: ("operator", "tree", _check_guard),
    NameLevels: ("operator", "tree", _check_levels),
    CordonScope: ("operator", "scope", _check_deadline),
    UncordonScope: ("operator", "scope", None),
    CloseStatements: ("operator", None, None),
}


def check_question(request_id: int, do: Question | Subscribe) -> Refused | None:
    """Is a question of a size that we take?"""
    scopes: tuple[str | None, ...] = ()
    if isinstance(do, Subscribe):
        scopes = do.quotes
    elif isinstance(do, AskQuote | AskResources):
        scopes = (do.scope,)
    if len(scopes) > QUOTES_MAX:
        return _bad(request_id, f"subscribe to at most {QUOTES_MAX} quotes")
    if any(scope is not None and _is_longer(scope, PATH_MAX) for scope in scopes):
        return _bad(request_id, f"a path has at most {PATH_MAX} bytes")
    return None


def check_key(request_id: int, key: str | None) -> Refused | None:
    if key is not None and not is_key(key):
        return _bad(request_id, f"a key has 1 to {KEY_MAX} bytes")
    return None


def is_key(key: str) -> bool:
    return 0 < len(key) <= WIDE_MAX or (key != "" and not _is_longer(key, KEY_MAX))


def _is_order_id(order: str) -> bool:
    return order != "" and not _is_longer(order, ORDER_ID_MAX)


def _is_longer(text: str, most: int) -> bool:
    return len(text) > most or (not text.isascii() and _size(text) > most)


def _size(text: str) -> int:
    """Bytes of UTF-8, whatever is in a text."""
    return len(text.encode(errors="replace"))


def _bad(request_id: int, message: str) -> Refused:
    return Refused(request_id, ServiceCode.BAD_REQUEST, message)


def _forbidden(request_id: int, message: str) -> Refused:
    return Refused(request_id, ServiceCode.FORBIDDEN, message)
