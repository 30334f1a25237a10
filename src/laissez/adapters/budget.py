"""A budget that is paced, and that is never overrun.

Pacing: if a spend would cost more until the end than is left, what it buys is worth less by that
ratio, so that money runs out at the end and not before. Each node is paced by the spend that it
implies, its own rate and those of the nodes that come before it: the first ones are worth their
full value, and those for which there is no money little. Where there is no end there is no pace.

The wall: until the adapter steps again it may be charged its limits, and the limits of the orders
that fill meanwhile, but never more. So before each step ends, limits and orders are cut (`wall`)
until they can be paid for twice the time to the next step, which leaves room for a step that comes
late and for changes that were too small to be sent.
"""

from __future__ import annotations

import msgspec

from laissez.adapters.view import MarketView
from laissez.model.values import CHARGE_UNITS_PER_MICRO_DOLLAR

STEPS_COVERED = 2


class Budget(msgspec.Struct, frozen=True):
    """What may be spent, and until when it should last (None: as long as it lasts)."""

    total_micros: int
    ends_us: int | None = None

    def left(self, view: MarketView) -> int:
        """What is left, in the market's unit of charge."""
        return self.total_micros * CHARGE_UNITS_PER_MICRO_DOLLAR - view.charge

    def pace(self, view: MarketView, spend_micros_per_hour: int) -> float:
        """By how much values shrink so that the budget bears this spend to its end: 0 to 1."""
        left = self.left(view)
        if left <= 0:
            return 0.0
        if self.ends_us is None:
            return 1.0
        projected = spend_micros_per_hour * (self.ends_us - view.at_us)
        return 1.0 if projected <= left else left / projected

    def affordable_rate(self, view: MarketView, period_us: int, owed: int = 0) -> int:
        """The sum of limits, in micro-dollars per hour, that the wall allows; `owed` is spoken for
        already, in the market's unit of charge."""
        return max(0, self.left(view) - owed) // (STEPS_COVERED * period_us)
