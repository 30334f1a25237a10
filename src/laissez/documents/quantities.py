"""Fields of a document that people write as amounts, and programs have as numbers.

A Struct says `limit: DollarsPerHour` and has an `int`, for mypy as well as when it runs; how the
field is written goes along as metadata, which `reading` finds. The amount is read from the digits
that stand in the document: a bare 2.10 never becomes a binary float on its way.
"""

import re
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import yaml
from msgspec import Meta

from laissez.amounts import (
    BadAmount,
    basis_points,
    duration_text,
    micros_per_hour,
    microseconds,
)
from laissez.documents.problems import shown

BASIS_POINTS = 10_000
_WRITTEN = "laissez.documents"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_BARE_SHARE = re.compile(r"([01])(?:\.([0-9]{1,4}))?")


class Quantity(NamedTuple):
    """How a kind of amount is read, a text to a number, or `BadAmount`; and how it is written.

    Where a number needs a unit, `unit` is the one that was probably meant if it has none.
    """

    what: str
    read: Callable[[str], int | float]
    write: Callable[[Any], str]
    unit: str = ""


def quantity(node: yaml.ScalarNode, kind: Quantity) -> int | float:
    """The amount that a node holds; a ValueError says what to write instead."""
    if kind.unit and node.tag in _NUMBERS:
        number = node.value if re.fullmatch(r"[0-9.]+", node.value) else "12"
        raise ValueError(f"{kind.what} needs a unit; write {number}{kind.unit}")
    try:
        return kind.read(node.value)
    except BadAmount as error:
        raise ValueError(f"{shown(node.value)} {error}") from None


def quantity_of(extra: object) -> Quantity | None:
    """The quantity that the metadata of a type speaks of."""
    found = extra.get(_WRITTEN) if isinstance(extra, dict) else None
    return found if isinstance(found, Quantity) else None


def duration(unit: str) -> Meta:
    """Metadata of a duration that is mostly written in this unit: Annotated[int, duration("h")]."""
    return Meta(extra={_WRITTEN: Quantity("a duration", microseconds, duration_text, unit)})


def _micros(text: str) -> int:
    try:
        return micros_per_hour(text)
    except BadAmount as error:
        raise BadAmount(str(error).replace("dollars per hour", "dollars")) from None


def _dollars(micros: int) -> str:
    return f"{micros / 1_000_000:.6f}".rstrip("0").rstrip(".")


def _percent(points: int) -> str:
    return f"{points / 100:g}%"


def _share(text: str) -> float:
    bare = _BARE_SHARE.fullmatch(text)
    if bare:
        points = int(bare[1] + (bare[2] or "").ljust(4, "0"))
    else:
        try:
            points = basis_points(text)
        except BadAmount:
            raise BadAmount("is not a share; write 25% or 0.25") from None
    if points > BASIS_POINTS:
        raise BadAmount("is more than all; write a share such as 25% or 0.25")
    return points / BASIS_POINTS


Dollars = Annotated[
    int, Meta(extra={_WRITTEN: Quantity("an amount in dollars", _micros, _dollars)})
]
"""Written 2.50; in micro-dollars."""

DollarsPerHour = Annotated[
    int, Meta(extra={_WRITTEN: Quantity("a price in dollars per hour", micros_per_hour, _dollars)})
]
"""Written 2.50; in micro-dollars per hour."""

Duration = Annotated[int, duration("s")]
"""Written 30m or 1h30m; in microseconds."""

Percentage = Annotated[
    int, Meta(extra={_WRITTEN: Quantity("a percentage", basis_points, _percent, "%")})
]
"""Written 25% or 2500bp, of any size; in basis points."""

PositiveNumber = Annotated[float, Meta(gt=0)]
"""Written 300 or 0.5; above 0."""

Share = Annotated[float, Meta(extra={_WRITTEN: Quantity("a share", _share, "{:.4g}".format)})]
"""Written 25% or 0.25, at most all; from 0 to 1."""
