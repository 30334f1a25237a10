"""What questions are answered with: a leaf as its holder sees it, an order as its tenant does."""

from __future__ import annotations

from laissez.market.book import Gang, Order
from laissez.market.nodes import Leaf
from laissez.market.path import charged_rate, rate_cause
from laissez.model.questions import Holding
from laissez.model.values import OpenOrder


def holding_of(leaf: Leaf) -> Holding | None:
    """A held resource as its holder sees it: what binds it, and what is to come."""
    if leaf.owner is None:
        return None
    call, bound = leaf.call, leaf.commitment
    asked = call.asked if call is not None else None
    if bound is not None and bound.asked is not None:
        asked = bound.asked
    return Holding(
        leaf.path,
        leaf.since,
        charged_rate(leaf),
        leaf.limit,
        safe_until(leaf),
        dict(leaf.attributes),
        leaf.owner,
        rate_cause(leaf),
        None if call is None else call.until,
        None if call is None else call.reason,
        None if bound is None else bound.until,
        None if bound is None else bound.price,
        asked,
    )


def safe_until(leaf: Leaf) -> int | None:
    """Until when a guard keeps a holding from being lost to price; None if none does."""
    hold = leaf.hold
    return hold.until if hold is not None and not hold.over else None


def open_order(order: Order) -> OpenOrder:
    """A live order as its tenant sees it; a gang has no price."""
    if isinstance(order, Gang):
        price, count, within = None, order.count, order.within
    else:
        price, count, within = order.price, 1, None
    return OpenOrder(
        order.tenant, order.id, order.scope, price, order.limit, order.expires, count, within
    )
