"""Streams of events: what was said to whom lately, and who listens.

Per tenant the newest messages are kept, so that somebody who was away a moment can resume after
the last sequence number it saw; whoever was away for longer is told to read its state anew. For
the operator the events of the newest commands are kept as they are, and encoded when it listens.
"""

from collections import deque
from collections.abc import Iterator
from typing import Protocol

from laissez.exchange.views import operator_events
from laissez.model import Event, Happened, encode

KEPT_PER_TENANT = 1_000
KEPT_FOR_OPERATOR = 10_000


class Listener(Protocol):
    def push(self, sequence: int, message: bytes) -> None: ...


class Feed:
    """One tenant's stream."""

    __slots__ = ("forgotten", "listeners", "messages")

    def __init__(self, forgotten: int) -> None:
        self.messages: deque[Happened] = deque()
        self.forgotten = forgotten
        self.listeners: set[Listener] = set()

    def add(self, happened: Happened) -> None:
        self.messages.append(happened)
        if len(self.messages) > KEPT_PER_TENANT:
            self.forgotten = self.messages.popleft().sequence
        if self.listeners:
            message = encode(happened)
            for listener in tuple(self.listeners):
                listener.push(happened.sequence, message)

    def after(self, sequence: int) -> Iterator[bytes] | None:
        """What came after a sequence number, None if some of it is forgotten."""
        if sequence < self.forgotten:
            return None
        return (encode(kept) for kept in tuple(self.messages) if kept.sequence > sequence)


class Feeds:
    """All streams. What happened up to `begins_after` was not seen by this process."""

    def __init__(self, begins_after: int) -> None:
        self._begins_after = begins_after
        self._tenants: dict[str, Feed] = {}
        self._recent: deque[tuple[int, int, tuple[Event, ...]]] = deque()
        self._forgotten = begins_after
        self._operators: set[Listener] = set()

    def of(self, tenant: str) -> Feed:
        feed = self._tenants.get(tenant)
        if feed is None:
            feed = self._tenants[tenant] = Feed(self._begins_after)
        return feed

    def publish_all(self, sequence: int, at: int, events: tuple[Event, ...]) -> None:
        """Note what a command did, and tell the operator if it listens."""
        self._recent.append((sequence, at, events))
        if len(self._recent) > KEPT_FOR_OPERATOR:
            self._forgotten = self._recent.popleft()[0]
        if self._operators:
            message = encode(Happened(sequence, at, operator_events(events)))
            for listener in tuple(self._operators):
                listener.push(sequence, message)

    def all_after(self, sequence: int) -> Iterator[bytes] | None:
        if sequence < self._forgotten:
            return None
        return (
            encode(Happened(each, at, operator_events(events)))
            for each, at, events in tuple(self._recent)
            if each > sequence
        )

    def listen(self, tenant: str | None, listener: Listener) -> None:
        (self._operators if tenant is None else self.of(tenant).listeners).add(listener)

    def leave(self, tenant: str | None, listener: Listener) -> None:
        (self._operators if tenant is None else self.of(tenant).listeners).discard(listener)
