"""What an exchange does for its journal beside trading: snapshots, housekeeping, the time shown.

None of it is needed to be right: a snapshot is only a shorter way back, and what can't be done
now, for want of room or descriptors, is tried again later, after a line in the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import msgspec

from laissez.exchange.execution import Execution
from laissez.exchange.journal import Journal, JournalFailed, NotDurable, Snapshot
from laissez.exchange.snapshots import Child, take
from laissez.exchange.writer import Writer

_log = logging.getLogger("laissez.upkeep")

SHOWN_EVERY_S = 1.0
RETRY_S = 60.0


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
        self._no_snapshot_before_s = 0.0
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
        is_busy = self._snapshot_task is not None and not self._snapshot_task.done()
        if is_busy or self._loop.time() < self._no_snapshot_before_s:
            return
        execution = self._execution
        try:
            child = Child(execution.venue, execution.sequence, execution.keys)
        except OSError as error:
            self._put_off(f"no snapshot could be begun ({error})")
            return
        self._snapshot_task = self._loop.create_task(self._finish_snapshot(child))

    def _put_off(self, why: str) -> None:
        self._no_snapshot_before_s = self._loop.time() + RETRY_S
        _log.warning("%s; tried again later", why)

    async def _finish_snapshot(self, child: Child) -> None:
        try:
            snapshot = await self._loop.run_in_executor(None, child.collect)
        except (OSError, msgspec.MsgspecError) as error:
            self._put_off(f"a snapshot could not be read ({error})")
            return
        if snapshot is None:
            self._put_off("a snapshot failed")
            return
        await self._save(snapshot)

    async def _save(self, snapshot: Snapshot) -> None:
        try:
            await self._writer.wait_for(lambda: self._journal.save_snapshot(snapshot))
        except (NotDurable, JournalFailed) as error:
            self._put_off(f"a snapshot could not be written ({error})")
        else:
            self._snapshot_at = snapshot.sequence

    def _note_shown(self) -> None:
        """Once a second: a restart must not show an instant before one that was shown."""
        self._timer = self._loop.call_later(SHOWN_EVERY_S, self._note_shown)
        at_us = self._shown_us()
        if at_us > max(self._journal.shown_until_us, self._journal.head.at_us):
            self._writer.do(lambda: self._journal.note_shown(at_us), _say_if_failed)

    def stop(self) -> None:
        """Write nothing more by itself."""
        self._timer.cancel()

    async def close(self, *, is_sound: bool) -> None:
        """Wait for what is under way; a last snapshot if the state is what the journal says."""
        self.stop()
        if self._snapshot_task is not None:
            await self._snapshot_task
        if self._housekeeping is not None:
            await asyncio.wait([self._housekeeping])
        if not is_sound:
            return
        at_us = self._shown_us()
        self._writer.do(lambda: self._journal.note_shown(at_us), _say_if_failed)
        execution = self._execution
        if execution.sequence > self._snapshot_at:
            # In place: nobody is waited for any more but who asks, and they for seconds at most.
            await self._save(take(execution.venue, execution.sequence, execution.keys))


def _say_if_failed(error: BaseException | None) -> None:
    if error is not None:
        _log.warning("the time shown could not be noted (%s)", error)
