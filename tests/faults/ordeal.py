"""The ordeal: start the service, load it, kill it at a random moment, audit, and again.

The ways to die:

    load        under load, at a random instant
    snapshot    as soon as a child is at work on a snapshot
    start       on the way up, while the journal is read back
    stop        not a kill: SIGTERM under load, with a snapshot of the last state

The seed repeats every choice; the instants at which processes run are the machine's.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from faults.auditor import Auditor
from faults.ledger import Ledger, Violation
from faults.process import Service, is_running
from faults.trader import Trader
from faults.wishes import OperatorWishes, TenantWishes, Wishes
from laissez.exchange.access import Limits, new_token
from laissez.exchange.offline import grant
from laissez.exchange.pipeline import Settings
from laissez.exchange.sqlite_journal import SqliteJournal

Death = Literal["load", "snapshot", "start", "stop"]

TENANTS = ("ada", "bob", "cyd", "dee")
CLIENTS = 6
WAYS_TO_RUN = ("laissez.service", "faults.small_parts")
SETTINGS = Settings(
    limits=Limits(requests_per_s=1_000_000, burst=1_000_000),
    snapshot_every=500,
    notice_s=0,
    commit_s=0,
)
PATIENCE_S = 120.0
LOAD_S_MIN, LOAD_S_MAX = 0.05, 0.6
WHOLE_AUDIT_EVERY = 10


class Outcome(msgspec.Struct):
    """What an ordeal was like; that it ended at all says that nothing was lost."""

    seed: int
    deaths: dict[Death, int]
    snapshots_interrupted: int = 0
    commands: int = 0
    acknowledged: int = 0
    retries: int = 0
    retries_that_had_acted: int = 0
    repeats: int = 0
    repeats_without_events: int = 0
    streams_resumed: int = 0
    streams_resynced: int = 0
    bills_compared: int = 0
    snapshots_compared: int = 0
    slowest_start_ms: int = 0
    seconds: float = 0.0
    digest: str = ""


Say = Callable[[Outcome], None]


def deaths(kills: int, seed: int) -> list[Death]:
    """How the service is to die: mostly under load, some of every kind, and at times it stops."""
    ways: list[Death] = ["load", "snapshot", "load", "start", "load", "snapshot", "start"]
    plan = [ways[number % len(ways)] for number in range(kills)]
    random.Random(seed).shuffle(plan)
    for place in range(WHOLE_AUDIT_EVERY, kills, WHOLE_AUDIT_EVERY):
        plan.insert(place, "stop")
    return plan


class Ordeal:
    def __init__(self, folder: Path, seed: int, large: int = 3_000) -> None:
        self._folder = folder
        self._random = random.Random(seed)
        self._service = Service(folder, SETTINGS)
        self._ledger = Ledger()
        self._traders = self._make_traders(seed, large)
        self._auditor = Auditor(self._ledger, self._traders)
        self._orphans: list[int] = []
        self._start_s = 0.5
        self.outcome = Outcome(seed, {"load": 0, "snapshot": 0, "start": 0, "stop": 0})

    def _make_traders(self, seed: int, large: int) -> list[Trader]:
        tokens, made = {}, []
        for tenant in TENANTS:
            tokens[tenant], token = new_token("tenant", tenant, at=0)
            made.append(token)
        secret, token = new_token("operator", None, at=0)
        journal = SqliteJournal(self._folder)
        grant(journal, *made, token)
        journal.close()
        operator = OperatorWishes("operator", seed, large)
        traders = [Trader(f"operator:{token.id}", None, secret, operator, self._ledger)]
        for number in range(CLIENTS):
            tenant = TENANTS[number % len(TENANTS)]
            wishes: Wishes = TenantWishes(f"client{number}", seed * 1_000 + number)
            traders.append(Trader(tenant, tenant, tokens[tenant], wishes, self._ledger))
        return traders

    async def run(self, plan: list[Death], say: Say) -> Outcome:
        begun = time.monotonic()
        tasks = [asyncio.create_task(each.trade(self._service.url)) for each in self._traders]
        try:
            for death in plan:
                await self._live_and(death)
                self.outcome.deaths[death] += 1
                self._note(begun)
                say(self.outcome)
            await self._end_in_peace(tasks)
            self._note(begun)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._service.close()
        return self.outcome

    # One life ---------------------------------------------------------------------------------

    async def _live_and(self, death: Death) -> None:
        if death == "start":
            self._service.start(self._random.choice(WAYS_TO_RUN))
            await asyncio.sleep(self._random.uniform(0.3, 1.1) * self._start_s)
            self._service.kill()
        else:
            await self._start()
            await asyncio.sleep(self._random.uniform(LOAD_S_MIN, LOAD_S_MAX))
            await self._orphans_are_gone()
            await self._die(death)
        await self._everybody_noticed()
        self._auditor.audit(self._folder)
        if death == "stop":
            self._auditor.check_last_snapshot(self._folder)
            self._auditor.audit_whole(self._folder)

    async def _start(self) -> None:
        begun = time.monotonic()
        self._service.start(self._random.choice(WAYS_TO_RUN))
        await self._service.ready()
        self._start_s = time.monotonic() - begun
        slowest = max(self.outcome.slowest_start_ms, int(self._start_s * 1_000))
        self.outcome.slowest_start_ms = slowest

    async def _die(self, death: Death) -> None:
        loop = asyncio.get_running_loop()
        if death == "load":
            self._service.kill()
        elif death == "stop":
            refusal = await loop.run_in_executor(None, self._service.refusal_of_a_second)
            if "another laissez is running" not in refusal:
                raise Violation(f"a second service was refused with {refusal!r}")
            await loop.run_in_executor(None, self._service.stop)
        else:
            child = await loop.run_in_executor(None, self._service.kill_at_a_child, 2.0)
            if child is not None:
                self.outcome.snapshots_interrupted += 1
                self._orphans.append(child)

    async def _orphans_are_gone(self) -> None:
        """A child whose service is dead has nobody to write for, and must end by itself."""
        latest = time.monotonic() + PATIENCE_S
        while any(is_running(orphan) for orphan in self._orphans):
            if time.monotonic() > latest:
                raise Violation("a snapshot's child outlives its service")
            await asyncio.sleep(0.01)
        self._orphans.clear()

    async def _everybody_noticed(self) -> None:
        """Whatever the service said before it died has been read."""
        latest = time.monotonic() + PATIENCE_S
        while any(trader.is_connected for trader in self._traders):
            if time.monotonic() > latest:
                raise Violation("connections outlive the service")
            await asyncio.sleep(0.005)

    # The end ----------------------------------------------------------------------------------

    async def _end_in_peace(self, tasks: list[asyncio.Task[None]]) -> None:
        """Everything that was ever asked is answered, and the books are closed."""
        for trader in self._traders:
            trader.is_draining = True
        await self._start()
        await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE_S)
        self._service.stop()
        await self._everybody_noticed()
        self._auditor.audit(self._folder)
        self._auditor.check_last_snapshot(self._folder)
        self._auditor.audit_whole(self._folder)

    def _note(self, begun: float) -> None:
        ledger, outcome = self._ledger, self.outcome
        outcome.commands = self._auditor.sequence
        outcome.acknowledged = ledger.answers
        outcome.retries = ledger.retries
        outcome.retries_that_had_acted = ledger.retries_that_had_acted
        outcome.repeats = ledger.repeats
        outcome.repeats_without_events = ledger.repeats_without_events
        outcome.streams_resumed = ledger.resumed
        outcome.streams_resynced = ledger.resynced
        outcome.bills_compared = self._auditor.bills_compared
        outcome.snapshots_compared = self._auditor.snapshots_compared
        outcome.seconds = round(time.monotonic() - begun, 1)
        outcome.digest = self._auditor.digest
