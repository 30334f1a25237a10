"""What each tenant learns from the market's events.

This is the only way from events to tenants, and it is a list of what may pass: an event that is
not named here reaches nobody. An order's id in the market begins with its tenant's name, so that
ids of different tenants can't collide or be guessed; tenants see their own part only.
"""

from collections.abc import Callable, Iterable
from typing import Any

from laissez.market import Market
from laissez.model import (
    Amended,
    Cancelled,
    Charged,
    Event,
    Expired,
    Filled,
    LimitSet,
    Lost,
    Notice,
    OpenOrder,
    Placed,
    Rejected,
    Settled,
    Transferred,
)

Notices = dict[str, list[Notice]]


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
    )


def notices(market: Market, events: Iterable[Event]) -> Notices:
    """Who learns what. A refusal is not among it: it is the answer to whoever asked."""
    told: Notices = {}
    for event in events:
        view = _VIEWS.get(type(event))
        if view is not None:
            view(market, event, told)
    return told


def own_refusal(rejected: Rejected, tenant: str) -> Rejected:
    """A refusal in the tenant's own words: the order's id as the tenant gave it."""
    message = rejected.message.replace(f"'{tenant}/", "'")
    return Rejected(rejected.at, rejected.code, message)


def operator_events(events: Iterable[Event]) -> tuple[Notice, ...]:
    """Everything, without the explanations of charges."""
    return tuple(_charged(event) if isinstance(event, Settled) else event for event in events)


def _charged(event: Settled) -> Charged:
    return Charged(event.at, event.tenant, event.resource, event.since, event.charge)


def _tell(told: Notices, tenant: str, notice: Notice) -> None:
    if tenant in told:
        told[tenant].append(notice)
    else:
        told[tenant] = [notice]


def _placed(market: Market, event: Placed, told: Notices) -> None:
    tenant = event.tenant
    order = own_order_id(tenant, event.order)
    own = Placed(event.at, tenant, order, event.scope, event.price, event.limit, event.expires)
    _tell(told, tenant, own)


def _amended(market: Market, event: Amended, told: Notices) -> None:
    tenant = event.tenant
    order = own_order_id(tenant, event.order)
    own = Amended(event.at, tenant, order, event.scope, event.price, event.limit, event.expires)
    _tell(told, tenant, own)


def _ended(market: Market, event: Cancelled | Expired, told: Notices) -> None:
    tenant = event.tenant
    _tell(told, tenant, type(event)(event.at, tenant, own_order_id(tenant, event.order)))


def _limit_set(market: Market, event: LimitSet, told: Notices) -> None:
    _tell(told, event.tenant, event)


def _settled(market: Market, event: Settled, told: Notices) -> None:
    _tell(told, event.tenant, _charged(event))


def _transferred(market: Market, event: Transferred, told: Notices) -> None:
    if event.old is not None and event.old != event.new:
        _tell(told, event.old, Lost(event.at, event.resource, event.reason))
    if event.new is not None:
        assert event.order is not None
        order = own_order_id(event.new, event.order)
        attributes = market.attributes(event.resource) if market.resources(event.resource) else {}
        _tell(told, event.new, Filled(event.at, order, event.resource, attributes))


_VIEWS: dict[type, Callable[[Market, Any, Notices], None]] = {
    Placed: _placed,
    Amended: _amended,
    Cancelled: _ended,
    Expired: _ended,
    LimitSet: _limit_set,
    Settled: _settled,
    Transferred: _transferred,
}
