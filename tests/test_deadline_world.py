"""The world of deadline jobs, held against the oracle and against runs worked out by hand.

The oracle goes microsecond by microsecond and asks at every tick; the world takes whole ticks and
skips those in which nothing is to be decided. Both must say the same of any job, any zones and any
policy, also of policies that choose at random by what they are told: then all that they are told
is compared too.
"""

from collections.abc import Callable, Sequence
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

import deadline_naive
from laissez.deadline.classic import Greedy, OnDemandOnly, UniformProgress, time_sliced
from laissez.deadline.job import US_PER_HOUR, BadJob, Job, Kind, Observation, Offer
from laissez.deadline.lindy import Lindy
from laissez.deadline.policy import Policy
from laissez.deadline.world import Future, Outcome, RunStep, Truth, Zone, run

DOLLAR = 1_000_000
ON_DEMAND = Offer("here", Kind.ON_DEMAND, 3 * DOLLAR)
MINUTE_US = US_PER_HOUR // 60


class Chaos(Policy):
    """Keeps the shared rules; the rest is decided by a hash of everything that it is told."""

    def __init__(self, job: Job, salt: int) -> None:
        super().__init__(job)
        self._salt = salt
        self.seen: list[Observation] = []

    def decide(self, seen: Observation) -> Offer | None:
        self.seen.append(seen)
        return super().decide(seen)

    def choose(self, seen: Observation) -> Offer | None:
        choices = [seen.on_demand, seen.running]
        if self.slack_us(seen) >= self.net_us:
            choices += [None, *seen.spot]
        return choices[crc32(f"{self._salt} {seen}".encode()) % len(choices)]


class Wild(Chaos):
    """Keeps no rule before the deadline: it also leaves spot, for another zone or for nothing."""

    keeps_spot = False

    def decide(self, seen: Observation) -> Offer | None:
        self.seen.append(seen)
        if seen.at_us >= self.job.deadline_us:
            return seen.on_demand
        choices = [seen.on_demand, seen.running, seen.running, None, *seen.spot]
        return choices[crc32(f"{self._salt} {seen}".encode()) % len(choices)]


class Script(Policy):
    """Does at each tick what it was told before: None, on-demand or the first offer of spot."""

    keeps_spot = False

    def __init__(self, job: Job, kinds: Sequence[Kind | None]) -> None:
        super().__init__(job)
        self._kinds = kinds

    def decide(self, seen: Observation) -> Offer | None:
        kind = self._kinds[seen.at_us // self.job.tick_us]
        if kind is Kind.ON_DEMAND:
            return seen.on_demand
        return None if kind is None else seen.spot[0]

    def choose(self, seen: Observation) -> Offer | None:
        raise NotImplementedError


MAKERS: dict[str, Callable[[Job, int], Policy]] = {
    "chaos": Chaos,
    "wild": Wild,
    "on demand": lambda job, _: OnDemandOnly(job),
    "greedy": lambda job, _: Greedy(job),
    "time-sliced": lambda job, _: time_sliced(job, 3),
    "plain": lambda job, _: UniformProgress(job, hysteresis=False),
    "uniform progress": lambda job, _: UniformProgress(job),
    "lindy": lambda job, _: Lindy(job, 1, 3),
}


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """Small ones, some without any slack, with changeovers shorter and longer than a tick."""
    changeover_us = draw(st.integers(0, 12))
    work_us = draw(st.integers(3, 60))
    slack_us = changeover_us + draw(st.integers(0, 80))
    return Job(work_us, work_us + slack_us, changeover_us, draw(st.integers(1, 9)))


# The prices give a charge to the microsecond, with something left over for the rounding.
RATES = st.sampled_from([None, None, US_PER_HOUR, 2 * US_PER_HOUR + 1, US_PER_HOUR // 7])
RUNS = st.lists(st.tuples(RATES, st.integers(1, 6)), min_size=1, max_size=12)


@st.composite
def zones(draw: st.DrawFn) -> dict[str, list[int | None]]:
    """Up to three, of different lengths, with prices that change while there is capacity."""
    return {
        name: [rate for rate, ticks in draw(RUNS) for _ in range(ticks)]
        for name in ("a", "b", "c")[: draw(st.integers(1, 3))]
    }


def dear(micros_per_hour: int = 3 * US_PER_HOUR + 2) -> Offer:
    return Offer("here", Kind.ON_DEMAND, micros_per_hour)


def agree(outcome: Outcome, told: deadline_naive.Told, job: Job) -> None:
    assert outcome.finished_us == told.finished_us
    assert outcome.is_late == (told.finished_us > job.deadline_us)
    assert outcome.cost_micros == told.charge.numerator // told.charge.denominator
    assert outcome.on_demand_us == told.worked_us[Kind.ON_DEMAND]
    assert outcome.spot_us == told.worked_us[Kind.SPOT]
    assert outcome.on_demand_changeover_us == told.changeover_us[Kind.ON_DEMAND]
    assert outcome.spot_changeover_us == told.changeover_us[Kind.SPOT]
    assert outcome.moves == told.moves
    assert [place for step in outcome.steps for place in _places(step)] == told.running


def _places(step: RunStep) -> list[Offer | None]:
    return [step.running] * (step.to_us - step.from_us)


def built(rates: deadline_naive.Rates, job: Job) -> list[Zone]:
    return [Zone(name, job.tick_us, each) for name, each in rates.items()]


@pytest.mark.parametrize("name", MAKERS)
@given(job=jobs(), rates=zones(), start=st.integers(0, 5), salt=st.integers(0, 9))
def test_a_run_is_what_the_oracle_says(
    name: str, job: Job, rates: dict[str, list[int | None]], start: int, salt: int
) -> None:
    """Finish, cost, hours and changeovers of each kind, moves and every step, for any policy."""
    start = min(start, *map(len, rates.values()))
    told = deadline_naive.simulate(job, MAKERS[name](job, salt), rates, dear(), start=start)
    outcome = run(
        job,
        MAKERS[name](job, salt),
        built(rates, job),
        dear(),
        start=start,
        keeps_steps=True,
    )
    agree(outcome, told, job)


@given(job=jobs(), rates=zones(), start=st.integers(0, 5), salt=st.integers(0, 99))
def test_a_policy_is_told_what_the_oracle_tells(
    job: Job, rates: dict[str, list[int | None]], start: int, salt: int
) -> None:
    """One that is asked at each tick sees the same offers, spells, work and changeover left."""
    start = min(start, *map(len, rates.values()))
    asked = Wild(job, salt)
    told = deadline_naive.simulate(job, Wild(job, salt), rates, dear(), start=start)
    run(job, asked, built(rates, job), dear(), start=start)
    assert asked.seen == told.seen


@given(
    job=jobs(),
    rates=zones(),
    salt=st.integers(0, 9),
    error_us=st.integers(-20, 20),
    changeovers=st.lists(st.integers(0, 20), min_size=1, max_size=5),
    name=st.sampled_from(list(MAKERS)),
)
def test_a_run_whose_estimates_are_wrong_is_what_the_oracle_says(
    job: Job,
    rates: dict[str, list[int | None]],
    salt: int,
    error_us: int,
    changeovers: list[int],
    name: str,
) -> None:
    """Real work and real changeovers, each other than the last, are spent, paid and told alike."""
    work_us = max(1, job.work_us + error_us)
    told = deadline_naive.simulate(
        job,
        MAKERS[name](job, salt),
        rates,
        dear(),
        work_us=work_us,
        changeovers=_in_turn(changeovers),
    )
    outcome = run(
        job,
        MAKERS[name](job, salt),
        built(rates, job),
        dear(),
        truth=Truth(work_us, _in_turn(changeovers)),
        keeps_steps=True,
    )
    agree(outcome, told, job)


def _in_turn(values: Sequence[int]) -> Callable[[], int]:
    taken: list[int] = []

    def take() -> int:
        taken.append(0)
        return values[len(taken) % len(values)]

    return take


def minutes(work: int, deadline: int, changeover: int, tick: int = 10) -> Job:
    return Job(work * MINUTE_US, deadline * MINUTE_US, changeover * MINUTE_US, tick * MINUTE_US)


def zone(job: Job, rates: Sequence[int | None], name: str = "a") -> Zone:
    return Zone(name, job.tick_us, rates)


def test_on_demand_costs_its_price_for_work_and_one_changeover() -> None:
    """`k (C + d)`, exactly, and it is done as early as can be."""
    job = minutes(work=95, deadline=200, changeover=12)
    outcome = run(job, OnDemandOnly(job), [zone(job, [DOLLAR] * 20)], ON_DEMAND)
    assert outcome.cost_micros == 3 * DOLLAR * (95 + 12) // 60
    assert outcome.finished_us == (95 + 12) * MINUTE_US
    assert (outcome.moves, outcome.spot_us, outcome.spot_changeover_us) == (1, 0, 0)


def test_a_changeover_longer_than_a_tick_goes_on_in_the_next() -> None:
    """25 minutes of changeover in ticks of 10 leave 5 minutes of the third tick for work."""
    job = minutes(work=35, deadline=200, changeover=25)
    outcome = run(job, Greedy(job), [zone(job, [DOLLAR] * 20)], ON_DEMAND, keeps_steps=True)
    assert outcome.finished_us == 60 * MINUTE_US
    assert outcome.spot_changeover_us == 25 * MINUTE_US
    assert outcome.cost_micros == DOLLAR


def test_a_preemption_in_the_middle_of_a_changeover_wastes_what_was_paid() -> None:
    """The next instance begins its changeover anew, and only the time until the loss is paid."""
    job = minutes(work=30, deadline=300, changeover=25)
    rates = [DOLLAR, DOLLAR, None, *[DOLLAR] * 20]
    outcome = run(job, Greedy(job), [zone(job, rates)], ON_DEMAND)
    assert outcome.spot_changeover_us == (20 + 25) * MINUTE_US
    assert outcome.finished_us == (30 + 25 + 30) * MINUTE_US
    assert outcome.cost_micros == DOLLAR * (20 + 25 + 30) // 60
    assert outcome.moves == 2


def test_a_job_that_is_done_in_the_middle_of_a_tick_stops_paying_there() -> None:
    """13 minutes of work after 2 of changeover end in the second tick, and 15 are paid."""
    job = minutes(work=13, deadline=100, changeover=2)
    outcome = run(job, Greedy(job), [zone(job, [DOLLAR] * 9)], ON_DEMAND, keeps_steps=True)
    assert outcome.finished_us == 15 * MINUTE_US
    assert outcome.cost_micros == DOLLAR // 4
    assert outcome.steps == (
        RunStep(0, 15 * MINUTE_US, Offer("a", Kind.SPOT, DOLLAR), 2 * MINUTE_US),
    )


def test_a_changeover_is_paid_at_the_price_of_the_new_instance() -> None:
    """From on-demand to spot at the spot price, and back at that of on-demand."""
    job = minutes(work=60, deadline=300, changeover=6)
    kinds = [Kind.ON_DEMAND, Kind.SPOT, *[Kind.ON_DEMAND] * 9]
    outcome = run(job, Script(job, kinds), [zone(job, [DOLLAR] * 20)], ON_DEMAND)
    assert outcome.on_demand_changeover_us == 12 * MINUTE_US
    assert outcome.spot_changeover_us == 6 * MINUTE_US
    assert outcome.spot_us == 4 * MINUTE_US
    assert outcome.on_demand_us == 56 * MINUTE_US
    assert outcome.cost_micros == (3 * DOLLAR * 68 + DOLLAR * 10) // 60


def test_a_price_that_changes_is_paid_from_its_tick_on() -> None:
    """The instance stays, without a move, and costs what its zone costs now."""
    job = minutes(work=25, deadline=300, changeover=5)
    outcome = run(job, Greedy(job), [zone(job, [DOLLAR, 4 * DOLLAR, 2 * DOLLAR])], ON_DEMAND)
    assert outcome.moves == 1
    assert outcome.cost_micros == DOLLAR * (1 + 4 + 2) * 10 // 60


def test_idling_is_free_and_takes_no_time_to_begin() -> None:
    """On-demand, a tick of nothing, and on-demand again: two changeovers and no more."""
    job = minutes(work=10, deadline=300, changeover=5)
    outcome = run(job, Script(job, [Kind.ON_DEMAND, None, *[Kind.ON_DEMAND] * 2]), [], ON_DEMAND)
    assert outcome.finished_us == 30 * MINUTE_US
    assert outcome.cost_micros == DOLLAR
    assert outcome.moves == 2


def test_where_the_zones_end_there_is_no_spot() -> None:
    """A job on spot is preempted there, and done on on-demand when the net catches it."""
    job = minutes(work=60, deadline=120, changeover=5)
    outcome = run(job, Greedy(job), [zone(job, [DOLLAR] * 3)], ON_DEMAND)
    # From 30 on there is 35 of work: idle until the slack is less than 2d + a tick, at 70.
    assert outcome.spot_us == 25 * MINUTE_US
    assert outcome.finished_us == (70 + 5 + 35) * MINUTE_US


def test_a_spell_of_no_capacity_goes_on_where_the_zones_end() -> None:
    """It began when the capacity went, not when the record of it stopped."""
    job = minutes(work=60, deadline=200, changeover=5)
    asked = Wild(job, 0)
    run(job, asked, [zone(job, [DOLLAR, None, None])], ON_DEMAND)
    assert {each.spells[0].began_us for each in asked.seen[1:]} == {10 * MINUTE_US}


def test_the_future_tells_how_long_spot_lasts() -> None:
    """Until the first tick without, however the price changes, counted from the start."""
    job = minutes(work=60, deadline=200, changeover=5)
    future = Future([zone(job, [None, 1, 2, 2, None, 1])], start=1)
    assert future.lifetime_us("a", 0) == 30 * MINUTE_US
    assert future.lifetime_us("a", 12 * MINUTE_US) == 18 * MINUTE_US
    assert future.is_available(7) == [True, True, True, False, True, False, False]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ((0, 10, 0, 1), "longer than nothing"),
        ((10, 20, 0, 0), "longer than nothing"),
        ((10, 20, -1, 1), "never less"),
        ((10, 20, 1, 1, -1), "never less"),
        ((10, 9, 0, 1), "too early"),
        ((10, 14, 5, 1), "too early"),
    ],
)
def test_a_job_that_makes_no_sense_is_refused(values: tuple[int, ...], says: str) -> None:
    """The sentence says what is wrong; a deadline that just bears one changeover is none."""
    with pytest.raises(BadJob, match=says):
        Job(*values)
    assert Job(10, 15, 5, 1).slack_us == 5


def test_ticks_of_another_length_are_refused() -> None:
    """A zone recorded in ticks of five minutes can't be read in ticks of ten."""
    job = minutes(work=60, deadline=200, changeover=5)
    with pytest.raises(ValueError, match="tick"):
        run(job, Greedy(job), [Zone("a", 5 * MINUTE_US, [DOLLAR] * 50)], ON_DEMAND)
