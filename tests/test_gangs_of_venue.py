"""What the exchange adds to gangs: names of levels, guards of trees, drains, what goes together.

All of it is in the journal's records, so each test here also plays them into a second venue, and
restores a third from a snapshot in the middle: all three have one digest.
"""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laissez.exchange.records import (
    Cordon,
    GuardNewTree,
    PartialAdvance,
    PlaceNamed,
    Record,
    SetLevels,
    Uncordon,
)
from laissez.exchange.venue import Venue
from laissez.model import (
    AddResource,
    Advance,
    Called,
    Cancel,
    Event,
    Place,
    Promised,
    Rejected,
    Relinquish,
    ResourceAdded,
    SetFloor,
    SetGuard,
    SetLimit,
    Settled,
    Transferred,
    Uncalled,
    Withdraw,
)

LEVELS = ("rack", "nvlink", "gpu")
NOTICE = 100
HOSTS = [f"h/r{rack}/d{domain}" for rack in range(2) for domain in range(2)]
LEAVES = [f"{host}/g{gpu}" for host in HOSTS for gpu in range(2)]


class Played:
    """A venue that is told records, and remembers them."""

    def __init__(self, *records: Record) -> None:
        self.venue = Venue()
        self.records: list[Record] = []
        self.tell(*records)

    def tell(self, *records: Record) -> list[Event]:
        events: list[Event] = []
        for record in records:
            self.records.append(record)
            events += self.venue.apply(record)
        return events

    def held(self, tenant: str) -> list[str]:
        return sorted(self.venue.market.holdings(tenant))

    def check(self) -> None:
        """Replayed from the beginning, or from any snapshot, it is the same venue."""
        again = Venue()
        half = len(self.records) // 2
        for record in self.records[:half]:
            again.apply(record)
        restored = Venue.restore(again.snapshot())
        assert restored.digest() == again.digest()
        for record in self.records[half:]:
            assert restored.apply(record) == again.apply(record)
        assert restored.digest() == again.digest() == self.venue.digest()


def cluster(*, notice: int | None = None, commit: int | None = None) -> Played:
    return Played(
        SetLevels(0, "h", LEVELS),
        SetGuard(0, "h", notice=notice, commit=commit),
        *(AddResource(0, leaf) for leaf in LEAVES),
    )


def gang(
    at: int,
    tenant: str,
    order: str,
    count: int,
    within: int | str | None,
    *,
    limit: int = 100,
    together: bool = False,
    price: int | None = None,
    scope: str = "h",
) -> PlaceNamed:
    order = f"{tenant}/{order}"
    return PlaceNamed(at, tenant, order, scope, price, limit, None, count, within, together)


def codes(events: list[Event]) -> list[str]:
    return [str(event.code) for event in events if isinstance(event, Rejected)]


def lost(events: list[Event], tenant: str) -> list[tuple[int, str]]:
    return [
        (event.at, event.reason)
        for event in events
        if isinstance(event, Transferred) and event.old == tenant
    ]


# --- names of levels ------------------------------------------------------------------------------


def test_a_gang_lies_within_a_level_by_its_name() -> None:
    """The name means what the number does: the number of names in the path of a domain."""
    market = cluster()
    market.tell(gang(1, "a", "o", 2, "nvlink"), Place(1, "b", "b/o", "h", None, 100, None, 2, 3))
    for tenant in ("a", "b"):
        assert len({path.rpartition("/")[0] for path in market.held(tenant)}) == 1
    market.tell(gang(2, "c", "o", 4, "rack"))
    assert {path.split("/")[1] for path in market.held("c")} == {"r1"}
    market.check()


@pytest.mark.parametrize(
    ("order", "code"),
    [
        (gang(1, "a", "o", 2, "rak"), "bad_within"),
        (gang(1, "a", "o", 1, "rack"), "bad_within"),
        (gang(1, "a", "o", 2, "rack", price=5), "gang_has_no_price"),
        (gang(1, "a", "o", 3, "nvlink"), "domain_too_small"),
        (gang(1, "a", "o", 9, None, together=True), "domain_too_small"),
        (gang(1, "a", "o", 2, "rack", scope="h/r0/d0"), "bad_within"),
        (gang(1, "a", "o", 1, None, together=True), "bad_count"),
        (gang(1, "a", "o", 0, "rack"), "bad_count"),
        (gang(1, "a", "o", 2, "rack", scope="other"), "bad_within"),
    ],
)
def test_what_no_domain_can_be_is_refused_and_changes_nothing(order: PlaceNamed, code: str) -> None:
    """With the market's own codes, and with the names that there are."""
    market = cluster()
    before = market.venue.digest()
    (rejected,) = market.tell(order)
    assert isinstance(rejected, Rejected) and rejected.code == code
    assert market.venue.digest() == before
    if order.within == "rak":
        assert "rack, nvlink, gpu" in rejected.message


@pytest.mark.parametrize("levels", [("a", "a"), ("1",), ("a b",), ("",), ("x",) * 128, ("x" * 65,)])
def test_levels_that_nobody_can_name_are_refused(levels: tuple[str, ...]) -> None:
    market = cluster()
    assert codes(market.tell(SetLevels(1, "h", levels))) == ["bad_levels"]
    assert codes(market.tell(SetLevels(1, "h/r0", ("a",)))) == ["not_a_tree"]
    assert market.venue.levels == {"h": LEVELS}
    market.tell(SetLevels(1, "h", ()))
    assert market.venue.levels == {}
    market.check()


# --- guards of new trees --------------------------------------------------------------------------


def guard_of(venue: Venue) -> tuple[int | None, int | None]:
    guards = [(guard.notice, guard.commit) for guard in venue.market.guards()]
    return guards[0] if guards else (None, None)


@pytest.mark.parametrize(
    ("before", "guard"),
    [
        ([], (30, 40)),
        ([SetFloor(0, "h/a", 5)], (30, 40)),
        ([SetGuard(0, "h")], (None, None)),
        ([SetGuard(0, "h", hold=5)], (None, None)),
        ([SetGuard(0, "h", commit=7)], (None, 7)),
        ([AddResource(0, "h/a/g0")], (None, None)),
        ([AddResource(0, "h/a/g0"), Withdraw(0, "h/a/g0")], (None, None)),
        ([SetGuard(0, "h", rise=-5)], (30, 40)),
    ],
)
def test_a_new_tree_gets_a_guard_unless_somebody_has_decided(
    before: list[Record], guard: tuple[int | None, int | None]
) -> None:
    """An empty guard is a decision, too; a tree that has or had a resource is not new."""
    market = Played(*before, GuardNewTree(1, "h", 30, 40), AddResource(1, "h/a/g1"))
    assert guard_of(market.venue) == guard
    market.tell(SetGuard(2, "h"), GuardNewTree(3, "h", 30, 40))
    assert guard_of(market.venue) == (None, None)
    market.check()


def test_what_is_no_tree_gets_no_guard() -> None:
    market = Played()
    assert market.tell(GuardNewTree(1, "", 30, 40), GuardNewTree(1, " h", 30, 40)) == []
    market.check()


# --- drains ---------------------------------------------------------------------------------------


def test_a_drain_tells_holders_and_ends_at_its_deadline() -> None:
    """Rates, limits and who may take what stay as they are until then; and it all comes back."""
    market = cluster()
    market.tell(Place(1, "a", "a/1", "h/r0/d0", 10, 50), Place(1, "b", "b/1", "h/r0/d1", 10, 50))
    (resource,) = market.held("a")
    events = market.tell(Cordon(2, "h/r0/d0", 100))
    assert [e for e in events if isinstance(e, Called)] == [
        Called(2, "a", resource, 100, "withdrawn")
    ]
    assert market.venue.next_timer() == 100
    # It is traded as ever, and whoever wins it is told, too.
    events = market.tell(Place(3, "c", "c/1", resource, 60, 90))
    assert [type(e) for e in events][-2:] == [Transferred, Called]
    assert events[-1] == Called(3, "c", resource, 100, "withdrawn")
    assert market.tell(SetLimit(4, "c", resource, 80))
    events = market.tell(Advance(99))
    assert events == []
    events = market.tell(Advance(200))
    assert lost(events, "c") == [(100, "withdrawn")]
    assert market.venue.next_timer() is None
    events = market.tell(Uncordon(201, "h/r0/d0"))
    assert {e.resource for e in events if isinstance(e, ResourceAdded)} == set(LEAVES[:2])
    market.check()


def test_lifting_a_drain_is_told() -> None:
    """To all whom it concerned, with what stands after it: a wider drain, a call of the market."""
    market = cluster(notice=NOTICE)
    market.tell(*(Place(1, "a", f"a/{n}", "h/r0", 10, 50) for n in range(4)))
    market.tell(Cordon(2, "h/r0/d0", 300), Cordon(2, "h/r0", 400))
    assert market.venue.drains.over("h/r0/d0/g0") == 300
    events = market.tell(Uncordon(3, "h/r0/d0"))
    first, second = "h/r0/d0/g0", "h/r0/d0/g1"
    assert events == [
        Uncalled(3, "a", first),
        Called(3, "a", first, 400, "withdrawn"),
        Uncalled(3, "a", second),
        Called(3, "a", second, 400, "withdrawn"),
    ]
    assert market.tell(Cordon(3, "h/r0", 400)) == []
    assert len(market.tell(Cordon(3, "h/r0", 450))) == 8  # a later deadline is told anew, too
    market.tell(SetFloor(4, "h/r0/d1/g0", 60))  # the market calls this one
    events = market.tell(Uncordon(5, "h/r0"))
    assert [e.resource for e in events if isinstance(e, Uncalled)] == LEAVES[:4]
    called = [e for e in events if isinstance(e, Called)]
    assert called == [Called(5, "a", "h/r0/d1/g0", 4 + NOTICE, "floor")]
    market.check()


def test_an_uncalled_holder_under_a_drain_is_told_again() -> None:
    """Otherwise it would take the end of the market's call for the end of the drain."""
    market = cluster(notice=NOTICE)
    market.tell(Place(1, "a", "a/1", "h/r0/d0/g0", 10, 50), Cordon(2, "h/r0/d0", 500))
    market.tell(SetFloor(3, "h/r0/d0", 60), SetFloor(4, "h/r0/d0", 0))
    events = market.tell(Advance(3 + NOTICE))
    assert [type(e) for e in events] == [Uncalled, Called]
    market.check()


def test_a_deadline_that_has_passed_is_refused() -> None:
    market = cluster()
    assert codes(market.tell(Cordon(5, "h", 5))) == ["bad_deadline"]
    assert market.venue.cordons == {}


def test_a_large_drain_acts_in_parts() -> None:
    """Part by part the same happens as at once."""
    market = cluster()
    market.tell(*(Place(1, "a", f"a/{n}", "h", 10, 50) for n in range(8)), Cordon(2, "h", 10))
    assert market.venue.count_due(10, 100) == 8
    market.tell(PartialAdvance(10, 3))
    assert 0 < len(market.held("a")) < 8
    while market.venue.next_timer() is not None:
        market.tell(PartialAdvance(10, 3))
    assert market.held("a") == [] and market.venue.drains.until == {}
    market.check()


# --- what goes together ---------------------------------------------------------------------------


def test_when_one_goes_the_others_go_with_it() -> None:
    """At the instant at which it really goes; who takes it has that one only."""
    market = cluster()
    market.tell(gang(1, "a", "job", 4, "rack", together=True, limit=50))
    held = market.held("a")
    events = market.tell(Place(9, "b", "b/1", held[0], 60, 90))
    assert lost(events, "a") == [(9, "outbid")] + [(9, "relinquished")] * 3
    assert (market.held("a"), market.held("b")) == ([], [held[0]])
    assert market.venue.together.is_empty
    market.check()


def test_without_together_the_others_stay() -> None:
    market = cluster()
    market.tell(gang(1, "a", "job", 4, "rack", limit=50))
    market.tell(Place(9, "b", "b/1", market.held("a")[0], 60, 90))
    assert len(market.held("a")) == 3
    market.check()


def test_a_called_one_has_not_gone_yet() -> None:
    """All go on until the end of the notice, and what is still bound is owed."""
    market = cluster(notice=NOTICE, commit=1_000)
    market.tell(gang(1, "a", "job", 2, "nvlink", together=True, limit=50))
    first, second = market.held("a")
    market.tell(Place(9, "b", "b/1", first, 60, 90))
    assert market.held("a") == [first, second]
    events = market.tell(Advance(9 + NOTICE))
    assert lost(events, "a") == [(109, "outbid"), (109, "relinquished")]
    (charged,) = [e for e in events if isinstance(e, Settled) and e.resource == second]
    assert charged.segments[-1] == (109, 1_001, 50, "commit")
    market.check()


def test_each_at_its_own_instant_however_late_time_is_told() -> None:
    """A loss that comes to light later takes the others with it when it happened."""
    market = cluster(notice=NOTICE)
    market.tell(gang(1, "a", "job", 2, "nvlink", together=True, limit=50))
    first, second = market.held("a")
    market.tell(Place(9, "b", "b/1", first, 60, 90), Place(20, "c", "c/1", second, 5, 10))
    events = market.tell(Advance(5_000))
    assert lost(events, "a") == [(109, "outbid"), (109, "relinquished")]
    assert market.held("c") == [second]
    market.check()


def test_promised_and_held_go_together() -> None:
    """A gang that waits for a notice is bound, too: a promise given back releases what it has."""
    market = cluster(notice=NOTICE)
    market.tell(Place(1, "x", "x/1", "h/r0/d0/g0", 10, 20))
    events = market.tell(gang(2, "a", "job", 2, "nvlink", together=True, scope="h/r0/d0"))
    assert [type(e) for e in events if not isinstance(e, Settled)][-2:] != []
    assert sum(isinstance(e, Promised) for e in events) == 1
    assert market.held("a") == ["h/r0/d0/g1"]
    events = market.tell(Relinquish(3, "a", "h/r0/d0/g0"))
    assert market.held("a") == [] and market.venue.market.promises("a") == {}
    assert [type(e) for e in events if isinstance(e, Uncalled)] == [Uncalled]
    assert market.held("x") == ["h/r0/d0/g0"]
    market.check()


def test_what_was_promised_and_is_withdrawn_breaks_the_bond() -> None:
    market = cluster(notice=NOTICE)
    market.tell(Place(1, "x", "x/1", "h/r0/d0/g0", 10, 20))
    market.tell(gang(2, "a", "job", 2, "nvlink", together=True, scope="h/r0/d0"))
    market.tell(Withdraw(3, "h/r0/d0/g0"))
    assert market.held("a") == []
    market.check()


def test_a_promise_that_is_kept_stays_bound() -> None:
    market = cluster(notice=NOTICE)
    market.tell(Place(1, "x", "x/1", "h/r0/d0/g0", 10, 20))
    market.tell(gang(2, "a", "job", 2, "nvlink", together=True, scope="h/r0/d0"))
    market.tell(Advance(500))
    assert len(market.held("a")) == 2
    market.tell(Relinquish(600, "a", "h/r0/d0/g1"))
    assert market.held("a") == []
    market.check()


def test_a_gang_that_waits_is_bound_when_it_is_filled_by_whatever() -> None:
    """By what a cordon puts back, for instance; and an id that is used again binds nothing old."""
    market = cluster()
    market.tell(gang(1, "x", "all", 8, None, limit=500), Cordon(1, "h/r0/d0"))
    market.tell(*(Relinquish(2, "x", leaf) for leaf in LEAVES[:2]))
    market.tell(gang(2, "a", "job", 2, "nvlink", together=True))
    assert market.held("a") == []
    market.tell(Uncordon(3, "h/r0/d0"), *(Relinquish(4, "x", leaf) for leaf in LEAVES[2:4]))
    market.tell(gang(5, "a", "job", 2, "nvlink", together=True))
    assert len(market.venue.together.state.bonds) == 2
    market.tell(Relinquish(6, "a", market.held("a")[0]))
    assert len(market.held("a")) == 2
    market.check()


def test_what_is_cancelled_is_forgotten() -> None:
    market = cluster()
    market.tell(gang(1, "x", "job", 8, None, limit=500))
    market.tell(gang(2, "a", "job", 2, "nvlink", together=True), Cancel(3, "a", "a/job"))
    assert market.venue.together.is_empty
    market.check()


# --- all of it, at random -------------------------------------------------------------------------

TENANTS = st.sampled_from("abc")
PLACES = st.sampled_from(["h", "h/r0", *HOSTS, *LEAVES])
AMOUNTS = st.integers(1, 6).map(lambda n: 10 * n)

RECORDS = st.one_of(
    st.tuples(
        st.just("gang"),
        TENANTS,
        st.integers(2, 4),
        st.sampled_from([None, *LEVELS[:2]]),
        AMOUNTS,
        st.booleans(),
    ),
    st.tuples(st.just("buy"), TENANTS, PLACES, AMOUNTS, AMOUNTS),
    st.tuples(st.just("release"), TENANTS, st.integers(0, 7)),
    st.tuples(st.just("limit"), TENANTS, st.integers(0, 7), AMOUNTS),
    st.tuples(st.just("floor"), PLACES, AMOUNTS),
    st.tuples(st.just("cordon"), PLACES, st.one_of(st.none(), st.integers(1, 60))),
    st.tuples(st.just("uncordon"), PLACES),
    st.tuples(st.just("withdraw"), st.sampled_from(LEAVES)),
    st.tuples(st.just("add"), st.sampled_from(LEAVES)),
    st.tuples(st.just("part"), st.integers(1, 3)),
    st.tuples(st.just("wait")),
)


def record_for(market: Played, what: tuple[object, ...], at: int, number: int) -> Record:
    match what:
        case "gang", str(who), int(count), within, int(limit), bool(together):
            assert within is None or isinstance(within, str)
            return gang(at, who, f"{number}", count, within, limit=limit, together=together)
        case "buy", str(who), str(scope), int(one), int(two):
            return Place(at, who, f"{who}/{number}", scope, min(one, two), max(one, two))
        case "release", str(who), int(which):
            mine = [*market.held(who), *market.venue.market.promises(who)] or ["h/none"]
            return Relinquish(at, who, mine[which % len(mine)])
        case "limit", str(who), int(which), int(limit):
            return SetLimit(at, who, (market.held(who) or ["h/none"])[which % 1], limit)
        case "floor", str(scope), int(floor):
            return SetFloor(at, scope, floor)
        case "cordon", str(scope), after:
            return Cordon(at, scope, None if after is None else at + int(str(after)))
        case "uncordon", str(scope):
            return Uncordon(at, scope)
        case "withdraw", str(leaf):
            return Withdraw(at, leaf)
        case "add", str(leaf):
            return AddResource(at, leaf)
        case "part", int(most):
            return PartialAdvance(at, most)
        case _:
            return Advance(at)


@given(
    st.sampled_from([None, 20]),
    st.sampled_from([None, 50]),
    st.lists(st.tuples(RECORDS, st.integers(0, 15)), max_size=30),
)
def test_bonds_hold_whatever_happens(
    notice: int | None, commit: int | None, steps: list[tuple[tuple[object, ...], int]]
) -> None:
    """After every command each bond is whole: all that its gang has won is held or promised. What
    was released with others was released at their instant, and three ways to the state agree."""
    market = cluster(notice=notice, commit=commit)
    at, bonds = 0, dict[int, frozenset[str]]()
    for number, (what, later) in enumerate(steps):
        at = max(at + later, market.venue.market.now)
        events = market.tell(record_for(market, what, at, number))
        assert all(first.at <= second.at for first, second in pairwise(events))
        for event in events[:-1]:
            assert not isinstance(event, Rejected)
        book = market.venue.market
        present = market.venue.together.state.bonds
        for key, bond in present.items():
            mine = {*book.holdings(bond.tenant), *book.promises(bond.tenant)}
            assert set(bond.resources) <= mine
            assert bonds.get(key, frozenset(bond.resources)) == set(bond.resources)
        bonds = {key: frozenset(bond.resources) for key, bond in present.items()}
        assert set(market.venue.drains.until) <= set(market.venue.cordons)
        live = {order.order for who in "abc" for order in book.orders(who)}
        assert set(market.venue.together.state.waiting) <= live
    market.check()


# --- in what words it is refused ------------------------------------------------------------------


def sentence(played: Played, count: int, within: int | str | None, scope: str = "h") -> str:
    """Alike for an order that names a level and for one that counts."""
    refused = played.tell(gang(1, "a", "no", count, within, scope=scope))[-1]
    assert isinstance(refused, Rejected)
    if not isinstance(within, str):
        place = Place(1, "a", "a/no", scope, None, 100, None, count, within)
        assert played.tell(place) == [refused]
    return refused.message


def test_refusals_name_levels() -> None:
    """What is too small or no level is said in the names that people gave, if they gave some."""
    played = cluster()
    for within in ("nvlink", 3):
        assert sentence(played, 3, within) == (
            "the domains of level 'nvlink' under 'h' have at most 2 resources, and 3 are asked "
            "for; ask for fewer, or within a coarser level: h, rack"
        )
    assert sentence(played, 9, None) == (
        "'h' has at most 8 resources, and 9 are asked for; ask for fewer"
    )
    assert sentence(played, 5, None, "h/r0") == (
        "'h/r0' has at most 4 resources, and 5 are asked for; ask for fewer, or in a wider scope"
    )
    for within, shown in ((1, "1"), ("h", "'h'"), (9, "9")):
        assert sentence(played, 2, within, "h/r0") == (
            f"within {shown} is no level at or under 'h/r0'; give one of rack, nvlink"
        )
    assert "give one of rack, nvlink, gpu" in sentence(played, 2, "nvlonk")
    played.tell(SetLevels(1, "h", ()))
    assert "the domains of 3 names under 'h' have" in sentence(played, 3, 3)
    assert "from 1 to 4" in sentence(played, 3, 9)
    played.check()
