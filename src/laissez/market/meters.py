"""Meters: running totals from which a charge is the difference of two readings.

The rate of a holding is the highest of what presses in the books on its path. Read from the root
down that is a sum: each book *adds* what it presses with above everything over it. So every book
on the path has a meter of what it has added, and a holding notes the sum of the meters at its
start. Its charge is the sum now, less that. This works because meters only have to be right at the
instants at which a holding under them begins, ends or is billed, and at each of these the meters
on its path are brought up to date, from when they last were; nothing else is remembered.

The same is added for all tenants, but for those whose own order presses most (`by`) in a book on
the path: these are pressed by the runner-up. The difference is metered per tenant, and only for
tenants that hold something under the book, as nobody else is charged there.

Books differ in how much happens in them. At the root, and wherever else a large part of all
changes happens, the meter is a `Ground`: it follows every change of the path from the root down to
its scope. All other books are metered against the ground over them. While such a book and those
between it and the ground stand still, at rates `here` and `between`, what it adds is how far the
ground falls short of `here`, less how far it falls short of `between`. The ground answers "how far
did you fall short of this rate since then" without looking at every change: at once if it never
did, else from blocks of changes sorted by rate.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection
from itertools import accumulate
from operator import mul

from laissez.market.book import Book, Pressure, Step, step_index, steps_before

NO_PRESSURE: Pressure = (0, 0, None, 0)
BLOCK = 32
BLOCKS_PER_BLOCK = 8
BUSY_CHANGES = 16
BUSY_SHARE = 8


class Meter:
    """What one book has added up to `until`: to everybody, and the difference for some."""

    __slots__ = ("added", "changes", "changes_over", "ground", "otherwise", "until")

    def __init__(self, at: int) -> None:
        self.until = at
        self.added = 0
        self.otherwise: dict[str, int] = {}
        self.ground: Ground | None = None
        self.changes = 0
        self.changes_over = 0

    def forget_before(self, oldest: int, holders: Collection[str]) -> None:
        """Drop what no holding needs that began at `oldest` or later."""
        self.otherwise = {t: total for t, total in self.otherwise.items() if t in holders}
        if self.ground is not None:
            self.ground.forget_before(oldest)


class Ground:
    """Everything that presses on a path from the root down to one scope, change by change."""

    __slots__ = (
        "_lows",
        "_lows_seen",
        "_own",
        "_spans",
        "_tables",
        "_total",
        "book",
        "episodes",
        "highs",
        "lows",
        "otherwise",
        "over",
        "pressures",
        "times",
        "until",
    )

    def __init__(self, book: Book, over: Ground | None, at: int) -> None:
        self.book = book
        self.over = over
        self.until = at
        self.times: list[int] = []
        self.pressures: list[Pressure] = []
        self.highs: list[int] = []
        self.lows: list[int] = []
        self._spans: list[int] = []
        self.otherwise: dict[str, int] = {}
        self.episodes: dict[str, list[int]] = {}
        self._total = 0
        self._tables: dict[tuple[int, int], Table] = {}
        self._lows: list[tuple[int, int]] = []
        self._lows_seen = 0
        index = step_index(book.steps, at)
        self._own: Pressure = book.steps[index][1:] if index >= 0 else NO_PRESSURE
        self._append(at, self._own if over is None else together(over.pressure_at(at), self._own))

    def extend(self, now: int) -> None:
        """Follow all changes before `now`."""
        if self.until >= now:
            return
        steps, since = self.book.steps, self.until
        self.until = now
        first, end = steps_before(steps, since), steps_before(steps, now)
        if self.over is None:
            for index in range(first, end):
                self._append(steps[index][0], steps[index][1:])
            return
        self.over.extend(now)
        times, pressures = self.over.times, self.over.pressures
        place = bisect_left(times, since)
        own = self._own
        while first < end or place < len(times):
            at = min(
                steps[first][0] if first < end else now, times[place] if place < len(times) else now
            )
            if first < end and steps[first][0] == at:
                own = steps[first][1:]
                first += 1
            if place < len(times) and times[place] == at:
                place += 1
            self._append(at, together(pressures[place - 1], own))
        self._own = own

    def _append(self, at: int, pressure: Pressure) -> None:
        floor, first, by, second = pressure
        if self.times:
            if pressure == self.pressures[-1]:
                return
            span = at - self.times[-1]
            self._spans.append(span)
            high = self.highs[-1]
            self._total += high * span
            last_by = self.pressures[-1][2]
            if last_by is not None:
                difference = (self.lows[-1] - high) * span
                self.otherwise[last_by] = self.otherwise.get(last_by, 0) + difference
        self.times.append(at)
        self.pressures.append(pressure)
        self.highs.append(floor if floor > first else first)
        self.lows.append(floor if floor > second else second)
        if by is not None:
            episodes = self.episodes.get(by)
            if episodes is None:
                self.episodes[by] = [len(self.times) - 1]
            else:
                episodes.append(len(self.times) - 1)

    def reading(self, now: int, tenant: str) -> int:
        """The total up to `now`, to which the ground has been extended."""
        span = now - self.times[-1]
        total = self._total + self.otherwise.get(tenant, 0)
        if self.pressures[-1][2] == tenant:
            return total + self.lows[-1] * span
        return total + self.highs[-1] * span

    def begin_with(self, total: int, otherwise: dict[str, int], now: int) -> None:
        """Go on from where other meters stood at `now`."""
        self._total = total - self.highs[-1] * (now - self.times[-1])
        self.otherwise = dict(otherwise)
        by = self.pressures[-1][2]
        if by is not None:
            difference = (self.highs[-1] - self.lows[-1]) * (now - self.times[-1])
            self.otherwise[by] = self.otherwise.get(by, 0) + difference

    def pressure_at(self, at: int) -> Pressure:
        return self.pressures[max(bisect_right(self.times, at) - 1, 0)]

    def never_below(self, rate: int, since: int) -> bool:
        """Did everybody pay at least `rate` here, from `since` to the present?

        `_lows` lists the changes after which nothing lower came, as (index, least): the first at
        or after a change has the least since then.
        """
        if self.lows[-1] < rate:
            return False
        lows = self._lows
        for index in range(self._lows_seen, len(self.lows)):
            least = self.lows[index]
            while lows and lows[-1][1] >= least:
                lows.pop()
            lows.append((index, least))
        self._lows_seen = len(self.lows)
        index = max(bisect_right(self.times, since) - 1, 0)
        return lows[bisect_left(lows, (index, 0))][1] >= rate

    def shortfall(self, rate: int, since: int, until: int) -> int:
        """The integral of what the rate for everybody lacked to `rate`."""
        times, highs = self.times, self.highs
        first = max(bisect_right(times, since) - 1, 0)
        last = bisect_left(times, until, first) - 1
        if last <= first:
            return (rate - highs[first]) * (until - since) if highs[first] < rate else 0
        total = 0
        if highs[first] < rate:
            total += (rate - highs[first]) * (times[first + 1] - since)
        if highs[last] < rate:
            total += (rate - highs[last]) * (until - times[last])
        return total + self._shortfall_of_steps(rate, first + 1, last)

    def _shortfall_of_steps(self, rate: int, index: int, end: int) -> int:
        total = 0
        highs, spans = self.highs, self._spans
        while index < end:
            size = 0
            wider = BLOCK
            while index % wider == 0 and index + wider <= end:
                size = wider
                wider *= BLOCKS_PER_BLOCK
            if size:
                table = self._tables.get((index, size))
                if table is None:
                    table = self._tables[index, size] = Table(
                        highs[index : index + size], spans[index : index + size]
                    )
                total += table.shortfall(rate)
                index += size
            else:
                stop = min(end, index - index % BLOCK + BLOCK)
                for high, span in zip(highs[index:stop], spans[index:stop], strict=True):
                    if high < rate:
                        total += (rate - high) * span
                index = stop
        return total

    def changes_since(self, since: int) -> int:
        return len(self.times) - bisect_right(self.times, since)

    def pressing_most_since(self, since: int) -> set[str | None]:
        first = max(bisect_right(self.times, since) - 1, 0)
        return {pressure[2] for pressure in self.pressures[first:]}

    def episodes_of(self, tenant: str, since: int, until: int) -> list[tuple[int, int, int]]:
        """(span, high, low) of each change within which `tenant` pressed most."""
        episodes = self.episodes.get(tenant)
        if episodes is None:
            return []
        times = self.times
        first = max(bisect_right(times, since) - 1, 0)
        found = []
        for place in range(bisect_left(episodes, first), len(episodes)):
            index = episodes[place]
            start = max(times[index], since)
            end = times[index + 1] if index + 1 < len(times) else until
            if start >= until:
                break
            found.append((min(end, until) - start, self.highs[index], self.lows[index]))
        return found

    def forget_before(self, oldest: int) -> None:
        """Drop the changes that no holding needs; totals stay."""
        index = bisect_right(self.times, oldest) - 1
        if index <= 0:
            return
        del self.times[:index], self.pressures[:index], self.highs[:index], self.lows[:index]
        del self._spans[:index]
        self.episodes = {}
        for place, pressure in enumerate(self.pressures):
            if pressure[2] is not None:
                self.episodes.setdefault(pressure[2], []).append(place)
        self._tables = {}
        self._lows, self._lows_seen = [], 0


class Table:
    """A block of changes sorted by rate: how far below a rate they were, by binary search."""

    __slots__ = ("_areas", "_highs", "_spans")

    def __init__(self, highs: list[int], spans: list[int]) -> None:
        in_order = sorted(zip(highs, spans, strict=True))
        self._highs = [high for high, _ in in_order]
        sorted_spans = [span for _, span in in_order]
        self._spans = [0, *accumulate(sorted_spans)]
        self._areas = [0, *accumulate(map(mul, self._highs, sorted_spans))]

    def shortfall(self, rate: int) -> int:
        count = bisect_left(self._highs, rate)
        return rate * self._spans[count] - self._areas[count]


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


def bring_up_to_date(books: list[Book], now: int) -> None:
    """Let the meters of the books on a path, the root's first, count everything before `now`."""
    ground = _root_ground(books[0])
    ground.extend(now)
    between: list[Book] = []
    for book in books[1:]:
        meter = book.meter
        if meter is None:
            meter = book.meter = Meter(book.born)
        elif meter.ground is not None:
            if meter.ground.over is ground:
                ground = meter.ground
                ground.extend(now)
                continue
            meter = book.meter = Meter(now)
        if meter.until < now:
            _count(book, meter, between, ground, now)
        if meter.changes > BUSY_CHANGES and _is_busy(book, meter, ground):
            ground = _make_ground(book, meter, ground, now)
        else:
            between.append(book)


def reading(books: list[Book], now: int, tenant: str) -> int:
    """What the meters of the books on a path show for a tenant, all brought up to date."""
    total = 0
    for place in range(len(books) - 1, -1, -1):
        meter = books[place].meter
        assert meter is not None
        if meter.ground is not None:
            return total + meter.ground.reading(now, tenant)
        total += meter.added
        if meter.otherwise:
            total += meter.otherwise.get(tenant, 0)
    return total


def _is_busy(book: Book, meter: Meter, ground: Ground) -> bool:
    """Does so much happen in a book right under a ground that it should be one itself?"""
    return meter.changes * BUSY_SHARE > meter.changes_over and book.node.parent is ground.book.node


def _root_ground(book: Book) -> Ground:
    if book.meter is None:
        book.meter = Meter(book.born)
    if book.meter.ground is None:
        book.meter.ground = Ground(book, None, book.born)
    return book.meter.ground


def _make_ground(book: Book, meter: Meter, over: Ground, now: int) -> Ground:
    """A busy book right under a ground becomes one."""
    ground = Ground(book, over, max(over.times[0], min(book.node.oldest, now)))
    ground.extend(now)
    total = over.reading(now, "") + meter.added
    otherwise = dict(meter.otherwise)
    for tenant in {*over.otherwise, *filter(None, [over.pressures[-1][2]])}:
        difference = over.reading(now, tenant) - over.reading(now, "")
        otherwise[tenant] = otherwise.get(tenant, 0) + difference
    ground.begin_with(total, otherwise, now)
    meter.ground = ground
    return ground


def _count(book: Book, meter: Meter, between: list[Book], ground: Ground, now: int) -> None:
    """Count what a book has added since its meter was last read."""
    since = max(meter.until, ground.times[0])
    meter.until = now
    pressing, changes = _pressing(book.steps, since, now)
    highest = max(pressing[0], pressing[1])
    if changes:
        meter.changes += len(changes)
        highest = max(highest, max(max(step[1], step[2]) for step in changes))
    meter.changes_over += ground.changes_since(since)
    if highest == 0 or since >= now or ground.never_below(highest, since):
        return
    over = NO_PRESSURE
    cuts = {step[0] for step in changes}
    for other in between:
        pressure, its_changes = _pressing(other.steps, since, now)
        if highest <= _least(pressure, its_changes):
            return
        over = together(over, pressure)
        cuts.update(step[0] for step in its_changes)
    for cut in sorted(cuts):
        if cut > since:
            _add(book, meter, over, pressing, ground, since, cut)
            since = cut
        pressing = _pressing_at(book.steps, cut)
        over = NO_PRESSURE
        for other in between:
            over = together(over, _pressing_at(other.steps, cut))
    _add(book, meter, over, pressing, ground, since, now)


def _pressing(steps: list[Step], since: int, now: int) -> tuple[Pressure, list[Step]]:
    """What presses at `since`, and the changes after that and before `now`."""
    if not steps:
        return NO_PRESSURE, []
    last = steps[-1]
    if last[0] <= since:
        return last[1:], []
    index = step_index(steps, since)
    pressure = steps[index][1:] if index >= 0 else NO_PRESSURE
    return pressure, steps[index + 1 : steps_before(steps, now)]


def _least(pressure: Pressure, changes: list[Step]) -> int:
    """The least that pressed on anybody, whoever it is."""
    least = max(pressure[0], pressure[3])
    for step in changes:
        least = min(least, max(step[1], step[4]))
    return least


def _pressing_at(steps: list[Step], at: int) -> Pressure:
    index = step_index(steps, at)
    return steps[index][1:] if index >= 0 else NO_PRESSURE


def _add(
    book: Book,
    meter: Meter,
    over: Pressure,
    here: Pressure,
    ground: Ground,
    since: int,
    until: int,
) -> None:
    """Count what `here` adds to `over` and the ground, while both stand still."""
    rate = max(here[0], here[1])
    if rate == 0 or ground.never_below(rate, since):
        return
    floor_over, first_over, by_over, second_over = over
    rate_over = max(floor_over, first_over)
    added = _added(ground, rate_over, rate, since, until)
    meter.added += added
    for tenant in _pressing_most(book, by_over, here[2], ground, since):
        own_over = max(floor_over, second_over) if tenant == by_over else rate_over
        own_rate = max(here[0], here[3]) if tenant == here[2] else rate
        if own_rate <= own_over:
            difference = -added
        else:
            difference = _added(ground, own_over, own_rate, since, until) - added
            for span, high, low in ground.episodes_of(tenant, since, until):
                with_own = max(own_rate, high) - max(own_over, high)
                without = max(own_rate, low) - max(own_over, low)
                difference += (without - with_own) * span
        if difference:
            meter.otherwise[tenant] = meter.otherwise.get(tenant, 0) + difference


def _pressing_most(
    book: Book, by_over: str | None, by: str | None, ground: Ground, since: int
) -> set[str]:
    """The holders under a book whose own orders may have pressed most somewhere on its path."""
    holders = book.node.holders
    if ground.changes_since(since) < len(holders):
        tenants = ground.pressing_most_since(since)
        found = {tenant for tenant in tenants if tenant in holders}
    else:
        found = {tenant for tenant in holders if tenant in ground.episodes}
    found.update(tenant for tenant in (by_over, by) if tenant is not None and tenant in holders)
    return found


def _added(ground: Ground, rate_over: int, rate: int, since: int, until: int) -> int:
    if rate <= rate_over:
        return 0
    added = ground.shortfall(rate, since, until)
    return added - ground.shortfall(rate_over, since, until) if added and rate_over else added
