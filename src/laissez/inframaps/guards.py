"""Volatility guards that stay as they were asked for, whoever else changes them.

Prices that a map moves, and those that tenants bid, may only move so fast as the operator's tenants
can follow: `rise` bounds bids within a window, `fall` bounds floors on their way down, `hold` keeps
what was won for a while, `notice` calls a holder before a loss, `commit` binds a winner. A map sets
them when they differ from what stands; it adjusts no price.

A tree that is new to an exchange has notice and commitment without anybody's asking. So a map that
says nothing of these leaves them as they stand; 0 turns them off.
"""

from msgspec import Struct
from msgspec.structs import replace

from laissez.inframaps.policy import Levels
from laissez.inframaps.view import MapAction, OperatorView
from laissez.model.events import GuardSet
from laissez.model.instructions import ChangeGuard
from laissez.model.paths import tree_of


class Guards(Struct, frozen=True):
    """The guards of each tree that is named; what is None in one is off, but for `notice` and
    `commit`, which are then as they were."""

    guards: tuple[ChangeGuard, ...]

    def adjustments(self, levels: Levels, view: OperatorView, at_us: int) -> dict[str, float]:
        return {}

    def commands(self, levels: Levels, view: OperatorView, at_us: int) -> tuple[MapAction, ...]:
        standing = {each.tree: _as_asked(each) for each in view.guards}
        trees = {tree_of(each.resource) for each in view.resources}
        actions = []
        for guard in self.guards:
            stands = standing.get(guard.tree, ChangeGuard(guard.tree))
            asked = _completed(guard, stands)
            if guard.tree in trees and asked != stands:
                why = "the guards of the tree are others than were asked for"
                actions.append(MapAction(asked, why))
        return tuple(actions)

    def next_us(self, at_us: int) -> int | None:
        return None


def _as_asked(guard: GuardSet) -> ChangeGuard:
    """What would have to be asked for to have the guards that stand."""
    return ChangeGuard(
        guard.tree,
        guard.rise,
        guard.fall,
        guard.hold,
        guard.window,
        guard.notice or None,
        guard.commit or None,
    )


def _completed(guard: ChangeGuard, stands: ChangeGuard) -> ChangeGuard:
    return replace(
        guard,
        notice=stands.notice if guard.notice is None else guard.notice or None,
        commit=stands.commit if guard.commit is None else guard.commit or None,
    )
