"""What a YAML node holds: keys that are known, lists, texts. Anything else is a problem.

Each function returns what it read, or None (or less) after it has noted a problem; so whoever
reads may go on with the rest.
"""

from collections.abc import Callable, Mapping, Sequence

import yaml

from laissez.documents.nodes import Field, fields_of, is_empty, unknown_field
from laissez.documents.problems import Problems, shown


def mapping(
    node: yaml.Node, what: str, example: str, problems: Problems
) -> dict[str, Field] | None:
    """The fields of a mapping, each key once."""
    if not isinstance(node, yaml.MappingNode):
        problems.add(node.start_mark, f"{what} has to be keys with values; write {example}")
        return None
    return fields_of(node, problems)


def refuse_unknown(
    fields: Mapping[str, Field],
    known: Sequence[str],
    problems: Problems,
    hints: Mapping[str, str] | None = None,
) -> None:
    """Note each key that is not one of those known, with the one that may be meant."""
    for field in fields.values():
        if field.name not in known:
            problems.add(field.key.start_mark, unknown_field(field.name, known, hints or {}))


def scalar(node: yaml.Node, what: str, example: str, problems: Problems) -> str | None:
    """The text of a value."""
    if isinstance(node, yaml.ScalarNode) and not is_empty(node):
        return str(node.value)
    if is_empty(node):
        problems.add(node.start_mark, f"{what} has no value; write {example}")
    elif isinstance(node, yaml.CollectionNode) and node.flow_style:
        kind = "a mapping" if isinstance(node, yaml.MappingNode) else "a list"
        problems.add(
            node.start_mark,
            f"{what} has to be one text, but YAML takes a bare bracket for {kind}; "
            f"put quotes around it, or write {example}",
        )
    else:
        problems.add(node.start_mark, f"{what} has to be one text; write {example}")
    return None


def sequence(
    node: yaml.Node, what: str, example: str, problems: Problems
) -> list[yaml.Node] | None:
    """The items of a list."""
    if isinstance(node, yaml.SequenceNode):
        return list(node.value)
    problems.add(node.start_mark, f"{what} has to be a list; write {example}")
    return None


def amount(
    field: Field | None,
    read: Callable[[str], int],
    example: str,
    problems: Problems,
    what: str = "",
) -> int | None:
    """An amount that a reader of `amounts` understands, if the field is there at all."""
    if field is None:
        return None
    text = scalar(field.value, field.name, f"{field.name}: {example}", problems)
    if text is None:
        return None
    try:
        return read(text)
    except ValueError as error:
        problems.add(field.value.start_mark, f"{what or field.name} {shown(text)} {error}")
        return None
