"""Gangs, calls and drains through the service's doors: what people get, and what nobody learns."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from laissez.client import AsyncClient, Client, NotFilled, Refusal, Summons, held
from laissez.exchange.access import Limits
from laissez.exchange.pipeline import Settings
from laissez.model import (
    Handover,
    HolderCalled,
    HolderPromised,
    HolderUncalled,
    HolderUnpromised,
    Posted,
    Promise,
)
from raw_websocket import RawSocket
from serving import Served, served
from test_webhooks import Receiver

LEVELS = ("nvlink", "gpu")
NOTICE = "1500ms"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Served]:
    limits = Settings(private_webhooks=True, limits=Limits(gang_most=16))
    with served(tmp_path, "operator", "ada", "bob", settings=limits) as service:
        yield service


@pytest.fixture
def operator(service: Served) -> Iterator[Client]:
    """Runs a tree of two domains of four, with a short notice."""
    with Client(service.url, service.secrets["operator"]) as operator:
        operator.set_guard("h", notice=NOTICE)
        operator.name_levels("h", LEVELS)
        for number in range(8):
            attributes = {"address": f"g{number}", "levels": "/".join(LEVELS)}
            operator.add_resource(f"h/d{number // 4}/g{number}", attributes)
        yield operator


@pytest.fixture
def ada(service: Served, operator: Client) -> Iterator[Client]:
    with Client(service.url, service.secrets["ada"]) as ada:
        yield ada


@pytest.fixture
def bob(service: Served, operator: Client) -> Iterator[Client]:
    with Client(service.url, service.secrets["bob"]) as bob:
        yield bob


def eventually(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 10
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


# --- blocks ---------------------------------------------------------------------------------------


def test_a_block_holds_several_of_one_domain(ada: Client) -> None:
    """All at once, with the attributes of each; and all go back at its end."""
    with ada.hold("h", count=4, within="nvlink", limit="3.00") as gpus:
        assert len(gpus.resources) == 4
        assert len({path.split("/")[1] for path in gpus.resources}) == 1
        assert {each["address"] for each in gpus.resources.values()} <= {f"g{n}" for n in range(8)}
        assert gpus.called is None and gpus.lost is None
        assert ada.quote("h", count=4, within="nvlink").idle
        assert ada.quote("h", count=5, within=2).rate is None
        gpus.set_limit("2.00")
        assert {each.limit for each in ada.holdings()} == {2_000_000}
    assert ada.holdings() == ()


def test_a_gang_that_waits_leaves_nothing_behind(ada: Client, bob: Client) -> None:
    bob.place("h", count=8, limit="9.00")
    with (
        pytest.raises(NotFilled, match="no domain under h has 4"),
        ada.hold("h", count=4, within="nvlink", limit="3.00", wait_s=0.05),
    ):
        pytest.fail("it was not to be had")
    assert ada.orders() == () and ada.holdings() == ()


def test_a_block_is_called_saves_and_releases(ada: Client, bob: Client) -> None:
    """The callback and the wait tell the same; what was promised comes as soon as it is left."""
    heard: list[Summons] = []
    with ada.hold("h", count=8, limit="3.00") as gpus:
        gpus.on_called(heard.append)
        assert gpus.wait_called(0.05) is None
        bob.place("h/d0", price="4.00", limit="5.00", order="b")
        summons = gpus.wait_called(5)
        assert summons is not None and summons.reason == "outbid"
        assert 0 < summons.left_s() <= 1.5
        assert gpus.called == summons and heard == [summons]
        (held,) = (each for each in ada.holdings() if each.called_until is not None)
        assert (held.resource, held.called_for) == (summons.resource, "outbid")
        assert held.cause == "notice" and held.rate == held.limit == 3_000_000
        (promise,) = bob.promises()
        assert promise == Promise(summons.resource, "bob", "b", summons.until, 5_000_000, 4_000_000)
        assert ada.promises() == () and bob.orders() == ()
        gpus.release()
        assert gpus.wait_called(1) is None and gpus.wait_lost(1) is None
        assert ada.holdings() == ()
    assert [each.resource for each in bob.holdings()] == [summons.resource]
    assert bob.promises() == ()


def test_a_call_can_be_awaited(service: Served, operator: Client, bob: Client) -> None:
    async def work() -> None:
        async with (
            AsyncClient(service.url, service.secrets["ada"]) as client,
            client.hold("h", count=8, limit="3.00", together=True) as gpus,
        ):
            waiting = asyncio.create_task(gpus.wait_called())
            await asyncio.to_thread(bob.place, "h/d1", price="4.00")
            summons = await waiting
            assert summons is not None and gpus.called.now == summons
            assert (await gpus.called) == summons
            operator.set_floor("h", "0")
            lost = await gpus.wait_lost(10)
            assert lost is not None and lost.reason == "outbid"
            assert await gpus.called is None  # nothing is left to be called

    asyncio.run(work())
    assert len(bob.holdings()) == 1


def test_a_block_waits_for_what_it_was_promised(ada: Client, bob: Client) -> None:
    """Beyond its patience, because to give a promise back costs what it would have cost to win."""
    bob.place("h", count=8, limit="2.00")
    with ada.hold("h", price="3.00", limit="3.00", wait_s=0.05) as gpu:
        assert [each.resource for each in ada.holdings()] == [gpu.resource]
    with ada.hold("h", count=3, within="nvlink", limit="4.00", wait_s=0.05) as gpus:
        assert sorted(each.resource for each in ada.holdings()) == sorted(gpus.resources)


def test_a_promise_that_can_never_be_kept_ends_the_wait(
    operator: Client, ada: Client, bob: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was promised to a gang is withdrawn: the block is told, and gives up."""
    monkeypatch.setattr(held, "LOOK_AGAIN_S", 1_000)
    operator.set_guard("h", notice="20s")
    bob.place("h/d0/g0", price="1.00", limit="2.00")
    operator.cordon("h/d1")
    gone = threading.Timer(0.3, lambda: operator.withdraw("h/d0/g0"))
    gone.start()
    with (
        pytest.raises(NotFilled, match="d0/g0, which was promised to it, was withdrawn"),
        ada.hold("h", count=4, within="nvlink", limit="4.00"),
    ):
        pytest.fail("it was not to be had")
    gone.join()
    assert ada.holdings() == () and ada.promises() == ()


def test_a_block_whose_promise_is_withdrawn_waits_again(
    operator: Client, ada: Client, bob: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single order is placed again, so its block has patience as before, and is filled."""
    monkeypatch.setattr(held, "LOOK_AGAIN_S", 1_000)
    operator.set_guard("h", notice="20s")
    bob.place("h/d0", count=4, limit="2.00")

    def work() -> None:
        operator.withdraw("h/d0/g0")
        time.sleep(0.2)
        for number in (1, 2, 3):
            operator.withdraw(f"h/d0/g{number}")
        time.sleep(0.2)
        operator.add_resource("h/d0/g9", {})

    timer = threading.Timer(0.3, work)
    timer.start()
    with ada.hold("h/d0", price="3.00", limit="4.00", wait_s=30) as gpu:
        assert gpu.resource == "h/d0/g9"
    timer.join()


def test_an_order_is_followed_through_its_promise(
    service: Served, operator: Client, ada: Client, bob: Client
) -> None:
    """A gang of which one is withdrawn meanwhile ends with the others; machines are told."""
    with Receiver() as receiver:
        operator.add_webhook(receiver.url)
        ada.place("h/d0", count=3, limit="2.00")
        placed = bob.place("h/d0", count=4, limit="4.00", order="job")
        gone = bob.promises()[0].resource
        assert bob.wait_order("job", wait_s=0.05) is None
        operator.withdraw(gone)
        end = bob.wait_order("job", after=placed.sequence - 1, wait_s=30)
        assert end is not None and end.fate == "filled"
        assert {each.resource for each in end.filled} == {h.resource for h in bob.holdings()}
        assert len(end.filled) == 3
        ends = [each for each in posted(receiver) if isinstance(each, HolderUnpromised)]
        assert [(each.resource, each.tenant, each.reason) for each in ends] == [
            (gone, "bob", "withdrawn")
        ]


def test_together_needs_nobody(service: Served, ada: Client, bob: Client) -> None:
    """The exchange releases the others, also for a client that is gone; with a restart between."""
    with Client(service.url, service.secrets["ada"]) as dead:
        dead.place("h", count=4, within="nvlink", limit="3.00", together=True)
    bob.place("h", count=4, within="nvlink", limit="3.00")
    held = [each.resource for each in ada.holdings()]
    bob.place(held[0], price="4.00", limit="5.00")
    assert len(ada.holdings()) == 4
    eventually(lambda: ada.holdings() == ())
    assert held[0] in {each.resource for each in bob.holdings()}


# --- new trees ------------------------------------------------------------------------------------


def test_a_new_tree_has_notice_and_commitment(
    tmp_path: Path, default_guards: None, caplog: pytest.LogCaptureFixture
) -> None:
    """30 s each, unless a guard was set before; and a tree without a commitment is warned of."""
    with (
        served(tmp_path, "operator") as service,
        Client(service.url, service.secrets["operator"]) as operator,
    ):
        operator.set_guard("quiet")
        operator.set_guard("held", hold="2s")
        for tree in ("new", "quiet", "held"):
            for number in range(2):
                operator.add_resource(f"{tree}/g{number}")
        guards = {each.tree: each for each in operator.floors().guards}
        assert (guards["new"].notice, guards["new"].commit) == (30_000_000, 30_000_000)
        assert "quiet" not in guards and guards["held"].notice is None
        operator.set_guard("new", commit="5s")
        operator.add_resource("new/g7")
        assert operator.floors().guards[-1].notice is None
    with caplog.at_level(logging.WARNING), served(tmp_path):
        warned = {record.getMessage().split()[0] for record in caplog.records}
    assert {"quiet", "held"} <= warned and "new" not in warned


def test_a_new_tree_may_be_left_alone(tmp_path: Path, default_guards: None) -> None:
    settings = Settings(notice_s=0, commit_s=7)
    with (
        served(tmp_path, "operator", settings=settings) as service,
        Client(service.url, service.secrets["operator"]) as operator,
    ):
        operator.add_resource("new/g0")
        (guard,) = operator.floors().guards
        assert (guard.notice, guard.commit) == (None, 7_000_000)


# --- drains and webhooks --------------------------------------------------------------------------


def test_a_drain_is_told_like_a_call_on_every_way(
    service: Served, operator: Client, ada: Client, bob: Client
) -> None:
    """Stream, holdings, block, operator's list and webhook say the same; nothing else changes."""
    with Receiver() as receiver:
        operator.add_webhook(receiver.url)
        with ada.hold("h/d0/g0", price="1.00", limit="3.00") as gpu:
            before = ada.holdings()[0]
            operator.cordon("h/d0", deadline=int(time.time() * 1e6) + 1_500_000)
            summons = gpu.wait_called(5)
            assert summons is not None and summons.reason == "withdrawn"
            after = ada.holdings()[0]
            assert msgspec.structs.replace(after, called_until=None, called_for=None) == before
            assert (after.called_until, after.called_for) == (summons.until, "withdrawn")
            assert operator.floors().drains == {"h/d0": summons.until}
            lost = gpu.wait_lost(10)
            assert lost is not None and (lost.reason, lost.at) == ("withdrawn", summons.until)
        assert operator.floors().drains == {} and operator.floors().cordons == ("h/d0",)
        assert operator.resources("h/d0") == ()
        operator.uncordon("h/d0")
        assert len(operator.resources("h/d0")) == 4
        eventually(lambda: len(posted(receiver)) == 3)
        won, called, gone = posted(receiver)
        assert isinstance(won, Handover) and isinstance(gone, Handover)
        assert called == HolderCalled(
            called.sequence,
            called.at,
            "h/d0/g0",
            "ada",
            summons.until,
            "withdrawn",
            {"address": "g0", "levels": "nvlink/gpu"},
        )
        assert (gone.old, gone.reason) == ("ada", "withdrawn")


def posted(receiver: Receiver) -> list[Posted]:
    kind = list[Handover | HolderCalled | HolderPromised | HolderUnpromised | HolderUncalled]
    found: list[Posted] = []
    for delivery in receiver.deliveries:
        found += msgspec.json.decode(delivery.body, type=kind)
    return found


def test_webhooks_carry_calls_in_order(operator: Client, ada: Client, bob: Client) -> None:
    """Who has to leave, who will come, that it is over: before and between the handovers."""
    with Receiver() as receiver:
        operator.add_webhook(receiver.url)
        ada.place("h/d0/g0", price="1.00", limit="3.00")
        operator.set_floor("h/d0/g0", "4.00")
        operator.set_floor("h/d0/g0", "0")
        eventually(lambda: any(isinstance(each, HolderUncalled) for each in posted(receiver)))
        bob.place("h/d0/g0", price="4.00", limit="5.00")
        ada.release("h/d0/g0")
        eventually(lambda: len(posted(receiver)) == 6)
        kinds = [type(each) for each in posted(receiver)]
        assert kinds == [
            Handover,
            HolderCalled,
            HolderUncalled,
            HolderCalled,
            HolderPromised,
            Handover,
        ]
        sequences = [each.sequence for each in posted(receiver)]
        assert sequences == sorted(sequences)
        promised = posted(receiver)[4]
        assert isinstance(promised, HolderPromised) and promised.tenant == "bob"


# --- who learns what ------------------------------------------------------------------------------


def test_neither_side_of_a_call_learns_of_the_other(
    service: Served, operator: Client, ada: Client, bob: Client
) -> None:
    """No stream, answer, holding, promise or refusal of one names the other, or what it bid."""
    said: dict[str, list[object]] = {"ada": [], "bob": []}
    stop = threading.Event()

    async def listen(name: str, ready: threading.Event) -> None:
        async with AsyncClient(service.url, service.secrets[name]) as client:
            reader = await client.open_reader(None, True, ("h",))
            ready.set()
            while not stop.is_set():
                try:
                    async with asyncio.timeout(0.1):
                        said[name] += await reader.take()
                except TimeoutError:
                    continue

    threads = []
    for name in said:
        ready = threading.Event()
        thread = threading.Thread(target=lambda n=name, r=ready: asyncio.run(listen(n, r)))
        thread.start()
        ready.wait(10)
        threads.append(thread)
    for who, client in (("ada", ada), ("bob", bob)):
        said[who].append(client.place("h", count=8, limit="3.17" if who == "ada" else "4.19"))
        said[who].append(client.holdings())
        said[who].append(client.promises())
    with pytest.raises(Refusal) as no:
        bob.set_limit("h/d0/g0", "1.00")
    said["bob"].append(str(no.value))
    with pytest.raises(Refusal) as called:
        ada.set_limit("h/d0/g0", "9.00")
    assert called.value.code == "already_called"
    said["ada"].append(str(called.value))
    said["ada"].append(ada.release("h/d0/g0"))
    with pytest.raises(Refusal) as twice:
        ada.release("h/d0/g0")
    said["ada"].append(str(twice.value))
    bob.release("h/d0/g1")  # a promise
    with pytest.raises(Refusal) as again:
        bob.release("h/d0/g1")
    assert again.value.code == "not_the_holder"
    time.sleep(2)
    stop.set()
    for thread in threads:
        thread.join()
    of = {name: repr(everything) for name, everything in said.items()}
    assert "Called" in of["ada"] and "Uncalled" in of["ada"] and "Promised" not in of["ada"]
    assert "Promised" in of["bob"] and "Called(" not in of["bob"]
    assert "bob" not in of["ada"] and "4190000" not in of["ada"]
    assert "ada" not in of["bob"] and "3170000" not in of["bob"]


def test_quotes_for_several_are_refused_like_quotes(ada: Client, bob: Client) -> None:
    """A scope that is not visible stays so, whatever the count; and what may be seen is no more
    than whether so many are there, and at what rate."""
    bob.place("h/d0", count=4, limit="3.00")
    for count in (1, 2, 5):
        with pytest.raises(Refusal) as refused:
            ada.quote("h/d0", count=count)
        assert refused.value.code == "scope_not_visible"
    assert bob.quote("h/d0", count=2).rate is None


# --- what is refused ------------------------------------------------------------------------------

BAD: list[tuple[str, str]] = [
    ('"count": 0', "bad_count"),
    ('"count": -1', "bad_count"),
    ('"count": 17', "bad_count"),
    ('"count": 1000000000', "bad_count"),
    ('"count": 9223372036854775808', "bad_count"),
    ('"count": 1' + "0" * 400, "bad_count"),
    ('"count": 9', "domain_too_small"),
    ('"count": 5, "within": "nvlink"', "domain_too_small"),
    ('"count": 2, "within": "nvlonk"', "bad_within"),
    ('"count": 2, "within": "gpu"', "domain_too_small"),
    ('"count": 2, "within": 0', "bad_within"),
    ('"count": 2, "within": -1', "bad_within"),
    ('"count": 2, "within": 1' + "0" * 400, "bad_within"),
    ('"count": 2, "within": "%s"' % ("x" * 65), "bad_within"),
    ('"count": 2, "within": ""', "bad_within"),
    ('"within": "nvlink"', "bad_within"),
    ('"within": 2', "bad_within"),
    ('"together": true', "bad_count"),
    ('"count": 2, "price_micros_per_hour": 5', "gang_has_no_price"),
]


@pytest.mark.parametrize(("fields", "code"), BAD, ids=lambda value: str(value)[:40])
def test_a_bad_gang_is_refused_and_changes_nothing(
    service: Served, operator: Client, fields: str, code: str
) -> None:
    """With a code, a sentence that says what to do, and the market as it was."""
    before = service.call(lambda exchange: exchange.execution.venue.digest())
    order = f'{{"type": "PlaceOrder", "scope": "h", "limit_micros_per_hour": 9, {fields}}}'
    with RawSocket(service.url, service.secrets["ada"]) as socket:
        socket.send_text(f'{{"id": 1, "do": {order}}}'.encode())
        said = socket.said()
    told = json.loads(msgspec.json.encode(said))
    refused = told if told["type"] == "Refused" else told["events"][-1]
    assert refused["code"] == code, refused
    assert "give" in refused["message"] or "ask" in refused["message"] or "from 1" in str(refused)
    assert service.call(lambda exchange: exchange.execution.venue.digest()) == before


def test_other_bad_input_is_refused(operator: Client, ada: Client) -> None:
    day_us = 86_400_000_000
    for notice, commit in ((day_us + 1, None), (None, day_us + 1), (-1, None), (None, 2**70)):
        with pytest.raises((Refusal, ValueError)) as refused:
            operator.set_guard("h", notice=notice, commit=commit)
        assert getattr(refused.value, "code", "bad_guard") == "bad_guard"
    with pytest.raises(Refusal) as bad:
        operator.name_levels("h", ["a", "a"])
    assert bad.value.code == "bad_levels"
    with pytest.raises(Refusal) as late:
        operator.cordon("h", deadline=5)
    assert late.value.code == "bad_deadline"
    with pytest.raises(Refusal) as many:
        ada.quote("h", count=17)
    assert many.value.code == "bad_count"
    with pytest.raises(Refusal) as level:
        ada.quote("h", count=2, within="rack")
    assert level.value.code == "bad_within" and "nvlink, gpu" in str(level.value)
    assert ada.status().levels == {"h": LEVELS}
