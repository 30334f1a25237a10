"""The WebSocket, the traders' door: many requests under way at once, answers matched by id.

A frame holds one request or an array of them. Answers gather while a group of commands is being
applied and leave together, in one frame, because a system call costs more than a command does.
The stream of a subscriber goes the same way, when it is its turn (`outflow`).

Nobody waits long for anybody else. What comes in is paid for with the allowance of whoever sent
it, by its bytes and by the time that it took; whoever has overdrawn rests, which means that nothing
more is read from it until that is paid back. Many requests in a frame are served in turns of a few
milliseconds, and what a subscriber has missed is sent in pieces: others come between.

A connection that reads more slowly than it is written to is not read from while much waits for it,
and sent nothing more of what it has missed. What happens meanwhile can't wait: it is told so and
cut off when it is written to while more than `UNREAD_BYTES_MAX` wait for it, so that what waits is
never more than that and one frame. A frame may be longer than that by itself, if it is one long
answer. Whoever was cut off can come back and resume.

A connection is                                             until

    served       read, and what comes is done at once       one of these
    resting      not read: it has overdrawn, or a turn has  `_take_turn` has done what was left,
                 left messages (`_messages`) or requests    and all is paid for
                 of one (`_pending`)
    full         not read: `_has_too_much_unread`           half was read (`resume_writing`)
    catching up  served, and sent a piece with every turn   nothing is left: it listens

A turn ends for every kind of frame: what can't be interrupted, to take frames apart, is bounded by
how much is read at once.

Bytes that had come in when it could not be served (`_arrived`) lie in the buffer of picows; reading
is paused as long as they do, because what came next would be written over them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import monotonic_ns

from picows import WSCloseCode, WSFrame, WSListener, WSMsgType, WSTransport

from laissez.exchange.access import BYTES_UNSETTLED, WORK_UNSETTLED_NS, Principal
from laissez.exchange.admission import check_question
from laissez.exchange.allowance import NS_PER_S, TURN_NS
from laissez.model import (
    Administered,
    Answer,
    Notice,
    Refused,
    Reply,
    Request,
    ServiceCode,
    Subscribe,
    Told,
    TooSlow,
    decode_requests,
    encode,
)
from laissez.service.following import Following
from laissez.service.reception import Reception
from laissez.service.unfinished import MESSAGE_S, Unfinished
from laissez.service.unreadable import UNREADABLE, refuse_unreadable

FRAME_BYTES_MAX = 1 << 20
REQUESTS_PER_FRAME_MAX = 1_000
UNREAD_BYTES_MAX = 4 << 20
MUCH_AT_ONCE = 4 * 1024
"""After more than that picows may have made room for more than is to be read at once."""

NOTICED_BYTES = 64 * 1024
FAREWELL_S = 5
# What picows copies at once when it sends. It queues anything longer behind a header that it does
# not copy, and writes over that header with the next frame if the socket is full.
COPIED_BYTES_MAX = 8_192
HEADER_ROOM = 14
TEXT = WSMsgType.TEXT
NO_TEXT = "send text frames that hold JSON"


def _read_nothing(*_: object) -> None:
    """Nobody is connected."""


class TraderSocket(WSListener):
    """One connection."""

    # A dict of so many fields is slower, and not next to the object in memory.
    __slots__ = (
        "_arrived",
        "_clock",
        "_flush_is_due",
        "_following",
        "_fragments",
        "_has_to_wait",
        "_has_too_much_unread",
        "_has_unread",
        "_is_paused",
        "_loop",
        "_messages",
        "_out",
        "_pending",
        "_pinged",
        "_receive",
        "_reception",
        "_traders",
        "_transport",
        "_turn",
        "_turn_is_due",
        "_underlying",
        "_unfinished",
        "principal",
        "read",
        "read_less",
        "unread",
    )

    def __init__(
        self, reception: Reception, principal: Principal, traders: set[TraderSocket]
    ) -> None:
        self.principal = principal
        self._reception = reception
        self._receive = reception.receive
        self._clock = reception.exchange.clock
        self._turn = reception.turn
        self._traders = traders
        self._loop = asyncio.get_running_loop()
        self._transport: WSTransport | None = None
        self._underlying: asyncio.Transport | None = None
        self.unread = 0
        self._out: list[bytes] = []
        self._flush_is_due = False
        self._has_too_much_unread = False
        self._turn_is_due = False
        self._is_paused = False
        self._pending: deque[Request] = deque()
        self._messages: deque[bytes | None] = deque()
        """Whole ones that came after the end of a turn; None for one that was not text."""

        self._arrived = 0
        self._has_to_wait = False
        self._has_unread = False
        self._pinged: bytes | None = None
        self.read: Callable[..., None] = _read_nothing
        self.read_less: Callable[[], None] = _read_nothing
        self._following: Following | None = None
        self._fragments: bytearray | None = None
        self._unfinished = Unfinished()

    @property
    def is_connected(self) -> bool:
        return self._transport is not None

    # The connection ---------------------------------------------------------------------------

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        self._underlying = transport.underlying_transport
        noticed = min(UNREAD_BYTES_MAX // 4, NOTICED_BYTES)
        self._underlying.set_write_buffer_limits(noticed, noticed // 2)
        self._traders.add(self)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._transport = self._underlying = None
        self._traders.discard(self)
        self.principal.disconnect()
        self._reception.unread.forget(self)
        self._pending.clear()
        self._messages.clear()
        self._arrived = 0
        self._follow_nothing()
        self._following = None
        # Others may hold this for a while; what it held itself is not to be left behind.
        self.read = self.read_less = _read_nothing
        self._fragments = self._pinged = None
        self._out.clear()

    def pause_writing(self) -> None:
        """Something waits to be read at the other end: from now on look how much that is."""
        self._has_unread = True

    def resume_writing(self) -> None:
        self._has_unread = self._has_too_much_unread = False
        self._end_turn()
        self._reception.unread.note(self)
        self.take_turn_soon()

    def _look_at_unread(self) -> None:
        """Much of it, and what would add to it waits."""
        if not self._has_too_much_unread and self.unread_bytes() > UNREAD_BYTES_MAX // 4:
            self._has_too_much_unread = self._has_to_wait = True
            self._pause_reading()
        self._reception.unread.note(self)

    def unread_bytes(self) -> int:
        """What waits: also of a connection that is closing, until it is gone."""
        return 0 if self._underlying is None else self._underlying.get_write_buffer_size()

    def abort(self) -> None:
        underlying, self._underlying = self._underlying, None
        if underlying is not None:
            underlying.abort()

    def _follow_nothing(self) -> None:
        if self._following is not None:
            self._following.leave()

    def _cut_off(self) -> None:
        message = "you read too slowly and are cut off; come back and resume after this sequence"
        sent = 0 if self._following is None else self._following.sent_sequence
        self._out = [encode(TooSlow(sent, message))]
        self.close(WSCloseCode.TRY_AGAIN_LATER, ServiceCode.TOO_SLOW)

    def close(self, code: WSCloseCode, reason: str) -> None:
        """Say the last words, and hang up even if nobody reads them."""
        transport = self._transport
        if transport is not None:
            self._follow_nothing()
            self._has_too_much_unread = self._has_unread = False
            self.flush()
            self._transport = None
            transport.send_close(code, reason.encode())
            transport.disconnect()
            self._reception.unread.note(self)
            self._loop.call_later(FAREWELL_S, self.abort)

    def drop(self) -> None:
        """Hang up without a word."""
        if self._transport is not None:
            self._transport = None
            self._follow_nothing()
            self._out.clear()
            self.abort()

    # Whose turn it is -------------------------------------------------------------------------

    def arrive(self, size: int) -> None:
        """Bytes have come in: they are read now, or when this caller has rested."""
        principal = self.principal
        begun = monotonic_ns()
        if (
            self._has_to_wait
            or begun < principal.token_allowance.rests_until
            or (not principal.is_alone and begun < principal.tenant_allowance.rests_until)
        ):
            self._arrived += size
            principal.spend(begun, size, 0)
            self._pause_reading()
            self.take_turn_soon()
            self.read_less()
            return
        turn = self._turn
        turn.ends = begun + TURN_NS
        turn.at = self._clock.at(begun)
        unfinished = self._unfinished
        unfinished.ends_with_frame = False
        self.read(size)
        if not unfinished.ends_with_frame or unfinished.since or self._fragments is not None:
            unfinished.note(begun, has_fragments=self._fragments is not None)
        if self._pinged is not None:
            self._pong()
        ended = monotonic_ns()
        principal.bytes_spent += size
        principal.work_spent_ns += ended - begun
        has_to_rest = (
            principal.work_spent_ns > WORK_UNSETTLED_NS or principal.bytes_spent > BYTES_UNSETTLED
        ) and principal.settle(ended)
        if has_to_rest or self._has_to_wait:
            self._end_turn()
            self._pause_reading()
            self.take_turn_soon()
        if size > MUCH_AT_ONCE or not unfinished.ends_with_frame:
            self.read_less()

    def _end_turn(self) -> None:
        """Does what comes next have to wait for what came before?"""
        has_more = bool(self._pending or self._messages)
        self._has_to_wait = has_more or self._has_too_much_unread

    def take_turn_soon(self) -> None:
        if not self._turn_is_due and self._transport is not None:
            self._turn_is_due = True
            wait_ns = self.principal.rests_until - monotonic_ns()
            if wait_ns <= 0:
                self._loop.call_soon(self._take_turn)
            else:
                # Later than that by a turn, so that others of this tenant are not always later.
                self._loop.call_later((wait_ns + TURN_NS) / NS_PER_S, self._take_turn)

    def _take_turn(self) -> None:
        """Go on with what waits: requests, then bytes, then what this subscriber has missed."""
        self._turn_is_due = False
        if self._transport is None or self._has_too_much_unread:
            return
        begun = monotonic_ns()
        if begun < self.principal.rests_until:
            self.take_turn_soon()
            return
        turn = self._turn
        turn.ends = begun + TURN_NS
        turn.at = self._clock.at(begun)
        self._has_to_wait = False
        if self._pending or self._messages:
            self._serve_pending()
            self._read_messages()
        elif self._arrived:
            size, self._arrived = self._arrived, 0
            self._unfinished.ends_with_frame = False
            self.read(size)
            self._unfinished.note(begun, has_fragments=self._fragments is not None)
            self._pong()
        following = self._following
        catches_up = following is not None and following.catches_up
        if following is not None and catches_up and not self._pending:
            if not self._has_too_much_unread:
                following.send_piece()
            catches_up = following.catches_up
        self.flush()
        self._end_turn()
        ended = monotonic_ns()
        self.principal.spend(ended, 0, ended - begun)
        is_idle = not (self._pending or self._messages or self._arrived)
        if is_idle and ended >= self.principal.rests_until:
            self._resume_reading()
        if not is_idle or catches_up or self._is_paused:
            self.take_turn_soon()

    def _pause_reading(self) -> None:
        if not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.underlying_transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._is_paused and self._transport is not None and not self._has_too_much_unread:
            self._is_paused = False
            self._transport.underlying_transport.resume_reading()

    # What comes in ----------------------------------------------------------------------------

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if self._transport is None:  # hung up, but more had arrived
            return
        kind = frame.msg_type
        self._unfinished.ends_with_frame = not frame.tail_size
        if frame.rsv1 or frame.rsv2 or frame.rsv3:
            self.close(WSCloseCode.PROTOCOL_ERROR, "no extension was agreed on")
        elif kind == TEXT and self._fragments is None:
            if frame.fin:
                self._read(frame.get_payload_as_bytes())
            else:
                self._fragments = bytearray()
                self._gather(frame)
        elif kind == WSMsgType.CLOSE:
            self.close(WSCloseCode.OK, "")
        elif kind == WSMsgType.CONTINUATION:
            self._gather(frame)
        elif kind == WSMsgType.PING:
            self._pinged = frame.get_payload_as_bytes()
        elif kind not in (TEXT, WSMsgType.BINARY):
            return
        elif self._fragments is not None:
            self.close(WSCloseCode.PROTOCOL_ERROR, "a message began within another")
        else:
            self._take_binary(frame)

    def hang_up_if_overdue(self) -> None:
        if self._unfinished.is_overdue(monotonic_ns(), is_paused=self._is_paused):
            self.close(WSCloseCode.PROTOCOL_ERROR, f"send a message within {MESSAGE_S} s")

    def _pong(self) -> None:
        """Answer the last of the pings that came together; nobody needs more than one pong, and
        who does not read pongs needs none."""
        payload, self._pinged = self._pinged, None
        if payload is not None and self._transport is not None and not self._has_too_much_unread:
            self._transport.send_pong(payload)
            if self._has_unread:
                self._look_at_unread()

    def _gather(self, frame: WSFrame) -> None:
        """A message in several frames."""
        if self._fragments is None:
            self.close(WSCloseCode.PROTOCOL_ERROR, "a message went on that had not begun")
            return
        self._fragments += frame.get_payload_as_bytes()
        if len(self._fragments) > FRAME_BYTES_MAX:
            self.close(WSCloseCode.MESSAGE_TOO_BIG, ServiceCode.TOO_LARGE)
        elif frame.fin:
            whole, self._fragments = bytes(self._fragments), None
            self._read(whole)

    def _read(self, message: bytes | None) -> None:
        """Do what a message says, or put it aside if the turn is over: whatever it says, also that
        it can't be read takes time."""
        if self._has_to_wait:
            self._messages.append(message)
            return
        if message is None:
            self._refuse_message(NO_TEXT)
        else:
            self._do(message)
        if self._out:
            self.flush()
        if monotonic_ns() > self._turn.ends:
            self._has_to_wait = True

    def _read_messages(self) -> None:
        """Go on with those that were put aside, until the turn ends."""
        while self._messages and not self._has_to_wait and self._transport is not None:
            self._read(self._messages.popleft())

    def _do(self, message: bytes) -> None:
        try:
            requests = decode_requests(message)
        except UNREADABLE as error:
            for refused in refuse_unreadable(
                message, str(error), requests_max=REQUESTS_PER_FRAME_MAX
            ):
                self.refuse(refused)
            return
        if not isinstance(requests, list):
            self._receive(self, requests, self._turn.at)
        elif len(requests) > REQUESTS_PER_FRAME_MAX:
            self._refuse_message(f"send at most {REQUESTS_PER_FRAME_MAX} requests in a frame")
        else:
            self._pending.extend(requests)
            self._serve_pending()

    def _serve_pending(self) -> None:
        """Serve what waits in its order, until the turn ends."""
        receive, pending = self._receive, self._pending
        at, turn_ends = self._turn.at, self._turn.ends
        while pending and not self._has_too_much_unread:
            receive(self, pending.popleft(), at)
            if monotonic_ns() > turn_ends:
                self._has_to_wait = True
                return

    def _take_binary(self, frame: WSFrame) -> None:
        if frame.fin:
            self._read(None)
        else:
            self.close(WSCloseCode.UNSUPPORTED_DATA, NO_TEXT)

    def _refuse_message(self, why: str) -> None:
        self.refuse(Refused(None, ServiceCode.BAD_REQUEST, why))

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
        message = encode(Reply(request_id, told))
        self._out.append(message)
        if len(message) > COPIED_BYTES_MAX:  # it is long: see whether it is read
            self.flush()
        if monotonic_ns() > self._turn.ends:
            self._has_to_wait = True

    def _flush_soon(self) -> None:
        if not self._flush_is_due:
            self._flush_is_due = True
            self._reception.outflow.add(self)

    def flush_pushed(self) -> None:
        """A stream to a hundred connections is work, too."""
        begun = monotonic_ns()
        self.flush()
        ended = monotonic_ns()
        self.principal.spend(ended, 0, ended - begun)

    def flush(self) -> None:
        """Send everything that has gathered, in one frame."""
        self._flush_is_due = False
        out, self._out = self._out, []
        transport = self._transport
        if transport is None or not out:
            return
        if self._has_too_much_unread and self.unread_bytes() > UNREAD_BYTES_MAX:
            self._cut_off()
            return
        frame = out[0] if len(out) == 1 else b"[" + b",".join(out) + b"]"
        if len(frame) <= COPIED_BYTES_MAX:
            transport.send(TEXT, frame)
        else:
            buffer = bytearray(HEADER_ROOM)
            buffer += frame
            transport.send_reuse_external_bytearray(WSMsgType.TEXT, buffer, HEADER_ROOM)
        if self._following is not None:
            self._following.sent_sequence = self._following.last_sequence
        if self._has_unread:
            self._look_at_unread()

    # The stream -------------------------------------------------------------------------------

    def subscribe(self, request_id: int, subscription: Subscribe) -> None:
        following = Following(self._reception, self.principal, self)
        refused = check_question(request_id, subscription)
        refused = refused or following.refuses(request_id, subscription)
        if refused is not None:
            self.refuse(refused)
            return
        if self._following is not None:
            self._following.leave()
            following.sent_sequence = self._following.sent_sequence
        self._following = following
        following.begin(request_id, subscription)

    def say(self, message: bytes) -> None:
        self._out.append(message)

    def say_soon(self, message: bytes) -> None:
        self._out.append(message)
        self._flush_soon()

    def sample(self) -> None:
        """Once a second."""
        if self._following is not None:
            self._following.sample()
