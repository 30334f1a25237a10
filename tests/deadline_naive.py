"""The oracle of deadline runs: slow and obviously right.

The world of `laissez.deadline` is compared with this one. Nothing here is clever: time goes by
microsecond by microsecond, whatever happens. At each tick the job finds out what every zone has,
by reading it; whether its instance is still there; and for how long each zone has been as it is,
by walking back. Then its policy is asked, and every microsecond on an instance is paid for at the
price of that tick, and is either changeover or work. So ticks of a few microseconds make a test.

Beside it, the adversary: capacity that comes and goes while it looks at what the job does, told
by a tape of bytes, so that Hypothesis can make the tape shorter.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from laissez.deadline.job import US_PER_HOUR, Job, Kind, Observation, Offer, Spell
from laissez.deadline.policy import Policy

Rates = Mapping[str, Sequence[int | None]]
"""For each zone what spot costs at each tick, or None where there is none."""


@dataclass
class Told:
    """How a run went, and everything that the policy was told."""

    finished_us: int = 0
    charge: Fraction = Fraction(0)
    worked_us: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(Kind, 0))
    changeover_us: dict[Kind, int] = field(default_factory=lambda: dict.fromkeys(Kind, 0))
    moves: int = 0
    seen: list[Observation] = field(default_factory=list)
    running: list[Offer | None] = field(default_factory=list)  # one per microsecond


def simulate(
    job: Job,
    policy: Policy,
    rates: Rates,
    on_demand: Offer,
    *,
    start: int = 0,
    work_us: int | None = None,
    changeovers: Callable[[], int] | None = None,
) -> Told:
    """One job from the tick `start` to its end, microsecond by microsecond."""
    told = Told()
    work_left_us = job.work_us if work_us is None else work_us
    done_us = 0
    running: Offer | None = None
    changeover_left_us = 0
    at_us = 0
    while work_left_us > 0:
        if at_us % job.tick_us == 0:
            tick = start + at_us // job.tick_us
            spot = _on_offer(rates, tick)
            if running is not None and running.kind is Kind.SPOT:
                here = [offer for offer in spot if offer.zone == running.zone]
                running = here[0] if here else None
            seen = Observation(
                at_us=at_us,
                work_left_us=job.work_us - done_us,
                running=running,
                changeover_left_us=changeover_left_us if running is not None else 0,
                on_demand=on_demand,
                spot=spot,
                spells=_spells(rates, tick, start, job.tick_us),
            )
            told.seen.append(seen)
            decided = policy.decide(seen)
            if decided != running and decided is not None:
                told.moves += 1
                changeover_left_us = job.changeover_us if changeovers is None else changeovers()
            running = decided
        told.running.append(running)
        at_us += 1
        if running is None:
            continue
        told.charge += Fraction(running.micros_per_hour, US_PER_HOUR)
        if changeover_left_us > 0:
            changeover_left_us -= 1
            told.changeover_us[running.kind] += 1
        else:
            work_left_us -= 1
            done_us += 1
            told.worked_us[running.kind] += 1
    told.finished_us = at_us
    return told


def _has(rates: Rates, zone: str, tick: int) -> int | None:
    """What spot costs there then; after the end of any zone there is none."""
    if any(tick >= len(each) for each in rates.values()):
        return None
    return rates[zone][tick]


def _on_offer(rates: Rates, tick: int) -> tuple[Offer, ...]:
    """The cheapest first, and among equals in the order of the zones."""
    offers = []
    for zone in rates:
        rate = _has(rates, zone, tick)
        if rate is not None:
            offers.append(Offer(zone, Kind.SPOT, rate))
    return tuple(sorted(offers, key=lambda offer: offer.micros_per_hour))


def _spells(rates: Rates, tick: int, start: int, tick_us: int) -> tuple[Spell, ...]:
    spells = []
    for zone in rates:
        is_available = _has(rates, zone, tick) is not None
        began = tick
        while began > start and (_has(rates, zone, began - 1) is not None) == is_available:
            began -= 1
        spells.append(Spell(zone, is_available, (began - start) * tick_us))
    return tuple(spells)


class Tape:
    """An endless choice of numbers, read from some bytes over and over."""

    def __init__(self, data: bytes) -> None:
        self._data = data or b"\0"
        self._at = 0

    def upto(self, most: int) -> int:
        """A number from 0 to `most`, both included."""
        byte = self._data[self._at % len(self._data)]
        self._at += 1
        if byte >= 192:
            return most  # extremes are where deadlines are missed
        return byte * most // 191

    def one_in(self, count: int) -> bool:
        return self.upto(count - 1) == 0


@dataclass
class Siege:
    """What the adversary may do to a job."""

    zones: int = 1
    is_irregular: bool = True  # it also chooses when the job looks, within a tick
    real_work_us: int | None = None
    changeover_max_us: int | None = None  # each takes from nothing to this; None: as estimated


def besiege(job: Job, policy: Policy, tape: Tape, siege: Siege) -> int:
    """When the job is done, if an adversary takes spot away at the worst of times.

    It looks at where the job is: it likes to offer spot to a job that has none, and to take it
    away in the middle of the changeover, at its very end, or a moment after it. An instance that
    is lost does no work, and the policy is told up to `notice_us` later.
    """
    on_demand = Offer("here", Kind.ON_DEMAND, 3_000_000)
    zones = [f"zone {number}" for number in range(siege.zones)]
    spells = {zone: Spell(zone, False, 0) for zone in zones}
    at_us = done_us = changeover_left_us = 0
    running: Offer | None = None
    work_us = job.work_us if siege.real_work_us is None else siege.real_work_us
    while True:
        is_generous = not tape.one_in(3)
        spot: list[Offer] = []
        for zone in zones:
            is_here = running is not None and running.zone == zone
            is_available = is_here or (is_generous and not tape.one_in(3))
            if is_available != spells[zone].is_available:
                spells[zone] = Spell(zone, is_available, at_us)
            if is_available:
                spot.append(Offer(zone, Kind.SPOT, 1_000_000))
        if running is not None and running.kind is Kind.SPOT:
            running = next(offer for offer in spot if offer.zone == running.zone)
        seen = Observation(
            at_us=at_us,
            work_left_us=job.work_us - done_us,
            running=running,
            changeover_left_us=changeover_left_us,
            on_demand=on_demand,
            spot=tuple(spot),
            spells=tuple(spells.values()),
        )
        decided = policy.decide(seen)
        assert decided in (None, running, on_demand, *spot), "it took what nobody offered"
        if decided is not None and decided != running:
            changeover_left_us = _changeover_us(job, siege, tape)
        running = decided
        is_lost = running is not None and running.kind is Kind.SPOT and not tape.one_in(4)
        blind_us = 0
        if is_lost:
            span_us, blind_us = _loss(job, siege, tape, changeover_left_us)
        else:
            span_us = 1 + tape.upto(job.tick_us - 1) if siege.is_irregular else job.tick_us
        if running is not None:
            changing_us = min(changeover_left_us, span_us)
            changeover_left_us -= changing_us
            if done_us + span_us - changing_us >= work_us:
                return at_us + changing_us + work_us - done_us
            done_us += span_us - changing_us
        at_us += span_us + blind_us
        if is_lost:
            running = None
        if running is None:
            changeover_left_us = 0


def _changeover_us(job: Job, siege: Siege, tape: Tape) -> int:
    if siege.changeover_max_us is None:
        return job.changeover_us
    return tape.upto(siege.changeover_max_us)


def _loss(job: Job, siege: Siege, tape: Tape, changeover_left_us: int) -> tuple[int, int]:
    """For how long the instance lives on, and how much later its loss is noticed."""
    lives_us = (
        changeover_left_us,
        changeover_left_us - 1,
        changeover_left_us + 1,
        tape.upto(changeover_left_us),
        job.tick_us,
    )[tape.upto(4)]
    if siege.is_irregular:
        return max(1, lives_us), tape.upto(job.notice_us)
    # Looks only at whole ticks: the instance is lost at one of them, which is seen at once.
    return max(1, -(-lives_us // job.tick_us)) * job.tick_us, 0
