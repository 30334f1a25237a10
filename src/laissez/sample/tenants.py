"""Four tenants, each with a mind of its own.

Every few seconds a tenant decides how many GPUs it wants and what one is worth to it now, and
moves towards that: it orders what is missing at the quoted price, raises the price of orders that
wait, gives back what is too much, and sets its limits to the worth. All of it is drawn from a
seed, but the market answers differently each time.

* ada trains: it wants four, and values them highly, except right after a checkpoint, when stopping
  costs little;
* boole serves requests: its demand rises and falls like a day, in two minutes;
* curie runs batch jobs: it takes whatever is cheap, and gives way early;
* dirac comes in bursts, in a hurry, and pays for it.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from typing import NamedTuple

from laissez.client import AsyncClient, LaissezError
from laissez.model.values import MICROS_PER_DOLLAR

DAY_S = 120.0
RAISE = 250_000


class GpuWish(NamedTuple):
    """How many GPUs of a type, and what one is worth per hour."""

    tree: str
    gpus: int
    worth_micros_per_hour: int


Mind = Callable[[float, random.Random], GpuWish]


def ada(now_s: float, chance: random.Random) -> GpuWish:
    since_checkpoint_s = now_s % 30
    worth = 2.6 if since_checkpoint_s < 4 else 4.5
    return GpuWish("h100", 6, round(worth * MICROS_PER_DOLLAR))


def boole(now_s: float, chance: random.Random) -> GpuWish:
    load = 0.5 - 0.5 * math.cos(2 * math.pi * now_s / DAY_S)
    return GpuWish("h100", 1 + round(8 * load), round((2.4 + 2.4 * load) * MICROS_PER_DOLLAR))


def curie(now_s: float, chance: random.Random) -> GpuWish:
    tree = "a100" if chance.random() < 0.6 else "h100"
    return GpuWish(tree, 8, round((1.3 if tree == "a100" else 2.3) * MICROS_PER_DOLLAR))


def dirac(now_s: float, chance: random.Random) -> GpuWish:
    in_a_hurry = now_s % 45 < 12
    return GpuWish("h100", 5 if in_a_hurry else 0, round(5.5 * MICROS_PER_DOLLAR))


MINDS: dict[str, Mind] = {"ada": ada, "boole": boole, "curie": curie, "dirac": dirac}
GUEST = "guest"


async def trade(client: AsyncClient, mind: Mind, seed: int, pace: float) -> None:
    """Trade for ever, a decision every one or two seconds at pace 1."""
    chance = random.Random(seed)
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while True:
        wish = mind((loop.time() - begun) * pace, chance)
        try:
            await _move_towards(client, wish)
        except LaissezError:
            await asyncio.sleep(1)  # refused or out of reach: look again in a while
        await asyncio.sleep(chance.uniform(1, 2) / pace)


async def _move_towards(client: AsyncClient, wish: GpuWish) -> None:
    prefix = wish.tree + "/"
    held = [h for h in await client.holdings() if h.resource.startswith(prefix)]
    waiting = [order for order in await client.orders() if order.scope == wish.tree]
    for surplus in held[wish.gpus :]:
        await client.release(surplus.resource)
    for holding in held[: wish.gpus]:
        if holding.limit != wish.worth_micros_per_hour:
            await client.set_limit(holding.resource, wish.worth_micros_per_hour)
    missing = max(wish.gpus - len(held), 0)
    for order in waiting[missing:]:
        await client.cancel(order.order)
    for order in waiting[:missing]:
        price = min((order.price or 0) + RAISE, wish.worth_micros_per_hour)
        if (price, wish.worth_micros_per_hour) != (order.price, order.limit):
            await client.amend(order.order, price=price, limit=wish.worth_micros_per_hour)
    for _ in range(missing - len(waiting)):
        await client.place(wish.tree, limit=wish.worth_micros_per_hour)
