"""Looking after a journal: these commands read its file and need no service.

All of them also work while the service writes to it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click
import msgspec

from laissez.cli.terminal import clock
from laissez.cli.terminal.amounts import counted, show_time
from laissez.cli.terminal.documents import JournalCopied, JournalExported, JournalInfo, JournalSound
from laissez.cli.terminal.output import json_option, progress_bar, say, say_json, table
from laissez.exchange.journal import FILE_NAME, Journal
from laissez.exchange.records import Entry, Record
from laissez.exchange.recovery import Progress, no_progress, read, verify

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group()
def journal() -> None:
    """Check, export and copy a journal.

    FOLDER is where the service keeps its journal. It may be running.
    """


@contextmanager
def _opened(folder: Path) -> Iterator[Journal]:
    if not (folder / FILE_NAME).exists():
        raise click.UsageError(f"there is no journal in {folder}; give the folder of one")
    (folder / FILE_NAME).open("rb").close()  # who may not read it should hear that, and no more
    opened = Journal(folder, read_only=True)
    try:
        yield opened
    finally:
        opened.close()


@journal.command("info")
@click.argument("folder", type=FOLDER)
@json_option
def info(folder: Path, as_json: bool) -> None:
    """Say how much a journal holds."""
    with _opened(folder) as opened:
        told = JournalInfo(
            path=str(opened.path),
            size_bytes=opened.path.stat().st_size,
            sequence=opened.last.last,
            at=opened.last.at_us,
            snapshots=tuple(sequence for sequence, _ in opened.snapshots()),
            tokens=len(opened.tokens()),
            webhooks=len(opened.webhooks()),
        )
    if as_json:
        say_json(told)
        return
    rows = [
        ("file", told.path),
        ("size", f"{told.size_bytes:,} bytes"),
        ("last entry", f"{told.sequence:,}" if told.sequence else "none yet"),
        ("written", show_time(told.at, clock.now_us()) if told.sequence else ""),
        ("snapshots at", ", ".join(f"{each:,}" for each in told.snapshots) or "none yet"),
        ("tokens", f"{told.tokens:,}"),
        ("webhooks", f"{told.webhooks:,}"),
    ]
    made = table("", "", rows=rows)
    made.show_header = False
    say(made)


@journal.command("verify")
@click.argument("folder", type=FOLDER)
@json_option
def verify_journal(folder: Path, as_json: bool) -> None:
    """Prove that a journal is sound.

    Checks every link, executes every entry from the first, and compares the state with each
    snapshot. Exits with 6 at the first thing that is wrong.
    """
    with _opened(folder) as opened, progress_bar("verifying", as_json=as_json) as progress:
        found = verify(opened, progress)
    if as_json:
        say_json(
            JournalSound(
                found.sequence, found.at_us, found.groups, found.snapshots_compared, found.digest
            )
        )
    else:
        say(
            f"sound: {counted(found.sequence, 'command')} in "
            f"{counted(found.groups, 'group')}, "
            f"{counted(found.snapshots_compared, 'snapshot')} compared\ndigest {found.digest}"
        )


class _ExportedLine(msgspec.Struct):
    sequence: int
    at_us: int
    author: str
    key: str | None
    do: Record


@journal.command("export")
@click.argument("folder", type=FOLDER)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file.")
@json_option
def export(folder: Path, output: Path | None, as_json: bool) -> None:
    """Write every entry as a line of JSON, to stdout or a file.

    Each line has sequence, at_us, author, key and do: who asked for what, when.
    """
    with _opened(folder) as opened:
        if output is None:
            _export(opened, sys.stdout.buffer, no_progress)
            return
        with output.open("wb") as file, progress_bar("exporting", as_json=as_json) as progress:
            count = _export(opened, file, progress)
    if as_json:
        say_json(JournalExported(str(output), count))
    else:
        say(f"{count:,} entries are in {output}")


def _export(opened: Journal, file: BinaryIO, progress: Progress) -> int:
    encoder, count = msgspec.json.Encoder(), 0
    for group in opened.groups():
        entries: tuple[Entry, ...] = read(group)
        lines = [
            _ExportedLine(sequence, entry.do.at, entry.author, entry.key, entry.do)
            for sequence, entry in enumerate(entries, group.first)
        ]
        file.write(encoder.encode_lines(lines))
        count += len(lines)
        progress(group.last, opened.last.last)
    file.flush()
    return count


@journal.command("backup")
@click.argument("folder", type=FOLDER)
@click.argument("target", type=click.Path(path_type=Path))
@json_option
def backup(folder: Path, target: Path, as_json: bool) -> None:
    """Copy a journal to a new folder, also while it is written to.

    TARGET is a folder like any journal's: a service can run on it.
    """
    with _opened(folder) as opened:
        copy = target / FILE_NAME
        if copy.exists():
            raise click.UsageError(f"there is a journal in {target} already; name a new folder")
        target.mkdir(parents=True, exist_ok=True, mode=0o700)
        opened.backup(copy)
    size_bytes = copy.stat().st_size
    if as_json:
        say_json(JournalCopied(str(copy), size_bytes))
    else:
        say(f"{copy} is a copy, of {size_bytes:,} bytes; check it: laissez journal verify {target}")
