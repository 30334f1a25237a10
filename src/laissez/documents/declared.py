"""The type of a field with its words in the order in which they were declared.

msgspec sorts the values of a Literal. The author of a Struct put them in an order that says
something (`hold`, then `loop`), and that is how they are shown to whoever writes another.
"""

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

from msgspec import Struct, inspect, structs

_PARTS = ("type", "item_type", "key_type", "value_type")


def as_declared(owner: type[Struct], field: inspect.Field) -> inspect.Type:
    """The type of a field of a Struct."""
    words = list(_words(get_type_hints(owner)[field.name]))
    return _in_order(field.type, words) if words else field.type


def _words(hint: Any) -> Iterator[Any]:
    """The values of every Literal in a type, from left to right."""
    for part in get_args(hint):
        if get_origin(hint) is Literal:
            yield part
        else:
            yield from _words(part)


def _in_order(kind: inspect.Type, words: list[Any]) -> inspect.Type:
    if isinstance(kind, inspect.LiteralType):
        return inspect.LiteralType(tuple(sorted(kind.values, key=words.index)))
    if isinstance(kind, inspect.UnionType):
        return inspect.UnionType(tuple(_in_order(each, words) for each in kind.types))
    parts = {name: _in_order(getattr(kind, name), words) for name in _PARTS if hasattr(kind, name)}
    return structs.replace(kind, **parts) if parts else kind
