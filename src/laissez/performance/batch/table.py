"""How long batch jobs of genomics take, by GPU and by how many of them one node has.

Measured, in `MEASURED`: whole runs of one tool on one data set, as their sources publish them
(gathered in shared/data/parabricks/runtimes.csv):

- `fq2bam`: Parabricks 3.x, human genome ERR194147 at 50x. at-cg, Indian Institute of Science, 2021.
- `basecalling`: Dorado 0.2.4, 765 GB of nanopore signal. NIG/DDBJ benchmark page, 2024. The only
  job that was timed alike on H100, A100 and V100; bound by the GPU.
- `germline`: the NCGM pipeline with Parabricks 4.2.0, low-memory option, 1000 Genomes at 30x, mean
  of 18 samples. NIG/DDBJ, 2024. Disks and single threads hold the faster GPU back.
- `alignment`, `deepvariant`: Parabricks 4.x, NA12878 at 30x, on one A10G. Clusterra, 2026.

Derived, everything else:

- Other counts follow Amdahl's law, with the serial part that fits the four counts of `fq2bam`,
  from the measured count that is nearest in proportion.
- Other GPUs follow the speeds that `basecalling` shows for one GPU each, if the job was timed on
  one GPU only. That flatters the H100 in pipelines that are not bound by the GPU: `germline` gains
  so little from it that nothing is derived there for an A100. No job was timed alike on an A10G
  and another GPU, so nothing is derived from or for an A10G.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from laissez.performance.application import BadApplication

SERIAL_FRACTION = 0.085
"""Amdahl's law with it misses the four measured counts of `fq2bam` by 2.3% at most."""

MEASURED: dict[str, dict[tuple[str, int], float]] = {
    "fq2bam": {("A100", 1): 184.22, ("A100", 2): 98.38, ("A100", 4): 56.48, ("A100", 8): 36.73},
    "basecalling": {("A100", 8): 48.0, ("H100", 8): 24.3, ("V100", 4): 211.13},
    "germline": {("H100", 8): 36.17, ("V100", 4): 89.13},
    "alignment": {("A10G", 1): 107.0},
    "deepvariant": {("A10G", 1): 44.6},
}
"""Minutes by tool, GPU and count."""


class UnknownTool(BadApplication):
    """Nothing is known of this tool, or not on this GPU."""


class Gpus(msgspec.Struct, frozen=True):
    """What a node has in it."""

    model: str
    count: int


class RunTime(NamedTuple):
    minutes: float
    is_measured: bool


def amdahl_speedup(count: float, serial_fraction: float = SERIAL_FRACTION) -> float:
    return 1 / (serial_fraction + (1 - serial_fraction) / count)


def _speeds_of_one_gpu() -> dict[str, float]:
    """Relative to an A100."""
    minutes = MEASURED["basecalling"]
    reference = minutes["A100", 8] * amdahl_speedup(8)
    return {gpu: reference / (took * amdahl_speedup(n)) for (gpu, n), took in minutes.items()}


GPU_SPEEDS = _speeds_of_one_gpu()


def run_minutes(tool: str, node: Gpus) -> RunTime:
    """How long a job of this tool takes on one node, and whether that was measured."""
    if tool not in MEASURED:
        known = ", ".join(sorted(MEASURED))
        raise UnknownTool(
            f"no run time of {tool!r} is known; take one of {known}, or say the hours"
        )
    if node.count < 1:
        raise UnknownTool(f"a node with {node.count} GPUs runs nothing; say at least 1")
    measured = MEASURED[tool]
    model = node.model.upper()
    if (model, node.count) in measured:
        return RunTime(measured[model, node.count], True)
    models = {gpu for gpu, _ in measured}
    base = model if model in models else min(models)
    if base != model and (len(models) > 1 or not {base, model} <= GPU_SPEEDS.keys()):
        raise UnknownTool(
            f"{tool} was timed on {', '.join(sorted(models))} only, and nothing tells how long it "
            f"takes on {node.model}; say the hours"
        )
    counts = [count for gpu, count in measured if gpu == base]
    nearest = min(counts, key=lambda count: abs(math.log(count / node.count)))
    count_gain = amdahl_speedup(node.count) / amdahl_speedup(nearest)
    gpu_gain = GPU_SPEEDS[model] / GPU_SPEEDS[base] if model != base else 1.0
    return RunTime(measured[base, nearest] / (count_gain * gpu_gain), False)


def hours_on(tool: str, nodes: Mapping[str, Gpus]) -> dict[str, float]:
    """Hours by kind of node, for a job of this tool."""
    return {kind: run_minutes(tool, node).minutes / 60 for kind, node in nodes.items()}
