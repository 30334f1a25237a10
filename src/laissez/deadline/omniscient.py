"""The cheapest course there is, for somebody who knows when spot capacity comes and goes.

Call lost the time in which a job does no work: idle, or changing over. Work done is time passed
less time lost, so where a job stands at a tick is one of three modes and how much it has lost, and
the least that it can have paid to stand there follows from the tick before:

* idle, from any mode: a tick is lost, nothing is paid;
* stay on an instance: nothing is lost, a tick is paid;
* move to an instance: the whole changeover is lost at once, a tick is paid.

The deadline is kept as long as no more is lost than the slack. The work ends when time passed is
work and losses together; of that last tick only the part before the end is paid.

Losing the whole changeover at once is exact. It is wrong only for a job that leaves an instance
before the changeover is over, and such a job had better not gone there. The one exception is the
instance on which a stretch begins: whoever leaves that one hasn't yet lost what is left of its
changeover, so a stretch begins in two places, there and idle.

Losses are sums of ticks and changeovers, and the table has a column for each such sum: it is exact
whatever the numbers are. Only where it would have more than `CELLS_MAX` cells (ticks times columns)
is the changeover rounded up to a whole part of a tick. The plan is then the best one for that
changeover. It is kept by the real one too, and costs at least the real optimum and at most the
optimum of a job whose changeovers all take so much longer.

Paid ticks are counted at their rate per hour, so the numbers stay small and are whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum

import msgspec
import numpy as np
from numpy.typing import NDArray

from laissez.deadline.job import US_PER_HOUR, Job, Kind

Integers = NDArray[np.int64]

IDLE, SPOT, ON_DEMAND = range(3)
MODES = (None, Kind.SPOT, Kind.ON_DEMAND)
CELLS_MAX = 64_000_000
UNREACHABLE = 1 << 62


class Cheaper(IntEnum):
    """What is kept of each tick to find the way back: which of two was cheaper, a bit by column."""

    ON_DEMAND_THAN_IDLE = 0
    SPOT_THAN_IDLE = 1
    ON_DEMAND_THAN_BOTH = 2
    MOVE_THAN_SPOT = 3
    MOVE_THAN_ON_DEMAND = 4


class BestPlan(msgspec.Struct, frozen=True):
    """Where to run at each tick, until the work is done, and what that costs."""

    cost_micros: int
    kinds: tuple[Kind | None, ...]


class StretchStart(msgspec.Struct, frozen=True):
    """Where a job stands when a stretch of ticks begins."""

    work_left_us: int
    slack_us: int
    running: Kind | None = None
    changeover_left_us: int = 0


class Replay(msgspec.Struct, frozen=True):
    """What becomes of a job that follows a course: the work left before each tick and at the end.

    The charge is in micro-dollars per hour times microseconds.
    """

    work_left_us: tuple[int, ...]
    charge: int


class StretchEnds(msgspec.Struct, frozen=True):
    """All states in which a stretch can end, one per entry, each at the least charge.

    A course that is done has its end inside the stretch. `progress_us` may be less than nothing:
    what is left of a changeover counts against it.
    """

    is_done: NDArray[np.bool_]
    modes: Integers
    columns: Integers
    slack_us: Integers
    progress_us: Integers
    charges: NDArray[np.object_]


def best_plan(
    job: Job,
    is_available: Sequence[bool],
    spot_micros_per_hour: int,
    on_demand_micros_per_hour: int,
) -> BestPlan:
    """The cheapest course that keeps the deadline; there is no spot after the end of what is known.

    It is there for every job, for on-demand from the first moment to the last is one.
    """
    ticks = -(-job.deadline_us // job.tick_us)
    known = [*is_available[:ticks], *[False] * (ticks - len(is_available))]
    standing = StretchStart(job.work_us, job.slack_us)
    courses = Courses(job, standing, known, spot_micros_per_hour, on_demand_micros_per_hour)
    done = np.flatnonzero(courses.ends.is_done)
    kinds = courses.kinds(int(done[courses.ends.charges[done].argmin()]))
    replay = follow(job, standing, kinds, spot_micros_per_hour, on_demand_micros_per_hour)
    return BestPlan(replay.charge // US_PER_HOUR, kinds[: len(replay.work_left_us) - 1])


def follow(
    job: Job,
    standing: StretchStart,
    kinds: Sequence[Kind | None],
    spot_micros_per_hour: int,
    on_demand_micros_per_hour: int,
) -> Replay:
    """Go through a course tick by tick, until it ends or the work is done."""
    work_left_us = standing.work_left_us
    running, changeover_left_us = standing.running, standing.changeover_left_us
    left_us = [work_left_us]
    charge = 0
    for kind in kinds:
        if work_left_us == 0:
            break
        if kind is not running:
            running, changeover_left_us = kind, job.changeover_us
        if kind is not None:
            changeover_us = min(changeover_left_us, job.tick_us)
            worked_us = min(work_left_us, job.tick_us - changeover_us)
            changeover_left_us -= changeover_us
            work_left_us -= worked_us
            is_spot = kind is Kind.SPOT
            rate = spot_micros_per_hour if is_spot else on_demand_micros_per_hour
            charge += rate * (changeover_us + worked_us)
        left_us.append(work_left_us)
    return Replay(tuple(left_us), charge)


class Courses:
    """The cheapest course through a stretch of ticks to each state in which it can end."""

    def __init__(
        self,
        job: Job,
        standing: StretchStart,
        is_available: Sequence[bool],
        spot_micros_per_hour: int,
        on_demand_micros_per_hour: int,
    ) -> None:
        self._tick_us = job.tick_us
        self._standing = standing
        self._rates = (0, spot_micros_per_hour, on_demand_micros_per_hour)
        changeover_us, self._losses_us = _columns(job, standing, len(is_available))
        # One column more than there are losses: what can't be reached comes from there.
        self._before_tick = _column_before(self._losses_us, job.tick_us)
        self._before_move = _column_before(self._losses_us, changeover_us)
        shape = (len(is_available), len(Cheaper), len(self._losses_us) // 8 + 1)
        self._cheaper = np.empty(shape, dtype=np.uint8)
        self.ends = self._explore(is_available)

    def kinds(self, end: int) -> tuple[Kind | None, ...]:
        """Where the course to an end runs, tick by tick."""
        mode, column = int(self.ends.modes[end]), int(self.ends.columns[end])
        ticks = len(self._cheaper)
        if self.ends.is_done[end]:
            passes_us = self._standing.work_left_us + int(self._losses_us[column])
            ticks = -(-passes_us // self._tick_us)
        kinds: list[Kind | None] = []
        for tick in reversed(range(ticks)):
            kinds.append(MODES[mode])
            mode, column = self._came_from(tick, mode, column)
        return tuple(reversed(kinds))

    def _came_from(self, tick: int, mode: int, column: int) -> tuple[int, int]:
        def is_cheaper(which: Cheaper) -> bool:
            return bool(self._cheaper[tick, which, column // 8] >> (7 - column % 8) & 1)

        if mode == IDLE:
            column = int(self._before_tick[column])
            if is_cheaper(Cheaper.ON_DEMAND_THAN_BOTH):
                return ON_DEMAND, column
            return (SPOT if is_cheaper(Cheaper.SPOT_THAN_IDLE) else IDLE), column
        if mode == SPOT and is_cheaper(Cheaper.MOVE_THAN_SPOT):
            column = int(self._before_move[column])
            return (ON_DEMAND if is_cheaper(Cheaper.ON_DEMAND_THAN_IDLE) else IDLE), column
        if mode == ON_DEMAND and is_cheaper(Cheaper.MOVE_THAN_ON_DEMAND):
            column = int(self._before_move[column])
            return (SPOT if is_cheaper(Cheaper.SPOT_THAN_IDLE) else IDLE), column
        return mode, column

    def _explore(self, is_available: Sequence[bool]) -> StretchEnds:
        paid = self._begin()
        entered = np.empty_like(paid)
        cheaper = np.zeros((len(Cheaper), paid.shape[1]), dtype=np.bool_)
        paid_when_done = np.full_like(paid, UNREACHABLE)
        rates = np.array(self._rates, dtype=np.int64)[:, np.newaxis]
        passed_us = np.arange(1, len(is_available) + 1) * self._tick_us
        columns_done = self._losses_us.searchsorted(
            passed_us - self._standing.work_left_us, side="right"
        ).tolist()
        for tick, is_spot_there in enumerate(is_available):
            self._enter(paid, entered, is_spot_there, cheaper)
            self._cheaper[tick] = np.packbits(cheaper, axis=1)
            if done := columns_done[tick]:
                # A column is done at one tick only: before that it isn't, and after it is cleared.
                now_done = paid_when_done[:, :done]
                np.minimum(now_done, entered[:, :done], out=now_done)
                entered[:, :done] = UNREACHABLE
            entered += rates
            paid, entered = entered, paid
        return self._ends(paid, paid_when_done, len(is_available))

    def _begin(self) -> Integers:
        standing = self._standing
        paid = np.full((len(MODES), len(self._losses_us) + 1), UNREACHABLE, dtype=np.int64)
        paid[IDLE, 0] = 0
        if standing.running is not None:
            # In a coarse table, what is left of the changeover is rounded up too.
            column = int(self._losses_us.searchsorted(standing.changeover_left_us))
            if column < len(self._losses_us):
                paid[MODES.index(standing.running), column] = 0
        return paid

    def _enter(
        self, paid: Integers, entered: Integers, is_spot_there: bool, cheaper: NDArray[np.bool_]
    ) -> None:
        """What was paid to be in each mode for the next tick, before that tick is paid."""
        idle, spot, on_demand = paid
        np.less(on_demand, idle, out=cheaper[Cheaper.ON_DEMAND_THAN_IDLE])
        np.less(spot, idle, out=cheaper[Cheaper.SPOT_THAN_IDLE])
        not_on_demand = np.minimum(spot, idle)
        np.less(on_demand, not_on_demand, out=cheaper[Cheaper.ON_DEMAND_THAN_BOTH])
        any_mode = np.minimum(on_demand, not_on_demand)
        # Clipping changes nothing, for all columns are there; it saves numpy a copy.
        any_mode.take(self._before_tick, out=entered[IDLE], mode="clip")
        moved = not_on_demand.take(self._before_move)
        np.less(moved, on_demand, out=cheaper[Cheaper.MOVE_THAN_ON_DEMAND])
        np.minimum(moved, on_demand, out=entered[ON_DEMAND])
        if is_spot_there:
            moved = np.minimum(on_demand, idle).take(self._before_move)
            np.less(moved, spot, out=cheaper[Cheaper.MOVE_THAN_SPOT])
            np.minimum(moved, spot, out=entered[SPOT])
        else:
            entered[SPOT] = UNREACHABLE

    def _ends(self, paid: Integers, paid_when_done: Integers, ticks: int) -> StretchEnds:
        open_modes, open_columns = np.nonzero(paid < UNREACHABLE)
        done_modes, done_columns = np.nonzero(paid_when_done < UNREACHABLE)
        modes = np.concatenate([open_modes, done_modes])
        columns = np.concatenate([open_columns, done_columns])
        is_done = np.arange(len(modes)) >= len(open_modes)
        lost_us = self._losses_us[columns]
        work_us = self._standing.work_left_us
        # As Python's integers, which don't overflow.
        paid_ticks = np.concatenate(
            [paid[open_modes, open_columns], paid_when_done[done_modes, done_columns]]
        ).astype(object)
        last_us = np.where(is_done, (work_us + lost_us - 1) % self._tick_us + 1, 0).astype(object)
        rates = np.array(self._rates, dtype=object)[modes]
        return StretchEnds(
            is_done,
            modes,
            columns,
            self._standing.slack_us - lost_us,
            np.where(is_done, work_us, ticks * self._tick_us - lost_us),
            paid_ticks * self._tick_us + rates * last_us,
        )


def _columns(job: Job, standing: StretchStart, ticks: int) -> tuple[int, Integers]:
    """The changeover to reckon with, and all losses that can come of it within the slack."""
    slack_us = standing.slack_us
    columns_max = CELLS_MAX // max(ticks, 1)
    steps_us = (job.tick_us, job.changeover_us, standing.changeover_left_us)
    losses_us = _losses(steps_us, slack_us, ticks, columns_max)
    if losses_us is not None:
        return job.changeover_us, losses_us
    parts = max(1, columns_max * job.tick_us // max(slack_us, 1))
    parts = next(each for each in range(parts, 0, -1) if job.tick_us % each == 0)
    part_us = job.tick_us // parts
    changeover_us = -(-job.changeover_us // part_us) * part_us
    if changeover_us > slack_us:
        # Rounded up, no move is possible any more; and with one move at most the table is small.
        changeover_us = job.changeover_us
    losses_us = _losses((job.tick_us, changeover_us, 0), slack_us, ticks, columns_max=None)
    assert losses_us is not None
    return changeover_us, losses_us


def _losses(
    steps_us: tuple[int, int, int], slack_us: int, ticks: int, columns_max: int | None
) -> Integers | None:
    """All sums of ticks, changeovers and what is left of one, up to the slack; None if too many.

    Where multiples of their common divisor are fewer than their sums, it is those.
    """
    tick_us, changeover_us, left_us = steps_us
    divisor_us = math.gcd(*steps_us)
    multiples = slack_us // divisor_us + 1
    moves = min(ticks, slack_us // changeover_us) + 1 if changeover_us else 1
    moved_us = np.arange(moves, dtype=np.int64) * changeover_us
    if left_us:
        moved_us = np.concatenate([moved_us, moved_us + left_us])
        moved_us = moved_us[moved_us <= slack_us]
    waits = np.minimum((slack_us - moved_us) // tick_us, ticks) + 1
    sums = int(waits.sum())
    if columns_max is not None and min(multiples, sums) > columns_max:
        return None
    if multiples <= sums:
        return np.arange(multiples, dtype=np.int64) * divisor_us
    waited = np.concatenate([np.arange(each) for each in waits.tolist()])
    return np.unique(waited * tick_us + moved_us.repeat(waits))


def _column_before(losses_us: Integers, lost_us: int) -> Integers:
    """For each column that with so much less lost, and for the rest the column beyond the last."""
    wanted = losses_us - lost_us
    found = losses_us.searchsorted(wanted)
    beyond = len(losses_us)
    return np.append(np.where(losses_us[found] == wanted, found, beyond), beyond)
