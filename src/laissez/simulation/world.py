"""A simulated market: tenants with adapters, operators with maps, and time that jumps.

Everybody steps periodically. Whoever wins or loses a resource learns it at once and steps again
after a short while, the reaction time: so nobody reacts within the instant, and nothing can go
round in circles without time passing. A node that is lost is lost at once; one that is won arrives
after its handover. What is done goes through the exchange's own rules: orders have ids of their
tenant's own, and a tenant is told what the service would tell it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from laissez.adapters.adapter import Adapter
from laissez.adapters.view import MarketView
from laissez.exchange.sequencing import LetTimePass, record_of
from laissez.exchange.venue import Venue
from laissez.exchange.views import notices, own_order
from laissez.market import Market
from laissez.model import (
    CancelOrder,
    Event,
    Filled,
    Instruction,
    Lost,
    Notice,
    Quoted,
    Rejected,
    Release,
)
from laissez.model.paths import covers
from laissez.simulation.kernel import ARRIVAL, DUE, Kernel
from laissez.workloads.application import Application

REACTION_US = 20_000


class Said(msgspec.Struct, frozen=True):
    """Something that a tenant or the operator did, or that happened to a tenant, and why."""

    at_us: int
    who: str
    what: Instruction | Notice
    why: str = ""


class Tenant(msgspec.Struct, eq=False):
    """A tenant of the world: its application, and the adapter that trades for it."""

    name: str
    adapter: Adapter
    app: Application
    begins_us: int = 0
    is_woken: bool = False
    arriving: dict[str, int] = {}
    """What it has won and not received yet, and since when it is its own."""


def at_once(tenant: str) -> int:
    """A handover that takes no time."""
    return 0


class World:
    """One market, and everybody who acts in it."""

    def __init__(
        self,
        tenants: Iterable[Tenant] = (),
        *,
        venue: Venue | None = None,
        reaction_us: int = REACTION_US,
        handover_us: Callable[[str], int] = at_once,
        keeps_log: bool = True,
    ) -> None:
        self.venue = venue or Venue()
        self.kernel = Kernel()
        self.kernel.now_us = self.market.now
        self.reaction_us = reaction_us
        self.log: list[Said] = []
        self._handover_us = handover_us
        self._keeps_log = keeps_log
        self._tenants: dict[str, Tenant] = {}
        self._sequence = 0
        self._due_us: int | None = None
        for tenant in tenants:
            self.join(tenant)

    @property
    def market(self) -> Market:
        return self.venue.market

    @property
    def now_us(self) -> int:
        return self.kernel.now_us

    @property
    def tenants(self) -> dict[str, Tenant]:
        """Who is there, by name."""
        return dict(self._tenants)

    def join(self, tenant: Tenant) -> None:
        """A tenant begins to trade at its own instant, then steps once every period.

        Its application is told of what it holds already, as after a restart.
        """
        self._tenants[tenant.name] = tenant
        for resource in self.market.holdings(tenant.name):
            if _concerns(tenant, resource):
                tenant.app.gain(resource, self.now_us)
        self.at(max(tenant.begins_us, self.now_us), lambda at_us: self._periodic(tenant, at_us))

    def leave(self, name: str) -> None:
        """A tenant is gone: its orders are cancelled and its resources released, now."""
        self._tenants.pop(name)
        for order in self.market.orders(name):
            self._do(name, CancelOrder(own_order(order).order), self.now_us, "it leaves")
        for resource in self.market.holdings(name):
            self._do(name, Release(resource), self.now_us, "it leaves")

    def at(self, at_us: int, do: Callable[[int], object]) -> None:
        """Let something happen at an instant."""
        self.kernel.at(at_us, do)

    def every(self, period_us: int, do: Callable[[int], object], *, begins_us: int = 0) -> None:
        """Let something happen again and again."""
        self.kernel.every(period_us, do, begins_us=begins_us)

    def operate(self, instruction: Instruction, at_us: int, why: str = "") -> tuple[Event, ...]:
        """Do something in the operator's name."""
        return self._do(None, instruction, at_us, why)

    def operate_at(self, at_us: int, instruction: Instruction, why: str = "") -> None:
        """Do something in the operator's name later."""
        self.at(at_us, lambda now_us: self._do(None, instruction, now_us, why))

    def run(self, until_us: int) -> None:
        """Let everything happen up to an instant, and that instant with it."""
        self._look_ahead()
        self.kernel.run(until_us)
        self._let_time_pass(until_us)
        for tenant in self._tenants.values():
            tenant.app.advance(until_us)

    # Inside -----------------------------------------------------------------------------------

    def _look_ahead(self) -> None:
        """Be there when something falls due in the market."""
        due_us = self.market.next_timer()
        if due_us is not None and (self._due_us is None or due_us < self._due_us):
            self._due_us = due_us
            self.kernel.at(max(due_us, self.now_us), self._fall_due, DUE)

    def _fall_due(self, at_us: int) -> None:
        if self._due_us is not None and at_us >= self._due_us:
            self._due_us = None
            self._let_time_pass(at_us)
            self._look_ahead()

    def _let_time_pass(self, at_us: int) -> None:
        due_us = self.market.next_timer()
        if at_us > self.market.now or (due_us is not None and due_us <= at_us):
            self._spread(self.venue.apply(record_of(LetTimePass(), None, at_us, 0)))

    def _periodic(self, tenant: Tenant, at_us: int) -> None:
        if self._tenants.get(tenant.name) is not tenant:
            return
        self._step(tenant, at_us)
        period_us = tenant.adapter.terms.period_us
        self.at(at_us + period_us, lambda at_us: self._periodic(tenant, at_us))

    def _react(self, tenant: Tenant, at_us: int) -> None:
        tenant.is_woken = False
        if self._tenants.get(tenant.name) is tenant:
            self._step(tenant, at_us)

    def _step(self, tenant: Tenant, at_us: int) -> None:
        if tenant.arriving:
            return  # it steps when that has arrived
        tenant.app.advance(at_us)
        view = view_of(self.market, tenant, at_us)
        for action in tenant.adapter.step(tenant.app, view, at_us):
            self._do(tenant.name, action.do, at_us, action.why)

    def _do(self, who: str | None, do: Instruction, at_us: int, why: str) -> tuple[Event, ...]:
        self._sequence += 1
        events = self.venue.apply(record_of(do, who, at_us, self._sequence))
        if self._keeps_log:
            self.log.append(Said(at_us, who or "", do, why))
            if events and isinstance(events[-1], Rejected):
                self.log.append(Said(at_us, who or "", events[-1]))
        self._spread(events)
        self._look_ahead()
        return events

    def _spread(self, events: tuple[Event, ...]) -> None:
        """Tell every tenant what it is told of these events."""
        if len(events) < 2:
            return  # a change of hands never comes alone
        for name, told in notices(self.market, events).items():
            tenant = self._tenants.get(name)
            if tenant is not None:
                self._tell(tenant, told)

    def _tell(self, tenant: Tenant, told: Iterable[Notice]) -> None:
        for notice in told:
            if isinstance(notice, Filled | Lost) and not _concerns(tenant, notice.resource):
                continue
            if isinstance(notice, Filled):
                self._hand_over(tenant, notice.resource, notice.at)
            elif isinstance(notice, Lost):
                self._take_away(tenant, notice.resource, notice.at)
            else:
                continue
            if self._keeps_log:
                self.log.append(Said(notice.at, tenant.name, notice))

    def _hand_over(self, tenant: Tenant, resource: str, at_us: int) -> None:
        handover_us = self._handover_us(tenant.name)
        if handover_us == 0:
            self._arrive(tenant, resource, at_us)
            return
        tenant.arriving[resource] = at_us

        def arrive(now_us: int) -> None:
            if tenant.arriving.get(resource) == at_us:
                del tenant.arriving[resource]
                self._arrive(tenant, resource, now_us)

        self.kernel.at(at_us + handover_us, arrive, ARRIVAL)

    def _arrive(self, tenant: Tenant, resource: str, at_us: int) -> None:
        tenant.app.advance(at_us)
        tenant.app.gain(resource, at_us)
        self._wake(tenant, at_us)

    def _take_away(self, tenant: Tenant, resource: str, at_us: int) -> None:
        tenant.app.advance(at_us)
        if tenant.arriving.pop(resource, None) is None:
            tenant.app.lose(resource, at_us)
        self._wake(tenant, at_us)

    def _wake(self, tenant: Tenant, at_us: int) -> None:
        if not tenant.is_woken:
            tenant.is_woken = True
            self.at(at_us + self.reaction_us, lambda at_us: self._react(tenant, at_us))


def _concerns(tenant: Tenant, resource: str) -> bool:
    """It lies under the adapter's scopes; what else a tenant has is its own affair."""
    return any(covers(scope, resource) for scope in tenant.adapter.terms.scopes)


def view_of(market: Market, tenant: Tenant, at_us: int) -> MarketView:
    """What the service would tell this tenant now."""
    name = tenant.name
    holdings = tuple(
        holding for path in market.holdings(name) if (holding := market.holding(path)) is not None
    )
    return MarketView(
        at_us,
        holdings,
        tuple(own_order(order) for order in market.orders(name)),
        quotes_of(market, name, tenant.adapter.scopes_to_quote(tenant.app, holdings), at_us),
        market.bill(name, at_us),
    )


def quotes_of(market: Market, tenant: str, scopes: Iterable[str], at_us: int) -> dict[str, Quoted]:
    """The quotes of those scopes that the tenant may see."""
    quotes: dict[str, Quoted] = {}
    for scope in scopes:
        if market.check_visible(tenant, scope) is None:
            quote = market.quote(scope, tenant)
            rate, idle = (None, False) if quote is None else (quote.rate, quote.idle)
            quotes[scope] = Quoted(at_us, scope, rate, idle)
    return quotes
