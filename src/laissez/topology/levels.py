"""The names of the levels of a tree, which are also the keys of its blocks and its placeholders."""

import re

from laissez.documents.nodes import Field
from laissez.documents.problems import Problems, shown
from laissez.topology.attributes import PATH_PLACEHOLDER
from laissez.topology.fields import scalar, sequence
from laissez.topology.layout import ATTRIBUTES_KEY
from laissez.topology.names import DEPTH_MAX

EXAMPLE = "levels: [zone, rack, host, gpu]"

_LEVEL = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def read_levels(field: Field | None, problems: Problems) -> tuple[str, ...]:
    """The levels, outermost first; none if there is a problem with them."""
    if field is None:
        return ()
    before = len(problems)
    nodes = sequence(field.value, "levels", EXAMPLE, problems)
    if nodes is None:
        return ()
    levels: list[str] = []
    for node in nodes:
        level = scalar(node, "a level", EXAMPLE, problems)
        if level is None:
            continue
        if not _LEVEL.fullmatch(level):
            wrong = "needs letters, digits, '-' or '_', a letter first"
            problems.add(
                node.start_mark, f"level {shown(level)} can't be used as a key; it {wrong}"
            )
        elif level in (ATTRIBUTES_KEY, PATH_PLACEHOLDER):
            problems.add(
                node.start_mark, f"{level!r} has a meaning of its own; give the level another name"
            )
        elif level in levels:
            problems.add(node.start_mark, f"level {level!r} is there twice; name each level once")
        levels.append(level)
    if not nodes:
        problems.add(field.value.start_mark, f"a tree needs at least one level; write {EXAMPLE}")
    if len(levels) >= DEPTH_MAX:
        problems.add(
            field.value.start_mark,
            f"{len(levels)} levels are too many; a path has at most {DEPTH_MAX} names",
        )
    return tuple(levels) if len(problems) == before else ()
