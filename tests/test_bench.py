"""The benchmark runs, and says all that it is there to say. Nothing here depends on a clock."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).parents[1] / "benchmarks" / "market.py"

OPERATIONS = {
    "place",
    "cancel",
    "amend",
    "set_limit",
    "transfer",
    "transfer (price = limit)",
    "quote",
    "bill",
}
TIMING = {
    "per_second",
    "p50_ns",
    "p99_ns",
    "p999_ns",
    "max_ns",
    "samples",
    "interruptions",
    "rounds_per_second",
}
MEMORY = {
    "leaves_by",
    "leaf_idle",
    "leaf_held",
    "order_among_others",
    "order_alone_at_host",
    "order_alone_at_leaf",
}
MASS = {
    "bills, one holding each",
    "bills, many holdings each",
    "expiry",
    "floor falls, orders at the root",
    "floor falls, orders at all depths",
    "transfers after a turnover",
}


def bench(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(BENCH), *options], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """The JSON of one quick run, and the directory with the files that it wrote."""
    place = tmp_path_factory.mktemp("bench")
    page = place / "page.md"
    page.write_text("above\n<!-- bench:begin -->\nstale figures\n<!-- bench:end -->\nbelow\n")
    output = place / "figures.json"
    done = bench("--quick", "--json", "--output", str(output), "--markdown", str(page))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), place


def test_a_quick_run_has_every_figure(quick: tuple[Any, Path]) -> None:
    """Operations and memory at each size, mass events, quotes of a half-holder, the naive."""
    figures, _ = quick
    sizes = {str(size) for size in figures["scale"]["sizes"]}
    assert set(figures["sizes"]) == set(figures["memory"]) == sizes
    for size in figures["sizes"].values():
        assert set(size["operations"]) == OPERATIONS
        assert size["holdings_per_tenant"] > 0
        assert all(set(timing) == TIMING for timing in size["operations"].values())
    assert all(set(memory) == MEMORY for memory in figures["memory"].values())
    assert set(figures["mass"]) == MASS
    assert len(figures["half_holder"]) == 8
    assert all(set(timing) == TIMING for timing in figures["half_holder"].values())
    assert set(figures["naive"]) == {str(size) for size in figures["scale"]["naive_sizes"]}
    for comparison in figures["naive"].values():
        assert set(comparison["ratio"]) == OPERATIONS


def test_a_run_says_how_to_repeat_it(quick: tuple[Any, Path]) -> None:
    """The seed, the scale and the machine are in the JSON; a quick run is held to no goal."""
    figures, _ = quick
    assert figures["seed"] == 1
    assert figures["quick"] is True
    assert {"cpu", "cores", "python", "platform"} <= set(figures["machine"])
    assert figures["goals"] == []


def test_a_run_writes_what_it_prints(quick: tuple[Any, Path]) -> None:
    """The JSON file is what was printed, and a page keeps what is not between the marks."""
    figures, place = quick
    assert json.loads((place / "figures.json").read_text()) == figures
    page = (place / "page.md").read_text()
    assert page.startswith("above\n<!-- bench:begin -->\n")
    assert page.endswith("<!-- bench:end -->\nbelow\n")
    assert "stale figures" not in page
    assert "| place |" in page
    assert figures["machine"]["cpu"] in page


def test_a_page_without_marks_is_refused_first(tmp_path: Path) -> None:
    """Before anything is measured, and with the marks that are missing."""
    page = tmp_path / "page.md"
    page.write_text("no marks")
    done = bench("--quick", "--markdown", str(page))
    assert done.returncode == 1
    assert "<!-- bench:begin -->" in done.stderr
    assert page.read_text() == "no marks"


def test_lines_of_code_are_counted_as_a_person_would() -> None:
    """Docstrings, comments, imports, blank lines and lone brackets are not code; and every file
    that is counted is there."""
    path = BENCH.parent / "adapter_lines.py"
    spec = importlib.util.spec_from_file_location("adapter_lines", path)
    assert spec is not None and spec.loader is not None
    lines = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = lines
    spec.loader.exec_module(lines)
    source = '''"""Doc."""

import os


class Farm:
    """More."""

    def missing(self, kind):
        # why
        return max(
            1,
            os.cpu_count(),
        )

    def advance(self, at):
        self.at = at
'''
    assert lines.code_lines(source) == 7
    assert lines.hook_lines(source) == 4
    assert all(each.price for each in lines.count())
