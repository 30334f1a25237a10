"""Snapshots of other versions of the market: older ones are converted, newer ones refused."""

from typing import Any

import msgspec
import pytest

from laissez.market import CONVERTERS, RULES, Market, UnknownRules, rules_of
from laissez.market.upgrades import upgraded

FIRST_SNAPSHOT = (
    b'{"format":"laissez-market","version":1,"now":3,"sequence":2,'
    b'"trees":[["h",{"rise":null,"fall":null,"hold":null,"window":null},-1,[],[]]],'
    b'"nodes":[["h",false,[],null,0,0,null,0],["h/g0",true,[],"A",20,2,null,10]],'
    b'"books":[["h",10,[[2,10,5,"B",0]]]],'
    b'"orders":[["b","B","h",5,5,null,2]],'
    b'"accounts":[["A",0,["h/g0"]]]}'
)
"""What version 1 wrote of the market below."""

SECOND_SNAPSHOT = (
    b'{"format":"laissez-market","version":2,"now":3,"sequence":2,"trees":[["h",{"rise":nu'
    b'll,"fall":null,"hold":null,"window":null,"notice":null,"commit":null},-1,[],[]]],"no'
    b'des":[["h",false,[],null,0,0,null,0,null,null,[]],["h/g0",true,[],"A",20,2,null,10,n'
    b'ull,null,[]]],"books":[["h",10,[[2,10,5,"B",0]]]],"orders":[["b","B","h",5,5,null,2,'
    b'1,null]],"accounts":[["A",0,["h/g0"]]]}'
)
"""What version 2 writes of it."""

SECOND_DIGEST = "6cbc8bd37d0e36fbcb0ac5503eaad7efcbfdc84bee6a1cd6fe6e8a9bc31746fb"


def small_market() -> Market:
    market = Market()
    market.set_floor("h", 10, at=0)
    market.add_resource("h/g0", at=1)
    market.place("A", "h", limit=20, order="a", at=2)
    market.place("B", "h", price=5, limit=5, order="b", at=2)
    market.advance(at=3)
    return market


def changed(snapshot: bytes, **fields: Any) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(snapshot) | fields)


def test_version_2_is_written_as_ever() -> None:
    """Journals hold snapshots and digests of version 2: as long as `RULES` is 2, the same state
    is the same bytes, and the same digest."""
    assert RULES == 2
    assert small_market().snapshot() == SECOND_SNAPSHOT
    assert small_market().digest() == SECOND_DIGEST
    assert Market.restore(SECOND_SNAPSHOT).snapshot() == SECOND_SNAPSHOT


def test_version_1_is_read_for_ever() -> None:
    """What it wrote is the same market, without gangs, notice and commitment."""
    assert Market.restore(FIRST_SNAPSHOT).snapshot() == SECOND_SNAPSHOT


def test_a_snapshot_says_which_rules_wrote_it() -> None:
    """Its version is the version of the market's rules."""
    assert rules_of(Market().snapshot()) == RULES
    assert rules_of(changed(FIRST_SNAPSHOT, version=99)) == 99


def test_an_older_snapshot_is_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A market of a made-up version 0, which kept its floors apart, goes on under today's rules."""

    def from_0(data: bytes) -> bytes:
        old = msgspec.json.decode(data)
        floors = old.pop("floors")
        steps = {scope: steps for scope, _, steps in old["books"]}
        books = [[scope, floors[scope], steps[scope]] for scope in sorted(floors)]
        return msgspec.json.encode(old | {"version": 1, "books": books})

    monkeypatch.setitem(CONVERTERS, 0, from_0)
    books = [["h", 0, [[2, 10, 5, "B", 0]]]]
    old = changed(FIRST_SNAPSHOT, version=0, books=books, floors={"h": 10})
    market = Market.restore(old)
    assert market.snapshot() == SECOND_SNAPSHOT
    assert market.bill("A", at=4) == small_market().bill("A", at=4)


def test_converters_are_a_chain() -> None:
    """What is three versions old goes through three converters, in order; none is left out."""
    seen: list[int] = []

    def step(version: int) -> Any:
        def convert(data: bytes) -> bytes:
            assert rules_of(data) == version
            seen.append(version)
            return changed(data, version=version + 1)

        return convert

    chain = {version: step(version) for version in (1, 2, 3)}
    assert rules_of(upgraded(FIRST_SNAPSHOT, to=4, converters=chain)) == 4
    assert seen == [1, 2, 3]
    assert upgraded(FIRST_SNAPSHOT, to=1, converters=chain) is FIRST_SNAPSHOT
    with pytest.raises(ValueError, match=r"version 2.*reads version 4"):
        upgraded(FIRST_SNAPSHOT, to=4, converters={1: step(1), 3: step(3)})


def test_every_version_there_was_can_be_read() -> None:
    """Whoever raises `RULES` adds the converter of the version before, and never takes one out."""
    assert sorted(CONVERTERS) == list(range(1, RULES))


def test_a_converter_must_go_one_step() -> None:
    """One that leaves the version as it is would be asked for ever."""
    with pytest.raises(AssertionError, match="converter to version 2 wrote 1"):
        upgraded(FIRST_SNAPSHOT, to=2, converters={1: bytes})


@pytest.mark.parametrize("version", [RULES + 1, 99])
def test_a_newer_snapshot_is_refused(version: int) -> None:
    """By an exception of its own: the bytes are sound, and it is this program that is too old."""
    with pytest.raises(UnknownRules, match="install a newer laissez") as refused:
        Market.restore(changed(FIRST_SNAPSHOT, version=version))
    assert (refused.value.version, refused.value.known) == (version, RULES)
    assert isinstance(refused.value, ValueError)


@pytest.mark.parametrize("change", [{"version": 0}, {"version": -3}, {"format": "other-market"}])
def test_what_nothing_can_read_is_refused(change: dict[str, Any]) -> None:
    """A version for which there is no converter, or another thing altogether, is no newer one."""
    with pytest.raises(ValueError, match=r"this is .*laissez-market") as refused:
        Market.restore(changed(FIRST_SNAPSHOT, **change))
    assert not isinstance(refused.value, UnknownRules)


GUARD_WITHOUT_A_WINDOW = {"rise": None, "fall": 5, "hold": None, "window": None}
GUARDED = {"rise": None, "fall": 5, "hold": None, "window": 9}
DESCENT = {
    "scope": "h/gone",
    "window_index": 0,
    "floor_at_start": 9,
    "asked": 1,
    "sequence": 1,
    "pending": True,
}
HELD = ["h/g0", True, [], "A", 20, 2, None, 10]
IDLE = ["h/g0", True, [], None, 0, 0, None, 0]
TREE = ["h", False, [], None, 0, 0, None, 0]
ORDER = ["b", "B", "h", 5, 5, None, 2]


@pytest.mark.parametrize(
    "change",
    [
        {"accounts": [["A", 0, ["h/g0", "h/gone"]]]},
        {"accounts": [["A", 0, ["h"]]]},
        {"accounts": [["B", 0, ["h/g0"]]]},
        {"accounts": [["A", 0, ["h/g0"]], ["B", 0, ["h/g0"]]]},
        {"accounts": []},
        {"nodes": [TREE, IDLE]},
        {"nodes": [TREE, HELD, HELD]},
        {"nodes": [TREE, HELD, ["h/g0", False]]},
        {"nodes": [TREE, HELD, ["h/g0/x", False]]},
        {"nodes": [TREE, HELD, ["h/g0/x/y", True]]},
        {"nodes": [TREE, HELD, ["h", True]]},
        {"nodes": [TREE, HELD, ["k", True]]},
        {"nodes": [TREE, HELD, ["", False]]},
        {"nodes": [TREE, HELD, ["h/a/b", False], ["h/a", True]]},
        {"nodes": [TREE, HELD, ["h/g1", True, [], None, 0, 0, [9, 1, 1, False, False], 0]]},
        {"books": [["h/g0/x", 10, []]]},
        {"orders": [ORDER, ORDER]},
        {"orders": [["b", "B", "h/g0/x", 5, 5, None, 2]]},
        {"trees": [["h", GUARD_WITHOUT_A_WINDOW, -1, [], []]]},
        {"trees": [["h", GUARDED, -1, [], [DESCENT]]]},
    ],
    ids=str,
)
def test_what_contradicts_itself_is_refused(change: dict[str, Any]) -> None:
    """Bytes of the right format that say two things are damaged, and said to be so in a sentence:
    whoever recovers a market looks for another snapshot then."""
    with pytest.raises(ValueError, match="this snapshot contradicts itself: ") as refused:
        Market.restore(changed(FIRST_SNAPSHOT, **change))
    assert not isinstance(refused.value, UnknownRules)
