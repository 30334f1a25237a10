"""Which keys have been used, so that a retry never acts twice.

A key belongs to its author, and so does the memory of it: when there are too many keys in all, the
author with the most forgets its oldest. So nobody's keys are pushed out by an author who has more
of them, however many that one sends; and an author alone is remembered for the last `capacity`.

For the newest commands the answer itself is kept, too, in a ring by sequence number, so that a
retry gets the answer of the first time; an older key is answered with the place in the journal
where it acted. Answers can be long, so the ring is bounded by their events as well.

All of this follows from the journal, and the keys stand in its snapshots, too: some of them are
older than what a restart reads back.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import msgspec

from laissez.exchange.records import Record
from laissez.model import Notice

ANSWERS_KEPT = 16_384
EVENTS_KEPT = 200_000
LOOKED_THROUGH = 2
"""So many times the capacity is looked back through at a restart, for those who seldom use one."""


class Kept(msgspec.Struct, frozen=True, gc=False):
    """The answer to a keyed command: what it was, and what its author was told."""

    sequence: int
    at: int
    record: Record
    events: tuple[Notice, ...]


class Keys:
    """The last keys of everybody, `capacity` in all at least."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._slack = max(1, min(capacity // 100, 1_000))
        # Of each author the places of its keys, the oldest first: dicts keep their order.
        self._places: dict[str, dict[str | bytes, int]] = {}
        self._count = 0
        self._answers: list[Kept | None] = [None] * ANSWERS_KEPT
        self._events = 0

    def sequence(self, author: str, key: str) -> int | None:
        """Where this key acted, None if it is new."""
        own = self._places.get(author)
        return None if own is None else own.get(key if key.isascii() else _compact(key))

    def write(self) -> bytes:
        """The keys, without the answers."""
        places = {
            author: [
                (key if isinstance(key, str) else key.decode(errors="surrogatepass"), sequence)
                for key, sequence in own.items()
            ]
            for author, own in self._places.items()
        }
        return msgspec.json.encode(places)

    @classmethod
    def read(cls, data: bytes, capacity: int) -> Keys:
        keys = cls(capacity)
        for author, own in _places.decode(data).items():
            for key, sequence in own:
                keys.remember_place(author, key, sequence)
        return keys

    def answer(self, sequence: int) -> Kept | None:
        """What the key that acted there was answered, None if that is no longer kept."""
        kept = self._answers[sequence % ANSWERS_KEPT]
        return kept if kept is not None and kept.sequence == sequence else None

    def remember(self, author: str, key: str, kept: Kept) -> None:
        sequence = kept.sequence
        self.remember_place(author, key, sequence)
        answers, place = self._answers, sequence % ANSWERS_KEPT
        before = answers[place]
        answers[place] = kept
        self._events += len(kept.events) - (0 if before is None else len(before.events))
        if self._events > EVENTS_KEPT:
            self._forget_answers(sequence)

    def _forget_answers(self, newest: int) -> None:
        """Forget the oldest answers until half of the room for events is free, or one is left."""
        for sequence in range(newest - ANSWERS_KEPT + 1, newest):
            kept = self.answer(sequence)
            if kept is not None and self._events > EVENTS_KEPT // 2:
                self._answers[sequence % ANSWERS_KEPT] = None
                self._events -= len(kept.events)

    def remember_place(self, author: str, key: str, sequence: int) -> None:
        own = self._places.get(author)
        if own is None:
            own = self._places[author] = {}
        before = len(own)
        own[key if key.isascii() else _compact(key)] = sequence
        self._count += len(own) - before
        if self._count > self._capacity + self._slack:
            self._forget_some()

    def _forget_some(self) -> None:
        """Who has the most keys forgets its oldest."""
        author, most = max(self._places.items(), key=lambda each: len(each[1]))
        for key in list(islice(most, self._slack)):
            del most[key]
            self._count -= 1
        if not most:
            del self._places[author]


_places = msgspec.json.Decoder(dict[str, list[tuple[str, int]]])


def _compact(key: str) -> bytes:
    """A key in as few bytes as it has: text with one wide character takes four for each."""
    return key.encode(errors="surrogatepass")


def older_keys(newest_first: Iterable[tuple[str, str, int]], capacity: int) -> Keys:
    """The keys of a past that is read backwards: (author, key, sequence), the newest first.

    It is read further back than one author alone would need, so that those who seldom use a key
    are found behind one who uses many; but not without end.
    """
    found = list(islice(newest_first, LOOKED_THROUGH * capacity))
    keys = Keys(capacity)
    for author, key, sequence in reversed(found):
        keys.remember_place(author, key, sequence)
    return keys
