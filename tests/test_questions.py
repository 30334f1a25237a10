"""What a tenant can learn by asking: its own, quotes in its visible domain, and nothing else."""

from typing import Any

import msgspec
import pytest

from laissez.exchange import questions
from laissez.exchange.access import Limits, Principal, new_token
from laissez.exchange.questions import (
    SEGMENTS_SHOWN,
    SEGMENTS_SHOWN_TOGETHER,
    Desk,
    Forbidden,
)
from laissez.exchange.records import Cordon
from laissez.exchange.venue import Venue
from laissez.market.steps import PressureStep
from laissez.model import (
    AddResource,
    Amend,
    AskBill,
    AskFloors,
    AskHoldings,
    AskOrders,
    AskPromises,
    AskQuote,
    AskResources,
    AskStatus,
    AskTenants,
    Bill,
    Cancel,
    Code,
    FloorList,
    Holding,
    HoldingList,
    OpenOrder,
    OrderList,
    Place,
    Promise,
    PromiseList,
    Question,
    Quoted,
    Resource,
    ResourceList,
    Role,
    Segment,
    ServiceCode,
    SetFloor,
    SetGuard,
    Status,
    TenantList,
    TenantSummary,
    Withdraw,
)


def somebody(role: Role, tenant: str | None = None) -> Principal:
    return Principal(new_token(role, tenant, at=0)[1], Limits())


ADA, BOB, EVE = (somebody("tenant", name) for name in ("ada", "bob", "eve"))
OPERATOR, VIEWER = somebody("operator"), somebody("viewer")
VIEWER_OF_ADA = somebody("viewer", "ada")


def venue_of_two() -> Venue:
    """Ada holds h/a/0 at 5, Bob h/b/0 and rests at h for 7."""
    venue = Venue()
    venue.apply(SetFloor(0, "h", 5))
    venue.apply(AddResource(0, "h/a/0", (("ip", "10.0.0.1"),)))
    venue.apply(AddResource(0, "h/b/0", (("ip", "10.0.0.2"),)))
    venue.apply(Place(10, "ada", "ada/mine", "h/a", 5, 90))
    venue.apply(Place(10, "bob", "bob/first", "h/b", 5, 80))
    venue.apply(Place(20, "bob", "bob/second", "h", 7, 60, 1_000))
    return venue


def desk(venue: Venue, now: int = 30) -> Desk:
    return Desk(venue, lambda: now, lambda: 42)


def refusal(venue: Venue, asker: Principal, question: Question) -> tuple[str, str]:
    with pytest.raises(Forbidden) as raised:
        desk(venue).answer(asker, question)
    return raised.value.code, raised.value.message


def test_a_tenant_is_told_its_own() -> None:
    """Orders under its own ids, holdings with rate and limit, the exact bill and why."""
    venue = venue_of_two()
    ask = desk(venue).answer
    mine = Holding("h/a/0", 10, 7, 90, None, {"ip": "10.0.0.1"}, "ada", "demand")
    segments: tuple[Segment, ...] = ((10, 20, 5, "floor"), (20, 30, 7, "demand"))
    for asker in (ADA, VIEWER_OF_ADA):
        assert ask(asker, AskOrders()) == OrderList(30, ())
        assert ask(asker, AskHoldings()) == HoldingList(30, (mine,))
        assert ask(asker, AskHoldings("ada")) == HoldingList(30, (mine,))
        assert ask(asker, AskBill()) == Bill(30, "ada", 120)
        assert ask(asker, AskBill(explain=True)) == Bill(30, "ada", 120, {"h/a/0": segments})
    assert ask(ADA, AskStatus()) == Status(30, 42, "tenant", "ada", ("h",))
    resting = OpenOrder("bob", "second", "h", 7, 60, 1_000)
    assert ask(BOB, AskOrders()) == OrderList(30, (resting,))


def test_nobody_learns_of_others() -> None:
    """Whatever names another, or is about everybody, is refused in the same words."""
    venue = venue_of_two()
    about_others: list[Question] = [
        make(name)
        for make in (AskOrders, AskHoldings, AskBill)
        for name in ("bob", "nobody", "", "ada ", "Ada")
    ]
    for asker in (ADA, VIEWER_OF_ADA):
        for question in (
            *about_others,
            AskResources(),
            AskResources("h"),
            AskFloors(),
            AskTenants(),
        ):
            code, message = refusal(venue, asker, question)
            assert code == ServiceCode.FORBIDDEN
            assert f"your token is a {asker.role}'s; ask about your own" in message


def test_a_stranger_is_told_nothing() -> None:
    """Who has no order and no holding gets empty answers, not refusals."""
    ask = desk(venue_of_two()).answer
    assert ask(EVE, AskOrders()) == OrderList(30, ())
    assert ask(EVE, AskHoldings()) == HoldingList(30, ())
    assert ask(EVE, AskBill(explain=True)) == Bill(30, "eve", 0)


def test_quotes_in_the_visible_domain() -> None:
    """Roots, and scopes above what is held now; a quote shows neither a limit nor an owner."""
    venue = venue_of_two()
    ask = desk(venue).answer
    assert ask(ADA, AskQuote("h")) == Quoted(30, "h", 5, False)
    assert ask(BOB, AskQuote("h")) == Quoted(30, "h", 7, False)
    assert ask(ADA, AskQuote("h/a")) == Quoted(30, "h/a", None, False)
    assert ask(EVE, AskQuote("h")) == Quoted(30, "h", 5, False)
    for sees_all in (OPERATOR, VIEWER):
        assert ask(sees_all, AskQuote("h/b")) == Quoted(30, "h/b", 5, False)
        assert ask(sees_all, AskQuote("h/b/0")) == Quoted(30, "h/b/0", 5, False)
        assert ask(sees_all, AskQuote("nowhere")) == Quoted(30, "nowhere", None, False)
    venue.apply(AddResource(30, "h/c/0"))
    assert venue.market.owner("h/c/0") == "bob"
    venue.apply(AddResource(30, "h/c/1"))
    assert ask(EVE, AskQuote("h")) == Quoted(30, "h", 5, True)


OUT_OF_SIGHT = ("h/a", "h/b", "h/a/0", "h/c", "g", "g/a", "", "/", "h/", "h//a", "../h")


def test_a_refused_quote_tells_nothing_of_the_market() -> None:
    """The same words for a scope that is held, idle, cordoned, withdrawn or was never there."""
    full, empty, cordoned = venue_of_two(), Venue(), venue_of_two()
    empty.apply(AddResource(0, "h/z"))
    cordoned.apply(Cordon(30, "h/b"))
    idle = Venue()
    for resource in ("h/a/0", "h/b/0", "h/c/0"):
        idle.apply(AddResource(0, resource))
    for scope in OUT_OF_SIGHT:
        told = {refusal(venue, EVE, AskQuote(scope)) for venue in (full, empty, cordoned, idle)}
        ((code, message),) = told
        assert code == Code.SCOPE_NOT_VISIBLE
        assert message == refusal(full, EVE, AskQuote("g"))[1].replace("'g'", repr(scope), 1)


def test_what_is_lost_is_out_of_sight() -> None:
    """A scope is visible as long as something under it is held, not longer."""
    venue = venue_of_two()
    assert desk(venue).answer(BOB, AskQuote("h/b")) == Quoted(30, "h/b", None, False)
    refusal(venue, BOB, AskQuote("h/a"))
    refusal(venue, BOB, AskQuote("h/b/0"))
    events = venue.apply(Place(30, "ada", "ada/more", "h/b", 85, 85))
    assert venue.market.owner("h/b/0") == "ada", events
    assert refusal(venue, BOB, AskQuote("h/b"))[0] == Code.SCOPE_NOT_VISIBLE


def test_the_operator_sees_everything() -> None:
    """And may name a tenant or mean all of them; only a bill needs a name."""
    venue = venue_of_two()
    venue.apply(SetGuard(30, "h", hold=9))
    for asker in (OPERATOR, VIEWER):
        ask = desk(venue).answer
        assert ask(asker, AskResources("h/a")) == ResourceList(
            30, (Resource("h/a/0", "ada", 7, {"ip": "10.0.0.1"}),)
        )
        everything = ask(asker, AskResources())
        assert isinstance(everything, ResourceList) and len(everything.resources) == 2
        assert ask(asker, AskTenants()) == TenantList(
            30, (TenantSummary("ada", 0, 1, 120), TenantSummary("bob", 1, 1, 100))
        )
        floors = ask(asker, AskFloors())
        assert isinstance(floors, FloorList)
        assert floors.floors == {"h": 5} and [each.hold for each in floors.guards] == [9]
        orders, holdings = ask(asker, AskOrders()), ask(asker, AskHoldings())
        assert isinstance(orders, OrderList) and [o.order for o in orders.orders] == ["second"]
        assert isinstance(holdings, HoldingList) and len(holdings.holdings) == 2
        assert ask(asker, AskHoldings("bob")) == HoldingList(30, holdings.holdings[1:])
        assert ask(asker, AskBill("bob")) == Bill(30, "bob", 100)
        assert refusal(venue, asker, AskBill())[0] == ServiceCode.BAD_REQUEST


def test_cordons_are_listed() -> None:
    """For those who see everything."""
    venue = venue_of_two()
    for scope in ("h/b", "h"):
        venue.apply(Cordon(30, scope))
    told = desk(venue).answer(OPERATOR, AskFloors())
    assert isinstance(told, FloorList) and told.cordons == ("h", "h/b")


def test_no_answer_is_about_later_than_what_has_acted() -> None:
    """Between a due instant and the tick that executes it, answers are as of that instant."""
    venue = venue_of_two()
    assert venue.market.next_timer() == 1_000
    assert desk(venue, now=999).answer(ADA, AskBill()) == Bill(999, "ada", 5 * 10 + 7 * 979)
    late = Bill(1_000, "ada", 5 * 10 + 7 * 980)
    assert desk(venue, now=5_000).answer(ADA, AskBill()) == late
    assert desk(venue, now=3).answer(ADA, AskBill()) == Bill(20, "ada", 50)


def test_the_desk_knows_how_late_it_was_when_somebody_asked() -> None:
    """The latest instant that was told, whoever asked and whatever the clock says later."""
    now = 100
    place = Desk(venue_of_two(), lambda: now, lambda: 1)
    assert place.shown_until == 0
    place.answer(ADA, AskBill())
    assert place.shown_until == 100
    now = 700
    place.answer(OPERATOR, AskTenants())
    now = 5
    place.answer(BOB, AskStatus())
    assert place.shown_until == 700


def test_everybody_knows_the_notice_and_commitment_of_every_tree() -> None:
    """Who trades there must reckon with both. What is off is left out; other guards are not told,
    nor is anything of a tree that has no scope yet."""
    venue = venue_of_two()
    venue.apply(SetGuard(30, "h", None, None, 9, None, 40, 50))
    venue.apply(AddResource(30, "k/0"))
    venue.apply(SetGuard(30, "k", None, None, None, None, 7, 0))
    venue.apply(SetGuard(30, "later", None, None, None, None, 1, 1))
    for asker in (ADA, BOB, EVE, VIEWER_OF_ADA, OPERATOR):
        told = desk(venue).answer(asker, AskStatus())
        assert isinstance(told, Status)
        assert (told.notice, told.commit) == ({"h": 40, "k": 7}, {"h": 50})
    line = msgspec.json.encode(desk(venue).answer(ADA, AskStatus())).decode()
    assert '"notice_us":{"h":40,"k":7},"commit_us":{"h":50}' in line and "hold" not in line


def test_a_promise_says_with_what_limit_it_comes() -> None:
    """To the one who made the order, and the operator; its price is what giving it back costs."""
    venue = venue_of_two()
    venue.apply(SetGuard(30, "h", None, None, None, None, 40))
    venue.apply(Place(30, "bob", "bob/third", "h/a", 91, 95))
    promise = Promise("h/a/0", "bob", "third", 70, 95, 91)
    for asker in (BOB, OPERATOR):
        assert desk(venue).answer(asker, AskPromises()) == PromiseList(30, (promise,))
    assert desk(venue).answer(ADA, AskPromises()) == PromiseList(30, ())
    assert venue.market.promise("h/b/0") is None


def test_asking_changes_nothing() -> None:
    """The digest before is the digest after."""
    venue = venue_of_two()
    before = venue.digest()
    own: list[Question] = [AskQuote("h"), AskOrders(), AskHoldings(), AskBill(explain=True)]
    for question in (*own, AskStatus()):
        desk(venue).answer(ADA, question)
    everything: list[Question] = [AskResources(), AskFloors(), AskTenants()]
    for question in everything:
        desk(venue).answer(OPERATOR, question)
    assert venue.digest() == before


def pages_of(place: Desk, asker: Principal, question: Any) -> list[Any]:
    """All pages of a list, from the first to the one without a next."""
    pages: list[Any] = []
    after = None
    while not pages or after is not None:
        pages.append(place.answer(asker, msgspec.structs.replace(question, after=after)))
        after = pages[-1].next
    return pages


@pytest.mark.parametrize("size", [1, 3, 7, 10, 1_000])
def test_long_lists_come_in_pages(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Each page as long as the others but the last, together all that there is, in its order."""
    venue = Venue()
    paths = [f"{tree}/{scope}/{n}" for tree in "hk" for scope in "ab" for n in range(20)]
    for path in paths:
        venue.apply(AddResource(0, path))
    venue.apply(SetFloor(0, "k", 5))
    for tenant in ("ada", "bob", "cid"):
        for n in range(9):
            venue.apply(Place(1, tenant, f"{tenant}/{n}", f"h/{'ab'[n % 2]}", 5, 50))
            venue.apply(Place(1, tenant, f"{tenant}/low-{n}", "k", 1, 1 if n else 9))
        venue.apply(Amend(1, tenant, f"{tenant}/low-3", 1, 1))
    place, market = desk(venue), venue.market
    monkeypatch.setattr(questions, "PAGE_MAX", 1_000)
    lists: list[tuple[Principal, Any, str]] = [
        (ADA, AskOrders(), "orders"),
        (OPERATOR, AskOrders(), "orders"),
        (VIEWER, AskOrders("bob"), "orders"),
        (ADA, AskHoldings(), "holdings"),
        (OPERATOR, AskHoldings(), "holdings"),
        (OPERATOR, AskResources(), "resources"),
        (OPERATOR, AskResources("h/b"), "resources"),
        (OPERATOR, AskResources("k/a/3"), "resources"),
        (OPERATOR, AskResources("nowhere"), "resources"),
        (OPERATOR, AskTenants(), "tenants"),
    ]
    whole = [getattr(place.answer(asker, question), name) for asker, question, name in lists]
    assert [each.resource for each in whole[5]] == list(market.resources())
    assert [each.resource for each in whole[6]] == list(market.resources("h/b"))
    assert len(whole[0]) > 7 and len(whole[4]) > 20 and len(whole[7]) == 1
    monkeypatch.setattr(questions, "PAGE_MAX", size)
    for (asker, question, name), expected in zip(lists, whole, strict=True):
        pages = [getattr(page, name) for page in pages_of(place, asker, question)]
        assert tuple(each for page in pages for each in page) == expected
        assert all(len(page) == size for page in pages[:-1])
        assert len(pages[-1]) <= size and (expected == () or pages[-1])


def test_a_page_begins_where_the_one_before_ended_or_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Orders go on after a place in the queue, whoever has left it; where the others' last is
    gone, the asker is told to begin again; what is no place at all is refused."""
    monkeypatch.setattr(questions, "PAGE_MAX", 2)
    venue = Venue()
    for n in range(6):
        venue.apply(AddResource(1, f"h/a/{n}"))
    for n in range(6):
        venue.apply(Place(1, "ada", f"ada/{n}", "h", 1, 9))
    for n in range(6):
        venue.apply(Place(1, "bob", f"bob/{n}", "h", 1, 1))
    place = desk(venue)
    orders = place.answer(BOB, AskOrders())
    holdings = place.answer(ADA, AskHoldings())
    resources = place.answer(OPERATOR, AskResources())
    assert isinstance(orders, OrderList) and isinstance(holdings, HoldingList)
    assert isinstance(resources, ResourceList)
    venue.apply(Cancel(2, "bob", "bob/1"))
    venue.apply(Withdraw(2, "h/a/1"))
    more = place.answer(BOB, AskOrders(after=orders.next))
    assert isinstance(more, OrderList) and [o.order for o in more.orders] == ["2", "3"]
    for asker, question in (
        (ADA, AskHoldings(after=holdings.next)),
        (OPERATOR, AskResources(after=resources.next)),
    ):
        with pytest.raises(Forbidden) as changed:
            place.answer(asker, question)
        assert changed.value.code == ServiceCode.LIST_CHANGED
    for nonsense in ("ada:1", "bob:x", "eve"):
        with pytest.raises(Forbidden) as refused:
            place.answer(BOB, AskOrders(after=nonsense))
        assert refused.value.code == ServiceCode.BAD_REQUEST
    beyond = place.answer(BOB, AskOrders(after="bob:" + "9" * 5_000))
    assert isinstance(beyond, OrderList) and beyond.orders == ()


def test_an_explanation_costs_what_is_shown_and_not_what_happened() -> None:
    """Of many holdings few segments each; however long the past, few of its changes are read."""
    venue = Venue()
    for number in range(300):
        venue.apply(AddResource(2, f"h/a/{number}"))
        venue.apply(Place(2, "ada", f"ada/{number}", f"h/a/{number}", 1, 10**6))
    for step in range(5_000):
        venue.apply(SetFloor(30 + step, "h", 10 + step % 2))
    read = 0

    class Steps(list[PressureStep]):
        def __getitem__(self, index: Any) -> Any:
            nonlocal read
            read += 1
            return super().__getitem__(index)

    book = venue.market._state.roots[0].book
    assert book is not None
    book.steps = Steps(book.steps)
    told = desk(venue, now=10_000).answer(ADA, AskBill(explain=True))
    assert isinstance(told, Bill) and len(told.open_segments) == 300
    shown = sum(map(len, told.open_segments.values()))
    assert 300 <= shown <= SEGMENTS_SHOWN_TOGETHER
    assert read < 30 * SEGMENTS_SHOWN_TOGETHER, "and not 300 times 5,000"
    everything = venue.market.segments("ada", 10_000)
    for resource, segments in told.open_segments.items():
        assert segments == everything[resource][-len(segments) :]
        assert told.segments_left_out[resource] >= len(everything[resource]) - len(segments)


def test_long_explanations_are_cut() -> None:
    """The newest segments are shown, and how many are not at most."""
    venue = venue_of_two()
    for step in range(SEGMENTS_SHOWN + 50):
        venue.apply(SetFloor(30 + step, "h", 10 + step % 2))
    told = desk(venue, now=1_000).answer(ADA, AskBill(explain=True))
    assert isinstance(told, Bill)
    shown = told.open_segments["h/a/0"]
    everything = venue.market.segments("ada", 1_000)["h/a/0"]
    assert len(shown) == SEGMENTS_SHOWN
    assert told.segments_left_out == {"h/a/0": len(everything) - SEGMENTS_SHOWN}
    assert shown == everything[-SEGMENTS_SHOWN:]
    assert told.charge == sum((to - since) * rate for since, to, rate, _ in everything)
