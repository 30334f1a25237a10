"""Several at once on the command line, with notice and commitment, against the real service."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from serving import Served, served
from test_cli_service import Desk, read_until, start, tenant

CLUSTER = """\
version: 1
trees:
  h100:
    floor: 2.00
    guard: {GUARD}
    levels: [zone, rack, host, gpu]
    layout:
      - zone: east
        rack: r[1-2]
        host: h[1-2]
        gpu: g[0-3]
        attributes: {address: "{host}.{rack}.example.com"}
"""
HOST = ("--count", "4", "--within", "host")
LEFT = re.compile(r"\(in 59m (\d+)s\)")
AT_A_TERMINAL = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from laissez.cli.main import main; main()"
)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "market", "operator") as running:
        yield running


class Market:
    """16 GPUs in four hosts, of an operator and two tenants."""

    def __init__(self, service: Served, folder: Path) -> None:
        self.operator = Desk(service, folder, "operator")
        self.operator.login(service.secrets["operator"])
        self._file = folder / "cluster.yaml"
        self.guard("{}")
        self.ml, self.bio = (tenant(service, self.operator, folder, name) for name in ("ml", "bio"))

    def guard(self, guard: str) -> None:
        self._file.write_text(CLUSTER.replace("{GUARD}", guard))
        self.operator.run("topology", "apply", str(self._file))


@pytest.fixture
def market(service: Served, tmp_path: Path) -> Market:
    return Market(service, tmp_path)


class AtATerminal:
    """A command that somebody looks at, in 80 columns."""

    def __init__(self, desk: Desk, *words: str) -> None:
        self._terminal, its_end = pty.openpty()
        fcntl.ioctl(its_end, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-c", AT_A_TERMINAL, *words],
            env=os.environ | desk.environment | {"TERM": "xterm"},
            stdin=its_end,
            stdout=its_end,
            stderr=its_end,
        )
        os.close(its_end)

    def read_until(self, words: str) -> str:
        return read_until(self._terminal, words)

    def press_ctrl_c(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def leave(self) -> int:
        """Read to the end; the exit code."""
        try:
            while os.read(self._terminal, 65_536):
                pass
        except OSError:  # it has ended
            pass
        os.close(self._terminal)
        return self.process.wait(timeout=30)


def refused(desk: Desk, *words: str, exit_code: int = 1, typed: str = "") -> dict[str, str]:
    """What programs are told on stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "laissez.cli.main", *words, "--json"],
        env=os.environ | desk.environment,
        input=typed,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == exit_code, done.stderr
    said: dict[str, str] = json.loads(done.stderr.splitlines()[-1])
    return said


# --- all or none --------------------------------------------------------------------------------


def test_several_are_won_at_once_in_one_host(market: Market) -> None:
    """Quote, dry run and order speak of the same; what was won is one order's, in one host."""
    ml = market.ml
    row = ml.run("quote", "h100", *HOST).splitlines()[-1]
    assert row.split("  ")[0] == "h100" and "4 in one host" in row and "$2.00/h   free now" in row
    assert "all are yours now, at up to $2.00/h each, $8.00/h together" in ml.run(
        "buy", "h100", *HOST, "--limit", "3", "--dry-run"
    )
    tried = ml.json("buy", "h100", *HOST, "--limit", "3", "--dry-run")
    assert (tried["fills_now"], tried["count"], tried["within"]) == (True, 4, 4)
    assert tried["price_micros_per_hour"] is None and ml.json("holdings") == []
    bought = ml.json("buy", "h100", *HOST, "--limit", "3")
    assert len({each["resource"] for each in bought["filled"]}) == 4
    assert len({each["resource"].rpartition("/")[0] for each in bought["filled"]}) == 1
    assert len({each["order"] for each in bought["filled"]}) == 1
    assert ml.run("buy", "h100", *HOST, "--limit", "3").endswith("4 of 4 filled\n")


def test_separately_are_single_orders(market: Market) -> None:
    """As many as there are, are filled; the rest waits, each by itself, and presses."""
    words = ("buy", "h100", "--count", "17", "--separately", "--price", "2", "--limit", "3")
    bought = market.ml.json(*words, exit_code=3)
    assert (len(bought["filled"]), len(bought["waiting"])) == (16, 1)
    assert bought["waiting"][0]["price_micros_per_hour"] == 2_000_000


def test_what_waits_says_for_what(market: Market) -> None:
    """A gang that waits is listed with its count and level, and why it waits is no riddle; its
    terms can be changed, but it has no price."""
    market.bio.run("buy", "h100", "--count", "13", "--separately", "--limit", "9")
    words = ("buy", "h100", *HOST, "--limit", "3")
    told = market.ml.run(*words, exit_code=3)
    assert "waits for all 4 in one host of h100 at one instant" in told
    (order,) = market.ml.json("orders")
    assert (order["count"], order["within"], order["price_micros_per_hour"]) == (4, 4, None)
    told = market.ml.run("orders", "--why")
    assert "4 in one host" in told and "$3.00/h" in told
    assert "it takes 4 in one host of h100 at one instant, or none" in told
    assert "ask for fewer or for a wider place" in told
    (why,) = market.ml.json("orders", "--why")
    assert why["order"] == order and why["why"] in told
    for extra in ((), ("--dry-run",)):
        no = refused(market.ml, "amend", order["order"], "--price", "3", *extra)
        assert no["code"] == "gang_has_no_price"
    told = market.ml.run("amend", order["order"], "--limit", "4", "--dry-run")
    assert told.startswith("not 4 in one host of h100 are free")
    assert "4 of h100 at once, limit $4.00/h" in market.ml.run(
        "amend", order["order"], "--limit", "4"
    )
    market.ml.run("cancel", order["order"])
    assert market.ml.json("orders") == []


def test_a_gang_that_waits_is_filled_in_one_instant(market: Market) -> None:
    """`buy --wait` ends when somebody leaves the last that is missing, and tells of all."""
    market.bio.run("buy", "h100", "--count", "16", "--separately", "--limit", "9")
    waiting = start(market.ml, "buy", "h100", *HOST, "--limit", "3", "--wait", "1m", "--json")
    while not market.ml.json("orders"):
        time.sleep(0.02)
    host = "h100/east/r2/h1"
    market.bio.run("release", *(f"{host}/g{at}" for at in range(4)))
    out, error = waiting.communicate(timeout=30)
    assert (waiting.returncode, error) == (0, "")
    won = [each["resource"] for each in json.loads(out)["filled"]]
    assert won == [f"{host}/g{at}" for at in range(4)]


def test_who_waits_for_several_sees_why_and_may_go(market: Market) -> None:
    """On a terminal a line says for what it waits; after Ctrl-C, that it waits on for all."""
    market.bio.run("buy", "h100", "--count", "16", "--separately", "--limit", "9")
    waiting = AtATerminal(market.ml, "buy", "h100", *HOST, "--limit", "3", "--wait", "10m")
    said = waiting.read_until("4 in one host: not enough yet that are free or held below $3.00/h")
    assert "of 10m: 0 of 4 filled; Ctrl-C stops waiting" in said
    waiting.press_ctrl_c()
    said = waiting.read_until("ends it")
    assert "waits for all 4 in one host of h100 at one instant" in said
    assert "the order waits on, for all 4 or none; 'laissez cancel" in said
    assert waiting.leave() == 130
    assert len(market.ml.json("orders")) == 1


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--count", "9", "--within", "rack"), "domain_too_small", "coarser level: h100, zone"),
        (
            ("--count", "2", "--within", "gpu"),
            "domain_too_small",
            ": h100, zone, rack, host",
        ),
        (("--count", "4", "--within", "hosst"), "bad_within", "did you mean host?"),
        (("--count", "2000"), "bad_count", "--separately places 2,000 single orders"),
    ],
)
def test_what_can_not_be_filled_is_refused(
    market: Market, words: tuple[str, ...], code: str, told: str
) -> None:
    """With the stable code, and what to ask for instead; nothing waits."""
    no = refused(market.ml, "buy", "h100", *words, "--limit", "3")
    assert no["code"] == code and told in no["message"]
    if code != "domain_too_small":  # a quote of what there is not is none
        no = refused(market.ml, "quote", "h100", *words)
        assert no["code"] == code
        assert refused(market.ml, "buy", "h100", *words, "--limit", "3", "--dry-run") == no
    assert market.ml.json("orders") == []


def test_a_level_above_the_scope_is_refused(market: Market) -> None:
    """Also by the dry run; the levels that are there are named."""
    words = ("buy", "h100/east/r1", "--count", "2", "--within", "zone", "--limit", "3")
    for extra in ((), ("--dry-run",)):
        no = refused(market.ml, *words, *extra)
        assert no["code"] == "bad_within" and "rack, host" in no["message"]


# --- notice and commitment ----------------------------------------------------------------------


def test_a_call_and_a_promise_are_told_to_both(market: Market) -> None:
    """The holder sees what goes, when and why; the winner what comes, and that it can't be
    cancelled any more. Who leaves earlier hands over at once."""
    market.guard("{notice: 5m, commit: 5m}")
    market.bio.run("buy", "h100", "--count", "16", "--limit", "3")
    bought = market.ml.json("buy", "h100", *HOST, "--limit", "4", exit_code=3)
    assert (bought["filled"], bought["waiting"], len(bought["promised"])) == ([], [], 4)
    order = bought["promised"][0]["order"]
    called = [each for each in market.bio.json("holdings") if each["called_until_us"]]
    host = called[0]["resource"].rpartition("/")[0]
    assert len(called) == 4 and {each["called_for"] for each in called} == {"outbid"}
    told = market.bio.run("holdings")
    assert f"{host}/g[0-3]: called, goes at " in told and "(in 4m 5" in told
    assert "an order goes past the limit; until then it costs your limit" in told
    told = market.ml.run("holdings")
    assert told.startswith("nothing is held\n")
    assert f"{host}/g[0-3]: promised to order {order} (ml): here at " in told
    assert f"{host}/g0" in market.ml.run("orders") and "no order waits" not in told
    listed = market.ml.json("orders")
    assert [each["type"] for each in listed] == ["Promise"] * 4
    for words in (("cancel", order), ("amend", order, "--limit", "9")):
        no = refused(market.ml, *words)
        assert no["code"] == "unknown_order"
        assert f"is promised: {host}/g[0-3]; 'laissez release'" in no["message"]
    for extra in ((), ("--dry-run",)):
        no = refused(market.bio, "limit", f"{host}/g0", "9", *extra)
        assert no["code"] == "already_called"
    assert "your limit, while it is called" in market.bio.run("bill", "--explain")
    market.bio.run("release", f"{host}/g0")
    assert [each["resource"] for each in market.ml.json("holdings")] == [f"{host}/g0"]


def test_waiting_goes_on_until_what_is_promised_is_here(market: Market) -> None:
    """Single orders and several: promised is not filled, and with --wait it comes by itself."""
    market.guard("{notice: 1s, commit: 1s}")
    market.bio.run("buy", "h100", "--count", "16", "--limit", "3")
    told = market.ml.run("buy", "h100", "--price", "4", exit_code=3)
    assert "0 of 1 filled; 1 promised, here by " in told
    bought = market.ml.json("buy", "h100", "--price", "4", "--wait", "20s")
    assert (len(bought["filled"]), bought["promised"], bought["unknown"]) == (1, [], [])
    waiting = AtATerminal(market.ml, "buy", "h100", *HOST, "--limit", "4", "--wait", "20s")
    waiting.read_until("4 promised, here by ")
    waiting.read_until("4 of 4 filled\r\n")
    assert waiting.leave() == 0
    assert len(market.ml.json("holdings")) == 6


def test_who_leaves_a_commitment_is_told_what_it_costs(market: Market) -> None:
    """Before it is done: it asks, or --yes; a dry run says it, too. Afterwards it costs nothing,
    and nobody is asked. Twice is refused."""
    market.guard("{commit: 1h}")
    ml = market.ml
    first, second, *_ = sorted(
        each["resource"] for each in ml.json("buy", "h100", *HOST, "--limit", "3")["filled"]
    )
    assert ": bound at $3.00/h until " in ml.run("holdings")
    told = ml.run("release", first, "--dry-run")
    assert f"{first} is bound until " in told and "at $3.00/h, at most $" in told
    tried = ml.json("release", first, "--dry-run")
    owed = tried["charge_micros_us_per_hour"] / 3_600_000_000 / 1_000_000
    assert tried["resources"] == [first] and 2.9 < owed <= 3
    assert "say --yes" in refused(ml, "release", first, exit_code=2)["message"]
    ml.run("release", first, typed="n\n", exit_code=1)
    assert len(ml.json("holdings")) == 4
    ml.run("release", first, typed="y\n")
    ml.run("release", second, "--yes")
    bill = ml.json("bill")["charge_micros_us_per_hour"] / 3_600_000_000 / 1_000_000
    assert 5.8 < bill <= 6.1
    assert refused(ml, "release", first)["code"] == "not_the_holder"
    told = ml.run("limit", ml.json("holdings")[0]["resource"], "2.50")
    assert "you are bound at $3.00/h until " in told and "then it is $2.50/h" in told
    assert "then its limit is $2.50/h, as you asked" in ml.run("holdings")
    market.guard("{notice: 0s, commit: 0s}")
    free = ml.json("buy", "h100", "--limit", "3")["filled"][0]["resource"]
    ml.run("release", free)


def test_who_gives_a_promise_back_is_asked(market: Market) -> None:
    """It costs what winning and leaving would, so it is agreed on; the holder is told that the call
    is over."""
    market.guard("{notice: 5m, commit: 5m}")
    market.bio.run("buy", "h100", "--count", "16", "--limit", "3")
    (promised,) = market.ml.json("buy", "h100", "--price", "4", exit_code=3)["promised"]
    path = promised["resource"]
    told = market.ml.run("release", path, "--dry-run")
    assert f"{path} is promised to you, not yet yours: giving that back costs" in told
    tried = market.ml.json("release", path, "--dry-run")
    assert (tried["resources"], tried["promises"]) == ([], [path])
    owed = tried["charge_micros_us_per_hour"]
    assert owed == 4_000_000 * 300_000_000
    assert "all of the commitment, 5m, at $4.00/h: $0.33" in told
    assert "say --yes" in refused(market.ml, "release", path, exit_code=2)["message"]
    assert len(market.ml.json("orders")) == 1
    told = said_beside(market.ml, "release", path, "--yes", "--json")
    assert "giving that back costs all of the commitment, 5m, at $4.00/h: $0.33" in told
    assert market.ml.json("orders") == []
    assert market.ml.json("bill")["charge_micros_us_per_hour"] == owed
    told = read_events(market.bio)
    assert f"{path} is called and goes at " in told and "in 5m: an order goes past the" in told
    assert f"{path} is no longer called: it stays (bio)" in told
    told = read_events(market.ml)
    assert f"{path} is promised to order {promised['order']}: it comes at " in told


def said_beside(desk: Desk, *words: str) -> str:
    """What a command that goes well says on stderr."""
    process = start(desk, *words)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 0, told
    return str(told)


def test_what_was_bought_together_goes_together(market: Market) -> None:
    """Buying says so, and releasing one says what else goes and what all of it costs."""
    market.guard("{commit: 1h}")
    ml = market.ml
    no = refused(ml, "buy", "h100", "--limit", "3", "--together", exit_code=2)
    assert "--together is for several" in no["message"]
    assert "the exchange releases the others" in ml.run(
        "buy", "h100", *HOST, "--limit", "3", "--together", "--dry-run"
    )
    told = ml.run("buy", "h100", *HOST, "--limit", "3", "--together")
    assert "when one of them goes, the exchange releases the others" in told
    held = ml.json("holdings")
    assert len({each["together"] for each in held}) == 1 and held[0]["together"]
    one = held[0]["resource"]
    tried = ml.json("release", one, "--dry-run")
    assert tried["resources"] == [one]
    assert sorted(tried["together"]) == sorted(each["resource"] for each in held[1:])
    assert 11.5 < tried["charge_micros_us_per_hour"] / 3_600_000_000 / 1_000_000 <= 12
    told = ml.run("release", one, "--dry-run")
    assert "go with it: all of that was won to be kept together" in told
    assert "give back 4 resources?" in refused(ml, "release", one, exit_code=2)["message"]
    assert "go with it" in said_beside(ml, "release", one, "--yes")
    assert ml.json("holdings") == []


def read_events(desk: Desk) -> str:
    """All that the stream has kept, as somebody sees it who then presses Ctrl-C."""
    following = start(desk, "events", "--after", "0")
    time.sleep(1.5)
    following.send_signal(signal.SIGINT)
    return following.communicate(timeout=30)[0]


def test_who_watches_holdings_sees_the_time_go(market: Market) -> None:
    """On a terminal, what is left of a commitment or a notice is counted down."""
    market.guard("{commit: 1h}")
    market.ml.run("buy", "h100", "--limit", "3")
    watching = AtATerminal(market.ml, "holdings", "--watch")
    first = LEFT.search(watching.read_until("s)"))
    assert first is not None
    sooner = f"(in 59m {int(first[1]) - 2}s)"
    assert "bound at $2.00/h until " in watching.read_until(sooner)
    watching.press_ctrl_c()
    assert watching.leave() == 130


# --- the operator -------------------------------------------------------------------------------


def test_guards_have_notice_and_commitment(market: Market) -> None:
    """They are set and shown; none, or one shorter than the notice, is warned of; more than a day
    is refused."""
    operator = market.operator
    told = operator.run("guard", "set", "h100", "--notice", "60s", "--commit", "60s")
    assert told == "the guards of h100: notice 1m, commit 1m\n"
    (shown,) = operator.json("guard", "show")
    assert (shown["notice_us"], shown["commit_us"]) == (60_000_000, 60_000_000)
    assert operator.run("guard", "show").splitlines()[-1].split() == ["h100", "1m", "1m"]
    for option in ("--notice", "--commit"):
        no = refused(operator, "guard", "set", "h100", option, "2d", exit_code=2)
        assert no["code"] == "usage" and "is a day at most, not 2d" in no["message"]
    for words, warned in (
        (("--notice", "60s", "--commit", "30s"), "the commitment, 30s, is shorter than the notice"),
        (("--notice", "60s", "--commit", "off"), "laissez: h100 has no commitment"),
        (("--notice", "60s", "--commit", "60s"), ""),
        (("--hold", "2s"), ""),
    ):
        setting = start(operator, "guard", "set", "h100", *words)
        _, error = setting.communicate(timeout=30)
        assert setting.returncode == 0 and warned in error and bool(error) == bool(warned)


def test_a_drain_is_told_and_goes_on_alone(market: Market) -> None:
    """Its holders see the deadline; who stops waiting leaves it to the exchange; what it took comes
    back with uncordon."""
    held = market.ml.json("buy", "h100", *HOST, "--limit", "3")["filled"]
    host = held[0]["resource"].rpartition("/")[0]
    draining = start(market.operator, "topology", "drain", host, "--grace", "4s", "--yes")
    while not (called := [each["called_for"] for each in market.ml.json("holdings")]).count(
        "withdrawn"
    ):
        time.sleep(0.02)
    assert called == ["withdrawn"] * 4
    told = market.ml.run("holdings")
    assert f"{host}/g[0-3]: called, goes at " in told
    assert "the operator takes it out of the market; save your work" in told
    draining.send_signal(signal.SIGINT)
    _, error = draining.communicate(timeout=30)
    assert draining.returncode == 130 and "the drain goes on without you" in error
    market.ml.run("release", f"{host}/g0", "--yes")
    until = time.monotonic() + 20
    while market.ml.json("holdings"):
        assert time.monotonic() < until
        time.sleep(0.1)
    assert len(market.operator.json("topology", "uncordon", host)["back"]) == 4


def test_a_drain_says_who_left_in_time_and_ends_when_called_off(market: Market) -> None:
    """What left before the deadline is told apart from what was taken; uncordon ends the wait."""
    held = market.ml.json("buy", "h100", *HOST, "--limit", "3")["filled"]
    host = held[0]["resource"].rpartition("/")[0]
    draining = start(market.operator, "topology", "drain", host, "--grace", "5s", "--yes", "--json")
    while not market.ml.json("holdings")[0]["called_until_us"]:
        time.sleep(0.02)
    market.ml.run("release", f"{host}/g2", "--yes")
    out, error = draining.communicate(timeout=30)
    drained = json.loads(out)
    assert (draining.returncode, error, drained["left"]) == (0, "", [f"{host}/g2"])
    assert drained["withdrawn"] == [f"{host}/g{at}" for at in (0, 1, 3)]
    market.operator.run("topology", "uncordon", host)
    market.ml.run("buy", host, "--count", "4", "--limit", "3")
    draining = start(market.operator, "topology", "drain", host, "--grace", "10m", "--yes")
    while not market.ml.json("holdings")[0]["called_until_us"]:
        time.sleep(0.02)
    market.operator.run("topology", "uncordon", host)
    out, _ = draining.communicate(timeout=30)
    assert "of 4 held, 0 left in time, 0 withdrawn\nthe drain was called off" in out
    assert not any(each["called_until_us"] for each in market.ml.json("holdings"))


def test_apply_warns_of_a_tree_without_a_commitment(market: Market, tmp_path: Path) -> None:
    """Also beforehand; a new tree that sets no guard gets one from the exchange."""
    file = tmp_path / "more.yaml"
    for guard, is_warned in (("{notice: 30s, commit: 0s}", True), ("{commit: 30s}", False)):
        file.write_text(CLUSTER.replace("h100", "b200").replace("{GUARD}", guard))
        for extra in (("--dry-run",), ()):
            applying = start(market.operator, "topology", "apply", str(file), *extra)
            _, error = applying.communicate(timeout=30)
            assert ("laissez: b200 has no commitment" in error) == is_warned
