"""May this request go on to the sequencer? Each check passes or gives the refusal.

Everything here looks at the request, the token and, for one check, at what the tenant may see.
A refusal changes nothing and is not journaled.
"""

from __future__ import annotations

from typing import get_args

from laissez.exchange.access import Principal
from laissez.market import Market
from laissez.model import (
    AmendOrder,
    CancelOrder,
    ChangeFloor,
    ChangeGuard,
    ChangeLimit,
    CordonScope,
    Instruction,
    OfferResource,
    OperatorInstruction,
    PlaceOrder,
    Question,
    Refused,
    Release,
    ServiceCode,
    Subscribe,
    TenantInstruction,
    UncordonScope,
    WithdrawResource,
)

ORDER_ID_MAX = 128
KEY_MAX = 128
PATH_MAX = 2_048
ATTRIBUTES_MAX = 64
ATTRIBUTE_TEXT_MAX = 8_192
QUOTES_MAX = 100

_TENANT = frozenset(get_args(TenantInstruction))
_OPERATOR = frozenset(get_args(OperatorInstruction))


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
    caller: Principal, market: Market, request_id: int, do: Instruction, key: str | None
) -> Refused | None:
    """May this caller ask for this change, and is it of a size that we take?"""
    kind = type(do)
    if kind in _TENANT:
        if caller.role != "tenant":
            return _forbidden(request_id, f"{kind.__name__} needs a tenant's token")
    elif caller.role != "operator":
        return _forbidden(request_id, f"{kind.__name__} needs an operator's token")
    if key is not None and not 0 < len(key) <= KEY_MAX:
        return _bad(request_id, f"a key has 1 to {KEY_MAX} characters")
    if isinstance(do, PlaceOrder):
        if do.order is not None and not _is_order_id(do.order):
            return _bad_order_id(request_id)
        if do.price is None and caller.tenant is not None and len(do.scope) <= PATH_MAX:
            rejected = market.check_visible(caller.tenant, do.scope)
            if rejected is not None:
                return Refused(
                    request_id,
                    rejected.code,
                    f"{do.scope!r} is not visible to you, so its quote can't be the price of your "
                    "order; give a price",
                )
    elif isinstance(do, AmendOrder | CancelOrder) and not _is_order_id(do.order):
        return _bad_order_id(request_id)
    elif isinstance(do, OfferResource) and not _fits(do.attributes):
        return _bad(
            request_id,
            f"a resource has at most {ATTRIBUTES_MAX} attributes, of {ATTRIBUTE_TEXT_MAX} "
            "characters together",
        )
    if len(_path(do)) > PATH_MAX:
        return _bad(request_id, f"a path has at most {PATH_MAX} characters")
    return None


def check_question(request_id: int, do: Question | Subscribe) -> Refused | None:
    if isinstance(do, Subscribe) and len(do.quotes) > QUOTES_MAX:
        return _bad(request_id, f"subscribe to at most {QUOTES_MAX} quotes")
    return None


def _path(do: Instruction) -> str:
    if isinstance(do, PlaceOrder | ChangeFloor | CordonScope | UncordonScope):
        return do.scope
    if isinstance(do, ChangeLimit | Release | OfferResource | WithdrawResource):
        return do.resource
    return do.tree if isinstance(do, ChangeGuard) else ""


def _is_order_id(order: str) -> bool:
    return 0 < len(order) <= ORDER_ID_MAX


def _fits(attributes: dict[str, str]) -> bool:
    size = sum(len(name) + len(value) for name, value in attributes.items())
    return len(attributes) <= ATTRIBUTES_MAX and size <= ATTRIBUTE_TEXT_MAX


def _bad_order_id(request_id: int) -> Refused:
    return _bad(request_id, f"an order id has 1 to {ORDER_ID_MAX} characters")


def _bad(request_id: int, message: str) -> Refused:
    return Refused(request_id, ServiceCode.BAD_REQUEST, message)


def _forbidden(request_id: int, message: str) -> Refused:
    return Refused(request_id, ServiceCode.FORBIDDEN, message)
