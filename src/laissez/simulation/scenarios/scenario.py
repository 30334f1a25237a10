"""A scenario: somebody's own cluster and tenants, from a YAML file to something to play.

    cluster: {h100: {zone: 2, rack: 2, host: 1, gpu: 8}}
    tenants:
      - {kind: inference, name: chat, load: {service: conv, nodes: 6}}

`read_scenario` reads the file and everything that it names, and builds every tenant once: what is
wrong is said at its line before anything runs. Then comes chance, with a seed: `all_alone` lets
everybody have the whole cluster, and of that `setting` makes what a contract plays. Who has no
budget of its own gets the one of our study, which follows from what it pays alone.

A crowd is drawn from the population of our study, beside the tenants that are named.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from math import prod
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from laissez.documents import (
    BadDocument,
    BadField,
    Document,
    DollarsPerHour,
    Duration,
    Problem,
    duration,
    read,
)
from laissez.model.paths import tree_of
from laissez.performance.application import US_PER_S
from laissez.simulation.contracts.recording import tenant_for
from laissez.simulation.contracts.registry import CLAIRVOYANT, CONTRACTS
from laissez.simulation.contracts.setting import MarketGuards, Prices, Setting, nodes_of
from laissez.simulation.demand import population
from laissez.simulation.demand.fitted import FittedRequests
from laissez.simulation.demand.projects import US_PER_HOUR, Project
from laissez.simulation.demand.requests import Requests
from laissez.simulation.scenarios import regimes
from laissez.simulation.scenarios.regimes import Alone, BudgetReading
from laissez.simulation.scenarios.tenants import PolicySpec, Surroundings, TenantSpec
from laissez.topology import TopologyError, read_cluster
from laissez.topology.names import name_problem

NODES_MAX = 20_000
LEVELS_MAX = 8
DURATION_US_MAX = 7 * 24 * US_PER_HOUR
PERIOD_US_MIN = US_PER_S
SPOT_SHARE = 0.35
BASE_SHARE = regimes.BASE_SHARES[0]

_OF_CROWD = re.compile(r"(inference|training|batch)-[0-9]+")


class PriceSpec(msgspec.Struct, frozen=True, kw_only=True):
    on_demand: Annotated[DollarsPerHour, Meta(gt=0)] | None = None
    spot: Annotated[DollarsPerHour, Meta(gt=0)] | None = None
    base: DollarsPerHour | None = None


class PoliciesSpec(msgspec.Struct, frozen=True, kw_only=True):
    inference: PolicySpec = PolicySpec()
    training: PolicySpec = PolicySpec()
    batch: PolicySpec = PolicySpec()
    rigid: PolicySpec = PolicySpec()


class MarketGuardSpec(msgspec.Struct, frozen=True, kw_only=True):
    notice: Annotated[Duration, Meta(ge=0)] | None = None
    commit: Annotated[Duration, Meta(ge=0)] | None = None


class CrowdSpec(msgspec.Struct, frozen=True, kw_only=True):
    """`ratio` is the crowd's demand over the capacity of the cluster."""

    ratio: Annotated[float, Meta(gt=0, le=10)]
    budgets: BudgetReading = "demand"


class ScenarioSpec(msgspec.Struct, frozen=True, kw_only=True):
    title: str = ""
    cluster: Annotated[dict[str, dict[str, int]], Meta(min_length=1)] | str
    prices: dict[str, PriceSpec] = {}
    duration: Annotated[int, duration("m"), Meta(gt=0, le=DURATION_US_MAX)] = US_PER_HOUR
    period: Annotated[int, duration("s"), Meta(ge=PERIOD_US_MIN)] = 10 * US_PER_S
    contracts: tuple[str, ...] = tuple(CONTRACTS)
    policies: PoliciesSpec = PoliciesSpec()
    guards: dict[str, MarketGuardSpec] = {}
    tenants: tuple[TenantSpec, ...] = ()
    crowd: CrowdSpec | None = None

    def __post_init__(self) -> None:
        if not self.contracts:
            raise BadField("contracts", "this list is empty; name a contract, or leave it out")
        for number, contract in enumerate(self.contracts):
            if contract not in CONTRACTS:
                known = ", ".join(CONTRACTS)
                hint = "; for the bound, compare with --bound" if contract == CLAIRVOYANT else ""
                raise BadField(
                    ("contracts", number),
                    f"{contract!r} is no contract; take one of: {known}{hint}",
                )
        if self.period > self.duration:
            raise BadField("period", "nobody would take a second step; make it shorter")
        if not self.tenants and self.crowd is None:
            raise ValueError("nobody comes; add 'tenants', or a 'crowd'")
        if self.crowd is not None and self.duration != population.HORIZON_US:
            raise BadField("crowd", "a crowd comes for one hour; write duration: 1h, or leave it")
        self._check_names()

    def _check_names(self) -> None:
        taken: set[str] = set()
        for number, tenant in enumerate(self.tenants):
            for name in tenant.names:
                if name in taken or (self.crowd is not None and _OF_CROWD.fullmatch(name)):
                    raise BadField(
                        ("tenants", number, "name"), f"{name!r} is somebody else; take another name"
                    )
                taken.add(name)


class ScenarioCluster(msgspec.Struct, frozen=True):
    """A cluster: its nodes, by tree the levels above a node, and the floors that its file has."""

    resources: tuple[str, ...]
    levels: Mapping[str, tuple[str, ...]]
    floors: Mapping[str, int]
    file: Path | None = None


class Scenario:
    """A file that was read."""

    def __init__(self, document: Document[ScenarioSpec], text: str, folder: Path) -> None:
        self.spec = document.value
        self.text = text
        self.folder = folder
        self._document = document
        self._cluster = self._found_cluster()
        self.prices = self._prices()
        trees = list(map(tree_of, self._cluster.resources))
        self._around = Surroundings(
            {tree: trees.count(tree) for tree in self._cluster.levels},
            self._cluster.levels,
            self.spec.duration,
            folder,
            {kind: getattr(self.spec.policies, kind) for kind in PoliciesSpec.__struct_fields__},
            _largest_domains(self._cluster.resources),
        )
        self._guards = self._found_guards()
        self._check()

    @property
    def sizes(self) -> Mapping[str, int]:
        """By tree, how many nodes it has."""
        return self._around.sizes

    @property
    def node_hours(self) -> float:
        return len(self._cluster.resources) * self.spec.duration / US_PER_HOUR

    @property
    def files(self) -> tuple[Path, ...]:
        """What was read beside the file itself."""
        loads = (getattr(tenant, "load", None) for tenant in self.spec.tenants)
        named = [self.folder / load.csv for load in loads if load is not None and load.csv]
        return (*((self._cluster.file,) if self._cluster.file else ()), *named)

    # A run, step by step ----------------------------------------------------------------------

    def everybody(
        self, seed: int, requests: Requests, crowd: Iterable[int] = ()
    ) -> tuple[Project, ...]:
        """Those that the file names, and these numbers of the crowd."""
        named = [
            project
            for number, tenant in enumerate(self.spec.tenants)
            for project in self._projects(number, tenant, seed, requests)
        ]
        return (*named, *(population.project(seed, at, requests) for at in crowd))

    def all_alone(self, seed: int, requests: Requests) -> dict[str, Alone]:
        """What each of them does with the whole cluster; the crowd goes on until there is enough
        of it. Whoever gets nothing done has no place in a comparison, and is said to."""
        found = {each.name: self.alone(each, seed) for each in self.everybody(seed, requests)}
        self._check_alone(found)
        if self.spec.crowd is not None:
            comers = (population.project(seed, at, requests) for at in count())
            drawn = ((each, self.alone(each, seed)) for each in comers)
            crowd = regimes.crowd_of(drawn, self.spec.crowd.ratio, self._cluster.resources)
            found |= crowd.alone
        return found

    def alone(self, project: Project, seed: int) -> Alone:
        return regimes.alone(project, self._setting((project,)), seed)

    def setting(self, seed: int, requests: Requests, alone: Mapping[str, Alone]) -> Setting:
        """What a contract plays."""
        said = {name: tenant.budget for tenant in self.spec.tenants for name in tenant.names}
        of_crowd = {name: own for name, own in alone.items() if name not in said}
        projects = self.everybody(seed, requests, map(population.number_of, of_crowd))
        budgets = {}
        if self.spec.crowd is not None and of_crowd:
            drawn = regimes.Crowd((), of_crowd, self.spec.crowd.ratio)
            budgets = regimes.budgets(drawn, self.spec.crowd.budgets)
        for name, budget in said.items():
            usual = round(regimes.BUDGET_FACTOR * alone[name].list_cost_micros)
            budgets[name] = usual if budget is None else budget
        return self._setting(projects, budgets)

    def _setting(
        self, projects: tuple[Project, ...], budgets: Mapping[str, int] | None = None
    ) -> Setting:
        cluster, spec = self._cluster, self.spec
        return Setting(
            cluster.resources,
            self.prices,
            projects,
            budgets or {},
            spec.duration,
            spec.period,
            self._guards,
        )

    # What the file says, checked --------------------------------------------------------------

    def _found_cluster(self) -> ScenarioCluster:
        said = self.spec.cluster
        try:
            return _described(said) if isinstance(said, dict) else _read_cluster(self.folder / said)
        except BadField as error:
            raise self._document.wrong(("cluster", *error.place), str(error)) from None

    def _prices(self) -> Prices:
        usual, said = regimes.prices(), self.spec.prices
        self._check_trees("prices", said)
        on_demand, spot, base = {}, {}, {}
        for tree in self._cluster.levels:
            given = said.get(tree, PriceSpec())
            listed = given.on_demand or usual.on_demand.get(tree)
            if listed is None:
                raise self._document.wrong(
                    ("prices", tree) if tree in said else self._place_of(tree),
                    f"what does a node of {tree} cost on demand? add prices: "
                    f"{{{tree}: {{on_demand: 2.50}}}}",
                )
            on_demand[tree] = listed
            share = regimes.SPOT_SHARES.get(tree, SPOT_SHARE)
            spot[tree] = given.spot or max(1, round(listed * share))
            floor = self._cluster.floors.get(tree, round(listed * BASE_SHARE))
            base[tree] = floor if given.base is None else given.base
        return Prices(on_demand, spot, base)

    def _found_guards(self) -> dict[str, MarketGuards]:
        self._check_trees("guards", self.spec.guards)
        return {
            tree: MarketGuards(each.notice, each.commit) for tree, each in self.spec.guards.items()
        }

    def _check_trees(self, field: str, said: Iterable[str]) -> None:
        for tree in said:
            if tree not in self._cluster.levels:
                trees = ", ".join(self._cluster.levels)
                raise self._document.wrong(
                    (field, tree), f"there is no tree {tree!r}; the cluster has {trees}"
                )

    def _place_of(self, tree: str) -> tuple[str, ...]:
        """Where the file speaks of a tree that it gives no price."""
        return ("cluster", tree) if isinstance(self.spec.cluster, dict) else ("cluster",)

    def _check(self) -> None:
        """Every tenant is built once, and all that is wrong is said at once."""
        if self.spec.crowd is not None and {"h100", "a100"} - self.sizes.keys():
            raise self._document.wrong("$.crowd", "a crowd needs the trees h100 and a100; add them")
        problems: list[Problem] = []
        counted = {} if self.spec.crowd is None else dict.fromkeys(self.sizes, ("the crowd", 1))
        for number, tenant in enumerate(self.spec.tenants):
            try:
                for project in self._projects(number, tenant, 0, FittedRequests()):
                    self._check_begins(number, project)
                    break
                self._check_gpus(number, tenant, counted)
            except BadDocument as error:
                problems += error.problems
        if problems:
            raise BadDocument(self._document.file_name, self.text, tuple(sorted(problems)))

    def _check_gpus(
        self, number: int, tenant: TenantSpec, counted: dict[str, tuple[str, int]]
    ) -> None:
        """A node is the same for everybody; `counted` is who counts it as how many GPUs so far."""
        for tree, gpus in tenant.gpus_per_node(self._around).items():
            other, known = counted.setdefault(tree, (tenant.name, gpus))
            if gpus != known:
                raise self._document.wrong(
                    ("tenants", number, tenant.nodes_field, tree, "gpus"),
                    f"{tenant.name} counts a node of {tree} as {_gpus(gpus)} and {other} as "
                    f"{_gpus(known)}, but it is the same node; write the same number for both "
                    "(training and a crowd count 1), or let one of them use another tree",
                )

    def _projects(
        self, number: int, tenant: TenantSpec, seed: int, requests: Requests
    ) -> Iterator[Project]:
        try:
            yield from tenant.projects(seed, self._around, requests)
        except BadField as error:
            raise self._document.wrong(("tenants", number, *error.place), str(error)) from None
        except (ValueError, ArithmeticError) as error:
            raise self._document.wrong(("tenants", number), str(error)) from None

    def _check_alone(self, alone: Mapping[str, Alone]) -> None:
        for number, tenant in enumerate(self.spec.tenants):
            for name in tenant.names:
                if not alone[name].performance:
                    raise self._document.wrong(
                        ("tenants", number),
                        f"{name} gets nothing done even with the whole cluster to itself; give it "
                        "more time, less work or a wider objective",
                    )

    def _check_begins(self, number: int, project: Project) -> None:
        """The application and the adapter have a word to say, too."""
        try:
            tenant_for(project, self._setting((project,)))
        except (ValueError, ArithmeticError) as error:
            raise self._document.wrong(("tenants", number, "deadline"), str(error)) from None


def read_scenario(text: str, *, file_name: str, folder: Path) -> Scenario:
    """What a text says, or BadDocument with what is wrong with it; other files that it names are
    looked for in `folder`."""
    return Scenario(read(text, ScenarioSpec, file_name=file_name), text, folder)


def _largest_domains(resources: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """By tree, how many nodes the largest domain has whose path has one name, two, and so on."""
    counts: dict[str, list[Counter[str]]] = {}
    for resource in resources:
        names = resource.split("/")
        levels = counts.setdefault(names[0], [])
        for depth in range(1, len(names)):
            if depth > len(levels):
                levels.append(Counter())
            levels[depth - 1]["/".join(names[:depth])] += 1
    return {tree: tuple(max(each.values()) for each in levels) for tree, levels in counts.items()}


def _gpus(number: int) -> str:
    return "1 GPU" if number == 1 else f"{number} GPUs"


# --- clusters -----------------------------------------------------------------------------------


def _described(trees: Mapping[str, Mapping[str, int]]) -> ScenarioCluster:
    """The short form: how many of each level are in one of the level above it."""
    if sum(prod(counts.values()) for counts in trees.values()) > NODES_MAX:
        raise BadField((), f"there are more than {NODES_MAX:,} nodes; take a part of the cluster")
    resources: list[str] = []
    for tree, counts in trees.items():
        _check_tree(tree, counts)
        resources += nodes_of(tree, counts)
    levels = {tree: tuple(counts)[:-1] for tree, counts in trees.items()}
    return ScenarioCluster(tuple(resources), levels, {})


def _check_tree(tree: str, counts: Mapping[str, int]) -> None:
    wrong = name_problem(tree)
    if wrong:
        raise BadField((tree,), f"tree {tree!r} {wrong}")
    if not 1 <= len(counts) <= LEVELS_MAX:
        raise BadField((tree,), "write levels and how many there are, such as {host: 4, gpu: 8}")
    for level, number in counts.items():
        wrong = name_problem(level)
        if wrong:
            raise BadField((tree, level), f"level {level!r} {wrong}")
        if number < 1:
            raise BadField((tree, level), f"this is {number}; write 1 or more")


def _read_cluster(path: Path) -> ScenarioCluster:
    """The file with which a cluster is set up: `laissez topology apply`."""
    try:
        cluster = read_cluster(path.read_text(encoding="utf-8"), name=str(path))
    except TopologyError as error:
        first = str(error).splitlines()[0]
        raise BadField((), f"{path} can't be used: {first}") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise BadField((), f"{path} can't be read: {reason}; check the path") from None
    resources = tuple(each.path for tree in cluster.trees for each in tree.resources)
    if len(resources) > NODES_MAX:
        raise BadField((), f"there are more than {NODES_MAX:,} nodes; take a part of the cluster")
    floors = {tree.name: tree.floor_micros_per_hour for tree in cluster.trees}
    return ScenarioCluster(
        resources,
        {tree.name: tree.levels[:-1] for tree in cluster.trees},
        {tree: floor for tree, floor in floors.items() if floor is not None},
        path,
    )
