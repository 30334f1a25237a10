"""What holds for every adapter in every world: random tenants, floors, guards and withdrawals."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laissez.adapters.budget import Budget
from laissez.adapters.econ import EconAdapter
from laissez.adapters.footprint import Footprint
from laissez.adapters.intent import Terms
from laissez.adapters.pricing import Pricing
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
from laissez.runners.simulated import Tenant, World
from toy import Crew

SECOND = 1_000_000
DOLLAR = 1_000_000
PERIOD = 5 * SECOND
END = 150 * SECOND

LEAVES = tuple(
    f"{tree}/r{rack}/g{gpu}" for tree in ("h100", "a100") for rack in "01" for gpu in "01"
)
SCOPES = ("h100", "a100", "h100/r0", "a100/r1")

instants = st.integers(0, 28).map(lambda number: number * PERIOD + 1)
dollars = st.integers(1, 12).map(lambda number: number * DOLLAR // 2)


@st.composite
def crews(draw: st.DrawFn) -> Crew:
    needs = draw(st.dictionaries(instants, st.integers(0, 4), max_size=4))
    return Crew(
        needs={0: draw(st.integers(0, 4)), **needs},
        speeds={"h100": draw(st.sampled_from((1.0, 2.0))), "a100": 1.0},
        cold_start_s=draw(st.sampled_from((0.0, 7.0, 60.0))),
        checkpoint_every_s=draw(st.sampled_from((None, 20.0, 60.0))),
        spare=draw(st.sampled_from((0.0, 0.0, 0.3))),
    )


@st.composite
def tenants(draw: st.DrawFn, number: int) -> Tenant:
    scopes = tuple(draw(st.lists(st.sampled_from(SCOPES), min_size=1, max_size=3, unique=True)))
    # From a few steps' worth of money to plenty.
    total = draw(st.one_of(st.none(), st.integers(1, 200_000)))
    lasts = draw(st.sampled_from((None, END, 4 * END)))
    budget = None if total is None else Budget(total, lasts)
    terms = Terms("mine", scopes, PERIOD, budget)
    crew = draw(crews())
    begins = draw(st.sampled_from((0, 0, 20 * SECOND + 3)))
    if draw(st.booleans()):
        pricing = Pricing(draw(st.sampled_from(("laissez", "laissez", "paper"))))
        econ = EconAdapter(terms, float(draw(dollars)), pricing, wishes_max=6)
        return Tenant(f"t{number}", econ, crew, begins)
    footprint = Footprint(terms, draw(st.integers(0, 3)), draw(dollars))
    return Tenant(f"t{number}", footprint, crew, begins)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    world = World()
    world.operate(ChangeFloor("h100", draw(dollars)), 0)
    if draw(st.booleans()):
        hold = draw(st.sampled_from((None, 2 * SECOND, 12 * SECOND)))
        rise = draw(st.sampled_from((None, 1_000)))
        world.operate(ChangeGuard("h100", rise, None, hold, 3 * SECOND), 0)
    for leaf in LEAVES:
        world.operate(OfferResource(leaf), 0)
    for scope, at_us, floor in draw(
        st.lists(st.tuples(st.sampled_from(SCOPES), instants, dollars), max_size=6)
    ):
        world.operate_at(at_us, ChangeFloor(scope, floor))
    for leaf, at_us in draw(st.dictionaries(st.sampled_from(LEAVES), instants, max_size=2)).items():
        world.operate_at(at_us, WithdrawResource(leaf))
        world.operate_at(at_us + 22 * SECOND, OfferResource(leaf))
    for number in range(draw(st.integers(1, 5))):
        world.join(draw(tenants(number)))
    return world


def watch(world: World, look: Callable[[Tenant, int], None]) -> None:
    """Look at every tenant four times a second, between the others' steps."""

    def look_at_all(at_us: int) -> None:
        for tenant in world.tenants.values():
            look(tenant, at_us)

    world.every(SECOND // 4, look_at_all, begins_us=2)


@given(worlds())
@settings(deadline=None)
def test_nobody_ever_owes_more_than_its_budget(world: World) -> None:
    """At every moment, also under a hold, with floors and rivals that move at any time."""

    def look(tenant: Tenant, at_us: int) -> None:
        budget = tenant.adapter.terms.budget
        if budget is not None:
            owed = world.market.bill(tenant.name, at_us)
            assert owed <= budget.total_micros * CHARGE_UNITS_PER_MICRO_DOLLAR

    watch(world, look)
    world.run(END)


@given(worlds())
@settings(deadline=None)
def test_orders_stay_within_scopes_and_are_never_stale(world: World) -> None:
    """Every order lies in the adapter's scopes and will expire.

    Nothing that it does is refused, but to change an order that has just won what it gave back.
    """

    def look(tenant: Tenant, at_us: int) -> None:
        scopes = tenant.adapter.terms.scopes
        for order in world.market.orders(tenant.name):
            assert any(covers(scope, order.scope) for scope in scopes)
            assert order.expires is not None and order.expires <= at_us + 10 * PERIOD

    watch(world, look)
    world.run(END)
    filled = {(said.at_us, said.who) for said in world.log if isinstance(said.what, Filled)}
    for said in world.log:
        if isinstance(said.what, Rejected):
            assert said.what.code == Code.UNKNOWN_ORDER
            assert (said.at_us, said.who) in filled


@given(worlds())
@settings(deadline=None)
def test_what_is_of_no_use_is_gone_within_two_steps(world: World) -> None:
    """A node that the application does without is given back at the next step."""
    since: dict[tuple[str, str], int] = {}

    def look(tenant: Tenant, at_us: int) -> None:
        if not isinstance(tenant.adapter, EconAdapter):
            return
        tenant.app.advance(at_us)
        held = [
            each for each in world.market.holdings(tenant.name) if tenant.app.is_redundant(each)
        ]
        for key in [key for key in since if key[0] == tenant.name and key[1] not in held]:
            del since[key]
        for resource in held:
            assert at_us - since.setdefault((tenant.name, resource), at_us) <= 2 * PERIOD

    watch(world, look)
    world.run(END)


@given(worlds())
@settings(deadline=None)
def test_with_everybody_gone_prices_are_the_floors(world: World) -> None:
    """No order, no holding, and every resource idle at its floor."""
    world.run(END)
    for name in world.tenants:
        world.leave(name)
    market = world.market
    for path in market.resources():
        assert market.owner(path) is None
        assert market.rate(path) == market.floor(path)
    assert not any(market.orders(name) or market.holdings(name) for name in market.tenants())


@given(worlds(), st.integers(1, 4))
@settings(deadline=None)
def test_on_demand_with_a_sufficient_limit_is_never_interrupted(world: World, nodes: int) -> None:
    """Nobody else goes as far, so whatever it gets it keeps until the operator takes it out."""
    terms = Terms("sure", ("h100", "a100"), PERIOD)
    world.join(Tenant("sure", Footprint(terms, nodes, 1_000 * DOLLAR), Crew()))
    world.run(END)
    lost = [each.what for each in world.log if each.who == "sure" and isinstance(each.what, Lost)]
    assert {each.reason for each in lost} <= {"withdrawn"}
    assert len(world.market.holdings("sure")) == nodes


@given(worlds())
@settings(deadline=None, max_examples=15)
def test_a_world_can_be_told_twice(world: World) -> None:
    """The same market, fed the commands in the log's order, is the same market."""
    world.run(END)
    digest = world.market.digest()
    assert digest == type(world.market).restore(world.market.snapshot()).digest()
    placed = [said for said in world.log if isinstance(said.what, PlaceOrder)]
    assert all(said.why for said in placed)


def test_spot_gives_way_and_comes_back() -> None:
    """Spot holds what nobody wants, loses it to on-demand at once, and has it again afterwards."""
    world = World()
    world.operate(ChangeFloor("h100", DOLLAR), 0)
    world.operate(OfferResource("h100/g0"), 0)
    spot = Footprint(Terms("s", ("h100",), PERIOD), 1, 2 * DOLLAR)
    sure = Footprint(Terms("d", ("h100",), PERIOD), 1, 10 * DOLLAR)
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
            terms = Terms("x", ("h100",), PERIOD)
            adapter = EconAdapter(terms, values[name], pricing)
            world.join(Tenant(name, adapter, Crew(1, cold_start_s=10), begins_us))
        world.run(60 * SECOND)
        assert world.market.owner("h100/g0") == "high"
