"""Iterations by hand, distances, the layer split and the planner against brute force."""

from __future__ import annotations

from itertools import combinations, product
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laissez.performance.pace import useful_pace
from laissez.performance.training import (
    Distance,
    Gpu,
    GpuGroup,
    Setup,
    TrainingError,
    TrainingPlan,
    Use,
    distance,
    plan,
    planner_of,
)
from laissez.performance.training.gpus import A100_40, H100
from laissez.performance.training.iteration import RUNTIME_BYTES, Shape, shape_of, shapes
from laissez.performance.training.options import Option, candidate_of, candidates
from laissez.performance.training.placement import DEFAULT_LEVELS, spot_of
from laissez.performance.training.profiles import MODELS, LayerBytes, LayerTimes, Model, ModelBytes
from laissez.performance.training.search import Choice, time_of
from laissez.performance.training.splitting import best_split

# One iteration, by hand --------------------------------------------------------------------------

SLOW_LINKS = Gpu("toy", "toy", 100_000_000_000, 2e9, 1e9, 0.5e9)
# Forward and backward 3 ms in the first layer, 7 ms in the last, 0.5 ms to update each.
TOY_ROW = LayerTimes(1, 2, 1_000, 2_000, 0, 0, 3_000, 4_000, 500)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> str:
    """A model of two layers: 1 and 4 MB of parameters; 1 MB goes from the one to the other."""
    sizes = ModelBytes(
        LayerBytes(1_000_000, 1_000_000, 0),
        LayerBytes(0, 0, 0),
        LayerBytes(4_000_000, 9_000_000, 0),
    )
    monkeypatch.setitem(MODELS, "toy", Model("toy", 0, 8, {1: sizes}))
    return "toy"


def toy_shape(model: str, span: Distance = Distance.RACK) -> Shape:
    shape = shape_of(model, SLOW_LINKS, TOY_ROW, span, (1, 1))
    assert shape is not None
    return shape


def together_s(replicas: list[Shape], batch: int, span: Distance) -> float:
    """As the planner reckons it for these replicas."""
    alone = len(replicas) == 1
    link = None if alone else min(shape.gpu.link_bytes_per_s(span) for shape in replicas)
    choices = [Choice(Option("toy", candidate_of(shape, link), 1), 1) for shape in replicas]
    return time_of(choices, batch)


def test_one_pipeline_of_two_stages_by_hand(toy: str) -> None:
    """Of 8 samples in 4 micro-batches over two stages, the second takes 7 ms and 2 ms to send back
    2 MB over 1 GB/s: 5 turns of 9 ms, and 0.5 ms to update."""
    shape = toy_shape(toy)
    assert shape.turn_s == pytest.approx(0.009)
    assert together_s([shape], 8, Distance.FAR) == pytest.approx(0.0455)


def test_a_nearer_stage_sends_faster_by_hand(toy: str) -> None:
    """Within a domain the same 2 MB go over 2 GB/s, so a turn takes 8 ms."""
    shape = toy_shape(toy, Distance.DOMAIN)
    assert together_s([shape], 8, Distance.FAR) == pytest.approx(5 * 0.008 + 0.0005)


def test_two_replicas_exchange_gradients_by_hand(toy: str) -> None:
    """Each has 2 micro-batches, 3 turns of 9 ms; 4 MB of gradients go twice over the link between
    the replicas, 8 ms in a rack and 16 ms far apart; 0.5 ms to update."""
    both = [toy_shape(toy)] * 2
    assert together_s(both, 8, Distance.RACK) == pytest.approx(0.027 + 0.008 + 0.0005)
    assert together_s(both, 8, Distance.FAR) == pytest.approx(0.027 + 0.016 + 0.0005)


def test_a_faster_replica_has_a_greater_share_by_hand(toy: str) -> None:
    """Beside a pipeline of 9 ms turns one of 4.5 ms: after 24.5 ms for gradients, update and
    filling the one, 20 ms for the other, both end when 8 samples are done together."""
    slow = toy_shape(toy)
    fast = slow._replace(turn_s=0.0045)
    # 2 (t - 25.5 ms) / 9 ms + 2 (t - 21 ms) / 4.5 ms = 8 samples
    expected = (8 + 2 / 0.009 * 0.0255 + 2 / 0.0045 * 0.021) / (2 / 0.009 + 2 / 0.0045)
    assert together_s([slow, fast], 8, Distance.FAR) == pytest.approx(expected)


def test_every_replica_runs_at_least_one_micro_batch(toy: str) -> None:
    """With 2 samples for 4 replicas none is done before its first micro-batch is: two turns."""
    four = [toy_shape(toy)] * 4
    assert together_s(four, 2, Distance.RACK) == pytest.approx(0.018 + 0.008 + 0.0005)


def test_what_does_not_fit_in_memory_is_no_shape() -> None:
    """GPT-Neo-2.7 alone on an A100 with 40 GB does not fit; with two of them it does."""
    assert min(shape.gpus for shape in shapes("GPT-Neo-2.7", A100_40)) == 2


def test_earlier_stages_keep_more_micro_batches_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each layer keeps 1 GB of a sample, and a micro-batch has two. Of two stages the first has two
    under way, 4 GB, and the second one: what is large must not come first."""
    kept = 1_000_000_000

    def fits_in(first: int, last: int, room: int) -> bool:
        sizes = ModelBytes(
            LayerBytes(0, 0, first * kept), LayerBytes(0, 0, 0), LayerBytes(0, 0, last * kept)
        )
        monkeypatch.setitem(MODELS, "toy", Model("toy", 0, 8, {1: sizes}))
        gpu = SLOW_LINKS._replace(memory_bytes=RUNTIME_BYTES + room * kept)
        return shape_of("toy", gpu, TOY_ROW, Distance.RACK, (1, 1)) is not None

    assert [fits_in(1, 1, room) for room in (3, 4)] == [False, True]
    assert [fits_in(1, 2, room) for room in (3, 4)] == [False, True]
    assert [fits_in(2, 1, room) for room in (7, 8)] == [False, True]


# Distances ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "levels", "expected"),
    [
        ("h/z/r/n/h0/g0", "h/z/r/n/h0/g1", DEFAULT_LEVELS, Distance.HOST),
        ("h/z/r/n/h0/g0", "h/z/r/n/h1/g0", DEFAULT_LEVELS, Distance.DOMAIN),
        ("h/z/r/n0/h0/g0", "h/z/r/n1/h0/g0", DEFAULT_LEVELS, Distance.RACK),
        ("h/z/r0/n0/h0/g0", "h/z/r1/n0/h0/g0", DEFAULT_LEVELS, Distance.FAR),
        ("h/z/r/n/h0/g0", "a/z/r/n/h0/g0", DEFAULT_LEVELS, Distance.FAR),
        ("h/r/h0/g0", "h/r/h0/g1", ("rack", "host"), Distance.HOST),
        ("h/r/h0/g0", "h/r/h1/g0", ("rack", "host"), Distance.RACK),
        ("h/h0/g0", "h/h1/g0", ("host",), Distance.FAR),
        ("h/g0", "h/g1", (), Distance.FAR),
    ],
)
def test_distance_is_that_of_the_deepest_level_shared(
    one: str, other: str, levels: tuple[str, ...], expected: Distance
) -> None:
    """Two GPUs are as far apart as the deepest level that they share says."""
    assert distance(one, other, levels) == expected
    assert distance(other, one, levels) == expected


def test_a_scope_leaves_open_what_is_below_it() -> None:
    """A GPU under a rack is in no known domain, one under a root in no known rack."""
    assert spot_of("h/z/r/n/h/g").domain == "h/z/r/n"
    assert spot_of("h/z/r").rack == "h/z/r"
    assert spot_of("h/z/r").domain is None
    assert spot_of("h").rack is None
    assert spot_of("h/h0/g0", ("host",)).rack == "h/h0"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"model": "GPT-9"}, "OPT-350"),
        ({"gpus": (("h100", "H1000"),)}, "A100-80"),
        ({"gpus": ()}, "at least one"),
        ({"gpus": (("h", "H100"), ("h", "H100"))}, "twice"),
        ({"global_batch": 0}, "at least 1"),
        ({"levels": ("host", "rack")}, "root down"),
    ],
)
def test_a_setup_that_makes_no_sense_is_refused(wrong: dict[str, object], words: str) -> None:
    """The refusal says what would do."""
    with pytest.raises(TrainingError, match=words):
        Setup(**wrong)  # type: ignore[arg-type]


# The layer split ---------------------------------------------------------------------------------


@given(
    st.lists(st.integers(1, 20), min_size=1, max_size=8),
    st.integers(1, 4),
    st.integers(5, 80),
    st.integers(0, 5),
)
def test_the_split_is_the_best_of_all(
    seconds: list[int], stages: int, room: int, send: int
) -> None:
    """No other split has a faster slowest stage, where earlier stages have less memory."""

    def cost(stage: int, first: int, end: int) -> float | None:
        total = sum(seconds[first:end])
        if total * (stages - stage) > room:
            return None
        return total + (send if stage else 0) + (send if stage < stages - 1 else 0)

    best = None
    for cuts in combinations(range(1, len(seconds)), stages - 1):
        edges = (0, *cuts, len(seconds))
        costs = [cost(stage, edges[stage], edges[stage + 1]) for stage in range(stages)]
        fitting = [one for one in costs if one is not None]
        if len(fitting) == stages:
            best = max(fitting) if best is None else min(best, max(fitting))
    split = best_split(len(seconds), stages, cost)
    assert (split is None) == (best is None)
    if split is not None:
        assert len(split) == stages
        assert sum(split) == len(seconds)
        edges = tuple(sum(split[:stage]) for stage in range(stages + 1))
        found = [cost(stage, edges[stage], edges[stage + 1]) for stage in range(stages)]
        assert max(one for one in found if one is not None) == best


# The planner against brute force -----------------------------------------------------------------


def fits(shape: Shape, gpus: tuple[str, ...]) -> bool:
    """These GPUs, all of them, can be parted into replicas of this shape."""
    spots = [spot_of(gpu) for gpu in gpus]
    domains = {spot.domain: 0 for spot in spots}
    groups = {spot.rack: 0 for spot in spots}
    for spot in spots:
        domains[spot.domain] += 1
    if shape.stages == 1 or shape.span == Distance.DOMAIN:
        return all(count % shape.gpus == 0 for count in domains.values())
    for domain, rack in {(spot.domain, spot.rack) for spot in spots}:
        count, rest = divmod(domains[domain], shape.tensor_parallel)
        if rest:
            return False
        groups[rack] += count
    return all(count % shape.stages == 0 for count in groups.values())


class Team(NamedTuple):
    """Replicas of one shape."""

    shape: Shape
    replicas: int


def iteration_s(teams: list[Team], batch: int, span: Distance) -> float:
    """All replicas begin together and end together; none runs less than one micro-batch."""
    alone = sum(team.replicas for team in teams) == 1
    link = None if alone else min(team.shape.gpu.link_bytes_per_s(span) for team in teams)
    least_s = max(team.shape.overhead_s(link) + team.shape.turn_s for team in teams)
    speeds = [team.replicas * team.shape.samples_per_s for team in teams]
    behind = sum(
        speed * team.shape.overhead_s(link) for speed, team in zip(speeds, teams, strict=True)
    )
    return max(least_s, (batch + behind) / sum(speeds))


def teams_of(setup: Setup, kind: str, groups: list[GpuGroup]) -> list[tuple[Team, float, Distance]]:
    """All teams of one kind, each with its least cost for a span."""
    best: dict[tuple[Team, Distance], float] = {}
    for size in range(1, len(groups) + 1):
        for chosen in combinations(groups, size):
            places = tuple(group.place for group in chosen)
            span = max(
                (distance(one, other) for one, other in combinations(places, 2)),
                default=Distance.HOST,
            )
            for shape in shapes(setup.model, setup.gpu(kind)):
                if size % shape.gpus == 0 and fits(shape, places):
                    key = (Team(shape, size // shape.gpus), span)
                    cost = sum(group.cost for group in chosen)
                    best[key] = min(cost, best.get(key, cost))
    return [(team, cost, span) for (team, span), cost in best.items()]


def useful(pace: float, needed: float | None) -> float:
    return pace if needed is None else useful_pace(pace, needed)


def by_force(
    setup: Setup, groups: list[GpuGroup], value: float | None, needed: float | None
) -> float:
    """The score of the best of all configurations."""
    kinds = [
        teams_of(setup, kind, [group for group in groups if group.kind == kind])
        for kind in setup.kinds
    ]
    reference = planner_of(setup).reference_samples_per_s

    def score(teams: list[Team], cost: float, span: Distance) -> float:
        samples_per_s = setup.batch / iteration_s(teams, setup.batch, span)
        if value is None:
            return samples_per_s
        return value * useful(samples_per_s / reference, needed) - cost

    scores = [0.0]
    scores += [score([team], cost, span) for teams in kinds for team, cost, span in teams]
    cheapest = [
        {team: min(cost for same, cost, _ in teams if same == team) for team, _, _ in teams}
        for teams in kinds
    ]
    for (one, cost), (other, more) in product(cheapest[0].items(), cheapest[1].items()):
        scores.append(score([one, other], cost + more, Distance.FAR))
    return max(scores)


def places(kind: str, most: int) -> st.SearchStrategy[list[GpuGroup]]:
    """GPUs of one kind, in few racks and domains, so that some are near to each other."""
    place = st.builds(
        lambda rack, domain, gpu: f"{kind}/z/r{rack}/n{domain}/h/g{gpu}",
        st.integers(0, 1),
        st.integers(0, 1),
        st.integers(0, 4),
    )
    return st.lists(
        st.builds(GpuGroup, place, st.just(1), st.sampled_from([0.25, 0.5, 1.0, 3.0])),
        max_size=most,
        unique_by=lambda group: group.place,
    )


SETUPS = st.sampled_from(
    [
        Setup(model=model, gpus=(("h", "H100"), ("a", second)), global_batch=batch)
        for model in MODELS
        for second in ("A100-80", "A100-40")
        for batch in (4, 64)
    ]
)


@settings(max_examples=40)
@given(
    SETUPS,
    places("h", 5),
    places("a", 3),
    st.sampled_from([None, 0.4, 1.5, 8.0]),
    st.sampled_from([None, 1.0, 2.5]),
)
def test_no_other_configuration_is_better(
    setup: Setup,
    near: list[GpuGroup],
    more: list[GpuGroup],
    value: float | None,
    needed: float | None,
) -> None:
    """The plan has the score of the best of all configurations, and its parts agree with it."""
    groups = [*near, *more]
    found = plan(setup, groups, value_per_unit=value, needed_pace=needed)
    assert found.score == pytest.approx(by_force(setup, groups, value, needed), rel=1e-6, abs=1e-9)
    costs = {group.place: group.cost for group in groups}
    assert sum(use.count for use in found.uses) == len({use.place for use in found.uses})
    assert found.cost == pytest.approx(sum(costs[use.place] for use in found.uses))
    if found.replicas and value is not None:
        worth = value * useful(found.pace, needed) - found.cost
        assert worth == pytest.approx(found.score)


@pytest.mark.parametrize(("gpu", "batch", "count"), [("A100-40", 3, 3), ("A100-80", 4, 2)])
def test_no_other_configuration_is_better_for_a_tiny_batch(
    gpu: str, batch: int, count: int
) -> None:
    """Where a replica has one micro-batch, how long that takes at least decides."""
    setup = Setup("OPT-350", (("a", gpu), ("h", "H100")), global_batch=batch)
    groups = [GpuGroup(f"a/z/r/n/h/g{index}") for index in range(count)]
    assert plan(setup, groups).score == pytest.approx(by_force(setup, groups, None, None))


@settings(max_examples=60)
@given(SETUPS, places("h", 12), places("a", 12), st.integers(0, 23))
def test_more_nodes_never_hurt(
    setup: Setup, near: list[GpuGroup], more: list[GpuGroup], left_out: int
) -> None:
    """Without one of the nodes the best plan is no faster."""
    groups = [*near, *more]
    fewer = groups[:left_out] + groups[left_out + 1 :]
    assert plan(setup, fewer).samples_per_s <= plan(setup, groups).samples_per_s * (1 + 1e-9)


@settings(max_examples=30)
@given(SETUPS, places("h", 12), places("a", 12))
def test_pace_depends_on_where_nodes_are_and_not_on_their_names(
    setup: Setup, near: list[GpuGroup], more: list[GpuGroup]
) -> None:
    """With places named otherwise and offered in another order, the pace is the same."""
    groups = [*near, *more]
    renamed = [
        GpuGroup(group.place.replace("/r0/", "/x/").replace("/n0/", "/y/"), 1, group.cost)
        for group in reversed(groups)
    ]
    assert plan(setup, renamed).pace == pytest.approx(plan(setup, groups).pace, rel=1e-9)


# What the planner prefers ------------------------------------------------------------------------

SMALL_BATCH = Setup(global_batch=64)


def spread(count: int, racks: int) -> list[GpuGroup]:
    return [GpuGroup(f"h100/z/r{index % racks}/n0/h0/g{index}") for index in range(count)]


def test_near_beats_far() -> None:
    """8 GPUs in one domain are faster than 8 on hosts of one rack, and these than 8 in 8 racks."""
    domain = plan(SMALL_BATCH, spread(8, 1)).samples_per_s
    rack = plan(
        SMALL_BATCH, [GpuGroup(f"h100/z/r/n{index}/h/g") for index in range(8)]
    ).samples_per_s
    far = plan(SMALL_BATCH, spread(8, 8)).samples_per_s
    assert domain > rack > far
    assert domain > 1.5 * far


def test_nodes_of_an_unknown_place_count_as_far() -> None:
    """A number of GPUs under a root is as good as the same number in racks of their own."""
    unknown = plan(SMALL_BATCH, [GpuGroup("h100", 8)])
    assert unknown.samples_per_s == plan(SMALL_BATCH, spread(8, 8)).samples_per_s
    assert unknown.uses == (Use("h100", "h100", 8),)


def test_no_more_is_used_than_helps() -> None:
    """For a batch of one sample one replica is all that can work; the other hosts stay unused."""
    found = plan(Setup(global_batch=1), spread(32, 4))
    assert len(found.replicas) == 1
    assert len(found.uses) < 32


def test_where_one_micro_batch_is_all_no_replica_is_idle() -> None:
    """A batch of 6 keeps 6 replicas busy. With 7 GPUs in a rack a seventh would make nothing
    faster, and is left out."""
    setup = Setup("OPT-350", (("a", "A100-80"),), global_batch=6)
    domains = (0, 0, 0, 1, 1, 1, 2)
    seven = [GpuGroup(f"a/z/r/n{domain}/h/g{index}") for index, domain in enumerate(domains)]
    found = plan(setup, seven)
    assert len(found.replicas) == len(found.uses) == 6
    assert found.iteration_s == plan(setup, seven[:6]).iteration_s


def test_of_equals_the_first_offered_is_used() -> None:
    """Where one GPU is worth its cost and no second, it is the first of the cheapest."""
    groups = [
        GpuGroup(f"h100/z/r0/n0/h{index}", 1, cost) for index, cost in enumerate((2, 1, 1, 1))
    ]
    found = plan(SMALL_BATCH, groups, value_per_unit=5.0, needed_pace=0.9)
    assert found.uses == (Use("h100/z/r0/n0/h1", "h100", 1),)


def test_what_is_not_worth_its_cost_is_not_used() -> None:
    """At a cost above the value of all that a GPU can do nothing is used at all."""
    assert plan(SMALL_BATCH, [GpuGroup("h100", 8, 1.01)], value_per_unit=1.0) == TrainingPlan()


def test_other_trees_are_of_no_use() -> None:
    """GPUs in a tree that the setup does not name are left alone."""
    assert plan(SMALL_BATCH, [GpuGroup("tpu/z/r/n/h", 8)]) == TrainingPlan()


def test_pipelines_take_what_does_not_fit_on_one() -> None:
    """GPT-Neo-2.7 on two A100 with 40 GB runs as one replica on both, layers or tensors split."""
    setup = Setup(model="GPT-Neo-2.7", gpus=(("a", "A100-40"),))
    assert plan(setup, [GpuGroup("a/z/r/n/h", 1)]) == TrainingPlan()
    found = plan(setup, [GpuGroup("a/z/r/n/h", 2)])
    assert len(found.replicas) == 1
    assert found.uses == (Use("a/z/r/n/h", "a", 2),)
    assert found.pace == pytest.approx(2.0)


def test_candidates_leave_out_what_others_do_better() -> None:
    """Of all shapes only a part is searched."""
    left = candidates("OPT-350", H100, H100.rack_bytes_per_s, 256)
    assert 0 < len(left) < len(shapes("OPT-350", H100)) / 2


def test_256_gpus_of_two_kinds_in_four_racks() -> None:
    """A large stock with costs is planned; nothing is used twice, all within what is offered."""
    groups = [
        GpuGroup(f"{kind}/z/r{rack}/n{host}/h0", 8, cost + 0.1 * rack)
        for kind, cost in (("h100", 4.0), ("a100", 2.0))
        for rack in range(4)
        for host in range(4)
    ]
    found = plan(Setup(), groups, value_per_unit=20.0, needed_pace=60.0)
    assert found.pace >= 60.0
    assert all(use.count <= 8 for use in found.uses)
    assert found.score >= max(
        plan(
            Setup(),
            [one for one in groups if one.kind == kind],
            value_per_unit=20.0,
            needed_pace=60,
        ).score
        for kind in ("h100", "a100")
    )
