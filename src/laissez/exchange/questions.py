"""Answers to questions, from the market as it is now and from what the asker may see.

Reading never changes anything and never waits for the journal: the market holds nothing that is
not durable. A question that the asker may not ask is refused by its shape alone, before the
market is looked at, so that a refusal tells nothing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from time import thread_time_ns
from typing import Any

from msgspec.structs import replace

from laissez.exchange.access import Principal
from laissez.exchange.admission import check_several, too_many
from laissez.exchange.levels import names_within
from laissez.exchange.venue import Venue
from laissez.exchange.views import own_order, own_order_id
from laissez.market import Market, checks
from laissez.model import (
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
    FloorList,
    Holding,
    HoldingList,
    OpenOrder,
    OrderList,
    Promise,
    PromiseList,
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

PAGE_MAX = 1_000
BAD_CURSOR = "this is not where a page begins; give the `next` of the page before"
LIST_CHANGED = "the list has changed where this page begins; ask again from the beginning"
SEGMENTS_SHOWN = 200
SEGMENTS_SHOWN_TOGETHER = 1_000


class Forbidden(Exception):
    """The asker may not ask this; carries the code and the sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Desk:
    """Answers questions about one venue; `now` is the clock, `sequence` how far it has come.

    `shown_until` is the latest instant that anybody was told: whoever goes on after a restart must
    not tell of an earlier one, even if nothing was written since.
    """

    def __init__(self, venue: Venue, now: Callable[[], int], sequence: Callable[[], int]) -> None:
        self._venue = venue
        self._now = now
        self._sequence = sequence
        self.shown_until = 0
        self.terms_of_new_trees: tuple[int | None, int | None] = (None, None)
        self.on_bill: Callable[[int, int], None] = lambda holdings, took_ns: None
        self._answers: dict[type, Callable[[Principal, Any], Told]] = {
            AskQuote: self._quote,
            AskOrders: self._orders,
            AskHoldings: self._holdings,
            AskPromises: self._promises,
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
        at, due = max(self._now(), self._market.now), self._venue.next_timer()
        if due is not None:
            at = max(self._market.now, min(at, due))
        self.shown_until = max(self.shown_until, at)
        return at

    def quote(
        self, asker: Principal, scope: str, count: int = 1, within: int | str | None = None
    ) -> Quoted:
        if count != 1 or within is not None:
            names = self._names_within(asker, scope, count, within)
        else:
            names = None
        if not asker.sees_everything:
            assert asker.tenant is not None
            refused: Rejected | None = self._market.check_visible(asker.tenant, scope)
            if refused is not None:
                raise Forbidden(refused.code, refused.message)
        quote = self._market.quote(scope, asker.tenant, count, names)
        rate, idle = (None, False) if quote is None else (quote.rate, quote.idle)
        return Quoted(self.instant(), scope, rate, idle)

    def rates(self, tenant: str) -> dict[str, int]:
        market = self._market
        return {resource: market.rate(resource) for resource in market.holdings(tenant)}

    def _quote(self, asker: Principal, question: AskQuote) -> Told:
        return self.quote(asker, question.scope, question.count, question.within)

    def _names_within(
        self, asker: Principal, scope: str, count: int, within: int | str | None
    ) -> int | None:
        """Within what so many are asked for, if they may be."""
        if count > asker.limits.gang_most:
            refused = too_many(0, asker, count)
            raise Forbidden(refused.code, refused.message)
        try:
            check_several(count, within)
            return names_within(self._venue.levels, scope, within)
        except checks.CommandRefused as refusal:
            raise Forbidden(refusal.code, refusal.message) from None

    def _orders(self, asker: Principal, question: AskOrders) -> Told:
        name, _, place = (question.after or "").partition(":")
        if place and not place.isdecimal():
            raise Forbidden(ServiceCode.BAD_REQUEST, BAD_CURSOR)
        found: list[OpenOrder] = []
        for tenant in self._tenants_from(asker, question.tenant, name):
            if len(found) == PAGE_MAX:
                return OrderList(self.instant(), tuple(found), f"{tenant}:0")
            after = int(place[:20]) if tenant == name and place else 0
            room = PAGE_MAX - len(found)
            orders, last, is_all = self._market.orders_after(tenant, after, room)
            found += map(own_order, orders)
            if not is_all:
                return OrderList(self.instant(), tuple(found), f"{tenant}:{last}")
        return OrderList(self.instant(), tuple(found))

    def _holdings(self, asker: Principal, question: AskHoldings) -> Told:
        name, _, place = (question.after or "").partition(":")
        found: list[Holding] = []
        last = ""
        for tenant in self._tenants_from(asker, question.tenant, name):
            paths: Iterable[str] = self._market.holdings(tenant)
            if tenant == name and place:
                paths = iter(paths)
                if place not in paths:  # it takes what comes before
                    raise Forbidden(ServiceCode.LIST_CHANGED, LIST_CHANGED)
            for path in paths:
                if len(found) == PAGE_MAX:
                    return HoldingList(self.instant(), tuple(found), last)
                found.append(self._holding(path))
                last = f"{tenant}:{path}"
        return HoldingList(self.instant(), tuple(found))

    def _holding(self, path: str) -> Holding:
        """A holding as its holder sees it; what a drain will do to it is as good as a call."""
        holding = self._market.holding(path)
        assert holding is not None
        bond = self._venue.together.order_of(holding.tenant, path)
        if bond is not None:
            holding = replace(holding, together=own_order_id(holding.tenant, bond))
        until = self._venue.drains.over(path)
        if until is None or (holding.called_until is not None and holding.called_until < until):
            return holding
        return replace(holding, called_until=until, called_for="withdrawn")

    def _promises(self, asker: Principal, question: AskPromises) -> Told:
        name, _, place = (question.after or "").partition(":")
        found: list[Promise] = []
        last = ""
        for tenant in self._tenants_from(asker, question.tenant, name):
            promises = self._market.promises(tenant)
            after = place if tenant == name else ""
            for path in sorted(each for each in promises if each > after):
                if len(found) == PAGE_MAX:
                    return PromiseList(self.instant(), tuple(found), last)
                found.append(self._promise(path))
                last = f"{tenant}:{path}"
        return PromiseList(self.instant(), tuple(found))

    def _promise(self, path: str) -> Promise:
        """A promise under its tenant's own id of the order."""
        promise = self._market.promise(path)
        assert promise is not None
        own_id = own_order_id(promise.tenant, promise.order)
        goes_together = self._venue.together.binds(promise.tenant, path)
        return replace(promise, order=own_id, together=goes_together)

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
        (bill,) = self._bills((tenant,), at)
        return Bill(at, tenant, bill, shown, left_out)

    def _bills(self, tenants: Sequence[str], at: int) -> list[int]:
        """What each of them owes; whoever counts what is owed is told how long that took."""
        market, begun = self._market, thread_time_ns()
        bills = [market.bill(tenant, at) for tenant in tenants]
        took_ns = thread_time_ns() - begun
        self.on_bill(sum(len(market.holdings(tenant)) for tenant in tenants), took_ns)
        return bills

    def _status(self, asker: Principal, question: AskStatus) -> Told:
        trees = dict.fromkeys(path.split("/")[0] for path in self._market.visible(""))
        guards = [guard for guard in self._market.guards() if guard.tree in trees]
        return Status(
            self.instant(),
            self._sequence(),
            asker.role,
            asker.tenant,
            tuple(sorted(trees)),
            {tree: names for tree, names in self._venue.levels.items() if tree in trees},
            {guard.tree: guard.notice for guard in guards if guard.notice},
            {guard.tree: guard.commit for guard in guards if guard.commit},
        )

    def _resources(self, asker: Principal, question: AskResources) -> Told:
        self._check_sees_everything(asker)
        market = self._market
        paths = market.resources_after(question.scope, question.after, PAGE_MAX + 1)
        if paths is None:
            raise Forbidden(ServiceCode.LIST_CHANGED, LIST_CHANGED)
        shown = paths[:PAGE_MAX]
        return ResourceList(
            self.instant(),
            tuple(
                Resource(path, market.owner(path), market.rate(path), market.attributes(path))
                for path in shown
            ),
            shown[-1] if len(paths) > PAGE_MAX else None,
        )

    def _floors(self, asker: Principal, question: AskFloors) -> Told:
        self._check_sees_everything(asker)
        market = self._market
        cordons = tuple(sorted(self._venue.cordons))
        drains = dict(self._venue.drains.until)
        return FloorList(
            self.instant(),
            market.floors(),
            market.guards(),
            cordons,
            drains,
            *self.terms_of_new_trees,
        )

    def _tenants(self, asker: Principal, question: AskTenants) -> Told:
        self._check_sees_everything(asker)
        market, at = self._market, self.instant()
        names = market.tenants()
        begin = 0 if question.after is None else bisect_right(names, question.after)
        shown = names[begin : begin + PAGE_MAX]
        return TenantList(
            at,
            tuple(
                TenantSummary(name, market.order_count(name), len(market.holdings(name)), bill)
                for name, bill in zip(shown, self._bills(shown, at), strict=True)
            ),
            shown[-1] if begin + PAGE_MAX < len(names) else None,
        )

    def _tenants_from(self, asker: Principal, tenant: str | None, first: str) -> Sequence[str]:
        """Whose lists are meant, from the one on at which a page begins."""
        self._check_tenant(asker, tenant)
        meant = tenant or asker.tenant
        if meant is None:
            names = self._market.tenants()
            return names[bisect_left(names, first) :]
        if first not in ("", meant):
            raise Forbidden(ServiceCode.BAD_REQUEST, BAD_CURSOR)
        return (meant,)

    def _check_tenant(self, asker: Principal, tenant: str | None) -> None:
        if tenant is not None and tenant != asker.tenant:
            self._check_sees_everything(asker)

    def _check_sees_everything(self, asker: Principal) -> None:
        if not asker.sees_everything:
            raise Forbidden(
                ServiceCode.FORBIDDEN,
                f"only an operator may ask this, and your token is a {asker.role}'s; ask about "
                "your own",
            )
