"""What binds tenants in a market: calls, promises and bonds, gathered from its events.

Until an exchange tells tenants of these, the simulator does: each is told of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from laissez.adapters.view import NO_TERMS, HoldingCall, NodeBond, PromisedNode, TreeTerms
from laissez.exchange.views import own_order_id
from laissez.market import Market
from laissez.model import Amended, Called, Event, Placed, Promised, Transferred, Uncalled
from laissez.model.paths import tree_of

T = TypeVar("T")


class Binding:
    """Hears all events of one market, in their order."""

    def __init__(self, market: Market) -> None:
        self._market = market
        self._calls: dict[str, HoldingCall] = {}
        self._bonds: dict[str, NodeBond] = {}
        self._limits: dict[str, tuple[int, int]] = {}
        """By order, the price that binds whoever wins with it, and its limit."""
        self._promised: dict[str, str] = {}

    def hear(self, events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, Placed | Amended):
                price = event.limit if event.price is None else event.price
                self._limits[event.order] = (price, event.limit)
            elif isinstance(event, Transferred):
                self._changes_hands(event)
            elif isinstance(event, Called):
                self._calls[event.resource] = HoldingCall(event.until, event.reason)
            elif isinstance(event, Promised):
                self._promised[event.resource] = event.order
            elif isinstance(event, Uncalled):
                self._calls.pop(event.resource, None)

    def _changes_hands(self, event: Transferred) -> None:
        path = event.resource
        commit_us = self.terms().get(tree_of(path), NO_TERMS).commit_us
        self._calls.pop(path, None)
        self._bonds.pop(path, None)
        if commit_us and event.order in self._limits:
            price, _ = self._limits[event.order]
            self._bonds[path] = NodeBond(event.at + commit_us, price)

    def terms(self) -> dict[str, TreeTerms]:
        """By tree, where there is notice or commitment."""
        return {
            guard.tree: TreeTerms(guard.notice or 0, guard.commit or 0)
            for guard in self._market.guards()
            if guard.notice or guard.commit
        }

    def calls(self, held: Iterable[str]) -> dict[str, HoldingCall]:
        return _of(self._calls, held)

    def bonds(self, held: Iterable[str]) -> dict[str, NodeBond]:
        now_us = self._market.now
        bonds = _of(self._bonds, held)
        return {path: bond for path, bond in bonds.items() if bond.until_us > now_us}

    def promises(self, tenant: str) -> dict[str, PromisedNode]:
        promises = {}
        for path, until_us in self._market.promises(tenant).items():
            order = self._promised[path]
            limit = self._limits[order][1]
            promises[path] = PromisedNode(until_us, limit, own_order_id(tenant, order))
        return promises


def _of(known: Mapping[str, T], held: Iterable[str]) -> dict[str, T]:
    return {path: known[path] for path in held if path in known} if known else {}
