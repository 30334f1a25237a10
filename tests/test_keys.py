"""Which keys are remembered, for how long, and with what answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laissez.exchange import keys as keys_module
from laissez.exchange.keys import Kept, Keys, key_name
from laissez.model import Advance, Cancelled


def kept(sequence: int) -> Kept:
    return Kept(sequence, 7, Advance(7), (Cancelled(7, "ada", f"o-{sequence}"),))


@given(st.integers(1, 6), st.integers(0, 40))
def test_the_newest_keys_are_remembered(capacity: int, used: int) -> None:
    """At least the last `capacity`, each with its place; never more than twice as many."""
    keys = Keys(capacity)
    for sequence in range(1, used + 1):
        assert keys.sequence(f"k-{sequence}") is None
        keys.remember(f"k-{sequence}", kept(sequence))
        known = [n for n in range(1, used + 1) if keys.sequence(f"k-{n}") is not None]
        assert all(keys.sequence(f"k-{n}") == n for n in known)
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
                keys.remember(f"k-{sequence}", newest[sequence])
            for each in range(sequence + 10):
                found = keys.answer(each)
                assert found is None or found is newest.get(each)
                if sequence - 8 < each <= sequence:
                    assert found is newest.get(each)


def test_a_place_without_an_answer() -> None:
    """A key from before the restart's snapshot: where it acted is known, the answer is not."""
    keys = Keys(4)
    keys.remember_place("k", 3)
    assert keys.sequence("k") == 3
    assert keys.answer(3) is None


def test_a_key_belongs_to_its_author() -> None:
    """No two pairs of author and key have one name; an author can't contain the separator."""
    names = {key_name(author, key) for author in ("a", "a:b", "ab") for key in ("c", "bc", "\0c")}
    assert len(names) == 9
