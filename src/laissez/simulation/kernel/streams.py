"""Chance by name: every use of it has a stream of its own, drawn from the seed and the use's name.

So nothing that is added changes what anything else draws: one more tenant leaves the others' sizes,
arrivals and handovers as they were.
"""

from __future__ import annotations

from hashlib import blake2b
from random import Random

HANDOVER_US = (10_000, 100_000)
"""How long a node takes from one hand to the next (LaissezCloud, section 4.2)."""


def stream(seed: int, *names: str | int) -> Random:
    """The stream of this name."""
    text = "/".join(map(str, (seed, *names)))
    return Random(int.from_bytes(blake2b(text.encode(), digest_size=8).digest()))


class Handovers:
    """How long each change of hands takes: for every tenant its own draws, in its own order."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._streams: dict[str, Random] = {}

    def __call__(self, tenant: str) -> int:
        own = self._streams.get(tenant)
        if own is None:
            own = self._streams[tenant] = stream(self._seed, "handover", tenant)
        return own.randint(*HANDOVER_US)
