"""What was promised comes, or it is said that it does not: to its tenant, and to the machines."""

from itertools import pairwise

from laissez.exchange.access import Limits, Principal, new_token
from laissez.exchange.execution import Execution
from laissez.exchange.keys import Keys
from laissez.exchange.questions import Desk
from laissez.exchange.records import Cordon, Entry, PlaceNamed, Record
from laissez.exchange.venue import Venue
from laissez.model import (
    AddResource,
    Advance,
    AskHoldings,
    AskPromises,
    Cancelled,
    Charged,
    Filled,
    HolderUnpromised,
    HoldingList,
    Notice,
    Place,
    Placed,
    Promise,
    Promised,
    PromiseList,
    Relinquish,
    SetFloor,
    SetGuard,
    Transferred,
    Unpromised,
    Withdraw,
)

LEAVES = [f"h/g{number}" for number in range(4)]


class Told:
    """An exchange without its doors, and all that its tenants are told."""

    def __init__(self, *, commit: int | None = None) -> None:
        self.execution = Execution(Venue(), 0, Keys(10))
        self.do("operator:1", SetGuard(0, "h", notice=100, commit=commit))
        for leaf in LEAVES:
            self.do("operator:1", AddResource(0, leaf))

    def do(self, author: str, record: Record) -> tuple[Notice, ...]:
        return self.execution.execute(Entry(author, record))

    def restart(self) -> None:
        venue = Venue.restore(self.execution.venue.snapshot())
        self.execution = Execution(venue, self.execution.sequence, Keys(10))

    def of(self, tenant: str) -> list[Notice]:
        messages = self.execution.feeds.of(tenant).messages
        return [event for happened in messages for event in happened.events]

    def ends(self, tenant: str) -> list[tuple[int, str, str, str]]:
        found = [each for each in self.of(tenant) if isinstance(each, Unpromised)]
        return [(each.at, each.order, each.resource, each.reason) for each in found]

    def a_gang_is_promised(self, *, together: bool = False) -> None:
        """Two that A holds are promised to B's gang, which has the two others at once."""
        for number in (0, 1):
            self.do("A", Place(1, "A", f"A/{number}", f"h/g{number}", 5, 5))
        self.do("B", PlaceNamed(2, "B", "B/job", "h", None, 9, None, 4, None, together))
        assert self.execution.venue.market.promises("B") == {LEAVES[0]: 102, LEAVES[1]: 102}


def test_of_a_gang_what_is_withdrawn_is_told() -> None:
    """B hears which of its resources will not come, the others do; A hears nothing of B."""
    told = Told()
    told.a_gang_is_promised()
    told.do("operator:1", Withdraw(3, LEAVES[0]))
    assert told.ends("B") == [(3, "job", LEAVES[0], "withdrawn")]
    assert told.ends("A") == []
    told.do("operator:1", Advance(200))
    filled = {each.resource for each in told.of("B") if isinstance(each, Filled)}
    assert filled == {*LEAVES[1:]}
    assert len(told.ends("B")) == 1


def test_the_operator_and_its_machines_are_told() -> None:
    told = Told()
    told.a_gang_is_promised()
    answer = told.do("operator:1", Withdraw(3, LEAVES[0]))
    ends = [each for each in answer if isinstance(each, Unpromised)]
    assert ends == [Unpromised(3, "B", "B/job", LEAVES[0], "withdrawn")]
    sequence = told.execution.sequence
    posted = [each for each in told.execution.handovers if isinstance(each, HolderUnpromised)]
    assert posted == [HolderUnpromised(sequence, 3, LEAVES[0], "B", "withdrawn")]


def test_after_a_restart_the_same_is_told() -> None:
    """What stood before is read from the market, not remembered."""
    told = Told()
    told.a_gang_is_promised()
    told.restart()
    told.do("operator:1", Cordon(3, "h/g0", 50))
    told.do("operator:1", Advance(60))
    assert told.ends("B") == [(50, "job", LEAVES[0], "withdrawn")]


def test_a_single_order_is_placed_again_after_that() -> None:
    """First that its promise is over, then that it waits again; an expired one does not."""
    told = Told()
    for number, leaf in enumerate(LEAVES):
        told.do("A", Place(1, "A", f"A/{number}", leaf, 5, 5))
    told.do("B", Place(2, "B", "B/late", "h/g0", 9, 9))
    told.do("C", Place(2, "C", "C/dead", "h/g1", 9, 9, 10))
    told.do("operator:1", Withdraw(20, LEAVES[1]))
    assert told.ends("C") == [(20, "dead", LEAVES[1], "withdrawn")]
    told.do("operator:1", Withdraw(20, LEAVES[0]))
    kinds = [type(each) for each in told.of("B")]
    assert kinds == [Placed, Promised, Unpromised, Placed] or kinds == [
        Promised,
        Unpromised,
        Placed,
    ]


def test_what_is_given_back_is_told_to_whoever_follows_the_order() -> None:
    """Also where the call goes on without a promise, and nothing else happens at all."""
    for commit in (None, 100):
        told = Told(commit=commit)
        told.a_gang_is_promised()
        told.do("operator:1", SetFloor(3, "h/g0", 8))
        answer = told.do("B", Relinquish(4, "B", LEAVES[0]))
        assert Unpromised(4, "B", "job", LEAVES[0], "relinquished") in answer
        assert [type(each) for each in answer] == [Charged, Unpromised][commit is None :]
        assert told.ends("B") == [(4, "job", LEAVES[0], "relinquished")]
        assert isinstance(told.execution.handovers[-1], HolderUnpromised)


def test_what_goes_together_is_told_too() -> None:
    """The owner did nothing, or gave back one: of each promise that went with it it is told."""
    told = Told()
    told.a_gang_is_promised(together=True)
    told.do("B", Relinquish(3, "B", LEAVES[2]))
    assert sorted(told.ends("B")) == [
        (3, "job", LEAVES[0], "relinquished"),
        (3, "job", LEAVES[1], "relinquished"),
    ]
    assert told.execution.venue.market.promises("B") == {}


def test_a_promise_that_is_kept_ends_with_what_was_won() -> None:
    """At once when the holder leaves, or when its time is over; a cancelled order had none."""
    told = Told()
    told.a_gang_is_promised()
    told.do("A", Relinquish(3, "A", LEAVES[0]))
    told.do("operator:1", Advance(200))
    assert told.ends("B") == []
    assert not any(isinstance(each, Cancelled) for each in told.of("B"))
    handovers = [each for each in told.execution.handovers if not isinstance(each, Transferred)]
    assert all(a.sequence <= b.sequence for a, b in pairwise(handovers))


# --- what is said of it ---------------------------------------------------------------------------


def asked(told: Told, tenant: str, at: int) -> tuple[PromiseList, HoldingList]:
    desk = Desk(told.execution.venue, lambda: at, lambda: told.execution.sequence)
    asker = Principal(new_token("tenant", tenant, at=0)[1], Limits())
    promised, held = desk.answer(asker, AskPromises()), desk.answer(asker, AskHoldings())
    assert isinstance(promised, PromiseList) and isinstance(held, HoldingList)
    return promised, held


def test_a_promise_says_what_giving_it_back_costs() -> None:
    """Its price (of a gang: its limit) for the whole commitment: exactly what is billed."""
    told = Told(commit=100)
    told.a_gang_is_promised()
    promised, _ = asked(told, "B", 3)
    costs = Promise(LEAVES[0], "B", "job", 102, 9, 9, 100)
    assert promised.promises[0] == costs
    before = told.execution.venue.market.bill("B", 3)
    told.do("B", Relinquish(3, "B", LEAVES[0]))
    assert told.execution.venue.market.bill("B", 3) == before + costs.price * costs.commit


def test_of_a_single_order_the_price_counts_and_without_a_commitment_nothing() -> None:
    told = Told()
    for number, leaf in enumerate(LEAVES):
        told.do("A", Place(1, "A", f"A/{number}", leaf, 5, 5))
    told.do("B", Place(2, "B", "B/one", "h", 7, 9))
    promised, _ = asked(told, "B", 3)
    assert promised.promises == (Promise(LEAVES[0], "B", "one", 102, 9, 7, 0),)


def test_what_goes_together_says_so() -> None:
    """Each holding names the order, each promise that its order's go together; others neither."""
    for together in (True, False):
        told = Told()
        told.a_gang_is_promised(together=together)
        told.restart()
        promised, held = asked(told, "B", 3)
        assert {each.together for each in held.holdings} == {"job" if together else None}
        assert {each.together for each in promised.promises} == {together}
        assert {each.together for each in asked(told, "A", 3)[1].holdings} == {None}
