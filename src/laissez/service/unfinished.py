"""A message that has begun has an end, or whoever says half of it and no more fills the memory.

What is begun may be a frame, or a message in several frames. Its time runs from its first byte to
its last, so that dripping helps nobody; it stands still while nothing is read from the connection.
"""

from __future__ import annotations

from laissez.exchange.allowance import NS_PER_S

MESSAGE_S = 10
"""So long a message may take, like the body of a request."""


class Unfinished:
    """What a connection has begun to say and not ended."""

    __slots__ = ("ends_with_frame", "since")

    def __init__(self) -> None:
        self.ends_with_frame = True
        """Was the end of what came last the end of a frame?"""
        self.since = 0
        """By the monotonic clock; 0 if nothing is unfinished."""

    def note(self, now: int, *, has_fragments: bool) -> None:
        """Bytes were read that had come by now."""
        if self.ends_with_frame and not has_fragments:
            self.since = 0
        elif not self.since:
            self.since = now

    def is_overdue(self, now: int, *, is_paused: bool) -> bool:
        if self.since and is_paused:
            self.since = now
        return bool(self.since) and now - self.since > MESSAGE_S * NS_PER_S
