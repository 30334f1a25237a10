"""Resources for as long as a block lasts: ordered at its beginning, given back at its end.

`Watch` listens to the stream for what becomes of the order and then of what it won. `AsyncHold` is
the block: it orders, waits, and in the end gives back whatever it got, even if the wait is cut
short or the block fails. `AsyncHeld` is what the block works with.

What was promised is certain to come, and giving a promise back costs as much as winning and leaving
at once: so a block whose time to wait is over still waits for what it has been promised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence

from laissez.client.errors import ChangeRejected, LaissezError, NotFilled, Refusal
from laissez.client.link import RETRIED
from laissez.client.money import Expiry, Money
from laissez.client.stream import Stream
from laissez.client.watch import Gone, HoldClient, Summons, Watch
from laissez.model import Answer, Lost

LOOK_AGAIN_S = 5.0
"""How long to wait for what was promised before looking whether it still is."""

RELEASED_AT_ONCE = 100


class Calls:
    """`await held.called`: the first summons of a block; None if it has nothing left to lose."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    @property
    def now(self) -> Summons | None:
        """The summons that stands now, the one with the least time left."""
        return self._watch.summons

    def __await__(self) -> Generator[object, None, Summons | None]:
        return self._wait().__await__()

    async def _wait(self) -> Summons | None:
        await self._watch.is_called.wait()
        if self._watch.error is not None and self._watch.summons is None:
            raise self._watch.error
        return self._watch.summons


class AsyncHeld:
    """What is held: one resource, or all that a gang won (`resources`, with their attributes)."""

    def __init__(self, watch: Watch, desk: HoldClient) -> None:
        assert watch.is_filled
        self._watch = watch
        self._desk = desk
        self.order = watch.order
        self.resources = {resource: each.attributes for resource, each in watch.won.items()}
        self.resource, self.attributes = next(iter(self.resources.items()))

    def __repr__(self) -> str:
        what = "resource" if len(self.resources) == 1 else "resources"
        shown = self.resource if len(self.resources) == 1 else list(self.resources)
        return f"{type(self).__name__}({what}={shown!r}, lost={self.lost!r})"

    @property
    def lost(self) -> Lost | Gone | None:
        """Why the resource, or the first of several, is no longer the block's; None while it is."""
        return self._watch.lost

    @property
    def called(self) -> Calls:
        """`await held.called` waits for a call: what is to go, why, and how long is left."""
        return Calls(self._watch)

    def on_called(self, callback: Callable[[Summons], object]) -> None:
        """Have a function called with every summons, and with those that stand now."""
        self._watch.callbacks.append(callback)
        for summons in self._watch.calls.values():
            asyncio.get_running_loop().call_soon(callback, summons)

    async def wait_called(self, timeout: float | None = None) -> Summons | None:
        """Wait for a call; None if there is none after so many seconds, or nothing is left."""
        try:
            async with asyncio.timeout(timeout):
                return await self.called
        except TimeoutError:
            return None

    async def release(self) -> None:
        """Give all of it back now: the work is saved."""
        self._watch.is_released = True  # what follows is our own doing, and no loss
        await give_back(self._desk, self._watch.kept)
        self._watch.forget()

    async def rate(self) -> int:
        """What it costs now, all together, in micro-dollars per hour; 0 once it is lost."""
        mine = set(self._watch.kept)
        holdings = await self._desk.holdings() if mine else ()
        return sum(each.rate for each in holdings if each.resource in mine)

    async def set_limit(self, limit: Money) -> Answer:
        """Change how far each holding follows the price; the answer is that for the last."""
        for resource in self._watch.kept or [self.resource]:
            answer = await self._desk.set_limit(resource, limit)
            for event in answer.events:
                self._watch.note(event)
        return answer

    async def wait_lost(self, timeout: float | None = None) -> Lost | Gone | None:
        """Wait until something is lost; None if all is still held after so many seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._watch.is_over.wait()
        except TimeoutError:
            return None
        if self._watch.error is not None and self.lost is None:
            raise self._watch.error
        return self.lost


async def give_back(desk: HoldClient, resources: Sequence[str]) -> None:
    """Release what is held or promised, and what was lost at the last moment not."""
    for begin in range(0, len(resources), RELEASED_AT_ONCE):
        some = resources[begin : begin + RELEASED_AT_ONCE]
        releases = (desk.release(resource) for resource in some)
        outcomes = await asyncio.gather(*releases, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, ChangeRejected):
                raise outcome


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
        count: int = 1,
        within: int | str | None = None,
        together: bool = False,
    ) -> None:
        self._desk = desk
        self._stream = stream
        self._watches = watches
        self._scope = scope
        self._price = price
        self._limit = limit
        self._wait_s = wait_s
        self._expires = expires
        self._count = count
        self._within = within
        self._together = together
        self._watch: Watch | None = None

    async def __aenter__(self) -> AsyncHeld:
        watch = Watch(self._desk, self._watches, self._count)
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
                count=self._count,
                within=self._within,
                together=self._together,
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
        until = None
        if self._wait_s is not None:
            until = asyncio.get_running_loop().time() + self._wait_s
        is_waiting = True
        while is_waiting:
            try:
                async with asyncio.timeout_at(until):
                    await watch.is_certain.wait()
            except TimeoutError:
                await self._stop_waiting(watch)
            await self._wait_for_promised(watch)
            # What was promised to a single order may be withdrawn: then it waits once more.
            is_waiting = watch.ended is None and not watch.is_certain.is_set()
        if watch.is_filled:
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

    async def _wait_for_promised(self, watch: Watch) -> None:
        """Until it is there, or will not come. That is told; but not everything is heard."""
        while not watch.is_decided.is_set() and watch.kept:
            try:
                async with asyncio.timeout(LOOK_AGAIN_S):
                    await watch.is_decided.wait()
            except TimeoutError:
                await watch.read_state()

    async def _give_back(self, watch: Watch, error: BaseException | None) -> None:
        """Cancel the order or release the resource. An error on the way there is not hidden."""
        try:
            await self._end(watch)
        except LaissezError as failure:
            what = ", ".join(watch.kept) or f"order {watch.order}"
            if error is None:
                raise
            error.add_note(f"{what} may still be in the market in your name: {failure}")
        finally:
            self._watches.discard(watch)
            self._stream.leave(watch)

    async def _end(self, watch: Watch) -> None:
        if not watch.kept and not watch.is_decided.is_set() and watch.ended is None:
            try:
                await self._desk.cancel(watch.order)
            except ChangeRejected:
                await watch.read_state()
        self._stream.leave(watch)  # what follows is our own doing, and no loss
        await give_back(self._desk, watch.kept)
        watch.finish()
