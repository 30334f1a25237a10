"""`laissez adapter` and `laissez inframap` against the real service, as people type them."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from laissez.cli.main import cli
from laissez.cli.terminal import running as running_commands
from laissez.client import Client, Refusal
from serving import Served, served

REPO = Path(__file__).parents[1]
DOLLAR = 1_000_000
PATIENCE_S = 60.0

SPOT = """\
adapter: spot
name: nights
scopes: [h100]
nodes: 2
limit: 3.00
period: 100ms
"""
PLAIN_MAP = """\
base: {h100: 2.50}
every: 100ms
"""


class Desk:
    """Somebody with a token, and files of their own."""

    def __init__(self, service: Served, folder: Path, who: str) -> None:
        self.folder = folder
        self.environment = {
            "LAISSEZ_URL": service.url,
            "LAISSEZ_TOKEN": service.secrets[who],
            "LAISSEZ_CONFIG": str(folder / "no-login"),
        }

    def file(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return str(self.folder / name)

    def run(self, *words: str) -> Result:
        return CliRunner(env=self.environment).invoke(cli, words, catch_exceptions=False)

    def text(self, *words: str) -> str:
        result = self.run(*words)
        assert result.exit_code == 0, result.output
        return result.stdout

    def lines(self, *words: str) -> list[Any]:
        return [json.loads(line) for line in self.text(*words, "--json").splitlines()]

    def error(self, *words: str, exit_code: int) -> str:
        result = self.run(*words)
        assert result.exit_code == exit_code, result.output
        return result.stderr

    @contextlib.contextmanager
    def running(self, *words: str) -> Iterator["Running"]:
        """A command that runs in a process of its own, and not for longer than the test."""
        process = subprocess.Popen(
            [sys.executable, "-m", "laissez.cli.main", *words],
            env=os.environ | self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        late = threading.Timer(PATIENCE_S, process.kill)
        late.start()
        try:
            yield Running(process)
        finally:
            late.cancel()
            process.kill()
            process.wait()
            late.join()
            for pipe in (process.stdout, process.stderr):
                assert pipe is not None
                pipe.close()


class Running:
    """A process whose log is read line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None and process.stderr is not None
        self.process = process
        self.out, self.error = process.stdout, process.stderr

    def until(self, what: str) -> list[Any]:
        """What it says, up to the first entry of this kind."""
        said: list[Any] = []
        while not said or said[-1]["what"] != what:
            line = self.out.readline()
            assert line, f"it ended without {what!r}: {said} {self.error.read()}"
            said.append(json.loads(line))
        return said

    def end(self, number: signal.Signals = signal.SIGTERM) -> list[Any]:
        """Stop it; the rest of what it says. It ends well, and complains of nothing."""
        self.process.send_signal(number)
        said, complaint = self.out.read(), self.error.read()
        assert (self.process.wait(), complaint) == (0, "")
        return [json.loads(line) for line in said.splitlines()]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "market", "operator", "ml") as running:
        with Client(running.url, running.secrets["operator"]) as operator:
            operator.set_floor("h100", "2.00")
            operator.add_resource("h100/r1/g0")
        yield running


@pytest.fixture
def ml(service: Served, tmp_path: Path) -> Desk:
    return Desk(service, tmp_path, "ml")


@pytest.fixture
def operator(service: Served, tmp_path: Path) -> Desk:
    return Desk(service, tmp_path, "operator")


def test_list_and_check() -> None:
    """What there is, and what a file means, is said without a service, in both forms."""
    run = CliRunner(env={"LAISSEZ_CONFIG": "no-such-file"})
    listed = json.loads(run.invoke(cli, ["adapter", "list", "--json"]).stdout)
    assert {"on-demand", "spot", "deadline", "inference"} <= {each["adapter"] for each in listed}
    assert "gives way" in run.invoke(cli, ["adapter", "list"]).stdout
    example = str(REPO / "examples" / "adapters" / "on-demand.yaml")
    assert "it may owe at most $24.00/h" in run.invoke(cli, ["adapter", "check", example]).stdout
    checked = json.loads(run.invoke(cli, ["adapter", "check", example, "--json"]).stdout)
    assert (checked["name"], checked["most_micros_per_hour"]) == ("web", 24 * DOLLAR)
    example = str(REPO / "examples" / "inframaps" / "power.yaml")
    assert "$1.40/h" in run.invoke(cli, ["inframap", "check", example]).stdout
    checked = json.loads(run.invoke(cli, ["inframap", "check", example, "--json"]).stdout)
    assert checked["base_micros_per_hour"] == {"h100": 2_100_000}


@pytest.mark.parametrize("command", ["check", "run"])
def test_a_wrong_file_is_shown_at_its_line(ml: Desk, command: str) -> None:
    """Exit code 2, and the file, the line and what to do."""
    path = ml.file("a.yaml", SPOT.replace("nodes: 2", "nodes: none"))
    assert f"{path}:4:8: here must be a whole number" in ml.error(
        "adapter", command, path, exit_code=2
    )
    path = ml.file("m.yaml", PLAIN_MAP + "maps: [{map: tides}]\n")
    assert f"{path}:3:14: 'tides' is none of" in ml.error("inframap", command, path, exit_code=2)
    ml.error("adapter", command, str(ml.folder / "nowhere.yaml"), exit_code=2)


def test_a_run_trades_remembers_and_goes_on(ml: Desk) -> None:
    """It holds what it can, leaves no order, remembers, and a second run takes over."""
    path = ml.file("a.yaml", SPOT)
    first = ml.lines("adapter", "run", path, "--for", "1s")
    assert [line["what"] for line in first if line["what"] in ("won", "ends")] == ["won", "ends"]
    assert all(line["at_us"] and line["tenant"] == "ml" and "why" in line for line in first)
    assert ml.lines("orders") == [[]]
    assert (ml.folder / "a.yaml.memory").exists()
    second = ml.text("adapter", "run", path, "--for", "1s", "--release")
    assert "it finds 1 held" in second and "lost h100/r1/g0 (relinquished)" in second
    assert "nothing is held" in second
    assert ml.lines("holdings") == [[]]


@pytest.mark.parametrize("kind", ["on-demand", "spot", "deadline", "inference", "training"])
def test_the_examples_trade(ml: Desk, operator: Desk, kind: str) -> None:
    """Each example holds something of the example cluster within a second or so, unrefused."""
    operator.text("topology", "apply", str(REPO / "examples" / "cluster.yaml"), "--yes")
    shutil.copytree(REPO / "examples" / "adapters", ml.folder / "adapters")
    path = str(ml.folder / "adapters" / f"{kind}.yaml")
    would = ml.lines("adapter", "run", path, "--dry-run")
    assert any(line["what"] == "place" and line["is_rehearsal"] for line in would)
    with ml.running("adapter", "run", path, "--release", "--json") as running:
        said = running.until("won") + running.end()
    assert not [line for line in said if line["what"] == "refused"]
    assert said[-1]["why"] == "nothing is held"
    assert sum(line["what"] == "won" for line in said) == sum(
        line["what"] == "lost" for line in said
    )


def test_a_dry_run(ml: Desk) -> None:
    """It says what it would do; nothing is sent, and nothing remembered."""
    path = ml.file("a.yaml", SPOT)
    assert "would order one under h100 (nights.0) for $3.00/h" in ml.text(
        "adapter", "run", path, "--dry-run"
    )
    assert ml.lines("orders") == [[]] and ml.lines("holdings") == [[]]
    assert not (ml.folder / "a.yaml.memory").exists()


def test_a_damaged_memory(ml: Desk) -> None:
    """It is refused with what to do, and `--fresh` begins anew; so does another file."""
    path = ml.file("a.yaml", SPOT)
    damaged = ml.file("a.yaml.memory", '{"name": "nig')
    assert "--fresh" in ml.error("adapter", "run", path, exit_code=2)
    elsewhere = str(ml.folder / "elsewhere")
    ml.text("adapter", "run", path, "--for", "200ms", "--memory", elsewhere)
    assert Path(damaged).read_text() == '{"name": "nig'
    ml.text("adapter", "run", path, "--for", "200ms", "--fresh")
    assert json.loads(Path(damaged).read_text())["name"] == "nights"
    changed = json.loads(Path(damaged).read_text()) | {"app": {"other": 1}}
    Path(damaged).write_text(json.dumps(changed))
    assert "does not fit it any more" in ml.error("adapter", "run", path, exit_code=2)


def test_the_wrong_token(ml: Desk, operator: Desk) -> None:
    """An adapter is a tenant's, a map the operator's."""
    path = ml.file("a.yaml", SPOT)
    assert "trades for a tenant" in operator.error("adapter", "run", path, exit_code=2)
    path = ml.file("m.yaml", PLAIN_MAP)
    assert "set by the operator" in ml.error("inframap", "run", path, exit_code=2)
    ml.environment["LAISSEZ_TOKEN"] = "lz_unknown"
    ml.error("inframap", "run", path, exit_code=5)


def test_nobody_there(ml: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start, an exchange that can't be reached is said at once, with its exit code."""
    monkeypatch.setattr(running_commands, "PATIENCE_S", 0.2)
    ml.environment["LAISSEZ_URL"] = "http://127.0.0.1:1"
    ml.error("adapter", "run", ml.file("a.yaml", SPOT), exit_code=4)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_it_tidily(ml: Desk, number: signal.Signals) -> None:
    """Ctrl-C and SIGTERM end it with 0, no order left and a last word."""
    text = SPOT.replace("limit: 3.00", "limit: 1.00")
    with ml.running("adapter", "run", ml.file("a.yaml", text), "--json") as running:
        running.until("place")
        while not ml.lines("orders")[0]:
            time.sleep(0.01)
        said = running.end(number)
    assert said[-1]["what"] == "ends"
    assert ml.lines("orders") == [[]]


def test_a_file_is_run_once_at_a_time(ml: Desk) -> None:
    """A second run of it is refused while the first one runs; a rehearsal is not, nor is one with
    another memory, nor one after it."""
    path = ml.file("a.yaml", SPOT)
    with ml.running("adapter", "run", path, "--json") as running:
        running.until("won")
        said = ml.error("adapter", "run", path, "--for", "100ms", exit_code=2)
        assert f"an adapter with the memory {path}.memory is running already; stop it" in said
        ml.text("adapter", "run", path, "--dry-run")
        elsewhere = str(ml.folder / "elsewhere")
        ml.text("adapter", "run", path, "--for", "100ms", "--memory", elsewhere)
        running.end()
    ml.text("adapter", "run", path, "--for", "100ms")


def test_a_reader_that_goes_away_stops_it(ml: Desk) -> None:
    """When nobody reads the log any more it takes back its orders and ends."""
    text = SPOT.replace("limit: 3.00", "limit: 1.00")
    client = Client(ml.environment["LAISSEZ_URL"], ml.environment["LAISSEZ_TOKEN"])
    with client, ml.running("adapter", "run", ml.file("a.yaml", text)) as running:
        running.out.readline()
        running.out.close()
        while running.process.poll() is None:
            for order in client.orders():  # so that it has something to say
                with contextlib.suppress(Refusal):  # it may be gone by now
                    client.cancel(order.order)
            time.sleep(0.05)
        assert running.process.returncode == 141, running.error.read()
    assert ml.lines("orders") == [[]]


def test_a_map_steers_until_it_is_stopped(operator: Desk) -> None:
    """Floors are set and stay; with `--restore` they are the base prices in the end."""
    path = operator.file("m.yaml", PLAIN_MAP)
    would = operator.text("inframap", "run", path, "--dry-run")
    assert "would set the floor of h100 to $2.50/h: base 2.50" in would
    said = operator.lines("inframap", "run", path, "--for", "300ms")
    assert [line["what"] for line in said] == ["begins", "floor", "ends"]
    assert said[1]["floor_micros_per_hour"] == 2_500_000
    operator.text("floor", "set", "h100/r1", "4.00")
    said = operator.lines("inframap", "run", path, "--for", "300ms", "--restore")
    assert said[-1]["why"] == "the floors are back at the base prices"
