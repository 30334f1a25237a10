"""The clairvoyant: as good as trying everything, and never beaten."""

from collections.abc import Iterator, Mapping
from itertools import pairwise, product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from laissez.model.paths import tree_of
from laissez.performance.inference import (
    PRESETS,
    InferenceSpec,
    Load,
    LoadTrace,
    Objective,
    preset,
    profile,
)
from laissez.performance.inference.capacity import Pool, node_rates
from laissez.performance.inference.delivery import quality
from laissez.performance.training import MODELS, GpuGroup, Setup, TrainingSpec, planner_of
from laissez.simulation.contracts import clairvoyant
from laissez.simulation.contracts.clairvoyant import Sizes, bound, samples_per_s, training_curve
from laissez.simulation.contracts.registry import CONTRACTS
from laissez.simulation.contracts.setting import Setting
from laissez.simulation.demand.population import GPUS, HARDWARE, SERVED, SPEEDS
from laissez.simulation.demand.projects import Batch, Project, Rigid, Serving, Training
from laissez.simulation.scenarios.regimes import alone, prices

SLOT_US = 60_000_000
KINDS = ("h100", "a100")
OBJECTIVES = ("sizing-guide", "real-time-chat")
"""With the second, A100s can't decode in time, only prefill."""
LOAD = Load(1.0, 1_000.0, 150.0)
LOADS = st.builds(Load, st.floats(0, 500), st.floats(1, 8_000), st.floats(1, 1_000))
Counts = tuple[int, int]


def nodes(h100: int, a100: int) -> tuple[str, ...]:
    """All of a kind in one scale-up domain."""
    counts = {"h100": h100, "a100": a100}
    return tuple(f"{kind}/z0/r0/n0/h0/g{at}" for kind in KINDS for at in range(counts[kind]))


def setting_of(resources: tuple[str, ...], minutes: float, *projects: Project) -> Setting:
    return Setting(resources, prices(), projects, {}, round(minutes * SLOT_US))


def at(minutes: float) -> int:
    return round(minutes * SLOT_US)


def batch(name: str, arrives: float, ends: float, work: float, cold: float) -> Project:
    """In minutes."""
    labour = Batch(work / 60, SPEEDS, at(ends), 60 * cold, 60.0)
    return Project(name, at(arrives), at(ends), labour)


def training(
    name: str, arrives: float, ends: float, samples: int, start: float, model: str = "OPT-350"
) -> Project:
    spec = TrainingSpec(samples, Setup(model, GPUS), at(ends), 16, 120.0, 60 * start)
    return Project(name, at(arrives), at(ends), Training(spec))


def pool(load: Load, model: str, objective: Objective) -> Pool:
    return Pool([node_rates(profile(model, HARDWARE[kind].gpu), load, objective) for kind in KINDS])


def serving(
    name: str,
    arrives: float,
    ends: float,
    loads: list[Load],
    cold: float,
    step: float = 1,
    objective: str = OBJECTIVES[0],
) -> Project:
    """`loads` one after the other, from 0 on, each for a step."""
    steps = ((at(n * step), *_figures(load)) for n, load in enumerate(loads))
    spec = InferenceSpec(
        model=SERVED[0],
        kinds=HARDWARE,
        objective=preset(objective),
        expected=loads[0],
        cold_start_s=60 * cold,
    )
    return Project(name, at(arrives), at(ends), Serving(spec, LoadTrace(tuple(steps), at(ends))))


def _figures(load: Load) -> tuple[float, float, float]:
    return load.requests_per_s, load.prompt_tokens, load.output_tokens


def one_node_serves(load: Load = LOAD) -> float:
    return pool(load, SERVED[0], preset(OBJECTIVES[0])).capacity_per_s((1, 0))


# By hand --------------------------------------------------------------------------------------


def test_two_jobs_on_one_node() -> None:
    """Two jobs that need all their time on an H100 share it, from the end of their start-up on; an
    A100 beside it adds half as much again, and another H100 is enough for both."""
    jobs = [batch(name, 0, 15, 14, 1) for name in ("one", "two")]
    full = {"one": 1.0, "two": 1.0}
    assert bound(setting_of(nodes(1, 0), 20, *jobs), full).mean == pytest.approx(0.5, abs=1e-5)
    both = (1 + SPEEDS["a100"]) / 2
    assert bound(setting_of(nodes(1, 1), 20, *jobs), full).mean == pytest.approx(both, abs=1e-5)
    assert bound(setting_of(nodes(2, 0), 20, *jobs), full).retention == full


def test_weights_say_who_counts_more() -> None:
    """Of two jobs for one node the one that counts twice gets it; ten times all weights change
    nothing. The mean is the plain one."""
    jobs = [batch(name, 0, 15, 14, 1) for name in ("one", "two")]
    setting, full = setting_of(nodes(1, 0), 20, *jobs), {"one": 1.0, "two": 1.0}
    for weights in ({"one": 1.0, "two": 2.0}, {"one": 10.0, "two": 20.0}):
        found = bound(setting, full, weights=weights)
        assert found.retention == pytest.approx({"one": 0.0, "two": 1.0}, abs=1e-5)
        assert found.mean == pytest.approx(0.5, abs=1e-5)


def test_the_run_ends_first() -> None:
    """What would be done after the end of the run is not counted."""
    job = batch("one", 0.5, 15.5, 14, 1)
    found = bound(setting_of(nodes(1, 0), 8.5, job), {"one": 1.0})
    assert found.mean == pytest.approx(0.5, abs=1e-5)


def test_a_job_on_one_node_at_a_time() -> None:
    """A batch job gets nothing out of a second node, only out of a faster one."""
    job = batch("one", 0, 10, 20, 0)
    for counts, done in (((1, 0), 0.5), ((5, 5), 0.5), ((0, 5), 0.5 * SPEEDS["a100"])):
        found = bound(setting_of(nodes(*counts), 10, job), {"one": 1.0})
        assert found.mean == pytest.approx(done, abs=1e-5)


def test_a_service_with_half_its_nodes() -> None:
    """A service that is asked for what two nodes do serves half with one, and nothing in its first
    cold start."""
    rate = 2 * one_node_serves()
    service = serving("s", 0.25, 10.25, [Load(rate, 1_000.0, 150.0)], cold=2.5)
    requests = rate * 10 * 60
    found = bound(setting_of(nodes(1, 0), 12, service), {"s": requests})
    assert found.mean == pytest.approx(0.5 * 0.75, abs=1e-5)
    found = bound(setting_of(nodes(2, 0), 12, service), {"s": requests})
    assert found.mean == pytest.approx(0.75, abs=1e-5)


def test_nothing_is_asked_after_the_trace() -> None:
    """A service that outlives its trace serves what is in the trace."""
    service = serving("s", 0, 10, [LOAD], cold=0)
    assert isinstance(service.labour, Serving)
    ended = replace(service.labour, trace=replace(service.labour.trace, end_us=at(4.5)))
    setting = setting_of(nodes(2, 0), 10, replace(service, labour=ended))
    found = bound(setting, {"s": LOAD.requests_per_s * 600})
    assert found.mean == pytest.approx(0.45, abs=1e-5)


def test_training_by_its_throughput() -> None:
    """A job trains at the planner's throughput with all there is, once it is configured."""
    setup = Setup("OPT-350", GPUS)
    per_s = planner_of(setup).plan((GpuGroup("h100/z0/r0/n0/h0", 4),)).samples_per_s
    job = training("t", 0.5, 10.5, round(per_s * 600), 2)
    found = bound(setting_of(nodes(4, 0), 20, job), {"t": 1.0})
    assert found.mean == pytest.approx(0.8, abs=1e-5)


def test_who_needs_nothing() -> None:
    """A project that does nothing alone counts as in full, takes nothing from others, and nobody
    gets more than all."""
    setting = setting_of(nodes(1, 0), 20, batch("no", 0, 1, 14, 5), batch("one", 0, 20, 7, 1))
    assert bound(setting, {"no": 0.0, "one": 0.5}).retention == {"no": 1.0, "one": 1.0}


def test_nobody_and_nothing() -> None:
    """Without projects nobody misses anything; nodes that nobody can use bring nothing."""
    assert bound(setting_of(nodes(1, 0), 20), {}).mean == 1.0
    setting = setting_of(("tpu/z0/r0/n0/h0/g0",), 5, batch("one", 0, 5, 1, 0))
    assert bound(setting, {"one": 1.0}).mean <= clairvoyant.ROUNDING


# Against trying everything --------------------------------------------------------------------


def done_by(project: Project, counts: Counts, from_us: int, to_us: int) -> float:
    """With so many nodes, in a stretch in which its load does not change; told in another way."""
    labour, span_s = project.labour, (to_us - from_us) / 1e6
    if isinstance(labour, Batch):
        speeds = [SPEEDS[kind] for kind, count in zip(KINDS, counts, strict=True) if count]
        return max(speeds, default=0.0) * span_s / (labour.hours * 3_600)
    if isinstance(labour, Training):
        planner = planner_of(labour.spec.setup)
        pace = sum(
            above([planner.pace(((kind, ((n,),)),)) if n else 0.0 for n in range(3)], count)
            for kind, count in zip(KINDS, counts, strict=True)
        )
        return pace * planner.reference_samples_per_s * span_s / labour.spec.samples
    assert isinstance(labour, Serving)
    load = Load(*labour.trace.steps[labour.trace.number_at(from_us)][1:])
    capacity = pool(load, labour.spec.model, labour.spec.objective).capacity_per_s(counts)
    return min(load.requests_per_s, capacity) * span_s


def above(paces: list[float], count: int) -> float:
    """The least concave curve: the highest chord between any two points on either side."""
    return max(
        paces[low] if low == high else paces[low] + (paces[high] - paces[low]) * share
        for low in range(count + 1)
        for high in range(count, len(paces))
        for share in [(count - low) / max(1, high - low)]
    )


def allocations(parts: list[float], totals: Counts) -> Iterator[tuple[Counts, ...]]:
    """Who has how many, if projects are there for so large a part of the slot."""
    each = list(product(range(totals[0] + 1), range(totals[1] + 1)))
    for counts in product(*(each if part else [(0, 0)] for part in parts)):
        if all(
            sum(part * have[kind] for part, have in zip(parts, counts, strict=True)) <= totals[kind]
            for kind in range(2)
        ):
            yield counts


def best_of_all(setting: Setting, alone: Mapping[str, float], totals: Counts) -> float:
    """Every whole number of nodes for everybody in every slot."""
    reachable = {(0.0,) * len(setting.projects)}
    for start_us in range(0, setting.horizon_us, SLOT_US):
        spans = []
        for project in setting.projects:
            labour = project.labour
            start_s = (
                labour.spec.cold_start_s
                if isinstance(labour, Serving | Rigid)
                else labour.spec.reconfigure_s
                if isinstance(labour, Training)
                else labour.cold_start_s
            )
            from_us = max(start_us, project.arrives_us + round(start_s * 1e6))
            spans.append((from_us, max(from_us, min(start_us + SLOT_US, project.ends_us))))
        parts = [(to_us - from_us) / SLOT_US for from_us, to_us in spans]
        gains = {
            tuple(
                done_by(project, have, *span) / alone[project.name] if part else 0.0
                for project, have, span, part in zip(
                    setting.projects, counts, spans, parts, strict=True
                )
            )
            for counts in allocations(parts, totals)
        }
        reachable = {
            tuple(map(sum, zip(before, gain, strict=True)))
            for before in reachable
            for gain in gains
        }
    return max(sum(min(1.0, each) for each in got) for got in reachable) / len(setting.projects)


def small(seed: int) -> tuple[Setting, dict[str, float], Counts]:
    """Two or three projects, two or three slots, three nodes of two kinds."""
    chance = Random(seed)
    several = chance.choice([2, 3])
    minutes = 5 - several
    totals = chance.choice([(1, 2), (2, 1)])
    projects = []
    for number in range(several):
        kind = chance.choice(["batch", "training", "serving"])
        arrives = chance.choice([0, 0.25, 0.5])
        ends = minutes - chance.choice([0, 0.25])
        start = chance.choice([0.1, 0.5])
        name = f"{kind}-{number}"
        if kind == "batch":
            projects.append(batch(name, arrives, ends, chance.uniform(0.5, 3), start))
        elif kind == "training":
            samples = round(chance.uniform(0.5, 3) * minutes * 60 * 11)
            projects.append(training(name, arrives, ends, samples, start))
        else:
            lengths = [(chance.uniform(200, 3_000), chance.uniform(50, 400)) for _ in range(3)]
            loads = [Load(1, *each) for each in lengths]
            rates = [chance.uniform(0.3, 3) * one_node_serves(load) for load in loads]
            loads = [Load(rate, *each) for rate, each in zip(rates, lengths, strict=True)]
            projects.append(
                serving(
                    name,
                    arrives,
                    ends,
                    loads[:minutes],
                    start,
                    objective=chance.choice(OBJECTIVES),
                )
            )
    setting = setting_of(nodes(*totals), minutes, *projects)
    most = {project.name: 1.0 for project in projects} | {
        project.name: project.labour.requests
        for project in projects
        if isinstance(project.labour, Serving)
    }
    return setting, {name: chance.uniform(0.3, 1) * each for name, each in most.items()}, totals


@pytest.mark.parametrize("seed", range(24))
def test_as_good_as_trying_everything(seed: int) -> None:
    """With whole nodes the optimum is the best of all allocations; with parts it is no worse."""
    setting, alone, totals = small(seed)
    expected = best_of_all(setting, alone, totals)
    assert bound(setting, alone, is_integer=True).mean == pytest.approx(expected, abs=1e-5)
    assert bound(setting, alone).mean >= expected


@pytest.mark.parametrize("kind", range(2))
def test_one_more_node(kind: int) -> None:
    """A node more of either kind never lowers the bound, and often raises it."""
    raised = 0
    for seed in range(12):
        setting, alone, (h100, a100) = small(seed)
        more = nodes(h100 + 1, a100) if kind == 0 else nodes(h100, a100 + 1)
        before = bound(setting, alone).mean
        after = bound(replace(setting, resources=more), alone).mean
        assert after >= before - 1e-6
        raised += after > before + 1e-3
    assert raised >= 4


@pytest.mark.parametrize("seed", range(12))
def test_longer_slots_are_kinder(seed: int) -> None:
    """Whoever may shift nodes within longer slots does no worse."""
    setting, alone, _ = small(seed)
    coarse, fine = (bound(setting, alone, slot_us=SLOT_US // parts).mean for parts in (1, 4))
    assert fine <= coarse + 1e-6


# What the bound rests on ----------------------------------------------------------------------


@given(
    LOADS,
    st.sampled_from(SERVED),
    st.sampled_from(sorted(PRESETS)),
    st.tuples(st.integers(0, 6), st.integers(0, 6)),
)
def test_no_more_than_capacity_is_in_time(
    load: Load, model: str, objective: str, counts: Counts
) -> None:
    """Of all requests no more are within their objective than the nodes have capacity for."""
    there = pool(load, model, preset(objective))
    got = quality(there, counts, load, preset(objective))
    assert got.within_share <= 1
    assert load.requests_per_s * got.within_share <= there.capacity_per_s(counts) * (1 + 1e-9)


CLUSTER = tuple(
    f"{kind}/z0/r{rack}/n{domain}/h0/g{gpu}"
    for kind in KINDS
    for rack in range(2)
    for domain in range(2)
    for gpu in range(3 + domain)
)


@settings(max_examples=60)
@given(
    st.sampled_from([7, 14, 28]).flatmap(lambda most: st.sets(st.sampled_from(CLUSTER[:most]))),
    st.sampled_from(sorted(MODELS)),
    st.sampled_from([0, 9, 64]),
)
def test_no_place_trains_faster(held: set[str], model: str, global_batch: int) -> None:
    """Wherever nodes are, in a rack, in a tree, in two, they train no faster than the sum of the
    best of each kind."""
    setup = Setup(model, GPUS, global_batch=global_batch or None)
    plan = planner_of(setup).plan(tuple(GpuGroup(node) for node in sorted(held)))
    counts = {kind: sum(tree_of(node) == kind for node in held) for kind in KINDS}
    sizes = Sizes(4, 7, 14)
    most = sum(samples_per_s(setup, kind, sizes, count) for kind, count in counts.items() if count)
    assert plan.samples_per_s <= most * (1 + 1e-9)


@pytest.mark.parametrize("model", sorted(MODELS))
def test_the_curve_lies_above(model: str) -> None:
    """The curve is concave, and no number of nodes trains faster; at its corners none slower."""
    setup, sizes = Setup(model, GPUS), Sizes(4, 7, 14)
    corners = training_curve(setup, "a100", sizes)
    slopes = [(high - low) / (more - fewer) for (fewer, low), (more, high) in pairwise(corners)]
    assert slopes == sorted(slopes, reverse=True)
    paces = [samples_per_s(setup, "a100", sizes, count) for count in range(15)]
    assert corners == [(count, paces[count]) for count, _ in corners]
    curve = [above(paces, count) for count in range(15)]
    assert [curve[count] for count, _ in corners] == pytest.approx([pace for _, pace in corners])
    assert len(corners) < 15 or curve == pytest.approx(paces)


# Against those who play -----------------------------------------------------------------------


def crowded(seed: int) -> Setting:
    """Five projects in a quarter of an hour on six nodes."""
    chance = Random(seed)
    projects = [
        batch("batch-0", chance.uniform(0, 2), 14, chance.uniform(4, 8), 1),
        batch("batch-1", chance.uniform(0, 4), 15, chance.uniform(4, 8), 0.5),
        training("training", chance.uniform(0, 2), 13, chance.randrange(5_000, 60_000), 1),
    ]
    for name in ("service-0", "service-1"):
        rates = [chance.uniform(0, 4) * one_node_serves() for _ in range(45)]
        loads = [Load(rate, chance.uniform(500, 1_500), 150.0) for rate in rates]
        projects.append(serving(name, chance.uniform(0, 3), 14, loads, cold=0.5, step=1 / 3))
    setting = setting_of(nodes(3, 3), 15, *projects)
    budgets = {project.name: chance.randrange(2_000_000, 20_000_000) for project in projects}
    return replace(setting, budgets=budgets)


@pytest.mark.parametrize("seed", range(4))
def test_nobody_beats_it(seed: int) -> None:
    """No contract has a greater mean retention; alone, too, nobody does more than it says."""
    setting = crowded(seed)
    own = {each.name: alone(each, setting, seed).performance for each in setting.projects}
    assert all(own.values())
    for project in setting.projects:
        most = project.labour.requests if isinstance(project.labour, Serving) else 1.0
        best = bound(setting.alone(project), {project.name: most})
        assert own[project.name] / most <= best.mean
    limit = bound(setting, own).mean
    assert limit < 1
    for contract in CONTRACTS.values():
        done = contract.play(setting, seed).performance
        kept = [min(1.0, done[name] / own[name]) for name in own]
        assert sum(kept) / len(kept) <= limit, contract.name
