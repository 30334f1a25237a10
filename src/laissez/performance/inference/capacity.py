"""How many requests per second a set of nodes can serve within the objective.

Every request passes through a prefill and then a decode. A node can do either, at a rate of its
own, and roles are free to change from one moment to the next: both need the same weights, so a
change costs nothing that matters beside a cold start. The best split gives the prefill to the
kinds that are comparatively good at it and balances the two phases. It leaves at most one node
between the two, which serves both and divides its time. So a service with a single node serves
both phases there: with `a` prefills or `b` decodes per second it serves `a b / (a + b)` requests.
With a roomy objective that is what is estimated for engines that mix the phases; with a tight one
it is up to a few times too much, because decode pauses while the same node prefills.

This is a linear programme in the number of nodes of each kind. Therefore capacity never falls
with a node more, and the next node of a kind never adds more than the one before it.

Nodes of one kind are alike, so a set of nodes is a tuple of counts, one per kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from laissez.performance.inference.load import Load
from laissez.performance.inference.objective import Objective
from laissez.performance.inference.profile import MS_PER_S, DecodeCurve, Profile

NODES_MAX = 1 << 16
ROUNDING = 1e-9


class NodeRates(NamedTuple):
    """What one node of a kind does of a load, if it does only that."""

    prefills_per_s: float
    decodes_per_s: float
    ttft_ms: float
    """Of a prompt that need not wait."""
    places: float
    """How many sequences it decodes at once, at most, within the objective."""
    curve: DecodeCurve

    @property
    def requests_per_s(self) -> float:
        """Both phases on this node alone."""
        total = self.prefills_per_s + self.decodes_per_s
        return self.prefills_per_s * self.decodes_per_s / total if total else 0.0


def node_rates(profile: Profile, load: Load, objective: Objective) -> NodeRates:
    curve = profile.decode_curve(load.context_tokens)
    places = curve.largest_batch(objective.itl_ms)
    tokens_per_s = places / curve.step_ms(places) * MS_PER_S if places else 0.0
    prompt_tokens_per_s = profile.prefill_tokens_per_s(load.prompt_tokens, objective.ttft_ms)
    return NodeRates(
        prefills_per_s=prompt_tokens_per_s / load.prompt_tokens,
        decodes_per_s=tokens_per_s / load.output_tokens,
        ttft_ms=profile.ttft_ms(load.prompt_tokens),
        places=places,
        curve=curve,
    )


class Roles(NamedTuple):
    """Who does what: nodes of each kind in prefill; the others decode."""

    requests_per_s: float
    prefilling: tuple[float, ...]


class Pool:
    """The kinds of node there are, for one load: which split is best, and what it serves."""

    def __init__(self, rates: Sequence[NodeRates]) -> None:
        self.rates = tuple(rates)
        useful = (at for at, rate in enumerate(rates) if rate.prefills_per_s + rate.decodes_per_s)
        # Most prefills per decode first. A kind that can't decode in time comes before all others.
        self._order = [
            (at, rates[at].prefills_per_s, rates[at].decodes_per_s)
            for at in sorted(
                useful,
                key=lambda at: (
                    -rates[at].prefills_per_s / (rates[at].prefills_per_s + rates[at].decodes_per_s)
                ),
            )
        ]
        self._known: dict[tuple[int, ...], float] = {}

    def capacity_per_s(self, counts: tuple[int, ...]) -> float:
        """Requests per second of so many nodes of each kind."""
        known = self._known.get(counts)
        if known is None:
            known = self._known[counts] = self.roles(counts).requests_per_s
        return known

    def roles(self, counts: Sequence[int]) -> Roles:
        """The best split: kinds move from decode to prefill until the two are in balance."""
        prefills = 0.0
        decodes = sum(counts[at] * decode for at, _, decode in self._order)
        prefilling = [0.0] * len(counts)
        for at, prefill, decode in self._order:
            balanced = max(0.0, decodes - prefills) / (prefill + decode)
            moved = min(counts[at], balanced)
            prefilling[at] = moved
            prefills += moved * prefill
            decodes -= moved * decode
            if moved < counts[at]:
                break
        return Roles(max(0.0, min(prefills, decodes)), tuple(prefilling))

    def missing(self, counts: tuple[int, ...], kind: int, needed_per_s: float) -> int:
        """How many more of a kind are needed, or are of any use if that is not enough."""

        def with_more(nodes: int) -> float:
            return self.capacity_per_s((*counts[:kind], counts[kind] + nodes, *counts[kind + 1 :]))

        enough = min(needed_per_s, with_more(NODES_MAX)) * (1 - ROUNDING)
        if with_more(0) >= enough:
            return 0
        most = 1
        while with_more(most) < enough:
            most *= 2
        least = most // 2
        while most - least > 1:
            middle = (least + most) // 2
            least, most = (least, middle) if with_more(middle) >= enough else (middle, most)
        return most
