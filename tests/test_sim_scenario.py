"""Scenarios: what a file comes to, what is wrong with it and where, and what its runs are."""

import pickle
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laissez.documents import BadDocument, Problem
from laissez.experiments.runs import Runs
from laissez.experiments.scenario.comparing import (
    ScenarioComparison,
    ScenarioFile,
    ScenarioPlay,
    compare,
    files_of,
    run_play,
)
from laissez.performance.inference import Load, preset, profile
from laissez.performance.inference.capacity import node_rates
from laissez.performance.training import Setup, planner_of
from laissez.simulation.contracts.registry import CLAIRVOYANT, CONTRACTS
from laissez.simulation.contracts.setting import MarketGuards
from laissez.simulation.demand import population
from laissez.simulation.demand.fitted import FittedRequests
from laissez.simulation.demand.population import number_of
from laissez.simulation.demand.projects import Batch, GangSize, Project, Rigid, Serving, Training
from laissez.simulation.demand.requests import RequestStep
from laissez.simulation.scenarios import regimes
from laissez.simulation.scenarios.example import EXAMPLE
from laissez.simulation.scenarios.loads import mean_of, read_load
from laissez.simulation.scenarios.scenario import Scenario, read_scenario

REPO = Path(__file__).resolve().parent.parent
EXAMPLES = REPO / "examples" / "scenarios"
DATA = REPO.parent / "shared" / "data"
US_PER_S = 1_000_000
MINUTE_US = 60 * US_PER_S

HEAD = """\
cluster:
  h100: {rack: 1, host: 2, gpu: 2}
  a100: {rack: 1, host: 1, gpu: 2}
duration: 10m
tenants:
"""
CHAT = "  - {kind: inference, name: chat, load: {requests_per_s: 10}}\n"
BIG = CHAT.replace("load", "nodes: {h100: {gpu: h100_sxm, gpus: 8}}, load")
TUNE = "  - {kind: training, name: tune, nodes: 2, reconfigure: 30s}\n"
FOLD = """\
  - {kind: batch, name: fold, work: 2m, deadline: 8m, cold_start: 30s, checkpoint_every: 1m}
"""
GANG = "  - {kind: rigid, name: pre, nodes: 2, within: host, work: 2m, cold_start: 30s}\n"
SMALL = HEAD + CHAT + TUNE + FOLD


def scenario(text: str, folder: Path = EXAMPLES) -> Scenario:
    return read_scenario(text, file_name="scenario.yaml", folder=folder)


def everybody(text: str, seed: int = 1, folder: Path = EXAMPLES) -> dict[str, Project]:
    return {each.name: each for each in scenario(text, folder).everybody(seed, FittedRequests())}


def serving(project: Project) -> Serving:
    assert isinstance(project.labour, Serving)
    return project.labour


def problems(text: str, folder: Path = EXAMPLES) -> list[tuple[int, int, str]]:
    with pytest.raises(BadDocument) as caught:
        scenario(text, folder)
    return [(each.line, each.column, each.sentence) for each in caught.value.problems]


# --- what a file comes to -----------------------------------------------------------------------


def test_a_cluster_in_short_form() -> None:
    """Levels multiply out in their order; the last one is the node."""
    setting = scenario(SMALL).setting(
        1, FittedRequests(), scenario(SMALL).all_alone(1, FittedRequests())
    )
    assert setting.resources == (
        "h100/rack0/host0/gpu0",
        "h100/rack0/host0/gpu1",
        "h100/rack0/host1/gpu0",
        "h100/rack0/host1/gpu1",
        "a100/rack0/host0/gpu0",
        "a100/rack0/host0/gpu1",
    )
    assert setting.horizon_us == 10 * MINUTE_US
    assert dict(scenario(SMALL).sizes) == {"h100": 4, "a100": 2}


def test_a_cluster_in_a_file_of_its_own(tmp_path: Path) -> None:
    """Its nodes are those of the file, and its floors are the market's."""
    (tmp_path / "c.yaml").write_text(
        "version: 1\ntrees:\n  h100:\n    floor: 2.50\n    levels: [host, gpu]\n"
        "    layout:\n      - {host: 'h[1-2]', gpu: 'g[0-1]'}\n"
    )
    found = scenario("cluster: c.yaml\nduration: 10m\ntenants:\n" + CHAT, tmp_path)
    setting = found.setting(1, FittedRequests(), found.all_alone(1, FittedRequests()))
    assert setting.resources == ("h100/h1/g0", "h100/h1/g1", "h100/h2/g0", "h100/h2/g1")
    assert setting.prices.base == {"h100": 2_500_000}
    assert found.files == (tmp_path / "c.yaml",)


def test_prices_are_those_given_and_else_the_usual() -> None:
    """A tree with a usual name has list prices; spot and floor follow from on-demand."""
    assert scenario(SMALL).prices == regimes.prices()
    text = "prices:\n  h100: {on_demand: 10.00, base: 1.25}\n" + SMALL
    prices = scenario(text).prices
    assert prices.on_demand["h100"] == 10_000_000
    assert prices.spot["h100"] == 10_000_000 * regimes.SPOT_SHARES["h100"]
    assert prices.base["h100"] == 1_250_000
    assert prices.base["a100"] == regimes.prices().base["a100"]


def test_budgets_are_those_given_and_else_follow_from_running_alone() -> None:
    """Four times what it pays alone at list prices, as in our own study."""
    text = SMALL.replace("name: fold,", "name: fold, budget: 3.50,")
    found = scenario(text)
    alone = found.all_alone(1, FittedRequests())
    budgets = found.setting(1, FittedRequests(), alone).budgets
    assert budgets["fold"] == 3_500_000
    for name in ("chat", "tune"):
        assert budgets[name] == round(regimes.BUDGET_FACTOR * alone[name].list_cost_micros) > 0


def test_a_gang_and_the_guards_are_as_the_file_says() -> None:
    """A level is so many names of a path; without one, anywhere in a tree is one domain."""
    text = (
        HEAD
        + GANG.replace("work", "patience: 4m, work")
        + GANG.replace("pre", "wide").replace("nodes: 2, within: host", "nodes: 4")
    )
    found = everybody(text)
    pre, wide = found["pre"].labour, found["wide"].labour
    assert isinstance(pre, Rigid)
    assert isinstance(wide, Rigid)
    assert pre.gang == GangSize(2, 3)
    assert wide.gang == GangSize(4, 1)
    assert (pre.patience_us, wide.patience_us) == (4 * MINUTE_US, None)
    assert found["pre"].kind == "rigid"
    guarded = scenario("guards: {h100: {notice: 60s, commit: 2m}}\n" + text)
    setting = guarded.setting(1, FittedRequests(), guarded.all_alone(1, FittedRequests()))
    assert setting.guards == {"h100": MarketGuards(MINUTE_US, 2 * MINUTE_US)}


def test_contracts_of_today_are_compared_with_gangs() -> None:
    """How long they wait is told of each contract; of those without any, nothing."""
    text = "contracts: [fcfs, fair]\n" + HEAD + GANG.replace("work", "count: 3, work")
    source = ScenarioFile(text, "scenario.yaml", str(EXAMPLES))
    for summary in compare(source, ["fcfs", "fair"], [1], Runs()).summaries().values():
        assert summary.gangs is not None
        assert (summary.gangs.jobs, summary.gangs.starved) == (3, 0)
        assert summary.gangs.wait_p50_s == 0.0


def test_copies_have_names_arrivals_and_loads_of_their_own() -> None:
    """They differ in what is left to chance, and in nothing else; all fit into the scenario."""
    text = HEAD + (
        "  - {kind: inference, name: chat, count: 3, arrives: 1m, jitter: 2m, lasts: 5m,\n"
        "     load: {service: conv, requests_per_s: 20}}\n"
    )
    found = everybody(text)
    assert list(found) == ["chat-1", "chat-2", "chat-3"]
    arrivals = [each.arrives_us for each in found.values()]
    assert len(set(arrivals)) == 3
    assert all(MINUTE_US <= at_us <= 3 * MINUTE_US for at_us in arrivals)
    assert {each.ends_us - each.arrives_us for each in found.values()} == {5 * MINUTE_US}
    loads = [[step[1] for step in serving(each).trace.steps] for each in found.values()]
    assert loads[0] != loads[1] != loads[2]
    for each in found.values():
        assert serving(each).trace.steps[0][0] == each.arrives_us
        assert serving(each).trace.end_us == each.ends_us


def test_one_more_tenant_changes_nobody() -> None:
    """Everyone draws from streams of its own; another seed is another draw."""
    noisy = (
        "  - {kind: inference, name: chat, jitter: 1m, load: {service: code, requests_per_s: 9}}\n"
    )
    first = everybody(HEAD + noisy)["chat"]
    assert everybody(HEAD + CHAT.replace("chat", "other") + noisy)["chat"] == first
    assert everybody(HEAD + noisy, seed=2)["chat"] != first
    assert everybody(HEAD + noisy)["chat"] == first


def test_without_an_end_a_tenant_stays_to_the_end() -> None:
    """Whatever its jitter, so that copies last equally long."""
    text = HEAD + CHAT.replace("name: chat,", "name: chat, arrives: 1m, jitter: 3m,")
    found = everybody(text)["chat"]
    assert found.ends_us - found.arrives_us == 6 * MINUTE_US


def test_a_constant_load() -> None:
    """One step, of the rate and the lengths that are said, from arrival to end."""
    text = HEAD + (
        "  - {kind: inference, name: chat, arrives: 1m, lasts: 4m,\n"
        "     load: {requests_per_s: 7, prompt_tokens: 300, output_tokens: 40}}\n"
    )
    labour = serving(everybody(text)["chat"])
    assert labour.trace.steps == ((MINUTE_US, 7.0, 300.0, 40.0),)
    assert labour.trace.end_us == 5 * MINUTE_US
    assert labour.requests == 7 * 240
    assert labour.spec.expected == Load(7.0, 300.0, 40.0)


def test_a_load_counted_in_nodes() -> None:
    """So many requests that so many nodes of the first kind are busy as they may be."""
    text = HEAD + CHAT.replace("requests_per_s: 10", "nodes: 3, prompt_tokens: 500")
    labour = serving(everybody(text)["chat"])
    one = node_rates(
        profile("Llama-3.1-8B", "h100_sxm", 1), Load(1.0, 500.0, 200.0), preset("planner-default")
    )
    assert labour.trace.steps[0][1] == pytest.approx(3 * 0.8 * one.requests_per_s)


@pytest.mark.parametrize("per_s", [0.5, 4.0, 23.0])
def test_a_service_is_scaled_to_its_size(per_s: float) -> None:
    """Its mean rate is the one that is said, and larger ones are steadier."""
    text = HEAD + CHAT.replace("requests_per_s: 10", f"service: code, requests_per_s: {per_s}")
    labour = serving(everybody(text)["chat"])
    assert labour.requests == pytest.approx(per_s * 600)
    assert len(labour.trace.steps) == 60


def test_a_load_of_ones_own(tmp_path: Path) -> None:
    """A file begins anew when it is over; its last row lasts as long as the one before it."""
    (tmp_path / "own.csv").write_text("at_s,requests_per_s,output_tokens\n0,2,10\n100,6,30\n")
    text = HEAD + CHAT.replace("requests_per_s: 10", "csv: own.csv, prompt_tokens: 50")
    found = scenario(text, tmp_path)
    (project,) = found.everybody(1, FittedRequests())
    steps = serving(project).trace.steps
    assert [step[0] // US_PER_S for step in steps] == [0, 100, 200, 300, 400, 500]
    assert [step[1:] for step in steps[:2]] == [(2.0, 50.0, 10.0), (6.0, 50.0, 30.0)]
    assert serving(project).spec.expected == Load(4.0, 50.0, 25.0)  # of 8 requests 6 make 30
    assert found.files == (tmp_path / "own.csv",)
    scaled = text.replace("csv: own.csv", "csv: own.csv, requests_per_s: 40")
    (project,) = scenario(scaled, tmp_path).everybody(1, FittedRequests())
    assert [step[1] for step in serving(project).trace.steps[:2]] == [20.0, 60.0]
    marked = "\ufeff" + (tmp_path / "own.csv").read_text()  # as spreadsheets save it
    (tmp_path / "own.csv").write_text(marked, encoding="utf-8")
    (project,) = scenario(text, tmp_path).everybody(1, FittedRequests())
    assert serving(project).trace.steps == steps


def test_means_are_over_requests() -> None:
    """A rate is a mean over time, lengths are means over requests."""
    steps = [(0, RequestStep(1.0, 100.0, 10.0)), (10 * US_PER_S, RequestStep(3.0, 500.0, 50.0))]
    assert mean_of(steps, 20 * US_PER_S) == Load(2.0, 400.0, 40.0)


def test_training_by_samples_and_by_nodes() -> None:
    """Samples are those of an epoch; or they are what so many nodes do until the deadline."""
    text = HEAD + "  - {kind: training, name: tune, samples: 500, epochs: 3, deadline: 9m}\n"
    labour = everybody(text)["tune"].labour
    assert isinstance(labour, Training)
    assert (labour.spec.samples, labour.spec.deadline_us) == (1_500, 9 * MINUTE_US)
    labour = everybody(HEAD + TUNE)["tune"].labour
    assert isinstance(labour, Training)
    setup = Setup("OPT-350", (("h100", "H100"), ("a100", "A100-80")), ("rack", "host"))
    assert labour.spec.setup == setup
    assert labour.spec.samples == round(2 * 570 * planner_of(setup).reference_samples_per_s)
    assert labour.spec.nodes_max == 6, "no more than the cluster has"


def test_batch_policies_and_preemption() -> None:
    """What is said is in the project; what is not is as usual."""
    text = "policies: {batch: {horizon: 200s, hysteresis: 10%}}\n" + SMALL
    found = everybody(text.replace("name: fold,", "name: fold, preemptible: true,"))
    labour = found["fold"].labour
    assert isinstance(labour, Batch)
    assert (labour.hours, labour.speeds) == (2 / 60, population.SPEEDS)
    assert (labour.pricing.horizon_s, labour.pricing.hysteresis) == (200.0, 0.1)
    assert labour.is_preemptible
    assert found["chat"].labour == everybody(SMALL)["chat"].labour
    assert not everybody(SMALL)["fold"].labour.is_preemptible


def test_a_crowd_comes_beside_those_who_are_named() -> None:
    """As many as bring its demand near the ratio, with the budgets of our study."""
    text = (
        "cluster: {h100: {host: 1, gpu: 4}, a100: {host: 1, gpu: 4}}\n"
        "crowd: {ratio: 0.1, budgets: equal}\ntenants:\n" + CHAT
    )
    found = scenario(text)
    alone = found.all_alone(1, FittedRequests())
    crowd = {name: own for name, own in alone.items() if name != "chat"}
    assert len(crowd) >= 1
    demand = sum(own.node_hours for own in crowd.values()) / found.node_hours
    largest = max(own.node_hours for own in crowd.values()) / found.node_hours
    assert abs(demand - 0.1) <= largest
    setting = found.setting(1, FittedRequests(), alone)
    assert [project.name for project in setting.projects] == list(alone)
    assert len({setting.budgets[name] for name in crowd}) == 1


def test_the_crowd_is_who_was_not_sent_away() -> None:
    """Of seed 8 the tenant of number 1 is late alone: it does not come, and those after it do."""
    racks = "{zone: 1, rack: 1, nvlink: 1, host: 1, gpu: 8}"
    found = scenario(f"cluster: {{h100: {racks}, a100: {racks}}}\ncrowd: {{ratio: 0.7}}\n")
    alone = found.all_alone(8, FittedRequests())
    setting = found.setting(8, FittedRequests(), alone)
    assert [project.name for project in setting.projects] == list(alone)
    numbers = [number_of(project.name) for project in setting.projects]
    assert 1 not in numbers
    assert max(numbers) >= len(numbers)
    assert setting.budgets.keys() == alone.keys()


def test_a_service_that_may_be_preempted_preempts_nobody() -> None:
    """Itself least of all: two of them wait like everybody else."""
    text = HEAD + CHAT.replace("name: chat,", "name: chat, count: 2, preemptible: true,")
    (run,) = compared(text.replace("10}", "200}"), "fcfs_p").played["fcfs_p"]
    assert run.outcome.metrics is not None
    assert run.outcome.metrics.moves.displaced == 0
    assert all(its.nodes_lost == 0 for its in run.tenants.values())
    for project in everybody(text).values():
        assert (project.labour.may_preempt, project.labour.is_preemptible) == (False, True)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_examples_are_valid(path: Path) -> None:
    """Each example can be read and built."""
    found = scenario(path.read_text(), path.parent)
    assert found.spec.title
    named = [name for tenant in found.spec.tenants for name in tenant.names]
    assert [project.name for project in found.everybody(1, FittedRequests())] == named
    assert named or found.spec.crowd


def test_the_first_example_is_what_init_writes() -> None:
    """There is one text to begin with."""
    assert (EXAMPLES / "first.yaml").read_text() == EXAMPLE


# --- what is wrong, and where -------------------------------------------------------------------

WRONG: dict[str, tuple[str, int, str]] = {
    "an unknown field": (SMALL + "budget: 4\n", 9, "there is no field 'budget'"),
    "an unknown kind": (HEAD + CHAT.replace("inference", "web"), 6, "'web' is none of"),
    "no unit": (SMALL.replace("duration: 10m", "duration: 10"), 4, "needs a unit; write 10m"),
    "no load": (HEAD + "  - {kind: inference, name: chat}\n", 6, "'load' is missing"),
    "a load without a size": (
        HEAD + CHAT.replace("requests_per_s: 10", "prompt_tokens: 10"),
        6,
        "a load needs a size",
    ),
    "two sizes": (HEAD + CHAT.replace("10}", "10, nodes: 3}"), 6, "not both"),
    "nobody": (HEAD.replace("tenants:\n", ""), 1, "nobody comes"),
    "a node that has one GPU and eight": (
        SMALL + BIG.replace("chat", "big"),
        9,
        "big counts a node of h100 as 8 GPUs and chat as 1 GPU",
    ),
    "a node that trains with one GPU and serves with eight": (
        HEAD + BIG + TUNE,
        7,
        "tune counts a node of h100 as 1 GPU and chat as 8 GPUs",
    ),
    "a node that has one GPU for the crowd": (
        HEAD.replace("10m", "1h\ncrowd: {ratio: 0.1}")
        + CHAT.replace("load", "nodes: {a100: {gpu: a100_sxm, gpus: 2}}, load"),
        7,
        "chat counts a node of a100 as 2 GPUs and the crowd as 1 GPU",
    ),
    "a bad name": (SMALL.replace("name: tune", "name: a/b"), 7, "'a/b' is no name"),
    "a name twice": (SMALL.replace("name: fold", "name: chat"), 8, "'chat' is somebody else"),
    "a copy's name": (
        SMALL.replace("name: fold", "name: chat-2").replace("name: chat,", "name: chat, count: 2,"),
        8,
        "'chat-2' is somebody else",
    ),
    "a contract": (SMALL + "contracts: [market, lottery]\n", 9, "'lottery' is no contract"),
    "the bound": (SMALL + "contracts: [clairvoyant]\n", 9, "for the bound, compare with --bound"),
    "no contract": (SMALL + "contracts: []\n", 9, "this list is empty; name a contract, or leave"),
    "an unknown tree": (
        SMALL.replace("nodes: 2,", "nodes: 2, gpus: {tpu: H100},"),
        7,
        "there is no tree 'tpu'; the cluster has h100, a100",
    ),
    "an unknown GPU": (
        SMALL.replace("nodes: 2,", "nodes: 2, gpus: {h100: B7},"),
        7,
        "GPU 'B7' of tree 'h100' has no profile",
    ),
    "a price for nothing": ("prices: {tpu: {on_demand: 1}}\n" + SMALL, 1, "there is no tree 'tpu'"),
    "no price": (SMALL.replace("  a100:", "  mi300:"), 3, "what does a node of mi300 cost"),
    "too long": (SMALL.replace("10m", "200h", 1), 4, "this is 8d8h; write 7d or less"),
    "too often": (SMALL + "period: 100ms\n", 9, "this is 100ms; write 1s or more"),
    "spot for nothing": ("prices: {h100: {spot: 0}}\n" + SMALL, 1, "write more than 0"),
    "no hardware": (
        (HEAD + CHAT).replace("  h100:", "  x:").replace("  a100:", "  y:")
        + "prices: {x: {on_demand: 1}, y: {on_demand: 1}}\n",
        6,
        "'nodes' is missing; say which of x, y it can use, and what a node of it is, such as "
        "nodes: {x: h100_sxm}",
    ),
    "a model": (SMALL.replace("name: chat,", "name: chat, model: GPT-9,"), 6, "no profile of"),
    "a node that is too small": (
        HEAD + "  - kind: inference\n    name: chat\n    load: {requests_per_s: 1}\n"
        "    nodes:\n      h100: h100_sxm\n      a100: a100_sxm\n    model: Llama-3.1-70B\n",
        10,
        "Llama-3.1-70B is not known to fit on 1 x h100_sxm",
    ),
    "an objective": (
        SMALL.replace("name: chat,", "name: chat, objective: best,"),
        6,
        "there is no objective named 'best'",
    ),
    "an objective that can't be kept": (
        SMALL.replace("name: chat,", "name: chat, objective: {ttft_ms: 3, itl_ms: 50},"),
        6,
        "no node has the first token within 3 ms",
    ),
    "a deadline that can't be kept": (
        SMALL.replace("work: 2m, deadline: 8m", "work: 7m, deadline: 7m"),
        8,
        "even on h100 the work takes",
    ),
    "an end after the end": (SMALL.replace("deadline: 8m", "deadline: 11m"), 8, "ends after"),
    "an arrival after the end": (
        SMALL.replace("name: tune,", "name: tune, arrives: 12m,"),
        7,
        "it may arrive after the end",
    ),
    "two sizes of training": (SMALL.replace("nodes: 2,", "nodes: 2, samples: 9,"), 7, "not both"),
    "no size of training": (SMALL.replace("nodes: 2, ", ""), 7, "how much is there to train?"),
    "more nodes than it may have": (
        SMALL.replace("nodes: 2,", "nodes: 17,"),
        7,
        "it needs 17 on average, and may have 16 at most; write a larger nodes_max",
    ),
    "no such level": (
        HEAD + GANG.replace("host", "hst"),
        6,
        "h100 has no level 'hst'; it has rack",
    ),
    "a level that lies deeper": (
        (HEAD + GANG).replace("a100: {rack: 1, host: 1,", "a100: {host: 1, rack: 1,"),
        6,
        "'host' is another level in a100 than in h100",
    ),
    "a gang without room": (
        HEAD + GANG.replace("nodes: 2", "nodes: 3"),
        6,
        "the largest host of h100 has 2, so 3 at once never fit",
    ),
    "a gang larger than a tree": (
        HEAD + GANG.replace("nodes: 2, within: host", "nodes: 5"),
        6,
        "h100 has 4, so 5 at once never fit",
    ),
    "a gang without work": (HEAD + GANG.replace("work: 2m, ", ""), 6, "'work' is missing"),
    "a guard of no tree": (
        SMALL + "guards: {tpu: {notice: 60s}}\n",
        9,
        "there is no tree 'tpu'; the cluster has h100, a100",
    ),
    "a guard that is none": (SMALL + "guards: {h100: {notce: 60s}}\n", 9, "notce"),
    "one step": (SMALL + "period: 11m\n", 9, "nobody would take a second step"),
    "no time to train": (
        SMALL.replace("reconfigure: 30s", "reconfigure: 10m"),
        7,
        "this takes all the time that there is",
    ),
    "other levels": (
        SMALL.replace("a100: {rack: 1, host: 1,", "a100: {host: 1,"),
        7,
        "a100 has other levels than h100",
    ),
    "no node": (SMALL.replace("gpu: 2}\n  a100", "gpu: 0}\n  a100"), 2, "this is 0; write 1"),
    "too many nodes": (SMALL.replace("rack: 1, host: 2", "rack: 99999, host: 2"), 1, "more than"),
    "no such cluster": (
        "cluster: nowhere.yaml\ntenants:\n" + CHAT,
        1,
        "nowhere.yaml can't be read: No such file",
    ),
    "no such load": (
        SMALL.replace("requests_per_s: 10", "csv: none.csv"),
        6,
        "none.csv can't be read: No such file",
    ),
    "a crowd of another hour": (SMALL + "crowd: {ratio: 1}\n", 9, "a crowd comes for one hour"),
    "a crowd elsewhere": (
        "cluster: {h100: {gpu: 8}}\ncrowd: {ratio: 1}\n",
        2,
        "a crowd needs the trees h100 and a100",
    ),
    "a name of the crowd": (
        SMALL.replace("name: tune", "name: training-3").replace(
            "duration: 10m", "crowd: {ratio: 1}"
        ),
        7,
        "'training-3' is somebody else",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_at_its_line(name: str) -> None:
    """One problem, at the line to mend, and what to do about it."""
    text, line, sentence = WRONG[name]
    ((at, _, said),) = problems(text)
    assert sentence in said
    assert at == line


def test_everything_wrong_is_said_at_once() -> None:
    """Whoever mends a file sees all of its tenants' mistakes, each at its column."""
    text = SMALL.replace("name: chat,", "name: chat, model: GPT-9,").replace(
        "work: 2m, deadline: 8m", "deadline: 7m, work: 7m"
    )
    found = problems(text)
    assert [(line, column) for line, column, _ in found] == [
        (6, 1 + text.splitlines()[5].index("GPT-9")),
        (8, 1 + text.splitlines()[7].index("7m")),
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("at_s\n0\n", "has no column 'requests_per_s' in line 1"),
        ("at_s,requests_per_s\n0,1\n60,many\n", "line 3: requests_per_s is many"),
        ("at_s,requests_per_s\n0,1\n60,-1\n", "line 3: requests_per_s is -1"),
        ("at_s,requests_per_s\n0,1\n60\n", "line 3: requests_per_s is missing"),
        ("at_s,requests_per_s\n5,1\n", "must begin with a row whose at_s is 0"),
        ("at_s,requests_per_s\n0,1\n9,1\n9,2\n", "at_s does not rise"),
        ("at_s,requests_per_s,prompt_tokens\n0,1,0\n", "line 2: prompt_tokens is 0"),
        ("at_s,requests_per_s\n0,0\n", "no request comes"),
        ("at_s,requests_per_s\n0,1\n0.00001,1\n", "this makes more than"),
        ("", "has no column 'at_s'"),
    ],
)
def test_a_load_that_cant_be_used(content: str, sentence: str, tmp_path: Path) -> None:
    """What is wrong with the file of a load is said where the scenario names it."""
    (tmp_path / "own.csv").write_text(content)
    text = SMALL.replace("requests_per_s: 10", "csv: own.csv")
    ((line, column, said),) = problems(text, tmp_path)
    assert sentence in said
    assert (line, column) == (6, 1 + text.splitlines()[5].index("own.csv"))


def test_a_load_that_is_no_text(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 are a sentence, too, in a load and in a cluster."""
    (tmp_path / "own.csv").write_bytes(b"\xff\xfe")
    text = SMALL.replace("requests_per_s: 10", "csv: own.csv")
    assert "no text in UTF-8" in problems(text, tmp_path)[0][2]
    text = "cluster: own.csv\ntenants:\n" + CHAT
    assert "no text in UTF-8" in problems(text, tmp_path)[0][2]


def test_a_bad_cluster_file_is_quoted(tmp_path: Path) -> None:
    """What is wrong with it is said with its own line, at the line that names it; of much that is,
    the first."""
    (tmp_path / "c.yaml").write_text("version: 1\ntrees: {}\n")
    ((line, _, said),) = problems("cluster: c.yaml\ntenants:\n" + CHAT, tmp_path)
    assert line == 1
    assert "c.yaml:2:8: there is no tree here" in said
    (tmp_path / "c.yaml").write_text(SMALL)
    ((line, _, said),) = problems("cluster: c.yaml\ntenants:\n" + CHAT, tmp_path)
    assert line == 1
    assert said.count("c.yaml:") == 1
    assert "\n" not in said


def test_a_tree_may_have_the_name_of_its_gpu() -> None:
    """Then a service knows what a node is; the usual trees come first, as always."""
    trees = {"l40s": "l40s", "H200": "h200_sxm", "a100_sxm": "a100_sxm", "h100": "h100_sxm"}
    cluster = "".join(f"  {tree}: {{gpu: 4}}\n" for tree in (*trees, "mi300"))
    prices = ", ".join(f"{tree}: {{on_demand: 3}}" for tree in (*trees, "mi300"))
    found = scenario(f"cluster:\n{cluster}prices: {{{prices}}}\ntenants:\n{CHAT}")
    (chat,) = found.everybody(1, FittedRequests())
    assert isinstance(chat.labour, Serving)
    kinds = {tree: node.gpu for tree, node in chat.labour.spec.kinds.items()}
    assert kinds == trees
    assert next(iter(kinds)) == "h100"


def test_nodes_of_eight_gpus_are_so_for_everybody_who_serves_on_them() -> None:
    """Who counts alike may come; batch work knows only how fast a node is."""
    found = everybody(HEAD + BIG + BIG.replace("chat", "other") + FOLD)
    assert list(found) == ["chat", "other", "fold"]


def test_whoever_gets_nothing_done_alone_is_named() -> None:
    """A tenant that can't do anything with the whole cluster is wrong at its line."""
    text = HEAD + CHAT.replace("name: chat,", "name: chat, cold_start: 1h,")
    with pytest.raises(BadDocument, match="chat gets nothing done even with") as caught:
        scenario(text).all_alone(1, FittedRequests())
    assert caught.value.problems[0].line == 6


PIECES = (
    "0", "-1", "1e30", "9" * 19, "''", "nothing", "{}", "[]", "[1]", "{a: 1}", "true", "null", ": ",
    "- ", "h100", "0s", "1us", "9999d", "chat", "\t", '"', "é", "\x00", "inference", "batch",
)  # fmt: skip


def mutated(text: str, chance: Random) -> str:
    """The text with a few pieces left out, doubled, moved, or written over."""
    for _ in range(chance.randint(1, 3)):
        lines = text.split("\n")
        at = chance.randrange(len(lines))
        match chance.randrange(5):
            case 0:
                del lines[at]
            case 1:
                lines.insert(chance.randrange(len(lines)), lines[at])
            case 2:
                words = lines[at].split(" ")
                words[chance.randrange(len(words))] = chance.choice(PIECES)
                lines[at] = " ".join(words)
            case 3:
                key, colon, _ = lines[at].rpartition(": ")
                lines[at] = f"{key}{colon}{chance.choice(PIECES)}"
            case _:
                cut = chance.randrange(len(lines[at]) + 1)
                lines[at] = lines[at][:cut] + chance.choice(PIECES) + lines[at][cut + 1 :]
        text = "\n".join(lines)
    return text


SPELLED_OUT = """\
title: All fields
cluster:
  h100:
    rack: 1
    host: 2
    gpu: 2
prices:
  h100:
    on_demand: 5.00
    spot: 1.00
    base: 2.00
duration: 10m
period: 10s
contracts:
  - market
  - fcfs
policies:
  inference:
    horizon: 100s
    hysteresis: 25%
tenants:
  - kind: inference
    name: chat
    arrives: 1m
    jitter: 1m
    count: 2
    budget: 20
    preemptible: false
    model: Llama-3.1-8B
    nodes:
      h100:
        gpu: h100_sxm
        gpus: 1
    objective:
      ttft_ms: 500
      itl_ms: 50
    load:
      service: conv
      nodes: 2
    lasts: 5m
    cold_start: 60s
  - kind: inference
    name: search
    load:
      csv: load.csv
      requests_per_s: 4
      prompt_tokens: 500
      output_tokens: 20
  - kind: training
    name: tune
    model: OPT-350
    gpus:
      h100: H100
    samples: 300
    epochs: 2
    deadline: 8m
    global_batch: 64
    nodes_max: 4
    checkpoint_every: 1m
    reconfigure: 30s
  - kind: batch
    name: fold
    work: 2m
    speeds:
      h100: 1.0
    deadline: 8m
    cold_start: 30s
    checkpoint_every: 1m
"""


def test_the_file_with_all_fields_is_valid() -> None:
    """Else the next test would begin with nothing."""
    assert list(everybody(SPELLED_OUT)) == ["chat-1", "chat-2", "search", "tune", "fold"]


@given(seed=st.integers(0, 1 << 32))
def test_no_mutation_of_a_file_is_a_defect(seed: int) -> None:
    """Whatever becomes of a valid file, it is read, or what is wrong is said at lines it has."""
    text = mutated(SPELLED_OUT, Random(seed))
    try:
        found: tuple[Problem, ...] | None = None
        scenario(text)
    except BadDocument as error:
        found = error.problems
    if found is not None:
        assert found
        for problem in found:
            assert 1 <= problem.line <= len(text.splitlines()) + 1
            assert problem.sentence


# --- runs ---------------------------------------------------------------------------------------


def source_of(text: str) -> ScenarioFile:
    return ScenarioFile(text, "scenario.yaml", str(EXAMPLES))


def compared(text: str, *contracts: str, seeds: tuple[int, ...] = (1,)) -> ScenarioComparison:
    source = source_of(text)
    runs = Runs(files=files_of(source, None), processes=1)
    return compare(source, contracts, seeds, runs)


def test_whoever_is_alone_keeps_all_under_first_come() -> None:
    """It is the same run as the one that retention is measured by."""
    (run,) = compared(HEAD + TUNE, "fcfs").played["fcfs"]
    its = run.tenants["tune"]
    assert its.retention == 1.0
    assert its.node_hours == its.node_hours_alone > 0
    assert its.nodes_lost == 0
    assert its.kind == "training"


def test_two_on_one_node() -> None:
    """Of two equal jobs on one node, each of which needs most of the time, first come gets it."""
    job = (
        "  - {kind: batch, name: NAME, work: 6m, speeds: {h100: 1}, cold_start: 1m, arrives: ATs}\n"
    )
    text = "cluster: {h100: {gpu: 1}}\nduration: 20m\ntenants:\n"
    text += job.replace("NAME", "first").replace("AT", "0")
    text += job.replace("NAME", "second").replace("AT", "60")
    text = text.replace("cold_start: 1m", "cold_start: 1m, deadline: 9m, checkpoint_every: 1m")
    (run,) = compared(text, "fcfs").played["fcfs"]
    assert run.tenants["first"].retention == 1.0
    # The node is free at 7:10, a look after the first is done, and warm at 8:10; until 10:00 there
    # is time for 1:50 of 6:00, less two handovers.
    assert run.tenants["second"].retention == pytest.approx(110 / 360, abs=0.003)
    assert run.outcome.mean_retention == pytest.approx((1 + run.tenants["second"].retention) / 2)


def test_runs_are_the_same_again_and_add_up() -> None:
    """All numbers, to the digit; what is held minute by minute is what is paid for."""
    contracts = [*CONTRACTS, CLAIRVOYANT]
    found = compared(SMALL, *contracts, seeds=(1, 2))
    assert msgspec.json.encode(found) == msgspec.json.encode(
        compared(SMALL, *contracts, seeds=(1, 2))
    )
    assert list(found.played) == contracts
    for name in CONTRACTS:
        for run in found.played[name]:
            assert run.outcome.metrics is not None
            for tenant, its in run.tenants.items():
                assert sum(run.held[tenant]) == pytest.approx(60 * its.node_hours)
                assert its.retention == run.outcome.retention[tenant]
                assert its.cost_dollars == run.outcome.metrics.cost_dollars[tenant]
                assert its.cost_dollars <= its.budget_dollars
            assert all(sum(nodes) <= 6 + 1e-9 for nodes in zip(*run.held.values(), strict=True))
            moves = run.outcome.metrics.moves
            lost = sum(its.nodes_lost for its in run.tenants.values())
            assert lost == moves.displaced + moves.given_up
            assert {*run.rates} == {"h100", "a100"}
    lower = found.lowering("market", "market")
    assert lower is None or lower.estimate == 0


def test_a_task_can_go_to_another_process() -> None:
    """The task, its function, and what is wrong with a file: all survive the way."""
    task = ScenarioPlay(source_of(SMALL), 1, "fcfs", {"chat": regimes.Alone(1.0, 2.0, 3.0)})
    assert pickle.loads(pickle.dumps((run_play, task))) == (run_play, task)
    with pytest.raises(BadDocument) as caught:
        scenario(HEAD)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_file_beside_it_is_part_of_the_key(tmp_path: Path) -> None:
    """Another load, or other traces, are other results: a cache never mixes them up."""
    (tmp_path / "own.csv").write_text("at_s,requests_per_s\n0,5\n")
    text = HEAD + CHAT.replace("requests_per_s: 10", "csv: own.csv")
    source = ScenarioFile(text, "scenario.yaml", str(tmp_path))
    assert files_of(source, None) == (tmp_path / "own.csv",)
    data = tmp_path / "data"
    (data / "azure_llm").mkdir(parents=True)
    folder = data / "azure_llm"
    traces = [folder / f"azure_llm_2023_{service}.csv.gz" for service in ("conv", "code")]
    for trace in traces:
        trace.write_bytes(b"")
    assert files_of(source, data) == (tmp_path / "own.csv", *traces)


def test_a_load_file_is_read_in_its_units(tmp_path: Path) -> None:
    """Seconds become microseconds; columns that are not there are as usual."""
    path = tmp_path / "own.csv"
    path.write_text("requests_per_s,at_s,note\n1.5,0,a\n2,0.5,b\n")
    usual = RequestStep(0.0, 7.0, 8.0)
    assert read_load(path, usual) == [
        (0, RequestStep(1.5, 7, 8)),
        (500_000, RequestStep(2.0, 7, 8)),
    ]
