"""Mass events: what one command, or a thousand, does to all of a pool at once."""

from collections.abc import Callable
from functools import partial
from time import perf_counter_ns as clock

import msgspec

from laissez.market import Amended, Expired, FloorSet, Market, Placed, Transferred
from measuring.load import DEPTH, DOLLAR, FLOOR, ROOT, Load, Slot, expect, whole_load
from measuring.operations import quote, transfer
from measuring.scale import Scale
from measuring.timing import Timing, measure, with_collector_frozen

PRESSING = (11 * DOLLAR, 19 * DOLLAR)
"""Above all resting prices, below all holders' limits."""

RIVAL = "rival"
HALF_HOLDER = "half-holder"
WAITING = 10


class MassFigures(msgspec.Struct, frozen=True):
    """`total_ns` of the best run, its parts, and the totals of all runs."""

    total_ns: int
    parts_ns: dict[str, int]
    runs_ns: tuple[int, ...]


def best_run(run: Callable[[], dict[str, int]], runs: int) -> MassFigures:
    parts = [run() for _ in range(runs)]
    totals = tuple(sum(part.values()) for part in parts)
    best = totals.index(min(totals))
    return MassFigures(totals[best], parts[best], totals)


def measure_mass(scale: Scale, seed: int, *, say: Callable[[str], None]) -> dict[str, MassFigures]:
    with_collector_frozen()
    say("bills of tenants with one holding each")
    one_each = bills_after_changes(scale, seed, tenants=scale.mass_leaves)
    say("bills of tenants with many holdings")
    many_each = bills_after_changes(scale, seed, tenants=scale.tenants)
    say("orders expiring")
    expiry = orders_expiring(scale, seed)
    say("a floor falling, orders at the root")
    at_root = floor_falling(scale, seed, depths=(1,))
    say("a floor falling, orders at all depths")
    at_all_depths = floor_falling(scale, seed, depths=tuple(range(1, DEPTH + 1)))
    say("transfers after a turnover")
    after_turnover = transfers_after_turnover(scale, seed, say)
    return {
        "bills, one holding each": one_each,
        "bills, many holdings each": many_each,
        "expiry": expiry,
        "floor falls, orders at the root": at_root,
        "floor falls, orders at all depths": at_all_depths,
        "transfers after a turnover": after_turnover,
    }


def bills_after_changes(scale: Scale, seed: int, *, tenants: int) -> MassFigures:
    """The rate of the whole pool changes many times, then everybody asks for its bill."""
    market = Market()
    load = Load(market, leaves=scale.mass_leaves, tenants=tenants, seed=seed)
    load.add_leaves()
    if tenants == scale.mass_leaves:
        load.fill(holder=iter(load.tenants).__next__)
    else:
        load.fill()
    load.rest_orders(scale.orders)
    low, high = PRESSING
    market.place(RIVAL, ROOT, price=low, limit=high, order=RIVAL, at=load.tick())

    def run() -> dict[str, int]:
        prices = [load.random.randint(low, high) for _ in range(scale.mass_changes)]
        with_collector_frozen()
        begin = clock()
        for price in prices:
            events = market.amend(RIVAL, RIVAL, price=price, limit=high, at=load.tick())
        changed = clock()
        expect(events, Amended)
        at = load.tick()
        for tenant in load.tenants:
            market.bill(tenant, at)
        return {"changes": changed - begin, "bills": clock() - changed}

    return best_run(run, scale.mass_runs)


def orders_expiring(scale: Scale, seed: int) -> MassFigures:
    """All resting orders, at all depths, reach their expiry at one instant."""
    market = Market()
    load = Load(market, leaves=scale.mass_leaves, tenants=scale.tenants, seed=seed)
    load.add_leaves()
    load.fill()

    def run() -> dict[str, int]:
        expires = load.at + 10 * scale.orders
        for number in range(scale.orders):
            load.rest(Slot(load.scope_at(1 + number % DEPTH)), expires=expires)
        with_collector_frozen()
        load.at = expires
        begin = clock()
        events = market.advance(at=expires)
        end = clock()
        expect(events, *[Expired] * scale.orders)
        return {"expiry": end - begin}

    return best_run(run, scale.mass_runs)


def floor_falling(scale: Scale, seed: int, *, depths: tuple[int, ...]) -> MassFigures:
    """The floor of an idle pool falls to where ten waiting orders reach it."""
    market = Market()
    load = Load(market, leaves=scale.mass_idle_leaves, tenants=WAITING, seed=seed)
    too_high, limit = 20 * DOLLAR, 10 * DOLLAR
    load.add_leaves(floor=too_high)

    def run() -> dict[str, int]:
        for number, tenant in enumerate(load.tenants):
            scope = load.scope_at(depths[number % len(depths)])
            order = load.order_id()
            events = market.place(
                tenant, scope, price=FLOOR, limit=limit, order=order, at=load.tick()
            )
            expect(events, Placed)
        with_collector_frozen()
        at = load.tick()
        begin = clock()
        events = market.set_floor(ROOT, FLOOR, at=at)
        end = clock()
        expect(events, FloorSet, *[Transferred] * WAITING)
        market.set_floor(ROOT, too_high, at=load.tick())
        return {"fall": end - begin}

    return best_run(run, scale.mass_runs)


def transfers_after_turnover(scale: Scale, seed: int, say: Callable[[str], None]) -> MassFigures:
    """All orders are replaced, then leaves change hands: what was put off in between shows here."""
    load = whole_load(
        Market(),
        leaves=scale.mass_leaves,
        tenants=scale.tenants,
        orders=scale.orders,
        seed=seed,
        say=say,
    )

    def run() -> dict[str, int]:
        load.renew_orders()
        with_collector_frozen()
        return {"transfers": sum(transfer(load, scale.mass_changes)["transfer"])}

    return best_run(run, scale.mass_runs)


def measure_half_holder(
    scale: Scale, seed: int, *, say: Callable[[str], None]
) -> dict[str, Timing]:
    """Quotes where one tenant holds half of the pool: for it, and for the others beside it.

    The last ones are asked while the half-holder's own order is what presses most at the root, so
    that it pays less than everybody else, wherever it holds something.
    """
    with_collector_frozen()
    market = Market()
    load = Load(market, leaves=scale.mass_leaves, tenants=scale.tenants, seed=seed)

    def half_holder_or_other() -> str:
        return HALF_HOLDER if load.random.randrange(2) else load.tenant()

    def disturb() -> None:
        """As `Load.disturb`, but the half stays a half."""
        load.random.choice((load.amend_one, load.set_one_limit, move_one))()

    def move_one() -> None:
        load.move_one_to(half_holder_or_other())

    load.add_leaves()
    load.fill(holder=half_holder_or_other)
    load.rest_orders(scale.orders)
    askers = {"others": load.tenant, "half-holder": lambda: HALF_HOLDER}
    scopes = {"anywhere": load.scope, "at the root": lambda: ROOT}
    figures: dict[str, Timing] = {}

    def ask(condition: str) -> None:
        for who, asker in askers.items():
            for where, scope in scopes.items():
                name = f"{who}, {where}{condition}"
                say(name)
                ask_one = partial(quote, asker=asker, scope=scope, disturb=disturb)
                rounds = measure(partial(ask_one, load, scale.operations), rounds=scale.rounds)
                figures[name] = rounds["quote"]

    ask("")
    low, _ = PRESSING
    market.place(HALF_HOLDER, ROOT, price=low, limit=low, order=HALF_HOLDER, at=load.tick())
    ask(", while it presses most")
    return figures
