"""What a client asks for next: every kind of instruction, often enough to get in each other's way.

All trade takes place in a small tree that has too few resources for everybody, so that orders
press on one another, win from each other, expire and wait. A larger tree that nobody can afford
stands beside it: it makes snapshots long enough to be hit.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable

from laissez.model import (
    AmendOrder,
    Cancelled,
    CancelOrder,
    ChangeFloor,
    ChangeGuard,
    ChangeLimit,
    CloseStatements,
    CordonScope,
    Expired,
    Filled,
    Instruction,
    Lost,
    Notice,
    OfferResource,
    Placed,
    PlaceOrder,
    Release,
    UncordonScope,
    WithdrawResource,
)

MICROS = 1_000_000
SMALL, LARGE = "small", "large"
RACKS = [f"{SMALL}/z{zone}/r{rack}" for zone in range(2) for rack in range(2)]
RESOURCES = [f"{rack}/g{number}" for rack in RACKS for number in range(4)]
SCOPES = [SMALL, f"{SMALL}/z0", f"{SMALL}/z1", *RACKS, *RESOURCES[::4]]
ORDERS_MAX = 12
FRAME = 200


class Wishes:
    """What one client wants; `first` is asked before everything else."""

    def __init__(self, name: str, seed: int, first: Iterable[Instruction] = ()) -> None:
        self.name = name
        self.random = random.Random(seed)
        self._first = list(first)[::-1]

    def in_flight_max(self) -> int:
        return FRAME if self._first else 8

    def next(self, key: str) -> Instruction:
        return self._first.pop() if self._first else self.wish(key)

    def wish(self, key: str) -> Instruction:
        raise NotImplementedError

    def learn(self, events: Iterable[Notice]) -> None:
        """Take note of what happened."""


class TenantWishes(Wishes):
    def __init__(self, name: str, seed: int) -> None:
        super().__init__(name, seed)
        self._orders: dict[str, None] = {}
        self._held: dict[str, None] = {}

    def learn(self, events: Iterable[Notice]) -> None:
        for event in events:
            if isinstance(event, Placed):
                self._orders[event.order] = None
            elif isinstance(event, Cancelled | Expired):
                self._orders.pop(event.order, None)
            elif isinstance(event, Filled):
                self._orders.pop(event.order, None)
                self._held[event.resource] = None
            elif isinstance(event, Lost):
                self._held.pop(event.resource, None)

    def wish(self, key: str) -> Instruction:
        chance, choose = self.random.random(), self.random.choice
        orders, held = list(self._orders), list(self._held)
        if orders and (chance < 0.2 or len(orders) >= ORDERS_MAX):
            return CancelOrder(choose(orders))
        if orders and chance < 0.4:
            return AmendOrder(choose(orders), price=self._price())
        if held and chance < 0.55:
            return ChangeLimit(choose(held), self._price() + MICROS)
        if held and chance < 0.65:
            return Release(choose(held))
        return self._place(key)

    def _place(self, key: str) -> PlaceOrder:
        price = self._price()
        limit = price + self.random.randrange(MICROS)
        order = f"my-{key}" if self.random.random() < 0.5 else None
        expires = None
        if self.random.random() < 0.3:
            expires = time.time_ns() // 1_000 + self.random.randrange(10_000, MICROS)
        if self.random.random() < 0.1:
            # The price comes from a quote, which not everybody may see.
            return PlaceOrder(self.random.choice(SCOPES), None, 9 * MICROS, order, expires)
        return PlaceOrder(self.random.choice(SCOPES), price, limit, order, expires)

    def _price(self) -> int:
        return self.random.randrange(MICROS // 2, 4 * MICROS)


class OperatorWishes(Wishes):
    """Sets everything up, and then keeps changing it a little."""

    def __init__(self, name: str, seed: int, large: int) -> None:
        super().__init__(name, seed, _setting_up(large))

    def in_flight_max(self) -> int:
        return FRAME if self._first else 1

    def wish(self, key: str) -> Instruction:
        chance, choose = self.random.random(), self.random.choice
        spare = f"{choose(RACKS)}/spare"
        wishes: tuple[tuple[float, Instruction], ...] = (
            (0.5, ChangeFloor(choose(SCOPES), self.random.randrange(MICROS))),
            (0.6, CordonScope(choose(RACKS))),
            (0.8, UncordonScope(choose(RACKS))),
            (0.85, OfferResource(spare, {"host": spare})),
            (0.9, WithdrawResource(spare)),
            (0.95, ChangeGuard(SMALL, hold=self.random.randrange(10_000))),
        )
        return next((wish for until, wish in wishes if chance < until), CloseStatements())


def _setting_up(large: int) -> list[Instruction]:
    out_of_reach = [ChangeFloor(LARGE, 1_000 * MICROS)]
    beside = [
        OfferResource(f"{LARGE}/z{number % 7}/r{number % 91}/g{number}", {"host": f"host-{number}"})
        for number in range(large)
    ]
    return [*(OfferResource(path, {"host": path}) for path in RESOURCES), *beside, *out_of_reach]
