"""Standing nodes: as many as are wanted, each worth the same, and no more."""

import pytest

from laissez.performance.application import NO_WORTH, Worth
from laissez.performance.standing import BadStanding, Standing

ONE = Worth(1.0, 1.0)
KINDS = ("h100", "a100")
NODES = ["h100/r/g0", "a100/r/g0", "h100/r/g1"]


def standing(wanted: int, held: int) -> Standing:
    app = Standing(KINDS, wanted)
    for node in NODES[:held]:
        app.gain(node, 0)
    return app


def test_a_node_is_worth_one_as_long_as_fewer_are_there() -> None:
    """Of two that are wanted with one there, the next is worth one, and the one after it nothing:
    what is coming counts, if it can be used."""
    app = standing(2, 1)
    assert app.worth_of_gaining("h100") == app.worth_of_gaining("a100/r") == ONE
    assert app.worth_of_gaining("h100", ["a100"]) == NO_WORTH
    assert app.worth_of_gaining("h100", ["tpu"]) == ONE
    assert app.worth_of_gaining("tpu") == NO_WORTH
    assert (app.missing("h100"), app.missing("a100"), app.missing("tpu")) == (1, 1, 0)
    assert app.utility_gap() == 1.0
    assert standing(2, 2).worth_of_gaining("h100") == NO_WORTH
    assert standing(2, 3).missing("h100") == standing(2, 3).utility_gap() == 0


def test_a_node_is_missed_unless_there_are_more_than_wanted() -> None:
    """With three there and two wanted nobody misses one; with one gone already each is missed."""
    app = standing(2, 3)
    assert [app.worth_of_losing(node) for node in NODES] == [NO_WORTH] * 3
    assert [app.worth_of_losing(node, NODES[2:]) for node in NODES] == [ONE, ONE, NO_WORTH]
    assert app.worth_of_losing("h100/r/g9") == NO_WORTH
    assert standing(3, 3).worth_of_losing(NODES[0]) == ONE


def test_what_stands_still_with_a_node_is_the_node() -> None:
    """One, if it is missed; nothing, if it is not, or is another's. No end is in sight."""
    assert [standing(2, 2).at_stake(node) for node in NODES] == [1.0, 1.0, 0.0]
    assert [standing(2, 3).at_stake(node) for node in NODES] == [0.0, 0.0, 0.0]
    assert standing(2, 2).ends_in_s(NODES[0]) is None
    assert standing(2, 2).ends_in_s("h100") is None


def test_what_came_last_is_redundant() -> None:
    """It does without those that came after it had enough."""
    assert [standing(2, 3).is_redundant(node) for node in NODES] == [False, False, True]
    assert standing(0, 1).is_redundant(NODES[0])


@pytest.mark.parametrize(("kinds", "wanted"), [(KINDS, -1), ((), 1)])
def test_what_cannot_be_wanted_is_refused(kinds: tuple[str, ...], wanted: int) -> None:
    """The refusal says what would do."""
    with pytest.raises(BadStanding, match="0 or more, and at least one kind"):
        Standing(kinds, wanted)


def test_the_memory_of_others_is_refused() -> None:
    """Of other kinds, with other nodes, or of none."""
    app = standing(2, 1)
    for state in (Standing(("tpu",), 2).state(), b'{"kinds":["h100","a100"],"nodes":["tpu/0"]}'):
        with pytest.raises(BadStanding, match="other nodes"):
            app.resume(state)
    with pytest.raises(BadStanding, match="not the state"):
        app.resume(b"[]")
    assert app.nodes == ("h100/r/g0",)
