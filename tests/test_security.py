"""Attacks: what a tenant, a viewer, an operator or a stranger must not be able to do or learn."""

from __future__ import annotations

import logging
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

import httpx
import msgspec
import pytest

from laissez.exchange.access import Access, Limits, Token, hashed, new_token
from laissez.exchange.pipeline import Settings
from laissez.model import (
    AddWebhook,
    Administration,
    AmendOrder,
    Answer,
    AskBill,
    AskFloors,
    AskHoldings,
    AskOrders,
    AskQuote,
    AskResources,
    AskStatus,
    AskTenants,
    Bill,
    CancelOrder,
    ChangeFloor,
    ChangeLimit,
    CreateToken,
    HoldingList,
    Instruction,
    OfferResource,
    OperatorInstruction,
    OperatorQuestion,
    OrderList,
    Placed,
    PlaceOrder,
    Refused,
    Rejected,
    Release,
    Reply,
    Request,
    ServiceCode,
    Subscribe,
    Subscribed,
    TenantInstruction,
    TokenCreated,
    WebhookAdded,
    encode,
)
from laissez.service.server import BadSettings, ServerSettings, check_settings
from raw_websocket import RawSocket, TurnedAway
from serving import Served, make_tokens, served

NAMES = ("operator", "viewer", "ada", "bob")


@pytest.fixture
def exchange(tmp_path: Path) -> Iterator[Served]:
    """Ada holds h100/a/g0 and has an order "secret-plan" resting; bob holds h100/b/g0."""
    with served(tmp_path, *NAMES) as running:
        with dial(running, "operator") as operator:
            for resource in ("h100/a/g0", "h100/b/g0"):
                operator.ask(OfferResource(resource, {"address": f"of {resource}"}))
            operator.ask(ChangeFloor("h100", 7))
        with dial(running, "ada") as ada, dial(running, "bob") as bob:
            ada.ask(PlaceOrder("h100/a", 10, 100, "filled"))
            bob.ask(PlaceOrder("h100/b", 10, 100, "filled"))
            ada.ask(PlaceOrder("h100/a", 20, 30, "secret-plan"))
        yield running


def dial(exchange: Served, name: str) -> RawSocket:
    return RawSocket(exchange.url, exchange.secrets[name])


def digest(exchange: Served) -> str:
    return exchange.call(lambda running: running.execution.venue.digest())


def sequence(exchange: Served) -> int:
    return exchange.call(lambda running: running.execution.sequence)


def refusal(answer: object) -> str:
    """The code with which the service or the market says no."""
    if isinstance(answer, Answer):
        answer = answer.events[-1]
        assert isinstance(answer, Rejected), answer
        return answer.code
    assert isinstance(answer, Refused), answer
    return answer.code


def any_value(kind: Any) -> Any:
    """Something of a type."""
    if isinstance(kind, UnionType):
        kind = get_args(kind)[0]
    literals = get_args(kind)
    if get_origin(kind) is tuple:
        return tuple(f"{any_value(literals[0])}-{n}" for n in range(2))
    if literals and isinstance(literals[0], str):
        return literals[0]
    return {int: 5, str: "h100", bool: True}.get(kind) if isinstance(kind, type) else {}


def any_of(kind: type) -> Any:
    """A request of a kind, with its required fields filled."""
    return kind(
        **{
            field.name: any_value(field.type)
            for field in msgspec.structs.fields(kind)
            if field.required
        }
    )


# One tenant against another -----------------------------------------------------------------------


def test_a_tenant_can_not_touch_what_is_anothers(exchange: Served) -> None:
    """Whatever bob guesses of ada's: it is refused, and nothing has changed."""
    before = digest(exchange)
    attacks: list[tuple[Instruction, str]] = [
        (ChangeLimit("h100/a/g0", 1), "not_the_holder"),
        (Release("h100/a/g0"), "not_the_holder"),
    ]
    for guess in ("secret-plan", "ada/secret-plan", "../ada/secret-plan", "filled/../secret-plan"):
        attacks.append((CancelOrder(guess), "unknown_order"))
        attacks.append((AmendOrder(guess, price=1), "unknown_order"))
    with dial(exchange, "bob") as bob:
        for attack, code in attacks:
            assert refusal(bob.ask(attack)) == code
    assert digest(exchange) == before


@pytest.mark.parametrize("ask", [AskOrders, AskHoldings, AskBill])
def test_a_tenant_can_not_ask_about_another(exchange: Served, ask: type) -> None:
    """Whether there is such a tenant makes no difference to the answer."""
    with dial(exchange, "bob") as bob:
        answers = [bob.ask(ask(tenant=name)) for name in ("ada", "nobody", "operator")]
        assert all(isinstance(each, Refused) for each in answers)
        told = [(a.code, a.message) for a in answers if isinstance(a, Refused)]
        assert told[0][0] == ServiceCode.FORBIDDEN and len(set(told)) == 1
        own, unnamed = bob.ask(ask(tenant="bob")), bob.ask(ask())
        assert isinstance(own, Reply) and isinstance(unnamed, Reply)
        assert b"ada" not in encode(own) + encode(unnamed)


@pytest.mark.parametrize("kind", get_args(OperatorQuestion))
def test_a_tenant_can_not_ask_what_the_operator_asks(exchange: Served, kind: type) -> None:
    with dial(exchange, "bob") as bob:
        assert refusal(bob.ask(any_of(kind))) == ServiceCode.FORBIDDEN


def test_a_stream_tells_nothing_of_another(exchange: Served) -> None:
    """Neither live nor from the past, and a rate that a rival moves comes without its name."""
    with dial(exchange, "bob") as bob, dial(exchange, "ada") as ada:
        assert isinstance(bob.ask(Subscribe(after=0, rates=True)), Subscribed)
        ada.ask(PlaceOrder("h100", 50, 50, "press"))
        ada.ask(CancelOrder("press"))
        ada.ask(PlaceOrder("h100", 150, 150, "take"))
        heard = b"".join(encode(each) for each in bob.quiet(1.3))
        assert b"Lost" in heard
        for secret in (b"ada", b"secret-plan", b"press", b"take", b"h100/a"):
            assert secret not in heard


def shape(answer: object, own_id: str) -> bytes:
    """An answer without the id it is about, its number and its instant."""
    assert isinstance(answer, Answer | Refused)
    text = re.sub(rb'"(id|sequence|at_us)":\d+', b"", encode(answer))
    return text.replace(own_id.encode(), b"ID")


@pytest.mark.parametrize("attack", [CancelOrder, AmendOrder])
def test_the_id_of_anothers_order_is_like_one_that_never_was(
    exchange: Served, attack: type
) -> None:
    with dial(exchange, "bob") as bob:
        answers = {
            shape(bob.ask(any_of(attack).__class__(order=guess)), guess)
            for guess in ("secret-plan", "filled-not", "ada/secret-plan", "ada/nothing")
        }
        assert len(answers) == 1


def test_the_same_order_id_may_be_used_by_two_tenants(exchange: Served) -> None:
    """An id that is taken by another is free: placing tells nothing either."""
    with dial(exchange, "bob") as bob:
        fresh, taken = (
            bob.ask(PlaceOrder("h100", 8, 9, order)) for order in ("never-was", "secret-plan")
        )
        assert shape(fresh, "never-was") == shape(taken, "secret-plan")


def test_what_another_holds_is_refused_like_what_is_idle(exchange: Served) -> None:
    """A refusal does not tell whether a resource is held."""
    with dial(exchange, "operator") as operator:
        operator.ask(OfferResource("h100/c/g0"))
        operator.ask(ChangeFloor("h100/c", 1_000))
    with dial(exchange, "bob") as bob:
        for attack in (Release, lambda path: ChangeLimit(path, 50)):
            told = {shape(bob.ask(attack(path)), path) for path in ("h100/a/g0", "h100/c/g0")}
            assert len(told) == 1


def test_an_order_is_no_way_to_a_quote_that_is_not_visible(exchange: Served) -> None:
    """The quote of a scope becomes the price of an order only where it may be seen."""
    with dial(exchange, "bob") as bob:
        assert refusal(bob.ask(AskQuote("h100/a"))) == "scope_not_visible"
        assert refusal(bob.ask(Subscribe(quotes=("h100/a",)))) == "scope_not_visible"
        for scope in ("h100/a", "h100/a/g0", "h100/nowhere", "nowhere"):
            answer = bob.ask(PlaceOrder(scope, limit=1_000))
            assert isinstance(answer, Refused) and answer.code == "scope_not_visible"
        there = bob.ask(PlaceOrder("h100/a", limit=1_000))
        nowhere = bob.ask(PlaceOrder("h100/x", limit=1_000))
        assert shape(there, "h100/a") == shape(nowhere, "h100/x")
        placed = bob.ask(PlaceOrder("h100", limit=8))
        assert isinstance(placed, Answer) and isinstance(placed.events[0], Placed)


def test_a_tenant_named_like_another_is_another(exchange: Served) -> None:
    """No name can be chosen so that its orders or keys meet those of others."""
    bad = ["ada/secret-plan", "operator:1", "ada\0", "", "a" * 65, " ada", "ada\n", "äda", "../x"]
    with dial(exchange, "operator") as operator:
        for name in bad:
            assert refusal(operator.ask(CreateToken("tenant", name))) == ServiceCode.BAD_REQUEST
        made = operator.ask(CreateToken("tenant", "ADA"))
        assert isinstance(made, Reply) and isinstance(made.told, TokenCreated)
    with RawSocket(exchange.url, made.told.secret) as other:
        assert refusal(other.ask(CancelOrder("secret-plan"))) == "unknown_order"


def test_a_key_of_another_tenant_is_a_new_key(exchange: Served) -> None:
    with dial(exchange, "ada") as ada, dial(exchange, "bob") as bob:
        first = ada.ask(PlaceOrder("h100", 8, 9, "k"), key="shared")
        second = bob.ask(PlaceOrder("h100", 8, 9, "k"), key="shared")
        assert isinstance(first, Answer) and isinstance(second, Answer)
        assert not second.repeated and second.sequence != first.sequence
        assert b"ada" not in encode(second)


# Roles --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*get_args(Instruction), *get_args(Administration)])
@pytest.mark.parametrize("for_tenant", [None, "ada"])
def test_a_viewer_changes_nothing(shared: Served, kind: type, for_tenant: str | None) -> None:
    before = (digest(shared), sequence(shared))
    name = "viewer" if for_tenant is None else "viewer of ada"
    with dial(shared, name) as viewer:
        assert refusal(viewer.ask(any_of(kind))) == ServiceCode.FORBIDDEN
        assert isinstance(viewer.ask(AskStatus()), Reply)
    assert (digest(shared), sequence(shared)) == before


@pytest.mark.parametrize("kind", [*get_args(OperatorInstruction), *get_args(Administration)])
def test_a_tenant_does_not_administer(shared: Served, kind: type) -> None:
    before = (digest(shared), sequence(shared))
    with dial(shared, "ada") as ada:
        assert refusal(ada.ask(any_of(kind))) == ServiceCode.FORBIDDEN
    assert (digest(shared), sequence(shared)) == before


@pytest.mark.parametrize("kind", get_args(TenantInstruction))
def test_the_operator_does_not_trade(shared: Served, kind: type) -> None:
    before = (digest(shared), sequence(shared))
    with dial(shared, "operator") as operator:
        assert refusal(operator.ask(any_of(kind))) == ServiceCode.FORBIDDEN
    assert (digest(shared), sequence(shared)) == before


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One service for all the attacks that are refused by their shape."""
    with served(tmp_path_factory.mktemp("shared"), *NAMES) as running:
        with dial(running, "operator") as operator:
            operator.ask(OfferResource("h100/a/g0"))
            made = operator.ask(CreateToken("viewer", "ada"))
        assert isinstance(made, Reply) and isinstance(made.told, TokenCreated)
        running.secrets["viewer of ada"] = made.told.secret
        yield running


def test_a_viewer_of_a_tenant_sees_what_the_tenant_sees(shared: Served) -> None:
    with dial(shared, "ada") as ada:
        ada.ask(PlaceOrder("h100", 5, 5, "hers"))
    with dial(shared, "viewer of ada") as viewer, dial(shared, "viewer") as all_seeing:
        for question in (AskTenants(), AskResources(), AskFloors(), AskBill("bob")):
            assert refusal(viewer.ask(question)) == ServiceCode.FORBIDDEN
            assert isinstance(all_seeing.ask(question), Reply)
        held = viewer.ask(AskHoldings())
        assert isinstance(held, Reply) and isinstance(held.told, HoldingList)
        assert len(held.told.holdings) == 1
        bill = viewer.ask(AskBill())
        assert isinstance(bill, Reply) and isinstance(bill.told, Bill) and bill.told.tenant == "ada"
        orders = all_seeing.ask(AskOrders("ada"))
        assert isinstance(orders, Reply) and isinstance(orders.told, OrderList)


# How much -----------------------------------------------------------------------------------------


def test_the_allowance_holds_exactly_and_refills(tmp_path: Path) -> None:
    """Of a burst exactly as many get through as the allowance holds; refused ones say when."""
    settings = Settings(limits=Limits(requests_per_s=2, burst=50))
    with (
        served(tmp_path, *NAMES, settings=settings) as exchange,
        dial(exchange, "ada") as ada,
        dial(exchange, "bob") as bob,
    ):
        begun = exchange.call(lambda running: running.clock.now())
        asked = [number for _ in range(5) for number in ada.send(*[AskStatus()] * 40)]
        answers = ada.answers(asked)
        took = exchange.call(lambda running: running.clock.now()) - begun
        through = sum(isinstance(each, Reply) for each in answers.values())
        assert 50 <= through <= 50 + took * 2 // 1_000_000 + 1
        refused = [each for each in answers.values() if isinstance(each, Refused)]
        assert {each.code for each in refused} == {ServiceCode.TOO_MANY_REQUESTS}
        assert all(each.retry_after_ms and each.retry_after_ms <= 501 for each in refused)
        assert isinstance(bob.ask(AskStatus()), Reply), "others have their own"
        ada.answers(ada.send(*[AskStatus()] * 40))
        with dial(exchange, "ada") as another_door:
            asked = another_door.send(*[AskStatus()] * 40)
            through = sum(isinstance(e, Reply) for e in another_door.answers(asked).values())
            assert through < 20, "the allowance is the token's, not the connection's"
        ada.quiet(0.6)
        assert isinstance(ada.ask(AskStatus()), Reply)


def test_what_is_refused_for_haste_is_not_done(tmp_path: Path) -> None:
    settings = Settings(limits=Limits(requests_per_s=1, burst=3))
    with served(tmp_path, *NAMES, settings=settings) as exchange:
        begun = sequence(exchange)
        with dial(exchange, "operator") as operator:
            operator.ask(OfferResource("h100/a/g0"))
        with dial(exchange, "ada") as ada:
            asked = ada.send(*(PlaceOrder("h100", 1, 1, f"o{n}") for n in range(10)))
            done = [each for each in ada.answers(asked).values() if isinstance(each, Answer)]
        assert len(done) == 3 and sequence(exchange) == begun + 4


LONG_NUMBER = 10**4_290
WIDE = "\N{GRINNING FACE}"
MALFORMED: list[tuple[str, Instruction, str]] = [
    ("ada", PlaceOrder("h100", LONG_NUMBER), "bad_price"),
    ("ada", PlaceOrder("h100", 0), "bad_price"),
    ("ada", PlaceOrder("h100", 1, -LONG_NUMBER), "bad_limit"),
    ("ada", PlaceOrder("h100", 1, expires=LONG_NUMBER), "bad_expiry"),
    ("ada", PlaceOrder("h100"), "no_price"),
    ("ada", PlaceOrder("h100//x", 1), "bad_path"),
    ("ada", PlaceOrder("h100/" + WIDE * 600, 1), "bad_request"),
    ("ada", PlaceOrder("h100", 1, order=WIDE * 40), "bad_request"),
    ("ada", PlaceOrder("h100", 1, order="a\nb"), "bad_order_id"),
    ("ada", AmendOrder("x", price=LONG_NUMBER), "bad_price"),
    ("ada", AmendOrder("x", limit=0), "bad_limit"),
    ("ada", CancelOrder("\0"), "bad_order_id"),
    ("ada", ChangeLimit("h100/a/g0", LONG_NUMBER), "bad_limit"),
    ("ada", Release("/"), "bad_path"),
    ("operator", ChangeFloor("h100", LONG_NUMBER), "bad_floor"),
    ("operator", OfferResource("h100/a/g1", {WIDE * 1_000: WIDE * 1_100}), "bad_request"),
]


@pytest.mark.parametrize(("name", "request_of_it", "code"), MALFORMED)
def test_what_is_plainly_malformed_is_never_journaled(
    shared: Served, name: str, request_of_it: Instruction, code: str
) -> None:
    """It is refused before it is written down for ever, in the market's own words."""
    before = sequence(shared)
    with dial(shared, name) as client:
        answer = client.ask(request_of_it)
        assert isinstance(answer, Refused) and refusal(answer) == code
        assert len(answer.message) < 1_000
    assert sequence(shared) == before


def test_an_id_is_a_number_of_64_bits(shared: Served) -> None:
    """It is kept until the answer, so it has an end; what has another is refused as unreadable."""
    with dial(shared, "ada") as ada:
        for number, is_taken in ((2**63 - 1, True), (-(2**63), True), (2**63, False)):
            ada.send_text(b'{"id":%d,"do":{"type":"AskStatus"}}' % number)
            assert isinstance(ada.said(), Reply if is_taken else Refused)


def test_a_tenant_has_a_bounded_number_of_orders(tmp_path: Path) -> None:
    """One too many is refused with a code of its own; when one ends there is room again."""
    settings = Settings(limits=Limits(orders=3))
    with served(tmp_path, *NAMES, settings=settings) as exchange:
        with dial(exchange, "operator") as operator:
            operator.ask(OfferResource("h100/a/g0"))
            operator.ask(ChangeFloor("h100", 7))
        with dial(exchange, "ada") as ada, dial(exchange, "bob") as bob:
            for number in range(3):
                assert isinstance(ada.ask(PlaceOrder("h100", 1, 1, f"{number}")), Answer)
            before = sequence(exchange)
            assert refusal(ada.ask(PlaceOrder("h100", 1))) == "too_many_orders"
            assert sequence(exchange) == before
            assert isinstance(bob.ask(PlaceOrder("h100", 1)), Answer)
            ada.ask(CancelOrder("1"))
            assert isinstance(ada.ask(PlaceOrder("h100", 1)), Answer)


def test_a_tenant_has_a_bounded_number_of_gangs(tmp_path: Path) -> None:
    """Others pay a little for each that waits. Those that are under way at once count, too."""
    settings = Settings(limits=Limits(gangs=3))
    with served(tmp_path, *NAMES, settings=settings) as exchange:
        with dial(exchange, "operator") as operator:
            for leaf in range(2):
                operator.ask(OfferResource(f"h100/a/g{leaf}"))
            operator.ask(ChangeFloor("h100", 7))
        with dial(exchange, "ada") as ada:
            asked = ada.send(*[PlaceOrder("h100", limit=1, count=2)] * 5)
            answers = ada.answers(asked)
            told = [answers[each] for each in asked]
            assert [isinstance(each, Answer) for each in told] == [True] * 3 + [False] * 2
            assert refusal(told[-1]) == "too_many_orders"
            assert isinstance(ada.ask(PlaceOrder("h100", 1)), Answer)


@pytest.mark.parametrize(
    ("name", "request_of_it"),
    [
        ("ada", PlaceOrder("h" * 3_000, 1)),
        ("ada", PlaceOrder("h100", 1, order="o" * 129)),
        ("ada", PlaceOrder("h100", 1, order="")),
        ("ada", CancelOrder("o" * 129)),
        ("ada", AskQuote("h" * 3_000)),
        ("ada", Subscribe(quotes=("h100",) * 101)),
        ("operator", OfferResource("a/b", {"c": "d" * 9_000})),
        ("operator", OfferResource("a/b", {f"n{n}": "" for n in range(65)})),
        ("operator", CreateToken("tenant", "t", note="n" * 201)),
        ("operator", CreateToken("tenant", "t", lifetime_s=10**20)),
        ("operator", CreateToken("tenant", "t", lifetime_s=0)),
        ("operator", AddWebhook("http://h/" + "p" * 3_000)),
        ("operator", AddWebhook("file:///etc/passwd")),
        ("operator", AddWebhook("gopher://x")),
        ("operator", AddWebhook("http://")),
    ],
)
def test_nothing_is_taken_that_is_too_large(shared: Served, name: str, request_of_it: Any) -> None:
    before = digest(shared)
    with dial(shared, name) as guest:
        assert refusal(guest.ask(request_of_it)) == ServiceCode.BAD_REQUEST
        key = "k" * 129
        assert refusal(guest.ask(PlaceOrder("h100", 1), key=key)) in {"bad_request", "forbidden"}
    assert digest(shared) == before


# Secrets ------------------------------------------------------------------------------------------


@pytest.fixture
def everything_logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Every logger there is says all it can."""
    loggers = [logging.getLogger(name) for name in (*logging.root.manager.loggerDict, "picows")]
    levels = [logger.level for logger in loggers]
    caplog.set_level(logging.DEBUG)
    for logger in loggers:
        logger.setLevel(logging.DEBUG)
    yield caplog
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


def use_secrets(exchange: Served) -> list[str]:
    """Use tokens at all doors, well and badly, make and end some; all secrets that were used."""
    used = [*exchange.secrets.values()]
    with dial(exchange, "operator") as operator:
        made = operator.ask(CreateToken("tenant", "eve", note="a note"), key="once")
        assert isinstance(made, Reply) and isinstance(made.told, TokenCreated)
        again = operator.ask(CreateToken("tenant", "eve", note="a note"), key="once")
        assert made.told.secret.encode() not in encode(msgspec.convert(again, Refused))
        used.append(made.told.secret)
        hook = operator.ask(AddWebhook("https://hooks.invalid/"))
        assert isinstance(hook, Reply) and isinstance(hook.told, WebhookAdded)
        operator.ask(OfferResource("h100/a/g0"))
        operator.send_text(b'{"id":"' + used[0].encode())
        assert used[0].encode() not in encode(operator.said())
    with dial(exchange, "ada") as ada:
        ada.ask(PlaceOrder("h100", 1))
        ada.send_raw(b"\xff\xff")
        ada.until_closed()
    wrong = "lz_" + "wrong" * 8
    with pytest.raises(TurnedAway) as away:
        RawSocket(exchange.url, wrong)
    assert wrong.encode() not in away.value.headers + away.value.body
    for secret in (used[0], wrong):
        header = {"Authorization": f"Bearer {secret}"}
        for path in ("/v1/status", "/v1/nowhere", "/v1/orders"):
            told = httpx.get(exchange.url + path, headers=header)
            assert secret not in told.text + str(told.headers)
            told = httpx.post(exchange.url + path, headers=header, content=b"{")
            assert secret not in told.text + str(told.headers)
    return [*used, wrong, hook.told.secret]


def test_no_secret_is_ever_logged(
    tmp_path: Path, everything_logged: pytest.LogCaptureFixture
) -> None:
    with served(tmp_path, *NAMES) as exchange:
        secrets = use_secrets(exchange)
    said = everything_logged.text + "".join(str(r.__dict__) for r in everything_logged.records)
    assert "127.0.0.1" in said, "the loggers do say something"
    assert [secret for secret in secrets if secret in said] == []


def test_no_secret_of_a_token_is_in_the_journal(tmp_path: Path) -> None:
    """Not in the file, not in the write-ahead log; only its hash is kept."""
    with served(tmp_path, *NAMES) as exchange:
        secrets = use_secrets(exchange)
        files = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert {"journal.sqlite", "journal.sqlite-wal"} <= files.keys()
    after = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for secret in secrets[:-1]:  # the last signs webhooks, and must be known to do so
        kept = b"".join(files.values()) + after
        assert secret.encode() not in kept and secret.removeprefix("lz_").encode() not in kept
    assert hashed(secrets[0]).encode() in after


def test_no_secret_is_in_what_is_printed_of_an_object(exchange: Served) -> None:
    secret, token = new_token("tenant", "ada", at=0)
    access = Access([token], Limits())
    principal = access.who(secret, 1)
    shown = f"{token!r} {token!s} {principal!r} {access!r} {token.info!r}"
    assert secret not in shown and secret.removeprefix("lz_") not in shown
    with dial(exchange, "operator") as operator:
        made = operator.ask(AddWebhook("https://hooks.invalid/"))
        assert isinstance(made, Reply) and isinstance(made.told, WebhookAdded)
        (webhook,) = exchange.running.office.webhooks.values()
        assert made.told.secret not in repr(webhook)


def test_a_child_process_says_no_secret(tmp_path: Path) -> None:
    """Neither on stdout nor on stderr, whatever is thrown at it."""
    secrets = make_tokens(tmp_path, *NAMES)
    child = subprocess.Popen(
        [sys.executable, "-X", "dev", "-m", "laissez.service", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        first_line = child.stdout.readline()
        url = msgspec.json.decode(first_line)["url"]
        for name in NAMES:
            with RawSocket(url, secrets[name]) as guest:
                assert isinstance(guest.ask(AskStatus()), Reply)
                guest.send_raw(b"\x00\x00\x00")
                guest.until_closed()
            httpx.post(f"{url}/v1/orders", headers={"Authorization": f"Bearer {secrets[name]}"})
        child.send_signal(signal.SIGTERM)
        rest, errors = child.communicate(timeout=30)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == 0
    said = first_line + rest + errors
    assert [name for name, secret in secrets.items() if secret[3:] in said] == []


def test_tokens_are_long_random_and_found_by_their_hash_alone() -> None:
    """An unknown secret and one that is nearly right take the same way: hash, then look it up.
    No part of a secret is ever compared, so there is no time to be measured."""
    secrets = {new_token("operator", None, at=0)[0] for _ in range(100)}
    assert len(secrets) == 100 and all(len(secret) == 46 for secret in secrets)

    looked_up: list[str] = []

    class Watched(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            looked_up.append(key)
            return super().get(key, default)

    secret, token = new_token("operator", None, at=0)
    access = Access([token], Limits())
    access._principals = Watched(access._principals)
    tried = [secret, secret[:-1] + "x", "lz_unknown", "", secret.upper()]
    found = [access.who(each, 1) for each in tried]
    assert [each is not None for each in found] == [True, False, False, False, False]
    assert looked_up == [hashed(each) for each in tried]
    assert secret not in msgspec.json.encode(token).decode()


def test_a_dead_token_is_nobodys() -> None:
    secret, token = new_token("tenant", "ada", at=0, lifetime_us=10)
    access = Access([token], Limits())
    assert access.who(secret, 9) is not None and access.who(secret, 10) is None
    revoked: Token = msgspec.structs.replace(token, revoked_us=5, expires_us=None)
    access.replace(revoked)
    assert access.who(secret, 6) is None


# Where it listens, what it writes -----------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com", ""])
def test_tokens_do_not_cross_a_network_in_the_clear(tmp_path: Path, host: str) -> None:
    """Beyond loopback only with TLS, one's own or a proxy's."""
    with pytest.raises(BadSettings, match=r"without TLS, tokens would cross .*; give a cert"):
        check_settings(ServerSettings(tmp_path, host=host))
    check_settings(ServerSettings(tmp_path, host=host, behind_proxy=True))


def test_it_listens_on_loopback_unless_told_otherwise(shared: Served, tmp_path: Path) -> None:
    assert ServerSettings(tmp_path).host == "127.0.0.1"
    assert shared.url.startswith("http://127.0.0.1:")
    for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"):
        check_settings(ServerSettings(tmp_path, host=host))
    with pytest.raises(BadSettings, match="both"):
        check_settings(ServerSettings(tmp_path, tls_key=tmp_path))


def test_the_journal_is_for_its_owner_only(tmp_path: Path) -> None:
    """Whatever the umask says: the folder and all files in it."""
    folder = tmp_path / "made" / "here"
    umask = os.umask(0)
    try:
        with served(folder, *NAMES) as exchange, dial(exchange, "operator") as operator:
            operator.ask(OfferResource("h100/a/g0"))
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    finally:
        os.umask(umask)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {mode for name, mode in modes.items() if name.startswith("journal")} == {0o600}


def test_requests_of_every_kind_were_tried() -> None:
    """The lists above are read off the model: here it is made sure that they are not empty, and
    that what they make can be sent."""
    kinds = [*get_args(Instruction), *get_args(Administration)]
    assert len(kinds) >= 18
    for kind in kinds:
        assert encode(Request(1, any_of(kind)))
