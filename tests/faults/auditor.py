"""An auditor with a market of its own: every promise of the service is held against the journal.

Between two lives of the service the auditor copies the journal's files, as a crash has left them,
and executes what is new in the copy. It then knows what every command did and who was to be told
what, and compares: each acknowledged command stands where it was acknowledged, said what it did,
and no key stands there twice; each stream told everything once, in order; each bill is right to
the last unit; each snapshot holds the state that the commands give.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from faults.ledger import Acknowledged, Billed, Heard, Ledger, Violation
from faults.trader import Trader
from laissez.exchange.execution import Execution
from laissez.exchange.feeds import KEPT_FOR_OPERATOR, KEPT_PER_TENANT
from laissez.exchange.journal import NO_LINK, REPLAYED, Group, link_of, unpack
from laissez.exchange.keys import Keys
from laissez.exchange.records import Entry
from laissez.exchange.recovery import recover, verify
from laissez.exchange.sequencing import record_of
from laissez.exchange.sqlite_journal import FILE_NAME, SqliteJournal
from laissez.exchange.venue import Venue
from laissez.model import Happened, Notice

KEYS_KEPT = 10_000_000


class Done(msgspec.Struct, frozen=True):
    """A journaled command, and what its author was to be told."""

    entry: Entry
    told: tuple[Notice, ...]


class _Stream:
    """All that one stream was to tell."""

    def __init__(self) -> None:
        self.events: dict[int, tuple[Notice, ...]] = {}

    def push(self, sequence: int, message: bytes) -> None:
        self.events[sequence] = msgspec.json.decode(message, type=Happened).events


class Auditor:
    def __init__(self, ledger: Ledger, traders: list[Trader]) -> None:
        self._ledger = ledger
        self._traders = traders
        self._execution = Execution(Venue(), 0, Keys(KEYS_KEPT))
        self._link, self._at = NO_LINK, 0
        self._done: list[Done] = []
        self._used: dict[tuple[str, str], int] = {}
        self._streams = {trader.tenant: _Stream() for trader in traders}
        for tenant, stream in self._streams.items():
            self._execution.feeds.listen(tenant, stream)
        self.snapshots_compared = 0
        self.bills_compared = 0

    @property
    def sequence(self) -> int:
        return self._execution.sequence

    @property
    def digest(self) -> str:
        return self._execution.venue.digest()

    def audit(self, folder: Path) -> None:
        """Compare everything since the last audit; the service must not be running."""
        self._ledger.check()
        with copied(folder) as journal:
            self._catch_up(journal)
        for acknowledged in self._ledger.acknowledged:
            self._check_acknowledged(acknowledged)
        for author, key, code in self._ledger.refused:
            if (author, key) in self._used:
                raise Violation(f"{key} of {author} was refused ({code}), and is in the journal")
        for trader in self._traders:
            self._check_stream(trader)
        self._ledger.acknowledged.clear()
        self._ledger.refused.clear()

    def audit_whole(self, folder: Path) -> None:
        """Execute everything once more from the beginning, and recover as the service does."""
        with copied(folder) as journal:
            found = verify(journal)
            recovered = recover(journal, KEYS_KEPT)
        if (found.sequence, found.digest) != (self.sequence, self.digest):
            raise Violation(f"all {self.sequence} entries executed anew give another state")
        if (recovered.sequence, recovered.venue.digest()) != (self.sequence, self.digest):
            raise Violation(f"recovery up to {self.sequence} gives another state")

    def check_last_snapshot(self, folder: Path) -> None:
        """The state in which the service stopped is the one that its commands give."""
        with copied(folder) as journal:
            label = journal.snapshots()[-1]
            snapshot = journal.snapshot(label.sequence, label.rules)
        sequence, digest = label.sequence, label.digest
        assert snapshot is not None
        restored = Venue.restore(unpack(snapshot.state)).digest()
        if sequence != self.sequence:
            raise Violation(f"it stopped at {self.sequence} with a snapshot at {sequence}")
        if not digest == restored == self.digest:
            raise Violation(f"the state at {sequence} is not the one that the commands give")

    # The journal ------------------------------------------------------------------------------

    def _catch_up(self, journal: SqliteJournal) -> None:
        if journal.head.sequence < self.sequence:
            raise Violation(f"entries {journal.head.sequence + 1} to {self.sequence} are gone")
        digests = {label.sequence: label.digest for label in journal.snapshots()}
        bills: dict[int, list[Billed]] = {}
        for billed in self._ledger.bills:
            bills.setdefault(billed.sequence, []).append(billed)
        self._check_bills(bills)
        for group in journal.groups(self.sequence):
            self._check_group(group)
            for entry in group.read():
                self._execute(entry)
                if self.sequence in digests:
                    self.snapshots_compared += 1
                    if digests[self.sequence] != self.digest:
                        raise Violation(f"the snapshot at {self.sequence} holds another state")
            self._check_bills(bills)
        if bills:
            raise Violation(f"bills were told at {sorted(bills)}, where no group ends")
        self._ledger.bills.clear()

    def _check_group(self, group: Group) -> None:
        self._link = link_of(self._link, group.first, group.entries)
        if group.first != self.sequence + 1:
            raise Violation(f"after {self.sequence} the journal goes on with {group.first}")
        if group.link != self._link:
            raise Violation(f"the group at {group.first} is not linked to the one before")
        entries = group.read()
        if len(entries) != group.count or {entry.do.at for entry in entries} != {group.at_us}:
            raise Violation(f"the group at {group.first} is not what it says it is")
        if group.at_us < self._at:
            raise Violation(f"time went back from {self._at} to {group.at_us} at {group.first}")
        self._at = group.at_us

    def _execute(self, entry: Entry) -> None:
        self._done.append(Done(entry, self._execution.execute(entry)))
        if entry.key is not None:
            before = self._used.setdefault((entry.author, entry.key), self.sequence)
            if before != self.sequence:
                raise Violation(
                    f"{entry.key} of {entry.author} acted at {before} and at {self.sequence}"
                )

    # What clients were told -------------------------------------------------------------------

    def _check_acknowledged(self, known: Acknowledged) -> None:
        answer, name = known.answer, f"{known.key} of {known.author}"
        if answer.sequence > self.sequence:
            raise Violation(f"{name} was acknowledged at {answer.sequence} and is lost")
        done = self._done[answer.sequence - 1]
        if (done.entry.author, done.entry.key) != (known.author, known.key):
            raise Violation(f"{name} is not at {answer.sequence}, but {done.entry} is")
        at = done.entry.do.at
        if done.entry.do != record_of(known.do, known.tenant, at, answer.sequence):
            raise Violation(f"{name} asked for {known.do}, written down was {done.entry.do}")
        is_forgotten = answer.repeated and answer.at == 0 and not answer.events
        if is_forgotten and answer.sequence + REPLAYED <= self.sequence:
            return
        if (answer.at, answer.events) != (at, done.told):
            raise Violation(f"{name} was told {answer}, and did {done.told}")

    def _check_bills(self, bills: dict[int, list[Billed]]) -> None:
        market = self._execution.venue.market
        for billed in bills.pop(self.sequence, ()):
            self.bills_compared += 1
            owed = {tenant: market.bill(tenant, billed.at) for tenant in billed.charges}
            if owed != billed.charges:
                raise Violation(f"bills at {self.sequence} are {owed}, told were {billed.charges}")
            if billed.is_complete and sum(owed.values()) != market.revenue(billed.at):
                raise Violation(f"bills at {self.sequence} do not add up to the revenue")

    def _check_stream(self, trader: Trader) -> None:
        """Everything was told once, or the client was told that it missed something."""
        heard, to_tell = trader.heard, self._streams[trader.tenant].events
        if heard.begun_after is None:
            return
        missed = {
            sequence
            for part in heard.missed
            for sequence in to_tell
            if part.after < sequence <= part.until
        }
        expected = {
            sequence: events
            for sequence, events in to_tell.items()
            if heard.begun_after < sequence <= heard.last and sequence not in missed
        }
        if expected != heard.events:
            wrong = sorted(
                sequence
                for sequence in expected.keys() | heard.events.keys()
                if expected.get(sequence) != heard.events.get(sequence)
            )
            raise Violation(f"the stream of {trader.author} is not as it happened at {wrong[:5]}")
        self._check_missed(trader, heard)
        heard.begun_after = heard.last
        heard.events.clear()
        heard.missed.clear()

    def _check_missed(self, trader: Trader, heard: Heard) -> None:
        """Whoever resumed in time must not be sent away."""
        kept = KEPT_FOR_OPERATOR if trader.tenant is None else KEPT_PER_TENANT
        to_tell = self._streams[trader.tenant].events
        for part in heard.missed:
            count = sum(part.after < sequence <= part.until for sequence in to_tell)
            if part.resumed and count <= kept and part.after + REPLAYED >= part.until:
                raise Violation(f"{trader.author} could not resume after {part.after}")


@contextmanager
def copied(folder: Path) -> Iterator[SqliteJournal]:
    """A copy of a journal as it lies on the disk, opened as if after a crash."""
    with tempfile.TemporaryDirectory(prefix="laissez-audit-") as name:
        for suffix in ("", "-wal"):
            source = folder / (FILE_NAME + suffix)
            if source.exists():
                shutil.copy(source, name)
        journal = SqliteJournal(Path(name))
        try:
            yield journal
        finally:
            journal.close()
