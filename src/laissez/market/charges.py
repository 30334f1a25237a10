"""What a holding owes: the exact integral of its rate, and its explanation.

The charge is the difference of two meter readings (see `meters`), so it costs the same whatever
happened since the holding began. The explanation is made from the steps of the books on the path:
a trace remembers which these are, and between two changes in any of them the rate is constant,
which makes a piece. Explanations are asked for rarely, and made when they are read.

A call is charged the retention limit, whatever the meters count meanwhile: what they have counted
by its beginning and by its end is remembered, and the difference made up for.

A hold spares its holder what the rate is above the cap. That is added up from pieces, each of them
once: a hold remembers how much it has spared, and up to when that is counted.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import islice
from operator import itemgetter

from laissez.market.book import Book
from laissez.market.meters import MeterUpdater
from laissez.market.nodes import Leaf
from laissez.market.path import books_on_path, uncapped_rate
from laissez.market.steps import step_index, steps_before
from laissez.market.trunks import Trunk, trunk_on
from laissez.model.values import Cause, Segment

CHANGES_PER_SEGMENT = 5
"""So many changes are looked at for each segment that is given, if most are not seen in it."""


def metered(leaf: Leaf, now: int) -> int:
    """What the meters have counted for a leaf's holding up to `now`, whatever a hold spares it."""
    if leaf.owner is None:
        return 0
    return MeterUpdater(books_on_path(leaf), now).read(leaf.owner) - leaf.reading


def charge(leaf: Leaf, now: int, until: int) -> int:
    """What a leaf's holding owes from its start to `until`; after `now` nothing changes."""
    total = counted = metered(leaf, now)
    if until > now and leaf.call is None:
        total += uncapped_rate(leaf) * (until - now)
    if leaf.hold is not None:
        total -= spared_by_hold(leaf, now, until)
    if leaf.call is not None or leaf.past_calls:
        total += called_difference(leaf, counted, until)
    return total


def called_difference(leaf: Leaf, counted: int, until: int) -> int:
    """What a holding's calls, up to `until`, cost it beyond what the meters have counted; `counted`
    is what they have from its start to now."""
    difference = sum(
        limit * (end - start) - meanwhile for start, end, limit, meanwhile in leaf.past_calls
    )
    if leaf.call is not None:
        difference += leaf.limit * (until - leaf.call.since) - (counted - leaf.call.reading)
    return difference


def spared_by_hold(leaf: Leaf, now: int, until: int) -> int:
    """What a holding's hold saves it from its start to `until`; after `now` nothing changes."""
    hold = leaf.hold
    assert hold is not None
    counted, end = max(hold.counted, leaf.since), min(now, hold.until)
    if counted < end:
        books = books_on_path(leaf)
        trunk, below = trunk_on(books, counted, end, now)
        hold.spared += ChargeTrace(leaf, books[below:], end, counted).spared(trunk)
        hold.counted = end
    ahead = min(until, hold.until) - now
    if ahead <= 0:
        return hold.spared
    return hold.spared + max(0, uncapped_rate(leaf) - hold.cap) * ahead


class ChargeTrace:
    """One holding from `since`, or its start, to `until`, and all that pressed on it meanwhile."""

    __slots__ = ("calls", "cap", "owner", "pasts", "protected_until", "since", "until")

    def __init__(self, leaf: Leaf, books: list[Book], until: int, since: int | None = None) -> None:
        assert leaf.owner is not None
        self.owner = leaf.owner
        self.since = self.protected_until = leaf.since if since is None else since
        self.until = until
        self.cap = 0
        if leaf.hold is not None:
            self.protected_until = min(leaf.hold.until, until)
            self.cap = leaf.hold.cap
        self.pasts = [book.steps for book in books]
        self.calls = [(start, end, limit) for start, end, limit, _ in leaf.past_calls]
        if leaf.call is not None and leaf.call.since < until:
            self.calls.append((leaf.call.since, until, leaf.limit))

    def spared(self, trunk: Trunk | None) -> int:
        """What the hold saves, if all of it lasts: the integral of the rate above the cap.

        `trunk` is what pressed over the books that are traced. Where these press with more than the
        cap, the trunk only counts above that.
        """
        total, since, pressing = 0, self.since, self.cap
        for start, end, floor, price in self._pieces():
            rate = max(floor, price, self.cap)
            total += (rate - self.cap) * (end - start)
            if trunk is not None and rate != pressing:
                total += trunk.excess(pressing, self.owner, since, start)
                since, pressing = start, rate
        if trunk is not None:
            total += trunk.excess(pressing, self.owner, since, self.until)
        return total

    def _pieces(self) -> Iterator[tuple[int, int, int, int]]:
        """(from, to, floor, price) for each stretch in which nothing changes."""
        owner = self.owner
        floors, prices = [0], [0]
        changes: list[tuple[int, int, int, int]] = []
        for steps in self.pasts:
            floors.append(0)
            prices.append(0)
            position = len(floors) - 1
            first = max(step_index(steps, self.since), 0)
            for index in range(first, steps_before(steps, self.until)):
                at, floor, highest, by, second = steps[index]
                changes.append((at, position, floor, second if by == owner else highest))
        if len(self.pasts) > 1:
            changes.sort(key=itemgetter(0))
        start = self.since
        for at, position, floor, price in changes:
            if at > start:
                yield start, at, max(floors), max(prices)
                start = at
            floors[position] = floor
            prices[position] = price
        if self.until > start:
            yield start, self.until, max(floors), max(prices)

    def newest(self, count: int) -> tuple[list[Segment], int]:
        """The last segments of the charge, and how many more there are at most.

        Read from the end, so that it costs what is given and not what has happened. Changes that
        are not seen in the charge are passed over, but not without end: then fewer are given.
        """
        segments: list[Segment] = []  # the newest first
        left_out = 0
        pieces = self._pieces_backwards(count * CHANGES_PER_SEGMENT)
        for before, (start, end, floor, price) in pieces:
            # A call makes up to two segments more of what there is before it.
            left_out = before + 2 * bisect_left(self.calls, start, key=itemgetter(0))
            for segment in reversed(self._segments_of(start, end, floor, price)):
                _join(segments, segment)
            if len(segments) > count:
                break
        left_out += max(0, len(segments) - count)
        return segments[:count][::-1], left_out

    def _pieces_backwards(self, most: int) -> Iterator[tuple[int, tuple[int, int, int, int]]]:
        """The pieces from the last, each with how many there are before it at most; no more than
        so many changes are looked at."""
        pasts = self.pasts
        firsts = [max(step_index(steps, self.since), 0) for steps in pasts]
        indices = [steps_before(steps, self.until) - 1 for steps in pasts]
        floors, prices = [0] * len(pasts), [0] * len(pasts)
        for position in range(len(pasts)):
            floors[position], prices[position] = self._pressing(
                position, firsts[position], indices[position]
            )
        left = sum(
            last - first + (steps[first][0] > self.since)
            for steps, first, last in zip(pasts, firsts, indices, strict=True)
            if last >= first
        )
        end = self.until
        for _ in range(most):
            if end <= self.since:
                return
            at, position = max(
                (
                    (pasts[position][index][0], position)
                    for position, index in enumerate(indices)
                    if index >= firsts[position]
                ),
                default=(self.since, -1),
            )
            start = max(at, self.since)
            if start < end:
                before = left if start > self.since else 0
                yield before, (start, end, max(floors, default=0), max(prices, default=0))
                end = start
            if position < 0:
                return
            left -= 1
            indices[position] -= 1
            floors[position], prices[position] = self._pressing(
                position, firsts[position], indices[position]
            )

    def _pressing(self, position: int, first: int, index: int) -> tuple[int, int]:
        """(floor, price) at a place in the step of an index; nothing before the first."""
        if index < first:
            return 0, 0
        _, floor, highest, by, second = self.pasts[position][index]
        return floor, second if by == self.owner else highest

    def explain(self) -> list[Segment]:
        """The charge as (from, to, rate, cause), equal neighbours joined."""
        segments: list[Segment] = []
        for start, end, floor, price in self._pieces():
            for segment in self._segments_of(start, end, floor, price):
                _join(segments, segment)
        return segments

    def _segments_of(self, start: int, end: int, floor: int, price: int) -> tuple[Segment, ...]:
        """What one piece is charged and why: several segments, if calls or a hold end within it."""
        if not self.calls:
            return self._uncalled(start, end, floor, price)
        segments: list[Segment] = []
        first = bisect_right(self.calls, start, key=itemgetter(1))
        for since, until, limit in islice(self.calls, first, None):
            if since >= end:
                break
            if since > start:
                segments += self._uncalled(start, since, floor, price)
                start = since
            segments.append((start, min(until, end), limit, "notice"))
            start = min(until, end)
        if start < end:
            segments += self._uncalled(start, end, floor, price)
        return tuple(segments)

    def _uncalled(self, start: int, end: int, floor: int, price: int) -> tuple[Segment, ...]:
        """The same, of a piece in which there is no call."""
        rate: int = max(floor, price)
        cause: Cause = "demand" if price > floor else "floor"
        middle = self.protected_until
        if rate <= self.cap or middle <= start:
            return ((start, end, rate, cause),)
        if middle >= end:
            return ((start, end, self.cap, "hold"),)
        return (start, middle, self.cap, "hold"), (middle, end, rate, cause)


def _join(segments: list[Segment], segment: Segment) -> None:
    """Put a segment beside the last one, which it comes right after or right before."""
    if segments:
        since, until, rate, cause = segments[-1]
        if rate == segment[2] and cause == segment[3]:
            segments[-1] = (min(since, segment[0]), max(until, segment[1]), rate, cause)
            return
    segments.append(segment)
