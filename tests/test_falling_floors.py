"""Floors that fall step by step: the same however time passes, and never in too many steps."""

import pytest

from laissez.exchange.access import Limits, Principal, Token
from laissez.exchange.admission import check_instruction
from laissez.market import FloorSet, Market, Transferred
from laissez.model import ChangeGuard, Code, Event

WINDOW = 100


def falling_market() -> Market:
    """Two trees whose floors fall at different times, under holders and orders that wait."""
    market = Market()
    for tree, window in (("h", WINDOW), ("b", 70)):
        market.guard(tree, fall=3, hold=250, window=window, at=0)
        market.set_floor(tree, 100, at=0)
        for leaf in range(3):
            market.add_resource(f"{tree}/{leaf}", at=0)
    for tree in "hb":
        market.place("A", tree, limit=120, order=f"a-{tree}", at=1)
        market.place("B", tree, price=40, limit=60, order=f"b-{tree}", at=1, expires=1_300)
        market.place("C", tree, price=30, limit=50, order=f"c-{tree}", at=1)
    for tree in "hb":
        market.set_floor(tree, 0, at=150)
    return market


def test_steps_that_fall_due_together_act_each_at_its_own_instant() -> None:
    """Time that passes once over dozens of steps tells, moves and charges what it does if it
    passes step by step, so the exchange may let it pass as rarely as it likes."""
    at_once, by_and_by = falling_market(), falling_market()
    told = at_once.advance(at=50 * WINDOW)
    events: list[Event] = []
    while (due := by_and_by.next_timer()) is not None and due <= 50 * WINDOW:
        events += by_and_by.advance(at=due)
    events += by_and_by.advance(at=50 * WINDOW)
    assert told == tuple(events)
    assert sum(isinstance(event, FloorSet) for event in told) == 66
    assert sum(isinstance(event, Transferred) for event in told) == 3
    assert at_once.snapshot() == by_and_by.snapshot()
    now = at_once.now
    bills = [at_once.bill(tenant, now) for tenant in "ABC"]
    assert bills == [by_and_by.bill(tenant, now) for tenant in "ABC"]


OPERATOR = Principal(Token("op", "hash", "operator", None, 0), Limits())


@pytest.mark.parametrize(
    ("fall", "window"), [(1, 100), (1, 10**9), (999, 10**6), (10**6, 99_999), (10**12, 1)]
)
def test_floors_may_not_fall_in_too_many_steps(fall: int, window: int) -> None:
    """A guard under which a floor trickles is refused before it is written down."""
    refused = check_instruction(OPERATOR, 7, ChangeGuard("h", fall=fall, window=window), None)
    assert refused is not None
    assert (refused.id, refused.code) == (7, Code.BAD_GUARD)
    assert "in a window of at least 100 ms" in refused.message


@pytest.mark.parametrize(
    ("fall", "window"), [(1_000, 100_000), (0, 1), (None, 1), (10**6, 10**6), (1, None), (-1, 1)]
)
def test_other_guards_go_on_to_the_market(fall: int | None, window: int | None) -> None:
    """A guard with few steps or none, and one that the market itself has a word on."""
    do = ChangeGuard("h", rise=2_500, fall=fall, window=window)
    assert check_instruction(OPERATOR, 7, do, None) is None


def test_a_journaled_guard_means_what_it_meant() -> None:
    """The bound is the exchange's: the market itself takes any guard, as old journals have them."""
    market = Market()
    market.guard("h", fall=1, window=100, at=0)
    market.set_floor("h", 10, at=0)
    market.set_floor("h", 0, at=150)
    assert len(market.advance(at=1_000)) == 9
