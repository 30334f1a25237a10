"""What is wrong with a document: all of it at once, each problem shown at its place in the text.

Reading goes on after a problem wherever what follows can still be understood, so that a file is
mended in one go. A sentence says what to do, not only what is wrong.
"""

import re
from typing import NamedTuple, Protocol

EXCERPT_LENGTH = 100
SHOWN_LENGTH = 60

# The line breaks that YAML counts.
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


class Mark(Protocol):
    """A place in a text, counted from 0."""

    line: int
    column: int


class Problem(NamedTuple):
    """One thing to mend; line and column count from 1."""

    line: int
    column: int
    sentence: str


class BadDocument(ValueError):
    """A document that can't be used, with what there is to mend, in the order of its lines."""

    def __init__(self, file_name: str, text: str, problems: tuple[Problem, ...]) -> None:
        super().__init__(file_name, text, problems)
        self.file_name = file_name
        self.text = text
        self.problems = problems

    def __str__(self) -> str:
        lines = text_lines(self.text)
        return "\n".join(_rendered(self.file_name, lines, each) for each in self.problems)


class BadField(ValueError):
    """For a `__post_init__`: one field of the Struct, and what to do about it.

    For a part of a field, the way there: `("rows", "h100/r1")`, `("windows", 2, "opens")`.
    """

    def __init__(self, field: str | tuple[str | int, ...], sentence: str) -> None:
        super().__init__(sentence)
        self.place = (field,) if isinstance(field, str) else field


class Problems:
    """The problems found so far."""

    def __init__(self) -> None:
        self._found: set[Problem] = set()

    def add(self, mark: Mark, sentence: str) -> None:
        # A line break within a sentence would look like the next problem.
        self._found.add(Problem(mark.line + 1, mark.column + 1, " ".join(sentence.split())))

    def __len__(self) -> int:
        return len(self._found)

    def in_order(self) -> tuple[Problem, ...]:
        return tuple(sorted(self._found))


def shown(text: str) -> str:
    """A text from the document, in quotes and not too long for a sentence."""
    return repr(text if len(text) <= SHOWN_LENGTH else text[:SHOWN_LENGTH] + "...")


def text_lines(text: str) -> list[str]:
    return _LINE_BREAK.split(text)


def _rendered(file_name: str, lines: list[str], problem: Problem) -> str:
    head = f"{file_name}:{problem.line}:{problem.column}: {problem.sentence}"
    line = lines[problem.line - 1] if problem.line <= len(lines) else ""
    if not line.strip():
        return head
    before = problem.column - 1
    start = max(0, before - EXCERPT_LENGTH // 2) if len(line) > EXCERPT_LENGTH else 0
    excerpt = "".join(
        sign if sign.isprintable() or sign == "\t" else "\ufffd"
        for sign in line[start : start + EXCERPT_LENGTH]
    )
    # A tab in the line is a tab below it, so that the caret stays under its place.
    indent = "".join("\t" if sign == "\t" else " " for sign in line[start:before])
    return f"{head}\n    {excerpt}\n    {indent}^"
