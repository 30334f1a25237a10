"""Where connections wait whose payer has to rest.

They are not read from meanwhile. When a payer has paid back, the first of its connections goes on,
and what that costs is known before the next one does: so there is one thing of somebody's overdrawn
allowance under way at a time, and everybody else comes between. Payers take turns.

One timer for all: nobody wakes to find that it is not its turn. The loop's timers are too coarse
for the shortest rests, so it rests a little longer, and then several go on one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic_ns
from typing import Protocol

from laissez.exchange.allowance import NS_PER_S
from laissez.service.strangers import Payer

REST_NS_LEAST = 2_000_000
"""The loop's timers know nothing shorter."""


class Waiting(Protocol):
    def go_on(self) -> None:
        """It is this one's turn; it is in the queue no more."""


class PayersQueue:
    def __init__(self) -> None:
        self._waiting: dict[Payer, dict[Waiting, None]] = {}
        self._next: asyncio.Handle | None = None
        self._next_at = 0

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def length(self, payer: Payer) -> int:
        """How many wait for this payer."""
        return len(self._waiting.get(payer, ()))

    def join(self, payer: Payer, connection: Waiting) -> None:
        self._waiting.setdefault(payer, {})[connection] = None
        if self._next is None or payer.rests_until < self._next_at:
            self._call_next()

    def leave(self, payer: Payer, connection: Waiting) -> None:
        """It has gone without waiting for its turn."""
        waiting = self._waiting.get(payer)
        if waiting is not None:
            waiting.pop(connection, None)
            if not waiting:
                del self._waiting[payer]

    def _call_next(self) -> None:
        """When the first of those who wait has paid back."""
        loop = asyncio.get_running_loop()
        if self._next is not None:
            self._next.cancel()
        self._next_at = min(payer.rests_until for payer in self._waiting)
        rest_ns = self._next_at - monotonic_ns()
        call: Callable[[], None] = self._take_turn
        if rest_ns > 0:
            self._next = loop.call_later(max(rest_ns, REST_NS_LEAST) / NS_PER_S, call)
        else:
            self._next = loop.call_soon(call)

    def _take_turn(self) -> None:
        self._next = None
        now = monotonic_ns()
        payer = next((each for each in self._waiting if each.rests_until <= now), None)
        try:
            if payer is not None:
                waiting = self._waiting.pop(payer)
                connection = next(iter(waiting))
                del waiting[connection]
                if waiting:
                    self._waiting[payer] = waiting  # behind all others
                connection.go_on()
        finally:  # one that fails takes nobody with it
            if self._waiting and self._next is None:
                self._call_next()
