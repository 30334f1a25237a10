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
did you fall short of this rate since then" without looking at every change (see `grounds`). Most
books far down never pressed with more than the least that the ground pressed with: they have never
added anything, and need no meter until they do.

Where much has happened between the ground and a book since it was last read, as many books below
would look at all of it, each by itself. Then it is written down once for all of them, together with
the ground: as a trunk (see `trunks`), which is asked instead.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from laissez.market.grounds import Ground
from laissez.market.steps import (
    NO_PRESSURE,
    PressedNode,
    Pressure,
    PressureStep,
    pressing_at,
    step_index,
    steps_before,
    together,
)
from laissez.market.trunks import LOOKS_PER_CHANGE, Trunk, trunk_of

BUSY_CHANGES = 16
"""A book is looked at after so many changes of its own: is it worth following all over it?"""

QUIET_CHANGES, QUIET_SHARE = 256, 4
"""A ground is looked at after so many changes, and left if it is so many times not worth it."""

FEW_CHANGES = 4
"""So few changes of the ground are looked at one by one."""

FEW_BETWEEN = 32
"""So few changes of a book between a ground and others are looked at by each of these."""

NOBODY = ""
"""A tenant that has no order anywhere."""


class Meter:
    """What one book has added up to `until`: to everybody, and the difference for some."""

    __slots__ = ("added", "changes", "changes_over", "ground", "otherwise", "seen", "until")

    def __init__(self, at: int) -> None:
        self.until = at
        self.added = 0
        self.otherwise: dict[str, int] = {}
        self.ground: Ground | None = None
        self.seen: int | None = None
        self.changes = 0
        self.changes_over = 0

    def read(self, tenant: str) -> int:
        return self.added + self.otherwise.get(tenant, 0) if self.otherwise else self.added

    def forget_before(self, oldest: int, holders: Collection[str]) -> None:
        """Drop what no holding needs that began at `oldest` or later."""
        self.otherwise = {
            tenant: total for tenant, total in self.otherwise.items() if tenant in holders
        }
        if self.ground is not None:
            self.ground.forget_before(oldest)


class Metered(Protocol):
    """Something that presses, has a past, and has a meter once somebody is charged: a book."""

    node: PressedNode
    steps: list[PressureStep]
    born: int
    peak: int
    meter: Meter | None
    trunk: Trunk | None


class MeterUpdater:
    """Brings the meters of the books on a path up to date, the root's first, and reads them.

    To make one is to change what it reads: meters count what was added since they were last right,
    books get their first meter, become grounds or stop being any. Nobody can tell: what meters show
    at an instant does not depend on how often they were read before, and no answer of the market,
    no snapshot and no digest has anything of them but this difference.
    """

    __slots__ = ("_ground", "_meters", "_now")

    def __init__(self, books: Sequence[Metered], now: int) -> None:
        self._now = now
        self._ground, position = _lowest_ground(books, now)
        self._meters: list[Meter] = []
        least = self._ground.least()
        for at in range(position, len(books)):
            book = books[at]
            meter = book.meter
            # A book that never pressed with more than the least that the ground pressed with has
            # never added anything. Its first meter begins where its past does: what it added
            # before it was read for the first time counts for those who hold something already.
            if book.peak > least:
                if meter is None:
                    meter = book.meter = Meter(book.born)
                if meter.until < now:
                    _count(book, meter, books[:at], position, self._ground, now)
                    meter.until = now
            if meter is not None:
                self._meters.append(meter)

    def read(self, tenant: str) -> int:
        """What all of them together show for a tenant."""
        total = self._ground.reading(self._now, tenant)
        for meter in self._meters:
            total += meter.read(tenant)
        return total


def _lowest_ground(books: Sequence[Metered], now: int) -> tuple[Ground, int]:
    """The lowest ground on a path, up to date, and the position of the first book below it."""
    ground = _root_ground(books[0])
    if ground.until < now:
        ground.extend(now)
    position = 1
    while position < len(books):
        book = books[position]
        meter = book.meter
        if meter is None:
            break
        if meter.ground is None:
            if not _is_busy(book, meter, ground):
                break
            _count(book, meter, (), 0, ground, now)
            meter.until = now
            ground = _make_ground(book, meter, ground, now)
        elif meter.ground.over is not ground:
            # The ground over it has begun anew since, which it only does while nobody holds
            # anything under it. So nobody has noted a reading here either: begin anew as well.
            book.meter = Meter(now)
            break
        else:
            if meter.ground.until < now:
                meter.ground.extend(now)
            if _leave_ground(meter, ground, book, now):
                break
            ground = meter.ground
        position += 1
    return ground, position


def _is_busy(book: Metered, meter: Meter, ground: Ground) -> bool:
    """Does so much happen in a book right under a ground that it should be one itself?

    Every change in it would be met by all meters under it, of which there are about as many as
    tenants; every change over it would be met by this one. Not in a leaf's book, under which
    there is nothing.
    """
    # An estimate that costs nothing: whether it changed since it was last read, not how often.
    if book.steps and book.steps[-1][0] >= meter.until:
        meter.changes += 1
    if meter.seen is not None:
        meter.changes_over += ground.changes - meter.seen
    meter.seen = ground.changes
    return (
        meter.changes > BUSY_CHANGES
        and meter.changes * len(book.node.holders) > meter.changes_over
        and book.node.parent is ground.book.node
        and not book.node.is_leaf
    )


def _root_ground(book: Metered) -> Ground:
    if book.meter is None:
        book.meter = Meter(book.born)
    if book.meter.ground is None:
        book.meter.ground = Ground(book, None, book.born)
    return book.meter.ground


def _make_ground(book: Metered, meter: Meter, over: Ground, now: int) -> Ground:
    """A book right under a ground, in which much of all happens, becomes a ground itself.

    Up to now a path through it was read as the ground over it and its own meter together; from now
    on this ground is read instead of both. It goes on from their sum, for everybody and for each
    tenant, so that what holdings have noted stays right. It remembers what was since the oldest
    holding under it began: no meter below has to count more.
    """
    ground = Ground(book, over, max(over.times[0], min(book.node.oldest, now)))
    ground.extend(now)
    everybody = over.reading(now, NOBODY)
    otherwise = dict(meter.otherwise)
    for tenant in book.node.holders:
        difference = over.reading(now, tenant) - everybody
        if difference:
            otherwise[tenant] = otherwise.get(tenant, 0) + difference
    ground.begin_with(everybody + meter.added, otherwise, now)
    ground.changes = ground.own_changes = 0
    meter.ground = ground
    return ground


def _leave_ground(meter: Meter, over: Ground, book: Metered, now: int) -> bool:
    """Once little happens in a book, let it be metered against the ground over it again.

    The way back from `_make_ground`: its meter goes on from what it showed beyond the ground over
    it. Not while other grounds follow this one, as these would have nothing to follow.
    """
    ground = meter.ground
    assert ground is not None
    if ground.changes < QUIET_CHANGES:
        return False
    quiet = ground.own_changes * len(book.node.holders) * QUIET_SHARE < ground.changes
    ground.changes = ground.own_changes = 0
    if not quiet or ground.followers:
        return False
    everybody, everybody_over = ground.reading(now, NOBODY), over.reading(now, NOBODY)
    meter.added = everybody - everybody_over
    meter.otherwise = {}
    for tenant in book.node.holders:
        difference = ground.reading(now, tenant) - everybody
        difference -= over.reading(now, tenant) - everybody_over
        if difference:
            meter.otherwise[tenant] = difference
    over.followers -= 1
    meter.ground = None
    meter.until = now
    meter.seen = over.changes
    meter.changes = meter.changes_over = 0
    return True


def _count(
    book: Metered, meter: Meter, above: Sequence[Metered], first: int, ground: Ground, now: int
) -> None:
    """Count what a book has added since its meter was last read. Of the books above it those from
    the first on are below the ground."""
    since, steps = max(meter.until, ground.times[0]), book.steps
    if since >= now:
        return
    pressing, changes = _pressing(steps, since, now)
    highest = max(pressing[0], pressing[1])
    for step in changes:
        highest = max(highest, step[1], step[2])
    # Whoever paid `highest` all the time for what is over this book paid nothing for the book.
    if highest == 0 or ground.never_below(highest, since):
        return
    over = NO_PRESSURE
    cuts = {step[0] for step in changes}
    between = above[first:]
    for other in between:
        if len(other.steps) > FEW_BETWEEN:
            trunk = _trunk_over(above, first, since, now)
            if trunk is not None:
                _count_above_trunk(book, meter, trunk, since, now)
                return
        pressure, its_changes = _pressing(other.steps, since, now)
        if highest <= _least(pressure, its_changes):
            return
        over = together(over, pressure)
        cuts.update(step[0] for step in its_changes)
    # Between two cuts neither the book nor any between it and the ground changes.
    for cut in sorted(cuts):
        if cut > since:
            _add(book, meter, over, pressing, ground, since, cut)
            since = cut
        pressing = pressing_at(steps, cut)
        over = NO_PRESSURE
        for other in between:
            over = together(over, pressing_at(other.steps, cut))
    _add(book, meter, over, pressing, ground, since, now)


def _trunk_over(above: Sequence[Metered], first: int, since: int, now: int) -> Trunk | None:
    """The trunk of all above a book, if so much happened below the ground that each book under it
    had better not look at all of it."""
    recent = sum(
        steps_before(other.steps, now) - max(step_index(other.steps, since), 0)
        for other in above[first:]
    )
    if recent <= FEW_BETWEEN:
        return None
    written_down = sum(len(other.steps) for other in above)
    if recent * above[-1].node.held * LOOKS_PER_CHANGE <= written_down:
        return None
    return trunk_of(above, now)


def _count_above_trunk(book: Metered, meter: Meter, trunk: Trunk, since: int, now: int) -> None:
    """As `_count`, against all that pressed over the book, in which much has happened."""
    # Nobody under it held anything before the trunk begins.
    since = max(since, trunk.ground.times[0])
    pressing, changes = _pressing(book.steps, since, now)
    for step in changes:
        if step[0] > since:
            _add_above_trunk(book, meter, trunk, pressing, since, step[0])
            since = step[0]
        pressing = step[1:]
    _add_above_trunk(book, meter, trunk, pressing, since, now)


def _add_above_trunk(
    book: Metered, meter: Meter, trunk: Trunk, here: Pressure, since: int, until: int
) -> None:
    """Count what `here` adds to all over the book, while `here` stands still."""
    rate, ground = max(here[0], here[1]), trunk.ground
    if since >= until or rate == 0 or ground.never_below(rate, since):
        return
    added = trunk.lacked(rate, NOBODY, since, until)
    meter.added += added
    for tenant in _pressing_most(book, None, here[2], ground, ground.index_at(since)):
        own_rate = max(here[0], here[3]) if tenant == here[2] else rate
        difference = trunk.lacked(own_rate, tenant, since, until) - added
        if difference:
            meter.otherwise[tenant] = meter.otherwise.get(tenant, 0) + difference


def _pressing(
    steps: list[PressureStep], since: int, now: int
) -> tuple[Pressure, list[PressureStep]]:
    """What presses at `since`, and the changes after that and before `now`."""
    if not steps:
        return NO_PRESSURE, []
    last = steps[-1]
    if last[0] <= since:
        return last[1:], []
    index = step_index(steps, since)
    pressure = steps[index][1:] if index >= 0 else NO_PRESSURE
    return pressure, steps[index + 1 : steps_before(steps, now)]


def _least(pressure: Pressure, changes: list[PressureStep]) -> int:
    """The least that pressed on anybody, whoever it is."""
    least = max(pressure[0], pressure[3])
    for step in changes:
        least = min(least, max(step[1], step[4]))
    return least


def _add(
    book: Metered,
    meter: Meter,
    over: Pressure,
    here: Pressure,
    ground: Ground,
    since: int,
    until: int,
) -> None:
    """Count what `here` adds to `over` and the ground, while `here` and `over` stand still."""
    rate = max(here[0], here[1])
    floor_over, first_over, by_over, second_over = over
    # Even the one whose own order presses most over it is pressed by these.
    if rate <= floor_over or rate <= second_over:
        return
    times, index = ground.times, ground.index_at(since)
    if len(times) - index <= FEW_CHANGES:
        while since < until:
            end = min(until, times[index + 1]) if index + 1 < len(times) else until
            above = together(ground.pressures[index], over)
            _add_standing_still(book, meter, above, here, end - since)
            since = end
            index += 1
        return
    if ground.never_below(rate, since):
        return
    rate_over = max(floor_over, first_over)
    # For everybody: how far the ground fell short of `rate`, but for what the books between made
    # up already. For those who pressed most themselves somewhere on the path, the difference:
    # `own_over` and `own_rate` are what the others press them with over the book and in it, and
    # in the ground's episodes `on_by` does, where `on_others` was counted just now.
    added = _added(ground, rate_over, rate, since, until)
    meter.added += added
    for tenant in _pressing_most(book, by_over, here[2], ground, index):
        own_over, own_rate, difference = rate_over, rate, 0
        if tenant in (by_over, here[2]):
            if tenant == by_over:
                own_over = max(floor_over, second_over)
            if tenant == here[2]:
                own_rate = max(here[0], here[3])
            difference = _added(ground, own_over, own_rate, since, until) - added
        own = ground.own_episodes(tenant)
        if own is not None and own_rate > own_over:
            difference += own.lacked(own_rate, since, until)
            difference -= own.lacked(own_over, since, until)
        if difference:
            meter.otherwise[tenant] = meter.otherwise.get(tenant, 0) + difference


def _add_standing_still(
    book: Metered, meter: Meter, above: Pressure, here: Pressure, span: int
) -> None:
    """Count what `here` adds to `above` for a time in which nothing changes at all."""
    floor_above, first_above, by_above, second_above = above
    rate, rate_above = max(here[0], here[1]), max(floor_above, first_above)
    added = max(rate - rate_above, 0)
    meter.added += added * span
    holders = book.node.holders
    for tenant in (by_above,) if by_above == here[2] else (by_above, here[2]):
        if tenant is not None and tenant in holders:
            own_above = max(floor_above, second_above) if tenant == by_above else rate_above
            own_rate = max(here[0], here[3]) if tenant == here[2] else rate
            difference = (max(own_rate - own_above, 0) - added) * span
            if difference:
                meter.otherwise[tenant] = meter.otherwise.get(tenant, 0) + difference


def _pressing_most(
    book: Metered, by_over: str | None, by: str | None, ground: Ground, first: int
) -> set[str]:
    """The holders under a book whose own orders may have pressed most somewhere on its path."""
    holders = book.node.holders
    # Whichever is shorter is looked through: the changes, or the holders.
    if len(ground.times) - first < len(holders):
        found = {tenant for tenant in ground.pressing_most_since(first) if tenant in holders}
    else:
        found = {tenant for tenant in holders if ground.pressed_most_since(tenant, first)}
    found.update(tenant for tenant in (by_over, by) if tenant is not None and tenant in holders)
    return found


def _added(ground: Ground, rate_over: int, rate: int, since: int, until: int) -> int:
    if rate <= rate_over:
        return 0
    added = ground.shortfall(rate, since, until)
    return added - ground.shortfall(rate_over, since, until) if added and rate_over else added
