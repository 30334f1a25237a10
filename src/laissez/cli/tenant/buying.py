"""`buy`: one resource, several at once or none, or several single orders, and what becomes of them.

An order that is not filled at once waits in the market; with `--wait` the command waits, too.
Filled, promised, waiting and refused orders are told apart plainly, because a job that asked for
eight with single orders may have got five.
"""

from __future__ import annotations

import click

from laissez.cli.tenant.gangs import WhatToBuy, check_terms, say_gang_preview
from laissez.cli.tenant.purchase import Purchase
from laissez.cli.tenant.trying import check_is_tenant, check_tree, say_if_unseen
from laissez.cli.terminal import clock, connection
from laissez.cli.terminal.amounts import show_rate
from laissez.cli.terminal.completing import (
    complete_holding,
    complete_level,
    complete_scope,
    complete_within,
)
from laissez.cli.terminal.documents import Previewed
from laissez.cli.terminal.exits import tell_failure
from laissez.cli.terminal.levels import level_of
from laissez.cli.terminal.nearby import did_you_mean, near_names_shown
from laissez.cli.terminal.output import dry_run_option, json_option, say, say_json
from laissez.cli.terminal.parameters import above_zero, dollars, duration
from laissez.client import Client
from laissez.client.errors import LaissezError, Refusal
from laissez.model import Code, PlaceOrder
from laissez.model.paths import tree_of

COUNT_MAX = 10_000


@click.command()
@click.argument("scope", required=False, shell_complete=complete_scope)
@click.option(
    "--count",
    type=click.IntRange(1, COUNT_MAX),
    default=1,
    show_default=True,
    help="How many, all at one instant or none.",
)
@click.option(
    "--within",
    metavar="LEVEL",
    shell_complete=complete_within,
    help="All in the same rack, host, ... (with --count).",
)
@click.option(
    "--together", is_flag=True, help="When one of them goes, the others go too (with --count)."
)
@click.option("--separately", is_flag=True, help="COUNT single orders, each filled by itself.")
@click.option(
    "--price",
    type=dollars,
    callback=above_zero,
    help="What to press with now; the quote, if you see it.",
)
@click.option(
    "--limit",
    type=dollars,
    callback=above_zero,
    help="How far to follow the rate; the price, if unsaid.",
)
@click.option(
    "--near",
    metavar="HOLDING",
    shell_complete=complete_holding,
    help="Beside a resource you hold, instead of SCOPE.",
)
@click.option(
    "--level",
    shell_complete=complete_level,
    help="How near: the same rack, host, ... (with --near).",
)
@click.option("--expires", type=duration, help="End orders that wait after so long.")
@click.option("--wait", type=duration, help="Wait so long for orders to be filled.")
@dry_run_option
@json_option
def buy(
    scope: str | None,
    count: int,
    within: str | None,
    together: bool,
    separately: bool,
    price: int | None,
    limit: int | None,
    near: str | None,
    level: str | None,
    expires: int | None,
    wait: int | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Order resources under a scope.

    With --count so many are won at one instant, or none, and --within says how close together they
    lie: the levels are those that 'laissez status' shows. They have a limit and no price: while
    they wait they press on nobody. With --together the exchange releases all of them at the instant
    at which one really goes, for work that can't run with fewer; each is charged as if you had
    released it. With --separately COUNT single orders are placed instead.

    Exits with 0 if all were filled, and with 3 if some wait or are only promised: where holders are
    given notice, what was won comes when that is over. Orders that wait live on in the market when
    the command ends, also by Ctrl-C; 'laissez cancel' ends them.

    \b
    Examples:
      laissez buy h100 --limit 3.20
      laissez buy h100 --count 8 --within host --limit 3.20 --wait 10m
      laissez buy h100 --count 8 --separately --price 3.00 --limit 3.20
      laissez buy --near h100/us-east/r1/h3/g0 --level rack --limit 3.20
    """
    check_terms(count, within, price, limit, separately=separately, together=together)
    is_gang = count > 1 and not separately
    level_within = None if within is None else level_of(within)
    with connection.connect() as client:
        place = _place(client, scope, near, level)
        if price is not None and limit is not None and price > limit:
            raise click.UsageError(price_above_limit(price, limit))
        if dry_run:
            check_is_tenant(client, PlaceOrder)
            with near_names_shown(client, place):
                check_tree(client, place)
                if is_gang:
                    assert limit is not None
                    wanted = WhatToBuy(place, count, is_gang, level_within, together)
                    say_gang_preview(client, wanted, limit, as_json=as_json)
                else:
                    say_preview(client, place, price, limit, count, as_json=as_json)
            return
        until = None if expires is None else clock.now_us() + expires
        wanted = WhatToBuy(place, count, is_gang, level_within, together)
        purchase = Purchase(client, wanted, as_json=as_json)
        try:
            purchase.order(price, limit, until)
            if wait is not None:
                purchase.wait(wait)
        except LaissezError as error:
            # First what went wrong, for it is the reason for all that follows.
            from laissez.cli.terminal.failures import failure_of  # noqa: PLC0415

            failure = failure_of(error, "buy")
            tell_failure(failure, as_json=as_json)
            click.get_current_context().exit(failure.exit_code)
        finally:
            # Also when interrupted: the orders are in the market, whoever waits for them.
            purchase.report()
            purchase.say_what_lives_on()
        purchase.look_for_the_name()
    purchase.leave()


def price_above_limit(price: int, limit: int) -> str:
    return (
        f"the price, {show_rate(price)}, is above the limit, {show_rate(limit)}; raise the limit "
        "or lower the price"
    )


def _place(client: Client, scope: str | None, near: str | None, level: str | None) -> str:
    if (scope is None) == (near is None):
        raise click.UsageError("say where: a SCOPE, or --near HOLDING with --level")
    if (near is None) != (level is None):
        raise click.UsageError("--near and --level go together: --near HOLDING --level rack")
    if near is None or level is None:
        assert scope is not None
        return scope
    try:
        return client.scope_near(near, level_of(level))
    except ValueError as error:
        held = {each.resource for each in client.holdings()}
        known = client.status().levels.get(tree_of(near), ())
        hint = did_you_mean(level, known) if near in held else did_you_mean(near, held)
        raise click.UsageError(f"{error}{hint}") from None


def say_preview(
    client: Client,
    scope: str,
    price: int | None,
    limit: int | None,
    count: int = 1,
    *,
    as_json: bool,
) -> None:
    """What an order would do now, as far as its tenant can see; of several, the first."""
    try:
        preview = client.preview(scope, price=price, limit=limit)
    except ValueError as error:
        raise Refusal(Code.SCOPE_NOT_VISIBLE, str(error)) from None
    if preview.quote is None:
        say_if_unseen(client, scope)
    of_how_many = f"the first of {count:,}: " if count > 1 else ""
    if not as_json:
        say(f"{of_how_many}{preview.sentence}")
        return
    quote = preview.quote
    rate, idle = (None, False) if quote is None else (quote.rate, quote.idle)
    fills, said = preview.fills_now, f"{of_how_many}{preview.sentence}"
    say_json(Previewed(scope, preview.price, preview.limit, rate, idle, fills, said))
