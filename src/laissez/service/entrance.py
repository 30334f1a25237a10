"""Who comes in from the network, before it is known who it is.

Connections are accepted one by one and not by a server of the event loop, so that there is never
one more than there are descriptors for: some are kept for files, and strangers may have half of
the rest at most. A stranger is a connection that has shown no token yet: it may be in the middle
of its TLS handshake, of its first request, or say nothing at all. When there are too many of them,
or too many from one address, the one that has been a stranger for longest is hung up on. So a
tenant gets in, however many others come and say nothing; and who has shown a token stays.

A few are accepted at a time, others come between; and the time that it takes is paid for by all
who arrive (`strangers`): when that is too much, new ones wait in the system's queue for a moment.
Who has hung up by then is let go of before anything is built for it.

The service runs without a collector that looks for cycles, so a connection that ends lets go of
whatever holds it: then nothing of it is left, however often somebody comes and goes.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from time import monotonic_ns

from laissez.exchange.allowance import NS_PER_S, Allowance
from laissez.service.timed import in_timed_steps

_log = logging.getLogger("laissez.entrance")

DESCRIPTORS_WANTED = 65_536
DESCRIPTORS_KEPT = 128
"""For the journal, snapshots, webhooks and whatever else opens files."""

ACCEPTED_AT_ONCE = 4
"""A few, then it is others' turn."""

REST_NS_LEAST = 2_000_000
"""The loop's timers know nothing shorter."""

OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
BREATH_S = 0.1
HANDSHAKE_S = 5.0


def raise_descriptor_limit() -> int:
    """Let this process open as many files as it may, within reason; how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return DESCRIPTORS_WANTED if soft == resource.RLIM_INFINITY else soft


def _has_gone(connection: socket.socket) -> bool:
    """Has it hung up already? Then nothing needs to be built for it."""
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


class Visitor:
    """One connection, from the moment it was accepted until it is gone."""

    def __init__(self, entrance: Entrance, connection: socket.socket, address: str) -> None:
        self.address = address
        self.connection = connection
        self.transport: asyncio.Transport | None = None
        self.arriving: asyncio.Task[None] | None = None
        self._entrance = entrance

    def recognize(self) -> None:
        """It has shown a token."""
        self._entrance.forget_stranger(self)

    def leave(self) -> None:
        self._entrance.leave(self)

    def hang_up(self) -> None:
        transport, arriving = self.transport, self.arriving
        self._entrance.leave(self)
        if transport is not None:
            transport.abort()
        elif arriving is not None:
            arriving.cancel()
            self.connection.close()


class Entrance:
    """Accepts connections; `protocol` makes what answers them."""

    def __init__(
        self,
        listener: socket.socket,
        protocol: Callable[[Visitor], asyncio.Protocol],
        tls: ssl.SSLContext | None,
        arrivals: Allowance,
        *,
        connections_max: int,
        strangers_max: int,
        from_one_address_max: int,
    ) -> None:
        self._listener = listener
        self._protocol = protocol
        self._tls = tls
        self._arrivals = arrivals
        self._connections_max = connections_max
        self._strangers_max = strangers_max
        self._from_one_address_max = from_one_address_max
        self._loop = asyncio.get_running_loop()
        self.visitors_so_far = 0
        self._visitors: set[Visitor] = set()
        self._strangers: dict[Visitor, None] = {}
        self._from: Counter[str] = Counter()
        self._breath: asyncio.TimerHandle | None = None
        self._is_open = True
        listener.setblocking(False)
        self._loop.add_reader(listener, self._accept)

    @property
    def strangers(self) -> int:
        return len(self._strangers)

    def _accept(self) -> None:
        begun = monotonic_ns()
        rest_ns = self._arrivals.rests_until - begun
        if rest_ns > 0:
            self._take_a_breath(max(rest_ns, REST_NS_LEAST) / NS_PER_S)
        else:
            self._accept_some()
            self._spend(monotonic_ns() - begun)

    def _spend(self, work_ns: int) -> None:
        self._arrivals.spend(monotonic_ns(), 0, work_ns)

    def _accept_some(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                connection, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS:
                    raise
                # Whoever has them: make room, and try again in a moment.
                _log.error("no descriptors left: connections have to wait (see LimitNOFILE)")
                self._show_oldest_out(None)
                self._take_a_breath(BREATH_S)
                return
            if _has_gone(connection):
                connection.close()
            else:
                self._enter(connection, str(address[0]))

    def _take_a_breath(self, seconds: float) -> None:
        """Let new connections wait in the operating system's queue."""
        if self._breath is None:
            self._loop.remove_reader(self._listener)
            self._breath = self._loop.call_later(seconds, self._breathe)

    def _breathe(self) -> None:
        self._breath = None
        if self._is_open:
            self._loop.add_reader(self._listener, self._accept)

    def _enter(self, connection: socket.socket, address: str) -> None:
        if self._from[address] >= self._from_one_address_max:
            self._show_oldest_out(address)
        if len(self._strangers) >= self._strangers_max:
            self._show_oldest_out(None)
        if len(self._visitors) >= self._connections_max and not self._show_oldest_out(None):
            connection.close()
            return
        self.visitors_so_far += 1
        visitor = Visitor(self, connection, address)
        self._visitors.add(visitor)
        self._strangers[visitor] = None
        self._from[address] += 1
        visitor.arriving = self._loop.create_task(self._arrive(visitor))

    async def _arrive(self, visitor: Visitor) -> None:
        await in_timed_steps(self._let_in(visitor), self._spend)

    async def _let_in(self, visitor: Visitor) -> None:
        patience = None if self._tls is None else HANDSHAKE_S
        try:
            visitor.connection.setblocking(False)
            await self._loop.connect_accepted_socket(
                lambda: self._protocol(visitor),
                visitor.connection,
                ssl=self._tls,
                ssl_handshake_timeout=patience,
                ssl_shutdown_timeout=patience,
            )
        except (OSError, asyncio.CancelledError):  # it has gone, or was shown out
            self._forget(visitor)
        except Exception as error:  # whatever it was, the visitor's place is free again
            _log.error("%s while a connection was accepted", type(error).__name__)
            self._forget(visitor)
        finally:
            visitor.arriving = None

    def _forget(self, visitor: Visitor) -> None:
        visitor.connection.close()
        visitor.leave()

    def _show_oldest_out(self, address: str | None) -> bool:
        """Hang up on the oldest stranger, or on the oldest from an address."""
        for stranger in self._strangers:
            if address is None or stranger.address == address:
                stranger.hang_up()
                return True
        return False

    def forget_stranger(self, visitor: Visitor) -> None:
        if visitor in self._strangers:
            del self._strangers[visitor]
            self._from[visitor.address] -= 1
            if not self._from[visitor.address]:
                del self._from[visitor.address]

    def leave(self, visitor: Visitor) -> None:
        self.forget_stranger(visitor)
        self._visitors.discard(visitor)
        visitor.transport = visitor.arriving = None

    # As uvicorn's servers ---------------------------------------------------------------------

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            if self._breath is not None:
                self._breath.cancel()
            self._loop.remove_reader(self._listener)

    async def wait_closed(self) -> None:
        """Nobody new comes in any more; those who are in are hung up on by others."""
