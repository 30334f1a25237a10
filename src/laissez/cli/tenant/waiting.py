"""What somebody sees who waits for an order: how long, what is charged there, why it waits.

The line is drawn where a person looks on, and nowhere else. The quote comes from the stream, in a
thread of its own, because the command itself waits for the orders; where a scope's quote is not to
be seen, that of its tree stands in for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from rich.console import Console
from rich.live import Live
from rich.text import Text

from laissez.cli.terminal import clock
from laissez.cli.terminal.amounts import show_duration, show_rate
from laissez.cli.terminal.output import printable
from laissez.client import Client
from laissez.client.errors import LaissezError
from laissez.model import Quote, Quotes
from laissez.model.paths import tree_of

US_PER_S = 1_000_000
REFRESHES_PER_S = 4


class WaitingLine:
    """Two lines, made anew each time they are drawn."""

    def __init__(
        self, scope: str, price: int, limit: int, length_us: int, filled: Callable[[], str]
    ) -> None:
        self.scope = scope
        self.quote: Quote | None = None
        self.is_quoted = False
        self._price = price
        self._limit = limit
        self._length_us = length_us
        self._filled = filled
        self._began_us = clock.now_us()

    def __rich__(self) -> Text:
        elapsed_us = (clock.now_us() - self._began_us) // US_PER_S * US_PER_S
        so_long = f"{show_duration(elapsed_us)} of {show_duration(self._length_us)}"
        lines = f"waiting {so_long}: {self._filled()}; Ctrl-C stops waiting\n{self._why()}"
        return Text(printable(lines), no_wrap=True, overflow="ellipsis")

    def _why(self) -> str:
        if not self.is_quoted:
            return ""
        if self.quote is None:
            return f"{self.scope}: nothing that is not yours already"
        rate = show_rate(self.quote.rate)
        if not self.quote.idle:
            price = show_rate(self._price)
            return f"{self.scope}: all held, from {rate}; nobody leaves at {price} yet"
        if self.quote.rate > self._limit:
            return f"{self.scope}: free at {rate}, above your limit of {show_rate(self._limit)}"
        return f"{self.scope}: one is free at {rate}"

    def follow(self, client: Client) -> None:
        """Keep the quote fresh, until the client is closed."""
        with suppress(LaissezError):
            for said in client.events(quotes=(self.scope,)):
                if isinstance(said, Quotes) and self.scope in said.quotes:
                    self.quote, self.is_quoted = said.quotes[self.scope], True


@contextmanager
def waiting_shown(
    client: Client,
    scope: str,
    *,
    price: int,
    limit: int,
    length_us: int,
    filled: Callable[[], str],
    as_json: bool,
) -> Iterator[None]:
    """As long as the block lasts, the line is there; `filled` says how far it has come."""
    console = Console(stderr=True)
    if as_json or not console.is_terminal:
        yield
        return
    line = WaitingLine(_quoted_scope(client, scope), price, limit, length_us, filled)
    threading.Thread(target=line.follow, args=(client,), daemon=True).start()
    with Live(line, console=console, refresh_per_second=REFRESHES_PER_S, transient=True):
        yield


def _quoted_scope(client: Client, scope: str) -> str:
    try:
        client.quote(scope)
    except LaissezError:
        return tree_of(scope)
    return scope
