"""Where the requests of inference services come from: windows of 200 s, in steps of 10 s.

`Azure` cuts them from the public traces of two services (Azure Public Dataset, LLM inference trace
2023; Patel et al., Splitwise, ISCA 2024; CC-BY 4.0), at random starts. Files are taken as they are
published, with times of day, and packed, with seconds. `fitted.Fitted` makes up windows like them,
where the traces are not at hand.
"""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from random import Random
from typing import IO, Literal, NamedTuple, Protocol

STEP_S = 10
WINDOW_S = 200

Service = Literal["conv", "code"]
SERVICES: tuple[Service, ...] = ("conv", "code")

COLUMNS = ("t_s", "context_tokens", "generated_tokens")
PUBLISHED_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
PUBLISHED_NAME = "AzureLLMInferenceTrace_{}.csv"
NAMES = ("azure_llm_2023_{}.csv.gz", PUBLISHED_NAME, f"{PUBLISHED_NAME}.gz")
FOLDERS = ("", "azure_llm", "data")
"""Where the traces may lie within a folder; `data` is their place in a clone of the dataset."""


class BadData(ValueError):
    """Data that is not there or can't be used; the sentence says where and what to do."""


class RequestStep(NamedTuple):
    requests_per_s: float
    prompt_tokens: float
    output_tokens: float


class Requests(Protocol):
    def window(self, service: Service, chance: Random) -> tuple[RequestStep, ...]:
        """What comes in one window, step by step."""


class Azure:
    """`folder` is where the two files of the trace lie, or the folder that this one is in."""

    def __init__(self, folder: Path) -> None:
        paths = zip(SERVICES, files_of(folder), strict=True)
        self._requests = {service: _read(path) for service, path in paths}

    def window(self, service: Service, chance: Random) -> tuple[RequestStep, ...]:
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


def steps_of(sums: Sequence[Sequence[float]]) -> tuple[RequestStep, ...]:
    """Means of (requests, prompt tokens, output tokens); a step without requests has the lengths
    of the whole window."""
    count, prompts, outputs = (sum(column) for column in zip(*sums, strict=True))
    usual = (prompts / count, outputs / count) if count else (1_000.0, 100.0)
    return tuple(
        RequestStep(n / STEP_S, max(1.0, prompt / n), max(1.0, output / n))
        if n
        else RequestStep(0.0, max(1.0, usual[0]), max(1.0, usual[1]))
        for n, prompt, output in sums
    )


def chained(
    requests: Requests, service: Service, windows: int, chance: Random
) -> list[RequestStep]:
    """A stream of requests: so many windows, one after the other."""
    return [step for _ in range(windows) for step in requests.window(service, chance)]


def files_of(data: Path | None) -> tuple[Path, ...]:
    """What is read of a folder of data."""
    return () if data is None else tuple(_find(data, service) for service in SERVICES)


def _find(folder: Path, service: Service) -> Path:
    for place in FOLDERS:
        for name in NAMES:
            path = folder / place / name.format(service)
            if path.is_file():
                return path
    raise BadData(
        f"there is no {PUBLISHED_NAME.format(service)} in {folder}; clone "
        "https://github.com/Azure/AzurePublicDataset and give its folder, or give none, for "
        "requests made up like theirs"
    )


def _read(path: Path) -> list[tuple[float, ...]]:
    """Seconds, prompt and output tokens of each request, in order of time."""
    try:
        with _opened(path) as file:
            requests = sorted(_rows(path, csv.DictReader(file)))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise BadData(f"{path} can't be read ({error}); fetch it again") from None
    if not requests or requests[-1][0] - requests[0][0] < WINDOW_S:
        raise BadData(f"{path} has less than the {WINDOW_S} s of a window; give a longer trace")
    return requests


def _opened(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _rows(path: Path, reader: csv.DictReader[str]) -> Iterator[tuple[float, ...]]:
    names = reader.fieldnames or ()
    columns = PUBLISHED_COLUMNS if PUBLISHED_COLUMNS[0] in names else COLUMNS
    for column in columns:
        if column not in names:
            raise BadData(f"{path}:1: there is no column {column}; name it in the first line")
    time, *lengths = columns
    began: datetime | None = None
    for row in reader:
        here = f"{path}:{reader.line_num}:"
        if columns is COLUMNS:
            at_s = _number(row[time], f"{here} {time}")
        else:
            at = _time_of_day(row[time], f"{here} {time}")
            began = began or at
            at_s = (at - began).total_seconds()
        yield (at_s, *(_number(row[column], f"{here} {column}") for column in lengths))


def _time_of_day(cell: str | None, place: str) -> datetime:
    try:
        return datetime.fromisoformat(cell or "").replace(tzinfo=None)
    except ValueError:
        raise BadData(
            f"{place} is {cell or 'missing'}; write a time such as 2023-11-16 18:17:03.9799600"
        ) from None


def _number(cell: str | None, place: str) -> float:
    try:
        number = float(cell or "")
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise BadData(f"{place} is {cell or 'missing'}; write a number that is not below 0")
    return number
