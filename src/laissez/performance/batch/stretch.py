"""A stretch of work: the same nodes at the same pace, from one instant on, without a break.

Everything about it follows from where it began, so nothing is added up and nothing drifts. It
begins with all its work saved, and every so often it saves again: at the very instant of a
checkpoint nothing would have to be done twice. A pause is a stretch at the pace 0.

All numbers are integers. Pace is in millionths of that of the reference node, and work in the
millionth part of what the reference node does in a microsecond, so that pace times microseconds
is work, exactly.
"""

from __future__ import annotations

import msgspec

PPM = 1_000_000


class Stretch(msgspec.Struct, frozen=True):
    """`begun_with` is below 0 if a report says that less was done than since the checkpoint."""

    from_us: int
    begun_with: int
    pace_ppm: int
    every_us: int

    def done(self, at_us: int) -> int:
        return self.begun_with + self.pace_ppm * (at_us - self.from_us)

    def unsaved(self, at_us: int) -> int:
        """What has to be done again if it breaks off at this instant."""
        return self.pace_ppm * ((at_us - self.from_us) % self.every_us)

    def corrected(self, at_us: int, done: int) -> Stretch:
        """The same, with this much done at this instant; checkpoints come when they would have."""
        since_us = (at_us - self.from_us) % self.every_us
        begun_with = done - self.pace_ppm * since_us
        return Stretch(at_us - since_us, begun_with, self.pace_ppm, self.every_us)

    def saved_at(self, at_us: int) -> Stretch:
        """The same, with all that was done at this instant saved then, and from then on every so
        often."""
        return Stretch(at_us, self.done(at_us), self.pace_ppm, self.every_us)

    def checkpoint_us(self, at_us: int) -> int:
        """The first checkpoint at or after this instant."""
        return at_us + (self.from_us - at_us) % self.every_us

    def reaches_us(self, work: int) -> int | None:
        """The first instant at which this much is done; never, in a pause."""
        if not self.pace_ppm:
            return None
        return self.from_us - (self.begun_with - work) // self.pace_ppm
