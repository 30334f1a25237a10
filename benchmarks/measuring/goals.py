"""What the market was meant to reach, and whether it did.

Goals are for the full scale on a quiet machine. A quick run has none.
"""

from collections.abc import Iterator

import msgspec

from measuring.figures import Figures
from measuring.operations import TRANSFER_AT_LIMIT

MILLISECOND_NS = 1_000_000

PER_SECOND_AT_LEAST = {
    10_240: {
        "place": 150_000,
        "cancel": 200_000,
        "set_limit": 100_000,
        "transfer": 50_000,
        TRANSFER_AT_LIMIT: 50_000,
        "quote": 20_000,
    },
    1_048_576: {
        "place": 75_000,
        "cancel": 100_000,
        "set_limit": 50_000,
        "transfer": 25_000,
        TRANSFER_AT_LIMIT: 25_000,
    },
}
P999_NS_BELOW = {10_240: 1 * MILLISECOND_NS}

BYTES_AT_MOST = {
    "leaf_held": 768,
    "order_among_others": 600,
    "order_alone_at_host": 900,
    "order_alone_at_leaf": 900,
}

MASS_NS_BELOW = {
    "bills, one holding each": 1_000 * MILLISECOND_NS,
    "bills, many holdings each": 1_000 * MILLISECOND_NS,
    "expiry": 100 * MILLISECOND_NS,
    "floor falls, orders at the root": 20 * MILLISECOND_NS,
    "floor falls, orders at all depths": 20 * MILLISECOND_NS,
}


class Verdict(msgspec.Struct, frozen=True):
    what: str
    unit: str
    goal: int
    measured: int
    met: bool


def judge(figures: Figures) -> tuple[Verdict, ...]:
    """Every goal that this run has a figure for."""
    if figures.quick:
        return ()
    return (*_of_operations(figures), *_of_memory(figures), *_of_mass(figures))


def _of_operations(figures: Figures) -> Iterator[Verdict]:
    for leaves, size in figures.sizes.items():
        for name, goal in PER_SECOND_AT_LEAST.get(leaves, {}).items():
            measured = size.operations[name].per_second
            what = f"{name} at {leaves:,} leaves"
            yield Verdict(what, "per second", goal, measured, measured >= goal)
        for name, timing in size.operations.items():
            if leaves in P999_NS_BELOW:
                goal = P999_NS_BELOW[leaves]
                what = f"p99.9 of {name} at {leaves:,} leaves"
                yield Verdict(what, "ns", goal, timing.p999_ns, timing.p999_ns < goal)


def _of_memory(figures: Figures) -> Iterator[Verdict]:
    for leaves, memory in figures.memory.items():
        for name, goal in BYTES_AT_MOST.items():
            measured: int = getattr(memory, name)
            what = f"{name.replace('_', ' ')} at {leaves:,} leaves"
            yield Verdict(what, "bytes", goal, measured, measured <= goal)


def _of_mass(figures: Figures) -> Iterator[Verdict]:
    for name, goal in MASS_NS_BELOW.items():
        measured = figures.mass[name].total_ns
        yield Verdict(name, "ns", goal, measured, measured < goal)
