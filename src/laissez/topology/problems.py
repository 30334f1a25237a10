"""What is wrong with a file: every problem at once, each shown at its place in the text.

A problem says what to do, not only what is wrong. Reading goes on after a problem wherever what
follows can still be understood, so that an operator mends a file in one go.
"""

import re
from typing import Protocol

from msgspec import Struct

EXCERPT_LENGTH = 100
SHOWN_LENGTH = 60

# The line breaks that YAML counts.
_LINE_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")


class Mark(Protocol):
    """A place in a text, counted from 0."""

    line: int
    column: int


class Problem(Struct, frozen=True):
    """One thing to mend; line and column count from 1."""

    line: int
    column: int
    message: str


class TopologyError(ValueError):
    """A description of a cluster that cannot be used, with everything that is wrong with it."""

    def __init__(self, name: str, text: str, problems: tuple[Problem, ...]) -> None:
        super().__init__(name, text, problems)
        self.name = name
        self.text = text
        self.problems = problems

    def __str__(self) -> str:
        lines = text_lines(self.text)
        return "\n".join(_rendered(self.name, lines, problem) for problem in self.problems)


class Problems:
    """The problems found so far."""

    def __init__(self) -> None:
        self._found: set[tuple[int, int, str]] = set()

    def add(self, mark: Mark, message: str) -> None:
        self._found.add((mark.line + 1, mark.column + 1, message))

    def __len__(self) -> int:
        return len(self._found)

    def in_order(self) -> tuple[Problem, ...]:
        return tuple(Problem(*found) for found in sorted(self._found))


def shown(text: str) -> str:
    """A text from the file, in quotes and not too long for a sentence."""
    return repr(text if len(text) <= SHOWN_LENGTH else text[:SHOWN_LENGTH] + "...")


def text_lines(text: str) -> list[str]:
    return _LINE_BREAK.split(text)


def _rendered(name: str, lines: list[str], problem: Problem) -> str:
    head = f"{name}:{problem.line}:{problem.column}: {problem.message}"
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
