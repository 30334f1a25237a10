"""What somebody sees who waits for an order: how long, what is charged there, why it waits.

The line is drawn where a person looks on, and nowhere else. The quote of one resource is told on
the stream; that of several is asked for now and then. Where a scope's quote is not to be seen, that
of its tree stands in for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from rich.console import Console
from rich.live import Live
from rich.text import Text

from laissez.cli.terminal import clock
from laissez.cli.terminal.amounts import show_duration, show_rate
from laissez.cli.terminal.levels import NamedLevels, so_many
from laissez.cli.terminal.output import printable
from laissez.client import Client
from laissez.client.errors import LaissezError
from laissez.model import Amended, Placed, Quote, Quotes
from laissez.model.paths import tree_of

US_PER_S = 1_000_000
REFRESHES_PER_S = 4
LOOK_EVERY_US = 2 * US_PER_S


class WaitingLine:
    """Two lines, made anew each time they are drawn."""

    def __init__(
        self,
        scope: str,
        order: Placed | Amended,
        length_us: int,
        filled: Callable[[], str],
        promised: Callable[[], str],
        levels: NamedLevels,
    ) -> None:
        self.scope = scope
        self.quote: Quote | None = None
        self.is_quoted = False
        self._order = order
        self._length_us = length_us
        self._filled = filled
        self._promised = promised
        self._levels = levels
        self._began_us = 0
        self._look_at_us = 0

    def start(self) -> None:
        self._began_us = clock.now_us()

    @property
    def quotes(self) -> tuple[str, ...]:
        """What is to be followed on the stream."""
        return () if self._is_gang else (self.scope,)

    @property
    def _is_gang(self) -> bool:
        return self._order.count > 1

    def __rich__(self) -> Text:
        elapsed_us = (clock.now_us() - self._began_us) // US_PER_S * US_PER_S
        so_long = f"{show_duration(elapsed_us)} of {show_duration(self._length_us)}"
        why = self._promised() or self._why()
        lines = f"waiting {so_long}: {self._filled()}; Ctrl-C stops waiting\n{why}"
        return Text(printable(lines), no_wrap=True, overflow="ellipsis")

    def _why(self) -> str:
        if not self.is_quoted:
            return ""
        if self._is_gang:
            return self._why_all()
        if self.quote is None:
            return f"{self.scope}: nothing that is not yours already"
        rate, limit = show_rate(self.quote.rate), self._order.limit
        if not self.quote.idle:
            price = show_rate(limit if self._order.price is None else self._order.price)
            return f"{self.scope}: all held, from {rate}; nobody leaves at {price} yet"
        if self.quote.rate > limit:
            return f"{self.scope}: free at {rate}, above your limit of {show_rate(limit)}"
        return f"{self.scope}: one is free at {rate}"

    def _why_all(self) -> str:
        """All or none, so that nobody wonders why some that are free are not taken."""
        order = self._order
        wanted = f"{self.scope}: {so_many(self._levels, self.scope, order.count, order.within)}"
        limit = show_rate(order.limit)
        if self.quote is None:
            return f"{wanted}: not so many there that are not yours"
        rate = show_rate(self.quote.rate)
        if not self.quote.idle:
            return f"{wanted}: not enough yet that are free or held below {limit}"
        if self.quote.rate > order.limit:
            return f"{wanted}: free at {rate}, above your limit of {limit}"
        return f"{wanted}: free at {rate}"

    def note(self, quotes: Quotes) -> None:
        if self.scope in quotes.quotes:
            self.quote, self.is_quoted = quotes.quotes[self.scope], True

    def look(self, client: Client) -> None:
        """Ask for the quote of several, which the stream does not tell."""
        now = clock.now_us()
        if not self._is_gang or now < self._look_at_us:
            return
        self._look_at_us = now + LOOK_EVERY_US
        with suppress(LaissezError):
            order = self._order
            told = client.quote(self.scope, count=order.count, within=order.within)
            self.quote = None if told.rate is None else Quote(told.rate, told.idle)
            self.is_quoted = True


@contextmanager
def waiting_shown(
    client: Client,
    order: Placed | Amended,
    *,
    length_us: int,
    filled: Callable[[], str],
    promised: Callable[[], str],
    as_json: bool,
) -> Iterator[WaitingLine | None]:
    """As long as the block lasts, the line is there; None where nobody looks on."""
    console = Console(stderr=True)
    if as_json or not console.is_terminal:
        yield None
        return
    scope, levels = _quoted_scope(client, order.scope), client.status().levels
    line = WaitingLine(scope, order, length_us, filled, promised, levels)
    line.start()
    with Live(line, console=console, refresh_per_second=REFRESHES_PER_S, transient=True):
        yield line


def _quoted_scope(client: Client, scope: str) -> str:
    try:
        client.quote(scope)
    except LaissezError:
        return tree_of(scope)
    return scope
