"""What a market answers: everything that a command caused, in the order in which it happened.

`Transferred` is the only way in which a resource changes hands, `Settled` the only way in which
a charge becomes final, `Rejected` the only way in which a command is refused.
"""

from typing import Literal

from laissez.model.message import Message
from laissez.model.values import Segments

Reason = Literal["idle", "outbid", "relinquished", "limit", "floor", "withdrawn"]


class ResourceAdded(Message, frozen=True):
    """A resource is part of the market, idle until a transfer says otherwise."""

    at: int
    resource: str
    attributes: tuple[tuple[str, str], ...]


class ResourceWithdrawn(Message, frozen=True):
    """A resource is no longer part of any scope."""

    at: int
    resource: str


class FloorSet(Message, frozen=True):
    """A scope's floor now stands at `floor`; a guard may still be on its way to `asked`."""

    at: int
    scope: str
    floor: int
    asked: int


class GuardSet(Message, frozen=True):
    """The guards of a tree, as they are from now on."""

    at: int
    tree: str
    rise: int | None
    fall: int | None
    hold: int | None
    window: int | None


class Placed(Message, frozen=True):
    """An order was accepted, at this price and limit; a transfer that fills it follows."""

    at: int
    tenant: str
    order: str
    scope: str
    price: int
    limit: int
    expires: int | None


class Amended(Message, frozen=True):
    """An order was replaced under its own id, with a new place in the queue."""

    at: int
    tenant: str
    order: str
    scope: str
    price: int
    limit: int
    expires: int | None


class Cancelled(Message, frozen=True):
    """An order was ended by its tenant."""

    at: int
    tenant: str
    order: str


class Expired(Message, frozen=True):
    """An order ended at the instant it was to expire."""

    at: int
    tenant: str
    order: str


class LimitSet(Message, frozen=True):
    """A holder's retention limit is now this."""

    at: int
    tenant: str
    resource: str
    limit: int


class Transferred(Message, frozen=True):
    """A resource changed hands; None is the operator. `order`, if any, is filled and gone."""

    at: int
    resource: str
    old: str | None
    new: str | None
    order: str | None
    reason: Reason


class Settled(Message, frozen=True, gc=True):
    """What one holding owes since `since`, exactly, with its explanation."""

    at: int
    tenant: str
    resource: str
    since: int
    charge: int
    segments: Segments


class Rejected(Message, frozen=True):
    """The command broke a rule and changed nothing; the message says what to do."""

    at: int
    code: str
    message: str


Event = (
    ResourceAdded
    | ResourceWithdrawn
    | FloorSet
    | GuardSet
    | Placed
    | Amended
    | Cancelled
    | Expired
    | LimitSet
    | Transferred
    | Settled
    | Rejected
)
