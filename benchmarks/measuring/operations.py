"""The operations, one round each: what is done on the clock, and what around it.

Whatever is random is drawn before the clock starts, so that only the market is timed.
"""

from collections.abc import Callable
from time import perf_counter_ns as clock

import msgspec

from laissez.market import Amended, Cancelled, LimitSet, Market, Placed
from measuring.load import ROOT, Load, expect, whole_load
from measuring.scale import Scale
from measuring.timing import Samples, Timing, measure, with_collector_frozen

FEW = 20
TRANSFER_AT_LIMIT = "transfer (price = limit)"
OPERATIONS = (
    "place",
    "cancel",
    "amend",
    "set_limit",
    "transfer",
    TRANSFER_AT_LIMIT,
    "quote",
    "bill",
)


class SizeFigures(msgspec.Struct, frozen=True):
    tenants: int
    orders: int
    holdings_per_tenant: int
    operations: dict[str, Timing]


def measure_size(
    leaves: int, scale: Scale, seed: int, *, say: Callable[[str], None]
) -> SizeFigures:
    """All operations on a market of one size."""
    with_collector_frozen()
    load = whole_load(
        Market(),
        leaves=leaves,
        tenants=scale.tenants,
        orders=scale.orders,
        seed=seed,
        say=say,
    )
    holdings = max(1, leaves // scale.tenants)
    bills = max(1, min(scale.operations, scale.holdings_billed // holdings))
    figures = measure_operations(
        load, rounds=scale.rounds, count=scale.operations, bills=bills, say=say
    )
    return SizeFigures(scale.tenants, scale.orders, holdings, figures)


def measure_operations(
    load: Load, *, rounds: int, count: int, bills: int, say: Callable[[str], None]
) -> dict[str, Timing]:
    """Every operation, `count` times a round.

    Transfers come first, while nothing but the orders has a past. They fill the best orders, and
    new ones are no better than the old were, so there are not so many of them that only bad
    orders are left at the root.
    """
    figures: dict[str, Timing] = {}

    def take(operation: Callable[[Load, int], Samples], count: int) -> dict[str, Timing]:
        say(operation.__name__)
        return measure(lambda: operation(load, count), rounds=rounds)

    transfers = min(count, max(FEW, len(load.root_slots) // 3))
    figures |= take(transfer, transfers)
    load.begin_anew(price_is_limit=True)
    figures[TRANSFER_AT_LIMIT] = take(transfer, transfers)["transfer"]
    load.begin_anew(price_is_limit=False)
    figures |= take(cancel_and_place, count)
    figures |= take(amend, count)
    figures |= take(set_limit, count)
    figures |= take(quote, count)
    figures |= take(bill, bills)
    return {name: figures[name] for name in OPERATIONS}


def cancel_and_place(load: Load, count: int) -> Samples:
    """One order for anywhere goes, another comes."""
    market, cancels, places = load.market, [], []
    plan = [
        (load.random.choice(load.root_slots), load.tenant(), load.order_id(), *load.terms())
        for _ in range(count)
    ]
    for slot, tenant, order, price, limit in plan:
        at = load.tick()
        begin = clock()
        events = market.cancel(slot.tenant, slot.order, at=at)
        cancels.append(clock() - begin)
        expect(events, Cancelled)
        load.leave(slot)
        slot.tenant, slot.order = tenant, order
        load.enter(slot)
        at = load.tick()
        begin = clock()
        events = market.place(tenant, ROOT, price=price, limit=limit, order=order, at=at)
        places.append(clock() - begin)
        expect(events, Placed)
    return {"cancel": cancels, "place": places}


def amend(load: Load, count: int) -> Samples:
    """An order, at whatever depth, gets new terms."""
    market, taken = load.market, []
    plan = [(load.random.choice(load.slots), *load.terms()) for _ in range(count)]
    for slot, price, limit in plan:
        tenant, order, at = slot.tenant, slot.order, load.tick()
        begin = clock()
        events = market.amend(tenant, order, price=price, limit=limit, at=at)
        taken.append(clock() - begin)
        expect(events, Amended)
    return {"amend": taken}


def set_limit(load: Load, count: int) -> Samples:
    """A holder changes its mind, but not so far that it leaves."""
    market, taken = load.market, []
    leaves = [load.leaf() for _ in range(count)]
    plan = [(load.holder(leaf), leaf, load.holder_limit()) for leaf in leaves]
    for holder, leaf, limit in plan:
        at = load.tick()
        begin = clock()
        events = market.set_limit(holder, leaf, limit, at=at)
        taken.append(clock() - begin)
        expect(events, LimitSet)
    return {"set_limit": taken}


def transfer(load: Load, count: int) -> Samples:
    """A holder gives a leaf back, and the best order that covers it is filled.

    Where every order's price is its limit, the winner is also what pressed most, so the rate of
    all that its scope covers falls with it, and rises with the order that comes.
    """
    market, taken = load.market, []
    plan = [load.leaf() for _ in range(count)]
    for leaf in plan:
        holder, at = load.holder(leaf), load.tick()
        begin = clock()
        events = market.relinquish(holder, leaf, at=at)
        taken.append(clock() - begin)
        load.make_good(events)
    return {"transfer": taken}


def quote(
    load: Load,
    count: int,
    *,
    asker: Callable[[], str] | None = None,
    scope: Callable[[], str] | None = None,
    disturb: Callable[[], None] | None = None,
) -> Samples:
    """Somebody asks for a price somewhere, each time after something has changed."""
    market, taken = load.market, []
    asker, scope, disturb = asker or load.tenant, scope or load.scope, disturb or load.disturb
    plan = [(scope(), asker()) for _ in range(count)]
    for where, who in plan:
        disturb()
        begin = clock()
        market.quote(where, who)
        taken.append(clock() - begin)
    return {"quote": taken}


def bill(load: Load, count: int) -> Samples:
    """Somebody asks for all it owes, each time after something has changed."""
    market, taken = load.market, []
    plan = [load.tenant() for _ in range(count)]
    for tenant in plan:
        load.disturb()
        at = load.tick()
        begin = clock()
        market.bill(tenant, at)
        taken.append(clock() - begin)
    return {"bill": taken}
