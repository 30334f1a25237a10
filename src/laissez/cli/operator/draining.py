"""`topology drain`: empty a part of the cluster, giving its holders time to leave.

A cordon lets nothing idle be taken any more; holders leave when they are done; what is still held
when the grace is over is withdrawn, and its holdings end. Interrupting the wait leaves the cordon.
"""

from __future__ import annotations

import click

from laissez.cli.terminal import clock, connection
from laissez.cli.terminal.amounts import counted, show_duration
from laissez.cli.terminal.answers import end_with, refusals_in
from laissez.cli.terminal.documents import Drained, WouldChange
from laissez.cli.terminal.output import (
    ShownProgress,
    dry_run_option,
    json_option,
    progress_bar,
    say,
    say_json,
)
from laissez.cli.terminal.parameters import duration
from laissez.client import Client
from laissez.model import Answer, Refused, WithdrawResource

POLL_S = 1.0


@click.command()
@click.argument("scope")
@click.option(
    "--grace", type=duration, default="10m", show_default=True, help="How long holders may stay."
)
@dry_run_option
@json_option
def drain(scope: str, grace: int, dry_run: bool, as_json: bool) -> None:
    """Empty a scope: cordon it, wait for holders to leave, then withdraw the rest.

    Ctrl-C ends the wait, and the cordon stays. 'uncordon' brings back what left by itself; what
    was withdrawn comes back with 'topology apply'.
    """
    with connection.connect() as client:
        held = _held(client, scope)
        if dry_run:
            _say_would(scope, held, grace, as_json=as_json)
            return
        client.cordon(scope)
        with progress_bar(f"waiting for the holders under {scope}", as_json=as_json) as progress:
            rest = _wait(client, scope, grace, progress)
        answers: list[Answer | Refused] = []
        if rest:
            answers = client.send_all([WithdrawResource(path) for path in rest])
    refused = refusals_in(answers)
    left = tuple(path for path in held if path not in rest)
    if as_json:
        say_json(Drained(scope, left, rest, refused))
    else:
        withdrawn = counted(len(rest) - len(refused), "resource")
        say(f"{scope}: {counted(len(left), 'holder')} left in time, {withdrawn} withdrawn")
    end_with(refused, as_json=as_json)


def _held(client: Client, scope: str) -> tuple[str, ...]:
    return tuple(each.resource for each in client.resources(scope) if each.owner is not None)


def _wait(client: Client, scope: str, grace_us: int, progress: ShownProgress) -> tuple[str, ...]:
    """What is still held when all have left, or the grace is over."""
    until = clock.now_us() + grace_us
    rest = _held(client, scope)
    total = len(rest)
    while rest and clock.now_us() < until:
        progress(total - len(rest), total)
        clock.sleep_s(POLL_S)
        rest = _held(client, scope)
    return rest


def _say_would(scope: str, held: tuple[str, ...], grace_us: int, *, as_json: bool) -> None:
    message = (
        f"{scope} would be cordoned; of {counted(len(held), 'holding')} there, those that are left "
        f"after {show_duration(grace_us)} would be ended"
    )
    if as_json:
        say_json(WouldChange(held, message))
    else:
        say(message)
