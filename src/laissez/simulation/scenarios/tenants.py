"""The tenants of a scenario: what its file may say of each kind, and the projects made of it.

Times are counted from the tenant's arrival, so that copies that arrive at different instants are
alike otherwise: `lasts` for a service, `deadline` for a job. What is not said has the figures of
the population of our own study, where the trees have its names.

Whatever can't be built is a `BadField` with its place in the tenant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, ClassVar, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from laissez.adapters.pricing import Pricing
from laissez.documents import BadField, Dollars, Duration, Share, duration
from laissez.performance.application import US_PER_S
from laissez.performance.batch import Work
from laissez.performance.inference import (
    Hardware,
    InferenceSpec,
    Load,
    Objective,
    preset,
    profile,
    profiled,
)
from laissez.performance.inference.capacity import NodeRates, node_rates
from laissez.performance.rigid import RigidSpec
from laissez.performance.training import Setup, TrainingSpec
from laissez.performance.training.planner import planner_of
from laissez.simulation.demand import population
from laissez.simulation.demand.projects import (
    US_PER_HOUR,
    Batch,
    Project,
    Rigid,
    Serving,
    Training,
)
from laissez.simulation.demand.requests import Requests
from laissez.simulation.kernel.streams import stream
from laissez.simulation.scenarios.loads import LoadSpec, Positive

COPIES_MAX = 1_000
SAMPLES_MAX = 10**15
BATCH_MAX = 1 << 20

Count = Annotated[int, Meta(ge=1, le=SAMPLES_MAX)]
Span = Annotated[Duration, Meta(gt=0)]
Minutes = Annotated[int, duration("m"), Meta(gt=0)]

Value = TypeVar("Value")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_UTILISATION = population.UTILISATION


class PolicySpec(msgspec.Struct, frozen=True, kw_only=True):
    """How value becomes price, for one kind of tenant; what is left out is as usual."""

    horizon: Span | None = None
    hysteresis: Share | None = None

    def over(self, usual: Pricing) -> Pricing:
        return usual.changed(self.horizon, self.hysteresis)


class Surroundings(msgspec.Struct, frozen=True):
    """Where tenants come to: the trees with their sizes, and the levels above a node in each."""

    sizes: Mapping[str, int]
    levels: Mapping[str, tuple[str, ...]]
    duration_us: int
    folder: Path
    policies: Mapping[str, PolicySpec]
    largest_domains: Mapping[str, tuple[int, ...]]
    """By tree, how many nodes the largest domain has whose path has one name, two, and so on."""


class Coming(msgspec.Struct, frozen=True):
    """One copy of a tenant: its name, its time, and its chance."""

    name: str
    arrives_us: int
    ends_us: int
    seed: int
    requests: Requests

    @property
    def life_us(self) -> int:
        return self.ends_us - self.arrives_us


class _Tenant(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    nodes_field: ClassVar[str]
    """Which field says what a node of each tree is."""

    name: str
    arrives: Duration = 0
    jitter: Duration = 0
    count: Annotated[int, Meta(ge=1, le=COPIES_MAX)] = 1
    budget: Annotated[Dollars, Meta(gt=0)] | None = None
    preemptible: bool | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadField("name", f"{self.name!r} is no name; take letters, digits, - and _")

    @property
    def names(self) -> tuple[str, ...]:
        if self.count == 1:
            return (self.name,)
        return tuple(f"{self.name}-{copy}" for copy in range(1, self.count + 1))

    def projects(self, seed: int, around: Surroundings, requests: Requests) -> Iterator[Project]:
        """All copies; each draws its arrival and its load from streams of its own."""
        life_us = self._life_us(around)
        for name in self.names:
            late_us = stream(seed, "arrival", name).randrange(self.jitter + 1)
            arrives_us = self.arrives + late_us
            coming = Coming(name, arrives_us, arrives_us + life_us, seed, requests)
            labour = self.labour(coming, around)
            if self.preemptible is not None:
                # Who may be preempted preempts nobody, or two would take turns for ever.
                may_preempt = labour.may_preempt and not self.preemptible
                labour = replace(labour, is_preemptible=self.preemptible, may_preempt=may_preempt)
            policy = around.policies.get(str(self.__struct_config__.tag))
            if policy is not None:
                labour = replace(labour, pricing=policy.over(labour.pricing))
            yield Project(name, arrives_us, coming.ends_us, labour, tuple(self.kinds(around)))

    def kinds(self, around: Surroundings) -> Mapping[str, object]:
        """By tree, what it says of the nodes that it can use; the best first."""
        raise NotImplementedError

    def gpus_per_node(self, around: Surroundings) -> Mapping[str, int]:
        """By tree, as how many GPUs it counts a node; nothing if it knows only how fast one is."""
        return {}

    def labour(self, coming: Coming, around: Surroundings) -> Serving | Training | Batch | Rigid:
        raise NotImplementedError

    def _life_us(self, around: Surroundings) -> int:
        """From its arrival to its end: as said, or up to the end of the scenario."""
        field = "lasts" if isinstance(self, InferenceTenant) else "deadline"
        left_us = around.duration_us - self.arrives - self.jitter
        if left_us <= 0:
            blamed = "arrives" if self.arrives else "jitter"
            raise BadField(blamed, "it may arrive after the end; make the scenario longer")
        said_us: int | None = getattr(self, field)
        if said_us is not None and said_us > left_us:
            raise BadField(
                field, "it ends after the scenario, counted from its arrival; move one of them"
            )
        return left_us if said_us is None else said_us


class InferenceTenant(_Tenant, frozen=True, kw_only=True, tag="inference"):
    """`nodes` says what a node of each tree is: a GPU, or how many of which in one."""

    nodes_field: ClassVar[str] = "nodes"

    model: str = "Llama-3.1-8B"
    nodes: Annotated[dict[str, Hardware | str], Meta(min_length=1)] | None = None
    objective: Objective | str = "planner-default"
    load: LoadSpec
    lasts: Minutes | None = None
    cold_start: Duration = 60 * US_PER_S

    def kinds(self, around: Surroundings) -> dict[str, Hardware]:
        usual = {**population.HARDWARE, **_by_name(around.sizes)}
        said = _in_cluster("nodes", self.nodes, usual, around, example="h100_sxm")
        return {
            tree: Hardware(node) if isinstance(node, str) else node for tree, node in said.items()
        }

    def gpus_per_node(self, around: Surroundings) -> Mapping[str, int]:
        return {tree: node.gpus for tree, node in self.kinds(around).items()}

    def labour(self, coming: Coming, around: Surroundings) -> Serving:
        kinds = self.kinds(around)
        with blaming("objective"):
            said = self.objective
            objective = preset(said) if isinstance(said, str) else said
        is_known = any(model == self.model for model, _ in profiled())
        for tree, node in kinds.items():
            with blaming(("nodes", tree) if is_known else "model"):
                profile(self.model, node.gpu, node.gpus)
        first = next(iter(kinds))
        with _within("load"):
            trace, mean = self.load.trace(
                coming.arrives_us,
                coming.life_us,
                one_node_per_s=lambda load: (
                    _UTILISATION * self._served_per_s(first, kinds, load, objective)
                ),
                requests=coming.requests,
                chance=stream(coming.seed, "load", coming.name),
                folder=around.folder,
            )
        self._check_keepable(kinds, mean, objective)
        spec = InferenceSpec(
            model=self.model,
            kinds=kinds,
            objective=objective,
            expected=mean,
            cold_start_s=self.cold_start / US_PER_S,
            utilisation=_UTILISATION,
        )
        return Serving(spec, trace)

    def _rates(self, node: Hardware, load: Load, objective: Objective) -> NodeRates:
        return node_rates(profile(self.model, node.gpu, node.gpus), load, objective)

    def _served_per_s(
        self, tree: str, kinds: Mapping[str, Hardware], load: Load, objective: Objective
    ) -> float:
        per_s = self._rates(kinds[tree], load, objective).requests_per_s
        if not per_s:
            raise BadField(
                "nodes",
                f"a node of {tree} alone can't keep the objective, so a load can't be counted in "
                "such nodes; take another objective, or say requests_per_s",
            )
        return per_s

    def _check_keepable(
        self, kinds: Mapping[str, Hardware], load: Load, objective: Objective
    ) -> None:
        rates = [self._rates(node, load, objective) for node in kinds.values()]
        if not any(each.prefills_per_s for each in rates):
            late = f"no node has the first token within {objective.ttft_ms:g} ms"
        elif not any(each.decodes_per_s for each in rates):
            late = f"no node has a token every {objective.itl_ms:g} ms"
        else:
            return
        raise BadField(
            "objective",
            f"with prompts of {load.prompt_tokens:.0f} tokens {late}; take a wider objective, a "
            "smaller model or larger nodes",
        )


class TrainingTenant(_Tenant, frozen=True, kw_only=True, tag="training"):
    """`samples` are those of an epoch; `nodes` instead says how many nodes of the first kind it
    needs on average to be in time."""

    nodes_field: ClassVar[str] = "gpus"

    model: str = "OPT-350"
    gpus: Annotated[dict[str, str], Meta(min_length=1)] | None = None
    samples: Count | None = None
    nodes: Annotated[float, Meta(gt=0, le=100_000)] | None = None
    epochs: Annotated[int, Meta(ge=1, le=1_000_000)] = 1
    deadline: Minutes | None = None
    global_batch: Annotated[int, Meta(ge=1, le=BATCH_MAX)] | None = None
    nodes_max: Annotated[int, Meta(ge=1, le=10_000)] = 16
    checkpoint_every: Span = 300 * US_PER_S
    reconfigure: Span = 120 * US_PER_S

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples is not None and self.nodes is not None:
            raise BadField("nodes", "say 'samples' or 'nodes', not both: each says how much work")
        if self.samples is None and self.nodes is None:
            raise ValueError("how much is there to train? add 'samples', or 'nodes'")
        if self.nodes is not None and self.nodes > self.nodes_max:
            raise BadField(
                "nodes",
                f"it needs {self.nodes:g} on average, and may have {self.nodes_max} at most; write "
                "a larger nodes_max, or fewer nodes",
            )

    def kinds(self, around: Surroundings) -> dict[str, str]:
        return _in_cluster("gpus", self.gpus, dict(population.GPUS), around, example="H100")

    def gpus_per_node(self, around: Surroundings) -> Mapping[str, int]:
        return dict.fromkeys(self.kinds(around), 1)

    def labour(self, coming: Coming, around: Surroundings) -> Training:
        setup = self._setup(around)
        size = sum(around.sizes[tree] for tree in setup.kinds)
        with blaming("samples" if self.nodes is None else "nodes"):
            spec = TrainingSpec(
                self._samples(setup, coming.life_us),
                setup,
                coming.ends_us,
                nodes_max=min(self.nodes_max, size),
                checkpoint_every_s=self.checkpoint_every / US_PER_S,
                reconfigure_s=self.reconfigure / US_PER_S,
            )
        return Training(spec)

    def _setup(self, around: Surroundings) -> Setup:
        gpus = self.kinds(around)
        levels = around.levels[next(iter(gpus))]
        for tree in gpus:
            if around.levels[tree] != levels:
                raise BadField(
                    ("gpus", tree),
                    f"{tree} has other levels than {next(iter(gpus))}, and a job reads distances "
                    "off one set of them; describe both alike, or name one tree",
                )
        with blaming("model"):
            Setup(self.model)
        for tree, gpu in gpus.items():
            with blaming(("gpus", tree)):
                Setup(gpus=((tree, gpu),))
        with blaming("gpus"):
            setup = Setup(self.model, tuple(gpus.items()), levels, self.global_batch)
            if not planner_of(setup).reference_samples_per_s:
                raise ValueError(f"{self.model} does not fit on these; take larger GPUs")
        return setup

    def _samples(self, setup: Setup, life_us: int) -> int:
        if self.samples is not None:
            return self.epochs * self.samples
        assert self.nodes is not None
        work_s = self.nodes * (life_us - self.reconfigure) / US_PER_S
        if work_s <= 0:
            raise BadField("reconfigure", "this takes all the time that there is; shorten it")
        return round(work_s * planner_of(setup).reference_samples_per_s)


class BatchTenant(_Tenant, frozen=True, kw_only=True, tag="batch"):
    """`work` is the time on a node of the first kind in `speeds`."""

    nodes_field: ClassVar[str] = "speeds"

    work: Minutes
    speeds: Annotated[dict[str, Positive], Meta(min_length=1)] | None = None
    deadline: Minutes | None = None
    cold_start: Duration = 480 * US_PER_S
    checkpoint_every: Span = 600 * US_PER_S

    def kinds(self, around: Surroundings) -> dict[str, float]:
        return _in_cluster("speeds", self.speeds, population.SPEEDS, around, example="1.0")

    def labour(self, coming: Coming, around: Surroundings) -> Batch:
        return Batch(
            self.work / US_PER_HOUR,
            self.kinds(around),
            coming.ends_us,
            self.cold_start / US_PER_S,
            self.checkpoint_every / US_PER_S,
        )


class RigidTenant(_Tenant, frozen=True, kw_only=True, tag="rigid"):
    """`nodes` all at once, in one domain of the level `within`, or anywhere in a tree; `work` is
    the time on all of them, of the first kind in `speeds`."""

    nodes_field: ClassVar[str] = "speeds"

    nodes: Annotated[int, Meta(ge=1, le=10_000)]
    within: str | None = None
    work: Minutes
    speeds: Annotated[dict[str, Positive], Meta(min_length=1)] | None = None
    deadline: Minutes | None = None
    patience: Minutes | None = None
    cold_start: Duration = 120 * US_PER_S
    checkpoint_every: Span = 300 * US_PER_S

    def kinds(self, around: Surroundings) -> dict[str, float]:
        return _in_cluster("speeds", self.speeds, population.SPEEDS, around, example="1.0")

    def labour(self, coming: Coming, around: Surroundings) -> Rigid:
        kinds = self.kinds(around)
        spec = RigidSpec(
            Work(self.work / US_PER_HOUR, kinds),
            self.nodes,
            self._within(kinds, around),
            coming.ends_us,
            self.cold_start / US_PER_S,
            self.checkpoint_every / US_PER_S,
        )
        return Rigid(spec, self.patience)

    def _within(self, kinds: Iterable[str], around: Surroundings) -> int:
        """As how many names the path of a domain has."""
        depths = {tree: self._depth(tree, around.levels[tree]) for tree in kinds}
        first, depth = next(iter(depths.items()))
        for tree, other in depths.items():
            if other != depth:
                raise BadField(
                    "within",
                    f"{self.within!r} is another level in {tree} than in {first}; describe both "
                    "alike, or name one tree in 'speeds'",
                )
        largest = {tree: around.largest_domains[tree][depth - 1] for tree in depths}
        tree, most = max(largest.items(), key=lambda each: each[1])
        if self.nodes > most:
            where = tree if self.within is None else f"the largest {self.within} of {tree}"
            raise BadField(
                "nodes",
                f"{where} has {most}, so {self.nodes} at once never fit; write fewer, or a wider "
                "level in 'within'",
            )
        return depth

    def _depth(self, tree: str, levels: tuple[str, ...]) -> int:
        if self.within is None:
            return 1
        if self.within not in levels:
            known = f"it has {', '.join(levels)}" if levels else "it has none above its nodes"
            raise BadField("within", f"{tree} has no level {self.within!r}; {known}")
        return levels.index(self.within) + 2


TenantSpec = InferenceTenant | TrainingTenant | BatchTenant | RigidTenant


def _in_cluster(
    field: str,
    said: Mapping[str, Value] | None,
    usual: Mapping[str, Value],
    around: Surroundings,
    *,
    example: str,
) -> dict[str, Value]:
    """What is said of each tree, or as usual for those that have the usual names."""
    trees = ", ".join(around.sizes)
    if said is None:
        known = {tree: usual[tree] for tree in usual if tree in around.sizes}
        if not known:
            first = next(iter(around.sizes))
            raise BadField(
                (),
                f"{field!r} is missing; say which of {trees} it can use, and what a node of it is, "
                f"such as {field}: {{{first}: {example}}}",
            )
        return known
    for tree in said:
        if tree not in around.sizes:
            raise BadField((field, tree), f"there is no tree {tree!r}; the cluster has {trees}")
    return dict(said)


def _by_name(trees: Iterable[str]) -> dict[str, Hardware]:
    """Trees that are called like a GPU whose profile is there, such as l40s or H200."""
    gpus = {node.gpu.removesuffix("_sxm"): node.gpu for _, node in profiled()}
    names = {tree: tree.lower().removesuffix("_sxm") for tree in trees}
    return {tree: Hardware(gpus[name]) for tree, name in names.items() if name in gpus}


@contextmanager
def blaming(field: str | tuple[str | int, ...]) -> Iterator[None]:
    """What can't be made of a field is wrong at its place."""
    try:
        yield
    except BadField:
        raise
    except (ValueError, ArithmeticError) as error:
        raise BadField(field, str(error)) from None


@contextmanager
def _within(field: str) -> Iterator[None]:
    """What is wrong inside is wrong inside of this field."""
    try:
        yield
    except BadField as error:
        raise BadField((field, *error.place), str(error)) from None
