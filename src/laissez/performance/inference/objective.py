"""What a service promises: a time to the first token and a time between tokens.

A request is within its objective if both are kept. Attainment is the share of requests that are.
What customers get back when it is low is a share of what they paid; how much that is, is not
known here.
"""

from __future__ import annotations

from math import inf

import msgspec

from laissez.performance.inference.problem import InferenceProblem


class Objective(msgspec.Struct, frozen=True):
    ttft_ms: float
    """Time to first token."""
    itl_ms: float
    """Inter-token latency."""

    def __post_init__(self) -> None:
        if not (0 < self.ttft_ms < inf and 0 < self.itl_ms < inf):
            raise InferenceProblem("an objective needs ttft_ms and itl_ms, each a number above 0")


# The targets that the documentation of NVIDIA Dynamo (Apache-2.0, snapshot of 2026-08-22) uses.
PRESETS: dict[str, Objective] = {
    "planner-default": Objective(500, 50),
    "profiler-overview": Objective(200, 20),
    "profiler-low-latency": Objective(500, 20),
    "auto-deploy": Objective(500, 50),
    "short-prompt-pool": Objective(200, 20),
    "sizing-guide": Objective(600, 16.67),
    "long-output": Objective(1000, 10),
    "real-time-chat": Objective(200, 8),
    "high-throughput": Objective(2000, 50),
    "planner-replay": Objective(1500, 50),
    "mixture-of-experts": Objective(2000, 100),
    "load-test": Objective(200, 10),
}

# After the Microsoft online-services SLA, worst first; the tiers do not add up.
CREDIT_TIERS = ((0.99, 0.25), (0.999, 0.10))
"""(attainment below, share of what customers pay that goes back to them)"""


def preset(name: str) -> Objective:
    if name not in PRESETS:
        raise InferenceProblem(
            f"there is no objective named {name!r}; take one of {', '.join(PRESETS)}, "
            "or give ttft_ms and itl_ms"
        )
    return PRESETS[name]


def service_credit(attainment: float) -> float:
    """The share of what customers pay that an SLA gives back at this attainment."""
    for below, credit in CREDIT_TIERS:
        if attainment < below:
            return credit
    return 0.0
