"""The best split of layers into the stages of a pipeline, by dynamic programming.

The pipeline runs at the pace of its slowest stage. The best split of the first n layers into k
stages ends with some last stage; what comes before is the best split of the rest into k - 1. So
each pair (k, n) is solved once, from the pairs (k - 1, fewer). A stage that doesn't fit in memory
has no cost and is never used. A stage that takes in an earlier layer must not become cheaper by
it, so a last stage is made longer only until it is the slowest itself.
"""

from __future__ import annotations

from collections.abc import Callable

_NEVER = float("inf")

# stage, its first layer, the layer after its last: seconds, or None if it can't be
StageCost = Callable[[int, int, int], float | None]


def best_split(layers: int, stages: int, cost: StageCost) -> tuple[int, ...] | None:
    """How many layers each stage gets, so that the slowest is as fast as can be; None if none
    fits. Among equals the one with the fewest layers in its last stages."""
    slowest = [0.0] + [_NEVER] * layers
    cuts: list[list[int]] = []
    for stage in range(stages):
        after, cut = [_NEVER] * (layers + 1), [0] * (layers + 1)
        # Enough layers stay for the stages to come.
        ends = range(stage + 1, layers - (stages - stage - 1) + 1)
        if stage == stages - 1:
            ends = range(layers, layers + 1)
        for end in ends:
            for first in range(end - 1, stage - 1, -1):
                if slowest[first] == _NEVER:
                    continue
                turn = cost(stage, first, end)
                if turn is None or turn >= after[end]:
                    break
                worst = max(slowest[first], turn)
                if worst < after[end]:
                    after[end], cut[end] = worst, first
        slowest = after
        cuts.append(cut)
    if slowest[layers] == _NEVER:
        return None
    counts, end = [], layers
    for cut in reversed(cuts):
        counts.append(end - cut[end])
        end = cut[end]
    return tuple(reversed(counts))
