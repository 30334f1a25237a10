"""One tenant can't stall or fill the service: what it sends is paid for, what it does not read is
bounded, and others come between.

Nothing here depends on how fast the machine is: what is looked at is who rests, what waits, and
how much.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import monotonic_ns
from typing import Any

import pytest
from picows import WSCloseCode

from laissez.exchange.access import Limits, Principal, new_token
from laissez.exchange.allowance import NS_PER_S, WORK_AT_ONCE_NS, Allowance
from laissez.exchange.clock import Clock
from laissez.exchange.pipeline import Settings
from laissez.model import (
    AskOrders,
    AskStatus,
    Happened,
    OfferResource,
    PlaceOrder,
    Reply,
    Request,
    Subscribe,
    Subscribed,
    encode,
)
from laissez.service import following
from laissez.service import outflow as service_outflow
from laissez.service import socket as service_socket
from laissez.service.outflow import Outflow
from laissez.service.reception import Turn
from laissez.service.socket import UNREAD_BYTES_MAX, TraderSocket
from laissez.service.unread import UnreadBytes
from raw_websocket import PING, RawSocket, frame
from serving import Served, served
from test_socket import narrow, traders, unread_bytes, wait_until

NAMES = ("operator", "ada", "bob")
NO_BOUND = Settings(limits=Limits(requests_per_s=1_000_000, burst=1_000_000))


@pytest.fixture
def exchange(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path, *NAMES, settings=NO_BOUND) as running:
        yield running


def dial(exchange: Served, name: str, **options: int) -> RawSocket:
    return RawSocket(exchange.url, exchange.secrets[name], receive_buffer=options.get("reads"))


def send_without_reading(client: RawSocket, data: bytes, times: int) -> None:
    """Send the same again and again, or until the service does not take more."""
    client.socket.settimeout(0.5)
    with contextlib.suppress(TimeoutError):
        for _ in range(times):
            client.socket.sendall(data)
    client.socket.settimeout(20)


# What is not read ---------------------------------------------------------------------------------


def test_pongs_that_nobody_reads_are_bounded(exchange: Served) -> None:
    """Pings that come together have one answer, and who reads none is not sent more of them."""
    pings = frame(b"x" * 125, PING) * 1_000
    with dial(exchange, "ada", reads=4_096) as ada, dial(exchange, "bob") as bob:
        narrow(exchange)
        send_without_reading(ada, pings, 200)
        assert unread_bytes(exchange, traders(exchange)) <= UNREAD_BYTES_MAX // 2
        assert isinstance(bob.ask(AskStatus()), Reply)


def test_a_stream_that_is_resumed_again_and_again_is_bounded(exchange: Served) -> None:
    """A thousand times the past, asked for in one frame: it comes in pieces, as it is read."""
    with dial(exchange, "operator") as operator:
        operator.ask(OfferResource("h100/a/g0"))
    with dial(exchange, "ada") as ada:
        orders = [PlaceOrder("h100", 1, 1, f"{n}-{'o' * 100}") for n in range(1_000)]
        ada.answers(ada.send(*orders))
    with dial(exchange, "ada", reads=4_096) as ada, dial(exchange, "bob") as bob:
        narrow(exchange)
        asked = ada.send(*[Subscribe(after=0)] * 300, AskStatus())
        (trader,) = (each for each in traders(exchange) if each.principal.tenant == "ada")
        wait_until(lambda: exchange.call(lambda _: trader._has_too_much_unread))
        assert unread_bytes(exchange, [trader]) <= UNREAD_BYTES_MAX
        assert trader._pending, "the others wait for their turn"
        assert isinstance(bob.ask(AskStatus()), Reply)
        answers = ada.answers(asked)
        assert sum(isinstance(each, Subscribed) for each in answers.values()) == 300


def test_what_was_missed_comes_in_pieces_without_a_gap(
    exchange: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Piece by piece, while more happens: every sequence number once and in order."""
    monkeypatch.setattr(following, "PIECE_MAX", 7)
    with dial(exchange, "operator") as operator, dial(exchange, "ada") as ada:
        operator.ask(OfferResource("h100/a/g0"))
        ada.answers(ada.send(*(PlaceOrder("h100", 1, 1, f"a{n}") for n in range(200))))
        with dial(exchange, "ada") as again:
            again.send(Subscribe(after=50))
            ada.answers(ada.send(*(PlaceOrder("h100", 1, 1, f"b{n}") for n in range(200))))
            heard = again.until(lambda said: isinstance(said, Happened) and said.sequence == 401)
        told = [said.sequence for said in heard if isinstance(said, Happened) and said.events]
        assert told == list(range(51, 402))


class FakeOutlet:
    def __init__(self, principal: Principal, waits: int) -> None:
        self.principal = principal
        self.unread = 0
        self.waits = waits
        self.is_up = True

    def unread_bytes(self) -> int:
        return self.waits

    def abort(self) -> None:
        self.is_up = False


def up(*outlets: FakeOutlet) -> list[bool]:
    return [outlet.is_up for outlet in outlets]


def principal(tenant: str, limits: Limits, allowance: Allowance | None = None) -> Principal:
    return Principal(new_token("tenant", tenant, at=0)[1], limits, allowance)


def test_unread_bytes_are_bounded_for_a_tenant_and_for_all() -> None:
    """Of the tenant with too much the connection for which most waits goes; of all the largest."""
    ada, bob = (principal(name, Limits(unread_bytes=100)) for name in ("ada", "bob"))
    unread = UnreadBytes(150)
    small, large, other = FakeOutlet(ada, 40), FakeOutlet(ada, 55), FakeOutlet(bob, 50)
    for outlet in (small, large, other):
        unread.note(outlet)
    assert up(small, large, other) == [True, True, True]
    small.waits = 50
    unread.note(small)
    assert up(small, large) == [True, False] and ada.tenant_allowance.unread == 50
    another, last = FakeOutlet(bob, 45), FakeOutlet(bob, 3)
    unread.note(another)
    other.waits = 1  # it was read meanwhile: nobody has to go
    last.waits = 10
    unread.note(last)
    assert all(up(small, other, another, last))
    for outlet in (small, other, another, last):
        unread.forget(outlet)
    assert (unread.total, ada.tenant_allowance.unread, bob.tenant_allowance.unread) == (0, 0, 0)


def test_what_waits_in_a_closing_connection_counts(
    exchange: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the tenant's until it is read or dropped, though nothing more is said there."""
    monkeypatch.setattr(service_socket, "FAREWELL_S", 1_000)
    with dial(exchange, "operator") as operator:
        operator.ask(OfferResource("h100/a/g0"))
    with dial(exchange, "ada") as ada:
        order = "o" * 100
        ada.answers(ada.send(*(PlaceOrder("h100", 1, 1, f"{order}{n}") for n in range(1_000))))
    wait_until(lambda: not exchange.call(lambda _: traders(exchange)))
    with dial(exchange, "ada", reads=4_096) as ada:
        narrow(exchange)
        (trader,) = traders(exchange)
        allowance, unread = trader.principal.tenant_allowance, trader._reception.unread
        ada.send(*(AskOrders() for _ in range(10)))
        wait_until(lambda: exchange.call(lambda _: trader.unread_bytes()) > 200_000)

        def close(_: object) -> tuple[int, int]:
            trader.close(WSCloseCode.GOING_AWAY, "")
            waits = trader.unread_bytes()
            unread._look_again()
            return waits, allowance.unread

        waits, counted = exchange.call(close)
        assert waits > 200_000 and counted == waits
        exchange.call(lambda _: trader.abort())
        wait_until(lambda: exchange.call(lambda _: (allowance.unread, unread.total)) == (0, 0))


# Who rests ----------------------------------------------------------------------------------------


def test_who_has_overdrawn_rests_until_it_is_paid_back() -> None:
    """Work and bytes come back with time; what is paid at once may be more than there is."""
    allowance = Allowance(Limits(requests_per_s=1_000, burst=2_000, bytes_per_request=512))
    now = 7 * NS_PER_S
    allowance.spend(now, 0, WORK_AT_ONCE_NS)
    assert allowance.rests_until <= now, "so much may be done at once"
    allowance.spend(now, 0, 1_000_000)
    assert allowance.rests_until == now + 3_000_000, "a quarter of the time, but for a millisecond"
    later = allowance.rests_until + WORK_AT_ONCE_NS * 4
    allowance.spend(later, 2_000 * 512, 0)
    assert allowance.rests_until <= later
    allowance.spend(later, 512_000, 0)
    rest = allowance.rests_until - later
    assert 0.99 * NS_PER_S < rest < 1.01 * NS_PER_S, "512,000 bytes a second come back"


def test_all_tokens_of_a_tenant_share_what_some_may_use() -> None:
    """Many tokens are not many allowances: requests, work and connections of all are counted."""
    limits = Limits(requests_per_s=10, burst=10, connections=3, tokens_worth=2)
    together = Allowance(limits, limits.tokens_worth)
    tokens = [principal("ada", limits, together) for _ in range(5)]
    assert not any(token.is_alone for token in tokens)
    assert sum(token.wait_us(0) == 0 for token in tokens for _ in range(12)) == 20
    assert sum(token.connect() for token in tokens for _ in range(4)) == 6
    tokens[0].disconnect()
    assert tokens[0].connect()
    tokens[0].spend(0, 0, WORK_AT_ONCE_NS * 2)
    assert tokens[4].rests_until > 0


def test_nothing_is_read_from_a_tenant_that_rests(exchange: Served) -> None:
    """It waits in the sender's socket, through all connections of the token; others are served."""
    with (
        dial(exchange, "ada") as ada,
        dial(exchange, "ada") as also_ada,
        dial(exchange, "bob") as bob,
    ):
        own = next(t.principal for t in traders(exchange) if t.principal.tenant == "ada")
        overdrawn = monotonic_ns() + 1_000_000 * NS_PER_S
        exchange.call(lambda _: setattr(own.token_allowance, "_work_paid_ns", overdrawn))
        exchange.call(lambda _: own.token_allowance.spend(monotonic_ns(), 0, 0))
        first, second = ada.send(AskStatus()), also_ada.send(AskStatus())
        wait_until(
            lambda: all(t._is_paused for t in traders(exchange) if t.principal.tenant == "ada")
        )
        for client in (ada, also_ada):
            client.socket.settimeout(0.1)
            with pytest.raises(TimeoutError):
                client.socket.recv(1)
            client.socket.settimeout(20)
        assert isinstance(bob.ask(AskStatus()), Reply)

        def let_go(_: object) -> None:
            own.token_allowance._work_paid_ns = 0
            own.token_allowance.spend(monotonic_ns(), 0, 0)
            for trader in traders(exchange):
                trader._take_turn()

        exchange.call(let_go)
        assert isinstance(ada.answers(first)[first[0]], Reply)
        assert isinstance(also_ada.answers(second)[second[0]], Reply)


# Whose turn it is ---------------------------------------------------------------------------------


class Loopback:
    """The parts of a transport that a trader uses, without a socket."""

    def __init__(self) -> None:
        self.underlying_transport = self
        self.sent = 0
        self.is_paused = False

    def set_write_buffer_limits(self, high: int, low: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def send(self, kind: object, data: bytes) -> None:
        self.sent += 1


def reads(trader: TraderSocket, data: bytes, size: int) -> None:
    trader._read(data)


class Counting:
    """A reception that counts what it gets."""

    def __init__(self) -> None:
        self.unread = UnreadBytes()
        self.outflow = Outflow()
        self.turn = Turn()
        self.exchange = self
        self.clock = Clock()
        self.received: list[tuple[str, int]] = []

    def receive(self, caller: Any, request: Request, at: int) -> None:
        self.received.append((caller.principal.name, request.id))


def test_others_come_between_the_requests_of_a_long_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame with a thousand requests is served in turns; meanwhile its socket is not read."""
    monkeypatch.setattr(service_socket, "TURN_NS", 0)
    frames = {
        name: encode([Request(n, AskStatus()) for n in range(count)])
        for name, count in (("ada", 1_000), ("bob", 10))
    }

    async def serve() -> None:
        reception: Any = Counting()
        people: dict[str, tuple[TraderSocket, Loopback]] = {}
        for name in frames:
            own = principal(name, NO_BOUND.limits)
            own.connect()
            transport: Any = Loopback()
            people[name] = TraderSocket(reception, own, set()), transport
            people[name][0].on_ws_connected(transport)
        for name, (trader, transport) in people.items():
            trader.read = partial(reads, trader, frames[name])
            trader.arrive(len(frames[name]))
            assert transport.is_paused
        order = reception.received
        for _ in range(2_000):
            await asyncio.sleep(0)
        assert [each for each in order if each[0] == "ada"] == [("ada", n) for n in range(1_000)]
        assert [each for each in order if each[0] == "bob"] == [("bob", n) for n in range(10)]
        assert order.index(("bob", 9)) < 30, "bob did not wait for ada's thousand"
        assert not any(transport.is_paused for _, transport in people.values())

    asyncio.run(serve())


def test_others_come_between_the_streams_of_many_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What happened is sent to some connections at a time, and to each of them once."""
    monkeypatch.setattr(service_outflow, "TURN_NS", 0)

    async def push() -> None:
        reception: Any = Counting()
        transports: list[Any] = [Loopback() for _ in range(5)]
        for transport in transports:
            own = principal("ada", NO_BOUND.limits)
            own.connect()
            trader = TraderSocket(reception, own, set())
            trader.on_ws_connected(transport)
            trader.say_soon(b"{}")
            trader.say_soon(b"{}")
        for turns in range(1, 6):
            await asyncio.sleep(0)
            assert [transport.sent for transport in transports] == [1] * turns + [0] * (5 - turns)

    asyncio.run(push())
