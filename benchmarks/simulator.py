"""How fast the simulator is at scale: `python benchmarks/simulator.py --help`.

A cluster of 10,000 nodes, H100s and A100s, in zones, racks and scale-up domains of 8, and 1,000
tenants: half of them train, half serve. Each measurement has a process of its own, and is in time
of the processor on one core, which other work on the machine makes longer all the same. Nothing
fails for being slow.

**The request stream alone.** All of the simulator but the tenants' thinking: the kernel, the
exchange's rules and the market, what tenants are told, handovers, who wakes when and what it sees;
but nobody asks for quotes. Every tenant holds 10 nodes; whoever trains sends 3 requests a second,
whoever serves 10. `MIX` says what they send. All is held, and an order rests unless it is meant to
move a node.

**With the adapters deciding**, once every 10 s and once every 5 s: tenants as `population` draws
them, made larger, so that they want about what there is, and with equal budgets. All arrive in the
first minute; the clock runs after that.
"""

import argparse
from bisect import bisect
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from resource import RUSAGE_SELF, getrusage
from time import process_time
from typing import Any

import msgspec
from measuring.apart import run_apart
from measuring.machine import Machine, this_machine
from msgspec.structs import replace
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from laissez.adapters.adapter import Adapter
from laissez.adapters.intent import TradingTerms
from laissez.adapters.view import Action, GangAsk, MarketView
from laissez.model import (
    AmendOrder,
    CancelOrder,
    ChangeFloor,
    ChangeLimit,
    Event,
    Holding,
    Instruction,
    OfferResource,
    PlaceOrder,
    Rejected,
    Release,
    Transferred,
)
from laissez.performance.inference import LoadTrace
from laissez.simulation.contracts.recording import Recorder, tenant_for
from laissez.simulation.contracts.setting import Setting
from laissez.simulation.demand.fitted import FittedRequests
from laissez.simulation.demand.population import project
from laissez.simulation.demand.projects import Project, Serving, Training
from laissez.simulation.kernel.streams import Handovers, stream
from laissez.simulation.kernel.world import Tenant, World
from laissez.simulation.scenarios.regimes import BUDGET_FACTOR, ON_DEMAND, prices

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
DOLLAR = 1_000_000
TREES = tuple(ON_DEMAND)
GPUS, DOMAINS_PER_RACK, ZONES = 8, 5, 4

STREAM_GOAL, DECIDING_GOAL = 5.0, 1.0
"""Simulated seconds in a second of the processor."""
MEMORY_GOAL_BYTES = 4 << 30
TABLE_WIDTH = 100


class Scale(msgspec.Struct, frozen=True):
    nodes: int
    tenants: int
    stream_s: int
    deciding_s: int
    periods_s: tuple[int, ...]


FULL = Scale(10_000, 1_000, stream_s=60, deciding_s=30, periods_s=(10, 5))
QUICK = Scale(160, 16, stream_s=3, deciding_s=10, periods_s=(10,))


class Figure(msgspec.Struct, frozen=True):
    """`steps` are those of adapters, `moves` changes of hands."""

    what: str
    simulated_s: int
    processor_s: float
    times_real_time: float
    goal: float
    requests: int
    steps: int
    moves: int
    nodes_held: int
    peak_bytes: int

    @property
    def is_met(self) -> bool:
        return self.times_real_time >= self.goal and self.peak_bytes < MEMORY_GOAL_BYTES


class Count:
    """What has happened in a world."""

    def __init__(self) -> None:
        self.requests = self.steps = self.moves = 0

    def timed(self, what: str, goal: float, world: World, seconds: int) -> Figure:
        """Let time pass, and say what it took."""
        self.requests = self.steps = self.moves = 0
        began_s = process_time()
        world.run(world.now_us + seconds * SECOND_US)
        taken_s = process_time() - began_s
        return Figure(
            what,
            seconds,
            round(taken_s, 2),
            round(seconds / taken_s, 2),
            goal,
            self.requests,
            self.steps,
            self.moves,
            sum(len(world.market.holdings(name)) for name in world.tenants),
            getrusage(RUSAGE_SELF).ru_maxrss * 1_024,
        )


def cluster(nodes: int) -> tuple[str, ...]:
    """So many nodes, half of each kind."""
    each = nodes // len(TREES)
    racks = -(-each // (GPUS * DOMAINS_PER_RACK))
    paths = []
    for tree in TREES:
        for number in range(each):
            domain, gpu = divmod(number, GPUS)
            rack, domain = divmod(domain, DOMAINS_PER_RACK)
            paths.append(f"{tree}/z{rack * ZONES // racks}/r{rack}/n{domain}/h0/g{gpu}")
    return tuple(paths)


def offer(world: World, resources: Sequence[str]) -> None:
    for tree, floor in prices().base.items():
        world.operate(ChangeFloor(tree, floor), 0)
    for resource in resources:
        world.operate(OfferResource(resource), 0)


# The request stream alone -----------------------------------------------------------------------

MIX = {"replace": 0.287, "limit": 0.287, "amend": 0.129, "move": 0.007}
"""Shares of all requests: to replace an order is two, another order and a cancellation. Counted in
the market at a demand of 1.0 (`laissez.simulation.scenarios.regimes`, seed 1, 15,640 requests).
There 1.3% of the requests came with a node for somebody, and so it is here: a move brings on
others, as who wins with an order that was meant to rest may lose again before it sets a limit."""
AT_A_TREE = 0.69
"""Of the orders, counted there too; the others are for the domain of a node that is held."""
WHAT, SHARES = tuple(MIX), tuple(accumulate(MIX.values()))
NODES_PER_TENANT = 10
ORDERS_PER_TENANT = 4
LEASE_US = 200 * SECOND_US
PERIOD_US = 10 * SECOND_US
WARM_UP_S = 6
DOMAIN_LEVELS = 4
PER_S = {"training": 3, "inference": 10}
RESTING = (7 * DOLLAR, 12 * DOLLAR)
"""Above both floors."""
KEEPING = (20 * DOLLAR, 30 * DOLLAR)
"""Limits of holdings: above every order that rests."""


class Quiet(msgspec.Struct, frozen=True):
    """An adapter that wants nothing."""

    terms: TradingTerms
    count: Count

    def scopes_to_quote(self, app: Any, holdings: Sequence[Holding]) -> tuple[str, ...]:
        return ()

    def gangs_to_quote(self, app: Any, holdings: Sequence[Holding]) -> tuple[GangAsk, ...]:
        return ()

    def step(self, app: Any, view: MarketView, at_us: int) -> tuple[Action, ...]:
        self.count.steps += 1
        return ()


class Held:
    """An application that knows its nodes, and nothing else."""

    def __init__(self) -> None:
        self.nodes: list[str] = []

    def advance(self, at_us: int) -> None:
        pass

    def gain(self, resource: str, at_us: int) -> None:
        if resource not in self.nodes:  # it may win back what it gave
            self.nodes.append(resource)

    def lose(self, resource: str, at_us: int) -> None:
        if resource in self.nodes:
            self.nodes.remove(resource)


class Sender:
    """One tenant's requests, one after the other. `orders` are those that rest."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.app = Held()
        self.orders: list[str] = []
        self._random = stream(seed, "requests", name).random
        self._replaced: str | None = None
        self._placed = 0

    def request(self, at_us: int) -> Instruction:
        if self._replaced is not None:
            replaced, self._replaced = self._replaced, None
            return CancelOrder(replaced)
        if len(self.orders) < ORDERS_PER_TENANT:
            return self._rest(at_us)
        what = WHAT[bisect(SHARES, self._random() * SHARES[-1])]
        if what == "move" or not self.app.nodes:
            return self._move(at_us)
        if what == "limit":
            return ChangeLimit(self._node(), self._between(KEEPING))
        if what == "amend":
            price = self._between(RESTING)
            return AmendOrder(self.orders[-1], price, price)
        self._replaced = self.orders.pop(0)
        return self._rest(at_us)

    def filled(self, order: str) -> None:
        if order == self._replaced:
            self._replaced = None
        else:
            self.orders.remove(order)

    def take(self, at_us: int) -> PlaceOrder:
        """A node, from whoever has one."""
        tree = TREES[self._placed % len(TREES)]
        return self._place(tree, KEEPING[1], at_us)

    def _move(self, at_us: int) -> Instruction:
        if len(self.app.nodes) >= NODES_PER_TENANT:
            return Release(self._node())
        return self.take(at_us)

    def _rest(self, at_us: int) -> PlaceOrder:
        node = self._node() if self.app.nodes else TREES[0]
        levels = 1 if self._random() < AT_A_TREE else DOMAIN_LEVELS
        return self._place("/".join(node.split("/")[:levels]), self._between(RESTING), at_us)

    def _place(self, scope: str, price: int, at_us: int) -> PlaceOrder:
        self._placed += 1
        order = f"sim.{self._placed}"
        self.orders.append(order)
        return PlaceOrder(scope, price, price, order, at_us + LEASE_US)

    def _node(self) -> str:
        return self.app.nodes[int(self._random() * len(self.app.nodes))]

    def _between(self, bounds: tuple[int, int]) -> int:
        return bounds[0] + int(self._random() * (bounds[1] - bounds[0]))


class Stream:
    """A world in which all is held, and everybody sends requests."""

    def __init__(self, scale: Scale, seed: int) -> None:
        self.count = Count()
        self.world = World(handover_us=Handovers(seed), keeps_log=False, listener=self._listen)
        self._senders: dict[str, Sender] = {}
        offer(self.world, cluster(scale.nodes))
        terms = TradingTerms("sim", TREES, PERIOD_US)
        for number in range(scale.tenants):
            kind = "training" if number % 2 else "inference"
            sender = Sender(f"{kind}-{number}", seed)
            self._senders[sender.name] = sender
            begins_us = PERIOD_US * number // scale.tenants
            quiet = Quiet(terms, self.count)
            self.world.join(Tenant(sender.name, quiet, sender.app, begins_us))
            for _ in range(NODES_PER_TENANT):
                self._send(sender, sender.take(0), 0)
            period_us = SECOND_US // PER_S[kind]
            begins_us = SECOND_US + period_us * number // scale.tenants
            self.world.every(period_us, partial(self._next, sender), begins_us=begins_us)

    def _next(self, sender: Sender, at_us: int) -> None:
        self._send(sender, sender.request(at_us), at_us)

    def _send(self, sender: Sender, do: Instruction, at_us: int) -> None:
        self.count.requests += 1
        events = self.world.act(sender.name, do, at_us)
        if isinstance(events[-1], Rejected):  # it is quick, and would make a fine figure
            raise RuntimeError(f"{sender.name}: {do}: {events[-1].message}")

    def _listen(self, events: tuple[Event, ...]) -> None:
        if len(events) > 1:
            for event in events:
                if isinstance(event, Transferred):
                    self.count.moves += 1
                    if event.new is not None and event.order is not None:
                        self._senders[event.new].filled(event.order.rpartition("/")[2])


def measure_stream(scale: Scale, seed: int, *, say: Callable[[str], None]) -> Figure:
    say("tenants take the cluster")
    stream = Stream(scale, seed)
    stream.world.run(WARM_UP_S * SECOND_US)
    say("requests")
    return stream.count.timed("requests alone", STREAM_GOAL, stream.world, scale.stream_s)


# With the adapters deciding ---------------------------------------------------------------------

DEMAND = 1.6
"""How much more each tenant wants than `population` says: then all want about what there is."""
ARRIVED_S = 15
"""How long after the last arrival the clock starts."""
BUDGET_MICROS = round(BUDGET_FACTOR * 7.0 * ON_DEMAND["h100"])
"""For each: several times what seven H100s cost for an hour."""


class Counted(msgspec.Struct, frozen=True):
    """An adapter whose steps and requests are counted."""

    adapter: Adapter
    count: Count

    @property
    def terms(self) -> TradingTerms:
        return self.adapter.terms

    def scopes_to_quote(self, app: Any, holdings: Sequence[Holding]) -> tuple[str, ...]:
        return self.adapter.scopes_to_quote(app, holdings)

    def gangs_to_quote(self, app: Any, holdings: Sequence[Holding]) -> tuple[GangAsk, ...]:
        return self.adapter.gangs_to_quote(app, holdings)

    def step(self, app: Any, view: MarketView, at_us: int) -> tuple[Action, ...]:
        actions = self.adapter.step(app, view, at_us)
        self.count.steps += 1
        self.count.requests += len(actions)
        return actions


def projects(tenants: int, seed: int) -> list[Project]:
    """As many that train as that serve, all of whom arrive in the first minute."""
    wanted = {Serving: tenants - tenants // 2, Training: tenants // 2}
    found: list[Project] = []
    requests = FittedRequests()
    number = 0
    while len(found) < tenants:
        drawn = project(seed, number, requests)
        kind = type(drawn.labour)
        if wanted.get(kind, 0) > 0:
            wanted[kind] -= 1
            found.append(larger(drawn, MINUTE_US * len(found) // tenants))
        number += 1
    return found


def larger(drawn: Project, arrives_us: int) -> Project:
    """The same, at another time, and wanting more."""
    later_us = arrives_us - drawn.arrives_us
    labour = drawn.labour
    if isinstance(labour, Serving):
        steps, end_us = labour.trace.steps, labour.trace.end_us
        expected = labour.spec.expected
        labour = replace(
            labour,
            spec=replace(
                labour.spec,
                expected=replace(expected, requests_per_s=DEMAND * expected.requests_per_s),
            ),
            trace=LoadTrace(
                tuple(
                    (at_us + later_us, DEMAND * rate, prompt, output)
                    for at_us, rate, prompt, output in steps
                ),
                None if end_us is None else end_us + later_us,
            ),
        )
    elif isinstance(labour, Training):
        spec = labour.spec
        assert spec.deadline_us is not None
        labour = replace(
            labour,
            spec=replace(
                spec, samples=round(DEMAND * spec.samples), deadline_us=spec.deadline_us + later_us
            ),
        )
    return replace(drawn, arrives_us=arrives_us, ends_us=drawn.ends_us + later_us, labour=labour)


def deciding(scale: Scale, seed: int, period_us: int) -> tuple[World, Count]:
    """The market as a run has it, in which real tenants trade."""
    wanted = projects(scale.tenants, seed)
    budgets = dict.fromkeys((each.name for each in wanted), BUDGET_MICROS)
    setting = Setting(
        cluster(scale.nodes), prices(), tuple(wanted), budgets, 60 * MINUTE_US, period_us
    )
    count = Count()

    def listen(events: tuple[Event, ...]) -> None:
        if len(events) > 1:
            count.moves += sum(isinstance(event, Transferred) for event in events)

    world = World(
        handover_us=Handovers(seed), keeps_log=False, listener=listen, witness=Recorder(setting)
    )
    offer(world, setting.resources)
    for each in wanted:
        tenant = tenant_for(each, setting)
        tenant.adapter = Counted(tenant.adapter, count)
        world.join(tenant)
        world.at(each.ends_us, partial(_end, world, each.name))
    return world, count


def _end(world: World, name: str, at_us: int) -> None:
    world.leave(name)


def measure_deciding(
    period_s: int, scale: Scale, seed: int, *, say: Callable[[str], None]
) -> Figure:
    say("drawing tenants")
    world, count = deciding(scale, seed, period_s * SECOND_US)
    say("they arrive")
    world.run(MINUTE_US + ARRIVED_S * SECOND_US)
    say("they trade")
    what = f"deciding every {period_s} s"
    return count.timed(what, DECIDING_GOAL, world, scale.deciding_s)


# All of it --------------------------------------------------------------------------------------


class Figures(msgspec.Struct, frozen=True):
    machine: Machine
    seed: int
    scale: Scale
    figures: tuple[Figure, ...]


def measure(scale: Scale, seed: int, progress: Progress) -> Figures:
    """One after the other, each in a process of its own."""
    task = progress.add_task("", total=1 + len(scale.periods_s))
    machine = this_machine()

    def say(stage: str) -> None:
        progress.update(task, description=stage)

    figures = [run_apart(measure_stream, scale, seed, say=say)]
    progress.advance(task)
    for period_s in scale.periods_s:
        figures.append(run_apart(measure_deciding, period_s, scale, seed, say=say))
        progress.advance(task)
    return Figures(machine, seed, scale, tuple(figures))


def table(measured: Figures) -> Table:
    scale = measured.scale
    title = f"{scale.nodes:,} nodes, {scale.tenants:,} tenants; seed {measured.seed}"
    shown = Table("", title=title, title_justify="left")
    for name in ("simulated", "x real time", "requests/s", "steps/s", "moves/s", "MiB"):
        shown.add_column(name, justify="right")
    for each in measured.figures:
        events = (each.requests, each.steps, each.moves)
        shown.add_row(
            each.what,
            f"{each.simulated_s} s in {each.processor_s:.2f} s",
            f"{each.times_real_time:.2f}{_judged(each, scale)}",
            *(f"{count / each.simulated_s:,.0f}" for count in events),
            f"{each.peak_bytes / (1 << 20):,.0f}",
        )
    return shown


def _judged(figure: Figure, scale: Scale) -> str:
    if scale != FULL:
        return ""
    mark = "[green]✓" if figure.is_met else "[red]✗"
    return f" of {figure.goal:g} {mark}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the simulator at scale.")
    parser.add_argument("--quick", action="store_true", help="a small cluster: no goals")
    parser.add_argument("--seed", type=int, default=1, help="of all that is random (1)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    with Progress(console=Console(stderr=True), transient=True) as progress:
        measured = measure(QUICK if arguments.quick else FULL, arguments.seed, progress)
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(measured)).decode())
        return
    console = Console(width=max(TABLE_WIDTH, Console().width))
    console.print(table(measured))
    console.print(f"per simulated second; {measured.machine}", highlight=False)


if __name__ == "__main__":
    main()
