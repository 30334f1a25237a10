"""The planner: the best way to train with the GPUs at hand.

What it searches, and in this space its answer is exact:

- A replica is of one kind of GPU: tensor parallelism as profiled (1, 2, 4) within one scale-up
  domain, times 1, 2, 4 or 8 stages, all within one domain or all within one rack, with the best
  split of layers into stages, and a micro-batch as profiled.
- All replicas of a kind have the same shape; there are replicas of at most two kinds. They lie in
  one domain, in one rack, or anywhere (two kinds are always far from each other), and exchange
  gradients over the slowest link of that distance.
- Or there is one replica alone, which has nobody to exchange gradients with.

The best is the one with the greatest throughput; or, if a value per unit of pace is given, the one
with the greatest value of the useful pace less the costs of GPUs, which may be to use none. Pace
is throughput in units of one node of the first kind alone. Among equals the one with fewer GPUs,
then the first in the order in which GPUs were offered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from laissez.performance.training.gpus import Distance
from laissez.performance.training.options import Option, SearchRegion, Signature, options, regions
from laissez.performance.training.search import FoundPlan, fastest
from laissez.performance.training.setup import Setup
from laissez.performance.training.stock import (
    Domain,
    GpuGroup,
    Rack,
    costs_for,
    counts_of,
    slots_for,
    stock_of,
)
from laissez.performance.training.worth import Value, worthiest

PLANS_REMEMBERED = 1_024
PACES_REMEMBERED = 65_536


class Use(msgspec.Struct, frozen=True):
    """So many GPUs of what is at a place are used."""

    place: str
    kind: str
    count: int


class Replica(msgspec.Struct, frozen=True):
    """One replica: the places of its GPUs, stage by stage."""

    kind: str
    tensor_parallel: int
    layers_per_stage: tuple[int, ...]
    micro_batch: int
    places: tuple[str, ...]


class TrainingPlan(msgspec.Struct, frozen=True):
    """A way to train. Without replicas nothing can be trained, or nothing is worth its cost.

    `score` is what was maximised: throughput, or value less costs.
    """

    samples_per_s: float = 0.0
    pace: float = 0.0
    iteration_s: float | None = None
    score: float = 0.0
    cost: float = 0.0
    replicas: tuple[Replica, ...] = ()
    uses: tuple[Use, ...] = ()


def plan(
    setup: Setup,
    groups: Iterable[GpuGroup],
    *,
    value_per_unit: float | None = None,
    needed_pace: float | None = None,
) -> TrainingPlan:
    """The best plan for these GPUs; costs count if there is a value per unit of pace."""
    return planner_of(setup).plan(tuple(groups), value_per_unit, needed_pace)


@lru_cache(maxsize=256)
def planner_of(setup: Setup) -> Planner:
    """The planner of a setup; all who train alike share what it remembers."""
    return Planner(setup)


class Planner:
    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self._plans: dict[
            tuple[tuple[GpuGroup, ...], float | None, float | None], TrainingPlan
        ] = {}
        self._throughputs: dict[Signature, float] = {}
        self._regions: dict[tuple[Distance | None, Signature], FoundPlan | None] = {}
        self.reference_samples_per_s = self._reference()

    def plan(
        self,
        groups: tuple[GpuGroup, ...],
        value_per_unit: float | None = None,
        needed_pace: float | None = None,
    ) -> TrainingPlan:
        key = (groups, value_per_unit, needed_pace)
        known = self._plans.get(key)
        if known is None:
            known = self._planned(groups, value_per_unit, needed_pace)
            if len(self._plans) >= PLANS_REMEMBERED:
                self._plans.clear()
            self._plans[key] = known
        return known

    def pace(self, signature: Signature) -> float:
        """The pace of the best plan, by what it depends on alone."""
        return self._samples_per_s(signature) / self.reference_samples_per_s

    def _samples_per_s(self, signature: Signature) -> float:
        known = self._throughputs.get(signature)
        if known is None:
            every = (self._fastest_in(*region) for region in regions(dict(signature), int))
            quickest_s = min((found.iteration_s for found in every if found), default=None)
            known = self.setup.batch / quickest_s if quickest_s else 0.0
            if len(self._throughputs) >= PACES_REMEMBERED:
                self._throughputs.clear()
            self._throughputs[signature] = known
        return known

    def _reference(self) -> float:
        """Samples per second of a node of the first kind, alone; where one doesn't do, its part in
        the smallest group that does."""
        for count in (1, 2, 4, 8, 16, 32):
            samples_per_s = self._samples_per_s(((self.setup.kinds[0], ((count,),)),))
            if samples_per_s:
                return samples_per_s / count
        raise AssertionError("every profiled model fits on 32 GPUs")

    def _planned(
        self, groups: tuple[GpuGroup, ...], value_per_unit: float | None, needed_pace: float | None
    ) -> TrainingPlan:
        offered = stock_of(groups, self.setup)
        stock = {kind: offered[kind] for kind in self.setup.kinds if kind in offered}
        if value_per_unit is None:
            found, region = self._fastest(stock)
            if found:
                found = found._replace(score=self.setup.batch / found.iteration_s)
        else:
            value = Value(value_per_unit, self.reference_samples_per_s, needed_pace)
            found, region = self._worthiest(stock, value)
        if found is None or region is None:
            return TrainingPlan()
        return self._described(found, region)

    def _fastest(
        self, stock: dict[str, tuple[Rack, ...]]
    ) -> tuple[FoundPlan | None, SearchRegion[Domain] | None]:
        best, where = None, None
        for region in regions(stock, len):
            found = self._fastest_in(region.span, _signature(region))
            if found and found.beats(best):
                best, where = found, region
        return best, where

    def _fastest_in(self, span: Distance | None, signature: Signature) -> FoundPlan | None:
        """Regions that are alike up to the names of places are searched once."""
        alike = (span, signature)
        if alike not in self._regions:
            if len(self._regions) >= PACES_REMEMBERED:
                self._regions.clear()
            every = options(self.setup, span, signature)
            self._regions[alike] = fastest(every, self.setup.batch)
        return self._regions[alike]

    def _worthiest(
        self, stock: dict[str, tuple[Rack, ...]], value: Value
    ) -> tuple[FoundPlan | None, SearchRegion[Domain] | None]:
        # To use nothing is worth 0.
        best, where = FoundPlan(0.0, float("inf"), ()), None
        for region in regions(stock, len):
            signature = _signature(region)
            quickest = self._fastest_in(region.span, signature)
            if quickest is None:
                continue
            every = options(self.setup, region.span, signature)
            costs = _Costs(region)
            found = worthiest(
                every, self.setup.batch, value, costs.of, costs.cheapest, quickest, best
            )
            if found is not best:
                best, where = found, region
        return best, where

    def _described(self, found: FoundPlan, region: SearchRegion[Domain]) -> TrainingPlan:
        racks = dict(region.racks)
        samples_per_s = self.setup.batch / found.iteration_s
        cost = 0.0
        replicas = []
        for option, count in found.choices:
            shape = option.candidate.shape
            for slot in slots_for(shape, racks[option.kind])[:count]:
                cost += slot.cost
                replicas.append(
                    Replica(
                        kind=option.kind,
                        tensor_parallel=shape.tensor_parallel,
                        layers_per_stage=shape.layers_per_stage,
                        micro_batch=shape.micro_batch,
                        places=tuple(unit.place for unit in slot.units),
                    )
                )
        counts = Counter((place, one.kind) for one in replicas for place in one.places)
        return TrainingPlan(
            samples_per_s=samples_per_s,
            pace=samples_per_s / self.reference_samples_per_s,
            iteration_s=found.iteration_s,
            score=found.score,
            cost=cost,
            replicas=tuple(replicas),
            uses=tuple(Use(place, kind, count) for (place, kind), count in counts.items()),
        )


def _signature(region: SearchRegion[Domain]) -> Signature:
    return tuple((kind, counts_of(racks)) for kind, racks in region.racks)


class _Costs:
    """What replicas cost in a region; shapes that take the same GPUs cost the same."""

    def __init__(self, region: SearchRegion[Domain]) -> None:
        self._racks = dict(region.racks)
        self._known: dict[tuple[str, int, int, Distance], list[float]] = {}
        self.cheapest = [
            min(domain[0].cost for rack in racks for domain in rack) for _, racks in region.racks
        ]

    def of(self, option: Option) -> list[float]:
        shape = option.candidate.shape
        key = (option.kind, shape.tensor_parallel, shape.stages, shape.span)
        if key not in self._known:
            self._known[key] = costs_for(shape, self._racks[option.kind])
        return self._known[key]
