"""A short conversation with a service: some requests, and the answer to each."""

from __future__ import annotations

import asyncio

from picows import WSFrame, WSListener, WSMsgType, WSTransport, ws_connect

from laissez.model import (
    Administration,
    Answer,
    Instruction,
    Question,
    Refused,
    Reply,
    Request,
    Subscribe,
    Subscribed,
    decode_said,
    encode,
)

PATIENCE_S = 120
Answered = Answer | Reply | Refused | Subscribed


class _Listener(WSListener):
    def __init__(self, count: int) -> None:
        self.answers: dict[int, Answered] = {}
        self.done = asyncio.Event()
        self._count = count

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type != WSMsgType.TEXT:
            return
        said = decode_said(frame.get_payload_as_bytes())
        for each in said if isinstance(said, list) else [said]:
            if isinstance(each, Answered) and each.id is not None:
                self.answers[each.id] = each
        if len(self.answers) == self._count:
            self.done.set()

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self.done.set()


async def converse(url: str, secret: str, requests: list[Request]) -> dict[int, Answered]:
    """Send one frame; the answers by id, fewer than requests if the connection ends before."""
    transport, listener = await ws_connect(
        lambda: _Listener(len(requests)),
        url.replace("http", "ws", 1) + "/v1/stream",
        extra_headers={"Authorization": f"Bearer {secret}"},
    )
    assert isinstance(listener, _Listener)
    transport.send(WSMsgType.TEXT, encode(requests))
    await asyncio.wait_for(listener.done.wait(), PATIENCE_S)
    transport.disconnect()
    return listener.answers


def ask(
    url: str,
    secret: str,
    *wishes: Instruction | Question | Administration | Subscribe | tuple[str, Instruction],
) -> list[Answered | None]:
    """The answer to each wish, None for those that were not answered; a pair is (key, wish)."""
    requests = [
        Request(number, wish[1], wish[0]) if isinstance(wish, tuple) else Request(number, wish)
        for number, wish in enumerate(wishes)
    ]
    answers = asyncio.run(converse(url, secret, requests))
    return [answers.get(request.id) for request in requests]
