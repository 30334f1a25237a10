"""The SDK's client without a service: the same calls, answered over the counter.

`Counter` is a venue with a clock that stands still until somebody sleeps; `CounterClient` has the
methods of `laissez.Client` for one token, and answers as the exchange does, from the same parts:
what it says is what a service would say. What happens while a command sleeps is told beforehand,
with `later`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any

from msgspec import UNSET, UnsetType

from laissez.client.advice import Preview, preview_order, scope_around, why_not_filled
from laissez.client.bulk import Outcomes
from laissez.client.errors import ChangeRejected, Refusal, refusal
from laissez.exchange.access import Limits, Principal, new_token
from laissez.exchange.admission import check_instruction, check_price
from laissez.exchange.questions import Desk, Forbidden
from laissez.exchange.sequencing import record_of
from laissez.exchange.venue import Venue
from laissez.exchange.views import notices, operator_events
from laissez.model import (
    Advance,
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
    Bill,
    ChangeFloor,
    ChangeGuard,
    ChangeLimit,
    CordonScope,
    Event,
    FloorList,
    Happened,
    Holding,
    Instruction,
    Notice,
    OpenOrder,
    PlaceOrder,
    Promise,
    Question,
    Quoted,
    Quotes,
    Rates,
    Refused,
    Rejected,
    Resource,
    Resync,
    Role,
    ServiceCode,
    Status,
    TenantSummary,
    TokenCreated,
    TokenInfo,
    UncordonScope,
    WebhookAdded,
    WebhookInfo,
)

NOON_US = 1_700_000_000_000_000
US_PER_S = 1_000_000
SILENCES_MAX = 2_000


class Counter:
    def __init__(self) -> None:
        self.venue = Venue()
        self.now = NOON_US
        self.sequence = 0
        self.told: dict[str, list[Happened]] = {}
        self.sent: list[Instruction] = []
        self.forgotten = 0
        self._later: list[Callable[[], object]] = []
        self.tokens: list[TokenInfo] = []
        self.webhooks: list[WebhookInfo] = []

    def client(self, role: Role = "operator", tenant: str | None = None) -> CounterClient:
        _, token = new_token(role, tenant, at=0)
        return CounterClient(self, Principal(token, Limits()))

    def later(self, *happen: Callable[[], object]) -> None:
        """What happens at the next times that somebody sleeps, one each."""
        self._later += happen

    def sleep_s(self, seconds: float) -> None:
        self.now += int(seconds * US_PER_S)
        self.let_act()
        if self._later:
            self._later.pop(0)()

    def let_act(self) -> None:
        """What has fallen due acts, and is told."""
        due = self.venue.next_timer()
        if due is not None and due <= self.now:
            self.sequence += 1
            self._tell(self.venue.apply(Advance(self.now)))

    def execute(self, caller: Principal, do: Instruction) -> Answer | Refused:
        refused = check_instruction(caller, 1, do, None)
        if isinstance(do, PlaceOrder) and refused is None and do.price is None and do.count == 1:
            refused = check_price(caller, self.venue.market, 1, do)
        if refused is not None:
            return refused
        self.sequence += 1
        self.sent.append(do)
        events = self.venue.apply(record_of(do, caller.tenant, self.now, self.sequence))
        own, all_of_it = self._tell(events)
        answer: tuple[Notice, ...] = all_of_it
        if caller.tenant is not None:
            answer = tuple(own.get(caller.tenant, ()))
            if events and isinstance(events[-1], Rejected):
                answer = (*answer, events[-1])
        return Answer(1, self.sequence, self.now, answer)

    def _tell(
        self, events: tuple[Event, ...]
    ) -> tuple[dict[str, tuple[Notice, ...]], tuple[Notice, ...]]:
        """Everybody's own, and the operator's, into their streams."""
        own = notices(self.venue.market, events)
        for tenant, said in own.items():
            happened = Happened(self.sequence, self.now, tuple(said))
            self.told.setdefault(tenant, []).append(happened)
        all_of_it = operator_events(events)
        self.told.setdefault("", []).append(Happened(self.sequence, self.now, all_of_it))
        return own, all_of_it


class CounterClient:
    """Has what commands use of `laissez.Client`."""

    def __init__(self, counter: Counter, caller: Principal) -> None:
        self.counter = counter
        self.caller = caller
        self.desk = Desk(counter.venue, lambda: counter.now, lambda: counter.sequence)

    def __enter__(self) -> CounterClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    # Questions --------------------------------------------------------------------------------

    def _ask(self, question: Question) -> Any:
        try:
            return self.desk.answer(self.caller, question)
        except Forbidden as no:
            raise refusal(Refused(1, no.code, no.message)) from None

    def status(self) -> Status:
        told: Status = self._ask(AskStatus())
        return told

    def quote(self, scope: str, *, count: int = 1, within: int | str | None = None) -> Quoted:
        told: Quoted = self._ask(AskQuote(scope, count, within))
        return told

    def promises(self, tenant: str | None = None) -> tuple[Promise, ...]:
        told: tuple[Promise, ...] = self._ask(AskPromises(tenant)).promises
        return told

    def orders(self, tenant: str | None = None) -> tuple[OpenOrder, ...]:
        told: tuple[OpenOrder, ...] = self._ask(AskOrders(tenant)).orders
        return told

    def holdings(self, tenant: str | None = None) -> tuple[Holding, ...]:
        told: tuple[Holding, ...] = self._ask(AskHoldings(tenant)).holdings
        return told

    def bill(self, tenant: str | None = None, *, explain: bool = False) -> Bill:
        told: Bill = self._ask(AskBill(tenant, explain))
        return told

    def resources(self, scope: str | None = None) -> tuple[Resource, ...]:
        told: tuple[Resource, ...] = self._ask(AskResources(scope)).resources
        return told

    def floors(self) -> FloorList:
        told: FloorList = self._ask(AskFloors())
        return told

    def tenants(self) -> tuple[TenantSummary, ...]:
        told: tuple[TenantSummary, ...] = self._ask(AskTenants()).tenants
        return told

    # Changes ----------------------------------------------------------------------------------

    def send_all(
        self,
        instructions: Iterable[Instruction],
        *,
        progress: Callable[[int, int], None] | None = None,
        outcomes: Outcomes | None = None,
        patience_s: float | None = None,
    ) -> list[Answer | Refused]:
        answers = [self.counter.execute(self.caller, each) for each in instructions]
        if outcomes is not None:
            outcomes.update(enumerate(answers))
        if progress is not None:
            progress(len(answers), len(answers))
        return answers

    def do(self, instruction: Instruction) -> Answer:
        answer = self.counter.execute(self.caller, instruction)
        if isinstance(answer, Refused):
            raise refusal(answer)
        if answer.events and isinstance(last := answer.events[-1], Rejected):
            raise ChangeRejected(last.code, last.message, answer)
        return answer

    def amend(
        self,
        order: str,
        *,
        price: int | None = None,
        limit: int | None = None,
        expires: int | None | UnsetType = UNSET,
    ) -> Answer:
        return self.do(AmendOrder(order, price, limit, expires))

    def set_limit(self, resource: str, limit: int) -> Answer:
        return self.do(ChangeLimit(resource, limit))

    def set_floor(self, scope: str, floor: int) -> Answer:
        return self.do(ChangeFloor(scope, floor))

    def set_guard(
        self,
        tree: str,
        *,
        rise: int | None = None,
        fall: int | None = None,
        hold: int | None = None,
        window: int | None = None,
        notice: int | None = None,
        commit: int | None = None,
    ) -> Answer:
        return self.do(ChangeGuard(tree, rise, fall, hold, window, notice, commit))

    def cordon(self, scope: str, *, deadline: int | None = None) -> Answer:
        return self.do(CordonScope(scope, deadline))

    def uncordon(self, scope: str) -> Answer:
        return self.do(UncordonScope(scope))

    # Administration ---------------------------------------------------------------------------

    def create_token(
        self,
        role: Role,
        *,
        tenant: str | None = None,
        lifetime_s: int | None = None,
        note: str = "",
    ) -> TokenCreated:
        now = self.counter.now
        expires = None if lifetime_s is None else now + lifetime_s * US_PER_S
        info = TokenInfo(f"t{len(self.counter.tokens)}", role, tenant, now, expires, None, note)
        self.counter.tokens.append(info)
        return TokenCreated(info, "lz_secret")

    def tokens(self) -> tuple[TokenInfo, ...]:
        return tuple(self.counter.tokens)

    def revoke_token(self, token_id: str) -> TokenInfo:
        for info in self.counter.tokens:
            if info.token == token_id:
                return info
        raise refusal(Refused(1, "not_found", f"there is no token {token_id!r}"))

    def add_webhook(self, url: str) -> WebhookAdded:
        info = WebhookInfo(f"w{len(self.counter.webhooks)}", url, self.counter.sequence)
        self.counter.webhooks.append(info)
        return WebhookAdded(info, "wh_secret")

    def webhooks(self) -> tuple[WebhookInfo, ...]:
        return tuple(self.counter.webhooks)

    def remove_webhook(self, webhook_id: str) -> None:
        if webhook_id not in {each.webhook for each in self.counter.webhooks}:
            raise Refusal(ServiceCode.NOT_FOUND, f"there is no webhook {webhook_id!r}")
        self.counter.webhooks = [w for w in self.counter.webhooks if w.webhook != webhook_id]

    # The stream, and what is worked out from all this -----------------------------------------

    def events(
        self, *, after: int | None = None, rates: bool = False, quotes: Iterable[str] = ()
    ) -> Iterator[Happened | Rates]:
        """What was told so far; what still happens `later`; and then somebody presses Ctrl-C."""
        heard = (after or 0) if after is not None else self.counter.sequence
        catches_up = after is not None
        while True:
            for happened in self.counter.told.get(self.caller.tenant or "", []):
                if happened.sequence > heard:
                    heard = happened.sequence
                    yield happened
            if catches_up:
                catches_up = False
                yield Happened(self.counter.sequence, self.counter.now, ())
            if not self.counter._later:
                raise KeyboardInterrupt
            self.counter.sleep_s(1)

    def listen(
        self, *, after: int | None = None, rates: bool = False, quotes: Iterable[str] = ()
    ) -> Iterator[Happened | Rates | Quotes | Resync | None]:
        """The same with a look at the clock: a second passes wherever nothing was told. In the end
        somebody presses Ctrl-C."""
        heard = (after or 0) if after is not None else self.counter.sequence
        for _ in range(SILENCES_MAX):
            told = self.counter.told.get(self.caller.tenant or "", [])
            if self.counter.forgotten > heard:
                heard = self.counter.sequence
                yield Resync(heard, "read your state anew")
            for happened in [each for each in told if each.sequence > heard]:
                heard = happened.sequence
                yield happened
            yield None
            self.counter.sleep_s(1)
        raise KeyboardInterrupt

    def scope_near(self, resource: str, level: str | int) -> str:
        for holding in self.holdings():
            if holding.resource == resource:
                return scope_around(holding, level)
        raise ValueError(f"you do not hold {resource}; only what is near a holding is known")

    def why(self, order: str) -> str:
        found = next(each for each in self.orders() if each.order == order)
        return why_not_filled(found, self._visible_quote(found.scope))

    def preview(self, scope: str, *, price: int | None = None, limit: int | None = None) -> Preview:
        return preview_order(scope, price, limit, self._visible_quote(scope))

    def _visible_quote(self, scope: str) -> Quoted | None:
        try:
            return self.quote(scope)
        except Refusal:
            return None
