"""How an operator steers: floors, guards, and who is there."""

from __future__ import annotations

import click

from laissez.cli.terminal import connection
from laissez.cli.terminal.amounts import (
    counted,
    show_basis_points,
    show_charge,
    show_duration,
    show_rate,
)
from laissez.cli.terminal.answers import say_answer
from laissez.cli.terminal.completing import complete_scope, complete_tree
from laissez.cli.terminal.documents import WouldChange
from laissez.cli.terminal.nearby import covers, did_you_mean, scope_meant
from laissez.cli.terminal.output import dry_run_option, json_option, say, say_json, say_table, warn
from laissez.cli.terminal.parameters import OFF, dollars, duration, or_off, percent
from laissez.client import Client
from laissez.model import ChangeFloor, ChangeGuard
from laissez.model.sentences import no_commitment

DAY_US = 86_400_000_000
GUARDS = ("rise", "fall", "hold", "window", "notice", "commit")
NOUNS = {"notice": "notice", "commit": "commitment"}


@click.group()
def floor() -> None:
    """Set and show floors.

    The floor of a resource is the highest floor on its path.
    """


@floor.command("set")
@click.argument("scope", shell_complete=complete_scope)
@click.argument("amount", type=dollars)
@dry_run_option
@json_option
def set_floor(scope: str, amount: int, dry_run: bool, as_json: bool) -> None:
    """Set the lowest price for everything under a scope; 0 takes it away.

    Holders whose limit is below the new floor lose what they hold. A floor may be set before there
    is anything under it; that is said, in case the name was mistyped.
    """
    with connection.connect() as client:
        before = client.floors().floors if dry_run or amount == 0 else {}
        answer = None if dry_run else client.set_floor(scope, amount)
        if amount == 0 and scope not in before:
            warn(f"laissez: no floor was set for {scope}{did_you_mean(scope, before)}")
        if amount and client.quote(scope).rate is None:
            _say_empty(client, scope, "the floor waits")
        if answer is not None:
            say_answer(answer, as_json=as_json)
            return
        held = tuple(each.resource for each in client.resources(scope) if each.owner is not None)
    message = (
        f"the floor of {scope} would go from {show_rate(before.get(scope, 0))} to "
        f"{show_rate(amount)}; "
    )
    if held:
        under = counted(len(held), "holding")
        message += f"of {under} under it, those with a limit below that would be lost"
    else:
        message += "nothing is held under it"
    if as_json:
        say_json(WouldChange(held, message))
    else:
        say(message)


def _say_empty(client: Client, scope: str, waits: str) -> None:
    over = [each for each in client.floors().cordons if covers(each, scope)]
    why = f" ({', '.join(over)} is cordoned)" if over else ""
    hint = scope_meant(client, scope)
    warn(f"laissez: there is nothing under {scope} now{why}; {waits} for what is added{hint}")


@floor.command("show")
@json_option
def show_floors(as_json: bool) -> None:
    """List the floors that are set."""
    with connection.connect() as client:
        told = client.floors()
    if as_json:
        say_json([ChangeFloor(scope, each) for scope, each in told.floors.items()])
    else:
        rows = [(scope, show_rate(each)) for scope, each in sorted(told.floors.items())]
        say_table("scope", "floor", rows=rows, right=("floor",), nothing="no floor is set")


@click.group()
def guard() -> None:
    """Set and show volatility guards.

    Guards belong to a tree. A new tree has a notice and a commitment, see 'guard show'; all others
    are off unless set.
    """


@guard.command("set")
@click.argument("tree", shell_complete=complete_tree)
@click.option(
    "--rise", type=or_off(percent), help="A price rises at most so much in a window: 25%."
)
@click.option(
    "--fall", type=or_off(dollars), help="A floor falls at most so much in a window: 0.50."
)
@click.option("--hold", type=or_off(duration), help="What was won is safe for so long: 2s.")
@click.option("--window", type=or_off(duration), help="How long a window is: 1s.")
@click.option(
    "--notice",
    type=or_off(duration),
    help="Who is displaced has so long to leave: 60s; a day at most.",
)
@click.option(
    "--commit",
    type=or_off(duration),
    help="Who wins pays for so long at least: 60s; a day at most.",
)
@json_option
def set_guard(tree: str, as_json: bool, **wanted: int | None) -> None:
    """Set guards of a tree; what is not given stays as it is.

    'off' in the place of an amount switches one guard off, and 'guard off' all of them. A tree that
    has no guards yet gets those that are given, also before it has a resource: then it does not get
    the notice and the commitment of a new tree. A commitment no shorter than the notice makes sure
    that to displace somebody and leave again costs what was bid.

    \b
    Examples:
      laissez guard set h100 --rise 25% --window 1s
      laissez guard set h100 --notice 2m --commit 2m
      laissez guard set h100 --hold off
    """
    if all(each is None for each in wanted.values()):
        raise click.UsageError(
            "say which guards: --rise 25% --window 1s, --notice 60s --commit 60s; 'guard off' "
            "ends them"
        )
    for name in ("notice", "commit"):
        length = wanted[name]
        if length is not None and length > DAY_US:
            raise click.UsageError(
                f"a {NOUNS[name]} is a day at most, not {show_duration(length)}; give --{name} "
                "30s, 5m or the like"
            )
    with connection.connect() as client:
        guards = _with_what_stands(client, tree, wanted)
        if (guards.rise is not None or guards.fall is not None) and not guards.window:
            raise click.UsageError(
                "rise and fall are bounds within a window; say how long it is: --window 1s"
            )
        answer = client.set_guard(
            tree,
            rise=guards.rise,
            fall=guards.fall,
            hold=guards.hold,
            window=guards.window,
            notice=guards.notice,
            commit=guards.commit,
        )
        if client.quote(tree).rate is None:
            _say_empty(client, tree, "the guards wait")
    say_answer(answer, as_json=as_json)
    commit, notice = guards.commit, guards.notice
    if not commit:
        warn(f"laissez: {no_commitment(tree)}")
    elif notice and commit < notice:
        warn(
            f"laissez: the commitment, {show_duration(commit)}, is shorter than the notice, "
            f"{show_duration(notice)}: to have somebody called in vain costs less than the notice "
            "is worth; make it no shorter"
        )


def _with_what_stands(client: Client, tree: str, wanted: dict[str, int | None]) -> ChangeGuard:
    """All guards of a tree as they are to be: those that stand, but for what is wanted."""
    stand = next((each for each in client.floors().guards if each.tree == tree), None)
    settings: dict[str, int | None] = {}
    if stand is not None:
        settings = {name: getattr(stand, name) for name in GUARDS}
    for name, amount in wanted.items():
        if amount is not None:
            settings[name] = None if amount == OFF else amount
    return ChangeGuard(tree, **settings)


@guard.command("off")
@click.argument("tree", shell_complete=complete_tree)
@json_option
def guard_off(tree: str, as_json: bool) -> None:
    """Switch all guards of a tree off."""
    with connection.connect() as client:
        guarded = [each.tree for each in client.floors().guards]
        if tree not in guarded:
            hint = did_you_mean(tree, guarded) or scope_meant(client, tree)
            warn(f"laissez: {tree} has no guards{hint}")
        answer = client.set_guard(tree)
        is_known = tree in client.status().trees
    say_answer(answer, as_json=as_json)
    if is_known:
        warn(f"laissez: {no_commitment(tree)}")


@guard.command("show")
@json_option
def show_guards(as_json: bool) -> None:
    """List the guards that are set."""
    with connection.connect() as client:
        guards = client.floors().guards
    if as_json:
        say_json(guards)
        return
    rows = [
        (
            each.tree,
            show_basis_points(each.rise),
            show_rate(each.fall),
            show_duration(each.hold),
            show_duration(each.window),
            show_duration(each.notice),
            show_duration(each.commit),
        )
        for each in guards
    ]
    columns = ("tree", "rise", "fall", "hold", "window", "notice", "commit")
    say_table(*columns, rows=rows, nothing="no guard is set")


@click.command()
@json_option
def tenants(as_json: bool) -> None:
    """List who orders, holds or owes."""
    with connection.connect() as client:
        told = client.tenants()
    if as_json:
        say_json(told)
        return
    rows = [
        (each.tenant, f"{each.orders:,}", f"{each.holdings:,}", show_charge(each.charge))
        for each in told
    ]
    columns = ("tenant", "orders", "holdings", "owes")
    say_table(*columns, rows=rows, right=columns[1:], nothing="there is nobody yet")
