"""What nodes to come and to go are worth, in pace, so that what is bought is not given back.

**What counts.** A job that runs goes on with its crew unless a greater pace is worth the time that
it takes to configure itself. So of nodes to come only a pace above a certain one counts, and below
it the crew's; and nodes that reach no such pace are worth nothing, since the job won't use them.

**Groups.** A GPU often adds nothing alone: two that split a model's layers run only together. So
the worth of a node to come is read off the least concave curve above the paces with the first 0,
1, 2, ... of those that are expected, and then with 1, 2, 4 and 8 at its place: it is the node's
part of the gain of the most useful group that it may become part of. Of several nodes to come at
one place none is worth more than the one before it. A kind is doubted where others of it did not
come in time: then a node counts for what it does alone.

**One curve.** A node that is held and does not work yet is worth exactly what it would be worth to
gain it, were it not there. So a node that was worth buying is worth keeping, for the same reason
and as long, and one that is given back is worth nothing to buy again, nor to reckon with.

**At work.** A node that works is worth its part in what is done: again by the least concave curve,
above the paces of all, of those that are left, of these without 1, 2, 4 and 8 of the nodes nearest
to the one in question, itself first, and nothing with none. If one of the crew is gone the job has
to configure itself anyway, and every pace counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from laissez.performance.training.paces import Paces

GROUPS = (1, 2, 4, 8)

_NONE: frozenset[str] = frozenset()
_Point = tuple[int, float]


class Footing(NamedTuple):
    """From what a job looks ahead: the nodes of its crew and their pace, what pace is worth a
    configuration, all nodes that work now or will once they are taken in, the kinds in doubt."""

    crew: frozenset[str] = _NONE
    pace: float = 0.0
    above: float = 0.0
    at_work: frozenset[str] = _NONE
    doubted: frozenset[str] = _NONE


class Outlook:
    """From one footing; remembers what it was asked."""

    def __init__(self, paces: Paces, nodes_max: int, footing: Footing) -> None:
        self.footing = footing
        self._paces = paces
        self._nodes_max = nodes_max
        self._gains: dict[tuple[str, tuple[str, ...]], _Step] = {}
        self._losses: dict[tuple[str, frozenset[str]], _Step] = {}
        self.pace = self._counted()

    def gain(self, scope: str, coming: tuple[str, ...]) -> _Step:
        """The smoothed pace before and after one more node somewhere under a scope."""
        step = self._gains.get((scope, coming))
        if step is None:
            usable = tuple(place for place in coming if self._paces.is_usable(place))
            step = self._gains[scope, coming] = self._gain(scope, usable, self.redundant)
        return step

    def loss(self, resource: str, gone: frozenset[str]) -> _Step:
        """The smoothed pace after and before the loss of a node, where others are gone already."""
        step = self._losses.get((resource, gone))
        if step is None:
            step = self._losses[resource, gone] = self._loss(resource, gone)
        return step

    @cached_property
    def redundant(self) -> frozenset[str]:
        """The nodes that do not work and are worth nothing, the last come first to go: where there
        is no room for two groups, the one that began to wait first stays."""
        found = _NONE
        for node in reversed(self._paces.spots):
            if node not in self.footing.at_work:
                lower, upper = self.loss(node, found)
                if upper <= lower:
                    found |= {node}
        return found

    def needed(self, kind: str, pace: float) -> int:
        """How many more nodes of a kind it takes to reach a pace, or as much of it as can be, if
        they come on hosts in the rack of those that are there."""
        fewest, enough = 0, max(0, self._room())
        places = self._paces.new_places(kind, enough)
        pace = min(pace, self._counted(places))
        while fewest < enough:
            middle = (fewest + enough) // 2
            if self._counted(places[:middle]) >= pace:
                enough = middle
            else:
                fewest = middle + 1
        return enough

    # ------------------------------------------------------------------------------------------

    def _room(self, gone: frozenset[str] = _NONE) -> int:
        return self._nodes_max - len(self._paces.spots) + len(gone)

    def _counted(self, coming: tuple[str, ...] = (), gone: frozenset[str] = _NONE) -> float:
        pace = self._paces.pace(gone, coming)
        is_new = pace > self.footing.above or not self.footing.crew.isdisjoint(gone)
        return pace if is_new else self.footing.pace

    def _gain(self, scope: str, coming: tuple[str, ...], gone: frozenset[str]) -> _Step:
        expected, room = len(coming), self._room(gone)
        if expected >= room or not self._paces.is_usable(scope):
            pace = self._counted(coming, gone)
            return _Step(pace, pace)
        points = [(count, self._counted(coming[:count], gone)) for count in range(expected + 1)]
        for more in self._groups(scope, room - expected):
            points.append((expected + more, self._counted((*coming, *(scope,) * more), gone)))
        before, after = _above(points, expected), _above(points, expected + 1)
        if coming and coming[-1] == scope:
            # A look from farther on sees groups farther on; it must not make this one dearer.
            lower, upper = self.gain(scope, coming[:-1])
            after = min(after, before + upper - lower)
        return _Step(before, after)

    def _groups(self, scope: str, room: int) -> tuple[int, ...]:
        """How many may come to this place: as many as there is room for, at last."""
        if self._paces.spot(scope).kind in self.footing.doubted:
            return (1,)
        most = min(room, GROUPS[-1])
        return (*(more for more in GROUPS if more < most), most)

    def _loss(self, resource: str, gone: frozenset[str]) -> _Step:
        own = gone.intersection(self._paces.spots)
        if resource not in self._paces.spots or resource in own:
            return _Step(0.0, 0.0)
        if resource not in self.footing.at_work:
            return self._gain(resource, (), own | {resource})
        left = self._paces.nearest(resource, own)
        count = len(left)
        points = [(0, 0.0), (count, self._counted((), own)), (len(self._paces.spots), self.pace)]
        for fewer in GROUPS:
            if fewer < count:
                points.append((count - fewer, self._counted((), own.union(left[:fewer]))))
        return _Step(_above(points, count - 1), _above(points, count))


class _Step(NamedTuple):
    lower: float
    upper: float


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
