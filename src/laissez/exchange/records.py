"""What is written down: every command, with its author and the key it came with.

Beside the market's commands there are the exchange's own: cordons, which are about the topology as
a whole, and everything that decides who may do what and who is told, so that whoever follows the
journal knows that, too. Names and fields of a record never change: journals are kept for ever.
"""

from __future__ import annotations

import msgspec

from laissez.exchange.access import Token
from laissez.model.commands import Command
from laissez.model.message import Message


class Webhook(msgspec.Struct, frozen=True):
    """Where handovers are posted; the secret signs them."""

    id: str
    url: str
    secret: str
    made_by: str
    key: str | None

    def __repr__(self) -> str:
        return f"Webhook(id={self.id!r}, url={self.url!r})"


class PartialAdvance(Message, frozen=True):
    """Of what falls due by `at`, the first things act, about `most`: an entry for each part of what
    would take too long at once. Market time is then the instant of the last that acted."""

    at: int
    most: int


class PlaceNamed(Message, frozen=True):
    """An order as it was asked for, where the market knows less: `within` may be the name of a
    level, and `together` lets the exchange release all that it wins when one of it goes."""

    at: int
    tenant: str
    order: str
    scope: str
    price: int | None
    limit: int | None
    expires: int | None
    count: int
    within: int | str | None
    together: bool


class SetLevels(Message, frozen=True):
    """The names of the levels of a tree, from the one below its root."""

    at: int
    tree: str
    levels: tuple[str, ...]


class GuardNewTree(Message, frozen=True):
    """Give a tree notice and commitment, unless it had a resource or a guard before."""

    at: int
    tree: str
    notice: int | None
    commit: int | None


class Cordon(Message, frozen=True):
    """Take what is idle under a scope out of the market, and the rest as it falls idle; at the
    deadline what is still held there, too."""

    at: int
    scope: str
    deadline: int | None = None


class Uncordon(Message, frozen=True):
    """Bring back what the cordon of a scope took out."""

    at: int
    scope: str


class GrantToken(Message, frozen=True, gc=True):
    """From now on this token is good."""

    at: int
    token: Token


class EndToken(Message, frozen=True):
    """From now on a token is no longer good."""

    at: int
    token: str


class StartWebhook(Message, frozen=True, gc=True):
    """From now on handovers are posted there."""

    at: int
    webhook: Webhook


class StopWebhook(Message, frozen=True):
    """From now on nothing more is posted there."""

    at: int
    webhook: str


RightsRecord = GrantToken | EndToken | StartWebhook | StopWebhook
VenueRecord = PlaceNamed | SetLevels | GuardNewTree | Cordon | Uncordon
Record = Command | PartialAdvance | VenueRecord | RightsRecord


class Entry(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One line of the journal; `author` is who asked: a tenant, an operator's token, the clock."""

    author: str
    do: Record
    key: str | None = None


_entries: msgspec.json.Decoder[tuple[Entry, ...]] = msgspec.json.Decoder(tuple[Entry, ...])
_encoder = msgspec.json.Encoder()


def write_entries(entries: list[Entry]) -> bytes:
    return _encoder.encode(entries)


def read_entries(data: bytes) -> tuple[Entry, ...]:
    return _entries.decode(data)
