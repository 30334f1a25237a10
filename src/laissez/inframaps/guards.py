"""Volatility guards that stay as they were asked for, whoever else changes them.

Prices that a map moves, and those that tenants bid, may only move so fast as the operator's tenants
can follow: `rise` bounds bids within a window, `fall` bounds floors on their way down, `hold` keeps
what was won for a while. A map sets them when they differ from what stands; it adjusts no price.
"""

from msgspec import Struct

from laissez.inframaps.policy import Levels
from laissez.inframaps.view import MapAction, OperatorView
from laissez.model.instructions import ChangeGuard
from laissez.model.paths import tree_of


class Guards(Struct, frozen=True):
    """The guards of each tree that is named; what is None in one is off."""

    guards: tuple[ChangeGuard, ...]

    def adjustments(self, levels: Levels, view: OperatorView, at_us: int) -> dict[str, float]:
        return {}

    def commands(self, levels: Levels, view: OperatorView, at_us: int) -> tuple[MapAction, ...]:
        standing = {
            each.tree: ChangeGuard(each.tree, each.rise, each.fall, each.hold, each.window)
            for each in view.guards
        }
        trees = {tree_of(each.resource) for each in view.resources}
        return tuple(
            MapAction(guard, "the guards of the tree are others than were asked for")
            for guard in self.guards
            if guard.tree in trees and standing.get(guard.tree, ChangeGuard(guard.tree)) != guard
        )

    def next_us(self, at_us: int) -> int | None:
        return None
