"""From the price that every leaf is to have, to the fewest floors that give it, and to the commands
that lead there.

A leaf's floor is the highest on its path. So a floor can't make an exception downwards: for one row
to be cheaper than the rest of its zone, the zone's own floor must come down to that row's price,
and every other row must be given a floor of its own. In general: a scope's floor is the lowest
price under it, and is set only where that is above the lowest price under its parent. No fewer
floors can do, because the cheapest leaf under such a scope can't have its price from further up.

Prices are given by *region*. The keys of `prices` are the scopes at which something is said, and
all scopes above them; the region of a key is the leaves that it covers and no deeper key does. So
the work is by the scopes that are named, and by their siblings where these need their own floor.

On the way from old floors to new ones, raising goes before lowering. Whatever the order, a leaf is
never above the higher of its old and its new floor, because no value in between is above both.
While floors are raised none is below the old one, and while they are lowered none is below the
new one. So no leaf's floor is ever below the lower of the two, and no command causes a dip or a
spike that the next one mends.
"""

from collections.abc import Collection, Iterator, Mapping

from laissez.inframaps.forest import Forest
from laissez.model.paths import covers


def parent_of(scope: str) -> str:
    """The scope above; empty above a root."""
    return scope.rpartition("/")[0]


def deepest_first(scopes: Mapping[str, object]) -> list[str]:
    return sorted(scopes, key=lambda scope: scope.count("/"), reverse=True)


def fewest_floors(forest: Forest, prices: Mapping[str, int]) -> dict[str, int]:
    """The floors by scope that give each region its price; none that is 0 or does nothing."""
    lowest = _lowest_prices(forest, prices)
    floors: dict[str, int] = {}
    for scope, price in prices.items():
        floor = lowest[scope]
        if floor > lowest.get(parent_of(scope), 0):
            floors[scope] = floor
        if price > floor:
            floors.update((child, price) for child in unnamed_children(forest, prices, scope))
    return floors


def _lowest_prices(forest: Forest, prices: Mapping[str, int]) -> dict[str, int]:
    """By key, the lowest price of a leaf under it."""
    below: dict[str, list[int]] = {}
    lowest: dict[str, int] = {}
    for scope in deepest_first(prices):
        candidates = below.get(scope, [])
        if not candidates or len(forest.children(scope)) > len(candidates):
            candidates.append(prices[scope])
        lowest[scope] = min(candidates)
        below.setdefault(parent_of(scope), []).append(lowest[scope])
    return lowest


def unnamed_children(forest: Forest, regions: Mapping[str, object], scope: str) -> Iterator[str]:
    """The children of a scope that belong to its own region."""
    return (child for child in forest.children(scope) if child not in regions)


def standing_prices(
    forest: Forest, regions: Mapping[str, object], floors: Mapping[str, int]
) -> dict[str, int]:
    """The floor that stands in each region, where it is one and the same for all its leaves."""
    on_path: dict[str, int] = {}
    for scope in reversed(deepest_first(regions)):
        on_path[scope] = max(floors.get(scope, 0), on_path.get(parent_of(scope), 0))
    inside: dict[str, dict[str, int]] = {}
    for scope, floor in floors.items():
        region = scope
        while region and region not in regions:
            region = parent_of(region)
        if region and floor > on_path[region] and scope in forest:
            inside.setdefault(region, {})[scope] = floor
    for region, exceptions in inside.items():
        values = set(exceptions.values())
        own = set(unnamed_children(forest, regions, region))
        if len(values) == 1 and exceptions.keys() == own:
            on_path[region] = values.pop()
        else:
            del on_path[region]
    return on_path


def kept_floors(
    forest: Forest, floors: Mapping[str, int], unread: Collection[str]
) -> dict[str, int]:
    """The floor that stands at each scope that was not read yet, and wherever below one is set."""
    scopes = [scope for scope in (*unread, *floors) if scope in forest]
    return {
        scope: max((floors[above] for above in floors if covers(above, scope)), default=0)
        for scope in scopes
        if any(covers(above, scope) for above in unread)
    }


def changes(old: Mapping[str, int], new: Mapping[str, int]) -> list[tuple[str, int]]:
    """The floors to set, in an order without dips or spikes; 0 takes a floor away."""
    scopes = sorted(old.keys() | new.keys())
    moves = [(scope, old.get(scope, 0), new.get(scope, 0)) for scope in scopes]
    raised = [(scope, after) for scope, before, after in moves if after > before]
    lowered = [(scope, after) for scope, before, after in moves if after < before]
    return raised + lowered
