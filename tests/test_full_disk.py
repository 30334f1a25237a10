"""A disk without room, and a disk that fails: nothing is acknowledged that is not written.

The same story is told on two disks: a real file system of a few megabytes, which only root may
mount, and a journal whose number of pages is bounded, which works everywhere.
"""

from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
from picows import WSInvalidStatusError

from faults.process import Service
from faults.talk import Answered, ask
from laissez.exchange.access import Limits
from laissez.exchange.journal import JournalError, JournalFailed
from laissez.exchange.pipeline import Exchange, Settings
from laissez.exchange.recovery import verify
from laissez.exchange.sqlite_journal import FILE_NAME, SqliteJournal
from laissez.model import (
    Answer,
    AskBill,
    AskHoldings,
    AskQuote,
    AskStatus,
    Bill,
    ChangeFloor,
    HoldingList,
    Instruction,
    OfferResource,
    PlaceOrder,
    Quoted,
    Refused,
    Reply,
    Status,
)
from serving import Served, make_tokens, served

SIZE_BYTES = 4 << 20
ROOM_LEFT_BYTES = 300_000
SETTINGS = Settings(limits=Limits(1_000_000, 1_000_000), snapshot_every=50)
ORDERS_A_FRAME = 100
SHORT_ORDERS = 5
PATIENCE_S = 120


class Disk(Protocol):
    folder: Path

    def fill(self, served: Served) -> None: ...

    def make_room(self, served: Served) -> None: ...


class SmallFileSystem:
    """A real one, in memory, filled with a large file."""

    def __init__(self, place: Path) -> None:
        self.folder = place / "journal"
        self._filler = place / "filler"

    def fill(self, served: Served) -> None:
        """Leave so little that a few groups still find room, and the next does not."""
        self.fill_up_to(ROOM_LEFT_BYTES)

    def fill_up_to(self, left_bytes: int) -> None:
        status = os.statvfs(self._filler.parent)
        self._filler.write_bytes(b"x" * (status.f_bavail * status.f_frsize - left_bytes))

    def make_room(self, served: Served) -> None:
        self.empty()

    def empty(self) -> None:
        self._filler.unlink()


class BoundedJournal:
    """A journal that may not have more pages than it has, and a few."""

    def __init__(self, place: Path) -> None:
        self.folder = place / "journal"

    def fill(self, served: Served) -> None:
        def bound(exchange: Exchange) -> None:
            connection = connection_of(exchange)
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count={pages + 5}")

        served.call(bound)

    def make_room(self, served: Served) -> None:
        served.call(
            lambda exchange: connection_of(exchange).execute("PRAGMA max_page_count=1000000")
        )


def connection_of(exchange: Exchange) -> sqlite3.Connection:
    assert isinstance(exchange.journal, SqliteJournal)
    return exchange.journal._connection


@pytest.fixture
def small_file_system(tmp_path: Path) -> Iterator[SmallFileSystem]:
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "none", str(tmp_path)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False, timeout=10)
    except OSError as error:
        pytest.skip(f"no file system can be mounted here: {error}")
    if done.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield SmallFileSystem(tmp_path)
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True, timeout=10)


@pytest.fixture(params=["small file system", "bounded journal"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    if request.param == "bounded journal":
        return BoundedJournal(tmp_path)
    found: SmallFileSystem = request.getfixturevalue("small_file_system")
    return found


def set_up(served: Served) -> None:
    """Resources that ada is going to order."""
    offers = [OfferResource(f"a/r{number}/g", {"host": str(number)}) for number in range(20)]
    answers = ask(served.url, served.secrets["operator"], *offers, ChangeFloor("a", 1_000_000))
    assert all(isinstance(answer, Answer) for answer in answers)


def orders(frame: int) -> list[tuple[str, Instruction]]:
    return [
        (f"{frame}-{number}", PlaceOrder("a", 2_000_000 + frame, 3_000_000, f"o{frame}-{number}"))
        for number in range(ORDERS_A_FRAME)
    ]


def one(number: int) -> tuple[str, Instruction]:
    return f"one-{number}", PlaceOrder("a", 2_000_000, 3_000_000, f"one-{number}")


def order_until_refused(served: Served) -> tuple[int, list[list[Answered | None]]]:
    """Frame by frame, until there is no room for one; its number, and all answers."""
    answers = []
    for frame in range(1_000):
        answers.append(ask(served.url, served.secrets["ada"], *orders(frame)))
        if any(isinstance(answer, Refused) for answer in answers[-1]):
            return frame, answers
    raise AssertionError("the disk was never full")


def digest(served: Served) -> str:
    found: str = served.call(lambda exchange: exchange.execution.venue.digest())
    return found


def assert_sound(folder: Path, state: str) -> None:
    journal = SqliteJournal(folder, read_only=True)
    try:
        assert verify(journal).digest == state
    finally:
        journal.close()


def test_without_room_changes_are_refused_and_later_succeed(disk: Disk) -> None:
    """Nothing is acknowledged or changed while the disk is full; the same keys work afterwards."""
    with served(disk.folder, "operator", "ada", settings=SETTINGS) as service:
        set_up(service)
        disk.fill(service)
        frame, answers = order_until_refused(service)
        assert frame > 0, "there was room for something at first"

        before = digest(service)
        refused = ask(service.url, service.secrets["ada"], *orders(frame + 1))
        for refusal in refused:
            assert isinstance(refusal, Refused)
            assert refusal.code == "not_durable"
            assert refusal.retry_after_ms == 1_000
            assert "nothing was changed" in refusal.message
        assert digest(service) == before

        disk.make_room(service)
        again = ask(service.url, service.secrets["ada"], *orders(frame), *orders(frame + 1))
        first_time = [*answers[frame], *refused]
        for answer, old in zip(again, first_time, strict=True):
            assert isinstance(answer, Answer)
            assert answer.repeated == isinstance(old, Answer)
        repeated = ask(service.url, service.secrets["ada"], *orders(0))
        for answer, old in zip(repeated, answers[0], strict=True):
            assert isinstance(answer, Answer) and isinstance(old, Answer)
            assert (answer.sequence, answer.events) == (old.sequence, old.events)
        after = digest(service)
    assert_sound(disk.folder, after)


def test_without_room_questions_are_answered(disk: Disk) -> None:
    """Reading needs no disk."""
    with served(disk.folder, "operator", "ada", settings=SETTINGS) as service:
        set_up(service)
        disk.fill(service)
        order_until_refused(service)
        questions = (AskStatus(), AskHoldings(), AskBill(), AskQuote("a"))
        answers = ask(service.url, service.secrets["ada"], *questions)
        told = [answer.told for answer in answers if isinstance(answer, Reply)]
        assert [type(each) for each in told] == [Status, HoldingList, Bill, Quoted]
        disk.make_room(service)


def fill_before_orders_expire(disk: Disk, service: Served) -> int:
    """Bob's orders are still waiting when there is no more room; when the last of them expires."""
    for lead_us in (1_500_000, 6_000_000, 24_000_000, 96_000_000):
        begun = time.time_ns() // 1_000
        instants = [begun + lead_us + number * 20_000 for number in range(SHORT_ORDERS)]
        short = [PlaceOrder("a/r0", 1, 1, f"short{at}", at) for at in instants]
        placed = ask(service.url, service.secrets["bob"], *short)
        assert all(isinstance(answer, Answer) for answer in placed)
        disk.fill(service)
        fill_to_the_brim(service, begun)
        if time.time_ns() // 1_000 < instants[0]:
            return instants[-1]
        disk.make_room(service)
    raise AssertionError("this machine is too slow to fill a disk")


def fill_to_the_brim(service: Served, number: int) -> None:
    """In large groups first, and then one by one."""
    for count in (ORDERS_A_FRAME, 1):
        answers: list[Answered | None] = []
        while not any(isinstance(answer, Refused) for answer in answers):
            wishes = [one(number + each) for each in range(count)]
            answers = ask(service.url, service.secrets["ada"], *wishes)
            number += count


def test_what_falls_due_without_room_happens_when_there_is_some(disk: Disk) -> None:
    """Time goes on by itself as soon as it can be written down that it did."""
    with served(disk.folder, "operator", "ada", "bob", settings=SETTINGS) as service:
        set_up(service)

        def waiting() -> int:
            count: int = service.call(lambda exchange: len(exchange.market.orders("bob")))
            return count

        latest = fill_before_orders_expire(disk, service)
        wait_until(lambda: time.time_ns() // 1_000 > latest + 100_000)
        # What an order found no room in may be enough for three commands as small as the clock's.
        assert waiting() >= SHORT_ORDERS - 3
        disk.make_room(service)
        wait_until(lambda: not waiting())
        after = digest(service)
    assert_sound(disk.folder, after)


def test_a_service_stops_and_starts_without_room(disk: Disk) -> None:
    """There is no snapshot then, but everything that was acknowledged is there again."""
    with served(disk.folder, "operator", "ada", settings=SETTINGS) as service:
        set_up(service)
        disk.fill(service)
        order_until_refused(service)
        before, secret = digest(service), service.secrets["ada"]
    with served(disk.folder, settings=SETTINGS) as service:
        assert digest(service) == before
        assert isinstance(ask(service.url, secret, AskStatus())[0], Reply)


def test_a_journal_that_finds_no_room_at_all_says_so(small_file_system: SmallFileSystem) -> None:
    """Neither a new one nor one that was put away can be opened; later both can."""
    old, new = small_file_system.folder, small_file_system.folder.with_name("new")
    SqliteJournal(old).close()
    small_file_system.fill_up_to(0)
    for folder in (old, new):
        with pytest.raises(JournalError, match=r"can't be opened \(.*\); see that there is room"):
            SqliteJournal(folder)
    small_file_system.empty()
    for folder in (old, new):
        SqliteJournal(folder).close()


def test_a_failing_journal_closes_the_exchange(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows what was written, so nothing is acknowledged and nothing more is taken."""
    with served(tmp_path, "operator", "ada") as service:
        set_up(service)
        before = digest(service)

        def fail(*given: object) -> None:
            raise JournalFailed("disk I/O error")

        monkeypatch.setattr(service.running.exchange.journal, "append", fail)
        refused = ask(service.url, service.secrets["ada"], *orders(0))
        assert {answer.code for answer in refused if isinstance(answer, Refused)} == {"not_durable"}
        assert len(refused) == ORDERS_A_FRAME
        assert isinstance(refused[0], Refused) and "is not known" in refused[0].message
        assert str(service.running.failure) == "the journal failed: disk I/O error"
        monkeypatch.undo()
        with pytest.raises(WSInvalidStatusError, match="503"):
            ask(service.url, service.secrets["ada"], *orders(1))
        assert digest(service) == before
    assert_sound(tmp_path, before)


def test_a_service_whose_disk_fails_ends_and_loses_nothing(tmp_path: Path) -> None:
    """A write fails for another reason than room: it ends with a sentence, and comes back whole."""
    folder = tmp_path / "journal"
    secrets = make_tokens(folder, "operator", "ada")
    service = Service(folder, SETTINGS)
    try:
        service.start()
        service.wait_until_ready()
        ask(service.url, secrets["operator"], OfferResource("a/g"))
        written = (folder / f"{FILE_NAME}-wal").stat().st_size
        limit = written + ROOM_LEFT_BYTES
        resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (limit, limit))
        answers: list[list[Answered | None]] = []
        while not answers or all(isinstance(answer, Answer) for answer in answers[-1]):
            answers.append(ask(service.url, secrets["ada"], *orders(len(answers))))
        assert service.wait_for_its_end() == 1
        assert "the journal failed" in service.last_words()

        service.start()
        service.wait_until_ready()
        for frame, before in enumerate(answers):
            again = ask(service.url, secrets["ada"], *orders(frame))
            for answer, old in zip(again, before, strict=True):
                assert isinstance(answer, Answer)
                if isinstance(old, Answer):
                    assert answer.repeated
                    assert (answer.sequence, answer.events) == (old.sequence, old.events)
        service.stop()
    finally:
        service.close()
    journal = SqliteJournal(folder, read_only=True)
    assert verify(journal).digest == journal.snapshots()[-1].digest
    journal.close()


def wait_until(is_so) -> None:  # type: ignore[no-untyped-def]
    latest = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < latest, "it did not come about"
        time.sleep(0.02)
