"""One WebSocket connection to an exchange, from the first byte to the last.

`dial` opens one or raises: `Unreachable` if trying again may help, `Hopeless` if it doesn't,
`TurnedAway` if the exchange itself said no. An open connection sends encoded requests, many in a
frame, and hands on every message that comes, in order. It knows nothing of what was asked before
it or will be after.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterable
from http import HTTPStatus

import msgspec
from picows import (
    WSCloseCode,
    WSError,
    WSFrame,
    WSInvalidStatusError,
    WSListener,
    WSMsgType,
    WSTransport,
    ws_connect,
)

from laissez.client.login import Login
from laissez.model import Refused, Said, ServiceCode, decode_said

PATH = "/v1/stream"
DIAL_S = 10
HANDSHAKE_S = 5
PING_AFTER_S = 5
MESSAGE_BYTES_MAX = 256 << 20
FRAME_REQUESTS_MAX = 250
FRAME_BYTES_MAX = 512 << 10
FAREWELL_S = 1

# picows writes whole requests, tokens included, into its log when it is asked for details. This
# logger is not in the register of loggers, so that nobody can ask it.
_discreet_log = logging.Logger("laissez.client.connection", logging.ERROR)
_discreet_log.parent = logging.getLogger("laissez.client")


class Unreachable(Exception):
    """Nobody answered as an exchange would; it may be another time."""


class Hopeless(Exception):
    """There is no exchange at this address that we could trust, and there will not be one."""


class TurnedAway(Exception):
    """The exchange did not let us in."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.message)
        self.refused = refused


class _Problem(msgspec.Struct):
    """What an exchange says when it does not open a WebSocket."""

    code: str
    detail: str


class Connection(WSListener):
    def __init__(
        self, on_said: Callable[[Said], None], on_closed: Callable[[Connection, str], None]
    ) -> None:
        self._on_said = on_said
        self._on_closed = on_closed
        self._transport: WSTransport | None = None
        self._fragments: list[bytes] = []
        self._closed = asyncio.Event()
        self._why_closed = "the connection broke"
        self._is_unwanted = False
        self._is_silent = False
        self._is_pinged = False

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    # What goes out ----------------------------------------------------------------------------

    def send(self, requests: Iterable[bytes]) -> None:
        """Send encoded requests in as few frames as an exchange takes."""
        gathered: list[bytes] = []
        size = 0
        for request in requests:
            if gathered and (
                len(gathered) == FRAME_REQUESTS_MAX or size + len(request) > FRAME_BYTES_MAX
            ):
                self._send_frame(gathered)
                gathered, size = [], 0
            gathered.append(request)
            size += len(request) + 1
        if gathered:
            self._send_frame(gathered)

    def _send_frame(self, requests: list[bytes]) -> None:
        if self._transport is not None:
            frame = requests[0] if len(requests) == 1 else b"[" + b",".join(requests) + b"]"
            self._transport.send(WSMsgType.TEXT, frame)

    async def close(self) -> None:
        """Say goodbye, and hang up even if it is not heard."""
        if self._transport is None:
            return
        underlying = self._transport.underlying_transport
        self._transport.send_close(WSCloseCode.OK)
        self._transport.disconnect()
        try:
            async with asyncio.timeout(FAREWELL_S):
                await self._closed.wait()
        except TimeoutError:
            underlying.abort()

    # What comes in ----------------------------------------------------------------------------

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        if self._is_unwanted:
            self.hang_up("nobody waits for it any more")
        else:
            self._listen_for_life()

    def abandon(self) -> None:
        """Whoever dialled is gone, and the handshake may still be under way."""
        self._is_unwanted = True
        self.hang_up("nobody waits for it any more")

    def _listen_for_life(self) -> None:
        """Ping when nothing was heard for a while, and hang up when that is not answered.

        picows could do so, but in a task that it starts after every handshake, also after one that
        nobody waits for any more, and nothing would end that task before the event loop does.
        """
        if self._transport is None:
            return
        if self._is_silent and self._is_pinged:
            self.hang_up(f"the exchange was silent for {2 * PING_AFTER_S} s")
            return
        if self._is_silent:
            self._transport.send_ping()
        self._is_pinged = self._is_silent
        self._is_silent = True
        asyncio.get_running_loop().call_later(PING_AFTER_S, self._listen_for_life)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        self._is_silent = False
        kind = frame.msg_type
        if kind == WSMsgType.TEXT and frame.fin:
            self._read(frame.get_payload_as_bytes())
        elif kind in (WSMsgType.TEXT, WSMsgType.CONTINUATION):
            self._gather(frame)
        elif kind == WSMsgType.CLOSE:
            reason = frame.get_close_reason() or f"code {frame.get_close_code()}"
            self._why_closed = f"the exchange hung up ({reason})"
            transport.send_close(WSCloseCode.OK)
            transport.disconnect()

    def _gather(self, frame: WSFrame) -> None:
        """A message in several frames."""
        self._fragments.append(frame.get_payload_as_bytes())
        if sum(map(len, self._fragments)) > MESSAGE_BYTES_MAX:
            self.hang_up(f"an answer was longer than {MESSAGE_BYTES_MAX} bytes")
        elif frame.fin:
            whole, self._fragments = b"".join(self._fragments), []
            self._read(whole)

    def _read(self, data: bytes) -> None:
        try:
            said = decode_said(data)
        except msgspec.DecodeError as error:
            self.hang_up(f"an answer was no message that this version knows: {error}")
            return
        if isinstance(said, list):
            for each in said:
                self._on_said(each)
        else:
            self._on_said(said)

    def hang_up(self, why: str) -> None:
        """End it at once."""
        self._why_closed = why
        if self._transport is not None:
            self._transport.disconnect(graceful=False)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._transport = None
        self._closed.set()
        self._on_closed(self, self._why_closed)


async def dial(
    login: Login,
    tls: ssl.SSLContext | None,
    on_said: Callable[[Said], None],
    on_closed: Callable[[Connection, str], None],
) -> Connection:
    """Open a connection, or raise Unreachable, Hopeless or TurnedAway."""
    connection = Connection(on_said, on_closed)
    try:
        async with asyncio.timeout(DIAL_S):
            await ws_connect(
                lambda: connection,
                "ws" + login.url.removeprefix("http") + PATH,
                ssl_context=tls,
                websocket_handshake_timeout=HANDSHAKE_S,
                logger_name=_discreet_log,
                max_frame_size=MESSAGE_BYTES_MAX,
                extra_headers={"Authorization": f"Bearer {login.token}"},
                max_redirects=0,  # a token goes nowhere but to the address it was given for
            )
    except WSInvalidStatusError as error:
        raise _turned_away(error, login.url) from None
    except ssl.SSLCertVerificationError as error:
        raise Hopeless(
            f"the certificate of {login.url} is not trusted ({error.verify_message}); give the "
            "file of its authority as ca_file, or in the variable LAISSEZ_CA_FILE"
        ) from None
    except ssl.SSLError as error:
        if error.reason != "WRONG_VERSION_NUMBER":
            raise Unreachable(str(error)) from None
        raise Hopeless(
            f"the service at {login.url} speaks http, not https; give its address as "
            f"http{login.url.removeprefix('https')}"
        ) from None
    except TimeoutError:
        connection.abandon()
        raise Unreachable("it does not answer") from None
    except (OSError, WSError) as error:
        raise Unreachable(str(error) or type(error).__name__) from None
    except asyncio.CancelledError:
        connection.abandon()
        raise
    if not connection.is_open:
        raise Unreachable("it hung up at once")
    return connection


def _turned_away(error: WSInvalidStatusError, url: str) -> Exception:
    """Why a handshake was answered with something else than a handshake."""
    assert error.response is not None
    status = error.response.status
    try:
        problem = msgspec.json.decode(error.raw_body or b"", type=_Problem)
    except msgspec.DecodeError:
        problem = None
    if status == HTTPStatus.UNAUTHORIZED:
        # A program that uses the SDK sends no headers, so the exchange's own advice is not for it.
        message = "the token is unknown, expired or revoked; ask the operator for a new one"
        return TurnedAway(Refused(None, ServiceCode.UNAUTHENTICATED, message))
    if problem is not None:
        return TurnedAway(Refused(None, problem.code, problem.detail))
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Unreachable(f"HTTP {int(status)}")
    return Hopeless(f"{url} answers with HTTP {int(status)} and is no exchange; check the address")
