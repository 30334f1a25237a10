"""What an exchange does for its journal beside trading: snapshots, housekeeping, the time shown.

None of it is needed to be right: a snapshot is only a shorter way back, and what can't be done
now, for want of room or descriptors, is tried again later, after a line in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from laissez.exchange.execution import Execution
from laissez.exchange.journal import Journal, JournalFailed, NotDurable
from laissez.exchange.snapshots import Child, take
from laissez.exchange.writer import Writer

_log = logging.getLogger("laissez.upkeep")

SHOWN_EVERY_S = 1.0


class Upkeep:
    def __init__(
        self,
        journal: Journal,
        execution: Execution,
        writer: Writer,
        *,
        snapshot_every: int,
        shown_us: Callable[[], int],
    ) -> None:
        self._journal = journal
        self._execution = execution
        self._writer = writer
        self._snapshot_every = snapshot_every
        self._shown_us = shown_us
        self._loop = asyncio.get_running_loop()
        self._snapshot_at = max((label.sequence for label in journal.snapshots()), default=0)
        self._snapshot_task: asyncio.Task[None] | None = None
        self._housekeeping: asyncio.Future[None] | None = None
        self._timer = self._loop.call_later(SHOWN_EVERY_S, self._note_shown)

    def after_group(self) -> None:
        """A group has been executed: is anything due?"""
        if self._execution.sequence - self._snapshot_at >= self._snapshot_every:
            self._begin_snapshot()
        if self._journal.is_upkeep_due() and self._housekeeping is None:
            self._housekeeping = self._loop.run_in_executor(None, self._journal.upkeep)
            self._housekeeping.add_done_callback(self._end_housekeeping)

    def _end_housekeeping(self, housekeeping: asyncio.Future[None]) -> None:
        self._housekeeping = None
        if housekeeping.cancelled():
            return
        error = housekeeping.exception()
        if error is not None:
            _log.warning("the journal could not be tidied up (%s); tried again later", error)

    def _begin_snapshot(self) -> None:
        if self._snapshot_task is not None and not self._snapshot_task.done():
            return
        self._snapshot_at = self._execution.sequence
        try:
            child = Child(self._execution.venue, self._snapshot_at)
        except OSError as error:
            _log.warning("no snapshot could be begun (%s); tried again later", error)
            return
        self._snapshot_task = self._loop.create_task(self._finish_snapshot(child))

    async def _finish_snapshot(self, child: Child) -> None:
        snapshot = await self._loop.run_in_executor(None, child.collect)
        if snapshot is None:
            _log.warning("a snapshot failed; tried again later")
            return
        try:
            await self._writer.wait_for(lambda: self._journal.save_snapshot(snapshot))
        except (NotDurable, JournalFailed) as error:
            _log.warning("a snapshot could not be written (%s); tried again later", error)

    def _note_shown(self) -> None:
        """Once a second: a restart must not show an instant before one that was shown."""
        self._timer = self._loop.call_later(SHOWN_EVERY_S, self._note_shown)
        at_us = self._shown_us()
        if at_us > max(self._journal.shown_until_us, self._journal.head.at_us):
            self._writer.do(lambda: self._journal.note_shown(at_us), _say_if_failed)

    async def close(self, *, is_sound: bool) -> None:
        """Wait for what is under way; a last snapshot if the state is what the journal says."""
        self._timer.cancel()
        if self._snapshot_task is not None:
            await self._snapshot_task
        if self._housekeeping is not None:
            await asyncio.wait([self._housekeeping])
        if not is_sound:
            return
        at_us = self._shown_us()
        self._writer.do(lambda: self._journal.note_shown(at_us), _say_if_failed)
        if self._execution.sequence > self._snapshot_at:
            snapshot = take(self._execution.venue, self._execution.sequence)
            try:
                await self._writer.wait_for(lambda: self._journal.save_snapshot(snapshot))
            except (NotDurable, JournalFailed) as error:
                _log.warning("the last snapshot could not be written (%s)", error)


def _say_if_failed(error: BaseException | None) -> None:
    if error is not None:
        _log.warning("the time shown could not be noted (%s)", error)
