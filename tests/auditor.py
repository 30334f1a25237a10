"""An auditor of markets, who only reads what is said.

From the events alone it works out who holds what, what waits, what is called and promised, and
what the contract says must follow: no rate above a limit outside hold and notice, no idle leaf
with a winner, no waiting gang with a domain that suits it, a gang filled whole or not at all,
every promise kept, every bill explained. It knows nothing of how a market decides.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest

from laissez import model
from laissez.model import Command, Event, OpenOrder, Quote, Rejected, Segment, Settled

Said = model.Placed | model.Amended


@cache
def line(path: str) -> tuple[str, ...]:
    """All scopes that cover a path, from its root down to itself."""
    segments = path.split("/")
    return tuple("/".join(segments[:depth]) for depth in range(1, len(segments) + 1))


@dataclass
class Held:
    tenant: str
    limit: int
    won_with: int
    bid: int
    protected_until: int
    bound_until: int
    since: int
    called: int | None = None


@dataclass(frozen=True)
class Facts:
    """What the rules say about one leaf; `rate` is before the cap of a hold, and without a call."""

    owner: str | None
    floor: int
    rate: int
    called: bool = False


def bid_of(order: Said) -> int:
    return order.limit if order.price is None else order.price


class Auditor:
    def __init__(self) -> None:
        self.orders: dict[str, Said] = {}
        self.floors: dict[str, int] = {}
        self.guards: dict[str, model.GuardSet] = {}
        self.leaves: dict[str, Held | None] = {}
        self.promises: dict[str, Said] = {}  # by resource
        self.settled: Counter[str] = Counter()
        self.statements: list[tuple[Settled, Segment | None]] = []  # with what a commitment adds
        self.filling: dict[str, tuple[Said, int]] = {}  # gangs, and how many leaves are due to them
        self.to_return: dict[str, Said] = {}  # orders whose promised leaf was withdrawn
        self.seen: Counter[str] = Counter()  # how often what happened

    def read(self, events: Sequence[Event], command: Command) -> None:
        for event, after in zip_longest(events, events[1:]):
            self.seen[type(event).__name__] += 1
            assert after is None or not isinstance(event, Rejected)
            if isinstance(event, Settled):
                self.statements.append((event, self.read_statement(event, after)))
            else:
                self.read_one(event)
        assert not any(left for _, left in self.filling.values()), "a gang is half filled"
        assert not self.to_return, "an order whose promised leaf was withdrawn did not come back"
        self.filling.clear()
        if isinstance(command, model.Relinquish):
            self.read_silence(events, command)

    def read_silence(self, events: Sequence[Event], command: model.Relinquish) -> None:
        """Where there is no `commit`, and a call goes on, nobody says that a promise is no more."""
        order = self.promises.get(command.resource)
        if order is None or order.tenant != command.tenant:
            return
        for event in events:
            match event:
                case model.Transferred(resource=resource, old=old, reason="relinquished"):
                    if (resource, old) == (command.resource, command.tenant):
                        return
                case model.Uncalled(resource=command.resource) | Rejected():
                    return
        del self.promises[command.resource]

    def read_one(self, event: Event) -> None:
        match event:
            case model.ResourceAdded():
                assert event.resource not in self.leaves
                self.leaves[event.resource] = None
            case model.ResourceWithdrawn():
                assert self.leaves.pop(event.resource) is None
            case model.FloorSet():
                self.floors[event.scope] = event.floor
            case model.GuardSet():
                self.guards[event.tree] = event
            case model.Placed() | model.Amended():
                self.read_order(event)
            case model.Cancelled() | model.Expired():
                assert self.orders.pop(event.order).tenant == event.tenant
            case model.LimitSet():
                held = self.holding(event.resource, event.tenant)
                assert held.called is None
                assert event.limit >= held.bid or event.at >= held.bound_until
                held.limit = event.limit
            case model.Called():
                held = self.holding(event.resource, event.tenant)
                assert held.called is None and event.at >= held.protected_until
                held.called = event.until
            case model.Promised():
                held_now = self.leaves[event.resource]
                assert held_now is not None and held_now.called == event.until
                assert event.resource not in self.promises
                self.promises[event.resource] = self.filled(event.order, event.tenant)
            case model.Uncalled():
                held = self.holding(event.resource, event.tenant)
                assert held.called is not None
                held.called = None
                self.promises.pop(event.resource, None)
            case model.Transferred():
                self.read_transfer(event)
            case Rejected():
                pass

    def read_order(self, event: Said) -> None:
        assert (event.order in self.orders) == isinstance(event, model.Amended)
        assert all(order.order != event.order for order in self.promises.values())
        if event.count == 1:
            assert event.price is not None and 0 < event.price <= event.limit
            assert event.within is None
        else:
            assert event.price is None and event.count > 1 and event.within is not None
        returned = self.to_return.pop(event.order, None)
        if returned:
            assert (event.tenant, event.scope) == (returned.tenant, returned.scope)
            assert (event.limit, event.expires) == (returned.limit, returned.expires)
        self.filling.pop(event.order, None)
        self.orders[event.order] = event

    def filled(self, name: str, tenant: str | None) -> Said:
        """An order gets one leaf, or the promise of one, and is gone from the book."""
        if name in self.filling:
            order, left = self.filling[name]
            assert left, "more than it asked for"
        else:
            order = self.orders.pop(name)
            left = order.count
        self.filling[name] = order, left - 1
        assert order.tenant == tenant
        return order

    def holding(self, resource: str, tenant: str) -> Held:
        held = self.leaves[resource]
        assert held is not None and held.tenant == tenant
        return held

    def read_statement(self, event: Settled, after: Event | None) -> Segment | None:
        """The last segment that it must have because of a commitment, if any.

        Its explanation is not read yet, for that can change when it is worked out.
        """
        self.settled[event.tenant] += event.charge
        order, held = self.promises.get(event.resource), self.leaves[event.resource]
        assert held is not None
        if held.tenant != event.tenant:  # it gives a promise back
            assert order is not None and order.tenant == event.tenant
            assert event.since == event.at
            del self.promises[event.resource]
            commit = self.guards[line(event.resource)[0]].commit
            assert commit
            return (event.at, event.at + commit, bid_of(order), "commit")
        assert event.since == held.since
        held.since = event.at
        if isinstance(after, model.Transferred) and after.reason == "relinquished":
            assert after.resource == event.resource
            if held.called is None and event.at < held.bound_until:
                return (event.at, held.bound_until, held.bid, "commit")
        return None

    def read_transfer(self, event: model.Transferred) -> None:
        held = self.leaves[event.resource]
        assert event.old == (held.tenant if held else None)
        assert held is None or held.since == event.at, "a holding ends with its statement"
        self.leaves[event.resource] = None
        assert (event.new is None) == (event.order is None)
        promised = self.promises.pop(event.resource, None)
        if event.reason == "withdrawn":
            assert event.new is None
            live = promised and (promised.expires is None or promised.expires > event.at)
            if promised and promised.count == 1 and live:
                self.to_return[promised.order] = promised
            return
        assert promised is None or promised.order == event.order, "a promise was broken"
        if event.order is None:
            return
        order = promised or self.filled(event.order, event.new)
        assert order.tenant == event.new and order.scope in line(event.resource)
        guard = self.guards.get(line(event.resource)[0])
        self.leaves[event.resource] = Held(
            tenant=order.tenant,
            limit=order.limit,
            won_with=order.limit,
            bid=bid_of(order),
            protected_until=event.at + ((guard and guard.hold) or 0),
            bound_until=event.at + ((guard and guard.commit) or 0),
            since=event.at,
        )

    def facts(self, now: int) -> dict[str, Facts]:
        """Floor and rate of every leaf; on the way, what is true after every command."""
        resting: dict[str, list[Said]] = defaultdict(list)
        for order in self.orders.values():
            if order.count == 1:
                resting[order.scope].append(order)
        facts: dict[str, Facts] = {}
        for path, held in self.leaves.items():
            floor = max(self.floors.get(scope, 0) for scope in line(path))
            covering = [order for scope in line(path) for order in resting.get(scope, ())]
            if held is None:
                assert all(order.limit < floor for order in covering), f"{path} has a winner"
                facts[path] = Facts(None, floor, floor)
                continue
            rivals = [order.price or 0 for order in covering if order.tenant != held.tenant]
            rate, called = max([floor, *rivals]), held.called is not None
            free = now < held.protected_until or called
            assert rate <= held.limit or free, f"{path} is too dear"
            facts[path] = Facts(held.tenant, floor, rate, called)
        self.check_gangs(facts, now)
        return facts

    def check_gangs(self, facts: Mapping[str, Facts], now: int) -> None:
        for gang in self.orders.values():
            if gang.count == 1:
                continue
            assert gang.within is not None
            found: Counter[str] = Counter()
            for path, leaf in facts.items():
                covered = gang.scope in line(path) and len(line(path)) >= gang.within
                if covered and self.is_open(path, leaf, gang, now):
                    found[line(path)[gang.within - 1]] += 1
            assert all(found[domain] < gang.count for domain in found), f"{gang.order} is suited"

    def is_open(self, path: str, leaf: Facts, gang: Said, now: int) -> bool:
        held = self.leaves[path]
        if held is None:
            return leaf.floor <= gang.limit
        defended = any(
            order.tenant == held.tenant
            and order.price is not None
            and order.price > gang.limit
            and order.scope in line(path)
            for order in self.orders.values()
        )
        protected = held.called is not None or now < held.protected_until
        mine = held.tenant == gang.tenant
        return not (defended or protected or mine) and held.limit < gang.limit

    def charged(self, path: str, facts: Facts, now: int) -> int:
        held = self.leaves[path]
        if held is not None and held.called is not None:
            return held.limit
        if held is not None and now < held.protected_until:
            return min(facts.rate, held.won_with)
        return facts.rate

    def orders_of(self, tenant: str) -> tuple[OpenOrder, ...]:
        """In no order that the auditor could know of after an amendment: sort before comparing."""
        return tuple(
            OpenOrder(o.tenant, o.order, o.scope, o.price, o.limit, o.expires, o.count, o.within)
            for o in self.orders.values()
            if o.tenant == tenant
        )

    def promises_of(self, tenant: str) -> dict[str, int | None]:
        called = {path: held.called for path, held in self.leaves.items() if held}
        return {path: called[path] for path, o in self.promises.items() if o.tenant == tenant}


def quote_from(
    covered: Mapping[str, Facts], asker: str | None, count: int = 1, within: int | None = None
) -> Quote | None:
    """What a scope is quoted at, from the facts of the leaves that it covers, by their paths."""
    domains: dict[str, list[tuple[bool, int]]] = defaultdict(list)
    for path, leaf in covered.items():
        shows = leaf.owner is None or (leaf.owner != asker and not leaf.called)
        if shows and (within is None or len(line(path)) >= within):
            domain = line(path)[within - 1] if within else ""
            domains[domain].append((leaf.owner is not None, leaf.rate))
    shown = [sorted(leaves)[:count] for leaves in domains.values() if len(leaves) >= count]
    best = min(((leaves[-1][0], max(r for _, r in leaves)) for leaves in shown), default=None)
    return None if best is None else Quote(best[1], not best[0])


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


def check_statement(settled: Settled, tail: Segment | None) -> None:
    """What a statement says is what it charges; `tail` is what a commitment adds at its end."""
    segments, until = list(settled.segments), settled.at
    if tail is not None:
        assert segments[-1] == tail
        until = tail[1]
    assert check_explanation(segments, settled.since, until) == settled.charge
