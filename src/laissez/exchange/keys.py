"""Which keys have been used, so that a retry never acts twice.

A key belongs to its author. The last `capacity` keys at least are remembered, in two generations:
new keys go into the young one; when it is full it becomes the old one, and what was old is
forgotten. For the newest of them the answer itself is kept, too, so that a retry gets the answer
of the first time; an older key is answered with the place in the journal where it acted.

All of this follows from the journal: a restart reads it back.
"""

from collections import OrderedDict

import msgspec

from laissez.exchange.records import Record

ANSWERS_KEPT = 20_000


class Kept(msgspec.Struct, frozen=True):
    """The answer to a keyed command: what it was, and what its author was told."""

    sequence: int
    at: int
    record: Record
    events: msgspec.Raw


class Keys:
    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._young: dict[str, int] = {}
        self._old: dict[str, int] = {}
        self._answers: OrderedDict[str, Kept] = OrderedDict()

    def sequence(self, author: str, key: str) -> int | None:
        """Where this key acted, None if it is new."""
        name = _name(author, key)
        found = self._young.get(name)
        return self._old.get(name) if found is None else found

    def answer(self, author: str, key: str) -> Kept | None:
        return self._answers.get(_name(author, key))

    def remember(self, author: str, key: str, sequence: int) -> None:
        if len(self._young) >= self._capacity:
            self._old, self._young = self._young, {}
        self._young[_name(author, key)] = sequence

    def keep(self, author: str, key: str, kept: Kept) -> None:
        self._answers[_name(author, key)] = kept
        if len(self._answers) > ANSWERS_KEPT:
            self._answers.popitem(last=False)


def _name(author: str, key: str) -> str:
    return f"{author}\0{key}"
