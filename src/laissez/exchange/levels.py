"""The names of a tree's levels, by which people say within what several resources are to lie.

A tree's names are a record of the journal, so that everybody who follows it means the same level.
The first name is of the level below the root: `levels: [zone, rack]` and `h100/us-east/r1`.
"""

from __future__ import annotations

import re

from laissez.market.checks import MAX_DEPTH, CommandRefused, is_path, shown
from laissez.model import Code, ServiceCode

LevelNames = dict[str, tuple[str, ...]]

LEVELS_MOST = MAX_DEPTH - 1
LEVEL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")


def wrong_levels(tree: str, levels: tuple[str, ...]) -> tuple[str, str] | None:
    """Why a tree's levels can't be called that, with the code; None if they can."""
    if not is_path(tree) or "/" in tree:
        return Code.NOT_A_TREE, f"{shown(tree)} is not the root of a tree; name one"
    if len(levels) > LEVELS_MOST:
        wrong = f"{len(levels)} levels are too many; a path has at most {MAX_DEPTH} names"
        return ServiceCode.BAD_LEVELS, wrong
    for level in levels:
        if not LEVEL_NAME.fullmatch(level):
            wrong = (
                f"a level can't be called {shown(level[:80])}; use up to 64 letters, digits, '-' "
                "and '_', a letter first"
            )
            return ServiceCode.BAD_LEVELS, wrong
    if len(set(levels)) < len(levels):
        return ServiceCode.BAD_LEVELS, "a level is named twice; name each level once"
    return None


def names_within(levels: LevelNames, scope: str, within: int | str | None) -> int | None:
    """How many names the path of a domain has; raises `CommandRefused` for an unknown level."""
    if not isinstance(within, str):
        return within
    tree = scope.partition("/")[0]
    known = levels.get(tree, ())
    if within in known:
        return known.index(within) + 2
    if within == tree:
        return 1
    if not known:
        raise CommandRefused(
            Code.BAD_WITHIN,
            f"the levels of {shown(tree)} have no names here; give the number of names in the "
            "path of a domain",
        )
    raise CommandRefused(
        Code.BAD_WITHIN,
        f"there is no level {shown(within)} in {shown(tree)}; give one of {', '.join(known)}",
    )
