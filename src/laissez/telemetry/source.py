"""What a source is: something that can be asked for a number at an instant, and may not have one.

There are two ways to go wrong. What is wrong with a description (no such file, no such column) is
a `BadTelemetry` when the source is made, before anything runs. What goes wrong later (no answer, no
number in it) is `Unreadable`, and the number is missing for now.
"""

from typing import NamedTuple, Protocol

US_PER_S = 1_000_000


class Reading(NamedTuple):
    """A number, and the instant of which it is true."""

    value: float
    at_us: int


class BadTelemetry(ValueError):
    """A source that can't be made as it is described; the sentence says what to change."""


class Unreadable(Exception):
    """There is no number now; the sentence says why."""


class Source(Protocol):
    async def read(self, at_us: int) -> Reading | None:
        """The number at this instant; None, or Unreadable with the reason, if there is none.

        Instants are microseconds since 1970 wherever a source compares them with a clock elsewhere.
        """

    async def close(self) -> None:
        """Let go of connections."""


def seconds(duration_us: int) -> str:
    """A duration as it is said to people."""
    return f"{duration_us / US_PER_S:g}s"
