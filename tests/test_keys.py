"""Which keys are remembered, for how long, and with what answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laissez.exchange import keys as keys_module
from laissez.exchange.keys import Kept, Keys, older_keys
from laissez.model import Advance, Cancelled


def kept(sequence: int) -> Kept:
    return Kept(sequence, 7, Advance(7), (Cancelled(7, "ada", f"o-{sequence}"),))


@given(st.integers(1, 6), st.integers(0, 40))
def test_the_newest_keys_are_remembered(capacity: int, used: int) -> None:
    """At least the last `capacity`, each with its place; never more than twice as many."""
    keys = Keys(capacity)
    for sequence in range(1, used + 1):
        assert keys.sequence("ada", f"k-{sequence}") is None
        keys.remember("ada", f"k-{sequence}", kept(sequence))
        known = [n for n in range(1, used + 1) if keys.sequence("ada", f"k-{n}") is not None]
        assert all(keys.sequence("ada", f"k-{n}") == n for n in known)
        assert set(range(max(1, sequence - capacity + 1), sequence + 1)) <= set(known)
        assert len(known) <= 2 * capacity


@given(st.lists(st.booleans(), max_size=40))
def test_the_newest_answers_are_kept(keyed: list[bool]) -> None:
    """A ring by sequence number: an answer is found at its own number and at no other."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys_module, "ANSWERS_KEPT", 8)
        keys = Keys(100)
        newest: dict[int, Kept] = {}
        for sequence, has_key in enumerate(keyed, 1):
            if has_key:
                newest[sequence] = kept(sequence)
                keys.remember("ada", f"k-{sequence}", newest[sequence])
            for each in range(sequence + 10):
                found = keys.answer(each)
                assert found is None or found is newest.get(each)
                if sequence - 8 < each <= sequence:
                    assert found is newest.get(each)


def test_a_place_without_an_answer() -> None:
    """A key from before the restart's snapshot: where it acted is known, the answer is not."""
    keys = Keys(4)
    keys.remember_place("ada", "k", 3)
    assert keys.sequence("ada", "k") == 3
    assert keys.answer(3) is None


def test_a_key_belongs_to_its_author() -> None:
    """Nobody finds another's, whatever the two are made of; wide text is told apart, too."""
    keys = Keys(100)
    pairs = [
        (author, key) for author in ("a", "a:b", "ab") for key in ("c", "bc", "\0c", "ü", "水")
    ]
    for sequence, (author, key) in enumerate(pairs, 1):
        assert keys.sequence(author, key) is None
        keys.remember_place(author, key, sequence)
    assert [keys.sequence(author, key) for author, key in pairs] == list(range(1, 16))


def used(keys: Keys, author: str, count: int) -> int:
    """How many of an author's keys are known."""
    return sum(keys.sequence(author, f"k-{n}") is not None for n in range(count))


def test_an_author_with_many_keys_evicts_only_its_own() -> None:
    """However many one sends: the few of others stay, and a retry of theirs does not act again."""
    keys = Keys(100)
    for author, count in (("ada", 20), ("bob", 10), ("eve", 5_000), ("ada", 0)):
        for number in range(count):
            keys.remember(author, f"k-{number}", kept(number))
    assert (used(keys, "ada", 20), used(keys, "bob", 10)) == (20, 10)
    assert 70 <= used(keys, "eve", 5_000) <= 72
    assert keys.sequence("eve", "k-4999") == 4_999
    for number in range(5_000):
        keys.remember_place("mallory", f"k-{number}", number)
    assert (used(keys, "ada", 20), used(keys, "bob", 10)) == (20, 10)
    assert used(keys, "eve", 5_000) >= 34, "two who flood have half of the rest each"


def test_a_restart_finds_the_keys_of_those_who_seldom_use_one() -> None:
    """Read backwards: what lies behind a flood of another author is found, too."""
    past = [("ada", f"k-{n}", n) for n in range(5)]
    past += [("eve", f"k-{n}", 5 + n) for n in range(150)]
    keys = older_keys(reversed(past), 100)
    assert used(keys, "ada", 5) == 5
    assert 95 <= used(keys, "eve", 150) <= 96
    assert keys.sequence("eve", "k-149") == 154
    assert keys.answer(154) is None


def test_long_answers_are_kept_for_a_shorter_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ring is bounded by events, and has the newest answer always."""
    monkeypatch.setattr(keys_module, "EVENTS_KEPT", 10)
    keys = Keys(100)
    for sequence, events in ((1, 4), (2, 4), (3, 4), (4, 50)):
        cancelled = tuple(Cancelled(7, "ada", f"o-{n}") for n in range(events))
        keys.remember("ada", f"k-{sequence}", Kept(sequence, 7, Advance(7), cancelled))
        known = [each for each in range(1, 5) if keys.answer(each) is not None]
        assert known == {1: [1], 2: [1, 2], 3: [3], 4: [4]}[sequence]
    assert all(keys.sequence("ada", f"k-{n}") == n for n in range(1, 5))
