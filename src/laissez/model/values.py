"""Small values that questions answer with, and the bounds of money and time."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, overload

from laissez.model.message import Message

MAX_RATE = 2**63 - 1
MAX_TIME = 2**63 - 1
MICROS_PER_DOLLAR = 1_000_000
CHARGE_UNITS_PER_MICRO_DOLLAR = 3_600_000_000

Cause = Literal["floor", "demand", "hold", "notice", "commit"]
Segment = tuple[int, int, int, Cause]
"""(from, to, rate, cause): what was charged, when, and why."""


class Quote(Message, frozen=True):
    """What a resource under a scope would cost now, and whether one is free."""

    rate: int
    idle: bool


class OpenOrder(Message, frozen=True):
    """A live order, as its tenant sees it; a gang has no price."""

    tenant: str
    order: str
    scope: str
    price: int | None
    limit: int
    expires: int | None
    count: int = 1
    within: int | None = None


class Segments(Sequence[Segment]):
    """An immutable sequence of segments that is worked out when first read.

    Explaining a long holding can take thousands of segments, and most explanations are never
    read: a transfer must not wait for them. Equal to any sequence with the same segments.
    """

    __slots__ = ("_explain", "_segments")

    def __init__(self, explain: Callable[[], Sequence[Segment]] | Sequence[Segment]) -> None:
        self._segments: tuple[Segment, ...] | None = None
        self._explain: Callable[[], Sequence[Segment]] | None = None
        if callable(explain):
            self._explain = explain
        else:
            self._segments = tuple(explain)

    def _read(self) -> tuple[Segment, ...]:
        if self._segments is None:
            assert self._explain is not None
            self._segments = tuple(self._explain())
            self._explain = None
        return self._segments

    def __len__(self) -> int:
        return len(self._read())

    @overload
    def __getitem__(self, index: int) -> Segment: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Segment]: ...
    def __getitem__(self, index: int | slice) -> Segment | Sequence[Segment]:
        return self._read()[index]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._read())

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, Segments | tuple | list):
            return self._read() == tuple(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._read())

    def __repr__(self) -> str:
        return repr(self._read())
