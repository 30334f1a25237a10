"""Quotes, and the orders that wait."""

from __future__ import annotations

from collections.abc import Sequence

import click
from msgspec import UNSET

from laissez.cli.tenant.buying import COUNT_MAX, price_above_limit, say_preview
from laissez.cli.tenant.gangs import (
    NO_PRICE,
    WhatToBuy,
    near_levels_shown,
    quote_of_several,
    say_gang_preview,
    why_gang_waits,
)
from laissez.cli.tenant.promises import hints_of_promises, promised_shown
from laissez.cli.tenant.trying import check_is_tenant, own_order
from laissez.cli.terminal import clock, connection
from laissez.cli.terminal.amounts import counted, show_rate, show_time
from laissez.cli.terminal.answers import say_answer, say_answers, send_all_shown
from laissez.cli.terminal.completing import (
    complete_order,
    complete_scope,
    complete_tenant,
    complete_within,
)
from laissez.cli.terminal.documents import ExplainedOrder
from laissez.cli.terminal.levels import NamedLevels, level_of, so_many
from laissez.cli.terminal.nearby import near_names_shown, scope_meant, tenant_meant
from laissez.cli.terminal.output import (
    ask,
    dry_run_option,
    json_option,
    say,
    say_json,
    say_table,
    warn,
    yes_option,
)
from laissez.cli.terminal.parameters import above_zero, dollars, duration
from laissez.client import Client
from laissez.client.errors import Refusal
from laissez.model import AmendOrder, CancelOrder, Code, OpenOrder, Promise, Quoted


@click.command()
@click.argument(
    "scopes", metavar="SCOPE...", nargs=-1, required=True, shell_complete=complete_scope
)
@click.option(
    "--count", type=click.IntRange(1, COUNT_MAX), default=1, help="Of so many at once, each."
)
@click.option(
    "--within",
    metavar="LEVEL",
    shell_complete=complete_within,
    help="All in the same rack, host, ... (with --count).",
)
@json_option
def quote(scopes: tuple[str, ...], count: int, within: str | None, as_json: bool) -> None:
    """Say what a resource would cost now, or several at once.

    A tenant sees the quotes of whole trees (h100), and of every scope around what it holds. With
    --count it is what the dearest of so many would cost where that is lowest, in one LEVEL.

    \b
    Examples:
      laissez quote h100
      laissez quote h100 --count 8 --within host
    """
    if within is not None and count == 1:
        raise click.UsageError(
            f"--within is for several at once; say how many: --count 8 --within {within}"
        )
    level = None if within is None else level_of(within)
    with connection.connect() as client:
        levels = client.status().levels if count > 1 else {}
        quotes = []
        for scope in scopes:
            with near_names_shown(client, scope):
                quotes.append(_quote(client, scope, count, level, levels))
    if as_json:
        say_json(quotes)
        return
    if count == 1:
        rows = [(each.scope, show_rate(each.rate), _availability(each)) for each in quotes]
        say_table("scope", "rate", "", rows=rows, right=("rate",), nothing="no scope was given")
        return
    rows_of_several = [
        (
            each.scope,
            so_many(levels, each.scope, count, level),
            show_rate(each.rate),
            _availability_of_several(each),
        )
        for each in quotes
    ]
    columns = ("scope", "how many", "each, at most", "")
    say_table(
        *columns, rows=rows_of_several, right=("each, at most",), nothing="no scope was given"
    )


def _quote(
    client: Client, scope: str, count: int, within: int | str | None, levels: NamedLevels
) -> Quoted:
    """Whoever sees everything is told when a scope is empty: the name may be mistyped. Anybody else
    is refused what is not there."""
    if count == 1:
        told = client.quote(scope)
    else:
        with near_levels_shown(levels, scope, within):
            told = client.quote(scope, count=count, within=within)
    is_for_all = told.rate is None and client.status().tenant is None
    if is_for_all and (count == 1 or client.quote(scope).rate is None):
        warn(f"laissez: there is nothing under {scope}{scope_meant(client, scope)}")
    return told


def _availability(quote: Quoted) -> str:
    if quote.rate is None:
        return "nothing to be had"
    return "free now" if quote.idle else "held; an order may have to wait"


def _availability_of_several(quote: Quoted) -> str:
    if quote.rate is None:
        return "not so many to be had"
    return "free now" if quote.idle else "not all free; an order may have to wait"


@click.command()
@click.option("--why", is_flag=True, help="Say of each order why it is not filled.")
@click.option(
    "--tenant",
    shell_complete=complete_tenant,
    help="Whose orders; for the operator, who sees all without it.",
)
@json_option
def orders(why: bool, tenant: str | None, as_json: bool) -> None:
    """List the orders that wait, and what is promised.

    What somebody else still holds, under notice, is promised to the order that won it: it comes
    when the notice is over, or as soon as it is left. With --json what is promised follows the
    orders.
    """
    with connection.connect() as client:
        found, promised = client.orders(tenant), client.promises(tenant)
        if tenant is not None and not found and (nobody := tenant_meant(client, tenant)):
            warn(nobody)
        levels = client.status().levels
        reasons = [_why(client, order, levels) if why else "" for order in found]
    if as_json:
        explained = [ExplainedOrder(*pair) for pair in zip(found, reasons, strict=True)]
        say_json([*(explained if why else found), *promised])
        return
    now = clock.now_us()
    if found or not promised:
        _say_orders(found, levels, now)
    if promised:
        _say_promises(promised, now)
    for order, reason in zip(found, reasons, strict=True):
        if why:
            say(f"{order.order}: {reason}")


def _say_orders(found: Sequence[OpenOrder], levels: NamedLevels, now_us: int) -> None:
    has_gangs = any(order.count > 1 for order in found)
    columns = ["order", "tenant", "scope", "price", "limit", "expires"]
    rows = [_cells(order, now_us) for order in found]
    if has_gangs:
        columns.insert(3, "how many")
        for row, order in zip(rows, found, strict=True):
            row.insert(3, so_many(levels, order.scope, order.count, order.within))
    say_table(*columns, rows=rows, right=("price", "limit"), nothing="no order waits")


def _say_promises(promised: Sequence[Promise], now_us: int) -> None:
    rows = [
        (each.resource, each.order, each.tenant, show_time(each.until, now_us)) for each in promised
    ]
    columns = ("promised", "to order", "tenant", "comes, at the latest")
    say_table(*columns, rows=rows, nothing="nothing is promised")


def _why(client: Client, order: OpenOrder, levels: NamedLevels) -> str:
    if order.count == 1:
        return client.why(order.order)
    quoted = quote_of_several(client, order.scope, order.count, order.within, levels)
    return why_gang_waits(order, quoted, levels)


def _cells(order: OpenOrder, now_us: int) -> list[str]:
    return [
        order.order,
        order.tenant,
        order.scope,
        show_rate(order.price),
        show_rate(order.limit),
        show_time(order.expires, now_us),
    ]


@click.command()
@click.argument("order", shell_complete=complete_order)
@click.option("--price", type=dollars, callback=above_zero, help="What to press with now.")
@click.option("--limit", type=dollars, callback=above_zero, help="How far to follow.")
@click.option("--expires", type=duration, help="End it so long from now.")
@click.option("--no-expiry", is_flag=True, help="Let it wait without end.")
@dry_run_option
@json_option
def amend(
    order: str,
    price: int | None,
    limit: int | None,
    expires: int | None,
    no_expiry: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Change the terms of an order.

    What is not given stays as it was. The order gets a new place in the queue, and may be filled
    at once.
    """
    if expires is not None and no_expiry:
        raise click.UsageError("--expires and --no-expiry contradict each other; say one of them")
    if price is None and limit is None and expires is None and not no_expiry:
        raise click.UsageError("nothing is to be changed; say --price, --limit or --expires")
    until = None if no_expiry else UNSET if expires is None else clock.now_us() + expires
    with connection.connect() as client:
        if dry_run:
            check_is_tenant(client, AmendOrder)
            present = own_order(client, order)
            price = present.price if price is None else price
            limit = present.limit if limit is None else limit
            if present.count > 1:
                if price is not None:
                    raise Refusal(Code.GANG_HAS_NO_PRICE, NO_PRICE)
                wanted = WhatToBuy(present.scope, present.count, True, present.within)
                say_gang_preview(client, wanted, limit, as_json=as_json)
                return
            assert price is not None
            if price > limit:
                raise Refusal(Code.PRICE_ABOVE_LIMIT, price_above_limit(price, limit))
            say_preview(client, present.scope, price, limit, as_json=as_json)
        else:
            with promised_shown(client, order):
                answer = client.amend(order, price=price, limit=limit, expires=until)
            say_answer(answer, as_json=as_json)


@click.command()
@click.argument("orders", metavar="[ORDER]...", nargs=-1, shell_complete=complete_order)
@click.option("--all", "every", is_flag=True, help="All your orders; asks first.")
@yes_option
@json_option
def cancel(orders: tuple[str, ...], every: bool, yes: bool, as_json: bool) -> None:
    """End orders."""
    if every == bool(orders):
        raise click.UsageError("name the orders to cancel, or say --all")
    with connection.connect() as client:
        meant = [each.order for each in client.orders()] if every else orders
        if every and meant and not yes:
            ask(f"Cancel {counted(len(meant), 'order')}?")
        wanted = [CancelOrder(order) for order in meant]
        answers = send_all_shown(client, wanted, "cancelling", as_json=as_json)
        hints = hints_of_promises(client, meant, answers)
    say_answers(answers, as_json=as_json, nothing="you have no order to cancel", hints=hints)
