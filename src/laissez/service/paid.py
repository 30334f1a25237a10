"""HTTP at somebody's expense: whatever a connection does to the service is paid for, however it
ends.

Time is measured and not reckoned: that of reading a head, of each step of the application, of a
handshake, of a goodbye; a refusal is paid for like an answer. Who pays is found out before a
request is read: a head that has come is searched for a living token, which is cheap and decides
nothing else. Who may ask is decided by those who read it.

    whose head has not come yet     arrivals pay; it is read, unless it comes crumb by crumb
    with a living token             the token pays
    without                         the strangers pay

While its payer rests a connection waits, and is not read from. Requests that came together are
served one by one, and others come between. A stranger that has been refused a few times is
hung up on: it holds a place, and every further guess is to cost it a connection.
"""

from __future__ import annotations

import re
from functools import partial
from time import monotonic_ns
from typing import Any

from uvicorn.protocols.http import h11_impl
from uvicorn.protocols.http.h11_impl import H11Protocol

from laissez.exchange.access import Principal
from laissez.service.entrance import Visitor
from laissez.service.reception import Reception
from laissez.service.strangers import Payer, Stranger
from laissez.service.timed import in_timed_steps

h11: Any = h11_impl.h11  # type: ignore[attr-defined]  # uvicorn's, as it is uvicorn's connection

HTTP = "http"
HEAD_SEARCHED_MAX = 16 * 1024
HEAD_PIECES_MAX = 16
"""An honest head comes in fewer; with more it is read when strangers are."""

STRANGERS_BYTES_MAX = 96 * 1024
"""So much of a stranger's may wait: a head and a body."""

REFUSALS_MAX = 4
TLS_HANDSHAKE_NS = 500_000
"""What it takes, about; it happens where nobody can measure it."""

_HEAD_ENDS = re.compile(rb"\n\r?\n")
_TOKEN = re.compile(rb"\nauthorization:[ \t]*bearer +([!-~]+)[ \t]*\r?\n", re.IGNORECASE)


class PaidHttp(H11Protocol):
    """One HTTP connection, and who pays for it."""

    def __init__(self, visitor: Visitor, reception: Reception, **options: Any) -> None:
        super().__init__(**options)
        self._visitor = visitor
        self._reception = reception
        self._payer: Payer | None = None
        self._waits_for_payer: Payer | None = None
        self._unpaid_bytes = 0
        self._head_pieces = 0
        self._refusals = 0
        self._is_answering = False
        self._has_left = False

    # What is paid for -------------------------------------------------------------------------

    def spend(self, work_ns: int) -> None:
        """The loop was busy with this connection for so long, and with what it has sent."""
        payer = self._payer or self._reception.strangers.arrivals
        size, self._unpaid_bytes = self._unpaid_bytes, 0
        payer.spend(monotonic_ns(), size, work_ns)

    def connection_made(self, transport: Any) -> None:
        begun = monotonic_ns()
        super().connection_made(transport)
        handshake_ns = TLS_HANDSHAKE_NS if self.scheme == "https" else 0
        self.spend(monotonic_ns() - begun + handshake_ns)

    def data_received(self, data: bytes) -> None:
        begun = monotonic_ns()
        self._unpaid_bytes += len(data)
        super().data_received(data)
        self.spend(monotonic_ns() - begun)

    def connection_lost(self, exc: Exception | None) -> None:
        begun = monotonic_ns()
        super().connection_lost(exc)
        self._leave_queue()
        self._has_left = True
        self.spend(monotonic_ns() - begun)

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._has_left = True
        self.transport.resume_reading()  # it may have waited; from now on others decide that
        super().handle_websocket_upgrade(event)

    # Whose turn it is -------------------------------------------------------------------------

    def handle_events(self) -> None:
        """Go on with what has come, or wait: also uvicorn calls this."""
        if self._waits_for_payer is not None:
            self.transport.pause_reading()
            return
        arrived = b""
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):  # it is theirs to say something
            arrived = self.conn.trailing_data[0]
        if arrived and self._is_answering:
            # The next of several requests that came together is a turn of its own; no more of them
            # are read before.
            self.transport.pause_reading()
            self.loop.call_soon(self._take_next)
            return
        if arrived:
            if self.conn.their_state is h11.IDLE:
                self._find_payer(arrived)
            payer = self._payer
            if payer is not None and payer.rests_until > monotonic_ns():
                self._wait_in_queue(payer, len(arrived))
                return
        super().handle_events()

    def _take_next(self) -> None:
        if self._waits_for_payer is None:
            self.go_on()

    def go_on(self) -> None:
        self._waits_for_payer = None
        if self._has_left or self.transport.is_closing():
            return
        begun = monotonic_ns()
        self.handle_events()
        if self._may_read:
            self.transport.resume_reading()
        self.spend(monotonic_ns() - begun)

    @property
    def _may_read(self) -> bool:
        """Was all looked at that has come, and is the connection still HTTP's?"""
        return not (self._has_left or self._waits_for_payer or self.flow.read_paused)

    def on_response_complete(self) -> None:
        self._is_answering = True
        super().on_response_complete()
        self._is_answering = False

    def _find_payer(self, arrived: bytes) -> None:
        end = _HEAD_ENDS.search(arrived, 0, HEAD_SEARCHED_MAX)
        if end is None and len(arrived) < HEAD_SEARCHED_MAX:
            self._head_pieces += 1
            if self._payer is None and self._head_pieces > HEAD_PIECES_MAX:
                self._be_stranger()
            return
        self._head_pieces = 0
        found = _TOKEN.search(arrived, 0, HEAD_SEARCHED_MAX if end is None else end.end())
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
