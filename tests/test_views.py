"""What each tenant learns: all that concerns it, and nothing of anybody else.

In the big test every name, id, limit and attribute is a word or a number of its own, so that it
can be looked for in the bytes of everything that a tenant is ever told. A price of somebody else's
may be seen in one way only: as the rate that is charged or quoted.
"""

import re
from collections.abc import Iterator

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from laissez.exchange.access import Limits, Principal, new_token
from laissez.exchange.admission import check_instruction, check_price
from laissez.exchange.execution import Execution
from laissez.exchange.keys import Keys
from laissez.exchange.questions import Desk, Forbidden
from laissez.exchange.records import Entry
from laissez.exchange.sequencing import LetTimePass, record_of
from laissez.exchange.venue import Venue
from laissez.exchange.views import market_order_id, notices, own_order_id
from laissez.market import Market
from laissez.model import (
    Amended,
    AmendOrder,
    AskBill,
    AskFloors,
    AskHoldings,
    AskOrders,
    AskPromises,
    AskQuote,
    AskResources,
    AskStatus,
    AskTenants,
    Called,
    Cancelled,
    CancelOrder,
    ChangeFloor,
    ChangeGuard,
    ChangeLimit,
    Charged,
    CloseStatements,
    CordonScope,
    Event,
    Expired,
    Filled,
    FloorSet,
    GuardSet,
    Happened,
    Instruction,
    LimitSet,
    Lost,
    NameLevels,
    Notice,
    OfferResource,
    OpenOrder,
    Placed,
    PlaceOrder,
    Promised,
    Question,
    Rejected,
    Release,
    ResourceAdded,
    ResourceWithdrawn,
    Segments,
    Settled,
    Transferred,
    Uncalled,
    UncordonScope,
    Unpromised,
    WithdrawResource,
    decode_said,
)
from test_feeds import missed

START_US = 1_000_000_000_000
MILLION = 1_000_000
SCOPES = ("tree", "tree/a", "tree/b", "tree/a/0", "tree/b/0")
RESOURCES = ("tree/a/0", "tree/a/1", "tree/b/0")


class Auditor:
    """A tenant's books, kept from what it is told alone."""

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self.orders: dict[str, OpenOrder] = {}
        self.limits: dict[str, int] = {}
        self.won: dict[str, int] = {}
        self.calls: dict[str, int] = {}
        self.promises: dict[str, int] = {}
        self.charged = 0

    def push(self, sequence: int, message: bytes) -> None:
        said = decode_said(message)
        assert isinstance(said, Happened)
        for notice in said.events:
            self.note(notice)

    def limit_of(self, order: str) -> int:
        """The limit of an order that wins something; a gang wins more after that."""
        if order in self.orders:
            self.won[order] = self.orders.pop(order).limit
        return self.won[order]

    def note(self, notice: Notice) -> None:
        match notice:
            case Placed(_, tenant, order, scope, price, limit, expires, count, within):
                assert order not in self.orders
                self.orders[order] = OpenOrder(
                    tenant, order, scope, price, limit, expires, count, within
                )
            case Amended(_, tenant, order, scope, price, limit, expires, count, within):
                del self.orders[order]
                self.orders[order] = OpenOrder(
                    tenant, order, scope, price, limit, expires, count, within
                )
            case Cancelled(_, _, order) | Expired(_, _, order):
                del self.orders[order]
            case Filled(_, order, resource, _):
                self.limits.pop(resource, None)
                self.calls.pop(resource, None)
                self.promises.pop(resource, None)
                self.limits[resource] = self.limit_of(order)
            case Promised(_, tenant, order, resource, until):
                assert tenant == self.tenant
                self.limit_of(order)
                self.promises[resource] = until
            case Unpromised(_, tenant, order, resource, _):
                assert tenant == self.tenant and order in self.won
                del self.promises[resource]
            case Called(_, tenant, resource, until, _):
                assert tenant == self.tenant and resource in self.limits
                self.calls[resource] = min(until, self.calls.get(resource, until))
            case Uncalled(_, tenant, resource):
                assert tenant == self.tenant
                del self.calls[resource]
            case Lost(_, resource, _):
                del self.limits[resource]
                self.calls.pop(resource, None)
            case LimitSet(_, _, resource, limit):
                self.limits[resource] = limit
            case Charged(_, tenant, _, _, charge):
                assert tenant == self.tenant
                self.charged += charge
            case _:
                raise AssertionError(f"no tenant is told of {notice}")


class Floor:
    """A market in trade: several tenants, an operator, and everything that anybody was told."""

    def __init__(self, names: list[str]) -> None:
        self.execution = Execution(Venue(), 0, Keys(1_000))
        self.now = START_US
        self.desk = Desk(self.execution.venue, lambda: self.now, lambda: self.execution.sequence)
        self.callers = {
            name: Principal(new_token("tenant", name, at=0)[1], Limits()) for name in names
        }
        self.told: dict[str, list[bytes]] = {name: [] for name in names}
        self.auditors = {name: Auditor(name) for name in names}
        self.held: dict[str, set[str]] = {name: set() for name in names}
        self.own_numbers: dict[str, set[int]] = {name: set() for name in names}
        self.limits: dict[str, set[int]] = {name: set() for name in names}
        self.prices: set[int] = {0, 1}
        for name, auditor in self.auditors.items():
            self.execution.feeds.listen(name, auditor)
            self.execution.feeds.listen(name, Copy(self.told[name]))

    @property
    def market(self) -> Market:
        return self.execution.venue.market

    def do(self, name: str | None, do: Instruction | LetTimePass) -> None:
        """One instruction by a tenant or the operator, as the pipeline would take it."""
        author = name or "operator:1"
        if name is not None and not isinstance(do, LetTimePass):
            caller = self.callers[name]
            refused = check_instruction(caller, 1, do, None)
            if isinstance(do, PlaceOrder) and do.price is None and do.count == 1:
                refused = refused or check_price(caller, self.market, 1, do)
            if refused is not None:
                self.told[name].append(msgspec.json.encode(refused))
                return
            self.note_numbers(name, do)
        record = record_of(do, name, self.now, self.execution.sequence + 1)
        before = self.execution.sequence
        answer = self.execution.execute(Entry(author, record))
        if name is not None:
            self.told[name].append(msgspec.json.encode(answer))
        for message in missed(self.execution.feeds, None, before) or ():
            said = decode_said(message)
            assert isinstance(said, Happened)
            self.note_everything(said.events)

    def note_numbers(self, name: str, do: Instruction) -> None:
        if isinstance(do, PlaceOrder | AmendOrder | ChangeLimit):
            numbers = {do.limit, None if isinstance(do, ChangeLimit) else do.price}
            self.own_numbers[name] |= {number for number in numbers if number is not None}
            if do.limit is not None:
                self.limits[name].add(do.limit)

    def note_everything(self, events: tuple[Notice, ...]) -> None:
        """What the operator sees: whose each resource ever was, and every price and floor."""
        for event in events:
            if isinstance(event, Transferred) and event.new is not None:
                self.held[event.new].add(event.resource)
            if isinstance(event, Placed | Amended) and event.price is not None:
                self.prices.add(event.price)
            if isinstance(event, FloorSet):
                self.prices.add(event.floor)

    def ask_everything(self) -> None:
        """Every tenant asks everything, also what it may not ask."""
        for name, caller in self.callers.items():
            for question in questions_of(self.callers):
                try:
                    told: object = self.desk.answer(caller, question)
                except Forbidden as forbidden:
                    told = (forbidden.code, forbidden.message)
                    if isinstance(question, AskQuote):
                        assert question.scope not in self.market.visible(name)
                self.told[name].append(msgspec.json.encode(told))

    def check_secrets(self) -> None:
        """In the bytes of all that a tenant was told there is nothing of the others'."""
        for name in self.callers:
            data = b"\n".join(self.told[name]).decode()
            numbers = {int(number) for number in re.findall(r"(?<![\w-])\d+(?!\w)", data)}
            ids = set(re.findall(r"(?:mine|o)-\d+", data))
            for other in self.callers.keys() - {name}:
                assert other not in data
                secret = self.limits[other] - self.own_numbers[name] - self.prices
                assert not numbers & secret
                assert not ids & set(self.ids_of(other))
            attributes = set(re.findall(r"rack-of-([\w/]+)", data))
            assert attributes <= self.held[name]

    def ids_of(self, name: str) -> Iterator[str]:
        for message in missed(self.execution.feeds, None, 0) or ():
            said = decode_said(message)
            assert isinstance(said, Happened)
            for event in said.events:
                if isinstance(event, Placed) and event.tenant == name:
                    yield own_order_id(name, event.order)

    def check_books(self) -> None:
        """What a tenant can work out from its stream is how it is."""
        for name, auditor in self.auditors.items():
            orders = [
                msgspec.structs.replace(order, order=own_order_id(name, order.order))
                for order in self.market.orders(name)
            ]
            assert list(auditor.orders.values()) == orders
            assert list(auditor.limits.items()) == [
                (each, self.market.limit(each)) for each in self.market.holdings(name)
            ]
            drains = self.execution.venue.drains
            assert auditor.calls == {
                each: min(until for until in untils if until is not None)
                for each in self.market.holdings(name)
                if any(untils := (self.market.called(each), drains.over(each)))
            }
            assert auditor.promises == self.market.promises(name)
            at = self.desk.instant()
            open_charge = sum(
                (to - since) * rate
                for segments in self.market.segments(name, at).values()
                for since, to, rate, _ in segments
            )
            assert auditor.charged + open_charge == self.market.bill(name, at)


class Copy:
    """Keeps what a stream says."""

    def __init__(self, told: list[bytes]) -> None:
        self._told = told

    def push(self, sequence: int, message: bytes) -> None:
        self._told.append(message)


def questions_of(names: dict[str, Principal]) -> list[Question]:
    about: list[Question] = [AskQuote(scope) for scope in (*SCOPES, "tree/c", "nowhere")]
    about += [AskQuote(scope, 2, within) for scope in SCOPES for within in (None, 1, 2, 3)]
    about += [AskPromises(), *(AskPromises(name) for name in names)]
    about += [AskOrders(), AskHoldings(), AskBill(), AskBill(explain=True), AskStatus()]
    for name in names:
        about += [AskOrders(name), AskHoldings(name), AskBill(name, explain=True)]
    return [*about, AskResources(), AskResources("tree"), AskFloors(), AskTenants()]


@st.composite
def scenes(draw: st.DrawFn) -> Floor:
    """Trade with numbers and words that occur once, each step asked about and audited."""
    letters = st.text("bcdfghjklmnpqrstvwxz", min_size=9, max_size=12)
    names = draw(st.lists(letters, min_size=3, max_size=3, unique=True))
    floor = Floor([f"{number}{name}" for number, name in enumerate(names)])
    floor.do(None, NameLevels("tree", ("zone", "gpu")))
    for resource in RESOURCES:
        floor.do(None, OfferResource(resource, {"rack": f"rack-of-{resource}"}))
    numbers = iter(range(1, 1_000))

    def money() -> int:
        return draw(st.integers(1, 9)) * MILLION + next(numbers)

    for _ in range(draw(st.integers(10, 30))):
        floor.now += draw(st.sampled_from([0, 1_000, 7_000]))
        who, do = draw_step(draw, floor, money(), money(), next(numbers))
        floor.do(who, do)
        floor.ask_everything()
        floor.check_books()
    return floor


def draw_step(
    draw: st.DrawFn, floor: Floor, one: int, another: int, number: int
) -> tuple[str | None, Instruction | LetTimePass]:
    price, limit = sorted((one, another))
    scope, resource = draw(st.sampled_from(SCOPES)), draw(st.sampled_from(RESOURCES))
    name = draw(st.sampled_from(sorted(floor.callers)))
    expires = floor.now + draw(st.sampled_from([1, 5_000]))
    book = floor.auditors[name]
    order = draw(st.sampled_from([*book.orders] or ["mine-0", "o-0"]))
    held = draw(st.sampled_from([*book.limits] or RESOURCES))
    trades: list[Instruction] = [
        PlaceOrder(scope, price, limit),
        PlaceOrder("tree", price, limit, f"mine-{number}"),
        PlaceOrder(resource, price, limit, f"mine-{number}", expires),
        PlaceOrder(scope, None, limit),
        PlaceOrder("tree", None, limit, f"mine-{number}", None, 2, None, True),
        PlaceOrder("tree", None, limit, None, expires, 2, "zone"),
        PlaceOrder("tree/a", None, limit, None, None, 2, 2, True),
        AmendOrder(order, None, limit),
        AmendOrder(order, price, limit),
        CancelOrder(order),
        ChangeLimit(held, price),
        ChangeLimit(resource, price),
        Release(held),
        Release(resource),
    ]
    operations: list[Instruction | LetTimePass] = [
        OfferResource(resource, {"rack": f"rack-of-{resource}"}),
        WithdrawResource(resource),
        ChangeFloor(scope, price),
        ChangeFloor("tree", price),
        ChangeGuard("tree", None, MILLION, 3_000, 5_000),
        ChangeGuard("tree", rise=1_000, window=5_000),
        ChangeGuard("tree", notice=6_000),
        ChangeGuard("tree", notice=6_000, commit=9_000, hold=2_000),
        CordonScope(scope),
        CordonScope(scope, floor.now + 8_000),
        UncordonScope(scope),
        CloseStatements(),
        LetTimePass(),
    ]
    if draw(st.integers(0, 3)):
        return name, draw(st.sampled_from(trades))
    return None, draw(st.sampled_from(operations))


@given(scenes())
def test_nobody_learns_of_others_and_everybody_of_its_own(floor: Floor) -> None:
    """No name, id, limit or attribute of others in any bytes; own books are kept from notices."""
    floor.check_secrets()


# --- one event after the other ------------------------------------------------------------------


def told(*events: Event) -> dict[str, list[Notice]]:
    market = Market()
    market.add_resource("h/0", attributes={"ip": "10.0.0.1"}, at=0)
    return {tenant: list(own) for tenant, own in notices(market, events).items()}


def test_a_transfer_has_two_sides() -> None:
    """The loser learns why, the winner what it has; neither learns of the other."""
    assert told(Transferred(5, "h/0", "ada", "bob", "bob/7", "outbid")) == {
        "ada": [Lost(5, "h/0", "outbid")],
        "bob": [Filled(5, "7", "h/0", {"ip": "10.0.0.1"})],
    }
    assert told(Transferred(5, "h/0", "ada", None, None, "floor")) == {
        "ada": [Lost(5, "h/0", "floor")]
    }
    assert told(Transferred(5, "h/0", "ada", "ada", "ada/7", "outbid")) == {
        "ada": [Filled(5, "7", "h/0", {"ip": "10.0.0.1"})]
    }
    gone = told(Transferred(5, "h/gone", None, "ada", "ada/7", "idle"))
    assert gone == {"ada": [Filled(5, "7", "h/gone", {})]}


def test_own_events_come_under_own_ids() -> None:
    """In their order, to nobody else, and a charge without its explanation."""
    settled = Settled(4, "ada", "h/0", 1, 30, Segments([(1, 4, 10, "demand")]))
    assert told(
        Placed(1, "ada", "ada/x/y", "h", 5, 6, 9),
        Amended(2, "bob", "bob/x", "h", 5, 6, None),
        LimitSet(3, "ada", "h/0", 8),
        settled,
        Cancelled(5, "ada", "ada/x/y"),
        Expired(6, "bob", "bob/x"),
    ) == {
        "ada": [
            Placed(1, "ada", "x/y", "h", 5, 6, 9),
            LimitSet(3, "ada", "h/0", 8),
            Charged(4, "ada", "h/0", 1, 30),
            Cancelled(5, "ada", "x/y"),
        ],
        "bob": [Amended(2, "bob", "x", "h", 5, 6, None), Expired(6, "bob", "x")],
    }


def test_the_operators_events_reach_no_tenant() -> None:
    """Resources, floors and guards; a refusal is for whoever asked."""
    assert (
        told(
            ResourceAdded(1, "h/0", ()),
            ResourceWithdrawn(1, "h/0"),
            FloorSet(1, "h", 5, 5),
            GuardSet(1, "h", None, None, 5, None),
            Rejected(1, "bad_price", "no"),
        )
        == {}
    )


def test_order_ids_of_tenants_never_meet() -> None:
    """Two tenants may use one id; nobody reaches another's by any id."""
    assert market_order_id("ada", "1") != market_order_id("bob", "1")
    assert own_order_id("ada", market_order_id("ada", "x/y")) == "x/y"
    venue = Venue()
    execution = Execution(venue, 0, Keys(10))
    steps: list[tuple[str, Instruction]] = [
        ("operator:1", OfferResource("h/0")),
        ("eve", PlaceOrder("h", 9)),
        ("ada", PlaceOrder("h", 5, order="1")),
        ("bob", PlaceOrder("h", 5, order="1")),
        ("bob", CancelOrder("ada/1")),
        ("bob", AmendOrder("../ada/1", 8, 8)),
        ("bob", CancelOrder("1")),
    ]
    answers = []
    for author, do in steps:
        tenant = None if ":" in author else author
        record = record_of(do, tenant, 1, execution.sequence + 1)
        answers.append(execution.execute(Entry(author, record)))
    assert [type(answer[-1]) for answer in answers[4:]] == [Rejected, Rejected, Cancelled]
    assert [order.order for order in venue.market.orders("ada")] == ["ada/1"]
    assert venue.market.orders("bob") == ()


def test_a_refusal_speaks_of_the_id_that_was_given() -> None:
    """The tenant's name before it is taken off; a path that begins like it stays whole."""
    execution = Execution(Venue(), 0, Keys(10))
    said = []
    for do in (CancelOrder("x"), CancelOrder("it's"), PlaceOrder("ada/r1", 5)):
        record = record_of(do, "ada", 1, execution.sequence + 1)
        (refusal,) = execution.execute(Entry("ada", record))
        assert isinstance(refusal, Rejected)
        said.append(refusal.message)
    assert "live order 'x';" in said[0]
    assert 'live order "it\'s";' in said[1]
    assert "under 'ada/r1' yet" in said[2]
