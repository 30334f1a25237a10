"""Paths folded back into ranges, for people to read, and only where that is exact.

The tree of paths is folded from its leaves to its roots, without being built. What lies below a
path is its shape: a short tuple of folds, shared by all paths that have the same below them. Names
beside each other are cut into texts and numbers (`r`, 1, `n`, 2) and treated in the same way, token
by token: numbers with exactly the same continuation become one range. Expanding the folds
(`ranges.expand`) gives the paths again, each once. Types of resource are never folded together,
and a path that has a bracket of its own is left as it is.
"""

import re
from collections import defaultdict
from collections.abc import Iterable

from msgspec import Struct

from laissez.topology.ranges import DIGITS_MAX

_NUMBER = re.compile(r"([0-9]+)")


class Fold(Struct, frozen=True, gc=False):
    """All the paths that a path with ranges stands for, and how many they are."""

    pattern: str
    count: int


Folds = tuple[Fold, ...]
Next = tuple[str, int]
"""A name, and the number of the shape below it."""

END: Folds = (Fold("", 1),)


def describe(paths: Iterable[str]) -> tuple[str, ...]:
    """One line for each fold, such as `h100/us-east/r[1-40]/g[0-7]  — 320 resources`."""
    return tuple(
        f"{each.pattern}  — {each.count:,} {'resource' if each.count == 1 else 'resources'}"
        for each in fold(paths)
    )


def fold(paths: Iterable[str]) -> Folds:
    """The paths in exact patterns, in the order in which people sort."""
    tips: defaultdict[int, list[str]] = defaultdict(list)
    bare = []
    for path in dict.fromkeys(paths):
        if "[" in path or "]" in path:
            bare.append(Fold(path, 1))
        else:
            tips[path.count("/")].append(path)
    shapes = _Shapes()
    below: dict[str, int] = {}
    for depth in range(max(tips, default=0), 0, -1):
        shapes.end_at(tips[depth], below)
        siblings: defaultdict[str, list[Next]] = defaultdict(list)
        for path, shape in below.items():
            parent, _, name = path.rpartition("/")
            siblings[parent].append((name, shape))
        below = {parent: shapes.of(tuple(sorted(names))) for parent, names in siblings.items()}
    shapes.end_at(tips[0], below)
    roots = (
        Fold(root + each.pattern, each.count)
        for root, shape in below.items()
        for each in shapes.folds[shape]
    )
    return tuple(sorted((*roots, *bare), key=_order))


class _Shapes:
    """What can lie below a path, each shape once and known by its number."""

    def __init__(self) -> None:
        self.folds: list[Folds] = [END]
        self._numbers: dict[Folds, int] = {END: 0}
        self._known: dict[tuple[Next, ...], int] = {}

    def end_at(self, tips: list[str], below: dict[str, int]) -> None:
        """Let paths end here, although others may go on."""
        for path in tips:
            goes_on = below.get(path)
            below[path] = 0 if goes_on is None else self._number((*self.folds[goes_on], *END))

    def of(self, siblings: tuple[Next, ...]) -> int:
        """The shape of a parent with these children."""
        known = self._known.get(siblings)
        if known is None:
            known = self._known[siblings] = self._number(
                _fold_siblings({name: self.folds[shape] for name, shape in siblings})
            )
        return known

    def _number(self, folds: Folds) -> int:
        ordered = tuple(sorted(folds, key=_order))
        if ordered not in self._numbers:
            self._numbers[ordered] = len(self.folds)
            self.folds.append(ordered)
        return self._numbers[ordered]


def _fold_siblings(siblings: dict[str, Folds]) -> Folds:
    """Names beside each other, folded from their last token to their first."""
    tips: defaultdict[int, list[tuple[str, ...]]] = defaultdict(list)
    for name in siblings:
        tokens = ("/", *(token for token in _NUMBER.split(name) if token))
        tips[len(tokens)].append(tokens)
    after: dict[tuple[str, ...], Folds] = {}
    for depth in range(max(tips), 0, -1):
        for tokens in tips[depth]:
            after[tokens] = (*after.get(tokens, ()), *siblings["".join(tokens[1:])])
        following: defaultdict[tuple[str, ...], list[tuple[str, Folds]]] = defaultdict(list)
        for tokens, folds in after.items():
            following[tokens[:-1]].append((tokens[-1], tuple(sorted(folds, key=_order))))
        after = {before: _folded(nexts) for before, nexts in following.items()}
    return after[()]


def _folded(following: list[tuple[str, Folds]]) -> Folds:
    """What can follow a token, numbers with the same continuation folded together."""
    numbers: defaultdict[Folds, list[str]] = defaultdict(list)
    folds: list[Fold] = []
    for token, continuation in following:
        if _is_number(token):
            numbers[continuation].append(token)
        else:
            folds += (Fold(token + each.pattern, each.count) for each in continuation)
    for continuation, tokens in numbers.items():
        bracket = _bracket(tokens)
        folds += (Fold(bracket + each.pattern, each.count * len(tokens)) for each in continuation)
    return tuple(folds)


def _is_number(token: str) -> bool:
    return token.isascii() and token.isdigit() and len(token) <= DIGITS_MAX


def _bracket(numbers: list[str]) -> str:
    """Numbers as the shortest list of ranges; a number of its own stays bare."""
    if len(numbers) == 1:
        return numbers[0]
    padded_widths = {len(number) for number in numbers if number != "0" and number[0] == "0"}
    by_width = sorted(
        (len(number) if len(number) in padded_widths else 0, int(number)) for number in numbers
    )
    runs: list[tuple[int, int, int]] = []
    for width, number in by_width:
        if runs and runs[-1][0] == width and runs[-1][2] == number - 1:
            runs[-1] = (width, runs[-1][1], number)
        else:
            runs.append((width, number, number))
    return "[" + ",".join(_run(*run) for run in runs) + "]"


def _run(width: int, first: int, last: int) -> str:
    start, end = str(first).zfill(width), str(last).zfill(width)
    return start if first == last else f"{start}-{end}"


def _order(each: Fold) -> list[tuple[int, str]]:
    """As people sort: r2 before r10. Texts and numbers take turns, so like meets like."""
    pieces = _NUMBER.split(each.pattern)
    return [
        (len(piece.lstrip("0")), piece) if at % 2 else (0, piece) for at, piece in enumerate(pieces)
    ]
