"""Webhooks: every handover reaches the operator's systems, signed and in order, at least once."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import httpx
import msgspec
import pytest

from laissez.exchange import execution
from laissez.exchange import office as administration
from laissez.exchange.addresses import why_not_an_address
from laissez.exchange.journal import NotDurable
from laissez.exchange.office import Office
from laissez.exchange.pipeline import Exchange, Settings
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
# Receivers of these tests are on loopback.
PRIVATE = Settings(private_webhooks=True)
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

    def encrypt(self, shown: ssl.SSLContext) -> None:
        """Speak TLS from now on."""
        self._server.socket = shown.wrap_socket(self._server.socket, server_side=True)

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
        served(tmp_path, *NAMES, settings=PRIVATE) as exchange,
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
        served(tmp_path, *NAMES, settings=PRIVATE) as exchange,
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
        served(tmp_path, *NAMES, settings=PRIVATE) as exchange,
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
        served(tmp_path, *NAMES, settings=PRIVATE) as exchange,
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
        served(tmp_path, *NAMES, settings=PRIVATE) as exchange,
        dial(exchange, "operator") as operator,
        dial(exchange, "ada") as ada,
    ):
        offer(operator, "h100/a/g0")
        info = add(operator, f"http://127.0.0.1:{port}/").info
        expected = trade(ada, 5)
        assert known(operator)[0].delivered == info.delivered, "nothing was delivered yet"
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
        sender._exchange = cast(Exchange, SimpleNamespace(settings=PRIVATE))
        sender._office = cast(Office, SimpleNamespace(last_errors={}))
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
        served(tmp_path, *NAMES, settings=PRIVATE) as exchange,
        dial(exchange, "operator") as operator,
        dial(exchange, "ada") as ada,
    ):
        offer(operator, "h100/a/g0")
        with Receiver(port) as receiver:
            secret = add(operator, url).secret
            first = trade(ada, 3)
            wait_until(lambda: known(operator)[0].delivered == first[-1])
        second = trade(ada, 3)
    with Receiver(port) as receiver, served(tmp_path, *NAMES, settings=PRIVATE) as exchange:
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
        served(tmp_path, *NAMES, settings=PRIVATE) as exchange,
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
            assert missed[-1].until == expected[-5]
            # A post that was under way is posted as it was: a first gap, or the first handovers.
            first = back.taken()[0]
            if isinstance(first, HandoversMissed):
                assert first.after == before
                assert [each.until for each in missed[:-1]] == [each.after for each in missed[1:]]
            else:
                assert first.sequence == expected[0]


def test_a_full_disk_does_not_make_it_post_the_same_for_ever(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bookmark could not be written: that is known, and delivery goes on."""
    with (
        served(tmp_path, *NAMES, settings=PRIVATE) as exchange,
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
        served(tmp_path, *NAMES, settings=PRIVATE) as exchange,
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
        served(tmp_path, *NAMES, settings=PRIVATE) as exchange,
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
        served(tmp_path, *NAMES, settings=PRIVATE) as exchange,
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
    with (
        served(tmp_path, *NAMES, settings=PRIVATE) as exchange,
        dial(exchange, "operator") as operator,
    ):
        assert known(operator) == ()


def test_a_dead_webhook_slows_nobody(tmp_path: Path, receiver: Receiver) -> None:
    """One address refuses, one never answers, one can't be reached by its nature: trading, streams
    and the webhook that works go on."""
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        served(tmp_path, *NAMES, settings=PRIVATE) as exchange,
        dial(exchange, "operator") as operator,
        dial(exchange, "ada") as ada,
    ):
        offer(operator, "h100/a/g0")
        add(operator, f"http://127.0.0.1:{unused_port()}/")
        add(operator, f"http://127.0.0.1:{silent.getsockname()[1]}/")
        add(operator, "http://no-such-host.invalid/")
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
    with (
        served(tmp_path, *NAMES, settings=PRIVATE) as exchange,
        dial(exchange, "operator") as operator,
    ):
        asked = operator.send(*(AddWebhook(receiver.url) for _ in range(20)))
        answers = operator.answers(asked).values()
        assert sum(isinstance(each, Reply) for each in answers) == 16
        refused = {each.code for each in answers if isinstance(each, Refused)}
        assert refused == {"bad_request"} and len(known(operator)) == 16
        operator.ask(RemoveWebhook(known(operator)[0].webhook))
        assert add(operator, receiver.url).info in known(operator)


# Hostile receivers --------------------------------------------------------------------------------


class Hostile:
    """A receiver that reads the post and then answers byte by byte as it likes."""

    def __init__(self, *, head: bytes, again: bytes, every_s: float) -> None:
        self.sent_bytes = 0
        self.posts = 0
        self._head, self._again, self._every_s = head, again, every_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._stop = threading.Event()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def __enter__(self) -> Hostile:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        self._listener.settimeout(0.01)
        while not self._stop.is_set():
            with contextlib.suppress(OSError):
                connection, _ = self._listener.accept()
                with connection:
                    connection.settimeout(0.05)
                    self._torment(connection)

    def _torment(self, connection: socket.socket) -> None:
        connection.recv(65_536)
        self.posts += 1
        connection.sendall(self._head)
        while not self._stop.wait(self._every_s):
            # A socket that is full and not read is what we want to see: try until it is closed.
            with contextlib.suppress(TimeoutError):
                self.sent_bytes += connection.send(self._again)


def is_delivered(operator: RawSocket, sequence: int) -> bool:
    return known(operator)[0].delivered == sequence


GOOD_HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n"


@pytest.mark.parametrize(
    ("again", "every_s"), [(b"x" * 65_536, 0.0), (b"x", 0.05)], ids=["endless", "dripping"]
)
def test_a_body_without_end_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bytes, every_s: float
) -> None:
    """The status says that it was taken. Of the body some KB are read, for a moment, and then the
    connection is closed."""
    monkeypatch.setattr(webhooks, "BODY_TIMEOUT_S", 0.1)
    with (
        Hostile(head=GOOD_HEAD, again=again, every_s=every_s) as hostile,
        served(tmp_path, *NAMES, settings=PRIVATE) as exchange,
        dial(exchange, "operator") as operator,
        dial(exchange, "ada") as ada,
    ):
        offer(operator, "h100/a/g0")
        add(operator, hostile.url)
        for _ in range(3):
            wait_until(partial(is_delivered, operator, trade(ada, 1)[-1]))
        assert known(operator)[0].last_error is None
        assert hostile.posts >= 3
        # What the kernel holds between the two may be several MiB; without end it would be more.
        assert hostile.sent_bytes < hostile.posts * (32 << 20)


def test_an_answer_that_never_comes_to_its_end_is_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A byte now and then keeps no post alive: the deadline is of the whole, and it is told."""
    monkeypatch.setattr(webhooks, "TIMEOUT_S", 0.2)
    head = b"HTTP/1.1 200 OK\r\nX-Slow: "
    with (
        Hostile(head=head, again=b"x", every_s=0.02) as hostile,
        served(tmp_path, *NAMES, settings=PRIVATE) as exchange,
        dial(exchange, "operator") as operator,
        dial(exchange, "ada") as ada,
    ):
        offer(operator, "h100/a/g0")
        before = add(operator, hostile.url).info
        trade(ada, 1)
        wait_until(lambda: hostile.posts >= 3)
        now = known(operator)[0]
        assert now.delivered == before.delivered
        assert now.last_error == "no answer within 0.2 s"


def test_why_it_was_not_taken_is_in_the_list(tmp_path: Path, receiver: Receiver) -> None:
    """As long as it is so, and no longer."""
    with (
        served(tmp_path, *NAMES, settings=PRIVATE) as exchange,
        dial(exchange, "operator") as operator,
        dial(exchange, "ada") as ada,
    ):
        offer(operator, "h100/a/g0")
        receiver.statuses = [500] * 100_000
        assert add(operator, receiver.url).info.last_error is None
        trade(ada, 1)
        wait_until(lambda: known(operator)[0].last_error == "it answered with 500")
        receiver.statuses = []
        wait_until(lambda: known(operator)[0].last_error is None)


def test_no_error_ends_a_sender(
    tmp_path: Path,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Also one that nobody foresaw is waited out; of it only the kind is told, not its text."""
    real, fails = webhooks.post, [True]

    async def post(
        http: httpx.AsyncClient, webhook: Webhook, body: bytes, *, allow_private: bool
    ) -> str | None:
        if fails[0]:
            raise ArithmeticError(webhook.secret)
        return await real(http, webhook, body, allow_private=allow_private)

    monkeypatch.setattr(webhooks, "post", post)
    with (
        served(tmp_path, *NAMES, settings=PRIVATE) as exchange,
        dial(exchange, "operator") as operator,
        dial(exchange, "ada") as ada,
    ):
        offer(operator, "h100/a/g0")
        secret = add(operator, receiver.url).secret
        expected = trade(ada, 2)
        wait_until(lambda: "ArithmeticError" in (known(operator)[0].last_error or ""))
        fails[0] = False
        wait_until(lambda: sequences(receiver.taken()) == expected)
        wait_until(lambda: known(operator)[0].last_error is None)
    assert "ArithmeticError" in caplog.text and secret not in caplog.text


# Which addresses ----------------------------------------------------------------------------------

NO_ADDRESSES = [
    "http://127.0.0.1:99999/",
    "http://127.0.0.1:-1/",
    "http://127.0.0.1:0/",
    "http://127.0.0.1:/",
    "http://127.0.0.1:1e3/",
    "http://-/",
    "http://a..b/",
    "http://\u200b/",
    "http://a b/",
    "http://" + "a" * 64 + "/",
    "http://[::1/",
    "http://[::1]x:80/",
    "http://name:word@example.com/",
    "http://",
    "//example.com/",
    "ftp://example.com/",
]
PRIVATE_NUMBERS = [
    "127.0.0.1",
    "127.9.9.9:8080",
    "[::1]",
    "[::]",
    "0.0.0.0",
    "10.0.0.7",
    "172.16.0.7",
    "192.168.1.1",
    "100.64.0.1",
    "169.254.169.254",
    "192.0.0.192",
    "168.63.129.16",
    "224.0.0.1",
    "255.255.255.255",
    "[fe80::1]",
    "[fe80::1%25lo]",
    "[fd00:ec2::254]",
    "[ff02::1]",
    "[::ffff:10.0.0.7]",
    "[::127.0.0.1]",
    "[64:ff9b::10.0.0.7]",
    "[2002:7f00:1::1]",
]
PUBLIC = [
    "https://example.com",
    "https://example.com:65535/a?b=c",
    "https://a-b.c_d.example.com./",
    "http://8.8.8.8/",
    "http://[2001:4860:4860::8888]:80/",
    "http://[64:ff9b::8.8.8.8]/",
]


def test_an_address_that_can_not_work_is_refused(tmp_path: Path) -> None:
    """With a sentence, when it is added; not when it is needed."""
    with (
        served(tmp_path, *NAMES, settings=PRIVATE) as exchange,
        dial(exchange, "operator") as operator,
    ):
        for url in NO_ADDRESSES:
            refused = operator.ask(AddWebhook(url))
            assert isinstance(refused, Refused), url
            assert refused.code == "bad_request" and len(refused.message) > 20
        assert known(operator) == ()


def test_private_numbers_are_refused_unless_the_operator_allows_them(tmp_path: Path) -> None:
    """Loopback, networks of one's own, the clouds' metadata, and all of them dressed as IPv6."""
    with served(tmp_path, *NAMES) as exchange, dial(exchange, "operator") as operator:
        for number in PRIVATE_NUMBERS:
            refused = operator.ask(AddWebhook(f"http://{number}/"))
            assert isinstance(refused, Refused), number
            assert "--allow-private-webhooks" in refused.message
        for url in PUBLIC:
            operator.ask(RemoveWebhook(add(operator, url).info.webhook))
    for number in PRIVATE_NUMBERS:
        if "%" not in number:
            assert why_not_an_address(f"http://{number}/", allow_private=True) is None


@pytest.mark.parametrize("host", ["localhost", "0x7f000001", "2130706433"])
def test_a_name_that_leads_to_a_private_number_is_not_followed(
    tmp_path: Path, receiver: Receiver, host: str
) -> None:
    """What a name stands for is looked at when the connection is made, however it is written."""
    with (
        served(tmp_path, *NAMES) as exchange,
        dial(exchange, "operator") as operator,
        dial(exchange, "ada") as ada,
    ):
        offer(operator, "h100/a/g0")
        add(operator, f"http://{host}:{receiver.port}/")
        trade(ada, 1)
        wait_until(lambda: known(operator)[0].last_error is not None)
        assert "private" in (known(operator)[0].last_error or "")
    assert receiver.deliveries == []


def test_a_name_is_looked_up_once_for_a_connection(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection goes to the number that was judged, in the name of the host: whoever answers
    for the name has no second chance."""
    looked_up = []

    async def numbers(url: httpx.URL) -> list[str]:
        looked_up.append(url.host)
        return ["127.0.0.1"]

    monkeypatch.setattr(webhooks, "_numbers", numbers)
    with (
        served(tmp_path, *NAMES, settings=PRIVATE) as exchange,
        dial(exchange, "operator") as operator,
        dial(exchange, "ada") as ada,
    ):
        offer(operator, "h100/a/g0")
        add(operator, f"http://handovers.invalid:{receiver.port}/")
        expected = trade(ada, 1)
        wait_until(lambda: sequences(receiver.taken()) == expected)
    assert set(looked_up) == {"handovers.invalid"}
    for delivery in receiver.deliveries:
        assert delivery.headers["Host"] == f"handovers.invalid:{receiver.port}"


def test_a_webhook_of_an_older_journal_that_can_not_work_is_told(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an earlier version took does no harm to the others, and says what is wrong."""
    with (
        monkeypatch.context() as earlier,
        served(tmp_path, *NAMES, settings=PRIVATE) as exchange,
        dial(exchange, "operator") as operator,
    ):
        earlier.setattr(administration, "why_not_an_address", lambda url, allow_private: None)
        for url in ("http://127.0.0.1:99999/", "http://h:-1/", "http://a..b/"):
            add(operator, url)
    with (
        served(tmp_path, *NAMES, settings=PRIVATE) as exchange,
        dial(exchange, "operator") as operator,
        dial(exchange, "ada") as ada,
    ):
        add(operator, receiver.url)
        offer(operator, "h100/a/g0")
        expected = trade(ada, 2)
        wait_until(lambda: sequences(receiver.taken()) == expected)
        wait_until(lambda: sum(each.last_error is not None for each in known(operator)) == 3)
        assert exchange.call(lambda _: _senders_alive(exchange)) == 4


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl")
def test_a_certificate_is_held_against_the_name(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the connection goes to a number, TLS asks for the host's name and checks it."""
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    command += " -subj /CN=hooks -addext subjectAltName=DNS:hooks.example.com"
    paths = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command.split(), *paths], check=True, capture_output=True, timeout=30)
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(certificate, key)
    receiver.encrypt(shown)

    async def numbers(url: httpx.URL) -> list[str]:
        return ["127.0.0.1"]

    monkeypatch.setattr(webhooks, "_numbers", numbers)

    async def post(host: str) -> str | None:
        webhook = Webhook("id", f"https://{host}:{receiver.port}/", "secret", "operator:1", None)
        known_to_us = ssl.create_default_context(cafile=str(certificate))
        async with webhooks.new_http(known_to_us) as http:
            return await webhooks.post(http, webhook, b"[]", allow_private=True)

    assert asyncio.run(post("hooks.example.com")) is None
    assert "ConnectError" in (asyncio.run(post("other.example.com")) or "")
