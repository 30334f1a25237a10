"""A pilot flies as its policy would in a simulated world, through restarts and bad luck too."""

import random
import re
import runpy
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laissez.deadline.classic import UniformProgress
from laissez.deadline.job import US_PER_HOUR, Job, Kind, Observation, Offer
from laissez.deadline.lindy import Lindy
from laissez.deadline.pilot import BadLook, Pilot
from laissez.deadline.policy import Policy
from laissez.deadline.registry import POLICIES
from laissez.deadline.world import RunStep, Zone, run

TICK_US = 600_000_000
SPOT, ON_DEMAND = 1_000_000, 3_000_000
SURE = Offer("on-demand", Kind.ON_DEMAND, ON_DEMAND)
LOOSE = Job(12 * US_PER_HOUR, 26 * US_PER_HOUR, US_PER_HOUR // 5, TICK_US)
TIGHT = Job(20 * US_PER_HOUR, 24 * US_PER_HOUR, US_PER_HOUR // 3, TICK_US)
NAMES = [name for name, known in POLICIES.items() if not known.sees_future]

Rates = Sequence[int | None]
Refit = Callable[[Pilot], Pilot]


def restless_zones(count: int, seed: int) -> list[Zone]:
    """Zones where capacity and prices come and go, each at its own pace, for 40 hours."""
    dice = random.Random(seed)
    zones = []
    for number in range(count):
        rates: list[int | None] = []
        restlessness = dice.choice((0.03, 0.1, 0.3))
        price: int | None = dice.choice((None, SPOT))
        while len(rates) < 240:
            if dice.random() < restlessness:
                price = dice.choice((None, None, SPOT, SPOT * 7 // 10, SPOT * 3 // 2))
            rates.append(price)
        zones.append(Zone(f"zone-{number}", TICK_US, rates))
    return zones


def fly(
    pilot: Pilot, job: Job, zones: Sequence[Zone], *, refit: Refit = lambda pilot: pilot
) -> tuple[list[Offer | None], int]:
    """Look tick by tick until the work is done: where the job was, and when it was done.

    How much work is left is measured here, from what a controller sees: it pays for an instance,
    and after the changeover the instance works.
    """
    work_left_us, changeover_left_us, at_us = job.work_us, 0, 0
    before: Offer | None = None
    decisions = []
    while True:
        tick = at_us // TICK_US
        offers = [SURE]
        offers += [offer for zone in zones if tick < len(zone) and (offer := zone.offers[tick])]
        there = {offer.zone for offer in offers}
        if before is not None and before.zone not in there:
            before = None
        decided = pilot.look(at_us, offers, work_left_us)
        decisions.append(decided)
        if decided is None:
            changeover_left_us = 0
        else:
            if before is None or decided.zone != before.zone:
                changeover_left_us = job.changeover_us
            changing_us = min(changeover_left_us, TICK_US)
            changeover_left_us -= changing_us
            working_us = TICK_US - changing_us
            if working_us >= work_left_us:
                return decisions, at_us + changing_us + work_left_us
            work_left_us -= working_us
        before = decided
        at_us += TICK_US
        assert at_us < 2 * job.deadline_us, "the job is never done"
        pilot = refit(pilot)


def by_tick(steps: Sequence[RunStep]) -> list[Offer | None]:
    """What ran at the beginning of each tick."""
    found: list[Offer | None] = []
    for step in steps:
        found += [step.running] * -(-(step.to_us - step.from_us) // TICK_US)
    return found


def a_pilot(job: Job, name: str, zones: Sequence[Zone], seed: int = 0) -> Pilot:
    return Pilot(
        job,
        name,
        spot_micros_per_hour=SPOT,
        on_demand_micros_per_hour=ON_DEMAND,
        zones=[zone.name for zone in zones],
        seed=seed,
    )


def policy_of(pilot: Pilot) -> Policy:
    return pilot._policy


# --- as in a simulated world --------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_a_pilot_decides_as_its_policy_in_the_world(name: str, count: int) -> None:
    """Told only what is on offer and how much work is left, a pilot runs the job exactly where the
    simulated world runs it, at the same prices, and is done at the same instant."""
    jobs = [LOOSE] if name == "shifted_greedy" else [LOOSE, TIGHT]
    kinds = set()
    for job in jobs:
        for seed in range(6):
            zones = restless_zones(count, seed)
            pilot = a_pilot(job, name, zones, seed)
            outcome = run(job, policy_of(pilot), zones, SURE, keeps_steps=True)
            decisions, done_us = fly(pilot, job, zones)
            assert decisions == by_tick(outcome.steps)
            assert done_us == outcome.finished_us
            assert pilot.is_safe
            kinds |= {decided.kind if decided else None for decided in decisions}
    wanted = {None, Kind.SPOT, Kind.ON_DEMAND}
    if name == "shifted_greedy" and count > 1:
        wanted = {None, Kind.SPOT}  # with so much time and so many zones it comes to no worse
    if name != "on_demand":
        assert kinds == wanted


@pytest.mark.parametrize("name", NAMES)
def test_a_restart_changes_nothing(name: str) -> None:
    """A pilot that is written down and read again after every look decides like one that lives."""
    zones = restless_zones(2, seed=3)
    lived = fly(a_pilot(LOOSE, name, zones), LOOSE, zones)
    restarted = fly(
        a_pilot(LOOSE, name, zones),
        LOOSE,
        zones,
        refit=lambda pilot: Pilot.restore(pilot.state()),
    )
    assert restarted == lived


def test_a_policy_of_ones_own_is_given_again() -> None:
    """A policy that has no name can be flown and restored, and can't be guessed."""
    policy = UniformProgress(LOOSE)
    pilot = Pilot(LOOSE, policy)
    pilot.look(0, [SURE], LOOSE.work_us)
    with pytest.raises(BadLook, match="give it again"):
        Pilot.restore(pilot.state())
    assert Pilot.restore(pilot.state(), policy).state() == pilot.state()


def test_a_policy_for_another_job_is_refused() -> None:
    """A policy that reckons with another deadline is no policy for this job, neither at first nor
    after a restart; one that was made for an equal job is."""
    for other in (LOOSE, Job(TIGHT.work_us, TIGHT.deadline_us, TIGHT.changeover_us, 2 * TICK_US)):
        with pytest.raises(BadLook, match="made for another job"):
            Pilot(TIGHT, UniformProgress(other))
        with pytest.raises(BadLook, match="made for another job"):
            Pilot.restore(Pilot(TIGHT, UniformProgress(TIGHT)).state(), UniformProgress(other))
    equal = Job(TIGHT.work_us, TIGHT.deadline_us, TIGHT.changeover_us, TIGHT.tick_us)
    assert Pilot(TIGHT, UniformProgress(equal)).look(0, [SURE, CHEAP], TIGHT.work_us) == CHEAP


def test_the_clock_may_be_the_controllers() -> None:
    """With the instant of the release a pilot takes the time of day, and decides the same."""
    released_us = 1_700_000_000_000_000
    zones = restless_zones(2, seed=5)

    class Wrapped(Pilot):
        def look(
            self,
            at_us: int,
            offers: Sequence[Offer],
            work_left_us: int,
            *,
            is_overrun: bool = False,
        ) -> Offer | None:
            return super().look(at_us + released_us, offers, work_left_us, is_overrun=is_overrun)

    moved = Wrapped(LOOSE, UniformProgress(LOOSE), released_us=released_us)
    plain = Pilot(LOOSE, UniformProgress(LOOSE))
    assert fly(moved, LOOSE, zones) == fly(plain, LOOSE, zones)


# --- never late ---------------------------------------------------------------------------------

ADVERSARIAL = st.lists(st.booleans(), min_size=1, max_size=80)


@given(
    there=st.lists(ADVERSARIAL, min_size=1, max_size=3),
    name=st.sampled_from([name for name in NAMES if name != "shifted_greedy"]),
    changeover_ticks=st.sampled_from([0, 1 / 3, 1, 2.5]),
    slack_ticks=st.integers(3, 30),
)
def test_never_late(
    there: list[list[bool]], name: str, changeover_ticks: float, slack_ticks: int
) -> None:
    """Whatever capacity does, a job that a pilot flies is done by its deadline, and the pilot is
    sure of that at every look."""
    changeover_us = int(changeover_ticks * TICK_US)
    work_us = 40 * TICK_US
    job = Job(work_us, work_us + slack_ticks * TICK_US, changeover_us, TICK_US)
    zones = [
        Zone(f"zone-{number}", TICK_US, [SPOT if is_there else None for is_there in each])
        for number, each in enumerate(there)
    ]

    def refit(pilot: Pilot) -> Pilot:
        assert pilot.is_safe
        return pilot

    _, done_us = fly(a_pilot(job, name, zones), job, zones, refit=refit)
    assert done_us <= job.deadline_us


class Careless(Policy):
    """Breaks all rules: takes what it is told to, whatever slack there is."""

    def __init__(self, job: Job, *, takes_spot: bool) -> None:
        super().__init__(job)
        self._takes_spot = takes_spot

    def decide(self, seen: Observation) -> Offer | None:
        return seen.spot[0] if self._takes_spot and seen.spot else None

    def choose(self, seen: Observation) -> Offer | None:
        raise AssertionError("it doesn't ask itself")


LOOKS = st.tuples(
    st.just(TICK_US) | st.integers(1, TICK_US),
    st.booleans(),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.booleans(),
)


@given(
    looks=st.lists(LOOKS, min_size=20, max_size=60),
    name=st.sampled_from(["careless", "greedy", "uniform_progress", "lindy"]),
    slack_ticks=st.integers(3, 9),
)
def test_never_late_at_odd_hours(
    looks: list[tuple[int, bool, float, bool]], name: str, slack_ticks: int
) -> None:
    """Looks at any time within a tick, changeovers cut short, and preemptions that are noticed only
    at the next look: if the job allows for that delay, it is done in time, even under a policy
    that takes any spot instance."""
    work_us = 30 * TICK_US
    job = Job(work_us, work_us + slack_ticks * TICK_US, TICK_US // 2, TICK_US, notice_us=TICK_US)
    careless = Pilot(job, Careless(job, takes_spot=True))
    pilot = careless if name == "careless" else a_pilot(job, name, [])
    running: Offer | None = None
    at_us, changeover_left_us, work_left_us = 0, 0, work_us
    there = True
    for gap_us, there_next, gone_for, tells in [*looks, *[(TICK_US, False, 1.0, False)] * 60]:
        decided = pilot.look(at_us, [SURE, CHEAP] if there else [SURE], work_left_us)
        assert pilot.is_safe
        if decided is not None and decided != running:
            changeover_left_us = job.changeover_us
        running = decided
        is_lost = running == CHEAP and not there_next
        up_us = gap_us - int(gone_for * gap_us) if is_lost else gap_us
        if running is not None:
            changing_us = min(changeover_left_us, up_us)
            changeover_left_us -= changing_us
            if up_us - changing_us >= work_left_us:
                assert at_us + changing_us + work_left_us <= job.deadline_us
                return
            work_left_us -= up_us - changing_us
        if is_lost:
            running = None
            if tells:
                pilot.preempted(at_us + up_us)
        at_us += gap_us
        there = there_next
    raise AssertionError("the job is never done")


# --- what happens between two looks -------------------------------------------------------------

CHEAP = Offer("a", Kind.SPOT, SPOT)


class Recorder(Policy):
    """Takes spot where there is some, and keeps what it saw."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        self.seen: list[Observation] = []

    def decide(self, seen: Observation) -> Offer | None:
        self.seen.append(seen)
        return super().decide(seen)

    def choose(self, seen: Observation) -> Offer | None:
        return seen.spot[0] if seen.spot else None


def recorded() -> tuple[Pilot, Recorder]:
    policy = Recorder(LOOSE)
    return Pilot(LOOSE, policy), policy


def test_an_instance_that_starts_early_gives_slack_back() -> None:
    """Once it is told that the instance works, a pilot counts no more changeover."""
    pilot, policy = recorded()
    pilot.look(0, [SURE, CHEAP], LOOSE.work_us)
    pilot.look(1_000_000, [SURE, CHEAP], LOOSE.work_us)
    pilot.started(2_000_000)
    pilot.look(3_000_000, [SURE, CHEAP], LOOSE.work_us)
    left_us = [seen.changeover_left_us for seen in policy.seen]
    assert left_us == [0, LOOSE.changeover_us - 1_000_000, 0]


def test_a_preemption_ends_run_and_spell() -> None:
    """After the notice the job runs nowhere, and a zone that offers capacity again at once begins a
    new spell, with a changeover to pay."""
    pilot, policy = recorded()
    pilot.look(0, [SURE, CHEAP], LOOSE.work_us)
    pilot.look(TICK_US, [SURE, CHEAP], LOOSE.work_us)
    pilot.preempted(TICK_US + 5)
    assert pilot.running is None
    pilot.look(TICK_US + 7, [SURE, CHEAP], LOOSE.work_us)
    assert policy.seen[-1].running is None
    assert policy.seen[-1].spells[0].began_us == TICK_US + 7
    pilot.look(TICK_US + 8, [SURE, CHEAP], LOOSE.work_us)
    assert policy.seen[-1].changeover_left_us == LOOSE.changeover_us - 1


def test_a_notice_can_come_twice() -> None:
    """The second word of a preemption, or one while nothing runs, changes nothing but the time."""
    pilot, _ = recorded()
    pilot.look(0, [SURE, CHEAP], LOOSE.work_us)
    pilot.preempted(5)
    once = pilot.state()
    pilot.preempted(5)
    assert pilot.state() == once


def test_a_zone_that_turns_up_later_is_watched_from_then_on() -> None:
    """Zones need not be named beforehand: a new one has a spell since it was first seen, and keeps
    its place when its capacity is gone."""
    pilot, policy = recorded()
    pilot.look(0, [SURE, CHEAP], LOOSE.work_us)
    pilot.look(TICK_US, [SURE, CHEAP, Offer("b", Kind.SPOT, SPOT)], LOOSE.work_us)
    pilot.look(2 * TICK_US, [SURE, CHEAP], LOOSE.work_us)
    told = [(s.zone, s.is_available, s.began_us) for s in policy.seen[-1].spells]
    assert told == [("a", True, 0), ("b", False, 2 * TICK_US)]


def test_a_cheaper_on_demand_zone_is_no_reason_to_move() -> None:
    """On on-demand a job stays in its zone, at the zone's present price."""
    pilot = Pilot(TIGHT, "on_demand", spot_micros_per_hour=SPOT, on_demand_micros_per_hour=3 * SPOT)
    east, west = (Offer(zone, Kind.ON_DEMAND, 3_000_000) for zone in ("east", "west"))
    assert pilot.look(0, [west, east], TIGHT.work_us) == west
    dearer = Offer("west", Kind.ON_DEMAND, 4_000_000)
    assert pilot.look(1, [east, dearer], TIGHT.work_us) == dearer
    assert pilot.look(2, [east], TIGHT.work_us) == dearer


# --- lost work ----------------------------------------------------------------------------------


def on_spot(work_left_us: int) -> Pilot:
    """A pilot whose job has been on spot for half of the time that it had."""
    pilot = Pilot(TIGHT, UniformProgress(TIGHT))
    assert pilot.look(0, [SURE, CHEAP], TIGHT.work_us) == CHEAP
    assert pilot.look(TIGHT.deadline_us // 2, [SURE, CHEAP], work_left_us) == CHEAP
    assert pilot.is_safe
    return pilot


def test_lost_work_sends_the_job_to_on_demand_in_time() -> None:
    """When so much work is lost that another preemption would be too much, the job leaves spot at
    once, and the deadline is still safe."""
    half_us = TIGHT.deadline_us // 2
    pilot = on_spot(half_us - TIGHT.changeover_us)
    pilot.preempted(half_us + 1)
    pilot.look(half_us + 1, [SURE, CHEAP], half_us - TIGHT.changeover_us - 1)
    assert pilot.running == SURE
    assert pilot.is_safe

    noticed_late = Job(TIGHT.work_us, TIGHT.deadline_us, TIGHT.changeover_us, TICK_US, TICK_US)
    pilot = Pilot(noticed_late, UniformProgress(noticed_late))
    assert pilot.look(0, [SURE, CHEAP], TIGHT.work_us) == CHEAP
    enough_us = TIGHT.changeover_us + TICK_US
    assert pilot.look(half_us, [SURE, CHEAP], half_us - enough_us) == CHEAP
    assert pilot.look(half_us + 1, [SURE, CHEAP], half_us - enough_us) == SURE
    assert pilot.is_safe


def test_a_changeover_that_is_left_gives_back_what_it_had_not_used() -> None:
    """On the way to spot, too, a loss sends the job to on-demand while that is in time: what it had
    not yet spent on the way counts."""
    slack_us = 5 * TIGHT.changeover_us // 2
    pilot = Pilot(TIGHT, Lindy(TIGHT, SPOT, ON_DEMAND))
    assert pilot.look(0, [SURE, CHEAP], TIGHT.work_us) == CHEAP
    work_left_us = TIGHT.deadline_us - slack_us
    assert pilot.look(0, [SURE, CHEAP], work_left_us) == CHEAP
    assert pilot.is_safe
    lost_us = slack_us - 3 * TIGHT.changeover_us // 2
    assert pilot.look(0, [SURE, CHEAP], work_left_us + lost_us) == SURE
    assert pilot.is_safe


@pytest.mark.parametrize("takes_spot", [True, False])
def test_a_careless_policy_is_not_late_either(takes_spot: bool) -> None:
    """A policy that idles or hops without an eye on the deadline is overruled in time."""
    zones = [Zone("a", TICK_US, [SPOT, None] * 72)]
    policy = Careless(TIGHT, takes_spot=takes_spot)
    decisions, done_us = fly(Pilot(TIGHT, policy), TIGHT, zones)
    assert decisions[0] == (CHEAP if takes_spot else None)
    assert done_us <= TIGHT.deadline_us


class Dreamer(Policy):
    """Idles for ever, and takes its slack to be endless."""

    def slack_us(self, seen: Observation) -> int:
        return 1 << 60

    def choose(self, seen: Observation) -> Offer | None:
        return None


def test_the_slack_is_the_pilots_own_reckoning() -> None:
    """A policy that is wrong about its slack is overruled in time all the same, and the pilot says
    what is so when it is too late."""
    _, done_us = fly(Pilot(TIGHT, Dreamer(TIGHT)), TIGHT, [])
    assert done_us <= TIGHT.deadline_us
    pilot = Pilot(TIGHT, Dreamer(TIGHT))
    assert pilot.look(TIGHT.slack_us, [SURE], TIGHT.work_us) == SURE
    assert "late" in (pilot.warning or "")


def test_what_is_lost_beyond_the_slack_is_said() -> None:
    """A job that nothing can make sure any more stays where it works, with a warning that says what
    it hangs on; when it must be late, the warning says by how much."""
    half_us = TIGHT.deadline_us // 2
    pilot = on_spot(half_us - TIGHT.changeover_us)
    assert pilot.look(half_us, [SURE, CHEAP], half_us - TIGHT.changeover_us + 1) == CHEAP
    assert not pilot.is_safe
    assert "only if the spot instance stays" in (pilot.warning or "")
    assert not Pilot.restore(pilot.state(), UniformProgress(TIGHT)).is_safe

    assert pilot.look(half_us, [SURE], half_us) == SURE
    assert "about 0.3333 h late" in (pilot.warning or "")


def test_a_look_that_comes_late_is_noticed() -> None:
    """An idle job that nobody looked after for too long goes to on-demand, and the pilot says that
    it will be late."""
    pilot, _ = recorded()
    assert pilot.look(0, [SURE], LOOSE.work_us) is None
    assert pilot.is_safe
    assert pilot.look(LOOSE.slack_us, [SURE], LOOSE.work_us) == SURE
    assert "0.2 h late" in (pilot.warning or "")


def test_estimated_work_may_run_over() -> None:
    """With no work left the job is done, or, if it says that it isn't, stays where it runs."""
    pilot, _ = recorded()
    assert pilot.look(0, [SURE, CHEAP], LOOSE.work_us) == CHEAP
    assert pilot.look(1, [SURE, CHEAP], 0, is_overrun=True) == CHEAP
    assert pilot.look(2, [SURE, CHEAP], 0) is None


@pytest.mark.parametrize("work_left_us", [0, -5 * US_PER_HOUR])
def test_a_job_that_is_overrun_is_never_safe(work_left_us: int) -> None:
    """Nobody knows what is left of it, so the pilot promises nothing, however early it is: it says
    how far the deadline is, and is sure again once somebody knows."""
    pilot, policy = recorded()
    pilot.look(0, [SURE, CHEAP], LOOSE.work_us)
    pilot.look(LOOSE.work_us, [SURE, CHEAP], work_left_us, is_overrun=True)
    assert policy.seen[-1].work_left_us == 0
    assert not pilot.is_safe
    assert "the deadline is 14 h away" in (pilot.warning or "")
    pilot.look(LOOSE.work_us, [SURE, CHEAP], US_PER_HOUR, is_overrun=True)
    assert pilot.is_safe


def test_a_job_that_is_overrun_goes_on() -> None:
    """It stays on a spot instance to the last, for to move would not make it sure; a policy that
    would leave it idle is overruled."""
    pilot, _ = recorded()
    pilot.look(0, [SURE, CHEAP], LOOSE.work_us)
    for at_us in (LOOSE.deadline_us - LOOSE.changeover_us, LOOSE.deadline_us + 1):
        assert pilot.look(at_us, [SURE, CHEAP], 0, is_overrun=True) == CHEAP
    idler = Pilot(LOOSE, Careless(LOOSE, takes_spot=False))
    assert idler.look(0, [SURE], 0, is_overrun=True) == SURE


def test_a_job_that_is_done_needs_no_warning() -> None:
    """Past its deadline a job that goes on is late; once it is done there is nothing to warn of."""
    pilot, _ = recorded()
    pilot.look(2 * LOOSE.deadline_us, [SURE], 0, is_overrun=True)
    assert "late" in (pilot.warning or "")
    pilot.look(2 * LOOSE.deadline_us, [SURE], 0)
    assert pilot.is_safe


# --- what can't be ------------------------------------------------------------------------------


def test_time_goes_one_way() -> None:
    """A look or a notice from before the last one is refused, and changes nothing."""
    pilot, _ = recorded()
    pilot.look(TICK_US, [SURE, CHEAP], LOOSE.work_us)
    state = pilot.state()
    went_back = pytest.raises(BadLook, match=r"went back by 0\.1667 h")
    with went_back:
        pilot.look(0, [SURE], LOOSE.work_us)
    with went_back:
        pilot.preempted(0)
    with went_back:
        pilot.started(0)
    assert pilot.state() == state


def test_on_demand_is_always_among_the_offers() -> None:
    """Without an on-demand offer there is no guarantee, so the pilot asks for one."""
    pilot, _ = recorded()
    with pytest.raises(BadLook, match="no on-demand offer"):
        pilot.look(0, [CHEAP], LOOSE.work_us)


def test_a_named_policy_needs_prices_and_no_future() -> None:
    """What a pilot can't be made from is said when it is made."""
    with pytest.raises(BadLook, match="usually cost"):
        Pilot(LOOSE, "lindy")
    with pytest.raises(BadLook, match="future"):
        Pilot(LOOSE, "omniscient", spot_micros_per_hour=1, on_demand_micros_per_hour=3)
    with pytest.raises(ValueError, match="there is no policy"):
        Pilot(LOOSE, "lucky", spot_micros_per_hour=1, on_demand_micros_per_hour=3)


def test_the_example_is_done_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    """The controller in `examples/` runs as it is, and its job is done before its deadline."""
    example = Path(__file__).parents[1] / "examples" / "deadline_job.py"
    runpy.run_path(str(example), run_name="__main__")
    *told, last = capsys.readouterr().out.splitlines()
    places = {line.partition("of work left  ")[2] for line in told}
    assert "on on-demand" in places
    assert all(re.fullmatch(r"idle|on on-demand|on spot in [\w-]+", each) for each in places)
    finish = re.match(r"done after ([0-9.]+) of ([0-9.]+) h, for ", last)
    assert finish is not None
    assert float(finish[1]) <= float(finish[2])
