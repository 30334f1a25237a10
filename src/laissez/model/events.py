"""What a market answers: everything that a command caused, in the order in which it happened.

`Transferred` is the only way in which a resource changes hands, `Settled` the only way in which
a charge becomes final, `Rejected` the only way in which a command is refused.
"""

from typing import Literal

from laissez.model.message import UNTIL_AN_INSTANT, Message
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
    notice: int | None = None
    commit: int | None = None


class Placed(Message, frozen=True):
    """An order was accepted, at this price and limit; a transfer that fills it follows.

    A gang has no price, and says within which level, as a number of names, it is to be filled.
    """

    at: int
    tenant: str
    order: str
    scope: str
    price: int | None
    limit: int
    expires: int | None
    count: int = 1
    within: int | None = None


class Amended(Message, frozen=True):
    """An order was replaced under its own id, with a new place in the queue."""

    at: int
    tenant: str
    order: str
    scope: str
    price: int | None
    limit: int
    expires: int | None
    count: int = 1
    within: int | None = None


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


class Called(Message, frozen=True, rename=UNTIL_AN_INSTANT):
    """A holding will be lost for this reason at `until`; its holder may leave before."""

    at: int
    tenant: str
    resource: str
    until: int
    reason: Reason


class Promised(Message, frozen=True, rename=UNTIL_AN_INSTANT):
    """A called resource will be this order's tenant's at `until`, or as soon as it is left."""

    at: int
    tenant: str
    order: str
    resource: str
    until: int


class Uncalled(Message, frozen=True):
    """A call is over, and the holder keeps the resource."""

    at: int
    tenant: str
    resource: str


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
    | Called
    | Promised
    | Uncalled
    | Transferred
    | Settled
    | Rejected
)
