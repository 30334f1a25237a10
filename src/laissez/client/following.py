"""Following orders to their end, on the stream.

An order ends once: filled, cancelled or expired. `follow` listens first and then asks which of the
orders are open, so that none can end between the two. The answer may overtake what was missed, so
it hears that to its end. One that is not open and of whose end nothing was told by then, because it
ended before the listening began or while nobody listened for too long, is said to have ended in a
way that is not known; holdings and the bill tell the rest.

Following changes nothing in the market: whoever stops, or is stopped, leaves the orders waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable
from typing import Literal, Protocol

import msgspec

from laissez.client.link import Streamed
from laissez.client.stream import StreamReader
from laissez.model import Cancelled, Expired, Filled, Happened, OpenOrder, Resync

OrderFate = Literal["filled", "cancelled", "expired", "unknown"]


class OrderEnd(msgspec.Struct, frozen=True):
    """How an order ended, and with what if it was filled; `unknown` if nobody listened then."""

    order: str
    fate: OrderFate
    filled: Filled | None = None


class OrderSource(Protocol):
    """What following asks of the client."""

    async def orders(self) -> tuple[OpenOrder, ...]: ...
    async def open_reader(
        self, after: int | None, rates: bool, quotes: Collection[str]
    ) -> StreamReader: ...
    def close_reader(self, reader: StreamReader) -> None: ...


async def follow(
    source: OrderSource, orders: Iterable[str], after: int | None, wait_s: float | None
) -> AsyncGenerator[list[OrderEnd], None]:
    """The ends of these orders, as they are told, until there are no more or the time is over."""
    loop = asyncio.get_running_loop()
    until = None if wait_s is None else loop.time() + wait_s
    waiting = dict.fromkeys(orders)
    if not waiting:
        return
    reader = await source.open_reader(after, False, ())
    must_look = True
    try:
        while waiting:
            if must_look:
                live = {order.order for order in await source.orders()}
                has_heard_all = await _hears_all(reader, until)
                said = reader.take_now()
                ends = _ends_in(said, waiting)
                if has_heard_all:
                    told = {end.order for end in ends}
                    ends += [OrderEnd(o, "unknown") for o in waiting if o not in live | told]
            else:
                try:
                    async with asyncio.timeout_at(until):
                        said = await reader.take()
                except TimeoutError:
                    return
                ends = _ends_in(said, waiting)
            must_look = any(isinstance(each, Resync) for each in said)
            for end in ends:
                del waiting[end.order]
            if ends:
                yield ends
    finally:
        source.close_reader(reader)


async def _hears_all(reader: StreamReader, until: float | None) -> bool:
    """Whether all of the past is heard before the time is over."""
    try:
        async with asyncio.timeout_at(until):
            await reader.catch_up()
    except TimeoutError:
        return False
    return True


def _ends_in(said: list[Streamed], waiting: Collection[str]) -> list[OrderEnd]:
    """What was told of these orders; an order's name may be used again, so the first end counts."""
    ends: dict[str, OrderEnd] = {}
    for happened in said:
        if not isinstance(happened, Happened):
            continue
        for event in happened.events:
            if isinstance(event, Filled | Cancelled | Expired) and event.order in waiting:
                ends.setdefault(event.order, _end(event))
    return list(ends.values())


def _end(event: Filled | Cancelled | Expired) -> OrderEnd:
    if isinstance(event, Filled):
        return OrderEnd(event.order, "filled", event)
    return OrderEnd(event.order, "cancelled" if isinstance(event, Cancelled) else "expired")
