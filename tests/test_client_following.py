"""Waiting for orders: told by the stream how each ends, and leaving them alone when one stops."""

import asyncio
import itertools
import threading

import pytest

from client_pool import Pool
from fake_exchange import TOKEN, FakeExchange, using
from laissez.client import AsyncClient, Client, OrderEnd
from laissez.model import (
    Answer,
    AskOrders,
    Cancelled,
    Expired,
    Filled,
    Happened,
    OpenOrder,
    OrderList,
    Placed,
    PlaceOrder,
    Resync,
)


def open_orders(*names: str) -> OrderList:
    return OrderList(1, tuple(OpenOrder("ada", name, "h100", 1, 1, None) for name in names))


def test_orders_are_followed_to_their_ends(pool: Pool) -> None:
    """Each order is told of once: won at once, won later, cancelled; one that waits is left out,
    and lives on."""
    pool.add("g0", "g1")
    wanted = [PlaceOrder(pool.tree, 3_000_000, 3_000_000) for _ in range(4)]
    answers = [each for each in pool.ada.send_all(wanted) if isinstance(each, Answer)]
    names = [event.order for each in answers for event in each.events if isinstance(event, Placed)]
    after = min(answer.sequence for answer in answers) - 1
    ends = pool.ada.follow_orders(names, after=after, wait_s=30)
    at_once = {next(ends).order, next(ends).order}
    waiting = [name for name in names if name not in at_once]
    pool.ada.cancel(waiting[0])
    assert next(ends) == OrderEnd(waiting[0], "cancelled")
    pool.add("g2")
    won = next(ends)
    assert (won.order, won.fate) == (waiting[1], "filled")
    assert won.filled is not None and won.filled.resource == f"{pool.tree}/g2"
    assert list(ends) == []
    pool.ada.place(pool.tree, limit="2.50", order="patient")
    assert list(pool.ada.follow_orders(["patient"], wait_s=0.05)) == []
    assert [order.order for order in pool.ada.orders()] == ["patient"]


def test_one_order_is_waited_for(pool: Pool) -> None:
    """The end of an order is returned, None if it is still open, and the order stays."""
    pool.add("taken")
    pool.dalia.place(pool.tree, limit="5.00")
    placed = pool.ada.place(pool.tree, price="3.00", order="one")
    assert pool.ada.wait_order("one", wait_s=0.05) is None
    timer = threading.Timer(0.05, lambda: pool.add("g0"))
    timer.start()
    end = pool.ada.wait_order("one", wait_s=30)
    timer.join()
    assert end is not None and end.fate == "filled"
    assert pool.ada.wait_order("one", after=placed.sequence - 1, wait_s=30) == end
    assert pool.ada.wait_order("one", wait_s=30) == OrderEnd("one", "unknown")


def test_what_ends_while_one_begins_to_listen_is_not_missed(exchange: FakeExchange) -> None:
    """An order that ends between the subscription and the question after it is told as it was."""
    exchange.replies[AskOrders] = lambda do: open_orders("late")
    filled = Filled(1, "early", "h100/g0", {})
    exchange.on_subscribe = lambda do: [Happened(1, 1, (filled,))]

    async def work(client: AsyncClient) -> None:
        ends = client.follow_orders(["early", "late", "never"], after=0, wait_s=10)
        first = {end.order: end.fate for end in [await anext(ends), await anext(ends)]}
        assert first == {"early": "filled", "never": "unknown"}
        exchange.push(Happened(2, 2, (Expired(2, "ada", "late"), Cancelled(2, "ada", "other"))))
        assert [end async for end in ends] == [OrderEnd("late", "expired")]

    using(exchange, work)


def test_after_a_gap_the_orders_are_looked_up(exchange: FakeExchange) -> None:
    """Where the exchange no longer keeps what was missed, an order that is gone is not waited for
    for ever."""
    live = itertools.chain([("a", "b")], itertools.repeat(("b",)))
    exchange.replies[AskOrders] = lambda do: open_orders(*next(live))

    async def work(client: AsyncClient) -> None:
        ends = client.follow_orders(["a", "b"], wait_s=10)
        waits = asyncio.ensure_future(anext(ends))
        while not exchange.asked(AskOrders):
            await asyncio.sleep(0.001)
        exchange.push(Resync(7, "too long ago"))
        assert await waits == OrderEnd("a", "unknown")
        exchange.push(Happened(8, 8, (Cancelled(8, "ada", "b"),)))
        assert [end async for end in ends] == [OrderEnd("b", "cancelled")]

    using(exchange, work)


def test_stopping_cancels_nothing(exchange: FakeExchange) -> None:
    """Whoever leaves the iteration, or is cancelled in it, sends the exchange no change and
    listens no longer."""
    exchange.replies[AskOrders] = lambda do: open_orders("o")

    async def work(client: AsyncClient) -> None:
        waits = asyncio.ensure_future(client.wait_order("o"))
        while not exchange.asked(AskOrders):
            await asyncio.sleep(0.001)
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        assert client._stream._listeners == []

    using(exchange, work)
    with Client(exchange.url, TOKEN) as client:
        assert client.wait_order("o", wait_s=0.01) is None
    assert exchange.acted == []
