"""Steps until somebody wants it to end: waiting that a stop cuts short, and trouble with the line
that is said once and outlived.

The client mends its line by itself for a while. When it gives up, a runner waits and begins its
step again, for as long as it is not stopped: whatever it wanted to do, it looks anew first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from laissez.client import ConnectionFailed, LaissezError, Refusal
from laissez.client.link import RETRIED

AGAIN_S = 1.0
LAST_WORD_S = 2.0

T = TypeVar("T")


class Stopped(Exception):
    """Somebody wants it to end."""


def is_passing(error: LaissezError) -> bool:
    """Will it help to try again later?"""
    if isinstance(error, Refusal):
        return error.code in RETRIED
    return isinstance(error, ConnectionFailed)


async def unless_stopped(work: Awaitable[T], stop: asyncio.Event) -> T:
    """The result of some work; after a stop it has a moment to end, then raises Stopped."""
    task = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            await asyncio.wait({task}, timeout=LAST_WORD_S)
        if not task.done():
            raise Stopped
        return task.result()
    finally:
        await abandon(task, stopping)


async def pause(seconds: float, *ends: asyncio.Event) -> None:
    """Wait so long, or until one of these is set."""
    waits = [asyncio.ensure_future(event.wait()) for event in ends]
    try:
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await abandon(*waits)


async def abandon(*tasks: asyncio.Future[Any]) -> None:
    """End tasks in which nobody is interested any more, whatever becomes of them.

    To be cancelled oneself meanwhile is another matter, and is not swallowed.
    """
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Outage:
    """Whether the exchange is out of reach; told when that changes, and not in between."""

    def __init__(self, tell: Callable[[bool, str], None]) -> None:
        self._tell = tell
        self._is_on = False

    def begins(self, error: LaissezError) -> None:
        if not self._is_on:
            self._is_on = True
            self._tell(True, str(error))

    def is_over(self) -> None:
        if self._is_on:
            self._is_on = False
            self._tell(False, "")


class Stepping(Protocol):
    """What takes one step after another: an adapter's run, or a map's."""

    outage: Outage

    async def step(self) -> bool:
        """Look and act once; True if there is nothing left to do."""

    async def wait(self, stop: asyncio.Event) -> None:
        """Until the next step is due, or `stop` is set."""


async def step_until_stopped(run: Stepping, stop: asyncio.Event) -> None:
    """Step after step, until there is nothing left to do or `stop` is set.

    While the exchange can't be reached it tries again; what trying again will not mend is raised.
    """
    while not stop.is_set():
        try:
            is_finished = await unless_stopped(run.step(), stop)
        except Stopped:
            return
        except LaissezError as error:
            if not is_passing(error):
                raise
            run.outage.begins(error)
            await pause(AGAIN_S, stop)
            continue
        if is_finished:
            return
        await run.wait(stop)
