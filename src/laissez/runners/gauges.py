"""Telemetry as a runner reads it: numbers to act on, and one warning whenever their trust changes.

A source that hangs must not hold up a step that a lost node calls for. So reading goes on in the
background, a step waits for it a moment only, and takes what there is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from laissez.runners.waiting import abandon
from laissez.telemetry import Freshness, Level, Telemetry

WAIT_S = 1.0

_WORDS: dict[Freshness, str] = {
    "fresh": "is read again",
    "held": "can't be read now",
    "drifting": "is stale",
    "default": "is not known",
}


class Gauges:
    """`left_out_when_stale` are those that are not passed on unless they were read not long ago:
    an application goes on with its own forecast where there is no default that is safe for it."""

    def __init__(
        self,
        telemetry: Telemetry,
        warn: Callable[[str], None],
        left_out_when_stale: Collection[str] = (),
    ) -> None:
        self._telemetry = telemetry
        self._warn = warn
        self._left_out = frozenset(left_out_when_stale)
        self._refreshing: asyncio.Task[None] | None = None
        self._freshness: dict[str, Freshness] = {}

    async def read(self, at_us: int) -> dict[str, float]:
        """The numbers by name."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = asyncio.create_task(self._telemetry.refresh(at_us))
        await asyncio.wait({self._refreshing}, timeout=WAIT_S)
        levels = self._telemetry.levels(at_us)
        for name, level in levels.items():
            self._tell(name, level)
        return {
            name: level.value
            for name, level in levels.items()
            if name not in self._left_out or level.freshness in ("fresh", "held")
        }

    async def close(self) -> None:
        if self._refreshing is not None:
            await abandon(self._refreshing)

    def _tell(self, name: str, level: Level) -> None:
        before = self._freshness.get(name, "fresh")
        self._freshness[name] = level.freshness
        if level.freshness != before:
            reason = f": {level.sentence}" if level.sentence else f", and is {level.value:g}"
            self._warn(f"the telemetry {name!r} {_WORDS[level.freshness]}{reason}")
