"""What binds a tenant, as adapters see it, from what an exchange answers.

A drain is a call, too, though the market knows nothing of it until its deadline: whoever stays is
put out then. It alone leaves a bond as it is; who leaves when the market calls is bound to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from laissez.adapters.view import HoldingCall, NodeBond, PromisedNode, TreeTerms
from laissez.model import Holding, Promise, Status


def calls_among(holdings: Iterable[Holding]) -> dict[str, HoldingCall]:
    """By resource, until when what is called may stay, and why it goes."""
    return {
        each.resource: HoldingCall(each.called_until, each.called_for)
        for each in holdings
        if each.called_until is not None and each.called_for is not None
    }


def bonds_among(holdings: Iterable[Holding]) -> dict[str, NodeBond]:
    """By resource, how long its holder is bound to it, and at what price."""
    return {
        each.resource: NodeBond(each.bound_until, each.bound_price)
        for each in holdings
        if each.bound_until is not None and each.bound_price is not None and each.cause != "notice"
    }


def promised_nodes(promises: Iterable[Promise]) -> dict[str, PromisedNode]:
    """By resource, what is on its way."""
    return {each.resource: PromisedNode(each.until, each.limit, each.order) for each in promises}


def terms_by_tree(status: Status) -> dict[str, TreeTerms]:
    """Of the trees that have any."""
    trees = dict.fromkeys((*status.notice, *status.commit))
    return {
        tree: TreeTerms(status.notice.get(tree, 0), status.commit.get(tree, 0)) for tree in trees
    }
