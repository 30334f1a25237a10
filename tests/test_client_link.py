"""The line that does not break: resending, retrying, giving up, resuming; nothing acts twice."""

import asyncio
import base64
import contextlib
import hashlib
import logging
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from picows import WSMsgType, WSUpgradeResponse

from fake_exchange import (
    ANSWER_LOST,
    NO_ANSWER,
    NOT_HEARD,
    TOKEN,
    FakeExchange,
    fake_exchange,
    using,
)
from laissez.client import AsyncClient, Client, ConnectionFailed, Refusal, Unauthenticated
from laissez.client import connection as connection_module
from laissez.client import link as link_module
from laissez.model import (
    Answer,
    AskStatus,
    Cancelled,
    CancelOrder,
    Refused,
    Reply,
    ServiceCode,
    Status,
    encode,
)

BUSY = Refused(None, ServiceCode.BUSY, "come again", 1)


# --- resending ----------------------------------------------------------------------------------


@pytest.mark.parametrize("move", [ANSWER_LOST, NOT_HEARD])
def test_a_change_is_sent_again_with_its_key_and_acts_once(
    exchange: FakeExchange, move: str
) -> None:
    """Whether a connection breaks before or after the exchange acts, it acts once."""

    async def work(client: AsyncClient) -> None:
        exchange.moves = [None, move, move]
        await client.cancel("o-1")
        answer = await client.cancel("o-2")
        assert answer.repeated == (move == ANSWER_LOST)

    using(exchange, work)
    assert [do for _, do in exchange.acted] == [CancelOrder("o-1"), CancelOrder("o-2")]
    keys = [request.key for request in exchange.requests]
    assert len(keys) == 4 and len(set(keys)) == 2 and keys[1] == keys[2] == keys[3]


def test_all_that_is_unanswered_is_sent_again_in_order(exchange: FakeExchange) -> None:
    """A lost connection loses nothing of what is under way, changes and questions alike."""

    async def work(client: AsyncClient) -> None:
        await client.status()
        exchange.moves = [NO_ANSWER, NO_ANSWER, NO_ANSWER, ANSWER_LOST]
        first = [client.cancel("a"), client.status(), client.cancel("b"), client.cancel("c")]
        await asyncio.gather(*first)

    using(exchange, work)
    told = [request.do for request in exchange.requests[1:]]
    expected = [CancelOrder("a"), AskStatus(), CancelOrder("b"), CancelOrder("c")]
    assert told == expected + expected
    assert [do for _, do in exchange.acted] == [do for do in expected if do != AskStatus()]
    assert len(exchange.connections) == 2


def test_a_key_of_ones_own_is_used(exchange: FakeExchange) -> None:
    """The same key from two calls acts once, and the second is told so."""

    async def work(client: AsyncClient) -> None:
        assert not (await client.cancel("o", key="mine")).repeated
        assert (await client.cancel("o", key="mine")).repeated

    using(exchange, work)
    assert [key for key, _ in exchange.acted] == ["mine"]


def test_a_key_whose_answer_is_forgotten_is_no_error(exchange: FakeExchange) -> None:
    """An old key is answered with where it acted and nothing more."""
    exchange._answers["old"] = Answer(0, 7, 0, ())

    async def work(client: AsyncClient) -> None:
        answer = await client.cancel("o", key="old")
        assert (answer.sequence, answer.repeated, answer.events) == (7, True, ())

    using(exchange, work)


def test_two_clients_never_share_a_key(exchange: FakeExchange) -> None:
    """Keys of their own making differ between clients, and between changes of one."""

    async def work(client: AsyncClient) -> None:
        await client.cancel("o")
        await client.cancel("o")

    using(exchange, work)
    using(exchange, work)
    assert len({key for key, _ in exchange.acted}) == 4


# --- retrying and giving up ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        ServiceCode.BUSY,
        ServiceCode.TOO_MANY_REQUESTS,
        ServiceCode.STOPPING,
        ServiceCode.NOT_DURABLE,
    ],
)
def test_a_refusal_for_now_is_retried_with_the_same_key(exchange: FakeExchange, code: str) -> None:
    """What was refused for lack of room or time is sent again, the same key on it."""
    exchange.moves = [Refused(None, code, "not now", 1)] * 3

    async def work(client: AsyncClient) -> None:
        assert not (await client.cancel("o")).repeated

    using(exchange, work)
    assert len(exchange.requests) == 4
    assert len({request.key for request in exchange.requests}) == 1
    assert len(exchange.acted) == 1


def test_who_is_stopping_is_not_asked_again(exchange: FakeExchange) -> None:
    """The next try goes over a new connection, to the exchange that comes after."""
    exchange.moves = [None, Refused(None, ServiceCode.STOPPING, "bye", 1)]

    async def work(client: AsyncClient) -> None:
        await client.status()
        await client.cancel("o")

    using(exchange, work)
    assert len(exchange.connections) == 2 and len(exchange.acted) == 1


def test_a_retry_waits_as_long_as_it_was_told(
    exchange: FakeExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    """retry_after_ms is the least that passes before the next try."""
    waits: list[float] = []
    exchange.moves = [Refused(None, ServiceCode.BUSY, "not now", 321)]

    async def work(client: AsyncClient) -> None:
        loop = asyncio.get_running_loop()
        call_later = loop.call_later

        def noted(delay: float, *rest: Any, **named: Any) -> asyncio.TimerHandle:
            if getattr(rest[0], "__name__", "") == "_send_again":
                waits.append(delay)
                delay = 0
            return call_later(delay, *rest, **named)

        monkeypatch.setattr(loop, "call_later", noted)
        await client.cancel("o")

    using(exchange, work)
    assert waits == [0.321]


def test_a_refusal_that_lasts_is_raised_in_the_end(exchange: FakeExchange) -> None:
    """When the patience is over, the exchange's own reason is given."""
    exchange.moves = [BUSY] * 1_000

    async def work(client: AsyncClient) -> None:
        with pytest.raises(Refusal) as error:
            await client.cancel("o")
        assert error.value.code == ServiceCode.BUSY

    using(exchange, work, retry_for_s=0.5)
    assert len(exchange.requests) > 1 and exchange.acted == []


def test_a_refusal_for_good_is_raised_at_once(exchange: FakeExchange) -> None:
    """What does not get better by waiting is asked once."""
    exchange.moves = [Refused(None, ServiceCode.KEY_REUSED, "use another")]

    async def work(client: AsyncClient) -> None:
        with pytest.raises(Refusal, match="use another"):
            await client.cancel("o")

    using(exchange, work)
    assert len(exchange.requests) == 1


def test_no_answer_is_given_up(exchange: FakeExchange) -> None:
    """Silence ends in ConnectionFailed that carries the key, for the change may have been made."""
    exchange.moves = [None, NO_ANSWER, NO_ANSWER]

    async def work(client: AsyncClient) -> None:
        await client.status()
        with pytest.raises(ConnectionFailed, match="same key 'mine'") as error:
            await client.cancel("o", key="mine")
        assert error.value.key == "mine"
        with pytest.raises(ConnectionFailed) as error:
            await client.status()
        assert error.value.key is None
        await client.status()  # the line itself is as good as before

    using(exchange, work, retry_for_s=0.5)
    assert len(exchange.connections) == 1


def test_nobody_at_the_address_is_given_up() -> None:
    """An address where nothing listens ends in ConnectionFailed that names it."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"

        async def main() -> None:
            async with AsyncClient(url, TOKEN, retry_for_s=0.5) as client:
                with pytest.raises(ConnectionFailed, match=url):
                    await client.status()

        asyncio.run(main())


def test_an_exchange_that_comes_back_is_found(exchange: FakeExchange) -> None:
    """Whoever is turned away for now keeps knocking."""
    exchange.greetings = [WSUpgradeResponse.create_error_response(503) for _ in range(3)]

    async def work(client: AsyncClient) -> None:
        assert (await client.status()).tenant == "ada"

    using(exchange, work)
    assert len(exchange.headers) == 4


@pytest.mark.parametrize(
    ("status", "body", "kind", "text"),
    [
        (401, b"", Unauthenticated, "token"),
        (
            401,
            b'{"code":"unauthenticated","detail":"show a token"}',
            Unauthenticated,
            "ask the operator",
        ),
        (403, b'{"code":"forbidden","detail":"not you"}', Refusal, "not you"),
        (404, b"<html>", ConnectionFailed, "no exchange"),
    ],
)
def test_being_turned_away_for_good_is_raised_at_once(
    exchange: FakeExchange, status: int, body: bytes, kind: type[Exception], text: str
) -> None:
    """A door that stays shut is not knocked at twice."""
    exchange.greetings = [WSUpgradeResponse.create_error_response(status, body)]

    async def work(client: AsyncClient) -> None:
        with pytest.raises(kind, match=text):
            await client.status()

    using(exchange, work)
    assert len(exchange.headers) == 1


def test_a_token_is_not_carried_to_another_address(exchange: FakeExchange) -> None:
    """A redirect is not followed."""
    with fake_exchange() as other:
        where = other.url.replace("http", "ws") + "/v1/stream"
        exchange.greetings = [WSUpgradeResponse.create_redirect_response(307, where)]

        async def work(client: AsyncClient) -> None:
            with pytest.raises(ConnectionFailed, match="307"):
                await client.status()

        using(exchange, work)
        assert other.headers == []


def test_a_closed_client_says_so(exchange: FakeExchange) -> None:
    """What is under way when a client is closed fails, and so does what comes after."""

    async def main() -> None:
        client = AsyncClient(exchange.url, TOKEN)
        await client.status()
        exchange.moves = [NO_ANSWER]
        waiting = asyncio.create_task(client.status())
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(ConnectionFailed, match="closed"):
            await waiting
        with pytest.raises(ConnectionFailed, match="closed"):
            await client.status()

    asyncio.run(main())


@asynccontextmanager
async def raw_exchange(
    handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    """An address at which connections are handled byte by byte."""
    handling = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handling.append(asyncio.current_task())
        with contextlib.suppress(ConnectionError):
            await handle(reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await asyncio.wait_for(asyncio.gather(*(task for task in handling if task)), 5)


async def shake_hands(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The exchange's half of a WebSocket handshake, and nothing after it."""
    asked = await reader.readuntil(b"\r\n\r\n")
    key = asked.split(b"Sec-WebSocket-Key: ")[1].split(b"\r\n")[0]
    accept = hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
    writer.write(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + base64.b64encode(accept) + b"\r\n\r\n"
    )


def test_https_to_a_service_that_speaks_http() -> None:
    """It is said at once, with the address to use, and not called a version number."""

    async def answer_in_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    async def main() -> None:
        async with raw_exchange(answer_in_http) as url:
            wrong = url.replace("http://", "https://")
            async with AsyncClient(wrong, TOKEN) as client:
                with pytest.raises(ConnectionFailed, match=f"http, not https; .* as {url}$"):
                    await client.status()

    asyncio.run(main())


def test_a_handshake_that_nobody_waits_for_leaves_nothing() -> None:
    """A client closed while it dials: the connection is given up, and no task outlives it."""

    async def main() -> None:
        knocked, go_on = asyncio.Event(), asyncio.Event()

        async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            knocked.set()
            await go_on.wait()
            await shake_hands(reader, writer)
            assert await reader.read() == b""

        async with raw_exchange(slow) as url:
            client = AsyncClient(url, TOKEN)
            asking = asyncio.create_task(client.status())
            await knocked.wait()
            await client.close()
            with pytest.raises(ConnectionFailed, match="closed"):
                await asking
            go_on.set()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


@pytest.mark.parametrize("answers_pings", [True, False])
def test_a_silent_exchange_is_left(monkeypatch: pytest.MonkeyPatch, answers_pings: bool) -> None:
    """Whoever does not even answer a ping is hung up on, whoever does is not."""
    monkeypatch.setattr(connection_module, "PING_AFTER_S", 0.1)

    async def main() -> None:
        came = asyncio.Queue[int]()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await shake_hands(reader, writer)
            came.put_nowait(1)
            while len(head := await reader.read(2)) == 2:
                await reader.readexactly(4 + (head[1] & 0x7F))
                if answers_pings and head[0] == 0x89:
                    writer.write(bytes([0x8A, 0]))

        async with (
            raw_exchange(silent) as url,
            AsyncClient(url, TOKEN, retry_for_s=20) as client,
        ):
            asking = asyncio.create_task(client.status())
            await asyncio.wait_for(came.get(), 5)
            if answers_pings:
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(came.get(), 1)
            else:
                await asyncio.wait_for(came.get(), 10)
            asking.cancel()

    asyncio.run(main())


# --- answers ------------------------------------------------------------------------------------


def test_answers_find_their_questions_in_any_order(exchange: FakeExchange) -> None:
    """Late answers, in one array and backwards, reach those who asked."""

    async def work(client: AsyncClient) -> None:
        await client.status()
        exchange.moves = [NO_ANSWER] * 3
        asking = [asyncio.create_task(client.status()) for _ in range(3)]
        while len(exchange.requests) < 4:
            await asyncio.sleep(0.001)
        ids = [request.id for request in exchange.requests[1:]]
        exchange.push(
            *(Reply(number, Status(1, number, "tenant", "ada", ())) for number in reversed(ids))
        )
        assert [status.sequence for status in await asyncio.gather(*asking)] == ids

    using(exchange, work)


def test_what_is_asked_at_once_leaves_in_one_frame(
    exchange: FakeExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many requests of one moment share a frame, and no frame is longer than is allowed."""
    frames: list[int] = []

    async def work(client: AsyncClient) -> None:
        await client.status()
        connection = client._link._connection
        assert connection is not None
        send = connection._send_frame

        def counted(requests: list[bytes]) -> None:
            frames.append(len(requests))
            send(requests)

        monkeypatch.setattr(connection, "_send_frame", counted)
        await asyncio.gather(*(client.cancel(f"o-{n}") for n in range(600)))

    using(exchange, work)
    assert frames == [250, 250, 100]
    assert len(exchange.acted) == 600


def test_an_answer_in_pieces_is_put_together(exchange: FakeExchange) -> None:
    """A message may come in several frames."""

    async def work(client: AsyncClient) -> None:
        await client.status()
        exchange.moves = [NO_ANSWER]
        asking = asyncio.create_task(client.status())
        while len(exchange.requests) < 2:
            await asyncio.sleep(0.001)
        said = encode(Reply(exchange.requests[1].id, Status(1, 99, "tenant", "ada", ())))
        trader = exchange.connections[0]

        def in_pieces() -> None:
            trader.say_bytes(said[:10], fin=False)
            trader.say_bytes(said[10:20], kind=WSMsgType.CONTINUATION, fin=False)
            trader.say_bytes(said[20:], kind=WSMsgType.CONTINUATION)

        exchange._loop.call_soon_threadsafe(in_pieces)
        assert (await asking).sequence == 99

    using(exchange, work)


def test_nonsense_is_hung_up_on_and_asked_again(exchange: FakeExchange) -> None:
    """A frame that is no message ends the connection, not the request."""

    async def work(client: AsyncClient) -> None:
        await client.status()
        exchange.moves = [NO_ANSWER]
        asking = asyncio.create_task(client.status())
        while len(exchange.requests) < 2:
            await asyncio.sleep(0.001)
        trader = exchange.connections[0]
        exchange._loop.call_soon_threadsafe(trader.say_bytes, b'{"type":"Weather"}')
        await asking

    using(exchange, work)
    assert len(exchange.connections) == 2


def test_what_has_the_wrong_type_is_not_sent(exchange: FakeExchange) -> None:
    """One bad request would spoil the frame it shares with good ones, so it stays at home."""

    async def work(client: AsyncClient) -> None:
        with pytest.raises(TypeError, match=r"Expected `str`, got `int` - at `\$\.do\.order`"):
            await client.cancel(5)  # type: ignore[arg-type]
        with pytest.raises(Refusal, match="bytes"):
            await client.cancel("o" * 1_000_000)

    using(exchange, work)
    assert exchange.requests == []


# --- many at once -------------------------------------------------------------------------------


def test_many_changes_come_back_in_order(exchange: FakeExchange) -> None:
    """send_all gives outcomes in the order of the instructions, through refusals and losses."""
    exchange.moves = [None] * 10 + [BUSY, ANSWER_LOST, None, NOT_HEARD]
    exchange.refuses = lambda do: (
        Refused(None, ServiceCode.FORBIDDEN, "no") if do == CancelOrder("o-7") else None
    )
    progress: list[tuple[int, int]] = []

    async def work(client: AsyncClient) -> None:
        wanted = [CancelOrder(f"o-{number}") for number in range(1_000)]
        outcomes = await client.send_all(iter(wanted), progress=lambda *at: progress.append(at))
        assert isinstance(outcomes[7], Refused) and outcomes[7].code == ServiceCode.FORBIDDEN
        by_sequence = {number: do for number, (_, do) in enumerate(exchange.acted, 1)}
        for do, outcome in zip(wanted, outcomes, strict=True):
            assert isinstance(outcome, Refused) or by_sequence[outcome.sequence] == do

    using(exchange, work)
    assert len(exchange.acted) == 999 == len({key for key, _ in exchange.acted})
    assert progress == [(done, 1_000) for done in range(1, 1_001)]


def test_many_changes_are_a_bounded_number_at_once(
    exchange: FakeExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more than a window of requests is under way."""
    most = 0

    async def work(client: AsyncClient) -> None:
        said = client._link._said

        def counted(message: Any) -> None:
            nonlocal most
            most = max(most, len(client._link._calls))
            said(message)

        monkeypatch.setattr(client._link, "_said", counted)
        await client.send_all(CancelOrder(f"o-{number}") for number in range(2_000))

    using(exchange, work)
    assert most == 256


def test_many_changes_end_with_the_line(exchange: FakeExchange) -> None:
    """If there is no answer at all, send_all raises and leaves no one working."""
    exchange.moves = [None] * 5 + [NO_ANSWER] * 1_000

    async def work(client: AsyncClient) -> None:
        with pytest.raises(ConnectionFailed):
            await client.send_all([CancelOrder(f"o-{number}") for number in range(300)])
        assert client._link._calls == {}

    using(exchange, work, retry_for_s=0.5)


def test_many_threads_share_a_client(exchange: FakeExchange) -> None:
    """Every thread gets the answers to its own requests, over one connection."""
    exchange.replies[AskStatus] = lambda do: Status(1, exchange.sequence, "tenant", "ada", ())
    exchange.events_of = lambda do: (
        (Cancelled(1, "ada", do.order),) if isinstance(do, CancelOrder) else ()
    )
    exchange.moves = [None] * 50 + [ANSWER_LOST] + [None] * 50 + [BUSY]
    wrong: list[object] = []

    def work(name: int) -> None:
        for number in range(25):
            order = f"{name}-{number}"
            answer = client.cancel(order)
            if answer.events != (Cancelled(1, "ada", order),):
                wrong.append(answer)

    with Client(exchange.url, TOKEN) as client:
        threads = [threading.Thread(target=work, args=(name,)) for name in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    assert wrong == []
    assert len(exchange.acted) == 16 * 25
    assert len(exchange.connections) == 2


def test_closing_lets_no_thread_wait(exchange: FakeExchange) -> None:
    """A thread that waits for an answer, or for news, is told when another closes the client."""
    exchange.moves = [NO_ANSWER]
    outcomes: list[BaseException] = []
    client = Client(exchange.url, TOKEN)

    def ask() -> None:
        try:
            client.status()
        except ConnectionFailed as error:
            outcomes.append(error)

    def listen() -> None:
        try:
            next(client.events())
        except ConnectionFailed as error:
            outcomes.append(error)

    threads = [threading.Thread(target=ask), threading.Thread(target=listen)]
    threads[0].start()
    exchange.wait_until(lambda: len(exchange.requests) == 1)
    threads[1].start()
    exchange.wait_until(lambda: len(exchange.requests) == 2)
    client.close()
    for thread in threads:
        thread.join(10)
    assert len(outcomes) == 2
    with pytest.raises(ConnectionFailed):
        client.status()
    client.close()


# --- secrets ------------------------------------------------------------------------------------


def test_the_token_is_in_the_header_and_nowhere_else(
    exchange: FakeExchange, caplog: pytest.LogCaptureFixture
) -> None:
    """No repr, error or log has the token, however much the log is asked to say."""
    caplog.set_level(1)
    for name in ("picows", "picows.client", "laissez", "laissez.client"):
        logging.getLogger(name).setLevel(1)
    shown: list[str] = []

    def show(error: BaseException | None) -> None:
        while error is not None:
            shown.extend([repr(error), str(error)])
            error = error.__context__

    async def unanswered(client: AsyncClient) -> None:
        shown.extend([repr(client), str(client), repr(client._link._login)])
        exchange.moves = [NO_ANSWER] * 10
        with pytest.raises(ConnectionFailed) as error:
            await client.cancel("o")
        show(error.value)

    async def turned_away(client: AsyncClient) -> None:
        exchange.greetings = [WSUpgradeResponse.create_error_response(401)]
        with pytest.raises(Unauthenticated) as error:
            await client.cancel("o")
        show(error.value)

    try:
        using(exchange, unanswered, retry_for_s=0.5)
        using(exchange, turned_away)
    finally:
        for name in ("picows", "picows.client", "laissez", "laissez.client"):
            logging.getLogger(name).setLevel(logging.NOTSET)
    with Client(exchange.url, TOKEN) as blocking:
        shown.append(repr(blocking))
    ours = [record for record in caplog.records if not record.name.startswith("picows.server")]
    shown.extend(record.getMessage() for record in ours)
    assert exchange.headers[0]["Authorization"] == f"Bearer {TOKEN}"
    assert all(TOKEN not in text for text in shown)


def test_pauses_grow_and_are_bounded() -> None:
    """Between tries passes a little, then more, and never more than the longest pause."""
    for failures in range(30):
        longest = min(link_module.FIRST_PAUSE_S * 2**failures, link_module.LONGEST_PAUSE_S)
        assert longest / 2 <= link_module.pause_s(failures) <= longest
