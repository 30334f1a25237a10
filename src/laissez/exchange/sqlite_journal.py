"""A journal in an SQLite file: one row a group, one disk sync a row (`synchronous=FULL`, WAL).

Beside the file stand a lock, so that one process writes at a time (others may read meanwhile), and
the head: a small file that says how far the journal reached, rewritten after every sync and before
anything is acknowledged. SQLite takes a write-ahead log that is damaged or gone for one that never
was, and goes back to an earlier state without a word; the head is what notices. It is not synced
itself: after a crash of the machine it may be behind, never ahead.

Files of format 1 are upgraded when they are opened for writing, in one transaction, and can be
read as they are.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import IO, Any

from laissez.exchange.head_file import HeadFile
from laissez.exchange.journal import (
    NO_LINK,
    REPLAYED,
    SNAPSHOTS_KEPT,
    FolderInUse,
    Group,
    Head,
    JournalError,
    JournalFailed,
    NotDurable,
    Snapshot,
    SnapshotLabel,
    link_of,
)
from laissez.exchange.records import Entry, read_entries
from laissez.exchange.sqlite_format import FORMAT, FORMATS_READ, SCHEMA, VIEWS_OF_FORMAT_1, upgrade

FILE_NAME = "journal.sqlite"
# A group has some ten thousand bytes: larger pages mean fewer writes for it.
PAGE_BYTES = 16_384
# `upkeep` moves the log into the file before it has this many pages.
CHECKPOINT_PAGES = 16_000
CHECKPOINT_BYTES = 8 << 20
# Whoever opens a file while another process begins or ends its log waits this long for it.
PATIENCE_S = 5.0

_NEWEST = "SELECT first + count - 1, at_us, link, rules FROM groups ORDER BY first DESC LIMIT 1"
_GROUPS = "SELECT first, count, at_us, entries, link, rules FROM groups"


class SqliteJournal:
    """One journal, open for writing or, with `read_only`, for looking at."""

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        self.path = folder / FILE_NAME
        self._opened = ExitStack()
        self._bytes_since_upkeep = 0
        self._head_file: HeadFile | None = None
        self.shown_until_us = 0
        if read_only:
            if not self.path.exists():
                raise JournalError(f"there is no journal in {folder}; give the folder of one")
        else:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._opened.enter_context(_lock(folder))
        try:
            self.head = self._open(read_only)
        except BaseException as error:
            self.close()
            if isinstance(error, sqlite3.Error):
                raise JournalError(_why_not_opened(self.path, error)) from None
            raise

    @property
    def name(self) -> str:
        return str(self.path.parent)

    def _open(self, read_only: bool) -> Head:
        """Connect, and give the end of the journal."""
        if not read_only and not self.path.exists():
            _create(self.path)
        # Before the file: while another process writes, the file may only be ahead of its head.
        noted = HeadFile.read(self.path)
        self._connection = _connect(self.path, "?mode=ro" if read_only else "")
        self._opened.callback(self._connection.close)
        written_in = self._format()
        self.format = written_in if read_only else FORMAT
        if not read_only:
            self._execute("PRAGMA journal_mode=WAL")
            self._execute("PRAGMA synchronous=FULL")
            self._execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
            if written_in != FORMAT:
                upgrade(self._connection, written_in)
        elif written_in != FORMAT:
            self._connection.executescript(VIEWS_OF_FORMAT_1)
        newest = next(self._rows((int, int, bytes, int), _NEWEST), None)
        head = Head(0, 0, NO_LINK, 0) if newest is None else Head(*newest)
        if noted is not None:
            self.shown_until_us = noted.at_us
            self._check_tail(head, noted.sequence, noted.link)
        if not read_only:
            self._head_file = self._opened.enter_context(closing(HeadFile(self.path)))
            self._head_file.write(head.sequence, self.shown_until_us, head.link)
        return head

    def _check_tail(self, head: Head, sequence: int, link: bytes) -> None:
        """Does the journal reach as far as it did, by the way it went?"""
        if head.sequence < sequence:
            raise JournalError(
                f"entries {head.sequence + 1} to {sequence} of {self.path} are missing: they were "
                "written, but its write-ahead log is damaged or gone; put back "
                f"{self.path.name}-wal, or restore a backup with all its files. If this is a "
                f"backup, or to go on without them, remove {HeadFile.path_beside(self.path)}"
            )
        if sequence and self.link_before(sequence + 1) != link:
            raise JournalError(
                f"{self.path} is not the journal that {HeadFile.path_beside(self.path).name} "
                f"stands beside: entry {sequence} is another one; restore a backup with all its "
                "files"
            )

    def close(self) -> None:
        self._opened.close()

    def _format(self) -> int:
        tables = self._execute("SELECT name FROM sqlite_schema WHERE name = 'meta'").fetchall()
        row = None
        if tables:
            row = self._execute("SELECT value FROM meta WHERE name = 'format'").fetchone()
        if row is None:
            raise JournalError(f"{self.path} is not a journal of laissez; move it away")
        if row[0] not in map(str, FORMATS_READ):
            raise JournalError(
                f"{self.path} is written in format {row[0]}, this laissez reads format {FORMAT}; "
                "use the version of laissez that wrote it, or a newer one"
            )
        return int(row[0])

    def _execute(self, statement: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    # Commands ---------------------------------------------------------------------------------

    def append(self, first: int, count: int, at_us: int, rules: int, entries: bytes) -> None:
        assert first == self.head.sequence + 1
        link = link_of(self.head.link, first, entries)
        self._write(
            "INSERT INTO groups VALUES (?, ?, ?, ?, ?, ?)",
            (first, count, at_us, entries, link, rules),
        )
        self.head = Head(first + count - 1, at_us, link, rules)
        self._bytes_since_upkeep += len(entries)
        self._write_head()

    def note_shown(self, at_us: int) -> None:
        self.shown_until_us = max(self.shown_until_us, at_us)
        self._write_head()

    def _write_head(self) -> None:
        if self._head_file is not None:
            try:
                self._head_file.write(self.head.sequence, self.shown_until_us, self.head.link)
            except OSError as error:
                raise JournalFailed(f"the head can't be written: {error}") from error

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        try:
            self._execute(statement, values)
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.rollback()
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                raise NotDurable(str(error)) from error
            raise JournalFailed(str(error)) from error

    def is_upkeep_due(self) -> bool:
        return self._bytes_since_upkeep >= CHECKPOINT_BYTES

    def upkeep(self) -> None:
        """Move what is in the write-ahead log into the file itself: its syncs take long. It has a
        connection of its own."""
        self._bytes_since_upkeep = 0
        with closing(_connect(self.path)) as connection:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def groups(self, after: int = 0) -> Iterator[Group]:
        return self._groups(
            f"{_GROUPS} WHERE first >= "
            "coalesce((SELECT max(first) FROM groups WHERE first <= ?), 0) "
            "AND first + count - 1 > ? ORDER BY first",
            (after + 1, after),
        )

    def groups_backwards(self, until: int) -> Iterator[Group]:
        return self._groups(f"{_GROUPS} WHERE first <= ? ORDER BY first DESC", (until,))

    def link_before(self, first: int) -> bytes:
        statement = "SELECT link FROM groups WHERE first < ? ORDER BY first DESC LIMIT 1"
        return next((row[0] for row in self._rows((bytes,), statement, (first,))), NO_LINK)

    def rules_since(self) -> list[tuple[int, int]]:
        # Rules never fall, so the beginnings are found by halving; looking at every group would
        # read the whole file.
        found: list[tuple[int, int]] = []
        at = 1
        while (group := self._rules_from(at)) is not None:
            first, rules = group
            found.append((first, rules))
            if rules == self.head.rules:
                break
            below, above = first, self.head.sequence
            while below < above:
                middle = (below + above + 1) // 2
                later = self._rules_from(middle)
                if later is not None and later[1] == rules:
                    below = max(middle, later[0])
                else:
                    above = middle - 1
            at = below + 1
        return found

    def _rules_from(self, first: int) -> tuple[int, int] | None:
        """The first group that begins there or later, and its rules."""
        statement = "SELECT first, rules FROM groups WHERE first >= ? ORDER BY first LIMIT 1"
        rows = self._rows((int, int), statement, (first,))
        return next(((found, rules) for found, rules in rows), None)

    def _groups(self, statement: str, values: tuple[Any, ...] = ()) -> Iterator[Group]:
        rows = self._rows((int, int, int, bytes, bytes, int), statement, values)
        return (Group(*row) for row in rows)

    def _rows(
        self, types: tuple[type, ...], statement: str, values: tuple[Any, ...] = ()
    ) -> Iterator[tuple[Any, ...]]:
        """What a statement finds; SQLite keeps anything in any column, so types are looked at."""
        try:
            for row in self._execute(statement, values):
                if tuple(map(type, row)) != types:
                    raise JournalError(
                        f"{self.path} is damaged: what it keeps under {row[0]!r} is not what was "
                        "written; restore a backup"
                    )
                yield row
        except sqlite3.DatabaseError as error:
            raise JournalError(
                f"{self.path} is damaged and can't be read further ({error}); restore a backup"
            ) from None

    # Who wrote it -----------------------------------------------------------------------------

    def writer_of(self, rules: int) -> str | None:
        statement = "SELECT value FROM meta WHERE name = ?"
        found = self._rows((str,), statement, (_writer_name(rules),))
        return next((row[0] for row in found), None)

    def note_writer(self, rules: int, laissez: str) -> None:
        if self.writer_of(rules) != laissez:
            self._write("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_writer_name(rules), laissez))

    # What an upgrade left -----------------------------------------------------------------------

    def carried_over(self) -> tuple[Entry, ...]:
        there = "SELECT 1 FROM sqlite_schema WHERE name = 'carried_over'"
        if not self._execute(there).fetchall():
            return ()
        rows = self._rows((str,), "SELECT entry FROM carried_over ORDER BY place")
        return tuple(entry for row in rows for entry in read_entries(row[0].encode()))

    def forget_carried_over(self) -> None:
        self._write("DROP TABLE IF EXISTS carried_over", ())

    # Snapshots --------------------------------------------------------------------------------

    def save_snapshot(
        self, snapshot: Snapshot, *, apart: int = REPLAYED, keep: int = SNAPSHOTS_KEPT
    ) -> None:
        self._write(
            "INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?, ?, ?)",
            (snapshot.sequence, snapshot.rules, snapshot.digest, snapshot.state, snapshot.keys),
        )
        self._write(
            "DELETE FROM snapshots WHERE rules < ?1 "
            "OR sequence NOT IN (SELECT max(sequence) FROM snapshots WHERE rules = ?1 "
            "GROUP BY sequence / ?2 ORDER BY 1 DESC LIMIT ?3) "
            "AND NOT (sequence = (SELECT min(sequence) FROM snapshots WHERE rules = ?1) "
            "AND coalesce((SELECT rules FROM groups ORDER BY first LIMIT 1), ?1) < ?1)",
            (snapshot.rules, apart, keep),
        )

    def snapshots(self) -> list[SnapshotLabel]:
        statement = "SELECT sequence, rules, digest FROM snapshots ORDER BY sequence, rules"
        return [SnapshotLabel(*row) for row in self._rows((int, int, str), statement)]

    def snapshot(self, sequence: int, rules: int) -> Snapshot | None:
        statement = (
            "SELECT sequence, rules, digest, state, keys FROM snapshots "
            "WHERE sequence = ? AND rules = ?"
        )
        rows = self._rows((int, int, str, bytes, bytes), statement, (sequence, rules))
        return next((Snapshot(*row) for row in rows), None)

    # Bookmarks --------------------------------------------------------------------------------

    def bookmarks(self) -> dict[str, int]:
        return dict(self._rows((str, int), "SELECT name, sequence FROM bookmarks"))

    def save_bookmark(self, name: str, sequence: int) -> None:
        self._write("INSERT OR REPLACE INTO bookmarks VALUES (?, ?)", (name, sequence))

    def remove_bookmark(self, name: str) -> None:
        self._write("DELETE FROM bookmarks WHERE name = ?", (name,))

    # The file ---------------------------------------------------------------------------------

    def check(self) -> None:
        (found,) = next(self._rows((str,), "PRAGMA integrity_check(1)"))
        if found != "ok":
            raise JournalError(f"{self.path} is damaged ({found}); restore a backup")
        self.bookmarks()

    def backup(self, target: Path) -> None:
        if target.exists():
            raise JournalError(f"{target} exists already; name a new file")
        target.touch(mode=0o600)
        copy = sqlite3.connect(target)
        try:
            self._connection.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
        finally:
            copy.close()


def _writer_name(rules: int) -> str:
    return f"laissez of rules {rules}"


def _why_not_opened(path: Path, error: sqlite3.Error) -> str:
    if isinstance(error, sqlite3.OperationalError):
        return f"{path} can't be opened ({error}); see that there is room and you may write there"
    return f"{path} can't be read as a journal ({error}); move it away, or restore a backup"


def _connect(path: Path, options: str = "") -> sqlite3.Connection:
    uri = path.absolute().as_uri() + options
    # One thread at a time uses it: the caller sees to that.
    return sqlite3.connect(
        uri, uri=True, isolation_level=None, check_same_thread=False, timeout=PATIENCE_S
    )


def _create(path: Path) -> None:
    """Make an empty journal under another name first, so that there is never half of one."""
    unfinished = path.with_suffix(".new")
    for leftover in path.parent.glob(unfinished.name + "*"):
        leftover.unlink()
    unfinished.touch(mode=0o600)
    with closing(sqlite3.connect(unfinished)) as connection:
        connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
        connection.executescript(SCHEMA)
        connection.execute("INSERT INTO meta VALUES ('format', ?)", (str(FORMAT),))
        connection.commit()
    os.replace(unfinished, path)
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder as durable as what it names."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lock(folder: Path) -> IO[bytes]:
    lock = (folder / "lock").open("wb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise
        raise FolderInUse(
            f"another laissez is running on {folder}; stop it first, or use another folder"
        ) from None
    return lock
