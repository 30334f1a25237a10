"""Which keys have been used, so that a retry never acts twice.

A key belongs to its author. The last `capacity` keys at least are remembered, in two generations:
new keys go into the young one; when it is full it becomes the old one, and what was old is
forgotten. For the newest of them the answer itself is kept, too, in a ring by sequence number, so
that a retry gets the answer of the first time; an older key is answered with the place in the
journal where it acted.

All of this follows from the journal: a restart reads it back.
"""

import msgspec

from laissez.exchange.records import Record
from laissez.model import Notice

ANSWERS_KEPT = 16_384


class Kept(msgspec.Struct, frozen=True, gc=False):
    """The answer to a keyed command: what it was, and what its author was told."""

    sequence: int
    at: int
    record: Record
    events: tuple[Notice, ...]


def key_name(author: str, key: str) -> str:
    """A key as it is remembered: no author can use another's."""
    return f"{author}\0{key}"


class Keys:
    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._young: dict[str, int] = {}
        self._old: dict[str, int] = {}
        self._answers: list[Kept | None] = [None] * ANSWERS_KEPT

    def sequence(self, name: str) -> int | None:
        """Where this key acted, None if it is new."""
        found = self._young.get(name)
        return self._old.get(name) if found is None else found

    def answer(self, sequence: int) -> Kept | None:
        """What the key that acted there was answered, None if that is no longer kept."""
        kept = self._answers[sequence % ANSWERS_KEPT]
        return kept if kept is not None and kept.sequence == sequence else None

    def remember(self, name: str, kept: Kept) -> None:
        if len(self._young) >= self._capacity:
            self._old, self._young = self._young, {}
        self._young[name] = kept.sequence
        self._answers[kept.sequence % ANSWERS_KEPT] = kept

    def remember_place(self, name: str, sequence: int) -> None:
        if len(self._young) >= self._capacity:
            self._old, self._young = self._young, {}
        self._young[name] = sequence
