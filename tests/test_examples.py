"""The worked examples of the market contract, word for word.

Tenants A to D, rates in dollars an hour, a floor of 2 on `h100`. Each test is one example; what
it says in numbers, its docstring says in a sentence.
"""

from laissez.market import Market, Transferred
from laissez.model import Event

HOUR = 3_600_000_000
DOLLAR = 1_000_000 * HOUR
"""One dollar, in the unit of bills."""


def dollars(amount: float) -> int:
    """A rate in dollars an hour, as the market counts it."""
    return round(amount * 1_000_000)


def market_with(*leaves: str) -> Market:
    market = Market()
    market.set_floor("h100", dollars(2), at=0)
    for leaf in leaves:
        market.add_resource(leaf, at=0)
    return market


def hold(market: Market, tenant: str, leaf: str, limit: float) -> None:
    """Let a tenant take an idle leaf at time 0, with this retention limit."""
    market.place(tenant, leaf, limit=dollars(limit), order=f"{tenant}-takes-{leaf}", at=0)
    assert market.owner(leaf) == tenant


def transfers(events: tuple[Event, ...]) -> list[tuple[str, str | None, str | None, str]]:
    """(resource, old, new, reason) of every transfer, in order."""
    return [(e.resource, e.old, e.new, e.reason) for e in events if isinstance(e, Transferred)]


def test_1_a_free_leaf_is_taken_at_the_floor() -> None:
    """Of three idle leaves the order takes the first, and pays the floor, not its limit."""
    market = market_with("h100/g0", "h100/g1", "h100/g2")

    events = market.place("A", "h100", price=dollars(2), limit=dollars(3), order="a", at=0)

    assert transfers(events) == [("h100/g0", None, "A", "idle")]
    assert [market.owner(f"h100/g{i}") for i in range(3)] == ["A", None, None]
    assert market.limit("h100/g0") == dollars(3)
    assert market.rate("h100/g0") == dollars(2)
    assert market.bill("A", at=HOUR) == 2 * DOLLAR


def test_2_a_lowered_limit_lets_the_next_one_in() -> None:
    """B's resting order raises A's rate; when A lowers its limit below it, B has the leaf."""
    market = market_with("h100/g0")
    hold(market, "A", "h100/g0", limit=5)

    assert transfers(market.place("B", "h100", price=dollars(3), order="b", at=0)) == []
    assert market.owner("h100/g0") == "A"
    assert market.rate("h100/g0") == dollars(3)

    events = market.set_limit("A", "h100/g0", dollars(2.5), at=HOUR)

    assert transfers(events) == [("h100/g0", "A", "B", "limit")]
    assert market.limit("h100/g0") == dollars(3)
    assert market.rate("h100/g0") == dollars(2)
    assert market.orders("B") == ()
    assert market.bill("A", at=2 * HOUR) == 3 * DOLLAR
    assert market.bill("B", at=2 * HOUR) == 2 * DOLLAR


def test_3_an_order_takes_one_leaf_from_the_weakest_holder() -> None:
    """D passes the limits of A and B, takes A's leaf, the weakest, and is gone: B keeps its own."""
    market = market_with("h100/g0", "h100/g1", "h100/g2")
    hold(market, "A", "h100/g0", limit=3)
    hold(market, "B", "h100/g1", limit=4)
    hold(market, "C", "h100/g2", limit=6)

    events = market.place("D", "h100", price=dollars(5), order="d", at=0)

    assert transfers(events) == [("h100/g0", "A", "D", "outbid")]
    assert [market.owner(f"h100/g{i}") for i in range(3)] == ["D", "B", "C"]
    assert [market.rate(f"h100/g{i}") for i in range(3)] == [dollars(2)] * 3
    assert market.limit("h100/g0") == dollars(5)
    assert market.bill("D", at=HOUR) == 2 * DOLLAR


def test_4_an_earlier_order_that_follows_further_wins() -> None:
    """C's price drives A out, but B follows up to 10: B has the leaf and pays C's price."""
    market = market_with("h100/g0")
    hold(market, "A", "h100/g0", limit=5)
    market.place("B", "h100", price=dollars(3), limit=dollars(10), order="b", at=0)

    events = market.place("C", "h100", price=dollars(6), limit=dollars(6), order="c", at=0)

    assert transfers(events) == [("h100/g0", "A", "B", "outbid")]
    assert market.limit("h100/g0") == dollars(10)
    assert market.rate("h100/g0") == dollars(6)
    assert [order.order for order in market.orders("C")] == ["c"]
    assert market.bill("B", at=HOUR) == 6 * DOLLAR


def test_5_equal_limits_go_to_the_finest_scope_then_to_the_earliest() -> None:
    """C wins over B, who came first but asked for anything, and over D, who came later."""
    market = market_with("h100/a/g0")
    hold(market, "A", "h100/a/g0", limit=5)
    market.place("B", "h100", price=dollars(3), order="b", at=0)
    market.place("C", "h100/a", price=dollars(3), order="c", at=0)
    market.place("D", "h100/a", price=dollars(3), order="d", at=0)

    events = market.relinquish("A", "h100/a/g0", at=0)

    assert transfers(events) == [("h100/a/g0", "A", "C", "relinquished")]
    assert market.limit("h100/a/g0") == dollars(3)
    assert market.rate("h100/a/g0") == dollars(3)
    assert market.bill("C", at=HOUR) == 3 * DOLLAR


def test_6_a_floor_takes_leaves_and_gives_them_back() -> None:
    """A floor above A's limit frees g0; when it falls within C's limit, C has it."""
    market = market_with("h100/a/g0", "h100/a/g1")
    hold(market, "A", "h100/a/g0", limit=3)
    hold(market, "B", "h100/a/g1", limit=6)

    events = market.set_floor("h100/a", dollars(4), at=HOUR)

    assert transfers(events) == [("h100/a/g0", "A", None, "floor")]
    assert market.rate("h100/a/g1") == dollars(4)

    events = market.place(
        "C", "h100/a", price=dollars(3), limit=dollars(3.5), order="c", at=2 * HOUR
    )
    assert transfers(events) == []

    events = market.set_floor("h100/a", dollars(2.5), at=3 * HOUR)

    assert transfers(events) == [("h100/a/g0", None, "C", "idle")]
    assert market.limit("h100/a/g0") == dollars(3.5)
    assert market.rate("h100/a/g0") == dollars(2.5)
    assert market.bill("A", at=4 * HOUR) == 2 * DOLLAR
    assert market.bill("B", at=4 * HOUR) == (2 + 4 + 4) * DOLLAR + 5 * DOLLAR // 2
    assert market.bill("C", at=4 * HOUR) == 5 * DOLLAR // 2


def test_7_own_orders_defend_a_leaf_and_never_raise_its_rate() -> None:
    """A's own order costs A nothing; when B passes A's limit, that order wins A's leaf for A."""
    market = market_with("h100/g0")
    hold(market, "A", "h100/g0", limit=3)
    market.place("A", "h100", price=dollars(8), order="a", at=0)
    assert market.rate("h100/g0") == dollars(2)

    events = market.place("B", "h100", price=dollars(4), order="b", at=HOUR)

    assert transfers(events) == [("h100/g0", "A", "A", "outbid")]
    assert market.limit("h100/g0") == dollars(8)
    assert market.rate("h100/g0") == dollars(4)
    assert market.orders("A") == ()
    assert [order.order for order in market.orders("B")] == ["b"]
    assert market.bill("A", at=2 * HOUR) == 6 * DOLLAR


def test_8_a_bill_is_the_rate_over_the_time_held() -> None:
    """Two hours at floor 2, with B's order at 3 resting for 30 minutes of them, are $4.50."""
    market = market_with("h100/g0")
    hold(market, "A", "h100/g0", limit=5)
    market.place("B", "h100", price=dollars(3), order="b", at=HOUR)
    market.cancel("B", "b", at=HOUR * 3 // 2)

    assert market.bill("A", at=2 * HOUR) == 9 * DOLLAR // 2
    assert market.revenue(at=2 * HOUR) == 9 * DOLLAR // 2
    assert market.segments("A", at=2 * HOUR) == {
        "h100/g0": (
            (0, HOUR, dollars(2), "floor"),
            (HOUR, HOUR * 3 // 2, dollars(3), "demand"),
            (HOUR * 3 // 2, 2 * HOUR, dollars(2), "floor"),
        )
    }
