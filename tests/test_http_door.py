"""The HTTP side of the door: whoever dawdles or floods is shown out, before and after a token."""

import asyncio
import contextlib
import errno
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from laissez.exchange.access import Limits
from laissez.exchange.pipeline import Settings
from laissez.model import AskStatus, OfferResource, PlaceOrder, Reply
from laissez.service import entrance, paid, patience, server, visitor
from laissez.service.entrance import DESCRIPTORS_KEPT, Entrance
from laissez.service.strangers import Strangers
from raw_websocket import RawSocket, TurnedAway, handshake
from serving import Served, served

TIMEOUT_S = 30
HEALTH = b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n"


def dial(url: str) -> socket.socket:
    host, _, port = url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), TIMEOUT_S)


def hear_all(connection: socket.socket) -> bytes:
    """Everything until the other side hangs up."""
    heard = b""
    while chunk := connection.recv(65_536):
        heard += chunk
    return heard


@pytest.mark.parametrize("sent", [b"", b"GET /v1/status HTTP/1.1\r\nHost: x\r\n"])
def test_a_caller_that_says_nothing_is_hung_up_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    """A connection on which no whole request arrives does not stay open."""
    monkeypatch.setattr(visitor, "HANDSHAKE_S", 0.2)
    with served(tmp_path) as service, dial(service.url) as connection:
        connection.sendall(sent)
        assert hear_all(connection) == b""


def test_endless_headers_are_refused(tmp_path: Path) -> None:
    """Headers have a bound, and what goes beyond it is not kept."""
    with served(tmp_path) as service, dial(service.url) as connection:
        connection.sendall(b"GET /v1/health HTTP/1.1\r\nHost: x\r\n")
        try:
            for number in range(2_000):
                connection.sendall(b"X-%d: %b\r\n" % (number, b"x" * 1_000))
            heard = hear_all(connection)
        except ConnectionError:  # it hung up while we were still talking
            return
        assert heard.startswith(b"HTTP/1.1 400")


def test_a_caller_between_requests_is_not_hung_up_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The patience is for the first request; after it a connection may rest a while."""
    monkeypatch.setattr(patience, "REQUEST_HEAD_S", 0.2)
    with served(tmp_path) as service, dial(service.url) as connection:
        for _ in range(2):
            connection.sendall(b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
            connection.settimeout(0.6)
            with pytest.raises(TimeoutError):
                connection.recv(1)
            connection.settimeout(TIMEOUT_S)


def drip(connection: socket.socket, data: bytes) -> bool:
    """Send byte by byte; True if the other side hung up meanwhile."""
    connection.settimeout(0.05)
    try:
        for number in range(len(data)):
            connection.sendall(data[number : number + 1])
            with contextlib.suppress(TimeoutError):
                if connection.recv(65_536) == b"":
                    return True
    except ConnectionError:
        return True
    return False


@pytest.mark.parametrize("requests_before", [0, 1])
def test_dripping_helps_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, requests_before: int
) -> None:
    """A head has so much time from its first byte to its last, the second one, too."""
    monkeypatch.setattr(patience, "REQUEST_HEAD_S", 0.3)
    monkeypatch.setattr(visitor, "HANDSHAKE_S", 0.3)
    with served(tmp_path) as service, dial(service.url) as connection:
        for _ in range(requests_before):
            connection.sendall(HEALTH)
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
        assert drip(connection, b"GET /v1/health HTTP/1.1\r\nX-Long: " + b"x" * 400)


@pytest.mark.parametrize("has_token", [False, True])
def test_a_body_has_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_token: bool
) -> None:
    monkeypatch.setattr(patience, "BODY_S", 0.3)
    with served(tmp_path, "ada") as service, dial(service.url) as connection:
        token = service.secrets["ada"].encode() if has_token else b"lz_nobody"
        connection.sendall(
            b"POST /v1/orders HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"
            b"Authorization: Bearer " + token + b"\r\n\r\n"
        )
        assert drip(connection, b"x" * 400)


# Strangers ----------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A service with descriptors for twenty connections: ten strangers, five from one address."""
    monkeypatch.setattr(server, "raise_descriptor_limit", lambda: DESCRIPTORS_KEPT + 20)
    with served(tmp_path, "operator", "ada") as service:
        yield service


def test_strangers_do_not_lock_tenants_out(small: Served) -> None:
    """However many connect and say nothing: who has a token stays, and others of them get in."""
    with contextlib.ExitStack() as open_ones:
        ada = open_ones.enter_context(RawSocket(small.url, small.secrets["ada"]))
        silent = [open_ones.enter_context(dial(small.url)) for _ in range(60)]
        assert isinstance(ada.ask(AskStatus()), Reply)
        late = open_ones.enter_context(RawSocket(small.url, small.secrets["operator"]))
        assert isinstance(late.ask(AskStatus()), Reply)
        with dial(small.url) as http:
            for _ in range(3):
                http.sendall(HEALTH)
                assert http.recv(65_536).startswith(b"HTTP/1.1 200")
        for connection in silent[:50]:
            assert connection.recv(1) == b"", "the oldest were hung up on"


def test_a_stranger_that_was_turned_away_leaves_its_place(small: Served) -> None:
    for _ in range(40):
        with pytest.raises(TurnedAway):
            RawSocket(small.url, "lz_nobody")
        with dial(small.url) as http:
            http.sendall(b"GET /v1/status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert hear_all(http).startswith(b"HTTP/1.1 401")


class Exhausted(socket.socket):
    """A listener that finds no descriptors left at first."""

    failures = 3

    def accept(self) -> tuple[socket.socket, Any]:
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


def test_without_descriptors_left_it_waits_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """No traceback and no busy loop: a moment later it tries again."""
    monkeypatch.setattr(entrance, "BREATH_S", 0.01)

    class Greeting(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            assert isinstance(transport, asyncio.Transport)
            transport.write(b"hello")
            transport.close()

    async def run() -> None:
        with Exhausted() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            way_in = Entrance(
                listener,
                lambda _: Greeting(),
                None,
                Strangers(),
                connections_max=5,
                strangers_max=5,
                from_one_address_max=5,
            )
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            writer.write(HEALTH)
            assert await reader.read() == b"hello"
            assert listener.failures == 0
            writer.close()
            way_in.close()

    asyncio.run(run())


# With a token -------------------------------------------------------------------------------------


def get(path: str, secret: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secret}\r\n\r\n".encode()


def test_a_rest_connection_counts_as_one_of_its_tokens(tmp_path: Path) -> None:
    """One too many is refused; when one ends there is room again, and others have their own."""
    settings = Settings(limits=Limits(connections=2))
    with served(tmp_path, "ada", "bob", settings=settings) as service:
        ask = get("/v1/status", service.secrets["ada"])
        with dial(service.url) as one, dial(service.url) as two, dial(service.url) as three:
            for connection in (one, two, one, two):
                connection.sendall(ask)
                assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
            three.sendall(ask)
            refused = three.recv(65_536)
            assert refused.startswith(b"HTTP/1.1 429") and b"too_many_connections" in refused
            with RawSocket(service.url, service.secrets["bob"]) as bob:
                assert isinstance(bob.ask(AskStatus()), Reply)
            one.close()
            for _ in range(200):
                three.sendall(ask)
                answer = three.recv(65_536)
                if answer.startswith(b"HTTP/1.1 200"):
                    break
                time.sleep(0.02)
            assert answer.startswith(b"HTTP/1.1 200")


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Served]:
    """A service where ada has a page of orders resting, and little may lie unread."""
    limits = Limits(requests_per_s=100_000, burst=100_000, unread_bytes=300_000)
    with served(tmp_path, "operator", "ada", "bob", settings=Settings(limits=limits)) as service:
        with RawSocket(service.url, service.secrets["operator"]) as operator:
            operator.ask(OfferResource("h100/a/g0"))
        with RawSocket(service.url, service.secrets["ada"]) as ada:
            ada.answers(
                ada.send(*(PlaceOrder("h100", 1, 1, "o" * 100 + str(n)) for n in range(1_000)))
            )
        yield service


def narrow_dial(url: str) -> socket.socket:
    """A connection that takes little before it is read."""
    host, _, port = url.removeprefix("http://").partition(":")
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    connection.settimeout(TIMEOUT_S)
    connection.connect((host, int(port)))
    return connection


def test_answers_that_nobody_reads_are_bounded(full: Served) -> None:
    """Over all connections of a tenant: the one with most of it is hung up on."""
    ask = get("/v1/orders", full.secrets["ada"])
    with contextlib.ExitStack() as open_ones:
        greedy = [open_ones.enter_context(narrow_dial(full.url)) for _ in range(4)]
        for connection in greedy:
            connection.sendall(ask * 60)
        (together,) = full.call(lambda exchange: [exchange.access._tenant_allowances["ada"]])
        most = 0
        deadline = time.monotonic() + TIMEOUT_S
        while together.connections > 2 and time.monotonic() < deadline:
            most = max(most, together.unread)
            time.sleep(0.001)
        assert together.connections <= 2, "some were hung up on"
        assert most < 300_000 + 250_000
        with RawSocket(full.url, full.secrets["bob"]) as bob:
            assert isinstance(bob.ask(AskStatus()), Reply)


def test_an_answer_that_nobody_takes_has_an_end(
    full: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "ANSWER_S", 0.1)
    with narrow_dial(full.url) as connection:
        connection.sendall(get("/v1/orders", full.secrets["ada"]) * 60)
        together = full.call(lambda exchange: exchange.access._tenant_allowances["ada"])
        deadline = time.monotonic() + TIMEOUT_S
        while not together.connections and time.monotonic() < deadline:
            time.sleep(0.001)
        while together.connections and time.monotonic() < deadline:
            time.sleep(0.01)
        assert together.connections == 0 and together.unread == 0


def test_an_answer_before_the_upgrade_has_no_end_after_it(
    full: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever becomes a trader while an answer of HTTP's lies unread is not hung up on for that."""
    monkeypatch.setattr(patience, "ANSWER_S", 0.3)
    heard = b""
    with narrow_dial(full.url) as connection:
        allowance = full.call(lambda exchange: exchange.access._tenant_allowances["ada"])
        for _ in range(200):  # until the operating system holds no more
            connection.sendall(get("/v1/orders", full.secrets["ada"]))
            time.sleep(0.03)
            if allowance.unread:
                break
        token = f"Authorization: Bearer {full.secrets['ada']}"
        connection.sendall(handshake("/v1/stream", [token]))
        time.sleep(1)
        while b"101 Switching" not in heard:
            chunk = connection.recv(65_536)
            assert chunk, "it was hung up on"
            heard += chunk
        assert allowance.connections == 1


def test_a_defect_while_a_connection_is_accepted_leaks_nobody(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever goes wrong, the visitor's place is free again, and it is in the log."""

    def answer(_: object) -> asyncio.Protocol:
        raise ZeroDivisionError

    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            most = {"connections_max": 9, "strangers_max": 9, "from_one_address_max": 9}
            door = Entrance(listener, answer, None, Strangers(), **most)
            with socket.create_connection(listener.getsockname()) as connection:
                connection.sendall(HEALTH)
                for _ in range(200):
                    await asyncio.sleep(0.01)
                    if caplog.records:
                        break
                assert "ZeroDivisionError" in caplog.text
                assert (len(door._visitors), door.strangers) == (0, 0)
            door.close()

    asyncio.run(run())


def test_who_is_refused_again_and_again_is_hung_up_on(tmp_path: Path) -> None:
    """A wrong token, none, or nothing that is there: a few answers, the last says so, and the end.
    Whoever shows a token meanwhile begins anew."""
    with served(tmp_path, "ada") as service:
        wrong = [
            get("/v1/status", "lz_nobody"),
            get("/nothing", ""),
            HEALTH.replace(b"GET", b"PUT"),
        ]
        for ask in wrong:
            with dial(service.url) as connection:
                connection.sendall(ask * 10)
                heard = hear_all(connection)
                assert heard.count(b"HTTP/1.1 4") == paid.REFUSALS_MAX
                assert heard.count(b"connection: close") == 1
        right = get("/v1/status", service.secrets["ada"])
        with dial(service.url) as connection:
            connection.sendall((wrong[0] * (paid.REFUSALS_MAX - 1) + right) * 3 + wrong[0] * 10)
            heard = hear_all(connection)
        assert heard.count(b"HTTP/1.1 401") == 4 * paid.REFUSALS_MAX - 3
        assert heard.count(b"HTTP/1.1 200") == 3


def test_an_upgrade_with_a_long_head_is_answered(tmp_path: Path) -> None:
    """It is told why, instead of being hung up on without a word."""
    with served(tmp_path, "ada") as service:
        with pytest.raises(TurnedAway) as away:
            RawSocket(service.url, service.secrets["ada"], headers=[f"X-Long: {'x' * 17_000}"])
        assert away.value.status == 431
        assert away.value.problem["code"] == "too_large"


def test_a_trader_stays_as_long_as_it_likes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deadlines of HTTP end where the connection becomes a WebSocket."""
    monkeypatch.setattr(patience, "REQUEST_HEAD_S", 0.1)
    monkeypatch.setattr(patience, "BODY_S", 0.1)
    with (
        served(tmp_path, "ada") as service,
        RawSocket(service.url, service.secrets["ada"]) as ada,
    ):
        time.sleep(0.4)
        assert isinstance(ada.ask(AskStatus()), Reply)


def test_who_speaks_no_http_fills_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A port scanner, or TLS where there is none, is turned away without a line in the log."""
    with served(tmp_path) as service:
        for sent in (b"\x16\x03\x01\x02\x00\x01\x00", b"hello?\r\n\r\n"):
            with contextlib.closing(dial(service.url)) as connection:
                connection.sendall(sent)
                hear_all(connection)
    assert caplog.records == []
