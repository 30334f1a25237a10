"""Time that jumps: what is planned happens in the order (instant, priority, sequence).

Instants are integers, in microseconds. Of two things at one instant the one with the lower priority
number comes first; of two with the same, the one that was planned first. So a run is a function of
what was planned, and never of a clock. What happens may plan more, but not in the past: that would
be a programmer's error.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

Happening = Callable[[int], object]

# What falls due in a market comes first, then nodes arrive, then people act on what they see.
DUE, ARRIVAL, ACTION = 0, 1, 2


class Kernel:
    """A queue of happenings, and the instant that it has reached."""

    def __init__(self) -> None:
        self.now_us = 0
        self._planned: list[tuple[int, int, int, Happening]] = []
        self._sequence = 0

    def at(self, at_us: int, do: Happening, priority: int = ACTION) -> None:
        """Let something happen at an instant."""
        assert at_us >= self.now_us, f"{at_us} is past: it is {self.now_us}"
        self._sequence += 1
        heappush(self._planned, (at_us, priority, self._sequence, do))

    def every(self, period_us: int, do: Happening, *, begins_us: int = 0) -> None:
        """Let something happen again and again."""

        def again(at_us: int) -> None:
            do(at_us)
            self.at(at_us + period_us, again)

        self.at(begins_us, again)

    def run(self, until_us: int) -> None:
        """Let everything happen up to an instant, and that instant with it."""
        planned = self._planned
        while planned and planned[0][0] <= until_us:
            at_us, _, _, do = heappop(planned)
            self.now_us = at_us
            do(at_us)
        self.now_us = until_us
