"""The training job: checkpoints, losses and gains by hand, and what it answers."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laissez.performance.application import US_PER_S, Application, Worth
from laissez.performance.pace import FULL_VALUE_UP_TO, VALUE_BEYOND
from laissez.performance.training import (
    GpuGroup,
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
    samples: int = MANY,
    *,
    setup: Setup = SETUP,
    deadline_s: int | None = None,
    nodes_max: int = 64,
    checkpoint_every_s: float = 300.0,
) -> TrainingSpec:
    deadline_us = None if deadline_s is None else deadline_s * US_PER_S
    return TrainingSpec(samples, setup, deadline_us, nodes_max, checkpoint_every_s)


def job_with(count: int, work: TrainingSpec | None = None) -> TrainingJob:
    """A job that has had this many neighbours from the beginning."""
    job = TrainingJob(work or spec())
    for node in NODES[:count]:
        job.gain(node, 0)
    return job


def speed(*nodes: str) -> float:
    return plan(SETUP, [GpuGroup(node) for node in nodes]).samples_per_s


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


def test_what_is_at_stake_is_the_pace_of_the_crew() -> None:
    """If one of two is gone, both have to be configured anew: each has the pace of both at stake,
    more than what is lost with it for good. One that waits to be taken in has nothing."""
    job = job_with(2)
    job.advance(at(200))
    assert job.at_stake(NODES[0]) == job.at_stake(NODES[1]) == job.pace
    assert job.at_stake(NODES[0]) > job.worth_of_losing(NODES[0]).full > 0
    job.gain(NODES[2], at(200))
    assert job.at_stake(NODES[2]) == job.at_stake(FAR) == 0.0
    assert job.at_stake(NODES[0]) < job.pace  # with the third, once it is in


def test_when_nodes_are_needed_no_more() -> None:
    """A node of the crew, until the work is done: configured in 120 s and working for 400 s, 320 s
    are left after 200 s. Other nodes, until the deadline; without one, for ever."""
    samples = round(400 * speed(NODES[0]))
    for deadline_s, others_s in ((1_000, 800.0), (None, None)):
        job = job_with(1, spec(samples, deadline_s=deadline_s))
        job.advance(at(200))
        assert job.ends_in_s(NODES[0]) == pytest.approx(320, abs=0.1)
        assert job.done_us == pytest.approx(at(520), abs=at(0.1))
        assert job.ends_in_s("h100") == job.ends_in_s(FAR) == others_s
        job.advance(at(600))
        assert job.is_done
    assert TrainingJob(spec()).done_us is None


def test_the_crew_is_needed_until_the_deadline_at_most_while_that_is_ahead() -> None:
    """With work for ever it is needed for the 300 s that are left, and when the deadline is past,
    until the work is done, counted from the last report if there is one."""
    job = job_with(1, spec(deadline_s=500))
    job.advance(at(200))
    assert job.ends_in_s(NODES[0]) == job.ends_in_s("h100") == 300.0
    job.advance(at(500))
    assert job.ends_in_s(NODES[0]) == pytest.approx(120 + MANY / speed(NODES[0]) - 500)
    assert job.ends_in_s("h100") is None
    job.measure({"samples": 10.0}, at(510))
    assert job.ends_in_s(NODES[0]) == pytest.approx((MANY - 10) / speed(NODES[0]))


def test_who_reports_and_should_be_done_will_be_any_moment() -> None:
    """It is done when it says so, not before; until then its end is now."""
    job = job_with(1, spec(round(400 * speed(NODES[0]))))
    job.measure({"samples": 0.0}, at(120))
    assert job.ends_in_s(NODES[0]) == pytest.approx(400, abs=0.1)
    job.advance(at(900))
    assert (job.is_done, job.ends_in_s(NODES[0]), job.done_us) == (False, 0.0, at(900))


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


def test_it_saves_for_nodes_that_wait_though_its_checkpoint_is_far() -> None:
    """It saves every hour and works since 120 s. At its look at 420 s nothing has come, so nothing
    is saved; one that came at 500 s is taken in at 720 s, with all that was done before saved."""
    job = job_with(1, spec(checkpoint_every_s=3_600))
    one, two = speed(NODES[0]), speed(*NODES[:2])
    job.advance(at(500))
    assert job.since_checkpoint_s(NODES[0]) == 380.0
    assert job.till_checkpoint_s(NODES[0]) == 3_220.0
    assert job.joins_in_s == 220 + 120
    job.gain(NODES[1], at(500))
    assert job.cold_start_s(NODES[1]) == 220 + 120
    assert job.till_checkpoint_s(NODES[0]) == 220.0
    job.advance(at(840))
    assert job.samples_done == pytest.approx(600 * one)
    job.lose(NODES[1], at(850))
    assert job.samples_done == pytest.approx(600 * one)
    job.gain(NODES[1], at(850))
    job.advance(at(980))
    assert job.samples_done == pytest.approx(600 * one + 10 * two)


def test_a_look_at_nobody_saves_nothing() -> None:
    """It saves every 700 s and works since 120 s: lost before 820 s, nothing was saved; after it,
    what was done until then, though it looked around at 420 s and 720 s."""
    for lost_s, saved_s in ((810, 0), (1_000, 700)):
        job = job_with(2, spec(checkpoint_every_s=700))
        job.lose(NODES[1], at(lost_s))
        assert job.samples_done == pytest.approx(saved_s * speed(*NODES[:2]))


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


def test_a_gain_that_comes_too_late_is_worth_nothing() -> None:
    """120 s of configuration for twice the speed pay with more than 240 s of work left at the next
    checkpoint, which is at 420 s after 300 s of work. With less a node is worth nothing, none is
    missing, and one that comes is redundant; the job goes on."""
    for left_s, pays in ((245, True), (235, False)):
        job = job_with(1, spec(int((300 + left_s) * speed(NODES[0])), nodes_max=2))
        job.advance(at(400))
        assert (job.worth_of_gaining(HOST).full > 0.0) == pays
        assert (job.missing("h100") > 0) == pays
        job.gain(NODES[1], at(400))
        assert job.is_redundant(NODES[1]) != pays
        assert (job.worth_of_losing(NODES[1]).full > 0.0) == pays
        assert job.pace == pytest.approx(2.0 if pays else 1.0, rel=0.02)
        job.advance(at(425))
        assert job.samples_done == pytest.approx((300 if pays else 305) * speed(NODES[0]))
        assert len(job.assignment) == (2 if pays else 1)


def test_a_configuration_starts_over_only_if_that_ends_earlier() -> None:
    """At 24 s of 120 s another node costs 24 s more. It is taken in at once if the job needs more
    than 48 s alone, for half of that is saved; if not, it is worth nothing."""
    for left_s, pays in ((50, True), (46, False)):
        job = job_with(1, spec(int(left_s * speed(NODES[0])), nodes_max=2))
        job.advance(at(24))
        assert (job.worth_of_gaining(HOST).full > 0.0) == pays
        job.gain(NODES[1], at(24))
        assert job.cold_start_s(NODES[0]) == (120.0 if pays else 96.0)
        assert job.is_redundant(NODES[1]) != pays


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


def test_a_measured_job_is_done_when_it_says_so() -> None:
    """Reckoned to be done long ago, a job whose last report said otherwise holds on to its node; a
    report that it is done ends it."""
    work = spec(int(1_000 * speed(NODES[0])))
    job = job_with(1, work)
    done = []
    job.measure({"samples": 0.9 * work.samples}, at(800))
    job.advance(at(5_000))
    done.append(job.is_done)
    assert not job.is_redundant(NODES[0])
    assert job.samples_done == work.samples - 1
    assert job.needed_pace > 0.0
    job.measure({"samples": work.samples + 5}, at(5_000))
    assert [*done, job.is_done] == [False, True]
    assert job.samples_done == work.samples


def test_a_job_that_was_not_done_after_all_goes_on() -> None:
    """Done by reckoning at 1,120 s, and then measured at 90%: it configures itself at once."""
    work = spec(int(1_000 * speed(NODES[0])))
    job = job_with(1, work)
    job.advance(at(1_200))
    done = [job.is_done]
    job.measure({"samples": 0.9 * work.samples}, at(1_200))
    assert [*done, job.is_done] == [True, False]
    assert not job.is_redundant(NODES[0])
    assert job.cold_start_s(NODES[0]) == 120.0
    job.advance(at(1_330))
    assert job.samples_done == pytest.approx(0.9 * work.samples + 10 * speed(NODES[0]))


def test_a_report_of_little_work_leaves_nothing_to_fall_back_to() -> None:
    """100 s into its work a job reports 10 samples: so many are done, and after a loss none."""
    job = job_with(2)
    job.measure({"samples": 10.0}, at(220))
    assert job.samples_done == pytest.approx(10.0)
    job.lose(NODES[1], at(220))
    assert job.samples_done == 0.0


@pytest.mark.parametrize("samples", [-1.0, float("nan"), float("inf")])
def test_a_report_that_cannot_be_is_refused(samples: float) -> None:
    """The job says so, and is as it was."""
    job = job_with(1)
    before = job.state()
    with pytest.raises(TrainingError, match="cannot be done"):
        job.measure({"samples": samples}, at(500))
    assert job.state() == before


@pytest.mark.parametrize(
    "other",
    [spec(5), spec(setup=Setup("GPT-Neo-2.7")), spec(setup=Setup(gpus=(("a100", "A100-80"),)))],
)
def test_the_state_of_another_job_is_refused(other: TrainingSpec) -> None:
    """Other work, another model, other nodes: the job says so, and is as it was."""
    job = TrainingJob(other)
    before = job.state()
    with pytest.raises(TrainingError, match="another job"):
        job.resume(job_with(2).state())
    with pytest.raises(TrainingError, match="not the state"):
        job.resume(b"{}")
    assert job.state() == before


periods_s = st.sampled_from([120.0, 300.0, 700.0, 3_600.0])
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
@given(events, periods_s)
def test_questions_change_nothing(story: list[tuple[str, int, int]], period_s: float) -> None:
    """Asked after every event, a job lives like one that is never asked, and repeats itself."""
    work = spec(deadline_s=7_200, checkpoint_every_s=period_s)
    asked, silent = (TrainingJob(work) for _ in range(2))

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
@given(events, periods_s)
def test_one_that_resumes_lives_on_the_same(
    story: list[tuple[str, int, int]], period_s: float
) -> None:
    """After every event a new job takes over from the state of the last; all ends the same."""
    work = spec(deadline_s=7_200, checkpoint_every_s=period_s)
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
@given(events, st.integers(7, 90), periods_s)
def test_work_is_the_same_however_finely_time_passes(
    story: list[tuple[str, int, int]], step_s: int, period_s: float
) -> None:
    """Advanced in small steps between events, a job does exactly what it does in large ones."""
    work = spec(checkpoint_every_s=period_s)
    fine, coarse = TrainingJob(work), TrainingJob(work)
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


PAIR = Setup(model="GPT-Neo-2.7", gpus=(("a", "A100-40"),))


def test_patience_ends_and_doubt_grows_by_hand() -> None:
    """A node that is of no use alone waits for 120 s. Then its kind is in doubt for 120 s, so that
    none is worth buying; the next time for 240 s, then for 480 s."""
    job = TrainingJob(spec(setup=PAIR))
    worth_s, held_s = [], []
    for now_s in range(0, 1_500, 10):
        job.advance(at(now_s))
        if job.nodes and job.is_redundant(job.nodes[0]):
            job.lose(job.nodes[0], at(now_s))
            held_s.append(now_s)
        if job.worth_of_gaining("a/z/r/n").full > 0.0:
            assert len(job.nodes) <= 1
            if not job.nodes:
                job.gain(f"a/z/r/n/h/g{now_s}", at(now_s))
                worth_s.append(now_s)
    assert worth_s == [0, 240, 600, 1_200]
    assert held_s == [120, 360, 720, 1_320]


def test_what_is_given_back_is_not_reckoned_with() -> None:
    """A node that waited in vain goes. Beside it, another would be of use; but by the time that one
    came it would be gone, and then the other would go, and so on."""
    job = TrainingJob(spec(setup=PAIR))
    job.gain("a/z/r/n/h/g0", 0)
    job.advance(at(119))
    assert job.worth_of_gaining("a/z/r/n").full > 0.0
    job.advance(at(121))
    assert job.is_redundant("a/z/r/n/h/g0")
    assert job.worth_of_gaining("a/z/r/n") == Worth(0, 0)


def test_a_node_joins_a_crew_at_its_next_checkpoint() -> None:
    """Configured in 120 s, with a checkpoint every 300 s: alone at once, beside a crew that has
    only just begun to be configured as well; and one that has worked for 100 s works for 200 more
    before that."""
    job = TrainingJob(spec())
    assert job.joins_in_s == 120.0
    job.gain(NODES[0], 0)
    job.advance(at(30))
    assert job.joins_in_s == 120.0
    job.advance(at(220))
    assert job.joins_in_s == 320.0
    job.gain(NODES[1], at(220))
    assert job.cold_start_s(NODES[1]) == 320.0


def test_each_that_comes_renews_patience() -> None:
    """Three that are of no use alone, and too far from each other to work together, come 100 s
    apart: all of them wait, and can go 120 s after the last."""
    job = TrainingJob(spec(setup=PAIR))
    nodes = [f"a/z/r{index}/n/h/g" for index in range(3)]
    for index, node in enumerate(nodes):
        job.gain(node, at(100 * index))
    job.advance(at(319))
    assert not any(job.is_redundant(node) for node in nodes)
    job.advance(at(320))
    assert all(job.is_redundant(node) for node in nodes)


def test_a_kind_that_comes_to_work_is_trusted_again() -> None:
    """After a doubt of 240 s a pair comes together. The next doubt is as short as the first."""
    job = TrainingJob(spec(setup=PAIR, nodes_max=4))
    for now_s in (0, 240):
        job.gain("a/z/r/n/h/g0", at(now_s))
        job.lose("a/z/r/n/h/g0", at(now_s + 120))
    assert job.worth_of_gaining("a/z/r/n").full == 0.0
    for index in (0, 1):
        job.gain(f"a/z/r/n/h/g{index}", at(400))
    assert job.pace == pytest.approx(2.0)
    job.gain("a/z/r9/n9/h/g2", at(500))
    job.advance(at(620))
    assert job.is_redundant("a/z/r9/n9/h/g2")
    job.lose("a/z/r9/n9/h/g2", at(620))
    job.advance(at(739))
    assert job.worth_of_gaining("a/z/r9/n9").full == 0.0
    job.advance(at(740))
    assert job.worth_of_gaining("a/z/r9/n9").full > 0.0


def test_a_working_pair_is_kept_also_if_its_kind_is_in_doubt() -> None:
    """Priced one after the other, each of the two has its half."""
    job = TrainingJob(spec(setup=PAIR, nodes_max=4))
    pair = ["a/z/r/n/h/g0", "a/z/r/n/h/g1"]
    for node in pair:
        job.gain(node, 0)
    job.gain("a/z/r9/n9/h/g2", 0)
    job.advance(at(121))
    assert job.is_redundant("a/z/r9/n9/h/g2")
    job.lose("a/z/r9/n9/h/g2", at(121))
    assert [job.worth_of_losing(pair[0]).full, job.worth_of_losing(pair[1], pair[:1]).full] == [
        pytest.approx(1.0),
        pytest.approx(1.0),
    ]


def test_a_node_that_waits_is_worth_what_it_was_worth_to_buy() -> None:
    """Held or not, before and after, it is the same number."""
    job = job_with(8, spec(nodes_max=16))
    job.advance(at(200))
    other = "a100/z/r0/n0/h0/g0"
    worth = job.worth_of_gaining(other)
    assert worth.full > 0.0
    job.gain(other, at(200))
    assert other not in job.assignment
    assert job.worth_of_losing(other) == worth


def test_a_group_may_take_all_the_room_there_is() -> None:
    """Beside four H100 in a rack four more elsewhere are of use, and fewer are not. With room for
    four each of them is worth something until all are there; with room for three none is."""
    for nodes_max, is_worth in ((8, True), (7, False)):
        job = TrainingJob(spec(setup=Setup(global_batch=32), nodes_max=nodes_max))
        for node in (*NODES[:3], "h100/z/r0/n1/h0/g0"):
            job.gain(node, 0)
        for index in range(nodes_max - 4):
            assert (job.worth_of_gaining("h100/z/r1/n0").full > 0.0) == is_worth
            job.gain(f"h100/z/r1/n0/h0/g{index}", 0)
        assert (len(job.assignment) == nodes_max) == is_worth


def test_a_node_that_lost_its_partner_waits_for_another() -> None:
    """Of a pair that worked one is lost at 500 s: the other waits for two minutes from then on."""
    job = TrainingJob(spec(setup=PAIR))
    for index in (0, 1):
        job.gain(f"a/z/r/n/h/g{index}", 0)
    job.lose("a/z/r/n/h/g1", at(500))
    job.advance(at(619))
    assert not job.is_redundant("a/z/r/n/h/g0")
    job.advance(at(620))
    assert job.is_redundant("a/z/r/n/h/g0")


def test_what_came_last_goes_first_where_room_is_short() -> None:
    """Beside four H100 in a rack four more elsewhere are of use, and fewer are not; there is room
    for four. The first of them waits. Another node takes its room, but that one can go, and
    without it the first still waits."""
    job = TrainingJob(spec(setup=Setup(global_batch=32), nodes_max=8))
    first, another = "h100/z/r1/n0/h0/g0", "a100/z/r0/n0/h0/g0"
    for node in (*NODES[:3], "h100/z/r0/n1/h0/g0", first, another):
        job.gain(node, 0)
    assert job.worth_of_losing(first) == Worth(0.0, 0.0)
    assert job.worth_of_losing(first, [another]).full > 0.0
    assert [job.is_redundant(node) for node in (first, another)] == [False, True]


def test_what_works_together_is_lost_together() -> None:
    """Beside four H100 a pair of A100 works only as a pair: each of the two has half of what both
    bring, because the one that is nearest to it goes next."""
    setup = Setup("GPT-Neo-2.7", (("h", "H100"), ("a", "A100-40")))
    job = TrainingJob(spec(setup=setup, nodes_max=6))
    pair = ["a/z/r/n/h/g0", "a/z/r/n/h/g1"]
    for node in (pair[0], *(f"h/z/r/n/h/g{index}" for index in range(4)), pair[1]):
        job.gain(node, 0)
    both = job.pace - plan(setup, [GpuGroup("h/z/r/n/h", 4)]).pace
    assert both > 0.0
    assert job.worth_of_losing(pair[0]).full == pytest.approx(both / 2)
    assert job.worth_of_losing(pair[1], pair[:1]).full == pytest.approx(both / 2)


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


def test_nodes_are_missing_near_those_that_are_there() -> None:
    """With a small batch a pace of 3 takes fewer in one rack than in two: asked for are as many as
    do it in the rack of the last node."""
    small = Setup(global_batch=32)
    reference = plan(small, [GpuGroup(NODES[0])]).samples_per_s
    job = job_with(1, spec(int(3 * 3_600 * reference), setup=small, deadline_s=3_600))

    def enough(*places: str) -> int:
        paces = (
            plan(small, [GpuGroup(NODES[0]), *(GpuGroup(place) for place in places[:count])]).pace
            for count in range(len(places) + 1)
        )
        return next(count for count, pace in enumerate(paces) if pace >= 3.0 * (1 - 1e-6))

    near = enough(*(f"h100/z/r0/+/+0/{index}" for index in range(8)))
    far = enough(*(f"h100/z/r1/+/+0/{index}" for index in range(8)))
    assert job.missing("h100") == near < far


def test_the_needed_pace_ends_at_what_the_best_kind_can() -> None:
    """A second before the deadline the top pace is needed, that of the fastest kind, whichever is
    named first; so nodes of that kind count in full as long as there is room."""
    for gpus in ((("a100", "A100-80"), ("h100", "H100")), (("h100", "H100"), ("a100", "A100-80"))):
        setup = Setup(gpus=gpus)
        job = TrainingJob(spec(setup=setup, deadline_s=1, nodes_max=8))
        for node in NODES[:7]:
            job.gain(node, 0)
        top = plan(setup, [GpuGroup(HOST, 8)]).pace
        assert job.needed_pace == pytest.approx(top, rel=0.01)
        assert job.utility_gap() > 0.0
        assert job.missing("h100") == 1
        worth = job.worth_of_gaining(HOST)
        assert worth.now == pytest.approx(worth.full)


def test_nodes_that_the_best_plan_leaves_out_are_redundant() -> None:
    """Beside 8 neighbours a small batch gains nothing from a node far away: it has no role, and
    once it has waited for others in vain it can go."""
    job = job_with(8, spec(setup=Setup(global_batch=32)))
    job.gain(FAR, 0)
    job.advance(at(120))
    assert job.is_redundant(FAR)
    assert set(job.assignment) <= set(NODES)
    assert not any(job.is_redundant(node) for node in job.assignment)


def test_every_role_is_given_once() -> None:
    """No two nodes have the same place in the same replica."""
    job = job_with(8)
    roles = list(job.assignment.values())
    assert len(set(roles)) == len(roles) == 8


@pytest.mark.parametrize("value", [0, float("nan"), float("inf")])
@pytest.mark.parametrize("field", ["samples", "nodes_max", "checkpoint_every_s", "reconfigure_s"])
def test_a_job_of_nothing_is_refused(field: str, value: float) -> None:
    """What must be above zero, and finite, is refused by its name."""
    wrong: dict[str, Any] = {"samples": 1, field: value}
    with pytest.raises(TrainingError, match=field):
        TrainingSpec(**wrong)
