"""From text to YAML nodes that know their line and column, and nothing more.

Nodes are composed, never constructed: no YAML type is applied here, so a name `no` stays `no` and
a price of 2.10 keeps its digits. Anchors, aliases and tags are refused: an alias can make a small
file very large, and a reader has to jump. So every node is reached in exactly one way.

What YAML says about syntax is turned into what to do, above all for the trap of our files: a bare
`g[0-7]` or `{host}` where YAML takes the bracket for its own.
"""

import re

import yaml
from yaml.error import Mark, MarkedYAMLError
from yaml.reader import ReaderError

from laissez.documents.problems import Problems, shown, text_lines

CHARACTERS_MAX = 1_000_000
NESTING_MAX = 12
NEAR = 100

START = Mark("", 0, 0, 0, None, 0)

_PAIR = r"[\[{][^\[\]{}]*[\]}]"
_WORD_WITH_BRACKETS = re.compile(rf"[^\s,:{{}}\[\]\"']+(?:{_PAIR}[^\s,:{{}}\[\]]*)+")
_TEXT_AFTER_BRACKET = re.compile(rf"{_PAIR}\s*(?:[^\s,\[\]{{}}]|{_PAIR})*")
_TEXT_AFTER_QUOTE = re.compile(r"\"[^\"]*\"\s*[^\s,]*|'[^']*'\s*[^\s,]*")
# How YAML says that a bracket or quote was closed, and the text went on.
_GOES_ON = re.compile(r"'<scalar>'|<block end>, but found '[\[{]'")

_NEVER_CLOSED = "a quote or bracket that is opened here is never closed; close it"
# What YAML says, in part, and what to do about it.
_ADVICE = {
    "'\\t'": "a tab can't indent; use spaces",
    "another document": "a second document begins here; keep one, without '---' between",
    "nested too deeply": "this is nested deeper than any document here; check the brackets",
    "end of stream": _NEVER_CLOSED,
    "stream end": _NEVER_CLOSED,
    "sequence entries are not allowed": "a list with dashes begins on a line of its own; move it",
    "could not find expected ':'": "this line has no ':'; write 'key: value', or check the indent",
    "mapping values are not allowed": (
        "a second ':' in one line, or an indent that does not fit; quote the text or align it"
    ),
}


def compose(text: str, problems: Problems, *, to_shorten: str = "") -> yaml.Node | None:
    """The root node of a text; None if it is empty, or if there are problems.

    `to_shorten` says what to do about a text that is too long, where the format has a way.
    """
    if len(text) > CHARACTERS_MAX:
        advice = f"; {to_shorten}" if to_shorten else ""
        problems.add(
            START, f"this is too long; keep it below {CHARACTERS_MAX:,} characters{advice}"
        )
        return None
    try:
        loader = _Loader(text, problems)
    except ReaderError as error:
        sign = f"U+{ord(text[error.position]):04X}"
        mark = _mark_at(text, error.position)
        problems.add(mark, f"this is not YAML: the character {sign} can't be in it; remove it")
        return None
    try:
        root = loader.get_single_node()
    except MarkedYAMLError as error:
        mark = loader.place_to_mend(error)
        problems.add(mark, f"this is not YAML: {_advice(error, mark, text_lines(text))}")
        return None
    except (ValueError, OverflowError):  # an escape for a character that does not exist
        mark = loader.get_mark()
        problems.add(mark, "this is not YAML: a number or escape is out of range; write plain text")
        return None
    return None if len(problems) else root


class _Loader(yaml.SafeLoader):
    """Composes nodes, and notes what a document may not contain."""

    def __init__(self, text: str, problems: Problems) -> None:
        super().__init__(text)
        self._problems = problems
        self._open: list[Mark] = []

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            self.get_event()  # type: ignore[no-untyped-call]
            self._refuse(event, f"'*{event.anchor}' repeats another part of the file; write it out")
            return yaml.ScalarNode("", "")  # never looked at: there is a problem now
        if event.anchor is not None:
            self._refuse(event, f"'&{event.anchor}' names a part of the file; remove it")
            event.anchor = None
        if event.tag is not None:
            self._refuse(event, f"the tag {shown(event.tag)} gives a type; remove it")
        if len(self._open) == NESTING_MAX:
            raise MarkedYAMLError(problem="nested too deeply", problem_mark=event.start_mark)
        self._open.append(event.start_mark)
        node = super().compose_node(parent, index)
        self._open.pop()
        return node

    def place_to_mend(self, error: MarkedYAMLError) -> Mark:
        """What was never closed or finished is mended where it began, the rest where it shows."""
        problem = error.problem or ""
        if "stream end" in problem and self._open:
            return self._open[-1]
        if "end of stream" in problem or "could not find expected ':'" in problem:
            return error.context_mark or self.get_mark()
        return error.problem_mark or error.context_mark or self.get_mark()

    def _refuse(self, event: yaml.Event, sentence: str) -> None:
        assert event.start_mark is not None
        self._problems.add(event.start_mark, sentence)


def _mark_at(text: str, position: int) -> Mark:
    before = text_lines(text[:position])
    return Mark("", position, len(before) - 1, len(before[-1]), None, 0)


def _advice(error: MarkedYAMLError, mark: Mark, lines: list[str]) -> str:
    """What to do about an error of syntax."""
    problem = error.problem or "it is not clear what this is"
    line = lines[mark.line] if mark.line < len(lines) else ""
    for sign, advice in _ADVICE.items():
        if sign in problem:
            return advice
    trap = _trap(problem, line, mark.column)
    if trap:
        return trap
    if "cannot start any token" in problem:
        return f"a text can't begin with {line[mark.column : mark.column + 1]!r}; put it in quotes"
    if "parsing a flow" in (error.context or "") and error.context_mark:
        opened = f"opened in line {error.context_mark.line + 1}"
        return f"a comma is missing here, or the bracket {opened} is not closed; add it"
    if "<block end>" in problem:
        return "this does not fit what stands before it; align it with the keys beside it"
    context = f"{error.context}: " if error.context else ""
    return f"{context}{problem}; check quotes, brackets and indents"


def _trap(problem: str, line: str, column: int) -> str:
    """What to do where text with a bracket or quote in it was written bare."""
    if "but got '['" in problem or "but got '{'" in problem:
        word = _around(_WORD_WITH_BRACKETS, line, column)
        if word:
            return f'within {{...}} or [...] a text with brackets needs quotes; write "{word}"'
    if _GOES_ON.search(problem):
        word = _around(_TEXT_AFTER_BRACKET, line, column)
        if word:
            return f'text that begins with a bracket needs quotes; write "{word}"'
        word = _around(_TEXT_AFTER_QUOTE, line, column)
        if word:
            return f"the text goes on after its closing quote; put quotes around all of {word}"
    return ""


def _around(shape: re.Pattern[str], line: str, column: int) -> str:
    """The text of a certain shape that begins before a column and reaches it, if it is near."""
    start = max(0, column - NEAR)
    near = line[start : column + NEAR]
    matches = (
        match[0] for match in shape.finditer(near) if match.start() < column - start <= match.end()
    )
    return next(matches, "")
