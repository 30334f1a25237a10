"""Where the requests of inference services come from: windows of 200 s, in steps of 10 s.

`Azure` cuts them from the public traces of two services (Azure Public Dataset, LLM inference trace
2023; Patel et al., Splitwise, ISCA 2024; CC-BY 4.0), at random starts. `fitted.Fitted` makes up
windows like them, where the traces are not at hand.
"""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple, Protocol

STEP_S = 10
WINDOW_S = 200

Service = Literal["conv", "code"]
SERVICES: tuple[Service, ...] = ("conv", "code")

COLUMNS = ("t_s", "context_tokens", "generated_tokens")
FOLDER = "azure_llm"
"""The traces' folder, within a folder of data."""


class BadData(ValueError):
    """Data that is not there or can't be used; the sentence says where and what to do."""


class Step(NamedTuple):
    requests_per_s: float
    prompt_tokens: float
    output_tokens: float


class Requests(Protocol):
    def window(self, service: Service, chance: Random) -> tuple[Step, ...]:
        """What comes in one window, step by step."""


class Azure:
    """`folder` is where the two files of the trace lie, or the folder of data that `azure_llm` is
    in."""

    def __init__(self, folder: Path) -> None:
        paths = zip(SERVICES, files_of(folder), strict=True)
        self._requests = {service: _read(path) for service, path in paths}

    def window(self, service: Service, chance: Random) -> tuple[Step, ...]:
        requests = self._requests[service]
        start_s = chance.uniform(requests[0][0], requests[-1][0] - WINDOW_S)
        sums = [[0.0, 0.0, 0.0] for _ in range(WINDOW_S // STEP_S)]
        for at in range(bisect_left(requests, (start_s,)), len(requests)):
            at_s, prompt, output = requests[at]
            step = int((at_s - start_s) // STEP_S)
            if step >= len(sums):
                break
            total = sums[step]
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


def chained(requests: Requests, service: Service, windows: int, chance: Random) -> list[Step]:
    """A stream of requests: so many windows, one after the other."""
    return [step for _ in range(windows) for step in requests.window(service, chance)]


def files_of(data: Path | None) -> tuple[Path, ...]:
    """What is read of a folder of data."""
    return () if data is None else tuple(_find(data, service) for service in SERVICES)


def _find(folder: Path, service: Service) -> Path:
    name = f"azure_llm_2023_{service}.csv.gz"
    for place in (folder, folder / FOLDER):
        if (place / name).is_file():
            return place / name
    raise BadData(
        f"there is no {name} in {folder} or in {folder / FOLDER}; give the folder that has the "
        "Azure traces, or no folder, for requests made up like theirs"
    )


def _read(path: Path) -> list[tuple[float, ...]]:
    """Seconds, prompt and output tokens of each request, in order of time."""
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            requests = sorted(_rows(path, csv.DictReader(file)))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise BadData(f"{path} can't be read ({error}); fetch it again") from None
    if not requests or requests[-1][0] - requests[0][0] < WINDOW_S:
        raise BadData(f"{path} has less than the {WINDOW_S} s of a window; give a longer trace")
    return requests


def _rows(path: Path, reader: csv.DictReader[str]) -> Iterator[tuple[float, ...]]:
    for column in COLUMNS:
        if column not in (reader.fieldnames or ()):
            raise BadData(f"{path}:1: there is no column {column}; name it in the first line")
    for row in reader:
        yield tuple(
            _number(row[column], f"{path}:{reader.line_num}: {column}") for column in COLUMNS
        )


def _number(cell: str | None, place: str) -> float:
    try:
        number = float(cell or "")
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise BadData(f"{place} is {cell or 'missing'}; write a number that is not below 0")
    return number
