"""What GPUs there are to plan with, by kind, rack and scale-up domain, and how replicas fit in.

A replica needs tensor-parallel GPUs from one domain, as many times as it has stages, all in one
domain or in one rack. The cheapest j replicas of a shape are found greedily: within a domain
cheapest GPUs first, so the next replica from the same place never costs less than the one before,
and places only have to be merged. Among equals the order is that in which GPUs were offered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

import msgspec

from laissez.model.paths import tree_of
from laissez.performance.training.gpus import Distance
from laissez.performance.training.iteration import Shape
from laissez.performance.training.setup import Setup


class GpuGroup(msgspec.Struct, frozen=True):
    """GPUs to be had at one place; `cost` is per GPU, in any unit."""

    place: str
    count: int = 1
    cost: float = 0.0

    @property
    def kind(self) -> str:
        return tree_of(self.place)


class StockedGpu(NamedTuple):
    """One GPU."""

    cost: float
    order: int
    place: str


Domain = tuple[StockedGpu, ...]
Rack = tuple[Domain, ...]
# GPUs in each domain of each rack, largest first: all that speed depends on.
Counts = tuple[tuple[int, ...], ...]


class Slot(NamedTuple):
    """Room for one replica."""

    cost: float
    units: tuple[StockedGpu, ...]


def stock_of(groups: Iterable[GpuGroup], setup: Setup) -> dict[str, tuple[Rack, ...]]:
    """The racks of each kind."""
    kinds: dict[str, dict[str, dict[str, list[StockedGpu]]]] = {}
    order = 0
    for group in groups:
        spot = setup.spot(group.place)
        for _ in range(group.count):
            racks = kinds.setdefault(spot.kind, {})
            alone = f"{group.place} #{order}"
            domains = racks.setdefault(spot.rack or alone, {})
            domains.setdefault(spot.domain or alone, []).append(
                StockedGpu(group.cost, order, group.place)
            )
            order += 1
    return {
        kind: tuple(
            tuple(tuple(sorted(units)) for units in domains.values()) for domains in racks.values()
        )
        for kind, racks in kinds.items()
    }


def counts_of(racks: Iterable[Rack]) -> Counts:
    return canonical(tuple(len(domain) for domain in rack) for rack in racks)


def canonical(racks: Iterable[Iterable[int]]) -> Counts:
    """The same for all places that are alike up to their names."""
    return tuple(sorted((tuple(sorted(rack, reverse=True)) for rack in racks), reverse=True))


def room_for(shape: Shape, racks: Counts) -> int:
    """How many replicas fit."""
    if shape.stages == 1 or shape.span <= Distance.DOMAIN:
        size = shape.gpus
        return sum(count // size for rack in racks for count in rack)
    return sum(
        sum(count // shape.tensor_parallel for count in rack) // shape.stages for rack in racks
    )


def slots_for(shape: Shape, racks: Sequence[Rack]) -> list[Slot]:
    """Room for as many replicas as fit, cheapest first."""
    if shape.stages == 1 or shape.span <= Distance.DOMAIN:
        slots = [slot for rack in racks for domain in rack for slot in _slots(domain, shape.gpus)]
    else:
        slots = []
        for rack in racks:
            parts = [slot for domain in rack for slot in _slots(domain, shape.tensor_parallel)]
            parts.sort(key=_price)
            for first in range(0, len(parts) - shape.stages + 1, shape.stages):
                slots.append(_joined(parts[first : first + shape.stages]))
    slots.sort(key=_price)
    return slots


def costs_for(shape: Shape, racks: Sequence[Rack]) -> list[float]:
    """What the cheapest 0, 1, 2, ... replicas cost."""
    in_domain = shape.stages == 1 or shape.span <= Distance.DOMAIN
    size = shape.gpus if in_domain else shape.tensor_parallel
    costs: list[float] = []
    for rack in racks:
        parts = [cost for domain in rack for cost in _costs(domain, size)]
        if not in_domain:
            parts.sort()
            parts = _sums(parts, shape.stages)
        costs += parts
    return [0.0, *accumulate(sorted(costs))]


def _costs(domain: Domain, size: int) -> list[float]:
    count = len(domain) // size
    if domain[0].cost == domain[-1].cost:
        return [size * domain[0].cost] * count
    return _sums([unit.cost for unit in domain], size)


def _sums(costs: list[float], size: int) -> list[float]:
    return [sum(costs[first : first + size]) for first in range(0, len(costs) - size + 1, size)]


def _slots(domain: Domain, size: int) -> list[Slot]:
    starts = range(0, len(domain) - size + 1, size)
    chunks = (domain[start : start + size] for start in starts)
    return [Slot(sum(unit.cost for unit in chunk), chunk) for chunk in chunks]


def _joined(parts: Sequence[Slot]) -> Slot:
    return Slot(
        sum(part.cost for part in parts), tuple(unit for part in parts for unit in part.units)
    )


def _price(slot: Slot) -> tuple[float, int]:
    return slot.cost, slot.units[0].order
