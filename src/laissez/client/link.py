"""The line to the exchange that does not break: what is asked is asked until it is answered.

Every request stays in `_calls`, encoded, until its answer comes. When a connection is lost, a new
one is opened and everything unanswered is sent again, in the order in which it was asked and
byte for byte, key included: the exchange knows a key that it has seen and never acts twice. A
request that is refused because the exchange is busy or stopping is sent again after a while, too.

All of this ends `retry_for_s` after a request was made: then it fails with what stood in the way.
Requests made in one turn of the event loop leave in one frame.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Callable
from itertools import count

import msgspec

from laissez.client.connection import (
    FRAME_BYTES_MAX,
    Connection,
    Hopeless,
    TurnedAway,
    Unreachable,
    dial,
)
from laissez.client.errors import ConnectionFailed, LaissezError, Refusal, refusal
from laissez.client.login import Login
from laissez.model import (
    Administration,
    Answer,
    Happened,
    Instruction,
    Question,
    Quotes,
    Rates,
    Refused,
    Reply,
    Request,
    Resync,
    Said,
    ServiceCode,
    Subscribe,
    Subscribed,
    TooSlow,
    decode_requests,
    encode,
)

AnyRequest = Instruction | Question | Administration | Subscribe
AnyResponse = Answer | Reply | Subscribed | Refused
Streamed = Happened | Rates | Quotes | Resync

RETRIED = frozenset(
    (
        ServiceCode.BUSY,
        ServiceCode.TOO_MANY_REQUESTS,
        ServiceCode.TOO_MANY_CONNECTIONS,
        ServiceCode.STOPPING,
        ServiceCode.NOT_DURABLE,
    )
)
# Refusals that say: not so fast. Whoever sends many changes paces them by these.
PACED = frozenset((ServiceCode.BUSY, ServiceCode.TOO_MANY_REQUESTS))
FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0
SILENCE = "it does not answer"


class Call:
    """A request that waits for its answer."""

    __slots__ = (
        "answer",
        "deadline",
        "frame",
        "id",
        "is_paced",
        "key",
        "refused",
        "retry",
        "times_refused",
    )

    def __init__(
        self, number: int, frame: bytes, key: str | None, answer: asyncio.Future[AnyResponse]
    ) -> None:
        self.id = number
        self.frame = frame
        self.key = key
        self.answer = answer
        self.is_paced = False
        self.deadline = 0.0
        self.refused: Refused | None = None
        self.times_refused = 0
        self.retry: asyncio.TimerHandle | None = None


class Link:
    def __init__(self, login: Login, *, retry_for_s: float, ca_file: str | None) -> None:
        self._login = login
        self.retry_for_s = retry_for_s
        self._tls: ssl.SSLContext | None = None
        if login.url.startswith("https:"):
            self._tls = ssl.create_default_context(cafile=ca_file)
        self.on_streamed: Callable[[Streamed], None] = lambda said: None
        self.on_subscribed: Callable[[Subscribed], None] = lambda said: None
        self.on_lost: Callable[[], None] = lambda: None
        self._ids = count(1)
        self._calls: dict[int, Call] = {}
        self._unsent: list[Call] = []
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._failures = 0
        self._trouble: str | Refused = SILENCE
        self._give_up_timer: asyncio.TimerHandle | None = None
        self._closed = False

    async def ask(
        self, do: AnyRequest, key: str | None = None, *, is_paced: bool = False
    ) -> AnyResponse:
        """Ask until it is answered, by whatever it is; ConnectionFailed if it never is.

        Who paces its requests itself is told of being too fast at once.
        """
        if self._closed:
            raise ConnectionFailed("this client is closed; make another", key)
        loop = asyncio.get_running_loop()
        number = next(self._ids)
        call = Call(number, _encoded(Request(number, do, key)), key, loop.create_future())
        call.is_paced = is_paced
        call.deadline = loop.time() + self.retry_for_s
        self._calls[number] = call
        if self._give_up_timer is None:
            self._give_up_timer = loop.call_at(call.deadline, self._give_up)
        self._send(call)
        try:
            return await call.answer
        finally:
            self._forget(call)

    async def close(self) -> None:
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        message = "this client was closed before the answer came"
        self._fail_all(lambda call: ConnectionFailed(message, call.key))
        if self._connection is not None:
            await self._connection.close()

    # Sending ----------------------------------------------------------------------------------

    def _send(self, call: Call) -> None:
        call.retry = None
        if self._connection is None:
            self._connect_soon()
            return
        self._unsent.append(call)
        if len(self._unsent) == 1:
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._connection is not None:
            self._connection.send(call.frame for call in unsent if not call.answer.done())

    def _forget(self, call: Call) -> None:
        self._calls.pop(call.id, None)
        if call.retry is not None:
            call.retry.cancel()
        if not self._calls and self._give_up_timer is not None:
            self._give_up_timer.cancel()
            self._give_up_timer = None

    # Receiving --------------------------------------------------------------------------------

    def _said(self, said: Said) -> None:
        self._failures = 0
        if isinstance(said, Happened | Rates | Quotes | Resync):
            self.on_streamed(said)
            return
        if isinstance(said, TooSlow):
            return  # the exchange hangs up, and what was missed is asked for anew
        if said.id is None:
            assert isinstance(said, Refused)
            self._trouble = said
            return
        call = self._calls.get(said.id)
        if call is None or call.answer.done():
            return
        if isinstance(said, Subscribed):
            # Told at once: what happened since may be in the same frame.
            self.on_subscribed(said)
        if not (isinstance(said, Refused) and self._will_retry(call, said)):
            call.answer.set_result(said)

    def _will_retry(self, call: Call, refused: Refused) -> bool:
        """Send a call again later, if its refusal is for now only and there is time."""
        if refused.code not in RETRIED or (call.is_paced and refused.code in PACED):
            return False
        loop = asyncio.get_running_loop()
        call.refused = refused
        after_s = max((refused.retry_after_ms or 0) / 1_000, pause_s(call.times_refused))
        call.times_refused += 1
        if loop.time() + after_s >= call.deadline:
            return False
        avoided = self._connection if refused.code == ServiceCode.STOPPING else None
        call.retry = loop.call_later(after_s, self._send_again, call, avoided)
        return True

    def _send_again(self, call: Call, avoided: Connection | None) -> None:
        """Send a call once more; whoever was stopping is not asked, but the one that follows."""
        if avoided is not None and avoided is self._connection:
            avoided.hang_up("the exchange is stopping")
        self._send(call)

    # Connecting -------------------------------------------------------------------------------

    def _connect_soon(self) -> None:
        if self._connecting is None and not self._closed:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        """Open a connection, for as long as somebody waits for an answer."""
        try:
            while self._calls and not await self._try_to_connect():
                pass
        finally:
            self._connecting = None

    async def _try_to_connect(self) -> bool:
        """Try once, after a pause if the last time was in vain; True if this is the end of it."""
        if self._failures:
            await asyncio.sleep(pause_s(self._failures))
        self._failures += 1
        try:
            connection = await dial(self._login, self._tls, self._said, self._lost)
        except Unreachable as error:
            self._trouble = str(error)
            return False
        except Hopeless as error:
            message = str(error)
            self._fail_all(lambda call: ConnectionFailed(message, call.key))
            return True
        except TurnedAway as error:
            self._trouble = refused = error.refused
            if refused.code in RETRIED:
                return False
            self._fail_all(lambda call: refusal(refused))
            return True
        self._connection, self._trouble = connection, SILENCE
        for call in self._calls.values():
            if call.retry is None:
                self._send(call)
        return True

    def _lost(self, connection: Connection, why: str) -> None:
        self._trouble = why
        if connection is not self._connection:
            return
        self._connection = None
        # Everybody who was connected lost the exchange at the same moment, and pauses differently.
        self._failures = max(self._failures, 1)
        self._unsent.clear()
        if not self._closed:
            self.on_lost()
            if self._calls:
                self._connect_soon()

    # Giving up --------------------------------------------------------------------------------

    def _give_up(self) -> None:
        """The time of the oldest calls is over; all have the same, so the oldest end first."""
        self._give_up_timer = None
        loop = asyncio.get_running_loop()
        for call in list(self._calls.values()):
            if call.deadline > loop.time():
                self._give_up_timer = loop.call_at(call.deadline, self._give_up)
                return
            if call.answer.done():
                continue
            if call.refused is not None:
                call.answer.set_result(call.refused)
            else:
                call.answer.set_exception(self._failure(call))

    def _failure(self, call: Call) -> LaissezError:
        if isinstance(self._trouble, Refused):
            return refusal(self._trouble)
        what = f"no answer from {self._login.url} in {self.retry_for_s:g} s ({self._trouble})"
        if call.key is None:
            return ConnectionFailed(f"{what}; check the address, or try again later")
        return ConnectionFailed(
            f"{what}; whether the change was made is not known: make it again with the same key "
            f"{call.key!r}, and it is made once",
            call.key,
        )

    def _fail_all(self, failure: Callable[[Call], LaissezError]) -> None:
        for call in self._calls.values():
            if not call.answer.done():
                call.answer.set_exception(failure(call))


def _encoded(request: Request) -> bytes:
    """A request as it is sent; read back first, for one bad request spoils its whole frame."""
    frame = encode(request)
    try:
        decode_requests(frame)
    except msgspec.ValidationError as error:
        raise TypeError(f"{type(request.do).__name__} can't be sent: {error}") from None
    if len(frame) > FRAME_BYTES_MAX:
        raise Refusal(
            ServiceCode.TOO_LARGE, f"a request has at most {FRAME_BYTES_MAX} bytes; shorten it"
        )
    return frame


def pause_s(failures: int) -> float:
    """Longer each time, and never the same for two clients that lost one exchange together."""
    longest: float = min(FIRST_PAUSE_S * 2 ** min(failures, 10), LONGEST_PAUSE_S)
    return random.uniform(longest / 2, longest)
