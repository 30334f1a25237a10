"""Who comes, how much demand meets how much capacity, and with what money."""

import math
from collections import Counter
from functools import cache
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laissez.experiments.metrics import retention
from laissez.model.paths import tree_of
from laissez.performance.inference import Load, profile
from laissez.performance.inference.capacity import node_rates
from laissez.performance.training import spot_of
from laissez.simulation.contracts.setting import History, Setting
from laissez.simulation.demand.population import (
    EPOCHS,
    HORIZON_US,
    SATISFIABLE,
    UTILISATION,
    project,
)
from laissez.simulation.demand.projects import US_PER_HOUR, Batch, Project, Serving, Training
from laissez.simulation.demand.requests import STEP_S, WINDOW_S, RequestStep, Service
from laissez.simulation.scenarios import regimes
from laissez.simulation.scenarios.regimes import (
    BASE_SHARES,
    BUDGET_FACTOR,
    ON_DEMAND,
    READINGS,
    REGIMES,
    RESOURCES,
    Alone,
    Crowd,
    alone,
    budgets,
    crowd,
    crowd_of,
    prices,
    setting_of,
)

S = 1_000_000
MINUTE_US = 60 * S
EMPTY = Setting(RESOURCES, prices(), (), {}, HORIZON_US)


class Wavy:
    """Requests of one length, at a rate that goes up and down by chance."""

    def window(self, service: Service, chance: Random) -> tuple[RequestStep, ...]:
        rates = (chance.uniform(3, 7) for _ in range(WINDOW_S // STEP_S))
        return tuple(RequestStep(rate, 1_500.0, 150.0) for rate in rates)


REQUESTS = Wavy()


@cache
def some_projects() -> tuple[Project, ...]:
    return tuple(project(seed, number, REQUESTS) for seed in range(4) for number in range(60))


@cache
def crowd_at(ratio: float) -> Crowd:
    return crowd(3, ratio, REQUESTS)


# Who comes --------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(st.integers(0, 999), st.integers(0, 40), st.integers(0, 40))
def test_a_project_is_its_seed_and_number(seed: int, number: int, other: int) -> None:
    """The same whoever was drawn before it; another seed or number is another project."""
    first = project(seed, number, REQUESTS)
    project(seed, other, REQUESTS)
    assert project(seed, number, Wavy()) == first
    assert project(seed + 1, number, REQUESTS) != first
    assert (project(seed, other, REQUESTS) == first) == (number == other)


def test_names_tell_class_and_number() -> None:
    """No two projects of a seed have one name."""
    classes = {"inference": Serving, "training": Training, "batch": Batch}
    for number in range(20):
        each = project(1, number, REQUESTS)
        kind, _, told = each.name.partition("-")
        assert (classes[kind], int(told)) == (type(each.labour), number)


def test_two_in_five_serve_two_train_one_is_batch() -> None:
    """Of 240 projects, within four standard deviations."""
    counts = Counter(type(each.labour) for each in some_projects())
    for kind, share in ((Serving, 0.4), (Training, 0.4), (Batch, 0.2)):
        assert abs(counts[kind] - 240 * share) < 4 * math.sqrt(240 * share * (1 - share))


def test_everybody_comes_and_goes_within_the_hour() -> None:
    """No project is cut by the end of the run; a deadline is a project's end."""
    for each in some_projects():
        assert 0 <= each.arrives_us < each.ends_us <= HORIZON_US == US_PER_HOUR
        if isinstance(each.labour, Training):
            assert each.labour.spec.deadline_us == each.ends_us
        elif isinstance(each.labour, Batch):
            assert each.labour.deadline_us == each.ends_us


def test_services_are_as_written_down() -> None:
    """30 to 50 minutes of whole windows; 2 to 6 H100s on average; the mean is what is expected."""
    for each in some_projects():
        if not isinstance(each.labour, Serving):
            continue
        life_us = each.ends_us - each.arrives_us
        assert 30 * MINUTE_US <= life_us <= 50 * MINUTE_US
        assert life_us % (WINDOW_S * S) == 0
        trace, spec = each.labour.trace, each.labour.spec
        begins = [step[0] for step in trace.steps]
        assert begins == list(range(each.arrives_us, each.ends_us, STEP_S * S))
        assert trace.end_us == each.ends_us
        mean = each.labour.requests / (life_us / S)
        assert mean == pytest.approx(spec.expected.requests_per_s)
        load = Load(1.0, 1_500.0, 150.0)
        one = node_rates(profile(spec.model, "h100_sxm", 1), load, spec.objective)
        assert 2 <= mean / (one.requests_per_s * UTILISATION) <= 6


def test_training_is_as_written_down() -> None:
    """20 epochs by a deadline in 30 to 55 minutes, for which it needs 2 to 8 H100s on average, for
    0.95 of the time that its first configuration leaves."""
    assert SATISFIABLE == 0.95
    for each in some_projects():
        if not isinstance(each.labour, Training):
            continue
        spec, life_us = each.labour.spec, each.ends_us - each.arrives_us
        assert 30 * MINUTE_US <= life_us < 55 * MINUTE_US
        assert 60 <= spec.reconfigure_s <= 240
        assert spec.samples % EPOCHS == 0
        working_s = SATISFIABLE * (life_us / S - spec.reconfigure_s)
        assert 1.99 <= each.labour.hours * 3_600 / working_s <= 8.01


def test_batch_is_as_written_down() -> None:
    """12 to 21 minutes of work, and time for two starts and two checkpoints lost, and for up to 15
    minutes of waiting, within the hour."""
    for each in some_projects():
        if not isinstance(each.labour, Batch):
            continue
        labour, life_us = each.labour, each.ends_us - each.arrives_us
        assert 12 / 60 <= labour.hours <= 21 / 60
        assert 240 <= labour.cold_start_s <= 480
        assert labour.checkpoint_every_s == 300
        slack_s = life_us / S - labour.hours * 3_600
        moves_s = 2 * (labour.cold_start_s + 300)
        assert moves_s - 1 <= slack_s <= moves_s + 900 + 1


def test_alone_everything_can_be_done() -> None:
    """With the whole cluster to itself every job is done by its deadline, training or batch, and a
    service answers most requests in time, as far as its autoscaler sees to it."""
    for each in some_projects()[:30]:
        own = alone(each, EMPTY, 0)
        if isinstance(each.labour, Serving):
            assert own.performance > 0.8 * each.labour.requests
        else:
            assert own.performance == 1.0


def test_alone_jobs_are_done_but_for_a_few_that_have_to_grow() -> None:
    """Of a hundred and more jobs at most one in a hundred is late alone, and that one by less than
    a twentieth: a job that begins with a node too few has to configure itself a second time."""
    jobs = [each for each in some_projects() if not isinstance(each.labour, Serving)]
    late = [own.performance for each in jobs if (own := alone(each, EMPTY, 0)).performance < 1.0]
    assert len(late) <= len(jobs) / 100
    assert min(late, default=1.0) > 0.95


# How much demand --------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", REGIMES[:3])
def test_a_regime_is_as_near_as_whole_projects_come(ratio: float) -> None:
    """Neither one project more nor one less would bring demand nearer to it."""
    found = crowd_at(ratio)
    hours = [found.alone[each.name].node_hours for each in found.projects]
    capacity = len(RESOURCES) * HORIZON_US / US_PER_HOUR
    assert found.ratio == pytest.approx(sum(hours) / capacity)
    newcomer = project(3, len(hours), REQUESTS)
    more = sum(hours) + alone(newcomer, EMPTY, 3).node_hours
    off = abs(found.ratio - ratio)
    assert off <= abs(more / capacity - ratio)
    assert off <= abs(sum(hours[:-1]) / capacity - ratio)
    assert off < 0.1


def test_a_job_that_is_late_alone_is_sent_away() -> None:
    """With a little work left it does not come; a service that misses some requests does."""
    others = iter(some_projects())
    comers = []
    for kind, done in ((Training, 0.99), (Batch, 0.5), (Serving, 0.9), (Training, 1.0)):
        newcomer = next(each for each in others if isinstance(each.labour, kind))
        comers.append((newcomer, Alone(1.0, done, 1.0)))
    found = crowd_of(comers, 1.0, RESOURCES)
    assert found.projects == (comers[2][0], comers[3][0])
    assert found.ratio == 2.0 / len(RESOURCES)


def test_a_regime_has_everybody_of_every_lower_one() -> None:
    """In the same order, the same alone."""
    for lower, higher in pairwise(REGIMES[:3]):
        few, many = crowd_at(lower), crowd_at(higher)
        assert many.projects[: len(few.projects)] == few.projects
        assert len(many.projects) > len(few.projects)
        assert {name: many.alone[name] for name in few.alone} == few.alone


def test_alone_costs_list_prices_and_needs_hours() -> None:
    """What a project pays alone lies between its hours on A100s and on H100s."""
    for own in crowd_at(0.7).alone.values():
        assert own.node_hours > 0
        assert own.performance > 0
        cheapest, dearest = ON_DEMAND["a100"], ON_DEMAND["h100"]
        assert cheapest * own.node_hours <= own.list_cost_micros * (1 + 1e-9)
        assert own.list_cost_micros <= dearest * own.node_hours * (1 + 1e-9)


def test_alone_nobody_knows_of_others() -> None:
    """What a project does alone is the same whoever else is in the setting, and whatever money."""
    found = crowd_at(0.4)
    played = setting_of(found, "equal")
    for each in found.projects:
        assert alone(each, played, 3) == found.alone[each.name]


# With what money --------------------------------------------------------------------------------


def test_both_readings_bring_the_same_money() -> None:
    """Equal ones are equal; by demand, four times the cost alone; the sums agree to rounding."""
    found = crowd_at(0.7)
    equal, demand = (budgets(found, reading) for reading in READINGS)
    assert READINGS == ("equal", "demand")
    assert len({*equal.values()}) == 1
    for name, own in found.alone.items():
        assert demand[name] == round(BUDGET_FACTOR * own.list_cost_micros)
    assert abs(sum(equal.values()) - sum(demand.values())) <= len(equal)
    assert equal.keys() == demand.keys() == {each.name for each in found.projects}


@pytest.mark.parametrize("share", BASE_SHARES)
def test_only_floors_depend_on_the_share(share: float) -> None:
    """The market's floors are that share of list prices; nothing else differs."""
    found = crowd_at(0.4)
    played = setting_of(found, "demand", share)
    assert played.prices.base == {tree: round(rate * share) for tree, rate in ON_DEMAND.items()}
    usual = setting_of(found, "demand")
    assert played.prices.on_demand == usual.prices.on_demand == ON_DEMAND
    assert played.prices.spot == usual.prices.spot
    assert (played.projects, played.budgets) == (usual.projects, usual.budgets)
    assert all(played.prices.spot[tree] < rate for tree, rate in ON_DEMAND.items())


def test_retention_is_the_share_of_alone_and_at_most_one() -> None:
    """Half of what is done alone is a half; more than that is still one."""
    found = crowd_at(0.4)
    done = {name: own.performance for name, own in found.alone.items()}
    for times, kept in ((0.0, 0.0), (0.5, 0.5), (1.0, 1.0), (1.5, 1.0)):
        history = History((), (), {name: times * most for name, most in done.items()}, {})
        assert retention(found.alone, history) == pytest.approx(dict.fromkeys(done, kept))


def test_every_level_of_the_cluster_branches() -> None:
    """128 GPUs, half of each kind; everything has two parts, and hosts have four GPUs."""
    assert len({*RESOURCES}) == len(RESOURCES) == 128
    assert Counter(map(tree_of, RESOURCES)) == {"h100": 64, "a100": 64}
    names = [resource.split("/") for resource in RESOURCES]
    for depth, parts in ((1, 2), (2, 2), (3, 2), (4, 2), (5, 4)):
        below = {tuple(each[: depth + 1]) for each in names}
        assert {*Counter(each[:-1] for each in below).values()} == {parts}
    assert {spot_of(resource).domain for resource in RESOURCES} == {
        "/".join(each[:4]) for each in names
    }
    assert regimes.REGIMES == (0.4, 0.7, 1.0, 1.125, 2.25)
