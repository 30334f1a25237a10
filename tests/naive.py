"""The oracle: a market that is slow and obviously right.

The fast market is compared with this one, event by event and answer by answer. So nothing here
is clever: no summaries, no heaps, no caches. An order is looked at for every leaf it covers, a
gang for every leaf of every domain, a leaf's floor and rate are worked out from all floors and all
orders each time somebody asks, the next timer is the least of all timers, and every holding is
charged at every instant at which anything happens. Where a function reads like a sentence of the
market contract (or of `docs/decisions.md`), it is meant to be that sentence.

`naive_state.py` is what it knows and what can be asked, `naive_handover.py` how a leaf changes
hands; here are the commands, and time.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, UnsetType

from laissez import model
from laissez.model import Code, Command, Event
from naive_handover import NaiveHandover
from naive_state import (
    DEEPEST,
    Floor,
    Guard,
    Leaf,
    Order,
    ancestors,
    covers,
    depth,
    is_amount,
    parent,
    root,
)

DAY = 86_400_000_000


class Refused(Exception):
    """The command breaks a rule."""

    def __init__(self, code: Code) -> None:
        super().__init__(code)
        self.code = code


def check(rule: bool, code: Code) -> None:
    if not rule:
        raise Refused(code)


def is_name(value: object) -> bool:
    return isinstance(value, str) and value != "" and value == value.strip() and value.isprintable()


def is_path(value: object) -> bool:
    if not isinstance(value, str):
        return False
    names = value.split("/")
    return len(names) <= DEEPEST and all(is_name(name) for name in names)


def is_attributes(value: object) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(pair, tuple) and len(pair) == 2 and all(isinstance(text, str) for text in pair)
        for pair in value
    )


class NaiveMarket(NaiveHandover):
    # The changing calls

    def set_floor(self, scope: Any, floor: Any, *, at: Any) -> tuple[Event, ...]:
        return self.apply(model.SetFloor(at=at, scope=scope, floor=floor))

    def add_resource(self, path: Any, *, attributes: Any = None, at: Any) -> tuple[Event, ...]:
        if attributes is None:
            attributes = ()
        elif isinstance(attributes, Mapping) and is_attributes(tuple(attributes.items())):
            attributes = tuple(sorted(attributes.items()))
        return self.apply(model.AddResource(at=at, resource=path, attributes=attributes))

    def place(
        self,
        tenant: Any,
        scope: Any,
        *,
        price: Any = None,
        limit: Any = None,
        order: Any,
        at: Any,
        expires: Any = None,
        count: Any = 1,
        within: Any = None,
    ) -> tuple[Event, ...]:
        terms = price, limit, expires, count, within
        return self.apply(model.Place(at, tenant, order, scope, *terms))

    def amend(
        self,
        tenant: Any,
        order: Any,
        *,
        price: Any = None,
        limit: Any = None,
        expires: Any = UNSET,
        at: Any,
    ) -> tuple[Event, ...]:
        return self.apply(model.Amend(at, tenant, order, price, limit, expires))

    def cancel(self, tenant: Any, order: Any, *, at: Any) -> tuple[Event, ...]:
        return self.apply(model.Cancel(at=at, tenant=tenant, order=order))

    def set_limit(self, tenant: Any, path: Any, limit: Any, *, at: Any) -> tuple[Event, ...]:
        return self.apply(model.SetLimit(at=at, tenant=tenant, resource=path, limit=limit))

    def relinquish(self, tenant: Any, path: Any, *, at: Any) -> tuple[Event, ...]:
        return self.apply(model.Relinquish(at=at, tenant=tenant, resource=path))

    def withdraw(self, path: Any, *, at: Any) -> tuple[Event, ...]:
        return self.apply(model.Withdraw(at=at, resource=path))

    def guard(
        self,
        tree: Any,
        *,
        rise: Any = None,
        fall: Any = None,
        hold: Any = None,
        window: Any = None,
        notice: Any = None,
        commit: Any = None,
        at: Any,
    ) -> tuple[Event, ...]:
        return self.apply(model.SetGuard(at, tree, rise, fall, hold, window, notice, commit))

    def advance(self, *, at: Any) -> tuple[Event, ...]:
        return self.apply(model.Advance(at=at))

    def settle(self, *, at: Any) -> tuple[Event, ...]:
        return self.apply(model.Settle(at=at))

    def apply(self, command: Command) -> tuple[Event, ...]:
        self.events = []
        if not is_amount(command.at, 0):
            self.say(model.Rejected(self.now, Code.BAD_TIME, "bad time"))
        elif command.at < self.now:
            self.say(model.Rejected(self.now, Code.TIME_WENT_BACK, "time went back"))
        else:
            self.let_time_pass_until(command.at)
            try:
                self.execute(command)
            except Refused as refused:
                self.say(model.Rejected(self.now, refused.code, "refused"))
        return tuple(self.events)

    def execute(self, command: Command) -> None:
        rules: dict[type, Any] = {
            model.AddResource: self.add_a_leaf,
            model.Withdraw: self.withdraw_a_leaf,
            model.SetFloor: self.set_a_floor,
            model.SetGuard: self.set_a_guard,
            model.Place: self.place_an_order,
            model.Amend: self.amend_an_order,
            model.Cancel: self.cancel_an_order,
            model.SetLimit: self.set_a_retention_limit,
            model.Relinquish: self.relinquish_a_leaf,
            model.Settle: self.settle_everyone,
            model.Advance: lambda command: None,
        }
        rules[type(command)](command)
        self.fill_gangs()
        if isinstance(command, model.Place) and command.tenant not in self.acted:
            self.acted.append(command.tenant)

    # Time: whatever falls due acts at its own instant, before the command

    def let_time_pass_until(self, at: int) -> None:
        while (timers := self.timers()) and timers[0][0] <= at:
            due, kind, _, what = timers[0]
            self.charge_everyone_until(due)
            if isinstance(what, Order):
                self.expire_all_that_is_due()
            elif isinstance(what, Floor):
                self.move_floor(what, what.asked)
            else:
                {2: self.end_hold, 3: self.end_commitment, 4: self.end_call}[kind](what)
            self.fill_gangs()
        self.charge_everyone_until(at)

    def charge_everyone_until(self, at: int) -> None:
        for leaf in self.resources.values():
            if leaf.holding:
                leaf.holding.segments = self.open_segments(leaf, at)
                leaf.holding.charged_to = at
        self.now = at

    def expire_all_that_is_due(self) -> None:
        """A gang that the end of one order lets in must not be filled at its own last instant."""
        for order in sorted(self.orders.values(), key=lambda order: order.sequence):
            if order.expires == self.now:
                del self.orders[order.id]
                self.say(model.Expired(self.now, order.tenant, order.id))

    def end_hold(self, leaf: Leaf) -> None:
        """At that instant the rules apply again; what the hold put off keeps its reason."""
        holding = leaf.holding
        assert holding
        holding.hold_ends = None
        if self.uncapped_rate(leaf) > holding.limit:
            if holding.limit_put_off:
                self.pass_on(leaf, "limit")
            else:
                self.pass_on(leaf, self.why_lost(leaf), notice=True)

    def end_commitment(self, leaf: Leaf) -> None:
        assert leaf.holding
        leaf.holding.commitment_ends = None
        self.let_asked_limit_act(leaf)

    # Resources and scopes

    def add_a_leaf(self, command: model.AddResource) -> None:
        path = command.resource
        check(is_path(path), Code.BAD_PATH)
        check(depth(path) > 1, Code.ROOT_IS_NOT_A_RESOURCE)
        check(is_attributes(command.attributes), Code.BAD_ATTRIBUTES)
        check(path not in self.resources, Code.RESOURCE_EXISTS)
        check(not self.is_known_as_a_scope(path), Code.PATH_IS_A_SCOPE)
        check(not self.is_under_a_resource(path), Code.PATH_UNDER_A_RESOURCE)
        for scope in ancestors(path):
            if scope not in self.children:
                self.children[scope] = []
                self.children[parent(scope)].append(scope)
        self.children[parent(path)].append(path)
        self.resources[path] = Leaf(path, command.attributes)
        self.say(model.ResourceAdded(self.now, path, command.attributes))
        self.pass_on(self.resources[path], "idle")

    def withdraw_a_leaf(self, command: model.Withdraw) -> None:
        """A single order to which it was promised is placed again, unless it has expired.

        Silent: if it has, nothing is said of it any more. It is placed with the price that was
        accepted, which is clipped again like any posted price.
        """
        leaf = self.checked_resource(command.resource)
        order = leaf.promised_to
        if leaf.holding:
            self.transfer(leaf, None, "withdrawn")
        del self.resources[leaf.path]
        self.children[parent(leaf.path)].remove(leaf.path)
        self.say(model.ResourceWithdrawn(self.now, leaf.path))
        if order and not order.is_gang and (order.expires is None or order.expires > self.now):
            order.sequence = self.next_sequence()
            self.post(order, model.Placed)

    def is_known_as_a_scope(self, path: str) -> bool:
        return path in self.children or any(
            floor.standing > 0 and floor.scope != path and covers(path, floor.scope)
            for floor in self.floors.values()
        )

    def is_under_a_resource(self, path: str) -> bool:
        return any(scope in self.resources for scope in ancestors(path))

    def checked_resource(self, path: str) -> Leaf:
        check(is_path(path), Code.BAD_PATH)
        check(path in self.resources, Code.UNKNOWN_RESOURCE)
        return self.resources[path]

    # Orders

    def place_an_order(self, command: model.Place) -> None:
        self.check_place(command)
        c, gang = command, command.count > 1
        order = Order(
            tenant=c.tenant,
            id=c.order,
            scope=c.scope,
            price=None if gang else self.price_of(c),
            limit=self.limit_of(c),
            expires=c.expires,
            sequence=self.next_sequence(),
            count=c.count,
            within=self.within_of(c) if gang else None,
        )
        self.post(order, model.Placed)

    def post(self, order: Order, said: type[model.Placed | model.Amended]) -> None:
        o = order
        if o.price is not None:
            o.price = self.clipped(o.tenant, o.scope, o.price)
        self.orders[o.id] = o
        terms = o.scope, o.price, o.limit, o.expires, o.count, o.within
        self.say(said(self.now, o.tenant, o.id, *terms))
        if not o.is_gang:
            self.take_an_idle_leaf_or_rest(o)

    def check_place(self, command: model.Place) -> None:
        price, limit = command.price, command.limit
        check(is_name(command.tenant), Code.BAD_TENANT)
        check(is_name(command.order), Code.BAD_ORDER_ID)
        check(is_path(command.scope), Code.BAD_PATH)
        exists = command.scope in self.children or command.scope in self.resources
        check(exists, Code.UNKNOWN_SCOPE)
        check(is_amount(command.count, 1), Code.BAD_COUNT)
        check(command.count > 1 or command.within is None, Code.BAD_WITHIN)
        check(command.count == 1 or price is None, Code.GANG_HAS_NO_PRICE)
        check(not (price is None and limit is None), Code.NO_PRICE)
        check(price is None or is_amount(price, 1), Code.BAD_PRICE)
        check(limit is None or is_amount(limit, 1), Code.BAD_LIMIT)
        check(price is None or limit is None or price <= limit, Code.PRICE_ABOVE_LIMIT)
        if command.count > 1:
            self.check_domains(command)
        self.check_expiry(command.expires)
        check(not self.is_taken(command.order), Code.ORDER_ID_TAKEN)

    def check_domains(self, command: model.Place) -> None:
        """Silent: `within` is finer than the leaves if it is finer than all leaves of the tree."""
        within = self.within_of(command)
        depths = [depth(leaf.path) for leaf in self.leaves_under(root(command.scope))]
        check(is_amount(within, depth(command.scope)), Code.BAD_WITHIN)
        check(within <= max(depths, default=within), Code.BAD_WITHIN)
        sizes = [len(self.leaves_under(node)) for node in self.domains(command.scope, within)]
        check(any(size >= command.count for size in sizes), Code.DOMAIN_TOO_SMALL)

    def check_expiry(self, expires: object) -> None:
        check(expires is None or is_amount(expires, self.now + 1), Code.BAD_EXPIRY)

    def is_taken(self, id: str) -> bool:
        """By a live order, or by one to which something is promised."""
        promised = [order.id for leaf in self.resources.values() if (order := leaf.promised_to)]
        return id in self.orders or id in promised

    def limit_of(self, command: model.Place) -> int:
        limit = command.price if command.limit is None else command.limit
        assert limit is not None
        return limit

    def within_of(self, command: model.Place) -> int:
        return depth(command.scope) if command.within is None else command.within

    def price_of(self, command: model.Place) -> int:
        """As given, or the tenant's quote of the scope, at least 1 and at most the limit."""
        if command.price is not None:
            return command.price
        quote = self.quote(command.scope, command.tenant)
        limit = self.limit_of(command)
        return limit if quote is None else min(max(1, quote.rate), limit)

    def clipped(self, tenant: str, scope: str, price: int) -> int:
        """A posted price, after the guard against rising.

        Silent: a scope's reference is its quote before the first order in the window that refers
        to it, be it placed there or at a scope below that its tenant may not see. Gangs, which
        have no price, don't count; nor does what they change before.
        """
        guard = self.guard_of(scope)
        if guard.rise is None or guard.window is None:
            return price
        window, visible = self.now // guard.window, self.visible(tenant)
        scope = next(node for node in (scope, *reversed(ancestors(scope))) if node in visible)
        if scope not in self.references or self.references[scope][0] != window:
            quote = self.quote(scope, None)
            self.references[scope] = (window, quote.rate if quote else 0)
        reference = self.references[scope][1]
        if reference == 0:
            return price
        return min(price, reference * (10_000 + guard.rise) // 10_000)

    def take_an_idle_leaf_or_rest(self, order: Order) -> None:
        leaf = self.idle_leaf_for(order)
        if leaf:
            del self.orders[order.id]
            self.transfer(leaf, order, "idle")
        else:
            self.press(order)

    def press(self, order: Order) -> None:
        """While the order rests and passes a limit, the weakest leaf goes to the best."""
        while order.id in self.orders:
            passed = [
                (leaf.holding.limit, place, leaf)
                for place, leaf in enumerate(self.leaves_under(order.scope))
                if leaf.holding
                and not leaf.holding.protected
                and leaf.holding.tenant != order.tenant
                and leaf.holding.limit < order.bid
            ]
            if not passed:
                return
            self.pass_on(min(passed, key=lambda entry: entry[:2])[2], "outbid", notice=True)

    def checked_order(self, tenant: str, id: str) -> Order:
        check(is_name(tenant), Code.BAD_TENANT)
        check(is_name(id), Code.BAD_ORDER_ID)
        check(id in self.orders and self.orders[id].tenant == tenant, Code.UNKNOWN_ORDER)
        return self.orders[id]

    def amend_an_order(self, command: model.Amend) -> None:
        old = self.checked_order(command.tenant, command.order)
        check(not old.is_gang or command.price is None, Code.GANG_HAS_NO_PRICE)
        check(command.price is None or is_amount(command.price, 1), Code.BAD_PRICE)
        check(command.limit is None or is_amount(command.limit, 1), Code.BAD_LIMIT)
        price = old.price if command.price is None else command.price
        limit = old.limit if command.limit is None else command.limit
        check(price is None or price <= limit, Code.PRICE_ABOVE_LIMIT)
        expires = old.expires
        if not isinstance(command.expires, UnsetType):
            self.check_expiry(command.expires)
            expires = command.expires
        del self.orders[old.id]
        terms = (price, limit, expires, self.next_sequence(), old.count, old.within)
        self.post(Order(old.tenant, old.id, old.scope, *terms), model.Amended)

    def cancel_an_order(self, command: model.Cancel) -> None:
        order = self.checked_order(command.tenant, command.order)
        del self.orders[order.id]
        self.say(model.Cancelled(self.now, order.tenant, order.id))

    # Holders

    def set_a_retention_limit(self, command: model.SetLimit) -> None:
        check(is_name(command.tenant), Code.BAD_TENANT)
        leaf = self.checked_resource(command.resource)
        check(is_amount(command.limit, 0), Code.BAD_LIMIT)
        check(leaf.owner == command.tenant, Code.NOT_THE_HOLDER)
        check(leaf.call is None, Code.ALREADY_CALLED)
        holding = leaf.holding
        assert holding
        holding.limit, holding.asked = command.limit, None
        if holding.commitment_ends is not None and command.limit < holding.bid:
            holding.limit, holding.asked = holding.bid, command.limit
        self.say(model.LimitSet(self.now, command.tenant, leaf.path, holding.limit))
        self.limit_acts(leaf)

    def relinquish_a_leaf(self, command: model.Relinquish) -> None:
        """A holding, called or not; or else a promise."""
        check(is_name(command.tenant), Code.BAD_TENANT)
        leaf = self.checked_resource(command.resource)
        order = leaf.promised_to
        promised = order is not None and order.tenant == command.tenant
        check(leaf.owner == command.tenant or promised, Code.NOT_THE_HOLDER)
        if leaf.owner == command.tenant:
            self.give_up(leaf)
        else:
            self.give_promise_back(leaf)

    # The operator's floors and guards

    def set_a_floor(self, command: model.SetFloor) -> None:
        check(is_path(command.scope), Code.BAD_PATH)
        check(is_amount(command.floor, 0), Code.BAD_FLOOR)
        check(not self.is_under_a_resource(command.scope), Code.PATH_UNDER_A_RESOURCE)
        floor = self.floors.setdefault(command.scope, Floor(command.scope))
        floor.sequence = self.next_sequence()
        self.move_floor(floor, command.floor)

    def move_floor(self, floor: Floor, asked: int) -> None:
        """As far as the guard allows now; then those it touches lose or win their leaves."""
        floor.standing = self.allowed_floor(floor, asked)
        floor.asked = asked
        floor.moved = self.now
        self.say(model.FloorSet(self.now, floor.scope, floor.standing, floor.asked))
        self.floor_takes_leaves(floor.scope)
        self.floor_frees_leaves(floor.scope)

    def allowed_floor(self, floor: Floor, asked: int) -> int:
        guard = self.guard_of(floor.scope)
        if guard.fall is None or guard.window is None:
            return asked
        window = self.now // guard.window
        if floor.window != window:
            floor.window, floor.stood = window, floor.standing
        lowest = min(floor.stood - guard.fall, floor.standing)  # a floor asked down never rises
        return max(asked, lowest)

    def floor_takes_leaves(self, scope: str) -> None:
        """Holders whose limit is now below their leaf's floor lose it, lowest limit first.

        A gang of one of them may take leaves of others on the way, so each time all are looked at.
        """
        while losing := [
            (leaf.holding.limit, place, leaf)
            for place, leaf in enumerate(self.leaves_under(scope))
            if leaf.holding
            and not leaf.holding.protected
            and leaf.holding.limit < self.floor_of(leaf)
        ]:
            self.pass_on(min(losing, key=lambda entry: entry[:2])[2], "floor", notice=True)

    def floor_frees_leaves(self, scope: str) -> None:
        """Idle leaves, lowest floor first, are offered one by one."""
        for leaf in sorted(self.idle_leaves_under(scope), key=self.floor_of):
            if leaf.holding is None:
                self.pass_on(leaf, "idle")

    def set_a_guard(self, command: model.SetGuard) -> None:
        """Calls and commitments that run already go on as they began."""
        self.check_guard(command)
        c, tree, old = command, command.tree, self.guard_of(command.tree)
        new = Guard(c.rise, c.fall, c.hold, c.window, c.notice, c.commit)
        self.guards[tree] = new
        terms = new.rise, new.fall, new.hold, new.window, new.notice, new.commit
        self.say(model.GuardSet(self.now, tree, *terms))
        if new.rise is None or new.window != old.window:
            self.references = {s: r for s, r in self.references.items() if root(s) != tree}
        floors = [floor for floor in self.floors.values() if root(floor.scope) == tree]
        if new.fall is None or new.window != old.window:
            for floor in floors:
                floor.window = None
        on_their_way = [floor for floor in floors if floor.standing > floor.asked]
        for floor in sorted(on_their_way, key=lambda floor: floor.sequence):
            floor.sequence = self.next_sequence()
            floor.moved = self.now
            if new.fall is None:
                self.move_floor(floor, floor.asked)

    def check_guard(self, command: model.SetGuard) -> None:
        check(is_path(command.tree), Code.BAD_PATH)
        check(depth(command.tree) == 1, Code.NOT_A_TREE)
        for value in (command.rise, command.fall, command.hold):
            check(value is None or is_amount(value, 0), Code.BAD_GUARD)
        for value in (command.notice, command.commit):
            check(value is None or (is_amount(value, 0) and value <= DAY), Code.BAD_GUARD)
        check(command.window is None or is_amount(command.window, 1), Code.BAD_GUARD)
        needs_window = command.rise is not None or command.fall is not None
        check(not needs_window or command.window is not None, Code.BAD_GUARD)

    # Money

    def settle_everyone(self, command: model.Settle) -> None:
        for path in self.leaves():
            if self.resources[path].holding:
                self.settle_holding(self.resources[path])
