"""What work is worth that has to be done by a deadline, in pace: work per unit of time.

Work that is left over time that is left is the pace that is needed. Up to a tenth above it every
bit of pace counts in full, for things go wrong; what goes beyond counts little. Urgency rises by
itself as a job falls behind, since the time left shrinks faster than the work, and there it ends:
what is needed is never more than the fastest pace that the job can have. Past the deadline, where
the quotient means nothing any more, all the work is needed, and that fastest pace with it.
"""

from __future__ import annotations

FULL_VALUE_UP_TO = 1.1
"""Pace counts in full up to this many times what is needed."""
VALUE_BEYOND = 0.1
"""What pace above that counts for: being early is worth something, but not much."""


def needed_pace(work_left: float, time_left: float, pace_max: float) -> float:
    """The pace that still makes it, at most `pace_max`; that much once the deadline is there.

    Work is in the unit of time that it takes at a pace of 1, the same unit as the time left.
    """
    if work_left <= 0:
        return 0.0
    if time_left <= 0:
        return pace_max
    return min(work_left / time_left, pace_max)


def useful_pace(pace: float, needed: float) -> float:
    """How much of a pace counts, if this much is needed."""
    full = FULL_VALUE_UP_TO * needed
    return pace if pace <= full else full + VALUE_BEYOND * (pace - full)
