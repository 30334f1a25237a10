"""How a leaf changes hands. Every other rule ends here.

A leaf goes to the best order that covers it (`hand_to_winner`), or to a new order that is better
still. `hand_over` closes the old holding (`Settled`), takes the winning order out of its book,
opens the new holding, renews the summaries on the way up, and says so (`Transferred`). `post_order`
and `remove_order` are the only ways into and out of a book.
"""

from __future__ import annotations

from laissez.market.book import Book, Order
from laissez.market.charges import ChargeTrace, spared_by_hold
from laissez.market.meters import MeterUpdater
from laissez.market.nodes import Hold, Leaf, Scope
from laissez.market.path import books_and_winner, books_on_path
from laissez.market.state import State
from laissez.market.summaries import idle_changed, owner_changed, pressure_changed
from laissez.market.timers import EXPIRY, HOLD_END
from laissez.market.topology import forget_if_blank
from laissez.model.events import Event, Reason, Settled, Transferred
from laissez.model.values import Segments


def hand_to_winner(state: State, leaf: Leaf, reason: Reason, events: list[Event]) -> None:
    """Give a leaf to the best order that covers it, or else back to the operator."""
    books, winner = books_and_winner(leaf)
    hand_over(state, leaf, winner, reason, events, books)


def hand_over(
    state: State,
    leaf: Leaf,
    order: Order | None,
    reason: Reason,
    events: list[Event],
    books: list[Book] | None = None,
) -> None:
    """Give a leaf to an order's tenant, or back to the operator.

    The meters on the path are brought up to date once, for him who leaves, and serve him who comes
    as well: they count up to this instant, so what changes at this instant (the order that leaves
    its book) is not in them yet. `books` are those on the path, if they are known already.
    """
    old = leaf.owner
    meters: MeterUpdater | None = None
    if old is not None:
        meters = _end_holding(state, leaf, books or books_on_path(leaf), events)
    if order is not None:
        _begin_holding(state, leaf, order, meters)
    owner_changed(leaf, old)
    if leaf.book is not None:
        # Nobody but the holder of the leaf is charged by the leaf's own book.
        leaf.book.begin_period(state.now)
        forget_if_blank(state, leaf)
    order_id = None if order is None else order.id
    events.append(Transferred(state.now, leaf.path, old, leaf.owner, order_id, reason))


def _end_holding(state: State, leaf: Leaf, books: list[Book], events: list[Event]) -> MeterUpdater:
    """Settle a leaf with its holder and make it the operator's; the meters, as they were read."""
    meters = MeterUpdater(books, state.now)
    settled = settle_holding(state, leaf, books, meters)
    events.append(settled)
    account = state.accounts[settled.tenant]
    del account.holdings[leaf.path]
    if not account.holdings:
        state.forget_if_unused(account)
    if leaf.hold is not None:
        if not leaf.hold.over:
            leaf.hold.over = True
            state.agenda.note_dead()
        leaf.hold = None
    leaf.owner = None
    leaf.limit = 0
    return meters


def _begin_holding(state: State, leaf: Leaf, order: Order, meters: MeterUpdater | None) -> None:
    """Fill an order with a leaf that is the operator's, and note what its meters show."""
    at = state.now
    if order.id in state.orders:  # a new order may be filled without ever having been posted
        remove_order(state, order)
    account = state.account(order.tenant)
    account.holdings[leaf.path] = leaf
    leaf.owner = account.name
    leaf.limit = order.limit
    leaf.since = at
    leaf.reading = (meters or MeterUpdater(books_on_path(leaf), at)).read(leaf.owner)
    if leaf.book is not None and leaf.book.meter is not None:
        # This meter is read with the others, and begins anew as soon as the leaf has its holder.
        leaf.reading -= leaf.book.meter.read(leaf.owner)
    hold = leaf.parent.tree.guard.hold
    if hold:
        leaf.hold = Hold(at + hold, order.limit, state.next_sequence())
        state.agenda.add(at + hold, HOLD_END, leaf.hold.sequence, leaf)


def settle_holding(state: State, leaf: Leaf, books: list[Book], meters: MeterUpdater) -> Settled:
    """Make the open charge of a holding final; the caller starts what comes after it."""
    owner, now = leaf.owner, state.now
    assert owner is not None
    owed = meters.read(owner) - leaf.reading
    if leaf.hold is not None:
        owed -= spared_by_hold(leaf, now, now)
        leaf.hold.spared = 0
    state.accounts[owner].settled += owed
    state.revenue_settled += owed
    segments = Segments(ChargeTrace(leaf, books, now).explain)
    return Settled(now, owner, leaf.path, leaf.since, owed, segments)


def post_order(state: State, order: Order, node: Leaf | Scope) -> None:
    """Post an order in the book of its scope."""
    account = state.account(order.tenant)
    order.tenant = account.name
    state.orders[order.id] = account.orders[order.id] = order
    book = node.book or state.book_at(node)
    if book.add(order, state.now) and node.up is not None:  # above a root nobody asks
        pressure_changed(node)
    if node.idle and book.best is order:  # how far orders follow matters where a leaf is idle
        idle_changed(node)
    if order.expires is not None:
        state.agenda.add(order.expires, EXPIRY, order.sequence, order)


def remove_order(state: State, order: Order) -> None:
    """Take an order out of its book, for whatever reason."""
    del state.orders[order.id]
    account = state.accounts[order.tenant]
    del account.orders[order.id]
    node = state.nodes[order.scope]
    book = node.book
    assert book is not None
    was_best = book.best is order
    if book.remove(order, state.now) and node.up is not None:
        pressure_changed(node)
    if was_best:
        if node.idle:
            idle_changed(node)
        if book.best is None:
            forget_if_blank(state, node)
    if order.expires is not None and order.expires > state.now:
        # Its timer is still on the agenda. At the instant of the expiry it no longer is: that
        # comes before all else, so whatever is removed then is removed by its own timer.
        state.agenda.note_dead()
    if not account.orders:
        state.forget_if_unused(account)
