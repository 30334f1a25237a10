"""From a journal back to a running exchange, and the proof that a journal is sound.

A restart begins with a snapshot and executes everything after it. It takes not the newest
snapshot but the newest that leaves at least `REPLAYED` entries to execute, so that answers to
retries and streams to resume are there again after a crash. On the way it passes the newer
snapshots and compares digests.

`verify` does the same from the very first entry, link by link.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from laissez.exchange.execution import Execution
from laissez.exchange.journal import NO_LINK, Group, Journal, JournalError, link_of, unpack
from laissez.exchange.keys import Keys, key_name
from laissez.exchange.records import Entry
from laissez.exchange.venue import Venue

REPLAYED = 10_000

Progress = Callable[[int, int], None]


def no_progress(done: int, total: int) -> None:
    """Say nothing."""


def recover(journal: Journal, keys_kept: int, progress: Progress = no_progress) -> Execution:
    """The exchange's state after the last entry of a journal."""
    snapshots = journal.snapshots()
    begin = max((s for s, _ in snapshots if s <= journal.last.last - REPLAYED), default=0)
    venue = Venue.restore(unpack(journal.snapshot(begin).state)) if begin else Venue()
    execution = Execution(venue, begin, _older_keys(journal, begin, keys_kept))
    digests = {sequence: digest for sequence, digest in snapshots if sequence > begin}
    total = journal.last.last - begin
    for group in journal.groups(begin):
        _execute(execution, group, begin, digests)
        progress(group.last - begin, total)
    return execution


def _execute(execution: Execution, group: Group, begin: int, digests: dict[int, str]) -> None:
    for sequence, entry in enumerate(read(group), group.first):
        if sequence > begin:
            execution.execute(entry)
            expected = digests.get(sequence)
            if expected is not None and expected != execution.venue.digest():
                raise JournalError(
                    f"executing the journal up to {sequence} does not give the state that the "
                    "snapshot there holds; run `laissez journal verify`, and restore a backup"
                )


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
    keys = Keys(kept)
    if begin:
        newest_first = (
            (entry.author, entry.key, sequence)
            for group in journal.groups_backwards()
            for sequence, entry in _backwards(group)
            if sequence <= begin and entry.key is not None
        )
        found = [pair for pair, _ in zip(newest_first, range(kept), strict=False)]
        for author, key, sequence in reversed(found):
            keys.remember_place(key_name(author, key), sequence)
    return keys


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
    venue, link, expected, groups = Venue(), NO_LINK, 1, 0
    digests = dict(journal.snapshots())
    compared = 0
    for group in journal.groups():
        if group.first != expected:
            raise JournalError(f"entries {expected} to {group.first - 1} are missing")
        link = link_of(link, group.first, group.entries)
        if link != group.link:
            raise JournalError(
                f"the group of commands that begins at {group.first} is not what was written"
            )
        entries = read(group)
        if len(entries) != group.count:
            raise JournalError(f"the group at {group.first} says it has {group.count} entries")
        for sequence, entry in enumerate(entries, group.first):
            venue.apply(entry.do)
            if sequence in digests:
                compared += 1
                if venue.digest() != digests[sequence]:
                    raise JournalError(f"the snapshot at {sequence} does not match the commands")
        expected, groups = group.last + 1, groups + 1
        progress(group.last, journal.last.last)
    return Verified(expected - 1, venue.market.now, groups, compared, venue.digest())
