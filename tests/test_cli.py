"""The command line says what the library does, in both forms, and ends with the right code.

Commands run in this process against `counter.Counter`, which answers as an exchange does.
"""

import inspect
import json
from pathlib import Path

import pytest

from counter import NOON_US, CounterClient
from laissez.cli.terminal import amounts, listening, output
from laissez.cli.terminal.exits import MEANINGS
from laissez.client import Client
from laissez.client.errors import BadAddress, ConnectionFailed, LoginNeeded, Refusal
from laissez.client.login import read_login
from laissez.model import (
    Answer,
    CancelOrder,
    ChangeGuard,
    OfferResource,
    PlaceOrder,
    Quote,
    Quotes,
    Rates,
    Release,
    Resync,
)
from shop import Shop

REPO = Path(__file__).parents[1]
CLUSTER = str(REPO / "examples" / "cluster.yaml")
MINUTE_US = 60_000_000


# --- the service --------------------------------------------------------------------------------


def test_login_tries_the_token_and_keeps_it(shop: Shop, tmp_path: Path) -> None:
    """The token is asked for without being shown, tried, and kept where only its owner reads."""
    result = shop.run("login", "http://127.0.0.1:7070", typed="lz_abc\n")
    assert result.exit_code == 0
    assert "logged in to http://127.0.0.1:7070 as tenant ml" in result.stdout
    assert "lz_abc" not in result.output
    assert shop.asked == [("http://127.0.0.1:7070", "lz_abc")]
    saved = read_login()
    assert saved is not None and saved.token == "lz_abc"
    assert (tmp_path / "login.json").stat().st_mode & 0o777 == 0o600


def test_login_reads_the_token_from_stdin(shop: Shop) -> None:
    """With --token-stdin nobody is asked, and a program learns who it is."""
    result = shop.run("login", "http://localhost:1", "--token-stdin", "--json", typed="lz_abc\n")
    assert json.loads(result.stdout) == {
        "type": "LoggedIn",
        "url": "http://localhost:1",
        "role": "tenant",
        "tenant": "ml",
    }
    assert result.stderr == ""


def test_a_token_that_is_not_known_is_not_kept(shop: Shop) -> None:
    """A login that fails leaves nothing behind."""

    def refuse() -> object:
        raise Refusal("unauthenticated", "this token is unknown; ask the operator for a new one")

    shop.connect_to(refuse)
    told = shop.error("login", "http://localhost:1", "--token-stdin", exit_code=5, typed="lz_abc\n")
    assert "the service does not know this token" in told and "in one piece" in told
    assert read_login() is None


@pytest.mark.parametrize(
    ("typed", "exit_code", "sentence"),
    [
        ("  lz_abc \t\r\n", 0, "logged in"),
        ("\n\nlz_abc\nnot a token\n", 0, "logged in"),
        ("lz_a bc\n", 5, "characters that no token has; copy it once more"),
        ("lz_a\u200bbc\n", 5, "characters that no token has; copy it once more"),
        ("", 2, "there was no token on stdin"),
        (" \n", 2, "there was no token on stdin"),
    ],
    ids=["blanks around", "lines around", "a blank within", "an unseen sign", "nothing", "a line"],
)
@pytest.mark.parametrize("option", [(), ("--token-stdin",)], ids=["asked", "by option"])
def test_a_token_as_it_is_pasted(
    shop: Shop, option: tuple[str, ...], typed: str, exit_code: int, sentence: str
) -> None:
    """What comes along when a token is copied does no harm, and what breaks it is said. Without a
    terminal it is read from stdin, without a word that is not ours."""
    result = shop.run("login", "http://localhost:1", *option, typed=typed)
    assert result.exit_code == exit_code and sentence in result.output
    assert "Warning" not in result.output and "Token" not in result.output
    saved = read_login()
    assert (saved.token if saved else None) == ("lz_abc" if exit_code == 0 else None)


@pytest.mark.parametrize("url", ["market.example.com", "ftp://market.example.com", "http://"])
def test_login_refuses_what_is_no_address(shop: Shop, url: str) -> None:
    """A wrong address is refused before a token is asked for."""
    assert "is no address" in shop.error("login", url, exit_code=2)
    assert shop.asked == []


def test_login_warns_of_a_readable_token(shop: Shop) -> None:
    """Over plain http to another machine, somebody could listen."""
    result = shop.run("login", "http://market.example.com", "--token-stdin", typed="lz_abc\n")
    assert result.exit_code == 0 and "can read the token" in result.stderr


def test_logout_forgets(shop: Shop) -> None:
    """After logging out there is no login any more."""
    shop.run("login", "http://localhost:1", "--token-stdin", typed="lz_abc\n")
    assert shop.text("logout") == "logged out\n"
    assert read_login() is None
    assert shop.text("logout") == "you were not logged in\n"
    assert shop.json("logout") == {"type": "LoggedOut", "forgotten": False}


def test_status(shop: Shop) -> None:
    """Who one is, and where the market is."""
    told = shop.text("status")
    assert "tenant ml" in told and "h100" in told
    assert shop.json("status")["at_us"] == NOON_US
    shop.become("operator")
    assert "the operator" in shop.text("status")


# --- buying -------------------------------------------------------------------------------------


def test_quote(shop: Shop) -> None:
    """A quote says the rate, and whether something is free."""
    assert "$2.00/h   free now" in shop.text("quote", "h100")
    (quoted,) = shop.json("quote", "h100")
    assert (quoted["rate_micros_per_hour"], quoted["idle"]) == (2_000_000, True)


def test_a_quote_that_one_may_not_see_is_refused(shop: Shop) -> None:
    """A refusal of the service is one sentence, and exit code 1."""
    told = shop.error("quote", "h100/east/r1", exit_code=1)
    assert told.startswith("laissez: ") and told.count("\n") == 1


def test_buy_fills(shop: Shop) -> None:
    """What was won is shown with its rate; the code says that all is well."""
    told = shop.text("buy", "h100", "--count", "2", "--limit", "$3.20")
    assert "h100/east/r1/g0" in told and "h100/east/r1/g1" in told
    assert "$2.00/h   $3.20/h" in told
    assert told.endswith("2 of 2 filled\n")


def test_buy_says_what_waits(shop: Shop) -> None:
    """A partial fill is told plainly, and exit code 3 says it to programs."""
    told = shop.text(
        "buy", "h100", "--count", "4", "--separately", "--price", "3", "--limit", "3.2", exit_code=3
    )
    assert told.endswith("3 of 4 filled; 1 waits: o-8\n")
    bought = shop.json("buy", "h100", "--price", "3", exit_code=3)
    assert bought["wanted"] == 1 and bought["filled"] == [] and bought["refused"] == []
    assert bought["waiting"][0]["price_micros_per_hour"] == 3_000_000


def test_buy_waits_until_filled(shop: Shop) -> None:
    """With --wait, an order that is filled meanwhile counts, and what it won is told."""
    for _ in range(3):
        shop.rival(2_000_000, 9_000_000)
    rival = shop.counter.client("tenant", "bio")
    shop.counter.later(lambda: None, lambda: rival.do(Release("h100/east/r1/g1")))
    bought = shop.json("buy", "h100", "--price", "3", "--wait", "30s")
    assert [each["resource"] for each in bought["filled"]] == ["h100/east/r1/g1"]


def test_buy_stops_waiting(shop: Shop) -> None:
    """When the wait is over the order still waits, and the command says so."""
    for _ in range(3):
        shop.rival(2_000_000, 9_000_000)
    told = shop.text("buy", "h100", "--price", "3", "--wait", "2s", exit_code=3)
    assert told.endswith("0 of 1 filled; 1 waits: o-8\n")
    assert shop.counter.now == NOON_US + 2_000_000


def test_buy_tells_of_an_order_that_ended(shop: Shop) -> None:
    """An order that was cancelled from elsewhere is neither filled nor waiting."""
    for _ in range(3):
        shop.rival(2_000_000, 9_000_000)
    client = shop.become("tenant", "ml")
    shop.counter.later(lambda: client.do(CancelOrder("o-8")))
    told = shop.text("buy", "h100", "--price", "3", "--wait", "2s", exit_code=3)
    assert told.endswith("0 of 1 filled; 1 ended unfilled: o-8\n")


def test_buy_does_not_guess(shop: Shop) -> None:
    """What became of an order that is gone is not known when the stream no longer keeps it."""
    for _ in range(3):
        shop.rival(2_000_000, 9_000_000)
    client = shop.become("tenant", "ml")

    def cancel_unseen() -> None:
        client.do(CancelOrder("o-8"))
        shop.counter.told.clear()
        shop.counter.forgotten = shop.counter.sequence

    shop.counter.later(cancel_unseen)
    bought = shop.json("buy", "h100", "--price", "3", "--wait", "2s", exit_code=3)
    assert (bought["unknown"], bought["ended"], bought["waiting"]) == (["o-8"], [], [])


def test_buy_tells_what_it_won_when_the_service_goes_away(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that is lost after the orders were placed does not hide what they won."""

    def lose(**_: object) -> object:
        raise ConnectionFailed("nobody answers")

    client = shop.become("tenant", "ml")
    monkeypatch.setattr(client, "listen", lose)
    monkeypatch.setattr(client, "holdings", lose)
    words = ("buy", "h100", "--count", "4", "--separately", "--price", "2", "--wait", "1m")
    result = shop.run(*words)
    assert result.exit_code == 4
    # First the reason, then what follows from it.
    assert result.stderr == (
        "laissez: nobody answers\nlaissez: the order lives on; 'laissez cancel o-8' ends it\n"
    )
    assert "h100/east/r2/g0" in result.stdout and "3 of 4 filled; 1 waits: o-8" in result.stdout


def test_an_interrupted_wait_says_what_is_in_the_market(shop: Shop) -> None:
    """Ctrl-C ends the wait; the orders are there, and are told."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    for _ in range(3):
        shop.rival(2_000_000, 9_000_000)
    shop.counter.later(interrupt)
    told = shop.text("buy", "h100", "--price", "3", "--wait", "2s", exit_code=130)
    assert told.endswith("0 of 1 filled; 1 waits: o-8\n")


def test_buy_counts_what_a_later_order_set_in_motion(shop: Shop) -> None:
    """An order that is filled by the answer to a later one is filled."""
    for _ in range(3):
        shop.rival(2_000_000, 2_500_000)
    shop.rival(2_000_000, 2_500_000)
    bought = shop.json("buy", "h100", "--count", "2", "--separately", "--price", "3")
    assert len({each["resource"] for each in bought["filled"]}) == 2


def test_buy_near_a_holding(shop: Shop) -> None:
    """--near and --level name the scope around what one holds."""
    shop.text("buy", "h100/east/r1/g1", "--price", "3")
    bought = shop.json("buy", "--near", "h100/east/r1/g1", "--level", "rack", "--price", "3")
    assert bought["scope"] == "h100/east/r1"
    assert bought["filled"][0]["resource"] == "h100/east/r1/g0"
    bad = ("buy", "--near", "h100/east/r1/g1", "--level", "moon", "--price", "3")
    assert "its levels are: zone, rack, gpu" in shop.error(*bad, exit_code=2)


def test_buy_expires(shop: Shop) -> None:
    """--expires counts from now."""
    shop.text("buy", "h100", "--price", "1", "--expires", "30m", exit_code=3)
    (order,) = shop.json("orders")
    assert order["expires_us"] == NOON_US + 30 * MINUTE_US
    assert "22:43:20 (in 30m)" in shop.text("orders")


def test_buy_can_be_tried(shop: Shop) -> None:
    """--dry-run places nothing."""
    told = shop.text("buy", "h100", "--count", "9", "--separately", "--limit", "3.20", "--dry-run")
    assert told.startswith("the first of 9: ") and "the order fills now" in told
    told = shop.text("buy", "h100", "--limit", "3.20", "--dry-run")
    assert "the order fills now, at $2.00/h" in told
    previewed = shop.json("buy", "h100", "--limit", "3.20", "--dry-run")
    assert previewed["fills_now"] and previewed["limit_micros_per_hour"] == 3_200_000
    assert shop.json("orders") == [] and shop.json("holdings") == []


def test_a_refused_buy_says_why_once(shop: Shop) -> None:
    """The market's sentence is told, with exit code 1, on stderr."""
    result = shop.run("buy", "h100/nowhere", "--price", "3", "--count", "3", "--separately")
    assert result.exit_code == 1
    assert result.stdout == "0 of 3 filled; 3 refused\n"
    assert result.stderr.startswith("laissez: ") and result.stderr.count("\n") == 1
    assert (
        json.loads(shop.run("buy", "h100/nowhere", "--price", "3", "--json").stderr)["code"]
        == "unknown_scope"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("buy", "h100"),
        ("buy", "--price", "3"),
        ("buy", "h100", "--near", "h100/east/r1/g0", "--level", "rack", "--price", "3"),
        ("buy", "--near", "h100/east/r1/g0", "--price", "3"),
        ("buy", "h100", "--price", "much"),
        ("buy", "h100", "--price", "1.1234567"),
        ("buy", "h100", "--price", "3", "--wait", "soon"),
        ("buy", "h100", "--price", "3", "--count", "0"),
        ("buy", "h100", "--limit", "3", "--count", "-1"),
        ("buy", "h100", "--limit", "3", "--count", "1000000000"),
        ("buy", "h100", "--count", "2"),
        ("buy", "h100", "--price", "3", "--limit", "3", "--count", "2"),
        ("buy", "h100", "--limit", "3", "--within", "rack"),
        ("buy", "h100", "--limit", "3", "--count", "2", "--within", "rack", "--separately"),
        ("quote", "h100", "--within", "rack"),
        ("quote", "h100", "--count", "0"),
        ("guard", "set", "h100", "--notice", "2d"),
        ("guard", "set", "h100", "--commit", "soon"),
        ("amend", "o-1"),
        ("amend", "o-1", "--expires", "1h", "--no-expiry"),
        ("cancel",),
        ("cancel", "o-1", "--all"),
        ("release",),
        ("release", "h100/east/r1/g0", "--all"),
        ("guard", "set", "h100"),
        ("guard", "set", "h100", "--rise", "quick"),
        ("events", "--after", "-1"),
        ("completion", "tcsh"),
        ("quote",),
        ("nothing",),
        ("status", "--loud"),
    ],
    ids=" ".join,
)
def test_what_is_not_right_is_refused(shop: Shop, words: tuple[str, ...]) -> None:
    """A command that can't be meant changes nothing, ends with 2, and says where help is."""
    sent = list(shop.counter.sent)
    told = shop.error(*words, exit_code=2)
    assert told.startswith("laissez: ") and "--help'" in told and "Traceback" not in told
    assert json.loads(shop.error(*words, "--json", exit_code=2))["code"] == "usage"
    assert shop.counter.sent == sent


def test_bad_amounts_come_with_an_example(shop: Shop) -> None:
    """Whoever typed money or a duration wrong sees how it is written."""
    assert "3.20" in shop.error("buy", "h100", "--price", "3,20", exit_code=2)
    assert "30m" in shop.error("buy", "h100", "--price", "3", "--wait", "30", exit_code=2)
    assert "25%" in shop.error("guard", "set", "h100", "--rise", "25", exit_code=2)


@pytest.mark.parametrize("written", ["3", "3.2", "3.20", "$3.20", "0.000001"])
def test_money_is_read_exactly(shop: Shop, written: str) -> None:
    """All the ways to write an amount mean that amount."""
    micros = {"3": 3_000_000, "0.000001": 1}.get(written, 3_200_000)
    shop.run("buy", "h100", "--price", written)
    placed = shop.counter.sent[-1]
    assert isinstance(placed, PlaceOrder) and placed.price == micros


def test_orders_say_why(shop: Shop) -> None:
    """--why adds the reason, in both forms."""
    shop.text("buy", "h100", "--price", "1", exit_code=3)
    told = shop.text("orders", "--why")
    assert "o-5" in told and "raise the limit to take what is idle" in told
    (explained,) = shop.json("orders", "--why")
    assert explained["order"]["order"] == "o-5" and "raise" in explained["why"]


def test_no_orders(shop: Shop) -> None:
    """Nothing is told as a sentence, or as an empty list."""
    assert shop.text("orders") == "no order waits\n"
    assert shop.json("orders") == []


def test_amend(shop: Shop) -> None:
    """An amended order may be filled at once; what is not said stays."""
    shop.text("buy", "h100", "--price", "1", "--expires", "1h", exit_code=3)
    shop.text("amend", "o-5", "--price", "1.50", "--limit", "1.60")
    (order,) = shop.json("orders")
    assert order["price_micros_per_hour"] == 1_500_000
    assert order["expires_us"] == NOON_US + 60 * MINUTE_US
    shop.text("amend", "o-5", "--no-expiry")
    assert shop.json("orders")[0]["expires_us"] is None
    assert "the order fills now" in shop.text("amend", "o-5", "--limit", "4", "--dry-run")
    assert "order o-5 has won h100/east/r2/g0" in shop.text("amend", "o-5", "--limit", "4")


def test_cancel(shop: Shop) -> None:
    """Orders are cancelled by name or all together; an unknown one is a refusal."""
    shop.run("buy", "h100", "--count", "3", "--separately", "--price", "1")
    assert shop.text("cancel", "o-5") == "order o-5 is cancelled\n"
    (refused,) = shop.json("cancel", "o-5", exit_code=1)
    assert refused["events"][-1]["code"] == "unknown_order"
    assert "Cancel 2 orders? [y/N]" in shop.error("cancel", "--all", exit_code=1, typed="n\n")
    assert "o-6 is cancelled" in shop.text("cancel", "--all", typed="y\n")
    assert shop.text("cancel", "--all") == "you have no order to cancel\n"
    shop.run("buy", "h100", "--price", "1")
    assert "is cancelled" in shop.text("cancel", "--all", "--yes")


def test_a_question_stays_out_of_the_output(shop: Shop) -> None:
    """What is not an answer is said to be none, on stderr like the question: a program finds
    nothing but JSON on stdout. Where there is nobody to answer, only options that the command has
    are named."""
    shop.run("buy", "h100", "--price", "1")
    asked = shop.run("cancel", "--all", "--json", typed="what\ny\n")
    assert asked.exit_code == 0 and json.loads(asked.stdout)
    assert "laissez: that is no answer; type y or n\n" in asked.stderr
    shop.run("buy", "h100", "--price", "1")
    assert "--dry-run" not in shop.error("cancel", "--all", exit_code=2)
    shop.run("buy", "h100", "--price", "9")
    assert "--dry-run" in shop.error("release", "--all", exit_code=2)


def test_a_limit_below_the_rate_waits_for_a_guard(shop: Shop) -> None:
    """While a guard keeps what was won, a limit below the rate says how long that lasts."""
    shop.operator.do(ChangeGuard("h100", hold=3_000_000, window=1_000_000))
    shop.run("buy", "h100/east/r1", "--price", "6")
    told = shop.text("limit", "h100/east/r1/g0", "1.00")
    assert told.endswith("it is below the rate, $2.00/h; safe for 3s more, then it goes\n")
    assert "below" not in shop.text("limit", "h100/east/r1/g0", "4.00")


def test_what_is_not_there_is_told_to_the_operator(shop: Shop) -> None:
    """A scope or a tree that may be mistyped is done or shown, and said to be empty."""
    shop.become("operator")
    quoted = shop.run("quote", "h10", "--json")
    assert quoted.exit_code == 0 and json.loads(quoted.stdout)[0]["rate_micros_per_hour"] is None
    assert "there is nothing under h10; did you mean h100?" in quoted.stderr
    assert "h10 has no guards; did you mean h100?" in shop.run("guard", "off", "h10").stderr
    assert "--window 1s" in shop.error("guard", "set", "h100", "--rise", "25%", exit_code=2)
    assert "--tenant NAME" in shop.error("bill", exit_code=2)
    assert "--tenant NAME" in shop.error("tokens", "create", "--role", "tenant", exit_code=2)


def test_an_address_is_never_broken(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a table is wider than the terminal, attributes stand on a line of their own."""
    assert "h100/east/r1/g0" in shop.text("buy", "h100/east/r1", "--price", "6")
    monkeypatch.setattr(output, "_width", lambda: 70)
    lines = shop.text("holdings").splitlines()
    assert lines[2].startswith("h100/east/r1/g0") and lines[3] == "  address=r1.example"
    monkeypatch.setattr(output, "_width", lambda: 40)
    assert "h100/east/r1/g0: address=r1.example" in shop.text("holdings").splitlines()


# --- holding ------------------------------------------------------------------------------------


def test_holdings(shop: Shop) -> None:
    """What is held, with the attributes that lead to it."""
    assert shop.text("holdings") == "nothing is held\n"
    shop.run("buy", "h100/east/r1", "--price", "2", "--limit", "3")
    shop.counter.now += 5 * MINUTE_US
    told = shop.text("holdings")
    assert "$2.00/h   $3.00/h   22:13:20 (5m ago)" in told and "address=r1.example" in told
    assert shop.json("holdings")[0]["limit_micros_per_hour"] == 3_000_000


def test_holdings_say_how_long_they_are_safe(shop: Shop) -> None:
    """A guard's hold is shown while it lasts."""
    shop.operator.do(ChangeGuard("h100", hold=90_000_000))
    shop.run("buy", "h100", "--price", "2")
    assert "(0s ago), safe for 1m 30s" in shop.text("holdings")
    shop.counter.now += 90_000_000
    assert "safe" not in shop.text("holdings")


def test_holdings_are_watched(shop: Shop) -> None:
    """--watch shows every change until Ctrl-C; with --json a line each."""
    client = shop.become("tenant", "ml")
    shop.counter.later(lambda: client.do(PlaceOrder("h100", 2_000_000)), lambda: None)
    result = shop.run("holdings", "--watch", "--json")
    assert result.exit_code == 130
    assert [len(json.loads(line)) for line in result.stdout.splitlines()] == [0, 1]


def test_limit(shop: Shop) -> None:
    """A limit below the rate loses the resource, and trying it says so."""
    shop.run("buy", "h100/east/r1", "--price", "2", "--limit", "3")
    held = "h100/east/r1/g0"
    assert "would stay yours" in shop.text("limit", held, "2.50", "--dry-run")
    assert "would be lost" in shop.json("limit", held, "1.50", "--dry-run")["message"]
    assert shop.text("limit", held, "2.50") == f"the limit of {held} is $2.50/h (ml)\n"
    assert "is no longer yours: the rate is above" in shop.text("limit", held, "1.50")
    assert "laissez: " in shop.error("limit", held, "1.50", exit_code=1)


def test_release(shop: Shop) -> None:
    """Named resources go back at once, all of them only after a yes."""
    shop.run("buy", "h100", "--count", "3", "--separately", "--price", "2")
    assert "1 resource would be" in shop.text("release", "h100/east/r1/g0", "--dry-run")
    assert "is no longer yours: it was released" in shop.text("release", "h100/east/r1/g0")
    assert "nothing was changed" in shop.error("release", "--all", exit_code=1, typed="n\n")
    assert "say --yes" in shop.error("release", "--all", exit_code=2)
    assert len(shop.json("holdings")) == 2
    assert len(shop.json("release", "--all", "--yes")) == 2
    assert shop.json("holdings") == []


def test_bill(shop: Shop) -> None:
    """A bill is exact for programs, rounded for people, and explained by causes."""
    shop.run("buy", "h100", "--count", "3", "--separately", "--price", "2", "--limit", "5")
    shop.counter.now += 30 * MINUTE_US
    shop.rival(3_000_000, 3_000_000)
    shop.counter.now += 30 * MINUTE_US
    assert shop.text("bill") == "ml owes $7.50 in all\n"
    told = shop.text("bill", "--explain")
    assert "the floor" in told and "an order of somebody else" in told and "$1.50" in told
    assert shop.json("bill")["charge_micros_us_per_hour"] == 7_500_000 * 3_600_000_000
    shop.become("operator")
    assert shop.text("bill", "--tenant", "bio") == "bio owes $0.00 in all\n"


def test_events(shop: Shop) -> None:
    """The stream is one line an event, or one JSON message a line, until Ctrl-C; programs are told,
    too, when what they asked for of the past is over."""
    shop.run("buy", "h100/east/r1", "--price", "2", "--limit", "3")
    result = shop.run("events", "--after", "0")
    assert result.exit_code == 130
    first, second = result.stdout.splitlines()
    assert (
        first.split()[:2] == ["22:13:20", "5"] and "o-5 is placed: h100/east/r1 at $2.00/h" in first
    )
    assert second.endswith("order o-5 has won h100/east/r1/g0")
    lines = shop.run("events", "--after", "0", "--json").stdout.splitlines()
    happened, mark = map(json.loads, lines)
    assert happened["type"] == mark["type"] == "Happened" and mark["events"] == []


def test_rates_and_quotes_are_followed(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is subscribed to is asked for, and each kind of message has its line."""
    client = shop.become("tenant", "ml")
    asked: list[dict[str, object]] = []

    def events(**wanted: object) -> list[Rates | Quotes | Resync]:
        asked.append(wanted)
        quotes = {"h100": Quote(2_000_000, True), "a100": None}
        return [
            Rates(NOON_US, {"h100/east/r1/g0": 2_500_000}),
            Quotes(NOON_US, quotes),
            Resync(17, "read your state anew"),
        ]

    monkeypatch.setattr(client, "events", events)
    told = shop.text("events", "--rates", "--quotes", "h100", "--quotes", "a100").splitlines()
    assert asked == [{"after": None, "rates": True, "quotes": ("h100", "a100")}]
    assert told[0].endswith("rate  h100/east/r1/g0 costs $2.50/h")
    assert told[1].endswith("h100: $2.00/h, free now") and told[2].endswith("nothing to be had")
    assert "up to 17" in told[3]


def test_the_operator_sees_every_event(shop: Shop) -> None:
    """Every kind of event that the operator is told has a sentence."""
    shop.run("buy", "h100/east/r1", "--price", "2", "--limit", "3")
    shop.become("operator")
    shop.run("guard", "set", "h100", "--rise", "25%", "--window", "1s")
    shop.run("topology", "drain", "h100/east/r1", "--grace", "0s", "--yes")
    lines = shop.run("events", "--after", "0").stdout
    for told in ("is on the market", "goes from the operator to ml", "off the market", "cost $0"):
        assert told in lines


# --- operating ----------------------------------------------------------------------------------


def test_floors(shop: Shop) -> None:
    """Floors are set, tried and shown in dollars; programs see micro-dollars."""
    shop.run("buy", "h100", "--price", "2", "--limit", "3")
    shop.become("operator")
    tried = shop.text("floor", "set", "h100", "4", "--dry-run")
    assert "from $2.00/h to $4.00/h; of 1 holding" in tried
    told = shop.text("floor", "set", "h100", "4")
    assert "the floor of h100 is $4.00/h" in told and "goes from ml to the operator" in told
    assert "$4.00/h" in shop.text("floor", "show")
    assert shop.json("floor", "show")[0]["floor_micros_per_hour"] == 4_000_000


def test_guards(shop: Shop) -> None:
    """Guards are set, shown, and switched off; what is not given stays as it is."""
    shop.become("operator")
    words = ("guard", "set", "h100", "--rise", "25%", "--fall", "0.5", "--hold", "2s")
    told = shop.text(*words, "--window", "1s")
    assert told == "the guards of h100: rise 25%, fall $0.50/h, hold 2s, window 1s\n"
    assert shop.counter.sent[-1] == ChangeGuard("h100", 2_500, 500_000, 2_000_000, 1_000_000)
    assert "25%" in shop.text("guard", "show")
    assert shop.json("guard", "show")[0]["rise_basis_points"] == 2_500
    set_guard = ("guard", "set", "h100")
    told = shop.text(*set_guard, "--notice", "1m", "--commit", "2m")
    whole = ("h100", 2_500, 500_000, 2_000_000, 1_000_000, 60_000_000, 120_000_000)
    assert shop.counter.sent[-1] == ChangeGuard(*whole)
    assert told.endswith(": rise 25%, fall $0.50/h, hold 2s, window 1s, notice 1m, commit 2m\n")
    told = shop.text(*set_guard, "--rise", "10%", "--hold", "off")
    assert told.endswith(": rise 10%, fall $0.50/h, window 1s, notice 1m, commit 2m\n")
    assert "--window 1s" in shop.error(*set_guard, "--window", "off", exit_code=2)
    told = shop.text(*set_guard, "--rise", "off", "--fall", "off", "--window", "off")
    assert told.endswith("the guards of h100: notice 1m, commit 2m\n")
    assert shop.text(*set_guard, "--notice", "off").endswith("the guards of h100: commit 2m\n")
    off = shop.run(*set_guard, "--commit", "off")
    assert off.stdout == "the guards of h100: off\n" and "no commitment" in off.stderr
    shop.run(*words, "--window", "1s")
    assert shop.text("guard", "off", "h100") == "the guards of h100: off\n"


def test_tenants(shop: Shop) -> None:
    """Who is there, with what."""
    shop.run("buy", "h100", "--price", "2")
    shop.become("operator")
    assert shop.text("tenants").splitlines()[-1].split() == ["ml", "0", "1", "$0.00"]
    assert shop.json("tenants")[0]["holdings"] == 1


def test_only_the_operator_operates(shop: Shop) -> None:
    """A tenant's token is refused."""
    assert "operator" in shop.error("tenants", exit_code=1)
    refused = shop.run("floor", "set", "h100", "4", "--json")
    assert refused.exit_code == 1 and json.loads(refused.stderr)["code"] == "forbidden"


def test_tokens(shop: Shop) -> None:
    """A new secret is alone on stdout, so that it can be piped; the list never has it."""
    shop.become("operator")
    words = ("tokens", "create", "--role", "tenant", "--tenant", "bio", "--expires", "30d")
    made = shop.run(*words, "--note", "CI \x1b[31m")
    assert made.stdout == "lz_secret\n" and "shown only now" in made.stderr
    told = shop.text("tokens", "list")
    assert "tenant bio" in told and "(in 30d)" in told and "lz_secret" not in told
    assert "\x1b" not in told
    assert shop.text("tokens", "revoke", "t0") == "token t0 for tenant bio is revoked\n"
    assert shop.json(*words)["secret"] == "lz_secret"
    assert shop.json("tokens", "revoke", "t1")["token"] == "t1"
    assert len(shop.json("tokens", "list")) == 2
    assert "there is no token" in shop.error("tokens", "revoke", "t9", exit_code=1)


def test_webhooks(shop: Shop) -> None:
    """A webhook is added, listed and removed; its secret is shown once."""
    shop.become("operator")
    assert shop.text("webhooks", "add", "https://example.com/hook") == "wh_secret\n"
    assert "https://example.com/hook" in shop.text("webhooks", "list")
    assert shop.json("webhooks", "list")[0]["webhook"] == "w0"
    assert shop.text("webhooks", "remove", "w0") == "webhook w0 is removed\n"
    assert shop.json("webhooks", "add", "https://example.com/hook")["secret"] == "wh_secret"
    assert shop.json("webhooks", "remove", "w0") == {"type": "WebhookRemoved", "webhook": "w0"}
    assert shop.text("webhooks", "list") == "there is no webhook\n"


def test_apply_brings_a_cluster(shop: Shop) -> None:
    """A plan is shown, tried without effect, carried out, and then there is nothing to do."""
    shop.become("operator")
    sent = len(shop.counter.sent)
    tried = shop.text("topology", "apply", CLUSTER, "--dry-run")
    assert "h100/us-east/r[1-2]/h[1-2]/g[0-7]" in tried and "rise 25%" in tried
    assert "withdraw" in tried and "none is held" in tried
    assert len(shop.counter.sent) == sent
    planned = shop.json("topology", "apply", CLUSTER, "--dry-run")
    assert (len(planned["add"]), len(planned["withdraw"]), planned["applied"]) == (64, 3, False)
    told = shop.text("topology", "apply", CLUSTER)
    assert told.endswith(f"{len(shop.counter.sent) - sent} of 73 changes were made\n")
    assert shop.text("topology", "apply", CLUSTER) == "the market has all of it already\n"
    assert shop.json("topology", "apply", CLUSTER)["add"] == []


def test_apply_asks_before_it_ends_a_holding(shop: Shop) -> None:
    """What is held is withdrawn after a yes only."""
    shop.run("buy", "h100", "--price", "2")
    shop.become("operator")
    sent = list(shop.counter.sent)
    assert "would end 1 holding" in shop.text("topology", "apply", CLUSTER, "--dry-run")
    no = shop.run("topology", "apply", CLUSTER, typed="n\n")
    assert no.exit_code == 1 and "nothing was changed" in no.stderr
    assert "say --yes" in shop.error("topology", "apply", CLUSTER, exit_code=2)
    assert shop.counter.sent == sent
    applied = shop.json("topology", "apply", CLUSTER, "--yes")
    assert applied["applied"] and applied["holdings_ended"] == 1
    assert len(shop.json("topology", "show")["resources"]) == 64


def test_apply_leaves_what_is_cordoned(shop: Shop, tmp_path: Path) -> None:
    """What a cordon keeps out of the market is not added behind its back."""
    shop.become("operator")
    shop.text("topology", "apply", CLUSTER)
    shop.text("topology", "cordon", "h100/us-east/r1")
    planned = shop.json("topology", "apply", CLUSTER)
    assert len(planned["cordoned"]) == 16 and planned["refused"] == []
    assert "is cordoned; uncordon brings it back" in shop.text("topology", "apply", CLUSTER)


def test_a_bad_file_is_shown_where_it_is_bad(shop: Shop, tmp_path: Path) -> None:
    """All that is wrong with a file is told at once, with its lines; and a file must be there."""
    shop.become("operator")
    file = tmp_path / "bad.yaml"
    file.write_text("version: 1\ntrees:\n  h100:\n    flor: 2\n")
    told = shop.error("topology", "apply", str(file), exit_code=2)
    assert "bad.yaml:4:5:" in told and "levels" in told
    error = json.loads(shop.error("topology", "apply", str(file), "--json", exit_code=2))
    assert error["code"] == "bad_topology"
    file.write_bytes(b"\xff\xfe")
    assert "UTF-8" in shop.error("topology", "apply", str(file), exit_code=2)
    assert "does not exist" in shop.error("topology", "apply", "nowhere.yaml", exit_code=2)


def test_apply_tells_what_was_refused(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes that were refused are counted and told, and the exit code is 1."""
    shop.become("operator")
    shop.connect_to(lambda: shop.counter.client("viewer"))
    result = shop.run("topology", "apply", CLUSTER)
    assert result.exit_code == 1
    assert result.stdout.endswith("0 of 73 changes were made\n")
    assert "and 53 more were refused" in result.stderr


def test_topology_show(shop: Shop) -> None:
    """Resources are folded, with how many are held and by how many."""
    shop.run("buy", "h100/east/r1", "--count", "2", "--separately", "--price", "2")
    shop.become("operator")
    told = shop.text("topology", "show").splitlines()
    assert [line.split()[:4] for line in told[2:]] == [
        ["h100/east/r1/g[0-1]", "2", "2", "1"],
        ["h100/east/r2/g0", "1", "0", "0"],
    ]
    assert len(shop.json("topology", "show", "h100/east/r1")["resources"]) == 2
    assert shop.text("topology", "show", "b200") == "there is nothing under b200\n"


def test_cordon_and_uncordon(shop: Shop) -> None:
    """A cordon takes out what is idle, and lifting it brings that back. Whoever looks at the
    topology is told of the cordons that concern what is shown, programs too."""
    shop.run("buy", "h100/east/r1", "--price", "2")
    shop.become("operator")
    told = shop.text("topology", "cordon", "h100/east/r1")
    assert told == "h100/east/r1 is cordoned: 1 resource out, 1 resource still held\n"
    assert "h100/east/r1 is cordoned" in shop.text("topology", "show")
    for scope, cordons in (
        ((), ["h100/east/r1"]),
        (("h100/east/r1/g1",), ["h100/east/r1"]),
        (("h100/east/r2",), []),
    ):
        assert shop.json("topology", "show", *scope)["cordons"] == cordons
        assert ("is cordoned" in shop.text("topology", "show", *scope)) == bool(cordons)
    told = shop.text("topology", "uncordon", "h100/east/r1")
    assert told == "h100/east/r1 is open again: 1 resource back\n"
    assert shop.json("topology", "cordon", "h100/east/r1")["type"] == "Answer"
    assert shop.json("topology", "uncordon", "h100/east/r1")["back"] == ["h100/east/r1/g1"]
    told = shop.error("topology", "uncordon", "h100/east/r1", exit_code=1)
    assert "'laissez topology show' lists them" in told


def test_drain_waits_for_those_who_leave(shop: Shop) -> None:
    """Who leaves within the grace is not thrown out; who stays is."""
    shop.run("buy", "h100/east/r1", "--count", "2", "--separately", "--price", "2")
    tenant = shop.counter.client("tenant", "ml")
    shop.become("operator")
    tried = shop.json("topology", "drain", "h100/east/r1", "--dry-run")
    assert len(tried["resources"]) == 2 and "10m" in tried["message"]
    shop.counter.later(lambda: tenant.do(Release("h100/east/r1/g1")))
    drained = shop.json("topology", "drain", "h100/east/r1", "--grace", "90s", "--yes")
    assert drained["left"] == ["h100/east/r1/g1"]
    assert drained["withdrawn"] == ["h100/east/r1/g0"]
    assert shop.counter.now == NOON_US + 90_000_000
    assert tenant.holdings() == ()


def test_drain_ends_when_all_have_left(shop: Shop) -> None:
    """The grace is not waited out when nobody is there any more."""
    shop.run("buy", "h100/east/r1", "--price", "2")
    tenant = shop.counter.client("tenant", "ml")
    shop.become("operator")
    shop.counter.later(lambda: tenant.do(Release("h100/east/r1/g0")))
    told = shop.text("topology", "drain", "h100/east/r1", "--yes")
    assert told.startswith("h100/east/r1: of 1 held, 1 left in time, 0 withdrawn\n")
    assert shop.counter.now == NOON_US + 1_000_000


def test_drain_counts_those_who_were_there_after_the_cordon(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who came between the plan and the cordon, and leaves in time, is counted."""
    late = shop.counter.client("tenant", "late")
    operator = shop.become("operator")
    cordon = operator.cordon

    def cordon_too_late(scope: str, *, deadline: int) -> Answer:
        late.do(PlaceOrder("h100/east/r1/g0", 2_000_000, 2_000_000))
        return cordon(scope, deadline=deadline)

    monkeypatch.setattr(operator, "cordon", cordon_too_late)
    shop.counter.later(lambda: late.do(Release("h100/east/r1/g0")))
    drained = shop.json("topology", "drain", "h100/east/r1", "--yes")
    assert (drained["left"], drained["withdrawn"]) == (["h100/east/r1/g0"], [])


# --- how a command ends -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "exit_code", "code"),
    [
        (LoginNeeded("log in with `laissez login`"), 5, "login_needed"),
        (BadAddress("give it as http://HOST:PORT"), 2, "bad_address"),
        (ConnectionFailed("nobody answers at http://localhost:1"), 4, "unreachable"),
        (Refusal("busy", "too many requests are waiting"), 1, "busy"),
        (Refusal("unauthenticated", "this token has expired"), 5, "unauthenticated"),
        (PermissionError(13, "Permission denied", "login.json"), 2, "file"),
        (RuntimeError("what?"), 70, "defect"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_every_error_has_its_code_and_a_sentence(
    shop: Shop, error: Exception, exit_code: int, code: str
) -> None:
    """No traceback for people; for programs the code and the sentence as JSON."""

    def fail() -> object:
        raise error

    shop.connect_to(fail)
    told = shop.error("status", exit_code=exit_code)
    assert told.startswith("laissez: ") and "Traceback" not in told
    said = json.loads(shop.error("status", "--json", exit_code=exit_code))
    assert said["code"] == code and f"laissez: {said['message']}\n" == told
    assert exit_code in MEANINGS


def test_a_debugger_sees_the_traceback(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """LAISSEZ_DEBUG=1 shows where it went wrong."""

    def fail() -> object:
        raise RuntimeError("what?")

    shop.connect_to(fail)
    monkeypatch.setenv("LAISSEZ_DEBUG", "1")
    assert "Traceback" in shop.error("status", exit_code=70)


def test_nobody_can_play_with_the_terminal(shop: Shop) -> None:
    """What somebody else wrote, an attribute say, is shown without control characters."""
    shop.operator.do(OfferResource("h100/east/r0/g0", {"note": "\x1b[2Jboo\u202e"}))
    shop.run("buy", "h100/east/r0", "--price", "2")
    told = shop.text("holdings")
    assert "boo" in told and "\x1b" not in told and "\u202e" not in told


def test_a_pipe_gets_whole_lines_without_colours(shop: Shop) -> None:
    """What is not a terminal is not cut to the width of one, and has no escape codes."""
    long = "h100/" + "/".join(f"level-{at}-{'x' * 30}" for at in range(8))
    shop.operator.do(OfferResource(long))
    shop.become("operator")
    told = shop.text("topology", "show")
    assert long in told and "\x1b" not in told


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (amounts.show_charge(0), "$0.00"),
        (amounts.show_charge(4_500_000 * 3_600_000_000), "$4.50"),
        (amounts.show_charge(50 * 3_600_000_000 - 1), "$0.00"),
        (amounts.show_charge(50 * 3_600_000_000), "$0.0001"),
        (amounts.show_duration(1_500_000), "1.5s"),
        (amounts.show_duration(90_000_000), "1m 30s"),
        (amounts.show_duration(7_200_000_000), "2h"),
        (amounts.show_duration(7_205_000_000), "2h"),
        (amounts.show_duration(30 * 86_400_000_000 + 1), "30d"),
        (amounts.show_basis_points(2_550), "25.5%"),
        (amounts.show_basis_points(10_000), "100%"),
        (amounts.counted(1, "holding"), "1 holding"),
        (amounts.counted(2_000, "holding"), "2,000 holdings"),
    ],
)
def test_amounts_for_people(shown: str, expected: str) -> None:
    """Rounded half up and only to be shown, without what says nothing."""
    assert shown == expected


def test_instants_for_people(shop: Shop) -> None:
    """By the local clock, with the date where it is another day, and how far away it is."""
    assert amounts.show_time(NOON_US, NOON_US + 3 * MINUTE_US) == "22:13:20 (3m ago)"
    assert amounts.show_time(NOON_US + 1, NOON_US) == "22:13:20 (in 0s)"
    in_a_day = amounts.show_time(NOON_US + 1_440 * MINUTE_US, NOON_US)
    assert in_a_day == "2023-11-15 22:13 (in 1d)"
    assert amounts.show_time(None, NOON_US) == ""


# --- the fake is like the real one --------------------------------------------------------------

CLIENT_METHODS = [
    name
    for name, member in inspect.getmembers(CounterClient, inspect.isfunction)
    if not name.startswith("_") and name not in ("do", "listen")
]


@pytest.mark.parametrize("name", CLIENT_METHODS)
def test_the_counter_takes_what_the_client_takes(name: str) -> None:
    """Each call that commands make exists in the SDK, with these arguments in this order."""
    real = inspect.signature(getattr(Client, name)).parameters
    fake = inspect.signature(getattr(CounterClient, name)).parameters
    assert {key: (real[key].kind, real[key].default) for key in fake if key in real} == {
        key: (each.kind, each.default) for key, each in fake.items()
    }


def test_the_counter_is_listened_to_like_the_client() -> None:
    """What stands in for `listening.listen` takes the same."""
    real = inspect.signature(listening.listen).parameters
    fake = inspect.signature(CounterClient.listen).parameters
    assert [*real][1:] == [*fake][1:]
