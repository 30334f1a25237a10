"""Tokens and webhooks: who may come in, and who is told of handovers.

A new secret is the only thing on stdout, so that it can be piped to where it belongs.
"""

from __future__ import annotations

from typing import get_args

import click

from laissez.cli.terminal import clock, connection
from laissez.cli.terminal.amounts import show_time
from laissez.cli.terminal.output import json_option, say, say_json, say_table, warn
from laissez.cli.terminal.parameters import duration
from laissez.model import Role, TokenInfo, WebhookRemoved

US_PER_S = 1_000_000


@click.group()
def tokens() -> None:
    """Create, list and revoke tokens."""


@tokens.command("create")
@click.option(
    "--role", type=click.Choice(list(get_args(Role))), required=True, help="What it may do."
)
@click.option("--tenant", help="Whose token; needed for a tenant, possible for a viewer.")
@click.option("--expires", type=duration, help="End it after so long: 30d.")
@click.option("--note", default="", help="What it is for.")
@json_option
def create_token(
    role: Role, tenant: str | None, expires: int | None, note: str, as_json: bool
) -> None:
    """Make a token; its secret is shown once, and never again."""
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
    say_table("token", "for", "created", "ends", "note", rows=rows, nothing="there is no token")


@tokens.command("revoke")
@click.argument("token_id", metavar="ID")
@json_option
def revoke_token(token_id: str, as_json: bool) -> None:
    """End a token at once, and every connection that uses it."""
    with connection.connect() as client:
        info = client.revoke_token(token_id)
    if as_json:
        say_json(info)
    else:
        say(f"token {info.token} for {_whose(info)} is revoked")


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
        rows = [(each.webhook, each.url, f"{each.delivered:,}") for each in told]
        columns = ("webhook", "url", "delivered up to")
        say_table(*columns, rows=rows, right=columns[2:], nothing="there is no webhook")


@webhooks.command("remove")
@click.argument("webhook_id", metavar="ID")
@json_option
def remove_webhook(webhook_id: str, as_json: bool) -> None:
    """Post nothing more to a webhook."""
    with connection.connect() as client:
        client.remove_webhook(webhook_id)
    if as_json:
        say_json(WebhookRemoved(webhook_id))
    else:
        say(f"webhook {webhook_id} is removed")
