"""`topology drain`: empty a part of the cluster, giving its holders time to leave.

A cordon lets nothing idle be taken any more, and its deadline is told to the holders like a call;
they leave when they are done. What is still held at the deadline the exchange takes out by itself,
and its holding ends, whether or not anybody waits here. So it is agreed on first, with numbers.
Lifting the cordon calls it off.
"""

from __future__ import annotations

from collections.abc import Sequence

import click
from msgspec import structs

from laissez.cli.terminal import clock, connection, listening
from laissez.cli.terminal.amounts import counted, show_clock, show_duration
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
from laissez.model import Code, Happened, Resource, ResourceWithdrawn, Resync
from laissez.model.sentences import nothing_under

GRACE_LEAST_US = 1_000_000
LOOK_EVERY_US = 2_000_000


@click.command()
@click.argument("scope", shell_complete=complete_scope)
@click.option(
    "--grace", type=duration, default="10m", show_default=True, help="How long holders may stay."
)
@yes_option
@dry_run_option
@json_option
def drain(scope: str, grace: int, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Empty a scope: cordon it, tell its holders, and take the rest out when the grace is over.

    Asks first, with how much is held there. Its holders are told like those who are called, with
    the reason 'withdrawn' and the deadline. Ctrl-C ends the wait and nothing else: at the deadline
    what is still held is taken out. 'uncordon' calls the drain off, or brings back what left.
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
        # By the exchange's clock, which may not be ours.
        deadline = client.status().at + max(grace, GRACE_LEAST_US)
        with near_names_shown(client, scope):
            answer = client.cordon(scope, deadline=deadline)
        leaving = _Leaving(client, scope, deadline)
        try:
            with progress_bar(f"waiting for holders under {scope}", as_json=as_json) as progress:
                leaving.wait(answer.sequence, progress)
        except KeyboardInterrupt:
            warn(
                f"laissez: the drain goes on without you: what is still held under {scope} is "
                f"withdrawn at {show_clock(deadline)}; 'laissez topology uncordon {scope}' calls "
                "it off"
            )
            raise
    left, withdrawn = tuple(leaving.left), tuple(leaving.withdrawn)
    if as_json:
        say_json(Drained(scope, left, withdrawn))
        return
    held = len(left) + len(withdrawn) + len(leaving.kept)
    say(f"{scope}: of {held:,} held, {len(left):,} left in time, {len(withdrawn):,} withdrawn")
    if leaving.kept:
        say("the drain was called off; what is still held stays")
    else:
        say(f"'laissez topology uncordon {scope}' brings all of it back")


class _Leaving:
    """What was held under a scope when its drain began, and how each of it went."""

    def __init__(self, client: Client, scope: str, deadline: int) -> None:
        self._client = client
        self._scope = scope
        self._deadline = deadline
        self.kept = dict.fromkeys(_held(client, scope))
        self.left: dict[str, None] = {}
        self.withdrawn: dict[str, None] = {}

    def wait(self, after: int, progress: ShownProgress) -> None:
        """Until all are gone, or the drain is called off."""
        total = len(self.kept)
        if not self.kept:
            return
        looked_at = clock.now_us()
        for said in listening.listen(self._client, after=after):
            if isinstance(said, Happened):
                for event in said.events:
                    if isinstance(event, ResourceWithdrawn):
                        self._goes(event.resource, event.at)
            progress(total - len(self.kept), total)
            if not self.kept:
                return
            is_missed, now = isinstance(said, Resync), clock.now_us()
            if is_missed or now >= looked_at + LOOK_EVERY_US:
                looked_at = now
                if not self._goes_on(look=is_missed):
                    return

    def _goes(self, resource: str, at: int) -> None:
        if resource in self.kept:
            del self.kept[resource]
            (self.left if at < self._deadline else self.withdrawn)[resource] = None

    def _goes_on(self, *, look: bool) -> bool:
        """Is there still a drain? Where not all was told, what is held is looked at, too."""
        goes_on = self._scope in self._client.floors().drains
        if look or not goes_on:
            held, at = set(_held(self._client, self._scope)), self._client.status().at
            for resource in [each for each in self.kept if each not in held]:
                self._goes(resource, at)
        return goes_on and bool(self.kept)


def _plan(scope: str, present: Sequence[Resource], grace_us: int) -> DrainPlan:
    held = tuple(each.resource for each in present if each.owner is not None)
    idle = tuple(each.resource for each in present if each.owner is None)
    tenants = tuple(sorted({each.owner for each in present if each.owner is not None}))
    message = f"{scope}: {len(held):,} held, {len(idle):,} idle; all that is idle leaves at once"
    if held:
        message = (
            f"{scope}: {len(held):,} held by {counted(len(tenants), 'tenant')}, "
            f"{len(idle):,} idle; what is idle leaves at once; the holders are told, and what is "
            f"still held in {show_duration(max(grace_us, GRACE_LEAST_US))} is withdrawn"
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


def _held(client: Client, scope: str) -> tuple[str, ...]:
    return tuple(each.resource for each in client.resources(scope) if each.owner is not None)
