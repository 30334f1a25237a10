"""How long the ready-made adapters and maps are: `python benchmarks/adapter_lines.py [--json]`.

Counted are lines of code: no blank lines, no comments, no docstrings, no imports. `price` is what
turns the application's answers into bids, `profile` the hooks with which an application answers;
what all adapters share (orders, budget, staircase) and the models under the hooks (tables, queue,
planner, and how the application lives) are counted apart. Beside them stand the figures of the
LaissezCloud paper (2026), price and profile, for its own adapters and its power map; what it counts
as which it does not say in detail.
"""

import argparse
import ast
from collections.abc import Iterator
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from laissez.performance.application import Application

HOUSE = Path(__file__).resolve().parent.parent / "src" / "laissez"


LIFE = {"advance", "gain", "lose", "measure", "state", "resume"}
"""What is told to an application, and is no question."""


class Counted(msgspec.Struct, frozen=True):
    name: str
    price: int
    profile: int
    underneath: int
    paper: str


class Parts(msgspec.Struct, frozen=True):
    """The files of one adapter, under the house."""

    name: str
    price: tuple[str, ...]
    profile: str = ""
    underneath: str = ""
    paper: str = ""


PARTS = (
    Parts(
        "inference",
        ("adapters/inference.py",),
        "performance/inference/service.py",
        "performance/inference",
        "17/55",
    ),
    Parts(
        "training",
        ("adapters/training.py",),
        "performance/training/job.py",
        "performance/training",
        "23/34",
    ),
    Parts(
        "deadline (batch)",
        ("adapters/deadline.py", "adapters/urgency.py"),
        "performance/batch/job.py",
        "performance/batch",
        "12/17",
    ),
    Parts("on-demand, spot", ("adapters/footprint.py",)),
    Parts("power map", ("inframaps/power.py",), paper="8/5"),
    Parts("maintenance map", ("inframaps/maintenance.py",)),
    Parts("carbon map", ("inframaps/carbon.py",)),
    Parts("utilisation map", ("inframaps/utilisation.py",)),
    Parts(
        "what adapters share",
        tuple(
            f"adapters/{name}.py"
            for name in ("acting", "asking", "budget", "econ", "intent", "pricing", "wall")
        ),
    ),
)


def hook_lines(source: str) -> int:
    """Lines of code in the methods that a contract asks."""
    hooks = {name for name in vars(Application) if not name.startswith("_")} - LIFE
    methods = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.name in hooks
    ]
    return sum(code_lines(source, method) for method in methods)


def code_lines(source: str, within: ast.AST | None = None) -> int:
    """Lines with code on them, docstrings and imports left out."""
    lines: set[int] = set()
    for node in ast.walk(within or ast.parse(source)):
        if isinstance(node, ast.stmt) and not _is_silent(node):
            lines.update(_own_lines(node))
    written = (source.splitlines()[line - 1].strip() for line in lines)
    return sum(bool(line.strip("()[]{},")) and not line.startswith("#") for line in written)


def _is_silent(node: ast.stmt) -> bool:
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_docstring or isinstance(node, ast.Import | ast.ImportFrom)


def _own_lines(node: ast.stmt) -> Iterator[int]:
    """The lines of a statement without those of the statements in it."""
    body: list[ast.stmt] = getattr(node, "body", [])
    last = body[0].lineno - 1 if body else (node.end_lineno or node.lineno)
    yield from range(node.lineno, max(last, node.lineno) + 1)


def lines_under(place: str) -> int:
    """Of a file, or of all files in a folder."""
    path = HOUSE / place
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    return sum(code_lines(file.read_text()) for file in files)


def count() -> list[Counted]:
    counted = []
    for parts in PARTS:
        profile = hook_lines((HOUSE / parts.profile).read_text()) if parts.profile else 0
        underneath = lines_under(parts.underneath) - profile if parts.underneath else 0
        price = sum(map(lines_under, parts.price))
        counted.append(Counted(parts.name, price, profile, underneath, parts.paper))
    return counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="as JSON")
    counted = count()
    if parser.parse_args().json:
        print(msgspec.json.encode(counted).decode())
        return
    table = Table(title="lines of code")
    for column in ("", "price", "profile", "models", "paper: price/profile"):
        table.add_column(column, justify="left" if not column else "right")
    for each in counted:
        table.add_row(
            each.name, str(each.price), str(each.profile), str(each.underneath), each.paper
        )
    Console().print(table)


if __name__ == "__main__":
    main()
