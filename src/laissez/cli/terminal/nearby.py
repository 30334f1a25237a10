"""What somebody may have meant: the names that are nearest to one that is not there.

Scopes are looked for among those that the asker may know anyway: an operator's are those of the
topology, a tenant's the trees and the scopes around what it holds. When they can't be asked for,
nothing is suggested; the first refusal is what is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from laissez.client import Client
from laissez.client.errors import LaissezError, Refusal
from laissez.model import Code

COMPARED_MAX = 5_000
NOT_THERE = frozenset({Code.SCOPE_NOT_VISIBLE, Code.UNKNOWN_SCOPE, Code.UNKNOWN_RESOURCE})


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`; did you mean h100/us-east?`, or nothing if no name is near."""
    # Long lists are those of single resources: whoever mistypes one has mistyped a scope, first.
    among = sorted(set(known) - {name}, key=lambda each: (each.count("/"), each))[:COMPARED_MAX]
    as_deep = [each for each in among if each.count("/") == name.count("/")]
    found = get_close_matches(name, as_deep, n=2) or get_close_matches(name, among, n=1)
    return f"; did you mean {' or '.join(found)}?" if found else ""


def with_scopes_above(paths: Iterable[str]) -> set[str]:
    """These paths and every scope that they lie under."""
    known: set[str] = set()
    for path in paths:
        while path and path not in known:
            known.add(path)
            path = path.rpartition("/")[0]
    return known


def covers(scope: str, path: str) -> bool:
    """Is a path the scope, or under it?"""
    return f"{path}/".startswith(f"{scope}/")


def is_related(one: str, other: str) -> bool:
    """Does one of two scopes cover the other?"""
    return covers(one, other) or covers(other, one)


def scopes_known(client: Client) -> set[str]:
    """The scopes of which whoever asks may know."""
    status = client.status()
    if status.tenant is None:
        return with_scopes_above(each.resource for each in client.resources())
    return {*status.trees, *with_scopes_above(each.resource for each in client.holdings())}


def scope_meant(client: Client, scope: str) -> str:
    """As `did_you_mean`, for a scope that is not there."""
    try:
        return did_you_mean(scope, scopes_known(client))
    except LaissezError:
        return ""


def tenant_meant(client: Client, tenant: str) -> str:
    """What to say of a tenant of whom there is nothing; nothing, if there is something."""
    try:
        known = [each.tenant for each in client.tenants()]
    except LaissezError:  # whoever may not see others asks about itself
        return ""
    if tenant in known:
        return ""
    hint = did_you_mean(tenant, known)
    return f"laissez: nobody called {tenant} orders, holds or owes anything{hint}"


@contextmanager
def near_names_shown(client: Client, scope: str) -> Iterator[None]:
    """A refusal because a scope is not there says which one may have been meant."""
    try:
        yield
    except Refusal as refused:
        if refused.code not in NOT_THERE:
            raise
        hint = scope_meant(client, scope)
        raise Refusal(refused.code, f"{refused.message}{hint}", refused.retry_after_ms) from None
