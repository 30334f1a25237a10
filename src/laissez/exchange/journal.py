"""The journal: an SQLite file that holds every command ever sequenced, and some snapshots.

The commands are the truth; everything else can be worked out from them. They are written in
groups, one row and one disk sync a group (`synchronous=FULL`, write-ahead log), because a sync
costs the same for one command as for hundreds. A row holds the entries as a JSON array, the
sequence number of the first, and a link: the hash of the row's content and of the link before it,
so that a row that was changed, lost or moved is noticed.

Tokens and webhooks are kept in the same file, in tables of their own. A journal is written by one
process at a time (a lock file sees to that) and may be read by others meanwhile.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any

import msgspec

from laissez.exchange.access import Token
from laissez.exchange.records import Entry, read_entries

FORMAT = 1
FILE_NAME = "journal.sqlite"
NO_LINK = b""
# A group has some ten thousand bytes: larger pages mean fewer writes for it.
PAGE_BYTES = 16_384
# The exchange moves the log into the file before it has this many pages.
CHECKPOINT_PAGES = 16_000
# A restart executes at least this many entries again, if there are as many.
REPLAYED = 10_000
SNAPSHOTS_KEPT = 3

_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE groups (
    first INTEGER PRIMARY KEY, count INTEGER NOT NULL, at_us INTEGER NOT NULL,
    entries BLOB NOT NULL, link BLOB NOT NULL
);
CREATE TABLE snapshots (
    sequence INTEGER PRIMARY KEY, digest TEXT NOT NULL, state BLOB NOT NULL
);
CREATE TABLE tokens (id TEXT PRIMARY KEY, token TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE webhooks (
    id TEXT PRIMARY KEY, webhook TEXT NOT NULL, delivered INTEGER NOT NULL
) WITHOUT ROWID;
"""


class JournalError(Exception):
    """The journal can't be used as it is; the sentence says what to do."""


class FolderInUse(JournalError):
    """Another process writes to it."""


class NotDurable(Exception):
    """There was no room on the disk: nothing of it was written, and writing may work later."""


class JournalFailed(Exception):
    """The disk failed in a way that leaves open what was written; only a restart can tell."""


class Group(msgspec.Struct, frozen=True):
    """One row: the commands that one sync made durable."""

    first: int
    count: int
    at_us: int
    entries: bytes
    link: bytes

    def read(self) -> tuple[Entry, ...]:
        return read_entries(self.entries)

    @property
    def last(self) -> int:
        return self.first + self.count - 1


class Snapshot(msgspec.Struct, frozen=True):
    sequence: int
    digest: str
    state: bytes


def link_of(before: bytes, first: int, entries: bytes) -> bytes:
    return blake2b(before + first.to_bytes(8, "big") + entries, digest_size=16).digest()


class Journal:
    """One journal, open for writing or, with `read_only`, for looking at."""

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        self.path = folder / FILE_NAME
        self._opened = ExitStack()
        self.bytes_since_checkpoint = 0
        if read_only:
            if not self.path.exists():
                raise JournalError(f"there is no journal in {folder}; give the folder of one")
        else:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._opened.enter_context(_lock(folder))
        try:
            self.last = self._open(read_only)
        except BaseException as error:
            self.close()
            if isinstance(error, sqlite3.Error):
                raise JournalError(_why_not_opened(self.path, error)) from None
            raise

    def _open(self, read_only: bool) -> Group:
        """Connect, and give the last group there is."""
        if not read_only and not self.path.exists():
            _create(self.path)
        self._connection = _connect(self.path, "?mode=ro" if read_only else "")
        self._opened.callback(self._connection.close)
        self._check_format()
        if not read_only:
            self._execute("PRAGMA journal_mode=WAL")
            self._execute("PRAGMA synchronous=FULL")
            self._execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
        nothing_yet = Group(0, 1, 0, b"[]", NO_LINK)
        return next(self._groups("SELECT * FROM groups ORDER BY first DESC LIMIT 1"), nothing_yet)

    def close(self) -> None:
        self._opened.close()

    def _check_format(self) -> None:
        tables = self._execute("SELECT name FROM sqlite_schema WHERE name = 'meta'").fetchall()
        row = None
        if tables:
            row = self._execute("SELECT value FROM meta WHERE name = 'format'").fetchone()
        if row is None:
            raise JournalError(f"{self.path} is not a journal of laissez; move it away")
        if row[0] != str(FORMAT):
            raise JournalError(
                f"{self.path} is written in format {row[0]}, this laissez reads format {FORMAT}; "
                "use the version of laissez that wrote it"
            )

    def _execute(self, statement: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        return self._connection.execute(statement, values)

    # Commands ---------------------------------------------------------------------------------

    def append(self, first: int, count: int, at_us: int, entries: bytes) -> None:
        """Write one group and sync it to disk. Raises `NotDurable`, and then nothing was kept."""
        assert first == self.last.last + 1
        group = Group(first, count, at_us, entries, link_of(self.last.link, first, entries))
        self._write(
            "INSERT INTO groups VALUES (?, ?, ?, ?, ?)", (first, count, at_us, entries, group.link)
        )
        self.last = Group(first, count, at_us, b"", group.link)
        self.bytes_since_checkpoint += len(entries)

    def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        try:
            self._execute(statement, values)
        except sqlite3.Error as error:
            if self._connection.in_transaction:
                self._connection.rollback()
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
                raise NotDurable(str(error)) from error
            raise JournalFailed(str(error)) from error

    def checkpoint(self) -> None:
        """Move what is in the write-ahead log into the file itself, beside the writer: its syncs
        take long. It has a connection of its own, so any thread may call it."""
        self.bytes_since_checkpoint = 0
        connection = _connect(self.path)
        try:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
        finally:
            connection.close()

    def groups(self, after: int = 0) -> Iterator[Group]:
        """The groups that hold anything after a sequence number, in order."""
        return self._groups(
            "SELECT * FROM groups WHERE first >= "
            "coalesce((SELECT max(first) FROM groups WHERE first <= ?), 0) "
            "AND first + count - 1 > ? ORDER BY first",
            (after + 1, after),
        )

    def groups_backwards(self, until: int) -> Iterator[Group]:
        """The groups that begin at a sequence number or before it, newest first."""
        return self._groups("SELECT * FROM groups WHERE first <= ? ORDER BY first DESC", (until,))

    def link_before(self, first: int) -> bytes:
        """The link to which the group that begins at a sequence number is joined."""
        statement = "SELECT link FROM groups WHERE first < ? ORDER BY first DESC LIMIT 1"
        return next((row[0] for row in self._rows((bytes,), statement, (first,))), NO_LINK)

    def _groups(self, statement: str, values: tuple[Any, ...] = ()) -> Iterator[Group]:
        rows = self._rows((int, int, int, bytes, bytes), statement, values)
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

    # Snapshots --------------------------------------------------------------------------------

    def save_snapshot(
        self, snapshot: Snapshot, *, apart: int = REPLAYED, keep: int = SNAPSHOTS_KEPT
    ) -> None:
        """Add a snapshot, and forget older ones.

        Of every `apart` entries only the newest snapshot stays. Otherwise a few restarts in a
        row would leave none that is old enough to begin with.
        """
        self._write("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?)", _row(snapshot))
        self._write(
            "DELETE FROM snapshots WHERE sequence NOT IN (SELECT max(sequence) FROM snapshots "
            "GROUP BY sequence / ? ORDER BY 1 DESC LIMIT ?)",
            (apart, keep),
        )

    def snapshots(self) -> list[tuple[int, str]]:
        """Sequence number and digest of each, oldest first."""
        rows = self._rows((int, str), "SELECT sequence, digest FROM snapshots ORDER BY sequence")
        return [(sequence, digest) for sequence, digest in rows]

    def snapshot(self, sequence: int) -> Snapshot | None:
        """The snapshot at a sequence number, None if it is no longer kept."""
        statement = "SELECT * FROM snapshots WHERE sequence = ?"
        rows = self._rows((int, str, bytes), statement, (sequence,))
        return next((Snapshot(*row) for row in rows), None)

    # Tokens and webhooks ----------------------------------------------------------------------

    def tokens(self) -> list[Token]:
        rows = self._rows((str, str), "SELECT id, token FROM tokens")
        try:
            return [msgspec.json.decode(token, type=Token) for _, token in rows]
        except msgspec.DecodeError as error:
            raise JournalError(
                f"{self.path} is damaged: a token can't be read ({error}); restore a backup"
            ) from None

    def save_token(self, token: Token) -> None:
        self._write(
            "INSERT OR REPLACE INTO tokens VALUES (?, ?)",
            (token.id, msgspec.json.encode(token).decode()),
        )

    def webhooks(self) -> list[tuple[str, int]]:
        """Each webhook as JSON, with the sequence number up to which it was delivered."""
        rows = self._rows((str, int), "SELECT webhook, delivered FROM webhooks ORDER BY id")
        return [(webhook, delivered) for webhook, delivered in rows]

    def save_webhook(self, webhook_id: str, webhook: str, delivered: int) -> None:
        self._write(
            "INSERT OR REPLACE INTO webhooks VALUES (?, ?, ?)", (webhook_id, webhook, delivered)
        )

    def save_delivered(self, webhook_id: str, delivered: int) -> None:
        """How far a webhook has got, if it is still there."""
        self._write("UPDATE webhooks SET delivered = ? WHERE id = ?", (delivered, webhook_id))

    def remove_webhook(self, webhook_id: str) -> None:
        self._write("DELETE FROM webhooks WHERE id = ?", (webhook_id,))

    # The file ---------------------------------------------------------------------------------

    def check_file(self) -> None:
        """Raise `JournalError` unless the file is a whole database and its tokens can be read."""
        (found,) = next(self._rows((str,), "PRAGMA integrity_check(1)"))
        if found != "ok":
            raise JournalError(f"{self.path} is damaged ({found}); restore a backup")
        self.tokens()
        self.webhooks()

    def backup(self, target: Path) -> None:
        """A consistent copy, also while another process writes."""
        if target.exists():
            raise JournalError(f"{target} exists already; name a new file")
        target.touch(mode=0o600)
        copy = sqlite3.connect(target)
        try:
            self._connection.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
        finally:
            copy.close()


def _why_not_opened(path: Path, error: sqlite3.Error) -> str:
    if isinstance(error, sqlite3.OperationalError):
        return f"{path} can't be opened ({error}); see that there is room and you may write there"
    return f"{path} can't be read as a journal ({error}); move it away, or restore a backup"


def _row(snapshot: Snapshot) -> tuple[int, str, bytes]:
    return snapshot.sequence, snapshot.digest, snapshot.state


def pack(state: bytes) -> bytes:
    return zlib.compress(state, 1)


def unpack(state: bytes) -> bytes:
    return zlib.decompress(state)


def _connect(path: Path, options: str = "") -> sqlite3.Connection:
    uri = path.absolute().as_uri() + options
    # One thread at a time uses it: the caller sees to that.
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)


def _create(path: Path) -> None:
    """Make an empty journal under another name first, so that there is never half of one."""
    unfinished = path.with_suffix(".new")
    for leftover in path.parent.glob(unfinished.name + "*"):
        leftover.unlink()
    unfinished.touch(mode=0o600)
    with closing(sqlite3.connect(unfinished)) as connection:
        connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
        connection.executescript(_SCHEMA)
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
