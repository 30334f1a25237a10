"""A document that was read: its value, and the line of every place in it.

A place is written as msgspec writes it, `$.scopes[2].floor`, or as a tuple of keys and indices
where a key has dots or brackets of its own. So checks that come after reading, which a type can't
express, point at a line too.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

import msgspec
import yaml
from yaml.error import Mark

from laissez.documents.nodes import is_empty, marks_along
from laissez.documents.problems import BadDocument, Problems
from laissez.documents.reading import Reader
from laissez.documents.source import START, compose

T = TypeVar("T")
FieldPlace = str | tuple[str | int, ...]

_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


class Document(Generic[T]):
    def __init__(self, value: T, text: str, root: yaml.Node, file_name: str) -> None:
        self.value = value
        self.file_name = file_name
        self._text = text
        self._root = root

    def has(self, place: FieldPlace) -> bool:
        """Whether something is written at a place; else its value is a default."""
        return len(list(self._way(place))) > len(_steps(place))

    def wrong(self, place: FieldPlace, sentence: str) -> BadDocument:
        """To raise: a problem at a place, or at the last part of the way there that exists."""
        *_, (mark, _) = self._way(place)
        problems = Problems()
        problems.add(mark, sentence)
        return BadDocument(self.file_name, self._text, problems.in_order())

    def _way(self, place: FieldPlace) -> Iterator[tuple[Mark, yaml.Node]]:
        """Where to point for each part of the way to a place, as far as it exists."""
        yield self._root.start_mark, self._root
        yield from marks_along(self._root, _steps(place))


def read(
    text: str, shape: type[T], *, file_name: str, hints: Mapping[str, str] | None = None
) -> Document[T]:
    """The document that a text holds, or BadDocument with everything that is wrong with it.

    `hints` say what to do about keys that many will write, and that are not known where they stand.
    """
    problems = Problems()
    kind = msgspec.inspect.type_info(shape)
    root = compose(text, problems)
    if root is not None and not is_empty(root):
        value: T = Reader(problems, hints or {}).value(root, kind, root.start_mark)
        if not len(problems):
            return Document(value, text, root, file_name)
    elif not len(problems):
        problems.add(START, "the file is empty: here must be fields with values, not nothing")
    raise BadDocument(file_name, text, problems.in_order())


def _steps(place: FieldPlace) -> tuple[str | int, ...]:
    if isinstance(place, tuple):
        return place
    return tuple(key or int(index) for key, index in _STEP.findall(place))
