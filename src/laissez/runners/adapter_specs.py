"""What the file of each ready-made adapter may say, and how the adapter and its application are
made of it.

A field is written as people write it (an amount, a duration) and is checked here; `adapter_file`
shows what is wrong at its line. What an adapter does not ask for has a default that suits most.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct
from msgspec.structs import replace

from laissez.adapters.adapter import Adapter
from laissez.adapters.budget import Budget
from laissez.adapters.deadline import JOB_PRICING, deadline_adapter
from laissez.adapters.footprint import Footprint
from laissez.adapters.inference import NODE_PRICING, inference_adapter
from laissez.adapters.intent import TradingTerms
from laissez.adapters.pricing import Pricing, Variant
from laissez.adapters.training import TRAINING_PRICING, TrainingAdapter
from laissez.amounts import BadAmount, microseconds
from laissez.client.money import show_rate
from laissez.deadline.classic import Greedy, OnDemandOnly, UniformProgress
from laissez.deadline.job import hours
from laissez.deadline.policy import Policy
from laissez.documents import (
    BadField,
    Dollars,
    DollarsPerHour,
    Duration,
    PositiveNumber,
    Share,
    duration,
)
from laissez.inframaps.instants import instant_us
from laissez.model.paths import tree_of
from laissez.model.values import MAX_RATE
from laissez.performance.application import US_PER_S, Application
from laissez.performance.batch import BatchJob, Work
from laissez.performance.inference import (
    Hardware,
    InferenceService,
    InferenceSpec,
    Load,
    Objective,
    preset,
    profile,
    profiled,
)
from laissez.performance.standing import Standing
from laissez.performance.training import DEFAULT_LEVELS, Setup, TrainingJob, TrainingSpec
from laissez.telemetry import Feed, SourceDescription, Telemetry

US_PER_HOUR = 3_600 * US_PER_S
PERIOD_US = 5 * US_PER_S
LEAVING_US = 20 * US_PER_S
"""How long to get ready to be lost, unless a file says so: it must fit into the notice that new
trees have, with something to spare for what is sent to and fro, or nobody saves at all."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_SCOPE = re.compile(r"[^/\s*]+(/[^/\s*]+)*")

TokenCount = Annotated[float, Meta(ge=1)]
WholeCount = Annotated[int, Meta(ge=1)]
Hours = Annotated[int, duration("h")]
Period = Annotated[Duration, Meta(gt=0)]


class BudgetSpec(Struct, frozen=True, kw_only=True):
    """`lasts` is how long the money should last, from the first start."""

    total: Dollars
    lasts: Hours | None = None


class PricingSpec(Struct, frozen=True, kw_only=True):
    variant: Variant = "laissez"
    horizon: Duration | None = None
    hysteresis: Share | None = None

    def over(self, usual: Pricing) -> Pricing:
        """What is left out is as usual."""
        return replace(usual.changed(self.horizon, self.hysteresis), variant=self.variant)


class Built(Struct, frozen=True):
    """Everything that a runner needs. `left_out_when_stale`: see `gauges`."""

    adapter: Adapter
    app: Application
    telemetry: Telemetry | None = None
    left_out_when_stale: tuple[str, ...] = ()


class _Spec(Struct, frozen=True, kw_only=True, tag_field="adapter"):
    name: str
    scopes: Annotated[tuple[str, ...], Meta(min_length=1)]
    period: Period = PERIOD_US
    budget: BudgetSpec | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadField(
                "name", "a name has letters, digits, - and _ only, because it is part of order ids"
            )
        for number, scope in enumerate(self.scopes):
            if not _SCOPE.fullmatch(scope):
                raise BadField(
                    ("scopes", number), f"{scope!r} is not a scope; write one such as h100/east"
                )

    @property
    def trees(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(tree_of(scope) for scope in self.scopes))

    def terms(self, began_us: int) -> TradingTerms:
        budget = None
        if self.budget is not None:
            lasts = self.budget.lasts
            budget = Budget(self.budget.total, None if lasts is None else began_us + lasts)
        return TradingTerms(self.name, self.scopes, self.period, budget)

    def check_kinds(self, known: Mapping[str, object], field: str) -> None:
        """Every scope is in a tree of which the work says something."""
        for number, scope in enumerate(self.scopes):
            if tree_of(scope) not in known:
                raise BadField(
                    ("scopes", number), f"nothing is said of {tree_of(scope)} in {field!r}; add it"
                )

    def most_per_hour(self) -> int | None:
        """The sum of limits that it ever sets, if that is fixed."""
        return None

    def describe(self) -> str:
        """What it does, as a sentence."""
        raise NotImplementedError

    def build(self, began_us: int, folder: Path) -> Built:
        raise NotImplementedError


class OnDemandSpec(_Spec, frozen=True, kw_only=True, tag="on-demand"):
    nodes: WholeCount
    limit: Annotated[DollarsPerHour, Meta(gt=0)]

    def most_per_hour(self) -> int:
        return self.nodes * self.limit

    def describe(self) -> str:
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes"
        return f"holds {nodes}, each up to {show_rate(self.limit)}"

    def build(self, began_us: int, folder: Path) -> Built:
        adapter = Footprint(self.terms(began_us), self.nodes, self.limit)
        return Built(adapter, Standing(self.trees, self.nodes))


class SpotSpec(OnDemandSpec, frozen=True, kw_only=True, tag="spot"):
    """The same, and it is the low limit that makes it spot."""


class DeadlineSpec(_Spec, frozen=True, kw_only=True, tag="deadline"):
    """`work` is the time on a node of the first kind in `speeds`; `value` is what an hour of it is
    worth. Urgent, it offers up to `most` an hour, beside the budget."""

    work: Annotated[Hours, Meta(gt=0)]
    speeds: Annotated[dict[str, PositiveNumber], Meta(min_length=1)]
    deadline: str
    value: DollarsPerHour
    most: DollarsPerHour | None = None
    policy: Literal["uniform-progress", "greedy", "on-demand"] = "uniform-progress"
    cold_start: Duration = 480 * US_PER_S
    checkpoint_every: Period = 600 * US_PER_S
    save: Duration = LEAVING_US
    pricing: PricingSpec = PricingSpec()
    progress: SourceDescription | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_kinds(self.speeds, "speeds")
        _check_deadline(self.deadline)
        if self.most is None and self.budget is None:
            raise BadField(
                "deadline",
                "near the deadline it offers all that it has; say how much that is, with 'budget' "
                "or with 'most'",
            )

    def most_per_hour(self) -> int | None:
        return self.most

    def describe(self) -> str:
        first = next(iter(self.speeds))
        return (
            f"does {hours(self.work)} of work ({first}) by {self.deadline}, "
            f"worth {show_rate(self.value)}"
        )

    def build(self, began_us: int, folder: Path) -> Built:
        with blaming("deadline"):
            app = BatchJob(
                Work(self.work / US_PER_HOUR, self.speeds),
                deadline_us=_deadline_us(self.deadline, began_us),
                start_us=began_us,
                cold_start_s=self.cold_start / US_PER_S,
                checkpoint_every_s=self.checkpoint_every / US_PER_S,
                save_s=self.save / US_PER_S,
            )
            adapter = deadline_adapter(
                app,
                self.terms(began_us),
                micros_per_unit=float(self.value),
                checkpoint_every_us=self.checkpoint_every,
                released_us=began_us,
                pricing=self.pricing.over(JOB_PRICING),
                policy=_POLICIES[self.policy],
                most_micros_per_hour=MAX_RATE if self.most is None else self.most,
            )
        read = Read("done", "progress", self.progress, most=1.0)
        return _with_telemetry(adapter, app, [read], folder)


class InferenceAdapterSpec(_Spec, frozen=True, kw_only=True, tag="inference"):
    """`value` is in dollars for a thousand requests within their objective; `nodes` says what a
    node of each tree is. The load is measured; the tokens too, or they are as given."""

    model: str
    nodes: Annotated[dict[str, Hardware], Meta(min_length=1)]
    objective: Objective | str
    value: Dollars
    load: SourceDescription
    prompt_tokens: TokenCount | SourceDescription = 1_000.0
    output_tokens: TokenCount | SourceDescription = 200.0
    expected_requests_per_s: Annotated[float, Meta(ge=0)] = 0.0
    cold_start: Duration = 60 * US_PER_S
    drain: Duration = LEAVING_US
    pricing: PricingSpec = PricingSpec()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_kinds(self.nodes, "nodes")
        if isinstance(self.objective, str):
            with blaming("objective"):
                preset(self.objective)
        is_known = any(model == self.model for model, _ in profiled())
        for tree, node in self.nodes.items():
            with blaming(("nodes", tree) if is_known else "model"):
                profile(self.model, node.gpu, node.gpus)

    def describe(self) -> str:
        value = show_rate(self.value).removesuffix("/h")
        return f"serves {self.model}, {value} for a thousand requests within their objective"

    def build(self, began_us: int, folder: Path) -> Built:
        objective = self.objective
        app = InferenceService(
            InferenceSpec(
                model=self.model,
                kinds=self.nodes,
                objective=preset(objective) if isinstance(objective, str) else objective,
                expected=Load(
                    self.expected_requests_per_s,
                    _number(self.prompt_tokens, 1_000.0),
                    _number(self.output_tokens, 200.0),
                ),
                cold_start_s=self.cold_start / US_PER_S,
                drain_s=self.drain / US_PER_S,
            )
        )
        adapter = inference_adapter(
            self.terms(began_us), float(self.value), self.pricing.over(NODE_PRICING)
        )
        reads = [Read("requests_per_s", "load", self.load)]
        for name in ("prompt_tokens", "output_tokens"):
            told = getattr(self, name)
            if isinstance(told, SourceDescription):
                reads.append(Read(name, name, told))
        return _with_telemetry(adapter, app, reads, folder)


class TrainingAdapterSpec(_Spec, frozen=True, kw_only=True, tag="training"):
    """`samples` are those of an epoch; `gpus` says which GPU a tree has, the best first; `levels`
    name what is between the root and a GPU. `value` is what an hour of work is worth: what one
    node of the first kind does alone in an hour."""

    model: str
    gpus: Annotated[dict[str, str], Meta(min_length=1)]
    samples: WholeCount
    epochs: WholeCount = 1
    value: DollarsPerHour
    deadline: str | None = None
    levels: tuple[str, ...] = DEFAULT_LEVELS
    global_batch: WholeCount | None = None
    nodes_max: WholeCount = 64
    checkpoint_every: Period = 300 * US_PER_S
    save: Duration = LEAVING_US
    reconfigure: Period = 120 * US_PER_S
    pricing: PricingSpec = PricingSpec()
    progress: SourceDescription | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_kinds(self.gpus, "gpus")
        if self.deadline is not None:
            _check_deadline(self.deadline)
        with blaming("model"):
            Setup(self.model)
        for tree, gpu in self.gpus.items():
            with blaming(("gpus", tree)):
                Setup(gpus=((tree, gpu),))
        with blaming("levels"):
            Setup(levels=self.levels)

    def describe(self) -> str:
        by = "" if self.deadline is None else f" by {self.deadline}"
        samples = self.epochs * self.samples
        return f"trains {self.model} on {samples:,} samples{by}, worth {show_rate(self.value)}"

    def build(self, began_us: int, folder: Path) -> Built:
        deadline = self.deadline
        app = TrainingJob(
            TrainingSpec(
                self.epochs * self.samples,
                Setup(self.model, tuple(self.gpus.items()), self.levels, self.global_batch),
                None if deadline is None else _deadline_us(deadline, began_us),
                self.nodes_max,
                self.checkpoint_every / US_PER_S,
                self.reconfigure / US_PER_S,
                self.save / US_PER_S,
            ),
            began_us,
        )
        pricing = self.pricing.over(TRAINING_PRICING)
        adapter = TrainingAdapter(self.terms(began_us), float(self.value), pricing)
        read = Read("samples", "progress", self.progress)
        return _with_telemetry(adapter, app, [read], folder)


Spec = OnDemandSpec | SpotSpec | DeadlineSpec | InferenceAdapterSpec | TrainingAdapterSpec

_POLICIES: dict[str, type[Policy]] = {
    "uniform-progress": UniformProgress,
    "greedy": Greedy,
    "on-demand": OnDemandOnly,
}


class Read(NamedTuple):
    """What an application is told, by which name, and the field that says where it comes from.
    From 0 to `most` is believable where the field does not say."""

    name: str
    field: str
    source: SourceDescription | None
    most: float | None = None

    def feed(self, source: SourceDescription, folder: Path) -> Feed:
        """The default is never used, because a source without one is left out; but it has to be
        within the bounds."""
        with blaming(self.field):
            default = max(0.0, source.least or 0.0)
            return source.feed(folder, default=default, least=0.0, most=self.most)


def _with_telemetry(adapter: Adapter, app: Application, reads: list[Read], folder: Path) -> Built:
    """Without a default of its own a source that is stale is left out, and the application goes on
    with what it knows."""
    given = {each.name: (each, each.source) for each in reads if each.source is not None}
    if not given:
        return Built(adapter, app)
    feeds = {name: each.feed(source, folder) for name, (each, source) in given.items()}
    left_out = tuple(name for name, (_, source) in given.items() if source.default is None)
    return Built(adapter, app, Telemetry(feeds), left_out)


@contextmanager
def blaming(field: str | tuple[str | int, ...]) -> Iterator[None]:
    """What can't be made of a field is wrong at its place."""
    try:
        yield
    except ValueError as error:
        raise BadField(field, str(error)) from None


def _number(told: float | SourceDescription, usual: float) -> float:
    return usual if isinstance(told, SourceDescription) else told


def _check_deadline(text: str) -> None:
    try:
        instant_us(text)
    except BadAmount:
        raise BadField(
            "deadline",
            f"{text!r} is no deadline; write how long after the first start, such as 8h, or an "
            "instant such as 2026-11-20T22:00Z",
        ) from None


def _deadline_us(text: str, began_us: int) -> int:
    try:
        return began_us + microseconds(text)
    except BadAmount:
        return instant_us(text)
