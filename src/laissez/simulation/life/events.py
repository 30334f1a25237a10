"""What can happen in a tenant's life, each with its instant.

Money is in micro-dollars per hour, a charge in the market's unit; written down, their fields carry
these units, as messages do. Units are those of the application's utility: `now` is what counts at
this instant, `full` what a node could do if all of it were needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from laissez.model.message import written_name

LackReason = Literal["outbid", "dear", "no_bid", "line", "budget", "too_late"]
"""Why a tenant had less than it could use: nothing was free, or not so many at once where that was
asked for, and others keep their nodes at more than it bid; free nodes cost more than it bid; it
made no bid; it waited in the line; its budget paid for no more; nothing would have come in time."""


class Written(msgspec.Struct, frozen=True, rename=written_name):
    """What is told of a life; in JSON, money has its unit."""


class DatedEvent(Written, frozen=True, tag_field="kind", tag=str.lower):
    """In JSON its kind is the name of its class, or the tag that stands there."""

    at_us: int


class Arrives(DatedEvent, frozen=True):
    """It begins to act."""


class Bid(Written, frozen=True):
    """An order as it stands, and the quote there, if that can be seen: what a node would be
    charged, which is less than what its holder may keep it at. With a `count` it is a gang, whose
    price is its limit."""

    scope: str
    price: int
    limit: int
    why: str
    quoted: int | None = msgspec.field(name="quoted_micros_per_hour")
    is_free: bool
    count: int = 1


class Bids(DatedEvent, frozen=True):
    """Its orders have changed: all of them, as they stand now. `pace` is how much of what a node
    is worth its budget bears."""

    bids: tuple[Bid, ...]
    pace: float


class Asks(DatedEvent, frozen=True):
    """In a line: how many of each kind would be enough, and for how many it can pay."""

    missing: Mapping[str, int]
    wanted: Mapping[str, int]


class LimitMove(Written, frozen=True):
    resource: str
    was: int = msgspec.field(name="was_micros_per_hour")
    limit: int
    rate: int
    why: str


class MovesLimits(DatedEvent, frozen=True, tag="limits"):
    """It will keep nodes up to other rates than before."""

    moves: tuple[LimitMove, ...]


class RateMove(Written, frozen=True):
    resource: str
    was: int = msgspec.field(name="was_micros_per_hour")
    rate: int
    cause: str


class RatesMove(DatedEvent, frozen=True, tag="rates"):
    """Nodes cost it more or less than when that was last told, by more than a tenth."""

    moves: tuple[RateMove, ...]


class MeetsRefusal(DatedEvent, frozen=True, tag="refused"):
    """The market refused something."""

    why: str


class Receives(DatedEvent, frozen=True):
    """A node is there. `price` and `limit` are those of the order that won it, `waited_us` since
    when it had lacked something; what the node adds, it adds once it is warm."""

    resource: str
    won_us: int
    waited_us: int | None
    rate: int | None
    price: int | None
    limit: int | None
    why: str
    units_now: float
    units_full: float
    micros_per_hour: float | None
    cold_start_s: float


class Loses(DatedEvent, frozen=True):
    """A node went to others. `price` is what the winner offered; a successor is cold at first."""

    resource: str
    reason: str
    to: str | None
    price: int | None
    limit: int | None
    rate: int | None
    why: str
    had_us: int
    charge: int
    units_now: float
    units_full: float
    micros_per_hour: float | None
    redone_s: float
    wasted: float
    cold_start_s: float


class GivesBack(DatedEvent, frozen=True):
    """A node was given up by its own will."""

    resource: str
    why: str
    rate: int | None
    had_us: int
    charge: int
    units_now: float
    units_full: float
    micros_per_hour: float | None
    redone_s: float
    wasted: float


class IsCalled(DatedEvent, frozen=True, tag="called"):
    """It will lose a node for this reason, and may leave before."""

    resource: str
    until_us: int
    reason: str


class IsPromised(DatedEvent, frozen=True, tag="promised"):
    """It has won a node that its holder has yet to leave."""

    resource: str
    until_us: int


class IsUncalled(DatedEvent, frozen=True, tag="uncalled"):
    """It keeps a node that it was called to leave."""

    resource: str


class Misses(DatedEvent, frozen=True):
    """A node was won, and gone again before it was there; or a promise was given back."""

    resource: str
    reason: str
    charge: int


class Finishes(DatedEvent, frozen=True, tag="done"):
    """There is nothing left to do."""


class Ends(DatedEvent, frozen=True):
    """Its time is over; whatever it still holds goes back."""

    nodes: tuple[str, ...]


LifeEvent = (
    Arrives
    | Bids
    | Asks
    | MovesLimits
    | RatesMove
    | MeetsRefusal
    | Receives
    | Loses
    | GivesBack
    | IsCalled
    | IsPromised
    | IsUncalled
    | Misses
    | Finishes
    | Ends
)


class CoursePoint(Written, frozen=True):
    """How it stood from this instant on; rates and limits are sums over what it holds."""

    at_us: int
    nodes: Mapping[str, int]
    cold_nodes: int
    rate: int
    limit: int | None
    gap: float
    performance: float


class Lack(msgspec.Struct, frozen=True):
    """For how long it lacked something for one reason, and how much on average meanwhile."""

    reason: LackReason
    lasts_us: int
    mean_gap: float
