"""The way of a request, whole:

    request                 a caller hands in a ticket: an instruction, a key, where to answer
      -> authenticate       `authenticate`: a secret is somebody's token, or nobody's
      -> validate           `submit`: allowance, role, size, key; refused here, nothing happened
      -> sequence           `_sequence`: everything that waits becomes one group, in the order in
                            which it came, numbered on from the last, stamped with one instant
      -> journal            `_sequence` hands the group to the writer: one row, one sync
      -> apply              `_written`: the group is durable, each entry is executed
      -> answer, publish    `_written`: each ticket is answered, streams are fed by the execution

Log first, then apply: the market never holds anything that is not on disk, so that whatever it
answers to anybody stays true. One group is being written at a time, and while the disk syncs,
the next one gathers: the busier the exchange, the more commands share a sync. There is one
writer and one thread that touches the market; neither needs a lock.

When something falls due and nobody speaks, the exchange itself hands in a ticket that lets time
pass; statements are closed the same way. Both are journaled like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol

import msgspec

from laissez.exchange.access import Access, Limits, Principal
from laissez.exchange.admission import check_allowance, check_form, check_instruction
from laissez.exchange.clock import Clock
from laissez.exchange.execution import NOTHING
from laissez.exchange.journal import Journal, JournalFailed, NotDurable
from laissez.exchange.keys import Kept, key_name
from laissez.exchange.questions import Desk
from laissez.exchange.records import Entry, write_entries
from laissez.exchange.recovery import Progress, no_progress, recover
from laissez.exchange.sequencing import LetTimePass, record_of
from laissez.exchange.snapshots import Child, take
from laissez.exchange.writer import Writer
from laissez.market import Market
from laissez.model import (
    CloseStatements,
    Instruction,
    Notice,
    Refused,
    ServiceCode,
)

US_PER_S = 1_000_000
CLOCK = ":clock"  # no tenant can be called that
GROUP_MAX = 2_000
RETRY_S = 1
CHECKPOINT_BYTES = 8 << 20


class Settings(msgspec.Struct, frozen=True):
    """How an exchange is run."""

    limits: Limits = Limits()
    queue_max: int = 20_000
    keys_kept: int = 500_000
    snapshot_every: int = 500_000
    settle_every_s: int = 3_600
    private_webhooks: bool = False


class Target(Protocol):
    """Where a ticket is answered: once, by `answer` or `refuse`, and then by a `flush`."""

    def answer(
        self,
        request_id: int,
        sequence: int,
        at: int,
        events: tuple[Notice, ...],
        repeated: bool,
    ) -> None: ...

    def refuse(self, refused: Refused) -> None: ...

    def flush(self) -> None: ...


class Ticket(msgspec.Struct, gc=False):
    """A request on its way; `key_name` is noted when its key is found to be new."""

    caller: Principal
    do: Instruction
    key: str | None
    request_id: int
    target: Target
    key_name: str | None = None


class _OwnTicket(msgspec.Struct, frozen=True):
    """The exchange's own; nobody waits for an answer."""

    do: LetTimePass | CloseStatements


class Exchange:
    """One market, open for business; lives in one event loop."""

    def __init__(
        self,
        journal: Journal,
        settings: Settings | None = None,
        *,
        clock: Clock | None = None,
        progress: Progress = no_progress,
    ) -> None:
        self.settings = settings or Settings()
        self.execution = recover(journal, self.settings.keys_kept, progress)
        self.market: Market = self.execution.venue.market
        self.clock = clock or Clock(not_before=max(journal.last.at_us, self.market.now))
        self.access = Access(journal.tokens(), self.settings.limits)
        self.desk = Desk(self.execution.venue, self.clock.now, lambda: self.execution.sequence)
        self.journal = journal
        self.on_failure: Callable[[str], None] = lambda message: None
        self.on_applied: list[Callable[[], None]] = []
        self._loop = asyncio.get_running_loop()
        self._writer = Writer(self._loop)
        self._waiting: list[Ticket | _OwnTicket] = []
        self._writing = 0
        self._in_flight: dict[str, Ticket] = {}
        self._repeated: dict[str, list[Ticket]] = {}
        self.closed: ServiceCode | None = None
        self._is_let_go = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._timer: asyncio.TimerHandle | None = None
        self._checkpointing = False
        self._snapshot_at = max((sequence for sequence, _ in journal.snapshots()), default=0)
        self._snapshot_task: asyncio.Task[None] | None = None
        self._settle_timer = self._loop.call_later(self.settings.settle_every_s, self._settle)
        self._set_timer()

    # Authenticate -----------------------------------------------------------------------------

    def authenticate(self, secret: str) -> Principal | None:
        return self.access.who(secret, self.clock.now())

    # Validate ---------------------------------------------------------------------------------

    def submit(self, ticket: Ticket) -> None:
        """Take a request for a change; it is answered now if refused, or when it is durable."""
        caller, request_id, do = ticket.caller, ticket.request_id, ticket.do
        refused = check_allowance(caller, request_id, self.clock.now()) or check_instruction(
            caller, request_id, do, ticket.key
        )
        # A retry is answered with what it did, whatever has changed since: so the key comes first.
        if not refused and ticket.key is not None and self._is_repeated(ticket, ticket.key):
            return
        if not refused:
            refused = check_form(caller, self.market, request_id, do)
        if not refused and self._is_full():
            refused = self._no_room(request_id)
        if refused:
            ticket.target.refuse(refused)
        else:
            if ticket.key_name is not None:
                self._in_flight[ticket.key_name] = ticket
            self._enqueue(ticket)

    def _is_full(self) -> bool:
        waiting = len(self._waiting) + self._writing
        return self.closed is not None or waiting >= self.settings.queue_max

    def _no_room(self, request_id: int) -> Refused:
        if self.closed is not None:
            message = "the service is stopping; retry with the same key when it is back"
            return Refused(request_id, self.closed, message, 1_000)
        message = "too many requests are waiting; retry with the same key"
        return Refused(request_id, ServiceCode.BUSY, message, 100)

    def _is_repeated(self, ticket: Ticket, key: str) -> bool:
        """Answer a key that was used before."""
        name = key_name(ticket.caller.name, key)
        first = self._in_flight.get(name)
        if first is not None:
            if first.do == ticket.do:
                self._repeated.setdefault(name, []).append(ticket)
            else:
                ticket.target.refuse(_key_reused(ticket.request_id))
            return True
        sequence = self.execution.keys.sequence(name)
        if sequence is None:
            ticket.key_name = name
            return False
        kept = self.execution.keys.answer(sequence)
        if kept is None:
            ticket.target.answer(ticket.request_id, sequence, 0, NOTHING, True)
        elif _is_same(ticket, kept):
            ticket.target.answer(ticket.request_id, sequence, kept.at, kept.events, True)
        else:
            ticket.target.refuse(_key_reused(ticket.request_id))
        return True

    def _enqueue(self, ticket: Ticket | _OwnTicket) -> None:
        self._waiting.append(ticket)
        if not self._writing and len(self._waiting) == 1:
            self._idle.clear()
            self._loop.call_soon(self._sequence)

    # Sequence, journal ------------------------------------------------------------------------

    def _sequence(self) -> None:
        """Everything that waits becomes one group, and goes to the disk."""
        group, self._waiting = self._waiting[:GROUP_MAX], self._waiting[GROUP_MAX:]
        self._writing = len(group)
        at = max(self.clock.now(), self.journal.last.at_us, self.market.now)
        first = self.journal.last.last + 1
        entries = []
        for sequence, ticket in enumerate(group, first):
            if type(ticket) is Ticket:
                caller = ticket.caller
                record = record_of(ticket.do, caller.tenant, at, sequence)
                entries.append(Entry(caller.name, record, ticket.key))
            else:
                entries.append(Entry(CLOCK, record_of(ticket.do, None, at, sequence)))
        data = write_entries(entries)
        self._writer.do(
            lambda: self.journal.append(first, len(entries), at, data),
            lambda error: self._written(error, group, entries),
        )

    # Apply, answer, publish -------------------------------------------------------------------

    def _written(
        self, error: BaseException | None, group: list[Ticket | _OwnTicket], entries: list[Entry]
    ) -> None:
        """A group is durable, or it is not: execute and answer it, or refuse it whole."""
        self._writing = 0
        if error is None and self._waiting:
            self._sequence()
        targets: set[Target] = set()
        execution = self.execution
        for ticket, entry in zip(group, entries, strict=True):
            if error is None:
                events = execution.execute(entry)
            if isinstance(ticket, _OwnTicket):
                continue
            sequence, at = execution.sequence, entry.do.at
            for each in self._all_who_asked(ticket):
                target, request_id = each.target, each.request_id
                if error is None:
                    target.answer(request_id, sequence, at, events, each is not ticket)
                else:
                    target.refuse(_not_durable(request_id, error))
                targets.add(target)
        for target in targets:
            target.flush()
        if error is not None:
            self._after_error(error)
        else:
            self._after_group()

    def _all_who_asked(self, ticket: Ticket) -> tuple[Ticket, ...]:
        """A ticket, and those that came with the same key while it was under way."""
        if ticket.key_name is None:
            return (ticket,)
        del self._in_flight[ticket.key_name]
        return (ticket, *self._repeated.pop(ticket.key_name, ()))

    def _after_group(self) -> None:
        for tell in self.on_applied:
            tell()
        self._set_timer()
        if self.execution.sequence - self._snapshot_at >= self.settings.snapshot_every:
            self._begin_snapshot()
        if self.journal.bytes_since_checkpoint >= CHECKPOINT_BYTES and not self._checkpointing:
            self._checkpointing = True
            checkpoint = self._loop.run_in_executor(None, self.journal.checkpoint)
            checkpoint.add_done_callback(self._end_checkpoint)
        if not self._writing and not self._waiting:
            self._idle.set()

    def _after_error(self, error: BaseException) -> None:
        if not isinstance(error, NotDurable):
            self.closed = ServiceCode.NOT_DURABLE
            self._refuse_all_waiting(error)
            self.on_failure(f"the journal failed: {error}")
        elif self._timer is None:
            self._timer = self._loop.call_later(RETRY_S, self._fall_due)
        if self._waiting:
            self._sequence()
        else:
            self._idle.set()

    def _end_checkpoint(self, checkpoint: asyncio.Future[None]) -> None:
        self._checkpointing = False
        checkpoint.exception()  # a later one may find room on the disk

    def _refuse_all_waiting(self, error: BaseException) -> None:
        """Nothing more is written: whether the last group was, only a restart can tell."""
        waiting, self._waiting = self._waiting, []
        for ticket in waiting:
            if isinstance(ticket, Ticket):
                for each in self._all_who_asked(ticket):
                    each.target.refuse(_not_durable(each.request_id, error))
                    each.target.flush()

    # What falls due ---------------------------------------------------------------------------

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self.market.next_timer()
        if due is not None and self.closed is None:
            wait_us = max(due - self.clock.now(), 0)
            self._timer = self._loop.call_later(wait_us / US_PER_S, self._fall_due)

    def _fall_due(self) -> None:
        self._timer = None
        due = self.market.next_timer()
        if due is not None and due <= self.clock.now() and not self._writing:
            self._enqueue(_OwnTicket(LetTimePass()))
        elif not self._writing:
            self._set_timer()

    def _settle(self) -> None:
        self._settle_timer = self._loop.call_later(self.settings.settle_every_s, self._settle)
        if self.market.tenants():
            self._enqueue(_OwnTicket(CloseStatements()))

    # Snapshots, the end -----------------------------------------------------------------------

    async def write(self, change: Callable[[], None]) -> None:
        """Change something else in the journal's file, by its one writer."""
        await self._writer.wait_for(change)

    def _begin_snapshot(self) -> None:
        if self._snapshot_task is None or self._snapshot_task.done():
            self._snapshot_at = self.execution.sequence
            child = Child(self.execution.venue, self._snapshot_at)
            self._snapshot_task = self._loop.create_task(self._finish_snapshot(child))

    async def _finish_snapshot(self, child: Child) -> None:
        snapshot = await self._loop.run_in_executor(None, child.collect)
        if snapshot is not None:
            # The next one may find room on the disk: a snapshot is only a shorter way back.
            with contextlib.suppress(NotDurable, JournalFailed):
                await self.write(lambda: self.journal.save_snapshot(snapshot))

    async def close(self) -> None:
        """Answer what is under way, take a last snapshot, and let go of the journal."""
        if self._is_let_go:
            return
        self._is_let_go = True
        if self.closed is None:
            self.closed = ServiceCode.STOPPING
        self._settle_timer.cancel()
        await self._idle.wait()
        if self._timer is not None:
            self._timer.cancel()
        if self._snapshot_task is not None:
            await self._snapshot_task
        if self.closed is ServiceCode.STOPPING and self.execution.sequence > self._snapshot_at:
            snapshot = take(self.execution.venue, self.execution.sequence)
            with contextlib.suppress(NotDurable, JournalFailed):
                await self.write(lambda: self.journal.save_snapshot(snapshot))
        self._writer.close()
        self.journal.close()


def _is_same(ticket: Ticket, kept: Kept) -> bool:
    """Is this the instruction that the key was used for?"""
    return record_of(ticket.do, ticket.caller.tenant, kept.at, kept.sequence) == kept.record


def _key_reused(request_id: int) -> Refused:
    return Refused(
        request_id,
        ServiceCode.KEY_REUSED,
        "this key was used for something else; use a new key for a new request",
    )


def _not_durable(request_id: int, error: BaseException) -> Refused:
    if isinstance(error, NotDurable):
        message = "the journal's disk is full, and nothing was changed; retry with the same key"
    else:
        message = (
            "the journal's disk failed, and whether this was written is not known; retry with "
            "the same key when the service is back"
        )
    return Refused(request_id, ServiceCode.NOT_DURABLE, message, 1_000)
