"""What is asked of an inference service in a scenario: the shape of its load, and its size.

The shape is constant, or that of a CSV file of the user's own, or that of one of the two services
of `requests`. The size is a mean rate, or how many nodes of the first kind it should keep busy; a
file and a service have a size of their own, if none is given.

A file begins anew when it is over. Of a service so many streams run one over the other as come
nearest to the size, because many users together are steadier than few; the last bit is made up by
scaling.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Annotated

import msgspec
from msgspec import Meta

from laissez.documents import BadField
from laissez.performance.application import US_PER_S
from laissez.performance.inference import Load, LoadTrace
from laissez.simulation.demand.requests import (
    STEP_S,
    WINDOW_S,
    Requests,
    RequestStep,
    Service,
    chained,
)

Positive = Annotated[float, Meta(gt=0, le=1e9)]
Tokens = Annotated[float, Meta(ge=1, le=1e6)]

STREAMS_MAX = 50
STEPS_MAX = 50_000

Timed = tuple[int, RequestStep]
"""A step, and how long after the arrival it begins."""


class LoadSpec(msgspec.Struct, frozen=True, kw_only=True):
    requests_per_s: Positive | None = None
    nodes: Positive | None = None
    service: Service | None = None
    csv: str | None = None
    prompt_tokens: Tokens = 1_000.0
    output_tokens: Tokens = 200.0

    def __post_init__(self) -> None:
        if self.requests_per_s is not None and self.nodes is not None:
            raise BadField("nodes", "say 'requests_per_s' or 'nodes', not both: each is a size")
        if self.service is not None and self.csv is not None:
            raise BadField("csv", "say 'service' or 'csv', not both: each is a shape")
        has_shape = self.service is not None or self.csv is not None
        if not has_shape and self.requests_per_s is None and self.nodes is None:
            raise ValueError("a load needs a size; add 'requests_per_s' or 'nodes'")

    def trace(
        self,
        arrives_us: int,
        life_us: int,
        *,
        one_node_per_s: Callable[[Load], float],
        requests: Requests,
        chance: Random,
        folder: Path,
    ) -> tuple[LoadTrace, Load]:
        """The requests of a life, and what they are on average; `one_node_per_s` says what a node
        of the first kind serves of a load."""
        steps = self._steps(life_us, requests, chance, folder)
        mean = mean_of(steps, life_us)
        if not mean.requests_per_s:
            raise BadField("csv", "no request comes while the service is there; add some")
        wanted_per_s = self.requests_per_s or mean.requests_per_s
        if self.nodes is not None:
            wanted_per_s = self.nodes * one_node_per_s(mean)
        if self.service is not None:
            streams = min(STREAMS_MAX, round(wanted_per_s / mean.requests_per_s))
            others = (self._steps(life_us, requests, chance, folder) for _ in range(1, streams))
            steps = _together([steps, *others])
            mean = mean_of(steps, life_us)
        scale = wanted_per_s / mean.requests_per_s
        trace = LoadTrace(
            tuple(
                (arrives_us + at_us, scale * step.requests_per_s, *step[1:])
                for at_us, step in steps
            ),
            arrives_us + life_us,
        )
        return trace, Load(wanted_per_s, mean.prompt_tokens, mean.output_tokens)

    def _steps(self, life_us: int, requests: Requests, chance: Random, folder: Path) -> list[Timed]:
        if self.csv is not None:
            usual = RequestStep(0.0, self.prompt_tokens, self.output_tokens)
            return _repeated(read_load(folder / self.csv, usual), life_us)
        if self.service is None:
            return [(0, RequestStep(1.0, self.prompt_tokens, self.output_tokens))]
        windows = math.ceil(life_us / (WINDOW_S * US_PER_S))
        stream = chained(requests, self.service, windows, chance)
        timed = ((at * STEP_S * US_PER_S, step) for at, step in enumerate(stream))
        return [each for each in timed if each[0] < life_us]


def mean_of(steps: Sequence[Timed], life_us: int) -> Load:
    """The mean rate, and the mean lengths over all requests."""
    ends_us = [at_us for at_us, _ in steps[1:]] + [life_us]
    counted = [
        (step.requests_per_s * (end_us - at_us) / US_PER_S, step)
        for (at_us, step), end_us in zip(steps, ends_us, strict=True)
    ]
    total = sum(count for count, _ in counted)
    if not total:
        return Load(0.0, steps[0][1].prompt_tokens, steps[0][1].output_tokens)
    return Load(
        total * US_PER_S / life_us,
        sum(count * step.prompt_tokens for count, step in counted) / total,
        sum(count * step.output_tokens for count, step in counted) / total,
    )


def _together(streams: Sequence[Sequence[Timed]]) -> list[Timed]:
    """Several streams with the same instants, one over the other."""
    found = []
    for timed in zip(*streams, strict=True):
        mean = mean_of([(at, step) for at, (_, step) in enumerate(timed)], len(timed))
        rate = mean.requests_per_s * len(timed)
        found.append((timed[0][0], RequestStep(rate, mean.prompt_tokens, mean.output_tokens)))
    return found


# --- a file of the user's own -------------------------------------------------------------------


def read_load(path: Path, usual: RequestStep) -> list[Timed]:
    """A CSV file with the columns at_s and requests_per_s, and perhaps prompt_tokens and
    output_tokens. What is wrong with it is a BadField of `csv`."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            for column in ("at_s", "requests_per_s"):
                if column not in (rows.fieldnames or ()):
                    raise BadField("csv", f"{path} has no column {column!r} in line 1; add it")
            steps = [_row(row, usual, f"{path}, line {rows.line_num}") for row in rows]
    except UnicodeDecodeError:
        raise BadField("csv", f"{path} is no text in UTF-8; save it as that") from None
    except (OSError, ValueError, csv.Error) as error:
        if isinstance(error, BadField):
            raise
        reason = error.strerror if isinstance(error, OSError) else error
        raise BadField("csv", f"{path} can't be read: {reason}; check the path") from None
    if not steps or steps[0][0] != 0:
        raise BadField("csv", f"{path} must begin with a row whose at_s is 0; add it")
    if any(later[0] <= earlier[0] for earlier, later in pairwise(steps)):
        raise BadField("csv", f"in {path} at_s does not rise from row to row; sort it")
    return steps


def _row(row: dict[str, str], usual: RequestStep, where: str) -> Timed:
    def number(column: str, default: float | None, least: float) -> float:
        text = row.get(column)
        if not text and default is not None:
            return default
        try:
            value = float(text or "")
        except ValueError:
            value = math.nan
        if not least <= value <= 1e9:
            raise BadField(
                "csv",
                f"{where}: {column} is {text or 'missing'}; write a number from {least:g} to 1e9",
            )
        return value

    at_us = round(number("at_s", None, 0.0) * US_PER_S)
    return at_us, RequestStep(
        number("requests_per_s", None, 0.0),
        number("prompt_tokens", usual.prompt_tokens, 1.0),
        number("output_tokens", usual.output_tokens, 1.0),
    )


def _repeated(steps: Sequence[Timed], life_us: int) -> list[Timed]:
    """The file again and again; its last row lasts as long as the one before it."""
    if len(steps) == 1:
        return list(steps)
    whole_us = 2 * steps[-1][0] - steps[-2][0]
    times = math.ceil(life_us / whole_us)
    if times * len(steps) > STEPS_MAX + len(steps):
        raise BadField("csv", f"this makes more than {STEPS_MAX:,} steps; take longer ones")
    found = [(turn * whole_us + at_us, step) for turn in range(times) for at_us, step in steps]
    return [each for each in found if each[0] < life_us]
