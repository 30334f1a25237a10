"""What each kind of GPU can do in a region: the shapes that can be part of a best plan.

A region is one scale-up domain, one rack, or everything, of one kind or of two (two kinds are far
from each other). In a region of a given span all replicas exchange gradients at the rate of that
span, of the slower kind if there are two. A replica that is alone is a region of its own sort,
without a span.

For the time of an iteration three numbers of a replica count: its speed, what it spends beyond its
micro-batches (overhead), and the least time it takes (one micro-batch). With several replicas,
shape A makes shape B needless if each B can be replaced by As on the very same GPUs, together at
least as fast and with no more overhead. A replica alone can't be replaced by several, because
these would have to exchange gradients; there A must be one, too, and end no later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import combinations
from typing import Generic, NamedTuple, TypeVar

from laissez.performance.training.gpus import Distance, Gpu
from laissez.performance.training.iteration import Shape, shapes
from laissez.performance.training.setup import Setup
from laissez.performance.training.stock import Counts, room_for

# A scale-up domain: the GPUs in it, or how many they are.
D = TypeVar("D")
Racks = tuple[tuple[D, ...], ...]

# All that throughput depends on: how many GPUs of each kind are in which domains and racks.
Signature = tuple[tuple[str, Counts], ...]


class SearchRegion(NamedTuple, Generic[D]):
    span: Distance | None
    racks: tuple[tuple[str, Racks[D]], ...]


def regions(stock: Mapping[str, Racks[D]], size: Callable[[D], int]) -> Iterator[SearchRegion[D]]:
    """Every region: large ones of one kind first, since a good plan that is found early spares the
    search elsewhere."""
    for kind, racks in stock.items():
        if len(racks) > 1:
            yield SearchRegion(Distance.FAR, ((kind, racks),))
        yield from (
            SearchRegion(Distance.RACK, ((kind, (rack,)),)) for rack in racks if len(rack) > 1
        )
        for rack in racks:
            for domain in rack:
                if size(domain) > 1:
                    yield SearchRegion(Distance.DOMAIN, ((kind, ((domain,),)),))
        yield SearchRegion(None, ((kind, racks),))
    for pair in combinations(stock.items(), 2):
        yield SearchRegion(Distance.FAR, pair)


class Candidate(NamedTuple):
    shape: Shape
    samples_per_s: float
    overhead_s: float
    least_s: float


class Option(NamedTuple):
    """A shape for one kind, and how many replicas of it there is room for."""

    kind: str
    candidate: Candidate
    room: int


class Options(NamedTuple):
    """What a kind can do. `leading` are those that do most in some time, if each has all the
    replicas that there is room for and least times don't count."""

    every: tuple[Option, ...]
    leading: tuple[Option, ...]


def options(setup: Setup, span: Distance | None, signature: Signature) -> list[Options]:
    """What each kind can do in a region."""
    link = None
    if span is not None:
        link = min(setup.gpu(kind).link_bytes_per_s(span) for kind, _ in signature)
    return [_options_of(setup, span, link, kind, counts) for kind, counts in signature]


@lru_cache(maxsize=16_384)
def _options_of(
    setup: Setup, span: Distance | None, link: float | None, kind: str, counts: Counts
) -> Options:
    """The same whatever the other kind has, so that few are made anew when a node comes or goes."""
    rooms: dict[tuple[int, int, Distance], int] = {}
    found = []
    for one in candidates(setup.model, setup.gpu(kind), link, setup.batch):
        shape = one.shape
        if span == Distance.DOMAIN and shape.span > Distance.DOMAIN:
            continue
        key = (shape.tensor_parallel, shape.stages, shape.span)
        if key not in rooms:
            rooms[key] = room_for(shape, counts)
        if rooms[key]:
            found.append(Option(kind, one, 1 if span is None else rooms[key]))
    return Options(tuple(found), _leading(found))


def _leading(every: list[Option]) -> tuple[Option, ...]:
    """In a time t, all replicas of an option do speed x (t - overhead) samples: a straight line.
    The upper envelope of these lines, fastest first."""
    lines = []
    for option in every:
        speed = option.room * option.candidate.samples_per_s
        lines.append((speed, -speed * option.candidate.overhead_s, option))
    lines.sort(key=lambda line: line[:2])
    envelope: list[tuple[float, float, Option]] = []
    for line in lines:
        while envelope and (
            envelope[-1][1] <= line[1]
            or (len(envelope) > 1 and _meet(envelope[-2], line) <= _meet(*envelope[-2:]))
        ):
            envelope.pop()
        envelope.append(line)
    return tuple(option for _, _, option in reversed(envelope))


def _meet(slow: tuple[float, float, Option], fast: tuple[float, float, Option]) -> float:
    return (slow[1] - fast[1]) / (fast[0] - slow[0])


@lru_cache(maxsize=1_024)
def candidates(model: str, gpu: Gpu, link: float | None, batch: int) -> tuple[Candidate, ...]:
    """For several replicas that exchange gradients at this rate, or for one alone if there is
    none; fewest GPUs first."""
    every = [candidate_of(shape, link) for shape in shapes(model, gpu)]
    return _alone(every, batch) if link is None else _together(every)


def candidate_of(shape: Shape, link_bytes_per_s: float | None) -> Candidate:
    overhead = shape.overhead_s(link_bytes_per_s)
    return Candidate(shape, shape.samples_per_s, overhead, overhead + shape.turn_s)


def _together(every: list[Candidate]) -> tuple[Candidate, ...]:
    every.sort(key=lambda one: (one.shape.gpus, -one.samples_per_s, one.overhead_s))
    kept: list[Candidate] = []
    for one in every:
        if not any(_replaces(other, one) for other in kept):
            kept = [other for other in kept if not _replaces(one, other)]
            kept.append(one)
    return tuple(kept)


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


def _alone(every: list[Candidate], batch: int) -> tuple[Candidate, ...]:
    def takes_s(one: Candidate) -> float:
        return max(batch / one.samples_per_s + one.overhead_s, one.least_s)

    every.sort(key=lambda one: (one.shape.gpus, takes_s(one)))
    kept: list[Candidate] = []
    for one in every:
        if not any(
            _fits_inside(other.shape, one.shape) and takes_s(other) <= takes_s(one)
            for other in kept
        ):
            kept.append(one)
    return tuple(kept)


def _fits_inside(small: Shape, large: Shape) -> bool:
    return (
        small.tensor_parallel <= large.tensor_parallel
        and small.stages <= large.stages
        and (small.stages == 1 or small.span >= large.span)
    )
