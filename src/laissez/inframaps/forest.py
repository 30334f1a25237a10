"""The shape of the market, from the paths of its resources: which scopes there are, what they hold.

A shape changes only when resources come or go, and is worked out once for the same paths. Building
one costs by the leaves; the questions asked at each step cost by the children of what is asked
about.
"""

from collections.abc import Collection, Iterable
from functools import lru_cache


class Forest:
    """Scopes by path, children in the order in which they were first seen."""

    __slots__ = ("_children", "_leaves_under")

    def __init__(self, paths: Iterable[str], planned: Iterable[str] = ()) -> None:
        """`planned` are resources that may be added; where they don't fit, they are left out."""
        self._children: dict[str, dict[str, None]] = {}
        self._leaves_under: dict[str, tuple[str, ...]] = {}
        for path in paths:
            self._add(path)
        for path in planned:
            if path not in self and not self._is_below_a_leaf(path):
                self._add(path)

    def _add(self, path: str) -> None:
        parent = path.rpartition("/")[0]
        while path:
            siblings = self._children.get(parent)
            if siblings is not None:
                siblings[path] = None
                return
            self._children[parent] = {path: None}
            path, parent = parent, parent.rpartition("/")[0]

    def _is_below_a_leaf(self, path: str) -> bool:
        above = path.rpartition("/")[0]
        while above and above not in self:
            above = above.rpartition("/")[0]
        return bool(above) and above not in self._children

    def __contains__(self, scope: str) -> bool:
        """Is there a resource at or under this scope?"""
        return scope in self._children.get(scope.rpartition("/")[0], ())

    def children(self, scope: str) -> Collection[str]:
        """The scopes just below; none for a leaf."""
        return self._children.get(scope, {}).keys()

    def leaves_under(self, scope: str) -> tuple[str, ...]:
        """The resources that a scope covers, itself if it is one."""
        leaves = self._leaves_under.get(scope)
        if leaves is None:
            below = self._children.get(scope)
            if below is None:
                leaves = (scope,) if scope in self else ()
            else:
                leaves = tuple(leaf for child in below for leaf in self.leaves_under(child))
            self._leaves_under[scope] = leaves
        return leaves


@lru_cache(maxsize=4)
def forest_of(paths: tuple[str, ...], planned: tuple[str, ...] = ()) -> Forest:
    """The forest of these paths, kept while they stay the same."""
    return Forest(paths, planned)
