"""The way of a request, whole:

    request                 a caller hands in a ticket: an instruction, a key, where to answer
      -> authenticate       `authenticate`: a secret is somebody's token, or nobody's
      -> validate           `submit`: allowance, role, size, key; refused here, nothing happened
      -> sequence           `_sequence`: everything that waits becomes one group, in the order in
                            which it came, numbered on from the last, stamped with one instant
      -> journal            `_sequence` hands the group to the writer: one durable write
      -> apply              `_written`: the group is durable, each entry is executed
      -> answer, publish    `_written`: each ticket is answered, streams are fed by the execution

Log first, then apply: the market never holds anything that is not durable, so that whatever it
answers to anybody stays true. One group is being written at a time, and while the disk syncs,
the next one gathers: the busier the exchange, the more commands share a sync. There is one
writer and one thread that touches the market; neither needs a lock.

It stops rather than lies. When a durable entry can't be executed, the market no longer is what the
journal says: from that instant nobody is answered, nothing more is handed to the journal, and the
service ends (`Fault`). The journal is whole; once the fault is mended it is replayed. What goes
wrong before an entry is durable is refused, and changes nothing; what goes wrong while one is
answered costs that answer, which a retry with the same key finds again.

When something falls due and nobody speaks, the exchange itself hands in a ticket that lets time
pass; statements are closed the same way (`due`). If very much falls due, it acts in parts, and what
waits comes after the last of them. Tokens and webhooks come by `carry_out`. All are
journaled like any other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import monotonic_ns

import msgspec

from laissez.exchange.access import Access, Limits, Principal
from laissez.exchange.admission import check_allowance, check_form, check_instruction
from laissez.exchange.allowance import US_PER_S, AtLeastOne, UpToADay
from laissez.exchange.clock import Clock
from laissez.exchange.counting import Counting
from laissez.exchange.due import Due
from laissez.exchange.execution import NOTHING
from laissez.exchange.journal import Journal, JournalFailed, NotDurable
from laissez.exchange.new_trees import NewTrees
from laissez.exchange.parts import Parts
from laissez.exchange.questions import Desk
from laissez.exchange.records import EndToken, Entry, GrantToken, write_entries
from laissez.exchange.recovery import ReportProgress, make_ready, no_progress, recover
from laissez.exchange.sequencing import LetSomeTimePass, LetTimePass, OwnInstruction
from laissez.exchange.tickets import (
    CLOCK,
    OwnTicket,
    Target,
    Ticket,
    UnderWay,
    entry_of,
    is_clocks,
    is_same,
    key_reused,
    no_room,
    not_durable,
)
from laissez.exchange.upkeep import Upkeep
from laissez.exchange.writer import Writer
from laissez.market import Market
from laissez.model import Notice, Refused, ServiceCode

__all__ = ("Closed", "Exchange", "Fault", "Settings", "Target", "Ticket")

_log = logging.getLogger("laissez.exchange")

GROUP_MAX = 2_000

Executed = tuple[tuple[Notice, ...], int]
"""What the author of an entry is told, and how many nanoseconds it took to execute."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How an exchange is run; `notice_s` and `commit_s` are for trees that are new to it."""

    limits: Limits = Limits()
    queue_max: AtLeastOne = 20_000
    keys_kept: AtLeastOne = 200_000
    snapshot_every: AtLeastOne = 500_000
    settle_every_s: AtLeastOne = 3_600
    notice_s: UpToADay = 30
    commit_s: UpToADay = 30
    steps_kept: AtLeastOne = 50_000
    private_webhooks: bool = False


class Closed(Exception):
    """The exchange takes nothing more: it is stopping, or its journal has failed."""


class Fault(Exception):
    """The exchange stopped, because it could not go on without saying what is not so."""


class Exchange:
    """One market, open for business; lives in one event loop."""

    def __init__(
        self,
        journal: Journal,
        settings: Settings | None = None,
        *,
        clock: Clock | None = None,
        progress: ReportProgress = no_progress,
    ) -> None:
        self.settings = settings or Settings()
        make_ready(journal)
        self.execution = recover(journal, self.settings.keys_kept, progress)
        self.market: Market = self.execution.venue.market
        begin_us = max(journal.head.at_us, journal.shown_until_us, self.market.now)
        self.clock = clock or Clock(not_before=begin_us)
        rights = self.execution.venue.rights
        self.access = Access(rights.tokens.values(), self.settings.limits)
        self.desk = Desk(self.execution.venue, self.clock.now, lambda: self.execution.sequence)
        self.desk.terms_of_new_trees = (
            self.settings.notice_s * US_PER_S or None,
            self.settings.commit_s * US_PER_S or None,
        )
        self.journal = journal
        self.on_failure: Callable[[Exception], None] = lambda error: None
        self.on_applied: list[Callable[[], None]] = []
        self.closed: ServiceCode | None = None
        self.fault: Fault | None = None
        self._loop = asyncio.get_running_loop()
        self._writer = Writer(self._loop)
        self._waiting: list[Ticket | OwnTicket] = []
        self._writing = 0
        self._under_way = UnderWay()
        self._parts = Parts(self.execution.venue, self._act_part)
        self._new_trees = NewTrees(
            self.execution.venue, notice_s=self.settings.notice_s, commit_s=self.settings.commit_s
        )
        self._acted = self.market.acted
        self._own: set[asyncio.Future[None]] = set()
        self._is_let_go = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._upkeep = Upkeep(
            journal,
            self.execution,
            self._writer,
            snapshot_every=self.settings.snapshot_every,
            shown_us=lambda: self.desk.shown_until,
        )
        self._due = Due(
            self.execution.venue,
            self.clock,
            settle_every_s=self.settings.settle_every_s,
            steps_kept=self.settings.steps_kept,
            is_busy=lambda: self._writing > 0 or bool(self._waiting),
            hand_in=lambda do: self._enqueue(OwnTicket(CLOCK, do)),
            on_error=self._stop_for,
        )
        self._due.set_timer()
        self._counting = Counting(self.market, on_error=self._stop_for)
        self.desk.on_bill = self._counting.note_bill

    @property
    def acts_in_parts(self) -> bool:
        """Does whoever wants a change wait for parts that act? What is not urgent may wait, too."""
        return self._parts.are_acting

    # Authenticate -----------------------------------------------------------------------------

    def authenticate(self, secret: str) -> Principal | None:
        return self.access.who(secret, self.clock.now())

    # Validate ---------------------------------------------------------------------------------

    def submit(self, ticket: Ticket, at: int | None = None) -> None:
        """Take a request for a change; it is answered now if refused, or when it is durable. Its
        caller may have read the clock already."""
        if self.fault is not None:
            return
        if at is None:
            at = self.clock.now()
        caller, request_id, do = ticket.caller, ticket.request_id, ticket.do
        refused = check_allowance(caller, request_id, at) or check_instruction(
            caller, request_id, do, ticket.key
        )
        # A retry is answered with what it did, whatever has changed since: so the key comes first.
        if refused is None and ticket.key is not None and self._is_repeated(ticket, ticket.key):
            return
        if refused is None:
            refused = check_form(caller, self.market, request_id, do, self._under_way)
        if refused is None and self._is_full():
            refused = no_room(request_id, self.closed)
        if refused is not None:
            ticket.target.refuse(refused)
            return
        self._under_way.add(ticket)
        self._enqueue(ticket)

    async def carry_out(self, author: str, do: OwnInstruction) -> None:
        """Have something of the exchange's own journaled and executed. Raises `NotDurable`,
        `JournalFailed`, `Closed` or `Fault`."""
        if self.fault is not None:
            raise self.fault
        if self.closed is not None:
            raise Closed(self.closed)
        done: asyncio.Future[None] = self._loop.create_future()
        self._own.add(done)
        done.add_done_callback(self._own.discard)
        self._enqueue(OwnTicket(author, do, done))
        await done

    def _is_full(self) -> bool:
        waiting = len(self._waiting) + self._writing + self._under_way.repeated_count
        return self.closed is not None or waiting >= self.settings.queue_max

    def _is_repeated(self, ticket: Ticket, key: str) -> bool:
        """Answer a key that was used before."""
        name = (ticket.caller.name, key)
        first = self._under_way.find(name)
        if first is not None:
            if first.do != ticket.do:
                ticket.target.refuse(key_reused(ticket.request_id))
            elif self._is_full():
                ticket.target.refuse(no_room(ticket.request_id, self.closed))
            else:
                self._under_way.add_repeated(name, ticket)
            return True
        sequence = self.execution.keys.sequence(*name)
        if sequence is None:
            ticket.name = name
            return False
        kept = self.execution.keys.answer(sequence)
        if kept is None:
            ticket.target.answer(ticket.request_id, sequence, 0, NOTHING, True)
        elif is_same(ticket, kept):
            ticket.target.answer(ticket.request_id, sequence, kept.at, kept.events, True)
        else:
            ticket.target.refuse(key_reused(ticket.request_id))
        return True

    def _enqueue(self, ticket: Ticket | OwnTicket) -> None:
        if self.closed is ServiceCode.NOT_DURABLE or self.fault is not None:
            return  # the exchange's own clock: nobody else gets here then
        self._waiting.append(ticket)
        if not self._writing and len(self._waiting) == 1:
            self._idle.clear()
            self._loop.call_soon(self._sequence)

    # Sequence, journal ------------------------------------------------------------------------

    def _sequence(self) -> None:
        """Everything that waits becomes one group, and goes to the journal."""
        if not self._waiting:
            return  # the exchange stopped meanwhile
        try:
            self._hand_to_writer()
        except Exception as error:
            self._stop_for("a group of commands could not be handed to the journal", error)

    def _hand_to_writer(self) -> None:
        head = self.journal.head
        at = max(self.clock.now(), head.at_us, self.market.now)
        waiting: list[Ticket | OwnTicket] = [*self._parts.due(at)]
        if not waiting:
            waiting, self._waiting = self._waiting[:GROUP_MAX], self._waiting[GROUP_MAX:]
            if not is_clocks(waiting[0]) and self._parts.is_much_due(at):
                waiting.insert(0, OwnTicket(CLOCK, LetTimePass()))
            waiting = self._new_trees.guarded(waiting)
        group, first = waiting, head.sequence + 1
        try:
            entries = [entry_of(ticket, at, place) for place, ticket in enumerate(group, first)]
            data = write_entries(entries)
        except Exception:
            group = self._writable(waiting, at)
            if not group:
                self._after_nothing()
                return
            entries = [entry_of(ticket, at, place) for place, ticket in enumerate(group, first)]
            data = write_entries(entries)
        self._writing = len(group)
        rules = self.execution.venue.rules
        self._writer.do(
            lambda: self.journal.append(first, len(entries), at, rules, data),
            lambda error: self._written(error, first, group, entries),
        )

    def _writable(self, waiting: list[Ticket | OwnTicket], at: int) -> list[Ticket | OwnTicket]:
        """Those that can be written down; the others are refused."""
        group = []
        for ticket in waiting:
            try:
                write_entries([entry_of(ticket, at, 1)])
            except Exception as error:
                self._give_up(ticket, error)
            else:
                group.append(ticket)
        return group

    def _give_up(self, ticket: Ticket | OwnTicket, error: Exception) -> None:
        """What can't be written down is refused alone; nothing of it happened."""
        _log.error("%s can't be sequenced: %s", type(ticket.do).__name__, _named(error))
        message = "this is our fault and is in the log; nothing was changed"
        if isinstance(ticket, Ticket):
            for each in self._under_way.end(ticket):
                code = ServiceCode.INTERNAL_ERROR
                each.target.refuse(Refused(each.request_id, code, message))
                each.target.flush()
        elif ticket.done is not None:
            ticket.done.set_exception(error)

    def _after_nothing(self) -> None:
        if self._waiting:
            self._loop.call_soon(self._sequence)
        else:
            self._idle.set()

    # Apply, answer, publish -------------------------------------------------------------------

    def _written(
        self,
        error: BaseException | None,
        first: int,
        group: list[Ticket | OwnTicket],
        entries: list[Entry],
    ) -> None:
        """A group is durable, or it is not: execute and answer it, or refuse it whole."""
        self._writing = 0
        if self.fault is not None:
            return
        are_parts = isinstance(group[0].do, LetSomeTimePass)
        try:
            if error is not None:
                if are_parts:  # what waits can't come before them
                    waiting, self._waiting = self._waiting, []
                    group = group + waiting
                self._refuse_group(error, group)
                self._after_error(error)
                return
            if are_parts:
                self._writing = len(group)
                self._parts.act(first, entries)
                return
            if self._waiting:
                self._sequence()
            told = self._execute(first, entries)
            if told is not None:
                self._answer(group, entries, told)
                self._after_group(len(group))
        except Exception as fault:
            self._stop_for("what follows a durable group of commands failed", fault)

    def _act_part(self, first: int, entry: Entry, left: int) -> bool:
        """Execute a part of what has fallen due, of a group in which so many are left."""
        try:
            if self._execute(first, [entry]) is None:
                return False
            self._writing = left
            if not left and self._waiting:
                self._sequence()
            self._after_group(1)
        except Exception as fault:
            self._stop_for("what follows a durable group of commands failed", fault)
        return self.fault is None

    def _execute(self, first: int, entries: list[Entry]) -> list[Executed] | None:
        """What each author is told, and how long that took; None if the exchange had to stop."""
        if self.fault is not None:
            return None
        if first != self.execution.sequence + 1:
            self._stop(f"entry {first} is in the journal, and {self.execution.sequence + 1} is due")
            return None
        execute, told = self.execution.execute, list[Executed]()
        entry, now_ns = entries[0], monotonic_ns()
        try:
            for entry in entries:
                events = execute(entry)
                begun_ns, now_ns = now_ns, monotonic_ns()
                told.append((events, now_ns - begun_ns))
                do = entry.do
                if type(do) is GrantToken or type(do) is EndToken:
                    self._renew_access(do)
        except Exception as error:
            what = f"entry {self.execution.sequence} ({type(entry.do).__name__} by {entry.author})"
            self._stop_for(f"{what} is in the journal, and executing it failed", error)
            return None
        return told

    def _renew_access(self, do: GrantToken | EndToken) -> None:
        if isinstance(do, GrantToken):
            self.access.add(do.token)
        elif (token := self.execution.venue.rights.tokens.get(do.token)) is not None:
            self.access.replace(token)

    def _answer(
        self,
        group: list[Ticket | OwnTicket],
        entries: list[Entry],
        told: list[Executed],
    ) -> None:
        """Tell everybody, and let whoever sent a command pay for its time: one order may move
        thousands of holdings. It is done by then, and paid for by resting afterwards."""
        targets: dict[Target, Principal] = {}
        now_ns = monotonic_ns()
        first = self.execution.sequence - len(entries) + 1
        at = entries[-1].do.at  # the instant of the whole group
        for place, (ticket, (events, took_ns)) in enumerate(zip(group, told, strict=True), first):
            if type(ticket) is OwnTicket:
                if ticket.done is not None and not ticket.done.done():
                    ticket.done.set_result(None)
                continue
            assert isinstance(ticket, Ticket)
            for each in self._under_way.end(ticket):
                try:
                    each.target.answer(each.request_id, place, at, events, each is not ticket)
                except Exception as error:
                    _log.error("an answer could not be given: %s", _named(error))
                targets[each.target] = each.caller
            begun_ns, now_ns = now_ns, monotonic_ns()
            ticket.caller.spend(now_ns, 0, took_ns + now_ns - begun_ns)
        self._flush(targets)

    def _flush(self, targets: dict[Target, Principal]) -> None:
        """Send what was answered; that is paid for, too."""
        now_ns = monotonic_ns()
        for target, caller in targets.items():
            try:
                target.flush()
            except Exception as error:
                _log.error("answers could not be sent: %s", _named(error))
            begun_ns, now_ns = now_ns, monotonic_ns()
            caller.spend(now_ns, 0, now_ns - begun_ns)

    def _refuse_group(self, error: BaseException, group: list[Ticket | OwnTicket]) -> None:
        targets: dict[Target, Principal] = {}
        for ticket in group:
            if isinstance(ticket, Ticket):
                for each in self._under_way.end(ticket):
                    each.target.refuse(not_durable(each.request_id, error))
                    targets[each.target] = each.caller
            elif ticket.done is not None and not ticket.done.done():
                ticket.done.set_exception(error)
        self._flush(targets)

    def _after_group(self, entries: int) -> None:
        for tell in self.on_applied:
            try:
                tell()
            except Exception as error:
                _log.error("a follower could not be told: %s", _named(error))
        # What falls due changes as much as a command does, and a part is a thousand of it.
        before, self._acted = self._acted, self.market.acted
        changes = entries + self._acted - before
        self._due.after_group(changes)
        self._counting.after_group(changes)
        self._upkeep.after_group()
        if not self._writing and not self._waiting:
            self._idle.set()

    def _after_error(self, error: BaseException) -> None:
        if not isinstance(error, NotDurable):
            self.closed = ServiceCode.NOT_DURABLE
            self._due.cancel()
            self._upkeep.stop()
            waiting, self._waiting = self._waiting, []
            # Nothing more is written: whether the last group was, only a restart can tell.
            self._refuse_group(error, waiting)
            self.on_failure(JournalFailed(f"the journal failed: {error}"))
        else:
            self._due.try_later()
        if self._waiting:
            self._sequence()
        else:
            self._idle.set()

    # The end ----------------------------------------------------------------------------------

    def _stop_for(self, what: str, error: Exception) -> None:
        """Stop because of an error, and say where it comes from in the log."""
        self._stop(f"{what} ({_named(error)})")
        _log.error("the fault", exc_info=error)

    def _stop(self, why: str) -> None:
        """Go no further: nobody is answered from here on, and nothing is written."""
        if self.fault is not None:
            return
        self.fault = Fault(
            f"{why}; it stopped without another answer, and took no snapshot. The journal in "
            f"{self.journal.name} is whole: install a laissez without this fault and start it "
            "there again"
        )
        self.closed = ServiceCode.INTERNAL_ERROR
        for done in tuple(self._own):
            if not done.done():
                done.set_exception(self.fault)
        self._waiting = []
        self._due.cancel()
        self._counting.stop()
        self._upkeep.stop()
        self._idle.set()
        self.on_failure(self.fault)

    async def write(self, change: Callable[[], None]) -> None:
        """Change something else that the journal keeps, by its one writer."""
        await self._writer.wait_for(change)

    async def close(self) -> None:
        """Answer what is under way, take a last snapshot, and let go of the journal."""
        if self._is_let_go:
            return
        self._is_let_go = True
        if self.closed is None:
            self.closed = ServiceCode.STOPPING
        self._due.stop_settling()
        await self._idle.wait()
        self._due.cancel()
        self._counting.stop()
        await self._upkeep.close(is_sound=self.closed is ServiceCode.STOPPING)
        await self._writer.close()
        self.journal.close()


def _named(error: BaseException) -> str:
    """An error in a line; what a tenant has sent may be in its text, so it is kept short."""
    return f"{type(error).__name__}: {error}"[:200]
