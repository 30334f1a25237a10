"""Whoever writes to the journal: a thread that does one job at a time, in the order they come.

Nothing that may wait for a disk is done in the event loop: a disk that stalls holds up what has to
be written, and neither questions nor anybody's connection. While a job is under way the next group
gathers, so that a slow disk means larger groups.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue

Write = Callable[[], None]
DoneCallback = Callable[[BaseException | None], None]


class Writer:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._jobs: SimpleQueue[tuple[Write, DoneCallback] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="journal", daemon=True)
        self._is_closed = False
        self._thread.start()

    def do(self, write: Write, done: DoneCallback) -> None:
        """Do a job after those before it; `done` is called in the event loop, with any error."""
        assert not self._is_closed
        self._jobs.put((write, done))

    async def wait_for(self, write: Write) -> None:
        """Do a job, and raise what it raises."""
        finished = self._loop.create_future()

        def done(error: BaseException | None) -> None:
            if not finished.done():
                finished.set_result(error)

        self.do(write, done)
        error = await finished
        if error is not None:
            raise error

    async def close(self) -> None:
        """Let the thread end when everything is done, and wait for it beside the loop."""
        self._is_closed = True
        self._jobs.put(None)
        await self._loop.run_in_executor(None, self._thread.join)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            write, done = job
            error: BaseException | None = None
            try:
                write()
            except BaseException as raised:
                error = raised
            self._loop.call_soon_threadsafe(done, error)
