"""What happened, in one line for people: a tenant's notices and the operator's events.

The operator knows an order by a longer id, which begins with its tenant's name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from laissez.cli.terminal.amounts import (
    show_basis_points,
    show_charge,
    show_clock,
    show_duration,
    show_rate,
)
from laissez.cli.terminal.output import say
from laissez.model import (
    Amended,
    Called,
    Cancelled,
    ChangeGuard,
    Charged,
    Expired,
    Filled,
    FloorSet,
    GuardSet,
    LimitSet,
    Lost,
    Notice,
    Placed,
    Promised,
    Rejected,
    ResourceAdded,
    ResourceWithdrawn,
    Transferred,
    Uncalled,
    Unpromised,
)

LINES_MAX = 20
TENTH_US = 100_000

REASONS = {
    "idle": "it was free",
    "outbid": "an order went past the limit",
    "relinquished": "it was released",
    "limit": "the rate is above the new limit",
    "floor": "the floor went past the limit",
    "withdrawn": "the operator took it out of the market",
}

TO_COME = {
    "outbid": "an order goes past the limit",
    "floor": "the floor goes past the limit",
    "withdrawn": "the operator takes it out of the market",
}
"""Why something is called. There is time to leave yet."""


def sentence(event: Notice) -> str:
    return _SENTENCES[type(event)](event)


def say_events(events: Sequence[Notice], nothing: str = "nothing changed") -> None:
    """One line each, and how many more there are."""
    for event in events[:LINES_MAX]:
        say(sentence(event))
    if len(events) > LINES_MAX:
        say(f"... and {len(events) - LINES_MAX:,} more")
    if not events:
        say(nothing)


def guard_in_words(guard: GuardSet | ChangeGuard) -> str:
    named = {
        "rise": show_basis_points(guard.rise),
        "fall": show_rate(guard.fall),
        "hold": show_duration(guard.hold),
        "window": show_duration(guard.window),
        "notice": show_duration(guard.notice),
        "commit": show_duration(guard.commit),
    }
    return ", ".join(f"{name} {value}" for name, value in named.items() if value) or "off"


def _added(event: ResourceAdded) -> str:
    return f"{event.resource} is on the market"


def _withdrawn(event: ResourceWithdrawn) -> str:
    return f"{event.resource} is off the market"


def _floor_set(event: FloorSet) -> str:
    falling = "" if event.asked == event.floor else f", on its way to {show_rate(event.asked)}"
    return f"the floor of {event.scope} is {show_rate(event.floor)}{falling}"


def _guard_set(event: GuardSet) -> str:
    return f"the guards of {event.tree}: {guard_in_words(event)}"


def _terms(event: Placed | Amended) -> str:
    until = "" if event.expires is None else f", until {show_clock(event.expires)}"
    if event.price is None:
        return f"{event.count:,} of {event.scope} at once, limit {show_rate(event.limit)}{until}"
    return f"{event.scope} at {show_rate(event.price)}, limit {show_rate(event.limit)}{until}"


def _placed(event: Placed) -> str:
    return f"order {event.order} is placed: {_terms(event)}"


def _amended(event: Amended) -> str:
    return f"order {event.order} is amended: {_terms(event)}"


def _cancelled(event: Cancelled) -> str:
    return f"order {event.order} is cancelled"


def _expired(event: Expired) -> str:
    return f"order {event.order} has expired"


def _limit_set(event: LimitSet) -> str:
    return f"the limit of {event.resource} is {show_rate(event.limit)} ({event.tenant})"


def why_called(reason: str) -> str:
    return TO_COME.get(reason, REASONS[reason])


def _called(event: Called) -> str:
    goes = f"goes at {show_clock(event.until)}, in {_length(event.until - event.at)}"
    return f"{event.resource} is called and {goes}: {why_called(event.reason)} ({event.tenant})"


def _promised(event: Promised) -> str:
    at_the_latest = f"at {show_clock(event.until)}, in {_length(event.until - event.at)}"
    return (
        f"{event.resource} is promised to order {event.order}: it comes {at_the_latest}, or "
        f"as soon as it is left ({event.tenant})"
    )


def _length(length_us: int) -> str:
    return show_duration(max(0, length_us - length_us % TENTH_US))


def _unpromised(event: Unpromised) -> str:
    return (
        f"{event.resource} is promised to order {event.order} no longer, and does not come: "
        f"{REASONS[event.reason]} ({event.tenant})"
    )


def _uncalled(event: Uncalled) -> str:
    return f"{event.resource} is no longer called: it stays ({event.tenant})"


def _transferred(event: Transferred) -> str:
    old, new = event.old or "the operator", event.new or "the operator"
    order = "" if event.order is None else f", order {event.order}"
    return f"{event.resource} goes from {old} to {new}: {REASONS[event.reason]}{order}"


def _filled(event: Filled) -> str:
    return f"order {event.order} has won {event.resource}"


def _lost(event: Lost) -> str:
    return f"{event.resource} is no longer yours: {REASONS[event.reason]}"


def _charged(event: Charged) -> str:
    span = show_duration(event.at - event.since)
    return f"{event.resource} cost {show_charge(event.charge)} for {span} ({event.tenant})"


def _rejected(event: Rejected) -> str:
    return f"refused: {event.message}"


_SENTENCES: dict[type, Callable[[Any], str]] = {
    ResourceAdded: _added,
    ResourceWithdrawn: _withdrawn,
    FloorSet: _floor_set,
    GuardSet: _guard_set,
    Placed: _placed,
    Amended: _amended,
    Cancelled: _cancelled,
    Expired: _expired,
    LimitSet: _limit_set,
    Called: _called,
    Promised: _promised,
    Unpromised: _unpromised,
    Uncalled: _uncalled,
    Transferred: _transferred,
    Filled: _filled,
    Lost: _lost,
    Charged: _charged,
    Rejected: _rejected,
}
