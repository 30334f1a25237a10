"""Long lists in pieces, and how an order looks to its tenant."""

from __future__ import annotations

from itertools import chain, islice

from laissez.market.book import Gang, Order
from laissez.market.nodes import Leaf, Scope, walk, walk_on
from laissez.market.state import State
from laissez.model.values import OpenOrder


def resources_after(
    state: State, scope: str | None, after: str | None, most: int
) -> tuple[str, ...] | None:
    """The first resources under a scope, or of all, that come after another in tree order.

    None if that other is not among them any more.
    """
    roots = state.roots
    top = None if scope is None else state.nodes.get(scope)
    tops = roots if scope is None else [] if top is None else [top]
    if after is None:
        leaves = chain.from_iterable(map(walk, tops))
    else:
        begin = state.nodes.get(after)
        if not isinstance(begin, Leaf) or not _is_under(begin, top):
            return None
        place = next((i for i, each in enumerate(roots) if _is_under(begin, each)), 0)
        later = [] if top is not None else roots[place + 1 :]
        here = () if begin is top else walk_on(begin, top if isinstance(top, Scope) else None)
        leaves = chain(here, chain.from_iterable(map(walk, later)))
    return tuple(leaf.path for leaf in islice(leaves, most))


def open_order(order: Order) -> OpenOrder:
    """A live order; a gang has no price."""
    if isinstance(order, Gang):
        return OpenOrder(
            order.tenant,
            order.id,
            order.scope,
            None,
            order.limit,
            order.expires,
            order.count,
            order.within,
        )
    return OpenOrder(order.tenant, order.id, order.scope, order.price, order.limit, order.expires)


def _is_under(leaf: Leaf, top: Leaf | Scope | None) -> bool:
    """Is a leaf this node, or below it? Everything is under None."""
    node: Leaf | Scope | None = leaf
    while node is not None and node is not top:
        node = node.parent
    return node is top
