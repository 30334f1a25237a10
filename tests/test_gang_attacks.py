"""What a tenant could do to others with gangs, calls and cordons, and what it comes to."""

from collections.abc import Callable
from typing import Any

import pytest

from laissez.exchange.records import Cordon
from laissez.exchange.venue import Venue
from laissez.market import Market, gangs
from laissez.model import (
    AddResource,
    Called,
    Place,
    Relinquish,
    ResourceWithdrawn,
    SetGuard,
    Settled,
    Transferred,
)

RACKS = tuple(f"h/r{rack}/g{leaf}" for rack in range(4) for leaf in range(8))


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How often a domain is read for a gang, in the one number of the list."""
    looks = [0]
    fit: Callable[..., Any] = gangs._fit

    def look(*given: Any) -> Any:
        looks[0] += 1
        return fit(*given)

    monkeypatch.setattr(gangs, "_fit", look)
    return looks


def held(limit: int) -> Market:
    market = Market()
    for path in RACKS:
        market.add_resource(path, at=0)
        market.place("V", path, price=1, limit=limit, order=path, at=0)
    return market


def test_however_many_gangs_wait_in_vain_one_of_them_is_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An order of the holder's own keeps its leaves from gangs, which the index does not know."""
    market = held(limit=60)
    for number in range(200):
        market.place("A", "h", limit=50, count=2, within=2, order=f"a{number}", at=1)
    market.place("V", "h", price=55, order="more", at=1)
    looks = counted(monkeypatch)
    for path in RACKS[:8]:
        market.set_limit("V", path, 2, at=2)
    assert market.order_count("A") == 200
    assert 0 < looks[0] <= 8


def test_only_the_domain_that_changed_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    market = held(limit=2)
    market.place("V", "h", price=55, order="more", at=1)
    market.place("A", "h", limit=50, count=2, within=2, order="a", at=1)
    looks = counted(monkeypatch)
    market.set_limit("V", RACKS[0], 60, at=2)
    market.set_limit("V", RACKS[0], 1, at=2)
    assert looks[0] == 1
    market.cancel("V", "more", at=3)  # and when it is gone, it is filled where it is cheapest
    assert market.holdings("A") == RACKS[:2]


def venue_under_a_cordon(commit: int | None, notice: int | None) -> Venue:
    venue = Venue()
    for path in ("h/0", "h/1"):
        venue.apply(AddResource(0, path))
    venue.apply(SetGuard(0, "h", notice=notice, commit=commit))
    venue.apply(Place(0, "ada", "ada/1", "h/0", 3, 9))
    venue.apply(Place(0, "ada", "ada/2", "h/1", 3, 9))
    venue.apply(Cordon(1, "h"))
    return venue


def test_who_leaves_under_a_cordon_owes_the_rest_of_its_commitment() -> None:
    """Else what is drained could be won and thrown away for nothing."""
    venue = venue_under_a_cordon(commit=100, notice=None)
    events = venue.apply(Relinquish(2, "ada", "h/0"))
    settled, moved, gone = events
    assert isinstance(settled, Settled) and settled.segments[-1] == (2, 100, 3, "commit")
    assert isinstance(moved, Transferred) and moved.reason == "relinquished"
    assert gone == ResourceWithdrawn(2, "h/0")


def test_what_is_promised_under_a_cordon_is_given() -> None:
    """The holder that leaves can't break a promise that waiting would have kept."""
    venue = venue_under_a_cordon(commit=None, notice=50)
    events = venue.apply(Place(2, "bob", "bob/1", "h/0", 20, 20))
    assert any(isinstance(event, Called) for event in events)
    venue.apply(Relinquish(3, "ada", "h/0"))
    assert venue.market.owner("h/0") == "bob"


def test_a_floor_passes_on_to_ones_own_gang_also_if_another_is_filled_before() -> None:
    """A's own gang takes what A would lose, without notice, after a better one was filled."""
    market = Market()
    for path in ("h/d0/a0", "h/d0/a1", "h/d1/b0", "h/d1/b1", "h/d1/c0"):
        market.add_resource(path, at=0)
    for path, tenant, limit in (
        ("h/d0/a0", "A", 2),
        ("h/d0/a1", "B", 6),
        ("h/d1/b0", "A", 5),
        ("h/d1/b1", "A", 5),
        ("h/d1/c0", "A", 1),
    ):
        market.place(tenant, path, price=1, limit=limit, order=path, at=0)
    market.guard("h", notice=100, at=0)
    market.place("A", "h/d1", price=9, order="O", at=1)
    market.place("X", "h/d1", limit=8, count=2, order="X", at=1)
    market.place("A", "h/d0", limit=7, count=2, order="own", at=1)
    events = market.set_floor("h", 4, at=2)
    called = {event.resource for event in events if isinstance(event, Called)}
    assert "h/d0/a0" not in called
    assert market.limit("h/d0/a0") == 7


def test_calls_that_are_over_count_towards_what_is_remembered() -> None:
    """They are kept to explain a bill, so a statement must let go of them in time."""
    market = Market()
    market.add_resource("h/0", at=0)
    market.guard("h", notice=10, at=0)
    market.place("A", "h", price=1, limit=5, order="a", at=0)
    before = market.steps_remembered()
    for at in range(1, 21):
        market.place("B", "h", price=9, order="b", at=at)
        market.relinquish("B", "h/0", at=at + 1)
    assert market.called("h/0") is None
    assert market.steps_remembered() >= before + 19
    restored = Market.restore(market.snapshot())
    assert restored.steps_remembered() >= before + 19
    market.settle(at=30)
    assert market.steps_remembered() <= before
