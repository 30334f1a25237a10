"""What makes one inference service different from another."""

from __future__ import annotations

from math import inf
from typing import Literal

import msgspec

from laissez.performance.inference.load import Load
from laissez.performance.inference.objective import Objective
from laissez.performance.inference.problem import InferenceProblem
from laissez.performance.inference.profile import Hardware


class InferenceSpec(msgspec.Struct, frozen=True, kw_only=True):
    model: str
    kinds: dict[str, Hardware]
    """The trees of the market that it can use, and what a node there is."""
    objective: Objective
    expected: Load = Load(0.0, 1_000.0, 200.0)
    """What is forecast until something was seen."""
    cold_start_s: float = 60.0
    """Until a new node works: a minute as in the LaissezCloud paper (table 1), for its weights."""
    utilisation: float = 0.8
    """How busy nodes may be at the forecast rate: a pool that is always busy is always late."""
    margin: float = 1.1
    """How many times what it needs it keeps before a node is redundant."""
    interval_s: float = 15.0
    """For how long load is averaged before the forecast sees it, and how far that looks ahead."""
    # Chosen on two excerpts of half an hour, the Azure traces of 2023: the lulls of the one with
    # code last up to 160 s, and with 120 s more than half of its requests are late. To be checked
    # again on longer traces.
    keep_s: float = 300.0
    """For how long it stays prepared for the highest rate that was forecast."""
    predictor: Literal["kalman", "constant"] = "kalman"
    patience_s: float = 30.0
    """How long a request that is late already waits before it is dropped."""
    drain_s: float = 30.0
    """How long a replica that takes no more requests needs for those that it has."""

    def __post_init__(self) -> None:
        if not self.kinds:
            raise InferenceProblem("an inference service needs at least one kind of node")
        if not 0 < self.utilisation <= 1:
            raise InferenceProblem(f"utilisation is {self.utilisation}; it must be in (0, 1]")
        if not 1 <= self.margin < inf:
            raise InferenceProblem(f"margin is {self.margin}; it must be at least 1")
        if not 0.001 <= self.interval_s < inf:
            raise InferenceProblem(f"interval_s is {self.interval_s}; it must be above 0")
        for name in ("cold_start_s", "keep_s", "patience_s", "drain_s"):
            if not 0 <= getattr(self, name) < inf:
                raise InferenceProblem(f"{name} is {getattr(self, name)}; it can't be below 0")
