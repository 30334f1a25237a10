"""Quotes, and the orders that wait."""

from __future__ import annotations

import click
from msgspec import UNSET

from laissez.cli.tenant.buying import price_above_limit, say_preview
from laissez.cli.tenant.trying import check_is_tenant, own_order
from laissez.cli.terminal import clock, connection
from laissez.cli.terminal.amounts import counted, show_rate, show_time
from laissez.cli.terminal.answers import say_answer, say_answers, send_all_shown
from laissez.cli.terminal.completing import complete_order, complete_scope, complete_tenant
from laissez.cli.terminal.documents import ExplainedOrder
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
from laissez.model import AmendOrder, CancelOrder, Code, OpenOrder, Quoted


@click.command()
@click.argument(
    "scopes", metavar="SCOPE...", nargs=-1, required=True, shell_complete=complete_scope
)
@json_option
def quote(scopes: tuple[str, ...], as_json: bool) -> None:
    """Say what a resource would cost now.

    A tenant sees the quotes of whole trees (h100), and of every scope around what it holds.
    """
    with connection.connect() as client:
        quotes = []
        for scope in scopes:
            with near_names_shown(client, scope):
                quotes.append(_quote(client, scope))
    if as_json:
        say_json(quotes)
    else:
        rows = [(each.scope, show_rate(each.rate), _availability(each)) for each in quotes]
        say_table("scope", "rate", "", rows=rows, right=("rate",), nothing="no scope was given")


def _quote(client: Client, scope: str) -> Quoted:
    """Whoever sees everything is told when a scope is empty: the name may be mistyped. Anybody else
    is refused what is not there."""
    told = client.quote(scope)
    if told.rate is None and client.status().tenant is None:
        warn(f"laissez: there is nothing under {scope}{scope_meant(client, scope)}")
    return told


def _availability(quote: Quoted) -> str:
    if quote.rate is None:
        return "nothing to be had"
    return "free now" if quote.idle else "held; an order may have to wait"


@click.command()
@click.option("--why", is_flag=True, help="Say of each order why it is not filled.")
@click.option(
    "--tenant",
    shell_complete=complete_tenant,
    help="Whose orders; for the operator, who sees all without it.",
)
@json_option
def orders(why: bool, tenant: str | None, as_json: bool) -> None:
    """List the orders that wait."""
    with connection.connect() as client:
        found = client.orders(tenant)
        if tenant is not None and not found and (nobody := tenant_meant(client, tenant)):
            warn(nobody)
        reasons = [client.why(order.order) if why else "" for order in found]
    if as_json:
        explained = [ExplainedOrder(*pair) for pair in zip(found, reasons, strict=True)]
        say_json(explained if why else found)
        return
    columns = ("order", "tenant", "scope", "price", "limit", "expires")
    rows = [_cells(order, clock.now_us()) for order in found]
    say_table(*columns, rows=rows, right=("price", "limit"), nothing="no order waits")
    for order, reason in zip(found, reasons, strict=True):
        if why:
            say(f"{order.order}: {reason}")


def _cells(order: OpenOrder, now_us: int) -> tuple[str, ...]:
    return (
        order.order,
        order.tenant,
        order.scope,
        show_rate(order.price),
        show_rate(order.limit),
        show_time(order.expires, now_us),
    )


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
            if price is None:  # of a gang
                price = limit
            if price > limit:
                raise Refusal(Code.PRICE_ABOVE_LIMIT, price_above_limit(price, limit))
            say_preview(client, present.scope, price, limit, as_json=as_json)
        else:
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
    say_answers(answers, as_json=as_json, nothing="you have no order to cancel")
