"""What the pace would be with nodes more or less, smoothed so that every node has its fair part.

A GPU often adds nothing alone: two that split a model's layers run only together. So its worth is
read off the least concave curve above the paces at hand: a node's part of the gain of the most
useful group around it. Of several nodes to come at one place none is worth more than the one
before it.

To come: the paces with the first 0, 1, 2, ... of those that are expected, then with 1, 2, 4 and 8
at the place in question. To go: the paces of all, of those that are left, and of these without 1,
2, 4 and 8 of the nodes nearest to the one in question, itself first; and nothing with none.

Nodes may be scopes: then the least favourable place under it is assumed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from laissez.workloads.training.placement import Spot, spot_of
from laissez.workloads.training.planner import Planner, Signature
from laissez.workloads.training.stock import canonical

GROUPS = (1, 2, 4, 8)
GPUS_PER_HOST = 8

_Point = tuple[int, float]


class Outlook:
    """From the nodes of one moment; remembers what it was asked."""

    def __init__(self, planner: Planner, nodes: Sequence[str], nodes_max: int) -> None:
        self._planner = planner
        self._levels = planner.setup.levels
        self._kinds = planner.setup.kinds
        self._nodes = tuple(nodes)
        self._room = nodes_max - len(nodes)
        self._ahead: dict[tuple[str, ...], float] = {}
        self._gains: dict[tuple[str, tuple[str, ...]], tuple[float, float]] = {}
        self._losses: dict[tuple[str, frozenset[str]], tuple[float, float]] = {}
        self.pace = self._pace(self._nodes)

    def with_more(self, coming: tuple[str, ...]) -> float:
        """The pace once nodes at these places have come, too."""
        if coming not in self._ahead:
            self._ahead[coming] = self._pace((*self._nodes, *coming))
        return self._ahead[coming]

    def gain(self, scope: str, coming: tuple[str, ...]) -> tuple[float, float]:
        """The smoothed pace before and after one more node somewhere under a scope."""
        key = (scope, coming)
        if key not in self._gains:
            self._gains[key] = self._gain(scope, coming)
        return self._gains[key]

    def loss(self, resource: str, gone: Collection[str]) -> tuple[float, float]:
        """The smoothed pace before and after the loss of a node, where others are gone already."""
        key = (resource, frozenset(gone))
        if key not in self._losses:
            self._losses[key] = self._loss(resource, key[1])
        return self._losses[key]

    def needed(self, kind: str, pace: float) -> int:
        """How many more nodes of a kind it takes to reach a pace, or as much of it as can be, if
        they come on hosts in the rack of those that are there."""
        if kind not in self._kinds or self._room <= 0:
            return 0
        places = self.near(kind, self._room)
        pace = min(pace, self.with_more(places))
        fewest, enough = 0, self._room
        while fewest < enough:
            middle = (fewest + enough) // 2
            if self.with_more(places[:middle]) >= pace:
                enough = middle
            else:
                fewest = middle + 1
        return enough

    def near(self, kind: str, count: int) -> tuple[str, ...]:
        """Places on hosts of their own, in the rack of the last node of this kind if there is
        one."""
        base = kind
        for node in self._nodes:
            spot = spot_of(node, self._levels)
            if spot.kind == kind:
                base = spot.rack or kind
        open_levels = len(self._levels) + 1 - len(base.split("/"))
        places = []
        for index in range(count):
            # In a new rack the levels above the host are new, but shared.
            names = ["+"] * open_levels
            if names:
                names[-1] = f"+{index // GPUS_PER_HOST}"
            places.append("/".join((base, *names, f"+{index}")))
        return tuple(places)

    # ------------------------------------------------------------------------------------------

    def _pace(self, nodes: Iterable[str]) -> float:
        return self._planner.pace(_signature(nodes, self._kinds, self._levels))

    def _gain(self, scope: str, coming: tuple[str, ...]) -> tuple[float, float]:
        expected = len(coming)
        if expected >= self._room or spot_of(scope, self._levels).kind not in self._kinds:
            pace = self.with_more(coming)
            return pace, pace
        points = [(count, self.with_more(coming[:count])) for count in range(expected + 1)]
        for more in GROUPS:
            if expected + more <= self._room:
                points.append((expected + more, self.with_more((*coming, *(scope,) * more))))
        before, after = _above(points, expected), _above(points, expected + 1)
        if coming and coming[-1] == scope:
            # A look from farther on sees groups farther on; it must not make this one dearer.
            lower, upper = self.gain(scope, coming[:-1])
            after = min(after, before + upper - lower)
        return before, after

    def _loss(self, resource: str, gone: frozenset[str]) -> tuple[float, float]:
        left = [node for node in self._nodes if node not in gone]
        pace = self._pace(left) if gone else self.pace
        if resource not in left:
            return pace, pace
        spot = spot_of(resource, self._levels)
        left.sort(key=lambda node: (node != resource, _apart(spot_of(node, self._levels), spot)))
        count = len(left)
        points = [(0, 0.0), (count, pace), (len(self._nodes), self.pace)]
        points += [(count - fewer, self._pace(left[fewer:])) for fewer in GROUPS if fewer < count]
        return _above(points, count), _above(points, count - 1)


def _signature(nodes: Iterable[str], kinds: tuple[str, ...], levels: tuple[str, ...]) -> Signature:
    counts: dict[str, dict[object, dict[object, int]]] = {}
    for index, node in enumerate(nodes):
        spot = spot_of(node, levels)
        domains = counts.setdefault(spot.kind, {}).setdefault(spot.rack or index, {})
        domain = spot.domain or index
        domains[domain] = domains.get(domain, 0) + 1
    return tuple(
        (kind, canonical(domains.values() for domains in counts[kind].values()))
        for kind in kinds
        if kind in counts
    )


def _apart(one: Spot, other: Spot) -> int:
    if one.kind != other.kind:
        return 3
    if one.rack is None or one.rack != other.rack:
        return 2
    return 0 if one.domain is not None and one.domain == other.domain else 1


def _above(points: Iterable[_Point], at: int) -> float:
    """The least concave curve that is above all points, at one place."""
    curve: list[_Point] = []
    for point in sorted(points):
        if curve and curve[-1][0] == point[0]:
            curve.pop()
        while len(curve) > 1 and _bends_up(curve[-2], curve[-1], point):
            curve.pop()
        curve.append(point)
    for (left, low), (right, high) in pairwise(curve):
        if left <= at <= right:
            return low + (high - low) * (at - left) / (right - left)
    return curve[-1][1]


def _bends_up(one: _Point, two: _Point, three: _Point) -> bool:
    return (two[1] - one[1]) * (three[0] - one[0]) <= (three[1] - one[1]) * (two[0] - one[0])
