"""What an adapter's runner remembers from one run to the next.

Orders and holdings are the exchange's to remember, and are read back at every step. What remains is
what the application knows (its progress, its load), when it all began, what had been charged by
then, how far the stream was heard, and why each open order was placed.

The file is replaced whole, never written into: a crash leaves the old one or the new one. While an
adapter runs it has a lock beside the file, so that no two of them trade with one memory.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

NO_STATE = msgspec.Raw(b"null")


class BadMemory(ValueError):
    """A memory that can't be used, and what to do about it."""


class Remembered(msgspec.Struct):
    """All that is remembered; `charge_before` is the bill when the budget began, `told_us` the last
    instant that the application was told of."""

    name: str
    began_us: int
    charge_before: int | None = None
    sequence: int | None = None
    told_us: int = 0
    whys: dict[str, str] = msgspec.field(default_factory=dict)
    app: msgspec.Raw = NO_STATE

    def app_state(self) -> bytes | None:
        return None if bytes(self.app) == bytes(NO_STATE) else bytes(self.app)


class AdapterMemory:
    """What is kept, and the file that it is kept in; without a file it lasts as long as the run."""

    def __init__(self, kept: Remembered, path: Path | None = None) -> None:
        self.kept = kept
        self._path = path
        self._written = b""

    def save(self) -> None:
        """Write it down, if anything has changed."""
        encoded = msgspec.json.encode(self.kept)
        if self._path is None or encoded == self._written:
            return
        fresh = self._path.with_name(f"{self._path.name}.new")
        try:
            with fresh.open("wb") as file:
                file.write(encoded)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._path)
        except OSError:
            with contextlib.suppress(OSError):
                fresh.unlink()
            raise
        self._written = encoded


@contextlib.contextmanager
def alone_with(path: Path) -> Iterator[None]:
    """Whoever is in here is the only one who runs with the memory in this file; else BadMemory.

    Where nothing can be written there is no lock; nor will there be a memory, and that is said.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            lock = stack.enter_context(path.with_name(f"{path.name}.lock").open("wb"))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BadMemory(
                    f"an adapter with the memory {path} is running already; stop it first"
                ) from None
        yield


def read_memory(path: Path, name: str) -> Remembered | None:
    """What an adapter of this name kept in a file; None if there is no such file."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    advice = (
        "restore it from a copy, or begin anew with --fresh: then budget and deadline count from "
        "now again"
    )
    try:
        kept = msgspec.json.decode(text, type=Remembered)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadMemory(f"{path} is not the memory of an adapter ({error}); {advice}") from None
    if kept.name != name:
        raise BadMemory(
            f"{path} is the memory of an adapter named {kept.name!r}, not {name!r}; name another "
            "file with --memory, or begin anew with --fresh"
        )
    return kept
