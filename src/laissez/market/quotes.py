"""What a resource would cost: quotes, and the idle leaf that an order takes.

If a leaf under the scope is idle, its summary has the answer. Otherwise the quote is the lowest
rate that another owner pays under the scope: the books above press on everybody but their own
tenants (`PathPressure`: `rate` on all, but only `exempt_rate` on the one tenant, if any, whose own
order is what presses most), and `inner` of the scope knows the two owners that pay least below.
That answers at once unless the exempt tenant, or a bound that is not exact, could be lower: then
the members are searched, and only those whose bound is below the best rate found.
"""

from __future__ import annotations

from laissez.market.nodes import Branch, Leaf, Scope, SiblingGroup
from laissez.market.path import floor_at, uncapped_rate
from laissez.market.steps import NEVER
from laissez.model.values import Quote

PathPressure = tuple[int, str | None, int]
"""(rate, exempt, exempt_rate)"""

NO_PATH_PRESSURE: PathPressure = (0, None, 0)


def quote(node: Leaf | Scope, tenant: str | None) -> Quote | None:
    """The lowest rate at which `tenant` would get a resource under a node."""
    if node.idle:
        return Quote(max(node.idle_floor, floor_at(node)), True)
    if isinstance(node, Leaf):
        rate = NEVER if node.owner == tenant or node.call is not None else uncapped_rate(node)
    else:
        rate = _lowest(node, tenant, pressure_down_to(node), NEVER)
    return None if rate == NEVER else Quote(rate, False)


def pressure_down_to(node: Leaf | Scope | None) -> PathPressure:
    """What the books from the root down to a node, its own included, press with."""
    pressure = NO_PATH_PRESSURE
    while node is not None:
        pressure = with_book(pressure, node)
        node = node.parent
    return pressure


def with_book(pressure: PathPressure, node: Leaf | Branch) -> PathPressure:
    book = node.book
    if book is None:
        return pressure
    rate, exempt, exempt_rate = pressure
    floor, by = book.floor, book.by
    here = max(floor, book.first)
    if here > rate:
        on_by = exempt_rate if by == exempt else rate
        return (here, by, max(on_by, floor, book.second))
    if exempt is not None:
        on_exempt = book.second if by == exempt else book.first
        exempt_rate = max(exempt_rate, floor, on_exempt)
    return (rate, exempt, exempt_rate)


def _lowest(branch: Branch, tenant: str | None, above: PathPressure, best: int) -> int:
    """The lowest rate below `best` under a branch that `tenant` does not pay, or `best`."""
    rate, exempt, exempt_rate = above
    rate1, owner1, exact1, rate2, owner2, exact2 = branch.inner
    bound = NEVER
    exact = True
    if owner1 is not None and owner1 != tenant:
        bound = max(rate1, exempt_rate if owner1 == exempt else rate)
        exact = exact1
    if owner2 is not None:
        seen = max(rate2, exempt_rate if owner2 == exempt else rate)
        if owner2 == tenant:
            seen, exact2 = max(rate2, rate), False
        if seen < bound:
            bound, exact = seen, exact2
        if (
            exempt_rate < rate
            and exempt not in (owner1, owner2, tenant)
            and exempt in branch.holders
            and max(rate2, exempt_rate) < bound
        ):
            bound, exact = max(rate2, exempt_rate), False
    if bound >= best:
        return best
    if exact:
        return bound
    for member in branch.members:
        if isinstance(member, Leaf):
            if member.owner is not None and member.owner != tenant:
                pressing = exempt_rate if member.owner == exempt else rate
                best = min(best, max(member.lowest_rates[0], pressing))
        else:
            best = _lowest(member, tenant, with_book(above, member), best)
        if best == bound:
            break
    return best


def idle_leaf_for(node: Leaf | Scope, limit: int, newest: Leaf | None) -> Leaf | None:
    """The idle leaf that an order at this node takes, if one has a floor within its limit.

    `newest` is the leaf that its tenant won last in this tree: its leaves are to lie together, and
    what is left idle, too.
    """
    if not node.idle or node.idle_floor > limit:
        return None
    floor = max(node.idle_floor, floor_at(node))
    if floor > limit:
        return None
    if newest is not None and _has_beside(newest, node, floor):
        node = newest.parent
    while not isinstance(node, Leaf):
        child = _fewest_idle_child(node, floor, NEVER)
        assert child is not None
        node = child
    return node


def _has_beside(leaf: Leaf, top: Leaf | Scope, floor: int) -> bool:
    """Does `top` cover a leaf, and is one at `floor` idle in the scope right around it?"""
    if leaf.parent.idle_floor > floor:
        return False
    scope: Scope | None = leaf.parent
    while scope is not None and scope is not top:
        if scope.book is not None and scope.book.floor > floor:
            return False
        scope = scope.parent
    return scope is top


def _fewest_idle_child(branch: Branch, floor: int, less_than: int) -> Leaf | Scope | None:
    """The first child with the fewest idle leaves of those that have one at `floor` or below."""
    found: Leaf | Scope | None = None
    for member in branch.members:
        if member.idle_floor <= floor and member.fewest_idle < less_than:
            child = (
                _fewest_idle_child(member, floor, less_than)
                if isinstance(member, SiblingGroup)
                else member
            )
            if child is not None:
                found, less_than = child, child.fewest_idle
    return found
