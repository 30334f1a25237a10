"""Sentences of refusals that are said in more than one place.

Who refuses says them, and so does who knows beforehand that it would be refused, as a dry run does:
in the same words, because people look for what they have read.
"""

from __future__ import annotations

from typing import Any

from laissez.model.administration import Role
from laissez.model.instructions import (
    AmendOrder,
    CancelOrder,
    ChangeFloor,
    ChangeGuard,
    ChangeLimit,
    CloseStatements,
    CordonScope,
    NameLevels,
    OfferResource,
    PlaceOrder,
    Release,
    UncordonScope,
    WithdrawResource,
)

_ARTICLE = {"operator": "an", "tenant": "a", "viewer": "a"}

_ACTS: dict[type, str] = {
    PlaceOrder: "placing an order",
    AmendOrder: "amending an order",
    CancelOrder: "cancelling an order",
    ChangeLimit: "setting a limit",
    Release: "giving a resource back",
    OfferResource: "adding a resource",
    WithdrawResource: "withdrawing a resource",
    ChangeFloor: "setting a floor",
    ChangeGuard: "setting guards",
    NameLevels: "naming levels",
    CordonScope: "cordoning a scope",
    UncordonScope: "lifting a cordon",
    CloseStatements: "closing the statements",
}


def needs_role(instruction: type, role: Role, shown: str) -> str:
    """An instruction needs the token of one role, and another's was shown."""
    return (
        f"{_ACTS[instruction]} needs {_ARTICLE[role]} {role}'s token, and yours is "
        f"{_ARTICLE[shown]} {shown}'s; log in with another"
    )


def no_commitment(tree: str) -> str:
    return (
        f"{tree} has no commitment: whoever displaces somebody there and leaves again pays "
        "nothing for it; set one as a guard of the tree, or in the topology file"
    )


def nothing_to_order(scope: Any) -> str:
    return f"there is no resource under {scope!r} yet; order a scope that exists"


def nothing_under(scope: str) -> str:
    return f"there is no resource under {scope!r}; give a scope that has some"


OR_COARSER = ", or within a coarser level"


def domains_have(within: int, scope: str) -> str:
    return f"the domains of {within} names under {scope!r} have"
