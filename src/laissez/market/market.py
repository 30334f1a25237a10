"""The market, as programs use it: eleven calls that change it, and questions that do not.

A call builds one immutable command; `apply` lets time pass up to the command's instant, so that
whatever falls due acts first, then executes it and returns the events. Two markets fed the same
commands are the same market: there is no clock, no randomness and no I/O in here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from laissez.market import snapshot
from laissez.market.answers import holding_of, promise_of, safe_until
from laissez.market.book import Gang
from laissez.market.charges import ChargeTrace, charge
from laissez.market.checks import CommandRefused, is_time, shown
from laissez.market.claims import fill_gangs
from laissez.market.falling_due import TIMER_KINDS, empty_state, is_step_ahead
from laissez.market.guards import OFF
from laissez.market.holding import relinquish, set_limit
from laissez.market.listing import open_order, resources_after
from laissez.market.nodes import Leaf, Scope, leaves_under
from laissez.market.operating import (
    add_resource,
    set_floor,
    set_guard,
    settle,
    take_back,
    withdraw,
)
from laissez.market.ordering import amend, cancel, place
from laissez.market.path import books_on_path, charged_rate, floor_at, rate_cause
from laissez.market.quotes import quote
from laissez.market.quotes_of_several import quote_of_several
from laissez.market.state import State
from laissez.market.timers import Timer
from laissez.model.commands import (
    AddResource,
    Advance,
    Amend,
    Cancel,
    Command,
    Place,
    Relinquish,
    SetFloor,
    SetGuard,
    SetLimit,
    Settle,
    Withdraw,
)
from laissez.model.events import Event, GuardSet, Rejected
from laissez.model.questions import Holding, Promise
from laissez.model.refusals import Code, Unanswerable
from laissez.model.values import MAX_TIME, Cause, OpenOrder, Quote, Segment

Events = tuple[Event, ...]


def _advance(state: State, command: Advance, events: list[Event]) -> None:
    """Time has passed already."""


_RULES: dict[type, Callable[[State, Any, list[Event]], None]] = {
    AddResource: add_resource,
    Withdraw: withdraw,
    SetFloor: set_floor,
    SetGuard: set_guard,
    Place: place,
    Amend: amend,
    Cancel: cancel,
    SetLimit: set_limit,
    Relinquish: relinquish,
    Advance: _advance,
    Settle: settle,
}


class Market:
    """One market: a forest of resources, the orders for them, and who owes what."""

    __slots__ = ("_state",)

    def __init__(self) -> None:
        self._state = empty_state()

    # Commands ---------------------------------------------------------------------------------

    def apply(self, command: Command) -> Events:
        """Let time pass, execute one command, and say everything that happened, in order."""
        rule = _RULES[type(command)]
        state, at = self._state, command.at
        if type(at) is not int or not state.now <= at <= MAX_TIME:
            return (_refused_time(state.now, at),)
        events: list[Event] = []
        heap = state.agenda.heap
        if heap and heap[0][0] <= at:
            self._pass_time(at, events)
        state.now = at
        try:
            rule(state, command, events)
            if state.levels:
                fill_gangs(state, events)
        except CommandRefused as refused:
            events.append(Rejected(at, refused.code, refused.message))
        return tuple(events)

    def withdraw_amid(self, path: str, *, is_given_up: bool = False) -> Events:
        """Take a resource out at the present instant, and leave what has yet to act at it ahead.

        `is_given_up`: its holder wants it so, and owes what it would owe for relinquishing it.
        """
        state = self._state
        events: list[Event] = []
        try:
            if is_given_up:
                take_back(state, path, events)
            else:
                withdraw(state, Withdraw(state.now, path), events)
            if state.levels:
                fill_gangs(state, events)
        except CommandRefused as refused:
            events.append(Rejected(state.now, refused.code, refused.message))
        return tuple(events)

    def _pass_time(self, at: int, events: list[Event]) -> None:
        """Let whatever falls due by `at` act, each at its own instant."""
        state = self._state
        while (timer := state.agenda.pop_due(at)) is not None:
            _act(state, timer, events)

    def advance_partly(self, at: int, most: int) -> tuple[Events, int]:
        """Let what falls due by `at` act, but stop before the next of it as soon as there were
        `most` events; how many there were, at least one for each thing that acted.

        If it stops, time is at the instant of the last that acted, and the rest of that instant is
        ahead. It does not stop before a step of a falling floor: orders that have yet to expire
        tell a market that is restored that the steps of its instant are ahead, and nothing else
        does.
        """
        state = self._state
        if not state.now <= at <= MAX_TIME:
            return (_refused_time(state.now, at),), 1
        events: list[Event] = []
        acted = 0
        while acted < most or is_step_ahead(state):
            timer = state.agenda.pop_due(at)
            if timer is None:
                state.now = at
                break
            before = len(events)
            _act(state, timer, events)
            acted += max(1, len(events) - before)
        return tuple(events), acted

    def add_resource(
        self, path: str, *, attributes: Mapping[str, str] | None = None, at: int
    ) -> Events:
        """Add one tradable resource; its holder can read the attributes."""
        return self.apply(AddResource(at, path, _as_pairs(attributes)))

    def withdraw(self, path: str, *, at: int) -> Events:
        """Take a resource out of the market."""
        return self.apply(Withdraw(at, path))

    def set_floor(self, scope: str, floor: int, *, at: int) -> Events:
        """Set the operator's lowest price for everything under a scope."""
        return self.apply(SetFloor(at, scope, floor))

    def guard(
        self,
        tree: str,
        *,
        rise: int | None = None,
        fall: int | None = None,
        hold: int | None = None,
        window: int | None = None,
        notice: int | None = None,
        commit: int | None = None,
        at: int,
    ) -> Events:
        """Set the volatility guards of a tree, all at once."""
        return self.apply(SetGuard(at, tree, rise, fall, hold, window, notice, commit))

    def place(
        self,
        tenant: str,
        scope: str,
        *,
        price: int | None = None,
        limit: int | None = None,
        order: str,
        at: int,
        expires: int | None = None,
        count: int = 1,
        within: int | None = None,
    ) -> Events:
        """Order any one resource under a scope, or several of one domain, all or none."""
        return self.apply(Place(at, tenant, order, scope, price, limit, expires, count, within))

    def amend(
        self,
        tenant: str,
        order: str,
        *,
        price: int | None = None,
        limit: int | None = None,
        expires: int | None | UnsetType = UNSET,
        at: int,
    ) -> Events:
        """Replace an order under its own id; what is not given stays."""
        return self.apply(Amend(at, tenant, order, price, limit, expires))

    def cancel(self, tenant: str, order: str, *, at: int) -> Events:
        """End an order."""
        return self.apply(Cancel(at, tenant, order))

    def set_limit(self, tenant: str, path: str, limit: int, *, at: int) -> Events:
        """Set the retention limit of a held resource."""
        return self.apply(SetLimit(at, tenant, path, limit))

    def relinquish(self, tenant: str, path: str, *, at: int) -> Events:
        """Give a held resource back."""
        return self.apply(Relinquish(at, tenant, path))

    def advance(self, *, at: int) -> Events:
        """Let time pass."""
        return self.apply(Advance(at))

    def settle(self, *, at: int) -> Events:
        """Close the statement period of every open holding."""
        return self.apply(Settle(at))

    def knows(self, path: str) -> bool:
        """Is there a resource at a path, or a scope that somebody has named?"""
        return path in self._state.nodes

    # Questions about resources and prices -----------------------------------------------------

    @property
    def now(self) -> int:
        """The instant of the last command."""
        return self._state.now

    def next_timer(self) -> int | None:
        """The next instant at which something falls due."""
        return self._state.agenda.next()

    def count_due(self, at: int, enough: int) -> int:
        """How many things fall due by `at`; more than enough are not counted."""
        return self._state.agenda.count_due(at, enough)

    def is_step_due(self, at: int) -> bool:
        """Does a falling floor step by `at`? One thing, and it may move thousands of leaves."""
        return self._state.agenda.is_step_due(at)

    @property
    def acted(self) -> int:
        """How many things have fallen due and acted in this process; no part of the state."""
        return self._state.agenda.acted

    def owner(self, path: str) -> str | None:
        """Who holds a resource; None is the operator."""
        return self._leaf(path).owner

    def limit(self, path: str) -> int | None:
        """The holder's retention limit, None when idle."""
        leaf = self._leaf(path)
        return None if leaf.owner is None else leaf.limit

    def rate(self, path: str) -> int:
        """What is charged for a resource now; for an idle one, its floor."""
        return charged_rate(self._leaf(path))

    def floor(self, scope: str) -> int:
        """The floor that stands over everything under a scope: the highest set from it upwards."""
        path = scope
        while path not in self._state.nodes:
            path, slash, _ = path.rpartition("/")
            if not slash:
                return 0
        return floor_at(self._state.nodes[path])

    def floors(self) -> dict[str, int]:
        """The floors that stand, by the scope at which they were set."""
        return {
            path: node.book.floor
            for path, node in sorted(self._state.nodes.items())
            if node.book is not None and node.book.floor
        }

    def guards(self) -> tuple[GuardSet, ...]:
        """The guards of every tree that has any."""
        return tuple(
            GuardSet(self._state.now, name, *msgspec.structs.astuple(tree.guard))
            for name, tree in sorted(self._state.trees.items())
            if tree.guard != OFF
        )

    def since(self, path: str) -> int | None:
        """Since when the open charge of a held resource runs, None when idle."""
        leaf = self._leaf(path)
        return None if leaf.owner is None else leaf.since

    def safe_until(self, path: str) -> int | None:
        """Until when a guard keeps a holding from being lost to price; None if none does."""
        return safe_until(self._leaf(path))

    def cause(self, path: str) -> Cause:
        """Why a resource is charged what it is: by its floor, by demand, or capped by a hold."""
        return rate_cause(self._leaf(path))

    def holding(self, path: str) -> Holding | None:
        """A held resource as its holder sees it, None when idle."""
        return holding_of(self._leaf(path))

    def attributes(self, path: str, tenant: str | None = None) -> dict[str, str]:
        """What was said of a resource when it was added, for its holder or the operator (None)."""
        leaf = self._leaf(path)
        if tenant is not None and leaf.owner != tenant:
            raise Unanswerable(
                Code.NOT_THE_HOLDER, f"only its holder can read the attributes of {path!r}"
            )
        return dict(leaf.attributes)

    def quote(
        self,
        scope: str,
        tenant: str | None = None,
        count: int = 1,
        within: int | None = None,
    ) -> Quote | None:
        """What a resource under a scope would cost `tenant` now, or several of one domain, each;
        None is the operator."""
        node = self._state.nodes.get(scope)
        if node is None:
            return None
        if count == 1 and within is None:
            return quote(node, tenant)
        return quote_of_several(node, tenant, count, within)

    def called(self, path: str) -> int | None:
        """Until when a holding is called; None if it is not."""
        call = self._leaf(path).call
        return None if call is None else call.until

    def promises(self, tenant: str) -> dict[str, int]:
        """The called resources that a tenant will have, and when at the latest."""
        account = self._state.accounts.get(tenant)
        promised = {} if account is None else account.promises
        return {path: leaf.call.until for path, leaf in sorted(promised.items()) if leaf.call}

    def promised_order(self, path: str) -> str | None:
        """The id of the order to which a called resource is promised; None if to none."""
        call = self._leaf(path).call
        return None if call is None or call.order is None else call.order.id

    def promise(self, path: str) -> Promise | None:
        """What is promised of a resource: to which order, by its id here; None if nothing is."""
        return promise_of(self._leaf(path))

    def steps_remembered(self) -> int:
        """How many changes of pressure, and calls, are kept to explain what is open."""
        books = (node.book for node in self._state.nodes.values())
        steps = sum(len(book.steps) for book in books if book is not None)
        return steps + self._state.calls_kept

    def resources(self, scope: str | None = None) -> tuple[str, ...]:
        """The resources under a scope, or all of them, in tree order."""
        if scope is not None:
            node = self._state.nodes.get(scope)
            return () if node is None else tuple(leaf.path for leaf in leaves_under(node))
        roots = self._state.roots
        return tuple(leaf.path for root in roots for leaf in leaves_under(root))

    def resources_after(
        self, scope: str | None, after: str | None, most: int
    ) -> tuple[str, ...] | None:
        """The first resources under a scope, or of all, that come after another in tree order.

        None if that other is not among them any more.
        """
        return resources_after(self._state, scope, after, most)

    def scopes(self) -> tuple[str, ...]:
        """All scopes that an order may name."""
        nodes = self._state.nodes.items()
        return tuple(path for path, node in nodes if isinstance(node, Leaf) or node.placed)

    # Questions about tenants ------------------------------------------------------------------

    def tenants(self) -> tuple[str, ...]:
        """Everybody who has an order, a holding or a bill, by name."""
        return tuple(sorted(self._state.accounts))

    def orders(self, tenant: str) -> tuple[OpenOrder, ...]:
        """A tenant's live orders, in the order of their place in the queue."""
        account = self._state.accounts.get(tenant)
        if account is None:
            return ()
        return tuple(
            open_order(o) for o in sorted(account.orders.values(), key=lambda order: order.sequence)
        )

    def orders_after(
        self, tenant: str, sequence: int, most: int
    ) -> tuple[tuple[OpenOrder, ...], int, bool]:
        """A tenant's first live orders after a place in the queue; the place of the last; whether
        these are all."""
        account = self._state.accounts.get(tenant)
        later = [] if account is None else account.orders.values()
        found = sorted((o for o in later if o.sequence > sequence), key=attrgetter("sequence"))
        is_all = len(found) <= most
        del found[most:]
        return tuple(map(open_order, found)), found[-1].sequence if found else sequence, is_all

    def order_count(self, tenant: str) -> int:
        """How many live orders a tenant has."""
        account = self._state.accounts.get(tenant)
        return 0 if account is None else len(account.orders)

    def gang_count(self, tenant: str) -> int:
        """How many of a tenant's live orders are gangs."""
        account = self._state.accounts.get(tenant)
        return 0 if account is None else sum(type(o) is Gang for o in account.orders.values())

    def holdings(self, tenant: str) -> tuple[str, ...]:
        """The resources that a tenant holds: trees by name, in each in the order of winning."""
        account = self._state.accounts.get(tenant)
        return () if account is None else tuple(leaf.path for leaf in account.leaves())

    def visible(self, tenant: str) -> frozenset[str]:
        """The scopes of which a tenant may ask for a quote."""
        visible = {root.path for root in self._state.roots}
        account = self._state.accounts.get(tenant)
        if account is not None:
            for leaf in account.leaves():
                scope: Scope | None = leaf.parent
                while scope is not None and scope.path not in visible:
                    visible.add(scope.path)
                    scope = scope.parent
        return frozenset(visible)

    def check_visible(self, tenant: str, scope: str) -> Rejected | None:
        """The refusal that whoever serves tenants answers with; None if the scope is visible."""
        node = self._state.nodes.get(scope)
        if isinstance(node, Scope) and (
            node.placed if node.parent is None else tenant in node.holders
        ):
            return None
        return Rejected(
            self._state.now,
            Code.SCOPE_NOT_VISIBLE,
            f"there is no quote of {scope!r} for {tenant!r}; ask for a whole tree, or for a scope "
            "around something that it holds",
        )

    # Questions about money --------------------------------------------------------------------

    def bill(self, tenant: str, at: int) -> int:
        """All that a tenant owes since the beginning, in micro-dollar microseconds per hour."""
        self._check_instant(at)
        account = self._state.accounts.get(tenant)
        if account is None:
            return 0
        return account.settled + sum(charge(leaf, self._state.now, at) for leaf in account.leaves())

    def owed(self, path: str) -> int:
        """What the open charge of a resource has come to by now; 0 if nobody holds it."""
        node = self._state.nodes.get(path)
        if not isinstance(node, Leaf):
            return 0
        return charge(node, self._state.now, self._state.now)

    def segments(self, tenant: str, at: int) -> dict[str, tuple[Segment, ...]]:
        """The explanation of what is open, per holding."""
        self._check_instant(at)
        account = self._state.accounts.get(tenant)
        if account is None:
            return {}
        return {
            leaf.path: tuple(ChargeTrace(leaf, books_on_path(leaf), at).explain())
            for leaf in account.leaves()
        }

    def newest_segments(
        self, tenant: str, at: int, *, each: int, together: int
    ) -> dict[str, tuple[tuple[Segment, ...], int]]:
        """The last segments of what is open, per holding, and how many more there are at most.

        At most so many of each holding, and of all together; what is beyond is not even looked at.
        """
        self._check_instant(at)
        account = self._state.accounts.get(tenant)
        if account is None or not account.holdings:
            return {}
        each = min(each, max(1, together // sum(map(len, account.holdings.values()))))
        newest = {}
        for leaf in islice(account.leaves(), together):
            segments, left_out = ChargeTrace(leaf, books_on_path(leaf), at).newest(each)
            newest[leaf.path] = tuple(segments), left_out
        return newest

    def revenue(self, at: int) -> int:
        """All that the operator has earned since the beginning: the sum of all bills."""
        self._check_instant(at)
        return self._state.revenue_settled + sum(
            charge(leaf, self._state.now, at)
            for account in self._state.accounts.values()
            for leaf in account.leaves()
        )

    # The whole state --------------------------------------------------------------------------

    def digest(self) -> str:
        """One hash of the whole state."""
        return snapshot.digest(self._state)

    def snapshot(self) -> bytes:
        """The whole state, to be restored from."""
        return snapshot.write(self._state)

    @classmethod
    def restore(cls, data: bytes) -> Market:
        """The market that a snapshot was taken of, by this version or an older one.

        Raises `UnknownRules` for what a newer version wrote, and another `ValueError` for what is
        no snapshot.
        """
        market = cls()
        market._state = snapshot.read(data)
        return market

    def _leaf(self, path: str) -> Leaf:
        node = self._state.nodes.get(path)
        if not isinstance(node, Leaf):
            raise Unanswerable(Code.UNKNOWN_RESOURCE, f"there is no resource {path!r}")
        return node

    def _check_instant(self, at: int) -> None:
        if not is_time(at):
            raise Unanswerable(Code.BAD_TIME, f"{shown(at)} is not a time in microseconds")
        if at < self._state.now:
            raise Unanswerable(
                Code.TIME_WENT_BACK, f"{at} is past; the market is at {self._state.now}"
            )
        due = self._state.agenda.next()
        if due is not None and at > due:
            raise Unanswerable(
                Code.BEYOND_NEXT_TIMER, f"something falls due at {due}; advance to {at} first"
            )


def _act(state: State, timer: Timer, events: list[Event]) -> None:
    """Let something that falls due act, and then the gangs that fit because of it."""
    state.now, kind, _, subject = timer
    TIMER_KINDS[kind].act(state, subject, events)
    if state.levels:
        fill_gangs(state, events)


def _as_pairs(attributes: Any) -> Any:
    """A mapping as sorted pairs; anything else as it is, for the market to refuse."""
    if attributes is None:
        return ()
    if not isinstance(attributes, Mapping):
        return attributes
    try:
        return tuple(sorted(attributes.items()))
    except TypeError:
        return tuple(attributes.items())


def _refused_time(now: int, at: Any) -> Rejected:
    if is_time(at):
        return Rejected(
            now,
            Code.TIME_WENT_BACK,
            f"at={at} is before {now}, where the market is; give a later time",
        )
    return Rejected(
        now,
        Code.BAD_TIME,
        f"at={shown(at)} is not a time; give whole microseconds, from 0 on",
    )
