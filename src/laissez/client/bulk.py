"""Many changes, sent as fast as the exchange takes them from one tenant.

A window of changes is under way at once. When the exchange says that they are too many, or that it
is busy, everybody pauses for as long as it asks and the window is halved; each change that gets
through widens it a little again, so that it finds the pace by itself. A change that was sent too
early is sent again with the same key. This goes on for as long as anything gets through.

Whoever is stopped sends nothing more, and waits a moment for what is under way, so that what was
done is known.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from laissez.client.link import PACED, pause_s
from laissez.model import Answer, Instruction, Refused

WINDOW = 256
FAREWELL_S = 2.0

Outcomes = dict[int, Answer | Refused]
"""What became of each instruction, by its place among them."""


class Pace:
    """How many may be under way, and from when on."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._window = float(WINDOW)
        self._under_way = 0
        self._free_at_s = 0.0
        self._rounds_refused = 0
        self._queue: deque[asyncio.Future[None]] = deque()

    def enter(self) -> bool:
        """Send one more, if there is room for it now."""
        if self._under_way + 1 > self._window or self._loop.time() < self._free_at_s:
            return False
        self._under_way += 1
        return True

    async def wait(self) -> None:
        """Wait until there may be room."""
        pause = self._free_at_s - self._loop.time()
        if pause > 0:
            await asyncio.sleep(pause)
        else:
            turn: asyncio.Future[None] = self._loop.create_future()
            self._queue.append(turn)
            await turn

    def leave(self, refused: Refused | None) -> None:
        """One is answered: it got through, or it was refused for coming too early."""
        self._under_way -= 1
        if refused is None:
            self._rounds_refused = 0
            if self._window < WINDOW:
                self._window = min(WINDOW, self._window + 1 / self._window)
        else:
            self._slow_down((refused.retry_after_ms or 0) / 1_000)
        room = int(self._window) - self._under_way
        while self._queue and room > 0:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                room -= 1

    def _slow_down(self, asked_s: float) -> None:
        now = self._loop.time()
        if now >= self._free_at_s:  # the first of those that were sent together
            self._window = max(1, self._window / 2)
            asked_s = max(asked_s, pause_s(self._rounds_refused))
            self._rounds_refused += 1
        self._free_at_s = max(self._free_at_s, now + asked_s)


class Bulk:
    """Many changes on their way."""

    def __init__(
        self,
        send: Callable[[Instruction, str], Awaitable[Answer | Refused]],
        new_key: Callable[[], str],
        wanted: Iterable[Instruction],
        outcomes: Outcomes,
        *,
        progress: Callable[[int, int], None] | None,
        patience_s: float,
    ) -> None:
        self._send = send
        self._new_key = new_key
        self._wanted = list(wanted)
        self._rest = iter(enumerate(self._wanted))
        self._outcomes = outcomes
        self._progress = progress
        self._patience_s = patience_s
        self._loop = asyncio.get_running_loop()
        self._through_at_s = self._loop.time()
        self._pace = Pace()
        self._waiting: set[asyncio.Task[None]] = set()
        self._is_stopped = False
        # The refusal of all that is left, when nothing has got through for too long.
        self._last_word: Refused | None = None

    async def run(self) -> list[Answer | Refused]:
        """Send all, and return the outcomes in their order."""
        workers = {asyncio.create_task(self._work()) for _ in self._wanted[:WINDOW]}
        try:
            if workers:
                done, _ = await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
                for worker in done:
                    worker.result()
        except asyncio.CancelledError:
            await self._stop(workers)
            raise
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        return [self._outcomes[index] for index in range(len(self._wanted))]

    async def _stop(self, workers: set[asyncio.Task[None]]) -> None:
        self._is_stopped = True
        for worker in self._waiting:
            worker.cancel()
        await asyncio.wait(workers, timeout=FAREWELL_S)

    async def _work(self) -> None:
        for index, do in self._rest:
            if self._is_stopped:
                return
            self._outcomes[index] = await self._bring_through(do, self._new_key())
            if self._progress is not None:
                self._progress(len(self._outcomes), len(self._wanted))

    async def _bring_through(self, do: Instruction, key: str) -> Answer | Refused:
        while True:
            while not self._pace.enter():
                await self._wait()
            if self._last_word is not None:
                self._pace.leave(None)
                return self._last_word
            early = None
            try:
                said = await self._send(do, key)
                if isinstance(said, Refused) and said.code in PACED:
                    early = said
            finally:
                self._pace.leave(early)
            if early is None:
                self._through_at_s = self._loop.time()
                return said
            if self._loop.time() > self._through_at_s + self._patience_s:
                self._last_word = early
            if self._is_stopped:
                return early

    async def _wait(self) -> None:
        worker = asyncio.current_task()
        assert worker is not None
        self._waiting.add(worker)
        try:
            await self._pace.wait()
        finally:
            self._waiting.discard(worker)
