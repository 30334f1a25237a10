"""The state that the journal adds up to: a market, the cordons over its topology, and the rights.

`apply` is deterministic: two venues fed the same records are the same venue, and have the same
digest. A cordon is made of market commands, derived here and never journaled themselves: what is
idle under a cordoned scope is withdrawn and kept aside, what falls idle later follows, and a holder
that gives its resource back gives it to the operator, not to the next order. While a resource under
a cordon is held it is traded as ever: price alone never takes it out. What the operator withdraws
by name is gone, cordon or not.

With a deadline a cordon is a drain (`drains`). Beside cordons there are the names of levels, by
which orders say within what (`levels`), and what goes together (`together`).

What an entry does is fixed by the version of the rules that were in force when it was written:
`rules`. Entries are executed, and digests compared, under their own version only; a snapshot of an
older one can be restored, and is then a state of this one.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import ClassVar

import msgspec

from laissez.exchange.drains import Drains, upwards
from laissez.exchange.levels import LevelNames, in_names, names_within, wrong_levels
from laissez.exchange.records import (
    Cordon,
    EndToken,
    GrantToken,
    GuardNewTree,
    PartialAdvance,
    PlaceNamed,
    Record,
    SetLevels,
    StartWebhook,
    StopWebhook,
    Uncordon,
    VenueRecord,
)
from laissez.exchange.rights import Rights
from laissez.exchange.together import Together, TogetherState
from laissez.market import RULES, Market
from laissez.market.checks import CommandRefused
from laissez.model import (
    AddResource,
    Advance,
    Called,
    Code,
    Command,
    Event,
    Place,
    Rejected,
    Relinquish,
    ServiceCode,
    SetFloor,
    SetGuard,
    Transferred,
    Uncalled,
)
from laissez.model.sentences import nothing_under

LeafAttributes = tuple[tuple[str, str], ...]


class _Snapshot(msgspec.Struct):
    market: msgspec.Raw
    cordons: dict[str, dict[str, LeafAttributes]]
    rights: Rights = msgspec.field(default_factory=Rights)
    levels: LevelNames = {}
    guarded: dict[str, None] = {}
    drains: dict[str, int] = {}
    together: TogetherState = msgspec.field(default_factory=TogetherState)


_RIGHTS_RECORDS = (GrantToken, EndToken, StartWebhook, StopWebhook)
_VENUE_RECORDS = (PlaceNamed, SetLevels, GuardNewTree, Cordon, Uncordon)
NO_BOUND = 1 << 62


class Venue:
    __slots__ = (
        "cordons",
        "drains",
        "guarded",
        "levels",
        "market",
        "released",
        "rights",
        "together",
    )

    rules: ClassVar[int] = RULES

    def __init__(self) -> None:
        self.market = Market()
        self.cordons: dict[str, dict[str, LeafAttributes]] = {}
        self.rights = Rights()
        self.levels: LevelNames = {}
        self.guarded: dict[str, None] = {}  # trees that had a guard before they had a resource
        self.drains = Drains()
        self.together = Together()
        self.released: list[str] = []  # for whoever tells; no part of the state

    @property
    def _follows(self) -> bool:
        """Is there anything that has to follow what happens in the market?"""
        return bool(self.cordons) or not self.together.is_empty

    def next_timer(self) -> int | None:
        """The next instant at which something falls due, in the market or a drain."""
        due, drained = self.market.next_timer(), self.drains.next()
        return due if drained is None or (due is not None and due <= drained) else drained

    def count_due(self, at: int, enough: int) -> int:
        """How many things fall due by an instant; more than enough are not counted."""
        due = self.market.count_due(at, enough)
        for scope in self.drains.due(at):
            due += len(self._held_under(scope))
        return min(due, enough)

    def is_tree(self, tree: str) -> bool:
        """Has there been a resource in it?"""
        return self.market.check_visible("", tree) is None

    def trees_without_commitment(self) -> tuple[str, ...]:
        """Where nobody pays for winning something and leaving again."""
        bound = {guard.tree for guard in self.market.guards() if guard.commit}
        return tuple(sorted(self.market.visible("") - bound))

    def take_released(self) -> list[str]:
        """What was released since this was last asked because what it goes together with went."""
        released, self.released = self.released, []
        return released

    def apply(self, record: Record) -> tuple[Event, ...]:
        """Execute one record; everything that happened, in order."""
        events = self._apply(record)
        if _is_refused(events) and isinstance(record, Place | PlaceNamed) and record.count > 1:
            refused = events[-1]
            assert isinstance(refused, Rejected)
            return (*events[:-1], in_names(self.levels, record.scope, record.within, refused))
        return events

    def _apply(self, record: Record) -> tuple[Event, ...]:
        if isinstance(record, _RIGHTS_RECORDS):
            self.rights.apply(record)
            return ()
        if isinstance(record, PartialAdvance):
            return self._advance_partly(record.at, record.most)
        if isinstance(record, _VENUE_RECORDS):
            events = self._pass_time(record.at)
            return events if _is_refused(events) else events + self._carry_out(record)
        if not self._follows and not isinstance(record, SetGuard):
            return self.market.apply(record)
        due = self.market.next_timer()
        if not self.cordons and (due is None or due > record.at):
            return self._apply_beside_cordons(record)
        events = self._pass_time(record.at)
        return events if _is_refused(events) else events + self._apply_beside_cordons(record)

    def _carry_out(self, record: VenueRecord) -> tuple[Event, ...]:
        """What the market knows nothing of."""
        if isinstance(record, Cordon):
            return self._cordon(record)
        if isinstance(record, Uncordon):
            return self._uncordon(record)
        if isinstance(record, SetLevels):
            return self._set_levels(record)
        if isinstance(record, GuardNewTree):
            return self._guard_new_tree(record)
        return self._place(record)

    def _pass_time(self, at: int) -> tuple[Event, ...]:
        """Let time pass from one instant at which something falls due to the next.

        What falls idle under a cordon leaves at that instant: a floor that falls further at a
        later one must not find it.
        """
        events: tuple[Event, ...] = ()
        if self._follows:
            while (due := self.next_timer()) is not None and due <= at:
                events += self._followed(self.market.apply(Advance(due)))
                events += self._drain(due, NO_BOUND)
        return events + self.market.apply(Advance(at))

    def _advance_partly(self, at: int, most: int) -> tuple[Event, ...]:
        """Let some of what falls due act; beside what follows from instant to instant, as above.

        What a part leaves idle under a cordon leaves in that part, amid its instant: all that is
        left there are ends of holds, and none of them gives anybody what is idle.
        """
        if not self._follows:
            return self.market.advance_partly(at, most)[0]
        events: list[Event] = []
        while most > 0 and (due := self.next_timer()) is not None and due <= at:
            happened, acted = self.market.advance_partly(due, most)
            followed = self._followed(happened)
            events += followed
            most -= acted + len(followed) - len(happened)
            if most > 0:
                drained = self._drain(due, most)
                events += drained
                most -= len(drained)
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
            and self._is_taken_out_when_released(record.resource)
        ):
            return self._followed(self._take_out(record.resource, is_given_up=True))
        if isinstance(record, SetGuard):
            return self._set_guard(record)
        gives_promise_back = (
            isinstance(record, Relinquish)
            and self.together.binds(record.tenant, record.resource)
            and record.resource not in self.market.holdings(record.tenant)
        )
        events = self.market.apply(record)
        if gives_promise_back and not _is_refused(events):
            assert isinstance(record, Relinquish)
            self.together.lose(record.tenant, record.resource)
        return self._followed(events)

    def _followed(self, events: tuple[Event, ...]) -> tuple[Event, ...]:
        """What happened, and what follows from it: that what fell idle under a cordon left the
        market, and what goes together went.

        After a part, releasing something lets the rest of its instant act: that is followed, too.
        """
        followed = list(events)
        seen = 0
        while True:
            while seen < len(followed):
                event = followed[seen]
                seen += 1
                self.together.note(event)
                if (
                    isinstance(event, Transferred)
                    and event.new is None
                    and event.reason != "withdrawn"
                ):
                    followed += self._take_out_if_idle(event.resource)
                elif self.drains.until:
                    followed += self._tell_again(event)
            self.together.note_end()
            release = self.together.next_release()
            if release is None:
                return tuple(followed)
            followed += self._release(*release)

    def _tell_again(self, event: Event) -> tuple[Event, ...]:
        """Whoever comes to hold something under a drain is told of it."""
        told = self.drains.told_again(event)
        return told if told and self.market.owner(told[0].resource) == told[0].tenant else ()

    def _release(self, tenant: str, resource: str) -> tuple[Event, ...]:
        """Release what is held, or promised, for somebody who need not be there."""
        if not self.market.resources(resource):
            return ()
        is_held = self.market.owner(resource) == tenant
        if is_held and self._is_taken_out_when_released(resource):
            return self._take_out(resource, is_given_up=True)
        self.released.append(resource)
        events = self.market.apply(Relinquish(self.market.now, tenant, resource))
        return tuple(event for event in events if not isinstance(event, Rejected))

    def _take_out_if_idle(self, resource: str) -> tuple[Event, ...]:
        is_there = bool(self.market.resources(resource))
        if is_there and self.market.owner(resource) is None and self._cordon_over(resource):
            return self._take_out(resource)
        return ()

    def _is_taken_out_when_released(self, resource: str) -> bool:
        """Under a cordon nobody wins what is given up, but what is promised is kept."""
        return bool(self._cordon_over(resource)) and self.market.promised_order(resource) is None

    def _take_out(self, resource: str, *, is_given_up: bool = False) -> tuple[Event, ...]:
        scope = self._cordon_over(resource)
        assert scope is not None
        self.cordons[scope][resource] = tuple(sorted(self.market.attributes(resource).items()))
        return self.market.withdraw_amid(resource, is_given_up=is_given_up)

    def _cordon_over(self, resource: str) -> str | None:
        """The finest cordoned scope that covers a resource."""
        return next((path for path in upwards(resource) if path in self.cordons), None)

    def _kept_aside_above(self, scope: str) -> str | None:
        """The resource that is kept aside and has this scope below it, if any."""
        for path in upwards(scope.rpartition("/")[0]):
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
        if record.deadline is not None and record.deadline <= record.at:
            message = "the deadline of a drain lies in the past; give a later one, or none"
            return (Rejected(record.at, ServiceCode.BAD_DEADLINE, message),)
        before = {resource: self.drains.over(resource) for resource in present}
        self.cordons.setdefault(scope, {})
        if record.deadline is not None:
            self.drains.until[scope] = record.deadline
        events: list[Event] = []
        for resource in present:
            owner = self.market.owner(resource)
            if owner is None:
                events += self._take_out(resource)
            elif (until := self.drains.over(resource)) is not None and until != before[resource]:
                if before[resource] is None:
                    events.append(Called(record.at, owner, resource, until, "withdrawn"))
                else:
                    events += self._call_anew(record.at, resource)
        return tuple(events)

    def _held_under(self, scope: str) -> list[str]:
        market = self.market
        return [each for each in market.resources(scope) if market.owner(each) is not None]

    def _drain(self, at: int, most: int) -> tuple[Event, ...]:
        """Take out what is still held at a deadline, about so much of it as there may be events;
        what is left is due at once."""
        events: list[Event] = []
        for scope in self.drains.due(at):
            for resource in self._held_under(scope):
                if len(events) >= most:
                    return tuple(events)
                is_there = bool(self.market.resources(resource))  # or it went with another
                if is_there and self.market.owner(resource) is not None:
                    events += self._followed(self._take_out(resource))
            del self.drains.until[scope]
        return tuple(events)

    def _uncordon(self, record: Uncordon) -> tuple[Event, ...]:
        if record.scope not in self.cordons:
            message = f"{record.scope!r} is not cordoned; the list of floors has all cordons"
            return (Rejected(record.at, Code.UNKNOWN_SCOPE, message),)
        kept_aside = self.cordons.pop(record.scope)
        told = self._lift_drain(record)
        events: list[Event] = []
        for resource, attributes in kept_aside.items():
            above = self._cordon_over(resource)
            if above is None:
                events += self.market.apply(AddResource(record.at, resource, attributes))
            else:
                self.cordons[above][resource] = attributes
        return (*told, *self._followed(tuple(events)))

    def _lift_drain(self, record: Uncordon) -> list[Event]:
        """Tell those who were to leave that they need not, or why they still have to."""
        events: list[Event] = []
        if self.drains.until.pop(record.scope, None) is not None:
            for resource in self._held_under(record.scope):
                events += self._call_anew(record.at, resource)
        return events

    def _call_anew(self, at: int, resource: str) -> tuple[Event, ...]:
        """A holder's deadline is another than it was told, or none."""
        holding = self.market.holding(resource)
        assert holding is not None
        until, reason = holding.called_until, holding.called_for
        drained = self.drains.over(resource)
        if drained is not None and (until is None or drained < until):
            until, reason = drained, "withdrawn"
        over = Uncalled(at, holding.tenant, resource)
        if until is None or reason is None:
            return (over,)
        return over, Called(at, holding.tenant, resource, until, reason)

    # Trees, and orders by the names of their levels -------------------------------------------

    def _set_levels(self, record: SetLevels) -> tuple[Event, ...]:
        if (wrong := wrong_levels(record.tree, record.levels)) is not None:
            return (Rejected(record.at, *wrong),)
        if record.levels:
            self.levels[record.tree] = record.levels
        else:
            self.levels.pop(record.tree, None)
        return ()

    def _guard_new_tree(self, record: GuardNewTree) -> tuple[Event, ...]:
        is_guarded = any(guard.tree == record.tree for guard in self.market.guards())
        if is_guarded or self.is_tree(record.tree) or record.tree in self.guarded:
            return ()
        notice, commit = record.notice, record.commit
        events = self.market.apply(SetGuard(record.at, record.tree, notice=notice, commit=commit))
        return tuple(event for event in events if not isinstance(event, Rejected))

    def _set_guard(self, record: SetGuard) -> tuple[Event, ...]:
        events = self._followed(self.market.apply(record))
        if not self.is_tree(record.tree) and not _is_refused(events):
            self.guarded[record.tree] = None
        return events

    def _place(self, record: PlaceNamed) -> tuple[Event, ...]:
        try:
            within = names_within(self.levels, record.scope, record.within)
        except CommandRefused as refused:
            return (Rejected(record.at, refused.code, refused.message),)
        place = Place(
            record.at,
            record.tenant,
            record.order,
            record.scope,
            record.price,
            record.limit,
            record.expires,
            record.count,
            within,
        )
        if record.together and record.count == 1:
            message = "together is for several resources at once; give a count of 2 or more"
            return (Rejected(record.at, Code.BAD_COUNT, message),)
        events = self.market.apply(place)
        if record.together and not _is_refused(events):
            self.together.expect(record.order)
        return self._followed(events)

    # The whole state --------------------------------------------------------------------------

    def digest(self) -> str:
        """One hash of the whole state."""
        state = self.market.digest().encode() + msgspec.json.encode(self.cordons)
        if not self.rights.is_empty:
            state += msgspec.json.encode(self.rights)
        if self.levels or self.guarded or self._follows:
            parts = (self.levels, self.guarded, self.drains.until, self.together.state)
            state += msgspec.json.encode(parts)
        return blake2b(state, digest_size=32).hexdigest()

    def snapshot(self) -> bytes:
        market = msgspec.Raw(self.market.snapshot())
        return msgspec.json.encode(
            _Snapshot(
                market,
                self.cordons,
                self.rights,
                self.levels,
                self.guarded,
                self.drains.until,
                self.together.state,
            )
        )

    @classmethod
    def restore(cls, data: bytes) -> Venue:
        snapshot = msgspec.json.decode(data, type=_Snapshot)
        venue = cls()
        venue.market = Market.restore(bytes(snapshot.market))
        venue.cordons = snapshot.cordons
        venue.rights = snapshot.rights
        venue.levels = snapshot.levels
        venue.guarded = snapshot.guarded
        venue.drains = Drains(snapshot.drains)
        venue.together = Together(snapshot.together)
        return venue


def _is_refused(events: tuple[Event, ...]) -> bool:
    return bool(events) and isinstance(events[-1], Rejected)
