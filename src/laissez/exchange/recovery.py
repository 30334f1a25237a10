"""From a journal back to a running exchange, and the proof that a journal is sound.

A restart begins with a snapshot and executes everything after it. It takes not the newest
snapshot but the newest that leaves at least `REPLAYED` entries to execute, so that answers to
retries and streams to resume are there again after a crash. On the way it follows the links from
group to group, passes the newer snapshots and compares digests. A snapshot that can't be read is
left alone: it is only a shorter way back.

Entries are executed under the rules that wrote them, never under others. So where the rules have
changed, a journal goes on from a snapshot of the older version's that stands at its very end,
converted, and everything before it is history. Entries after the last such snapshot are finished
by the version that wrote them, which takes a snapshot when it stops.

`verify` executes everything that was written under this version's rules, from the very first entry
or from the converted snapshot, and looks at all snapshots. What others wrote it follows by the
links, and says how far that goes.
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
    SnapshotLabel,
    link_of,
    unpack,
)
from laissez.exchange.keys import Keys, older_keys
from laissez.exchange.records import Entry, write_entries
from laissez.exchange.snapshots import take
from laissez.exchange.venue import Venue

ReportProgress = Callable[[int, int], None]


def no_progress(done: int, total: int) -> None:
    """Say nothing."""


class NotExecuted(JournalError):
    """An entry is durable, and this laissez can't execute it."""


def recover(journal: Journal, keys_kept: int, progress: ReportProgress = no_progress) -> Execution:
    """The exchange's state after the last entry of a journal."""
    head = journal.head
    ruled_from = _ruled_from(journal)
    labels = [label for label in journal.snapshots() if label.rules == Venue.rules]
    begin, venue = _beginning(journal, labels, head.sequence - REPLAYED, ruled_from)
    execution = Execution(venue, begin, _keys_at(journal, begin, keys_kept))
    digests = {label.sequence: label.digest for label in labels if label.sequence > begin}
    chain: _Chain | None = None
    for group in journal.groups(begin):
        chain = chain or _Chain(min(group.first, begin + 1), journal.link_before(group.first))
        entries = chain.follow(group)
        _execute(execution, entries[execution.sequence + 1 - group.first :], digests)
        progress(group.last - begin, head.sequence - begin)
    _check_end(execution.sequence, labels)
    return execution


# Other versions of the rules ------------------------------------------------------------------


def _ruled_from(journal: Journal) -> int:
    """The number of the last entry before those that were written under our rules, 0 if there is
    none. Raises `JournalError` if the journal is not ours to go on with."""
    if journal.head.rules > Venue.rules:
        raise JournalError(
            f"the journal in {journal.name} was written under version {journal.head.rules} of the "
            f"market's rules by {_writer(journal, journal.head.rules)}, and this laissez knows "
            f"version {Venue.rules}; install that laissez or a newer one"
        )
    since = journal.rules_since()
    ours = [first for first, rules in since if rules == Venue.rules]
    if len(ours) == len(since):
        return 0
    return ours[0] - 1 if ours else journal.head.sequence


def make_ready(journal: Journal) -> None:
    """Bring a journal to where it can go on under our rules; raises `JournalError`.

    Where an older version of the rules wrote last, its last snapshot is converted; then whatever an
    upgrade of the format has to add is appended.
    """
    _convert_last_snapshot(journal)
    entries = journal.carried_over()
    if entries:
        _ruled_from(journal)
        head = journal.head
        at = max(head.at_us, entries[-1].do.at)
        data = write_entries(list(entries))
        journal.append(head.sequence + 1, len(entries), at, Venue.rules, data)
        # A crash before this appends them once more: what is granted twice is granted once.
        journal.forget_carried_over()


def _convert_last_snapshot(journal: Journal) -> None:
    head = journal.head
    if not 0 < head.rules < Venue.rules:
        return
    labels = [label for label in journal.snapshots() if label.sequence == head.sequence]
    if any(label.rules == Venue.rules for label in labels):
        return  # begun the last time
    for label in labels:
        venue, snapshot = _restored(journal, label), journal.snapshot(label.sequence, label.rules)
        if venue is not None and snapshot is not None:
            converted = take(venue, head.sequence)
            journal.save_snapshot(msgspec.structs.replace(converted, keys=snapshot.keys))
            return
    newest = max((each.sequence for each in journal.snapshots()), default=0)
    raise JournalError(
        f"entries {newest + 1} to {head.sequence} in {journal.name} were written under version "
        f"{head.rules} of the market's rules, after the last snapshot, and only "
        f"{_writer(journal, head.rules)} can finish them: start it on that folder once, stop "
        "it with SIGTERM, and then start this one again"
    )


def _writer(journal: Journal, rules: int) -> str:
    found = journal.writer_of(rules)
    return "the laissez that wrote them" if found is None else f"laissez {found}"


# The way back ---------------------------------------------------------------------------------


def _check_end(sequence: int, labels: list[SnapshotLabel]) -> None:
    """A snapshot is only taken of what is durable: none can be newer than the last entry."""
    if labels and labels[-1].sequence > sequence:
        raise JournalError(
            f"entries {sequence + 1} to {labels[-1].sequence} are missing; restore a backup"
        )


def _beginning(
    journal: Journal, labels: list[SnapshotLabel], latest: int, ruled_from: int
) -> tuple[int, Venue]:
    """The newest snapshot up to a sequence number that is whole, or where our rules begin."""
    for label in reversed(labels):
        if ruled_from < label.sequence <= latest:
            venue = _restored(journal, label)
            if venue is not None:
                return label.sequence, venue
    return ruled_from, _where_rules_begin(journal, labels, ruled_from)


def _where_rules_begin(journal: Journal, labels: list[SnapshotLabel], ruled_from: int) -> Venue:
    if not ruled_from:
        return Venue()
    for label in labels:
        if label.sequence == ruled_from and (venue := _restored(journal, label)) is not None:
            return venue
    raise JournalError(
        f"the snapshot at {ruled_from}, with which version {Venue.rules} of the market's rules "
        "begins, is missing or damaged; restore a backup"
    )


def _restored(journal: Journal, label: SnapshotLabel) -> Venue | None:
    """The state that a snapshot holds, None if it is damaged."""
    snapshot = journal.snapshot(label.sequence, label.rules)
    if snapshot is None:
        return None
    try:
        venue = Venue.restore(unpack(snapshot.state))
    except (zlib.error, msgspec.MsgspecError, ValueError):
        return None
    if label.rules == Venue.rules and venue.digest() != snapshot.digest:
        return None
    return venue


def _execute(execution: Execution, entries: tuple[Entry, ...], digests: dict[int, str]) -> None:
    for entry in entries:
        try:
            execution.execute(entry)
        except Exception as error:
            raise NotExecuted(_not_executed(execution.sequence, entry, error)) from error
        expected = digests.get(execution.sequence)
        if expected is not None and expected != execution.venue.digest():
            raise JournalError(
                f"executing the journal up to {execution.sequence} does not give the state that "
                "the snapshot there holds; run `laissez journal verify`, and restore a backup"
            )


def _not_executed(sequence: int, entry: Entry, error: Exception) -> str:
    return (
        f"entry {sequence} ({type(entry.do).__name__} by {entry.author}) can't be executed by this "
        f"laissez ({type(error).__name__}: {error}); the journal is whole: install a laissez "
        "without this fault, and report it"
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

    def follow_link(self, group: Group) -> None:
        """As `follow`, for a group whose entries another version wrote: they need not be ours to
        read."""
        if group.first != self._expected or group.link != link_of(
            self._link, group.first, group.entries
        ):
            raise JournalError(
                f"the group of commands that begins at {group.first} is not what was written; "
                "restore a backup"
            )
        self._link = group.link
        self._expected = group.last + 1


def read(group: Group) -> tuple[Entry, ...]:
    try:
        return group.read()
    except msgspec.DecodeError as error:
        raise JournalError(
            f"the group of commands that begins at {group.first} can't be read ({error}); "
            "restore a backup, or use the version of laissez that wrote it"
        ) from None


def _keys_at(journal: Journal, begin: int, kept: int) -> Keys:
    """The keys that were remembered after an entry: from the snapshot there, if it has them."""
    snapshot = journal.snapshot(begin, Venue.rules) if begin else None
    if snapshot is not None and snapshot.keys:
        try:
            return Keys.read(unpack(snapshot.keys), kept)
        except (zlib.error, msgspec.MsgspecError) as error:
            raise JournalError(
                f"the keys in the snapshot at {begin} can't be read ({error}); restore a backup"
            ) from None
    return _older_keys(journal, begin, kept)


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


# The proof ------------------------------------------------------------------------------------


class Verified(msgspec.Struct, frozen=True):
    """What a sound journal holds.

    `executed_from` to `sequence` were executed and have `digest`. What stands before and after
    was written under other rules: its links are whole, and only the laissez that wrote it can
    execute it.
    """

    executed_from: int
    sequence: int
    at_us: int
    groups: int
    snapshots_compared: int
    digest: str
    last: int


def verify(journal: Journal, progress: ReportProgress = no_progress) -> Verified:
    """Execute everything from the beginning; raises `JournalError` at the first thing wrong."""
    head = journal.head
    chain = _Chain(1, NO_LINK)
    labels = [label for label in journal.snapshots() if label.rules == Venue.rules]
    digests = {label.sequence: label.digest for label in labels}
    venue: Venue | None = None
    groups, executed_from, reached, last = 0, 1, 0, 0
    for group in journal.groups():
        if group.rules == Venue.rules:
            if venue is None:
                executed_from, reached = group.first, group.first - 1
                venue = _where_rules_begin(journal, labels, reached if groups else 0)
            reached = _verify_group(venue, chain.follow(group), group.first, digests)
        else:
            chain.follow_link(group)
        groups, last = groups + 1, group.last
        progress(group.last, head.sequence)
    if last < head.sequence:
        raise JournalError(f"entries {last + 1} to {head.sequence} are missing; restore a backup")
    _check_end(last, labels)
    journal.check()
    for label in labels:
        # A service that is running may have replaced it meanwhile.
        is_there = journal.snapshot(label.sequence, label.rules) is not None
        if is_there and _restored(journal, label) is None:
            raise JournalError(f"the snapshot at {label.sequence} is damaged; restore a backup")
    if venue is None:
        venue = Venue()
        if last:  # nothing of it is ours: it was followed, and nothing was executed
            executed_from = last + 1
            reached = last
    return Verified(
        executed_from, reached, venue.market.now, groups, len(labels), venue.digest(), last
    )


def _verify_group(
    venue: Venue, entries: tuple[Entry, ...], first: int, digests: dict[int, str]
) -> int:
    """Execute a group; the number of its last entry."""
    sequence = first - 1
    for sequence, entry in enumerate(entries, first):
        try:
            venue.apply(entry.do)
        except Exception as error:
            raise NotExecuted(_not_executed(sequence, entry, error)) from error
        if sequence in digests and venue.digest() != digests[sequence]:
            raise JournalError(f"the snapshot at {sequence} does not match the commands")
    return sequence
