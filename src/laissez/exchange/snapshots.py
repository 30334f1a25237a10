"""Snapshots without a pause: a forked child writes down the state as it was, the parent goes on.

Writing down a large market takes seconds. A fork gives the child a frozen copy of it for the
price of some page tables; the child computes, sends the result through a pipe and ends, without
ever touching the journal, a lock or a socket of its parent.
"""

from __future__ import annotations

import contextlib
import os

import msgspec

from laissez.exchange.journal import Snapshot, pack
from laissez.exchange.keys import Keys
from laissez.exchange.venue import Venue

NICENESS = 10
CHUNK_BYTES = 1 << 20


def take(venue: Venue, sequence: int, keys: Keys | None = None) -> Snapshot:
    """A snapshot here and now."""
    packed = b"" if keys is None else pack(keys.write())
    return Snapshot(sequence, venue.rules, venue.digest(), pack(venue.snapshot()), packed)


class Child:
    """A child at work on a snapshot; `collect` blocks until it is done, so call it in a thread."""

    def __init__(self, venue: Venue, sequence: int, keys: Keys | None = None) -> None:
        """Raises `OSError` where there is no room for a pipe or a process."""
        self._read, write = os.pipe()
        try:
            self._pid = os.fork()
        except OSError:
            os.close(self._read)
            os.close(write)
            raise
        if self._pid == 0:
            _work(venue, sequence, keys, write)
        os.close(write)

    def collect(self) -> Snapshot | None:
        """The snapshot, None if the child failed."""
        chunks = []
        with open(self._read, "rb") as pipe:
            while chunk := pipe.read(CHUNK_BYTES):
                chunks.append(chunk)
        _, status = os.waitpid(self._pid, 0)
        return None if status != 0 else msgspec.msgpack.decode(b"".join(chunks), type=Snapshot)


def _work(venue: Venue, sequence: int, keys: Keys | None, write: int) -> None:
    """In the child: never returns."""
    status = 1
    try:
        _close_all_but(write)
        with contextlib.suppress(OSError):
            os.nice(NICENESS)
        snapshot = take(venue, sequence, keys)
        with open(write, "wb") as pipe:
            pipe.write(msgspec.msgpack.encode(snapshot))
        status = 0
    finally:
        os._exit(status)


def _close_all_but(keep: int) -> None:
    """A port or a lock must not stay taken by a child when its parent is gone."""
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        if descriptor > 2 and descriptor != keep:
            with contextlib.suppress(OSError):  # the one that was used for listing
                os.close(descriptor)
