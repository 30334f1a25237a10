"""The one thread that writes to the journal.

Jobs are done in the order in which they come; when one is done the event loop is told. A thread
of our own and a plain queue, because a group passes through here several hundred times a second,
and the futures of an executor cost more than the writing does.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue

Job = Callable[[], None]
Done = Callable[[BaseException | None], None]


class Writer:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._jobs: SimpleQueue[tuple[Job, Done] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="journal", daemon=True)
        self._thread.start()

    def do(self, job: Job, done: Done) -> None:
        """Do a job after those before it; `done` is called in the event loop, with any error."""
        self._jobs.put((job, done))

    async def wait_for(self, job: Job) -> None:
        """Do a job, and raise what it raises."""
        finished = self._loop.create_future()

        def done(error: BaseException | None) -> None:
            if not finished.done():
                finished.set_result(error)

        self.do(job, done)
        error = await finished
        if error is not None:
            raise error

    def close(self) -> None:
        """Let the thread end when everything is done."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (next_one := self._jobs.get()) is not None:
            job, done = next_one
            error: BaseException | None = None
            try:
                job()
            except BaseException as raised:
                error = raised
            self._loop.call_soon_threadsafe(done, error)
