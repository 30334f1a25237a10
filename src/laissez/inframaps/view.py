"""What the operator sees of the market, and what it may do about it.

A view is the answer to the operator's questions at one instant, and beside it the inventory: every
resource that there should be, whether or not it is on the market now. Whoever runs a map keeps
the inventory, from a cluster file or from what it has seen; so what a maintenance window took out
can be put back after a restart too.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from laissez.model.events import GuardSet
from laissez.model.instructions import OperatorInstruction
from laissez.model.questions import Resource
from laissez.model.values import OpenOrder


class WaitingGang(Struct, frozen=True):
    """An order for `count` resources of one domain, a node whose path has `within` names, that
    waits; `limit` is what it pays for each at most."""

    tenant: str
    order: str
    scope: str
    count: int
    within: int
    limit: int


class OperatorView(Struct, frozen=True):
    """The market at an instant. `floors` are those that stand, by the scope they are set at;
    `gangs` are those that wait, if any map asks for them."""

    at_us: int
    resources: tuple[Resource, ...] = ()
    floors: Mapping[str, int] = field(default_factory=dict)
    guards: tuple[GuardSet, ...] = ()
    inventory: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    cordons: tuple[str, ...] = ()
    gangs: tuple[WaitingGang, ...] = ()


class MapAction(Struct, frozen=True):
    """One instruction to the market, and why it is given."""

    do: OperatorInstruction
    why: str


def gangs_among(orders: Iterable[OpenOrder]) -> tuple[WaitingGang, ...]:
    """The gangs among the orders of all tenants."""
    return tuple(
        WaitingGang(
            each.tenant,
            each.order,
            each.scope,
            each.count,
            each.within or each.scope.count("/") + 1,
            each.limit,
        )
        for each in orders
        if each.count > 1
    )
