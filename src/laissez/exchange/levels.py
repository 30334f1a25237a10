"""The names of a tree's levels, by which people say within what several resources are to lie.

A tree's names are a record of the journal, so that everybody who follows it means the same level.
The first name is of the level below the root: `levels: [zone, rack]` and `h100/us-east/r1`.
"""

from __future__ import annotations

import re

from laissez.market.checks import MAX_DEPTH, CommandRefused, is_path, shown
from laissez.model import Code, Rejected, ServiceCode
from laissez.model.sentences import OR_COARSER, domains_have

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


def in_names(
    levels: LevelNames, scope: str, within: int | str | None, refused: Rejected
) -> Rejected:
    """The market's refusal of a gang, which counts names, in the names of levels; as it is where
    they are not known."""
    tree = scope.partition("/")[0]
    names, coarsest = [tree, *levels.get(tree, ())], scope.count("/") + 1
    at_or_under = names[coarsest - 1 : -1]  # in the last there are no several
    try:
        domain = names_within(levels, scope, within) or coarsest
    except CommandRefused:
        return refused
    message = refused.message
    if refused.code == Code.BAD_WITHIN and at_or_under:
        message = (
            f"within {shown(within)} is no level at or under {scope!r}; give one of "
            f"{', '.join(at_or_under)}"
        )
    elif refused.code == Code.DOMAIN_TOO_SMALL and domain == coarsest:
        message = message.replace(domains_have(domain, scope), f"{scope!r} has")
        message = message.replace(OR_COARSER, ", or in a wider scope" if "/" in scope else "")
    elif refused.code == Code.DOMAIN_TOO_SMALL and domain <= len(names):
        named = f"the domains of level {names[domain - 1]!r} under {scope!r} have"
        coarser = f"{OR_COARSER}: {', '.join(names[coarsest - 1 : domain - 1])}"
        message = message.replace(domains_have(domain, scope), named).replace(OR_COARSER, coarser)
    return Rejected(refused.at, refused.code, message)
