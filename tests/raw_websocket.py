"""A WebSocket client of a few lines that does what it is told, right or wrong.

The tests of the service must be able to send what no decent client sends, and to stop reading.
It is synchronous: the service runs in a thread of its own.
"""

from __future__ import annotations

import base64
import os
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import msgspec

from laissez.model import (
    Administration,
    Answer,
    Instruction,
    Question,
    Refused,
    Reply,
    Request,
    Said,
    Subscribe,
    Subscribed,
    decode_said,
    encode,
)

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
FIN = 0x80
PATIENCE_S = 20.0
MASK = b"\x01\x02\x03\x04"

Asked = Instruction | Question | Administration | Subscribe


class TurnedAway(Exception):
    """The handshake was answered by something else than 101."""

    def __init__(self, status: int, headers: bytes, body: bytes) -> None:
        super().__init__(f"{status}: {body!r}")
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def problem(self) -> dict[str, Any]:
        assert b"application/problem+json" in self.headers
        told: dict[str, Any] = msgspec.json.decode(self.body)
        return told


class Closed(Exception):
    """The other side has hung up: with a close code, or None if it just did."""

    def __init__(self, code: int | None, reason: str = "") -> None:
        super().__init__(f"{code} {reason}")
        self.code = code
        self.reason = reason


def frame(payload: bytes, opcode: int = TEXT, first: int = FIN, mask: bytes | None = MASK) -> bytes:
    """One frame; `first` holds the bits beside the opcode; no mask if None."""
    masked = 0 if mask is None else 0x80
    size = len(payload)
    if size < 126:
        head = struct.pack("!BB", first | opcode, masked | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", first | opcode, masked | 126, size)
    else:
        head = struct.pack("!BBQ", first | opcode, masked | 127, size)
    if mask is None:
        return head + payload
    pattern = (mask * (size // 4 + 1))[:size]
    mixed = int.from_bytes(payload, "big") ^ int.from_bytes(pattern, "big")
    return head + mask + mixed.to_bytes(size, "big")


def handshake(path: str, headers: Sequence[str]) -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    lines = [
        f"GET {path} HTTP/1.1",
        "Host: exchange",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {key}",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


class RawSocket:
    """One connection to the exchange."""

    def __init__(
        self,
        url: str,
        secret: str | None,
        *,
        path: str = "/v1/stream",
        headers: Sequence[str] = (),
        receive_buffer: int | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(url)
        plain = socket.socket()
        if receive_buffer is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        plain.settimeout(PATIENCE_S)
        plain.connect((parts.hostname, parts.port))
        self.socket = (
            plain if tls is None else tls.wrap_socket(plain, server_hostname=parts.hostname)
        )
        self._received = bytearray()
        self._waiting: deque[Said] = deque()
        self._ids = count(1)
        authorization = [] if secret is None else [f"Authorization: Bearer {secret}"]
        try:
            self.socket.sendall(handshake(path, [*authorization, *headers]))
            self._read_handshake()
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self) -> RawSocket:
        return self

    def __exit__(self, *exc: object) -> None:
        self.socket.close()

    def _read_handshake(self) -> None:
        while b"\r\n\r\n" not in self._received:
            self._read_some()
        head, _, rest = bytes(self._received).partition(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        self._received = bytearray(rest)
        if status != 101:
            while True:
                try:
                    self._read_some()
                except Closed:
                    raise TurnedAway(status, head, bytes(self._received)) from None

    def _read_some(self) -> None:
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionError:
            data = b""
        if not data:
            raise Closed(None)
        self._received += data

    def _take(self, size: int) -> bytes:
        while len(self._received) < size:
            self._read_some()
        taken = bytes(self._received[:size])
        del self._received[:size]
        return taken

    # Frames -----------------------------------------------------------------------------------

    def send_raw(self, data: bytes) -> None:
        """Send bytes; that the other side hung up meanwhile is seen when reading."""
        try:
            self.socket.sendall(data)
        except ConnectionError:
            return

    def send_text(self, payload: bytes) -> None:
        self.send_raw(frame(payload))

    def next_frame(self) -> tuple[int, bytes]:
        """Opcode and payload of the next frame that is not a ping."""
        while True:
            first, second = self._take(2)
            assert first & 0x70 == 0 and second & 0x80 == 0 and first & FIN, "a bad frame"
            size = second & 0x7F
            if size == 126:
                (size,) = struct.unpack("!H", self._take(2))
            elif size == 127:
                (size,) = struct.unpack("!Q", self._take(8))
            payload = self._take(size)
            if first & 0x0F != PING:
                return first & 0x0F, payload
            self.send_raw(frame(payload, PONG))

    # Messages ---------------------------------------------------------------------------------

    def said(self) -> Said:
        """The next message of the service; raises `Closed`."""
        while not self._waiting:
            opcode, payload = self.next_frame()
            if opcode == CLOSE:
                code = struct.unpack("!H", payload[:2])[0] if payload else None
                raise Closed(code, payload[2:].decode())
            assert opcode == TEXT
            told = decode_said(payload)
            self._waiting.extend(told if isinstance(told, list) else [told])
        return self._waiting.popleft()

    def until(self, is_it: Callable[[Said], bool]) -> list[Said]:
        """Everything said up to and with the message that is looked for."""
        heard = [self.said()]
        while not is_it(heard[-1]):
            heard.append(self.said())
        return heard

    def until_closed(self) -> tuple[list[Said], Closed]:
        heard: list[Said] = []
        while True:
            try:
                heard.append(self.said())
            except Closed as closed:
                return heard, closed

    def quiet(self, seconds: float) -> list[Said]:
        """What is said within a time, most often nothing."""
        heard: list[Said] = []
        self.socket.settimeout(seconds)
        try:
            while True:
                heard.append(self.said())
        except TimeoutError:
            return heard
        finally:
            self.socket.settimeout(PATIENCE_S)

    # Requests ---------------------------------------------------------------------------------

    def send(self, *asked: Asked, key: str | None = None) -> list[int]:
        """Send requests in one frame; their ids."""
        requests = [Request(next(self._ids), each, key) for each in asked]
        self.send_text(encode(requests[0] if len(requests) == 1 else requests))
        return [request.id for request in requests]

    def answers(self, ids: Sequence[int]) -> dict[int, Answer | Reply | Subscribed | Refused]:
        """The answers to all of these; what the stream says meanwhile is left out."""
        found: dict[int, Answer | Reply | Subscribed | Refused] = {}
        while not found.keys() >= set(ids):
            told = self.said()
            if isinstance(told, Answer | Reply | Subscribed | Refused):
                assert told.id is not None and told.id not in found, told
                found[told.id] = told
        return found

    def ask(self, asked: Asked, key: str | None = None) -> Answer | Reply | Subscribed | Refused:
        """Send one request and wait for its answer."""
        (number,) = self.send(asked, key=key)
        return self.answers([number])[number]
