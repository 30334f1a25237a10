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
    AskPromises,
    Cancelled,
    CancelOrder,
    Expired,
    Filled,
    Happened,
    OpenOrder,
    OrderList,
    Placed,
    PlaceOrder,
    Promise,
    Promised,
    PromiseList,
    Resync,
    Subscribe,
    Unpromised,
)
from laissez.service import following
from serving import Served


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
    assert [each.resource for each in won.filled] == [f"{pool.tree}/g2"]
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


def test_an_end_that_was_missed_is_told_however_much_was(
    pool: Pool, real: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where hundreds of messages were missed, they come in pieces, and the answer which orders are
    open comes sooner: nobody takes the orders' ends for unknown meanwhile."""
    monkeypatch.setattr(following, "PIECE_MAX", 7)
    pool.add("taken")
    pool.dalia.place(pool.tree, limit="5.00")
    names = [f"missed-{number}" for number in range(300)]
    wanted = [PlaceOrder(pool.tree, 2_100_000, 2_100_000, name) for name in names]
    placed = [each for each in pool.ada.send_all(wanted) if isinstance(each, Answer)]
    pool.ada.send_all([CancelOrder(name) for name in names])
    after = min(answer.sequence for answer in placed) - 1
    with Client(real.url, real.secrets["ada"]) as back:
        fates = {end.order: end.fate for end in back.follow_orders(names, after=after, wait_s=30)}
        assert fates == dict.fromkeys(names, "cancelled")
        again = back.wait_order(names[-1], after=after, wait_s=30)
        assert again == OrderEnd(names[-1], "cancelled")
        assert back.wait_order(names[-1], wait_s=30) == OrderEnd(names[-1], "unknown")


def test_what_comes_too_late_is_not_called_unknown(exchange: FakeExchange) -> None:
    """If the time is over while the past still comes, nothing is said of an order's end."""
    exchange.tells_the_end_of_the_past = False
    with Client(exchange.url, TOKEN) as client:
        assert client.wait_order("o", after=3, wait_s=0.05) is None
        exchange.push(Happened(3, 3, ()))
        assert client.wait_order("o", after=3, wait_s=30) == OrderEnd("o", "unknown")


def test_after_a_lost_connection_the_past_is_heard_first(exchange: FakeExchange) -> None:
    """What was heard before the connection was lost does not count: the answer that comes over the
    next one waits for what was missed between."""
    cancelled = Happened(6, 6, (Cancelled(6, "ada", "o"),))
    exchange.begins_at = lambda do: 5

    async def work(client: AsyncClient) -> None:
        reader = await client.open_reader(None, False, ())
        await reader.catch_up()
        exchange.tells_the_end_of_the_past = False
        exchange.hang_up()
        while len(exchange.asked(Subscribe)) < 2:
            await asyncio.sleep(0.001)
        waits = asyncio.ensure_future(client.wait_order("o"))
        while not exchange.asked(AskOrders):
            await asyncio.sleep(0.001)
        await client.status()
        assert not waits.done()
        exchange.push(cancelled, Happened(6, 6, ()))
        assert await waits == OrderEnd("o", "cancelled")

    using(exchange, work)


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


def promised(order: str, *resources: str) -> PromiseList:
    return PromiseList(1, tuple(Promise(each, "ada", order, 9, 5) for each in resources))


def test_a_promised_order_is_no_end(exchange: FakeExchange) -> None:
    """Neither in the book nor here: it is waited for, until what it was promised comes."""
    exchange.replies[AskPromises] = lambda do: promised("o", "h/g0")
    won = Filled(2, "o", "h/g0", {})

    async def work(client: AsyncClient) -> None:
        assert await client.wait_order("o", wait_s=0.05) is None
        waits = asyncio.ensure_future(client.wait_order("o"))
        while len(exchange.asked(AskPromises)) < 2:
            await asyncio.sleep(0.001)
        exchange.push(Happened(2, 2, (won,)))
        assert await waits == OrderEnd("o", "filled", (won,))

    using(exchange, work)


def test_a_gang_ends_when_all_is_here(exchange: FakeExchange) -> None:
    """With all that it won, at once or by promise; what will not come is not waited for."""
    exchange.replies[AskOrders] = lambda do: open_orders("gang", "none")
    won = [Filled(at, "gang", f"h/g{at}", {}) for at in range(4)]
    comes = [Promised(1, "ada", "gang", f"h/g{number}", 9) for number in (2, 3, 4)]
    withdrawn = Unpromised(3, "ada", "gang", "h/g4", "withdrawn")
    never = Promised(1, "ada", "none", "h/g9", 9), Unpromised(3, "ada", "none", "h/g9", "withdrawn")

    async def work(client: AsyncClient) -> None:
        ends = client.follow_orders(["gang", "none"], after=0)
        waits = asyncio.ensure_future(anext(ends))
        while not exchange.asked(AskPromises):
            await asyncio.sleep(0.001)
        exchange.push(Happened(1, 1, (won[0], won[1], *comes, never[0])))
        exchange.push(Happened(2, 2, (won[2],)), Happened(3, 3, (withdrawn, never[1])))
        assert await waits == OrderEnd("none", "unkept")
        exchange.push(Happened(4, 4, (won[3],)))
        assert await anext(ends) == OrderEnd("gang", "filled", tuple(won))

    using(exchange, work)


def test_an_order_that_is_placed_again_goes_on(exchange: FakeExchange) -> None:
    """What was promised to it is withdrawn, and it waits for something else."""
    exchange.replies[AskPromises] = lambda do: promised("o", "h/g0")
    again = Placed(2, "ada", "o", "h", 1, 1, None)
    won = Filled(3, "o", "h/g1", {})

    async def work(client: AsyncClient) -> None:
        waits = asyncio.ensure_future(client.wait_order("o"))
        while not exchange.asked(AskPromises):
            await asyncio.sleep(0.001)
        exchange.push(Happened(2, 2, (Unpromised(2, "ada", "o", "h/g0", "withdrawn"), again)))
        await asyncio.sleep(0.05)
        assert not waits.done()
        exchange.push(Happened(3, 3, (won,)))
        assert await waits == OrderEnd("o", "filled", (won,))

    using(exchange, work)


def test_what_a_gang_won_in_a_gap_is_not_waited_for(exchange: FakeExchange) -> None:
    """A promise that is gone after a gap: nobody heard whether it was kept. What is told behind
    the gap is heard with what is promised now."""
    exchange.replies[AskOrders] = lambda do: open_orders("a", "b")
    first = Filled(1, "a", "h/g0", {})
    begun = Happened(1, 1, (first, Promised(1, "ada", "a", "h/g1", 9)))
    later = Filled(9, "b", "h/g3", {})
    lists = iter([promised("a"), promised("b", "h/g4")])

    async def work(client: AsyncClient) -> None:
        exchange.replies[AskPromises] = lambda do: next(lists)
        ends = client.follow_orders(["a", "b"], after=0)
        waits = asyncio.ensure_future(anext(ends))
        while not exchange.asked(AskPromises):
            await asyncio.sleep(0.001)
        exchange.replies[AskOrders] = lambda do: open_orders()
        exchange.push(begun, Resync(8, "too long ago"), Happened(9, 9, (later,)))
        assert await waits == OrderEnd("a", "unknown", (first,))
        last = Filled(10, "b", "h/g4", {})
        exchange.push(Happened(10, 10, (last,)))
        assert await anext(ends) == OrderEnd("b", "filled", (later, last))

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
