"""Names with ranges: `r[1-40]` stands for r1 to r40, `r[01-02]n[1-3,7]` for eight names.

Numbers are written in brackets, single or as a range, parted by commas; several brackets multiply
out, the last one fastest. A range is zero padded when its ends are, and then both ends have the
same number of digits: nothing is guessed. The count is known before anything is expanded.
"""

import re
from itertools import product
from math import prod

from msgspec import Struct

DIGITS_MAX = 18

_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_ITEM = re.compile(r"([0-9]+)(?:-([0-9]+))?")


class BadRange(ValueError):
    """The rest of a sentence that began with the name: what is wrong, and what to write."""


class Run(Struct, frozen=True):
    """The numbers from `first` to `last`, padded with zeros to `width` digits."""

    first: int
    last: int
    width: int

    @property
    def count(self) -> int:
        return self.last - self.first + 1

    def texts(self) -> list[str]:
        return [str(number).zfill(self.width) for number in range(self.first, self.last + 1)]


class Pattern(Struct, frozen=True):
    """A name, part by part: text, or the runs of one pair of brackets."""

    parts: tuple[str | tuple[Run, ...], ...]

    @property
    def count(self) -> int:
        return prod(
            sum(run.count for run in part) for part in self.parts if isinstance(part, tuple)
        )

    def names(self) -> list[str]:
        choices = [
            [part] if isinstance(part, str) else [text for run in part for text in run.texts()]
            for part in self.parts
        ]
        return ["".join(chosen) for chosen in product(*choices)]


def expand(text: str) -> list[str]:
    """All names that a name with ranges stands for, in order. Raises `BadRange`."""
    return parse(text).names()


def parse(text: str) -> Pattern:
    if "[" not in text and "]" not in text:
        return Pattern((text,))
    # Split at brackets: texts at even places, what was in the brackets at odd ones.
    pieces = _BRACKETS.split(text)
    if any("[" in piece or "]" in piece for piece in pieces[::2]):
        raise BadRange("has a bracket without its partner; write a range like r[1-40]")
    return Pattern(
        tuple(_runs(text, piece) if at % 2 else piece for at, piece in enumerate(pieces))
    )


def _runs(whole: str, inside: str) -> tuple[Run, ...]:
    return tuple(_run(whole, item.strip()) for item in inside.split(","))


def _run(whole: str, item: str) -> Run:
    if not item:
        raise BadRange("has no number between its brackets or commas; write a range like r[1-40]")
    match = _ITEM.fullmatch(item)
    if match is None:
        raise BadRange(
            f"has {item!r} in brackets, where only numbers can be; "
            "write a range like r[1-40], or list the names: [ra, rb]"
        )
    first, last = match[1], match[2] or match[1]
    if max(len(first), len(last)) > DIGITS_MAX:
        raise BadRange(f"has a number of more than {DIGITS_MAX} digits; write a shorter one")
    if int(first) > int(last):
        mended = whole.replace(item, f"{last}-{first}", 1)
        raise BadRange(f"counts down; write {mended}")
    padded = any(len(end) > 1 and end.startswith("0") for end in (first, last))
    if padded and len(first) != len(last):
        width = max(len(first), len(last))
        raise BadRange(
            f"is padded with zeros at one end only; write {first.zfill(width)}-{last.zfill(width)}"
            f" or {int(first)}-{int(last)}"
        )
    return Run(int(first), int(last), len(first) if padded else 0)
