"""What falls due while nobody speaks: timers of the market, and the end of a statement period.

The market acts on whatever falls due at its own instant, whenever it is told of a later one. So an
exchange that is silent has time pass when the next timer is due, by an entry of its own; and many
timers close together need few entries: after one, the next waits `PAUSE_S`, and lets all that
fell due meanwhile act at once, each at its instant.

If very much falls due at once, it acts in parts (`parts`).

A statement period ends after `settle_every_s`, or sooner where so much happens that the market
remembers more than `steps_kept` changes of pressure: it keeps them to explain what is open, and
they are most of what grows in a restless market.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from laissez.exchange.allowance import US_PER_S
from laissez.exchange.clock import Clock
from laissez.exchange.sequencing import LetTimePass
from laissez.exchange.venue import Venue
from laissez.model import CloseStatements

PAUSE_S = 0.05
RETRY_S = 1.0
# Counting the steps takes a millisecond in a large market.
CHANGES_BETWEEN_COUNTS = 10_000


class Due:
    def __init__(
        self,
        venue: Venue,
        clock: Clock,
        *,
        settle_every_s: float,
        steps_kept: int,
        is_busy: Callable[[], bool],
        hand_in: Callable[[LetTimePass | CloseStatements], None],
        on_error: Callable[[str, Exception], None],
    ) -> None:
        self._venue = venue
        self._market = venue.market
        self._clock = clock
        self._settle_every_s = settle_every_s
        self._steps_kept = steps_kept
        self._changes = 0
        self._is_busy = is_busy
        self._hand_in = hand_in
        self._on_error = on_error
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._not_before_s = 0.0
        self._is_over = False
        self._settles = True
        self._settling = self._loop.call_later(settle_every_s, self._settle)

    def after_group(self, changes: int) -> None:
        """Commands were executed or something fell due: time has passed, and the market remembers
        more."""
        self._changes += changes
        if self._changes >= CHANGES_BETWEEN_COUNTS:
            self._changes = 0
            if self._market.steps_remembered() > self._steps_kept:
                self._settling.cancel()
                self._settle()
        self.set_timer()

    def set_timer(self) -> None:
        """Wake up when the next thing falls due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._venue.next_timer()
        if due is not None and not self._is_over:
            wait_s = max(due - self._clock.now(), 0) / US_PER_S
            at_s = max(self._loop.time() + wait_s, self._not_before_s)
            self._timer = self._loop.call_at(at_s, self._fall_due)

    def try_later(self) -> None:
        """Time could not pass: the disk had no room."""
        if self._timer is None and not self._is_over:
            self._timer = self._loop.call_later(RETRY_S, self._fall_due)

    def _fall_due(self) -> None:
        self._timer = None
        try:
            due = self._venue.next_timer()
            if self._is_busy():
                return  # what is under way lets time pass, and sets the timer again
            if due is not None and due <= self._clock.now():
                self._not_before_s = self._loop.time() + PAUSE_S
                self._hand_in(LetTimePass())
            else:
                self.set_timer()
        except Exception as error:
            self._on_error("what falls due could not be told", error)

    def _settle(self) -> None:
        if not self._settles:
            return
        self._settling = self._loop.call_later(self._settle_every_s, self._settle)
        try:
            if self._market.tenants():
                self._hand_in(CloseStatements())
        except Exception as error:
            self._on_error("statements could not be closed", error)

    def stop_settling(self) -> None:
        self._settles = False
        self._settling.cancel()

    def cancel(self) -> None:
        self._is_over = True
        self.stop_settling()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
