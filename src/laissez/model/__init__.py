"""What is said to the market and by it: commands, events, refusals, values.

Every message is defined here once, immutable, and used as it is by the market and by all that
will stand around it (journal, wire, SDK, simulator). This room imports nothing of the house and
never decides anything.
"""

from laissez.model.commands import (
    AddResource,
    Advance,
    Amend,
    Cancel,
    Command,
    Place,
    Relinquish,
    SetFloor,
    SetGuard,
    SetLimit,
    Settle,
    Withdraw,
)
from laissez.model.events import (
    Amended,
    Cancelled,
    Event,
    Expired,
    FloorSet,
    GuardSet,
    LimitSet,
    Placed,
    Reason,
    Rejected,
    ResourceAdded,
    ResourceWithdrawn,
    Settled,
    Transferred,
)
from laissez.model.refusals import Code, Unanswerable
from laissez.model.values import (
    CHARGE_UNITS_PER_MICRO_DOLLAR,
    Cause,
    OpenOrder,
    Quote,
    Segment,
    Segments,
)
from laissez.model.wire import decode_command, decode_event, encode

__all__ = [
    "CHARGE_UNITS_PER_MICRO_DOLLAR",
    "AddResource",
    "Advance",
    "Amend",
    "Amended",
    "Cancel",
    "Cancelled",
    "Cause",
    "Code",
    "Command",
    "Event",
    "Expired",
    "FloorSet",
    "GuardSet",
    "LimitSet",
    "OpenOrder",
    "Place",
    "Placed",
    "Quote",
    "Reason",
    "Rejected",
    "Relinquish",
    "ResourceAdded",
    "ResourceWithdrawn",
    "Segment",
    "Segments",
    "SetFloor",
    "SetGuard",
    "SetLimit",
    "Settle",
    "Settled",
    "Transferred",
    "Unanswerable",
    "Withdraw",
    "decode_command",
    "decode_event",
    "encode",
]
