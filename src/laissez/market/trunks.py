"""A trunk: what pressed on the way from the root down to one scope, and how much above a rate.

A hold spares its holder what the rate is above the cap, and what it spares is asked for a past in
which much may have happened, by many holdings at once. So these changes are written down once for
all holdings under a scope, as a ground is (see `grounds`), and "how much was that above this rate
since then" is answered by sorted blocks: all that there was, less the rate for that long, and what
of it fell short of the rate. The meters of many books under a scope ask the other way round, when
they are first read after much has happened in it: how far did that fall short of this rate?

The trunk ends where it is dearer to write everything down once more than to have each holding look
at the few changes that are left below. It is made when somebody asks, and dropped when its book is
cut: whatever the steps of the books say, it says, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from laissez.market.grounds import Ground
from laissez.market.steps import Past, step_index, steps_before

FEW_LOOKED_AT = 32
"""So few changes are looked at one by one."""

LOOKS_PER_CHANGE = 16
"""To look at a change below the trunk costs as much as to write so many down."""


class Trunk:
    """All that pressed on the way from the root to one scope, change by change."""

    __slots__ = ("_totals", "ground", "over")

    def __init__(self, book: Past, over: Trunk | None, at: int) -> None:
        self.over = over
        self.ground: Ground = Ground(book, None if over is None else over.ground, at)
        self._totals = [0]

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
        own = self.ground.own_episodes(tenant)
        return total if own is None else total + own.excess(rate, since, until)

    def lacked(self, rate: int, tenant: str, since: int, until: int) -> int:
        """The integral of what fell short of a rate in what pressed on a tenant."""
        above = self.excess(0, tenant, since, until) - self.excess(rate, tenant, since, until)
        return rate * (until - since) - above

    def _total(self, at: int) -> int:
        index = self.ground.index_at(at)
        return self._totals[index] + self.ground.on_others[index] * (at - self.ground.times[index])


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
    below = _first_below(books)
    return trunk_of(books[:below], now), below


def trunk_of(books: Sequence[Trunked], now: int) -> Trunk | None:
    """The trunk of all of a path, up to date."""
    over: Trunk | None = None
    for book in books:
        trunk = book.trunk
        if trunk is None or trunk.over is not over:
            at = min(book.node.oldest, now)
            trunk = Trunk(book, over, at if over is None else max(over.ground.times[0], at))
            book.trunk = trunk
        trunk.extend(now)
        over = trunk
    return over


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
