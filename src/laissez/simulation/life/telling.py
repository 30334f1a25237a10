"""A life in words: one line for an event, and at the end what it came to.

Moves are told one by one, or together where several nodes of one kind come or go within a second.
What happens between two moves, bids, limits, rates and requests that shift, is folded into one line
each, unless every detail is wanted. The reasons of losses are worded as the live runner words them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from laissez.model.paths import tree_of
from laissez.model.values import MICROS_PER_DOLLAR
from laissez.simulation.contracts.recording import micros
from laissez.simulation.life.events import (
    Arrives,
    Asks,
    Bid,
    Bids,
    Ends,
    Finishes,
    GivesBack,
    IsCalled,
    IsPromised,
    IsUncalled,
    Lack,
    LackReason,
    LifeEvent,
    Loses,
    MeetsRefusal,
    Misses,
    MovesLimits,
    RatesMove,
    Receives,
)
from laissez.simulation.life.life import Life, WatchedProject

US_PER_S = 1_000_000
TOGETHER_US = US_PER_S
WORTH_TELLING = 0.001
"""The share of a life below which a reason is left out."""
SHIFTING = (Bids, MovesLimits, RatesMove, Asks)
MOVES = (Receives, Loses, GivesBack)
WARNINGS = (IsCalled, IsPromised, IsUncalled)

WHY_LACKING: dict[LackReason, str] = {
    "outbid": "nothing was free, and others keep their nodes at more than it bid",
    "dear": "free nodes cost more than it bid",
    "no_bid": "it made no bid",
    "line": "it waited in the line, and nothing was free",
    "budget": "its budget paid for no more",
    "too_late": "a node would have come too late",
}


def tell(life: Life, *, detail: bool = False) -> list[str]:
    """The whole life, a line an event."""
    return [*_introduced(life), "", *told_events(life, detail=detail), "", *_summed_up(life)]


def told_events(life: Life, *, detail: bool = False) -> list[str]:
    """The events alone."""
    unit = life.who.unit
    lines: list[str] = []
    for events in _runs(life.events, detail=detail):
        if isinstance(events[0], SHIFTING):
            lines += _shifts(events)
        else:
            lines.append(f"{clock(events[0].at_us)}  {_moved(events, unit)}")
    return lines


# Amounts ------------------------------------------------------------------------------------------


def clock(at_us: int) -> str:
    """Minutes and seconds."""
    minutes, seconds = divmod(at_us // US_PER_S, 60)
    return f"{minutes:02}:{seconds:02}"


def dollars(amount_micros: float) -> str:
    return f"${amount_micros / MICROS_PER_DOLLAR:,.2f}"


def rates(amounts: Iterable[float | None]) -> str:
    """One rate, or from which to which."""
    known = [amount for amount in amounts if amount is not None]
    if not known:
        return "an unknown rate"
    low, high = dollars(min(known)), dollars(max(known))
    return f"{low}/h" if low == high else f"{low} to {high}/h"


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1_000 else f"{value:,.0f}"


def _span(numbers: Iterable[int]) -> str:
    known = sorted(numbers)
    return str(known[0]) if known[0] == known[-1] else f"{known[0]} to {known[-1]}"


# Folding ------------------------------------------------------------------------------------------


def _runs(events: Sequence[LifeEvent], *, detail: bool) -> Iterator[list[LifeEvent]]:
    """Events that are told in one breath: moves of one sort, and then what shifted meanwhile."""
    if detail:
        yield from ([event] for event in events)
        return
    moves: list[LifeEvent] = []
    shifts: list[LifeEvent] = []
    for event in events:
        if isinstance(event, SHIFTING):
            shifts.append(event)
        elif moves and _goes_on(moves, event):
            moves.append(event)
        else:
            yield from (run for run in (moves, shifts) if run)
            moves, shifts = [event], []
    yield from (run for run in (moves, shifts) if run)


def _goes_on(moves: Sequence[LifeEvent], event: LifeEvent) -> bool:
    """Nodes that come or go together, or one that comes and goes again and again."""
    first, last = moves[0], moves[-1]
    if isinstance(event, WARNINGS):
        return event.at_us - first.at_us <= TOGETHER_US and _sort_of(first) == _sort_of(event)
    if not isinstance(event, MOVES) or not isinstance(first, MOVES):
        return False
    if event.at_us - last.at_us <= TOGETHER_US and _flaps([*moves, event]):
        return True
    if _flaps(moves) and len(moves) > 1:
        return False
    return event.at_us - first.at_us <= TOGETHER_US and _sort_of(first) == _sort_of(event)


def _flaps(moves: Sequence[Any]) -> bool:
    """They are all about the same node."""
    return len({move.resource for move in moves}) == 1


def _sort_of(event: LifeEvent) -> tuple[str, ...]:
    """Moves of one sort can be told together."""
    sort: tuple[str, ...] = (type(event).__name__,)
    if isinstance(event, MOVES + WARNINGS):
        sort += (tree_of(event.resource),)
    if isinstance(event, IsCalled | IsPromised):
        sort += (clock(event.until_us),)
    if isinstance(event, IsCalled):
        sort += (event.reason,)
    if isinstance(event, Loses):
        sort += (event.reason, event.to or "")
    if isinstance(event, GivesBack):
        sort += (event.why,)
    return sort


def _shifts(events: Sequence[LifeEvent]) -> Iterator[str]:
    """What shifted between two moves, a line for each sort of it, in the order of its beginning."""
    by_sort: dict[type, list[Any]] = {}
    for event in events:
        by_sort.setdefault(type(event), []).append(event)
    tellers: dict[type, tuple[Callable[[Any], str], Callable[[Sequence[Any]], str]]] = {
        Bids: (_bids, _bids_moved),
        MovesLimits: (_limits, _limits_moved),
        RatesMove: (_rates, _rates_moved),
        Asks: (_asks, _asks_moved),
    }
    for sort, same in by_sort.items():
        one, many = tellers[sort]
        if len(same) == 1:
            yield f"{clock(same[0].at_us)}  {one(same[0])}"
        else:
            yield f"{clock(same[0].at_us)}  {many(same)}"


def _times(events: Sequence[LifeEvent], count: int) -> str:
    return f"{count} times until {clock(events[-1].at_us)}"


# What shifts --------------------------------------------------------------------------------------


def _bids(event: Bids) -> str:
    if not event.bids:
        return "takes its bids back"
    by_scope: dict[str, list[Bid]] = {}
    for bid in event.bids:
        by_scope.setdefault(bid.scope, []).append(bid)
    parts = [_bid_for(scope, bids) for scope, bids in by_scope.items()]
    pace = "" if event.pace >= 1 else f"; paced to {event.pace:.0%} by its budget"
    why = event.bids[0].why
    return f"bids {', and '.join(parts)}{f': {why}' if why else ''}{pace}"


def _bid_for(scope: str, bids: Sequence[Bid]) -> str:
    nodes = sum(bid.count for bid in bids)
    together = "" if nodes == len(bids) else "together "
    count = "" if nodes == 1 else f"{nodes} {together}of "
    limit = max(bid.limit for bid in bids)
    beyond = f", up to {rates([limit])}" if limit > max(bid.price for bid in bids) else ""
    return f"{rates(bid.price for bid in bids)} for {count}{scope}{beyond} ({_market(bids)})"


def _market(bids: Sequence[Bid]) -> str:
    costs = [bid.quoted for bid in bids if bid.quoted is not None]
    if not costs:
        return "no quote can be seen"
    free = sum(bid.is_free for bid in bids)
    state = "free" if free == len(bids) else "not free" if not free else "free at times"
    return f"{state}, quoted at {rates(costs)}"


def _bids_moved(events: Sequence[Bids]) -> str:
    by_tree: dict[str, list[Bid]] = {}
    for event in events:
        for bid in event.bids:
            by_tree.setdefault(tree_of(bid.scope), []).append(bid)
    parts = [
        f"{tree} at {rates(bid.price for bid in bids)} ({_market(bids)})"
        for tree, bids in by_tree.items()
    ]
    last = next((event.bids[0].why for event in reversed(events) if event.bids), "")
    why = f"; at last: {last}" if last else ""
    return f"bids moved {_times(events, len(events))}: {', '.join(parts)}{why}"


def _limits(event: MovesLimits) -> str:
    moves = event.moves
    if len(moves) > 1:
        nodes = f"{len(moves)} nodes"
        return f"limits of {nodes} moved to {rates(move.limit for move in moves)}: {moves[0].why}"
    move = moves[0]
    return (
        f"limit of {move.resource} moved from {rates([move.was])} to {rates([move.limit])}, where "
        f"it costs {rates([move.rate])}: {move.why}"
    )


def _limits_moved(events: Sequence[MovesLimits]) -> str:
    moves = [move for event in events for move in event.moves]
    between = rates(move.limit for move in moves)
    costs = rates(move.rate for move in moves)
    times, why = _times(events, len(moves)), moves[-1].why
    return f"limits moved {times}: {between}, at rates of {costs}; at last: {why}"


def _rates(event: RatesMove) -> str:
    moves = event.moves
    what = moves[0].resource if len(moves) == 1 else f"{len(moves)} nodes"
    was, now = (rates(getattr(move, name) for move in moves) for name in ("was", "rate"))
    return f"the rate of {what} moved from {was} to {now} ({moves[0].cause})"


def _rates_moved(events: Sequence[RatesMove]) -> str:
    moves = [move for event in events for move in event.moves]
    between = rates(amount for move in moves for amount in (move.was, move.rate))
    return f"rates moved {_times(events, len(moves))}: {between}"


def _asks(event: Asks) -> str:
    if not event.missing:
        return "asks for nothing"
    wanted = " or ".join(f"{count} of {kind}" for kind, count in event.missing.items())
    if event.wanted == event.missing:
        return f"asks for {wanted}"
    paid = " or ".join(f"{count} of {kind}" for kind, count in event.wanted.items())
    return f"would ask for {wanted}; its budget pays for {paid or 'none'}"


def _asks_moved(events: Sequence[Asks]) -> str:
    counts: dict[str, list[int]] = {}
    for event in events:
        for kind, count in event.wanted.items():
            counts.setdefault(kind, []).append(count)
    parts = [f"{_span(each)} of {kind}" for kind, each in counts.items()]
    what = " or ".join(parts) or "nothing that it could pay"
    return f"asked {_times(events, len(events))}: {what}"


# Moves --------------------------------------------------------------------------------------------


def _moved(events: Sequence[Any], unit: str) -> str:
    first: LifeEvent = events[0]
    if isinstance(first, WARNINGS):
        return _forewarned(events)
    if len(events) > 1 and _flaps(events):
        return _comes_and_goes(events)
    if isinstance(first, Receives):
        return _receives(events, unit)
    if isinstance(first, Loses):
        return _loses(events, unit)
    if isinstance(first, GivesBack):
        return f"gives back {_nodes(events)}: {first.why}; {_given(events, unit)}"
    if isinstance(first, Misses):
        return f"won {first.resource}, and it was gone before it was there ({first.reason})"
    if isinstance(first, MeetsRefusal):
        return f"is refused: {first.why}"
    if isinstance(first, Arrives):
        return "arrives"
    if isinstance(first, Finishes):
        return "is done"
    assert isinstance(first, Ends)
    kept = len(first.nodes)
    return f"ends; {kept} node{'s go' if kept != 1 else ' goes'} back" if kept else "ends"


def _forewarned(events: Sequence[Any]) -> str:
    first, what = events[0], _nodes(events)
    if isinstance(first, IsCalled):
        why = "the floor rose above" if first.reason == "floor" else "others offered more than"
        return f"is called to leave {what} by {clock(first.until_us)}: {why} its limit"
    if isinstance(first, IsPromised):
        return f"is promised {what}, by {clock(first.until_us)}"
    return f"keeps {what} after all: the call is over"


def _nodes(events: Sequence[Any]) -> str:
    resource: str = events[0].resource
    return resource if len(events) == 1 else f"{len(events)} of {tree_of(resource)}"


def _receives(events: Sequence[Receives], unit: str) -> str:
    first = events[0]
    bids = [event.price for event in events if event.price is not None]
    bid = f", having bid {rates(bids)}" if bids else ""
    has_waited = first.waited_us is not None and first.waited_us >= US_PER_S
    waited = f", after {clock(first.waited_us or 0)} of lacking" if has_waited else ""
    cold_s = max(event.cold_start_s for event in events)
    cold = f"once warm, in {cold_s:.0f} s" if cold_s else "at once"
    rate = rates(event.rate for event in events)
    return f"receives {_nodes(events)} at {rate}{bid}{waited}: adds {_worth(events, unit)}, {cold}"


def _comes_and_goes(events: Sequence[Any]) -> str:
    """One node again and again, each time for no more than a moment."""
    received = [event for event in events if isinstance(event, Receives)]
    gone = [event for event in events if not isinstance(event, Receives)]
    last = gone[-1]
    goes = "gives it back" if isinstance(last, GivesBack) else "loses it"
    why = last.why if isinstance(last, GivesBack) else _why_lost([last])
    times = "at once" if len(gone) == 1 else _times(events, len(gone))
    order = f"receives {events[0].resource} and {goes} {times}"
    if isinstance(events[0], GivesBack | Loses):
        order = f"{goes.replace('it', events[0].resource)} and receives it again {times}"
    after = ", and has it in the end" if isinstance(events[-1], Receives) else ""
    rate = f" at {rates(event.rate for event in received)}" if received else ""
    return f"{order}{rate}{after}: {why}; {_had(gone)}"


def _worth(events: Sequence[Any], unit: str) -> str:
    now, full = (sum(getattr(event, name) for event in events) for name in _UNITS)
    money = [event.micros_per_hour for event in events if event.micros_per_hour is not None]
    worth = f" worth {dollars(sum(money))}/h" if money and now > 0 else ""
    more = f" ({_number(full)} at full use)" if full > 1.001 * now else ""
    return f"{_number(now)} {unit}{worth}{more}"


_UNITS = ("units_now", "units_full")


def _loses(events: Sequence[Loses], unit: str) -> str:
    cold_s = max(event.cold_start_s for event in events)
    cold = f"; a successor is cold for {cold_s:.0f} s" if cold_s else ""
    return (
        f"loses {_nodes(events)}: {_why_lost(events)}; it costs {_worth(events, unit)}"
        f"{_redo(events)}{cold}; {_had(events)}"
    )


def _given(events: Sequence[GivesBack], unit: str) -> str:
    """What goes with it is told where something does."""
    is_missed = any(event.units_now > 0 for event in events)
    cost = f"it costs {_worth(events, unit)}; " if is_missed else ""
    return f"{cost}{_had(events)}{_redo(events)}"


def _why_lost(events: Sequence[Loses]) -> str:
    first = events[0]
    limits = [event.limit for event in events if event.limit is not None]
    up_to = f"its limit of {rates(limits)}" if limits else "its limit"
    if first.reason == "preempted":
        return f"{first.to} may preempt it"
    prices = [event.price for event in events if event.price is not None]
    who = f"{first.to} offered {rates(prices)}" if first.to else "somebody offered"
    if first.reason == "outbid":
        return f"{who}, more than {up_to}"
    if first.reason == "floor":
        return f"the floor rose above {up_to}"
    if first.reason == "limit" and first.to:
        return f"{up_to} is below what others offer, and {who}; {first.why}"
    if first.reason == "limit":
        return f"{up_to} is below the floor; {first.why}"
    return first.reason


def _redo(events: Sequence[Any]) -> str:
    redone_s = max(event.redone_s for event in events)
    return f"; {redone_s:.0f} s of work are to be done again" if redone_s >= 1 else ""


def _had(events: Sequence[Any]) -> str:
    longest_us = max(event.had_us for event in events)
    return f"had for {clock(longest_us)}, {dollars(micros(sum(each.charge for each in events)))}"


# Before and after ---------------------------------------------------------------------------------


def _introduced(life: Life) -> list[str]:
    who = life.who
    demand = f"{_number(who.alone_node_hours)} node-hours"
    return [
        f"{who.name} under {life.contract}, seed {life.seed}",
        f"{who.kind}, from {clock(who.arrives_us)} to {clock(who.ends_us)}; {_money(who)}",
        f"alone: {demand} for {_done(who, who.alone_performance)}",
    ]


def _money(who: WatchedProject) -> str:
    if who.budget_micros is None:
        return "no budget"
    budget = f"budget {dollars(who.budget_micros)}"
    if who.micros_per_unit is None:
        return budget
    return f"{budget}; 1 {who.unit} is worth {dollars(who.micros_per_unit)}/h"


def _done(who: WatchedProject, performance: float) -> str:
    if who.kind == "inference":
        return f"{performance:,.0f} requests within their objective"
    return f"{performance:.1%} of the work"


def _summed_up(life: Life) -> list[str]:
    who, sums = life.who, life.summary
    hours = " + ".join(f"{_number(each)} {kind}" for kind, each in sums.node_hours.items())
    mean = f", {rates([sums.mean_rate_micros_per_hour])} a node" if hours else ""
    lines = [
        f"retention {sums.retention:.3f}: {_done(who, sums.performance)}",
        f"node-hours: {hours or 'none'}, of them {_number(sums.cold_node_hours)} cold; "
        f"{dollars(sums.cost_micros)} spent{mean}",
        f"moves: {sums.receives} received, {sums.losses} lost, {sums.given_back} given back; "
        f"{_wasted(who, sums.wasted)} done twice",
        f"had nothing, and lacked something, for {clock(sums.empty_us)} of {clock(sums.lasts_us)}",
    ]
    lines += [
        _lack(who, lack, sums.lasts_us)
        for lack in sums.lacks
        if lack.lasts_us >= WORTH_TELLING * sums.lasts_us
    ]
    return lines


def _wasted(who: WatchedProject, wasted: float) -> str:
    return f"{wasted:,.0f} requests" if who.kind == "inference" else f"{wasted:.1%} of the work"


def _lack(who: WatchedProject, lack: Lack, lasts_us: int) -> str:
    share = lack.lasts_us / lasts_us
    return (
        f"lacked {_number(lack.mean_gap)} {who.unit} for {share:.1%} of the time: "
        f"{WHY_LACKING[lack.reason]}"
    )
