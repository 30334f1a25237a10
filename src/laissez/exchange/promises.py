"""Promises that end without being kept, so that who was promised something is told.

The market says when a promise is made, and when what was promised is won. That a promise was given
back, or what was promised was withdrawn, it does not say: it is worked out here, from the promises
that stood before and from what happened. This is only for telling: it changes nothing, and a
restored market has all there is to know.
"""

from __future__ import annotations

from collections.abc import Iterable

from laissez.market import Market
from laissez.model import (
    Event,
    Occurrence,
    Promised,
    Reason,
    ResourceWithdrawn,
    Transferred,
    Unpromised,
)


class StandingPromises:
    """What is promised to which order, by resource."""

    __slots__ = ("_of",)

    def __init__(self, market: Market) -> None:
        self._of: dict[str, tuple[str, str]] = {}
        for tenant in market.tenants():
            for resource in market.promises(tenant):
                order = market.promised_order(resource)
                assert order is not None
                self._of[resource] = (tenant, order)

    def follow(
        self, market: Market, at: int, events: tuple[Event, ...], released: Iterable[str]
    ) -> tuple[Occurrence, ...]:
        """What happened, with the ends of promises among it; of what was `released` at the end, a
        promise may have been."""
        if not self._of and len(events) < 2:
            return events  # no promise stands, and a call comes before a promise
        told: list[Occurrence] = []
        for event in events:
            if isinstance(event, Promised):
                self._end(event.at, event.resource, "relinquished", told)
                self._of[event.resource] = (event.tenant, event.order)
            elif isinstance(event, ResourceWithdrawn):
                self._end(event.at, event.resource, "withdrawn", told)
            elif isinstance(event, Transferred) and event.resource in self._of:
                if (event.new, event.order) == self._of[event.resource]:
                    del self._of[event.resource]
                elif event.reason != "withdrawn":
                    self._end(event.at, event.resource, "relinquished", told)
            told.append(event)
        for resource in released:
            if resource in self._of and market.promised_order(resource) != self._of[resource][1]:
                self._end(at, resource, "relinquished", told)
        return tuple(told)

    def _end(self, at: int, resource: str, reason: Reason, told: list[Occurrence]) -> None:
        """A promise ends, if one stood, and not because it was kept."""
        if resource in self._of:
            tenant, order = self._of.pop(resource)
            told.append(Unpromised(at, tenant, order, resource, reason))
