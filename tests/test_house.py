"""The house stays in order: imports, purity, papers.

Each check is a function that returns what is wrong, as sentences; a test holds it against the
house, and another shows that it can fail.
"""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple, get_args

import pytest

import laissez.model
from laissez.market import Market
from laissez.model import Code, Command, Event
from laissez.model.events import Reason
from laissez.model.message import UNITS, Message

REPO = Path(__file__).resolve().parent.parent
HOUSE = REPO / "src" / "laissez"
REFERENCE = REPO / "docs" / "reference.md"


class Room(NamedTuple):
    may_enter: frozenset[str]
    third_party: frozenset[str]


def room(*may_enter: str, third_party: tuple[str, ...] = ()) -> Room:
    return Room(frozenset(may_enter), frozenset(third_party))


# A room may import itself, the rooms named first, the standard library, and these packages.
# The door, laissez/__init__.py, is the room "".
ROOMS = {
    "": room("client"),
    "model": room(third_party=("msgspec",)),
    "market": room("model", third_party=("msgspec",)),
    "amounts": room("model"),
    "topology": room("model", "amounts", "documents", third_party=("msgspec", "yaml")),
    "documents": room("amounts", third_party=("msgspec", "yaml")),
    "telemetry": room("amounts", "documents", third_party=("httpx", "msgspec")),
    "deadline": room(
        "model", "amounts", "documents", third_party=("matplotlib", "msgspec", "numpy")
    ),
    "workloads": room("model", third_party=("msgspec",)),
    "adapters": room("model", "amounts", "workloads", "deadline", third_party=("msgspec",)),
    "inframaps": room("model", "amounts", "documents", third_party=("msgspec",)),
    "exchange": room("model", "market", third_party=("msgspec",)),
    "service": room(
        "",
        "model",
        "exchange",
        third_party=("httpx", "litestar", "msgspec", "picows", "uvicorn", "uvloop"),
    ),
    "client": room("model", "amounts", third_party=("msgspec", "picows")),
    "bench": room("model", "exchange", third_party=("msgspec", "picows", "uvloop")),
    "sample": room("model", "market", "client", "topology", third_party=("msgspec", "rich")),
    "runners": room(
        "model",
        "amounts",
        "documents",
        "telemetry",
        "workloads",
        "adapters",
        "inframaps",
        "deadline",
        "market",
        "exchange",
        "client",
        "topology",
        third_party=("msgspec",),
    ),
    "simulation": room(
        "model",
        "amounts",
        "documents",
        "workloads",
        "adapters",
        "deadline",
        "market",
        "exchange",
        "topology",
        third_party=("highspy", "matplotlib", "msgspec", "numpy"),
    ),
    "cli": room(
        "",
        "model",
        "amounts",
        "documents",
        "telemetry",
        "deadline",
        "workloads",
        "adapters",
        "inframaps",
        "runners",
        "simulation",
        "exchange",
        "service",
        "client",
        "topology",
        "bench",
        "sample",
        third_party=("click", "msgspec", "rich", "uvloop"),
    ),
}

# Rooms that compute and nothing else: their answers depend on what they are told alone.
PURE_ROOMS = {
    "model",
    "market",
    "amounts",
    "topology",
    "documents",
    "workloads",
    "adapters",
    "inframaps",
}
# Those of them in which every number is exact: no floats.
EXACT_ROOMS = {"model", "market", "amounts", "topology"}
# fmt: off
IMPURE_MODULES = {
    "asyncio", "concurrent", "datetime", "http", "io", "logging", "multiprocessing", "os",
    "pathlib", "random", "secrets", "select", "selectors", "shutil", "signal", "socket",
    "subprocess", "tempfile", "threading", "time", "urllib", "uuid",
}
# fmt: on
IMPURE_BUILTINS = {"input", "open", "print"}

FORBIDDEN_FILE_NAMES = {"utils.py", "common.py", "helpers.py"}
LINES_MAX = 600
HOUSE_SUFFIXES = {".py", ".pyc", ".yaml"}

PAPERS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "docs/decisions.md"]


# --- reading the source -------------------------------------------------------------------------


class Module(NamedTuple):
    name: str
    path: Path
    tree: ast.Module

    @property
    def room(self) -> str:
        return room_of(self.name)

    @property
    def package(self) -> str:
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


def room_of(module_name: str) -> str:
    return [*module_name.split("."), ""][1]


def read_modules(house: Path) -> dict[str, Module]:
    modules = {}
    for path in sorted(house.rglob("*.py")):
        parts = path.relative_to(house.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        modules[name] = Module(name, path, ast.parse(path.read_text(), str(path)))
    return modules


def imports(module: Module, known: dict[str, Module]) -> Iterator[str]:
    """Every module that is imported anywhere in this one, also in a function or for types."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = module.package.split(".")
                base = ".".join([*above[: len(above) - node.level + 1], *filter(None, [base])])
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                yield whole if whole in known else base


# --- the checks ---------------------------------------------------------------------------------


def wrong_imports(house: Path) -> list[str]:
    modules = read_modules(house)
    wrong = []
    for module in modules.values():
        if module.room not in ROOMS:
            wrong.append(f"{module.name}: the room {module.room!r} is not in the table of rooms")
            continue
        allowed = ROOMS[module.room]
        for target in imports(module, modules):
            top = target.partition(".")[0]
            if top == house.name:
                if room_of(target) not in allowed.may_enter | {module.room}:
                    wrong.append(f"{module.name} imports {target}: against the direction")
            elif top not in sys.stdlib_module_names | allowed.third_party:
                wrong.append(f"{module.name} imports {target}: not a package of this room")
    return wrong


def import_cycle(house: Path) -> list[str]:
    modules = read_modules(house)
    graph = {name: set(imports(module, modules)) - {name} for name, module in modules.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle
    return []


def impurities(house: Path) -> list[str]:
    modules = read_modules(house)
    wrong = []
    for module in modules.values():
        if module.room not in PURE_ROOMS:
            continue
        for target in imports(module, modules):
            if target.partition(".")[0] in IMPURE_MODULES:
                wrong.append(f"{module.name} imports {target}")
        for node in ast.walk(module.tree):
            where = f"{module.name}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Name) and node.id in IMPURE_BUILTINS:
                wrong.append(f"{where} uses {node.id}")
            elif module.room not in EXACT_ROOMS:
                continue
            elif isinstance(node, ast.Name) and node.id == "float":
                wrong.append(f"{where} uses float")
            elif isinstance(node, ast.Constant) and isinstance(node.value, float):
                wrong.append(f"{where} has the float {node.value}")
            elif isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div):
                wrong.append(f"{where} divides with /")
    return wrong


def untidy_files(house: Path) -> list[str]:
    folders = sorted({path.parent for path in house.rglob("*.py")})
    strays = [
        path
        for path in sorted(house.rglob("*"))
        if path.is_file() and path.suffix not in HOUSE_SUFFIXES and path.name != "py.typed"
    ]
    wrong = [
        f"{folder.name} has no __init__.py that says what lives here"
        for folder in folders
        if not (folder / "__init__.py").exists()
    ]
    wrong += [f"{path.name} does not belong in the house" for path in strays]
    for module in read_modules(house).values():
        if ast.get_docstring(module.tree) is None:
            wrong.append(f"{module.name} does not open with a docstring")
        if module.path.name in FORBIDDEN_FILE_NAMES:
            wrong.append(f"{module.path.name} says nothing about what is in it")
        lines = len(module.path.read_text().splitlines())
        if lines > LINES_MAX:
            wrong.append(f"{module.name} has {lines} lines")
    return wrong


def markdown_files(repo: Path) -> list[Path]:
    return [
        path
        for path in sorted(repo.rglob("*.md"))
        if not any(part.startswith(".") for part in path.relative_to(repo).parts[:-1])
    ]


FENCED = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<code>.*?)^```\s*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(<?(?P<target>[^)\s>]+)>?[^)]*\)")
ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*:|#", re.IGNORECASE)


def broken_links(repo: Path) -> list[str]:
    wrong = []
    for path in markdown_files(repo):
        for link in LINK.finditer(FENCED.sub("", path.read_text())):
            target = link["target"]
            if ADDRESS.match(target):
                continue
            if not (path.parent / target.partition("#")[0]).exists():
                wrong.append(f"{path.relative_to(repo)} links to {target}, which is not there")
    return wrong


def runnable_blocks(path: Path) -> list[str]:
    """The ```python blocks of a page, each padded so that a traceback names the page's line."""
    text = path.read_text()
    return [
        "\n" * text.count("\n", 0, block.start("code")) + block["code"]
        for block in FENCED.finditer(text)
        if block["info"].strip() == "python"
    ]


def run_blocks(path: Path) -> None:
    namespace: dict[str, object] = {"__name__": path.stem}
    for block in runnable_blocks(path):
        exec(compile(block, str(path), "exec"), namespace)


PINNED = re.compile(r"[a-z0-9][a-z0-9.-]*==[0-9][A-Za-z0-9.+!]*( \\)?")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")


def loose_requirements(text: str) -> list[str]:
    lines = text.splitlines()
    return [line for line in lines if not (PINNED.fullmatch(line) or HASH.fullmatch(line))]


# --- reading the reference ----------------------------------------------------------------------

SPAN = re.compile(r"`([^`]+)`")


def section(title: str) -> str:
    """One `## ` section of the reference, without its fenced blocks."""
    text = FENCED.sub("", REFERENCE.read_text())
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"docs/reference.md has no section '## {title}'"
    return found[1]


def heading_spans(title: str) -> list[list[str]]:
    """What stands in backticks in each `### ` heading of a section."""
    headings = re.findall(r"^### (.*)$", section(title), re.MULTILINE)
    return [SPAN.findall(heading) for heading in headings]


def rows(title: str) -> list[list[str]]:
    """The cells of each table row of a section whose first cell is in backticks."""
    lines = re.findall(r"^\| *(`.*)\|$", section(title), re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")] for line in lines]


def documented_calls() -> dict[str, set[str]]:
    """The market's calls and questions, by name, with the names of their arguments."""
    written = [spans[0] for spans in heading_spans("Commands")]
    written += [SPAN.findall(row[0])[0] for row in rows("Questions")]
    calls = {}
    for call in written:
        name, bracket, _ = call.partition("(")
        arguments = set()
        if bracket:
            definition = ast.parse(f"def {call}: ...").body[0]
            assert isinstance(definition, ast.FunctionDef)
            every = definition.args
            arguments = {each.arg for each in every.posonlyargs + every.args + every.kwonlyargs}
        calls[name] = arguments
    return calls


def market_calls() -> dict[str, set[str]]:
    calls = {}
    for name in dir(Market()):
        if not name.startswith("_"):
            member = getattr(Market, name, None)
            arguments = inspect.signature(member).parameters if callable(member) else ()
            calls[name] = set(arguments) - {"self"}
    return calls


# --- the house, held against the checks ---------------------------------------------------------


def test_imports_point_one_way() -> None:
    """A room imports only from the rooms to its left, and only the packages it may."""
    assert wrong_imports(HOUSE) == []


def test_no_import_cycle() -> None:
    """No module imports itself by way of others, not even for its types."""
    assert import_cycle(HOUSE) == []


def test_the_market_only_computes() -> None:
    """The model and the market have no clock, randomness, I/O or floats: a replay is exact."""
    assert impurities(HOUSE) == []


def test_every_file_says_what_it_is() -> None:
    """Each package and module opens with its theory, has a telling name, and can be read whole."""
    assert untidy_files(HOUSE) == []


def test_papers_are_there() -> None:
    """What a newcomer looks for at the door is at the door."""
    assert [paper for paper in PAPERS if not (REPO / paper).is_file()] == []


def test_links_lead_somewhere() -> None:
    """A relative link in any Markdown file of the repository points at a file that exists."""
    assert broken_links(REPO) == []


@pytest.mark.parametrize(
    "page",
    [path for path in markdown_files(REPO) if runnable_blocks(path)],
    ids=lambda path: str(path.relative_to(REPO)),
)
def test_examples_run(page: Path) -> None:
    """The ```python blocks of a page run, one after the other, in one namespace."""
    run_blocks(page)


def test_requirements_are_pinned() -> None:
    """requirements.txt holds names, versions and hashes, and pins all of requirements.in."""
    locked = (REPO / "requirements.txt").read_text()
    wanted = (REPO / "requirements.in").read_text().splitlines()
    assert loose_requirements(locked) == []
    for name in wanted:
        if name and not name.startswith("#"):
            assert re.search(rf"^{name}==", locked, re.MULTILINE), f"{name} is not locked"


# --- the reference ------------------------------------------------------------------------------


def test_every_command_is_documented() -> None:
    """The reference has each command class, and no other, beside the call that builds it."""
    classes = [spans[1] for spans in heading_spans("Commands") if len(spans) > 1]
    assert sorted(classes) == sorted(command.__name__ for command in get_args(Command))


def test_every_call_is_documented() -> None:
    """The reference has each public call of the market, and no other, with its arguments."""
    documented, real = documented_calls(), market_calls()
    names = sorted(documented | real)
    assert [name for name in names if documented.get(name) != real.get(name)] == []


def test_every_event_is_documented() -> None:
    """The reference has each event class, and no other, with its fields in order."""
    documented = {SPAN.findall(row[0])[0]: SPAN.findall(row[1]) for row in rows("Events")}
    events: tuple[type[Message], ...] = get_args(Event)
    assert documented == {event.__name__: list(event.__struct_fields__) for event in events}


def test_every_reason_is_documented() -> None:
    """The reference has each reason of a transfer, and no other."""
    assert {SPAN.findall(row[0])[0] for row in rows("Reasons")} == set(get_args(Reason))


def test_every_value_is_documented() -> None:
    """What the reference says of the fields of a value is so."""
    for row in rows("Values"):
        value: type[Message] = getattr(laissez.model, SPAN.findall(row[0])[0])
        if hasattr(value, "__struct_fields__"):
            assert SPAN.findall(row[1]) == list(value.__struct_fields__)


def test_every_refusal_is_documented() -> None:
    """The reference has each refusal code, and no other, in the order of the model."""
    assert [SPAN.findall(row[0])[0] for row in rows("Refusals")] == [code.value for code in Code]


def test_refusals_of_commands_exist() -> None:
    """Every code that a command is said to be refused with is a code."""
    lines = re.findall(r"^Refusals: (.*?)\n\n", section("Commands"), re.MULTILINE | re.DOTALL)
    assert {code for line in lines for code in SPAN.findall(line)} <= {code.value for code in Code}


def test_every_written_name_is_documented() -> None:
    """The reference has each field that is written with its unit, as it is written."""
    written = {SPAN.findall(row[0])[0]: SPAN.findall(row[1])[0] for row in rows("Wire names")}
    assert written == UNITS


# --- the checks, held against houses that are not in order --------------------------------------


IN_ORDER = {
    "__init__.py": '"""The door."""',
    "model/__init__.py": '"""What is said."""\nfrom laissez.model.word import Word',
    "model/word.py": '"""A word."""\nimport msgspec',
    "market/__init__.py": '"""Who holds what."""\nfrom laissez.model import Word',
}


def build(root: Path, changes: dict[str, str]) -> Path:
    """A small house that is in order but for the changes."""
    house = root / "laissez"
    for name, text in (IN_ORDER | changes).items():
        path = house / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return house


def test_a_house_in_order_passes(tmp_path: Path) -> None:
    """The checks do not complain of a house that keeps the rules."""
    house = build(tmp_path, {})
    assert wrong_imports(house) == []
    assert import_cycle(house) == []
    assert impurities(house) == []
    assert untidy_files(house) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("model/word.py", "import laissez.market"),
        ("model/word.py", "from laissez.market import Market"),
        ("model/word.py", "from laissez import market"),
        ("model/word.py", "from .. import market"),
        ("model/word.py", "from ..market import Market"),
        ("model/word.py", "from laissez import __version__"),
        ("model/word.py", "def later():\n    from laissez import market"),
        ("model/word.py", "if TYPE_CHECKING:\n    from laissez.market import Market"),
        ("model/word.py", "import rich.table"),
        ("market/book.py", "from laissez.sample.story import main"),
        ("__init__.py", "from laissez.model import Word"),
        ("cellar/__init__.py", ""),
        ("cellar.py", ""),
    ],
)
def test_a_wrong_import_is_found(tmp_path: Path, name: str, text: str) -> None:
    """An import against the direction is seen in whatever way it is written, and so is a room
    that the table does not know."""
    assert len(wrong_imports(build(tmp_path, {name: text}))) == 1


@pytest.mark.parametrize(
    "text",
    ["import laissez.model", "from laissez.model import Word", "from . import Word"],
)
def test_an_import_cycle_is_found(tmp_path: Path, text: str) -> None:
    """A module that imports the package which imports it closes a circle."""
    cycle = import_cycle(build(tmp_path, {"model/word.py": text}))
    assert set(cycle) == {"laissez.model", "laissez.model.word"}


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "from os import path",
        "import concurrent.futures",
        "def later():\n    import random",
        "print('hello')",
        "half = 0.5",
        "half = 1 / 2",
        "half = float(1)",
    ],
)
def test_an_impurity_is_found(tmp_path: Path, text: str) -> None:
    """A clock, a die, a file or a float in a room that only computes is seen."""
    assert len(impurities(build(tmp_path, {"market/book.py": text}))) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("market/book.py", "import msgspec"),
        ("market/utils.py", '"""Things."""'),
        ("market/deeper/book.py", '"""A book."""'),
        ("market/book.py", '"""A book."""' + "\n" * LINES_MAX + "page = 601"),
        ("market/book.py.orig", '"""A book, before it was mended."""'),
    ],
)
def test_an_untidy_file_is_found(tmp_path: Path, name: str, text: str) -> None:
    """A file without docstring or telling name, in no package, too long or left over is seen."""
    assert len(untidy_files(build(tmp_path, {name: text}))) == 1


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    """Links are followed from the file they stand in; addresses and code blocks are left alone."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "there.md").write_text("[up](../README.md#top) [here](#here)")
    (tmp_path / "README.md").write_text(
        "[good](docs/there.md) [mail](mailto:a@b.c)\n```\n[code](nowhere)\n```\n[bad](there.md)\n"
    )
    assert broken_links(tmp_path) == ["README.md links to there.md, which is not there"]


def test_a_failing_example_is_found(tmp_path: Path) -> None:
    """Blocks share names, a block that is not plain `python` is not run, and a failure shows."""
    page = tmp_path / "page.md"
    page.write_text(
        "```python\none = 1\n```\n```python no-run\n1 / 0\n```\n```python\nassert one == 2\n```\n"
    )
    with pytest.raises(AssertionError) as failure:
        run_blocks(page)
    assert failure.traceback[-1].lineno + 1 == 8


@pytest.mark.parametrize(
    "line",
    [
        "--index-url somewhere",
        "rich>=13 \\",
        "rich @ file:///rich.whl",
        "# made by pip-compile",
        "    # via rich",
        "    --hash=md5:0123 \\",
    ],
)
def test_a_loose_requirement_is_found(line: str) -> None:
    """An option, a range, an address or a comment has no place among the pins."""
    good = "rich==15.0.0 \\\n    --hash=sha256:" + "0" * 64
    assert loose_requirements(f"{good}\n{line}\n") == [line]
