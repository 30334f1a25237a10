"""The state that the journal adds up to: a market, and the cordons over its topology.

`apply` is deterministic: two venues fed the same records are the same venue, and have the same
digest. A cordon is made of market commands, derived here and never journaled themselves: what is
idle under a cordoned scope is withdrawn and kept aside, what falls idle later follows, and a
holder that gives its resource back gives it to the operator, not to the next order. While a
resource under a cordon is held it is traded as ever: price alone never takes it out.
"""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from laissez.exchange.records import Cordon, Record, Uncordon
from laissez.market import Market
from laissez.model import (
    AddResource,
    Advance,
    Code,
    Event,
    Rejected,
    Relinquish,
    ServiceCode,
    Transferred,
    Withdraw,
)

Attributes = tuple[tuple[str, str], ...]


class _Snapshot(msgspec.Struct):
    market: msgspec.Raw
    cordons: dict[str, dict[str, Attributes]]


class Venue:
    __slots__ = ("cordons", "market")

    def __init__(self) -> None:
        self.market = Market()
        self.cordons: dict[str, dict[str, Attributes]] = {}

    def apply(self, record: Record) -> tuple[Event, ...]:
        """Execute one record; everything that happened, in order."""
        if isinstance(record, Cordon):
            return self._cordon(record)
        if isinstance(record, Uncordon):
            return self._uncordon(record)
        if not self.cordons:
            return self.market.apply(record)
        return self._apply_beside_cordons(record)

    def _apply_beside_cordons(self, record: Record) -> tuple[Event, ...]:
        assert not isinstance(record, Cordon | Uncordon)
        if isinstance(record, AddResource) and (scope := self._cordon_over(record.resource)):
            return (
                *self.market.apply(Advance(record.at)),
                Rejected(
                    record.at,
                    ServiceCode.CORDONED,
                    f"{scope!r} is cordoned; uncordon it before adding {record.resource!r}",
                ),
            )
        if isinstance(record, Relinquish) and self._cordon_over(record.resource):
            events = self.market.apply(Advance(record.at))
            if record.resource in self.market.holdings(record.tenant):
                events += self._take_out(record.at, record.resource)
            else:
                events += self.market.apply(record)
        else:
            events = self.market.apply(record)
        for event in events:
            if isinstance(event, Transferred) and event.new is None and event.reason != "withdrawn":
                events += self._take_out_if_idle(record.at, event.resource)
        return events

    def _take_out_if_idle(self, at: int, resource: str) -> tuple[Event, ...]:
        is_there = bool(self.market.resources(resource))
        if is_there and self.market.owner(resource) is None and self._cordon_over(resource):
            return self._take_out(at, resource)
        return ()

    def _take_out(self, at: int, resource: str) -> tuple[Event, ...]:
        scope = self._cordon_over(resource)
        assert scope is not None
        self.cordons[scope][resource] = tuple(sorted(self.market.attributes(resource).items()))
        return self.market.apply(Withdraw(at, resource))

    def _cordon_over(self, resource: str) -> str | None:
        """The finest cordoned scope that covers a resource."""
        path = resource
        while path:
            if path in self.cordons:
                return path
            path = path.rpartition("/")[0]
        return None

    def _cordon(self, record: Cordon) -> tuple[Event, ...]:
        events = self.market.apply(Advance(record.at))
        if events and isinstance(events[-1], Rejected):
            return events
        present = self.market.resources(record.scope)
        if not present and record.scope not in self.cordons:
            message = f"there is no resource under {record.scope!r}; give a scope that has some"
            return (*events, Rejected(record.at, Code.UNKNOWN_SCOPE, message))
        self.cordons.setdefault(record.scope, {})
        for resource in present:
            if self.market.owner(resource) is None:
                events += self._take_out(record.at, resource)
        return events

    def _uncordon(self, record: Uncordon) -> tuple[Event, ...]:
        events = self.market.apply(Advance(record.at))
        if events and isinstance(events[-1], Rejected):
            return events
        if record.scope not in self.cordons:
            message = f"{record.scope!r} is not cordoned; see the list of cordons"
            return (*events, Rejected(record.at, Code.UNKNOWN_SCOPE, message))
        kept_aside = self.cordons.pop(record.scope)
        for resource, attributes in kept_aside.items():
            above = self._cordon_over(resource)
            if above is None:
                events += self.market.apply(AddResource(record.at, resource, attributes))
            else:
                self.cordons[above][resource] = attributes
        return events

    # The whole state --------------------------------------------------------------------------

    def digest(self) -> str:
        """One hash of the whole state."""
        cordons = msgspec.json.encode(self.cordons, order="sorted")
        return blake2b(self.market.digest().encode() + cordons, digest_size=32).hexdigest()

    def snapshot(self) -> bytes:
        return msgspec.json.encode(_Snapshot(msgspec.Raw(self.market.snapshot()), self.cordons))

    @classmethod
    def restore(cls, data: bytes) -> Venue:
        snapshot = msgspec.json.decode(data, type=_Snapshot)
        venue = cls()
        venue.market = Market.restore(bytes(snapshot.market))
        venue.cordons = snapshot.cordons
        return venue
