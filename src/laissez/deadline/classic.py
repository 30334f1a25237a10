"""The policies of the literature that need no knowledge of the future.

From "Can't Be Late" (Wu et al., NSDI 2024): greedy, time-sliced, uniform progress without and with
hysteresis, and the two randomised policies of its competitive analysis. Progress is compared in
integers: behind is `done < t * C0 / R0`, written without a division.
"""

from __future__ import annotations

import random

from laissez.deadline.job import BadJob, Job, Observation, Offer
from laissez.deadline.policy import Policy


class OnDemandOnly(Policy):
    """On-demand from the first moment to the last."""

    def choose(self, seen: Observation) -> Offer | None:
        return seen.on_demand


class Greedy(Policy):
    """Spot whenever there is some, idle otherwise, until the safety net catches it."""

    def choose(self, seen: Observation) -> Offer | None:
        if seen.running is None and seen.spot:
            return seen.spot[0]
        return seen.running


class Sliced(Policy):
    """Greedy in each of some slices, with its share of the work; what is done early counts.

    Nothing needs to be done before `begin_us`; then the lead is done on on-demand, and then the
    slices begin. One that rests leaves on-demand for idle too when its share is done.
    """

    def __init__(
        self,
        job: Job,
        *,
        slices: int,
        length_us: int,
        share_us: int,
        begin_us: int = 0,
        lead_us: int = 0,
        rests: bool = False,
    ) -> None:
        super().__init__(job)
        self._slices = slices
        self._length_us = max(1, length_us)
        self._share_us = share_us
        self._begin_us = begin_us
        self._lead_us = lead_us
        self._rests = rests

    def choose(self, seen: Observation) -> Offer | None:
        done_us = self.job.work_us - seen.work_left_us
        if seen.at_us >= self._begin_us and done_us < self._lead_us:
            return seen.on_demand
        first_us = self._begin_us + self._lead_us
        number = (seen.at_us - first_us) // self._length_us + 1
        number = min(max(number, 1), self._slices)
        missing_us = self._lead_us + number * self._share_us - done_us
        ends_us = first_us + number * self._length_us
        if missing_us > 0 and ends_us - seen.at_us < missing_us + self.net_us:
            return seen.running or seen.on_demand
        if self.may_hop(seen):
            return seen.spot[0]
        may_rest = self._rests and self.slack_us(seen) >= self.net_us
        return None if may_rest else seen.running


def time_sliced(job: Job, slices: int) -> Sliced:
    """Even slices over the whole time."""
    return Sliced(
        job,
        slices=slices,
        length_us=job.deadline_us // slices,
        share_us=-(-job.work_us // slices),
    )


def randomised_shifted_greedy(job: Job, slices: int, seed: int) -> Sliced:
    """Even slices, or by the toss of a coin the same with one share of work done ahead.

    If the deadline is at least twice the work, the two never need on-demand at the same time, so
    that whatever spot there is serves one of them: the expected cost is at most
    `(k+1)/2 + (k-1)/(2n)` times the best (Wu et al., theorem 2, for a changeover that is short
    against a slice). Two things must be read into it, or it does not hold: a share that is done
    ends the use of on-demand until the next slice, and the slices cover only the last `2C` of a
    longer time. With slices over all of `R = 3C` and no spot before `2C`, both would have done two
    thirds of the work on on-demand when it comes.
    """
    if job.deadline_us < 2 * job.work_us:
        raise BadJob(
            "randomised shifted greedy needs a deadline of at least twice the work; take its "
            "modified form"
        )
    return shifted_greedy(job, slices, is_shifted=_toss(seed))


def modified_randomised_shifted_greedy(job: Job, slices: int, seed: int) -> Sliced:
    """On-demand until the time left is twice the work left, then randomised shifted greedy.

    With `a = R/C - 1 <= 1` the expected cost is at most `k - a(k-1)(n-1)/(2n)` times the best
    (Wu et al., corollary 1).
    """
    return shifted_greedy(job, slices, is_shifted=_toss(seed))


def shifted_greedy(job: Job, slices: int, *, is_shifted: bool) -> Sliced:
    """One of the two that a coin decides between: slices of the last `2C` of the time."""
    begin_us = max(0, job.deadline_us - 2 * job.work_us)
    lead_us = max(0, 2 * job.work_us - job.deadline_us)
    share_us = -(-(job.work_us - lead_us) // slices)
    return Sliced(
        job,
        slices=slices - is_shifted,
        length_us=(job.deadline_us - begin_us - lead_us) // slices,
        share_us=share_us,
        begin_us=begin_us,
        lead_us=lead_us + is_shifted * share_us,
        rests=True,
    )


def _toss(seed: int) -> bool:
    return random.Random(seed).random() < 0.5


class UniformProgress(Policy):
    """Work as evenly as time passes: idle and behind, go to on-demand.

    With hysteresis it stays on on-demand until it is ahead of where it should be `2d` later, so
    that a short spot instance doesn't throw it back at once. Without, it takes any spot instance.
    """

    def __init__(self, job: Job, *, hysteresis: bool = True) -> None:
        super().__init__(job)
        self._ahead_us = 2 * job.changeover_us if hysteresis else None

    def choose(self, seen: Observation) -> Offer | None:
        if seen.running is None:
            if seen.spot:
                return seen.spot[0]
            return seen.on_demand if self._is_behind(seen, seen.at_us) else None
        is_steady = self._ahead_us is None or not self._is_behind(seen, seen.at_us + self._ahead_us)
        return seen.spot[0] if is_steady and self.may_hop(seen) else seen.running

    def _is_behind(self, seen: Observation, at_us: int) -> bool:
        job = self.job
        return (job.work_us - seen.work_left_us) * job.deadline_us < at_us * job.work_us
