"""What a client asks to know, and what it is told.

A tenant is answered from what it may see: its own orders, holdings and bill, and quotes in its
visible domain. The operator, and a viewer without a tenant, may name any tenant; for everybody
else `tenant` stays None.

Long lists come in pages: an answer that is not the last has a `next`, and the same question with
that as `after` is answered by the page that follows.
"""

import msgspec

from laissez.model.events import GuardSet, Reason
from laissez.model.message import UNTIL_AN_INSTANT, Message
from laissez.model.values import Cause, OpenOrder, Segment


class AskQuote(Message, frozen=True, forbid_unknown_fields=True):
    """What would a resource under this scope cost now, or several of one domain, each?"""

    scope: str
    count: int = 1
    within: int | str | None = None


class AskOrders(Message, frozen=True, forbid_unknown_fields=True):
    """Which orders are live?"""

    tenant: str | None = None
    after: str | None = None


class AskHoldings(Message, frozen=True, forbid_unknown_fields=True):
    """What is held, at what rate and limit?"""

    tenant: str | None = None
    after: str | None = None


class AskPromises(Message, frozen=True, forbid_unknown_fields=True):
    """Which called resources are promised, and when do they come at the latest?"""

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


TenantQuestion = AskQuote | AskOrders | AskHoldings | AskPromises | AskBill | AskStatus
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

    `cause` says why the rate is what it is: the floor, somebody's demand, a hold that caps it, or
    a notice. A holding that is called, or is to be withdrawn, is lost for the reason `called_for`
    at `called_until` at the latest. Until `bound_until` it can't follow less far than
    `bound_price`; a lower limit that was asked for is `asked_limit`, and acts then. When it really
    goes, the others that the order `together` has won, or is promised, are released with it.
    """

    resource: str
    since: int
    rate: int
    limit: int
    safe_until: int | None
    attributes: dict[str, str]
    tenant: str
    cause: Cause = "floor"
    called_until: int | None = None
    called_for: Reason | None = None
    bound_until: int | None = None
    bound_price: int | None = None
    asked_limit: int | None = None
    together: str | None = None


class HoldingList(Message, frozen=True):
    at: int
    holdings: tuple[Holding, ...]
    next: str | None = None


class Promise(Message, frozen=True, rename=UNTIL_AN_INSTANT):
    """A called resource that will be this order's tenant's, at `until` or as soon as it is left,
    with the order's `limit`.

    Whoever gives it back owes `price` for the time `commit`: what it would be bound to. `together`
    says whether all that the order has won, or is promised, is released then.
    """

    resource: str
    tenant: str
    order: str
    until: int
    limit: int
    price: int = 0
    commit: int = 0
    together: bool = False


class PromiseList(Message, frozen=True):
    at: int
    promises: tuple[Promise, ...]
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
    """Who is asking, and where the market is: the last sequence number and its instant.

    `levels` has the names of the levels of each tree, the coarsest first, where they are known.
    `notice` and `commit` say how long before a loss its holder is called in a tree, and how long
    whoever wins there is bound; trees without are left out.
    """

    at: int
    sequence: int
    role: str
    tenant: str | None
    trees: tuple[str, ...]
    levels: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    notice: dict[str, int] = msgspec.field(default_factory=dict)
    commit: dict[str, int] = msgspec.field(default_factory=dict)


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
    """What is set; the last two are what a tree is given that nobody has set a guard for."""

    at: int
    floors: dict[str, int]
    guards: tuple[GuardSet, ...]
    cordons: tuple[str, ...]
    drains: dict[str, int] = msgspec.field(default_factory=dict, name="drains_until_us")
    new_notice: int | None = msgspec.field(default=None, name="notice_of_new_trees_us")
    new_commit: int | None = msgspec.field(default=None, name="commit_of_new_trees_us")


class TenantSummary(Message, frozen=True):
    tenant: str
    orders: int
    holdings: int
    charge: int


class TenantList(Message, frozen=True):
    at: int
    tenants: tuple[TenantSummary, ...]
    next: str | None = None


Told = (
    Quoted
    | OrderList
    | HoldingList
    | PromiseList
    | Bill
    | Status
    | ResourceList
    | FloorList
    | TenantList
)
