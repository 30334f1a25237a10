"""May this request go on to the sequencer? Each check passes or gives the refusal.

Everything here looks at the request, the token and, for one check, at what the tenant may see.
A refusal changes nothing and is not journaled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laissez.exchange.access import Principal
from laissez.market import Market
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

ORDER_ID_MAX = 128
KEY_MAX = 128
PATH_MAX = 2_048
ATTRIBUTES_MAX = 64
ATTRIBUTE_TEXT_MAX = 8_192
QUOTES_MAX = 100
FALL_WINDOW_LEAST_US = 100_000
FALL_LEAST_MICROS = 1_000


def check_allowance(caller: Principal, request_id: int | None, at: int) -> Refused | None:
    """Is the token alive, and has it requests left?"""
    if caller.token.is_dead(at):
        return Refused(
            request_id,
            ServiceCode.UNAUTHENTICATED,
            "this token has expired or was revoked; ask the operator for a new one",
        )
    wait_us = caller.wait_us(at)
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
        return _forbidden(request_id, _needs(do, role, caller.role))
    if key is not None and (refused := check_key(request_id, key)):
        return refused
    if path is not None and len(getattr(do, path)) > PATH_MAX:
        return _bad(request_id, f"a path has at most {PATH_MAX} characters")
    return None if own_check is None else own_check(request_id, do)


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
    if do.order is not None and not 0 < len(do.order) <= ORDER_ID_MAX:
        return _bad(request_id, f"an order id has 1 to {ORDER_ID_MAX} characters")
    return None


def _check_attributes(request_id: int, do: OfferResource) -> Refused | None:
    size = sum(len(name) + len(value) for name, value in do.attributes.items())
    if len(do.attributes) > ATTRIBUTES_MAX or size > ATTRIBUTE_TEXT_MAX:
        return _bad(
            request_id,
            f"a resource has at most {ATTRIBUTES_MAX} attributes, of {ATTRIBUTE_TEXT_MAX} "
            "characters together",
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
        f"floors under this guard would fall in too many steps; let them fall by at least "
        f"{FALL_LEAST_MICROS} micro-dollars per hour, or by 0, in a window of at least "
        f"{FALL_WINDOW_LEAST_US} microseconds",
    )


Check = Callable[[int, Any], Refused | None]

_ARTICLE = {"operator": "an", "tenant": "a", "viewer": "a"}

# What an instruction is, in the words of a refusal.
_ACTS: dict[type, str] = {
    PlaceOrder: "placing an order",
    AmendOrder: "amending an order",
    CancelOrder: "cancelling an order",
    ChangeLimit: "setting a limit",
    Release: "giving a resource back",
    OfferResource: "adding a resource",
    WithdrawResource: "withdrawing a resource",
    ChangeFloor: "setting a floor",
    ChangeGuard: "setting guards",
    CordonScope: "cordoning a scope",
    UncordonScope: "lifting a cordon",
    CloseStatements: "closing the statements",
}


def _needs(do: Instruction, role: Role, shown: Role) -> str:
    return (
        f"{_ACTS[type(do)]} needs {_ARTICLE[role]} {role}'s token, and yours is "
        f"{_ARTICLE[shown]} {shown}'s; log in with another"
    )


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
    CordonScope: ("operator", "scope", None),
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
    if any(scope is not None and len(scope) > PATH_MAX for scope in scopes):
        return _bad(request_id, f"a path has at most {PATH_MAX} characters")
    return None


def check_key(request_id: int, key: str | None) -> Refused | None:
    if key is not None and not 0 < len(key) <= KEY_MAX:
        return _bad(request_id, f"a key has 1 to {KEY_MAX} characters")
    return None


def _bad(request_id: int, message: str) -> Refused:
    return Refused(request_id, ServiceCode.BAD_REQUEST, message)


def _forbidden(request_id: int, message: str) -> Refused:
    return Refused(request_id, ServiceCode.FORBIDDEN, message)
