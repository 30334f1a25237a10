"""What each tenant learns from the market's events.

This is the only way from events to tenants, and it is a list of what may pass: an event that is
not named here reaches nobody. An order's id in the market begins with its tenant's name, so that
ids of different tenants can't collide or be guessed; tenants see their own part only.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from laissez.market import Market
from laissez.model import (
    Amended,
    Called,
    Cancelled,
    Charged,
    Code,
    Expired,
    Filled,
    LimitSet,
    Lost,
    Notice,
    Occurrence,
    OpenOrder,
    Placed,
    Promised,
    Rejected,
    Settled,
    Transferred,
    Uncalled,
    Unpromised,
)

Notices = tuple[Notice, ...]

# Refusals that name an order; others may name a path, which can begin with a tenant's name, too.
_ABOUT_ORDERS = frozenset({Code.BAD_ORDER_ID, Code.ORDER_ID_TAKEN, Code.UNKNOWN_ORDER})


def market_order_id(tenant: str, order: str) -> str:
    return f"{tenant}/{order}"


def own_order_id(tenant: str, order: str) -> str:
    return order[len(tenant) + 1 :]


def own_order(order: OpenOrder) -> OpenOrder:
    return OpenOrder(
        order.tenant,
        own_order_id(order.tenant, order.order),
        order.scope,
        order.price,
        order.limit,
        order.expires,
        order.count,
        order.within,
    )


def notices(market: Market, events: Sequence[Occurrence]) -> dict[str, Notices]:
    """Who learns what. A refusal is not among it: it is the answer to whoever asked."""
    if len(events) == 1 and (view := _OWN.get(type(events[0]))) is not None:
        # Most commands do one thing, and it concerns one tenant.
        only: Any = events[0]
        return {only.tenant: (view(only),)}
    told: dict[str, list[Notice]] = {}
    for event in events:
        if (view := _OWN.get(type(event))) is not None:
            own: Any = event
            told.setdefault(own.tenant, []).append(view(own))
        elif isinstance(event, Transferred):
            for tenant, notice in _both_sides(market, event):
                told.setdefault(tenant, []).append(notice)
    return {tenant: tuple(own) for tenant, own in told.items()}


def own_refusal(rejected: Rejected, tenant: str) -> Rejected:
    """A refusal in the tenant's own words: the order's id as the tenant gave it."""
    if rejected.code not in _ABOUT_ORDERS:
        return rejected
    message = rejected.message
    for quote in ("'", '"'):
        message = message.replace(f"{quote}{tenant}/", quote)
    return Rejected(rejected.at, rejected.code, message)


def operator_events(events: tuple[Occurrence, ...]) -> tuple[Notice, ...]:
    """Everything, without the explanations of charges."""
    if len(events) == 1 and not isinstance(only := events[0], Settled):
        return (only,)
    return tuple(_charged(event) if isinstance(event, Settled) else event for event in events)


def _charged(event: Settled) -> Charged:
    return Charged(event.at, event.tenant, event.resource, event.since, event.charge)


def _placed(event: Placed) -> Placed:
    tenant = event.tenant
    order = own_order_id(tenant, event.order)
    return Placed(
        event.at,
        tenant,
        order,
        event.scope,
        event.price,
        event.limit,
        event.expires,
        event.count,
        event.within,
    )


def _amended(event: Amended) -> Amended:
    tenant = event.tenant
    order = own_order_id(tenant, event.order)
    return Amended(
        event.at,
        tenant,
        order,
        event.scope,
        event.price,
        event.limit,
        event.expires,
        event.count,
        event.within,
    )


def _cancelled(event: Cancelled) -> Cancelled:
    return Cancelled(event.at, event.tenant, own_order_id(event.tenant, event.order))


def _expired(event: Expired) -> Expired:
    return Expired(event.at, event.tenant, own_order_id(event.tenant, event.order))


def _promised(event: Promised) -> Promised:
    order = own_order_id(event.tenant, event.order)
    return Promised(event.at, event.tenant, order, event.resource, event.until)


def _unpromised(event: Unpromised) -> Unpromised:
    order = own_order_id(event.tenant, event.order)
    return Unpromised(event.at, event.tenant, order, event.resource, event.reason)


def _as_it_is(event: LimitSet | Called | Uncalled) -> Notice:
    """Nothing in it is about anybody else: a call never says for whom."""
    return event


# Events that concern one tenant, who may know all that is in them.
_OWN: dict[type, Callable[[Any], Notice]] = {
    Placed: _placed,
    Amended: _amended,
    Cancelled: _cancelled,
    Expired: _expired,
    LimitSet: _as_it_is,
    Called: _as_it_is,
    Promised: _promised,
    Unpromised: _unpromised,
    Uncalled: _as_it_is,
    Settled: _charged,
}


def _both_sides(market: Market, event: Transferred) -> Iterator[tuple[str, Notice]]:
    """Each tenant learns its own side of a transfer, and nothing of the other."""
    if event.old is not None and event.old != event.new:
        yield event.old, Lost(event.at, event.resource, event.reason)
    if event.new is not None:
        assert event.order is not None
        order = own_order_id(event.new, event.order)
        attributes = market.attributes(event.resource) if market.resources(event.resource) else {}
        yield event.new, Filled(event.at, order, event.resource, attributes)
