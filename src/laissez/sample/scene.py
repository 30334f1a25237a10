"""What the screen shows, gathered from what the operator is told.

Owners, rates and the list of what just moved follow from the stream of events; what a stream does
not carry (rates that moved because somebody else's order came or went, bills) is asked for once a
second.
"""

from __future__ import annotations

from collections import deque

from laissez.client import AsyncClient
from laissez.client.money import show_rate
from laissez.model import (
    Code,
    FloorSet,
    Happened,
    Notice,
    Rejected,
    Resource,
    Status,
    TenantSummary,
    Transferred,
)

NEWS_KEPT = 40

_REASONS = {
    "idle": "it was free",
    "outbid": "a bid passed the holder's limit",
    "relinquished": "the holder gave it back",
    "limit": "the holder lowered its limit below the rate",
    "floor": "the floor passed the holder's limit",
    "withdrawn": "the operator took it out",
}

# What a tenant meets with when the market was faster: its order has just been filled, its resource
# just lost. That was told when it happened.
_TOO_LATE = frozenset((Code.UNKNOWN_ORDER, Code.NOT_THE_HOLDER))


class MarketScene:
    """The market as it was last seen."""

    def __init__(self) -> None:
        self.resources: tuple[Resource, ...] = ()
        self.tenants: tuple[TenantSummary, ...] = ()
        self.status: Status | None = None
        self.news: deque[tuple[int, str]] = deque(maxlen=NEWS_KEPT)
        self.moves = 0

    def hear(self, happened: Happened) -> None:
        """Something happened; whatever is worth a line gets one."""
        for event in happened.events:
            sentence = sentence_of(event)
            if sentence is not None:
                self.news.appendleft((event.at, sentence))
            if isinstance(event, Transferred):
                self.moves += 1

    async def look(self, operator: AsyncClient) -> None:
        """Ask for what the stream does not carry."""
        self.resources = await operator.resources()
        self.tenants = await operator.tenants()
        self.status = await operator.status()


def sentence_of(event: Notice) -> str | None:
    """What moved and why, in one line; None for what moves nothing."""
    match event:
        case Transferred(old=old, new=new, resource=resource, reason=reason):
            if old is None:
                return f"{new} takes {resource}: {_REASONS[reason]}"
            if new is None:
                return f"{old} leaves {resource}: {_REASONS[reason]}"
            if old == new:
                return f"{old} keeps {resource} with a new limit"
            return f"{resource} goes from {old} to {new}: {_REASONS[reason]}"
        case FloorSet(scope=scope, floor=floor):
            return f"the floor of {scope} is {show_rate(floor)}"
        case Rejected(code=code, message=message) if code not in _TOO_LATE:
            return f"refused ({code}): {message}"
        case _:
            return None
