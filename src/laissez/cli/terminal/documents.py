"""What commands say to programs where no message of the model says it already."""

from __future__ import annotations

import msgspec

from laissez.model.events import Amended, Placed, Promised
from laissez.model.instructions import ChangeFloor, ChangeGuard, NameLevels
from laissez.model.message import Message
from laissez.model.notices import Filled
from laissez.model.protocol import Refused
from laissez.model.questions import Resource
from laissez.model.values import OpenOrder


class Started(Message, frozen=True, omit_defaults=True):
    """A service listens; the secret is there only at the first start on a folder."""

    url: str
    folder: str
    operator_token: str | None = None


class LoggedIn(Message, frozen=True):
    url: str
    role: str
    tenant: str | None


class LoggedOut(Message, frozen=True):
    """`forgotten` is false where nothing was remembered."""

    forgotten: bool


class Previewed(Message, frozen=True):
    """What an order would do now, as far as its tenant can know; `rate` is that of the quote.

    Several at once have no price; `within` is the number of names in the path of what holds them.
    """

    scope: str
    price: int | None
    limit: int
    rate: int | None
    idle: bool
    fills_now: bool
    message: str
    count: int = 1
    within: int | None = None
    together: bool = False


class Bought(Message, frozen=True):
    """What became of the orders of one `buy`; `ended` were cancelled or have expired.

    Of those in `unknown` it is no longer known: they wait no longer, and may be among the holdings.
    What is `promised` comes when its holder leaves, or when the notice that it was given is over.
    """

    scope: str
    wanted: int
    filled: tuple[Filled, ...]
    waiting: tuple[Placed | Amended, ...]
    ended: tuple[str, ...]
    unknown: tuple[str, ...]
    refused: tuple[Refused, ...]
    promised: tuple[Promised, ...] = ()


class ExplainedOrder(Message, frozen=True):
    order: OpenOrder
    why: str


class WouldChange(Message, frozen=True):
    """A dry run: what would be touched, and a sentence about it."""

    resources: tuple[str, ...]
    message: str


class WouldRelease(Message, frozen=True):
    """A dry run of `release`: what would go, held or promised, and what is owed for that at most.

    What goes `together` with it is not among that; the charge has all.
    """

    resources: tuple[str, ...]
    promises: tuple[str, ...]
    charge: int
    message: str
    together: tuple[str, ...] = ()


class Topology(Message, frozen=True):
    """What the market has, and the scopes that are cordoned: all, or what concerns one scope.

    Drains are cordons with a deadline.
    """

    resources: tuple[Resource, ...]
    cordons: tuple[str, ...]
    drains: dict[str, int] = msgspec.field(default_factory=dict, name="drains_until_us")


class TopologyPlan(Message, frozen=True):
    """What a topology file asks for, and whether it was done."""

    applied: bool
    withdraw: tuple[str, ...]
    holdings_ended: int
    guards: tuple[ChangeGuard, ...]
    floors: tuple[ChangeFloor, ...]
    add: tuple[str, ...]
    other_attributes: tuple[str, ...]
    blocked: tuple[str, ...]
    cordoned: tuple[str, ...]
    unmentioned_floors: tuple[str, ...]
    refused: tuple[Refused, ...] = ()
    levels: tuple[NameLevels, ...] = ()


class DrainPlan(Message, frozen=True):
    """What a drain would do: `resources` are held now, and `idle` leaves at once."""

    scope: str
    resources: tuple[str, ...]
    tenants: tuple[str, ...]
    idle: tuple[str, ...]
    grace_us: int
    message: str


class Uncordoned(Message, frozen=True):
    """What came back, and what did not.

    `cordoned` lies under one of `cordons`, which are still there; `withdrawn` was taken out by
    name. Both are what is known of the newest commands: with `is_complete` false, nothing is.
    """

    scope: str
    back: tuple[str, ...]
    cordons: tuple[str, ...]
    cordoned: tuple[str, ...]
    withdrawn: tuple[str, ...]
    is_complete: bool


class Drained(Message, frozen=True):
    """`left` went by themselves, `withdrawn` when the grace was over; nothing was refused."""

    scope: str
    left: tuple[str, ...]
    withdrawn: tuple[str, ...]
    refused: tuple[Refused, ...] = ()


class JournalInfo(Message, frozen=True):
    """`size_bytes` counts the write-ahead log, too; `format` is that of the file as it is now."""

    path: str
    size_bytes: int
    format: int
    sequence: int
    at: int
    snapshots: tuple[int, ...]
    rules: int
    written_by: str | None


class JournalSound(Message, frozen=True):
    """`executed_from` to `sequence` have the digest; the rest was followed by its links."""

    executed_from: int
    sequence: int
    last: int
    at: int
    groups: int
    snapshots_compared: int
    digest: str


class JournalExported(Message, frozen=True):
    path: str
    entries: int


class JournalCopied(Message, frozen=True):
    path: str
    size_bytes: int


class CompletionScript(Message, frozen=True):
    shell: str
    script: str
