"""A ground: everything that presses on a path from the root down to one scope, change by change.

It follows its own book and the ground over it, and keeps the running total of what it presses with
(`on_others`: on everybody but the tenant whose own order presses most, `on_by`: on that one).
Meters of quieter books below are read against it with one question: how far did it fall short of a
given rate, over a given time? It is answered without looking at every change: blocks of changes are
sorted by rate when first asked about, and blocks of blocks, so that a binary search each is enough.

Lists that run side by side, one place per change: `times`, `pressures`, `on_others`, `on_by`; and
`_spans`, how long each lasted, which the last one does not have yet.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate
from operator import mul

from laissez.market.steps import Past, Pressure, pressing_at, steps_before, together

BLOCK = 32
BLOCKS_PER_BLOCK = 8


class Ground:
    """Everything that presses on a path from the root down to one scope, change by change."""

    __slots__ = (
        "_least",
        "_least_until",
        "_own",
        "_own_episodes",
        "_rates",
        "_spans",
        "_total",
        "book",
        "changes",
        "episodes",
        "followers",
        "on_by",
        "on_others",
        "otherwise",
        "over",
        "own_changes",
        "pressures",
        "times",
        "until",
    )

    def __init__(self, book: Past, over: Ground | None, at: int) -> None:
        self.book = book
        self.over = over
        self.followers = 0
        self.until = at
        self.changes = 0
        self.own_changes = 0
        self._total = 0
        self.otherwise: dict[str, int] = {}
        self.times: list[int] = []
        self.pressures: list[Pressure] = []
        self.on_others: list[int] = []
        self.on_by: list[int] = []
        self._spans: list[int] = []
        self.episodes: dict[str, list[int]] = {}
        self._own_episodes: dict[str, OwnEpisodes] = {}
        self._rates = LastingRates(self.on_others, self._spans)
        self._least: list[int] = []
        self._least_until: list[int] = []
        # What begins at `at` itself may yet change, if that is the present; `extend` takes it up.
        self._own = pressing_at(book.steps, at - 1)
        if over is None:
            self._begin(at, self._own)
        else:
            over.followers += 1
            self._begin(at, together(over.pressure_at(at), self._own))

    def extend(self, now: int) -> None:
        """Follow all changes before `now`."""
        since, steps = self.until, self.book.steps
        self.until = now
        end = steps_before(steps, now)
        first = end
        while first and steps[first - 1][0] >= since:
            first -= 1
        self.own_changes += end - first
        if self.over is None:
            for index in range(first, end):
                self._append(steps[index][0], steps[index][1:])
            return
        times, pressures = self.over.times, self.over.pressures
        position = len(times)
        while times[position - 1] >= since and position > 1:
            position -= 1
        while first < end or position < len(times):
            at = steps[first][0] if first < end else now
            if position < len(times) and times[position] <= at:
                at = times[position]
                position += 1
            if first < end and steps[first][0] == at:
                self._own = steps[first][1:]
                first += 1
            self._append(at, together(pressures[position - 1], self._own))

    def _append(self, at: int, pressure: Pressure) -> None:
        """From `at` on, this presses."""
        if pressure == self.pressures[-1]:
            return
        self.changes += 1
        span = at - self.times[-1]
        on_others, on_by = self.on_others[-1], self.on_by[-1]
        self._spans.append(span)
        self._total += on_others * span
        by = self.pressures[-1][2]
        if by is not None and on_by < on_others:
            self.otherwise[by] = self.otherwise.get(by, 0) + (on_by - on_others) * span
        while self._least and self._least[-1] >= on_by:
            self._least.pop()
            self._least_until.pop()
        self._least.append(on_by)
        self._least_until.append(at)
        self._begin(at, pressure)

    def _begin(self, at: int, pressure: Pressure) -> None:
        floor, first, by, second = pressure
        if by is not None:
            episodes = self.episodes.get(by)
            if episodes is None:
                self.episodes[by] = [len(self.times)]
            else:
                episodes.append(len(self.times))
        self.times.append(at)
        self.pressures.append(pressure)
        self.on_others.append(max(floor, first))
        self.on_by.append(max(floor, second))

    def reading(self, now: int, tenant: str) -> int:
        """The total up to `now`, to which the ground has been extended."""
        span = now - self.times[-1]
        total = self._total + self.otherwise.get(tenant, 0)
        if self.pressures[-1][2] == tenant:
            return total + self.on_by[-1] * span
        return total + self.on_others[-1] * span

    def begin_with(self, total: int, otherwise: dict[str, int], now: int) -> None:
        """Go on from where other meters stood at `now`."""
        self._total = total - self.on_others[-1] * (now - self.times[-1])
        self.otherwise = dict(otherwise)
        by = self.pressures[-1][2]
        if by is not None:
            difference = (self.on_others[-1] - self.on_by[-1]) * (now - self.times[-1])
            self.otherwise[by] = self.otherwise.get(by, 0) + difference

    def pressure_at(self, at: int) -> Pressure:
        return self.pressures[self.index_at(at)]

    def index_at(self, at: int) -> int:
        """The index of the change in force at `at`."""
        return max(bisect_right(self.times, at) - 1, 0)

    def least(self) -> int:
        """The least that pressed here on anybody, whoever it is, as far as is remembered."""
        on_by = self.on_by[-1]
        return min(on_by, self._least[0]) if self._least else on_by

    def never_below(self, rate: int, since: int) -> bool:
        """Did everybody pay at least `rate` here, from `since` to the present?

        `_least` has the lows after which nothing lower came, `_least_until` when each ended: the
        first that ended after `since` is the least from then on, but for the present one.
        """
        if self.on_by[-1] < rate:
            return False
        position = bisect_right(self._least_until, since)
        return position == len(self._least) or self._least[position] >= rate

    def shortfall(self, rate: int, since: int, until: int) -> int:
        """The integral of what the rate for everybody lacked to `rate`."""
        times, on_others = self.times, self.on_others
        first = self.index_at(since)
        last = bisect_left(times, until, first) - 1
        if last <= first:
            return (rate - on_others[first]) * (until - since) if on_others[first] < rate else 0
        total = 0
        if on_others[first] < rate:
            total += (rate - on_others[first]) * (times[first + 1] - since)
        if on_others[last] < rate:
            total += (rate - on_others[last]) * (until - times[last])
        return total + self._rates.shortfall(rate, first + 1, last)

    def pressing_most_since(self, first: int) -> set[str]:
        """The tenants whose own order pressed most at some time since the change at `first`."""
        return {by for _, _, by, _ in self.pressures[first:] if by is not None}

    def pressed_most_since(self, tenant: str, first: int) -> bool:
        episodes = self.episodes.get(tenant)
        return episodes is not None and episodes[-1] >= first

    def own_episodes(self, tenant: str) -> OwnEpisodes | None:
        """The changes within which `tenant` pressed most, if there are any."""
        own = self._own_episodes.get(tenant)
        if own is None and tenant in self.episodes:
            own = self._own_episodes[tenant] = OwnEpisodes(self, tenant)
        return own

    def forget_before(self, oldest: int) -> None:
        """Drop the changes that no holding needs; totals stay."""
        index = bisect_right(self.times, oldest) - 1
        if index <= 0:
            return
        del self.times[:index], self.pressures[:index], self.on_others[:index], self.on_by[:index]
        del self._spans[:index]
        self.episodes = {}
        for position, pressure in enumerate(self.pressures):
            if pressure[2] is not None:
                self.episodes.setdefault(pressure[2], []).append(position)
        self._own_episodes = {}
        self._rates.renumber()
        position = bisect_right(self._least_until, oldest)
        del self._least[:position], self._least_until[:position]


class OwnEpisodes:
    """The times in which a tenant's own order pressed most, so that the runner-up pressed on it."""

    __slots__ = (
        "_by",
        "_by_rates",
        "_ground",
        "_others",
        "_others_rates",
        "_spans",
        "_tenant",
        "_totals",
    )

    def __init__(self, ground: Ground, tenant: str) -> None:
        self._ground = ground
        self._tenant = tenant
        self._by: list[int] = []
        self._others: list[int] = []
        self._spans: list[int] = []
        self._totals = [0]
        self._by_rates = LastingRates(self._by, self._spans)
        self._others_rates = LastingRates(self._others, self._spans)

    def lacked(self, rate: int, since: int, until: int) -> int:
        """How much more fell short of a rate in what pressed on the tenant than on others."""
        parts, first, end = self._pieces(since, until)
        total = sum(
            (max(rate - on_by, 0) - max(rate - on_others, 0)) * span
            for span, on_others, on_by in parts
        )
        if first < end:
            total += self._by_rates.shortfall(rate, first, end)
            total -= self._others_rates.shortfall(rate, first, end)
        return total

    def excess(self, rate: int, since: int, until: int) -> int:
        """How much more than others the tenant was pressed above a rate; at most 0."""
        parts, first, end = self._pieces(since, until)
        total = sum((on_by - on_others) * span for span, on_others, on_by in parts)
        if first < end:
            total += self._totals[end] - self._totals[first]
        return total + self.lacked(rate, since, until)

    def _pieces(self, since: int, until: int) -> tuple[list[tuple[int, int, int]], int, int]:
        """(span, on_others, on_by) of those that are looked at one by one, and which of them are
        not: from a place in the lists up to another."""
        ground = self._ground
        indices = ground.episodes[self._tenant]
        first = bisect_left(indices, ground.index_at(since))
        end = bisect_left(indices, bisect_left(ground.times, until))
        if end - first <= BLOCK:
            return [self._part(index, since, until) for index in indices[first:end]], 0, 0
        # All but these two have begun and ended within the time that is asked about.
        parts = [self._part(indices[at], since, until) for at in (first, end - 1)]
        self._extend(indices, end - 1)
        return parts, first + 1, end - 1

    def _part(self, index: int, since: int, until: int) -> tuple[int, int, int]:
        ground = self._ground
        times = ground.times
        start = max(times[index], since)
        end = min(times[index + 1], until) if index + 1 < len(times) else until
        return end - start, ground.on_others[index], ground.on_by[index]

    def _extend(self, indices: list[int], end: int) -> None:
        ground = self._ground
        for position in range(len(self._spans), end):
            index = indices[position]
            on_by, on_others = ground.on_by[index], ground.on_others[index]
            span = ground.times[index + 1] - ground.times[index]
            self._by.append(on_by)
            self._others.append(on_others)
            self._spans.append(span)
            self._totals.append(self._totals[-1] + (on_by - on_others) * span)


class LastingRates:
    """Rates, one after the other, and how long each of them lasted; both lists may grow."""

    __slots__ = ("_rates", "_spans", "_tables")

    def __init__(self, rates: list[int], spans: list[int]) -> None:
        self._rates = rates
        self._spans = spans
        self._tables: dict[tuple[int, int], SortedBlock] = {}

    def renumber(self) -> None:
        """Places in the lists are not what they were."""
        self._tables = {}

    def shortfall(self, rate: int, index: int, end: int) -> int:
        """What those from a place on, up to another, lacked to a rate, over their time."""
        total = 0
        rates, spans = self._rates, self._spans
        while index < end:
            size = 0
            wider = BLOCK
            while index % wider == 0 and index + wider <= end:
                size = wider
                wider *= BLOCKS_PER_BLOCK
            if size:
                table = self._tables.get((index, size))
                if table is None:
                    table = self._tables[index, size] = SortedBlock(
                        rates[index : index + size], spans[index : index + size]
                    )
                total += table.shortfall(rate)
                index += size
            else:
                stop = min(end, index - index % BLOCK + BLOCK)
                for charged, span in zip(rates[index:stop], spans[index:stop], strict=True):
                    if charged < rate:
                        total += (rate - charged) * span
                index = stop
        return total


class SortedBlock:
    """A block of changes sorted by rate: how far below a rate they were, by binary search."""

    __slots__ = ("_areas", "_rates", "_spans")

    def __init__(self, rates: list[int], spans: list[int]) -> None:
        in_order = sorted(zip(rates, spans, strict=True))
        self._rates = [rate for rate, _ in in_order]
        sorted_spans = [span for _, span in in_order]
        self._spans: list[int] = [0, *accumulate(sorted_spans)]
        self._areas: list[int] = [0, *accumulate(map(mul, self._rates, sorted_spans))]

    def shortfall(self, rate: int) -> int:
        count = bisect_left(self._rates, rate)
        return rate * self._spans[count] - self._areas[count]
