"""Who comes to a cluster in one hour, drawn by chance.

Of five tenants two serve, two train, one runs a batch job. Each has its own stream of chance.

**Inference** serves one of two models with one of the documented objectives, where a single H100
can keep it at all, for 30 to 50 minutes. Its requests are chained windows of the conversation or
the coding service, so many of them at once that it needs 2 to 6 H100s on average at the usual
utilisation; the last bit is made up by scaling.

**Training** runs 20 epochs with a deadline 30 to 55 minutes after it arrives, of so many samples
that it needs 2 to 8 H100s on average; a new configuration takes 60 to 240 s.

**Batch** has one node at a time, 12 to 21 minutes of work on an H100, 4 to 8 minutes of start-up, a
checkpoint every 5 minutes, and a deadline that leaves room for two starts and two checkpoints lost,
and for up to 15 minutes of waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from laissez.performance.application import US_PER_S
from laissez.performance.inference import (
    PRESETS,
    Hardware,
    InferenceSpec,
    Load,
    LoadTrace,
    preset,
    profile,
)
from laissez.performance.inference.capacity import node_rates
from laissez.performance.training import MODELS, Setup, TrainingSpec
from laissez.performance.training.planner import planner_of
from laissez.simulation.demand.projects import US_PER_HOUR, Batch, Project, Serving, Training
from laissez.simulation.demand.requests import (
    SERVICES,
    STEP_S,
    WINDOW_S,
    Requests,
    RequestStep,
    chained,
)
from laissez.simulation.kernel.streams import stream

HORIZON_US = US_PER_HOUR
MINUTE_US = 60 * US_PER_S
EPOCHS = 20
UTILISATION = 0.8
CLASSES = ("inference", "training", "inference", "training", "batch")
SERVED = ("Llama-3.1-8B", "Qwen3-32B")
HARDWARE = {"h100": Hardware("h100_sxm"), "a100": Hardware("a100_sxm")}
GPUS = (("h100", "H100"), ("a100", "A100-80"))
SATISFIABLE = 0.95
"""Of the time that it has: alone, a training job is done by its deadline, but for one in fifty that
begins a node short and has to be configured twice."""
CHECKPOINT_S = 300.0
SPEEDS = {"h100": 1.0, "a100": 24.3 / 48.0}
"""Dorado 0.2.4 on 8 GPUs each, 24.3 and 48.0 minutes (NIG/DDBJ, 2024)."""
USUAL = Load(1.0, 1_600.0, 125.0)


def project(seed: int, number: int, requests: Requests) -> Project:
    """The tenant of this number; the same whoever else comes."""
    chance = stream(seed, "tenant", number)
    kind = CLASSES[chance.randrange(len(CLASSES))]
    name = f"{kind}-{number}"
    if kind == "inference":
        return inference(name, seed, number, requests)
    if kind == "training":
        return training(name, seed, number)
    return _batch(name, seed, number)


def number_of(name: str) -> int:
    """The one that the tenant of this name was drawn with."""
    return int(name.rpartition("-")[2])


@lru_cache
def _servable() -> tuple[tuple[str, str], ...]:
    """The models and objectives that a single H100 can keep."""
    return tuple(
        (model, name)
        for model in SERVED
        for name in PRESETS
        if node_rates(profile(model, "h100_sxm", 1), USUAL, preset(name)).requests_per_s > 0.5
    )


def inference(name: str, seed: int, number: int, requests: Requests) -> Project:
    """A service that needs 2 to 6 H100s on average."""
    chance = stream(seed, "inference", number)
    model, chosen = _servable()[chance.randrange(len(_servable()))]
    service = SERVICES[chance.randrange(len(SERVICES))]
    nodes = chance.uniform(2, 6)
    windows = chance.randrange(9, 16)
    life_us = windows * WINDOW_S * US_PER_S
    arrives_us = chance.randrange(HORIZON_US - life_us + 1)
    objective = preset(chosen)
    first = chained(requests, service, windows, chance)
    one = node_rates(profile(model, "h100_sxm", 1), _mean(first), objective).requests_per_s
    wanted_per_s = nodes * one * UTILISATION
    copies = max(1, round(wanted_per_s / _mean(first).requests_per_s))
    others = (chained(requests, service, windows, chance) for _ in range(1, copies))
    steps = _together([first, *others])
    mean = _mean(steps)
    trace = _trace(steps, wanted_per_s / mean.requests_per_s, arrives_us, life_us)
    spec = InferenceSpec(
        model=model,
        kinds=HARDWARE,
        objective=objective,
        expected=Load(wanted_per_s, mean.prompt_tokens, mean.output_tokens),
        utilisation=UTILISATION,
    )
    return Project(name, arrives_us, arrives_us + life_us, Serving(spec, trace))


def _trace(steps: Sequence[RequestStep], scale: float, arrives_us: int, life_us: int) -> LoadTrace:
    """The steps one after the other, with so many times their requests."""
    return LoadTrace(
        tuple(
            (arrives_us + at * STEP_S * US_PER_S, scale * step.requests_per_s, *step[1:])
            for at, step in enumerate(steps)
        ),
        arrives_us + life_us,
    )


def _together(streams: Sequence[Sequence[RequestStep]]) -> list[RequestStep]:
    """Several streams of requests, one over the other."""
    return [_summed(steps) for steps in zip(*streams, strict=True)]


def _summed(steps: Sequence[RequestStep]) -> RequestStep:
    """The rate of all, and the mean lengths."""
    rate = sum(step.requests_per_s for step in steps)
    if not rate:
        return RequestStep(0.0, steps[0].prompt_tokens, steps[0].output_tokens)
    return RequestStep(
        rate,
        sum(step.requests_per_s * step.prompt_tokens for step in steps) / rate,
        sum(step.requests_per_s * step.output_tokens for step in steps) / rate,
    )


def _mean(steps: Sequence[RequestStep]) -> Load:
    rate, prompts, outputs = _summed(steps)
    return Load(rate / len(steps), prompts, outputs)


def training(
    name: str,
    seed: int,
    number: int,
    nodes_between: tuple[float, float] = (2, 8),
    global_batch: int | None = None,
) -> Project:
    """A training job that needs so many H100s; without a batch, with the one of its authors."""
    chance = stream(seed, "training", number)
    setup = Setup(chance.choice(sorted(MODELS)), GPUS, global_batch=global_batch)
    nodes = chance.uniform(*nodes_between)
    life_us = chance.randrange(30 * MINUTE_US, 55 * MINUTE_US)
    arrives_us = chance.randrange(HORIZON_US - life_us + 1)
    reconfigure_s = chance.uniform(60, 240)
    work_s = SATISFIABLE * nodes * (life_us / US_PER_S - reconfigure_s)
    samples = round(work_s * planner_of(setup).reference_samples_per_s / EPOCHS)
    ends_us = arrives_us + life_us
    spec = TrainingSpec(EPOCHS * samples, setup, ends_us, nodes_max=16, reconfigure_s=reconfigure_s)
    return Project(name, arrives_us, ends_us, Training(spec))


def _batch(name: str, seed: int, number: int) -> Project:
    chance = stream(seed, "batch", number)
    hours = chance.uniform(0.2, 0.35)
    cold_start_s = chance.uniform(240, 480)
    move_s = cold_start_s + CHECKPOINT_S
    slack_s = 2 * move_s + chance.uniform(0, 900)
    life_us = min(round(hours * US_PER_HOUR + slack_s * US_PER_S), HORIZON_US)
    arrives_us = chance.randrange(HORIZON_US - life_us + 1)
    ends_us = arrives_us + life_us
    return Project(
        name, arrives_us, ends_us, Batch(hours, SPEEDS, ends_us, cold_start_s, CHECKPOINT_S)
    )
