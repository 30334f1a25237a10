"""The traders of the soak, as a process: `python benchmarks/soaking.py`, a plan as JSON from
standard input, a line of JSON a minute to standard output.

Each connection places an order, amends it three times and cancels it, over and over, every request
with a key of its own and every price another one: all that a service might be tempted to remember.
Requests are due at a rate, whatever the answers take. One in a hundred orders bids high enough to
take a resource from its holder, and gives it back.

Beside them visitors come and go, some a second: each makes a connection of its own, subscribes,
asks by REST, and leaves, so that what a connection leaves behind adds up to something that shows.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Iterator
from itertools import count
from urllib.parse import urlsplit

import msgspec
import uvloop
from talking import Answered, Asking, Talk

from laissez.model import (
    AmendOrder,
    Answer,
    CancelOrder,
    Filled,
    Instruction,
    PlaceOrder,
    Refused,
    Release,
    Request,
    Said,
    Subscribe,
    Subscribed,
)

TICK_S = 0.002
AMENDED = 3
WINS_ONE_IN = 100
PRESSING, PRICES = 2_000, 5_000
HOLDERS_LIMIT, WINNING = 1_000_000, 2_000_000
IN_FLIGHT_MAX = 500
VISITS_PER_S = 5
VISIT_TIMEOUT_S = 10.0


class SoakPlan(msgspec.Struct, frozen=True):
    url: str
    tokens: list[str]
    scopes: list[str]
    requests_per_s: float
    seconds: float
    tell_every_s: float


class Told(msgspec.Struct, frozen=True):
    """What happened since the last line."""

    answered: int
    refused: int
    unsent: int
    p99_ms: float
    max_ms: float
    connected: int = 0
    visits: int = 0
    visits_failed: int = 0


class Visits:
    """How many came and went since it was last told, and how many came to nothing."""

    def __init__(self, plan: SoakPlan) -> None:
        self.done = 0
        self.failed = 0
        self._plan = plan
        self._underway: set[asyncio.Task[None]] = set()
        self._tokens = count()

    def begin(self) -> None:
        token = self._plan.tokens[next(self._tokens) % len(self._plan.tokens)]
        task = asyncio.create_task(self._visit(token))
        self._underway.add(task)
        task.add_done_callback(self._underway.discard)

    async def _visit(self, token: str) -> None:
        is_done = False
        with contextlib.suppress(Exception):  # whatever it was, it came to nothing
            async with asyncio.timeout(VISIT_TIMEOUT_S):
                is_done = await _subscribe(self._plan.url, token)
                is_done = await _get_orders(self._plan.url, token) and is_done
        self.done += 1
        self.failed += not is_done


async def _subscribe(url: str, token: str) -> bool:
    """Subscribe, and wait until that is answered."""
    subscribed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def end(is_done: bool) -> None:
        if not subscribed.done():
            subscribed.set_result(is_done)

    def hear(said: Said, now_s: float) -> None:
        if isinstance(said, Subscribed | Refused):
            end(isinstance(said, Subscribed))

    talk = Talk(hear, lambda: end(False))
    await talk.connect(url, token)
    try:
        talk.send(Request(1, Subscribe(rates=True)))
        return await subscribed
    finally:
        talk.end()


async def _get_orders(url: str, token: str) -> bool:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    with contextlib.closing(writer):
        lines = ["GET /v1/orders HTTP/1.1", "Host: exchange", f"Authorization: Bearer {token}"]
        writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode())
        return b" 200 " in (await reader.read()).split(b"\r\n", 1)[0]


class SoakingTrader:
    def __init__(self, number: int, scopes: list[str]) -> None:
        self.latencies_s: list[float] = []
        self.refused = 0
        self.unsent = 0
        self._scopes = scopes
        self._number = number
        self._keys = count()
        self._won: list[str] = []
        self._script = self._acts()
        self.asking: Asking[float] = Asking(self._hear)

    def _hear(self, sent_at: float, answered: Answered, now_s: float) -> None:
        self.latencies_s.append(now_s - sent_at)
        if isinstance(answered, Refused):
            self.refused += 1
        elif isinstance(answered, Answer):
            self._won.extend(each.resource for each in answered.events if isinstance(each, Filled))

    def fire(self) -> None:
        """Send what comes next, unless too much is unanswered."""
        if not self.asking.talk.is_connected or len(self.asking.unanswered) >= IN_FLIGHT_MAX:
            self.unsent += 1
            return
        key = f"{self._number}-{next(self._keys)}-{time.time_ns()}"
        self.asking.ask(next(self._script), time.monotonic(), key)

    def _acts(self) -> Iterator[Instruction]:
        for turn in count(self._number):
            scope, order = self._scopes[turn % len(self._scopes)], f"{self._number}-{turn}"
            if turn % WINS_ONE_IN == 0:
                yield PlaceOrder(scope, WINNING, WINNING, order)
            else:
                yield PlaceOrder(scope, _price(turn), HOLDERS_LIMIT, order)
                for amended in range(AMENDED):
                    yield AmendOrder(order, price=_price(turn * 7 + amended * 31))
                yield CancelOrder(order)
            while self._won:
                yield Release(self._won.pop())


def _price(turn: int) -> int:
    return PRESSING + turn * 7_919 % PRICES


async def run(plan: SoakPlan) -> None:
    traders = []
    for number, token in enumerate(plan.tokens):
        trader = SoakingTrader(number, plan.scopes)
        await trader.asking.talk.connect(plan.url, token)
        traders.append(trader)
    visits = Visits(plan)
    begun = told_at = time.monotonic()
    due = visits_due = 0
    while (now := time.monotonic()) < begun + plan.seconds:
        while due < (now - begun) * plan.requests_per_s:
            traders[due % len(traders)].fire()
            due += 1
        while visits_due < (now - begun) * VISITS_PER_S:
            visits.begin()
            visits_due += 1
        if now - told_at >= plan.tell_every_s:
            told_at = now
            _tell(traders, visits)
        await asyncio.sleep(TICK_S)
    _tell(traders, visits)


def _tell(traders: list[SoakingTrader], visits: Visits) -> None:
    latencies = sorted(each for trader in traders for each in trader.latencies_s)
    told = Told(
        len(latencies),
        sum(trader.refused for trader in traders),
        sum(trader.unsent for trader in traders),
        round(latencies[int(len(latencies) * 0.99)] * 1_000, 1) if latencies else 0.0,
        round(latencies[-1] * 1_000, 1) if latencies else 0.0,
        sum(trader.asking.talk.is_connected for trader in traders),
        visits.done,
        visits.failed,
    )
    print(msgspec.json.encode(told).decode(), flush=True)
    for trader in traders:
        trader.latencies_s.clear()
        trader.refused = trader.unsent = 0
    visits.done = visits.failed = 0


if __name__ == "__main__":
    given = msgspec.json.decode(sys.stdin.buffer.read(), type=SoakPlan)
    uvloop.run(run(given))
