"""The scales: how many bytes a leaf takes, and how many an order.

`tracemalloc` counts every byte, and makes everything several times slower; so it is used in a
process in which nothing is timed, and for the leaves of very large markets the resident memory of
the process is read instead. Nothing but the market keeps anything here. Each command brings
strings of its own, as it would from a wire: what the market keeps of them is counted. So is what
all leaves or orders need together, which shows where there are few: an account per tenant, and
dictionaries that double when they are full. The orders at the root come first, and are somewhat
more than `Scale.orders`, so that they pay for a doubling and not the few that come after them.
"""

import gc
import os
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

import msgspec

from laissez.market import Market, Placed, ResourceAdded, Transferred
from measuring.load import (
    FLOOR,
    GPUS_PER_HOST,
    HOLDER_LIMITS,
    ORDER_LIMIT_MAX,
    PRICES,
    ROOT,
    Events,
    expect,
    leaf_path,
    tenant_name,
)
from measuring.scale import Scale

TRACED_LEAVES_MAX = 200_000
STATM = Path("/proc/self/statm")


class MemoryFigures(msgspec.Struct, frozen=True):
    """Bytes of a leaf, idle and held, and of an order, by where it rests."""

    leaves_by: str
    leaf_idle: int
    leaf_held: int
    order_among_others: int
    order_alone_at_host: int
    order_alone_at_leaf: int


def measure_memory(
    leaves: int, scale: Scale, seed: int, *, say: Callable[[str], None]
) -> MemoryFigures:
    gc.disable()
    traced = leaves <= TRACED_LEAVES_MAX or not STATM.exists()
    if traced:
        tracemalloc.start()
    keeper = Keeper(leaves, scale.tenants, seed)
    say("adding leaves")
    empty = occupied()
    keeper.add_leaves()
    idle = occupied() - empty
    say("filling")
    keeper.fill()
    held = occupied() - empty
    if not traced:
        tracemalloc.start()
    say("resting orders")
    at_root, at_leaves = scale.orders * 6 // 5, min(scale.orders, leaves)
    hosts = max(1, leaves // GPUS_PER_HOST)
    at_hosts = min(scale.orders, hosts)
    among_others = keeper.grown_by_orders(ROOT for _ in range(at_root))
    alone_at_leaf = keeper.grown_by_orders(
        leaf_path(number * leaves // at_leaves, leaves) for number in range(at_leaves)
    )
    alone_at_host = keeper.grown_by_orders(
        leaf_path(number * hosts // at_hosts * GPUS_PER_HOST, leaves).rpartition("/")[0]
        for number in range(at_hosts)
    )
    return MemoryFigures(
        leaves_by="tracemalloc" if traced else "resident memory",
        leaf_idle=idle // leaves,
        leaf_held=held // leaves,
        order_among_others=among_others // at_root,
        order_alone_at_host=alone_at_host // at_hosts,
        order_alone_at_leaf=alone_at_leaf // at_leaves,
    )


def occupied() -> int:
    """The bytes in use now."""
    gc.collect()
    if tracemalloc.is_tracing():
        return tracemalloc.get_traced_memory()[0]
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Keeper:
    """A market, and as little as possible around it."""

    def __init__(self, leaves: int, tenants: int, seed: int) -> None:
        self.market = Market()
        self.leaves = leaves
        self.tenants = tenants
        self.random = Random(seed)
        self.at = 0

    def add_leaves(self) -> None:
        self.market.set_floor(ROOT, FLOOR, at=0)
        for index in range(self.leaves):
            self.at += 1
            events = self.market.add_resource(leaf_path(index, self.leaves), at=self.at)
            expect(events, ResourceAdded)

    def fill(self) -> None:
        for _ in range(self.leaves):
            limit = self.random.randint(*HOLDER_LIMITS)
            expect(self._place(ROOT, FLOOR, limit), Placed, Transferred)

    def grown_by_orders(self, scopes: Iterable[str]) -> int:
        """The bytes taken by an order at each of the scopes."""
        before = occupied()
        for scope in scopes:
            price = self.random.randint(*PRICES)
            limit = self.random.randint(price, ORDER_LIMIT_MAX)
            expect(self._place(scope, price, limit), Placed)
        return occupied() - before

    def _place(self, scope: str, price: int, limit: int) -> Events:
        self.at += 1
        return self.market.place(
            tenant_name(self.random.randrange(self.tenants)),
            scope,
            price=price,
            limit=limit,
            order=f"order-{self.at}",
            at=self.at,
        )
