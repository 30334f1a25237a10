"""What a few seeds say about all of them: estimates with their 95% intervals.

**Means** have the interval of Student's t: the mean, plus or minus its quantile times the standard
error. The quantile is that of a table for up to ten degrees of freedom. Beyond, it is the normal
quantile with the first three terms of its expansion in 1/degrees (Abramowitz and Stegun, 26.7.5),
which is off by less than 0.0002 there.

**Pairs.** Two contracts play the same seeds, and a seed that is hard for one is hard for the other.
So it is the difference within each seed that counts. What is compared is given by seed, and has to
be of the same seeds.

**Lowering.** By how much degradation is lower: 1 - mean of one / mean of other. A ratio of means
has no simple formula; its interval is a bootstrap's. Seeds are drawn with replacement, as many as
there are, for both contracts at once; of the ratios that come out the middle 95% are the interval.
The draws are those of a stream of their own: the same numbers have the same interval, always.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist, fmean, stdev

import msgspec

from laissez.simulation.kernel.streams import stream

CONFIDENCE = 0.95
T_QUANTILES = (
    12.706205,
    4.302653,
    3.182446,
    2.776445,
    2.570582,
    2.446912,
    2.364624,
    2.306004,
    2.262157,
    2.228139,
)
"""The 0.975 quantiles of Student's t for 1, 2, ... degrees of freedom."""
RESAMPLES = 10_000


class Interval(msgspec.Struct, frozen=True):
    """An estimate and where it may lie; None is a side on which nothing is known to bound it."""

    estimate: float
    low: float | None
    high: float | None


def t_quantile(degrees: int) -> float:
    """Between minus this and plus this lies 95% of Student's t."""
    assert degrees >= 1, "the spread of a single value can't be known"
    if degrees <= len(T_QUANTILES):
        return T_QUANTILES[degrees - 1]
    z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    return (
        z
        + (z**3 + z) / (4 * degrees)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * degrees**3)
    )


def mean_interval(values: Sequence[float]) -> Interval:
    """The mean over seeds; of a single seed nothing bounds it."""
    mean = fmean(values)
    if len(values) == 1:
        return Interval(mean, None, None)
    margin = t_quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - margin, mean + margin)


def lowering(one: Mapping[int, float], other: Mapping[int, float]) -> Interval | None:
    """By seed: by which share of the other's the one's degradation is lower; None if the other has
    none at all, so that there is nothing to lower.

    A draw without any degradation of the other's says 0 if the one has none either, and else that
    nothing bounds the interval from below.
    """
    pairs = _pairs(one, other)
    if not any(its for _, its in pairs):
        return None
    estimate = _lower_by(pairs)
    if len(pairs) == 1:
        return Interval(estimate, None, None)
    chance = stream(0, "bootstrap", len(pairs))
    drawn = sorted(_lower_by(chance.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
    outside = round(RESAMPLES * (1 - CONFIDENCE) / 2)
    low, high = drawn[outside], drawn[-1 - outside]
    return Interval(
        estimate, low if math.isfinite(low) else None, high if math.isfinite(high) else None
    )


def ratio(one: Mapping[int, float], other: Mapping[int, float]) -> Interval | None:
    """By seed: how many times the other's the one's is; None if the other has nothing at all."""
    found = lowering(one, other)
    if found is None:
        return None
    low = None if found.high is None else 1 - found.high
    high = None if found.low is None else 1 - found.low
    return Interval(1 - found.estimate, low, high)


def quantile(values: Sequence[float], share: float) -> float:
    """Below which this share of the values lies, on the straight line between neighbours."""
    ordered = sorted(values)
    at = share * (len(ordered) - 1)
    below = math.floor(at)
    low, high = ordered[below], ordered[math.ceil(at)]
    return min(high, low + (high - low) * (at - below))


def _pairs(one: Mapping[int, float], other: Mapping[int, float]) -> list[tuple[float, float]]:
    assert one.keys() == other.keys(), "only what was played with the same seeds can be paired"
    return [(one[seed], other[seed]) for seed in sorted(one)]


def _lower_by(pairs: Sequence[tuple[float, float]]) -> float:
    mine = sum(pair[0] for pair in pairs)
    its = sum(pair[1] for pair in pairs)
    if its:
        return 1 - mine / its
    return -math.inf if mine else 0.0
