"""What holds of every application of the house, whatever it does (laissez.performance.application).

Each is made in a few ways and told random stories: nodes of two kinds, near to each other and far,
come and go, time passes in small and in large steps. After every event it is asked everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laissez.performance.application import NO_WORTH, Application, BadApplication
from laissez.performance.batch import BatchJob, Work
from laissez.performance.inference import (
    Hardware,
    InferenceService,
    InferenceSpec,
    Load,
    LoadTrace,
    preset,
)
from laissez.performance.rigid import RigidJob, RigidSpec
from laissez.performance.standing import Standing
from laissez.performance.training import Setup, TrainingJob, TrainingSpec

S = 1_000_000
HOUR = 3_600 * S
TINY = 1e-9
POOL = [
    f"{kind}/z/r{rack}/n{domain}/h0/g{gpu}"
    for kind in ("h100", "a100")
    for rack, domain, gpu in ((0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0), (1, 0, 0), (1, 0, 1))
]
SCOPES = ["h100", "a100", "h100/z/r0", "h100/z/r0/n0", "a100/z/r1/n0/h0", "tpu", "tpu/z"]

Make = Callable[[], Application]


def standing(wanted: int) -> Application:
    return Standing(("h100", "a100"), wanted)


def batch(hours: float, due_hours: float, cold_s: float, every_s: float, most: int) -> Application:
    return BatchJob(
        Work(hours, {"a100": 1.0, "h100": 1.9}),
        deadline_us=round(due_hours * HOUR),
        cold_start_s=cold_s,
        checkpoint_every_s=every_s,
        nodes_max=most,
    )


def rigid(hours: float, count: int, within: int, due_us: int | None, cold_s: float) -> Application:
    work = Work(hours, {"a100": 1.0, "h100": 1.9})
    return RigidJob(RigidSpec(work, count, within, due_us, cold_s, 100.0))


def training(model: str, batch: int | None, samples: int, due_us: int | None) -> Application:
    setup = Setup(model, global_batch=batch)
    return TrainingJob(
        TrainingSpec(
            samples, setup, due_us, nodes_max=8, checkpoint_every_s=200.0, reconfigure_s=90.0
        )
    )


def inference(is_traced: bool) -> Application:
    spec = InferenceSpec(
        model="Llama-3.1-8B",
        kinds={"h100": Hardware("h100_sxm"), "a100": Hardware("a100_sxm")},
        objective=preset("planner-default"),
        expected=Load(60.0, 1_000.0, 200.0),
    )
    rates = (20.0, 90.0, 5.0, 60.0)
    steps = tuple((60 * S * at, rates[at % 4], 1_000.0, 200.0) for at in range(60))
    return InferenceService(spec, LoadTrace(steps) if is_traced else None)


MAKES: dict[str, Make] = {
    "standing": partial(standing, 3),
    "standing for nothing": partial(standing, 0),
    "batch": partial(batch, 1.0, 1.0, 60.0, 600.0, 2),
    "batch on one node": partial(batch, 0.5, 3.0, 480.0, 100.0, 1),
    "batch without checkpoints": partial(batch, 0.3, 0.2, 0.0, 1e6, 4),
    "rigid": partial(rigid, 0.5, 2, 4, HOUR, 60.0),
    "rigid anywhere": partial(rigid, 0.2, 3, 1, None, 0.0),
    "rigid on one node": partial(rigid, 0.1, 1, 6, HOUR // 2, 30.0),
    "training": partial(training, "OPT-350", None, 60_000, None),
    "training in small batches": partial(training, "OPT-350", 32, 100_000, HOUR),
    "training of a large model": partial(training, "GPT-Neo-2.7", 64, 30_000, 2 * HOUR),
    "inference": partial(inference, False),
    "inference by a trace": partial(inference, True),
}
every_application = pytest.mark.parametrize("make", MAKES.values(), ids=MAKES.keys())

# what happens, to which node, after how many seconds
STORIES = st.lists(
    st.tuples(
        st.sampled_from(["gain", "gain", "gain", "lose", "wait", "vacate", "stay"]),
        st.integers(0, len(POOL) - 1),
        st.sampled_from([0, 1, 7, 61, 333]),
    ),
    max_size=14,
)
Story = list[tuple[str, int, int]]


def live(application: Application, story: Story) -> Iterator[int]:
    """Tell a story event by event; after each the instant of it."""
    now_us = 0
    application.advance(now_us)
    for what, number, wait_s in story:
        now_us += wait_s * S
        if what == "gain":
            application.gain(POOL[number], now_us)
        elif what == "lose":
            application.lose(POOL[number], now_us)
        elif what == "vacate":
            application.vacate(POOL[number], now_us)
        elif what == "stay":
            application.stay(POOL[number], now_us)
        else:
            application.advance(now_us)
        yield now_us


def copy_of(application: Application, make: Make) -> Application:
    copy = make()
    copy.resume(application.state())
    return copy


def answers(application: Application) -> list[object]:
    nodes = application.nodes
    told: list[object] = [application.kinds, nodes, application.is_done, application.utility_gap()]
    for kind in ("h100", "a100", "tpu"):
        told.append(application.missing(kind))
    for scope in SCOPES:
        coming: tuple[str, ...]
        for coming in ((), (scope,), ("h100", "tpu", "a100")):
            told.append(application.worth_of_gaining(scope, coming))
        told.append(application.cold_start_s(scope))
        told.append(application.ends_in_s(scope))
    for node in (*nodes, "h100/z/r9/n9/h9/g9"):
        for gone in ((), nodes[:2], ("h100/z/r8/n8/h8/g8",)):
            told.append(application.worth_of_losing(node, gone))
        told.append(application.is_redundant(node))
        told.append(application.cold_start_s(node))
        told.append(application.since_checkpoint_s(node))
        told.append(application.till_checkpoint_s(node))
        told.append(application.at_stake(node))
        told.append(application.ends_in_s(node))
        told.append(application.vacate_s(node))
        told.append(node in application.vacating)
    return told


def drop_redundant(application: Application, now_us: int) -> None:
    while redundant := [node for node in application.nodes if application.is_redundant(node)]:
        for node in redundant:
            application.lose(node, now_us)


@every_application
@settings(max_examples=18)
@given(story=STORIES)
def test_questions_change_nothing_and_memory_is_whole(make: Make, story: Story) -> None:
    """Asked twice an application answers the same and is as it was; one that goes on from its
    memory answers the same, too, and lives the same future."""
    application = make()
    for now_us in live(application, story):
        before = application.state()
        told = answers(application)
        assert answers(application) == told
        assert application.state() == before
        heir = copy_of(application, make)
        assert heir.state() == before
        assert answers(heir) == told
        heir.advance(now_us + 500 * S)
        whole = copy_of(application, make)
        whole.advance(now_us + 500 * S)
        assert answers(heir) == answers(whole)
        application = copy_of(application, make)


@every_application
@settings(max_examples=18)
@given(story=STORIES)
def test_what_it_has_already_and_what_it_has_not_change_nothing(make: Make, story: Story) -> None:
    """To gain a node twice, to lose one that is not there, and to gain one of an unknown kind leave
    an application as it was."""
    application = make()
    for now_us in live(application, story):
        before = application.state()
        for node in application.nodes:
            application.gain(node, now_us)
        application.lose("h100/z/r9/n9/h9/g9", now_us)
        application.gain("tpu/z/r0/n0/h0/g0", now_us)
        application.lose("tpu/z/r0/n0/h0/g0", now_us)
        application.vacate("tpu/z/r0/n0/h0/g0", now_us)
        application.stay("tpu/z/r0/n0/h0/g0", now_us)
        assert application.state() == before


@every_application
@settings(max_examples=18)
@given(story=STORIES)
def test_time_does_not_go_back(make: Make, story: Story) -> None:
    """What is told of an earlier instant happens now: advanced to the past an application is as it
    was, and a node that it gains there is one gained now."""
    application = make()
    for now_us in live(application, story):
        before = application.state()
        application.advance(now_us - 100 * S)
        assert application.state() == before
        late, now = copy_of(application, make), copy_of(application, make)
        late.gain("a100/z/r5/n5/h0/g0", now_us - 100 * S)
        now.gain("a100/z/r5/n5/h0/g0", now_us)
        assert late.state() == now.state()


@every_application
@settings(max_examples=18)
@given(story=STORIES)
def test_what_is_worth_buying_is_worth_keeping(make: Make, story: Story) -> None:
    """Once it has nothing redundant, a node that is worth something is not redundant as soon as it
    is there, and is worth something still: nobody buys what he gives back."""
    application = make()
    for now_us in live(application, story):
        drop_redundant(application, now_us)
        for node in POOL:
            if node in application.nodes or application.worth_of_gaining(node).full <= TINY:
                continue
            owner = copy_of(application, make)
            owner.gain(node, now_us)
            assert not owner.is_redundant(node)
            assert owner.worth_of_losing(node).full > 0.0


@every_application
@pytest.mark.parametrize("free", [POOL[:1] + POOL[6:7], POOL[:4] + POOL[6:7], POOL])
def test_nobody_buys_the_same_again_and_again(make: Make, free: list[str]) -> None:
    """Whoever takes every free node that is worth something, and gives back what is redundant, buys
    in an hour hardly more often than there are nodes."""
    application, bought = make(), 0
    for now_us in range(0, HOUR, 10 * S):
        application.advance(now_us)
        drop_redundant(application, now_us)
        for node in free:
            if node not in application.nodes and application.worth_of_gaining(node).full > TINY:
                application.gain(node, now_us)
                bought += 1
    assert bought <= len(free) + 5


@every_application
@settings(max_examples=18)
@given(story=STORIES)
def test_it_does_without_all_that_is_redundant(make: Make, story: Story) -> None:
    """Nothing is missed with redundant nodes, neither one by one, the last come first, nor if all
    of them go."""
    application = make()
    for now_us in live(application, story):
        redundant = [node for node in application.nodes if application.is_redundant(node)]
        for number, node in enumerate(redundant):
            assert application.worth_of_losing(node, redundant[number + 1 :]) == NO_WORTH
        lean = copy_of(application, make)
        for node in redundant:
            lean.lose(node, now_us)
        assert lean.utility_gap() <= application.utility_gap() + TINY
        assert lean.is_done == application.is_done
        for node in lean.nodes:
            if not lean.is_redundant(node):
                worth = application.worth_of_losing(node, redundant)
                assert tuple(lean.worth_of_losing(node)) == pytest.approx(tuple(worth))


@every_application
@settings(max_examples=18)
@given(story=STORIES)
def test_worth_is_between_nothing_and_all(make: Make, story: Story) -> None:
    """What is needed of a node's work is no more than all of it and no less than none; what is not
    its own, or of a kind that it can't use, is worth nothing, missing or not."""
    application = make()
    for _ in live(application, story):
        worths = [application.worth_of_gaining(scope) for scope in SCOPES]
        worths += [application.worth_of_losing(node) for node in application.nodes]
        assert all(0.0 <= worth.now <= worth.full + TINY for worth in worths)
        assert application.worth_of_gaining("tpu/z") == NO_WORTH
        assert application.worth_of_losing("h100/z/r9/n9/h9/g9") == NO_WORTH
        assert application.missing("tpu") == 0
        assert application.utility_gap() >= 0.0
        if application.is_done:
            assert {*worths} == {NO_WORTH}
            assert application.missing("h100") == 0


@every_application
@settings(max_examples=18)
@given(story=STORIES)
def test_what_is_at_stake_and_for_how_long_is_never_below_nothing(make: Make, story: Story) -> None:
    """Nothing stands still with a node that is not its own, or when all is done."""
    application = make()
    for _ in live(application, story):
        for node in application.nodes:
            assert application.at_stake(node) >= 0.0
            assert application.at_stake(node) == 0.0 or not application.is_done
        assert application.at_stake("h100/z/r9/n9/h9/g9") == 0.0
        ends_s = [application.ends_in_s(place) for place in (*application.nodes, *SCOPES)]
        assert all(end_s is None or end_s >= 0.0 for end_s in ends_s)


@every_application
@settings(max_examples=18)
@given(story=STORIES)
def test_who_gets_ready_is_ready_by_then(make: Make, story: Story) -> None:
    """Told that it will lose a node, an application says how long it needs, and no later than that
    needs no more: what would have to be done again is what was done since it was told, at most."""
    application = make()
    for now_us in live(application, story):
        for node in application.nodes:
            leaver = copy_of(application, make)
            leaver.stay(node, now_us)
            ready_s = leaver.vacate_s(node)
            if ready_s is None:
                continue
            leaver.vacate(node, now_us)
            assert leaver.vacate_s(node) == ready_s
            leaver.advance(now_us + round(ready_s * S))
            assert leaver.vacate_s(node) == 0.0
            assert leaver.since_checkpoint_s(node) <= ready_s + max(ready_s, 60.0)


READINGS = {"done": float("nan"), "samples": float("nan"), "requests_per_s": float("nan")}


@every_application
def test_nonsense_is_refused_and_changes_nothing(make: Make) -> None:
    """A state that is none, and a report that can't be true of one that reads it, are refused with
    `BadApplication`, and the application is as it was."""
    application = make()
    application.gain(POOL[0], 0)
    before = application.state()
    for state in (b"", b"{}", b"[1]", b'{"nodes": 3}', b"\xff", b'{"\xff": 1}', b"null"):
        with pytest.raises(BadApplication):
            application.resume(state)
        assert application.state() == before
    if not isinstance(application, Standing):
        with pytest.raises(BadApplication):
            application.measure(READINGS, 100 * S)
    assert application.state() == before
