"""HTTP at somebody's expense: whatever a connection does to the service is paid for, however it
ends.

Time is measured and not reckoned: that of reading a head, of each step of the application, of a
goodbye; a refusal is paid for like an answer. Who pays is found out before a
request is read: a head that has come is searched for a living token, which is cheap and decides
nothing else. Who may ask is decided by those who read it.

    whose head has not come yet     arrivals pay for the time, and nobody yet for the bytes; it is
                                    read, unless it comes crumb by crumb
    with a living token             the token pays
    without                         the strangers pay

While its payer rests a connection waits, and is not read from. Nor is it read from while something
of what came lies here: it is taken apart a piece at a time, others come between, and what each
piece cost is known before the next. Requests that came together are served one by one. A stranger
that has been refused a few times is hung up on: it holds a place, and every further guess is to
cost it a connection.
"""

from __future__ import annotations

import re
from functools import partial
from time import monotonic_ns
from typing import Any

from uvicorn.protocols.http import h11_impl
from uvicorn.protocols.http.h11_impl import H11Protocol

from laissez.exchange.access import Principal
from laissez.exchange.allowance import TURN_NS
from laissez.service.reception import Reception
from laissez.service.strangers import Payer, Stranger
from laissez.service.timed import in_timed_steps
from laissez.service.visitor import HEAD_BYTES_MAX, HEAD_ENDS, HEAD_PIECES_MAX, Visitor

h11: Any = h11_impl.h11  # type: ignore[attr-defined]  # uvicorn's, as it is uvicorn's connection

HTTP = "http"
PIECE_BYTES = 2 * 1024
"""So much is taken apart at once: hundreds of the smallest chunks, about a millisecond."""

STRANGERS_BYTES_MAX = 96 * 1024
"""So much of a stranger's may wait: a head and a body."""

REFUSALS_MAX = 4
_TOKEN = re.compile(rb"\nauthorization:[ \t]*bearer +([!-~]+)[ \t]*\r?\n", re.IGNORECASE)


class PaidHttp(H11Protocol):
    """One HTTP connection, and who pays for it."""

    def __init__(self, visitor: Visitor, reception: Reception, **options: Any) -> None:
        super().__init__(**options)
        self._visitor = visitor
        self._reception = reception
        self._payer: Payer | None = None
        self._waits_for_payer: Payer | None = None
        self._held = bytearray()
        """What has come and was not looked at yet."""

        self._unpaid_bytes = 0
        self._head_pieces = 0
        self._is_next_due = False
        self._refusals = 0
        self._is_answering = False
        self._has_left = False

    # What is paid for -------------------------------------------------------------------------

    def spend(self, work_ns: int) -> None:
        """The loop was busy with this connection for so long, and with what it has sent. For bytes
        nobody pays before it is known who sends them: others arrive meanwhile."""
        now = monotonic_ns()
        if self._payer is None:
            self._reception.strangers.arrivals.spend(now, 0, work_ns)
        else:
            size, self._unpaid_bytes = self._unpaid_bytes, 0
            self._payer.spend(now, size, work_ns)

    def connection_made(self, transport: Any) -> None:
        begun = monotonic_ns()
        super().connection_made(transport)
        self._held += self._visitor.take_said()
        if self._held:
            self._head_pieces = 0 if HEAD_ENDS.search(self._held) else HEAD_PIECES_MAX
            self._take_next_soon()
        self.spend(monotonic_ns() - begun)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._held += data
        self._take_apart()

    def connection_lost(self, exc: Exception | None) -> None:
        begun = monotonic_ns()
        super().connection_lost(exc)
        self._leave_queue()
        self._leave_rest()
        if self._payer is None and self._unpaid_bytes:
            self._be_stranger()
        self.spend(monotonic_ns() - begun)

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._leave_rest()
        self.transport.resume_reading()  # it may have waited; from now on others decide that
        super().handle_websocket_upgrade(event)

    def _leave_rest(self) -> None:
        """No more of it is looked at here; it is paid for."""
        self._has_left = True
        self._unpaid_bytes += len(self._held)
        self._held.clear()
        self._visitor.keep(0)

    # Whose turn it is -------------------------------------------------------------------------

    def _take_apart(self) -> None:
        """Give what has come to h11, a piece at a time, until there is no more, until it has to
        wait or the turn ends; read on when there is no more."""
        ends = monotonic_ns() + TURN_NS
        while self._held and self._is_listening:
            begun = monotonic_ns()
            if begun > ends:
                self._take_next_soon()
                break
            piece = bytes(self._held[:PIECE_BYTES])
            del self._held[:PIECE_BYTES]
            self._unpaid_bytes += len(piece)
            self.conn.receive_data(piece)
            self.handle_events()
            self.spend(monotonic_ns() - begun)
        if self._has_left or self.transport.is_closing():
            return
        if isinstance(self._waits_for_payer, Stranger) and len(self._held) > STRANGERS_BYTES_MAX:
            self.transport.abort()
            return
        if self._held or self._waits_for_payer is not None:
            self.transport.pause_reading()
        elif not self.flow.read_paused:
            self.transport.resume_reading()
        self._note_kept()

    @property
    def _is_listening(self) -> bool:
        """Does it want to know what came next, and is it its turn?"""
        return not (
            self._has_left
            or self._is_next_due
            or self._waits_for_payer is not None
            or self.transport.is_closing()
        ) and self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def _note_kept(self) -> None:
        """What waits here for more, as long as it is a stranger's: not what will be looked at in a
        moment, or a tenant's would count before it was. A connection may be a stranger's again
        after it was a tenant's."""
        if not (self._has_left or self._is_next_due or isinstance(self._payer, Principal)):
            cycle: Any = self.cycle
            body = 0 if cycle is None else len(cycle.body)
            self._visitor.keep(len(self._held) + len(self.conn.trailing_data[0]) + body)

    def handle_events(self) -> None:
        """Go on with what h11 has, or wait: also uvicorn calls this."""
        if self._waits_for_payer is not None:
            return
        arrived = b""
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):  # it is theirs to say something
            arrived = self.conn.trailing_data[0]
        if self._is_answering and (arrived or self._held):
            # The next of several requests that came together is a turn of its own; no more of them
            # are read before.
            self.transport.pause_reading()
            self._take_next_soon()
            return
        if arrived:
            if self.conn.their_state is h11.IDLE:
                self._find_payer(arrived)
            payer = self._payer
            if payer is not None and payer.rests_until > monotonic_ns():
                self._wait_in_queue(payer, len(arrived) + len(self._held))
                return
        super().handle_events()

    def _take_next_soon(self) -> None:
        if not self._is_next_due:
            self._is_next_due = True
            self.loop.call_soon(self._take_next)

    def _take_next(self) -> None:
        self._is_next_due = False
        if self._waits_for_payer is None:
            self.go_on()

    def go_on(self) -> None:
        self._waits_for_payer = None
        if self._has_left or self.transport.is_closing():
            return
        begun = monotonic_ns()
        self.handle_events()
        self.spend(monotonic_ns() - begun)
        self._take_apart()

    @property
    def _has_come(self) -> bool:
        """Is something here of what comes next?"""
        return bool(self._held or self.conn.trailing_data[0])

    def on_response_complete(self) -> None:
        self._is_answering = True
        super().on_response_complete()
        self._is_answering = False
        self._note_kept()

    def _find_payer(self, arrived: bytes) -> None:
        end = HEAD_ENDS.search(arrived, 0, HEAD_BYTES_MAX)
        if end is None and len(arrived) < HEAD_BYTES_MAX:
            self._head_pieces += 1
            if self._payer is None and self._head_pieces > HEAD_PIECES_MAX:
                self._be_stranger()
            return
        self._head_pieces = 0
        found = _TOKEN.search(arrived, 0, HEAD_BYTES_MAX if end is None else end.end())
        principal = None
        if found is not None:
            principal = self._reception.exchange.authenticate(found[1].decode())
        if principal is None:
            self._be_stranger()
        else:
            self._be(principal)

    def _be(self, principal: Principal) -> None:
        self._payer = principal
        self._refusals = 0
        self._visitor.keep(0)

    def _be_stranger(self) -> None:
        self._payer = self._reception.strangers.at(self._visitor.address)

    def _wait_in_queue(self, payer: Payer, arrived_bytes: int) -> None:
        queue = self._reception.queue
        if isinstance(payer, Principal):
            is_too_much = queue.length(payer) >= payer.limits.connections
        else:
            is_too_much = arrived_bytes > STRANGERS_BYTES_MAX
        if is_too_much:
            self.transport.abort()
            return
        self._waits_for_payer = payer
        self._unset_keepalive_if_required()
        self.transport.pause_reading()
        queue.join(payer, self)

    def _leave_queue(self) -> None:
        payer, self._waits_for_payer = self._waits_for_payer, None
        if payer is not None:
            self._reception.queue.leave(payer, self)

    # The application --------------------------------------------------------------------------

    async def serve(self, app: Any, scope: Any, receive: Any, send: Any) -> None:
        """Run the application for one request; its steps are paid for."""
        if self._payer is None:
            self._be_stranger()
        if isinstance(self._payer, Stranger):
            send = partial(self._send_to_stranger, send)
        await in_timed_steps(app(scope, receive, send), self.spend)

    async def _send_to_stranger(self, send: Any, message: Any) -> None:
        if message["type"] == "http.response.start" and 400 <= message["status"] < 500:
            self._refusals += isinstance(self._payer, Stranger)
            if self._refusals >= REFUSALS_MAX:
                headers = [*message.get("headers", ()), (b"connection", b"close")]
                message = {**message, "headers": headers}
        await send(message)


class PaidApp:
    """The application as uvicorn calls it."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        http: PaidHttp = scope["state"][HTTP]
        await http.serve(self._app, scope, receive, send)
