"""Following orders to their end, on the stream.

An order ends once: filled, cancelled or expired. What it has won may be promised to it first, some
of a gang's or all; it has ended when each has come, or will not. `follow` listens first and then
asks which of the orders are open and what is promised, so that none can end between the two. The
answers may overtake what was missed, so it hears that to its end. One that is neither open nor
promised anything, and of whose end nothing was told by then, because it ended before the listening
began or while nobody listened for too long, is said to have ended in a way that is not known;
holdings and the bill tell the rest.

Following changes nothing in the market: whoever stops, or is stopped, leaves the orders waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection, Iterable
from typing import Literal, Protocol

import msgspec

from laissez.client.link import Streamed
from laissez.client.stream import StreamReader
from laissez.model import (
    Cancelled,
    Expired,
    Filled,
    Happened,
    Notice,
    OpenOrder,
    Placed,
    Promise,
    Promised,
    Resync,
    Unpromised,
)

OrderFate = Literal["filled", "cancelled", "expired", "unkept", "unknown"]


class OrderEnd(msgspec.Struct, frozen=True):
    """How an order ended, and all that was heard of what it won.

    `unkept`: nothing that was promised to it came; `unknown` if nobody listened then.
    """

    order: str
    fate: OrderFate
    filled: tuple[Filled, ...] = ()


class OrderSource(Protocol):
    """What following asks of the client."""

    async def orders(self) -> tuple[OpenOrder, ...]: ...
    async def promises(self) -> tuple[Promise, ...]: ...
    async def open_reader(
        self, after: int | None, rates: bool, quotes: Collection[str]
    ) -> StreamReader: ...
    def close_reader(self, reader: StreamReader) -> None: ...


class _Course(msgspec.Struct):
    """How far an order has come: what it has won, and what is promised to it."""

    filled: dict[str, Filled] = msgspec.field(default_factory=dict)
    coming: set[str] = msgspec.field(default_factory=set)
    is_unkept: bool = False

    def end(self, order: str) -> OrderEnd | None:
        """Between two messages: has it ended, and how?"""
        if self.coming:
            return None
        if self.filled:
            return OrderEnd(order, "filled", tuple(self.filled.values()))
        return OrderEnd(order, "unkept") if self.is_unkept else None


async def follow(
    source: OrderSource, orders: Iterable[str], after: int | None, wait_s: float | None
) -> AsyncGenerator[list[OrderEnd], None]:
    """The ends of these orders, as they are told, until there are no more or the time is over."""
    loop = asyncio.get_running_loop()
    until = None if wait_s is None else loop.time() + wait_s
    waiting = {order: _Course() for order in orders}
    if not waiting:
        return
    reader = await source.open_reader(after, False, ())
    must_look = True
    unheard: list[Streamed] = []
    try:
        while waiting:
            if must_look:
                live = {order.order for order in await source.orders()}
                promised = await source.promises()
                has_heard_all = await _hears_all(reader, until)
                said = unheard + reader.take_now()
                for promise in promised:
                    if promise.order in waiting:
                        waiting[promise.order].coming.add(promise.resource)
                ends, unheard = _ends_in(said, waiting)
                if has_heard_all:
                    ends += _missed(waiting, live, _promised_in(promised, said))
            else:
                try:
                    async with asyncio.timeout_at(until):
                        said = await reader.take()
                except TimeoutError:
                    return
                ends, unheard = _ends_in(said, waiting)
            must_look = any(isinstance(each, Resync) for each in said)
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


def _promised_in(promised: Iterable[Promise], said: list[Streamed]) -> set[tuple[str, str]]:
    """What is promised, or was said to be."""
    told = {(each.order, each.resource) for each in promised}
    for happened in said:
        if isinstance(happened, Happened):
            for event in happened.events:
                if isinstance(event, Promised):
                    told.add((event.order, event.resource))
    return told


def _missed(
    waiting: dict[str, _Course], live: set[str], promised: set[tuple[str, str]]
) -> list[OrderEnd]:
    """The orders that have ended, and nobody heard how."""
    ends: list[OrderEnd] = []
    for order, course in tuple(waiting.items()):
        course.coming = {each for each in course.coming if (order, each) in promised}
        if not course.coming and order not in live:
            ends.append(OrderEnd(order, "unknown", tuple(course.filled.values())))
            del waiting[order]
    return ends


def _ends_in(
    said: list[Streamed], waiting: dict[str, _Course]
) -> tuple[list[OrderEnd], list[Streamed]]:
    """What was told of these orders, which no longer wait then; and what was told behind a gap.

    An order's name may be used again, so the first end counts.
    """
    ends: list[OrderEnd] = []
    for number, each in enumerate(said):
        if isinstance(each, Resync):
            return ends, said[number + 1 :]
        if isinstance(each, Happened):
            for end in _ends_at(each.events, waiting):
                del waiting[end.order]
                ends.append(end)
    return ends, []


def _ends_at(events: Iterable[Notice], waiting: dict[str, _Course]) -> list[OrderEnd]:
    """What ended with one command: a gang is told of all that it won, or was promised, at once."""
    ends: dict[str, OrderEnd] = {}
    moved: dict[str, _Course] = {}
    for event in events:
        if not isinstance(event, Filled | Promised | Unpromised | Placed | Cancelled | Expired):
            continue
        order, course = event.order, waiting.get(event.order)
        if course is None or order in ends:
            continue
        moved[order] = course
        if isinstance(event, Filled):
            course.filled[event.resource] = event
            course.coming.discard(event.resource)
        elif isinstance(event, Promised):
            course.coming.add(event.resource)
        elif isinstance(event, Unpromised):
            course.coming.discard(event.resource)
            course.is_unkept = True
        elif isinstance(event, Placed):
            course.is_unkept = False
        else:
            fate: OrderFate = "cancelled" if isinstance(event, Cancelled) else "expired"
            ends[order] = OrderEnd(order, fate)
    for order, course in moved.items():
        if order not in ends and (end := course.end(order)) is not None:
            ends[order] = end
    return list(ends.values())
