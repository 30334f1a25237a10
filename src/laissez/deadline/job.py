"""The problem: work with a deadline, on capacity that is cheap or sure.

A job has work left `C`, time left `R`, and a changeover delay `d`, paid at the new instance's
price whenever it moves to an instance. What it can waste is its slack, `S = R - C`, less what the
instance it runs on still needs before it works. Work leaves the slack as it is, idling and
changeovers use it up, and nothing ever gives it back. So a run is the spending of `S`, and the
deadline is safe for as long as the slack pays for the way to on-demand:

* to wait for another tick, `d` must be left after it: `S >= d + tick`;
* to move to spot, `d` is spent on going there, and `d` must be left for the way from there to
  on-demand: `S >= 2d`, and more if a preemption is noticed late.

All times are integers, in microseconds since the job was released; money is in micro-dollars.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

US_PER_HOUR = 3_600_000_000


class BadJob(ValueError):
    """A job that can't be done, or makes no sense; the sentence says what to change."""


class Kind(StrEnum):
    """How a resource is sold."""

    SPOT = "spot"
    ON_DEMAND = "on_demand"


class Offer(msgspec.Struct, frozen=True, gc=False):
    """An instance that can be had now, or the one that the job runs on."""

    zone: str
    kind: Kind
    micros_per_hour: int


class Spell(msgspec.Struct, frozen=True, gc=False):
    """How long a zone has had spot capacity, or had none, as far as it was watched."""

    zone: str
    is_available: bool
    began_us: int


class Job(msgspec.Struct, frozen=True):
    """What must be done, and by when.

    `tick_us` is the longest time between two looks at what is on offer, `notice_us` the longest
    time for which a preemption can go unnoticed.
    """

    work_us: int
    deadline_us: int
    changeover_us: int
    tick_us: int
    notice_us: int = 0

    def __post_init__(self) -> None:
        if self.work_us <= 0:
            raise BadJob("the work must be longer than nothing")
        if self.tick_us <= 0:
            raise BadJob("the time between two looks must be longer than nothing")
        if self.changeover_us < 0 or self.notice_us < 0:
            raise BadJob("a changeover and a notice take some time or none, never less")
        if self.slack_us < self.changeover_us:
            short_us = self.changeover_us - self.slack_us
            raise BadJob(
                f"the deadline is {hours(short_us)} too early even for an on-demand instance at "
                "once; move it, or make work or changeover shorter"
            )

    @property
    def slack_us(self) -> int:
        return self.deadline_us - self.work_us

    @property
    def hop_us(self) -> int:
        """The slack that a move to spot takes at most, with the way from there to on-demand."""
        return 2 * self.changeover_us + self.notice_us

    @property
    def wait_us(self) -> int:
        """The slack that waiting for another look takes, with the way to on-demand after it."""
        return self.changeover_us + self.tick_us


class Observation(msgspec.Struct, frozen=True, gc=False):
    """What a policy may know: the job, where it runs, and what is on offer now.

    `spot` has the cheapest offer first. `spells` has one entry per zone. `work_left_us` is what
    is left of the work as it was estimated: it may run out before the job `is_done`.
    """

    at_us: int
    work_left_us: int
    running: Offer | None
    changeover_left_us: int
    on_demand: Offer
    spot: tuple[Offer, ...]
    spells: tuple[Spell, ...]
    is_done: bool = False


def hours(duration_us: int) -> str:
    """A duration for people: `1.25 h`."""
    return f"{duration_us / US_PER_HOUR:.4g} h"
