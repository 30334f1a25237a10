"""What is written down: every command, with its author and the key it came with.

Beside the market's eleven commands there are two of the operator's that are about the topology
as a whole: a cordon takes resources out as they fall idle, and lifting it brings them back.
"""

import msgspec

from laissez.model.commands import Command
from laissez.model.message import Message


class Cordon(Message, frozen=True):
    """Take what is idle under a scope out of the market, and the rest as it falls idle."""

    at: int
    scope: str


class Uncordon(Message, frozen=True):
    """Bring back what the cordon of a scope took out."""

    at: int
    scope: str


Record = Command | Cordon | Uncordon


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
