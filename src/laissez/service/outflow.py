"""Streams go out in turns.

Something that happens may be told to hundreds of connections, and each of them costs a copy and a
system call. All of them at once would hold up whatever else has come in meanwhile; so they wait in
a queue, and after a few milliseconds of them it is the others' turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic_ns
from typing import Protocol

TURN_NS = 2_000_000


class Subscriber(Protocol):
    def flush_pushed(self) -> None:
        """Send what was pushed."""


class Outflow:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Subscriber] = deque()
        self._is_due = False

    def add(self, subscriber: Subscriber) -> None:
        """Something was pushed to a subscriber that has sent all before."""
        self._waiting.append(subscriber)
        self._take_turn_soon()

    def _take_turn_soon(self) -> None:
        if not self._is_due and self._waiting:
            self._is_due = True
            self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_due = False
        ends = monotonic_ns() + TURN_NS
        try:
            while self._waiting:
                self._waiting.popleft().flush_pushed()
                if monotonic_ns() > ends:
                    break
        finally:  # one that fails takes nobody with it
            self._take_turn_soon()
