"""Deadline jobs on the market: late only if no node can be had within the budget."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laissez.adapters.budget import Budget
from laissez.adapters.deadline import DeadlineAdapter, deadline_adapter
from laissez.adapters.footprint import Footprint
from laissez.adapters.intent import TradingTerms
from laissez.adapters.urgency import Hurry, hurry
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
    OpenOrder,
    PlaceOrder,
    Quoted,
    Release,
)
from laissez.model.values import CHARGE_UNITS_PER_MICRO_DOLLAR
from laissez.performance.batch import BatchJob, Work
from laissez.simulation.kernel.world import Tenant, World
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
    terms = TradingTerms(
        "job", ("h100", "a100"), PERIOD, None if budget is None else Budget(budget)
    )
    return deadline_adapter(
        app, terms, micros_per_unit=float(value), checkpoint_every_us=CHECKPOINT
    )


def how_near(adapter: DeadlineAdapter, app: BatchJob, view: MarketView) -> Hurry:
    return hurry(adapter.plan, adapter.policy, adapter, app, view, view.holdings)


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
    plan = adapter_for(job(1.0, 85 * MINUTE)).plan
    assert plan.reference == "a100"
    assert plan.job.work_us == HOUR
    assert plan.job.changeover_us == 4 * MINUTE + 2 * CHECKPOINT
    hurried = adapter_for(job(1.0, 60 * MINUTE)).plan
    assert (hurried.reference, hurried.job.work_us) == ("h100", HOUR // 2)
    assert hurried.job.changeover_us == 4 * MINUTE + CHECKPOINT
    with pytest.raises(BadJob) as caught:
        adapter_for(job(1.0, 40 * MINUTE))
    assert str(caught.value) == (
        "the deadline is 0.6667 h away, and even on h100 the work takes 0.5 h, with 0.06667 h for "
        "a start and 0.1667 h for work lost since a checkpoint 0.7333 h; move the deadline, make "
        "the work shorter or save it oftener"
    )


def test_nobody_plans_for_losing_more_than_all_of_the_work() -> None:
    """Six minutes on an H100 and twelve on an A100, saved every ten: a start and all of it once
    more take 28 minutes on an A100, 16 on an H100."""
    plan = adapter_for(job(0.2, 28 * MINUTE)).plan
    assert (plan.reference, plan.job.changeover_us) == ("a100", 16 * MINUTE)
    plan = adapter_for(job(0.2, 16 * MINUTE)).plan
    assert (plan.reference, plan.job.changeover_us) == ("h100", 10 * MINUTE)
    with pytest.raises(BadJob, match=r"with .* h for work lost since a checkpoint 0\.2667 h; "):
        adapter_for(job(0.2, 16 * MINUTE - 1))


def test_it_takes_the_cheaper_of_two_free_kinds_while_there_is_time() -> None:
    """By hand: $1 for a unit on A100 against $1.50 on H100; the limit is what the pace is worth.

    Needed is a pace of 1/4; 1.1 times that counts in full, the rest of 1 a tenth: 0.3475. At $2 a
    unit that is $0.695, with the hysteresis $0.86875: the node has only just been won and is still
    cold, so nothing would be lost with it.
    """
    app = job()
    adapter = adapter_for(app)
    view = MarketView(0, (), (), quotes(0, h100=(3 * DOLLAR, True), a100=(DOLLAR, True)))
    assert how_near(adapter, app, view) is Hurry.NONE
    [placed] = adapter.step(app, view, 0)
    assert isinstance(placed.do, PlaceOrder)
    assert (placed.do.scope, placed.do.limit) == ("a100", DOLLAR)
    app.gain("a100/g0", 0)
    held = Holding("a100/g0", 0, DOLLAR, DOLLAR, None, {}, "job", "demand")
    view = MarketView(0, (held,), (), quotes(0, h100=(3 * DOLLAR, True)))
    assert [action.do for action in adapter.step(app, view, 0)] == [ChangeLimit("a100/g0", 868_750)]


def test_when_the_slack_is_gone_it_offers_what_it_can_afford() -> None:
    """By hand: $10 over an hour's work, 4 minutes of start and two steps of 30 s: 65 minutes."""
    app = job(1.0, 2 * HOUR)
    adapter = adapter_for(app, budget=10 * DOLLAR)
    # The margin is two changeovers of 24 minutes and a step: 48.5 of the 60 minutes of slack.
    for at_us, expected in ((11 * MINUTE, Hurry.BEHIND), (12 * MINUTE, Hurry.LAST_CHANCE)):
        app.advance(at_us)
        view = MarketView(at_us, (), (), quotes(at_us, a100=(3 * DOLLAR, False)))
        assert how_near(adapter, app, view) is expected
        [placed] = [
            action.do
            for action in adapter.step(app, view, at_us)
            if isinstance(action.do, PlaceOrder) and action.do.scope == "a100"
        ]
        assert placed.limit == placed.price == 10 * DOLLAR * 60 // 65


def test_what_it_can_afford_is_for_the_time_until_its_money_ends() -> None:
    """By hand: on an A100 it needs 64 minutes, and 25 are left: $10 over 26, two steps included.
    Before that, and if its money has no end, over all that it needs; at the end over two steps."""
    app = job(1.0, 2 * HOUR)
    endless = adapter_for(app, budget=10 * DOLLAR)
    ends = msgspec.structs.replace(endless.terms, budget=Budget(10 * DOLLAR, 2 * HOUR))
    adapter = msgspec.structs.replace(endless, terms=ends)
    for left, minutes in ((90, 65), (25, 26), (0, 1), (-5, 1)):
        view = MarketView(2 * HOUR - left * MINUTE, (), (), {})
        assert adapter.affordable(app, view, "a100") == 10 * DOLLAR * 60 // minutes
        assert endless.affordable(app, view, "a100") == 10 * DOLLAR * 60 // 65


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
    rival = Footprint(TradingTerms("rival", ("a100",), PERIOD), 1, 3 * DOLLAR)
    world.join(Tenant("rival", rival, Crew(ends_us=90 * MINUTE), begins_us=30 * MINUTE))
    world.run(6 * HOUR)
    own = [said.what for said in world.log if said.who == "job"]
    lost = [what for what in own if isinstance(what, Lost)]
    assert [each.reason for each in lost] == ["outbid", "relinquished"]
    assert len([what for what in own if isinstance(what, Filled)]) == 2
    assert app.done_us is not None and app.done_us < 4 * HOUR


def test_a_node_won_in_a_hurry_is_not_let_go_at_once() -> None:
    """Somebody has the only node and would take it back: behind, the job takes it and keeps it.

    At the moment it wins the node is as cheap as spot, but the limit says how it is held.
    """
    world = world_of(a100=DOLLAR)
    app = job(1.0, 3 * HOUR)
    rival = Footprint(TradingTerms("rival", ("a100",), PERIOD), 1, 3 * DOLLAR)
    world.join(Tenant("rival", rival, Crew()))
    world.join(Tenant("job", adapter_for(app), app, begins_us=1))
    world.run(3 * HOUR)
    own = [said.what for said in world.log if said.who == "job"]
    assert len([what for what in own if isinstance(what, Filled)]) == 1
    assert app.done_us is not None and app.done_us < app.deadline_us


def held_node(resource: str, rate: int, limit: int) -> Holding:
    return Holding(resource, -HOUR, rate, limit, None, {}, "job", "demand")


def test_how_a_node_is_held_decides_whether_a_job_that_is_behind_is_urgent() -> None:
    """By hand: the most that a patient limit can be on an A100 is 2 * (1 + (240 + 600)/600) * 1.25
    = $6. Held with more it is on-demand, and stays that while the job is behind."""
    app = job(1.0, 4 * HOUR)
    adapter = adapter_for(app)
    app.gain("a100/g0", 0)
    app.advance(HOUR)
    app.measure({"done": 0.1}, HOUR)
    for limit, expected in ((6 * DOLLAR, Hurry.NONE), (6 * DOLLAR + 1, Hurry.BEHIND)):
        node = held_node("a100/g0", DOLLAR, limit)
        view = MarketView(HOUR, (node,), (), quotes(HOUR, a100=(DOLLAR, False)))
        assert how_near(adapter, app, view) is expected


def test_what_is_free_and_too_dear_is_no_spot_capacity() -> None:
    """Without a node and behind, a free A100 at $2 is worth waiting on; at a cent more it is not,
    and a scope that can't be seen is asked before anything is paid for."""
    app = job(1.0, 4 * HOUR)
    adapter = adapter_for(app)
    app.advance(HOUR // 2)
    at_us = HOUR // 2
    for rate, expected in ((2 * DOLLAR, Hurry.NONE), (2 * DOLLAR + 10_000, Hurry.BEHIND)):
        view = MarketView(at_us, (), (), quotes(at_us, a100=(rate, True)))
        assert how_near(adapter, app, view) is expected
    terms = TradingTerms("job", ("a100/r0",), PERIOD)
    below = deadline_adapter(
        app, terms, micros_per_unit=2.0 * DOLLAR, checkpoint_every_us=CHECKPOINT
    )
    unseen = MarketView(at_us, (), (), quotes(at_us, a100=(DOLLAR, False)))
    assert how_near(below, app, unseen) is Hurry.NONE
    rests = OpenOrder("job", "job.0", "a100/r0", DOLLAR, DOLLAR, None)
    assert how_near(below, app, msgspec.structs.replace(unseen, orders=(rests,))) is Hurry.BEHIND


def test_a_cold_node_has_less_slack_than_a_warm_one() -> None:
    """With 50 of 60 minutes of slack left, four minutes of cold start reach the margin of 48.5."""
    app = job(1.0, 2 * HOUR)
    adapter = adapter_for(app)
    at_us = 10 * MINUTE
    app.advance(at_us)
    app.gain("a100/g0", at_us)
    view = MarketView(at_us, (held_node("a100/g0", DOLLAR, DOLLAR),), (), quotes(at_us))
    assert how_near(adapter, app, view) is Hurry.LAST_CHANCE
    warm = job(1.0, 2 * HOUR)
    warm.gain("a100/g0", at_us - 4 * MINUTE)
    warm.advance(at_us)
    assert how_near(adapter, warm, view) is Hurry.NONE


@pytest.mark.parametrize(("cents", "moves"), [(50, True), (100, True), (101, False)])
def test_a_move_to_cheaper_hardware_pays_for_itself(cents: int, moves: bool) -> None:
    """By hand: 4 h of work, from an H100 at $3 (2 h, $6) to an A100 at p (4 h, a start of 4 min).

    For the start, and till the checkpoint in nearly ten minutes, both are paid, and a quarter more
    must be saved: 1.25 * (p * 244/60 + 3 * 14/60) < 6 holds for p < $1.008.
    """
    app = job(4.0, 24 * HOUR)
    adapter = adapter_for(app)
    at_us = 4 * MINUTE + SECOND  # warm, and at work for a second
    app.gain("h100/g0", 0)
    app.advance(at_us)
    node = held_node("h100/g0", 3 * DOLLAR, 6 * DOLLAR)
    quoted = quotes(at_us, a100=(cents * DOLLAR // 100, True))
    wishes = adapter.decide(app, MarketView(at_us, (node,), (), quoted)).wishes
    assert [wish.scope for wish in wishes] == ["a100"] * moves


def test_the_old_node_is_kept_until_the_new_one_has_taken_over() -> None:
    """Moving down: both while the cheaper one is cold, or the checkpoint is old. In a hurry: both
    until the sooner one works."""
    app = job(4.0, 24 * HOUR)
    adapter = adapter_for(app)
    app.gain("h100/g0", 0)
    app.advance(14 * MINUTE)  # a checkpoint has just been made
    app.gain("a100/g0", 14 * MINUTE)
    dear, cheap = (
        held_node("h100/g0", 3 * DOLLAR, 6 * DOLLAR),
        held_node("a100/g0", DOLLAR // 10, DOLLAR),
    )

    def kept(at_us: int) -> set[str]:
        app.advance(at_us)
        view = MarketView(at_us, (dear, cheap), (), quotes(at_us))
        return {each.resource for each in adapter.decide(app, view).keep}

    both = {"h100/g0", "a100/g0"}
    assert kept(14 * MINUTE) == both  # cold
    assert kept(20 * MINUTE) == both  # warm, with six minutes of work to lose
    assert kept(24 * MINUTE + 10 * SECOND) == {"a100/g0"}

    hurried = job(1.0, 95 * MINUTE)
    adapter = adapter_for(hurried)
    hurried.gain("a100/g0", 0)
    hurried.advance(20 * MINUTE)
    hurried.gain("h100/g0", 20 * MINUTE)
    slow, fast = held_node("a100/g0", DOLLAR, DOLLAR), held_node("h100/g0", DOLLAR, DOLLAR)
    view = MarketView(20 * MINUTE, (slow, fast), (), quotes(20 * MINUTE))
    assert how_near(adapter, hurried, view) is Hurry.LAST_CHANCE
    assert [each.resource for each in adapter.decide(hurried, view).keep] == ["h100/g0", "a100/g0"]


def test_when_it_is_late_anyway_it_takes_what_is_done_soonest() -> None:
    """Nothing is in time any more: the fastest kind comes first, also beside a slow node."""
    app = job(1.0, 85 * MINUTE)
    adapter = adapter_for(app)
    at_us = 80 * MINUTE
    app.advance(at_us)
    at_hand = quotes(at_us, a100=(DOLLAR, True), h100=(9 * DOLLAR, True))
    [wish] = adapter.decide(app, MarketView(at_us, (), (), at_hand)).wishes
    assert wish.scope == "h100"
    app.gain("a100/g0", at_us)
    slow = held_node("a100/g0", DOLLAR, DOLLAR)
    [wish] = adapter.decide(app, MarketView(at_us, (slow,), (), at_hand)).wishes
    assert wish.scope == "h100"
    app.gain("h100/g0", at_us)
    both = (slow, held_node("h100/g0", DOLLAR, DOLLAR))
    assert not adapter.decide(app, MarketView(at_us, both, (), at_hand)).wishes


def test_a_late_node_is_better_than_none() -> None:
    """Behind, with an A100 that would be late: an H100 is asked for first, and while that order
    waits, the A100. Half of the work in time is more than nothing of it."""
    app = job(1.0, 70 * MINUTE)
    adapter = adapter_for(app, budget=10 * DOLLAR)
    at_us = 10 * MINUTE
    app.advance(at_us)
    both = quotes(at_us, h100=(30 * DOLLAR, False), a100=(15 * DOLLAR, False))
    [first] = adapter.decide(app, MarketView(at_us, (), (), both)).wishes
    assert first.scope == "h100"
    waiting = OpenOrder("job", f"{adapter.terms.prefix}0", "h100", first.price, first.limit, None)
    wishes = adapter.decide(app, MarketView(at_us, (), (waiting,), both)).wishes
    assert [wish.scope for wish in wishes] == ["h100", "a100"]


@pytest.mark.parametrize(("left_s", "is_asked"), [(550, True), (410, False)])
def test_late_with_a_node_it_asks_for_no_other_that_does_less(left_s: int, is_asked: bool) -> None:
    """On an A100 that works, an H100 would start for 240 s and work twice as fast; 60 s since the
    checkpoint would be done again. Of 550 s it works 310, twice 310 is more than 610; of 410 s it
    works 170, and twice 170 is less than 470."""
    app = job(2.0, 3 * HOUR)
    adapter = adapter_for(app)
    at_us = 3 * HOUR - left_s * SECOND
    begun_us = at_us - 300 * SECOND
    app.advance(begun_us)
    app.gain("a100/g0", begun_us)
    app.advance(at_us)
    assert app.since_checkpoint_s("a100/g0") == 60.0
    at_hand = quotes(at_us, h100=(3 * DOLLAR, True))
    view = MarketView(at_us, (held_node("a100/g0", DOLLAR, 9 * DOLLAR),), (), at_hand)
    assert [wish.scope for wish in adapter.decide(app, view).wishes] == ["h100"] * is_asked


def test_a_patient_job_asks_for_no_more_than_it_can_afford() -> None:
    """$2 do not pay for an hour at $3: its order rests, and it buys nothing that it must drop."""
    world = world_of(a100=3 * DOLLAR)
    app = job(1.0, 24 * HOUR)
    world.join(Tenant("job", adapter_for(app, value=9 * DOLLAR, budget=2 * DOLLAR), app))
    world.run(HOUR // 6)
    assert not [said for said in world.log if isinstance(said.what, Filled)]
    [order] = world.market.orders("job")
    # $2 over an hour of work, a start of 4 minutes and two steps.
    assert order.limit == 2 * DOLLAR * 60 // 65


def test_scopes_without_a_node_that_could_be_in_time_are_refused() -> None:
    """The work could use an H100, but may not order one; or nothing that it may order is of use."""
    app = job(1.0, 60 * MINUTE)
    with pytest.raises(BadJob, match="even on a100"):
        deadline_adapter(
            app,
            TradingTerms("job", ("a100",), PERIOD),
            micros_per_unit=1.0,
            checkpoint_every_us=CHECKPOINT,
        )
    with pytest.raises(BadJob, match="none of b200 is a kind of node"):
        deadline_adapter(
            app,
            TradingTerms("job", ("b200/r0",), PERIOD),
            micros_per_unit=1.0,
            checkpoint_every_us=CHECKPOINT,
        )


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
        adapter = msgspec.structs.replace(adapter, policy=Greedy(adapter.plan.job))
    world.join(Tenant("job", adapter, app))
    for number, (begins_us, lasts_us, limit, kind) in enumerate(rivals):
        terms = TradingTerms(f"r{number}", (kind,), PERIOD)
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
        terms = TradingTerms("job", kinds, PERIOD, Budget(100 * DOLLAR))
        adapter = deadline_adapter(
            app, terms, micros_per_unit=2.0 * DOLLAR, checkpoint_every_us=CHECKPOINT, policy=Greedy
        )
        adapter.policy.net_us = round(margin * adapter.policy.net_us)
        # Nothing is free at first, so that the job waits as long as it dares.
        for number, kind in enumerate(kinds):
            footprint = Footprint(TradingTerms(f"r{number}", (kind,), PERIOD), 1, 8 * DOLLAR)
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
    rival = Footprint(TradingTerms("rival", ("a100",), PERIOD), 1, 8 * DOLLAR)
    world.join(Tenant("rival", rival, Crew()))
    world.run(4 * HOUR)
    assert app.done_us is None
    owed = world.market.bill("job", world.now_us)
    assert owed <= 2 * DOLLAR * CHARGE_UNITS_PER_MICRO_DOLLAR


def limit_of(adapter: DeadlineAdapter, app: BatchJob, held: Holding, at_us: int) -> int:
    """The limit that it sets, or leaves, for the node that it has."""
    app.advance(at_us)
    actions = [each.do for each in adapter.step(app, MarketView(at_us, (held,), (), {}), at_us)]
    assert not [do for do in actions if isinstance(do, Release)]
    return next((do.limit for do in actions if isinstance(do, ChangeLimit)), held.limit)


def test_a_job_that_is_nearly_done_keeps_its_node() -> None:
    """By hand: an hour on an A100 from 240 s on, $2 a unit, due in 4 hours. All of its pace, $2, is
    at stake for a start of 240 s and what is to be done again.

    In the middle, 10 s after a checkpoint: (value + 2 * 250 / 600) * 1.25, above $1.04 and below
    $3. One second before the end, 599 s after the last checkpoint, the loss is spread over 10 s,
    the least that there is: more than 2 * 839 / 10 * 1.25 = $209.75. A bid of $20 has the node in
    the middle, and not at the end.
    """
    app = job()
    adapter = adapter_for(app, budget=None)
    adapter = msgspec.structs.replace(adapter, policy=Greedy(adapter.plan.job))
    app.gain("a100/g0", 0)
    held = Holding("a100/g0", 0, DOLLAR, DOLLAR, None, {}, "job", "demand")
    middle_us = 240 * SECOND + 3 * CHECKPOINT + 10 * SECOND

    limit = limit_of(adapter, app, held, middle_us)
    worth = app.worth_of_losing("a100/g0").now
    assert limit == int((worth * 2 + 2 * 250 / 600) * 1.25 * DOLLAR)
    assert 1.04 * DOLLAR < limit < 3 * DOLLAR

    limit = limit_of(adapter, app, held, 240 * SECOND + HOUR - SECOND)
    worth = app.worth_of_losing("a100/g0").now
    assert app.ends_in_s("a100/g0") == 1.0
    assert limit == pytest.approx((worth * 2 + 2 * 839 / 10) * 1.25 * DOLLAR)
    assert limit > 209 * DOLLAR


@pytest.mark.parametrize(("before_s", "is_lost"), [(1_800, True), (31, False)])
def test_a_rival_who_comes_at_the_end_waits(before_s: int, is_lost: bool) -> None:
    """Half an hour before it is done, the job gives way to a bid of $20; at the end it does not,
    and its node is free a step later."""
    world, app = world_of(a100=DOLLAR), job()
    adapter = adapter_for(app)
    adapter = msgspec.structs.replace(adapter, policy=Greedy(adapter.plan.job))
    world.join(Tenant("job", adapter, app))
    done_us = 240 * SECOND + HOUR
    rival = Footprint(TradingTerms("rival", ("a100",), PERIOD), 1, 20 * DOLLAR)
    world.join(Tenant("rival", rival, Crew(), begins_us=done_us - before_s * SECOND))
    world.run(done_us + PERIOD)
    told = [said.what for said in world.log if said.who == "job"]
    reasons = [what.reason for what in told if isinstance(what, Lost)]
    assert (reasons[0] == "outbid") == is_lost
    assert app.is_done != is_lost
    assert world.market.owner("a100/g0") == "rival"
