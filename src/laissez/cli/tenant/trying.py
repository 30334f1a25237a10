"""Dry runs of a tenant: what would be refused is refused then, too, with the same code.

Only what can be known beforehand: whose token it is, which trees there are, what is one's own. What
a tenant may not see (whether a scope inside a tree has anything) is left open, and said to be.
"""

from __future__ import annotations

from collections.abc import Sequence

from laissez.cli.terminal.nearby import did_you_mean, scopes_known
from laissez.cli.terminal.output import warn
from laissez.client import Client
from laissez.client.errors import NotPermitted, Refusal
from laissez.model import Code, Holding, OpenOrder, Refused, ServiceCode
from laissez.model.paths import tree_of
from laissez.model.sentences import needs_role, nothing_to_order


def check_is_tenant(client: Client, instruction: type) -> None:
    """Is it a token with which such an instruction can be given?"""
    role = client.status().role
    if role != "tenant":
        raise NotPermitted(ServiceCode.FORBIDDEN, needs_role(instruction, "tenant", role))


def check_tree(client: Client, scope: str) -> None:
    """Every tenant sees all trees: what lies in none of them is not there."""
    if tree_of(scope) not in client.status().trees:
        raise Refusal(Code.UNKNOWN_SCOPE, nothing_to_order(scope))


def say_if_unseen(client: Client, scope: str) -> None:
    """Where nobody can say whether a scope is there, the name may be mistyped."""
    known = scopes_known(client)
    if scope not in known:
        hint = did_you_mean(scope, known)
        warn(f"laissez: you can't see whether there is anything under {scope}{hint}")


def own_order(client: Client, order: str) -> OpenOrder:
    present = client.orders()
    for each in present:
        if each.order == order:
            return each
    hint = did_you_mean(order, (each.order for each in present))
    raise Refusal(
        Code.UNKNOWN_ORDER, f"you have no order {order!r}; 'laissez orders' lists yours{hint}"
    )


def own_holding(held: Sequence[Holding], resource: str) -> Holding:
    for each in held:
        if each.resource == resource:
            return each
    (refused,) = not_held(held, [resource])
    raise Refusal(refused.code, refused.message)


def not_held(held: Sequence[Holding], resources: Sequence[str]) -> tuple[Refused, ...]:
    """A refusal for each of them that is not among the holdings."""
    own = {each.resource for each in held}
    return tuple(
        Refused(
            None,
            Code.NOT_THE_HOLDER,
            f"you don't hold {each!r}; 'laissez holdings' lists what you hold"
            f"{did_you_mean(each, own)}",
        )
        for each in resources
        if each not in own
    )
