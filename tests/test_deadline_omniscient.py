"""The cheapest course, held against trying everything and against a mixed-integer program."""

import random
from collections.abc import Sequence

import highspy
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from laissez.deadline import omniscient
from laissez.deadline.job import US_PER_HOUR, Job, Kind
from laissez.deadline.omniscient import Courses, StretchStart, best_plan, follow

# At this many micro-dollars an hour, a microsecond costs a micro-dollar, and no cost is rounded.
UNIT = US_PER_HOUR
TICK_US = 10


def least_charge(
    job: Job, standing: StretchStart, is_available: Sequence[bool], spot: int, on_demand: int
) -> int | None:
    """Try all courses, tick by tick, in micro-dollars per microsecond; None if all are late."""
    best: int | None = None

    def go(
        at: int, work_us: int, running: Kind | None, left_us: int, slack_us: int, paid: int
    ) -> None:
        nonlocal best
        if slack_us < 0 or at == len(is_available) or (best is not None and paid >= best):
            return
        for kind in (None, Kind.SPOT, Kind.ON_DEMAND):
            if kind is None:
                go(at + 1, work_us, None, 0, slack_us - job.tick_us, paid)
                continue
            if kind is Kind.SPOT and not is_available[at]:
                continue
            changes_us = left_us if kind is running else job.changeover_us
            idles_us = min(changes_us, job.tick_us)
            works_us = min(work_us, job.tick_us - idles_us)
            now_paid = paid + (idles_us + works_us) * (spot if kind is Kind.SPOT else on_demand)
            if works_us < work_us:
                after = (work_us - works_us, kind, changes_us - idles_us, slack_us - idles_us)
                go(at + 1, *after, now_paid)
            elif slack_us >= idles_us and (best is None or now_paid < best):
                best = now_paid

    go(
        0,
        standing.work_left_us,
        standing.running,
        standing.changeover_left_us,
        standing.slack_us,
        0,
    )
    return best


@st.composite
def jobs(draw: st.DrawFn, ticks_max: int = 8) -> Job:
    """Jobs of a few ticks whose changeover fits into a tick neither once nor evenly."""
    changeover_us = draw(st.integers(0, 3 * TICK_US))
    deadline_us = draw(st.integers(changeover_us + 1, max(ticks_max, 4) * TICK_US))
    work_us = draw(st.integers(1, deadline_us - changeover_us))
    return Job(work_us, deadline_us, changeover_us, TICK_US)


availabilities = st.lists(st.booleans(), max_size=9)
rates = st.tuples(st.integers(0, 5), st.integers(1, 9))


@given(jobs(), availabilities, rates)
def test_best_of_all(job: Job, is_available: list[bool], rates: tuple[int, int]) -> None:
    """No course of all there are is cheaper than the plan, and the plan costs what it says."""
    spot, on_demand = rates
    plan = best_plan(job, is_available, spot * UNIT, on_demand * UNIT)
    known = (is_available + [False] * 9)[:9]
    standing = StretchStart(job.work_us, job.slack_us)
    assert plan.cost_micros == least_charge(job, standing, known, spot, on_demand)
    replay = follow(job, standing, plan.kinds, spot, on_demand)
    assert (replay.work_left_us[-1], replay.charge) == (0, plan.cost_micros)
    assert len(replay.work_left_us) == len(plan.kinds) + 1
    assert all(
        is_there or kind is not Kind.SPOT for kind, is_there in zip(plan.kinds, known, strict=False)
    )


@given(jobs(), availabilities, rates, st.sampled_from(list(Kind)), st.data())
def test_best_from_here(
    job: Job,
    is_available: list[bool],
    rates: tuple[int, int],
    running: Kind,
    data: st.DataObject,
) -> None:
    """From an instance in the middle of its changeover, too, nothing is cheaper."""
    left_us = data.draw(st.integers(0, job.changeover_us))
    standing = StretchStart(job.work_us, job.slack_us, running, left_us)
    known = (is_available + [False] * 9)[:9]
    courses = Courses(job, standing, known, *rates)
    charges = courses.ends.charges[courses.ends.is_done]
    best = int(charges.min()) if charges.size else None
    assert best == least_charge(job, standing, known, *rates)


@given(jobs(ticks_max=12), availabilities, rates)
def test_every_end(job: Job, is_available: list[bool], rates: tuple[int, int]) -> None:
    """The course to each end costs no more than the table says, and does no less work."""
    standing = StretchStart(job.work_us, job.slack_us)
    courses = Courses(job, standing, is_available, *rates)
    ends = courses.ends
    for end in range(len(ends.modes)):
        kinds = courses.kinds(end)
        replay = follow(job, standing, kinds, *rates)
        # Who leaves an instance in the middle of its changeover is better off than in the table.
        assert replay.charge <= ends.charges[end]
        assert replay.work_left_us[-1] == 0 or not ends.is_done[end]
        assert job.work_us - replay.work_left_us[-1] >= ends.progress_us[end]
        assert ends.slack_us[end] >= 0


@given(
    st.lists(st.sampled_from([None, *Kind]), min_size=1, max_size=12),
    st.integers(0, 3 * TICK_US),
    rates,
)
def test_no_better_way_to_an_end(
    kinds: list[Kind | None], changeover_us: int, rates: tuple[int, int]
) -> None:
    """Whatever course a job takes, the table knows one to the same end that costs no more."""
    job = Job(1000, 2000, changeover_us, TICK_US)
    standing = StretchStart(job.work_us, job.slack_us)
    courses = Courses(job, standing, [kind is Kind.SPOT for kind in kinds], *rates)
    moves = count_moves(kinds)
    lost_us = kinds.count(None) * TICK_US + moves * changeover_us
    ends = courses.ends
    is_same = (ends.modes == omniscient.MODES.index(kinds[-1])) & (
        ends.slack_us == job.slack_us - lost_us
    )
    assert ends.charges[is_same].tolist() <= [follow(job, standing, kinds, *rates).charge]
    assert is_same.sum() == 1


def count_moves(kinds: Sequence[Kind | None]) -> int:
    """How often a course moves to an instance."""
    pairs = zip((None, *kinds), kinds, strict=False)
    return sum(kind is not None and kind is not before for before, kind in pairs)


def least_cost_by_highs(job: Job, is_available: Sequence[bool], spot: int, on_demand: int) -> float:
    """The same as a mixed-integer program, in ticks: which ticks to pay, and which is the last."""
    model = highspy.Highs()  # type: ignore[no-untyped-call]
    model.silent()
    model.setOptionValue("mip_rel_gap", 0.0)
    kinds = range(2)
    ticks = range(-(-job.deadline_us // job.tick_us))
    changeover = job.changeover_us / job.tick_us
    whole = [[model.addBinary() for _ in ticks] for _ in kinds]
    last = [[model.addBinary() for _ in ticks] for _ in kinds]
    part = [[model.addVariable(lb=0, ub=1) for _ in ticks] for _ in kinds]
    moves = [[model.addVariable(lb=0, ub=1) for _ in ticks] for _ in kinds]
    everything = [variable for rows in (last[0], last[1]) for variable in rows]
    model.addConstr(sum(everything) == 1)
    for tick in ticks:
        is_over = sum(last[kind][before] for kind in kinds for before in range(tick))
        here = sum(whole[kind][tick] + last[kind][tick] for kind in kinds)
        model.addConstr(here + is_over <= 1)
        fits = min(1.0, (job.deadline_us - tick * job.tick_us) / job.tick_us)
        for kind in kinds:
            model.addConstr(part[kind][tick] <= fits * last[kind][tick])
            before = whole[kind][tick - 1] if tick else 0.0
            model.addConstr(moves[kind][tick] >= whole[kind][tick] + last[kind][tick] - before)
            if fits < 1 or (kind == 0 and not is_available[tick]):
                model.addConstr(whole[kind][tick] <= 0)
            if kind == 0 and not is_available[tick]:
                model.addConstr(last[kind][tick] <= 0)
    paid = [sum(whole[kind][tick] + part[kind][tick] for tick in ticks) for kind in kinds]
    moved = sum(moves[kind][tick] for kind in kinds for tick in ticks)
    model.addConstr(paid[0] + paid[1] - changeover * moved == job.work_us / job.tick_us)
    model.minimize(spot * paid[0] + on_demand * paid[1])
    assert model.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return model.getObjectiveValue() * job.tick_us


def flickering(rng: random.Random, ticks: int, mean: float) -> list[bool]:
    """Spells of capacity and of none, of a mean number of ticks."""
    is_available: list[bool] = []
    while len(is_available) < ticks:
        is_there = not (is_available and is_available[-1])
        is_available += [is_there] * max(1, round(rng.expovariate(1 / mean)))
    return is_available[:ticks]


@pytest.mark.parametrize("seed", range(8))
def test_best_by_highs(seed: int) -> None:
    """A mixed-integer program finds no other cost on jobs of sixty ticks."""
    rng = random.Random(seed)
    changeover_us = rng.choice([0, 7, 12, 23])
    deadline_us = 600 - rng.randrange(10)
    work_us = round(deadline_us * rng.uniform(0.5, 0.9))
    job = Job(min(work_us, deadline_us - changeover_us), deadline_us, changeover_us, TICK_US)
    is_available = flickering(rng, 60, rng.choice([2, 5, 9]))
    on_demand = rng.choice([2, 3, 10])
    plan = best_plan(job, is_available, UNIT, on_demand * UNIT)
    expected = least_cost_by_highs(job, is_available, 1, on_demand)
    assert plan.cost_micros == pytest.approx(expected, rel=1e-6)


@given(jobs(ticks_max=40), st.integers(0, 2**40 - 1), st.integers(1, 400))
def test_a_coarse_table(job: Job, bits: int, cells: int) -> None:
    """Too big a table rounds changeovers up, to whole ticks at most, and keeps the deadline."""
    up_us = -(-job.changeover_us // TICK_US) * TICK_US
    assume(job.slack_us >= up_us)
    is_available = [bool(bits >> tick & 1) for tick in range(40)]
    slower = Job(job.work_us, job.deadline_us, up_us, TICK_US)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(omniscient, "CELLS_MAX", cells)
        coarse = best_plan(job, is_available, UNIT, 3 * UNIT)
    best = best_plan(job, is_available, UNIT, 3 * UNIT).cost_micros
    assert best <= coarse.cost_micros
    assert coarse.cost_micros <= best_plan(slower, is_available, UNIT, 3 * UNIT).cost_micros
    standing = StretchStart(job.work_us, job.slack_us)
    replay = follow(job, standing, coarse.kinds, 1, 3)
    idle_us = sum(kind is None for kind in coarse.kinds) * TICK_US
    assert replay.work_left_us[-1] == 0
    assert idle_us + count_moves(coarse.kinds) * job.changeover_us <= job.slack_us


def test_a_table_that_is_made_coarse() -> None:
    """A changeover that is odd in microseconds makes a table within bounds, not one of billions."""
    second_us = 1_000_000
    hour_us = 3600 * second_us
    job = Job(48 * hour_us, 80 * hour_us, 433_333_333, 34 * second_us)
    ticks = -(-job.deadline_us // job.tick_us)
    changeover_us, losses_us = omniscient._columns(
        job, StretchStart(job.work_us, job.slack_us), ticks
    )
    assert len(losses_us) * ticks <= omniscient.CELLS_MAX
    assert job.changeover_us < changeover_us <= job.changeover_us + job.tick_us


def test_large_sums() -> None:
    """Prices that would overflow a machine's integer are charged to the last micro-dollar."""
    hour_us = US_PER_HOUR
    job = Job(48 * hour_us + 1, 60 * hour_us, 720_000_000, 600_000_000)
    rng = random.Random(5)
    is_available = flickering(rng, 360, 12)
    cheap = best_plan(job, is_available, hour_us, 3 * hour_us)
    dear = best_plan(job, is_available, hour_us * 10**5, 3 * hour_us * 10**5)
    assert dear.cost_micros > 2**63 // hour_us
    assert (dear.cost_micros, dear.kinds) == (cheap.cost_micros * 10**5, cheap.kinds)
