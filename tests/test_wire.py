"""Messages as they are written down: JSON and back, units in names, snapshots, segments."""

import json
from collections.abc import Sequence
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType
from msgspec.structs import FieldInfo, fields

from laissez.market import Market
from laissez.model import (
    Advance,
    Amend,
    Cancel,
    Command,
    Event,
    OpenOrder,
    Place,
    Quote,
    Segment,
    Segments,
    SetGuard,
    Settled,
    decode_command,
    decode_event,
    encode,
)
from laissez.model.message import UNTIL_AN_INSTANT, Message

COMMANDS: tuple[type[Message], ...] = get_args(Command)
NUMBERS_OF_THINGS = {"count", "within"}
EVENTS: tuple[type[Message], ...] = get_args(Event)

segments: st.SearchStrategy[list[Any]] = st.lists(
    st.tuples(
        st.integers(), st.integers(), st.integers(), st.sampled_from(["floor", "demand", "hold"])
    ),
    max_size=3,
)


def values_of(field: FieldInfo) -> st.SearchStrategy[Any]:
    """Anything that a field may hold, judged by its type alone: the wire is not the judge."""
    if field.type is Segments:
        return segments.map(Segments)
    kinds = [kind for kind in get_args(field.type) if kind is not UnsetType]
    if UnsetType in get_args(field.type):
        return st.one_of(st.just(UNSET), *map(st.from_type, kinds))
    return st.from_type(field.type)


def messages(kinds: Sequence[type[Message]]) -> st.SearchStrategy[Any]:
    return st.sampled_from(kinds).flatmap(
        lambda kind: st.builds(kind, **{f.name: values_of(f) for f in fields(kind)})
    )


# --- messages -----------------------------------------------------------------------------------


def test_there_are_eleven_commands_and_fifteen_events() -> None:
    """As many as the contract and the reference speak of."""
    assert (len(COMMANDS), len(EVENTS)) == (11, 15)


@given(messages(COMMANDS))
def test_every_command_survives(command: Any) -> None:
    """Also one that the market would refuse: the journal keeps what was asked."""
    assert decode_command(encode(command)) == command
    assert decode_command(encode(command).decode()) == command


@given(messages(EVENTS))
def test_every_event_survives(event: Any) -> None:
    """With its explanation, if it has one."""
    assert decode_event(encode(event)) == event


@given(messages([*COMMANDS, *EVENTS, Quote, OpenOrder]))
def test_what_is_written_says_what_it_is_and_carries_units(message: Any) -> None:
    """One object; its type first; every quantity under a name with its unit."""
    written = json.loads(encode(message))
    given_fields = [
        UNTIL_AN_INSTANT.get(field.name, field.name)
        for field in fields(message)
        if getattr(message, field.name) is not UNSET
    ]
    assert list(written) == ["type", *given_fields]
    assert written["type"] == type(message).__name__
    assert b"\n" not in encode(message), "a message is a line of a log"


@pytest.mark.parametrize("kind", [*COMMANDS, *EVENTS, Quote, OpenOrder])
def test_every_number_has_a_unit(kind: type[Message]) -> None:
    """A field that holds integers is written under a name that says of what."""
    for field in fields(kind):
        if field.type is int or int in get_args(field.type):
            assert field.name in NUMBERS_OF_THINGS or (
                field.encode_name == UNTIL_AN_INSTANT[field.name] != field.name
            )


def test_what_an_order_looks_like() -> None:
    """For the reader: one command as it is written."""
    order = Place(5, "A", "a-1", "h100", price=2_000_000, limit=3_000_000)
    assert json.loads(encode(order)) == {
        "type": "Place",
        "at_us": 5,
        "tenant": "A",
        "order": "a-1",
        "scope": "h100",
        "price_micros_per_hour": 2_000_000,
        "limit_micros_per_hour": 3_000_000,
        "expires_us": None,
        "count": 1,
        "within": None,
    }


def test_what_a_statement_looks_like() -> None:
    """For the reader: one event with its explanation as it is written, however large its charge."""
    charge = 2_000_000 * 10**15
    settled = Settled(10**15, "A", "h/g", 0, charge, Segments([(0, 10**15, 2_000_000, "floor")]))
    assert json.loads(encode(settled)) == {
        "type": "Settled",
        "at_us": 10**15,
        "tenant": "A",
        "resource": "h/g",
        "since_us": 0,
        "charge_micros_us_per_hour": charge,
        "segments": [[0, 10**15, 2_000_000, "floor"]],
    }
    assert decode_event(encode(settled)) == settled


def test_guards_carry_three_different_units() -> None:
    """Basis points, micro-dollars an hour, microseconds."""
    guard = SetGuard(0, "h", rise=2_500, fall=1, hold=2, window=3)
    assert json.loads(encode(guard)) == {
        "type": "SetGuard",
        "at_us": 0,
        "tree": "h",
        "rise_basis_points": 2_500,
        "fall_micros_per_hour": 1,
        "hold_us": 2,
        "window_us": 3,
        "notice_us": None,
        "commit_us": None,
    }


def test_an_expiry_that_stays_is_left_out() -> None:
    """An amendment that keeps the expiry does not mention it; one that removes it says null."""
    keeps = Amend(5, "A", "a-1", price=7)
    removes = Amend(5, "A", "a-1", price=7, expires=None)
    assert "expires_us" not in json.loads(encode(keeps))
    assert json.loads(encode(removes))["expires_us"] is None
    kept, removed = decode_command(encode(keeps)), decode_command(encode(removes))
    assert isinstance(kept, Amend) and kept.expires is UNSET
    assert isinstance(removed, Amend) and removed.expires is None


def test_messages_are_values() -> None:
    """Equal by what they say, usable as keys, and never changed."""
    one, other = Cancel(5, "A", "a-1"), Cancel(5, "A", "a-1")
    assert one == other and hash(one) == hash(other) and one != Cancel(6, "A", "a-1")
    with pytest.raises(AttributeError):
        one.at = 6  # type: ignore[misc]


SETTLED = (
    b'{"type":"Settled","at_us":1,"tenant":"A","resource":"h/g","since_us":0,'
    b'"charge_micros_us_per_hour":5,"segments":%s}'
)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"nonsense",
        b"[]",
        b"{}",
        b'{"type":"Advance"}',
        b'{"type":"Advance","at":5}',
        b'{"type":"Advance","at_us":5.5}',
        b'{"type":"Advance","at_us":"5"}',
        b'{"type":"Advance","at_us":null}',
        b'{"type":"Advance","at_us":true}',
        b'{"type":"Advance","at_us":5}{"type":"Advance","at_us":6}',
        b'{"type":"Cancel","at_us":5,"tenant":"A","order":7}',
        b'{"type":"Cancel","at_us":5,"tenant":"A","order":"\\ud800"}',
        b'{"type":"Retreat","at_us":5}',
        b'{"type":"Quote","rate_micros_per_hour":5,"idle":true}',
        SETTLED % b"7",
        SETTLED % b"[[0,1,5]]",
        SETTLED % b'[[0,1,5,"greed"]]',
        SETTLED % b'[[0,1,"5","floor"]]',
    ],
)
def test_what_is_malformed_is_refused(line: bytes) -> None:
    """By an exception of the codec, which is a ValueError, never by a half-read message."""
    for decode in (decode_command, decode_event):
        with pytest.raises(msgspec.DecodeError) as refusal:
            decode(line)
        assert isinstance(refusal.value, ValueError)


def test_commands_and_events_are_not_confused() -> None:
    """What was asked is not what happened."""
    with pytest.raises(msgspec.ValidationError):
        decode_event(encode(Advance(5)))
    with pytest.raises(msgspec.ValidationError):
        decode_command(encode(Settled(5, "A", "h/g", 0, 0, Segments([]))))


@given(st.binary())
def test_noise_is_refused(noise: bytes) -> None:
    """Whatever the bytes."""
    with pytest.raises(ValueError, match=r"."):
        decode_command(noise)


# --- snapshots ----------------------------------------------------------------------------------


def market_with_a_bit_of_everything() -> Market:
    market = Market()
    market.set_floor("h", 10, at=0)
    market.set_floor("h/planned", 12, at=0)
    market.add_resource("h/a/g0", attributes={"host": "n1"}, at=0)
    market.add_resource("h/a/g1", at=0)
    market.guard("h", rise=2_500, fall=1, hold=50, window=100, at=0)
    market.place("A", "h", limit=20, order="a-1", at=1)
    market.place("B", "h/a/g0", price=15, order="b-1", at=2, expires=500)
    market.set_floor("h", 0, at=3)
    market.settle(at=4)
    market.set_limit("A", "h/a/g0", 11, at=5)
    return market


def test_a_snapshot_is_the_market() -> None:
    """What is restored answers, goes on, and is written again as the market it was taken of."""
    market = market_with_a_bit_of_everything()
    restored = Market.restore(market.snapshot())
    assert restored.snapshot() == market.snapshot()
    assert restored.now == market.now
    assert restored.digest() == market.digest()
    assert restored.advance(at=10_000) == market.advance(at=10_000) != ()
    assert restored.digest() == market.digest()


def test_an_empty_market_can_be_restored() -> None:
    """And is as empty."""
    assert Market.restore(Market().snapshot()).digest() == Market().digest()


def test_a_snapshot_holds_any_charge() -> None:
    """A charge has no bound: a year of one resource at $2 an hour does not fit into 64 bits."""
    year = 365 * 24 * 3_600_000_000
    market = Market()
    market.add_resource("h/g0", at=0)
    market.set_floor("h", 2_000_000, at=0)
    market.place("A", "h", limit=3_000_000, order="a", at=0)
    market.settle(at=year)
    restored = Market.restore(market.snapshot())
    assert restored.digest() == market.digest()
    assert restored.bill("A", at=year) == 2_000_000 * year > 2**64


def test_a_digest_depends_on_the_state_not_on_the_clock() -> None:
    """Time that passes without anything falling due leaves it alone; anything else does not."""
    market = market_with_a_bit_of_everything()
    before = market.digest()
    market.advance(at=6)
    assert market.digest() == before
    market.set_limit("A", "h/a/g0", 12, at=6)
    assert market.digest() != before


@pytest.mark.parametrize("data", [b"", b"{}", b"\xc1", b"\x80", b"\x90", b"\x01", b"snapshot"])
def test_garbage_is_not_a_snapshot(data: bytes) -> None:
    """Whoever tries is told so in a sentence."""
    with pytest.raises(ValueError, match=r"\w+ \w+ \w+ \w+"):
        Market.restore(data)


@given(st.binary(max_size=50))
def test_noise_is_not_a_snapshot(noise: bytes) -> None:
    """Whatever the bytes."""
    with pytest.raises(ValueError, match=r"\w+ \w+ \w+"):
        Market.restore(noise)


def test_a_torn_snapshot_is_refused() -> None:
    """Wherever it was torn."""
    snapshot = market_with_a_bit_of_everything().snapshot()
    for length in range(len(snapshot)):
        with pytest.raises(ValueError, match=r"."):
            Market.restore(snapshot[:length])
    with pytest.raises(ValueError, match=r"."):
        Market.restore(snapshot + b"\x00")


# --- segments -----------------------------------------------------------------------------------

TWO: tuple[Segment, ...] = ((0, 5, 2, "floor"), (5, 9, 3, "demand"))


def test_segments_are_a_sequence() -> None:
    """Everything that one may do with a tuple without changing it."""
    explained = Segments(TWO)
    assert len(explained) == 2
    assert list(explained) == list(TWO)
    assert list(reversed(explained)) == list(reversed(TWO))
    assert explained[0] == TWO[0] and explained[-1] == TWO[1] and explained[1:] == TWO[1:]
    assert TWO[0] in explained and explained.index(TWO[1]) == 1
    assert repr(explained) == repr(TWO)
    assert not Segments(())
    with pytest.raises(IndexError):
        explained[2]


def test_segments_equal_what_says_the_same() -> None:
    """Tuples and lists, from either side; nothing else."""
    explained = Segments(TWO)
    for same in (TWO, list(TWO)):
        assert explained == same and same == explained
    assert explained == Segments(TWO) and hash(explained) == hash(Segments(list(TWO))) == hash(TWO)
    assert explained != TWO[:1] and explained != Segments(()) and explained != "floor"


def test_segments_never_change() -> None:
    """Nor does the market they came from change when somebody tries."""
    explained = Segments(TWO)
    with pytest.raises(TypeError):
        explained[0] = TWO[1]  # type: ignore[index]
    with pytest.raises(TypeError):
        del explained[0]  # type: ignore[attr-defined]
    source = list(TWO)
    explained = Segments(source)
    source.clear()
    assert explained == TWO


def test_segments_are_worked_out_once_and_when_first_read() -> None:
    """Most explanations are never read."""
    reads = []

    def explain() -> tuple[Segment, ...]:
        reads.append("read")
        return TWO

    explained = Segments(explain)
    assert reads == []
    assert explained == TWO and len(explained) == 2 and explained[0] == TWO[0]
    assert reads == ["read"]
