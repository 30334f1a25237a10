"""Charges, where the oracle's short runs don't reach: long pasts, and meetings at one instant."""

import random
import sys
from types import FrameType
from typing import Any

import pytest

from laissez.market import Market, Settled, trunks
from laissez.market.charges import ChargeTrace
from laissez.market.steps import PressureStep
from laissez.market.trunks import Trunk

LEAVES = [
    f"h/z{z}/r{r}/h{n}/g{g}" for z in range(2) for r in range(2) for n in range(2) for g in "01"
]
TENANTS = [f"t{number}" for number in range(6)]


def explained(settled: Settled) -> int:
    return sum((until - since) * rate for since, until, rate, _ in settled.segments)


@pytest.mark.parametrize("seed", range(4))
def test_a_long_past_is_charged_as_it_is_explained(seed: int) -> None:
    """After thousands of changes at all depths, meters and explanations come to the same sum."""
    choose = random.Random(seed)
    market = Market()
    for leaf in LEAVES:
        market.add_resource(leaf, at=0)
        market.place(choose.choice(TENANTS), leaf, limit=1_000, order=f"first at {leaf}", at=0)
    live: list[tuple[str, str]] = []
    statements = 0
    for at in range(1, 4_000):
        what = choose.random()
        if what < 0.55:
            depth = choose.choice((1, 1, 1, 2, 2, 3, 4, 5))
            scope = "/".join(choose.choice(LEAVES).split("/")[:depth])
            tenant, order = choose.choice(TENANTS), f"o{at}"
            market.place(tenant, scope, price=choose.randint(1, 99), limit=99, order=order, at=at)
            live.append((tenant, order))
        elif what < 0.98 and live:
            tenant, order = live.pop(choose.randrange(len(live)))
            market.cancel(tenant, order, at=at)
        else:
            leaf = choose.choice(LEAVES)
            for event in market.relinquish(market.owner(leaf) or "nobody", leaf, at=at):
                if isinstance(event, Settled):
                    assert event.charge == explained(event)
                    statements += 1
    for event in market.settle(at=4_000):
        assert isinstance(event, Settled)
        assert event.charge == explained(event)
        statements += 1
    assert statements > 50
    assert market.revenue(4_000) == sum(market.bill(tenant, 4_000) for tenant in TENANTS)


def test_an_order_that_goes_in_the_instant_a_period_begins_is_not_charged() -> None:
    """What pressed for no time at all costs nothing, also right after a statement."""
    market = Market()
    market.add_resource("h/g0", at=0)
    market.add_resource("h/g1", at=0)
    market.place("A", "h", limit=9, order="a", at=0)
    market.place("B", "h", limit=9, order="b", at=0)
    market.place("C", "h", price=5, order="c", at=1)
    market.settle(at=4)
    market.relinquish("B", "h/g1", at=4)
    assert market.owner("h/g1") == "C"
    [a, c] = market.settle(at=9)
    assert isinstance(a, Settled) and isinstance(c, Settled)
    assert (a.tenant, a.charge) == ("A", 0)
    assert (c.tenant, c.charge) == ("C", 0)


def test_a_hold_is_added_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rival's price goes up and down, above the cap and below. A bill that is read at every
    instant, also for later ones, is what the prices come to, a statement in between or not; and no
    reading looks again at what an earlier one has added up."""
    looked_at: list[int] = []
    spared = ChargeTrace.spared

    def watched(trace: ChargeTrace, trunk: Trunk | None) -> int:
        looked_at.append(trace.until - trace.since)
        return spared(trace, trunk)

    monkeypatch.setattr(ChargeTrace, "spared", watched)
    market = Market()
    market.add_resource("h/g0", at=0)
    market.guard("h", hold=500, at=0)
    market.place("A", "h", limit=10, order="a", at=0)
    owed = price = 0
    for at in range(1, 200):
        owed += min(price, 10)
        price = at * 7 % 20 + 1
        market.place("B", "h", price=price, order=f"b{at}", at=at)
        market.cancel("B", f"b{at - 1}", at=at)
        assert market.bill("A", at) == owed
        assert market.bill("A", at + 30) == owed + 30 * min(price, 10)
        if at == 60:
            [statement] = market.settle(at=at)
            assert isinstance(statement, Settled)
            assert statement.charge == explained(statement) == owed
    assert market.bill("A", 500) == owed + 301 * min(price, 10)
    assert max(looked_at) == 1


class CountedSteps(list[PressureStep]):
    """The steps of a book, and how many of them were looked at."""

    def __init__(self, steps: list[PressureStep]) -> None:
        super().__init__(steps)
        self.looked_at = 0

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        self.looked_at += len(found) if isinstance(index, slice) else 1
        return found


def count_steps(market: Market, scope: str) -> CountedSteps:
    book = market._state.nodes[scope].book
    assert book is not None
    book.steps = counted = CountedSteps(book.steps)
    return counted


def test_what_came_after_a_hold_is_not_looked_at() -> None:
    """A hold is added up as far as it goes: the first bill after a short one does not read all
    that has changed since, once for each of many holdings."""
    holdings, changes = 100, 1_000
    market = Market()
    market.guard("h", hold=2, at=0)
    for number in range(holdings):
        market.add_resource(f"h/g{number}", at=1)
        market.place("A", "h", limit=10, order=f"a{number}", at=1)
    market.set_floor("h", 12, at=2)
    for number in range(holdings):
        market.set_limit("A", f"h/g{number}", 10**6, at=2)
    for at in range(3, changes):
        market.set_floor("h", 20 + at % 2, at=at)
    counted = count_steps(market, "h")
    owed = 10 + sum(20 + at % 2 for at in range(3, changes))
    assert market.bill("A", changes) == holdings * owed
    assert counted.looked_at < 10 * changes, "and not a thousand for each of a hundred"


def test_a_long_hold_is_added_up_once_for_all_holdings() -> None:
    """While a hold lasts, its holdings share the past that they have in common: the first bill,
    that of a restored market and all statements at once read it a few times, and not once each."""
    holdings, changes = 100, 1_000
    market = Market()
    market.guard("h", hold=10**9, at=0)
    for number in range(holdings):
        market.add_resource(f"h/z/g{number}", at=1)
        market.place("A", "h", limit=10 + number, order=f"a{number}", at=1)
    for at in range(2, changes):
        for scope, rival in (("h", "B"), ("h/z", "A")):
            market.place(rival, scope, price=1 + at % 200, order=f"{rival}{at}", at=at)
            market.cancel(rival, f"{rival}{at - 1}", at=at)
    owed = sum(min(1 + at % 200, 10 + n) for at in range(2, changes) for n in range(holdings))
    for one in (market, Market.restore(market.snapshot()), Market.restore(market.snapshot())):
        counted = [count_steps(one, scope) for scope in ("h", "h/z")]
        if one is market:
            assert one.bill("A", changes - 1) == owed - sum(
                min(1 + (changes - 1) % 200, 10 + n) for n in range(holdings)
            )
        assert one.bill("A", changes) == owed
        statements = one.settle(at=changes)
        assert sum(s.charge for s in statements if isinstance(s, Settled)) == owed
        assert sum(steps.looked_at for steps in counted) < 30 * changes, "not a hundred times"


@pytest.mark.parametrize("presses", ["B", "A"], ids=["a rival", "the holder itself"])
@pytest.mark.parametrize("scope", ["h", "h/z", "h/z/r"])
def test_a_scope_is_looked_at_once_for_all_books_under_it(scope: str, presses: str) -> None:
    """Each of many holdings has a rival at its own resource, and above them a price changes all the
    time, at whatever depth: the first bill looks at these changes a few times, and not once for
    each holding."""
    holdings, changes = 60, 1_000
    market = Market()
    for number in range(holdings):
        market.add_resource(f"h/z/r/g{number}", at=0)
        market.place("A", "h", limit=10**6, order=f"a{number}", at=0)
        market.place("C", f"h/z/r/g{number}", price=100 + number, order=f"c{number}", at=0)
    prices = [0, *(1 + at * 7 % 200 for at in range(1, changes))]
    for at in range(1, changes):
        market.place(presses, scope, price=prices[at], order=f"p{at}", at=at)
        market.cancel(presses, f"p{at - 1}", at=at)
    above = [0] * changes if presses == "A" else prices
    owed = sum(max(100 + number, price) for number in range(holdings) for price in above)
    counted = count_steps(market, scope)
    assert market.bill("A", changes) == owed
    assert counted.looked_at < 30 * changes, "not sixty times"


def test_own_changes_of_a_ground_are_not_looked_at_one_by_one() -> None:
    """A holder whose own order presses most in the tree, and changes all the time, is billed for
    each of its holdings by sorted blocks: not by one change after the other."""
    holdings, changes = 50, 3_000
    market = Market()
    for number in range(holdings):
        market.add_resource(f"h/g{number}", at=0)
        market.place("A", "h", limit=10**6, order=f"a{number}", at=0)
        market.place("C", f"h/g{number}", price=100 + number, order=f"c{number}", at=0)
    for at in range(1, changes):
        market.place("A", "h", price=1 + at * 7 % 200, order=f"p{at}", at=at)
        market.cancel("A", f"p{at - 1}", at=at)
    lines = 0

    def count(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        bill = market.bill("A", changes)
    finally:
        sys.settrace(before)
    assert bill == sum(100 + number for number in range(holdings)) * changes
    assert lines < 100 * changes, "and not some for each change and each of fifty holdings"


@pytest.mark.parametrize("looks_per_change", [0, 1, 16])
@pytest.mark.parametrize("seed", range(3))
def test_a_hold_spares_what_its_explanation_says(
    monkeypatch: pytest.MonkeyPatch, seed: int, looks_per_change: int
) -> None:
    """Wherever the past that holdings share ends: after changes at all depths, by strangers and by
    the holders themselves, billed at some instants, cut, restored in the middle of holds and at
    their ends, every statement is the sum of its segments."""
    monkeypatch.setattr(trunks, "LOOKS_PER_CHANGE", looks_per_change)
    choose = random.Random(seed)
    market = Market()
    market.guard("h", hold=400, at=0)
    for leaf in LEAVES:
        market.add_resource(leaf, at=0)
        limit = choose.randint(20, 90)
        market.place(choose.choice(TENANTS), leaf, limit=limit, order=f"first at {leaf}", at=0)
    live: list[tuple[str, str]] = []
    spared = statements = 0
    for at in range(1, 2_500):
        events: list[object] = list(market.advance(at=at))
        what = choose.random()
        if what < 0.95 and (len(live) < 5 or what < 0.45):
            depth = choose.choice((1, 1, 1, 2, 2, 3, 4, 5))
            scope = "/".join(choose.choice(LEAVES).split("/")[:depth])
            tenant, order, price = choose.choice(TENANTS), f"o{at}", choose.randint(1, 99)
            limit = price + choose.randint(0, 30)
            events += market.place(tenant, scope, price=price, limit=limit, order=order, at=at)
            live.append((tenant, order))
        elif what < 0.95:
            tenant, order = live.pop(choose.randrange(len(live)))
            events += market.cancel(tenant, order, at=at)
        elif what < 0.98:
            leaf = choose.choice(LEAVES)
            events += market.relinquish(market.owner(leaf) or "nobody", leaf, at=at)
        elif what < 0.985:
            restored = Market.restore(market.snapshot())
            assert restored.revenue(at) == market.revenue(at)
            market = restored
        else:
            market.bill(choose.choice(TENANTS), at)
        if at in (900, 2_499):
            events += market.settle(at=at)
        for event in events:
            if isinstance(event, Settled):
                assert event.charge == explained(event)
                spared += sum(cause == "hold" for *_, cause in event.segments)
                statements += 1
    assert statements > 50
    assert spared > 100
