"""What falls due later: the agenda.

One heap of (instant, kind, sequence, subject), so that at one instant orders expire first, then
floors step down, then holds end, and within a kind the earlier comes first. Nothing is ever taken
out of the middle: an entry whose subject has moved on is dead, is dropped when it surfaces, and
all of them at once when they outnumber the living.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import cast

from laissez.market.book import Order
from laissez.market.guards import Descent
from laissez.market.nodes import Leaf

EXPIRY, FLOOR_STEP, HOLD_END = range(3)

Subject = Order | Descent | Leaf
Timer = tuple[int, int, int, Subject]


class Agenda:
    __slots__ = ("_dead", "heap")

    def __init__(self) -> None:
        self.heap: list[Timer] = []
        self._dead = 0

    def add(self, at: int, kind: int, sequence: int, subject: Subject) -> None:
        heappush(self.heap, (at, kind, sequence, subject))

    def note_dead(self) -> None:
        """An entry has died in its place; forget all the dead if there are too many."""
        self._dead += 1
        if self._dead > len(self.heap) // 2 + 16:
            self.heap = [timer for timer in self.heap if _is_live(timer)]
            heapify(self.heap)
            self._dead = 0

    def next(self) -> int | None:
        """The next instant at which something falls due."""
        heap = self.heap
        while heap and not _is_live(heap[0]):
            heappop(heap)
            self._dead -= 1
        return heap[0][0] if heap else None

    def pop_due(self, at: int) -> Timer | None:
        """The next thing that falls due by `at`."""
        due = self.next()
        return heappop(self.heap) if due is not None and due <= at else None


def _is_live(timer: Timer) -> bool:
    _, kind, sequence, subject = timer
    if kind == EXPIRY:
        return cast(Order, subject).live
    if kind == FLOOR_STEP:
        descent = cast(Descent, subject)
        return descent.pending and descent.sequence == sequence
    hold = cast(Leaf, subject).hold
    return hold is not None and not hold.over and hold.sequence == sequence
