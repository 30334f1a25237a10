"""The pages about adapters and maps: every key is in them, with its default, and what they show is
real."""

import contextlib
import io
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from laissez.adapters.acting import LEASE_STEPS
from laissez.adapters.deadline import DeadlineAdapter
from laissez.adapters.pricing import HORIZON_S
from laissez.adapters.view import MarketView
from laissez.amounts import BadAmount, microseconds
from laissez.inframaps.spec import (
    CarbonSpec,
    GuardsSpec,
    MaintenanceSpec,
    PowerSpec,
    UtilisationSpec,
)
from laissez.model import Holding
from laissez.model.values import Cause
from laissez.runners.adapter_file import KINDS, read_adapter
from laissez.runners.adapter_specs import (
    DeadlineSpec,
    InferenceAdapterSpec,
    OnDemandSpec,
    PricingSpec,
    SpotSpec,
    TrainingAdapterSpec,
)
from laissez.runners.inframap_file import InfraMapFileSpec, read_inframap
from laissez.telemetry import SourceDescription
from test_docs import FENCED, blocks, first_span, rows, wrong_commands

REPO = Path(__file__).resolve().parent.parent
ADAPTERS = REPO / "docs" / "adapters.md"
INFRAMAPS = REPO / "docs" / "inframaps.md"
EXAMPLES = REPO / "examples"

COMMON = {"name", "scopes", "period", "budget"}
SPECS: dict[str, type[msgspec.Struct]] = {
    "on-demand": OnDemandSpec,
    "spot": SpotSpec,
    "deadline": DeadlineSpec,
    "inference": InferenceAdapterSpec,
    "training": TrainingAdapterSpec,
}
MAPS: dict[str, type[msgspec.Struct]] = {
    "power": PowerSpec,
    "maintenance": MaintenanceSpec,
    "carbon": CarbonSpec,
    "utilisation": UtilisationSpec,
    "guards": GuardsSpec,
}


# --- the checks ---------------------------------------------------------------------------------


def wrong_keys(text: str, title: str, spec: type[msgspec.Struct], without: set[str]) -> list[str]:
    """Keys of a table that the file may not have, keys that are not in the table, and defaults
    that are others."""
    documented = {first_span(row[0]): row[-1] for row in rows(text, title)}
    fields = {each.name: each for each in msgspec.structs.fields(spec) if each.name not in without}
    wrong = [f"{title}: {key}" for key in sorted(documented.keys() ^ fields.keys())]
    for key in documented.keys() & fields.keys():
        default = fields[key].default
        is_needed = fields[key].required
        if is_needed != (documented[key] == "must be given") and fields[key].default is not None:
            wrong.append(f"{title}: whether {key} must be given")
        said = as_number(documented[key])
        if said is not None and type(default) in (int, float) and abs(said - default) > 1e-9:
            wrong.append(f"{title}: {key} is {default} if left out")
    return wrong


def as_number(cell: str) -> float | None:
    """A default as it is written, in the unit of the code."""
    written = first_span(cell) or cell
    if written.endswith("%"):
        return float(written.removesuffix("%")) / 100
    try:
        return float(written)
    except ValueError:
        with contextlib.suppress(BadAmount):
            return float(microseconds(written))
    return None


def printed_and_shown(text: str) -> Iterator[tuple[str, str]]:
    """What each python block prints, and the text block that follows it."""
    namespace: dict[str, Any] = {"__name__": "page"}
    found = list(FENCED.finditer(text))
    for block, following in pairwise(found):
        if block["info"].strip() == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(block["code"], namespace)
            assert following["info"].strip() == "text"
            yield printed.getvalue(), following["code"]


# --- the pages, held against the checks ---------------------------------------------------------


@pytest.mark.parametrize("kind", SPECS)
def test_every_key_of_an_adapter_is_documented(kind: str) -> None:
    """The page has each key of each ready-made adapter, and no other, with its default."""
    assert wrong_keys(ADAPTERS.read_text(), kind, SPECS[kind], COMMON) == []


def test_every_adapter_is_documented() -> None:
    """There is a section for each ready-made adapter, and one for what they have in common."""
    assert list(SPECS) == list(KINDS)
    text = ADAPTERS.read_text()
    common = {first_span(row[0]) for row in rows(text, "Every adapter")}
    assert common == COMMON | {"adapter"}
    assert wrong_keys(text, "Pricing", PricingSpec, set()) == []


@pytest.mark.parametrize("kind", MAPS)
def test_every_key_of_a_map_is_documented(kind: str) -> None:
    """The page has each key of each map, and no other, with its default."""
    assert wrong_keys(INFRAMAPS.read_text(), kind, MAPS[kind], {"weight"}) == []


def test_every_key_of_a_map_file_and_of_a_source_is_documented() -> None:
    """The page has each key of the file and of telemetry, and no other, with its default."""
    text = INFRAMAPS.read_text()
    assert wrong_keys(text, "Keys of the file", InfraMapFileSpec, set()) == []
    assert wrong_keys(text, "Keys of a source", SourceDescription, set()) == []


@pytest.mark.parametrize("page", [ADAPTERS, INFRAMAPS], ids=lambda page: page.name)
def test_commands_and_figures_are_real(page: Path) -> None:
    """Each command is one, and what a block of Python is said to print it prints."""
    text = page.read_text()
    assert wrong_commands(text) == []
    figures = list(printed_and_shown(text))
    assert figures
    assert [printed for printed, _ in figures] == [shown for _, shown in figures]


@pytest.mark.parametrize("kind", ["deadline", "inference", "training"])
def test_the_horizon_is_as_documented(kind: str) -> None:
    """The horizon of a file that names none is the one of its table and of the rules, in the
    adapter itself, too."""
    text = ADAPTERS.read_text()
    (said,) = [row[-1] for row in rows(text, kind) if first_span(row[0]) == "pricing"]
    (usual,) = [row[-1] for row in rows(text, "Pricing") if first_span(row[0]) == "horizon"]
    assert microseconds(first_span(said)) == microseconds(first_span(usual)) == HORIZON_S * 1e6
    assert f"The horizon is {HORIZON_S:.0f} s, " in text
    (file,) = [each for each in files(ADAPTERS) if f"adapter: {kind}\n" in each.code]
    built = read_adapter(file.code, file_name="page").build(0, EXAMPLES / "adapters")
    assert built.adapter.pricing.horizon_s == HORIZON_S  # type: ignore[attr-defined]


def test_the_example_of_a_deadline_is_worked_out_right() -> None:
    """The page's bid of $0.21, and its limits of $2.50 while nobody else wants the node, $1.30
    while it is cold and $4.30 when it is warm, are the adapter's own."""
    (file,) = [each for each in files(ADAPTERS) if "adapter: deadline\n" in each.code]
    built = read_adapter(file.code, file_name="page").build(0, EXAMPLES / "adapters")
    adapter, app = built.adapter, built.app
    assert isinstance(adapter, DeadlineAdapter)
    node = "h100/r1/g0"
    worth = app.worth_of_gaining("h100")
    said = [adapter.pricing.bid(3e6 * worth.now, app.cold_start_s("h100"))]
    app.gain(node, 0)
    looks: tuple[tuple[Cause, int], ...] = (("floor", 0), ("demand", 0), ("demand", 480_000_000))
    for cause, at_us in looks:
        app.advance(at_us)
        held = Holding(node, 0, 2_000_000, 2_500_000, None, {}, "ada", cause)
        said.append(adapter.kept(app, MarketView(at_us, (held,), (), {}), held, worth, 3e6).limit)
    text = ADAPTERS.read_text()
    assert [f"${micros / 1e6:.2f}" for micros in said] == ["$0.21", "$2.50", "$1.30", "$4.30"]
    for limit in ("is a bid of $0.21", "up to $2.50 while", "1.25 = $1.30", "1.25 = $4.30"):
        assert limit in text


def test_the_dead_mans_switch_is_as_documented() -> None:
    """The page says after how many periods the orders of a dead adapter expire."""
    assert f"expire after at most {LEASE_STEPS} periods" in ADAPTERS.read_text()


def test_adapter_files_in_the_docs_can_be_built() -> None:
    """Each file of the page can be read, is of the kind that its section says, and can be built."""
    shown = [read_adapter(each.code, file_name="page") for each in files(ADAPTERS)]
    assert [each.kind for each in shown] == list(SPECS)
    for each in shown:
        each.build(0, EXAMPLES / "adapters")


def test_map_files_in_the_docs_can_be_built() -> None:
    """The file of the page can be built, with the telemetry and the cluster of the examples; and
    each source of the page is one."""
    whole, sources = files(INFRAMAPS)
    built = read_inframap(whole.code, file_name="page").build(EXAMPLES / "inframaps")
    assert built.inventory
    described = yaml.safe_load(sources.code).values()
    for kind, each in zip(("csv", "prometheus", "json", "python"), described, strict=True):
        assert getattr(msgspec.convert(each, SourceDescription), kind) == each[kind]


def files(page: Path) -> list[Any]:
    return blocks(page.read_text(), "yaml")


# --- the checks, held against pages with a slip of the pen ----------------------------------------


@pytest.mark.parametrize(
    ("written", "slip"),
    [
        ("| `checkpoint_every` | how often the work", "| `checkpoints` | how often the work"),
        ("how long a new node takes to start | `8m` |", "how long a new node starts | `9m` |"),
        ("| `value` | what an hour of that work is worth | must be given |", "| `value` | | 3 |"),
        ("| `progress` | a [source](inframaps.md#telemetry) of the share", "| progress | a share"),
    ],
)
def test_a_slip_is_found(written: str, slip: str) -> None:
    """A key or a default that is not the code's is seen."""
    text = ADAPTERS.read_text()
    assert written in text
    assert wrong_keys(text.replace(written, slip), "deadline", DeadlineSpec, COMMON)
