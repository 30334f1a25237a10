"""What every reader of YAML nodes needs: the fields of a mapping, each once, and their places.

The readers themselves differ: `reading` follows the types of a Struct, room `topology` multiplies
ranges out. What a field is, where to point for it, and what is said of one that is there twice or
not known, is the same in every file.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import NamedTuple

import yaml
from yaml.error import Mark

from laissez.documents.problems import Problems, shown

_TAG = "tag:yaml.org,2002:"


class Field(NamedTuple):
    """A key of a mapping and its value, which know where they are written."""

    key: yaml.ScalarNode
    value: yaml.Node

    @property
    def name(self) -> str:
        return str(self.key.value)

    @property
    def mark(self) -> Mark:
        """Where to point for the value: at it, or at its key if it is further down."""
        is_beside = self.value.start_mark.line == self.key.start_mark.line
        node = self.value if is_beside and not is_empty(self.value) else self.key
        assert isinstance(node.start_mark, Mark)
        return node.start_mark


def fields_of(node: yaml.MappingNode, problems: Problems) -> dict[str, Field]:
    """The fields of a mapping by name. A name that is there twice is a problem: YAML would take the
    last, and nobody would see it."""
    fields: dict[str, Field] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode) or is_empty(key):
            problems.add(key.start_mark, "a key must be text; write 'key: value'")
        elif key.value in fields:
            first = fields[key.value].key.start_mark.line + 1
            problems.add(
                key.start_mark,
                f"{shown(key.value)} is there twice, first in line {first}; keep one of them",
            )
        else:
            fields[key.value] = Field(key, value)
    return fields


def marks_along(node: yaml.Node, steps: Iterable[str | int]) -> Iterator[tuple[Mark, yaml.Node]]:
    """Where to point for each step of a way down from a node, as far as it exists."""
    for step in steps:
        if isinstance(node, yaml.MappingNode):
            found = next((pair for pair in node.value if pair[0].value == str(step)), None)
            if found is None:
                return
            mark, node = Field(*found).mark, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            if step >= len(node.value):
                return
            node = node.value[step]
            mark = node.start_mark
        else:
            return
        yield mark, node


def unknown_field(name: str, known: Collection[str], hints: Mapping[str, str]) -> str:
    """What to do about a field that is not known where it stands: a hint, if there is one."""
    if name in hints:
        return hints[name]
    close = get_close_matches(name, known, n=1)
    if close:
        return f"there is no field {shown(name)}; did you mean {close[0]!r}?"
    return f"there is no field {shown(name)}; take it out, or take one of: {', '.join(known)}"


def is_empty(node: yaml.Node) -> bool:
    return yaml_type(node) == "null"


def yaml_type(node: yaml.Node) -> str:
    """What YAML takes a node for: int, float, bool, null, str, ..."""
    return str(node.tag).removeprefix(_TAG)
