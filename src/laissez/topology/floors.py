"""Floors below the root of a tree: by scope, ranges allowed, each scope once.

A floor on a scope that has no resource would be accepted by the market and do nothing, so here it
is a problem: it is most likely a slip of the pen.
"""

from itertools import product

import yaml
from msgspec import Struct

from laissez.amounts import micros_per_hour
from laissez.documents.nodes import Field, is_empty
from laissez.documents.problems import Problems, shown
from laissez.topology.cluster import Floor
from laissez.topology.fields import amount, mapping
from laissez.topology.layout import Expanded, NamePattern, read_pattern

FLOORS_MAX = 100_000


class FloorPattern(Struct, frozen=True):
    """A floor on all scopes that a relative path with ranges stands for."""

    node: yaml.Node
    names: tuple[NamePattern, ...]
    micros_per_hour: int


def read_floors(field: Field | None, problems: Problems) -> tuple[FloorPattern, ...]:
    if field is None or is_empty(field.value):
        return ()
    fields = mapping(
        field.value, "floors", "a scope with its floor, such as us-east/r7: 3.25", problems
    )
    floors = []
    count = 0
    for each in (fields or {}).values():
        scope = f"in the scope {shown(each.name)},"
        names = [read_pattern(each.key, name, scope, problems) for name in each.name.split("/")]
        micros = amount(each, micros_per_hour, "3.25", problems, what="floor")
        whole = tuple(name for name in names if name is not None)
        if micros is None or len(whole) < len(names):
            continue
        scopes = 1
        for name in whole:
            scopes *= name.pattern.count
        count += scopes
        if count > FLOORS_MAX:
            problems.add(
                each.key.start_mark,
                f"these are more than {FLOORS_MAX:,} floors; set them on scopes further up",
            )
            break
        floors.append(FloorPattern(each.key, whole, micros))
    return tuple(floors)


def spread_floors(
    tree: str,
    patterns: tuple[FloorPattern, ...],
    layout: list[Expanded],
    layout_is_whole: bool,
    problems: Problems,
) -> tuple[Floor, ...]:
    """A floor for each scope that is meant, all of which have to be in the layout."""
    scopes_at: dict[int, set[tuple[str, ...]]] = {}
    floors: dict[str, Floor] = {}
    for each in patterns:
        depth = len(each.names)
        if depth not in scopes_at:
            scopes_at[depth] = {
                scope for block in layout for scope in product(*block.names[:depth])
            }
        for names in product(*(name.pattern.names() for name in each.names)):
            scope = "/".join((tree, *names))
            if scope in floors:
                problems.add(each.node.start_mark, f"{scope} has a floor already; keep one of them")
                break
            if layout_is_whole and names not in scopes_at[depth]:
                problems.add(each.node.start_mark, _unknown(tree, names, layout))
                break
            floors[scope] = Floor(scope, each.micros_per_hour)
    return tuple(floors.values())


def _unknown(tree: str, names: tuple[str, ...], layout: list[Expanded]) -> str:
    relative = "/".join(names)
    if names[0] == tree:
        rest = "/".join(names[1:])
        advice = f"leave out the tree: {rest}" if rest else "use 'floor:' for the whole tree"
        return f"scopes of floors are given below their tree; {advice}"
    known = {name for block in layout for name in block.names[0]}
    if names[0] not in known:
        some = ", ".join(sorted(known)[:5])
        return f"the layout has no scope {shown(relative)}; it begins with: {some}"
    return f"the layout has no scope {shown(relative)}; name one from the layout, or remove it"
