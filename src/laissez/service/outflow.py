"""Streams go out in turns.

Something that happens may be told to hundreds of connections, and each of them costs a copy and a
system call. All of them at once would hold up whatever else has come in meanwhile; so they wait in
a queue, and after a few milliseconds of them it is the others' turn. While everybody who wants a
change has to wait for what has fallen due, streams wait as well, so that it is over sooner.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from time import monotonic_ns
from typing import Protocol

from laissez.exchange.allowance import TURN_NS

WAIT_S = 0.002


class Subscriber(Protocol):
    def flush_pushed(self) -> None:
        """Send what was pushed."""


class Outflow:
    def __init__(self, has_to_wait: Callable[[], bool] = lambda: False) -> None:
        self._has_to_wait = has_to_wait
        self._loop = asyncio.get_running_loop()
        self._waiting: OrderedDict[Subscriber, None] = OrderedDict()
        self._is_due = False

    def add(self, subscriber: Subscriber) -> None:
        """Something was pushed to a subscriber; one that waits already keeps its place."""
        self._waiting[subscriber] = None
        self._take_turn_soon()

    def _take_turn_soon(self) -> None:
        if not self._is_due and self._waiting:
            self._is_due = True
            if self._has_to_wait():
                self._loop.call_later(WAIT_S, self._take_turn)
            else:
                self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_due = False
        ends = monotonic_ns() + TURN_NS
        try:
            while self._waiting and not self._has_to_wait():
                self._waiting.popitem(last=False)[0].flush_pushed()
                if monotonic_ns() > ends:
                    break
        finally:  # one that fails takes nobody with it
            self._take_turn_soon()
