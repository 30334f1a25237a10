"""Attacks on the doors: connections that come and go, and requests that are refused.

All of them keep many sockets busy from one process, each as fast as it is let: connect, say the
same, hear something, and say it again, or hang up and come back. What counts is answers, or, where
nothing is said or only half of something, connections that were made.
"""

from __future__ import annotations

import contextlib
import resource
import selectors
import socket
import ssl
import time
from urllib.parse import urlsplit

from attacking.stage import AttackPlan, Done
from raw_websocket import handshake

SOCKETS = 400
SOCKETS_WITH_TOKEN = 90
SOCKETS_OF_HALVES = 1_000
SOCKETS_OF_HELLOS = 400
SOCKETS_OF_SILENCE = 2_500
DESCRIPTORS = 8_192
HALF_HEAD_BYTES = 16_000
SOCKETS_OF_CHUNKS = 4
SMALLEST_CHUNKS = 40_000
PIPELINED = 20
LARGE_BODY_BYTES = 70_000
OPENED_AT_ONCE = 50
LINGERS = b"\x01\x00\x00\x00\x00\x00\x00\x00"
"""Hang up with a reset, so that this machine keeps no port of a connection that has ended."""


class Knocker:
    """One socket that says the same for ever, and comes back when it is hung up on."""

    def __init__(
        self, address: tuple[str, int], said: bytes, *, hangs_up: bool, holds: bool
    ) -> None:
        self.answers = 0
        self.opened = 0
        self._address = address
        self._said = said
        self._hangs_up = hangs_up
        self._holds = holds
        self._left = b""
        self._is_connecting = True
        self.socket: socket.socket | None = None

    def open(self) -> socket.socket | None:
        self.socket = plain = socket.socket()
        plain.setblocking(False)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGERS)
        self._left = self._said
        self._is_connecting = True
        try:
            plain.connect(self._address)
        except BlockingIOError:
            return plain
        except OSError:
            plain.close()
            self.socket = None
        return self.socket

    def write(self) -> bool:
        """Say what is left; False if this connection has done what it came for."""
        assert self.socket is not None
        if self._is_connecting:
            self._is_connecting = False
            if self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise ConnectionError
            self.opened += 1
        if not self._said:
            return self._holds
        sent = self.socket.send(self._left)
        self._left = self._left[sent:]
        return True

    def read(self) -> bool:
        """Hear an answer; False if that was all."""
        assert self.socket is not None
        heard = self.socket.recv(1 << 18)
        self.answers += heard.count(b"HTTP/1.1 ")
        if not self._holds:
            self._left = self._left or self._said
        return bool(heard) and not self._hangs_up

    @property
    def has_more(self) -> bool:
        return bool(self._left)


def knock(
    plan: AttackPlan,
    sockets: int,
    said: bytes,
    *,
    hangs_up: bool = False,
    holds: bool = False,
    is_heard: bool = True,
) -> Done:
    """Keep so many sockets busy for a while; one that `holds` stays silent after what it has said,
    and comes back when it is hung up on. Connections count, not answers, unless it `is_heard`."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(DESCRIPTORS, most), most))
    parts = urlsplit(plan.url)
    assert parts.hostname is not None and parts.port is not None
    address = (parts.hostname, parts.port)
    ends = time.monotonic() + plan.seconds
    knockers = [Knocker(address, said, hangs_up=hangs_up, holds=holds) for _ in range(sockets)]
    closed = list(knockers)
    with selectors.DefaultSelector() as selector:
        while time.monotonic() < ends:
            for knocker in [closed.pop() for _ in range(min(len(closed), OPENED_AT_ONCE))]:
                plain = knocker.open()
                if plain is None:
                    closed.append(knocker)
                else:
                    selector.register(plain, selectors.EVENT_WRITE, knocker)
            for key, ready in selector.select(0 if closed else 0.05):
                knocker = key.data
                try:
                    goes_on = True
                    if ready & selectors.EVENT_READ:
                        goes_on = knocker.read()
                    elif ready & selectors.EVENT_WRITE:
                        goes_on = knocker.write()
                except BlockingIOError:
                    continue
                except OSError:
                    goes_on = False
                if not goes_on:
                    selector.unregister(key.fileobj)
                    knocker.socket.close()
                    closed.append(knocker)
                    continue
                wanted = selectors.EVENT_READ
                if knocker.has_more:
                    wanted |= selectors.EVENT_WRITE
                if wanted != key.events:
                    selector.modify(key.fileobj, wanted, knocker)
        for knocker in knockers:
            if knocker.socket is not None:
                with contextlib.suppress(OSError):
                    knocker.socket.close()
    opened = sum(knocker.opened for knocker in knockers)
    answers = sum(knocker.answers for knocker in knockers)
    note = f"{answers:,} answers over {opened:,} connections"
    return Done(note, answers if said and is_heard and not holds else opened)


# By name ------------------------------------------------------------------------------------------


def no_token(plan: AttackPlan) -> Done:
    said = _request("GET /v1/orders") + _request("GET /v1/orders", _bearer("lz_nobody"))
    return knock(plan, SOCKETS, said * (PIPELINED // 2))


def strange_handshakes(plan: AttackPlan) -> Done:
    return knock(plan, SOCKETS, handshake("/v1/stream", [_bearer("lz_nobody")]))


def handshakes(plan: AttackPlan) -> Done:
    said = handshake("/v1/stream", [_bearer(plan.token)])
    return knock(plan, SOCKETS_WITH_TOKEN, said, hangs_up=True)


def connects(plan: AttackPlan) -> Done:
    return knock(plan, SOCKETS, b"")


def silence(plan: AttackPlan) -> Done:
    return knock(plan, SOCKETS_OF_SILENCE, b"", holds=True)


def half_heads(plan: AttackPlan) -> Done:
    half = _request("GET /v1/status").removesuffix(b"\r\n") + b"X: "
    return knock(plan, SOCKETS_OF_HALVES, half + b"x" * HALF_HEAD_BYTES, holds=True)


def half_handshakes(plan: AttackPlan) -> Done:
    """Say hello in TLS, and nothing more."""
    hello = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(
        ssl.MemoryBIO(), hello, server_hostname="exchange"
    )
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return knock(plan, SOCKETS_OF_HELLOS, hello.read(), holds=True)


def smallest_chunks(plan: AttackPlan) -> Done:
    """Bodies of one byte at a time, all at once; nobody shows a token."""
    body = b"1\r\n \r\n" * SMALLEST_CHUNKS + b"0\r\n\r\n"
    head = _request("POST /v1/orders", "Transfer-Encoding: chunked")
    return knock(plan, SOCKETS, head + body, is_heard=False)


def own_smallest_chunks(plan: AttackPlan) -> Done:
    """The same, with a token."""
    body = b"1\r\n \r\n" * SMALLEST_CHUNKS + b"0\r\n\r\n"
    head = _request("POST /v1/orders", _bearer(plan.token), "Transfer-Encoding: chunked")
    return knock(plan, SOCKETS_OF_CHUNKS, head + body)


def not_there(plan: AttackPlan) -> Done:
    return _with_token(plan, "GET /v1/nothing", PIPELINED)


def not_so(plan: AttackPlan) -> Done:
    return _with_token(plan, "PUT /v1/status", PIPELINED)


def too_large(plan: AttackPlan) -> Done:
    return _with_token(plan, "POST /v1/orders", 1, b" " * LARGE_BODY_BYTES)


def _with_token(plan: AttackPlan, line: str, times: int, body: bytes = b"") -> Done:
    length = [f"Content-Length: {len(body)}"] if body else []
    said = _request(line, _bearer(plan.token), *length) + body
    return knock(plan, SOCKETS_WITH_TOKEN, said * times)


def _request(line: str, *headers: str) -> bytes:
    return "\r\n".join([f"{line} HTTP/1.1", "Host: x", *headers, "", ""]).encode()


def _bearer(token: str) -> str:
    return f"Authorization: Bearer {token}"
