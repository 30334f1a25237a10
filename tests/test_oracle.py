"""The market against the oracle, and against an auditor who only reads what is said.

Hypothesis plays an operator and four tenants; `comparison.py` says what is compared after each
command. Here orders are for one leaf; `test_gangs_in_the_oracle.py` adds gangs.

What commands are made of is small on purpose: four tenants, amounts up to 12, steps of time of a
few microseconds, so that ties, crossings and meetings at one instant are the rule.
"""

from collections.abc import Sequence
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

from auditor import line
from comparison import TENANTS, Comparison
from laissez import model
from laissez.model import Command
from naive_state import Order


def budget(share: float) -> settings:
    """How many examples, as a share of the profile's (see conftest.py)."""
    return settings(max_examples=round(share * settings().max_examples))


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
    st.sampled_from([None, None, 0, 1, 6, 12, 300]),
    st.sampled_from([None, None, 0, 1, 6, 12, 300]),
)
Guards = tuple[int | None, int | None, int | None, int | None, int | None, int | None]


class Trading(RuleBasedStateMachine):
    leaves: ClassVar[tuple[str, ...]]
    against: ClassVar[bool] = True  # or the oracle alone, before the auditor

    def __init__(self) -> None:
        super().__init__()
        self.grain = 1
        self.roots = sorted({line(leaf)[0] for leaf in self.leaves})
        self.scopes = sorted({scope for leaf in self.leaves for scope in line(leaf)})
        self.strange = [
            f"{self.leaves[0]}/below",
            f"{self.roots[0]}/nowhere",
            f"{self.roots[0]}/nowhere/deep",
            "elsewhere",
        ]
        self.trial = Comparison(self.leaves, self.strange, market=self.against)
        self.oracle, self.auditor = self.trial.oracle, self.trial.auditor

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
        self.trial.check()

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
        self.trial.check()

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
        self.trial.restore()
        self.trial.check()

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

    @property
    def commands(self) -> int:
        return self.trial.commands

    def do(self, command: Command) -> None:
        note(repr(command))
        self.trial.do(command)

    def tell(self, command: Command) -> None:
        note(repr(command))
        self.trial.tell(command)

    def teardown(self) -> None:
        self.trial.read_statements()


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
