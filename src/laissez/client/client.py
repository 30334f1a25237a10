"""The client, for everybody else: the same methods, each returns when it is done.

One background thread runs an event loop with an `AsyncClient`; every method hands its request to
it and waits. Any number of threads may use one `Client`: their requests share the connection and
don't wait for each other. A thread that is interrupted while it waits takes its request back.

What each method does, takes and returns is written once, at the method of `AsyncClient` that it is
made from.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Self

from laissez.client.async_client import DEFAULT_RETRY_FOR_S, AsyncClient
from laissez.client.background import BackgroundLoop
from laissez.client.blocking import BlockingFace, blocking
from laissez.client.bulk import Outcomes
from laissez.client.following import OrderEnd, follow
from laissez.client.held import AsyncHeld, AsyncHold
from laissez.client.link import Streamed
from laissez.client.money import Expiry, Money
from laissez.client.watch import Gone, Summons
from laissez.model import Answer, Instruction, Lost, Refused


class Held(BlockingFace[AsyncHeld]):
    """What is held: one resource, or all that a gang won (`resources`, with their attributes)."""

    def __init__(self, held: AsyncHeld, background: BackgroundLoop) -> None:
        super().__init__(held, background)
        self.order = held.order
        self.resources = held.resources
        self.resource = held.resource
        self.attributes = held.attributes

    def __repr__(self) -> str:
        return f"{type(self).__name__}(resource={self.resource!r}, lost={self.lost!r})"

    @property
    def lost(self) -> Lost | Gone | None:
        """Why the resource, or the first of several, is no longer the block's; None while it is."""
        return self._async.lost

    @property
    def called(self) -> Summons | None:
        """What is to go next, why, and how long is left; None while nothing is called."""
        return self._async.called.now

    def on_called(self, callback: Callable[[Summons], object]) -> None:
        """Have a function called with every summons, and with those that stand now.

        It is called in the client's thread, and must not call the client.
        """

        async def begin() -> None:
            self._async.on_called(callback)

        self.wait_for(begin)

    wait_called = blocking(AsyncHeld.wait_called)
    release = blocking(AsyncHeld.release)
    rate = blocking(AsyncHeld.rate)
    set_limit = blocking(AsyncHeld.set_limit)
    wait_lost = blocking(AsyncHeld.wait_lost)


class Client(BlockingFace[AsyncClient]):
    """A line to one exchange, with one token; connects when it is first used."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retry_for_s: float = DEFAULT_RETRY_FOR_S,
        ca_file: str | None = None,
    ) -> None:
        original = AsyncClient(url, token, retry_for_s=retry_for_s, ca_file=ca_file)
        super().__init__(original, BackgroundLoop(take_back_s=retry_for_s))
        self.url = original.url

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up; what is unanswered fails."""
        self._background.close(self._async.close)

    # Questions
    status = blocking(AsyncClient.status)
    quote = blocking(AsyncClient.quote)
    orders = blocking(AsyncClient.orders)
    holdings = blocking(AsyncClient.holdings)
    promises = blocking(AsyncClient.promises)
    bill = blocking(AsyncClient.bill)
    resources = blocking(AsyncClient.resources)
    floors = blocking(AsyncClient.floors)
    tenants = blocking(AsyncClient.tenants)
    tokens = blocking(AsyncClient.tokens)
    webhooks = blocking(AsyncClient.webhooks)

    # A tenant's changes
    place = blocking(AsyncClient.place)
    amend = blocking(AsyncClient.amend)
    cancel = blocking(AsyncClient.cancel)
    set_limit = blocking(AsyncClient.set_limit)
    release = blocking(AsyncClient.release)

    # An operator's changes
    add_resource = blocking(AsyncClient.add_resource)
    withdraw = blocking(AsyncClient.withdraw)
    set_floor = blocking(AsyncClient.set_floor)
    set_guard = blocking(AsyncClient.set_guard)
    name_levels = blocking(AsyncClient.name_levels)
    cordon = blocking(AsyncClient.cordon)
    uncordon = blocking(AsyncClient.uncordon)
    settle = blocking(AsyncClient.settle)
    create_token = blocking(AsyncClient.create_token)
    revoke_token = blocking(AsyncClient.revoke_token)
    add_webhook = blocking(AsyncClient.add_webhook)
    remove_webhook = blocking(AsyncClient.remove_webhook)

    # Waiting and advice
    wait_order = blocking(AsyncClient.wait_order)
    scope_near = blocking(AsyncClient.scope_near)
    why = blocking(AsyncClient.why)
    preview = blocking(AsyncClient.preview)

    # What is more than one request and its outcome --------------------------------------------

    def send_all(
        self,
        instructions: Iterable[Instruction],
        *,
        progress: Callable[[int, int], None] | None = None,
        outcomes: Outcomes | None = None,
        patience_s: float | None = None,
    ) -> list[Answer | Refused]:
        """Make many changes, as fast as the exchange takes them; the outcomes in their order.

        As in `AsyncClient`: after a Ctrl-C, a dict given as `outcomes` says what was done.
        `progress` is called in the client's thread and must not call the client.
        """
        wanted = list(instructions)
        return self.wait_for(
            lambda: self._async.send_all(
                wanted, progress=progress, outcomes=outcomes, patience_s=patience_s
            )
        )

    def events(
        self, *, after: int | None = None, rates: bool = False, quotes: Collection[str] = ()
    ) -> Iterator[Streamed]:
        """What happens, from the first step of the iteration on, or after a sequence number."""
        return self.each_of(self._async.event_batches(after, rates, quotes))

    def follow_orders(
        self, orders: Iterable[str], *, after: int | None = None, wait_s: float | None = None
    ) -> Iterator[OrderEnd]:
        """How each of these orders ends, as it ends, until all have or `wait_s` is over.

        As in `AsyncClient`: Ctrl-C ends the waiting, and the orders wait on in the market.
        """
        return self.each_of(follow(self._async, tuple(orders), after, wait_s))

    @contextlib.contextmanager
    def hold(
        self,
        scope: str,
        *,
        limit: Money,
        price: Money | None = None,
        wait_s: float | None = None,
        expires: Expiry | None = None,
        count: int = 1,
        within: int | str | None = None,
        together: bool = False,
    ) -> Iterator[Held]:
        """`with client.hold("h100", limit="4.00") as held:` and it is yours inside.

        As in `AsyncClient`, for one or several; `held.wait_called` waits for a call.
        """
        block = self._async.hold(
            scope,
            limit=limit,
            price=price,
            wait_s=wait_s,
            expires=expires,
            count=count,
            within=within,
            together=together,
        )
        try:
            yield Held(self.wait_for(block.__aenter__), self._background)
            self._leave(block, None)
        except BaseException as error:
            # Also if the leaving was interrupted: it may not have begun, and twice is no harm.
            self._leave(block, error)
            raise

    def _leave(self, block: AsyncHold, error: BaseException | None) -> None:
        """Give back what is held, also if somebody is too impatient to wait for it."""
        self._background.see_through(lambda: block.leave(error))
