"""A journaled entry takes effect: the venue changes, and what everybody is to be told is noted.

The same code runs live and when a journal is read back, so that a restart ends with the same
market, the same remembered keys and the same streams as if nothing had happened.
"""

from __future__ import annotations

from collections import deque

from laissez.exchange.feeds import Feeds
from laissez.exchange.keys import Kept, Keys
from laissez.exchange.promises import StandingPromises
from laissez.exchange.records import Entry
from laissez.exchange.venue import Venue
from laissez.exchange.views import notices, operator_events, own_refusal
from laissez.model import (
    Called,
    Handover,
    Happened,
    HolderCalled,
    HolderPromised,
    HolderUncalled,
    HolderUnpromised,
    Notice,
    Occurrence,
    Posted,
    Promised,
    Rejected,
    Relinquish,
    Transferred,
    Uncalled,
    Unpromised,
)

HANDOVERS_KEPT = 10_000
NOTHING: tuple[Notice, ...] = ()
POSTED = (Transferred, Called, Promised, Unpromised, Uncalled)
POSTED_FIRST = (Called, Unpromised, Uncalled)


class Execution:
    def __init__(self, venue: Venue, sequence: int, keys: Keys) -> None:
        self.venue = venue
        self.sequence = sequence
        self.keys = keys
        self.feeds = Feeds(sequence)
        self.handovers: deque[Posted] = deque()
        self.handovers_forgotten = sequence
        self._promises = StandingPromises(venue.market)

    def execute(self, entry: Entry) -> tuple[Notice, ...]:
        """Apply the next entry of the journal; what its author is told."""
        self.sequence = sequence = self.sequence + 1
        record, author = entry.do, entry.author
        at = record.at
        happened = self.venue.apply(record)
        released = self.venue.take_released()
        if isinstance(record, Relinquish):
            released.append(record.resource)
        events = self._promises.follow(self.venue.market, at, happened, released)
        if events:
            answer = self._publish(sequence, at, author, events)
        else:
            answer = NOTHING
        if entry.key is not None:
            self.keys.remember(author, entry.key, Kept(sequence, at, record, answer))
        return answer

    def _publish(
        self, sequence: int, at: int, author: str, events: tuple[Occurrence, ...]
    ) -> tuple[Notice, ...]:
        """Note who learns what; the part of it that answers the author."""
        answer = NOTHING
        for tenant, told in notices(self.venue.market, events).items():
            if tenant == author:
                answer = told
            self.feeds.of(tenant).add(Happened(sequence, at, told))
        self.feeds.publish_all(sequence, at, events)
        if len(events) > 1 or type(events[0]) in POSTED_FIRST:
            self._note_handovers(sequence, events)
        if ":" in author:  # an operator, who sees everything
            return operator_events(events)
        if type(events[-1]) is Rejected:
            answer = (*answer, own_refusal(events[-1], author))
        return answer

    def _note_handovers(self, sequence: int, events: tuple[Occurrence, ...]) -> None:
        for event in events:
            if isinstance(event, POSTED):
                self.handovers.append(self._posted(sequence, event))
                if len(self.handovers) > HANDOVERS_KEPT:
                    self.handovers_forgotten = self.handovers.popleft().sequence

    def _posted(
        self, sequence: int, event: Transferred | Called | Promised | Unpromised | Uncalled
    ) -> Posted:
        """What the operator's systems are told: who holds what, and who has to leave it."""
        at, resource = event.at, event.resource
        if isinstance(event, Promised):
            return HolderPromised(sequence, at, resource, event.tenant, event.until)
        if isinstance(event, Unpromised):
            return HolderUnpromised(sequence, at, resource, event.tenant, event.reason)
        if isinstance(event, Uncalled):
            return HolderUncalled(sequence, at, resource, event.tenant)
        market = self.venue.market
        attributes = market.attributes(resource) if market.resources(resource) else {}
        if isinstance(event, Called):
            tenant, until, reason = event.tenant, event.until, event.reason
            return HolderCalled(sequence, at, resource, tenant, until, reason, attributes)
        return Handover(sequence, at, resource, event.old, event.new, event.reason, attributes)
