"""`laissez reproduce`: what it lists, runs, prints, draws, explains and refuses."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from laissez.cli.evaluator import reproduce as commands
from laissez.cli.main import cli
from laissez.experiments.figures import contention
from laissez.experiments.figures.contention import (
    AloneResult,
    AloneTask,
    ContentionPlay,
    DrawnProject,
)
from laissez.experiments.figures.figure import spread
from laissez.experiments.intervals import Interval
from laissez.experiments.summaries import RunOutcome
from laissez.simulation.contracts.registry import CONTRACTS
from laissez.simulation.scenarios.regimes import Alone

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
LIGHT_SEED = 102
"""In the small cluster, of the lowest regime: three tenants, one of each class."""


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["reproduce", *words], catch_exceptions=False)


def refusal(*words: str) -> str:
    """What is said on stderr, without the name of the program."""
    result = run(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    return line.removeprefix("laissez: ")


ALONE = Alone(1.0, 1.0, 1e6)


def two_alone(task: AloneTask, data: Path | None) -> AloneResult:
    return AloneResult(
        (DrawnProject(0, ALONE), DrawnProject(1, ALONE)), (2,) * len(task.regimes), task.regimes
    )


def played(task: ContentionPlay, data: Path | None) -> RunOutcome:
    MADE_UP.append(task)
    return RunOutcome({"a": 0.5 + len(task.contract) / 100, "b": 0.5 + task.seed / 1_000})


MADE_UP: list[ContentionPlay] = []


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> list[ContentionPlay]:
    """Runs that take no time; and those that were asked for."""
    MADE_UP.clear()
    monkeypatch.setattr(contention, "run_alone", two_alone)
    monkeypatch.setattr(contention, "run_play", played)
    return MADE_UP


@pytest.fixture
def keeping(tmp_path: Path) -> tuple[str, ...]:
    """Everything in this process, and results in a folder of the test."""
    return "--processes", "1", "--cache", str(tmp_path / "cache")


@pytest.fixture(autouse=True)
def nothing_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))


# --- what is shown ------------------------------------------------------------------------------


def test_without_a_figure_they_are_listed() -> None:
    """Number and title, for people and for programs."""
    result = run()
    assert result.exit_code == 0
    assert "6        Retention under contention" in result.stdout
    listed = json.loads(run("--json").stdout)
    assert {"figure": "6", "title": "Retention under contention"} in listed
    assert {"figure": "10", "title": "Topology-aware against oblivious bidding"} in listed


def test_the_json_of_figure_6(made_up: list[ContentionPlay], keeping: tuple[str, ...]) -> None:
    """One document, with every regime and contract."""
    document = json.loads(run("6", "--seeds", "2", "--json", *keeping).stdout)
    assert document["figure"] == "6"
    assert list(document["regimes"]) == ["0.4", "0.7", "1.0", "1.125", "2.25"]
    for by_contract in document["regimes"].values():
        assert sorted(by_contract) == [
            *("clairvoyant", "fair", "fcfs", "fcfs_p", "market", "no_displacement")
        ]
        assert by_contract["fcfs"]["mean_retention"] == pytest.approx((0.54 + 0.6005) / 2)
    assert document["seeds"] == [100, 101]
    assert document["data"] == "fitted"


def test_the_json_of_figure_10(keeping: tuple[str, ...]) -> None:
    """A real one, quick: one document with one batch and all ways, in which something is done; run
    again it comes from the cache, and the table for people has the same numbers."""
    words = ("10", "--quick", "--seeds", "1", *keeping)
    first = run(*words, "--json").stdout
    document = json.loads(first)
    assert (document["figure"], document["global_batch"]) == ("10", 64)
    assert (document["oversubscribed"], document["seeds"]) == (1.5, [100])
    (its,) = document["batches"].values()
    for way in ("aware", "oblivious", "fcfs"):
        assert its["throughput"][way]["estimate"] > 0
        assert 0 < its["retention"][way]["estimate"] <= 1
    assert its["displaced"]["fcfs"]["estimate"] == 0
    means = {way: its["throughput"][way]["estimate"] for way in its["throughput"]}
    assert document["ratio"] == pytest.approx(means["aware"] / means["oblivious"])
    assert document["is_met"] is None
    assert run(*words, "--json").stdout == first
    told = run(*words).stdout
    assert f"Aware over oblivious with a batch of 64: {document['ratio']:.2f}." in told
    for label in ("market, aware", "market, oblivious", "FCFS"):
        assert label in told


def test_the_reported_seeds_are_run_if_nothing_is_said(
    made_up: list[ContentionPlay], keeping: tuple[str, ...]
) -> None:
    """Twenty of the whole cluster; two of a small one if it is to be quick."""
    words = ("6", "--regime", "0.7", "--contract", "fair", *keeping)
    run(*words)
    assert {task.seed for task in made_up} == set(range(100, 120))
    assert not any(task.is_small for task in made_up)
    made_up.clear()
    run(*words, "--quick")
    assert {task.seed for task in made_up} == {100, 101}
    assert all(task.is_small for task in made_up)


def test_a_part_of_the_figure(made_up: list[ContentionPlay], keeping: tuple[str, ...]) -> None:
    """Some regimes and contracts, in the figure's own order."""
    words = ["--regime", "2.25", "--regime", "0.4", "--contract", "fair", "--contract", "market"]
    document = json.loads(run("6", "--seeds", "1", "--json", *words, *keeping).stdout)
    assert list(document["regimes"]) == ["0.4", "2.25"]
    assert list(document["regimes"]["0.4"]) == ["market", "fair"]
    assert document["regimes"]["0.4"]["fair"]["ci95"] == [None, None]
    assert document["goals"] == []


def test_tables_for_people(made_up: list[ContentionPlay], keeping: tuple[str, ...]) -> None:
    """Titles, contracts, goals; and that a quick look is not what we report, nor held against
    goals."""
    told = run("6", "--quick", *keeping).stdout
    assert told.startswith("A quick look at a small cluster: these are not the figures that we")
    assert "Mean retention in %: equal budgets, floor at 0.7 of list prices" in told
    assert "Mean retention in %: budgets by demand, floor at 1.0 of list prices" in told
    assert "Means over 2 seeds from 100 on, with 95% intervals" in told
    goal = "1.0: degradation at least 17% lower than FCFS's"
    assert goal not in told
    told = run("6", "--seeds", "1", *keeping).stdout
    assert "A quick look" not in told
    assert "Of seed 100 alone, so without intervals; requests made up" in told
    assert goal in told


def test_what_was_run_is_not_run_again(
    made_up: list[ContentionPlay], keeping: tuple[str, ...]
) -> None:
    """From the cache comes the same text; without it, everything is run."""
    words = ("6", "--quick", "--json", *keeping)
    first = run(*words).stdout
    count = len(made_up)
    assert count == 2 * 2 * 15
    assert run(*words).stdout == first
    assert len(made_up) == count
    run("6", "--quick", "--json", "--no-cache", "--processes", "1")
    assert len(made_up) == 2 * count


def test_the_usual_cache_is_that_of_the_user(made_up: list[ContentionPlay], tmp_path: Path) -> None:
    """XDG_CACHE_HOME says where; --no-cache leaves nothing there."""
    words = ("6", "--quick", "--contract", "fair", "--processes", "1")
    run(*words, "--no-cache")
    assert not (tmp_path / "home").exists()
    run(*words)
    kept = list((tmp_path / "home" / "laissez").rglob("*.json"))
    assert len(kept) == 2 + len(made_up) / 2


@pytest.mark.parametrize("name", ["figure.png", "figure.svg"])
def test_a_picture(
    made_up: list[ContentionPlay], keeping: tuple[str, ...], tmp_path: Path, name: str
) -> None:
    """It is a picture, and the numbers are told all the same."""
    pytest.importorskip("matplotlib")
    path = tmp_path / name
    told = run("6", "--quick", "--plot", str(path), *keeping).stdout
    assert told.endswith(f"The picture is in {path}.\n")
    assert "Mean retention in %" in told
    if name.endswith("png"):
        assert path.read_bytes().startswith(b"\x89PNG")
    else:
        assert "FCFS-P" in "".join(ElementTree.parse(path).getroot().itertext())


# --- real runs ----------------------------------------------------------------------------------


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    monkeypatch.setattr(commands, "SEEDS", (LIGHT_SEED,))
    return "6", "--quick", "--seeds", "1", "--regime", "0.4", "--json"


def test_a_run_again_gives_the_same_numbers(
    light: tuple[str, ...], keeping: tuple[str, ...]
) -> None:
    """To the digit: fresh, from the cache, and in two processes."""
    chosen = ("--contract", "fcfs", "--contract", "fair")
    first = run(*light, *chosen, *keeping)
    assert first.exit_code == 0
    assert run(*light, *chosen, *keeping).stdout == first.stdout
    assert run(*light, *chosen, "--no-cache", "--processes", "2").stdout == first.stdout
    found = json.loads(first.stdout)["regimes"]["0.4"]["fcfs"]
    assert 0 < found["mean_retention"] <= 1
    assert found["cost_dollars"] > 0
    assert 0 < found["utilisation"] < 1


def test_no_contract_exceeds_the_bound(keeping: tuple[str, ...]) -> None:
    """All of the quick figure, of one seed: every regime, contract, reading and floor."""
    pytest.importorskip("highspy")
    document = json.loads(run("6", "--quick", "--seeds", "1", "--json", *keeping).stdout)
    cases = [by for by_share in document["readings"].values() for by in by_share.values()]
    assert len(cases) == 4
    for by_regime in cases:
        assert list(by_regime) == ["0.4", "1.0"]
        for found in by_regime.values():
            assert list(found) == [*CONTRACTS, "clairvoyant"]
            most = found["clairvoyant"]["mean_retention"]
            for contract in CONTRACTS:
                assert 0.3 < found[contract]["mean_retention"] <= most + 1e-6
            assert found["fcfs"]["moves"]["displaced"] == 0
            assert found["no_displacement"]["moves"]["displaced"] == 0
            assert found["clairvoyant"].keys() == {"mean_retention", "ci95", "degradation"}
        assert by_regime["1.0"]["clairvoyant"]["mean_retention"] < 0.9
        assert by_regime["1.0"]["market"]["moves"]["displaced"] > 0
    for regime, its in document["demand_over_capacity"].items():
        assert its["lowest"] == its["mean"] == its["highest"]
        assert abs(its["mean"] - float(regime)) < 0.15


def test_real_requests_are_other_runs(light: tuple[str, ...], keeping: tuple[str, ...]) -> None:
    """The folder, or the one in which it lies, gives the requests; results are kept apart."""
    if not DATA.is_dir():
        pytest.skip("the folder of data is not here")
    words = (*light, "--contract", "fcfs", *keeping)
    fitted = json.loads(run(*words).stdout)
    real = json.loads(run(*words, "--data", str(DATA)).stdout)
    assert (fitted["data"], real["data"]) == ("fitted", "azure")
    assert fitted["regimes"] != real["regimes"]
    assert json.loads(run(*words, "--data", str(DATA / "azure_llm")).stdout) == real


# --- one tenant ---------------------------------------------------------------------------------

ONE_RUN = ("6", "--quick", "--regime", "0.4", "--seed", str(LIGHT_SEED))


def test_a_life_is_told() -> None:
    """The tenant, what happened, and what it came to."""
    result = run(*ONE_RUN, "--contract", "fcfs", "--explain", "batch-0")
    assert result.exit_code == 0
    assert "batch-0" in result.stdout
    assert len(result.stdout.splitlines()) > 5


def test_a_life_of_figure_10_is_told_in_the_way_that_is_named() -> None:
    """An oblivious job asks nowhere near what it has; an aware one does."""
    words = ("10", "--quick", "--regime", "1.5", "--contract", "market", "--explain", "training-0")
    told = {way: run(*words, "--way", way).stdout for way in ("aware", "oblivious")}
    assert told["aware"] == run(*words).stdout
    for way, each in told.items():
        life = json.loads(run(*words, "--way", way, "--json").stdout)
        bids = [bid for event in life["events"] for bid in event.get("bids", ())]
        assert bids
        assert any("/" in bid["scope"] for bid in bids) == (way == "aware")
        assert "training-0 under market, seed 100" in each
        assert each.startswith(
            "figure 10 at 1.5, equal budgets, floors at 0.7 of list prices, "
            f"bidding {way}, the small cluster\n"
        )


def test_a_life_is_drawn(tmp_path: Path) -> None:
    """With --plot the picture is of the tenant."""
    pytest.importorskip("matplotlib")
    path = tmp_path / "life.svg"
    run(*ONE_RUN, "--contract", "market", "--explain", "training-2", "--plot", str(path))
    assert "training-2 under market" in "".join(ElementTree.parse(path).getroot().itertext())


def test_a_life_as_json() -> None:
    """With its run, and the other reading of the budget if it is asked for."""
    words = (*ONE_RUN, "--contract", "fcfs", "--explain", "batch-0", "--json")
    equal, demand = (json.loads(run(*words, *more).stdout) for more in ((), READ_BY_DEMAND))
    for life in (equal, demand):
        assert (life["who"]["name"], life["contract"], life["seed"]) == (
            *("batch-0", "fcfs"),
            LIGHT_SEED,
        )
    assert equal["who"]["budget_micros"] > demand["who"]["budget_micros"]


READ_BY_DEMAND = ("--reading", "demand", "--base-share", "1.0")


# --- what is refused ----------------------------------------------------------------------------

EXPLAIN = ("6", "--explain", "batch-0")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["7"], "there is no figure '7'; take one of"),
        (["6", "--regime", "3"], "figure 6 has no regime '3.0'; take one of 0.4, 0.7, 1.0,"),
        (["6", "--regime", "nan"], "is not a number to reckon with"),
        (["6", "--contract", "fcf"], "figure 6 has no contract 'fcf'; did you mean 'fcfs'?"),
        (["6", "--contract", "x"], "figure 6 has no contract 'x'; take one of market, fcfs,"),
        (["6", "--seeds", "0"], "0 is not in the range 1<=x<=1000"),
        (["6", "--cache", "c", "--no-cache"], "give either --cache or --no-cache, not both"),
        (["6", "--seed", "3"], "say which run to --explain"),
        (["6", "--reading", "demand"], "say which run to --explain"),
        (["10", "--way", "aware"], "say which run to --explain"),
        (
            [*EXPLAIN, "--regime", "1.0", "--contract", "market", "--way", "aware"],
            "figure 6 has no choice of a way; leave it out",
        ),
        (
            [*("10", *EXPLAIN[1:], "--regime", "1.5", "--contract", "market"), "--way", "blind"],
            "figure 10 has no way 'blind'; take one of aware, anywhere, oblivious",
        ),
        (["10", "--contract", "fcfs"], "figure 10 is about market; name it, too, or no contract"),
        (
            [*("10", *EXPLAIN[1:], "--regime", "1.5", "--contract", "fcfs"), "--way", "aware"],
            "nobody bids under 'fcfs'; leave --way out",
        ),
        ([*EXPLAIN, "--seed", "-3"], "-3 is not in the range x>=0"),
        (["--explain", "training-0"], "which figure? name one of 6, 10, gangs, notice"),
        (["6", "--plot", "figure.doc"], "a picture is a .png or .svg, not '.doc'"),
        (["6", "--plot", "no/where.png"], "there is no folder 'no' for the picture"),
        ([*EXPLAIN], "give one --regime and one --contract"),
        ([*EXPLAIN, "--regime", "0.4"], "give one --regime and one --contract"),
        ([*EXPLAIN, "--contract", "fcfs"], "give one --regime and one --contract"),
        ([*EXPLAIN, "--seeds", "3"], "--explain looks at one run; give its --seed, not --seeds"),
        (
            [*EXPLAIN, "--regime", "0.4", "--contract", "fcfs", "--base-share", "0.5"],
            "it is one of 0.7, 1.0, not 0.5",
        ),
        (
            [*EXPLAIN, "--regime", "0.4", "--contract", "clairvoyant"],
            "nobody lives under 'clairvoyant', which is a bound; take one of market,",
        ),
        (
            [*ONE_RUN, "--contract", "fcfs", "--explain", "batch-9"],
            "no tenant is called 'batch-9'; say one of batch-0",
        ),
    ],
)
def test_what_is_not_right_is_refused_with_a_sentence(words: list[str], sentence: str) -> None:
    """Before anything runs; it says what to do."""
    assert sentence in refusal(*words)


def test_a_folder_without_traces_is_refused(tmp_path: Path) -> None:
    """It says which file is missing, and where."""
    said = refusal("6", "--data", str(tmp_path))
    assert f"there is no AzureLLMInferenceTrace_conv.csv in {tmp_path}; clone " in said


def test_traces_that_are_none_are_refused(tmp_path: Path) -> None:
    """Files of the right name, with nothing of theirs."""
    for service in ("conv", "code"):
        (tmp_path / f"azure_llm_2023_{service}.csv.gz").write_bytes(b"not packed")
    said = refusal("6", "--data", str(tmp_path))
    assert f"{tmp_path / 'azure_llm_2023_conv.csv.gz'} can't be read" in said


def test_a_cache_that_cannot_be_is_refused(made_up: list[ContentionPlay], tmp_path: Path) -> None:
    """Results can't be kept in it."""
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "within"
    assert f"results can't be kept in {path}" in refusal("6", "--cache", str(path))
    assert made_up == []


def test_a_refusal_for_programs() -> None:
    """With --json it is an object."""
    result = run("7", "--json")
    said: Any = json.loads(result.stderr)
    assert (result.exit_code, said["code"]) == (2, "usage")


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [
        (-0.4, -0.35, " (-40 to -35)"),
        (None, -0.35, " (at most -35)"),
        (0.1, None, " (at least 10)"),
        (None, None, ""),
    ],
)
def test_what_is_not_bounded_is_said_in_words(
    low: float | None, high: float | None, told: str
) -> None:
    """An interval that is open on a side has no question mark there."""
    assert spread(Interval(0.0, low, high)) == told
