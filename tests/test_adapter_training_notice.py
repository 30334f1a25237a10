"""Training where there are gangs, notice and commitment."""

from laissez.adapters.budget import Budget
from laissez.adapters.footprint import Footprint
from laissez.adapters.intent import Intent, Keep, TradingTerms, Wish
from laissez.adapters.training import TrainingAdapter
from laissez.adapters.view import (
    GangAsk,
    HoldingCall,
    MarketView,
    NodeBond,
    OrderGang,
    PromisedNode,
    TreeTerms,
    Vacate,
)
from laissez.adapters.wall import within_budget
from laissez.model import (
    ChangeFloor,
    Filled,
    Holding,
    Lost,
    OfferResource,
    PlaceOrder,
    Quoted,
    Release,
)
from laissez.performance.standing import Standing
from laissez.performance.training import Setup, TrainingJob, TrainingSpec
from laissez.simulation.kernel.world import Tenant, World

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DOLLAR = 1_000_000
PERIOD = 10 * SECOND
SETUP = Setup(gpus=(("h100", "H100"),))
CHARGED = 3_600_000_000


def job(samples: int = 4_000_000, hours: float = 1.0) -> TrainingJob:
    spec = TrainingSpec(samples, SETUP, round(hours * HOUR), nodes_max=8, save_s=20.0)
    return TrainingJob(spec)


def adapter_of(dollars: float, budget: Budget | None = None) -> TrainingAdapter:
    return TrainingAdapter(TradingTerms("train", ("h100",), PERIOD, budget), dollars * DOLLAR)


def node(domain: int, gpu: int) -> str:
    """tree / zone / rack / nvlink / host / gpu"""
    return f"h100/z/r0/n{domain}/h0/g{gpu}"


def cluster(*tenants: Tenant, notice_s: int = 0, commit_s: int = 0) -> World:
    world = World(tenants)
    world.operate(ChangeFloor("h100", 2 * DOLLAR), 0)
    world.bind("h100", notice_us=notice_s * SECOND, commit_us=commit_s * SECOND)
    for domain in (0, 1):
        for gpu in range(4):
            world.operate(OfferResource(node(domain, gpu)), 0)
    return world


def rival(at_us: int, nodes: int = 1, dollars: float = 900.0) -> Tenant:
    adapter = Footprint(TradingTerms("rival", ("h100",), PERIOD), nodes, round(dollars * DOLLAR))
    return Tenant("rival", adapter, Standing(("h100",), nodes), at_us)


def told(world: World, kind: type, who: str = "ada") -> list[int]:
    return [line.at_us for line in world.log if line.who == who and isinstance(line.what, kind)]


# The crew to begin with ---------------------------------------------------------------------------


def test_a_crew_begins_as_a_gang_of_one_domain() -> None:
    ada = Tenant("ada", adapter_of(20.0), job())
    world = cluster(ada)
    world.run(0)
    first = next(line.what for line in world.log if line.who == "ada")
    assert isinstance(first, OrderGang) and first.within == 4 and first.count > 1
    assert not told(world, PlaceOrder)  # nothing beside it, for it is filled at once
    crew = world.market.holdings("ada")
    assert len(crew) == first.count == 4
    assert len({path.rpartition("/h0")[0] for path in crew}) == 1
    assert ada.app.crew == {*crew}
    world.run(SECOND)  # it needs more than one domain has, and asks for the others one by one
    assert len(told(world, PlaceOrder)) == 4 and len(told(world, OrderGang)) == 1


def test_where_no_domain_is_free_it_waits_and_looks_for_single_nodes_as_well() -> None:
    """Three of each domain are held for good: the gang can't be filled, two nodes are taken."""
    ada = Tenant("ada", adapter_of(20.0), job(), 10 * SECOND)
    world = cluster(ada)
    for domain in (0, 1):
        for gpu in range(3):
            scope, order = node(domain, gpu), f"{domain}.{gpu}"
            world.act("bob", PlaceOrder(scope, 2 * DOLLAR, 990 * DOLLAR, order), 0)
    world.run(11 * SECOND)
    kinds = [type(line.what) for line in world.log if line.who == "ada"]
    assert kinds[:2] == [OrderGang, PlaceOrder]
    assert len(world.market.holdings("ada")) == 2
    world.run(MINUTE)
    assert not any(order.count > 1 for order in world.market.orders("ada"))


def test_who_does_not_know_of_domains_orders_no_gang() -> None:
    anywhere = adapter_of(20.0)
    asked = anywhere.gangs_to_quote(job(), ())
    assert asked == tuple(GangAsk("h100", count, 4) for count in (2, 4, 8))
    blind = TrainingAdapter(anywhere.terms, anywhere.micros_per_unit, looks_near=False)
    assert blind.gangs_to_quote(job(), ()) == ()
    flat = TrainingJob(TrainingSpec(1_000, Setup(gpus=(("h100", "H100"),), levels=("zone",))))
    assert anywhere.gangs_to_quote(flat, ()) == ()


# A call -------------------------------------------------------------------------------------------


def samples_lost(notice_s: int) -> tuple[float, World]:
    """Some of the crew are taken 8 minutes after the start, 6 after it began to work."""
    ada = Tenant("ada", adapter_of(20.0), job())
    world = cluster(ada, rival(8 * MINUTE + 5 * SECOND, 6), notice_s=notice_s)
    before = 0.0

    def note(at_us: int) -> None:
        nonlocal before
        if ada.app.crew and world.market.holdings("ada"):
            before = max(before, ada.app.samples_done)

    world.every(SECOND, note)
    world.run(8 * MINUTE + 59 * SECOND)
    return before - ada.app.samples_done, world


def test_what_is_saved_when_called_is_not_lost() -> None:
    """It saves for 20 s, and leaves in the step after that."""
    lost_at_once, _ = samples_lost(0)
    lost_in_order, world = samples_lost(60)
    assert told(world, Vacate) and min(told(world, Vacate)) == 8 * MINUTE + 5_020_000
    (left_us,) = {*told(world, Release)}
    assert left_us == 8 * MINUTE + 30 * SECOND
    assert 0 < lost_in_order < 0.6 * lost_at_once


def test_a_limit_reckons_with_what_notice_saves() -> None:
    """Right before a checkpoint a node is kept up to far more, but not where notice saves work."""
    app, adapter = job(), adapter_of(20.0)
    for gpu in range(4):
        app.gain(node(0, gpu), 0)
    app.advance(6 * MINUTE)  # it works since 2 minutes, so 240 s are not saved
    assert app.since_checkpoint_s(node(0, 0)) == 240.0
    held = tuple(
        Holding(node(0, gpu), 0, 2 * DOLLAR, 30 * DOLLAR, None, {}, "ada", "demand")
        for gpu in range(4)
    )

    def limits(notice_s: int, rate: int = 2 * DOLLAR) -> list[int]:
        terms = {"h100": TreeTerms(notice_s * SECOND)}
        holdings = tuple(
            Holding(each.resource, 0, rate, 2 * rate, None, {}, "ada", "demand") for each in held
        )
        view = MarketView(app._memory.now_us, holdings, (), {}, terms=terms)
        return [each.limit for each in adapter.keeps(app, view, holdings)]

    at_stake = 20.0 * DOLLAR * app.at_stake(node(0, 0))
    saved = [a - b for a, b in zip(limits(0), limits(21), strict=True)]
    assert all(abs(each - at_stake * 220 / 600) <= 1 for each in saved)
    assert limits(20) == limits(0)  # it does not fit
    # A limit below the rate acts at once, without notice: so none is set for the sake of notice.
    between = limits(21)[-1] + DOLLAR
    assert between < limits(0)[-1]
    assert limits(21, between)[-1] == between


# Commitment and money -----------------------------------------------------------------------------


def test_a_bid_for_less_time_than_it_would_bind_is_lower() -> None:
    """It has half an hour to its deadline, and would be bound for an hour."""
    adapter, app = adapter_of(20.0), job(hours=0.5)
    quotes = {"h100": Quoted(0, "h100", 3 * DOLLAR, False)}

    def bid(commit_s: int) -> int:
        terms = {"h100": TreeTerms(0, commit_s * SECOND)}
        offer = adapter.offer(app, MarketView(0, (), (), quotes, terms=terms), "h100", (), 0)
        assert offer is not None
        return offer.wish.limit

    assert bid(900) == bid(1800) == bid(0)
    assert abs(bid(3600) - bid(0) / 2) <= 1


def test_for_what_is_free_nobody_is_bound_to_more_than_it_costs() -> None:
    adapter, app = adapter_of(20.0), job()
    quotes = {"h100": Quoted(0, "h100", 3 * DOLLAR, True)}
    terms = {"h100": TreeTerms(0, 60 * SECOND)}
    offer = adapter.offer(app, MarketView(0, (), (), quotes, terms=terms), "h100", (), 0)
    assert offer is not None
    assert offer.wish.price == 3 * DOLLAR < offer.wish.limit


def test_the_wall_counts_a_gang_as_all_of_its_nodes() -> None:
    """$0.10 for two steps of 10 s is $18 an hour, of which orders may have two thirds."""
    terms = TradingTerms("t", ("h100",), PERIOD, Budget(DOLLAR // 10))
    view = MarketView(0, (), (), {})
    gang = Wish("h100", 5 * DOLLAR, 5 * DOLLAR, rate=DOLLAR, count=4)
    _, (cut,) = within_budget(Intent((), (gang,)), terms, view, ())
    assert cut.limit == cut.price == 3 * DOLLAR
    dear = Wish("h100", 5 * DOLLAR, 5 * DOLLAR, rate=4 * DOLLAR, count=4)
    assert within_budget(Intent((), (dear,)), terms, view, ())[1] == []


def test_nothing_is_ordered_that_can_not_be_paid_as_long_as_it_binds() -> None:
    """$6 for an hour of four nodes is $1.50 each; what it is bound to already is taken off."""
    terms = TradingTerms("t", ("h100",), PERIOD, Budget(6 * DOLLAR))
    market = {"h100": TreeTerms(0, HOUR)}
    gang = Wish("h100", 5 * DOLLAR, 5 * DOLLAR, count=4)
    view = MarketView(0, (), (), {}, terms=market)
    _, (cut,) = within_budget(Intent((), (gang,)), terms, view, ())
    assert cut.limit == 1_500_000
    held = Holding(node(0, 0), 0, DOLLAR, 2 * DOLLAR, None, {}, "ada")
    bonds = {held.resource: NodeBond(HOUR // 2, 4 * DOLLAR)}
    bound = MarketView(0, (held,), (), {}, terms=market, bonds=bonds)
    (kept,), (cut,) = within_budget(
        Intent((Keep(held.resource, DOLLAR),), (gang,)), terms, bound, (held,)
    )
    assert cut.limit == 1_000_000 and kept.limit == DOLLAR


def test_the_wall_counts_what_is_called_and_what_is_promised() -> None:
    terms = TradingTerms("t", ("h100",), PERIOD, Budget(DOLLAR // 10))
    called = Holding(node(0, 0), 0, 6 * DOLLAR, 6 * DOLLAR, None, {}, "ada", "notice")
    wish = Wish("h100", 12 * DOLLAR, 12 * DOLLAR)
    calls = {called.resource: HoldingCall(MINUTE, "outbid")}
    promises = {node(0, 1): PromisedNode(MINUTE, 3 * DOLLAR, "t.0")}
    seen = MarketView(0, (called,), (), {}, calls=calls, promises=promises)
    _, (cut,) = within_budget(Intent((), (wish,)), terms, seen, ())
    assert cut.limit == (18 - 6 - 3) * DOLLAR * 2 // 3


def test_a_run_with_little_money_never_overruns_it_where_winners_are_bound() -> None:
    budget = Budget(3 * DOLLAR)
    ada = Tenant("ada", adapter_of(20.0, budget), job())
    world = cluster(ada, rival(20 * MINUTE, 6, 12.0), notice_s=60, commit_s=300)
    world.run(2 * HOUR)
    assert told(world, Filled) and (told(world, Lost) or told(world, Release))
    assert world.market.bill("ada", world.now_us) <= budget.total_micros * CHARGED
