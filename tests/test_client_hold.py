"""A holding as a block: filled, waited for, lost and given back, whatever the exchange does."""

import asyncio
import signal
import threading
import time

import pytest
from picows import WSUpgradeResponse

from client_pool import Pool
from fake_exchange import ANSWER_LOST, TOKEN, FakeExchange
from laissez.client import (
    AsyncClient,
    Client,
    ConnectionFailed,
    Gone,
    Held,
    NotFilled,
    Refusal,
)
from laissez.model import (
    AskHoldings,
    AskOrders,
    AskPromises,
    Cancelled,
    CancelOrder,
    Expired,
    Filled,
    Happened,
    Holding,
    HoldingList,
    Instruction,
    Lost,
    Notice,
    OpenOrder,
    OrderList,
    Placed,
    PlaceOrder,
    Promise,
    PromiseList,
    Refused,
    Rejected,
    Release,
    Resync,
    Uncalled,
)

G0 = "h100/east/r1/g0"


# --- holding, at the real exchange --------------------------------------------------------------


def test_a_block_holds_what_is_idle(pool: Pool) -> None:
    """Filled at once, priced at the quote, given back at the end."""
    pool.add("a/g0")
    with pool.ada.hold(pool.tree, limit="5.00") as held:
        assert held.resource == f"{pool.tree}/a/g0" and held.attributes == {"levels": "zone/gpu"}
        assert held.rate() == 2_000_000 and held.lost is None
        assert pool.ada.holdings()[0].limit == 5_000_000
        held.set_limit("6.00")
        assert pool.ada.holdings()[0].limit == 6_000_000
        assert held.wait_lost(0.01) is None
    assert pool.ada.holdings() == () and held.lost is None
    assert "Held(resource=" in repr(held)


def test_a_block_waits_until_it_is_filled(pool: Pool) -> None:
    """What is not idle now may be later, and the stream tells."""
    started = threading.Event()
    got: list[str] = []

    def wait() -> None:
        started.set()
        with pool.dalia.hold(pool.tree, price="2.50", limit="3.00", wait_s=20) as held:
            got.append(held.resource)

    pool.add("a/g0")
    with pool.ada.hold(pool.tree, limit="9.00"):
        thread = threading.Thread(target=wait)
        thread.start()
        started.wait(10)
        while not pool.dalia.orders():
            pass
    thread.join(20)
    assert got == [f"{pool.tree}/a/g0"]
    assert pool.dalia.holdings() == () == pool.dalia.orders()


def test_a_block_that_is_not_filled_leaves_nothing(pool: Pool) -> None:
    """NotFilled says why as far as one may know, and the order is gone."""
    pool.add("a/g0")
    with pool.ada.hold(pool.tree, limit="9.00"):
        with (
            pytest.raises(NotFilled, match=r"nothing is idle under .* at or below your limit"),
            pool.dalia.hold(pool.tree, price="3.00", limit="4.00", wait_s=0.05),
        ):
            pytest.fail("it was not to be had")
        assert pool.dalia.orders() == ()
        with (
            pytest.raises(NotFilled, match="expired"),
            pool.dalia.hold(pool.tree, price="3.00", limit="4.00", expires="100ms", wait_s=20),
        ):
            pytest.fail("it was not to be had")


def test_a_block_that_loses_its_resource_goes_on(pool: Pool) -> None:
    """Nothing is raised; `lost` says so, and the end releases nothing of the winner's."""
    pool.add("a/g0")
    with pool.ada.hold(pool.tree, limit="3.00") as held:
        pool.dalia.place(pool.tree, price="4.00")
        lost = held.wait_lost(10)
        assert isinstance(lost, Lost) and lost.reason == "outbid"
        assert held.lost is lost and held.rate() == 0
    assert [each.resource for each in pool.dalia.holdings()] == [f"{pool.tree}/a/g0"]
    pool.dalia.release(f"{pool.tree}/a/g0")


def test_a_block_that_lowers_its_limit_too_far_knows_at_once(pool: Pool) -> None:
    """What the answer to set_limit says is known when it returns."""
    pool.add("a/g0")
    with pool.ada.hold(pool.tree, limit="3.00") as held:
        held.set_limit("1.00")
        assert isinstance(held.lost, Lost) and held.lost.reason == "limit"


def test_a_block_that_fails_still_gives_back(pool: Pool) -> None:
    """The error comes through, and the resource does not stay."""
    pool.add("a/g0")
    with pytest.raises(ZeroDivisionError), pool.ada.hold(pool.tree, limit="5.00"):
        _ = 1 // 0
    assert pool.ada.holdings() == ()


def test_many_blocks_of_one_client_share_a_stream(pool: Pool) -> None:
    """Each block has a resource of its own, and all come back."""
    pool.add(*(f"a/g{number}" for number in range(8)))
    seen: list[str] = []

    async def one(client: AsyncClient, all_in: asyncio.Barrier) -> None:
        async with client.hold(pool.tree, limit="5.00") as held:
            seen.append(held.resource)
            assert await held.rate() == 2_000_000
            await all_in.wait()

    async def main() -> None:
        all_in = asyncio.Barrier(8)
        login = pool.ada._async._link._login
        async with AsyncClient(login.url, login.token) as client, asyncio.timeout(20):
            await asyncio.gather(*(one(client, all_in) for _ in range(8)))
            assert await client.holdings() == ()

    asyncio.run(main())
    assert len(set(seen)) == 8


def test_a_cancelled_wait_takes_its_order_back(pool: Pool) -> None:
    """Who stops waiting does not win later."""
    pool.add("a/g0")

    async def main() -> None:
        login = pool.dalia._async._link._login
        async with AsyncClient(login.url, login.token) as client, asyncio.timeout(20):
            block = client.hold(pool.tree, price="3.00", limit="4.00")
            waiting = asyncio.create_task(block.__aenter__())
            while not await client.orders():
                await asyncio.sleep(0.001)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert await client.orders() == ()

    with pool.ada.hold(pool.tree, limit="9.00"):
        asyncio.run(main())


def test_an_interrupted_wait_takes_its_order_back(pool: Pool) -> None:
    """A thread that is interrupted (Ctrl-C, say) while it waits leaves no order behind."""
    pool.add("a/g0")

    class Interrupted(BaseException):
        pass

    def interrupt(number: int, frame: object) -> None:
        raise Interrupted

    def when_it_waits() -> None:
        while not pool.operator.orders("dalia"):
            pass
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pool.ada.hold(pool.tree, limit="9.00"):
            threading.Thread(target=when_it_waits).start()
            with (
                pytest.raises(Interrupted),
                pool.dalia.hold(pool.tree, price="3.00", limit="4.00"),
            ):
                pytest.fail("it was not to be had")
            assert pool.dalia.orders() == ()
    finally:
        signal.signal(signal.SIGUSR1, before)


# --- holding, when the exchange misbehaves ------------------------------------------------------


class Market:
    """A fake market of one resource: fills orders when told to, from the fake's own thread."""

    def __init__(self, exchange: FakeExchange) -> None:
        self.exchange = exchange
        self.fills_at_once = True
        self.holds: str | None = None
        self.open: PlaceOrder | None = None
        exchange.events_of = self.events
        exchange.replies[AskOrders] = lambda do: OrderList(1, self.orders())
        exchange.replies[AskHoldings] = lambda do: HoldingList(1, self.holdings())

    def events(self, do: Instruction) -> tuple[Notice, ...]:
        if isinstance(do, PlaceOrder):
            assert do.order is not None and do.limit is not None
            placed = Placed(1, "ada", do.order, do.scope, do.price or 1, do.limit, None)
            if not self.fills_at_once:
                self.open = do
                return (placed,)
            self.holds = G0
            return placed, Filled(1, do.order, G0, {})
        if isinstance(do, CancelOrder):
            if self.open is None:
                return (Rejected(1, "unknown_order", "there is no such order"),)
            self.open = None
            return (Cancelled(1, "ada", do.order),)
        assert isinstance(do, Release)
        if self.holds is None:
            return (Rejected(1, "not_the_holder", "it is not yours"),)
        self.holds = None
        return (Lost(1, do.resource, "relinquished"),)

    def orders(self) -> tuple[OpenOrder, ...]:
        do = self.open
        if do is None:
            return ()
        assert do.order is not None and do.limit is not None
        return (OpenOrder("ada", do.order, do.scope, 1, do.limit, None),)

    def holdings(self) -> tuple[Holding, ...]:
        if self.holds is None:
            return ()
        return (Holding(self.holds, 1, 2_000_000, 5_000_000, None, {}, "ada"),)

    @property
    def order(self) -> str:
        (first,) = self.exchange.asked(PlaceOrder)[:1]
        assert isinstance(first.order, str)
        return first.order

    @property
    def releases(self) -> int:
        return sum(isinstance(do, Release) for _, do in self.exchange.acted)


@pytest.fixture
def market(exchange: FakeExchange) -> Market:
    return Market(exchange)


def test_a_block_survives_lost_connections(exchange: FakeExchange, market: Market) -> None:
    """Ordering and releasing happen once each, although every answer was lost once."""
    exchange.moves = [ANSWER_LOST, ANSWER_LOST, None, ANSWER_LOST]
    with (
        Client(exchange.url, TOKEN) as client,
        client.hold("h100", limit=5_000_000, wait_s=10) as held,
    ):
        assert held.resource == G0
        exchange.moves = [None, ANSWER_LOST]
    kinds = [type(do) for _, do in exchange.acted]
    assert kinds == [PlaceOrder, Release]


def test_a_fill_that_only_the_stream_tells(exchange: FakeExchange, market: Market) -> None:
    """The order rests, and is filled later by somebody else's doing."""
    market.fills_at_once = False

    def fill() -> None:
        exchange.wait_until(lambda: market.open is not None)
        exchange.push(Happened(9, 9, (Filled(9, market.order, G0, {"a": "b"}),)))

    threading.Thread(target=fill).start()
    with Client(exchange.url, TOKEN) as client, client.hold("h100", limit=5_000_000) as held:
        assert held.attributes == {"a": "b"} and isinstance(held, Held)
        market.holds = G0
    assert market.releases == 1


def test_a_fill_at_the_last_moment_is_a_fill(exchange: FakeExchange, market: Market) -> None:
    """If the order is gone when it is cancelled, the resource is found among the holdings."""
    market.fills_at_once = False

    def gone_by_then(do: Instruction) -> tuple[Notice, ...]:
        if isinstance(do, CancelOrder):
            market.open, market.holds = None, G0
        return market.events(do)

    exchange.events_of = gone_by_then
    with (
        Client(exchange.url, TOKEN) as client,
        client.hold("h100", limit=5_000_000, wait_s=0) as held,
    ):
        assert held.resource == G0
    assert market.releases == 1


@pytest.mark.parametrize(("held_now", "fits"), [(G0, True), (None, False), ("h100/a", False)])
def test_after_a_resync_the_state_is_read_anew(
    exchange: FakeExchange, market: Market, held_now: str | None, fits: bool
) -> None:
    """A fill that nobody heard is found if exactly one holding fits; else nothing is guessed."""
    market.fills_at_once = False

    def forget() -> None:
        exchange.wait_until(lambda: market.open is not None)
        market.open, market.holds = None, held_now
        exchange.push(Resync(50, "read your state anew"))

    threading.Thread(target=forget).start()
    scope = "h100/east"
    with Client(exchange.url, TOKEN) as client:
        if fits:
            with client.hold(scope, price=1, limit=5_000_000) as held:
                assert held.resource == G0
        else:
            with (
                pytest.raises(NotFilled, match="not open any more"),
                client.hold(scope, price=1, limit=5_000_000),
            ):
                pytest.fail("it was not to be had")
    assert market.releases == int(fits)


def is_uncalled(held: Held) -> bool:
    time.sleep(0.01)
    return held.called is None


def test_after_a_resync_promises_and_calls_are_read_anew(
    exchange: FakeExchange, market: Market
) -> None:
    """A promise that nobody heard is waited for, beyond all patience; so is a call found."""
    market.fills_at_once = False
    called = Holding(G0, 1, 1, 5_000_000, None, {}, "ada", "notice", 2_000_000, "outbid")

    def forget() -> None:
        exchange.wait_until(lambda: market.open is not None)
        promise = Promise(G0, "ada", market.order, 2_000_000, 9)
        exchange.replies[AskPromises] = lambda do: PromiseList(1, (promise,))
        market.open = None
        exchange.push(Resync(50, "read your state anew"))
        time.sleep(0.5)
        exchange.push(Happened(51, 51, (Filled(51, market.order, G0, {}),)))

    threading.Thread(target=forget).start()
    with (
        Client(exchange.url, TOKEN) as client,
        client.hold("h100", price=1, limit=5_000_000, wait_s=0.3) as held,
    ):
        market.holds = G0
        assert held.called is None
        exchange.replies[AskHoldings] = lambda do: HoldingList(1, (called,))
        exchange.push(Resync(60, "read your state anew"))
        summons = held.wait_called(10)
        assert summons is not None and (summons.resource, summons.reason) == (G0, "outbid")
        assert summons.left_s() == 0
        exchange.push(Happened(61, 61, (Uncalled(61, "ada", G0),)))
        assert any(is_uncalled(held) for _ in range(1_000))
    assert market.releases == 1


def test_where_several_holdings_fit_none_is_taken(exchange: FakeExchange, market: Market) -> None:
    """A block never gives back what may be another's."""
    market.fills_at_once = False
    two = tuple(Holding(f"h100/g{n}", 1, 1, 5_000_000, None, {}, "ada") for n in range(2))

    def forget() -> None:
        exchange.wait_until(lambda: market.open is not None)
        market.open = None
        exchange.replies[AskHoldings] = lambda do: HoldingList(1, two)
        exchange.push(Resync(50, "read your state anew"))

    threading.Thread(target=forget).start()
    with (
        Client(exchange.url, TOKEN) as client,
        pytest.raises(NotFilled, match="2 of your holdings"),
        client.hold("h100", price=1, limit=5_000_000),
    ):
        pytest.fail("it was not to be had")
    assert market.releases == 0


def test_a_loss_that_nobody_heard_is_seen(exchange: FakeExchange, market: Market) -> None:
    """After a resync a resource that is not among the holdings is lost, for a reason unseen."""
    with Client(exchange.url, TOKEN) as client, client.hold("h100", limit=5_000_000) as held:
        exchange.push(Resync(50, "read your state anew"))
        exchange.wait_until(lambda: len(exchange.asked(AskHoldings)) == 1)
        assert held.wait_lost(0.05) is None
        market.holds = None
        exchange.push(Resync(51, "read your state anew"))
        assert held.wait_lost(10) == Gone(1, G0, "unseen")
    assert market.releases == 0


def test_a_resource_that_goes_to_an_own_order_is_lost_to_this_block(
    exchange: FakeExchange, market: Market
) -> None:
    """Two blocks never hold one resource, although the tenant still has it."""
    with Client(exchange.url, TOKEN) as client, client.hold("h100", limit=5_000_000) as held:
        exchange.push(Happened(9, 9, (Filled(9, "another", G0, {}),)))
        assert held.wait_lost(10) == Gone(9, G0, "own_order")
    assert market.releases == 0


def test_a_loss_at_the_last_moment_is_no_error(exchange: FakeExchange, market: Market) -> None:
    """If the exchange says at the end that the resource is not ours, so be it."""
    with Client(exchange.url, TOKEN) as client, client.hold("h100", limit=5_000_000):
        market.holds = None
    assert market.releases == 1


def test_a_holding_waits_for_an_exchange_that_is_away(
    exchange: FakeExchange, market: Market
) -> None:
    """Inside a block the loss of a connection is no loss, however long it lasts."""
    with (
        Client(exchange.url, TOKEN, retry_for_s=0.5) as client,
        client.hold("h100", limit=5_000_000) as held,
    ):
        exchange.greetings = [WSUpgradeResponse.create_error_response(503) for _ in range(4)]
        exchange.hang_up()
        exchange.wait_until(lambda: len(exchange.connections) == 2)
        exchange.push(Happened(9, 9, (Lost(9, G0, "outbid"),)))
        assert held.wait_lost(10) == Lost(9, G0, "outbid")


def test_what_could_not_be_given_back_is_said(exchange: FakeExchange, market: Market) -> None:
    """An exchange that is gone at the end is an error; on top of another error it is a note."""

    def lose_the_exchange_inside(client: Client, *, fail: bool) -> None:
        with client.hold("h100", limit=5_000_000):
            exchange.greetings = [WSUpgradeResponse.create_error_response(503) for _ in range(99)]
            exchange.hang_up()
            if fail:
                raise KeyError("the block's own")

    with Client(exchange.url, TOKEN, retry_for_s=0.5) as client, pytest.raises(ConnectionFailed):
        lose_the_exchange_inside(client, fail=False)
    exchange.greetings = []
    with (
        Client(exchange.url, TOKEN, retry_for_s=0.5) as client,
        pytest.raises(KeyError) as error,
    ):
        lose_the_exchange_inside(client, fail=True)
    assert G0 in error.value.__notes__[0]


def test_an_order_that_was_refused_is_not_cancelled(exchange: FakeExchange, market: Market) -> None:
    """A refusal for good comes through, and there is nothing to take back."""
    exchange.refuses = lambda do: (
        Refused(None, "scope_not_visible", "give a price") if isinstance(do, PlaceOrder) else None
    )
    with (
        Client(exchange.url, TOKEN) as client,
        pytest.raises(Refusal, match="give a price"),
        client.hold("h100/x", limit=5_000_000),
    ):
        pytest.fail("it was not to be had")
    assert exchange.asked(CancelOrder) == []


def test_an_order_that_somebody_cancelled_is_not_filled(
    exchange: FakeExchange, market: Market
) -> None:
    """Another program of the tenant may end the order, or its time may."""
    market.fills_at_once = False
    for kind, word in ((Cancelled, "cancelled"), (Expired, "expired")):
        exchange.requests.clear()
        market.open = None

        def end(kind: type[Cancelled] | type[Expired] = kind) -> None:
            exchange.wait_until(lambda: market.open is not None)
            exchange.push(Happened(9, 9, (kind(9, "ada", market.order),)))

        threading.Thread(target=end).start()
        with (
            Client(exchange.url, TOKEN) as client,
            pytest.raises(NotFilled, match=word),
            client.hold("h100", price=1, limit=5_000_000),
        ):
            pytest.fail("it was not to be had")
