"""A market on trial: beside the oracle, a twin, a restored copy, and under an auditor's eyes.

Each command goes to the market, to the oracle (`naive.py`) and to a twin of the market that is
never asked anything. After each command every answer of the market is held against the oracle's,
and against what the auditor (`auditor.py`) has worked out from the events alone. The market is
asked everything and is now and then replaced by its restored snapshot; the twin is not, and yet
their digests must stay the same.

Without a market it is the oracle that is on trial, before the auditor.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from auditor import (
    Auditor,
    Facts,
    check_explanation,
    check_newest,
    check_statement,
    line,
    quote_from,
)
from laissez import model
from laissez.market import Market
from laissez.model import Command, Event, Rejected, Settled
from naive import NaiveMarket

TENANTS = ("A", "B", "C", "D")
ASKERS = (*TENANTS, None)
COUNTS = (2, 3, 4, 1)


def told(events: Sequence[Event]) -> list[object]:
    """What two markets must agree on: not the words of a refusal; explanations are read later."""
    return [
        (event.at, event.code)
        if isinstance(event, Rejected)
        else (event.at, event.tenant, event.resource, event.since, event.charge)
        if isinstance(event, Settled)
        else event
        for event in events
    ]


class Comparison:
    def __init__(
        self,
        leaves: Iterable[str],
        strange: Iterable[str] = (),
        *,
        market: bool = True,
        thorough: bool = False,
    ) -> None:
        """If `thorough`, after every command everything is asked that else is asked in turn."""
        self.oracle, self.auditor = NaiveMarket(), Auditor()
        self.market = Market() if market else None
        self.twin = Market() if market else None
        self.scopes = sorted({scope for leaf in leaves for scope in line(leaf)})
        self.strange = list(strange)
        self.digest = self.market.digest() if self.market else ""
        self.unread: list[tuple[Settled, ...]] = []
        self.commands = 0
        self.thorough = thorough

    # What is done

    def do(self, command: Command) -> None:
        """Give a command to all, and check everything."""
        before, timer = self.digest, self.oracle.next_timer()
        refused = self.tell(command)
        self.check()
        if refused and (timer is None or command.at < timer):
            assert self.digest == before, "a refusal left a trace"

    def tell(self, command: Command) -> bool:
        """Give a command to all; True if it was refused."""
        self.commands += 1
        right = self.oracle.apply(command)
        answers = [right, *(m.apply(command) for m in (self.market, self.twin) if m)]
        for events in answers:
            assert told(events) == told(right)
        self.auditor.read(right, command)
        for settled in zip(*answers, strict=True):
            if isinstance(settled[0], Settled):
                self.unread.append(settled)
        return bool(right) and isinstance(right[-1], Rejected)

    def restore(self) -> None:
        """Go on with a copy of the market."""
        if self.market:
            snapshot = self.market.snapshot()
            self.market = Market.restore(snapshot)
            assert self.market.snapshot() == snapshot
            assert self.market.digest() == self.digest

    # What must hold

    def check(self) -> None:
        """Everything, after every command; and asking leaves no trace."""
        if self.market and self.twin:
            self.digest = self.market.digest()
            assert self.twin.digest() == self.digest
            assert Market.restore(self.market.snapshot()).digest() == self.digest
        self.check_resources()
        self.check_tenants()
        self.check_money()
        if self.commands % 8 == 0:
            self.read_statements()
        if self.market:
            assert self.market.digest() == self.digest, "a question left a trace"

    def check_resources(self) -> None:
        market, oracle = self.market, self.oracle
        facts = self.auditor.facts(oracle.now)
        assert facts.keys() == oracle.resources.keys()
        if market:
            assert market.now == oracle.now
            assert market.next_timer() == oracle.next_timer()
            assert market.resources() == tuple(oracle.leaves())
            assert set(market.scopes()) == set(oracle.scopes())
        covered: dict[str, dict[str, Facts]] = defaultdict(dict)
        for path, leaf in facts.items():
            held = self.auditor.leaves[path]
            right = (
                leaf.owner,
                held and held.limit,
                self.auditor.charged(path, leaf, oracle.now),
                held and held.called,
            )
            for m in (oracle, market):
                if m:
                    assert (m.owner(path), m.limit(path), m.rate(path), m.called(path)) == right
            for scope in line(path):
                covered[scope][path] = leaf
        for turn in self.turns(30):
            self.check_quotes(covered, turn)

    def turns(self, all_of_them: int) -> Iterable[int]:
        return range(all_of_them) if self.thorough else [self.commands % all_of_them]

    def check_quotes(self, covered: dict[str, dict[str, Facts]], turn: int) -> None:
        """All for one leaf; for several, and of the oracle, one of each scope in turn."""
        for place, scope in enumerate((*self.scopes, *self.strange)):
            for asker in ASKERS if self.market else ():
                right = quote_from(covered[scope], asker)
                assert self.market and self.market.quote(scope, asker) == right
            asker, count = ASKERS[(turn + place) % 5], COUNTS[(turn + place) % 4]
            deepest = max((len(line(path)) for path in covered[scope]), default=1)
            depth = len(line(scope))
            levels = [None, *range(depth, max(deepest, depth + 1))]
            within = levels[(turn + place) % len(levels)] if count > 1 else None
            right = quote_from(covered[scope], asker, count, within)
            for m in (self.oracle, self.market):
                if m:
                    assert m.quote(scope, asker, count=count, within=within) == right

    def check_tenants(self) -> None:
        market, oracle = self.market, self.oracle
        for tenant in TENANTS:
            promises = self.auditor.promises_of(tenant)
            assert oracle.promises(tenant) == promises
            live = [order for order in oracle.orders.values() if order.tenant == tenant]
            live.sort(key=lambda order: order.sequence)
            right = {order.order: order for order in self.auditor.orders_of(tenant)}
            assert {order.id for order in live} == right.keys()
            if not market:
                continue
            assert market.promises(tenant) == promises
            assert market.holdings(tenant) == oracle.holdings(tenant)
            visible = market.visible(tenant)
            assert visible == oracle.visible(tenant)
            asked = (*self.scopes, *self.strange)
            assert visible == {s for s in asked if market.check_visible(tenant, s) is None}
            assert market.orders(tenant) == tuple(right[order.id] for order in live)

    def check_money(self) -> None:
        timer = self.oracle.next_timer()
        for later in self.turns(6):
            at = self.oracle.now + later
            self.check_money_until(at if timer is None else min(at, timer))

    def check_money_until(self, at: int) -> None:
        market, oracle, total = self.market, self.oracle, 0
        for tenant in TENANTS:
            bill, segments = oracle.bill(tenant, at), oracle.segments(tenant, at)
            explained = sum(
                check_explanation(of_one, self.auditor.holding(path, tenant).since, at)
                for path, of_one in segments.items()
            )
            assert bill == self.auditor.settled[tenant] + explained
            total += bill
            if market:
                assert market.bill(tenant, at) == bill
                assert market.segments(tenant, at) == segments
                self.check_newest_segments(market, tenant, at)
        assert oracle.revenue(at) == total
        assert market is None or market.revenue(at) == total

    def check_newest_segments(self, market: Market, tenant: str, at: int) -> None:
        segments = market.segments(tenant, at)
        for count in (1, 3, 10_000):
            newest = market.newest_segments(tenant, at, each=count, together=10**9)
            assert newest.keys() == segments.keys()
            for path, (last, left_out) in newest.items():
                check_newest(last, left_out, segments[path], count)
        if at > market.now:
            for path, of_one in segments.items():
                holding = market.holding(path)
                assert holding is not None and holding.tenant == tenant
                assert (holding.rate, holding.cause) == of_one[-1][2:]

    def read_statements(self) -> None:
        """Explanations are worked out when read; by now the books have moved on."""
        for settled, (read, tail) in zip(self.unread, self.auditor.statements, strict=True):
            assert settled[0] is read
            assert all(other == settled[0] for other in settled)
            check_statement(read, tail)
        self.unread = []
        self.auditor.statements = []


def describe(command: Command) -> str:
    """Python that makes the command again."""
    assert isinstance(command, model.message.Message)
    return f"model.{command!r}"
