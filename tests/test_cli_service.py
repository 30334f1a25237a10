"""The command line against the real service, from login to bill."""

import fcntl
import json
import os
import pty
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from laissez.cli.main import cli
from laissez.cli.operator import draining
from laissez.client import Client
from laissez.exchange.access import Limits
from laissez.exchange.pipeline import Settings
from laissez.service.following import Following
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
    bought = ml.json(
        "buy", "h100/us-east", "--count", "2", "--separately", "--price", "3", "--limit", "3.20"
    )
    first = bought["filled"][0]["resource"]
    assert len(bought["filled"]) == 2
    ml.run("buy", "--near", first, "--level", "host", "--limit", "3.20")
    assert len(ml.json("holdings")) == 3
    ml.run("limit", first, "2.90")
    ml.run("buy", "h100", "--price", "0.50", exit_code=3)
    assert "raise the limit" in ml.run("orders", "--why")
    ml.run("cancel", "--all", "--yes")
    ml.run("release", "--all", "--yes")
    assert ml.json("bill", "--explain")["charge_micros_us_per_hour"] > 0
    assert operator.json("tenants")[0]["tenant"] == "ml"
    ml.run("buy", "h100/us-west", "--price", "3.20")
    drained = operator.json("topology", "drain", "h100/us-west", "--grace", "0s", "--yes")
    assert len(drained["withdrawn"]) == 1
    left = operator.json("topology", "show", "h100/us-west")
    assert (left["resources"], left["cordons"]) == ([], ["h100/us-west"])
    found = json.loads(operator.run("journal", "verify", str(tmp_path / "market"), "--json"))
    assert found["sequence"] == operator.json("status")["sequence"]


def test_a_token_is_pasted_at_a_terminal(service: Served, tmp_path: Path) -> None:
    """Whoever is asked is told that nothing will be shown, and nothing is; blanks do no harm."""
    desk = Desk(service, tmp_path, "operator")
    terminal, its_end = pty.openpty()
    asked = subprocess.Popen(
        [sys.executable, "-m", "laissez.cli.main", "login", service.url],
        env=os.environ | desk.environment | {"TERM": "xterm"},
        stdin=its_end,
        stdout=its_end,
        stderr=its_end,
        start_new_session=True,
    )
    os.close(its_end)
    secret = service.secrets["operator"]
    said = read_until(terminal, "press Enter): ")
    assert "not shown" in said
    os.write(terminal, f"  {secret} \n".encode())
    said = read_until(terminal, "as the operator")
    assert secret not in said and secret[:10] not in said
    assert asked.wait(timeout=30) == 0
    os.close(terminal)
    assert desk.json("status")["role"] == "operator"


def test_waiting_for_a_seller(service: Served, operator: Desk, tmp_path: Path) -> None:
    """`buy --wait` in a process of its own is filled when somebody else leaves."""
    bio, ml = (tenant(service, operator, tmp_path, name) for name in ("bio", "ml"))
    path = bio.json("buy", "a100", "--count", "16", "--separately", "--limit", "9")["filled"][7][
        "resource"
    ]
    waiting = start(ml, "buy", "a100", "--price", "2", "--wait", "1m", "--json")
    while not ml.json("orders"):
        time.sleep(0.02)
    bio.run("release", path)
    out, error = waiting.communicate(timeout=30)
    assert (waiting.returncode, error) == (0, "")
    assert [each["resource"] for each in json.loads(out)["filled"]] == [path]


def test_a_person_who_waits_sees_why_and_may_go(
    service: Served, operator: Desk, tmp_path: Path
) -> None:
    """On a terminal a line says how long and why, in 80 columns; after Ctrl-C the order is there,
    and the way to end it is told."""
    ml = tenant(service, operator, tmp_path, "ml")
    terminal, its_end = pty.openpty()
    fcntl.ioctl(its_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    words = ("buy", "h100/us-east", "--price", "1", "--limit", "1.50", "--wait", "10m")
    # Whoever starts the tests may ignore Ctrl-C; a person at a terminal doesn't.
    start = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from laissez.cli.main import main; main()"
    )
    waiting = subprocess.Popen(
        [sys.executable, "-c", start, *words],
        env=os.environ | ml.environment | {"TERM": "xterm"},
        stdin=its_end,
        stdout=its_end,
        stderr=its_end,
    )
    os.close(its_end)
    said = read_until(terminal, "above your limit of $1.50/h")
    assert "of 10m: 0 of 1 filled; Ctrl-C stops waiting" in said
    waiting.send_signal(signal.SIGINT)
    assert "the order lives on; 'laissez cancel" in read_until(terminal, "ends it")
    assert waiting.wait(timeout=30) == 130
    os.close(terminal)
    assert len(ml.json("orders")) == 1


def read_until(terminal: int, words: str) -> str:
    said = ""
    until = time.monotonic() + 30
    while words not in said:
        assert time.monotonic() < until, said
        if select.select([terminal], [], [], 1)[0]:
            said += os.read(terminal, 65_536).decode(errors="replace")
    return said


def test_more_orders_than_the_allowance(tmp_path: Path) -> None:
    """One tenant orders and cancels more than it may send at once, and nothing is refused."""
    limits = Limits(requests_per_s=400, burst=200, connections=10)
    settings = Settings(limits)
    with served(tmp_path / "market", "operator", "ml", settings=settings) as service:
        operator, ml = Desk(service, tmp_path, "operator"), Desk(service, tmp_path, "ml")
        operator.login(service.secrets["operator"])
        ml.login(service.secrets["ml"])
        operator.run("topology", "apply", CLUSTER)
        bought = ml.json(
            "buy", "h100", "--count", "700", "--separately", "--price", "0.01", exit_code=3
        )
        assert len(bought["waiting"]) == 700 and bought["refused"] == []
        assert ml.run("cancel", "--all", "--yes").endswith("700 of 700 done\n")
        assert ml.json("orders") == []


def test_an_interruption_says_exactly_what_lives_on(tmp_path: Path) -> None:
    """After Ctrl-C in the middle of many orders: those that are in the market, and no others."""
    settings = Settings(Limits(requests_per_s=100, burst=100, connections=10))
    with served(tmp_path / "market", "operator", "ml", settings=settings) as service:
        operator, ml = Desk(service, tmp_path, "operator"), Desk(service, tmp_path, "ml")
        operator.login(service.secrets["operator"])
        ml.login(service.secrets["ml"])
        operator.run("topology", "apply", CLUSTER)
        buying = start(ml, "buy", "h100", "--count", "5000", "--separately", "--price", "0.01")

        def waiting() -> int:
            return service.call(lambda exchange: exchange.execution.sequence)

        before = waiting()
        while waiting() < before + 150:
            assert buying.poll() is None
            time.sleep(0.02)
        buying.send_signal(signal.SIGINT)
        out, error = buying.communicate(timeout=30)
        orders = len(ml.json("orders"))
        assert buying.returncode == 130 and 0 < orders < 5_000
        assert f"0 of 5,000 filled; {orders:,} wait" in out
        assert f"stopped with {5_000 - orders:,} orders left\n" in error
        assert "'laissez cancel --all' ends them" in error


def test_who_revokes_its_own_token_is_told(service: Served, operator: Desk) -> None:
    """The last operator's token, too, once that is agreed to: done, and no error."""
    (own,) = operator.json("tokens", "list")
    operator.run("tokens", "revoke", own["token"], exit_code=2)
    told = operator.run("tokens", "revoke", own["token"], "--yes")
    assert "is revoked" in told and "log in with another" in told
    operator.run("status", exit_code=5)


def test_what_was_withdrawn_by_name_is_remembered(
    service: Served, operator: Desk, tmp_path: Path
) -> None:
    """Uncordon brings back what a drain took, and reads on the operator's stream what was withdrawn
    by name."""
    ml = tenant(service, operator, tmp_path, "ml")
    ml.run("buy", "h100/us-west", "--price", "3.20")
    operator.run("topology", "drain", "h100/us-west", "--grace", "0s", "--yes")
    done = operator.json("topology", "uncordon", "h100/us-west")
    assert (len(done["back"]), done["withdrawn"], done["is_complete"]) == (16, [], True)
    held = ml.json("buy", "h100/us-west", "--price", "3.20")["filled"][0]["resource"]
    withdraw_by_name(service, "h100/us-west", held)
    done = operator.json("topology", "uncordon", "h100/us-west")
    assert (len(done["back"]), done["withdrawn"], done["is_complete"]) == (15, [held], True)


def withdraw_by_name(service: Served, scope: str, resource: str) -> None:
    with Client(service.url, service.secrets["operator"]) as client:
        client.cordon(scope)
        client.withdraw(resource)


def test_what_leaves_at_the_last_moment_of_a_drain_has_left(
    service: Served, operator: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is released between the last look and the withdrawal is not there to be withdrawn: it
    left in time, and nothing is refused."""
    ml = tenant(service, operator, tmp_path, "ml")
    filled = ml.json("buy", "h100/us-west", "--count", "2", "--separately", "--price", "3.20")[
        "filled"
    ]
    first, second = sorted(each["resource"] for each in filled)
    secret = operator.json("tokens", "create", "--role", "tenant", "--tenant", "ml")["secret"]
    look = draining._held

    def look_and_leave(client: Client, scope: str) -> tuple[str, ...]:
        seen = look(client, scope)
        with Client(service.url, secret) as own:
            own.release(first)
        return seen

    monkeypatch.setattr(draining, "_held", look_and_leave)
    drained = operator.json("topology", "drain", "h100/us-west", "--grace", "0s", "--yes")
    assert (drained["left"], drained["withdrawn"]) == ([first], [second])
    assert drained["refused"] == []


def test_uncordon_reads_the_past_to_its_end(
    service: Served, operator: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the service stops for longer than a second in the middle of it: what was withdrawn
    is told nevertheless."""
    ml = tenant(service, operator, tmp_path, "ml")
    held = ml.json("buy", "h100/us-west", "--price", "3.20")["filled"][0]["resource"]
    withdraw_by_name(service, "h100/us-west", held)
    send_piece = Following.send_piece
    goes_on_at: list[float] = []

    def stop_at_the_first(stream: Following) -> None:
        if not goes_on_at:
            goes_on_at.append(time.monotonic() + 1.3)
            stream._speaker.take_turn_soon()
        elif time.monotonic() >= goes_on_at[0]:
            send_piece(stream)

    monkeypatch.setattr(Following, "send_piece", stop_at_the_first)
    done = operator.json("topology", "uncordon", "h100/us-west")
    assert (done["withdrawn"], done["is_complete"]) == ([held], True)


def test_completion_does_not_wait_for_ever(tmp_path: Path) -> None:
    """Somebody who takes the connection and says nothing is given up on, without a word."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        login = {
            "LAISSEZ_URL": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "LAISSEZ_TOKEN": "lz_secret",
            "_LAISSEZ_COMPLETE": "zsh_complete",
            "COMP_WORDS": "laissez quote h",
            "COMP_CWORD": "2",
        }
        done = subprocess.run(
            [sys.executable, "-m", "laissez.cli.main"],
            env=os.environ | login,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    assert (done.stdout.strip(), done.stderr) == ("", "")


@pytest.mark.parametrize(
    ("options", "exit_code", "code"),
    [((), 7, "folder_in_use"), (("--port", "99999"), 2, "usage")],
    ids=["in use", "no port"],
)
def test_a_start_that_can_not_be(
    service: Served, tmp_path: Path, options: tuple[str, ...], exit_code: int, code: str
) -> None:
    """A folder on which a service runs is no unsound journal; a port has 16 bits."""
    words = ("up", str(tmp_path / "market"), "--port", "0", *options, "--json")
    done = subprocess.run(
        [sys.executable, "-m", "laissez.cli.main", *words],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == exit_code, done.stderr
    assert json.loads(done.stderr)["code"] == code


def test_following_events(service: Served, operator: Desk, tmp_path: Path) -> None:
    """`events` prints lines as things happen, and Ctrl-C ends it quietly."""
    following = start(operator, "events", "--after", "0", "--json")
    assert following.stdout is not None
    first = json.loads(following.stdout.readline())
    assert first["sequence"] >= 1 and first["type"] == "Happened"
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
