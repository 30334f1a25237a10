"""Many tasks on all cores, each by itself; results come as they are done.

Every process makes itself a worker once, and is then handed task after task: what all tasks have in
common is sent only once. A single task, or a single process, is the caller's own.

Ctrl-C reaches all processes of a terminal; only the first heeds it, and ends the others. So does
whoever closes the results before the last. And if the first is killed, the others end by
themselves, in the midst of what they do.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from threading import Thread
from typing import Any, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")
ReportDone = Callable[[int, int], None]
"""Told how much is done, and of how much."""


def run_all(
    worker: Callable[[], Callable[[Task], Result]],
    tasks: Sequence[Task],
    processes: int | None = None,
) -> Generator[tuple[int, Result], None, None]:
    """The place and the result of each task; `worker` makes what runs them, and can be pickled."""
    wanted = min(processes or os.cpu_count() or 1, len(tasks))
    if wanted <= 1:
        yield from enumerate(map(worker(), tasks))
        return
    strangers = set(active_children())
    # A fresh interpreter: a fork would copy whatever threads the caller has, in mid-air.
    with ProcessPoolExecutor(
        wanted, mp_context=get_context("spawn"), initializer=_begin, initargs=(worker,)
    ) as pool:
        try:
            with _no_interruption():
                places = {pool.submit(_work, task): at for at, task in enumerate(tasks)}
            for future in as_completed(places):
                yield places[future], future.result()
        except BaseException:
            # Nobody waits for the rest. Cancelling it would take as long as what is under way,
            # and a pool that breaks with cancelled tasks complains aloud.
            for process in set(active_children()) - strangers:
                process.terminate()
            raise


@contextmanager
def _no_interruption() -> Iterator[None]:
    """Ctrl-C waits until the end of it; processes that are started within never hear of it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# --- in a process that was started for tasks ----------------------------------------------------

_worker: Callable[[Any], Any] | None = None


def _begin(worker: Callable[[], Callable[[Any], Any]]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_the_first, daemon=True).start()
    global _worker  # noqa: PLW0603 - an initialiser has no other way to leave something
    _worker = worker()


def _end_with_the_first() -> None:
    first = parent_process()
    assert first is not None
    first.join()
    os._exit(1)


def _work(task: Any) -> Any:
    assert _worker is not None
    return _worker(task)
