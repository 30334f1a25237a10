"""The work of a batch job, and how fast a node, or several, get on with it.

The reference is one node of the first kind that is named: its pace is 1, and the hours are those
that it takes, start-up not included. Other kinds are faster or slower by their speed, any one of
them will do, and several work together by Amdahl's law: the serial part runs on the fastest of
them, the rest on all, by the sum of their speeds. For equal nodes that is the law as it is known.

Speeds are rounded to millionths and hours to microseconds; from there on all is integer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

from laissez.performance.application import US_PER_S, BadApplication
from laissez.performance.batch.stretch import PPM
from laissez.performance.batch.table import Gpus, hours_on

US_PER_HOUR = 3_600 * US_PER_S
HOURS_MAX = 2_500
"""So that work, in its fine unit, fits the 64 bits of an integer in a saved state."""


class BadBatch(BadApplication):
    """A batch job that cannot be, or something that cannot happen to it."""


class Work(msgspec.Struct, frozen=True):
    """`hours` on one node of the first kind in `speeds`, which are relative to each other."""

    hours: float
    speeds: Mapping[str, float]

    def __post_init__(self) -> None:
        if not 0 < self.hours <= HOURS_MAX or self.units == 0:
            raise BadBatch(
                f"a job of {self.hours} hours cannot be run; say between a microsecond and "
                f"{HOURS_MAX} hours, and make several jobs of a longer one"
            )
        if not self.speeds or not all(0 < speed < math.inf for speed in self.speeds.values()):
            raise BadBatch(
                f"speeds of {dict(self.speeds)} make no job; say speeds above 0 by kind of node"
            )
        for kind, speed_ppm in self.speeds_ppm.items():
            if "/" in kind or speed_ppm == 0:
                raise BadBatch(
                    f"{kind} with speed {self.speeds[kind]} cannot be used; name a whole tree, "
                    "such as h100, and a speed of at least a millionth of the first"
                )

    @classmethod
    def of_hours(cls, hours: Mapping[str, float]) -> Work:
        """Work whose run time is known for one node of each kind."""
        if not hours or not all(0 < each < math.inf for each in hours.values()):
            raise BadBatch(f"run times of {dict(hours)} make no job; say hours above 0 by kind")
        reference = next(iter(hours.values()))
        return cls(reference, {kind: reference / each for kind, each in hours.items()})

    @classmethod
    def of_tool(cls, tool: str, nodes: Mapping[str, Gpus]) -> Work:
        """One run of a tool of the table; `nodes` says what a node of each kind has in it."""
        return cls.of_hours(hours_on(tool, nodes))

    @property
    def units(self) -> int:
        return round(self.hours * US_PER_HOUR) * PPM

    @property
    def speeds_ppm(self) -> dict[str, int]:
        reference = next(iter(self.speeds.values()))
        return {kind: round(PPM * speed / reference) for kind, speed in self.speeds.items()}


def team_pace_ppm(speeds_ppm: Sequence[int], serial_fraction: float) -> int:
    """The pace of nodes that work together. One more, however slow, never slows them down."""
    at_work = [speed for speed in speeds_ppm if speed]
    if len(at_work) <= 1:
        return sum(at_work)
    return round(1 / (serial_fraction / max(at_work) + (1 - serial_fraction) / sum(at_work)))
