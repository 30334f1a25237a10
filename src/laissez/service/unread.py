"""What was written and nobody has read yet: bounded for each tenant, and in total.

A connection bounds what waits for it, but a tenant may have hundreds of them. So every connection
notes what waits in it whenever it has been written to, whichever door it came through. When that
adds up to too much for one tenant, the connection of it for which most waits is hung up on; when
it is too much for all, the one for which most waits at all.
"""

from __future__ import annotations

from typing import Protocol

from laissez.exchange.access import Principal

UNREAD_BYTES_OF_ALL = 128 << 20


class Outlet(Protocol):
    """A connection that is written to; `unread` is what was noted of it last."""

    unread: int

    @property
    def principal(self) -> Principal | None: ...

    def unread_bytes(self) -> int:
        """What waits in it now."""

    def abort(self) -> None:
        """Hang up; what waits is dropped."""


class UnreadBytes:
    def __init__(self, most: int = UNREAD_BYTES_OF_ALL) -> None:
        self.most = most
        self.total = 0
        self._waiting: set[Outlet] = set()

    def note(self, outlet: Outlet) -> None:
        """A connection was written to: hang up on somebody if that is now too much."""
        principal = outlet.principal
        assert principal is not None
        self._note(outlet, outlet.unread_bytes())
        allowance = principal.tenant_allowance
        if allowance.unread > allowance.unread_most or self.total > self.most:
            self._look_again()
            while allowance.unread > allowance.unread_most:
                self._hang_up([o for o in self._waiting if _allowance_of(o) is allowance])
            while self.total > self.most:
                self._hang_up(list(self._waiting))

    def forget(self, outlet: Outlet) -> None:
        """A connection has ended."""
        if outlet.unread:
            self._note(outlet, 0)

    def _note(self, outlet: Outlet, size: int) -> None:
        change = size - outlet.unread
        outlet.unread = size
        self.total += change
        assert outlet.principal is not None
        outlet.principal.tenant_allowance.unread += change
        if size:
            self._waiting.add(outlet)
        else:
            self._waiting.discard(outlet)

    def _look_again(self) -> None:
        """Much may have been read since it was noted."""
        for outlet in tuple(self._waiting):
            self._note(outlet, outlet.unread_bytes())

    def _hang_up(self, outlets: list[Outlet]) -> None:
        largest = max(outlets, key=lambda outlet: outlet.unread)
        self._note(largest, 0)
        largest.abort()


def _allowance_of(outlet: Outlet) -> object:
    return None if outlet.principal is None else outlet.principal.tenant_allowance
