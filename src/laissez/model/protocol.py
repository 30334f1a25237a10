"""The conversation between a client and the service.

A client sends `Request`s, one or many in a frame, each with an id of its own choosing; every
request is answered once, by an `Answer` (a change was made, or the market refused it), a `Reply`
(to a question), a `Subscribed` or a `Refused` (the service did not let it through). Answers carry
the id and may come in any order.

Beside the answers runs a stream, for those who subscribed: `Happened` for every command that
concerned the tenant, `Rates` and `Quotes` once a second, and two farewells, `Resync` (what came
after your sequence number is no longer kept; read your state anew) and `TooSlow`.

A `key` makes a change safe to send again: the same key never acts twice, and is answered with
what it did the first time.
"""

from typing import Annotated

import msgspec

from laissez.model.administration import Administered, Administration
from laissez.model.instructions import Instruction
from laissez.model.message import Message
from laissez.model.notices import Notice
from laissez.model.questions import Question, Told
from laissez.model.values import Quote


class Subscribe(Message, frozen=True, forbid_unknown_fields=True):
    """Stream own events from now on, or everything after a sequence number; rates and quotes too.

    A second subscription replaces the first.
    """

    after: int | None = None
    rates: bool = msgspec.field(default=False, name="rates")
    quotes: tuple[str, ...] = ()


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing asked; `id` comes back with the answer."""

    id: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
    do: Instruction | Question | Administration | Subscribe
    key: str | None = None


class Answer(Message, frozen=True, omit_defaults=True):
    """A change is durable: what it did, in order. A refusal of the market is the last event.

    `repeated` says that this key had been answered before; if its events are no longer kept,
    `events` is empty and `sequence` tells where it happened.
    """

    id: int
    sequence: int
    at: int
    events: tuple[Notice, ...]
    repeated: bool = False


class Reply(Message, frozen=True, gc=True):
    """The answer to a question, or to an operator's administration."""

    id: int
    told: Told | Administered


class Subscribed(Message, frozen=True):
    """The stream begins after this sequence number."""

    id: int
    sequence: int


class Refused(Message, frozen=True):
    """The service did not let a request through, and nothing changed."""

    id: int | None
    code: str
    message: str
    retry_after_ms: int | None = None


class Happened(Message, frozen=True):
    """What one command meant for you. Without events: you have heard everything up to here."""

    sequence: int
    at: int
    events: tuple[Notice, ...]


class Rates(Message, frozen=True, gc=True):
    """The rate of every own holding that has changed since the last such message."""

    at: int
    rates: dict[str, int]


class Quotes(Message, frozen=True, gc=True):
    """The subscribed quotes that have changed since the last such message; None: nothing there."""

    at: int
    quotes: dict[str, Quote | None]


class Resync(Message, frozen=True):
    """What happened up to `sequence` is no longer kept here; read your state anew."""

    sequence: int
    message: str


class TooSlow(Message, frozen=True):
    """You read too slowly and are cut off; come back and resume after `sequence`."""

    sequence: int
    message: str


Said = Answer | Reply | Subscribed | Refused | Happened | Rates | Quotes | Resync | TooSlow
