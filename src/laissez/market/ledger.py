"""What each book adds to the charges under it, kept as running totals.

The rate of a holding is the highest of what presses in the books on its path. Read from the root
down, that is a sum: each book *adds* what it presses with above everything that the books over it
press with already. So the charge of a holding is a sum too, over the books on its path, of what
each has added while the holding lasted; and what a book adds is the same for all holdings under
it, but for the tenants whose own order presses most in it or over it. A ledger keeps it as meters:
one for everybody, and one per such tenant with the difference. Reading a meter is a binary
search, so a bill costs the same whatever happened since the holding began.

Meters are brought up to date only when somebody asks, from the steps of the books on the path.
Each book is worked out once, up to the present, for all holdings under it. Most books far down
press with less than what is over them and add nothing: if the highest that a book pressed with
since then is below the lowest that some book over it pressed on anybody with, that is all there
is to know, and the stretch is passed over. A book that never added anything has no ledger.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import itemgetter

from laissez.market.book import Book, Step, step_index

Pressure = tuple[int, int, str | None, int]
"""(floor, first, by, second), of one book or of several together."""

NO_PRESSURE: Pressure = (0, 0, None, 0)


class Meter:
    """The running integral of a rate that changes in steps."""

    __slots__ = ("_rates", "_times", "_totals")

    def __init__(self, at: int) -> None:
        self._times = [at]
        self._rates = [0]
        self._totals = [0]

    def turn(self, at: int, rate: int) -> None:
        """Count with this rate from `at` on."""
        before = self._rates[-1]
        if rate == before:
            return
        since = self._times[-1]
        if since == at:
            self._rates[-1] = rate
        else:
            self._totals.append(self._totals[-1] + before * (at - since))
            self._times.append(at)
            self._rates.append(rate)

    def between(self, since: int, until: int) -> int:
        return self._total(until) - self._total(since)

    def _total(self, at: int) -> int:
        index = bisect_right(self._times, at) - 1
        if index < 0:
            return 0
        return self._totals[index] + self._rates[index] * (at - self._times[index])

    def forget_before(self, oldest: int) -> bool:
        """Drop what no holding needs; False if nothing but a rate of 0 is left."""
        index = bisect_right(self._times, oldest) - 1
        if index > 0:
            del self._times[:index], self._rates[:index], self._totals[:index]
        return len(self._times) > 1 or self._rates[0] != 0


class Ledger:
    """What one book has added: to everybody, and the difference for those it treats otherwise."""

    __slots__ = ("_added", "_otherwise", "_turned")

    def __init__(self, at: int) -> None:
        self._added = Meter(at)
        self._otherwise: dict[str, Meter] = {}
        self._turned: set[str] = set()

    def between(self, since: int, until: int, tenant: str) -> int:
        total = self._added.between(since, until)
        meter = self._otherwise.get(tenant)
        return total if meter is None else total + meter.between(since, until)

    def add_nothing(self, at: int) -> None:
        self._added.turn(at, 0)
        for tenant in self._turned:
            self._otherwise[tenant].turn(at, 0)
        self._turned = set()

    def add(self, at: int, above: Pressure, here: Pressure) -> None:
        """From `at` on, count what `here` adds to `above`."""
        floor_above, first_above, by_above, second_above = above
        floor, first, by, second = here
        before = max(floor_above, first_above)
        added = max(floor, first, before) - before
        self._added.turn(at, added)
        turned = self._turned
        if by is not None or by_above is not None or turned:
            self._turned = set()
            for tenant in {by, by_above}:
                if tenant is not None:
                    before = max(floor_above, second_above if tenant == by_above else first_above)
                    other = max(floor, second if tenant == by else first, before) - before - added
                    if other:
                        self._otherwise_meter(tenant, at).turn(at, other)
                        self._turned.add(tenant)
            for tenant in turned - self._turned:
                self._otherwise[tenant].turn(at, 0)

    def _otherwise_meter(self, tenant: str, at: int) -> Meter:
        meter = self._otherwise.get(tenant)
        if meter is None:
            meter = self._otherwise[tenant] = Meter(at)
        return meter

    def forget_before(self, oldest: int) -> None:
        self._added.forget_before(oldest)
        self._otherwise = {
            tenant: meter
            for tenant, meter in self._otherwise.items()
            if meter.forget_before(oldest) or tenant in self._turned
        }


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


def work_out(books: list[Book], now: int) -> None:
    """Bring the ledgers of the books on a path, root first, up to `now`."""
    for depth, book in enumerate(books):
        since = book.worked_out
        if since >= now:
            continue
        if not _adds_nothing(book, books[:depth], since, now):
            if book.ledger is None:
                book.ledger = Ledger(since)
            _work_out_stretch(book.ledger, book, books[:depth], since, now)
        elif book.ledger is not None:
            book.ledger.add_nothing(since)
        book.worked_out = now


def _adds_nothing(book: Book, above: list[Book], since: int, now: int) -> bool:
    """Surely nothing: since then it never pressed with more than one book over it at its least."""
    steps = book.steps
    highest = 0
    for index in range(max(step_index(steps, since), 0), bisect_left(steps, (now,))):
        _, floor, first, _, _ = steps[index]
        if floor > highest:
            highest = floor
        if first > highest:
            highest = first
    if highest == 0:
        return True
    return any(other.lowest_since(since) >= highest for other in above)


def _work_out_stretch(ledger: Ledger, book: Book, above: list[Book], since: int, now: int) -> None:
    pressing: list[Pressure] = []
    changes: list[tuple[int, int, Step]] = []
    for place, other in enumerate([*above, book]):
        steps = other.steps
        first = step_index(steps, since)
        pressing.append(steps[first][1:] if first >= 0 else NO_PRESSURE)
        for index in range(first + 1, bisect_left(steps, (now,))):
            changes.append((steps[index][0], place, steps[index]))
    if above:
        changes.sort(key=itemgetter(0))
    own = len(above)
    over = _all_together(pressing[:own])
    at = since
    for time, place, step in changes:
        if time > at:
            ledger.add(at, over, pressing[own])
            at = time
        pressing[place] = step[1:]
        if place != own:
            over = _all_together(pressing[:own])
    ledger.add(at, over, pressing[own])


def _all_together(pressing: list[Pressure]) -> Pressure:
    over = NO_PRESSURE
    for pressure in pressing:
        over = together(over, pressure)
    return over
