"""Nobody at the doors keeps the loop for long, pays for somebody else, or fills the log: what comes
is taken apart in steps, and each has its payer.

Time is moved by hand where it matters, as in `test_accounting`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from uvicorn.protocols.http.h11_impl import H11Protocol

import serving
from hand_clock import HandClock, rest_ms, rests
from laissez.exchange.counting import Counting
from laissez.exchange.pipeline import Settings
from laissez.model import AskBill, AskStatus, Reply, Request, encode
from laissez.service import entrance as entrance_module
from laissez.service import paid, patience
from laissez.service import visitor as visitor_module
from laissez.service.doorway import READ_BYTES_MAX
from laissez.service.entrance import Entrance
from laissez.service.outflow import Outflow
from laissez.service.payers_queue import PayersQueue
from laissez.service.seldom_log import LINES_PER_MINUTE, seldom_log
from laissez.service.server import ServerSettings
from laissez.service.socket import TraderSocket
from laissez.service.strangers import Strangers
from laissez.service.visitor import Visitor
from raw_websocket import PING, RawSocket, frame
from serving import served
from test_accounting import hear
from test_http_door import HEALTH, dial, get, hear_all
from test_paid_doors import (
    LOOPBACK,
    FakePayer,
    Greeting,
    Waiter,
    bearer,
    door_of,
    forgive,
    is_silent,
    overdraw,
    principal_of,
    reception_of,
    request,
    run,
    waits,
)
from test_rest_accounting import LITTLE_WORK
from test_socket import wait_until

HALF_BYTES = 15_000
CHUNK = b"1\r\n \r\n"


def chunked(*headers: str) -> bytes:
    return request("POST /v1/orders", *headers, "Transfer-Encoding: chunked")


# In steps -----------------------------------------------------------------------------------------


def test_a_body_of_the_smallest_chunks_is_taken_apart_in_steps(
    tmp_path: Path, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much of it came at once: a little at a time, each paid for before the next, and
    others are served while its sender rests in the middle of it."""
    sizes: list[int] = []
    receive_data = paid.h11.Connection.receive_data

    def receive(connection: Any, data: bytes) -> None:
        if CHUNK in data:
            sizes.append(len(data))
            clock.let_pass(3)
        receive_data(connection, data)

    monkeypatch.setattr(paid.h11.Connection, "receive_data", receive)
    with (
        served(tmp_path, "ada", "bob", settings=Settings(limits=LITTLE_WORK)) as service,
        dial(service.url) as ada,
        dial(service.url) as bob,
    ):
        ada.sendall(chunked(bearer(service.secrets["ada"])) + CHUNK * 4_000 + b"0\r\n\r\n")
        wait_until(lambda: rests(service, clock, "ada"))
        wait_until(lambda: waits(service) == 1)
        begun = len(sizes)
        for _ in range(3):
            bob.sendall(get("/v1/status", service.secrets["bob"]))
            assert bob.recv(65_536).startswith(b"HTTP/1.1 200")
        assert len(sizes) == begun <= 4, "three steps of 3 ms are too much at once"
        ada.settimeout(0.02)
        for _ in range(100):
            clock.let_pass(100)
            with contextlib.suppress(TimeoutError):
                assert ada.recv(65_536).startswith(b"HTTP/1.1 400")
                break
        assert sum(sizes) > 4_000 * len(CHUNK) and max(sizes) <= paid.PIECE_BYTES


def test_little_is_read_at_once_after_waiting(
    tmp_path: Path, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came while somebody rested makes no room for more."""
    sizes: list[int] = []
    arrive = TraderSocket.arrive

    def noted(trader: TraderSocket, size: int) -> None:
        arrive(trader, size)
        sizes.append(size)

    monkeypatch.setattr(TraderSocket, "arrive", noted)
    with (
        served(tmp_path, "ada", settings=Settings(limits=LITTLE_WORK)) as service,
        RawSocket(service.url, service.secrets["ada"]) as ada,
    ):
        principal = principal_of(service, "ada")
        service.call(lambda _: principal.token_allowance.spend(clock(), 0, 10**9))
        assert rests(service, clock, "ada")
        ada.send_raw(frame(b"", PING) * 80_000 + frame(encode(Request(7, AskStatus()))))
        wait_until(lambda: bool(sizes))
        clock.let_pass(10_000)
        hear(ada, 7)
        assert sum(sizes) > 480_000 and max(sizes) <= READ_BYTES_MAX


# Who pays -----------------------------------------------------------------------------------------


def test_leaving_is_paid_for(
    tmp_path: Path, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whoever leaves, through either door."""
    connection_lost = H11Protocol.connection_lost

    def slow(connection: Any, error: Exception | None) -> None:
        clock.let_pass(7)
        connection_lost(connection, error)

    with served(tmp_path, "ada", "bob", settings=Settings(limits=LITTLE_WORK)) as service:
        trader = RawSocket(service.url, service.secrets["ada"])
        clock.slow_down(TraderSocket, "on_ws_disconnected", lambda *_: 6)
        trader.socket.close()
        wait_until(lambda: rests(service, clock, "ada"))
        assert rest_ms(service, clock, "ada") == 3, "6 ms at four times, less 5 and a short rest"
        with dial(service.url) as connection:
            connection.sendall(get("/v1/status", service.secrets["bob"]))
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
            monkeypatch.setattr(H11Protocol, "connection_lost", slow)
        wait_until(lambda: rests(service, clock, "bob"))
        assert rest_ms(service, clock, "bob") == 7


def test_bills_are_told_to_who_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a bill took decides how far ahead what is owed is counted."""
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(Counting, "note_bill", lambda _, *said: told.append(said))
    with (
        served(tmp_path, "ada") as service,
        RawSocket(service.url, service.secrets["ada"]) as ada,
    ):
        assert isinstance(ada.ask(AskBill()), Reply)
        assert len(told) == 1 and told[0][0] == 0 and told[0][1] >= 0


@pytest.mark.parametrize("behind_proxy", [False, True])
def test_behind_a_proxy_one_address_is_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behind_proxy: bool
) -> None:
    """Its address may use what all strangers may; elsewhere half of it."""
    settings = partial(ServerSettings, behind_proxy=behind_proxy)
    monkeypatch.setattr(serving, "ServerSettings", settings)
    with served(tmp_path) as service:
        strange = reception_of(service).strangers
        stranger = strange.at("a")
        now = time.monotonic_ns()
        service.call(lambda _: stranger.spend(now, 0, 10**9))
        rests_longer = stranger.rests_until > strange.all.rests_until + 10**9
        assert rests_longer is not behind_proxy


def test_streams_wait_while_what_has_fallen_due_is_done(tmp_path: Path) -> None:
    """Except after a fault, when nothing more will be done."""
    with served(tmp_path) as service:
        outflow = reception_of(service).outflow
        told: list[bool] = []

        def look(exchange: Any) -> None:
            told.append(outflow._has_to_wait())
            exchange._parts._are_left = True
            told.append(outflow._has_to_wait())
            fault, exchange.fault = exchange.fault, object()
            told.append(outflow._has_to_wait())
            exchange.fault, exchange._parts._are_left = fault, False

        service.call(look)
        assert told == [False, True, False]


# What waits for more ------------------------------------------------------------------------------


def test_half_heads_keep_no_tenant_out(tmp_path: Path) -> None:
    """However many bytes they have: arrivals have nothing to pay back for them."""
    half = b"GET /v1/st" + b"x" * HALF_BYTES
    with served(tmp_path, "ada") as service, contextlib.ExitStack() as opened:
        arrivals = reception_of(service).strangers.arrivals
        door = door_of(service)
        for _ in range(150):
            opened.enter_context(dial(service.url)).sendall(half)
        wait_until(lambda: door.kept_bytes == 150 * len(half))
        assert arrivals._bytes_paid_ns <= time.monotonic_ns()
        with RawSocket(service.url, service.secrets["ada"]) as ada:
            assert isinstance(ada.ask(AskStatus()), Reply)


def test_what_is_kept_of_strangers_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest of those goes of whose address most is kept; one that is read is not in it."""
    monkeypatch.setattr(entrance_module, "KEPT_BYTES_MAX", 2 * HALF_BYTES)
    half = b"x" * (HALF_BYTES - 100)
    with served(tmp_path) as service, contextlib.ExitStack() as opened:
        door = door_of(service)
        silent, *halves = [opened.enter_context(dial(service.url)) for _ in range(4)]
        for number, each in enumerate(halves, 1):
            each.sendall(half)
            wait_until(lambda: door.kept_bytes == min(number, 2) * len(half))  # noqa: B023
        assert hear_all(halves[0]) == b""
        assert all(map(is_silent, [silent, *halves[1:]]))
        for each in halves[1:]:
            each.close()
        wait_until(lambda: door.kept_bytes == 0)


def test_what_is_kept_of_who_has_shown_a_token_is_bounded_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who then asks without one is kept like a stranger, goes like one, and is counted no longer
    than it is kept."""
    strange = request("GET /v1/status", f"X: {'x' * HALF_BYTES}")
    monkeypatch.setattr(entrance_module, "KEPT_BYTES_MAX", 2 * len(strange))
    with served(tmp_path, "ada") as service, contextlib.ExitStack() as opened:
        door, strangers = door_of(service), reception_of(service).strangers.all
        came = [opened.enter_context(dial(service.url)) for _ in range(3)]
        for each in came:
            each.sendall(get("/v1/status", service.secrets["ada"]))
            assert each.recv(65_536).startswith(b"HTTP/1.1 200")
        assert door.strangers == 0
        overdraw(service, strangers)
        for number, each in enumerate(came, 1):
            each.sendall(strange)
            wait_until(lambda: door.kept_bytes == min(number, 2) * len(strange))  # noqa: B023
        assert hear_all(came[0]) == b""
        forgive(service, strangers)
        for each in came[1:]:
            assert each.recv(65_536).startswith(b"HTTP/1.1 401")
        wait_until(lambda: door.kept_bytes == 0)


def test_what_is_kept_of_a_stranger_is_not_kept_of_a_tenant(tmp_path: Path) -> None:
    """Half of a request that came behind a stranger's counts, until it shows a token."""
    with served(tmp_path, "ada") as service, dial(service.url) as connection:
        door, whole = door_of(service), get("/v1/status", service.secrets["ada"])
        half, rest = whole[:20], whole[20:]
        for _ in range(2):
            connection.sendall(whole)
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
            connection.sendall(request("GET /v1/status") + half)
            assert connection.recv(65_536).startswith(b"HTTP/1.1 401")
            wait_until(lambda: door.kept_bytes == len(half))
            connection.sendall(rest)
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
            wait_until(lambda: door.kept_bytes == 0)


def test_thousands_may_go_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has said little and long ago goes first, however many that are; also the last itself."""
    monkeypatch.setattr(entrance_module, "KEPT_BYTES_MAX", 3_000)

    class Closed:
        def close(self) -> None:
            """It has no descriptor."""

    async def test() -> None:
        with contextlib.ExitStack() as opened:
            door, _ = opened.enter_context(small_entrance([]))
            connection: Any = Closed()
            little = [Visitor(door, connection, LOOPBACK) for _ in range(2_000)]
            elsewhere = Visitor(door, connection, "127.0.0.2")
            for each in (*little, elsewhere):
                each.keep(1)
            much = Visitor(door, connection, LOOPBACK)
            much.keep(2_999)
            assert door.kept_bytes == 3_000
            assert not any(each.kept_bytes for each in little) and elsewhere.kept_bytes
            much.keep(3_001)
            assert (door.kept_bytes, much.kept_bytes) == (1, 0)

    run(test)


def test_a_visitors_time_stands_still_while_it_waits_for_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has said what it wants, and those who arrive rest; silence has an end all the same."""
    monkeypatch.setattr(visitor_module, "HANDSHAKE_S", 0.5)
    with (
        served(tmp_path) as service,
        dial(service.url) as connection,
        dial(service.url) as silent,
    ):
        arrivals = reception_of(service).strangers.arrivals
        wait_until(lambda: service.running.visitors() == 2)
        overdraw(service, arrivals)
        connection.sendall(HEALTH)
        time.sleep(1)
        assert is_silent(connection), "it was not hung up on"
        assert hear_all(silent) == b""
        forgive(service, arrivals)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200")


@contextlib.contextmanager
def small_entrance(protocols: list[Any]) -> Iterator[tuple[Entrance, Any]]:
    def answer(visitor: Any) -> asyncio.Protocol:
        protocols.append(visitor)
        return Greeting()

    with socket.create_server(("", 0), backlog=64) as listener:
        most = {"connections_max": 99, "strangers_max": 4, "from_one_address_max": 4}
        door = Entrance(listener, answer, None, Strangers(), **most)
        yield door, listener.getsockname()[1]
        door.close()


def test_the_oldest_of_the_address_with_most_goes() -> None:
    """Whoever came first from elsewhere stays."""

    async def test() -> None:
        with contextlib.ExitStack() as opened:
            door, port = opened.enter_context(small_entrance([]))
            came: list[socket.socket] = []
            for number, address in enumerate(["127.0.0.2", *[LOOPBACK] * 4], 1):
                connection = socket.create_connection((LOOPBACK, port), source_address=(address, 0))
                came.append(opened.enter_context(connection))
                while door.visitors_so_far < number:
                    await asyncio.sleep(0.001)
            assert door.strangers == 4
            assert {address: len(found) for address, found in door._strangers.items()} == {
                "127.0.0.2": 1,
                LOOPBACK: 3,
            }
            came[1].settimeout(5)
            assert came[1].recv(1) == b""

    run(test)


def test_nothing_is_built_for_silence_and_halves() -> None:
    """Only for who has said what it wants; all of them are let go of when the door closes."""

    async def test() -> None:
        protocols: list[Any] = []
        with contextlib.ExitStack() as opened:
            door, port = opened.enter_context(small_entrance(protocols))
            came = [
                opened.enter_context(socket.create_connection((LOOPBACK, port))) for _ in range(3)
            ]
            came[1].sendall(HEALTH[:20])
            while not door.kept_bytes:
                await asyncio.sleep(0.001)
            assert door.visitors_so_far == 3 and protocols == []
            came[2].sendall(HEALTH)
            while not protocols:
                await asyncio.sleep(0.001)
            assert len(protocols) == 1 and protocols[0].take_said() == HEALTH
            door.close()
            assert came[0].recv(1) == came[1].recv(1) == b""

    run(test)


# What is broken, and what rests -------------------------------------------------------------------


@pytest.mark.parametrize("has_token", [True, False])
def test_a_broken_body_is_no_error_of_ours(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, has_token: bool
) -> None:
    """It is refused and hung up on, and the log says nothing of it."""
    with served(tmp_path, "ada") as service:
        secret = service.secrets["ada"] if has_token else "lz_nobody"
        for broken in (CHUNK + b"zz\r\n", b"zz\r\n", CHUNK[:-2] + b"no"):
            with dial(service.url) as connection:
                connection.sendall(chunked(bearer(secret)))
                time.sleep(0.02)  # its application waits for the body
                connection.sendall(broken)
                with contextlib.suppress(ConnectionError):
                    assert hear_all(connection).split(b" ")[1] in (b"400", b"401")
    assert caplog.records == []


def test_a_bodys_time_stands_still_while_its_payer_rests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """We do not read it then: that is not its sender's fault."""
    monkeypatch.setattr(patience, "BODY_S", 0.3)
    with served(tmp_path, "ada") as service, dial(service.url) as connection:
        allowance = principal_of(service, "ada").token_allowance
        shown = bearer(service.secrets["ada"])
        begun = request("POST /v1/orders", shown, "Content-Length: 3")
        connection.sendall(begun)
        wait_until(lambda: principal_of(service, "ada").connections == 1)
        overdraw(service, allowance)
        connection.sendall(b"{")
        wait_until(lambda: waits(service) == 1)
        time.sleep(0.6)
        assert is_silent(connection), "it was not hung up on"
        forgive(service, allowance)
        connection.sendall(b"} ")
        assert connection.recv(65_536).startswith(b"HTTP/1.1 400")


def test_one_that_fails_keeps_nobody_else_waiting() -> None:
    """In the queue of payers, whatever it is."""

    async def test() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        went_on: list[str] = []

        def fail() -> None:
            raise ZeroDivisionError

        queue, ada, bob = PayersQueue(), FakePayer(), FakePayer()
        queue.join(ada, Waiter("fails", went_on, fail))
        queue.join(ada, Waiter("a", went_on, lambda: None))
        queue.join(bob, Waiter("b", went_on, lambda: None))
        for _ in range(20):
            await asyncio.sleep(0)
        assert went_on == ["fails", "b", "a"]

    run(test)


def test_a_connection_waits_once_for_its_stream() -> None:
    """However often something is pushed to it before its turn, and it keeps its place."""

    class Subscriber:
        def __init__(self, flushed: Callable[[object], None]) -> None:
            self._flushed = flushed

        def flush_pushed(self) -> None:
            self._flushed(self)

    async def test() -> None:
        flushed: list[object] = []
        outflow = Outflow()
        ada, bob = Subscriber(flushed.append), Subscriber(flushed.append)
        for each in (ada, bob, ada, ada):
            outflow.add(each)
        for _ in range(5):
            await asyncio.sleep(0)
        assert flushed == [ada, bob]

    run(test)


def test_a_log_that_nobody_can_fill(caplog: pytest.LogCaptureFixture) -> None:
    """A few lines a minute, each one line, also of an error; what was left out is counted."""
    log = seldom_log("laissez.test")
    (seldom,) = (each for each in log.filters if isinstance(each, logging.Filter))
    for _ in range(3 * LINES_PER_MINUTE):
        try:
            raise KeyError("a\nb")
        except KeyError as error:
            log.error("Exception in ASGI application\n", exc_info=error)
    assert len(caplog.records) == LINES_PER_MINUTE
    seldom._minute -= 1  # type: ignore[attr-defined]
    log.error("again")
    lines = [logging.Formatter().format(each) for each in caplog.records]
    assert all("\n" not in line for line in lines)
    assert "KeyError at test_bounded_steps.py" in lines[0]
    assert lines[-1] == f"again ({2 * LINES_PER_MINUTE} more before this)"
    log.removeFilter(seldom)
