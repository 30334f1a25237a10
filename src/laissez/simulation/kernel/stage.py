"""Where tenants live, whatever the contract: they step, nodes come to them and are taken from them.

Everybody steps periodically. Whoever receives or loses a node learns it at once and steps again
after a short while, the reaction time: so nobody reacts within the instant, and nothing can go
round in circles without time passing. A node that is lost is lost at once; one that is won arrives
after its handover, and until then its new owner waits for it and does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from laissez.adapters.adapter import Adapter
from laissez.adapters.view import OrderGang, Stay, Vacate
from laissez.model import Instruction, Notice
from laissez.model.paths import covers
from laissez.simulation.kernel.heap import ARRIVAL, Kernel

REACTION_US = 20_000


class NodesAsked(msgspec.Struct, frozen=True):
    """Where there is a line: how many nodes of each kind would be enough, and as far as that can
    be paid."""

    missing: Mapping[str, int]
    wanted: Mapping[str, int]


class NodeGiven(msgspec.Struct, frozen=True):
    """Where there is a line: a node, and what it costs an hour."""

    resource: str
    rate_micros_per_hour: int


class NodeTaken(msgspec.Struct, frozen=True):
    """Where there is a line: a node that had to be left to another tenant."""

    resource: str
    to: str


class LogLine(msgspec.Struct, frozen=True):
    """Something that a tenant or the operator did, or that happened to a tenant, and why."""

    at_us: int
    who: str
    what: Instruction | OrderGang | Vacate | Stay | Notice | NodesAsked | NodeGiven | NodeTaken
    why: str = ""


class Tenant(msgspec.Struct, eq=False):
    """A tenant: its application, and the adapter that trades for it where there is a market."""

    name: str
    adapter: Adapter
    app: Any
    begins_us: int = 0
    is_woken: bool = False
    arriving: dict[str, int] = {}
    """What it has won and not received yet, and since when it is its own."""

    def may_use(self, resource: str) -> bool:
        """It lies under the adapter's scopes; what else a tenant has is its own affair."""
        return any(covers(scope, resource) for scope in self.adapter.terms.scopes)


class Witness(Protocol):
    """Whoever watches what tenants lose."""

    def loses(self, tenant: Tenant, resource: str, at_us: int) -> Callable[[], None]:
        """Just before it is told; what is returned is called just after."""


def at_once(tenant: str) -> int:
    """A handover that takes no time."""
    return 0


class Stage:
    """`step` is what a contract does when it is a tenant's turn."""

    def __init__(
        self,
        step: Callable[[Tenant, int], None],
        *,
        reaction_us: int = REACTION_US,
        handover_us: Callable[[str], int] = at_once,
        witness: Witness | None = None,
    ) -> None:
        self.kernel = Kernel()
        self.tenants: dict[str, Tenant] = {}
        self._step = step
        self._reaction_us = reaction_us
        self._handover_us = handover_us
        self._witness = witness

    def join(self, tenant: Tenant) -> None:
        """It steps from its own instant on, once every period."""
        self.tenants[tenant.name] = tenant
        begins_us = max(tenant.begins_us, self.kernel.now_us)
        self.kernel.at(begins_us, lambda at_us: self._periodic(tenant, at_us))

    def leave(self, name: str) -> Tenant:
        """It steps no more, and what is on its way never arrives."""
        tenant = self.tenants.pop(name)
        tenant.arriving.clear()
        return tenant

    def run(self, until_us: int) -> None:
        """Let everything happen up to an instant, and that instant with it."""
        self.kernel.run(until_us)
        for tenant in self.tenants.values():
            tenant.app.advance(until_us)

    def hand_over(self, tenant: Tenant, resource: str, at_us: int) -> None:
        """A node is a tenant's own from now on, and will be there after its handover.

        One that it gave up and won back in the same instant has never left it.
        """
        handover_us = self._handover_us(tenant.name)
        if handover_us == 0 or resource in tenant.app.nodes:
            self._arrive(tenant, resource, at_us)
            return
        tenant.arriving[resource] = at_us

        def arrive(now_us: int) -> None:
            if tenant.arriving.get(resource) == at_us:
                del tenant.arriving[resource]
                self._arrive(tenant, resource, now_us)

        self.kernel.at(at_us + handover_us, arrive, ARRIVAL)

    def take_away(self, tenant: Tenant, resource: str, at_us: int) -> None:
        """A node is a tenant's own no more."""
        tenant.app.advance(at_us)
        if tenant.arriving.pop(resource, None) is None:
            after = self._witness.loses(tenant, resource, at_us) if self._witness else None
            tenant.app.lose(resource, at_us)
            if after:
                after()
        self.wake(tenant, at_us)

    def wake(self, tenant: Tenant, at_us: int) -> None:
        """It steps after its reaction time."""
        if not tenant.is_woken:
            tenant.is_woken = True
            self.kernel.at(at_us + self._reaction_us, lambda at_us: self._react(tenant, at_us))

    # Inside -----------------------------------------------------------------------------------

    def _periodic(self, tenant: Tenant, at_us: int) -> None:
        if self.tenants.get(tenant.name) is tenant:
            self._turn(tenant, at_us)
            period_us = tenant.adapter.terms.period_us
            self.kernel.at(at_us + period_us, lambda at_us: self._periodic(tenant, at_us))

    def _react(self, tenant: Tenant, at_us: int) -> None:
        tenant.is_woken = False
        if self.tenants.get(tenant.name) is tenant:
            self._turn(tenant, at_us)

    def _turn(self, tenant: Tenant, at_us: int) -> None:
        if not tenant.arriving:  # else it steps when that has arrived
            tenant.app.advance(at_us)
            self._step(tenant, at_us)

    def _arrive(self, tenant: Tenant, resource: str, at_us: int) -> None:
        tenant.app.advance(at_us)
        tenant.app.gain(resource, at_us)
        self.wake(tenant, at_us)
