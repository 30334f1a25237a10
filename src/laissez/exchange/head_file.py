"""The head: how far a journal reached, in a small file beside it.

Two slots are written in turn, each with a checksum, so that a write that was cut short leaves the
other. The slot with the higher number of writes counts. A file that is missing or unreadable says
nothing.
"""

from __future__ import annotations

import os
import struct
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from laissez.exchange.journal import JournalError

SUFFIX = "-head"
_SLOT = struct.Struct(">QQQ16s")
_CHECKSUM_BYTES = 16
_SLOT_BYTES = 512  # each in a disk sector of its own


class Noted(NamedTuple):
    """How far the journal reached, by which way, and the latest instant shown to anybody."""

    writes: int
    sequence: int
    at_us: int
    link: bytes


class HeadFile:
    """The head of one journal, open for writing."""

    def __init__(self, journal: Path) -> None:
        noted = HeadFile.read(journal)
        self._writes = 0 if noted is None else noted.writes
        path = self.path_beside(journal)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    @staticmethod
    def path_beside(journal: Path) -> Path:
        return journal.with_name(journal.name + SUFFIX)

    @classmethod
    def read(cls, journal: Path) -> Noted | None:
        """What was noted last, None if nothing that can be read."""
        try:
            data = cls.path_beside(journal).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise JournalError(
                f"{cls.path_beside(journal)} can't be read ({error.strerror}); see that you may"
            ) from None
        slots = (data[at : at + _SLOT_BYTES] for at in (0, _SLOT_BYTES))
        return max(filter(None, map(_read_slot, slots)), default=None)

    def write(self, sequence: int, at_us: int, link: bytes) -> None:
        self._writes += 1
        slot = _SLOT.pack(self._writes, sequence, at_us, link)
        place = self._writes % 2 * _SLOT_BYTES
        os.pwrite(self._file, slot + _checksum(slot), place)

    def close(self) -> None:
        os.close(self._file)


def _checksum(slot: bytes) -> bytes:
    return blake2b(slot, digest_size=_CHECKSUM_BYTES).digest()


def _read_slot(data: bytes) -> Noted | None:
    slot, checksum = data[: _SLOT.size], data[_SLOT.size : _SLOT.size + _CHECKSUM_BYTES]
    if len(slot) < _SLOT.size or _checksum(slot) != checksum:
        return None
    writes, sequence, at_us, link = _SLOT.unpack(slot)
    return Noted(writes, sequence, at_us, link if sequence else b"")
