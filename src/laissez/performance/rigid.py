"""A rigid job: so many nodes of one domain, all at once, or it does not run at all.

**Its life.** It waits until it has `count` nodes of one domain, a scope whose path has `within`
names. These are its crew; they start together, after the cold start, and then all work. When the
work is done it needs none of them. Nodes that it has without having a crew do nothing but wait for
others; nodes beside the crew are redundant, and it does not move to better ones.

**A loss.** If one of the crew is lost all stand still. The job falls back to its last checkpoint,
waits for a whole crew again, and starts anew. Who knows beforehand that it will lose one says so
(`vacate`): all of them save at once, in no time, and no work is lost that was done by then.

**Pace.** 1 is what a whole crew of the first kind does. All that happens is integer arithmetic,
exact to the microsecond. Of the worth of a crew that is not complete each node has its part; once
it is, each is worth all of it, since none works without the others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import msgspec

from laissez.model.paths import tree_of
from laissez.performance.application import NO_WORTH, US_PER_S, BadApplication, Worth
from laissez.performance.batch import Work
from laissez.performance.batch.stretch import PPM
from laissez.performance.pace import needed_pace, useful_pace


class BadRigid(BadApplication):
    """A rigid job that cannot be, or something that cannot happen to it."""


class RigidSpec(msgspec.Struct, frozen=True):
    """`work` is in hours of a whole crew of the first kind. Times are absolute, in microseconds."""

    work: Work
    count: int
    within: int = 1
    deadline_us: int | None = None
    cold_start_s: float = 120.0
    checkpoint_every_s: float = 300.0

    def __post_init__(self) -> None:
        if self.count < 1 or self.within < 1:
            raise BadRigid(
                f"{self.count} nodes of a path of {self.within} names cannot be; say 1 or more"
            )
        if not 0 <= self.cold_start_s < math.inf:
            raise BadRigid(f"a cold start cannot take {self.cold_start_s} s; say 0 or more")
        if not US_PER_S**-1 <= self.checkpoint_every_s < math.inf:
            raise BadRigid(
                f"checkpoints every {self.checkpoint_every_s} s cannot be; say more than 0"
            )


class _RigidMemory(msgspec.Struct, forbid_unknown_fields=True):
    work: int
    count: int
    now_us: int
    nodes: dict[str, None] = {}
    crew: tuple[str, ...] = ()
    vacating: dict[str, None] = {}
    # what is done when the crew begins to work, and when that is
    saved: int = 0
    from_us: int = 0
    is_measured: bool = False
    is_done: bool = False


class RigidJob:
    def __init__(self, spec: RigidSpec, at_us: int = 0) -> None:
        self.spec = spec
        self._speeds = spec.work.speeds_ppm
        self._kinds = tuple(sorted(self._speeds, key=lambda kind: -self._speeds[kind]))
        self._cold_us = round(spec.cold_start_s * US_PER_S)
        self._every_us = round(spec.checkpoint_every_s * US_PER_S)
        self._memory = _RigidMemory(spec.work.units, spec.count, at_us)

    # What happens to it -----------------------------------------------------------------------

    def advance(self, at_us: int) -> None:
        """Time doesn't go back: what is told of an earlier instant happens now."""
        memory = self._memory
        done_us = self.done_us
        memory.now_us = max(memory.now_us, at_us)
        if done_us is not None and done_us <= memory.now_us and not memory.is_measured:
            self._finish()

    def gain(self, resource: str, at_us: int) -> None:
        self.advance(at_us)
        if tree_of(resource) in self._speeds:
            self._memory.nodes.setdefault(resource)
            self._muster()

    def lose(self, resource: str, at_us: int) -> None:
        self.advance(at_us)
        memory = self._memory
        if resource in memory.nodes:
            del memory.nodes[resource]
            memory.vacating.pop(resource, None)
            if resource in memory.crew:
                memory.saved = self._done() - self._unsaved()
                memory.crew = ()
            self._muster()

    def vacate(self, resource: str, at_us: int) -> None:
        """All of the crew save: nothing that is done by now would have to be done again."""
        self.advance(at_us)
        memory = self._memory
        if resource in memory.nodes:
            memory.vacating.setdefault(resource)
        if resource in memory.crew and memory.from_us < memory.now_us:
            memory.saved, memory.from_us = self._done(), memory.now_us

    def stay(self, resource: str, at_us: int) -> None:
        self.advance(at_us)
        self._memory.vacating.pop(resource, None)

    def measure(self, readings: Mapping[str, float], at_us: int) -> None:
        """`done`: which part of the work is done."""
        share = readings.get("done")
        if share is not None and not 0 <= share <= 1:
            raise BadRigid(f"{share} of a job cannot be done; report a share between 0 and 1")
        self.advance(at_us)
        if share is None:
            return
        memory = self._memory
        memory.is_measured = True
        if share == 1:
            self._finish()
        else:
            # What came since the checkpoint stays unsaved; the reading moves what is saved.
            memory.is_done = False
            memory.saved += min(round(share * memory.work), memory.work - 1) - self._reckoned()
            self._muster()

    # The hooks --------------------------------------------------------------------------------

    @property
    def kinds(self) -> tuple[str, ...]:
        return self._kinds

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self._memory.nodes)

    @property
    def is_done(self) -> bool:
        return self._memory.is_done

    def missing(self, kind: str) -> int:
        """As many as make a crew, in the domain where it has most of them already."""
        if kind not in self._speeds or self.is_done or self.crew:
            return 0
        counts = Counter(self._domain(each) for each in self.nodes if tree_of(each) == kind)
        return self.spec.count - max(counts.values(), default=0)

    def utility_gap(self) -> float:
        return max(0.0, self.needed_pace() - self._pace())

    def worth_of_gaining(self, scope: str, coming: Sequence[str] = ()) -> Worth:
        kind = tree_of(scope)
        if kind not in self._speeds or self.is_done or self.crew:
            return NO_WORTH
        others = sum(tree_of(each) == kind for each in (*self.nodes, *coming))
        return self._part(kind) if others < self.spec.count else NO_WORTH

    def worth_of_losing(self, resource: str, gone: Collection[str] = ()) -> Worth:
        if self.is_done or resource not in self._memory.nodes or resource in gone:
            return NO_WORTH
        if not self.crew:
            return self._part(tree_of(resource))
        if resource not in self.crew or not {*gone}.isdisjoint(self.crew):
            return NO_WORTH
        return self.worth_of_crew

    @property
    def crew(self) -> tuple[str, ...]:
        """The nodes that start or work together; none while it waits."""
        return self._memory.crew

    @property
    def worth_of_crew(self) -> Worth:
        """What is lost if the crew is."""
        return self._worth(self._pace())

    def worth_of_all(self, kind: str) -> Worth:
        """What a whole crew of this kind is worth."""
        return self._worth(self._speeds.get(kind, 0) / PPM)

    def is_redundant(self, resource: str) -> bool:
        """What is beside a crew. Without one everything waits for the rest."""
        if self.is_done or resource not in self._memory.nodes:
            return True
        return bool(self.crew) and resource not in self.crew

    def cold_start_s(self, place: str) -> float:
        if place in self.crew:
            return max(0, self._memory.from_us - self._memory.now_us) / US_PER_S
        return self.spec.cold_start_s

    def at_stake(self, resource: str) -> float:
        """If one is gone, all stand still."""
        return self._pace() if resource in self.crew else 0.0

    def since_checkpoint_s(self, resource: str) -> float:
        if resource not in self.crew:
            return 0.0
        return self._unsaved() / self._pace_ppm() / US_PER_S

    def till_checkpoint_s(self, resource: str) -> float | None:
        """The end of the job is as good as a checkpoint."""
        memory = self._memory
        if resource not in memory.crew or memory.now_us <= memory.from_us:
            return 0.0
        till_us = (memory.from_us - memory.now_us) % self._every_us
        done_us = self.done_us
        if done_us is not None and done_us > memory.now_us:
            till_us = min(till_us, done_us - memory.now_us)
        return till_us / US_PER_S

    @property
    def vacating(self) -> Collection[str]:
        return self._memory.vacating.keys()

    def vacate_s(self, resource: str) -> float | None:
        """It saves in no time, as soon as it is told to."""
        return 0.0

    def ends_in_s(self, place: str) -> float | None:
        """Until it is done, but not beyond its deadline as long as that is not past."""
        now_us, deadline_us = self._memory.now_us, self.spec.deadline_us
        if self.is_done:
            return 0.0
        if place in self.crew:
            end_us = max(now_us, self.done_us or now_us)
        elif (kind := tree_of(place)) in self._speeds:
            end_us = (
                now_us + self._cold_us - (self._done() - self._memory.work) // self._speeds[kind]
            )
        else:
            return 0.0
        if deadline_us is not None and now_us < deadline_us:
            end_us = min(end_us, deadline_us)
        return (end_us - now_us) / US_PER_S

    # What else may be asked -------------------------------------------------------------------

    @property
    def done_share(self) -> float:
        return max(0, self._done()) / self._memory.work

    @property
    def done_us(self) -> int | None:
        """When it is done if its crew goes on; None if it has none."""
        memory = self._memory
        if not memory.crew:
            return None
        return memory.from_us - (memory.saved - memory.work) // self._pace_ppm()

    def needed_pace(self) -> float:
        """To be done in time; without a deadline, all that it can have."""
        memory, deadline_us = self._memory, self.spec.deadline_us
        left_us = (memory.work - self._done()) / PPM
        time_us = 0 if deadline_us is None else deadline_us - memory.now_us
        return needed_pace(left_us, time_us, self._speeds[self._kinds[0]] / PPM)

    # Its memory -------------------------------------------------------------------------------

    def state(self) -> bytes:
        return msgspec.json.encode(self._memory)

    def resume(self, state: bytes) -> None:
        try:
            past = msgspec.json.decode(state, type=_RigidMemory)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadRigid(f"this is not the state of a rigid job: {error}") from error
        if (
            (past.work, past.count) != (self._memory.work, self.spec.count)
            or not {*map(tree_of, past.nodes)} <= self._speeds.keys()
            or not {*past.crew} <= past.nodes.keys()
        ):
            raise BadRigid("this is the state of another job; resume it with the same make")
        self._memory = past

    # How it goes on ---------------------------------------------------------------------------

    def _domain(self, resource: str) -> str:
        return domain_of(resource, self.spec.within)

    def _muster(self) -> None:
        """If it waits and has enough nodes in a domain, they are its crew from now on."""
        memory = self._memory
        if memory.crew or memory.is_done:
            return
        domains: dict[str, list[str]] = {}
        for resource in memory.nodes:
            own = domains.setdefault(self._domain(resource), [])
            own.append(resource)
            if len(own) == self.spec.count:
                memory.crew = tuple(own)
                memory.from_us = memory.now_us + self._cold_us
                return

    def _finish(self) -> None:
        memory = self._memory
        memory.is_done = True
        memory.saved = memory.work
        memory.crew = ()

    def _pace_ppm(self) -> int:
        crew = self.crew
        return self._speeds[tree_of(crew[0])] if crew else 0

    def _pace(self) -> float:
        return self._pace_ppm() / PPM

    def _reckoned(self) -> int:
        memory = self._memory
        return memory.saved + self._pace_ppm() * max(0, memory.now_us - memory.from_us)

    def _done(self) -> int:
        """Not all, until a job that is measured says so."""
        memory = self._memory
        return min(self._reckoned(), memory.work - 1) if not memory.is_done else memory.work

    def _unsaved(self) -> int:
        since_us = max(0, self._memory.now_us - self._memory.from_us) % self._every_us
        return self._pace_ppm() * since_us

    def _part(self, kind: str) -> Worth:
        now, full = self.worth_of_all(kind)
        return Worth(now / self.spec.count, full / self.spec.count)

    def _worth(self, pace: float) -> Worth:
        if self.is_done or not pace:
            return NO_WORTH
        return Worth(useful_pace(pace, self.needed_pace()), pace)


def domain_of(path: str, within: int) -> str:
    """The scope over a path that has so many names."""
    return "/".join(path.split("/")[:within])
