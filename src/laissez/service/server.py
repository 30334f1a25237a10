"""The service as a process: one journal, one exchange, one port.

`serve` opens the journal, recovers the exchange, listens, and on a signal stops in the opposite
order: no new requests, answers to those under way, a last snapshot, the journal's lock released.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import logging
import os
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import uvicorn

from laissez import __version__
from laissez.exchange.allowance import AtLeastOne
from laissez.exchange.office import Office
from laissez.exchange.pipeline import Exchange, Settings
from laissez.exchange.recovery import ReportProgress, no_progress
from laissez.exchange.sqlite_journal import SqliteJournal
from laissez.exchange.venue import Venue
from laissez.model.sentences import no_commitment
from laissez.service.doorway import Doorman
from laissez.service.entrance import DESCRIPTORS_KEPT, Entrance, raise_descriptor_limit
from laissez.service.handshakes import handshake_ns
from laissez.service.paid import PaidApp
from laissez.service.patience import PatientHttp
from laissez.service.reception import Reception
from laissez.service.rest import build_app
from laissez.service.strangers import Strangers
from laissez.service.visitor import Visitor
from laissez.service.webhooks import Webhooks

_log = logging.getLogger("laissez.server")

DEFAULT_PORT = 7070
SAMPLE_EVERY_S = 1.0
VISITORS_BETWEEN_LOOKS = 10_000
"""After so many connections the collector looks for what they may have left."""

HEAD_BYTES_KEPT = 20 * 1024
"""A head may have 16 KiB; one that is a little longer is read, and told so."""

BACKLOG = 2_048
CONNECTIONS_MAX = 16_384
STRANGERS_MAX = 1_024
# Two threads share the interpreter: the one that trades and the one that writes. The writer needs
# it for microseconds at a time, and a group waits while the writer waits for its turn.
SWITCH_INTERVAL_S = 0.0001


class ServerSettings(msgspec.Struct, frozen=True):
    """Where and how to serve; loopback unless told otherwise."""

    folder: Path
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    behind_proxy: bool = False
    exchange: Settings = Settings()
    connections_max: AtLeastOne = CONNECTIONS_MAX
    strangers_max: AtLeastOne = STRANGERS_MAX


class BadSettings(ValueError):
    """Settings that would not be safe or can't work; the sentence says what to change."""


class Running(msgspec.Struct):
    """A service that listens."""

    url: str
    exchange: Exchange
    office: Office
    visitors: Callable[[], int]
    """How many connections have come in so far."""

    failure: Exception | None = None


class GivenSettings(Settings, frozen=True, forbid_unknown_fields=True):
    """All settings that a program may give as JSON, each by its name in docs/operator.md."""

    connections_max: AtLeastOne = CONNECTIONS_MAX
    strangers_max: AtLeastOne = STRANGERS_MAX


def read_settings(given: str | bytes) -> GivenSettings:
    """Settings from JSON; raises `BadSettings`."""
    try:
        return msgspec.json.decode(given, type=GivenSettings)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _bad_value(error) from None


def _bad_value(error: Exception) -> BadSettings:
    return BadSettings(f"these settings can't be used: {error}; see Settings in docs/operator.md")


def check_settings(settings: ServerSettings) -> None:
    try:
        msgspec.convert(msgspec.to_builtins(settings.exchange), type(settings.exchange))
        for count in (settings.connections_max, settings.strangers_max):
            msgspec.convert(count, AtLeastOne)
    except msgspec.ValidationError as error:
        raise _bad_value(error) from None
    if (settings.tls_certificate is None) != (settings.tls_key is None):
        raise BadSettings("TLS needs both a certificate and a key; give both or neither")
    if settings.tls_certificate is not None:
        _check_certificate(settings)
    encrypted = settings.tls_certificate is not None or settings.behind_proxy
    if not encrypted and not _is_loopback(settings.host):
        raise BadSettings(
            f"on {settings.host} without TLS, tokens would cross the network in the clear; give a "
            "certificate and a key, or say that a proxy in front does TLS"
        )


def _check_certificate(settings: ServerSettings) -> None:
    assert settings.tls_certificate is not None
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            settings.tls_certificate, settings.tls_key
        )
    except (OSError, ssl.SSLError) as error:
        raise BadSettings(
            f"the certificate {settings.tls_certificate} and the key {settings.tls_key} can't be "
            f"used ({error}); give a certificate and the key that belongs to it, as PEM"
        ) from None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@asynccontextmanager
async def serving(
    settings: ServerSettings,
    *,
    progress: ReportProgress = no_progress,
    stop: asyncio.Event | None = None,
) -> AsyncIterator[Running]:
    """Run the service inside this event loop, for as long as the block lasts."""
    check_settings(settings)
    listener = _listen(settings)
    with contextlib.ExitStack() as if_it_fails:
        if_it_fails.callback(listener.close)
        journal = SqliteJournal(settings.folder)
        if_it_fails.callback(journal.close)
        journal.note_writer(Venue.rules, __version__)
        exchange = Exchange(journal, settings.exchange, progress=progress)
        if_it_fails.pop_all()
    for tree in exchange.execution.venue.trees_without_commitment():
        _log.warning("%s", no_commitment(tree))
    office = Office(exchange)
    doorman = Doorman(
        Reception(exchange, office, Strangers(one_address_is_all=settings.behind_proxy))
    )
    webhooks = Webhooks(exchange, office)
    server = _server(settings, doorman)
    http = asyncio.create_task(server.serve(sockets=[listener]))
    sampling = asyncio.create_task(_sample(doorman))
    running = Running(_url(settings, listener), exchange, office, lambda: server.visitors)

    def fail(error: Exception) -> None:
        running.failure = error
        if exchange.fault is not None:
            doorman.drop_all()
            server.drop_all()
        if stop is not None:
            stop.set()

    exchange.on_failure = fail
    try:
        while not server.started:
            if http.done():
                await http  # raises why
                raise BadSettings("the service could not listen; its log says why")
            await asyncio.sleep(0.005)
        yield running
    finally:
        sampling.cancel()
        await webhooks.close()
        await exchange.close()
        doorman.turn_all_out()
        server.should_exit = True
        try:
            await http
        finally:
            doorman.turn_all_out()
            listener.close()


async def serve_until_stopped(
    settings: ServerSettings,
    ready: Callable[[Running], Coroutine[None, None, None]],
    *,
    stop: asyncio.Event,
    progress: ReportProgress = no_progress,
) -> None:
    """Serve until `stop` is set; raises what ended it, if it was something else."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    async with serving(settings, progress=progress, stop=stop) as running:
        collecting = asyncio.create_task(
            _collect_seldom(settings.exchange.settle_every_s, running.visitors)
        )
        try:
            await _prepare(ready(running), stop)
            await stop.wait()
        finally:
            collecting.cancel()
            if running.failure is not None:
                raise running.failure


async def _prepare(ready: Coroutine[None, None, None], stop: asyncio.Event) -> None:
    """Do what belongs to a start, but for no longer than the service runs: what that waits for
    may never come."""
    preparing, stopping = asyncio.ensure_future(ready), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((preparing, stopping), return_when=asyncio.FIRST_COMPLETED)
        if preparing.done():
            await preparing
    finally:
        stopping.cancel()
        preparing.cancel()
        await asyncio.wait((preparing,))
        if not preparing.cancelled():
            preparing.exception()  # raised above, or of no interest any more


async def _collect_seldom(every_s: int, visitors: Callable[[], int]) -> None:
    """What a connection leaves behind is gone without the collector: whatever holds it lets go when
    it ends (a test counts that). And the service keeps much that the collector would look through
    while all trading stops: 10 to 50 ms for what one second of full load has made. So it looks only
    when a statement period ends, which takes a while anyway; and in case that something ties a knot
    after all, after every so many connections, so that coming and going never fills the memory."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        while True:
            looked_at = visitors()
            for _ in range(every_s):
                await asyncio.sleep(SAMPLE_EVERY_S)
                if visitors() - looked_at >= VISITORS_BETWEEN_LOOKS:
                    break
            gc.collect()
    finally:
        gc.enable()


def _listen(settings: ServerSettings) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        return socket.create_server((settings.host, settings.port), family=family, backlog=BACKLOG)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise BadSettings(
            f"can't listen on {settings.host} port {settings.port} ({why}); "
            "stop what uses it or choose another port"
        ) from None


def _url(settings: ServerSettings, listener: socket.socket) -> str:
    scheme = "http" if settings.tls_certificate is None else "https"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{listener.getsockname()[1]}"


class _Server(uvicorn.Server):
    """uvicorn with an entrance of ours, and without signal handlers: whoever runs the service
    stops it."""

    def __init__(self, config: uvicorn.Config, settings: ServerSettings, doorman: Doorman) -> None:
        super().__init__(config)
        self._settings = settings
        self._doorman = doorman
        self._entrance: Entrance | None = None

    @property
    def visitors(self) -> int:
        return 0 if self._entrance is None else self._entrance.visitors_so_far

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    def drop_all(self) -> None:
        """Hang up on everybody, and wait for nobody."""
        self.force_exit = True
        for connection in tuple(self.server_state.connections):
            connection.transport.abort()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        assert sockets is not None
        settings = self._settings
        room = max(raise_descriptor_limit() - DESCRIPTORS_KEPT, 2)
        connections = min(settings.connections_max, room)
        strangers = min(settings.strangers_max, max(connections // 2, 1))
        self._entrance = Entrance(
            sockets[0],
            self._answer,
            self.config.ssl,
            self._doorman.reception.strangers,
            connections_max=connections,
            strangers_max=strangers,
            from_one_address_max=strangers if settings.behind_proxy else max(strangers // 2, 1),
            handshake_ns=0 if self.config.ssl is None else handshake_ns(self.config.ssl),
        )
        self.servers = [self._entrance]  # type: ignore[list-item]
        self.started = True

    def _answer(self, visitor: Visitor) -> asyncio.Protocol:
        return PatientHttp(
            visitor,
            self._doorman.reception,
            config=self.config,
            server_state=self.server_state,
            app_state={},
        )


def _server(settings: ServerSettings, doorman: Doorman) -> _Server:
    def text(path: Path | None) -> str | None:
        return None if path is None else str(path)

    config = uvicorn.Config(
        PaidApp(build_app(doorman.reception)),
        http="h11",
        ws=doorman.doorway,  # type: ignore[arg-type]
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        h11_max_incomplete_event_size=HEAD_BYTES_KEPT,
        proxy_headers=settings.behind_proxy,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=5,
        ssl_certfile=text(settings.tls_certificate),
        ssl_keyfile=text(settings.tls_key),
    )
    return _Server(config, settings, doorman)


async def _sample(doorman: Doorman) -> None:
    while True:
        await asyncio.sleep(SAMPLE_EVERY_S)
        try:
            doorman.sample()
        except Exception as error:  # one bad sample must not end all others
            _log.error("%s while sampling rates and quotes", type(error).__name__)
