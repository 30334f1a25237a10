"""The command line against the real service, from login to bill."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from laissez.cli.main import cli
from serving import Served, served

CLUSTER = str(Path(__file__).parents[1] / "examples" / "cluster.yaml")


class Desk:
    """Somebody at a terminal of its own, logged in or not."""

    def __init__(self, service: Served, folder: Path, name: str) -> None:
        self.url = service.url
        self.environment = {"LAISSEZ_CONFIG": str(folder / f"{name}.json")}

    def login(self, secret: str) -> None:
        self.run("login", self.url, "--token-stdin", typed=f"{secret}\n")

    def run(self, *words: str, exit_code: int = 0, typed: str = "") -> str:
        result = CliRunner(env=self.environment).invoke(
            cli, words, input=typed, catch_exceptions=False
        )
        assert result.exit_code == exit_code, result.output
        return result.stdout

    def json(self, *words: str, exit_code: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", exit_code=exit_code))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "market", "operator") as running:
        yield running


@pytest.fixture
def operator(service: Served, tmp_path: Path) -> Desk:
    desk = Desk(service, tmp_path, "operator")
    desk.login(service.secrets["operator"])
    desk.run("topology", "apply", CLUSTER)
    return desk


def tenant(service: Served, operator: Desk, folder: Path, name: str) -> Desk:
    """A tenant whose token the operator has just made."""
    desk = Desk(service, folder, name)
    desk.login(operator.json("tokens", "create", "--role", "tenant", "--tenant", name)["secret"])
    return desk


def test_from_login_to_bill(service: Served, operator: Desk, tmp_path: Path) -> None:
    """A cluster is brought, bought from, looked at and drained, all by commands."""
    ml = tenant(service, operator, tmp_path, "ml")
    assert ml.json("status")["tenant"] == "ml"
    bought = ml.json("buy", "h100/us-east", "--count", "2", "--price", "3", "--limit", "3.20")
    first = bought["filled"][0]["resource"]
    assert len(bought["filled"]) == 2
    ml.run("buy", "--near", first, "--level", "host", "--limit", "3.20")
    assert len(ml.json("holdings")) == 3
    ml.run("limit", first, "2.90")
    ml.run("buy", "h100", "--price", "0.50", exit_code=3)
    assert "raise the limit" in ml.run("orders", "--why")
    ml.run("cancel", "--all")
    ml.run("release", "--all", "--yes")
    assert ml.json("bill", "--explain")["charge_micros_us_per_hour"] > 0
    assert operator.json("tenants")[0]["tenant"] == "ml"
    ml.run("buy", "h100/us-west", "--price", "3.20")
    drained = operator.json("topology", "drain", "h100/us-west", "--grace", "0s", "--yes")
    assert len(drained["withdrawn"]) == 1
    assert operator.json("topology", "show", "h100/us-west") == []
    found = json.loads(operator.run("journal", "verify", str(tmp_path / "market"), "--json"))
    assert found["sequence"] == operator.json("status")["sequence"]


def test_waiting_for_a_seller(service: Served, operator: Desk, tmp_path: Path) -> None:
    """`buy --wait` in a process of its own is filled when somebody else leaves."""
    bio, ml = (tenant(service, operator, tmp_path, name) for name in ("bio", "ml"))
    path = bio.json("buy", "a100", "--count", "16", "--limit", "9")["filled"][7]["resource"]
    waiting = start(ml, "buy", "a100", "--price", "2", "--wait", "1m", "--json")
    while not ml.json("orders"):
        time.sleep(0.02)
    bio.run("release", path)
    out, error = waiting.communicate(timeout=30)
    assert (waiting.returncode, error) == (0, "")
    assert [each["resource"] for each in json.loads(out)["filled"]] == [path]


def test_following_events(service: Served, operator: Desk, tmp_path: Path) -> None:
    """`events` prints lines as things happen, and Ctrl-C ends it quietly."""
    following = start(operator, "events", "--after", "0", "--json")
    assert following.stdout is not None
    first = json.loads(following.stdout.readline())
    assert first["sequence"] == 1 and first["type"] == "Happened"
    following.send_signal(signal.SIGINT)
    _, error = following.communicate(timeout=30)
    assert (following.returncode, error.strip()) == (130, "")


def test_a_token_that_was_revoked(service: Served, operator: Desk, tmp_path: Path) -> None:
    """Who was shown out has to log in again."""
    ml = tenant(service, operator, tmp_path, "ml")
    token = next(each["token"] for each in operator.json("tokens", "list") if each["tenant"])
    operator.run("tokens", "revoke", token)
    ml.run("status", exit_code=5)


def start(desk: Desk, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "laissez.cli.main", *words],
        env=os.environ | desk.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
