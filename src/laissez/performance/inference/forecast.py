"""What will be asked next, from what was asked before.

A Kalman filter with a level and a trend: each observation moves both towards what was seen, by as
much as the noise of the observation and the restlessness of the level warrant. Only the ratios of
these variances matter, so one setting does for requests per second and for tokens alike. Time is
counted in intervals; an observation over part of an interval is noisier in proportion, and counts
for less. A forecast is for one interval after the last observation, and never negative.

The constant predictor expects what it saw last.
"""

from __future__ import annotations

import msgspec

from laissez.performance.inference.load import Load

# Defaults of the planner of NVIDIA Dynamo (Apache-2.0, as documented in 2026-08).
LEVEL_VARIANCE = 1.0
TREND_VARIANCE = 0.1
NOISE_VARIANCE = 10.0
POINTS_MIN = 5
"""Until there are so many observations, the last one is the forecast."""


class Kalman(msgspec.Struct):
    level: float = 0.0
    trend: float = 0.0
    """Per interval."""
    level_variance: float = NOISE_VARIANCE
    covariance: float = 0.0
    trend_variance: float = NOISE_VARIANCE
    points: int = 0
    last: float = 0.0

    def observe(self, value: float, intervals: float = 1.0) -> None:
        """The mean over the time since the last observation; of no time at all, it says nothing."""
        if intervals <= 0:
            return
        self.last = value
        self.points += 1
        if self.points == 1:
            self.level = value
            return
        self.level += self.trend * intervals
        spread = self.covariance + intervals * self.trend_variance
        self.level_variance += intervals * (self.covariance + spread + LEVEL_VARIANCE)
        self.covariance = spread
        self.trend_variance += intervals * TREND_VARIANCE

        surprise = value - self.level
        total = self.level_variance + NOISE_VARIANCE / intervals
        level_gain, trend_gain = self.level_variance / total, self.covariance / total
        self.level += level_gain * surprise
        self.trend += trend_gain * surprise
        self.trend_variance -= trend_gain * self.covariance
        self.covariance *= 1 - level_gain
        self.level_variance *= 1 - level_gain

    def next(self) -> float:
        if self.points < POINTS_MIN:
            return max(0.0, self.last)
        return max(0.0, self.level + self.trend)


class LoadForecast(msgspec.Struct):
    """Requests per second, prompt and output tokens, each forecast on its own."""

    is_constant: bool = False
    rate: Kalman = msgspec.field(default_factory=Kalman)
    prompt: Kalman = msgspec.field(default_factory=Kalman)
    output: Kalman = msgspec.field(default_factory=Kalman)

    def observe(self, load: Load, intervals: float = 1.0) -> None:
        self.rate.observe(load.requests_per_s, intervals)
        if load.requests_per_s > 0:  # without requests their lengths say nothing
            self.observe_lengths(load, intervals)

    def observe_lengths(self, load: Load, intervals: float = 1.0) -> None:
        self.prompt.observe(load.prompt_tokens, intervals)
        self.output.observe(load.output_tokens, intervals)

    def next(self, expected: Load) -> Load:
        """The load of the next interval; of what was never seen, what was expected."""
        rate, prompt, output = (
            (filtered.last if self.is_constant else filtered.next()) if filtered.points else usual
            for filtered, usual in (
                (self.rate, expected.requests_per_s),
                (self.prompt, expected.prompt_tokens),
                (self.output, expected.output_tokens),
            )
        )
        return Load(rate, max(1.0, prompt), max(1.0, output))
