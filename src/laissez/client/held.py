"""A resource for as long as a block lasts: ordered at its beginning, given back at its end.

`Watch` listens to the stream for what becomes of one order and then of its resource; it is a
small state machine and never waits. `AsyncHold` is the block: it orders, waits, and in the end
gives back whatever it got, even if the wait is cut short or the block fails. `AsyncHeld` is what
the block works with.

After a `Resync` the watch reads its state anew. An order that is gone by then was filled if
exactly one of the tenant's holdings fits it; where several would fit, nothing is guessed.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Literal, Protocol

import msgspec

from laissez.client.errors import ChangeRejected, LaissezError, NotFilled, Refusal
from laissez.client.link import RETRIED, Streamed
from laissez.client.money import Expiry, Money
from laissez.client.stream import Stream, StreamListener
from laissez.model import (
    Answer,
    Cancelled,
    Expired,
    Filled,
    Happened,
    Holding,
    Lost,
    Notice,
    OpenOrder,
    Placed,
    Resync,
)


class Gone(msgspec.Struct, frozen=True):
    """A resource is no longer the block's, and no `Lost` told so.

    Either another order of the same tenant has it now (`own_order`), or it was lost while nobody
    listened (`unseen`).
    """

    at: int
    resource: str
    reason: Literal["own_order", "unseen"]


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
    ) -> Answer: ...
    async def cancel(self, order: str) -> Answer: ...
    async def release(self, resource: str) -> Answer: ...
    async def set_limit(self, resource: str, limit: Money) -> Answer: ...
    async def orders(self) -> tuple[OpenOrder, ...]: ...
    async def holdings(self) -> tuple[Holding, ...]: ...
    async def why(self, order: str) -> str: ...


class Watch(StreamListener):
    """What became of one order, and then of its resource."""

    def __init__(self, desk: HoldClient, others: set[Watch]) -> None:
        super().__init__()
        self.order = f"hold-{secrets.token_hex(8)}"
        self.placed: Placed | None = None
        self.filled: Filled | None = None
        self.ended: str | None = None
        self.lost: Lost | Gone | None = None
        self.error: LaissezError | None = None
        self.is_decided = asyncio.Event()
        self.is_over = asyncio.Event()
        self._desk = desk
        self._others = others
        self._reading: asyncio.Task[None] | None = None

    def hear(self, said: Streamed) -> None:
        if isinstance(said, Happened):
            for event in said.events:
                self.note(event)
        elif isinstance(said, Resync) and self._reading is None:
            self._reading = asyncio.get_running_loop().create_task(self._read_anew())

    def fail(self, error: LaissezError) -> None:
        self.error = error
        self.is_decided.set()
        self.is_over.set()

    def note(self, event: Notice) -> None:
        """Take an event in, from the stream or an answer; one that is known changes nothing."""
        if isinstance(event, Placed) and event.order == self.order:
            self.placed = event
        elif isinstance(event, Filled):
            if event.order == self.order:
                self._fill(event)
            elif self.filled is not None and event.resource == self.filled.resource:
                self._lose(Gone(event.at, event.resource, "own_order"))
        elif isinstance(event, Lost):
            if self.filled is not None and event.resource == self.filled.resource:
                self._lose(event)
        elif isinstance(event, Expired | Cancelled) and event.order == self.order:
            self._end("it has expired" if isinstance(event, Expired) else "it was cancelled")

    def _fill(self, filled: Filled) -> None:
        if self.filled is None:
            self.filled = filled
            self.is_patient = True  # from now on there is something to lose
            self.is_decided.set()

    def _lose(self, lost: Lost | Gone) -> None:
        if self.lost is None:
            self.lost = lost
            self.is_over.set()

    def _end(self, why: str) -> None:
        if self.filled is None:
            self.ended = why
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
        if self.filled is None:
            # First the orders: one that is not open any more is among the holdings afterwards.
            if any(order.order == self.order for order in await self._desk.orders()):
                return
            self._find(await self._desk.holdings())
        elif self.lost is None:
            held = {holding.resource for holding in await self._desk.holdings()}
            if self.filled.resource not in held:
                self._lose(Gone(self.filled.at, self.filled.resource, "unseen"))

    def _find(self, holdings: tuple[Holding, ...]) -> None:
        if self.filled is not None or self.ended is not None:
            return
        taken = {other.filled.resource for other in self._others if other.filled is not None}
        fitting = [each for each in holdings if each.resource not in taken and self._fits(each)]
        if len(fitting) == 1:
            found = fitting[0]
            self._fill(Filled(found.since, self.order, found.resource, found.attributes))
        elif not fitting:
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


class AsyncHeld:
    """A held resource."""

    def __init__(self, watch: Watch, desk: HoldClient) -> None:
        assert watch.filled is not None
        self._watch = watch
        self._desk = desk
        self.order = watch.order
        self.resource = watch.filled.resource
        self.attributes = watch.filled.attributes

    def __repr__(self) -> str:
        return f"{type(self).__name__}(resource={self.resource!r}, lost={self.lost!r})"

    @property
    def lost(self) -> Lost | Gone | None:
        """Why the resource is no longer this block's; None while it is."""
        return self._watch.lost

    async def rate(self) -> int:
        """What it costs now, in micro-dollars per hour; 0 once it is lost."""
        holdings = await self._desk.holdings() if self.lost is None else ()
        return next((each.rate for each in holdings if each.resource == self.resource), 0)

    async def set_limit(self, limit: Money) -> Answer:
        """Change how far this holding follows the price."""
        answer = await self._desk.set_limit(self.resource, limit)
        for event in answer.events:
            self._watch.note(event)
        return answer

    async def wait_lost(self, timeout: float | None = None) -> Lost | Gone | None:
        """Wait until the resource is lost; None if it is still held after so many seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._watch.is_over.wait()
        except TimeoutError:
            return None
        if self._watch.error is not None and self.lost is None:
            raise self._watch.error
        return self.lost


class AsyncHold:
    """The block itself."""

    def __init__(
        self,
        desk: HoldClient,
        stream: Stream,
        watches: set[Watch],
        scope: str,
        *,
        price: Money | None,
        limit: Money,
        wait_s: float | None,
        expires: Expiry | None,
    ) -> None:
        self._desk = desk
        self._stream = stream
        self._watches = watches
        self._scope = scope
        self._price = price
        self._limit = limit
        self._wait_s = wait_s
        self._expires = expires
        self._watch: Watch | None = None

    async def __aenter__(self) -> AsyncHeld:
        watch = Watch(self._desk, self._watches)
        await self._stream.join(watch)
        self._watches.add(watch)
        self._watch = watch
        try:
            await self._get(watch)
        except BaseException as error:
            await self.leave(error)
            raise
        return AsyncHeld(watch, self._desk)

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await self.leave(error)

    async def leave(self, error: BaseException | None) -> None:
        """The end of the block, with the error that ended it if one did; once is enough."""
        watch, self._watch = self._watch, None
        if watch is not None:
            await self._give_back(watch, error)

    async def _get(self, watch: Watch) -> None:
        """Order and wait; on return the watch is filled."""
        try:
            answer = await self._desk.place(
                self._scope,
                price=self._price,
                limit=self._limit,
                order=watch.order,
                expires=self._expires,
            )
        except (TypeError, ValueError):
            watch.ended = "it was never sent"
            raise
        except Refusal as refused:
            # Whoever was busy to the end may have taken the order in before.
            if refused.code not in RETRIED:
                watch.ended = "it was refused"
            raise
        for event in answer.events:
            watch.note(event)
        try:
            async with asyncio.timeout(self._wait_s):
                await watch.is_decided.wait()
        except TimeoutError:
            await self._stop_waiting(watch)
        if watch.filled is not None:
            return
        if watch.error is not None:
            raise watch.error
        raise NotFilled(f"the order was not filled: {watch.ended}")

    async def _stop_waiting(self, watch: Watch) -> None:
        """Cancel the order and say why it was not filled, unless it is at the last moment."""
        why = await self._desk.why(watch.order)
        try:
            await self._desk.cancel(watch.order)
        except ChangeRejected:
            await watch.read_state()
        else:
            watch.ended = f"within {self._wait_s:g} s; {why}"

    async def _give_back(self, watch: Watch, error: BaseException | None) -> None:
        """Cancel the order or release the resource. An error on the way there is not hidden."""
        try:
            await self._end(watch)
        except LaissezError as failure:
            what = f"order {watch.order}" if watch.filled is None else watch.filled.resource
            if error is None:
                raise
            error.add_note(f"{what} may still be in the market in your name: {failure}")
        finally:
            self._watches.discard(watch)
            self._stream.leave(watch)

    async def _end(self, watch: Watch) -> None:
        if watch.filled is None and watch.ended is None:
            try:
                await self._desk.cancel(watch.order)
            except ChangeRejected:
                await watch.read_state()
        self._stream.leave(watch)  # what follows is our own doing, and no loss
        if watch.filled is not None and watch.lost is None:
            try:
                await self._desk.release(watch.filled.resource)
            except ChangeRejected:
                return  # lost at the last moment
