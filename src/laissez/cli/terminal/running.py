"""Commands that run what a file describes until they are stopped: how they read it, how they log,
and how they end.

Ctrl-C, SIGTERM and the end of `--for` are the same wish to stop, and what runs ends tidily; a
second Ctrl-C ends it as it is. Whoever reads the log and goes away stops it, too.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

import click

from laissez.cli.terminal.amounts import show_clock
from laissez.cli.terminal.connection import CA_VARIABLE, PATIENCE_S
from laissez.cli.terminal.exits import BadFile, FileProblem
from laissez.cli.terminal.output import say, say_json
from laissez.cli.terminal.parameters import duration
from laissez.client import AsyncClient
from laissez.documents import BadDocument
from laissez.runners.entries import EntryLog, RunnerEntry, sentence

US_PER_S = 1_000_000

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)

for_option = click.option("--for", "for_us", type=duration, help="Stop by itself after so long.")

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
UntilStopped = Callable[[AsyncClient, asyncio.Event, EntryLog], Awaitable[None]]


@contextmanager
def mistakes_shown(file: Path) -> Iterator[None]:
    """What is wrong with a file that somebody wrote is shown at its line."""
    try:
        yield
    except UnicodeDecodeError:
        raise BadFile(f"{file} is no text in UTF-8; save it as that") from None
    except BadDocument as error:
        places = tuple(
            FileProblem(error.file_name, each.line, each.column, each.sentence)
            for each in error.problems
        )
        raise BadFile(f"the file can't be used:\n{error}", places) from None


class FileReader(Protocol[T_co]):
    def __call__(self, text: str, *, file_name: str) -> T_co: ...


def read_file(file: Path, reader: FileReader[T]) -> T:
    """What a file says, as a reader understands it."""
    with mistakes_shown(file):
        return reader(file.read_text(), file_name=str(file))


def run_until_stopped(work: UntilStopped, *, for_us: int | None, as_json: bool) -> None:
    """Connect, and work until somebody or something wants it to stop."""
    asyncio.run(_run(work, for_us, as_json))


async def _run(work: UntilStopped, for_us: int | None, as_json: bool) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def stop_once() -> None:
        stop.set()
        loop.remove_signal_handler(signal.SIGINT)

    # In the background of a script the shell has Ctrl-C ignored; it is not meant for us then.
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGINT, stop_once)
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    if for_us is not None:
        loop.call_later(for_us / US_PER_S, stop.set)
    log = _Printed(stop, as_json)
    ca_file = os.environ.get(CA_VARIABLE)
    async with AsyncClient(retry_for_s=PATIENCE_S, ca_file=ca_file) as client:
        await work(client, stop, log)
    if log.broken is not None:
        raise log.broken


class _Printed:
    """A log on stdout, line by line."""

    def __init__(self, stop: asyncio.Event, as_json: bool) -> None:
        self.broken: BrokenPipeError | None = None
        self._stop = stop
        self._as_json = as_json

    def __call__(self, entry: RunnerEntry) -> None:
        if self.broken is not None:
            return
        try:
            if self._as_json:
                say_json(entry)
            else:
                say(f"{show_clock(entry.at)}  {entry.name}  {sentence(entry)}")
            sys.stdout.flush()
        except BrokenPipeError as error:
            self.broken = error
            self._stop.set()
