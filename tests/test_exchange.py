"""The way of a request: durable first, then applied and answered, in the order of arrival."""

import asyncio
import contextlib
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laissez.exchange import due, pipeline, recovery
from laissez.exchange import keys as keys_module
from laissez.exchange.access import Limits, Principal, Token
from laissez.exchange.clock import Clock
from laissez.exchange.execution import Execution
from laissez.exchange.journal import JournalFailed, NotDurable
from laissez.exchange.pipeline import Exchange, Settings, Ticket
from laissez.exchange.records import Entry
from laissez.exchange.recovery import recover, verify
from laissez.exchange.snapshots import take
from laissez.exchange.sqlite_journal import SqliteJournal
from laissez.model import (
    Advance,
    AmendOrder,
    AskStatus,
    CancelOrder,
    ChangeFloor,
    ChangeGuard,
    ChangeLimit,
    CloseStatements,
    CordonScope,
    Expired,
    Filled,
    Happened,
    Instruction,
    Notice,
    OfferResource,
    Placed,
    PlaceOrder,
    Refused,
    Rejected,
    Release,
    Role,
    ServiceCode,
    Settle,
    Status,
    UncordonScope,
    WithdrawResource,
    decode_said,
)
from test_feeds import missed

PATIENCE_S = 20
PLENTY = Limits(requests_per_s=10_000_000, burst=10_000_000)
START_US = 1_000_000_000_000


# --- doubles ------------------------------------------------------------------------------------


class Answered(msgspec.Struct):
    """What a target was told of one request."""

    sequence: int
    at: int
    events: tuple[Notice, ...]
    repeated: bool


class Caller:
    """A target that remembers, by request id; nobody may be answered twice."""

    def __init__(self) -> None:
        self.told: dict[int, Answered | Refused] = {}
        self.order: list[int] = []
        self.flushed = 0

    def answer(
        self, request_id: int, sequence: int, at: int, events: tuple[Notice, ...], repeated: bool
    ) -> None:
        self._note(request_id, Answered(sequence, at, events, repeated))

    def refuse(self, refused: Refused) -> None:
        assert refused.id is not None
        self._note(refused.id, refused)

    def _note(self, request_id: int, told: Answered | Refused) -> None:
        assert request_id not in self.told
        self.told[request_id] = told
        self.order.append(request_id)

    def flush(self) -> None:
        self.flushed = len(self.told)

    def answered(self, request_id: int) -> Answered:
        told = self.told[request_id]
        assert isinstance(told, Answered), told
        return told

    def refused(self, request_id: int) -> Refused:
        told = self.told[request_id]
        assert isinstance(told, Refused), told
        return told


class Times:
    """A wall clock and a monotonic clock, in nanoseconds, that a test moves."""

    def __init__(self) -> None:
        self.wall_ns = START_US * 1_000
        self.monotonic_ns = 0

    def clock(self, not_before: int = 0) -> Clock:
        return Clock(
            not_before=not_before,
            wall_ns=lambda: self.wall_ns,
            monotonic_ns=lambda: self.monotonic_ns,
        )

    def pass_us(self, elapsed_us: int) -> None:
        self.monotonic_ns += elapsed_us * 1_000
        self.wall_ns += elapsed_us * 1_000


class SlowJournal(SqliteJournal):
    """Writes when it is let, and fails when it is told to; remembers what it was given."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.appends: list[tuple[int, int]] = []
        self.failure: Exception | None = None
        self.let = threading.Event()
        self.let.set()

    def append(self, first: int, count: int, at_us: int, rules: int, entries: bytes) -> None:
        self.appends.append((first, count))
        assert self.let.wait(PATIENCE_S)
        if self.failure is not None:
            raise self.failure
        super().append(first, count, at_us, rules, entries)


def principal(role: Role, name: str | None) -> Principal:
    token = Token(name or "op", "hash", role, name, 0)
    return Principal(token, PLENTY)


def operator() -> Principal:
    return principal("operator", None)


def tenant(name: str) -> Principal:
    return principal("tenant", name)


@contextlib.asynccontextmanager
async def opened(
    journal: SqliteJournal, times: Times | None = None, settings: Settings | None = None
) -> AsyncIterator[Exchange]:
    clock = None if times is None else times.clock(journal.head.at_us)
    exchange = Exchange(journal, settings, clock=clock)
    try:
        yield exchange
    finally:
        if isinstance(journal, SlowJournal):
            journal.let.set()
        await exchange.close()


async def until(holds: Callable[[], bool]) -> None:
    """Let the loop run until something holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.001)


class Door:
    """Hands in requests, each under a new id, and waits for the answers."""

    def __init__(self, exchange: Exchange) -> None:
        self.exchange = exchange
        self.caller = Caller()
        self.count = 0

    def put(self, who: Principal, do: Instruction, key: str | None = None) -> int:
        self.count += 1
        self.exchange.submit(Ticket(who, do, key, self.count, self.caller))
        return self.count

    async def all_told(self) -> None:
        await until(lambda: len(self.caller.told) == self.count)

    async def ask(self, who: Principal, do: Instruction, key: str | None = None) -> Answered:
        request_id = self.put(who, do, key)
        await self.all_told()
        return self.caller.answered(request_id)


async def with_resource(exchange: Exchange, *resources: str) -> Door:
    door = Door(exchange)
    for resource in resources or ("h/0",):
        await door.ask(operator(), OfferResource(resource))
    return door


def labels(journal: SqliteJournal) -> list[tuple[int, str]]:
    """The snapshots there are, by sequence number and digest."""
    return [(label.sequence, label.digest) for label in journal.snapshots()]


def entries_of(folder: Path) -> list[Entry]:
    journal = SqliteJournal(folder, read_only=True)
    try:
        return [entry for group in journal.groups() for entry in group.read()]
    finally:
        journal.close()


# --- log first, then apply ----------------------------------------------------------------------


def test_nothing_happens_before_it_is_durable(tmp_path: Path) -> None:
    """While the journal writes, nothing is applied, streamed or answered; then all of it is."""

    async def run() -> None:
        journal = SlowJournal(tmp_path)
        async with opened(journal) as exchange:
            door = await with_resource(exchange)
            ada, heard = tenant("ada"), list[int]()
            exchange.on_applied.append(lambda: heard.append(exchange.execution.sequence))
            before = exchange.execution.venue.digest()
            journal.let.clear()
            request_id = door.put(ada, PlaceOrder("h", 5), "key")
            await until(lambda: len(journal.appends) == 2)
            for _ in range(20):
                await asyncio.sleep(0)
            assert request_id not in door.caller.told
            assert exchange.execution.venue.digest() == before
            assert exchange.execution.sequence == 1
            assert missed(exchange.execution.feeds, "ada", 0) == []
            assert heard == []
            journal.let.set()
            await door.all_told()
            answer = door.caller.answered(request_id)
            assert [type(event) for event in answer.events] == [Placed, Filled]
            assert (answer.sequence, answer.repeated, heard) == (2, False, [2])
            assert exchange.market.owner("h/0") == "ada"
            await until(lambda: door.caller.flushed == 2)

    asyncio.run(run())


def test_what_waits_is_written_together(tmp_path: Path) -> None:
    """Requests that come while one group is being written become one group, in their order."""

    async def run() -> None:
        journal = SlowJournal(tmp_path)
        async with opened(journal) as exchange:
            door = await with_resource(exchange)
            journal.let.clear()
            first = door.put(tenant("t0"), PlaceOrder("h", 5))
            await until(lambda: len(journal.appends) == 2)
            later = [door.put(tenant(f"t{n % 7}"), PlaceOrder("h", 5)) for n in range(50)]
            journal.let.set()
            await door.all_told()
            assert journal.appends == [(1, 1), (2, 1), (3, 50)]
            answers = [door.caller.answered(each) for each in (first, *later)]
            assert [answer.sequence for answer in answers] == list(range(2, 53))
            assert door.caller.order[1:] == [first, *later]
            assert len({answer.at for answer in answers[1:]}) == 1
            for number, answer in enumerate(answers, 2):
                placed = answer.events[0]
                assert isinstance(placed, Placed)
                assert placed.order == f"o-{number}" and placed.at == answer.at
        entries = entries_of(tmp_path)
        assert [entry.author for entry in entries[2:]] == [f"t{n % 7}" for n in range(50)]

    asyncio.run(run())


def test_requests_of_one_turn_share_a_sync(tmp_path: Path) -> None:
    """What is handed in before the loop turns is one group, up to the largest size of one."""

    async def run(group_max: int) -> list[tuple[int, int]]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pipeline, "GROUP_MAX", group_max)
            journal = SlowJournal(tmp_path / str(group_max))
            async with opened(journal) as exchange:
                door = Door(exchange)
                for number in range(25):
                    door.put(operator(), OfferResource(f"h/{number}"))
                await door.all_told()
                assert len(exchange.market.resources()) == 25
            return journal.appends

    assert asyncio.run(run(2_000)) == [(1, 25)]
    assert asyncio.run(run(10)) == [(1, 10), (11, 10), (21, 5)]


def test_the_market_refuses_in_the_answer(tmp_path: Path) -> None:
    """What breaks a rule of the market is journaled, numbered and answered like anything else."""

    async def run() -> None:
        async with opened(SqliteJournal(tmp_path)) as exchange:
            door = await with_resource(exchange)
            answer = await door.ask(tenant("ada"), CancelOrder("mine"))
            (refusal,) = answer.events
            assert isinstance(refusal, Rejected) and answer.sequence == 2
            assert "'mine'" in refusal.message
            assert missed(exchange.execution.feeds, "ada", 0) == []

    asyncio.run(run())


def test_a_refused_request_leaves_no_trace(tmp_path: Path) -> None:
    """Role, sizes and invisible quotes are looked at before sequencing; nothing is journaled."""

    async def run() -> None:
        async with opened(SqliteJournal(tmp_path)) as exchange:
            door = await with_resource(exchange, "h/a/0")
            ada = tenant("ada")
            refused = [
                (door.put(ada, OfferResource("h/1")), "forbidden"),
                (door.put(operator(), PlaceOrder("h", 5)), "forbidden"),
                (door.put(principal("viewer", "ada"), PlaceOrder("h", 5)), "forbidden"),
                (door.put(ada, PlaceOrder("h", 5), ""), "bad_request"),
                (door.put(ada, PlaceOrder("h", 5), "k" * 129), "bad_request"),
                (door.put(ada, PlaceOrder("h" * 2_049, 5)), "bad_request"),
                (door.put(ada, PlaceOrder("h", 5, order="")), "bad_request"),
                (door.put(ada, CancelOrder("o" * 129)), "bad_request"),
                (door.put(ada, PlaceOrder("h/a", limit=9)), "scope_not_visible"),
            ]
            assert [door.caller.refused(each).code for each, _ in refused] == [
                code for _, code in refused
            ]
            await door.ask(ada, PlaceOrder("h", limit=9))
        assert len(entries_of(tmp_path)) == 2

    asyncio.run(run())


# --- time ---------------------------------------------------------------------------------------


def test_what_falls_due_acts_without_traffic(tmp_path: Path) -> None:
    """An expiry, a falling floor and the end of a hold, each let pass by a journaled entry."""

    async def run() -> None:
        times = Times()
        async with opened(SqliteJournal(tmp_path), times) as exchange:
            door = await with_resource(exchange)
            ada, bob = tenant("ada"), tenant("bob")
            await door.ask(operator(), ChangeFloor("h", 9_000))
            times.pass_us(100_000)
            await door.ask(operator(), ChangeGuard("h", fall=1_000, hold=250_000, window=100_000))
            await door.ask(ada, PlaceOrder("h", 9_000, 9_500))
            await door.ask(ada, ChangeLimit("h/0", 1))
            await door.ask(bob, PlaceOrder("h", 5_000, 5_000, "short", START_US + 170_000))
            await door.ask(operator(), ChangeFloor("h", 7_000))
            assert exchange.market.floor("h") == 8_000
            sequence = exchange.execution.sequence
            market = exchange.market
            expected: list[tuple[int, Callable[[], bool]]] = [
                (170_000, lambda: market.orders("bob") == ()),
                (200_000, lambda: market.floor("h") == 7_000),
                (350_000, lambda: market.holdings("ada") == ()),
            ]
            for due, happened in expected:
                times.pass_us(START_US + due - 1 - exchange.clock.now())
                await asyncio.sleep(0.005)
                assert not happened()
                times.pass_us(1)
                await until(happened)
                sequence += 1
                assert exchange.execution.sequence == sequence
        assert entries_of(tmp_path)[-3:] == [
            Entry(":clock", Advance(START_US + due)) for due in (170_000, 200_000, 350_000)
        ]

    asyncio.run(run())


def test_what_falls_due_is_told(tmp_path: Path) -> None:
    """By the real clock: the tenant's stream has the expiry at its own instant."""

    async def run() -> None:
        async with opened(SqliteJournal(tmp_path)) as exchange:
            door = await with_resource(exchange)
            await door.ask(tenant("bob"), PlaceOrder("h", 9, 9))
            expires = exchange.clock.now() + 20_000
            await door.ask(tenant("ada"), PlaceOrder("h", 5, 5, "short", expires))
            await until(lambda: exchange.market.orders("ada") == ())
            said = decode_said(told(missed(exchange.execution.feeds, "ada", 0))[-1])
            assert isinstance(said, Happened)
            assert said.events == (Expired(expires, "ada", "short"),)
            assert said.at >= expires

    asyncio.run(run())


def test_statements_are_closed_now_and_then(tmp_path: Path) -> None:
    """Every `settle_every_s`, once anybody has an account; as entries of the clock's."""

    async def run() -> None:
        journal = SlowJournal(tmp_path)
        async with opened(journal, settings=Settings(settle_every_s=0)) as exchange:
            for _ in range(20):
                await asyncio.sleep(0.001)
            assert journal.appends == []
            door = await with_resource(exchange)
            await door.ask(tenant("ada"), PlaceOrder("h", 5, 5))
            await until(lambda: exchange.execution.sequence >= 4)
        entries = entries_of(tmp_path)
        assert {(e.author, type(e.do)) for e in entries[2:]} == {(":clock", Settle)}

    asyncio.run(run())


def test_a_wall_clock_that_steps_back(tmp_path: Path) -> None:
    """Market time goes on from where it was, by the monotonic clock."""

    async def run() -> None:
        times = Times()
        async with opened(SqliteJournal(tmp_path), times) as exchange:
            door = await with_resource(exchange)
            times.pass_us(500)
            times.wall_ns -= 10**12
            instants = []
            for _ in range(3):
                times.pass_us(100)
                instants.append((await door.ask(tenant("ada"), CancelOrder("x"))).at)
            assert instants == [START_US + 600, START_US + 700, START_US + 800]
        async with opened(SqliteJournal(tmp_path), times) as exchange:
            times.pass_us(50)
            assert (await Door(exchange).ask(tenant("ada"), CancelOrder("x"))).at == START_US + 850

    asyncio.run(run())


def test_a_restart_goes_on_from_the_journals_last_instant(tmp_path: Path) -> None:
    """The exchange's own clock does not begin before it, even if the wall does."""

    async def run() -> None:
        ahead = Times()
        ahead.pass_us(10**16)
        async with opened(SqliteJournal(tmp_path), ahead) as exchange:
            last = await (await with_resource(exchange)).ask(tenant("ada"), CancelOrder("x"))
        async with opened(SqliteJournal(tmp_path)) as exchange:
            assert exchange.clock.now() >= last.at
            assert (await Door(exchange).ask(tenant("ada"), CancelOrder("x"))).at >= last.at

    asyncio.run(run())


# --- too much, no room, broken ------------------------------------------------------------------


def test_a_full_queue_refuses(tmp_path: Path) -> None:
    """What waits and what is being written count; when it is done there is room again."""

    async def run() -> None:
        journal = SlowJournal(tmp_path)
        async with opened(journal, settings=Settings(queue_max=3)) as exchange:
            door = await with_resource(exchange)
            ada = tenant("ada")
            journal.let.clear()
            taken = [door.put(ada, CancelOrder("x"))]
            await until(lambda: len(journal.appends) == 2)
            taken += [door.put(ada, CancelOrder("x")) for _ in range(2)]
            too_many = [door.put(ada, CancelOrder("x"), "key") for _ in range(2)]
            for each in too_many:
                refused = door.caller.refused(each)
                assert refused.code == ServiceCode.BUSY
                assert refused.retry_after_ms is not None and refused.retry_after_ms > 0
            journal.let.set()
            await door.all_told()
            assert [door.caller.answered(each).sequence for each in taken] == [2, 3, 4]
            again = await door.ask(ada, CancelOrder("x"), "key")
            assert (again.sequence, again.repeated) == (5, False)

    asyncio.run(run())


def test_no_room_on_the_disk(tmp_path: Path) -> None:
    """All of the group are refused, nothing was changed, and the same numbers and keys go on."""

    async def run() -> None:
        journal = SlowJournal(tmp_path)
        failures: list[Exception] = []
        async with opened(journal) as exchange:
            exchange.on_failure = failures.append
            door = await with_resource(exchange)
            ada, before = tenant("ada"), exchange.execution.venue.digest()
            journal.failure = NotDurable("database or disk is full")
            journal.let.clear()
            first = door.put(ada, PlaceOrder("h", 5), "a")
            await until(lambda: len(journal.appends) == 2)
            others = [
                door.put(ada, PlaceOrder("h", 5), "a"),
                door.put(ada, PlaceOrder("h", 6), "b"),
            ]
            journal.let.set()
            await door.all_told()
            for each in (first, *others):
                refused = door.caller.refused(each)
                assert refused.code == ServiceCode.NOT_DURABLE
                assert refused.retry_after_ms is not None
                assert "nothing was changed" in refused.message
            await until(lambda: door.caller.flushed == 4)
            assert journal.appends[1:] == [(2, 1), (2, 1)]
            assert exchange.execution.venue.digest() == before
            assert exchange.execution.sequence == 1
            journal.failure = None
            again = await door.ask(ada, PlaceOrder("h", 5), "a")
            assert (again.sequence, again.repeated) == (2, False)
            assert exchange.market.owner("h/0") == "ada"
            assert failures == []
        assert [entry.key for entry in entries_of(tmp_path)] == [None, "a"]

    asyncio.run(run())


def test_what_falls_due_is_retried_when_there_was_no_room(tmp_path: Path) -> None:
    """The exchange's own entry is tried again, until the disk has room."""

    async def run() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(due, "RETRY_S", 0.001)
            times, journal = Times(), SlowJournal(tmp_path)
            async with opened(journal, times) as exchange:
                door = await with_resource(exchange)
                await door.ask(tenant("bob"), PlaceOrder("h", 9, 9))
                await door.ask(tenant("ada"), PlaceOrder("h", 5, 5, "x", START_US + 1_000))
                journal.failure = NotDurable("full")
                times.pass_us(1_000)
                await until(lambda: len(journal.appends) > 5)
                assert len(exchange.market.orders("ada")) == 1
                journal.failure = None
                await until(lambda: exchange.market.orders("ada") == ())
                assert exchange.execution.sequence == 4

    asyncio.run(run())


def test_a_broken_disk_closes_the_exchange(tmp_path: Path) -> None:
    """What was under way is told that it is not known; whoever runs the exchange is told why."""

    async def run() -> None:
        journal = SlowJournal(tmp_path)
        failures: list[Exception] = []
        async with opened(journal) as exchange:
            exchange.on_failure = failures.append
            door = await with_resource(exchange)
            before = exchange.execution.venue.digest()
            journal.failure = JournalFailed("disk I/O error")
            broken = door.put(tenant("ada"), PlaceOrder("h", 5), "a")
            await door.all_told()
            assert door.caller.refused(broken).code == ServiceCode.NOT_DURABLE
            assert "not known" in door.caller.refused(broken).message
            assert len(failures) == 1 and "disk I/O error" in str(failures[0])
            later = door.put(tenant("ada"), PlaceOrder("h", 5), "a")
            assert door.caller.refused(later).code == ServiceCode.NOT_DURABLE
            assert exchange.execution.venue.digest() == before
            journal.failure = None
        read = SqliteJournal(tmp_path, read_only=True)
        assert read.snapshots() == [] and read.head.sequence == 1
        read.close()

    asyncio.run(run())


def test_time_that_a_question_was_told_is_not_told_again(tmp_path: Path) -> None:
    """After a restart with a clock that was set back, though nothing was journaled meanwhile."""

    async def run() -> None:
        times = Times()
        async with opened(SqliteJournal(tmp_path), times) as exchange:
            await with_resource(exchange)
            times.pass_us(60_000_000)
            told = exchange.desk.answer(operator(), AskStatus())
        times.wall_ns -= 3_600_000_000_000
        journal = SqliteJournal(tmp_path)
        assert journal.head.at_us == START_US < journal.shown_until_us
        exchange = Exchange(journal, clock=times.clock(journal.shown_until_us))
        again = exchange.desk.answer(operator(), AskStatus())
        assert isinstance(told, Status) and isinstance(again, Status)
        assert again.at >= told.at == START_US + 60_000_000
        await exchange.close()

    asyncio.run(run())


def test_many_timers_need_few_entries(tmp_path: Path) -> None:
    """However close together things fall due, time passes by an entry now and then, and each of
    them acts at its own instant all the same."""

    async def run() -> None:
        times = Times()
        async with opened(SqliteJournal(tmp_path), times) as exchange:
            door = await with_resource(exchange)
            ada = tenant("ada")
            for number in range(200):
                order = PlaceOrder("h", 5, 5, f"x{number}", START_US + 1_000 * (number + 1))
                door.put(ada, order)
            await door.all_told()
            begun, begun_s = exchange.execution.sequence, time.monotonic()
            passed = 0
            while exchange.market.orders("ada"):
                times.pass_us(1_000)
                passed += 1
                await asyncio.sleep(0.001)
                assert passed < 10_000
            by_the_clock = exchange.execution.sequence - begun
            assert 1 <= by_the_clock <= 2 + (time.monotonic() - begun_s) / due.PAUSE_S
            ends = [
                event.at
                for _, _, events in exchange.execution.feeds._recent
                for event in events
                if isinstance(event, Expired)
            ]
            assert ends == [START_US + 1_000 * (number + 1) for number in range(1, 200)]

    asyncio.run(run())


def test_a_restless_market_is_settled_sooner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the market remembers to explain what is open is bounded, whatever is sent."""
    monkeypatch.setattr(due, "CHANGES_BETWEEN_COUNTS", 50)

    async def run() -> None:
        settings = Settings(steps_kept=60)
        async with opened(SqliteJournal(tmp_path), settings=settings) as exchange:
            door = await with_resource(exchange)
            await door.ask(tenant("ada"), PlaceOrder("h", 5, 1_000))
            most = 0
            for number in range(400):
                await door.ask(tenant("bob"), PlaceOrder("h", 6 + number, order=f"b{number}"))
                most = max(most, exchange.market.steps_remembered())
            assert 50 < most <= 60 + 2 * 50 + 1
        settled = [entry for entry in entries_of(tmp_path) if isinstance(entry.do, Settle)]
        assert 2 <= len(settled) <= 8

    asyncio.run(run())


# --- keys ---------------------------------------------------------------------------------------


def test_a_key_in_flight(tmp_path: Path) -> None:
    """Both get the same answer, it acts once; other content is refused, another author is not."""

    async def run() -> None:
        journal = SlowJournal(tmp_path)
        async with opened(journal) as exchange:
            door = await with_resource(exchange, "h/0", "h/1", "h/2")
            ada, bob = tenant("ada"), tenant("bob")
            journal.let.clear()
            first = door.put(ada, PlaceOrder("h", 5), "k")
            second = door.put(tenant("ada"), PlaceOrder("h", 5), "k")
            other = door.put(ada, PlaceOrder("h", 6), "k")
            bobs = door.put(bob, PlaceOrder("h", 6), "k")
            assert door.caller.refused(other).code == ServiceCode.KEY_REUSED
            journal.let.set()
            await door.all_told()
            answers = [door.caller.answered(each) for each in (first, second, bobs)]
            assert [answer.sequence for answer in answers] == [4, 4, 5]
            assert [answer.repeated for answer in answers] == [False, True, False]
            assert answers[0].events == answers[1].events != ()
            assert answers[0].at == answers[1].at
            assert [len(exchange.market.holdings(name)) for name in ("ada", "bob")] == [1, 1]

    asyncio.run(run())


def test_a_key_that_was_answered(tmp_path: Path) -> None:
    """The same answer again, also after a restart; other content is refused; nothing acts."""

    async def run() -> None:
        ada = tenant("ada")
        async with opened(SqliteJournal(tmp_path)) as exchange:
            door = await with_resource(exchange, "h/0", "h/1")
            first = await door.ask(ada, PlaceOrder("h", 5), "k")
            refusal = await door.ask(ada, CancelOrder("nothing"), "c")
        for _ in range(2):
            async with opened(SqliteJournal(tmp_path)) as exchange:
                door = Door(exchange)
                again = await door.ask(ada, PlaceOrder("h", 5), "k")
                assert again == Answered(first.sequence, first.at, first.events, True)
                twice = await door.ask(ada, CancelOrder("nothing"), "c")
                assert twice == Answered(refusal.sequence, refusal.at, refusal.events, True)
                others: list[Instruction] = [PlaceOrder("h", 6), PlaceOrder("h/1", 5)]
                for do in (*others, CancelOrder("o-3"), PlaceOrder("h", 5, expires=10**17)):
                    request_id = door.put(ada, do, "k")
                    assert door.caller.refused(request_id).code == ServiceCode.KEY_REUSED
                assert exchange.execution.sequence == 4
        async with opened(SqliteJournal(tmp_path)) as exchange:
            bobs = await Door(exchange).ask(tenant("bob"), PlaceOrder("h", 5), "k")
            assert (bobs.sequence, bobs.repeated) == (5, False)

    asyncio.run(run())


def test_a_key_whose_answer_is_forgotten(tmp_path: Path) -> None:
    """It is answered with the place where it acted, and no events; forgotten too, it is new."""

    async def run() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(keys_module, "ANSWERS_KEPT", 4)
            async with opened(SqliteJournal(tmp_path), settings=Settings(keys_kept=5)) as exchange:
                door = await with_resource(exchange)
                ada = tenant("ada")
                first = await door.ask(ada, PlaceOrder("h", 5), "k")
                for number in range(4):
                    await door.ask(ada, CancelOrder("x"), f"k-{number}")
                again = await door.ask(ada, PlaceOrder("h", 5), "k")
                assert (again.sequence, again.events) == (first.sequence, ())
                assert again.repeated and exchange.execution.sequence == 6
                for number in range(4, 10):
                    await door.ask(ada, CancelOrder("x"), f"k-{number}")
                new = await door.ask(ada, PlaceOrder("h", 5), "k")
                assert (new.sequence, new.repeated) == (13, False)

    asyncio.run(run())


def test_a_restart_remembers_the_keys_that_were_remembered(tmp_path: Path) -> None:
    """Those of somebody who seldom uses one too, behind very many of a rival's: the same keys."""
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(recovery, "REPLAYED", 5)

    async def run() -> None:
        settings = Settings(keys_kept=50)
        known: list[bool] = []
        for _ in range(2):
            async with opened(SqliteJournal(tmp_path), settings=settings) as exchange:
                keys = exchange.execution.keys
                if known:
                    again = [keys.sequence("eve", f"k-{n}") is not None for n in range(600)]
                    assert (again, keys.sequence("ada", "mine")) == (known, 1)
                    return
                door = Door(exchange)
                await door.ask(tenant("ada"), CancelOrder("x"), "mine")
                for number in range(600):
                    door.put(tenant("eve"), CancelOrder("x"), f"k-{number}")
                    if number % 100 == 0:
                        await door.all_told()
                await door.all_told()
                known = [keys.sequence("eve", f"k-{n}") is not None for n in range(600)]
            async with opened(SqliteJournal(tmp_path), settings=settings) as exchange:
                door = Door(exchange)
                for _ in range(10):
                    await door.ask(operator(), ChangeFloor("h", 0))

    with monkeypatch.context():
        asyncio.run(run())
    monkeypatch.undo()


# --- the end ------------------------------------------------------------------------------------


def test_closing_answers_what_is_under_way(tmp_path: Path) -> None:
    """New requests are refused as stopping, old ones answered, and a snapshot is left behind."""

    async def run() -> None:
        journal = SlowJournal(tmp_path)
        exchange = Exchange(journal)
        door = await with_resource(exchange)
        journal.let.clear()
        begun = [door.put(tenant("ada"), PlaceOrder("h", 5))]
        await until(lambda: len(journal.appends) == 2)
        begun.append(door.put(tenant("bob"), PlaceOrder("h", 4)))
        closing = asyncio.create_task(exchange.close())
        await asyncio.sleep(0)
        late = door.put(tenant("ada"), PlaceOrder("h", 5))
        assert door.caller.refused(late).code == ServiceCode.STOPPING
        assert door.caller.refused(late).retry_after_ms is not None
        assert not closing.done()
        journal.let.set()
        await closing
        assert [door.caller.answered(each).sequence for each in begun] == [2, 3]
        read = SqliteJournal(tmp_path, read_only=True)
        assert labels(read) == [(3, exchange.execution.venue.digest())]
        read.close()

    asyncio.run(run())


def test_snapshots_are_taken_on_the_way(tmp_path: Path) -> None:
    """Every `snapshot_every` entries, of the state as it was then, while requests go on."""

    async def run() -> None:
        journal = SqliteJournal(tmp_path)
        digests = {}
        async with opened(journal, settings=Settings(snapshot_every=10)) as exchange:
            door = Door(exchange)
            for number in range(25):
                await door.ask(operator(), OfferResource(f"h/{number}"))
                digests[exchange.execution.sequence] = exchange.execution.venue.digest()
                if number == 10:
                    await until(lambda: bool(journal.snapshots()))
                    assert labels(journal) == [(10, digests[10])]
        read = SqliteJournal(tmp_path, read_only=True)
        for sequence, digest in labels(read):
            assert digests[sequence] == digest
        assert labels(read)[-1][0] == 25
        verify(read)
        read.close()

    asyncio.run(run())


# --- live and replayed --------------------------------------------------------------------------

NAMES = ("ada", "bob", "eve")
SCOPES = ("h", "h/a", "h/b", "h/a/0", "h/b/0")
RESOURCES = ("h/a/0", "h/a/1", "h/b/0")
money, scopes, resources = st.integers(1, 9), st.sampled_from(SCOPES), st.sampled_from(RESOURCES)
order_ids = st.sampled_from(["x", "y", "o-4", "o-5", "o-6"])
lives = st.one_of(st.none(), st.integers(START_US, START_US + 3_000))
trades: st.SearchStrategy[Instruction] = st.one_of(
    st.builds(PlaceOrder, scopes, money, st.none(), st.one_of(st.none(), order_ids), lives),
    st.builds(PlaceOrder, scopes, st.none(), money),
    st.builds(AmendOrder, order_ids, money, st.just(9)),
    st.builds(CancelOrder, order_ids),
    st.builds(ChangeLimit, resources, money),
    st.builds(Release, resources),
)
operations: st.SearchStrategy[Instruction] = st.one_of(
    st.builds(OfferResource, resources, st.dictionaries(st.sampled_from("ab"), st.text())),
    st.builds(WithdrawResource, resources),
    st.builds(ChangeFloor, scopes, money),
    st.builds(
        ChangeGuard, st.just("h"), st.none(), st.just(1), st.integers(0, 900), st.just(1_000)
    ),
    st.builds(CordonScope, scopes),
    st.builds(UncordonScope, scopes),
    st.builds(CloseStatements),
)
keys = st.one_of(st.none(), st.sampled_from(["k1", "k2", "k3"]))
requests = st.one_of(
    st.tuples(st.sampled_from(NAMES), trades, keys), st.tuples(st.none(), operations, keys)
)
turns = st.tuples(st.integers(0, 1_500), st.lists(requests, min_size=1, max_size=8))


class Seen(msgspec.Struct):
    """Everything that can be asked of an execution, after a sequence number."""

    digest: str
    streams: dict[str, list[bytes]]
    everything: list[bytes]
    keys: dict[tuple[str, str], int | None]
    answers: dict[int, object]
    handovers: list[object]


def seen(execution: Execution, after: int = 0) -> Seen:
    authors = (*NAMES, operator().name)
    names = [(author, key) for author in authors for key in ("k1", "k2", "k3")]
    places = {name: execution.keys.sequence(*name) for name in names}
    kept = {place: execution.keys.answer(place) for place in places.values() if place}
    return Seen(
        execution.venue.digest(),
        {name: told(missed(execution.feeds, name, after)) for name in NAMES},
        told(missed(execution.feeds, None, after)),
        places,
        {place: answer for place, answer in kept.items() if place > after},
        [each for each in execution.handovers if each.sequence > after],
    )


def told(messages: Iterable[bytes] | None) -> list[bytes]:
    assert messages is not None
    return list(messages)


@settings(max_examples=40)
@given(st.lists(turns, min_size=1, max_size=6), st.lists(turns, max_size=3))
def test_a_restart_changes_nothing(
    before: list[tuple[int, list[tuple[str | None, Instruction, str | None]]]],
    after: list[tuple[int, list[tuple[str | None, Instruction, str | None]]]],
) -> None:
    """Market, streams, keys, answers and handovers are the same, read back or from a copy."""

    async def trade(
        exchange: Exchange,
        times: Times,
        turns: list[tuple[int, list[tuple[str | None, Instruction, str | None]]]],
    ) -> None:
        door = Door(exchange)
        for elapsed_us, requests in turns:
            times.pass_us(elapsed_us)
            for name, do, key in requests:
                door.put(tenant(name) if name else operator(), do, key)
            await door.all_told()
        await until(lambda: (exchange.market.next_timer() or 10**18) > exchange.clock.now())

    async def run(folder: Path) -> None:
        times = Times()
        offers: list[tuple[str | None, Instruction, str | None]] = [
            (None, OfferResource(each), None) for each in RESOURCES
        ]
        async with opened(SqliteJournal(folder), times) as exchange:
            await trade(exchange, times, [(0, offers), *before])
            middle = take(exchange.execution.venue, exchange.execution.sequence)
        live = seen(exchange.execution)
        async with opened(SqliteJournal(folder), times) as exchange:
            assert seen(exchange.execution) == live
            await trade(exchange, times, after)
        live, live_since = seen(exchange.execution), seen(exchange.execution, middle.sequence)
        (folder / "copy").mkdir()
        with contextlib.closing(SqliteJournal(folder)) as journal:
            journal.save_snapshot(middle, apart=1)
            journal.backup(folder / "copy" / "journal.sqlite")
        for place in (folder, folder / "copy"):
            journal = SqliteJournal(place, read_only=True)
            assert seen(recover(journal, 1_000)) == live
            verified = verify(journal)
            assert (verified.digest, verified.sequence) == (live.digest, journal.head.sequence)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(recovery, "REPLAYED", journal.head.sequence - middle.sequence)
                short = recover(journal, 1_000)
                assert seen(short, middle.sequence) == live_since
                assert not short.feeds.keeps(None, middle.sequence - 1)
            journal.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))
