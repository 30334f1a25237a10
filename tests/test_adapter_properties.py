"""What holds for every adapter in every world: random tenants, floors, guards and withdrawals."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laissez.adapters.adapter import Adapter
from laissez.adapters.budget import Budget
from laissez.adapters.deadline import deadline_adapter
from laissez.adapters.econ import EconAdapter
from laissez.adapters.footprint import Footprint
from laissez.adapters.inference import inference_adapter
from laissez.adapters.intent import TradingTerms
from laissez.adapters.pricing import Pricing
from laissez.adapters.training import TrainingAdapter
from laissez.deadline.job import BadJob
from laissez.model import (
    ChangeFloor,
    ChangeGuard,
    Code,
    Filled,
    Lost,
    OfferResource,
    PlaceOrder,
    Rejected,
    WithdrawResource,
)
from laissez.model.paths import covers
from laissez.model.values import CHARGE_UNITS_PER_MICRO_DOLLAR
from laissez.performance.application import Application
from laissez.performance.batch import BatchJob, Work
from laissez.performance.inference import (
    Hardware,
    InferenceService,
    InferenceSpec,
    Load,
    LoadTrace,
    preset,
)
from laissez.performance.training import Setup, TrainingJob, TrainingSpec
from laissez.simulation.kernel.world import Tenant, World
from toy import Crew

SECOND = 1_000_000
MINUTE = 60 * SECOND
DOLLAR = 1_000_000
PERIOD = 5 * SECOND
END = 150 * SECOND

# tree / rack / gpu
LEAVES = tuple(
    f"{tree}/r{rack}/g{gpu}" for tree in ("h100", "a100") for rack in "01" for gpu in "01"
)
SCOPES = ("h100", "a100", "h100/r0", "a100/r1")

instants = st.integers(0, 28).map(lambda number: number * PERIOD + 1)
dollars = st.integers(1, 12).map(lambda number: number * DOLLAR // 2)

Make = Callable[[], tuple[Adapter, Application]]


@st.composite
def crews(draw: st.DrawFn) -> Callable[[], Crew]:
    needs = {0: draw(st.integers(0, 4)), **draw(st.dictionaries(instants, st.integers(0, 4)))}
    speed = draw(st.sampled_from((1.0, 2.0)))
    cold_start_s = draw(st.sampled_from((0.0, 7.0, 60.0)))
    every_s = draw(st.sampled_from((None, 20.0, 60.0)))
    spare = draw(st.sampled_from((0.0, 0.0, 0.3)))
    return lambda: Crew(
        needs=needs,
        speeds={"h100": speed, "a100": 1.0},
        cold_start_s=cold_start_s,
        checkpoint_every_s=every_s,
        spare=spare,
    )


@st.composite
def terms(draw: st.DrawFn, end_us: int = END) -> TradingTerms:
    scopes = tuple(draw(st.lists(st.sampled_from(SCOPES), min_size=1, max_size=3, unique=True)))
    # From a few steps' worth of money to plenty.
    most = 1_500 * (end_us // SECOND)
    total = draw(st.one_of(st.none(), st.integers(1, most)))
    lasts = draw(st.sampled_from((None, end_us, 4 * end_us)))
    return TradingTerms("mine", scopes, PERIOD, None if total is None else Budget(total, lasts))


@st.composite
def toys(draw: st.DrawFn) -> Make:
    on, crew = draw(terms()), draw(crews())
    if draw(st.booleans()):
        pricing = Pricing(draw(st.sampled_from(("laissez", "laissez", "paper"))))
        value = float(draw(dollars))
        return lambda: (EconAdapter(on, value, pricing, wishes_max=6), crew())
    nodes, limit = draw(st.integers(0, 3)), draw(dollars)
    return lambda: (Footprint(on, nodes, limit), crew())


@st.composite
def workloads(draw: st.DrawFn) -> Make:
    """Half an hour of a real application."""
    on, value = draw(terms(30 * MINUTE)), 2.0 * draw(dollars)
    which = draw(st.sampled_from(("batch", "inference", "training")))
    number = draw(st.integers(1, 6))
    if which == "batch":
        return lambda: _batch(on, value, number)
    if which == "inference":
        return lambda: _inference(on, value, number)
    return lambda: (
        TrainingAdapter(on, value),
        TrainingJob(
            TrainingSpec(
                15_000 * number,
                Setup(levels=("rack",)),
                deadline_us=20 * MINUTE,
                nodes_max=1 + number,
                checkpoint_every_s=120.0,
            )
        ),
    )


def _batch(on: TradingTerms, value: float, number: int) -> tuple[Adapter, Application]:
    job = BatchJob(
        Work(number / 12, {"a100": 1.0, "h100": 2.0}),
        deadline_us=15 * number * MINUTE,
        cold_start_s=60,
        checkpoint_every_s=120,
    )
    try:
        return (
            deadline_adapter(job, on, micros_per_unit=value, checkpoint_every_us=120 * SECOND),
            job,
        )
    except BadJob:  # the scopes give nothing that could be in time
        return EconAdapter(on, value), job


def _inference(on: TradingTerms, value: float, number: int) -> tuple[Adapter, Application]:
    kinds = {"h100": Hardware("h100_sxm"), "a100": Hardware("a100_sxm")}
    spec = InferenceSpec(
        model="Llama-3.1-8B",
        kinds=kinds,
        objective=preset("planner-default"),
        expected=Load(10.0 * number, 1_000.0, 200.0),
    )
    rates = (10.0 * number, 25.0, 5.0 * number)
    steps = tuple((at * 8 * MINUTE, rate, 1_000.0, 200.0) for at, rate in enumerate(rates))
    return inference_adapter(on, value / 10), InferenceService(spec, LoadTrace(steps))


@st.composite
def worlds(draw: st.DrawFn, *, of: st.SearchStrategy[Make] | None = None) -> Callable[[], World]:
    """A maker of worlds: whenever it is called, the same one."""
    instructions: list[tuple[int, object]] = [(0, ChangeFloor("h100", draw(dollars)))]
    if draw(st.booleans()):
        hold = draw(st.sampled_from((None, 2 * SECOND, 12 * SECOND)))
        rise = draw(st.sampled_from((None, 1_000)))
        instructions.append((0, ChangeGuard("h100", rise, None, hold, 3 * SECOND)))
    instructions += [(0, OfferResource(leaf)) for leaf in LEAVES]
    moves = st.tuples(st.sampled_from(SCOPES), instants, dollars)
    for scope, at_us, floor in draw(st.lists(moves, max_size=6)):
        instructions.append((at_us, ChangeFloor(scope, floor)))
    for leaf, at_us in draw(st.dictionaries(st.sampled_from(LEAVES), instants, max_size=2)).items():
        instructions.append((at_us, WithdrawResource(leaf)))
        instructions.append((at_us + 22 * SECOND, OfferResource(leaf)))
    makers = draw(st.lists(of if of is not None else toys(), min_size=1, max_size=5))
    begins = [draw(st.sampled_from((0, 0, 20 * SECOND + 3))) for _ in makers]

    def make() -> World:
        world = World()
        for at_us, instruction in instructions:
            if at_us == 0:
                world.operate(instruction, 0)  # type: ignore[arg-type]
            else:
                world.operate_at(at_us, instruction)  # type: ignore[arg-type]
        for number, maker in enumerate(makers):
            adapter, app = maker()
            world.join(Tenant(f"t{number}", adapter, app, begins[number]))
        return world

    return make


def watch(world: World, look: Callable[[Tenant, int], None]) -> None:
    """Look at every tenant four times a second, between the others' steps."""

    def look_at_all(at_us: int) -> None:
        for tenant in world.tenants.values():
            look(tenant, at_us)

    world.every(SECOND // 4, look_at_all, begins_us=2)


def check_budget(world: World, tenant: Tenant, at_us: int) -> None:
    budget = tenant.adapter.terms.budget
    if budget is not None:
        owed = world.market.bill(tenant.name, at_us)
        assert owed <= budget.total_micros * CHARGE_UNITS_PER_MICRO_DOLLAR


@given(worlds())
def test_nobody_ever_owes_more_than_its_budget(make: Callable[[], World]) -> None:
    """At every moment, also under a hold, with floors and rivals that move at any time."""
    world = make()
    watch(world, lambda tenant, at_us: check_budget(world, tenant, at_us))
    world.run(END)


@given(worlds())
def test_orders_stay_within_scopes_and_are_never_stale(make: Callable[[], World]) -> None:
    """Every order lies in the adapter's scopes and will expire.

    Nothing that it does is refused, but to change an order that has just been filled.
    """
    world = make()

    def look(tenant: Tenant, at_us: int) -> None:
        scopes = tenant.adapter.terms.scopes
        for order in world.market.orders(tenant.name):
            assert any(covers(scope, order.scope) for scope in scopes)
            assert order.expires is not None and order.expires <= at_us + 20 * PERIOD

    watch(world, look)
    world.run(END)
    filled = {(said.at_us, said.who) for said in world.log if isinstance(said.what, Filled)}
    for said in world.log:
        if isinstance(said.what, Rejected):
            assert said.what.code == Code.UNKNOWN_ORDER
            assert (said.at_us, said.who) in filled


@given(worlds())
def test_what_is_of_no_use_is_gone_within_two_steps(make: Callable[[], World]) -> None:
    """A node that the application does without is given back at the next step."""
    world = make()
    since: dict[tuple[str, str], int] = {}

    def look(tenant: Tenant, at_us: int) -> None:
        if not isinstance(tenant.adapter, EconAdapter):
            return
        app = tenant.app
        app.advance(at_us)
        held = [each for each in world.market.holdings(tenant.name) if app.is_redundant(each)]
        for key in [key for key in since if key[0] == tenant.name and key[1] not in held]:
            del since[key]
        for resource in held:
            assert at_us - since.setdefault((tenant.name, resource), at_us) <= 2 * PERIOD

    watch(world, look)
    world.run(END)


@given(worlds())
def test_with_everybody_gone_prices_are_the_floors(make: Callable[[], World]) -> None:
    """No order, no holding, and every resource idle at its floor."""
    world = make()
    world.run(END)
    for name in world.tenants:
        world.leave(name)
    market = world.market
    for path in market.resources():
        assert market.owner(path) is None
        assert market.rate(path) == market.floor(path)
    assert not any(market.orders(name) or market.holdings(name) for name in market.tenants())


@given(worlds(), st.integers(1, 4))
def test_on_demand_with_a_sufficient_limit_is_never_interrupted(
    make: Callable[[], World], nodes: int
) -> None:
    """Nobody else goes as far, so whatever it gets it keeps until the operator takes it out."""
    world = make()
    on = TradingTerms("sure", ("h100", "a100"), PERIOD)
    world.join(Tenant("sure", Footprint(on, nodes, 1_000 * DOLLAR), Crew()))
    world.run(END)
    own = [said.what for said in world.log if said.who == "sure"]
    lost = {what.reason for what in own if isinstance(what, Lost)}
    # What it gives back is what it won beyond its footprint, when it had to ask everywhere.
    assert lost <= {"withdrawn", "relinquished"}
    assert len(world.market.holdings("sure")) == nodes


@given(worlds())
@settings(max_examples=25)
def test_a_world_can_be_told_twice(make: Callable[[], World]) -> None:
    """The same world from its beginning has the same log and the same market; all is explained."""
    first, second = make(), make()
    for world in (first, second):
        world.run(END)
    assert first.log == second.log
    assert first.market.digest() == second.market.digest()
    assert all(said.why for said in first.log if isinstance(said.what, PlaceOrder))


@given(worlds(of=workloads()))
@settings(max_examples=25)
def test_real_workloads_neither_flap_nor_overspend(make: Callable[[], World]) -> None:
    """Batch, inference and training in half an hour: moves are few, and budgets are kept.

    A tenant that won and gave up the same node again and again would do so with every reaction,
    fifty times a second.
    """
    world = make()

    def look(at_us: int) -> None:
        for tenant in world.tenants.values():
            check_budget(world, tenant, at_us)
        fills = Counter(said.who for said in world.log if isinstance(said.what, Filled))
        assert max(fills.values(), default=0) <= 120

    world.every(PERIOD, look, begins_us=2)
    world.run(30 * MINUTE)
    refused = [said.what.code for said in world.log if isinstance(said.what, Rejected)]
    assert set(refused) <= {Code.UNKNOWN_ORDER}


def test_a_restart_changes_nothing() -> None:
    """A new adapter and a new application, told of what is held, do what the old ones would."""
    world = World()
    world.operate(ChangeFloor("h100", DOLLAR), 0)
    for number in range(3):
        world.operate(OfferResource(f"h100/g{number}"), 0)
    on = TradingTerms("mine", ("h100",), PERIOD)
    world.join(Tenant("ada", EconAdapter(on, 4.0 * DOLLAR), Crew(2)))
    world.run(60 * SECOND)
    held = world.market.holdings("ada")
    assert len(held) == 2
    world.stage.leave("ada")
    app = Crew(2)
    app.advance(60 * SECOND)
    world.join(Tenant("ada", EconAdapter(on, 4.0 * DOLLAR), app))
    told = len(world.log)
    world.run(120 * SECOND)
    assert world.market.holdings("ada") == held
    assert world.log[told:] == []


def test_what_a_tenant_has_elsewhere_is_not_its_applications() -> None:
    """A node won by hand outside the scopes is neither told to the application nor released."""
    world = World()
    for rack in range(2):
        world.operate(OfferResource(f"h100/r{rack}/g0"), 0)
    app = Crew(1)
    on = TradingTerms("mine", ("h100/r0",), PERIOD)
    world.join(Tenant("ada", EconAdapter(on, 4.0 * DOLLAR), app))
    world.run(SECOND)
    world._do("ada", PlaceOrder("h100/r1", 1, 1, "by-hand"), SECOND, "a person")
    world.run(20 * SECOND)
    assert app.nodes == ("h100/r0/g0",)
    assert set(world.market.holdings("ada")) == {"h100/r0/g0", "h100/r1/g0"}


def test_spot_gives_way_and_comes_back() -> None:
    """Spot holds what nobody wants, loses it to on-demand at once, and has it again afterwards."""
    world = World()
    world.operate(ChangeFloor("h100", DOLLAR), 0)
    world.operate(OfferResource("h100/g0"), 0)
    spot = Footprint(TradingTerms("s", ("h100",), PERIOD), 1, 2 * DOLLAR)
    sure = Footprint(TradingTerms("d", ("h100",), PERIOD), 1, 10 * DOLLAR)
    world.join(Tenant("spot", spot, Crew()))
    world.join(Tenant("sure", sure, Crew(ends_us=60 * SECOND), begins_us=30 * SECOND))
    owners = {}
    for at_us in (29, 31, 59, 61):
        world.run(at_us * SECOND)
        owners[at_us] = world.market.owner("h100/g0")
    assert owners == {29: "spot", 31: "sure", 59: "sure", 61: "spot"}
    world.run(90 * SECOND)
    # Spot: 30 s alone, then again from second 60 on. On-demand pays spot's resting bid of $2.
    assert world.market.bill("sure", 90 * SECOND) == 30 * SECOND * 2 * DOLLAR
    assert world.market.bill("spot", 90 * SECOND) == 60 * SECOND * DOLLAR


@pytest.mark.parametrize("variant", ["laissez", "paper"])
def test_a_lower_value_never_displaces_a_higher_one(variant: str) -> None:
    """With equal applications the one that values a node more has it, whoever came first."""
    pricing = Pricing(variant)  # type: ignore[arg-type]
    for first, second in (("low", "high"), ("high", "low")):
        world = World()
        world.operate(OfferResource("h100/g0"), 0)
        values = {"low": 3.0 * DOLLAR, "high": 9.0 * DOLLAR}
        for begins_us, name in ((0, first), (20 * SECOND, second)):
            adapter = EconAdapter(TradingTerms("x", ("h100",), PERIOD), values[name], pricing)
            world.join(Tenant(name, adapter, Crew(1, cold_start_s=10), begins_us))
        world.run(60 * SECOND)
        assert world.market.owner("h100/g0") == "high"


@pytest.mark.parametrize(("budget", "nodes"), [(6, 2), (9, 3), (100, 4)])
def test_a_paced_budget_holds_what_it_can_pay(budget: int, nodes: int) -> None:
    """Four free nodes at $3, worth $3.90 each: a budget for two buys two, and keeps them."""
    world = World()
    world.operate(ChangeFloor("h100", 3 * DOLLAR), 0)
    for number in range(4):
        world.operate(OfferResource(f"h100/g{number}"), 0)
    on = TradingTerms("mine", ("h100",), PERIOD, Budget(budget * DOLLAR, 60 * MINUTE))
    world.join(Tenant("ada", EconAdapter(on, 3.9 * DOLLAR), Crew(4, cold_start_s=20)))
    world.run(50 * MINUTE)
    assert len(world.market.holdings("ada")) == nodes
    assert sum(isinstance(said.what, Filled) for said in world.log) == nodes


def test_a_floor_that_walks_drives_nobody_away() -> None:
    """One percent more each minute, up to a quarter above the full value and no further."""
    world = World()
    world.operate(ChangeFloor("h100", DOLLAR), 0)
    world.operate(OfferResource("h100/g0"), 0)
    for minute in range(1, 120):
        floor = int(DOLLAR * 1.01**minute)
        world.operate_at(minute * MINUTE, ChangeFloor("h100", floor))
    on = TradingTerms("mine", ("h100",), PERIOD)
    world.join(Tenant("ada", EconAdapter(on, 4.0 * DOLLAR), Crew(0, spare=0.5)))
    world.run(120 * MINUTE)
    [lost] = [said for said in world.log if isinstance(said.what, Lost)]
    # $2.50 are passed in minute 93.
    assert lost.at_us // MINUTE == 93
