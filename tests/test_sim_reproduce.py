"""Runs, their cache, and figure 6: the same numbers however they are made, and kept with care."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import active_children
from pathlib import Path
from statistics import fmean
from typing import Any

import msgspec
import pytest

from laissez.experiments import runs as running
from laissez.experiments.figures import FIGURES, contention, contention_tables
from laissez.experiments.figures.contention import (
    AloneResult,
    AloneTask,
    ContentionPlay,
    DrawnProject,
    cluster_of,
)
from laissez.experiments.figures.figure import QUICK_SEEDS, SEEDS, Closeup, FigureTable, Wanted
from laissez.experiments.metrics import Metrics, Moves, Quartiles, Throughput, measure
from laissez.experiments.runs import BadCache, Cache, CodeChanged, Runs, cache_folder
from laissez.experiments.summaries import ContractSummary, RunOutcome, summary_of
from laissez.simulation.contracts.registry import CONTRACTS
from laissez.simulation.demand.fitted import requests_of
from laissez.simulation.demand.projects import Batch, Project
from laissez.simulation.scenarios.regimes import (
    READINGS,
    REGIMES,
    Alone,
    crowd,
    crowd_of,
    setting_of,
)


class Toy(msgspec.Struct, frozen=True):
    """A task: a number to be worked on for so many rounds."""

    number: int
    rounds: int = 1


class Worked(msgspec.Struct, frozen=True):
    number: int
    share: float
    data: str


CALLS: list[Toy] = []


def work(task: Toy, data: Path | None) -> Worked:
    CALLS.append(task)
    share = task.number / 7
    for _ in range(task.rounds):
        share = (share * 1.1) % 1
    return Worked(task.number, share, "" if data is None else data.name)


def other_work(task: Toy, data: Path | None) -> Worked:
    return work(task, data)


@pytest.fixture(autouse=True)
def no_calls() -> None:
    CALLS.clear()


TOYS = [Toy(number, 20_000 // (number + 1)) for number in range(12)]


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


# --- processes ----------------------------------------------------------------------------------


def test_any_number_of_processes_gives_the_same_in_the_order_of_the_tasks() -> None:
    """To the last digit, though later tasks here are done sooner."""
    one = Runs(processes=1).all(TOYS, work, Worked)
    two = Runs(processes=2).all(TOYS, work, Worked)
    assert one == two
    assert [each.number for each in two] == list(range(12))


def test_equal_tasks_run_once() -> None:
    """A task that is asked for twice is run once, and answered twice."""
    found = Runs(processes=1).all([Toy(1), Toy(2), Toy(1)], work, Worked)
    assert [each.number for each in found] == [1, 2, 1]
    assert [task.number for task in CALLS] == [1, 2]


def test_who_looks_on_is_told_of_each(tmp_path: Path) -> None:
    """Progress starts with what is kept, and ends with all."""
    told: list[tuple[int, int]] = []
    cache = Cache(tmp_path)
    Runs(processes=1, cache=cache).all(TOYS[:1], work, Worked)
    Runs(processes=1, cache=cache, progress=lambda *pair: told.append(pair)).all(
        TOYS[:3], work, Worked
    )
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_an_interruption_ends_the_processes_and_keeps_what_is_done(tmp_path: Path) -> None:
    """After Ctrl-C nobody is left at work, and what came before is in the cache."""

    def interrupt(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    before = set(active_children())
    runs = Runs(processes=2, cache=Cache(tmp_path), progress=interrupt)
    with pytest.raises(KeyboardInterrupt):
        runs.all(TOYS, work, Worked)
    assert set(active_children()) == before
    kept = files(tmp_path)
    assert 3 <= len(kept) < len(TOYS)
    Runs(processes=1, cache=Cache(tmp_path)).all(TOYS, work, Worked)
    assert len(CALLS) == len(TOYS) - len(kept)


def test_an_error_of_a_task_is_told_as_it_is() -> None:
    """What goes wrong in a process goes wrong here."""
    with pytest.raises(ZeroDivisionError):
        Runs(processes=2).all([Toy(1), Toy(0)], divide, float)


def divide(task: Toy, data: Path | None) -> float:
    return 1 / task.number


def test_code_that_changes_under_way_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has read other source than the first one gives no result."""
    monkeypatch.setattr(running, "code_digest", lambda: "as it was")
    with pytest.raises(CodeChanged, match="run it again"):
        Runs(processes=2).all(TOYS, work, Worked)


# --- the cache ----------------------------------------------------------------------------------


def test_what_is_kept_is_what_a_run_gives(tmp_path: Path) -> None:
    """A second time nothing runs, and the result is the same to the byte."""
    first = Runs(processes=1, cache=Cache(tmp_path)).all(TOYS, work, Worked)
    CALLS.clear()
    second = Runs(processes=2, cache=Cache(tmp_path)).all(TOYS, work, Worked)
    assert msgspec.json.encode(first) == msgspec.json.encode(second)
    assert CALLS == []


def changes(folder: Path) -> Iterator[tuple[Runs, Toy, Any]]:
    """Everything that a result may depend on, changed one at a time."""
    trace = folder / "trace"
    yield Runs(processes=1, cache=Cache(folder)), Toy(1, 3), work
    yield Runs(processes=1, cache=Cache(folder)), Toy(2, 2), work
    yield Runs(processes=1, cache=Cache(folder)), Toy(1, 2), other_work
    for content in ("", "1", "2"):
        trace.write_text(content)
        yield Runs(processes=1, cache=Cache(folder), files=[trace]), Toy(1, 2), work


def test_another_field_function_or_file_of_data_is_another_run(tmp_path: Path) -> None:
    """Whatever decides a result is in the key."""
    Runs(processes=1, cache=Cache(tmp_path)).all([Toy(1, 2)], work, Worked)
    for runs, task, function in changes(tmp_path):
        CALLS.clear()
        runs.all([task], function, Worked)
        runs.all([task], function, Worked)
        assert (len(CALLS), CALLS[0]) == (1, task)


def test_the_folder_of_data_is_known_by_its_files(tmp_path: Path) -> None:
    """The same files elsewhere are the same data."""
    for name in ("here", "there"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "trace").write_text("1 2 3")
        runs = Runs(processes=1, cache=Cache(tmp_path), data=folder, files=[folder / "trace"])
        assert runs.all([Toy(1)], work, Worked)[0].data == "here"


def test_other_code_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of source never shows old numbers."""
    for digest, calls in (("old", 1), ("new", 2), ("old", 2)):
        monkeypatch.setattr(running, "code_digest", lambda digest=digest: digest)
        Runs(processes=1, cache=Cache(tmp_path)).all([Toy(1)], work, Worked)
        assert len(CALLS) == calls


def test_the_source_of_every_deciding_room_counts(tmp_path: Path) -> None:
    """Text, names and new files of a room count; pictures, tables and other rooms don't."""
    tables = "experiments/figures/contention_tables.py"
    for name in ("market/book.py", "experiments/contract_pictures.py", tables, "cli/main.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    seen = [running.digest(running.source_parts(tmp_path))]
    for name in ("experiments/contract_pictures.py", tables, "cli/main.py", "cli/new.py"):
        (tmp_path / name).write_text("2")
        assert running.digest(running.source_parts(tmp_path)) == seen[0]
    for name in ("market/book.py", "market/new.py", "experiments/figures/figure.py"):
        (tmp_path / name).write_text("2")
        seen.append(running.digest(running.source_parts(tmp_path)))
    (tmp_path / "market/new.py").rename(tmp_path / "market/other.py")
    seen.append(running.digest(running.source_parts(tmp_path)))
    assert len(set(seen)) == len(seen)


def test_every_room_that_a_run_enters_decides() -> None:
    """Whatever is imported where tasks run may change a result."""
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, laissez.experiments.scenario.comparing, laissez.experiments.figures;"
            "print(*sorted({n.split('.')[1] for n in sys.modules if n.startswith('laissez.')}))",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert {*told.stdout.split()} == {*running.DECIDING_ROOMS}


def test_the_rooms_that_decide_are_there() -> None:
    """No room has moved away from under the digest."""
    house = Path(running.__file__).parent.parent
    names = [part.decode() for part in list(running.source_parts(house))[::2]]
    assert {name.split("/")[0] for name in names} == set(running.DECIDING_ROOMS)
    assert "experiments/figures/contention.py" in names
    assert [name for name in running.PICTURES if not (house / name).exists()] == []


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda text: b"",
    "torn": lambda text: text[: len(text) // 2],
    "a digit": lambda text: text.replace(b'"number":1,"share"', b'"number":3,"share"'),
    "no JSON": lambda text: b"\xff" + text,
    "another's": lambda text: b'{"version": 1}',
    "another form": lambda text: msgspec.json.encode(msgspec.json.decode(text) | {"key": 1}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, damage: str) -> None:
    """It is not believed, and it is written anew."""
    runs = Runs(processes=1, cache=Cache(tmp_path))
    right = runs.all([Toy(1)], work, Worked)
    (path,) = files(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(DAMAGES[damage](whole))
    assert path.read_bytes() != whole
    assert runs.all([Toy(1)], work, Worked) == right
    assert path.read_bytes() == whole
    assert len(CALLS) == 2


def test_a_result_under_another_key_is_not_believed(tmp_path: Path) -> None:
    """A file that was renamed is another's."""
    runs = Runs(processes=1, cache=Cache(tmp_path))
    runs.all([Toy(1)], work, Worked)
    (path,) = files(tmp_path)
    path.rename(path.with_name(f"{runs.key(Toy(2), work)}.json"))
    assert runs.all([Toy(2)], work, Worked)[0].number == 2


def test_a_whole_result_of_another_form_is_run_again(tmp_path: Path) -> None:
    """Sound, but not what the function gives."""
    cache = Cache(tmp_path)
    runs = Runs(processes=1, cache=cache)
    cache.put(runs.key(Toy(1), work), Toy(1), b'["something else"]')
    assert runs.all([Toy(1)], work, Worked)[0].number == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_interrupted_write_leaves_nothing_half_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """Between writing and renaming: what was there is there, and no piece beside it."""
    cache = Cache(tmp_path)
    cache.put("key", Toy(1), b"1")
    before = {path: path.read_bytes() for path in files(tmp_path)}

    def fails(self: Path, target: Path) -> None:
        assert self.read_bytes() != b"", "the content is written before it is renamed"
        raise error

    monkeypatch.setattr(Path, "replace", fails)
    if error is OSError:
        cache.put("key", Toy(1), b"2")  # a full disk costs the file only
    else:
        with pytest.raises(error):
            cache.put("key", Toy(1), b"2")
    assert {path: path.read_bytes() for path in files(tmp_path)} == before


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    """With what to do instead."""
    (tmp_path / "file").write_text("")
    with pytest.raises(BadCache, match=r"give another folder with --cache, or .* --no-cache"):
        Cache(tmp_path / "file")


def test_the_usual_folder_of_a_cache(tmp_path: Path) -> None:
    """XDG_CACHE_HOME, or ~/.cache."""
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "laissez"
    assert cache_folder({"XDG_CACHE_HOME": ""}) == Path.home() / ".cache" / "laissez"


# --- figure 6 -----------------------------------------------------------------------------------

KEPT = {
    "market": 0.9,
    "fcfs": 0.8,
    "fcfs_p": 0.89,
    "fair": 0.7,
    "no_displacement": 0.85,
    "clairvoyant": 1.0,
}


def few_alone(task: AloneTask, data: Path | None) -> AloneResult:
    """Three come in the lowest regime, then one more in each."""
    own = tuple(DrawnProject(at, Alone(1.0, 1.0, 1e6)) for at in range(8))
    ratios = tuple(regime + (task.seed - 101) / 100 for regime in task.regimes)
    return AloneResult(own, tuple(3 + at for at in range(len(task.regimes))), ratios)


def played(task: ContentionPlay, data: Path | None) -> RunOutcome:
    """Retention by contract, with luck by seed; the market's is less with budgets by demand."""
    PLAYED.append(task)
    kept = KEPT[task.contract] + (task.seed - 101) * 0.01 * (task.contract != "clairvoyant")
    if task.reading == "demand" and task.contract == "market":
        kept -= 0.05
    return RunOutcome({f"tenant-{at}": kept for at in range(len(task.comers))})


PLAYED: list[ContentionPlay] = []


@pytest.fixture(scope="module")
def made_up() -> tuple[contention.ContentionReport, list[ContentionPlay]]:
    """Figure 6 of made-up outcomes, and the runs that were asked for."""
    PLAYED.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contention, "run_alone", few_alone)
        patch.setattr(contention, "run_play", played)
        wanted = Wanted((100, 101, 102), REGIMES, FIGURES["6"].contracts)
        return contention.compute(wanted, Runs(processes=1)), list(PLAYED)


@pytest.fixture
def report(
    made_up: tuple[contention.ContentionReport, list[ContentionPlay]],
) -> contention.ContentionReport:
    return made_up[0]


@pytest.fixture
def plays(
    made_up: tuple[contention.ContentionReport, list[ContentionPlay]],
) -> list[ContentionPlay]:
    return made_up[1]


def test_the_shape_of_the_json(report: contention.ContentionReport) -> None:
    """As it is promised: regimes, contracts, readings, base shares."""
    document = msgspec.json.decode(msgspec.json.encode(report))
    assert list(document) == [
        *("figure", "regimes", "reading", "base_share", "readings", "goals", "seeds", "data"),
        *("demand_over_capacity", "is_quick"),
    ]
    realised = document["demand_over_capacity"]
    assert list(realised) == list(document["regimes"])
    assert realised["0.4"] == pytest.approx({"mean": 0.4, "lowest": 0.39, "highest": 0.41})
    assert document["is_quick"] is False
    assert list(document["regimes"]) == ["0.4", "0.7", "1.0", "1.125", "2.25"]
    for by_contract in document["regimes"].values():
        assert by_contract.keys() == {*CONTRACTS, "clairvoyant"}
        for found in by_contract.values():
            assert isinstance(found["mean_retention"], float)
            assert found["ci95"][0] <= found["mean_retention"] <= found["ci95"][1]
    assert {name: list(by) for name, by in document["readings"].items()} == {
        "equal": ["0.7", "1.0"],
        "demand": ["0.7", "1.0"],
    }
    assert document["regimes"] == document["readings"]["equal"]["0.7"]
    assert (document["figure"], document["reading"], document["base_share"]) == ("6", "equal", 0.7)
    assert (document["seeds"], document["data"]) == ([100, 101, 102], "fitted")


def test_each_run_is_made_once_for_all_who_share_it(plays: list[ContentionPlay]) -> None:
    """A floor means nothing to queues, and neither floor nor budget to the bound."""
    of_one = [
        (task.contract, task.reading, task.base_share)
        for task in plays
        if (task.seed, task.regime) == (100, 1.0)
    ]
    trading = [(c, r, b) for c in ("market", "no_displacement") for r in READINGS for b in (0.7, 1)]
    queues = [(c, r, 0.7) for c in ("fcfs", "fcfs_p", "fair") for r in READINGS]
    assert sorted(of_one) == sorted([*trading, *queues, ("clairvoyant", "equal", 0.7)])
    assert len(plays) == 3 * 5 * len(of_one)


def test_a_regime_has_those_who_come_in_it(plays: list[ContentionPlay]) -> None:
    """Each run is told of the first so many."""
    for task in plays:
        assert len(task.comers) == 3 + REGIMES.index(task.regime)


def test_the_goals_are_measured_by_hand(report: contention.ContentionReport) -> None:
    """Degradation 0.1 against 0.2 is half; against 0.11 it is a ninth less."""
    goals = {
        (goal.against, goal.regime): goal
        for goal in report.goals
        if (goal.reading, goal.base_share) == ("equal", 0.7)
    }
    assert len(report.goals) == 4 * len(goals) == 4 * 7
    assert goals["fcfs", "1.0"].measured == pytest.approx(1 / 2)
    assert goals["fcfs_p", "1.125"].measured == pytest.approx(1 / 11)
    assert goals["fcfs", "0.4"].measured == pytest.approx(1 - 9 / 8)
    assert {key: (goal.wanted, goal.is_met) for key, goal in goals.items()} == {
        ("fcfs", "0.4"): (0.02, True),
        ("fcfs", "1.0"): (0.17, True),
        ("fcfs", "1.125"): (0.08, True),
        ("fcfs", "2.25"): (0.23, True),
        ("fcfs_p", "1.0"): (0.19, False),
        ("fcfs_p", "1.125"): (0.12, False),
        ("fcfs_p", "2.25"): (0.08, True),
    }
    for goal in goals.values():
        low, high = goal.ci95
        assert low is not None and high is not None and goal.measured is not None
        assert low <= goal.measured <= high
    by_demand = [g for g in report.goals if g.reading == "demand" and g.against == "fcfs_p"]
    assert not any(goal.is_met for goal in by_demand)


def test_the_tables_have_every_number(report: contention.ContentionReport) -> None:
    """Four of retention, two of the market against others, one in detail, one of the goals, and a
    sentence."""
    shown = list(contention_tables.tell(report))
    titles = [each if isinstance(each, str) else each.title.split(":")[0] for each in shown]
    lower = "By how much the market's degradation is lower than that of others, in %"
    assert titles[:8] == [*["Mean retention in %"] * 4, lower, lower, "In detail", "Goals"]
    retention, lowered, goals = shown[0], shown[4], shown[7]
    assert isinstance(retention, FigureTable)
    assert isinstance(lowered, FigureTable)
    assert isinstance(goals, FigureTable)
    assert [row[0] for row in retention.rows] == ["0.4", "0.7", "1.0", "1.125", "2.25"]
    # Three seeds: 4.303 * 0.01 / sqrt(3)
    assert retention.rows[0][1] == "90.0 ±2.5"
    assert len(goals.rows) == 7
    assert goals.rows[1][1].startswith("50.0 (") and goals.rows[1][1].endswith(", met")
    assert goals.rows[4][3].endswith(", NOT MET")
    assert titles[8] == (
        "Demand over capacity, with whole projects: 0.40 at 0.4 (0.39 to 0.41), 0.70 at 0.7 "
        "(0.69 to 0.71), 1.00 at 1.0 (0.99 to 1.01), 1.12 at 1.125 (1.11 to 1.14), 2.25 at 2.25 "
        "(2.24 to 2.26)."
    )
    assert titles[9].startswith("Means over 3 seeds from 100 on")
    # 0.1 is half of 0.2, a third of 0.3, two thirds of 0.15; the bound is nobody's to reach.
    assert lowered.columns[1:] == ("FCFS", "FCFS-P", "fair\nshare", "no\ndisplacement")
    for at, share in ((1, "50.0"), (3, "66.7"), (4, "33.3")):
        assert lowered.rows[0][at].startswith(f"{share} (")


def test_a_part_of_the_figure_has_the_goals_it_can_measure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the market, or the other, there is none."""
    monkeypatch.setattr(contention, "run_alone", few_alone)
    monkeypatch.setattr(contention, "run_play", played)
    for contracts, regimes, count in (
        (("market", "fcfs"), (1.0,), 4),
        (("fcfs", "fcfs_p"), (1.0,), 0),
        (("market", "fair"), (1.0,), 0),
        (("market", "fcfs"), (0.7,), 0),
    ):
        found = contention.compute(Wanted((100,), regimes, contracts), Runs(processes=1))
        assert len(found.goals) == count
        assert [each for each in contention_tables.tell(found) if isinstance(each, str)]


def test_the_picture_is_the_same_each_time(
    report: contention.ContentionReport, tmp_path: Path
) -> None:
    """With every contract in it, and no date."""
    pytest.importorskip("matplotlib")
    for name in ("one.svg", "two.svg"):
        contention_tables.draw(report, tmp_path / name)
    drawn = (tmp_path / "one.svg").read_text()
    assert drawn == (tmp_path / "two.svg").read_text()
    for label in (*contention.LABELS.values(), "equal budgets", "budgets by demand", "1.125"):
        assert label in drawn


def test_contracts_differ_in_more_than_colour() -> None:
    """A copier keeps them apart, in lines and in boxes."""
    pytest.importorskip("matplotlib")
    from laissez.experiments.contract_pictures import LOOKS  # noqa: PLC0415

    assert {*LOOKS} == {*FIGURES["6"].contracts, *FIGURES["gangs"].contracts}
    assert len({its.marker for its in LOOKS.values()}) == len(LOOKS)
    assert len({its.hatch for its in LOOKS.values()}) == len(LOOKS)


def test_seeds_that_are_reported_are_not_those_of_development() -> None:
    """Policies are developed on 0 to 19."""
    assert len(SEEDS) == 20
    assert not set(SEEDS) & set(range(20))
    assert set(QUICK_SEEDS) <= set(SEEDS)


# --- real runs ----------------------------------------------------------------------------------


def comers(hours: Sequence[float]) -> list[tuple[Project, Alone]]:
    batch = Batch(0.1, {"h100": 1.0}, 1)
    return [
        (Project(f"p{at}", 0, 1, batch), Alone(each, 1.0, 1.0)) for at, each in enumerate(hours)
    ]


def test_as_many_come_as_bring_demand_nearest() -> None:
    """On ten nodes for an hour: 3 and 3 and 3 are nearer to 8 than 6 is; one more than 9 is not."""
    nodes = tuple(f"h100/h/g{at}" for at in range(10))
    for ratio, count, reached in ((0.8, 3, 0.9), (0.7, 2, 0.6), (0.1, 0, 0.0), (1.4, 4, 1.4)):
        found = crowd_of(comers([3, 3, 3, 5, 9]), ratio, nodes)
        assert len(found.projects) == count
        assert found.ratio == pytest.approx(reached)


def test_regimes_share_what_their_projects_do_alone() -> None:
    """The crowd of every regime is what it would be if the regime were asked for alone."""
    task = AloneTask(100, True, (0.4, 0.7))
    found = contention.run_alone(task, None)
    for regime, joining in zip(task.regimes, found.joining, strict=True):
        own = crowd(100, regime, requests_of(None), cluster_of(True))
        assert [each.alone for each in found.comers[:joining]] == list(own.alone.values())


@pytest.mark.parametrize(("seed", "away"), [(102, []), (8, [1])])
def test_a_run_of_the_figure_is_a_run_of_its_contract(seed: int, away: list[int]) -> None:
    """What the task gives is what playing the regime gives, and what can be explained; also if
    somebody is sent away."""
    everybody = contention.run_alone(AloneTask(seed, True, (0.7,)), None)
    numbers = [each.number for each in everybody.comers]
    assert sorted({*range(len(numbers))} - {*numbers}) == away
    task = ContentionPlay(seed, True, 0.7, "fcfs", "demand", 0.7, everybody.comers)
    own = crowd(seed, 0.7, requests_of(None), cluster_of(True))
    setting = setting_of(own, "demand", 0.7, cluster_of(True))
    history = CONTRACTS["fcfs"].play(setting, seed)
    found = contention.run_play(task, None)
    assert found.metrics == measure(setting, own.alone, history)
    assert found.retention == found.metrics.retention
    closeup = Closeup(seed=seed, regime=0.7, reading="demand", base_share=0.7, is_quick=True)
    scene = contention.scene(closeup, None)
    assert (scene.setting, scene.alone) == (setting, own.alone)


def measured(kept: dict[str, float], dollars: float, displaced: int) -> RunOutcome:
    """All that is measured of a run, made up."""
    metrics = Metrics(
        retention=kept,
        mean_retention=fmean(kept.values()),
        quartiles=Quartiles(0.0, 0.0, 0.0),
        degradation=1 - fmean(kept.values()),
        cost_dollars={},
        total_cost_dollars=dollars,
        revenue_charge=0,
        retention_per_dollar=None,
        credits_dollars={"a": 1.0, "b": dollars},
        throughput=Throughput(1.0, 2.0, displaced),
        utilisation=0.5,
        moves=Moves(displaced, 0, 7),
        wasted_projects=0.0,
        volatility={"h100": dollars / 10},
        fairness=1.0,
        starved=0,
        starved_share=0.0,
    )
    return RunOutcome(kept, metrics)


def test_a_summary_is_of_all_seeds() -> None:
    """Means of runs with their intervals, quartiles of projects. The interval of two seeds is
    12.706205 times the standard error, which is half of their difference."""
    runs = [measured({"a": 0.0, "b": 1.0}, 4.0, 3), measured({"c": 0.75, "d": 0.75}, 6.0, 5)]
    found = summary_of(runs)
    assert found.mean_retention == 0.625
    assert found.degradation == 0.375
    assert (found.p25, found.median, found.p75) == (0.5625, 0.75, 0.8125)
    assert found.ci95 == pytest.approx((0.625 - 1.588276, 0.625 + 1.588276))
    assert (found.cost_dollars, found.credits_dollars, found.utilisation) == (5.0, 6.0, 0.5)
    assert found.retention_per_dollar == pytest.approx(2.5 / 10)
    assert found.moves == {"displaced": 4.0, "given_up": 0.0, "relinquished": 7.0}
    assert found.throughput == {
        "requests_within_objective_per_s": 1.0,
        "training_hours_per_hour": 2.0,
        "batch_jobs_done": 4.0,
    }
    assert found.volatility == pytest.approx({"h100": 0.5})
    of = found.ci95_of
    assert of is not None
    assert of["cost_dollars"] == pytest.approx((5 - 12.706205, 5 + 12.706205))
    assert of["moves.displaced"] == pytest.approx((4 - 12.706205, 4 + 12.706205))
    assert of["volatility.h100"] == pytest.approx((0.5 - 1.2706205, 0.5 + 1.2706205))
    assert of["utilisation"] == (0.5, 0.5)
    assert of["retention_per_dollar"] == pytest.approx((1 / 4, 1.5 / 6))
    own = {"mean_retention", "ci95", "degradation", "market_lower_by", "p25", "median", "p75"}
    groups = {"throughput", "moves", "volatility"}
    named = {name.split(".")[0] for name in of}
    assert named == {*ContractSummary.__struct_fields__} - own - {"ci95_of", "gangs"}
    assert {name.split(".")[0] for name in of if "." in name} == groups


def test_a_summary_of_a_bound_has_the_mean_alone() -> None:
    """It is reached by nobody at once, so what is below it is no bound."""
    found = summary_of([RunOutcome({"a": 0.0, "b": 1.0}), RunOutcome({"c": 0.75, "d": 0.75})])
    assert list(msgspec.to_builtins(found)) == ["mean_retention", "ci95", "degradation"]
    assert found.ci95 == pytest.approx((0.625 - 1.588276, 0.625 + 1.588276))


def test_a_summary_of_one_seed_has_no_interval() -> None:
    """Nothing is known of the spread, of any figure."""
    found = summary_of([measured({"a": 0.5}, 4.0, 3)])
    assert (found.ci95, found.ci95_of) == ((None, None), None)


# --- the page -----------------------------------------------------------------------------------

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "reproduce.md").read_text()


@pytest.mark.parametrize("kind", [contention.ContentionReport, ContractSummary, contention.Goal])
def test_every_field_of_the_json_is_explained(kind: type[msgspec.Struct]) -> None:
    """Its name is on the page, as code or in the example."""
    for field in kind.__struct_fields__:
        assert f"`{field}`" in PAGE or f'"{field}":' in PAGE


def test_the_example_of_the_json_has_its_form(report: contention.ContentionReport) -> None:
    """The same fields in the same order, and numbers where numbers are."""
    (example,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    shown = json.loads(example)
    assert tuple(shown) == report.__struct_fields__
    assert shown["regimes"]["0.4"]["market"].keys() <= set(ContractSummary.__struct_fields__)
    assert {name: list(by) for name, by in shown["readings"].items()} == {
        name: list(by) for name, by in report.readings.items()
    }


def test_the_python_of_the_page_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it stands there; here with made-up outcomes, which no other process would know of."""
    monkeypatch.setattr(contention, "run_alone", few_alone)
    monkeypatch.setattr(contention, "run_play", played)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    alone = example.replace("Runs())", "Runs(processes=1))")
    assert alone != example
    exec(alone, {"__name__": "__main__"})
    assert float(capsys.readouterr().out) == pytest.approx(0.79)
