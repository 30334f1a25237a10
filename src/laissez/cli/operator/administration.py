"""Tokens and webhooks: who may come in, and who is told of handovers.

A new secret is the only thing on stdout, so that it can be piped to where it belongs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import click
from msgspec import structs

from laissez.cli.terminal import clock, connection
from laissez.cli.terminal.amounts import show_time
from laissez.cli.terminal.completing import complete_tenant, complete_token, complete_webhook
from laissez.cli.terminal.nearby import did_you_mean
from laissez.cli.terminal.output import (
    ask,
    json_option,
    say,
    say_json,
    say_table,
    warn,
    yes_option,
)
from laissez.cli.terminal.parameters import duration
from laissez.client.errors import Refusal, Unauthenticated
from laissez.model import Role, ServiceCode, TokenInfo, WebhookRemoved

US_PER_S = 1_000_000


@click.group()
def tokens() -> None:
    """Create, list and revoke tokens."""


@tokens.command("create")
@click.option(
    "--role", type=click.Choice(list(get_args(Role))), required=True, help="What it may do."
)
@click.option(
    "--tenant",
    shell_complete=complete_tenant,
    help="Whose token; needed for a tenant, possible for a viewer.",
)
@click.option("--expires", type=duration, help="End it after so long: 30d.")
@click.option("--note", default="", help="What it is for.")
@json_option
def create_token(
    role: Role, tenant: str | None, expires: int | None, note: str, as_json: bool
) -> None:
    """Make a token; its secret is shown once, and never again."""
    if role == "tenant" and not tenant:
        raise click.UsageError("say whose token it is: --tenant NAME")
    lifetime_s = None if expires is None else -(-expires // US_PER_S)
    with connection.connect() as client:
        made = client.create_token(role, tenant=tenant, lifetime_s=lifetime_s, note=note)
    if as_json:
        say_json(made)
    else:
        warn(f"token {made.info.token} for {_whose(made.info)}; its secret is shown only now:")
        say(made.secret)


@tokens.command("list")
@json_option
def list_tokens(as_json: bool) -> None:
    """List the tokens, without their secrets."""
    with connection.connect() as client:
        told = client.tokens()
    if as_json:
        say_json(told)
        return
    now = clock.now_us()
    rows = [
        (each.token, _whose(each), show_time(each.created_us, now), _end(each, now), each.note)
        for each in told
    ]
    say_table(
        "token",
        "for",
        "created",
        "ends",
        "note",
        rows=rows,
        whole=("created", "ends"),
        nothing="there is no token",
    )


@tokens.command("revoke")
@click.argument("token_id", metavar="ID", shell_complete=complete_token)
@yes_option
@json_option
def revoke_token(token_id: str, yes: bool, as_json: bool) -> None:
    """End a token at once, and every connection that uses it.

    Asks before the last operator's token is ended: then nobody can operate, until somebody at the
    service's machine makes another with 'laissez up FOLDER --new-operator-token'.
    """
    with connection.connect() as client:
        now_us, told = client.status().at, client.tokens()
        meant = next((each for each in told if each.token == token_id), None)
        if meant is None:
            hint = did_you_mean(token_id, (each.token for each in told))
            raise Refusal(
                ServiceCode.NOT_FOUND,
                f"there is no token {token_id!r}; 'laissez tokens list' shows all{hint}",
            )
        if _is_last_operator(meant, told, now_us) and not yes:
            ask(
                f"Revoke the last operator's token, {token_id}?",
                after="Without an operator's token nobody can set floors or make tokens, until the "
                "service is started again with 'laissez up FOLDER --new-operator-token'.",
            )
        try:
            info, is_own = client.revoke_token(token_id), False
        except Unauthenticated:
            # The token was good a moment ago. The service hangs up on whoever uses a dead one,
            # sooner than it answers: so it was this one.
            info, is_own = structs.replace(meant, revoked_us=now_us), True
    if as_json:
        say_json(info)
        return
    say(f"token {info.token} for {_whose(info)} is revoked")
    if is_own:
        say("it was your own: log in with another to go on")


def _is_alive(info: TokenInfo, now_us: int) -> bool:
    return info.revoked_us is None and (info.expires_us is None or info.expires_us > now_us)


def _is_last_operator(info: TokenInfo, told: Sequence[TokenInfo], now_us: int) -> bool:
    operators = [each for each in told if each.role == "operator" and _is_alive(each, now_us)]
    return [each.token for each in operators] == [info.token]


def _whose(info: TokenInfo) -> str:
    return info.role if info.tenant is None else f"{info.role} {info.tenant}"


def _end(info: TokenInfo, now_us: int) -> str:
    if info.revoked_us is not None:
        return f"revoked {show_time(info.revoked_us, now_us)}"
    return show_time(info.expires_us, now_us) or "never"


@click.group()
def webhooks() -> None:
    """Add, list and remove webhooks."""


@webhooks.command("add")
@click.argument("url")
@json_option
def add_webhook(url: str, as_json: bool) -> None:
    """Post every handover from now on to a URL, signed with the secret that is shown once."""
    with connection.connect() as client:
        added = client.add_webhook(url)
    if as_json:
        say_json(added)
    else:
        warn(f"webhook {added.info.webhook} to {added.info.url}; its secret is shown only now:")
        say(added.secret)


@webhooks.command("list")
@json_option
def list_webhooks(as_json: bool) -> None:
    """List the webhooks, and how far they got."""
    with connection.connect() as client:
        told = client.webhooks()
    if as_json:
        say_json(told)
    else:
        rows = [
            (each.webhook, each.url, f"{each.delivered:,}", each.last_error or "") for each in told
        ]
        columns = ("webhook", "url", "delivered up to", "last error")
        say_table(*columns, rows=rows, right=columns[2:3], nothing="there is no webhook")


@webhooks.command("remove")
@click.argument("webhook_id", metavar="ID", shell_complete=complete_webhook)
@json_option
def remove_webhook(webhook_id: str, as_json: bool) -> None:
    """Post nothing more to a webhook."""
    with connection.connect() as client:
        try:
            client.remove_webhook(webhook_id)
        except Refusal as refused:
            if refused.code != ServiceCode.NOT_FOUND:
                raise
            hint = did_you_mean(webhook_id, (each.webhook for each in client.webhooks()))
            told = f"{refused.message}; 'laissez webhooks list' shows all{hint}"
            raise Refusal(refused.code, told) from None
    if as_json:
        say_json(WebhookRemoved(webhook_id))
    else:
        say(f"webhook {webhook_id} is removed")
