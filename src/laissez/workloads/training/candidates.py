"""The shapes that can be part of a best plan, and nothing else.

For the time of an iteration three numbers of a replica count: its speed, what it spends beyond its
micro-batches (overhead), and the least time it takes (one micro-batch). With several replicas,
shape A makes shape B needless if each B can be replaced by As on the very same GPUs, together at
least as fast and with no more overhead. A replica alone can't be replaced by several, because
these would have to exchange gradients; there A must be one, too, and end no later.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from laissez.workloads.training.gpus import Gpu
from laissez.workloads.training.iteration import Shape, shapes


class Candidate(NamedTuple):
    shape: Shape
    samples_per_s: float
    overhead_s: float
    least_s: float


@lru_cache(maxsize=1_024)
def candidates(model: str, gpu: Gpu, link_bytes_per_s: float) -> tuple[Candidate, ...]:
    """For several replicas that exchange gradients at this rate; fewest GPUs first."""
    every = [_candidate(shape, link_bytes_per_s) for shape in shapes(model, gpu)]
    every.sort(key=lambda one: (one.shape.gpus, -one.samples_per_s, one.overhead_s))
    kept: list[Candidate] = []
    for one in every:
        if not any(_replaces(other, one) for other in kept):
            kept = [other for other in kept if not _replaces(one, other)]
            kept.append(one)
    return tuple(kept)


@lru_cache(maxsize=1_024)
def lone_candidates(model: str, gpu: Gpu, batch: int) -> tuple[Candidate, ...]:
    """For a replica that is the only one; fewest GPUs first."""
    every = [_candidate(shape, None) for shape in shapes(model, gpu)]
    every.sort(key=lambda one: (one.shape.gpus, _alone_s(one, batch)))
    kept: list[Candidate] = []
    for one in every:
        if not any(
            _fits_inside(other.shape, one.shape) and _alone_s(other, batch) <= _alone_s(one, batch)
            for other in kept
        ):
            kept.append(one)
    return tuple(kept)


def _candidate(shape: Shape, link: float | None) -> Candidate:
    overhead = shape.overhead_s(link)
    return Candidate(shape, shape.samples_per_s, overhead, overhead + shape.turn_s)


def _alone_s(one: Candidate, batch: int) -> float:
    return max(batch / one.samples_per_s + one.overhead_s, one.least_s)


def _fits_inside(small: Shape, large: Shape) -> bool:
    return (
        small.tensor_parallel <= large.tensor_parallel
        and small.stages <= large.stages
        and (small.stages == 1 or small.span >= large.span)
    )


def _replaces(one: Candidate, other: Candidate) -> bool:
    copies, rest = divmod(other.shape.gpus, one.shape.gpus)
    return (
        rest == 0
        and other.shape.tensor_parallel % one.shape.tensor_parallel == 0
        and (one.shape.stages == 1 or one.shape.span >= other.shape.span)
        and copies * one.samples_per_s >= other.samples_per_s
        and one.overhead_s <= other.overhead_s
        and one.least_s <= other.least_s
    )
