"""The adapter of a rigid job: all of its nodes at once, and a crew kept or left as a whole."""

from msgspec.structs import replace

from laissez.adapters.asking import Turns, WishToAsk
from laissez.adapters.budget import Budget
from laissez.adapters.gang import GangAdapter
from laissez.adapters.intent import TradingTerms, Wish
from laissez.adapters.view import GangAsk, HoldingCall, MarketView, OrderGang, PromisedNode, Vacate
from laissez.model import ChangeLimit, Holding, OpenOrder, Quoted, Release
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


def test_it_offers_what_all_are_worth_at_full_use() -> None:
    """There is time enough to wait; but who doesn't start when it can may never. Half an hour of
    work and a minute to start: of $40 an hour all but one part in 31 is left, a quarter each."""
    (wish,) = adapter().decide(job(), view(idle=False)).wishes
    assert wish.limit == int(40 * DOLLAR * (1 - 60 / 1_860) / 4)


def test_its_money_lasts_until_it_is_done_and_no_longer() -> None:
    """$20 pay for $38 an hour until it is done, which is in 31 minutes, but not for the hour."""
    (wish,) = adapter(budget=20 * DOLLAR).decide(job(), view(rate=9_500_000, idle=False)).wishes
    assert wish.limit == int(40 * DOLLAR * (1 - 60 / 1_860) / 4)
    (less,) = adapter(budget=10 * DOLLAR).decide(job(), view(rate=9_500_000, idle=False)).wishes
    assert less.limit < 0.6 * wish.limit


def test_it_goes_by_what_all_cost_at_once() -> None:
    """One H100 can be had for $1, but four at once for $11; so four A100s are better."""
    own = adapter()
    asks = own.gangs_to_quote(job(), ())
    assert asks == (GangAsk("h100", 4, 3), GangAsk("a100", 4, 3))
    rates = {"h100": 11 * DOLLAR, "a100": DOLLAR}
    quotes = {ask: Quoted(0, ask.scope, rates[ask.scope], False) for ask in asks}
    (wish,) = own.decide(job(), replace(view(), gang_quotes=quotes)).wishes
    assert (wish.scope, wish.rate) == ("a100", DOLLAR)


def test_it_waits_for_what_it_is_promised() -> None:
    """Two nodes are there and two promised: nothing is given back, and nothing asked for. With one
    promised it would never be whole; what it has is of no use."""
    app = job()
    for node in NODES[:2]:
        app.gain(node, 0)
    coming = {node: PromisedNode(60 * S, DOLLAR, "own.0") for node in NODES[2:]}
    waiting = replace(view(*NODES[:2]), promises=coming)
    intent = adapter().decide(app, waiting)
    assert ([each.resource for each in intent.keep], intent.wishes) == ([*NODES[:2]], ())
    assert adapter().step(app, waiting, 0) == ()
    all_coming = replace(view(), promises=dict.fromkeys(NODES, coming[NODES[2]]))
    assert adapter().decide(job(), all_coming).wishes == ()
    broken = replace(waiting, promises={NODES[2]: coming[NODES[2]]})
    assert adapter().decide(app, broken).keep == ()
    assert [wish.count for wish in adapter().decide(app, broken).wishes] == [4]


def test_who_is_called_saves_and_leaves_with_all() -> None:
    """No limit of a called node is changed; all of them save first, and look for others."""
    app = job()
    for node in NODES:
        app.gain(node, 0)
    app.advance(200 * S)
    call = {NODES[1]: HoldingCall(300 * S, "outbid")}
    actions = adapter().step(app, replace(view(*NODES, at_us=200 * S), calls=call), 200 * S)
    assert [type(each.do) for each in actions] == [Vacate, *(Release,) * 4, OrderGang]
    assert actions[0].do == Vacate(NODES[1]) and actions[1].do == Release(NODES[1])
    assert not any(isinstance(each.do, ChangeLimit) for each in actions)
    app.vacate(NODES[1], 200 * S)
    assert app.since_checkpoint_s(NODES[0]) == 0.0


def test_a_gang_that_rests_has_not_asked_for_a_single_node() -> None:
    """A gang presses on nobody, so who waits with one still asks its first place for a node, and no
    second place beside it; with an order for one there it has been asked."""

    def asked(*orders: OpenOrder) -> list[str]:
        turns = Turns(adapter().terms, replace(view(), orders=orders))
        wishes = (Wish(scope, DOLLAR, DOLLAR) for scope in ("h100", "a100"))
        return [wish.scope for wish in turns.ask(WishToAsk(each, False, True) for each in wishes)]

    gang = OpenOrder("t", "own.0", "h100", None, DOLLAR, None, 4, 3)
    single = OpenOrder("t", "own.0", "h100", DOLLAR, DOLLAR, None)
    assert asked() == asked(gang) == ["h100"]
    assert asked(single) == ["h100", "a100"]
