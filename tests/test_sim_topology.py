"""Figure 10: the same jobs bid in two ways, what is made of the results, and how it is told."""

from collections.abc import Callable
from itertools import product
from pathlib import Path

import msgspec
import pytest

from laissez.model.paths import tree_of
from laissez.simulation.figures import FIGURES, topology
from laissez.simulation.figures.contention import cluster_of
from laissez.simulation.figures.figure import Table, Wanted
from laissez.simulation.figures.topology import (
    BATCHES,
    FIGURE,
    GLOBAL_BATCH,
    LABELS,
    WANTED_RATIO,
    Outcome,
    Play,
    Report,
    jobs_of,
    setting_for,
)
from laissez.simulation.intervals import Interval
from laissez.simulation.projects import Training
from laissez.simulation.runs import Runs

SEEDS = (100, 101)
HOURS = {"aware": 12.0, "oblivious": 6.0, "fcfs": 9.0}
PLAYS: list[Play] = []


def played(task: Play, data: Path | None) -> Outcome:
    """So many hours of work per hour by the way, one more with the second seed, a tenth more for
    every batch of 32 samples."""
    PLAYS.append(task)
    hours = (HOURS[task.way] + task.seed - 100) * (1 + task.global_batch / 320)
    return Outcome(hours, HOURS[task.way] / 20, task.seed - 98)


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Report]:
    """The figure of runs that take no time."""
    PLAYS.clear()
    monkeypatch.setattr(topology, "run", played)

    def report(contracts: tuple[str, ...] = FIGURE.contracts, *, is_quick: bool = False) -> Report:
        wanted = Wanted(SEEDS, FIGURE.regimes, contracts, is_quick)
        found = FIGURE.compute(wanted, Runs(processes=1))
        assert isinstance(found, Report)
        return found

    return report


# --- who plays ----------------------------------------------------------------------------------


def test_it_is_one_of_the_figures() -> None:
    """Under its number, with the one regime that it has."""
    assert FIGURES["10"] is FIGURE
    assert (FIGURE.name, FIGURE.regimes, FIGURE.quick_regimes) == ("10", (1.5,), (1.5,))


def test_all_train_with_the_batch_and_need_four_to_eight_nodes() -> None:
    """As many jobs as bring demand nearest to 1.5 times capacity, each with what it does alone."""
    for batch in (32, 128):
        found = jobs_of(100, is_small=True, global_batch=batch)
        assert len(found.projects) > 2
        assert abs(found.ratio - 1.5) < 0.3
        for project in found.projects:
            labour = project.labour
            assert isinstance(labour, Training)
            assert labour.spec.setup.global_batch == batch
            seconds = (project.ends_us - project.arrives_us) / 1e6 - labour.spec.reconfigure_s
            assert 3.99 <= labour.hours * 3_600 / (0.95 * seconds) <= 8.01
        assert found.alone.keys() == {project.name for project in found.projects}


def test_both_ways_have_the_same_jobs_and_differ_in_where_they_look() -> None:
    """All but `looks_near` is the same: the cluster, the money, the work."""
    found = jobs_of(100, is_small=True)
    aware, oblivious, fcfs = (setting_for(found, way, True) for way in LABELS)
    assert aware == fcfs != oblivious
    assert set(aware.resources) == set(cluster_of(True))
    assert aware.budgets == oblivious.budgets
    for one, other in zip(aware.projects, oblivious.projects, strict=True):
        assert isinstance(one.labour, Training)
        assert isinstance(other.labour, Training)
        assert (one.labour.looks_near, other.labour.looks_near) == (True, False)
        labour = msgspec.structs.replace(other.labour, looks_near=True)
        assert msgspec.structs.replace(other, labour=labour) == one


def test_the_scene_is_the_run_of_who_looks_near() -> None:
    """What one tenant's life is told of."""
    assert FIGURE.scene is not None
    scene = FIGURE.scene(100, 1.5, "equal", 0.7, True, None)
    found = jobs_of(100, is_small=True)
    assert scene.setting == setting_for(found, "aware", True)
    assert scene.alone == found.alone


def test_a_run_says_what_its_jobs_came_to() -> None:
    """A real one, the line of first come first served: nobody is displaced, something gets done,
    and no more an hour than the nodes could do, each far less than twice an H100 alone."""
    outcome = topology.run(Play(100, True, GLOBAL_BATCH, "fcfs"), None)
    nodes = [resource for resource in cluster_of(True) if tree_of(resource) in ("h100", "a100")]
    assert 0 < outcome.hours_per_hour < 2 * len(nodes)
    assert 0 < outcome.mean_retention <= 1
    assert outcome.displaced == 0
    assert topology.run(Play(100, True, GLOBAL_BATCH, "fcfs"), None) == outcome


# --- what is made of it -------------------------------------------------------------------------


def test_every_batch_is_played_in_every_way_with_every_seed(
    reported: Callable[..., Report],
) -> None:
    """Once each; a quick look has one batch and a small cluster, and who does not want the line has
    only the market's two ways."""
    reported()
    keys = [(task.global_batch, task.way, task.seed) for task in PLAYS]
    assert sorted(keys) == sorted(product(BATCHES, LABELS, SEEDS))
    assert not any(task.is_small for task in PLAYS)
    PLAYS.clear()
    quick = reported(("market",), is_quick=True)
    assert {(task.global_batch, task.way, task.is_small) for task in PLAYS} == {
        (GLOBAL_BATCH, "aware", True),
        (GLOBAL_BATCH, "oblivious", True),
    }
    assert list(quick.batches) == ["64"]
    assert list(quick.batches["64"].throughput) == ["aware", "oblivious"]


def test_the_ratio_is_measured_by_hand(reported: Callable[..., Report]) -> None:
    """12 and 13 over 6 and 7, whatever the batch: 25/13, between 13/7 and 12/6; more than 1.8. With
    a batch of 64 a fifth on top: 12.5 * 1.2 hours of work per hour are 15."""
    report = reported()
    main = report.batches["64"]
    assert report.ratio == main.ratio == pytest.approx(25 / 13)
    assert main.ci95 == pytest.approx((13 / 7, 2.0))
    assert main.throughput["aware"].estimate == pytest.approx(15.0)
    assert main.retention["fcfs"] == Interval(0.45, 0.45, 0.45)
    assert main.displaced == dict.fromkeys(LABELS, 2.5)
    assert (report.wanted_ratio, report.is_met) == (WANTED_RATIO, True) == (1.8, True)


def test_a_goal_that_is_missed_is_said_to_be(
    reported: Callable[..., Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    """10 and 11 over 6 and 7 are 1.62 times as much, not 1.8."""
    monkeypatch.setitem(HOURS, "aware", 10.0)
    report = reported()
    assert report.ratio == pytest.approx(21 / 13)
    assert not report.is_met
    assert "The goal of 1.8 with a batch of 64 is NOT MET." in [*FIGURE.tell(report)]


def test_where_nothing_is_done_there_is_no_ratio(
    reported: Callable[..., Report], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over nothing at all it is 0, without bounds, and told without them."""
    monkeypatch.setattr(topology, "run", lambda task, data: Outcome(0.0, 0.0, 0))
    report = reported(is_quick=True)
    assert (report.ratio, report.batches["64"].ci95) == (0.0, (None, None))
    assert "Aware over oblivious, in throughput: 0.00." in [*FIGURE.tell(report)]


# --- how it is told -----------------------------------------------------------------------------


def test_the_shape_of_the_json(reported: Callable[..., Report]) -> None:
    """One document that goes through JSON and back, with every batch and way."""
    report = reported()
    text = msgspec.json.encode(report)
    assert msgspec.json.decode(text, type=Report) == report
    document = msgspec.json.decode(text)
    assert list(document) == [
        *("figure", "ratio", "wanted_ratio", "is_met", "global_batch", "batches"),
        *("oversubscribed", "seeds"),
    ]
    assert (document["figure"], document["seeds"]) == ("10", [100, 101])
    assert list(document["batches"]) == ["32", "64", "128"]
    for its in document["batches"].values():
        assert list(its) == ["throughput", "retention", "displaced", "ratio", "ci95"]
        assert list(its["throughput"]) == list(its["retention"]) == list(LABELS)
        assert its["throughput"]["aware"].keys() == {"estimate", "low", "high"}


def test_the_table_has_every_way(reported: Callable[..., Report]) -> None:
    """A table for the batch, its ratio, whether the goal is met, and over which seeds. The margin
    of two values that are 1.2 apart is 12.7 times 0.6."""
    table, ratio, goal, seeds = FIGURE.tell(reported(is_quick=True))
    assert isinstance(table, Table)
    assert table.title == "Training only, demand 1.5 times capacity, global batch 64"
    assert table.rows == (
        ("market, aware", "15.0 ±7.6", "60.0% ±0.0", "2.5"),
        ("market, oblivious", "7.8 ±7.6", "30.0% ±0.0", "2.5"),
        ("FCFS", "11.4 ±7.6", "45.0% ±0.0", "2.5"),
    )
    assert {len(row) for row in table.rows} == {len(table.columns)}
    assert ratio == "Aware over oblivious, in throughput: 1.92 (1.86 to 2.00)."
    assert goal == "The goal of 1.8 with a batch of 64 is met."
    assert seeds == "Means over 2 seeds from 100 on, with 95% intervals."


def test_the_picture_is_the_same_each_time(reported: Callable[..., Report], tmp_path: Path) -> None:
    """To the byte, with a bar for every way, and what the axis means."""
    pytest.importorskip("matplotlib")
    report = reported(is_quick=True)
    for name in ("one.svg", "other.svg", "one.png"):
        FIGURE.draw(report, tmp_path / name)
    drawn = (tmp_path / "one.svg").read_text()
    assert drawn == (tmp_path / "other.svg").read_text()
    for words in ("market, oblivious", "Hours of work done per hour", "demand over capacity 1.5"):
        assert words in drawn
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
