"""The policies by name, with what each needs to be made for a job.

What needs the future is for comparison: it is made only where somebody can tell it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from laissez.deadline.classic import (
    Greedy,
    OnDemandOnly,
    UniformProgress,
    modified_randomised_shifted_greedy,
    randomised_shifted_greedy,
    time_sliced,
)
from laissez.deadline.foresight import LookaheadOmniscient, Omniscient, UniformProgressOracle
from laissez.deadline.job import Job
from laissez.deadline.lindy import Lindy
from laissez.deadline.policy import Policy
from laissez.deadline.world import Future

SLICES = 8


class Brief(msgspec.Struct, frozen=True):
    """What a policy is made from."""

    job: Job
    spot_micros_per_hour: int
    on_demand_micros_per_hour: int
    seed: int = 0
    future: Future | None = None


class Known(msgspec.Struct, frozen=True):
    """A policy that can be asked for by name."""

    label: str
    make: Callable[[Brief], Policy]
    sees_future: bool = False


POLICIES: dict[str, Known] = {
    "on_demand": Known("On-demand", lambda brief: OnDemandOnly(brief.job)),
    "greedy": Known("Greedy", lambda brief: Greedy(brief.job)),
    "time_sliced": Known("Time-sliced", lambda brief: time_sliced(brief.job, SLICES)),
    "uniform_progress_plain": Known(
        "UP, plain", lambda brief: UniformProgress(brief.job, hysteresis=False)
    ),
    "uniform_progress": Known("Uniform progress", lambda brief: UniformProgress(brief.job)),
    "lindy": Known(
        "Lindy",
        lambda brief: Lindy(brief.job, brief.spot_micros_per_hour, brief.on_demand_micros_per_hour),
    ),
    "shifted_greedy": Known(
        "Shifted greedy",
        lambda brief: randomised_shifted_greedy(brief.job, SLICES, brief.seed),
    ),
    "modified_shifted_greedy": Known(
        "Shifted greedy, modified",
        lambda brief: modified_randomised_shifted_greedy(brief.job, SLICES, brief.seed),
    ),
    "uniform_progress_oracle": Known(
        "UP, lifetime known",
        lambda brief: UniformProgressOracle(brief.job, _future(brief)),
        sees_future=True,
    ),
    "omniscient_slices": Known(
        f"Omniscient, {SLICES} slices",
        lambda brief: LookaheadOmniscient(
            brief.job,
            _future(brief),
            brief.spot_micros_per_hour,
            brief.on_demand_micros_per_hour,
            slices=SLICES,
        ),
        sees_future=True,
    ),
    "omniscient": Known(
        "Omniscient",
        lambda brief: Omniscient(
            brief.job,
            _future(brief),
            brief.spot_micros_per_hour,
            brief.on_demand_micros_per_hour,
        ),
        sees_future=True,
    ),
}


class UnknownPolicy(ValueError):
    """No policy has this name; the sentence lists those there are."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no policy {name!r}; take one of {', '.join(POLICIES)}")


def make(name: str, brief: Brief) -> Policy:
    """The policy of that name, for this job."""
    known = POLICIES.get(name)
    if known is None:
        raise UnknownPolicy(name)
    return known.make(brief)


def _future(brief: Brief) -> Future:
    if brief.future is None:
        raise ValueError("this policy compares with a known future, and none is given")
    return brief.future
