"""The interface of all policies, and the rules that they share.

A policy belongs to one job and answers one question, whenever it is asked: given what it sees,
idle (None) or which offer. Three rules come before its own choice, and a fourth for estimates:

* thrifty: idle when done;
* exploitation: stay on a spot instance until it is preempted, for nothing cheaper can come;
* safety net: idle and too little slack left, go to on-demand; there it stays, because slack never
  grows and a policy that leaves on-demand must have as much (`may_hop`);
* overrun: when the estimated work is done and the job is not, stay where it runs, or go to
  on-demand.

A policy remembers nothing between two questions: what it needs to know is in the observation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from laissez.deadline.job import Job, Kind, Observation, Offer


class Policy(ABC):
    keeps_spot: ClassVar[bool] = True
    """It follows the rule of exploitation: nobody needs to ask it while the job is on spot."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.net_us = job.hop_us + job.tick_us

    def decide(self, seen: Observation) -> Offer | None:
        running = seen.running
        if seen.is_done:
            return None
        if running is not None and running.kind is Kind.SPOT:
            return running
        if seen.work_left_us <= 0:
            return running or seen.on_demand
        if running is None and self.slack_us(seen) < self.net_us:
            return seen.on_demand
        return self.choose(seen)

    @abstractmethod
    def choose(self, seen: Observation) -> Offer | None:
        """The policy's own choice: the job is idle or on on-demand, and there is work left."""

    def slack_us(self, seen: Observation) -> int:
        """What may still be wasted."""
        return self.job.deadline_us - seen.at_us - seen.work_left_us - seen.changeover_left_us

    def may_hop(self, seen: Observation) -> bool:
        """There is spot capacity, and the deadline bears a try."""
        return bool(seen.spot) and self.slack_us(seen) >= self.net_us
