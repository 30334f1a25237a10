"""The guides and the API reference say what the service does: all of it, and nothing else.

Each check is a function from a page's text to what is wrong with it, as sentences. A test holds it
against the page, another against the page with a slip of the pen. The examples that need a service
run against a real one.
"""

import asyncio
import re
import shlex
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import click
import msgspec
import pytest

import laissez
from laissez.cli.main import cli
from laissez.cli.operator.up import up
from laissez.exchange.access import Limits
from laissez.exchange.pipeline import Settings
from laissez.model import (
    Administered,
    Administration,
    Code,
    HandoversMissed,
    Instruction,
    Notice,
    OperatorInstruction,
    Posted,
    Question,
    Request,
    Said,
    ServiceCode,
    Subscribe,
    TenantInstruction,
    Told,
    decode_requests,
    decode_said,
)
from laissez.model.message import Message
from laissez.model.notices import OperatorEvent, OwnEvent
from laissez.model.questions import TenantQuestion
from laissez.service.rest.problems import STATUS_BY_CODE
from laissez.service.rest.routes import ROUTES
from laissez.service.server import ServerSettings
from laissez.service.webhooks import signature
from laissez.topology import read_cluster
from serving import served

REPO = Path(__file__).resolve().parent.parent
API = REPO / "docs" / "api.md"
OPERATOR = REPO / "docs" / "operator.md"
TENANT = REPO / "docs" / "tenant.md"
DEADLINE = REPO / "docs" / "deadline.md"
EVALUATE = REPO / "docs" / "evaluate-your-cluster.md"
REPRODUCE = REPO / "docs" / "reproduce.md"
README = REPO / "README.md"
PAGES_WITH_COMMANDS = (README, OPERATOR, TENANT, DEADLINE, EVALUATE, REPRODUCE)
PAGES_WITH_EXAMPLES = (README, TENANT)

FENCED = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<code>.*?)^```\s*$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`]+)`")


# --- reading a page -------------------------------------------------------------------------------


class Block(NamedTuple):
    """A fenced block, padded so that an error names the page's line."""

    info: str
    code: str


def blocks(text: str, info: str) -> list[Block]:
    return [
        Block(info, "\n" * text.count("\n", 0, found.start("code")) + found["code"])
        for found in FENCED.finditer(text)
        if found["info"].strip() == info
    ]


def rows(text: str, title: str) -> list[list[str]]:
    """The cells of the rows of a section whose first cell is in backticks."""
    plain = FENCED.sub("", text)
    section = re.search(rf"^##+ {title}\n(.*?)(?=^##+ |\Z)", plain, re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^\| *(`.*)\|$", section[1], re.MULTILINE) if section else []
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def first_span(cell: str) -> str:
    found = SPAN.search(cell)
    return found[1] if found else ""


# --- what there is --------------------------------------------------------------------------------


def written_fields(kind: type[msgspec.Struct]) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(kind)]


def structs_in(annotation: Any) -> Iterator[type[msgspec.Struct]]:
    """The messages that a type speaks of, however deep inside tuples, dicts and unions."""
    if get_origin(annotation) is not None or isinstance(annotation, UnionType):
        for part in get_args(annotation):
            yield from structs_in(part)
    elif isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        yield annotation


def reachable(annotation: Any) -> set[type[msgspec.Struct]]:
    """Every message that can be part of one of these."""
    found: set[type[msgspec.Struct]] = set()
    waiting = list(structs_in(annotation))
    while waiting:
        kind = waiting.pop()
        if kind not in found:
            found.add(kind)
            for hint in get_type_hints(kind).values():
                waiting.extend(structs_in(hint))
    return found


SECTIONS: dict[str, tuple[type[msgspec.Struct], ...]] = {
    "Instructions": get_args(Instruction),
    "Questions": get_args(Question),
    "Administration": get_args(Administration),
    "Answers": get_args(Told | Administered),
    "Messages": (Request, Subscribe, *get_args(Said)),
    "Events": get_args(Notice),
}


def the_values() -> set[type[msgspec.Struct]]:
    """What is inside messages and webhooks, and has no section of its own."""
    elsewhere = {kind for kinds in SECTIONS.values() for kind in kinds}
    # A variable holds the union: mypy takes it for a type only where a type belongs.
    everything: Any = Union[Request, Said, Posted, HandoversMissed]  # noqa: UP007
    return reachable(everything) - elsewhere


def who_may(do: type[Message]) -> str:
    if do in get_args(TenantInstruction):
        return "tenant"
    if do in get_args(OperatorInstruction | Administration):
        return "operator"
    return "everybody" if do in get_args(TenantQuestion) else "operator, viewer of all"


def told_to(event: type[Message]) -> str:
    own, all_events = event in get_args(OwnEvent), event in get_args(OperatorEvent)
    return "both" if own and all_events else "tenant" if own else "operator"


# --- the checks -----------------------------------------------------------------------------------


def compared(documented: dict[str, Any], real: dict[str, Any], what: str) -> list[str]:
    return [
        f"{what} {name}: the page says {documented.get(name)}, the code {real.get(name)}"
        for name in sorted(documented.keys() | real.keys())
        if documented.get(name) != real.get(name)
    ]


def wrong_messages(text: str) -> list[str]:
    """Each message in its section, with exactly its fields as they are written, in order."""
    wrong = []
    for title, kinds in {**SECTIONS, "Values": tuple(the_values())}.items():
        documented = {first_span(row[0]): SPAN.findall(row[1]) for row in rows(text, title)}
        real = {kind.__name__: written_fields(kind) for kind in kinds}
        wrong += compared(documented, real, title)
    return wrong


def wrong_speakers(text: str) -> list[str]:
    """Who may give an instruction, and who is told an event."""
    wrong = []
    for title, of in (("Instructions", who_may), ("Events", told_to)):
        kinds: Any = SECTIONS[title]
        documented = {first_span(row[0]): row[2] for row in rows(text, title)}
        wrong += compared(documented, {kind.__name__: of(kind) for kind in kinds}, title)
    return wrong


def wrong_routes(text: str) -> list[str]:
    """Each route with its message, who may use it, its status and its answer."""
    documented = {
        first_span(row[0]): (first_span(row[1]), row[2], row[3], first_span(row[4]))
        for row in rows(text, "REST")
    }
    real = {
        f"{route.method} {route.path}": (
            route.do.__name__,
            who_may(route.do),
            str(route.status),
            route.told.__name__,
        )
        for route in ROUTES
    }
    return compared(documented, real, "route")


def wrong_codes(text: str) -> list[str]:
    """Each code of market and service with its status, and with something to do."""
    found = rows(text, "Codes")
    wrong = compared(
        {first_span(row[0]): row[1] for row in found},
        {str(code): str(STATUS_BY_CODE[code]) for code in (*Code, *ServiceCode)},
        "code",
    )
    wrong += [f"{row[0]} does not say what to do" for row in found if not all(row[:4])]
    return wrong


def wrong_settings(text: str) -> list[str]:
    """Each setting with its default where it is a number or an address, and each option."""
    documented = {first_span(row[0]): row[1].strip("`") for row in rows(text, "Settings")}
    real = {}
    for kind in (ServerSettings, Settings, Limits):
        for field in msgspec.structs.fields(kind):
            plain = type(field.default) in (int, str)
            real[field.name] = str(field.default) if plain else documented.get(field.name)
            if field.name not in documented:
                real[field.name] = "a row in the table of settings"
    wrong = compared(documented, real, "setting")
    for parameter in up.params:
        if isinstance(parameter, click.Option) and parameter.opts[0] != "--help":
            option = parameter.opts[0]
            if not re.search(rf"{option}\b", text):
                wrong.append(f"laissez up {option} is not mentioned")
    return wrong


def wrong_commands(text: str) -> list[str]:
    """Commands and options in `sh` blocks that laissez does not have."""
    wrong = []
    for block in blocks(text, "sh"):
        for line in block.code.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["laissez"]:
                wrong += [f"{line.strip()}: {why}" for why in unknown_words(words[1:])]
    return wrong


def unknown_words(words: list[str]) -> Iterator[str]:
    command: click.Command = cli
    context = click.Context(command)
    while isinstance(command, click.Group):
        found = command.get_command(context, words[0]) if words else None
        if found is None:
            yield f"there is no command {words[:1]}"
            return
        command, words = found, words[1:]
    try:
        command.make_context(command.name, list(words), resilient_parsing=False).close()
    except click.exceptions.ClickException as error:
        # A file in an example need not be there.
        if "does not exist" not in error.format_message():
            yield error.format_message()


def wrong_json(text: str) -> list[str]:
    """Frames that the service would not read, or would never send."""
    wrong = []
    decoders: dict[str, Callable[[bytes], Any]] = {
        "json client": decode_requests,
        "json server": decode_said,
    }
    for info, decode in decoders.items():
        for block in blocks(text, info):
            try:
                decode(block.code.encode())
            except msgspec.DecodeError as error:
                wrong.append(f"{info}: {error}")
    return wrong


# --- the pages, held against the checks -----------------------------------------------------------


def test_every_message_is_documented() -> None:
    """The API page has each message that can be said or sent, and no other, with its fields."""
    assert wrong_messages(API.read_text()) == []


def test_the_sections_hold_the_whole_protocol() -> None:
    """No part of a request, an answer, a stream or a webhook is outside what is checked."""
    names = {kind.__name__ for kind in the_values()}
    assert names == {
        "Handover",
        "HandoversMissed",
        "HolderCalled",
        "HolderPromised",
        "HolderUncalled",
        "HolderUnpromised",
        "Holding",
        "OpenOrder",
        "Promise",
        "Quote",
        "Resource",
        "TenantSummary",
        "TokenInfo",
        "WebhookInfo",
    }


def test_who_may_speak_and_who_is_told() -> None:
    """The API page says of each instruction whose it is, and of each event who is told."""
    assert wrong_speakers(API.read_text()) == []


def test_every_route_is_documented() -> None:
    """The API page has each route, and no other, with message, callers, status and answer."""
    assert wrong_routes(API.read_text()) == []


def test_every_code_is_documented() -> None:
    """The API page has each code of market and service, with its status and what to do."""
    assert wrong_codes(API.read_text()) == []


def test_figures_of_the_service_stand_in_one_place() -> None:
    """Who measures anew changes what stands between two marks in the README, and is done."""
    readme = (REPO / "README.md").read_text()
    before, _, rest = readme.partition("<!-- service-bench:begin -->")
    measured, _, after = rest.partition("<!-- service-bench:end -->")
    rate = re.compile(r"\d,\d{3} ?(requests)?/s")
    assert rate.search(measured)
    for page in (before, after, *(each.read_text() for each in (REPO / "docs").glob("*.md"))):
        assert rate.search(page) is None


def test_frames_in_the_docs_are_real() -> None:
    """What the API page shows as a frame can be read by whom it is for."""
    assert wrong_json(API.read_text()) == []
    assert len(blocks(API.read_text(), "json client")) >= 2


def test_every_setting_is_documented() -> None:
    """The operator's guide has each setting with its default, and each option of `laissez up`."""
    assert wrong_settings(OPERATOR.read_text()) == []


@pytest.mark.parametrize("page", PAGES_WITH_COMMANDS, ids=lambda page: page.name)
def test_commands_in_the_docs_are_real(page: Path) -> None:
    """Every `laissez` command in a guide is one, with options and arguments that it has."""
    text = page.read_text()
    assert wrong_commands(text) == []
    assert "laissez " in "".join(block.code for block in blocks(text, "sh"))


def test_clusters_in_the_docs_can_be_read() -> None:
    """A cluster that the operator's guide describes is one, of the size that it says."""
    described = blocks(OPERATOR.read_text(), "yaml")
    assert described
    for block in described:
        cluster = read_cluster(block.code)
        east = [
            resource
            for tree in cluster.trees
            for resource in tree.resources
            if resource.path.startswith("h100/us-east/")
        ]
        assert len(east) == 640


# --- the examples, run ----------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES_WITH_EXAMPLES, ids=lambda page: page.name)
def test_examples_run_against_a_service(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ```python service blocks of a page run, in one namespace, as a tenant's program, and
    leave nothing behind in the market."""
    found = blocks(page.read_text(), "python service")
    assert found
    with (
        served(tmp_path, "operator", "team-a") as service,
        laissez.Client(service.url, service.secrets["operator"]) as operator,
    ):
        operator.set_floor("h100", "2.00")
        operator.name_levels("h100", ["zone", "rack", "host", "gpu"])
        for number in range(4):
            attributes = {"address": f"g{number}.example.com", "levels": "zone/rack/host/gpu"}
            operator.add_resource(f"h100/us-east/r1/h1/g{number}", attributes)
        monkeypatch.setenv("LAISSEZ_URL", service.url)
        monkeypatch.setenv("LAISSEZ_TOKEN", service.secrets["team-a"])
        namespace: dict[str, object] = {"__name__": page.stem}
        for block in found:
            exec(compile(block.code, str(page), "exec"), namespace)
        assert operator.holdings() == ()
        assert operator.orders() == ()
        assert operator.bill("team-a").charge > 0


def the_signature_check() -> Callable[[str, str, bytes], bool]:
    namespace: dict[str, Any] = {}
    for block in blocks(OPERATOR.read_text(), "python"):
        exec(compile(block.code, str(OPERATOR), "exec"), namespace)
    check: Callable[[str, str, bytes], bool] = namespace["is_ours"]
    return check


def test_the_signature_check_believes_us_and_nobody_else() -> None:
    """What the operator's guide tells receivers to check holds for what the service sends; a
    changed body, another secret or an old signature does not pass."""
    is_ours = the_signature_check()
    body, now = b'[{"type":"Handover"}]', int(time.time())
    assert is_ours("secret", signature("secret", now, body), body)
    assert not is_ours("secret", signature("secret", now, body), body + b" ")
    assert not is_ours("secret", signature("another", now, body), body)
    assert not is_ours("secret", signature("secret", now - 1_000, body), body)
    forged = signature("secret", now - 1_000, body).replace(str(now - 1_000), str(now))
    assert not is_ours("secret", forged, body)


def test_the_long_example_leaves_when_it_is_too_dear(tmp_path: Path) -> None:
    """The job of the tenant's guide gives its GPU up at its next checkpoint when a rival bids more
    than it is worth then, and has saved what it did until there."""
    namespace: dict[str, Any] = {"__name__": "job"}
    job = next(b for b in blocks(TENANT.read_text(), "python service") if "def train" in b.code)
    exec(compile(job.code.replace("asyncio.run(main())", ""), str(TENANT), "exec"), namespace)
    with (
        served(tmp_path, "operator", "team-a", "rival") as service,
        laissez.Client(service.url, service.secrets["operator"]) as operator,
        laissez.Client(service.url, service.secrets["rival"]) as rival,
    ):
        operator.set_floor("h100", "2.00")
        operator.add_resource("h100/a/g0")
        steps = count(1)

        async def step() -> None:
            if next(steps) == namespace["CHECKPOINT_EVERY"] + 1:
                await asyncio.to_thread(rival.place, "h100", price="3.00", limit="3.50")

        async def work() -> int:
            async with laissez.AsyncClient(service.url, service.secrets["team-a"]) as client:
                saved: int = await namespace["train"](client, 0)
                return saved

        namespace["step"] = step
        assert asyncio.run(work()) == 2 * namespace["CHECKPOINT_EVERY"] < namespace["STEPS"]
        assert [holding.resource for holding in rival.holdings()] == ["h100/a/g0"]


# --- the checks, held against pages with a slip of the pen ----------------------------------------

Check = Callable[[str], list[str]]


@pytest.mark.parametrize(
    ("check", "page", "written", "slip"),
    [
        (wrong_messages, API, "| `Release` |", "| `Relese` |"),
        (wrong_messages, API, "`scope`, `price_micros_per_hour`", "`price_micros_per_hour`"),
        (wrong_messages, API, "`since_us`, `rate_micros", "`since`, `rate_micros"),
        (wrong_messages, API, "| `AskStatus` | | `Status`", "| AskStatus | | `Status`"),
        (wrong_messages, API, "| `HandoversMissed` |", "| `HandoversLost` |"),
        (wrong_messages, API, "## Administration", "## Administering"),
        (wrong_messages, API, "| `Resync` | `sequence`,", "| `Resync` | `seq`,"),
        (wrong_messages, API, "| `Filled` | `at_us`, `order`", "| `Filled` | `order`, `at_us`"),
        (wrong_speakers, API, "| `resource` | tenant | Gives", "| `resource` | operator | Gives"),
        (wrong_speakers, API, "| `at_us`, `resource`, `reason` | tenant", "| `at_us` | both"),
        (wrong_routes, API, "| `GET /v1/status` |", "| `GET /v1/state` |"),
        (wrong_routes, API, "`CreateToken` | operator | 201", "`CreateToken` | operator | 200"),
        (wrong_routes, API, "`AskTenants` | operator, viewer", "`AskTenants` | viewer"),
        (wrong_routes, API, "| `DELETE /v1/cordons/{scope}` |", "| DELETE |"),
        (wrong_codes, API, "| `busy` | 503 |", "| `busy` | 429 |"),
        (wrong_codes, API, "| `cordoned` | 409 |", "| `cordon` | 409 |"),
        (wrong_codes, API, "| Close one. |", "| |"),
        (wrong_settings, OPERATOR, "| `queue_max` | 20000", "| `queue_max` | 10000"),
        (wrong_settings, OPERATOR, "| `keys_kept` |", "| `keys` |"),
        (wrong_settings, OPERATOR, "--seed", "--sead"),
        (wrong_settings, OPERATOR, "`--settle-every-s`", "an option"),
        (wrong_commands, OPERATOR, "laissez floor show\n", "laissez floors show\n"),
        (wrong_commands, OPERATOR, "--grace 30m", "--patience 30m"),
        (wrong_commands, OPERATOR, "tokens revoke 66648e516e8a", "tokens revoke"),
        (wrong_commands, TENANT, "--limit 3.20 --wait 30s", "--limit dear --wait 30s"),
        (wrong_commands, README, "laissez release --all", "laissez give back"),
        (wrong_json, API, '"do": {"type": "PlaceOrder"', '"do": {"type": "Order"'),
        (wrong_json, API, '{"type": "Lost", "at_us"', '{"type": "Lost", "at"'),
    ],
)
def test_a_slip_of_the_pen_is_found(check: Check, page: Path, written: str, slip: str) -> None:
    """A name that is missing, wrong or misplaced on a page is seen by the check it is for."""
    text = page.read_text()
    assert written in text
    assert check(text.replace(written, slip)) != []
