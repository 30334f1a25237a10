"""Files of adapters and maps: what they say is what is built, and what is wrong is shown at its
line."""

import asyncio
from pathlib import Path

import pytest

from laissez.adapters.deadline import DeadlineAdapter
from laissez.adapters.econ import EconAdapter
from laissez.adapters.footprint import Footprint
from laissez.documents import BadDocument
from laissez.exchange.pipeline import Settings
from laissez.inframaps import OperatorView
from laissez.model import ChangeFloor, Resource
from laissez.performance.batch import BatchJob
from laissez.performance.inference import InferenceService
from laissez.runners import gauges
from laissez.runners.adapter_file import KINDS, read_adapter
from laissez.runners.gauges import Gauges
from laissez.runners.inframap_file import read_inframap
from laissez.telemetry import Feed, Reading, Steady, Telemetry
from laissez.topology import TopologyError

EXAMPLES = Path(__file__).parents[1] / "examples"
HOUR_US = 3_600_000_000
BEGAN_US = 1_000 * HOUR_US

SPOT = """\
adapter: spot
name: nights
scopes: [h100/east, a100]
nodes: 3
limit: 1.40
"""
DEADLINE = """\
adapter: deadline
name: genomes
scopes: [h100, a100]
work: 6h
speeds: {h100: 1, a100: 0.5}
deadline: 24h
value: 3.00
budget: {total: 60, lasts: 30h}
"""
INFERENCE = """\
adapter: inference
name: chat
scopes: [h100]
model: Llama-3.1-8B
nodes: {h100: {gpu: h100_sxm}}
objective: planner-default
value: 0.40
load: {csv: load.csv, column: rate}
"""

TRAINING = """\
adapter: training
name: pretrain
scopes: [h100]
model: OPT-350
gpus: {h100: H100, a100: A100-80}
samples: 200000
value: 4.00
"""


def build(text: str, folder: Path = Path()) -> object:
    return read_adapter(text, file_name="a.yaml").build(BEGAN_US, folder)


@pytest.mark.parametrize(
    "path", sorted((EXAMPLES / "adapters").glob("*.yaml")), ids=lambda p: p.stem
)
def test_the_examples_can_be_run(path: Path) -> None:
    """There is an example of each ready-made adapter, named like it, and it builds."""
    file = read_adapter(path.read_text(), file_name=path.name)
    assert file.kind == path.stem
    assert file.build(BEGAN_US, path.parent).adapter.terms.name == file.spec.name
    assert file.most_owed() and file.spec.describe()


def test_every_kind_has_an_example() -> None:
    """What `laissez adapter list` lists is what there are examples of."""
    assert sorted(KINDS) == sorted(path.stem for path in (EXAMPLES / "adapters").glob("*.yaml"))


def test_a_footprint() -> None:
    """Spot is a number of nodes at a limit, under the scopes in their order."""
    file = read_adapter(SPOT, file_name="a.yaml")
    built = file.build(BEGAN_US, Path())
    assert isinstance(built.adapter, Footprint)
    assert (built.adapter.nodes, built.adapter.limit) == (3, 1_400_000)
    assert built.adapter.terms.scopes == ("h100/east", "a100")
    assert built.adapter.terms.period_us == 5_000_000
    assert built.app.kinds == ("h100", "a100")
    assert file.most_owed() == "at most $4.20/h, for as long as it runs: there is no budget"


def test_a_deadline_counts_from_the_first_start() -> None:
    """A duration is from the first start on, and so is the budget's; an instant is an instant."""
    file = read_adapter(DEADLINE, file_name="a.yaml")
    built = file.build(BEGAN_US, Path())
    assert isinstance(built.adapter, DeadlineAdapter) and isinstance(built.app, BatchJob)
    assert built.app.deadline_us == BEGAN_US + 24 * HOUR_US
    assert built.app.work_left_us("a100") == 12 * HOUR_US
    budget = built.adapter.terms.budget
    assert budget is not None
    assert (budget.total_micros, budget.ends_us) == (60_000_000, BEGAN_US + 30 * HOUR_US)
    assert built.adapter.micros_per_unit == 3_000_000
    assert built.adapter.pricing.horizon_s == 600
    assert file.most_owed() == "at most $60.00 in all while it runs"
    fixed = DEADLINE.replace("24h", "1970-02-20T00:00Z")
    app = read_adapter(fixed, file_name="a.yaml").build(BEGAN_US, Path()).app
    assert isinstance(app, BatchJob) and app.deadline_us == 50 * 24 * HOUR_US


def test_what_is_offered_in_the_end_is_bounded() -> None:
    """Without a budget, `most` says how far an urgent job goes."""
    file = read_adapter(DEADLINE.replace("budget:", "most: 9 #"), file_name="a.yaml")
    adapter = file.build(BEGAN_US, Path()).adapter
    assert isinstance(adapter, DeadlineAdapter) and adapter.most_micros_per_hour == 9_000_000
    assert file.most_owed() == "at most $9.00/h, for as long as it runs: there is no budget"


def test_a_service_is_worth_what_its_requests_are(tmp_path: Path) -> None:
    """At $0.40 a thousand, one request a second is worth $1.44 an hour; the load is read."""
    (tmp_path / "load.csv").write_text("seconds,rate\n0,7\n10,9\n")
    built = read_adapter(INFERENCE, file_name="a.yaml").build(BEGAN_US, tmp_path)
    assert isinstance(built.adapter, EconAdapter) and isinstance(built.app, InferenceService)
    assert built.adapter.micros_per_unit == pytest.approx(1_440_000)
    assert built.left_out_when_stale == ("requests_per_s",)
    telemetry = built.telemetry
    assert telemetry is not None
    asyncio.run(telemetry.refresh(BEGAN_US))
    assert telemetry.levels(BEGAN_US)["requests_per_s"].value == 7


@pytest.mark.parametrize(
    ("text", "name", "bounds"),
    [
        (INFERENCE + "prompt_tokens: {csv: load.csv}\n", "prompt_tokens", (0, None)),
        (INFERENCE, "requests_per_s", (0, None)),
        (INFERENCE.replace("column", "least: 2, column"), "requests_per_s", (2, None)),
        (DEADLINE + "progress: {csv: load.csv}\n", "done", (0, 1)),
        (DEADLINE + "progress: {csv: load.csv, most: 2}\n", "done", (0, 2)),
        (TRAINING + "progress: {csv: load.csv}\n", "samples", (0, None)),
    ],
)
def test_what_is_read_is_believed_within_bounds(
    tmp_path: Path, text: str, name: str, bounds: tuple[float, float | None]
) -> None:
    """Where the file does not say, nothing below 0 is, nor a percentage for a share."""
    (tmp_path / "load.csv").write_text("seconds,rate\n0,-5\n")
    telemetry = read_adapter(text, file_name="a.yaml").build(BEGAN_US, tmp_path).telemetry
    assert telemetry is not None
    asyncio.run(telemetry.refresh(0))
    assert f"the value -5 is below {bounds[0]}" in str(telemetry.levels(0)[name].sentence)
    if bounds[1] is not None:
        (tmp_path / "load.csv").write_text("seconds,rate\n0,40\n")
        telemetry = read_adapter(text, file_name="a.yaml").build(BEGAN_US, tmp_path).telemetry
        assert telemetry is not None
        asyncio.run(telemetry.refresh(0))
        assert f"the value 40 is above {bounds[1]}" in str(telemetry.levels(0)[name].sentence)


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ("adapter: spott\nname: a\n", 1, "'spott' is none of: on-demand, spot"),
        ("name: a\n", 1, "'adapter' is missing"),
        (SPOT.replace("nights", "my.nights"), 2, "part of order ids"),
        (SPOT.replace("h100/east", "h100//east"), 3, "is not a scope"),
        (SPOT.replace("[h100/east, a100]", "[]"), 3, "there must be at least 1"),
        (SPOT.replace("nodes: 3", "nodes: 0"), 4, "write 1 or more"),
        (SPOT.replace("1.40", "0"), 5, "write more than 0"),
        (SPOT.replace("1.40", "cheap"), 5, "is not dollars per hour"),
        (SPOT + "model: big\n", 6, "there is no field 'model'"),
        (SPOT + "period: 0s\n", 6, "write more than 0"),
        (
            DEADLINE.replace("[h100, a100]", "[h100, b200]"),
            3,
            "nothing is said of b200 in 'speeds'",
        ),
        (DEADLINE.replace("24h", "soon"), 6, "is no deadline; write how long"),
        (
            DEADLINE.replace("24h", "3h"),
            6,
            "move the deadline, make the work shorter or save it oftener",
        ),
        (DEADLINE.partition("budget")[0], 6, "say how much that is, with 'budget' or with 'most'"),
        (DEADLINE.replace("{h100: 1, a100: 0.5}", "{h100: 1, a100: 0}"), 5, "write more than 0"),
        (INFERENCE.replace("planner-default", "good"), 6, "there is no objective named 'good'"),
        (INFERENCE.replace("Llama-3.1-8B", "Llama"), 4, "there is no profile of the model"),
        (INFERENCE.replace("h100_sxm", "h1000"), 5, "is not known to fit on 1 x h1000"),
        (INFERENCE.replace("8B", "70B"), 5, "not known to fit on 1 x h100_sxm; it does on"),
        (INFERENCE + "prompt_tokens: 0\n", 9, "write 1 or more"),
        (INFERENCE + "output_tokens: {csv: out.csv}\n", 8, "load.csv"),
        (
            INFERENCE.replace("csv: load.csv, column: rate", "python: 'math:sqrt'")
            + "output_tokens: {csv: out.csv}\n",
            9,
            "out.csv",
        ),
        (TRAINING.replace("OPT-350", "OPT"), 4, "'OPT' has no profile"),
        (TRAINING.replace("A100-80", "A1000"), 5, "'A1000' of tree 'a100' has no profile"),
        (TRAINING + "levels: [host, rack]\n", 8, "the rack comes before the host"),
        (SPOT.replace("h100/east", "h100/east/"), 3, "is not a scope"),
        (SPOT.replace("h100/east", "h100/*"), 3, "is not a scope"),
        (INFERENCE, 8, "load.csv"),
    ],
)
def test_what_is_wrong_is_shown_at_its_line(text: str, line: int, sentence: str) -> None:
    """Each mistake is refused with the line it stands in and what to do about it."""
    with pytest.raises(BadDocument) as refused:
        build(text)
    [problem] = refused.value.problems
    assert problem.line == line
    assert sentence in problem.sentence


# --- maps ---------------------------------------------------------------------------------------

POWER = """\
telemetry:
  row_1: {csv: power.csv, column: row_1}
base: {h100: 2.00}
cost: {h100: 1.00}
every: 2s
maps:
  - map: power
    rows: {h100/r1: row_1}
"""


CARBON = """\
  - map: carbon
    reference: 300
    scopes:
      h100: row_1
"""
WINDOW = """\
  - map: maintenance
    windows:
      - {scope: h100/r1, opens: 2026-11-20T22:00Z, closes: 2026-11-21T02:00Z}
"""


def test_a_map_is_built_with_its_telemetry(tmp_path: Path) -> None:
    """Prices, period and telemetry are those of the file; at rest there are the base prices."""
    (tmp_path / "power.csv").write_text("seconds,row_1\n0,0.825\n")
    built = read_inframap(POWER, file_name="m.yaml").build(tmp_path)
    assert built.composition.period_us == 2_000_000 and built.inventory is None
    assert built.telemetry is not None
    asyncio.run(built.telemetry.refresh(0))
    levels = {name: level.value for name, level in built.telemetry.levels(0).items()}
    resources = tuple(Resource(f"h100/{row}/g0", None, 0, {}) for row in ("r1", "r2"))
    steered = built.composition.step(levels, OperatorView(0, resources), 0)
    assert [each.do for each in steered] == [
        ChangeFloor("h100", 2_000_000),
        ChangeFloor("h100/r1", 2_500_000),
    ]
    rest = built.at_rest.step({}, OperatorView(0, resources, {"h100/r1": 2_500_000}), 0)
    assert [each.do for each in rest] == [
        ChangeFloor("h100", 2_000_000),
        ChangeFloor("h100/r1", 0),
    ]


def test_power_that_was_never_read_asks_for_nothing(tmp_path: Path) -> None:
    """Where the file does not say what is safe, it is what leaves the price as it is."""
    (tmp_path / "power.csv").write_text("seconds,row_1\n0,\n")
    telemetry = read_inframap(POWER, file_name="m.yaml").build(tmp_path).telemetry
    assert telemetry is not None
    assert telemetry.levels(0)["row_1"].value == 0.7


def test_power_in_percent_is_not_believed(tmp_path: Path) -> None:
    """72 where 0.72 is meant would make the row as dear as can be; it is missing instead."""
    (tmp_path / "power.csv").write_text("seconds,row_1\n0,72\n")
    telemetry = read_inframap(POWER, file_name="m.yaml").build(tmp_path).telemetry
    assert telemetry is not None
    asyncio.run(telemetry.refresh(0))
    level = telemetry.levels(0)["row_1"]
    assert level.value == 0.7
    assert str(level.sentence).startswith("the value 72 is above 1.5")


def test_a_map_knows_its_cluster(tmp_path: Path) -> None:
    """The inventory is what the cluster's file says, or nothing is known beforehand."""
    (tmp_path / "power.csv").write_text("seconds,row_1\n0,0.5\n")
    text = POWER + f"cluster: {EXAMPLES / 'cluster.yaml'}\n"
    inventory = read_inframap(text, file_name="m.yaml").build(tmp_path).inventory
    assert inventory is not None and len(inventory) == 64
    assert inventory["h100/us-east/r1/h1/g0"]["device"] == "g0"
    text = POWER + WINDOW + f"cluster: {EXAMPLES / 'cluster.yaml'}\n"
    built = read_inframap(text, file_name="m.yaml").build(tmp_path)
    assert built.inventory == inventory and built.scopes == ("h100", "h100/r1")
    (tmp_path / "bad.yaml").write_text("trees: 3\n")
    with pytest.raises(TopologyError):
        read_inframap(POWER + "cluster: bad.yaml\n", file_name="m.yaml").build(tmp_path)


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        (POWER.replace("h100/r1: row_1", "h100/r1: row_9"), 8, "there is no telemetry 'row_9'"),
        (POWER + CARBON.replace("row_1", "grid"), 12, "there is no telemetry 'grid'"),
        (POWER + WINDOW, 9, "name it with 'cluster'"),
        (POWER + WINDOW.replace("2026-11-20T22:00Z", "2h"), 11, "'2h' is not an instant"),
        (POWER + WINDOW.replace("h100/r1", "h100/r1/"), 11, "'h100/r1/' is not a scope"),
        (POWER + WINDOW.replace("h100/r1", "a100"), 11, "a100 has no base price; give it one"),
        (POWER.replace("{h100: 2.00}", "{}"), 3, "no tree has a base price"),
        (POWER, 2, "power.csv"),
        (POWER + "cluster: nowhere.yaml\n", 9, "can't be read"),
    ],
)
def test_what_is_wrong_with_a_map(tmp_path: Path, text: str, line: int, sentence: str) -> None:
    """A map's file is refused at its line, too."""
    if "power.csv" not in sentence:
        (tmp_path / "power.csv").write_text("seconds,row_1\n0,0.5\n")
    with pytest.raises(BadDocument) as refused:
        read_inframap(text, file_name="m.yaml").build(tmp_path)
    [problem] = refused.value.problems
    assert problem.line == line and sentence in problem.sentence


def test_the_example_of_a_map_can_be_run() -> None:
    """It builds as it stands."""
    path = EXAMPLES / "inframaps" / "power.yaml"
    assert read_inframap(path.read_text(), file_name=path.name).build(path.parent).telemetry


# --- gauges -------------------------------------------------------------------------------------


class Scripted:
    """A source that says what it is told to say; None is nothing, a float is a number."""

    def __init__(self) -> None:
        self.value: float | None = 1.0
        self.true_at_us: int | None = None
        self.hangs = False
        self.asked = 0

    async def read(self, at_us: int) -> Reading | None:
        self.asked += 1
        if self.hangs:
            await asyncio.sleep(3_600)
        true_at_us = at_us if self.true_at_us is None else self.true_at_us
        return None if self.value is None else Reading(self.value, true_at_us)

    async def close(self) -> None:
        pass


def scripted() -> tuple[Scripted, Telemetry]:
    source = Scripted()
    steady = Steady(stale_after_us=10, drift_us=10, default=0.0)
    return source, Telemetry({"load": Feed(source, steady)})


def test_a_gauge_warns_once_for_each_change() -> None:
    """Held, stale, unknown and back again: one sentence each, however long it lasts."""
    source, telemetry = scripted()
    warnings: list[str] = []

    async def scene() -> None:
        gauge = Gauges(telemetry, warnings.append)

        async def value(at_us: int) -> float:
            return (await gauge.levels(at_us))["load"].value

        assert await value(0) == 1.0
        source.value = None
        assert [await value(5), await value(6)] == [1.0, 1.0]
        assert [await value(15), await value(16)] == [0.5, pytest.approx(0.4)]
        assert await value(30) == 0.0
        source.value = 3.0
        assert await value(40) == 3.0

    asyncio.run(scene())
    words = ("can't be read now", "is stale", "is not known", "is read again")
    assert len(warnings) == 4
    assert all(word in warning for word, warning in zip(words, warnings, strict=True))


def test_a_gauge_that_was_never_read_is_waited_for() -> None:
    """It is no news until it is read or not known, and that is said."""
    source, telemetry = scripted()
    source.value = None
    warnings: list[str] = []

    async def scene() -> None:
        gauge = Gauges(telemetry, warnings.append)
        assert await gauge.news(0) == await gauge.news(9) == []
        assert await gauge.news(10) == [(10, {"load": 0.0})]
        source.value = 2.0
        assert await gauge.news(11) == [(11, {"load": 2.0})]
        again = Gauges(scripted_to_wait(), warnings.append)
        assert (await again.levels(0))["load"].freshness == "awaited"
        assert await again.news(1) == [(1, {"load": 3.0})]

    asyncio.run(scene())
    words = ("is waited for", "is not known", "is read again", "is waited for", "is read now")
    assert all(word in warning for word, warning in zip(words, warnings, strict=True))


def scripted_to_wait() -> Telemetry:
    """Nothing first, then 3."""
    answers = iter([None, 3.0])

    class Late(Scripted):
        async def read(self, at_us: int) -> Reading | None:
            value = next(answers)
            return None if value is None else Reading(value, at_us)

    return Telemetry({"load": Feed(Late(), Steady(stale_after_us=10, drift_us=10, default=0.0))})


def test_a_reading_is_news_once_and_of_its_own_instant() -> None:
    """What is held is not told again, nor is an answer that has not changed since it was true;
    what is read of two instants is told in their order."""
    load, tokens = Scripted(), Scripted()
    steady = Steady(stale_after_us=10, drift_us=10, default=0.0)

    async def scene() -> None:
        feeds = {"load": Feed(load, steady), "tokens": Feed(tokens, steady)}
        gauge = Gauges(Telemetry(feeds), lambda said: None)
        tokens.true_at_us = 3
        assert await gauge.news(5) == [(3, {"tokens": 1.0}), (5, {"load": 1.0})]
        assert await gauge.news(6) == [(6, {"load": 1.0})]
        load.value = None
        assert await gauge.news(7) == []
        tokens.true_at_us, load.value = 8, 4.0
        assert await gauge.news(8) == [(8, {"load": 4.0, "tokens": 1.0})]

    asyncio.run(scene())


def test_a_stale_gauge_can_be_left_out() -> None:
    """Where no default is safe, what is stale is not passed on."""
    source, telemetry = scripted()

    async def scene() -> None:
        gauge = Gauges(telemetry, lambda said: None, ("load",))
        assert await gauge.news(0) == [(0, {"load": 1.0})]
        source.value = None
        assert [await gauge.news(at_us) for at_us in (9, 11, 99)] == [[], [], []]
        source.value = 2.0
        assert await gauge.news(100) == [(100, {"load": 2.0})]

    asyncio.run(scene())


def test_a_source_that_hangs_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step takes the last value, and of the others what they say now; one reading at most of a
    source is under way."""
    monkeypatch.setattr(gauges, "WAIT_S", 0.01)
    hanging, good = Scripted(), Scripted()
    steady = Steady(stale_after_us=10, drift_us=10, default=0.0)
    telemetry = Telemetry({"hangs": Feed(hanging, steady), "good": Feed(good, steady)})

    async def scene() -> None:
        gauge = Gauges(telemetry, lambda said: None)
        await gauge.levels(0)
        hanging.hangs = True
        async with asyncio.timeout(5):
            for at_us in (5, 6, 7):
                good.value = float(at_us)
                levels = await gauge.levels(at_us)
                assert (levels["hangs"].value, levels["good"].value) == (1.0, at_us)
        assert hanging.asked == 2
        await telemetry.close()

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("text", "key", "place"),
    [
        (DEADLINE, "save", "h100/east/g0"),
        (INFERENCE.replace("rate}", "requests_per_s}"), "drain", "h100/east/g0"),
        (TRAINING, "save", "h100/z/r/n/g0"),
    ],
    ids=["deadline", "inference", "training"],
)
def test_what_a_called_node_takes_fits_into_the_notice_of_new_trees(
    text: str, key: str, place: str
) -> None:
    """By default; else a called node would be released at once, and nothing would be saved."""

    folder = EXAMPLES / "adapters"

    def ready_s(file: str) -> float | None:
        app = read_adapter(file, file_name="a.yaml").build(BEGAN_US, folder).app
        app.gain(place, BEGAN_US)
        app.advance(BEGAN_US + HOUR_US // 2)
        return app.vacate_s(place)

    ready = ready_s(text)
    assert ready is not None and 0 < ready <= Settings().notice_s - 5
    said = ready_s(f"{text}{key}: 7s\n")
    assert said is not None and 0 < said <= 7
