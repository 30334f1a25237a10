"""The contracts of today: tenants ask for what their autoscalers want, and a rule says who is next.

A tenant asks once for each kind that it can use: how many of it would be enough, if all were of
this kind. Whatever it gets of one kind makes all its requests smaller, by the same share. It keeps
its place in the line until it lacks nothing, and gives back what its application says is redundant.
A node that is given lies on a host where the tenant has nodes already, if there is one: else in the
same domain or rack, and so on up; and among equals where most are free, on the host and so on up.

A gang (`gangs`) asks for all of its nodes, starts when one domain has room for all, and gives them
back together; whoever takes one from it ends it. Behind the first gang that waits nobody takes what
it would miss.

Prices are fixed, so a budget means: no more nodes than it pays for over the next two steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from laissez.adapters.budget import STEPS_COVERED
from laissez.model import Release
from laissez.model.paths import tree_of
from laissez.performance.application import US_PER_S
from laissez.simulation.contracts.gangs import (
    ClusterDomains,
    Domains,
    GangsAhead,
    Reservation,
    earliest,
    evictions,
    room_for,
)
from laissez.simulation.contracts.recording import MINUTE_US, Recorder, tenant_for
from laissez.simulation.contracts.rules import Asker, Rule
from laissez.simulation.contracts.setting import CHARGE_UNITS_PER_MICRO, History, Setting, Stint
from laissez.simulation.demand.projects import Project
from laissez.simulation.kernel.stage import LogLine, NodeGiven, NodesAsked, NodeTaken, Stage, Tenant
from laissez.simulation.kernel.streams import HANDOVER_US, Handovers

NOBODY_AHEAD = GangsAhead(lambda gang: None)
"""No reservation binds whoever stands behind these."""


class Queueing:
    """A contract under which nodes are given out by a rule."""

    def __init__(self, name: str, rule: Rule) -> None:
        self.name = name
        self.rule = rule

    def play(self, setting: Setting, seed: int, *, keeps_log: bool = False) -> History:
        recorder = Recorder(setting)
        line = Line(self.rule, setting, seed, recorder, keeps_log=keeps_log)
        return line.run()


class Line:
    """Everybody who waits, and all that is given out."""

    def __init__(
        self, rule: Rule, setting: Setting, seed: int, recorder: Recorder, *, keeps_log: bool
    ) -> None:
        self._rule = rule
        self._setting = setting
        self._recorder = recorder
        self._keeps_log = keeps_log
        self._log: list[LogLine] = []
        self._last_asked: dict[str, NodesAsked] = {}
        self._stage = Stage(self._step, handover_us=Handovers(seed), witness=recorder)
        self._free: dict[str, dict[str, None]] = {}
        for resource in setting.resources:
            self._free.setdefault(tree_of(resource), {})[resource] = None
        self._totals = {tree: len(free) for tree, free in self._free.items()}
        self._domains = ClusterDomains(setting.resources)
        self._has_gangs = any(project.labour.gang for project in setting.projects)
        self._holders: dict[str, Asker] = {}
        self._changes = 0
        """How often anything has changed hands."""
        self._futile: dict[str, tuple[object, ...]] = {}
        """By name, for which kinds nobody had to make room for a gang, as things were then."""
        self._estimated: dict[str, int] = {}
        """By name, when an application was last told what time it is, to estimate its end."""
        self._since: dict[str, int] = {}
        self._stints: list[Stint] = []
        self._settled: dict[str, int] = {}
        self._askers: dict[str, Asker] = {}
        for project in setting.projects:
            self._join(project)

    def run(self) -> History:
        end_us = self._setting.horizon_us
        self._stage.kernel.every(MINUTE_US, lambda at_us: self._recorder.minute(self._held()))
        self._stage.run(end_us)
        for tenant in self._stage.tenants.values():
            self._recorder.ends(tenant, end_us)
        for asker in self._askers.values():
            for resource in tuple(asker.held):
                self._settle(asker, resource, end_us, None)
        recorder = self._recorder
        return History(
            tuple(self._stints),
            tuple(recorder.losses),
            recorder.performance,
            {tree: tuple(rates) for tree, rates in recorder.rates.items()},
            tuple(self._log),
        )

    # Coming and going -------------------------------------------------------------------------

    def _join(self, project: Project) -> None:
        tenant = tenant_for(project, self._setting)
        prices = self._setting.prices
        is_spot = self._rule.sells_spot and project.labour.is_preemptible
        asker = Asker(
            tenant,
            project.arrives_us,
            project.labour.may_preempt,
            project.labour.is_preemptible,
            prices.spot if is_spot else prices.on_demand,
            min(project.ends_us, self._setting.horizon_us),
            self._free.keys() <= {*tenant.adapter.terms.scopes},
            project.labour.gang,
        )
        self._askers[project.name] = asker
        self._stage.join(tenant)
        self._stage.kernel.at(project.ends_us, lambda at_us: self._end(asker, at_us))

    def _end(self, asker: Asker, at_us: int) -> None:
        self._recorder.ends(asker.tenant, at_us)
        self._stage.leave(asker.name)
        asker.wanted = {}
        for resource in tuple(asker.held):
            self._settle(asker, resource, at_us, "relinquished")
            self._put_back(resource)
            self._say(asker, Release(resource), at_us, "it leaves")
        self._serve(at_us)

    # A tenant's turn --------------------------------------------------------------------------

    def _step(self, tenant: Tenant, at_us: int) -> None:
        asker = self._askers[tenant.name]
        app = tenant.app
        for resource in tuple(asker.held):
            if app.is_done:
                self._release(asker, resource, at_us, "the work is done")
            elif app.is_redundant(resource):
                self._release(asker, resource, at_us, "it is redundant")
                asker.given_back_us[tree_of(resource)] = at_us
        rate_left = self._stay_within_budget(asker, at_us)
        wanted = {} if app.is_done else self._wanted(asker, rate_left, at_us)
        if wanted and not asker.wanted:
            asker.since_us = at_us
        asker.wanted, asker.given = wanted, {}
        if self._keeps_log:
            self._say_asked(asker, at_us)
        self._serve(at_us)

    def _wanted(self, asker: Asker, rate_left: float, at_us: int) -> dict[str, int]:
        """What it lacks and can pay for. Of what it has just given back it asks for nothing until a
        step is over: a node may be of no use where it lies, and another one needed."""
        wanted = {}
        for kind in asker.tenant.app.kinds:
            given_back_us = asker.given_back_us.get(kind, -self._setting.period_us)
            if kind in self._free and at_us - given_back_us >= self._setting.period_us:
                count = asker.tenant.app.missing(kind)
                affordable = min(count, rate_left // asker.prices[kind])
                if affordable > 0 and (asker.gang is None or affordable == asker.gang.count):
                    wanted[kind] = int(affordable)
        return wanted

    def _stay_within_budget(self, asker: Asker, at_us: int) -> float:
        """What may still be spent an hour, after giving up what can't be paid any more."""
        budget = asker.tenant.adapter.terms.budget
        if budget is None:
            return float("inf")
        running = sum(
            asker.price_of(resource) * (at_us - self._since[resource]) for resource in asker.held
        )
        left = budget.total_micros * CHARGE_UNITS_PER_MICRO
        left -= self._settled.get(asker.name, 0) + running
        wall = max(0, left) / (STEPS_COVERED * self._setting.period_us)
        rates = sum(map(asker.price_of, asker.held))
        is_over = rates > wall
        for resource in asker.least_missed():
            if rates <= wall and not (is_over and asker.gang):
                break
            rates -= asker.price_of(resource)
            self._release(asker, resource, at_us, "the budget does not pay for it any more")
        return wall - rates

    # Giving and taking ------------------------------------------------------------------------

    def _serve(self, at_us: int) -> None:
        while self._give_one(at_us):
            pass

    def _give_one(self, at_us: int) -> bool:
        waiting = [asker for asker in self._askers.values() if asker.wanted]
        return self._give_free(waiting, at_us) or self._give_taken(waiting, at_us)

    def _give_free(self, waiting: Sequence[Asker], at_us: int) -> bool:
        """What lies free, to the first who can use it."""
        if not any(self._free.values()):
            return False
        ahead = GangsAhead(lambda gang: self._reservation(gang, at_us))
        for asker in self._in_turn(waiting):
            bound_by = ahead if self._rule.is_bound(asker) else NOBODY_AHEAD
            if asker.gang is not None:
                if nodes := self._room(asker, bound_by, at_us):
                    self._start(asker, nodes, at_us)
                    return True
                ahead.add(asker)
                continue
            for kind in asker.lacking():
                free = _usable(asker, self._free[kind])
                if free and (reserved := bound_by.reservation()) is not None:
                    free = reserved.spared(free, self._until_us(asker, free[0], at_us))
                if free:
                    self._give(asker, self._place(asker, free), at_us)
                    return True
        return False

    def _give_taken(self, waiting: Sequence[Asker], at_us: int) -> bool:
        """What somebody has, to the first who may take it. Nothing changes until one does, so who
        has to give is found once for each kind."""
        givers: dict[str, list[Asker]] = {}
        ahead = GangsAhead(lambda gang: self._reservation(gang, at_us))
        takers = {asker.name: asker for asker in waiting if self._rule.may_take(asker, at_us)}
        for asker in self._in_turn(waiting if takers and self._has_gangs else takers.values()):
            bound_by = ahead if self._rule.is_bound(asker) else NOBODY_AHEAD
            if asker.gang is not None:
                if asker.name in takers and self._evict(asker, bound_by, at_us):
                    return True
                ahead.add(asker)
            elif asker.name in takers and self._take_one(asker, givers, bound_by, at_us):
                return True
        return False

    def _take_one(
        self,
        asker: Asker,
        givers: dict[str, list[Asker]],
        bound_by: GangsAhead,
        at_us: int,
    ) -> bool:
        for kind in asker.lacking():
            if kind not in givers:
                holders = (each for each in self._askers.values() if each.count(kind))
                givers[kind] = self._rule.givers(holders, self._totals)
            reachable = givers[kind]
            if not asker.may_use_all:
                reachable = [each for each in reachable if _usable(asker, each.of_kind(kind))]
            victim = self._rule.victim(asker, kind, reachable, self._totals)
            if victim is None:
                continue
            resource = _usable(asker, victim.least_missed(kind))[0]
            if self._bears(bound_by, asker, [resource], at_us):
                self._take_for(asker, victim, [resource], at_us)
                self._give(asker, resource, at_us)
                return True
        return False

    # Gangs ------------------------------------------------------------------------------------

    def _domains_for(self, asker: Asker) -> list[Domains]:
        """Of the kinds that it asks for, the best first."""
        gang = asker.gang
        assert gang is not None
        return [self._domains.of(kind, gang.within) for kind in asker.wanted]

    def _room(self, asker: Asker, bound_by: GangsAhead, at_us: int) -> list[str]:
        """Free nodes for all of a gang, if there are as many in a domain."""
        gang = asker.gang
        assert gang is not None

        def usable(nodes: tuple[str, ...]) -> list[str]:
            free = _usable(asker, (node for node in nodes if node not in self._holders))
            if len(free) < gang.count or (reserved := bound_by.reservation()) is None:
                return free
            return reserved.spared(free, self._until_us(asker, free[0], at_us))

        return room_for(self._domains_for(asker), gang.count, usable)

    def _reservation(self, asker: Asker, at_us: int) -> Reservation | None:
        """When there will be room for a gang, if that is in its time and nobody who stands behind
        it takes anything."""
        assert asker.gang is not None

        def free_us(node: str) -> int:
            holder = self._holders.get(node)
            return at_us if holder is None else self._until_us(holder, node, at_us)

        found = earliest(self._domains_for(asker), asker.gang.count, free_us)
        return found if found is not None and found.at_us < asker.ends_us else None

    def _bears(self, bound_by: GangsAhead, asker: Asker, nodes: Sequence[str], at_us: int) -> bool:
        """Whether those who wait before it can do without these nodes as long as it has them."""
        reserved = bound_by.reservation()
        return reserved is None or reserved.bears(nodes, self._until_us(asker, nodes[0], at_us))

    def _until_us(self, asker: Asker, node: str, at_us: int) -> int:
        """Until when it has a node at the latest, or would have one that it gets now: by its own
        estimate, and until the turn in which it sees that it is done."""
        app = asker.tenant.app
        if app.ends_in_s(node) is None:
            return asker.ends_us
        if self._estimated.get(asker.name) != at_us:
            app.advance(at_us)
            self._estimated[asker.name] = at_us
        left_s = 0.0 if app.is_done else app.ends_in_s(node)
        from_us = at_us
        if node not in app.nodes or (asker.gang and asker.tenant.arriving):
            is_own = self._holders.get(node) is asker
            from_us = (self._since[node] if is_own else at_us) + HANDOVER_US[1]
        done_us = from_us + round(left_s * US_PER_S)
        period_us = self._setting.period_us
        turns = -((asker.arrives_us - done_us) // period_us)
        return min(asker.ends_us, asker.arrives_us + turns * period_us)

    def _start(self, asker: Asker, nodes: Iterable[str], at_us: int) -> None:
        for node in nodes:
            self._give(asker, node, at_us)
        asker.wanted = {}

    def _evict(self, asker: Asker, bound_by: GangsAhead, at_us: int) -> bool:
        """Room for all of a gang, made by those who have to."""
        gang = asker.gang
        assert gang is not None
        since = (self._changes, *asker.wanted)
        if self._futile.get(asker.name) == since:
            return False
        is_futile = True
        for domains in self._domains_for(asker):
            found = evictions(
                asker,
                gang.count,
                {name: tuple(_usable(asker, nodes)) for name, nodes in domains.items()},
                self._holders,
                self._rule,
                self._totals,
            )
            if found is None:
                continue
            if self._bears(bound_by, asker, found.nodes, at_us):
                for name, nodes in found.taken.items():
                    self._take_for(asker, self._askers[name], nodes, at_us)
                self._start(asker, found.nodes, at_us)
                return True
            is_futile = False
        if is_futile:
            self._futile[asker.name] = since
        return False

    def _take_for(self, asker: Asker, victim: Asker, nodes: Iterable[str], at_us: int) -> None:
        """Nodes of somebody's; of a gang, all. What nobody has been given by then lies free."""
        for node in tuple(victim.held) if victim.gang else tuple(nodes):
            self._take(victim, node, at_us, asker.name)
            self._put_back(node)

    def _in_turn(self, askers: Iterable[Asker]) -> list[Asker]:
        return sorted(askers, key=lambda asker: self._rule.rank(asker, self._totals))

    def _place(self, asker: Asker, free: Sequence[str]) -> str:
        """Near what it has; then where most are free, on the host and so on up; then the first."""
        own = {prefix for resource in asker.held for prefix in _above(resource)}
        room = Counter(prefix for resource in free for prefix in _above(resource))

        def rank(resource: str) -> tuple[int, ...]:
            above = _above(resource)
            near = sum(prefix in own for prefix in above)
            return -near, *(-room[prefix] for prefix in reversed(above))

        return min(free, key=rank)

    def _give(self, asker: Asker, resource: str, at_us: int) -> None:
        kind = tree_of(resource)
        self._free[kind].pop(resource, None)
        asker.take(resource)
        asker.given[kind] = asker.given.get(kind, 0) + 1
        self._changes += 1
        self._since[resource] = at_us
        self._holders[resource] = asker
        if self._keeps_log:
            self._say(asker, NodeGiven(resource, asker.price_of(resource)), at_us)
        self._stage.hand_over(asker.tenant, resource, at_us)

    def _take(self, asker: Asker, resource: str, at_us: int, to: str) -> None:
        self._say(asker, NodeTaken(resource, to), at_us)
        self._settle(asker, resource, at_us, "preempted")
        self._stage.take_away(asker.tenant, resource, at_us)

    def _release(self, asker: Asker, resource: str, at_us: int, why: str) -> None:
        self._say(asker, Release(resource), at_us, why)
        self._settle(asker, resource, at_us, "relinquished")
        self._stage.take_away(asker.tenant, resource, at_us)
        self._put_back(resource)

    def _put_back(self, resource: str) -> None:
        self._free[tree_of(resource)][resource] = None

    def _settle(self, asker: Asker, resource: str, at_us: int, reason: str | None) -> None:
        self._changes += 1
        asker.drop(resource)
        del self._holders[resource]
        from_us = self._since.pop(resource)
        charge = asker.price_of(resource) * (at_us - from_us)
        self._settled[asker.name] = self._settled.get(asker.name, 0) + charge
        self._stints.append(Stint(asker.name, resource, from_us, at_us, charge, reason))

    # What is written down ---------------------------------------------------------------------

    def _say(
        self,
        asker: Asker,
        what: Release | NodesAsked | NodeGiven | NodeTaken,
        at_us: int,
        why: str = "",
    ) -> None:
        if self._keeps_log:
            self._log.append(LogLine(at_us, asker.name, what, why))

    def _say_asked(self, asker: Asker, at_us: int) -> None:
        """What it asks for, if that is not what it asked for before."""
        app = asker.tenant.app
        counts = {} if app.is_done else {kind: app.missing(kind) for kind in app.kinds}
        asked = NodesAsked({kind: count for kind, count in counts.items() if count}, asker.wanted)
        if self._last_asked.get(asker.name, NodesAsked({}, {})) != asked:
            self._last_asked[asker.name] = asked
            self._say(asker, asked, at_us)

    def _held(self) -> Iterator[tuple[str, int]]:
        for asker in self._askers.values():
            for resource in asker.held:
                yield resource, asker.price_of(resource)


def _usable(asker: Asker, resources: Iterable[str]) -> list[str]:
    """Those that lie where the tenant may order."""
    return [each for each in resources if asker.may_use_all or asker.tenant.may_use(each)]


@lru_cache(maxsize=65_536)
def _above(resource: str) -> tuple[str, ...]:
    """Every scope that a resource lies in."""
    names = resource.split("/")
    return tuple("/".join(names[:depth]) for depth in range(1, len(names)))
