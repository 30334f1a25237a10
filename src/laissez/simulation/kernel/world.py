"""A simulated market: the exchange's own rules, on a stage where time jumps.

Orders have ids of their tenant's own, and a tenant is told what the service would tell it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from laissez.adapters.view import GangAsk, MarketView, OrderGang, Stay, Vacate
from laissez.exchange.records import Record
from laissez.exchange.sequencing import LetTimePass, record_of
from laissez.exchange.venue import Venue
from laissez.exchange.views import market_order_id, notices, own_order, own_order_id
from laissez.market import Market
from laissez.model import (
    Called,
    CancelOrder,
    Event,
    Filled,
    Instruction,
    Lost,
    Notice,
    OpenOrder,
    Place,
    Promised,
    Quoted,
    Rejected,
    Release,
    SetGuard,
    Uncalled,
)
from laissez.simulation.kernel.binding import Binding
from laissez.simulation.kernel.heap import DUE
from laissez.simulation.kernel.stage import REACTION_US, LogLine, Stage, Tenant, Witness, at_once

__all__ = ["REACTION_US", "LogLine", "Tenant", "World", "quotes_of", "view_of"]

MarketListener = Callable[[tuple[Event, ...]], None]


class World:
    """One market, and everybody who acts in it. `listener` hears all events of the market."""

    def __init__(
        self,
        tenants: Iterable[Tenant] = (),
        *,
        venue: Venue | None = None,
        reaction_us: int = REACTION_US,
        handover_us: Callable[[str], int] = at_once,
        keeps_log: bool = True,
        listener: MarketListener | None = None,
        witness: Witness | None = None,
    ) -> None:
        self.venue = venue or Venue()
        self.stage = Stage(
            self._step, reaction_us=reaction_us, handover_us=handover_us, witness=witness
        )
        self.kernel = self.stage.kernel
        self.kernel.now_us = self.market.now
        self.log: list[LogLine] = []
        self.too_dear: set[tuple[str, str, int]] = set()
        """Who has released which resource when because of its price."""
        self._keeps_log = keeps_log
        self._listener = listener
        self._binding = Binding(self.market)
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
        return dict(self.stage.tenants)

    def join(self, tenant: Tenant) -> None:
        """A tenant begins to trade at its own instant, then steps once every period.

        Its application is told of what it holds already, as after a restart.
        """
        for resource in self.market.holdings(tenant.name):
            if tenant.may_use(resource):
                tenant.app.gain(resource, self.now_us)
        self.stage.join(tenant)

    def leave(self, name: str) -> None:
        """A tenant is gone: its orders are cancelled and its resources released, now."""
        self.stage.leave(name)
        for order in self.market.orders(name):
            self._do(name, CancelOrder(own_order(order).order), self.now_us, "it leaves")
        for resource in (*self.market.holdings(name), *self.market.promises(name)):
            self._do(name, Release(resource), self.now_us, "it leaves")

    def at(self, at_us: int, do: Callable[[int], object]) -> None:
        """Let something happen at an instant."""
        self.kernel.at(at_us, do)

    def every(self, period_us: int, do: Callable[[int], object], *, begins_us: int = 0) -> None:
        """Let something happen again and again."""
        self.kernel.every(period_us, do, begins_us=begins_us)

    def act(
        self, who: str, instruction: Instruction, at_us: int, why: str = ""
    ) -> tuple[Event, ...]:
        """Do something in a tenant's name."""
        return self._do(who, instruction, at_us, why)

    def operate(self, instruction: Instruction, at_us: int, why: str = "") -> tuple[Event, ...]:
        """Do something in the operator's name."""
        return self._do(None, instruction, at_us, why)

    def bind(self, tree: str, *, notice_us: int = 0, commit_us: int = 0) -> tuple[Event, ...]:
        """From now on a tree gives notice and binds winners; it has no other guards."""
        guard = SetGuard(self.now_us, tree, notice=notice_us or None, commit=commit_us or None)
        return self._apply(guard)

    def operate_at(self, at_us: int, instruction: Instruction, why: str = "") -> None:
        """Do something in the operator's name later."""
        self.at(at_us, lambda now_us: self._do(None, instruction, now_us, why))

    def run(self, until_us: int) -> None:
        """Let everything happen up to an instant, and that instant with it."""
        self._look_ahead()
        self.kernel.run(until_us)
        self._let_time_pass(until_us)
        for tenant in self.stage.tenants.values():
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
            self._spread(self._apply(record_of(LetTimePass(), None, at_us, 0)))

    def _step(self, tenant: Tenant, at_us: int) -> None:
        view = view_of(self.market, tenant, at_us, self._binding)
        for action in tenant.adapter.step(tenant.app, view, at_us):
            if action.is_too_dear and isinstance(action.do, Release):
                self.too_dear.add((tenant.name, action.do.resource, at_us))
            if isinstance(action.do, Vacate | Stay):
                self._prepare(tenant, action.do, at_us, action.why)
            else:
                self._do(tenant.name, action.do, at_us, action.why)

    def _prepare(self, tenant: Tenant, do: Vacate | Stay, at_us: int, why: str) -> None:
        tell = tenant.app.vacate if isinstance(do, Vacate) else tenant.app.stay
        tell(do.resource, at_us)
        self.stage.wake(tenant, at_us)
        if self._keeps_log:
            self.log.append(LogLine(at_us, tenant.name, do, why))

    def _do(
        self, who: str | None, do: Instruction | OrderGang, at_us: int, why: str
    ) -> tuple[Event, ...]:
        self._sequence += 1
        if isinstance(do, OrderGang):
            assert who is not None
            events = self._apply(_gang(do, who, at_us))
        else:
            events = self._apply(record_of(do, who, at_us, self._sequence))
        if self._keeps_log:
            self.log.append(LogLine(at_us, who or "", do, why))
            if events and isinstance(events[-1], Rejected):
                self.log.append(LogLine(at_us, who or "", events[-1]))
        self._spread(events)
        self._look_ahead()
        return events

    def _apply(self, record: Record) -> tuple[Event, ...]:
        events = self.venue.apply(record)
        self._binding.hear(events)
        return events

    def _spread(self, events: tuple[Event, ...]) -> None:
        """Tell every tenant what it is told of these events."""
        if self._listener is not None:
            self._listener(events)
        for event in events:
            if isinstance(event, Called | Promised | Uncalled):
                self._forewarn(event)
        if len(events) < 2:
            return  # a change of hands never comes alone
        for name, told in notices(self.market, events).items():
            tenant = self.stage.tenants.get(name)
            if tenant is not None:
                self._tell(tenant, told)

    def _forewarn(self, event: Called | Promised | Uncalled) -> None:
        """Whoever is called, or no more, has something to do now."""
        tenant = self.stage.tenants.get(event.tenant)
        if tenant is None or not tenant.may_use(event.resource):
            return
        if not isinstance(event, Promised):
            self.stage.wake(tenant, event.at)
        elif self._keeps_log:
            order = own_order_id(event.tenant, event.order)
            event = msgspec.structs.replace(event, order=order)
        if self._keeps_log:
            self.log.append(LogLine(event.at, event.tenant, event))

    def _tell(self, tenant: Tenant, told: Iterable[Notice]) -> None:
        for notice in told:
            if not isinstance(notice, Filled | Lost) or not tenant.may_use(notice.resource):
                continue
            if isinstance(notice, Filled):
                self.stage.hand_over(tenant, notice.resource, notice.at)
            else:
                self.stage.take_away(tenant, notice.resource, notice.at)
            if self._keeps_log:
                self.log.append(LogLine(notice.at, tenant.name, notice))


def view_of(
    market: Market, tenant: Tenant, at_us: int, binding: Binding | None = None
) -> MarketView:
    """What the service would tell this tenant now."""
    name, adapter = tenant.name, tenant.adapter
    held = market.holdings(name)
    holdings = tuple(holding for path in held if (holding := market.holding(path)) is not None)
    view = MarketView(
        at_us,
        holdings,
        tuple(_as_its_own(order) for order in market.orders(name)),
        quotes_of(market, name, adapter.scopes_to_quote(tenant.app, holdings), at_us),
        market.bill(name, at_us),
        gang_quotes=gang_quotes_of(
            market, name, adapter.gangs_to_quote(tenant.app, holdings), at_us
        ),
    )
    if binding is None or not (terms := binding.terms()):
        return view
    return msgspec.structs.replace(
        view,
        calls=binding.calls(held),
        promises=binding.promises(name),
        bonds=binding.bonds(held),
        terms=terms,
    )


def _as_its_own(order: OpenOrder) -> OpenOrder:
    return msgspec.structs.replace(order, order=own_order_id(order.tenant, order.order))


def _gang(do: OrderGang, tenant: str, at_us: int) -> Place:
    return Place(
        at_us,
        tenant,
        market_order_id(tenant, do.order),
        do.scope,
        limit=do.limit,
        expires=do.expires,
        count=do.count,
        within=do.within,
    )


def gang_quotes_of(
    market: Market, tenant: str, asked: Iterable[GangAsk], at_us: int
) -> dict[GangAsk, Quoted]:
    """The same for several nodes at once."""
    quotes: dict[GangAsk, Quoted] = {}
    for ask in asked:
        if market.check_visible(tenant, ask.scope) is None:
            quote = market.quote(ask.scope, tenant, ask.count, ask.within)
            if quote is not None:
                quotes[ask] = Quoted(at_us, ask.scope, quote.rate, quote.idle)
    return quotes


def quotes_of(market: Market, tenant: str, scopes: Iterable[str], at_us: int) -> dict[str, Quoted]:
    """The quotes of those scopes that the tenant may see."""
    quotes: dict[str, Quoted] = {}
    for scope in scopes:
        if market.check_visible(tenant, scope) is None:
            quote = market.quote(scope, tenant)
            rate, idle = (None, False) if quote is None else (quote.rate, quote.idle)
            quotes[scope] = Quoted(at_us, scope, rate, idle)
    return quotes
