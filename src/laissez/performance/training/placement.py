"""How far two GPUs are apart, read off their paths.

A path is a tree and then one name per level, `h100/east/r1/n0/h3/g0` with the levels (zone, rack,
nvlink, host). Of these names three mean something: `host` (or `node`), `nvlink` (or `domain`, the
scale-up domain, may be larger than a host), `rack`. Two GPUs are at the distance of the deepest
level that they share; everything above a rack is far, and so are two trees. A tree without a
scale-up level has hosts for domains.

A path that ends early (a scope) leaves open where under it a GPU is. Then the least favourable is
assumed: a GPU under a rack shares its domain with nobody.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from laissez.performance.training.gpus import Distance

DEFAULT_LEVELS = ("zone", "rack", "nvlink", "host")

_MEANINGS = {
    "host": Distance.HOST,
    "node": Distance.HOST,
    "nvlink": Distance.DOMAIN,
    "domain": Distance.DOMAIN,
    "rack": Distance.RACK,
}


class Spot(NamedTuple):
    """The scale-up domain and the rack of a GPU, as paths; None where the path leaves it open."""

    kind: str
    rack: str | None
    domain: str | None


def distance(one: str, other: str, levels: tuple[str, ...] = DEFAULT_LEVELS) -> Distance:
    """How far apart two GPUs are."""
    shared = 0
    for left, right in zip(one.split("/"), other.split("/"), strict=False):
        if left != right:
            break
        shared += 1
    # The first name is the tree, so `shared - 1` levels are shared.
    meanings = [_MEANINGS.get(name, Distance.FAR) for name in levels[: max(shared - 1, 0)]]
    return min(meanings, default=Distance.FAR)


@lru_cache(maxsize=65_536)
def spot_of(path: str, levels: tuple[str, ...] = DEFAULT_LEVELS) -> Spot:
    """Where a GPU at or under a path is."""
    names = path.split("/")
    rack_depth = _depth(levels, Distance.RACK)
    domain_depth = _depth(levels, Distance.DOMAIN) or _depth(levels, Distance.HOST)
    domain = _prefix(names, domain_depth)
    return Spot(names[0], _prefix(names, rack_depth) or domain, domain)


def _depth(levels: tuple[str, ...], meaning: Distance) -> int | None:
    """How many names a path has down to the first level of this meaning."""
    for index, name in enumerate(levels):
        if _MEANINGS.get(name) == meaning:
            return index + 2
    return None


def _prefix(names: list[str], depth: int | None) -> str | None:
    return "/".join(names[:depth]) if depth and len(names) >= depth else None
