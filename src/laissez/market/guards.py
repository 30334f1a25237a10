"""Volatility guards: the settings of a tree, and what they need to remember.

`rise` remembers, for the present window only, the operator's quote of each scope as it was before
the first order there. `fall` remembers per floor where it stood as its window began, and where it
is to go (`Descent`); `hold`, `notice` and `commit` are remembered by the holding that they concern.
"""

from __future__ import annotations

import msgspec

BASIS_POINTS = 10_000


class GuardSettings(msgspec.Struct, frozen=True):
    """None is off."""

    rise: int | None = None
    fall: int | None = None
    hold: int | None = None
    window: int | None = None
    notice: int | None = None
    commit: int | None = None


OFF = GuardSettings()


class Descent(msgspec.Struct, gc=False):
    """A floor under a `fall` guard; `pending` while it has not come down to what was asked."""

    scope: str
    window_index: int
    floor_at_start: int
    asked: int
    sequence: int
    pending: bool


class GuardedTree:
    """One resource type: its guard and the price references of the present window.

    `depths` counts its resources by the number of names in their paths.
    """

    __slots__ = (
        "_descents_window",
        "depths",
        "descents",
        "guard",
        "name",
        "reference_window",
        "references",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.guard = OFF
        self.reference_window = -1
        self.references: dict[str, int] = {}
        self.descents: dict[str, Descent] = {}
        self._descents_window = -1
        self.depths: dict[int, int] = {}

    def window_index(self, at: int) -> int:
        assert self.guard.window is not None
        return at // self.guard.window

    def next_boundary(self, at: int) -> int:
        """When the window after the one at `at` begins."""
        assert self.guard.window is not None
        return (at // self.guard.window + 1) * self.guard.window

    def reference(self, scope: str, at: int) -> int | None:
        """The reference of a scope in the present window, None if it is yet to be taken."""
        if self.reference_window != self.window_index(at):
            return None
        return self.references.get(scope)

    def take_reference(self, scope: str, quoted: int, at: int) -> None:
        """Remember a quote, 0 for none; what earlier windows remembered is forgotten."""
        window = self.window_index(at)
        if self.reference_window != window:
            self.reference_window = window
            self.references = {}
        self.references[scope] = quoted

    def forget_descents_before(self, window: int) -> None:
        """Where a floor stood matters in its own window, and while it has further to go."""
        if self._descents_window != window:
            self._descents_window = window
            self.descents = {
                scope: descent
                for scope, descent in self.descents.items()
                if descent.pending or descent.window_index == window
            }

    def clip(self, price: int, reference: int) -> int:
        """The highest price that may be posted where `price` is asked."""
        assert self.guard.rise is not None
        if reference == 0:
            return price
        return min(price, reference * (BASIS_POINTS + self.guard.rise) // BASIS_POINTS)
