"""Telemetry as a runner reads it: numbers to act on, and one warning whenever their trust changes.

A source that hangs must not hold up a step that a lost node calls for. So reading goes on in the
background, a step waits for it a moment only, and takes what there is.

A map acts on levels, at every step anew. An application is told news: it goes on by itself from
what it was told, so a reading is told once, with the instant of which it is true.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from laissez.telemetry import Freshness, Level, Telemetry

WAIT_S = 1.0

_WORDS: dict[Freshness, str] = {
    "awaited": "is waited for",
    "fresh": "is read again",
    "held": "can't be read now",
    "drifting": "is stale",
    "default": "is not known",
}


class Readings(NamedTuple):
    """What was read of one instant."""

    at_us: int
    values: dict[str, float]


class Gauges:
    """`left_out_when_stale` are those that are no news unless they were read not long ago: an
    application goes on with its own forecast where there is no default that is safe for it."""

    def __init__(
        self,
        telemetry: Telemetry,
        warn: Callable[[str], None],
        left_out_when_stale: Collection[str] = (),
    ) -> None:
        self._telemetry = telemetry
        self._warn = warn
        self._left_out = frozenset(left_out_when_stale)
        self._freshness: dict[str, Freshness] = {}
        self._told_us: dict[str, int] = {}

    async def levels(self, at_us: int) -> dict[str, Level]:
        """The levels by name, at this instant."""
        await self._telemetry.refresh(at_us, wait_s=WAIT_S)
        levels = self._telemetry.levels(at_us)
        for name, level in levels.items():
            self._tell(name, level)
        return levels

    async def news(self, at_us: int) -> list[Readings]:
        """What is known now and was not told before, in the order of time."""
        news: dict[int, dict[str, float]] = {}
        for name, level in (await self.levels(at_us)).items():
            told_us = self._instant_of_news(name, level, at_us)
            if told_us is not None:
                news.setdefault(told_us, {})[name] = level.value
        return [Readings(told_us, news[told_us]) for told_us in sorted(news)]

    def _instant_of_news(self, name: str, level: Level, at_us: int) -> int | None:
        if level.freshness in ("drifting", "default"):
            return None if name in self._left_out else at_us
        if level.read_us is None or level.read_us == self._told_us.get(name):
            return None
        self._told_us[name] = level.read_us
        return level.read_us

    def _tell(self, name: str, level: Level) -> None:
        before = self._freshness.get(name, "fresh")
        self._freshness[name] = level.freshness
        if level.freshness != before:
            is_first = (before, level.freshness) == ("awaited", "fresh")
            word = "is read now" if is_first else _WORDS[level.freshness]
            reason = f": {level.sentence}" if level.sentence else f", and is {level.value:g}"
            self._warn(f"the telemetry {name!r} {word}{reason}")
