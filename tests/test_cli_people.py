"""What the command line says to a person: before it does harm, while it works, and of a typo."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete

from counter import NOON_US, US_PER_S, CounterClient
from laissez.cli.main import cli
from laissez.cli.tenant.waiting import WaitingLine
from laissez.cli.terminal import amounts, output
from laissez.client.bulk import Outcomes
from laissez.client.errors import ConnectionFailed, Unauthenticated
from laissez.model import (
    ChangeGuard,
    CordonScope,
    Instruction,
    NameLevels,
    OfferResource,
    Placed,
    PlaceOrder,
    Quote,
    Release,
    TokenInfo,
    UncordonScope,
    WebhookInfo,
    WithdrawResource,
)
from shop import Shop

REPO = Path(__file__).parents[1]

# --- before harm is done ------------------------------------------------------------------------


def test_a_drain_is_agreed_on(shop: Shop) -> None:
    """Nothing is drained before a yes to how much is held, by how many, and how much is idle."""
    shop.run("buy", "h100/east/r1", "--price", "2")
    shop.rival(2_000_000, 2_000_000)
    shop.become("operator")
    before = list(shop.counter.sent)
    no = shop.run("topology", "drain", "h100", typed="n\n")
    assert no.exit_code == 1 and "nothing was changed" in no.stderr
    assert "h100: 2 held by 2 tenants, 1 idle" in no.stderr and "the holders are told" in no.stderr
    assert "say --yes" in shop.error("topology", "drain", "h100", exit_code=2)
    assert shop.counter.sent == before
    assert shop.run("topology", "drain", "h100", "--grace", "0s", typed="y\n").exit_code == 0
    assert shop.operator.holdings() == ()


def test_a_drain_can_be_tried(shop: Shop) -> None:
    """--dry-run tells programs what is held, by whom, and what is idle; nothing is cordoned."""
    shop.run("buy", "h100/east/r1", "--price", "2")
    shop.become("operator")
    plan = shop.json("topology", "drain", "h100/east/r1", "--grace", "30m", "--dry-run")
    assert plan["resources"] == ["h100/east/r1/g0"] and plan["idle"] == ["h100/east/r1/g1"]
    assert plan["tenants"] == ["ml"] and plan["grace_us"] == 1_800_000_000
    assert shop.operator.floors().cordons == ()


def test_an_interrupted_drain_says_what_stays(shop: Shop) -> None:
    """Ctrl-C ends nothing but the wait: until when, and how to call it off, is told."""
    shop.run("buy", "h100/east/r1", "--price", "2")
    shop.become("operator")
    shop.counter.later(interrupt)
    told = shop.error("topology", "drain", "h100/east/r1", "--yes", exit_code=130)
    shown = shop.text("topology", "show")
    assert "h100/east/r1 is cordoned, and what is held there is withdrawn at 22:23:20" in shown
    until = shop.counter.now + 599 * US_PER_S
    assert shop.json("topology", "show")["drains_until_us"] == {"h100/east/r1": until}
    assert "is withdrawn at 22:23:20; 'laissez topology uncordon h100/east/r1' calls it off" in told
    assert shop.operator.floors().cordons == ("h100/east/r1",)


def interrupt() -> None:
    raise KeyboardInterrupt


def test_each_row_of_a_plan_has_its_own_count(shop: Shop, tmp_path: Path) -> None:
    """What a withdrawal would end is told row by row, not as one total on all of them."""
    shop.operator.do(OfferResource("h100/west/r9/g0"))
    shop.run("buy", "h100/east/r1", "--count", "2", "--separately", "--price", "2")
    shop.become("operator")
    rows = shop.text(
        "topology", "apply", str(REPO / "examples" / "cluster.yaml"), "--dry-run"
    ).splitlines()
    ends = {row.split()[2]: row for row in rows if row.startswith("withdraw")}
    assert "would end 2 holdings" in ends["h100/east/r1/g[0-1]"]
    assert "none is held" in ends["h100/east/r2/g0"]
    assert "none is held" in ends["h100/west/r9/g0"]


def test_the_last_operator_is_asked(shop: Shop) -> None:
    """The last living operator's token is revoked after a yes that knows the way back in."""
    shop.become("operator")
    now = shop.counter.now
    shop.counter.tokens += [
        TokenInfo("op-1", "operator", None, 0, None, None, ""),
        TokenInfo("op-2", "operator", None, 0, now - 1, None, "expired"),
        TokenInfo("op-3", "operator", None, 0, None, 5, "revoked"),
        TokenInfo("t-1", "tenant", "ml", 0, None, None, ""),
    ]
    no = shop.run("tokens", "revoke", "op-1", typed="n\n")
    assert no.exit_code == 1 and "--new-operator-token" in no.stderr
    assert "say --yes" in shop.error("tokens", "revoke", "op-1", exit_code=2)
    assert shop.json("tokens", "revoke", "op-1", "--yes")["token"] == "op-1"
    assert shop.text("tokens", "revoke", "t-1") == "token t-1 for tenant ml is revoked\n"
    shop.counter.tokens.append(TokenInfo("op-4", "operator", None, 0, None, None, ""))
    assert shop.text("tokens", "revoke", "op-1") == "token op-1 for operator is revoked\n"


def test_revoking_the_own_token_is_no_error(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service hangs up on a token that has just died; the command says so, and ends well."""
    operator = shop.become("operator")
    shop.counter.tokens.append(TokenInfo("op-1", "operator", None, 0, None, None, ""))

    def hang_up(token_id: str) -> TokenInfo:
        raise Unauthenticated("unauthenticated", "this token has expired or was revoked")

    monkeypatch.setattr(operator, "revoke_token", hang_up)
    told = shop.text("tokens", "revoke", "op-1", "--yes")
    assert told.startswith("token op-1 for operator is revoked\nit was your own")
    assert shop.json("tokens", "revoke", "op-1", "--yes")["revoked_us"] == shop.counter.now


# --- what did not come back ---------------------------------------------------------------------


def test_uncordon_says_what_is_missing(shop: Shop) -> None:
    """What was withdrawn by name stays out, and so does what lies under another cordon."""
    shop.operator.do(CordonScope("h100/east/r1"))
    shop.operator.do(CordonScope("h100/east"))
    shop.become("operator")
    told = shop.text("topology", "uncordon", "h100/east")
    assert told.startswith("h100/east is open again: 1 resource back\n")
    assert "still cordoned: h100/east/r1: h100/east/r1/g[0-1]; 'laissez topology uncordon" in told
    done = shop.json("topology", "uncordon", "h100/east/r1")
    assert done["back"] == ["h100/east/r1/g0", "h100/east/r1/g1"]
    assert (done["cordons"], done["cordoned"], done["withdrawn"]) == ([], [], [])


def test_uncordon_brings_back_what_a_drain_took(shop: Shop) -> None:
    """What left and what was withdrawn at the deadline: a drain keeps all of it aside."""
    shop.run("buy", "h100/east/r1", "--price", "2")
    shop.become("operator")
    drained = shop.text("topology", "drain", "h100/east/r1", "--grace", "0s", "--yes")
    assert "of 1 held, 0 left in time, 1 withdrawn\n" in drained
    assert "'laissez topology uncordon h100/east/r1' brings all of it back" in drained
    told = shop.text("topology", "uncordon", "h100/east/r1")
    assert told == "h100/east/r1 is open again: 2 resources back\n"


def test_uncordon_says_what_was_withdrawn_by_name(shop: Shop) -> None:
    """What the operator took out itself is not kept aside: it is named, with the way to it."""
    shop.operator.do(CordonScope("h100/east/r1"))
    shop.become("operator")
    shop.operator.do(UncordonScope("h100/east/r1"))
    shop.operator.do(CordonScope("h100/east/r2"))
    shop.operator.do(WithdrawResource("h100/east/r1/g0"))
    shop.operator.do(CordonScope("h100/east/r1"))
    told = shop.text("topology", "uncordon", "h100/east/r1")
    assert "h100/east/r1 is open again: 1 resource back\n" in told
    assert "not back, because withdrawn by name: h100/east/r1/g0\n" in told
    assert "'laissez topology apply FILE' brings back" in told


def test_uncordon_does_not_guess(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the stream can't tell any more what was withdrawn, that is said."""
    operator = shop.become("operator")

    def gone(**wanted: object) -> object:
        raise ConnectionFailed("nobody answers")

    monkeypatch.setattr(operator, "events", gone)
    operator.do(CordonScope("h100"))
    told = shop.text("topology", "uncordon", "h100")
    assert "3 resources back" in told and "is not known here" in told


# --- a typo -------------------------------------------------------------------------------------


def test_a_floor_for_nothing_is_warned_of(shop: Shop) -> None:
    """A floor may come before its resources; but a scope that exists nowhere is no silence."""
    shop.become("operator")
    set_for_nothing = shop.run("floor", "set", "h100/eats", "3")
    assert set_for_nothing.exit_code == 0 and "is $3.00/h" in set_for_nothing.stdout
    assert "there is nothing under h100/eats now" in set_for_nothing.stderr
    assert "did you mean h100/east?" in set_for_nothing.stderr
    assert "nothing under" in shop.run("floor", "set", "h10", "3", "--dry-run").stderr
    assert shop.run("floor", "set", "h100/east", "3").stderr == ""
    told = shop.run("guard", "set", "h10", "--rise", "25%", "--window", "1s").stderr
    assert "the guards wait for what is added; did you mean h100?" in told
    assert shop.run("floor", "set", "h100/eats", "0").stderr == ""
    told = shop.run("floor", "set", "h10", "0").stderr
    assert "no floor was set for h10; did you mean h100" in told


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("quote", "h10"), "did you mean h100?"),
        (("buy", "h10", "--price", "3"), "did you mean h100?"),
        (("buy", "h10", "--limit", "3"), "did you mean h100?"),
        (("buy", "h10", "--limit", "3", "--dry-run"), "did you mean h100?"),
        (("buy", "h10", "--limit", "3", "--price", "2", "--dry-run"), "did you mean h100?"),
        (("buy", "h100/eats", "--limit", "3", "--dry-run"), "did you mean h100/east?"),
        (("release", "h100/east/r1/g7", "--dry-run"), "did you mean h100/east/r1/g0?"),
        (("release", "h100/east/r1/g7"), "did you mean h100/east/r1/g0?"),
        (("amend", "o-", "--price", "3", "--dry-run"), "did you mean o-6?"),
        (("limit", "h100/east/r1/g7", "3", "--dry-run"), "did you mean h100/east/r1/g0?"),
        (("limit", "h100/east/r1/g7", "3"), "did you mean h100/east/r1/g0?"),
    ],
)
def test_a_tenant_is_told_what_it_may_have_meant(
    shop: Shop, words: tuple[str, ...], meant: str
) -> None:
    """A name that is not there is answered with the nearest that the tenant knows."""
    shop.run("buy", "h100/east/r1", "--price", "2")
    shop.run("buy", "h100/east/r1", "--price", "1")
    told = shop.run(*words)
    assert told.exit_code in (1, 2) and meant in told.stderr


@pytest.mark.parametrize(
    ("words", "typo"),
    [
        (("buy", "{}", "--limit", "3"), "h10"),
        (("buy", "{}", "--limit", "3", "--price", "2"), "h10"),
        (("buy", "{}", "--limit", "3"), "h100/west"),
        (("amend", "{}", "--price", "3"), "o-99"),
        (("amend", "o-6", "--price", "3", "--limit", "2"), ""),
        (("limit", "{}", "3"), "h100/east/r1/g7"),
        (("release", "{}"), "h100/east/r1/g7"),
        (("release", "h100/east/r1/g0", "{}"), "h100/east/r1/g7"),
    ],
)
def test_a_dry_run_is_refused_what_the_command_would_be(
    shop: Shop, words: tuple[str, ...], typo: str
) -> None:
    """The exit code of a dry run is that of the command itself, for a name that is not there and
    for a token that is not meant; what it said yes to can be done."""
    shop.run("buy", "h100/east/r1", "--price", "2")
    shop.run("buy", "h100/east/r1", "--price", "1", "--limit", "1")
    given = [word.format(typo) for word in words]
    before = list(shop.counter.sent)
    assert shop.run(*given, "--dry-run").exit_code == 1
    assert shop.counter.sent == before
    assert shop.run(*given).exit_code == 1
    shop.become("operator")
    told = shop.error(*given, "--dry-run", exit_code=1)
    assert "needs a tenant's token, and yours is an operator's" in told
    refused = shop.error(*given, exit_code=1)
    assert set(told.splitlines()) == set(refused.splitlines()), "in the same words"


def test_what_can_not_be_seen_is_said_to_be(shop: Shop) -> None:
    """A price may be bid where a tenant sees no quote: whether there is anything is left open."""
    shop.run("buy", "h100/east/r1", "--price", "2")
    words = ("buy", "--price", "2", "--dry-run")
    told = shop.run(*words, "h100/east/r9")
    assert told.exit_code == 0 and "the order would rest" in told.stdout
    assert "can't see whether there is anything under h100/east/r9; did you mean" in told.stderr
    assert shop.run(*words, "h100/east").stderr == ""


def test_release_names_what_would_go(shop: Shop) -> None:
    """A dry run for several tells what of them is held, and refuses the rest."""
    shop.run("buy", "h100/east/r1", "--count", "2", "--separately", "--price", "2")
    told = shop.run("release", "h100/east/r1/g0", "h100/east/r7/g0", "--dry-run")
    assert told.stdout == "1 resource would be given back: h100/east/r1/g0\n"
    assert "you don't hold 'h100/east/r7/g0'" in told.stderr and told.exit_code == 1
    assert len(shop.json("release", "--all", "--dry-run")["resources"]) == 2
    assert shop.run("release", "--all", "--yes").exit_code == 0
    assert shop.text("release", "--all", "--dry-run") == "nothing is held\n"


def test_what_is_lost_is_not_taken_for_a_typo(shop: Shop) -> None:
    """Who gives back what somebody else has by now is not led to another holding."""
    shop.run("buy", "h100/east/r1", "--count", "2", "--separately", "--price", "2")
    shop.run("release", "h100/east/r1/g1")
    told = shop.error("release", "h100/east/r1/g1", exit_code=1)
    assert "does not hold" in told and "mean" not in told


def test_a_drain_of_nothing_can_be_tried(shop: Shop) -> None:
    """What a cordon keeps out is there, and a dry run knows it; what was mistyped is not."""
    shop.become("operator")
    told = shop.error("topology", "drain", "h100/eats", "--dry-run", exit_code=1)
    assert told == shop.error("topology", "drain", "h100/eats", "--yes", exit_code=1)
    shop.operator.do(CordonScope("h100/east"))
    for scope in ("h100/east", "h100/east/r1"):
        told = shop.text("topology", "drain", scope, "--dry-run")
        assert told.endswith("nothing is on the market now; already cordoned: h100/east\n")
        assert shop.run("topology", "drain", scope, "--yes").exit_code == 0


@pytest.mark.parametrize(
    "words",
    [("cordon", "h100/eats"), ("drain", "h100/eats", "--yes"), ("drain", "h100/eats", "--dry-run")],
)
def test_an_operator_is_told_what_it_may_have_meant(shop: Shop, words: tuple[str, ...]) -> None:
    """Scopes of the topology are suggested, and cordons where one is to be lifted."""
    shop.become("operator")
    assert "did you mean h100/east?" in shop.error("topology", *words, exit_code=1)
    shop.operator.do(CordonScope("h100/east/r1"))
    assert "mean h100/east/r1?" in shop.error("topology", "uncordon", "h100/eats/r1", exit_code=1)


@pytest.mark.parametrize("words", [("orders",), ("holdings",), ("bill",)], ids=" ".join)
def test_a_tenant_nobody_knows_is_said_to_be(shop: Shop, words: tuple[str, ...]) -> None:
    """Nothing is owed, held or ordered by who was mistyped: the operator is told whom it may have
    meant. Who has traded and has nothing left is no typo."""
    shop.run("buy", "h100", "--price", "2")
    operator = shop.become("operator")
    told = shop.run(*words, "--tenant", "mll")
    assert told.exit_code == 0 and told.stdout
    assert told.stderr == (
        "laissez: nobody called mll orders, holds or owes anything; did you mean ml?\n"
    )
    assert shop.run(*words, "--tenant", "ml").stderr == ""
    assert [each.tenant for each in operator.tenants()] == ["ml"]
    shop.become("tenant", "bio")
    assert shop.run(*words, "--tenant", "bio").stderr == ""


def test_what_is_near_or_removed_is_suggested(shop: Shop) -> None:
    """A holding to be near to, and a webhook to be removed, are answered with the nearest."""
    shop.run("buy", "h100/east/r1", "--price", "2")
    words = ("buy", "--near", "h100/east/r1/g7", "--level", "rack", "--limit", "3")
    assert "did you mean h100/east/r1/g0?" in shop.error(*words, exit_code=2)
    shop.operator.do(NameLevels("h100", ("zone", "rack", "gpu")))
    words = ("buy", "--near", "h100/east/r1/g0", "--level", "rak", "--limit", "3")
    assert "did you mean rack?" in shop.error(*words, exit_code=2)
    several = ("--level", "zone", "--count", "2", "--limit", "3")
    assert shop.json("buy", "--near", "h100/east/r1/g0", *several)["scope"] == "h100/east"
    shop.become("operator")
    shop.counter.webhooks.append(WebhookInfo("wh-12", "https://a.example/", 0, None))
    told = shop.error("webhooks", "remove", "wh-21", exit_code=1)
    assert "'laissez webhooks list' shows all; did you mean wh-12?" in told
    assert shop.run("webhooks", "remove", "wh-12").exit_code == 0


def test_a_guard_is_refused_in_dollars(shop: Shop) -> None:
    """No micro-dollars and no microseconds in what a person reads."""
    shop.become("operator")
    words = ("guard", "set", "h100", "--fall", "0.0001", "--window", "1ms")
    told = shop.error(*words, exit_code=1)
    assert "by at least $0.001/h, or by 0, in a window of at least 100 ms" in told


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("qoute", "h100"), "; did you mean 'quote'? See 'laissez --help'"),
        (("topology", "aply"), "; did you mean 'apply'?"),
        (("buy", "h100", "--limt", "3"), "; did you mean '--limit' or '--wait'? See"),
        (("buy", "--liimt", "3"), "; did you mean '--limit' or '--wait'? See"),
    ],
)
def test_commands_and_options_are_suggested(shop: Shop, words: tuple[str, ...], meant: str) -> None:
    """A command, a subcommand or an option with a slip of the finger names its neighbour."""
    assert meant in shop.error(*words, exit_code=2)


# --- in words -----------------------------------------------------------------------------------


def test_refusals_speak_of_acts_and_dollars(shop: Shop) -> None:
    """No name of a message, no micro-dollars."""
    told = shop.error("floor", "set", "h100", "3", exit_code=1)
    assert "setting a floor needs an operator's token, and yours is a tenant's" in told
    told = shop.error("buy", "h100", "--price", "3", "--limit", "2", exit_code=2)
    assert "the price, $3.00/h, is above the limit, $2.00/h" in told
    for words in (("buy", "h100", "--price", "0"), ("amend", "o-5", "--limit", "0")):
        assert "write it like 3.20" in shop.error(*words, exit_code=2)
    shop.run("buy", "h100", "--price", "1", "--limit", "1.50")
    told = shop.error("amend", "o-5", "--price", "3", exit_code=1)
    assert "the price, $3.00/h, is above the limit, $1.50/h" in told


def test_a_rate_has_no_more_than_four_decimals() -> None:
    """Rounded up: who types in what was shown pays enough."""
    assert amounts.show_rate(7_206_002) == "$7.2061/h"
    assert amounts.show_rate(7_206_000) == "$7.206/h"
    assert amounts.show_duration(56_993_035) == "56.993s"


# --- many at once -------------------------------------------------------------------------------


def test_many_orders_are_summed_up(shop: Shop) -> None:
    """The summary is short, and programs get all of it. The same command ends them all."""
    client = shop.become("tenant", "ml")
    result = shop.run("buy", "h100", "--count", "600", "--separately", "--price", "1")
    assert result.exit_code == 3 and "refused" not in result.stdout
    assert result.stdout.endswith("600 wait: o-5, o-6, o-7, o-8, o-9 and 595 more\n")
    assert "'laissez cancel --all'" in result.stderr
    assert len(client.orders()) == 600
    told = shop.text("cancel", "--all", "--yes")
    assert told.endswith("600 of 600 done\n") and len(told.splitlines()) < 30
    assert client.orders() == ()
    bought = shop.json("buy", "h100", "--count", "300", "--separately", "--price", "1", exit_code=3)
    assert len(bought["waiting"]) == 300 and bought["refused"] == []


def test_many_fills_are_summed_up(shop: Shop) -> None:
    """A few rows, and how many more; release gives back all of them."""
    for at in range(40):
        shop.operator.do(OfferResource(f"h100/east/r3/g{at}"))
    told = shop.text("buy", "h100", "--count", "43", "--separately", "--price", "2")
    assert "... and 23 more; --json has all\n43 of 43 filled\n" in told
    assert "43 of 43 done" in shop.text("release", "--all", "--yes")


@pytest.mark.parametrize(
    ("stop", "exit_code", "of_the_rest"),
    [
        (KeyboardInterrupt(), 130, "stopped with 500 orders left\n"),
        (
            ConnectionFailed("nobody answers"),
            4,
            "left; some may be in the market: 'laissez orders'",
        ),
    ],
    ids=["Ctrl-C", "nobody answers"],
)
def test_who_is_stopped_between_orders_is_told_what_was_done(
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
    stop: BaseException,
    exit_code: int,
    of_the_rest: str,
) -> None:
    """What was placed, what may be, and how to take it back; all of it as the client knows it."""
    client = shop.become("tenant", "ml")
    send_all = client.send_all

    def send_half(wanted: Sequence[Instruction], *, outcomes: Outcomes, **_: Any) -> None:
        send_all(wanted[: len(wanted) // 2], outcomes=outcomes)
        raise stop

    monkeypatch.setattr(client, "send_all", send_half)
    result = shop.run("buy", "h100", "--count", "1000", "--separately", "--price", "1")
    assert result.exit_code == exit_code
    assert "0 of 1,000 filled; 500 wait" in result.stdout
    assert of_the_rest in result.stderr and "'laissez cancel --all' ends them" in result.stderr
    result = shop.run("cancel", "--all", "--yes")
    assert result.exit_code == exit_code and len(client.orders()) == 250
    assert ("stopped after 250 of 500" in result.stderr) == (exit_code == 130)


def test_an_interrupted_apply_says_how_to_go_on(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Applying the file again does the rest."""
    operator = shop.become("operator")

    def stop(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(operator, "send_all", stop)
    words = ("topology", "apply", str(REPO / "examples" / "cluster.yaml"), "--yes")
    assert "apply the file again for the rest" in shop.error(*words, exit_code=130)


# --- waiting ------------------------------------------------------------------------------------


def test_who_stops_waiting_is_told_that_the_order_lives_on(shop: Shop) -> None:
    """After Ctrl-C, and when the wait is over; programs have it in what is printed."""
    for _ in range(3):
        shop.rival(2_000_000, 9_000_000)
    shop.counter.later(interrupt)
    told = shop.error("buy", "h100", "--price", "3", "--wait", "2s", exit_code=130)
    assert told.strip() == "laissez: the order lives on; 'laissez cancel o-8' ends it"
    words = ("buy", "h100", "--count", "2", "--separately", "--price", "3", "--wait", "2s")
    told = shop.error(*words, exit_code=3)
    assert told == "laissez: the orders live on; 'laissez cancel o-9 o-10' ends them\n"
    result = shop.run(*words, "--json")
    assert result.stderr == "" and len(json.loads(result.stdout)["waiting"]) == 2


def test_waiting_does_not_poll(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What becomes of orders is heard on the stream: the list of orders is not asked for."""
    for _ in range(3):
        shop.rival(2_000_000, 9_000_000)
    client = shop.become("tenant", "ml")

    def ask(*_: object) -> object:
        raise AssertionError("asked for orders")

    monkeypatch.setattr(client, "orders", ask)
    rival = shop.counter.client("tenant", "bio")
    shop.counter.later(lambda: rival.do(Release("h100/east/r1/g1")))
    assert shop.json("buy", "h100", "--price", "3", "--wait", "9s")["filled"]


def waiting_line(count: int = 1, within: int | None = None, promised: str = "") -> WaitingLine:
    price = 1_400_000 if count == 1 else None
    order = Placed(0, "ml", "o-8", "h100", price, 1_500_000, None, count, within)
    levels = {"h100": ("zone", "rack", "host", "gpu")}
    return WaitingLine(
        "h100", order, 600_000_000, lambda: "3 of 8 filled", lambda: promised, levels
    )


@pytest.mark.parametrize(
    ("line", "quote", "why"),
    [
        (
            waiting_line(),
            Quote(2_500_000, False),
            "h100: all held, from $2.50/h; nobody leaves at $1.40/h yet",
        ),
        (
            waiting_line(),
            Quote(2_500_000, True),
            "h100: free at $2.50/h, above your limit of $1.50/h",
        ),
        (waiting_line(), None, "h100: nothing that is not yours already"),
        (
            waiting_line(8, 4),
            Quote(2_500_000, False),
            "h100: 8 in one host: not enough yet that are free or held below $1.50/h",
        ),
        (
            waiting_line(8, 1),
            Quote(2_500_000, True),
            "h100: 8 at once: free at $2.50/h, above your limit of $1.50/h",
        ),
        (waiting_line(8, 4), None, "h100: 8 in one host: not so many there that are not yours"),
        (
            waiting_line(8, 4, "5 promised, here by 22:13:50 (in 30s) at the latest"),
            None,
            "5 promised, here by 22:13:50 (in 30s) at the latest",
        ),
    ],
)
def test_the_waiting_line_says_why(
    shop: Shop, line: WaitingLine, quote: Quote | None, why: str
) -> None:
    """How long of how long, how far it has come, and why it waits, in 80 columns."""
    line.start()
    assert line.__rich__().plain.startswith(
        "waiting 0s of 10m: 3 of 8 filled; Ctrl-C stops waiting"
    )
    line.quote, line.is_quoted = quote, True
    shop.counter.now += 12_400_000
    first, second = line.__rich__().plain.splitlines()
    assert first.startswith("waiting 12s of 10m") and second == why
    assert max(len(first), len(second)) <= 80


# --- completion ---------------------------------------------------------------------------------


def completed(*words: str) -> list[str]:
    """What the shell is offered for the last of these words."""
    shell = ShellComplete(cli, {}, "laissez", "_LAISSEZ_COMPLETE")
    return [item.value for item in shell.get_completions(list(words[:-1]), words[-1])]


def test_completion_offers_names(shop: Shop) -> None:
    """Scopes, holdings and orders of the tenant; scopes level by level for the operator."""
    shop.run("buy", "h100/east/r1", "--price", "2")
    shop.run("buy", "h100", "--price", "1")
    assert completed("quote", "h") == [
        "h100",
        "h100/east",
        "h100/east/r1",
        "h100/east/r1/g0",
    ]
    assert completed("quote", "h100", "h100/east/r1/") == ["h100/east/r1/g0"]
    assert completed("release", "") == ["h100/east/r1/g0"]
    assert completed("release", "h100/east/r1/g0", "") == []
    assert completed("cancel", "o") == ["o-6"]
    assert completed("buy", "--near", "h") == ["h100/east/r1/g0"]
    assert completed("buy", "--near", "h100/east/r1/g0", "--level", "") == ["rack", "zone"]
    shop.become("operator")
    assert completed("topology", "drain", "h100/east/") == ["h100/east/r1", "h100/east/r2"]
    assert completed("floor", "set", "") == ["h100"]
    assert completed("bill", "--tenant", "") == ["ml"]
    assert completed("tokens", "create", "--tenant", "m") == ["ml"]
    shop.operator.do(CordonScope("h100/east/r1"))
    assert completed("topology", "uncordon", "") == ["h100/east/r1"]


def test_completion_is_silent(shop: Shop, capfd: pytest.CaptureFixture[str]) -> None:
    """Where nobody answers, nothing is offered and nothing is said; a second is enough to know."""
    asked: list[float] = []

    def fail(*_: object, patience_s: float) -> object:
        asked.append(patience_s)
        raise ConnectionFailed("nobody answers")

    shop.connect_with(fail)
    assert completed("quote", "h") == []
    assert asked == [1.0] and capfd.readouterr() == ("", "")


def test_completion_offers_levels(shop: Shop) -> None:
    """Those of the tree that was typed, at and under the scope; never that of single resources."""
    shop.operator.do(NameLevels("h100", ("zone", "rack", "gpu")))
    shop.operator.do(OfferResource("b200/x/y"))
    shop.operator.do(NameLevels("b200", ("island", "gpu")))
    assert completed("buy", "h100", "--count", "2", "--within", "") == ["h100", "rack", "zone"]
    assert completed("buy", "h100/east", "--within", "") == ["rack", "zone"]
    assert completed("quote", "b200", "--within", "i") == ["island"]
    assert completed("buy", "--within", "") == ["b200", "h100", "island", "rack", "zone"]


# --- several at once ----------------------------------------------------------------------------


def called_gang(shop: Shop) -> CounterClient:
    """Of two that are wanted, one is free and the other is called; the notice is of ten seconds."""
    shop.operator.do(ChangeGuard("h100", notice=10 * US_PER_S))
    shop.operator.do(NameLevels("h100", ("zone", "rack", "gpu")))
    shop.counter.client("tenant", "bio").do(PlaceOrder("h100/east/r1/g0", 2_000_000, 2_500_000))
    return shop.become("tenant", "ml")


PAIR = ("buy", "h100", "--count", "2", "--within", "rack", "--limit", "3")


def test_what_is_promised_is_told_apart(shop: Shop) -> None:
    """One is here, the other comes: so it is not filled yet, and with --wait it is at the end."""
    called_gang(shop)
    result = shop.run(*PAIR)
    assert result.exit_code == 3
    told = "1 of 2 filled; 1 promised, here by 22:13:30 (in 10s) at the latest\n"
    assert result.stdout.endswith(told)
    assert "what is promised comes by itself" in result.stderr
    shop.run("release", "--all", "--yes")
    shop.counter.sleep_s(10)
    shop.run("release", "--all", "--yes")
    called_gang(shop)
    bought = shop.json(*PAIR, "--wait", "1m")
    assert (len(bought["filled"]), bought["promised"]) == (2, [])
    assert shop.counter.now < NOON_US + 60 * US_PER_S, "no longer than it took"


def test_a_promise_that_can_not_be_kept_is_not_waited_for(shop: Shop) -> None:
    """Nobody is told when what was promised is taken off the market: it is noticed when it is not
    there in time, and what was won stays."""
    called_gang(shop)
    shop.counter.later(lambda: shop.operator.do(WithdrawResource("h100/east/r1/g0")))
    bought = shop.json(*PAIR, "--wait", "1m", exit_code=3)
    assert [each["resource"] for each in bought["filled"]] == ["h100/east/r1/g1"]
    assert (bought["promised"], bought["waiting"], bought["unknown"]) == ([], [], [])
    assert shop.counter.now < NOON_US + 30 * US_PER_S


def test_a_single_order_that_was_promised_waits_again(shop: Shop) -> None:
    """What was promised to it left the market, and it is placed again: it waits, and is told so."""
    called_gang(shop)
    shop.counter.client("tenant", "dan").do(PlaceOrder("h100/east/r1/g1", 2_000_000, 9_000_000))
    words = ("buy", "h100/east/r1", "--price", "3", "--wait")
    assert len(shop.json(*words, "2s", exit_code=3)["promised"]) == 1
    shop.run("release", "h100/east/r1/g0", "--yes")
    shop.counter.later(lambda: None, lambda: shop.operator.do(WithdrawResource("h100/east/r1/g0")))
    bought = shop.json(*words, "5s", exit_code=3)
    assert (bought["promised"], len(bought["waiting"])) == ([], 1)


def test_what_is_no_longer_told_is_looked_for(shop: Shop) -> None:
    """Where the stream does not keep that what was promised has come, it is among the holdings."""
    called_gang(shop)
    rival = shop.counter.client("tenant", "bio")

    def leave_unseen() -> None:
        rival.do(Release("h100/east/r1/g0"))
        shop.counter.told.clear()
        shop.counter.forgotten = shop.counter.sequence

    shop.counter.later(leave_unseen)
    bought = shop.json(*PAIR, "--wait", "1m")
    assert len(bought["filled"]) == 2


def test_the_level_is_known_when_the_service_goes_away(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits is told in the same words as if somebody still answered."""
    client = called_gang(shop)

    def lose(**_: object) -> object:
        monkeypatch.setattr(client, "status", lose)
        raise ConnectionFailed("nobody answers")

    monkeypatch.setattr(client, "listen", lose)
    result = shop.run(*PAIR[:-1], "2.10", "--wait", "1m")
    assert result.exit_code == 4
    assert "o-8 waits for all 2 in one rack of h100 at one instant\n" in result.stdout


def test_every_screen_fits_80_columns(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is called, promised, bound and waited for, where somebody reads it."""
    monkeypatch.setattr(output, "_width", lambda: 80)
    client = called_gang(shop)
    shop.operator.do(ChangeGuard("h100", notice=10 * US_PER_S, commit=3_600 * US_PER_S))
    screens = [shop.text(*PAIR, exit_code=3)]
    client.do(PlaceOrder("h100", None, 2_500_000, "a-longer-name-of-mine", None, 2, 3))
    screens += [
        shop.text(*words)
        for words in (
            ("quote", "h100", "--count", "2", "--within", "rack"),
            ("orders",),
            ("holdings",),
            ("status",),
        )
    ]
    shop.become("tenant", "bio")
    screens.append(shop.text("holdings"))
    shop.become("operator")
    screens += [shop.text("guard", "show"), shop.text("orders"), shop.text("holdings")]
    for screen in screens:
        tables = [line for line in screen.splitlines() if ": " not in line]
        assert max(map(len, tables)) <= 80, screen


# --- the rooms ----------------------------------------------------------------------------------


def test_what_all_need_knows_no_command() -> None:
    """Rooms of commands import `terminal` and not each other; it imports none of them."""
    rooms = {"everybody", "tenant", "operator", "evaluator"}
    for file in (REPO / "src" / "laissez" / "cli").glob("*/*.py"):
        others = rooms - {file.parent.name}
        text = file.read_text()
        assert [room for room in others if f"laissez.cli.{room}" in text] == [], file
