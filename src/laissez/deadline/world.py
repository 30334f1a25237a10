"""A world for policies to live in: what each zone offers, tick by tick, and a run of a job in it.

A zone is cut into stretches in which nothing changes; the world knows for each tick where its
stretch ends and its spell began. A run asks the policy at every tick, except while the job is on
spot and its policy keeps to that: then nothing is to be decided until the next change.

The changeover is exact, not rounded to ticks, and a job that is done in the middle of a tick stops
paying there. What the policy is told of work and changeover are estimates; `Truth` says what they
really are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from laissez.deadline.job import US_PER_HOUR, Job, Kind, Observation, Offer, Spell
from laissez.deadline.policy import Policy

PATIENCE = 8
"""A run is given up after so many times its deadline, its work and its longest changeover."""


class Zone:
    """The spot capacity of a zone, tick by tick; None where there is none."""

    def __init__(self, name: str, tick_us: int, rates: Sequence[int | None]) -> None:
        self.name = name
        self.tick_us = tick_us
        offers = {rate: Offer(name, Kind.SPOT, rate) for rate in set(rates) if rate is not None}
        self.offers = [None if rate is None else offers[rate] for rate in rates]
        self.spell_began = [0] * len(rates)
        self.spell_ends = [len(rates)] * len(rates)
        self.stretch_ends = [len(rates)] * len(rates)
        for at in range(1, len(rates)):
            is_same_spell = (rates[at] is None) == (rates[at - 1] is None)
            self.spell_began[at] = self.spell_began[at - 1] if is_same_spell else at
        for at in range(len(rates) - 2, -1, -1):
            is_same_spell = (rates[at] is None) == (rates[at + 1] is None)
            self.spell_ends[at] = self.spell_ends[at + 1] if is_same_spell else at + 1
            is_same = rates[at] == rates[at + 1]
            self.stretch_ends[at] = self.stretch_ends[at + 1] if is_same else at + 1

    def __len__(self) -> int:
        return len(self.offers)


class Future:
    """What is to come in the zones of a run: only for policies that compare, never for a user."""

    def __init__(self, zones: Sequence[Zone], start: int) -> None:
        self.zones = zones
        self.start = start

    def lifetime_us(self, zone: str, at_us: int) -> int:
        """How long the spot capacity that a zone has now will last."""
        found = next(each for each in self.zones if each.name == zone)
        tick = self.start + at_us // found.tick_us
        return (found.spell_ends[tick] - self.start) * found.tick_us - at_us

    def is_available(self, ticks: int) -> list[bool]:
        """Whether the first zone has capacity, for so many ticks from the start."""
        offers = self.zones[0].offers[self.start : self.start + ticks]
        return [offer is not None for offer in offers] + [False] * (ticks - len(offers))


class Truth(msgspec.Struct, frozen=True):
    """What work and changeovers really take; `changeover_us` is called for each move."""

    work_us: int
    changeover_us: Callable[[], int]


class RunStep(msgspec.Struct, frozen=True, gc=False):
    """From one instant to another the job was here: changing over at first, then working."""

    from_us: int
    to_us: int
    running: Offer | None
    changeover_us: int


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """How a run went. The work on each kind is net of changeovers, which are counted beside it."""

    finished_us: int | None
    is_late: bool
    cost_micros: int
    on_demand_us: int
    spot_us: int
    on_demand_changeover_us: int
    spot_changeover_us: int
    moves: int
    steps: tuple[RunStep, ...] = ()


def run(
    job: Job,
    policy: Policy,
    zones: Sequence[Zone],
    on_demand: Offer,
    *,
    start: int = 0,
    truth: Truth | None = None,
    keeps_steps: bool = False,
) -> Outcome:
    """One job, from the tick `start` of the zones; where they end, there is no spot capacity."""
    tick_us = job.tick_us
    if len({zone.name for zone in zones}) < len(zones):
        raise ValueError("two zones have one name; a job could not tell which one it lost")
    if any(zone.tick_us != tick_us for zone in zones):
        raise ValueError("the ticks of a zone and of the job differ; give both the same length")
    length = min(map(len, zones), default=0)
    work_left_us = job.work_us if truth is None else truth.work_us
    gives_up_us = PATIENCE * (job.deadline_us + work_left_us)
    surplus_us = job.work_us - work_left_us
    running: Offer | None = None
    changeover_left_us = 0
    worked = {Kind.SPOT: 0, Kind.ON_DEMAND: 0}
    changed = {Kind.SPOT: 0, Kind.ON_DEMAND: 0}
    moves = charge = at_us = 0
    spot: tuple[Offer, ...] = ()
    spells: tuple[Spell, ...] = ()
    next_change = tick = start
    steps: list[RunStep] = []
    while at_us < gives_up_us:
        if tick >= next_change:
            spot, spells, next_change = _look(zones, tick, start, length)
            if running is not None and running.kind is Kind.SPOT:
                running = _still_there(running, spot)
        if running is None:
            changeover_left_us = 0
        seen = Observation(
            at_us,
            work_left_us + surplus_us,
            running,
            changeover_left_us,
            on_demand,
            spot,
            spells,
        )
        decided = policy.decide(seen)
        if decided != running:
            running = decided
            if decided is not None:
                moves += 1
                changeover_left_us = job.changeover_us if truth is None else truth.changeover_us()
                gives_up_us = max(gives_up_us, PATIENCE * changeover_left_us)
        ticks = 1
        if running is not None and running.kind is Kind.SPOT and policy.keeps_spot:
            ticks = max(1, next_change - tick)
        span_us = ticks * tick_us
        if running is None:
            if keeps_steps:
                steps.append(RunStep(at_us, at_us + span_us, None, 0))
        else:
            changeover_us = min(changeover_left_us, span_us)
            work_us = min(work_left_us, span_us - changeover_us)
            changeover_left_us -= changeover_us
            work_left_us -= work_us
            worked[running.kind] += work_us
            changed[running.kind] += changeover_us
            charge += running.micros_per_hour * (changeover_us + work_us)
            if keeps_steps:
                to_us = at_us + changeover_us + work_us
                steps.append(RunStep(at_us, to_us, running, changeover_us))
            if work_left_us == 0:
                at_us += changeover_us + work_us
                break
        at_us += span_us
        tick += ticks
    is_done = work_left_us == 0
    return Outcome(
        at_us if is_done else None,
        not is_done or at_us > job.deadline_us,
        charge // US_PER_HOUR,
        worked[Kind.ON_DEMAND],
        worked[Kind.SPOT],
        changed[Kind.ON_DEMAND],
        changed[Kind.SPOT],
        moves,
        tuple(steps),
    )


def _look(
    zones: Sequence[Zone], tick: int, start: int, length: int
) -> tuple[tuple[Offer, ...], tuple[Spell, ...], int]:
    """What is on offer at a tick, since when, and at which tick that changes."""
    if tick >= length:
        return (), tuple(_last_outage(zone, start, length) for zone in zones), 1 << 62
    offers = [offer for zone in zones if (offer := zone.offers[tick]) is not None]
    offers.sort(key=lambda offer: offer.micros_per_hour)
    spells = tuple(
        Spell(
            zone.name,
            zone.offers[tick] is not None,
            max(0, zone.spell_began[tick] - start) * zone.tick_us,
        )
        for zone in zones
    )
    return tuple(offers), spells, min(zone.stretch_ends[tick] for zone in zones)


def _last_outage(zone: Zone, start: int, length: int) -> Spell:
    """The spell without capacity that follows the end of the zones, or goes on there."""
    began = length
    if start < length and zone.offers[length - 1] is None:
        began = zone.spell_began[length - 1]
    return Spell(zone.name, False, max(0, began - start) * zone.tick_us)


def _still_there(running: Offer, spot: tuple[Offer, ...]) -> Offer | None:
    """The same instance at its present price, or None if it was preempted."""
    return next((offer for offer in spot if offer.zone == running.zone), None)
