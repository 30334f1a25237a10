"""What is held: looking at it, watching it, following the rate so far, giving it back."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from laissez.cli.tenant.trying import check_is_tenant, not_held, own_holding
from laissez.cli.terminal import clock, connection
from laissez.cli.terminal.amounts import (
    counted,
    show_attributes,
    show_duration,
    show_rate,
    show_time,
)
from laissez.cli.terminal.answers import (
    end_with,
    refusal_in,
    say_answer,
    say_answers,
    send_all_shown,
)
from laissez.cli.terminal.completing import complete_holding, complete_tenant
from laissez.cli.terminal.documents import WouldChange
from laissez.cli.terminal.nearby import did_you_mean, near_names_shown, tenant_meant
from laissez.cli.terminal.output import (
    ask,
    dry_run_option,
    few,
    json_option,
    say,
    say_described,
    say_json,
    warn,
    yes_option,
)
from laissez.cli.terminal.parameters import dollars
from laissez.client import Client
from laissez.model import Answer, ChangeLimit, Code, Holding, Refused, Release

TENTH_US = 100_000


@click.command()
@click.option("--watch", is_flag=True, help="Go on, and show every change; Ctrl-C ends it.")
@click.option(
    "--tenant",
    shell_complete=complete_tenant,
    help="Whose; for the operator, who sees all without it.",
)
@json_option
def holdings(watch: bool, tenant: str | None, as_json: bool) -> None:
    """List what is held, and at what rate.

    With --watch and --json each change is one line: the whole list as it is then.
    """
    with connection.connect() as client:
        since = client.status().sequence if watch else None
        shown = client.holdings(tenant)
        if tenant is not None and not shown and (nobody := tenant_meant(client, tenant)):
            warn(nobody)
        _show(shown, as_json=as_json)
        if not watch:
            return
        for _ in client.events(after=since, rates=True):
            now = client.holdings(tenant)
            if now != shown:
                shown = now
                if sys.stdout.isatty():
                    click.clear()
                _show(shown, as_json=as_json)


def _show(held: tuple[Holding, ...], *, as_json: bool) -> None:
    if as_json:
        say_json(held)
        return
    now = clock.now_us()
    rows = [
        (
            each.resource,
            show_rate(each.rate),
            show_rate(each.limit),
            f"{show_time(each.since, now)}{_safety(each, now)}",
            show_attributes(each.attributes),
        )
        for each in held
    ]
    columns = ("resource", "rate", "limit", "charged since", "attributes")
    say_described(*columns, rows=rows, right=("rate", "limit"), nothing="nothing is held")


def _safety(held: Holding, now_us: int) -> str:
    """How long a guard keeps it from being lost to price, if it still does."""
    left_us = (held.safe_until or 0) - now_us
    return f", safe for {show_duration(left_us - left_us % TENTH_US)}" if left_us > 0 else ""


@click.command()
@click.argument("resource", shell_complete=complete_holding)
@click.argument("amount", type=dollars)
@dry_run_option
@json_option
def limit(resource: str, amount: int, dry_run: bool, as_json: bool) -> None:
    """Set how far you follow a rate.

    RESOURCE stays yours until its rate is above AMOUNT; if it is already, it is lost at once, or as
    soon as no guard keeps it any longer.
    """
    with connection.connect() as client:
        if not dry_run:
            with near_names_shown(client, resource):
                answer = client.set_limit(resource, amount)
                held = () if as_json else client.holdings()
            say_answer(answer, as_json=as_json)
            for each in held:
                if each.resource == resource:
                    _say_how_long(each)
            return
        check_is_tenant(client, ChangeLimit)
        found = own_holding(client.holdings(), resource)
    rate, wanted = show_rate(found.rate), show_rate(amount)
    if found.rate > amount:
        message = f"{resource} would be lost: its rate is {rate}, above {wanted}"
    else:
        message = f"{resource} would stay yours at {rate}, until the rate is above {wanted}"
    _say_would(WouldChange((resource,), message), as_json=as_json)


def _say_how_long(held: Holding) -> None:
    """A limit below the rate does nothing at first while a guard keeps what was won."""
    safe = _safety(held, clock.now_us()).removeprefix(", ")
    if safe and held.rate > held.limit:
        say(f"it is below the rate, {show_rate(held.rate)}; {safe} more, then it goes")


def _say_would(would: WouldChange, *, as_json: bool) -> None:
    if as_json:
        say_json(would)
    else:
        say(would.message)


@click.command()
@click.argument("resources", metavar="[RESOURCE]...", nargs=-1, shell_complete=complete_holding)
@click.option("--all", "every", is_flag=True, help="All that you hold; asks first.")
@yes_option
@dry_run_option
@json_option
def release(
    resources: tuple[str, ...], every: bool, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Give held resources back."""
    if every == bool(resources):
        raise click.UsageError("name the resources to give back, or say --all")
    with connection.connect() as client:
        if dry_run:
            check_is_tenant(client, Release)
            _say_what_would_go(client.holdings(), resources, as_json=as_json)
            return
        if every:
            resources = tuple(each.resource for each in client.holdings())
            if resources and not yes:
                ask(f"Give back {counted(len(resources), 'resource')}?")
        wanted = [Release(resource) for resource in resources]
        answers = send_all_shown(client, wanted, "releasing", as_json=as_json)
        hints = _hints(client, resources, answers)
    say_answers(answers, as_json=as_json, nothing="nothing is held", hints=hints)


def _hints(
    client: Client, resources: Sequence[str], answers: Sequence[Answer | Refused]
) -> tuple[str, ...]:
    """For each that does not exist, what may have been meant. What was lost a moment ago was meant,
    and nothing else."""
    unknown = [
        (no := refusal_in(each)) is not None and no.code == Code.UNKNOWN_RESOURCE
        for each in answers
    ]
    if not any(unknown):
        return ()
    held = [each.resource for each in client.holdings()]
    pairs = zip(resources, unknown, strict=False)
    return tuple(did_you_mean(each, held) if is_unknown else "" for each, is_unknown in pairs)


def _say_what_would_go(held: Sequence[Holding], resources: Sequence[str], *, as_json: bool) -> None:
    """All that is held where nothing is named."""
    refused = not_held(held, resources)
    own = {each.resource for each in held}
    going = tuple(each for each in resources if each in own) if resources else tuple(own)
    message = f"{counted(len(going), 'resource')} would be given back: {few(going)}"
    if as_json or going or not resources:
        _say_would(WouldChange(going, message if going else "nothing is held"), as_json=as_json)
    end_with(refused, as_json=as_json)
