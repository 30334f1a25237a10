"""The stream, with a look at the clock now and then. Tests put their own in its place.

Whoever counts down, or gives up at some instant, can't wait for the next word: so the stream is
read in a thread of its own, which ends when the client is closed.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from queue import Empty, SimpleQueue
from typing import TypeAlias

from laissez.client import Client
from laissez.model import Happened, Quotes, Rates, Resync

Heard: TypeAlias = Happened | Rates | Quotes | Resync

LOOK_UP_S = 0.5


def listen(
    client: Client, *, after: int | None = None, rates: bool = False, quotes: Collection[str] = ()
) -> Iterator[Heard | None]:
    """What `client.events` says, and None wherever it says nothing for a while."""
    heard: SimpleQueue[Heard | Exception] = SimpleQueue()

    def read() -> None:
        try:
            for said in client.events(after=after, rates=rates, quotes=quotes):
                heard.put(said)
        except Exception as error:  # for whoever listens
            heard.put(error)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            said = heard.get(timeout=LOOK_UP_S)
        except Empty:
            yield None
            continue
        if isinstance(said, Exception):
            raise said
        yield said
