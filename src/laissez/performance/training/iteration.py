"""How long one iteration of training takes.

The global batch is shared out among data-parallel replicas. A replica is a pipeline of stages, a
stage is a run of layers on GPUs that split each layer between them (tensor parallelism). What one
GPU does to one micro-batch is profiled; the rest is arithmetic:

- A stage's turn is the forward and backward pass of its layers, and the time to send on what it
  made: activations to the next stage, gradients to the one before.
- With one forward, one backward in turn, m micro-batches take (m + stages - 1) turns of the
  slowest stage. A part of a micro-batch takes its part of a turn; every replica runs at least one.
- Then gradients are added up over all replicas, if there are several, and the optimiser steps. A
  ring sends each gradient twice over the slowest link that the replicas span. (Exactly, 2 (n-1)/n
  times for n of them; measurements are nearer to twice, whatever n.)
- An iteration is as long as the longest replica's. Shares go by speed: all replicas end together,
  except where one would get less than one micro-batch and holds up the others.

Memory must fit: parameters, gradients and two moments of the optimiser; what the micro-batches
under way have kept, as many as there are stages from here to the end; and what the runtime takes.
Each constant is the same for every model, GPU and measurement.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from laissez.performance.training.gpus import Distance, Gpu
from laissez.performance.training.profiles import MODELS, TIMES, LayerBytes, LayerTimes
from laissez.performance.training.splitting import best_split

# The parameter, its gradient, and two moments.
COPIES_OF_PARAMETERS = 4
# CUDA context, communication buffers, fragments: what measured peaks have beyond the sum.
RUNTIME_BYTES = 5_000_000_000
RING_PASSES = 2
STAGES = (1, 2, 4, 8)
_SECONDS_PER_US = 1e-6


class Layer(NamedTuple):
    seconds: float
    size: LayerBytes


class Shape(NamedTuple):
    """One way to make a replica of GPUs of one kind, and what it comes to.

    `span` is the farthest that two of its GPUs may be apart. Tensor-parallel GPUs are in one
    scale-up domain.
    """

    gpu: Gpu
    tensor_parallel: int
    stages: int
    micro_batch: int
    span: Distance
    layers_per_stage: tuple[int, ...]
    turn_s: float
    gradient_bytes: int
    update_s: float

    @property
    def gpus(self) -> int:
        return self.tensor_parallel * self.stages

    @property
    def samples_per_s(self) -> float:
        """Once the pipeline is full."""
        return self.micro_batch / self.turn_s

    def overhead_s(self, link_bytes_per_s: float | None) -> float:
        """What an iteration takes beyond the turns of its micro-batches; None: a lone replica."""
        ring_s = RING_PASSES * self.gradient_bytes / link_bytes_per_s if link_bytes_per_s else 0.0
        return (self.stages - 1) * self.turn_s + ring_s + self.update_s


def layers(model: str, row: LayerTimes) -> list[Layer]:
    """Every layer of the model, first to last, as this row of the profile has it."""
    sizes = MODELS[model].layer_bytes[row.tensor_parallel]
    block = Layer((row.block_forward + row.block_backward) * _SECONDS_PER_US, sizes.block)
    return [
        Layer((row.embedding_forward + row.embedding_backward) * _SECONDS_PER_US, sizes.embedding),
        *[block] * MODELS[model].blocks,
        Layer((row.head_forward + row.head_backward) * _SECONDS_PER_US, sizes.head),
    ]


class StageCosts:
    """What a run of layers would take as one stage of a pipeline, by sums from the first layer."""

    def __init__(
        self, every: list[Layer], row: LayerTimes, gpu: Gpu, stages: int, span: Distance
    ) -> None:
        self._micro_batch = row.micro_batch
        self._stages = stages
        self._room = gpu.memory_bytes - RUNTIME_BYTES
        self._send_s = [
            layer.size.output * row.micro_batch / gpu.link_bytes_per_s(span) for layer in every
        ]
        self._seconds, self._parameters, self._kept = [0.0], [0], [0]
        for layer in every:
            self._seconds.append(self._seconds[-1] + layer.seconds)
            self._parameters.append(self._parameters[-1] + layer.size.parameters)
            self._kept.append(self._kept[-1] + layer.size.kept)

    def turn_s(self, stage: int, first: int, end: int) -> float | None:
        """Layers from `first` up to `end` as this stage; None if they don't fit in its memory."""
        kept = (self._kept[end] - self._kept[first]) * self._micro_batch * (self._stages - stage)
        if COPIES_OF_PARAMETERS * self.parameters(first, end) + kept > self._room:
            return None
        turn = self._seconds[end] - self._seconds[first]
        if stage > 0:
            turn += self._send_s[first - 1]
        if stage < self._stages - 1:
            turn += self._send_s[end - 1]
        return turn

    def parameters(self, first: int, end: int) -> int:
        return self._parameters[end] - self._parameters[first]


def shape_of(
    model: str, gpu: Gpu, row: LayerTimes, span: Distance, layers_per_stage: tuple[int, ...]
) -> Shape | None:
    """The shape with this split into stages; None if it doesn't fit in memory."""
    costs = StageCosts(layers(model, row), row, gpu, len(layers_per_stage), span)
    first, turns, parameters = 0, [], []
    for stage, count in enumerate(layers_per_stage):
        turns.append(costs.turn_s(stage, first, first + count))
        parameters.append(costs.parameters(first, first + count))
        first += count
    fitting = [turn for turn in turns if turn is not None]
    if len(fitting) < len(turns):
        return None
    return Shape(
        gpu=gpu,
        tensor_parallel=row.tensor_parallel,
        stages=len(turns),
        micro_batch=row.micro_batch,
        span=span,
        layers_per_stage=layers_per_stage,
        turn_s=max(fitting),
        gradient_bytes=max(parameters),
        update_s=max(layers_per_stage) * row.update * _SECONDS_PER_US,
    )


@lru_cache(maxsize=256)
def shapes(model: str, gpu: Gpu) -> tuple[Shape, ...]:
    """Every shape of a replica that fits, each with its best split into stages."""
    found = []
    for row in TIMES[model][gpu.profile]:
        for stages in STAGES:
            spans = (Distance.DOMAIN, Distance.RACK) if stages > 1 else (Distance.DOMAIN,)
            for span in spans:
                every = layers(model, row)
                costs = StageCosts(every, row, gpu, stages, span)
                split = best_split(len(every), stages, costs.turn_s)
                shape = shape_of(model, gpu, row, span, split) if split else None
                if shape:
                    found.append(shape)
    return tuple(found)
