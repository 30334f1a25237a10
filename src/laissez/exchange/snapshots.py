"""Snapshots without a pause: a forked child writes down the state as it was, the parent goes on.

Writing down a large market takes seconds. A fork gives the child a frozen copy of it for the
price of some page tables; the child computes, sends the result through a pipe and ends, without
ever touching the journal, a lock or a socket of its parent.
"""

from __future__ import annotations

import contextlib
import os
import resource

from laissez.exchange.journal import Snapshot, pack
from laissez.exchange.venue import Venue

NICENESS = 10
CHUNK_BYTES = 1 << 20


def take(venue: Venue, sequence: int) -> Snapshot:
    """A snapshot here and now."""
    return Snapshot(sequence, venue.rules, venue.digest(), pack(venue.snapshot()))


class Child:
    """A child at work on a snapshot; `collect` blocks until it is done, so call it in a thread."""

    def __init__(self, venue: Venue, sequence: int) -> None:
        """Raises `OSError` where there is no room for a pipe or a process."""
        self._sequence = sequence
        self._rules = venue.rules
        self._read, write = os.pipe()
        try:
            self._pid = os.fork()
        except OSError:
            os.close(self._read)
            os.close(write)
            raise
        if self._pid == 0:
            _work(venue, sequence, write)
        os.close(write)

    def collect(self) -> Snapshot | None:
        """The snapshot, None if the child failed."""
        chunks = []
        with open(self._read, "rb") as pipe:
            while chunk := pipe.read(CHUNK_BYTES):
                chunks.append(chunk)
        _, status = os.waitpid(self._pid, 0)
        data = b"".join(chunks)
        if status != 0 or b"\n" not in data:
            return None
        digest, _, state = data.partition(b"\n")
        return Snapshot(self._sequence, self._rules, digest.decode(), state)


def _work(venue: Venue, sequence: int, write: int) -> None:
    """In the child: never returns."""
    status = 1
    try:
        _close_all_but(write)
        with contextlib.suppress(OSError):
            os.nice(NICENESS)
        snapshot = take(venue, sequence)
        with open(write, "wb") as pipe:
            pipe.write(snapshot.digest.encode() + b"\n" + snapshot.state)
        status = 0
    finally:
        os._exit(status)


def _close_all_but(keep: int) -> None:
    """A port or a lock must not stay taken by a child when its parent is gone."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    os.closerange(3, keep)
    os.closerange(keep + 1, most)
