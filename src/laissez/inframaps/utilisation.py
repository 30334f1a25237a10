"""Reserve prices by utilisation: the fuller a pool, the dearer, so that buyers go to idle ones.

A pool's price rises with the share of its resources that is held: nothing when all are idle,
little up to half, steeply near the end, `peak` when all are held. An order for "anywhere" takes
the lowest floor, so it goes to the emptiest pool, and the last resources of a full one are left to
those who need that place.
"""

from collections.abc import Iterator
from typing import ClassVar

from msgspec import Struct

from laissez.inframaps.curve import steep
from laissez.inframaps.forest import forest_of
from laissez.inframaps.policy import Levels
from laissez.inframaps.view import OperatorView


class Utilisation(Struct, frozen=True):
    """The pools are the scopes named, and each child of the scopes in `children_of`."""

    label: ClassVar[str] = "utilisation"

    pools: tuple[str, ...] = ()
    children_of: tuple[str, ...] = ()
    peak: float = 1.0
    steepness: float = 5.0

    def adjustments(self, levels: Levels, view: OperatorView, at_us: int) -> dict[str, float]:
        held = {each.resource for each in view.resources if each.owner is not None}
        return {
            pool: self.peak
            * steep(sum(leaf in held for leaf in leaves) / len(leaves), self.steepness)
            for pool, leaves in self._pools(view)
            if leaves
        }

    def _pools(self, view: OperatorView) -> Iterator[tuple[str, tuple[str, ...]]]:
        forest = forest_of(tuple(each.resource for each in view.resources))
        children = (child for scope in self.children_of for child in forest.children(scope))
        for pool in dict.fromkeys((*self.pools, *children)):
            yield pool, forest.leaves_under(pool)
