"""`laissez up`, started as a person would: the service, its first token, the sample."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from rich.console import Console

from laissez.bench.service import ServiceLoad, measure_rounds
from laissez.client import Client, Unauthenticated
from laissez.model import Filled, FloorSet, Happened, Placed, Resource, TenantSummary, Transferred
from laissez.sample.play import sample_cluster
from laissez.sample.scene import Scene, sentence_of
from laissez.sample.screen import screen

PATIENCE_S = 60


@contextmanager
def up(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A service that is stopped with Ctrl-C, and must then end well."""
    service = subprocess.Popen(
        [sys.executable, "-m", "laissez.cli.main", "up", str(folder), "--port", "0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"COLUMNS": "200"},
    )
    try:
        yield service
        service.send_signal(signal.SIGINT)
        _, said = service.communicate(timeout=PATIENCE_S)
        assert service.returncode == 0, said
        assert "Traceback" not in said
    finally:
        service.kill()
        service.wait()


def read_until(output: IO[str] | None, pattern: str) -> re.Match[str]:
    assert output is not None
    for line in output:
        found = re.search(pattern, line)
        if found:
            return found
    raise AssertionError(f"the output ended without {pattern}")


def test_the_first_start_shows_a_token_once(tmp_path: Path) -> None:
    """The operator's token works, is not shown again, and another is made only on request."""
    tokens = []
    for options in ((), (), ("--new-operator-token",)):
        with up(tmp_path / "data", "--json", *options) as service:
            assert service.stdout is not None
            started = json.loads(service.stdout.readline())
            tokens.append(started.get("operator_token"))
            if tokens[-1] is not None:
                with Client(started["url"], tokens[-1]) as operator:
                    assert operator.status().role == "operator"
    assert tokens[0] is not None
    assert tokens[1] is None
    assert tokens[2] not in (None, tokens[0])


def test_a_start_that_fails_swallows_no_token(tmp_path: Path) -> None:
    """Where the service can't listen, the next start still shows the first token."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "laissez.cli.main", "up", str(tmp_path / "data")]
        done = subprocess.run(
            [*command, "--port", port],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert done.returncode == 2
    assert "choose another port" in done.stderr
    with up(tmp_path / "data", "--json") as service:
        assert service.stdout is not None
        assert "operator_token" in json.loads(service.stdout.readline())


def test_the_sample_trades_and_takes_a_guest(tmp_path: Path) -> None:
    """With what the sample prints, a newcomer holds a GPU; the tenants trade all by themselves."""
    with up(tmp_path / "sample", "--sample", "--seed", "1") as service:
        found = read_until(service.stdout, r"LAISSEZ_URL=(\S+) LAISSEZ_TOKEN=(\S+)")
        read_until(service.stdout, r"takes h100/")
        with Client(found[1], found[2]) as guest:
            answer = guest.place("h100", price="7.00", limit="7.00")
            assert any(isinstance(event, Filled) for event in answer.events)
            (held,) = guest.holdings()
            assert held.limit == 7_000_000
            assert "address" in held.attributes


def test_the_tokens_of_an_earlier_sample_are_dead(tmp_path: Path) -> None:
    """Each start of the sample makes its own tokens and ends those of the last."""
    tokens = []
    for _ in range(2):
        with up(tmp_path / "sample", "--sample") as service:
            found = read_until(service.stdout, r"LAISSEZ_URL=(\S+) LAISSEZ_TOKEN=(\S+)")
            tokens.append(found[2])
            if len(tokens) == 2:
                with Client(found[1], tokens[0]) as late, pytest.raises(Unauthenticated):
                    late.status()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--sample", "--json"], "leave the other options out"),
        (["--host", "0.0.0.0"], "tokens would cross the network in the clear"),
        (["--tls-key", "key.pem"], "needs both a certificate and a key"),
    ],
)
def test_what_is_not_safe_is_refused(tmp_path: Path, options: list[str], sentence: str) -> None:
    """A sentence says what to change, and nothing is started."""
    done = subprocess.run(
        [sys.executable, "-m", "laissez.cli.main", "up", str(tmp_path / "data"), *options],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 2
    assert sentence in " ".join(done.stderr.split())
    assert not (tmp_path / "data").exists()


def test_a_load_is_measured() -> None:
    """The load is answered, accepted, and found in the journal, with the figures people ask for."""
    found = measure_rounds(
        ServiceLoad(connections=4, under_way=8, seconds=0.5, warm_up_s=0.2),
        1,
        lambda sentence: None,
    ).document()
    assert found["durable"] is True
    assert found["unanswered"] == 0
    assert found["accepted"] > 0.9
    assert found["requests_per_s"] > 0
    assert 0 < found["p50_ms"] <= found["p99_ms"] <= found["max_ms"]


def test_a_load_at_a_rate_is_measured() -> None:
    """At a fixed rate, never more is sent than was due, and all of it is answered."""
    load = ServiceLoad(connections=4, requests_per_s=200, seconds=1, warm_up_s=0.2)
    found = measure_rounds(load, 1, lambda sentence: None).document()
    assert found["durable"] is True
    assert found["unanswered"] == 0
    assert 0 < found["requests"] <= 200


def test_the_sample_cluster_is_sound() -> None:
    """The packaged file is read, and fits on a screen."""
    cluster = sample_cluster()
    assert [tree.name for tree in cluster.trees] == ["h100", "a100"]
    assert sum(len(tree.resources) for tree in cluster.trees) == 24


def test_every_move_has_its_sentence() -> None:
    """What moved and why is said in one line; what moves nothing is not news."""
    assert sentence_of(Transferred(0, "g", None, "ada", "o", "idle")) == "ada takes g: it was free"
    assert sentence_of(Transferred(0, "g", "ada", None, None, "floor")) == (
        "ada leaves g: the floor passed the holder's limit"
    )
    assert sentence_of(Transferred(0, "g", "ada", "bob", "o", "outbid")) == (
        "g goes from ada to bob: a bid passed the holder's limit"
    )
    assert sentence_of(Transferred(0, "g", "ada", "ada", "o", "outbid")) == (
        "ada keeps g with a new limit"
    )
    assert sentence_of(FloorSet(0, "h100", 2_000_000, 2_000_000)) == "the floor of h100 is $2.00/h"
    assert sentence_of(Placed(0, "ada", "o", "h100", 1, 1, None)) is None


def test_the_screen_shows_who_holds_what() -> None:
    """Holders, rates, tenants and news are all on it."""
    scene = Scene()
    scene.resources = (
        Resource("h100/east/g0", "ada", 2_500_000, {}),
        Resource("h100/east/g1", None, 2_000_000, {}),
    )
    scene.tenants = (TenantSummary("ada", 1, 1, 3_600_000_000 * 1_500_000),)
    scene.hear(Happened(1, 0, (Transferred(0, "h100/east/g0", None, "ada", "o", "idle"),)))
    console = Console(width=100, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(screen(scene, ["directions"], 40))
    shown = console.export_text()
    console.file.close()
    for expected in ("directions", "ada", "$2.50/h", "free", "$2.00/h", "$1.50", "takes"):
        assert expected in shown
