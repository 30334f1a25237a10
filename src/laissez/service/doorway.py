"""One port for REST and WebSocket.

uvicorn answers HTTP and hands a connection that wants to become a WebSocket to a protocol of
ours: `Doorway` looks at the token and passes the upgrade request on to picows. From then on bytes
go from the socket straight into the buffer of picows, a few at a time, and `Doorway` asks the
`TraderSocket` whether they may be read now.
"""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from time import monotonic_ns
from typing import Any, cast

import msgspec
from picows import WSAutoPingStrategy, WSCloseCode, WSUpgradeRequest, WSUpgradeResponse
from picows.common import WSUpgradeResponseWithListener
from picows.picows import WSProtocol  # type: ignore[attr-defined]

from laissez.exchange.access import Principal
from laissez.model import ServiceCode
from laissez.service.patience import VISITOR
from laissez.service.reception import Reception
from laissez.service.socket import FRAME_BYTES_MAX, TraderSocket
from laissez.service.visitor import HANDSHAKE_S, HEAD_BYTES_MAX, Visitor

PATH = b"/v1/stream"
PING_AFTER_S = 20
BEARER = "bearer "
READ_BYTES_MAX = 8 * 1024
"""So much is read at once: as many empty frames as are taken apart in a turn."""


# picows writes whole requests, tokens included, into its log when it is asked for details. This
# log is not in the list of all logs, so that nobody asks.
_quiet_log = logging.Logger("laissez.socket", logging.WARNING)
_quiet_log.parent = logging.getLogger("laissez")


class Doorman:
    """Lets connections in: one for each that shows a living token and has not too many."""

    def __init__(self, reception: Reception) -> None:
        self.reception = reception
        self.traders: set[TraderSocket] = set()
        reception.exchange.access.on_death = self.turn_out

    def admit(self, request: WSUpgradeRequest) -> TraderSocket | WSUpgradeResponseWithListener:
        if self.reception.exchange.closed is not None:
            return _problem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                ServiceCode.STOPPING,
                "the service is stopping; come back in a moment",
            )
        if request.path.split(b"?")[0] != PATH:
            return _problem(
                HTTPStatus.NOT_FOUND, ServiceCode.NOT_FOUND, f"traders meet at {PATH.decode()}"
            )
        principal = self._who(request.headers.get("Authorization"))
        if principal is None:
            return _problem(
                HTTPStatus.UNAUTHORIZED,
                ServiceCode.UNAUTHENTICATED,
                "the token is missing, unknown, expired or revoked; ask the operator for one, and "
                "send it in the header Authorization: Bearer ...",
            )
        if not principal.connect():
            return _problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                ServiceCode.TOO_MANY_CONNECTIONS,
                f"this token may have {principal.limits.connections} connections; close one first",
            )
        return TraderSocket(self.reception, principal, self.traders)

    def _who(self, header: str | None) -> Principal | None:
        if header is None or not header.lower().startswith(BEARER):
            return None
        secret = header[len(BEARER) :].strip()
        return self.reception.exchange.authenticate(secret) if secret.isascii() else None

    def turn_all_out(self) -> None:
        """The service stops."""
        for trader in tuple(self.traders):
            trader.close(WSCloseCode.GOING_AWAY, ServiceCode.STOPPING)

    def drop_all(self) -> None:
        """Not another word to anybody."""
        for trader in tuple(self.traders):
            trader.drop()

    def turn_out(self, principal: Principal) -> None:
        """A token is dead: so are its connections."""
        for trader in [each for each in self.traders if each.principal is principal]:
            trader.close(WSCloseCode.POLICY_VIOLATION, ServiceCode.UNAUTHENTICATED)

    def sample(self) -> None:
        """Once a second: rates, quotes, tokens that have expired meanwhile, unfinished messages."""
        now = self.reception.exchange.clock.now()
        for principal in {trader.principal for trader in self.traders}:
            if principal.token.is_dead(now):
                self.turn_out(principal)
        for trader in tuple(self.traders):
            trader.hang_up_if_overdue()
            trader.sample()

    def doorway(self, config: Any, server_state: Any, app_state: Any) -> asyncio.BaseProtocol:
        """What uvicorn calls for a connection that wants to be a WebSocket."""
        return Doorway(self, app_state.get(VISITOR))


class Doorway(asyncio.BufferedProtocol):
    """Between a socket and picows: what comes in goes on when it is this caller's turn."""

    def __init__(self, doorman: Doorman, visitor: Visitor | None) -> None:
        self._visitor = visitor
        self._trader: TraderSocket | None = None
        self._inner = WSProtocol(
            None,
            None,
            False,
            doorman.admit,
            _quiet_log,
            True,
            HANDSHAKE_S,
            True,
            PING_AFTER_S,
            PING_AFTER_S,
            WSAutoPingStrategy.PING_WHEN_IDLE,
            False,
            FRAME_BYTES_MAX,
            None,
            READ_BYTES_MAX,
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """The upgrade request, as uvicorn has read it."""
        if len(data) >= HEAD_BYTES_MAX:
            self._refuse_long_head()
            return
        while data:
            buffer = self._inner.get_buffer(len(data))
            taken = min(len(buffer), len(data))
            buffer[:taken] = data[:taken]
            self._inner.buffer_updated(taken)
            data = data[taken:]
        trader: TraderSocket | None = self._inner.listener
        if trader is not None and not trader.is_connected:
            # It was let in, and then its request turned out to be no handshake.
            trader.principal.disconnect()
        elif trader is not None:
            self._trader = trader
            trader.read = self._inner.buffer_updated
            trader.read_less = self._read_less
            # What comes in from now on goes to picows and to the trader without a detour.
            if len(self._inner.get_buffer(0)) > READ_BYTES_MAX:  # its head was long
                self.get_buffer = self._get_some_buffer  # type: ignore[method-assign]
            else:
                self.get_buffer = self._inner.get_buffer  # type: ignore[method-assign]
            self.buffer_updated = trader.arrive  # type: ignore[assignment, method-assign]
            if self._visitor is not None:
                self._visitor.recognize()

    def _refuse_long_head(self) -> None:
        message = f"the headers of a request have at most {HEAD_BYTES_MAX} bytes; send fewer"
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        answer = _problem(status, ServiceCode.TOO_LARGE, message).response
        self._transport.write(bytes(answer.to_bytes()))
        self._transport.close()

    def get_buffer(self, sizehint: int) -> memoryview:
        buffer: memoryview = self._inner.get_buffer(sizehint)
        return buffer

    def _get_some_buffer(self, sizehint: int) -> memoryview:
        buffer: memoryview = self._inner.get_buffer(sizehint)
        return buffer[:READ_BYTES_MAX]

    def _read_less(self) -> None:
        """The buffer of picows grows with long frames, and nobody comes between what is read into
        it at once: from now on that is never much. `set_protocol` is not for the protocol, which
        stays: uvloop keeps the methods it calls, and looks them up anew only then."""
        if self.get_buffer != self._get_some_buffer:
            self.get_buffer = self._get_some_buffer  # type: ignore[method-assign]
            self._transport.set_protocol(self)

    def buffer_updated(self, nbytes: int) -> None:
        """Nobody was let in: what comes now is of no interest."""

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def eof_received(self) -> bool | None:
        result: bool | None = self._inner.eof_received()
        return result

    def connection_lost(self, exc: Exception | None) -> None:
        begun = monotonic_ns()
        self._inner.connection_lost(exc)
        # These hold the trader, who holds this; there is no collector that would find them.
        vars(self).pop("get_buffer", None)
        vars(self).pop("buffer_updated", None)
        # Nor does TLS forget the methods of a protocol that has gone.
        self._transport.set_protocol(asyncio.BufferedProtocol())
        if self._visitor is not None:
            self._visitor.leave()
            self._visitor = None
        trader, self._trader = self._trader, None
        if trader is not None:  # that it comes and goes is work, too
            ended = monotonic_ns()
            trader.principal.spend(ended, 0, ended - begun)


def _problem(status: HTTPStatus, code: ServiceCode, detail: str) -> WSUpgradeResponseWithListener:
    body = {"type": "about:blank", "title": status.phrase, "status": int(status)}
    response = WSUpgradeResponse.create_error_response(
        status,
        msgspec.json.encode({**body, "detail": detail, "code": code}),
        {"Content-Type": "application/problem+json"},
    )
    return WSUpgradeResponseWithListener(response, None)
