"""The blocks of a layout: each gives every level of its tree, and ranges multiply out.

A block is read in two steps. `read_block` understands it and counts its resources; only when the
whole file is known to be small enough are the names expanded, by `expand_block`. All resources of
a tree lie equally deep, so that none of them can be a scope of another.
"""

import re
from math import prod

import yaml
from msgspec import Struct

from laissez.documents.nodes import Field
from laissez.documents.problems import Problems, shown
from laissez.topology.attributes import filled, read_templates
from laissez.topology.cluster import Attributes, ClusterResource
from laissez.topology.fields import mapping, refuse_unknown, scalar
from laissez.topology.names import name_problem
from laissez.topology.ranges import BadRange, Pattern, parse

ATTRIBUTES_KEY = "attributes"

_RANGE = re.compile(r"[0-9]+-[0-9]+")


class NamePattern(Struct, frozen=True):
    """A name with ranges, and where it is written."""

    node: yaml.Node
    pattern: Pattern


class Block(Struct, frozen=True):
    """A block that makes sense in itself; `templates` still has placeholders."""

    node: yaml.Node
    levels: tuple[str, ...]
    names: tuple[tuple[NamePattern, ...], ...]
    templates: Attributes

    @property
    def count(self) -> int:
        return prod(sum(each.pattern.count for each in level) for level in self.names)


def read_block(node: yaml.Node, levels: tuple[str, ...], problems: Problems) -> Block | None:
    """What a block says, or None after its problems are noted."""
    before = len(problems)
    example = "{" + ", ".join(f'{level}: "{level[0]}[1-4]"' for level in levels[:3]) + "}"
    fields = mapping(node, "a block of the layout", example, problems)
    if fields is None:
        return None
    hints = {
        "floor": "a block has no floor of its own; put it under 'floors:' of the tree, by scope"
    }
    refuse_unknown(fields, (*levels, ATTRIBUTES_KEY), problems, hints)
    missing = [level for level in levels if level not in fields]
    if missing:
        lacking = ", ".join(repr(level) for level in missing)
        problems.add(
            node.start_mark, f"this block lacks {lacking}; give every level a name or range"
        )
    names = tuple(_level_names(fields[level], problems) for level in levels if level in fields)
    templates = read_templates(fields.get(ATTRIBUTES_KEY), levels, problems)
    return Block(node, levels, names, templates) if len(problems) == before else None


def _level_names(field: Field, problems: Problems) -> tuple[NamePattern, ...]:
    """The names of one level: one name with ranges, or a list of them."""
    value = field.value
    nodes = value.value if isinstance(value, yaml.SequenceNode) else [value]
    if not nodes:
        problems.add(field.value.start_mark, f"{field.name} has no names; write one, or a range")
    patterns = []
    for node in nodes:
        text = scalar(node, field.name, f'{field.name}: "{field.name[0]}[1-4]"', problems)
        if text is None:
            continue
        if node is not value and _is_bare_range(value, node):
            problems.add(
                field.value.start_mark,
                f"YAML takes the bare brackets of {field.name} for a list; put quotes around the "
                f'range ("[{text}]"), or around the name ("{text}") if that is meant',
            )
            continue
        pattern = read_pattern(node, text, field.name, problems)
        if pattern is not None:
            patterns.append(pattern)
    return tuple(patterns)


def _is_bare_range(listed: yaml.Node, item: yaml.Node) -> bool:
    """Was a range written in brackets but without quotes, so that YAML made a list of it?"""
    bare = isinstance(listed, yaml.SequenceNode) and listed.flow_style
    plain = isinstance(item, yaml.ScalarNode) and item.style is None
    return bool(bare and plain and _RANGE.fullmatch(item.value))


def read_pattern(node: yaml.Node, text: str, what: str, problems: Problems) -> NamePattern | None:
    """A name with ranges, by the rules of the market for a name."""
    try:
        pattern = parse(text)
    except BadRange as error:
        problems.add(node.start_mark, f"{what} {shown(text)} {error}")
        return None
    # Digits fit anywhere in a name, so that one of all the names speaks for the others.
    one = "".join(part if isinstance(part, str) else "0" for part in pattern.parts)
    wrong = name_problem(one)
    if wrong:
        problems.add(node.start_mark, f"{what} {shown(text)} {wrong}")
        return None
    return NamePattern(node, pattern)


class Expanded(Struct, frozen=True):
    """A block multiplied out: the names of each level, and all resources."""

    block: Block
    names: tuple[dict[str, None], ...]
    resources: list[ClusterResource]

    def has(self, path: str) -> bool:
        return all(
            name in level for name, level in zip(path.split("/")[1:], self.names, strict=True)
        )


def expand_block(tree: str, block: Block, problems: Problems) -> Expanded:
    names = tuple(
        _expand_level(level, patterns, problems)
        for level, patterns in zip(block.levels, block.names, strict=True)
    )
    paths = [tree]
    for level in names:
        paths = [f"{above}/{name}" for above in paths for name in level]
    attributes = filled(block.templates, "/".join(block.levels), names, paths)
    resources = [
        ClusterResource(path, pairs) for path, pairs in zip(paths, attributes, strict=True)
    ]
    return Expanded(block, names, resources)


def _expand_level(
    level: str, patterns: tuple[NamePattern, ...], problems: Problems
) -> dict[str, None]:
    names: dict[str, None] = {}
    for each in patterns:
        for name in each.pattern.names():
            if name in names:
                problems.add(
                    each.node.start_mark, f"{level} {name} is named twice; keep one of them"
                )
                break
            names[name] = None
    return names
