"""The adapter of a rigid job: all of its nodes at once, and a crew kept or left as a whole."""

from laissez.adapters.budget import Budget
from laissez.adapters.gang import GangAdapter
from laissez.adapters.intent import TradingTerms
from laissez.adapters.view import MarketView
from laissez.model import Holding, Quoted
from laissez.performance.batch import Work
from laissez.performance.rigid import RigidJob, RigidSpec

S = 1_000_000
HOUR_US = 3_600 * S
DOLLAR = 1_000_000
NODES = tuple(f"h100/r0/h0/g{gpu}" for gpu in range(4))


def job() -> RigidJob:
    """Half an hour of work on four nodes of a host; due in an hour."""
    work = Work(0.5, {"h100": 1.0, "a100": 0.5})
    return RigidJob(RigidSpec(work, 4, 3, HOUR_US, 60.0, 300.0))


def adapter(value: float = 40 * DOLLAR, budget: int | None = None) -> GangAdapter:
    own = None if budget is None else Budget(budget, HOUR_US)
    return GangAdapter(TradingTerms("own", ("h100", "a100"), 10 * S, own), value)


def view(*held: str, rate: int = DOLLAR, idle: bool = True, at_us: int = 0) -> MarketView:
    holdings = tuple(
        Holding(each, since=0, rate=rate, limit=rate, safe_until=None, attributes={}, tenant="t")
        for each in held
    )
    quotes = {tree: Quoted(at_us, tree, rate, idle) for tree in ("h100", "a100")}
    return MarketView(at_us, holdings, (), quotes)


def test_it_asks_for_all_at_once_where_a_crew_is_worth_most() -> None:
    """One wish, for four nodes of one host, each for a quarter of what all are worth."""
    (wish,) = adapter().decide(job(), view()).wishes
    assert (wish.scope, wish.count, wish.within) == ("h100", 4, 3)
    assert DOLLAR <= wish.limit <= 10 * DOLLAR


def test_it_offers_no_more_than_its_money_bears() -> None:
    """The wall counts a gang as all of its nodes; who has nothing asks for nothing."""
    assert adapter(budget=0).decide(job(), view()).wishes == ()
    budget = 100_000
    (wish,) = adapter(budget=budget).decide(job(), view(rate=1)).wishes
    assert 4 * wish.limit * 2 * 10 * S <= budget * HOUR_US


def test_a_crew_is_kept_as_a_whole_or_left_as_a_whole() -> None:
    """Each node at the same limit, the sum of which is what all are worth; if they cost more than
    that, all go."""
    app = job()
    for node in NODES:
        app.gain(node, 0)
    app.advance(200 * S)
    kept = adapter().decide(app, view(*NODES, at_us=200 * S))
    assert [each.resource for each in kept.keep] == list(NODES)
    assert len({each.limit for each in kept.keep}) == 1
    assert kept.keep[0].limit >= DOLLAR
    left = adapter().decide(app, view(*NODES, rate=100 * DOLLAR, at_us=200 * S))
    assert left.keep == ()
    assert left.is_too_dear


def test_what_is_left_of_a_crew_is_given_back() -> None:
    """And all of it is asked for anew."""
    app = job()
    for node in NODES:
        app.gain(node, 0)
    app.lose(NODES[0], 100 * S)
    intent = adapter().decide(app, view(*NODES[1:], at_us=100 * S))
    assert intent.keep == ()
    assert [wish.count for wish in intent.wishes] == [4]
