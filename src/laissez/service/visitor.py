"""One connection, from the moment it was accepted until it is gone.

At first it is a socket and nothing else: no transport, no protocol, no TLS. So silence and half a
head cost next to nothing, and there may be thousands of either. Its first head is read here; when
it is whole, or won't be soon, the connection is let in with what it has said so far. Where TLS is
spoken its first byte lets it in, since what it says can't be read here; what the handshake takes is
paid for then, because one that stops half-way has already cost most of that.

Whoever arrives waits for its turn (`PayersQueue`): one at a time, and none while arrivals rest, and
that time is not its own. Bytes of a head that is never finished are charged to the strangers of its
address: while it may still be a tenant's, nobody else has to wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from time import monotonic_ns
from typing import Protocol

from laissez.service.listening_time import ListeningTime
from laissez.service.payers_queue import PayersQueue
from laissez.service.strangers import Strangers

HANDSHAKE_S = 5.0
"""So long it may take until it has said what it wants, and a TLS handshake as long again."""

HEAD_BYTES_MAX = 16 * 1024
HEAD_PIECES_MAX = 16
"""An honest head comes in fewer; with more it is let in as it is, and read when strangers are."""

HEAD_ENDS = re.compile(rb"\n\r?\n")
_FIRST_PRINTABLE = 0x21


def has_gone(connection: socket.socket) -> bool:
    """Has it hung up already? Then nothing needs to be built for it."""
    try:
        return not connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


class Doorkeeper(Protocol):
    """Who keeps the door at which a visitor arrives."""

    payers: Strangers
    arriving: PayersQueue
    handshake_ns: int | None
    """What a TLS handshake takes; None where none is spoken."""

    def let_in(self, visitor: Visitor) -> None:
        """Build what answers it."""

    def recognize(self, visitor: Visitor) -> None:
        """It is no stranger any more."""

    def forget(self, visitor: Visitor) -> None:
        """It has gone."""

    def note_kept(self, visitor: Visitor, change: int) -> None:
        """So much more or less is kept of it; somebody may have to go for that."""


class Visitor:
    """One connection, and how far it has got."""

    def __init__(self, door: Doorkeeper, connection: socket.socket, address: str) -> None:
        self.address = address
        self.connection = connection
        self.transport: asyncio.Transport | None = None
        self.entering: asyncio.Task[None] | None = None
        self.kept_bytes = 0
        self._door = door
        self._said = b""
        self._pieces = 0
        self._loop = asyncio.get_running_loop()
        self._patience: ListeningTime | None = None
        self._is_listened_to = False
        self._has_gone = False

    # Until it is let in -----------------------------------------------------------------------

    def wait(self) -> None:
        """Nothing is done before it speaks; that has an end."""
        self._patience = ListeningTime(self._loop, HANDSHAKE_S, self.hang_up)
        self._listen()

    def _listen(self) -> None:
        self._is_listened_to = True
        self._loop.add_reader(self.connection, self._arrive)
        if self._patience is not None:
            self._patience.run()

    def _listen_no_more(self) -> None:
        if self._is_listened_to:
            self._is_listened_to = False
            self._loop.remove_reader(self.connection)
            if self._patience is not None:
                self._patience.stand_still()

    def _arrive(self) -> None:
        self._listen_no_more()
        self._door.arriving.join(self._door.payers.arrivals, self)

    def go_on(self) -> None:
        """It has said something, and it is its turn."""
        begun = monotonic_ns()
        handshake_ns = 0
        if self._door.handshake_ns is None:
            self._hear()
        elif has_gone(self.connection):
            self.hang_up()
        else:
            handshake_ns = self._door.handshake_ns
            self._enter()
        now = monotonic_ns()
        self._door.payers.arrivals.spend(now, 0, now - begun + handshake_ns)

    def _hear(self) -> None:
        try:
            some = self.connection.recv(HEAD_BYTES_MAX)
        except (BlockingIOError, InterruptedError):
            self._listen()
            return
        except OSError:
            some = b""
        if not some:
            self.hang_up()
            return
        self._said += some
        self._pieces += 1
        if (
            HEAD_ENDS.search(self._said)
            or len(self._said) >= HEAD_BYTES_MAX
            or self._pieces >= HEAD_PIECES_MAX
            or self._said[0] < _FIRST_PRINTABLE  # no HTTP, whatever comes
        ):
            self._enter()
            return
        self.keep(len(self._said))
        if not self._has_gone:
            self._listen()

    def _enter(self) -> None:
        self._wait_no_more()
        self._door.let_in(self)

    def _wait_no_more(self) -> None:
        patience, self._patience = self._patience, None
        if patience is not None:
            patience.stand_still()

    # From then on -----------------------------------------------------------------------------

    def take_said(self) -> bytes:
        """What it has said before it was let in, for whoever answers it, and pays for it now."""
        said, self._said = self._said, b""
        return said

    def keep(self, size: int) -> None:
        """So much of what a stranger has said waits here for more."""
        change = size - self.kept_bytes
        if change and not self._has_gone:
            self.kept_bytes = size
            self._door.note_kept(self, change)

    def recognize(self) -> None:
        """It has shown a token."""
        self.keep(0)
        self._door.recognize(self)

    def leave(self) -> None:
        """It has gone, wherever it was."""
        if self._has_gone:
            return
        self.keep(0)
        self._has_gone = True
        self._wait_no_more()
        self._listen_no_more()
        self._door.arriving.leave(self._door.payers.arrivals, self)
        if self._said:
            stranger = self._door.payers.at(self.address)
            stranger.spend(monotonic_ns(), len(self.take_said()), 0)
        self._door.forget(self)
        self.transport = self.entering = None

    def hang_up(self) -> None:
        transport, entering = self.transport, self.entering
        self.leave()
        if transport is not None:
            transport.abort()
            return
        if entering is not None:
            # During a TLS handshake the loop holds the socket, too, and only this ends that.
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
            entering.cancel()
        self.connection.close()
