"""Gangs in a line: who gets all its nodes at once, and what the first that can't may count on.

A gang starts when one domain has room for all of it, or it waits. If only free nodes decided, one
that is large would wait for ever: whatever comes free goes to somebody smaller. So the first gang
that waits, in the order of the rule, has a reservation, as with EASY backfill (Lifka, 1995; Slurm's
`sched/backfill` for one job): the domain and the instant at which it can start at the earliest.

What it knows: who holds what now, and until when at the latest. That is each holder's own estimate:
of a job with work left, when that is done, rounded up to the turn in which it gives its nodes back;
of a service, and of whoever can't say, its end. Nobody overruns: what has reached its end leaves.
Who stands behind may take a free node of that domain if it is back by then, or if the gang can do
without it (`spared`); elsewhere it may take any. Elastic tenants ask for nodes one by one and need
no reservation: one that stands before a gang takes what comes free first, in its turn, and only
then is the instant kept. Estimates change, so a reservation is made anew whenever it is asked for,
and none outlives the instant: it can come earlier, and later only by what its holders misjudged.
Whoever could start only when its own time is over has none, and the next gang has one.
Taking by force is no backfill: a rule that lets somebody take says whether reservations bind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from laissez.model.paths import tree_of
from laissez.performance.rigid import domain_of
from laissez.simulation.contracts.rules import Asker, Rule, Totals

Domains = Mapping[str, tuple[str, ...]]
"""The nodes of each domain, in the order of the cluster."""


class ClusterDomains:
    """The domains of a cluster, by kind and by how many names their path has."""

    def __init__(self, resources: Sequence[str]) -> None:
        self._resources = resources
        self._found: dict[tuple[str, int], Domains] = {}

    def of(self, kind: str, within: int) -> Domains:
        found = self._found.get((kind, within))
        if found is None:
            domains: dict[str, list[str]] = {}
            for resource in self._resources:
                if tree_of(resource) == kind:
                    domains.setdefault(domain_of(resource, within), []).append(resource)
            found = self._found[kind, within] = {
                name: tuple(nodes) for name, nodes in domains.items()
            }
        return found


class Reservation(NamedTuple):
    """So many nodes of a domain, at this instant; `back` are all that are free there by then."""

    domain: str
    size: int
    at_us: int
    back: frozenset[str]

    def spared(self, nodes: Iterable[str], until_us: int) -> list[str]:
        """Those of the nodes of which somebody may have one, or, together, as many as there are."""
        if until_us <= self.at_us:
            return list(nodes)
        others = [node for node in nodes if node not in self.back]
        spare = max(0, len(self.back) - self.size)
        return others + [node for node in nodes if node in self.back][:spare]

    def bears(self, nodes: Sequence[str], until_us: int) -> bool:
        """Whether somebody may have all of these."""
        return len(self.spared(nodes, until_us)) == len(nodes)


class GangsAhead:
    """Those who wait before somebody, and the reservation of the first that can still make it. It
    is looked for only if somebody stands behind whom it binds."""

    def __init__(self, reserve: Callable[[Asker], Reservation | None]) -> None:
        self._reserve = reserve
        self._unseen: list[Asker] = []
        self._found: Reservation | None = None

    def add(self, asker: Asker) -> None:
        self._unseen.append(asker)

    def reservation(self) -> Reservation | None:
        while self._found is None and self._unseen:
            self._found = self._reserve(self._unseen.pop(0))
        return self._found


def earliest(
    domains: Iterable[Domains], count: int, free_us: Callable[[str], int]
) -> Reservation | None:
    """Where and when so many nodes of one domain are free first; among equals where the fewest are
    back by then, so that whole domains stay whole."""
    best: Reservation | None = None
    for each in domains:
        for name, nodes in each.items():
            if len(nodes) < count:
                continue
            instants = {node: free_us(node) for node in nodes}
            at_us = sorted(instants.values())[count - 1]
            if best is not None and at_us > best.at_us:
                continue
            back = frozenset(node for node, free in instants.items() if free <= at_us)
            if best is None or (at_us, len(back)) < (best.at_us, len(best.back)):
                best = Reservation(name, count, at_us, back)
    return best


def room_for(
    domains: Iterable[Domains], count: int, usable: Callable[[tuple[str, ...]], list[str]]
) -> list[str]:
    """So many nodes of one domain, of those that are usable now; none if no domain has as many.
    The first kind that has room; there the domain with the fewest, so that others stay whole."""
    for each in domains:
        found = [nodes for named in each.values() if len(nodes := usable(named)) >= count]
        if found:
            return min(found, key=len)[:count]
    return []


class Evictions(NamedTuple):
    """The nodes that a gang gets, and of whom it takes which."""

    nodes: tuple[str, ...]
    taken: Mapping[str, tuple[str, ...]]
    """By the name of who has to give."""

    @property
    def cost(self) -> int:
        return sum(map(len, self.taken.values()))


def evictions(
    taker: Asker,
    count: int,
    domains: Domains,
    holders: Mapping[str, Asker],
    rule: Rule,
    totals: Totals,
) -> Evictions | None:
    """How the taker comes by a whole domain's worth: where the fewest nodes have to be taken."""
    kind = next((tree_of(nodes[0]) for nodes in domains.values()), None)
    everybody = {asker.name: asker for asker in holders.values()}.values()
    if kind is None or not any(
        rule.may_evict(taker, asker, kind, count, 1, totals) for asker in everybody
    ):
        return None  # nobody need give a single node
    best: Evictions | None = None
    for nodes in domains.values():
        if len(nodes) < count:
            continue
        found = _evictions_in(taker, count, nodes, holders, rule, totals)
        if found is not None and (best is None or found.cost < best.cost):
            best = found
    return best


def _evictions_in(
    taker: Asker,
    count: int,
    nodes: Sequence[str],
    holders: Mapping[str, Asker],
    rule: Rule,
    totals: Totals,
) -> Evictions | None:
    """One node after the other, from whoever has most by then and need not keep it."""
    kind = tree_of(nodes[0])
    got = [node for node in nodes if node not in holders]
    taken: dict[str, list[str]] = {}
    there: dict[str, list[str]] = {}
    askers: dict[str, Asker] = {}
    for node in nodes:
        if node in holders:
            holder = holders[node]
            askers[holder.name] = holder
            there.setdefault(holder.name, []).append(node)

    def victims() -> Iterator[tuple[float, str]]:
        for name, asker in askers.items():
            lost = len(taken.get(name, ()))
            may_lose = rule.may_evict(taker, asker, kind, count, lost + 1, totals)
            if lost < len(there[name]) and may_lose:
                yield -asker.share_with(totals, kind, -lost), name

    while len(got) < count:
        found = min(victims(), default=None)
        if found is None:
            return None
        victim = askers[found[1]]
        missed = [node for node in victim.least_missed(kind) if node in there[victim.name]]
        node = missed[len(taken.get(victim.name, ()))]
        taken.setdefault(victim.name, []).append(node)
        got.append(node)
    return Evictions(tuple(got[:count]), {name: tuple(each) for name, each in taken.items()})
