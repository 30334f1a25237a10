"""What the exchange needs of a journal, whatever keeps it: every command ever sequenced, in groups.

The commands are the truth; everything else can be worked out from them. They are appended in
groups, one durable write a group, because a write costs the same for one command as for hundreds.
A group holds its entries as a JSON array, the sequence number of the first, the rules of the
market under which they are executed, and a link: the hash of its content and of the link before
it, so that a group that was changed, lost or moved is noticed. Beside the groups stand snapshots,
a shorter way back, and bookmarks: how far somebody has got who follows the journal.

`SqliteJournal` is the one that needs nothing but a folder. A journal is written by one process at
a time. `append` and everything else that waits for a disk may block for as long as the disk likes:
the caller has a thread for that (see `writer`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Protocol

import msgspec

from laissez.exchange.records import Entry, read_entries

NO_LINK = b""
# A restart executes at least this many entries again, if there are as many.
REPLAYED = 10_000
SNAPSHOTS_KEPT = 3


class JournalError(Exception):
    """The journal can't be used as it is; the sentence says what to do."""


class FolderInUse(JournalError):
    """Another process writes to it."""


class NotDurable(Exception):
    """There was no room on the disk: nothing of it was written, and writing may work later."""


class JournalFailed(Exception):
    """The disk failed in a way that leaves open what was written; only a restart can tell."""


class Head(msgspec.Struct, frozen=True):
    """The end of a journal: its last entry, and what the next group is linked to. An empty one
    has no rules yet: 0."""

    sequence: int
    at_us: int
    link: bytes
    rules: int


class Group(msgspec.Struct, frozen=True):
    """The commands that one write made durable."""

    first: int
    count: int
    at_us: int
    entries: bytes
    link: bytes
    rules: int

    def read(self) -> tuple[Entry, ...]:
        return read_entries(self.entries)

    @property
    def last(self) -> int:
        return self.first + self.count - 1


class Snapshot(msgspec.Struct, frozen=True):
    """The state after an entry, packed; `digest` is its hash among states of the same rules.

    `keys` are those that were remembered then, packed as well: they follow from the entries, but
    from very old ones, too.
    """

    sequence: int
    rules: int
    digest: str
    state: bytes
    keys: bytes = b""


class SnapshotLabel(msgspec.Struct, frozen=True):
    """What is known of a snapshot without reading it."""

    sequence: int
    rules: int
    digest: str


class Journal(Protocol):
    @property
    def name(self) -> str:
        """What to call it in a sentence: a folder, or an address without its password."""

    @property
    def head(self) -> Head:
        """The end, as this process knows it."""

    @property
    def shown_until_us(self) -> int:
        """The latest instant that was shown to anybody, as far as it was noted."""

    def note_shown(self, at_us: int) -> None:
        """Note an instant that was shown: time goes on from there after a restart."""

    def append(self, first: int, count: int, at_us: int, rules: int, entries: bytes) -> None:
        """Write one group durably. Raises `NotDurable`, and then nothing was kept, or
        `JournalFailed`."""

    def groups(self, after: int = 0) -> Iterator[Group]:
        """The groups that hold anything after a sequence number, in order."""

    def groups_backwards(self, until: int) -> Iterator[Group]:
        """The groups that begin at a sequence number or before it, newest first."""

    def link_before(self, first: int) -> bytes:
        """The link to which the group that begins at a sequence number is joined."""

    def rules_since(self) -> list[tuple[int, int]]:
        """The sequence number with which each version of the rules begins, and that version."""

    def note_writer(self, rules: int, laissez: str) -> None:
        """Note which laissez writes under these rules from now on."""

    def writer_of(self, rules: int) -> str | None:
        """The last laissez that wrote under these rules, None if that is not known."""

    def carried_over(self) -> tuple[Entry, ...]:
        """What an upgrade of the journal's format has to add; to be appended before all else."""

    def forget_carried_over(self) -> None: ...

    def save_snapshot(
        self, snapshot: Snapshot, *, apart: int = REPLAYED, keep: int = SNAPSHOTS_KEPT
    ) -> None:
        """Add a snapshot, and forget older ones: of every `apart` entries only the newest stays,
        so that a few restarts in a row leave one that is old enough to begin with. That with
        which the present rules begin stays for good, where others ruled before."""

    def snapshots(self) -> list[SnapshotLabel]:
        """All there are, oldest first."""

    def snapshot(self, sequence: int, rules: int) -> Snapshot | None:
        """One of them, None if it is no longer kept."""

    def bookmarks(self) -> dict[str, int]:
        """How far everybody has got who follows the journal, by name."""

    def save_bookmark(self, name: str, sequence: int) -> None: ...

    def remove_bookmark(self, name: str) -> None: ...

    def is_upkeep_due(self) -> bool:
        """Is there housekeeping to do, beside the writer?"""

    def upkeep(self) -> None:
        """Do it; any one thread may call this while another appends."""

    def check(self) -> None:
        """Raise `JournalError` unless what keeps the journal is whole."""

    def backup(self, target: Path) -> None:
        """A consistent copy, also while another process writes."""

    def close(self) -> None: ...


def link_of(before: bytes, first: int, entries: bytes) -> bytes:
    return blake2b(before + first.to_bytes(8, "big") + entries, digest_size=16).digest()


def pack(state: bytes) -> bytes:
    return zlib.compress(state, 1)


def unpack(state: bytes) -> bytes:
    return zlib.decompress(state)
