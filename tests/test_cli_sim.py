"""`laissez sim` as people type it, and its page: what that shows is real."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from laissez.cli.main import cli
from laissez.documents import BadDocument
from laissez.experiments.metrics import STARVED_BELOW
from laissez.simulation.contracts.registry import CONTRACTS
from laissez.simulation.demand import population
from laissez.simulation.scenarios import regimes
from laissez.simulation.scenarios.example import EXAMPLE
from laissez.simulation.scenarios.loads import LoadSpec
from laissez.simulation.scenarios.scenario import (
    BASE_SHARE,
    SPOT_SHARE,
    CrowdSpec,
    MarketGuardSpec,
    PriceSpec,
    ScenarioSpec,
    read_scenario,
)
from laissez.simulation.scenarios.tenants import (
    BatchTenant,
    InferenceTenant,
    PolicySpec,
    RigidTenant,
    TrainingTenant,
)
from missing_module import hide
from test_adapter_docs import wrong_keys
from test_docs import blocks, first_span, rows, wrong_commands

REPO = Path(__file__).resolve().parent.parent
DATA = REPO.parent / "shared" / "data"
PAGE = REPO / "docs" / "evaluate-your-cluster.md"

SCENARIO = """\
title: Four GPUs
cluster: {h100: {host: 2, gpu: 2}}
duration: 6m
contracts: [market, fcfs]
tenants:
  - {kind: inference, name: chat, load: {service: conv, nodes: 2}}
  - {kind: inference, name: late, arrives: 2m, jitter: 30s, load: {requests_per_s: 40}}
  - {kind: batch, name: fold, work: 1m, speeds: {h100: 1}, cold_start: 30s, checkpoint_every: 30s}
"""


class Desk:
    """Somebody in a folder of their own, with a cache of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = str(folder / "scenario.yaml")
        (folder / "scenario.yaml").write_text(SCENARIO)

    def run(self, *words: str) -> Result:
        environment = {"XDG_CACHE_HOME": str(self.folder / "cache")}
        return CliRunner(env=environment).invoke(cli, words, catch_exceptions=False)

    def text(self, *words: str) -> str:
        result = self.run(*words)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self.text(*words, "--json"))

    def error(self, *words: str) -> str:
        result = self.run(*words)
        assert result.exit_code == 2, result.output
        return result.stderr


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def words(line: str) -> list[str]:
    return line.split()


# --- the commands -------------------------------------------------------------------------------


def test_init_writes_a_scenario_once(desk: Desk) -> None:
    """What it writes is valid, and nothing is ever written over."""
    path = desk.folder / "new.yaml"
    assert f"laissez sim check {path}" in desk.text("sim", "init", str(path))
    read_scenario(path.read_text(), file_name="new.yaml", folder=desk.folder)
    assert "is there already; name another file" in desk.error("sim", "init", str(path))
    other = str(desk.folder / "other.yaml")
    assert desk.json("sim", "init", other) == {"type": "ScenarioBegun", "path": other}


def test_check_says_what_would_be_played(desk: Desk) -> None:
    """Nodes, prices, tenants, money, and how much demand meets how much capacity."""
    text = desk.text("sim", "check", desk.file)
    assert "Four GPUs: 4 nodes for 6m" in text
    assert re.search(r"h100 +4 +\$6\.88/h +\$2\.064/h +\$4\.816/h", text)
    assert re.search(r"late +inference +2m \d+s +\d", text)
    assert "Contracts: market, fcfs" in text
    found = desk.json("sim", "check", desk.file)
    assert found["nodes"] == {"h100": 4}
    assert found["contracts"] == ["market", "fcfs"]
    assert list(found["tenants"]) == ["chat", "late", "fold"]
    hours = [each["node_hours_alone"] for each in found["tenants"].values()]
    assert found["demand_over_capacity"] == pytest.approx(sum(hours) / 0.4)
    assert f"Demand over capacity: {found['demand_over_capacity']:.2f}" in text
    assert desk.json("sim", "check", desk.file, "--seed", "9")["tenants"] != found["tenants"]


def test_check_doubts_what_was_perhaps_not_meant(desk: Desk) -> None:
    """Nodes that nobody can use, and tenants that the whole cluster is too small for."""
    assert "Nobody can use" not in desk.text("sim", "check", desk.file)
    cluster = "{h100: {host: 2, gpu: 2}, v100: {gpu: 3}}\nprices: {v100: {on_demand: 1}}"
    doubtful = SCENARIO.replace("{h100: {host: 2, gpu: 2}}", cluster)
    Path(desk.file).write_text(doubtful.replace("service: conv, nodes: 2", "requests_per_s: 9000"))
    said = desk.text("sim", "check", desk.file)
    assert "Nobody can use v100; what it has (3 nodes) stays idle" in said
    (little,) = re.findall(
        r"^chat gets \d+% done even with the whole cluster.*$", said, re.MULTILINE
    )
    assert "fold gets" not in said
    idle, much = desk.json("sim", "check", desk.file)["doubts"]
    assert idle.startswith("Nobody can use v100")
    assert much.startswith(little)
    for line in (("compare",), ("run", "--contract", "fcfs")):
        words = ("sim", *line, desk.file, "--processes", "1")
        assert little in desk.text(*words)
        assert desk.json(*words)["doubts"] == [much]


def test_what_has_no_title_is_called_like_its_file(desk: Desk) -> None:
    """In tables and for programs."""
    Path(desk.file).write_text(SCENARIO.replace("title: Four GPUs\n", ""))
    assert desk.text("sim", "check", desk.file).startswith("scenario: 4 nodes for 6m\n")
    assert desk.json("sim", "check", desk.file)["title"] == "scenario"
    found = desk.json("sim", "compare", desk.file, "--processes", "1")
    assert found["title"] == "scenario"


def test_where_nobody_loses_anything_that_is_said(desk: Desk) -> None:
    """There is nothing to be lower than."""
    alone = [line for line in SCENARIO.splitlines() if "name: chat" not in line]
    Path(desk.file).write_text("\n".join(alone) + "\n")
    said = desk.text("sim", "compare", desk.file, "--processes", "1")
    assert "Nobody loses anything under fcfs, so the market can't lose less." in said


def test_compare_plays_the_contracts_of_the_file(desk: Desk) -> None:
    """A row for each, a line for each tenant, a picture, and the same again from the cache."""
    picture = desk.folder / "contracts.svg"
    line = ("sim", "compare", desk.file, "--processes", "1")
    text = desk.text(*line, "--plot", str(picture))
    assert re.findall(r"^(\w+) +\d+\.\d% ", text, re.MULTILINE) == ["market", "fcfs"]
    for name in ("chat", "late", "fold"):
        assert len(re.findall(rf"^{name} .*%.*%$", text, re.MULTILINE)) == 1
    assert f"The picture is in {picture}." in text
    drawn = picture.read_text()
    assert "<svg" in drawn
    for written in ("Four GPUs", "Tenant by tenant", "late"):
        assert written in drawn
    assert list((desk.folder / "cache").rglob("*.json"))
    assert desk.text(*line, "--plot", str(picture)) == text
    assert desk.text(*line, "--no-cache") == text.replace(f"The picture is in {picture}.\n", "")


def test_one_seed_is_no_verdict(desk: Desk) -> None:
    """With one seed it is said what is lost under each contract, and not who loses less."""
    said = desk.text("sim", "compare", desk.file, "--processes", "1")
    (verdict,) = re.findall(r"^The market loses.*$", said, re.MULTILINE)
    lost = r"The market loses \d+\.\d%, fcfs \d+\.\d%"
    assert re.fullmatch(
        f"{lost}, with one seed; whether that is chance, more --seeds tell.", verdict
    )
    said = desk.text("sim", "compare", desk.file, "--seeds", "2", "--processes", "1")
    (verdict,) = re.findall(r"^The market loses.*$", said, re.MULTILINE)
    found = desk.json("sim", "compare", desk.file, "--seeds", "2", "--processes", "1")
    mine, its = (found["contracts"][name]["degradation"] for name in ("market", "fcfs"))
    assert verdict.startswith(f"The market loses {mine:.1%}, fcfs {its:.1%}: ")
    assert re.search(r"chance with 2 seeds\.$|\(\d+% to \d+%\)\.$", verdict)


def test_compare_for_programs(desk: Desk) -> None:
    """The JSON has every contract and every tenant, and adds up."""
    found = desk.json("sim", "compare", desk.file, "--seeds", "2", "--bound", "--processes", "1")
    assert found["type"] == "ScenarioCompared"
    assert (found["seeds"], found["data"]) == ([1, 2], "fitted")
    assert list(found["contracts"]) == ["market", "fcfs", "clairvoyant"]
    for name in ("market", "fcfs"):
        its, tenants = found["contracts"][name], found["tenants"][name]
        low, high = its["ci95"]
        assert low <= its["mean_retention"] <= high
        assert its["degradation"] == pytest.approx(1 - its["mean_retention"])
        assert its["p25"] <= its["median"] <= its["p75"]
        means = [each["retention"] for each in tenants.values()]
        assert its["mean_retention"] == pytest.approx(sum(means) / 3)
        paid = [each["cost_dollars"] for each in tenants.values()]
        assert its["cost_dollars"] == pytest.approx(sum(paid))
        assert all(each["cost_dollars"] <= each["budget_dollars"] for each in tenants.values())
        hours = sum(each["node_hours"] for each in tenants.values())
        assert its["utilisation"] == pytest.approx(hours / 0.4)
        assert its["mean_retention"] <= found["contracts"]["clairvoyant"]["mean_retention"] + 1e-6
    assert found["tenants"]["clairvoyant"] == {}


def test_contracts_can_be_chosen(desk: Desk) -> None:
    """Those of the command line are played instead of those of the file, each once."""
    line = ("--contract", "fair", "--contract", "fair", "--processes", "1")
    assert list(desk.json("sim", "compare", desk.file, *line)["contracts"]) == ["fair"]


def test_run_plays_one_contract(desk: Desk) -> None:
    """What becomes of each tenant, with a picture of the run."""
    picture = desk.folder / "run.png"
    text = desk.text("sim", "run", desk.file, "--processes", "1", "--plot", str(picture))
    assert re.search(r"^market +\d+\.\d%", text, re.MULTILINE)
    assert re.search(r"^fold +batch +\d+\.\d% +\d", text, re.MULTILINE)
    assert picture.read_bytes().startswith(b"\x89PNG")
    found = desk.json("sim", "run", desk.file, "--contract", "fcfs", "--processes", "1")
    assert list(found["contracts"]) == ["fcfs"]
    assert found["tenants"]["fcfs"]["chat"]["nodes_lost"] == 0, "nobody takes anything there"


def test_explain_tells_a_life(desk: Desk) -> None:
    """Line by line, or as JSON; somebody unknown is met with the names that there are."""
    text = desk.text("sim", "run", desk.file, "--explain", "late", "--contract", "fcfs")
    assert text.startswith("late under fcfs, seed 1\n")
    assert "arrives" in text
    assert "retention" in text
    life = desk.json("sim", "run", desk.file, "--explain", "late")["life"]
    assert (life["contract"], life["seed"], life["who"]["name"]) == ("market", 1, "late")
    assert "say one of" in desk.error("sim", "run", desk.file, "--explain", "lat")
    said = desk.error("sim", "run", desk.file, "--contract", "fcfs", "--contract", "fair")
    assert "run plays one contract; sim compare plays several" in said
    said = desk.error("sim", "run", desk.file, "--explain", "late", "--seeds", "2")
    assert "--explain looks at one run" in said


@pytest.mark.parametrize("command", ["check", "run", "compare"])
def test_what_is_wrong_is_shown_at_its_line(desk: Desk, command: str) -> None:
    """Every command says it, before anything is played."""
    Path(desk.file).write_text(SCENARIO.replace("work: 1m", "work: 9m"))
    said = desk.error("sim", command, desk.file)
    assert f"{desk.file}:8:5: " in said
    assert "move the deadline, make the work shorter" in said
    result = json.loads(desk.error("sim", command, desk.file, "--json"))
    assert (result["code"], f"laissez: {result['message']}\n") == ("bad_file", said)
    (problem,) = result["problems"]
    assert (problem["file"], problem["line"], problem["column"]) == (desk.file, 8, 5)
    assert problem["message"].startswith("the deadline is 0.1 h away, and even on h100")
    Path(desk.file).write_text(SCENARIO.replace("{service: conv", "{servce: conv"))
    assert "did you mean 'service'?" in desk.error("sim", command, desk.file)
    Path(desk.file).write_text(SCENARIO.replace("name: late,", "name: late, cold_start: 1h,"))
    assert ":7:5: late gets nothing done even with" in desk.error("sim", command, desk.file)
    Path(desk.file).write_bytes(b"\xff\xff")
    assert "is no text in UTF-8" in desk.error("sim", command, desk.file)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--plot", "a.pdf"), "a picture is a .png or .svg, not '.pdf'"),
        (("--plot", "nowhere/a.png"), "there is no folder 'nowhere' for the picture"),
        (("--cache", ".", "--no-cache"), "give either --cache or --no-cache, not both"),
        (("--data", "."), "there is no AzureLLMInferenceTrace_conv.csv in .; clone"),
        (("--contract", "lottery"), "'lottery' is not one of"),
    ],
)
def test_options_that_cant_be(desk: Desk, options: tuple[str, ...], sentence: str) -> None:
    """Each is refused with a sentence, and nothing is played."""
    assert sentence in desk.error("sim", "compare", desk.file, "--processes", "1", *options)


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ("matplotlib", ("sim", "run", "FILE", "--plot", "a.png")),
        ("matplotlib", ("sim", "compare", "FILE", "--plot", "a.svg")),
        ("highspy", ("sim", "compare", "FILE", "--bound")),
        ("matplotlib", ("reproduce", "6", "--plot", "a.png")),
        ("highspy", ("reproduce", "6")),
    ],
)
def test_without_the_extra_it_says_what_to_install(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, missing: str, words: tuple[str, ...]
) -> None:
    """Whoever has not installed it is told how, before anything is played."""
    hide(monkeypatch, missing)
    said = desk.error(*(desk.file if word == "FILE" else word for word in words))
    assert missing in said
    assert ", which is not installed: pip install 'laissez[simulation]'" in said


def test_the_real_traces_can_be_used(desk: Desk) -> None:
    """With a folder of data, requests are those of the traces."""
    if not (DATA / "azure_llm").is_dir():
        pytest.skip("the traces are not here")
    line = ("sim", "check", desk.file)
    real = desk.json(*line, "--data", str(DATA))["tenants"]
    made_up = desk.json(*line)["tenants"]
    assert real["chat"]["performance_alone"] != made_up["chat"]["performance_alone"]
    assert real["late"] == made_up["late"], "a constant load is the same"


# --- the page -----------------------------------------------------------------------------------

COMMON = {"name", "arrives", "jitter", "count", "budget", "preemptible"}
TABLES: dict[str, tuple[type[msgspec.Struct], set[str]]] = {
    "The file": (ScenarioSpec, set()),
    "Prices": (PriceSpec, set()),
    "Policies": (PolicySpec, set()),
    "inference": (InferenceTenant, COMMON),
    "Load": (LoadSpec, set()),
    "training": (TrainingTenant, COMMON),
    "batch": (BatchTenant, COMMON),
    "rigid": (RigidTenant, COMMON),
    "Guards": (MarketGuardSpec, set()),
    "Crowd": (CrowdSpec, set()),
}


@pytest.mark.parametrize("title", TABLES)
def test_every_key_is_documented(title: str) -> None:
    """The page has each key of each part, and no other, with its default."""
    spec, without = TABLES[title]
    assert wrong_keys(PAGE.read_text(), title, spec, without) == []


def test_what_all_tenants_have_is_documented() -> None:
    """In a table of its own, with the defaults."""
    text = PAGE.read_text()
    assert {first_span(row[0]) for row in rows(text, "Every tenant")} == COMMON | {"kind"}
    beside = set(BatchTenant.__struct_fields__) - COMMON
    assert wrong_keys(text, "Every tenant", BatchTenant, beside) == ["Every tenant: kind"]


def test_every_contract_is_on_the_page() -> None:
    """By the name that the file takes."""
    (row,) = (row for row in rows(PAGE.read_text(), "The file") if row[0] == "`contracts`")
    assert re.findall(r"`(\w+)`", row[1]) == list(CONTRACTS)


def test_the_figures_on_the_page_are_those_of_the_code() -> None:
    """What money tenants have, what nodes cost, who is starved."""
    text = PAGE.read_text()
    times = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six"}[regimes.BUDGET_FACTOR]
    assert text.count(f"{times} times") == 2
    shares = regimes.SPOT_SHARES
    assert (
        f"{shares['h100']:.0%} of that for h100, {shares['a100']:.0%} for a100, "
        f"{SPOT_SHARE:.0%} for others"
    ) in text
    assert f"else {BASE_SHARE:.0%} of on-demand" in text
    assert f"keep busy, at {population.UTILISATION:.0%}" in text
    assert STARVED_BELOW == 0.1
    assert "less than a tenth" in text


def test_the_page_from_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands are commands, and run one after the other; its pictures are there at the end;
    the table that it shows has the columns of the real one."""
    text = PAGE.read_text()
    assert wrong_commands(text) == []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    printed = {}
    for block in blocks(text, "sh"):
        for line in filter(None, block.code.splitlines()):
            several = ("--processes", "1") if "compare" in line else ()
            said = CliRunner().invoke(cli, [*shlex.split(line)[1:], *several])
            assert said.exit_code == 0, said.output
            printed[line] = said.stdout
    assert (tmp_path / "contracts.svg").exists()
    assert (tmp_path / "market.svg").exists()
    compared = printed["laissez sim compare scenario.yaml --plot contracts.svg"]
    shown = [block.code.strip("\n") for block in blocks(text, "text")][-1].splitlines()
    real = [words(line) for line in compared.splitlines()]
    assert [words(line) for line in shown[:2]] == real[1:3]


def test_the_files_on_the_page_are_valid() -> None:
    """The scenario can be read, and the mistake that is shown is what is said of it."""
    text = PAGE.read_text()
    (whole,) = blocks(text, "yaml")
    found = read_scenario(whole.code, file_name="page", folder=REPO)
    assert found.sizes == {"h100": 8}
    mistaken = re.sub(r"\n    nodes: 4 .*", "", EXAMPLE)
    with pytest.raises(BadDocument) as caught:
        read_scenario(mistaken, file_name="scenario.yaml", folder=REPO)
    shown = blocks(text, "text")[0].code.strip().splitlines()
    assert shown[1] == str(caught.value).splitlines()[0]
