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
from laissez.exchange.records import Entry, Record, StartWebhook
from laissez.exchange.recovery import ReportProgress, no_progress, read, verify
from laissez.exchange.sqlite_journal import FILE_NAME, SqliteJournal

FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.group()
def journal() -> None:
    """Check, export and copy a journal.

    FOLDER is where the service keeps its journal. It may be running.
    """


@contextmanager
def _opened(folder: Path) -> Iterator[SqliteJournal]:
    if not (folder / FILE_NAME).exists():
        raise click.UsageError(f"there is no journal in {folder}; give the folder of one")
    (folder / FILE_NAME).open("rb").close()  # who may not read it should hear that, and no more
    opened = SqliteJournal(folder, read_only=True)
    try:
        yield opened
    finally:
        opened.close()


@journal.command("info")
@click.argument("folder", type=FOLDER)
@json_option
def info(folder: Path, as_json: bool) -> None:
    """Say how much a journal holds, and in which format."""
    with _opened(folder) as opened:
        told = JournalInfo(
            path=str(opened.path),
            size_bytes=_size_bytes(opened.path),
            format=opened.format,
            sequence=opened.head.sequence,
            at=opened.head.at_us,
            snapshots=tuple(label.sequence for label in opened.snapshots()),
            rules=opened.head.rules,
            written_by=opened.writer_of(opened.head.rules),
        )
    if as_json:
        say_json(told)
        return
    rows = [
        ("file", told.path),
        ("size", f"{told.size_bytes:,} bytes"),
        ("format", f"{told.format}"),
        ("last entry", f"{told.sequence:,}" if told.sequence else "none yet"),
        ("written", show_time(told.at, clock.now_us()) if told.sequence else ""),
        ("snapshots at", ", ".join(f"{each:,}" for each in told.snapshots) or "none yet"),
        ("rules", f"version {told.rules}" if told.sequence else ""),
        ("written by", f"laissez {told.written_by}" if told.written_by else "not known"),
    ]
    made = table("", "", rows=rows)
    made.show_header = False
    say(made)


def _size_bytes(path: Path) -> int:
    """What a journal takes on the disk: much of it may still be in the write-ahead log."""
    log = path.with_name(f"{path.name}-wal")
    return path.stat().st_size + (log.stat().st_size if log.exists() else 0)


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
                found.executed_from,
                found.sequence,
                found.last,
                found.at_us,
                found.groups,
                found.snapshots_compared,
                found.digest,
            )
        )
        return
    say(
        f"sound: {counted(found.last, 'command')} in {counted(found.groups, 'group')}, "
        f"{counted(found.snapshots_compared, 'snapshot')} compared"
    )
    for first, last in ((1, found.executed_from - 1), (found.sequence + 1, found.last)):
        if first <= last:
            say(
                f"{first} to {last} were written under other rules: every link of theirs is whole, "
                "and only the laissez that wrote them can execute them"
            )
    say(f"digest {found.digest}")


class _ExportedLine(msgspec.Struct):
    sequence: int
    at_us: int
    author: str
    key: str | None
    do: Record


@journal.command("export")
@click.argument("folder", type=FOLDER)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="A file.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
@json_option
def export(folder: Path, output: Path | None, force: bool, as_json: bool) -> None:
    """Write every entry as a line of JSON, to stdout or a file.

    Each line has sequence, at_us, author, key and do: who asked for what, when.
    """
    with _opened(folder) as opened:
        if output is None:
            _export(opened, sys.stdout.buffer, no_progress)
            return
        if output.is_file() and not force:
            raise click.UsageError(f"{output} is there already; name a new file, or say --force")
        with output.open("wb") as file, progress_bar("exporting", as_json=as_json) as progress:
            count = _export(opened, file, progress)
    if as_json:
        say_json(JournalExported(str(output), count))
    else:
        say(f"{count:,} entries are in {output}")


def _export(opened: SqliteJournal, file: BinaryIO, progress: ReportProgress) -> int:
    encoder, count = msgspec.json.Encoder(), 0
    for group in opened.groups():
        entries: tuple[Entry, ...] = read(group)
        lines = [
            _ExportedLine(sequence, entry.do.at, entry.author, entry.key, _without_secret(entry.do))
            for sequence, entry in enumerate(entries, group.first)
        ]
        file.write(encoder.encode_lines(lines))
        count += len(lines)
        progress(group.last, opened.head.sequence)
    file.flush()
    return count


def _without_secret(do: Record) -> Record:
    """An export is passed around; the secret that signs a webhook's posts is not to be."""
    if not isinstance(do, StartWebhook):
        return do
    return StartWebhook(do.at, msgspec.structs.replace(do.webhook, secret=""))


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
