"""Policies that know the future, to compare with: no user has one.

* Omniscient follows the cheapest course there is, for it knows all that is to come.
* With slices, it knows only what comes until the slice ends. It then takes the course with the
  lowest average cost of work among those that do the slice's share of the work, or as much as can
  be done, and can still keep the deadline afterwards whatever comes.
* Uniform progress with an oracle knows how long each offer will last, and moves to one only if it
  lasts long enough to earn the changeover back. A time `l` on spot costs `spot*l` and does work
  that on-demand would do for `od*(l - d)`, so it pays from `l = od*d / (od - spot)` on. Who comes
  from on-demand pays another `od*d` for the way back: twice that.

Who follows a course compares its work with what the course says. If it is behind, because work or
changeovers take longer than was told, or if the spot instance isn't there, the course is off, and
the rules that all policies share decide, with on-demand as the only choice. Since a course may use
up all slack, the job can then be late by the errors and one changeover.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import msgspec
import numpy as np

from laissez.deadline.classic import UniformProgress
from laissez.deadline.job import BadJob, Job, Kind, Observation, Offer
from laissez.deadline.omniscient import (
    ON_DEMAND,
    Courses,
    StretchEnds,
    StretchStart,
    best_plan,
    follow,
)
from laissez.deadline.policy import Policy
from laissez.deadline.world import Future


class Course(msgspec.Struct, frozen=True):
    """Where to run from a tick on, and how much work is left before each of these ticks."""

    first: int
    kinds: tuple[Kind | None, ...]
    work_left_us: tuple[int, ...]


class FollowsCourse(Policy):
    """Follows a course, and makes one whenever what it knows ends."""

    keeps_spot = False

    def __init__(
        self,
        job: Job,
        future: Future,
        spot_micros_per_hour: int,
        on_demand_micros_per_hour: int,
    ) -> None:
        super().__init__(job)
        self._future = future
        self._spot_micros_per_hour = spot_micros_per_hour
        self._on_demand_micros_per_hour = on_demand_micros_per_hour
        self._ticks = -(-job.deadline_us // job.tick_us)

    def decide(self, seen: Observation) -> Offer | None:
        tick = seen.at_us // self.job.tick_us
        if seen.is_done or tick >= self._ticks:
            return super().decide(seen)
        course = self._course(seen, tick)
        at = tick - course.first
        if at >= len(course.kinds) or not 0 < seen.work_left_us <= course.work_left_us[at]:
            return super().decide(seen)
        kind = course.kinds[at]
        if kind is None:
            return None
        if kind is Kind.ON_DEMAND:
            return seen.on_demand
        zone = self._future.zones[0].name
        offer = next((offer for offer in seen.spot if offer.zone == zone), None)
        return super().decide(seen) if offer is None else offer

    def choose(self, seen: Observation) -> Offer | None:
        return seen.on_demand

    @abstractmethod
    def _course(self, seen: Observation, tick: int) -> Course:
        """The course to follow at a tick."""

    def _course_of(
        self, first: int, standing: StretchStart, kinds: Sequence[Kind | None]
    ) -> Course:
        replay = follow(
            self.job,
            standing,
            kinds,
            self._spot_micros_per_hour,
            self._on_demand_micros_per_hour,
        )
        return Course(first, tuple(kinds[: len(replay.work_left_us) - 1]), replay.work_left_us)


class Omniscient(FollowsCourse):
    """The cheapest course there is, in the first zone."""

    _whole: Course | None = None

    def _course(self, seen: Observation, tick: int) -> Course:
        if self._whole is None:
            plan = best_plan(
                self.job,
                self._future.is_available(self._ticks),
                self._spot_micros_per_hour,
                self._on_demand_micros_per_hour,
            )
            standing = StretchStart(self.job.work_us, self.job.slack_us)
            self._whole = self._course_of(0, standing, plan.kinds)
        return self._whole


class LookaheadOmniscient(FollowsCourse):
    """The cheapest work in each of some slices, for somebody who sees to the end of the slice.

    What is done early counts for later slices. If nothing need be done, it idles unless work is
    cheaper than on on-demand. In a slice that is shorter than the changeover nothing can be done,
    so it only waits there, until the safety net catches it.
    """

    def __init__(
        self,
        job: Job,
        future: Future,
        spot_micros_per_hour: int,
        on_demand_micros_per_hour: int,
        *,
        slices: int,
    ) -> None:
        super().__init__(job, future, spot_micros_per_hour, on_demand_micros_per_hour)
        if slices < 1:
            raise BadJob("the time can be cut into one slice or more")
        self._slices = slices
        self._known: tuple[int, Course] | None = None

    def _course(self, seen: Observation, tick: int) -> Course:
        number = tick * self._slices // self._ticks
        if self._known is None or self._known[0] != number or tick < self._known[1].first:
            self._known = (number, self._look_ahead(seen, tick, number))
        return self._known[1]

    def _look_ahead(self, seen: Observation, tick: int, number: int) -> Course:
        beyond = -(-(number + 1) * self._ticks // self._slices)
        standing = StretchStart(
            seen.work_left_us,
            self.slack_us(seen) + seen.changeover_left_us,
            None if seen.running is None else seen.running.kind,
            seen.changeover_left_us,
        )
        if seen.work_left_us <= 0 or standing.slack_us < 0:
            return Course(tick, (), ())
        courses = Courses(
            self.job,
            standing,
            self._future.is_available(beyond)[tick:],
            self._spot_micros_per_hour,
            self._on_demand_micros_per_hour,
        )
        share_us = -(-(number + 1) * self.job.work_us // self._slices)
        required_us = share_us - (self.job.work_us - seen.work_left_us)
        end = self._best_end(courses.ends, required_us)
        return self._course_of(tick, standing, () if end is None else courses.kinds(end))

    def _best_end(self, ends: StretchEnds, required_us: int) -> int | None:
        """The lowest average cost among the ends that do enough and are safe.

        At the same average, more is better than less. Idling counts as on-demand's price, and is
        better than work at that price.
        """
        way_us = np.where(ends.modes == ON_DEMAND, 0, self.job.changeover_us)
        safe = np.flatnonzero(ends.is_done | (ends.slack_us >= way_us))
        if not safe.size:
            return None
        progress_us = ends.progress_us[safe]
        # For comparison only, so floats will do; to the micro-dollar, so that equals are equal.
        charges = ends.charges[safe].astype(float)
        average = np.full(len(safe), np.inf)
        np.divide(charges, progress_us, out=average, where=progress_us > 0)
        is_idle = (progress_us <= 0) & (charges == 0)
        average[is_idle] = self._on_demand_micros_per_hour
        average = np.rint(average)
        does_enough = progress_us >= min(required_us, int(progress_us.max()))
        order = np.lexsort((charges, -progress_us, ~is_idle, average, ~does_enough))
        return int(safe[order[0]])


class UniformProgressOracle(UniformProgress):
    """Uniform progress without hysteresis, which passes by what won't last."""

    def __init__(self, job: Job, future: Future) -> None:
        super().__init__(job, hysteresis=False)
        self._future = future

    def choose(self, seen: Observation) -> Offer | None:
        ways = 1 if seen.running is None else 2
        dear = seen.on_demand.micros_per_hour
        lasting = [
            (lifetime_us, offer)
            for offer in seen.spot
            if (lifetime_us := self._future.lifetime_us(offer.zone, seen.at_us))
            * (dear - offer.micros_per_hour)
            > ways * dear * self.job.changeover_us
        ]
        lasting.sort(key=lambda pair: -pair[0])
        return super().choose(
            msgspec.structs.replace(seen, spot=tuple(offer for _, offer in lasting))
        )
