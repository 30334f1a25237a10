"""The properties of every adapter where trees give notice and bind winners."""

from collections import Counter
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from laissez.model import Called, Code, Filled, Rejected, Settled, Transferred
from laissez.model.values import Segment
from laissez.simulation.kernel.world import World
from test_adapter_properties import (
    END,
    MINUTE,
    PERIOD,
    SECOND,
    check_budget,
    watch,
    workloads,
    worlds,
)

Make = Callable[[], World]


@st.composite
def bound(draw: st.DrawFn, worlds: st.SearchStrategy[Make]) -> Make:
    make = draw(worlds)
    notice_s = draw(st.sampled_from((0, 3, 20, 60)))
    commit_s = draw(st.sampled_from((0, 4, 30, 300)))

    def made() -> World:
        world = make()
        for tree in ("h100", "a100"):
            world.bind(tree, notice_us=notice_s * SECOND, commit_us=commit_s * SECOND)
        return world

    return made


@given(bound(worlds()))
def test_nobody_ever_owes_more_than_its_budget(make: Make) -> None:
    world = make()
    watch(world, lambda tenant, at_us: check_budget(world, tenant, at_us))
    world.run(END)


@given(bound(worlds()))
def test_nobody_pays_for_leaving_early(make: Make) -> None:
    """What is bound is lowered and not released, what is called may be left; so the rest of a
    bond is never charged, but to whoever is done with a promise."""
    world = make()
    charged: list[Segment] = []

    def hear(events: tuple[object, ...]) -> None:
        for event in events:
            if isinstance(event, Settled):
                charged.extend(each for each in event.segments if each[3] == "commit")

    world._listener = hear
    world.run(END)
    assert charged == []


@given(bound(worlds()))
def test_nothing_is_refused_but_what_has_just_changed(make: Make) -> None:
    world = make()
    world.run(END)
    for said in world.log:
        if isinstance(said.what, Rejected):
            assert said.what.code in (Code.UNKNOWN_ORDER, Code.ALREADY_CALLED)


@given(bound(worlds()))
@settings(max_examples=25)
def test_a_world_can_be_told_twice(make: Make) -> None:
    first, second = make(), make()
    for world in (first, second):
        world.run(END)
    assert first.log == second.log
    assert first.market.digest() == second.market.digest()


@given(bound(worlds(of=workloads())))
@settings(max_examples=25)
def test_real_workloads_neither_flap_nor_overspend(make: Make) -> None:
    """Nor does anybody lose a node without notice where there is notice, but by its own doing."""
    world = make()
    called: set[str] = set()
    terms = {guard.tree: guard.notice for guard in world.market.guards()}

    def hear(events: tuple[object, ...]) -> None:
        for event in events:
            if isinstance(event, Called):
                called.add(event.resource)
            elif isinstance(event, Transferred):
                if event.reason in ("outbid", "floor") and terms.get("h100"):
                    assert event.resource in called or event.old == event.new
                called.discard(event.resource)

    world._listener = hear

    def look(at_us: int) -> None:
        for tenant in world.tenants.values():
            check_budget(world, tenant, at_us)
        fills = Counter(said.who for said in world.log if isinstance(said.what, Filled))
        assert max(fills.values(), default=0) <= 120

    world.every(PERIOD, look, begins_us=2)
    world.run(30 * MINUTE)
