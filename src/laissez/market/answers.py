"""A leaf as its holder sees it, and as the one to whom it is promised does."""

from __future__ import annotations

from laissez.market.nodes import Leaf
from laissez.market.path import charged_rate, rate_cause
from laissez.model.questions import Holding, Promise


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


def promise_of(leaf: Leaf) -> Promise | None:
    """A called resource that is promised: to which order, and what it costs to give that back."""
    call = leaf.call
    if call is None or call.order is None:
        return None
    order, commit = call.order, leaf.parent.tree.guard.commit or 0
    return Promise(leaf.path, order.tenant, order.id, call.until, order.limit, order.price, commit)


def safe_until(leaf: Leaf) -> int | None:
    """Until when a guard keeps a holding from being lost to price; None if none does."""
    hold = leaf.hold
    return hold.until if hold is not None and not hold.over else None
