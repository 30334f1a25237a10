"""The levels of a tree by their names, as its operator gave them: zone, rack, host.

The first name is that of the level below the root. What lies within a level counts the names in a
path: 2 for a zone. Where a tree's levels have no names, the number is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from laissez.model.paths import tree_of

NamedLevels = Mapping[str, Sequence[str]]


def names_in(path: str) -> int:
    return path.count("/") + 1


def level_of(text: str) -> int | str:
    """A level as somebody types it: its name, or how many names its paths have."""
    return int(text) if text.isdecimal() else text


def levels_for_several(levels: NamedLevels, scope: str) -> list[str]:
    """The levels at and under a scope in which there can be several: all but the resources'."""
    tree = tree_of(scope)
    named = levels.get(tree, ())
    return [tree, *named][names_in(scope) - 1 : -1] if named else []


def within_of(levels: NamedLevels, scope: str, within: int | str | None) -> int | None:
    """How many names the path of a domain has; None if that is not known."""
    if not isinstance(within, str):
        return names_in(scope) if within is None else within
    all_names = [tree_of(scope), *levels.get(tree_of(scope), ())]
    return all_names.index(within) + 1 if within in all_names else None


def in_one(levels: NamedLevels, scope: str, within: int | str | None) -> str:
    """`in one host of h100`, or `under h100` where the scope itself is the domain."""
    names = within_of(levels, scope, within)
    if names == names_in(scope):
        return f"under {scope}"
    return f"in one {_level_name(levels, scope, within, names)} of {scope}"


def so_many(levels: NamedLevels, scope: str, count: int, within: int | str | None) -> str:
    """In a table, beside the scope: `8 in one host`, `8 at once`."""
    if count == 1:
        return "1"
    names = within_of(levels, scope, within)
    if names == names_in(scope):
        return f"{count:,} at once"
    return f"{count:,} in one {_level_name(levels, scope, within, names)}"


def _level_name(
    levels: NamedLevels, scope: str, within: int | str | None, names: int | None
) -> str:
    named = [tree_of(scope), *levels.get(tree_of(scope), ())]
    if names is None or not 1 <= names <= len(named):
        return within if isinstance(within, str) else f"domain of {names} names"
    return named[names - 1]
