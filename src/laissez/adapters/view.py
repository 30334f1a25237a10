"""What an adapter sees, and what it may do.

A view is one tenant's own: its holdings and orders, what it has been charged, what it is called to
leave or promised, and quotes of the scopes that it may see. Nothing in it tells of anybody else but
through a price.

Most of what it does is an instruction to the market. `OrderGang` is one, too; `Vacate` and `Stay`
are for the application alone: who runs the adapter tells it, and sends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from laissez.model import Holding, OpenOrder, Quoted, Reason, TenantInstruction


class GangAsk(msgspec.Struct, frozen=True):
    """So many nodes at once under a scope, in one domain: a node whose path has `within` names;
    None for anywhere under the scope."""

    scope: str
    count: int
    within: int | None = None


class HoldingCall(msgspec.Struct, frozen=True):
    """A holding goes at this instant, and its holder may leave before. Until then it is charged its
    limit, and the limit can't be changed."""

    until_us: int
    reason: Reason


class PromisedNode(msgspec.Struct, frozen=True):
    """A node that comes at this instant or before, and is then charged up to this limit. Until then
    the id of the order that has won it is taken."""

    until_us: int
    limit: int
    order: str


class NodeBond(msgspec.Struct, frozen=True):
    """A holder is bound to what it has won: until this instant its limit acts as no less than
    `rate`, and who gives the node back is charged that rate to the end."""

    until_us: int
    rate: int


class TreeTerms(msgspec.Struct, frozen=True):
    """How long before a loss its holder is called in a tree, and how long a winner is bound."""

    notice_us: int = 0
    commit_us: int = 0


NO_TERMS = TreeTerms()


class MarketView(msgspec.Struct, frozen=True):
    """The market at an instant, as one tenant sees it.

    `charge` is what the tenant owes since the adapter's budget began, in the market's unit.
    `quotes` has the scopes that were asked for and are visible, `gang_quotes` the same for several
    nodes at once. Calls, promises and bonds are by resource, terms by tree.
    """

    at_us: int
    holdings: tuple[Holding, ...]
    orders: tuple[OpenOrder, ...]
    quotes: Mapping[str, Quoted]
    charge: int = 0
    calls: Mapping[str, HoldingCall] = {}
    promises: Mapping[str, PromisedNode] = {}
    bonds: Mapping[str, NodeBond] = {}
    terms: Mapping[str, TreeTerms] = {}
    gang_quotes: Mapping[GangAsk, Quoted] = {}


class OrderGang(msgspec.Struct, frozen=True):
    """Order several nodes of one domain, all or none; each is kept up to the limit."""

    scope: str
    count: int
    within: int | None
    limit: int
    order: str
    expires: int | None


class Vacate(msgspec.Struct, frozen=True):
    """Let the application get ready to lose a node: save its work, take no more requests."""

    resource: str


class Stay(msgspec.Struct, frozen=True):
    """A node is not lost after all: let the application go on with it as before."""

    resource: str


AdapterInstruction = TenantInstruction | OrderGang | Vacate | Stay


class Action(msgspec.Struct, frozen=True):
    """One thing to do, and why, for the log. Who releases a node may need it no more, or give it up
    because it `is_too_dear`."""

    do: AdapterInstruction
    why: str
    is_too_dear: bool = False
