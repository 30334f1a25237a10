"""The whole state as bytes and back, and its digest.

The bytes are JSON, because charges soon have more than the 64 bits that MessagePack allows.

What is written is the state and nothing that follows from it: summaries, heaps and the agenda are
rebuilt. Of a book's history just what the open holdings under it need is written, so that it does
not matter how much more a running market happens to remember. Everything is listed in an order
that follows from the state (tree order, sequence, name), so that equal states are equal bytes.

The structs here are those of this version. What an older version wrote is converted first (see
`upgrades`); whoever changes a struct raises `RULES`, and freezes the old ones there.
"""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from laissez.market.book import Book, Gang, Order
from laissez.market.charges import metered
from laissez.market.falling_due import empty_state, plan_all
from laissez.market.guards import Descent, GuardSettings
from laissez.market.handover import level_at
from laissez.market.nodes import Commitment, Hold, Leaf, PastCall, RunningCall, Scope, children_of
from laissez.market.state import State
from laissez.market.steps import NEVER, PressureStep
from laissez.market.summaries import renew_all
from laissez.market.topology import attach_leaf, know_scope, place_scope, tree_named
from laissez.market.upgrades import FORMAT, RULES, upgraded
from laissez.model.events import Reason


class HoldState(msgspec.Struct, array_like=True):
    until: int
    cap: int
    sequence: int
    limit_was_put_off: bool
    over: bool


class OrderState(msgspec.Struct, array_like=True):
    """An order, or with a level, `within`, a gang."""

    id: str
    tenant: str
    scope: str
    price: int
    limit: int
    expires: int | None
    sequence: int
    count: int
    within: int | None


class CommitmentState(msgspec.Struct, array_like=True):
    until: int
    price: int
    sequence: int
    asked: int | None


class CallState(msgspec.Struct, array_like=True):
    since: int
    until: int
    reason: Reason
    sequence: int
    reading: int
    asked: int | None
    promised: OrderState | None


class NodeState(msgspec.Struct, array_like=True):
    """A scope that has its place, or a leaf."""

    path: str
    is_leaf: bool
    attributes: tuple[tuple[str, str], ...] = ()
    owner: str | None = None
    limit: int = 0
    since: int = 0
    hold: HoldState | None = None
    metered: int = 0
    commitment: CommitmentState | None = None
    call: CallState | None = None
    past_calls: tuple[PastCall, ...] = ()


class BookState(msgspec.Struct, array_like=True):
    scope: str
    floor: int
    steps: list[PressureStep]


class TreeState(msgspec.Struct, array_like=True):
    name: str
    guard: GuardSettings
    reference_window: int
    references: list[tuple[str, int]]
    descents: list[Descent]


class AccountState(msgspec.Struct, array_like=True):
    name: str
    settled: int
    holdings: list[str]


class MarketState(msgspec.Struct):
    format: str
    version: int
    now: int
    sequence: int
    trees: list[TreeState]
    nodes: list[NodeState]
    books: list[BookState]
    orders: list[OrderState]
    accounts: list[AccountState]


def write(state: State) -> bytes:
    return msgspec.json.encode(_capture(state))


def digest(state: State) -> str:
    captured = _capture(state)
    captured.now = 0
    for node in captured.nodes:
        node.metered = 0
    return blake2b(msgspec.json.encode(captured), digest_size=32).hexdigest()


def read(data: bytes) -> State:
    return _rebuild(msgspec.json.decode(upgraded(data), type=MarketState))


# Writing --------------------------------------------------------------------------------------


def _capture(state: State) -> MarketState:
    nodes: list[NodeState] = []
    for root in state.roots:
        _capture_nodes(root, nodes, state.now)
    books = [node.book for node in state.nodes.values() if node.book is not None]
    return MarketState(
        format=FORMAT,
        version=RULES,
        now=state.now,
        sequence=state.sequence,
        trees=[
            TreeState(
                tree.name,
                tree.guard,
                tree.reference_window,
                sorted(tree.references.items()),
                sorted(tree.descents.values(), key=lambda descent: descent.scope),
            )
            for tree in sorted(state.trees.values(), key=lambda tree: tree.name)
        ],
        nodes=nodes,
        books=sorted(filter(None, map(_capture_book, books)), key=lambda book: book.scope),
        orders=[
            _capture_order(order)
            for order in sorted(state.orders.values(), key=lambda order: order.sequence)
        ],
        accounts=[
            AccountState(account.name, account.settled, [leaf.path for leaf in account.leaves()])
            for account in sorted(state.accounts.values(), key=lambda account: account.name)
            if account.settled or account.holdings
        ],
    )


def _capture_nodes(node: Leaf | Scope, into: list[NodeState], now: int) -> None:
    if isinstance(node, Leaf):
        hold = node.hold
        into.append(
            NodeState(
                node.path,
                True,
                node.attributes,
                node.owner,
                node.limit,
                node.since if node.owner is not None else 0,
                None
                if hold is None
                else HoldState(
                    hold.until, hold.cap, hold.sequence, hold.limit_was_put_off, hold.over
                ),
                metered(node, now),
                _capture_commitment(node),
                _capture_call(node),
                node.past_calls,
            )
        )
    else:
        into.append(NodeState(node.path, False))
        for child in children_of(node):
            _capture_nodes(child, into, now)


def _capture_commitment(leaf: Leaf) -> CommitmentState | None:
    bound = leaf.commitment
    if bound is None:
        return None
    return CommitmentState(bound.until, bound.price, bound.sequence, bound.asked)


def _capture_call(leaf: Leaf) -> CallState | None:
    call = leaf.call
    if call is None:
        return None
    return CallState(
        call.since,
        call.until,
        call.reason,
        call.sequence,
        call.reading,
        call.asked,
        None if call.order is None else _capture_order(call.order),
    )


def _capture_order(order: Order) -> OrderState:
    count, within = (order.count, order.within) if isinstance(order, Gang) else (1, None)
    return OrderState(
        order.id,
        order.tenant,
        order.scope,
        order.price,
        order.limit,
        order.expires,
        order.sequence,
        count,
        within,
    )


def _capture_book(book: Book) -> BookState | None:
    oldest = book.node.oldest
    steps = [] if oldest == NEVER else book.steps_since(oldest)
    if book.floor or steps:
        return BookState(book.node.path, book.floor, steps)
    return None


# Reading --------------------------------------------------------------------------------------


def _contradiction(what: str) -> ValueError:
    """Bytes of the right format that no market can have written: they are damaged."""
    return ValueError(f"this snapshot contradicts itself: {what}; restore from another one")


def _rebuild(saved: MarketState) -> State:
    state = empty_state()
    state.now, state.sequence = saved.now, saved.sequence
    for tree_state in saved.trees:
        _rebuild_tree(state, tree_state)
    for node_state in saved.nodes:
        _rebuild_node(state, node_state)
    for book_state in saved.books:
        state.book_at(_known_scope(state, book_state.scope)).floor = book_state.floor
    gangs = [_rebuild_order(state, order_state) for order_state in saved.orders]
    steps = {book_state.scope: book_state.steps for book_state in saved.books}
    for path, node in state.nodes.items():
        if node.book is not None:
            node.book.recall(steps.get(path, []), saved.now)
    for account_state in saved.accounts:
        _rebuild_account(state, account_state)
    _check_owners(state)
    for tree in state.trees.values():
        for descent in tree.descents.values():
            if descent.pending and descent.scope not in state.nodes:
                raise _contradiction(f"a floor falls at {descent.scope!r}, where there is none")
    for root in state.roots:
        renew_all(root)
    for gang in gangs:
        if isinstance(gang, Gang):
            level_at(state, state.nodes[gang.scope], gang.within).post(gang)
    plan_all(state)
    return state


def _rebuild_tree(state: State, saved: TreeState) -> None:
    tree, guard = tree_named(state, saved.name), saved.guard
    if (guard.rise is not None or guard.fall is not None) and (guard.window or 0) < 1:
        raise _contradiction(f"the guard of {saved.name!r} has no window to measure in")
    tree.guard = guard
    tree.reference_window = saved.reference_window
    tree.references = dict(saved.references)
    tree.descents = {descent.scope: descent for descent in saved.descents}


def _rebuild_node(state: State, saved: NodeState) -> None:
    if saved.path in state.nodes and state.nodes[saved.path].is_leaf:
        raise _contradiction(f"resource {saved.path!r} is in it twice")
    if not saved.is_leaf:
        scope = _known_scope(state, saved.path)
        assert isinstance(scope, Scope)
        place_scope(state, scope)
        return
    above = _known_scope(state, saved.path.rpartition("/")[0])
    if not isinstance(above, Scope) or saved.path in state.nodes:
        raise _contradiction(f"{saved.path!r} can't be a resource where it is")
    leaf = attach_leaf(state, saved.path, saved.attributes)
    leaf.owner, leaf.limit, leaf.since = saved.owner, saved.limit, saved.since
    leaf.reading = -saved.metered
    if saved.hold is not None:
        hold = saved.hold
        leaf.hold = Hold(hold.until, hold.cap, hold.sequence)
        leaf.hold.limit_was_put_off, leaf.hold.over = hold.limit_was_put_off, hold.over
    if saved.commitment is not None:
        bound = saved.commitment
        leaf.commitment = Commitment(bound.until, bound.price, bound.sequence)
        leaf.commitment.asked = bound.asked
    if saved.call is not None:
        call = saved.call
        order = None if call.promised is None else _order(state, call.promised)
        leaf.call = RunningCall(call.since, call.until, call.reason, call.sequence, order)
        leaf.call.reading, leaf.call.asked = call.reading, call.asked
        if order is not None:
            state.account(order.tenant).promises[leaf.path] = leaf
            state.promised[order.id] = state.promised.get(order.id, 0) + 1
    leaf.past_calls = saved.past_calls
    state.calls_kept += len(saved.past_calls)


def _known_scope(state: State, path: str) -> Leaf | Scope:
    """The node at a path, which is under no leaf."""
    node = state.nodes.get(path)
    if node is not None:
        return node
    above = path.rpartition("/")[0]
    while above:
        if isinstance(state.nodes.get(above), Leaf):
            raise _contradiction(f"{path!r} is under the resource {above!r}")
        above = above.rpartition("/")[0]
    if not path:
        raise _contradiction("a resource has no tree, or a scope no name")
    return know_scope(state, path)


def _rebuild_order(state: State, saved: OrderState) -> Order:
    if saved.id in state.orders:
        raise _contradiction(f"order {saved.id!r} is in it twice")
    node = _known_scope(state, saved.scope)
    order = _order(state, saved)
    state.orders[order.id] = state.accounts[order.tenant].orders[order.id] = order
    if not isinstance(order, Gang):
        state.book_at(node).add(order, state.now)
    elif not isinstance(node, Scope) or not node.placed:
        raise _contradiction(f"gang {saved.id!r} waits where there are no resources")
    return order


def _order(state: State, saved: OrderState) -> Order:
    """An order or gang that waits, or to which something is promised."""
    name = state.account(saved.tenant).name
    facts = (saved.id, name, saved.scope, saved.price, saved.limit, saved.expires, saved.sequence)
    if saved.within is None:
        return Order(*facts)
    return Gang(*facts, True, saved.count, saved.within)


def _rebuild_account(state: State, saved: AccountState) -> None:
    account = state.account(saved.name)
    account.settled = saved.settled
    state.revenue_settled += account.settled
    for path in saved.holdings:
        leaf = state.nodes.get(path)
        if not isinstance(leaf, Leaf) or leaf.owner != account.name:
            raise _contradiction(f"{account.name!r} holds {path!r}, which says otherwise")
        leaf.owner = account.name  # the same text, and not one for each leaf
        account.take(leaf)


def _check_owners(state: State) -> None:
    """Everything that has an owner is held by that account, and nothing else has a hold."""
    for node in state.nodes.values():
        if not isinstance(node, Leaf):
            continue
        account = None if node.owner is None else state.accounts.get(node.owner)
        held = {} if account is None else account.holdings.get(node.tree.name, {})
        if node.owner is not None and node.path not in held:
            raise _contradiction(f"{node.path!r} is {node.owner!r}'s, whose account says otherwise")
        if node.owner is None and (node.hold or node.commitment or node.call):
            raise _contradiction(
                f"{node.path!r} has a hold, a commitment or a call, and nobody holds it"
            )
