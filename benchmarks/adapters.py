"""What a step of each adapter costs, and a plan: `python benchmarks/adapters.py [--json]`.

One simulated hour on 64 H100s and 64 A100s in four racks each, wanted by more tenants than there is
room for: training, inference, batch work with deadlines, on-demand and spot. Timed is the adapter's
step, with all the questions that it asks its application, in time of the processor. A step is told
apart by whether the tenant won or lost something since the one before it, because then plans are
made anew.

Then the training planner: the best configuration of 256 GPUs of two kinds in four racks, made for
the first time and once more. Nothing fails for being slow.
"""

import argparse
from collections.abc import Sequence
from time import thread_time_ns
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from laissez.adapters.adapter import Adapter
from laissez.adapters.budget import Budget
from laissez.adapters.deadline import deadline_adapter
from laissez.adapters.footprint import Footprint
from laissez.adapters.inference import inference_adapter
from laissez.adapters.intent import TradingTerms
from laissez.adapters.training import TrainingAdapter
from laissez.adapters.view import Action, GangAsk, MarketView
from laissez.model import ChangeFloor, Holding, OfferResource
from laissez.performance.application import Application
from laissez.performance.batch import BatchJob, Work
from laissez.performance.inference import (
    Hardware,
    InferenceService,
    InferenceSpec,
    Load,
    LoadTrace,
    preset,
)
from laissez.performance.standing import Standing
from laissez.performance.training import GpuGroup, Setup, TrainingJob, TrainingSpec, plan
from laissez.simulation.kernel.world import Tenant, World

SECOND = 1_000_000
HOUR = 3_600 * SECOND
DOLLAR = 1_000_000
PERIOD = 5 * SECOND
FLOORS = {"h100": 4_800_000, "a100": 2_400_000}
RACKS, DOMAINS, GPUS = 4, 2, 8


class Timed:
    """An adapter that is timed."""

    def __init__(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self.quiet_ns: list[int] = []
        self.moved_ns: list[int] = []
        self._held: frozenset[str] = frozenset()

    @property
    def terms(self) -> TradingTerms:
        return self.adapter.terms

    def scopes_to_quote(self, app: Any, holdings: Sequence[Holding]) -> tuple[str, ...]:
        return self.adapter.scopes_to_quote(app, holdings)

    def gangs_to_quote(self, app: Any, holdings: Sequence[Holding]) -> tuple[GangAsk, ...]:
        return self.adapter.gangs_to_quote(app, holdings)

    def step(self, app: Any, view: MarketView, at_us: int) -> tuple[Action, ...]:
        held = frozenset(holding.resource for holding in view.holdings)
        began = thread_time_ns()
        actions = self.adapter.step(app, view, at_us)
        taken = thread_time_ns() - began
        (self.quiet_ns if held == self._held else self.moved_ns).append(taken)
        self._held = held
        return actions


def terms(name: str, *scopes: str) -> TradingTerms:
    return TradingTerms(name, scopes or ("h100", "a100"), PERIOD, Budget(1_000 * DOLLAR, 2 * HOUR))


def training(number: int) -> tuple[Adapter, Application]:
    spec = TrainingSpec(900_000 + 300_000 * number, deadline_us=HOUR, nodes_max=32)
    return TrainingAdapter(terms("train"), (7.0 + number) * DOLLAR), TrainingJob(spec)


def inference(number: int) -> tuple[Adapter, Application]:
    kinds = {"h100": Hardware("h100_sxm", gpus=1), "a100": Hardware("a100_sxm", gpus=1)}
    steps = tuple(
        (at * 20 * SECOND, 40.0 + 15.0 * ((at * (number + 3)) % 7), 1_200.0, 220.0)
        for at in range(180)
    )
    spec = InferenceSpec(
        model="Llama-3.1-8B",
        kinds=kinds,
        objective=preset("planner-default"),
        expected=Load(80.0, 1_200.0, 220.0),
    )
    service = InferenceService(spec, LoadTrace(steps))
    return inference_adapter(terms("serve"), (0.3 + 0.1 * number) * DOLLAR), service


def batch(number: int) -> tuple[Adapter, Application]:
    job = BatchJob(
        Work(0.4 + 0.1 * number, {"a100": 1.0, "h100": 2.0}),
        deadline_us=HOUR + number * HOUR // 4,
        cold_start_s=240,
        checkpoint_every_s=120,
    )
    adapter = deadline_adapter(
        job,
        terms("batch"),
        micros_per_unit=4.0 * DOLLAR,
        checkpoint_every_us=120 * SECOND,
    )
    return adapter, job


def footprint(number: int) -> tuple[Adapter, Application]:
    limit = (20 if number % 2 else 5) * DOLLAR
    return Footprint(terms("fixed", "h100"), 4, limit), Standing(("h100",), 4)


MAKERS = {"training": (training, 3), "inference": (inference, 5), "deadline": (batch, 6)}
MAKERS_OF_TODAY = {"on-demand, spot": (footprint, 4)}


class Figure(msgspec.Struct, frozen=True):
    adapter: str
    steps: int
    mean_us: float
    quiet_us: float
    moved_us: float
    worst_us: float


def cluster() -> World:
    world = World(keeps_log=False)
    for tree, floor in FLOORS.items():
        world.operate(ChangeFloor(tree, floor), 0)
        for rack in range(RACKS):
            for domain in range(DOMAINS):
                for gpu in range(GPUS):
                    path = f"{tree}/z/r{rack}/n{domain}/h{domain}/g{gpu}"
                    world.operate(OfferResource(path), 0)
    return world


def measure_steps(progress: Progress) -> list[Figure]:
    world = cluster()
    timed: dict[str, list[Timed]] = {}
    for name, (make, count) in {**MAKERS, **MAKERS_OF_TODAY}.items():
        for number in range(count):
            adapter, app = make(number)
            timer = Timed(adapter)
            timed.setdefault(name, []).append(timer)
            begins_us = number * 7 * SECOND + 1
            world.join(Tenant(f"{name} {number}", timer, app, begins_us))
    task = progress.add_task("an hour of trading", total=60)
    for minute in range(1, 61):
        world.run(minute * 60 * SECOND)
        progress.advance(task)
    return [_figure(name, timers) for name, timers in timed.items()]


def _figure(name: str, timers: Sequence[Timed]) -> Figure:
    quiet = [taken for timer in timers for taken in timer.quiet_ns]
    moved = [taken for timer in timers for taken in timer.moved_ns]
    both = quiet + moved
    worst_us = round(max(both) / 1_000, 1)
    return Figure(name, len(both), _mean_us(both), _mean_us(quiet), _mean_us(moved), worst_us)


def _mean_us(taken_ns: Sequence[int]) -> float:
    return round(sum(taken_ns) / max(1, len(taken_ns)) / 1_000, 1)


class Planned(msgspec.Struct, frozen=True):
    what: str
    first_ms: float
    again_us: float


def measure_plans() -> list[Planned]:
    groups = [
        GpuGroup(f"{tree}/z/r{rack}/n{domain}", GPUS, float(floor))
        for tree, floor in FLOORS.items()
        for rack in range(RACKS)
        for domain in range(4)
    ]
    figures = []
    for model in ("OPT-350", "GPT-Neo-2.7"):
        setup = Setup(model)
        plan(setup, groups[:1])  # the table of shapes, once per process
        for value, needed in ((None, None), (10e6, None), (10e6, 60.0), (7e6, 20.0)):
            taken = []
            for _ in range(2):
                began = thread_time_ns()
                plan(setup, groups, value_per_unit=value, needed_pace=needed)
                taken.append(thread_time_ns() - began)
            asked = "throughput" if value is None else f"${value / 1e6:g} a unit, needed {needed}"
            first_ms, again_us = round(taken[0] / 1e6, 1), round(taken[1] / 1e3, 1)
            figures.append(Planned(f"{model}, {asked}", first_ms, again_us))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the adapters.")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    arguments = parser.parse_args()
    with Progress(console=Console(stderr=True), transient=True) as progress:
        steps = measure_steps(progress)
    plans = measure_plans()
    if arguments.json:
        print(msgspec.json.encode({"steps": steps, "plans": plans}).decode())
        return
    table = Table("adapter", "steps", "µs/step", "quiet", "after a move", "worst", title="Steps")
    for step in steps:
        table.add_row(*(str(value) for value in msgspec.structs.astuple(step)))
    Console().print(table)
    table = Table("256 GPUs, two kinds, four racks", "ms", "again, µs", title="Plans")
    for planned in plans:
        table.add_row(*(str(value) for value in msgspec.structs.astuple(planned)))
    Console().print(table)


if __name__ == "__main__":
    main()
