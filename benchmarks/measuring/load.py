"""The load: a pool that tenants hold whole, and orders resting at all depths.

Every leaf is held, with a retention limit above every resting price, so an order that comes in
rests, and a leaf moves only when its holder gives it up. The number of resting orders, and how
many rest at each scope, never changes: an order stands in a `Slot`, and when it is filled or
cancelled a new one of somebody else takes its place in the slot. Time moves by a microsecond with
every command. An answer that is not the expected one ends the benchmark, because refusals are
quick and would make a fine figure.
"""

from collections.abc import Callable
from random import Random
from typing import Protocol

from laissez.market import Placed, Quote, Settled, Transferred
from laissez.model import Event

Events = tuple[Event, ...]

ROOT = "h100"
ZONES = 2
HOSTS_PER_RACK = 8
GPUS_PER_HOST = 8
DEPTH = 5

DOLLAR = 1_000_000
FLOOR = 2 * DOLLAR
PRICES = (FLOOR, 10 * DOLLAR)
ORDER_LIMIT_MAX = 15 * DOLLAR
HOLDER_LIMITS = (20 * DOLLAR, 30 * DOLLAR)


class Venue(Protocol):
    """What the market and the naive market have in common, as far as it is measured."""

    def set_floor(self, scope: str, floor: int, *, at: int) -> Events: ...
    def add_resource(self, path: str, *, at: int) -> Events: ...
    def place(
        self,
        tenant: str,
        scope: str,
        *,
        price: int,
        limit: int,
        order: str,
        at: int,
        expires: int | None = None,
    ) -> Events: ...
    def amend(self, tenant: str, order: str, *, price: int, limit: int, at: int) -> Events: ...
    def cancel(self, tenant: str, order: str, *, at: int) -> Events: ...
    def set_limit(self, tenant: str, path: str, limit: int, *, at: int) -> Events: ...
    def relinquish(self, tenant: str, path: str, *, at: int) -> Events: ...
    def advance(self, *, at: int) -> Events: ...
    def settle(self, *, at: int) -> Events: ...
    def owner(self, path: str) -> str | None: ...
    def quote(self, scope: str, tenant: str | None) -> Quote | None: ...
    def bill(self, tenant: str, at: int) -> int: ...


class Slot:
    """The place of one resting order: its scope stays, its orders come and go."""

    __slots__ = ("order", "scope", "tenant")

    def __init__(self, scope: str) -> None:
        self.scope = scope
        self.tenant = ""
        self.order = ""


def leaf_path(index: int, leaves: int) -> str:
    """The path of one leaf of a pool: zones of racks of 8 hosts of 8 GPUs."""
    gpus_per_rack = GPUS_PER_HOST * HOSTS_PER_RACK
    racks = -(-leaves // gpus_per_rack)
    rack, gpu = divmod(index, gpus_per_rack)
    host, gpu = divmod(gpu, GPUS_PER_HOST)
    return f"{ROOT}/z{rack * ZONES // racks}/r{rack}/h{host}/g{gpu}"


def tenant_name(index: int) -> str:
    return f"tenant-{index}"


def expect(events: Events, *kinds: type[Event]) -> None:
    """Stop if the answer is not made of these events."""
    if tuple(map(type, events)) != kinds:
        raise RuntimeError(f"expected {[kind.__name__ for kind in kinds]}, not {events}")


class Load:
    def __init__(self, market: Venue, *, leaves: int, tenants: int, seed: int) -> None:
        self.market = market
        self.leaves = [leaf_path(index, leaves) for index in range(leaves)]
        self.tenants = [tenant_name(index) for index in range(tenants)]
        self.random = Random(seed)
        self.at = 0
        self.price_is_limit = False
        self.slots: list[Slot] = []
        self.root_slots: list[Slot] = []
        self._slot_of: dict[str, Slot] = {}
        self._order_number = 0

    # Building

    def add_leaves(self, floor: int = FLOOR) -> None:
        self.market.set_floor(ROOT, floor, at=self.tick())
        for leaf in self.leaves:
            self.market.add_resource(leaf, at=self.tick())

    def fill(self, *, anywhere: bool = True, holder: Callable[[], str] | None = None) -> None:
        """Let tenants take everything: any leaf, or (quicker for the naive) each leaf in turn."""
        for leaf in self.leaves:
            limit = self.holder_limit()
            events = self.market.place(
                holder() if holder else self.tenant(),
                ROOT if anywhere else leaf,
                price=FLOOR,
                limit=limit,
                order=self.order_id(),
                at=self.tick(),
            )
            expect(events, Placed, Transferred)

    def rest_orders(self, orders: int) -> None:
        """Let this many orders rest, as many at each depth."""
        self.slots = [Slot(self.scope_at(1 + number % DEPTH)) for number in range(orders)]
        self.root_slots = [slot for slot in self.slots if slot.scope == ROOT]
        for slot in self.slots:
            self.rest(slot)

    # Drawing

    def tick(self) -> int:
        self.at += 1
        return self.at

    def order_id(self) -> str:
        self._order_number += 1
        return f"order-{self._order_number}"

    def tenant(self) -> str:
        return self.random.choice(self.tenants)

    def leaf(self) -> str:
        return self.random.choice(self.leaves)

    def scope(self) -> str:
        return self.scope_at(self.random.randint(1, DEPTH))

    def scope_at(self, depth: int) -> str:
        """A scope of this depth: 1 is the root, `DEPTH` a leaf."""
        return "/".join(self.leaf().split("/")[:depth])

    def terms(self) -> tuple[int, int]:
        """A price and a limit at which an order rests."""
        price = self.random.randint(*PRICES)
        return price, price if self.price_is_limit else self.random.randint(price, ORDER_LIMIT_MAX)

    def holder_limit(self) -> int:
        return self.random.randint(*HOLDER_LIMITS)

    # Trading, off the clock

    def rest(self, slot: Slot, *, expires: int | None = None) -> None:
        """Place a new order of somebody in a slot that has none."""
        slot.tenant = self.tenant()
        slot.order = self.order_id()
        price, limit = self.terms()
        self.enter(slot)
        events = self.market.place(
            slot.tenant,
            slot.scope,
            price=price,
            limit=limit,
            order=slot.order,
            at=self.tick(),
            expires=expires,
        )
        expect(events, Placed)

    def enter(self, slot: Slot) -> None:
        self._slot_of[slot.order] = slot

    def leave(self, slot: Slot) -> None:
        del self._slot_of[slot.order]

    def renew_orders(self) -> None:
        """Put a new order in the place of each."""
        for slot in self.slots:
            self.market.cancel(slot.tenant, slot.order, at=self.tick())
            self.leave(slot)
            self.rest(slot)

    def begin_anew(self, *, price_is_limit: bool) -> None:
        """New orders, in a new statement period: how the old ones went is no part of the load."""
        self.price_is_limit = price_is_limit
        self.renew_orders()
        self.market.settle(at=self.tick())

    def make_good(self, events: Events) -> None:
        """After a transfer: the new holder means to stay, and a new order rests instead."""
        transferred = events[-1]
        if not isinstance(transferred, Transferred) or not (transferred.new and transferred.order):
            raise RuntimeError(f"expected a transfer to a tenant, not {events}")
        self.market.set_limit(
            transferred.new, transferred.resource, self.holder_limit(), at=self.tick()
        )
        slot = self._slot_of[transferred.order]
        self.leave(slot)
        self.rest(slot)

    def holder(self, leaf: str) -> str:
        owner = self.market.owner(leaf)
        if owner is None:
            raise RuntimeError(f"{leaf} should be held")
        return owner

    def disturb(self) -> None:
        """Something happens somewhere: an order is amended, a limit changes, or a leaf moves."""
        self.random.choice((self.amend_one, self.set_one_limit, self.move_one))()

    def amend_one(self) -> None:
        slot = self.random.choice(self.slots)
        price, limit = self.terms()
        self.market.amend(slot.tenant, slot.order, price=price, limit=limit, at=self.tick())

    def set_one_limit(self) -> None:
        leaf = self.leaf()
        self.market.set_limit(self.holder(leaf), leaf, self.holder_limit(), at=self.tick())

    def move_one(self) -> None:
        leaf = self.leaf()
        self.make_good(self.market.relinquish(self.holder(leaf), leaf, at=self.tick()))

    def move_one_to(self, tenant: str) -> None:
        """A leaf goes to a tenant who follows further than every resting order."""
        leaf, limit = self.leaf(), self.holder_limit()
        order = self.order_id()
        self.market.place(tenant, leaf, price=FLOOR, limit=limit, order=order, at=self.tick())
        events = self.market.relinquish(self.holder(leaf), leaf, at=self.tick())
        expect(events, Settled, Transferred)


def whole_load(
    market: Venue,
    *,
    leaves: int,
    tenants: int,
    orders: int,
    seed: int,
    anywhere: bool = True,
    say: Callable[[str], None],
) -> Load:
    """A pool, held whole by its tenants, with this many orders resting."""
    load = Load(market, leaves=leaves, tenants=tenants, seed=seed)
    say("adding leaves")
    load.add_leaves()
    say("filling")
    load.fill(anywhere=anywhere)
    say("resting orders")
    load.rest_orders(orders)
    return load
