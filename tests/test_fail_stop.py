"""It stops rather than lies: a fault at any step of the way of a request.

Before an entry is durable, a fault is refused and nothing happened. While it is executed, nobody is
answered any more, no snapshot is taken, and with the fault mended the journal gives the state that
should have been. While it is answered, that answer is lost and no other.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faults.ordeal import SETTINGS
from faults.process import Service
from faults.talk import ask
from laissez.exchange import counting, parts, pipeline, upkeep
from laissez.exchange import execution as execution_module
from laissez.exchange.access import new_token
from laissez.exchange.feeds import Feeds
from laissez.exchange.journal import JournalFailed
from laissez.exchange.keys import Keys
from laissez.exchange.pipeline import Closed, Exchange, Fault, Settings
from laissez.exchange.records import Entry, PartialAdvance, write_entries
from laissez.exchange.recovery import NotExecuted, recover, verify
from laissez.exchange.sequencing import DropToken, KeepToken
from laissez.exchange.snapshots import Child
from laissez.exchange.sqlite_journal import SqliteJournal
from laissez.exchange.upkeep import Upkeep
from laissez.exchange.venue import Venue
from laissez.market import Market
from laissez.model import Answer, AskStatus, OfferResource, PlaceOrder, Refused, ServiceCode
from serving import make_tokens
from test_exchange import (
    START_US,
    Caller,
    Door,
    SlowJournal,
    Times,
    entries_of,
    labels,
    opened,
    tenant,
    until,
    with_resource,
)

PATIENCE_S = 20


class Switch:
    """Makes what it is put over fail while it is on."""

    def __init__(self) -> None:
        self.is_on = False
        self.failures = 0

    def over(self, whole: Callable[..., Any]) -> Callable[..., Any]:
        def maybe_fail(*given: Any, **named: Any) -> Any:
            if self.is_on:
                self.failures += 1
                raise ZeroDivisionError("made up")
            return whole(*given, **named)

        return maybe_fail


WHILE_EXECUTING: list[tuple[Any, str]] = [
    (Venue, "apply"),
    (Market, "apply"),
    (execution_module, "notices"),
    (Feeds, "of"),
    (Feeds, "publish_all"),
    (Keys, "remember"),
]
AFTER_EXECUTING: list[tuple[Any, str]] = [(Market, "next_timer")]


@pytest.mark.parametrize(
    ("where", "name"),
    WHILE_EXECUTING + AFTER_EXECUTING,
    ids=lambda each: getattr(each, "__name__", each),
)
def test_a_fault_after_the_journal_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: Any, name: str
) -> None:
    """Not another answer, not another group, no snapshot; mended, the journal is replayed whole."""
    failures: list[Exception] = []
    switch = Switch()
    monkeypatch.setattr(upkeep, "SHOWN_EVERY_S", 0.01)
    monkeypatch.setattr(where, name, switch.over(getattr(where, name)))

    async def run() -> None:
        journal = SqliteJournal(tmp_path)
        exchange = Exchange(journal)
        exchange.on_failure = failures.append
        door = await with_resource(exchange)
        ada = tenant("ada")
        switch.is_on = True
        told = dict(door.caller.told)
        door.put(ada, PlaceOrder("h", 5, order="first"), "a")
        door.put(ada, PlaceOrder("h", 4, order="second"), "b")
        await until(lambda: exchange.fault is not None)
        switch.is_on = False  # what is half done must not go on, whatever works again
        late = door.put(ada, PlaceOrder("h", 3, order="late"), "c")
        await asyncio.sleep(0.05)
        if (where, name) not in AFTER_EXECUTING:
            assert door.caller.told == told
        assert late not in door.caller.told
        assert exchange.closed is ServiceCode.INTERNAL_ERROR
        noted = journal.shown_until_us
        exchange.desk.shown_until = noted + 1_000_000_000
        await asyncio.sleep(0.1)
        assert (journal.shown_until_us, exchange._waiting) == (noted, [])
        await exchange.close()
        assert journal.shown_until_us == noted

    asyncio.run(run())
    assert switch.failures > 0
    assert len(failures) == 1 and "took no snapshot" in str(failures[0])
    assert [entry.key for entry in entries_of(tmp_path)] == [None, "a", "b"]
    with contextlib.closing(SqliteJournal(tmp_path)) as journal:
        assert journal.snapshots() == []
        state = recover(journal, 100).venue
        assert state.market.owner("h/0") == "ada"
        assert verify(journal).digest == state.digest()


IN_PARTS: list[tuple[Any, str]] = [
    (Venue, "apply"),
    (Market, "advance_partly"),
    (execution_module, "notices"),
    (Feeds, "of"),
    (Feeds, "publish_all"),
    (Market, "next_timer"),
    (Upkeep, "after_group"),
]


@pytest.mark.parametrize(
    ("where", "name"), IN_PARTS, ids=lambda each: getattr(each, "__name__", each)
)
def test_a_fault_between_parts_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: Any, name: str
) -> None:
    """Of what falls due in parts, all that share a sync are durable when the first acts: none of
    them acts after a fault, nobody is answered, and mended the journal is replayed whole."""
    failures: list[Exception] = []
    switch = Switch()
    monkeypatch.setattr(parts, "DUE_AT_ONCE", 10)
    monkeypatch.setattr(where, name, switch.over(getattr(where, name)))

    async def run() -> None:
        times, journal = Times(), SqliteJournal(tmp_path)
        exchange = Exchange(journal, clock=times.clock())
        exchange.on_failure = failures.append
        door = await with_resource(exchange)
        await door.ask(tenant("bob"), PlaceOrder("h", 9, 9))
        for number in range(45):
            door.put(tenant("ada"), PlaceOrder("h", 5, 5, f"x{number}", START_US + 1_000))
        await door.all_told()
        told, sequence = dict(door.caller.told), exchange.execution.sequence

        def fail_from_here() -> None:
            switch.is_on = exchange.execution.sequence >= sequence + 2

        exchange.on_applied.append(fail_from_here)
        times.pass_us(2_000)
        door.put(tenant("bob"), PlaceOrder("h", 5, 5, "after"), "key")
        await until(lambda: exchange.fault is not None)
        switch.is_on = False
        exchange.on_applied.clear()
        await asyncio.sleep(0.05)
        assert exchange.execution.sequence <= sequence + 3 and not exchange.acts_in_parts
        assert door.caller.told == told and len(exchange.market.orders("ada")) >= 15
        await exchange.close()

    asyncio.run(run())
    assert switch.failures > 0 and len(failures) == 1
    assert [type(entry.do) for entry in entries_of(tmp_path)[-4:]] == [PartialAdvance] * 4
    with contextlib.closing(SqliteJournal(tmp_path)) as journal:
        assert journal.snapshots() == []
        assert len(recover(journal, 100).venue.market.orders("ada")) == 5
        verify(journal)


@pytest.mark.parametrize("name", ["owed", "holdings", "tenants"])
def test_a_fault_while_counting_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What is owed is counted beside trading, and half a count is a state that nobody knows: not
    another answer, no snapshot; mended, the journal is replayed whole."""
    failures: list[Exception] = []
    switch = Switch()
    for bound in ("COMMANDS_AT_FIRST", "COMMANDS_LEAST", "COMMANDS_MOST"):
        monkeypatch.setattr(counting, bound, 3)
    monkeypatch.setattr(Market, name, switch.over(getattr(Market, name)))

    async def run() -> None:
        exchange = Exchange(SqliteJournal(tmp_path))
        exchange.on_failure = failures.append
        door = await with_resource(exchange)
        await door.ask(tenant("ada"), PlaceOrder("h", 5, 9))
        await asyncio.sleep(0.01)
        switch.is_on = True
        for number in range(3):
            door.put(tenant("ada"), PlaceOrder("h", 4, 4, f"x{number}"))
        await until(lambda: exchange.fault is not None)
        switch.is_on = False
        late = door.put(tenant("ada"), PlaceOrder("h", 3, 3, "late"))
        await asyncio.sleep(0.05)
        assert late not in door.caller.told
        assert exchange.closed is ServiceCode.INTERNAL_ERROR
        await exchange.close()

    asyncio.run(run())
    assert switch.failures == 1
    assert len(failures) == 1 and "took no snapshot" in str(failures[0])
    with contextlib.closing(SqliteJournal(tmp_path)) as journal:
        assert journal.snapshots() == [] and journal.head.sequence == 5
        verify(journal)


def test_a_fault_in_one_request_is_refused_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What can't be written down changes nothing; whoever came with it is served."""

    def write(entries: list[Entry]) -> bytes:
        if any(entry.key == "odd" for entry in entries):
            raise TypeError("made up")
        return write_entries(entries)

    monkeypatch.setattr(pipeline, "write_entries", write)

    async def run() -> None:
        async with opened(SqliteJournal(tmp_path)) as exchange:
            door = await with_resource(exchange)
            ada = tenant("ada")
            good = [door.put(ada, PlaceOrder("h", 5), "one")]
            odd = door.put(ada, PlaceOrder("h", 5), "odd")
            again = door.put(ada, PlaceOrder("h", 5), "odd")
            good.append(door.put(ada, PlaceOrder("h", 4), "two"))
            await door.all_told()
            assert [door.caller.answered(each).sequence for each in good] == [2, 3]
            for each in (odd, again):
                assert door.caller.refused(each).code == ServiceCode.INTERNAL_ERROR
                assert "nothing was changed" in door.caller.refused(each).message
            alone = door.put(ada, PlaceOrder("h", 5), "odd")
            await door.all_told()
            assert door.caller.refused(alone).code == ServiceCode.INTERNAL_ERROR
            assert (await door.ask(ada, PlaceOrder("h", 3))).sequence == 4
            assert exchange.fault is None

    asyncio.run(run())
    assert [entry.key for entry in entries_of(tmp_path)] == [None, "one", "two", None]


class BrokenCaller(Caller):
    def answer(self, *given: Any) -> None:
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError


def test_a_fault_in_an_answer_costs_that_answer(tmp_path: Path) -> None:
    """Others are answered, and a retry with the same key finds what was done."""

    async def run() -> None:
        async with opened(SqliteJournal(tmp_path)) as exchange:
            door, broken = await with_resource(exchange), Door(exchange)
            broken.caller = BrokenCaller()
            ada = tenant("ada")
            broken.put(ada, PlaceOrder("h", 5, order="x"), "a")
            assert (await door.ask(ada, PlaceOrder("h", 4))).sequence == 3
            again = await door.ask(ada, PlaceOrder("h", 5, order="x"), "a")
            assert (again.sequence, again.repeated) == (2, True)
            assert exchange.fault is None

    asyncio.run(run())


def test_a_follower_that_fails_harms_nobody(tmp_path: Path) -> None:
    """Whoever wants to know of what was applied is told outside of the way of requests."""

    def fail() -> None:
        raise ZeroDivisionError("made up")

    async def run() -> None:
        async with opened(SqliteJournal(tmp_path)) as exchange:
            exchange.on_applied.append(fail)
            door = await with_resource(exchange, "h/0", "h/1")
            assert (await door.ask(tenant("ada"), PlaceOrder("h", 5))).sequence == 3

    asyncio.run(run())


@pytest.mark.parametrize("name", ["__init__", "collect"])
def test_a_snapshot_that_fails_is_only_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """No descriptors, no process, a child that died: trade goes on, and a later one is taken."""
    switch = Switch()

    def fail(child: Child, *given: Any) -> Any:
        if switch.is_on:
            switch.failures += 1
            if name == "__init__":
                raise OSError(24, "Too many open files")
            return None
        return whole(child, *given)

    whole: Callable[..., Any] = getattr(Child, name)
    monkeypatch.setattr(Child, name, fail)
    monkeypatch.setattr(upkeep, "RETRY_S", 0.0)
    switch.is_on = True

    async def run() -> None:
        async with opened(SqliteJournal(tmp_path), settings=Settings(snapshot_every=5)) as exchange:
            door = await with_resource(exchange, *(f"h/{number}" for number in range(12)))
            await until(lambda: switch.failures > 0)
            switch.is_on = False
            for number in range(12, 24):
                await door.ask(tenant("ada"), PlaceOrder("h", 5 + number))
            await until(lambda: bool(exchange.journal.snapshots()))

    asyncio.run(run())
    with contextlib.closing(SqliteJournal(tmp_path, read_only=True)) as journal:
        verify(journal)
        assert labels(journal)


def test_a_token_that_can_not_be_written_is_not_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the exchange carries out itself fails towards whoever asked for it."""

    async def run() -> None:
        journal = SqliteJournal(tmp_path)
        async with opened(journal) as exchange:

            def fail(*given: object) -> None:
                raise JournalFailed("made up")

            monkeypatch.setattr(journal, "append", fail)
            secret, token = new_token("tenant", "ada", at=0)
            with pytest.raises(JournalFailed):
                await exchange.carry_out("operator:1", KeepToken(token))
            assert exchange.authenticate(secret) is None

    asyncio.run(run())


@pytest.mark.parametrize("where", [(Venue, "apply"), (Keys, "remember")], ids=["its own", "other"])
def test_whoever_waits_for_the_exchange_is_told_of_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: tuple[Any, str]
) -> None:
    """A token that is being made when the exchange stops, in the same group or behind it, is not
    waited for without end; and nobody begins to wait after that."""
    switch = Switch()
    monkeypatch.setattr(*where, switch.over(getattr(*where)))

    async def run() -> None:
        journal = SlowJournal(tmp_path)
        async with opened(journal) as exchange:
            door = await with_resource(exchange)
            switch.is_on = True
            journal.let.clear()
            door.put(tenant("ada"), PlaceOrder("h", 5), "a")
            making = [
                asyncio.create_task(exchange.carry_out("operator:1", KeepToken(each)))
                for _, each in (new_token("tenant", name, at=0) for name in ("bob", "eve"))
            ]
            await asyncio.sleep(0)
            journal.let.set()
            for each in making:
                with pytest.raises(Fault):
                    await asyncio.wait_for(each, PATIENCE_S)
            with pytest.raises(Fault):
                await exchange.carry_out("operator:1", DropToken("x"))

    asyncio.run(run())


def test_after_a_failed_disk_nothing_is_written(tmp_path: Path) -> None:
    """A group that is durable but was not acknowledged, an expiry that falls due then: the market
    stays where it was, and a restart finds what there is."""

    async def run() -> None:
        times, journal = Times(), SqliteJournal(tmp_path)
        async with opened(journal, times) as exchange:
            door = await with_resource(exchange)
            await door.ask(tenant("bob"), PlaceOrder("h", 9, 9))
            await door.ask(tenant("ada"), PlaceOrder("h", 5, 5, "x", START_US + 1_000))
            assert journal._head_file is not None

            def fail(*given: object) -> None:
                raise OSError(5, "Input/output error")

            setattr(journal._head_file, "write", fail)  # noqa: B010
            broken = door.put(tenant("ada"), PlaceOrder("h", 6, 6, "y"), "a")
            await door.all_told()
            assert door.caller.refused(broken).code == ServiceCode.NOT_DURABLE
            times.pass_us(2_000)
            await asyncio.sleep(0.1)
            assert exchange.execution.sequence == 3 and journal.head.sequence == 4
            with pytest.raises(Closed):
                await exchange.carry_out("operator:1", DropToken("x"))

    asyncio.run(run())
    with contextlib.closing(SqliteJournal(tmp_path)) as journal:
        assert journal.snapshots() == [] and journal.head.sequence == 4
        assert len(recover(journal, 10).venue.market.orders("ada")) == 2


def test_an_entry_out_of_its_place_is_not_executed(tmp_path: Path) -> None:
    """Should journal and market ever disagree on what comes next, the exchange stops."""

    async def run() -> None:
        async with opened(SqliteJournal(tmp_path)) as exchange:
            door = await with_resource(exchange)
            exchange.execution.sequence -= 1
            door.put(tenant("ada"), PlaceOrder("h", 5))
            await until(lambda: exchange.fault is not None)
            assert "entry 2 is in the journal, and 1 is due" in str(exchange.fault)
            assert exchange.market.owner("h/0") is None

    asyncio.run(run())


def test_a_service_with_a_defect_stops_and_comes_back(tmp_path: Path) -> None:
    """No answer, no farewell, exit code 70 and one clear line; mended, nothing durable is lost."""
    folder = tmp_path / "journal"
    secrets = make_tokens(folder, "operator", "ada")
    service = Service(folder, SETTINGS)
    try:
        service.start("faults.poisoned")
        service.wait_until_ready()
        (offered,) = ask(service.url, secrets["operator"], OfferResource("a/g"))
        assert isinstance(offered, Answer)
        before = ask(service.url, secrets["ada"], PlaceOrder("a", 5, order="good"))
        assert isinstance(before[0], Answer)
        with contextlib.suppress(OSError):
            answers = ask(
                service.url,
                secrets["ada"],
                ("key", PlaceOrder("a", 6, order="poison")),
                PlaceOrder("a", 7, order="behind"),
                AskStatus(),
            )
            assert not any(isinstance(each, Answer | Refused) for each in answers)
        assert service.wait_for_its_end() == 70
        *_, last = service.last_words().strip().splitlines()
        assert last.startswith("laissez: entry ")
        assert "(Place by ada)" in last and "ZeroDivisionError" in last and "start it" in last

        service.start("faults.poisoned")
        assert service.wait_for_its_end() == 70
        *_, last = service.last_words().strip().splitlines()
        assert last.startswith("laissez: entry ") and "can't be executed by this laissez" in last

        service.start()
        service.wait_until_ready()
        (again,) = ask(service.url, secrets["ada"], ("key", PlaceOrder("a", 6, order="poison")))
        assert isinstance(again, Answer) and again.repeated
        service.stop()
    finally:
        service.close()
    with contextlib.closing(SqliteJournal(folder, read_only=True)) as journal:
        assert verify(journal).digest == journal.snapshots()[-1].digest


def test_an_entry_that_can_not_be_executed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Verifying and recovering say which it is, and that the journal is whole."""

    async def run() -> None:
        async with opened(SqliteJournal(tmp_path)) as exchange:
            door = await with_resource(exchange)
            await door.ask(tenant("ada"), PlaceOrder("h", 5))

    asyncio.run(run())
    switch = Switch()
    monkeypatch.setattr(Venue, "apply", switch.over(Venue.apply))
    switch.is_on = True
    with contextlib.closing(SqliteJournal(tmp_path, read_only=True)) as journal:
        for check in (verify, lambda journal: recover(journal, 10)):
            with pytest.raises(NotExecuted, match=r"entry 1 \(AddResource by operator:op\)"):
                check(journal)
