"""The market's time: the wall clock, except that it never goes back and never stands still.

Time is counted from a wall-clock reading by the monotonic clock. A wall clock that jumps ahead is
followed; one that steps back is not, and market time goes on at its own pace until the wall has
caught up. After a restart time begins no earlier than the last instant in the journal.
"""

import time
from collections.abc import Callable

NS_PER_US = 1_000


class Clock:
    """Microseconds since 1970, by a wall and a monotonic clock that are passed in."""

    def __init__(
        self,
        *,
        not_before: int = 0,
        wall_ns: Callable[[], int] = time.time_ns,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._wall_ns = wall_ns
        self._monotonic_ns = monotonic_ns
        self._ahead_ns = max(wall_ns(), not_before * NS_PER_US) - monotonic_ns()

    def now(self) -> int:
        wall, monotonic = self._wall_ns(), self._monotonic_ns()
        if wall - monotonic > self._ahead_ns:
            self._ahead_ns = wall - monotonic
        return (monotonic + self._ahead_ns) // NS_PER_US

    def at(self, monotonic_ns: int) -> int:
        """The instant of a reading of the monotonic clock that somebody has just taken: cheaper
        than `now`, and behind it when the wall clock has jumped ahead since anybody asked."""
        return (monotonic_ns + self._ahead_ns) // NS_PER_US
