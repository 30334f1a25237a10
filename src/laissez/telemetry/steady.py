"""From the last good reading and the time to a level: what to act on, also when data is missing.

Up to `stale_after_us` after a reading its value holds. Then it moves in a straight line, over
`drift_us`, to a default that is safe, and stays there. So while nothing is read the level never
leaves the span between the last value and the default, and never moves faster than that line.

Before anything was read there is nothing to hold. For as long as a reading would be held the level
is only awaited: whoever acts on it had better leave things as they are.
"""

import math
from typing import Literal, NamedTuple

from msgspec import Struct

from laissez.telemetry.source import BadTelemetry, Reading, seconds

Freshness = Literal["awaited", "fresh", "held", "drifting", "default"]
"""Not read yet; read just now; not read now, but not long ago; on the way to the default; there."""


ROUNDING = 0.001


class Level(NamedTuple):
    """A value to act on, and how far to trust it; unless it is fresh, a sentence says why not.
    `read_us` is the instant of which the last reading is true."""

    value: float
    freshness: Freshness
    sentence: str | None = None
    read_us: int | None = None


class Steady(Struct, frozen=True, kw_only=True):
    """A reading outside of `least` to `most` counts as missing; one that is outside by no more than
    sums are rounded by, a share of 1.0001, is the bound."""

    stale_after_us: int
    drift_us: int
    default: float
    least: float | None = None
    most: float | None = None

    def __post_init__(self) -> None:
        if self.stale_after_us < 0 or self.drift_us <= 0:
            raise BadTelemetry("a drift needs some time, and no value is stale before it is read")
        sentence = self.objection(self.default)
        if sentence:
            raise BadTelemetry(f"the default {sentence}; take another")

    def objection(self, value: float) -> str | None:
        """Why a value counts as missing, as the end of a sentence."""
        if not math.isfinite(value):
            return f"{value} is no number"
        if self.least is not None and value < self.least:
            return f"{value:g} is below {self.least:g}"
        if self.most is not None and value > self.most:
            return f"{value:g} is above {self.most:g}"
        return None

    def rounded(self, value: float) -> float:
        """The value, or the bound that it is beyond by a trifle."""
        trifle = ROUNDING * max(abs(self.least or 0.0), abs(self.most or 0.0))
        for bound in (self.least, self.most):
            if bound is not None and abs(value - bound) <= trifle and self.objection(value):
                return bound
        return value

    def level(
        self,
        last: Reading | None,
        at_us: int,
        failure: str | None = None,
        *,
        asked_us: int | None = None,
    ) -> Level:
        """The level at an instant; `failure` says why there is no newer reading than the last, and
        `asked_us` when the first one was asked for."""
        if last is None:
            return self._unread(at_us, failure or "nothing was read yet", asked_us)
        age_us = max(0, at_us - last.at_us)
        stale_us = age_us - self.stale_after_us
        if stale_us <= 0:
            if failure is None:
                return Level(last.value, "fresh", None, last.at_us)
            sentence = f"{failure}; {last.value:g} is held for now"
            return Level(last.value, "held", sentence, last.at_us)
        reason = failure or f"the last reading is {seconds(age_us)} old"
        if stale_us >= self.drift_us:
            sentence = f"{reason}; the default {self.default:g} is taken"
            return Level(self.default, "default", sentence, last.at_us)
        sentence = f"{reason}; moving from {last.value:g} to the default {self.default:g}"
        return Level(self._on_the_way(last.value, stale_us), "drifting", sentence, last.at_us)

    def _unread(self, at_us: int, reason: str, asked_us: int | None) -> Level:
        if asked_us is not None and at_us - asked_us < self.stale_after_us:
            waited = seconds(self.stale_after_us)
            sentence = f"{reason}; what depends on it stays as it is, for up to {waited}"
            return Level(self.default, "awaited", sentence)
        return Level(self.default, "default", f"{reason}; the default {self.default:g} is taken")

    def _on_the_way(self, start: float, stale_us: int) -> float:
        done = stale_us / self.drift_us
        value = start * (1 - done) + self.default * done
        # Rounding must not leave the span.
        return min(max(value, min(start, self.default)), max(start, self.default))
