"""What goes together: the holdings of a gang whose work can't run with fewer.

All that such a gang wins, at once or by a promise, is one *bond*. When one of it really goes (the
holding ends, whoever ended it; a promise is given back, or what was promised is withdrawn), the
others are released at that instant, in the order in which they were won. This is only bookkeeping:
`note` looks at what happened, `next_release` says what is to be released because of it, and the
venue does it. A client need not be alive for that.

A called holding has not gone yet. One that passes to another order of the same tenant has: it is
another work's from then on.
"""

from __future__ import annotations

import msgspec

from laissez.model import (
    Cancelled,
    Event,
    Expired,
    Promised,
    ResourceWithdrawn,
    Transferred,
)


class Bond(msgspec.Struct):
    """What one gang has, held or promised, in the order in which it was won."""

    tenant: str
    resources: dict[str, None]
    order: str = ""


class TogetherState(msgspec.Struct):
    """All there is to be kept: gangs that wait, by the market's id, and bonds."""

    waiting: dict[str, None] = {}
    bonds: dict[int, Bond] = {}


class Together:
    __slots__ = ("_broken", "_filling", "_of", "state")

    def __init__(self, state: TogetherState | None = None) -> None:
        self.state = state or TogetherState()
        self._of: dict[str, dict[str, int]] = {}
        for number, bond in self.state.bonds.items():
            for resource in bond.resources:
                self._of.setdefault(resource, {})[bond.tenant] = number
        self._filling: dict[str, int] = {}
        self._broken: dict[int, None] = {}

    @property
    def is_empty(self) -> bool:
        return not (self.state.waiting or self.state.bonds)

    def expect(self, order: str) -> None:
        """What this gang wins goes together."""
        self.state.waiting[order] = None

    def binds(self, tenant: str, resource: str) -> bool:
        """Is a resource of this tenant, held or promised, part of a bond?"""
        return tenant in self._of.get(resource, ())

    def order_of(self, tenant: str, resource: str) -> str | None:
        """The market's id of the gang whose bond a resource of this tenant is part of, if any."""
        number = self._of.get(resource, {}).get(tenant)
        return None if number is None else self.state.bonds[number].order

    def note(self, event: Event) -> None:
        """Something happened; of what it breaks `next_release` tells."""
        if isinstance(event, Transferred):
            if event.old is not None:
                self.lose(event.old, event.resource)
            if event.new is not None and event.order in self.state.waiting:
                self._gain(event.new, event.order, event.resource)
        elif isinstance(event, Promised):
            if event.order in self.state.waiting:
                self._gain(event.tenant, event.order, event.resource)
        elif isinstance(event, Cancelled | Expired):
            self.state.waiting.pop(event.order, None)
        elif isinstance(event, ResourceWithdrawn):
            for tenant in tuple(self._of.get(event.resource, ())):
                self.lose(tenant, event.resource)

    def note_end(self) -> None:
        """All of a command is noted: a gang has all it wins, or nothing."""
        for order in self._filling:
            del self.state.waiting[order]
        self._filling = {}

    def lose(self, tenant: str, resource: str) -> None:
        """This tenant has a resource no longer, and no promise of it."""
        number = self._forget(tenant, resource)
        if number is not None:
            self._broken[number] = None

    def next_release(self) -> tuple[str, str] | None:
        """The next (tenant, resource) to be released because something it is bound to went."""
        for number in tuple(self._broken):
            bond = self.state.bonds[number]
            for resource in bond.resources:
                self._forget(bond.tenant, resource)
                return bond.tenant, resource
            del self._broken[number], self.state.bonds[number]
        return None

    def _gain(self, tenant: str, order: str, resource: str) -> None:
        bonds = self.state.bonds
        number = self._filling.get(order)
        if number is None:
            number = self._filling[order] = next(reversed(bonds), 0) + 1
            bonds[number] = Bond(tenant, {}, order)
        bonds[number].resources[resource] = None
        self._of.setdefault(resource, {})[tenant] = number

    def _forget(self, tenant: str, resource: str) -> int | None:
        of = self._of.get(resource, {})
        number = of.pop(tenant, None)
        if number is not None:
            del self.state.bonds[number].resources[resource]
            if not of:
                del self._of[resource]
        return number
