"""A connection to the exchange, as those need it who load it and measure: what is said is taken
apart and handed on with the instant at which it came.

Whoever asks (`Asking`) notes something with each request, and is told that with its answer: so it
decides what a latency counts from.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from itertools import count
from typing import Generic, TypeVar

from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from laissez.model import (
    Answer,
    Instruction,
    Question,
    Refused,
    Reply,
    Request,
    Said,
    decode_said,
    encode,
)

Note = TypeVar("Note")
Answered = Answer | Reply | Refused


class Talk(WSListener):
    """`hear` is told each message and when it came; `on_end`, if given, that no more will come."""

    def __init__(
        self, hear: Callable[[Said, float], None], on_end: Callable[[], None] | None = None
    ) -> None:
        self._hear = hear
        self._on_end = on_end
        self._transport: WSTransport | None = None

    async def connect(self, url: str, token: str, tls: ssl.SSLContext | None = None) -> None:
        await ws_connect(
            lambda: self,
            url.replace("http", "ws", 1) + "/v1/stream",
            extra_headers={"Authorization": f"Bearer {token}"},
            ssl_context=tls,
        )

    @property
    def is_connected(self) -> bool:
        return self._transport is not None

    def send(self, request: Request) -> None:
        assert self._transport is not None
        self._transport.send(WSMsgType.TEXT, encode(request))

    def end(self) -> None:
        if self._transport is not None:
            self._transport.disconnect()

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._transport = None
        if self._on_end is not None:
            self._on_end()

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type != WSMsgType.TEXT:
            return
        now_s = time.monotonic()
        told = decode_said(frame.get_payload_as_bytes())
        for said in told if isinstance(told, list) else [told]:
            self._hear(said, now_s)


class Asking(Generic[Note]):
    """`hear` is told what was noted with a request, its answer and when that came."""

    def __init__(self, hear: Callable[[Note, Answered, float], None]) -> None:
        self.talk = Talk(self._match)
        self.unanswered: dict[int, Note] = {}
        self._hear = hear
        self._ids = count()

    def ask(self, do: Instruction | Question, note: Note, key: str | None = None) -> None:
        number = next(self._ids)
        self.unanswered[number] = note
        self.talk.send(Request(number, do, key))

    def _match(self, said: Said, now_s: float) -> None:
        if isinstance(said, Answered) and said.id is not None:
            self._hear(self.unanswered.pop(said.id), said, now_s)
