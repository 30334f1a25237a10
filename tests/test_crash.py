"""Whatever ends the service or harms its journal, nothing acknowledged is lost without a word.

`make torture` does the first of these for longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from faults.ledger import Acknowledged, Ledger, Violation
from faults.ordeal import SETTINGS, Death, Ordeal
from faults.process import Service, is_running
from faults.talk import ask
from laissez.exchange import recovery
from laissez.exchange.journal import JournalError
from laissez.exchange.pipeline import Settings
from laissez.exchange.records import Entry, Record, write_entries
from laissez.exchange.recovery import recover, verify
from laissez.exchange.snapshots import take
from laissez.exchange.sqlite_journal import FILE_NAME, SqliteJournal
from laissez.exchange.venue import Venue
from laissez.market import RULES
from laissez.model import AddResource, Answer, OfferResource, Place, PlaceOrder, Release, SetFloor
from serving import make_tokens, served

GROUPS, GROUP = 12, 10
KEYS_KEPT = 1_000


# The service is killed ------------------------------------------------------------------------


def test_kills_lose_nothing(tmp_path: Path) -> None:
    """Killed under load, in a snapshot and on the way up, it keeps every promise it made."""
    plan: list[Death] = ["load", "snapshot", "start", "load", "stop", "load"]
    outcome = asyncio.run(Ordeal(tmp_path / "journal", seed=7, large=800).run(plan, lambda _: None))
    assert outcome.deaths == {"load": 3, "snapshot": 1, "start": 1, "stop": 1}
    assert outcome.acknowledged > 0
    assert outcome.retries > 0
    assert outcome.streams_resumed > 0
    assert outcome.bills_compared > 0
    assert outcome.snapshots_compared > 0


def test_an_orphaned_snapshot_holds_nothing_back(tmp_path: Path) -> None:
    """A snapshot's child that outlives its service keeps neither the port nor the journal."""
    folder = tmp_path / "journal"
    secrets = make_tokens(folder, "operator")
    service = Service(folder, SETTINGS)
    orphans: list[int] = []
    try:
        service.start("faults.slow_snapshots")
        service.wait_until_ready()
        offers = [OfferResource(f"a/g{number}") for number in range(SETTINGS.snapshot_every)]
        ask(service.url, secrets["operator"], *offers)
        orphans = wait_for(service.children)
        service.kill()
        assert all(is_running(orphan) for orphan in orphans)

        service.start()
        service.wait_until_ready()
        again = ask(service.url, secrets["operator"], OfferResource("a/more"))[0]
        assert isinstance(again, Answer)
        token = 1
        assert again.sequence == token + SETTINGS.snapshot_every + 1
        assert all(is_running(orphan) for orphan in orphans)
        service.kill()
    finally:
        service.close()
        for orphan in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(orphan, signal.SIGKILL)


def wait_for(found: Callable[[], list[int]]) -> list[int]:
    latest = time.monotonic() + 60
    while time.monotonic() < latest:
        if children := found():
            return children
        time.sleep(0.01)
    raise AssertionError("no snapshot was taken")


def test_a_journal_has_one_owner(tmp_path: Path) -> None:
    """A second process is told who is in the way; a reader is welcome."""
    owner = SqliteJournal(tmp_path)
    with pytest.raises(JournalError, match="another laissez is running on"):
        SqliteJournal(tmp_path)
    SqliteJournal(tmp_path, read_only=True).close()
    owner.close()
    SqliteJournal(tmp_path).close()


# The auditor, audited -------------------------------------------------------------------------


def an_ordeal(folder: Path) -> tuple[Ordeal, Ledger]:
    """An ordeal that is over, and its ledger: what follows can be judged by its auditor."""
    ordeal = Ordeal(folder, seed=1, large=0)
    return ordeal, ordeal._ledger


def test_the_auditor_misses_what_is_lost(tmp_path: Path) -> None:
    """A command that was acknowledged and is not in the journal does not go unnoticed."""
    ordeal, ledger = an_ordeal(tmp_path / "journal")
    do = OfferResource("a/g")
    ledger.acknowledged.append(Acknowledged("x", None, "key", do, Answer(1, 99, 5, ())))
    with pytest.raises(Violation, match="acknowledged at 99 and is lost"):
        ordeal._auditor.audit(tmp_path / "journal")


def test_the_auditor_sees_what_acted_twice(tmp_path: Path) -> None:
    """A key that stands in the journal two times does not go unnoticed."""
    ordeal, _ = an_ordeal(tmp_path / "journal")
    journal = SqliteJournal(tmp_path / "journal")
    for at in (1, 2):
        append(journal, at, [Entry("x", AddResource(at, f"a/g{at}"), "key")])
    journal.close()
    with pytest.raises(Violation, match=r"key of x acted at \d+ and at \d+"):
        ordeal._auditor.audit(tmp_path / "journal")


# The journal is damaged -----------------------------------------------------------------------


def append(journal: SqliteJournal, at: int, entries: list[Entry]) -> None:
    journal.append(journal.head.sequence + 1, len(entries), at, RULES, write_entries(entries))


def record(sequence: int, at: int) -> Record:
    if sequence % 3 == 0:
        return Place(at, "ada", f"ada/o{sequence}", "a", 1_000 + sequence, 9_000, None)
    if sequence % 7 == 0:
        return SetFloor(at, "a", sequence)
    return AddResource(at, f"a/r{sequence % 4}/g{sequence}", (("host", f"h{sequence}"),))


def write_journal(folder: Path, snapshots_at: tuple[int, ...] = (60,)) -> str:
    """A sound journal of 12 groups of 10 entries; the digest of its state."""
    journal, venue = SqliteJournal(folder), Venue()
    for group in range(GROUPS):
        at = 1_000 * (group + 1)
        first = group * GROUP + 1
        entries = [
            Entry("ada", record(sequence, at), f"k{sequence}")
            for sequence in range(first, first + GROUP)
        ]
        append(journal, at, entries)
        for entry in entries:
            venue.apply(entry.do)
        if journal.head.sequence in snapshots_at:
            journal.save_snapshot(take(venue, journal.head.sequence), apart=1)
    journal.close()
    return venue.digest()


def change(folder: Path, statement: str, *values: object) -> None:
    """Harm a journal behind its back."""
    connection = sqlite3.connect(folder / FILE_NAME)
    connection.execute(statement, values)
    connection.commit()
    connection.close()


def verified(folder: Path) -> str:
    journal = SqliteJournal(folder, read_only=True)
    try:
        return verify(journal).digest
    finally:
        journal.close()


def recovered(folder: Path) -> str:
    journal = SqliteJournal(folder)
    try:
        return recover(journal, KEYS_KEPT).venue.digest()
    finally:
        journal.close()


def test_a_sound_journal_is_found_sound(tmp_path: Path) -> None:
    """Verifying and recovering give the state that the commands gave when they were written."""
    state = write_journal(tmp_path)
    assert verified(tmp_path) == recovered(tmp_path) == state


@pytest.mark.parametrize("check", [verified, recovered])
@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (
            "UPDATE groups SET entries = CAST(replace(entries, 'h22', 'h99') AS BLOB) "
            "WHERE first = 21",
            "begins at 21 is not what was written",
        ),
        ("UPDATE groups SET link = x'00' WHERE first = 31", "begins at 31 is not what was written"),
        ("UPDATE groups SET entries = 'none' WHERE first = 31", "under 31 is not what was written"),
        ("UPDATE groups SET at_us = at_us + 1 WHERE first = 111", "begins at 111 .* a wrong time"),
        ("UPDATE groups SET count = 11 WHERE first = 111", "begins at 111 .* says that it has 11"),
        ("DELETE FROM groups WHERE first = 41", "entries 41 to 50 are missing"),
        ("DELETE FROM groups WHERE first = 1", "entries 1 to 10 are missing"),
        ("DELETE FROM groups WHERE first > 41", "entries 51 to 60 are missing"),
        ("UPDATE snapshots SET digest = 'another'", "snapshot|60"),
    ],
)
def test_damage_is_named(
    tmp_path: Path, check: Callable[[Path], str], statement: str, sentence: str
) -> None:
    """A group that was changed, lost or shortened is named, also on the way up."""
    write_journal(tmp_path)
    change(tmp_path, statement)
    (tmp_path / f"{FILE_NAME}-head").unlink()  # which would tell first that the end is missing
    with pytest.raises(JournalError, match=sentence):
        check(tmp_path)


def test_a_damaged_snapshot_is_walked_around(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commands are the truth: recovery takes an older way, and `verify` names the damage."""
    monkeypatch.setattr(recovery, "REPLAYED", 20)
    state = write_journal(tmp_path, snapshots_at=(30, 60))
    change(tmp_path, "UPDATE snapshots SET state = substr(state, 1, 50) WHERE sequence = 60")
    assert recovered(tmp_path) == state
    with pytest.raises(JournalError, match="the snapshot at 60 is damaged"):
        verified(tmp_path)
    change(tmp_path, "UPDATE snapshots SET state = x'00' WHERE sequence = 30")
    assert recovered(tmp_path) == state


def test_a_snapshot_of_another_state_is_not_begun_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that can be read, but is not the state of its digest, does not become the market."""
    monkeypatch.setattr(recovery, "REPLAYED", 20)
    write_journal(tmp_path, snapshots_at=(30, 60))
    earlier = "(SELECT state FROM snapshots WHERE sequence = 30)"
    change(tmp_path, f"UPDATE snapshots SET state = {earlier} WHERE sequence = 60")
    journal = SqliteJournal(tmp_path)
    execution = recover(journal, KEYS_KEPT)
    journal.close()
    assert execution.keys.answer(31) is not None, "it began at 30"
    with pytest.raises(JournalError, match="the snapshot at 60 is damaged"):
        verified(tmp_path)


def test_any_damaged_byte_is_noticed_or_harmless(tmp_path: Path) -> None:
    """One byte changed anywhere: the same state as before, or one sentence."""
    state = write_journal(tmp_path / "sound")
    sound = (tmp_path / "sound" / FILE_NAME).read_bytes()
    draw = random.Random(1)
    noticed = 0
    (tmp_path / "harmed").mkdir()
    for _ in range(150):
        harmed = bytearray(sound)
        harmed[draw.randrange(len(harmed))] ^= 1 << draw.randrange(8)
        (tmp_path / "harmed" / FILE_NAME).write_bytes(harmed)
        for check in (verified, recovered):
            try:
                assert check(tmp_path / "harmed") == state
            except JournalError:
                noticed += 1
    assert noticed > 0


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_a_truncated_file_is_refused(tmp_path: Path, share: float) -> None:
    """A file that ends too early is not taken for a shorter journal."""
    write_journal(tmp_path)
    path = tmp_path / FILE_NAME
    os.truncate(path, int(path.stat().st_size * share))
    for check in (verified, recovered):
        with pytest.raises(JournalError, match=r"move it away|restore a backup"):
            check(tmp_path)


def test_a_torn_end_of_the_log_is_a_shorter_journal(tmp_path: Path) -> None:
    """What a crash left half written was acknowledged to nobody: all before it is there."""
    torn, digests = tmp_path / "torn", {0: Venue().digest()}
    journal, venue = SqliteJournal(tmp_path / "whole"), Venue()
    for at in range(1, 21):
        entry = Entry("ada", record(at, at))
        append(journal, at, [entry])
        venue.apply(entry.do)
        digests[at] = venue.digest()
    torn.mkdir()
    log = (tmp_path / "whole" / f"{FILE_NAME}-wal").read_bytes()
    draw = random.Random(2)
    lengths = set()
    for _ in range(40):
        end = draw.randrange(len(log))
        shutil.copy(tmp_path / "whole" / FILE_NAME, torn)
        (torn / f"{FILE_NAME}-head").unlink(missing_ok=True)
        (torn / f"{FILE_NAME}-wal").write_bytes(log[:end] + draw.randbytes(draw.randrange(500)))
        found = SqliteJournal(torn)
        sound = verify(found)
        found.close()
        assert sound.digest == digests[sound.sequence]
        lengths.add(sound.sequence)
    journal.close()
    assert len(lengths) > 5


# The write-ahead log is damaged ---------------------------------------------------------------


def write_and_die(folder: Path, groups: int = 20) -> None:
    """A journal whose last groups stand in the write-ahead log only, as after a SIGKILL."""
    journal = SqliteJournal(folder / "alive")
    for at in range(1, groups + 1):
        append(journal, at, [Entry("ada", record(at, at))])
    shutil.copytree(folder / "alive", folder / "dead", ignore=shutil.ignore_patterns("*-shm"))
    journal.close()


def flip_a_byte(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[len(data) * 3 // 4] ^= 1
    log.write_bytes(data)


@pytest.mark.parametrize(
    "harm",
    [Path.unlink, flip_a_byte, lambda log: os.truncate(log, log.stat().st_size // 2)],
    ids=["gone", "one byte", "half of it"],
)
@pytest.mark.parametrize("read_only", [True, False])
def test_an_acknowledged_end_that_is_missing_is_noticed(
    tmp_path: Path, harm: Callable[[Path], None], read_only: bool
) -> None:
    """SQLite goes back without a word to where its log is whole; the journal says what is gone,
    and opens when it is told that this is meant."""
    write_and_die(tmp_path)
    folder = tmp_path / "dead"
    with contextlib.closing(SqliteJournal(folder, read_only=True)) as journal:
        assert journal.head.sequence == 20
    harm(folder / f"{FILE_NAME}-wal")
    with pytest.raises(
        JournalError, match=r"entries \d+ to 20 of .* are missing.*restore a backup"
    ):
        SqliteJournal(folder, read_only=read_only)
    (folder / f"{FILE_NAME}-head").unlink()
    with contextlib.closing(SqliteJournal(folder, read_only=read_only)) as journal:
        assert verify(journal).sequence < 20


def test_a_head_of_another_journal_is_noticed(tmp_path: Path) -> None:
    """Files that were mixed up are not taken for one journal."""
    for name, kept_key in (("one", "k"), ("two", "l")):
        with contextlib.closing(SqliteJournal(tmp_path / name)) as journal:
            append(journal, 1, [Entry("ada", record(1, 1), kept_key)])
    shutil.copy(tmp_path / "one" / f"{FILE_NAME}-head", tmp_path / "two")
    with pytest.raises(JournalError, match="entry 1 is another one"):
        SqliteJournal(tmp_path / "two")


def test_a_head_that_was_cut_short_says_nothing(tmp_path: Path) -> None:
    """The write before it counts, and without any the journal is taken as it is."""
    with contextlib.closing(SqliteJournal(tmp_path)) as journal:
        for at in (1, 2, 3):
            append(journal, at, [Entry("ada", record(at, at))])
    head = tmp_path / f"{FILE_NAME}-head"
    whole = head.read_bytes()
    for place in (0, 512):
        torn = bytearray(whole)
        torn[place + 8 : place + 16] = b"\xff" * 8
        head.write_bytes(torn)
        SqliteJournal(tmp_path, read_only=True).close()
    for content in (b"", b"x" * 600, whole[:100]):
        head.write_bytes(content)
        SqliteJournal(tmp_path).close()


def test_time_that_was_shown_is_not_shown_again(tmp_path: Path) -> None:
    """After a restart with a clock that was set back, a question is answered with a later time."""
    with contextlib.closing(SqliteJournal(tmp_path)) as journal:
        journal.note_shown(5_000)
        journal.note_shown(4_000)
    with contextlib.closing(SqliteJournal(tmp_path)) as journal:
        assert journal.shown_until_us == 5_000


# What is no journal ---------------------------------------------------------------------------


@pytest.mark.parametrize("read_only", [True, False])
def test_another_format_is_refused(tmp_path: Path, read_only: bool) -> None:
    """Who wrote it can read it: the sentence gives both numbers."""
    write_journal(tmp_path)
    change(tmp_path, "UPDATE meta SET value = '7'")
    with pytest.raises(JournalError, match="is written in format 7, this laissez reads format 2"):
        SqliteJournal(tmp_path, read_only=read_only)


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("content", [b"", b"not a database, but a letter to a friend" * 100])
def test_another_file_is_refused(tmp_path: Path, content: bytes, read_only: bool) -> None:
    """A file of that name that is no journal is left as it is, and the folder is let go."""
    (tmp_path / FILE_NAME).write_bytes(content)
    for _ in range(2):
        with pytest.raises(JournalError, match="move it away"):
            SqliteJournal(tmp_path, read_only=read_only)
    assert (tmp_path / FILE_NAME).read_bytes() == content


def test_another_database_is_refused(tmp_path: Path) -> None:
    """Somebody else's tables are not touched."""
    change(tmp_path, "CREATE TABLE meta (name TEXT, value TEXT)")
    before = (tmp_path / FILE_NAME).read_bytes()
    with pytest.raises(JournalError, match="is not a journal of laissez; move it away"):
        SqliteJournal(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == before


def test_a_service_says_why_it_does_not_start(tmp_path: Path) -> None:
    """One sentence, no traceback."""
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / FILE_NAME).write_bytes(b"x" * 5_000)
    service = Service(tmp_path / "journal", SETTINGS)
    service.start()
    assert service.wait_for_its_end() == 1
    words = service.last_words()
    assert words.startswith("laissez: ") and words.count("\n") == 1


def test_half_a_beginning_is_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash while a journal is made leaves nothing that is in the way of the next."""

    def crash(*given: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(os, "replace", crash)
        with pytest.raises(KeyboardInterrupt):
            SqliteJournal(tmp_path)
    assert not (tmp_path / FILE_NAME).exists()
    for leftover in tmp_path.glob("*.new"):
        leftover.write_bytes(leftover.read_bytes()[:20_000])
        leftover.with_name(leftover.name + "-journal").write_bytes(b"half of a log" * 100)
    state = write_journal(tmp_path)
    assert verified(tmp_path) == state
    assert {path.name for path in tmp_path.iterdir()} >= {FILE_NAME, "lock"}
    assert not list(tmp_path.glob("*.new*"))


# The way back ---------------------------------------------------------------------------------


def test_recovery_begins_where_enough_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at the newest snapshot: what is answered to retries is found by executing again."""
    monkeypatch.setattr(recovery, "REPLAYED", 50)
    state = write_journal(tmp_path, snapshots_at=(30, 60, 110))
    journal = SqliteJournal(tmp_path)
    execution = recover(journal, KEYS_KEPT)
    journal.close()
    assert execution.venue.digest() == state
    assert execution.sequence == GROUPS * GROUP
    assert execution.keys.answer(60) is None
    for sequence in range(1, GROUPS * GROUP + 1):
        assert execution.keys.sequence("ada", f"k{sequence}") == sequence
    for sequence in range(61, GROUPS * GROUP + 1):
        kept = execution.keys.answer(sequence)
        assert kept is not None and kept.record == record(sequence, kept.at)


def test_crashes_do_not_put_snapshots_off(tmp_path: Path) -> None:
    """What was executed again after a crash counts, or the way back would only get longer."""
    write_journal(tmp_path, snapshots_at=())
    with served(tmp_path, "operator", settings=Settings(snapshot_every=100)) as service:
        ask(service.url, service.secrets["operator"], OfferResource("b/g"))

        def snapshots() -> list[int]:
            journal = SqliteJournal(tmp_path, read_only=True)
            found = [label.sequence for label in journal.snapshots()]
            journal.close()
            return found

        token = 1
        assert wait_for(snapshots) == [GROUPS * GROUP + token + 1]


def test_a_retry_is_answered_whatever_has_changed_since(tmp_path: Path) -> None:
    """An order at the quote of a scope that its tenant no longer sees was placed all the same."""
    with served(tmp_path, "operator", "ada") as service:
        offers = OfferResource("a/z/g0"), OfferResource("a/z/g1")
        ask(service.url, service.secrets["operator"], *offers)
        order = ("key", PlaceOrder("a/z", None, 9_000_000, "second"))
        holds = PlaceOrder("a", 1_000_000, 2_000_000, "first")
        assert isinstance(ask(service.url, service.secrets["ada"], holds)[0], Answer)
        (placed,) = ask(service.url, service.secrets["ada"], order)
        assert isinstance(placed, Answer)
        ask(service.url, service.secrets["ada"], Release("a/z/g0"), Release("a/z/g1"))
        assert service.call(lambda exchange: exchange.market.check_visible("ada", "a/z"))
        (again,) = ask(service.url, service.secrets["ada"], order)
        assert isinstance(again, Answer)
        assert again.repeated
        assert (again.sequence, again.events) == (placed.sequence, placed.events)


def test_snapshots_close_together_do_not_lengthen_the_way_back(tmp_path: Path) -> None:
    """However often the service is restarted, an older snapshot is there to begin with."""
    journal, venue = SqliteJournal(tmp_path), Venue()
    for sequence in [*range(100, 5_000, 100), 5_001, 5_002, 5_003, 5_004]:
        journal.save_snapshot(take(venue, sequence), apart=1_000, keep=3)
        kept = [label.sequence for label in journal.snapshots()]
        assert len(kept) <= 3
        assert kept[-1] == sequence
        if sequence >= 3_000:
            assert sequence - 3_000 < kept[0] <= sequence - 1_000
    journal.close()
