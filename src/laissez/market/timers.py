"""What falls due later: the agenda.

One heap of (instant, kind, sequence, subject): at one instant the lower kind acts first, and within
a kind the earlier sequence. Nothing is ever taken out of the middle: an entry whose subject has
moved on is dead, is dropped when it surfaces, and all of them at once when they outnumber the
living. What the kinds are, when an entry of each is alive and what it does is the table in
`falling_due`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Any

EXPIRY, FLOOR_STEP, HOLD_END, COMMIT_END, CALL_END = range(5)
"""The kinds, as places in the table of `falling_due`, in the order in which they act."""

Timer = tuple[int, int, int, Any]
"""(instant, kind, sequence, subject)"""

IsAlive = Callable[[Any, int], bool]
"""Is a subject still waiting for its timer of this sequence?"""


class Agenda:
    __slots__ = ("_dead", "_is_alive", "acted", "heap")

    def __init__(self, is_alive: tuple[IsAlive, ...]) -> None:
        """`is_alive` has the question for each kind."""
        self.heap: list[Timer] = []
        self.acted = 0
        """How many things have fallen due since this agenda was made."""

        self._dead = 0
        self._is_alive = is_alive

    def add(self, at: int, kind: int, sequence: int, subject: object) -> None:
        heappush(self.heap, (at, kind, sequence, subject))

    def note_dead(self) -> None:
        """An entry has died in its place; forget all the dead if there are too many."""
        self._dead += 1
        if self._dead > len(self.heap) // 2 + 16:
            self.heap = [timer for timer in self.heap if self._stands(timer)]
            heapify(self.heap)
            self._dead = 0

    def next(self) -> int | None:
        """The next instant at which something falls due."""
        heap = self.heap
        while heap and not self._stands(heap[0]):
            heappop(heap)
            self._dead -= 1
        return heap[0][0] if heap else None

    def pop_due(self, at: int) -> Timer | None:
        """The next thing that falls due by `at`."""
        due = self.next()
        if due is None or due > at:
            return None
        self.acted += 1
        return heappop(self.heap)

    def count_due(self, at: int, enough: int) -> int:
        """How many things fall due by `at`; it stops counting when there are enough."""
        return sum(1 for _ in islice(self._due(at), enough))

    def is_step_due(self, at: int) -> bool:
        """Does a floor step by `at`?"""
        return any(kind == FLOOR_STEP for _, kind, _, _ in self._due(at))

    def _due(self, at: int) -> Iterator[Timer]:
        """What falls due by `at`, in no order.

        Below an entry of a heap there is nothing earlier, so only what is due is looked at.
        """
        heap, ahead = self.heap, [0]
        while ahead:
            place = ahead.pop()
            if place < len(heap) and heap[place][0] <= at:
                if self._stands(heap[place]):
                    yield heap[place]
                ahead += (2 * place + 1, 2 * place + 2)

    def _stands(self, timer: Timer) -> bool:
        _, kind, sequence, subject = timer
        return self._is_alive[kind](subject, sequence)
