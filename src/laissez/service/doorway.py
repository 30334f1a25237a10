"""One port for REST and WebSocket.

uvicorn answers HTTP and hands a connection that wants to become a WebSocket to a protocol of
ours: `Doorway` looks at the token, passes the upgrade request on to picows, and then steps aside,
so that traders' frames go from the socket straight into picows.
"""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import Any

import msgspec
from picows import WSAutoPingStrategy, WSCloseCode, WSUpgradeRequest, WSUpgradeResponse
from picows.common import WSUpgradeResponseWithListener
from picows.picows import WSProtocol  # type: ignore[attr-defined]
from uvicorn.protocols.http.h11_impl import H11Protocol

from laissez.exchange.access import Principal
from laissez.model import ServiceCode
from laissez.service.reception import Reception
from laissez.service.socket import FRAME_BYTES_MAX, Trader

PATH = b"/v1/stream"
HANDSHAKE_S = 5
PING_AFTER_S = 20
BEARER = "bearer "


# picows writes whole requests, tokens included, into its log when it is asked for details. This
# log is not in the list of all logs, so that nobody asks.
_quiet_log = logging.Logger("laissez.socket", logging.WARNING)
_quiet_log.parent = logging.getLogger("laissez")


class Doorman:
    """Lets connections in: one for each that shows a living token and has not too many."""

    def __init__(self, reception: Reception) -> None:
        self.reception = reception
        self.traders: set[Trader] = set()
        reception.exchange.access.on_death = self.turn_out

    def admit(self, request: WSUpgradeRequest) -> Trader | WSUpgradeResponseWithListener:
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
        if principal.connections >= principal.limits.connections:
            return _problem(
                HTTPStatus.TOO_MANY_REQUESTS,
                ServiceCode.TOO_MANY_CONNECTIONS,
                f"this token may have {principal.limits.connections} connections; close one first",
            )
        return Trader(self.reception, principal, self.traders)

    def _who(self, header: str | None) -> Principal | None:
        if header is None or not header.lower().startswith(BEARER):
            return None
        secret = header[len(BEARER) :].strip()
        return self.reception.exchange.authenticate(secret) if secret.isascii() else None

    def turn_all_out(self) -> None:
        """The service stops."""
        for trader in tuple(self.traders):
            trader.close(WSCloseCode.GOING_AWAY, ServiceCode.STOPPING)

    def turn_out(self, principal: Principal) -> None:
        """A token is dead: so are its connections."""
        for trader in [each for each in self.traders if each.principal is principal]:
            trader.close(WSCloseCode.POLICY_VIOLATION, ServiceCode.UNAUTHENTICATED)

    def sample(self) -> None:
        """Once a second: rates, quotes, and tokens that have expired meanwhile."""
        now = self.reception.exchange.clock.now()
        for principal in {trader.principal for trader in self.traders}:
            if principal.token.is_dead(now):
                self.turn_out(principal)
        for trader in tuple(self.traders):
            trader.sample()

    def doorway(self, config: Any, server_state: Any, app_state: Any) -> asyncio.Protocol:
        """What uvicorn calls for a connection that wants to be a WebSocket."""
        return Doorway(self)


class ImpatientHttp(H11Protocol):
    """uvicorn's HTTP, which bounds the size of headers; it does not wait for them for ever."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(HANDSHAKE_S, self._hang_up_if_silent)

    def _hang_up_if_silent(self) -> None:
        no_request_yet = getattr(self, "scope", None) is None
        if no_request_yet and not self.transport.is_closing():
            self.transport.close()


class Doorway(asyncio.Protocol):
    """Feeds the upgrade request to picows and makes it the connection's protocol."""

    def __init__(self, doorman: Doorman) -> None:
        self._loop = asyncio.get_running_loop()
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
            True,
            FRAME_BYTES_MAX,
            None,
            16 * 1024,
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._inner.connection_made(transport)
        self._loop.call_soon(transport.set_protocol, self._inner)

    def data_received(self, data: bytes) -> None:
        while data:
            buffer = self._inner.get_buffer(len(data))
            taken = min(len(buffer), len(data))
            buffer[:taken] = data[:taken]
            self._inner.buffer_updated(taken)
            data = data[taken:]

    def eof_received(self) -> bool | None:
        result: bool | None = self._inner.eof_received()
        return result

    def connection_lost(self, exc: Exception | None) -> None:
        self._inner.connection_lost(exc)


def _problem(status: HTTPStatus, code: ServiceCode, detail: str) -> WSUpgradeResponseWithListener:
    body = {"type": "about:blank", "title": status.phrase, "status": int(status)}
    response = WSUpgradeResponse.create_error_response(
        status,
        msgspec.json.encode({**body, "detail": detail, "code": code}),
        {"Content-Type": "application/problem+json"},
    )
    return WSUpgradeResponseWithListener(response, None)
