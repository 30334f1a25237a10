"""A rigid job: it runs with all of its nodes in one domain, and else it waits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laissez.performance.batch import Work
from laissez.performance.rigid import BadRigid, RigidJob, RigidSpec

S = 1_000_000
HOST = 3


def job(work_s: float = 100, count: int = 2, within: int = HOST, due_s: int = 1_000) -> RigidJob:
    """10 s of start-up, a checkpoint every 30 s; an A100 is half as fast."""
    work = Work(work_s / 3_600, {"h100": 1.0, "a100": 0.5})
    return RigidJob(RigidSpec(work, count, within, due_s * S, 10.0, 30.0))


def test_a_life_by_hand() -> None:
    """One node does nothing, nor do two on two hosts; two on one start together and are done 10 s
    and 100 s later. What lies beside them is redundant from then on, and all of it at the end."""
    own = job()
    assert (own.missing("h100"), own.missing("a100"), own.missing("tpu")) == (2, 2, 0)
    own.gain("h100/r0/h0/g0", 0)
    own.gain("h100/r0/h1/g0", 5 * S)
    assert (own.crew, own.missing("h100")) == ((), 1)
    assert not own.is_redundant("h100/r0/h1/g0")
    own.gain("h100/r0/h0/g1", 20 * S)
    assert own.crew == ("h100/r0/h0/g0", "h100/r0/h0/g1")
    assert own.is_redundant("h100/r0/h1/g0")
    assert own.done_us == 130 * S
    assert own.ends_in_s("h100/r0/h0/g0") == 110.0
    own.advance(80 * S)
    assert own.done_share == pytest.approx(0.5)
    own.advance(129 * S)
    assert own.done_share < 1
    own.advance(130 * S)
    assert own.is_done
    assert own.done_share == 1.0
    assert all(map(own.is_redundant, own.nodes))
    assert own.ends_in_s("h100/r0/h0/g0") == 0.0


def test_a_loss_throws_it_back_to_its_last_checkpoint() -> None:
    """At work from 10 on, it saves at 40 and at 70. If a node goes at 95, 60 s are done; with
    another one there they go on 10 s later, and 40 s are left."""
    own = job()
    for gpu in range(3):
        own.gain(f"h100/r0/h0/g{gpu}", 0)
    own.advance(95 * S)
    assert own.since_checkpoint_s("h100/r0/h0/g0") == 25.0
    assert own.till_checkpoint_s("h100/r0/h0/g0") == 5.0
    own.lose("h100/r0/h0/g0", 95 * S)
    assert own.done_share == pytest.approx(0.6)
    assert own.crew == ("h100/r0/h0/g1", "h100/r0/h0/g2")
    assert own.done_us == 145 * S


def test_who_saves_before_loses_no_work() -> None:
    """The same, but it is told at the instant of its loss. Then it gets ready for nothing more."""
    own = job()
    own.gain("h100/r0/h0/g0", 0)
    own.gain("h100/r0/h0/g1", 0)
    own.vacate("h100/r0/h0/g0", 95 * S)
    assert [*own.vacating] == ["h100/r0/h0/g0"]
    assert own.since_checkpoint_s("h100/r0/h0/g1") == own.vacate_s("h100/r0/h0/g0") == 0.0
    assert own.done_us == 110 * S
    own.lose("h100/r0/h0/g0", 95 * S)
    assert own.done_share == pytest.approx(0.85)
    assert own.crew == ()
    assert not own.vacating
    own.vacate("h100/r0/h0/g1", 200 * S)
    own.stay("h100/r0/h0/g1", 200 * S)
    assert not own.vacating
    assert own.done_share == pytest.approx(0.85)


def test_a_slower_kind_takes_longer() -> None:
    """Work is in hours of a crew of the first kind; a crew is of one kind, as domains are."""
    own = job(within=1)
    own.gain("h100/r0/h0/g0", 0)
    own.gain("a100/r0/h0/g0", 0)
    assert own.crew == ()
    own.gain("a100/r1/h7/g0", 0)
    assert own.done_us == 210 * S


def test_what_a_crew_is_worth() -> None:
    """Each node of a crew to come has its part of it; of one that works, each is worth all."""
    own = job(count=4)
    part = own.worth_of_gaining("h100")
    assert part.full == pytest.approx(0.25)
    assert own.worth_of_gaining("a100").full == pytest.approx(0.125)
    assert own.worth_of_gaining("h100", ("h100",) * 4) == (0.0, 0.0)
    for gpu in range(4):
        own.gain(f"h100/r0/h0/g{gpu}", 0)
    assert own.worth_of_losing("h100/r0/h0/g0").full == 1.0
    assert own.worth_of_losing("h100/r0/h0/g0", ["h100/r0/h0/g3"]) == (0.0, 0.0)
    assert own.worth_of_gaining("h100") == (0.0, 0.0)


@given(
    steps=st.lists(st.integers(1, 40), min_size=1, max_size=30),
    lost=st.lists(st.integers(0, 29), max_size=3, unique=True),
)
def test_work_does_not_hang_on_how_finely_time_passes(steps: list[int], lost: list[int]) -> None:
    """With the same losses at the same instants as much is done, whoever looks between."""
    fine, coarse = job(10_000), job(10_000)
    now_us = 0
    for each in (fine, coarse):
        each.gain("h100/r0/h0/g0", 0)
        each.gain("h100/r0/h0/g1", 0)
    for at, step_s in enumerate(steps):
        now_us += step_s * S
        fine.advance(now_us)
        if at in lost:
            for each in (fine, coarse):
                each.lose("h100/r0/h0/g1", now_us)
                each.gain("h100/r0/h0/g1", now_us)
    coarse.advance(now_us)
    assert fine.state() == coarse.state()


def test_who_measures_is_believed() -> None:
    """It goes on from there, and is done when it says so."""
    own = job()
    own.gain("h100/r0/h0/g0", 0)
    own.gain("h100/r0/h0/g1", 0)
    own.measure({"done": 0.2}, 60 * S)
    assert own.done_share == pytest.approx(0.2)
    own.advance(900 * S)
    assert not own.is_done
    own.measure({"done": 1.0}, 901 * S)
    assert own.is_done


@pytest.mark.parametrize(
    ("field", "value"), [("count", 0), ("within", 0), ("cold", -1.0), ("every", 0.0)]
)
def test_what_cannot_be(field: str, value: float) -> None:
    """A job without nodes, or with times below nothing, is refused."""
    said: dict[str, float] = {"count": 2, "within": 1, "cold": 1.0, "every": 1.0} | {field: value}
    with pytest.raises(BadRigid):
        RigidSpec(
            Work(1.0, {"h100": 1.0}),
            int(said["count"]),
            int(said["within"]),
            None,
            said["cold"],
            said["every"],
        )
