"""A training job: elastic, with checkpoints and a deadline.

It runs on a crew, the nodes that its best plan used when it last configured itself. To change the
crew it has to configure itself anew, and meanwhile nothing runs:

- A node gained waits for the next look around, every five minutes and at every checkpoint. If the
  job will be done earlier for it, it saves and takes it in then, together with all others that came
  meanwhile. It is taken in at once if nothing runs; a configuration that has only just begun starts
  over, so that nodes that come together start together.
- A node of the crew that is lost throws the job back to its last checkpoint; it configures itself
  at once for what is left. Other nodes come and go for nothing.
- A node of no use alone may wait for others of its kind. If none comes for two minutes, the kind
  is in doubt: for a while it counts only for what a node of it does alone, and what waits is
  redundant. Every time the doubt lasts twice as long, until one of the kind is taken in.

- Told that it will lose one of the crew, it saves beside the work, which takes a while (`save_s`).
  When that is over, what was done when it began is saved.

Work done is what the last checkpoint saved, plus the crew's speed times the time since then, so
it is the same however finely time passes. A job that reports its samples is believed: it goes on
from there in this reckoning, and is done when it says so, not before.

Utility is pace: throughput in units of one node of the first kind alone, that is hours of work per
hour. What of a pace counts, `laissez.performance.pace` says; without a deadline everything that it
can use is needed. What a node changes in it, `laissez.performance.training.outlook` says.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from laissez.model.paths import tree_of
from laissez.performance.application import NO_WORTH, US_PER_S, Worth
from laissez.performance.pace import needed_pace, useful_pace
from laissez.performance.training.outlook import Footing, Outlook
from laissez.performance.training.paces import Paces
from laissez.performance.training.planner import TrainingPlan, planner_of
from laissez.performance.training.setup import Setup, TrainingError
from laissez.performance.training.stock import GpuGroup

# A configuration starts over for nodes that come within this part of it.
SETTLING = 0.25
# So often a crew that works looks whether it should take others in, and saves before it does.
LOOK_EVERY_US = 300 * US_PER_S
# So long nodes that are of no use alone wait for others of their kind; so long the first doubt.
PATIENCE_US = 120 * US_PER_S
# So long it takes to save 32 GB, weights and optimizer of a model of 2.7 B, at about 1 GB/s.
SAVE_S = 30.0


class TrainingSpec(msgspec.Struct, frozen=True):
    """What is to be done. A reconfiguration takes 60 s for a small model to 240 s for a large."""

    samples: int
    setup: Setup = Setup()
    deadline_us: int | None = None
    nodes_max: int = 64
    checkpoint_every_s: float = 300.0
    reconfigure_s: float = 120.0
    save_s: float = SAVE_S

    def __post_init__(self) -> None:
        if not 0 <= self.save_s < math.inf:
            raise TrainingError(f"save_s is {self.save_s}; it must be 0 or more, and finite")
        for name in ("samples", "nodes_max", "checkpoint_every_s", "reconfigure_s"):
            if not 0 < getattr(self, name) < math.inf:
                raise TrainingError(
                    f"{name} is {getattr(self, name)}; it must be above 0, and finite"
                )


class ReplicaRole(NamedTuple):
    """What a node does: in which replica, in which stage, as which of its stage's GPUs."""

    replica: int
    stage: int
    rank: int


class _Doubt(msgspec.Struct, frozen=True):
    """So long, until this instant, a kind is not trusted to come in groups."""

    until_us: int
    lasts_us: int


class _Memory(msgspec.Struct, forbid_unknown_fields=True):
    # of which job
    model: str
    samples: int
    now_us: int
    # when each node was gained, in that order
    nodes: dict[str, int] = {}
    # what it is configured for; the nodes in it are the crew
    plan: TrainingPlan = TrainingPlan()
    # below 0 if a report says that less was done than since the checkpoint
    saved_samples: float = 0.0
    # since when the crew works on what is not saved yet; in the future while it is configured
    checkpoint_us: int = 0
    configuring_since_us: int = 0
    doubts: dict[str, _Doubt] = {}
    # since when it saves because nodes will be lost, and for which nodes: what is done by then
    saving_since_us: int | None = None
    vacating_us: dict[str, int] = {}
    is_measured: bool = False
    is_done: bool = False


class TrainingJob:
    def __init__(self, spec: TrainingSpec, at_us: int = 0) -> None:
        self.spec = spec
        self._kinds = spec.setup.kinds
        self._planner = planner_of(spec.setup)
        self._memory = _Memory(spec.setup.model, spec.samples, at_us)
        self._every_us = round(spec.checkpoint_every_s * US_PER_S)
        self._look_us = min(self._every_us, LOOK_EVERY_US)
        self._configure_us = round(spec.reconfigure_s * US_PER_S)
        self._save_us = round(spec.save_s * US_PER_S)
        nowhere = Paces(self._planner, ())
        self._top_pace = max(
            nowhere.pace(coming=nowhere.new_places(kind, spec.nodes_max)) for kind in self._kinds
        )
        self._crew = _crew(self._memory.plan)
        self._take_stock()

    # What happens to it -----------------------------------------------------------------------

    def advance(self, at_us: int) -> None:
        self._live_until(at_us)
        self._find_footing()

    def gain(self, resource: str, at_us: int) -> None:
        self._live_until(at_us)
        memory = self._memory
        if resource not in memory.nodes and tree_of(resource) in self.kinds:
            memory.nodes[resource] = memory.now_us
            self._take_stock()
            if self._is_changing and (self._is_settling or not self._crew):
                since_us = memory.configuring_since_us if self._crew else memory.now_us
                self._configure()
                memory.configuring_since_us = since_us
        self._go_on()

    def lose(self, resource: str, at_us: int) -> None:
        self._live_until(at_us)
        if self._memory.nodes.pop(resource, None) is not None:
            self._memory.vacating_us.pop(resource, None)
            self._take_stock()
            if resource in self._crew:
                self._configure()
        self._go_on()

    def vacate(self, resource: str, at_us: int) -> None:
        self._live_until(at_us)
        memory = self._memory
        if resource in memory.nodes and resource not in memory.vacating_us:
            since_us = memory.now_us if memory.saving_since_us is None else memory.saving_since_us
            memory.vacating_us[resource] = since_us
            if self.since_checkpoint_s(resource):
                memory.saving_since_us = since_us
        self._go_on()

    def stay(self, resource: str, at_us: int) -> None:
        self._live_until(at_us)
        self._memory.vacating_us.pop(resource, None)
        self._go_on()

    def measure(self, readings: Mapping[str, float], at_us: int) -> None:
        """`samples`: how many are done."""
        done = readings.get("samples")
        if done is not None and not 0 <= done < math.inf:
            raise TrainingError(f"{done} samples cannot be done; report 0 or more")
        self._live_until(at_us)
        if done is not None:
            memory = self._memory
            memory.is_measured = True
            memory.is_done = done >= self.spec.samples
            if memory.is_done:
                self._stop()
            else:
                # What came since the checkpoint stays unsaved; the reading moves what is saved.
                memory.saved_samples += done - self._reckoned()
                if self._best.replicas and not self._crew:
                    self._configure()
        self._go_on()

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

    @property
    def deadline_us(self) -> int | None:
        return self.spec.deadline_us

    @property
    def samples_done(self) -> float:
        """Up to now, saved or not."""
        return min(self._reckoned(), self._most)

    @property
    def done_us(self) -> int | None:
        """When it will be done if its crew goes on; None if nobody can say."""
        at_us = self._done_us()
        return None if at_us == math.inf else int(at_us)

    @property
    def pace(self) -> float:
        """With all the nodes that it will use, once it is configured for them."""
        return self._outlook.pace

    @property
    def needed_pace(self) -> float:
        """To be done in time, or as much of it as it can ever have."""
        return self._needed

    @property
    def assignment(self) -> dict[str, ReplicaRole]:
        """What each node does, now or once it has been configured anew; others do nothing."""
        return {
            node: ReplicaRole(number, *divmod(index, replica.tensor_parallel))
            for number, replica in enumerate(
                (self._best if self._is_changing else self._memory.plan).replicas
            )
            for index, node in enumerate(replica.places)
        }

    def missing(self, kind: str) -> int:
        if self.is_done or kind not in self.kinds:
            return 0
        return self._outlook.needed(kind, self.needed_pace)

    def utility_gap(self) -> float:
        return max(0.0, self.needed_pace - self.pace)

    def worth_of_gaining(self, scope: str, coming: Sequence[str] = ()) -> Worth:
        return self._worth(*self._outlook.gain(scope, tuple(coming)))

    def worth_of_losing(self, resource: str, gone: Collection[str] = ()) -> Worth:
        return self._worth(*self._outlook.loss(resource, frozenset(gone)))

    @property
    def crew(self) -> frozenset[str]:
        """The nodes that it is configured for."""
        return self._crew

    @property
    def worth_of_crew(self) -> Worth:
        """What is lost if all of the crew is."""
        return self._worth(0.0, self._memory.plan.pace)

    def is_redundant(self, resource: str) -> bool:
        """What does not work, nor will once it is taken in, and is worth nothing."""
        if self.is_done or resource not in self._memory.nodes:
            return True
        return resource in self._outlook.redundant

    def cold_start_s(self, place: str) -> float:
        memory = self._memory
        if place in self._crew:
            return max(0, memory.checkpoint_us - memory.now_us) / US_PER_S
        if place in memory.nodes and self._crew:
            return self._works_after_look_s()
        return self.spec.reconfigure_s

    @property
    def joins_in_s(self) -> float:
        """How long it takes until a node that comes now works: a crew that works goes on until it
        looks around."""
        if not self._crew or self._is_settling:
            return self.spec.reconfigure_s
        return self._works_after_look_s()

    def at_stake(self, resource: str) -> float:
        """If one of the crew is gone, all have to be configured anew."""
        return self._memory.plan.pace if resource in self._crew else 0.0

    def since_checkpoint_s(self, resource: str) -> float:
        if resource not in self._crew:
            return 0.0
        return max(0, self._memory.now_us - self._memory.checkpoint_us) / US_PER_S

    def till_checkpoint_s(self, resource: str) -> float | None:
        if not self.since_checkpoint_s(resource):
            return 0.0
        memory = self._memory
        saves_us = self._next_look_us() if self._is_changing else self._saves_us()
        return (saves_us - memory.now_us) / US_PER_S

    @property
    def vacating(self) -> Collection[str]:
        return self._memory.vacating_us.keys()

    def vacate_s(self, resource: str) -> float | None:
        """Until it has saved, because it was asked to or because it does anyway, or is done."""
        memory = self._memory
        begins_us = memory.now_us if memory.saving_since_us is None else memory.saving_since_us
        since_us = memory.vacating_us.get(resource, begins_us)
        if not self.since_checkpoint_s(resource) or memory.checkpoint_us >= since_us:
            return 0.0
        done_us = math.inf if memory.is_measured else self._done_us()
        ready_us = min(since_us + self._save_us, self._saves_us(), done_us)
        return max(0.0, ready_us - memory.now_us) / US_PER_S

    def ends_in_s(self, place: str) -> float | None:
        """Until it is done with its crew; of nodes to come, until its deadline."""
        now_us, deadline_us = self._memory.now_us, self.spec.deadline_us
        end_us = self._done_us() if place in self._crew else math.inf
        if deadline_us is not None and now_us < deadline_us:
            end_us = min(end_us, deadline_us)
        return None if end_us == math.inf else max(0.0, end_us - now_us) / US_PER_S

    # Its memory -------------------------------------------------------------------------------

    def state(self) -> bytes:
        return msgspec.json.encode(self._memory)

    def resume(self, state: bytes) -> None:
        try:
            past = msgspec.json.decode(state, type=_Memory)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TrainingError(f"this is not the state of a training job: {error}") from error
        ours = (self.spec.setup.model, self.spec.samples)
        crew = _crew(past.plan)
        if (
            (past.model, past.samples) != ours
            or not {*map(tree_of, past.nodes)} <= {*self.kinds}
            or not crew <= past.nodes.keys()
        ):
            raise TrainingError("this is the state of another job; resume it with the same make")
        self._memory = past
        self._crew = crew
        self._take_stock()

    # How it goes on ---------------------------------------------------------------------------

    @property
    def _most(self) -> float:
        """As many samples as may be done: not all, until a job that is measured says so."""
        memory = self._memory
        return self.spec.samples - float(memory.is_measured and not memory.is_done)

    def _reckoned(self) -> float:
        memory = self._memory
        since_us = memory.now_us - memory.checkpoint_us
        if not self._crew or since_us <= 0:
            return memory.saved_samples
        return memory.saved_samples + memory.plan.samples_per_s * since_us / US_PER_S

    def _saves_us(self) -> int:
        """When it saves, whether anybody is to be taken in or not."""
        return self._memory.checkpoint_us + self._every_us

    def _next_look_us(self) -> int:
        """When its crew looks around next, at the latest when it saves anyway."""
        memory = self._memory
        looks = max(0, memory.now_us - memory.checkpoint_us) // self._look_us
        return min(memory.checkpoint_us + (looks + 1) * self._look_us, self._saves_us())

    def _works_after_look_s(self) -> float:
        """How long it takes until a node works that is taken in at the next look."""
        wait_us = self._next_look_us() - self._memory.now_us
        return wait_us / US_PER_S + self.spec.reconfigure_s

    def _done_next(self) -> float:
        """How many samples are done when its crew looks around next."""
        memory = self._memory
        works_us = self._next_look_us() - memory.checkpoint_us
        reached = memory.saved_samples + memory.plan.samples_per_s * works_us / US_PER_S
        return min(reached, self._most)

    def _left_s(self, samples_done: float) -> float:
        """How long what is left takes at a pace of 1."""
        left = self.spec.samples - samples_done
        return max(0.0, left) / self._planner.reference_samples_per_s

    def _live_until(self, at_us: int) -> None:
        """All that happens by itself until then, in its order. Time doesn't go back."""
        memory = self._memory
        while not self.is_done:
            in_doubt_us, kind = self._next_doubt()
            look_us = self._next_look_us() if self._crew else math.inf
            done_us = math.inf if memory.is_measured else self._done_us()
            saved_us = self._saved_us()
            if min(look_us, done_us, in_doubt_us, saved_us) > at_us:
                break
            if done_us <= min(look_us, in_doubt_us, saved_us):
                memory.now_us = int(done_us)
                memory.is_done = True
                self._stop()
            elif saved_us <= min(look_us, in_doubt_us):
                self._end_saving(int(saved_us))
            elif look_us <= in_doubt_us:
                self._look_around()
            else:
                memory.now_us = max(memory.now_us, int(in_doubt_us))
                last = memory.doubts.get(kind)
                lasts_us = 2 * last.lasts_us if last else PATIENCE_US
                memory.doubts[kind] = _Doubt(memory.now_us + lasts_us, lasts_us)
            self._find_footing()
        memory.now_us = max(memory.now_us, at_us)

    def _go_on(self) -> None:
        """After something has happened to it."""
        self._find_footing()
        self._live_until(self._memory.now_us)

    def _done_us(self) -> float:
        """When it will be done if its crew goes on: any moment, if it should be and is measured."""
        memory = self._memory
        if not self._crew:
            return math.inf
        left_s = (self.spec.samples - memory.saved_samples) / memory.plan.samples_per_s
        done_us = memory.checkpoint_us + math.ceil(left_s * US_PER_S)
        return max(done_us, memory.now_us) if memory.is_measured else done_us

    def _next_doubt(self) -> tuple[float, str]:
        """When patience with a kind ends of which nodes wait for others: counted from the last of
        them that came, or from the last configuration, which left them out."""
        memory, at_work = self._memory, self._outlook.footing.at_work
        if len(at_work) == len(memory.nodes):
            return math.inf, ""
        ends_us: dict[str, int] = {}
        for node, gained_us in memory.nodes.items():
            if node not in at_work:
                kind = tree_of(node)
                doubt = memory.doubts.get(kind)
                since_us = max(gained_us, memory.configuring_since_us)
                ends_us[kind] = max(since_us + PATIENCE_US, doubt.until_us if doubt else 0)
        return min((at_us, kind) for kind, at_us in ends_us.items())

    def _saved_us(self) -> float:
        """When what it saves for nodes that will be lost is saved."""
        since_us = self._memory.saving_since_us
        return math.inf if since_us is None else since_us + self._save_us

    def _end_saving(self, at_us: int) -> None:
        """What was done when it began to save is saved; it went on meanwhile."""
        memory = self._memory
        since_us, memory.saving_since_us = memory.saving_since_us, None
        memory.now_us = max(memory.now_us, at_us)
        if since_us is not None and self._crew and since_us > memory.checkpoint_us:
            worked_s = (since_us - memory.checkpoint_us) / US_PER_S
            saved = memory.saved_samples + memory.plan.samples_per_s * worked_s
            memory.saved_samples = min(saved, self._most)
            memory.checkpoint_us = since_us

    def _look_around(self) -> None:
        """At its next look: to save if it is time to, or if it is to be configured anew."""
        memory = self._memory
        done, memory.now_us = self._done_next(), self._next_look_us()
        is_changing = self._best.pace > self._least_pace(done)
        if is_changing or memory.now_us == self._saves_us():
            memory.saved_samples = done
            memory.checkpoint_us = memory.now_us
        if is_changing:
            self._configure()

    def _stop(self) -> None:
        self._memory.saved_samples = float(self.spec.samples)
        self._follow(TrainingPlan())

    def _follow(self, plan: TrainingPlan) -> None:
        self._memory.plan = plan
        self._crew = _crew(plan)

    def _configure(self) -> None:
        """From now on for its best plan. What is not saved is lost."""
        memory, before = self._memory, self._crew
        self._follow(self._best)
        for node in self._crew - before:
            memory.doubts.pop(tree_of(node), None)
        memory.saved_samples = max(0.0, memory.saved_samples)
        memory.saving_since_us = None
        memory.configuring_since_us = memory.now_us
        memory.checkpoint_us = memory.now_us + self._configure_us

    # What it looks ahead from -----------------------------------------------------------------

    @property
    def _is_settling(self) -> bool:
        """It is being configured, and has only just begun."""
        memory = self._memory
        begun_us = memory.now_us - memory.configuring_since_us
        return memory.now_us < memory.checkpoint_us and begun_us <= SETTLING * self._configure_us

    def _least_pace(self, samples_done: float, configured_s: float = 0.0) -> float:
        """Above which it is done earlier if it configures itself when so much is done, if without
        that its crew would work after so many seconds."""
        now = self._memory.plan.pace
        if not now:
            return 0.0
        left_s = self._left_s(samples_done)
        at_work_s = left_s / now + configured_s - self.spec.reconfigure_s
        return max(now, left_s / at_work_s) if at_work_s > 0 else math.inf

    @property
    def _is_changing(self) -> bool:
        """It will configure itself for its best plan, when it looks around or at once."""
        return not self.is_done and self._best.pace > self._outlook.footing.above

    def _take_stock(self) -> None:
        """Its nodes are others than before."""
        self._paces = Paces(self._planner, self.nodes)
        self._best = self._planner.plan(tuple(GpuGroup(node) for node in self.nodes))
        self._outlook = Outlook(self._paces, self.spec.nodes_max, Footing())
        self._find_footing()

    def _find_footing(self) -> None:
        """It has moved on: what pace is needed, which counts, and which kinds are in doubt?"""
        memory = self._memory
        if self._is_settling:
            configured_s = (memory.checkpoint_us - memory.now_us) / US_PER_S
            above = self._least_pace(memory.saved_samples, configured_s)
        else:
            above = self._least_pace(self._done_next())
        at_work = self._crew | _crew(self._best) if self._best.pace > above else self._crew
        doubted = frozenset(
            kind for kind, doubt in memory.doubts.items() if memory.now_us < doubt.until_us
        )
        deadline_us = self.spec.deadline_us
        time_s = 0 if deadline_us is None else (deadline_us - memory.now_us) / US_PER_S
        self._needed = needed_pace(self._left_s(self.samples_done), time_s, self._top_pace)
        footing = Footing(self._crew, memory.plan.pace, above, at_work, doubted)
        if footing != self._outlook.footing:
            self._outlook = Outlook(self._paces, self.spec.nodes_max, footing)

    def _worth(self, lower: float, upper: float) -> Worth:
        if self.is_done or upper <= lower:
            return NO_WORTH
        needed = self._needed
        return Worth(useful_pace(upper, needed) - useful_pace(lower, needed), upper - lower)


def _crew(plan: TrainingPlan) -> frozenset[str]:
    return frozenset(use.place for use in plan.uses)
