"""The book of one scope: the operator's floor and the tenants' orders posted exactly there.

An order lives in one book, whatever the number of leaves it covers. Reading a leaf's rate means
reading the books on its path, so a book must answer at once, from four remembered values:

* the highest price by anyone but a given tenant: `first` is the highest price, `by` its tenant
  (the earlier order where two are equal), `second` the highest price by anybody else. Against
  tenant T presses `second` if T is `by`, otherwise `first`.
* the order that would win here: `best`, the one with the highest limit, the earliest of equals.

A new order changes these by comparison. When an order that carried one of them goes, they are
read anew: from the list itself while the orders are few, and from heaps with lazy deletion once
they are many (`Depth`: a heap of prices per tenant, a heap of the tenants' highest, a heap of
limits; dead entries are dropped when they surface, or all at once when they outnumber the living).

A book remembers its past as steps `(at, floor, first, by, second)`: what pressed from `at` on,
until the next step; before the first step nothing did. Charges and explanations are worked out
from these when somebody asks (see `meters`, `charges`), so a change at a root costs one step and
touches no leaf. Steps that are older than
the oldest open holding under the scope explain nothing any more and are cut off, into a new list,
because an explanation that is yet to be read may still hold the old one.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import msgspec

from laissez.market.meters import Meter
from laissez.market.steps import NEVER, PressedNode, PressureStep, step_index
from laissez.market.trunks import Trunk

FEW = 8


class Order(msgspec.Struct, gc=False, eq=False):
    """A live order; refers to its scope by path, so that it is part of no reference cycle."""

    id: str
    tenant: str
    scope: str
    price: int
    limit: int
    expires: int | None
    sequence: int
    live: bool = True


class Gang(Order):
    """An order for `count` leaves of one domain, a node whose path has `within` names.

    It never stands in a book. Its price is its limit: what whoever wins with it is bound to.
    """

    count: int = 2
    within: int = 1


PriceEntry = tuple[int, int, Order]


class Book:
    __slots__ = (
        "best",
        "born",
        "by",
        "cut_at",
        "few",
        "first",
        "floor",
        "many",
        "meter",
        "node",
        "peak",
        "second",
        "steps",
        "trunk",
    )

    def __init__(self, node: PressedNode, at: int) -> None:
        self.node = node
        self.floor = 0
        self.first = 0
        self.by: str | None = None
        self.second = 0
        self.best: Order | None = None
        self.few: list[Order] = []
        self.many: Depth | None = None
        self.steps: list[PressureStep] = []
        self.cut_at = 16
        self.born = at
        self.peak = 0
        self.meter: Meter | None = None
        self.trunk: Trunk | None = None

    def add(self, order: Order, at: int) -> bool:
        """Post an order; True if what presses has changed."""
        if self.many is not None:
            self.many.add(order)
        elif len(self.few) < FEW:
            self.few.append(order)
        else:
            self.many = Depth(self.few)
            self.many.add(order)
            self.few = []
        if self.best is None or order.limit > self.best.limit:
            self.best = order
        price = order.price
        if price > self.first:
            if self.by != order.tenant:
                self.second = self.first
                self.by = order.tenant
            self.first = price
        elif price > self.second and order.tenant != self.by:
            self.second = price
        else:
            return False
        self.remember(at)
        return True

    def remove(self, order: Order, at: int) -> bool:
        """Take an order out; True if what presses has changed."""
        order.live = False
        if self.many is None:
            self.few.remove(order)
        elif self.many.remove(order) < FEW // 2:
            self.few = self.many.living()
            self.many = None
        if order is self.best:
            self.best = self._read_best()
        if order.price < (self.first if order.tenant == self.by else self.second):
            return False
        was = (self.first, self.by, self.second)
        self._read_prices()
        if (self.first, self.by, self.second) == was:
            return False
        self.remember(at)
        return True

    def orders(self) -> list[Order]:
        """All live orders here, in the order of their place in the queue."""
        return list(self.few) if self.many is None else self.many.living()

    def is_blank(self) -> bool:
        """True if there is nothing here to keep: no floor, no order, and nothing remembered."""
        return (
            self.best is None
            and self.floor == 0
            and not self.steps
            and (self.meter is None or self.node.oldest == NEVER)
        )

    def _read_best(self) -> Order | None:
        if self.many is not None:
            return self.many.highest_limit()
        best = None
        for order in self.few:
            if best is None or order.limit > best.limit:
                best = order
        return best

    def _read_prices(self) -> None:
        if self.many is not None:
            self.first, self.by, self.second = self.many.highest_prices()
            return
        first, by, second = 0, None, 0
        for order in self.few:
            if order.price > first:
                if by != order.tenant:
                    second = first
                    by = order.tenant
                first = order.price
            elif order.price > second and order.tenant != by:
                second = order.price
        self.first, self.by, self.second = first, by, second

    def remember(self, at: int) -> None:
        """Write the present pressure down as the step that begins at `at`."""
        steps = self.steps
        if steps and steps[-1][0] == at:
            steps.pop()
        step = (at, self.floor, self.first, self.by, self.second)
        self.peak = max(self.peak, self.floor, self.first)
        if step[1:] != (steps[-1][1:] if steps else (0, 0, None, 0)):
            steps.append(step)
        oldest = self.node.oldest
        if len(steps) > self.cut_at or oldest == NEVER:
            self.cut(oldest)

    def recall(self, steps: list[PressureStep], now: int) -> None:
        """Begin with a past that was written down elsewhere; without one, with the present."""
        self.steps = []
        self.remember(now)
        self.steps = steps or self.steps
        self.trunk = None
        self.peak = max(self.floor, self.first)

    def cut(self, oldest: int) -> None:
        """Forget what happened before `oldest`, the start of the oldest holding under here."""
        self.steps = self.steps_since(oldest)
        self.trunk = None
        self.cut_at = 2 * len(self.steps) + 16
        if oldest == NEVER:
            self.meter = None
            self.peak = max(self.floor, self.first)
        elif self.meter is not None:
            self.meter.forget_before(oldest, self.node.holders)

    def begin_period(self, now: int) -> None:
        """All holdings under here begin anew at `now`, and with them the meter."""
        self.meter = None
        self.born = now
        self.peak = max(self.floor, self.first)
        self.cut(self.node.oldest)

    def steps_since(self, oldest: int) -> list[PressureStep]:
        """What a holding since `oldest` needs, and nothing else."""
        steps = self.steps
        index = step_index(steps, oldest)
        if index < 0:
            return list(steps)
        kept = steps[index + 1 :]
        at, floor, first, by, second = steps[index]
        if (floor, first) != (0, 0):
            kept.insert(0, (at if oldest == NEVER else oldest, floor, first, by, second))
        return kept


class Depth:
    """The orders of a book that has many."""

    __slots__ = ("by_tenant", "dead", "limits", "size", "tops")

    def __init__(self, orders: list[Order]) -> None:
        self.size = 0
        self._build(orders)

    def _build(self, orders: list[Order]) -> None:
        self.by_tenant: dict[str, list[PriceEntry]] = {}
        for order in orders:
            self.by_tenant.setdefault(order.tenant, []).append(
                (-order.price, order.sequence, order)
            )
        for heap in self.by_tenant.values():
            heapify(heap)
        self.tops = [heap[0] for heap in self.by_tenant.values()]
        heapify(self.tops)
        self.limits = [(-order.limit, order.sequence, order) for order in orders]
        heapify(self.limits)
        self.size = len(orders)
        self.dead = 0

    def add(self, order: Order) -> None:
        entry = (-order.price, order.sequence, order)
        heap = self.by_tenant.get(order.tenant)
        if heap is None:
            self.by_tenant[order.tenant] = [entry]
            heappush(self.tops, entry)
        else:
            heappush(heap, entry)
            if heap[0] is entry:
                heappush(self.tops, entry)
        heappush(self.limits, (-order.limit, order.sequence, order))
        self.size += 1

    def remove(self, order: Order) -> int:
        """Take out an order that is no longer live; how many are left."""
        heap = self.by_tenant[order.tenant]
        if heap[0][2] is order:
            while heap and not heap[0][2].live:
                heappop(heap)
            if heap:
                heappush(self.tops, heap[0])
            else:
                del self.by_tenant[order.tenant]
        self.size -= 1
        self.dead += 1
        if self.dead > self.size + FEW:
            self._build(self._in_any_order())
        return self.size

    def living(self) -> list[Order]:
        return sorted(self._in_any_order(), key=lambda order: order.sequence)

    def _in_any_order(self) -> list[Order]:
        return [order for heap in self.by_tenant.values() for _, _, order in heap if order.live]

    def highest_limit(self) -> Order | None:
        limits = self.limits
        while limits and not limits[0][2].live:
            heappop(limits)
        return limits[0][2] if limits else None

    def highest_prices(self) -> tuple[int, str | None, int]:
        """(first, by, second), see above."""
        top = self._top_other_than(None)
        if top is None:
            return 0, None, 0
        heappop(self.tops)
        runner_up = self._top_other_than(top[2].tenant)
        heappush(self.tops, top)
        return -top[0], top[2].tenant, -runner_up[0] if runner_up else 0

    def _top_other_than(self, tenant: str | None) -> PriceEntry | None:
        """The highest entry, after dropping what is stale or `tenant`'s from the top."""
        tops, by_tenant = self.tops, self.by_tenant
        while tops:
            entry = tops[0]
            order = entry[2]
            if order.live and order.tenant != tenant and by_tenant[order.tenant][0] is entry:
                return entry
            heappop(tops)
        return None
