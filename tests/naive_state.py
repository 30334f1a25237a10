"""What the oracle knows, and all that can be read off it without changing anything.

See `naive.py`. Nothing here is stored that could be worked out: a leaf's floor, rate and order in
the tree, and the answer to each question, are found by looking at everything.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from laissez import model
from laissez.model import Code, Event, Segment, Settled, Unanswerable
from laissez.model.events import Reason
from laissez.model.values import Cause

ABOVE_THE_ROOTS = ""
DEEPEST = 128
TOO_MUCH = 2**63


@dataclass
class Order:
    """For one leaf, or for `count` of them: then it is a gang, and has no price."""

    tenant: str
    id: str
    scope: str
    price: int | None
    limit: int
    expires: int | None
    sequence: int
    count: int = 1
    within: int | None = None

    @property
    def is_gang(self) -> bool:
        return self.count > 1

    @property
    def bid(self) -> int:
        """What its tenant is bound to pay if it wins: its price, of a gang its limit."""
        return self.limit if self.price is None else self.price


@dataclass
class Call:
    """A holding is to end at `until`; whoever it is promised to has left the book."""

    until: int
    reason: Reason
    sequence: int
    promised_to: Order | None


@dataclass
class Holding:
    """One tenant's time with one leaf; `segments` are what is not yet settled of it."""

    tenant: str
    limit: int
    won_with: int
    bid: int
    sequence: int
    since: int
    charged_to: int
    hold_ends: int | None  # None when there is no hold, or when it is over
    commitment_ends: int | None  # likewise
    asked: int | None = None  # a limit below the bid, to act when the commitment is over
    limit_put_off: bool = False  # in the hold, the limit was last set below the rate
    call: Call | None = None
    segments: list[Segment] = field(default_factory=list)

    @property
    def protected(self) -> bool:
        return self.hold_ends is not None or self.call is not None


@dataclass
class Leaf:
    path: str
    attributes: tuple[tuple[str, str], ...]
    holding: Holding | None = None

    @property
    def owner(self) -> str | None:
        return self.holding.tenant if self.holding else None

    @property
    def call(self) -> Call | None:
        return self.holding.call if self.holding else None

    @property
    def promised_to(self) -> Order | None:
        return self.call.promised_to if self.call else None


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
    notice: int | None = None
    commit: int | None = None


def is_amount(value: object, lowest: int) -> bool:
    return type(value) is int and lowest <= value < TOO_MUCH


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


class NaiveState:
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

    # The tree

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
        """In tree order."""
        if scope in self.resources:
            return [self.resources[scope]]
        return [leaf for child in self.children.get(scope, []) for leaf in self.leaves_under(child)]

    def idle_leaves_under(self, scope: str) -> list[Leaf]:
        return [leaf for leaf in self.leaves_under(scope) if leaf.holding is None]

    def leaves_of(self, tenant: str) -> list[Leaf]:
        """Trees by name, and within each tree in the order of winning."""
        held = [(root(leaf.path), leaf) for leaf in self.resources.values()]
        mine = [(tree, leaf.holding.sequence, leaf) for tree, leaf in held if leaf.holding]
        return [leaf for *_, leaf in sorted(mine, key=lambda m: m[:2]) if leaf.owner == tenant]

    def domains(self, scope: str, within: int) -> list[str]:
        """The nodes with so many names that the scope covers or is, in tree order."""
        nodes = [node for node in self.scopes() if covers(scope, node)]
        return [node for node in nodes if depth(node) == within]

    # Floor, rate, guard

    def floor_of(self, leaf: Leaf) -> int:
        """The highest floor set on the leaf's path, 0 where none is."""
        on_path = [f.standing for f in self.floors.values() if covers(f.scope, leaf.path)]
        return max(on_path, default=0)

    def orders_covering(self, leaf: Leaf) -> list[Order]:
        """Orders for one; a gang that waits presses on nobody."""
        singles = [order for order in self.orders.values() if not order.is_gang]
        return [order for order in singles if covers(order.scope, leaf.path)]

    def uncapped_rate(self, leaf: Leaf) -> int:
        """The floor, or the highest price of a covering order of a tenant other than the owner."""
        if leaf.holding is None:
            return self.floor_of(leaf)
        rivals = [o.bid for o in self.orders_covering(leaf) if o.tenant != leaf.owner]
        return max([self.floor_of(leaf), *rivals])

    def charged(self, leaf: Leaf) -> tuple[int, Cause]:
        """What is charged for the leaf now, and why."""
        rate, holding = self.uncapped_rate(leaf), leaf.holding
        if holding and holding.call:
            return holding.limit, "notice"
        if holding and holding.hold_ends is not None and holding.won_with < rate:
            return holding.won_with, "hold"
        return rate, "demand" if rate > self.floor_of(leaf) else "floor"

    def guard_of(self, path: str) -> Guard:
        return self.guards.get(root(path), Guard())

    # Time

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
            if not leaf.holding:
                continue
            if leaf.holding.hold_ends is not None:
                found.append((leaf.holding.hold_ends, 2, leaf.holding.sequence, leaf))
            if leaf.holding.commitment_ends is not None:
                found.append((leaf.holding.commitment_ends, 3, leaf.holding.sequence, leaf))
            if leaf.holding.call:
                found.append((leaf.holding.call.until, 4, leaf.holding.call.sequence, leaf))
        return sorted(found, key=lambda timer: timer[:3])

    def next_timer(self) -> int | None:
        timers = self.timers()
        return timers[0][0] if timers else None

    def check_answerable(self, at: int) -> None:
        timer = self.next_timer()
        if not is_amount(at, 0):
            cannot_say(Code.BAD_TIME)
        if at < self.now:
            cannot_say(Code.TIME_WENT_BACK)
        if timer is not None and at > timer:
            cannot_say(Code.BEYOND_NEXT_TIMER)

    # The questions

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

    def called(self, path: str) -> int | None:
        call = self.resource(path).call
        return call.until if call else None

    def promises(self, tenant: str) -> dict[str, int]:
        promised = {path: leaf.promised_to for path, leaf in self.resources.items()}
        mine = [path for path, order in promised.items() if order and order.tenant == tenant]
        return {path: until for path in mine if (until := self.called(path)) is not None}

    def holdings(self, tenant: str) -> tuple[str, ...]:
        return tuple(leaf.path for leaf in self.leaves_of(tenant))

    def quote(
        self, scope: str, tenant: str | None, count: int = 1, within: int | None = None
    ) -> model.Quote | None:
        """Of the domains in which so many leaves show, the cheapest; all idle before others."""
        domains = [scope] if within is None else self.domains(scope, within)
        quotes = [quote for d in domains if (quote := self.quote_of_domain(d, tenant, count))]
        return min(quotes, key=lambda quote: (not quote.idle, quote.rate), default=None)

    def quote_of_domain(self, domain: str, tenant: str | None, count: int) -> model.Quote | None:
        """The highest rate of the cheapest leaves, idle ones first."""
        idle = sorted(self.floor_of(leaf) for leaf in self.idle_leaves_under(domain))
        others = [leaf for leaf in self.leaves_under(domain) if leaf.owner not in (None, tenant)]
        held = sorted(self.uncapped_rate(leaf) for leaf in others if not leaf.call)
        if len(idle) + len(held) < count:
            return None
        return model.Quote(max((idle + held)[:count]), len(idle) >= count)

    def open_segments(self, leaf: Leaf, at: int) -> list[Segment]:
        holding = leaf.holding
        assert holding
        return joined(holding.segments, (holding.charged_to, at, *self.charged(leaf)))

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
