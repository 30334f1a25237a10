"""What a service knows of its load: what is asked now, and what it expects next.

The load is measured, each reading telling the means since the one before; or it is played from a
trace. A reading need not tell everything: without a rate it is one of the lengths, and a length of
less than a token is that of no request, and says nothing. Of a trace the forecast is shown the
means of every interval that is over. It never sees the present interval, let alone a later one.

Load that comes in bursts falls to nothing and comes back sooner than a node that was given up. So
what a service prepares for is the highest rate that was forecast in the last while, not the last.
But a node that only the highest rate needs is idle most of the time: what it is worth depends on
how often such rates come, and so all that were forecast in the last while are remembered.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from laissez.performance.application import US_PER_S
from laissez.performance.inference.forecast import LoadForecast
from laissez.performance.inference.load import Load, LoadTrace
from laissez.performance.inference.problem import InferenceProblem

NEVER_US = 1 << 62
RATE, PROMPT, OUTPUT = "requests_per_s", "prompt_tokens", "output_tokens"
READ = frozenset((RATE, PROMPT, OUTPUT))
"""What is understood of a reading."""


class LoadMemory(msgspec.Struct):
    """All that is remembered of the load."""

    forecast: LoadForecast
    now: Load | None = None
    """What is asked at present."""
    rate_us: int | None = None
    """When a rate was last read."""
    lengths_us: int | None = None
    """When anything was."""
    interval_from_us: int = 0
    interval_sums: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Requests, prompt tokens and output tokens since the interval began."""
    recent: list[tuple[int, float]] = []
    """When which rate was forecast, in the last while."""


class Demand:
    def __init__(
        self,
        trace: LoadTrace | None,
        *,
        expected: Load,
        interval_us: int,
        keep_us: int,
        is_constant: bool,
    ) -> None:
        self._trace = trace
        self._expected = expected
        self._interval_us = interval_us
        self._keep_us = keep_us
        self.seen = LoadMemory(LoadForecast(is_constant=is_constant))
        if trace is not None:
            self.seen.interval_from_us = trace.steps[0][0]

    @property
    def starts_us(self) -> int | None:
        return None if self._trace is None else self._trace.steps[0][0]

    def is_over(self, at_us: int) -> bool:
        """A trace that ends is over; a load that is measured never is."""
        end_us = None if self._trace is None else self._trace.end_us
        return end_us is not None and at_us >= end_us

    def forecast(self) -> Load:
        """The load of the next interval."""
        return self.seen.forecast.next(self._expected)

    def to_prepare_for(self) -> Load:
        """The same, at the highest rate that was forecast in the last while."""
        ahead = self.forecast()
        rate_per_s = max(self.recent_rates())
        return Load(rate_per_s, ahead.prompt_tokens, ahead.output_tokens)

    def recent_rates(self) -> list[float]:
        """The rates that were forecast in the last while, the present forecast last."""
        earlier = [rate for _, rate in self.seen.recent[:-1]]
        return [*earlier, self.forecast().requests_per_s]

    def present(self) -> Load:
        """What is asked now; when it is quiet, no requests of the lengths to come."""
        ahead = self.forecast()
        return self.seen.now or Load(0.0, ahead.prompt_tokens, ahead.output_tokens)

    def told_by(self, readings: Mapping[str, float]) -> Load:
        """The load that readings tell of, or InferenceProblem; what they leave out is as it was."""
        if self._trace is not None:
            raise InferenceProblem("this service plays a trace: give a trace or measure, not both")
        usual = self.seen.now or self._expected
        return Load(
            readings.get(RATE, usual.requests_per_s),
            _length(readings.get(PROMPT), usual.prompt_tokens),
            _length(readings.get(OUTPUT), usual.output_tokens),
        )

    def measure(self, load: Load, at_us: int, *, has_rate: bool) -> None:
        """A load was read, or only the lengths of its requests."""
        seen = self.seen
        if has_rate:
            self._observe(load, self._since_us(seen.rate_us, at_us), at_us)
            seen.rate_us = at_us
        else:
            span_us = self._since_us(seen.lengths_us, at_us)
            seen.forecast.observe_lengths(load, span_us / self._interval_us)
        seen.lengths_us = at_us
        if has_rate or seen.now is not None:
            seen.now = load

    def _since_us(self, then_us: int | None, at_us: int) -> int:
        return self._interval_us if then_us is None else at_us - then_us

    # Playing a trace --------------------------------------------------------------------------

    def changes_us(self, at_us: int) -> int:
        """When it will change by itself: the load, or an interval that ends."""
        if self._trace is None or self.is_over(at_us):
            return NEVER_US
        following = self._trace.number_at(at_us) + 1
        changes = [self.seen.interval_from_us + self._interval_us]
        if following < len(self._trace.steps):
            changes.append(self._trace.steps[following][0])
        if self._trace.end_us is not None:
            changes.append(self._trace.end_us)
        return min(changes)

    def count(self, span_us: int) -> None:
        """So much time has passed under the present load."""
        now = self.seen.now
        if self._trace is None or now is None:
            return
        came = now.requests_per_s * span_us / US_PER_S
        requests, prompts, outputs = self.seen.interval_sums
        self.seen.interval_sums = (
            requests + came,
            prompts + came * now.prompt_tokens,
            outputs + came * now.output_tokens,
        )

    def turn(self, at_us: int) -> bool:
        """What changes by itself at this instant; whether the forecast does."""
        if self._trace is None:
            return False
        number = self._trace.number_at(at_us)
        is_quiet = number < 0 or self.is_over(at_us)
        self.seen.now = None if is_quiet else Load(*self._trace.steps[number][1:])
        if at_us < self.seen.interval_from_us + self._interval_us:
            return self.is_over(at_us)
        self._close_interval(at_us)
        return True

    def _close_interval(self, at_us: int) -> None:
        requests, prompts, outputs = self.seen.interval_sums
        span_us = at_us - self.seen.interval_from_us
        means = Load(
            requests * US_PER_S / span_us,
            max(1.0, prompts / requests) if requests else 1.0,
            max(1.0, outputs / requests) if requests else 1.0,
        )
        self.seen.interval_from_us = at_us
        self.seen.interval_sums = (0.0, 0.0, 0.0)
        self._observe(means, span_us, at_us)

    def _observe(self, means: Load, span_us: int, at_us: int) -> None:
        self.seen.forecast.observe(means, span_us / self._interval_us)
        self.seen.recent = [
            (then_us, rate) for then_us, rate in self.seen.recent if then_us + self._keep_us > at_us
        ]
        self.seen.recent.append((at_us, self.forecast().requests_per_s))


def _length(told: float | None, usual: float) -> float:
    return usual if told is None or 0 <= told < 1 else told
