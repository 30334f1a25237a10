"""Answers to questions, from the market as it is now and from what the asker may see.

Reading never changes anything and never waits for the journal: the market holds nothing that is
not durable. A question that the asker may not ask is refused by its shape alone, before the
market is looked at, so that a refusal tells nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from laissez.exchange.access import Principal
from laissez.exchange.venue import Venue
from laissez.exchange.views import own_order
from laissez.market import Market
from laissez.model import (
    AskBill,
    AskFloors,
    AskHoldings,
    AskOrders,
    AskQuote,
    AskResources,
    AskStatus,
    AskTenants,
    Bill,
    FloorList,
    HoldingList,
    OrderList,
    Question,
    Quoted,
    Rejected,
    Resource,
    ResourceList,
    Segment,
    ServiceCode,
    Status,
    TenantList,
    TenantSummary,
    Told,
)

SEGMENTS_SHOWN = 200
SEGMENTS_SHOWN_TOGETHER = 2_000


class Forbidden(Exception):
    """The asker may not ask this; carries the code and the sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Desk:
    """Answers questions about one venue; `now` is the clock, `sequence` how far it has come."""

    def __init__(self, venue: Venue, now: Callable[[], int], sequence: Callable[[], int]) -> None:
        self._venue = venue
        self._now = now
        self._sequence = sequence
        self._answers: dict[type, Callable[[Principal, Any], Told]] = {
            AskQuote: self._quote,
            AskOrders: self._orders,
            AskHoldings: self._holdings,
            AskBill: self._bill,
            AskStatus: self._status,
            AskResources: self._resources,
            AskFloors: self._floors,
            AskTenants: self._tenants,
        }

    @property
    def _market(self) -> Market:
        return self._venue.market

    def answer(self, asker: Principal, question: Question) -> Told:
        """What the asker is told; raises `Forbidden`."""
        return self._answers[type(question)](asker, question)

    def instant(self) -> int:
        """Now, but not past what is about to fall due and has not acted yet."""
        at, due = max(self._now(), self._market.now), self._market.next_timer()
        return at if due is None else max(self._market.now, min(at, due))

    def quote(self, asker: Principal, scope: str) -> Quoted:
        if not asker.sees_everything:
            assert asker.tenant is not None
            refused: Rejected | None = self._market.check_visible(asker.tenant, scope)
            if refused is not None:
                raise Forbidden(refused.code, refused.message)
        quote = self._market.quote(scope, asker.tenant)
        rate, idle = (None, False) if quote is None else (quote.rate, quote.idle)
        return Quoted(self.instant(), scope, rate, idle)

    def rates(self, tenant: str) -> dict[str, int]:
        market = self._market
        return {resource: market.rate(resource) for resource in market.holdings(tenant)}

    def _quote(self, asker: Principal, question: AskQuote) -> Told:
        return self.quote(asker, question.scope)

    def _orders(self, asker: Principal, question: AskOrders) -> Told:
        tenants = self._tenants_meant(asker, question.tenant)
        return OrderList(
            self.instant(),
            tuple(own_order(order) for name in tenants for order in self._market.orders(name)),
        )

    def _holdings(self, asker: Principal, question: AskHoldings) -> Told:
        tenants = self._tenants_meant(asker, question.tenant)
        return HoldingList(
            self.instant(),
            tuple(
                holding
                for name in tenants
                for path in self._market.holdings(name)
                if (holding := self._market.holding(path)) is not None
            ),
        )

    def _bill(self, asker: Principal, question: AskBill) -> Told:
        tenant = question.tenant or asker.tenant
        self._check_tenant(asker, question.tenant)
        if tenant is None:
            raise Forbidden(ServiceCode.BAD_REQUEST, "name the tenant whose bill you want")
        at = self.instant()
        shown: dict[str, tuple[Segment, ...]] = {}
        left_out: dict[str, int] = {}
        if question.explain:
            newest = self._market.newest_segments(
                tenant, at, each=SEGMENTS_SHOWN, together=SEGMENTS_SHOWN_TOGETHER
            )
            shown = {resource: segments for resource, (segments, _) in newest.items()}
            left_out = {resource: more for resource, (_, more) in newest.items() if more}
        return Bill(at, tenant, self._market.bill(tenant, at), shown, left_out)

    def _status(self, asker: Principal, question: AskStatus) -> Told:
        trees = dict.fromkeys(path.split("/")[0] for path in self._market.visible(""))
        return Status(
            self.instant(), self._sequence(), asker.role, asker.tenant, tuple(sorted(trees))
        )

    def _resources(self, asker: Principal, question: AskResources) -> Told:
        self._check_sees_everything(asker)
        market = self._market
        return ResourceList(
            self.instant(),
            tuple(
                Resource(path, market.owner(path), market.rate(path), market.attributes(path))
                for path in market.resources(question.scope)
            ),
        )

    def _floors(self, asker: Principal, question: AskFloors) -> Told:
        self._check_sees_everything(asker)
        market = self._market
        cordons = tuple(sorted(self._venue.cordons))
        return FloorList(self.instant(), market.floors(), market.guards(), cordons)

    def _tenants(self, asker: Principal, question: AskTenants) -> Told:
        self._check_sees_everything(asker)
        market, at = self._market, self.instant()
        return TenantList(
            at,
            tuple(
                TenantSummary(
                    name,
                    len(market.orders(name)),
                    len(market.holdings(name)),
                    market.bill(name, at),
                )
                for name in market.tenants()
            ),
        )

    def _tenants_meant(self, asker: Principal, tenant: str | None) -> tuple[str, ...]:
        self._check_tenant(asker, tenant)
        meant = tenant or asker.tenant
        return self._market.tenants() if meant is None else (meant,)

    def _check_tenant(self, asker: Principal, tenant: str | None) -> None:
        if tenant is not None and tenant != asker.tenant:
            self._check_sees_everything(asker)

    def _check_sees_everything(self, asker: Principal) -> None:
        if not asker.sees_everything:
            raise Forbidden(
                ServiceCode.FORBIDDEN, "only the operator may ask this; ask about your own"
            )
