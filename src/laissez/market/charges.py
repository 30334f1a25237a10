"""What a holding owes: the exact integral of its rate, and its explanation.

The rate of a leaf is the highest of a few step functions, one per book on its path. Each is kept
in its book; nothing is kept per leaf but the start of the holding. A trace cuts from each book
what concerns one holding. Between two changes anywhere on the path the rate is constant: that is
a piece, and pieces are what an explanation is made of.

A hold charges min(cap, rate), which is rate + cap - max(cap, rate): so the only integral that is
ever needed is that of max(least, rate), for `least` 0 or the cap.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from operator import itemgetter

from laissez.market.book import Book, Step, step_index
from laissez.market.nodes import Leaf, Scope
from laissez.model.values import Cause, Segment

Part = tuple[list[Step], int, int]
"""The steps of a book, the index of the first in force (-1: none yet), the end of the range."""


class Trace:
    """One holding from `since` to `until`, and all that pressed on it meanwhile."""

    __slots__ = ("books", "cap", "owner", "parts", "protected_until", "since", "until")

    def __init__(self, leaf: Leaf, until: int) -> None:
        assert leaf.owner is not None
        self.owner = leaf.owner
        self.since = since = leaf.since
        self.until = until
        hold = leaf.hold
        self.protected_until = since if hold is None else min(hold.until, until)
        self.cap = 0 if hold is None else hold.cap
        self.parts: list[Part] = []
        self.books: list[Book] = []
        node: Leaf | Scope | None = leaf
        while node is not None:
            book = node.book
            if book is not None and book.steps:
                steps = book.steps
                end = bisect_left(steps, (until,))
                if end:
                    self.parts.append((steps, step_index(steps, since), end))
                    self.books.append(book)
            node = node.parent

    def charge(self) -> int:
        """The integral of the charged rate."""
        total = self._integral(0, self.since, self.until)
        if self.protected_until > self.since:
            capped = self._integral(self.cap, self.since, self.protected_until)
            total += self.cap * (self.protected_until - self.since) - capped
            total += 0
        return total

    def _integral(self, least: int, since: int, until: int) -> int:
        """The integral of max(least, rate)."""
        total = 0
        for start, end, floor, price in self._pieces():
            if start < until:
                total += max(least, floor, price) * (min(end, until) - max(start, since))
        return total

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
