"""From a journal back to a running exchange, and the proof that a journal is sound.

A restart begins with a snapshot and executes everything after it. It takes not the newest
snapshot but the newest that leaves at least `REPLAYED` entries to execute, so that answers to
retries and streams to resume are there again after a crash. On the way it follows the links from
group to group, passes the newer snapshots and compares digests. A snapshot that can't be read is
left alone: it is only a shorter way back.

`verify` does the same from the very first entry, and looks at all snapshots.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

import msgspec

from laissez.exchange.execution import Execution
from laissez.exchange.journal import (
    NO_LINK,
    REPLAYED,
    Group,
    Journal,
    JournalError,
    link_of,
    unpack,
)
from laissez.exchange.keys import Keys, older_keys
from laissez.exchange.records import Entry
from laissez.exchange.venue import Venue

Progress = Callable[[int, int], None]


def no_progress(done: int, total: int) -> None:
    """Say nothing."""


def recover(journal: Journal, keys_kept: int, progress: Progress = no_progress) -> Execution:
    """The exchange's state after the last entry of a journal."""
    snapshots = journal.snapshots()
    begin, venue = _beginning(journal, journal.last.last - REPLAYED)
    execution = Execution(venue, begin, _older_keys(journal, begin, keys_kept))
    digests = {sequence: digest for sequence, digest in snapshots if sequence > begin}
    chain: _Chain | None = None
    for group in journal.groups(begin):
        chain = chain or _Chain(min(group.first, begin + 1), journal.link_before(group.first))
        entries = chain.follow(group)
        _execute(execution, entries[execution.sequence + 1 - group.first :], digests)
        progress(group.last - begin, journal.last.last - begin)
    _check_end(execution.sequence, snapshots)
    return execution


def _check_end(sequence: int, snapshots: list[tuple[int, str]]) -> None:
    """A snapshot is only taken of what is durable: none can be newer than the last entry."""
    if snapshots and snapshots[-1][0] > sequence:
        raise JournalError(
            f"entries {sequence + 1} to {snapshots[-1][0]} are missing; restore a backup"
        )


def _beginning(journal: Journal, latest: int) -> tuple[int, Venue]:
    """The newest snapshot up to a sequence number that is whole, or the very beginning."""
    for sequence, _ in reversed(journal.snapshots()):
        venue = _restored(journal, sequence) if sequence <= latest else None
        if venue is not None:
            return sequence, venue
    return 0, Venue()


def _restored(journal: Journal, sequence: int) -> Venue | None:
    """The state that a snapshot holds, None if it is damaged."""
    snapshot = journal.snapshot(sequence)
    if snapshot is None:
        return None
    try:
        venue = Venue.restore(unpack(snapshot.state))
    except (zlib.error, msgspec.MsgspecError):
        return None
    return venue if venue.digest() == snapshot.digest else None


def _execute(execution: Execution, entries: tuple[Entry, ...], digests: dict[int, str]) -> None:
    for entry in entries:
        execution.execute(entry)
        expected = digests.get(execution.sequence)
        if expected is not None and expected != execution.venue.digest():
            raise JournalError(
                f"executing the journal up to {execution.sequence} does not give the state that "
                "the snapshot there holds; run `laissez journal verify`, and restore a backup"
            )


class _Chain:
    """Follows the groups of a journal: each begins where the one before ended, and is linked."""

    def __init__(self, expected: int, link: bytes) -> None:
        self._expected = expected
        self._link = link

    def follow(self, group: Group) -> tuple[Entry, ...]:
        """The entries of the next group; raises `JournalError` if it is not what was written."""
        if group.first != self._expected:
            raise JournalError(
                f"entries {self._expected} to {group.first - 1} are missing; restore a backup"
            )
        self._link = link_of(self._link, group.first, group.entries)
        if self._link != group.link:
            raise JournalError(
                f"the group of commands that begins at {group.first} is not what was written; "
                "restore a backup"
            )
        entries = read(group)
        if not entries or len(entries) != group.count or entries[-1].do.at != group.at_us:
            raise JournalError(
                f"the group of commands that begins at {group.first} has {len(entries)} entries "
                f"and says that it has {group.count}, or gives a wrong time; restore a backup"
            )
        self._expected = group.last + 1
        return entries


def read(group: Group) -> tuple[Entry, ...]:
    try:
        return group.read()
    except msgspec.DecodeError as error:
        raise JournalError(
            f"the group of commands that begins at {group.first} can't be read ({error}); "
            "restore a backup, or use the version of laissez that wrote it"
        ) from None


def _older_keys(journal: Journal, begin: int, kept: int) -> Keys:
    """The keys that were used up to `begin`, as far back as they are remembered."""
    newest_first = (
        (entry.author, entry.key, sequence)
        for group in (journal.groups_backwards(begin) if begin else ())
        for sequence, entry in _backwards(group)
        if sequence <= begin and entry.key is not None
    )
    return older_keys(newest_first, kept)


def _backwards(group: Group) -> Iterator[tuple[int, Entry]]:
    return zip(range(group.last, group.first - 1, -1), reversed(read(group)), strict=True)


class Verified(msgspec.Struct, frozen=True):
    """What a sound journal holds."""

    sequence: int
    at_us: int
    groups: int
    snapshots_compared: int
    digest: str


def verify(journal: Journal, progress: Progress = no_progress) -> Verified:
    """Execute everything from the beginning; raises `JournalError` at the first thing wrong."""
    venue, chain, groups, reached = Venue(), _Chain(1, NO_LINK), 0, 0
    snapshots = journal.snapshots()
    digests = dict(snapshots)
    for group in journal.groups():
        for reached, entry in enumerate(chain.follow(group), group.first):
            venue.apply(entry.do)
            if reached in digests and venue.digest() != digests[reached]:
                raise JournalError(f"the snapshot at {reached} does not match the commands")
        groups += 1
        progress(group.last, journal.last.last)
    _check_end(reached, snapshots)
    journal.check_file()
    for sequence in digests:
        # A service that is running may have replaced it meanwhile.
        if journal.snapshot(sequence) is not None and _restored(journal, sequence) is None:
            raise JournalError(f"the snapshot at {sequence} is damaged; restore a backup")
    return Verified(reached, venue.market.now, groups, len(digests), venue.digest())
