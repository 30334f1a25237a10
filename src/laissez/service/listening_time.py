"""How long somebody may take: only time in which we listen counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class ListeningTime:
    """Something has to come in time; the time stands still while nobody listens."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, seconds: float, pass_by: Callable[[], object]
    ) -> None:
        self._loop = loop
        self._pass_by = pass_by
        self._left_s = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._since_s = 0.0

    def run(self) -> None:
        if self._timer is None:
            self._since_s = self._loop.time()
            self._timer = self._loop.call_later(max(self._left_s, 0), self._pass_by)

    def stand_still(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()
            self._left_s -= self._loop.time() - self._since_s
