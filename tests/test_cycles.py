"""What a connection leaves behind: nothing that only the collector of cycles would find.

The service runs with that collector off, so whoever comes and goes could fill its memory with what
holds itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

import pytest

from laissez.service import server
from raw_websocket import TEXT, frame, handshake
from serving import Served, served

CONNECTIONS = 20
LEFT_PER_CONNECTION_MAX = 1
LOOKS = 5
PATIENCE_S = 20.0

Say = Callable[[str], bytes]


def _request(line: str, *headers: str) -> bytes:
    return "\r\n".join([line, "Host: exchange", *headers, "", ""]).encode()


def _stream(token: str, after: bytes = b"") -> bytes:
    return handshake("/v1/stream", [f"Authorization: Bearer {token}"]) + after


HALF = frame(b'"' + b"x" * 5_000, TEXT, first=0)
UNFINISHED = frame(b'"' + b"x" * 5_000)[:3_000]
CLOSE_FRAME = frame(b"\x03\xe8", 8)

SAID: dict[str, tuple[Say, bytes]] = {
    "a WebSocket with a token": (_stream, b""),
    "a WebSocket that says goodbye": (_stream, CLOSE_FRAME),
    "a WebSocket with a bad token": (lambda token: _stream("x"), b""),
    "a WebSocket elsewhere": (
        lambda token: handshake("/x", [f"Authorization: Bearer {token}"]),
        b"",
    ),
    "half a message": (_stream, HALF),
    "half a frame": (_stream, UNFINISHED),
    "an upgrade with a long head": (
        lambda token: handshake("/v1/stream", ["X: " + "x" * 17_000]),
        b"",
    ),
    "silence": (lambda token: b"", b""),
    "half a head": (lambda token: b"GET /v1/status HTT", b""),
    "GET health": (lambda token: _request("GET /v1/health HTTP/1.1"), b""),
    "GET health, then close": (
        lambda token: _request("GET /v1/health HTTP/1.1", "Connection: close"),
        b"",
    ),
    "GET without a token": (lambda token: _request("GET /v1/bill HTTP/1.1"), b""),
    "GET with a token": (
        lambda token: _request("GET /v1/status HTTP/1.1", f"Authorization: Bearer {token}"),
        b"",
    ),
    "GET of nothing": (
        lambda token: _request("GET /v1/zz HTTP/1.1", f"Authorization: Bearer {token}"),
        b"",
    ),
    "half a body": (
        lambda token: (
            _request(
                "POST /v1/orders HTTP/1.1", f"Authorization: Bearer {token}", "Content-Length: 9"
            )
            + b"abc"
        ),
        b"",
    ),
    "no HTTP": (lambda token: b"\x00\x01\r\n\r\n", b""),
}
UNANSWERED = ("silence", "half a head", "half a body")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("cycles") / "journal"
    folder.mkdir()
    with served(folder, "lab") as each:
        yield each


@contextlib.contextmanager
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def _come_and_go(running: Served, kind: str) -> None:
    """One connection, until the service has hung up, too."""
    url = urlsplit(running.url)
    first, then = SAID[kind]
    with socket.create_connection((url.hostname, url.port), timeout=PATIENCE_S) as connection:
        connection.sendall(first(running.secrets["lab"]))
        if kind not in UNANSWERED:
            connection.recv(4_096)
        with contextlib.suppress(ConnectionError, BrokenPipeError):
            connection.sendall(then)
            connection.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while connection.recv(4_096):
                pass


@pytest.mark.parametrize("kind", SAID)
def test_a_connection_leaves_no_cycles(running: Served, kind: str) -> None:
    """However it came, whatever it said and however it went: it is gone without a collector."""
    _come_and_go(running, kind)  # what is made once is made now
    with no_collector():
        for _ in range(CONNECTIONS):
            _come_and_go(running, kind)
        found = []
        for _ in range(LOOKS):  # the last one may not have been let go of yet
            found.append(running.call(lambda _: gc.collect()))
    assert sum(found) <= CONNECTIONS * LEFT_PER_CONNECTION_MAX, found


def test_visitors_are_counted(running: Served) -> None:
    """Each that was let in."""
    before = running.running.visitors()
    for _ in range(3):
        _come_and_go(running, "GET health")
    assert running.running.visitors() == before + 3


def test_the_collector_looks_after_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they may have left does not stay until a statement period ends; but without them the
    collector does not look before that."""
    looks = 0
    visitors = 0

    def look() -> None:
        nonlocal looks
        looks += 1

    monkeypatch.setattr(gc, "collect", look)
    monkeypatch.setattr(server, "SAMPLE_EVERY_S", 0.001)

    async def run() -> None:
        nonlocal visitors
        collecting = asyncio.create_task(server._collect_seldom(1_000_000, lambda: visitors))
        await asyncio.sleep(0.05)
        assert looks == 1 and not gc.isenabled()  # at the start
        visitors += server.VISITORS_BETWEEN_LOOKS - 1
        await asyncio.sleep(0.05)
        assert looks == 1
        visitors += 1
        while looks < 2:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0.05)
        assert looks == 2
        collecting.cancel()

    try:
        asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    finally:
        gc.unfreeze()
    assert gc.isenabled()
