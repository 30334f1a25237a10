"""The client, for everybody else: the same methods, each returns when it is done.

One background thread runs an event loop with an `AsyncClient`; every method hands its request to
it and waits. Any number of threads may use one `Client`: their requests share the connection and
don't wait for each other. A thread that is interrupted while it waits takes its request back.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import (
    AsyncGenerator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
)
from concurrent.futures import Future
from typing import Any, Self, TypeVar

from msgspec import UNSET, UnsetType

from laissez.client.advice import Preview
from laissez.client.async_client import DEFAULT_RETRY_FOR_S, AsyncClient
from laissez.client.errors import ConnectionFailed
from laissez.client.following import OrderEnd, follow
from laissez.client.held import AsyncHeld, Gone
from laissez.client.link import Streamed
from laissez.client.money import Duration, Expiry, Money
from laissez.model import (
    Answer,
    Bill,
    FloorList,
    Holding,
    Instruction,
    Lost,
    OpenOrder,
    Quoted,
    Refused,
    Resource,
    Role,
    Status,
    TenantSummary,
    TokenCreated,
    TokenInfo,
    WebhookAdded,
    WebhookInfo,
)

T = TypeVar("T")
FAREWELL_S = 2


class Held:
    """A held resource."""

    def __init__(self, held: AsyncHeld, client: Client) -> None:
        self._held = held
        self._client = client
        self.order = held.order
        self.resource = held.resource
        self.attributes = held.attributes

    def __repr__(self) -> str:
        return f"{type(self).__name__}(resource={self.resource!r}, lost={self.lost!r})"

    @property
    def lost(self) -> Lost | Gone | None:
        """Why the resource is no longer this block's; None while it is."""
        return self._held.lost

    def rate(self) -> int:
        """What it costs now, in micro-dollars per hour; 0 once it is lost."""
        return self._client.wait_for(self._held.rate())

    def set_limit(self, limit: Money) -> Answer:
        """Change how far this holding follows the price."""
        return self._client.wait_for(self._held.set_limit(limit))

    def wait_lost(self, timeout: float | None = None) -> Lost | Gone | None:
        """Wait until the resource is lost; None if it is still held after so many seconds."""
        return self._client.wait_for(self._held.wait_lost(timeout))


class Client:
    """A line to one exchange, with one token; connects when it is first used."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retry_for_s: float = DEFAULT_RETRY_FOR_S,
        ca_file: str | None = None,
    ) -> None:
        self._async = AsyncClient(url, token, retry_for_s=retry_for_s, ca_file=ca_file)
        self.url = self._async.url
        self._retry_for_s = retry_for_s
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up; what is unanswered fails."""
        with self._guard:
            loop, self._loop, self._closed = self._loop, None, True
        if loop is not None and self._thread is not None:
            asyncio.run_coroutine_threadsafe(self._wind_up(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()

    # The thread -------------------------------------------------------------------------------

    def wait_for(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run something in the background thread and wait for its outcome."""
        outcome: Future[T] = Future()
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            task = asyncio.get_running_loop().create_task(coroutine)
            task.add_done_callback(lambda task: _hand_over(task, outcome))
            tasks.append(task)

        def take_back() -> None:
            for task in tasks:
                task.cancel()

        try:
            loop = self._hand_in(begin)
        except BaseException:
            coroutine.close()
            raise
        try:
            return outcome.result()
        except BaseException:
            if not outcome.done():  # it is this thread that was interrupted
                with contextlib.suppress(Exception):
                    loop.call_soon_threadsafe(take_back)
                    outcome.result(self._retry_for_s)
            raise

    def _hand_in(self, work: Callable[[], None]) -> asyncio.AbstractEventLoop:
        """Let the background thread do something; what is handed in before the end is done."""
        with self._guard:
            if self._closed:
                raise ConnectionFailed("this client is closed; make another")
            if threading.current_thread() is self._thread:
                raise RuntimeError("this is the client's own thread; call it from another one")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_run_loop, args=(self._loop,), name="laissez-client", daemon=True
                )
                self._thread.start()
            self._loop.call_soon_threadsafe(work)
            return self._loop

    async def _wind_up(self) -> None:
        """Nobody who waits for an outcome is left waiting."""
        await self._async.close()
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        if rest:
            _, late = await asyncio.wait(rest, timeout=FAREWELL_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    # Questions --------------------------------------------------------------------------------

    def status(self) -> Status:
        """Who I am here, and where the market is."""
        return self.wait_for(self._async.status())

    def quote(self, scope: str) -> Quoted:
        """What a resource under a scope costs now."""
        return self.wait_for(self._async.quote(scope))

    def orders(self, tenant: str | None = None) -> tuple[OpenOrder, ...]:
        """The live orders."""
        return self.wait_for(self._async.orders(tenant))

    def holdings(self, tenant: str | None = None) -> tuple[Holding, ...]:
        """What is held, at what rate and limit."""
        return self.wait_for(self._async.holdings(tenant))

    def bill(self, tenant: str | None = None, *, explain: bool = False) -> Bill:
        """What is owed, exactly; `explain` adds why."""
        return self.wait_for(self._async.bill(tenant, explain=explain))

    def resources(self, scope: str | None = None) -> tuple[Resource, ...]:
        """Operator: what is on the market, with owner and rate."""
        return self.wait_for(self._async.resources(scope))

    def floors(self) -> FloorList:
        """Operator: floors, guards and cordons."""
        return self.wait_for(self._async.floors())

    def tenants(self) -> tuple[TenantSummary, ...]:
        """Operator: everybody who has an order, a holding or a bill."""
        return self.wait_for(self._async.tenants())

    # A tenant's changes -----------------------------------------------------------------------

    def place(
        self,
        scope: str,
        *,
        price: Money | None = None,
        limit: Money | None = None,
        order: str | None = None,
        expires: Expiry | None = None,
        key: str | None = None,
    ) -> Answer:
        """Order any one resource under a scope."""
        return self.wait_for(
            self._async.place(
                scope, price=price, limit=limit, order=order, expires=expires, key=key
            )
        )

    def amend(
        self,
        order: str,
        *,
        price: Money | None = None,
        limit: Money | None = None,
        expires: Expiry | None | UnsetType = UNSET,
        key: str | None = None,
    ) -> Answer:
        """Replace an order; what is not given stays, and `expires=None` takes the expiry away."""
        return self.wait_for(
            self._async.amend(order, price=price, limit=limit, expires=expires, key=key)
        )

    def cancel(self, order: str, *, key: str | None = None) -> Answer:
        """End an order."""
        return self.wait_for(self._async.cancel(order, key=key))

    def set_limit(self, resource: str, limit: Money, *, key: str | None = None) -> Answer:
        """Set how far a holding follows the price."""
        return self.wait_for(self._async.set_limit(resource, limit, key=key))

    def release(self, resource: str, *, key: str | None = None) -> Answer:
        """Give a held resource back."""
        return self.wait_for(self._async.release(resource, key=key))

    # An operator's changes --------------------------------------------------------------------

    def add_resource(
        self, path: str, attributes: Mapping[str, str] | None = None, *, key: str | None = None
    ) -> Answer:
        """Put a resource on the market."""
        return self.wait_for(self._async.add_resource(path, attributes, key=key))

    def withdraw(self, path: str, *, key: str | None = None) -> Answer:
        """Take a resource out of the market."""
        return self.wait_for(self._async.withdraw(path, key=key))

    def set_floor(self, scope: str, floor: Money, *, key: str | None = None) -> Answer:
        """Set the lowest price under a scope."""
        return self.wait_for(self._async.set_floor(scope, floor, key=key))

    def set_guard(
        self,
        tree: str,
        *,
        rise: int | None = None,
        fall: Money | None = None,
        hold: Duration | None = None,
        window: Duration | None = None,
        key: str | None = None,
    ) -> Answer:
        """Set the guards of a tree, all at once; `rise` is in basis points, None is off."""
        return self.wait_for(
            self._async.set_guard(tree, rise=rise, fall=fall, hold=hold, window=window, key=key)
        )

    def cordon(self, scope: str, *, key: str | None = None) -> Answer:
        """Take what is idle under a scope out of the market, the rest as its holders leave."""
        return self.wait_for(self._async.cordon(scope, key=key))

    def uncordon(self, scope: str, *, key: str | None = None) -> Answer:
        """Put back what a cordon took out."""
        return self.wait_for(self._async.uncordon(scope, key=key))

    def settle(self, *, key: str | None = None) -> Answer:
        """Begin a new statement period."""
        return self.wait_for(self._async.settle(key=key))

    def create_token(
        self,
        role: Role,
        *,
        tenant: str | None = None,
        lifetime_s: int | None = None,
        note: str = "",
        key: str | None = None,
    ) -> TokenCreated:
        """Make a token; its secret is in the answer and nowhere else."""
        return self.wait_for(
            self._async.create_token(role, tenant=tenant, lifetime_s=lifetime_s, note=note, key=key)
        )

    def revoke_token(self, token_id: str) -> TokenInfo:
        """End a token and its connections."""
        return self.wait_for(self._async.revoke_token(token_id))

    def tokens(self) -> tuple[TokenInfo, ...]:
        return self.wait_for(self._async.tokens())

    def add_webhook(self, url: str, *, key: str | None = None) -> WebhookAdded:
        """Post every handover to an address, signed with the secret in the answer."""
        return self.wait_for(self._async.add_webhook(url, key=key))

    def remove_webhook(self, webhook_id: str) -> None:
        self.wait_for(self._async.remove_webhook(webhook_id))

    def webhooks(self) -> tuple[WebhookInfo, ...]:
        return self.wait_for(self._async.webhooks())

    # Many at once, the stream -----------------------------------------------------------------

    def send_all(
        self,
        instructions: Iterable[Instruction],
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[Answer | Refused]:
        """Make many changes, a window of them under way at once; the outcomes in their order.

        As in `AsyncClient`. `progress` is called in the client's thread and must not call the
        client.
        """
        return self.wait_for(self._async.send_all(list(instructions), progress=progress))

    def events(
        self, *, after: int | None = None, rates: bool = False, quotes: Collection[str] = ()
    ) -> Iterator[Streamed]:
        """What happens, from the first step of the iteration on, or after a sequence number."""
        reader = self.wait_for(self._async.open_reader(after, rates, quotes))
        try:
            while True:
                yield from self.wait_for(reader.take())
        finally:
            with contextlib.suppress(ConnectionFailed):
                self._hand_in(lambda: self._async.close_reader(reader))

    def follow_orders(
        self, orders: Iterable[str], *, after: int | None = None, wait_s: float | None = None
    ) -> Iterator[OrderEnd]:
        """How each of these orders ends, as it ends, until all have or `wait_s` is over.

        As in `AsyncClient`: Ctrl-C ends the waiting, and the orders wait on in the market.
        """
        batches = follow(self._async, orders, after, wait_s)
        try:
            while ends := self.wait_for(_next_of(batches)):
                yield from ends
        finally:
            with contextlib.suppress(ConnectionFailed):
                self.wait_for(_end(batches))

    def wait_order(
        self, order: str, *, after: int | None = None, wait_s: float | None = None
    ) -> OrderEnd | None:
        """How this order ends; None if it is still open after `wait_s`. As `follow_orders`."""
        return self.wait_for(self._async.wait_order(order, after=after, wait_s=wait_s))

    # Holding and advice -----------------------------------------------------------------------

    @contextlib.contextmanager
    def hold(
        self,
        scope: str,
        *,
        limit: Money,
        price: Money | None = None,
        wait_s: float | None = None,
        expires: Expiry | None = None,
    ) -> Iterator[Held]:
        """`with client.hold("h100", limit="4.00") as held:` and it is yours inside.

        The price is the current quote unless given. NotFilled if it is not filled in `wait_s`.
        A resource that is lost inside the block raises nothing: `held.lost` says so.
        """
        block = self._async.hold(scope, limit=limit, price=price, wait_s=wait_s, expires=expires)
        try:
            yield Held(self.wait_for(block.__aenter__()), self)
        except BaseException as error:
            self.wait_for(block.leave(error))
            raise
        self.wait_for(block.leave(None))

    def scope_near(self, resource: str, level: str | int) -> str:
        """The scope of a level ("rack") around a held resource; a number counts names."""
        return self.wait_for(self._async.scope_near(resource, level))

    def why(self, order: str) -> str:
        """Why an own order is not filled, as far as a tenant may know."""
        return self.wait_for(self._async.why(order))

    def preview(
        self, scope: str, *, price: Money | None = None, limit: Money | None = None
    ) -> Preview:
        """What an order would do now, by the quote alone; nothing is sent to the market."""
        return self.wait_for(self._async.preview(scope, price=price, limit=limit))


async def _next_of(batches: AsyncGenerator[list[OrderEnd], None]) -> list[OrderEnd]:
    return await anext(batches, [])


async def _end(batches: AsyncGenerator[list[OrderEnd], None]) -> None:
    await batches.aclose()


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def _hand_over(task: asyncio.Task[T], outcome: Future[T]) -> None:
    if task.cancelled():
        outcome.cancel()
    elif (error := task.exception()) is not None:
        outcome.set_exception(error)
    else:
        outcome.set_result(task.result())
