"""Gangs in a line: all or nothing, a reservation that backfill keeps, and nothing idle for less."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laissez.model.paths import tree_of
from laissez.performance.batch import Work
from laissez.performance.rigid import RigidSpec, domain_of
from laissez.simulation.contracts.gangs import GangsAhead, earliest, room_for
from laissez.simulation.contracts.queueing import Line, Queueing
from laissez.simulation.contracts.recording import Recorder
from laissez.simulation.contracts.registry import CONTRACTS
from laissez.simulation.contracts.rules import Asker, FirstCome, Rule
from laissez.simulation.contracts.setting import History, Setting, Stint
from laissez.simulation.demand.projects import Project, Rigid
from laissez.simulation.kernel.streams import stream
from laissez.simulation.life.life import life_of
from laissez.simulation.scenarios.regimes import alone
from test_sim_contracts import (
    PLENTY,
    S,
    batch,
    lasting,
    prices_of,
    random_project,
    serving,
    training,
)

QUEUES = ("fcfs", "fcfs_p", "fair")
HOST = 3
"""A path of so many names is a host in the clusters of this file."""


def rigid(
    name: str,
    arrives_s: int,
    ends_s: int,
    work_s: float,
    count: int,
    within: int = HOST,
    kinds: Sequence[str] = ("h100",),
) -> Project:
    """10 s of start-up, a checkpoint a minute; `work_s` is on all of its nodes."""
    speeds = {kind: 0.5 if kind == "a100" else 1.0 for kind in kinds}
    spec = RigidSpec(Work(work_s / 3_600, speeds), count, within, ends_s * S, 10.0, 60.0)
    return Project(name, arrives_s * S, ends_s * S, Rigid(spec), tuple(kinds))


def cluster(hosts: int = 2, gpus: int = 4, kinds: Sequence[str] = ("h100",)) -> tuple[str, ...]:
    """Two hosts in a rack."""
    return tuple(
        f"{kind}/r{host // 2}/h{host}/g{gpu}"
        for kind in kinds
        for host in range(hosts)
        for gpu in range(gpus)
    )


def played_on(
    resources: tuple[str, ...], projects: Sequence[Project], horizon_s: int = 600
) -> Setting:
    kinds = tuple(dict.fromkeys(map(tree_of, resources)))
    budgets = {project.name: PLENTY for project in projects}
    return Setting(resources, prices_of(*kinds), tuple(projects), budgets, horizon_s * S)


def spans(history: History, name: str) -> list[tuple[int, int, int]]:
    """From when to when it had nodes that it got at once, in seconds, and how many."""
    own = [stint for stint in lasting(history) if stint.tenant == name]
    found = {(stint.from_us // S, stint.to_us // S) for stint in own}
    return sorted(
        (*span, sum((each.from_us // S, each.to_us // S) == span for each in own)) for span in found
    )


# By hand ----------------------------------------------------------------------------------------


def test_backfill_by_hand() -> None:
    """One host of four. a has a node until 130. g needs all four, and will have them then. h, which
    needs two for a minute, and b, which needs one for a little longer, are back by then and start
    before g; c, which needs one for five minutes, would be late and waits until g is done."""
    projects = [
        batch("a", 0, 590, 100, ("h100",)),
        rigid("g", 0, 590, 100, 4),
        rigid("h", 5, 590, 50, 2),
        batch("b", 8, 590, 60, ("h100",)),
        batch("c", 9, 590, 300, ("h100",)),
    ]
    history = CONTRACTS["fcfs"].play(played_on(cluster(1), projects), 1)
    assert spans(history, "a") == [(0, 130, 1)]
    assert spans(history, "h") == [(5, 75, 2)]
    assert spans(history, "b") == [(8, 98, 1)]
    assert spans(history, "g") == [(130, 250, 4)]
    assert spans(history, "c") == [(250, 579, 1)]
    assert history.performance == dict.fromkeys("aghbc", 1.0)


def test_what_a_gang_can_do_without_is_nobodys() -> None:
    """Two hosts of four; in one a has a node until 130, in the other b one for long. g needs three,
    which the first host has free already: nobody waits. k needs four, and will have the first
    host when a and g are done: c, which stays for longer than that, gets a node beside b."""
    projects = [
        batch("a", 0, 590, 100, ("h100",)),
        rigid("g", 1, 590, 80, 3),
        rigid("f", 2, 590, 300, 2),
        rigid("k", 3, 590, 60, 4),
        batch("c", 9, 590, 400, ("h100",)),
    ]
    history = CONTRACTS["fcfs"].play(played_on(cluster(2), projects), 1)
    hosts = {
        name: {domain_of(stint.resource, HOST) for stint in history.stints if stint.tenant == name}
        for name in "agfkc"
    }
    assert hosts["a"] == hosts["g"] == hosts["k"] != hosts["c"] == hosts["f"]
    assert spans(history, "k") == [(130, 203, 4)]
    assert spans(history, "c") == [(9, 439, 1)]


def test_a_gang_is_evicted_whole() -> None:
    """A service that comes second takes a node of the gang that has all: the gang has none from
    then on, and starts again when it can, with the work that it had saved."""
    projects = [rigid("g", 0, 590, 200, 4), serving("i", 100, 300, [9.0])]
    history = CONTRACTS["fcfs_p"].play(played_on(cluster(1), projects), 1)
    assert spans(history, "g") == [(0, 100, 4), (300, 460, 4)]
    wasted = [loss.wasted for loss in history.losses if loss.tenant == "g"]
    assert sum(wasted) == pytest.approx(30 / 200, abs=0.002)  # a checkpoint at 70, of work since 10
    assert history.performance["g"] == 1.0


def test_fair_share_makes_room_for_a_gang() -> None:
    """One host of eight, of which t has all. g needs two and waits for 15 s; then t gives both at
    once. k, which needs six, would have more than t has left, and gets nothing."""
    projects = [
        training("t", 0, 590, 9_000, kinds=("h100",)),
        rigid("g", 10, 590, 100, 2),
        rigid("k", 10, 590, 100, 6),
    ]
    history = CONTRACTS["fair"].play(played_on(cluster(1, 8), projects), 1)
    (began, ended, count) = spans(history, "g")[0]
    assert (began, count) == (30, 2)
    assert ended >= 140
    at_us = 31 * S
    held = [each for each in history.stints if each.from_us <= at_us < each.to_us]
    assert sum(each.tenant == "t" for each in held) == 6
    assert history.performance["g"] == 1.0


def test_who_could_start_only_after_its_end_keeps_nobody_waiting() -> None:
    """g could have all nodes when a is done, and that is after its own end; so h behind it need
    not be back by then."""
    projects = [
        batch("a", 0, 590, 300, ("h100",)),
        rigid("g", 1, 200, 60, 4),
        rigid("h", 2, 590, 400, 3),
    ]
    history = CONTRACTS["fcfs"].play(played_on(cluster(1), projects), 1)
    assert spans(history, "h") == [(2, 422, 3)]
    assert history.performance["g"] == 0.0


def test_a_life_of_a_gang_can_be_told() -> None:
    """Watched, a rigid job lives the same life."""
    projects = [rigid("g", 0, 590, 200, 4), serving("i", 100, 300, [9.0])]
    played = played_on(cluster(1), projects)
    own = {project.name: alone(project, played, 1) for project in projects}
    life = life_of(played, own, CONTRACTS["fcfs_p"], 1, "g")
    assert life.who.kind == "rigid"
    assert life.stints == tuple(
        stint for stint in CONTRACTS["fcfs_p"].play(played, 1).stints if stint.tenant == "g"
    )


# Whatever comes ---------------------------------------------------------------------------------


def random_gang(name: str, chance: Random, arrives_s: int) -> Project:
    ends_s = arrives_s + chance.randrange(180, 400)
    within = chance.choice((1, 2, HOST, HOST))
    count = chance.randrange(2, 5 if within == HOST else 7)
    kinds = chance.choice((("h100",), ("h100",), ("h100", "a100")))
    return rigid(f"g{name}", arrives_s, ends_s, chance.uniform(20, 200), count, within, kinds)


def random_crowd(seed: int) -> Setting:
    """Gangs of several sizes beside elastic tenants."""
    chance = stream(seed, "gangs")
    arrivals = chance.sample(range(200), chance.randrange(1, 5))
    projects = [random_gang(str(at), chance, arrives_s) for at, arrives_s in enumerate(arrivals)]
    projects += [random_project(str(at), chance) for at in range(chance.randrange(0, 5))]
    chance.shuffle(projects)
    return played_on(cluster(chance.randrange(2, 5), 4, ("h100", "a100")), projects)


def only_gangs(seed: int) -> Setting:
    """No two of them come at once, so that who is first in line remains it."""
    chance = stream(seed, "only gangs")
    arrivals = chance.sample(range(300), chance.randrange(8, 20))
    projects = [random_gang(str(at), chance, arrives_s) for at, arrives_s in enumerate(arrivals)]
    return played_on(cluster(2, 4, ("h100", "a100")), projects, 700)


def at_any_time(history: History, name: str) -> Iterator[list[Stint]]:
    """What somebody has after each instant at which that changes."""
    own = [stint for stint in lasting(history) if stint.tenant == name]
    for at_us in sorted({each.from_us for each in own} | {each.to_us for each in own}):
        yield [each for each in own if each.from_us <= at_us < each.to_us]


@pytest.mark.parametrize("name", QUEUES)
@settings(max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_never_half_a_gang(name: str, seed: int) -> None:
    """At any time a rigid job has all of its nodes, in one domain, or none."""
    played = random_crowd(seed)
    history = CONTRACTS[name].play(played, seed)
    for project in played.projects:
        if isinstance(project.labour, Rigid):
            spec = project.labour.spec
            for held in at_any_time(history, project.name):
                assert len(held) in (0, spec.count)
                assert len({domain_of(each.resource, spec.within) for each in held}) <= 1
                assert len({each.from_us for each in held}) <= 1
    for node in played.resources:
        own = sorted((each.from_us, each.to_us) for each in history.stints if each.resource == node)
        assert all(earlier[1] <= later[0] for earlier, later in pairwise(own))


class WatchedLine(Line):
    """A line that looks at itself whenever it has served everybody."""

    def __init__(self, rule: Rule, setting: Setting, seed: int) -> None:
        super().__init__(rule, setting, seed, Recorder(setting), keeps_log=False)
        self.promised_us: dict[str, int] = {}
        """By name, the earliest instant that somebody who was first in line could count on."""
        self.late: list[str] = []
        self.idle: list[str] = []

    def _serve(self, at_us: int) -> None:
        super()._serve(at_us)
        waiting = self._in_turn(asker for asker in self._askers.values() if asker.wanted)
        ahead = GangsAhead(lambda gang: self._reservation(gang, at_us))
        for asker in waiting:
            if asker.gang is not None:
                if self._room(asker, ahead, at_us):
                    self.idle.append(asker.name)
                ahead.add(asker)
                if asker is waiting[0] and (reserved := ahead.reservation()) is not None:
                    before_us = self.promised_us.get(asker.name, reserved.at_us)
                    self.promised_us[asker.name] = min(before_us, reserved.at_us)
                    if before_us < reserved.at_us:
                        self.late.append(asker.name)
                continue
            for kind in asker.lacking():
                free = list(self._free[kind])
                if free and (reserved := ahead.reservation()) is not None:
                    free = reserved.spared(free, self._until_us(asker, free[0], at_us))
                if free:
                    self.idle.append(asker.name)

    def _start(self, asker: Asker, nodes: Sequence[str], at_us: int) -> None:  # type: ignore[override]
        if at_us > self.promised_us.get(asker.name, at_us):
            self.late.append(asker.name)
        super()._start(asker, nodes, at_us)


@settings(max_examples=40)
@given(seed=st.integers(0, 10_000))
def test_the_first_in_line_is_never_delayed_by_those_behind_it(seed: int) -> None:
    """Among gangs alone estimates are exact: once first in line, a gang starts no later than it
    could count on then, whoever comes."""
    line = WatchedLine(FirstCome(), only_gangs(seed), seed)
    line.run()
    assert line.late == []


def test_some_gangs_wait_and_some_start_before_them() -> None:
    """So the property above is about something: there are reservations, and backfill."""
    reserved = overtaken = 0
    for seed in range(20):
        played = only_gangs(seed)
        line = WatchedLine(FirstCome(), played, seed)
        history = line.run()
        reserved += len(line.promised_us)
        began = {stint.tenant: stint.from_us for stint in reversed(history.stints)}
        come = sorted(played.projects, key=lambda each: (each.arrives_us, each.name))
        overtaken += sum(
            began[earlier.name] > began[later.name]
            for at, earlier in enumerate(come)
            for later in come[at + 1 :]
            if earlier.name in began and later.name in began
        )
    assert reserved > 10
    assert overtaken > 10


@pytest.mark.parametrize("name", QUEUES)
@settings(max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_nothing_lies_idle_but_for_the_first_gang(name: str, seed: int) -> None:
    """After each turn nobody lacks what is free, unless the first gang that waits would miss it."""
    contract = CONTRACTS[name]
    assert isinstance(contract, Queueing)
    for played in (random_crowd(seed), only_gangs(seed)):
        if name == "fcfs_p":
            continue  # there services are not bound
        line = WatchedLine(contract.rule, played, seed)
        line.run()
        assert line.idle == []


# Rooms and reservations -------------------------------------------------------------------------

TIMES = st.lists(st.integers(0, 9), min_size=1, max_size=12)


@given(times=TIMES, count=st.integers(1, 5), size=st.integers(1, 4))
def test_a_reservation_is_the_earliest_there_is(times: list[int], count: int, size: int) -> None:
    """No domain has as many nodes free before that, and this one has by then."""
    nodes = [f"h100/d{at // size}/g{at}" for at in range(len(times))]
    free = dict(zip(nodes, times, strict=True))
    domains: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        domains[domain_of(node, 2)] = (*domains.get(domain_of(node, 2), ()), node)
    found = earliest([domains], count, free.__getitem__)
    instants = [
        at
        for at in range(10)
        if any(sum(free[node] <= at for node in each) >= count for each in domains.values())
    ]
    assert (None if found is None else found.at_us) == min(instants, default=None)
    if found is not None:
        assert found.back == {node for node in domains[found.domain] if free[node] <= found.at_us}
        late = found.spared(nodes, found.at_us + 1)
        left = [node for node in found.back if node not in late]
        assert len(left) == count
        assert found.spared(nodes, found.at_us) == nodes


def test_room_is_where_the_fewest_are() -> None:
    """A gang of two goes where three are free, not where four are; of two kinds, the first that has
    room."""
    wide = {"a/x": ("a/x/0", "a/x/1", "a/x/2", "a/x/3"), "a/y": ("a/y/0", "a/y/1", "a/y/2")}
    assert room_for([wide], 2, list) == ["a/y/0", "a/y/1"]
    assert room_for([{"b/x": ("b/x/0",)}, wide], 2, list) == ["a/y/0", "a/y/1"]
    assert room_for([wide], 5, list) == []
