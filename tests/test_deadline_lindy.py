"""Lindy: its law, its table against a naive recursion, and that it is worth its while."""

from functools import lru_cache
from math import exp, log
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laissez.deadline.classic import UniformProgress
from laissez.deadline.generator import sample_traces
from laissez.deadline.job import US_PER_HOUR, Job, Kind, Observation, Offer, Spell
from laissez.deadline.lindy import (
    AGES_US,
    IDLE,
    ON_DEMAND,
    SETTLING_US,
    SPOT,
    Lindy,
    MoveTable,
    age_class,
    grid_for,
    hazard_per_hour,
)
from laissez.deadline.omniscient import best_plan
from laissez.deadline.traces import load_all
from laissez.deadline.world import Future, Zone, run
from laissez.experiments.deadline.study import is_held_out

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "spot"
HOUR = US_PER_HOUR
MINUTE = HOUR // 60
SURE = Offer("zone", Kind.ON_DEMAND, 3_000_000)
RATE = 1_000_000


def lindy(job: Job) -> Lindy:
    return Lindy(job, RATE, SURE.micros_per_hour)


def zone(*spells: tuple[bool, int], tick_us: int = 10 * MINUTE, name: str = "zone") -> Zone:
    """A zone from its spells: whether there is capacity, and for how many ticks."""
    rates = [RATE if is_up else None for is_up, ticks in spells for _ in range(ticks)]
    return Zone(name, tick_us, rates)


def seen(job: Job, *offers: tuple[str, int, int], at_us: int = 10 * HOUR) -> Observation:
    """Idle, with spot offers in zones: name, rate, age."""
    return Observation(
        at_us,
        job.work_us - at_us // 2,
        None,
        0,
        SURE,
        tuple(Offer(name, Kind.SPOT, rate) for name, rate, _ in offers),
        tuple(Spell(name, True, at_us - age_us) for name, _, age_us in offers),
    )


# --- the law ------------------------------------------------------------------------------------


def test_what_has_lasted_lasts() -> None:
    """A spell that is twice as old ends at half the rate, once it has settled."""
    assert hazard_per_hour(0) == 2
    assert hazard_per_hour(HOUR // 2) == 1
    assert hazard_per_hour(20 * HOUR) == pytest.approx(hazard_per_hour(10 * HOUR) / 2, rel=0.03)


@given(st.integers(0, 100 * HOUR))
def test_every_age_has_its_class(age_us: int) -> None:
    """A class begins at or before the ages in it, and the next one after them."""
    number = age_class(age_us)
    assert AGES_US[number] <= age_us
    assert number == len(AGES_US) - 1 or age_us < AGES_US[number + 1]


# --- the table ----------------------------------------------------------------------------------


def naive_best(job: Job, price_ratio: float) -> dict[tuple[int, int, bool, bool, int], set[int]]:
    """The moves of least expected cost in each state, by the definition, one state at a time."""
    grid = grid_for(job)
    ages = len(AGES_US)

    def ends(age: int) -> float:
        last = age == ages - 1
        until = 2 * AGES_US[age] if last else AGES_US[age + 1]
        rate = log((until + SETTLING_US) / (AGES_US[age] + SETTLING_US)) / (until - AGES_US[age])
        return 1 - exp(-rate * grid.step_us)

    def grows(age: int) -> float:
        return 0 if age == ages - 1 else min(1, grid.step_us / (AGES_US[age + 1] - AGES_US[age]))

    @lru_cache(None)
    def value(step: int, cell: int, where: int, up: bool, age: int) -> float:
        """Where the job is, with what it has just seen."""
        if step * grid.cells_per_step - cell <= 0:
            return 0.0
        return min(moves(step, cell, where, up, age).values())

    def then(step: int, cell: int, where: int, up: bool, age: int) -> float:
        """What is to come after a step in this place, which began in this spell."""
        if step < 0:
            return 0.0
        gone = IDLE if where == SPOT else where
        older = min(age + 1, ages - 1)
        end, grow = ends(age), grows(age)
        return end * value(step, cell, gone, not up, 0) + (1 - end) * (
            (1 - grow) * value(step, cell, where, up, age)
            + grow * value(step, cell, where, up, older)
        )

    def moves(step: int, cell: int, where: int, up: bool, age: int) -> dict[int, float]:
        paid = min(step * grid.cells_per_step - cell, grid.cells_per_step)
        change, hop = grid.changeover_cells, grid.hop_cells
        if where == SPOT:
            return {SPOT: paid + then(step - 1, cell, SPOT, True, age)}
        found = {}
        if where == ON_DEMAND:
            found[ON_DEMAND] = price_ratio * paid + then(step - 1, cell, ON_DEMAND, up, age)
        elif cell >= change:
            found[ON_DEMAND] = price_ratio * paid + then(
                step - 1, cell - change, ON_DEMAND, up, age
            )
        if where == IDLE and cell - grid.cells_per_step >= change:
            found[IDLE] = then(step - 1, cell - grid.cells_per_step, IDLE, up, age)
        if up and cell >= hop:
            found[SPOT] = paid + then(step - 1, cell - change, SPOT, True, age)
        return found or {ON_DEMAND: 1e12}

    best = {}
    for step in range(1, grid.steps + 1):
        for cell in range(grid.changeover_cells, grid.cells + 1):
            if step * grid.cells_per_step - cell <= 0:
                continue
            for where in (IDLE, ON_DEMAND):
                for up in (True, False):
                    for age in range(ages):
                        found = moves(step, cell, where, up, age)
                        least = min(found.values())
                        best[step, cell, where == IDLE, up, age] = {
                            move for move, cost in found.items() if cost <= least * 1.0001 + 1e-3
                        }
    return best


@pytest.mark.parametrize("price_ratio", [1.5, 3.0, 11.0])
@pytest.mark.parametrize("changeover_us", [12 * MINUTE, 45 * MINUTE])
def test_the_table_has_the_moves_of_least_expected_cost(
    price_ratio: float, changeover_us: int
) -> None:
    """Every entry of a small table is a best move of a recursion over the same states."""
    job = Job(5 * HOUR, 8 * HOUR, changeover_us, 30 * MINUTE)
    table = MoveTable(job, price_ratio)
    grid = table.grid
    assert grid.steps >= 12 and grid.cells >= 12
    for (step, cell, is_idle, is_up, age), moves in naive_best(job, price_ratio).items():
        move = table.best(
            step * grid.step_us,
            cell * grid.cell_us,
            is_idle=is_idle,
            is_up=is_up,
            age_us=AGES_US[age],
        )
        assert move in moves, (step, cell, is_idle, is_up, age)


@given(
    st.integers(1, 400 * HOUR),
    st.integers(0, 400 * HOUR),
    st.integers(0, 10 * HOUR),
    st.integers(1, 2 * HOUR),
)
def test_a_table_is_never_huge(work_us: int, spare_us: int, changeover_us: int, tick: int) -> None:
    """Whatever the job, time and slack have a bounded number of parts, and cover it."""
    job = Job(work_us, work_us + changeover_us + spare_us, changeover_us, tick)
    grid = grid_for(job)
    assert grid.steps <= 900 and grid.cells <= 1_500
    assert grid.steps * grid.step_us >= job.deadline_us
    assert (grid.cells + 1) * grid.cell_us > job.slack_us
    assert grid.hop_cells >= grid.changeover_cells


# --- what it does -------------------------------------------------------------------------------


def test_with_plenty_it_never_pays_for_on_demand() -> None:
    """Where spot is always there, all work is done on it, with one changeover."""
    job = Job(48 * HOUR, 60 * HOUR, 12 * MINUTE, 10 * MINUTE)
    outcome = run(job, lindy(job), [zone((True, 400))], SURE)
    assert outcome.moves == 1
    assert outcome.spot_us == job.work_us
    assert outcome.cost_micros == (48 * 60 + 12) * RATE // 60


def test_with_nothing_it_waits_no_longer_than_it_may() -> None:
    """Where spot never comes, the work is done on on-demand, once, and in time."""
    job = Job(48 * HOUR, 60 * HOUR, 12 * MINUTE, 10 * MINUTE)
    outcome = run(job, lindy(job), [zone((False, 400))], SURE)
    assert outcome.moves == 1 and not outcome.is_late
    assert outcome.on_demand_us == job.work_us


def test_the_young_are_not_trusted_when_slack_is_dear() -> None:
    """On on-demand with little slack, a spot instance must have lasted before it is taken."""
    job = Job(48 * HOUR, 52 * HOUR, 24 * MINUTE, 10 * MINUTE)
    policy = lindy(job)
    at_us, on_demand = 12 * HOUR, SURE
    spot = Offer("zone", Kind.SPOT, RATE)

    def taken(age_us: int) -> bool:
        spell = Spell("zone", True, at_us - age_us)
        look = Observation(at_us, 37 * HOUR, on_demand, 0, on_demand, (spot,), (spell,))
        return policy.decide(look) == spot

    assert not taken(0)
    assert taken(12 * HOUR)
    ages = [taken(minutes * MINUTE) for minutes in range(0, 720, 10)]
    assert ages == sorted(ages)


def test_a_new_outage_is_waited_out_and_an_old_one_is_not() -> None:
    """The same slack is spent on an outage that has just begun, and not on one that lasts."""
    job = Job(48 * HOUR, 60 * HOUR, 12 * MINUTE, 10 * MINUTE)
    policy = lindy(job)
    at_us = 20 * HOUR

    def waits(age_us: int, slack_us: int) -> bool:
        spell = Spell("zone", False, at_us - age_us)
        left_us = job.deadline_us - at_us - slack_us
        return policy.decide(Observation(at_us, left_us, None, 0, SURE, (), (spell,))) is None

    between = [
        slack
        for slack in range(HOUR, 10 * HOUR, HOUR // 2)
        if waits(0, slack) != waits(HOUR, slack)
    ]
    assert between
    assert all(waits(0, slack) for slack in between)


def test_of_several_zones_the_one_that_has_lasted_is_taken() -> None:
    """At equal prices the older offer, and a cheaper one if it is much cheaper."""
    job = Job(48 * HOUR, 80 * HOUR, 12 * MINUTE, 10 * MINUTE)
    policy = lindy(job)
    young_and_old = seen(job, ("a", RATE, 0), ("b", RATE, 5 * HOUR), ("c", RATE, HOUR))
    assert policy.decide(young_and_old) == Offer("b", Kind.SPOT, RATE)
    cheap = seen(job, ("a", RATE // 2, 0), ("b", RATE, 5 * HOUR))
    assert policy.decide(cheap) == Offer("a", Kind.SPOT, RATE // 2)
    hardly_cheaper = seen(job, ("a", RATE - 1, 0), ("b", RATE, 5 * HOUR))
    assert policy.decide(hardly_cheaper) == Offer("b", Kind.SPOT, RATE)


@given(
    st.integers(1, 47 * 60),
    st.integers(0, 59),
    st.booleans(),
    st.integers(0, 10 * HOUR),
)
def test_the_last_work_is_not_left_lying(
    left_min: int, odd_min: int, is_idle: bool, age_us: int
) -> None:
    """However little work is left, and however odd the deadline, spot that lasts is taken."""
    job = Job(48 * HOUR, 60 * HOUR + odd_min * MINUTE, 3 * MINUTE, 10 * MINUTE)
    at_us = 48 * HOUR - left_min * MINUTE
    spot = Offer("zone", Kind.SPOT, RATE)
    look = Observation(
        at_us,
        left_min * MINUTE,
        None if is_idle else SURE,
        0,
        SURE,
        (spot,),
        (Spell("zone", True, at_us - 2 * HOUR - age_us),),
    )
    decided = lindy(job).decide(look)
    assert decided is not None
    assert decided == spot or left_min < 60


# --- that it is worth its while -----------------------------------------------------------------


def gap_closed(zones: list[Zone], starts: int, seed: int) -> float:
    """The part of the gap between uniform progress and the best possible that Lindy closes."""
    random = Random(seed)
    uniform = better = best = 0
    for each in zones:
        for job in jobs_with(each.tick_us):
            ticks = -(-job.deadline_us // job.tick_us)
            for _ in range(starts):
                start = random.randrange(len(each) - ticks)
                uniform += run(job, UniformProgress(job), [each], SURE, start=start).cost_micros
                mine = run(job, lindy(job), [each], SURE, start=start)
                assert not mine.is_late
                better += mine.cost_micros
                future = Future([each], start).is_available(ticks)
                best += best_plan(job, future, RATE, SURE.micros_per_hour).cost_micros
    return (uniform - better) / (uniform - best)


def jobs_with(tick_us: int) -> list[Job]:
    return [
        Job(48 * HOUR, 48 * HOUR * 100 // percent, changeover_us, tick_us)
        for percent in (60, 80, 95)
        for changeover_us in (3 * MINUTE, 12 * MINUTE, 24 * MINUTE)
    ]


def test_it_beats_uniform_progress_in_invented_zones() -> None:
    """On traces of the generator a third of the gap to the best possible is closed."""
    tick_us = 10 * MINUTE
    zones = [trace.as_zone(RATE) for trace in sample_traces(days=27, tick_us=tick_us, seed=5)]
    assert gap_closed(zones, 3, 11) > 1 / 3


def test_it_beats_uniform_progress_on_held_out_traces() -> None:
    """On real traces that it was not developed on, a third of the gap is closed."""
    if not DATA.exists():
        pytest.skip("the real traces are not here")
    traces = load_all(DATA)
    names = [trace.name for trace in traces]
    held_out = [trace for trace in traces if is_held_out(trace.name, names)]
    assert len(held_out) == 7
    zones = [trace.as_zone(RATE) for trace in held_out]
    assert gap_closed(zones, 3, 12) > 1 / 3
