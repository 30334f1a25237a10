"""An event loop in a thread of its own, and errands that other threads hand in and wait for.

A Ctrl-C may come between any two steps of a thread that hands in an errand or waits for it, and
nothing may be lost or left behind then:

* A coroutine is made in the loop's thread, by the task that runs it. So there is never one that
  nobody awaits.
* A signal that comes just before a thread begins to wait does not wake it. So whoever waits looks
  up now and then, and sees too when the loop's thread is gone (as it is after a fork).
* An errand whose thread was interrupted is taken back: cancelled, and waited for until it is over.
* Winding up is one errand that ends the loop by itself. So a `close` that is interrupted is done
  nevertheless, and can be called again.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from laissez.client.errors import ConnectionFailed

T = TypeVar("T")
Farewell = Callable[[], Coroutine[Any, Any, None]]
LOOK_UP_S = 0.25
FAREWELL_S = 2
CLOSED = "this client is closed; make another"


class Errand(Generic[T]):
    """What is to be done in the loop's thread, and what came of it."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._make = make
        self._task: asyncio.Task[T] | None = None
        self._failure: Exception | None = None
        self._over = threading.Lock()
        self._over.acquire()
        self.is_over = False

    def wait(self, timeout_s: float) -> bool:
        """Wait so long at most; is it over?"""
        if not self.is_over:
            self._over.acquire(timeout=timeout_s)
        return self.is_over

    def outcome(self) -> T:
        """What the coroutine returned or raised."""
        if self._failure is not None:
            raise self._failure
        if self._task is None or self._task.cancelled():
            raise ConnectionFailed("this client was closed before this was done")
        return self._task.result()

    # In the loop's thread ---------------------------------------------------------------------

    def begin(self, under_way: set[Errand[Any]]) -> None:
        try:
            coroutine = self._make()
        except Exception as error:  # arguments that do not fit
            self._failure = error
            self._end()
            return
        under_way.add(self)
        self._task = asyncio.get_running_loop().create_task(coroutine)
        self._task.add_done_callback(lambda task: self._done(task, under_way))

    def take_back(self) -> None:
        """Cancel it; one that never began is over at once."""
        if self._task is not None:
            self._task.cancel()
        elif not self.is_over:
            self._end()

    def _done(self, task: asyncio.Task[T], under_way: set[Errand[Any]]) -> None:
        under_way.discard(self)
        if not task.cancelled():
            task.exception()  # seen, even if nobody waits any more
        self._end()

    def _end(self) -> None:
        self.is_over = True
        self._over.release()


class LoopThread(threading.Thread):
    """A thread that makes an event loop, runs it until it is told to end, and closes it."""

    def __init__(self) -> None:
        super().__init__(name="laissez-client", daemon=True)
        self.loop: asyncio.AbstractEventLoop | None = None
        self._is_up = threading.Lock()
        self._is_up.acquire()
        self._is_told_to_end = False
        self._told: asyncio.Event | None = None
        self._farewell: Farewell = _say_nothing

    @property
    def is_usable(self) -> bool:
        """Not if its start was interrupted."""
        return self.loop is not None and not self._is_told_to_end

    def start_and_wait(self) -> None:
        """On return its loop runs; whoever is interrupted leaves no thread behind."""
        try:
            self.start()
            while self.loop is None:
                self._is_up.acquire(timeout=LOOK_UP_S)
        except BaseException:
            self.end(_say_nothing)
            raise

    def end(self, farewell: Farewell) -> None:
        """Tell it to end, which it does by itself."""
        self._farewell = farewell
        self._is_told_to_end = True
        if self.loop is not None and self._told is not None:
            with contextlib.suppress(RuntimeError):  # it has ended already
                self.loop.call_soon_threadsafe(self._told.set)

    def run(self) -> None:
        asyncio.run(self._live())

    async def _live(self) -> None:
        self._told = asyncio.Event()
        self.loop = asyncio.get_running_loop()
        self._is_up.release()
        if not self._is_told_to_end:
            await self._told.wait()
        await self._farewell()
        # Nobody who waits for an outcome is left waiting. Whoever is late is cancelled at the end.
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        if rest:
            await asyncio.wait(rest, timeout=FAREWELL_S)


class BackgroundLoop:
    """A loop thread that is started with the first errand and ended by `close`."""

    def __init__(self, *, take_back_s: float) -> None:
        self._take_back_s = take_back_s
        # Handing in may be interrupted by the collection of a generator that hands in its end.
        self._guard = threading.RLock()
        self._thread: LoopThread | None = None
        self._is_closed = False
        self._under_way: set[Errand[Any]] = set()

    def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do something and wait for it; taken back if the wait is interrupted."""
        self._check_thread()
        errand = Errand(make)
        try:
            self._hand_in(errand)
            self._wait(errand)
        except ConnectionFailed:
            raise
        except BaseException:
            self._take_back(errand)
            raise
        return errand.outcome()

    def see_through(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Do something and wait for it; done nevertheless if the wait is interrupted."""
        self._check_thread()
        errand = self.start(make)
        self._wait(errand)
        return errand.outcome()

    def start(self, make: Callable[[], Coroutine[Any, Any, T]]) -> Errand[T]:
        """Do something without waiting for it."""
        errand = Errand(make)
        self._hand_in(errand)
        return errand

    def close(self, farewell: Farewell) -> None:
        """Say farewell, let what is under way end, and wait until the thread has ended."""
        self._check_thread()
        with self._guard:
            thread = self._thread
            if thread is not None and not self._is_closed:
                thread.end(farewell)
            self._is_closed = True
        while thread is not None and thread.is_alive():
            thread.join(LOOK_UP_S)

    def _hand_in(self, errand: Errand[Any]) -> None:
        """What is handed in before the end is begun before it."""
        with self._guard:
            if self._is_closed:
                raise ConnectionFailed(CLOSED)
            if self._thread is None or not self._thread.is_usable:
                self._thread = LoopThread()
                self._thread.start_and_wait()
            assert self._thread.loop is not None
            self._thread.loop.call_soon_threadsafe(errand.begin, self._under_way)

    def _check_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise RuntimeError("this is the client's own thread; call it from another one")

    def _wait(self, errand: Errand[Any], until_s: float | None = None) -> None:
        is_alive = True
        while not errand.wait(LOOK_UP_S) and (until_s is None or time.monotonic() < until_s):
            if not is_alive:  # nor was it when the wait began
                raise ConnectionFailed("the thread of this client has ended; make another client")
            is_alive = self._thread is not None and self._thread.is_alive()

    def _take_back(self, errand: Errand[Any]) -> None:
        loop = None if self._thread is None else self._thread.loop
        if loop is None:
            return
        with contextlib.suppress(RuntimeError, ConnectionFailed):  # ended, and so is the errand
            loop.call_soon_threadsafe(errand.take_back)
            self._wait(errand, time.monotonic() + self._take_back_s)


async def _say_nothing() -> None:
    """The farewell of a thread that nobody has used."""
