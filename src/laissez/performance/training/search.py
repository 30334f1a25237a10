"""The search for the fastest plan within one region, over shapes and numbers of replicas.

A region is a set of places and the distance that replicas in it may be apart. Each kind of GPU
there has options: a candidate, and room for so many replicas of it. Chosen are one or two kinds,
for each an option and a number of replicas.

Time: for given options the iteration is (batch + sum of speed x overhead) / (sum of speeds), or
the least time of a replica if that is longer. One more replica of an option never makes it longer
as long as it's above that option's least time, so the fastest plan takes all there is room for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from laissez.performance.training.options import Option, Options

# Two plans closer than this are equal: then fewer GPUs win, then the one found first.
TOLERANCE = 1e-9


class Choice(NamedTuple):
    """So many replicas of an option."""

    option: Option
    replicas: int


class FoundPlan(NamedTuple):
    """A plan in the making: how good, how fast."""

    score: float
    iteration_s: float
    choices: tuple[Choice, ...]

    @property
    def gpus(self) -> int:
        return sum(one.replicas * one.option.candidate.shape.gpus for one in self.choices)

    def beats(self, other: FoundPlan | None) -> bool:
        if other is None:
            return True
        slack = TOLERANCE * max(abs(self.score), abs(other.score))
        if abs(self.score - other.score) > slack:
            return self.score > other.score
        return self.gpus < other.gpus


def time_of(choices: Iterable[Choice], batch: int) -> float:
    speed = held_back = least = 0.0
    for option, replicas in choices:
        of_kind = replicas * option.candidate.samples_per_s
        speed += of_kind
        held_back += of_kind * option.candidate.overhead_s
        least = max(least, option.candidate.least_s)
    return max((batch + held_back) / speed, least)


def fastest(kinds: Sequence[Options], batch: int) -> FoundPlan | None:
    """The plan that takes one option of each of one or two kinds, with the shortest iteration."""
    if not all(each.every for each in kinds):
        return None
    best = _fastest_of([each.leading for each in kinds], batch)
    least_s = max(one.candidate.least_s for each in kinds for one in each.leading)
    if best.iteration_s > least_s:
        return best
    # Where least times count, others may be faster, or as fast with fewer GPUs.
    return trimmed(_fastest_of([each.every for each in kinds], batch), batch)


def _fastest_of(kinds: Sequence[Sequence[Option]], batch: int) -> FoundPlan:
    lines = [[_line(option) for option in options] for options in kinds]
    best: FoundPlan | None = None
    best_s = float("inf")
    for speed, held_back, least, first in lines[0]:
        for more_speed, more_held_back, more_least, second in lines[1] if lines[1:] else [_NONE]:
            time_s = (batch + held_back + more_held_back) / (speed + more_speed)
            if time_s < least:
                time_s = least
            if time_s < more_least:
                time_s = more_least
            if time_s <= best_s * (1 + TOLERANCE):
                found = FoundPlan(-time_s, time_s, (*first, *second))
                if found.beats(best):
                    best, best_s = found, time_s
    assert best is not None
    return best


# speed, speed x overhead, least time, and the choice itself
_Line = tuple[float, float, float, tuple[Choice, ...]]
_NONE: _Line = (0.0, 0.0, 0.0, ())


def _line(option: Option) -> _Line:
    """An option with as many replicas as there is room for."""
    candidate = option.candidate
    speed = option.room * candidate.samples_per_s
    choice = Choice(option, option.room)
    return speed, speed * candidate.overhead_s, candidate.least_s, (choice,)


def trimmed(found: FoundPlan, batch: int) -> FoundPlan:
    """The same without replicas that don't make it faster (where a replica's least time is what
    counts)."""
    choices = list(found.choices)
    for index in reversed(range(len(choices))):
        option, most = choices[index]
        fewest, enough = 1, most
        while fewest < enough:
            middle = (fewest + enough) // 2
            choices[index] = Choice(option, middle)
            if time_of(choices, batch) <= found.iteration_s * (1 + TOLERANCE):
                enough = middle
            else:
                fewest = middle + 1
        choices[index] = Choice(option, enough)
    return FoundPlan(found.score, time_of(choices, batch), tuple(choices))
