"""A request on its way through the exchange: the ticket, and who waits for what becomes of it.

A ticket is under way from when it was taken until it is answered or refused. Meanwhile its key is
known, so that a retry waits for the same answer and does not act again; and an order that is to be
placed counts as one that rests, so that no more are on their way than may.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Protocol

import msgspec

from laissez.exchange.access import Principal
from laissez.exchange.journal import NotDurable
from laissez.exchange.keys import Kept
from laissez.exchange.records import Entry
from laissez.exchange.sequencing import OwnInstruction, record_of
from laissez.model import Instruction, Notice, PlaceOrder, Refused, ServiceCode

CLOCK = ":clock"  # no tenant can be called that


class Target(Protocol):
    """Where a ticket is answered: once, by `answer` or `refuse`, and then by a `flush`."""

    def answer(
        self,
        request_id: int,
        sequence: int,
        at: int,
        events: tuple[Notice, ...],
        repeated: bool,
    ) -> None: ...

    def refuse(self, refused: Refused) -> None: ...

    def flush(self) -> None: ...


class Ticket(msgspec.Struct, gc=False):
    """A request on its way; `name` (author, key) is noted when the key is found to be new."""

    caller: Principal
    do: Instruction
    key: str | None
    request_id: int
    target: Target
    name: tuple[str, str] | None = None


class OwnTicket(msgspec.Struct):
    """The exchange's own; `done` is told when it has been executed, or why it was not."""

    author: str
    do: OwnInstruction
    done: asyncio.Future[None] | None = None


class UnderWay:
    """The tickets that are under way, by what others have to know of them."""

    def __init__(self) -> None:
        self._by_name: dict[tuple[str, str], Ticket] = {}
        self._repeated: dict[tuple[str, str], list[Ticket]] = {}
        self._placing: Counter[str] = Counter()
        self._placing_gangs: Counter[str] = Counter()
        self.repeated_count = 0

    def placing(self, tenant: str) -> int:
        """How many orders a tenant is about to place."""
        return self._placing[tenant]

    def placing_gangs(self, tenant: str) -> int:
        """How many of them are for several at once."""
        return self._placing_gangs[tenant]

    def find(self, name: tuple[str, str]) -> Ticket | None:
        """The ticket that came with a key first."""
        return self._by_name.get(name)

    def add(self, ticket: Ticket) -> None:
        if ticket.name is not None:
            self._by_name[ticket.name] = ticket
        if type(ticket.do) is PlaceOrder:
            self._count(ticket.do, ticket.caller.name, 1)

    def add_repeated(self, name: tuple[str, str], ticket: Ticket) -> None:
        """A ticket that waits for what becomes of the first with its key."""
        self._repeated.setdefault(name, []).append(ticket)
        self.repeated_count += 1

    def end(self, ticket: Ticket) -> tuple[Ticket, ...]:
        """A ticket is under way no longer; it, and those that waited for the same answer."""
        if type(ticket.do) is PlaceOrder:
            self._count(ticket.do, ticket.caller.name, -1)
        name = ticket.name
        if name is None:
            return (ticket,)
        del self._by_name[name]
        if name not in self._repeated:
            return (ticket,)
        repeated = self._repeated.pop(name)
        self.repeated_count -= len(repeated)
        return (ticket, *repeated)

    def _count(self, do: PlaceOrder, tenant: str, more: int) -> None:
        """An order is about to be placed, or is there now, or was refused."""
        for counter in (self._placing, self._placing_gangs) if do.count > 1 else (self._placing,):
            counter[tenant] += more
            if not counter[tenant]:
                del counter[tenant]


def entry_of(ticket: Ticket | OwnTicket, at: int, sequence: int) -> Entry:
    """What is written down of a ticket."""
    if isinstance(ticket, OwnTicket):
        return Entry(ticket.author, record_of(ticket.do, None, at, sequence))
    caller = ticket.caller
    return Entry(caller.name, record_of(ticket.do, caller.tenant, at, sequence), ticket.key)


def is_clocks(ticket: Ticket | OwnTicket) -> bool:
    """Does it let time pass at nobody's expense? What a token or a webhook comes by lets none."""
    return isinstance(ticket, OwnTicket) and ticket.author == CLOCK


def is_same(ticket: Ticket, kept: Kept) -> bool:
    """Is this the instruction that the key was used for?"""
    return record_of(ticket.do, ticket.caller.tenant, kept.at, kept.sequence) == kept.record


def key_reused(request_id: int) -> Refused:
    return Refused(
        request_id,
        ServiceCode.KEY_REUSED,
        "this key was used for something else; use a new key for a new request",
    )


def no_room(request_id: int, closed: ServiceCode | None) -> Refused:
    """Nothing more is taken, now or at all."""
    if closed is not None:
        message = "the service is stopping; retry with the same key when it is back"
        return Refused(request_id, closed, message, 1_000)
    message = "too many requests are waiting; retry with the same key"
    return Refused(request_id, ServiceCode.BUSY, message, 100)


def not_durable(request_id: int, error: BaseException) -> Refused:
    if isinstance(error, NotDurable):
        message = "the journal's disk is full, and nothing was changed; retry with the same key"
    else:
        message = (
            "the journal's disk failed, and whether this was written is not known; retry with "
            "the same key when the service is back"
        )
    return Refused(request_id, ServiceCode.NOT_DURABLE, message, 1_000)
