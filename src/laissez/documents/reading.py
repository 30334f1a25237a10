"""From YAML nodes to the value of a type: the type says how a node is to be understood.

YAML guesses what a bare word is; here the type of the field decides. Where text belongs, `no` and
1.10 are text; where a number belongs it is plain digits, never octal or base 60; where an amount
belongs it is read from its digits. Everything that does not fit is noted with its place, and
reading goes on with the next node. A key that the Struct does not have is always refused.
"""

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import yaml
from msgspec import inspect as types
from yaml.error import Mark

from laissez.documents.declared import as_declared
from laissez.documents.nodes import (
    Field,
    fields_of,
    is_empty,
    marks_along,
    unknown_field,
    yaml_type,
)
from laissez.documents.problems import BadField, Problems, shown
from laissez.documents.quantities import quantity, quantity_of

_TAGGED = {"int": "a whole number", "float": "a number", "bool": "true or false", "null": "nothing"}
_FIELDS = types.StructType | types.DictType
_LIST = types.ListType | types.VarTupleType | types.TupleType

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9_]{0,17})")
_NUMBER = re.compile(r"[-+]?([0-9][0-9_]*\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_BOUNDS = {
    "ge": (operator.ge, "write {} or more"),
    "gt": (operator.gt, "write more than {}"),
    "le": (operator.le, "write {} or less"),
    "lt": (operator.lt, "write less than {}"),
}
_LENGTHS = {
    "min_length": (operator.ge, "there must be at least {}"),
    "max_length": (operator.le, "there must be at most {}"),
}
_KINDS: dict[type[types.Type], str] = {
    types.StrType: "text",
    types.IntType: "a whole number",
    types.FloatType: "a number",
    types.BoolType: "true or false",
    types.NoneType: "nothing",
}


class Reader:
    """Reads nodes, and notes problems. `hints` say what to do about keys that are not known."""

    def __init__(self, problems: Problems, hints: Mapping[str, str]) -> None:
        self._problems = problems
        self._hints = hints

    def value(self, node: yaml.Node, kind: types.Type, mark: Mark) -> Any:
        """The value of a node; None if there is a problem with it. `mark` is where to point."""
        options = tuple(_options(kind))
        if any(isinstance(option, types.AnyType) for option in options):
            return self._anything(node)
        if isinstance(node, yaml.MappingNode) and any(isinstance(o, _FIELDS) for o in options):
            return self._mapping(node, options, mark)
        if isinstance(node, yaml.SequenceNode):
            lists = [option for option in options if isinstance(option, _LIST)]
            if lists:
                return self._list(node, lists[0], mark)
        if isinstance(node, yaml.ScalarNode):
            return self._one_of(node, options, mark)
        is_bracket = isinstance(node, yaml.CollectionNode) and bool(node.flow_style)
        advice = "; put quotes around it" if is_bracket and _takes_text(options) else ""
        self._problems.add(mark, f"here must be {_names(options)}, not {_name(node)}{advice}")
        return None

    # --- one value ------------------------------------------------------------------------------

    def _one_of(self, node: yaml.ScalarNode, options: Sequence[types.Type], mark: Mark) -> Any:
        """What the first option makes of a scalar, the one that takes the least before others."""
        scalars = [each for each in options if not isinstance(each, _FIELDS | _LIST)]
        problems = []
        for option in sorted(scalars, key=_breadth):
            try:
                return _scalar(node, option)
            except ValueError as error:
                if not isinstance(option, types.NoneType):
                    problems.append(str(error))
        is_clear = len(problems) == 1 and not is_empty(node)
        general = f"here must be {_names(options)}, not {_name(node)}"
        self._problems.add(mark, problems[0] if is_clear else general)
        return None

    def _anything(self, node: yaml.Node) -> Any:
        """What YAML takes a node for, where any value can stand."""
        if isinstance(node, yaml.MappingNode):
            fields = fields_of(node, self._problems)
            return {name: self._anything(field.value) for name, field in fields.items()}
        if isinstance(node, yaml.SequenceNode):
            return [self._anything(item) for item in node.value]
        assert isinstance(node, yaml.ScalarNode)
        for kind in (types.NoneType(), types.BoolType(), types.IntType(), types.FloatType()):
            try:
                return _scalar(node, kind)
            except ValueError:
                continue
        return node.value

    # --- several --------------------------------------------------------------------------------

    def _list(self, node: yaml.SequenceNode, kind: types.Type, mark: Mark) -> Any:
        assert isinstance(kind, _LIST)
        if isinstance(kind, types.TupleType):
            if len(node.value) != len(kind.item_types):
                self._problems.add(mark, f"here must be {len(kind.item_types)} values")
                return None
            item_types = kind.item_types
        else:
            item_types = (kind.item_type,) * len(node.value)
            self._check_length(len(node.value), kind, mark)
        items = [
            self.value(item, item_type, item.start_mark)
            for item, item_type in zip(node.value, item_types, strict=True)
        ]
        return items if isinstance(kind, types.ListType) else tuple(items)

    def _mapping(self, node: yaml.MappingNode, options: Sequence[types.Type], mark: Mark) -> Any:
        structs = [each for each in options if isinstance(each, types.StructType)]
        dicts = [each for each in options if isinstance(each, types.DictType)]
        written = fields_of(node, self._problems)
        if dicts:
            self._check_length(len(written), dicts[0], mark)
            return {
                self._one_of(
                    field.key, tuple(_options(dicts[0].key_type)), field.key.start_mark
                ): self.value(field.value, dicts[0].value_type, field.mark)
                for field in written.values()
            }
        struct = self._chosen(structs, written, mark) if structs[0].tag_field else structs[0]
        return struct and self._struct(struct, written, mark)

    def _chosen(
        self, structs: Sequence[types.StructType], written: Mapping[str, Field], mark: Mark
    ) -> types.StructType | None:
        """Of several, the Struct whose tag is written."""
        tag_field = structs[0].tag_field or ""
        tags = {str(struct.tag): struct for struct in structs}
        if tag_field not in written:
            self._problems.add(mark, f"{tag_field!r} is missing; take one of: {', '.join(tags)}")
            return None
        field = written[tag_field]
        tag = field.value.value if isinstance(field.value, yaml.ScalarNode) else ""
        if tag not in tags:
            self._problems.add(field.mark, _none_of(tag, tags))
        return tags.get(tag)

    def _struct(
        self, kind: types.StructType, written: Mapping[str, Field], mark: Mark
    ) -> msgspec.Struct | None:
        before = len(self._problems)
        known = {each.encode_name: each for each in kind.fields}
        values: dict[str, Any] = {}
        for name, field in written.items():
            if name in known:
                field_type = as_declared(kind.cls, known[name])
                values[known[name].name] = self.value(field.value, field_type, field.mark)
            elif name != kind.tag_field:
                sentence = unknown_field(name, sorted(known), self._hints)
                self._problems.add(field.key.start_mark, sentence)
        for name, each in known.items():
            if each.required and name not in written:
                self._problems.add(mark, f"{name!r} is missing; add it")
        if len(self._problems) > before:
            return None
        try:
            return kind.cls(**values)
        except BadField as error:
            name = next((name for name in known if known[name].name == error.place[0]), "")
            if name in written:
                mark = _last_mark(written[name], error.place[1:])
            self._problems.add(mark, str(error))
        except ValueError as error:
            self._problems.add(mark, str(error))
        return None

    def _check_length(self, length: int, kind: types.Type, mark: Mark) -> None:
        sentence = _outside(length, kind, _LENGTHS)
        if sentence:
            self._problems.add(mark, sentence)


def _last_mark(field: Field, steps: Sequence[str | int]) -> Mark:
    """Where to point for a part of a field: the last of the way there that is written."""
    *_, last = (field.mark, *(mark for mark, _ in marks_along(field.value, steps)))
    return last


def _scalar(node: yaml.ScalarNode, kind: types.Type) -> Any:
    """A scalar as one type has it; a ValueError says what to write instead."""
    text, tag = node.value, yaml_type(node)
    if isinstance(kind, types.NoneType) and tag == "null":
        return None
    if tag == "null":
        raise ValueError
    if isinstance(kind, types.Metadata):
        amount = quantity_of(kind.extra)
        assert amount is not None  # other metadata is left out among the options
        number = quantity(node, amount)
        return _within(number, number, kind.type, _BOUNDS, amount.write)
    if isinstance(kind, types.LiteralType):
        return _word(text, {str(value): value for value in kind.values})
    if isinstance(kind, types.EnumType):
        return _word(text, {str(member.value): member for member in kind.cls})
    if isinstance(kind, types.StrType):
        return _within(text, len(text), kind, _LENGTHS)
    if isinstance(kind, types.BoolType) and tag == "bool":
        return yaml.SafeLoader.bool_values[text.lower()]
    if isinstance(kind, types.IntType) and node.style is None and _INTEGER.fullmatch(text):
        whole = int(text)
        return _within(whole, whole, kind, _BOUNDS)
    if isinstance(kind, types.FloatType) and node.style is None and _NUMBER.fullmatch(text):
        decimal = float(text.replace("_", ""))
        if not math.isfinite(decimal):
            raise ValueError(f"{shown(text)} is too large; write a smaller number")
        return _within(decimal, decimal, kind, _BOUNDS)
    if tag in ("int", "float") and isinstance(kind, types.IntType | types.FloatType):
        raise ValueError(f"here must be {_names((kind,))} in plain digits, such as 12")
    raise ValueError(f"here must be {_names((kind,))}, not {_name(node)}")


def _word(text: str, words: Mapping[str, Any]) -> Any:
    if text not in words:
        raise ValueError(_none_of(text, words))
    return words[text]


def _none_of(text: str, words: Mapping[str, Any]) -> str:
    return f"{shown(text)} is none of: {', '.join(words)}"


def _within(
    value: Any,
    size: Any,
    kind: types.Type,
    bounds: Mapping[str, Any],
    write: Callable[[Any], str] = str,
) -> Any:
    sentence = _outside(size, kind, bounds, write)
    if sentence:
        raise ValueError(sentence)
    pattern = getattr(kind, "pattern", None)
    if pattern is not None and not re.search(pattern, value):
        raise ValueError(f"{shown(value)} is not of the form {pattern}")
    return value


def _outside(
    size: Any, kind: types.Type, bounds: Mapping[str, Any], write: Callable[[Any], str] = str
) -> str:
    """What to do about a number or length that is outside of what its type allows."""
    for name, (holds, sentence) in bounds.items():
        bound = getattr(kind, name, None)
        if bound is not None and not holds(size, bound):
            return f"this is {write(size)}; {sentence.format(write(bound))}"
    return ""


# --- types and nodes in plain words -------------------------------------------------------------


def _options(kind: types.Type) -> Iterator[types.Type]:
    """A type, or each type of a union; metadata only where it says how an amount is written."""
    if isinstance(kind, types.UnionType):
        for each in kind.types:
            yield from _options(each)
    elif isinstance(kind, types.Metadata) and quantity_of(kind.extra) is None:
        yield from _options(kind.type)
    else:
        yield kind


_NARROW_FIRST = (
    types.NoneType,
    types.BoolType,
    types.IntType,
    types.FloatType,
    types.Metadata,
    types.LiteralType,
    types.EnumType,
    types.StrType,
)


def _breadth(kind: types.Type) -> int:
    return _NARROW_FIRST.index(type(kind))


def _takes_text(options: Sequence[types.Type]) -> bool:
    return any(isinstance(option, types.StrType) for option in options)


def _names(options: Sequence[types.Type]) -> str:
    names = [_type_name(each) for each in options if not isinstance(each, types.NoneType)]
    return " or ".join(dict.fromkeys(names)) or "nothing"


def _type_name(kind: types.Type) -> str:
    if isinstance(kind, _FIELDS):
        return "fields with values"
    if isinstance(kind, _LIST):
        return "a list"
    if isinstance(kind, types.Metadata):
        amount = quantity_of(kind.extra)
        assert amount is not None
        return amount.what
    if isinstance(kind, types.LiteralType):
        return f"one of: {', '.join(map(str, kind.values))}"
    if isinstance(kind, types.EnumType):
        return f"one of: {', '.join(str(member.value) for member in kind.cls)}"
    return _KINDS[type(kind)]


def _name(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "fields with values"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    return _TAGGED.get(yaml_type(node), "text")
