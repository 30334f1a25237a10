"""Many changes at once: at the exchange's pace, to the last, or with a plain account of how far."""

import asyncio
import contextlib
import signal
import threading
import time

import pytest

from client_pool import Pool
from fake_exchange import TOKEN, FakeExchange, using
from laissez.client import AsyncClient, Client
from laissez.client.bulk import WINDOW
from laissez.client.link import AnyRequest
from laissez.model import Answer, CancelOrder, Placed, PlaceOrder, Refused, ServiceCode


class Allowance:
    """So many requests a second and no more, as an exchange allows one token."""

    def __init__(self, per_s: int, burst: int) -> None:
        self._per_s = per_s
        self._burst = burst
        self._left = float(burst)
        self._at = time.monotonic()
        self.refusals = 0

    def __call__(self, do: AnyRequest) -> Refused | None:
        now = time.monotonic()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_s)
        self._at = now
        if self._left >= 1:
            self._left -= 1
            return None
        self.refusals += 1
        wait_ms = round(1_000 * (1 - self._left) / self._per_s) + 1
        return Refused(None, ServiceCode.TOO_MANY_REQUESTS, "not so fast", wait_ms)


def cancels(count: int) -> list[CancelOrder]:
    return [CancelOrder(f"o-{number}") for number in range(count)]


def test_changes_beyond_the_allowance_are_paced(exchange: FakeExchange) -> None:
    """However long they take together, all get through, and few are sent in vain; each acts once
    and in its place."""
    exchange.refuses = allowance = Allowance(per_s=200, burst=20)

    async def work(client: AsyncClient) -> None:
        wanted = cancels(500)
        outcomes = await client.send_all(wanted)
        assert all(isinstance(outcome, Answer) for outcome in outcomes)
        assert {do for _, do in exchange.acted} == set(wanted)

    using(exchange, work, retry_for_s=1)
    assert len(exchange.acted) == 500 == len({key for key, _ in exchange.acted})
    assert allowance.refusals < 1_000


def test_an_exchange_that_is_busy_for_good_ends_it(exchange: FakeExchange) -> None:
    """When nothing gets through any more for as long as a client tries, the rest is refused."""
    left = [20]

    def refuse(do: AnyRequest) -> Refused | None:
        left[0] -= 1
        return None if left[0] >= 0 else Refused(None, ServiceCode.BUSY, "no", 5)

    exchange.refuses = refuse

    async def work(client: AsyncClient) -> None:
        outcomes = await client.send_all(cancels(300))
        assert sum(isinstance(outcome, Answer) for outcome in outcomes) == 20
        refused = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
        assert {outcome.code for outcome in refused} == {ServiceCode.BUSY}

    using(exchange, work, retry_for_s=0.3)


def test_a_real_exchange_takes_more_than_its_allowance(pool: Pool) -> None:
    """Orders and cancels far beyond a token's burst all get through."""
    pool.add("taken")
    pool.dalia.place(pool.tree, limit="5.00")
    order = PlaceOrder(pool.tree, 2_100_000, 2_100_000)
    for _ in range(2):
        placed = pool.ada.send_all([order] * 1_300)
        assert all(isinstance(each, Answer) for each in placed)
        names = [
            event.order
            for each in placed
            if isinstance(each, Answer)
            for event in each.events
            if isinstance(event, Placed)
        ]
        assert len(names) == 1_300
        ended = pool.ada.send_all([CancelOrder(name) for name in names])
        assert all(isinstance(each, Answer) for each in ended)
    assert pool.ada.orders() == ()


def test_whoever_is_stopped_knows_what_was_done(exchange: FakeExchange) -> None:
    """After a cancellation the outcomes are those of exactly what the exchange did, and nothing
    more is sent."""
    exchange.refuses = Allowance(per_s=200, burst=100)

    async def work(client: AsyncClient) -> None:
        wanted = cancels(10_000)
        done: dict[int, Answer | Refused] = {}
        sending = asyncio.create_task(client.send_all(wanted, outcomes=done))
        while len(exchange.acted) < 150:
            await asyncio.sleep(0.01)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        made = {wanted[at] for at, outcome in done.items() if isinstance(outcome, Answer)}
        assert made == {do for _, do in exchange.acted}
        assert 150 <= len(made) <= 150 + 2 * WINDOW
        sent = len(exchange.requests)
        await asyncio.sleep(0.05)
        assert len(exchange.requests) == sent

    using(exchange, work)


def test_ctrl_c_leaves_a_plain_account(exchange: FakeExchange) -> None:
    """In the blocking client, too: what is in `outcomes` was done, the rest was not sent."""
    exchange.refuses = Allowance(per_s=200, burst=100)
    wanted = cancels(10_000)
    done: dict[int, Answer | Refused] = {}
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:

        def interrupt() -> None:
            exchange.wait_until(lambda: len(exchange.acted) >= 150)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        interrupting = threading.Thread(target=interrupt)
        with Client(exchange.url, TOKEN) as client, contextlib.suppress(KeyboardInterrupt):
            interrupting.start()
            client.send_all(wanted, outcomes=done, progress=lambda now, of: heard.append(now))
        interrupting.join()
    finally:
        signal.signal(signal.SIGINT, before)
    made = {wanted[at] for at, outcome in done.items() if isinstance(outcome, Answer)}
    assert made == {do for _, do in exchange.acted}
    assert 150 <= len(made) < 10_000
    assert heard == list(range(1, len(done) + 1))
