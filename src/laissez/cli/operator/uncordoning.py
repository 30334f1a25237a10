"""`topology uncordon`: what comes back, and what does not.

A cordon keeps aside what it took out, and that comes back. Two things do not: what another cordon
still covers, and what was withdrawn by name, as a drain does when its grace is over. The market
has forgotten the latter; the operator's stream, which keeps the newest commands, remembers it for
a while. What it no longer knows is said to be not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from laissez.cli.terminal import connection
from laissez.cli.terminal.amounts import counted
from laissez.cli.terminal.completing import complete_cordon
from laissez.cli.terminal.documents import Uncordoned
from laissez.cli.terminal.nearby import covers, did_you_mean, is_related
from laissez.cli.terminal.output import json_option, say, say_json
from laissez.client import Client
from laissez.client.errors import LaissezError, Refusal
from laissez.model import (
    Code,
    Happened,
    Notice,
    ResourceAdded,
    ResourceWithdrawn,
)
from laissez.topology import fold

# The stream keeps 10,000 commands; more may come while we look.
LOOKED_BACK = 9_000
FOLDS_SHOWN = 8


@click.command()
@click.argument("scope", shell_complete=complete_cordon)
@json_option
def uncordon(scope: str, as_json: bool) -> None:
    """Bring back what a cordon took out.

    Says what came back, and what did not: what another cordon covers, and what was withdrawn by
    name lately, as a drain does when its grace is over.
    """
    with connection.connect() as client:
        try:
            answer = client.uncordon(scope)
        except Refusal as refused:
            if refused.code != Code.UNKNOWN_SCOPE:
                raise
            hint = did_you_mean(scope, client.floors().cordons)
            raise Refusal(
                refused.code, f"{refused.message}; 'laissez topology show' lists them{hint}"
            ) from None
        history = _withdrawn_lately(client, scope, answer.sequence)
        back = tuple(each.resource for each in answer.events if isinstance(each, ResourceAdded))
        present = {each.resource for each in client.resources(scope)}
        cordons = tuple(each for each in client.floors().cordons if is_related(each, scope))
    gone = tuple(path for path in history or () if path not in present)
    cordoned = tuple(path for path in gone if any(covers(each, path) for each in cordons))
    withdrawn = tuple(path for path in gone if path not in cordoned)
    done = Uncordoned(scope, back, cordons, cordoned, withdrawn, history is not None)
    if as_json:
        say_json(done)
        return
    for line in _sentences(done):
        say(line)


def _sentences(done: Uncordoned) -> Iterator[str]:
    yield f"{done.scope} is open again: {counted(len(done.back), 'resource')} back"
    for each in done.cordons:
        its = [path for path in done.cordoned if covers(each, path)]
        yield f"still cordoned: {each}{_listed(its)}; 'laissez topology uncordon {each}' opens it"
    if done.withdrawn:
        yield f"not back, because withdrawn by name{_listed(done.withdrawn)}"
        yield "'laissez topology apply FILE' brings back what the file has"
    if not done.is_complete:
        yield (
            "what was withdrawn by name longer ago is not known here; "
            "'laissez topology apply FILE --dry-run' compares"
        )


def _listed(paths: Iterable[str]) -> str:
    folds = fold(paths)
    shown = [each.pattern for each in folds[:FOLDS_SHOWN]]
    if len(folds) > FOLDS_SHOWN:
        shown.append(f"{len(folds) - FOLDS_SHOWN:,} more")
    return f": {', '.join(shown)}" if shown else ""


def _withdrawn_lately(client: Client, scope: str, until: int) -> tuple[str, ...] | None:
    """What left the market under a scope and did not come back; None if that is not known."""
    left: dict[str, None] = {}
    try:
        # The stream says how far it has come, also where nothing happened.
        for said in client.events(after=max(0, until - LOOKED_BACK)):
            if not isinstance(said, Happened):  # no more is kept
                return None
            _note(said.events, scope, left)
            if said.sequence >= until:
                break
    except LaissezError:  # nobody answers
        return None
    return tuple(left)


def _note(events: Iterable[Notice], scope: str, left: dict[str, None]) -> None:
    for event in events:
        if isinstance(event, ResourceWithdrawn) and covers(scope, event.resource):
            left[event.resource] = None
        elif isinstance(event, ResourceAdded):
            left.pop(event.resource, None)
