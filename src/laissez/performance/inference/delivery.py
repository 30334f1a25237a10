"""What requests really get: the time they take, and how many are within the objective.

In each stretch of time in which neither load nor nodes change, prefill is a pool of servers with
a line before it and decode a pool of places (`queueing.py`). The nodes have the roles that suit
the load, so both phases are equally busy. Who comes too late for the first token, or would make
decode steps too long, misses the objective. The concurrency in decode is the fixed point of what
comes in and how long a step takes with so many sequences.

Those who miss it are served with what capacity is left, after those who can still be in time, and
give up when they have waited for too long: a backlog that flows from one stretch into the next.
Every request that came is within the objective, served late, dropped, or still waiting.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from laissez.performance.application import US_PER_S
from laissez.performance.inference.capacity import ROUNDING, Pool
from laissez.performance.inference.load import Load
from laissez.performance.inference.objective import Objective
from laissez.performance.inference.profile import MS_PER_S
from laissez.performance.inference.queueing import blocked_share, late_share, waits_share


class Quality(NamedTuple):
    """How requests fare in a steady state."""

    within_share: float
    """Of the requests, those within their objective."""
    capacity_per_s: float
    ttft_ms: float
    """Mean of those who are in time, waiting included; infinite if nobody is served."""
    itl_ms: float
    concurrency: float
    """Sequences in decode at once."""


NOTHING = Quality(0.0, 0.0, float("inf"), float("inf"), 0.0)


def quality(pool: Pool, counts: tuple[int, ...], load: Load, objective: Objective) -> Quality:
    roles = pool.roles(counts)
    capacity = roles.requests_per_s
    if capacity <= 0:
        return NOTHING
    rates = pool.rates
    unhindered_ms = (
        sum(
            nodes * rate.prefills_per_s * rate.ttft_ms
            for nodes, rate in zip(roles.prefilling, rates, strict=True)
        )
        / capacity
    )
    servers = max(1, int(sum(roles.prefilling) + ROUNDING))
    spare_s = max(0.0, objective.ttft_ms - unhindered_ms) / MS_PER_S
    arrivals = load.requests_per_s
    late = late_share(servers, capacity, arrivals, spare_s)

    places = concurrency = 0.0
    busy = arrivals * (1 - late) / capacity
    for nodes, held, rate in zip(roles.prefilling, counts, rates, strict=True):
        places += (held - nodes) * rate.places
        tokens_per_s = busy * rate.decodes_per_s * load.output_tokens
        concurrency += (held - nodes) * rate.curve.batch_at(tokens_per_s)
    blocked = blocked_share(max(1, int(places + ROUNDING)), concurrency)

    wait_s = spare_s
    if arrivals < capacity:
        waits = waits_share(servers, arrivals / capacity * servers)
        wait_s = min(spare_s, waits / (capacity - arrivals))
    decoded_per_s = arrivals * (1 - late) * load.output_tokens
    return Quality(
        within_share=(1 - late) * (1 - blocked),
        capacity_per_s=capacity,
        ttft_ms=unhindered_ms + wait_s * MS_PER_S,
        itl_ms=concurrency / decoded_per_s * MS_PER_S if decoded_per_s else 0.0,
        concurrency=concurrency,
    )


class RequestTally(msgspec.Struct):
    """What became of all requests so far."""

    requests: float = 0.0
    within: float = 0.0
    late: float = 0.0
    dropped: float = 0.0
    waiting: float = 0.0
    elapsed_us: int = 0

    @property
    def attainment(self) -> float:
        """The share of requests within their objective; of none, all."""
        return self.within / self.requests if self.requests else 1.0

    def add(self, quality: Quality, arrivals_per_s: float, span_us: int, patience_s: float) -> None:
        span_s = span_us / US_PER_S
        within_per_s = arrivals_per_s * quality.within_share
        missed_per_s = arrivals_per_s - within_per_s
        spare_per_s = max(0.0, quality.capacity_per_s - within_per_s)
        self.elapsed_us += span_us
        self.requests += arrivals_per_s * span_s
        self.within += within_per_s * span_s

        # Nobody waits for longer than the patience: what will not be served by then leaves, of
        # those who wait already before anybody is served, or it would matter how time is cut.
        waiting_max = patience_s * max(spare_per_s, missed_per_s)
        self._leave(waiting_max)
        self.waiting += missed_per_s * span_s
        served = min(self.waiting, spare_per_s * span_s)
        self.late += served
        self.waiting -= served
        self._leave(waiting_max)

    def _leave(self, waiting_max: float) -> None:
        leaving = max(0.0, self.waiting - waiting_max)
        self.dropped += leaving
        self.waiting -= leaving
