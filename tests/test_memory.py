"""What the market remembers is bounded by what is live.

Each test does the same small thing thousands of times, under ever new names and at ever later
times, and leaves nothing alive behind. After the first half every cache has its size; the second
half must not add to it. What comes once in a thousand cycles is noise, what stays behind in every
cycle is a leak, and the bound tells them apart: it is a few bytes per cycle.
"""

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import laissez
from laissez.market import Market, Rejected
from laissez.model import Command, Event

CYCLES = 3_000
BYTES_PER_CYCLE = 8
"""A remembered integer or pointer per cycle is more than this."""

OURS = [
    tracemalloc.Filter(True, str(Path(laissez.__file__).parent / "*")),
    tracemalloc.Filter(True, __file__),
]
Cycle = Callable[[int], None]


class WillingMarket(Market):
    """A market in which a refusal is a mistake of the test."""

    def apply(self, command: Command) -> tuple[Event, ...]:
        events = super().apply(command)
        assert not (events and isinstance(events[-1], Rejected)), events[-1]
        return events


@pytest.fixture(autouse=True)
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def check_nothing_stays_behind(market: Market, cycle: Cycle) -> None:
    """Run a cycle many times; neither memory nor the written state may grow meanwhile."""
    for number in range(CYCLES):
        cycle(number)
    memory, written = memory_now(), len(market.snapshot())
    for number in range(CYCLES, 2 * CYCLES):
        cycle(number)
    assert memory_now() - memory < BYTES_PER_CYCLE * CYCLES
    assert len(market.snapshot()) - written < BYTES_PER_CYCLE * CYCLES


def memory_now() -> int:
    """What was allocated by the market and by this file, and is still there."""
    gc.collect()
    ours = tracemalloc.take_snapshot().filter_traces(OURS)
    return sum(trace.size for trace in ours.traces)


def busy_market(kind: type[Market] = WillingMarket) -> Market:
    """Three leaves in two racks, all held by A, who never leaves."""
    market = kind()
    market.set_floor("h", 2, at=0)
    for leaf in ("h/r0/g0", "h/r0/g1", "h/r1/g0"):
        market.add_resource(leaf, at=0)
        market.place("A", leaf, limit=1_000, order=leaf, at=0)
    return market


def test_orders_that_are_cancelled() -> None:
    """With statements now and then, a book forgets the prices of orders that are gone."""
    market = busy_market()

    def cycle(number: int) -> None:
        order = f"b-{number}"
        market.place("B", "h/r0", price=3 + number % 50, order=order, at=2 * number)
        if number % 100 == 0:
            market.settle(at=2 * number)
        market.cancel("B", order, at=2 * number + 1)

    check_nothing_stays_behind(market, cycle)


def test_orders_on_nobody() -> None:
    """Where nobody holds anything there is nothing to explain, and no statement is needed."""
    market = busy_market()
    market.add_resource("h/r2/g0", at=0)
    market.set_floor("h/r2", 100, at=0)

    def cycle(number: int) -> None:
        order = f"b-{number}"
        market.place("B", "h/r2", price=3 + number % 50, order=order, at=number)
        market.cancel("B", order, at=number)

    check_nothing_stays_behind(market, cycle)


def test_orders_that_expire() -> None:
    """Timers go with what they were set for, whether they ring or not."""
    market = busy_market()

    def cycle(number: int) -> None:
        at = 10 * number
        market.place("B", "h", price=3, order=f"b-{number}", at=at, expires=at + 5)
        market.place("B", "h", price=4, order=f"c-{number}", at=at, expires=at + 10**9)
        market.cancel("B", f"c-{number}", at=at + 1)
        market.advance(at=at + 5)
        if number % 100 == 0:
            market.settle(at=at + 5)

    check_nothing_stays_behind(market, cycle)


def test_a_crowd_of_orders() -> None:
    """A book with many orders forgets those that have gone."""
    market = busy_market()
    for number in range(50):
        market.place(f"T{number}", "h", price=5 + number, order=f"t-{number}", at=0)

    def cycle(number: int) -> None:
        tenant = f"T{number % 50}"
        if number % 100 == 0:
            market.settle(at=number)
        market.amend(tenant, f"t-{number % 50}", price=5 + number % 7, limit=90, at=number)

    check_nothing_stays_behind(market, cycle)


def test_transfers() -> None:
    """A leaf that changes hands all the time remembers its last holding only."""
    market = busy_market()
    market.add_resource("h/r1/g1", at=0)

    def cycle(number: int) -> None:
        tenant, at = "BC"[number % 2], number
        market.place(tenant, "h/r1/g1", price=500, limit=999, order=f"o-{number}", at=at)
        if number % 100 == 0:
            market.settle(at=at)
        market.set_limit(tenant, "h/r1/g1", 3, at=at)

    check_nothing_stays_behind(market, cycle)


def test_holds() -> None:
    """The end of a hold is forgotten with the holding, and the hold with its end."""
    market = busy_market()
    market.add_resource("h/r1/g1", at=0)
    market.guard("h", hold=10**6, at=0)

    def cycle(number: int) -> None:
        tenant, at = "BC"[number % 2], number * 10
        market.place(tenant, "h/r1/g1", price=500, order=f"o-{number}", at=at)
        if number % 100 == 0:
            market.settle(at=at)
        market.relinquish(tenant, "h/r1/g1", at=at + 5)

    check_nothing_stays_behind(market, cycle)


def test_resources_with_fresh_names() -> None:
    """Nothing is left of a leaf that was withdrawn, held or idle."""
    market = busy_market()

    def cycle(number: int) -> None:
        held, idle = f"h/r0/x{number}", f"h/r0/y{number}"
        market.add_resource(held, attributes={"serial": str(number)}, at=number)
        market.place("B", held, limit=50, order=f"b-{number}", at=number)
        market.add_resource(idle, at=number)
        market.withdraw(held, at=number)
        if number % 100 == 0:
            market.settle(at=number)
        market.withdraw(idle, at=number)

    check_nothing_stays_behind(market, cycle)


def test_many_resources_at_once() -> None:
    """A scope that was wide for a while is as small as before when it is narrow again."""
    market = busy_market()

    def cycle(number: int) -> None:
        step = number % 80
        if step < 40:
            market.add_resource(f"h/r0/x{number}", at=number)
        else:
            market.withdraw(f"h/r0/x{number - 40}", at=number)

    check_nothing_stays_behind(market, cycle)


@pytest.mark.parametrize("fall", [None, 1_000], ids=["unguarded", "guarded"])
def test_floors_with_fresh_names(fall: int | None) -> None:
    """A floor that was taken away again leaves no path behind, and no descent."""
    market = busy_market()
    if fall is not None:
        market.guard("h", fall=fall, window=10, at=0)

    def cycle(number: int) -> None:
        scope = f"h/planned/x{number}"
        market.set_floor(scope, 5, at=10 * number)
        market.set_floor(scope, 0, at=10 * number)

    check_nothing_stays_behind(market, cycle)


def test_price_references() -> None:
    """What the `rise` guard measures by is forgotten with its window."""
    market = busy_market()
    market.guard("h", rise=10_000, window=10, at=0)

    def cycle(number: int) -> None:
        at, leaf = 10 * number, f"h/r0/x{number}"
        market.add_resource(leaf, at=at)
        market.place("B", leaf, price=9, order=f"b-{number}", at=at)
        market.place("C", leaf, price=9, order=f"c-{number}", at=at)
        market.cancel("C", f"c-{number}", at=at)
        if number % 100 == 0:
            market.settle(at=at)
        market.withdraw(leaf, at=at)

    check_nothing_stays_behind(market, cycle)


def test_tenants_that_only_looked() -> None:
    """Of a tenant that never held anything, nothing is left when its order is."""
    market = busy_market()

    def cycle(number: int) -> None:
        tenant = f"T{number}"
        market.place(tenant, "h", price=3, order="o", at=number)
        if number % 100 == 0:
            market.settle(at=number)
        market.cancel(tenant, "o", at=number)

    check_nothing_stays_behind(market, cycle)


def test_tenants_that_owe_nothing() -> None:
    """Of a tenant that came and went and has nothing to pay, nothing is left."""
    market = busy_market()
    market.add_resource("free/g0", at=0)

    def cycle(number: int) -> None:
        tenant = f"T{number}"
        market.place(tenant, "free", limit=5, order="o", at=number)
        market.relinquish(tenant, "free/g0", at=number)

    check_nothing_stays_behind(market, cycle)


def test_statements_bound_what_a_long_holding_remembers() -> None:
    """Prices that press on a holding for ever are forgotten once they are explained."""
    market = busy_market()
    market.place("B", "h", price=3, order="b", at=0)
    market.place("C", "h/r0", price=3, order="c", at=0)

    def cycle(number: int) -> None:
        market.amend("B", "b", price=3 + number % 40, limit=99, at=10 * number)
        market.amend("C", "c", price=3 + number % 30, limit=99, at=10 * number + 5)
        market.bill("A", at=10 * number + 5)
        if number % 100 == 0:
            market.settle(at=10 * number + 5)

    check_nothing_stays_behind(market, cycle)


def test_questions_and_refusals() -> None:
    """Neither asking nor asking for the impossible is remembered."""
    market = busy_market(Market)

    def cycle(number: int) -> None:
        market.place("B", f"nowhere/{number}", price=3, order="o", at=number)
        market.set_floor(f"h/r0/g0/{number}", 3, at=number)
        market.guard(f"unknown-{number}", rise=1, at=number)
        market.cancel(f"T{number}", "o", at=number)
        market.quote(f"h/{number}", f"T{number}")
        market.bill(f"T{number}", at=number)
        market.visible(f"T{number}")

    check_nothing_stays_behind(market, cycle)
