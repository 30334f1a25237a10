"""`buy`: some independent orders, and what becomes of them.

Each order is good for one resource. An order that is not filled at once waits in the market; with
`--wait` the command waits, too. Filled, waiting and refused orders are told apart plainly, because
a job that asked for eight may have got five.
"""

from __future__ import annotations

import click

from laissez.cli.terminal import clock, connection
from laissez.cli.terminal.amounts import show_attributes, show_rate
from laissez.cli.terminal.answers import end_with, refusals_in
from laissez.cli.terminal.documents import Bought, Previewed
from laissez.cli.terminal.exits import Exit
from laissez.cli.terminal.output import dry_run_option, json_option, say, say_json, say_table
from laissez.cli.terminal.parameters import dollars, duration
from laissez.client import Client
from laissez.client.errors import LaissezError
from laissez.model import (
    Answer,
    Cancelled,
    Expired,
    Filled,
    Happened,
    Notice,
    Placed,
    PlaceOrder,
    Resync,
)

US_PER_S = 1_000_000
POLL_S = 0.25
COUNT_MAX = 10_000


@click.command()
@click.argument("scope", required=False)
@click.option(
    "--count", type=click.IntRange(1, COUNT_MAX), default=1, show_default=True, help="How many."
)
@click.option("--price", type=dollars, help="What to press with now; the quote, if you see it.")
@click.option("--limit", type=dollars, help="How far to follow the rate; the price, if unsaid.")
@click.option("--near", metavar="HOLDING", help="Beside a resource you hold, instead of SCOPE.")
@click.option("--level", help="How near: the same rack, host, ... (with --near).")
@click.option("--expires", type=duration, help="End orders that wait after so long.")
@click.option("--wait", type=duration, help="Wait so long for orders to be filled.")
@dry_run_option
@json_option
def buy(
    scope: str | None,
    count: int,
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

    Places COUNT independent orders for any one resource under SCOPE each. Exits with 0 if all were
    filled, and with 3 if some wait.

    \b
    Examples:
      laissez buy h100 --limit 3.20
      laissez buy h100/us-east --count 8 --price 3.00 --limit 3.20 --wait 30s
      laissez buy --near h100/us-east/r1/h3/g0 --level rack --limit 3.20
    """
    if price is None and limit is None:
        raise click.UsageError("say what you would pay an hour: --limit 3.20, --price 3.00 or both")
    with connection.connect() as client:
        place = _place(client, scope, near, level)
        if dry_run:
            say_preview(client, place, price, limit, as_json=as_json)
            return
        until = None if expires is None else clock.now_us() + expires
        purchase = _Purchase(client, place, count)
        purchase.order(price, limit, until)
        try:
            if wait is not None:
                purchase.wait(wait)
        finally:
            # Also when interrupted: the orders are in the market, whoever waits for them.
            purchase.report(as_json=as_json)
    purchase.leave(as_json=as_json)


def _place(client: Client, scope: str | None, near: str | None, level: str | None) -> str:
    if (scope is None) == (near is None):
        raise click.UsageError("say where: a SCOPE, or --near HOLDING with --level")
    if (near is None) != (level is None):
        raise click.UsageError("--near and --level go together: --near HOLDING --level rack")
    if near is None or level is None:
        assert scope is not None
        return scope
    try:
        return client.scope_near(near, int(level) if level.isdecimal() else level)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def say_preview(
    client: Client, scope: str, price: int | None, limit: int | None, *, as_json: bool
) -> None:
    """What an order would do now, as far as its tenant can see."""
    try:
        preview = client.preview(scope, price=price, limit=limit)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if not as_json:
        say(preview.sentence)
        return
    quote = preview.quote
    rate, idle = (None, False) if quote is None else (quote.rate, quote.idle)
    fills, said = preview.fills_now, preview.sentence
    say_json(Previewed(scope, preview.price, preview.limit, rate, idle, fills, said))


class _Purchase:
    """The orders of one `buy`, from placing to the last word on them."""

    def __init__(self, client: Client, scope: str, count: int) -> None:
        self._client = client
        self._scope = scope
        self._count = count
        self._since = 0
        self._placed: dict[str, Placed] = {}
        self._filled: dict[str, Filled] = {}
        self._ended: list[str] = []
        self._unknown: list[str] = []
        self._refused = refusals_in(())

    @property
    def _waiting(self) -> list[str]:
        over = {*self._filled, *self._ended, *self._unknown}
        return [order for order in self._placed if order not in over]

    def order(self, price: int | None, limit: int | None, expires: int | None) -> None:
        instruction = PlaceOrder(self._scope, price, limit, None, expires)
        answers = self._client.send_all([instruction] * self._count)
        self._refused = refusals_in(answers)
        made = [answer for answer in answers if isinstance(answer, Answer)]
        self._since = min((answer.sequence for answer in made), default=1) - 1
        for answer in made:
            self._placed |= {e.order: e for e in answer.events if isinstance(e, Placed)}
        # An order may be filled by what a later one set in motion, so all are placed by now.
        for answer in made:
            self._note(answer.events)

    def _note(self, events: tuple[Notice, ...]) -> None:
        for event in events:
            if isinstance(event, Filled | Expired | Cancelled) and event.order in self._placed:
                if isinstance(event, Filled):
                    self._filled[event.order] = event
                elif event.order not in self._ended:
                    self._ended.append(event.order)

    def wait(self, length_us: int) -> None:
        """Until no order waits any longer, or so long; then read what became of those gone."""
        until = clock.now_us() + length_us
        waiting = set(self._waiting)
        while waiting:
            live = {order.order for order in self._client.orders()}
            if not waiting & live or clock.now_us() >= until:
                self._read_the_end_of(waiting - live)
                return
            clock.sleep_s(POLL_S)

    def _read_the_end_of(self, gone: set[str]) -> None:
        """An order that is gone was filled, cancelled or has expired: the stream says which."""
        if not gone:
            return
        for said in self._client.events(after=self._since):
            if isinstance(said, Happened):
                self._note(said.events)
            elif isinstance(said, Resync):
                self._unknown += sorted(gone.intersection(self._waiting))
            if gone.isdisjoint(self._waiting):
                return

    def report(self, *, as_json: bool) -> None:
        filled = tuple(self._filled.values())
        waiting = tuple(self._placed[order] for order in self._waiting)
        if as_json:
            ended, unknown = tuple(self._ended), tuple(self._unknown)
            say_json(
                Bought(self._scope, self._count, filled, waiting, ended, unknown, self._refused)
            )
            return
        if filled:
            rates = self._rates()
            rows = [
                (
                    each.resource,
                    each.order,
                    show_rate(rates.get(each.resource)),
                    show_rate(self._placed[each.order].limit),
                    show_attributes(each.attributes),
                )
                for each in filled
            ]
            columns = ("resource", "order", "rate", "limit", "attributes")
            say_table(*columns, rows=rows, right=("rate", "limit"), nothing="")
        say(self._summary())

    def _rates(self) -> dict[str, int]:
        try:
            return {each.resource: each.rate for each in self._client.holdings()}
        except LaissezError:
            # What was won is told, even if the service went away meanwhile.
            return {}

    def _summary(self) -> str:
        parts = [f"{len(self._filled):,} of {self._count:,} filled"]
        waiting = self._waiting
        if waiting:
            verb = "waits" if len(waiting) == 1 else "wait"
            parts.append(f"{len(waiting):,} {verb}: {', '.join(waiting)}")
        if self._ended:
            parts.append(f"{len(self._ended):,} ended unfilled: {', '.join(self._ended)}")
        if self._unknown:
            gone = ", ".join(self._unknown)
            parts.append(f"of {gone} it is no longer known; see 'laissez holdings'")
        if self._refused:
            parts.append(f"{len(self._refused):,} refused")
        return "; ".join(parts)

    def leave(self, *, as_json: bool) -> None:
        """End with the exit code that says how it went."""
        end_with(self._refused[:1], as_json=as_json)
        if len(self._filled) < self._count:
            click.get_current_context().exit(Exit.WAITING)
