"""Tenants' orders: place, amend, cancel, expire.

An order that comes in looks for an idle leaf first, so that nobody is displaced while a free one
fits. Otherwise it displaces: as long as the weakest holder under its scope would leave at its
price, that leaf goes to its winner, which is decided before the new order is posted anywhere. If
the new order is never the winner, it rests.
"""

from __future__ import annotations

from msgspec import UNSET

from laissez.market.book import Order
from laissez.market.checks import (
    CommandRefused,
    check_expiry,
    check_limit,
    check_order_id,
    check_price,
    check_price_within_limit,
    check_tenant,
    live_order,
    scope_for_order,
)
from laissez.market.handover import hand_over, post_order, remove_order
from laissez.market.nodes import Leaf, Scope
from laissez.market.path import winner_of
from laissez.market.quotes import idle_leaf_for, quote
from laissez.market.state import State
from laissez.market.topology import know_scope
from laissez.model.commands import Amend, Cancel, Place
from laissez.model.events import Amended, Cancelled, Event, Expired, Placed
from laissez.model.refusals import Code


def place(state: State, command: Place, events: list[Event]) -> None:
    tenant, order_id, limit = command.tenant, command.order, command.limit
    check_tenant(state, tenant)
    check_order_id(order_id)
    node = scope_for_order(state, command.scope)
    price = command.price
    if price is None and limit is None:
        raise CommandRefused(Code.NO_PRICE, "neither price nor limit is given; give at least one")
    if price is not None:
        check_price(price)
    if limit is None:
        limit = price
    else:
        check_limit(limit, 1)
    assert limit is not None
    if price is not None:
        check_price_within_limit(price, limit)
    if command.expires is not None:
        check_expiry(command.expires, state.now)
    if order_id in state.orders:
        raise CommandRefused(
            Code.ORDER_ID_TAKEN, f"order id {order_id!r} is in use; choose an id of your own"
        )
    if price is None:
        price = _price_from_quote(node, tenant, limit)
    if node.tree.guard.rise is not None:
        price = _clipped(node, price, state.now)
    sequence = state.next_sequence()
    order = Order(order_id, tenant, node.path, price, limit, command.expires, sequence)
    events.append(Placed(state.now, tenant, order_id, node.path, price, limit, command.expires))
    _enter(state, order, node, events)


def amend(state: State, command: Amend, events: list[Event]) -> None:
    tenant, price, limit, expires = command.tenant, command.price, command.limit, command.expires
    check_tenant(state, tenant)
    check_order_id(command.order)
    old = live_order(state, tenant, command.order)
    if price is None:
        price = old.price
    else:
        check_price(price)
    if limit is None:
        limit = old.limit
    else:
        check_limit(limit, 1)
    check_price_within_limit(price, limit)
    if expires is UNSET:
        expires = old.expires
    elif expires is not None:
        check_expiry(expires, state.now)
    remove_order(state, old)
    node = know_scope(state, old.scope)
    if node.tree.guard.rise is not None:
        price = _clipped(node, price, state.now)
    order = Order(old.id, old.tenant, old.scope, price, limit, expires, state.next_sequence())
    events.append(Amended(state.now, tenant, order.id, order.scope, price, limit, expires))
    _enter(state, order, node, events)


def cancel(state: State, command: Cancel, events: list[Event]) -> None:
    check_tenant(state, command.tenant)
    check_order_id(command.order)
    order = live_order(state, command.tenant, command.order)
    remove_order(state, order)
    events.append(Cancelled(state.now, order.tenant, order.id))


def expire(state: State, order: Order, events: list[Event]) -> None:
    remove_order(state, order)
    events.append(Expired(state.now, order.tenant, order.id))


def _enter(state: State, order: Order, node: Leaf | Scope, events: list[Event]) -> None:
    """Find a leaf for a new order, or let it rest."""
    if node.idle:
        idle = idle_leaf_for(node, order.limit)
        if idle is not None:
            hand_over(state, idle, order, "idle", events)
            return
    while True:
        weakest = node.weakest
        if weakest is not None and weakest.owner == order.tenant:
            weakest = node.other
        if weakest is None or weakest.limit >= order.price:
            post_order(state, order, node)
            return
        incumbent = winner_of(weakest)
        if incumbent is None or _beats(order, incumbent):
            hand_over(state, weakest, order, "outbid", events)
            return
        hand_over(state, weakest, incumbent, "outbid", events)


def _beats(order: Order, incumbent: Order) -> bool:
    """Does a new order win over the best of those that were there before it?"""
    if order.limit != incumbent.limit:
        return order.limit > incumbent.limit
    return order.scope.count("/") > incumbent.scope.count("/")


def _price_from_quote(node: Leaf | Scope, tenant: str, limit: int) -> int:
    quoted = quote(node, tenant)
    return limit if quoted is None else min(max(quoted.rate, 1), limit)


def _clipped(node: Leaf | Scope, price: int, at: int) -> int:
    """The price that the `rise` guard accepts; the window's first order sets the reference."""
    reference = node.tree.reference(node.path, at)
    if reference is None:
        quoted = quote(node, None)
        reference = 0 if quoted is None else quoted.rate
        node.tree.take_reference(node.path, reference, at)
    return node.tree.clip(price, reference)
