"""All that a request over HTTP causes is paid for: its bytes, its answering and the writing of the
answer; and while somebody rests, others are served.

Time is moved by hand, as in `test_accounting`.
"""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from hand_clock import HandClock, rests
from laissez.exchange.access import Limits
from laissez.exchange.pipeline import Exchange, Settings
from laissez.exchange.questions import Desk
from laissez.model import OfferResource, OrderList, encode
from raw_websocket import RawSocket
from serving import Served, served
from test_socket import wait_until

NAMES = ("operator", "ada", "bob")
FREE = 1_000_000
ALL_FREE = Limits(requests_per_s=FREE, burst=FREE, bytes_per_request=FREE, work_us_per_request=FREE)
FEW_BYTES = Limits(
    requests_per_s=1_000, burst=64, bytes_per_request=1_000, work_us_per_request=FREE
)
VERY_FEW_BYTES = Limits(
    requests_per_s=1_000, burst=70, bytes_per_request=100, work_us_per_request=FREE
)
LITTLE_WORK = Limits(burst=FREE, bytes_per_request=FREE)
PATIENCE_S = 30


class Caller:
    """Somebody with a token and one connection."""

    def __init__(self, exchange: Served, name: str) -> None:
        parts = urlsplit(exchange.url)
        assert parts.hostname is not None
        self.http = http.client.HTTPConnection(parts.hostname, parts.port, PATIENCE_S)
        self._headers = {"Authorization": f"Bearer {exchange.secrets[name]}"}

    def begin(self, method: str, path: str, body: bytes | None = None) -> None:
        self.http.request(method, path, body, self._headers)

    def status(self) -> int:
        """Of the answer to what was begun."""
        with self.http.getresponse() as response:
            response.read()
            return response.status

    def call(self, method: str, path: str, body: bytes | None = None) -> int:
        self.begin(method, path, body)
        return self.status()

    def close(self) -> None:
        self.http.close()


@contextmanager
def callers(folder: Path, limits: Limits) -> Iterator[tuple[Served, Caller, Caller]]:
    """A service, and Ada and Bob, who have said something already."""
    with (
        served(folder, *NAMES, settings=Settings(limits=limits)) as exchange,
        closing(Caller(exchange, "ada")) as ada,
        closing(Caller(exchange, "bob")) as bob,
    ):
        assert [each.call("GET", "/v1/status") for each in (ada, bob)] == [200, 200]
        yield exchange, ada, bob


def others_go_on(exchange: Served, clock: HandClock, bob: Caller, asked: list[str]) -> None:
    """Ada rests: what she asks for waits while Bob is served."""
    assert rests(exchange, clock, "ada")
    before = asked.count("ada")
    assert [bob.call("GET", "/v1/status") for _ in range(3)] == [200] * 3
    assert asked.count("ada") == before and not rests(exchange, clock, "bob")


def rests_meanwhile(
    exchange: Served, clock: HandClock, ada: Caller, bob: Caller, asked: list[str]
) -> None:
    """What Ada asks for now waits while Bob is served, and is answered when she has paid."""
    asked.clear()
    ada.begin("GET", "/v1/status")
    others_go_on(exchange, clock, bob, asked)
    assert asked == ["bob"] * 3
    clock.let_pass(1_000)
    assert ada.status() == 200


def is_ada(asker: Any) -> bool:
    return bool(asker.name == "ada")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/v1/orders", None, 200),
        ("POST", "/v1/orders", b'{"scope":"h100","price_micros_per_hour":1}', 404),
    ],
)
def test_answering_is_paid_for(
    tmp_path: Path,
    clock: HandClock,
    asked: list[str],
    method: str,
    path: str,
    body: bytes | None,
    status: int,
) -> None:
    """A question and a change: whoever keeps the loop busy for too long waits for the next."""
    clock.slow_down(Desk, "answer", lambda desk, asker, asked: 6 * is_ada(asker))
    clock.slow_down(Exchange, "submit", lambda own, ticket, at: 6 * is_ada(ticket.caller))
    with callers(tmp_path, LITTLE_WORK) as (exchange, ada, bob):
        clock.let_pass(100)
        assert not rests(exchange, clock, "ada")
        assert ada.call(method, path, body) == status
        wait_until(lambda: rests(exchange, clock, "ada"))
        rests_meanwhile(exchange, clock, ada, bob, asked)


def test_writing_an_answer_is_paid_for(tmp_path: Path, clock: HandClock, asked: list[str]) -> None:
    """A long list is quickly found and slowly written."""

    def write(told: Any) -> bytes:
        clock.let_pass(6 * isinstance(told, OrderList))
        return encode(told)

    clock.patch_doors("encode", write)
    with callers(tmp_path, LITTLE_WORK) as (exchange, ada, bob):
        assert ada.call("GET", "/v1/orders") == 200
        wait_until(lambda: rests(exchange, clock, "ada"))
        rests_meanwhile(exchange, clock, ada, bob, asked)


def test_bodies_are_paid_for(tmp_path: Path, clock: HandClock, asked: list[str]) -> None:
    """By their length, whatever is in them; with what is left of one that is too long its sender
    waits in the middle of it."""
    body = b" " * 50_000 + b'{"scope":"h100","price_micros_per_hour":1}'
    with callers(tmp_path, FEW_BYTES) as (exchange, ada, bob):
        with RawSocket(exchange.url, exchange.secrets["operator"]) as operator:
            operator.ask(OfferResource("h100/a/g0"))
        assert ada.call("POST", "/v1/orders", body) == 201
        assert not rests(exchange, clock, "ada")
        ada.begin("POST", "/v1/orders", body)
        wait_until(lambda: rests(exchange, clock, "ada"))
        others_go_on(exchange, clock, bob, asked)
        clock.let_pass(1_000)
        assert ada.status() == 201


def test_heads_are_paid_for(tmp_path: Path, clock: HandClock, asked: list[str]) -> None:
    """Many small requests are many bytes, also on one connection without waiting for answers."""
    with callers(tmp_path, VERY_FEW_BYTES) as (exchange, ada, bob):
        token = exchange.secrets["ada"]
        head = f"GET /v1/status HTTP/1.1\r\nHost: x\r\nX: {'x' * 200}\r\n"
        head += f"Authorization: Bearer {token}\r\n\r\n"
        connection = ada.http.sock
        assert connection is not None
        connection.sendall(head.encode() * 50)
        wait_until(lambda: rests(exchange, clock, "ada"))
        others_go_on(exchange, clock, bob, asked)
        clock.let_pass(1_000)
        heard = b""
        while heard.count(b"HTTP/1.1 ") < 50:
            more = connection.recv(1 << 16)
            assert more, "it was hung up on"
            heard += more
