"""What becomes of one order, and then of what it won, as the stream tells it.

A small state machine that never waits. An order for one has one resource in the end, a gang as many
as it is for; some of them may be promised first, and come when their holders have left.

After a `Resync` the state is read anew. An order that is gone by then was filled if exactly as many
of the tenant's holdings fit it as it lacks; where more would fit, nothing is guessed.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from typing import Literal, Protocol

import msgspec

from laissez.client.errors import LaissezError
from laissez.client.link import Streamed
from laissez.client.money import Expiry, Money
from laissez.client.stream import StreamListener
from laissez.model import (
    Answer,
    Called,
    Cancelled,
    Expired,
    Filled,
    Happened,
    Holding,
    Lost,
    Notice,
    OpenOrder,
    Placed,
    Promise,
    Promised,
    Reason,
    Resync,
    Uncalled,
    Unpromised,
)

US_PER_S = 1_000_000


class Gone(msgspec.Struct, frozen=True):
    """A resource is no longer the block's, and no `Lost` told so.

    Either another order of the same tenant has it now (`own_order`), or it was lost while nobody
    listened (`unseen`).
    """

    at: int
    resource: str
    reason: Literal["own_order", "unseen"]


class Summons(msgspec.Struct, frozen=True):
    """A resource of the block is called: save your work and release it, it goes at `until`."""

    resource: str
    reason: Reason
    until: int
    at: int
    heard_s: float

    def left_s(self) -> float:
        """How many seconds are left, by the exchange's clock as far as it is known here.

        Of two readings the smaller: one may be of a message that was long on its way, the other
        of a clock that is wrong.
        """
        since_heard_s = time.monotonic() - self.heard_s
        by_message_s = (self.until - self.at) / US_PER_S - since_heard_s
        by_clock_s = self.until / US_PER_S - time.time()
        return max(0.0, min(by_message_s, by_clock_s))


class HoldClient(Protocol):
    """What a hold asks of the client."""

    async def place(
        self,
        scope: str,
        *,
        price: Money | None = None,
        limit: Money | None = None,
        order: str | None = None,
        expires: Expiry | None = None,
        count: int = 1,
        within: int | str | None = None,
        together: bool = False,
    ) -> Answer: ...
    async def cancel(self, order: str) -> Answer: ...
    async def release(self, resource: str) -> Answer: ...
    async def set_limit(self, resource: str, limit: Money) -> Answer: ...
    async def orders(self) -> tuple[OpenOrder, ...]: ...
    async def promises(self) -> tuple[Promise, ...]: ...
    async def holdings(self) -> tuple[Holding, ...]: ...
    async def why(self, order: str) -> str: ...


class Watch(StreamListener):
    """What became of one order, and then of its resources."""

    def __init__(self, desk: HoldClient, others: set[Watch], count: int = 1) -> None:
        super().__init__()
        self.order = f"hold-{secrets.token_hex(8)}"
        self.count = count
        self.placed: Placed | None = None
        self.won: dict[str, Filled] = {}
        self.promised: dict[str, int] = {}
        self.gone: dict[str, Lost | Gone] = {}
        self.calls: dict[str, Summons] = {}
        self.ended: str | None = None
        self.is_unkept = False
        self.error: LaissezError | None = None
        self.is_released = False
        self.is_certain = asyncio.Event()
        self.is_decided = asyncio.Event()
        self.is_over = asyncio.Event()
        self.is_called = asyncio.Event()
        self.callbacks: list[Callable[[Summons], object]] = []
        self._desk = desk
        self._others = others
        self._reading: asyncio.Task[None] | None = None

    @property
    def is_filled(self) -> bool:
        """Has it all that it was for?"""
        return len(self.won) == self.count

    @property
    def lost(self) -> Lost | Gone | None:
        """Why the first that went is no longer the block's."""
        return next(iter(self.gone.values()), None)

    @property
    def kept(self) -> list[str]:
        """What is still the block's, or will be."""
        held = [resource for resource in self.won if resource not in self.gone]
        return held + [resource for resource in self.promised if resource not in self.won]

    @property
    def summons(self) -> Summons | None:
        """The call that ends first."""
        return min(self.calls.values(), key=lambda call: call.until, default=None)

    def hear(self, said: Streamed) -> None:
        if isinstance(said, Happened):
            for event in said.events:
                self.note(event)
        elif isinstance(said, Resync) and self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read_anew())

    def fail(self, error: LaissezError) -> None:
        self.error = error
        self.is_certain.set()
        self.is_decided.set()
        self.finish()

    def finish(self) -> None:
        """Nothing more is to be waited for."""
        self.is_over.set()
        self.is_called.set()

    def forget(self) -> None:
        """All was given back."""
        self.won.clear()
        self.calls.clear()
        self.finish()

    def note(self, event: Notice) -> None:
        """Take an event in, from the stream or an answer; one that is known changes nothing."""
        if isinstance(event, Placed) and event.order == self.order:
            self.placed = event
            self._wait_again()
        elif isinstance(event, Unpromised) and event.order == self.order:
            self._miss(event)
        elif isinstance(event, Promised) and event.order == self.order:
            if not self.is_decided.is_set():
                self.promised[event.resource] = event.until
                self.is_patient = True
                self.is_certain.set()
        elif isinstance(event, Filled):
            if event.order == self.order:
                self._win(event)
            elif self._holds(event.resource):
                self._lose(Gone(event.at, event.resource, "own_order"))
        elif isinstance(event, Lost):
            if self._holds(event.resource):
                self._lose(event)
        elif isinstance(event, Called):
            self._call(event.resource, event.reason, event.until, event.at)
        elif isinstance(event, Uncalled):
            self._uncall(event.resource)
        elif isinstance(event, Expired | Cancelled) and event.order == self.order:
            self._end("it has expired" if isinstance(event, Expired) else "it was cancelled")

    def _holds(self, resource: str) -> bool:
        return resource in self.won and resource not in self.gone and not self.is_released

    def _win(self, filled: Filled) -> None:
        if len(self.won) < self.count and self.ended is None:
            self.won.setdefault(filled.resource, filled)
            self.is_patient = True  # from now on there is something to lose
            self.is_certain.set()
            if self.is_filled:
                self.promised.clear()
                self.is_decided.set()

    def _lose(self, lost: Lost | Gone) -> None:
        self.gone[lost.resource] = lost
        self._uncall(lost.resource)
        self.is_over.set()
        if not self.kept:
            self.finish()

    def _call(self, resource: str, reason: Reason, until: int, at: int) -> None:
        known = self.calls.get(resource)
        if not self._holds(resource) or (known is not None and known.until <= until):
            return
        summons = Summons(resource, reason, until, at, time.monotonic())
        self.calls[resource] = summons
        self.is_called.set()
        for callback in self.callbacks:
            asyncio.get_running_loop().call_soon(callback, summons)

    def _uncall(self, resource: str) -> None:
        if self.calls.pop(resource, None) is not None and not self.calls and self.kept:
            self.is_called.clear()

    def _miss(self, event: Unpromised) -> None:
        """What was promised won't come: that is the end, unless the order is placed again."""
        if self.promised.pop(event.resource, None) is not None and not self.is_decided.is_set():
            gone = "was withdrawn" if event.reason == "withdrawn" else "was given back"
            self._end(f"{event.resource}, which was promised to it, {gone}")
            self.is_unkept = True

    def _wait_again(self) -> None:
        """The order is in the book once more."""
        if self.is_unkept:
            self.is_unkept, self.ended = False, None
            self.is_certain.clear()
            self.is_decided.clear()

    def _end(self, why: str) -> None:
        if not self.is_decided.is_set():
            self.ended = why
            self.is_certain.set()
            self.is_decided.set()

    async def _read_anew(self) -> None:
        try:
            await self.read_state()
        except LaissezError as error:
            if not self.is_patient:
                self.fail(error)
        finally:
            self._reading = None

    async def read_state(self) -> None:
        """Work out from the tenant's orders and holdings what was not heard."""
        if not self.is_decided.is_set():
            # First the orders: one that is not open any more is among the promises or holdings
            # afterwards, and what is not promised any more is among the holdings.
            if any(order.order == self.order for order in await self._desk.orders()):
                return
            promises = await self._desk.promises()
            self.promised = {each.resource: each.until for each in promises if self._is_own(each)}
            if self.promised:
                self.is_patient = True
                self.is_certain.set()
            self._find(await self._desk.holdings())
        elif self.is_filled:
            held = {holding.resource: holding for holding in await self._desk.holdings()}
            for resource, filled in self.won.items():
                holding = held.get(resource)
                if holding is not None:
                    self._read_call(holding)
                elif resource not in self.gone:
                    self._lose(Gone(filled.at, resource, "unseen"))

    def _is_own(self, promise: Promise) -> bool:
        return promise.order == self.order

    def _read_call(self, holding: Holding) -> None:
        if holding.called_until is None or holding.called_for is None:
            self._uncall(holding.resource)
        else:
            now_us = int(time.time() * US_PER_S)
            self._call(holding.resource, holding.called_for, holding.called_until, now_us)

    def _find(self, holdings: tuple[Holding, ...]) -> None:
        if self.is_decided.is_set():
            return
        coming = [resource for resource in self.promised if resource not in self.won]
        lacking = self.count - len(self.won) - len(coming)
        if lacking <= 0:
            return  # all that it was for is certain to come
        taken = {resource for other in self._others for resource in other.won}
        fitting = [each for each in holdings if each.resource not in taken and self._fits(each)]
        fitting = [each for each in fitting if each.resource not in self.promised]
        if len(fitting) == lacking:
            for found in fitting:
                self._win(Filled(found.since, self.order, found.resource, found.attributes))
        elif len(fitting) < lacking:
            self._end("it is not open any more")
        else:
            self._end(
                f"it is not open any more, and {len(fitting)} of your holdings could be what it "
                "got: look at them and release what you don't use"
            )

    def _fits(self, holding: Holding) -> bool:
        placed = self.placed
        if placed is None:
            return False
        covered = f"{holding.resource}/".startswith(f"{placed.scope}/")
        return covered and holding.limit == placed.limit and holding.since >= placed.at
