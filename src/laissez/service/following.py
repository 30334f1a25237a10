"""What one subscriber follows: the stream of what happened, from a sequence number on or from now,
and rates and quotes once a second.

It is catching up until it has been sent all that it had missed, a piece with every turn; then it
listens, and what happens is told as it happens. How far it has heard is the sequence number to
resume after.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import Protocol

from laissez.exchange.access import Principal
from laissez.exchange.questions import Forbidden
from laissez.model import Happened, Refused, Resync, Subscribe, Subscribed, encode
from laissez.service.reception import Reception
from laissez.service.samples import Samples

PIECE_MAX = 100
"""So many messages of the past are sent at a time."""

SILENT_COMMANDS_MAX = 1_000


class Speaker(Protocol):
    """The connection over which it is told."""

    def say(self, message: bytes) -> None:
        """With what is sent next."""

    def say_soon(self, message: bytes) -> None:
        """Before long, though nothing else may be sent."""

    def take_turn_soon(self) -> None:
        """There is more to send."""


class Following:
    """One subscription; a connection has one at a time."""

    __slots__ = (
        "_is_sampled",
        "_listens",
        "_principal",
        "_reception",
        "_samples",
        "_speaker",
        "catches_up",
        "last_sequence",
        "sent_sequence",
    )

    def __init__(self, reception: Reception, principal: Principal, speaker: Speaker) -> None:
        self._reception = reception
        self._principal = principal
        self._speaker = speaker
        self._samples: Samples | None = None
        self._is_sampled = False
        self._listens = False
        self.catches_up = False
        self.last_sequence = 0
        """Up to here it has been told, or will be with what is sent next."""
        self.sent_sequence = 0

    def refuses(self, request_id: int, subscription: Subscribe) -> Refused | None:
        """May this caller see what it wants to follow?"""
        try:
            for scope in subscription.quotes:
                self._reception.exchange.desk.quote(self._principal, scope)
        except Forbidden as forbidden:
            return Refused(request_id, forbidden.code, forbidden.message)
        return None

    def begin(self, request_id: int, subscription: Subscribe) -> None:
        """Now, or with what came after a sequence number: the first piece of it at once."""
        self._resume(request_id, subscription.after)
        self._samples = Samples(self._reception.exchange.desk, self._principal, subscription)
        self._sample()
        self._is_sampled = True

    def _resume(self, request_id: int, after: int | None) -> None:
        execution, say = self._reception.exchange.execution, self._speaker.say
        now = execution.sequence
        if after is None or after > now or not execution.feeds.keeps(self._principal.tenant, after):
            say(encode(Subscribed(request_id, now)))
            self._listen()
            if after is not None:
                self._resync(after)
        else:
            say(encode(Subscribed(request_id, after)))
            self.last_sequence = after
            self.catches_up = True
            self.send_piece()

    def send_piece(self) -> None:
        """Some more of what this subscriber has missed; when that was all, it listens."""
        feeds, tenant = self._reception.exchange.execution.feeds, self._principal.tenant
        if not feeds.keeps(tenant, self.last_sequence):
            self._resync(self.last_sequence)
            self._listen()
            return
        room = PIECE_MAX
        for sequence, message in feeds.piece(tenant, self.last_sequence, PIECE_MAX):
            self.last_sequence = sequence
            self._speaker.say(message)
            room -= 1
            if monotonic_ns() > self._reception.turn.ends:
                break
        else:
            if room:
                self._listen()
                self._tell_nothing()  # it has caught up
        if self.catches_up:
            self._speaker.take_turn_soon()

    def _listen(self) -> None:
        execution = self._reception.exchange.execution
        self.catches_up = False
        self._listens = True
        self.last_sequence = execution.sequence
        execution.feeds.listen(self._principal.tenant, self)

    def _resync(self, after: int) -> None:
        message = f"what came after {after} is not kept here; read your state anew"
        now = self._reception.exchange.execution.sequence
        self._speaker.say(encode(Resync(now, message)))

    def leave(self) -> None:
        """It follows nothing any more."""
        self.catches_up = False
        if self._listens:
            self._listens = False
            self._reception.exchange.execution.feeds.leave(self._principal.tenant, self)

    def push(self, sequence: int, message: bytes) -> None:
        """Something happened that this subscriber is to know."""
        self.last_sequence = sequence
        self._speaker.say_soon(message)

    def sample(self) -> None:
        """Once a second: the rates and quotes that have changed since they were last sent, and a
        sign of life with a fresh sequence number to resume from, if there was nothing to tell.

        A new subscriber has them at once, and is left out the next time: a second is a second.
        """
        if self._is_sampled:
            self._is_sampled = False
            return
        begun = monotonic_ns()
        if begun >= self._principal.rests_until:
            self._sample()
            ended = monotonic_ns()
            self._principal.spend(ended, 0, ended - begun)

    def _sample(self) -> None:
        execution = self._reception.exchange.execution
        if self._listens and execution.sequence - self.last_sequence >= SILENT_COMMANDS_MAX:
            self._tell_nothing()
        if self._samples is not None:
            for message in self._samples.changed():
                self._speaker.say_soon(message)

    def _tell_nothing(self) -> None:
        """Only how far it has heard."""
        exchange = self._reception.exchange
        now, at = exchange.execution.sequence, exchange.desk.instant()
        self.push(now, encode(Happened(now, at, ())))
