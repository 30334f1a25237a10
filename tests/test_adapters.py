"""What all adapters share, by hand-computed cases: pricing, staircase, budget, orders."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laissez.adapters.acting import actions_for
from laissez.adapters.budget import Budget
from laissez.adapters.econ import EconAdapter, restart_of
from laissez.adapters.footprint import Footprint
from laissez.adapters.intent import Intent, Keep, TradingTerms, Wish
from laissez.adapters.pricing import Pricing
from laissez.adapters.view import MarketView
from laissez.adapters.wall import within_budget
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
from laissez.model.values import CHARGE_UNITS_PER_MICRO_DOLLAR, MAX_RATE, Cause
from toy import Crew

SECOND = 1_000_000
DOLLAR = 1_000_000
HOUR = 3_600 * SECOND
TERMS = TradingTerms("crew", ("h100",), 5 * SECOND)
LEASE = 100 * SECOND


def held(
    resource: str,
    *,
    rate: int = 2 * DOLLAR,
    limit: int = 5 * DOLLAR,
    cause: Cause = "floor",
    safe_until: int | None = None,
    since: int = -HOUR,
) -> Holding:
    return Holding(resource, since, rate, limit, safe_until, {}, "ada", cause)


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


def crew_with(*resources: str, **options: object) -> Crew:
    crew = Crew(**options)  # type: ignore[arg-type]
    for resource in resources:
        crew.gain(resource, 0)
    return crew


# Pricing ----------------------------------------------------------------------------------------


def test_a_bid_is_the_value_less_the_cold_start_spread_over_the_horizon() -> None:
    """$4 an hour, 25 s of 100 s lost: $3 to grow; (4 + 1) * 1.25 = $6.25 to keep."""
    pricing = Pricing(horizon_s=100)
    assert pricing.bid(4.0, cold_start_s=25) == 3.0
    assert pricing.limit(4.0, restart_s=25, redone_s=0) == 6.25


def test_the_limit_is_lowest_right_after_a_checkpoint() -> None:
    """Work that would be done again adds to the limit: 25 s of it another quarter of the value."""
    pricing = Pricing(horizon_s=100)
    fresh, later = (pricing.limit(4.0, 25, redone_s) for redone_s in (0, 25))
    assert (fresh, later) == (6.25, 7.5)


def test_the_horizon_is_never_shorter_than_the_restart_and_a_minute() -> None:
    """A restart of 140 s is spread over 200 s, not over 100; of 480 s over the usual 600 s."""
    assert Pricing(horizon_s=100).bid(10.0, cold_start_s=140) == pytest.approx(3.0)
    assert Pricing().bid(10.0, cold_start_s=480) == pytest.approx(2.0)


def test_near_the_end_a_move_has_less_time_to_pay_for_itself() -> None:
    """50 s of use, 25 s of them cold: half the value to grow, nothing if it would never be warm. To
    keep, 25 s of value spread over 50 s: (4 + 2) * 1.25."""
    pricing = Pricing(horizon_s=100)
    assert pricing.bid(4.0, 25, ends_in_s=50) == 2.0
    assert pricing.bid(4.0, 25, ends_in_s=20) == 0.0
    assert pricing.limit(4.0, 25, 0, ends_in_s=50) == 7.5
    assert pricing.limit(4.0, 25, 0, ends_in_s=500) == 6.25


def test_what_nobody_else_wants_pays_for_its_start_while_it_is_needed() -> None:
    """25 s of start: of 50 s of use half is left, of 1,000 s nearly all, of 20 s nothing. Where no
    end is in sight the start does not matter, nor does the horizon."""
    pricing = Pricing(horizon_s=100)
    assert [pricing.idle(4.0, 25, ends_in_s) for ends_in_s in (50, 1_000, 20, None)] == [
        2.0,
        3.9,
        0.0,
        4.0,
    ]


def test_what_stands_still_with_a_node_makes_it_dearer() -> None:
    """A quarter of $16 at stake on top of $4: (4 + 4) * 1.25; never less than the node's own."""
    pricing = Pricing(horizon_s=100)
    assert pricing.limit(4.0, 25, 0, at_stake=16.0) == 10.0
    assert pricing.limit(4.0, 25, 0, at_stake=1.0) == 6.25


def test_the_papers_listing_takes_the_move_off_both_prices() -> None:
    """At a rate of $2 and 25 s of 100 s, $0.50 less than the value to grow and to shrink."""
    paper = Pricing(variant="paper", horizon_s=100)
    assert paper.bid(4.0, 25, rate=2.0) == 3.5
    assert paper.limit(4.0, 25, redone_s=50, rate=2.0) == 3.5


# Budget -----------------------------------------------------------------------------------------


def test_a_budget_is_paced() -> None:
    """$4 an hour for ten hours is $40; with $30 left what it buys is worth three quarters."""
    view, spend = seen(), 4 * DOLLAR
    assert Budget(40 * DOLLAR, 10 * HOUR).pace(view, spend) == 1.0
    assert Budget(30 * DOLLAR, 10 * HOUR).pace(view, spend) == 0.75
    assert Budget(30 * DOLLAR, 10 * HOUR).pace(view, 3 * DOLLAR) == 1.0
    assert Budget(30 * DOLLAR).pace(view, spend) == 1.0
    spent = msgspec.structs.replace(view, charge=30 * DOLLAR * CHARGE_UNITS_PER_MICRO_DOLLAR)
    assert Budget(30 * DOLLAR, 10 * HOUR).pace(spent, spend) == 0.0
    assert Budget(30 * DOLLAR, 10 * HOUR).pace(spent, 0) == 0.0


def test_each_node_is_paced_by_the_spend_that_it_implies() -> None:
    """By hand: $20 for ten hours bears one node at $2. The second is worth half of its value, to
    keep as to get; the third, if it came, a third of it."""
    terms = msgspec.structs.replace(TERMS, budget=Budget(20 * DOLLAR, 10 * HOUR))
    adapter = EconAdapter(terms, 4.0 * DOLLAR, Pricing(hysteresis=0.0))
    crew = crew_with("h100/g0", "h100/g1", need=3)
    view = seen(held("h100/g0", cause="demand"), held("h100/g1", cause="demand"), idle=False)
    intent = adapter.decide(crew, view)
    assert [each.limit for each in intent.keep] == [4 * DOLLAR, 2 * DOLLAR]
    assert [wish.limit for wish in intent.wishes] == [4 * DOLLAR // 3]


def test_what_a_node_is_worth_is_told_in_dollars() -> None:
    """Why a node is kept or wanted is told in money, and not in units of utility."""
    adapter = EconAdapter(TERMS, 4.0 * DOLLAR, Pricing(hysteresis=0.0))
    crew = crew_with("h100/g0", need=2)
    intent = adapter.decide(crew, seen(held("h100/g0", cause="demand"), idle=False))
    keep, wish = intent.keep[0], intent.wishes[0]
    assert keep.why.format(*keep.figures).startswith("its work is worth $4.00/h, and 0 s of it")
    told = wish.why.format(*wish.figures)
    assert told == "one more is worth $4.00/h now, $4.00/h at full use"


def test_near_the_end_of_a_budget_limits_are_cut_and_the_least_important_node_goes() -> None:
    """$0.01 pays for 2 steps of 5 s at $3.60 an hour: one limit is cut to that, the rest goes."""
    terms = msgspec.structs.replace(TERMS, budget=Budget(10_000))
    intent = Intent(
        (Keep("h100/g0", 5 * DOLLAR), Keep("h100/g1", 5 * DOLLAR)),
        (Wish("h100", 5 * DOLLAR, 5 * DOLLAR, rate=2 * DOLLAR),),
    )
    view = seen(held("h100/g0", limit=9 * DOLLAR), held("h100/g1", limit=9 * DOLLAR))
    released, limited = actions_for(intent, terms, view)
    assert limited.why == "the budget allows no more until the next step"
    assert released.do == Release("h100/g1")
    assert released.why == "the budget does not pay for it any more"
    assert limited.do == ChangeLimit("h100/g0", 3_600_000)


def test_the_wall_pays_rates_before_limits() -> None:
    """$0.03 pays $10.80 an hour for 2 steps, $7.20 of it open to orders: two nodes and a third at
    $2 each, but no fourth. Of the $4.80 that are left each limit takes $2.40."""
    terms = msgspec.structs.replace(TERMS, budget=Budget(30_000))
    intent = Intent(
        (Keep("h100/g0", 5 * DOLLAR), Keep("h100/g1", 5 * DOLLAR)),
        (Wish("h100", 5 * DOLLAR, 5 * DOLLAR, rate=2 * DOLLAR),) * 2,
    )
    view = seen(held("h100/g0", limit=9 * DOLLAR), held("h100/g1", limit=9 * DOLLAR))
    assert done(*actions_for(intent, terms, view)) == [
        ChangeLimit("h100/g0", 4_400_000),
        ChangeLimit("h100/g1", 4_400_000),
        PlaceOrder("h100", 2_000_000, 2_000_000, "crew.0", LEASE),
    ]


def test_the_wall_raises_all_limits_alike() -> None:
    """$0.10 pays $36 an hour for 2 steps, of which the rates take $6. Of the $30 that are left all
    limits could be raised by $10: the third asks for $4, the second for $8, and the first gets the
    rest. A crew that is nearly done would pay hundreds for each of its nodes; if the first took
    all, the last would be lost to the first bid above its rate."""
    terms = msgspec.structs.replace(TERMS, budget=Budget(100_000))
    intent = Intent(
        (
            Keep("h100/g0", 890 * DOLLAR),
            Keep("h100/g1", 10 * DOLLAR),
            Keep("h100/g2", 6 * DOLLAR),
        )
    )
    view = seen(*(held(f"h100/g{number}") for number in range(3)))
    assert done(*actions_for(intent, terms, view)) == [
        ChangeLimit("h100/g0", 20 * DOLLAR),
        ChangeLimit("h100/g1", 10 * DOLLAR),
        ChangeLimit("h100/g2", 6 * DOLLAR),
    ]
    dear = Intent(tuple(Keep(f"h100/g{number}", 890 * DOLLAR) for number in range(3)))
    assert done(*actions_for(dear, terms, view)) == [
        ChangeLimit(f"h100/g{number}", 12 * DOLLAR) for number in range(3)
    ]


@given(
    asked=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 1_000)), min_size=1, max_size=6),
    left=st.integers(0, 100_000),
)
def test_nothing_beyond_the_wall_and_nobody_cut_for_another(
    asked: list[tuple[int, int]], left: int
) -> None:
    """Whatever is held at whatever rates and limits: what is kept can be paid for two steps; what
    is cut has no less above its rate than any other, but for what does not divide."""
    rates = {f"h100/g{number}": rate * DOLLAR for number, (rate, _) in enumerate(asked)}
    limits = {f"h100/g{number}": limit * DOLLAR for number, (_, limit) in enumerate(asked)}
    terms = msgspec.structs.replace(TERMS, budget=Budget(left))
    holdings = [held(path, rate=rate) for path, rate in rates.items()]
    intent = Intent(tuple(Keep(path, limit) for path, limit in limits.items()))
    keep, _ = within_budget(intent, terms, seen(*holdings), holdings)
    assert sum(each.limit for each in keep) * 2 * TERMS.period_us <= left * HOUR
    raised = {each.resource: each.limit - rates[each.resource] for each in keep}
    for each in keep:
        if each.limit < limits[each.resource]:
            assert raised[each.resource] >= max(raised.values()) - len(keep)


def test_a_node_that_is_not_worth_its_rate_is_not_blamed_on_the_budget() -> None:
    """Its limit is set below its rate, and the market hands it on."""
    terms = msgspec.structs.replace(TERMS, budget=Budget(1_000 * DOLLAR))
    intent = Intent((Keep("h100/g0", DOLLAR, "it is worth {:.0f}", (1.0,)),))
    [action] = actions_for(intent, terms, seen(held("h100/g0")))
    assert (action.do, action.why) == (ChangeLimit("h100/g0", DOLLAR), "it is worth 1")


def test_a_protected_holding_counts_with_what_it_may_be_charged() -> None:
    """Under a hold the charge may reach the old limit, so one that can't be paid is released."""
    terms = msgspec.structs.replace(TERMS, budget=Budget(10_000))
    intent = Intent((Keep("h100/g0", 3 * DOLLAR),))
    protected = held("h100/g0", limit=9 * DOLLAR, safe_until=SECOND)
    assert done(*actions_for(intent, terms, seen(protected))) == [Release("h100/g0")]
    payable = held("h100/g0", limit=3_200_000, safe_until=SECOND)
    assert done(*actions_for(intent, terms, seen(payable))) == []
    # While it is protected its limit is left alone, however much the node is worth.
    dear = Intent((Keep("h100/g0", 90 * DOLLAR),))
    assert done(*actions_for(dear, terms, seen(payable))) == []


# Orders -----------------------------------------------------------------------------------------


def test_orders_follow_the_wishes() -> None:
    """What serves a wish is amended, what serves none is cancelled, what is missing is placed."""
    soon, late = 49 * SECOND, LEASE
    orders = (
        order(0, price=2 * DOLLAR, limit=2 * DOLLAR, expires=late),
        order(3, price=3 * DOLLAR, limit=3 * DOLLAR, expires=late, scope="h100/r1"),
        OpenOrder("ada", "by-hand", "h100", DOLLAR, DOLLAR, None),
    )
    wishes = (Wish("h100", 4 * DOLLAR, 5 * DOLLAR), Wish("h100", DOLLAR, DOLLAR))
    did = done(*actions_for(Intent((), wishes), TERMS, seen(orders=orders)))
    assert did == [
        CancelOrder("crew.3"),
        PlaceOrder("h100", 4 * DOLLAR, 5 * DOLLAR, "crew.1", late),
        CancelOrder("crew.0"),
        PlaceOrder("h100", DOLLAR, DOLLAR, "crew.2", late),
    ]
    lowered = Intent((), (Wish("h100", DOLLAR, DOLLAR),))
    assert done(*actions_for(lowered, TERMS, seen(orders=orders[:1]))) == [
        AmendOrder("crew.0", price=DOLLAR, limit=DOLLAR)
    ]
    for expires in (soon, None):
        ending = (OpenOrder("ada", "crew.0", "h100", 4 * DOLLAR, 5 * DOLLAR, expires),)
        renewed = done(*actions_for(Intent((), wishes[:1]), TERMS, seen(orders=ending)))
        assert renewed == [
            PlaceOrder("h100", 4 * DOLLAR, 5 * DOLLAR, "crew.1", late),
            CancelOrder("crew.0"),
        ]


def test_a_price_that_a_guard_has_clipped_climbs_on() -> None:
    """The accepted price is behind the wish: another order is placed while the first still
    presses, a micro-dollar further, so that it wins before the first."""
    clipped = (order(0, price=DOLLAR, limit=5 * DOLLAR, expires=LEASE),)
    intent = Intent((), (Wish("h100", 5 * DOLLAR, 5 * DOLLAR),))
    assert done(*actions_for(intent, TERMS, seen(orders=clipped))) == [
        PlaceOrder("h100", 5 * DOLLAR, 5 * DOLLAR + 1, "crew.1", LEASE),
        CancelOrder("crew.0"),
    ]


def test_an_order_that_could_win_back_what_is_given_up_is_cancelled_first() -> None:
    """Released, or let go by a limit below its rate: an order over it goes and comes anew."""
    waiting = order(0, price=3 * DOLLAR, limit=3 * DOLLAR, expires=LEASE)
    wish = Wish("h100", 3 * DOLLAR, 3 * DOLLAR)
    given_up = {
        Intent((), (wish,)): Release("h100/g0"),
        Intent((Keep("h100/g0", DOLLAR),), (wish,)): ChangeLimit("h100/g0", DOLLAR),
    }
    for intent, action in given_up.items():
        view = seen(held("h100/g0"), orders=(waiting,))
        assert done(*actions_for(intent, TERMS, view)) == [
            CancelOrder("crew.0"),
            action,
            PlaceOrder("h100", 3 * DOLLAR, 3 * DOLLAR, "crew.1", LEASE),
        ]
    elsewhere = order(0, price=3 * DOLLAR, limit=3 * DOLLAR, expires=LEASE, scope="h100/r1")
    there = Intent((), (Wish("h100/r1", 3 * DOLLAR, 3 * DOLLAR),))
    view = seen(held("h100/g0"), orders=(elsewhere,))
    assert done(*actions_for(there, TERMS, view)) == [Release("h100/g0")]


def test_no_rate_is_higher_than_the_market_knows() -> None:
    """A value beyond all bounds is cut to the highest rate there is."""
    intent = Intent((Keep("h100/g0", 2 * MAX_RATE),), (Wish("h100", 3 * MAX_RATE, 3 * MAX_RATE),))
    assert done(*actions_for(intent, TERMS, seen(held("h100/g0")))) == [
        ChangeLimit("h100/g0", MAX_RATE),
        PlaceOrder("h100", MAX_RATE, MAX_RATE, "crew.0", LEASE),
    ]


def test_a_trifle_is_not_sent() -> None:
    """Five percent more or less changes neither a limit nor an order; six do."""
    intent = Intent((Keep("h100/g0", 5_250_000),), (Wish("h100", 4_200_000, 4_200_000),))
    orders = (order(0, price=4 * DOLLAR, limit=4 * DOLLAR, expires=LEASE),)
    assert actions_for(intent, TERMS, seen(held("h100/g0"), orders=orders)) == ()
    more = Intent((Keep("h100/g0", 5_300_000),), (Wish("h100", 4_240_000, 4_240_000),))
    assert done(*actions_for(more, TERMS, seen(held("h100/g0"), orders=orders))) == [
        ChangeLimit("h100/g0", 5_300_000),
        PlaceOrder("h100", 4_240_000, 4_240_000, "crew.1", LEASE),
        CancelOrder("crew.0"),
    ]
    less = Intent((Keep("h100/g0", 4_700_000),), (Wish("h100", 3_760_000, 3_760_000),))
    assert done(*actions_for(less, TERMS, seen(held("h100/g0"), orders=orders))) == [
        ChangeLimit("h100/g0", 4_700_000),
        AmendOrder("crew.0", price=3_760_000, limit=3_760_000),
    ]


def test_what_lies_outside_the_scopes_is_left_alone() -> None:
    """Another tree, or a scope whose name only begins the same, is none of the adapter's."""
    terms = msgspec.structs.replace(TERMS, scopes=("h100/r1",))
    view = seen(held("h100/r1/g0"), held("h100/r10/g0"), held("a100/g0"))
    assert done(*actions_for(Intent(), terms, view)) == [Release("h100/r1/g0")]
    assert not covers("h100/r1", "h100/r10/g0")


# The adapter for applications with hooks --------------------------------------------------------


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
    """The node that has just been won is the first to go: $2, and nothing on top, since it would
    take as long to start another. With the other 50 s of a start are lost: 4 * (1 + 50/600)."""
    adapter = EconAdapter(TERMS, 4.0 * DOLLAR, Pricing(hysteresis=0.0))
    crew = Concave(2, cold_start_s=50)
    crew.gain("h100/g0", 0)
    crew.advance(60 * SECOND)
    crew.gain("h100/g1", 60 * SECOND)
    view = seen(held("h100/g1", cause="demand"), held("h100/g0", cause="demand"))
    limits = [(each.resource, each.limit) for each in adapter.decide(crew, view).keep]
    assert limits == [("h100/g0", 4_333_333), ("h100/g1", 2_000_000)]


def test_what_is_free_is_taken_at_the_floor_and_kept_there_while_nobody_wants_it() -> None:
    """Not urgent, but worth $2.50 in full: at a floor of $2 it is taken, and kept up to $2.50.

    That is a quarter more than its floor; at a floor of $1 it is kept up to $1.25.
    """
    adapter = EconAdapter(TERMS, 5.0 * DOLLAR)
    crew = Crew(0, spare=0.5)
    wishes = adapter.decide(crew, seen()).wishes
    assert wishes and {(wish.price, wish.limit) for wish in wishes} == {(2 * DOLLAR, 2 * DOLLAR)}
    assert not adapter.decide(crew, seen(quote=3 * DOLLAR)).wishes
    assert not adapter.decide(crew, seen(idle=False)).wishes
    crew.gain("h100/g0", 0)
    [kept] = adapter.decide(crew, seen(held("h100/g0"), quote=None)).keep
    assert kept.limit == 2_500_000
    [cheap] = adapter.decide(crew, seen(held("h100/g0", rate=DOLLAR), quote=None)).keep
    assert cheap.limit == 1_250_000
    assert not adapter.decide(crew, seen(held("h100/g0", cause="demand"), quote=None)).keep


def test_orders_go_where_a_unit_costs_least_or_everywhere() -> None:
    """Free: h100 at $4 for 2 units beats a100 at $2.50 for one. Full: the same one first, and the
    other beside it while that order rests."""
    terms = msgspec.structs.replace(TERMS, scopes=("a100", "h100"))
    adapter = EconAdapter(terms, 5.0 * DOLLAR)
    crew = Crew(2, speeds={"a100": 1.0, "h100": 2.0})
    rests = order(0, price=10 * DOLLAR, limit=10 * DOLLAR, scope="h100", expires=LEASE)
    weak = order(0, price=DOLLAR, limit=DOLLAR, scope="h100", expires=LEASE)
    for idle, orders, expected in (
        (True, (), ["h100"]),
        (False, (), ["h100"]),
        (False, (weak,), ["h100"]),
        (False, (rests,), ["h100", "a100"]),
    ):
        quotes = {
            "a100": Quoted(0, "a100", 2_500_000, idle),
            "h100": Quoted(0, "h100", 4_000_000, idle),
        }
        wishes = adapter.decide(crew, MarketView(0, (), orders, quotes)).wishes
        assert [wish.scope for wish in wishes] == expected


def test_a_scope_that_cannot_be_seen_is_never_taken_for_free() -> None:
    """Its tree has something free at $2, somewhere. It is asked at the bid, and takes what is free
    there up to its full value; what can be seen to be free comes first."""
    terms = msgspec.structs.replace(TERMS, scopes=("h100/r0", "a100"))
    adapter = EconAdapter(terms, 5.0 * DOLLAR)
    crew = Crew(1, speeds={"a100": 1.0, "h100": 1.0}, cold_start_s=50)
    quotes = {"h100": Quoted(0, "h100", 2 * DOLLAR, True), "a100": Quoted(0, "a100", None, False)}
    [wish] = adapter.decide(crew, MarketView(0, (), (), quotes)).wishes
    # 50 s of 600 s are lost with a start.
    assert (wish.scope, wish.price, wish.limit) == ("h100/r0", 4_583_333, 5 * DOLLAR)
    quotes["a100"] = Quoted(0, "a100", 4 * DOLLAR, True)
    [wish] = adapter.decide(crew, MarketView(0, (), (), quotes)).wishes
    assert wish.scope == "a100"
    paper = msgspec.structs.replace(adapter, pricing=Pricing(variant="paper"))
    quotes["a100"] = Quoted(0, "a100", None, False)
    [wish] = paper.decide(crew, MarketView(0, (), (), quotes)).wishes
    assert wish.price == wish.limit


def test_what_was_just_won_is_kept_for_a_step() -> None:
    """It is worth nothing any more, but has been held for less than a step; the paper's variant
    lets it go."""
    adapter = EconAdapter(TERMS, 5.0 * DOLLAR)
    crew = Crew(0, spare=0.1)
    crew.gain("h100/g0", 0)
    for since, limits in ((-5 * SECOND + 1, [2 * DOLLAR]), (-5 * SECOND, [])):
        view = seen(held("h100/g0", cause="demand", since=since), quote=None)
        assert [each.limit for each in adapter.decide(crew, view).keep] == limits
    paper = msgspec.structs.replace(adapter, pricing=Pricing(variant="paper"))
    assert not paper.decide(crew, seen(held("h100/g0", since=0), quote=None)).keep


def test_what_costs_nothing_is_taken_and_kept() -> None:
    """At a floor of 0 the lowest bid there is will do, also for capacity that is not needed."""
    adapter = EconAdapter(TERMS, 5.0 * DOLLAR)
    crew = Crew(0, spare=0.5)
    [wish, *_] = adapter.decide(crew, seen(quote=0)).wishes
    assert (wish.price, wish.limit) == (1, 1)
    crew.gain("h100/g0", 0)
    [kept] = adapter.decide(crew, seen(held("h100/g0", rate=0), quote=None)).keep
    assert kept.limit == 1


def test_the_papers_variant_neither_takes_nor_keeps_at_the_floor() -> None:
    """It has no rule for what is not urgent."""
    adapter = EconAdapter(TERMS, 5.0 * DOLLAR, Pricing(variant="paper"))
    crew = Crew(0, spare=0.5)
    assert not adapter.decide(crew, seen()).wishes
    crew.gain("h100/g0", 0)
    assert not adapter.decide(crew, seen(held("h100/g0"), quote=None)).keep


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
        PlaceOrder("h100", 9 * DOLLAR, 9 * DOLLAR, "crew.0", LEASE),
    ]
    too_many = msgspec.structs.replace(adapter, nodes=1)
    assert done(*too_many.step(Crew(), view, 0)) == [Release("h100/g1")]


def test_a_footprint_with_a_budget_is_as_large_as_that_lasts() -> None:
    """By hand: $50 for ten hours bear $5 an hour: two nodes at $2, and no third. When they cost
    $3 each, which is a fifth more than it bears, both are kept still, at the whole limit; when one
    costs more than that, it goes."""
    terms = msgspec.structs.replace(TERMS, budget=Budget(50 * DOLLAR, 10 * HOUR))
    adapter = Footprint(terms, nodes=4, limit=4 * DOLLAR)
    for rate, kept in ((2 * DOLLAR, 2), (3 * DOLLAR, 2), (3_200_000, 1)):
        view = seen(*(held(f"h100/g{n}", rate=rate, limit=4 * DOLLAR) for n in range(2)))
        intent = adapter.decide(Crew(), view)
        assert [each.limit for each in intent.keep] == [4 * DOLLAR] * kept
        assert not intent.wishes
    one = seen(held("h100/g0", limit=4 * DOLLAR))
    assert [wish.limit for wish in adapter.decide(Crew(), one).wishes] == [4 * DOLLAR]


def test_beside_a_scope_that_cannot_be_seen_what_is_free_is_asked() -> None:
    """The first scope is invisible, and may not exist: it is asked, and with it the one where
    something is free. Where nothing is free, the next one is asked while that order rests."""
    adapter = Footprint(
        msgspec.structs.replace(TERMS, scopes=("h100/east", "h100")), nodes=1, limit=9 * DOLLAR
    )
    price = 9 * DOLLAR
    east, anywhere = (
        PlaceOrder(scope, price, price, f"crew.{number}", LEASE)
        for number, scope in enumerate(("h100/east", "h100"))
    )
    assert done(*adapter.step(Crew(), seen(), 0)) == [east, anywhere]
    assert done(*adapter.step(Crew(), seen(idle=False), 0)) == [east]
    rests = order(0, price=price, limit=price, scope="h100/east", expires=LEASE)
    assert done(*adapter.step(Crew(), seen(orders=(rests,), idle=False), 0)) == [anywhere]


def test_a_tree_that_is_not_there_is_not_asked() -> None:
    """The second scope is free, and the first one does not exist."""
    terms = msgspec.structs.replace(TERMS, scopes=("b200", "h100"))
    adapter = Footprint(terms, nodes=1, limit=9 * DOLLAR)
    [action] = adapter.step(Crew(), seen(), 0)
    assert isinstance(action.do, PlaceOrder) and action.do.scope == "h100"


def test_what_is_free_comes_before_what_is_held() -> None:
    """On-demand takes the free node of its second scope before it displaces anybody."""
    terms = msgspec.structs.replace(TERMS, scopes=("h100", "a100"))
    adapter = Footprint(terms, nodes=1, limit=9 * DOLLAR)
    quotes = {
        "h100": Quoted(0, "h100", 2 * DOLLAR, False),
        "a100": Quoted(0, "a100", 3 * DOLLAR, True),
    }
    [action] = adapter.step(Crew(), MarketView(0, (), (), quotes), 0)
    assert isinstance(action.do, PlaceOrder) and action.do.scope == "a100"


def test_a_restart_is_what_a_node_has_behind_it() -> None:
    """Of a start of 60 s, nothing is lost with a node that has just come, 20 s with one that came
    20 s ago, all of it with one that is warm, and nothing with one that is not there."""
    crew = Crew(2, cold_start_s=60)
    crew.gain("h100/g0", 0)
    crew.advance(20 * SECOND)
    crew.gain("h100/g1", 20 * SECOND)
    assert [restart_of(crew, f"h100/g{number}") for number in (0, 1)] == [20.0, 0.0]
    crew.advance(200 * SECOND)
    assert [restart_of(crew, f"h100/g{number}") for number in (0, 1)] == [60.0, 60.0]
    assert restart_of(crew, "h100/g2") == 0.0


def test_a_restart_is_never_below_nothing() -> None:
    """A node that waits longer than a new one would take, for others to be taken in with it, has
    nothing behind it."""

    class Waiting(Crew):
        def cold_start_s(self, place: str) -> float:
            return 90.0 if place in self.gained else 60.0

    crew = Waiting(1)
    crew.gain("h100/g0", 0)
    assert restart_of(crew, "h100/g0") == 0.0
