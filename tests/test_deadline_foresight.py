"""Policies that know the future: none is late, none beats the best, and each knows no more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laissez.deadline.classic import (
    Greedy,
    OnDemandOnly,
    UniformProgress,
    modified_randomised_shifted_greedy,
    time_sliced,
)
from laissez.deadline.foresight import LookaheadOmniscient, Omniscient, UniformProgressOracle
from laissez.deadline.job import US_PER_HOUR, BadJob, Job, Kind, Observation, Offer
from laissez.deadline.omniscient import best_plan
from laissez.deadline.policy import Policy
from laissez.deadline.world import Future, Outcome, Truth, Zone, run

# At this many micro-dollars an hour, a microsecond costs a micro-dollar, and no cost is rounded.
SPOT = US_PER_HOUR
ON_DEMAND = 3 * US_PER_HOUR
SURE = Offer("here", Kind.ON_DEMAND, ON_DEMAND)
TICK_US = 10


def zone_of(is_available: list[bool], tick_us: int = TICK_US, name: str = "here") -> Zone:
    return Zone(name, tick_us, [SPOT if is_there else None for is_there in is_available])


def omniscient(job: Job, zone: Zone, start: int = 0) -> Omniscient:
    return Omniscient(job, Future([zone], start), SPOT, ON_DEMAND)


def lookahead(job: Job, zone: Zone, slices: int, start: int = 0) -> LookaheadOmniscient:
    return LookaheadOmniscient(job, Future([zone], start), SPOT, ON_DEMAND, slices=slices)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """Jobs of some forty ticks, tight and loose, with changeovers of no, some or many ticks."""
    changeover_us = draw(st.integers(0, 35))
    deadline_us = draw(st.integers(changeover_us + 1, 400))
    work_us = draw(st.integers(1, deadline_us - changeover_us))
    return Job(work_us, deadline_us, changeover_us, TICK_US)


@st.composite
def availabilities(draw: st.DrawFn) -> list[bool]:
    """Spells of capacity and of none, some of a single tick."""
    lengths = draw(st.lists(st.integers(1, 12), max_size=14))
    is_first_there = draw(st.booleans())
    return [
        is_first_there == (number % 2 == 0)
        for number, length in enumerate(lengths)
        for _ in range(length)
    ]


@given(jobs(), availabilities(), st.integers(0, 5))
def test_the_plan_comes_true(job: Job, is_available: list[bool], start: int) -> None:
    """A job that follows the best plan costs exactly what was planned, and is done in time."""
    zone = zone_of(is_available)
    plan = best_plan(job, is_available[start:], SPOT, ON_DEMAND)
    outcome = run(job, omniscient(job, zone, start), [zone], SURE, start=start)
    assert outcome.cost_micros == plan.cost_micros
    assert not outcome.is_late


@given(jobs(), availabilities(), st.integers(1, 9))
def test_nothing_beats_the_best(job: Job, is_available: list[bool], slices: int) -> None:
    """No policy, whether it knows a part of the future or none, is cheaper; and none is late."""
    zone = zone_of(is_available)
    policies: list[Policy] = [
        OnDemandOnly(job),
        Greedy(job),
        time_sliced(job, slices),
        UniformProgress(job),
        UniformProgress(job, hysteresis=False),
        modified_randomised_shifted_greedy(job, slices, seed=1),
        UniformProgressOracle(job, Future([zone], 0)),
        lookahead(job, zone, slices),
    ]
    best = run(job, omniscient(job, zone), [zone], SURE).cost_micros
    for policy in policies:
        outcome = run(job, policy, [zone], SURE)
        assert outcome.cost_micros >= best
        assert not outcome.is_late


@given(jobs(), availabilities())
def test_one_slice_is_everything(job: Job, is_available: list[bool]) -> None:
    """Who looks ahead to the deadline does as well as who knows all."""
    zone = zone_of(is_available)
    ahead = run(job, lookahead(job, zone, 1), [zone], SURE)
    assert ahead.cost_micros == run(job, omniscient(job, zone), [zone], SURE).cost_micros


@given(jobs(), availabilities(), availabilities(), st.integers(1, 6))
def test_a_slice_is_all_that_is_seen(
    job: Job, is_available: list[bool], other: list[bool], slices: int
) -> None:
    """What comes after a slice changes nothing in it."""
    ticks = -(-job.deadline_us // TICK_US)
    seen = -(-ticks // slices)
    is_available = (is_available + [False] * seen)[:seen]
    steps = []
    for rest in ([], other):
        zone = zone_of(is_available + rest)
        outcome = run(job, lookahead(job, zone, slices), [zone], SURE, keeps_steps=True)
        steps.append([step for step in outcome.steps if step.from_us < seen * TICK_US])
    assert steps[0] == steps[1]


def work_by(outcome: Outcome, at_us: int) -> int:
    """The work that was done by an instant between two steps."""
    steps = [step for step in outcome.steps if step.to_us <= at_us and step.running is not None]
    return sum(step.to_us - step.from_us - step.changeover_us for step in steps)


@given(availabilities(), st.integers(2, 6))
def test_each_slice_does_its_share(is_available: list[bool], slices: int) -> None:
    """At the end of each slice its share is done, whatever the spot capacity."""
    length_us = 20 * TICK_US
    job = Job(slices * 150, slices * length_us, 7, TICK_US)
    zone = zone_of(is_available)
    outcome = run(job, lookahead(job, zone, slices), [zone], SURE, keeps_steps=True)
    for number in range(1, slices + 1):
        done_us = work_by(outcome, number * length_us)
        assert done_us >= number * 150


def test_idle_rather_than_on_demand() -> None:
    """Ahead of its shares and without spot, it waits for the next slice."""
    job = Job(270, 600, 5, TICK_US)
    zone = zone_of([True] * 20 + [False] * 20 + [True] * 20)
    outcome = run(job, lookahead(job, zone, 3), [zone], SURE, keeps_steps=True)
    assert work_by(outcome, 200) == 195
    assert [step.running for step in outcome.steps if 200 <= step.from_us < 400] == [None] * 20
    assert outcome.on_demand_us == 0


def test_no_move_between_slices() -> None:
    """A spot instance is kept from one slice to the next, also when nothing more need be done."""
    job = Job(270, 400, 25, TICK_US)
    zone = zone_of([True] * 40)
    outcome = run(job, lookahead(job, zone, 8), [zone], SURE)
    assert (outcome.moves, outcome.spot_us, outcome.finished_us) == (1, 270, 295)


def test_a_slice_that_begins_in_a_changeover() -> None:
    """What is left of a changeover is lost in the slice to come, and no more than that.

    The slack just suffices for it, to idle through six ticks without spot, and to be safe then.
    """
    job = Job(575, 600, 25, TICK_US)
    zone = zone_of([False] * 10 + [True] * 4 + [False] * 46)
    spot = zone.offers[10]
    assert spot is not None
    policy = lookahead(job, zone, 6)
    for at_us, work_left_us, changeover_left_us in [
        (100, 400, 15),
        (110, 400, 5),
        (120, 395, 0),
        (130, 385, 0),
    ]:
        seen = Observation(at_us, work_left_us, spot, changeover_left_us, SURE, (spot,), ())
        assert policy.decide(seen) is spot
    for at_us in range(140, 200, TICK_US):
        assert policy.decide(Observation(at_us, 375, None, 0, SURE, (), ())) is None
    assert policy.decide(Observation(200, 375, None, 0, SURE, (), ())) is SURE


def test_no_slices() -> None:
    """Time can't be cut into no slices."""
    job = Job(100, 200, 5, TICK_US)
    with pytest.raises(BadJob, match="one slice or more"):
        lookahead(job, zone_of([]), 0)


@given(
    jobs(),
    availabilities(),
    st.integers(-50, 50),
    st.integers(-20, 20),
    st.booleans(),
    st.integers(1, 6),
)
def test_wrong_estimates(
    job: Job,
    is_available: list[bool],
    work_error_us: int,
    changeover_error_us: int,
    is_there: bool,
    slices: int,
) -> None:
    """Told wrong, a job still ends: later by the errors and one move to on-demand at most."""
    told = zone_of(is_available)
    real = zone_of([each and is_there for each in is_available])
    truth = Truth(
        max(1, job.work_us + work_error_us),
        lambda: max(0, job.changeover_us + changeover_error_us),
    )
    more_us = max(0, work_error_us)
    longest_us = max(0, job.changeover_us + changeover_error_us)
    late_us = more_us + max(0, changeover_error_us) + max(longest_us, job.changeover_us)
    for policy in (omniscient(job, told), lookahead(job, told, slices)):
        outcome = run(job, policy, [real], SURE, truth=truth)
        assert outcome.finished_us is not None
        assert outcome.finished_us <= job.deadline_us + late_us


MINUTE_US = 60_000_000


def seen_by_oracle(zones: list[Zone], running: Offer | None) -> Observation:
    offers = tuple(offer for zone in zones if (offer := zone.offers[0]) is not None)
    return Observation(0, 48 * US_PER_HOUR, running, 0, SURE, offers, ())


@pytest.mark.parametrize(
    ("running", "lifetime_ticks", "is_taken"),
    [(None, 18, False), (None, 19, True), (SURE, 36, False), (SURE, 37, True)],
)
def test_the_oracle(running: Offer | None, lifetime_ticks: int, is_taken: bool) -> None:
    """At a third of the price and 12 minutes, spot must last over 18, or 36 from on-demand."""
    job = Job(48 * US_PER_HOUR, 60 * US_PER_HOUR, 12 * MINUTE_US, MINUTE_US)
    zone = zone_of([True] * lifetime_ticks + [False], MINUTE_US)
    policy = UniformProgressOracle(job, Future([zone], 0))
    assert policy.choose(seen_by_oracle([zone], running)) == (
        zone.offers[0] if is_taken else running
    )


def test_the_oracle_takes_what_lasts() -> None:
    """Of several zones, it takes the one whose offer lasts longest."""
    job = Job(48 * US_PER_HOUR, 60 * US_PER_HOUR, 12 * MINUTE_US, MINUTE_US)
    ticks = {"a": 19, "b": 70, "c": 30}
    zones = [zone_of([True] * each + [False], MINUTE_US, name) for name, each in ticks.items()]
    policy = UniformProgressOracle(job, Future(zones, 0))
    chosen = policy.choose(seen_by_oracle(zones, None))
    assert chosen is not None
    assert chosen.zone == "b"


def test_the_oracle_when_behind() -> None:
    """Behind, and with no offer that lasts, it goes to on-demand."""
    job = Job(48 * US_PER_HOUR, 60 * US_PER_HOUR, 12 * MINUTE_US, MINUTE_US)
    zone = zone_of([False] * 60 + [True] * 18 + [False], MINUTE_US)
    policy = UniformProgressOracle(job, Future([zone], 0))
    offer = zone.offers[60]
    assert offer is not None
    seen = Observation(60 * MINUTE_US, job.work_us, None, 0, SURE, (offer,), ())
    assert policy.decide(seen) == SURE
