"""Why a resource was won or lost: from what was told, and from what was wanted.

A win names its order, and the order has a reason: the one that the adapter gave when it last placed
or amended it. A loss has the market's reason; where that is the tenant's own doing, a lowered limit
or a release, the adapter's reason follows. Limits and rates are remembered as they were last told,
because when a loss is heard of, they are gone from the view. An order that wins several resources
keeps its reason for each; one to which something is promised keeps it until that comes.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from laissez.adapters.view import Action, MarketView, Stay, Vacate
from laissez.client.money import show_rate
from laissez.model import (
    Amended,
    Called,
    CancelOrder,
    ChangeLimit,
    Filled,
    LimitSet,
    Lost,
    Notice,
    OpenOrder,
    Placed,
    Promised,
    Reason,
    Release,
    Uncalled,
)
from laissez.runners.entries import RunnerEntry

NOT_OURS = "an order that this adapter did not place"
NOT_HEARD = "found when the state was read anew; what led to it was not heard"


class Explaining:
    """Follows the orders and holdings of one tenant, and the reasons of its adapter.

    `whys` has the reason of each order, by its id: whoever keeps it can explain wins of orders
    that were placed before a restart.
    """

    def __init__(self, name: str, tenant: str, whys: Mapping[str, str]) -> None:
        self.whys = dict(whys)
        self._name = name
        self._tenant = tenant
        self._orders: dict[str, OpenOrder | Placed | Amended] = {}
        self._limits: dict[str, int] = {}
        self._rates: dict[str, int] = {}
        self._why_given_up: dict[str, str] = {}

    def intends(self, action: Action) -> None:
        """An action is about to be sent."""
        do = action.do
        if isinstance(do, ChangeLimit | Release):
            self._why_given_up[do.resource] = action.why
        elif not isinstance(do, CancelOrder | Vacate | Stay) and do.order is not None:
            self.whys[do.order] = action.why

    def hears_rates(self, rates: Mapping[str, int]) -> None:
        """Rates that have changed since the last view."""
        self._rates.update(rates)

    def sees(self, view: MarketView) -> None:
        """What is true now; to be told after what was heard until then has been explained."""
        promised = {each.order for each in view.promises.values()}
        coming = {id: order for id, order in self._orders.items() if id in promised}
        self._orders = {**coming, **{order.order: order for order in view.orders}}
        self._limits = {holding.resource: holding.limit for holding in view.holdings}
        self._rates = {holding.resource: holding.rate for holding in view.holdings}
        live = self._orders.keys() | promised
        self.whys = {order: why for order, why in self.whys.items() if order in live}

    def hears(self, notice: Notice, view: MarketView) -> RunnerEntry | None:
        """The entry for a handover, and for what announces one; None for anything else."""
        if isinstance(notice, Placed | Amended):
            self._orders[notice.order] = notice
        elif isinstance(notice, LimitSet):
            self._limits[notice.resource] = notice.limit
        elif isinstance(notice, Filled):
            return self._won(notice, view)
        elif isinstance(notice, Lost):
            return self._lost(notice.resource, notice)
        elif isinstance(notice, Called | Uncalled | Promised):
            return self._announced(notice)
        return None

    def finds_held(self, resource: str, view: MarketView) -> RunnerEntry:
        """Something is held of which nothing was heard."""
        limit = next((each.limit for each in view.holdings if each.resource == resource), None)
        return self._entry_won(view.at_us, resource, view, limit=limit, why=NOT_HEARD)

    def finds_gone(self, resource: str, view: MarketView) -> RunnerEntry:
        """Something is gone, and nothing was heard of it."""
        return RunnerEntry(
            at=view.at_us,
            name=self._name,
            tenant=self._tenant,
            what="lost",
            why=NOT_HEARD,
            resource=resource,
            limit=self._limits.get(resource),
            rate=self._rates.get(resource),
        )

    # Inside -----------------------------------------------------------------------------------

    def _won(self, filled: Filled, view: MarketView) -> RunnerEntry:
        order = self._orders.get(filled.order)
        why = self.whys.get(filled.order, NOT_OURS)
        limit = None if order is None else order.limit
        if limit is not None:
            self._limits[filled.resource] = limit
        price = None if order is None else order.price
        return self._entry_won(
            filled.at, filled.resource, view, order=filled.order, price=price, limit=limit, why=why
        )

    def _entry_won(
        self,
        at: int,
        resource: str,
        view: MarketView,
        *,
        why: str,
        order: str | None = None,
        price: int | None = None,
        limit: int | None = None,
    ) -> RunnerEntry:
        rate = next((each.rate for each in view.holdings if each.resource == resource), None)
        if rate is not None:
            self._rates[resource] = rate
        return RunnerEntry(
            at=at,
            name=self._name,
            tenant=self._tenant,
            what="won",
            why=why,
            resource=resource,
            order=order,
            price=price,
            limit=limit,
            rate=rate,
        )

    def _lost(self, resource: str, lost: Lost) -> RunnerEntry:
        limit, rate = self._limits.pop(resource, None), self._rates.get(resource)
        return RunnerEntry(
            at=lost.at,
            name=self._name,
            tenant=self._tenant,
            what="lost",
            why=self._why_lost(lost, limit),
            resource=resource,
            limit=limit,
            rate=rate,
            reason=lost.reason,
        )

    def _announced(self, notice: Called | Uncalled | Promised) -> RunnerEntry:
        entry = RunnerEntry(
            at=notice.at,
            name=self._name,
            tenant=self._tenant,
            what="uncalled",
            why="the call is over",
            resource=notice.resource,
        )
        if isinstance(notice, Called):
            limit = self._limits.get(notice.resource)
            why = _why_gone(notice.reason, _up_to(limit))
            called = replace(entry, what="called", why=why, limit=limit)
            return replace(called, until=notice.until, reason=notice.reason)
        if isinstance(notice, Promised):
            order, why = self._orders.get(notice.order), self.whys.get(notice.order, NOT_OURS)
            limit = None if order is None else order.limit
            promised = replace(entry, what="promised", why=why, limit=limit)
            return replace(promised, until=notice.until, order=notice.order)
        return entry

    def _why_lost(self, lost: Lost, limit: int | None) -> str:
        up_to, own = _up_to(limit), self._why_given_up.pop(lost.resource, "")
        if lost.reason == "limit":
            return f"{up_to} is below what others offer; {own or 'somebody else lowered it'}"
        return _why_gone(lost.reason, up_to) or (
            f"given back; {own or 'somebody else of this tenant did'}"
        )


def _up_to(limit: int | None) -> str:
    return "its limit" if limit is None else f"its limit of {show_rate(limit)}"


def _why_gone(reason: Reason, up_to: str) -> str:
    """What others did; nothing where the tenant did it itself."""
    if reason == "outbid":
        return f"somebody offered more than {up_to}"
    if reason == "floor":
        return f"the floor rose above {up_to}"
    return "the operator took it out of the market" if reason == "withdrawn" else ""
