"""Whoever asks over HTTP: one request, one outcome.

The reception answers a caller at once or when the change is durable; here the answer resolves a
future that the request's handler waits for. A client that goes away cancels the future, and an
answer to a cancelled future is dropped: the change itself stands, as the journal says.
"""

from __future__ import annotations

import asyncio
from time import monotonic_ns

from laissez.exchange.access import Principal
from laissez.exchange.allowance import Allowance
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


NS_PER_S = 1_000_000_000
HTTP_NS = 300_000
"""What reading a request and writing an answer as HTTP takes, about."""

HEAD_BYTES = 256
WRONG_TOKEN_REST_NS_MAX = 2 * NS_PER_S

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


async def rest_if_overdrawn(principal: Principal) -> None:
    """Let a caller wait that has used too much; its connections are bounded, so few wait."""
    while (wait_ns := principal.rests_until - monotonic_ns()) > 0:
        await asyncio.sleep(wait_ns / NS_PER_S)


async def rest_after_wrong_token(wrong_tokens: Allowance) -> None:
    """A request with a wrong token is nobody's to pay for: all who show one pay together, each
    connection by waiting for its answer. Whoever has mistyped one waits a moment at most."""
    begun = monotonic_ns()
    wrong_tokens.spend(begun, HEAD_BYTES, HTTP_NS)
    wait_ns = min(wrong_tokens.rests_until - begun, WRONG_TOKEN_REST_NS_MAX)
    if wait_ns > 0:
        await asyncio.sleep(wait_ns / NS_PER_S)


async def ask(reception: Reception, principal: Principal, request: Request) -> RestOutcome:
    """Hand in a request and wait for what comes of it."""
    begun = monotonic_ns()
    caller = RestCaller(principal)
    reception.receive(caller, request, reception.exchange.clock.now())
    ended = monotonic_ns()
    principal.spend(ended, HEAD_BYTES, ended - begun + HTTP_NS)
    return await caller.outcome
