"""Streams of events: what was said to whom lately, and who listens.

Per tenant the newest messages are kept, so that somebody who was away a moment can resume after
the last sequence number it saw; whoever was away for longer is told to read its state anew. For
the operator the events of the newest commands are kept, and encoded when it listens.

A message may hold one event or fifty thousand, so what is kept is bounded by events as well: for
the operator, and for all tenants together. When these have too many, the tenant that has most
forgets the older half of its own; nobody's stream grows at the cost of one that is shorter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice, takewhile
from typing import Protocol, TypeVar

from laissez.exchange.views import operator_events
from laissez.model import Happened, Notice, Occurrence, encode

KEPT_PER_TENANT = 1_000
KEPT_FOR_OPERATOR = 10_000
EVENTS_KEPT_OF_TENANTS = 200_000
EVENTS_KEPT_FOR_OPERATOR = 200_000

T = TypeVar("T")
SaidToAll = tuple[int, int, tuple[Notice, ...]]


class Listener(Protocol):
    def push(self, sequence: int, message: bytes) -> None: ...


class TenantFeed:
    """One tenant's stream."""

    __slots__ = ("_feeds", "events", "forgotten", "listeners", "messages")

    def __init__(self, feeds: Feeds, forgotten: int) -> None:
        self._feeds = feeds
        self.messages: deque[Happened] = deque()
        self.events = 0
        self.forgotten = forgotten
        self.listeners: set[Listener] = set()

    def add(self, happened: Happened) -> None:
        """Note what a command meant for this tenant, and tell it if it listens."""
        messages, feeds = self.messages, self._feeds
        messages.append(happened)
        more = len(happened.events)
        if len(messages) > KEPT_PER_TENANT:
            oldest = messages.popleft()
            self.forgotten = oldest.sequence
            more -= len(oldest.events)
        self.events += more
        feeds.events_of_tenants += more
        if feeds.events_of_tenants > EVENTS_KEPT_OF_TENANTS:
            feeds.make_room()
        if self.listeners:
            message = encode(happened)
            for listener in tuple(self.listeners):
                listener.push(happened.sequence, message)

    def forget_half(self) -> int:
        """Forget the oldest messages; how many events that were."""
        before = self.events
        while self.messages and self.events > before // 2:
            oldest = self.messages.popleft()
            self.forgotten = oldest.sequence
            self.events -= len(oldest.events)
        return before - self.events


class Feeds:
    """All streams. What happened up to `begins_after` was not seen by this process."""

    def __init__(self, begins_after: int) -> None:
        self._begins_after = begins_after
        self._tenants: dict[str, TenantFeed] = {}
        self.events_of_tenants = 0
        self._recent: deque[SaidToAll] = deque()
        self._recent_events = 0
        self._forgotten = begins_after
        self._operators: set[Listener] = set()

    def of(self, tenant: str) -> TenantFeed:
        feed = self._tenants.get(tenant)
        if feed is None:
            feed = self._tenants[tenant] = TenantFeed(self, self._begins_after)
        return feed

    def make_room(self) -> None:
        """Too many events are kept: the tenant that has most of them forgets half of its own."""
        longest = max(self._tenants.values(), key=lambda feed: feed.events)
        self.events_of_tenants -= longest.forget_half()

    def publish_all(self, sequence: int, at: int, events: tuple[Occurrence, ...]) -> None:
        """Note what a command did, and tell the operator if it listens."""
        # An explanation that is kept would keep alive all that it could be made from.
        told = operator_events(events)
        recent = self._recent
        recent.append((sequence, at, told))
        self._recent_events += len(events)
        while len(recent) > KEPT_FOR_OPERATOR or self._recent_events > EVENTS_KEPT_FOR_OPERATOR:
            self._forgotten, _, forgotten = recent.popleft()
            self._recent_events -= len(forgotten)
        if self._operators:
            message = _told((sequence, at, told))
            for listener in tuple(self._operators):
                listener.push(sequence, message)

    def keeps(self, tenant: str | None, sequence: int) -> bool:
        """Is all still here that came after a sequence number? The operator's for no tenant."""
        return sequence >= (self._forgotten if tenant is None else self.of(tenant).forgotten)

    def piece(self, tenant: str | None, after: int, most: int) -> Iterator[tuple[int, bytes]]:
        """The first messages after a sequence number, at most so many, each with its own."""
        if tenant is None:
            for said in _first(self._recent, after, most, lambda each: each[0]):
                yield said[0], _told(said)
        else:
            for happened in _first(self.of(tenant).messages, after, most, lambda h: h.sequence):
                yield happened.sequence, encode(happened)

    def listen(self, tenant: str | None, listener: Listener) -> None:
        (self._operators if tenant is None else self.of(tenant).listeners).add(listener)

    def leave(self, tenant: str | None, listener: Listener) -> None:
        (self._operators if tenant is None else self.of(tenant).listeners).discard(listener)


def _told(said: SaidToAll) -> bytes:
    sequence, at, events = said
    return encode(Happened(sequence, at, events))


def _first(kept: deque[T], after: int, most: int, sequence: Callable[[T], int]) -> list[T]:
    newer = sum(1 for _ in takewhile(lambda each: sequence(each) > after, reversed(kept)))
    begin = len(kept) - newer
    return list(islice(kept, begin, begin + most))
