"""What falls due in thousands acts in parts.

Nothing may come before what has fallen due, so if that is very much, everybody who wants a change
waits for it; but nobody else has to. It acts in parts of `DUE_AT_ONCE` then, each an entry of its
own and executed in a turn of its own: between two of them questions are answered, from a market
that is at the instant of what acted last. A tenant may have all its orders expire at one instant:
one entry for 20,000 of them held everything up for 60 ms, and was a message of more than a
megabyte.

`PARTS_AT_ONCE` of them share a sync. Streams wait meanwhile, so that it is over sooner: sent
between two parts, to ninety connections, they made changes wait four times as long. But a disk may
stall, and what was told before must not stand still for that: after `DISK_S` of it they go on.

What is less than that acts with the command that comes next. But whoever sent that pays for its
time, and must not pay for what others let expire: so `MUCH_DUE` things and more act in an entry of
the clock's before it, in the same group. So does a falling floor: a single step of it may hand
thousands of leaves to those who wait for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from laissez.exchange.records import Entry
from laissez.exchange.sequencing import LetSomeTimePass
from laissez.exchange.tickets import CLOCK, OwnTicket
from laissez.exchange.venue import Venue

DUE_AT_ONCE = 1_000
PARTS_AT_ONCE = 5
DISK_S = 0.05
MUCH_DUE = 100


class Parts:
    """`act` executes one part, told its place in the journal and how many of its group are left;
    it says whether these may follow."""

    def __init__(self, venue: Venue, act: Callable[[int, Entry, int], bool]) -> None:
        self._venue = venue
        self._act = act
        self._loop = asyncio.get_running_loop()
        self._are_left = False
        self._disk_until_s = 0.0

    @property
    def are_acting(self) -> bool:
        """Are there some to act, now or as soon as the disk has them?"""
        return self._are_left or self._loop.time() < self._disk_until_s

    def due(self, at: int) -> list[OwnTicket]:
        """What has to act before anything else can be done at an instant, if it is very much: to be
        handed to the disk. The last part of it comes with what waits."""
        due = self._venue.count_due(at, PARTS_AT_ONCE * DUE_AT_ONCE + 1)
        part = OwnTicket(CLOCK, LetSomeTimePass(DUE_AT_ONCE))
        parts = [part] * ((due - 1) // DUE_AT_ONCE)
        self._disk_until_s = self._loop.time() + DISK_S if parts else 0.0
        return parts

    def is_much_due(self, at: int) -> bool:
        """Would who comes next pay for more than its own, if time passed with its command?"""
        venue = self._venue
        return venue.count_due(at, MUCH_DUE) >= MUCH_DUE or venue.market.is_step_due(at)

    def act(self, first: int, entries: list[Entry]) -> None:
        """Execute the first of these entries, and each of the others in a turn of its own."""
        left = len(entries) - 1
        self._are_left, self._disk_until_s = left > 0, 0.0
        if not self._act(first, entries[0], left):
            self._are_left = False
        elif left:
            self._loop.call_soon(self.act, first + 1, entries[1:])
