"""Gangs, notice and commitments: the market against the oracle and the auditor.

The contract's examples first, told to the oracle and then to the market; then choices that the
contract leaves to a reader, told to both; then whatever Hypothesis and chance make up.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from auditor import line
from histories import random_history
from laissez import model
from laissez.market import Market
from laissez.model import Code, Event, Quote, Rejected, Settled, Transferred
from naive import NaiveMarket
from test_oracle import Trading, amounts, budget, seldom, spans, tenants, waits, which

SECOND = 1_000_000
EIGHT = [f"h/d{domain}/g{leaf}" for domain in range(2) for leaf in range(4)]

New = Callable[[], Any]


@pytest.fixture(params=[NaiveMarket, Market])
def new(request: pytest.FixtureRequest) -> New:
    """Makes an empty market, first the oracle's, then the real one."""
    made: New = request.param
    return made


def opened(new: New, leaves: Sequence[str], held: dict[str, tuple[str, int]], **guards: int) -> Any:
    """A market at time 0, with a floor of 200 and leaves held by tenants with these limits."""
    market = new()
    market.set_floor("h", 200, at=0)
    for leaf in leaves:
        market.add_resource(leaf, at=0)
    for leaf, (tenant, limit) in held.items():
        market.place(tenant, leaf, limit=limit, order=f"first {leaf}", at=0)
    if guards:
        market.guard("h", at=0, **guards)
    return market


def moves(events: Sequence[Event]) -> list[tuple[str, str | None, str | None, str]]:
    """(resource, old, new, reason) of every transfer, in order."""
    return [(e.resource, e.old, e.new, e.reason) for e in events if isinstance(e, Transferred)]


def owners(market: Any, leaves: Sequence[str]) -> str:
    """A letter for each leaf, `-` where it is idle."""
    return "".join(market.owner(leaf) or "-" for leaf in leaves)


def refusal(events: Sequence[Event]) -> str | None:
    return events[-1].code if events and isinstance(events[-1], Rejected) else None


def statement(events: Sequence[Event]) -> tuple[str, int, list[tuple[int, int, int, str]]]:
    """The only one: (tenant, charge, segments)."""
    (settled,) = [event for event in events if isinstance(event, Settled)]
    return settled.tenant, settled.charge, list(settled.segments)


# The contract's examples ------------------------------------------------------------------------

HALF = {"h/d0/g0": ("A", 300), "h/d0/g1": ("A", 300)} | dict.fromkeys(EIGHT[4:], ("B", 900))
LOYAL = HALF | {"h/d0/g0": ("A", 600), "h/d0/g1": ("A", 600)}


def test_example_9_a_gang_takes_the_cheaper_domain(new: New) -> None:
    market = opened(new, EIGHT, HALF)
    events = market.place("C", "h", limit=500, count=4, within=2, order="gang", at=1)
    assert moves(events) == [
        ("h/d0/g0", "A", "C", "outbid"),
        ("h/d0/g1", "A", "C", "outbid"),
        ("h/d0/g2", None, "C", "idle"),
        ("h/d0/g3", None, "C", "idle"),
    ]
    assert [market.rate(leaf) for leaf in EIGHT[:4]] == [200] * 4
    assert [market.limit(leaf) for leaf in EIGHT[:4]] == [500] * 4


def test_example_10_a_gang_waits_and_presses_on_nobody(new: New) -> None:
    market = opened(new, EIGHT, LOYAL)
    assert not moves(market.place("C", "h", limit=500, count=4, within=2, order="gang", at=1))
    assert market.rate("h/d0/g0") == 200
    assert not moves(market.set_limit("A", "h/d0/g0", 400, at=2))
    assert len(moves(market.set_limit("A", "h/d0/g1", 450, at=3))) == 4
    assert owners(market, EIGHT) == "CCCCBBBB"


def test_example_11_nothing_stands_idle_for_a_gang(new: New) -> None:
    market = opened(new, EIGHT, LOYAL)
    market.place("C", "h", limit=500, count=4, within=2, order="gang", at=1)
    market.set_limit("A", "h/d0/g0", 400, at=2)
    assert moves(market.place("D", "h/d0", price=450, order="one", at=3)) == [
        ("h/d0/g2", None, "D", "idle")
    ]
    assert market.rate("h/d0/g2") == 200
    assert moves(market.set_limit("A", "h/d0/g1", 450, at=4)) == [
        ("h/d0/g0", "A", "C", "outbid"),
        ("h/d0/g1", "A", "C", "outbid"),
        ("h/d0/g2", "D", "C", "outbid"),
        ("h/d0/g3", None, "C", "idle"),
    ]


def test_example_12_time_to_leave_in_order(new: New) -> None:
    market = opened(new, ["h/g"], {"h/g": ("A", 300)}, notice=60 * SECOND)
    events = market.place("B", "h", price=400, order="b", at=0)
    assert events[1:] == (
        model.Called(0, "A", "h/g", 60 * SECOND, "outbid"),
        model.Promised(0, "B", "b", "h/g", 60 * SECOND),
    )
    assert (market.owner("h/g"), market.rate("h/g"), market.called("h/g")) == (
        "A",
        300,
        60 * SECOND,
    )
    assert market.promises("B") == {"h/g": 60 * SECOND}
    assert refusal(market.cancel("B", "b", at=0)) == Code.UNKNOWN_ORDER
    events = market.relinquish("A", "h/g", at=20 * SECOND)
    assert statement(events) == ("A", 6_000_000_000, [(0, 20 * SECOND, 300, "notice")])
    assert moves(events) == [("h/g", "A", "B", "relinquished")]
    assert market.rate("h/g") == 200


# Which idle leaf --------------------------------------------------------------------------------


def test_a_tenants_leaves_lie_together_and_whole_domains_stay_whole(new: New) -> None:
    market = opened(new, EIGHT, {"h/d1/g2": ("A", 300)})
    for number, (tenant, leaf) in enumerate(
        [("B", "h/d1/g0"), ("C", "h/d1/g1"), ("D", "h/d1/g3"), ("D", "h/d0/g0"), ("C", "h/d0/g1")]
    ):
        (move,) = moves(market.place(tenant, "h", limit=300, order=f"o{number}", at=1))
        assert move == (leaf, None, tenant, "idle")


def test_a_leaf_beside_the_last_one_won_must_be_as_cheap(new: New) -> None:
    market = opened(new, EIGHT, {"h/d1/g2": ("A", 300)})
    market.set_floor("h/d1", 250, at=1)
    assert moves(market.place("A", "h", limit=300, order="o", at=1))[0][0] == "h/d0/g0"


# Gangs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        (Code.BAD_COUNT, {"count": 0}),
        (Code.BAD_COUNT, {"count": 2.0}),
        (Code.BAD_COUNT, {"count": True}),
        (Code.BAD_WITHIN, {"within": 0}),
        (Code.BAD_WITHIN, {"within": "2"}),
        (Code.BAD_WITHIN, {"within": 4}),
        (Code.BAD_WITHIN, {"count": 1, "within": 1}),
        (Code.BAD_WITHIN, {"scope": "h/d0", "within": 1}),
        (Code.DOMAIN_TOO_SMALL, {"count": 5}),
        (Code.DOMAIN_TOO_SMALL, {"within": 3}),
        (Code.DOMAIN_TOO_SMALL, {"scope": "h/d0/g0", "within": None}),
        (Code.GANG_HAS_NO_PRICE, {"price": 100}),
        (Code.NO_PRICE, {"limit": None}),
    ],
)
def test_a_gang_that_makes_no_sense_is_refused(new: New, code: Code, wrong: dict[str, Any]) -> None:
    market = opened(new, EIGHT, {})
    good: dict[str, Any] = {"tenant": "A", "scope": "h", "limit": 300, "count": 4, "within": 2}
    assert refusal(market.place(order="gang", at=1, **(good | wrong))) == code
    assert refusal(market.place(order="gang", at=1, **good)) is None


def test_an_amended_gang_keeps_its_count_and_its_level(new: New) -> None:
    market = opened(new, EIGHT, LOYAL)
    market.place("C", "h", limit=500, count=4, order="gang", at=1, within=2)
    assert refusal(market.amend("C", "gang", price=500, at=1)) == Code.GANG_HAS_NO_PRICE
    events = market.amend("C", "gang", limit=601, at=2)
    assert events[0] == model.Amended(2, "C", "gang", "h", None, 601, None, 4, 2)
    assert owners(market, EIGHT) == "CCCCBBBB"


def test_a_tenants_own_leaf_counts_only_while_it_is_losing_it(new: New) -> None:
    market = opened(new, EIGHT[:3], {"h/d0/g0": ("A", 300), "h/d0/g1": ("B", 250)})
    market.place("A", "h", limit=400, count=3, order="gang", at=1)
    assert owners(market, EIGHT[:3]) == "AB-"
    assert moves(market.place("C", "h/d0/g0", price=350, order="c", at=2)) == [
        ("h/d0/g0", "A", "A", "outbid"),
        ("h/d0/g1", "B", "A", "outbid"),
        ("h/d0/g2", None, "A", "idle"),
    ]


def test_a_displaced_leaf_passes_to_its_holders_own_gang(new: New) -> None:
    """The leaf that is lost without notice, the others with it."""
    leaves = EIGHT[:2]
    held = {"h/d0/g0": ("A", 300), "h/d0/g1": ("B", 300)}
    market = opened(new, leaves, held, notice=10)
    market.place("A", "h", limit=500, count=2, order="gang", at=1)
    events = market.place("C", "h/d0/g0", price=400, order="c", at=2)
    assert moves(events) == [("h/d0/g0", "A", "A", "outbid")]
    assert events[-2:] == (
        model.Called(2, "B", "h/d0/g1", 12, "outbid"),
        model.Promised(2, "A", "gang", "h/d0/g1", 12),
    )
    assert market.rate("h/d0/g0") == 400
    assert moves(market.advance(at=12)) == [("h/d0/g1", "B", "A", "outbid")]


def test_a_gang_goes_past_a_leaf_whose_holder_would_press_on_it(new: New) -> None:
    leaves = EIGHT[:2]
    market = opened(new, leaves, {"h/d0/g0": ("A", 300), "h/d0/g1": ("A", 900)})
    market.place("A", "h", price=500, order="more", at=1)
    market.place("C", "h", limit=400, count=2, order="gang", at=1)
    market.set_limit("A", "h/d0/g1", 300, at=2)
    assert owners(market, leaves) == "AA"
    assert len(moves(market.cancel("A", "more", at=3))) == 2
    assert owners(market, leaves) == "CC"


def test_an_idle_leaf_that_a_better_order_presses_on_is_not_taken_on_the_way(new: New) -> None:
    """The floor falls: of three leaves A takes the first, B waits for the third."""
    leaves = EIGHT[:3]
    market = opened(new, leaves, {})
    market.set_floor("h", 500, at=0)
    market.place("A", "h", price=400, order="a", at=1)
    market.place("B", "h/d0/g2", price=400, order="b", at=1)
    market.place("C", "h/d0", limit=300, count=2, order="gang", at=1)
    market.set_floor("h", 200, at=2)
    assert owners(market, leaves) == "A-B"


def test_a_gang_is_not_filled_at_the_instant_of_its_end(new: New) -> None:
    """Also if another order, that kept it from its domain, ends at that instant and before it."""
    leaves = EIGHT[:2]
    market = opened(new, leaves, {"h/d0/g0": ("A", 300), "h/d0/g1": ("A", 900)})
    market.place("A", "h", price=500, order="more", at=1, expires=9)
    market.place("C", "h", limit=400, count=2, order="gang", at=1, expires=9)
    market.set_limit("A", "h/d0/g1", 300, at=2)
    events = market.advance(at=9)
    assert events == (model.Expired(9, "A", "more"), model.Expired(9, "C", "gang"))


def test_the_quote_of_several(new: New) -> None:
    market = opened(new, EIGHT, {"h/d0/g0": ("A", 900), "h/d1/g0": ("B", 900)})
    market.place("C", "h/d0/g0", price=700, order="c", at=1)
    market.set_floor("h/d1/g1", 800, at=1)
    assert market.quote("h", None, count=3, within=2) == Quote(200, True)
    assert market.quote("h", None, count=4, within=2) == Quote(700, False)
    assert market.quote("h", "A", count=4, within=2) == Quote(800, False)
    assert market.quote("h/d1", None, count=3) == Quote(800, True)
    assert market.quote("h", None, count=7) == Quote(800, False)
    assert market.quote("h", None, count=9) is None


# Notice and commitments -------------------------------------------------------------------------


def test_a_call_by_a_floor_promises_nothing_and_ends_if_the_floor_falls(new: New) -> None:
    market = opened(new, ["h/g"], {"h/g": ("A", 300)}, notice=10)
    events = market.set_floor("h", 400, at=1)
    assert events[1:] == (model.Called(1, "A", "h/g", 11, "floor"),)
    assert refusal(market.set_limit("A", "h/g", 500, at=2)) == Code.ALREADY_CALLED
    assert market.quote("h", None) is None
    market.set_floor("h", 300, at=3)
    assert market.advance(at=11) == (model.Uncalled(11, "A", "h/g"),)
    market.set_floor("h", 400, at=12)
    assert moves(market.advance(at=22)) == [("h/g", "A", None, "floor")]


def test_what_is_promised_may_be_given_back_for_the_commitment(new: New) -> None:
    market = opened(new, ["h/g"], {"h/g": ("A", 300)}, notice=10, commit=7)
    market.place("B", "h", price=400, limit=500, order="b", at=1)
    assert refusal(market.place("B", "h", price=1, order="b", at=2)) == Code.ORDER_ID_TAKEN
    events = market.relinquish("B", "h/g", at=2)
    assert statement(events) == ("B", 2_800, [(2, 9, 400, "commit")])
    assert events[-1] == model.Uncalled(2, "A", "h/g")
    assert market.bill("B", 2) == 2_800 and not market.promises("B")
    assert refusal(market.relinquish("B", "h/g", at=2)) == Code.NOT_THE_HOLDER
    assert refusal(market.place("B", "h", price=1, order="b", at=2)) is None


def test_a_call_outlives_its_promise_while_others_press(new: New) -> None:
    market = opened(new, ["h/g"], {"h/g": ("A", 300)}, notice=10)
    market.place("B", "h", price=400, order="b", at=1)
    market.place("C", "h", price=350, order="c", at=2)
    assert market.relinquish("B", "h/g", at=3) == ()
    assert market.called("h/g") == 11
    assert moves(market.advance(at=11)) == [("h/g", "A", "C", "outbid")]


def test_a_promised_leaf_goes_on_to_whoever_bids_more_by_then(new: New) -> None:
    market = opened(new, ["h/g"], {"h/g": ("A", 300)}, notice=10)
    market.place("B", "h", price=400, order="b", at=1)
    market.place("C", "h", price=500, order="c", at=2)
    assert moves(market.advance(at=11)) == [
        ("h/g", "A", "B", "outbid"),
        ("h/g", "B", "C", "outbid"),
    ]


def test_an_order_comes_back_when_what_it_was_promised_is_withdrawn(new: New) -> None:
    market = opened(new, EIGHT[:2], dict.fromkeys(EIGHT[:2], ("A", 300)), notice=10)
    market.place("B", "h/d0/g0", price=400, order="b", at=1, expires=20)
    market.place("C", "h/d0/g1", price=400, order="c", at=1, expires=5)
    events = market.withdraw("h/d0/g0", at=5)
    assert events[1:] == (
        model.Transferred(5, "h/d0/g0", "A", None, None, "withdrawn"),
        model.ResourceWithdrawn(5, "h/d0/g0"),
        model.Placed(5, "B", "b", "h/d0/g0", 400, 400, 20),
    )
    assert isinstance(market.withdraw("h/d0/g1", at=5)[-1], model.ResourceWithdrawn)


def test_whoever_wins_is_bound_for_a_while(new: New) -> None:
    market = opened(new, ["h/g"], {}, commit=10)
    market.place("A", "h", price=300, limit=500, order="a", at=0)
    assert market.set_limit("A", "h/g", 100, at=1) == (model.LimitSet(1, "A", "h/g", 300),)
    assert market.limit("h/g") == 300 and market.next_timer() == 10
    events = market.advance(at=10)
    assert events[0] == model.LimitSet(10, "A", "h/g", 100)
    assert moves(events) == [("h/g", "A", None, "limit")]
    assert statement(events)[1] == 2_000


def test_who_leaves_early_pays_what_was_bid(new: New) -> None:
    market = opened(new, ["h/g"], {}, commit=10)
    market.place("A", "h", price=300, limit=500, order="a", at=0)
    events = market.relinquish("A", "h/g", at=4)
    assert statement(events) == (
        "A",
        4 * 200 + 6 * 300,
        [(0, 4, 200, "floor"), (4, 10, 300, "commit")],
    )


def test_who_is_called_leaves_without_paying_for_the_rest(new: New) -> None:
    market = opened(new, ["h/g"], {}, commit=10, notice=5)
    market.place("A", "h", price=300, limit=350, order="a", at=0)
    market.place("B", "h", price=400, order="b", at=2)
    events = market.relinquish("A", "h/g", at=4)
    assert statement(events) == ("A", 1_100, [(0, 2, 200, "floor"), (2, 4, 350, "notice")])


def test_the_reference_of_a_rise_is_one_that_the_tenant_may_see(new: New) -> None:
    """B holds in d1 only: in d0 its price is clipped to what it could read off the root."""
    held = dict.fromkeys(EIGHT[:4], ("A", 900)) | dict.fromkeys(EIGHT[4:], ("B", 900))
    market = opened(new, EIGHT, held, rise=5_000, window=100)
    market.set_floor("h/d0", 400, at=1)
    assert market.place("B", "h/d0", price=800, order="b", at=1)[0].price == 300
    assert market.place("A", "h/d0", price=800, order="a", at=1)[0].price == 600


# Whatever comes up ------------------------------------------------------------------------------


class Gangs(Trading):
    """All that `Trading` does, and gangs, and what is done about calls and promises."""

    leaves: ClassVar[tuple[str, ...]] = ("h/a/g0", "h/a/g1")

    @rule(
        tenant=tenants,
        index=which,
        limit=amounts,
        count=st.sampled_from([2, 2, 3, 4, 5]),
        deeper=st.integers(-1, 2),
        span=spans,
        wait=waits,
        again=seldom,
    )
    def place_gang(
        self,
        tenant: str,
        index: int,
        limit: int,
        count: int,
        deeper: int,
        span: int | None,
        wait: int | None,
        again: bool,
    ) -> None:
        at, scope = self.after(wait), self.inner[index % len(self.inner)]
        name = f"o{index % (self.commands + 1) if again else self.commands}"
        within = len(line(scope)) + deeper if deeper >= 0 or again else None
        terms = None, self.rounded(limit), self.expiry(at, span), count, within
        self.do(model.Place(at, tenant, name, scope, *terms))

    @rule(index=which, limit=amounts, more=st.integers(0, 2), wait=waits)
    def grow(self, index: int, limit: int, more: int, wait: int | None) -> None:
        """A holder wants more around what it holds."""
        path = self.pick(self.held(), index)
        if path is not None:
            around = line(path)[:-1]
            scope, limit = around[index % len(around)], self.rounded(limit)
            terms = f"o{self.commands}", scope, None, limit, None, 1 + more
            self.do(model.Place(self.after(wait), self.owner_or_else(path, index), *terms))

    @rule(index=which, wait=waits)
    def leave_when_called(self, index: int, wait: int | None) -> None:
        path = self.pick(self.called(), index)
        if path is not None:
            self.do(model.Relinquish(self.after(wait), self.owner_or_else(path, index), path))

    @rule(index=which, wait=waits)
    def give_promise_back(self, index: int, wait: int | None) -> None:
        promised = [path for path in self.called() if self.oracle.resources[path].promised_to]
        path = self.pick(promised, index)
        if path is not None:
            order = self.oracle.resources[path].promised_to
            assert order
            self.do(model.Relinquish(self.after(wait), order.tenant, path))

    @rule(index=which, wait=waits)
    def withdraw_what_is_called(self, index: int, wait: int | None) -> None:
        path = self.pick(self.called(), index)
        if path is not None:
            self.do(model.Withdraw(self.after(wait), path))

    @property
    def inner(self) -> list[str]:
        return [scope for scope in self.scopes if scope not in self.leaves]

    def called(self) -> list[str]:
        return [path for path in self.oracle.leaves() if self.oracle.called(path)]


class Racks(Gangs):
    leaves = tuple(f"h/{z}/{r}/g{i}" for z in "ab" for r in "xy" for i in "012")


class Hosts(Gangs):
    """Many levels, each a candidate for `within`."""

    leaves = tuple(f"h/{z}/{r}/{n}/g{i}" for z in "ab" for r in "xy" for n in "pq" for i in "01")


class Wide(Gangs):
    """Domains of four, as in the contract's examples, and more of them than one looks at."""

    leaves = tuple(f"h/{d}/g{i}" for d in "abcdef" for i in "0123")


class Uneven(Gangs):
    """Leaves at different depths: not every leaf lies in a domain of every level."""

    leaves = ("h/a/g0", "h/a/g1", "h/b", "h/c/x/y0", "h/c/x/y1", "h/c/w", "h/d", "h/c/z/y0")


class Grove(Gangs):
    leaves = ("h/a/g0", "h/a/g1", "h/b/g0", "h/b/g1", "t/a/g0", "t/a/g1", "t/b/g0", "t/g1")


MACHINES = [
    (Racks, budget(1.5)),
    (Hosts, budget(1)),
    (Wide, budget(0.6)),
    (Uneven, budget(1.5)),
    (Grove, budget(2)),
]


@pytest.mark.parametrize(("machine", "settings"), MACHINES)
def test_the_market_is_the_oracle_with_gangs(machine: type[Trading], settings: settings) -> None:
    """Whatever is done, market, oracle, twin and auditor agree on everything."""
    run_state_machine_as_test(machine, settings=settings)


@pytest.mark.parametrize("seed", range(40))
def test_the_oracle_passes_the_audit(seed: int) -> None:
    """Before anything is compared with it, it keeps what the contract promises."""
    random_history(seed, steps=60, market=False)


@pytest.mark.parametrize("seed", range(1_000, 1_040))
def test_a_random_history_is_the_same_to_both(seed: int) -> None:
    random_history(seed, steps=60)
