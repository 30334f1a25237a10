"""The eleven things that can be asked of a market.

A command carries what was asked, as it was asked: nothing is checked here, because a command
that breaks a rule is answered by the market with a refusal, not by Python with an exception.
Money is integer micro-dollars per hour, time integer microseconds.
"""

from msgspec import UNSET, UnsetType

from laissez.model.message import Message


class AddResource(Message, frozen=True):
    """Add one tradable resource at a path; its holder can read the attributes."""

    at: int
    resource: str
    attributes: tuple[tuple[str, str], ...] = ()


class Withdraw(Message, frozen=True):
    """Take a resource out of the market; its holding ends."""

    at: int
    resource: str


class SetFloor(Message, frozen=True):
    """The operator's lowest price for everything under a scope; 0 takes it away."""

    at: int
    scope: str
    floor: int


class SetGuard(Message, frozen=True):
    """The volatility guards of one tree, all at once; what is None is off."""

    at: int
    tree: str
    rise: int | None = None
    fall: int | None = None
    hold: int | None = None
    window: int | None = None
    notice: int | None = None
    commit: int | None = None


class Place(Message, frozen=True):
    """A tenant's order for any one resource under a scope; see the contract for defaults.

    With a `count` of 2 or more it is a gang: so many at one instant or nothing, in one domain, a
    node whose path has `within` names.
    """

    at: int
    tenant: str
    order: str
    scope: str
    price: int | None = None
    limit: int | None = None
    expires: int | None = None
    count: int = 1
    within: int | None = None


class Amend(Message, frozen=True):
    """Cancel and place again under the same id; what is not given stays as it was."""

    at: int
    tenant: str
    order: str
    price: int | None = None
    limit: int | None = None
    expires: int | None | UnsetType = UNSET


class Cancel(Message, frozen=True):
    """End a tenant's own order."""

    at: int
    tenant: str
    order: str


class SetLimit(Message, frozen=True):
    """Set the retention limit of a resource that the tenant holds."""

    at: int
    tenant: str
    resource: str
    limit: int


class Relinquish(Message, frozen=True):
    """Give a held resource back, to its winner or to the operator."""

    at: int
    tenant: str
    resource: str


class Advance(Message, frozen=True):
    """Let time pass, so that whatever falls due acts."""

    at: int


class Settle(Message, frozen=True):
    """Close the statement period of every open holding."""

    at: int


Command = (
    AddResource
    | Withdraw
    | SetFloor
    | SetGuard
    | Place
    | Amend
    | Cancel
    | SetLimit
    | Relinquish
    | Advance
    | Settle
)
