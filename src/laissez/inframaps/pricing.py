"""The price of every region of a tree, and how it came about.

A region is told by the deepest scope on a leaf's path of which something is said: an adjustment, a
cost. Its price is the base times 1 + all adjustments from the root down to it, at least its cost.
While telemetry is waited for, the price of what depends on it is the floor that stands, if any.
"""

from collections.abc import Iterable, Mapping
from math import fsum
from typing import NamedTuple

from laissez.inframaps.floors import deepest_first, parent_of
from laissez.inframaps.forest import Forest
from laissez.model.paths import covers
from laissez.model.values import MAX_RATE, MICROS_PER_DOLLAR


class Push(NamedTuple):
    """What one map asks for at one scope, its weight included."""

    map: str
    scope: str
    adjustment: float


class PricedRegion(NamedTuple):
    """What holds for the leaves of a region."""

    cost: int
    pushes: tuple[Push, ...]
    price: int
    kept: int = 0
    """The floor that stays as it is; 0 if there is none."""
    lift: int = 0
    """The price below which nothing is sold there, for a while."""


class TreePricing:
    """One tree at one instant."""

    __slots__ = ("_base", "regions")

    def __init__(
        self,
        tree: str,
        base: int,
        costs: Mapping[str, int],
        pushes: Iterable[Push],
        forest: Forest,
        kept: Mapping[str, int],
        lifts: Mapping[str, int],
    ) -> None:
        self._base = base
        said: dict[str, tuple[Push, ...]] = {}
        for push in pushes:
            if push.scope in forest or push.scope == tree:
                _name(push.scope, said)
                said[push.scope] += (push,)
        for scope in (tree, *costs, *kept, *lifts):
            if scope in forest or scope == tree:
                _name(scope, said)
        self.regions: dict[str, PricedRegion] = {}
        for scope in reversed(deepest_first(said)):
            above = self.regions.get(parent_of(scope), PricedRegion(0, (), 0))
            cost = costs.get(scope, above.cost)
            along = above.pushes + said[scope]
            stays = kept.get(scope, above.kept)
            lift = max(lifts.get(scope, 0), above.lift)
            price = max(cost, stays or _adjusted(base, along), lift)
            self.regions[scope] = PricedRegion(cost, along, price, stays, lift)

    def near(self, standing: Mapping[str, int], deadband: float) -> dict[str, int]:
        """The prices by region; what stands is kept if it is as good as the price."""
        prices = {scope: region.price for scope, region in self.regions.items()}
        for scope, stands in standing.items():
            region = self.regions[scope]
            is_home = region.price == max(region.cost, self._base)
            is_near = not region.lift and abs(stands - region.price) <= deadband * region.price
            if is_near and not is_home and stands >= region.cost:
                prices[scope] = stands
        return prices

    def why(self, scope: str, floor: int, prices: Mapping[str, int]) -> str:
        """The reason of a floor, for a log."""
        if floor == 0:
            return "the floors above it say the price"
        if scope in prices:
            if floor == prices[scope]:
                return self._reason(scope)
            cheapest = (each for each in prices if covers(scope, each) and prices[each] == floor)
            return f"the lowest price under it: {self._reason(next(cheapest))}"
        return f"{self._reason(parent_of(scope))}; set here because something beside it is cheaper"

    def _reason(self, scope: str) -> str:
        region = self.regions[scope]
        if region.lift and region.price == region.lift:
            return f"{region.price / MICROS_PER_DOLLAR:.2f} for a gang that waits"
        if region.kept:
            return f"{region.price / MICROS_PER_DOLLAR:.2f} as it was, until telemetry is read"
        parts = [f"base {self._base / MICROS_PER_DOLLAR:.2f}"]
        parts += [f"{each.map} {each.adjustment:+.1%} at {each.scope}" for each in region.pushes]
        if region.price == region.cost and _adjusted(self._base, region.pushes) < region.cost:
            parts.append("not below cost")
        return ", ".join(parts)


def _name(scope: str, said: dict[str, tuple[Push, ...]]) -> None:
    """Make a region of a scope, and of all above it."""
    while scope and scope not in said:
        said[scope] = ()
        scope = parent_of(scope)


def _adjusted(base: int, pushes: Iterable[Push]) -> int:
    """The sum is exact, so that the order in which maps are given does not matter."""
    share = fsum(push.adjustment for push in pushes)
    if share == 0:
        return base
    adjusted = min(max(base * (1.0 + share), 0.0), float(MAX_RATE))
    return min(round(adjusted), MAX_RATE)
