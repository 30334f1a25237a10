"""What a client asks to know, and what it is told.

A tenant is answered from what it may see: its own orders, holdings and bill, and quotes in its
visible domain. The operator, and a viewer without a tenant, may name any tenant; for everybody
else `tenant` stays None.

Long lists come in pages: an answer that is not the last has a `next`, and the same question with
that as `after` is answered by the page that follows.
"""

import msgspec

from laissez.model.events import GuardSet
from laissez.model.message import Message
from laissez.model.values import Cause, OpenOrder, Segment


class AskQuote(Message, frozen=True, forbid_unknown_fields=True):
    """What would a resource under this scope cost now?"""

    scope: str


class AskOrders(Message, frozen=True, forbid_unknown_fields=True):
    """Which orders are live?"""

    tenant: str | None = None
    after: str | None = None


class AskHoldings(Message, frozen=True, forbid_unknown_fields=True):
    """What is held, at what rate and limit?"""

    tenant: str | None = None
    after: str | None = None


class AskBill(Message, frozen=True, forbid_unknown_fields=True):
    """What is owed since the beginning? `explain` adds the newest segments of what is open."""

    tenant: str | None = None
    explain: bool = False


class AskStatus(Message, frozen=True, forbid_unknown_fields=True):
    """Who am I here, and where is the market?"""


class AskResources(Message, frozen=True, forbid_unknown_fields=True):
    """Operator: every resource under a scope (all of them for None), with owner and rate."""

    scope: str | None = None
    after: str | None = None


class AskFloors(Message, frozen=True, forbid_unknown_fields=True):
    """Operator: the floors and guards that are set, and the cordons."""


class AskTenants(Message, frozen=True, forbid_unknown_fields=True):
    """Operator: everybody who has an order, a holding or a bill."""

    after: str | None = None


TenantQuestion = AskQuote | AskOrders | AskHoldings | AskBill | AskStatus
OperatorQuestion = AskResources | AskFloors | AskTenants
Question = TenantQuestion | OperatorQuestion


class Quoted(Message, frozen=True):
    """A quote at an instant; no rate means that there is nothing under the scope to be had."""

    at: int
    scope: str
    rate: int | None
    idle: bool


class OrderList(Message, frozen=True):
    at: int
    orders: tuple[OpenOrder, ...]
    next: str | None = None


class Holding(Message, frozen=True):
    """A held resource; until `safe_until` a guard keeps it from being lost to price.

    `cause` says why the rate is what it is: the floor, somebody's demand, or a hold that caps it.
    """

    resource: str
    since: int
    rate: int
    limit: int
    safe_until: int | None
    attributes: dict[str, str]
    tenant: str
    cause: Cause = "floor"


class HoldingList(Message, frozen=True):
    at: int
    holdings: tuple[Holding, ...]
    next: str | None = None


class Bill(Message, frozen=True):
    """What a tenant owes, exactly; `open_segments` explains holdings since the last statement.

    Only the newest segments of a holding are given; `segments_left_out` says how many more
    there are at most.
    """

    at: int
    tenant: str
    charge: int
    open_segments: dict[str, tuple[Segment, ...]] = msgspec.field(default_factory=dict)
    segments_left_out: dict[str, int] = msgspec.field(default_factory=dict)


class Status(Message, frozen=True):
    """Who is asking, and where the market is: the last sequence number and its instant."""

    at: int
    sequence: int
    role: str
    tenant: str | None
    trees: tuple[str, ...]


class Resource(Message, frozen=True):
    """A resource as the operator sees it."""

    resource: str
    owner: str | None
    rate: int
    attributes: dict[str, str]


class ResourceList(Message, frozen=True):
    at: int
    resources: tuple[Resource, ...]
    next: str | None = None


class FloorList(Message, frozen=True):
    at: int
    floors: dict[str, int]
    guards: tuple[GuardSet, ...]
    cordons: tuple[str, ...]


class TenantSummary(Message, frozen=True):
    tenant: str
    orders: int
    holdings: int
    charge: int


class TenantList(Message, frozen=True):
    at: int
    tenants: tuple[TenantSummary, ...]
    next: str | None = None


Told = Quoted | OrderList | HoldingList | Bill | Status | ResourceList | FloorList | TenantList
