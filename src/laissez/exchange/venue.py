"""The state that the journal adds up to: a market, the cordons over its topology, and the rights.

`apply` is deterministic: two venues fed the same records are the same venue, and have the same
digest. A cordon is made of market commands, derived here and never journaled themselves: what is
idle under a cordoned scope is withdrawn and kept aside, what falls idle later follows, and a holder
that gives its resource back gives it to the operator, not to the next order. While a resource under
a cordon is held it is traded as ever: price alone never takes it out. What the operator withdraws
by name is gone, cordon or not.

What an entry does is fixed by the version of the rules that were in force when it was written:
`rules`. Entries are executed, and digests compared, under their own version only; a snapshot of an
older one can be restored, and is then a state of this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import ClassVar

import msgspec

from laissez.exchange.records import (
    Cordon,
    EndToken,
    GrantToken,
    PartialAdvance,
    Record,
    StartWebhook,
    StopWebhook,
    Uncordon,
)
from laissez.exchange.rights import Rights
from laissez.market import RULES, Market
from laissez.model import (
    AddResource,
    Advance,
    Code,
    Command,
    Event,
    Rejected,
    Relinquish,
    ServiceCode,
    SetFloor,
    Transferred,
)
from laissez.model.sentences import nothing_under

LeafAttributes = tuple[tuple[str, str], ...]


class _Snapshot(msgspec.Struct):
    market: msgspec.Raw
    cordons: dict[str, dict[str, LeafAttributes]]
    rights: Rights = msgspec.field(default_factory=Rights)


_RIGHTS_RECORDS = (GrantToken, EndToken, StartWebhook, StopWebhook)


class Venue:
    __slots__ = ("cordons", "market", "rights")

    rules: ClassVar[int] = RULES

    def __init__(self) -> None:
        self.market = Market()
        self.cordons: dict[str, dict[str, LeafAttributes]] = {}
        self.rights = Rights()

    def apply(self, record: Record) -> tuple[Event, ...]:
        """Execute one record; everything that happened, in order."""
        if isinstance(record, _RIGHTS_RECORDS):
            self.rights.apply(record)
            return ()
        if isinstance(record, PartialAdvance):
            return self._advance_partly(record.at, record.most)
        if not self.cordons and not isinstance(record, Cordon | Uncordon):
            return self.market.apply(record)
        events = self._pass_time(record.at)
        if events and isinstance(events[-1], Rejected):
            return events
        if isinstance(record, Cordon):
            return events + self._cordon(record)
        if isinstance(record, Uncordon):
            return events + self._uncordon(record)
        return events + self._apply_beside_cordons(record)

    def _pass_time(self, at: int) -> tuple[Event, ...]:
        """Let time pass from one instant at which something falls due to the next.

        What falls idle under a cordon leaves at that instant: a floor that falls further at a
        later one must not find it.
        """
        events: tuple[Event, ...] = ()
        if self.cordons:
            while (due := self.market.next_timer()) is not None and due <= at:
                events += self._followed(self.market.apply(Advance(due)))
        return events + self.market.apply(Advance(at))

    def _advance_partly(self, at: int, most: int) -> tuple[Event, ...]:
        """Let some of what falls due act; beside cordons from instant to instant, as above.

        What a part leaves idle under a cordon leaves in that part, amid its instant: all that is
        left there are ends of holds, and none of them gives anybody what is idle.
        """
        if not self.cordons:
            return self.market.advance_partly(at, most)[0]
        events: list[Event] = []
        while most > 0 and (due := self.market.next_timer()) is not None and due <= at:
            happened, acted = self.market.advance_partly(due, most)
            followed = self._followed(happened)
            events += followed
            most -= acted + len(followed) - len(happened)
        if most > 0:
            events += self.market.apply(Advance(at))
        return tuple(events)

    def _apply_beside_cordons(self, record: Command) -> tuple[Event, ...]:
        if isinstance(record, AddResource) and (scope := self._cordon_over(record.resource)):
            message = f"{scope!r} is cordoned; uncordon it before adding {record.resource!r}"
            return (Rejected(record.at, ServiceCode.CORDONED, message),)
        if isinstance(record, SetFloor) and (above := self._kept_aside_above(record.scope)):
            message = (
                f"{above!r} is a resource that a cordon keeps out, nothing can be below it; "
                "choose another path"
            )
            return (Rejected(record.at, Code.PATH_UNDER_A_RESOURCE, message),)
        if (
            isinstance(record, Relinquish)
            and record.resource in self.market.holdings(record.tenant)
            and self._cordon_over(record.resource)
        ):
            return self._take_out(record.resource)
        return self._followed(self.market.apply(record))

    def _followed(self, events: tuple[Event, ...]) -> tuple[Event, ...]:
        """What happened, and that whatever fell idle under a cordon by it left the market."""
        followed = list(events)
        for event in events:
            if isinstance(event, Transferred) and event.new is None and event.reason != "withdrawn":
                followed += self._take_out_if_idle(event.resource)
        return tuple(followed)

    def _take_out_if_idle(self, resource: str) -> tuple[Event, ...]:
        is_there = bool(self.market.resources(resource))
        if is_there and self.market.owner(resource) is None and self._cordon_over(resource):
            return self._take_out(resource)
        return ()

    def _take_out(self, resource: str) -> tuple[Event, ...]:
        scope = self._cordon_over(resource)
        assert scope is not None
        self.cordons[scope][resource] = tuple(sorted(self.market.attributes(resource).items()))
        return self.market.withdraw_amid(resource)

    def _cordon_over(self, resource: str) -> str | None:
        """The finest cordoned scope that covers a resource."""
        return next((path for path in _upwards(resource) if path in self.cordons), None)

    def _kept_aside_above(self, scope: str) -> str | None:
        """The resource that is kept aside and has this scope below it, if any."""
        for path in _upwards(scope.rpartition("/")[0]):
            if any(path in kept_aside for kept_aside in self.cordons.values()):
                return path
        return None

    def _is_kept_aside_under(self, scope: str) -> bool:
        return any(
            f"{resource}/".startswith(f"{scope}/")
            for kept_aside in self.cordons.values()
            for resource in kept_aside
        )

    def _cordon(self, record: Cordon) -> tuple[Event, ...]:
        scope = record.scope
        present = self.market.resources(scope)
        if not present and scope not in self.cordons and not self._is_kept_aside_under(scope):
            return (Rejected(record.at, Code.UNKNOWN_SCOPE, nothing_under(scope)),)
        self.cordons.setdefault(scope, {})
        events: list[Event] = []
        for resource in present:
            if self.market.owner(resource) is None:
                events += self._take_out(resource)
        return tuple(events)

    def _uncordon(self, record: Uncordon) -> tuple[Event, ...]:
        if record.scope not in self.cordons:
            message = f"{record.scope!r} is not cordoned; the list of floors has all cordons"
            return (Rejected(record.at, Code.UNKNOWN_SCOPE, message),)
        kept_aside = self.cordons.pop(record.scope)
        events: list[Event] = []
        for resource, attributes in kept_aside.items():
            above = self._cordon_over(resource)
            if above is None:
                events += self.market.apply(AddResource(record.at, resource, attributes))
            else:
                self.cordons[above][resource] = attributes
        return tuple(events)

    # The whole state --------------------------------------------------------------------------

    def digest(self) -> str:
        """One hash of the whole state."""
        state = self.market.digest().encode() + msgspec.json.encode(self.cordons)
        if not self.rights.is_empty:
            state += msgspec.json.encode(self.rights)
        return blake2b(state, digest_size=32).hexdigest()

    def snapshot(self) -> bytes:
        market = msgspec.Raw(self.market.snapshot())
        return msgspec.json.encode(_Snapshot(market, self.cordons, self.rights))

    @classmethod
    def restore(cls, data: bytes) -> Venue:
        snapshot = msgspec.json.decode(data, type=_Snapshot)
        venue = cls()
        venue.market = Market.restore(bytes(snapshot.market))
        venue.cordons = snapshot.cordons
        venue.rights = snapshot.rights
        return venue


def _upwards(path: str) -> Iterator[str]:
    """A path and those above it, from the finest."""
    while path:
        yield path
        path = path.rpartition("/")[0]
