"""The rules of the market contract, one small scene each.

The oracle tests try everything; these are for the reader. Amounts and times are small numbers, as
the market sees them: micro-dollars an hour, microseconds. Where a test wants somebody to hold a
leaf, `hold` lets them take it while it is idle.
"""

import pytest

from laissez.market import (
    Amended,
    Expired,
    FloorSet,
    Market,
    Placed,
    Rejected,
    ResourceAdded,
    ResourceWithdrawn,
    Settled,
    Transferred,
    Unanswerable,
)
from laissez.model import Code, Event, OpenOrder, Quote, Segments


def market_with(*leaves: str, floor: int = 0) -> Market:
    market = Market()
    if floor:
        market.set_floor(leaves[0].split("/")[0], floor, at=0)
    for leaf in leaves:
        market.add_resource(leaf, at=0)
    return market


def hold(market: Market, tenant: str, leaf: str, limit: int, at: int = 0) -> None:
    market.place(tenant, leaf, limit=limit, order=f"{tenant}-takes-{leaf}", at=at)
    assert market.owner(leaf) == tenant


def moves(events: tuple[Event, ...]) -> list[tuple[str, str | None, str | None, str]]:
    """(resource, old, new, reason) of every transfer, in order."""
    return [(e.resource, e.old, e.new, e.reason) for e in events if isinstance(e, Transferred)]


def kinds(events: tuple[Event, ...]) -> list[type]:
    return [type(event) for event in events]


def accepted_price(events: tuple[Event, ...]) -> int:
    posted = events[0]
    assert isinstance(posted, Placed | Amended)
    return posted.price


# --- which idle leaf ----------------------------------------------------------------------------


def test_whole_domains_stay_whole() -> None:
    """A stranger's order goes, at each level, into the child with the fewest idle leaves."""
    market = market_with("h/a/g0", "h/a/g1", "h/b/g0", "h/b/g1", "h/b/g2")
    taken = [
        moves(market.place(f"T{n}", "h", price=1, order=f"o{n}", at=0))[0][0] for n in range(5)
    ]
    assert taken == ["h/a/g0", "h/a/g1", "h/b/g0", "h/b/g1", "h/b/g2"]


def test_a_tenants_leaves_lie_together() -> None:
    """An order takes a leaf in the smallest scope around the leaf that its tenant won last."""
    market = market_with("h/a/g0", "h/a/g1", "h/b/g0", "h/b/g1", "h/b/g2", "i/g0")
    hold(market, "A", "h/b/g0", limit=1)
    hold(market, "A", "i/g0", limit=1)  # another tree says nothing about this one
    taken = [moves(market.place("A", "h", price=1, order=f"o{n}", at=0))[0][0] for n in range(4)]
    assert taken == ["h/b/g1", "h/b/g2", "h/a/g0", "h/a/g1"]


def test_the_lowest_floor_comes_before_the_tenants_own() -> None:
    """What lies beside the tenant's leaf but costs more is passed by, whoever set the floor."""
    market = market_with("h/a/g0", "h/b/g0", "h/b/g1")
    hold(market, "A", "h/b/g0", limit=9)
    market.set_floor("h/b", 2, at=0)
    assert moves(market.place("A", "h", price=5, order="a", at=0)) == [
        ("h/a/g0", None, "A", "idle")
    ]


def test_an_order_that_does_not_cover_the_last_leaf_is_not_led_by_it() -> None:
    market = market_with("h/a/g0", "h/a/g1", "h/b/g0", "h/b/g1", "h/b/h/g2")
    hold(market, "A", "h/a/g0", limit=9)
    assert moves(market.place("A", "h/b", price=5, order="a", at=0)) == [
        ("h/b/g0", None, "A", "idle")
    ]


def test_the_lowest_floor_comes_first() -> None:
    """A child with few idle leaves is passed by for one that has the cheapest leaf."""
    market = market_with("h/a/g0", "h/b/g0", "h/b/g1", "h/b/g2")
    market.set_floor("h/a", 2, at=0)
    taken = [
        moves(market.place(f"T{n}", "h", price=5, order=f"o{n}", at=0))[0][0] for n in range(4)
    ]
    assert taken == ["h/b/g0", "h/b/g1", "h/b/g2", "h/a/g0"]


def test_dear_idle_leaves_count_as_neighbours() -> None:
    """Where two children have a cheapest leaf, the idle leaves that cost more count too."""
    market = market_with("h/a/g0", "h/a/g1", "h/b/g0")
    market.set_floor("h/a/g1", 9, at=0)
    assert moves(market.place("A", "h", price=5, order="a", at=0)) == [
        ("h/b/g0", None, "A", "idle")
    ]


def test_nobody_is_displaced_while_a_free_leaf_fits() -> None:
    """An order with a price above a holder's limit still takes the idle leaf."""
    market = market_with("h/g0", "h/g1")
    hold(market, "A", "h/g0", limit=1)
    market.set_floor("h/g1", 4, at=0)
    assert moves(market.place("B", "h", price=5, order="b", at=0)) == [("h/g1", None, "B", "idle")]
    assert market.owner("h/g0") == "A"


def test_a_leaf_that_comes_back_is_the_last() -> None:
    """Tree order is the order of coming; a leaf that was withdrawn and added again is the last."""
    market = market_with("h/g0", "h/g1", "h/g2")
    market.withdraw("h/g0", at=0)
    market.add_resource("h/g0", at=0)
    assert market.resources() == ("h/g1", "h/g2", "h/g0")
    taken = [moves(market.place("A", "h", price=1, order=f"a{n}", at=0))[0][0] for n in range(3)]
    assert taken == ["h/g1", "h/g2", "h/g0"]


def test_a_scope_keeps_its_place() -> None:
    """A scope whose last leaf was withdrawn stands where it stood when a leaf comes back."""
    market = market_with("h/a/g0", "h/b/g0")
    market.withdraw("h/a/g0", at=0)
    market.add_resource("h/a/g1", at=0)
    assert market.resources() == ("h/a/g1", "h/b/g0")


# --- who has to go, and to whom -----------------------------------------------------------------


def test_ties_between_holders_are_broken_by_tree_order() -> None:
    """Of holders with the same limit the first in tree order goes, whoever came first."""
    market = market_with("h/g0", "h/g1")
    hold(market, "B", "h/g1", limit=3)
    hold(market, "A", "h/g0", limit=3)
    events = market.place("C", "h", price=5, order="c", at=1)
    assert moves(events) == [("h/g0", "A", "C", "outbid")]


def test_a_price_must_pass_the_limit() -> None:
    """A holder stays while the price is at its limit; it pays it."""
    market = market_with("h/g0")
    hold(market, "A", "h/g0", limit=3)
    assert moves(market.place("B", "h", price=3, order="b", at=0)) == []
    assert market.rate("h/g0") == 3
    assert moves(market.amend("B", "b", price=4, limit=4, at=0)) == [("h/g0", "A", "B", "outbid")]


def test_a_new_order_goes_on_until_it_is_filled() -> None:
    """Earlier orders that follow further are filled first; the new one takes what is left."""
    market = market_with("h/g0", "h/g1")
    hold(market, "A", "h/g0", limit=3)
    hold(market, "A", "h/g1", limit=4)
    market.place("B", "h", price=1, limit=9, order="b", at=0)
    events = market.place("C", "h", price=6, order="c", at=0)
    assert moves(events) == [("h/g0", "A", "B", "outbid"), ("h/g1", "A", "C", "outbid")]


def test_an_order_is_gone_everywhere_at_once() -> None:
    """A filled order presses nowhere, although it covered every leaf."""
    market = market_with("h/a/g0", "h/b/g0")
    hold(market, "A", "h/a/g0", limit=3)
    hold(market, "B", "h/b/g0", limit=9)
    market.place("C", "h", price=2, limit=9, order="c", at=0)
    assert (market.rate("h/a/g0"), market.rate("h/b/g0")) == (2, 2)
    market.relinquish("A", "h/a/g0", at=0)
    assert market.owner("h/a/g0") == "C"
    assert market.rate("h/b/g0") == 0
    assert market.orders("C") == ()


def test_own_orders_never_raise_the_own_rate() -> None:
    """A tenant does not press on itself, nor does it stop a rival's lower price from pressing."""
    market = market_with("h/g0", floor=1)
    hold(market, "A", "h/g0", limit=9)
    market.place("A", "h", price=8, order="a", at=0)
    assert market.rate("h/g0") == 1
    market.place("B", "h", price=3, order="b", at=0)
    assert market.rate("h/g0") == 3


def test_the_loser_may_be_the_winner() -> None:
    """Nobody is left out: a leaf that is given back can go to an order of the same tenant."""
    market = market_with("h/g0", floor=1)
    hold(market, "A", "h/g0", limit=3)
    market.place("A", "h", price=2, limit=7, order="a", at=0)
    events = market.relinquish("A", "h/g0", at=5)
    assert moves(events) == [("h/g0", "A", "A", "relinquished")]
    assert kinds(events) == [Settled, Transferred]
    assert market.limit("h/g0") == 7
    assert market.orders("A") == ()


def test_a_leaf_without_a_winner_goes_back_to_the_operator() -> None:
    """An order that does not reach the floor wins nothing."""
    market = market_with("h/g0")
    hold(market, "A", "h/g0", limit=9)
    market.place("B", "h", price=3, order="b", at=0)
    market.set_floor("h", 5, at=0)
    assert moves(market.relinquish("A", "h/g0", at=1)) == [("h/g0", "A", None, "relinquished")]
    assert market.rate("h/g0") == 5


# --- orders -------------------------------------------------------------------------------------


def test_an_id_is_free_again_when_its_order_is_filled() -> None:
    """Ids are unique among live orders, of whatever tenant, and no longer than they live."""
    market = market_with("h/g0", "h/g1")
    market.place("A", "h", price=1, order="x", at=0)
    market.place("B", "h", price=1, order="x", at=0)
    market.place("C", "h", price=1, order="x", at=0)
    refused = market.place("D", "h", price=1, order="x", at=0)[-1]
    assert isinstance(refused, Rejected) and refused.code == Code.ORDER_ID_TAKEN
    market.cancel("C", "x", at=0)
    assert kinds(market.place("D", "h", price=1, order="x", at=0)) == [Placed]


def test_the_limit_defaults_to_the_price() -> None:
    """Who names a price only follows no further."""
    market = market_with("h/g0")
    market.place("A", "h", price=4, order="a", at=0)
    assert market.limit("h/g0") == 4


@pytest.mark.parametrize(
    ("floor", "limit", "price"), [(0, 9, 1), (3, 9, 3), (7, 4, 4)], ids=["free", "floor", "limit"]
)
def test_the_price_defaults_to_the_quote(floor: int, limit: int, price: int) -> None:
    """Without a price, an order is posted at the tenant's quote, from 1 up to its limit."""
    market = market_with("h/g0", floor=floor)
    assert accepted_price(market.place("B", "h", limit=limit, order="b", at=0)) == price


def test_the_price_defaults_to_the_limit_where_there_is_no_quote() -> None:
    """A tenant that holds all there is has no quote: its order is posted at its limit."""
    market = market_with("h/g0", floor=2)
    hold(market, "A", "h/g0", limit=9)
    assert accepted_price(market.place("A", "h", limit=6, order="a", at=0)) == 6


def test_an_order_expires_before_anything_else_at_its_instant() -> None:
    """At the instant of its expiry an order can no longer win what is given back."""
    market = market_with("h/g0")
    hold(market, "A", "h/g0", limit=9)
    market.place("B", "h", price=3, order="b", at=0, expires=10)
    assert market.next_timer() == 10
    events = market.relinquish("A", "h/g0", at=10)
    assert kinds(events) == [Expired, Settled, Transferred]
    assert market.owner("h/g0") is None
    assert market.bill("A", at=10) == 30


def test_an_expiry_acts_at_its_own_instant() -> None:
    """However late the next command comes, the pressure has ended when it was to end."""
    market = market_with("h/g0", floor=1)
    hold(market, "A", "h/g0", limit=9)
    market.place("B", "h", price=3, order="b", at=0, expires=10)
    assert market.advance(at=100) == (Expired(10, "B", "b"),)
    assert market.bill("A", at=100) == 10 * 3 + 90 * 1


def test_an_amended_order_keeps_its_expiry_and_loses_its_place() -> None:
    """What is not given stays as it was; of equal orders the one amended is now the later."""
    market = market_with("h/g0")
    hold(market, "A", "h/g0", limit=9)
    market.place("B", "h", price=3, order="b", at=0, expires=50)
    market.place("C", "h", price=3, order="c", at=0)
    assert market.amend("B", "b", at=1) == (Amended(1, "B", "b", "h", 3, 3, 50),)
    assert moves(market.relinquish("A", "h/g0", at=2)) == [("h/g0", "A", "C", "relinquished")]
    assert market.orders("B") == (OpenOrder("B", "b", "h", 3, 3, 50),)


def test_an_amendment_can_take_the_expiry_away() -> None:
    """`expires=None` is not the same as not saying anything about it."""
    market = market_with("h/g0")
    hold(market, "A", "h/g0", limit=9)
    market.place("B", "h", price=3, order="b", at=0, expires=50)
    market.amend("B", "b", expires=None, at=1)
    assert market.next_timer() is None
    assert market.advance(at=100) == ()


def test_a_refused_amendment_leaves_the_order_in_its_place() -> None:
    """It is checked whole before anything is cancelled."""
    market = market_with("h/g0")
    hold(market, "A", "h/g0", limit=9)
    market.place("B", "h", price=3, order="b", at=0)
    market.place("C", "h", price=3, order="c", at=0)
    assert kinds(market.amend("B", "b", price=4, at=1)) == [Rejected]
    assert moves(market.relinquish("A", "h/g0", at=2)) == [("h/g0", "A", "B", "relinquished")]


def test_an_order_outlives_the_leaf_it_names() -> None:
    """An order on a withdrawn leaf stays, and wins it when it comes back."""
    market = market_with("h/g0")
    hold(market, "A", "h/g0", limit=9)
    market.place("B", "h/g0", price=3, order="b", at=0)
    market.withdraw("h/g0", at=1)
    assert [order.order for order in market.orders("B")] == ["b"]
    events = market.add_resource("h/g0", at=2)
    assert kinds(events) == [ResourceAdded, Transferred]
    assert moves(events) == [("h/g0", None, "B", "idle")]


# --- resources and floors -----------------------------------------------------------------------


def test_a_withdrawal_settles_the_holding() -> None:
    """The holder is told what it owes and why it lost the leaf, then the leaf is gone."""
    market = market_with("h/g0", floor=2)
    hold(market, "A", "h/g0", limit=9)
    market.place("B", "h", price=3, order="b", at=0)
    assert market.withdraw("h/g0", at=10) == (
        Settled(10, "A", "h/g0", 0, 30, Segments([(0, 10, 3, "demand")])),
        Transferred(10, "h/g0", "A", None, None, "withdrawn"),
        ResourceWithdrawn(10, "h/g0"),
    )
    assert market.resources() == ()
    assert market.quote("h", None) is None
    with pytest.raises(Unanswerable, match="no resource"):
        market.owner("h/g0")


def test_the_highest_floor_on_the_path_counts() -> None:
    """Floors may be set at every level; taking one away uncovers the next."""
    market = market_with("h/a/g0")
    for scope, floor in (("h", 2), ("h/a", 5), ("h/a/g0", 3)):
        market.set_floor(scope, floor, at=0)
    assert market.rate("h/a/g0") == 5
    market.set_floor("h/a", 0, at=0)
    assert market.rate("h/a/g0") == 3
    market.set_floor("h/a/g0", 0, at=0)
    assert market.rate("h/a/g0") == 2


def test_a_floor_may_wait_for_its_first_resource() -> None:
    """A floor set on a path that has no resource yet counts for what is added there."""
    market = Market()
    market.set_floor("h/a", 4, at=0)
    assert market.scopes() == ()
    market.add_resource("h/a/g0", at=0)
    assert market.rate("h/a/g0") == 4


def test_a_floor_takes_the_lowest_limits_first() -> None:
    """Who loses a leaf to a floor loses it in the order of limits, to whoever follows further."""
    market = market_with("h/g0", "h/g1", "h/g2")
    hold(market, "A", "h/g0", limit=4)
    hold(market, "B", "h/g1", limit=3)
    hold(market, "C", "h/g2", limit=8)
    market.place("D", "h", price=1, limit=6, order="d", at=0)
    events = market.set_floor("h", 5, at=1)
    assert moves(events) == [("h/g1", "B", "D", "floor"), ("h/g0", "A", None, "floor")]
    assert market.rate("h/g2") == 5


def test_a_fallen_floor_fills_the_cheapest_leaves_first() -> None:
    """Waiting orders get the leaves that a lower floor made affordable, lowest floor first."""
    market = market_with("h/g0", "h/g1", floor=9)
    market.set_floor("h/g0", 4, at=0)
    market.place("A", "h", price=5, order="a", at=0)
    market.place("B", "h", price=4, order="b", at=0)
    events = market.set_floor("h", 1, at=1)
    assert kinds(events)[0] is FloorSet
    assert moves(events) == [("h/g1", None, "A", "idle"), ("h/g0", None, "B", "idle")]


# --- money --------------------------------------------------------------------------------------


def test_segments_explain_every_charge() -> None:
    """Floor, demand and back; equal neighbours are joined, and no rival is named."""
    market = market_with("h/g0", floor=2)
    hold(market, "A", "h/g0", limit=9)
    market.place("B", "h", price=4, order="b", at=10)
    market.place("C", "h/g0", price=4, order="c", at=20)
    market.cancel("B", "b", at=30)
    market.cancel("C", "c", at=40)
    assert market.segments("A", at=50) == {
        "h/g0": ((0, 10, 2, "floor"), (10, 40, 4, "demand"), (40, 50, 2, "floor"))
    }
    assert market.bill("A", at=50) == 10 * 2 + 30 * 4 + 10 * 2


def test_settling_starts_a_new_statement_period() -> None:
    """Bills go on as they were; segments start afresh."""
    market = market_with("h/a/g0", "h/b/g0", floor=2)
    hold(market, "B", "h/b/g0", limit=9)
    hold(market, "A", "h/a/g0", limit=9)
    explanation = Segments([(0, 10, 2, "floor")])
    assert market.settle(at=10) == (
        Settled(10, "A", "h/a/g0", 0, 20, explanation),
        Settled(10, "B", "h/b/g0", 0, 20, explanation),
    )
    assert market.bill("A", at=15) == 30
    assert market.segments("A", at=15) == {"h/a/g0": ((10, 15, 2, "floor"),)}
    ended = market.relinquish("A", "h/a/g0", at=20)[0]
    assert isinstance(ended, Settled)
    assert (ended.since, ended.charge) == (10, 20)
    assert market.revenue(at=20) == market.bill("A", at=20) + market.bill("B", at=20) == 80


def test_a_bill_beyond_the_next_timer_is_unanswerable() -> None:
    """Up to the next timer nothing can change by itself; after it, let time pass first."""
    market = market_with("h/g0", floor=2)
    hold(market, "A", "h/g0", limit=9)
    market.place("B", "h", price=3, order="b", at=5, expires=10)
    assert market.bill("A", at=10) == 5 * 2 + 5 * 3
    for question in (market.bill, market.segments):
        with pytest.raises(Unanswerable) as refusal:
            question("A", at=11)
        assert refusal.value.code == Code.BEYOND_NEXT_TIMER
    with pytest.raises(Unanswerable, match="past"):
        market.bill("A", at=4)
    market.advance(at=11)
    assert market.bill("A", at=11) == 5 * 2 + 5 * 3 + 1 * 2


# --- what may be seen ---------------------------------------------------------------------------


def test_a_tenant_sees_roots_and_what_lies_above_its_leaves() -> None:
    """The visible domain grows with the first leaf held, and shrinks when it is lost."""
    market = market_with("h/a/g0", "h/b/g0", "t/c/g0")
    assert market.visible("A") == {"h", "t"}
    hold(market, "A", "h/a/g0", limit=3)
    assert market.visible("A") == {"h", "h/a", "t"}
    assert market.check_visible("A", "h/a") is None
    refused = market.check_visible("A", "h/b")
    assert isinstance(refused, Rejected) and refused.code == Code.SCOPE_NOT_VISIBLE
    assert market.check_visible("A", "h/a/g0") is not None
    assert market.check_visible("A", "nowhere") is not None
    market.relinquish("A", "h/a/g0", at=1)
    assert market.visible("A") == {"h", "t"}


def test_attributes_are_for_the_holder() -> None:
    """Whoever holds a resource can read what was said about it; nobody else but the operator."""
    market = Market()
    market.add_resource("h/g0", attributes={"host": "n17", "slot": "0"}, at=0)
    with pytest.raises(Unanswerable) as refusal:
        market.attributes("h/g0", "A")
    assert refusal.value.code == Code.NOT_THE_HOLDER
    hold(market, "A", "h/g0", limit=3)
    assert market.attributes("h/g0", "A") == {"host": "n17", "slot": "0"}
    assert market.attributes("h/g0") == {"host": "n17", "slot": "0"}
    with pytest.raises(Unanswerable):
        market.attributes("h/g0", "B")


def test_a_quote_is_the_lowest_idle_floor_or_the_lowest_rate_of_others() -> None:
    """It shows what one leaf would cost, and nothing about limits, owners or numbers."""
    market = market_with("h/g0", "h/g1", floor=2)
    market.set_floor("h/g1", 5, at=0)
    assert market.quote("h", "A") == Quote(2, idle=True)
    hold(market, "A", "h/g0", limit=9)
    assert market.quote("h", "B") == Quote(5, idle=True)
    hold(market, "B", "h/g1", limit=9)
    assert market.quote("h", "A") == Quote(5, idle=False)
    assert market.quote("h", "B") == Quote(2, idle=False)
    assert market.quote("h", None) == Quote(2, idle=False)
    assert market.quote("h/g0", "A") is None


# --- guards: rise -------------------------------------------------------------------------------


def test_a_price_is_clipped_and_the_answer_says_so() -> None:
    """A quarter above a quote of 10 is 12 and a bit, rounded down; the limit stays."""
    market = market_with("h/g0", floor=10)
    hold(market, "A", "h/g0", limit=99)
    market.guard("h", rise=2_500, window=100, at=0)
    assert market.place("B", "h", price=50, limit=60, order="b", at=0) == (
        Placed(0, "B", "b", "h", 12, 60, None),
    )
    assert market.rate("h/g0") == 12


def test_rebidding_faster_does_not_climb_faster() -> None:
    """Within a window the reference is the quote before its first order; then it is a new one."""
    market = market_with("h/g0", floor=10)
    hold(market, "A", "h/g0", limit=99)
    market.guard("h", rise=2_500, window=100, at=0)
    market.place("B", "h", price=50, order="b", at=0)
    prices = [accepted_price(market.amend("B", "b", price=50, at=at)) for at in (1, 2, 99)]
    assert prices == [12, 12, 12]
    assert accepted_price(market.place("C", "h", price=50, order="c", at=99)) == 12
    assert accepted_price(market.place("D", "h", price=50, order="d", at=100)) == 15


def test_each_scope_has_its_own_reference() -> None:
    """An order at a finer scope is measured by the quote of that scope, for whoever may see it."""
    market = market_with("h/a/g0", "h/b/g0", "h/b/g1", floor=10)
    market.set_floor("h/b", 20, at=0)
    hold(market, "A", "h/a/g0", limit=99)
    hold(market, "A", "h/b/g0", limit=99)
    hold(market, "B", "h/b/g1", limit=99)
    market.guard("h", rise=5_000, window=100, at=0)
    assert accepted_price(market.place("B", "h", price=50, order="b1", at=0)) == 15
    assert accepted_price(market.place("B", "h/b", price=50, order="b2", at=0)) == 30


def test_what_is_accepted_tells_no_more_than_a_quote() -> None:
    """Who may not see a scope is measured by the nearest one above it that it may see."""
    market = market_with("h/a/x/g0", "h/a/x/g1", "h/a/y/g0", "h/b/g0", floor=10)
    market.set_floor("h/a", 20, at=0)
    market.set_floor("h/a/y", 40, at=0)
    for path in market.resources():
        hold(market, "A", path, limit=99)
    market.relinquish("A", "h/a/x/g1", at=0)
    hold(market, "C", "h/a/x/g1", limit=99)
    market.guard("h", rise=5_000, window=100, at=0)
    assert accepted_price(market.place("B", "h/a/y/g0", price=90, order="b", at=0)) == 15
    assert accepted_price(market.place("C", "h/a/y/g0", price=90, order="c", at=0)) == 30
    assert accepted_price(market.place("A", "h/a/y", price=90, order="a", at=0)) == 60


def test_nothing_is_clipped_where_the_quote_is_0() -> None:
    """Nor where there is none."""
    market = market_with("h/g0")
    hold(market, "A", "h/g0", limit=99)
    market.guard("h", rise=0, window=100, at=0)
    assert accepted_price(market.place("B", "h", price=50, order="b", at=0)) == 50


def test_a_reference_lasts_as_long_as_its_window() -> None:
    """A guard set again with the same window keeps it; another window, or no guard, does not."""
    market = market_with("h/g0", floor=10)
    hold(market, "A", "h/g0", limit=99)
    market.guard("h", rise=10_000, window=100, at=0)
    market.place("B", "h", price=50, order="b", at=0)
    market.guard("h", rise=5_000, window=100, at=1)
    assert accepted_price(market.place("C", "h", price=50, order="c", at=1)) == 15
    market.guard("h", rise=5_000, window=90, at=2)
    assert accepted_price(market.place("D", "h", price=50, order="d", at=2)) == 30
    market.guard("h", at=3)
    market.place("D", "h", price=40, order="e", at=3)
    market.guard("h", rise=5_000, window=90, at=4)
    assert accepted_price(market.place("D", "h", price=90, order="f", at=4)) == 60


# --- guards: fall -------------------------------------------------------------------------------


def test_a_floor_falls_step_by_step() -> None:
    """At most 3 a window, at each boundary, until it is where it was asked to be."""
    market = market_with("h/g0", floor=10)
    market.guard("h", fall=3, window=100, at=0)
    assert market.set_floor("h", 2, at=50) == (FloorSet(50, "h", 7, 2),)
    assert market.next_timer() == 100
    assert market.advance(at=500) == (FloorSet(100, "h", 4, 2), FloorSet(200, "h", 2, 2))
    assert market.next_timer() is None


def test_a_floor_raised_meanwhile_is_measured_from_the_start_of_the_window() -> None:
    """Rising is free at any time, and does not buy more room to fall in the same window."""
    market = market_with("h/g0", floor=10)
    market.guard("h", fall=3, window=100, at=0)
    market.set_floor("h", 2, at=50)
    assert market.set_floor("h", 20, at=60) == (FloorSet(60, "h", 20, 20),)
    assert market.next_timer() is None
    assert market.set_floor("h", 0, at=70) == (FloorSet(70, "h", 7, 0),)
    assert market.advance(at=100) == (FloorSet(100, "h", 4, 0),)


def test_a_step_begins_a_window_of_its_own() -> None:
    """After a step, the bound is measured from where the floor stood at that boundary."""
    market = market_with("h/g0", floor=10)
    market.guard("h", fall=3, window=100, at=0)
    market.set_floor("h", 0, at=0)
    assert market.advance(at=100) == (FloorSet(100, "h", 4, 0),)
    market.set_floor("h", 20, at=110)
    assert market.set_floor("h", 0, at=120) == (FloorSet(120, "h", 4, 0),)


def test_a_guard_that_is_lifted_lets_the_floor_down_at_once() -> None:
    """What was asked last holds as soon as nothing stands in its way, and orders are filled."""
    market = market_with("h/g0", floor=10)
    market.guard("h", fall=1, window=100, at=0)
    market.set_floor("h", 2, at=0)
    market.place("A", "h", price=3, order="a", at=0)
    events = market.guard("h", at=1)
    assert events[1] == FloorSet(1, "h", 2, 2)
    assert moves(events) == [("h/g0", None, "A", "idle")]


# --- guards: hold -------------------------------------------------------------------------------


def held_market(limit: int, hold: int = 100) -> Market:
    """A has just won h/g0 with `limit`, under a hold; the floor is 2."""
    market = market_with("h/g0", floor=2)
    market.guard("h", hold=hold, at=0)
    market.place("A", "h", price=limit, order="a", at=0)
    return market


def test_a_hold_caps_the_charge_at_the_limit_won_with() -> None:
    """Under a hold the holder stays and pays at most what it won with; quotes are not capped."""
    market = held_market(limit=5)
    assert moves(market.place("B", "h", price=8, order="b", at=10)) == []
    assert market.owner("h/g0") == "A"
    assert market.rate("h/g0") == 5
    assert market.quote("h", "C") == Quote(8, idle=False)
    assert market.segments("A", at=100) == {"h/g0": ((0, 10, 2, "floor"), (10, 100, 5, "hold"))}


def test_a_limit_raised_under_a_hold_does_not_raise_the_cap() -> None:
    """The cap is the limit that was won with; after the hold the holder follows to the new one."""
    market = held_market(limit=5)
    market.place("B", "h", price=8, order="b", at=10)
    market.set_limit("A", "h/g0", 9, at=20)
    assert market.rate("h/g0") == 5
    assert market.advance(at=100) == ()
    assert (market.owner("h/g0"), market.rate("h/g0")) == ("A", 8)
    assert market.bill("A", at=110) == 10 * 2 + 90 * 5 + 10 * 8


def test_what_a_hold_put_off_happens_at_its_end_outbid() -> None:
    """A price above the limit takes the leaf when the hold ends, not before."""
    market = held_market(limit=5)
    market.place("B", "h", price=8, order="b", at=10)
    assert market.advance(at=99) == ()
    assert moves(market.advance(at=100)) == [("h/g0", "A", "B", "outbid")]


def test_what_a_hold_put_off_happens_at_its_end_limit() -> None:
    """A limit that was lowered below the rate acts when the hold ends."""
    market = held_market(limit=5)
    market.place("B", "h", price=4, order="b", at=10)
    assert moves(market.set_limit("A", "h/g0", 3, at=20)) == []
    assert moves(market.advance(at=100)) == [("h/g0", "A", "B", "limit")]


def test_what_a_hold_put_off_happens_at_its_end_floor() -> None:
    """A floor above the limit takes the leaf when the hold ends."""
    market = held_market(limit=5)
    market.place("B", "h", price=3, limit=9, order="b", at=10)
    assert moves(market.set_floor("h", 7, at=20)) == []
    assert market.rate("h/g0") == 5
    assert moves(market.advance(at=100)) == [("h/g0", "A", "B", "floor")]


def test_a_limit_lowered_and_raised_again_puts_nothing_off() -> None:
    """What counts is how the limit was last set."""
    market = held_market(limit=5)
    market.place("B", "h", price=4, order="b", at=10)
    market.set_limit("A", "h/g0", 3, at=20)
    market.set_limit("A", "h/g0", 4, at=30)
    assert market.advance(at=100) == ()
    assert market.owner("h/g0") == "A"


def test_what_was_taken_back_is_no_reason() -> None:
    """A limit that was lowered and raised again is not why the leaf is lost at the end."""
    market = held_market(limit=5)
    market.place("B", "h", price=4, order="b", at=10)
    market.set_limit("A", "h/g0", 3, at=20)
    market.set_limit("A", "h/g0", 4, at=30)
    market.amend("B", "b", price=6, limit=6, at=40)
    assert moves(market.advance(at=100)) == [("h/g0", "A", "B", "outbid")]


def test_a_hold_does_not_bind_its_holder() -> None:
    """A leaf under a hold can be given back, and withdrawn."""
    market = held_market(limit=5)
    assert moves(market.relinquish("A", "h/g0", at=10)) == [("h/g0", "A", None, "relinquished")]
    assert market.next_timer() is None


def test_winning_again_starts_a_new_hold() -> None:
    """Also for the tenant that had the leaf before."""
    market = held_market(limit=5)
    market.place("A", "h", price=9, order="again", at=10)
    market.place("B", "h", price=6, order="b", at=20)
    assert moves(market.advance(at=100)) == [("h/g0", "A", "A", "outbid")]
    assert market.next_timer() == 200


def test_a_hold_that_was_granted_is_kept() -> None:
    """A guard that is lifted takes nothing back."""
    market = held_market(limit=5)
    market.guard("h", at=10)
    assert moves(market.place("B", "h", price=8, order="b", at=20)) == []
    assert moves(market.advance(at=100)) == [("h/g0", "A", "B", "outbid")]


# --- timers -------------------------------------------------------------------------------------


def test_at_one_instant_orders_expire_then_floors_step_then_holds_end() -> None:
    """C's order is gone before anything moves; the floor steps; then A loses what it held."""
    market = market_with("h/g0", floor=10)
    market.guard("h", fall=3, hold=100, window=100, at=0)
    market.place("A", "h", price=10, order="a", at=0)
    market.place("C", "h", price=30, order="c", at=0, expires=100)
    market.place("B", "h", price=20, order="b", at=0)
    market.set_floor("h", 4, at=0)
    events = market.advance(at=100)
    assert kinds(events) == [Expired, FloorSet, Settled, Transferred]
    assert moves(events) == [("h/g0", "A", "B", "outbid")]
    assert market.rate("h/g0") == 4


def test_what_falls_due_acts_before_the_command_even_if_it_is_refused() -> None:
    """A refusal changes nothing itself, but time has passed."""
    market = market_with("h/g0")
    hold(market, "A", "h/g0", limit=9)
    market.place("B", "h", price=3, order="b", at=0, expires=10)
    assert kinds(market.cancel("B", "nothing", at=20)) == [Expired, Rejected]
    assert market.now == 20
