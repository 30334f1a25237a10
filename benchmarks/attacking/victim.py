"""Somebody who only wants to trade: asks for a quote, places an order, cancels it, in turn.

Requests are due at a rate, whatever the answers take, and what they wait counts from when they were
due: a service that stands still is charged for each of them, and so is a machine that is too busy.
Twice a second a new connection is made, too, as a tenant that comes back would. A process of its
own, started with `python -m attacking.victim`: it reads a plan as JSON from standard input, and
writes what it saw to the file named there.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ssl
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import uvloop
from talking import Answered, Asking

from laissez.model import AskQuote, CancelOrder, PlaceOrder, Refused
from raw_websocket import handshake

TREE = "v100"
REQUESTS_PER_S = 90
DOORS_PER_S = 2
DRAIN_S = 12.0
DOOR_TIMEOUT_S = 5.0


class VictimPlan(msgspec.Struct, frozen=True):
    url: str
    token: str
    seconds: float
    report: str
    certificate: str | None = None
    requests_per_s: int = REQUESTS_PER_S


class Waited(msgspec.Struct):
    """One request: what, when it was due, how long it took from then; `failed` if it came to
    nothing."""

    kind: str
    due_at: float
    seconds: float | None = None
    failed: str | None = None


class Victim:
    def __init__(self) -> None:
        self.seen: list[Waited] = []
        self.asking: Asking[Waited] = Asking(self._hear)

    def _hear(self, waited: Waited, answered: Answered, now_s: float) -> None:
        waited.seconds = now_s - waited.due_at
        if isinstance(answered, Refused):
            waited.failed = answered.code

    def fire(self, due_at: float) -> None:
        number = len(self.seen)
        turn, order = number % 3, f"o{number // 3}"
        do: AskQuote | PlaceOrder | CancelOrder = AskQuote(TREE)
        if turn:
            do = PlaceOrder(TREE, 1, 1, order) if turn == 1 else CancelOrder(order)
        kind = "change" if turn else "question"
        waited = Waited(kind, due_at)
        self.seen.append(waited)
        if self.asking.talk.is_connected:
            self.asking.ask(do, waited)
        else:
            waited.failed = "disconnected"


async def run(plan: VictimPlan) -> list[Waited]:
    authorization = f"Bearer {plan.token}"
    victim = Victim()
    tls = None if plan.certificate is None else ssl.create_default_context(cafile=plan.certificate)
    await victim.asking.talk.connect(plan.url, plan.token, tls)
    gc.collect()
    gc.freeze()
    gc.disable()
    doors: list[Waited] = []
    knocking: set[asyncio.Task[None]] = set()
    begun = time.monotonic()
    while (elapsed := time.monotonic() - begun) < plan.seconds:
        while len(victim.seen) < elapsed * plan.requests_per_s:
            victim.fire(begun + len(victim.seen) / plan.requests_per_s)
        if len(doors) < elapsed * DOORS_PER_S:
            doors.append(Waited("door", begun + len(doors) / DOORS_PER_S))
            knocking.add(asyncio.create_task(_knock(plan.url, authorization, doors[-1], tls)))
        await asyncio.sleep(0.002)
    latest = time.monotonic() + DRAIN_S
    while time.monotonic() < latest and any(
        each.seconds is None and each.failed is None for each in victim.seen
    ):
        await asyncio.sleep(0.01)
    await asyncio.gather(*knocking)
    now = time.monotonic()
    for each in victim.seen:
        if each.seconds is None:
            each.seconds = now - each.due_at
            each.failed = each.failed or "unanswered"
    return victim.seen + doors


async def _knock(url: str, authorization: str, door: Waited, tls: ssl.SSLContext | None) -> None:
    """Come in by a connection of one's own, and go."""
    parts = urlsplit(url)
    try:
        async with asyncio.timeout(DOOR_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port, ssl=tls)
            with contextlib.closing(writer):
                writer.write(handshake("/v1/stream", [f"Authorization: {authorization}"]))
                line = await reader.readline()
                if b" 101 " not in line:
                    door.failed = line.decode(errors="replace").strip() or "hung up"
    except (OSError, ValueError) as error:
        door.failed = type(error).__name__
    door.seconds = time.monotonic() - door.due_at


if __name__ == "__main__":
    given = msgspec.json.decode(sys.stdin.buffer.read(), type=VictimPlan)
    Path(given.report).write_bytes(msgspec.json.encode(uvloop.run(run(given))))
