"""The search for the plan with the greatest worth in one region: value of throughput less costs.

With costs the number of replicas matters. Throughput is concave in the number of replicas of one
option where it rises at all, costs are convex (cheapest first), and what is useful is concave in
throughput: so for each number of the first kind the best number of the second is found by
bisection.

Three bounds keep it short, and none of them loses the best plan:

- A window. No plan gets its throughput for less than the cheapest GPU's cost per speed. So only
  iteration times within a window can beat the best plan so far, and often none.
- At a given time a replica is good for speed x (time - overhead) samples, a straight line. An
  option is left out if another does as well on the same GPUs at both ends of the window.
- Two kinds together are never faster than the sum of what each would be without the other. So the
  worths of two parts alone, added up, bound what they reach together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from laissez.performance.pace import FULL_VALUE_UP_TO, useful_pace
from laissez.performance.training.options import Option, Options
from laissez.performance.training.search import TOLERANCE, Choice, FoundPlan, time_of

_HALVINGS = 20


class Value(NamedTuple):
    """What throughput is worth, in the unit of costs."""

    per_unit: float
    reference_samples_per_s: float
    needed_pace: float | None

    def of(self, samples_per_s: float) -> float:
        pace = samples_per_s / self.reference_samples_per_s
        needed = self.needed_pace
        return self.per_unit * (pace if needed is None else useful_pace(pace, needed))

    def window(self, most: float, cost: float, at_least: float) -> tuple[float, float] | None:
        """Between which throughputs, up to `most`, the value less `cost` for each unit of
        throughput reaches so much; a little wider, or None if nowhere."""
        peaks = [most]
        if self.needed_pace is not None:
            peaks.append(
                min(most, FULL_VALUE_UP_TO * self.needed_pace * self.reference_samples_per_s)
            )
        peak = max(peaks, key=lambda throughput: self.of(throughput) - cost * throughput)
        # Rounding must not hide a plan that is as good.
        at_least -= TOLERANCE * abs(at_least)
        if self.of(peak) - cost * peak < at_least:
            return None

        def edge(outside: float) -> float:
            inside = peak
            for _ in range(_HALVINGS):
                middle = (inside + outside) / 2
                if self.of(middle) - cost * middle < at_least:
                    outside = middle
                else:
                    inside = middle
            return outside

        reaches = self.of(most) - cost * most >= at_least
        return edge(0.0), most if reaches else edge(most)


# What the cheapest 0, 1, 2, ... replicas of an option cost.
CostsOf = Callable[[Option], Sequence[float]]


def worthiest(
    kinds: Sequence[Options],
    batch: int,
    value: Value,
    costs_of: CostsOf,
    cheapest: Sequence[float],
    quickest: FoundPlan,
    best: FoundPlan,
) -> FoundPlan:
    """The plan that takes one option of each of one or two kinds with the greatest value less
    costs, or the `best` so far if none beats it. `cheapest` is the least cost of a GPU, by kind;
    `quickest` is the fastest plan, whatever it costs."""
    cost = min(
        cost * option.candidate.shape.gpus / option.candidate.samples_per_s
        for options, cost in zip(kinds, cheapest, strict=True)
        for option in options.every
    )
    window = value.window(batch / quickest.iteration_s, cost, best.score)
    if window is None:
        return best
    slow, fast = window
    times = (batch / fast, batch / slow if slow > 0 else float("inf"))
    search = _Search(batch, value)
    parts = [
        [_Priced(option, costs_of(option)) for option in _unreplaced(options.every, times)]
        for options in kinds
    ]
    alone = [[search.best_number(_NOTHING, priced) for priced in options] for options in parts]
    if len(kinds) == 1:
        for found in alone[0]:
            best = found if found.beats(best) else best
        return best
    for first, first_alone in zip(parts[0], alone[0], strict=True):
        for second, second_alone in zip(parts[1], alone[1], strict=True):
            if first_alone.score + second_alone.score >= best.score:
                best = search.best_pair(first, second, second_alone.score, best)
    return best


class _Priced(NamedTuple):
    option: Option
    costs: Sequence[float]


class _Part(NamedTuple):
    """What is chosen already, summed up."""

    choices: tuple[Choice, ...]
    speed: float
    held_back: float
    least_s: float
    cost: float


_NOTHING = _Part((), 0.0, 0.0, 0.0, 0.0)


def _part(priced: _Priced, replicas: int, cost: float) -> _Part:
    candidate = priced.option.candidate
    speed = replicas * candidate.samples_per_s
    return _Part(
        (Choice(priced.option, replicas),),
        speed,
        speed * candidate.overhead_s,
        candidate.least_s,
        cost,
    )


class _Search:
    """For one batch and one value."""

    def __init__(self, batch: int, value: Value) -> None:
        self._batch = batch
        self._value = value

    def best_pair(
        self, first: _Priced, second: _Priced, second_alone: float, best: FoundPlan
    ) -> FoundPlan:
        """Halving the numbers of the first kind: no number in a range does better than the
        greatest number would for the cost of the least."""
        ranges = [(1, first.option.room)]
        while ranges:
            fewest, most = ranges.pop()
            part = _part(first, most, first.costs[fewest])
            if self._score(part, 0.0, second) + second_alone < best.score:
                continue
            found = self.best_number(part, second)
            if found.score < best.score:
                continue
            if fewest == most:
                best = found if found.beats(best) else best
            else:
                middle = (fewest + most) // 2
                ranges += [(fewest, middle), (middle + 1, most)]
        return best

    def best_number(self, part: _Part, priced: _Priced) -> FoundPlan:
        """How many replicas of an option beside a part: the fewest after which one more doesn't
        pay, as each adds less than the one before."""
        option, costs = priced
        speed = option.candidate.samples_per_s
        fewest, most = 1, option.room
        while fewest < most:
            middle = (fewest + most) // 2
            here = self._score(part, middle * speed, priced) - costs[middle]
            beyond = self._score(part, (middle + 1) * speed, priced) - costs[middle + 1]
            if beyond - here > TOLERANCE * max(abs(here), abs(beyond)):
                fewest = middle + 1
            else:
                most = middle
        score = self._score(part, fewest * speed, priced) - costs[fewest]
        choices = (*part.choices, Choice(option, fewest))
        return FoundPlan(score, time_of(choices, self._batch), choices)

    def _score(self, part: _Part, speed: float, priced: _Priced) -> float:
        """With this much speed of an option added, before its costs."""
        candidate = priced.option.candidate
        held_back = self._batch + part.held_back + speed * candidate.overhead_s
        time_s = held_back / (part.speed + speed)
        if time_s < part.least_s:
            time_s = part.least_s
        if speed and time_s < candidate.least_s:
            time_s = candidate.least_s
        return self._value.of(self._batch / time_s) - part.cost


def _unreplaced(options: Sequence[Option], times: tuple[float, float]) -> list[Option]:
    """Without those that others of the same kind replace at any of these iteration times."""
    kept: list[Option] = []
    for option in sorted(
        options, key=lambda one: (one.candidate.shape.gpus, -one.candidate.samples_per_s)
    ):
        if option.candidate.least_s > times[1]:
            continue
        if not any(_replaces(other, option, times) for other in kept):
            kept = [other for other in kept if not _replaces(option, other, times)]
            kept.append(option)
    return kept


def _replaces(one: Option, other: Option, times: tuple[float, float]) -> bool:
    new, old = one.candidate, other.candidate
    copies, rest = divmod(old.shape.gpus, new.shape.gpus)
    # A replica that is to be alone can't be replaced by several.
    if rest or copies * other.room > one.room:
        return False
    shortest_s, longest_s = times
    speed = copies * new.samples_per_s
    if longest_s == float("inf"):
        as_fast = speed >= old.samples_per_s
    else:
        as_fast = speed * (longest_s - new.overhead_s) >= old.samples_per_s * (
            longest_s - old.overhead_s
        )
    return (
        as_fast
        and speed * (shortest_s - new.overhead_s)
        >= old.samples_per_s * (shortest_s - old.overhead_s)
        and new.least_s <= max(shortest_s, old.least_s)
        and old.shape.tensor_parallel % new.shape.tensor_parallel == 0
        and (new.shape.stages == 1 or new.shape.span >= old.shape.span)
    )
