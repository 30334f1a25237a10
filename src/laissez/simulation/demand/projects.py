"""What tenants want done: the same object under every contract.

A project arrives, has its work done as far as it gets nodes, and ends: an inference service with
its trace, a job with its deadline. Its performance is what it has got done by then: requests within
their objective, or the share of a job's work. Beyond its end nothing counts.

What a project is worth is given as an amount for all of it. A unit of utility is worth that amount
over all the units that there are: half of the requests in time, or half of the work done, are worth
half of it. The same amount is the tenant's budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

import msgspec

from laissez.adapters.adapter import Adapter
from laissez.adapters.deadline import deadline_adapter
from laissez.adapters.econ import EconAdapter
from laissez.adapters.gang import GangAdapter
from laissez.adapters.intent import TradingTerms
from laissez.adapters.pricing import Pricing
from laissez.adapters.training import TRAINING_PRICING, TrainingAdapter
from laissez.performance.application import US_PER_S, Application
from laissez.performance.batch import BatchJob, Work
from laissez.performance.inference import InferenceService, InferenceSpec, LoadTrace
from laissez.performance.rigid import RigidJob, RigidSpec
from laissez.performance.training import TrainingJob, TrainingSpec
from laissez.performance.training.planner import planner_of
from laissez.simulation.demand.oblivious import ObliviousJob

SECONDS_PER_HOUR = 3_600
US_PER_HOUR = SECONDS_PER_HOUR * US_PER_S

Class = Literal["inference", "training", "batch", "rigid"]
Bidding = Literal["aware", "anywhere", "oblivious"]
"""Training that knows of distances bids for nodes near those that it has; or for any, though it
makes the best of where they are; or it does not know of distances at all."""


class GangSize(msgspec.Struct, frozen=True):
    """So many nodes at once, of one domain: a scope whose path has so many names."""

    count: int
    within: int


class Labour(Protocol):
    """The work of a project, of one class."""

    @property
    def may_preempt(self) -> bool:
        """Whether a contract that knows classes lets it take nodes from others."""

    @property
    def is_preemptible(self) -> bool:
        """Whether such a contract may take its nodes for those."""

    @property
    def gang(self) -> GangSize | None:
        """What it needs at once; None if it takes nodes one by one."""

    def begin(self, at_us: int) -> Application:
        """A new application that does this work."""

    def adapter(self, app: Any, terms: TradingTerms, worth_micros: int) -> Adapter:
        """Who trades for it, if all of it is worth so much."""

    def performance(self, app: Any) -> float:
        """What is done so far."""


class Elastic(msgspec.Struct, frozen=True):
    """Labour of whoever does with any number of nodes as much as they allow."""

    @property
    def gang(self) -> None:
        return None


class Serving(Elastic, frozen=True, tag="inference"):
    """An inference service; the instants of its trace are those of the simulation."""

    spec: InferenceSpec
    trace: LoadTrace
    pricing: Pricing = Pricing()
    may_preempt: bool = True
    is_preemptible: bool = False

    @property
    def requests(self) -> float:
        ends = [step[0] for step in self.trace.steps[1:]] + [self.trace.end_us or 0]
        return sum(
            step[1] * (end_us - step[0]) / US_PER_S
            for step, end_us in zip(self.trace.steps, ends, strict=True)
        )

    def begin(self, at_us: int) -> InferenceService:
        return InferenceService(self.spec, self.trace)

    def adapter(self, app: InferenceService, terms: TradingTerms, worth_micros: int) -> Adapter:
        """A unit is a request a second, for an hour."""
        per_request = worth_micros / max(1.0, self.requests)
        return EconAdapter(terms, per_request * SECONDS_PER_HOUR, self.pricing)

    def performance(self, app: InferenceService) -> float:
        return app.tally.within


class Training(Elastic, frozen=True, tag="training"):
    """A training job."""

    spec: TrainingSpec
    pricing: Pricing = TRAINING_PRICING
    bidding: Bidding = "aware"
    may_preempt: bool = False
    is_preemptible: bool = True

    @property
    def hours(self) -> float:
        """On one node of the first kind alone."""
        per_s = planner_of(self.spec.setup).reference_samples_per_s
        return self.spec.samples / per_s / SECONDS_PER_HOUR

    def begin(self, at_us: int) -> TrainingJob:
        job = ObliviousJob if self.bidding == "oblivious" else TrainingJob
        return job(self.spec, at_us)

    def adapter(self, app: TrainingJob, terms: TradingTerms, worth_micros: int) -> Adapter:
        """A unit is an hour of work an hour."""
        value = worth_micros / self.hours
        return TrainingAdapter(terms, value, self.pricing, looks_near=self.bidding == "aware")

    def performance(self, app: TrainingJob) -> float:
        return min(1.0, app.samples_done / self.spec.samples)


class Batch(Elastic, frozen=True, tag="batch"):
    """A batch job on one node."""

    hours: float
    speeds: Mapping[str, float]
    deadline_us: int
    cold_start_s: float = 480.0
    checkpoint_every_s: float = 600.0
    pricing: Pricing = Pricing()
    may_preempt: bool = False
    is_preemptible: bool = False

    def begin(self, at_us: int) -> BatchJob:
        return BatchJob(
            Work(self.hours, self.speeds),
            deadline_us=self.deadline_us,
            start_us=at_us,
            cold_start_s=self.cold_start_s,
            checkpoint_every_s=self.checkpoint_every_s,
        )

    def adapter(self, app: BatchJob, terms: TradingTerms, worth_micros: int) -> Adapter:
        return deadline_adapter(
            app,
            terms,
            micros_per_unit=worth_micros / self.hours,
            checkpoint_every_us=round(self.checkpoint_every_s * US_PER_S),
            released_us=app.now_us,
            pricing=self.pricing,
        )

    def performance(self, app: BatchJob) -> float:
        return app.done_share


class Rigid(msgspec.Struct, frozen=True, tag="rigid"):
    """A training job of a fixed size: so many nodes of one domain, or it does not run. If it has
    waited longer than its patience it counts as starved, also if it starts after that."""

    spec: RigidSpec
    patience_us: int | None = None
    pricing: Pricing = Pricing()
    may_preempt: bool = False
    is_preemptible: bool = True

    @property
    def gang(self) -> GangSize:
        return GangSize(self.spec.count, self.spec.within)

    @property
    def node_hours(self) -> float:
        """All of its work, in hours of nodes of the first kind."""
        return self.spec.work.hours * self.spec.count

    def begin(self, at_us: int) -> RigidJob:
        return RigidJob(self.spec, at_us)

    def adapter(self, app: RigidJob, terms: TradingTerms, worth_micros: int) -> Adapter:
        """A unit is an hour of a whole crew."""
        return GangAdapter(terms, worth_micros / self.spec.work.hours, self.pricing)

    def performance(self, app: RigidJob) -> float:
        return app.done_share


class Project(msgspec.Struct, frozen=True):
    """Who wants what done, from when to when."""

    name: str
    arrives_us: int
    ends_us: int
    labour: Serving | Training | Batch | Rigid
    scopes: tuple[str, ...] = ("h100", "a100")

    @property
    def kind(self) -> Class:
        """Of its work, as a scenario calls it."""
        match self.labour:
            case Serving():
                return "inference"
            case Training():
                return "training"
            case Rigid():
                return "rigid"
        return "batch"
