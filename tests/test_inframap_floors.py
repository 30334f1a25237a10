"""From prices to floors: exact, the fewest there can be, and without a dip or a spike on the way.

Hypothesis draws trees, adjustments, costs and floors that stand already. What each leaf is to cost
is worked out here once more, leaf by leaf, and the market is a dict of floors to which the
instructions are applied one by one.
"""

from collections.abc import Mapping
from itertools import product
from math import fsum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laissez.inframaps import BadComposition, Composition, Levels, MapAction, OperatorView
from laissez.inframaps.floors import changes, fewest_floors
from laissez.inframaps.forest import Forest
from laissez.market import Market
from laissez.model.instructions import ChangeFloor
from laissez.model.questions import Resource

Floors = dict[str, int]


class Fixed:
    """A map that always asks for the same."""

    def __init__(self, **adjustments: float) -> None:
        self.by_scope = {name.replace("_", "/"): each for name, each in adjustments.items()}

    def adjustments(self, levels: Levels, view: OperatorView, at_us: int) -> dict[str, float]:
        return self.by_scope


def fixed(adjustments: Mapping[str, float]) -> Fixed:
    a_map = Fixed()
    a_map.by_scope = dict(adjustments)
    return a_map


# --- the slow and plain model -------------------------------------------------------------------


def path_of(leaf: str) -> list[str]:
    """A leaf and all scopes above it, the root first."""
    names = leaf.split("/")
    return ["/".join(names[: depth + 1]) for depth in range(len(names))]


def floor_of(leaf: str, floors: Mapping[str, int]) -> int:
    return max(floors.get(scope, 0) for scope in path_of(leaf))


def price_of(
    leaf: str,
    base: int,
    cost: Mapping[str, int],
    maps: list[tuple[float, dict[str, float]]],
) -> int:
    share = fsum(
        weight * adjustments[scope]
        for scope in path_of(leaf)
        for weight, adjustments in maps
        if scope in adjustments
    )
    least = [cost[scope] for scope in path_of(leaf) if scope in cost]
    return max(least[-1] if least else 0, round(base * (1 + share)))


def applied(actions: tuple[MapAction, ...], floors: Mapping[str, int]) -> list[Floors]:
    """The floors after each instruction, and before the first."""
    stages = [dict(floors)]
    for action in actions:
        assert isinstance(action.do, ChangeFloor)
        after = {**stages[-1], action.do.scope: action.do.floor}
        stages.append({scope: floor for scope, floor in after.items() if floor})
    return stages


def view_of(
    leaves: list[str], floors: Mapping[str, int], inventory: tuple[str, ...] = ()
) -> OperatorView:
    resources = tuple(Resource(leaf, None, 0, {}) for leaf in leaves)
    return OperatorView(0, resources, floors, inventory={path: {} for path in inventory})


# --- what is drawn ------------------------------------------------------------------------------


@st.composite
def scenes(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """The leaves of a small tree, in any order, and all its scopes."""
    leaves = []
    for zone in "abc"[: draw(st.integers(1, 3))]:
        for host in range(draw(st.integers(0, 3))):
            for gpu in range(draw(st.integers(0, 2))):
                leaves.append(f"t/{zone}/h{host}/g{gpu}")
        leaves += [f"t/{zone}/lone"] * draw(st.integers(0, 1))
    leaves = draw(st.permutations(leaves))
    scopes = sorted({scope for leaf in leaves for scope in path_of(leaf)} | {"t"})
    return leaves, scopes


ADJUSTMENTS = st.sampled_from([-0.9, -0.5, -0.1, -0.003, 0.0, 0.004, 0.05, 0.1, 0.5, 2.0])
PRICES = st.sampled_from([0, 1, 400, 500, 900, 996, 1_000, 1_004, 1_050, 1_500])


@st.composite
def cases(
    draw: st.DrawFn,
) -> tuple[list[str], Floors, Floors, list[tuple[float, dict[str, float]]]]:
    leaves, scopes = draw(scenes())
    some = st.sampled_from([*scopes, "t/nowhere", "t/a/empty", "other/x"])
    cost = draw(st.dictionaries(st.sampled_from(scopes), PRICES, max_size=3))
    floors = draw(st.dictionaries(some, PRICES, max_size=6))
    adjustments = st.dictionaries(some, ADJUSTMENTS, max_size=4)
    maps = draw(st.lists(st.tuples(st.sampled_from([0.5, 1.0, 2.0]), adjustments), max_size=3))
    return leaves, cost, floors, maps


Case = tuple[list[str], Floors, Floors, list[tuple[float, dict[str, float]]]]
BASE = 1_000


def composition(case: Case, deadband: float) -> Composition:
    _, cost, _, maps = case
    weighted = tuple((weight, fixed(each)) for weight, each in maps)
    return Composition({"t": BASE}, cost, weighted, deadband=deadband)


# --- properties ---------------------------------------------------------------------------------


@given(cases())
def test_each_leaf_has_its_price(case: Case) -> None:
    """Without a deadband, every leaf's floor is its price, whatever stood before."""
    leaves, cost, floors, maps = case
    actions = composition(case, 0).step({}, view_of(leaves, floors), 0)
    after = applied(actions, floors)[-1]
    for leaf in leaves:
        assert floor_of(leaf, after) == price_of(leaf, BASE, cost, maps)


@given(cases(), st.sampled_from([0, 0.01, 0.2]))
def test_no_leaf_dips_or_spikes_on_the_way(case: Case, deadband: float) -> None:
    """After each single instruction every leaf is between its old and its new floor."""
    leaves, _, floors, _ = case
    actions = composition(case, deadband).step({}, view_of(leaves, floors), 0)
    stages = applied(actions, floors)
    for leaf in leaves:
        old, new = floor_of(leaf, stages[0]), floor_of(leaf, stages[-1])
        for stage in stages:
            assert min(old, new) <= floor_of(leaf, stage) <= max(old, new)


@given(cases(), st.sampled_from([0, 0.01, 0.2]))
def test_a_second_step_has_nothing_to_do(case: Case, deadband: float) -> None:
    """Once the floors stand as asked, the same step asks for nothing, and no floor is set twice."""
    leaves, _, floors, _ = case
    composed = composition(case, deadband)
    actions = composed.step({}, view_of(leaves, floors), 0)
    scopes = [action.do.scope for action in actions if isinstance(action.do, ChangeFloor)]
    assert len(scopes) == len(set(scopes))
    assert composed.step({}, view_of(leaves, applied(actions, floors)[-1]), 0) == ()


@given(cases(), st.sampled_from([0.01, 0.2]))
def test_the_deadband_is_kept_and_never_below_cost(case: Case, deadband: float) -> None:
    """A leaf is within the deadband of its price, at the base exactly, and never below its cost."""
    leaves, cost, floors, maps = case
    actions = composition(case, deadband).step({}, view_of(leaves, floors), 0)
    after = applied(actions, floors)[-1]
    for leaf in leaves:
        floor, price = floor_of(leaf, after), price_of(leaf, BASE, cost, maps)
        assert abs(floor - price) <= deadband * price
        assert floor >= price_of(leaf, 0, cost, [])
        if price == price_of(leaf, BASE, cost, []):
            assert floor == price


@given(cases())
def test_floors_of_other_trees_are_left_alone(case: Case) -> None:
    """Only trees with a base price are touched, and nothing superfluous stays there."""
    leaves, _, floors, _ = case
    actions = composition(case, 0.01).step({}, view_of(leaves, floors), 0)
    after = applied(actions, floors)[-1]
    assert after.get("other/x", 0) == floors.get("other/x", 0)
    assert "t/nowhere" not in after and "t/a/empty" not in after


@given(cases())
def test_the_market_agrees(case: Case) -> None:
    """The real market takes every instruction and shows these floors as rates of idle leaves."""
    leaves, cost, floors, maps = case
    market = Market()
    for leaf in leaves:
        market.add_resource(leaf, at=0)
    for scope, floor in floors.items():
        market.set_floor(scope, floor, at=0)
    view = view_of(list(market.resources()), market.floors())
    for action in composition(case, 0).step({}, view, 0):
        assert isinstance(action.do, ChangeFloor)
        events = market.set_floor(action.do.scope, action.do.floor, at=0)
        assert [type(event).__name__ for event in events] == ["FloorSet"]
    for leaf in leaves:
        assert market.rate(leaf) == price_of(leaf, BASE, cost, maps)


@given(cases(), st.sampled_from([0, 0.2]))
def test_every_floor_that_stands_is_needed(case: Case, deadband: float) -> None:
    """Take any floor away that a step has left, and some leaf's floor is another one."""
    leaves, _, floors, _ = case
    actions = composition(case, deadband).step({}, view_of(leaves, floors), 0)
    after = applied(actions, floors)[-1]
    for scope in after:
        if leaves and scope.startswith("t"):
            without = {other: floor for other, floor in after.items() if other != scope}
            assert any(floor_of(leaf, without) != floor_of(leaf, after) for leaf in leaves)


def test_no_fewer_floors_can_do() -> None:
    """On a tree of two pairs no assignment with fewer floors, out of all there are, is exact."""
    leaves = ["t/a/0", "t/a/1", "t/b/0", "t/b/1"]
    scopes = ["t", "t/a", "t/b", *leaves]
    fewest: dict[tuple[int, ...], int] = {}
    for values in product(range(4), repeat=len(scopes)):
        floors = dict(zip(scopes, values, strict=True))
        reached = tuple(floor_of(leaf, floors) for leaf in leaves)
        count = sum(value > 0 for value in values)
        fewest[reached] = min(count, fewest.get(reached, count))
    for prices in product(range(4), repeat=len(leaves)):
        regions = {"t": 1, "t/a": 1, "t/b": 1, **dict(zip(leaves, prices, strict=True))}
        assert len(fewest_floors(Forest(leaves), regions)) == fewest[prices]


# --- by hand ------------------------------------------------------------------------------------

ROWS = [f"t/{zone}/{row}/g{gpu}" for zone in "ab" for row in ("r1", "r2") for gpu in range(2)]


def floors_after(a_map: Fixed, floors: Floors, **cost: int) -> list[tuple[str, int]]:
    composed = Composition({"t": BASE}, cost, ((1.0, a_map),))
    return [
        (action.do.scope, action.do.floor)
        for action in composed.step({}, view_of(ROWS, floors), 0)
        if isinstance(action.do, ChangeFloor)
    ]


def test_nothing_asked_is_the_base_at_the_root() -> None:
    """Without adjustments one floor, the base at the root, does for the whole tree."""
    assert floors_after(Fixed(), {}) == [("t", 1_000)]
    assert floors_after(Fixed(), {"t": 1_000}) == []


def test_a_dearer_row_is_one_floor() -> None:
    """A surcharge needs a floor at its own scope and nowhere else."""
    assert floors_after(Fixed(t_a_r1=0.4), {"t": 1_000}) == [("t/a/r1", 1_400)]


def test_a_cheaper_row_moves_the_floors_beside_it() -> None:
    """For a discount deep down, siblings are raised first, then the floors above come down."""
    assert floors_after(Fixed(t_a_r1=-0.2), {"t": 1_000}) == [
        ("t/a/r2", 1_000),
        ("t/b", 1_000),
        ("t", 800),
    ]
    assert floors_after(Fixed(), {"t": 800, "t/a/r2": 1_000, "t/b": 1_000}) == [
        ("t", 1_000),
        ("t/a/r2", 0),
        ("t/b", 0),
    ]


def test_adjustments_on_a_path_add_up_from_root_to_leaf() -> None:
    """Root, zone, row and leaf can all be adjusted; a leaf has the sum of its path."""
    a_map = Fixed(t=0.1, t_a=0.1, t_a_r1=0.1, t_a_r1_g0=0.1)
    assert floors_after(a_map, {}) == [
        ("t", 1_100),
        ("t/a", 1_200),
        ("t/a/r1", 1_300),
        ("t/a/r1/g0", 1_400),
    ]


def test_cost_bounds_a_discount() -> None:
    """However clean or idle it is, nothing is offered below cost."""
    assert floors_after(Fixed(t=-0.9), {}, t=600) == [("t", 600)]
    standing = {"t": 597}
    assert floors_after(Fixed(t=-0.4), standing, t=600) == [("t", 600)]
    assert floors_after(Fixed(t=-0.4), standing) == []


def test_trifles_are_not_sent_but_prices_come_home() -> None:
    """Within 1% the standing floor stays, unless the price is the base again."""
    assert floors_after(Fixed(t=0.104), {"t": 1_100}) == []
    assert floors_after(Fixed(t=0.2), {"t": 1_100}) == [("t", 1_200)]
    assert floors_after(Fixed(), {"t": 1_004}) == [("t", 1_000)]


def test_a_trifle_beside_a_discount_moves_no_siblings() -> None:
    """Where a price stands in the floors of siblings, the deadband holds for it too."""
    standing = {"t": 880, "t/a/r2": 1_100, "t/b": 1_100}
    assert floors_after(Fixed(t=0.104, t_a_r1=-0.22), standing) == []


def test_siblings_that_differ_are_set_to_their_price() -> None:
    """One standing price is kept for a region only if all of it has that price."""
    composed = Composition({"t": BASE}, {}, ((1.0, Fixed(t=0.104, t_a=-0.22)),))
    leaves = ["t/a/g0", "t/b/g0", "t/c/g0"]
    for b, c in ((1_100, 1_105), (1_105, 1_100), (1_100, 0)):
        floors = {"t": 880, "t/b": b, "t/c": c}
        after = applied(composed.step({}, view_of(leaves, floors), 0), floors)[-1]
        assert after == {"t": 880, "t/b": 1_104, "t/c": 1_104}


def test_a_floor_over_nothing_is_taken_away_and_disturbs_nothing() -> None:
    """A floor on a scope without resources goes; what stands beside it stays as it is."""
    assert floors_after(Fixed(t=0.104), {"t": 1_100, "t/gone": 5_000}) == [("t/gone", 0)]


def test_a_leaf_that_is_to_come_back_has_its_price_already() -> None:
    """What the inventory has counts for the floors, though it is not on the market now."""
    composed = Composition({"t": BASE}, {}, ((1.0, Fixed(t_a=-0.2)),))
    actions = composed.step({}, view_of(["t/a/g0"], {}, inventory=("t/a/g0", "t/b/g0")), 0)
    assert applied(actions, {})[-1] == {"t": 800, "t/b": 1_000}


def test_an_empty_tree_has_its_base() -> None:
    """A tree without resources has its floor, so that the first one finds it."""
    composed = Composition({"t": BASE}, {"t/a": 1_200}, ((1.0, Fixed(t_a=0.5)),))
    assert applied(composed.step({}, view_of([], {}), 0), {})[-1] == {"t": 1_000}


def test_asking_again_does_no_harm_under_a_fall_guard() -> None:
    """A floor that a guard brings down slowly falls as fast if it is asked for at each step."""

    def floors_seen(ask_again: bool) -> list[int]:
        market = Market()
        market.add_resource("t/g0", at=0)
        market.set_floor("t", 2_000, at=0)
        market.guard("t", fall=150, window=1_000, at=0)
        composed = Composition({"t": BASE}, {}, ())
        seen = []
        for at in range(100, 9_000, 300):
            market.advance(at=at)
            view = view_of(["t/g0"], market.floors())
            for action in composed.step({}, view, at) if ask_again or at == 100 else ():
                assert action.do == ChangeFloor("t", BASE)
                market.set_floor("t", BASE, at=at)
            seen.append(market.floors()["t"])
        return seen

    assert floors_seen(ask_again=True) == floors_seen(ask_again=False)
    assert floors_seen(ask_again=True)[-1] == BASE


def test_every_floor_says_why() -> None:
    """The reason names the base, the maps that push and where; or what the floor is there for."""
    composed = Composition({"t": 2_000_000}, {}, ((2.0, Fixed(t_a_r1=0.2, t_b=-0.25)),))
    reasons = {
        action.do.scope: action.why
        for action in composed.step({}, view_of(ROWS, {"t/a/r2": 7}), 0)
        if isinstance(action.do, ChangeFloor)
    }
    assert reasons == {
        "t": "the lowest price under it: base 2.00, Fixed -50.0% at t/b",
        "t/a": "base 2.00",
        "t/a/r1": "base 2.00, Fixed +40.0% at t/a/r1",
        "t/a/r2": "the floors above it say the price",
    }


def test_raises_come_before_cuts() -> None:
    """Instructions are ordered: first what rises, then what falls."""
    assert changes({"t": 3, "t/a": 5}, {"t": 4, "t/a/x": 6}) == [("t", 4), ("t/a/x", 6), ("t/a", 0)]


def test_what_can_not_be_composed_is_said() -> None:
    """A base below a root, a cost without a base and a map's nonsense are refused in words."""
    with pytest.raises(BadComposition, match="its tree, t"):
        Composition({"t/a": 1}, {}, ())
    with pytest.raises(BadComposition, match="x has no base price"):
        Composition({"t": 1}, {"x/a": 1}, ())
    with pytest.raises(BadComposition, match="deadband"):
        Composition({"t": 1}, {}, (), deadband=1)
    composed = Composition({"t": BASE}, {}, ((1.0, Fixed(t=float("nan"))),))
    with pytest.raises(BadComposition, match="Fixed adjusts the price of t by nan"):
        composed.step({}, view_of(ROWS, {}), 0)
