"""Every contract on small clusters: what can't be otherwise whatever the rule, and each rule."""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import blake2b
from itertools import pairwise, product
from pathlib import Path
from random import Random
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laissez.adapters.adapter import Adapter
from laissez.adapters.footprint import Footprint
from laissez.adapters.intent import TradingTerms
from laissez.experiments.metrics import ENDINGS
from laissez.model import Lost, Release
from laissez.model.paths import covers, tree_of
from laissez.performance.inference import Hardware, InferenceSpec, Load, LoadTrace, preset
from laissez.performance.standing import Standing
from laissez.performance.training import Setup, TrainingSpec
from laissez.performance.training.planner import planner_of
from laissez.simulation.contracts import trading
from laissez.simulation.contracts.registry import CONTRACTS
from laissez.simulation.contracts.rules import WARNING_US, Asker, FairShare, Totals
from laissez.simulation.contracts.setting import (
    CHARGE_UNITS_PER_MICRO,
    TOO_DEAR,
    History,
    Prices,
    Setting,
    Stint,
)
from laissez.simulation.demand.projects import Batch, Project, Serving, Training
from laissez.simulation.kernel.stage import NodeGiven, Tenant
from laissez.simulation.kernel.streams import Handovers, stream
from laissez.simulation.kernel.world import World

S = 1_000_000
KINDS = ("h100", "a100")
PRICES = Prices(
    {"h100": 6_000_000, "a100": 3_000_000},
    {"h100": 2_000_000, "a100": 1_000_000},
    {"h100": 4_000_000, "a100": 2_000_000},
)
MARKETS = ("market", "no_displacement")
QUEUES = ("fcfs", "fcfs_p", "fair")
ALL = sorted(CONTRACTS)
PLENTY = 10**9

every_contract = pytest.mark.parametrize("name", ALL)


def batch(
    name: str, arrives_s: int, ends_s: int, work_s: float, kinds: Iterable[str] = KINDS
) -> Project:
    """20 s of start-up, a checkpoint a minute; an A100 is half as fast."""
    kinds = tuple(kinds)
    speeds = {kind: 0.5 if kind == "a100" else 1.0 for kind in kinds}
    labour = Batch(work_s / 3_600, speeds, ends_s * S, 20.0, 60.0)
    return Project(name, arrives_s * S, ends_s * S, labour, kinds)


def training(
    name: str, arrives_s: int, ends_s: int, work_s: float, kinds: Iterable[str] = KINDS
) -> Project:
    """`work_s` is on one H100; 10 s for a new configuration, a checkpoint every 30 s."""
    kinds = tuple(kinds)
    gpus = {"h100": "H100", "a100": "A100-80"}
    setup = Setup("OPT-350", tuple((kind, gpus[kind]) for kind in kinds))
    samples = max(1, round(work_s * planner_of(setup).reference_samples_per_s))
    spec = TrainingSpec(samples, setup, ends_s * S, 8, checkpoint_every_s=30.0, reconfigure_s=10.0)
    return Project(name, arrives_s * S, ends_s * S, Training(spec), kinds)


def serving(name: str, arrives_s: int, ends_s: int, rates: list[float]) -> Project:
    """Equally long steps of so many requests a second; an H100 serves 15, an A100 5 or 6."""
    step_us = (ends_s - arrives_s) * S // len(rates)
    steps = tuple(
        (arrives_s * S + number * step_us, rate, 1_600.0, 125.0)
        for number, rate in enumerate(rates)
    )
    spec = InferenceSpec(
        model="Llama-3.1-8B",
        kinds={"h100": Hardware("h100_sxm"), "a100": Hardware("a100_sxm")},
        objective=preset("planner-default"),
        expected=Load(rates[0], 1_600.0, 125.0),
        cold_start_s=10.0,
    )
    return Project(name, arrives_s * S, ends_s * S, Serving(spec, LoadTrace(steps, ends_s * S)))


def setting(
    projects: Iterable[Project],
    h100: int = 2,
    a100: int = 2,
    horizon_s: int = 600,
    budgets: dict[str, int] | None = None,
    prices: Prices = PRICES,
) -> Setting:
    projects = tuple(projects)
    resources = tuple(
        f"{kind}/z0/r{number // 4}/n0/h0/g{number % 4}"
        for kind, count in zip(KINDS, (h100, a100), strict=True)
        for number in range(count)
    )
    budgets = {project.name: PLENTY for project in projects} if budgets is None else budgets
    return Setting(resources, prices, projects, budgets, horizon_s * S)


def prices_of(*kinds: str) -> Prices:
    return Prices(
        {kind: PRICES.on_demand[kind] for kind in kinds},
        {kind: PRICES.spot[kind] for kind in kinds},
        {kind: PRICES.base[kind] for kind in kinds},
    )


def random_project(name: str, chance: Random) -> Project:
    arrives_s = chance.randrange(0, 200)
    ends_s = arrives_s + chance.randrange(180, 400)
    kind = chance.choice(("batch", "training", "serving", "serving"))
    if kind == "batch":
        return batch(f"b{name}", arrives_s, ends_s, chance.uniform(20, (ends_s - arrives_s) / 2))
    if kind == "training":
        work_s = chance.uniform(0.5, 6) * (ends_s - arrives_s)
        return training(f"t{name}", arrives_s, ends_s, work_s)
    rates = [chance.uniform(1, 60) for _ in range(chance.randrange(1, 6))]
    return serving(f"i{name}", arrives_s, ends_s, rates)


def random_setting(seed: int) -> Setting:
    """Two to six projects on two to twelve nodes; some of them with little money."""
    chance = stream(seed, "setting")
    projects = [random_project(str(number), chance) for number in range(chance.randrange(2, 7))]
    budgets = {
        project.name: chance.choice((300_000, 2_000_000, 10_000_000, 50_000_000))
        for project in projects
    }
    h100, a100 = chance.randrange(1, 7), chance.randrange(1, 7)
    return setting(projects, h100, a100, chance.choice((300, 600)), budgets)


SEEDS = range(12)


@cache
def history_of(name: str, seed: int) -> History:
    """What becomes of a random setting; the tests share it."""
    return CONTRACTS[name].play(random_setting(seed), seed, keeps_log=True)


def runs_of(name: str) -> Iterator[tuple[Setting, History]]:
    for seed in SEEDS:
        yield random_setting(seed), history_of(name, seed)


def project_of(played: Setting) -> dict[str, Project]:
    return {project.name: project for project in played.projects}


def by_resource(history: History) -> Iterator[list[Stint]]:
    for resource in sorted({stint.resource for stint in history.stints}):
        own = [stint for stint in history.stints if stint.resource == resource]
        yield sorted(own, key=lambda stint: (stint.from_us, stint.to_us))


def lasting(history: History) -> list[Stint]:
    """Those that took any time."""
    return [stint for stint in history.stints if stint.to_us > stint.from_us]


def holders(history: History, at_us: int) -> dict[str, int]:
    """How many nodes everybody has just after an instant."""
    counts: dict[str, int] = {}
    for stint in history.stints:
        if stint.from_us <= at_us < stint.to_us:
            counts[stint.tenant] = counts.get(stint.tenant, 0) + 1
    return counts


# Whatever the rule ------------------------------------------------------------------------------


@every_contract
def test_nobody_shares_a_node_and_everybody_is_there_in_its_time(name: str) -> None:
    """A node is in one hand at a time; a tenant's, between its arrival and its end."""
    for played, history in runs_of(name):
        projects = project_of(played)
        for own in by_resource(history):
            for earlier, later in pairwise(own):
                assert earlier.to_us <= later.from_us
        for stint in history.stints:
            project = projects[stint.tenant]
            last_us = min(project.ends_us, played.horizon_us)
            assert stint.resource in played.resources
            assert project.arrives_us <= stint.from_us <= stint.to_us <= last_us
            is_kept = stint.reason is None
            assert is_kept <= (stint.to_us == played.horizon_us <= project.ends_us)


@every_contract
def test_nobody_does_more_than_there_is_to_do(name: str) -> None:
    """Of a job all at most, of requests those that come; whoever held nothing did nothing."""
    for played, history in runs_of(name):
        assert history.performance.keys() == {project.name for project in played.projects}
        at_work = {stint.tenant for stint in lasting(history)}
        for project in played.projects:
            most = 1.0
            if isinstance(project.labour, Serving):
                most = come_until(project.labour.trace, played.horizon_us) * (1 + 1e-9)
            assert 0 <= history.performance[project.name] <= most
            if project.name not in at_work:
                assert history.performance[project.name] == 0


def come_until(trace: LoadTrace, horizon_us: int) -> float:
    ends = [step[0] for step in trace.steps[1:]] + [trace.end_us or 0]
    return sum(
        step[1] * max(0, min(end_us, horizon_us) - step[0]) / S
        for step, end_us in zip(trace.steps, ends, strict=True)
    )


@every_contract
def test_nobody_is_charged_more_than_its_budget(name: str) -> None:
    """Whatever is bid or taken, a tenant's charges stay within what it has."""
    for played, history in runs_of(name):
        for project in played.projects:
            charged = sum(stint.charge for stint in history.stints if stint.tenant == project.name)
            assert charged <= played.budgets[project.name] * CHARGE_UNITS_PER_MICRO


@every_contract
def test_losses_are_ends_of_stints(name: str) -> None:
    """Whatever is lost was held until then, and no work comes of a loss."""
    for _, history in runs_of(name):
        ends = {(stint.tenant, stint.resource, stint.to_us) for stint in history.stints}
        for loss in history.losses:
            assert (loss.tenant, loss.resource, loss.at_us) in ends
            assert loss.wasted >= 0


@every_contract
def test_a_run_is_the_same_each_time(name: str) -> None:
    """The same setting and seed give an equal history, with its log; and one that is not empty."""
    played = random_setting(5)
    first, second = (CONTRACTS[name].play(played, 5, keeps_log=True) for _ in range(2))
    assert first == second
    assert first.stints


def test_the_seed_counts() -> None:
    """With other handovers tenants get other amounts done."""
    played = random_setting(5)
    for name in ALL:
        one, other = (CONTRACTS[name].play(played, seed).performance for seed in (1, 2))
        assert one != other


def digests() -> dict[str, str]:
    """Of what becomes of one setting, by contract."""
    found = {}
    for name in ALL:
        history = CONTRACTS[name].play(random_setting(11), 11, keeps_log=True)
        found[name] = blake2b(repr(history).encode(), digest_size=16).hexdigest()
    return found


def test_a_run_is_the_same_in_another_process() -> None:
    """Nothing hangs on what was run before, or on the order of hashes."""
    run = subprocess.run(
        [sys.executable, "-c", "import test_sim_contracts as t; print(t.digests())"],
        env={**os.environ, "PYTHONHASHSEED": "4242"},
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == str(digests())


@every_contract
@pytest.mark.parametrize("place", [0, 2])
def test_who_asks_for_nothing_changes_nothing(name: str, place: int) -> None:
    """One more tenant, with no use for what there is, leaves everybody's history as it was."""
    played = random_setting(7)
    stranger = batch("stranger", 0, 500, 60, kinds=("tpu",))
    projects = (*played.projects[:place], stranger, *played.projects[place:])
    more = Setting(
        played.resources,
        played.prices,
        projects,
        {**played.budgets, "stranger": PLENTY},
        played.horizon_us,
    )
    alone, beside = (CONTRACTS[name].play(each, 7, keeps_log=True) for each in (played, more))
    assert beside.stints == alone.stints
    assert (beside.losses, beside.rates) == (alone.losses, alone.rates)
    assert tuple(said for said in beside.log if said.who != "stranger") == alone.log
    assert beside.performance == {**alone.performance, "stranger": 0.0}


@every_contract
def test_an_empty_list_of_projects_is_a_quiet_run(name: str) -> None:
    """Nobody comes, and nothing happens."""
    history = CONTRACTS[name].play(setting([], horizon_s=120), 1)
    assert (history.stints, history.losses, history.performance) == ((), (), {})
    assert history.rates == {"h100": (-1, -1, -1), "a100": (-1, -1, -1)}


@every_contract
@pytest.mark.parametrize("arrives_s", [600, 700])
def test_who_comes_at_the_end_or_later_gets_nothing_done(name: str, arrives_s: int) -> None:
    """A project that arrives when the run is over has no time with any node."""
    late = [
        batch("b", arrives_s, arrives_s + 300, 60),
        training("t", arrives_s, arrives_s + 300, 60),
        serving("i", arrives_s, arrives_s + 300, [10.0]),
    ]
    history = CONTRACTS[name].play(setting([*late, batch("early", 0, 500, 60)]), 1)
    assert history.performance == {"early": 1.0, "b": 0.0, "t": 0.0, "i": 0.0}
    assert {stint.tenant for stint in lasting(history)} == {"early"}


@every_contract
@pytest.mark.parametrize("kind", KINDS)
def test_a_cluster_of_one_kind(name: str, kind: str) -> None:
    """Where only one kind has a price and nodes, tenants that know two do with that one."""
    projects = [
        batch("b", 0, 500, 60),
        training("t", 5, 500, 100),
        serving("i", 10, 500, [4.0, 8.0]),
    ]
    h100, a100 = (6 if each == kind else 0 for each in KINDS)
    played = setting(projects, h100, a100, prices=prices_of(kind))
    history = CONTRACTS[name].play(played, 1)
    assert history.performance["b"] == history.performance["t"] == 1.0
    assert history.performance["i"] > 0.5 * projects[2].labour.requests  # type: ignore[union-attr]


@every_contract
def test_with_time_and_room_for_all_everybody_is_done(name: str) -> None:
    """On a cluster that is large enough no contract keeps anybody from its work. The training takes
    up to 8, a crew of one domain first; one of two kinds may have 4 of each, the service 5 more."""
    projects = [
        batch("b", 0, 500, 60),
        training("t", 5, 500, 600),
        serving("i", 10, 500, [20.0]),
    ]
    history = CONTRACTS[name].play(setting(projects, 8, 8), 1)
    assert history.performance["b"] == history.performance["t"] == 1.0
    assert history.performance["i"] > 0.9 * 490 * 20
    assert not {stint.reason for stint in history.stints} - {"relinquished"}


@every_contract
@pytest.mark.parametrize(("h100", "a100"), [(2, 0), (0, 2), (0, 0)])
def test_a_kind_may_have_a_price_and_no_nodes(name: str, h100: int, a100: int) -> None:
    """Whoever can use both kinds does with the one that is there; where there is nothing, nobody
    gets anything done."""
    projects = [
        batch("b", 0, 500, 60),
        training("t", 0, 500, 60),
        serving("i", 0, 500, [4.0]),
    ]
    history = CONTRACTS[name].play(setting(projects, h100, a100), 1)
    there = {kind for kind, count in zip(KINDS, (h100, a100), strict=True) if count}
    assert {tree_of(stint.resource) for stint in history.stints} == there
    assert all((history.performance[each.name] > 0) == bool(there) for each in projects)


@every_contract
def test_nobody_has_nodes_beyond_its_scopes(name: str) -> None:
    """One may order in a rack, one on a host, one a single node, one everywhere: each has nodes
    there and nowhere else, though all want more than there is."""
    scopes = {
        "rack": ("h100/z0/r1",),
        "host": ("a100/z0/r0/n0/h0", "h100/z0/r0/n0/h0"),
        "node": ("h100/z0/r0/n0/h0/g0",),
        "all": KINDS,
    }
    projects = [
        msgspec.structs.replace(serving(each, 10 * at, 590, [90.0]), scopes=its)
        for at, (each, its) in enumerate(scopes.items())
    ]
    projects.append(msgspec.structs.replace(training("t", 0, 590, 9_000), scopes=("h100/z0/r1",)))
    history = CONTRACTS[name].play(setting(projects, 8, 8), 1)
    allowed = {project.name: project.scopes for project in projects}
    for stint in history.stints:
        assert any(covers(scope, stint.resource) for scope in allowed[stint.tenant])
    assert {stint.tenant for stint in lasting(history)} >= {"rack", "host", "all"}


@pytest.mark.parametrize("name", ["fcfs_p", "fair"])
def test_a_node_is_taken_where_it_can_be_used(name: str) -> None:
    """Two jobs fill a rack each. A service that may use the first rack takes nodes from the job
    there, though the other arrived last and has as many."""
    projects = [
        msgspec.structs.replace(training("t", 0, 590, 90_000), scopes=("h100/z0/r0",)),
        msgspec.structs.replace(training("u", 1, 590, 90_000), scopes=("h100/z0/r1",)),
        msgspec.structs.replace(serving("s", 60, 590, [90.0]), scopes=("h100/z0/r0",)),
    ]
    history = CONTRACTS[name].play(setting(projects, 8, 8), 1)
    before = {stint.resource.split("/")[2] for stint in history.stints if stint.tenant != "s"}
    assert before == {"r0", "r1"}
    assert any(stint.tenant == "s" for stint in lasting(history))


# Fixed prices -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", QUEUES)
def test_a_charge_is_price_times_time(name: str) -> None:
    """On demand for all; spot, with preemption, for those that may be preempted."""
    for played, history in runs_of(name):
        projects = project_of(played)
        for stint in history.stints:
            is_spot = name == "fcfs_p" and isinstance(projects[stint.tenant].labour, Training)
            prices = PRICES.spot if is_spot else PRICES.on_demand
            assert stint.charge == prices[tree_of(stint.resource)] * (stint.to_us - stint.from_us)


@pytest.mark.parametrize("name", ["fcfs", "fair"])
def test_the_rate_is_the_price_while_anybody_holds(name: str) -> None:
    """Minute by minute: the list price of a kind if somebody has one of it, else nothing."""
    for played, history in runs_of(name):
        for kind in KINDS:
            assert len(history.rates[kind]) == played.horizon_us // (60 * S) + 1
            own = [stint for stint in lasting(history) if tree_of(stint.resource) == kind]
            for minute, rate in enumerate(history.rates[kind]):
                at_us = minute * 60 * S
                if any(stint.from_us < at_us < stint.to_us for stint in own):
                    assert rate == PRICES.on_demand[kind]
                elif not any(stint.from_us <= at_us <= stint.to_us for stint in own):
                    assert rate == -1


def test_first_come_first_served_by_hand() -> None:
    """Four jobs, an H100 and an A100: every instant computed by hand.

    a takes the H100 at 0; it starts for 20 s, works for 100 s, and gives back in its next step,
    at 130. b finds the A100 at 5, where its work takes 200 s: done soon after 225, given back at
    235. c waits from 7 on, and is given the H100 at 130; done soon after 250, it steps at 257.
    d waits from 9 on, behind c, and is given the A100 at 235; done soon after 455, it steps at 459.
    """
    arrivals_s = {"a": 0, "b": 5, "c": 7, "d": 9}
    projects = [batch(name, arrives_s, 590, 100) for name, arrives_s in arrivals_s.items()]
    history = CONTRACTS["fcfs"].play(setting(projects, 1, 1), 3)
    h100, a100 = "h100/z0/r0/n0/h0/g0", "a100/z0/r0/n0/h0/g0"
    assert history.stints == (
        Stint("a", h100, 0, 130 * S, 6_000_000 * 130 * S, "relinquished"),
        Stint("b", a100, 5 * S, 235 * S, 3_000_000 * 230 * S, "relinquished"),
        Stint("c", h100, 130 * S, 257 * S, 6_000_000 * 127 * S, "relinquished"),
        Stint("d", a100, 235 * S, 459 * S, 3_000_000 * 224 * S, "relinquished"),
    )
    assert history.performance == dict.fromkeys(arrivals_s, 1.0)


def served_in_line(
    jobs: list[tuple[int, int]], nodes: int, seed: int
) -> list[tuple[str, int, int]]:
    """A naive line of jobs that each want one node: who has one, from when to when."""
    handovers = Handovers(seed)
    free_us = [0] * nodes
    served = []
    for number, (arrives_s, work_s) in sorted(enumerate(jobs), key=lambda each: each[1][0]):
        name, arrives_us = f"j{number}", arrives_s * S
        soonest_us = min(free_us)
        from_us = max(arrives_us, soonest_us)
        done_us = from_us + handovers(name) + (20 + work_s) * S
        periods = -((arrives_us - done_us) // (10 * S))  # it notices in its next step
        to_us = arrives_us + periods * 10 * S
        free_us[free_us.index(soonest_us)] = to_us
        served.append((name, from_us, to_us))
    return sorted(served)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(1, 200)), min_size=1, max_size=8),
    st.integers(1, 4),
    st.integers(0, 99),
)
def test_first_come_first_served_is_a_line(
    jobs: list[tuple[int, int]], nodes: int, seed: int
) -> None:
    """Jobs of one node each are served like customers at a counter, to the microsecond."""
    jobs = list({arrives_s: (arrives_s, work_s) for arrives_s, work_s in jobs}.values())
    projects = [
        batch(f"j{number}", arrives_s, 9_000, work_s, kinds=("h100",))
        for number, (arrives_s, work_s) in enumerate(jobs)
    ]
    played = setting(projects, nodes, 1, 9_000)
    history = CONTRACTS["fcfs"].play(played, seed)
    got = sorted((stint.tenant, stint.from_us, stint.to_us) for stint in history.stints)
    assert got == served_in_line(jobs, nodes, seed)


def test_first_come_first_served_takes_nothing_from_anybody() -> None:
    """A node is given up by its holder, or held to the end."""
    for _, history in runs_of("fcfs"):
        assert {stint.reason for stint in history.stints} <= {"relinquished", None}


def test_a_node_is_given_where_its_tenant_has_others() -> None:
    """On the same host where there is room: two tenants with two hosts have one each."""
    projects = [training("t", 0, 600, 1_500), training("u", 1, 600, 1_500)]
    history = CONTRACTS["fcfs"].play(setting(projects, 8, 0, prices=prices_of("h100")), 1)
    hosts = {
        name: {
            stint.resource.rpartition("/")[0]
            for stint in lasting(history)
            if stint.tenant == name and stint.to_us - stint.from_us > 60 * S
        }
        for name in ("t", "u")
    }
    assert [len(hosts["t"]), len(hosts["u"])] == [1, 1]
    assert hosts["t"] != hosts["u"]


@pytest.mark.parametrize("name", QUEUES)
def test_who_is_new_starts_where_there_is_room_to_grow(name: str) -> None:
    """Two domains of two hosts with two GPUs; one host is in use. Of the hosts that are free, that
    one is last whose neighbour is not: a service that grows to three stays in one domain."""
    resources = tuple(
        f"h100/z0/r0/n{domain}/h{host}/g{gpu}"
        for domain, host, gpu in product(range(2), range(2), range(2))
    )
    first = msgspec.structs.replace(batch("b", 0, 590, 500.0), scopes=("h100/z0/r0/n0/h0",))
    played = msgspec.structs.replace(
        setting([first, serving("s", 60, 590, [40.0])], h100=0, a100=0, prices=prices_of("h100")),
        resources=resources,
    )
    history = CONTRACTS[name].play(played, 1)
    nodes = {stint.resource for stint in history.stints if stint.tenant == "s"}
    assert len(nodes) > 2
    assert {node.split("/")[3] for node in nodes} == {"n1"}


class Fickle(Standing):
    """Always lacks a node, and has no use for the one that it gets."""

    def missing(self, kind: str) -> int:
        return 1

    def is_redundant(self, resource: str) -> bool:
        return True


class Fancy(Batch, frozen=True, tag="fancy"):
    """The labour of somebody fickle; nothing ever comes of it."""

    def begin(self, at_us: int) -> Any:
        return Fickle(KINDS, 1)

    def adapter(self, app: Any, terms: TradingTerms, worth_micros: int) -> Adapter:
        return Footprint(terms, 1, 1)

    def performance(self, app: Any) -> float:
        return 0.0


@pytest.mark.parametrize("name", QUEUES)
def test_who_gives_back_asks_for_none_of_that_kind_for_a_step(name: str) -> None:
    """A tenant that finds every node redundant gives it back when it has arrived, a little after it
    was given, and then asks for the other kind, but for none of this kind until a period of 10 s is
    over. It steps every 10 s, so the step that is not too early is every second one."""
    fancy = Project("f", 0, 60 * S, Fancy(1.0, {"h100": 1.0}, 60 * S))
    history = CONTRACTS[name].play(setting([fancy], horizon_s=59), 1, keeps_log=True)
    given: dict[str, list[int]] = {kind: [] for kind in KINDS}
    given_back_us = dict.fromkeys(KINDS, -(10 * S))
    for said in history.log:
        if isinstance(said.what, NodeGiven):
            kind = tree_of(said.what.resource)
            assert said.at_us - given_back_us[kind] >= 10 * S
            given[kind].append(said.at_us // S)
        elif isinstance(said.what, Release):
            given_back_us[tree_of(said.what.resource)] = said.at_us
    assert given == {kind: [0, 20, 40] for kind in KINDS}


# Preemption -------------------------------------------------------------------------------------


def crowded(seed: int) -> Setting:
    """Jobs that want everything, batch jobs among them, and services that come later."""
    chance = stream(seed, "crowded")
    projects = [
        training(f"t{number}", chance.randrange(0, 60), 390, 4_000)
        for number in range(chance.randrange(2, 4))
    ]
    for number in range(chance.randrange(1, 3)):
        projects.append(batch(f"b{number}", chance.randrange(0, 150), 390, 100))
    for number in range(chance.randrange(1, 4)):
        rates = [chance.uniform(5, 40) for _ in range(4)]
        projects.append(serving(f"i{number}", chance.randrange(60, 200), 390, rates))
    return setting(projects, chance.randrange(2, 6), chance.randrange(2, 6), 400)


def preempted(name: str) -> Iterator[tuple[Setting, History, Stint, Stint]]:
    """Every node that was taken from anybody: the stint that ended, and the one that began."""
    for seed in SEEDS:
        played = crowded(seed)
        history = CONTRACTS[name].play(played, seed)
        begun = {(stint.resource, stint.from_us): stint for stint in lasting(history)}
        for lost in lasting(history):
            if lost.reason == "preempted":
                won = begun[lost.resource, lost.to_us]
                yield played, history, lost, won


def test_only_inference_preempts_and_only_training_is_preempted() -> None:
    """What is taken from a job goes to a service at once, when nothing is free; and it is taken
    from the job that arrived last, of those that have the kind."""
    moves = 0
    for played, history, lost, won in preempted("fcfs_p"):
        moves += 1
        projects, at_us = project_of(played), lost.to_us
        victim = projects[lost.tenant]
        assert isinstance(victim.labour, Training)
        assert isinstance(projects[won.tenant].labour, Serving)
        held = {each.resource for each in history.stints if each.from_us <= at_us <= each.to_us}
        assert held == {*played.resources}
        for other in history.stints:
            rival = projects[other.tenant]
            is_there = other.from_us < at_us < other.to_us
            is_alike = tree_of(other.resource) == tree_of(lost.resource)
            if is_there and is_alike and isinstance(rival.labour, Training):
                assert (rival.arrives_us, rival.name) <= (victim.arrives_us, victim.name)
    assert moves > len(SEEDS)


def test_preemption_by_hand() -> None:
    """Four nodes, of which t needs two from 0 on, and u has the two others from 5 on. A service
    that arrives at 60 and needs one takes it then and there, from u, which came last."""
    projects = [
        training("t", 0, 590, 900, kinds=("h100",)),
        training("u", 5, 590, 4_000, kinds=("h100",)),
        serving("i", 60, 590, [9.0]),
    ]
    history = CONTRACTS["fcfs_p"].play(setting(projects, 4, 0, prices=prices_of("h100")), 1)
    assert holders(history, 59 * S) == {"t": 2, "u": 2}
    assert holders(history, 60 * S) == {"t": 2, "u": 1, "i": 1}
    (lost,) = [stint for stint in history.stints if stint.reason == "preempted"]
    assert (lost.tenant, lost.to_us) == ("u", 60 * S)


def test_a_batch_job_neither_takes_nor_gives() -> None:
    """Two nodes. With preemption a batch job that comes second waits for one that training has, as
    first come first served; and one that has a node keeps it when a service comes, which takes the
    other from training."""
    waiting = [training("t", 0, 590, 9_000, kinds=("h100",)), batch("b", 60, 590, 100, ("h100",))]
    for name in ("fcfs", "fcfs_p"):
        history = CONTRACTS[name].play(setting(waiting, 2, 0), 1)
        assert {stint.tenant for stint in lasting(history)} == {"t"}
    holding = [
        batch("b", 0, 590, 400, ("h100",)),
        training("t", 5, 590, 9_000, kinds=("h100",)),
        serving("i", 60, 590, [90.0]),
    ]
    history = CONTRACTS["fcfs_p"].play(setting(holding, 2, 0), 1)
    assert holders(history, 59 * S) == {"b": 1, "t": 1}
    assert holders(history, 60 * S) == {"b": 1, "i": 1}
    assert {stint.tenant for stint in history.stints if stint.reason == "preempted"} == {"t"}
    assert history.performance["b"] == 1.0


# Fair share -------------------------------------------------------------------------------------


def test_fair_share_by_hand() -> None:
    """Six nodes, three jobs that could use all: 6, then 3 and 3, then 2 each.

    u asks at 10 and waits for 15 s; the next step is at 30, when it takes three. v asks at 41 and
    takes in the first step 15 s later: t and u step at 60. Each loses one, by then the larger
    share first, and nothing moves after that.
    """
    projects = [
        training("t", 0, 590, 9_000, kinds=("h100",)),
        training("u", 10, 590, 9_000, kinds=("h100",)),
        training("v", 41, 590, 9_000, kinds=("h100",)),
    ]
    played = setting(projects, 6, 0, prices=prices_of("h100"))
    history = CONTRACTS["fair"].play(played, 1)
    assert holders(history, 29 * S) == {"t": 6}
    assert holders(history, 30 * S) == {"t": 3, "u": 3}
    assert holders(history, 59 * S) == {"t": 3, "u": 3}
    assert holders(history, 60 * S) == {"t": 2, "u": 2, "v": 2}
    assert holders(history, 589 * S) == {"t": 2, "u": 2, "v": 2}
    taken = [stint.to_us for stint in history.stints if stint.reason == "preempted"]
    assert taken == [30 * S] * 3 + [60 * S] * 2


@settings(max_examples=15)
@given(st.integers(2, 4), st.integers(2, 10), st.integers(0, 99))
def test_fair_shares_come_together_and_stay(tenants: int, nodes: int, seed: int) -> None:
    """Of equal nodes, whoever wants all has as many as any other, or one more; whoever comes makes
    others move at most once for each of its nodes."""
    chance = stream(seed, "fair")
    projects = [
        training(f"t{number}", chance.randrange(0, 100), 300, 9_000, kinds=("h100",))
        for number in range(tenants)
    ]
    played = setting(projects, nodes, 0, 250, prices=prices_of("h100"))
    history = CONTRACTS["fair"].play(played, seed)
    counts = holders(history, 249 * S)
    least = min(counts.get(project.name, 0) for project in projects)
    assert sum(counts.values()) == nodes
    assert max(counts.values()) <= least + 1
    taken = [stint for stint in history.stints if stint.reason == "preempted"]
    assert len(taken) <= tenants * nodes
    assert all(stint.to_us <= 150 * S for stint in taken)


def share_of(history: History, name: str, played: Setting, at_us: int) -> float:
    """Of the kind that it has most of, just after an instant."""
    shares = []
    for kind in KINDS:
        total = sum(tree_of(each) == kind for each in played.resources)
        own = sum(
            stint.from_us <= at_us < stint.to_us
            for stint in history.stints
            if stint.tenant == name and tree_of(stint.resource) == kind
        )
        shares.append(own / total)
    return max(shares)


def test_fair_share_takes_from_the_rich_only() -> None:
    """After a node was taken, whoever lost it has no smaller a share than whoever got it."""
    moves = 0
    for played, history, lost, won in preempted("fair"):
        moves += 1
        got, left = (share_of(history, each.tenant, played, lost.to_us) for each in (won, lost))
        assert got <= left + 1e-9
    assert moves


def asker(name: str, **counts: int) -> Asker:
    """Somebody who has so many of each kind, and has wanted more since 0."""
    nobody = cast(Any, None)
    mine = Asker(Tenant(name, nobody, nobody), 0, False, False, {}, 600 * S)
    for kind, count in counts.items():
        for number in range(count):
            mine.take(f"{kind}/{name}/g{number}")
    return mine


def giver(taker: Asker, kind: str, everybody: list[Asker], totals: Totals) -> Asker | None:
    """Who of those who have one has to give a node to somebody who has waited long enough."""
    holders = [each for each in everybody if each.count(kind)]
    return FairShare().victim(taker, kind, FairShare().givers(holders, totals), totals)


def test_fair_share_takes_from_the_richest_of_those_who_have_the_kind() -> None:
    """Of four H100s a has three; b has both A100s, and so the largest share of all. Who lacks an
    H100 has it from a, though b is richer, and an A100 from b; where nobody has the kind, from
    nobody. Who has not waited long enough takes nothing."""
    totals = {"h100": 4, "a100": 2}
    poor, a, b = asker("poor"), asker("a", h100=3), asker("b", a100=2)
    assert giver(poor, "h100", [poor, a, b], totals) is a
    assert giver(poor, "a100", [poor, a, b], totals) is b
    assert giver(poor, "h100", [poor, b], totals) is None
    assert FairShare().may_take(poor, WARNING_US)
    assert not FairShare().may_take(poor, WARNING_US - 1)


def test_fair_share_does_not_freeze_on_ties() -> None:
    """Who has all of two kinds has no smaller a share with one less of either; still it gives way,
    and when the two are alike nothing moves any more: not for a larger share, nor for as large a
    one, if that only turns the two round."""
    totals = {"h100": 2, "a100": 2}
    rich, poor = asker("rich", h100=2, a100=2), asker("poor")
    both = [rich, poor]
    assert giver(poor, "h100", both, totals) is rich
    rich, poor = asker("rich", h100=1, a100=2), asker("poor", h100=1)
    both = [rich, poor]
    assert giver(poor, "h100", both, totals) is None
    assert giver(poor, "a100", both, totals) is rich
    rich, poor = asker("rich", h100=1, a100=1), asker("poor", h100=1, a100=1)
    both = [rich, poor]
    for kind in KINDS:
        assert giver(poor, kind, both, totals) is None
        assert giver(rich, kind, both, totals) is None


def test_fair_share_divides_all_of_two_kinds() -> None:
    """Two of each kind, all of them with the service that came first; 15 s after a second one has
    come, in the next step, each has one of each, and it stays so."""
    projects = [serving("i", 0, 590, [90.0]), serving("j", 100, 590, [90.0])]
    history = CONTRACTS["fair"].play(setting(projects), 1)
    assert holders(history, 114 * S) == {"i": 4}
    assert holders(history, 120 * S) == holders(history, 589 * S) == {"i": 2, "j": 2}
    for name in ("i", "j"):
        own = [each for each in history.stints if each.from_us <= 120 * S < each.to_us]
        kinds = sorted(tree_of(each.resource) for each in own if each.tenant == name)
        assert kinds == ["a100", "h100"]


@pytest.mark.parametrize("name", ALL)
def test_nobody_thrashes(name: str) -> None:
    """No tenant begins to hold nodes more often, in any minute, than four times as many as there
    are."""
    for played, history in runs_of(name):
        begun: dict[tuple[str, int], int] = {}
        for stint in history.stints:
            minute = stint.tenant, stint.from_us // (60 * S)
            begun[minute] = begun.get(minute, 0) + 1
        assert max(begun.values(), default=0) <= 4 * len(played.resources)


# The market -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MARKETS)
def test_charges_are_the_revenue_and_no_less_than_the_floor(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that tenants are charged is what the market took; a node is never below its floor."""
    worlds: list[World] = []

    class Kept(World):
        def run(self, until_us: int) -> None:
            worlds.append(self)
            super().run(until_us)

    monkeypatch.setattr(trading, "World", Kept)
    for seed in SEEDS[:6]:
        played = random_setting(seed)
        history = CONTRACTS[name].play(played, seed)
        revenue = worlds.pop().market.revenue(played.horizon_us)
        assert sum(stint.charge for stint in history.stints) == revenue > 0
        for stint in history.stints:
            floor = PRICES.base[tree_of(stint.resource)]
            assert stint.charge >= floor * (stint.to_us - stint.from_us)


@pytest.mark.parametrize("name", MARKETS)
def test_the_reason_of_a_stint_is_what_its_tenant_was_told(name: str) -> None:
    """Every loss that a tenant was told of is the end of a stint, for that reason; to the market a
    node that was too dear has been relinquished like any other."""
    for _, history in runs_of(name):
        ends = {
            (
                stint.tenant,
                stint.resource,
                stint.to_us,
                "relinquished" if stint.reason == TOO_DEAR else stint.reason,
            )
            for stint in history.stints
        }
        for said in history.log:
            if isinstance(said.what, Lost):
                assert (said.who, said.what.resource, said.at_us, said.what.reason) in ends


def test_without_displacement_nothing_is_taken_away() -> None:
    """Whoever holds a node gives it up, or keeps it; because of its price only a crew does."""
    for played, history in runs_of("no_displacement"):
        assert {stint.reason for stint in history.stints} <= {"relinquished", TOO_DEAR, None}
        training = {each.name for each in played.projects if isinstance(each.labour, Training)}
        assert {each.tenant for each in history.stints if each.reason == TOO_DEAR} <= training


def test_who_leaves_because_of_the_price_has_given_up() -> None:
    """Of all that is relinquished in the same settings, what the log says was too dear."""
    seen = 0
    for history in (history_of("market", seed) for seed in (*SEEDS, 56, 80)):
        said = {
            (each.who, each.what.resource, each.at_us)
            for each in history.log
            if isinstance(each.what, Release) and each.why.startswith("its crew of")
        }
        own = {
            (stint.tenant, stint.resource, stint.to_us)
            for stint in history.stints
            if stint.reason == TOO_DEAR
        }
        assert own == said
        seen += len(own)
    assert seen > 0
    assert ENDINGS[TOO_DEAR] == "given_up"


def test_with_displacement_something_is() -> None:
    """In the same settings a market moves nodes to who offers more."""
    reasons = {
        stint.reason
        for seed in range(10)
        for stint in CONTRACTS["market"].play(random_setting(seed), seed).stints
    }
    assert "outbid" in reasons


@pytest.mark.parametrize("name", MARKETS)
@pytest.mark.parametrize(
    "project",
    [batch("b", 20, 400, 120), training("t", 20, 400, 700), serving("i", 20, 400, [10.0, 25.0])],
    ids=lambda project: project.name,
)
def test_one_tenant_alone_pays_the_floor_and_does_as_well_as_in_a_line(
    name: str, project: Project
) -> None:
    """With nobody to compete with, a market is a shop, and money hardly matters."""
    played = setting([project], 4, 4)
    history = CONTRACTS[name].play(played, 1)
    in_line = CONTRACTS["fcfs"].play(played.alone(project), 1)
    assert {stint.reason for stint in history.stints} <= {"relinquished", None}
    for stint in history.stints:
        floor = PRICES.base[tree_of(stint.resource)]
        assert stint.charge == floor * (stint.to_us - stint.from_us)
    assert history.performance[project.name] >= 0.97 * in_line.performance[project.name]
