"""One stream, many listeners.

A connection has one subscription, and a client many who listen: every `events()`, every holding.
`Stream` subscribes for all of them together and tells each what it has not heard yet: a listener
remembers the last sequence number that it heard (`after`), and nothing up to there is told twice.

When the connection is lost, the stream subscribes anew after the earliest of these numbers. If
the exchange no longer keeps what came since, it says `Resync`, and so does the stream.

The past comes in pieces, and answers to what is asked meanwhile overtake it. An empty `Happened`
is its end. Whoever has caught up heard all that happened before anything it was answered.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection

from laissez.client.errors import ConnectionFailed, LaissezError, Refusal, refusal
from laissez.client.link import RETRIED, Link, Streamed
from laissez.model import (
    Happened,
    Quotes,
    Rates,
    Refused,
    Resync,
    ServiceCode,
    Subscribe,
    Subscribed,
)

UNREAD_MAX = 10_000


class StreamListener:
    """Somebody who listens. One who is patient waits for the exchange however long it takes."""

    def __init__(
        self, after: int | None = None, rates: bool = False, quotes: Collection[str] = ()
    ) -> None:
        self.after = after
        self.rates = rates
        self.quotes = frozenset(quotes)
        self.is_patient = False
        self.is_live = False

    def note_caught_up(self, is_caught_up: bool) -> None:
        """Has it heard everything until now, or does some of the past still come?"""

    def hear(self, said: Streamed) -> None:
        raise NotImplementedError

    def fail(self, error: LaissezError) -> None:
        raise NotImplementedError


class StreamReader(StreamListener):
    """Keeps what it hears until it is read; one that is read too slowly has to begin anew."""

    def __init__(
        self, after: int | None = None, rates: bool = False, quotes: Collection[str] = ()
    ) -> None:
        super().__init__(after, rates, quotes)
        self._unread: deque[Streamed] = deque()
        self._news = asyncio.Event()
        self._caught_up = asyncio.Event()
        self._error: LaissezError | None = None

    def note_caught_up(self, is_caught_up: bool) -> None:
        if is_caught_up:
            self._caught_up.set()
        else:
            self._caught_up.clear()

    def hear(self, said: Streamed) -> None:
        if len(self._unread) >= UNREAD_MAX:
            self._unread.clear()
            message = "you read too slowly, and what was unread is gone; read your state anew"
            said = Resync(self.after or 0, message)
        self._unread.append(said)
        self._news.set()

    def fail(self, error: LaissezError) -> None:
        self._error = error
        self._news.set()
        self._caught_up.set()

    async def take(self) -> list[Streamed]:
        """Everything unread, waiting until there is something."""
        while not self._unread:
            if self._error is not None:
                raise self._error
            self._news.clear()
            await self._news.wait()
        return self.take_now()

    async def catch_up(self) -> None:
        """Wait until there is nothing of the past that is not heard."""
        while not self._caught_up.is_set():
            await self._caught_up.wait()
        if self._error is not None:
            raise self._error

    def take_now(self) -> list[Streamed]:
        """Everything unread, which may be nothing."""
        unread = list(self._unread)
        self._unread.clear()
        return unread


class Stream:
    def __init__(self, link: Link) -> None:
        self._link = link
        link.on_streamed = self._streamed
        link.on_subscribed = self._subscribed
        link.on_lost = self._lost
        self._listeners: list[StreamListener] = []
        self._subscribing: list[StreamListener] = []
        self._one_at_a_time = asyncio.Lock()
        self._subscribing_after: int | None = None
        self._is_live = False
        self._is_caught_up = False
        self._seen = 0
        self._resuming: asyncio.Task[None] | None = None

    async def join(self, listener: StreamListener) -> None:
        """Begin to listen; on return nothing that happens is missed."""
        if self._is_live and listener.after is None:
            listener.after = self._seen
        self._listeners.append(listener)
        try:
            if self._covers(listener):
                listener.is_live = True
                listener.note_caught_up(self._is_caught_up)
            else:
                await self._subscribe()
        except BaseException:
            self.leave(listener)
            raise

    def leave(self, listener: StreamListener) -> None:
        listener.is_live = False
        if listener in self._listeners:
            self._listeners.remove(listener)

    def close(self) -> None:
        """End for everybody."""
        if self._resuming is not None:
            self._resuming.cancel()
        self._fail(self._listeners, ConnectionFailed("this client was closed"))

    def _covers(self, listener: StreamListener) -> bool:
        """Does what is told already hold all that this one wants?"""
        wants_more = listener.rates or listener.quotes
        hears_all = listener.after is not None and listener.after >= self._seen
        return self._is_live and hears_all and not wants_more

    # Subscribing ------------------------------------------------------------------------------

    async def _subscribe(self) -> None:
        """Subscribe for everybody there is now."""
        async with self._one_at_a_time:
            self._subscribing = list(self._listeners)
            if all(listener.is_live for listener in self._subscribing):
                return
            together = _together(self._subscribing)
            self._subscribing_after = together.after
            said = await self._link.ask(together)
            if isinstance(said, Refused):
                raise refusal(said)

    def _subscribed(self, said: Subscribed) -> None:
        self._seen = max(self._seen, said.sequence) if self._is_live else said.sequence
        self._is_live = True
        for listener in self._subscribing:
            if listener.after is None:
                listener.after = said.sequence
            elif listener.is_live:  # it has heard everything until now
                listener.after = max(listener.after, said.sequence)
            listener.is_live = True
        self._note_caught_up(self._subscribing_after is None)

    def _note_caught_up(self, is_caught_up: bool) -> None:
        self._is_caught_up = is_caught_up
        for listener in self._listeners:
            listener.note_caught_up(is_caught_up)

    def _lost(self) -> None:
        """The connection is gone."""
        self._is_live = False
        self._note_caught_up(False)
        for listener in self._listeners:
            listener.is_live = False
        if self._listeners and self._resuming is None:
            self._resuming = asyncio.get_running_loop().create_task(self._resume())

    async def _resume(self) -> None:
        try:
            while not all(listener.is_live for listener in self._listeners):
                try:
                    await self._subscribe()
                except LaissezError as error:
                    self._fail(self._hit_by(error), error)
        finally:
            self._resuming = None

    def _hit_by(self, error: LaissezError) -> list[StreamListener]:
        """Who can't go on."""
        code = error.code if isinstance(error, Refusal) else None
        if isinstance(error, ConnectionFailed) or code in RETRIED:
            return [each for each in self._listeners if not each.is_patient]
        if code != ServiceCode.UNAUTHENTICATED:
            # A scope may be out of sight by now; that is no matter to those who didn't ask.
            asked = [each for each in self._listeners if each.quotes]
            return asked or self._listeners
        return self._listeners

    def _fail(self, listeners: list[StreamListener], error: LaissezError) -> None:
        for listener in tuple(listeners):
            self.leave(listener)
            listener.fail(error)

    # Telling ----------------------------------------------------------------------------------

    def _streamed(self, said: Streamed) -> None:
        listeners = [listener for listener in self._listeners if listener.is_live]
        if isinstance(said, Happened):
            self._seen = max(self._seen, said.sequence)
            for listener in listeners:
                if listener.after is None or said.sequence > listener.after:
                    listener.after = said.sequence
                    listener.hear(said)
        elif isinstance(said, Resync):
            # Numbers may go back: an exchange restored from an old copy counts from there.
            self._seen = said.sequence
            for listener in listeners:
                if listener.after != said.sequence:
                    listener.after = said.sequence
                    listener.hear(said)
        elif isinstance(said, Rates):
            for listener in listeners:
                if listener.rates:
                    listener.hear(said)
        else:
            _tell_quotes(listeners, said)
        if isinstance(said, Resync) or (isinstance(said, Happened) and not said.events):
            self._note_caught_up(True)


def _together(listeners: list[StreamListener]) -> Subscribe:
    """One subscription that holds what each of these wants."""
    known = [listener.after for listener in listeners if listener.after is not None]
    quotes = frozenset().union(*(listener.quotes for listener in listeners))
    return Subscribe(
        after=min(known, default=None),
        rates=any(listener.rates for listener in listeners),
        quotes=tuple(sorted(quotes)),
    )


def _tell_quotes(listeners: list[StreamListener], said: Quotes) -> None:
    for listener in listeners:
        own = {scope: quote for scope, quote in said.quotes.items() if scope in listener.quotes}
        if own:
            listener.hear(Quotes(said.at, own))
