"""An inference service on the market, by hand and at play."""

from collections import Counter

import pytest

from laissez.adapters.econ import EconAdapter
from laissez.adapters.footprint import Footprint
from laissez.adapters.inference import inference_adapter
from laissez.adapters.intent import TradingTerms
from laissez.adapters.view import MarketView
from laissez.model import (
    ChangeFloor,
    ChangeLimit,
    Filled,
    Holding,
    OfferResource,
    PlaceOrder,
    Quoted,
    Release,
)
from laissez.performance.inference import (
    Hardware,
    InferenceService,
    InferenceSpec,
    Load,
    LoadTrace,
    preset,
)
from laissez.performance.standing import Standing
from laissez.simulation.kernel.world import Tenant, World

SECOND = 1_000_000
MINUTE = 60 * SECOND
DOLLAR = 1_000_000
PERIOD = 5 * SECOND
TERMS = TradingTerms("serve", ("h100",), PERIOD)


def service(requests_per_s: float, trace: LoadTrace | None = None) -> InferenceService:
    spec = InferenceSpec(
        model="Llama-3.1-8B",
        kinds={"h100": Hardware("h100_sxm", gpus=1)},
        objective=preset("planner-default"),
        expected=Load(requests_per_s, 1_000.0, 200.0),
        cold_start_s=60.0,
    )
    return InferenceService(spec, load=trace)


def test_a_thousand_requests_at_a_dollar() -> None:
    """One more request a second within its objective is 3,600 an hour: $3.60."""
    adapter = inference_adapter(TERMS, float(DOLLAR))
    assert adapter.micros_per_unit == pytest.approx(3.6 * DOLLAR)


def test_bid_and_limit_follow_from_the_requests_that_a_node_serves() -> None:
    """By hand: what one node adds, times the value; 60 s of 600 s are lost with a start.

    To grow, nine tenths of the value; to keep, 1.25 of it while it is cold, and (1 + 60/600) * 1.25
    once it is warm.
    """
    app = service(100.0)
    app.advance(0)
    adapter = inference_adapter(TERMS, float(DOLLAR))
    view = MarketView(0, (), (), {"h100": Quoted(0, "h100", 9 * DOLLAR, False)})
    served = app.worth_of_gaining("h100").now
    assert 0 < served < 100
    first = adapter.step(app, view, 0)[0].do
    assert isinstance(first, PlaceOrder)
    assert first.price == int(served * 3.6 * DOLLAR * (1 - 60 / 600))

    app.gain("h100/g0", 0)
    held = Holding("h100/g0", 0, 9 * DOLLAR, 10 * DOLLAR, None, {}, "ada", "demand")
    view = MarketView(0, (held,), (), {"h100": Quoted(0, "h100", None, False)})
    [limit] = adapter.step(app, view, 0)
    lost = app.worth_of_losing("h100/g0").now
    assert limit.do == ChangeLimit("h100/g0", int(lost * 3.6 * DOLLAR * 1.25))
    app.advance(60_000_000)
    lost = app.worth_of_losing("h100/g0").now
    view = MarketView(60_000_000, (held,), (), {"h100": Quoted(0, "h100", None, False)})
    [limit] = adapter.step(app, view, 60_000_000)
    assert limit.do == ChangeLimit("h100/g0", int(lost * 3.6 * DOLLAR * 1.1 * 1.25))


def test_wishes_end_where_the_load_ends() -> None:
    """It orders as many nodes as bring requests within the objective, and not one more."""
    app = service(60.0)
    app.advance(0)
    adapter = inference_adapter(TERMS, float(DOLLAR))
    view = MarketView(0, (), (), {"h100": Quoted(0, "h100", 2 * DOLLAR, True)})
    orders = adapter.step(app, view, 0)
    assert len(orders) == app.missing("h100") > 1


def test_nodes_follow_the_load() -> None:
    """A load that doubles and falls back: nodes are won for it and given back after it."""
    rates = ((0, 20.0), (5 * MINUTE, 60.0), (15 * MINUTE, 20.0))
    trace = LoadTrace(tuple((at, rate, 1_000.0, 200.0) for at, rate in rates), 40 * MINUTE)
    app = service(20.0, trace)
    world = World()
    world.operate(ChangeFloor("h100", 2 * DOLLAR), 0)
    for number in range(16):
        world.operate(OfferResource(f"h100/g{number}"), 0)
    world.join(Tenant("serve", inference_adapter(TERMS, float(DOLLAR)), app))
    counts = {}
    for minute in (4, 12, 30):
        world.run(minute * MINUTE)
        counts[minute] = len(world.market.holdings("serve"))
    assert counts[4] < counts[12] > counts[30] >= counts[4] > 0
    world.run(41 * MINUTE)
    assert app.is_done and not world.market.holdings("serve")
    assert app.tally.attainment > 0.8


def test_two_services_share_by_what_their_requests_are_worth() -> None:
    """With too few nodes for both, the one that is paid more has more, though it came later."""
    steady = LoadTrace(((0, 60.0, 1_000.0, 200.0),), 30 * MINUTE)
    apps = {"dear": service(60.0, steady), "cheap": service(60.0, steady)}
    apps["dear"].advance(0)
    wanted = apps["dear"].missing("h100")
    world = World()
    for number in range(wanted + 1):
        world.operate(OfferResource(f"h100/g{number}"), 0)
    for name, dollars in (("cheap", 0.5), ("dear", 2.0)):
        adapter: EconAdapter = inference_adapter(TERMS, dollars * DOLLAR)
        begins_us = 0 if name == "cheap" else 2 * MINUTE
        world.join(Tenant(name, adapter, apps[name], begins_us))
    world.run(30 * MINUTE - 1)
    assert len(world.market.holdings("dear")) > len(world.market.holdings("cheap")) > 0
    assert apps["dear"].tally.attainment > apps["cheap"].tally.attainment


def fast_chat() -> InferenceService:
    """8 ms for a token: an A100 is too slow for that, and can only help an H100 with prompts."""
    spec = InferenceSpec(
        model="Llama-3.1-8B",
        kinds={"h100": Hardware("h100_sxm"), "a100": Hardware("a100_sxm")},
        objective=preset("real-time-chat"),
        expected=Load(20.0, 1_000.0, 200.0),
    )
    app = InferenceService(spec)
    app.advance(0)
    return app


def ordered(*, is_h100_free: bool, is_a100_free: bool) -> Counter[str]:
    """What a service that has nothing orders, by kind, at $10 for a thousand requests."""
    quotes = {
        "h100": Quoted(0, "h100", 5 * DOLLAR, is_h100_free),
        "a100": Quoted(0, "a100", 2 * DOLLAR, is_a100_free),
    }
    adapter = inference_adapter(TradingTerms("chat", ("h100", "a100"), PERIOD), 10.0 * DOLLAR)
    actions = adapter.step(fast_chat(), MarketView(0, (), (), quotes), 0)
    return Counter(each.do.scope for each in actions if isinstance(each.do, PlaceOrder))


def test_what_is_of_use_only_beside_another_kind_waits_for_that() -> None:
    """An A100 alone is worth nothing and beside an H100 something. It is ordered where H100s are
    free, and not where they are only hoped for."""
    app = fast_chat()
    assert app.worth_of_gaining("a100").full == 0 < app.worth_of_gaining("a100", ["h100"]).full
    assert ordered(is_h100_free=True, is_a100_free=True) == {"h100": 4, "a100": 2}
    assert ordered(is_h100_free=False, is_a100_free=True) == {"h100": app.missing("h100")}
    assert ordered(is_h100_free=True, is_a100_free=False) == {"h100": app.missing("h100")}


def test_nobody_buys_a_node_only_to_find_it_redundant() -> None:
    """H100s are held by somebody who pays more, A100s are free. A service for which A100s are of no
    use alone goes on asking for H100s, and neither wins nor gives back an A100, again and again."""
    world = World()
    for kind, dollars in (("h100", 5), ("a100", 2)):
        world.operate(ChangeFloor(kind, dollars * DOLLAR), 0)
        for number in range(3):
            world.operate(OfferResource(f"{kind}/g{number}"), 0)
    busy = Footprint(TradingTerms("busy", ("h100",), PERIOD), 3, 900 * DOLLAR)
    world.join(Tenant("busy", busy, Standing(("h100",), 3)))
    adapter = inference_adapter(TradingTerms("chat", ("h100", "a100"), PERIOD), float(DOLLAR))
    world.join(Tenant("chat", adapter, fast_chat(), begins_us=SECOND))
    world.run(2 * MINUTE)
    told = [said.what for said in world.log if said.who == "chat"]
    assert {each.scope for each in told if isinstance(each, PlaceOrder)} == {"h100"}
    assert not [each for each in told if isinstance(each, Filled | Release)]
