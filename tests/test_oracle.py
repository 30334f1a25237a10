"""The market against the oracle, and against an auditor who only reads what is said.

Hypothesis plays an operator and four tenants. Each command goes to three markets: the one on
trial, the oracle (`naive.py`), and a twin of the first that is never asked anything. After each
command every answer of the market is held against the oracle's, and against what the auditor has
worked out from the events alone. The market is asked everything and is now and then replaced by
its restored snapshot; the twin is not, and yet their digests must stay the same.

What commands are made of is small on purpose: four tenants, amounts up to 12, steps of time of a
few microseconds, so that ties, crossings and meetings at one instant are the rule.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import pytest
from hypothesis import note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)
from msgspec import UNSET, UnsetType

from laissez import model
from laissez.market import Market
from laissez.model import Command, Event, OpenOrder, Quote, Rejected, Segment, Settled
from naive import NaiveMarket, Order

TENANTS = ("A", "B", "C", "D")
ASKERS = (*TENANTS, None)


def budget(share: float) -> settings:
    """How many examples, as a share of the profile's (see conftest.py)."""
    return settings(max_examples=round(share * settings().max_examples))


@cache
def line(path: str) -> tuple[str, ...]:
    """All scopes that cover a path, from its root down to itself."""
    segments = path.split("/")
    return tuple("/".join(segments[:depth]) for depth in range(1, len(segments) + 1))


# The auditor ------------------------------------------------------------------------------------


@dataclass
class Held:
    tenant: str
    limit: int
    won_with: int
    protected_until: int
    since: int


@dataclass(frozen=True)
class Facts:
    """What the rules say about one leaf; `rate` is before the cap of a hold."""

    owner: str | None
    floor: int
    rate: int


class Auditor:
    """Knows what the events say, and what the contract says must follow from it."""

    def __init__(self) -> None:
        self.orders: dict[str, model.Placed | model.Amended] = {}
        self.floors: dict[str, int] = {}
        self.holds: dict[str, int] = {}
        self.leaves: dict[str, Held | None] = {}
        self.settled: Counter[str] = Counter()

    def read(self, events: Iterable[Event]) -> None:
        for event in events:
            match event:
                case model.ResourceAdded():
                    assert event.resource not in self.leaves
                    self.leaves[event.resource] = None
                case model.ResourceWithdrawn():
                    assert self.leaves.pop(event.resource) is None
                case model.FloorSet():
                    self.floors[event.scope] = event.floor
                case model.GuardSet():
                    self.holds[event.tree] = event.hold or 0
                case model.Placed() | model.Amended():
                    assert (event.order in self.orders) == isinstance(event, model.Amended)
                    assert 0 < event.price <= event.limit
                    self.orders[event.order] = event
                case model.Cancelled() | model.Expired():
                    assert self.orders.pop(event.order).tenant == event.tenant
                case model.LimitSet():
                    self.holding(event.resource, event.tenant).limit = event.limit
                case Settled():
                    self.read_statement(event)
                case model.Transferred():
                    self.read_transfer(event)
                case Rejected():
                    assert event is list(events)[-1]

    def holding(self, resource: str, tenant: str) -> Held:
        held = self.leaves[resource]
        assert held is not None and held.tenant == tenant
        return held

    def read_statement(self, event: Settled) -> None:
        held = self.holding(event.resource, event.tenant)
        assert event.since == held.since
        held.since = event.at
        self.settled[event.tenant] += event.charge

    def read_transfer(self, event: model.Transferred) -> None:
        held = self.leaves[event.resource]
        assert event.old == (held.tenant if held else None)
        assert held is None or held.since == event.at, "a holding ends with its statement"
        self.leaves[event.resource] = None
        assert (event.new is None) == (event.order is None)
        if event.order is not None:
            order = self.orders.pop(event.order)
            assert order.tenant == event.new
            assert order.scope in line(event.resource)
            protected_until = event.at + self.holds.get(line(event.resource)[0], 0)
            self.leaves[event.resource] = Held(
                order.tenant, order.limit, order.limit, protected_until, event.at
            )

    def facts(self, now: int) -> dict[str, Facts]:
        """Floor and rate of every leaf; on the way, what is true after every command."""
        resting: dict[str, list[model.Placed | model.Amended]] = defaultdict(list)
        for order in self.orders.values():
            resting[order.scope].append(order)
        facts: dict[str, Facts] = {}
        for path, held in self.leaves.items():
            floor = max(self.floors.get(scope, 0) for scope in line(path))
            covering = [order for scope in line(path) for order in resting.get(scope, ())]
            if held is None:
                assert all(order.limit < floor for order in covering), f"{path} has a winner"
                facts[path] = Facts(None, floor, floor)
            else:
                rivals = [order.price for order in covering if order.tenant != held.tenant]
                rate = max([floor, *rivals])
                assert rate <= held.limit or now < held.protected_until, f"{path} is too dear"
                facts[path] = Facts(held.tenant, floor, rate)
        return facts

    def charged(self, path: str, facts: Facts, now: int) -> int:
        held = self.leaves[path]
        if held is not None and now < held.protected_until:
            return min(facts.rate, held.won_with)
        return facts.rate

    def orders_of(self, tenant: str) -> tuple[OpenOrder, ...]:
        """In no order that the auditor could know of after an amendment: sort before comparing."""
        return tuple(
            OpenOrder(o.tenant, o.order, o.scope, o.price, o.limit, o.expires)
            for o in self.orders.values()
            if o.tenant == tenant
        )


def quote_from(covered: Sequence[Facts], asker: str | None) -> Quote | None:
    idle = [leaf.floor for leaf in covered if leaf.owner is None]
    if idle:
        return Quote(min(idle), True)
    others = [leaf.rate for leaf in covered if leaf.owner != asker]
    return Quote(min(others), False) if others else None


def check_newest(
    last: tuple[Segment, ...], left_out: int, of_one: tuple[Segment, ...], count: int
) -> None:
    """The end of an explanation; where it was cut, the first may have begun earlier."""
    assert len(last) <= count
    if not last:
        assert not of_one and not left_out
        return
    since, *rest = last[0]
    same = of_one[-len(last)]
    assert last[1:] == of_one[len(of_one) - len(last) + 1 :]
    assert rest == list(same[1:]) and since >= same[0]
    assert (since == same[0]) or left_out
    assert left_out >= len(of_one) - len(last)
    assert left_out or last == of_one


def check_explanation(segments: Sequence[Segment], since: int, until: int) -> int:
    """Segments follow each other from `since` to `until`, equal neighbours joined; their sum."""
    reached, charge = since, 0
    last: tuple[int, str] | None = None
    for start, end, rate, cause in segments:
        assert start == reached < end
        assert (rate, cause) != last
        reached, last = end, (rate, cause)
        charge += rate * (end - start)
    assert reached == until
    return charge


# The play ---------------------------------------------------------------------------------------

tenants = st.sampled_from(TENANTS)
amounts = st.integers(1, 12)
floors = st.integers(0, 12)
limits = st.integers(0, 12) | st.just(24)
which = st.integers(0, 5039)
"""One of a list whose length is not known beforehand, modulo that length."""
seldom = st.integers(0, 11).map(lambda number: number == 11)
waits = st.sampled_from([0, 0, 0, 1, 1, 3, 6, 12, 60, None, None])
"""None is: until the next timer, to the very instant."""
spans = st.sampled_from([None, None, 0, 0, 1, 6, 12])
"""How long an order lives; 0 is: until the next timer, to the very instant."""
Terms = tuple[str, int, int]
orders = st.tuples(tenants, amounts, amounts)
guards = st.tuples(
    st.sampled_from([None, None, 0, 2_500, 5_001]),
    st.sampled_from([None, None, 0, 1, 3]),
    st.sampled_from([None, 0, 1, 6, 12, 300]),
    st.sampled_from([6, 7, 7, None]),
)
Guards = tuple[int | None, int | None, int | None, int | None]


def told(events: Sequence[Event]) -> list[object]:
    """What two markets must agree on: not the words of a refusal; explanations are read later."""
    return [
        (event.at, event.code)
        if isinstance(event, Rejected)
        else (event.at, event.tenant, event.resource, event.since, event.charge)
        if isinstance(event, Settled)
        else event
        for event in events
    ]


class Trading(RuleBasedStateMachine):
    leaves: ClassVar[tuple[str, ...]]

    def __init__(self) -> None:
        super().__init__()
        self.market, self.twin, self.oracle = Market(), Market(), NaiveMarket()
        self.auditor = Auditor()
        self.digest = self.market.digest()
        self.unread: list[tuple[Settled, Settled, Settled]] = []
        self.commands = 0
        self.grain = 1
        self.roots = sorted({line(leaf)[0] for leaf in self.leaves})
        self.scopes = sorted({scope for leaf in self.leaves for scope in line(leaf)})
        self.strange = [
            f"{self.leaves[0]}/below",
            f"{self.roots[0]}/nowhere",
            f"{self.roots[0]}/nowhere/deep",
            "elsewhere",
        ]

    # What is done

    @initialize(
        grain=st.sampled_from([1, 3, 4]),
        absent=st.sets(which, max_size=4),
        closed=st.sampled_from([0, 0, 0, 12]),
        floors=st.lists(st.tuples(which, floors), max_size=6),
        guard=st.none() | st.none() | guards,
        first=st.lists(orders, min_size=1, max_size=6),
        share=st.sampled_from([4, 4, 3, 2, 0]),
        loyalty=st.sampled_from([0, 0, 0, 20]),
    )
    def open(
        self,
        grain: int,
        absent: set[int],
        closed: int,
        floors: list[tuple[int, int]],
        guard: Guards | None,
        first: list[Terms],
        share: int,
        loyalty: int,
    ) -> None:
        """Most leaves are there at the beginning, and some or all of them are held.

        Where the grain is coarse there are few amounts and many ties; where loyalty is high few
        are displaced and many orders rest; where the tree is closed they rest beside idle leaves.
        """
        self.grain = grain
        self.tell(model.SetFloor(0, self.roots[0], closed))
        for index, floor in floors:
            self.tell(model.SetFloor(0, self.scopes[index % len(self.scopes)], self.rounded(floor)))
        away = {index % len(self.leaves) for index in absent}
        here = [leaf for index, leaf in enumerate(self.leaves) if index not in away]
        for leaf in here:
            self.tell(model.AddResource(0, leaf))
        if guard is not None:
            self.tell(model.SetGuard(0, self.roots[0], *guard))
        for index in range(len(here) * share // 4):
            tenant, _, limit = first[index % len(first)]
            limit = self.rounded(limit) + loyalty
            self.tell(model.Place(0, tenant, f"first-{index}", line(here[index])[0], None, limit))
        self.check()

    @rule(index=which, wait=waits, strange=seldom)
    def add(self, index: int, wait: int | None, strange: bool) -> None:
        absent = [leaf for leaf in self.leaves if leaf not in self.oracle.resources]
        path = self.pick([*self.scopes, *self.strange] if strange else absent, index)
        if path is not None:
            self.do(model.AddResource(self.after(wait), path, (("index", str(index)),)))

    @rule(index=which, wait=waits, strange=seldom)
    def withdraw(self, index: int, wait: int | None, strange: bool) -> None:
        path = self.pick(self.strange if strange else self.leaves, index)
        self.do(model.Withdraw(self.after(wait), path or ""))

    @rule(index=which, floor=floors, wait=waits, strange=seldom)
    def set_floor(self, index: int, floor: int, wait: int | None, strange: bool) -> None:
        scope = self.pick(self.strange if strange else self.scopes, index)
        self.do(model.SetFloor(self.after(wait), scope or "", self.rounded(floor)))

    @rule(index=which, floors=st.lists(floors, min_size=1, max_size=3), wait=waits)
    def move_floor(self, index: int, floors: list[int], wait: int | None) -> None:
        """A floor that stands already, or that of a tree."""
        standing = [scope for scope, floor in self.auditor.floors.items() if floor]
        scope = self.pick([*standing, *self.roots], index)
        for floor in floors:
            self.do(model.SetFloor(self.after(wait), scope or "", self.rounded(floor)))

    @rule(index=which, guard=guards, wait=waits)
    def set_guard(self, index: int, guard: Guards, wait: int | None) -> None:
        self.do(model.SetGuard(self.after(wait), self.roots[index % len(self.roots)], *guard))

    @rule(
        tenant=tenants,
        index=which,
        price=st.none() | amounts,
        limit=st.none() | amounts,
        span=spans,
        wait=waits,
        again=seldom,
    )
    def place(
        self,
        tenant: str,
        index: int,
        price: int | None,
        limit: int | None,
        span: int | None,
        wait: int | None,
        again: bool,
    ) -> None:
        """An order; `again` is under an id that may be live, or on terms that may be wrong."""
        name, at = f"o{self.commands}", self.after(wait)
        if again:
            name = f"o{index % (self.commands + 1)}"
        elif price is not None and limit is not None:
            price, limit = sorted((price, limit))
        price, limit = price and self.rounded(price), limit and self.rounded(limit)
        scope = self.scopes[index % len(self.scopes)]
        self.do(model.Place(at, tenant, name, scope, price, limit, self.expiry(at, span)))

    @rule(
        tenant=tenants,
        price=amounts,
        more=st.sampled_from([0, 0, 1, 4, 20]),
        index=which,
        wait=waits,
    )
    def place_anywhere(
        self, tenant: str, price: int, more: int, index: int, wait: int | None
    ) -> None:
        root, price = self.roots[index % len(self.roots)], self.rounded(price)
        self.do(
            model.Place(self.after(wait), tenant, f"o{self.commands}", root, price, price + more)
        )

    @rule(index=which, crowd=st.lists(orders, min_size=6, max_size=14), span=spans, wait=waits)
    def place_many(
        self, index: int, crowd: list[Terms], span: int | None, wait: int | None
    ) -> None:
        """A scope with many orders."""
        at, scope = self.after(wait), self.scopes[index % len(self.scopes)]
        for tenant, price, limit in crowd:
            low, high = sorted((self.rounded(price), self.rounded(limit)))
            expires = self.expiry(at, span)
            self.do(model.Place(at, tenant, f"o{self.commands}", scope, low, high, expires))

    @rule(
        index=which,
        price=st.none() | amounts,
        limit=st.none() | amounts,
        span=st.just(UNSET) | spans,
        wait=waits,
        strange=seldom,
    )
    def amend(
        self,
        index: int,
        price: int | None,
        limit: int | None,
        span: int | None | UnsetType,
        wait: int | None,
        strange: bool,
    ) -> None:
        at, order = self.after(wait), self.live_order(index)
        if order is not None:
            tenant = TENANTS[index % 4] if strange else order.tenant
            expires = span if isinstance(span, UnsetType) else self.expiry(at, span)
            price, limit = price and self.rounded(price), limit and self.rounded(limit)
            self.do(model.Amend(at, tenant, order.id, price, limit, expires))

    @rule(index=which, span=spans, wait=waits)
    def amend_often(self, index: int, span: int | None, wait: int | None) -> None:
        """So often that what is dead outweighs what is live, in books and on the agenda."""
        at = self.after(wait)
        for again in range(24):
            order = self.live_order(index)
            if order is not None:
                at = max(at, self.oracle.now)
                expires = at + span + again if span else None
                self.tell(model.Amend(at, order.tenant, order.id, expires=expires))
        self.check()

    @rule(index=which, wait=waits, strange=seldom)
    def cancel(self, index: int, wait: int | None, strange: bool) -> None:
        order = self.live_order(index)
        if order is not None:
            tenant = TENANTS[index % 4] if strange else order.tenant
            self.do(model.Cancel(self.after(wait), tenant, order.id))

    @rule(tenant=tenants, wait=waits)
    def cancel_all(self, tenant: str, wait: int | None) -> None:
        at = self.after(wait)
        for order in list(self.oracle.orders.values()):
            if order.tenant == tenant:
                self.do(model.Cancel(at, tenant, order.id))

    @rule(index=which, limits=st.lists(limits, min_size=1, max_size=3), wait=waits, strange=seldom)
    def set_limit(self, index: int, limits: list[int], wait: int | None, strange: bool) -> None:
        path = self.pick(self.leaves if strange else self.held(), index)
        for limit in limits if path else ():
            assert path is not None
            tenant = self.owner_or_else(path, index)
            self.do(model.SetLimit(self.after(wait), tenant, path, self.rounded(limit)))

    @rule(index=which, wait=waits, strange=seldom)
    def relinquish(self, index: int, wait: int | None, strange: bool) -> None:
        path = self.pick(self.leaves if strange else self.held(), index)
        if path is not None:
            self.do(model.Relinquish(self.after(wait), self.owner_or_else(path, index), path))

    @rule(wait=waits)
    def advance(self, wait: int | None) -> None:
        self.do(model.Advance(self.after(wait)))

    @rule(wait=waits)
    def settle(self, wait: int | None) -> None:
        self.do(model.Settle(self.after(wait)))

    @rule(back=st.integers(1, 3), scope=which)
    def come_too_late(self, back: int, scope: int) -> None:
        at = self.oracle.now - back
        self.do(model.Place(at, "A", "late", self.scopes[scope % len(self.scopes)], 12))

    @rule()
    def restore(self) -> None:
        snapshot = self.market.snapshot()
        self.market = Market.restore(snapshot)
        assert self.market.snapshot() == snapshot
        self.check()

    # How it is done

    def after(self, wait: int | None) -> int:
        if wait is None:
            return self.oracle.next_timer() or self.oracle.now
        return self.oracle.now + wait

    def expiry(self, at: int, span: int | None) -> int | None:
        return self.oracle.next_timer() if span == 0 else span and at + span

    def rounded(self, amount: int) -> int:
        return -(-amount // self.grain) * self.grain

    def pick(self, paths: Sequence[str], index: int) -> str | None:
        return paths[index % len(paths)] if paths else None

    def held(self) -> list[str]:
        return [path for path in self.oracle.leaves() if self.oracle.owner(path)]

    def live_order(self, index: int) -> Order | None:
        live = list(self.oracle.orders.values())
        return live[index % len(live)] if live else None

    def owner_or_else(self, path: str, index: int) -> str:
        leaf = self.oracle.resources.get(path)
        return leaf.owner if leaf and leaf.owner else TENANTS[index % 4]

    def do(self, command: Command) -> None:
        before, timer = self.digest, self.oracle.next_timer()
        refused = self.tell(command)
        self.check()
        if refused and (timer is None or command.at < timer):
            assert self.digest == before, "a refusal left a trace"

    def tell(self, command: Command) -> bool:
        """Give a command to all three; True if it was refused."""
        note(repr(command))
        self.commands += 1
        events, right, echo = (m.apply(command) for m in (self.market, self.oracle, self.twin))
        assert told(events) == told(right)
        assert told(events) == told(echo)
        self.auditor.read(events)
        for settled in zip(events, right, echo, strict=True):
            if isinstance(settled[0], Settled):
                self.unread.append(settled)  # type: ignore[arg-type]
        return bool(events) and isinstance(events[-1], Rejected)

    # What must hold

    def check(self) -> None:
        """Everything, after every command; and asking leaves no trace."""
        self.digest = self.market.digest()
        assert self.twin.digest() == self.digest
        self.check_resources()
        self.check_tenants()
        self.check_money()
        if self.commands % 8 == 0:
            self.read_statements()
        assert self.market.digest() == self.digest, "a question left a trace"

    def check_resources(self) -> None:
        market, oracle = self.market, self.oracle
        now = oracle.now
        assert market.now == now
        assert market.next_timer() == oracle.next_timer()
        assert market.resources() == tuple(oracle.leaves())
        assert set(market.scopes()) == set(oracle.scopes())
        facts = self.auditor.facts(now)
        assert facts.keys() == oracle.resources.keys()
        covered: dict[str, list[Facts]] = defaultdict(list)
        for path, leaf in facts.items():
            answers = market.owner(path), market.limit(path), market.rate(path)
            assert answers == (oracle.owner(path), oracle.limit(path), oracle.rate(path))
            assert answers[0] == leaf.owner
            assert answers[2] == self.auditor.charged(path, leaf, now)
            for scope in line(path):
                covered[scope].append(leaf)
        for scope in (*self.scopes, *self.strange):
            for asker in ASKERS:
                assert market.quote(scope, asker) == quote_from(covered[scope], asker)
        scope, asker = self.scopes[self.commands % len(self.scopes)], ASKERS[self.commands % 5]
        assert market.quote(scope, asker) == oracle.quote(scope, asker)

    def check_tenants(self) -> None:
        market, oracle = self.market, self.oracle
        held: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for path, leaf in oracle.resources.items():
            if leaf.holding:
                held[leaf.holding.tenant].append((leaf.holding.sequence, path))
        for tenant in TENANTS:
            assert market.holdings(tenant) == tuple(path for _, path in sorted(held[tenant]))
            visible = market.visible(tenant)
            assert visible == oracle.visible(tenant)
            asked = (*self.scopes, *self.strange)
            assert visible == {s for s in asked if market.check_visible(tenant, s) is None}
            live = [order for order in oracle.orders.values() if order.tenant == tenant]
            live.sort(key=lambda order: order.sequence)
            open_orders = market.orders(tenant)
            assert [order.order for order in open_orders] == [order.id for order in live]
            assert set(open_orders) == set(self.auditor.orders_of(tenant))

    def check_money(self) -> None:
        market, oracle = self.market, self.oracle
        timer = oracle.next_timer()
        at = oracle.now + self.commands % 6
        if timer is not None:
            at = min(at, timer)
        total = 0
        for tenant in TENANTS:
            bill, segments = market.bill(tenant, at), market.segments(tenant, at)
            assert bill == oracle.bill(tenant, at)
            assert segments == oracle.segments(tenant, at)
            for count in (1, 3, 10_000):
                newest = market.newest_segments(tenant, at, each=count, together=10**9)
                assert newest.keys() == segments.keys()
                for path, (last, left_out) in newest.items():
                    check_newest(last, left_out, segments[path], count)
            explained = sum(
                check_explanation(of_one, self.auditor.holding(path, tenant).since, at)
                for path, of_one in segments.items()
            )
            assert bill == self.auditor.settled[tenant] + explained
            if at > market.now:
                for path, of_one in segments.items():
                    holding = market.holding(path)
                    assert holding is not None and holding.tenant == tenant
                    assert (holding.rate, holding.cause) == of_one[-1][2:]
            total += bill
        assert market.revenue(at) == total

    def read_statements(self) -> None:
        """Explanations are worked out when read; by now the books have moved on."""
        for settled, right, echo in self.unread:
            assert settled == right == echo
            explained = check_explanation(settled.segments, settled.since, settled.at)
            assert explained == settled.charge
        self.unread = []

    def teardown(self) -> None:
        self.read_statements()


class Deep(Trading):
    leaves = tuple(f"h/{z}/{k}/{n}/g{i}" for z in "ab" for k in "xy" for n in "pq" for i in "01")


class Flat(Trading):
    """More children than a node looks at in one go."""

    leaves = tuple(f"h/g{i}" for i in range(40))


class Mixed(Trading):
    """Leaves and inner scopes side by side; some are in each other's way."""

    leaves = ("h/a/g0", "h/a/g1", "h/b", "h/c/x/y/z", "h/c/w", "h/d", "h/c/x", "h/e", "h/e/g0")


class Small(Trading):
    """Many scopes, and few leaves in each."""

    leaves = tuple(f"h/{z}/g{i}" for z in "abcdefghijklmnopqr" for i in "01")


class Chain(Trading):
    """Books above books, and few leaves below them."""

    leaves = ("h/a/b/c/g0", "h/a/b/c/g1", "h/a/b/g2", "h/a/g3", "h/g4")


class Forest(Trading):
    """Two trees, and so few leaves that there is always somebody in the way."""

    leaves = ("h/a/g0", "h/a/g1", "h/b/g0", "t/g0", "t/a/g1", "t/b/g2", "t/b")


# Examples are shared out by what they find, seconds for seconds.
MACHINES = [
    (Deep, budget(1.0)),
    (Flat, budget(0.6)),
    (Mixed, budget(2.5)),
    (Small, budget(0.6)),
    (Chain, budget(3)),
    (Forest, budget(3)),
]


@pytest.mark.parametrize(("machine", "settings"), MACHINES)
def test_the_market_is_the_oracle(machine: type[Trading], settings: settings) -> None:
    """Whatever is done, market, oracle, twin and auditor agree on everything."""
    run_state_machine_as_test(machine, settings=settings)
