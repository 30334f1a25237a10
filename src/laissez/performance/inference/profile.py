"""How fast one node serves one model.

A replica is one engine on one node of the market. A node is one GPU or several; an engine spans
all of them by tensor parallelism, so a profile is looked up by model, GPU and GPUs per node.

Prefill takes one prompt at a time. Its time grows with the length of the prompt, and a fixed part
is spent beside the GPU: it delays the first token but does not keep the next prompt waiting.

Decode makes one token for each sequence of a batch in each step. A step takes longer with more
sequences and with longer contexts. The best rate within an objective is that of the largest batch
whose step is short enough, whose contexts fit in memory, and that the engine allows.

Between the points of the tables everything is linear; before the first it is as there, and beyond
the last one it goes on as between the last two.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from laissez.performance.inference import profiles_table
from laissez.performance.inference.problem import InferenceProblem

# The estimates of the tables are too low. Against the one measured profile (Llama-3.1-8B on an
# H200, from the test data of NVIDIA Dynamo) times to first token come out about 25% low plus some
# 15 ms, and decode steps 8 to 18% low, of which this is the middle.
TTFT_MEASURED_PER_ESTIMATED = 1 / (1 - 0.25)
TTFT_FIXED_MS = 15.0
ITL_MEASURED_PER_ESTIMATED = 1 / (1 - 0.13)

MS_PER_S = 1_000.0


class Hardware(msgspec.Struct, frozen=True):
    """What one node is."""

    gpu: str
    gpus: int = 1
    """GPUs per node, all of them in one engine."""


class DecodeCurve(msgspec.Struct, frozen=True):
    """Time of a decode step by batch size, at one context length, up to what fits in memory."""

    batches: tuple[float, ...]
    steps_ms: tuple[float, ...]
    fitting: float

    def step_ms(self, batch: float) -> float:
        return interpolate(self.batches, self.steps_ms, batch)

    def largest_batch(self, itl_ms: float) -> float:
        """The most sequences whose step is within an objective; 0 if a single one is not."""
        if self.fitting < 1 or self.steps_ms[0] > itl_ms:
            return 0.0
        within = float(self.batches[-1])
        for number in range(1, len(self.batches)):
            if self.steps_ms[number] > itl_ms:
                start, end = self.batches[number - 1 : number + 1]
                low_ms, high_ms = self.steps_ms[number - 1 : number + 1]
                within = start + (end - start) * (itl_ms - low_ms) / (high_ms - low_ms)
                break
        return min(within, self.fitting)

    def batch_at(self, tokens_per_s: float) -> float:
        """The concurrency that makes so many tokens: the fixed point of batch = rate x step.

        A larger batch takes longer and so holds more sequences; the smallest batch that keeps up
        is the one at which the engine settles. The largest, if none keeps up.
        """
        rate = tokens_per_s / MS_PER_S
        if rate * self.steps_ms[0] <= self.batches[0]:
            return rate * self.steps_ms[0]
        for number in range(1, len(self.batches)):
            end, end_ms = self.batches[number], self.steps_ms[number]
            if end >= rate * end_ms:
                start, start_ms = self.batches[number - 1], self.steps_ms[number - 1]
                slope = (end_ms - start_ms) / (end - start)
                return rate * (start_ms - slope * start) / (1 - rate * slope)
        return float(self.batches[-1])


class Profile(msgspec.Struct, frozen=True):
    """One model on one kind of node, corrected to what is measured."""

    model: str
    hardware: Hardware
    kv_tokens: float
    """Tokens of context that fit in memory, over all sequences."""
    prompts: tuple[int, ...]
    prefills_ms: tuple[float, ...]
    """How long the GPUs work on a prompt."""
    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    steps_ms: tuple[tuple[float, ...], ...]
    """The times of a decode step of each batch size, one tuple per context length."""

    def prefill_ms(self, prompt_tokens: float) -> float:
        return interpolate(self.prompts, self.prefills_ms, prompt_tokens)

    def ttft_ms(self, prompt_tokens: float) -> float:
        """Time to the first token of a prompt that need not wait."""
        return self.prefill_ms(prompt_tokens) + TTFT_FIXED_MS

    def prefill_tokens_per_s(self, prompt_tokens: float, ttft_ms: float) -> float:
        """Prompt tokens per second at which prompts are within an objective; 0 if never."""
        busy_ms = self.prefill_ms(prompt_tokens)
        if busy_ms + TTFT_FIXED_MS > ttft_ms:
            return 0.0
        return prompt_tokens / busy_ms * MS_PER_S

    def decode_curve(self, context_tokens: float) -> DecodeCurve:
        at, share = position(self.contexts, max(context_tokens, self.contexts[0]))
        steps = tuple(
            low + share * (high - low)
            for low, high in zip(self.steps_ms[at], self.steps_ms[at + 1], strict=True)
        )
        return DecodeCurve(self.batches, steps, self.kv_tokens / context_tokens)

    def itl_ms(self, batch: float, context_tokens: float) -> float:
        return self.decode_curve(context_tokens).step_ms(batch)

    def decode_tokens_per_s(self, context_tokens: float, itl_ms: float) -> float:
        """The most output tokens per second whose steps are within an objective; 0 if never."""
        curve = self.decode_curve(context_tokens)
        batch = curve.largest_batch(itl_ms)
        return batch / curve.step_ms(batch) * MS_PER_S if batch else 0.0


def position(points: Sequence[float], at: float) -> tuple[int, float]:
    """Between which two points, and how far along; outside 0..1 beyond the ends."""
    number = min(max(bisect_left(points, at), 1), len(points) - 1)
    low, high = points[number - 1], points[number]
    return number - 1, (at - low) / (high - low)


def interpolate(points: Sequence[float], values: Sequence[float], at: float) -> float:
    """Linear between the points and after the last; before the first, the first."""
    if at <= points[0]:
        return values[0]
    number, share = position(points, at)
    return values[number] + share * (values[number + 1] - values[number])


@lru_cache(maxsize=256)
def profile(model: str, gpu: str, gpus: int = 1) -> Profile:
    """The profile of a model on a node of so many GPUs."""
    key = (model, gpu, str(gpus))
    line = _prefill_lines().get(key)
    if line is None:
        raise InferenceProblem(_nothing_known(model, gpu, gpus))
    return Profile(
        model=model,
        hardware=Hardware(gpu, gpus),
        kv_tokens=line[0],
        prompts=profiles_table.PROMPT_TOKENS,
        prefills_ms=tuple(ms * TTFT_MEASURED_PER_ESTIMATED for ms in line[1:]),
        batches=profiles_table.BATCH_SIZES,
        contexts=profiles_table.CONTEXT_TOKENS,
        steps_ms=tuple(
            tuple(ms * ITL_MEASURED_PER_ESTIMATED for ms in steps) for steps in _decode_lines()[key]
        ),
    )


def profiled() -> tuple[tuple[str, Hardware], ...]:
    """Every model and kind of node of which something is known."""
    return tuple((model, Hardware(gpu, int(gpus))) for model, gpu, gpus in _prefill_lines())


@lru_cache(maxsize=1)
def _prefill_lines() -> dict[tuple[str, str, str], tuple[float, ...]]:
    lines = (line.split() for line in profiles_table.PREFILL.strip().splitlines())
    return {(at[0], at[1], at[2]): tuple(map(float, at[3:])) for at in lines}


@lru_cache(maxsize=1)
def _decode_lines() -> dict[tuple[str, str, str], list[tuple[float, ...]]]:
    curves: dict[tuple[str, str, str], list[tuple[float, ...]]] = {}
    for line in profiles_table.DECODE.strip().splitlines():
        at = line.split()
        curves.setdefault((at[0], at[1], at[2]), []).append(tuple(map(float, at[4:])))
    return curves


def _nothing_known(model: str, gpu: str, gpus: int) -> str:
    known = [hardware for name, hardware in profiled() if name == model]
    if not known:
        models = ", ".join(dict.fromkeys(name for name, _ in profiled()))
        return f"there is no profile of the model {model!r}; there is one of {models}"
    shapes = ", ".join(f"{at.gpus} x {at.gpu}" for at in known)
    return f"{model} is not known to fit on {gpus} x {gpu}; it does on {shapes}"
