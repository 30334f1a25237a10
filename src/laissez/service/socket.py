"""The WebSocket, the traders' door: many requests under way at once, answers matched by id.

A frame holds one request or an array of them. Answers gather while a group of commands is being
applied and leave together, in one frame, because a system call costs more than a command does.
The stream of a subscriber goes the same way.

A connection that reads more slowly than it is written to is told so and cut off as soon as
`UNREAD_BYTES_MAX` wait for it: nothing here grows without bound. It can come back and resume.
"""

from __future__ import annotations

import asyncio

import msgspec
from picows import WSCloseCode, WSFrame, WSListener, WSMsgType, WSTransport

from laissez.exchange.access import Principal
from laissez.exchange.admission import check_question
from laissez.exchange.questions import Forbidden
from laissez.model import (
    Administered,
    Answer,
    Notice,
    Quote,
    Quotes,
    Rates,
    Refused,
    Reply,
    Resync,
    ServiceCode,
    Subscribe,
    Subscribed,
    Told,
    TooSlow,
    decode_requests,
    encode,
)
from laissez.service.reception import Reception

FRAME_BYTES_MAX = 1 << 20
REQUESTS_PER_FRAME_MAX = 1_000
UNREAD_BYTES_MAX = 4 << 20
FAREWELL_S = 5


class _OnlyId(msgspec.Struct):
    id: int | None = None


class Trader(WSListener):
    """One connection."""

    def __init__(self, reception: Reception, principal: Principal, traders: set[Trader]) -> None:
        self.principal = principal
        self._reception = reception
        self._traders = traders
        self._loop = asyncio.get_running_loop()
        self._transport: WSTransport | None = None
        self._out: list[bytes] = []
        self._flush_is_due = False
        self._fragments: list[bytes] = []
        self._last_sequence = 0
        self._listens = False
        self._wants_rates = False
        self._quoted_scopes: tuple[str, ...] = ()
        self._rates_sent: dict[str, int] = {}
        self._quotes_sent: dict[str, Quote | None] = {}

    # The connection ---------------------------------------------------------------------------

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        transport.underlying_transport.set_write_buffer_limits(high=UNREAD_BYTES_MAX)
        self.principal.connections += 1
        self._traders.add(self)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._transport = None
        self._traders.discard(self)
        self.principal.connections -= 1
        self._leave()

    def pause_writing(self) -> None:
        """Too much waits to be read at the other end."""
        self._leave()
        message = "you read too slowly and are cut off; come back and resume after this sequence"
        self._out = [encode(TooSlow(self._last_sequence, message))]
        self.close(WSCloseCode.TRY_AGAIN_LATER, ServiceCode.TOO_SLOW)

    def close(self, code: WSCloseCode, reason: str) -> None:
        """Say the last words, and hang up even if nobody reads them."""
        transport = self._transport
        if transport is not None:
            self.flush()
            transport.send_close(code, reason.encode())
            underlying = transport.underlying_transport
            transport.disconnect()
            self._loop.call_later(FAREWELL_S, underlying.abort)
            self._transport = None

    # What comes in ----------------------------------------------------------------------------

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        kind = frame.msg_type
        if kind == WSMsgType.CLOSE:
            transport.send_close(frame.get_close_code(), frame.get_close_message())
            transport.disconnect()
        elif kind == WSMsgType.TEXT and frame.fin:
            self._read(frame.get_payload_as_bytes())
        elif kind in (WSMsgType.TEXT, WSMsgType.CONTINUATION):
            self._gather(frame)
        elif kind == WSMsgType.BINARY:
            self._refuse_frame("send text frames that hold JSON")

    def _gather(self, frame: WSFrame) -> None:
        """A message in several frames."""
        self._fragments.append(frame.get_payload_as_bytes())
        if sum(map(len, self._fragments)) > FRAME_BYTES_MAX:
            self.close(WSCloseCode.MESSAGE_TOO_BIG, ServiceCode.TOO_LARGE)
        elif frame.fin:
            whole, self._fragments = b"".join(self._fragments), []
            self._read(whole)

    def _read(self, data: bytes) -> None:
        try:
            requests = decode_requests(data)
        except msgspec.DecodeError as error:
            self._refuse_unreadable(data, str(error))
            return
        receive = self._reception.receive
        if type(requests) is not list:
            receive(self, requests)  # type: ignore[arg-type]
        elif len(requests) > REQUESTS_PER_FRAME_MAX:
            self._refuse_frame(f"send at most {REQUESTS_PER_FRAME_MAX} requests in a frame")
        else:
            for request in requests:
                receive(self, request)
        if self._out:
            self.flush()

    def _refuse_unreadable(self, data: bytes, why: str) -> None:
        """Refuse a whole frame, by the ids in it as far as they can be made out."""
        try:
            found = msgspec.json.decode(data, type=_OnlyId | list[_OnlyId])
        except msgspec.DecodeError:
            found = _OnlyId()
        for each in found if isinstance(found, list) else [found]:
            self.refuse(Refused(each.id, ServiceCode.BAD_REQUEST, f"{why}; nothing was done"))
        self.flush()

    def _refuse_frame(self, message: str) -> None:
        self.refuse(Refused(None, ServiceCode.BAD_REQUEST, message))
        self.flush()

    # What goes out ----------------------------------------------------------------------------

    def answer(
        self,
        request_id: int,
        sequence: int,
        at: int,
        events: tuple[Notice, ...],
        repeated: bool,
    ) -> None:
        self._out.append(encode(Answer(request_id, sequence, at, events, repeated)))
        if repeated:
            self._flush_soon()

    def refuse(self, refused: Refused) -> None:
        self._out.append(encode(refused))

    def reply(self, request_id: int, told: Told | Administered) -> None:
        self._out.append(encode(Reply(request_id, told)))

    def push(self, sequence: int, message: bytes) -> None:
        """Something happened that this subscriber is to know."""
        self._last_sequence = sequence
        self._out.append(message)
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send everything that has gathered, in one frame."""
        self._flush_is_due = False
        out, self._out = self._out, []
        if self._transport is None or not out:
            return
        frame = out[0] if len(out) == 1 else b"[" + b",".join(out) + b"]"
        self._transport.send(WSMsgType.TEXT, frame)

    # The stream -------------------------------------------------------------------------------

    def subscribe(self, request_id: int, subscription: Subscribe) -> None:
        refused = check_question(request_id, subscription)
        try:
            for scope in subscription.quotes if refused is None else ():
                self._reception.exchange.desk.quote(self.principal, scope)
        except Forbidden as forbidden:
            refused = Refused(request_id, forbidden.code, forbidden.message)
        if refused is not None:
            self.refuse(refused)
            return
        self._leave()
        self._resume(request_id, subscription.after)
        self._listens = True
        self._reception.exchange.execution.feeds.listen(self.principal.tenant, self)
        self._wants_rates = subscription.rates and self.principal.tenant is not None
        self._quoted_scopes = subscription.quotes
        self._rates_sent, self._quotes_sent = {}, {}
        self.sample()

    def _resume(self, request_id: int, after: int | None) -> None:
        execution, tenant = self._reception.exchange.execution, self.principal.tenant
        now = execution.sequence
        if after is None:
            self._out.append(encode(Subscribed(request_id, now)))
            return
        feeds = execution.feeds
        missed = feeds.all_after(after) if tenant is None else feeds.of(tenant).after(after)
        if missed is None or after > now:
            self._out.append(encode(Subscribed(request_id, now)))
            message = f"what came after {after} is not kept here; read your state anew"
            self._out.append(encode(Resync(now, message)))
            return
        self._out.append(encode(Subscribed(request_id, after)))
        self._out.extend(missed)

    def _leave(self) -> None:
        if self._listens:
            self._listens = False
            self._reception.exchange.execution.feeds.leave(self.principal.tenant, self)

    def sample(self) -> None:
        """Once a second: the rates and quotes that have changed since they were last sent."""
        desk = self._reception.exchange.desk
        if self._wants_rates and self.principal.tenant is not None:
            rates = desk.rates(self.principal.tenant)
            changed = {r: rate for r, rate in rates.items() if self._rates_sent.get(r) != rate}
            self._rates_sent = rates
            if changed:
                self._out.append(encode(Rates(desk.instant(), changed)))
        if self._quoted_scopes:
            quotes = {scope: self._quote(scope) for scope in self._quoted_scopes}
            if quotes != self._quotes_sent:
                fresh = _changed(quotes, self._quotes_sent)
                self._quotes_sent = quotes
                self._out.append(encode(Quotes(desk.instant(), fresh)))
        if self._out:
            self._flush_soon()

    def _quote(self, scope: str) -> Quote | None:
        try:
            quoted = self._reception.exchange.desk.quote(self.principal, scope)
        except Forbidden:  # no longer visible: what it held there is gone
            return None
        return None if quoted.rate is None else Quote(quoted.rate, quoted.idle)


def _changed(new: dict[str, Quote | None], old: dict[str, Quote | None]) -> dict[str, Quote | None]:
    return {scope: quote for scope, quote in new.items() if old.get(scope, ...) != quote}
