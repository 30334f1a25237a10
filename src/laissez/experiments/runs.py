"""Runs many tasks that know nothing of each other: on all cores, and each only once.

A task is a frozen value, and all that its result depends on: beside it there are only the folder of
data and the code. So its key is a digest of the task, of the files of data, and of the source of
every room that has a say in a result; a change of code never shows old numbers. Results are JSON,
and what comes from a run has been through JSON, too: it is the same as what comes from the cache.

Processes send back results, and only here are they written down, each when it comes: what was done
before Ctrl-C need not be done again. A file of the cache appears whole or not at all; one that is
damaged, or is another's, is as good as none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import lru_cache, partial
from hashlib import blake2b
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TypeVar

import msgspec

from laissez.experiments.processes import ReportDone, run_all

HOUSE = Path(__file__).parent.parent
DECIDING_ROOMS = (
    *("experiments", "simulation", "adapters", "inframaps", "performance", "market", "model"),
    *("exchange", "deadline", "amounts", "documents"),
    "topology",  # a scenario is read where it runs
)
"""The rooms whose code decides the result of a run."""
PICTURES = (
    "experiments/contract_pictures.py",
    "experiments/deadline/",
    "experiments/figures/contention_tables.py",
    "experiments/life_picture.py",
    "experiments/page.py",
    "experiments/picture_file.py",
    "experiments/scenario/picture.py",
)
"""What lies in them but decides nothing."""
DIGEST_BYTES = 16

Task = TypeVar("Task", bound=msgspec.Struct)
Result = TypeVar("Result")


class BadCache(ValueError):
    """A folder that can't hold results; the sentence says what to do."""


class CodeChanged(RuntimeError):
    """Somebody edits the source under a process that has read half of it."""


class CachedResult(msgspec.Struct, frozen=True):
    """A file of the cache. The task is for people who look at it."""

    key: str
    task: msgspec.Raw
    result: msgspec.Raw
    check: str
    """A digest of the result, for disks that lie."""


class Cache:
    """Results on disk, by key."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "runs" / code_digest()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadCache(
                f"results can't be kept in {folder}: {error.strerror}; give another folder with "
                "--cache, or keep none with --no-cache"
            ) from None

    def path(self, key: str) -> Path:
        return self._folder / f"{key}.json"

    def get(self, key: str) -> bytes | None:
        """The result as JSON."""
        try:
            kept = msgspec.json.decode(self.path(key).read_bytes(), type=CachedResult)
        except (OSError, msgspec.MsgspecError):
            return None
        result = bytes(kept.result)
        return result if kept.key == key and kept.check == digest([result]) else None

    def put(self, key: str, task: msgspec.Struct, result: bytes) -> None:
        """A full disk costs the file, not the run."""
        kept = CachedResult(
            key, msgspec.Raw(msgspec.json.encode(task)), msgspec.Raw(result), digest([result])
        )
        with suppress(OSError):
            _write_whole(self.path(key), msgspec.json.encode(kept) + b"\n")


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where results are kept if nobody says."""
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "laissez"


class Runs:
    """What all tasks of a figure have in common: data, cache, processes, and who looks on."""

    def __init__(
        self,
        *,
        data: Path | None = None,
        files: Iterable[Path] = (),
        cache: Cache | None = None,
        processes: int | None = None,
        progress: ReportDone | None = None,
    ) -> None:
        """`data` is what every task is told; `files` are those that are read there."""
        self.data = data
        self._data_digest = digest(path.read_bytes() for path in files)
        self._cache = cache
        self._processes = processes
        self._progress = progress

    def key(self, task: msgspec.Struct, run: Callable[..., object]) -> str:
        kind = type(task)
        names = (run.__module__, run.__qualname__, kind.__module__, kind.__qualname__)
        parts = (code_digest(), self._data_digest, *names)
        return digest([*(part.encode() for part in parts), msgspec.json.encode(task)])

    def all(
        self,
        tasks: Sequence[Task],
        run: Callable[[Task, Path | None], Result],
        result: type[Result],
    ) -> list[Result]:
        """The result of each task, in their order; `run` is a function that a module has by name.

        Equal tasks are run once.
        """
        by_key = {self.key(task, run): task for task in tasks}
        found: dict[str, Result] = {}
        for key in by_key:
            kept = None if self._cache is None else self._cache.get(key)
            if kept is not None:
                # The key pins the code, so only another's file can have another form.
                with suppress(msgspec.MsgspecError):
                    found[key] = msgspec.json.decode(kept, type=result)
        missing = [key for key in by_key if key not in found]
        self._tell(len(found), len(by_key))
        worker = partial(_worker, run, self.data, code_digest())
        with closing(run_all(worker, [by_key[key] for key in missing], self._processes)) as done:
            for at, encoded in done:
                key = missing[at]
                if self._cache is not None:
                    self._cache.put(key, by_key[key], encoded)
                found[key] = msgspec.json.decode(encoded, type=result)
                self._tell(len(found), len(by_key))
        return [found[self.key(task, run)] for task in tasks]

    def _tell(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(done, total)


# --- digests and files --------------------------------------------------------------------------


def digest(parts: Iterable[bytes]) -> str:
    """Of all parts, and of where one ends and the next begins."""
    whole = blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        whole.update(len(part).to_bytes(8))
        whole.update(part)
    return whole.hexdigest()


@lru_cache
def code_digest() -> str:
    """Of the source that decides results, and of the Python that runs it."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return digest([version.encode(), *source_parts()])


def source_parts(house: Path = HOUSE) -> Iterator[bytes]:
    """The names and texts of all deciding files, in the order of their names."""
    for room in DECIDING_ROOMS:
        for path in sorted((house / room).rglob("*.py")):
            name = path.relative_to(house).as_posix()
            if not name.startswith(PICTURES):
                yield name.encode()
                yield path.read_bytes()


def _write_whole(path: Path, content: bytes) -> None:
    """The file is there with all its content, or as it was before."""
    with NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
        part = Path(file.name)
        try:
            file.write(content)
            file.close()
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


# --- in a process -------------------------------------------------------------------------------


def _worker(
    run: Callable[[Task, Path | None], Result], data: Path | None, code: str
) -> Callable[[Task], bytes]:
    """Runs tasks as long as the code is still that of this digest; results are JSON."""

    def work(task: Task) -> bytes:
        if code != code_digest():
            raise CodeChanged("the source of laissez was changed while it ran; run it again")
        return msgspec.json.encode(run(task, data))

    return work
