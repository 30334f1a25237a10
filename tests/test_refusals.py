"""Bad input: every kind gets its refusal, with its code and a sentence, and changes nothing.

`REFUSALS` has one line for each call and each code that the reference promises for it; a test
holds the table against the reference. Then Hypothesis throws junk.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from laissez.market import Market, Rejected, Unanswerable
from laissez.model import Code, Event
from naive import NaiveMarket

NOW = 100
DUE = 110
LATER = 120
TOO_MUCH = 2**63
REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference.md"

HOUSE = Path(__file__).resolve().parent.parent / "src" / "laissez"

Arguments = dict[str, Any]
AnyMarket = Market | NaiveMarket


def set_the_scene(market: Any) -> Any:
    """At 100, A holds h/a/g0, h/a/g1 is idle and dear, B's order waits for it, C's until 110."""
    market.set_floor("h/a/g1", 50, at=0)
    market.set_floor("h/planned/g0", 7, at=0)
    market.add_resource("h/a/g0", attributes={"host": "n1"}, at=0)
    market.add_resource("h/a/g1", at=0)
    market.add_resource("h/gone", at=0)
    market.place("A", "h/a/g0", price=5, limit=20, order="a-1", at=0)
    market.place("B", "h/a/g1", price=8, limit=10, order="b-1", at=0)
    market.place("C", "h/a/g0", price=4, order="c-1", at=0, expires=DUE)
    market.add_resource("n/g0", at=0)
    market.add_resource("n/g1", at=0)
    market.guard("n", notice=500, at=0)
    market.place("A", "n/g0", price=5, limit=20, order="a-2", at=0)
    market.place("A", "n/g1", price=5, limit=90, order="a-3", at=0)
    market.place("B", "n/g0", price=30, order="b-4", at=0)  # A is called
    market.place("B", "n", limit=40, count=2, order="b-5", at=0)  # waits
    market.withdraw("h/gone", at=NOW)
    return market


def scene() -> Market:
    market = set_the_scene(Market())
    assert isinstance(market, Market)
    return market


# What each call is given here when nothing is wrong with it: each of these is accepted.
GOOD: dict[str, Arguments] = {
    "add_resource": {"path": "h/a/g2", "attributes": {"host": "n2"}},
    "withdraw": {"path": "h/a/g1"},
    "set_floor": {"scope": "h", "floor": 3},
    "guard": {"tree": "h", "rise": 2_500, "fall": 1, "hold": 5, "window": 10},
    "place": {"tenant": "B", "scope": "h", "price": 6, "limit": 9, "order": "b-2", "expires": 500},
    "amend": {"tenant": "B", "order": "b-1", "price": 7, "limit": 9, "expires": 500},
    "cancel": {"tenant": "B", "order": "b-1"},
    "set_limit": {"tenant": "A", "path": "h/a/g0", "limit": 30},
    "relinquish": {"tenant": "A", "path": "h/a/g0"},
    "advance": {},
    "settle": {},
}

# (call, code, what is wrong)
REFUSALS: list[tuple[str, Code, Arguments]] = [
    ("add_resource", Code.BAD_PATH, {"path": "h//g0"}),
    ("add_resource", Code.BAD_PATH, {"path": ""}),
    ("add_resource", Code.BAD_PATH, {"path": "h/ g0"}),
    ("add_resource", Code.BAD_PATH, {"path": "h/g\n0"}),
    ("add_resource", Code.BAD_PATH, {"path": None}),
    ("add_resource", Code.ROOT_IS_NOT_A_RESOURCE, {"path": "h200"}),
    ("add_resource", Code.BAD_ATTRIBUTES, {"attributes": {"slot": 3}}),
    ("add_resource", Code.BAD_ATTRIBUTES, {"attributes": {3: "slot"}}),
    ("add_resource", Code.BAD_ATTRIBUTES, {"attributes": "slot 3"}),
    ("add_resource", Code.BAD_ATTRIBUTES, {"attributes": {"not UTF-8": "\ud800"}}),
    ("add_resource", Code.RESOURCE_EXISTS, {"path": "h/a/g0"}),
    ("add_resource", Code.PATH_IS_A_SCOPE, {"path": "h/a"}),
    ("add_resource", Code.PATH_IS_A_SCOPE, {"path": "h/planned"}),
    ("add_resource", Code.PATH_UNDER_A_RESOURCE, {"path": "h/a/g0/half"}),
    ("withdraw", Code.BAD_PATH, {"path": "/"}),
    ("withdraw", Code.UNKNOWN_RESOURCE, {"path": "h/gone"}),
    ("withdraw", Code.UNKNOWN_RESOURCE, {"path": "h/a"}),
    ("set_floor", Code.BAD_PATH, {"scope": "h/"}),
    ("set_floor", Code.BAD_FLOOR, {"floor": -1}),
    ("set_floor", Code.BAD_FLOOR, {"floor": 2.5}),
    ("set_floor", Code.BAD_FLOOR, {"floor": True}),
    ("set_floor", Code.BAD_FLOOR, {"floor": TOO_MUCH}),
    ("set_floor", Code.PATH_UNDER_A_RESOURCE, {"scope": "h/a/g0/half"}),
    ("guard", Code.BAD_PATH, {"tree": " h"}),
    ("guard", Code.NOT_A_TREE, {"tree": "h/a"}),
    ("guard", Code.BAD_GUARD, {"rise": -1}),
    ("guard", Code.BAD_GUARD, {"fall": "1"}),
    ("guard", Code.BAD_GUARD, {"hold": TOO_MUCH}),
    ("guard", Code.BAD_GUARD, {"window": 0}),
    ("guard", Code.BAD_GUARD, {"notice": -1}),
    ("guard", Code.BAD_GUARD, {"notice": 86_400_000_001}),
    ("guard", Code.BAD_GUARD, {"commit": 86_400_000_001}),
    ("guard", Code.BAD_GUARD, {"commit": "30s"}),
    ("guard", Code.BAD_GUARD, {"fall": None, "window": None}),
    ("guard", Code.BAD_GUARD, {"rise": None, "window": None}),
    ("place", Code.BAD_TENANT, {"tenant": ""}),
    ("place", Code.BAD_TENANT, {"tenant": None}),
    ("place", Code.BAD_ORDER_ID, {"order": "b\t2"}),
    ("place", Code.BAD_PATH, {"scope": "h//a"}),
    ("place", Code.BAD_PATH, {"scope": ["h"]}),
    ("place", Code.UNKNOWN_SCOPE, {"scope": "h200"}),
    ("place", Code.UNKNOWN_SCOPE, {"scope": "h/planned"}),
    ("place", Code.UNKNOWN_SCOPE, {"scope": "h/gone"}),
    ("place", Code.NO_PRICE, {"price": None, "limit": None}),
    ("place", Code.BAD_PRICE, {"price": 0}),
    ("place", Code.BAD_PRICE, {"price": 6.0}),
    ("place", Code.BAD_LIMIT, {"price": None, "limit": 0}),
    ("place", Code.BAD_LIMIT, {"limit": "9"}),
    ("place", Code.BAD_LIMIT, {"limit": TOO_MUCH}),
    ("place", Code.PRICE_ABOVE_LIMIT, {"price": 10}),
    ("place", Code.BAD_COUNT, {"count": 0}),
    ("place", Code.BAD_COUNT, {"count": -1}),
    ("place", Code.BAD_COUNT, {"count": 2.0}),
    ("place", Code.BAD_COUNT, {"count": "8"}),
    ("place", Code.BAD_WITHIN, {"within": 1}),
    ("place", Code.BAD_WITHIN, {"within": 0, "count": 2, "price": None}),
    ("place", Code.BAD_WITHIN, {"within": 4, "count": 2, "price": None}),
    ("place", Code.BAD_WITHIN, {"within": "a", "count": 2, "price": None}),
    ("place", Code.DOMAIN_TOO_SMALL, {"count": 3, "price": None}),
    ("place", Code.DOMAIN_TOO_SMALL, {"count": 10**9, "price": None}),
    ("place", Code.DOMAIN_TOO_SMALL, {"within": 3, "count": 2, "price": None}),
    ("place", Code.GANG_HAS_NO_PRICE, {"count": 2}),
    ("place", Code.ORDER_ID_TAKEN, {"order": "b-4"}),
    ("place", Code.BAD_EXPIRY, {"expires": LATER}),
    ("place", Code.BAD_EXPIRY, {"expires": TOO_MUCH}),
    ("place", Code.ORDER_ID_TAKEN, {"order": "b-1"}),
    ("amend", Code.BAD_TENANT, {"tenant": 7}),
    ("amend", Code.BAD_ORDER_ID, {"order": ""}),
    ("amend", Code.UNKNOWN_ORDER, {"order": "b-2"}),
    ("amend", Code.UNKNOWN_ORDER, {"tenant": "A"}),
    ("amend", Code.UNKNOWN_ORDER, {"tenant": "A", "order": "a-1"}),
    ("amend", Code.BAD_PRICE, {"price": -7}),
    ("amend", Code.BAD_LIMIT, {"limit": 0}),
    ("amend", Code.PRICE_ABOVE_LIMIT, {"price": None, "limit": 7}),
    ("amend", Code.PRICE_ABOVE_LIMIT, {"price": 11, "limit": None}),
    ("amend", Code.BAD_EXPIRY, {"expires": NOW}),
    ("amend", Code.GANG_HAS_NO_PRICE, {"order": "b-5"}),
    ("amend", Code.BAD_LIMIT, {"order": "b-5", "price": None, "limit": 0}),
    ("amend", Code.BAD_EXPIRY, {"order": "b-5", "price": None, "expires": NOW}),
    ("cancel", Code.BAD_TENANT, {"tenant": "B "}),
    ("cancel", Code.BAD_ORDER_ID, {"order": b"b-1"}),
    ("cancel", Code.UNKNOWN_ORDER, {"tenant": "C"}),
    ("cancel", Code.UNKNOWN_ORDER, {"tenant": "C", "order": "c-1"}),
    ("set_limit", Code.BAD_TENANT, {"tenant": None}),
    ("set_limit", Code.BAD_PATH, {"path": "h/a/"}),
    ("set_limit", Code.UNKNOWN_RESOURCE, {"path": "h/a"}),
    ("set_limit", Code.BAD_LIMIT, {"limit": -1}),
    ("set_limit", Code.BAD_LIMIT, {"limit": None}),
    ("set_limit", Code.NOT_THE_HOLDER, {"tenant": "B"}),
    ("set_limit", Code.NOT_THE_HOLDER, {"path": "h/a/g1"}),
    ("set_limit", Code.NOT_THE_HOLDER, {"path": "n/g0", "tenant": "B"}),
    ("set_limit", Code.ALREADY_CALLED, {"path": "n/g0"}),
    ("relinquish", Code.BAD_TENANT, {"tenant": "\x00"}),
    ("relinquish", Code.BAD_PATH, {"path": 5}),
    ("relinquish", Code.UNKNOWN_RESOURCE, {"path": "h/gone"}),
    ("relinquish", Code.NOT_THE_HOLDER, {"tenant": "B"}),
]

BAD_TIMES: list[tuple[Code, Any]] = [
    (Code.BAD_TIME, -1),
    (Code.BAD_TIME, TOO_MUCH),
    (Code.BAD_TIME, 120.0),
    (Code.BAD_TIME, True),
    (Code.BAD_TIME, "120"),
    (Code.BAD_TIME, None),
    (Code.TIME_WENT_BACK, NOW - 1),
    (Code.TIME_WENT_BACK, 0),
]

# What only a question can be answered with.
OF_QUESTIONS = {Code.SCOPE_NOT_VISIBLE, Code.BEYOND_NEXT_TIMER}


def call(market: Any, name: str, **arguments: Any) -> tuple[Event, ...]:
    method: Callable[..., tuple[Event, ...]] = getattr(market, name)
    return method(**arguments)


def check_is_refusal(event: Event, code: Code) -> None:
    assert isinstance(event, Rejected), event
    assert event.code == code
    assert len(event.message.split()) >= 4, "a sentence, not a word"
    assert event.message.isprintable() and len(event.message) < 400


# --- the table ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GOOD)
def test_what_is_right_is_accepted(name: str) -> None:
    """The scene refuses nothing by itself, so what is refused below is refused for its flaw."""
    events = call(scene(), name, **GOOD[name], at=LATER)
    assert not any(isinstance(event, Rejected) for event in events)


@pytest.mark.parametrize(("name", "code", "flaw"), REFUSALS)
def test_a_flaw_is_refused_and_changes_nothing(name: str, code: Code, flaw: Arguments) -> None:
    """The refusal comes last; before it, and in the state, is only what time has brought."""
    market, untouched = scene(), scene()
    events = call(market, name, **GOOD[name] | flaw, at=LATER)
    check_is_refusal(events[-1], code)
    assert events[-1].at == LATER
    assert events[:-1] == untouched.advance(at=LATER) != ()
    assert market.digest() == untouched.digest()
    before = market.digest()
    assert call(market, name, **GOOD[name] | flaw, at=LATER) == events[-1:]
    assert market.digest() == before


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize(("code", "at"), BAD_TIMES)
def test_a_wrong_time_is_refused_and_no_time_passes(name: str, code: Code, at: Any) -> None:
    """Whatever else is right or wrong with the command."""
    market = scene()
    before = market.digest()
    for arguments in (GOOD[name], dict.fromkeys(GOOD[name])):
        events = call(market, name, **arguments, at=at)
        assert len(events) == 1
        check_is_refusal(events[0], code)
        assert events[0].at == market.now == NOW
        assert market.next_timer() == DUE
        assert market.digest() == before


def test_an_absurdly_large_number_is_refused_like_any_other() -> None:
    """Also one that Python would not write out."""
    absurd = 10**5_000
    market = scene()
    before = market.digest()
    for name, arguments in GOOD.items():
        check_is_refusal(call(market, name, **arguments, at=absurd)[-1], Code.BAD_TIME)
        for argument, value in arguments.items():
            if isinstance(value, int):
                flawed = arguments | {argument: absurd}
                assert isinstance(call(market, name, **flawed, at=NOW)[-1], Rejected)
    assert market.digest() == before


def test_the_table_has_every_code_of_every_call() -> None:
    """What the reference promises is tested, and what is tested is promised."""
    promised: set[tuple[str, str]] = set()
    for section in REFERENCE.read_text().split("\n### ")[1:]:
        name = re.match(r"`(\w+)", section)
        refusals = re.search(r"^Refusals: ([^.]*)\.", section, re.MULTILINE)
        if name and refusals:
            promised |= {(name[1], code) for code in re.findall(r"`(\w+)`", refusals[1])}
    assert promised == {(name, str(code)) for name, code, _ in REFUSALS}
    tested = {code for _, code, _ in REFUSALS} | {code for code, _ in BAD_TIMES}
    assert tested == set(Code) - OF_QUESTIONS


def test_the_first_flaw_is_named() -> None:
    """Arguments are checked in the order that the reference lists, path before price."""
    flawed = {"tenant": "", "scope": "", "price": 0, "limit": 0, "order": "", "expires": 0}
    seen = []
    for argument, good in (
        ("tenant", "B"),
        ("order", "b-1"),
        ("scope", "h"),
        ("price", 12),
        ("limit", 10),
        ("price", 10),
        ("expires", None),
    ):
        refused = call(scene(), "place", **flawed, at=NOW)[-1]
        assert isinstance(refused, Rejected)
        seen.append(refused.code)
        flawed[argument] = good
    refused = call(scene(), "place", **flawed, at=NOW)[-1]
    assert isinstance(refused, Rejected)
    assert [*seen, refused.code] == [
        Code.BAD_TENANT,
        Code.BAD_ORDER_ID,
        Code.BAD_PATH,
        Code.BAD_PRICE,
        Code.BAD_LIMIT,
        Code.PRICE_ABOVE_LIMIT,
        Code.BAD_EXPIRY,
        Code.ORDER_ID_TAKEN,
    ]


# --- questions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "question"),
    [
        (Code.UNKNOWN_RESOURCE, lambda market: market.owner("h/gone")),
        (Code.UNKNOWN_RESOURCE, lambda market: market.limit("h/a")),
        (Code.UNKNOWN_RESOURCE, lambda market: market.rate("h200/g0")),
        (Code.UNKNOWN_RESOURCE, lambda market: market.attributes("h/gone")),
        (Code.NOT_THE_HOLDER, lambda market: market.attributes("h/a/g0", "B")),
        (Code.BAD_TIME, lambda market: market.bill("A", at=-1)),
        (Code.BAD_TIME, lambda market: market.segments("A", at=100.0)),
        (Code.TIME_WENT_BACK, lambda market: market.revenue(at=NOW - 1)),
        (Code.BEYOND_NEXT_TIMER, lambda market: market.bill("A", at=DUE + 1)),
        (Code.BEYOND_NEXT_TIMER, lambda market: market.segments("A", at=DUE + 1)),
        (Code.BEYOND_NEXT_TIMER, lambda market: market.revenue(at=DUE + 1)),
    ],
)
def test_a_question_without_an_answer_raises(
    code: Code, question: Callable[[Market], object]
) -> None:
    """With the same codes, and a sentence."""
    market = scene()
    before = market.digest()
    with pytest.raises(Unanswerable) as refusal:
        question(market)
    assert refusal.value.code == code
    assert str(refusal.value) == refusal.value.message
    assert len(refusal.value.message.split()) >= 4
    assert market.digest() == before


def test_a_scope_that_is_not_visible_is_refused_by_an_event() -> None:
    """Whoever serves tenants can send it as it is."""
    refused = scene().check_visible("B", "h/a")
    assert refused is not None
    check_is_refusal(refused, Code.SCOPE_NOT_VISIBLE)


# --- junk ---------------------------------------------------------------------------------------

PATHS = [
    "h",
    "h/a",
    "h/a/g0",
    "h/a/g1",
    "h/gone",
    "h/planned/g0",
    "t/new",
    "h//a",
    "/h",
    "h/\n",
    "",
]
texts = st.sampled_from([*PATHS, "A", "B", "b-1", " ", "A ", "\x00", "\x1b[2J", "\ud800", "é/漢"])
numbers = st.sampled_from([0, 1, 5, 99, NOW, DUE, LATER, -1, TOO_MUCH - 1, TOO_MUCH, 2**64, 10**30])
atoms: st.SearchStrategy[Any] = st.one_of(
    texts,
    numbers,
    st.none(),
    st.booleans(),
    st.floats(),
    st.text(max_size=5),
    st.integers(),
    st.binary(max_size=3),
    st.just(UNSET),
    st.builds(object),
)
junk = st.one_of(
    atoms,
    st.lists(atoms, max_size=3),
    st.dictionaries(st.one_of(st.text(max_size=5), st.integers()), atoms, max_size=3),
    st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=2).map(tuple),
)


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, Arguments]:
    """A call with some of its arguments replaced by junk."""
    name = draw(st.sampled_from(sorted(GOOD)))
    arguments = GOOD[name] | {"at": LATER}
    for argument in draw(st.lists(st.sampled_from(sorted(arguments)), min_size=1, max_size=2)):
        arguments[argument] = draw(junk)
    return name, arguments


def code_of(events: tuple[Event, ...]) -> str | None:
    return events[-1].code if events and isinstance(events[-1], Rejected) else None


@settings(max_examples=4 * settings().max_examples)
@given(st.lists(calls(), min_size=1, max_size=4))
def test_junk_never_raises(given_calls: list[tuple[str, Arguments]]) -> None:
    """It is refused as the oracle refuses it and leaves no trace, or it is really acceptable."""
    market, untouched, oracle = scene(), scene(), set_the_scene(NaiveMarket())
    for name, arguments in given_calls:
        timer, before = market.next_timer(), market.digest()
        events = call(market, name, **arguments)
        code = code_of(events)
        assert code == code_of(call(oracle, name, **arguments))
        if code is not None:
            check_is_refusal(events[-1], Code(code))
            if timer is None or market.now < timer:
                assert market.digest() == before
            untouched.advance(at=market.now)
        else:
            call(untouched, name, **arguments)
        assert market.digest() == untouched.digest()
        assert Market.restore(market.snapshot()).digest() == market.digest()


@pytest.mark.parametrize("room", ["market", "exchange", "model"])
def test_a_refusal_names_no_command_line(room: str) -> None:
    """Whoever is refused may have come by REST, the socket or the SDK: only the command line tells
    people which of its commands to use."""
    for path in (HOUSE / room).glob("*.py"):
        assert "'laissez " not in path.read_text(), path.name
