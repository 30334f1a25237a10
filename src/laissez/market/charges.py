"""What a holding owes: the exact integral of its rate, and its explanation.

The rate of a leaf is the highest of a few step functions, one per book on its path. Each is kept
in its book; nothing is kept per leaf but the start of the holding. The charge is read from the
ledgers of these books (see `ledger`). The explanation is made from their steps: a trace cuts from
each book what concerns one holding, and between two changes anywhere on the path the rate is
constant, which makes a piece. Explanations are asked for rarely and made when they are read.

A hold spares its holder what the rate is above the cap. That is added up from pieces, once, when
the hold is over.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from operator import itemgetter

from laissez.market.book import Book, Step, step_index
from laissez.market.ledger import work_out
from laissez.market.nodes import Leaf, Scope
from laissez.market.path import uncapped_rate
from laissez.model.values import Cause, Segment


def books_on_path(leaf: Leaf) -> list[Book]:
    """The books that have ever pressed on a leaf, root first."""
    books: list[Book] = []
    node: Leaf | Scope | None = leaf
    while node is not None:
        if node.book is not None and node.book.steps:
            books.append(node.book)
        node = node.parent
    books.reverse()
    return books


def charge(leaf: Leaf, now: int, until: int) -> int:
    """What a leaf's holding owes from its start to `until`; after `now` nothing changes."""
    owner, since = leaf.owner, leaf.since
    assert owner is not None
    books = books_on_path(leaf)
    work_out(books, now)
    total = 0
    for book in books:
        if book.ledger is not None:
            total += book.ledger.between(since, now, owner)
    if until > now:
        total += uncapped_rate(leaf) * (until - now)
    hold = leaf.hold
    if hold is not None:
        if hold.spared is None:
            spared = Trace(leaf, until).spared()
            if hold.over:
                hold.spared = spared
        else:
            spared = hold.spared
        total -= spared
    return total


Part = tuple[list[Step], int, int]
"""The steps of a book, the index of the first in force (-1: none yet), the end of the range."""


class Trace:
    """One holding from `since` to `until`, and all that pressed on it meanwhile."""

    __slots__ = ("cap", "owner", "parts", "protected_until", "since", "until")

    def __init__(self, leaf: Leaf, until: int) -> None:
        assert leaf.owner is not None
        self.owner = leaf.owner
        self.since = since = leaf.since
        self.until = until
        hold = leaf.hold
        self.protected_until = since if hold is None else min(hold.until, until)
        self.cap = 0 if hold is None else hold.cap
        self.parts: list[Part] = []
        for book in books_on_path(leaf):
            steps = book.steps
            end = bisect_left(steps, (until,))
            if end:
                self.parts.append((steps, step_index(steps, since), end))

    def spared(self) -> int:
        """What the hold saves: the integral of the rate above the cap while it lasts."""
        return sum(
            (max(floor, price) - self.cap) * (min(end, self.protected_until) - start)
            for start, end, floor, price in self._pieces()
            if start < self.protected_until and max(floor, price) > self.cap
        )

    def _pieces(self) -> Iterator[tuple[int, int, int, int]]:
        """(from, to, floor, price) for each stretch in which nothing changes."""
        owner = self.owner
        floors, prices = [0], [0]
        changes: list[tuple[int, int, int, int]] = []
        for steps, first, end in self.parts:
            floors.append(0)
            prices.append(0)
            place = len(floors) - 1
            for index in range(max(first, 0), end):
                at, floor, highest, by, second = steps[index]
                changes.append((at, place, floor, second if by == owner else highest))
        if len(self.parts) > 1:
            changes.sort(key=itemgetter(0))
        start = self.since
        for at, place, floor, price in changes:
            if at > start:
                yield start, at, max(floors), max(prices)
                start = at
            floors[place] = floor
            prices[place] = price
        if self.until > start:
            yield start, self.until, max(floors), max(prices)

    def explain(self) -> list[Segment]:
        """The charge as (from, to, rate, cause), equal neighbours joined."""
        segments: list[Segment] = []
        for start, end, floor, price in self._pieces():
            middle = min(max(start, self.protected_until), end)
            rate: int = max(floor, price)
            cause: Cause = "demand" if price > floor else "floor"
            if start < middle:
                if rate > self.cap:
                    _join(segments, start, middle, self.cap, "hold")
                else:
                    _join(segments, start, middle, rate, cause)
            if middle < end:
                _join(segments, middle, end, rate, cause)
        return segments


def _join(segments: list[Segment], start: int, end: int, rate: int, cause: Cause) -> None:
    if segments:
        last = segments[-1]
        if last[2] == rate and last[3] == cause:
            segments[-1] = (last[0], end, rate, cause)
            return
    segments.append((start, end, rate, cause))
