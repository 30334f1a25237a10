"""Commands and events as sentences.

Every event has its sentence, but an answer leaves out what only repeats the command: a limit or a
floor that is set as asked, an order that is filled at once. A transfer is never left out; it names
its reason, with the limit or rate that was true before it.
"""

from collections.abc import Iterator
from typing import assert_never

from laissez.model import (
    AddResource,
    Advance,
    Amend,
    Amended,
    Called,
    Cancel,
    Cancelled,
    Command,
    Event,
    Expired,
    FloorSet,
    GuardSet,
    LimitSet,
    Place,
    Placed,
    Promised,
    Rejected,
    Relinquish,
    ResourceAdded,
    ResourceWithdrawn,
    SetFloor,
    SetGuard,
    SetLimit,
    Settle,
    Settled,
    Transferred,
    Uncalled,
    Withdraw,
)
from laissez.sample.amounts import show_charge, show_clock, show_rate, show_span
from laissez.sample.story.cluster import ClusterView
from laissez.sample.story.scene import PlayedTurn


def scope_in_words(scope: str) -> str:
    """A root is a kind of resource; anything deeper is a place."""
    return scope if "/" in scope else f"any {scope.upper()}"


def command_in_words(command: Command) -> str:
    """Who asks for what, with all the terms that were given."""
    match command:
        case Place():
            what = f"{command.tenant}: place {command.order} for {scope_in_words(command.scope)}"
            return what + _terms(command)
        case Amend():
            return f"{command.tenant}: amend {command.order}" + _terms(command)
        case Cancel():
            return f"{command.tenant}: cancel {command.order}"
        case SetLimit():
            return f"{command.tenant}: limit of {command.resource} to {show_rate(command.limit)}"
        case Relinquish():
            return f"{command.tenant}: relinquish {command.resource}"
        case SetFloor():
            return f"operator: floor of {command.scope} to {show_rate(command.floor)}"
        case SetGuard():
            return f"operator: guards of {command.tree}"
        case AddResource():
            return f"operator: add {command.resource}"
        case Withdraw():
            return f"operator: withdraw {command.resource}"
        case Settle():
            return "operator: settle every open holding"
        case Advance():
            return "(time passes)"
        case _:
            assert_never(command)


def answer_in_words(turn: PlayedTurn) -> Iterator[tuple[Event, str]]:
    """What happened, in order, each event with its sentence."""
    filled = {event.order for event in turn.events if isinstance(event, Transferred)}
    for event in turn.events:
        if not _repeats_the_command(event, filled):
            yield event, event_in_words(event, turn.before)


def _repeats_the_command(event: Event, filled: set[str | None]) -> bool:
    match event:
        case Placed() | Amended():
            return event.order in filled
        case FloorSet():
            return event.floor == event.asked
        case LimitSet():
            return True
        case _:
            return False


def event_in_words(event: Event, before: ClusterView) -> str:
    match event:
        case Transferred():
            return _transfer_in_words(event, before)
        case Settled():
            span, charge = show_span(event.at - event.since), show_charge(event.charge)
            return f"{event.tenant} owes {charge} for {span} of {event.resource}."
        case Placed():
            if event.price is None:
                return "It waits, all or none: no domain suits it yet."
            price = show_rate(event.price)
            return f"It waits: nothing free fits, and nobody has to leave at {price} yet."
        case Amended():
            price, limit = show_rate(event.price or event.limit), show_rate(event.limit)
            return f"{event.order} is now last in its queue, at {price} with limit {limit}."
        case Cancelled():
            return f"{event.order} is cancelled, and its pressure gone."
        case Expired():
            return f"{event.order} has expired, and its pressure is gone."
        case LimitSet():
            limit = show_rate(event.limit)
            return f"{event.tenant}'s limit of {event.resource} is now {limit}."
        case Called():
            left = show_span(event.until - event.at)
            return f"{event.tenant} is called, and has {left} to leave {event.resource}."
        case Promised():
            return f"{event.resource} is promised to {event.tenant}."
        case Uncalled():
            return f"{event.tenant} keeps {event.resource}: the call is over."
        case FloorSet():
            return f"The floor of {event.scope} is now {show_rate(event.floor)}."
        case GuardSet():
            return f"The guards of {event.tree} are set."
        case ResourceAdded():
            return f"{event.resource} joins the market."
        case ResourceWithdrawn():
            return f"{event.resource} leaves the market."
        case Rejected():
            return f"Refused: {event.message}. ({event.code})"
        case _:
            assert_never(event)


def _transfer_in_words(event: Transferred, before: ClusterView) -> str:
    if event.old is None:
        return f"{event.new} gets {event.resource}: it was free."
    what = f"{event.old}'s {event.resource}"
    fate = "is free again" if event.new is None else f"goes to {event.new}"
    return f"{what} {fate}: {_reason_in_words(event, before)}."


def _reason_in_words(event: Transferred, before: ClusterView) -> str:
    row = before.rows[event.resource]
    limit = "" if row.limit is None else show_rate(row.limit)
    match event.reason:
        case "idle":
            return "it was free"
        case "outbid":
            return f"outbid, {event.old}'s limit was {limit}"
        case "relinquished":
            return f"{event.old} gave it back"
        case "limit":
            return f"the rate was {show_rate(row.rate)}, above the limit"
        case "floor":
            return f"the floor passed {event.old}'s limit, {limit}"
        case "withdrawn":
            return "the operator withdrew it"
        case _:
            assert_never(event.reason)


def _terms(command: Place | Amend) -> str:
    terms = ""
    if command.price is not None:
        terms += f" at {show_rate(command.price)}"
    if command.limit is not None:
        terms += f", limit {show_rate(command.limit)}"
    if isinstance(command.expires, int):
        terms += f", until {show_clock(command.expires)}"
    return terms
