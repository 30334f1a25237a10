"""Where replicas may lie together, and what options each kind of GPU has there.

A region is one scale-up domain, one rack, or everything, of one kind or of two (two kinds are far
from each other). In a region of a given span all replicas exchange gradients at the rate of that
span, of the slower kind if there are two. A replica that is alone is a region of its own sort,
without a span.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

from laissez.workloads.training.candidates import Candidate, candidates, lone_candidates
from laissez.workloads.training.gpus import Distance
from laissez.workloads.training.search import Option
from laissez.workloads.training.setup import Setup
from laissez.workloads.training.stock import Counts, Rack, counts_of, room_for

Racks = tuple[Rack, ...]


class Region(NamedTuple):
    span: Distance | None
    racks: tuple[tuple[str, Racks], ...]


def regions(stock: Mapping[str, Racks]) -> Iterator[Region]:
    """Every region: large ones of one kind first, since a good plan that is found early spares the
    search elsewhere."""
    for kind, racks in stock.items():
        if len(racks) > 1:
            yield Region(Distance.FAR, ((kind, racks),))
        yield from (Region(Distance.RACK, ((kind, (rack,)),)) for rack in racks if len(rack) > 1)
        for rack in racks:
            for domain in rack:
                if len(domain) > 1:
                    yield Region(Distance.DOMAIN, ((kind, ((domain,),)),))
        yield Region(None, ((kind, racks),))
    for pair in combinations(stock.items(), 2):
        yield Region(Distance.FAR, pair)


def counts_in(region: Region) -> tuple[tuple[str, Counts], ...]:
    """What the speed of a region depends on besides its span."""
    return tuple((kind, counts_of(racks)) for kind, racks in region.racks)


def options(setup: Setup, region: Region) -> list[list[Option]]:
    """What each kind can do there."""
    return [_options_of(setup, region, kind, racks) for kind, racks in region.racks]


def _options_of(setup: Setup, region: Region, kind: str, racks: Racks) -> list[Option]:
    counts = counts_of(racks)
    rooms: dict[tuple[int, int, Distance], int] = {}
    found = []
    for candidate in _candidates(setup, region, kind):
        shape = candidate.shape
        if region.span == Distance.DOMAIN and shape.span > Distance.DOMAIN:
            continue
        key = (shape.tensor_parallel, shape.stages, shape.span)
        if key not in rooms:
            rooms[key] = room_for(shape, counts)
        if rooms[key]:
            found.append(Option(kind, candidate, 1 if region.span is None else rooms[key]))
    return found


def _candidates(setup: Setup, region: Region, kind: str) -> tuple[Candidate, ...]:
    if region.span is None:
        return lone_candidates(setup.model, setup.gpu(kind), setup.batch)
    link = min(setup.gpu(other).link_bytes_per_s(region.span) for other, _ in region.racks)
    return candidates(setup.model, setup.gpu(kind), link)
