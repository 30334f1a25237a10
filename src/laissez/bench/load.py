"""The load, as a process, in one of two manners.

*Traders that wait*: a number of requests is under way, spread over the connections; a connection
sends the next when one is answered. A latency counts from when the request was sent.

*A fixed rate*: requests are due at a rate, drawn at random over the connections, whatever the
answers take. A latency counts from the instant at which the request was due, so that a server that
stalls is charged for every request that it kept waiting. A connection with `IN_FLIGHT_MAX`
unanswered requests sends nothing until one is answered; what was due meanwhile is sent late, not
dropped.

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

from laissez.bench.trader import IN_FLIGHT_MAX, Trader, clock, percentile

TICK_S = 0.001
DRAIN_S = 10.0


class Plan(msgspec.Struct, frozen=True):
    url: str
    tokens: list[str]
    connections: int
    requests_per_s: int | None
    under_way: int
    seconds: float
    warm_up_s: float
    scopes: list[str]
    seed: int
    report: str


class Seen(msgspec.Struct, frozen=True):
    """What the load saw after warming up; `acknowledged` holds, per connection, id and sequence."""

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


async def run(plan: Plan) -> Seen:
    traders = [await _connect(plan, number) for number in range(plan.connections)]
    gc.collect()
    gc.freeze()
    await _send(plan, traders, plan.warm_up_s, plan.seed)
    for trader in traders:
        trader.latencies_s.clear()
        trader.accepted = trader.refused = 0
    begun, cpu = clock(), process_time()
    await _send(plan, traders, plan.seconds, plan.seed + 1)
    sent = clock() - begun
    used = (process_time() - cpu) / sent
    latest = clock() + DRAIN_S
    while clock() < latest and any(trader.in_flight for trader in traders):
        await asyncio.sleep(0.01)
    return _summary(plan, traders, sent, used)


async def _connect(plan: Plan, number: int) -> Trader:
    index = number % len(plan.tokens)
    trader = Trader(number, plan.scopes, plan.seed * 1_000_003 + number)
    await ws_connect(
        lambda: trader,
        plan.url.replace("http", "ws", 1) + "/v1/stream",
        extra_headers={"Authorization": f"Bearer {plan.tokens[index]}"},
    )
    return trader


async def _send(plan: Plan, traders: list[Trader], seconds: float, seed: int) -> None:
    if plan.requests_per_s is None:
        await _keep_under_way(plan, traders, seconds)
    else:
        await _send_at_rate(plan.requests_per_s, traders, seconds, seed)


async def _keep_under_way(plan: Plan, traders: list[Trader], seconds: float) -> None:
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
    requests_per_s: int, traders: list[Trader], seconds: float, seed: int
) -> None:
    """Fire at the plan's rate; those due at a connection that has too much under way wait."""
    draw = random.Random(seed).random
    late: deque[tuple[Trader, float]] = deque()
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


def _summary(plan: Plan, traders: list[Trader], seconds: float, cpu: float) -> Seen:
    latencies = sorted(latency for trader in traders for latency in trader.latencies_s)

    def in_ms(share: float) -> float:
        return round(percentile(latencies, share) * 1_000, 3) if latencies else 0.0

    acknowledged: dict[str, list[tuple[int, int]]] = {}
    for number, trader in enumerate(traders):
        acknowledged[str(number)] = trader.acknowledged
    return Seen(
        len(latencies),
        round(seconds, 3),
        sum(trader.accepted for trader in traders),
        sum(trader.refused for trader in traders),
        sum(len(trader.in_flight) for trader in traders),
        sum(trader.lost_connection for trader in traders),
        in_ms(0.5),
        in_ms(0.99),
        in_ms(0.999),
        in_ms(1.0),
        round(cpu, 3),
        acknowledged,
    )


def main() -> None:
    plan = msgspec.json.decode(sys.stdin.buffer.read(), type=Plan)
    Path(plan.report).write_bytes(msgspec.json.encode(uvloop.run(run(plan))))


if __name__ == "__main__":
    main()
