"""`laissez up`, started as a person would: the service, its first token, the sample."""

import codecs
import fcntl
import io
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from rich.console import Console, ConsoleDimensions

from faults.process import children_of, is_running
from laissez.bench.service import ServiceLoad, measure_rounds
from laissez.client import Client, Unauthenticated
from laissez.model import (
    Filled,
    FloorSet,
    Happened,
    Placed,
    Rejected,
    Resource,
    TenantSummary,
    Transferred,
)
from laissez.sample.play import sample_cluster
from laissez.sample.scene import MarketScene, sentence_of
from laissez.sample.screen import Painter
from terminal import Terminal

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


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP], ids=["killed", "terminal gone"])
def test_a_sample_leaves_no_service_behind(tmp_path: Path, number: signal.Signals) -> None:
    """Who is killed stops nothing, and neither does who goes with its terminal: the service of the
    sample notices by itself, and the next one finds the folder free."""
    command = [sys.executable, "-m", "laissez.cli.main", "up", str(tmp_path / "sample")]
    sample = subprocess.Popen(
        [*command, "--port", "0", "--sample"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with sample:
        try:
            read_until(sample.stdout, r"LAISSEZ_URL=(\S+) LAISSEZ_TOKEN=(\S+)")
            (service,) = children_of(sample.pid)
        finally:
            sample.send_signal(number)
    deadline = time.monotonic() + PATIENCE_S
    while is_running(service) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_running(service)
    with up(tmp_path / "sample", "--json") as again:
        assert again.stdout is not None and again.stdout.readline()


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
    # A machine that stood still for a moment has more due at the end of it.
    assert 0 < found["requests"] <= 2 * 200


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


def test_what_came_too_late_is_no_news() -> None:
    """A tenant that cancels an order just filled, or releases what is just lost, is refused: that
    moves nothing. Any other refusal is told."""
    for code in ("unknown_order", "not_the_holder"):
        assert sentence_of(Rejected(0, code, "it is gone")) is None
    assert sentence_of(Rejected(0, "bad_price", "no")) == "refused (bad_price): no"


# --- the screen ---------------------------------------------------------------------------------

TO_COPY = (
    "listening on http://127.0.0.1:7070; Ctrl-C stops it",
    f"  export LAISSEZ_URL=http://127.0.0.1:7070 LAISSEZ_TOKEN=lz_{'x' * 43}",
    "  .venv/bin/laissez buy h100 --limit 6.00 --wait 1m",
)


def a_scene() -> MarketScene:
    """The sample's cluster with everything held, at rates of every length, and much news."""
    scene = MarketScene()
    paths = [each.path for tree in sample_cluster().trees for each in tree.resources]
    scene.resources = tuple(
        Resource(path, ("dijkstra", "ada", None)[at % 3], 12_500_001 + at * 10_000, {})
        for at, path in enumerate(paths)
    )
    scene.tenants = tuple(
        TenantSummary(name, 1, 1, 3_600_000_000 * 1_500_000) for name in ("ada", "dijkstra")
    )
    for at in range(60):
        scene.hear(
            Happened(at, at, (Transferred(at, f"h100/east/r1/g{at}", "a", "b", "o", "outbid"),))
        )
    return scene


def painted(sizes: list[tuple[int, int]]) -> Terminal:
    """A terminal that was resized again and again, with a picture painted each time."""
    terminal = Terminal(*sizes[0])
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system="standard")
    painter = Painter(console, TO_COPY)
    for size in sizes:
        terminal.resize(*size)
        console.size = ConsoleDimensions(*size)
        for _ in range(2):
            painter.paint(a_scene())
        terminal.write(file.getvalue())
        file.seek(0)
        file.truncate()
    return terminal


@pytest.mark.parametrize("size", [(80, 24), (60, 20), (100, 40), (132, 50), (200, 30), (80, 12)])
def test_the_screen_fits_every_terminal(size: tuple[int, int]) -> None:
    """What is to be copied stands there whole; no rate is cut, and nothing scrolls away."""
    terminal = painted([size])
    shown = terminal.text()
    for line in TO_COPY:
        assert line in shown
    assert terminal.scrolled == []
    assert "…" not in shown
    if size[1] >= 20:
        for rate in range(24):
            assert f"${12.5 + rate / 100:.2f}" in shown
    if size[1] >= 24:
        assert "$1.50" in shown
        assert "h100/east/r1/g59 goes from a to b: a bid passed the holder's limit" in " ".join(
            shown.split()
        )


def test_frames_do_not_pile_up(tmp_path: Path) -> None:
    """However often a terminal is resized, it shows one picture, and what is to be copied once."""
    terminal = painted([(80, 24), (120, 40), (40, 10), (70, 50), (80, 24)])
    assert terminal.rows() == painted([(80, 24)]).rows()
    assert terminal.text().count("what just moved") == 1
    assert terminal.text().count(TO_COPY[0]) == 1


def test_what_was_scrolled_away_comes_back() -> None:
    """Whatever else writes to the terminal, the whole picture is there again some seconds later,
    and not sooner: a selection of the line to copy lasts."""
    now_s = [0.0]
    terminal, file = Terminal(80, 24), io.StringIO()
    console = Console(file=file, force_terminal=True, color_system="standard")
    console.size = ConsoleDimensions(80, 24)
    painter = Painter(console, TO_COPY, clock_s=lambda: now_s[0])

    def look() -> str:
        painter.paint(a_scene())
        terminal.write(file.getvalue())
        file.seek(0)
        file.truncate()
        return terminal.text()

    whole = look()
    terminal.write("\r\n" * 30)
    now_s[0] = 1.0
    assert TO_COPY[1] not in look()
    now_s[0] = 10.0
    assert look() == whole


def test_there_is_room_for_news() -> None:
    """On 80 by 24, names that are short leave four to a row, and more rows for what just moved."""
    scene, file = a_scene(), io.StringIO()
    scene.resources = tuple(
        Resource(each.resource, "linus", 3_200_000, {}) for each in scene.resources
    )
    console = Console(file=file, force_terminal=True, color_system="standard")
    console.size = ConsoleDimensions(80, 24)
    scene.tenants = (TenantSummary("linus", 1, 1, 0),)
    Painter(console, TO_COPY).paint(scene)
    terminal = Terminal(80, 24)
    terminal.write(file.getvalue())
    assert any(row.count("linus $3.20") == 4 for row in terminal.rows())
    assert sum(" goes from a to b" in row for row in terminal.rows()) >= 7


def set_size(terminal: int, width: int, height: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))


def read_terminal(master: int, terminal: Terminal, until: Callable[[], bool]) -> None:
    """Show what is written, until something is to be seen or the writer has ended."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    deadline = time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < deadline, terminal.text()
        if select.select([master], [], [], 0.1)[0]:
            try:
                said = os.read(master, 1 << 16)
            except OSError:  # Linux's way to say that nobody writes any more
                return
            terminal.write(decoder.decode(said))


def wait_for_typed(terminal_name: str) -> None:
    """What is typed gets to a terminal in its own time; until then, nothing can be done with it."""
    its_end = os.open(terminal_name, os.O_RDONLY | os.O_NOCTTY)
    deadline = time.monotonic() + PATIENCE_S
    while not struct.unpack("i", fcntl.ioctl(its_end, termios.FIONREAD, bytes(4)))[0]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.close(its_end)


def is_painted(terminal: Terminal) -> bool:
    """Is the picture as wide as the terminal is now?"""
    return any("what just moved" in row and len(row) == terminal.width for row in terminal.rows())


def test_the_sample_on_a_terminal(tmp_path: Path) -> None:
    """On a terminal of 80 by 24 that is resized, the sample shows one picture with a line to copy
    that works, and leaves the terminal as it was."""
    terminal = Terminal(80, 24)
    master, slave = pty.openpty()
    set_size(master, 80, 24)
    command = [sys.executable, "-m", "laissez.cli.main", "up", str(tmp_path / "sample")]
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
    service = subprocess.Popen(
        [*command, "--port", "0", "--sample", "--seed", "1"],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment | {"TERM": "xterm-256color"},
        start_new_session=True,
    )
    its_name = os.ttyname(slave)
    os.close(slave)
    try:
        read_terminal(master, terminal, lambda: "takes h100/" in terminal.text())
        assert terminal.is_other_screen
        for width, height in ((120, 40), (60, 30), (80, 24)):
            terminal.resize(width, height)
            set_size(master, width, height)
            service.send_signal(signal.SIGWINCH)
            read_terminal(master, terminal, lambda: is_painted(terminal))
        shown = terminal.text()
        assert shown.count("what just moved") == 1 == shown.count("Ctrl-C stops it")
        found = re.search(r"^  export LAISSEZ_URL=(\S+) LAISSEZ_TOKEN=(\S+)$", shown, re.MULTILINE)
        assert found is not None
        with Client(found[1], found[2]) as guest:
            assert guest.status().tenant == "guest"
        os.write(master, b"typed meanwhile\n")
        wait_for_typed(its_name)
        assert not termios.tcgetattr(master)[3] & termios.ECHO
        service.send_signal(signal.SIGINT)
        read_terminal(master, terminal, lambda: False)
        assert service.wait(PATIENCE_S) == 0
        assert "typed meanwhile" not in terminal.text()
        # Where a line of the terminal ends in what is said depends on how long the paths are.
        left = "".join(terminal.text().split())
        assert "togoonwithit" in left
        assert f"up--sample--port0{tmp_path / 'sample'}" in left
        assert not terminal.is_other_screen
    finally:
        service.kill()
        service.wait()
        os.close(master)
