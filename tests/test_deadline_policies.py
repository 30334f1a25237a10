"""Each rule of the policies, with the numbers worked out by hand.

Times are in minutes. Most jobs are asked about one instant; where a rule is about what follows
from it, the whole run is there.
"""

import pytest

from laissez.deadline.classic import (
    Greedy,
    OnDemandOnly,
    Sliced,
    UniformProgress,
    modified_randomised_shifted_greedy,
    randomised_shifted_greedy,
    shifted_greedy,
    time_sliced,
)
from laissez.deadline.job import US_PER_HOUR, BadJob, Job, Kind, Observation, Offer, Spell
from laissez.deadline.lindy import Lindy
from laissez.deadline.policy import Policy
from laissez.deadline.registry import POLICIES, Brief, UnknownPolicy, make
from laissez.deadline.world import Future, Outcome, Truth, Zone, run

MINUTE_US = US_PER_HOUR // 60
DOLLAR = 1_000_000
ON_DEMAND = Offer("here", Kind.ON_DEMAND, 3 * DOLLAR)
SPOT = Offer("a", Kind.SPOT, DOLLAR)
CHEAPER = Offer("b", Kind.SPOT, DOLLAR // 2)


def minutes(work: int, deadline: int, changeover: int, tick: int = 10, notice: int = 0) -> Job:
    return Job(
        work * MINUTE_US,
        deadline * MINUTE_US,
        changeover * MINUTE_US,
        tick * MINUTE_US,
        notice * MINUTE_US,
    )


def seen(
    job: Job,
    at: int,
    *,
    done: int = 0,
    running: Offer | None = None,
    changeover_left: int = 0,
    spot: tuple[Offer, ...] = (),
    is_done: bool = False,
) -> Observation:
    return Observation(
        at * MINUTE_US,
        job.work_us - done * MINUTE_US,
        running,
        changeover_left * MINUTE_US,
        ON_DEMAND,
        spot,
        tuple(Spell(zone, any(zone == each.zone for each in spot), 0) for zone in ("a", "b")),
        is_done,
    )


def world(job: Job, policy: Policy, bits: str, *, truth: Truth | None = None) -> Outcome:
    """A run where spot is there at each tick marked `#`."""
    rates = [DOLLAR if bit == "#" else None for bit in bits]
    return run(
        job, policy, [Zone("a", job.tick_us, rates)], ON_DEMAND, truth=truth, keeps_steps=True
    )


def ranges(outcome: Outcome, kind: Kind | None) -> list[tuple[int, int]]:
    """From when to when, in minutes, the job was on that kind."""
    found: list[tuple[int, int]] = []
    for step in outcome.steps:
        if (step.running.kind if step.running else None) is not kind:
            continue
        from_min, to_min = step.from_us // MINUTE_US, step.to_us // MINUTE_US
        if found and found[-1][1] == from_min:
            found[-1] = (found[-1][0], to_min)
        else:
            found.append((from_min, to_min))
    return found


JOB = minutes(work=100, deadline=200, changeover=6)


def brief(job: Job) -> Brief:
    future = Future([Zone("a", job.tick_us, [DOLLAR] * 40)], 0)
    return Brief(job, DOLLAR, 3 * DOLLAR, future=future)


@pytest.mark.parametrize("name", POLICIES)
def test_thrifty_a_job_that_is_done_idles(name: str) -> None:
    """Wherever it runs, and whatever is left of the estimate."""
    policy = make(name, brief(JOB))
    for running in (None, ON_DEMAND, SPOT):
        for done in (90, 100, 110):
            now = seen(JOB, 50, done=done, running=running, spot=(SPOT,), is_done=True)
            assert policy.decide(now) is None


@pytest.mark.parametrize("name", [name for name in POLICIES if not POLICIES[name].sees_future])
def test_exploitation_a_job_on_spot_stays_there(name: str) -> None:
    """Late or early, and though another zone is cheaper."""
    policy = make(name, brief(JOB))
    for at in (0, 10, 90, 100, 190, 250):
        assert policy.decide(seen(JOB, at, running=SPOT, spot=(CHEAPER, SPOT))) == SPOT


@pytest.mark.parametrize("name", POLICIES)
def test_overrun_stays_where_it_runs_or_goes_to_on_demand(name: str) -> None:
    """When the estimate is used up and the job is not done, it never waits."""
    policy = make(name, brief(JOB))
    for done in (100, 130):
        assert policy.decide(seen(JOB, 150, done=done, spot=(SPOT,))) == ON_DEMAND
        assert policy.decide(seen(JOB, 150, done=done, running=SPOT, spot=(SPOT,))) == SPOT
        on_demand = seen(JOB, 150, done=done, running=ON_DEMAND, spot=(SPOT,))
        assert policy.decide(on_demand) == ON_DEMAND


def test_the_safety_net_catches_below_two_changeovers_and_a_tick() -> None:
    """With 22 minutes of slack greedy waits, with a moment less it goes, spot or no spot."""
    policy = Greedy(JOB)
    assert policy.decide(seen(JOB, 78)) is None
    assert policy.decide(seen(JOB, 78, spot=(SPOT,))) == SPOT
    assert policy.decide(seen(JOB, 79)) == ON_DEMAND
    assert policy.decide(seen(JOB, 79, spot=(SPOT,))) == ON_DEMAND
    # Ten minutes of notice are slack that a move to spot may take.
    careful = Greedy(minutes(work=100, deadline=200, changeover=6, notice=10))
    assert careful.decide(seen(careful.job, 68)) is None
    assert careful.decide(seen(careful.job, 69)) == ON_DEMAND


def test_lindy_uses_the_slack_to_the_last_minute() -> None:
    """It never waits with less than d and a tick, nor goes to spot with less than 2d and notice.

    But it does go there with less than the net of the others, which count a tick on top.
    """
    job = minutes(work=100, deadline=200, changeover=20, tick=5, notice=3)
    policy = Lindy(job, DOLLAR, 3 * DOLLAR)
    for running in (None, ON_DEMAND):
        for spot in ((), (SPOT,)):
            for at in (*range(58, 85), 100, 150, 199):
                decided = policy.decide(seen(job, at, running=running, spot=spot))
                assert decided == ON_DEMAND or (decided is None and at <= 75)
    taken = {policy.decide(seen(job, at, spot=(SPOT,))) for at in range(53, 58)}
    assert SPOT in taken


def test_a_net_that_forgets_the_tick_is_late() -> None:
    """Looks at every ten minutes: 2d alone is passed between two of them."""

    class Forgetful(Greedy):
        def __init__(self, job: Job) -> None:
            super().__init__(job)
            self.net_us = 2 * job.changeover_us

    job = minutes(work=100, deadline=119, changeover=4)
    late = world(job, Forgetful(job), "")
    # At 10 there are 9 minutes of slack, more than 2d; at 20 there are none left.
    assert late.is_late and late.finished_us == (20 + 4 + 100) * MINUTE_US
    in_time = world(job, Greedy(job), "")
    assert not in_time.is_late and in_time.finished_us == (10 + 4 + 100) * MINUTE_US


def test_greedy_waits_takes_spot_and_is_caught() -> None:
    """Idle to the net at 80, though the last tick before it has spot: too late to go there."""
    outcome = world(JOB, Greedy(JOB), "..##....")
    # 14 done on spot by 40. 86 left: slack at 90 is 24, at 100 it is 14.
    assert ranges(outcome, Kind.SPOT) == [(20, 40)]
    assert ranges(outcome, Kind.ON_DEMAND) == [(100, 192)]
    assert outcome.cost_micros == (20 * DOLLAR + 92 * 3 * DOLLAR) // 60


def test_greedy_stays_on_on_demand_once_caught() -> None:
    """Spot that comes back is of no use to it."""
    outcome = world(JOB, Greedy(JOB), "........" + 12 * "#")
    assert ranges(outcome, Kind.ON_DEMAND) == [(80, 186)]
    assert outcome.spot_us == 0


def test_time_sliced_does_its_share_in_each_slice() -> None:
    """Two slices of 100 with 50 each: no spot, so each is caught at its own net."""
    outcome = world(JOB, time_sliced(JOB, 2), "." * 20)
    # Slack within the slice is 100 - t - 50 < 22 first at the tick of 30.
    assert ranges(outcome, None) == [(0, 30)]
    assert ranges(outcome, Kind.ON_DEMAND) == [(30, 136)]


def test_time_sliced_carries_over_what_is_done_early() -> None:
    """Spot all through the first slice does 94 of 100, and the second has 6 to do, not 50."""
    outcome = world(JOB, time_sliced(JOB, 2), "#" * 10 + "." * 10)
    assert ranges(outcome, Kind.SPOT) == [(0, 100)]
    # 200 - t - 6 < 22 first at 180.
    assert ranges(outcome, None) == [(100, 180)]
    assert ranges(outcome, Kind.ON_DEMAND) == [(180, 192)]
    assert outcome.cost_micros == (100 * DOLLAR + 12 * 3 * DOLLAR) // 60


def test_time_sliced_returns_to_spot_when_its_share_is_done() -> None:
    """Caught in the first slice, it stays until its share is done, then leaves for spot."""
    outcome = world(JOB, time_sliced(JOB, 2), "...." + 16 * "#")
    # On-demand from 30; its 50 are done at 86, which is seen at 90, with 54 done.
    assert ranges(outcome, Kind.ON_DEMAND) == [(30, 90)]
    assert ranges(outcome, Kind.SPOT) == [(90, 90 + 6 + 46)]
    assert not outcome.is_late


def test_uniform_progress_goes_to_on_demand_when_behind() -> None:
    """At the first tick it is even, at the second behind; then spot takes it at once, if plain."""
    plain = world(JOB, UniformProgress(JOB, hysteresis=False), "..." + 20 * "#")
    assert ranges(plain, None) == [(0, 10)]
    assert ranges(plain, Kind.ON_DEMAND) == [(10, 30)]
    assert ranges(plain, Kind.SPOT) == [(30, 30 + 6 + 86)]


def test_hysteresis_leaves_on_demand_exactly_when_ahead_of_two_changeovers_later() -> None:
    """Half of the time and two changeovers: at 60 it must have done 36, not a moment less."""
    policy = UniformProgress(JOB)
    on_demand = ON_DEMAND
    ahead = seen(JOB, 60, done=36, running=on_demand, spot=(SPOT,))
    assert policy.decide(ahead) == SPOT
    short = Observation(
        ahead.at_us, ahead.work_left_us + 1, on_demand, 0, on_demand, ahead.spot, ahead.spells
    )
    assert policy.decide(short) == on_demand
    # Plain, it would go in both; and neither goes to idle, however far ahead.
    assert UniformProgress(JOB, hysteresis=False).decide(short) == SPOT
    assert policy.decide(seen(JOB, 60, done=90, running=on_demand)) == on_demand


def test_uniform_progress_takes_spot_when_idle_though_behind() -> None:
    """Idle, spot comes first; without it on-demand if behind, and nothing if even."""
    policy = UniformProgress(JOB)
    assert policy.decide(seen(JOB, 40, done=15, spot=(SPOT,))) == SPOT
    assert policy.decide(seen(JOB, 40, done=19)) == ON_DEMAND
    assert policy.decide(seen(JOB, 40, done=20)) is None


def test_hysteresis_saves_the_changeover_to_a_short_spell() -> None:
    """One tick of spot at 30: plain goes there and has to come back, hysteresis stays."""
    bits = "...#" + "." * 16
    plain = world(JOB, UniformProgress(JOB, hysteresis=False), bits)
    steady = world(JOB, UniformProgress(JOB), bits)
    assert (plain.moves, steady.moves) == (3, 1)
    assert steady.cost_micros < plain.cost_micros


def test_no_policy_hops_with_too_little_slack() -> None:
    """On on-demand with less than 2d and a tick to waste, it stays there."""
    plain = UniformProgress(JOB, hysteresis=False)
    assert plain.decide(seen(JOB, 78, running=ON_DEMAND, spot=(SPOT,))) == SPOT
    assert plain.decide(seen(JOB, 79, running=ON_DEMAND, spot=(SPOT,))) == ON_DEMAND
    # A changeover under way is slack already spent: 26 of it, then 21.
    assert plain.decide(seen(JOB, 150, done=76, running=ON_DEMAND, spot=(SPOT,))) == SPOT
    spent = seen(JOB, 150, done=76, running=ON_DEMAND, changeover_left=5, spot=(SPOT,))
    assert plain.decide(spent) == ON_DEMAND


@pytest.mark.parametrize("name", ["on_demand", "greedy", "time_sliced", "uniform_progress"])
def test_the_literature_leaves_on_demand_only_for_spot(name: str) -> None:
    """Whatever it has done, on-demand without spot is not left for idle."""
    policy = make(name, brief(JOB))
    for at in range(0, 200, 10):
        for done in range(0, 100, 5):
            assert policy.decide(seen(JOB, at, done=done, running=ON_DEMAND)) == ON_DEMAND


def test_on_demand_only_never_looks_at_spot() -> None:
    """It goes at once and stays."""
    policy = OnDemandOnly(JOB)
    assert policy.decide(seen(JOB, 0, spot=(SPOT,))) == ON_DEMAND
    assert policy.decide(seen(JOB, 50, running=ON_DEMAND, spot=(SPOT,))) == ON_DEMAND


def test_overrun_in_a_run() -> None:
    """30 minutes more work than estimated: after 100 on spot and a preemption, on-demand."""
    truth = Truth(130 * MINUTE_US, lambda: 6 * MINUTE_US)
    outcome = world(JOB, Greedy(JOB), "#" * 11 + "." * 3 + "#" * 6, truth=truth)
    assert ranges(outcome, Kind.SPOT) == [(0, 110)]
    assert ranges(outcome, None) == []
    assert ranges(outcome, Kind.ON_DEMAND) == [(110, 110 + 6 + 26)]
    assert not outcome.is_late


def test_of_several_zones_the_cheapest_is_taken() -> None:
    """Observations have the cheapest offer first, and the policies of the literature take it."""
    for policy in (Greedy(JOB), time_sliced(JOB, 4), UniformProgress(JOB)):
        assert policy.decide(seen(JOB, 0, spot=(CHEAPER, SPOT))) == CHEAPER


def test_shifted_greedy_does_one_share_ahead() -> None:
    """Four slices of 50 with 25 each: shifted, the first 25 are on on-demand, spot or not."""
    job = minutes(work=100, deadline=200, changeover=1, tick=1)
    plain = shifted_greedy(job, 4, is_shifted=False)
    shifted = shifted_greedy(job, 4, is_shifted=True)
    assert plain.decide(seen(job, 0, spot=(SPOT,))) == SPOT
    assert plain.decide(seen(job, 0)) is None
    assert shifted.decide(seen(job, 0, spot=(SPOT,))) == ON_DEMAND
    assert shifted.decide(seen(job, 25, done=24, running=ON_DEMAND, spot=(SPOT,))) == ON_DEMAND
    assert shifted.decide(seen(job, 26, done=25, running=ON_DEMAND, spot=(SPOT,))) == SPOT
    # Its first slice ends at 75 with 50 done, and the net catches at 75 - 25 - 3.
    assert shifted.decide(seen(job, 47, done=25)) is None
    assert shifted.decide(seen(job, 48, done=25)) == ON_DEMAND
    # Not shifted, the slices end at 50, 100, ...
    assert plain.decide(seen(job, 72, done=25)) is None
    assert plain.decide(seen(job, 73, done=25)) == ON_DEMAND


def test_modified_shifted_greedy_begins_with_what_is_too_much() -> None:
    """100 of work in 160: 40 on on-demand, then 60 in 120, whichever way the coin falls."""
    job = minutes(work=100, deadline=160, changeover=1, tick=1)
    for is_shifted, lead in ((False, 40), (True, 55)):
        policy = shifted_greedy(job, 4, is_shifted=is_shifted)
        now = seen(job, lead, done=lead - 1, running=ON_DEMAND, spot=(SPOT,))
        assert policy.decide(now) == ON_DEMAND
        now = seen(job, lead, done=lead, running=ON_DEMAND, spot=(SPOT,))
        assert policy.decide(now) == SPOT


def test_the_coin_falls_both_ways() -> None:
    """By its seed, and about as often on one side as on the other."""
    ways = [_does_lead(randomised_shifted_greedy(JOB, 4, seed)) for seed in range(200)]
    assert 70 < sum(ways) < 130
    assert ways == [
        _does_lead(modified_randomised_shifted_greedy(JOB, 4, seed)) for seed in range(200)
    ]


def _does_lead(policy: Sliced) -> bool:
    return policy.decide(seen(JOB, 0, spot=(SPOT,))) == ON_DEMAND


def test_shifted_greedy_needs_twice_the_work() -> None:
    """A moment less is refused, with the name of what to take instead."""
    randomised_shifted_greedy(JOB, 4, 1)
    with pytest.raises(BadJob, match="modified form"):
        randomised_shifted_greedy(minutes(work=101, deadline=201, changeover=6), 4, 1)


def test_an_unknown_name_lists_the_known() -> None:
    """So that the next try succeeds."""
    with pytest.raises(UnknownPolicy, match="uniform_progress"):
        make("nimble", brief(JOB))


def test_lindy_bears_a_deadline_long_past() -> None:
    """An estimate that was far off is no reason to fail: it stays where it runs."""
    job = minutes(work=10, deadline=12, changeover=1, tick=20)
    outcome = world(job, Lindy(job, 1, 3), "", truth=Truth(job.work_us, lambda: 75 * MINUTE_US))
    assert outcome.finished_us == 85 * MINUTE_US
