"""What holds whatever spot capacity does: deadlines are kept, and costs are bounded.

The deadline is attacked with capacity that comes and goes at random, in runs, and by an adversary
that watches the job and takes its instance away at the worst of times. Jobs are small and tight,
down to a slack of one changeover, with ticks both shorter and longer than a changeover. That the
adversary is good enough is a test too: a net that is one microsecond too low is torn.

The bounds are those of Wu et al. for the randomised policies, against the best course in
hindsight, on availability that is made to hurt. The expected cost is the mean of the two policies
that the coin decides between. Greedy breaks the same bound.
"""

from collections.abc import Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deadline_naive import Siege, Tape, besiege
from laissez.deadline.classic import Greedy, OnDemandOnly, shifted_greedy
from laissez.deadline.job import US_PER_HOUR, Job, Kind, Observation, Offer
from laissez.deadline.omniscient import best_plan
from laissez.deadline.policy import Policy
from laissez.deadline.registry import POLICIES, Brief, make
from laissez.deadline.world import Future, Outcome, Truth, Zone, run

BLIND = [name for name, known in POLICIES.items() if not known.sees_future]
SEEING = [name for name, known in POLICIES.items() if known.sees_future]
SPOT_RATE = US_PER_HOUR
"""One micro-dollar for each microsecond, so that costs are exact."""


@st.composite
def jobs(draw: st.DrawFn, *, notice_max_us: int = 0, is_loose: bool = False) -> Job:
    """Slack from one changeover on; `is_loose`: also at least twice the work."""
    changeover_us = draw(st.integers(0, 40))
    work_us = draw(st.integers(8, 200))
    slack_us = changeover_us + draw(st.one_of(st.integers(0, 20), st.integers(0, 300)))
    if is_loose:
        slack_us = max(slack_us, work_us)
    tick_us = draw(st.one_of(st.integers(1, 5), st.integers(1, 60)))
    return Job(
        work_us, work_us + slack_us, changeover_us, tick_us, draw(st.integers(0, notice_max_us))
    )


TAPES = st.binary(min_size=1, max_size=60)
BITS = st.one_of(
    st.lists(st.booleans(), max_size=60),
    st.lists(st.tuples(st.booleans(), st.integers(1, 20)), max_size=10).map(
        lambda runs: [bit for bit, ticks in runs for _ in range(ticks)]
    ),
)


def policy_for(name: str, job: Job, price_ratio: int = 3, seed: int = 0) -> Policy:
    return make(name, Brief(job, SPOT_RATE, price_ratio * SPOT_RATE, seed=seed))


def zone(job: Job, bits: Sequence[bool]) -> Zone:
    return Zone("a", job.tick_us, [SPOT_RATE if bit else None for bit in bits])


def dear(price_ratio: int = 3) -> Offer:
    return Offer("here", Kind.ON_DEMAND, price_ratio * SPOT_RATE)


@pytest.mark.parametrize("name", BLIND)
@given(data=st.data(), tape=TAPES, zones=st.integers(1, 3), irregular=st.booleans())
def test_no_adversary_makes_it_late(
    name: str, data: st.DataObject, tape: bytes, zones: int, irregular: bool
) -> None:
    """Whatever it offers and takes away, whenever the job looks and however late it notices."""
    job = data.draw(jobs(notice_max_us=20, is_loose=name == "shifted_greedy"))
    policy = policy_for(name, job, seed=data.draw(st.integers(0, 3)))
    done_us = besiege(job, policy, Tape(tape), Siege(zones=zones, is_irregular=irregular))
    assert done_us <= job.deadline_us


@pytest.mark.parametrize("name", BLIND)
@given(
    data=st.data(),
    tape=TAPES,
    error_us=st.integers(-60, 60),
    changeover_error_us=st.integers(0, 50),
)
def test_wrong_estimates_make_it_late_by_no_more_than_they_are_wrong(
    name: str, data: st.DataObject, tape: bytes, error_us: int, changeover_error_us: int
) -> None:
    """By the work that was not told of, and twice what a changeover can take above its estimate."""
    job = data.draw(jobs(notice_max_us=20, is_loose=name == "shifted_greedy"))
    work_us = max(1, job.work_us + error_us)
    siege = Siege(real_work_us=work_us, changeover_max_us=job.changeover_us + changeover_error_us)
    policy = policy_for(name, job, seed=data.draw(st.integers(0, 3)))
    done_us = besiege(job, policy, Tape(tape), siege)
    more_us = max(0, work_us - job.work_us)
    assert done_us <= job.deadline_us + more_us + 2 * changeover_error_us


@pytest.mark.parametrize("name", BLIND)
@given(
    data=st.data(),
    bits=BITS,
    error_us=st.integers(-60, 60),
    changeover_error_us=st.integers(0, 50),
)
def test_in_the_world_too_estimates_cost_no_more_than_they_are_wrong(
    name: str, data: st.DataObject, bits: list[bool], error_us: int, changeover_error_us: int
) -> None:
    """The same in a run, where every changeover takes the longest."""
    job = data.draw(jobs(is_loose=name == "shifted_greedy"))
    work_us = max(1, job.work_us + error_us)
    longest_us = job.changeover_us + changeover_error_us
    truth = Truth(work_us, lambda: longest_us)
    outcome = run(job, policy_for(name, job), [zone(job, bits)], dear(), truth=truth)
    more_us = max(0, work_us - job.work_us)
    assert outcome.finished_us is not None
    assert outcome.finished_us <= job.deadline_us + more_us + 2 * changeover_error_us


class Daring(Policy):
    """To spot or idle whenever its own nets allow it: they hold exactly, or not at all."""

    def __init__(self, job: Job, *, wait_less_us: int = 0, hop_less_us: int = 0) -> None:
        super().__init__(job)
        self.net_us = job.wait_us - wait_less_us
        self._hop_us = job.hop_us - hop_less_us

    def choose(self, seen: Observation) -> Offer | None:
        if seen.spot and self.slack_us(seen) >= self._hop_us:
            return seen.spot[0]
        return seen.running if self.slack_us(seen) < self.net_us else None


@given(job=jobs(notice_max_us=20), tape=TAPES, irregular=st.booleans())
def test_the_two_reserves_of_a_job_are_enough(job: Job, tape: bytes, irregular: bool) -> None:
    """`wait_us` to wait, even after on-demand, and `hop_us` to move to spot: no more is needed."""
    done_us = besiege(job, Daring(job), Tape(tape), Siege(zones=2, is_irregular=irregular))
    assert done_us <= job.deadline_us


@pytest.mark.parametrize(("cheat", "slack_us"), [("wait_less_us", 26), ("hop_less_us", 38)])
def test_the_adversary_tears_a_net_that_is_a_microsecond_too_low(cheat: str, slack_us: int) -> None:
    """So a policy that passes its attacks has nets that are not too low."""
    job = Job(100, 100 + slack_us, 17, 10, notice_us=5)
    tapes = [bytes((7 * seed + 31 * at * at) % 256 for at in range(97)) for seed in range(256)]
    honest_us = max(besiege(job, Daring(job), Tape(tape), Siege()) for tape in tapes)
    less = {cheat: 1}
    cheating_us = max(besiege(job, Daring(job, **less), Tape(tape), Siege()) for tape in tapes)
    assert honest_us <= job.deadline_us
    assert cheating_us == job.deadline_us + 1


@pytest.mark.parametrize("name", SEEING)
@settings(max_examples=60)
@given(job=jobs(), bits=BITS, price_ratio=st.integers(2, 9))
def test_who_sees_the_future_is_not_late_either(
    name: str, job: Job, bits: list[bool], price_ratio: int
) -> None:
    """Nor does it pay more than on-demand from the first moment on, if it knows everything."""
    zones = [zone(job, bits)]
    future = Future(zones, 0)
    brief = Brief(job, SPOT_RATE, price_ratio * SPOT_RATE, future=future)
    outcome = run(job, make(name, brief), zones, dear(price_ratio))
    assert not outcome.is_late
    if name == "omniscient":
        on_demand = run(job, OnDemandOnly(job), zones, dear(price_ratio))
        assert outcome.cost_micros <= on_demand.cost_micros


@settings(max_examples=60)
@given(data=st.data(), bits=BITS, price_ratio=st.integers(2, 9), seed=st.integers(0, 3))
def test_nobody_is_cheaper_than_the_best_plan(
    data: st.DataObject, bits: list[bool], price_ratio: int, seed: int
) -> None:
    """It is a lower bound for every policy, and on-demand costs `k (C + d)` exactly."""
    job = data.draw(jobs(is_loose=data.draw(st.booleans())))
    zones = [zone(job, bits)]
    plan = best_plan(job, bits, SPOT_RATE, price_ratio * SPOT_RATE)
    for name in POLICIES:
        if name == "shifted_greedy" and job.deadline_us < 2 * job.work_us:
            continue
        brief = Brief(job, SPOT_RATE, price_ratio * SPOT_RATE, seed=seed, future=Future(zones, 0))
        outcome = run(job, make(name, brief), zones, dear(price_ratio))
        assert outcome.cost_micros >= plan.cost_micros
        if name == "on_demand":
            assert outcome.cost_micros == price_ratio * (job.work_us + job.changeover_us)
        if name == "omniscient":
            assert outcome.cost_micros == plan.cost_micros


TICK_US = 10
WORK_US = 4_000


def bound(job: Job, price_ratio: int, slices: int) -> Fraction:
    """`k - a (k-1)(n-1) / (2n)` with `a = R/C - 1`, which for `a = 1` is `(k+1)/2 + (k-1)/(2n)`."""
    a = min(Fraction(1), Fraction(job.deadline_us, job.work_us) - 1)
    return price_ratio - a * (price_ratio - 1) * (slices - 1) / (2 * slices)


def allowance(job: Job, price_ratio: int, slices: int, outcomes: Sequence[Outcome]) -> Fraction:
    """What the theorem leaves out: changeovers and ticks.

    A changeover is paid at `k` at most, and delays work that may then cost `k` and not 1. In each
    slice the net catches sooner than at the last moment, by 2d and up to two ticks; in that time
    both of the two policies may be on on-demand, and what spot there is serves none.
    """
    changeover_micros = (2 * price_ratio - 1) * job.changeover_us
    moves = Fraction(sum(outcome.moves for outcome in outcomes), len(outcomes))
    early_us = 2 * job.changeover_us + 2 * job.tick_us
    return moves * changeover_micros + (price_ratio - 1) * slices * early_us


def lucky_cost(job: Job, bits: Sequence[bool], price_ratio: int) -> int:
    """What the best course would cost if changeovers took no time: all spot there is, first."""
    spot_us = min(job.work_us, job.tick_us * sum(bits))
    return spot_us + price_ratio * (job.work_us - spot_us)


def breaks(
    job: Job,
    bits: Sequence[bool],
    price_ratio: int,
    slices: int,
    best_micros: int,
    policies: Sequence[Policy] | None = None,
) -> bool:
    """Whether the mean cost of the two is above the bound and all that is allowed."""
    if policies is None:
        policies = [shifted_greedy(job, slices, is_shifted=each) for each in (False, True)]
    outcomes = [run(job, each, [zone(job, bits)], dear(price_ratio)) for each in policies]
    mean = Fraction(sum(outcome.cost_micros for outcome in outcomes), len(outcomes))
    allowed = allowance(job, price_ratio, slices, outcomes)
    return mean > bound(job, price_ratio, slices) * best_micros + allowed


def loose(tenths: int, changeover_us: int = 0) -> Job:
    """A job whose deadline is so many tenths of its work, with slices of many ticks."""
    return Job(WORK_US, WORK_US * tenths // 10, changeover_us, TICK_US)


def aligned(job: Job, slices: int) -> list[list[bool]]:
    """Spot in the same part of each slice until an instant, and always or never after it.

    The slices are those of the last `2C` of the time. The instants are their boundaries, and the
    last at which the best course does without on-demand: what is missed before is never needed.
    """
    ticks = job.deadline_us // TICK_US
    length = min(2 * job.slack_us, 2 * job.work_us) // TICK_US // slices
    first = ticks - slices * length
    instants = {first + number * length for number in range(slices + 1)}
    instants |= {ticks - WORK_US // TICK_US, ticks - WORK_US // TICK_US - 3}
    parts = [(0, 0), (0, length // 2), (length // 2, length), (length // 4, 3 * length // 4)]
    return [
        [(low <= (at - first) % length < high) if at < instant else after for at in range(ticks)]
        for instant in sorted(instants)
        for low, high in parts
        for after in (True, False)
    ]


@pytest.mark.parametrize("tenths", [12, 15, 18, 20, 25, 30])
@pytest.mark.parametrize("slices", [2, 4, 8])
def test_shifted_greedy_keeps_its_bound_on_blocks_made_to_hurt(tenths: int, slices: int) -> None:
    """Without changeovers, for deadlines below, at and above twice the work."""
    job = loose(tenths)
    for bits in aligned(job, slices):
        assert not breaks(job, bits, 3, slices, lucky_cost(job, bits, 3))


@given(
    tenths=st.integers(12, 30),
    slices=st.integers(2, 8),
    price_ratio=st.integers(2, 9),
    changeover_us=st.sampled_from([0, 0, 1, 3]),
    runs=st.lists(st.tuples(st.booleans(), st.integers(1, 400)), max_size=16),
)
def test_shifted_greedy_keeps_its_bound(
    tenths: int,
    slices: int,
    price_ratio: int,
    changeover_us: int,
    runs: list[tuple[bool, int]],
) -> None:
    """On any availability, with what short changeovers and ticks add."""
    job = loose(tenths, changeover_us)
    bits = [bit for bit, ticks in runs for _ in range(ticks)][: job.deadline_us // TICK_US]
    assert not breaks(job, bits, price_ratio, slices, lucky_cost(job, bits, price_ratio))


@pytest.mark.parametrize("tenths", [15, 20, 30])
def test_shifted_greedy_keeps_its_bound_against_the_best_plan(tenths: int) -> None:
    """The best course pays for its changeovers too."""
    job = loose(tenths, changeover_us=2)
    for bits in aligned(job, 2):
        plan = best_plan(job, bits, SPOT_RATE, 3 * SPOT_RATE)
        assert lucky_cost(job, bits, 3) <= plan.cost_micros
        assert not breaks(job, bits, 3, 2, plan.cost_micros)


def shunned(job: Job) -> list[bool]:
    """The worst for greedy: spot comes for good when the net has just caught it."""
    ticks = job.deadline_us // TICK_US
    begins = -(-(job.slack_us - Greedy(job).net_us + 1) // TICK_US) + 1
    return [at >= begins for at in range(ticks)]


@pytest.mark.parametrize("tenths", [20, 25, 30])
@pytest.mark.parametrize("price_ratio", [2, 3, 9])
def test_greedy_alone_is_as_bad_as_on_demand(tenths: int, price_ratio: int) -> None:
    """Up to `k` times the best, and so it breaks the bound that the randomised policies keep."""
    job = loose(tenths, changeover_us=1)
    bits = shunned(job)
    outcome = run(job, Greedy(job), [zone(job, bits)], dear(price_ratio))
    best_micros = best_plan(job, bits, SPOT_RATE, price_ratio * SPOT_RATE).cost_micros
    assert outcome.cost_micros == price_ratio * (job.work_us + job.changeover_us)
    assert Fraction(outcome.cost_micros, best_micros) > Fraction(95, 100) * price_ratio
    assert breaks(job, bits, price_ratio, 8, best_micros, [Greedy(job)])
    assert not breaks(job, bits, price_ratio, 8, best_micros)


@pytest.mark.parametrize("slices", [2, 4, 8])
def test_the_bound_is_reached(slices: int) -> None:
    """Twice the work, and spot for good at half of the time: exactly `(k+1)/2 + (k-1)/(2n)`."""
    job = loose(20)
    bits = [at >= WORK_US // TICK_US for at in range(2 * WORK_US // TICK_US)]
    outcomes = [
        run(job, shifted_greedy(job, slices, is_shifted=each), [zone(job, bits)], dear())
        for each in (False, True)
    ]
    mean = Fraction(sum(outcome.cost_micros for outcome in outcomes), 2)
    assert mean == bound(job, 3, slices) * WORK_US == (2 + Fraction(1, slices)) * WORK_US
