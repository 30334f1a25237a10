"""A cluster as its file describes it: trees of resources, with their floors and guards.

Everything is in the units of the market: micro-dollars per hour, microseconds, basis points.
What the file does not mention is None or empty, and means: leave it as it is.
"""

from msgspec import Struct

Attributes = tuple[tuple[str, str], ...]
"""Pairs of key and value, sorted by key, as the market keeps them."""

LEVELS_ATTRIBUTE = "levels"
"""The attribute of every resource that names the levels of its path, below the root."""


class ClusterResource(Struct, frozen=True, gc=False):
    """One tradable resource and what its holder can read about it."""

    path: str
    attributes: Attributes


class Floor(Struct, frozen=True, gc=False):
    """The lowest rate for everything under a scope; 0 takes it away."""

    scope: str
    micros_per_hour: int


class Guard(Struct, frozen=True, gc=False):
    """All volatility guards of a tree; what is None is off."""

    rise_basis_points: int | None = None
    fall_micros_per_hour: int | None = None
    hold_us: int | None = None
    window_us: int | None = None
    notice_us: int | None = None
    commit_us: int | None = None


class Tree(Struct, frozen=True):
    """One type of resource: `floors` are those below the root, resources are in file order."""

    name: str
    levels: tuple[str, ...]
    floor_micros_per_hour: int | None
    floors: tuple[Floor, ...]
    guard: Guard | None
    resources: tuple[ClusterResource, ...]

    def all_floors(self) -> tuple[Floor, ...]:
        """The floor of the root, if there is one, and those below it."""
        if self.floor_micros_per_hour is None:
            return self.floors
        return (Floor(self.name, self.floor_micros_per_hour), *self.floors)


class Cluster(Struct, frozen=True):
    """All trees of a file, in its order."""

    trees: tuple[Tree, ...]
