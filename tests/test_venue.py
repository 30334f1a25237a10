"""Cordons over a market, against a naive model that looks at every resource after every instant."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from laissez.exchange.records import (
    Cordon,
    GuardNewTree,
    PartialAdvance,
    PlaceNamed,
    Record,
    RightsRecord,
    SetLevels,
    Uncordon,
)
from laissez.exchange.venue import LeafAttributes, Venue
from laissez.market import Market
from laissez.model import (
    AddResource,
    Advance,
    Cancel,
    Code,
    Event,
    Expired,
    FloorSet,
    Place,
    Rejected,
    Relinquish,
    ResourceAdded,
    ResourceWithdrawn,
    ServiceCode,
    SetFloor,
    SetGuard,
    SetLimit,
    Settle,
    Transferred,
    Withdraw,
)

SCOPES = ("h", "h/a", "h/a/r", "h/b", "h/a/r/0", "h/b/0")
RESOURCES = ("h/a/r/0", "h/a/r/1", "h/a/s/0", "h/b/0", "h/b/1")
TENANTS = ("ada", "bob")


def covers(scope: str, resource: str) -> bool:
    return resource == scope or resource.startswith(scope + "/")


class NaiveVenue:
    """A market, a set of cordoned scopes, and a list of what is out: (resource, tags, cordon)."""

    def __init__(self) -> None:
        self.market = Market()
        self.cordoned: set[str] = set()
        self.out: list[tuple[str, LeafAttributes, str]] = []

    def finest(self, resource: str) -> str | None:
        return max((s for s in self.cordoned if covers(s, resource)), key=len, default=None)

    def put_aside(self, resource: str, at: int) -> None:
        cordon = self.finest(resource)
        assert cordon is not None
        tags = tuple(sorted(self.market.attributes(resource).items()))
        self.out.append((resource, tags, cordon))
        self.market.withdraw(resource, at=at)

    def sweep(self, at: int) -> None:
        for resource in self.market.resources():
            if self.market.owner(resource) is None and self.finest(resource):
                self.put_aside(resource, at)

    def apply(self, record: Record) -> None:
        for instant in range(self.market.now, record.at + 1):
            self.market.advance(at=instant)
            self.sweep(instant)
        if isinstance(record, Cordon):
            known = (*self.market.resources(), *(resource for resource, _, _ in self.out))
            if record.scope in self.cordoned or any(covers(record.scope, each) for each in known):
                self.cordoned.add(record.scope)
        elif isinstance(record, Uncordon):
            self.uncordon(record)
        elif isinstance(record, Relinquish) and self.gives_back_under_a_cordon(record):
            self.put_aside(record.resource, record.at)
        elif not isinstance(
            record, PartialAdvance | RightsRecord | PlaceNamed | SetLevels | GuardNewTree
        ) and not self.is_refused(record):
            self.market.apply(record)
        self.sweep(record.at)

    def uncordon(self, record: Uncordon) -> None:
        if record.scope in self.cordoned:
            self.cordoned.remove(record.scope)
            freed = [row for row in self.out if row[2] == record.scope]
            self.out = [row for row in self.out if row[2] != record.scope]
            for resource, tags, _ in freed:
                cordon = self.finest(resource)
                if cordon is None:
                    self.market.apply(AddResource(record.at, resource, tags))
                else:
                    self.out.append((resource, tags, cordon))

    def is_refused(self, record: Record) -> bool:
        if isinstance(record, SetFloor):
            scope = record.scope
            return any(scope != each and covers(each, scope) for each, _, _ in self.out)
        return isinstance(record, AddResource) and self.finest(record.resource) is not None

    def gives_back_under_a_cordon(self, record: Relinquish) -> bool:
        is_held = record.resource in self.market.holdings(record.tenant)
        return is_held and self.finest(record.resource) is not None


money = st.integers(1, 9)
amounts = st.tuples(money, money).map(sorted)
scopes, resources, tenants = (st.sampled_from(each) for each in (SCOPES, RESOURCES, TENANTS))


@st.composite
def records(draw: st.DrawFn) -> list[Record]:
    """A cluster with guards, and what an operator and two tenants do to it."""
    at = 0
    made: list[Record] = [AddResource(0, each, (("at", each),)) for each in RESOURCES]
    made.append(SetGuard(0, "h", fall=1, hold=draw(st.integers(1, 20)), window=10))
    for number in range(draw(st.integers(1, 40))):
        at += draw(st.integers(0, 15))
        price, limit = draw(amounts)
        tenant, scope, resource = draw(tenants), draw(scopes), draw(resources)
        order = f"{tenant}/{number}"
        choices: list[Record] = [
            Place(at, tenant, order, scope, price, limit, at + 7),
            Place(at, tenant, order, scope, price, limit),
            Place(at, tenant, order, resource, price, limit),
            Cancel(at, tenant, f"{tenant}/{number - 1}"),
            SetLimit(at, tenant, resource, price),
            Relinquish(at, tenant, resource),
            SetFloor(at, scope, price),
            SetFloor(at, f"{resource}/below", price),
            AddResource(at, resource, (("again", str(number)),)),
            AddResource(at, f"h/b/new-{number}"),
            Withdraw(at, resource),
            Cordon(at, scope),
            Cordon(at, scope),
            Uncordon(at, scope),
            Advance(at),
            Settle(at),
        ]
        made.append(draw(st.sampled_from(choices)))
    return made


@given(records())
def test_cordons_do_what_the_naive_model_does(made: list[Record]) -> None:
    """After every record market, cordons and what is out are the model's, also after a restart."""
    venue, naive = Venue(), NaiveVenue()
    for record in made:
        venue.apply(record)
        naive.apply(record)
        assert venue.market.digest() == naive.market.digest()
        assert set(venue.cordons) == naive.cordoned
        assert sorted(rows_out(venue)) == sorted(naive.out)
        again = Venue.restore(venue.snapshot())
        assert again.digest() == venue.digest()
        assert again.snapshot() == venue.snapshot()
        venue = again


@given(records(), st.integers(1, 3))
def test_what_falls_due_may_act_in_parts(made: list[Record], most: int) -> None:
    """However few things act at a time, and with a restart after each part, the same happens and
    the same state comes of it as when all of them act before the next record."""
    whole, parts = Venue(), Venue()
    for record in made:
        happened: list[Event] = []
        while parts.market.count_due(record.at, 1):
            happened += parts.apply(PartialAdvance(record.at, most))
            again = Venue.restore(parts.snapshot())
            assert again.digest() == parts.digest()
            assert again.market.next_timer() == parts.market.next_timer()
            parts = again
        happened += parts.apply(record)
        assert sorted(map(repr, happened)) == sorted(map(repr, whole.apply(record)))
        assert parts.digest() == whole.digest()


def test_a_part_ends_where_it_was_told_to() -> None:
    """After so many events it stops, in the middle of an instant; then it is told how to go on."""
    venue = Venue()
    venue.apply(AddResource(0, "h/0"))
    venue.apply(Place(0, "bob", "bob/0", "h", 9, 9))
    for number in range(5):
        venue.apply(Place(0, "ada", f"ada/{number}", "h", 1, 1, 10 + number // 4))
    assert venue.market.count_due(10, 9) == 4 and venue.market.count_due(10, 3) == 3
    first = venue.apply(PartialAdvance(20, 2))
    assert first == (Expired(10, "ada", "ada/0"), Expired(10, "ada", "ada/1"))
    assert (venue.market.now, venue.market.next_timer()) == (10, 10)
    assert len(venue.apply(PartialAdvance(20, 2))) == 2
    assert venue.apply(PartialAdvance(20, 2)) == (Expired(11, "ada", "ada/4"),)
    assert venue.market.now == 20
    assert venue.apply(PartialAdvance(21, 2)) == () and venue.market.now == 21


def test_a_part_ends_among_expiries_and_never_among_the_steps_of_floors() -> None:
    """Where floors step at the instant at which orders expire, the orders act in parts and the
    steps with the last of them; a market restored in between has the steps ahead of it."""
    venue = Venue()
    for tree in ("h", "i"):
        venue.apply(AddResource(0, f"{tree}/0"))
        venue.apply(SetGuard(0, tree, fall=1, window=10))
        venue.apply(SetFloor(0, tree, 9))
    for tree in ("h", "i"):
        venue.apply(SetFloor(11, tree, 5))
    for number in range(4):
        venue.apply(Place(11, "ada", f"ada/{number}", "h", 1, 1, 20))
    for left in (3, 2, 1):
        events = venue.apply(PartialAdvance(25, 1))
        assert [type(event) for event in events] == [Expired]
        assert (len(venue.market.orders("ada")), venue.market.floor("h")) == (left, 8)
        venue = Venue.restore(venue.snapshot())
        assert (venue.market.now, venue.market.next_timer()) == (20, 20)
    events = venue.apply(PartialAdvance(25, 1))
    assert [type(event) for event in events] == [Expired, FloorSet, FloorSet]
    assert venue.market.floor("h") == venue.market.floor("i") == 7
    assert Venue.restore(venue.snapshot()).market.next_timer() == venue.market.next_timer() == 30


def test_a_part_ends_where_no_step_follows() -> None:
    """A floor that may not fall at all now, or only at a later instant, is no step ahead: also
    when an order expires at what is a boundary of its window."""
    venue = Venue()
    venue.apply(AddResource(0, "h/0"))
    venue.apply(SetGuard(0, "h", fall=1, window=10))
    venue.apply(SetFloor(0, "h", 9))
    venue.apply(SetGuard(1, "h", fall=0, window=10))
    venue.apply(SetFloor(11, "h", 5))
    for number in range(3):
        venue.apply(Place(11, "ada", f"ada/{number}", "h", 1, 1, 20))
    venue.apply(PartialAdvance(25, 1))
    venue = Venue.restore(venue.snapshot())
    assert venue.market.next_timer() == 20
    venue.apply(SetGuard(20, "h", fall=1, window=10))
    assert Venue.restore(venue.snapshot()).market.next_timer() == venue.market.next_timer() == 30


def test_what_a_part_leaves_idle_under_a_cordon_leaves_the_market() -> None:
    """In the same part, and what is left of its instant stays left: so no part is longer than it
    was told to be."""
    venue = Venue()
    for number in range(3):
        venue.apply(AddResource(0, f"h/{number}"))
    venue.apply(SetGuard(0, "h", hold=10))
    for number in range(3):
        venue.apply(Place(0, "ada", f"ada/{number}", "h", 2, 2))
    venue.apply(SetFloor(1, "h", 5))
    venue.apply(Cordon(1, "h"))
    for left in (2, 1, 0):
        assert len(venue.apply(PartialAdvance(12, 1))) <= 3
        venue = Venue.restore(venue.snapshot())
        assert venue.market.count_due(12, 9) == len(venue.market.resources()) == left
        assert len(venue.cordons["h"]) == 3 - left


def rows_out(venue: Venue) -> list[tuple[str, LeafAttributes, str]]:
    return [
        (each, tags, scope) for scope, out in venue.cordons.items() for each, tags in out.items()
    ]


@given(records())
def test_nothing_gets_lost_under_a_cordon(made: list[Record]) -> None:
    """What was offered and not withdrawn is in the market or out, as it was offered, once."""
    venue = Venue()
    offered: dict[str, LeafAttributes] = {}
    for record in made:
        events = venue.apply(record)
        if isinstance(record, AddResource) and ResourceAdded in map(type, events):
            offered[record.resource] = record.attributes
        if isinstance(record, Withdraw) and type(events[-1]) is ResourceWithdrawn:
            del offered[record.resource]
        inside = [(each, tags_of(venue, each)) for each in venue.market.resources()]
        outside = [(resource, tags) for resource, tags, _ in rows_out(venue)]
        assert sorted(inside + outside) == sorted(offered.items())
        assert not [
            each
            for each in venue.market.resources()
            if venue.market.owner(each) is None and any(covers(s, each) for s in venue.cordons)
        ]
    for scope in tuple(venue.cordons):
        venue.apply(Uncordon(venue.market.now, scope))
    assert venue.cordons == {}
    assert {each: tags_of(venue, each) for each in venue.market.resources()} == offered


def tags_of(venue: Venue, resource: str) -> LeafAttributes:
    return tuple(sorted(venue.market.attributes(resource).items()))


@given(records())
def test_a_cordon_takes_nothing_from_its_holder(made: list[Record]) -> None:
    """A holding ends as withdrawn only when its holder gives it back or the operator withdraws."""
    venue = Venue()
    for record in made:
        events = venue.apply(record)
        withdrawn = [
            event.resource
            for event in events
            if isinstance(event, Transferred) and event.reason == "withdrawn"
        ]
        if withdrawn:
            assert isinstance(record, Relinquish | Withdraw)
            assert withdrawn == [record.resource]


def test_a_cordon_over_idle_and_held() -> None:
    """The idle resource leaves at once, the held one stays and is traded as ever."""
    venue = Venue()
    venue.apply(AddResource(0, "h/0", (("rack", "7"),)))
    venue.apply(AddResource(0, "h/1"))
    venue.apply(Place(0, "ada", "ada/1", "h/1", 3, 3))
    assert venue.apply(Cordon(5, "h")) == (ResourceWithdrawn(5, "h/0"),)
    assert venue.cordons == {"h": {"h/0": (("rack", "7"),)}}
    events = venue.apply(Place(6, "bob", "bob/1", "h", 4, 4))
    assert Transferred(6, "h/1", "ada", "bob", "bob/1", "outbid") in events
    assert venue.market.owner("h/1") == "bob"


def test_what_is_given_back_under_a_cordon_leaves() -> None:
    """It goes to the operator and out, not to the order that waits; uncordoned, that one wins."""
    venue = Venue()
    venue.apply(AddResource(0, "h/0"))
    venue.apply(Place(0, "ada", "ada/1", "h", 3, 9))
    venue.apply(Place(0, "bob", "bob/1", "h", 4, 4))
    venue.apply(Cordon(1, "h"))
    events = venue.apply(Relinquish(2, "ada", "h/0"))
    assert [type(each).__name__ for each in events] == [
        "Settled",
        "Transferred",
        "ResourceWithdrawn",
    ]
    assert events[1] == Transferred(2, "h/0", "ada", None, None, "relinquished")
    assert venue.market.resources() == ()
    assert venue.apply(Uncordon(3, "h"))[1:] == (
        Transferred(3, "h/0", None, "bob", "bob/1", "idle"),
    )


def test_only_the_holder_gives_back_under_a_cordon() -> None:
    """Somebody else's attempt is refused as it would be without a cordon."""
    venue = Venue()
    venue.apply(AddResource(0, "h/0"))
    venue.apply(Place(0, "ada", "ada/1", "h", 3, 9))
    venue.apply(Cordon(1, "h"))
    (refusal,) = venue.apply(Relinquish(2, "bob", "h/0"))
    assert isinstance(refusal, Rejected) and refusal.code == Code.NOT_THE_HOLDER
    assert venue.market.owner("h/0") == "ada"


def held_under_a_cordon() -> Venue:
    """Ada holds h/a/0 until 30, by a guard; then the floor, above its limit, takes it away."""
    venue = Venue()
    venue.apply(AddResource(0, "h/a/0"))
    venue.apply(AddResource(0, "h/b/0"))
    venue.apply(SetGuard(0, "h", fall=20, hold=30, window=20))
    venue.apply(Place(0, "ada", "ada/1", "h/a", 50, 50))
    venue.apply(Cordon(1, "h/a"))
    venue.apply(SetFloor(2, "h/a", 90))
    return venue


def test_every_record_lets_things_leave_in_time() -> None:
    """What falls idle while time passes leaves then, whatever the record that let it pass."""
    for record in (
        Advance(35),
        Cordon(35, "h/b"),
        Uncordon(35, "h/nothing"),
        AddResource(35, "h/a/9"),
        Relinquish(35, "ada", "h/a/0"),
        SetFloor(35, "h/a/0/below", 1),
    ):
        venue = held_under_a_cordon()
        events = venue.apply(record)
        assert ResourceWithdrawn(30, "h/a/0") in events
        assert "h/a/0" in venue.cordons["h/a"]


def test_a_floor_that_falls_later_does_not_find_what_has_left() -> None:
    """Idle at 30 means out at 30, though an order could have had it at 40, in the same record."""
    venue = held_under_a_cordon()
    venue.apply(SetFloor(22, "h/a", 50))
    venue.apply(Place(23, "bob", "bob/1", "h/a", 60, 60))
    assert venue.market.floor("h/a") == 70
    events = venue.apply(Advance(1_000))
    assert venue.market.floor("h/a") == 50
    assert ResourceWithdrawn(30, "h/a/0") in events
    assert venue.market.holdings("bob") == ()


def test_nothing_is_added_under_a_cordon() -> None:
    """The refusal names the cordon."""
    venue = Venue()
    venue.apply(AddResource(0, "h/0"))
    venue.apply(Cordon(1, "h"))
    (refusal,) = venue.apply(AddResource(2, "h/1"))
    assert isinstance(refusal, Rejected)
    assert (refusal.at, refusal.code) == (2, ServiceCode.CORDONED)
    assert "'h'" in refusal.message


def test_what_is_out_stays_a_resource() -> None:
    """A floor below it would make a scope of its path, and it could not come back."""
    venue = Venue()
    venue.apply(AddResource(0, "h/0"))
    venue.apply(Cordon(1, "h"))
    (refusal,) = venue.apply(SetFloor(2, "h/0/below", 5))
    assert isinstance(refusal, Rejected) and refusal.code == Code.PATH_UNDER_A_RESOURCE
    venue.apply(SetFloor(2, "h/0", 5))
    assert venue.apply(Uncordon(3, "h")) == (ResourceAdded(3, "h/0", ()),)
    assert venue.market.rate("h/0") == 5


def test_cordons_within_cordons() -> None:
    """What the outer one let go stays out by the inner one, and comes back with the last."""
    venue = Venue()
    venue.apply(AddResource(0, "h/a/0"))
    venue.apply(AddResource(0, "h/b/0"))
    venue.apply(Cordon(1, "h"))
    assert venue.apply(Cordon(2, "h/a")) == ()
    assert venue.apply(Uncordon(3, "h")) == (ResourceAdded(3, "h/b/0", ()),)
    assert venue.cordons == {"h/a": {"h/a/0": ()}}
    assert venue.apply(Uncordon(4, "h/a")) == (ResourceAdded(4, "h/a/0", ()),)
    venue.apply(Cordon(5, "h/a"))
    venue.apply(Cordon(6, "h"))
    assert venue.apply(Uncordon(7, "h/a")) == ()
    assert set(venue.cordons["h"]) == {"h/a/0", "h/b/0"}


def test_only_what_has_resources_is_cordoned() -> None:
    """Both refusals change nothing; cordoning twice is cordoning once."""
    venue = Venue()
    venue.apply(AddResource(0, "h/0"))
    before = venue.digest()
    for record in (Cordon(0, "h/1"), Cordon(0, ""), Uncordon(0, "h")):
        (refusal,) = venue.apply(record)
        assert isinstance(refusal, Rejected) and refusal.code == Code.UNKNOWN_SCOPE
    assert venue.digest() == before
    venue.apply(Cordon(0, "h"))
    cordoned = venue.digest()
    assert cordoned != before
    assert venue.apply(Cordon(0, "h")) == ()
    assert venue.digest() == cordoned


def test_time_does_not_go_back_beside_a_cordon() -> None:
    """One refusal, and nothing changes."""
    venue = held_under_a_cordon()
    before = venue.snapshot()
    for record in (Relinquish(1, "ada", "h/a/0"), AddResource(1, "h/a/1"), Cordon(1, "h")):
        (refusal,) = venue.apply(record)
        assert isinstance(refusal, Rejected) and refusal.code == Code.TIME_WENT_BACK
        assert venue.snapshot() == before


def test_the_digest_sees_everything_that_is_out() -> None:
    """A cordon, what it took, its attributes and in which order it will come back."""
    venue = Venue()
    for resource in ("h/0", "h/1"):
        venue.apply(AddResource(0, resource, (("rack", "7"),)))
    venue.apply(Cordon(1, "h"))
    written = venue.snapshot().decode()
    seen = {venue.digest()}
    out = '{"h/0":[["rack","7"]],"h/1":[["rack","7"]]}'
    assert out in written
    for other in (
        "{}",
        '{"h/0":[["rack","7"]]}',
        '{"h/0":[["rack","8"]],"h/1":[["rack","7"]]}',
        '{"h/1":[["rack","7"]],"h/0":[["rack","7"]]}',
    ):
        seen.add(Venue.restore(written.replace(out, other).encode()).digest())
    assert len(seen) == 5
    assert msgspec.json.decode(written)["cordons"] == {"h": msgspec.json.decode(out)}
