"""One stream for many listeners: nothing missed, nothing told twice, through every loss."""

import asyncio
from typing import Any

import pytest
from picows import WSUpgradeResponse

from fake_exchange import (
    TOKEN,
    FakeExchange,
    happened,
    using,
)
from laissez.client import AsyncClient, Client, ConnectionFailed, Refusal
from laissez.client import stream as stream_module
from laissez.model import (
    Quote,
    Quotes,
    Rates,
    Refused,
    Resync,
    ServiceCode,
    Subscribe,
    TooSlow,
)

BUSY = Refused(None, ServiceCode.BUSY, "come again", 1)


async def take(stream: Any, number: int) -> list[Any]:
    return [await anext(stream) for _ in range(number)]


def test_a_stream_resumes_after_what_was_seen(exchange: FakeExchange) -> None:
    """After a lost connection a stream goes on without gap or repetition."""
    exchange.sequence = 10

    async def work(client: AsyncClient) -> None:
        stream = client.events()
        exchange.on_subscribe = lambda do: [happened(11), happened(12)]
        assert await take(stream, 2) == [happened(11), happened(12)]
        exchange.on_subscribe = lambda do: [happened(12), happened(15)]
        exchange.hang_up()
        assert await take(stream, 1) == [happened(15)]
        await stream.aclose()  # type: ignore[attr-defined]

    using(exchange, work)
    assert exchange.asked(Subscribe) == [Subscribe(), Subscribe(after=12)]


def test_a_stream_that_saw_nothing_resumes_where_it_began(exchange: FakeExchange) -> None:
    """The number in Subscribed is where to resume if nothing has happened since."""
    exchange.sequence = 10

    async def work(client: AsyncClient) -> None:
        stream = client.events()
        first = asyncio.create_task(take(stream, 1))
        while not exchange.asked(Subscribe):
            await asyncio.sleep(0.001)
        await client.status()
        exchange.on_subscribe = lambda do: [happened(11)]
        exchange.hang_up()
        assert await first == [happened(11)]

    using(exchange, work)
    assert exchange.asked(Subscribe)[1] == Subscribe(after=10)


def test_resync_is_handed_on(exchange: FakeExchange) -> None:
    """What the exchange no longer keeps is told as such, also if its numbers went back."""
    exchange.sequence = 100
    resync = Resync(40, "read your state anew")

    async def work(client: AsyncClient) -> None:
        stream = client.events(after=90)
        exchange.on_subscribe = lambda do: [happened(91)]
        assert await take(stream, 1) == [happened(91)]
        exchange.on_subscribe = lambda do: [resync, happened(41)]
        exchange.hang_up()
        assert await take(stream, 2) == [resync, happened(41)]

    using(exchange, work)
    assert exchange.asked(Subscribe) == [Subscribe(after=90), Subscribe(after=91)]


def test_being_cut_off_for_slowness_is_a_lost_connection(exchange: FakeExchange) -> None:
    """After TooSlow the client comes back and resumes."""
    exchange.sequence = 10

    async def work(client: AsyncClient) -> None:
        stream = client.events()
        exchange.on_subscribe = lambda do: [happened(11), TooSlow(11, "too slow")]
        assert await take(stream, 1) == [happened(11)]
        exchange.on_subscribe = lambda do: [happened(12)]
        exchange.hang_up()
        assert await take(stream, 1) == [happened(12)]

    using(exchange, work)


def test_many_listeners_share_a_subscription(exchange: FakeExchange) -> None:
    """Each hears what it asked for: a late one from its own place on, quotes by scope."""
    exchange.sequence = 10
    quotes = Quotes(1, {"h100": Quote(5, True), "a100": None})

    async def work(client: AsyncClient) -> None:
        one = client.events(rates=True)
        exchange.on_subscribe = lambda do: [happened(11)]
        assert await take(one, 1) == [happened(11)]
        exchange.on_subscribe = lambda do: [happened(9), happened(11), Rates(1, {"g0": 5})]
        two = client.events(after=8, quotes=["h100"])
        assert await take(two, 2) == [happened(9), happened(11)]
        exchange.push(quotes, happened(13))
        assert await take(two, 2) == [Quotes(1, {"h100": Quote(5, True)}), happened(13)]
        assert await take(one, 2) == [Rates(1, {"g0": 5}), happened(13)]

    using(exchange, work)
    assert exchange.asked(Subscribe) == [
        Subscribe(rates=True),
        Subscribe(after=8, rates=True, quotes=("h100",)),
    ]


def test_a_resync_is_only_for_those_who_missed_something(exchange: FakeExchange) -> None:
    """A newcomer that asks for what is forgotten does not make others begin anew."""
    exchange.sequence = 10

    async def work(client: AsyncClient) -> None:
        one = client.events()
        exchange.on_subscribe = lambda do: [happened(11)]
        assert await take(one, 1) == [happened(11)]
        resync = Resync(30, "gone")
        exchange.on_subscribe = lambda do: [resync, happened(31)]
        exchange.begins_at = lambda do: 30
        assert await take(client.events(after=2), 2) == [resync, happened(31)]
        assert await take(one, 1) == [happened(31)]

    using(exchange, work)


def test_a_refused_subscription_hits_who_asked_for_it(exchange: FakeExchange) -> None:
    """A quote that is out of sight ends its own stream, and no other."""
    exchange.refuses = lambda do: (
        Refused(None, "scope_not_visible", "you do not see it")
        if isinstance(do, Subscribe) and do.quotes
        else None
    )

    async def work(client: AsyncClient) -> None:
        one = client.events()
        exchange.on_subscribe = lambda do: [happened(1)]
        assert await take(one, 1) == [happened(1)]
        with pytest.raises(Refusal, match="see it"):
            await take(client.events(quotes=["a100"]), 1)
        exchange.on_subscribe = lambda do: [happened(2)]
        exchange.hang_up()
        assert await take(one, 1) == [happened(2)]

    using(exchange, work)


def test_a_stream_gives_up_in_the_end(exchange: FakeExchange) -> None:
    """An exchange that stays away ends the stream with ConnectionFailed."""

    async def work(client: AsyncClient) -> None:
        stream = client.events()
        exchange.on_subscribe = lambda do: [happened(1)]
        await take(stream, 1)
        exchange.greetings = [WSUpgradeResponse.create_error_response(503) for _ in range(1_000)]
        exchange.hang_up()
        with pytest.raises(ConnectionFailed):
            await take(stream, 1)

    using(exchange, work, retry_for_s=0.5)


def test_a_reader_that_falls_behind_begins_anew(
    exchange: FakeExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is unread is bounded; beyond that a reader is told to read its state anew."""
    monkeypatch.setattr(stream_module, "UNREAD_MAX", 5)

    async def work(client: AsyncClient) -> None:
        stream = client.events()
        exchange.on_subscribe = lambda do: [happened(number) for number in range(1, 9)]
        first, second, third = await take(stream, 3)
        assert isinstance(first, Resync) and first.sequence == 6
        assert [second, third] == [happened(7), happened(8)]

    using(exchange, work)


def test_a_blocking_stream_is_the_same(exchange: FakeExchange) -> None:
    """Client.events iterates in any thread, resumes, and leaves when it is closed."""
    exchange.on_subscribe = lambda do: [happened(1), happened(2)]
    with Client(exchange.url, TOKEN) as client:
        stream = client.events()
        assert [next(stream), next(stream)] == [happened(1), happened(2)]
        exchange.on_subscribe = lambda do: [happened(3)]
        exchange.hang_up()
        assert next(stream) == happened(3)
        stream.close()  # type: ignore[attr-defined]
        client.status()
        assert client._async._stream._listeners == []
