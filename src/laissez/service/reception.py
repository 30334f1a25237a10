"""Where every request arrives, whichever door it came through.

A door (the WebSocket, REST) knows its caller and hands in a `Request` in its name: the reception
sends it the right way, and the answer comes back to the caller once. Whatever is asked counts
against the token's allowance.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol, get_args

from laissez.exchange.access import Principal
from laissez.exchange.admission import check_allowance, check_key, check_question
from laissez.exchange.office import Office
from laissez.exchange.pipeline import Exchange, Target, Ticket
from laissez.exchange.questions import Forbidden
from laissez.model import (
    Administered,
    Administration,
    Instruction,
    Question,
    Refused,
    Request,
    ServiceCode,
    Subscribe,
    Told,
)
from laissez.service.outflow import Outflow
from laissez.service.payers_queue import PayersQueue
from laissez.service.strangers import Strangers
from laissez.service.unread import UnreadBytes

_log = logging.getLogger("laissez.reception")

_INSTRUCTIONS = frozenset(get_args(Instruction))
_QUESTIONS = frozenset(get_args(Question))
_ADMINISTRATION = frozenset(get_args(Administration))


class Caller(Target, Protocol):
    """Somebody at a door: also takes replies to questions."""

    principal: Principal

    def reply(self, request_id: int, told: Told | Administered) -> None: ...

    def subscribe(self, request_id: int, subscription: Subscribe) -> None: ...


class Turn:
    """The turn of whoever is being served: there is one at a time."""

    __slots__ = ("at", "ends")

    def __init__(self) -> None:
        self.at = 0
        """The instant at which it began, in market time."""
        self.ends = 0
        """When it is another's, by the monotonic clock."""


class Reception:
    def __init__(
        self, exchange: Exchange, office: Office, strangers: Strangers | None = None
    ) -> None:
        self.exchange = exchange
        self.office = office
        self.unread = UnreadBytes()
        self.outflow = Outflow(lambda: exchange.acts_in_parts and exchange.fault is None)
        self.turn = Turn()
        self.strangers = strangers or Strangers()
        self.queue = PayersQueue()
        self._tasks: set[asyncio.Task[None]] = set()

    def receive(self, caller: Caller, request: Request, at: int) -> None:
        """Send one request on its way that came at an instant."""
        do = request.do
        kind = type(do)
        if kind in _INSTRUCTIONS:
            self.exchange.submit(
                Ticket(caller.principal, do, request.key, request.id, caller),  # type: ignore[arg-type]
                at,
            )
            return
        if self.exchange.fault is not None:
            return
        refused = check_allowance(caller.principal, request.id, at)
        if refused is not None:
            caller.refuse(refused)
        elif kind in _QUESTIONS:
            self._answer(caller, request)
        elif isinstance(do, Subscribe):
            caller.subscribe(request.id, do)
        else:
            task = asyncio.create_task(self._administer(caller, request))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _answer(self, caller: Caller, request: Request) -> None:
        refused = check_question(request.id, request.do)  # type: ignore[arg-type]
        if refused is not None:
            caller.refuse(refused)
            return
        try:
            told = self.exchange.desk.answer(caller.principal, request.do)  # type: ignore[arg-type]
        except Forbidden as forbidden:
            caller.refuse(Refused(request.id, forbidden.code, forbidden.message))
        else:
            caller.reply(request.id, told)

    async def _administer(self, caller: Caller, request: Request) -> None:
        assert type(request.do) in _ADMINISTRATION
        outcome: Administered | Refused | None = check_key(request.id, request.key)
        if outcome is None:
            try:
                outcome = await self.office.handle(
                    caller.principal,
                    request.id,
                    request.do,  # type: ignore[arg-type]
                    request.key,
                )
            except Exception as error:
                _log.error("%s while administering", type(error).__name__)
                message = "this is our fault and is in the log; look before you try again"
                outcome = Refused(request.id, ServiceCode.INTERNAL_ERROR, message)
        if self.exchange.fault is not None:
            return  # not another answer
        if isinstance(outcome, Refused):
            caller.refuse(outcome)
        else:
            caller.reply(request.id, outcome)
        caller.flush()
