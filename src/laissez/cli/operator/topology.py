"""The cluster as the market has it: showing it, and taking parts of it out and back in."""

from __future__ import annotations

from collections.abc import Sequence

import click

from laissez.cli.operator.applying import apply
from laissez.cli.operator.draining import drain
from laissez.cli.operator.uncordoning import uncordon
from laissez.cli.terminal import clock, connection
from laissez.cli.terminal.amounts import counted, show_rate, show_time
from laissez.cli.terminal.completing import complete_scope
from laissez.cli.terminal.documents import Topology
from laissez.cli.terminal.nearby import is_related, near_names_shown, scope_meant
from laissez.cli.terminal.output import json_option, say, say_json, say_table
from laissez.model import Resource, ResourceWithdrawn
from laissez.topology import expand, fold


@click.group()
def topology() -> None:
    """Add, show and take out resources."""


topology.add_command(apply)
topology.add_command(drain)
topology.add_command(uncordon)


@topology.command("show")
@click.argument("scope", required=False, shell_complete=complete_scope)
@json_option
def show(scope: str | None, as_json: bool) -> None:
    """Show all resources, or those under a scope, folded into ranges.

    Below them stands what is cordoned, and until when what is drained. With --json each resource is
    listed, with its owner, rate and attributes, and beside them the cordons and drains.
    """
    with connection.connect() as client:
        resources = client.resources(scope)
        told = client.floors()
        cordons = tuple(each for each in told.cordons if not scope or is_related(each, scope))
        drains = {each: told.drains[each] for each in cordons if each in told.drains}
        nothing = "the market has no resource yet"
        if scope and not resources:
            hint = "" if cordons else scope_meant(client, scope)
            nothing = f"there is nothing under {scope}{hint}"
    if as_json:
        say_json(Topology(resources, cordons, drains))
        return
    say_table(
        "resources",
        "count",
        "held",
        "tenants",
        "rate",
        rows=_folded_rows(resources),
        right=("count", "held", "tenants", "rate"),
        nothing=nothing,
    )
    for cordon in cordons:
        until = drains.get(cordon)
        if until is None:
            say(f"{cordon} is cordoned")
        else:
            when = show_time(until, clock.now_us())
            say(f"{cordon} is cordoned, and what is held there is withdrawn at {when}")


def _folded_rows(resources: Sequence[Resource]) -> list[tuple[str, ...]]:
    by_path = {each.resource: each for each in resources}
    rows: list[tuple[str, ...]] = []
    for each in fold(by_path):
        covered = [by_path[path] for path in expand(each.pattern)]
        owners = [resource.owner for resource in covered if resource.owner is not None]
        rates = [resource.rate for resource in covered]
        lowest, highest = show_rate(min(rates)), show_rate(max(rates))
        rows.append(
            (
                each.pattern,
                f"{each.count:,}",
                f"{len(owners):,}",
                f"{len(set(owners)):,}",
                lowest if lowest == highest else f"{lowest} to {highest}",
            )
        )
    return rows


@topology.command("cordon")
@click.argument("scope", shell_complete=complete_scope)
@json_option
def cordon(scope: str, as_json: bool) -> None:
    """Take what is idle under a scope out of the market, and the rest as it is left.

    No holding ends: what is held follows when its holder gives it back. 'uncordon' brings all of
    it back.
    """
    with connection.connect() as client:
        with near_names_shown(client, scope):
            answer = client.cordon(scope)
        held = len(client.resources(scope))
    if as_json:
        say_json(answer)
    else:
        gone = sum(isinstance(event, ResourceWithdrawn) for event in answer.events)
        out = counted(gone, "resource")
        say(f"{scope} is cordoned: {out} out, {counted(held, 'resource')} still held")
