"""Whoever writes to the journal: one job at a time, in the order in which they come.

A sync of the disk takes long, on most disks, and the next group gathers meanwhile: jobs are done
in a thread of their own. But two threads share one interpreter, and handing it to and fro costs
about a millisecond a group. On a disk that syncs faster than that, waiting for it in place is the
cheaper way, for all who wait for an answer and for the processor. So the writer keeps an eye on
how long its jobs take, begins with the thread, and changes over when the disk is fast, and back
when it is not.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from time import perf_counter

Job = Callable[[], None]
Done = Callable[[BaseException | None], None]

IN_PLACE_BELOW_S = 0.002
WEIGHT_OF_LATEST = 0.1
TAUGHT_BY = 50


class Writer:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._for_thread: SimpleQueue[tuple[Job, Done] | None] = SimpleQueue()
        self._for_here: deque[tuple[Job, Done]] = deque()
        self._in_thread = 0
        self._is_telling = False
        self._done_count = 0
        self._usual_s = 0.0
        self._thread = threading.Thread(target=self._work, name="journal", daemon=True)
        self._thread.start()

    def do(self, job: Job, done: Done) -> None:
        """Do a job after those before it; `done` is called in the event loop, with any error.

        It may be called before this returns, but never while another `done` is at work: what one
        job has led to is complete before the next is begun.
        """
        is_fast = self._done_count >= TAUGHT_BY and self._usual_s < IN_PLACE_BELOW_S
        if self._for_here or (is_fast and not self._in_thread):
            self._for_here.append((job, done))
            if not self._is_telling:
                self._do_here()
        else:
            self._in_thread += 1
            self._for_thread.put((job, done))

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
        self._for_thread.put(None)
        self._thread.join()

    def _do_here(self) -> None:
        while self._for_here:
            job, done = self._for_here.popleft()
            self._tell(done, self._try(job))

    def _work(self) -> None:
        while (next_one := self._for_thread.get()) is not None:
            job, done = next_one
            self._loop.call_soon_threadsafe(self._back_from_thread, done, self._try(job))

    def _back_from_thread(self, done: Done, error: BaseException | None) -> None:
        self._in_thread -= 1
        self._tell(done, error)
        self._do_here()

    def _tell(self, done: Done, error: BaseException | None) -> None:
        self._is_telling = True
        try:
            done(error)
        finally:
            self._is_telling = False

    def _try(self, job: Job) -> BaseException | None:
        begun = perf_counter()
        try:
            job()
        except BaseException as error:
            return error
        took_s = perf_counter() - begun
        self._usual_s += WEIGHT_OF_LATEST * (took_s - self._usual_s)
        self._done_count += 1
        return None
