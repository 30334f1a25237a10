"""A trunk: what pressed on the way from the root down to one scope, and how much above a rate.

A hold spares its holder what the rate is above the cap, and what it spares is asked for a past in
which much may have happened, by many holdings at once. So these changes are written down once for
all holdings under a scope, as a ground is (see `grounds`), and "how much was that above this rate
since then" is answered by sorted blocks: all that there was, less the rate for that long, and what
of it fell short of the rate.

The trunk ends where it is dearer to write everything down once more than to have each holding look
at the few changes that are left below. It is made when somebody asks, and dropped when its book is
cut: whatever the steps of the books say, it says, and nothing else.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Protocol

from laissez.market.grounds import Ground, LastingRates
from laissez.market.steps import Past, step_index, steps_before

FEW_LOOKED_AT = 32
"""So few changes are looked at one by one."""

LOOKS_PER_CHANGE = 16
"""To look at a change below the trunk costs as much as to write so many down."""


class Trunk:
    """All that pressed on the way from the root to one scope, change by change."""

    __slots__ = ("_own", "_totals", "ground", "over")

    def __init__(self, book: Past, over: Trunk | None, at: int) -> None:
        self.over = over
        self.ground: Ground = Ground(book, None if over is None else over.ground, at)
        self._totals = [0]
        self._own: dict[str, OwnEpisodes] = {}

    def extend(self, now: int) -> None:
        """Follow all changes before `now`."""
        ground, totals = self.ground, self._totals
        if ground.until >= now:
            return
        ground.extend(now)
        times, on_others = ground.times, ground.on_others
        for index in range(len(totals) - 1, len(times) - 1):
            totals.append(totals[-1] + on_others[index] * (times[index + 1] - times[index]))

    def excess(self, rate: int, tenant: str, since: int, until: int) -> int:
        """The integral of what pressed on a tenant above a rate."""
        total = self._total(until) - self._total(since) - rate * (until - since)
        total += self.ground.shortfall(rate, since, until)
        if tenant not in self.ground.episodes:
            return total
        own = self._own.get(tenant)
        if own is None:
            own = self._own[tenant] = OwnEpisodes(self.ground, tenant)
        return total + own.difference(rate, since, until)

    def _total(self, at: int) -> int:
        index = self.ground.index_at(at)
        return self._totals[index] + self.ground.on_others[index] * (at - self.ground.times[index])


class OwnEpisodes:
    """The times in which a tenant's own order pressed most, so that the runner-up pressed on it."""

    __slots__ = (
        "_by",
        "_by_rates",
        "_ground",
        "_others",
        "_others_rates",
        "_spans",
        "_tenant",
        "_totals",
    )

    def __init__(self, ground: Ground, tenant: str) -> None:
        self._ground = ground
        self._tenant = tenant
        self._by: list[int] = []
        self._others: list[int] = []
        self._spans: list[int] = []
        self._totals = [0]
        self._by_rates = LastingRates(self._by, self._spans)
        self._others_rates = LastingRates(self._others, self._spans)

    def difference(self, rate: int, since: int, until: int) -> int:
        """How much more than others the tenant was pressed above a rate; at most 0."""
        ground = self._ground
        indices = ground.episodes[self._tenant]
        first = bisect_left(indices, ground.index_at(since))
        end = bisect_left(indices, bisect_left(ground.times, until))
        if first >= end:
            return 0
        total = self._in_part(indices[first], rate, since, until)
        if first == end - 1:
            return total
        total += self._in_part(indices[end - 1], rate, since, until)
        # These have begun and ended within the time that is asked about.
        first, end = first + 1, end - 1
        self._extend(indices, end)
        total += self._totals[end] - self._totals[first]
        total += self._by_rates.shortfall(rate, first, end)
        return total - self._others_rates.shortfall(rate, first, end)

    def _in_part(self, index: int, rate: int, since: int, until: int) -> int:
        ground = self._ground
        times = ground.times
        start = max(times[index], since)
        end = min(times[index + 1], until) if index + 1 < len(times) else until
        more = max(ground.on_by[index] - rate, 0) - max(ground.on_others[index] - rate, 0)
        return more * (end - start)

    def _extend(self, indices: list[int], end: int) -> None:
        ground = self._ground
        for position in range(len(self._spans), end):
            index = indices[position]
            on_by, on_others = ground.on_by[index], ground.on_others[index]
            span = ground.times[index + 1] - ground.times[index]
            self._by.append(on_by)
            self._others.append(on_others)
            self._spans.append(span)
            self._totals.append(self._totals[-1] + (on_by - on_others) * span)


class Trunked(Past, Protocol):
    """Something that has a past and may have a trunk: a book."""

    trunk: Trunk | None


def trunk_on(
    books: Sequence[Trunked], since: int, until: int, now: int
) -> tuple[Trunk | None, int]:
    """The trunk of a path, up to date, and the position of the first book below it; no trunk, if
    little happened in that time."""
    changes = sum(
        steps_before(book.steps, until) - max(step_index(book.steps, since), 0) for book in books
    )
    if changes <= FEW_LOOKED_AT:
        return None, 0
    over: Trunk | None = None
    below = _first_below(books)
    for book in books[:below]:
        trunk = book.trunk
        if trunk is None or trunk.over is not over:
            at = min(book.node.oldest, now)
            trunk = Trunk(book, over, at if over is None else max(over.ground.times[0], at))
            book.trunk = trunk
        trunk.extend(now)
        over = trunk
    return over, below


def _first_below(books: Sequence[Trunked]) -> int:
    below, changes = 1, len(books[0].steps)
    for position in range(1, len(books)):
        book = books[position]
        if book.node.is_leaf:
            break
        if len(book.steps) * book.node.held * LOOKS_PER_CHANGE > changes:
            below = position + 1
        changes += len(book.steps)
    return below
