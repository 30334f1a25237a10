"""A source and its steadying; and several of them, read together.

Reading and asking are apart: `refresh` does I/O and remembers, `level` only computes. Nothing that
a source does gets out of `refresh`: it fails, hangs or answers nonsense, and there is a level all
the same, with a sentence about it.
"""

import asyncio
from collections.abc import Mapping

from laissez.telemetry.source import US_PER_S, Reading, Source, Unreadable, seconds
from laissez.telemetry.steady import Level, Steady

TIMEOUT_US = 5 * US_PER_S


class Feed:
    """What is read is multiplied by `scale`, and `offset` is added, before anything else."""

    def __init__(
        self,
        source: Source,
        steady: Steady,
        *,
        scale: float = 1.0,
        offset: float = 0.0,
        timeout_us: int = TIMEOUT_US,
    ) -> None:
        self.source = source
        self.steady = steady
        self._scale = scale
        self._offset = offset
        self._timeout_us = timeout_us
        self._asked_us: int | None = None
        self._last: Reading | None = None
        self._failure: str | None = None

    async def refresh(self, at_us: int) -> None:
        """Ask the source once, and wait no longer than the timeout."""
        if self._asked_us is None:
            self._asked_us = at_us
        try:
            async with asyncio.timeout(self._timeout_us / US_PER_S):
                reading = await self.source.read(at_us)
            if reading is None:
                raise Unreadable("the source has no value now")
            self._take(reading, at_us)
        except Unreadable as error:
            self._failure = str(error)
        except TimeoutError:
            self._failure = f"the source did not answer within {seconds(self._timeout_us)}"
        except Exception as error:
            self._failure = f"the source failed: {type(error).__name__}: {error}"

    def level(self, at_us: int) -> Level:
        return self.steady.level(self._last, at_us, self._failure, asked_us=self._asked_us)

    def _take(self, reading: Reading, at_us: int) -> None:
        value = self.steady.rounded(reading.value * self._scale + self._offset)
        objection = self.steady.objection(value)
        if objection:
            raise Unreadable(f"the value {objection}")
        # A reading from the future would stay fresh too long; an older one knows less.
        read_us = min(reading.at_us, at_us)
        if self._last is None or read_us >= self._last.at_us:
            self._last = Reading(value, read_us)
        self._failure = None


class Telemetry:
    """Named feeds. A slow or broken one delays and breaks no other: each is read in a task of its
    own, and again as soon as that is done, whatever the others do."""

    def __init__(self, feeds: Mapping[str, Feed]) -> None:
        self._feeds = dict(feeds)
        self._reading: dict[str, asyncio.Task[None]] = {}

    async def refresh(self, at_us: int, *, wait_s: float | None = None) -> None:
        """Ask all sources that are not being asked already, and wait for the answers, so long at
        most. What has answered counts even before this returns; what has not, when it has."""
        for name, feed in self._feeds.items():
            under_way = self._reading.get(name)
            if under_way is None or under_way.done():
                self._reading[name] = asyncio.create_task(feed.refresh(at_us))
        if self._reading:
            await asyncio.wait(self._reading.values(), timeout=wait_s)

    def levels(self, at_us: int) -> dict[str, Level]:
        return {name: feed.level(at_us) for name, feed in self._feeds.items()}

    async def close(self) -> None:
        for task in self._reading.values():
            task.cancel()
        await asyncio.gather(*self._reading.values(), return_exceptions=True)
        closing = (feed.source.close() for feed in self._feeds.values())
        await asyncio.gather(*closing, return_exceptions=True)
