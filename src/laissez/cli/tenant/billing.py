"""What is owed, and why."""

from __future__ import annotations

import click

from laissez.cli.terminal import clock, connection
from laissez.cli.terminal.amounts import show_charge, show_duration, show_rate, show_time
from laissez.cli.terminal.completing import complete_tenant
from laissez.cli.terminal.nearby import tenant_meant
from laissez.cli.terminal.output import json_option, say, say_json, say_table, warn
from laissez.model import Bill, Segment

CAUSES = {
    "floor": "the floor",
    "demand": "an order of somebody else",
    "hold": "your limit, under a hold",
    "notice": "your limit, while it is called",
    "commit": "leaving early: the rest of a commitment",
}


@click.command()
@click.option("--explain", is_flag=True, help="Show what was charged since the last statement.")
@click.option("--tenant", shell_complete=complete_tenant, help="Whose bill; for the operator.")
@json_option
def bill(explain: bool, tenant: str | None, as_json: bool) -> None:
    """Say what is owed, and explain it.

    The bill counts from the beginning. --explain shows, for everything held now, each rate that
    was charged since the last statement, and its cause.
    """
    with connection.connect() as client:
        if tenant is None and client.status().tenant is None:
            raise click.UsageError("say whose bill: --tenant NAME; 'laissez tenants' lists them")
        told = client.bill(tenant, explain=explain)
        if tenant is not None and told.charge == 0 and (nobody := tenant_meant(client, tenant)):
            warn(nobody)
    if as_json:
        say_json(told)
        return
    say(f"{told.tenant} owes {show_charge(told.charge)} in all")
    if explain:
        _explain(told)


def _explain(told: Bill) -> None:
    if not told.open_segments:
        say("nothing is held, so nothing is open")
    for resource, segments in told.open_segments.items():
        say("")
        say_table(
            "from",
            "for",
            "rate",
            "because of",
            "amount",
            rows=[_cells(segment) for segment in segments],
            right=("for", "rate", "amount"),
            title=resource,
            nothing=f"{resource}: nothing since the last statement",
        )
        left_out = told.segments_left_out.get(resource)
        if left_out:
            say(f"... and {left_out:,} earlier ones")


def _cells(segment: Segment) -> tuple[str, ...]:
    since, until, rate, cause = segment
    return (
        show_time(since, clock.now_us()),
        show_duration(until - since),
        show_rate(rate),
        CAUSES[cause],
        show_charge((until - since) * rate),
    )
