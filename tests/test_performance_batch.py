"""A batch job: by hand, against the same rules second by second, and what always holds of it."""

import json
import math
from fractions import Fraction
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laissez.performance.application import Application, Worth
from laissez.performance.batch import BadBatch, BatchJob, Gpus, Work
from laissez.performance.batch.stretch import Stretch
from laissez.performance.batch.work import team_pace_ppm
from laissez.performance.pace import needed_pace, useful_pace

S = 1_000_000
HOUR = 3_600 * S
FAST, SLOW, FASTEST = "fast/r1/g0", "slow/r1/g0", "fastest/r1/g0"
SPEEDS = {"fast": 1.0, "slow": 0.5, "fastest": 2.0}


def job(hours: float = 1.0, *, deadline_us: int = 10 * HOUR, nodes_max: int = 1) -> BatchJob:
    """480 s to start, a checkpoint every 600 s."""
    return BatchJob(Work(hours, SPEEDS), deadline_us=deadline_us, nodes_max=nodes_max)


def copy_of(original: BatchJob, make: BatchJob) -> BatchJob:
    make.resume(original.state())
    return make


# --- the value of pace --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pace", "counts"),
    [(0.0, 0.0), (0.5, 0.5), (1.0, 1.0), (1.1, 1.1), (2.1, 1.2), (3.1, 1.3)],
)
def test_pace_counts_in_full_up_to_a_tenth_above_need(pace: float, counts: float) -> None:
    """Where a pace of 1 is needed, 1.1 counts in full and what goes beyond by a tenth."""
    assert useful_pace(pace, 1.0) == pytest.approx(counts)


@pytest.mark.parametrize(
    ("work_left", "time_left", "needed"),
    [(2, 8, 0.25), (2, 2, 1), (2, 0.5, 3), (2, 0, 3), (2, -9, 3), (0, 0, 0), (0, -9, 0)],
)
def test_what_is_needed_ends_at_the_fastest_pace(
    work_left: float, time_left: float, needed: float
) -> None:
    """Needed is work over time, at most the fastest pace; past the deadline that much, until the
    work is done."""
    assert needed_pace(work_left, time_left, pace_max=3) == needed


# --- by hand ------------------------------------------------------------------------------------


def test_a_run_without_events() -> None:
    """One hour of work on a reference node takes a cold start and an hour, to the microsecond."""
    one = job()
    one.gain(FAST, 1_000 * S)
    assert one.cold_start_s(FAST) == 480
    one.advance(1_480 * S + 3_600 * S - 1)
    assert one.done_share < 1
    assert one.workers == (FAST,)
    one.advance(1_480 * S + 3_600 * S)
    assert one.is_done
    assert one.done_us == 5_080 * S


def test_a_loss_between_checkpoints() -> None:
    """Started at 480 s and lost at 2000 s, the job keeps the 1200 s of its second checkpoint and
    does 320 s again; half as fast, the 2400 s that are left take 4800 s after the cold start."""
    one = job()
    one.gain(FAST, 0)
    one.advance(2_000 * S)
    assert one.since_checkpoint_s(FAST) == 320
    assert one.till_checkpoint_s(FAST) == 280
    one.lose(FAST, 2_000 * S)
    assert one.done_share == pytest.approx(1_200 / 3_600)
    assert one.work_left_us("fast") == 2_400 * S
    assert one.work_left_us("slow") == 4_800 * S
    one.gain(SLOW, 2_100 * S)
    assert one.works_from_us(SLOW) == 2_580 * S
    one.advance(20_000 * S)
    assert one.done_us == (2_580 + 4_800) * S


def test_what_is_at_stake_is_all_that_works() -> None:
    """Nothing while the node starts; then its pace, and with two that work together that of the
    team for each of them, by Amdahl with 8.5% in one place. Of one that is not there, nothing."""
    one, two = job(), job(nodes_max=2)
    for node in (FAST, SLOW):
        two.gain(node, 0)
    one.gain(FASTEST, 0)
    for each in (one, two):
        assert [each.at_stake(node) for node in (FAST, SLOW, FASTEST)] == [0.0, 0.0, 0.0]
        each.advance(480 * S)
    assert [one.at_stake(node) for node in (FAST, SLOW, FASTEST)] == [0.0, 0.0, 2.0]
    team = round(1e6 / (0.085 + 0.915 / 1.5)) / 1e6
    assert [two.at_stake(node) for node in (FAST, SLOW, FASTEST)] == [team, team, 0.0]
    assert 1.4 < team < 1.5


def test_when_a_node_is_needed_no_more() -> None:
    """An hour of work: on a node that has not come yet 480 s and 3600 s, half as fast 480 s and
    7200 s; on one that has worked for 1000 s, 2600 s more, and on another one like it 480 s longer.
    An unknown kind is of no use from now on."""
    one = job()
    assert one.ends_in_s("fast") == one.ends_in_s(FAST) == 4_080
    assert one.ends_in_s("slow/r1") == 7_680
    assert one.ends_in_s("tpu") == 0
    one.gain(FAST, 0)
    assert one.ends_in_s(FAST) == 4_080
    one.advance(1_480 * S)
    assert one.ends_in_s(FAST) == 2_600
    assert one.ends_in_s("fast") == 480 + 2_600
    one.advance(4_080 * S)
    assert (one.is_done, one.ends_in_s(FAST)) == (True, 0)


def test_a_node_is_needed_until_the_deadline_at_most_while_that_is_ahead() -> None:
    """Due in 2000 s, it is needed for 2000 s; a second before, for one more; once it is late, until
    it is done."""
    late = job(deadline_us=2_000 * S)
    late.gain(FAST, 0)
    assert late.ends_in_s(FAST) == late.ends_in_s("slow") == 2_000
    late.advance(1_999 * S)
    assert late.ends_in_s(FAST) == 1
    late.advance(2_000 * S)
    assert late.ends_in_s(FAST) == 2_080


def test_a_loss_at_the_checkpoint_costs_no_work() -> None:
    """At the very instant of a checkpoint nothing has to be done again, a microsecond earlier
    all since the last one has."""
    at, early = job(), job()
    for one in (at, early):
        one.gain(FAST, 0)
    at.advance(1_080 * S)
    assert (at.since_checkpoint_s(FAST), at.till_checkpoint_s(FAST)) == (0, 0)
    at.lose(FAST, 1_080 * S)
    early.lose(FAST, 1_080 * S - 1)
    assert at.work_left_us("fast") == 3_000 * S
    assert early.work_left_us("fast") == 3_600 * S


def test_a_hand_over() -> None:
    """A faster node that is gained at 1000 s is warm at 1480 s and begins at the checkpoint at
    1680 s, with 1200 s done; the old one works until then and is redundant from then on."""
    one = job()
    one.gain(FAST, 0)
    one.gain(FASTEST, 1_000 * S)
    assert one.works_from_us(FASTEST) == 1_680 * S
    one.advance(1_680 * S - 1)
    assert one.workers == (FAST,)
    assert not one.is_redundant(FAST)
    assert not one.is_redundant(FASTEST)
    one.advance(1_680 * S)
    assert one.workers == (FASTEST,)
    assert one.is_redundant(FAST)
    one.lose(FAST, 1_700 * S)
    assert one.finish_us == (1_680 + 2_400 // 2) * S
    one.advance(one.finish_us)
    assert one.done_us == 2_880 * S


def test_a_warm_spare_goes_on_at_once() -> None:
    """After a hand-over the old node is warm: if the new one is lost, it goes on from the last
    checkpoint without a cold start."""
    one = job()
    one.gain(FAST, 0)
    one.gain(FASTEST, 0)
    one.advance(480 * S)
    assert one.workers == (FASTEST,)
    one.lose(FASTEST, 1_180 * S)
    assert one.workers == (FAST,)
    assert one.finish_us == (1_180 + 2_400) * S


def test_the_old_node_is_kept_while_it_still_has_something_to_do() -> None:
    """A node that will be warm before a better one bridges the time, so it is not redundant."""
    one = job()
    one.gain(SLOW, 0)
    one.gain(FAST, 400 * S)
    assert not one.is_redundant(SLOW)
    one.advance(480 * S)
    assert one.workers == (SLOW,)
    one.gain("slow/r1/g1", 500 * S)
    assert one.is_redundant("slow/r1/g1")


def test_several_nodes_share_the_work() -> None:
    """Two equal nodes are as fast as Amdahl's law says; the second joins at a checkpoint, and a
    loss makes the other start up anew."""
    one = job(nodes_max=2)
    one.gain(FAST, 0)
    one.gain("fast/r1/g1", 10 * S)
    one.advance(1_080 * S)
    assert list(one.workers) == [FAST, "fast/r1/g1"]
    assert (one.works_from_us(FAST), one.works_from_us("fast/r1/g1")) == (480 * S, 1_080 * S)
    pace_ppm = team_pace_ppm((1_000_000, 1_000_000), 0.085)
    assert pace_ppm == 1_843_318
    assert one.finish_us == 1_080 * S + -(-3_000 * S * S // pace_ppm)
    one.lose(FAST, 1_700 * S)
    left = 3_600 * S * S - 600 * S * S - 600 * S * pace_ppm
    assert one.workers == ()
    assert one.works_from_us("fast/r1/g1") == 2_180 * S
    one.advance(one.deadline_us)
    assert one.done_us == 2_180 * S + -(-left // S)


def test_mixed_nodes_follow_amdahls_law() -> None:
    """The serial part runs on the fastest node, the rest on all by the sum of their speeds."""
    assert team_pace_ppm((2_000_000, 1_000_000), 0.1) == round(1e6 / (0.1 / 2 + 0.9 / 3))
    assert team_pace_ppm((700_000,), 0.1) == 700_000
    assert team_pace_ppm((), 0.1) == 0


def test_worth_by_hand() -> None:
    """With 1 h of work and 2 h of time a pace of 0.5 is needed, so a reference node counts 0.55
    and a tenth of the rest, and a node of twice the speed adds a tenth of its surplus."""
    one = job(deadline_us=2 * HOUR)
    assert one.utility_gap() == 0.5
    assert one.worth_of_gaining("fast/r1") == pytest.approx((0.55 + 0.1 * 0.45, 1.0))
    assert one.worth_of_gaining("slow") == (0.5, 0.5)
    assert one.worth_of_gaining("slow", ["fast"]) == (0.0, 0.0)
    assert one.worth_of_gaining("fastest", ["fast/r2"]) == pytest.approx((0.1, 1.0))
    assert one.worth_of_gaining("other") == (0.0, 0.0)
    one.gain(FAST, 0)
    one.gain(SLOW, 0)
    assert one.utility_gap() == 0.0
    assert one.worth_of_losing(SLOW) == (0.0, 0.0)
    assert one.worth_of_losing(FAST) == pytest.approx((0.595 - 0.5, 0.5))
    assert one.worth_of_losing(SLOW, [FAST]) == (0.5, 0.5)
    assert one.worth_of_losing(FASTEST) == (0.0, 0.0)


def test_past_the_deadline_all_pace_is_needed() -> None:
    """What is late is worth its full pace: not more, and not less."""
    one = job(deadline_us=HOUR)
    one.advance(2 * HOUR)
    assert one.needed_pace() == 2.0
    assert one.worth_of_gaining("fastest") == (2.0, 2.0)


def test_a_node_that_comes_too_late_is_worth_nothing() -> None:
    """The work begins at 480 s and ends at 4080 s, with its last checkpoint at 3480 s. A node takes
    480 s to start: gained at 3000 s it works for the last 600 s, gained a microsecond later it
    could begin only when all is done. It is worth nothing then, none is missing, and it is
    redundant."""
    for at_us, is_worth in ((3_000 * S, True), (3_000 * S + 1, False)):
        one = job()
        one.gain(FAST, 0)
        one.advance(at_us)
        assert one.worth_of_gaining("fastest") == ((0.1, 1.0) if is_worth else (0.0, 0.0))
        late = job(deadline_us=1)
        late.gain(FAST, 0)
        late.advance(at_us)
        assert late.missing("fastest") == int(is_worth)
        one.gain(FASTEST, at_us)
        assert one.is_redundant(FASTEST) != is_worth


def test_the_end_is_as_good_as_a_checkpoint() -> None:
    """Of 3650 s of work 3400 s are done: the next checkpoint is in 200 s. Of the last 50 s 10 s are
    done: the end is in 40 s, and the checkpoint after it never comes."""
    one = job(3_650 / 3_600)
    one.gain(FAST, 0)
    one.advance(480 * S + 3_400 * S)
    assert one.till_checkpoint_s(FAST) == 200.0
    one.advance(480 * S + 3_610 * S)
    assert one.till_checkpoint_s(FAST) == 40.0


def test_faster_nodes_are_missing_in_the_place_of_slower_ones() -> None:
    """On a node that is too slow one that is fast enough is missing, and none as slow; where all
    places are taken by the fastest, none is."""
    one = job(2.0, deadline_us=3 * HOUR // 2)
    one.gain(FAST, 0)
    one.advance(600 * S)
    assert one.utility_gap() > 0
    assert one.missing("fastest") == 1
    assert one.missing("fast") == one.missing("slow") == 0
    two = job(deadline_us=1, nodes_max=2)
    for node in (FASTEST, SLOW):
        two.gain(node, 0)
    assert [two.missing(kind) for kind in ("fastest", "fast", "slow")] == [1, 1, 0]


def test_what_is_missing() -> None:
    """A job asks for one node at least, and for as many as its deadline needs."""
    relaxed = job(nodes_max=4)
    assert relaxed.missing("slow") == 1
    urgent = job(deadline_us=HOUR, nodes_max=4)
    assert urgent.missing("fastest") == 1
    assert urgent.missing("fast") == 2  # 1.1 are needed; two are 1.84
    assert urgent.missing("slow") == 3  # three are 0.5 x 2.56
    assert urgent.missing("other") == 0
    urgent.gain(FAST, 0)
    assert urgent.missing("fast") == 1
    late = job(deadline_us=1, nodes_max=4)
    assert late.missing("slow") == 4
    single = job(deadline_us=1)
    single.gain(FASTEST, 0)
    assert single.missing("fastest") == 0


def test_what_the_job_reports_is_believed() -> None:
    """Progress that is reported replaces what was reckoned, and the job is done when it says so,
    not when it was expected to be."""
    one = job()
    one.gain(FAST, 0)
    one.measure({"done": 0.25, "load": 7.0}, 1_380 * S)
    assert one.work_left_us("fast") == 2_700 * S
    assert one.since_checkpoint_s(FAST) == 300
    one.advance(9_000 * S)
    assert not one.is_done
    assert one.work_left_us("fast") == 1
    assert one.since_checkpoint_s(FAST) == 120
    assert one.till_checkpoint_s(FAST) == 480
    assert one.workers == (FAST,)
    one.measure({"done": 0.5}, 9_000 * S)
    assert one.work_left_us("fast") == 1_800 * S
    one.measure({"done": math.nextafter(1, 0)}, 9_050 * S)
    one.lose(FAST, 9_050 * S)
    one.gain(FAST, 9_050 * S)
    one.measure({"done": math.nextafter(1, 0)}, 9_060 * S)
    one.advance(9_600 * S)
    assert one.done_share < 1
    one.measure({"done": 1.0}, 9_700 * S)
    one.measure({"done": 1.0}, 9_800 * S)
    assert one.done_us == 9_700 * S
    one.measure({"done": 0.9}, 9_900 * S)
    assert not one.is_done
    assert one.workers == (FAST,)


def test_a_report_of_little_work_leaves_nothing_to_fall_back_to() -> None:
    """What is saved is never more than what is done, and never less than nothing."""
    one = job()
    one.gain(FAST, 0)
    one.measure({"done": 0.001}, 1_000 * S)
    assert one.since_checkpoint_s(FAST) == pytest.approx(3.6)
    one.lose(FAST, 1_000 * S)
    assert one.done_share == 0


def test_what_is_done_needs_nothing() -> None:
    """A job that is done asks for no node and does without all of them."""
    one = job()
    one.gain(FAST, 0)
    one.advance(HOUR + 480 * S)
    assert one.is_done
    assert one.is_redundant(FAST)
    assert one.missing("fast") == 0
    assert one.utility_gap() == 0
    assert one.worth_of_losing(FAST) == one.worth_of_gaining("fastest") == Worth(0, 0)
    assert one.next_change_us is None


def test_cold_starts_by_kind() -> None:
    """The cold start of a place is that of its kind, and for a node of its own what is left."""
    one = BatchJob(
        Work(1, SPEEDS), deadline_us=HOUR, cold_start_s={"fast": 240, "slow": 720, "fastest": 0}
    )
    assert one.cold_start_s("slow/r7") == 720
    one.gain(FAST, 0)
    one.advance(100 * S)
    assert one.cold_start_s(FAST) == 140
    one.gain(FASTEST, 100 * S)
    assert one.workers == (FASTEST,)


def test_a_tool_of_the_table_is_work() -> None:
    """A run of Dorado on 8 A100 takes its 48 minutes, and is 48.0/24.3 times as fast on H100."""
    work = Work.of_tool("basecalling", {"a100": Gpus("A100", 8), "h100": Gpus("H100", 8)})
    one = BatchJob(work, deadline_us=HOUR)
    assert one.kinds == ("h100", "a100")
    assert one.work_left_us("a100") == 48 * 60 * S
    assert one.work_left_us("h100") == pytest.approx(24.3 * 60 * S, rel=1e-6)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Work(0, SPEEDS), "hours cannot be run"),
        (lambda: Work(float("nan"), SPEEDS), "hours cannot be run"),
        (lambda: Work(2_501, SPEEDS), "several jobs"),
        (lambda: Work(1, {}), "speeds"),
        (lambda: Work(1, {"a": 1, "b": 0}), "speeds"),
        (lambda: Work(1, {"a": 1, "b/c": 1}), "whole tree"),
        (lambda: Work.of_hours({"a": 0}), "hours above 0"),
        (lambda: BatchJob(Work(1, SPEEDS), deadline_us=1, nodes_max=0), "at least 1"),
        (lambda: BatchJob(Work(1, SPEEDS), deadline_us=1, checkpoint_every_s=0), "more than 0"),
        (lambda: BatchJob(Work(1, SPEEDS), deadline_us=1, serial_fraction=2), "between 0 and 1"),
        (lambda: BatchJob(Work(1, SPEEDS), deadline_us=1, cold_start_s=-1), "0 or more"),
        (lambda: BatchJob(Work(1, SPEEDS), deadline_us=1, cold_start_s={"fast": 1}), "slow"),
        (lambda: job().measure({"done": 1.5}, 0), "between 0 and 1"),
        (lambda: job().work_left_us("other"), "cannot be used"),
        (lambda: job().resume(b"{}"), "not the state"),
        (lambda: job().resume(job(2.0).state()), "another job"),
    ],
)
def test_mistakes_are_explained(make: object, says: str) -> None:
    """A job that cannot be is refused with a sentence that says what to do."""
    assert callable(make)
    with pytest.raises(BadBatch, match=says):
        make()


def test_the_longest_job_fits_its_state() -> None:
    """The state of the largest job can be written and read."""
    one = BatchJob(Work(2_500, SPEEDS), deadline_us=HOUR)
    one.gain(FASTEST, 0)
    one.advance(2_000 * HOUR)
    assert one.is_done
    assert json.loads(one.state())["stretch"]["begun_with"] == 2_500 * HOUR * 1_000_000
    assert copy_of(one, BatchJob(Work(2_500, SPEEDS), deadline_us=HOUR)).is_done


# --- the same rules, second by second -----------------------------------------------------------


class Naive:
    """The rules in steps of a second, with work in fractions of a reference second."""

    COLD, EVERY = {"fast": 4, "slow": 2, "fastest": 7}, 5

    def __init__(self, work: int, nodes_max: int) -> None:
        self.work, self.nodes_max = Fraction(work), nodes_max
        self.now = self.worked_for = 0
        self.done = self.saved = Fraction(0)
        self.ready: dict[str, int] = {}
        self.workers: list[str] = []

    def choose(self) -> None:
        if self.done >= self.work:
            self.done, self.workers = self.work, []
            return
        if self.workers and self.worked_for % self.EVERY:
            return
        if self.workers:
            self.saved = self.done
        ranked = sorted(self.ready, key=lambda each: -SPEEDS[each.partition("/")[0]])
        warm = [each for each in ranked if self.ready[each] <= self.now]
        if not self.workers:
            self.worked_for = 0
        self.workers = warm[: self.nodes_max]

    def step(self) -> None:
        speeds = sorted(
            (round(SPEEDS[w.partition("/")[0]] * S) for w in self.workers), reverse=True
        )
        self.done += Fraction(team_pace_ppm(speeds, 0.25), S)
        self.worked_for += 1
        self.now += 1
        self.choose()

    def gain(self, resource: str) -> None:
        self.ready.setdefault(resource, self.now + self.COLD[resource.partition("/")[0]])
        self.choose()

    def lose(self, resource: str) -> None:
        if self.ready.pop(resource, None) is not None and resource in self.workers:
            self.done = self.saved
            for each in self.workers:
                if each != resource:
                    self.ready[each] = self.now + self.COLD[each.partition("/")[0]]
            self.workers = []
        self.choose()


class Happening(NamedTuple):
    after_s: int
    what: str
    resource: str


RESOURCES = [f"{kind}/g{number}" for kind in SPEEDS for number in range(2)]


def happenings_of(*what: str) -> st.SearchStrategy[list[Happening]]:
    one = st.builds(
        Happening, st.integers(0, 12), st.sampled_from(what), st.sampled_from(RESOURCES)
    )
    return st.lists(one, max_size=25)


HAPPENINGS = happenings_of("gain", "gain", "lose", "wait")
WITH_REPORTS = happenings_of("gain", "gain", "lose", "report")


def small_job(work_s: int, nodes_max: int, deadline_s: int = 60) -> BatchJob:
    return BatchJob(
        Work(work_s / 3_600, SPEEDS),
        deadline_us=deadline_s * S,
        cold_start_s=Naive.COLD,
        checkpoint_every_s=Naive.EVERY,
        nodes_max=nodes_max,
        serial_fraction=0.25,
    )


def happen(one: BatchJob, happening: Happening) -> None:
    at_us = one.now_us + happening.after_s * S
    if happening.what == "gain":
        one.gain(happening.resource, at_us)
    elif happening.what == "lose":
        one.lose(happening.resource, at_us)
    elif happening.what == "report":
        one.measure({"done": happening.after_s / 12}, at_us)
    else:
        one.advance(at_us)


@given(work_s=st.integers(1, 60), nodes_max=st.integers(1, 3), happenings=HAPPENINGS)
def test_it_does_what_the_rules_say_second_by_second(
    work_s: int, nodes_max: int, happenings: list[Happening]
) -> None:
    """Whatever is gained, lost and asked for, the same nodes work and the same work is done as
    when the rules are followed one second at a time."""
    one, naive = small_job(work_s, nodes_max), Naive(work_s, nodes_max)
    for happening in happenings:
        for _ in range(happening.after_s):
            naive.step()
        if happening.what != "wait":
            getattr(naive, happening.what)(happening.resource)
        happen(one, happening)
        assert sorted(one.workers) == sorted(naive.workers)
        assert one.is_done == (naive.done >= naive.work)
        assert one.work_left_us("fast") == -((naive.done - naive.work) * S // 1)
        assert list(one.nodes) == list(naive.ready)


# --- what always holds --------------------------------------------------------------------------


def ask_everything(one: BatchJob) -> list[object]:
    answers: list[object] = [one.kinds, one.nodes, one.is_done, one.workers, one.finish_us]
    answers += [one.utility_gap(), one.needed_pace(), one.done_share, one.next_change_us]
    for kind in SPEEDS:
        answers += [one.missing(kind), one.work_left_us(kind), one.worth_of_gaining(kind, ["slow"])]
    for resource in RESOURCES:
        answers += [one.worth_of_losing(resource), one.worth_of_losing(resource, one.nodes[:1])]
        answers += [one.is_redundant(resource), one.cold_start_s(resource)]
        answers += [one.since_checkpoint_s(resource), one.till_checkpoint_s(resource)]
        answers += [one.works_from_us(resource)]
    return answers


@given(
    work_s=st.integers(1, 60),
    nodes_max=st.integers(1, 3),
    happenings=WITH_REPORTS,
    cut=st.integers(0, 25),
)
def test_questions_change_nothing_and_memory_is_whole(
    work_s: int, nodes_max: int, happenings: list[Happening], cut: int
) -> None:
    """Asked twice it answers the same, and one that goes on from its state has the same future."""
    one = small_job(work_s, nodes_max)
    for happening in happenings[:cut]:
        happen(one, happening)
        before = one.state()
        assert ask_everything(one) == ask_everything(one)
        assert one.state() == before
    other = copy_of(one, small_job(work_s, nodes_max))
    for happening in happenings[cut:]:
        happen(one, happening)
        happen(other, happening)
    assert ask_everything(other) == ask_everything(one)
    assert other.state() == one.state()


@given(work_s=st.integers(1, 60), nodes_max=st.integers(1, 3), happenings=HAPPENINGS)
def test_what_always_holds_of_a_job(
    work_s: int, nodes_max: int, happenings: list[Happening]
) -> None:
    """No more is done than the fastest team could have; `now` is between nothing and `full`; all
    that is redundant can go without any change; and it ends exactly when it says that it will."""
    one = small_job(work_s, nodes_max)
    team_ppm = team_pace_ppm((2_000_000,) * nodes_max, 0.25)
    for happening in happenings:
        before_us, left_us = one.now_us, one.work_left_us("fast")
        happen(one, happening)
        most_us = -(-(one.now_us - before_us) * team_ppm // S)
        assert left_us - one.work_left_us("fast") <= most_us
        assert len(one.workers) <= nodes_max
        for kind in SPEEDS:
            assert 0 <= one.worth_of_gaining(kind).now <= one.worth_of_gaining(kind).full
        for resource in one.nodes:
            assert 0 <= one.worth_of_losing(resource).now <= one.worth_of_losing(resource).full
    lean, alone = (copy_of(one, small_job(work_s, nodes_max)) for _ in range(2))
    for resource in one.nodes:
        if one.is_redundant(resource):
            lean.lose(resource, one.now_us)
        elif one.workers:
            joins_us = one.works_from_us(resource)
            assert joins_us is not None
            alone.advance(max(joins_us, alone.now_us))
            assert resource in alone.workers or joins_us < alone.now_us
    expected_us = one.finish_us if one.next_change_us == one.finish_us else None
    one.advance(10_000 * S)
    lean.advance(10_000 * S)
    assert lean.done_us == one.done_us
    assert one.is_done or not one.nodes
    assert expected_us in (None, one.done_us)


@given(
    begun_with=st.integers(-50, 50),
    pace_ppm=st.integers(1, 9),
    every_us=st.integers(1, 9),
    work=st.integers(51, 200),
    at_us=st.integers(7, 60),
)
def test_a_stretch_is_what_adding_up_gives(
    begun_with: int, pace_ppm: int, every_us: int, work: int, at_us: int
) -> None:
    """Done, not saved yet, the next checkpoint and the end are those of a count in microseconds."""
    stretch = Stretch(7, begun_with, pace_ppm, every_us)
    done = saved = begun_with
    for now_us in range(7, at_us):
        done += pace_ppm
        if (now_us + 1 - 7) % every_us == 0:
            saved = done
    assert stretch.done(at_us) == done
    assert stretch.unsaved(at_us) == done - saved
    assert stretch.checkpoint_us(at_us) == next(
        t for t in range(at_us, at_us + every_us) if (t - 7) % every_us == 0
    )
    corrected = stretch.corrected(at_us, work)
    assert corrected.done(at_us) == work
    assert corrected.unsaved(at_us) == stretch.unsaved(at_us)
    assert corrected.checkpoint_us(at_us) == stretch.checkpoint_us(at_us)
    end_us = stretch.reaches_us(work)
    assert end_us is not None
    assert stretch.done(end_us) >= work > stretch.done(end_us - 1)
    assert Stretch(7, begun_with, 0, every_us).reaches_us(work) is None


def test_it_is_an_application() -> None:
    """A batch job has every word and every hook of an application."""
    application: Application = job()
    application.gain(FAST, 0)
    assert application.nodes == (FAST,)
