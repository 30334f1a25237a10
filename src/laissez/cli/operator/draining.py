"""`topology drain`: empty a part of the cluster, giving its holders time to leave.

A cordon lets nothing idle be taken any more; holders leave when they are done; what is still held
when the grace is over is withdrawn, and its holdings end. So it is agreed on first, with numbers.
Interrupting the wait leaves the cordon.
"""

from __future__ import annotations

from collections.abc import Sequence

import click
from msgspec import structs

from laissez.cli.terminal import clock, connection
from laissez.cli.terminal.amounts import counted, show_duration
from laissez.cli.terminal.answers import MANY_PATIENCE_S, end_with, refusal_in
from laissez.cli.terminal.completing import complete_scope
from laissez.cli.terminal.documents import Drained, DrainPlan
from laissez.cli.terminal.nearby import is_related, near_names_shown
from laissez.cli.terminal.output import (
    ShownProgress,
    ask,
    dry_run_option,
    few,
    json_option,
    progress_bar,
    say,
    say_json,
    warn,
    yes_option,
)
from laissez.cli.terminal.parameters import duration
from laissez.client import Client
from laissez.client.errors import Refusal
from laissez.model import Code, Resource, WithdrawResource
from laissez.model.sentences import nothing_under

POLL_S = 1.0


@click.command()
@click.argument("scope", shell_complete=complete_scope)
@click.option(
    "--grace", type=duration, default="10m", show_default=True, help="How long holders may stay."
)
@yes_option
@dry_run_option
@json_option
def drain(scope: str, grace: int, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Empty a scope: cordon it, wait for holders to leave, then withdraw the rest.

    Asks first, with how much is held there. The holders are told nothing of the grace: tell them.
    Ctrl-C ends the wait, and the cordon stays. 'uncordon' brings back what left by itself; what
    was withdrawn comes back with 'topology apply'.
    """
    with connection.connect() as client:
        plan = _plan(scope, client.resources(scope), grace)
        if dry_run:
            with near_names_shown(client, scope):
                plan = _checked(client, plan)
            if as_json:
                say_json(plan)
            else:
                say(plan.message)
            return
        if (plan.resources or plan.idle) and not yes:
            ask(f"Drain {scope}?", after=plan.message)
        with near_names_shown(client, scope):
            client.cordon(scope)
        # Here the grace begins: whoever is to be told that it ends is told now.
        try:
            with progress_bar(f"waiting for holders under {scope}", as_json=as_json) as progress:
                held, rest = _wait(client, scope, grace, progress)
        except KeyboardInterrupt:
            warn(
                f"laissez: {scope} stays cordoned, and what is held there stays held; "
                f"'laissez topology uncordon {scope}' opens it again"
            )
            raise
        withdraw = [WithdrawResource(path) for path in rest]
        answers = client.send_all(withdraw, patience_s=MANY_PATIENCE_S)
    said = [(path, refusal_in(each)) for path, each in zip(rest, answers, strict=True)]
    withdrawn = tuple(path for path, no in said if no is None)
    # What its holder left after the last look is not there any more: nothing is wrong with that.
    kept = {path: no for path, no in said if no is not None and no.code != Code.UNKNOWN_RESOURCE}
    refused = tuple(kept.values())
    stayed = {*withdrawn, *kept}
    left = tuple(path for path in held if path not in stayed)
    if as_json:
        say_json(Drained(scope, left, withdrawn, refused))
    else:
        told = f"{len(left):,} left in time, {len(withdrawn):,} withdrawn"
        say(f"{scope}: of {len(held):,} held, {told}")
        if withdrawn:
            say("uncordon leaves these out: 'laissez topology apply FILE' brings them back")
    end_with(refused, as_json=as_json)


def _plan(scope: str, present: Sequence[Resource], grace_us: int) -> DrainPlan:
    held = tuple(each.resource for each in present if each.owner is not None)
    idle = tuple(each.resource for each in present if each.owner is None)
    tenants = tuple(sorted({each.owner for each in present if each.owner is not None}))
    message = f"{scope}: {len(held):,} held, {len(idle):,} idle; all that is idle leaves at once"
    if held:
        message = (
            f"{scope}: {len(held):,} held by {counted(len(tenants), 'tenant')}, "
            f"{len(idle):,} idle; what is idle leaves at once; what is still held in "
            f"{show_duration(grace_us)} is withdrawn, and those holdings end without notice"
        )
    return DrainPlan(scope, held, tenants, idle, grace_us, message)


def _checked(client: Client, plan: DrainPlan) -> DrainPlan:
    """The plan, or what would refuse the cordon: only what a cordon keeps out may be missing."""
    if plan.resources or plan.idle:
        return plan
    cordons = [each for each in client.floors().cordons if is_related(each, plan.scope)]
    if not cordons:
        raise Refusal(Code.UNKNOWN_SCOPE, nothing_under(plan.scope))
    message = f"{plan.scope}: nothing is on the market now; already cordoned: {few(cordons)}"
    return structs.replace(plan, message=message)


def _wait(
    client: Client, scope: str, grace_us: int, progress: ShownProgress
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is held at first, and what still is when all have left or the grace is over."""
    until = clock.now_us() + grace_us
    held = rest = _held(client, scope)
    while rest and clock.now_us() < until:
        progress(len(held) - len(rest), len(held))
        clock.sleep_s(POLL_S)
        rest = _held(client, scope)
    return held, rest


def _held(client: Client, scope: str) -> tuple[str, ...]:
    return tuple(each.resource for each in client.resources(scope) if each.owner is not None)
