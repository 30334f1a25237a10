"""Deadline jobs on the market: late only if no node can be had within the budget."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laissez.adapters.budget import Budget
from laissez.adapters.deadline import DeadlineAdapter, deadline_adapter
from laissez.adapters.footprint import Footprint
from laissez.adapters.intent import Terms
from laissez.adapters.urgency import Hurry
from laissez.adapters.view import MarketView
from laissez.deadline.classic import Greedy
from laissez.deadline.job import BadJob
from laissez.model import (
    ChangeFloor,
    ChangeLimit,
    Filled,
    Holding,
    Lost,
    OfferResource,
    PlaceOrder,
    Quoted,
    Release,
)
from laissez.model.values import CHARGE_UNITS_PER_MICRO_DOLLAR
from laissez.runners.simulated import Tenant, World
from laissez.workloads.batch import BatchJob, Work
from toy import Crew

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DOLLAR = 1_000_000
PERIOD = 30 * SECOND
CHECKPOINT = 10 * MINUTE
SPEEDS = {"a100": 1.0, "h100": 2.0}


def job(hours: float = 1.0, deadline_us: int = 4 * HOUR) -> BatchJob:
    return BatchJob(
        Work(hours, SPEEDS),
        deadline_us=deadline_us,
        cold_start_s=240,
        checkpoint_every_s=CHECKPOINT // SECOND,
    )


def adapter_for(
    app: BatchJob, *, value: int = 2 * DOLLAR, budget: int | None = 40 * DOLLAR
) -> DeadlineAdapter:
    terms = Terms("job", ("h100", "a100"), PERIOD, None if budget is None else Budget(budget))
    return deadline_adapter(
        app, terms, micros_per_unit=float(value), checkpoint_every_us=CHECKPOINT
    )


def world_of(**floors: int) -> World:
    """One node of each kind."""
    world = World()
    for tree, floor in floors.items():
        world.operate(ChangeFloor(tree, floor), 0)
        world.operate(OfferResource(f"{tree}/g0"), 0)
    return world


def quotes(at_us: int, **rates: tuple[int, bool]) -> dict[str, Quoted]:
    return {tree: Quoted(at_us, tree, rate, idle) for tree, (rate, idle) in rates.items()}


def test_the_plan_is_made_for_the_slowest_kind_that_can_be_in_time() -> None:
    """An hour's work, a start of 4 minutes and 20 for a checkpoint lost: 84 minutes on an A100."""
    plan = adapter_for(job(1.0, 85 * MINUTE)).clock.plan
    assert plan.reference == "a100"
    assert plan.job.work_us == HOUR
    assert plan.job.changeover_us == 4 * MINUTE + 2 * CHECKPOINT
    hurried = adapter_for(job(1.0, 60 * MINUTE)).clock.plan
    assert (hurried.reference, hurried.job.work_us) == ("h100", HOUR // 2)
    assert hurried.job.changeover_us == 4 * MINUTE + CHECKPOINT
    with pytest.raises(BadJob, match=r"even on h100 the work takes 0\.5 h"):
        adapter_for(job(1.0, 40 * MINUTE))


def test_it_takes_the_cheaper_of_two_free_kinds_while_there_is_time() -> None:
    """By hand: $1 for a unit on A100 against $1.50 on H100; the limit is what the pace is worth.

    Needed is a pace of 1/4; 1.1 times that counts in full, the rest of 1 a tenth: 0.3475. At $2 a
    unit, a start of 240 s over 600 s and the hysteresis: 0.695 * 1.4 * 1.25 = $1.21625.
    """
    app = job()
    adapter = adapter_for(app)
    view = MarketView(0, (), (), quotes(0, h100=(3 * DOLLAR, True), a100=(DOLLAR, True)))
    assert adapter.clock.hurry(app, view, ()) is Hurry.NONE
    [placed] = adapter.step(app, view, 0)
    assert isinstance(placed.do, PlaceOrder)
    assert (placed.do.scope, placed.do.limit) == ("a100", DOLLAR)
    app.gain("a100/g0", 0)
    held = Holding("a100/g0", 0, DOLLAR, DOLLAR, None, {}, "job", "floor")
    view = MarketView(0, (held,), (), quotes(0, h100=(3 * DOLLAR, True)))
    assert [action.do for action in adapter.step(app, view, 0)] == [
        ChangeLimit("a100/g0", 1_216_250)
    ]


def test_when_the_slack_is_gone_it_offers_what_it_can_afford() -> None:
    """By hand: $10 over an hour's work, 4 minutes of start and two steps of 30 s: 65 minutes."""
    app = job(1.0, 2 * HOUR)
    adapter = adapter_for(app, budget=10 * DOLLAR)
    # The margin is two changeovers of 24 minutes and a step: 48.5 of the 60 minutes of slack.
    for at_us, hurry in ((11 * MINUTE, Hurry.BEHIND), (12 * MINUTE, Hurry.LAST_CHANCE)):
        app.advance(at_us)
        view = MarketView(at_us, (), (), quotes(at_us, a100=(3 * DOLLAR, False)))
        assert adapter.clock.hurry(app, view, ()) is hurry
        [placed] = [
            action.do
            for action in adapter.step(app, view, at_us)
            if isinstance(action.do, PlaceOrder) and action.do.scope == "a100"
        ]
        assert placed.limit == placed.price == 10 * DOLLAR * 60 // 65


def test_behind_it_asks_one_kind_after_the_other_and_at_the_last_chance_all() -> None:
    """So that it does not displace two tenants where one is enough."""
    app = job(1.0, 2 * HOUR)
    adapter = adapter_for(app)
    both = {"h100": (3 * DOLLAR, False), "a100": (DOLLAR, False)}

    def asked(at_us: int) -> list[str]:
        app.advance(at_us)
        view = MarketView(at_us, (), (), quotes(at_us, **both))
        actions = [action.do for action in adapter.step(app, view, at_us)]
        return [do.scope for do in actions if isinstance(do, PlaceOrder)]

    assert asked(11 * MINUTE) == ["a100"]
    assert asked(12 * MINUTE) == ["a100", "h100"]


def test_it_moves_to_cheaper_hardware_right_after_a_checkpoint() -> None:
    """An H100 is all there is at first; then an A100 turns up at a tenth of the price.

    It is ordered at once and started while the H100 goes on, and the H100 is released within a
    step of the first checkpoint after that.
    """
    world = world_of(h100=3 * DOLLAR)
    app = job(4.0, 12 * HOUR)
    world.join(Tenant("job", adapter_for(app), app))
    world.operate_at(20 * MINUTE, ChangeFloor("a100", DOLLAR // 5))
    world.operate_at(20 * MINUTE, OfferResource("a100/g0"))
    world.run(12 * HOUR)
    assert [
        (said.at_us // MINUTE, said.what.resource)
        for said in world.log
        if isinstance(said.what, Filled)
    ] == [(0, "h100/g0"), (20, "a100/g0")]
    [released] = [said for said in world.log if said.what == Release("h100/g0")]
    # Warm in minute 24; the checkpoints of the H100 are in the minutes 14, 24, 34.
    assert released.at_us in (24 * MINUTE, 24 * MINUTE + PERIOD)
    assert released.why == "a cheaper node is warm, and a checkpoint has just been made"
    assert app.done_us is not None and app.done_us <= app.deadline_us


def test_ahead_of_time_it_gives_way_and_resumes_later() -> None:
    """A rival that pays more has the only node for an hour; the job waits, and is in time."""
    world = world_of(a100=DOLLAR)
    app = job(1.0, 6 * HOUR)
    world.join(Tenant("job", adapter_for(app), app))
    rival = Footprint(Terms("rival", ("a100",), PERIOD), 1, 3 * DOLLAR)
    world.join(Tenant("rival", rival, Crew(ends_us=90 * MINUTE), begins_us=30 * MINUTE))
    world.run(6 * HOUR)
    own = [said.what for said in world.log if said.who == "job"]
    lost = [what for what in own if isinstance(what, Lost)]
    assert [each.reason for each in lost] == ["outbid", "relinquished"]
    assert len([what for what in own if isinstance(what, Filled)]) == 2
    assert app.done_us is not None and app.done_us < 4 * HOUR


@st.composite
def rivalries(draw: st.DrawFn) -> list[tuple[int, int, int, str]]:
    """When somebody comes, for how long, what it offers, and for which kind."""
    return draw(
        st.lists(
            st.tuples(
                st.integers(0, 16).map(lambda n: n * 13 * MINUTE + 7),
                st.integers(1, 20).map(lambda n: n * 11 * MINUTE),
                st.integers(1, 16).map(lambda n: n * DOLLAR // 2),
                st.sampled_from(("a100", "h100")),
            ),
            max_size=8,
        )
    )


@given(
    rivalries(),
    st.sampled_from((100, 130, 240, 420)),
    st.sampled_from((1, 4)),
    st.sampled_from(("uniform", "greedy")),
)
@settings(max_examples=60)
def test_it_is_never_late_while_a_node_can_be_had_within_its_budget(
    rivals: list[tuple[int, int, int, str]], minutes: int, value: int, policy: str
) -> None:
    """Nobody offers more than $8 an hour, and the budget pays for more than that to the end."""
    world = world_of(a100=DOLLAR, h100=3 * DOLLAR)
    app = job(1.0, minutes * MINUTE)
    adapter = adapter_for(app, value=value * DOLLAR, budget=100 * DOLLAR)
    if policy == "greedy":
        clock = msgspec.structs.replace(adapter.clock, policy=Greedy(adapter.clock.plan.job))
        adapter = msgspec.structs.replace(adapter, clock=clock)
    world.join(Tenant("job", adapter, app))
    for number, (begins_us, lasts_us, limit, kind) in enumerate(rivals):
        terms = Terms(f"r{number}", (kind,), PERIOD)
        crew = Crew(ends_us=begins_us + lasts_us)
        world.join(Tenant(f"r{number}", Footprint(terms, 1, limit), crew, begins_us))
    world.run(minutes * MINUTE + HOUR)
    assert app.done_us is not None and app.done_us <= app.deadline_us
    owed = world.market.bill("job", world.now_us)
    assert owed <= 100 * DOLLAR * CHARGE_UNITS_PER_MICRO_DOLLAR
    assert not world.market.holdings("job") and not world.market.orders("job")


def test_the_margin_bears_a_loss_at_the_worst_moment() -> None:
    """Whenever a rival comes to stay, also right before a checkpoint and with little slack left.

    With a tenth of the margin it would be late: the same sweep shows that.
    """
    kinds = ("a100",)

    def is_late(comes_us: int, margin: float) -> bool:
        world = world_of(**dict.fromkeys(kinds, DOLLAR))
        app = BatchJob(
            Work(1.0, {kind: SPEEDS[kind] for kind in kinds}),
            deadline_us=130 * MINUTE,
            cold_start_s=240,
            checkpoint_every_s=CHECKPOINT // SECOND,
        )
        terms = Terms("job", kinds, PERIOD, Budget(100 * DOLLAR))
        adapter = deadline_adapter(
            app, terms, micros_per_unit=2.0 * DOLLAR, checkpoint_every_us=CHECKPOINT, policy=Greedy
        )
        policy = adapter.clock.policy
        policy.net_us = round(margin * policy.net_us)
        # Nothing is free at first, so that the job waits as long as it dares.
        for number, kind in enumerate(kinds):
            footprint = Footprint(Terms(f"r{number}", (kind,), PERIOD), 1, 8 * DOLLAR)
            world.join(Tenant(f"early{number}", footprint, Crew(ends_us=comes_us - 15 * MINUTE)))
            world.join(Tenant(f"late{number}", footprint, Crew(), comes_us))
        world.join(Tenant("job", adapter, app, begins_us=1))
        world.run(131 * MINUTE)
        return app.done_us is None or app.done_us > app.deadline_us

    moments = range(16 * MINUTE, 130 * MINUTE, 2 * MINUTE)
    assert not any(is_late(comes_us, 1.0) for comes_us in moments)
    assert any(is_late(comes_us, 0.1) for comes_us in moments)


def test_a_budget_too_small_for_the_rival_is_kept_and_the_deadline_is_not() -> None:
    """$2 does not pay $8 an hour for an hour: it never owes more, and says so by being late."""
    world = world_of(a100=DOLLAR)
    app = job(1.0, 3 * HOUR)
    world.join(Tenant("job", adapter_for(app, budget=2 * DOLLAR), app))
    rival = Footprint(Terms("rival", ("a100",), PERIOD), 1, 8 * DOLLAR)
    world.join(Tenant("rival", rival, Crew()))
    world.run(4 * HOUR)
    assert app.done_us is None
    owed = world.market.bill("job", world.now_us)
    assert owed <= 2 * DOLLAR * CHARGE_UNITS_PER_MICRO_DOLLAR
