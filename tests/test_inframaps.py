"""The ready-made maps: by hand, and in a real market with tenants who leave at their limits."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laissez.documents import BadDocument, read
from laissez.inframaps import (
    LIST_PRICE_SHARE,
    Carbon,
    Composition,
    InfraMap,
    Maintenance,
    OperatorView,
    PowerHeadroom,
    Utilisation,
    Window,
    break_even,
    cost_from_list,
)
from laissez.inframaps.curve import steep
from laissez.inframaps.forest import Forest, forest_of
from laissez.inframaps.instants import calendar_us, instant_us
from laissez.inframaps.spec import InfraMapSpec, build
from laissez.market import Market
from laissez.model.events import Event, Transferred
from laissez.model.instructions import (
    ChangeFloor,
    ChangeGuard,
    OfferResource,
    WithdrawResource,
)
from laissez.model.paths import covers
from laissez.model.questions import Resource

MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US
DOLLAR = 1_000_000
NOTHING = OperatorView(0)


# --- a small loop over the market ---------------------------------------------------------------


def look(market: Market, at_us: int, inventory: dict[str, dict[str, str]]) -> OperatorView:
    """What the operator sees now."""
    resources = tuple(
        Resource(path, market.owner(path), market.rate(path), market.attributes(path))
        for path in market.resources()
    )
    return OperatorView(at_us, resources, market.floors(), market.guards(), inventory)


def step(
    market: Market,
    composition: Composition,
    at_us: int,
    levels: dict[str, float] | None = None,
    inventory: dict[str, dict[str, str]] | None = None,
    awaited: tuple[str, ...] = (),
) -> list[Event]:
    """One step of the operator, carried out."""
    market.advance(at=at_us)
    events: list[Event] = []
    view = look(market, at_us, inventory or {})
    for action in composition.step(levels or {}, view, at_us, awaited):
        match action.do:
            case ChangeFloor(scope, floor):
                events += market.set_floor(scope, floor, at=at_us)
            case WithdrawResource(resource):
                events += market.withdraw(resource, at=at_us)
            case OfferResource(resource, attributes):
                events += market.add_resource(resource, attributes=attributes, at=at_us)
            case other:
                raise AssertionError(other)
    assert not [event for event in events if type(event).__name__ == "Rejected"]
    return events


def market_of(*paths: str) -> Market:
    market = Market()
    for path in paths:
        market.add_resource(path, attributes={"address": path[-2:]}, at=0)
    return market


def compose(*maps: InfraMap, base: int = 2 * DOLLAR, cost: int = 0) -> Composition:
    return Composition({"h100": base}, {"h100": cost}, tuple((1.0, each) for each in maps))


# --- power --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("drawn", "adjustment"),
    [(0.2, 0.0), (0.7, 0.0), (0.825, 0.25), (0.9, 1.0), (0.94, 3.0), (0.95, 3.0), (1.3, 3.0)],
)
def test_power_by_hand(drawn: float, adjustment: float) -> None:
    """A quarter dearer with half of the headroom gone, twice the price with a fifth of it left."""
    power = PowerHeadroom({"h100/r1": "row_1"})
    asked = power.adjustments({"row_1": drawn}, NOTHING, 0)
    assert asked == {"h100/r1": pytest.approx(adjustment)}


@given(st.floats(-1, 2), st.floats(-1, 2))
def test_power_never_eases_as_more_is_drawn(one: float, other: float) -> None:
    """More power never means a lower price, and the pressure stays between nothing and its peak."""
    power = PowerHeadroom({})
    low, high = sorted((one, other))
    assert 0 <= power.pressure(low) <= power.pressure(high) <= power.peak


def test_a_row_without_a_measurement_is_not_adjusted() -> None:
    """A name that was never read, or is no number, pushes no price anywhere."""
    power = PowerHeadroom({"h100/r1": "row_1", "h100/r2": "row_2"})
    assert power.adjustments({"row_2": 0.9}, NOTHING, 0).keys() == {"h100/r2"}
    market = market_of("h100/r1/g0", "h100/r2/g0")
    step(market, compose(power), 0, {"row_1": float("nan"), "row_2": float("inf")})
    assert market.floors() == {"h100": 2 * DOLLAR}


def test_a_constrained_row_sends_the_flexible_away_and_keeps_the_urgent() -> None:
    """As power runs short on one row its floor rises, the other's does not, and tenants sort out
    by their limits."""
    market = market_of("h100/r1/g0", "h100/r1/g1", "h100/r2/g0")
    composition = compose(PowerHeadroom({"h100/r1": "row_1", "h100/r2": "row_2"}))
    step(market, composition, 0, {"row_1": 0.5, "row_2": 0.5})
    market.place("flexible", "h100/r1", limit=5 * DOLLAR // 2, order="f", at=0)
    market.place("urgent", "h100/r1", limit=9 * DOLLAR, order="u", at=0)
    events = step(market, composition, 1, {"row_1": 0.9, "row_2": 0.5})
    assert [e for e in events if isinstance(e, Transferred)] == [
        Transferred(1, "h100/r1/g0", "flexible", None, None, "floor")
    ]
    assert market.rate("h100/r1/g1") == 4 * DOLLAR and market.owner("h100/r1/g1") == "urgent"
    assert market.rate("h100/r2/g0") == 2 * DOLLAR
    market.place("flexible", "h100", limit=5 * DOLLAR // 2, order="f2", at=2)
    assert market.owner("h100/r2/g0") == "flexible"
    step(market, composition, 3, {"row_1": 0.5, "row_2": 0.5})
    assert market.floors() == {"h100": 2 * DOLLAR}


# --- carbon -------------------------------------------------------------------------------------


def test_carbon_by_hand() -> None:
    """Half as dirty again is half as dear again; clean is a discount, and never below cost."""
    carbon = Carbon({"h100/east": "east", "h100/west": "west"}, reference_g_per_kwh=200)
    assert carbon.adjustments({"east": 300, "west": 150}, NOTHING, 0) == {
        "h100/east": 0.5,
        "h100/west": -0.25,
    }
    market = market_of("h100/east/g0", "h100/west/g0", "h100/south/g0")
    step(market, compose(carbon, cost=1_600_000), 0, {"east": 300, "west": 150})
    assert {path: market.rate(path) for path in market.resources()} == {
        "h100/east/g0": 3_000_000,
        "h100/west/g0": 1_600_000,
        "h100/south/g0": 2_000_000,
    }


def test_maps_add_up_by_weight() -> None:
    """Two maps at a scope are summed, each times its weight."""
    power, carbon = PowerHeadroom({"h100/r1": "row"}), Carbon({"h100": "grid"}, 200)
    composed = Composition({"h100": 2 * DOLLAR}, {}, ((0.5, power), (2.0, carbon)))
    market = market_of("h100/r1/g0", "h100/r2/g0")
    step(market, composed, 0, {"row": 0.9, "grid": 220})
    assert market.rate("h100/r1/g0") == 3_400_000  # 1 + 0.5 x 1.0 + 2 x 0.1
    assert market.rate("h100/r2/g0") == 2_400_000


# --- utilisation --------------------------------------------------------------------------------


def test_utilisation_by_hand() -> None:
    """Nothing when idle, e^2.5 - 1 over e^5 - 1 at half, all of the peak when full."""
    resources = tuple(
        Resource(f"h100/{pool}/g{i}", "ada" if i < held else None, 0, {})
        for pool, held in (("idle", 0), ("half", 2), ("full", 4))
        for i in range(4)
    )
    asked = Utilisation(pools=("h100/none",), children_of=("h100",), peak=0.5)
    adjustments = asked.adjustments({}, OperatorView(0, resources), 0)
    assert adjustments == {
        "h100/idle": 0.0,
        "h100/half": pytest.approx(0.5 * 0.0758582, rel=1e-6),
        "h100/full": 0.5,
    }


def test_a_buyer_of_anywhere_goes_to_the_idle_pool() -> None:
    """An order at the root would go where fewest are idle, as domains are to stay whole; with the
    map it goes to the emptier pool, whose reserve price is lower, and the dearer pool still sells
    to those who name it."""

    def bought(*maps: InfraMap) -> str:
        market = market_of(
            *(f"h100/big/g{i}" for i in range(10)), *(f"h100/small/g{i}" for i in range(5))
        )
        composition = compose(*maps)
        step(market, composition, 0)
        for i in range(6):
            market.place("resident", "h100/big", limit=9 * DOLLAR, order=f"r{i}", at=0)
        step(market, composition, 1)
        market.place("buyer", "h100", limit=9 * DOLLAR, order="b", at=2)
        market.place("local", "h100/big", limit=9 * DOLLAR, order="l", at=2)
        assert market.holdings("local")
        return market.holdings("buyer")[0].split("/")[1]

    assert bought() == "big"
    assert bought(Utilisation(children_of=("h100",))) == "small"


@given(st.floats(-1, 2), st.floats(-1, 2), st.sampled_from([0.0, 1.0, 5.0, 20.0]))
def test_the_curve_mounts_from_nothing_to_all(one: float, other: float, steepness: float) -> None:
    """It is 0 at 0, 1 at 1, never falls, and lies below the straight line."""
    low, high = sorted((one, other))
    assert steep(0, steepness) == 0 and steep(1, steepness) == 1
    assert 0 <= steep(low, steepness) <= steep(high, steepness) <= 1
    assert steep(low, steepness) <= max(low, 0) + 1e-12


# --- maintenance --------------------------------------------------------------------------------

OPENS_US, CLOSES_US = 10 * HOUR_US, 12 * HOUR_US
MAINTENANCE = Maintenance((Window("h100/r1", OPENS_US, CLOSES_US),))


def test_maintenance_by_hand() -> None:
    """Pressure begins an hour before, is 9 x 0.0759 half way, ten times the price at the opening,
    and gone at the closing."""

    def asked(at_us: int) -> dict[str, float]:
        return MAINTENANCE.adjustments({}, NOTHING, at_us)

    assert asked(OPENS_US - HOUR_US - 1) == {}
    assert asked(OPENS_US - HOUR_US) == {"h100/r1": 0.0}
    assert asked(OPENS_US - HOUR_US // 2) == {"h100/r1": pytest.approx(9 * 0.0758582, rel=1e-6)}
    assert asked(OPENS_US) == asked(CLOSES_US - 1) == {"h100/r1": 9.0}
    assert asked(CLOSES_US) == {}
    instants = [MAINTENANCE.next_us(at) for at in (0, OPENS_US, CLOSES_US)]
    assert instants == [OPENS_US, CLOSES_US, None]


def test_windows_that_overlap_press_no_harder_than_the_hardest() -> None:
    """At one scope the nearer opening counts, whichever is written first; within another window
    what is pressed harder there is added, and what is not adds nothing."""
    soon, later = Window("t/r1", OPENS_US, CLOSES_US), Window("t/r1", OPENS_US + HOUR_US, CLOSES_US)
    inside = Window("t/r1/n0", OPENS_US, CLOSES_US)
    half = OPENS_US - HOUR_US // 2
    alone = Maintenance((soon,), lead_us=2 * HOUR_US).adjustments({}, NOTHING, half)["t/r1"]
    assert alone == pytest.approx(9 * steep(0.75, 5))

    def asked(*windows: Window) -> dict[str, float]:
        return Maintenance(windows, lead_us=2 * HOUR_US).adjustments({}, NOTHING, half)

    assert asked(soon, later) == asked(later, soon) == {"t/r1": alone}
    assert asked(soon, inside) == asked(inside, soon) == {"t/r1": alone, "t/r1/n0": 0.0}
    last = Window("t/r1/n0", OPENS_US + HOUR_US, CLOSES_US)
    assert asked(soon, last) == {"t/r1": alone, "t/r1/n0": 0.0}
    outer = 9 * steep(0.25, 5)
    assert asked(later, inside) == {
        "t/r1": pytest.approx(outer),
        "t/r1/n0": pytest.approx(alone - outer),
    }
    market = market_of("h100/r1/n0/g0", "h100/r1/n1/g0")
    windows = (Window("h100/r1", OPENS_US, CLOSES_US), Window("h100/r1/n0", OPENS_US, CLOSES_US))
    step(market, compose(Maintenance(windows)), OPENS_US - 1)
    assert market.floors() == {"h100": pytest.approx(20 * DOLLAR)}


def test_without_lead_time_there_is_only_the_hard_lever() -> None:
    """A lead of 0 asks for nothing before the opening."""
    abrupt = msgspec.structs.replace(MAINTENANCE, lead_us=0)
    assert abrupt.adjustments({}, NOTHING, OPENS_US - 1) == {}
    assert abrupt.adjustments({}, NOTHING, OPENS_US) == {"h100/r1": 9.0}


def test_a_domain_empties_before_its_window_and_comes_back_after() -> None:
    """Tenants leave in the order of their limits as pressure mounts; whoever can't be moved by
    price is reclaimed at the opening to the microsecond; all is back at the closing. Each step is
    taken by a new composition, as after a restart."""
    market = market_of(*(f"h100/r1/g{i}" for i in range(4)), "h100/r2/g0")
    inventory = {path: market.attributes(path) for path in market.resources()}
    step(market, compose(), 0)
    limits = {"cheap": 2_500_000, "dear": 3_000_000, "dearer": 5_000_000, "stays": 10**12}
    for name, limit in limits.items():
        market.place(name, "h100/r1", limit=limit, order=name, at=0)

    left: dict[str | None, tuple[int, str]] = {}
    at_us = OPENS_US - HOUR_US
    while at_us <= CLOSES_US:
        composition = compose(MAINTENANCE)
        for event in step(market, composition, at_us, inventory=inventory):
            if isinstance(event, Transferred):
                left[event.old] = (event.at, event.reason)
        if OPENS_US <= at_us < CLOSES_US:
            assert market.resources() == ("h100/r2/g0",)
        assert market.rate("h100/r2/g0") == 2 * DOLLAR
        following = composition.next_us(at_us)
        at_us = min(at_us + 7 * MINUTE_US, following or at_us + 7 * MINUTE_US)

    # 2 (1 + 9 (e^5x - 1) / (e^5 - 1)) passes 2.5, 3 and 5 after 19.5, 26.6 and 38.9 minutes.
    hour_before = OPENS_US - HOUR_US
    assert left == {
        "cheap": (hour_before + 21 * MINUTE_US, "floor"),
        "dear": (hour_before + 28 * MINUTE_US, "floor"),
        "dearer": (hour_before + 42 * MINUTE_US, "floor"),
        "stays": (OPENS_US, "withdrawn"),
    }
    assert {path: market.attributes(path) for path in market.resources()} == inventory
    assert market.floors() == {"h100": 2 * DOLLAR}


def test_what_another_window_or_a_cordon_covers_is_not_offered() -> None:
    """A resource comes back when the last window over it closes, never under a cordon, and once."""
    windows = (Window("t/r1", 0, 10), Window("t/r1/g0", 5, 20))
    maintenance = Maintenance(windows, return_us=15)
    inventory = {f"t/r1/g{i}": {"rack": "1"} for i in range(4)} | {"t/r2/g0": {}}
    there = (Resource("t/r1/g3", None, 0, {}),)

    def offered(at_us: int) -> list[str]:
        view = OperatorView(at_us, there, inventory=inventory, cordons=("t/r1/g2",))
        offers = []
        for action in maintenance.commands({}, view, at_us):
            if isinstance(action.do, OfferResource):
                assert action.why in {
                    f"the maintenance window of {w.scope} is over" for w in windows
                }
                assert action.do.attributes == {"rack": "1"}
                offers.append(action.do.resource)
        return offers

    assert offered(9) == []
    assert offered(10) == ["t/r1/g1"]
    assert offered(20) == ["t/r1/g0", "t/r1/g1"]
    assert offered(25) == ["t/r1/g0"]
    assert offered(35) == []


def test_what_appears_in_an_open_window_is_withdrawn_with_the_reason() -> None:
    """Withdrawals name the window; a scope that merely begins alike is not covered."""
    resources = tuple(Resource(path, None, 0, {}) for path in ("h100/r1/g0", "h100/r10/g0"))
    (action,) = MAINTENANCE.commands({}, OperatorView(0, resources), OPENS_US)
    assert action.do == WithdrawResource("h100/r1/g0")
    assert action.why == "the maintenance window of h100/r1 is open"


def test_withdrawals_come_before_the_floors() -> None:
    """Whoever stayed until the opening is told that the window took its node, not the floor."""
    market = market_of("h100/r1/g0", "h100/r2/g0")
    market.place("stays", "h100/r1", limit=9 * DOLLAR, order="s", at=0)
    transfers = [e for e in step(market, compose(MAINTENANCE), OPENS_US) if type(e) is Transferred]
    assert [(each.old, each.reason) for each in transfers] == [("stays", "withdrawn")]


def test_offers_come_after_the_floors() -> None:
    """What is put back finds its floor: the old, high one is gone by then."""
    market = market_of("h100/r2/g0")
    market.set_floor("h100", 2 * DOLLAR, at=0)
    market.set_floor("h100/r1", 20 * DOLLAR, at=0)
    view = look(market, 0, {"h100/r1/g0": {}})
    done = [action.do for action in compose(MAINTENANCE).step({}, view, CLOSES_US)]
    assert done == [ChangeFloor("h100/r1", 0), OfferResource("h100/r1/g0", {})]


# --- just after a start -------------------------------------------------------------------------


def test_what_depends_on_telemetry_that_was_not_read_stays() -> None:
    """At a restart a dear row stays dear and a cheap one cheap until its power is read; rows whose
    power is known are steered meanwhile, and other floors may move without touching them."""
    market = market_of(*(f"h100/r{row}/n{node}/g0" for row in (1, 2, 3) for node in (0, 1)))
    steered = compose(PowerHeadroom({f"h100/r{row}": f"row_{row}" for row in (1, 2, 3)}))
    step(market, steered, 0, {"row_1": 0.9, "row_2": 0.5, "row_3": 0.825})
    market.set_floor("h100/r1/n1", 7 * DOLLAR, at=0)

    def rates() -> dict[str, float]:
        return {path[5:]: market.rate(path) / DOLLAR for path in market.resources()}

    stands = {"r1/n0/g0": 4, "r1/n1/g0": 7, "r2/n0/g0": 2, "r2/n1/g0": 2}
    assert rates() == stands | {"r3/n0/g0": 2.5, "r3/n1/g0": 2.5}
    step(market, steered, 1, {"row_3": 0.94}, awaited=("row_1", "row_2"))
    assert rates() == stands | {"r3/n0/g0": 8, "r3/n1/g0": 8}
    dearer = compose(PowerHeadroom({"h100/r1": "row_1", "h100/r2": "row_2"}), base=3 * DOLLAR)
    step(market, dearer, 2, {}, awaited=("row_1", "row_2"))
    assert rates() == stands | {"r3/n0/g0": 3, "r3/n1/g0": 3}
    step(market, steered, 3, {"row_1": 0.5, "row_2": 0.9, "row_3": 0.5})
    assert rates() == {"r1/n0/g0": 2, "r1/n1/g0": 2, "r2/n0/g0": 4, "r2/n1/g0": 4} | {
        "r3/n0/g0": 2,
        "r3/n1/g0": 2,
    }


def test_where_no_floor_stands_the_base_price_does_not_wait() -> None:
    """A first start sells nothing for nothing, and no floor that stays is below cost."""
    market = market_of("h100/east/g0", "h100/west/g0")
    steered = compose(Carbon({"h100/east": "east"}, 300), cost=1_500_000)
    step(market, steered, 0, {}, awaited=("east",))
    assert market.floors() == {"h100": 2 * DOLLAR}
    market = market_of("h100/east/g0", "h100/west/g0")
    market.set_floor("h100", DOLLAR, at=0)
    step(market, steered, 0, {}, awaited=("east",))
    assert market.floors() == {"h100": 1_500_000, "h100/west": 2 * DOLLAR}


def test_a_floor_that_is_moved_for_others_says_that_it_stays() -> None:
    """Where a kept price needs a floor of its own, its reason is not made up."""
    market = market_of("h100/r1/g0", "h100/r2/g0")
    market.set_floor("h100", 3 * DOLLAR, at=0)
    actions = compose(PowerHeadroom({"h100/r1": "row_1"})).step(
        {}, look(market, 0, {}), 0, {"row_1"}
    )
    assert [(each.do, each.why) for each in actions] == [
        (ChangeFloor("h100/r1", 3 * DOLLAR), "3.00 as it was, until telemetry is read"),
        (ChangeFloor("h100", 2 * DOLLAR), "base 2.00"),
    ]


@given(
    st.dictionaries(
        st.sampled_from(["t", "t/a", "t/b", "t/a/x", "t/a/y", "t/b/x"]), st.integers(1, 9)
    ),
    st.sets(st.sampled_from(["t", "t/a", "t/b", "t/a/x"])),
    st.dictionaries(st.sampled_from(["t", "t/a", "t/b", "t/a/x"]), st.floats(0, 5)),
)
def test_no_leaf_moves_while_its_telemetry_is_awaited(
    floors: dict[str, int], unread: set[str], levels: dict[str, float]
) -> None:
    """Whatever stands and whatever is asked for beside it, each leaf under an unread scope has
    its floor, if any, throughout."""
    market = market_of("t/a/x/g0", "t/a/y/g0", "t/b/x/g0", "t/b/y/g0")
    for scope, floor in floors.items():
        market.set_floor(scope, floor * DOLLAR, at=0)
    scopes = ["t", "t/a", "t/b", "t/a/x"]
    steered = Composition({"t": 4 * DOLLAR}, {}, ((1.0, Carbon({s: s for s in scopes}, 1.0)),))
    before = {path: market.rate(path) for path in market.resources()}
    kept = [path for path in before if before[path] and any(covers(s, path) for s in unread)]
    known = {name: level for name, level in levels.items() if name not in unread}
    for action in steered.step(known, look(market, 0, {}), 0, unread):
        assert isinstance(action.do, ChangeFloor)
        market.set_floor(action.do.scope, action.do.floor, at=0)
        assert {path: market.rate(path) for path in kept} == {path: before[path] for path in kept}


# --- base prices and the shape ------------------------------------------------------------------


def test_break_even_by_hand() -> None:
    """At 70% sold, $1.40 an hour is paid by $2.00; what is not whole is rounded up."""
    assert break_even(1_400_000, 0.7) == 2_000_000
    assert break_even(1_000_000, 0.7) == 1_428_572
    assert break_even(1_000_000, 1) == 1_000_000
    for utilisation in (0, 1.1):
        with pytest.raises(ValueError, match="above 0 and up to 1"):
            break_even(1, utilisation)


def test_list_prices_break_even_at_the_papers_utilisation() -> None:
    """$6.88 on the list is $4.816 of cost, which at 70% sold needs $6.88 again."""
    assert cost_from_list(6_880_000) == 4_816_000
    assert break_even(4_816_000, LIST_PRICE_SHARE) == 6_880_000


def test_the_shape_is_worked_out_once_for_the_same_paths() -> None:
    """New views with equal paths share a forest; one resource more makes another."""
    paths = ["t/a/g0", "t/b/g0"]
    assert forest_of(tuple(paths)) is forest_of(tuple("".join(path) for path in paths))
    assert forest_of((*paths, "t/c/g0")) is not forest_of(tuple(paths))


def test_a_plan_that_does_not_fit_is_left_out() -> None:
    """A planned resource that lies under a resource, or is a scope by now, does not count."""
    forest = Forest(["t/a/g0", "t/g1"], ["t/a", "t/g1/x", "t/b/g0", "t/a/g0"])
    assert forest.leaves_under("t") == ("t/a/g0", "t/g1", "t/b/g0")
    assert "t/b" in forest and "t/g1/x" not in forest and "u" not in forest
    assert list(forest.children("t/a")) == ["t/a/g0"] and not forest.children("t/g1")


# --- as it is written down ----------------------------------------------------------------------

WRITTEN = """
base: {h100: 2.50}
cost: {h100: 1.20, h100/west: 1.40, a100: 0.70}
break_even_at: 70%
every: 15s
deadband: 2%
maps:
  - map: power
    rows: {h100/east/r1: row_1}
    comfortable: 60%
  - map: maintenance
    lead: 90m
    windows:
      - {scope: h100/east/r2, opens: 2026-11-20T22:00Z, closes: 2026-11-21 02:00:30Z}
  - map: carbon
    weight: 0.5
    scopes: {h100/west: grid_west}
    reference: 300
  - map: utilisation
    children_of: [a100]
    peak: 0.5
"""


def test_a_composition_as_it_is_written() -> None:
    """Every map can be written in YAML, with amounts as people write them."""
    composed = build(read(WRITTEN, InfraMapSpec, file_name="map.yaml").value)
    opens_us = 1_795_212_000_000_000
    window = Window("h100/east/r2", opens_us, opens_us + 4 * HOUR_US + 30_000_000)
    assert composed.base == {"h100": 2_500_000, "a100": 1_000_000}
    assert (composed.period_us, composed.deadband) == (15_000_000, 0.02)
    assert composed.maps == (
        (1.0, PowerHeadroom({"h100/east/r1": "row_1"}, comfortable=0.6)),
        (1.0, Maintenance((window,), lead_us=90 * MINUTE_US)),
        (0.5, Carbon({"h100/west": "grid_west"}, 300)),
        (1.0, Utilisation(children_of=("a100",), peak=0.5)),
    )


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ("base: {}", 1, "no tree has a base price"),
        ("base: {h100: 2}\ncost: {a100: 1}", 2, "a100 has no base price"),
        ("base: {h100/east: 2}", 1, "give one to its tree, h100"),
        ("base: {h100: 2}\nevery: 0s", 2, "some time between two steps"),
        ("base: {h100: 2}\nbreak_even_at: 0%", 2, "nothing breaks even unsold"),
        (
            "base: {h100: 2}\nmaps:\n  - map: power\n    rows: {h100: p}\n    comfortable: 96%",
            5,
            "comfortable is not below full",
        ),
        ("base: {h100: 2}\nmaps:\n  - map: power\n    rows: {l40: p}", 4, "l40 has no base price"),
        (
            "base: {h100: 2}\nmaps:\n  - map: utilisation\n    pools:\n      - h100\n      - l40/a",
            6,
            "l40, the tree of l40/a, has no base price",
        ),
        ("base: {h100: 2}\ncost:\n  h100/: 1", 3, "'h100/' is not a scope"),
        (
            "base: {h100: 2}\nmaps:\n  - map: carbon\n    reference: 300\n    scopes:\n"
            "      h100/east: grid\n      h100/west/*: grid",
            7,
            "'h100/west/*' is not a scope; write one such as h100/east: it covers all",
        ),
        (
            "base: {h100: 2}\nmaps:\n  - map: maintenance\n    windows:\n"
            "      - scope: h100/a\n        opens: 2026-02-30T00:00Z\n        closes: 1h",
            6,
            "not in the calendar",
        ),
        (
            "base: {h100: 2}\nmaps:\n  - map: maintenance\n    windows:\n"
            "      - scope: h100/a\n        opens: 2h\n        closes: 1h",
            7,
            "closes before it opens",
        ),
        (
            "base: {h100: 2}\nmaps:\n  - {map: maintenance, windows: []}\n"
            "  - {map: maintenance, windows: []}",
            4,
            "put all windows into one",
        ),
    ],
)
def test_what_is_written_wrongly_is_said_at_its_line(text: str, line: int, sentence: str) -> None:
    """A slip of the pen is shown where it stands, with what to do."""
    with pytest.raises(BadDocument) as caught:
        read(text, InfraMapSpec, file_name="map.yaml")
    (problem,) = caught.value.problems
    assert problem.line == line
    assert sentence in problem.sentence


def test_instants_as_people_write_them() -> None:
    """UTC with a Z, to the minute or the second; a duration counts from time 0."""
    assert instant_us("1970-01-02T00:00Z") == 24 * HOUR_US
    assert instant_us("2000-03-01 00:00:01Z") == 951_868_801 * 1_000_000
    assert instant_us("90m") == 90 * MINUTE_US
    for wrong in ("2026-11-20", "2026-11-20T22:00", "2026-11-20T24:00Z", "1969-12-31T00:00Z", "x"):
        with pytest.raises(ValueError, match="write"):
            instant_us(wrong)
    assert calendar_us("1970-01-02T00:00Z") == 24 * HOUR_US
    with pytest.raises(ValueError, match="is not an instant"):
        calendar_us("90m")


def test_maps_that_make_no_sense_are_refused() -> None:
    """Nonsense is refused where a map is made, in words."""
    with pytest.raises(ValueError, match="has to be below full"):
        PowerHeadroom({}, comfortable=0.95)
    with pytest.raises(ValueError, match="above 0"):
        Carbon({}, 0)
    with pytest.raises(ValueError, match="closes before it opens"):
        Window("h100", 5, 5)


# --- guards -------------------------------------------------------------------------------------


def test_guards_are_set_again_when_they_are_others() -> None:
    """Asked for once; nothing more while they stand; again after somebody changed them; and no
    guard for a tree that is not there."""
    text = """
base: {h100: 2, a100: 1}
maps:
  - map: guards
    trees:
      h100: {rise: 25%, hold: 2s, window: 1s}
      a100: {hold: 5s}
"""
    composition = build(read(text, InfraMapSpec, file_name="maps.yaml").value)
    market = Market()
    market.add_resource("h100/g0", at=0)

    def guards_asked() -> list[ChangeGuard]:
        view = OperatorView(
            0,
            (Resource("h100/g0", None, 0, {}),),
            market.floors(),
            market.guards(),
        )
        actions = [action.do for action in composition.step({}, view, 0)]
        return [do for do in actions if isinstance(do, ChangeGuard)]

    [asked] = guards_asked()
    assert asked == ChangeGuard("h100", 2_500, None, 2_000_000, 1_000_000)
    market.guard("h100", rise=asked.rise, hold=asked.hold, window=asked.window, at=0)
    assert guards_asked() == []
    market.guard("h100", at=0)
    assert guards_asked() == [asked]


def guards_asked(market: Market, guard: str) -> list[ChangeGuard]:
    """What the map asks for in one step; it is done."""
    text = f"base: {{h100: 2}}\nmaps:\n  - map: guards\n    trees: {{h100: {guard}}}\n"
    composition = build(read(text, InfraMapSpec, file_name="maps.yaml").value)
    resources = (Resource("h100/g0", None, 0, {}),)
    view = OperatorView(0, resources, market.floors(), market.guards())
    asked = [each.do for each in composition.step({}, view, 0)]
    for do in asked:
        if isinstance(do, ChangeGuard):
            market.guard(**msgspec.structs.asdict(do), at=0)
    return [do for do in asked if isinstance(do, ChangeGuard)]


def test_a_map_leaves_notice_and_commitment_alone_unless_it_speaks_of_them() -> None:
    """Else a map that bounds prices would switch off what every new tree has. 0 turns one off,
    once; and a map that asks for both puts them back whoever changed them."""
    market = Market()
    market.add_resource("h100/g0", at=0)
    market.guard("h100", notice=30, commit=40, at=0)
    assert guards_asked(market, "{hold: 2s}") == [
        ChangeGuard("h100", hold=2_000_000, notice=30, commit=40)
    ]
    assert guards_asked(market, "{hold: 2s}") == []
    [asked] = guards_asked(market, "{hold: 2s, notice: 0s}")
    assert (asked.notice, asked.commit, asked.hold) == (None, 40, 2_000_000)
    assert guards_asked(market, "{hold: 2s, notice: 0s}") == []
    market.guard("h100", notice=0, commit=40, hold=2_000_000, at=0)
    assert guards_asked(market, "{hold: 2s, notice: 0s}") == []
    both = "{notice: 20s, commit: 25s}"
    assert guards_asked(market, both) == [ChangeGuard("h100", notice=20_000_000, commit=25_000_000)]
    assert guards_asked(market, both) == []
    market.guard("h100", at=0)
    assert len(guards_asked(market, both)) == 1


@pytest.mark.parametrize("name", ["notice", "commit"])
def test_more_than_a_day_is_refused_at_its_line(name: str) -> None:
    text = f"base: {{h100: 2}}\nmaps:\n  - map: guards\n    trees: {{h100: {{{name}: 25h}}}}\n"
    with pytest.raises(BadDocument, match=rf"maps\.yaml:4:.*{name} of more than a day"):
        read(text, InfraMapSpec, file_name="maps.yaml")


def test_a_bound_without_a_window_is_refused_at_its_line() -> None:
    """`rise` means nothing without the window that it is measured in."""
    text = "base: {h100: 2}\nmaps:\n  - map: guards\n    trees: {h100: {rise: 25%}}\n"
    with pytest.raises(BadDocument, match=r"maps\.yaml:4:.*within a window"):
        read(text, InfraMapSpec, file_name="maps.yaml")
