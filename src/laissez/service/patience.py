"""HTTP with an end to everything: to a head, to a body, to an answer that nobody takes.

uvicorn speaks HTTP and bounds the size of heads; here they are bounded in time, too, each from its
first byte to its last, so that dripping helps nobody. Time during which we don't read, because its
payer rests or others come between, does not count. Between two requests a connection may rest for a
while. A request that breaks off is refused or hung up on: it is no error of ours, and the log says
nothing of it. Once a request has shown a token the connection belongs to whoever that is: it counts
as one of its connections, and what waits in it unread as its own.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from laissez.exchange.access import Principal
from laissez.service.listening_time import ListeningTime
from laissez.service.paid import HTTP, PaidHttp, h11
from laissez.service.reception import Reception
from laissez.service.seldom_log import seldom_log
from laissez.service.visitor import HANDSHAKE_S, Visitor

REQUEST_HEAD_S = HANDSHAKE_S
BODY_S = 10.0
ANSWER_S = 30.0
VISITOR = "visitor"


# uvicorn warns of every connection that speaks no HTTP, and writes long tracebacks of every request
# that fails: whoever knocks could fill the log.
_errors_log = seldom_log("laissez.http")


class PatientHttp(PaidHttp):
    """One HTTP connection, with as much patience as is due."""

    def __init__(self, visitor: Visitor, reception: Reception, **options: Any) -> None:
        super().__init__(visitor, reception, **options)
        self.logger = _errors_log
        self.principal: Principal | None = None
        self.unread = 0
        self._unread = reception.unread
        self._waits_for = ""
        self._deadline: ListeningTime | None = None
        self._taken: asyncio.TimerHandle | None = None
        self._left_unread = 0
        self._has_ended = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.app_state = {**self.app_state, VISITOR: self._visitor, HTTP: self}
        self._visitor.transport = transport
        self._wait_for("head")

    def _take_apart(self) -> None:
        super()._take_apart()
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._has_left:
            return
        self._watch()
        if self.principal is not None and not self.transport.is_closing():
            self._unread.note(self)
        if self._taken is None and self.unread_bytes():
            self._left_unread = self.unread_bytes()
            self._taken = self.loop.call_later(ANSWER_S, self._check_taken)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._end()
        self._let_go()

    def send_400_response(self, msg: str) -> None:
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True  # nobody is there for the application's own answer
            cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:  # an answer has begun, or was sent
            self.transport.close()
        error = sys.exception()
        if error is not None:  # h11 raises it where it holds it: it would hold itself
            error.__traceback__ = None

    def handle_websocket_upgrade(self, event: Any) -> None:
        self._stop_waiting()
        self._end_belonging()
        super().handle_websocket_upgrade(event)
        self._let_go()

    def _watch(self) -> None:
        """What is waited for now, and since when? More of the same starts no new deadline."""
        if self._has_left:  # it has ended, or is a trader's now and knows no end
            return
        state = self.conn.their_state
        if state is h11.IDLE and self._has_come:
            self._wait_for("head")
        elif state is h11.SEND_BODY:
            self._wait_for("body")
        else:
            self._wait_for("")
        if self._deadline is not None:
            if self._held or self._waits_for_payer is not None:
                self._deadline.stand_still()
            else:
                self._deadline.run()

    def _wait_for(self, what: str) -> None:
        if what == self._waits_for:
            return
        self._waits_for = what
        if self._deadline is not None:
            self._deadline.stand_still()
            self._deadline = None
        if what:
            seconds = REQUEST_HEAD_S if what == "head" else BODY_S
            self._deadline = ListeningTime(self.loop, seconds, self.abort)
            self._deadline.run()

    def _stop_waiting(self) -> None:
        """From here on it has no deadline, not for what it left unread either."""
        self._wait_for("")
        if self._taken is not None:
            self._taken.cancel()
            self._taken = None

    def _check_taken(self) -> None:
        """An answer, or several, lay here for a while: was anything of it read meanwhile?"""
        self._taken = None
        left = self.unread_bytes()
        if left and left >= self._left_unread:
            self.abort()
        elif left:
            self._left_unread = left
            self._taken = self.loop.call_later(ANSWER_S, self._check_taken)

    # Whose connection it is -------------------------------------------------------------------

    def belongs_to(self, principal: Principal) -> bool:
        """A request has shown a token; False if its owner has too many connections."""
        if self.principal is not principal and not self._has_ended:
            if not principal.connect():
                return False
            self._end_belonging()
            self.principal = principal
            self._be(principal)
            self._visitor.recognize()
        return True

    def unread_bytes(self) -> int:
        return self.transport.get_write_buffer_size()

    def abort(self) -> None:
        self.transport.abort()

    def _end_belonging(self) -> None:
        if self.principal is not None:
            self._unread.forget(self)
            self.principal.disconnect()
            self.principal = None

    def _end(self) -> None:
        self._stop_waiting()
        self._end_belonging()
        self._visitor.leave()

    def _let_go(self) -> None:
        """Of what holds this connection in turn; a request that is still being answered keeps what
        it needs of it."""
        self._has_ended = True
        self._unset_keepalive_if_required()
        self.app_state = {}
        self.scope = self.cycle = None  # type: ignore[assignment]
