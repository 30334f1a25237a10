"""The clock: rounds of one operation, each call timed by itself.

What must happen between two calls (a change before a quote, a new order in the place of the one
that was filled) is off the clock. The first round warms up and is dropped. Operations per second
are those of the best round, because whatever else the machine does can only make a round slower;
percentiles are over all rounds, because an operation that is slow now and then must show. The
cost of reading the clock, some 50 ns a call, is not subtracted. `interruptions` counts how often
the kernel let another process run during the rounds: each makes one call slower by milliseconds,
so the highest percentiles mean little where there are many.
"""

import gc
from collections.abc import Callable
from resource import RUSAGE_SELF, getrusage

import msgspec

Samples = dict[str, list[int]]
"""Per operation, how many nanoseconds each call took."""


class Timing(msgspec.Struct, frozen=True):
    per_second: int
    p50_ns: int
    p99_ns: int
    p999_ns: int
    max_ns: int
    samples: int
    interruptions: int
    rounds_per_second: tuple[int, ...]


def measure(operation: Callable[[], Samples], *, rounds: int) -> dict[str, Timing]:
    """Warm up, then time each operation over several rounds."""
    taken: list[Samples] = []
    interrupted = 0
    for number in range(rounds + 1):
        with_collector_frozen()
        before = interruptions()
        samples = operation()
        if number > 0:
            taken.append(samples)
            interrupted += interruptions() - before
    return {name: summary([samples[name] for samples in taken], interrupted) for name in taken[0]}


def interruptions() -> int:
    return getrusage(RUSAGE_SELF).ru_nivcsw


def with_collector_frozen() -> None:
    """From here on the collector neither runs nor looks at what there is."""
    gc.collect()
    gc.freeze()
    gc.disable()


def summary(rounds: list[list[int]], interrupted: int) -> Timing:
    per_second = tuple(len(taken) * 1_000_000_000 // max(1, sum(taken)) for taken in rounds)
    samples = sorted(nanoseconds for taken in rounds for nanoseconds in taken)

    def percentile(per_mille: int) -> int:
        return samples[min(len(samples) - 1, len(samples) * per_mille // 1_000)]

    return Timing(
        per_second=max(per_second),
        p50_ns=percentile(500),
        p99_ns=percentile(990),
        p999_ns=percentile(999),
        max_ns=samples[-1],
        samples=len(samples),
        interruptions=interrupted,
        rounds_per_second=per_second,
    )
