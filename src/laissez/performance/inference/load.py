"""What is asked of a service: how many requests, how long their prompts and answers are.

A trace is a load that changes at known instants and stays the same in between. A simulator plays
it; the service under it sees no more of it than what has already happened.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import pairwise
from math import inf

import msgspec

from laissez.performance.application import US_PER_S
from laissez.performance.inference.problem import InferenceProblem


class Load(msgspec.Struct, frozen=True):
    requests_per_s: float
    prompt_tokens: float
    """Mean over the requests; so is the next."""
    output_tokens: float

    def __post_init__(self) -> None:
        if not 0 <= self.requests_per_s < inf:
            raise InferenceProblem(
                f"requests_per_s is {self.requests_per_s}; it must be a number from 0 on"
            )
        if not (1 <= self.prompt_tokens < inf and 1 <= self.output_tokens < inf):
            raise InferenceProblem("a request has at least 1 prompt token and 1 output token")

    @property
    def context_tokens(self) -> float:
        """How much a sequence has behind it, on average over its decode."""
        return self.prompt_tokens + self.output_tokens / 2


class LoadTrace(msgspec.Struct, frozen=True):
    """From each instant on, a load, until the next one; nothing after `end_us`."""

    steps: tuple[tuple[int, float, float, float], ...]
    """(at_us, requests_per_s, prompt_tokens, output_tokens)"""
    end_us: int | None = None
    """When the service is no longer needed; None if it goes on as in its last step."""

    def __post_init__(self) -> None:
        if not self.steps:
            raise InferenceProblem("a trace needs at least one step")
        if any(later[0] <= earlier[0] for earlier, later in pairwise(self.steps)):
            raise InferenceProblem("the steps of a trace must come one after the other")
        for step in self.steps:
            Load(*step[1:])

    def number_at(self, at_us: int) -> int:
        """Which step holds at an instant; -1 before the first."""
        return bisect_right(self.steps, at_us, key=lambda step: step[0]) - 1


def trace_of_requests(
    requests: Iterable[tuple[int, float, float]], step_us: int, end_us: int, scale: float = 1.0
) -> LoadTrace:
    """Requests as they came (at_us, prompt_tokens, output_tokens) as a trace of equal steps.

    `scale` multiplies the rate. A step in which nothing comes keeps the lengths of the one before.
    The model of a queue expects the requests of a step to come at random, so a step should hold
    several of them before they are scaled: chance in small counts is scaled with them, and looks
    like bursts. Of a few requests per second, take steps of 10 s or more.
    """
    sums = [[0.0, 0.0, 0.0] for _ in range(-(-end_us // step_us))]
    for at_us, prompt_tokens, output_tokens in requests:
        if 0 <= at_us < end_us:
            total = sums[at_us // step_us]
            total[0] += 1
            total[1] += prompt_tokens
            total[2] += output_tokens
    steps = []
    lengths = (1.0, 1.0)
    for number, (count, prompts, outputs) in enumerate(sums):
        if count:
            lengths = (max(1.0, prompts / count), max(1.0, outputs / count))
        length_us = min(step_us, end_us - number * step_us)
        rate = count * scale * US_PER_S / length_us
        steps.append((number * step_us, rate, *lengths))
    return LoadTrace(tuple(steps), end_us)
