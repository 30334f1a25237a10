"""A policy at the wheel of a real job: what a controller embeds.

A controller knows what is on offer now and how much work is left; a policy also wants to know where
the job runs, how much of a changeover is left, and since when each zone has had capacity. The pilot
keeps that in between. Whoever drives it calls `look` at least once in `job.tick_us`, and whenever
something changes, and does what it says; `started` and `preempted` tell it what happened meanwhile.

The promise is that the deadline is kept if work and changeovers take what was said: the pilot
carries a decision out only if the slack left after it pays for the worst. It reckons that slack
itself, from its own job, whoever wrote the policy. What breaks the promise comes from outside: work
that was lost with an instance, a look that came late, a changeover that took longer. All of them
eat slack. When a spot instance is no longer safe to stay on, and on-demand still is in time, the
pilot goes there. When nothing is sure any more it says so in `warning`, and stays on a spot
instance that works: it does the same work there until it is taken away, and would need the same
changeover then as now. A job whose estimated work has run out is never sure: nobody knows what is
left, so the pilot only sees to it that the job goes on.

All that the pilot knows is one value, its state, so that a controller can restart.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from laissez.deadline.job import Job, Kind, Observation, Offer, Spell, hours
from laissez.deadline.policy import Policy
from laissez.deadline.registry import POLICIES, Brief, make


class BadLook(ValueError):
    """What the pilot was told can't be; the sentence says why, and what to tell it."""


class PilotState(msgspec.Struct, frozen=True, kw_only=True):
    """All that a pilot knows. Instants are in microseconds since the job's release.

    `works_from_us` is when the instance that it runs on has, or will have, changed over.
    """

    job: Job
    policy: str | None
    spot_micros_per_hour: int | None
    on_demand_micros_per_hour: int | None
    seed: int
    released_us: int
    spells: tuple[Spell, ...]
    at_us: int = 0
    running: Offer | None = None
    works_from_us: int = 0
    warning: str | None = None


class Pilot:
    """Says for one job, look by look, where to run it.

    `policy` is a name of the registry or a policy made for this job. For a name, the two prices say
    what spot and on-demand usually cost, for the whole job: a job on several instances at once is
    offered, and pays for, all of them together. `zones` are those that will be watched; one that
    turns up later is added. `released_us` is the instant, on the controller's clock, from which the
    deadline counts.
    """

    def __init__(
        self,
        job: Job,
        policy: str | Policy = "lindy",
        *,
        spot_micros_per_hour: int | None = None,
        on_demand_micros_per_hour: int | None = None,
        zones: Sequence[str] = (),
        released_us: int = 0,
        seed: int = 0,
    ) -> None:
        state = PilotState(
            job=job,
            policy=policy if isinstance(policy, str) else None,
            spot_micros_per_hour=spot_micros_per_hour,
            on_demand_micros_per_hour=on_demand_micros_per_hour,
            seed=seed,
            released_us=released_us,
            spells=tuple(Spell(zone, False, 0) for zone in zones),
        )
        self._state = state
        self._policy = _policy_of(state, policy if isinstance(policy, Policy) else None)

    @classmethod
    def restore(cls, state: bytes, policy: Policy | None = None) -> Pilot:
        """The pilot that had this state; a policy that has no name must be given again."""
        known = msgspec.json.decode(state, type=PilotState)
        pilot = cls.__new__(cls)
        pilot._state = known
        pilot._policy = _policy_of(known, policy)
        return pilot

    def state(self) -> bytes:
        """All that it knows, to be kept where the controller keeps what it needs after a crash."""
        return msgspec.json.encode(self._state)

    @property
    def running(self) -> Offer | None:
        """Where the job runs, or is changing over to."""
        return self._state.running

    @property
    def warning(self) -> str | None:
        """Why the deadline is no longer sure, as of the last look; None if it is."""
        return self._state.warning

    @property
    def is_safe(self) -> bool:
        """As of the last look: the deadline will be kept, whatever becomes of spot capacity.

        It is if the work left is what was said. Of a job that is overrun nobody can say what is
        left, and it is not safe however early it is.
        """
        return self._state.warning is None

    def look(
        self,
        at_us: int,
        offers: Sequence[Offer],
        work_left_us: int,
        *,
        is_overrun: bool = False,
    ) -> Offer | None:
        """Where to run from now on; None is nowhere.

        The offers are all that can be had now, with the instance that the job runs on: a spot
        instance that is not among them was preempted. There is always one of kind on-demand.
        `work_left_us` may rise, when work was lost. With none left the job is done, unless it
        `is_overrun`: its work was only estimated, and goes on for nobody knows how long. Then it
        is never left idle, and never safe.
        """
        at_us = self._instant(at_us)
        before = self._state
        running = _present(before.running, offers)
        spells = _watched(before.spells, offers, at_us)
        is_done = work_left_us <= 0 and not is_overrun
        seen = Observation(
            at_us,
            max(0, work_left_us),
            running,
            max(0, before.works_from_us - at_us) if running else 0,
            _on_demand(running, offers),
            tuple(sorted(_spot(offers), key=lambda offer: offer.micros_per_hour)),
            spells,
            is_done,
        )
        after = self._after(seen, self._decide(seen))
        self._state = msgspec.structs.replace(
            before,
            at_us=at_us,
            running=after.running,
            works_from_us=at_us + after.changeover_left_us,
            spells=spells,
            warning=self._warning(after),
        )
        return after.running

    def started(self, at_us: int) -> None:
        """The instance works, from this instant on; without this word, after a full changeover."""
        at_us = self._instant(at_us)
        self._state = msgspec.structs.replace(self._state, at_us=at_us, works_from_us=at_us)

    def preempted(self, at_us: int) -> None:
        """The instance is gone, and with it the zone's capacity until an offer says otherwise."""
        at_us = self._instant(at_us)
        state = self._state
        gone = state.running
        spells = state.spells
        if gone is not None and gone.kind is Kind.SPOT:
            spells = tuple(
                Spell(spell.zone, False, at_us) if spell.zone == gone.zone else spell
                for spell in spells
            )
        self._state = msgspec.structs.replace(state, at_us=at_us, running=None, spells=spells)

    def _instant(self, at_us: int) -> int:
        """The instant since the release; time goes one way."""
        since_us = at_us - self._state.released_us
        if since_us < self._state.at_us:
            raise BadLook(
                f"the time went back by {hours(self._state.at_us - since_us)}: tell the pilot what "
                "happens in the order in which it happens, with the time since the job's release "
                "or of the clock that `released_us` was read from"
            )
        return since_us

    def _decide(self, seen: Observation) -> Offer | None:
        """What the policy says, if the deadline bears it, whoever wrote the policy."""
        decided = self._policy.decide(seen)
        if _is_overrun(seen):
            return decided or seen.on_demand
        after = self._after(seen, decided)
        if seen.is_done or self._slack_us(after) >= self._reserve_us(after):
            return decided
        is_in_time = self._slack_us(self._after(seen, seen.on_demand)) >= 0
        if is_in_time or decided is None or not _is_same(decided, seen.running):
            return seen.on_demand
        return decided

    def _after(self, seen: Observation, decided: Offer | None) -> Observation:
        """How it is right after a decision."""
        changeover_us = 0
        if decided is not None:
            is_stay = _is_same(decided, seen.running)
            changeover_us = seen.changeover_left_us if is_stay else self._state.job.changeover_us
        return msgspec.structs.replace(seen, running=decided, changeover_left_us=changeover_us)

    def _slack_us(self, after: Observation) -> int:
        """What may still be wasted: reckoned here, for a policy may reckon as it likes."""
        ends_us = after.at_us + after.changeover_left_us + after.work_left_us
        return self._state.job.deadline_us - ends_us

    def _reserve_us(self, after: Observation) -> int:
        """The slack that must be left, so that the worst is still in time."""
        job = self._state.job
        if after.running is None:
            return job.wait_us
        return job.hop_us - job.changeover_us if after.running.kind is Kind.SPOT else 0

    def _warning(self, after: Observation) -> str | None:
        """What is wrong once the decision is carried out."""
        if _is_overrun(after):
            return _overrun_warning(self._state.job.deadline_us - after.at_us)
        slack_us, reserve_us = self._slack_us(after), self._reserve_us(after)
        if after.is_done or slack_us >= reserve_us:
            return None
        if slack_us < 0:
            return (
                f"the job will be about {hours(-slack_us)} late: it has lost more time or work "
                "than there was slack; move the deadline or make the work shorter"
            )
        return (
            f"the deadline is kept only if the spot instance stays: {hours(slack_us)} of slack is "
            f"left, and the way to on-demand takes {hours(reserve_us)}; move the deadline if you "
            "can"
        )


def _is_overrun(seen: Observation) -> bool:
    """The estimate has run out, and the job goes on."""
    return seen.work_left_us == 0 and not seen.is_done


def _overrun_warning(left_us: int) -> str:
    when = f"is {hours(left_us)} away" if left_us >= 0 else f"was {hours(-left_us)} ago: it is late"
    return (
        "the job has done the work that was estimated and is not done, so nobody knows when it "
        f"will be; the deadline {when}; say how much work is left, or move the deadline"
    )


def _policy_of(state: PilotState, given: Policy | None) -> Policy:
    """The policy that was given, if it is one for this job, or the one that has this name."""
    if given is not None:
        if given.job != state.job:
            raise BadLook(
                "the policy was made for another job; make it for the one that this pilot has, "
                "with the same work, deadline, changeover, tick and notice"
            )
        return given
    if state.policy is None:
        raise BadLook("this pilot flew with a policy of your own: give it again to restore it")
    known = POLICIES.get(state.policy)
    if known is not None and known.sees_future:
        raise BadLook(f"{state.policy} needs to know the future; take lindy, for example")
    spot, on_demand = state.spot_micros_per_hour, state.on_demand_micros_per_hour
    if spot is None or on_demand is None:
        raise BadLook(
            "say what spot and on-demand usually cost, in micro-dollars an hour, with "
            "spot_micros_per_hour and on_demand_micros_per_hour"
        )
    return make(state.policy, Brief(state.job, spot, on_demand, seed=state.seed))


def _is_same(offer: Offer, other: Offer | None) -> bool:
    """The same place, whatever its price."""
    return other is not None and (offer.zone, offer.kind) == (other.zone, other.kind)


def _spot(offers: Sequence[Offer]) -> list[Offer]:
    return [offer for offer in offers if offer.kind is Kind.SPOT]


def _present(running: Offer | None, offers: Sequence[Offer]) -> Offer | None:
    """The instance at its present price; on-demand is never taken away."""
    if running is None:
        return None
    found = next((offer for offer in offers if _is_same(offer, running)), None)
    return running if found is None and running.kind is Kind.ON_DEMAND else found


def _on_demand(running: Offer | None, offers: Sequence[Offer]) -> Offer:
    """Where the job is on on-demand it stays: a cheaper zone isn't worth a changeover."""
    if running is not None and running.kind is Kind.ON_DEMAND:
        return running
    found = [offer for offer in offers if offer.kind is Kind.ON_DEMAND]
    if not found:
        raise BadLook(
            "no on-demand offer is among these, and the deadline rests on it; name one at each "
            "look, also where it is not wanted"
        )
    return min(found, key=lambda offer: offer.micros_per_hour)


def _watched(spells: tuple[Spell, ...], offers: Sequence[Offer], at_us: int) -> tuple[Spell, ...]:
    """Since when each zone has had capacity or none, with what this look shows."""
    there = dict.fromkeys(offer.zone for offer in _spot(offers))
    known = {spell.zone for spell in spells}
    watched = [
        spell
        if spell.is_available == (spell.zone in there)
        else Spell(spell.zone, not spell.is_available, at_us)
        for spell in spells
    ]
    watched += [Spell(zone, True, at_us) for zone in there if zone not in known]
    return tuple(watched)
