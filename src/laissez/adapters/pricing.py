"""What a node is worth an hour, as a bid to get it and as a limit to keep it.

A node changes utility; utility is worth money; so the node has a value an hour. To move costs
value too: while a node starts nothing runs on it, and what was done since the last checkpoint is
done again. That loss is spread over a horizon, the time that a move should take to pay for itself.
It makes a bid lower, because the loss comes with the node, and a limit higher, because it comes
with the loss of the node:

    bid   = value - switching cost
    limit = (value + switching cost) * (1 + hysteresis)

What stands still while a node is replaced may be more than what it does: if one GPU of a training
job is lost, all wait. And nobody needs to wait for a move to pay for itself if the work is done
before that: near its end, a loss is spread over what is left, and a holder holds on.

Right after a checkpoint there is little to do again, so that is when a holder's limit is lowest,
and when it moves if it has to. The hysteresis is for values that go up and down, such as that of a
service with its load: it keeps two tenants from exchanging places over a trifle. Where the value is
steady, and all that a move costs is reckoned, there is no need of it.

The variant `paper` follows the listing of the LaissezCloud paper (2026) to the letter: it takes
the reconfiguration time times the current rate off the value both to grow and to shrink. A holder
then sells below the value of what it holds. It is kept for comparison.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from laissez.performance.application import US_PER_S

Variant = Literal["laissez", "paper"]

HORIZON_S = 600.0
HYSTERESIS = 0.25
RESTART_MARGIN_S = 60.0
SPREAD_S_MIN = 10.0


class Pricing(msgspec.Struct, frozen=True):
    """The rules by which value becomes price."""

    variant: Variant = "laissez"
    horizon_s: float = HORIZON_S
    hysteresis: float = HYSTERESIS

    def changed(self, horizon_us: int | None, hysteresis: float | None) -> Pricing:
        """As people say it; what they leave out stays as it is."""
        return msgspec.structs.replace(
            self,
            horizon_s=self.horizon_s if horizon_us is None else horizon_us / US_PER_S,
            hysteresis=self.hysteresis if hysteresis is None else hysteresis,
        )

    def bid(
        self,
        value: float,
        cold_start_s: float,
        rate: float = 0.0,
        ends_in_s: float | None = None,
    ) -> float:
        """What to offer for a node of this value an hour; `rate` is what it costs now, `ends_in_s`
        how long it would be needed."""
        spread_s = self._spread_s(cold_start_s)
        if self.variant == "paper":
            return value - rate * cold_start_s / spread_s
        if ends_in_s is not None:
            spread_s = min(spread_s, max(ends_in_s, SPREAD_S_MIN))
        return value * max(0.0, 1 - cold_start_s / spread_s)

    def idle(self, value: float, cold_start_s: float, ends_in_s: float | None = None) -> float:
        """What a node of this value that nobody else wants may cost. It is not lost soon, so its
        start has as long to pay for itself as it is needed."""
        if ends_in_s is None:
            return value
        return value * max(0.0, 1 - cold_start_s / max(ends_in_s, SPREAD_S_MIN))

    def limit(
        self,
        value: float,
        restart_s: float,
        redone_s: float,
        rate: float = 0.0,
        *,
        at_stake: float | None = None,
        ends_in_s: float | None = None,
    ) -> float:
        """Up to what rate to keep a node.

        `restart_s` is how long its successor takes to start, `redone_s` the work that would be lost
        with the node now, `at_stake` the value of what stands still meanwhile (its own, if it is
        not given), `ends_in_s` how long it is still needed.
        """
        spread_s = self._spread_s(restart_s)
        if self.variant == "paper":
            return value - rate * restart_s / spread_s
        if ends_in_s is not None:
            spread_s = min(spread_s, max(ends_in_s, SPREAD_S_MIN))
        lost = (value if at_stake is None else max(value, at_stake)) * (restart_s + redone_s)
        return (value + lost / spread_s) * (1 + self.hysteresis)

    def _spread_s(self, restart_s: float) -> float:
        return max(self.horizon_s, restart_s + RESTART_MARGIN_S)
