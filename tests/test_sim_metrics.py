"""What is measured of a run, and what a few seeds say: by hand, by properties, and in real runs."""

import math
from collections.abc import Mapping
from statistics import NormalDist, quantiles
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laissez.experiments.intervals import (
    Interval,
    lowering,
    mean_interval,
    quantile,
    ratio,
    t_quantile,
)
from laissez.experiments.metrics import (
    Metrics,
    Moves,
    Quartiles,
    Throughput,
    fairness,
    measure,
    retention,
    volatility,
)
from laissez.performance.inference import Hardware, InferenceSpec, Load, LoadTrace, preset
from laissez.performance.training import Setup, TrainingSpec
from laissez.performance.training.planner import planner_of
from laissez.simulation.contracts.registry import CONTRACTS
from laissez.simulation.contracts.setting import (
    CHARGE_UNITS_PER_MICRO,
    History,
    Loss,
    Prices,
    Setting,
    Stint,
)
from laissez.simulation.demand.projects import Batch, Project, Serving, Training
from laissez.simulation.scenarios import regimes
from laissez.simulation.scenarios.regimes import Alone

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DOLLAR = 1_000_000 * CHARGE_UNITS_PER_MICRO
"""In the market's unit."""
NODES = ("h100/z0/r0/n0/h0/g0", "h100/z0/r0/n0/h0/g1", "a100/z0/r0/n0/h0/g0", "a100/z0/r0/n0/h0/g1")
H0, H1, A0, A1 = NODES
PRICES = Prices(
    {"h100": 6_000_000, "a100": 3_000_000},
    {"h100": 2_000_000, "a100": 1_000_000},
    {"h100": 4_000_000, "a100": 2_000_000},
)
SETUP = Setup(gpus=(("h100", "H100"), ("a100", "A100-80")))
REFERENCE_PER_S = planner_of(SETUP).reference_samples_per_s


def serving(name: str, ends_us: int = HOUR, per_s: float = 2.0) -> Project:
    spec = InferenceSpec(
        model="Llama-3.1-8B",
        kinds={"h100": Hardware("h100_sxm"), "a100": Hardware("a100_sxm")},
        objective=preset("planner-default"),
        expected=Load(per_s, 1_000.0, 200.0),
    )
    return Project(
        name, 0, ends_us, Serving(spec, LoadTrace(((0, per_s, 1_000.0, 200.0),), ends_us))
    )


def training(name: str, node_hours: float = 2.0, ends_us: int = HOUR) -> Project:
    samples = round(node_hours * 3_600 * REFERENCE_PER_S)
    spec = TrainingSpec(samples, SETUP, ends_us, nodes_max=4, reconfigure_s=60.0)
    return Project(name, 0, ends_us, Training(spec))


def batch(name: str, hours: float = 0.25, ends_us: int = HOUR, arrives_us: int = 0) -> Project:
    speeds = {"h100": 1.0, "a100": 0.5}
    return Project(name, arrives_us, ends_us, Batch(hours, speeds, ends_us, 30.0, 60.0))


def setting(*projects: Project, horizon_us: int = HOUR) -> Setting:
    return Setting(NODES, PRICES, projects, {}, horizon_us)


def alone(**performance: float) -> dict[str, Alone]:
    return {name: Alone(1.0, each, 1.0) for name, each in performance.items()}


def history(
    performance: Mapping[str, float],
    stints: tuple[Stint, ...] = (),
    losses: tuple[Loss, ...] = (),
    rates: Mapping[str, tuple[int, ...]] | None = None,
) -> History:
    return History(stints, losses, performance, rates or {})


def stint(
    tenant: str,
    resource: str,
    from_us: int = 0,
    to_us: int = HOUR,
    *,
    charge: int = 0,
    reason: str | None = None,
) -> Stint:
    return Stint(tenant, resource, from_us, to_us, charge, reason)


def near(value: float, rel: float = 1e-9) -> Any:
    """A number that may differ in its last digits, also inside a value."""
    return pytest.approx(value, rel=rel)


def four_jobs(**performance: float) -> Metrics:
    """Four batch jobs that get everything done alone."""
    projects = (batch(name) for name in performance)
    everything = alone(**dict.fromkeys(performance, 1.0))
    return measure(setting(*projects), everything, history(performance))


# What projects get -------------------------------------------------------------------------------


def test_retention_is_over_what_is_done_alone_and_at_most_1() -> None:
    """Half is half; more than alone is 1; who gets nothing done alone has lost nothing."""
    references = alone(half=200.0, more=0.8, none=0.0)
    told = history({"half": 100.0, "more": 0.9, "none": 0.0})
    assert retention(references, told) == {"half": 0.5, "more": 1.0, "none": 1.0}


@pytest.mark.parametrize("done", [0.0, 0.5])
def test_who_gets_nothing_done_alone_makes_no_contract_better_than_another(done: float) -> None:
    """It retains 1 whatever it does under a contract, and what it loses there is no work wasted."""
    told = msgspec.structs.replace(
        history({"none": done}), losses=(Loss("none", NODES[0], 1, 0.25),)
    )
    found = measure(setting(batch("none")), alone(none=0.0), told)
    assert found.retention == {"none": 1.0}
    assert (found.degradation, found.wasted_projects) == (0.0, 0.0)


def test_mean_quartiles_and_degradation_by_hand() -> None:
    """Of 0, 0.2, 0.6 and 1: the quartiles lie a quarter of the way beyond their neighbours."""
    found = four_jobs(a=0.6, b=0.0, c=1.0, d=0.2)
    assert found.mean_retention == pytest.approx(0.45)
    assert found.degradation == pytest.approx(0.55)
    assert found.quartiles.p25 == pytest.approx(0.15)
    assert found.quartiles.median == pytest.approx(0.4)
    assert found.quartiles.p75 == pytest.approx(0.7)


def test_the_starved_are_those_below_a_tenth() -> None:
    """0.1 itself is not below it."""
    found = four_jobs(a=0.0999, b=0.0, c=0.1, d=1.0)
    assert (found.starved, found.starved_share) == (2, 0.5)


def test_fairness_by_hand() -> None:
    """One who has all of four is 1/4; 1 and 0.5 are 1.5 squared over 2 times 1.25."""
    assert fairness([1.0, 0.0, 0.0, 0.0]) == 0.25
    assert fairness([1.0, 0.5]) == pytest.approx(0.9)
    assert fairness([0.3, 0.3, 0.3]) == pytest.approx(1.0)
    assert fairness([0.0, 0.0]) == 1.0
    assert four_jobs(a=1.0, b=0.0, c=0.0, d=0.0).fairness == 0.25


SHARES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12)


@given(SHARES)
def test_fairness_lies_between_one_over_the_count_and_1(shares: list[float]) -> None:
    """Whatever the shares, the smallest numbers with them."""
    assert 1 / len(shares) - 1e-12 <= fairness(shares) <= 1


@given(SHARES, st.floats(0.01, 1.0))
def test_what_is_measured_of_retention_holds_together(shares: list[float], most: float) -> None:
    """Shares are capped, quartiles ordered, the mean between the extremes, the starved counted."""
    names = [f"p{number}" for number in range(len(shares))]
    performance = dict(zip(names, shares, strict=True))
    found = measure(
        setting(*map(batch, names)), alone(**dict.fromkeys(names, most)), history(performance)
    )
    kept = found.retention.values()
    assert list(kept) == [min(1.0, share / most) for share in shares]
    quartiles = found.quartiles
    assert min(kept) <= quartiles.p25 <= quartiles.median <= quartiles.p75 <= max(kept) <= 1
    assert min(kept) - 1e-12 <= found.mean_retention <= max(kept) + 1e-12
    assert found.degradation == 1 - found.mean_retention
    assert found.starved == len([share for share in kept if share < 0.1])


@given(st.lists(st.floats(0.0, 1.0), min_size=2, max_size=12))
def test_quartiles_are_those_of_the_standard_library(values: list[float]) -> None:
    """But for the last bit, which may put theirs out of order. The extremes are the extremes."""
    own = [quantile(values, share) for share in (0.25, 0.5, 0.75)]
    assert own == pytest.approx(quantiles(values, method="inclusive"))
    assert (quantile(values, 0.0), quantile(values, 1.0)) == (min(values), max(values))


# Money -------------------------------------------------------------------------------------------


def test_cost_and_performance_per_cost_by_hand() -> None:
    """$3 and $1 for 1 and 0.5 projects: 0.375 projects a dollar. Who held nothing paid nothing."""
    told = history(
        {"a": 1.0, "b": 0.5, "c": 0.0},
        (
            stint("a", H0, charge=2 * DOLLAR),
            stint("a", H1, charge=DOLLAR),
            stint("b", A0, charge=DOLLAR),
        ),
    )
    projects = (batch("a"), batch("b"), batch("c"))
    found = measure(setting(*projects), alone(a=1.0, b=1.0, c=1.0), told)
    assert found.cost_dollars == {"a": 3.0, "b": 1.0, "c": 0.0}
    assert found.total_cost_dollars == 4.0
    assert found.retention_per_dollar == 0.375


def test_where_nothing_is_charged_there_is_no_performance_per_cost() -> None:
    """Neither infinite nor nothing: it is not there."""
    found = four_jobs(a=1.0, b=1.0)
    assert found.retention_per_dollar is None
    assert found.revenue_charge == 0


def test_services_that_miss_their_objective_too_often_give_some_back() -> None:
    """By hand, of $100 for 7,200 requests: all kept, nothing; 99.5% are paid and a tenth of that
    goes back, 50% and a quarter. Jobs have no such agreement, nor has who has no budget."""
    names = ("kept", "nearly", "half", "unpaid")
    projects = [*map(serving, names), batch("job")]
    paid = dict.fromkeys(("kept", "nearly", "half", "job"), 100_000_000)
    done = {"kept": 7_200.0, "nearly": 7_164.0, "half": 3_600.0, "unpaid": 3_600.0, "job": 0.5}
    world = msgspec.structs.replace(setting(*projects), budgets=paid)
    found = measure(world, alone(**dict.fromkeys(done, 1.0)), history(done))
    assert found.credits_dollars == pytest.approx({"nearly": 9.95, "half": 12.5})


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 10**21)), max_size=10))
def test_revenue_is_the_sum_of_charges_to_the_unit(charged: list[tuple[str, int]]) -> None:
    """Also beyond what a float or a machine word can hold, there and back through JSON."""
    stints = tuple(stint(name, H0, charge=charge) for name, charge in charged)
    told = history(dict.fromkeys("abc", 1.0), stints)
    found = measure(setting(*map(batch, "abc")), alone(a=1.0, b=1.0, c=1.0), told)
    assert found.revenue_charge == sum(charge for _, charge in charged)
    assert found.total_cost_dollars == pytest.approx(sum(found.cost_dollars.values()))
    assert msgspec.json.decode(msgspec.json.encode(found), type=Metrics) == found


# Nodes -------------------------------------------------------------------------------------------


def test_throughput_by_class_by_hand() -> None:
    """Over half an hour: 1800 requests are 1/s, half of 3 hours is 3 an hour, of two jobs one."""
    projects = (
        serving("chat"),
        training("train", node_hours=3.0),
        batch("done"),
        batch("not"),
    )
    told = history({"chat": 1_800.0, "train": 0.5, "done": 1.0, "not": 0.99})
    references = alone(chat=3_600.0, train=1.0, done=1.0, **{"not": 1.0})
    found = measure(setting(*projects, horizon_us=HOUR // 2), references, told).throughput
    assert found == Throughput(1.0, near(3.0, rel=1e-4), 1)


def test_utilisation_is_node_hours_held_over_those_there_are() -> None:
    """Of four nodes for an hour, one and a half."""
    told = history({"a": 1.0}, (stint("a", H0), stint("a", A1, HOUR // 4, 3 * HOUR // 4)))
    assert measure(setting(batch("a")), alone(a=1.0), told).utilisation == 0.375


def moves_of(*stints: Stint) -> Moves:
    projects = (batch("a"), batch("b"))
    told = history({"a": 1.0, "b": 1.0}, stints)
    return measure(setting(*projects), alone(a=1.0, b=1.0), told).moves


@pytest.mark.parametrize("reason", ["outbid", "floor", "withdrawn", "preempted"])
def test_who_loses_a_node_to_others_is_displaced(reason: str) -> None:
    """A rival, the operator, or a scheduler: not the holder's will."""
    assert moves_of(stint("a", H0, 0, MINUTE, reason=reason)) == Moves(displaced=1)


def test_who_lowers_its_limit_gives_up_and_who_returns_a_node_relinquishes() -> None:
    """Both are the holder's will; what is held to the end has not moved."""
    found = moves_of(
        stint("a", H0, 0, MINUTE, reason="limit"),
        stint("a", H1, 0, MINUTE, reason="relinquished"),
        stint("b", H0, MINUTE, HOUR, reason="limit"),
        stint("b", A0, 0, HOUR),
    )
    assert found == Moves(given_up=2, relinquished=1)


def test_who_wins_its_own_node_has_kept_it() -> None:
    """The market settles and begins anew, as in example 7 of its contract: no move. To win it back
    from another, or later, is one; the other, who had it for no time, has not moved."""
    kept = moves_of(stint("a", H0, 0, MINUTE, reason="outbid"), stint("a", H0, MINUTE))
    between = moves_of(
        stint("a", H0, 0, MINUTE, reason="outbid"),
        stint("b", H0, MINUTE, MINUTE, reason="outbid"),
        stint("a", H0, MINUTE),
    )
    later = moves_of(stint("a", H0, 0, MINUTE, reason="outbid"), stint("a", H0, MINUTE + 1))
    elsewhere = moves_of(stint("a", H0, 0, MINUTE, reason="outbid"), stint("a", H1, MINUTE))
    assert kept == Moves()
    assert between == later == elsewhere == Moves(displaced=1)


def test_wasted_work_is_in_projects() -> None:
    """50 of 200 requests, a tenth and a fifth of a job: 0.55; what is none alone can't waste."""
    projects = (serving("chat"), batch("job"), batch("none"))
    losses = (
        Loss("chat", H0, MINUTE, 50.0),
        Loss("job", H1, MINUTE, 0.1),
        Loss("job", H1, HOUR, 0.2),
        Loss("none", A0, HOUR, 0.2),
    )
    told = history({"chat": 100.0, "job": 1.0, "none": 0.0}, losses=losses)
    found = measure(setting(*projects), alone(chat=200.0, job=1.0, none=0.0), told)
    assert found.wasted_projects == pytest.approx(0.55)


def test_volatility_by_hand() -> None:
    """Up and down by a factor e every minute is 1; steady growth is 0, and so is a fixed price."""
    e = round(math.e * 10**9)
    assert volatility((10**9, e, 10**9, e, 10**9)) == pytest.approx(1.0, abs=1e-8)
    assert volatility((1, 2, 4, 8)) == pytest.approx(0.0, abs=1e-12)
    assert volatility((7, 7, 7)) == 0.0
    told = history({"a": 1.0}, rates={"h100": (2, 4, 2), "a100": (3, 3, 3)})
    found = measure(setting(batch("a")), alone(a=1.0), told).volatility
    assert found == {"h100": pytest.approx(math.log(2)), "a100": 0.0}


def test_minutes_without_a_holder_are_left_out_of_volatility() -> None:
    """Of 2, 4, none, 32, 16 only a doubling and a halving count, not what a gap hides."""
    assert volatility((2, 4, -1, 32, 16)) == pytest.approx(math.log(2))
    assert volatility((2, 4, 0, 32, 16)) == pytest.approx(math.log(2))
    assert volatility((-1, 5, -1, 9)) == volatility(()) == 0.0


# A few seeds -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("degrees", "known"),
    [(1, 12.706), (2, 4.303), (5, 2.571), (10, 2.228), (11, 2.201), (19, 2.093), (30, 2.042)],
)
def test_quantiles_of_t_are_those_of_printed_tables(degrees: int, known: float) -> None:
    """To the three digits that tables print."""
    assert t_quantile(degrees) == pytest.approx(known, abs=6e-4)


@pytest.mark.parametrize("degrees", [*range(1, 31), 100])
def test_between_the_quantiles_lies_95_percent(degrees: int) -> None:
    """The density of t, added up by Simpson's rule over the angle whose tangent is t/sqrt(n)."""
    count = 400
    width = math.atan(t_quantile(degrees) / math.sqrt(degrees)) / count
    heights = [math.cos(number * width) ** (degrees - 1) for number in range(count + 1)]
    total = heights[0] + heights[-1] + 4 * sum(heights[1:-1:2]) + 2 * sum(heights[2:-1:2])
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(math.pi)
    assert 2 * scale * total * width / 3 == pytest.approx(0.95, abs=1e-5)


def test_the_quantile_of_t_comes_down_to_the_normal_one() -> None:
    """Where table and formula meet, too."""
    falling = [t_quantile(degrees) for degrees in range(1, 200)]
    assert falling == sorted(falling, reverse=True)
    assert t_quantile(10**6) == pytest.approx(NormalDist().inv_cdf(0.975), abs=1e-5)


def test_a_mean_and_its_interval_by_hand() -> None:
    """1, 2, 3: standard error 1/sqrt(3), quantile 4.302653 for two degrees."""
    found = mean_interval([1.0, 2.0, 3.0])
    margin = 4.302653 / math.sqrt(3)
    assert found == Interval(2.0, near(2 - margin), near(2 + margin))
    assert mean_interval([5.0]) == Interval(5.0, None, None)
    assert mean_interval([0.25, 0.25]) == Interval(0.25, 0.25, 0.25)


def test_only_the_same_seeds_are_compared() -> None:
    """Pairs are found by seed, in whatever order they are told: each is a half less, so the mean
    is, for sure. Of different seeds there are no pairs."""
    found = lowering({1: 0.5, 2: 50.0}, {2: 100.0, 1: 1.0})
    assert found == Interval(0.5, 0.5, 0.5)
    with pytest.raises(AssertionError, match="same seeds"):
        lowering({1: 1.0}, {2: 1.0})


def test_lowering_by_hand() -> None:
    """A quarter less in each seed is a quarter less, for sure; the means decide, not the ratios."""
    other = {1: 0.4, 2: 0.2, 3: 0.1}
    sure = lowering({seed: 0.75 * value for seed, value in other.items()}, other)
    assert sure == Interval(*(near(0.25),) * 3)
    found = lowering({1: 0.3, 2: 0.0}, {1: 0.3, 2: 0.1})
    assert found is not None
    assert found.estimate == pytest.approx(0.25)
    assert (found.low, found.high) == (0.0, 1.0)


def test_lowering_is_the_same_again_and_depends_on_no_order() -> None:
    """Its draws come from a named stream; an interval has its estimate inside."""
    one = {seed: 0.1 + 0.01 * (seed % 7) for seed in range(20)}
    other = {seed: 0.2 + 0.02 * (seed % 5) for seed in range(20)}
    found = lowering(one, other)
    assert found == lowering(dict(reversed(one.items())), other)
    assert found is not None
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.estimate < found.high


def test_the_bootstrap_agrees_with_counting_all_draws() -> None:
    """Of two seeds there are four draws: (1, 1), (2, 2) and twice both: a quarter lies below the
    middle and a quarter above, so the extremes are the bounds."""
    found = lowering({1: 0.1, 2: 0.4}, {1: 0.4, 2: 0.5})
    assert found is not None
    assert found == Interval(near(1 - 0.5 / 0.9), near(0.2), near(0.75))


def test_without_degradation_there_is_nothing_to_lower() -> None:
    """None, whatever the one has; no division by zero."""
    assert lowering({1: 0.0, 2: 0.0}, {1: 0.0, 2: 0.0}) is None
    assert lowering({1: 0.1, 2: 0.0}, {1: 0.0, 2: 0.0}) is None


def test_draws_without_degradation_bound_nothing_from_below() -> None:
    """With two seeds a quarter of the draws has none of the other's: if the one has some there, it
    could be worse without bound; if it has none, it is the same there."""
    open_below = lowering({1: 0.1, 2: 0.1}, {1: 0.0, 2: 0.4})
    assert open_below == Interval(near(0.5), None, near(0.75))
    same_there = lowering({1: 0.0, 2: 0.1}, {1: 0.0, 2: 0.4})
    assert same_there == Interval(near(0.75), 0.0, near(0.75))
    assert lowering({1: 0.1}, {1: 0.2}) == Interval(0.5, None, None)


def test_a_lowering_goes_through_json() -> None:
    """Sides without bound with it."""
    found = lowering({1: 0.1, 2: 0.1}, {1: 0.0, 2: 0.4})
    assert msgspec.json.decode(msgspec.json.encode(found), type=Interval) == found


def test_a_ratio_is_what_a_lowering_leaves() -> None:
    """One does 3 and 5 where the other does 2 and 2: 8 over 4 is twice as much. Of four draws a
    quarter is (3, 2) twice and a quarter (5, 2): the bounds are 1.5 and 2.5, low before high."""
    assert ratio({1: 3.0, 2: 5.0}, {1: 2.0, 2: 2.0}) == Interval(near(2.0), near(1.5), near(2.5))


def test_a_ratio_to_nothing_is_none_or_unbounded() -> None:
    """None if the other has nothing at all; if it has nothing with one seed of two, nothing bounds
    the ratio from above; a single seed has no interval."""
    assert ratio({1: 1.0, 2: 2.0}, {1: 0.0, 2: 0.0}) is None
    assert ratio({1: 1.0, 2: 2.0}, {1: 0.0, 2: 2.0}) == Interval(near(1.5), near(1.0), None)
    assert ratio({1: 3.0}, {1: 2.0}) == Interval(near(1.5), None, None)


# Real runs ---------------------------------------------------------------------------------------

END = 10 * MINUTE


def tiny() -> Setting:
    """Four nodes, and more work than they can do in ten minutes."""
    projects = (
        serving("chat", END, per_s=20.0),
        training("train", 0.4, END),
        batch("job", 0.1, END),
        batch("late", 0.1, END, arrives_us=MINUTE),
    )
    budgets = {project.name: 20_000_000 for project in projects}
    return Setting(NODES, PRICES, projects, budgets, END)


@pytest.fixture(scope="module")
def references() -> dict[str, Alone]:
    return {project.name: regimes.alone(project, tiny(), 1) for project in tiny().projects}


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_run_is_measured_under_every_contract(
    contract: str, references: dict[str, Alone]
) -> None:
    """All of it goes through JSON and back, and holds together."""
    told = CONTRACTS[contract].play(tiny(), 1)
    found = measure(tiny(), references, told)
    assert msgspec.json.decode(msgspec.json.encode(found), type=Metrics) == found
    assert found.retention.keys() == found.cost_dollars.keys() == references.keys()
    assert 0 < found.mean_retention <= 1
    assert 0 < found.utilisation <= 1
    assert found.revenue_charge == sum(each.charge for each in told.stints) > 0
    assert found.throughput.requests_within_objective_per_s > 0
    ended = sum(each.reason is not None for each in told.stints)
    moves = found.moves
    assert moves.displaced + moves.given_up + moves.relinquished <= ended
    assert found.wasted_projects >= 0
    assert set(found.volatility) == {"h100", "a100"}


def latecomer() -> Setting:
    """A training job has all four nodes when a service arrives that is worth four times as much."""
    chat = serving("chat", END, per_s=20.0)
    assert isinstance(chat.labour, Serving)
    trace = LoadTrace(((2 * MINUTE, 20.0, 1_000.0, 200.0),), END)
    labour = msgspec.structs.replace(chat.labour, trace=trace)
    chat = msgspec.structs.replace(chat, arrives_us=2 * MINUTE, labour=labour)
    budgets = {"train": 5_000_000, "chat": 20_000_000}
    return Setting(NODES, PRICES, (training("train", 0.4, END), chat), budgets, END)


def test_who_may_not_be_displaced_is_not() -> None:
    """First come first served and a hold for ever displace nobody, so the service has nothing; by
    every other contract nodes are taken from the job, and the service does its work."""
    played = latecomer()
    references = {each.name: regimes.alone(each, played, 1) for each in played.projects}
    displaced: dict[str, int] = {}
    kept: dict[str, float] = {}
    for name in CONTRACTS:
        found = measure(played, references, CONTRACTS[name].play(played, 1))
        displaced[name], kept[name] = found.moves.displaced, found.retention["chat"]
    for name in ("fcfs", "no_displacement"):
        assert (displaced[name], kept[name]) == (0, 0.0)
    for name in ("market", "fcfs_p", "fair"):
        assert displaced[name] > 0
        assert kept[name] > 0.9


def test_alone_is_retained_in_full(references: dict[str, Alone]) -> None:
    """The denominator itself, measured as a run; those who do not come are left out."""
    own = tiny().alone(tiny().projects[0])
    found = measure(own, references, CONTRACTS["fcfs"].play(own, 1))
    assert found.retention == {"chat": 1.0}
    assert found.quartiles == Quartiles(1.0, 1.0, 1.0)
    assert (found.degradation, found.fairness, found.starved) == (0.0, 1.0, 0)
