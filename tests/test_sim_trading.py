"""How the market contract reads the market's events."""

from laissez.market import Market
from laissez.model import Event, Reason, Settled, Transferred
from laissez.model.values import Segments
from laissez.simulation.contracts.setting import Stint
from laissez.simulation.contracts.trading import ended

NODE, OTHER = "h100/z0/g0", "h100/z0/g1"
NOTHING = Segments(tuple)


def settled(tenant: str, resource: str, charge: int) -> Settled:
    return Settled(7, tenant, resource, 3, charge, NOTHING)


def test_every_stint_has_the_reason_of_its_own_end() -> None:
    """A node that changes hands twice in one batch has two stints that end for two reasons, and
    another node between them has its own."""
    events: tuple[Event, ...] = (
        settled("ada", NODE, 40),
        Transferred(7, NODE, "ada", "bob", "b1", "outbid"),
        settled("cem", OTHER, 20),
        Transferred(7, OTHER, "cem", None, None, "floor"),
        settled("bob", NODE, 0),
        Transferred(7, NODE, "bob", None, None, "relinquished"),
    )
    assert list(ended(events)) == [
        Stint("ada", NODE, 3, 7, 40, "outbid"),
        Stint("cem", OTHER, 3, 7, 20, "floor"),
        Stint("bob", NODE, 3, 7, 0, "relinquished"),
    ]


def test_what_was_nobodys_ends_no_stint() -> None:
    """The operator has no stints."""
    assert not list(ended((Transferred(7, NODE, None, "ada", "a1", "idle"),)))


def test_a_market_settles_directly_before_it_hands_over() -> None:
    """That is what this relies on. A hold ends while the operator withdraws the node: one batch, in
    which ada is outbid and bob, who has it then, loses it to the withdrawal."""
    market = Market()
    market.guard("h100", hold=10, at=0)
    market.add_resource(NODE, at=0)
    market.place("ada", "h100", price=3, limit=3, order="a1", at=0)
    market.place("bob", "h100", price=5, limit=5, order="b1", at=1)
    found = list(ended(market.withdraw(NODE, at=15)))
    ends = [(each.tenant, each.from_us, each.to_us, each.reason) for each in found]
    assert ends == [("ada", 0, 10, "outbid"), ("bob", 10, 15, "withdrawn")]


def test_who_leaves_when_called_has_lost_the_node() -> None:
    """ada leaves a node that she is called to leave: she is outbid. bob, to whom it goes, leaves it
    of his own will, and so does ada where a call is over."""
    market = Market()
    market.guard("h100", notice=10, at=0)
    market.add_resource(NODE, at=0)
    calls: dict[str, Reason] = {}

    def ends(*events: Event) -> list[str | None]:
        return [stint.reason for stint in ended(events, (), calls)]

    market.place("ada", "h100", price=3, limit=3, order="a1", at=0)
    assert ends(*market.place("bob", "h100", price=5, limit=5, order="b1", at=1)) == []
    assert calls == {NODE: "outbid"}
    assert ends(*market.relinquish("ada", NODE, at=4)) == ["outbid"]
    assert ends(*market.relinquish("bob", NODE, at=5)) == ["relinquished"]
    market.place("ada", "h100", price=3, limit=3, order="a2", at=6)
    ends(*market.place("bob", "h100", price=5, limit=5, order="b2", at=7))
    ends(*market.relinquish("bob", NODE, at=8))
    assert calls == {}
    assert ends(*market.relinquish("ada", NODE, at=9)) == ["relinquished"]


def test_what_is_bound_is_charged_also_where_nothing_was_held() -> None:
    """bob gives back what he was promised, and ada leaves before her time: stints have all that the
    market charges."""
    market = Market()
    market.guard("h100", notice=10, commit=20, at=0)
    market.add_resource(NODE, at=0)
    market.set_floor("h100", 2, at=0)
    market.place("ada", "h100", price=3, limit=3, order="a1", at=0)
    market.place("bob", "h100", price=5, limit=5, order="b1", at=1)
    assert list(ended(market.relinquish("bob", NODE, at=2))) == [
        Stint("bob", NODE, 2, 2, 5 * 20, "relinquished")
    ]
    (left,) = ended(market.relinquish("ada", NODE, at=5))
    assert (left.tenant, left.to_us, left.reason) == ("ada", 5, "relinquished")
    assert left.charge == market.bill("ada", 5) == 1 * 2 + 1 * 3 + 3 * 2 + 15 * 3
