"""A small exchange on loopback that does as it is told: answers late, hangs up, says it is busy.

It speaks the protocol and knows no market. A change acts once for each key and is answered with
the events that `events_of` gives; everything else is answered by `replies`. What the next requests
meet with is in `moves`, one for each request, None for nothing special.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any

from picows import (
    WSFrame,
    WSListener,
    WSMsgType,
    WSTransport,
    WSUpgradeRequest,
    WSUpgradeResponse,
    WSUpgradeResponseWithListener,
    ws_create_server,
)

from laissez.client import AsyncClient
from laissez.client.link import AnyRequest
from laissez.model import (
    Answer,
    AskHoldings,
    AskOrders,
    AskPromises,
    AskQuote,
    AskStatus,
    Cancelled,
    Happened,
    HoldingList,
    Instruction,
    Notice,
    OrderList,
    PromiseList,
    Quoted,
    Refused,
    Reply,
    Request,
    Status,
    Subscribe,
    Subscribed,
    decode_requests,
    encode_all,
)
from laissez.model.message import Message

TOKEN = "lz_a-secret-that-nobody-may-see"
ANSWER_LOST = "act, and hang up before the answer"
NOT_HEARD = "hang up before it is heard"
NO_ANSWER = "act, and say nothing"

Move = str | Refused | None


class FakeExchange:
    def __init__(self) -> None:
        self.url = ""
        self.moves: Sequence[Move] = ()
        self.requests: list[Request] = []
        self.acted: list[tuple[str | None, Instruction]] = []
        self.connections: list[_Trader] = []
        self.headers: list[dict[str, str]] = []
        self.greetings: list[WSUpgradeResponse] = []
        self.sequence = 0
        self.events_of: Callable[[Instruction], tuple[Notice, ...]] = lambda do: ()
        self.before_answer: Callable[[Instruction], list[Message]] = lambda do: []
        self.begins_at: Callable[[Subscribe], int] = lambda do: (
            self.sequence if do.after is None else do.after
        )
        self.on_subscribe: Callable[[Subscribe], list[Message]] = lambda do: []
        self.tells_the_end_of_the_past = True
        self.refuses: Callable[[AnyRequest], Refused | None] = lambda do: None
        self.replies: dict[type, Callable[[Any], Any]] = {
            AskStatus: lambda do: Status(1, self.sequence, "tenant", "ada", ("h100",)),
            AskOrders: lambda do: OrderList(1, ()),
            AskHoldings: lambda do: HoldingList(1, ()),
            AskPromises: lambda do: PromiseList(1, ()),
            AskQuote: lambda do: Quoted(1, do.scope, 2_000_000, True),
        }
        self._answers: dict[str, Answer] = {}
        self._loop = asyncio.new_event_loop()
        self._heard = threading.Condition()

    # For the test's thread --------------------------------------------------------------------

    def asked(self, kind: type) -> list[Any]:
        return [request.do for request in self.requests if isinstance(request.do, kind)]

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until what was heard makes something true."""
        with self._heard:
            assert self._heard.wait_for(condition, 10)

    def push(self, *messages: Message) -> None:
        """Say something to everybody who is connected, in one frame."""
        self._loop.call_soon_threadsafe(self._say, messages)

    def hang_up(self) -> None:
        self._loop.call_soon_threadsafe(self._hang_up)

    def _say(self, messages: tuple[Message, ...]) -> None:
        for trader in self.connections:
            trader.say(list(messages))

    def _hang_up(self) -> None:
        for trader in self.connections:
            trader.hang_up()

    # For connections --------------------------------------------------------------------------

    def admit(self, request: WSUpgradeRequest) -> WSListener | WSUpgradeResponseWithListener:
        self.headers.append(dict(request.headers))
        if self.greetings:
            return WSUpgradeResponseWithListener(self.greetings.pop(0), None)
        trader = _Trader(self)
        self.connections.append(trader)
        return trader

    def hear(self, trader: _Trader, request: Request) -> list[Message]:
        """What one request is answered with."""
        with self._heard:
            self.requests.append(request)
            said = self._answer(trader, request)
            self._heard.notify_all()
        return said

    def _answer(self, trader: _Trader, request: Request) -> list[Message]:
        move, self.moves = (self.moves[0], self.moves[1:]) if self.moves else (None, ())
        if isinstance(move, Refused):
            return [Refused(request.id, move.code, move.message, move.retry_after_ms)]
        if move == NOT_HEARD:
            trader.hang_up()
            return []
        refused = self.refuses(request.do)
        if refused is not None:
            return [Refused(request.id, refused.code, refused.message, refused.retry_after_ms)]
        said = self._act(request)
        if move == ANSWER_LOST:
            trader.hang_up()
        return said if move is None else []

    def _act(self, request: Request) -> list[Message]:
        do = request.do
        if isinstance(do, Subscribe):
            begin, past = self.begins_at(do), self.on_subscribe(do)
            said = [Subscribed(request.id, begin), *past]
            if do.after is not None and self.tells_the_end_of_the_past:
                last = max([begin, *(each.sequence for each in past if hasattr(each, "sequence"))])
                said.append(Happened(last, last, ()))
            return said
        if type(do) in self.replies:
            return [Reply(request.id, self.replies[type(do)](do))]
        known = self._answers.get(request.key or "")
        if known is not None:
            return [Answer(request.id, known.sequence, known.at, known.events, repeated=True)]
        self.sequence += 1
        self.acted.append((request.key, do))  # type: ignore[arg-type]
        events = self.events_of(do)  # type: ignore[arg-type]
        answer = Answer(request.id, self.sequence, self.sequence, events)
        if request.key is not None:
            self._answers[request.key] = answer
        return [*self.before_answer(do), answer]  # type: ignore[arg-type]

    # Running ----------------------------------------------------------------------------------

    async def listen(self, port: int) -> asyncio.Server:
        server = await ws_create_server(self.admit, "127.0.0.1", port)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return server


class _Trader(WSListener):
    def __init__(self, exchange: FakeExchange) -> None:
        self._exchange = exchange
        self._transport: WSTransport | None = None

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.CLOSE:
            transport.send_close(frame.get_close_code())
            transport.disconnect()
            return
        requests = decode_requests(frame.get_payload_as_bytes())
        said: list[Message] = []
        for request in requests if isinstance(requests, list) else [requests]:
            if self._transport is not None:
                said.extend(self._exchange.hear(self, request))
        self.say(said)

    def say(self, messages: list[Message]) -> None:
        if messages and self._transport is not None:
            self._transport.send(WSMsgType.TEXT, encode_all(messages))

    def say_bytes(self, data: bytes, *, kind: WSMsgType = WSMsgType.TEXT, fin: bool = True) -> None:
        if self._transport is not None:
            self._transport.send(kind, data, fin=fin)

    def hang_up(self) -> None:
        if self._transport is not None:
            self._transport.disconnect(graceful=False)
            self._transport = None

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._transport = None


@contextlib.contextmanager
def fake_exchange() -> Iterator[FakeExchange]:
    """A fake exchange in a thread of its own, as long as the block lasts."""
    exchange = FakeExchange()
    loop = exchange._loop
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(exchange.listen(0), loop).result(10)

    async def stop() -> None:
        server.close()
        exchange._hang_up()
        await asyncio.sleep(0.01)

    try:
        yield exchange
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def using(
    exchange: FakeExchange,
    work: Callable[[AsyncClient], Coroutine[Any, Any, None]],
    retry_for_s: float = 10,
) -> None:
    """Do something with a client, against the exchange."""

    async def main() -> None:
        async with AsyncClient(exchange.url, TOKEN, retry_for_s=retry_for_s) as client:
            async with asyncio.timeout(20):
                await work(client)

    asyncio.run(main())


def happened(sequence: int) -> Happened:
    return Happened(sequence, sequence, (Cancelled(sequence, "ada", f"o-{sequence}"),))
