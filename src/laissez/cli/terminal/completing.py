"""Words that a shell completes, asked of the service: scopes, holdings, orders and the like.

Somebody has pressed Tab and waits: the service is given a second, and whatever goes wrong is
silence. What was typed so far is compared here and goes nowhere but, as a scope to look under, to
the service itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import CompletionItem

from laissez.cli.terminal import connection
from laissez.cli.terminal.levels import levels_for_several
from laissez.cli.terminal.nearby import with_scopes_above
from laissez.client import Client
from laissez.client.advice import LEVELS_ATTRIBUTE

PATIENCE_S = 1.0

NamesOf = Callable[[Client, str], Iterable[str]]
Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _completer(names_of: NamesOf) -> Completer:
    def complete(
        context: click.Context, parameter: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        given = context.params.get(parameter.name or "")
        known = set(given) if isinstance(given, tuple) else set()
        try:
            with connection.connect(patience_s=PATIENCE_S) as client:
                names = set(names_of(client, incomplete))
        except Exception:  # a prompt is no place for errors
            return []
        fitting = sorted(name for name in names - known if name.startswith(incomplete))
        return [CompletionItem(name) for name in fitting]

    return complete


def _scopes(client: Client, incomplete: str) -> Iterable[str]:
    """A level at a time for who sees everything, so that a large cluster is no flood."""
    status = client.status()
    if status.tenant is not None:
        return {*status.trees, *with_scopes_above(each.resource for each in client.holdings())}
    above = incomplete.rpartition("/")[0]
    if not above:
        return status.trees
    below = len(above) + 1
    paths = (each.resource for each in client.resources(above) if each.resource != above)
    return {f"{above}/{path[below:].partition('/')[0]}" for path in paths}


def _levels(client: Client) -> Iterable[str]:
    """All but the root and the resource itself: near is what shares one of them."""
    named = (each.attributes.get(LEVELS_ATTRIBUTE, "") for each in client.holdings())
    return {level for levels in named for level in levels.split("/")[:-1]}


def complete_within(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The levels under the scope that was typed, or under all trees where there is none yet."""
    given = context.params.get("scope") or context.params.get("scopes")
    # Where the value of an option is what is missing, click has not come to the arguments yet.
    scopes = (given,) if isinstance(given, str) else tuple(given or context.args)

    def names_of(client: Client, _: str) -> Iterable[str]:
        status = client.status()
        return {
            level
            for scope in scopes or status.trees
            for level in levels_for_several(status.levels, scope)
        }

    return _completer(names_of)(context, parameter, incomplete)


complete_scope = _completer(_scopes)
complete_holding = _completer(lambda client, _: (each.resource for each in client.holdings()))
complete_order = _completer(lambda client, _: (each.order for each in client.orders()))
complete_cordon = _completer(lambda client, _: client.floors().cordons)
complete_tree = _completer(lambda client, _: client.status().trees)
complete_tenant = _completer(lambda client, _: (each.tenant for each in client.tenants()))
complete_level = _completer(lambda client, _: _levels(client))
complete_token = _completer(
    lambda client, _: (each.token for each in client.tokens() if each.revoked_us is None)
)
complete_webhook = _completer(lambda client, _: (each.webhook for each in client.webhooks()))
