"""A training job whose owner knows nothing of distances: what it believes, and what gets done."""

import pytest

from laissez.adapters.intent import TradingTerms
from laissez.adapters.training import TrainingAdapter
from laissez.performance.training import Setup, TrainingJob, TrainingSpec
from laissez.performance.training.planner import planner_of
from laissez.simulation.demand.oblivious import ObliviousJob
from laissez.simulation.demand.projects import Bidding, Training

SECOND = 1_000_000
MINUTE = 60 * SECOND
SPEC = TrainingSpec(
    150_000, Setup(global_batch=64), deadline_us=60 * MINUTE, nodes_max=16, reconfigure_s=60.0
)
NEIGHBOURS = tuple(f"h100/z0/r0/n0/h0/g{gpu}" for gpu in range(4))
SCATTERED = tuple(f"h100/z{rack // 2}/r{rack % 2}/n0/h0/g0" for rack in range(4))


def job_on(nodes: tuple[str, ...]) -> ObliviousJob:
    job = ObliviousJob(SPEC)
    for node in nodes:
        job.gain(node, 0)
    return job


def test_neighbours_and_strangers_are_alike_to_it() -> None:
    """The same pace, worth and roles; only what is done differs, and that is what it reports."""
    near, far = job_on(NEIGHBOURS), job_on(SCATTERED)
    assert near.pace == far.pace == pytest.approx(near.real.pace)
    assert far.real.pace < 0.8 * far.pace
    assert near.worth_of_gaining("h100") == far.worth_of_gaining("h100")
    for one, other in zip(NEIGHBOURS, SCATTERED, strict=True):
        assert near.worth_of_losing(one) == far.worth_of_losing(other)
        assert not far.is_redundant(other)
    for job in (near, far):
        job.advance(20 * MINUTE)
        assert job.samples_done == job.real.samples_done > 0
    assert far.samples_done < 0.8 * near.samples_done
    assert far.needed_pace > near.needed_pace


def test_among_neighbours_it_is_like_any_other() -> None:
    """Whoever is right about distances bids as well with the belief as without: the same worth,
    the same end in sight, the same at stake."""
    knows, believes = TrainingJob(SPEC), job_on(NEIGHBOURS)
    for node in NEIGHBOURS:
        knows.gain(node, 0)
    for minute in range(0, 60, 7):
        for job in (knows, believes):
            job.advance(minute * MINUTE)
        assert believes.is_done == knows.is_done
        assert believes.done_us == pytest.approx(knows.done_us)
        assert believes.needed_pace == pytest.approx(knows.needed_pace)
        for node in NEIGHBOURS:
            assert believes.ends_in_s(node) == pytest.approx(knows.ends_in_s(node))
            assert believes.at_stake(node) == pytest.approx(knows.at_stake(node))
            assert believes.since_checkpoint_s(node) == knows.since_checkpoint_s(node)
            assert believes.worth_of_losing(node) == pytest.approx(knows.worth_of_losing(node))


def test_what_it_does_is_what_the_same_job_does() -> None:
    """With the same nodes at the same times as one that knows, however finely time passes."""
    knows, fine, coarse = TrainingJob(SPEC), ObliviousJob(SPEC), ObliviousJob(SPEC)
    for at_s in range(0, 1_800, 10):
        fine.advance(at_s * SECOND)
        for index, node in enumerate(SCATTERED):
            for job in (knows, fine, coarse):
                if at_s == 200 * index:
                    job.gain(node, at_s * SECOND)
                elif at_s == 900 + 100 * index:
                    job.lose(node, at_s * SECOND)
    for job in (knows, fine, coarse):
        job.advance(1_800 * SECOND)
    assert fine.samples_done == coarse.samples_done == knows.samples_done > 0


def test_it_is_done_when_the_work_is_not_when_it_would_be_if_nodes_were_near() -> None:
    """At the believed pace the deadline would be kept with time to spare."""
    job = job_on(SCATTERED)
    work_s = SPEC.samples / planner_of(SPEC.setup).reference_samples_per_s
    believed_us = round(MINUTE + work_s / job.pace * SECOND)
    assert believed_us < (SPEC.deadline_us or 0)
    job.advance(believed_us + SECOND)
    was_done = job.is_done
    job.advance(10 * believed_us)
    assert (was_done, job.is_done, job.real.is_done) == (False, True, True)
    assert job.samples_done == SPEC.samples


def test_who_bids_obliviously_is_such_a_job() -> None:
    """And it asks nowhere near; who asks anywhere knows all the same what is near."""
    ways: dict[Bidding, type] = {
        "aware": TrainingJob,
        "anywhere": TrainingJob,
        "oblivious": ObliviousJob,
    }
    for bidding, kind in ways.items():
        labour = Training(SPEC, bidding=bidding)
        job = labour.begin(0)
        assert type(job) is kind
        adapter = labour.adapter(job, TradingTerms("job", ("h100",), SECOND), 1_000_000)
        assert isinstance(adapter, TrainingAdapter)
        assert adapter.looks_near == (bidding == "aware")
