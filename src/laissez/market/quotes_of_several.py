"""What several resources of one domain would cost at once.

In a domain the `count` cheapest leaves that the asker does not hold show: idle ones first, lowest
floor first, then those of others by the rate they are charged; called ones do not show. The quote
is the highest of their rates, lowest over all domains; a domain in which all are idle comes before
every other.

Domains are looked at in the order of the least that they could come to, and only until none can
be lower than what was found.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import islice

from laissez.market.nodes import Branch, Leaf, Scope, SiblingGroup
from laissez.market.path import floor_at, uncapped_rate
from laissez.market.quotes import PathPressure, pressure_down_to, with_book
from laissez.model.values import Quote


def quote_of_several(
    node: Leaf | Scope, tenant: str | None, count: int, within: int | None
) -> Quote | None:
    """The lowest rate at which `count` leaves of one domain under a node show, if there are any."""
    if isinstance(node, Leaf):
        return None
    names = node.path.count("/") + 1
    below = 0 if within is None else within - names
    if below < 0:
        return None
    idle = _lowest_where_all_are_idle(node, below, count)
    if idle is not None:
        return Quote(idle, True)
    rate = _lowest_of_others(node, below, tenant, count)
    return None if rate is None else Quote(rate, False)


def _lowest_where_all_are_idle(top: Scope, below: int, count: int) -> int | None:
    """Over the domains with so many idle leaves: the lowest rate that takes them all in."""
    heap: list[tuple[int, int, int, int, Branch | None]] = []
    floor = floor_at(top)
    pushed = 0
    if top.idle >= count:
        heappush(heap, (max(floor, top.idle_floor), pushed, floor, below, top))
    while heap:
        lowest, _, floor, below, branch = heappop(heap)
        if branch is None:
            return lowest
        pushed -= 1
        if below == 0 and isinstance(branch, Scope):
            rate = _kth_floor(branch, floor, count)
            heappush(heap, (rate, pushed, 0, 0, None))
            continue
        for member in branch.members:
            pushed -= 1
            if member.idle >= count and isinstance(member, Branch):
                at_least = floor if member.book is None else max(floor, member.book.floor)
                left = below - (not isinstance(member, SiblingGroup))
                key = max(at_least, member.idle_floor, lowest)
                heappush(heap, (key, pushed, at_least, left, member))
    return None


def _kth_floor(domain: Scope, floor: int, count: int) -> int:
    """The floor of the idle leaf that is the `count`-th, lowest first."""
    heap: list[tuple[int, int, int, Leaf | Branch]] = [(floor, 0, floor, domain)]
    pushed = 0
    while True:
        lowest, _, floor, node = heappop(heap)
        if isinstance(node, Leaf):
            count -= 1
            if count == 0:
                return lowest
            continue
        for member in node.members:
            if member.idle:
                pushed -= 1
                at_least = floor if member.book is None else max(floor, member.book.floor)
                heappush(heap, (max(at_least, member.idle_floor), pushed, at_least, member))


def _lowest_of_others(top: Scope, below: int, tenant: str | None, count: int) -> int | None:
    """Over the domains with so many leaves that show, not all of them idle."""
    heap: list[tuple[int, int, int, PathPressure, Branch | None]] = []
    pressure = pressure_down_to(top)
    heappush(heap, (0, 0, below, pressure, top))
    pushed = 0
    while heap:
        lowest, _, below, pressure, branch = heappop(heap)
        if branch is None:
            return lowest
        if below == 0 and isinstance(branch, Scope):
            rate = _kth_rate(branch, tenant, pressure, count)
            if rate is not None:
                pushed -= 1
                heappush(heap, (rate, pushed, 0, pressure, None))
            continue
        for member in branch.members:
            if isinstance(member, Branch) and _most_shown(member, tenant) >= count:
                pushed -= 1  # the newest of equals comes first: down, before across
                left = below - (not isinstance(member, SiblingGroup))
                over = with_book(pressure, member)
                least = 0 if member.idle else _at_least(member, pressure)
                heappush(heap, (max(lowest, least), pushed, left, over, member))
    return None


def _most_shown(branch: Branch, tenant: str | None) -> int:
    """How many leaves under a branch the asker does not hold."""
    others = sum(branch.holders.values())
    if tenant is not None:
        others -= branch.holders.get(tenant, 0)
    return branch.idle + others


def _at_least(node: Leaf | Branch, pressure: PathPressure) -> int:
    """The least that anybody can be charged under a node, with what presses from above it."""
    rate, exempt, exempt_rate = pressure
    if exempt is not None and exempt in node.holders:
        rate = exempt_rate
    return max(rate, node.lowest_rates[0])


def _kth_rate(domain: Scope, tenant: str | None, pressure: PathPressure, count: int) -> int | None:
    """The highest rate of all idle leaves of a domain and of as many cheapest others as lack."""
    highest = _kth_floor(domain, floor_at(domain), domain.idle) if domain.idle else 0
    lacking = count - domain.idle
    rates = list(islice(_rates_of_others(domain, tenant, pressure), lacking))
    return None if len(rates) < lacking else max(highest, rates[-1])


def _rates_of_others(domain: Scope, tenant: str | None, pressure: PathPressure) -> Iterator[int]:
    """What the leaves that neither are idle, nor the asker's, nor called, are charged, lowest
    first."""
    heap: list[tuple[int, int, PathPressure, Leaf | Branch | None]] = [(0, 0, pressure, domain)]
    pushed = 0
    while heap:
        lowest, _, pressure, node = heappop(heap)
        if node is None:
            yield lowest
            continue
        if isinstance(node, Leaf):
            pushed -= 1
            heappush(heap, (uncapped_rate(node), pushed, pressure, None))
            continue
        for member in node.members:
            owner = member.lowest_rates[1]
            if owner is None or (isinstance(member, Leaf) and owner == tenant):
                continue
            pushed -= 1
            least = max(lowest, _at_least(member, pressure))
            heappush(heap, (least, pushed, with_book(pressure, member), member))
