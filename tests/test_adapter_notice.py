"""Calls, promises, bonds and gangs, as adapters see them and act on them in a simulated market."""

from typing import Any

from laissez.adapters.acting import actions_for
from laissez.adapters.adapter import Trader
from laissez.adapters.econ import EconAdapter
from laissez.adapters.footprint import Footprint
from laissez.adapters.intent import Intent, Keep, TradingTerms, Wish, staying_holdings
from laissez.adapters.view import (
    GangAsk,
    HoldingCall,
    MarketView,
    NodeBond,
    OrderGang,
    PromisedNode,
    Stay,
    TreeTerms,
    Vacate,
)
from laissez.model import (
    AmendOrder,
    ChangeFloor,
    ChangeLimit,
    Filled,
    Holding,
    Lost,
    OfferResource,
    OpenOrder,
    PlaceOrder,
    Promised,
    Quoted,
    Rejected,
    Release,
)
from laissez.performance.standing import Standing
from laissez.simulation.kernel.world import Tenant, World, view_of
from toy import Crew

SECOND = 1_000_000
MINUTE = 60 * SECOND
DOLLAR = 1_000_000
PERIOD = 5 * SECOND
NODE = "h100/r0/g0"


def terms_of(name: str) -> TradingTerms:
    return TradingTerms(name, ("h100",), PERIOD)


def market(*tenants: Tenant, nodes: int = 1, notice_s: int = 60, commit_s: int = 0) -> World:
    world = World(tenants)
    world.operate(ChangeFloor("h100", 2 * DOLLAR), 0)
    world.bind("h100", notice_us=notice_s * SECOND, commit_us=commit_s * SECOND)
    for number in range(nodes):
        world.operate(OfferResource(f"h100/r0/g{number}"), 0)
    return world


def rival(at_us: int = 61 * SECOND, dollars: float = 9.0) -> Tenant:
    adapter = Footprint(terms_of("rival"), 1, round(dollars * DOLLAR))
    return Tenant("rival", adapter, Standing(("h100",), 1), at_us)


def happened(world: World, who: str) -> list[tuple[float, str]]:
    named = (Vacate, Stay, Release, Filled, Lost)
    return [
        (line.at_us / SECOND, type(line.what).__name__)
        for line in world.log
        if line.who == who and isinstance(line.what, named)
    ]


def loser(vacate_s: float | None, nodes: int = 1) -> Tenant:
    adapter = EconAdapter(terms_of("ada"), 3.0 * DOLLAR)
    return Tenant("ada", adapter, Crew(nodes, vacate_s=vacate_s))


def test_a_called_node_is_left_as_soon_as_there_is_nothing_to_lose() -> None:
    """Called at 61 s; it reacts after 20 ms, is ready 12 s later, and steps every 5 s."""
    world = market(loser(12.0), rival())
    world.run(3 * MINUTE)
    assert happened(world, "ada") == [
        (0.0, "Filled"),
        (61.02, "Vacate"),
        (75.0, "Release"),
        (75.0, "Lost"),
    ]
    assert (75.0, "Filled") in happened(world, "rival")
    # 61 s at the floor, and 14 s at the limit that it had: the most that it had said it would pay.
    limit = round(3.0 * 1.25 * DOLLAR)
    charge = world.market.bill("ada", world.now_us)
    assert charge == 61 * SECOND * 2 * DOLLAR + 14 * SECOND * limit


def test_who_can_not_be_ready_in_time_leaves_at_once() -> None:
    world = market(loser(61.0), rival())
    world.run(3 * MINUTE)
    assert happened(world, "ada")[1:] == [(61.02, "Release"), (61.02, "Lost")]


def test_where_nobody_knows_what_runs_there_is_the_whole_notice() -> None:
    world = market(loser(None), rival())
    world.run(3 * MINUTE)
    assert happened(world, "ada")[1:] == [(121.0, "Lost")]


def test_a_call_that_is_over_is_told_to_the_application() -> None:
    """Whoever was promised the node gives that back after 10 s."""
    ada = loser(30.0)
    world = market(ada)
    world.at(MINUTE, lambda at: world.act("bob", PlaceOrder("h100", 9 * DOLLAR), at))
    world.at(MINUTE + 10 * SECOND, lambda at: world.act("bob", Release(NODE), at))
    world.run(MINUTE + 9 * SECOND)
    assert list(ada.app.vacating) == [NODE]
    world.run(3 * MINUTE)
    assert [what for _, what in happened(world, "ada")] == ["Filled", "Vacate", "Stay"]
    assert list(ada.app.vacating) == [] and world.market.holdings("ada") == (NODE,)


def test_the_view_tells_of_calls_promises_and_terms() -> None:
    ada, bob = loser(None), rival(2 * MINUTE)
    world = market(ada, bob, commit_s=30)
    world.run(2 * MINUTE + SECOND)
    called = view_of(world.market, ada, world.now_us, world._binding)
    promised = view_of(world.market, bob, world.now_us, world._binding)
    until_us = 3 * MINUTE
    assert called.calls == {NODE: HoldingCall(until_us, "outbid")} and called.promises == {}
    assert promised.promises == {NODE: PromisedNode(until_us, 9 * DOLLAR, "rival.0")}
    assert promised.terms == {"h100": TreeTerms(60 * SECOND, 30 * SECOND)}
    assert staying_holdings(ada.adapter.terms, called) == []
    world.run(until_us + SECOND)
    bound = view_of(world.market, bob, world.now_us, world._binding)
    assert bound.bonds == {NODE: NodeBond(until_us + 30 * SECOND, 9 * DOLLAR)}
    world.run(until_us + 30 * SECOND)
    assert view_of(world.market, bob, world.now_us, world._binding).bonds == {}


def test_a_promised_node_is_not_ordered_again() -> None:
    """Nor is the id of its order used for another as long as the promise stands."""
    world = market(loser(None, 3), rival(), nodes=3)
    world.run(MINUTE + 50 * SECOND)
    assert len(world.market.promises("rival")) == 1
    placed = [line for line in world.log if line.who == "rival"]
    assert [type(line.what) for line in placed] == [PlaceOrder, Promised]
    wants_two = Tenant("eve", Footprint(terms_of("eve"), 2, 5 * DOLLAR), Standing(("h100",), 2))
    world = market(nodes=2, notice_s=300)
    for name, limit in (("weak", 3), ("sure", 99)):
        world.act(name, PlaceOrder("h100", 2 * DOLLAR, limit * DOLLAR), 0)
    world.run(SECOND)
    world.join(wants_two)
    world.run(3 * MINUTE)  # the order that waits is renewed meanwhile
    assert len(world.market.promises("eve")) == 1 and len(world.market.orders("eve")) == 1
    assert not any(isinstance(line.what, Rejected) for line in world.log)


# Gangs ------------------------------------------------------------------------------------------


class Gangster(Trader, frozen=True):
    """Wants so many at once, and keeps them."""

    count: int
    limit: int

    def decide(self, app: Any, view: MarketView) -> Intent:
        held = staying_holdings(self.terms, view)
        keep = tuple(Keep(each.resource, self.limit) for each in held)
        wish = Wish("h100", self.limit, self.limit, count=self.count, within=2)
        return Intent(keep, () if held else (wish,))

    def gangs_to_quote(self, app: Any, holdings: Any) -> tuple[GangAsk, ...]:
        return (GangAsk("h100", self.count, 2), GangAsk("h100", 99, 2))


def test_a_gang_is_placed_renewed_and_filled_at_once() -> None:
    gang = Tenant("gang", Gangster(terms_of("gang"), 3, 4 * DOLLAR), Standing(("h100",), 3))
    other = Tenant("ada", Footprint(terms_of("ada"), 2, 5 * DOLLAR), Standing(("h100",), 2))
    world = market(other, gang, nodes=4)
    world.run(10 * MINUTE)  # an order that was not renewed would have expired
    (waiting,) = view_of(world.market, gang, world.now_us).orders
    assert (waiting.count, waiting.within, waiting.price) == (3, 2, None)
    quoted = view_of(world.market, gang, world.now_us).gang_quotes
    assert quoted == {GangAsk("h100", 3, 2): Quoted(world.now_us, "h100", 2 * DOLLAR, False)}
    world.leave("ada")
    world.run(11 * MINUTE)
    assert len(world.market.holdings("gang")) == 3


def view(**seen: Any) -> MarketView:
    return MarketView(0, seen.pop("holdings", ()), seen.pop("orders", ()), {}, **seen)


def test_a_gang_is_amended_and_never_placed_beside_itself() -> None:
    wish = Wish("h100", 5 * DOLLAR, 5 * DOLLAR, count=4, within=2)
    (placed,) = actions_for(Intent((), (wish,)), terms_of("t"), view())
    assert placed.do == OrderGang("h100", 4, 2, 5 * DOLLAR, "t.0", 20 * PERIOD)
    waits = OpenOrder("ada", "t.0", "h100", None, 4 * DOLLAR, 20 * PERIOD, 4, 2)
    (amended,) = actions_for(Intent((), (wish,)), terms_of("t"), view(orders=(waits,)))
    assert amended.do == AmendOrder("t.0", None, 5 * DOLLAR, 20 * PERIOD)


# Bonds ------------------------------------------------------------------------------------------


def held(limit: int) -> Holding:
    return Holding(NODE, 0, 2 * DOLLAR, limit, None, {}, "ada")


def test_what_is_bound_is_given_up_by_its_limit_and_released_when_it_is_free() -> None:
    bonds = {NODE: NodeBond(60 * SECOND, 5 * DOLLAR)}
    nothing = Intent()
    (lowered,) = actions_for(
        nothing, terms_of("t"), view(holdings=(held(6 * DOLLAR),), bonds=bonds)
    )
    assert lowered.do == ChangeLimit(NODE, 1)
    lowest = view(holdings=(held(5 * DOLLAR),), bonds=bonds)
    assert actions_for(nothing, terms_of("t"), lowest) == ()
    (released,) = actions_for(nothing, terms_of("t"), view(holdings=(held(6 * DOLLAR),)))
    assert released.do == Release(NODE)


def test_to_give_up_costs_a_bound_holder_no_more_than_the_rate() -> None:
    """It needs its node for a minute and is bound for five, at $6. It pays $2 to the end."""
    crew = Crew(needs={0: 1, MINUTE: 0})
    world = market(Tenant("ada", EconAdapter(terms_of("ada"), 6.0 * DOLLAR), crew), commit_s=300)
    world.run(10 * MINUTE)
    assert world.market.holdings("ada") == ()
    assert world.market.bill("ada", world.now_us) == 5 * MINUTE * 2 * DOLLAR
