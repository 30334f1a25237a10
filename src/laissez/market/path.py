"""What is read along the path from a leaf to its root: floor, rate, winner, books.

Nothing about an order is ever written to the leaves that it covers. A leaf's rate is the highest
of what presses in the books on its path; its winner is the best order of those books, and since
the walk starts at the leaf, the finest scope is met first and keeps ties.
"""

from __future__ import annotations

from laissez.market.book import Book, Order
from laissez.market.nodes import Leaf, Scope
from laissez.model.values import Cause


def floor_at(node: Leaf | Scope) -> int:
    """The highest floor set from a node up to its root."""
    floor = 0
    step: Leaf | Scope | None = node
    while step is not None:
        if step.book is not None and step.book.floor > floor:
            floor = step.book.floor
        step = step.parent
    return floor


def uncapped_rate(leaf: Leaf) -> int:
    """What presses on a leaf's owner: floors, and the prices of everybody else."""
    return rate_for(leaf, leaf.owner)


def rate_for(leaf: Leaf, owner: str | None) -> int:
    """What presses, or would press, on somebody who has a leaf; on the operator just the floor."""
    if owner is None:
        return floor_at(leaf)
    rate = 0
    node: Leaf | Scope | None = leaf
    while node is not None:
        book = node.book
        if book is not None:
            price = book.second if book.by == owner else book.first
            if price > rate:
                rate = price
            if book.floor > rate:
                rate = book.floor
        node = node.parent
    return rate


def charged_rate(leaf: Leaf) -> int:
    """The rate, under a hold at most the limit that the holding won with; while the holding is
    called, its limit."""
    if leaf.call is not None:
        return leaf.limit
    rate = uncapped_rate(leaf)
    hold = leaf.hold
    return min(rate, hold.cap) if hold is not None and not hold.over else rate


def rate_cause(leaf: Leaf) -> Cause:
    """Why a leaf is charged what it is, as the last segment of its explanation says."""
    if leaf.call is not None:
        return "notice"
    rate = uncapped_rate(leaf)
    hold = leaf.hold
    if hold is not None and not hold.over and rate > hold.cap:
        return "hold"
    return "demand" if rate > floor_at(leaf) else "floor"


def books_and_winner(leaf: Leaf) -> tuple[list[Book], Order | None]:
    """The books that press on a leaf or have pressed on it, the root's first; and its winner."""
    books: list[Book] = []
    best: Order | None = None
    limit = -1
    floor = 0
    node: Leaf | Scope | None = leaf
    while node is not None:
        book = node.book
        if book is not None:
            books.append(book)
            if book.floor > floor:
                floor = book.floor
            order = book.best
            if order is not None and order.limit > limit:
                best = order
                limit = order.limit
        node = node.parent
    books.reverse()
    return books, best if limit >= floor else None


def winner_of(leaf: Leaf) -> Order | None:
    """The order that a leaf goes to if its holder has to leave."""
    return books_and_winner(leaf)[1]


def books_on_path(leaf: Leaf) -> list[Book]:
    """The books that press on a leaf or have pressed on it, the root's first."""
    return books_and_winner(leaf)[0]
