"""The client, for programs that use asyncio.

Every method is one request and its answer: a question returns what was told, a change returns the
exchange's `Answer` or raises. What makes requests arrive is in `link`, what makes streams go on in
`stream`. An `AsyncClient` belongs to one event loop.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Mapping
from itertools import count
from typing import Self, TypeVar

from msgspec import UNSET, UnsetType

from laissez.client.advice import Preview, preview_order, scope_around, why_not_filled
from laissez.client.bulk import Bulk, Outcomes
from laissez.client.errors import ConnectionFailed, LaissezError, Refusal, check_accepted, refusal
from laissez.client.following import OrderEnd, follow
from laissez.client.held import AsyncHold
from laissez.client.link import AnyRequest, AnyResponse, Link, Streamed
from laissez.client.login import find_login
from laissez.client.money import (
    Expiry,
    Money,
    TimeSpan,
    instant_us,
    micros_per_hour,
    optional_duration_us,
    optional_instant_us,
    optional_micros_per_hour,
)
from laissez.client.stream import Stream, StreamReader
from laissez.client.watch import Watch
from laissez.model import (
    AddWebhook,
    Administration,
    AmendOrder,
    Answer,
    AskBill,
    AskFloors,
    AskHoldings,
    AskOrders,
    AskPromises,
    AskQuote,
    AskResources,
    AskStatus,
    AskTenants,
    AskTokens,
    AskWebhooks,
    Bill,
    CancelOrder,
    ChangeFloor,
    ChangeGuard,
    ChangeLimit,
    CloseStatements,
    Code,
    CordonScope,
    CreateToken,
    FloorList,
    Holding,
    HoldingList,
    Instruction,
    NameLevels,
    OfferResource,
    OpenOrder,
    OrderList,
    PlaceOrder,
    Promise,
    PromiseList,
    Question,
    Quoted,
    Refused,
    Release,
    RemoveWebhook,
    Reply,
    Resource,
    ResourceList,
    RevokeToken,
    Role,
    ServiceCode,
    Status,
    TenantList,
    TenantSummary,
    TokenCreated,
    TokenInfo,
    TokenList,
    TokenRevoked,
    UncordonScope,
    WebhookAdded,
    WebhookInfo,
    WebhookList,
    WebhookRemoved,
    WithdrawResource,
)

DEFAULT_RETRY_FOR_S = 15.0

T = TypeVar("T")
L = TypeVar("L", OrderList, HoldingList, PromiseList, ResourceList, TenantList)
BEGINNINGS_MAX = 5


class AsyncClient:
    """A line to one exchange, with one token; connects when it is first used."""

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        retry_for_s: float = DEFAULT_RETRY_FOR_S,
        ca_file: str | None = None,
    ) -> None:
        login = find_login(url, token)
        self.url = login.url
        self._link = Link(login, retry_for_s=retry_for_s, ca_file=ca_file)
        self._stream = Stream(self._link)
        self._watches: set[Watch] = set()
        self._session = secrets.token_hex(8)
        self._keys = count(1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Hang up; what is unanswered fails."""
        self._stream.close()
        await self._link.close()

    # Questions --------------------------------------------------------------------------------

    async def status(self) -> Status:
        """Who I am here, and where the market is."""
        return await self._told(AskStatus(), Status)

    async def quote(self, scope: str, *, count: int = 1, within: int | str | None = None) -> Quoted:
        """What a resource under a scope costs now, or each of several of one domain."""
        return await self._told(AskQuote(scope, count, within), Quoted)

    async def orders(self, tenant: str | None = None) -> tuple[OpenOrder, ...]:
        """The live orders."""
        pages = await self._pages(lambda after: AskOrders(tenant, after), OrderList)
        return tuple(order for page in pages for order in page.orders)

    async def holdings(self, tenant: str | None = None) -> tuple[Holding, ...]:
        """What is held, at what rate and limit."""
        pages = await self._pages(lambda after: AskHoldings(tenant, after), HoldingList)
        return tuple(holding for page in pages for holding in page.holdings)

    async def promises(self, tenant: str | None = None) -> tuple[Promise, ...]:
        """Called resources that will come to somebody, and when at the latest."""
        pages = await self._pages(lambda after: AskPromises(tenant, after), PromiseList)
        return tuple(promise for page in pages for promise in page.promises)

    async def bill(self, tenant: str | None = None, *, explain: bool = False) -> Bill:
        """What is owed, exactly; `explain` adds why."""
        return await self._told(AskBill(tenant, explain), Bill)

    async def resources(self, scope: str | None = None) -> tuple[Resource, ...]:
        """Operator: what is on the market, with owner and rate."""
        pages = await self._pages(lambda after: AskResources(scope, after), ResourceList)
        return tuple(resource for page in pages for resource in page.resources)

    async def floors(self) -> FloorList:
        """Operator: floors, guards and cordons."""
        return await self._told(AskFloors(), FloorList)

    async def tenants(self) -> tuple[TenantSummary, ...]:
        """Operator: everybody who has an order, a holding or a bill."""
        pages = await self._pages(AskTenants, TenantList)
        return tuple(tenant for page in pages for tenant in page.tenants)

    # A tenant's changes -----------------------------------------------------------------------

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
        key: str | None = None,
    ) -> Answer:
        """Order any one resource under a scope.

        With a `count`, so many at one instant or none, in one domain of the level `within`; with
        `together`, when one of them really goes the others are released at that instant.
        """
        price, limit = optional_micros_per_hour(price), optional_micros_per_hour(limit)
        until = optional_instant_us(expires)
        do = PlaceOrder(scope, price, limit, order, until, count, within, together)
        return await self._change(do, key)

    async def amend(
        self,
        order: str,
        *,
        price: Money | None = None,
        limit: Money | None = None,
        expires: Expiry | None | UnsetType = UNSET,
        key: str | None = None,
    ) -> Answer:
        """Replace an order; what is not given stays, and `expires=None` takes the expiry away."""
        until = expires if expires is None or expires is UNSET else instant_us(expires)
        price, limit = optional_micros_per_hour(price), optional_micros_per_hour(limit)
        return await self._change(AmendOrder(order, price, limit, until), key)

    async def cancel(self, order: str, *, key: str | None = None) -> Answer:
        """End an order."""
        return await self._change(CancelOrder(order), key)

    async def set_limit(self, resource: str, limit: Money, *, key: str | None = None) -> Answer:
        """Set how far a holding follows the price."""
        return await self._change(ChangeLimit(resource, micros_per_hour(limit)), key)

    async def release(self, resource: str, *, key: str | None = None) -> Answer:
        """Give a held resource back."""
        return await self._change(Release(resource), key)

    # An operator's changes --------------------------------------------------------------------

    async def add_resource(
        self, path: str, attributes: Mapping[str, str] | None = None, *, key: str | None = None
    ) -> Answer:
        """Put a resource on the market."""
        return await self._change(OfferResource(path, dict(attributes or {})), key)

    async def withdraw(self, path: str, *, key: str | None = None) -> Answer:
        """Take a resource out of the market."""
        return await self._change(WithdrawResource(path), key)

    async def set_floor(self, scope: str, floor: Money, *, key: str | None = None) -> Answer:
        """Set the lowest price under a scope."""
        return await self._change(ChangeFloor(scope, micros_per_hour(floor)), key)

    async def set_guard(
        self,
        tree: str,
        *,
        rise: int | None = None,
        fall: Money | None = None,
        hold: TimeSpan | None = None,
        window: TimeSpan | None = None,
        notice: TimeSpan | None = None,
        commit: TimeSpan | None = None,
        key: str | None = None,
    ) -> Answer:
        """Set the guards of a tree, all at once; `rise` is in basis points, None is off."""
        hold, window = optional_duration_us(hold), optional_duration_us(window)
        notice, commit = optional_duration_us(notice), optional_duration_us(commit)
        fall = optional_micros_per_hour(fall)
        return await self._change(ChangeGuard(tree, rise, fall, hold, window, notice, commit), key)

    async def name_levels(
        self, tree: str, levels: Collection[str], *, key: str | None = None
    ) -> Answer:
        """Name the levels of a tree below its root, the coarsest first; none takes them away."""
        return await self._change(NameLevels(tree, tuple(levels)), key)

    async def cordon(
        self, scope: str, *, deadline: Expiry | None = None, key: str | None = None
    ) -> Answer:
        """Take what is idle under a scope out of the market, the rest as its holders leave.

        With a deadline the holders are told, and what they still hold then is taken out.
        """
        return await self._change(CordonScope(scope, optional_instant_us(deadline)), key)

    async def uncordon(self, scope: str, *, key: str | None = None) -> Answer:
        """Put back what a cordon took out."""
        return await self._change(UncordonScope(scope), key)

    async def settle(self, *, key: str | None = None) -> Answer:
        """Begin a new statement period."""
        return await self._change(CloseStatements(), key)

    async def create_token(
        self,
        role: Role,
        *,
        tenant: str | None = None,
        lifetime_s: int | None = None,
        note: str = "",
        key: str | None = None,
    ) -> TokenCreated:
        """Make a token; its secret is in the answer and nowhere else."""
        return await self._told(CreateToken(role, tenant, lifetime_s, note), TokenCreated, key)

    async def revoke_token(self, token_id: str) -> TokenInfo:
        """End a token and its connections."""
        return (await self._told(RevokeToken(token_id), TokenRevoked)).info

    async def tokens(self) -> tuple[TokenInfo, ...]:
        return (await self._told(AskTokens(), TokenList)).tokens

    async def add_webhook(self, url: str, *, key: str | None = None) -> WebhookAdded:
        """Post every handover to an address, signed with the secret in the answer."""
        return await self._told(AddWebhook(url), WebhookAdded, key)

    async def remove_webhook(self, webhook_id: str) -> None:
        await self._told(RemoveWebhook(webhook_id), WebhookRemoved)

    async def webhooks(self) -> tuple[WebhookInfo, ...]:
        return (await self._told(AskWebhooks(), WebhookList)).webhooks

    # Many at once -----------------------------------------------------------------------------

    async def send_all(
        self,
        instructions: Iterable[Instruction],
        *,
        progress: Callable[[int, int], None] | None = None,
        outcomes: Outcomes | None = None,
        patience_s: float | None = None,
    ) -> list[Answer | Refused]:
        """Make many changes, as fast as the exchange takes them; the outcomes in their order.

        They are sent in order, too, but one that finds the exchange busy is sent again after
        others: send what depends on another's outcome when that is known. A refusal is an
        outcome; no answer at all ends everything with ConnectionFailed.

        A dict given as `outcomes` is filled as they come, by place. So whoever is interrupted
        knows what was done: what is not in it was not sent, or no answer came in time.

        Where the exchange takes nothing more for `patience_s`, as long as for a request unless
        given, what is left is refused.
        """
        known = {} if outcomes is None else outcomes
        if patience_s is None:
            patience_s = self._link.retry_for_s
        bulk = Bulk(
            self._send, self._new_key, instructions, known, progress=progress, patience_s=patience_s
        )
        return await bulk.run()

    async def _send(self, do: Instruction, key: str) -> Answer | Refused:
        return _answer(do, await self._link.ask(do, key, is_paced=True))

    # The stream -------------------------------------------------------------------------------

    async def events(
        self, *, after: int | None = None, rates: bool = False, quotes: Collection[str] = ()
    ) -> AsyncIterator[Streamed]:
        """What happens, from the first step of the iteration on, or after a sequence number.

        Goes on after a lost connection by itself, without gap or repetition. Where the exchange
        no longer keeps what was missed there is a `Resync`: read your state anew.
        """
        async with contextlib.aclosing(self.event_batches(after, rates, quotes)) as batches:
            async for batch in batches:
                for said in batch:
                    yield said

    async def event_batches(
        self, after: int | None, rates: bool, quotes: Collection[str]
    ) -> AsyncGenerator[list[Streamed], None]:
        """What is under `events`: everything there is to read, each time somebody reads."""
        reader = await self.open_reader(after, rates, quotes)
        try:
            while True:
                yield await reader.take()
        finally:
            self.close_reader(reader)

    async def open_reader(
        self, after: int | None, rates: bool, quotes: Collection[str]
    ) -> StreamReader:
        """Somebody who listens from now on, until `close_reader`."""
        reader = StreamReader(after, rates, quotes)
        await self._stream.join(reader)
        return reader

    def close_reader(self, reader: StreamReader) -> None:
        self._stream.leave(reader)

    async def follow_orders(
        self, orders: Iterable[str], *, after: int | None = None, wait_s: float | None = None
    ) -> AsyncIterator[OrderEnd]:
        """How each of these orders ends, as it ends, until all have or `wait_s` is over.

        With `after`, a sequence number before they were placed (`answer.sequence - 1`), those that
        have ended meanwhile are told, too. Orders not told of are still open. Stopping early, or
        being stopped, changes nothing: the orders wait on in the market.
        """
        async with contextlib.aclosing(follow(self, orders, after, wait_s)) as batches:
            async for ends in batches:
                for end in ends:
                    yield end

    async def wait_order(
        self, order: str, *, after: int | None = None, wait_s: float | None = None
    ) -> OrderEnd | None:
        """How this order ends; None if it is still open after `wait_s`. As `follow_orders`."""
        async with contextlib.aclosing(follow(self, [order], after, wait_s)) as batches:
            async for ends in batches:
                return ends[0]
        return None

    # Holding and advice -----------------------------------------------------------------------

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
    ) -> AsyncHold:
        """`async with client.hold("h100", limit="4.00") as held:` and it is yours inside.

        The price is the current quote unless given. With a `count` of 2 or more they are yours all
        at once, in one domain of the level `within`, and there is no price; with `together`, when
        one really goes the exchange releases the others at that instant, whatever becomes of this
        program. NotFilled if it is not filled, or promised, in `wait_s`.

        A resource that is lost inside the block raises nothing: `held.lost` says so. Before it is
        lost to somebody else it is called, where its tree gives notice: `await held.called`.
        """
        return AsyncHold(
            self,
            self._stream,
            self._watches,
            scope,
            price=price,
            limit=limit,
            wait_s=wait_s,
            expires=expires,
            count=count,
            within=within,
            together=together,
        )

    async def scope_near(self, resource: str, level: str | int) -> str:
        """The scope of a level ("rack") around a held resource; a number counts names."""
        for holding in await self.holdings():
            if holding.resource == resource:
                return scope_around(holding, level)
        raise ValueError(f"you do not hold {resource}; only what is near a holding is known")

    async def why(self, order: str) -> str:
        """Why an own order is not filled, as far as a tenant may know."""
        for known in await self.orders():
            if known.order == order:
                return why_not_filled(known, await self._quote_if_visible(known.scope))
        return f"there is no open order {order}: it was filled, was cancelled or has expired"

    async def preview(
        self, scope: str, *, price: Money | None = None, limit: Money | None = None
    ) -> Preview:
        """What an order would do now, by the quote alone; nothing is sent to the market."""
        price, limit = optional_micros_per_hour(price), optional_micros_per_hour(limit)
        return preview_order(scope, price, limit, await self._quote_if_visible(scope))

    async def _quote_if_visible(self, scope: str) -> Quoted | None:
        try:
            return await self.quote(scope)
        except Refusal as refused:
            if refused.code == Code.SCOPE_NOT_VISIBLE:
                return None
            raise

    # Asking -----------------------------------------------------------------------------------

    def _new_key(self) -> str:
        return f"{self._session}-{next(self._keys)}"

    async def _change(self, do: Instruction, key: str | None) -> Answer:
        said = _answer(do, await self._link.ask(do, key or self._new_key()))
        if isinstance(said, Refused):
            raise refusal(said)
        return check_accepted(said)

    async def _pages(self, ask: Callable[[str | None], Question], expected: type[L]) -> list[L]:
        """All pages of a list; from the beginning again, if it changes where one begins."""
        pages: list[L] = []
        after, beginnings = None, 1
        while not pages or after is not None:
            try:
                pages.append(await self._told(ask(after), expected))
                after = pages[-1].next
            except Refusal as refused:
                if refused.code != ServiceCode.LIST_CHANGED or beginnings == BEGINNINGS_MAX:
                    raise
                beginnings += 1
                pages, after = [], None
        return pages

    async def _told(
        self, do: Question | Administration, expected: type[T], key: str | None = None
    ) -> T:
        if isinstance(do, CreateToken | AddWebhook):
            key = key or self._new_key()
        said = await self._link.ask(do, key)
        if isinstance(said, Refused):
            raise refusal(said)
        if not isinstance(said, Reply) or not isinstance(said.told, expected):
            raise _unexpected(do, said)
        return said.told


def _answer(do: Instruction, said: AnyResponse) -> Answer | Refused:
    if not isinstance(said, Answer | Refused):
        raise _unexpected(do, said)
    return said


def _unexpected(do: AnyRequest, said: AnyResponse) -> LaissezError:
    return ConnectionFailed(
        f"{type(do).__name__} was answered by {type(said).__name__}, which this version does not "
        "expect; use a client of the exchange's version"
    )
