"""What a client asks to be changed: a command without its instant and its author.

The exchange knows who is speaking and decides when; from an instruction, a name and an instant it
makes the command that is written down and applied. The ids of orders are the tenant's own: two
tenants may use the same one and never notice.
"""

import msgspec
from msgspec import UNSET, UnsetType

from laissez.model.message import Message


class PlaceOrder(Message, frozen=True, forbid_unknown_fields=True):
    """Order any one resource under a scope; the answer names the order if no id was given.

    With a `count` of 2 or more it is a gang: so many at one instant or nothing. All are in one
    domain of the level `within`, given by its name or as the number of names in a domain's path.
    With `together`, when one of them really goes the others are released at that instant.
    """

    scope: str
    price: int | None = None
    limit: int | None = None
    order: str | None = None
    expires: int | None = None
    count: int = 1
    within: int | str | None = None
    together: bool = False


class AmendOrder(Message, frozen=True, forbid_unknown_fields=True):
    """Replace an order under its own id, with a new place in the queue; the rest stays."""

    order: str
    price: int | None = None
    limit: int | None = None
    expires: int | None | UnsetType = UNSET


class CancelOrder(Message, frozen=True, forbid_unknown_fields=True):
    """End an order."""

    order: str


class ChangeLimit(Message, frozen=True, forbid_unknown_fields=True):
    """Set the retention limit of a held resource."""

    resource: str
    limit: int


class Release(Message, frozen=True, forbid_unknown_fields=True):
    """Give a held resource back."""

    resource: str


class OfferResource(Message, frozen=True, forbid_unknown_fields=True):
    """Put a resource on the market; its holder can read the attributes."""

    resource: str
    attributes: dict[str, str] = msgspec.field(default_factory=dict)


class WithdrawResource(Message, frozen=True, forbid_unknown_fields=True):
    """Take a resource out of the market; its holding ends."""

    resource: str


class ChangeFloor(Message, frozen=True, forbid_unknown_fields=True):
    """Set the lowest price for everything under a scope; 0 takes it away."""

    scope: str
    floor: int


class ChangeGuard(Message, frozen=True, forbid_unknown_fields=True):
    """Set the volatility guards of one tree, all at once; what is left out is off."""

    tree: str
    rise: int | None = None
    fall: int | None = None
    hold: int | None = None
    window: int | None = None
    notice: int | None = None
    commit: int | None = None


class NameLevels(Message, frozen=True, forbid_unknown_fields=True):
    """Name the levels of a tree below its root, the coarsest first, for orders to be within."""

    tree: str
    levels: tuple[str, ...]


class CordonScope(Message, frozen=True, forbid_unknown_fields=True):
    """Take what is idle under a scope out of the market, and the rest as its holders leave it.

    With a `deadline` it is a drain: holders are told, and what they still hold then is taken out.
    """

    scope: str
    deadline: int | None = None


class UncordonScope(Message, frozen=True, forbid_unknown_fields=True):
    """Put back what a cordon took out."""

    scope: str


class CloseStatements(Message, frozen=True, forbid_unknown_fields=True):
    """Make the open charge of every holding final, and begin a new statement period."""


TenantInstruction = PlaceOrder | AmendOrder | CancelOrder | ChangeLimit | Release
OperatorInstruction = (
    OfferResource
    | WithdrawResource
    | ChangeFloor
    | ChangeGuard
    | NameLevels
    | CordonScope
    | UncordonScope
    | CloseStatements
)
Instruction = TenantInstruction | OperatorInstruction
