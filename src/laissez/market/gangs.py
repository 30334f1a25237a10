"""Gangs: which of them fits where, and which leaves it would take.

A gang waits on its rung (see `asks`) and presses on nobody. Of all that a command may do, little
can make one fit: a leaf came free or passed to somebody else, its holder follows less far, its
protection ended (`Notes.freer`: only gangs with a limit between its ask and the one that it had,
and only in its own domain); a floor fell, an order of a holder is gone, a gang is new
(`Notes.searches`). `collect` makes of the former the few gangs that the index does not rule out,
and `choose` says for one gang where it fits best: domains are looked at in the order of the least
that they could take, until nothing better can follow.

A leaf that is free for an instant, because its holder loses it, is offered to gangs before it has
passed to anybody: it counts as idle for them, whoever holds it still (`freed`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

from laissez.market.asks import GangLevel, floor_below
from laissez.market.book import Gang, Order
from laissez.market.nodes import Branch, Leaf, Scope, leaves_under
from laissez.market.path import floor_at, rate_for
from laissez.market.state import State
from laissez.market.steps import NEVER

FEW_LEAVES = 1_024
"""Up to so many leaves of a tenant are noted one by one when an order of its own is gone."""

Position = tuple[int, ...]
"""Where a node stands in tree order: the place among its siblings, from some branch downwards."""


_limit = attrgetter("limit")


class DomainFit(NamedTuple):
    """The leaves of one domain that a gang would take, in tree order, and what is compared between
    domains: the sum of the limits that it displaces, then the number of idle leaves."""

    taken: int
    idle: int
    leaves: list[Leaf]


class FittingGang(NamedTuple):
    """A gang that fits, and the leaves that it takes."""

    gang: Gang
    leaves: list[Leaf]


# Notes ----------------------------------------------------------------------------------------


def note_ask(state: State, leaf: Leaf, limit: int | None, ask: int) -> None:
    """A leaf's ask is not what it was.

    `limit` is the one with which it could be lost before, if it could; from `ask` on upwards gangs
    found it open already.
    """
    levels = state.levels.get(leaf.parent.tree.name)
    if levels:
        freer = state.notes.freer
        for level in levels.values():
            level.note(leaf, limit)
            if level.gangs and ask > freer.get(leaf, 0):
                freer[leaf] = ask


def note_floor(state: State, node: Leaf | Scope, *, fell: bool) -> None:
    """The floor that is set at a node is not what it was."""
    levels = state.levels.get(node.tree.name)
    if not levels:
        return
    depth = node.path.count("/") + 1
    for level in levels.values():
        if depth >= level.within:
            domain: Leaf | Scope | None = node
            for _ in range(depth - level.within):
                assert domain is not None
                domain = domain.parent
            if isinstance(domain, Scope) and domain.placed:
                for rung in level.rungs.values():
                    rung.stale[domain] = None
    if fell:
        floor = floor_at(node)
        for gang in _waiting(levels):
            if gang.limit >= floor and _meet(gang.scope, node.path):
                state.notes.searches[gang] = None


def note_order_gone(state: State, order: Order, node: Leaf | Scope) -> None:
    """An order presses no more, and with it may go what kept its tenant's leaves from gangs."""
    levels = state.levels.get(node.tree.name)
    if not levels or order.tenant not in node.holders:
        return
    held = state.accounts[order.tenant].holdings.get(node.tree.name, {})
    if len(held) <= FEW_LEAVES:
        for leaf in held.values():
            if leaf.limit < order.price:
                state.notes.freer[leaf] = NEVER
        return
    for gang in _waiting(levels):
        if gang.limit < order.price and _meet(gang.scope, node.path):
            state.notes.searches[gang] = None


def _waiting(levels: dict[int, GangLevel]) -> Iterator[Gang]:
    for level in levels.values():
        for rung in level.rungs.values():
            yield from rung.waiting


def _meet(scope: str, path: str) -> bool:
    """Does one of two nodes cover the other, or are they the same?"""
    return is_within(scope, path) or is_within(path, scope)


def is_within(path: str, scope: str) -> bool:
    return path == scope or path.startswith(scope + "/")


def collect(state: State) -> None:
    """Make of leaves that are freer than before the gangs that may fit because of them."""
    notes = state.notes
    freer, notes.freer = notes.freer, {}
    between: dict[tuple[GangLevel, Scope], tuple[int, int]] = {}
    for leaf, before in freer.items():
        if leaf.up is None:  # withdrawn since
            continue
        if leaf.owner is None:
            ask = floor_at(leaf)
        elif leaf.weakest is leaf:
            ask = leaf.limit + 1
        else:
            continue
        if ask >= before:
            continue
        for level in state.levels[leaf.parent.tree.name].values():
            domain = level.domain_of(leaf)
            if domain is not None:
                place = (level, domain)
                lowest, highest = between.get(place, (NEVER, 0))
                between[place] = (min(lowest, ask), max(highest, before))
    for (level, domain), (ask, before) in between.items():
        for rung in level.rungs.values():
            waiting = rung.waiting
            if not waiting or waiting[-1].limit < ask:
                continue
            place_above = bisect_left(waiting, before, key=_limit)
            if not place_above or waiting[place_above - 1].limit < ask:
                continue
            ask_of_all = rung.read_stale(domain)
            for place_below in range(place_above - 1, -1, -1):
                gang = waiting[place_below]
                if gang.limit < ask or gang.limit < ask_of_all:
                    break
                if is_within(domain.path, gang.scope):
                    notes.search(gang, {domain: None})


# Which gang -----------------------------------------------------------------------------------


def rank(order: Order) -> tuple[int, int, int]:
    """Who comes first: the highest limit, then the finest scope, then the earliest."""
    return -order.limit, -order.scope.count("/"), order.sequence


def best_candidate(state: State, leaf: Leaf, beyond: Order | None) -> FittingGang | None:
    """The best gang that fits now, counting a leaf that comes free, if it comes before an order."""
    levels = state.levels.get(leaf.parent.tree.name)
    if not levels:
        return None
    least = floor_at(leaf)
    if beyond is not None and beyond.limit > least:
        least = beyond.limit
    gangs: dict[Gang, dict[Scope, None] | None] = {}
    for level in levels.values():
        domain = level.domain_of(leaf)
        if domain is not None:
            _gangs_it_completes(level, domain, leaf, least, gangs)
    # What this command has done before may have made a gang fit, here or anywhere: it comes first,
    # too, if it is the best.
    collect(state)
    for gang, domains in state.notes.searches.items():
        if gang.live:
            gangs[gang] = domains
    in_vain = InVain()
    for gang in sorted(gangs, key=rank):
        if beyond is not None and rank(gang) > rank(beyond):
            break
        leaves = choose(state, gang, leaf, among=gangs[gang], in_vain=in_vain)
        if leaves is not None:
            return FittingGang(gang, leaves)
    return None


def _gangs_it_completes(
    level: GangLevel,
    domain: Scope,
    leaf: Leaf,
    least: int,
    gangs: dict[Gang, dict[Scope, None] | None],
) -> None:
    """The gangs that may fit into a domain, once a leaf of it counts as idle."""
    wanted = None
    for rung in level.rungs.values():
        waiting = rung.waiting
        if not waiting or waiting[-1].limit < least:
            continue
        wanted = wanted or level.wanted(domain, leaf)
        ask = wanted.least(rung.count)[0]
        for gang in reversed(waiting):
            if gang.limit < ask or gang.limit < least:
                break
            if is_within(domain.path, gang.scope):
                gangs[gang] = {}


# Which leaves ---------------------------------------------------------------------------------


def could_fit(state: State, gang: Gang) -> bool:
    """Does a gang fit somewhere, or might it when orders that are about to win are filled?"""
    return choose(state, gang, despite_orders=True) is not None


class InVain:
    """Domains in which gangs were tried that did not fit, while nothing changes.

    Where a gang does not fit, no other of its tenant does that wants as many leaves or more and
    follows no further: however many of them wait, one of them is tried.
    """

    __slots__ = ("_tried",)

    def __init__(self) -> None:
        self._tried: dict[tuple[Scope, str], list[tuple[int, int]]] = {}

    def knows(self, domain: Scope, gang: Gang) -> bool:
        tried = self._tried.get((domain, gang.tenant), ())
        return any(gang.limit <= limit and gang.count >= count for limit, count in tried)

    def add(self, domain: Scope, gang: Gang) -> None:
        self._tried.setdefault((domain, gang.tenant), []).append((gang.limit, gang.count))


def choose_among(
    state: State, gang: Gang, domains: Iterable[Scope], freed: Leaf | None, in_vain: InVain
) -> list[Leaf] | None:
    """The same of a few domains."""
    top = state.nodes[gang.scope]
    assert isinstance(top, Scope)
    level = state.levels[top.tree.name][gang.within]
    best: tuple[int, int, Position] | None = None
    leaves: list[Leaf] | None = None
    for domain in domains:
        if in_vain.knows(domain, gang):
            continue
        has_freed = freed is not None and is_within(freed.path, domain.path)
        fit = _fit(state, level, domain, gang, freed if has_freed else None, False)
        if fit is None:
            in_vain.add(domain, gang)
        else:
            value = (fit.taken, fit.idle, _position(domain, top))
            if best is None or value < best:
                best, leaves = value, fit.leaves
    return leaves


def choose(
    state: State,
    gang: Gang,
    freed: Leaf | None = None,
    *,
    among: Iterable[Scope] | None = None,
    in_vain: InVain | None = None,
    despite_orders: bool = False,
) -> list[Leaf] | None:
    """The leaves that a gang takes, in tree order, if some domain suits it.

    If it is known in which domains it may fit, `among`, only these are looked at, and that of
    `freed`.
    """
    if among is not None:
        domains = dict.fromkeys(among)
        if freed is not None and is_within(freed.path, gang.scope):
            level = state.levels[freed.parent.tree.name][gang.within]
            of_it = level.domain_of(freed)
            if of_it is not None:
                domains[of_it] = None
        return choose_among(state, gang, domains, freed, in_vain or InVain())
    top, limit = state.nodes[gang.scope], gang.limit
    assert isinstance(top, Scope)
    floor = floor_at(top)
    if floor > limit:
        return None
    level = state.levels[top.tree.name][gang.within]
    rung = level.rung(gang.count)
    rung.refresh()
    # (sum, idle, position, is it a branch, branch or fit): what a branch could give at best, or
    # what a domain gives. Only a domain and its own fit ever stand at the same position.
    heap: list[tuple[int, int, Position, bool, Branch | DomainFit]] = []
    of_freed: Scope | None = None
    if freed is not None and is_within(freed.path, gang.scope):
        of_freed = level.domain_of(freed)
    if of_freed is not None:
        fit = _fit(state, level, of_freed, gang, freed, despite_orders)
        if fit is not None:
            heappush(heap, (fit.taken, fit.idle, _position(of_freed, top), False, fit))
    ask, taken, idle = rung.least(top)
    if ask <= limit:
        heappush(heap, (taken, idle, (), True, top))
    while heap:
        _, _, position, _, branch = heappop(heap)
        if isinstance(branch, DomainFit):
            return branch.leaves
        if level.is_domain(branch):
            assert isinstance(branch, Scope)
            if branch is not of_freed:
                fit = _fit(state, level, branch, gang, None, despite_orders)
                if fit is not None:
                    heappush(heap, (fit.taken, fit.idle, position, False, fit))
            continue
        for place, member in enumerate(branch.members):
            if isinstance(member, Leaf) or _floor_of(member) > limit:
                continue
            ask, taken, idle = rung.least(member)
            if ask <= limit:
                heappush(heap, (taken, idle, (*position, place), True, member))
    return None


def _floor_of(branch: Branch) -> int:
    return 0 if branch.book is None else branch.book.floor


def _position(node: Leaf | Branch, top: Branch) -> Position:
    places: list[int] = []
    while node is not top:
        branch = node.up
        assert branch is not None
        places.append(branch.members.index(node))  # type: ignore[arg-type]
        node = branch
    return tuple(reversed(places))


Found = tuple[int, Position, Leaf]
"""(floor or limit, position, leaf): what is to be taken, the first to be taken first"""


def _fit(
    state: State,
    level: GangLevel,
    domain: Scope,
    gang: Gang,
    freed: Leaf | None,
    despite_orders: bool,
) -> DomainFit | None:
    """What a gang would take of a domain, if it suits: idle leaves first, lowest floor first, then
    held ones, lowest limit first, ties in tree order.

    Only leaves that it would keep: nothing presses on them with more than its limit. At rest that
    would be an order of their holder's own. In the middle of a command it may also be what the
    holder is about to lose a leaf to, or who is about to win it.
    """
    idle: Iterable[Found]
    held: Iterable[Found]
    if level.is_small(domain):
        idle, held = _leaves_of_small(domain, gang, freed)
    elif _most_open(state, level, domain, gang, freed) < gang.count:
        return None
    else:
        idle, held = _idle_leaves(domain, gang.limit, freed), _held_leaves(domain, gang, freed)
    taken, leaves = 0, []
    for found in chain(idle, held):
        leaf = found[2]
        rate = floor_at(leaf) if despite_orders else rate_for(leaf, gang.tenant)
        if rate <= gang.limit:
            leaves.append((found[1], leaf))
            if leaf.owner is not None and leaf is not freed:
                taken += leaf.limit
            if len(leaves) == gang.count:
                came_free = freed is not None and freed.owner is not None
                leaves.sort()
                return DomainFit(taken, domain.idle + came_free, [leaf for _, leaf in leaves])
    return None


def _leaves_of_small(
    domain: Scope, gang: Gang, freed: Leaf | None
) -> tuple[list[Found], list[Found]]:
    """The idle leaves of a small domain, and those that others hold with a lower limit."""
    limit, tenant = gang.limit, gang.tenant
    above = floor_at(domain)
    idle: list[Found] = []
    held: list[Found] = []
    for place, leaf in enumerate(leaves_under(domain)):
        if leaf.owner is None or leaf is freed:
            idle.append((max(above, floor_below(leaf, domain)), (place,), leaf))
        elif leaf.weakest is leaf and leaf.limit < limit and leaf.owner != tenant:
            held.append((leaf.limit, (place,), leaf))
    idle.sort()
    held.sort()
    return idle, held


def _most_open(
    state: State, level: GangLevel, domain: Scope, gang: Gang, freed: Leaf | None
) -> int:
    """So many leaves of a wide domain a gang could have at most: all that it could but for orders
    of their holders."""
    tenant, limit = gang.tenant, gang.limit
    found: int = level.limits_of(domain).bisect_left(limit)
    if max(domain.idle_floor, floor_at(domain)) <= limit:
        found += domain.idle
    if freed is not None and freed.owner is not None and not _could_have(freed, gang):
        found += 1
    if tenant in domain.holders:
        for leaf in state.accounts[tenant].holdings.get(domain.tree.name, {}).values():
            if leaf.limit < limit and leaf.weakest is leaf and is_within(leaf.path, domain.path):
                found -= 1
    return found


def _could_have(leaf: Leaf, gang: Gang) -> bool:
    """Could a gang have a held leaf but for orders of its holder?"""
    return leaf.weakest is leaf and leaf.limit < gang.limit and leaf.owner != gang.tenant


def _idle_leaves(
    domain: Scope, limit: int, freed: Leaf | None
) -> Iterator[tuple[int, Position, Leaf]]:
    """The idle leaves under a domain with a floor up to a limit, the lowest floor first."""
    heap: list[tuple[int, Position, int, Leaf | Branch]] = []
    above = floor_at(domain)  # the highest floor over a node goes along with it
    if domain.idle and max(above, domain.idle_floor) <= limit:
        heappush(heap, (max(above, domain.idle_floor), (), above, domain))
    if freed is not None and freed.owner is not None and is_within(freed.path, domain.path):
        floor = floor_at(freed)
        if floor <= limit:
            heappush(heap, (floor, _position(freed, domain), floor, freed))
    while heap:
        floor, position, above, node = heappop(heap)
        if isinstance(node, Leaf):
            yield floor, position, node
            continue
        above = max(above, _floor_of(node))
        for place, member in enumerate(node.members):
            if member.idle and member.idle_floor <= limit:
                lowest = max(above, member.idle_floor)
                heappush(heap, (lowest, (*position, place), above, member))


def idle_leaves(node: Leaf | Scope) -> Iterator[Leaf]:
    """The idle leaves under a node, the lowest floor first, the leftmost of equals.

    Leaves may be taken in between: who was idle at the beginning comes in its turn.
    """
    if isinstance(node, Leaf):
        if node.owner is None:
            yield node
    else:
        for _, _, leaf in _idle_leaves(node, NEVER, None):
            yield leaf


def _held_leaves(
    domain: Scope, gang: Gang, freed: Leaf | None
) -> Iterator[tuple[int, Position, Leaf]]:
    """The leaves under a domain that others hold with a limit below a gang's, the lowest first."""
    tenant, limit = gang.tenant, gang.limit
    heap: list[tuple[int, Position, Leaf | Branch]] = []

    def push(node: Leaf | Branch, position: Position) -> None:
        weakest = node.weakest
        if weakest is not None and weakest.owner == tenant:
            weakest = node.other
        if weakest is not None and weakest.limit < limit:
            heappush(heap, (weakest.limit, position, node))

    push(domain, ())
    while heap:
        lowest, position, node = heappop(heap)
        if not isinstance(node, Leaf):
            for place, member in enumerate(node.members):
                push(member, (*position, place))
        elif node is not freed:
            yield lowest, position, node
