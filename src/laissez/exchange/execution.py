"""A journaled entry takes effect: the venue changes, and what everybody is to be told is noted.

The same code runs live and when a journal is read back, so that a restart ends with the same
market, the same remembered keys and the same streams as if nothing had happened.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import msgspec

from laissez.exchange.feeds import Feeds
from laissez.exchange.keys import Kept, Keys
from laissez.exchange.records import Entry
from laissez.exchange.venue import Venue
from laissez.exchange.views import notices, operator_events
from laissez.model import Event, Handover, Rejected, Transferred
from laissez.model.message import Message
from laissez.model.wire import encode_all

HANDOVERS_KEPT = 10_000
NOTHING = msgspec.Raw(b"[]")


class _Happened(Message, frozen=True, tag="Happened"):
    """`Happened`, with events that are encoded already."""

    sequence: int
    at: int
    events: msgspec.Raw


class Executed(NamedTuple):
    """One entry's effect; `answer` is what its author is told, encoded."""

    sequence: int
    at: int
    answer: msgspec.Raw
    refused: bool


class Execution:
    def __init__(self, venue: Venue, sequence: int, keys: Keys) -> None:
        self.venue = venue
        self.sequence = sequence
        self.keys = keys
        self.feeds = Feeds(sequence)
        self.handovers: deque[Handover] = deque(maxlen=HANDOVERS_KEPT)

    def execute(self, entry: Entry) -> Executed:
        """Apply the next entry of the journal."""
        self.sequence = sequence = self.sequence + 1
        record, author = entry.do, entry.author
        at = record.at
        events = self.venue.apply(record)
        if events:
            answer = self._publish(sequence, at, author, events)
        else:
            answer = NOTHING
        if entry.key is not None:
            self.keys.remember(author, entry.key, sequence)
            self.keys.keep(author, entry.key, Kept(sequence, at, record, answer))
        return Executed(sequence, at, answer, bool(events) and type(events[-1]) is Rejected)

    def _publish(
        self, sequence: int, at: int, author: str, events: tuple[Event, ...]
    ) -> msgspec.Raw:
        """Note who learns what; the part of it that answers the author."""
        answer = NOTHING
        told = notices(self.venue.market, events)
        for tenant, own in told.items():
            encoded = msgspec.Raw(encode_all(own))
            if tenant == author:
                answer = encoded
            self.feeds.of(tenant).add(sequence, encode_happened(sequence, at, encoded))
        self.feeds.publish_all(sequence, at, events)
        if len(events) > 1:
            self._note_handovers(sequence, events)
        if ":" in author:  # an operator, who sees everything
            return msgspec.Raw(encode_all(operator_events(events)))
        if type(events[-1]) is Rejected:
            answer = msgspec.Raw(encode_all([*told.get(author, ()), events[-1]]))
        return answer

    def _note_handovers(self, sequence: int, events: tuple[Event, ...]) -> None:
        market = self.venue.market
        for event in events:
            if type(event) is Transferred:
                resource = event.resource
                attributes = market.attributes(resource) if market.resources(resource) else {}
                self.handovers.append(
                    Handover(
                        sequence, event.at, resource, event.old, event.new, event.reason, attributes
                    )
                )


_encoder = msgspec.json.Encoder()


def encode_happened(sequence: int, at: int, events: msgspec.Raw) -> bytes:
    return _encoder.encode(_Happened(sequence, at, events))
