"""Where the requests of inference services come from: windows of 200 s, in steps of 10 s.

`Azure` cuts them from the public traces of two services (Azure Public Dataset, LLM inference trace
2023; Patel et al., Splitwise, ISCA 2024; CC-BY 4.0), at random starts.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple, Protocol

STEP_S = 10
WINDOW_S = 200

Service = Literal["conv", "code"]
SERVICES: tuple[Service, ...] = ("conv", "code")


class Step(NamedTuple):
    requests_per_s: float
    prompt_tokens: float
    output_tokens: float


class Requests(Protocol):
    def window(self, service: Service, chance: Random) -> tuple[Step, ...]:
        """What comes in one window, step by step."""


class Azure:
    """`folder` is where the two files of the trace lie."""

    def __init__(self, folder: Path) -> None:
        self._requests = {service: _read(folder, service) for service in SERVICES}

    def window(self, service: Service, chance: Random) -> tuple[Step, ...]:
        requests = self._requests[service]
        start_s = chance.uniform(0, requests[-1][0] - WINDOW_S)
        sums = [[0.0, 0.0, 0.0] for _ in range(WINDOW_S // STEP_S)]
        for at_s, prompt, output in requests:
            if start_s <= at_s < start_s + WINDOW_S:
                total = sums[int((at_s - start_s) // STEP_S)]
                total[0] += 1
                total[1] += prompt
                total[2] += output
        return steps_of(sums)


def steps_of(sums: Sequence[Sequence[float]]) -> tuple[Step, ...]:
    """Means of (requests, prompt tokens, output tokens); a step without requests has the lengths
    of the whole window."""
    count, prompts, outputs = (sum(column) for column in zip(*sums, strict=True))
    usual = (prompts / count, outputs / count) if count else (1_000.0, 100.0)
    return tuple(
        Step(n / STEP_S, max(1.0, prompt / n), max(1.0, output / n))
        if n
        else Step(0.0, max(1.0, usual[0]), max(1.0, usual[1]))
        for n, prompt, output in sums
    )


def _read(folder: Path, service: Service) -> list[tuple[float, float, float]]:
    with gzip.open(folder / f"azure_llm_2023_{service}.csv.gz", "rt") as file:
        return [
            (float(row["t_s"]), float(row["context_tokens"]), float(row["generated_tokens"]))
            for row in csv.DictReader(file)
        ]
