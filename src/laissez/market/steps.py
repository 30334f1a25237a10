"""Steps: what pressed, when.

A book remembers its past as a list of steps, in order of time. A step says what pressed from its
instant on, until the next; before the first step nothing did.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection
from typing import Protocol

NEVER = 1 << 63
"""Later than every instant, above every rate."""

Pressure = tuple[int, int, str | None, int]
"""(floor, first, by, second): the floor, the highest price, its tenant, the highest of the rest."""

PressureStep = tuple[int, int, int, str | None, int]
"""(at, floor, first, by, second)"""

NO_PRESSURE: Pressure = (0, 0, None, 0)


class PressedNode(Protocol):
    """The scope or leaf at which something presses, as far as its past is concerned."""

    path: str
    oldest: int

    @property
    def parent(self) -> PressedNode | None: ...

    @property
    def is_leaf(self) -> bool: ...

    @property
    def holders(self) -> Collection[str]: ...

    @property
    def held(self) -> int: ...


class Past(Protocol):
    """Something that has steps: a book."""

    node: PressedNode
    steps: list[PressureStep]


def step_index(steps: list[PressureStep], at: int) -> int:
    """The index of the step in force at `at`; -1 if nothing pressed yet."""
    if steps and steps[-1][0] <= at:
        return len(steps) - 1
    return bisect_right(steps, (at, NEVER, 0, None, 0)) - 1


def steps_before(steps: list[PressureStep], at: int) -> int:
    """How many steps begin before `at`."""
    if steps and steps[-1][0] < at:
        return len(steps)
    return bisect_left(steps, (at, -1, 0, None, 0))


def pressing_at(steps: list[PressureStep], at: int) -> Pressure:
    """What pressed at `at`."""
    index = step_index(steps, at)
    return steps[index][1:] if index >= 0 else NO_PRESSURE


def together(one: Pressure, two: Pressure) -> Pressure:
    """What two books press with, read as one."""
    floor, first, by, second = one
    floor2, first2, by2, second2 = two
    if floor2 > floor:
        floor = floor2
    if by == by2:
        return floor, max(first, first2), by, max(second, second2)
    if first >= first2:
        return floor, first, by, max(second, first2)
    return floor, first2, by2, max(second2, first)
