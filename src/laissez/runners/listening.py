"""What a tenant is told of itself, gathered in the background until the next step.

The exchange tells things in the order in which they happened, and before it answers what was asked
after them; only the past, after a start or a lost connection, comes in pieces that answers
overtake. So whoever has read its state waits until it has caught up (`catch_up`), and then takes
the news: it knows everything that led there. News carry their sequence number; those that are later
than what was read stay for the next step.

After a lost connection the stream goes on where it was. Where the exchange no longer keeps what
was missed, somebody who reads its state at every step needs nothing special: it is woken.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from laissez.client import AsyncClient, LaissezError
from laissez.client.link import Streamed
from laissez.client.stream import StreamReader
from laissez.model import (
    Called,
    Filled,
    Happened,
    Lost,
    Notice,
    Promised,
    Rates,
    Resync,
    Uncalled,
    Unpromised,
)
from laissez.runners.waiting import abandon

STIRRING = (Filled, Lost, Called, Uncalled, Promised, Unpromised)
"""What an adapter steps for at once."""


class News(NamedTuple):
    sequence: int
    notice: Notice


class Listening:
    """The stream of one tenant, from a sequence number on (None: from now)."""

    def __init__(self, client: AsyncClient, after: int | None = None) -> None:
        self.sequence = after
        self.stirred = asyncio.Event()
        self._client = client
        self._news: list[News] = []
        self._rates: dict[str, int] = {}
        self._reader: StreamReader | None = None
        self._following: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Listen, if it does not yet or no longer; raises if the exchange can't be reached."""
        if self._following is not None and not self._following.done():
            return
        reader = await self._client.open_reader(self.sequence, True, ())
        self.sequence = reader.after
        self._reader = reader
        self._following = asyncio.create_task(self._follow(reader))

    async def catch_up(self) -> None:
        """Wait until all is heard that happened before the last answer; raises if it never is.

        Where listening has ended already nothing more comes, until it is opened again.
        """
        if self._reader is not None and self._following is not None and not self._following.done():
            await self._reader.catch_up()
            for said in self._reader.take_now():
                self._hear(said)

    def take(self, until: int) -> list[News]:
        """The news up to a sequence number; the rest is for later, and soon."""
        taken = [news for news in self._news if news.sequence <= until]
        self._news = self._news[len(taken) :]
        self.stirred.clear()
        if self._news:
            self.stirred.set()
        return taken

    def take_rates(self) -> dict[str, int]:
        """The rates that have changed since they were last taken."""
        taken, self._rates = self._rates, {}
        return taken

    async def close(self) -> None:
        if self._following is not None:
            await abandon(self._following)

    async def _follow(self, reader: StreamReader) -> None:
        try:
            while True:
                for said in await reader.take():
                    self._hear(said)
        except LaissezError:
            self.stirred.set()  # the next step opens it again, or finds out why it can't
        finally:
            self._client.close_reader(reader)

    def _hear(self, said: Streamed) -> None:
        if isinstance(said, Happened):
            self.sequence = said.sequence
            self._news += [News(said.sequence, notice) for notice in said.events]
            if any(isinstance(notice, STIRRING) for notice in said.events):
                self.stirred.set()
        elif isinstance(said, Rates):
            self._rates.update(said.rates)
        elif isinstance(said, Resync):
            self.sequence = said.sequence
            self._news.clear()
            self.stirred.set()
