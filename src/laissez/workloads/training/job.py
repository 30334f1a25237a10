"""A training job: elastic, with checkpoints and a deadline.

It runs on a crew, the nodes that its best plan used when it last configured itself. To change the
crew it has to configure itself anew, and meanwhile nothing runs:

- A node gained waits for the next checkpoint and is taken in then, together with all others that
  came meanwhile, if the job will be done earlier for it. It is taken in at once if nothing runs; a
  configuration that has only just begun starts over, so that nodes that come together start
  together.
- A node of the crew that is lost throws the job back to its last checkpoint; it configures itself
  at once for what is left. Other nodes come and go for nothing.

Work done is what the last checkpoint saved, plus the crew's speed times the time since then, so
it is the same however finely time passes.

Utility is pace: throughput in units of one node of the first kind alone, that is hours of work per
hour. The needed pace is the work left over the time left. Past the deadline, or where the job has
none, everything that it can use is needed. What of a pace counts, `laissez.workloads.pace` says.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import ceil
from typing import NamedTuple

import msgspec

from laissez.workloads.application import US_PER_S, Worth
from laissez.workloads.pace import useful_pace
from laissez.workloads.training.outlook import GROUPS, Outlook
from laissez.workloads.training.placement import spot_of
from laissez.workloads.training.planner import Plan, planner_of
from laissez.workloads.training.setup import Setup, TrainingError
from laissez.workloads.training.stock import Group

# A configuration starts over for nodes that come within this part of it.
SETTLING = 0.25
# So long a node that is of no use alone may wait for the others of its group.
PATIENCE_S = 120.0


class TrainingSpec(msgspec.Struct, frozen=True):
    """What is to be done. A reconfiguration takes 60 s for a small model to 240 s for a large."""

    samples: int
    setup: Setup = Setup()
    deadline_us: int | None = None
    nodes_max: int = 64
    checkpoint_every_s: float = 300.0
    reconfigure_s: float = 120.0

    def __post_init__(self) -> None:
        for name in ("samples", "nodes_max", "checkpoint_every_s", "reconfigure_s"):
            if getattr(self, name) <= 0:
                raise TrainingError(f"{name} is {getattr(self, name)}; it must be above 0")


class Role(NamedTuple):
    """What a node does: in which replica, in which stage, as which of its stage's GPUs."""

    replica: int
    stage: int
    rank: int


class _Memory(msgspec.Struct):
    now_us: int = 0
    # when each node was gained, in that order
    nodes: dict[str, int] = msgspec.field(default_factory=dict)
    # what it is configured for; the nodes in it are the crew
    plan: Plan = Plan()
    saved_samples: float = 0.0
    # since when the crew works on what is not saved yet; in the future while it is configured
    checkpoint_us: int = 0
    configuring_since_us: int = 0


class TrainingJob:
    def __init__(self, spec: TrainingSpec, at_us: int = 0) -> None:
        self.spec = spec
        self._planner = planner_of(spec.setup)
        self._memory = _Memory(now_us=at_us)
        self._every_us = round(spec.checkpoint_every_s * US_PER_S)
        self._configure_us = round(spec.reconfigure_s * US_PER_S)
        nowhere = Outlook(self._planner, (), spec.nodes_max)
        self._top_pace = nowhere.with_more(nowhere.near(spec.setup.kinds[0], spec.nodes_max))
        self._look()
        self._man(self._memory.plan)

    # What happens to it -----------------------------------------------------------------------

    def advance(self, at_us: int) -> None:
        memory = self._memory
        while self._crew:
            save_us = memory.checkpoint_us + self._every_us
            left = (self.spec.samples - memory.saved_samples) / memory.plan.samples_per_s
            done_us = memory.checkpoint_us + ceil(left * US_PER_S)
            if min(save_us, done_us) > at_us:
                break
            if done_us <= save_us:
                memory.saved_samples = float(self.spec.samples)
                memory.now_us = done_us
                self._man(Plan())
            else:
                memory.saved_samples += memory.plan.samples_per_s * self._every_us / US_PER_S
                memory.now_us = memory.checkpoint_us = save_us
                if self._is_changing:
                    self._configure()
        memory.now_us = max(memory.now_us, at_us)

    def gain(self, resource: str, at_us: int) -> None:
        self.advance(at_us)
        memory = self._memory
        if resource in memory.nodes:
            return
        memory.nodes[resource] = memory.now_us
        self._look()
        configured_us = memory.now_us - memory.configuring_since_us
        if not self._crew:
            self._configure()
        elif (
            memory.now_us < memory.checkpoint_us
            and configured_us <= SETTLING * self._configure_us
            and self._is_changing
        ):
            since_us = memory.configuring_since_us
            self._configure()
            memory.configuring_since_us = since_us

    def lose(self, resource: str, at_us: int) -> None:
        self.advance(at_us)
        memory = self._memory
        if memory.nodes.pop(resource, None) is None:
            return
        self._look()
        if resource in self._crew:
            self._configure()

    def measure(self, readings: Mapping[str, float], at_us: int) -> None:
        """`samples`: how many are done."""
        self.advance(at_us)
        if "samples" in readings:
            done = min(max(readings["samples"], 0.0), float(self.spec.samples))
            if done >= self.spec.samples:
                self._memory.saved_samples = done
                self._man(Plan())
            else:
                # What came since the checkpoint stays unsaved; the reading moves what is saved.
                saved = self._memory.saved_samples + done - self.samples_done
                self._memory.saved_samples = max(saved, 0.0)

    # The hooks --------------------------------------------------------------------------------

    @property
    def kinds(self) -> tuple[str, ...]:
        return self.spec.setup.kinds

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self._memory.nodes)

    @property
    def is_done(self) -> bool:
        return self._memory.saved_samples >= self.spec.samples

    @property
    def samples_done(self) -> float:
        """Up to now, saved or not."""
        memory = self._memory
        since_us = memory.now_us - memory.checkpoint_us
        if not self._crew or since_us <= 0:
            return memory.saved_samples
        return memory.saved_samples + memory.plan.samples_per_s * since_us / US_PER_S

    @property
    def pace(self) -> float:
        """With all its nodes, once it is configured for them."""
        return self._outlook.pace

    @property
    def needed_pace(self) -> float:
        """To be done in time, or as much of it as it can ever have."""
        if self.is_done:
            return 0.0
        deadline_us = self.spec.deadline_us
        if deadline_us is None or deadline_us <= self._memory.now_us:
            return self._top_pace
        left = self.spec.samples - self.samples_done
        seconds = (deadline_us - self._memory.now_us) / US_PER_S
        return min(left / seconds / self._planner.reference_samples_per_s, self._top_pace)

    @property
    def assignment(self) -> dict[str, Role]:
        """What each node does, now or from the next checkpoint on; other nodes do nothing."""
        return {
            node: Role(number, *divmod(index, replica.tensor_parallel))
            for number, replica in enumerate(
                (self._best if self._is_changing else self._memory.plan).replicas
            )
            for index, node in enumerate(replica.places)
        }

    def missing(self, kind: str) -> int:
        return 0 if self.is_done else self._outlook.needed(kind, self.needed_pace)

    def utility_gap(self) -> float:
        return max(0.0, self.needed_pace - self.pace)

    def worth_of_gaining(self, scope: str, coming: Sequence[str] = ()) -> Worth:
        before, after = self._outlook.gain(scope, tuple(coming))
        return self._worth(before, after)

    def worth_of_losing(self, resource: str, gone: Collection[str] = ()) -> Worth:
        before, after = self._outlook.loss(resource, gone)
        return self._worth(after, before)

    def is_redundant(self, resource: str) -> bool:
        if resource not in self._memory.nodes:
            return False
        if self.is_done:
            return True
        if resource in self._crew or (resource in self._best_crew and self._is_changing):
            return False
        return not self._waits_for_others(resource)

    def cold_start_s(self, place: str) -> float:
        memory = self._memory
        if place in self._crew:
            return max(0, memory.checkpoint_us - memory.now_us) / US_PER_S
        if place in memory.nodes and self._crew:
            wait_us = memory.checkpoint_us + self._every_us - memory.now_us
            return wait_us / US_PER_S + self.spec.reconfigure_s
        return self.spec.reconfigure_s

    def since_checkpoint_s(self, resource: str) -> float:
        if resource not in self._crew:
            return 0.0
        return max(0, self._memory.now_us - self._memory.checkpoint_us) / US_PER_S

    def till_checkpoint_s(self, resource: str) -> float | None:
        since_s = self.since_checkpoint_s(resource)
        return self.spec.checkpoint_every_s - since_s if since_s else 0.0

    # Its memory -------------------------------------------------------------------------------

    def state(self) -> bytes:
        return msgspec.json.encode(self._memory)

    def resume(self, state: bytes) -> None:
        self._memory = msgspec.json.decode(state, type=_Memory)
        self._look()
        self._man(self._memory.plan)

    # ------------------------------------------------------------------------------------------

    @property
    def _is_changing(self) -> bool:
        """It will be done earlier if it configures itself for its best plan."""
        now, best = self._memory.plan, self._best
        if self.is_done or not best.replicas:
            return False
        if not now.replicas:
            return True
        left = self.spec.samples - self.samples_done
        configured_s = max(0, self._memory.checkpoint_us - self._memory.now_us) / US_PER_S
        return (
            left / best.samples_per_s + self.spec.reconfigure_s
            < left / now.samples_per_s + configured_s
        )

    def _look(self) -> None:
        """Its nodes are others than before."""
        self._outlook = Outlook(self._planner, self.nodes, self.spec.nodes_max)
        self._best = self._planner.plan(tuple(Group(node) for node in self.nodes))
        self._best_crew = _crew(self._best)

    def _man(self, plan: Plan) -> None:
        self._memory.plan = plan
        self._crew = _crew(plan)

    def _configure(self) -> None:
        """From now on for its best plan. What is not saved is lost."""
        if self.is_done:
            return
        memory = self._memory
        self._man(self._best)
        memory.configuring_since_us = memory.now_us
        memory.checkpoint_us = memory.now_us + self._configure_us

    def _waits_for_others(self, resource: str) -> bool:
        """It is of no use, but soon will be with others of its place, and they are wanted."""
        waited_us = self._memory.now_us - self._memory.nodes[resource]
        if waited_us > PATIENCE_S * US_PER_S or not self.utility_gap():
            return False
        spot = spot_of(resource, self.spec.setup.levels)
        beside = spot.domain or spot.rack or spot.kind
        room = self.spec.nodes_max - len(self._memory.nodes)
        return any(
            self._outlook.with_more((beside,) * more) > self.pace for more in GROUPS if more <= room
        )

    def _worth(self, less: float, more: float) -> Worth:
        if self.is_done or more <= less:
            return Worth(0.0, 0.0)
        needed = self.needed_pace
        return Worth(useful_pace(more, needed) - useful_pace(less, needed), more - less)


def _crew(plan: Plan) -> frozenset[str]:
    return frozenset(use.place for use in plan.uses)
