"""The oracle: a market that is slow and obviously right.

The fast market is compared with this one, event by event and answer by answer. So nothing here
is clever: no summaries, no heaps, no caches. An order is looked at for every leaf it covers, a
leaf's floor, rate and winner are worked out from all floors and all orders each time somebody
asks, the next timer is the least of all timers, and every holding is charged at every instant at
which anything happens. Where a function reads like a sentence of the market contract (or of
`docs/decisions.md`), it is meant to be that sentence.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from msgspec import UNSET, UnsetType

from laissez import model
from laissez.model import Code, Command, Event, Segment, Settled, Unanswerable
from laissez.model.events import Reason
from laissez.model.values import Cause

ABOVE_THE_ROOTS = ""
DEEPEST = 128
TOO_MUCH = 2**63


class Refused(Exception):
    """The command breaks a rule."""

    def __init__(self, code: Code) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class Order:
    tenant: str
    id: str
    scope: str
    price: int
    limit: int
    expires: int | None
    sequence: int


@dataclass
class Holding:
    """One tenant's time with one leaf; `segments` are what is not yet settled of it."""

    tenant: str
    limit: int
    won_with: int
    sequence: int
    since: int
    charged_to: int
    hold_ends: int | None  # None when there is no hold, or when it is over
    limit_put_off: bool = False  # in the hold, the limit was last set below the rate
    segments: list[Segment] = field(default_factory=list)


@dataclass
class Leaf:
    path: str
    attributes: tuple[tuple[str, str], ...]
    holding: Holding | None = None

    @property
    def owner(self) -> str | None:
        return self.holding.tenant if self.holding else None


@dataclass
class Floor:
    scope: str
    standing: int = 0
    asked: int = 0
    sequence: int = 0
    moved: int = 0  # when it last moved, or was left on its way by a command
    window: int | None = None  # the window in which `stood` was read, None if it was not
    stood: int = 0


@dataclass(frozen=True)
class Guard:
    rise: int | None = None
    fall: int | None = None
    hold: int | None = None
    window: int | None = None


def is_amount(value: object, lowest: int) -> bool:
    return type(value) is int and lowest <= value < TOO_MUCH


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


def check(rule: bool, code: Code) -> None:
    if not rule:
        raise Refused(code)


def cannot_say(code: Code) -> NoReturn:
    raise Unanswerable(code, str(code))


def parent(path: str) -> str:
    return path.rpartition("/")[0]


def root(path: str) -> str:
    return path.partition("/")[0]


def ancestors(path: str) -> list[str]:
    """The proper ancestors of a path, root first."""
    segments = path.split("/")
    return ["/".join(segments[:depth]) for depth in range(1, len(segments))]


def depth(path: str) -> int:
    return len(path.split("/"))


def covers(scope: str, path: str) -> bool:
    return path == scope or path.startswith(scope + "/")


def joined(segments: Sequence[Segment], new: Segment) -> list[Segment]:
    """The segments with one more at their end: none if it is empty, one longer if it is equal."""
    start, end, rate, cause = new
    if start == end:
        return list(segments)
    if segments and segments[-1][2:] == (rate, cause):
        return [*segments[:-1], (segments[-1][0], end, rate, cause)]
    return [*segments, new]


def charge_of(segments: Sequence[Segment]) -> int:
    return sum((end - start) * rate for start, end, rate, _ in segments)


class NaiveMarket:
    def __init__(self) -> None:
        self.now = 0
        self.sequence = 0
        self.children: dict[str, list[str]] = {ABOVE_THE_ROOTS: []}  # of every inner scope
        self.resources: dict[str, Leaf] = {}
        self.orders: dict[str, Order] = {}
        self.floors: dict[str, Floor] = {}
        self.guards: dict[str, Guard] = {}
        self.references: dict[str, tuple[int, int]] = {}  # scope: (window, quote or 0)
        self.statements: list[Settled] = []
        self.acted: list[str] = []
        self.events: list[Event] = []

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
    ) -> tuple[Event, ...]:
        return self.apply(model.Place(at, tenant, order, scope, price, limit, expires))

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
        at: Any,
    ) -> tuple[Event, ...]:
        return self.apply(model.SetGuard(at, tree, rise, fall, hold, window))

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
        if isinstance(command, model.Place) and command.tenant not in self.acted:
            self.acted.append(command.tenant)

    def say(self, event: Event) -> None:
        self.events.append(event)

    def next_sequence(self) -> int:
        self.sequence += 1
        return self.sequence

    # Time: whatever falls due acts at its own instant, before the command

    def timers(self) -> list[tuple[int, int, int, Order | Floor | Leaf]]:
        """All that will fall due: (when, kind, sequence, what)."""
        found: list[tuple[int, int, int, Order | Floor | Leaf]] = []
        for order in self.orders.values():
            if order.expires is not None:
                found.append((order.expires, 0, order.sequence, order))
        for floor in self.floors.values():
            guard = self.guard_of(floor.scope)
            if floor.standing > floor.asked and guard.fall and guard.window:
                boundary = (floor.moved // guard.window + 1) * guard.window
                found.append((boundary, 1, floor.sequence, floor))
        for leaf in self.resources.values():
            if leaf.holding and leaf.holding.hold_ends is not None:
                found.append((leaf.holding.hold_ends, 2, leaf.holding.sequence, leaf))
        return sorted(found, key=lambda timer: timer[:3])

    def let_time_pass_until(self, at: int) -> None:
        while (timers := self.timers()) and timers[0][0] <= at:
            due, _, _, what = timers[0]
            self.charge_everyone_until(due)
            if isinstance(what, Order):
                self.expire(what)
            elif isinstance(what, Floor):
                self.move_floor(what, what.asked)
            else:
                self.end_hold(what)
        self.charge_everyone_until(at)

    def charge_everyone_until(self, at: int) -> None:
        for leaf in self.resources.values():
            if leaf.holding:
                leaf.holding.segments = self.open_segments(leaf, at)
                leaf.holding.charged_to = at
        self.now = at

    def expire(self, order: Order) -> None:
        del self.orders[order.id]
        self.say(model.Expired(self.now, order.tenant, order.id))

    def end_hold(self, leaf: Leaf) -> None:
        """At that instant the rules apply again; what the hold put off keeps its reason."""
        holding = leaf.holding
        assert holding
        holding.hold_ends = None
        if self.uncapped_rate(leaf) > holding.limit:
            if holding.limit_put_off:
                self.give_to_winner(leaf, "limit")
            elif self.floor_of(leaf) > holding.limit:
                self.give_to_winner(leaf, "floor")
            else:
                self.give_to_winner(leaf, "outbid")

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
        self.give_idle_leaf_to_winner(self.resources[path])

    def withdraw_a_leaf(self, command: model.Withdraw) -> None:
        leaf = self.checked_resource(command.resource)
        if leaf.holding:
            self.transfer(leaf, None, "withdrawn")
        del self.resources[leaf.path]
        self.children[parent(leaf.path)].remove(leaf.path)
        self.say(model.ResourceWithdrawn(self.now, leaf.path))

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

    def in_tree_order(self, node: str = ABOVE_THE_ROOTS) -> Iterator[str]:
        """Every scope below a node, depth first, children in the order of their coming."""
        for child in self.children.get(node, []):
            yield child
            yield from self.in_tree_order(child)

    def scopes(self) -> list[str]:
        return list(self.in_tree_order())

    def leaves(self) -> list[str]:
        return [path for path in self.in_tree_order() if path in self.resources]

    def leaves_under(self, scope: str) -> list[Leaf]:
        return [self.resources[path] for path in self.leaves() if covers(scope, path)]

    def idle_leaves_under(self, scope: str) -> list[Leaf]:
        return [leaf for leaf in self.leaves_under(scope) if leaf.holding is None]

    # Floor, rate, winner

    def floor_of(self, leaf: Leaf) -> int:
        """The highest floor set on the leaf's path, 0 where none is."""
        on_path = [f.standing for f in self.floors.values() if covers(f.scope, leaf.path)]
        return max(on_path, default=0)

    def orders_covering(self, leaf: Leaf) -> list[Order]:
        return [order for order in self.orders.values() if covers(order.scope, leaf.path)]

    def uncapped_rate(self, leaf: Leaf) -> int:
        """The floor, or the highest price of a covering order of a tenant other than the owner."""
        if leaf.holding is None:
            return self.floor_of(leaf)
        rivals = [o.price for o in self.orders_covering(leaf) if o.tenant != leaf.owner]
        return max([self.floor_of(leaf), *rivals])

    def charged(self, leaf: Leaf) -> tuple[int, Cause]:
        """What is charged for the leaf now, and why."""
        rate = self.uncapped_rate(leaf)
        if leaf.holding and leaf.holding.hold_ends is not None and leaf.holding.won_with < rate:
            return leaf.holding.won_with, "hold"
        return rate, "demand" if rate > self.floor_of(leaf) else "floor"

    def winner(self, leaf: Leaf) -> Order | None:
        """Highest limit first, then the finest scope, then the earliest."""
        floor = self.floor_of(leaf)
        able = [order for order in self.orders_covering(leaf) if order.limit >= floor]
        return max(able, key=lambda o: (o.limit, depth(o.scope), -o.sequence), default=None)

    # A leaf changes hands

    def give_to_winner(self, leaf: Leaf, reason: Reason) -> None:
        """Or to the operator, if there is no winner."""
        self.transfer(leaf, self.winner(leaf), reason)

    def give_idle_leaf_to_winner(self, leaf: Leaf) -> None:
        if self.winner(leaf):
            self.give_to_winner(leaf, "idle")

    def transfer(self, leaf: Leaf, order: Order | None, reason: Reason) -> None:
        old = leaf.owner
        if leaf.holding:
            self.settle_holding(leaf)
            leaf.holding = None
        if order:
            del self.orders[order.id]
            leaf.holding = self.new_holding(leaf, order)
        filled = order.id if order else None
        self.say(model.Transferred(self.now, leaf.path, old, leaf.owner, filled, reason))

    def new_holding(self, leaf: Leaf, order: Order) -> Holding:
        hold = self.guard_of(leaf.path).hold
        return Holding(
            tenant=order.tenant,
            limit=order.limit,
            won_with=order.limit,
            sequence=self.next_sequence(),
            since=self.now,
            charged_to=self.now,
            hold_ends=self.now + hold if hold else None,
        )

    # Orders

    def place_an_order(self, command: model.Place) -> None:
        self.check_place(command)
        who, id, scope = command.tenant, command.order, command.scope
        price, limit = self.price_of(command), self.limit_of(command)
        order = Order(who, id, scope, price, limit, command.expires, self.next_sequence())
        self.post(order, model.Placed)

    def post(self, order: Order, said: type[model.Placed | model.Amended]) -> None:
        o = order
        o.price = self.clipped(o.scope, o.price)
        self.orders[o.id] = o
        self.say(said(self.now, o.tenant, o.id, o.scope, o.price, o.limit, o.expires))
        self.take_an_idle_leaf_or_rest(o)

    def check_place(self, command: model.Place) -> None:
        price, limit = command.price, command.limit
        check(is_name(command.tenant), Code.BAD_TENANT)
        check(is_name(command.order), Code.BAD_ORDER_ID)
        check(is_path(command.scope), Code.BAD_PATH)
        exists = command.scope in self.children or command.scope in self.resources
        check(exists, Code.UNKNOWN_SCOPE)
        check(not (price is None and limit is None), Code.NO_PRICE)
        check(price is None or is_amount(price, 1), Code.BAD_PRICE)
        check(limit is None or is_amount(limit, 1), Code.BAD_LIMIT)
        check(price is None or limit is None or price <= limit, Code.PRICE_ABOVE_LIMIT)
        self.check_expiry(command.expires)
        check(command.order not in self.orders, Code.ORDER_ID_TAKEN)

    def check_expiry(self, expires: object) -> None:
        check(expires is None or is_amount(expires, self.now + 1), Code.BAD_EXPIRY)

    def limit_of(self, command: model.Place) -> int:
        limit = command.price if command.limit is None else command.limit
        assert limit is not None
        return limit

    def price_of(self, command: model.Place) -> int:
        """As given, or the tenant's quote of the scope, at least 1 and at most the limit."""
        if command.price is not None:
            return command.price
        quote = self.quote(command.scope, command.tenant)
        limit = self.limit_of(command)
        return limit if quote is None else min(max(1, quote.rate), limit)

    def clipped(self, scope: str, price: int) -> int:
        """A posted price, after the guard against rising."""
        guard = self.guard_of(scope)
        if guard.rise is None or guard.window is None:
            return price
        window = self.now // guard.window
        if scope not in self.references or self.references[scope][0] != window:
            quote = self.quote(scope, None)
            self.references[scope] = (window, quote.rate if quote else 0)
        reference = self.references[scope][1]
        if reference == 0:
            return price
        return min(price, reference * (10_000 + guard.rise) // 10_000)

    def take_an_idle_leaf_or_rest(self, order: Order) -> None:
        idle = self.idle_leaves_under(order.scope)
        lowest = min((self.floor_of(leaf) for leaf in idle), default=None)
        if lowest is not None and lowest <= order.limit:
            self.transfer(self.most_spread_leaf(order.scope, lowest), order, "idle")
        else:
            self.press(order)

    def most_spread_leaf(self, scope: str, floor: int) -> Leaf:
        """Down from the scope, into the child with most idle leaves of those with such a leaf."""
        while scope not in self.resources:
            able = [
                child
                for child in self.children[scope]
                if any(self.floor_of(leaf) == floor for leaf in self.idle_leaves_under(child))
            ]
            scope = max(able, key=lambda child: len(self.idle_leaves_under(child)))
        return self.resources[scope]

    def press(self, order: Order) -> None:
        """While the order rests and passes a limit, the weakest leaf goes to its winner."""
        while order.id in self.orders:
            passed = [
                (leaf.holding.limit, place, leaf)
                for place, leaf in enumerate(self.leaves_under(order.scope))
                if leaf.holding
                and leaf.holding.hold_ends is None
                and leaf.holding.tenant != order.tenant
                and leaf.holding.limit < order.price
            ]
            if not passed:
                return
            self.give_to_winner(min(passed, key=lambda entry: entry[:2])[2], "outbid")

    def checked_order(self, tenant: str, id: str) -> Order:
        check(is_name(tenant), Code.BAD_TENANT)
        check(is_name(id), Code.BAD_ORDER_ID)
        check(id in self.orders and self.orders[id].tenant == tenant, Code.UNKNOWN_ORDER)
        return self.orders[id]

    def amend_an_order(self, command: model.Amend) -> None:
        old = self.checked_order(command.tenant, command.order)
        check(command.price is None or is_amount(command.price, 1), Code.BAD_PRICE)
        check(command.limit is None or is_amount(command.limit, 1), Code.BAD_LIMIT)
        price = old.price if command.price is None else command.price
        limit = old.limit if command.limit is None else command.limit
        check(price <= limit, Code.PRICE_ABOVE_LIMIT)
        expires = old.expires
        if not isinstance(command.expires, UnsetType):
            self.check_expiry(command.expires)
            expires = command.expires
        del self.orders[old.id]
        terms = (price, limit, expires, self.next_sequence())
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
        holding = leaf.holding
        assert holding
        holding.limit = command.limit
        self.say(model.LimitSet(self.now, command.tenant, leaf.path, command.limit))
        passed = self.uncapped_rate(leaf) > holding.limit
        if holding.hold_ends is not None:
            holding.limit_put_off = passed
        elif passed:
            self.give_to_winner(leaf, "limit")

    def relinquish_a_leaf(self, command: model.Relinquish) -> None:
        check(is_name(command.tenant), Code.BAD_TENANT)
        leaf = self.checked_resource(command.resource)
        check(leaf.owner == command.tenant, Code.NOT_THE_HOLDER)
        self.give_to_winner(leaf, "relinquished")

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
        """Holders whose limit is now below their leaf's floor lose it, lowest limit first."""
        losing = [
            (leaf.holding.limit, place, leaf)
            for place, leaf in enumerate(self.leaves_under(scope))
            if leaf.holding
            and leaf.holding.hold_ends is None
            and leaf.holding.limit < self.floor_of(leaf)
        ]
        for _, _, leaf in sorted(losing, key=lambda entry: entry[:2]):
            self.give_to_winner(leaf, "floor")

    def floor_frees_leaves(self, scope: str) -> None:
        """Idle leaves, lowest floor first, go to their winner if there is one."""
        for leaf in sorted(self.idle_leaves_under(scope), key=self.floor_of):
            self.give_idle_leaf_to_winner(leaf)

    def guard_of(self, path: str) -> Guard:
        return self.guards.get(root(path), Guard())

    def set_a_guard(self, command: model.SetGuard) -> None:
        self.check_guard(command)
        tree, old = command.tree, self.guard_of(command.tree)
        new = Guard(command.rise, command.fall, command.hold, command.window)
        self.guards[tree] = new
        self.say(model.GuardSet(self.now, tree, new.rise, new.fall, new.hold, new.window))
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
        check(command.window is None or is_amount(command.window, 1), Code.BAD_GUARD)
        needs_window = command.rise is not None or command.fall is not None
        check(not needs_window or command.window is not None, Code.BAD_GUARD)

    # Money

    def settle_everyone(self, command: model.Settle) -> None:
        for path in self.leaves():
            if self.resources[path].holding:
                self.settle_holding(self.resources[path])

    def settle_holding(self, leaf: Leaf) -> None:
        """Says what is open of a holding and starts a new statement period."""
        holding = leaf.holding
        assert holding
        charge, segments = charge_of(holding.segments), model.Segments(holding.segments)
        statement = Settled(self.now, holding.tenant, leaf.path, holding.since, charge, segments)
        self.statements.append(statement)
        self.say(statement)
        holding.since, holding.segments = self.now, []

    def open_segments(self, leaf: Leaf, at: int) -> list[Segment]:
        holding = leaf.holding
        assert holding
        return joined(holding.segments, (holding.charged_to, at, *self.charged(leaf)))

    def check_answerable(self, at: int) -> None:
        timer = self.next_timer()
        if not is_amount(at, 0):
            cannot_say(Code.BAD_TIME)
        if at < self.now:
            cannot_say(Code.TIME_WENT_BACK)
        if timer is not None and at > timer:
            cannot_say(Code.BEYOND_NEXT_TIMER)

    # The questions

    def next_timer(self) -> int | None:
        timers = self.timers()
        return timers[0][0] if timers else None

    def resource(self, path: str) -> Leaf:
        if path not in self.resources:
            cannot_say(Code.UNKNOWN_RESOURCE)
        return self.resources[path]

    def owner(self, path: str) -> str | None:
        return self.resource(path).owner

    def limit(self, path: str) -> int | None:
        holding = self.resource(path).holding
        return holding.limit if holding else None

    def rate(self, path: str) -> int:
        return self.charged(self.resource(path))[0]

    def quote(self, scope: str, tenant: str | None) -> model.Quote | None:
        idle = self.idle_leaves_under(scope)
        if idle:
            return model.Quote(min(self.floor_of(leaf) for leaf in idle), True)
        others = [leaf for leaf in self.leaves_under(scope) if leaf.owner != tenant]
        if others:
            return model.Quote(min(self.uncapped_rate(leaf) for leaf in others), False)
        return None

    def bill(self, tenant: str, at: int) -> int:
        """All that was settled plus what is open."""
        settled = sum(statement.charge for statement in self.statements_of(tenant))
        return settled + sum(map(charge_of, self.segments(tenant, at).values()))

    def statements_of(self, tenant: str) -> list[Settled]:
        return [statement for statement in self.statements if statement.tenant == tenant]

    def segments(self, tenant: str, at: int) -> dict[str, tuple[Segment, ...]]:
        self.check_answerable(at)
        held = [leaf for leaf in map(self.resource, self.leaves()) if leaf.owner == tenant]
        return {leaf.path: tuple(self.open_segments(leaf, at)) for leaf in held}

    def revenue(self, at: int) -> int:
        """What the operator earned, counted by resources, not by tenants."""
        self.check_answerable(at)
        held = [leaf for leaf in self.resources.values() if leaf.holding]
        settled = sum(statement.charge for statement in self.statements)
        return settled + sum(charge_of(self.open_segments(leaf, at)) for leaf in held)

    def visible(self, tenant: str) -> set[str]:
        """Every root, and every proper ancestor of a leaf that the tenant holds now."""
        held = [path for path, leaf in self.resources.items() if leaf.owner == tenant]
        roots = self.children[ABOVE_THE_ROOTS]
        return {*roots, *(scope for path in held for scope in ancestors(path))}

    def tenants(self) -> list[str]:
        """All that ever placed an order, and so all that ever did anything with success."""
        return list(self.acted)
