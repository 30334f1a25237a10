"""Whoever asks over HTTP: one request, one outcome.

The reception answers a caller at once or when the change is durable; here the answer resolves a
future that the request's handler waits for. A client that goes away cancels the future, and an
answer to a cancelled future is dropped: the change itself stands, as the journal says.
"""

from __future__ import annotations

import asyncio

from laissez.exchange.access import Principal
from laissez.model import (
    Administered,
    Notice,
    Refused,
    Rejected,
    Request,
    ServiceCode,
    Subscribe,
    Told,
)
from laissez.model.message import Message
from laissez.service.reception import Reception


class Answered(Message, frozen=True, gc=True, tag="Answer"):
    """`Answer` without an id: there is one request."""

    sequence: int
    at: int
    events: tuple[Notice, ...]
    repeated: bool

    @property
    def refusal(self) -> Rejected | None:
        """The market's refusal, if that is how it ended."""
        last = self.events[-1] if self.events else None
        return last if isinstance(last, Rejected) else None


RestOutcome = Answered | Told | Administered | Refused


class RestCaller:
    """Implements the reception's `Caller` for a single request."""

    __slots__ = ("outcome", "principal")

    def __init__(self, principal: Principal) -> None:
        self.principal = principal
        self.outcome: asyncio.Future[RestOutcome] = asyncio.get_running_loop().create_future()

    def answer(
        self,
        request_id: int,
        sequence: int,
        at: int,
        events: tuple[Notice, ...],
        repeated: bool,
    ) -> None:
        self._resolve(Answered(sequence, at, events, repeated))

    def refuse(self, refused: Refused) -> None:
        self._resolve(refused)

    def reply(self, request_id: int, told: Told | Administered) -> None:
        self._resolve(told)

    def subscribe(self, request_id: int, subscription: Subscribe) -> None:
        message = "a stream needs a WebSocket; connect to /v1/stream"
        self._resolve(Refused(request_id, ServiceCode.BAD_REQUEST, message))

    def flush(self) -> None:
        """Nothing is held back."""

    def _resolve(self, outcome: RestOutcome) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)


async def ask(reception: Reception, principal: Principal, request: Request) -> RestOutcome:
    """Hand in a request and wait for what comes of it."""
    caller = RestCaller(principal)
    reception.receive(caller, request, reception.exchange.clock.now())
    return await caller.outcome
