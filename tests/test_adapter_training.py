"""Elastic training on the market: near what it holds, as planned at these prices."""

import msgspec
import pytest

from laissez.adapters.budget import Budget
from laissez.adapters.footprint import Footprint
from laissez.adapters.intent import TradingTerms
from laissez.adapters.pricing import Pricing
from laissez.adapters.training import TrainingAdapter, rounded
from laissez.adapters.view import MarketView
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
from laissez.model.values import Cause
from laissez.performance.training import Setup, TrainingJob, TrainingSpec
from laissez.simulation.kernel.world import Tenant, World
from toy import Crew

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DOLLAR = 1_000_000
PERIOD = 10 * SECOND
SETUP = Setup(gpus=(("h100", "H100"), ("a100", "A100-80")))
# tree / zone / rack / nvlink / host / gpu
HERE, THERE = "h100/z/r0/n0", "h100/z/r1/n0"


def job(samples: int = 400_000, hours: float = 4.0, nodes_max: int = 8) -> TrainingJob:
    return TrainingJob(
        TrainingSpec(samples, SETUP, deadline_us=round(hours * HOUR), nodes_max=nodes_max)
    )


def adapter_of(dollars: float, *scopes: str) -> TrainingAdapter:
    terms = TradingTerms("train", scopes or ("h100", "a100"), PERIOD)
    return TrainingAdapter(terms, dollars * DOLLAR)


def quotes(**rates: tuple[float, bool]) -> dict[str, Quoted]:
    named = {scope.replace("__", "/"): rate for scope, rate in rates.items()}
    return {s: Quoted(0, s, round(rate * DOLLAR), idle) for s, (rate, idle) in named.items()}


def held(resource: str, cause: Cause = "demand") -> Holding:
    return Holding(resource, 0, 3 * DOLLAR, 30 * DOLLAR, None, {}, "ada", cause)


def test_the_first_node_comes_from_anywhere_and_only_one() -> None:
    """By hand: one H100 alone is a pace of 1; at $20 a unit and 120 s of 600 s lost, $16."""
    app, adapter = job(), adapter_of(20.0)
    view = MarketView(0, (), (), quotes(h100=(3.0, True), a100=(9.0, False)))
    placed = [action.do for action in adapter.step(app, view, 0)]
    assert [(do.scope, do.price) for do in placed if isinstance(do, PlaceOrder)] == [
        ("h100", 16_000_000)
    ]


def test_the_next_ones_are_wanted_beside_the_first() -> None:
    """The sibling in the NVLink domain is ordered by the scope of the domain, and of no other."""
    app, adapter = job(), adapter_of(20.0)
    app.gain(f"{HERE}/h0/g0", 0)
    holdings = (held(f"{HERE}/h0/g0"),)
    assert adapter.near(app, holdings) == (HERE, "h100/z/r0")
    assert adapter.scopes_to_quote(app, holdings) == (HERE, "h100/z/r0", "h100", "a100")
    at_hand = quotes(h100__z__r0__n0=(3.0, True), h100__z__r0=(3.0, True), h100=(3.0, True))
    placed = [action.do for action in adapter.step(app, MarketView(0, holdings, (), at_hand), 0)]
    scopes = [do.scope for do in placed if isinstance(do, PlaceOrder)]
    assert len(scopes) > 1 and set(scopes) == {HERE}


def test_what_is_near_and_too_dear_is_not_in_the_shadow_plan() -> None:
    """With the domain at $50 and the rack at $3, the plan goes to the rack."""
    app, adapter = job(), adapter_of(5.0)
    app.gain(f"{HERE}/h0/g0", 0)
    holdings = (held(f"{HERE}/h0/g0"),)
    at_hand = quotes(h100__z__r0__n0=(50.0, True), h100__z__r0=(3.0, True), h100=(9.0, True))
    plan = adapter.shadow_plan(app, MarketView(0, holdings, (), at_hand), holdings)
    assert {use.place for use in plan.uses} == {f"{HERE}/h0/g0", "h100/z/r0"}


def test_it_orders_nowhere_outside_its_scopes() -> None:
    """A job that may use one rack does not bid for the next."""
    app, adapter = job(), adapter_of(20.0, HERE)
    app.gain(f"{HERE}/h0/g0", 0)
    assert adapter.near(app, (held(f"{HERE}/h0/g0"),)) == (HERE,)
    assert adapter.near(app, (held(f"{THERE}/h0/g0"),)) == ()


def test_limits_are_a_staircase_and_lowest_after_a_checkpoint() -> None:
    """By hand from the hooks: what each step down loses, and what the whole crew would do in 120 s
    of a new configuration and in the time since the checkpoint, spread over 600 s."""
    app, adapter = job(), adapter_of(20.0)
    for number in range(2):
        app.gain(f"{HERE}/h0/g{number}", 0)
    limits = {}
    for at_us in (120 * SECOND, 180 * SECOND):
        app.advance(at_us)
        holdings = tuple(held(f"{HERE}/h0/g{number}") for number in range(2))
        view = MarketView(at_us, holdings, (), {})
        limits[at_us] = {
            action.do.resource: action.do.limit
            for action in adapter.step(app, view, at_us)
            if isinstance(action.do, ChangeLimit)
        }
        first = app.worth_of_losing(f"{HERE}/h0/g0").now
        since_s = at_us / SECOND - 120
        expected = (first + app.pace * (120 + since_s) / 600) * 20 * DOLLAR
        assert limits[at_us][f"{HERE}/h0/g0"] == int(expected)
        assert limits[at_us][f"{HERE}/h0/g1"] >= limits[at_us][f"{HERE}/h0/g0"]
    early, late = limits.values()
    assert all(early[node] < late[node] for node in early)


def crew_at(at_us: int, micros: int, extra: str | None = None) -> tuple[TrainingJob, MarketView]:
    """Two nodes that work, first of all in need of 120 s to configure themselves, for which all
    that others offer comes to so much an hour."""
    app = job()
    nodes = [f"{HERE}/h0/g0", f"{HERE}/h0/g1", *([extra] if extra else [])]
    for number, node in enumerate(nodes):
        app.gain(node, 0 if number < 2 else 130 * SECOND)
    app.advance(at_us)
    rates = {nodes[0]: micros // 2, nodes[1]: micros - micros // 2}
    holdings = tuple(
        msgspec.structs.replace(held(node), rate=rates.get(node, DOLLAR)) for node in nodes
    )
    return app, MarketView(at_us, holdings, (), quotes(h100=(3.0, True)))


@pytest.mark.parametrize(
    ("since_s", "micros_above", "leaves"),
    [
        (1, 0, False),
        (1, 1, True),
        (240, 1, False),
    ],
)
def test_a_crew_leaves_if_all_cost_more_than_all_are_worth(
    since_s: int, micros_above: int, leaves: bool
) -> None:
    """By hand: what the crew does is needed, at $20 a unit of pace; if it stops, it stops for 120 s
    and does again what was done since its checkpoint, once, spread over 600 s. Each of the two is
    kept at more than that. So at that price it leaves after a checkpoint, and not before the next
    one: what it would do again is worth more by then."""
    adapter = adapter_of(20.0)
    at_us = (120 + since_s) * SECOND
    app, _ = crew_at(at_us, 0)
    pace = app.pace
    worth = int(20 * DOLLAR * pace * (1 + (120 + 1) / 600))
    app, view = crew_at(at_us, worth + micros_above)
    actions = adapter.step(app, view, at_us)
    released = {each.do.resource for each in actions if isinstance(each.do, Release)}
    assert released == ({*app.nodes} if leaves else set())
    assert any(isinstance(each.do, PlaceOrder) for each in actions) != leaves
    if leaves:
        dollars = f"${worth / DOLLAR:.2f}"
        why = f"its crew of 2 costs {dollars} an hour; it and a new start are worth {dollars}"
        assert {each.why for each in actions} == {why}
    else:
        limits = [each.do.limit for each in actions if isinstance(each.do, ChangeLimit)]
        assert all(limit > worth / 2 for limit in limits)


def test_who_waits_to_join_a_crew_may_stay_when_it_leaves() -> None:
    """It is looked at anew in the next step, as a node of its own."""
    extra, at_us = f"{HERE}/h0/g2", 140 * SECOND
    app, view = crew_at(at_us, 1_000 * DOLLAR, extra)
    released = {
        each.do.resource
        for each in adapter_of(20.0).step(app, view, at_us)
        if isinstance(each.do, Release)
    }
    assert released == {*app.crew} == {*app.nodes} - {extra}


def test_the_paper_knows_no_crews() -> None:
    """Its listing looks at one node at a time, and only lowers limits."""
    at_us = 121 * SECOND
    app, view = crew_at(at_us, 80 * DOLLAR)
    ours, paper = (
        adapter_of(20.0),
        TrainingAdapter(adapter_of(20.0).terms, 20.0 * DOLLAR, Pricing("paper")),
    )
    assert not ours.decide(app, view).keep
    assert {each.resource for each in paper.decide(app, view).keep} == {*app.nodes}


def cluster() -> World:
    """Two racks of one domain with four H100s each, and the same in A100s."""
    world = World()
    for tree, dollars in (("h100", 3), ("a100", 1.5)):
        world.operate(ChangeFloor(tree, round(dollars * DOLLAR)), 0)
        for rack in range(2):
            for gpu in range(4):
                world.operate(OfferResource(f"{tree}/z/r{rack}/n0/h0/g{gpu}"), 0)
    return world


def domains_held(world: World, tenant: str) -> set[str]:
    return {path.rpartition("/h0/")[0] for path in world.market.holdings(tenant)}


def test_a_job_grows_within_one_domain_and_is_in_time() -> None:
    """Free GPUs are spread over racks, but the job has its own beside each other."""
    world, app = cluster(), job(samples=200_000, hours=1.5, nodes_max=4)
    world.join(Tenant("train", adapter_of(12.0, "h100"), app))
    world.run(10 * MINUTE)
    assert len(world.market.holdings("train")) == 4
    assert len(domains_held(world, "train")) == 1
    world.run(round(1.5 * HOUR))
    assert app.is_done and not world.market.holdings("train")


def test_a_job_takes_no_more_than_it_needs_also_if_more_is_free() -> None:
    """Half of that pace is enough in twice the time: what it does not need would be one of its
    crew, and break it when somebody else comes. It is in time all the same."""
    world, app = cluster(), job(samples=200_000, hours=3.0, nodes_max=8)
    world.join(Tenant("train", adapter_of(12.0, "h100"), app))
    world.run(10 * MINUTE)
    assert len(world.market.holdings("train")) == 2
    world.run(3 * HOUR)
    assert app.is_done


def test_a_plan_elsewhere_does_not_buy_a_second_crew() -> None:
    """Three in one rack, one in another, where three more are free: the plan would rather be there.
    It orders one at most, for that is all that it lacks."""
    app, adapter = job(samples=400_000, hours=2.6, nodes_max=16), adapter_of(12.0, "h100")
    nodes = [*(f"{HERE}/h0/g{number}" for number in range(3)), f"{THERE}/h0/g0"]
    for node in nodes:
        app.gain(node, 0)
    at_hand = quotes(**{THERE.replace("/", "__"): (3.0, True), "h100": (3.0, True)})
    view = MarketView(0, tuple(map(held, nodes)), (), at_hand)
    planned = adapter.shadow_plan(app, view, view.holdings).uses
    new = sum(use.count for use in planned if use.place not in nodes)
    assert new > 1 and sum(use.count for use in planned) <= len(nodes) + 1
    assert len(adapter.wishes(app, view, view.holdings)) <= 1


def test_a_displaced_job_goes_on_with_what_is_left() -> None:
    """Somebody pays more for two of its GPUs: it loses these, goes on, and is done later."""
    done = {}
    for rivals in (0, 2):
        world, app = cluster(), job(samples=100_000, hours=0.9, nodes_max=4)
        world.join(Tenant("train", adapter_of(12.0, "h100/z/r0"), app))
        rival = Footprint(TradingTerms("rival", ("h100/z/r0",), PERIOD), rivals, 500 * DOLLAR)
        world.join(Tenant("rival", rival, Crew(), begins_us=20 * MINUTE))
        world.run(20 * MINUTE - 1)
        had = len(world.market.holdings("train"))
        assert had > 2
        world.run(30 * MINUTE)
        lost = [said for said in world.log if said.who == "train" and isinstance(said.what, Lost)]
        assert len(lost) == max(0, had + rivals - 4)
        while not app.is_done and world.now_us < 6 * HOUR:
            world.run(world.now_us + PERIOD)
        done[rivals] = world.now_us
    assert done[0] < done[2] < 6 * HOUR


def test_a_crew_that_is_too_dear_leaves_right_after_its_checkpoint() -> None:
    """A minute before a checkpoint, a rival offers half as much again as the nodes are worth. They
    are kept, for all would have a lot to do again. At the checkpoint they have nothing, and leave:
    one for the rival, and the others come back, as they are free."""
    world, app = cluster(), job(samples=400_000, hours=0.6, nodes_max=4)
    world.join(Tenant("train", adapter_of(12.0, "h100/z/r0"), app))
    world.run(10 * MINUTE)
    assert len(app.crew) == len(app.nodes) == 4
    saved_s = app.till_checkpoint_s(app.nodes[0])
    assert saved_s is not None
    saves_us = world.now_us + round(saved_s * SECOND)
    world.run(saves_us - MINUTE)
    offered = round(1.5 * 12 * DOLLAR * app.pace / 4)
    world.act("rival", PlaceOrder("h100/z/r0", offered, offered, "want", None), world.now_us)
    world.run(saves_us - SECOND)
    assert len(app.crew) == 4
    assert world.market.rate(app.nodes[0]) == offered
    done = app.samples_done
    world.run(saves_us + 2 * PERIOD)
    left = [said for said in world.log if said.who == "train" and isinstance(said.what, Release)]
    assert len(left) == 4
    assert all(said.why.startswith("its crew of") for said in left)
    assert len(world.market.holdings("rival")) == 1
    assert len(app.crew) == 3
    assert app.samples_done >= done


def test_plans_are_remembered_while_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred steps on a quiet market make a handful of plans."""
    world, app = cluster(), job(samples=200_000, hours=3.0, nodes_max=4)
    adapter = adapter_of(12.0)
    world.join(Tenant("train", adapter, app))
    world.run(10 * MINUTE)
    view_groups = []
    original = TrainingAdapter.shadow_plan

    def counted(self: TrainingAdapter, *args: object) -> object:
        plan = original(self, *args)  # type: ignore[arg-type]
        view_groups.append(id(plan))
        return plan

    monkeypatch.setattr(TrainingAdapter, "shadow_plan", counted)
    world.run(25 * MINUTE)
    assert len(view_groups) >= 90
    assert len(set(view_groups)) <= 10
    assert [rounded(number) for number in (1.234, 0.0567, 98_765.0, 0.0)] == [
        1.2,
        0.057,
        99_000.0,
        0.0,
    ]


def test_it_is_told_why() -> None:
    """Every action has its reason, and every fill follows from an order of its own."""
    world, app = cluster(), job(samples=50_000, hours=3.0, nodes_max=4)
    world.join(Tenant("train", adapter_of(12.0), app))
    world.run(2 * HOUR)
    own = [said for said in world.log if said.who == "train"]
    assert all(said.why for said in own if not isinstance(said.what, Filled | Lost))
    placed = {said.what.order for said in own if isinstance(said.what, PlaceOrder)}
    assert {said.what.order for said in own if isinstance(said.what, Filled)} <= placed
    assert msgspec.json.encode(own[0].what)


def test_money_has_to_last_until_the_job_is_done() -> None:
    """The budget of $8 ends in ten hours: until then $10 an hour would cost $100, so a unit is
    worth 0.08 of its value. Once the job has a node it is known when it will be done, and a spend
    that costs $16 until then makes a unit worth half."""
    app = job(samples=10_000, hours=20.0)
    budget = Budget(8 * DOLLAR, 10 * HOUR)
    adapter = TrainingAdapter(TradingTerms("train", ("h100",), PERIOD, budget), 20.0 * DOLLAR)
    view = MarketView(0, (), (), {})
    assert job().done_us is None
    assert adapter.value(app, view, 10 * DOLLAR) == pytest.approx(0.08 * 20 * DOLLAR)
    app.gain(f"{HERE}/h0/g0", 0)
    assert app.done_us is not None
    hours = app.done_us / HOUR
    assert 0 < hours < 10
    spend = round(16 * DOLLAR / hours)
    assert adapter.value(app, view, spend) == pytest.approx(0.5 * 20 * DOLLAR)


@pytest.mark.parametrize("ends_us", [None, MINUTE])
def test_a_budget_that_ends_before_the_job_ends_first(ends_us: int | None) -> None:
    """A minute's money is paced over a minute, and money without an end over the job; without a
    budget everything is worth what it is worth."""
    app = job(samples=10_000, hours=20.0)
    app.gain(f"{HERE}/h0/g0", 0)
    assert app.done_us is not None
    view = MarketView(0, (), (), {})
    terms = TradingTerms("train", ("h100",), PERIOD, Budget(DOLLAR, ends_us))
    lasts_us = app.done_us if ends_us is None else ends_us
    spend = round(4 * DOLLAR * HOUR / lasts_us)
    adapter = TrainingAdapter(terms, 20.0 * DOLLAR)
    assert adapter.value(app, view, spend) == pytest.approx(0.25 * 20 * DOLLAR)
    assert adapter_of(20.0).value(app, view, spend) == 20 * DOLLAR


def test_one_that_does_not_look_near_orders_wherever_nodes_are() -> None:
    """With a node of its own it asks for no quotes but of its scopes, and orders there; one that
    looks near orders in the domain."""
    holdings = (held(f"{HERE}/h0/g0"),)
    at_hand = quotes(h100__z__r0__n0=(3.0, True), h100__z__r0=(3.0, True), h100=(3.0, True))
    scopes = {}
    for looks_near in (True, False):
        app = job()
        app.gain(f"{HERE}/h0/g0", 0)
        adapter = msgspec.structs.replace(adapter_of(20.0), looks_near=looks_near)
        quoted = adapter.scopes_to_quote(app, holdings)
        seen = {scope: quote for scope, quote in at_hand.items() if scope in quoted}
        actions = adapter.step(app, MarketView(0, holdings, (), seen), 0)
        placed = [each.do.scope for each in actions if isinstance(each.do, PlaceOrder)]
        scopes[looks_near] = (quoted, set(placed))
    assert scopes == {
        True: ((HERE, "h100/z/r0", "h100", "a100"), {HERE}),
        False: (("h100", "a100"), {"h100"}),
    }
