"""What all adapters share, by hand-computed cases: pricing, staircase, budget, orders."""

import msgspec
import pytest

from laissez.adapters.budget import Budget
from laissez.adapters.econ import EconAdapter
from laissez.adapters.footprint import Footprint
from laissez.adapters.intent import Intent, Keep, Terms, Wish, actions_for
from laissez.adapters.pricing import BATCH_HORIZON_S, Pricing
from laissez.adapters.view import MarketView
from laissez.model import (
    AmendOrder,
    CancelOrder,
    ChangeLimit,
    Holding,
    OpenOrder,
    PlaceOrder,
    Quoted,
    Release,
    TenantInstruction,
)
from laissez.model.paths import covers
from laissez.model.values import CHARGE_UNITS_PER_MICRO_DOLLAR, Cause
from toy import Crew

SECOND = 1_000_000
DOLLAR = 1_000_000
HOUR = 3_600 * SECOND
TERMS = Terms("crew", ("h100",), 5 * SECOND)


def held(
    resource: str,
    *,
    rate: int = 2 * DOLLAR,
    limit: int = 5 * DOLLAR,
    cause: Cause = "floor",
    safe_until: int | None = None,
) -> Holding:
    return Holding(resource, 0, rate, limit, safe_until, {}, "ada", cause)


def order(number: int, *, price: int, limit: int, scope: str = "h100", expires: int) -> OpenOrder:
    return OpenOrder("ada", f"crew.{number}", scope, price, limit, expires)


def seen(
    *holdings: Holding,
    orders: tuple[OpenOrder, ...] = (),
    quote: int | None = 2 * DOLLAR,
    idle: bool = True,
    charge: int = 0,
    at_us: int = 0,
) -> MarketView:
    quotes = {"h100": Quoted(at_us, "h100", quote, idle)}
    return MarketView(at_us, holdings, orders, quotes, charge)


def done(*actions: object) -> list[TenantInstruction]:
    return [action.do for action in actions]  # type: ignore[attr-defined]


# Pricing ----------------------------------------------------------------------------------------


def test_a_bid_is_the_value_less_the_cold_start_spread_over_the_horizon() -> None:
    """$4 an hour, 25 s of 100 s lost: $3 to grow; (4 + 1) * 1.25 = $6.25 to keep."""
    pricing = Pricing()
    assert pricing.bid(4.0, cold_start_s=25) == 3.0
    assert pricing.limit(4.0, restart_s=25, redone_s=0) == 6.25


def test_the_limit_is_lowest_right_after_a_checkpoint() -> None:
    """Work that would be done again adds to the limit: 25 s of it another quarter of the value."""
    pricing = Pricing()
    fresh, later = (pricing.limit(4.0, 25, redone_s) for redone_s in (0, 25))
    assert (fresh, later) == (6.25, 7.5)


def test_the_horizon_is_never_shorter_than_the_restart_and_a_minute() -> None:
    """A restart of 140 s is spread over 200 s, not over 100; batch over 600 s."""
    assert Pricing().bid(10.0, cold_start_s=140) == pytest.approx(3.0)
    assert Pricing(horizon_s=BATCH_HORIZON_S).bid(10.0, cold_start_s=480) == pytest.approx(2.0)


def test_the_papers_listing_takes_the_move_off_both_prices() -> None:
    """At a rate of $2 and 25 s of 100 s, $0.50 less than the value to grow and to shrink."""
    paper = Pricing(variant="paper")
    assert paper.bid(4.0, 25, rate=2.0) == 3.5
    assert paper.limit(4.0, 25, redone_s=50, rate=2.0) == 3.5


# Budget -----------------------------------------------------------------------------------------


def test_a_budget_is_paced() -> None:
    """Two nodes at $2 cost $40 in ten hours; with $30 left everything is worth three quarters."""
    view = seen(held("h100/g0"), held("h100/g1"))
    assert Budget(40 * DOLLAR, 10 * HOUR).pace(view) == 1.0
    assert Budget(30 * DOLLAR, 10 * HOUR).pace(view) == 0.75
    assert Budget(30 * DOLLAR).pace(view) == 1.0
    spent = 30 * DOLLAR * CHARGE_UNITS_PER_MICRO_DOLLAR
    assert Budget(30 * DOLLAR, 10 * HOUR).pace(msgspec.structs.replace(view, charge=spent)) == 0.0


def test_near_the_end_of_a_budget_limits_are_cut_and_the_least_important_node_goes() -> None:
    """$0.01 pays for 2 steps of 5 s at $3.60 an hour: one limit is cut to that, the rest goes."""
    terms = msgspec.structs.replace(TERMS, budget=Budget(10_000))
    intent = Intent(
        (Keep("h100/g0", 5 * DOLLAR), Keep("h100/g1", 5 * DOLLAR)),
        (Wish("h100", 5 * DOLLAR, 5 * DOLLAR),),
    )
    view = seen(held("h100/g0", limit=9 * DOLLAR), held("h100/g1", limit=9 * DOLLAR))
    assert done(*actions_for(intent, terms, view)) == [
        Release("h100/g1"),
        ChangeLimit("h100/g0", 3_600_000),
    ]


def test_a_protected_holding_counts_with_what_it_may_be_charged() -> None:
    """Under a hold the charge may reach the old limit, so one that can't be paid is released."""
    terms = msgspec.structs.replace(TERMS, budget=Budget(10_000))
    intent = Intent((Keep("h100/g0", 3 * DOLLAR),))
    protected = held("h100/g0", limit=9 * DOLLAR, safe_until=SECOND)
    assert done(*actions_for(intent, terms, seen(protected))) == [Release("h100/g0")]
    payable = held("h100/g0", limit=3_500_000, safe_until=SECOND)
    assert done(*actions_for(intent, terms, seen(payable))) == []


# Orders -----------------------------------------------------------------------------------------


def test_orders_follow_the_wishes() -> None:
    """What serves a wish is amended, what serves none is cancelled, what is missing is placed."""
    soon, late = 4 * SECOND, 50 * SECOND
    orders = (
        order(0, price=2 * DOLLAR, limit=2 * DOLLAR, expires=late),
        order(3, price=3 * DOLLAR, limit=3 * DOLLAR, expires=late, scope="h100/r1"),
        OpenOrder("ada", "by-hand", "h100", DOLLAR, DOLLAR, None),
    )
    wishes = (Wish("h100", 4 * DOLLAR, 5 * DOLLAR), Wish("h100", DOLLAR, DOLLAR))
    did = done(*actions_for(Intent((), wishes), TERMS, seen(orders=orders)))
    assert did == [
        CancelOrder("crew.3"),
        AmendOrder("crew.0", price=4 * DOLLAR, limit=5 * DOLLAR),
        PlaceOrder("h100", DOLLAR, DOLLAR, "crew.1", late),
    ]
    ending = (order(0, price=4 * DOLLAR, limit=5 * DOLLAR, expires=soon),)
    renewed = done(*actions_for(Intent((), wishes[:1]), TERMS, seen(orders=ending)))
    assert renewed == [AmendOrder("crew.0", expires=late)]


def test_a_trifle_is_not_sent() -> None:
    """Five percent more or less changes neither a limit nor an order; six do."""
    intent = Intent((Keep("h100/g0", 5_250_000),), (Wish("h100", 4_200_000, 4_200_000),))
    orders = (order(0, price=4 * DOLLAR, limit=4 * DOLLAR, expires=50 * SECOND),)
    assert actions_for(intent, TERMS, seen(held("h100/g0"), orders=orders)) == ()
    more = Intent((Keep("h100/g0", 5_300_000),), (Wish("h100", 4_240_000, 4_240_000),))
    assert done(*actions_for(more, TERMS, seen(held("h100/g0"), orders=orders))) == [
        ChangeLimit("h100/g0", 5_300_000),
        AmendOrder("crew.0", price=4_240_000, limit=4_240_000),
    ]


def test_what_lies_outside_the_scopes_is_left_alone() -> None:
    """Another tree, or a scope whose name only begins the same, is none of the adapter's."""
    terms = msgspec.structs.replace(TERMS, scopes=("h100/r1",))
    view = seen(held("h100/r1/g0"), held("h100/r10/g0"), held("a100/g0"))
    assert done(*actions_for(Intent(), terms, view)) == [Release("h100/r1/g0")]
    assert not covers("h100/r1", "h100/r10/g0")


# The adapter for applications with hooks --------------------------------------------------------


def crew_with(*resources: str, **options: object) -> Crew:
    crew = Crew(**options)  # type: ignore[arg-type]
    for resource in resources:
        crew.gain(resource, 0)
    return crew


def test_nodes_are_priced_by_a_staircase() -> None:
    """Of three nodes with need for 2, one is released; the two are worth the loss of one each."""
    adapter = EconAdapter(TERMS, 4.0 * DOLLAR)
    crew = crew_with("h100/g0", "h100/g1", "h100/g2", need=2)
    view = seen(*(held(f"h100/g{n}", cause="demand") for n in range(3)))
    intent = adapter.decide(crew, view)
    assert {each.resource: each.limit for each in intent.keep} == {
        "h100/g0": 5 * DOLLAR,
        "h100/g1": 5 * DOLLAR,
    }
    assert not intent.wishes


class Concave(Crew):
    """The first node is worth 1, the second a half, the third a quarter."""

    def worth_of_losing(self, resource, gone=()):  # type: ignore[no-untyped-def]
        left = len([each for each in self.gained if each not in gone])
        worth = super().worth_of_losing(resource, gone)
        return worth._replace(now=0.5 ** (left - 1), full=0.5 ** (left - 1))


def test_the_slow_and_the_cold_are_given_up_first() -> None:
    """Each is priced as if those before it were gone: a quarter, a half, one; times 1.25."""
    adapter = EconAdapter(TERMS, 4.0 * DOLLAR)
    crew = Concave(3, cold_start_s=0)
    for resource in ("h100/g0", "h100/g1", "h100/g2"):
        crew.gain(resource, 0)
    view = seen(*(held(f"h100/g{n}", cause="demand") for n in range(3)))
    limits = [(each.resource, each.limit) for each in adapter.decide(crew, view).keep]
    assert limits == [("h100/g2", 5_000_000), ("h100/g1", 2_500_000), ("h100/g0", 1_250_000)]
    paper = msgspec.structs.replace(adapter, pricing=Pricing(variant="paper"))
    assert {each.limit for each in paper.decide(crew, view).keep} == {DOLLAR}


def test_a_cold_node_ranks_before_a_warm_one() -> None:
    """The node that has just been won is the first to go."""
    adapter = EconAdapter(TERMS, 4.0 * DOLLAR, Pricing(hysteresis=0.0))
    crew = Concave(2, cold_start_s=50)
    crew.gain("h100/g0", 0)
    crew.advance(60 * SECOND)
    crew.gain("h100/g1", 60 * SECOND)
    view = seen(held("h100/g1", cause="demand"), held("h100/g0", cause="demand"))
    limits = [(each.resource, each.limit) for each in adapter.decide(crew, view).keep]
    assert limits == [("h100/g0", 5_818_181), ("h100/g1", 2_909_090)]


def test_what_is_free_is_taken_at_the_floor_and_kept_there_while_nobody_wants_it() -> None:
    """Not urgent, but worth $2.50 in full: at a floor of $2 it is taken, and kept at $2."""
    adapter = EconAdapter(TERMS, 5.0 * DOLLAR)
    crew = Crew(0, spare=0.5)
    wishes = adapter.decide(crew, seen()).wishes
    assert wishes and {(wish.price, wish.limit) for wish in wishes} == {(2 * DOLLAR, 2 * DOLLAR)}
    assert not adapter.decide(crew, seen(quote=3 * DOLLAR)).wishes
    assert not adapter.decide(crew, seen(idle=False)).wishes
    crew.gain("h100/g0", 0)
    [kept] = adapter.decide(crew, seen(held("h100/g0"), quote=None)).keep
    assert kept.limit == 2 * DOLLAR
    assert not adapter.decide(crew, seen(held("h100/g0", cause="demand"), quote=None)).keep


def test_orders_go_where_a_unit_costs_least_or_everywhere() -> None:
    """Free: h100 at $4 for 2 units beats a100 at $2.50 for one. Full: one order in each tree."""
    terms = msgspec.structs.replace(TERMS, scopes=("a100", "h100"))
    adapter = EconAdapter(terms, 5.0 * DOLLAR)
    crew = Crew(2, speeds={"a100": 1.0, "h100": 2.0})
    for idle, expected in ((True, ["h100"]), (False, ["a100", "h100"])):
        quotes = {
            "a100": Quoted(0, "a100", 2_500_000, idle),
            "h100": Quoted(0, "h100", 4_000_000, idle),
        }
        wishes = adapter.decide(crew, MarketView(0, (), (), quotes)).wishes
        assert [wish.scope for wish in wishes] == expected


def test_a_step_asks_and_changes_nothing() -> None:
    """Twice the same question, twice the same actions; the application is as it was."""
    adapter = EconAdapter(TERMS, 4.0 * DOLLAR)
    crew = crew_with("h100/g0", need=3, cold_start_s=30.0)
    view = seen(held("h100/g0"))
    before = crew.state()
    assert adapter.step(crew, view, 0) == adapter.step(crew, view, 0) != ()
    assert crew.state() == before


def test_done_means_that_everything_is_given_back() -> None:
    """Nodes are released and orders cancelled when there is nothing left to do."""
    crew = crew_with("h100/g0", ends_us=0)
    orders = (order(0, price=1, limit=1, expires=HOUR),)
    did = EconAdapter(TERMS, 4.0 * DOLLAR).step(crew, seen(held("h100/g0"), orders=orders), 0)
    assert done(*did) == [CancelOrder("crew.0"), Release("h100/g0")]


# Today's contracts ------------------------------------------------------------------------------


def test_a_footprint_is_filled_and_held_at_its_limit() -> None:
    """Two of three nodes held: limits as in the contract, one order at the limit."""
    adapter = Footprint(TERMS, nodes=3, limit=9 * DOLLAR)
    view = seen(held("h100/g0", limit=9 * DOLLAR), held("h100/g1", limit=DOLLAR))
    assert done(*adapter.step(Crew(), view, 0)) == [
        ChangeLimit("h100/g1", 9 * DOLLAR),
        PlaceOrder("h100", 9 * DOLLAR, 9 * DOLLAR, "crew.0", 50 * SECOND),
    ]
    too_many = msgspec.structs.replace(adapter, nodes=1)
    assert done(*too_many.step(Crew(), view, 0)) == [Release("h100/g1")]


def test_a_scope_that_cannot_be_seen_is_asked_before_the_next() -> None:
    """The first scope is invisible: it is asked, and only if that order rests, the one that is
    free; and where nothing is free the order stays where it is."""
    adapter = Footprint(
        msgspec.structs.replace(TERMS, scopes=("h100/east", "h100")), nodes=1, limit=9 * DOLLAR
    )
    first = adapter.step(Crew(), seen(), 0)[0].do
    assert isinstance(first, PlaceOrder) and first.scope == "h100/east"
    rests = order(0, price=9 * DOLLAR, limit=9 * DOLLAR, scope="h100/east", expires=50 * SECOND)
    assert done(*adapter.step(Crew(), seen(orders=(rests,)), 0)) == [
        CancelOrder("crew.0"),
        PlaceOrder("h100", 9 * DOLLAR, 9 * DOLLAR, "crew.0", 50 * SECOND),
    ]
    assert adapter.step(Crew(), seen(orders=(rests,), idle=False), 0) == ()
