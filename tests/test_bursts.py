"""What one tenant can pile up, and what the others notice of it: thousands of things that fall due
at one instant, orders under way, charges that nobody has counted, streams to many connections."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from laissez.exchange import counting as counting_module
from laissez.exchange import due
from laissez.exchange import parts as parts_module
from laissez.exchange.access import Principal, Token, new_token
from laissez.exchange.allowance import TURN_NS
from laissez.exchange.counting import Counting
from laissez.exchange.journal import NotDurable
from laissez.exchange.records import Entry, PartialAdvance, write_entries
from laissez.exchange.recovery import verify
from laissez.exchange.sequencing import KeepToken
from laissez.exchange.sqlite_journal import SqliteJournal
from laissez.exchange.venue import Venue
from laissez.market import Market
from laissez.model import (
    AskBill,
    AskTenants,
    CancelOrder,
    ChangeFloor,
    ChangeGuard,
    Expired,
    Instruction,
    PlaceOrder,
    Refused,
    ServiceCode,
)
from laissez.service import outflow as outflow_module
from laissez.service.outflow import Outflow
from test_exchange import (
    PLENTY,
    START_US,
    Door,
    SlowJournal,
    Times,
    entries_of,
    opened,
    operator,
    tenant,
    until,
    with_resource,
)

FEW_ORDERS = msgspec.structs.replace(PLENTY, orders=3)


async def ask_in_vain(door: Door, who: Principal, do: Instruction) -> Refused:
    request_id = door.put(who, do)
    await door.all_told()
    return door.caller.refused(request_id)


# --- things that fall due at one instant --------------------------------------------------------


async def place_all_to_expire(door: Door, count: int, expires: int) -> None:
    """Orders of ada's on what bob holds, all of which expire at one instant."""
    await door.ask(tenant("bob"), PlaceOrder("h", 9, 9))
    for number in range(count):
        door.put(tenant("ada"), PlaceOrder("h", 5, 5, f"x{number}", expires))
    await door.all_told()


def test_what_falls_due_in_thousands_acts_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry and a message for each part. Between them questions are answered, from a state that
    the stream has led to; a change waits until all have acted, and a restart finds it all."""
    monkeypatch.setattr(parts_module, "DUE_AT_ONCE", 10)
    seen: list[tuple[int, int, int]] = []
    in_parts: list[bool] = []

    async def run() -> None:
        times, journal = Times(), SlowJournal(tmp_path)
        async with opened(journal, times) as exchange:
            door = await with_resource(exchange)
            await place_all_to_expire(door, 75, START_US + 1_000)
            market, feeds = exchange.market, exchange.execution.feeds
            before = exchange.execution.sequence

            def look() -> None:
                ends = sum(len(said.events) for said in feeds.of("ada").messages) - 75
                in_parts.append(exchange.acts_in_parts)
                seen.append((len(market.orders("ada")), ends, exchange.desk.instant()))

            exchange.on_applied.append(look)
            times.pass_us(1_500)
            answer = await door.ask(tenant("bob"), PlaceOrder("h", 5, 5, "after"))
            assert answer.sequence == before + 8 and answer.at == START_US + 1_500
            assert [event.at for event in answer.events] == [START_US + 1_500]
            assert [count for _, count in journal.appends[-3:]] == [5, 2, 1], "few syncs"
            digest = exchange.execution.venue.digest()
        at = START_US + 1_000
        assert seen[:7] == [(75 - done, done, at) for done in range(10, 80, 10)]
        assert in_parts == [True] * 6 + [False] * 2
        assert seen[7] == (0, 75, at + 500)
        parts = [entry for entry in entries_of(tmp_path) if isinstance(entry.do, PartialAdvance)]
        assert parts == [Entry(":clock", PartialAdvance(at + 500, 10))] * 7
        async with opened(SqliteJournal(tmp_path), times) as exchange:
            assert exchange.execution.venue.digest() == digest

    asyncio.run(run())


@pytest.mark.parametrize(("due_too", "authors"), [(99, ["bob"]), (100, [":clock", "bob"])])
def test_nobody_pays_for_what_others_let_expire(
    tmp_path: Path, due_too: int, authors: list[str]
) -> None:
    """A command pays for its time: if much has fallen due before it, the clock has it act first, in
    the same group and at the same instant."""

    async def run() -> None:
        times, journal = Times(), SlowJournal(tmp_path)
        async with opened(journal, times) as exchange:
            door = await with_resource(exchange)
            await place_all_to_expire(door, due_too, START_US + 1_000)
            written = len(journal.appends)
            times.pass_us(2_000)
            answer = await door.ask(tenant("bob"), PlaceOrder("h", 5, 5, "after"))
            assert answer.at == START_US + 2_000 and exchange.market.orders("ada") == ()
            assert [count for _, count in journal.appends[written:]] == [len(authors)]
        assert [entry.author for entry in entries_of(tmp_path)[-len(authors) :]] == authors
        assert entries_of(tmp_path)[-len(authors) - 1].author == "ada"

    asyncio.run(run())


def test_nobody_pays_behind_somebody_with_a_new_token(tmp_path: Path) -> None:
    """A token that is made lets no time pass: the clock comes before it, too."""

    async def run() -> None:
        times, journal = Times(), SlowJournal(tmp_path)
        async with opened(journal, times) as exchange:
            door = await with_resource(exchange)
            await place_all_to_expire(door, 100, START_US + 1_000)
            written = len(journal.appends)
            times.pass_us(2_000)
            _, token = new_token("tenant", "cid", at=START_US)
            made = asyncio.create_task(exchange.carry_out("operator:op", KeepToken(token)))
            await asyncio.sleep(0)
            await door.ask(tenant("bob"), PlaceOrder("h", 5, 5, "after"))
            await made
            assert [count for _, count in journal.appends[written:]] == [3]
        authors = [entry.author for entry in entries_of(tmp_path)[-3:]]
        assert authors == [":clock", "operator:op", "bob"]

    asyncio.run(run())


def test_nobody_pays_for_a_floor_that_falls(tmp_path: Path) -> None:
    """One step of it is one thing that falls due, and may move thousands of leaves."""

    async def run() -> None:
        times, journal = Times(), SlowJournal(tmp_path)
        async with opened(journal, times) as exchange:
            door = await with_resource(exchange)
            await door.ask(operator(), ChangeFloor("h", 9_000))
            await door.ask(operator(), ChangeGuard("h", fall=4_000, window=100_000))
            times.pass_us(100_000)
            await door.ask(operator(), ChangeFloor("h", 1_000))
            await door.ask(tenant("ada"), PlaceOrder("h", 3_000, 3_000, "waits"))
            times.pass_us(100_000)
            answer = await door.ask(tenant("bob"), PlaceOrder("h", 5, 5, "after"))
            assert len(answer.events) == 1 and exchange.market.owner("h/0") == "ada"
        assert [entry.author for entry in entries_of(tmp_path)[-2:]] == [":clock", "bob"]

    asyncio.run(run())


def test_what_falls_due_counts_like_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For whoever looks after so many changes whether there is something to do: a part of a
    thousand is not one of them."""
    monkeypatch.setattr(parts_module, "DUE_AT_ONCE", 10)
    told: dict[str, list[int]] = {"Counting": [], "Due": []}

    def note(kind: type, after_group: Callable[[Any, int], None]) -> None:
        def noted(self: Any, changes: int) -> None:
            told[kind.__name__].append(changes)
            after_group(self, changes)

        monkeypatch.setattr(kind, "after_group", noted)

    async def run() -> None:
        times = Times()
        async with opened(SlowJournal(tmp_path), times) as exchange:
            door = await with_resource(exchange)
            await place_all_to_expire(door, 75, START_US + 1_000)
            note(Counting, Counting.after_group)
            note(due.Due, due.Due.after_group)
            times.pass_us(1_500)
            await door.ask(tenant("bob"), PlaceOrder("h", 5, 5, "after"))
        assert told["Counting"] == told["Due"] == [10 + 1] * 7 + [5 + 1]

    asyncio.run(run())


def test_parts_go_on_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal that ends in the middle of an instant: the rest of it acts, and first."""
    monkeypatch.setattr(parts_module, "DUE_AT_ONCE", 10)

    async def run() -> None:
        times, journal = Times(), SlowJournal(tmp_path)
        async with opened(journal, times) as exchange:
            door = await with_resource(exchange)
            await place_all_to_expire(door, 35, START_US + 1_000)
        half = SqliteJournal(tmp_path)
        record = PartialAdvance(START_US + 1_000, 12)
        data = write_entries([Entry(":clock", record)])
        half.append(half.head.sequence + 1, 1, record.at, Venue.rules, data)
        half.close()
        times.pass_us(1_000)
        async with opened(SqliteJournal(tmp_path), times) as exchange:
            assert len(exchange.market.orders("ada")) == 23
            await until(lambda: exchange.market.orders("ada") == ())
            verify(exchange.journal)

    asyncio.run(run())


def test_what_waits_for_parts_is_refused_when_there_is_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing may come before what has fallen due: while that can't be written, changes are refused
    like any other that can't, and are taken when it can."""
    monkeypatch.setattr(parts_module, "DUE_AT_ONCE", 10)
    monkeypatch.setattr(due, "RETRY_S", 0.001)

    async def run() -> None:
        times, journal = Times(), SlowJournal(tmp_path)
        async with opened(journal, times) as exchange:
            door = await with_resource(exchange)
            await place_all_to_expire(door, 35, START_US + 1_000)
            journal.failure = NotDurable("full")
            times.pass_us(1_000)
            request = door.put(tenant("bob"), PlaceOrder("h", 5, 5, "after"), "key")
            await door.all_told()
            assert door.caller.refused(request).code == ServiceCode.NOT_DURABLE
            assert len(exchange.market.orders("ada")) == 35
            journal.failure = None
            await until(lambda: exchange.market.orders("ada") == ())
            answer = await door.ask(tenant("bob"), PlaceOrder("h", 5, 5, "after"), "key")
            assert not answer.repeated

    asyncio.run(run())


def test_streams_go_on_while_the_disk_stalls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They wait while parts act. What was told before must not stand still for a disk that does."""
    monkeypatch.setattr(parts_module, "DUE_AT_ONCE", 10)
    monkeypatch.setattr(parts_module, "DISK_S", 0.01)

    async def run() -> None:
        times, journal = Times(), SlowJournal(tmp_path)
        async with opened(journal, times) as exchange:
            door = await with_resource(exchange)
            await place_all_to_expire(door, 35, START_US + 1_000)
            written = len(journal.appends)
            journal.let.clear()
            times.pass_us(1_000)
            door.put(tenant("bob"), PlaceOrder("h", 5, 5, "after"))
            await until(lambda: len(journal.appends) > written)
            assert journal.appends[-1][1] == 3, "the disk has the parts"
            await until(lambda: not exchange.acts_in_parts)
            journal.let.set()
            await door.all_told()
            assert not exchange.acts_in_parts

    asyncio.run(run())


@pytest.mark.parametrize("seed", range(3))
def test_parts_come_in_the_order_of_time_whatever_the_order_of_arrival(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Orders of two tenants that expire at a handful of instants, placed in any order, some of
    them cancelled: each acts at its own instant, and none before one that was due earlier."""
    monkeypatch.setattr(parts_module, "DUE_AT_ONCE", 7)
    chance = random.Random(seed)
    due_at = {f"x{number}": START_US + 1_000 + chance.randrange(5) for number in range(60)}
    gone = set(chance.sample(sorted(due_at), 9))

    async def run() -> None:
        times = Times()
        async with opened(SqliteJournal(tmp_path), times) as exchange:
            door = await with_resource(exchange)
            await door.ask(tenant("bob"), PlaceOrder("h", 9, 9))
            arrival = chance.sample(sorted(due_at), len(due_at))
            who = {name: tenant(chance.choice(["ada", "eve"])) for name in arrival}
            for name in arrival:
                door.put(who[name], PlaceOrder("h", 5, 5, name, due_at[name]))
            for name in gone:
                door.put(who[name], CancelOrder(name))
            await door.all_told()
            before = exchange.execution.sequence
            times.pass_us(2_000)
            await door.ask(tenant("bob"), PlaceOrder("h", 5, 5, "after"))
            feeds = exchange.execution.feeds
            acted: dict[int, list[Expired]] = {}
            for said in feeds.of("ada").messages + feeds.of("eve").messages:
                if said.sequence > before:
                    ends = [event for event in said.events if isinstance(event, Expired)]
                    acted.setdefault(said.sequence, []).extend(ends)
            assert {event.order: event.at for ends in acted.values() for event in ends} == {
                name: at for name, at in due_at.items() if name not in gone
            }
            instants = [[event.at for event in acted[sequence]] for sequence in sorted(acted)]
            assert all(max(earlier) <= min(later) for earlier, later in pairwise(instants))
            assert [len(each) for each in instants] == [7] * 7 + [2], "51 in parts of 7"
            verify(exchange.journal)

    asyncio.run(run())


# --- what a tenant may have ---------------------------------------------------------------------


def test_orders_under_way_count_as_orders(tmp_path: Path) -> None:
    """However many are sent before the first is answered, no more of them come to rest than may;
    what was under way and is there, or was refused, counts once or no more."""

    async def run() -> None:
        journal = SlowJournal(tmp_path)
        async with opened(journal) as exchange:
            door = await with_resource(exchange)
            await door.ask(tenant("bob"), PlaceOrder("h", 9, 9))
            ada = Principal(Token("ada", "hash", "tenant", "ada", 0), FEW_ORDERS)
            journal.let.clear()
            asked = [door.put(ada, PlaceOrder("h", 5, 5, f"x{number}")) for number in range(3)]
            asked += [door.put(ada, PlaceOrder("h", 5, 5), "a key") for _ in range(2)]
            asked.append(door.put(tenant("bob"), PlaceOrder("h", 5, 5)))
            journal.let.set()
            await door.all_told()
            told = [door.caller.told[number] for number in asked]
            refused = [each.code for each in told if isinstance(each, Refused)]
            assert refused == [ServiceCode.TOO_MANY_ORDERS] * 2
            assert exchange.market.order_count("ada") == 3
            journal.failure = NotDurable("full")
            await ask_in_vain(door, ada, CancelOrder("x0"))
            journal.failure = None
            await door.ask(ada, CancelOrder("x0"))
            for number in range(4):
                journal.failure = NotDurable("full")
                await ask_in_vain(door, ada, PlaceOrder("h", 5, 5, f"y{number}"))
            journal.failure = None
            await door.ask(ada, PlaceOrder("h", 5, 5, "z"))
            assert exchange.market.order_count("ada") == 3

    asyncio.run(run())


# --- charges that nobody has counted ------------------------------------------------------------


def fail(what: str, error: Exception) -> None:
    raise AssertionError(what) from error


class Cost:
    """A clock that stands still but for what is read: `counting_us` for a holding that has changes
    to count, one microsecond for another."""

    def __init__(self, market: Market, counting_us: int) -> None:
        self.now_us = 0
        self.counting_us = counting_us
        self.counted: dict[str, int] = {}
        self.longest_us = 0
        self._owed = market.owed

    def now_ns(self) -> int:
        return self.now_us * 1_000

    def owed(self, path: str, version: int) -> int:
        is_new = self.counted.get(path) != version
        self.counted[path] = version
        self.now_us += self.counting_us if is_new else 1
        return self._owed(path)


def held_market(holdings: int) -> Market:
    market = Market()
    market.set_floor("h", 1, at=0)
    for number in range(holdings):
        market.add_resource(f"h/r{number % 3}/g{number}", at=0)
        market.place(f"t{number % 7}", "h", price=1, limit=1_000, order=f"{number}", at=0)
    return market


@pytest.mark.parametrize(
    ("counting_us", "between"),
    [(1_000, counting_module.COMMANDS_LEAST), (2, counting_module.COMMANDS_MOST)],
)
def test_all_holdings_are_read_as_often_as_their_reading_asks_for(
    counting_us: int, between: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By turns of bounded length, and each once in a round: after few commands where counting is
    dear, after many where it is cheap."""

    async def run() -> None:
        market = held_market(100)
        cost = Cost(market, counting_us)
        version = 0
        monkeypatch.setattr(Market, "owed", lambda _, path: cost.owed(path, version))
        counting = Counting(market, on_error=fail, now_ns=cost.now_ns)
        for version in range(1, 12):
            counting.after_group(counting.commands_between)
            turns, begun = 0, cost.now_us
            while set(cost.counted.values()) != {version} or len(cost.counted) < 100:
                at = cost.now_us
                await asyncio.sleep(0)
                assert cost.now_us - at <= TURN_NS // 1_000 + 2 * counting_us
                turns += 1
                assert turns < 200
            assert cost.now_us - begun < 100 * (counting_us + 1) + 2 * turns
            await asyncio.sleep(0)
        assert counting.commands_between == between
        before = cost.now_us
        counting.after_group(between - 1)
        await asyncio.sleep(0)
        assert cost.now_us == before, "there was nothing to read yet"
        counting.after_group(1)
        counting.stop()
        await asyncio.sleep(0)
        assert cost.now_us == before

    asyncio.run(run())


def test_what_bills_have_counted_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where bills have left little to a round, it comes as soon as if it had counted it itself."""

    async def run() -> None:
        market = held_market(100)
        cost = Cost(market, 2)
        monkeypatch.setattr(Market, "owed", lambda _, path: cost.owed(path, 0))
        counting = Counting(market, on_error=fail, now_ns=cost.now_ns)
        for _ in range(12):
            counting.note_bill(100, counting.commands_between * 100_000)
            counting.after_group(counting.commands_between)
            await asyncio.sleep(0.001)
        assert counting.commands_between == counting_module.COMMANDS_LEAST

    asyncio.run(run())


def test_what_bills_have_only_read_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bill that is asked for again and again reads its holdings, and there is no more to count
    for that: rounds stay as rare as they were."""

    async def run() -> None:
        market = held_market(100)
        cost = Cost(market, 2)
        monkeypatch.setattr(Market, "owed", lambda _, path: cost.owed(path, 0))
        counting = Counting(market, on_error=fail, now_ns=cost.now_ns)
        for _ in range(12):
            for _ in range(10_000):
                counting.note_bill(100, 100_000)
            counting.after_group(counting.commands_between)
            await asyncio.sleep(0.001)
        assert counting.commands_between == counting_module.COMMANDS_MOST

    asyncio.run(run())


def test_the_desk_says_what_its_bills_have_read(tmp_path: Path) -> None:
    """One bill, and the bills of a page of tenants: how many holdings were read for them."""

    async def run() -> None:
        async with opened(SqliteJournal(tmp_path)) as exchange:
            door = await with_resource(exchange, "h/0", "h/1", "h/2")
            for name in ("ada", "ada", "bob"):
                await door.ask(tenant(name), PlaceOrder("h", 5, 50))
            read: list[int] = []
            exchange.desk.on_bill = lambda holdings, took_ns: read.append(holdings)
            exchange.desk.answer(tenant("ada"), AskBill())
            exchange.desk.answer(operator(), AskTenants())
            assert read == [2, 3]

    asyncio.run(run())


def test_what_is_read_beside_trading_changes_nothing() -> None:
    """Whether it was read or not: the same bills, the same digest, the same statements."""

    async def run() -> None:
        read, unread = held_market(30), held_market(30)
        counting = Counting(read, on_error=fail)
        scopes = ["h", "h/r0", "h/r1", "h/r0/g0", "h/r1/g1"]
        chance = random.Random(7)
        for at in range(1, 400):
            scope, price = chance.choice(scopes), chance.randrange(2, 900)
            told = [
                market.place("bob", scope, price=price, limit=price, order=f"b{at}", at=at)
                if at % 3
                else market.cancel("bob", f"b{at - 1}", at=at)
                for market in (read, unread)
            ]
            assert told[0] == told[1]
            counting.after_group(100)
            await asyncio.sleep(0)
        assert [read.bill(f"t{n}", 400) for n in range(7)] == [
            unread.bill(f"t{n}", 400) for n in range(7)
        ]
        assert read.settle(at=400) == unread.settle(at=400)
        assert read.digest() == unread.digest()

    asyncio.run(run())


def test_an_exchange_reads_what_its_holdings_owe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After so many commands, without being asked: when a statement closes little is left."""
    monkeypatch.setattr(counting_module, "COMMANDS_AT_FIRST", 20)
    monkeypatch.setattr(counting_module, "COMMANDS_MOST", 20)
    monkeypatch.setattr(counting_module, "COMMANDS_LEAST", 20)
    read: list[str] = []
    owed = Market.owed

    def noted(market: Market, path: str) -> int:
        read.append(path)
        return owed(market, path)

    monkeypatch.setattr(Market, "owed", noted)

    async def run() -> None:
        async with opened(SqliteJournal(tmp_path)) as exchange:
            door = await with_resource(exchange, "h/0", "h/1")
            await door.ask(tenant("ada"), PlaceOrder("h", 5, 50))
            for number in range(60):
                await door.ask(tenant("bob"), PlaceOrder("h/0", 6 + number % 9, order=f"b{number}"))
            await until(lambda: len(read) >= 2)
            assert set(read) == {"h/0"} and len(read) <= 10

    asyncio.run(run())


def test_a_start_counts_what_nobody_has_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before any command comes: all that was executed again is uncounted."""
    read: list[str] = []
    owed = Market.owed

    def noted(market: Market, path: str) -> int:
        read.append(path)
        return owed(market, path)

    async def run() -> None:
        async with opened(SqliteJournal(tmp_path)) as exchange:
            door = await with_resource(exchange)
            await door.ask(tenant("ada"), PlaceOrder("h", 5, 50))
        monkeypatch.setattr(Market, "owed", noted)
        async with opened(SqliteJournal(tmp_path)):
            await until(lambda: "h/0" in read)

    asyncio.run(run())


# --- streams to many connections ----------------------------------------------------------------


class Listener:
    def __init__(self, sent: list[int | str], name: int, failing: bool = False) -> None:
        self.sent = sent
        self.name = name
        self.failing = failing

    def flush_pushed(self) -> None:
        self.sent.append(self.name)
        if self.failing:
            raise ValueError("gone")


def test_streams_go_out_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order in which they were pushed to, with others between turns; one that fails is
    alone with it."""
    monkeypatch.setattr(outflow_module, "TURN_NS", 0)

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda *_: None)
        outflow = Outflow(lambda: has_to_wait)
        has_to_wait = False
        sent: list[int | str] = []
        for name in range(5):
            outflow.add(Listener(sent, name, failing=name == 2))

        def other() -> None:
            sent.append("other")
            if len(sent) < 10:
                loop.call_soon(other)

        loop.call_soon(other)
        for _ in range(12):
            await asyncio.sleep(0)
        assert [each for each in sent if each != "other"] == [0, 1, 2, 3, 4]
        assert sent[:9] == [0, "other", 1, "other", 2, "other", 3, "other", 4]
        has_to_wait = True
        outflow.add(Listener(sent, 5))
        await asyncio.sleep(2 * outflow_module.WAIT_S)
        assert 5 not in sent
        has_to_wait = False
        await until(lambda: sent[-1] == 5)

    asyncio.run(run())
