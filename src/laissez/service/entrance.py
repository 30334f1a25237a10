"""Who comes in from the network, before it is known who it is.

Connections are accepted one by one and not by a server of the event loop, so that there is never
one more than there are descriptors for: some are kept for files, and strangers may have half of
the rest at most. A stranger is a connection that has shown no token yet: it may be in the middle
of its TLS handshake, of its first request, or say nothing at all (`visitor`). When there are too
many of them, the one that has been a stranger for longest is hung up on, of the address that has
most. So a tenant gets in, however many others come and say nothing or half of something; and who
has shown a token stays. Likewise, when too much of what was said without a token waits for its end,
the one goes of which something has waited for longest, of the address of which most does.

A few are accepted at a time, others come between; and the time that it takes is paid for by all
who arrive (`strangers`): when that is too much, new ones wait in the system's queue for a moment.
They also wait there while some that have come before them wait for their turn, or these would be
hung up on to make room before they are heard.

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

from laissez.exchange.allowance import NS_PER_S
from laissez.service.payers_queue import REST_NS_LEAST, PayersQueue
from laissez.service.strangers import Strangers
from laissez.service.timed import in_timed_steps
from laissez.service.visitor import HANDSHAKE_S, Visitor, has_gone

_log = logging.getLogger("laissez.entrance")

DESCRIPTORS_WANTED = 65_536
DESCRIPTORS_KEPT = 128
"""For the journal, snapshots, webhooks and whatever else opens files."""

ACCEPTED_AT_ONCE = 4
"""A few, then it is others' turn."""

OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
BREATH_S = 0.1

KEPT_BYTES_MAX = 8 << 20
"""So much may wait for more of what was said without a token: some hundred heads of the longest."""


def raise_descriptor_limit() -> int:
    """Let this process open as many files as it may, within reason; how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return DESCRIPTORS_WANTED if soft == resource.RLIM_INFINITY else soft


class Entrance:
    """Accepts connections; `protocol` makes what answers them."""

    def __init__(
        self,
        listener: socket.socket,
        protocol: Callable[[Visitor], asyncio.Protocol],
        tls: ssl.SSLContext | None,
        payers: Strangers,
        *,
        connections_max: int,
        strangers_max: int,
        from_one_address_max: int,
        handshake_ns: int = 0,
    ) -> None:
        self._listener = listener
        self._protocol = protocol
        self._tls = tls
        self.payers = payers
        self.handshake_ns = None if tls is None else handshake_ns
        self.arriving = PayersQueue()
        self._connections_max = connections_max
        self._strangers_max = strangers_max
        self._from_one_address_max = from_one_address_max
        self._loop = asyncio.get_running_loop()
        self.visitors_so_far = 0
        self._visitors: set[Visitor] = set()
        self._strangers: dict[str, dict[Visitor, None]] = {}
        """By address, the oldest first."""

        self.strangers = 0
        self._kept: Counter[str] = Counter()
        self._keeping: dict[str, dict[Visitor, None]] = {}
        """By address, too, whoever it is: first who has kept something for longest."""

        self.kept_bytes = 0
        self._breath: asyncio.TimerHandle | None = None
        self._is_open = True
        listener.setblocking(False)
        self._loop.add_reader(listener, self._accept)

    def _accept(self) -> None:
        begun = monotonic_ns()
        arrivals = self.payers.arrivals
        rest_ns = arrivals.rests_until - begun
        if rest_ns > 0 or self.arriving.length(arrivals) >= ACCEPTED_AT_ONCE:
            self._take_a_breath(max(rest_ns, REST_NS_LEAST) / NS_PER_S)
        else:
            self._accept_some()
            self._spend(monotonic_ns() - begun)

    def _spend(self, work_ns: int) -> None:
        self.payers.arrivals.spend(monotonic_ns(), 0, work_ns)

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
            if has_gone(connection):
                connection.close()
            else:
                self._take_in(connection, str(address[0]))

    def _take_a_breath(self, seconds: float) -> None:
        """Let new connections wait in the operating system's queue."""
        if self._breath is None:
            self._loop.remove_reader(self._listener)
            self._breath = self._loop.call_later(seconds, self._breathe)

    def _breathe(self) -> None:
        self._breath = None
        if self._is_open:
            self._loop.add_reader(self._listener, self._accept)

    def _take_in(self, connection: socket.socket, address: str) -> None:
        if len(self._strangers.get(address, ())) >= self._from_one_address_max:
            self._show_oldest_out(address)
        if self.strangers >= self._strangers_max:
            self._show_oldest_out(None)
        if len(self._visitors) >= self._connections_max and not self._show_oldest_out(None):
            connection.close()
            return
        connection.setblocking(False)
        self.visitors_so_far += 1
        visitor = Visitor(self, connection, address)
        self._visitors.add(visitor)
        self._strangers.setdefault(address, {})[visitor] = None
        self.strangers += 1
        visitor.wait()

    # Those who are here -----------------------------------------------------------------------

    def let_in(self, visitor: Visitor) -> None:
        visitor.entering = self._loop.create_task(self._enter(visitor))

    async def _enter(self, visitor: Visitor) -> None:
        await in_timed_steps(self._build(visitor), self._spend)

    async def _build(self, visitor: Visitor) -> None:
        patience = None if self._tls is None else HANDSHAKE_S
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._protocol(visitor),
                visitor.connection,
                ssl=self._tls,
                ssl_handshake_timeout=patience,
                ssl_shutdown_timeout=patience,
            )
        except (OSError, asyncio.CancelledError):  # it has gone, or was shown out
            self._give_up(visitor)
        except Exception as error:  # whatever it was, the visitor's place is free again
            _log.error("%s while a connection was accepted", type(error).__name__)
            self._give_up(visitor)
        finally:
            visitor.entering = None

    def _give_up(self, visitor: Visitor) -> None:
        visitor.connection.close()
        visitor.leave()

    def _show_oldest_out(self, address: str | None) -> bool:
        """Hang up on the oldest stranger from an address, or from the one that has most."""
        if address is None:
            address = max(
                self._strangers, key=lambda each: len(self._strangers[each]), default=None
            )
        if address is None:
            return False
        next(iter(self._strangers[address])).hang_up()
        return True

    def note_kept(self, visitor: Visitor, change: int) -> None:
        """What is kept is bounded: of the address of which most is, the oldest goes. Who has shown
        a token and then asks without one is kept like a stranger, and is not among them."""
        address = visitor.address
        self.kept_bytes += change
        self._kept[address] += change
        if visitor.kept_bytes:
            self._keeping.setdefault(address, {})[visitor] = None
        else:
            del self._keeping[address][visitor]
            if not self._keeping[address]:
                del self._keeping[address], self._kept[address]
        if change > 0:  # who goes for it ends here with less, and makes nobody else go
            while self.kept_bytes > KEPT_BYTES_MAX:
                ((most, _),) = self._kept.most_common(1)
                next(iter(self._keeping[most])).hang_up()

    def recognize(self, visitor: Visitor) -> None:
        others = self._strangers.get(visitor.address, {})
        if visitor in others:
            del others[visitor]
            self.strangers -= 1
            if not others:
                del self._strangers[visitor.address]

    def forget(self, visitor: Visitor) -> None:
        self.recognize(visitor)
        self._visitors.discard(visitor)

    # As uvicorn's servers ---------------------------------------------------------------------

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            if self._breath is not None:
                self._breath.cancel()
            self._loop.remove_reader(self._listener)
            for visitor in tuple(self._visitors):
                if visitor.transport is None:  # nobody else knows it yet
                    visitor.hang_up()

    async def wait_closed(self) -> None:
        """Nobody new comes in any more; those who are in are hung up on by others."""
