"""What a tenant is told of the market's events.

Its own orders and limits are told as they happened, under the tenant's own order ids. A transfer
has two sides, and each tenant learns only its own: the winner that it has the resource, the loser
why it has not. The operator is told the events themselves, explanations of charges left out.
"""

from laissez.model.events import (
    Amended,
    Called,
    Cancelled,
    Event,
    Expired,
    FloorSet,
    GuardSet,
    LimitSet,
    Placed,
    Promised,
    Reason,
    Rejected,
    ResourceAdded,
    ResourceWithdrawn,
    Transferred,
    Uncalled,
)
from laissez.model.message import UNTIL_AN_INSTANT, Message


class Filled(Message, frozen=True):
    """The order has won this resource, and is gone."""

    at: int
    order: str
    resource: str
    attributes: dict[str, str]


class Lost(Message, frozen=True):
    """The resource is no longer yours, and why."""

    at: int
    resource: str
    reason: Reason


class Unpromised(Message, frozen=True):
    """A promise is over and was not kept: given back, or the resource was withdrawn.

    An order for one that was withdrawn from is placed again, if it has not expired.
    """

    at: int
    tenant: str
    order: str
    resource: str
    reason: Reason


class Charged(Message, frozen=True):
    """What a holding cost since `since`, exactly; it is part of the bill for good.

    `Settled` without its explanation, which can be longer than anybody wants in a stream.
    """

    at: int
    tenant: str
    resource: str
    since: int
    charge: int


class Handover(Message, frozen=True):
    """What the operator's systems are told when a resource changes hands; None is the operator."""

    sequence: int
    at: int
    resource: str
    old: str | None
    new: str | None
    reason: Reason
    attributes: dict[str, str]


class HolderCalled(Message, frozen=True, rename=UNTIL_AN_INSTANT):
    """What the operator's systems are told when a holding is called, or is to be withdrawn."""

    sequence: int
    at: int
    resource: str
    tenant: str
    until: int
    reason: Reason
    attributes: dict[str, str]


class HolderPromised(Message, frozen=True, rename=UNTIL_AN_INSTANT):
    """What they are told when a called resource is promised: who will have it, and when."""

    sequence: int
    at: int
    resource: str
    tenant: str
    until: int


class HolderUncalled(Message, frozen=True):
    """What they are told when a call is over, and the holder keeps the resource."""

    sequence: int
    at: int
    resource: str
    tenant: str


class HolderUnpromised(Message, frozen=True):
    """What they are told when a promise is over, and this tenant will not have the resource."""

    sequence: int
    at: int
    resource: str
    tenant: str
    reason: Reason


class HandoversMissed(Message, frozen=True):
    """Handovers after `after` and up to `until` are no longer kept; read the journal for them."""

    after: int
    until: int


OwnEvent = (
    Placed
    | Amended
    | Cancelled
    | Expired
    | LimitSet
    | Filled
    | Called
    | Promised
    | Unpromised
    | Uncalled
    | Lost
    | Charged
    | Rejected
)
OperatorEvent = (
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
    | Unpromised
    | Uncalled
    | Transferred
    | Charged
    | Rejected
)
Notice = OwnEvent | OperatorEvent
Occurrence = Event | Unpromised
Posted = Handover | HolderCalled | HolderPromised | HolderUnpromised | HolderUncalled
