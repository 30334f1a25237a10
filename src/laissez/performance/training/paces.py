"""The pace with the nodes of one moment, and with nodes more or less.

Nodes may be scopes: then the least favourable place under it is assumed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from laissez.model.paths import tree_of
from laissez.performance.training.options import Signature
from laissez.performance.training.placement import Spot
from laissez.performance.training.planner import Planner
from laissez.performance.training.stock import canonical

GPUS_PER_HOST = 8


class Paces:
    """Of the best plans; remembers what it was asked."""

    def __init__(self, planner: Planner, nodes: Sequence[str]) -> None:
        self._planner = planner
        self._setup = planner.setup
        self._kinds = planner.setup.kinds
        self._known: dict[tuple[frozenset[str], tuple[str, ...]], float] = {}
        self.spots = {node: self.spot(node) for node in nodes}

    def pace(self, gone: frozenset[str] = frozenset(), coming: tuple[str, ...] = ()) -> float:
        """Without the nodes that are gone, and with one at each place to come."""
        key = (gone, coming)
        pace = self._known.get(key)
        if pace is None:
            spots = [spot for node, spot in self.spots.items() if node not in gone]
            spots += map(self.spot, coming)
            pace = self._known[key] = self._planner.pace(_signature(spots, self._kinds))
        return pace

    def is_usable(self, place: str) -> bool:
        return tree_of(place) in self._kinds

    def spot(self, place: str) -> Spot:
        return self._setup.spot(place)

    def nearest(self, resource: str, gone: Collection[str]) -> list[str]:
        """The nodes that are left, the one in question first."""
        spot = self.spots[resource]
        left = [node for node in self.spots if node not in gone]
        return sorted(left, key=lambda node: (node != resource, _apart(self.spots[node], spot)))

    def new_places(self, kind: str, count: int) -> tuple[str, ...]:
        """Places on hosts of their own, in the rack of the last node of this kind if there is
        one."""
        base = kind
        for spot in self.spots.values():
            if spot.kind == kind:
                base = spot.rack or kind
        open_levels = len(self._setup.levels) + 1 - len(base.split("/"))
        places = []
        for index in range(count):
            # In a new rack the levels above the host are new, but shared.
            names = ["+"] * open_levels
            if names:
                names[-1] = f"+{index // GPUS_PER_HOST}"
            places.append("/".join((base, *names, f"+{index}")))
        return tuple(places)


def _signature(spots: Iterable[Spot], kinds: tuple[str, ...]) -> Signature:
    counts: dict[str, dict[object, dict[object, int]]] = {}
    for index, (kind, rack, domain) in enumerate(spots):
        domains = counts.setdefault(kind, {}).setdefault(rack or index, {})
        place = domain or index
        domains[place] = domains.get(place, 0) + 1
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
