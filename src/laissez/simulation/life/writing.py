"""From a diary and a log to the events of a life.

The diary has what the tenant's application and adapter saw, the log who won what with which order,
and the history what each stint cost. They are read together in the order of time; what is known of
a node later, such as the rate at which it was won, is filled in then.

Between two entries nothing changes that could be seen. So the time until the next one counts as
lacking, if something is missing, for the reason that held at its beginning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from laissez.adapters.budget import Budget
from laissez.adapters.view import GangAsk, MarketView, OrderGang
from laissez.model import (
    AmendOrder,
    Called,
    CancelOrder,
    ChangeLimit,
    Filled,
    Lost,
    PlaceOrder,
    Promised,
    Quoted,
    Rejected,
    Release,
    Uncalled,
)
from laissez.model.paths import tree_of
from laissez.simulation.contracts.setting import Setting, Stint
from laissez.simulation.demand.projects import Project
from laissez.simulation.kernel.stage import LogLine, NodeGiven, NodesAsked, NodeTaken
from laissez.simulation.life.events import (
    Arrives,
    Asks,
    Bid,
    Bids,
    CoursePoint,
    Ends,
    Finishes,
    GivesBack,
    IsCalled,
    IsPromised,
    IsUncalled,
    Lack,
    LackReason,
    LifeEvent,
    LimitMove,
    Loses,
    MeetsRefusal,
    Misses,
    MovesLimits,
    RateMove,
    RatesMove,
    Receives,
)
from laissez.simulation.life.watching import NOTHING, AdapterTurn, AppState, Diary, Moved

A_TENTH = 0.1


class Win(NamedTuple):
    """A node won in the market, by whom and with what."""

    who: str
    at_us: int
    price: int | None
    limit: int | None
    why: str


class TenantLog:
    """What the log of a run tells of one tenant's nodes."""

    def __init__(self, log: Iterable[LogLine], tenant: str) -> None:
        self.own: list[LogLine] = []
        self.wins: dict[tuple[str, int], Win] = {}
        self.last_win: dict[str, list[Win]] = {}
        self.lost: dict[tuple[str, int], Lost | NodeTaken] = {}
        self.released: dict[tuple[str, int], str] = {}
        self._orders: dict[tuple[str, str], Win] = {}
        self._gangs: set[tuple[str, str]] = set()
        for said in log:
            self._read(said, said.who == tenant)

    def won(self, resource: str, at_us: int) -> Win | None:
        """With what this node was won that is there since this instant."""
        wins = [win for win in self.last_win.get(resource, ()) if win.at_us <= at_us]
        return wins[-1] if wins else None

    def _read(self, said: LogLine, is_own: bool) -> None:
        what, who = said.what, said.who
        if isinstance(what, PlaceOrder | AmendOrder):
            order = (who, what.order or "")
            price = what.limit if self._is_gang(order, what) else what.price
            self._orders[order] = Win(who, said.at_us, price, what.limit, said.why)
        elif isinstance(what, OrderGang):
            win = Win(who, said.at_us, what.limit, what.limit, said.why)
            self._gangs.add((who, what.order))
            self._orders[who, what.order] = win
        elif isinstance(what, Filled):
            win = self._orders.get((who, what.order), Win(who, 0, None, None, ""))
            win = win._replace(at_us=said.at_us)
            self.wins[what.resource, said.at_us] = win
            if is_own:
                self.last_win.setdefault(what.resource, []).append(win)
        elif is_own:
            self._read_own(said)

    def _is_gang(self, order: tuple[str, str], what: PlaceOrder | AmendOrder) -> bool:
        """A gang has no price; it wins with its limit."""
        if isinstance(what, PlaceOrder):
            self._gangs.discard(order)
            if what.count > 1:
                self._gangs.add(order)
        return order in self._gangs

    def _read_own(self, said: LogLine) -> None:
        what = said.what
        if isinstance(what, NodeGiven):
            win = Win(said.who, said.at_us, what.rate_micros_per_hour, None, "")
            self.last_win.setdefault(what.resource, []).append(win)
        elif isinstance(what, Lost | NodeTaken):
            self.lost[what.resource, said.at_us] = what
        elif isinstance(what, Release):
            self.released[what.resource, said.at_us] = said.why
        if isinstance(what, NodesAsked | NodeGiven | Rejected | Called | Promised | Uncalled):
            self.own.append(said)


class Writing:
    """Reads a diary and a log once; after `events` the sums are there, too."""

    def __init__(
        self,
        project: Project,
        setting: Setting,
        diary: Diary,
        log: Iterable[LogLine],
        stints: Sequence[Stint],
    ) -> None:
        self.course: list[CoursePoint] = []
        self.empty_us = 0
        self.cold_node_us = 0
        self._project = project
        self._setting = setting
        self._diary = diary
        self._log = TenantLog(log, project.name)
        self._stints = list(stints)
        self._written: list[LifeEvent] = []
        self._held: dict[str, int] = {}
        """What it holds, and since when that is its own."""
        self._rates: dict[str, int] = {}
        self._told_rates: dict[str, int] = {}
        self._limits: dict[str, int] = {}
        self._whys: dict[str, str] = {}
        self._seen = AppState(project.arrives_us, 0, 0, 0.0, False, False, 0.0)
        self._now_us = project.arrives_us
        self._reason: LackReason = "no_bid"
        self._lacking_since_us: int | None = None
        self._lacked: dict[LackReason, list[float]] = {}
        budget = setting.budgets.get(project.name)
        self._budget = None if budget is None else Budget(budget, project.ends_us)

    def events(self) -> tuple[LifeEvent, ...]:
        ends_us = min(self._project.ends_us, self._setting.horizon_us)
        self._written.append(Arrives(self._project.arrives_us))
        for entry in self._entries():
            if _at_us(entry) > ends_us:
                break
            self._pass_time(_at_us(entry))
            self._read(entry)
            self._write_point()
        self._pass_time(ends_us)
        self._written += self._misses()
        self._written.append(Ends(ends_us, tuple(self._held)))
        return tuple(sorted(self._written, key=lambda event: event.at_us))

    def lacks(self) -> tuple[Lack, ...]:
        return tuple(
            Lack(reason, int(lasts_us), gap_us / lasts_us)
            for reason, (lasts_us, gap_us) in sorted(
                self._lacked.items(), key=lambda item: (-item[1][0], item[0])
            )
        )

    # Reading ----------------------------------------------------------------------------------

    def _entries(self) -> list[AppState | Moved | AdapterTurn | LogLine]:
        """In the order of time; within an instant a tenant sees first, and then speaks."""
        return sorted([*self._diary.entries, *self._log.own], key=_at_us)

    def _pass_time(self, until_us: int) -> None:
        lasts_us = until_us - self._now_us
        self._now_us = until_us
        seen = self._seen
        self.cold_node_us += seen.cold_nodes * lasts_us
        if seen.gap > NOTHING and lasts_us:
            self.empty_us += lasts_us if not seen.nodes else 0
            sums = self._lacked.setdefault(
                "too_late" if seen.is_helpless else self._reason, [0.0, 0.0]
            )
            sums[0] += lasts_us
            sums[1] += lasts_us * seen.gap

    def _read(self, entry: AppState | Moved | AdapterTurn | LogLine) -> None:
        if isinstance(entry, AppState):
            self._sees(entry)
        elif isinstance(entry, AdapterTurn):
            self._acts(entry)
        elif isinstance(entry, Moved):
            if entry.is_gained:
                self._receives(entry)
            else:
                self._loses(entry)
        elif isinstance(entry.what, NodesAsked):
            asked = entry.what
            self._reason = "line" if asked.wanted or not asked.missing else "budget"
            self._written.append(Asks(entry.at_us, asked.missing, asked.wanted))
        elif isinstance(entry.what, Rejected):
            self._written.append(MeetsRefusal(entry.at_us, entry.what.message))
        elif isinstance(what := entry.what, Called):
            self._written.append(IsCalled(entry.at_us, what.resource, what.until, what.reason))
        elif isinstance(what, Promised):
            self._written.append(IsPromised(entry.at_us, what.resource, what.until))
        elif isinstance(what, Uncalled):
            self._written.append(IsUncalled(entry.at_us, what.resource))

    def _sees(self, seen: AppState) -> None:
        if seen.is_done and not self._seen.is_done:
            self._written.append(Finishes(seen.at_us))
        if seen.gap <= NOTHING:
            self._lacking_since_us = None
        elif self._lacking_since_us is None:
            self._lacking_since_us = seen.at_us
        self._seen = seen

    def _write_point(self) -> None:
        nodes: dict[str, int] = {}
        for resource in self._held:
            nodes[tree_of(resource)] = nodes.get(tree_of(resource), 0) + 1
        seen = self._seen
        limits = [self._limits[each] for each in self._held if each in self._limits]
        point = CoursePoint(
            self._now_us,
            nodes,
            seen.cold_nodes,
            sum(self._rates.get(each, 0) for each in self._held),
            sum(limits) if limits else None,
            seen.gap,
            seen.performance,
        )
        if self.course and self.course[-1].at_us == point.at_us:
            self.course.pop()
        self.course.append(point)

    # Coming and going -------------------------------------------------------------------------

    def _micros_per_hour(self, units: float) -> float | None:
        per_unit = self._diary.micros_per_unit
        return None if per_unit is None or self._budget is None else units * per_unit

    def _receives(self, moved: Moved) -> None:
        resource, at_us = moved.resource, moved.at_us
        win = self._log.won(resource, at_us) or Win("", at_us, None, None, "")
        since_us = self._lacking_since_us
        in_line = win.limit is None  # there, the price is the rate
        if in_line and win.price is not None:
            self._rates[resource] = win.price
        if win.limit is not None:
            self._limits[resource] = win.limit
        self._held[resource] = win.at_us
        self._written.append(
            Receives(
                at_us,
                resource,
                win.at_us,
                None if since_us is None else at_us - since_us,
                win.price if in_line else None,
                None if in_line else win.price,
                win.limit,
                win.why,
                moved.worth.now,
                moved.worth.full,
                self._micros_per_hour(moved.worth.now),
                moved.cold_start_s,
            )
        )

    def _loses(self, moved: Moved) -> None:
        resource, at_us = moved.resource, moved.at_us
        stint = self._stint_until(resource, at_us)
        lost = self._log.lost.get((resource, at_us))
        why = self._log.released.get((resource, at_us))
        rate, limit = self._rates.pop(resource, None), self._limits.pop(resource, None)
        self._told_rates.pop(resource, None)
        what_goes = (
            at_us - stint.from_us,
            stint.charge,
            moved.worth.now,
            moved.worth.full,
            self._micros_per_hour(moved.worth.now),
            moved.redone_s,
            moved.wasted,
        )
        if why is not None:
            self._written.append(GivesBack(at_us, resource, why, rate, *what_goes))
            return
        winner = self._log.wins.get((resource, at_us))
        to = winner.who if winner else lost.to if isinstance(lost, NodeTaken) else None
        self._written.append(
            Loses(
                at_us,
                resource,
                stint.reason or "",
                to,
                winner.price if winner else None,
                limit,
                rate,
                self._whys.get(resource, ""),
                *what_goes,
                moved.cold_start_s,
            )
        )

    def _stint_until(self, resource: str, at_us: int) -> Stint:
        """All its time with a node that it has just lost. A node that it gave up and won back in
        the same instant has never left it, and has a stint for before and one for after."""
        since_us = self._held.pop(resource)
        own = [
            stint
            for stint in self._stints
            if stint.resource == resource and since_us <= stint.from_us and stint.to_us <= at_us
        ]
        for stint in own:
            self._stints.remove(stint)
        charge = sum(stint.charge for stint in own)
        return replace(own[-1], from_us=since_us, charge=charge)

    def _misses(self) -> list[Misses]:
        """Stints of which the application never knew."""
        return [
            Misses(stint.to_us, stint.resource, stint.reason or "", stint.charge)
            for stint in self._stints
            if stint.from_us < self._held.get(stint.resource, stint.to_us + 1)
        ]

    # A turn in the market ---------------------------------------------------------------------

    def _acts(self, turn: AdapterTurn) -> None:
        view = turn.view
        self._hear_rates(view)
        before = {
            order.order: (order.scope, order.price or order.limit, order.limit, order.count)
            for order in view.orders
        }
        after = dict(before)
        moves = []
        for action in turn.actions:
            do = action.do
            if isinstance(do, PlaceOrder):
                limit = do.limit or do.price or 0
                price = limit if do.count > 1 else do.price or limit
                after[do.order or ""] = (do.scope, price, limit, do.count)
                self._whys[do.order or ""] = action.why
            elif isinstance(do, OrderGang):
                after[do.order] = (do.scope, do.limit, do.limit, do.count)
                self._whys[do.order] = action.why
            elif isinstance(do, AmendOrder) and do.order in after:
                scope, price, limit, count = after[do.order]
                limit = do.limit or limit
                price = limit if count > 1 else do.price or price
                after[do.order] = (scope, price, limit, count)
                self._whys[do.order] = action.why
            elif isinstance(do, CancelOrder):
                after.pop(do.order, None)
            elif isinstance(do, ChangeLimit):
                self._whys[do.resource] = action.why
                was = self._limits.get(do.resource, 0)
                rate = self._rates.get(do.resource, 0)
                self._limits[do.resource] = do.limit
                moves.append(LimitMove(do.resource, was, do.limit, rate, action.why))
        if moves:
            self._written.append(MovesLimits(view.at_us, tuple(moves)))
        if sorted(after.values()) != sorted(before.values()):
            bids = tuple(
                _bid(view, order, self._whys.get(name, "")) for name, order in after.items()
            )
            self._written.append(Bids(view.at_us, bids, turn.pace))
        bid_for = {(scope, count) for scope, _, _, count in after.values()}
        self._reason = self._why_lacking(view, bid_for)

    def _hear_rates(self, view: MarketView) -> None:
        moves = []
        for holding in view.holdings:
            resource, rate = holding.resource, holding.rate
            self._rates[resource] = rate
            self._limits[resource] = holding.limit
            was = self._told_rates.get(resource)
            if was is None:
                self._fill_in_rate(resource, rate)
                self._told_rates[resource] = rate
            elif abs(rate - was) > A_TENTH * was:
                moves.append(RateMove(resource, was, rate, holding.cause))
                self._told_rates[resource] = rate
        if moves:
            self._written.append(RatesMove(view.at_us, tuple(moves)))

    def _fill_in_rate(self, resource: str, rate: int) -> None:
        for number in range(len(self._written) - 1, -1, -1):
            event = self._written[number]
            if isinstance(event, Receives) and event.resource == resource:
                self._written[number] = replace(event, rate=rate)
                return

    def _why_lacking(self, view: MarketView, bid_for: Collection[tuple[str, int]]) -> LackReason:
        """What stands between it and more; what it does not bid for is no reason."""
        offers = [quote for quote in view.quotes.values() if quote.rate is not None]
        cheapest = min((quote.rate or 0 for quote in offers), default=0)
        budget, period_us = self._budget, self._setting.period_us
        if budget is not None and budget.affordable_rate(view, period_us) < cheapest:
            return "budget"
        if not bid_for:
            return "no_bid"
        quotes = (_quote(view, scope, count) for scope, count in bid_for)
        is_free = any(quote.idle for quote in quotes if quote is not None)
        return "dear" if is_free else "outbid"


def _at_us(entry: AppState | Moved | AdapterTurn | LogLine) -> int:
    return entry.view.at_us if isinstance(entry, AdapterTurn) else entry.at_us


def _bid(view: MarketView, order: tuple[str, int, int, int], why: str) -> Bid:
    scope, price, limit, count = order
    quote = _quote(view, scope, count)
    rate, is_free = (None, False) if quote is None else (quote.rate, quote.idle)
    return Bid(scope, price, limit, why, rate, is_free, count)


def _quote(view: MarketView, scope: str, count: int) -> Quoted | None:
    """Of so many nodes there, as far as it was seen."""
    if count == 1:
        return view.quotes.get(scope)
    asked = (ask for ask in view.gang_quotes if (ask.scope, ask.count) == (scope, count))
    ask: GangAsk | None = next(asked, None)
    return None if ask is None else view.gang_quotes[ask]
