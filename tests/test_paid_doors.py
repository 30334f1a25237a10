"""Whatever happens at the doors is paid for: by the token that is shown, or by all who show none.

Nothing here depends on how fast the machine is: what is looked at is who pays, who has to wait, and
who does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from time import monotonic_ns
from typing import Any

import pytest

from laissez.exchange.access import Limits, Principal
from laissez.exchange.allowance import NS_PER_S, WORK_AT_ONCE_NS, Allowance
from laissez.exchange.pipeline import Settings
from laissez.model import AskStatus, Reply, Request, encode
from laissez.service import paid, patience, strangers
from laissez.service import payers_queue as queue_module
from laissez.service.entrance import ACCEPTED_AT_ONCE, Entrance
from laissez.service.payers_queue import PayersQueue
from laissez.service.reception import Reception
from laissez.service.strangers import Stranger, Strangers
from laissez.service.timed import in_timed_steps
from laissez.service.visitor import HEAD_PIECES_MAX, Visitor
from raw_websocket import RawSocket, frame, handshake
from serving import Served, served
from test_http_door import HEALTH, dial, get, hear_all
from test_socket import wait_until

FAR_NS = 1_000_000 * NS_PER_S
LOOPBACK = "127.0.0.1"
READ_AT_ONCE_MAX = 256_000  # by the loop


def reception_of(service: Served) -> Reception:
    doorman: Any = service.call(lambda exchange: exchange.access.on_death)
    reception: Reception = doorman.__self__.reception
    return reception


def principal_of(service: Served, name: str) -> Principal:
    principal = service.call(lambda exchange: exchange.authenticate(service.secrets[name]))
    assert principal is not None
    return principal


def request(line: str, *headers: str, body: bytes = b"") -> bytes:
    length = [f"Content-Length: {len(body)}"] if body else []
    return "\r\n".join([f"{line} HTTP/1.1", "Host: x", *headers, *length, "", ""]).encode() + body


def bearer(secret: str) -> str:
    return f"Authorization: Bearer {secret}"


def door_of(service: Served) -> Entrance:
    """Where everybody comes in."""
    (door,) = service.call(
        lambda _: [each for each in gc.get_objects() if type(each) is Entrance and each._is_open]
    )
    return door


def https(door: Entrance) -> list[paid.PaidHttp]:
    """The connections that speak HTTP."""
    transports: list[Any] = [each.transport for each in door._visitors if each.transport]
    return [each.get_protocol() for each in transports]


class Spent:
    """What was spent, and at whose expense."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes: Counter[object] = Counter()
        self.work_ns: Counter[object] = Counter()
        for kind in (Principal, Stranger):
            monkeypatch.setattr(kind, "spend", self._noting(kind.spend))

    def _noting(self, spend: Callable[..., Any]) -> Callable[..., Any]:
        def noted(payer: Any, now_ns: int, size: int, work_ns: int) -> Any:
            self.bytes[payer] += size
            self.work_ns[payer] += work_ns
            return spend(payer, now_ns, size, work_ns)

        return noted


@pytest.fixture
def spent(monkeypatch: pytest.MonkeyPatch) -> Spent:
    return Spent(monkeypatch)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path, "ada", "bob", settings=Settings(limits=Limits(connections=2))) as running:
        yield running


# Who pays -----------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[bytes, Callable[[str], bytes]]] = {
    "answered": (b"200", lambda shown: request("GET /v1/status", shown)),
    "not there": (b"404", lambda shown: request("GET /v1/nothing", shown)),
    "no method": (b"405", lambda shown: request("PUT /v1/status", shown)),
    "too large": (b"413", lambda shown: request("POST /v1/orders", shown, body=b" " * 70_000)),
    "unreadable": (b"400", lambda shown: request("POST /v1/orders", shown, body=b"{")),
    "bad key": (
        b"400",
        lambda shown: request("POST /v1/statements", shown, f"Idempotency-Key: {'k' * 200}"),
    ),
    "no HTTP": (b"400", lambda shown: request("GET /v1/status", shown, "no header")),
    "no handshake": (
        b"400",
        lambda shown: handshake("/v1/stream", [shown]).replace(b"WebSocket-Key", b"Key"),
    ),
    "a handshake elsewhere": (b"404", lambda shown: handshake("/v2", [shown])),
    "a handshake": (b"101", lambda shown: handshake("/v1/stream", [shown])),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_token_pays_whatever_the_outcome(service: Served, spent: Spent, kind: str) -> None:
    """For all bytes that were sent and for the time they took, and nobody else does."""
    status, say = REFUSED[kind]
    said = say(bearer(service.secrets["ada"]))
    with dial(service.url) as connection:
        connection.sendall(said)
        assert connection.recv(65_536).split(b" ")[1] == status
        ada = principal_of(service, "ada")
        wait_until(lambda: spent.bytes[ada] == len(said))
    assert spent.work_ns[ada] > 0
    assert set(spent.bytes) == {ada}


def test_the_time_of_every_step_is_paid_for(
    service: Served, spent: Spent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of one deep in the application; and by whoever asked, though somebody else's request
    came right behind it, as over a proxy's connection."""
    answer = Reception._answer

    def slow_answer(reception: Reception, caller: Any, asked: Any) -> None:
        if caller.principal.name == "ada":
            time.sleep(0.05)
        answer(reception, caller, asked)

    monkeypatch.setattr(Reception, "_answer", slow_answer)
    with dial(service.url) as connection:
        both = [get("/v1/status", service.secrets[name]) for name in ("ada", "bob")]
        connection.sendall(b"".join(both))
        heard = b""
        while heard.count(b"HTTP/1.1 200") < 2:
            heard += connection.recv(65_536)
    wait_until(lambda: spent.work_ns[principal_of(service, "bob")] > 0)
    assert spent.work_ns[principal_of(service, "ada")] > 45_000_000


def test_who_has_too_many_connections_pays_for_asking(service: Served, spent: Spent) -> None:
    """A refusal for want of room is not free either."""
    ask = get("/v1/status", service.secrets["ada"])
    with dial(service.url) as one, dial(service.url) as two, dial(service.url) as three:
        for connection in (one, two):
            connection.sendall(ask)
            connection.recv(65_536)
        before = spent.bytes[principal_of(service, "ada")]
        three.sendall(ask * 5)
        heard = b""
        while heard.count(b"too_many_connections") < 5:
            heard += three.recv(65_536)
        assert spent.bytes[principal_of(service, "ada")] - before == 5 * len(ask)


STRANGE = {
    "no token": request("GET /v1/status"),
    "a wrong token": request("GET /v1/status", bearer("lz_nobody")),
    "no ASCII": b"GET /v1/status HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xe9\r\n\r\n",
    "health": HEALTH,
    "not there": request("GET /nothing"),
    "no HTTP": b"hello?\r\n\r\n",
    "lines that end as they should not": HEALTH.replace(b"\r\n", b"\n"),
    "a handshake": handshake("/v1/stream", []),
    "a handshake with a wrong token": handshake("/v1/stream", [bearer("lz_nobody")]),
    "a long head": handshake("/v1/stream", [f"X: {'x' * 17_000}"]),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_strangers_pay_for_whoever_shows_no_living_token(
    service: Served, spent: Spent, kind: str
) -> None:
    """The address, and all of them."""
    said = STRANGE[kind]
    with dial(service.url) as connection:
        connection.sendall(said)
        connection.recv(65_536)
        stranger = reception_of(service).strangers.at(LOOPBACK)
        wait_until(lambda: spent.bytes[stranger] == len(said))
    assert spent.work_ns[stranger] > 0
    assert set(spent.bytes) == {stranger}


def test_arrivals_pay_for_time_until_it_is_known_who_comes(service: Served, spent: Spent) -> None:
    """To be let in, and for half a head; for its bytes nobody pays while it may be anybody's, and
    when it is gone the strangers of its address do. So whoever says half of something keeps nobody
    else from coming in."""
    strange = reception_of(service).strangers
    arrivals, stranger = strange.arrivals, strange.at(LOOPBACK)
    paid_ns = arrivals._work_paid_ns
    half = b"GET /v1/st" + b"x" * 15_000
    with dial(service.url) as connection:
        connection.sendall(half)
        wait_until(lambda: door_of(service).kept_bytes == len(half))
        assert set(spent.bytes) == set()
    wait_until(lambda: spent.bytes[stranger] == len(half))
    assert arrivals._work_paid_ns > paid_ns
    assert arrivals._bytes_paid_ns <= monotonic_ns(), "no byte was charged to those who arrive"


def test_a_handshake_that_comes_to_nothing_keeps_no_place(service: Served) -> None:
    """Who has a token but asks for no proper WebSocket has no connection more than before."""
    _, say = REFUSED["no handshake"]
    for _ in range(5):  # there may be two
        with dial(service.url) as connection:
            connection.sendall(say(bearer(service.secrets["ada"])))
            assert hear_all(connection).startswith(b"HTTP/1.1 400")
    wait_until(lambda: principal_of(service, "ada").connections == 0)
    with RawSocket(service.url, service.secrets["ada"]) as ada:
        assert isinstance(ada.ask(AskStatus()), Reply)


# Who waits ----------------------------------------------------------------------------------------


def overdraw(service: Served, allowance: Allowance) -> None:
    def spend(_: object) -> None:
        allowance.spend(monotonic_ns(), 0, FAR_NS // 100)

    service.call(spend)


def forgive(service: Served, allowance: Allowance) -> None:
    """All is paid back, and whoever waits is looked at."""
    door = door_of(service)
    queues = reception_of(service).queue, door.arriving

    def let_go(_: object) -> None:
        allowance._work_paid_ns = 0
        allowance.spend(monotonic_ns(), 0, 0)
        for waiting in queues:
            if waiting._waiting:
                waiting._call_next()
        if door._breath is not None:
            door._breath.cancel()
            door._breathe()

    service.call(let_go)


def is_silent(connection: socket.socket) -> bool:
    connection.settimeout(0.1)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(20)
    return False


def waits(service: Served) -> int:
    waiting = reception_of(service).queue
    return service.call(lambda _: len(waiting))


def test_nothing_is_done_for_a_token_that_rests(service: Served) -> None:
    """Its requests and its handshakes wait, and are not read; others are served. Then they are
    answered all the same."""
    ada, allowance = service.secrets["ada"], principal_of(service, "ada").token_allowance
    overdraw(service, allowance)
    with dial(service.url) as asks, dial(service.url) as shakes:
        asks.sendall(request("GET /v1/nothing", bearer(ada)))
        shakes.sendall(handshake("/v1/stream", [bearer(ada)]))
        wait_until(lambda: waits(service) == 2)
        assert is_silent(asks) and is_silent(shakes)
        with dial(service.url) as other:
            other.sendall(get("/v1/status", service.secrets["bob"]))
            assert other.recv(65_536).startswith(b"HTTP/1.1 200")
        forgive(service, allowance)
        assert asks.recv(65_536).startswith(b"HTTP/1.1 404")
        assert shakes.recv(65_536).startswith(b"HTTP/1.1 101")
        shakes.sendall(frame(encode(Request(7, AskStatus()))))
        assert b'"id":7' in shakes.recv(65_536), "and goes on as if it had not waited"
    wait_until(lambda: waits(service) == 0)


def test_strangers_that_have_overdrawn_wait_and_tenants_do_not(service: Served) -> None:
    """However much strangers have used, from the same address: a living token gets in at once, over
    a new connection, over one of its own, and over one on which a stranger has asked."""
    strange = reception_of(service).strangers
    with dial(service.url) as shared:
        shared.sendall(HEALTH)
        assert shared.recv(65_536).startswith(b"HTTP/1.1 200")
        overdraw(service, strange.all)
        kinds = [HEALTH, STRANGE["a wrong token"], STRANGE["a handshake"], STRANGE["no HTTP"]]
        with contextlib.ExitStack() as opened:
            waiting = [opened.enter_context(dial(service.url)) for _ in kinds]
            for connection, said in zip(waiting, kinds, strict=True):
                connection.sendall(said)
            wait_until(lambda: waits(service) == len(kinds))
            assert all(map(is_silent, waiting))
            with RawSocket(service.url, service.secrets["ada"]) as ada:
                assert isinstance(ada.ask(AskStatus()), Reply)
            for _ in range(3):
                shared.sendall(get("/v1/status", service.secrets["bob"]))
                assert shared.recv(65_536).startswith(b"HTTP/1.1 200")
            forgive(service, strange.all)
            heard = [connection.recv(65_536).split(b" ")[1] for connection in waiting]
            assert heard == [b"200", b"401", b"401", b"400"]


def test_half_a_head_of_a_tenant_waits_for_no_stranger(
    service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes in pieces, and whose it is shows with the last; but nobody reads crumbs."""
    pieces = 0
    hear = Visitor._hear

    def counted(own: Visitor) -> None:
        nonlocal pieces
        hear(own)
        pieces += 1

    def send(connection: socket.socket, some: bytes) -> None:
        before = pieces
        connection.sendall(some)
        wait_until(lambda: pieces > before)

    monkeypatch.setattr(Visitor, "_hear", counted)
    ask = get("/v1/status", service.secrets["ada"])
    overdraw(service, reception_of(service).strangers.all)
    with dial(service.url) as connection:
        for begin in range(0, len(ask), 40):
            send(connection, ask[begin : begin + 40])
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
    with dial(service.url) as connection:
        for begin in range(HEAD_PIECES_MAX):
            assert waits(service) == 0
            send(connection, ask[begin : begin + 1])
        wait_until(lambda: waits(service) == 1)


def test_who_leaves_the_queue_is_forgotten(service: Served) -> None:
    strange = reception_of(service).strangers
    overdraw(service, strange.all)
    with dial(service.url) as connection:
        connection.sendall(HEALTH)
        wait_until(lambda: waits(service) == 1)
        (waiting,) = reception_of(service).queue._waiting.values()
        (http,) = waiting
        assert isinstance(http, paid.PaidHttp)
        service.call(lambda _: http.transport.abort())
        wait_until(lambda: waits(service) == 0)
        assert hear_all(connection) == b""
    forgive(service, strange.all)
    with dial(service.url) as connection:
        connection.sendall(HEALTH)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200")


def test_no_more_connections_wait_for_a_token_than_it_may_have(
    service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two may; the third is hung up on, and does not push out others who wait."""
    monkeypatch.setattr(patience, "REQUEST_HEAD_S", 1_000)  # not for that
    overdraw(service, principal_of(service, "ada").token_allowance)
    ask = get("/v1/status", service.secrets["ada"])
    with dial(service.url) as one, dial(service.url) as two, dial(service.url) as three:
        one.sendall(ask)
        two.sendall(ask)
        wait_until(lambda: waits(service) == 2)
        three.sendall(ask)
        with contextlib.suppress(ConnectionError):
            assert hear_all(three) == b""
        assert waits(service) == 2


def test_a_stranger_that_waits_holds_little(
    service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it sends stays in its own socket, or it is hung up on."""
    monkeypatch.setattr(patience, "REQUEST_HEAD_S", 1_000)  # not for that
    overdraw(service, reception_of(service).strangers.all)
    with dial(service.url) as connection:
        connection.settimeout(0.2)
        with contextlib.suppress(TimeoutError, ConnectionError):
            connection.sendall(HEALTH + b" " * (8 << 20))
        door = door_of(service)
        held = service.call(lambda _: [len(http._held) for http in https(door)])
        assert all(size <= paid.STRANGERS_BYTES_MAX for size in held)
        assert door.kept_bytes <= paid.STRANGERS_BYTES_MAX


def test_what_was_not_answered_is_not_read_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of requests at once are served one by one, and no more of them are kept meanwhile
    than what was read at once, whatever the token may use."""
    most = 0
    on_response_complete = paid.PaidHttp.on_response_complete

    def watched(connection: paid.PaidHttp) -> None:
        nonlocal most
        on_response_complete(connection)
        most = max(most, len(connection.conn.trailing_data[0]))

    monkeypatch.setattr(paid.PaidHttp, "on_response_complete", watched)
    plenty = Settings(limits=Limits(requests_per_s=1_000_000, burst=1_000_000))
    with served(tmp_path, "ada", settings=plenty) as service, dial(service.url) as connection:
        asks = get("/v1/nothing", service.secrets["ada"]) * 1_000
        connection.settimeout(0.2)
        for _ in range(40):  # 4 MB, or as much as is taken
            try:
                connection.sendall(asks)
            except TimeoutError:
                break
        connection.settimeout(20)
        heard = 0
        while heard < 50:
            heard += connection.recv(65_536).count(b"HTTP/1.1 404")
    assert 0 < most <= 2 * READ_AT_ONCE_MAX


# The queue ----------------------------------------------------------------------------------------


class Waiter:
    def __init__(self, name: str, went_on: list[str], costs: Callable[[], None]) -> None:
        self.name = name
        self._went_on = went_on
        self._costs = costs

    def go_on(self) -> None:
        self._went_on.append(self.name)
        self._costs()


class FakePayer:
    def __init__(self, rests_until: int = 0) -> None:
        self.rests_until = rests_until
        self.looks = 0

    def spend(self, now_ns: int, size: int, work_ns: int) -> None: ...


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 20))


def test_payers_take_turns() -> None:
    """One connection at a time, in the order in which they came, and each payer's in turn; whose
    payer rests stays."""

    async def test() -> None:
        went_on: list[str] = []
        others_between: list[int] = []
        ada, bob, resting = FakePayer(), FakePayer(), FakePayer(monotonic_ns() + FAR_NS)
        queue = PayersQueue()

        def note() -> None:
            asyncio.get_running_loop().call_soon(others_between.append, len(went_on))

        for payer, name in [(ada, "a1"), (ada, "a2"), (ada, "a3"), (bob, "b1"), (resting, "r")]:
            queue.join(payer, Waiter(name, went_on, note))
        while len(others_between) < 4:
            await asyncio.sleep(0)
        assert went_on == ["a1", "b1", "a2", "a3"]
        assert others_between == [1, 2, 3, 4], "others come between"
        assert (len(queue), queue.length(resting), queue.length(ada)) == (1, 1, 0)

    run(test)


def test_who_has_overdrawn_by_going_on_lets_the_next_wait() -> None:
    """What one costs is known before the next goes on."""

    async def test() -> None:
        went_on: list[str] = []
        ada = FakePayer()

        def overdraw() -> None:
            ada.rests_until = monotonic_ns() + FAR_NS

        queue = PayersQueue()
        for name in ("a1", "a2"):
            queue.join(ada, Waiter(name, went_on, overdraw))
        for _ in range(20):
            await asyncio.sleep(0)
        assert went_on == ["a1"]

    run(test)


def test_the_queue_does_not_spin() -> None:
    """However short a rest is, the loop sleeps; and nobody is looked at before it has ended."""

    async def test() -> None:
        loop = asyncio.get_running_loop()
        delays: list[float] = []
        call_later = loop.call_later

        def noted(delay: float, *call: Any) -> asyncio.TimerHandle:
            delays.append(delay)
            return call_later(delay, *call)

        loop.call_later = noted  # type: ignore[method-assign, assignment]
        went_on: list[str] = []
        queue, short, long = PayersQueue(), FakePayer(), FakePayer(monotonic_ns() + FAR_NS)
        queue.join(long, Waiter("long", went_on, lambda: None))
        short.rests_until = monotonic_ns() + 2_000_000
        queue.join(short, Waiter("short", went_on, lambda: None))
        assert len(delays) == 2, "it does not wait for the one that rests longer"
        while not went_on:
            await asyncio.sleep(0.001)
        assert went_on == ["short"]
        ours = [delay for delay in delays if delay != 0.001]
        assert min(ours) >= queue_module.REST_NS_LEAST / NS_PER_S
        assert len(ours) <= 4

    run(test)


# Strangers, and steps -----------------------------------------------------------------------------


def test_an_address_does_not_use_up_what_others_need() -> None:
    """It rests before all do; when all have overdrawn, everybody rests. Behind a proxy there is
    one address, and it may use everything."""
    now = monotonic_ns()
    strange = Strangers()
    one, other = strange.at("a"), strange.at("b")
    one.spend(now, 0, WORK_AT_ONCE_NS + 1_000_000)
    assert one.rests_until > now + 5_000_000
    assert other.rests_until < one.rests_until - 4_000_000
    assert strange.at("a") is one
    other.spend(now, 0, WORK_AT_ONCE_NS * 10)
    assert one.rests_until == strange.all.rests_until
    behind_proxy = Strangers(one_address_is_all=True)
    proxy = behind_proxy.at("a")
    proxy.spend(now, 0, WORK_AT_ONCE_NS * 2)
    assert proxy.rests_until == behind_proxy.all.rests_until


def test_addresses_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who was not here for longest is forgotten first; of all, everything is remembered."""
    monkeypatch.setattr(strangers, "ADDRESSES_KEPT", 3)
    strange = Strangers()
    first = strange.at("0")
    for number in range(1, 10):
        strange.at(str(number))
        assert strange.at("0") is first
    assert len(strange._by_address) == 3


def test_steps_are_timed_and_nothing_else_changes() -> None:
    """What a coroutine waits for is not its work; results, errors and being cancelled pass."""

    async def test() -> None:
        steps: list[int] = []
        gate: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        heard: list[object] = []

        async def work() -> None:
            heard.append(await gate)
            with contextlib.suppress(ZeroDivisionError):
                await fails()
            try:
                await asyncio.sleep(1_000)
            except asyncio.CancelledError:
                heard.append("cancelled")
                raise

        async def fails() -> None:
            await asyncio.sleep(0)
            raise ZeroDivisionError

        async def timed() -> None:
            await in_timed_steps(work(), steps.append)

        task = asyncio.create_task(timed())
        await asyncio.sleep(0)
        assert len(steps) == 1
        gate.set_result(7)
        for _ in range(5):
            await asyncio.sleep(0)
        assert (heard, len(steps)) == ([7], 3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (heard, len(steps)) == ([7, "cancelled"], 4)
        with pytest.raises(ZeroDivisionError):
            await in_timed_steps(fails(), steps.append)

    run(test)


# Arrivals -----------------------------------------------------------------------------------------


class Greeting(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(b"hello")
        transport.close()


@contextlib.contextmanager
def entrance(payers: Strangers, protocols: list[object]) -> Iterator[tuple[Entrance, Any]]:
    def answer(visitor: object) -> asyncio.Protocol:
        protocols.append(visitor)
        return Greeting()

    with socket.create_server((LOOPBACK, 0), backlog=64) as listener:
        most = {"connections_max": 99, "strangers_max": 99, "from_one_address_max": 99}
        door = Entrance(listener, answer, None, payers, **most)
        yield door, listener.getsockname()
        door.close()


def test_a_few_are_let_in_at_a_time() -> None:
    """However many knock at once, others come between."""

    assert ACCEPTED_AT_ONCE <= 16

    async def test() -> None:
        with contextlib.ExitStack() as opened:
            door, address = opened.enter_context(entrance(Strangers(), []))
            for _ in range(3 * ACCEPTED_AT_ONCE):
                opened.enter_context(socket.create_connection(address))
            door._accept()
            assert door.visitors_so_far == ACCEPTED_AT_ONCE
            while door.visitors_so_far < 3 * ACCEPTED_AT_ONCE:
                await asyncio.sleep(0.001)

    run(test)


def test_while_arrivals_have_overdrawn_nobody_is_let_in() -> None:
    """A new connection waits in the system's queue, and comes in when all is paid back."""

    async def test() -> None:
        payers = Strangers()
        arrivals = payers.arrivals
        with entrance(payers, []) as (door, address):
            arrivals.spend(monotonic_ns(), 0, WORK_AT_ONCE_NS + 25_000_000)  # a tenth of a second
            with socket.create_connection(address):
                looks = 0
                while not door.visitors_so_far:
                    await asyncio.sleep(0.001)
                    looks += 1
                assert looks > 1
                assert monotonic_ns() >= arrivals.rests_until - 5_000_000

    run(test)


def test_whoever_comes_in_is_charged_to_arrivals() -> None:
    async def test() -> None:
        payers = Strangers()
        protocols: list[object] = []
        with entrance(payers, protocols) as (_, address):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(HEALTH)
            assert await reader.read() == b"hello"
            writer.close()
        assert payers.arrivals._work_paid_ns > 0 and len(protocols) == 1

    run(test)


def test_who_has_hung_up_is_not_let_in() -> None:
    """Nothing is built for a connection that has ended before its turn."""

    async def test() -> None:
        protocols: list[object] = []
        with entrance(Strangers(), protocols) as (door, address):
            for _ in range(3):
                socket.create_connection(address).close()
            stays = socket.create_connection(address)
            with contextlib.closing(stays):
                stays.sendall(HEALTH)
                while not protocols:
                    await asyncio.sleep(0.001)
                assert door.visitors_so_far == 1

    run(test)
