"""Made-up traces that are like the real ones, for examples and tests that run without data.

A zone has a pressure, what others want against what there is: a normal variate that wanders. Spot
capacity is there while the pressure is below a level, which is chosen so that this is as often the
case as in the real zone. The pressure is a sum of variates that forget themselves over 0.2, 1, 5,
25 and 125 hours, with a weight for each. Short memories make many short spells, long ones make good
and bad days, and both together make spells that are the less likely to end the older they are, as
the real ones do.

Spells drawn one by one, independently, would not do: on the real traces, shuffling them lowers the
spread of availability over windows of 48 hours from 0.20 to 0.14, on average.

Traces of one folder and seed share a part of their pressure, and more of it if they are of one
region and resource: such zones run out together. A trace depends on seed, name and figures alone,
so that another zone beside it changes nothing, and a longer trace begins like a shorter one.

The figures were fitted to the availability traces of skypilot-org/spot-traces (Wu et al., "Can't
Be Late", NSDI 2024), looked at every ten minutes: the level from how often there was capacity, the
weights by least squares from how alike availability is at two instants, from ten minutes to five
days apart. So availability and the number of spells are kept; the rest follows. The spread over
windows of 48 hours comes out at 0.85 of the real one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from operator import mul
from statistics import NormalDist

import msgspec

from laissez.deadline.job import US_PER_HOUR
from laissez.deadline.traces import US_PER_DAY, BadTrace, SpotTrace

STEP_US = 600_000_000
"""Pressure changes in steps of ten minutes; ticks that are shorter see the same thing again."""

MEMORIES_US = (
    US_PER_HOUR // 5,
    US_PER_HOUR,
    5 * US_PER_HOUR,
    25 * US_PER_HOUR,
    125 * US_PER_HOUR,
)

SHARED_BY_ALL = 0.23
SHARED_BY_REGION = 0.55
"""The parts of the pressure that all zones of a folder share, and those of a region on top.

In the real traces, availability in two zones of a region correlates by 0.45 for the same resource
(8 pairs, 0.11 to 0.59), and by 0.08 in different regions (11 pairs). It takes shared parts of 0.78
and 0.23 to make it so. Different resources of a region have on average no more in common than
different regions (24 pairs, -0.08 to 0.36).
"""


class ZoneKind(msgspec.Struct, frozen=True):
    """One kind of zone; `weights`, one for each memory, add up to 1."""

    like: str
    availability: float
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not 0 < self.availability < 1:
            raise ValueError("availability must be between 0 and 1, and neither of them")
        if len(self.weights) != len(MEMORIES_US) or min(self.weights) < 0:
            raise ValueError(f"give {len(MEMORIES_US)} weights, each 0 or more")
        if not math.isclose(sum(self.weights), 1):
            raise ValueError(f"the weights add up to {sum(self.weights):g}; they must to 1")


SAMPLES: dict[str, ZoneKind] = {
    "rare": ZoneKind("aws-02-15-2023/us-east-1a_v100_1", 0.167, (0.05, 0.16, 0.47, 0.25, 0.07)),
    "scarce": ZoneKind("aws-10-26-2022/us-west-2a_k80_8", 0.326, (0.0, 0.13, 0.35, 0.21, 0.31)),
    "patchy": ZoneKind("aws-10-26-2022/us-west-2b_k80_8", 0.408, (0.01, 0.42, 0.33, 0.12, 0.12)),
    "restless": ZoneKind("aws-10-26-2022/us-west-2b_v100_8", 0.466, (0.34, 0.0, 0.13, 0.39, 0.14)),
    "fair": ZoneKind("aws-10-26-2022/us-west-2b_v100_1", 0.716, (0.02, 0.15, 0.55, 0.21, 0.07)),
    "good": ZoneKind("aws-10-26-2022/us-west-2a_v100_1", 0.793, (0.0, 0.1, 0.66, 0.24, 0.0)),
    "plentiful": ZoneKind("aws-02-15-2023/us-west-2c_v100_1", 0.891, (0.0, 0.2, 0.31, 0.2, 0.29)),
    "steady": ZoneKind("aws-02-15-2023/us-west-2b_v100_1", 0.905, (0.0, 0.01, 0.7, 0.12, 0.17)),
}
"""From scarce to plentiful."""


SAMPLE_ZONES = {
    "north-1a": "rare",
    "south-1a": "scarce",
    "south-1b": "patchy",
    "east-1a": "restless",
    "west-1a": "fair",
    "west-1b": "good",
    "west-2a": "plentiful",
    "west-2b": "steady",
}


def generate(fitted: ZoneKind, *, name: str, days: int, tick_us: int, seed: int) -> SpotTrace:
    """A trace of a zone of that kind; its name is `FOLDER/ZONE_RESOURCE`.

    The region of a zone is its name without the last letter, as in `us-west-2a`.
    """
    if days < 1 or not 0 < tick_us <= US_PER_DAY:
        raise BadTrace("generate at least a day, with a tick above 0 and of at most a day")
    folder, _, stem = name.rpartition("/")
    zone, _, resource = stem.partition("_")
    ticks = days * US_PER_DAY // tick_us
    steps = (ticks - 1) * tick_us // STEP_US + 1
    causes = {
        f"{seed}/{folder}": SHARED_BY_ALL,
        f"{seed}/{folder}/region {zone[:-1]}_{resource}": SHARED_BY_REGION,
        f"{seed}/{folder}/zone {zone}_{resource}": 1 - SHARED_BY_ALL - SHARED_BY_REGION,
    }
    pressure = _sum_of_causes(causes, fitted.weights)
    level = NormalDist().inv_cdf(fitted.availability)
    is_there = [next(pressure) < level for _ in range(steps)]
    return SpotTrace(
        name=name,
        zone=zone,
        resource=resource,
        kind="availability",
        nodes=1,
        tick_us=tick_us,
        counts=tuple(int(is_there[tick * tick_us // STEP_US]) for tick in range(ticks)),
    )


def sample_traces(*, days: int = 27, tick_us: int = STEP_US, seed: int = 1) -> list[SpotTrace]:
    """One zone of each kind, from scarce to plentiful, in five regions."""
    return [
        generate(SAMPLES[kind], name=f"generated/{zone}_gpu", days=days, tick_us=tick_us, seed=seed)
        for zone, kind in SAMPLE_ZONES.items()
    ]


def _sum_of_causes(parts: dict[str, float], weights: tuple[float, ...]) -> Iterator[float]:
    """A normal variate of variance 1, step by step, from causes with a stream of chance each."""
    streams = [_pressure(weights, random.Random(stream)) for stream in parts]
    scales = [math.sqrt(part) for part in parts.values()]
    for causes in zip(*streams, strict=True):
        yield sum(map(mul, scales, causes))


def _pressure(weights: tuple[float, ...], draws: random.Random) -> Iterator[float]:
    """A normal variate of variance 1, step by step, that forgets itself as the weights say."""
    keeps = [math.exp(-STEP_US / memory_us) for memory_us in MEMORIES_US]
    news = [math.sqrt(1 - keep * keep) for keep in keeps]
    scales = [math.sqrt(weight) for weight in weights]
    parts = [draws.gauss() for _ in MEMORIES_US]
    while True:
        yield sum(map(mul, scales, parts))
        parts = [
            keep * part + new * draws.gauss()
            for keep, part, new in zip(keeps, parts, news, strict=True)
        ]
