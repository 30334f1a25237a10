"""Lindy: the longer it has lasted, the longer it will.

Spot capacity is restless when young and settles with age, and so are its outages. If each spell
ends at a rate of its own that nobody knows, and every order of magnitude of that rate is about
equally likely, then a spell of age `a` ends at the rate `1 / (a + SETTLING)`. That one law is all
this policy believes of the world: it holds for spells of capacity and for spells without, and it
is what it learns from: the age of the present spell, nothing else.

Given the law, what remains is arithmetic. The state is the time left, the slack left, where the
job is (idle, on spot, on on-demand), whether there is spot capacity, and the age of that spell.
Dynamic programming from the deadline back gives the least expected cost of each state, and so what
an hour of slack is worth there: whether to wait out an outage, whether a young instance is worth a
changeover, whether to leave on-demand for it. Slack that would run out is never spent: moves that
could end after the deadline are not among the choices, neither in the table nor after it.

The table is made once per job and price ratio, and shared by all its runs. Time and slack are on
grids; in doubt there is less slack than there is. The changeover is taken from the slack when it
begins, though a preemption in the middle of it gives some of it back. Ages are in classes, and a
spell that lasts a step grows into the next class at most, so that it ages too slowly in the table
of a job of many days, whose steps are longer than the first classes.

With several zones the one to take has the least expected price of an hour, the changeover after
the next preemption included; at equal prices that is the one that has had capacity for longest.
The table knows of no refuge: it takes each zone for the only one.
"""

from __future__ import annotations

from functools import lru_cache

import msgspec
import numpy as np
from numpy.typing import NDArray

from laissez.deadline.job import US_PER_HOUR, Job, Observation, Offer
from laissez.deadline.policy import Policy

SETTLING_US = US_PER_HOUR // 2
MINUTE_US = 60_000_000
AGES_US = tuple(minutes * MINUTE_US for minutes in (0, 10, 20, 30, 60, 120, 240, 480, 960))
"""Where each class of ages begins; the last one has no end."""

STEPS = 400
CELLS_MAX = 1_500
CELLS_PER_STEP_MAX = 8
CELLS_PER_CHANGEOVER_MIN = 2
CELLS_PER_CHANGEOVER_MAX = 6
TABLES_MAX = 8
IMPOSSIBLE = 1e12

IDLE, SPOT, ON_DEMAND = 0, 1, 2
UP, DOWN = 0, 1

Values = NDArray[np.float32]


def hazard_per_hour(age_us: int) -> float:
    """The rate at which a spell of this age ends."""
    return US_PER_HOUR / (age_us + SETTLING_US)


def age_class(age_us: int) -> int:
    number = len(AGES_US) - 1
    while age_us < AGES_US[number]:
        number -= 1
    return number


class Grid(msgspec.Struct, frozen=True):
    """How time and slack are divided."""

    step_us: int
    cells_per_step: int
    changeover_cells: int
    hop_cells: int
    steps: int
    cells: int

    @property
    def cell_us(self) -> int:
        return self.step_us // self.cells_per_step


def grid_for(job: Job) -> Grid:
    """A changeover is a whole number of cells, unless a long slack would make too many of them."""
    wanted_us = max(job.tick_us, -(-job.deadline_us // STEPS))
    pieces = CELLS_PER_CHANGEOVER_MAX * job.changeover_us // wanted_us
    pieces = min(max(pieces, CELLS_PER_CHANGEOVER_MIN), CELLS_PER_CHANGEOVER_MAX)
    cell_us = max(
        job.changeover_us // pieces,
        -(-job.slack_us // CELLS_MAX),
        wanted_us // CELLS_PER_STEP_MAX,
        1,
    )
    cells_per_step = max(1, round(wanted_us / cell_us))
    return Grid(
        cell_us * cells_per_step,
        cells_per_step,
        -(-job.changeover_us // cell_us),
        -(-job.hop_us // cell_us),
        -(-job.deadline_us // (cell_us * cells_per_step)),
        job.slack_us // cell_us,
    )


class MoveTable:
    """For each state the best move; `moves` is indexed [step][cell][idle or not][up or down][age].

    Values are kept for one step at a time, in units of a cell at the spot price.
    """

    def __init__(self, job: Job, price_ratio: float) -> None:
        self.grid = grid = grid_for(job)
        ages = len(AGES_US)
        rows = grid.cells + 1
        moves = np.zeros((grid.steps + 1, rows, 2, 2, ages), dtype=np.int8)
        stays, ends = _transitions(grid.step_us)
        cells = np.arange(rows)
        idle = np.zeros((2, rows, ages), dtype=np.float32)
        on_demand = np.zeros_like(idle)
        spot = np.zeros((rows, ages), dtype=np.float32)
        for step in range(grid.steps + 1):
            work = (step * grid.cells_per_step - cells)[:, None]
            paid = np.clip(work, 0, grid.cells_per_step).astype(np.float32)
            then_idle = _expected(idle, stays, ends)
            then_on_demand = _expected(on_demand, stays, ends)
            then_spot = spot @ stays + idle[DOWN, :, :1] * ends
            wait = _after(then_idle, grid.cells_per_step, grid.changeover_cells)
            begin = price_ratio * paid + _after(then_on_demand, grid.changeover_cells, 0)
            stay = price_ratio * paid + then_on_demand
            hop = np.full_like(wait, IMPOSSIBLE)
            reserve = grid.hop_cells - grid.changeover_cells
            hop[UP] = paid + _after(then_spot, grid.changeover_cells, reserve)
            choices = np.stack([wait, hop, begin])
            moves[step, :, 0] = np.moveaxis(choices.argmin(axis=0), 0, 1)
            moves[step, :, 1] = np.moveaxis(np.where(hop < stay, SPOT, ON_DEMAND), 0, 1)
            is_open = work > 0
            idle = np.where(is_open, choices.min(axis=0), 0).astype(np.float32)
            on_demand = np.where(is_open, np.minimum(hop, stay), 0).astype(np.float32)
            spot = np.where(is_open, paid + then_spot, 0).astype(np.float32)
        self._moves = moves.tobytes()
        self._row = 4 * ages
        self._step = rows * self._row
        self._ages = ages

    def best(self, left_us: int, slack_us: int, *, is_idle: bool, is_up: bool, age_us: int) -> int:
        grid = self.grid
        cell = min(max(slack_us // grid.cell_us, 0), grid.cells)
        step = (2 * left_us + grid.step_us) // (2 * grid.step_us)
        # However the time is rounded, there is some work left, or nobody would ask.
        step = min(max(step, cell // grid.cells_per_step + 1), grid.steps)
        state = (0 if is_idle else 2) + (UP if is_up else DOWN)
        at = step * self._step + cell * self._row + state * self._ages + age_class(age_us)
        return self._moves[at]


@lru_cache(maxsize=TABLES_MAX)
def table_for(job: Job, price_ratio: float) -> MoveTable:
    return MoveTable(job, price_ratio)


class Lindy(Policy):
    def __init__(self, job: Job, spot_micros_per_hour: int, on_demand_micros_per_hour: int) -> None:
        super().__init__(job)
        # With less slack than a hop takes there is nothing to wait for.
        self.net_us = max(job.wait_us, job.hop_us)
        self._price_ratio = on_demand_micros_per_hour / max(spot_micros_per_hour, 1)

    def choose(self, seen: Observation) -> Offer | None:
        running = seen.running
        best, age_us = self._best_spot(seen)
        slack_us = self.slack_us(seen)
        move = table_for(self.job, self._price_ratio).best(
            self.job.deadline_us - seen.at_us,
            slack_us,
            is_idle=running is None,
            is_up=best is not None,
            age_us=age_us,
        )
        if move == SPOT and best is not None and slack_us >= self.job.hop_us:
            return best
        if move == IDLE:
            return running
        return running or seen.on_demand

    def _best_spot(self, seen: Observation) -> tuple[Offer | None, int]:
        """The offer to go for and its age; without one, the age of the outage."""
        began_us = {spell.zone: spell.began_us for spell in seen.spells}
        if not seen.spot:
            return None, seen.at_us - max(began_us.values(), default=0)
        if len(seen.spot) == 1:
            only = seen.spot[0]
            return only, seen.at_us - began_us[only.zone]
        changeover = self.job.changeover_us / US_PER_HOUR
        best = min(
            seen.spot,
            key=lambda offer: (
                offer.micros_per_hour
                * (1 + changeover * hazard_per_hour(seen.at_us - began_us[offer.zone]))
            ),
        )
        return best, seen.at_us - began_us[best.zone]


def _transitions(step_us: int) -> tuple[Values, Values]:
    """How a step ages a spell that goes on, and how likely it ends; by class of age."""
    ages = len(AGES_US)
    stays = np.zeros((ages, ages), dtype=np.float32)
    ends = np.zeros(ages, dtype=np.float32)
    for number, begins_us in enumerate(AGES_US):
        is_last = number == ages - 1
        until_us = 2 * begins_us if is_last else AGES_US[number + 1]
        width_us = until_us - begins_us
        hazard = np.log((until_us + SETTLING_US) / (begins_us + SETTLING_US)) / width_us
        end = 1 - np.exp(-hazard * step_us)
        grows = 0.0 if is_last else min(1.0, step_us / width_us)
        ends[number] = end
        # Columns are the classes now, rows those of the next step.
        stays[number, number] = (1 - end) * (1 - grows)
        if not is_last:
            stays[number + 1, number] = (1 - end) * grows
    return stays, ends


def _expected(values: Values, stays: Values, ends: Values) -> Values:
    """What the next step is worth, before it is known whether the spell ends."""
    ended: Values = values[::-1, :, :1] * ends
    return values @ stays + ended


def _after(values: Values, spent: int, reserve: int) -> Values:
    """The values with so many cells of slack less; impossible where `reserve` is not left."""
    shifted = np.full_like(values, IMPOSSIBLE)
    rows = values.shape[-2]
    if spent < rows:
        shifted[..., spent:, :] = values[..., : rows - spent, :]
    shifted[..., : min(spent + reserve, rows), :] = IMPOSSIBLE
    return shifted
