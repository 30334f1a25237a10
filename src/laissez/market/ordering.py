"""Tenants' orders: place, amend, cancel, expire.

An order that comes in looks for an idle leaf first, so that nobody is displaced while a free one
fits. Otherwise it displaces: as long as the weakest holder under its scope would leave at its
price, that leaf goes to its winner, which is decided before the new order is posted anywhere. If
the new order is never the winner, it rests.

A gang waits, and is filled with all others that fit when its command is done.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import UNSET

from laissez.market.book import Gang, Order
from laissez.market.checks import (
    MAX_DEPTH,
    CommandRefused,
    check_count,
    check_expiry,
    check_limit,
    check_order_id,
    check_price,
    check_price_within_limit,
    check_tenant,
    live_order,
    scope_for_order,
    shown,
)
from laissez.market.claims import displace
from laissez.market.handover import hand_over, level_at, post_order, remove_order
from laissez.market.nodes import Leaf, Scope
from laissez.market.quotes import idle_leaf_for, quote
from laissez.market.state import State
from laissez.market.topology import know_scope
from laissez.model.commands import Amend, Cancel, Place
from laissez.model.events import Amended, Cancelled, Event, Expired, Placed
from laissez.model.refusals import Code
from laissez.model.sentences import OR_COARSER, domains_have


def place(state: State, command: Place, events: list[Event]) -> None:
    tenant, order_id = command.tenant, command.order
    price, limit = command.price, command.limit
    check_tenant(state, tenant)
    check_order_id(order_id)
    node = scope_for_order(state, command.scope)
    if command.count != 1 or command.within is not None:
        _place_gang(state, command, node, events)
        return
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
    if order_id in state.orders or order_id in state.promised:
        raise _id_is_taken(order_id)
    if price is None:
        price = _price_from_quote(node, tenant, limit)
    if node.tree.guard.rise is not None:
        price = _clipped(node, tenant, price, state.now)
    sequence = state.next_sequence()
    order = Order(order_id, tenant, node.path, price, limit, command.expires, sequence)
    events.append(Placed(state.now, tenant, order_id, node.path, price, limit, command.expires))
    _enter(state, order, node, events)


def _id_is_taken(order_id: str) -> CommandRefused:
    return CommandRefused(
        Code.ORDER_ID_TAKEN, f"order id {order_id!r} is in use; choose an id of your own"
    )


def _place_gang(state: State, command: Place, node: Leaf | Scope, events: list[Event]) -> None:
    check_count(command.count)
    if command.count == 1:
        raise CommandRefused(
            Code.BAD_WITHIN, "within is for several resources at once; give a count of 2 or more"
        )
    if command.price is not None:
        raise _gang_has_no_price()
    if command.limit is None:
        raise CommandRefused(Code.NO_PRICE, "a gang needs a limit; give one")
    check_limit(command.limit, 1)
    within = _domains_of_gang(state, command, node)
    if command.expires is not None:
        check_expiry(command.expires, state.now)
    if command.order in state.orders or command.order in state.promised:
        raise _id_is_taken(command.order)
    sequence = state.next_sequence()
    gang = Gang(
        command.order,
        command.tenant,
        node.path,
        command.limit,
        command.limit,
        command.expires,
        sequence,
        True,
        command.count,
        within,
    )
    events.append(
        Placed(
            state.now,
            gang.tenant,
            gang.id,
            gang.scope,
            None,
            gang.limit,
            gang.expires,
            gang.count,
            gang.within,
        )
    )
    _enter_gang(state, gang, node)


def _domains_of_gang(state: State, command: Place, node: Leaf | Scope) -> int:
    """How many names the paths of the domains have in which a gang is to be filled, if it can."""
    scope, count, within = node.path, command.count, command.within
    coarsest = scope.count("/") + 1
    finest = max(node.tree.depths, default=MAX_DEPTH)
    if within is None:
        within = coarsest
    elif type(within) is not int or not coarsest <= within <= finest:
        raise CommandRefused(
            Code.BAD_WITHIN,
            f"within {shown(within)} is no level at or under {scope!r}; give the number of names "
            f"in the path of a domain, from {coarsest} to {finest}",
        )
    largest = 0
    if isinstance(node, Scope) and within < finest:
        largest = level_at(state, node, within).largest_under(node)
    if largest < count:
        raise CommandRefused(
            Code.DOMAIN_TOO_SMALL,
            f"{domains_have(within, scope)} at most {max(largest, 1)} resources, and {count} are "
            f"asked for; ask for fewer{OR_COARSER}",
        )
    return within


def _gang_has_no_price() -> CommandRefused:
    return CommandRefused(
        Code.GANG_HAS_NO_PRICE,
        "a gang presses on nobody while it waits, so it has no price; give a limit only",
    )


def amend(state: State, command: Amend, events: list[Event]) -> None:
    tenant, price, limit, expires = command.tenant, command.price, command.limit, command.expires
    check_tenant(state, tenant)
    check_order_id(command.order)
    old = live_order(state, tenant, command.order)
    if type(old) is Gang:
        _amend_gang(state, old, command, events)
        return
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
        price = _clipped(node, tenant, price, state.now)
    order = Order(old.id, old.tenant, old.scope, price, limit, expires, state.next_sequence())
    events.append(Amended(state.now, tenant, order.id, order.scope, price, limit, expires))
    _enter(state, order, node, events)


def _amend_gang(state: State, old: Gang, command: Amend, events: list[Event]) -> None:
    limit, expires = command.limit, command.expires
    if command.price is not None:
        raise _gang_has_no_price()
    if limit is None:
        limit = old.limit
    else:
        check_limit(limit, 1)
    if expires is UNSET:
        expires = old.expires
    elif expires is not None:
        check_expiry(expires, state.now)
    remove_order(state, old)
    gang = Gang(
        old.id,
        old.tenant,
        old.scope,
        limit,
        limit,
        expires,
        state.next_sequence(),
        True,
        old.count,
        old.within,
    )
    events.append(
        Amended(
            state.now,
            gang.tenant,
            gang.id,
            gang.scope,
            None,
            gang.limit,
            expires,
            gang.count,
            gang.within,
        )
    )
    _enter_gang(state, gang, state.nodes[gang.scope])


def _enter_gang(state: State, gang: Gang, node: Leaf | Scope) -> None:
    post_order(state, gang, node)
    state.notes.searches[gang] = None


def place_again(state: State, order: Order, events: list[Event]) -> None:
    """A leaf that was promised to a single order is gone: the order looks for another."""
    if isinstance(order, Gang) or (order.expires is not None and order.expires <= state.now):
        return
    node, price = know_scope(state, order.scope), order.price
    if node.tree.guard.rise is not None:
        price = _clipped(node, order.tenant, price, state.now)
    again = Order(
        order.id,
        order.tenant,
        order.scope,
        price,
        order.limit,
        order.expires,
        state.next_sequence(),
    )
    events.append(
        Placed(
            state.now,
            again.tenant,
            again.id,
            again.scope,
            again.price,
            again.limit,
            again.expires,
        )
    )
    _enter(state, again, node, events)


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
        account = state.accounts.get(order.tenant)
        newest = None if account is None else account.newest_in(node.tree.name)
        idle = idle_leaf_for(node, order.limit, newest)
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
        if displace(state, weakest, order, events) is order:
            return


def _price_from_quote(node: Leaf | Scope, tenant: str, limit: int) -> int:
    quoted = quote(node, tenant)
    return limit if quoted is None else min(max(quoted.rate, 1), limit)


def _clipped(node: Leaf | Scope, tenant: str, price: int, at: int) -> int:
    """The price that the `rise` guard accepts; the window's first order sets the reference.

    What is accepted tells the reference, so that is the quote of a scope that the tenant may see.
    """
    while node.parent is not None and tenant not in _who_sees(node):
        node = node.parent
    reference = node.tree.reference(node.path, at)
    if reference is None:
        quoted = quote(node, None)
        reference = 0 if quoted is None else quoted.rate
        node.tree.take_reference(node.path, reference, at)
    return node.tree.clip(price, reference)


def _who_sees(node: Leaf | Scope) -> Collection[str]:
    """Whoever may ask for the quote of a node below a root: who holds something under it."""
    return node.holders if isinstance(node, Scope) else ()
