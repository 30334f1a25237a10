"""The operator's maps at the live service: read telemetry and market, step, act; again and again.

Like an adapter's runner it begins every step with what the exchange says now, so a restart changes
nothing: what depends on telemetry that was not read yet stays as it is. Instructions are sent one
after another, in the order in which the step gave them: floors are raised before others are
lowered. A floor that a guard brings down slowly is asked for again at every step, and logged once.

When it ends, the floors stay as they are: prices that nobody steers are better than prices that
jump. Who wants the base prices back says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

import msgspec

from laissez.client import AsyncClient, LaissezError
from laissez.inframaps import Composition, MapAction, OperatorView, gangs_among
from laissez.model import ChangeFloor, OpenOrder
from laissez.model.paths import covers
from laissez.performance.application import US_PER_S
from laissez.runners.entries import EntryLog, RunnerEntry, What, entry_of
from laissez.runners.gauges import Gauges
from laissez.runners.sending import FAREWELL_S, send
from laissez.runners.waiting import Outage, pause, step_until_stopped
from laissez.telemetry import Level, Telemetry

Inventory = Mapping[str, Mapping[str, str]]


async def run_inframap(
    client: AsyncClient,
    composition: Composition,
    *,
    name: str,
    telemetry: Telemetry | None = None,
    inventory: Inventory | None = None,
    scopes: Collection[str] = (),
    restore_to: Composition | None = None,
    stop: asyncio.Event,
    log: EntryLog,
    dry_run: bool = False,
) -> None:
    """Steer until `stop` is set; a dry run is one step that sends nothing.

    Without an inventory, what was ever seen on the market counts as that. `scopes` are those that
    should be there: it warns of one without a resource. `restore_to` is what the prices are to be
    when it ends: a composition without maps gives the base prices. The telemetry is closed.
    """
    run = OperatingRun(client, composition, name, inventory, scopes, log, dry_run)
    if telemetry is not None:
        run.gauges = Gauges(telemetry, run.warn)
    try:
        if dry_run:
            await run.step()
        else:
            await step_until_stopped(run, stop)
            await run.end(restore_to)
    finally:
        if telemetry is not None:
            await telemetry.close()


class OperatingRun:
    """One composition's run, from its first step to its last."""

    def __init__(
        self,
        client: AsyncClient,
        composition: Composition,
        name: str,
        inventory: Inventory | None,
        scopes: Collection[str],
        log: EntryLog,
        dry_run: bool,
    ) -> None:
        self.outage = Outage(self._tell_outage)
        self.gauges: Gauges | None = None
        self._client = client
        self._composition = composition
        self._name = name
        self._inventory: dict[str, Mapping[str, str]] = dict(inventory or {})
        self._learns = inventory is None
        self._scopes = scopes
        self._log = log
        self._dry_run = dry_run
        self._now_us = 0
        self._asked: dict[str, int] = {}
        self._has_begun = False

    async def step(self) -> bool:
        """Look and act once; there is always something left to do."""
        view = await self._look()
        self.outage.is_over()
        if not self._has_begun:
            self._begin(view)
        levels: dict[str, Level] = {}
        if self.gauges is not None:
            levels = await self.gauges.levels(view.at_us)
        awaited = {name for name, level in levels.items() if level.freshness == "awaited"}
        known = {name: level.value for name, level in levels.items() if name not in awaited}
        for action in self._composition.step(known, view, view.at_us, awaited):
            await self._do(action)
        return False

    async def wait(self, stop: asyncio.Event) -> None:
        """Until the next step is due: after a period, or when a window opens or closes."""
        wait_us = self._composition.period_us
        due_us = self._composition.next_us(self._now_us)
        if due_us is not None:
            wait_us = min(wait_us, due_us - self._now_us)
        await pause(wait_us / US_PER_S, stop)

    async def _look(self) -> OperatorView:
        client, sees_gangs = self._client, self._composition.sees_gangs
        # What is asked together is answered together: a gang is waiting, or holds what is held.
        resources, floors, orders = await asyncio.gather(
            client.resources(), client.floors(), client.orders() if sees_gangs else _nothing()
        )
        if self._learns:
            self._inventory.update((each.resource, each.attributes) for each in resources)
        self._now_us = max(self._now_us, floors.at)
        return OperatorView(
            self._now_us,
            resources,
            floors.floors,
            floors.guards,
            self._inventory,
            floors.cordons,
            gangs_among(orders),
        )

    def _begin(self, view: OperatorView) -> None:
        self._has_begun = True
        trees = ", ".join(self._composition.base)
        why = f"it steers {trees}, and finds {len(view.resources)} resources on the market"
        self._say("begins", why)
        there = [*(each.resource for each in view.resources), *self._inventory]
        empty = [each for each in self._scopes if not any(covers(each, path) for path in there)]
        if empty:
            self.warn(f"there is no resource under {', '.join(empty)}; check the names in the file")

    async def _do(self, action: MapAction) -> None:
        if self._is_news(action):
            entry = entry_of(
                action.do,
                action.why,
                at=self._now_us,
                name=self._name,
                is_rehearsal=self._dry_run,
            )
            self._log(entry)
        if self._dry_run:
            return
        refused = await send(self._client, action.do)
        if refused is not None:
            self._say_refused(action, refused.code, refused.message)

    def _is_news(self, action: MapAction) -> bool:
        """Whether this is anything but a floor that was asked for before."""
        do = action.do
        if not isinstance(do, ChangeFloor):
            return True
        is_news = self._asked.get(do.scope) != do.floor
        self._asked[do.scope] = do.floor
        return is_news

    # The end ----------------------------------------------------------------------------------

    async def end(self, restore_to: Composition | None) -> None:
        if restore_to is None:
            self._say("ends", "the floors stay as they are")
            return
        try:
            async with asyncio.timeout(FAREWELL_S):
                view = await self._look()
                for action in restore_to.step({}, view, view.at_us):
                    await self._do(action)
        except (LaissezError, TimeoutError) as error:
            why = f"the base prices could not be restored ({str(error) or 'no answer'})"
            self._say("ends", f"{why}; the floors stay as they are")
        else:
            self._say("ends", "the floors are back at the base prices")

    # Saying -----------------------------------------------------------------------------------

    def warn(self, why: str) -> None:
        self._say("warning", why)

    def _say(self, what: What, why: str) -> None:
        self._log(RunnerEntry(at=self._now_us, name=self._name, what=what, why=why))

    def _say_refused(self, action: MapAction, code: str, message: str) -> None:
        entry = entry_of(action.do, message, at=self._now_us, name=self._name)
        self._log(msgspec.structs.replace(entry, what="refused", code=code))

    def _tell_outage(self, is_on: bool, why: str) -> None:
        self._say("trouble" if is_on else "mended", why)


async def _nothing() -> tuple[OpenOrder, ...]:
    return ()
