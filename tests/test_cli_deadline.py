"""`laissez deadline evaluate` and `traces`: what they print, write, draw and refuse."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest
from click.testing import CliRunner, Result

from laissez.cli.evaluator import deadline as commands
from laissez.cli.evaluator import evaluating
from laissez.cli.main import cli
from laissez.deadline.generator import sample_traces
from laissez.deadline.traces import SpotTrace
from laissez.experiments.deadline import evaluation
from laissez.experiments.deadline.reading import built_in
from missing_module import hide

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

SMALL = """\
title: A small study
traces: ["availability/*/*/*.json"]
work: 6h
fraction: [0.7, 0.8]
changeover: 12m
policies: [greedy, uniform_progress]
starts: 3
"""


@pytest.fixture(scope="module")
def samples() -> list[SpotTrace]:
    return sample_traces(days=14)[::3]


@pytest.fixture(autouse=True)
def few_samples(samples: list[SpotTrace], monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of the sample traces, made once."""
    monkeypatch.setattr(evaluation, "sample_traces", lambda: samples)
    monkeypatch.setattr(commands, "sample_traces", lambda: samples)


@pytest.fixture
def small(tmp_path: Path) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(SMALL)
    return str(path)


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["deadline", *words], catch_exceptions=False)


def text(*words: str) -> str:
    result = run(*words)
    assert result.exit_code == 0, result.output
    return result.stdout


def run_json(*words: str) -> Any:
    return json.loads(text(*words, "--json"))


def refusal(*words: str) -> str:
    """What is said of a command that is not right."""
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("laissez: ")
    return result.stderr


def write_trace(
    folder: Path, name: str, counts: Sequence[int], *, kind: str = "availability", nodes: int = 1
) -> None:
    path = folder / "spot" / kind / f"{nodes}-node" / "a-date" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"metadata": {"gap_seconds": 600}, "data": list(counts)}))


# --- evaluate -----------------------------------------------------------------------------------


def test_evaluate_says_what_each_policy_comes_to() -> None:
    """Without a study it is the table of hours; the JSON has what programs were promised."""
    words = ("evaluate", "--starts", "2", "--seed", "7", "--processes", "1", "--work", "8h")
    said = run_json(*words)
    assert (said["study"], said["data"], said["seed"], said["starts"]) == ("hours", "sample", 7, 2)
    assert "lindy" in said["policies"]
    for tally in said["policies"].values():
        assert tally["on_demand_hours"] + tally["spot_hours"] == pytest.approx(8)
        assert tally["saving"] == pytest.approx(1 - tally["cost"])
        assert (tally["missed"], tally["runs"]) == (0, 6)
        assert tally["spot_utilisation"] >= 0
    assert said["policies"]["omniscient"]["spot_utilisation"] == 1
    (setting,) = said["settings"]
    assert (setting["work_us"], setting["fraction"]) == (8 * 3_600_000_000, 0.8)
    assert setting["policies"] == said["policies"]
    assert len(said["traces"]) == 3
    shown = text(*words)
    assert shown.startswith("These are sample traces, made up by a generator")
    assert "the traces that the study names are not used" in shown
    assert "2 random starts on each of 3 traces, 1 setting, seed 7: 6 runs of each" in shown
    assert shown.endswith("; no deadline missed.\n")
    assert max(map(len, shown.splitlines()[3:-1])) <= 80
    row = next(line for line in shown.splitlines() if line.startswith("Greedy"))
    assert f"{said['policies']['greedy']['saving']:.1%}" in row


def test_a_study_of_ones_own_has_a_row_for_each_setting(small: str) -> None:
    """A sweep is told as savings by setting, then all settings together."""
    shown = text("evaluate", small, "--processes", "1")
    rows = [line.split()[:2] for line in shown.splitlines() if line.startswith("fraction")]
    assert rows == [["fraction", "0.7"], ["fraction", "0.8"]]
    assert "A small study: all settings together" in shown
    said = run_json("evaluate", small, "--processes", "1")
    assert said["study"] == "mine"
    assert [each["label"] for each in said["settings"]] == ["fraction 0.7", "fraction 0.8"]


def test_groups_gaps_and_published_savings_have_their_place(small: str, tmp_path: Path) -> None:
    """A table for groups, one for the gap, a column for what was published.

    Sample traces are not divided into halves.
    """
    for zone, there in (("here", [1, 1, 0, 1, 0]), ("there", [0, 1, 1, 1, 0, 0])):
        write_trace(tmp_path, f"{zone}_gpu.json", [each for each in there * 20 for _ in range(7)])
    Path(small).write_text(
        SMALL.replace("[greedy", "[omniscient, greedy")
        + "group_by: halves\nsettings: [{label: a, published: 0.123}, {label: b}]\n"
    )
    words = ("evaluate", small, "--processes", "1", "--data", str(tmp_path))
    shown = text(*words)
    assert "published" in shown and "12.3%" in shown
    assert "Savings by group" in shown and "held-out traces" in shown
    assert "Gap closed between uniform progress and omniscient" not in shown
    assert "closed" not in shown
    said = run_json(*words)
    Path(small).write_text(Path(small).read_text() + "plot: {y: gap_closed}\n")
    shown = text(*words)
    assert "Gap closed between uniform progress and omniscient" in shown
    assert "closed" in shown.partition("all settings together")[2]
    assert [each["name"] for each in said["groups"]] == ["development traces", "held-out traces"]
    assert run_json("evaluate", small, "--processes", "1")["groups"] == []
    assert "published" not in text("evaluate", small, "--processes", "1")


def test_options_take_the_place_of_what_the_study_says(small: str) -> None:
    """Policies, starts and the job itself."""
    options = "--policy greedy --starts 2 --seed 3 --work 5h --fraction 0.5 --changeover 6m"
    said = run_json("evaluate", small, *options.split(), "--price-ratio", "4.5", "--processes", "1")
    assert list(said["policies"]) == ["greedy"]
    (setting,) = said["settings"]
    expected = {
        "work_us": 18_000_000_000,
        "deadline_us": 36_000_000_000,
        "changeover_us": 360_000_000,
        "price_ratio": 4.5,
    }
    assert {name: setting[name] for name in expected} == expected
    assert said["policies"]["greedy"]["runs"] == 6


def test_traces_come_from_a_folder_of_data(small: str, tmp_path: Path) -> None:
    """A zone that always has capacity saves two thirds; the numbers say that they are real."""
    write_trace(tmp_path, "here_gpu.json", [1] * 200)
    said = run_json("evaluate", small, "--data", str(tmp_path), "--processes", "1")
    assert said["data"] == "traces"
    assert [each["name"] for each in said["traces"]] == ["a-date/here_gpu"]
    assert said["policies"]["greedy"]["saving"] == pytest.approx(2 / 3)
    assert "sample" not in text("evaluate", small, "--data", str(tmp_path), "--processes", "1")


def test_the_folder_of_kinds_is_as_good(small: str, tmp_path: Path) -> None:
    """Who gives `spot` itself means the same."""
    write_trace(tmp_path, "here_gpu.json", [1] * 200)
    said = run_json("evaluate", small, "--data", str(tmp_path / "spot"), "--processes", "1")
    assert said == run_json("evaluate", small, "--data", str(tmp_path), "--processes", "1")
    assert len(run_json("traces", "--data", str(tmp_path / "spot"))["traces"]) == 1


def test_the_jobs_of_a_study_run_on_single_files(small: str, tmp_path: Path) -> None:
    """Instead of what it names, also for a study that comes with laissez."""
    for zone in ("here", "there"):
        write_trace(tmp_path, f"{zone}_gpu.json", [1] * 4000)
    here, there = map(str, sorted(tmp_path.rglob("*.json")))
    said = run_json("evaluate", small, "--trace", here, "--trace", there, "--processes", "1")
    assert said["data"] == "traces"
    assert [each["name"] for each in said["traces"]] == ["a-date/here_gpu", "a-date/there_gpu"]
    assert said["policies"]["greedy"]["runs"] == 12
    words = ("--starts", "2", "--policy", "greedy", "--processes", "1")
    shown = text("evaluate", "workloads", "--trace", here, *words)
    assert "published" not in shown and "sample" not in shown
    assert "of each trace the first 13 days are taken" in text(
        "evaluate", "hours", "--trace", here, *words
    )
    assert "either --data or --trace" in refusal(
        "evaluate", small, "--trace", here, "--data", str(tmp_path)
    )
    assert "a-date/here_gpu tells of fewer" in refusal("evaluate", "instances", "--trace", here)
    assert "give real ones with --data" in refusal("evaluate", "instances")


@pytest.mark.parametrize("is_absolute", [True, False])
def test_traces_lie_beside_their_study(small: str, tmp_path: Path, is_absolute: bool) -> None:
    """A path counts from the folder of the YAML file, or in full; what is not there is refused."""
    write_trace(tmp_path, "here_gpu.json", [1] * 200)
    path = next(tmp_path.rglob("*.json"))
    written = path if is_absolute else path.relative_to(tmp_path)
    study = SMALL.replace('["availability/*/*/*.json"]', f"{str(written)!r}")
    Path(small).write_text(study)
    said = run_json("evaluate", small, "--processes", "1")
    assert (said["data"], len(said["traces"])) == ("traces", 1)
    Path(small).write_text(study.replace("here_gpu", "there_gpu"))
    if is_absolute:
        assert "no trace fits" in refusal("evaluate", small, "--processes", "1")
        assert "no trace fits" in refusal("evaluate", small, "--data", str(tmp_path))
    else:
        assert run_json("evaluate", small, "--processes", "1")["data"] == "sample"
    Path(small).write_text(SMALL.replace("*.json", "**.json"))
    assert "is no pattern" in refusal("evaluate", small, "--processes", "1")


def test_a_folder_may_be_laid_out_in_another_way(small: str, tmp_path: Path) -> None:
    """A pattern finds what it finds, also where no folder says kind and size."""
    write_trace(tmp_path, "here_gpu.json", [1] * 200)
    (tmp_path / "spot" / "my" / "own").mkdir(parents=True)
    next(tmp_path.rglob("here_gpu.json")).rename(tmp_path / "spot" / "my" / "own" / "x_gpu.json")
    Path(small).write_text(SMALL.replace("availability/*/*", "my/*"))
    said = run_json("evaluate", small, "--data", str(tmp_path), "--processes", "1")
    assert [each["name"] for each in said["traces"]] == ["own/x_gpu"]


def test_a_file_is_found_whatever_its_name(small: str, tmp_path: Path) -> None:
    """A name with brackets is no pattern once it was found."""
    write_trace(tmp_path, "here[1]_gpu.json", [1] * 200)
    said = run_json("evaluate", small, "--data", str(tmp_path), "--processes", "1")
    assert [each["name"] for each in said["traces"]] == ["a-date/here[1]_gpu"]


def test_two_traces_of_one_name_are_refused(small: str, tmp_path: Path) -> None:
    """The sentence has both."""
    write_trace(tmp_path, "here_gpu.json", [1] * 200)
    write_trace(tmp_path, "here_gpu.json", [1] * 200, kind="preemption")
    Path(small).write_text(SMALL.replace("availability/", "*/"))
    said = refusal("evaluate", small, "--data", str(tmp_path), "--processes", "1")
    assert "two traces are called a-date/here_gpu" in said
    assert "preemption/1-node/a-date/here_gpu.json" in said


def test_what_was_left_out_is_said(small: str, tmp_path: Path) -> None:
    """A trace that is too short is a note, not a silence."""
    write_trace(tmp_path, "here_gpu.json", [1] * 200)
    write_trace(tmp_path, "there_gpu.json", [1] * 20)
    shown = text("evaluate", small, "--data", str(tmp_path), "--processes", "1")
    assert "a-date/there_gpu is shorter than the deadline, and was left out" in shown


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_a_result_is_drawn_where_one_wants_it(small: str, tmp_path: Path, suffix: str) -> None:
    """Into the file, which is then named."""
    path = tmp_path / f"picture{suffix}"
    shown = text("evaluate", small, "--processes", "1", "--plot", str(path))
    assert shown.endswith(f"The picture is in {path}.\n")
    assert path.stat().st_size > 1_000


@pytest.mark.parametrize("as_json", [True, False])
def test_a_picture_that_fails_loses_no_numbers(
    small: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    """They are said before it is drawn, by both commands."""

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    drawing = evaluating.figures()
    monkeypatch.setattr(drawing, "draw_study", fail)
    monkeypatch.setattr(drawing, "draw_traces", fail)
    form = ("--plot", str(tmp_path / "a.png"), *(["--json"] * as_json))
    for words in (("evaluate", small, "--processes", "1"), ("traces",)):
        result = run(*words, *form)
        assert result.exit_code == 2
        assert "No space left" in result.stderr
        expected = text(*words, *form[2:])
        assert expected and result.stdout == expected


def test_zones_have_a_table_of_who_ran_everywhere(small: str, tmp_path: Path) -> None:
    """Omniscient knows single zones only; it is in their row, and in no sum."""
    for zone in ("here", "there"):
        write_trace(tmp_path, f"{zone}_gpu.json", [1, 1, 1, 0] * 100)
    Path(small).write_text(
        SMALL.replace("[greedy", "[omniscient, greedy").replace("[0.7, 0.8]", "0.7")
        + "settings: [{zones: single}, {zones: all}]\n"
    )
    words = ("evaluate", small, "--processes", "1", "--data", str(tmp_path))
    said = run_json(*words)
    assert list(said["policies"]) == ["greedy", "uniform_progress"]
    assert ["omniscient" in each["policies"] for each in said["settings"]] == [True, False]
    sums = text(*words).partition("all settings together")[2]
    assert "Greedy" in sums and "Omniscient" not in sums


def _workers(pid: int) -> int:
    """How many processes that one has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return len(children)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="children are listed in /proc")
@pytest.mark.parametrize("seconds", [0.1, 0.3, 1.0])
def test_ctrl_c_ends_all_processes_without_a_word(small: str, seconds: float) -> None:
    """Whether they work already or are about to begin; the exit code says what happened."""
    Path(small).write_text(SMALL.replace("starts: 3", "starts: 2000"))
    words = [sys.executable, "-m", "laissez.cli.main", "deadline", "evaluate", small]
    running = subprocess.Popen(
        [*words, "--processes", "2", "--policy", "omniscient"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    # A process of multiprocessing's own comes first, then the two.
    while _workers(running.pid) < 3:
        assert running.poll() is None
        time.sleep(0.01)
    time.sleep(seconds)
    os.killpg(running.pid, signal.SIGINT)
    said, complaints = running.communicate(timeout=60)
    assert (running.returncode, said, complaints.strip()) == (130, "", "")


@pytest.mark.parametrize(
    ("fields", "titles"),
    [
        ("days: 1\nplot: {x: fraction}", ["a-date, spot 25%", "a-date, spot 100%"]),
        ("nodes: 2\nplot: {x: fraction}", ["a-date, spot 10%", "a-date, spot 100%"]),
        ("nodes: [1, 2]\nplot: {x: nodes}", ["a-date", "a-date"]),
        ("zones: all\nplot: {x: fraction}", ["a-date", "a-date"]),
    ],
)
def test_titles_tell_the_capacity_of_what_ran(
    small: str, tmp_path: Path, fields: str, titles: list[str]
) -> None:
    """In the days and for the nodes of the study; nothing where its settings differ in them."""
    day = 144
    counts = [2] * (day // 4) + [0] * (3 * day // 4) + [1] * (day + day // 2)
    write_trace(tmp_path, "here_gpu.json", counts, nodes=2)
    write_trace(tmp_path, "there_gpu.json", [2] * len(counts), nodes=2)
    Path(small).write_text(SMALL.replace("[0.7, 0.8]", "0.7") + fields)
    path = tmp_path / "picture.svg"
    words = ("evaluate", small, "--processes", "1", "--data", str(tmp_path), "--plot", str(path))
    text(*words)
    drawn = ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")
    lines = [line.strip() for each in drawn for line in each.itertext()]
    assert [line for line in lines if line.startswith("a-date")] == titles


def test_all_studies_are_written_into_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table, JSON and a picture of each; here of some, for the sake of time."""
    some = ("availability", "gap", "hours", "instances")
    assert set(some) < set(built_in())
    monkeypatch.setattr(evaluating, "built_in", lambda: some)
    options = "--starts 1 --processes 1 --work 4h --fraction 0.8 --policy greedy"
    options += " --policy uniform_progress --policy omniscient"
    said = run_json("evaluate", "--all", str(tmp_path / "made"), *options.split())
    assert said["data"] == "sample"
    assert said["left_out"] == ["instances"]
    expected = {
        str(tmp_path / "made" / f"{name}{suffix}")
        for name in some[:-1]
        for suffix in (".txt", ".json", ".png")
    }
    assert set(said["files"]) == expected
    assert all(Path(path).stat().st_size > 100 for path in expected)
    hours = json.loads((tmp_path / "made" / "hours.json").read_text())
    assert hours["title"] in (tmp_path / "made" / "hours.txt").read_text()


def test_what_is_wrong_is_said_before_anything_is_computed(small: str, tmp_path: Path) -> None:
    """With what to do about it; a study's error has its line."""
    assert "neither a YAML file nor a study" in refusal("evaluate", "others")
    assert "did you mean 'hours'?" in refusal("evaluate", "ours")
    assert "there is no file nosuch.yaml" in refusal("evaluate", "nosuch.yaml")
    assert "is a folder; give a YAML file" in refusal("evaluate", str(tmp_path))
    for option in ("--price-ratio", "--fraction"):
        assert "'nan' is not a number" in refusal("evaluate", option, "nan")
    assert "inf is not in the range" in refusal("evaluate", "--price-ratio", "inf")
    assert "'greddy' is not one of" in refusal("evaluate", "--policy", "greddy")
    assert "a picture is a .png or .svg" in refusal("evaluate", "--plot", "picture.gif")
    nowhere = str(tmp_path / "nowhere" / "picture.png")
    assert "nowhere' for the picture; make it first" in refusal("evaluate", "--plot", nowhere)
    assert "there is no folder" in refusal("traces", "--plot", nowhere)
    assert "leave STUDY and --plot out" in refusal("evaluate", small, "--all", str(tmp_path))
    assert "there is no folder 'spot'" in refusal("evaluate", "--data", str(tmp_path))
    assert "'long' is not a duration" in refusal("evaluate", "--work", "long")
    (tmp_path / "spot").mkdir()
    assert "no trace fits" in refusal("evaluate", "--data", str(tmp_path))
    Path(small).write_text(SMALL.replace("0.8", "8"))
    assert f"{small}:4: 8 is no fraction" in refusal("evaluate", small)
    Path(small).write_bytes(b"\xff\xfe\x00")
    assert f"{small}:1: this is not text" in refusal("evaluate", small)
    assert "twice the work" in refusal("evaluate", "--policy", "shifted_greedy", "--processes", "1")


def test_without_matplotlib_pictures_are_refused_with_what_to_install(
    small: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is computed first."""
    hide(monkeypatch, "matplotlib")
    monkeypatch.setattr(evaluating, "evaluate_study", None)
    assert "pip install 'laissez[deadline]'" in refusal("evaluate", small, "--plot", "a.png")


# --- traces -------------------------------------------------------------------------------------


def test_traces_are_described(tmp_path: Path) -> None:
    """How much, how often, how long, and how far zones go together; with JSON, any two of them."""
    write_trace(tmp_path, "here_gpu.json", [1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1])
    write_trace(tmp_path, "there_gpu.json", [0, 0, 1, 1, 1, 1, 1, 1, 0, 1, 0, 0])
    said = run_json("traces", "--data", str(tmp_path))
    assert said["data"] == "traces"
    here, there = said["traces"]
    assert (here["name"], here["spells"]) == ("a-date/here_gpu", 3)
    assert here["availability"] == pytest.approx(5 / 12)
    assert here["outage_hours"]["mean"] == pytest.approx(3.5 / 6)
    assert there["availability"] == pytest.approx(7 / 12)
    (together,) = said["together"]
    assert together["correlation"][0] == pytest.approx([1, -1])
    shown = text("traces", "--data", str(tmp_path))
    assert "a-date/here_gpu" in shown and "42%" in shown
    assert shown.endswith("\na-date, 2 traces: mean -1.00, from -1.00 to -1.00\n")


def test_how_zones_go_together_is_a_mean_and_a_range(tmp_path: Path) -> None:
    """Over any two different traces; one that never changes has no part in it."""
    write_trace(tmp_path, "a_gpu.json", [1, 1, 0, 0])
    write_trace(tmp_path, "b_gpu.json", [1, 1, 0, 0])
    write_trace(tmp_path, "c_gpu.json", [1, 0, 1, 0])
    write_trace(tmp_path, "d_gpu.json", [1, 1, 1, 1])
    shown = text("traces", "--data", str(tmp_path)).splitlines()
    assert shown[-1] == "a-date, 4 traces: mean 0.33, from 0.00 to 1.00"
    for name in ("a_gpu.json", "b_gpu.json"):
        next(tmp_path.rglob(name)).unlink()
    shown = text("traces", "--data", str(tmp_path)).splitlines()
    assert shown[-1] == "a-date, 2 traces: at most one of them ever changes, so there is none"


def test_single_files_and_samples_are_described_too(tmp_path: Path) -> None:
    """A file wherever it lies; samples are called so."""
    write_trace(tmp_path, "here_gpu.json", [1, 0, 1])
    path = next(tmp_path.rglob("*.json"))
    said = run_json("traces", "--trace", str(path))
    assert [each["spells"] for each in said["traces"]] == [2]
    assert said["together"] == []
    assert run_json("traces")["data"] == "sample"
    assert text("traces").startswith("These are sample traces")


def test_traces_are_drawn(tmp_path: Path) -> None:
    """Into a file."""
    path = tmp_path / "traces.png"
    assert f"The picture is in {path}." in text("traces", "--plot", str(path))
    assert path.stat().st_size > 1_000


def test_what_can_not_be_described_is_refused(tmp_path: Path) -> None:
    """Two sources at once, a gang that no trace tells of, a file that is no trace."""
    write_trace(tmp_path, "here_gpu.json", [1, 0, 1])
    path = next(tmp_path.rglob("*.json"))
    assert "either --data or --trace" in refusal(
        "traces", "--data", str(tmp_path), "--trace", str(path)
    )
    assert "none of the traces tells of 4 nodes" in refusal("traces", "--nodes", "4")
    path.write_text("[]")
    assert "is not a trace" in refusal("traces", "--trace", str(path))


def test_traces_are_found_however_deep_they_lie(tmp_path: Path) -> None:
    """Anything that ends in .json below `spot`."""
    write_trace(tmp_path, "here_gpu.json", [1, 0, 1])
    path = next(tmp_path.rglob("*.json"))
    for place in ("mine.json", "my/own/sub/folder/x.json"):
        (tmp_path / "spot" / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "spot" / place).write_bytes(path.read_bytes())
    said = run_json("traces", "--data", str(tmp_path))
    assert [each["name"] for each in said["traces"]] == [
        "a-date/here_gpu",
        "spot/mine",
        "folder/x",
    ]


def test_help_names_the_studies() -> None:
    """All that come with laissez."""
    words = text("evaluate", "--help").replace(",", " ").replace(".", " ").split()
    assert set(built_in()) <= set(words)


def test_every_option_has_help() -> None:
    """Of every command of the group, `plan` among them."""
    assert set(commands.deadline.commands) == {"plan", "evaluate", "traces"}
    for command in commands.deadline.commands.values():
        options = [each for each in command.params if isinstance(each, click.Option)]
        assert all(option.help for option in options)
        assert any("--json" in option.opts for option in options)


def test_the_real_traces_are_described() -> None:
    """All of them, where they are."""
    if not (DATA / "spot").is_dir():
        pytest.skip("the traces are not here")
    said = run_json("traces", "--data", str(DATA))
    assert len(said["traces"]) == 28
    gangs = run_json("traces", "--data", str(DATA), "--nodes", "16")
    assert len(gangs["traces"]) == 3
