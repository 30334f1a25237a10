"""The training job: checkpoints, losses and gains by hand, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laissez.workloads.application import US_PER_S, Application, Worth
from laissez.workloads.pace import FULL_VALUE_UP_TO, VALUE_BEYOND
from laissez.workloads.training import (
    Group,
    Setup,
    TrainingError,
    TrainingJob,
    TrainingSpec,
    plan,
)

SETUP = Setup(global_batch=256)
HOST = "h100/z/r0/n0/h0"
NODES = [f"{HOST}/g{index}" for index in range(8)]
FAR = "h100/z/r9/n9/h9/g0"
MANY = 10**9


def spec(
    samples: int = MANY, *, setup: Setup = SETUP, deadline_s: int | None = None, nodes_max: int = 64
) -> TrainingSpec:
    deadline_us = None if deadline_s is None else deadline_s * US_PER_S
    return TrainingSpec(samples=samples, setup=setup, deadline_us=deadline_us, nodes_max=nodes_max)


def job_with(count: int, work: TrainingSpec | None = None) -> TrainingJob:
    """A job that has had this many neighbours from the beginning."""
    job = TrainingJob(work or spec())
    for node in NODES[:count]:
        job.gain(node, 0)
    return job


def speed(*nodes: str) -> float:
    return plan(SETUP, [Group(node) for node in nodes]).samples_per_s


def at(seconds: float) -> int:
    return round(seconds * US_PER_S)


# Work, checkpoints, losses and gains, by hand ----------------------------------------------------


def test_it_is_an_application() -> None:
    """It has all that a contract asks of an application."""
    application: Application = TrainingJob(spec())
    assert application.kinds == ("h100", "a100")


def test_work_begins_after_the_configuration() -> None:
    """With 120 s to configure, 100 s of work are done 220 s after the first node came."""
    job = job_with(1)
    job.advance(at(120))
    assert job.samples_done == 0.0
    assert job.cold_start_s(NODES[0]) == 0.0
    job.advance(at(220))
    assert job.samples_done == pytest.approx(100 * speed(NODES[0]))
    assert job.since_checkpoint_s(NODES[0]) == 100.0
    assert job.till_checkpoint_s(NODES[0]) == 200.0


def test_a_loss_costs_the_work_since_the_checkpoint() -> None:
    """Lost at 570 s, 150 s after the checkpoint at 420 s: of 450 s of work with two nodes 300 s
    are left, and 120 s later it goes on with one."""
    job = job_with(2)
    two, one = speed(*NODES[:2]), speed(NODES[0])
    job.advance(at(570))
    assert job.samples_done == pytest.approx(450 * two)
    job.lose(NODES[1], at(570))
    assert job.samples_done == pytest.approx(300 * two)
    job.advance(at(690))
    assert job.samples_done == pytest.approx(300 * two)
    job.advance(at(700))
    assert job.samples_done == pytest.approx(300 * two + 10 * one)


def test_a_loss_right_after_a_checkpoint_costs_no_work() -> None:
    """Lost at the very checkpoint, nothing has to be done again."""
    job = job_with(2)
    job.advance(at(420))
    assert job.since_checkpoint_s(NODES[1]) == 0.0
    assert job.till_checkpoint_s(NODES[1]) == 0.0
    job.lose(NODES[1], at(420))
    assert job.samples_done == pytest.approx(300 * speed(*NODES[:2]))


def test_several_gains_cost_one_configuration_at_the_next_checkpoint() -> None:
    """Nodes gained at 200 s and 300 s are taken in at 420 s, and work from 540 s on."""
    job = job_with(1)
    one, three = speed(NODES[0]), speed(*NODES[:3])
    job.gain(NODES[1], at(200))
    job.gain(NODES[2], at(300))
    assert job.cold_start_s(NODES[1]) == 120 + 120
    assert not job.is_redundant(NODES[1])
    job.advance(at(420))
    assert job.samples_done == pytest.approx(300 * one)
    job.advance(at(540))
    assert job.samples_done == pytest.approx(300 * one)
    job.advance(at(550))
    assert job.samples_done == pytest.approx(300 * one + 10 * three)


def test_nodes_that_come_together_start_together() -> None:
    """Gained within 30 s of the first, a node is taken in at once: all work 120 s after it. One
    that comes at 31 s waits for the first checkpoint."""
    job = job_with(1)
    job.gain(NODES[1], at(30))
    job.gain(NODES[2], at(31))
    job.advance(at(160))
    assert job.samples_done == pytest.approx(10 * speed(*NODES[:2]))


def test_a_node_outside_the_crew_is_lost_for_nothing() -> None:
    """A node that still waits leaves, and the others don't notice."""
    job = job_with(1)
    job.gain(NODES[1], at(200))
    job.lose(NODES[1], at(250))
    job.advance(at(320))
    assert job.samples_done == pytest.approx(200 * speed(NODES[0]))


def test_without_nodes_nothing_runs_and_what_is_saved_stays() -> None:
    """All lost at 500 s: 300 s of work are saved; a node that comes at 900 s works from 1,020 s."""
    job = job_with(1)
    one = speed(NODES[0])
    job.lose(NODES[0], at(500))
    job.gain(NODES[1], at(900))
    job.advance(at(1_030))
    assert job.samples_done == pytest.approx(310 * one)


def test_it_is_done_when_its_samples_are() -> None:
    """After 1,000 s of work all is done: every node is redundant, and nothing is missing."""
    job = job_with(1, spec(int(1_000 * speed(NODES[0]))))
    done = []
    for seconds in (1_119, 1_121):
        job.advance(at(seconds))
        done.append(job.is_done)
    assert done == [False, True]
    assert job.is_redundant(NODES[0])
    assert job.missing("h100") == 0
    assert job.utility_gap() == 0.0
    assert job.worth_of_gaining(HOST) == job.worth_of_losing(NODES[0]) == Worth(0.0, 0.0)


def test_it_does_not_stop_for_a_gain_that_comes_too_late() -> None:
    """With 200 s of work left at a checkpoint, 120 s of configuration for twice the speed don't
    pay: the node that came is redundant and the job goes on."""
    job = job_with(1, spec(int(500 * speed(NODES[0]))))
    job.gain(NODES[1], at(400))
    assert job.is_redundant(NODES[1]) is False
    job.advance(at(421))
    assert job.samples_done == pytest.approx(301 * speed(NODES[0]))
    job.advance(at(600))
    assert job.is_redundant(NODES[1])


def test_a_node_twice_and_a_node_unknown_change_nothing() -> None:
    """Gaining what it has and losing what it has not leave it as it was."""
    job = job_with(2)
    job.advance(at(300))
    before = job.state()
    job.gain(NODES[0], at(300))
    job.lose(FAR, at(300))
    assert job.state() == before


def test_what_is_measured_counts() -> None:
    """Samples measured replace those reckoned; the last of them ends the job."""
    job = job_with(1)
    job.measure({"samples": 1_000.0}, at(200))
    assert job.samples_done == pytest.approx(1_000.0)
    job.advance(at(210))
    assert job.samples_done == pytest.approx(1_000.0 + 10 * speed(NODES[0]))
    job.measure({"samples": float(MANY)}, at(220))
    assert job.is_done


events = st.lists(
    st.tuples(st.sampled_from(["gain", "lose", "wait"]), st.integers(0, 7), st.integers(1, 400)),
    max_size=12,
)


def live(job: TrainingJob, story: list[tuple[str, int, int]], every: Callable[[], None]) -> None:
    now_s = 0
    for what, node, wait_s in story:
        now_s += wait_s
        if what == "gain":
            job.gain(NODES[node], at(now_s))
        elif what == "lose":
            job.lose(NODES[node], at(now_s))
        else:
            job.advance(at(now_s))
        every()


@settings(max_examples=50)
@given(events)
def test_questions_change_nothing(story: list[tuple[str, int, int]]) -> None:
    """Asked after every event, a job lives like one that is never asked, and repeats itself."""
    asked, silent = (TrainingJob(spec(deadline_s=7_200)) for _ in range(2))

    def answers() -> list[object]:
        return [
            asked.missing("a100"),
            asked.utility_gap(),
            asked.assignment,
            asked.worth_of_gaining("a100", [HOST]),
            *(asked.worth_of_losing(node, NODES[:1]) for node in asked.nodes),
            *(asked.is_redundant(node) for node in asked.nodes),
            *(asked.cold_start_s(node) for node in NODES),
            *(asked.till_checkpoint_s(node) for node in NODES),
        ]

    def ask() -> None:
        before = asked.state()
        assert answers() == answers()
        assert asked.state() == before

    live(asked, story, ask)
    live(silent, story, lambda: None)
    assert asked.state() == silent.state()


@settings(max_examples=50)
@given(events)
def test_one_that_resumes_lives_on_the_same(story: list[tuple[str, int, int]]) -> None:
    """After every event a new job takes over from the state of the last; all ends the same."""
    work = spec(deadline_s=7_200)
    whole = TrainingJob(work)
    live(whole, story, lambda: None)
    now_s, state = 0, TrainingJob(work).state()
    for what, node, wait_s in story:
        now_s += wait_s
        heir = TrainingJob(work)
        heir.resume(state)
        live(heir, [(what, node, now_s)], lambda: None)
        state = heir.state()
    assert state == whole.state()


@settings(max_examples=50)
@given(events, st.integers(7, 90))
def test_work_is_the_same_however_finely_time_passes(
    story: list[tuple[str, int, int]], step_s: int
) -> None:
    """Advanced in small steps between events, a job does exactly what it does in large ones."""
    fine, coarse = TrainingJob(spec()), TrainingJob(spec())
    now_s = 0
    for what, node, wait_s in story:
        for moment_s in range(now_s, now_s + wait_s, step_s):
            fine.advance(at(moment_s))
        now_s += wait_s
        live(fine, [(what, node, now_s)], lambda: None)
    live(coarse, story, lambda: None)
    assert fine.state() == coarse.state()


# What it answers ---------------------------------------------------------------------------------


def test_one_node_of_the_first_kind_has_pace_one() -> None:
    """The unit of utility is the speed of one node of the first kind."""
    assert job_with(1).pace == pytest.approx(1.0)
    assert 6.0 < job_with(8).pace <= 8.0


def test_the_needed_pace_is_work_left_over_time_left() -> None:
    """An hour's work for one node, due in half an hour, needs pace 2; a quarter of an hour later
    without work pace 4; and past the deadline all that it can use."""
    job = TrainingJob(spec(int(3_600 * speed(NODES[0])), deadline_s=1_800))
    assert job.needed_pace == pytest.approx(2.0, rel=1e-3)
    assert job.utility_gap() == pytest.approx(2.0, rel=1e-3)
    job.advance(at(900))
    assert job.needed_pace == pytest.approx(4.0, rel=1e-3)
    job.advance(at(1_800))
    late = job.needed_pace
    assert late > 8.0
    job.advance(at(9_000))
    assert job.needed_pace == late


def test_pace_beyond_the_need_counts_little() -> None:
    """Where pace 2 is needed, a first neighbour to one node counts fully; to three nodes, which are
    above the margin, a tenth of what it does."""
    hour = int(3_600 * speed(NODES[0]))
    few = job_with(1, spec(hour, deadline_s=1_800)).worth_of_gaining(HOST)
    assert few.now == pytest.approx(few.full)
    assert few.full == pytest.approx(job_with(2).pace - 1.0, rel=0.05)
    enough = job_with(3, spec(hour, deadline_s=1_800))
    assert enough.pace > FULL_VALUE_UP_TO * enough.needed_pace
    many = enough.worth_of_gaining(HOST)
    assert many.now == pytest.approx(VALUE_BEYOND * many.full)


def test_past_the_deadline_all_counts() -> None:
    """What is late is worth as much as what is needed, and no more."""
    job = job_with(3, spec(deadline_s=100))
    before = job.worth_of_gaining(HOST)
    job.advance(at(200))
    assert job.worth_of_gaining(HOST) == before
    assert before.now == pytest.approx(before.full)


def test_a_neighbour_is_worth_more_than_a_stranger() -> None:
    """Beside 7 nodes of a domain, one there adds more than one in the rack, and that more than
    one from anywhere."""
    job = job_with(7)
    here = job.worth_of_gaining("h100/z/r0/n0").full
    rack = job.worth_of_gaining("h100/z/r0").full
    anywhere = job.worth_of_gaining("h100").full
    assert here > rack > anywhere >= 0.0
    assert here > 0.8
    assert job.worth_of_gaining("tpu/z").full == 0.0


@pytest.mark.parametrize("scope", [HOST, "h100/z/r0", "h100", "a100"])
def test_nodes_to_come_are_worth_ever_less(scope: str) -> None:
    """Of several nodes to come at one place none is worth more than the one before it."""
    job = job_with(2)
    worths = [job.worth_of_gaining(scope, [scope] * count).full for count in range(10)]
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(worths))
    assert worths[0] > 0.0


def test_a_node_that_is_of_use_only_with_another_has_its_part() -> None:
    """GPT-Neo-2.7 takes two A100 with 40 GB: the first is worth half of what both do, and of both
    that are there each is, too."""
    setup = Setup(model="GPT-Neo-2.7", gpus=(("a", "A100-40"),))
    job = TrainingJob(spec(setup=setup, nodes_max=2))
    assert job.worth_of_gaining("a/z/r/n").full == pytest.approx(1.0)
    job.gain("a/z/r/n/h/g0", 0)
    assert job.pace == 0.0
    assert not job.is_redundant("a/z/r/n/h/g0")
    job.gain("a/z/r/n/h/g1", 0)
    assert job.pace == pytest.approx(2.0)
    assert job.worth_of_losing("a/z/r/n/h/g0").full == pytest.approx(1.0)
    assert job.worth_of_losing("a/z/r/n/h/g1", ["a/z/r/n/h/g0"]).full == pytest.approx(1.0)


def test_a_node_does_not_wait_for_others_for_ever() -> None:
    """Of no use alone, it is redundant after two minutes."""
    setup = Setup(model="GPT-Neo-2.7", gpus=(("a", "A100-40"),))
    job = TrainingJob(spec(setup=setup))
    job.gain("a/z/r/n/h/g0", 0)
    job.advance(at(121))
    assert job.is_redundant("a/z/r/n/h/g0")


def test_losses_add_up_to_the_whole() -> None:
    """Priced one after the other, nodes of one host are worth together what they do together."""
    job = job_with(8)
    losses = [job.worth_of_losing(node, NODES[:index]).full for index, node in enumerate(NODES)]
    assert sum(losses) == pytest.approx(job.pace, rel=0.02)
    assert min(losses) > 0.5


def test_no_more_nodes_than_it_may_have() -> None:
    """At its most, another node is worth nothing; what is coming counts, too."""
    job = job_with(2, spec(nodes_max=3))
    assert job.worth_of_gaining(HOST).full > 0.0
    assert job.worth_of_gaining(HOST, ["h100"]) == Worth(0.0, 0.0)
    assert job.missing("h100") == 1


def test_missing_nodes_are_those_till_the_needed_pace() -> None:
    """Where pace 4 is needed and one node is there, three more of its kind are missing, or four
    as they don't add up fully, and more of a slower kind; none once they are there."""
    work = spec(int(4 * 3_600 * speed(NODES[0])), deadline_s=3_600)
    job = job_with(1, work)
    assert job.missing("h100") in (3, 4)
    assert job.missing("a100") > job.missing("h100")
    assert job.missing("tpu") == 0
    assert job_with(8, work).missing("h100") == 0


def test_nodes_that_the_best_plan_leaves_out_are_redundant() -> None:
    """Beside 8 neighbours a small batch gains nothing from a node far away: it has no role, and
    once it has waited for others in vain it can go; one of another tree can go at once."""
    job = job_with(8, spec(setup=Setup(global_batch=32)))
    job.gain(FAR, 0)
    job.gain("tpu/z/r/n/h/g0", 0)
    assert job.is_redundant("tpu/z/r/n/h/g0")
    assert not job.is_redundant(FAR)
    job.advance(at(121))
    assert job.is_redundant(FAR)
    assert set(job.assignment) <= set(NODES)
    assert not any(job.is_redundant(node) for node in job.assignment)


def test_every_role_is_given_once() -> None:
    """No two nodes have the same place in the same replica."""
    job = job_with(8)
    roles = list(job.assignment.values())
    assert len(set(roles)) == len(roles) == 8


@pytest.mark.parametrize("field", ["samples", "nodes_max", "checkpoint_every_s", "reconfigure_s"])
def test_a_job_of_nothing_is_refused(field: str) -> None:
    """What must be above zero is refused by its name."""
    wrong: dict[str, Any] = {"samples": 1, field: 0}
    with pytest.raises(TrainingError, match=field):
        TrainingSpec(**wrong)
