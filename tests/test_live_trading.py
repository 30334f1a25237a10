"""The whole thing, as real processes: a service, three adapters, a power map, for half a minute.

Two rows of one tree, three nodes each. All three tenants sit on row 1, where it is cheaper. Then
row 1 runs short of power, and its price rises. The two that can work anywhere move to row 2; the
one that needs row 1 stays, and pays. When there is power again, the price comes home. Nothing here
waits for a fixed time: each stage begins when the one before it has come about.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from laissez.client import Client
from laissez.model import Happened, Transferred

STAGE_S = 60.0
DOLLAR = 1_000_000

POWER_CSV = """\
seconds,row_1,row_2
0,0.50,0.80
6,0.94,0.50
20,0.50,0.50
"""

POWER_MAP = """\
name: power
telemetry:
  row_1: {csv: power.csv, column: row_1}
  row_2: {csv: power.csv, column: row_2}
base: {gpu: 2.00}
cost: {gpu: 1.00}
every: 500ms
maps:
  - map: power
    rows: {gpu/r1: row_1, gpu/r2: row_2}
"""

ADAPTERS = {
    "urgent": """\
adapter: on-demand
name: urgent
scopes: [gpu/r1]
nodes: 1
limit: 20.00
period: 1s
""",
    "cheap": """\
adapter: spot
name: cheap
scopes: [gpu]
nodes: 1
limit: 3.00
period: 1s
""",
    "patient": """\
adapter: deadline
name: patient
scopes: [gpu]
work: 2h
speeds: {gpu: 1}
deadline: 24h
value: 3.00
cold_start: 1s
checkpoint_every: 2s
period: 1s
budget: {total: 50}
""",
}


class Stage:
    """The processes of one test, each with its log in a file."""

    def __init__(self, folder: Path, processes: ExitStack) -> None:
        self.folder = folder
        self._processes = processes

    def start(self, name: str, *words: str, **environment: str) -> subprocess.Popen[bytes]:
        with self.log_path(name).open("wb") as log, self.error_path(name).open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "laissez.cli.main", *words],
                env=os.environ | {"LAISSEZ_CONFIG": str(self.folder / "no-login")} | environment,
                stdout=log,
                stderr=errors,
                start_new_session=True,
            )
        self._processes.callback(_end, process)
        return process

    def log_path(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def error_path(self, name: str) -> Path:
        return self.folder / f"{name}.err"

    def log(self, name: str) -> list[dict[str, Any]]:
        """The whole lines that a process has written so far."""
        text = self.log_path(name).read_text()
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def everything(self) -> str:
        """What everybody said, for the one who has to find out what went wrong."""
        paths = sorted(self.folder.glob("*.log")) + sorted(self.folder.glob("*.err"))
        return "\n".join(f"--- {path.name}\n{path.read_text()}" for path in paths)

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        end_s = time.monotonic() + STAGE_S
        while not condition():
            assert time.monotonic() < end_s, f"it never came about that {what}\n{self.everything()}"
            time.sleep(0.1)


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait(10)


@contextmanager
def on_stage(folder: Path) -> Iterator[Stage]:
    with ExitStack() as processes:
        yield Stage(folder, processes)


def holds(operator: Client, tenant: str) -> list[str]:
    return [each.resource for each in operator.resources() if each.owner == tenant]


def rows_of(operator: Client, tenant: str) -> list[str]:
    return [path.rpartition("/")[0] for path in holds(operator, tenant)]


def handovers(operator: Client) -> list[Transferred]:
    """Every transfer since the beginning, as the operator is told of it."""
    last = operator.status().sequence
    found: list[Transferred] = []
    for said in operator.events(after=0):
        assert isinstance(said, Happened), said
        found += [event for event in said.events if isinstance(event, Transferred)]
        if said.sequence >= last:
            return found
    return found


def test_tenants_and_operator_trade_by_themselves(tmp_path: Path) -> None:
    """Prices rise on the constrained row, the flexible tenants move, the urgent one stays and
    pays, and every handover is explained in the logs."""
    with on_stage(tmp_path) as stage:
        service = stage.start("service", "up", str(tmp_path / "market"), "--port", "0", "--json")
        stage.until("the service listens", lambda: bool(stage.log("service")))
        started = stage.log("service")[0]
        with Client(started["url"], started["operator_token"]) as operator:
            _play(stage, operator, started["url"], started["operator_token"])
            _check_explained(stage, operator)
        service.terminate()
        assert service.wait(STAGE_S) == 0, stage.everything()


def _play(stage: Stage, operator: Client, url: str, operator_token: str) -> None:
    operator.set_guard("gpu", notice="4s", commit="4s")
    for row, floor in (("r1", "2.00"), ("r2", "2.333333")):
        operator.set_floor(f"gpu/{row}", floor)
        for number in range(3):
            operator.add_resource(f"gpu/{row}/g{number}")
    running = []
    for name, text in ADAPTERS.items():
        (stage.folder / f"{name}.yaml").write_text(text)
        token = operator.create_token("tenant", tenant=name).secret
        path = str(stage.folder / f"{name}.yaml")
        environment = {"LAISSEZ_URL": url, "LAISSEZ_TOKEN": token}
        running.append(stage.start(name, "adapter", "run", path, "--json", **environment))
    stage.until(
        "all sit on row 1", lambda: all(rows_of(operator, name) == ["gpu/r1"] for name in ADAPTERS)
    )

    (stage.folder / "power.csv").write_text(POWER_CSV)
    (stage.folder / "power.yaml").write_text(POWER_MAP)
    environment = {"LAISSEZ_URL": url, "LAISSEZ_TOKEN": operator_token}
    path = str(stage.folder / "power.yaml")
    power = stage.start("power", "inframap", "run", path, "--json", **environment)

    stage.until(
        "row 1 has become dear", lambda: operator.floors().floors.get("gpu/r1", 0) >= 8 * DOLLAR
    )
    stage.until(
        "the flexible ones have moved",
        lambda: all(rows_of(operator, name) == ["gpu/r2"] for name in ("cheap", "patient")),
    )
    stage.until("prices are home again", lambda: operator.floors().floors == {"gpu": 2 * DOLLAR})
    [urgent] = operator.holdings("urgent")
    assert urgent.resource.startswith("gpu/r1/") and urgent.rate == 2 * DOLLAR
    paid = operator.bill("urgent", explain=True).open_segments[urgent.resource]
    assert [(rate, cause) for _, _, rate, cause in paid] == [
        (2 * DOLLAR, "floor"),
        (8 * DOLLAR, "floor"),
        (2 * DOLLAR, "floor"),
    ]
    for name in ("cheap", "patient"):
        assert all(each.rate <= 3 * DOLLAR for each in operator.holdings(name))

    for process in (*running, power):
        process.send_signal(signal.SIGTERM)
    for process in (*running, power):
        assert process.wait(STAGE_S) == 0, stage.everything()
    assert operator.orders() == ()
    assert stage.log("power")[-1]["why"] == "the floors stay as they are"
    urgent_now = f"{urgent.resource}; now $2.00/h"
    assert urgent_now in stage.log("urgent")[-1]["why"]


def _check_explained(stage: Stage, operator: Client) -> None:
    """Each side of each transfer has its line, with the same instant and a reason."""
    logs = {name: stage.log(name) for name in ADAPTERS}
    moved = handovers(operator)
    for each in moved:
        if each.new is not None:
            [won] = _lines(logs[each.new], "won", each)
            assert won["why"] and won["order"] and won["limit_micros_per_hour"], won
        if each.old is not None:
            [lost] = _lines(logs[each.old], "lost", each)
            assert lost["why"] and lost["reason"] == each.reason, lost
    [called] = [line for line in logs["patient"] if line["what"] == "called"]
    [left] = [line for line in logs["patient"] if line["what"] == "lost"][:1]
    assert (called["resource"], left["reason"]) == (left["resource"], "relinquished")
    assert called["at_us"] < left["at_us"] < called["until_us"], "it was ready, and left"
    assert {each.old for each in moved if each.old is not None} == {"cheap", "patient"}
    raised = [line for line in stage.log("power") if line["what"] == "floor"]
    assert any(line["scope"] == "gpu/r1" and "power" in line["why"] for line in raised)


def _lines(log: list[dict[str, Any]], what: str, event: Transferred) -> list[dict[str, Any]]:
    return [
        line
        for line in log
        if (line["what"], line.get("resource"), line["at_us"]) == (what, event.resource, event.at)
    ]
