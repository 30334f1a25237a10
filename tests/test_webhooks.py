"""Webhooks: every handover reaches the operator's systems, signed and in order, at least once."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import msgspec
import pytest

from laissez.exchange import execution
from laissez.exchange.journal import NotDurable
from laissez.exchange.office import Office
from laissez.exchange.records import Webhook
from laissez.model import (
    AddWebhook,
    Answer,
    AskWebhooks,
    Handover,
    HandoversMissed,
    OfferResource,
    PlaceOrder,
    Refused,
    Release,
    RemoveWebhook,
    Reply,
    Subscribe,
    WebhookAdded,
    WebhookInfo,
    WebhookList,
    WithdrawResource,
)
from laissez.service import webhooks
from raw_websocket import RawSocket
from serving import Served, served

NAMES = ("operator", "ada", "bob")
Posted = Handover | HandoversMissed


class Delivery(msgspec.Struct):
    """One post, as it arrived."""

    headers: dict[str, str]
    body: bytes
    answered: int

    @property
    def handovers(self) -> list[Posted]:
        return msgspec.json.decode(self.body, type=list[Posted])


class Receiver:
    """The operator's system: answers what it is told to, and keeps what came."""

    def __init__(self, port: int = 0) -> None:
        self.deliveries: list[Delivery] = []
        self.statuses: list[int] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = receiver.statuses.pop(0) if receiver.statuses else 204
                receiver.deliveries.append(Delivery(dict(self.headers), body, status))
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", receiver.url + "elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Keep quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def __enter__(self) -> Receiver:
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def taken(self) -> list[Posted]:
        """All handovers that were answered with success, in the order in which they came."""
        good = [each for each in tuple(self.deliveries) if 200 <= each.answered < 300]
        return [handover for delivery in good for handover in delivery.handovers]


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(webhooks, "LONGEST_WAIT_S", 0.1)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


def wait_until(is_so: Callable[[], bool]) -> None:
    for _ in range(2_000):
        if is_so():
            return
        time.sleep(0.01)
    pytest.fail("it did not come about")


def dial(exchange: Served, name: str) -> RawSocket:
    return RawSocket(exchange.url, exchange.secrets[name])


def offer(operator: RawSocket, *resources: str) -> None:
    asked = [OfferResource(each, {"address": f"at {each}"}) for each in resources]
    operator.answers(operator.send(*asked))


def add(operator: RawSocket, url: str) -> WebhookAdded:
    made = operator.ask(AddWebhook(url))
    assert isinstance(made, Reply) and isinstance(made.told, WebhookAdded)
    return made.told


def known(operator: RawSocket) -> tuple[WebhookInfo, ...]:
    told = operator.ask(AskWebhooks())
    assert isinstance(told, Reply) and isinstance(told.told, WebhookList)
    return told.told.webhooks


def trade(tenant: RawSocket, times: int, resource: str = "h100/a/g0") -> list[int]:
    """Take and give back: the sequence number of each handover."""
    done = []
    for _ in range(times):
        for asked in (PlaceOrder(resource, 5, 5), Release(resource)):
            answer = tenant.ask(asked)
            assert isinstance(answer, Answer)
            done.append(answer.sequence)
    return done


def sequences(posted: list[Posted]) -> list[int]:
    return [each.sequence for each in posted if isinstance(each, Handover)]


def unused_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


# What arrives -------------------------------------------------------------------------------------


def test_every_handover_is_told_with_its_two_sides(tmp_path: Path, receiver: Receiver) -> None:
    """From whom, to whom, why, and where the resource is; nothing from before the webhook."""
    with (
        served(tmp_path, *NAMES) as exchange,
        dial(exchange, "operator") as operator,
        dial(exchange, "ada") as ada,
        dial(exchange, "bob") as bob,
    ):
        offer(operator, "h100/a/g0")
        trade(ada, 1)
        add(operator, receiver.url)
        ada.ask(PlaceOrder("h100", 5, 5))
        bob.ask(PlaceOrder("h100", 7, 9))
        bob.ask(Release("h100/a/g0"))
        ada.ask(PlaceOrder("h100", 5, 5))
        operator.ask(WithdrawResource("h100/a/g0"))
        wait_until(lambda: len(receiver.taken()) == 5)
        told = [each for each in receiver.taken() if isinstance(each, Handover)]
        assert [(each.old, each.new, each.reason) for each in told] == [
            (None, "ada", "idle"),
            ("ada", "bob", "outbid"),
            ("bob", None, "relinquished"),
            (None, "ada", "idle"),
            ("ada", None, "withdrawn"),
        ]
        assert {each.resource for each in told} == {"h100/a/g0"}
        assert all(each.attributes == {"address": "at h100/a/g0"} for each in told[:4])
        assert sequences(receiver.taken()) == sorted(sequences(receiver.taken()))


def test_posts_are_signed_as_documented(tmp_path: Path, receiver: Receiver) -> None:
    """`t=SECONDS,v1=HEX`: HMAC-SHA256 of the seconds, a dot and the body, under the secret that
    was shown once; no other secret and no other body has the same."""
    with (
        served(tmp_path, *NAMES) as exchange,
        dial(exchange, "operator") as operator,
        dial(exchange, "ada") as ada,
    ):
        offer(operator, "h100/a/g0")
        one, two = add(operator, receiver.url), add(operator, receiver.url + "two")
        assert one.secret != two.secret and len(one.secret) >= 40
        trade(ada, 1)
        wait_until(lambda: len(receiver.taken()) == 4)
        for delivery in receiver.deliveries:
            name, body = delivery.headers["Laissez-Webhook"], delivery.body
            right, wrong = (one, two) if name == one.info.webhook else (two, one)
            seconds, signed = (
                part.split("=", 1)[1] for part in delivery.headers["Laissez-Signature"].split(",")
            )
            assert abs(int(seconds) - time.time()) < 60

            def expected(secret: str, data: bytes, at: str = seconds) -> str:
                return hmac.new(
                    secret.encode(), at.encode() + b"." + data, hashlib.sha256
                ).hexdigest()

            assert signed == expected(right.secret, body)
            assert signed != expected(wrong.secret, body)
            assert signed != expected(right.secret, body + b" ")
            assert delivery.headers["Content-Type"] == "application/json"


def test_many_handovers_go_in_order_in_few_posts(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Handovers of one command are never torn apart, because its number is the bookmark."""
    monkeypatch.setattr(webhooks, "BATCH_MAX", 7)
    with (
        served(tmp_path, *NAMES) as exchange,
        dial(exchange, "operator") as operator,
        dial(exchange, "ada") as ada,
    ):
        resources = [f"h100/a/g{number}" for number in range(20)]
        receiver.statuses = [500] * 5
        add(operator, receiver.url)
        asked = ada.send(*(PlaceOrder("h100", 5, 5) for _ in range(20)))
        ada.answers(asked)
        offer(operator, *resources)
        asked = ada.send(*(PlaceOrder("h100", 5, 5) for _ in range(20)))
        ada.answers(asked)
        asked = ada.send(*(Release(resource) for resource in resources))
        ada.answers(asked)
        wait_until(lambda: len(receiver.taken()) >= 40)
        told = sequences(receiver.taken())
        assert told == sorted(told) and len(told) == 40
        for delivery in receiver.deliveries:
            ends = [each.sequence for each in delivery.handovers if isinstance(each, Handover)]
            assert len(ends) <= 7


# Until it is taken --------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [500, 503, 404, 302, 429])
def test_what_is_not_taken_is_posted_again(tmp_path: Path, receiver: Receiver, status: int) -> None:
    """The same bytes, until the receiver says 2xx; then what came meanwhile, once. A redirect is
    not followed: handovers go where the operator said."""
    with (
        served(tmp_path, *NAMES) as exchange,
        dial(exchange, "operator") as operator,
        dial(exchange, "ada") as ada,
    ):
        offer(operator, "h100/a/g0")
        receiver.statuses = [status] * 4
        add(operator, receiver.url)
        expected = trade(ada, 3)
        wait_until(lambda: sequences(receiver.taken()) == expected)
        first = receiver.deliveries[:5]
        assert [each.answered for each in first] == [status] * 4 + [204]
        assert len({each.body for each in first}) == 1


def test_a_receiver_that_is_away_gets_everything_when_it_is_back(tmp_path: Path) -> None:
    port = unused_port()
    with (
        served(tmp_path, *NAMES) as exchange,
        dial(exchange, "operator") as operator,
        dial(exchange, "ada") as ada,
    ):
        offer(operator, "h100/a/g0")
        info = add(operator, f"http://127.0.0.1:{port}/").info
        expected = trade(ada, 5)
        assert known(operator) == (info,), "nothing was delivered yet"
        with Receiver(port) as back:
            wait_until(lambda: sequences(back.taken()) == expected)
            wait_until(lambda: known(operator)[0].delivered == expected[-1])


def test_waits_grow_up_to_a_bound(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each wait is up to twice the one before, spread by chance, and never above the longest."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(webhooks, "FIRST_WAIT_S", 0.5)
    monkeypatch.setattr(webhooks, "LONGEST_WAIT_S", 300)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    receiver.statuses = [500] * 15

    async def post() -> None:
        webhook = Webhook("id", receiver.url, "secret", "operator:1", None)
        sender = webhooks.Webhooks.__new__(webhooks.Webhooks)
        async with httpx.AsyncClient() as http:
            await sender._post_until_taken(http, webhook, b"[]")

    asyncio.run(post())
    assert len(waits) == 15
    for number, wait in enumerate(waits):
        longest = min(0.5 * 2**number, 300)
        assert longest / 2 <= wait <= longest


def test_a_restart_goes_on_where_it_was(tmp_path: Path) -> None:
    """What was taken does not come again; what was not comes, also from before the restart."""
    port = unused_port()
    url = f"http://127.0.0.1:{port}/"
    with (
        served(tmp_path, *NAMES) as exchange,
        dial(exchange, "operator") as operator,
        dial(exchange, "ada") as ada,
    ):
        offer(operator, "h100/a/g0")
        with Receiver(port) as receiver:
            secret = add(operator, url).secret
            first = trade(ada, 3)
            wait_until(lambda: known(operator)[0].delivered == first[-1])
        second = trade(ada, 3)
    with Receiver(port) as receiver, served(tmp_path, *NAMES) as exchange:
        with dial(exchange, "ada") as ada:
            third = trade(ada, 1)
        wait_until(lambda: sequences(receiver.taken()) == second + third)
        delivery = receiver.deliveries[0]
        seconds = int(delivery.headers["Laissez-Signature"].split(",")[0][2:])
        signature = webhooks.signature(secret, seconds, delivery.body)
        assert delivery.headers["Laissez-Signature"] == signature


def test_what_is_too_old_is_said_to_be_missing(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receiver that was away for longer than we remember is told the gap, then the rest."""
    monkeypatch.setattr(execution, "HANDOVERS_KEPT", 4)
    port = unused_port()
    with (
        served(tmp_path, *NAMES) as exchange,
        dial(exchange, "operator") as operator,
        dial(exchange, "ada") as ada,
    ):
        offer(operator, "h100/a/g0")
        trade(ada, 1)
        before = add(operator, f"http://127.0.0.1:{port}/").info.delivered
        expected = trade(ada, 8)
        with Receiver(port) as back:
            wait_until(lambda: sequences(back.taken())[-4:] == expected[-4:])
            missed = [each for each in back.taken() if isinstance(each, HandoversMissed)]
            assert missed == [HandoversMissed(before, expected[-5])] or (
                sequences(back.taken())[0] == expected[0] and missed[-1].until == expected[-5]
            ), "a post that was under way is posted as it was"


def test_a_full_disk_does_not_make_it_post_the_same_for_ever(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bookmark could not be written: that is known, and delivery goes on."""
    with (
        served(tmp_path, *NAMES) as exchange,
        dial(exchange, "operator") as operator,
        dial(exchange, "ada") as ada,
    ):
        offer(operator, "h100/a/g0")
        add(operator, receiver.url)

        async def full(*_: object) -> None:
            raise NotDurable("database or disk is full")

        monkeypatch.setattr(Office, "save_delivered", full)
        expected = trade(ada, 3)
        wait_until(lambda: sequences(receiver.taken())[-1:] == expected[-1:])
        assert sequences(receiver.taken()) == expected


# Which webhooks there are -------------------------------------------------------------------------


def test_a_removed_webhook_gets_nothing_more(tmp_path: Path, receiver: Receiver) -> None:
    """Not even after a restart, and not if it was removed in the middle of a delivery."""
    port = unused_port()
    with (
        served(tmp_path, *NAMES) as exchange,
        dial(exchange, "operator") as operator,
        dial(exchange, "ada") as ada,
    ):
        offer(operator, "h100/a/g0")
        stays = add(operator, receiver.url).info
        goes = add(operator, receiver.url + "goes").info
        dead = add(operator, f"http://127.0.0.1:{port}/").info
        first = trade(ada, 1)
        wait_until(lambda: len(receiver.taken()) == 4)
        for webhook in (goes, dead):
            assert isinstance(operator.ask(RemoveWebhook(webhook.webhook)), Reply)
            again = operator.ask(RemoveWebhook(webhook.webhook))
            assert isinstance(again, Refused) and again.code == "not_found"
        second = trade(ada, 1)
        wait_until(lambda: len(receiver.taken()) == 6)
        assert [each.webhook for each in known(operator)] == [stays.webhook]
    with (
        served(tmp_path, *NAMES) as exchange,
        dial(exchange, "operator") as operator,
        dial(exchange, "ada") as ada,
    ):
        assert [each.webhook for each in known(operator)] == [stays.webhook]
        third = trade(ada, 1)
        wait_until(lambda: len(receiver.taken()) == 8)
    by_name: dict[str, list[int]] = {}
    for delivery in receiver.deliveries:
        by_name.setdefault(delivery.headers["Laissez-Webhook"], []).extend(
            sequences(delivery.handovers)
        )
    assert by_name == {stays.webhook: first + second + third, goes.webhook: first}


def test_a_webhook_removed_while_it_is_busy_stays_removed(
    tmp_path: Path, receiver: Receiver
) -> None:
    """A bookmark that is written late does not bring it back."""
    with (
        served(tmp_path, *NAMES) as exchange,
        dial(exchange, "operator") as operator,
        dial(exchange, "ada") as ada,
    ):
        offer(operator, "h100/a/g0")
        office = exchange.running.office
        for _ in range(5):
            added = add(operator, receiver.url).info
            webhook = office.webhooks[added.webhook]
            asked = ada.send(PlaceOrder("h100", 5, 5), Release("h100/a/g0"))
            assert isinstance(operator.ask(RemoveWebhook(added.webhook)), Reply)
            ada.answers(asked)
            late = office.save_delivered(webhook, 1)
            asyncio.run_coroutine_threadsafe(late, exchange.loop).result(10)
    with served(tmp_path, *NAMES) as exchange, dial(exchange, "operator") as operator:
        assert known(operator) == ()


def test_a_dead_webhook_slows_nobody(tmp_path: Path, receiver: Receiver) -> None:
    """One address refuses, one never answers, one can't be reached by its nature: trading, streams
    and the webhook that works go on."""
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        served(tmp_path, *NAMES) as exchange,
        dial(exchange, "operator") as operator,
        dial(exchange, "ada") as ada,
    ):
        offer(operator, "h100/a/g0")
        add(operator, f"http://127.0.0.1:{unused_port()}/")
        add(operator, f"http://127.0.0.1:{silent.getsockname()[1]}/")
        for odd in ("http://127.0.0.1:99999/", "http://-/", "http://a..b/", "http://\u200b/"):
            asked = operator.ask(AddWebhook(odd))
            assert isinstance(asked, Reply | Refused)
        add(operator, receiver.url)
        ada.ask(Subscribe())
        expected = trade(ada, 50)
        wait_until(lambda: sequences(receiver.taken()) == expected)
        alive = exchange.call(lambda _: _senders_alive(exchange))
        assert alive == len(known(operator)), "every sender keeps trying"


def _senders_alive(exchange: Served) -> int:
    """Senders that still try: one that died would never deliver again."""
    sender = getattr(exchange.running.office.on_webhooks_changed, "__self__")  # noqa: B009
    return sum(not task.done() for task in sender._senders.values())


def test_there_are_at_most_sixteen(tmp_path: Path, receiver: Receiver) -> None:
    """Also when they are asked for all at once."""
    with served(tmp_path, *NAMES) as exchange, dial(exchange, "operator") as operator:
        asked = operator.send(*(AddWebhook(receiver.url) for _ in range(20)))
        answers = operator.answers(asked).values()
        assert sum(isinstance(each, Reply) for each in answers) == 16
        refused = {each.code for each in answers if isinstance(each, Refused)}
        assert refused == {"bad_request"} and len(known(operator)) == 16
        operator.ask(RemoveWebhook(known(operator)[0].webhook))
        assert add(operator, receiver.url).info in known(operator)
