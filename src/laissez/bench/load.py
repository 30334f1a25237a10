"""The load, as a process, in one of two manners.

*Traders that wait*: a number of requests is under way, spread over the connections; a connection
sends the next when one is answered. A latency counts from when the request was sent.

*A fixed rate*: requests are due at a rate, drawn at random over the connections, whatever the
answers take. A latency counts from the instant at which the request was due, so that a server that
stalls is charged for every request that it kept waiting. A connection with `IN_FLIGHT_MAX`
unanswered requests sends nothing until one is answered; what was due meanwhile is sent late, not
dropped.

Traders that wait can have two servers, in turns of half a second: whatever else happens on the
machine happens to both, and what one does as a share of the other can be told, even where neither
figure means much by itself. A turn ends when its last request is answered.

Reads its plan as JSON from standard input, writes what it saw as JSON to the file named there.
"""

from __future__ import annotations

import asyncio
import gc
import random
import sys
from collections import deque
from pathlib import Path
from time import process_time

import msgspec
import uvloop
from picows import ws_connect

from laissez.bench.trader import IN_FLIGHT_MAX, LoadTrader, clock, percentile

TICK_S = 0.001
DRAIN_S = 10.0
TURN_S = 0.5


class LoadPlan(msgspec.Struct, frozen=True):
    """`seconds` is for how long requests are sent to each of the servers at `urls`."""

    urls: list[str]
    tokens: list[str]
    connections: int
    requests_per_s: int | None
    under_way: int
    seconds: float
    warm_up_s: float
    scopes: list[str]
    seed: int
    report: str


class LoadSeen(msgspec.Struct, frozen=True):
    """What the load saw after warming up. `seconds` ends when the last request was answered;
    `acknowledged` holds, per connection, id and sequence."""

    requests: int
    seconds: float
    accepted: int
    refused: int
    unanswered: int
    lost_connections: int
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    client_cpu: float
    acknowledged: dict[str, list[tuple[int, int]]]


class Side:
    """One server, and the traders who have it."""

    def __init__(self, traders: list[LoadTrader]) -> None:
        self.traders = traders
        self.sending_s = 0.0
        self.seconds = 0.0
        self.cpu_s = 0.0


async def run(plan: LoadPlan) -> list[LoadSeen]:
    """What was seen of each server."""
    sides = [Side(await _connect_all(plan, url)) for url in plan.urls]
    gc.collect()
    gc.freeze()
    for side in sides:
        await _send(plan, side.traders, plan.warm_up_s, plan.seed)
        await _until_answered(side.traders)
        for trader in side.traders:
            trader.latencies_s.clear()
            trader.accepted = trader.refused = 0
    if len(sides) == 1:
        await _take_turn(plan, sides[0], plan.seconds)
    while (first := min(sides, key=lambda side: side.sending_s)).sending_s < plan.seconds:
        await _take_turn(plan, first, min(TURN_S, plan.seconds - first.sending_s))
    return [_summary(plan, side) for side in sides]


async def _take_turn(plan: LoadPlan, side: Side, seconds: float) -> None:
    """Send for so long, and wait for the answers: they are counted, so their time is, too."""
    begun, cpu = clock(), process_time()
    await _send(plan, side.traders, seconds, plan.seed + 1)
    side.sending_s += seconds
    await _until_answered(side.traders)
    side.seconds += clock() - begun
    side.cpu_s += process_time() - cpu


async def _until_answered(traders: list[LoadTrader]) -> None:
    latest = clock() + DRAIN_S
    while clock() < latest and any(trader.in_flight for trader in traders):
        await asyncio.sleep(TICK_S)


async def _connect_all(plan: LoadPlan, url: str) -> list[LoadTrader]:
    return [await _connect(plan, url, number) for number in range(plan.connections)]


async def _connect(plan: LoadPlan, url: str, number: int) -> LoadTrader:
    index = number % len(plan.tokens)
    trader = LoadTrader(number, plan.scopes, plan.seed * 1_000_003 + number)
    await ws_connect(
        lambda: trader,
        url.replace("http", "ws", 1) + "/v1/stream",
        extra_headers={"Authorization": f"Bearer {plan.tokens[index]}"},
    )
    return trader


async def _send(plan: LoadPlan, traders: list[LoadTrader], seconds: float, seed: int) -> None:
    if plan.requests_per_s is None:
        await _keep_under_way(plan, traders, seconds)
    else:
        await _send_at_rate(plan.requests_per_s, traders, seconds, seed)


async def _keep_under_way(plan: LoadPlan, traders: list[LoadTrader], seconds: float) -> None:
    """Let every trader send the next request when one is answered."""
    each, more = divmod(plan.under_way, len(traders))
    for number, trader in enumerate(traders):
        trader.goes_on = True
        for _ in range(each + (number < more) - len(trader.in_flight)):
            trader.fire(clock())
    await asyncio.sleep(seconds)
    for trader in traders:
        trader.goes_on = False


async def _send_at_rate(
    requests_per_s: int, traders: list[LoadTrader], seconds: float, seed: int
) -> None:
    """Fire at the plan's rate; those due at a connection that has too much under way wait."""
    draw = random.Random(seed).random
    late: deque[tuple[LoadTrader, float]] = deque()
    begun, due_count = clock(), 0
    while (elapsed := clock() - begun) < seconds:
        for _ in range(len(late)):
            trader, due = late.popleft()
            if len(trader.in_flight) < IN_FLIGHT_MAX:
                trader.fire(due)
            else:
                late.append((trader, due))
        target = int(elapsed * requests_per_s)
        while due_count < target:
            trader = traders[int(draw() * len(traders))]
            due = begun + due_count / requests_per_s
            if len(trader.in_flight) < IN_FLIGHT_MAX:
                trader.fire(due)
            else:
                late.append((trader, due))
            due_count += 1
        await asyncio.sleep(TICK_S)


def _summary(plan: LoadPlan, side: Side) -> LoadSeen:
    traders = side.traders
    latencies = sorted(latency for trader in traders for latency in trader.latencies_s)

    def in_ms(share: float) -> float:
        return round(percentile(latencies, share) * 1_000, 3) if latencies else 0.0

    acknowledged: dict[str, list[tuple[int, int]]] = {}
    for number, trader in enumerate(traders):
        acknowledged[str(number)] = trader.acknowledged
    return LoadSeen(
        len(latencies),
        round(side.seconds, 3),
        sum(trader.accepted for trader in traders),
        sum(trader.refused for trader in traders),
        sum(len(trader.in_flight) for trader in traders),
        sum(trader.lost_connection for trader in traders),
        in_ms(0.5),
        in_ms(0.99),
        in_ms(0.999),
        in_ms(1.0),
        round(side.cpu_s / side.seconds, 3),
        acknowledged,
    )


def main() -> None:
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=LoadPlan)
    Path(plan.report).write_bytes(msgspec.json.encode(uvloop.run(run(plan))))


if __name__ == "__main__":
    main()
