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
from textwrap import dedent
from typing import NamedTuple, get_args

import pytest

import laissez.model
from laissez.market import Market
from laissez.model import Code, Command, Event
from laissez.model.events import Reason
from laissez.model.message import UNITS, Message

REPO = Path(__file__).resolve().parent.parent
HOUSE = REPO / "src" / "laissez"
DESIGN = REPO / "docs" / "design.md"
REFERENCE = REPO / "docs" / "reference.md"


class Room(NamedTuple):
    """What a room may do. It may enter all rooms on lower floors, unless a rule says otherwise."""

    floor: int
    packages: frozenset[str]
    beside: frozenset[str]
    """Rooms of its own floor that it may enter too."""
    only: frozenset[str] | None
    """If given, the rooms on lower floors that it may enter; no others."""
    never: frozenset[str]
    """Rooms on lower floors that it may not enter."""
    is_pure: bool
    """It computes and nothing else: its answers depend on what it is told alone."""
    is_exact: bool
    """Every number in it is exact: no floats."""


def room(
    floor: int,
    *packages: str,
    beside: tuple[str, ...] = (),
    only: tuple[str, ...] | None = None,
    never: tuple[str, ...] = (),
    is_pure: bool = False,
    is_exact: bool = False,
) -> Room:
    return Room(
        floor,
        frozenset(packages),
        frozenset(beside),
        None if only is None else frozenset(only),
        frozenset(never),
        is_pure or is_exact,
        is_exact,
    )


# Imports go down. Beside the rooms below, a room may import itself, the standard library, and the
# packages named after its floor. A permission that nobody uses is wrong, too: take it out.
#
# `market` knows only the model, so that nothing but commands can change what it does, and `client`
# only what is said, so that it is small on anybody's machine. Whoever decides for a tenant or an
# operator (`adapters`, `inframaps`) sees neither a market nor a client: it is told and it answers,
# live and simulated alike. What changes a live market passes the exchange: so nothing that faces
# people or a network enters `market`.
#
# The door, laissez/__init__.py, is the room "".
ROOMS = {
    "cli": room(6, "click", "msgspec", "rich", "uvloop", beside=("sample",), never=("market",)),
    "sample": room(6, "rich"),
    "service": room(
        5, "httpx", "litestar", "msgspec", "picows", "uvicorn", "uvloop", never=("market",)
    ),
    "bench": room(5, "msgspec", "picows", "uvloop", never=("market",)),
    "experiments": room(5, "matplotlib", "msgspec", "numpy"),
    "exchange": room(4, "msgspec", only=("market", "model")),
    "runners": room(4, "msgspec", never=("market",)),
    "simulation": room(4, "highspy", "msgspec", "numpy", beside=("exchange",)),
    "adapters": room(3, "msgspec", never=("market", "client"), is_pure=True),
    "inframaps": room(3, "msgspec", never=("market", "client"), is_pure=True),
    "": room(2, beside=("client",), only=()),
    "market": room(2, "msgspec", "sortedcontainers", only=("model",), is_exact=True),
    "client": room(2, "msgspec", "picows", only=("model", "amounts")),
    "performance": room(1, "msgspec", is_pure=True),
    "deadline": room(1, "msgspec", "numpy"),
    "topology": room(1, "msgspec", "yaml", is_exact=True),
    "telemetry": room(1, "httpx", "msgspec"),
    "documents": room(0, "msgspec", "yaml", beside=("amounts",), is_pure=True),
    "amounts": room(0, beside=("model",), is_exact=True),
    "model": room(0, "msgspec", is_exact=True),
}

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
PARAGRAPH = 200
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
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def package(self) -> str:
        return self.name if self.is_package else self.name.rpartition(".")[0]


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


Table = dict[str, Room]


def may_enter(name: str, table: Table) -> set[str]:
    """The rooms that a room may enter."""
    own = table[name]
    below = {other for other, its in table.items() if its.floor < own.floor}
    return (below if own.only is None else below & own.only) - own.never | own.beside | {name}


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
                if room_of(target) not in may_enter(module.room, ROOMS):
                    wrong.append(f"{module.name} imports {target}: against the direction")
            elif top not in sys.stdlib_module_names | allowed.packages:
                wrong.append(f"{module.name} imports {target}: not a package of this room")
    return wrong


def unused_permissions(house: Path, table: Table) -> list[str]:
    """What the table allows or forbids to no effect: it would mislead whoever reads it."""
    modules = read_modules(house)
    entered: dict[str, set[str]] = {name: set() for name in table}
    packages: dict[str, set[str]] = {name: set() for name in table}
    for module in modules.values():
        for target in imports(module, modules):
            top = target.partition(".")[0]
            if top == house.name:
                entered[module.room].add(room_of(target))
            else:
                packages[module.room].add(top)
    wrong = []
    present = {module.room for module in modules.values()}
    for name, own in table.items():
        below = {other for other, its in table.items() if its.floor < own.floor}
        level = {other for other, its in table.items() if its.floor == own.floor}
        named = own.beside | own.never | (own.only or frozenset())
        wrong += [f"{name}: there is no room {other}" for other in named - table.keys()]
        wrong += [f"{name}: {other} is not below it" for other in own.never - below]
        wrong += [f"{name}: {other} is not on its floor" for other in own.beside - level]
        wrong += [f"{name} never enters {other}" for other in own.beside - entered[name]]
        wrong += [f"{name} never enters {o}" for o in (own.only or set()) - entered[name]]
        wrong += [f"{name} never imports {each}" for each in own.packages - packages[name]]
        if name not in present:
            wrong.append(f"there is no room {name} in the house")
    return wrong


# --- names --------------------------------------------------------------------------------------


def type_names(tree: ast.Module) -> Iterator[str]:
    """The classes of a module, wherever they stand, and the capitalised aliases at its top."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name
    for node in tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            variable = isinstance(node.value, ast.Call) and "TypeVar" in ast.dump(node.value.func)
        elif isinstance(node, ast.AnnAssign):
            target, variable = node.target, False
        else:
            continue
        if isinstance(target, ast.Name) and not variable:
            bare = target.id.lstrip("_")
            if bare[:1].isupper() and not bare.isupper():
                yield target.id


def names_defined_twice(house: Path) -> dict[str, list[str]]:
    """By name, the modules that define a type of this name, where there are several."""
    places: dict[str, list[str]] = {}
    for module in read_modules(house).values():
        for name in type_names(module.tree):
            places.setdefault(name, []).append(module.name)
    return {name: modules for name, modules in places.items() if len(modules) > 1}


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
        if not ROOMS[module.room].is_pure:
            continue
        for target in imports(module, modules):
            if target.partition(".")[0] in IMPURE_MODULES:
                wrong.append(f"{module.name} imports {target}")
        for node in ast.walk(module.tree):
            where = f"{module.name}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Name) and node.id in IMPURE_BUILTINS:
                wrong.append(f"{where} uses {node.id}")
            elif not ROOMS[module.room].is_exact:
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
        said = ast.get_docstring(module.tree)
        if said is None:
            wrong.append(f"{module.name} does not open with a docstring")
        elif module.name.count(".") == 1 and module.is_package and len(said) < PARAGRAPH:
            wrong.append(f"{module.name} does not say in a paragraph what lives there")
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


MAP_ROW = re.compile(r"^\| (?P<floor>\d) \| `(?P<room>[a-z]+)` \|", re.MULTILINE)


def rooms_on_the_map(text: str) -> dict[str, int]:
    """By room, the floor that a page's table of rooms gives it."""
    return {row["room"]: int(row["floor"]) for row in MAP_ROW.finditer(text)}


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
    """A room imports only from the floors below it, and only the packages it may."""
    assert wrong_imports(HOUSE) == []


def test_every_permission_is_used() -> None:
    """A room, an arrow or a package that the table names and the house does not have is gone."""
    assert unused_permissions(HOUSE, ROOMS) == []


def test_a_type_has_a_name_of_its_own() -> None:
    """No two classes or capitalised aliases have one name: whoever reads it knows what is meant."""
    assert names_defined_twice(HOUSE) == {}


def test_the_map_shows_the_rooms_there_are() -> None:
    """The table of rooms in design.md has each room on its floor, and no other."""
    assert rooms_on_the_map(DESIGN.read_text()) == {
        name: each.floor for name, each in ROOMS.items() if name
    }


def test_the_door_names_every_room() -> None:
    """Whoever opens `laissez/__init__.py` reads of each room, and of no other."""
    said = ast.get_docstring(read_modules(HOUSE)["laissez"].tree)
    assert said is not None
    assert set(re.findall(r"`([a-z]+)`", said)) == {name for name in ROOMS if name}


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
    "model/__init__.py": f'"""Words{"." * PARAGRAPH}"""\nfrom laissez.model.word import Word',
    "model/word.py": '"""A word."""\nimport msgspec',
    "market/__init__.py": f'"""Who holds{"." * PARAGRAPH}"""\nfrom laissez.model import Word',
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


def test_an_unused_permission_is_found(tmp_path: Path) -> None:
    """A room, a package or an arrow for nothing, and a wall where there is no way anyhow."""
    house = build(tmp_path, {})
    table = {
        "": room(2, only=()),
        "market": room(1, only=("model",)),
        "model": room(0, "msgspec"),
    }
    assert unused_permissions(house, table) == []
    changes = {
        "attic": room(3),
        "market": room(1, "msgspec", only=("model",)),
        "model": room(0, "msgspec", never=("market",)),
        "": room(2, beside=("market",)),
    }
    for name, changed in changes.items():
        assert unused_permissions(house, table | {name: changed}) != [], name


@pytest.mark.parametrize(
    "text",
    [
        "class Word: ...",
        "Word = tuple[int, str]",
        "Word: TypeAlias = int",
        "def f():\n class Word: ...",
    ],
)
def test_a_name_with_two_meanings_is_found(tmp_path: Path, text: str) -> None:
    """Be it a class or an alias; a variable of a type, a constant and an import are neither."""
    plain = """
        import msgspec
        from laissez.model import Word as Said
        T = TypeVar("T")
        WORDS = [Said]
        class {}: ...
    """
    house = build(
        tmp_path,
        {
            "model/word.py": dedent(plain).format("Word"),
            "market/book.py": dedent(plain).format("Book"),
        },
    )
    assert names_defined_twice(house) == {}
    (house / "market" / "book.py").write_text(text)
    assert names_defined_twice(house) == {"Word": ["laissez.market.book", "laissez.model.word"]}


def test_a_map_is_read() -> None:
    """Floor and room of each row; other tables are none of its business."""
    text = "| floor | room |\n|---|---|\n| 2 | `market` | who holds what |\n| `x` | `y` |\n"
    assert rooms_on_the_map(text) == {"market": 2}


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
        ("market/__init__.py", '"""Who holds what."""'),
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
