"""How a leaf changes hands. Every other rule ends here.

`hand_over` closes the old holding (`Settled`), takes the winning order out of its book, opens the
new holding, renews the summaries on the way up, and says so (`Transferred`). Who a leaf goes to is
decided in `claims`. `post_order` and `remove_order` are the only ways into and out of a book, or
for a gang, of its rung.

Whoever wins a leaf is bound to it for the time that the guard `commit` says. Who gives it up
earlier, without having been called, pays for the rest of that time at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from laissez.market.asks import GangLevel
from laissez.market.book import Book, Gang, Order
from laissez.market.charges import ChargeTrace, called_difference, spared_by_hold
from laissez.market.gangs import note_ask, note_order_gone
from laissez.market.meters import MeterUpdater
from laissez.market.nodes import Commitment, Hold, Leaf, Scope
from laissez.market.path import books_on_path
from laissez.market.state import State
from laissez.market.steps import NEVER
from laissez.market.summaries import idle_changed, owner_changed, pressure_changed
from laissez.market.timers import COMMIT_END, EXPIRY, HOLD_END
from laissez.market.topology import forget_if_blank
from laissez.model.events import Event, Reason, Settled, Transferred
from laissez.model.values import Segment, Segments


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
    old, limit, ask = leaf.owner, None, 0
    meters: MeterUpdater | None = None
    if old is not None:
        if state.levels:
            limit, ask = _ask_before(state, leaf, old)
        meters = _end_holding(state, leaf, books or books_on_path(leaf), reason, events)
    if order is not None:
        _begin_holding(state, leaf, order, meters)
    owner_changed(leaf, old)
    if state.levels:
        note_ask(state, leaf, limit, ask)
    if leaf.book is not None:
        # Nobody but the holder of the leaf is charged by the leaf's own book.
        leaf.book.begin_period(state.now)
        forget_if_blank(state, leaf)
    order_id = None if order is None else order.id
    events.append(Transferred(state.now, leaf.path, old, leaf.owner, order_id, reason))


def _ask_before(state: State, leaf: Leaf, owner: str) -> tuple[int | None, int]:
    """With which limit a leaf could be lost, and from which limit on all gangs found it open."""
    limit = leaf.limit if leaf.weakest is leaf else None
    if limit is None or state.accounts[owner].orders:
        # Its holder's gangs did not count it, and its orders may have kept it from others.
        return limit, NEVER
    return limit, limit + 1


def _end_holding(
    state: State, leaf: Leaf, books: list[Book], reason: Reason, events: list[Event]
) -> MeterUpdater:
    """Settle a leaf with its holder and make it the operator's; the meters, as they were read."""
    meters = MeterUpdater(books, state.now)
    rest: Segment | None = None
    bound = leaf.commitment
    if bound is not None and reason == "relinquished" and leaf.call is None:
        rest = (state.now, bound.until, bound.price, "commit")
    settled = settle_holding(state, leaf, books, meters, rest)
    events.append(settled)
    account = state.accounts[settled.tenant]
    tree = leaf.parent.tree.name
    held = account.holdings[tree]
    del held[leaf.path]
    if not held:
        del account.holdings[tree]
    if not account.holdings:
        state.forget_if_unused(account)
    if leaf.hold is not None:
        if not leaf.hold.over:
            leaf.hold.over = True
            state.agenda.note_dead()
        leaf.hold = None
    if bound is not None:
        state.agenda.note_dead()
        leaf.commitment = None
    if leaf.call is not None:
        if not leaf.call.over:
            state.agenda.note_dead()
        leaf.call = None
    if leaf.past_calls:
        state.calls_kept -= len(leaf.past_calls)
        leaf.past_calls = ()
    leaf.owner = None
    leaf.limit = 0
    return meters


def _begin_holding(state: State, leaf: Leaf, order: Order, meters: MeterUpdater | None) -> None:
    """Fill an order with a leaf that is the operator's, and note what its meters show."""
    at = state.now
    if order.id in state.orders:  # a new order may be filled without ever having been posted
        remove_order(state, order)
    account = state.account(order.tenant)
    leaf.owner = account.name
    account.take(leaf)
    leaf.limit = order.limit
    leaf.since = at
    leaf.reading = (meters or MeterUpdater(books_on_path(leaf), at)).read(leaf.owner)
    if leaf.book is not None and leaf.book.meter is not None:
        # This meter is read with the others, and begins anew as soon as the leaf has its holder.
        leaf.reading -= leaf.book.meter.read(leaf.owner)
    guard = leaf.parent.tree.guard
    if guard.hold:
        leaf.hold = Hold(at + guard.hold, order.limit, state.next_sequence())
        state.agenda.add(at + guard.hold, HOLD_END, leaf.hold.sequence, leaf)
    if guard.commit:
        leaf.commitment = Commitment(at + guard.commit, order.price, state.next_sequence())
        state.agenda.add(at + guard.commit, COMMIT_END, leaf.commitment.sequence, leaf)


def settle_holding(
    state: State,
    leaf: Leaf,
    books: list[Book],
    meters: MeterUpdater,
    rest: Segment | None = None,
) -> Settled:
    """Make the open charge of a holding final; the caller starts what comes after it.

    `rest` is what is charged beyond this instant, because of a commitment.
    """
    owner, now = leaf.owner, state.now
    assert owner is not None
    owed = meters.read(owner) - leaf.reading
    if leaf.hold is not None:
        owed -= spared_by_hold(leaf, now, now)
        leaf.hold.spared = 0
    if leaf.call is not None or leaf.past_calls:
        owed += called_difference(leaf, meters.read(owner) - leaf.reading, now)
    explain = ChargeTrace(leaf, books, now).explain
    if rest is not None:
        since, until, rate, _ = rest
        owed += rate * (until - since)
        explain = _with_rest(explain, rest)
    state.accounts[owner].settled += owed
    state.revenue_settled += owed
    return Settled(now, owner, leaf.path, leaf.since, owed, Segments(explain))


def _with_rest(
    explain: Callable[[], Sequence[Segment]], rest: Segment
) -> Callable[[], list[Segment]]:
    return lambda: [*explain(), rest]


def post_order(state: State, order: Order, node: Leaf | Scope) -> None:
    """Post an order in the book of its scope, or let a gang wait on its rung."""
    account = state.account(order.tenant)
    order.tenant = account.name
    state.orders[order.id] = account.orders[order.id] = order
    if order.expires is not None:
        state.agenda.add(order.expires, EXPIRY, order.sequence, order)
    if type(order) is Gang:
        level_at(state, node, order.within).post(order)
        return
    book = node.book or state.book_at(node)
    if book.add(order, state.now) and node.up is not None:  # above a root nobody asks
        pressure_changed(node)
    if node.idle and book.best is order:  # how far orders follow matters where a leaf is idle
        idle_changed(node)


def remove_order(state: State, order: Order) -> None:
    """Take an order out of its book, for whatever reason."""
    del state.orders[order.id]
    account = state.accounts[order.tenant]
    del account.orders[order.id]
    node = state.nodes[order.scope]
    if type(order) is Gang:
        order.live = False
        level_at(state, node, order.within).remove(order)
    else:
        _remove_from_book(state, order, node)
    if order.expires is not None and order.expires > state.now:
        # Its timer is still on the agenda. At the instant of the expiry it no longer is: that
        # comes before all else, so whatever is removed then is removed by its own timer.
        state.agenda.note_dead()
    if not account.orders:
        state.forget_if_unused(account)


def _remove_from_book(state: State, order: Order, node: Leaf | Scope) -> None:
    book = node.book
    assert book is not None
    was_best = book.best is order
    if book.remove(order, state.now):
        if node.up is not None:
            pressure_changed(node)
        if state.levels:
            note_order_gone(state, order, node)
    if was_best:
        if node.idle:
            idle_changed(node)
        if book.best is None:
            forget_if_blank(state, node)


def level_at(state: State, node: Leaf | Scope, within: int) -> GangLevel:
    """The level of a node's tree at which gangs have domains of so many names."""
    levels = state.levels.setdefault(node.tree.name, {})
    level = levels.get(within)
    if level is None:
        root = state.nodes[node.tree.name]
        assert isinstance(root, Scope)
        level = levels[within] = GangLevel(root, within)
    return level
