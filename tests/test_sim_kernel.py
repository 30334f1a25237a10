"""Time that jumps, and chance by name: against a sorted list, and against more tenants."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laissez.simulation.kernel.heap import ACTION, ARRIVAL, DUE, Kernel
from laissez.simulation.kernel.streams import HANDOVER_US, Handovers, stream

PRIORITIES = st.sampled_from([DUE, ARRIVAL, ACTION])
# When it happens; in which class; and what it plans itself: so much later, in which class.
PLANS = st.lists(
    st.tuples(
        st.integers(0, 20),
        PRIORITIES,
        st.lists(st.tuples(st.integers(0, 5), PRIORITIES), max_size=2),
    ),
    max_size=12,
)
Plans = list[tuple[int, int, list[tuple[int, int]]]]
Happened = tuple[int, int]


def by_kernel(plans: Plans, stops: list[int]) -> list[Happened]:
    """What happens, each with its number in the order of planning."""
    kernel, numbers = Kernel(), count()
    happened: list[Happened] = []

    def plan(at_us: int, priority: int, more: list[tuple[int, int]]) -> None:
        number = next(numbers)

        def do(now_us: int) -> None:
            assert now_us == at_us == kernel.now_us
            happened.append((now_us, number))
            for later_us, its_priority in more:
                plan(now_us + later_us, its_priority, [])

        kernel.at(at_us, do, priority)

    for at_us, priority, more in plans:
        plan(at_us, priority, more)
    for stop in stops:
        kernel.run(stop)
        assert kernel.now_us == stop
    return happened


def by_sorted_list(plans: Plans, until_us: int) -> list[Happened]:
    """The same with a list that is sorted anew each time."""
    left = [(at, priority, number, more) for number, (at, priority, more) in enumerate(plans)]
    happened: list[Happened] = []
    planned = len(left)
    while left:
        left.sort(key=lambda entry: entry[:3])
        at_us, _, number, more = left.pop(0)
        if at_us > until_us:
            break
        happened.append((at_us, number))
        for later_us, priority in more:
            left.append((at_us + later_us, priority, planned, []))
            planned += 1
    return happened


@given(PLANS, st.integers(0, 30))
def test_order_is_that_of_a_sorted_list(plans: Plans, until_us: int) -> None:
    """What is planned, also on the way, happens by instant, then priority, then sequence."""
    assert by_kernel(plans, [until_us]) == by_sorted_list(plans, until_us)


@given(PLANS, st.lists(st.integers(0, 30), min_size=1, max_size=5).map(sorted))
def test_a_run_in_parts_is_the_run(plans: Plans, stops: list[int]) -> None:
    """To run to an instant in several parts, or twice to the same, is to run there at once."""
    assert by_kernel(plans, [*stops, stops[-1]]) == by_kernel(plans, [stops[-1]])


def test_the_last_instant_is_part_of_a_run() -> None:
    """What is planned for the instant at which a run ends happens in it, and once."""
    kernel = Kernel()
    happened: list[int] = []
    kernel.at(5, happened.append)
    kernel.at(6, happened.append)
    kernel.run(5)
    assert happened == [5]
    kernel.run(5)
    assert happened == [5]
    kernel.run(6)
    assert happened == [5, 6]


def test_planning_in_the_past_is_an_error() -> None:
    """Nothing can be planned before the instant that was reached; at that instant it can."""
    kernel = Kernel()
    happened: list[int] = []
    kernel.run(10)
    with pytest.raises(AssertionError, match="9 is past"):
        kernel.at(9, happened.append)
    kernel.at(10, happened.append)
    kernel.run(10)
    assert happened == [10]


def test_planning_in_the_past_from_within_is_an_error() -> None:
    """Nor can it from within something that happens."""
    kernel = Kernel()
    kernel.at(7, lambda at_us: kernel.at(at_us - 1, lambda _: None))
    with pytest.raises(AssertionError, match="6 is past"):
        kernel.run(10)


def test_every_period_from_its_beginning_on() -> None:
    """What is periodic happens at its beginning and then once a period, over several runs."""
    kernel = Kernel()
    happened: list[int] = []
    kernel.every(10, happened.append, begins_us=3)
    kernel.run(20)
    kernel.run(33)
    assert happened == [3, 13, 23, 33]


def test_what_falls_due_comes_before_arrivals_and_those_before_actions() -> None:
    """At one instant, in this order, whatever was planned first."""
    kernel = Kernel()
    happened: list[str] = []
    kernel.at(1, lambda _: happened.append("action"))
    kernel.at(1, lambda _: happened.append("arrival"), ARRIVAL)
    kernel.at(1, lambda _: happened.append("due"), DUE)
    kernel.at(1, lambda _: happened.append("second action"))
    kernel.run(1)
    assert happened == ["due", "arrival", "action", "second action"]


@given(st.integers(0, 1 << 40), st.lists(st.text("abc", min_size=1), min_size=1, max_size=3))
def test_a_stream_is_its_seed_and_name(seed: int, names: list[str]) -> None:
    """The same seed and name give the same draws; another seed, name or depth gives others."""
    own = [stream(seed, *names).random() for _ in range(2)]
    assert own[0] == own[1]
    for other in (
        stream(seed + 1, *names),
        stream(seed, *names[:-1], names[-1] + "d"),
        stream(seed, *names, 0),
    ):
        assert other.random() != own[0]


def test_draws_are_the_same_everywhere() -> None:
    """The first draws of a stream, in figures: no run on another machine can differ."""
    chance = stream(7, "tenant", 3)
    assert [chance.randrange(1_000) for _ in range(4)] == [166, 381, 343, 432]


@given(
    st.lists(st.sampled_from("abcd"), max_size=40),
    st.sets(st.sampled_from("abcd"), min_size=1),
    st.integers(0, 99),
)
def test_handovers_of_one_tenant_do_not_depend_on_others(
    order: list[str], present: set[str], seed: int
) -> None:
    """Whoever else receives nodes, and when: a tenant's n-th handover takes the same time."""
    everybody, some = Handovers(seed), Handovers(seed)
    with_all = [(name, everybody(name)) for name in order]
    with_some = [(name, some(name)) for name in order if name in present]
    assert with_some == [entry for entry in with_all if entry[0] in present]


def test_handovers_take_10_to_100_ms() -> None:
    """All of this range is drawn, and nothing beyond it."""
    handovers = Handovers(1)
    drawn = [handovers(name) for name in ("ada", "bob") for _ in range(2_000)]
    assert HANDOVER_US == (10_000, 100_000)
    assert 10_000 <= min(drawn) < 10_500
    assert 99_500 < max(drawn) <= 100_000
    assert Handovers(2)("ada") != Handovers(1)("ada") != Handovers(1)("bob")
