"""Studies, read from YAML and run: the same numbers each time, and errors that know their line."""

from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import msgspec
import pytest

from laissez.deadline.generator import sample_traces
from laissez.deadline.job import US_PER_HOUR, BadJob, Observation, Offer
from laissez.deadline.policy import Policy
from laissez.deadline.registry import POLICIES, Brief, Known
from laissez.deadline.traces import SpotTrace
from laissez.experiments.deadline import evaluation
from laissez.experiments.deadline.evaluation import evaluate, load_traces, on_traces
from laissez.experiments.deadline.reading import built_in, read_built_in, read_study
from laissez.experiments.deadline.study import BadStudy, Result, Study, Tallies, changed, labels

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "spot"
HOUR_US = US_PER_HOUR
TICK_US = HOUR_US // 6

SMALL = """\
title: A small study
traces: ["*"]
work: 6h
fraction: 0.75
changeover: 12m
starts: 6
policies: [on_demand, greedy, uniform_progress, omniscient]
"""


def study(text: str = SMALL, **others: object) -> Study:
    return msgspec.structs.replace(read_study(text, name="small", file_name="s.yaml"), **others)


def trace(
    counts: str,
    *,
    zone: str = "here",
    resource: str = "gpu",
    nodes: int = 1,
    kind: str = "availability",
) -> SpotTrace:
    """A digit is the number of nodes for an hour, in ticks of ten minutes."""
    ticks = tuple(int(count) for count in counts for _ in range(6))
    return SpotTrace(f"made/{zone}_{resource}", zone, resource, kind, nodes, TICK_US, ticks)


SOME = [trace("110101100111010110" * 3), trace("000110000001100010" * 3, zone="there")]


# --- reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", built_in())
def test_every_study_that_comes_with_laissez_can_be_read(name: str) -> None:
    """It has a title, as many starts as the literature takes, and no two settings alike."""
    found = read_built_in(name)
    assert found.name == name
    assert found.title
    assert found.starts == 300
    assert len(set(found.settings)) == len(found.settings)
    assert len(set(labels(found.settings))) == len(found.settings)


def test_the_studies_are_there() -> None:
    """Each comparison that was asked for has a study."""
    assert set(built_in()) == {
        "availability",
        "changeovers",
        "fractions",
        "gap",
        "hours",
        "instances",
        "lengths",
        "loose",
        "relaxed",
        "unseen",
        "workloads",
        "zones",
    }
    with pytest.raises(BadStudy, match="no study 'ours'; take one of availability, "):
        read_built_in("ours")


def test_several_values_make_a_setting_for_each_combination() -> None:
    """The deadline follows from the fraction, exactly."""
    found = study(SMALL.replace("0.75", "[0.6, 0.8]").replace("12m", "[0.1h, 12m, 18m]"))
    assert len(found.settings) == 6
    assert [each.deadline_us for each in found.settings[::3]] == [10 * HOUR_US, 7.5 * HOUR_US]
    assert labels(found.settings)[4] == "fraction 0.8, changeover 0.2 h"


def test_a_setting_stands_on_the_common_fields() -> None:
    """What it says itself counts more; a deadline takes the place of a fraction."""
    found = study(
        SMALL
        + "settings:\n- {label: a, deadline: 7h, published: 0.4}\n- {label: a, deadline: 8h}\n"
        "- {label: b, work: 3h}\n"
    )
    assert [each.deadline_us // HOUR_US for each in found.settings] == [7, 8, 4]
    assert [each.work_us // HOUR_US for each in found.settings] == [6, 6, 3]
    assert found.settings[0].fraction == 6 / 7
    assert [each.published for each in found.settings] == [0.4, None, None]
    assert labels(found.settings) == ("a, deadline 7 h", "a, deadline 8 h", "b")


@pytest.mark.parametrize(
    ("old", "new", "line", "sentence"),
    [
        ("0.75", "\n  - 0.5\n  - 1.5", 6, "1.5 is no fraction"),
        ("0.75", "\n  - 0.5\n  - most", 6, "must be a number, not text"),
        ("0.75", "0.99", 4, "the deadline leaves no time"),
        ("6h", "6", 3, "a duration needs a unit; write 6h"),
        ("6h", "[5h, 1.5]", 3, "write 1.5h"),
        ("6h", "1:30", 3, "write 12h"),
        ("12m", "12", 5, "write 12m"),
        ("6h", "6 hours", 3, "'6 hours' is not a duration"),
        ("6h", "0h", 3, "takes no time at all"),
        ("6h", "[]", 3, "'work' has no values"),
        ("work: 6h\n", "", 1, "'work' is missing"),
        ("title: A small study\n", "", 1, "'title' is missing"),
        ("starts: 6", "starts: 0", 6, "at least one start"),
        ("starts: 6", "days: 0", 6, "at least one day"),
        ("starts: 6", "nodes: 0", 6, "at least one node"),
        ("starts: 6", "price_ratio: 1", 6, "a ratio above 1"),
        (
            "starts: 6",
            "begins: 6",
            6,
            "no field 'begins'; take it out, or take one of: changeover, ",
        ),
        ("starts: 6", "deadline: 9h", 6, "either what 'fraction'"),
        ("starts: 6", "zones: some", 6, "'some' is none of: single, all"),
        ("starts: 6", "fractions: 6", 6, "no field 'fractions'; did you mean 'fraction'?"),
        ("starts: 6", "plot: {z: work}", 6, "no field 'z'; take it out, or take one of: x, y"),
        ("starts: 6", "settings: [{starts: 6}]", 6, "move it to the top"),
        ("starts: 6", "group_by: half", 6, "'half' is none of: availability, halves"),
        ("starts: 6", "starts: 6\nwork: 7h", 7, "'work' is there twice"),
        ("starts: 6", "settings:\n- label: a\n  label: b", 8, "'label' is there twice"),
        ('["*"]', "['']", 2, "names no traces"),
        ("starts: 6", "plot: {x: price}", 6, "'price' is none of: work, fraction, changeover, "),
        ("starts: 6", "settings:\n  - label: a\n  - work_error: 2", 8, "between 0 and 0.9"),
        ("starts: 6", "settings: 5", 6, "must be a list, not a whole number"),
        ("starts: 6", "group_by: availability\nzones: all", 6, "has no one number"),
        ("starts: 6", "title: [6", 7, "not YAML"),
        ("starts: 6", f"nodes: {list(range(1, 1003))}", 1, "more than 1,000 settings"),
        ("[on_demand, greedy, uniform_progress, omniscient]", "gready", 7, "no policy 'gready'"),
        ("greedy", "gready", 7, "no policy 'gready'; take one of on_demand, greedy"),
        (SMALL, "", 1, "must be fields with values, not nothing"),
        (SMALL, "title: \x00", 1, "not YAML"),
    ],
)
def test_what_is_wrong_with_a_study_is_said_with_its_line(
    old: str, new: str, line: int, sentence: str
) -> None:
    """The file, the line, and what to do."""
    assert old in SMALL
    with pytest.raises(BadStudy) as caught:
        study(SMALL.replace(old, new))
    assert str(caught.value).startswith(f"s.yaml:{line}: ")
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_policy_and_one_pattern_need_no_list() -> None:
    """A text stands for a list of one."""
    text = SMALL.replace('["*"]', "'*'")
    found = study(text.replace("[on_demand, greedy, uniform_progress, omniscient]", "greedy"))
    assert found.policies == ("greedy",)
    assert found.settings[0].traces == ("*",)


def test_what_is_changed_is_changed_in_all_settings() -> None:
    """Deadlines follow, published savings no longer fit, and settings that become equal are one."""
    found = changed(read_built_in("workloads"), work_us=10 * HOUR_US, fraction=0.8)
    assert {each.deadline_us for each in found.settings} == {12.5 * HOUR_US}
    assert {each.published for each in found.settings} == {None}
    assert len(found.settings) == 3
    swept = read_built_in("fractions")
    assert len(changed(swept, fraction=0.7).settings) == 1
    assert changed(swept) is swept


# --- running ------------------------------------------------------------------------------------


def test_a_run_on_known_capacity_has_known_hours() -> None:
    """Spot all the time: all work is there, one changeover, and the saving is what the price says.

    Without any, greedy waits for the safety net, and pays what on-demand pays.
    """
    text = SMALL.replace("fraction: 0.75", "fraction: 0.75\nprice_ratio: 4")
    always = evaluate(study(text), [trace("1" * 40)], processes=1).policies
    for name in ("greedy", "uniform_progress", "omniscient"):
        assert always[name].spot_hours == pytest.approx(6)
        assert always[name].on_demand_hours == 0
        assert always[name].spot_changeover_hours == pytest.approx(0.2)
        assert always[name].saving == pytest.approx(0.75)
        assert always[name].saving_p25 == pytest.approx(0.75)
        assert always[name].spot_utilisation == pytest.approx(1)
        assert (always[name].missed, always[name].runs) == (0, 6)
    never = evaluate(study(text), [trace("0" * 40)], processes=1).policies
    assert never["greedy"].on_demand_hours == pytest.approx(6)
    assert never["greedy"].saving == pytest.approx(0)
    assert never["greedy"].spot_utilisation is None


def test_the_numbers_do_not_depend_on_the_number_of_processes() -> None:
    """One process or two, with errors of work and changeover as well."""
    text = SMALL + "settings:\n- label: a\n- {label: b, work_error: 0.2, changeover_error: 0.5}\n"
    small = study(text, starts=30, policies=("greedy", "uniform_progress"))
    told: list[tuple[int, int]] = []
    here = evaluate(small, SOME, processes=1, progress=lambda *done: told.append(done))
    assert here == evaluate(small, SOME, processes=2)
    assert told == sorted(told)
    assert told[-1] == (360, 360)


def test_a_trace_has_its_own_starts_whatever_else_is_evaluated() -> None:
    """The tallies of a trace are the same alone and among others; another seed gives others."""
    small = study(SMALL, policies=("greedy",))
    both = evaluate(small, SOME, processes=1)
    alone = evaluate(small, SOME[1:], processes=1)
    assert both.cells[0, "made/there_gpu"] == alone.policies
    other = evaluate(msgspec.structs.replace(small, seed=2), SOME[1:], processes=1)
    assert other.policies != alone.policies


def test_the_mean_over_all_is_the_mean_of_traces_and_settings() -> None:
    """Each run counts the same, and costs are relative to on-demand in the same setting."""
    small = study(SMALL.replace("6h", "[3h, 6h]"))
    result = evaluate(small, SOME, processes=1)
    for name in small.policies:
        by_setting = [each.policies[name].saving for each in result.settings]
        by_trace = [each.policies[name].saving for each in result.traces]
        by_cell = [cell[name].saving for cell in result.cells.values()]
        for savings in (by_setting, by_trace, by_cell):
            assert sum(savings) / len(savings) == pytest.approx(result.policies[name].saving)
    assert result.policies["on_demand"].saving == pytest.approx(0)
    assert len(result.cells) == 4


def test_the_gap_is_between_uniform_progress_and_omniscient() -> None:
    """They close none and all of it; without them beside there is no such number."""
    result = evaluate(study(SMALL), SOME, processes=1)
    assert result.policies["uniform_progress"].gap_closed == 0
    assert result.policies["omniscient"].gap_closed == 1
    greedy = result.policies["greedy"]
    gap = result.policies["omniscient"].saving - result.policies["uniform_progress"].saving
    assert gap > 0
    assert greedy.gap_closed == pytest.approx(
        (greedy.saving - result.policies["uniform_progress"].saving) / gap
    )
    alone = evaluate(study(SMALL, policies=("greedy",)), SOME, processes=1).policies["greedy"]
    assert (alone.gap_closed, alone.spot_utilisation) == (None, None)
    assert alone.saving == greedy.saving


def test_a_gang_runs_where_there_is_room_for_all_of_it() -> None:
    """Two of three nodes are no capacity for three, and costs stay relative."""
    result = evaluate(
        study(SMALL.replace("starts: 6", "nodes: [2, 3]")), [trace("2" * 40, nodes=4)], processes=1
    )
    two, three = (each.policies["greedy"] for each in result.settings)
    assert two.spot_hours == pytest.approx(6)
    assert three.spot_hours == 0
    assert two.saving == pytest.approx(2 / 3)


def test_with_all_zones_a_job_finds_capacity_in_any_of_them() -> None:
    """Zones of one date and resource that take turns are as good as one that is always there.

    Who knows the future knows it for one zone only and doesn't take part; another resource is no
    zone of the job.
    """
    zones = [
        trace("10" * 20),
        trace("01" * 20, zone="there"),
        trace("1" * 40, zone="elsewhere", resource="cpu"),
    ]
    text = SMALL.replace("12m", "0m").replace('"*"', '"*gpu.json"')
    single, every = evaluate(
        study(text + "settings:\n- zones: single\n- zones: all\n"), zones, processes=1
    ).settings
    assert every.policies["greedy"].spot_hours == pytest.approx(6)
    assert single.policies["greedy"].spot_hours < 6
    assert "omniscient" in single.policies
    assert "omniscient" not in every.policies


def test_means_stand_together_only_if_they_are_of_the_same_runs() -> None:
    """Who did not run in all settings is in none of the sums over them; settings keep theirs."""
    zones = [trace("10" * 20), trace("01" * 20, zone="there")]
    text = SMALL + "settings:\n- zones: single\n- zones: all\n"
    result = evaluate(study(text), zones, processes=1)
    assert set(result.policies) == {"on_demand", "greedy", "uniform_progress"}
    assert {tally.runs for tally in result.policies.values()} == {24}
    assert all("omniscient" not in part.policies for part in result.traces)
    assert "omniscient" in result.settings[0].policies
    with pytest.raises(BadStudy, match="has no run"):
        evaluate(study(SMALL + "zones: all\n", policies=("omniscient",)), zones, processes=1)


def test_zones_are_of_the_setting_and_of_one_size() -> None:
    """With all zones, what a setting doesn't ask for is no zone of it, whoever else asked for it.

    Nor are traces that tell of gangs zones beside those of single nodes.
    """
    here, there = trace("10" * 20), trace("01" * 20, zone="there")
    text = SMALL.replace("12m", "0m").replace('"*"', '"*/here*"') + "zones: all\n"
    greedy = study(text, policies=("greedy",))
    alone = evaluate(greedy, [here], processes=1)
    assert evaluate(greedy, [here, there], processes=1) == alone
    every = study(text.replace('"*/here*"', '"*"'), policies=("greedy",))
    gang = trace("99" * 20, zone="there", nodes=16)
    sizes = evaluate(every, [here, gang], processes=1)
    assert sizes.cells[0, here.name] == alone.policies
    assert evaluate(every, [here, there], processes=1).cells[0, here.name] != alone.policies


@pytest.mark.parametrize("other", [{"kind": "preemption"}, {"nodes": 16}])
def test_two_traces_of_one_name_are_refused(other: dict[str, Any]) -> None:
    """Their numbers would be mixed up; one that no setting asks for disturbs nobody."""
    namesakes = [trace("1" * 40), trace("0" * 40, **other)]
    with pytest.raises(BadStudy, match="two traces are called made/here_gpu, availability/1-node/"):
        evaluate(study(), namesakes, processes=1)
    one = study(SMALL.replace('"*"', "availability/1-node/*"), policies=("greedy",))
    result = evaluate(one, namesakes, processes=1)
    assert result.policies["greedy"].spot_hours == pytest.approx(6)


def test_runs_are_grouped_by_what_their_window_has() -> None:
    """Half of the time with capacity divides the runs, three quarters of the deadline the jobs."""
    text = SMALL.replace("0.75", "[0.5, 0.8]") + "group_by: availability\n"
    zones = [trace("0" * 40), trace("1" * 40, zone="there")]
    groups = {each.name: each.policies for each in evaluate(study(text), zones, processes=1).groups}
    assert len(groups) == 4
    for name, tallies in groups.items():
        is_rich = "over 50%" in name
        assert tallies["greedy"].runs == 6
        assert tallies["greedy"].spot_hours == pytest.approx(6 if is_rich else 0)
    mixed = evaluate(study(text), [trace("0" * 20 + "1" * 20)], processes=1)
    assert sum(each.policies["greedy"].runs for each in mixed.groups) == 12


def test_every_second_trace_is_held_out() -> None:
    """In the order of their names, whatever the order in which they are given."""
    zones = [trace(sign * 40, zone=zone) for zone, sign in [("b", "1"), ("a", "0"), ("c", "0")]]
    groups = evaluate(study(SMALL + "group_by: halves\n"), zones, processes=1).groups
    hours = {each.name: each.policies["greedy"].spot_hours for each in groups}
    assert hours == {"development traces": 0, "held-out traces": pytest.approx(6)}


def test_a_trace_without_room_moves_no_other_into_another_half() -> None:
    """The half of a trace follows from all traces, also from those that are too short to run."""
    zones = [trace("0" * length, zone=zone) for zone, length in [("a", 2), ("b", 40), ("c", 40)]]
    result = evaluate(study(SMALL + "group_by: halves\n"), zones, processes=1)
    assert [each.name for each in result.traces] == ["made/b_gpu", "made/c_gpu"]
    assert result.held_out == ("made/b_gpu",)
    halves = {each.name: each.policies for each in result.groups}
    assert halves["held-out traces"] == result.cells[0, "made/b_gpu"]
    assert halves["development traces"] == result.cells[0, "made/c_gpu"]


def test_a_start_leaves_the_whole_deadline_inside_the_trace() -> None:
    """A trace with room for three starts has three, one without is left out; both are said."""
    tight = study(SMALL.replace("0.75", "0.8"), starts=10)  # 7.5 hours are 45 ticks
    long = msgspec.structs.replace(SOME[0], counts=(1,) * 47)
    short = msgspec.structs.replace(SOME[1], counts=(1,) * 44)
    result = evaluate(tight, [long, short], processes=1)
    assert result.policies["greedy"].runs == 3
    assert [each.name for each in result.traces] == [long.name]
    assert len(result.notes) == 2
    with pytest.raises(BadStudy, match="has no run"):
        evaluate(tight, [short], processes=1)


UNALIGNED = SMALL.replace("fraction: 0.75", "deadline: 391m").replace("12m", "18m")


def test_a_deadline_within_a_tick_is_kept_to_the_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job has the deadline of its study, not that of the tick: later is late, by a minute too.

    Nobody who is asked is late then, and omniscient is still the bound.
    """

    class LastTick(Policy):
        """Takes on-demand at minute 20, so it is done at 398: in the tick of the deadline."""

        def decide(self, seen: Observation) -> Offer | None:
            return seen.on_demand if seen.at_us >= 2 * TICK_US else None

        def choose(self, seen: Observation) -> Offer | None:
            raise AssertionError("nobody asks")

    told: list[int] = []

    def make(brief: Brief) -> Policy:
        told.append(brief.job.deadline_us)
        return LastTick(brief.job)

    monkeypatch.setitem(POLICIES, "last_tick", Known("Last tick", make))
    careful = ("greedy", "time_sliced", "uniform_progress", "lindy", "omniscient")
    result = evaluate(study(UNALIGNED, policies=("last_tick", *careful)), SOME, processes=1)
    assert set(told) == {391 * HOUR_US // 60}
    assert result.policies["last_tick"].missed == 12
    assert {result.policies[name].missed for name in careful} == {0}
    for tallies in result.cells.values():
        _bounded({name: tallies[name] for name in careful})


def test_the_tick_of_a_deadline_is_inside_the_trace() -> None:
    """A trace that ends with the deadline's tick has one start, one that ends before it none."""
    assert -(-391 // 10) == 40
    for ticks, runs in ((41, 2), (40, 1)):
        zone = msgspec.structs.replace(SOME[0], counts=(1,) * ticks)
        assert evaluate(study(UNALIGNED), [zone], processes=1).policies["greedy"].runs == runs
    short = msgspec.structs.replace(SOME[0], counts=(1,) * 39)
    with pytest.raises(BadStudy, match="has no run"):
        evaluate(study(UNALIGNED), [short], processes=1)


def test_only_the_first_days_count_if_the_study_says_so() -> None:
    """What comes after them is never seen."""
    days = trace("0" * 24 + "1" * 48)
    result = evaluate(study(SMALL + "days: 1\n"), [days], processes=1)
    assert result.policies["omniscient"].spot_hours == 0


def test_a_policy_that_can_not_do_the_job_says_so() -> None:
    """Randomised shifted greedy needs twice the time, and tells it from another process too."""
    wrong = study(SMALL, policies=("shifted_greedy",), starts=30)
    for processes in (1, 2):
        with pytest.raises(BadJob, match="twice the work"):
            evaluate(wrong, SOME, processes=processes)


def test_an_interruption_ends_the_other_processes() -> None:
    """At once, and without a word from a thread or process; pytest fails on such."""
    endless = study(SMALL, starts=200, policies=("greedy", "omniscient"))
    before = set(active_children())

    def interrupt(done: int, total: int) -> None:
        assert done < total
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(endless, [trace("10110" * 60)], processes=2, progress=interrupt)
    assert set(active_children()) <= before


class Late(Policy):
    """Waits until the deadline has passed, then works."""

    def decide(self, seen: Observation) -> Offer | None:
        return seen.on_demand if seen.at_us >= self.job.deadline_us else None

    def choose(self, seen: Observation) -> Offer | None:
        raise AssertionError("nobody asks")


@pytest.mark.parametrize("error", ["", "work_error: 0.3\nchangeover_error: 0.5\n"])
def test_a_missed_deadline_is_counted(error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run of a policy that is late, with and without errors."""
    monkeypatch.setitem(POLICIES, "late", Known("Late", lambda brief: Late(brief.job)))
    result = evaluate(study(SMALL + error, policies=("greedy", "late")), SOME, processes=1)
    assert (result.policies["late"].missed, result.policies["greedy"].missed) == (12, 0)


# --- what is not known beforehand ----------------------------------------------------------------


def test_uncertain_runs_keep_the_relaxed_guarantee() -> None:
    """Work and changeovers that take longer than was told make nobody later than they explain."""
    text = SMALL.replace("starts: 6", "work_error: 0.3\nchangeover_error: 0.9\nstarts: 60")
    policies = ("greedy", "time_sliced", "uniform_progress", "lindy")
    result = evaluate(study(text, policies=policies), SOME, processes=1)
    assert {tally.missed for tally in result.policies.values()} == {0}
    hours = result.policies["greedy"].spot_hours + result.policies["greedy"].on_demand_hours
    assert hours == pytest.approx(6, rel=0.1)
    assert hours != pytest.approx(6, rel=0.001)


def test_all_policies_meet_the_same_surprises() -> None:
    """The work of a run is what it is, whoever does it."""
    text = SMALL.replace("starts: 6", "work_error: 0.3\nchangeover_error: 0.5\nstarts: 20")
    for tallies in evaluate(study(text), SOME, processes=1).cells.values():
        done = [tally.spot_hours + tally.on_demand_hours for tally in tallies.values()]
        assert done == pytest.approx([done[0]] * len(done))


# --- all studies, without and with the data ------------------------------------------------------


OF_ONE_JOB = ("hours", "zones")


@pytest.fixture(scope="module")
def samples() -> list[SpotTrace]:
    return sample_traces(days=14)


@pytest.mark.parametrize(("name", "group_by"), [("gap", None), ("availability", "availability")])
def test_sample_traces_have_no_halves(
    name: str, group_by: str | None, samples: list[SpotTrace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was developed on them, so none is held out; other groups stay."""
    monkeypatch.setattr(evaluation, "sample_traces", lambda: samples)
    assert load_traces(read_built_in(name), None)[0].group_by == group_by


@pytest.mark.parametrize("name", sorted(set(built_in()) - {"instances"}))
def test_every_study_runs_without_the_data(
    name: str, samples: list[SpotTrace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On sample traces, with nobody late and omniscient never beaten."""
    monkeypatch.setattr(evaluation, "sample_traces", lambda: samples)
    found, traces = load_traces(read_built_in(name), None)
    assert found.data == "sample"
    assert {each.published for each in found.settings} == {None}
    # Their tables take longer than all the rest; Lindy needs one for each job.
    slow = {"omniscient_slices"} if name in OF_ONE_JOB else {"omniscient_slices", "lindy"}
    policies = tuple(each for each in found.policies if each not in slow)
    assert ("lindy" in policies) == (name in OF_ONE_JOB)
    small = msgspec.structs.replace(
        changed(found, work_us=12 * HOUR_US), starts=1, policies=policies
    )
    result = evaluate(small, traces[::3], processes=1)
    assert len(result.settings) == len(small.settings)
    assert all(tally.missed == 0 for tally in result.policies.values())
    for tallies in result.cells.values():
        _bounded(tallies)


def test_samples_are_of_single_nodes() -> None:
    """A study of several at once needs real traces."""
    with pytest.raises(BadStudy, match="the study instances runs several nodes at once"):
        load_traces(read_built_in("instances"), None)


def test_the_jobs_of_a_study_run_on_other_traces() -> None:
    """On all of them in each setting; what the literature says of its own doesn't hold there."""
    found = on_traces(read_built_in("workloads"), SOME)
    assert {each.traces for each in found.settings} == {("*",)}
    assert {each.published for each in found.settings} == {None}
    assert [each.label for each in found.settings][::2] == [
        "ML training",
        "Bioinformatics",
        "Analytics",
    ]
    with pytest.raises(BadStudy, match="runs 16 nodes at once, and made/here_gpu tells of fewer"):
        on_traces(read_built_in("instances"), SOME)


def _bounded(tallies: Tallies) -> None:
    bound = tallies.get("omniscient")
    for tally in tallies.values():
        assert bound is None or tally.cost >= bound.cost - 1e-9


@pytest.fixture(scope="module")
def with_data() -> Callable[..., Result]:
    """Runs a study that comes with laissez on the real traces."""
    if not DATA.is_dir():
        pytest.skip("the traces are not here")

    def run(name: str, *, starts: int, policies: tuple[str, ...]) -> Result:
        small = msgspec.structs.replace(read_built_in(name), starts=starts, policies=policies)
        found, traces = load_traces(small, DATA)
        return evaluate(found, traces, processes=1)

    return run


@dataclass
class Published:
    policy: str
    on_demand_hours: float
    spot_hours: float
    starts: int


@pytest.mark.parametrize(
    "published",
    [
        Published("greedy", 30.8, 17.2, 300),
        Published("uniform_progress", 25.1, 22.9, 300),
        Published("omniscient", 20.7, 27.4, 20),
    ],
    ids=lambda published: published.policy,
)
def test_the_published_hours_are_reproduced(
    with_data: Callable[..., Result], published: Published
) -> None:
    """On the two-week traces each mean is within an hour of Wu et al. (NSDI 2024)."""
    result = with_data("hours", starts=published.starts, policies=(published.policy,))
    tally = result.policies[published.policy]
    assert tally.runs == 8 * published.starts
    assert tally.missed == 0
    assert tally.on_demand_hours == pytest.approx(published.on_demand_hours, abs=1)
    assert tally.spot_hours == pytest.approx(published.spot_hours, abs=1)


def test_each_setting_runs_on_the_traces_that_it_names(
    with_data: Callable[..., Result],
) -> None:
    """The three workloads have a trace each, with the prices and deadlines of their own."""
    result = with_data("workloads", starts=2, policies=("uniform_progress",))
    assert {name for _, name in result.cells} == {
        "aws-04-22-2023/us-west-2b_v100_1",
        "gcp-04-30-2023/us-east1-b_c3-88",
        "aws-04-19-2023/us-east-1c_intel_64",
    }
    assert len(result.cells) == 6
    assert result.notes == ()
