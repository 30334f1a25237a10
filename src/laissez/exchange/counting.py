"""Meters are read beside trading, so that they never have to be read for long.

What a holding owes is counted when it is asked for, or when the holding ends, and then from where
it was counted last. Where prices change often at scopes of many depths, a change that took
microseconds takes a tenth of a millisecond to count: for 512 holdings and 50,000 changes that was
seconds in which nobody was served, whenever a statement closed, their holder asked for the bill or
gave them back. No answer depends on how often it was counted before. So all holdings are read
beside trading, in rounds, by turns of two milliseconds.

When the next round is due is found by trying: what a round took more than reading it all again at
once, by the commands since the last one, is what a command costs in it; and so many may come as
cost little together, or several times what is lost by reading at all. What a bill took is split in
the same way: so much for reading its holdings at all, the rest was counting. Time is that of the
processor: on a busy machine nothing costs more.

The first round begins at once: what was executed again at a start has not been counted, and is more
than comes between two rounds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import thread_time_ns

from laissez.exchange.allowance import TURN_NS
from laissez.market import Market

LITTLE_NS = 10_000_000
"""So long may what is uncounted take to count, unless reading costs more than that anyway."""

READING_SHARE = 8
"""What is uncounted may cost so many times as much as reading at all, if that is not little."""

COMMANDS_LEAST, COMMANDS_MOST = 125, 4_000
READINGS_PER_COMMAND_MOST = 4
COMMANDS_AT_FIRST = 500
GROWTH = 4
READING_NS_PER_COMMAND = 500
"""So much may reading all holdings add to each command where there is little to count."""


class Counting:
    """`on_error` is told of a fault: what was half counted is a state that nobody knows."""

    def __init__(
        self,
        market: Market,
        *,
        on_error: Callable[[str, Exception], None],
        now_ns: Callable[[], int] = thread_time_ns,
    ) -> None:
        self._market = market
        self._on_error = on_error
        self._now_ns = now_ns
        self._loop = asyncio.get_running_loop()
        self._is_over = False
        self._turn: asyncio.Handle | None = None
        self.commands_between = COMMANDS_AT_FIRST
        self._commands = COMMANDS_AT_FIRST
        self._elsewhere_ns = 0
        self._elsewhere = 0
        self._begin(0)
        self.after_group(0)

    def _begin(self, commands: int) -> None:
        self._is_reading = False
        self._since_last = commands
        self._tenants: list[str] = []
        self._resources: list[str] = []
        self._read = 0
        self._took_ns = 0
        self._again_ns = 0

    def after_group(self, commands: int) -> None:
        """A group has been executed: there may be more to count."""
        self._commands += commands
        if not self._is_reading and self._commands >= self.commands_between:
            self._begin(self._commands)
            self._commands = 0
            self._is_reading = True
            self._tenants = list(self._market.tenants())
            self._take_turn_soon()

    def note_bill(self, holdings: int, took_ns: int) -> None:
        """Bills have read so many holdings, and counted what a round will not find any more."""
        self._elsewhere += holdings
        self._elsewhere_ns += took_ns

    def stop(self) -> None:
        self._is_over = True
        if self._turn is not None:
            self._turn.cancel()

    def _take_turn_soon(self) -> None:
        if not self._is_over:
            self._turn = self._loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        try:
            self._read_on()
        except Exception as error:
            self.stop()
            self._on_error("what is owed could not be counted", error)

    def _read_on(self) -> None:
        owed, now_ns = self._market.owed, self._now_ns
        begun, path, is_over = now_ns(), "", False
        while now_ns() - begun < TURN_NS and not is_over:
            if self._resources:
                path = self._resources.pop()
                owed(path)
                self._read += 1
            elif self._tenants:
                self._resources = list(self._market.holdings(self._tenants.pop()))
            else:
                is_over = True
        ended = now_ns()
        self._took_ns += ended - begun
        if path:
            owed(path)
            again_ns = now_ns() - ended
            self._again_ns = min(again_ns, self._again_ns or again_ns)
        if is_over:
            self._end_round()
        else:
            self._take_turn_soon()

    def _end_round(self) -> None:
        at_least_ns = self._read * self._again_ns
        bound_ns = max(LITTLE_NS, READING_SHARE * at_least_ns - LITTLE_NS)
        counted_here_ns = self._took_ns - at_least_ns
        counted_elsewhere_ns = self._elsewhere_ns - self._elsewhere * self._again_ns
        counting_ns = max(max(counted_here_ns, 0) + max(counted_elsewhere_ns, 0), 1)
        self._elsewhere_ns = self._elsewhere = 0
        between = self._since_last * bound_ns // counting_ns
        least = max(COMMANDS_LEAST, self._read // READINGS_PER_COMMAND_MOST)
        most = max(COMMANDS_MOST, at_least_ns // READING_NS_PER_COMMAND)
        # A quiet time must not hide for long what comes after it.
        growth = max(GROWTH * self.commands_between, most // GROWTH)
        self.commands_between = max(least, min(most, between, growth))
        self._is_reading = False
