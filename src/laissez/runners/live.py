"""An adapter at the live service: look, tell the application, step, act; again and again.

A step begins with what the exchange says now, never with what was done before: a restart, a lost
connection, a stream with a gap need nothing special. It is taken every period, and at once when the
tenant has won or lost something, is called, or is promised something; and when a node that it is
called from should be ready. Time is the exchange's; the clock of this machine only says when to
look again.

The application learns of a handover at the instant at which it happened, from the stream. What is
held and not known to it, or known and not held, is put right from the view. What it refuses to
believe, a load below nothing say, is warned of, and the step goes on with what it knows. Actions
are sent one after another, in the order that keeps the budget; one that the market refuses is
logged, and the next step sees why.

While it is stopped or out of reach nobody steps: its orders expire, but what it holds is kept, up
to the limits that it left.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Collection

import msgspec

from laissez.adapters.adapter import Adapter
from laissez.adapters.intent import own_holdings, own_orders, own_promises
from laissez.adapters.view import Action, GangAsk, MarketView, OrderGang, Stay, Vacate
from laissez.client import (
    AsyncClient,
    ConnectionFailed,
    LaissezError,
    NotPermitted,
    Refusal,
    Unauthenticated,
)
from laissez.client.money import show_rate
from laissez.model import (
    CancelOrder,
    Filled,
    Holding,
    Lost,
    PlaceOrder,
    Quoted,
    Release,
)
from laissez.model.paths import covers, tree_of
from laissez.performance.application import US_PER_S, Application, BadApplication
from laissez.runners.entries import EntryLog, RunnerEntry, What, entry_of
from laissez.runners.explaining import Explaining
from laissez.runners.gauges import Gauges
from laissez.runners.listening import Listening, News
from laissez.runners.looking import bonds_among, calls_among, promised_nodes, terms_by_tree
from laissez.runners.memory import AdapterMemory, BadMemory, Remembered
from laissez.runners.sending import FAREWELL_S, send
from laissez.runners.waiting import Outage, is_passing, pause, step_until_stopped
from laissez.telemetry import Telemetry

REACTION_S = 0.02
REACTIONS_APART_S = 0.5


async def run_adapter(
    client: AsyncClient,
    adapter: Adapter,
    app: Application,
    *,
    telemetry: Telemetry | None = None,
    left_out_when_stale: Collection[str] = (),
    memory: AdapterMemory | None = None,
    stop: asyncio.Event,
    log: EntryLog,
    release_on_stop: bool = False,
    dry_run: bool = False,
) -> None:
    """Trade until the application is done or `stop` is set; a dry run is one step that sends
    nothing. A token that is refused ends it with that error, and so does an exchange that can't be
    asked to release what was to be released. The telemetry is closed."""
    run = LiveRun(client, adapter, app, memory, log, dry_run)
    if telemetry is not None:
        run.gauges = Gauges(telemetry, run.warn, left_out_when_stale)
    try:
        if dry_run:
            await run.step()
        else:
            await step_until_stopped(run, stop)
            await run.end(release=release_on_stop)
    except (Unauthenticated, NotPermitted) as error:
        run.refused(error)
        raise
    finally:
        await run.listening.close()
        if telemetry is not None:
            await telemetry.close()


class LiveRun:
    """One adapter's run, from its first step to its last."""

    def __init__(
        self,
        client: AsyncClient,
        adapter: Adapter,
        app: Application,
        memory: AdapterMemory | None,
        log: EntryLog,
        dry_run: bool,
    ) -> None:
        self.client = client
        self.adapter = adapter
        self.app = app
        self.outage = Outage(self._tell_outage)
        self.gauges: Gauges | None = None
        self._terms = adapter.terms
        self._memory = memory or AdapterMemory(Remembered(self._terms.name, 0))
        self._log = log
        self._dry_run = dry_run
        kept = self._memory.kept
        self.listening = Listening(client, kept.sequence)
        self._explaining = Explaining(self._terms.name, "", kept.whys)
        self._tenant = ""
        self._now_us = self._told_us = kept.told_us
        self._has_begun = False
        self._has_warned = False
        self._refused: set[str] = set()
        self._refused_scopes: set[str] = set()
        self._trees: tuple[str, ...] = ()
        self._is_overdue = False
        self._looked_s = self._stepped_s = 0.0
        state = kept.app_state()
        if state is not None:
            _resume(app, state)

    # A step -----------------------------------------------------------------------------------

    async def step(self) -> bool:
        """Look and act once; True if there is nothing left to do."""
        self._stepped_s = asyncio.get_running_loop().time()
        if not self._dry_run:
            await self.listening.open()
        view, sequence = await self._see()
        self.outage.is_over()
        await self._measure(view.at_us)
        self._advance(view.at_us)
        self._watch_deadline(view.at_us)
        for action in self._actions(view):
            await self._do(action)
        self._remember(sequence)
        return (
            self.app.is_done
            and not own_holdings(self._terms, view)
            and not own_orders(self._terms, view)
            and not own_promises(self._terms, view)
        )

    async def wait(self, stop: asyncio.Event) -> None:
        """Until the next step: a period, or until something was won, lost, called or promised, or
        a node is ready to be left."""
        await pause(self._until_next_s(), stop, self.listening.stirred)
        if self.listening.stirred.is_set():
            # What comes together is one step; and two of one tenant can't drive each other round.
            since_s = asyncio.get_running_loop().time() - self._stepped_s
            await pause(max(REACTION_S, REACTIONS_APART_S - since_s), stop)

    def _until_next_s(self) -> float:
        """What is called costs its limit until it is left, so nobody waits for the period then."""
        next_s = self._terms.period_us / US_PER_S
        since_s = asyncio.get_running_loop().time() - self._looked_s
        for node in self.app.vacating:
            ready_s = self.app.vacate_s(node)
            if ready_s is not None and ready_s > 0:
                next_s = min(next_s, max(REACTION_S, ready_s - since_s))
        return next_s

    async def _see(self) -> tuple[MarketView, int]:
        """Look, and take note of all that has happened until now."""
        view, sequence = await self._look()
        await self.listening.catch_up()
        if not self._has_begun:
            self._begin(view)
        self._hear(self.listening.take(sequence), view)
        self._put_right(view)
        self._explaining.sees(view)
        return view, sequence

    async def _look(self) -> tuple[MarketView, int]:
        """What this tenant sees, and the number of the last thing that led to it.

        What is asked together is answered together, between two changes of the market.
        """
        client = self.client
        status, holdings, orders, promises, bill = await asyncio.gather(
            client.status(), client.holdings(), client.orders(), client.promises(), client.bill()
        )
        scopes = self.adapter.scopes_to_quote(self.app, holdings)
        gangs = self.adapter.gangs_to_quote(self.app, holdings)
        asked = (
            *(self._quote(scope) for scope in scopes),
            *(self._quote_gang(ask) for ask in gangs),
        )
        quoted = await asyncio.gather(*asked)
        several = zip(gangs, quoted[len(scopes) :], strict=True)
        kept = self._memory.kept
        if kept.charge_before is None:
            kept.charge_before = bill.charge
        self._tenant = bill.tenant
        self._trees = status.trees
        self._looked_s = asyncio.get_running_loop().time()
        self._now_us = max(self._now_us, status.at)
        charge = bill.charge - kept.charge_before
        view = MarketView(
            self._now_us,
            holdings,
            orders,
            {quote.scope: quote for quote in quoted[: len(scopes)] if quote is not None},
            charge,
            calls_among(holdings),
            promised_nodes(promises),
            bonds_among(holdings),
            terms_by_tree(status),
            {ask: quote for ask, quote in several if quote is not None},
        )
        return view, status.sequence

    async def _quote_gang(self, ask: GangAsk) -> Quoted | None:
        return await self._quote(ask.scope, ask.count, ask.within)

    async def _quote(self, scope: str, count: int = 1, within: int | None = None) -> Quoted | None:
        try:
            return await self.client.quote(scope, count=count, within=within)
        except Refusal as refused:
            if is_passing(refused) or isinstance(refused, Unauthenticated | NotPermitted):
                raise
            return None

    def _begin(self, view: MarketView) -> None:
        self._has_begun = True
        is_new = self._memory.kept.app_state() is None
        if is_new:
            self._told_us = view.at_us
        self._explaining = Explaining(self._terms.name, self._tenant, self._explaining.whys)
        held, orders = own_holdings(self._terms, view), own_orders(self._terms, view)
        known = set(self.app.nodes)
        if is_new:
            for holding in held:
                if self._is_of_use(holding.resource):
                    self._tell_app(holding.resource, view.at_us, is_gained=True)
                    known.add(holding.resource)
        why = (
            f"under {', '.join(self._terms.scopes)} it finds {len(held)} held and "
            f"{len(orders)} of its orders; nodes remembered: {len(known)}"
        )
        self._say("begins", why)
        for tree in dict.fromkeys(tree_of(scope) for scope in self._terms.scopes):
            if tree not in self._trees:
                trees = ", ".join(self._trees) or "none yet"
                self.warn(f"there is no tree {tree}; check the scopes: this market has {trees}")
        if not is_new and self.app.is_done:
            self.warn("the work was done already; begin anew with --fresh")

    # What happened ----------------------------------------------------------------------------

    def _hear(self, news: list[News], view: MarketView) -> None:
        """Explain every handover, and tell the application of those under the scopes."""
        self._explaining.hears_rates(self.listening.take_rates())
        for _, notice in news:
            entry = self._explaining.hears(notice, view)
            if entry is not None:
                self._log(entry)
            if isinstance(notice, Filled | Lost):
                self._tell_app(notice.resource, notice.at, is_gained=isinstance(notice, Filled))

    def _put_right(self, view: MarketView) -> None:
        """What the application thinks it has becomes what is held."""
        held = {
            holding.resource: holding
            for holding in view.holdings
            if self._is_of_use(holding.resource)
        }
        known = set(self.app.nodes)
        for resource, holding in held.items():
            if resource not in known:
                if _has(resource) not in self._refused:
                    self._log(self._explaining.finds_held(resource, view))
                self._tell_app(resource, holding.since, is_gained=True)
        for resource in self.app.nodes:
            if resource not in held:
                self._log(self._explaining.finds_gone(resource, view))
                self._tell_app(resource, view.at_us, is_gained=False)

    def _tell_app(self, resource: str, at_us: int, *, is_gained: bool) -> None:
        self._advance(at_us)
        if is_gained and self._is_of_use(resource):
            self._tell(_has(resource), lambda: self.app.gain(resource, self._told_us))
        elif not is_gained:
            self._tell(f"that it lost {resource}", lambda: self.app.lose(resource, self._told_us))

    def _advance(self, at_us: int) -> None:
        self._pass_to(at_us)
        self._tell("the time", lambda: self.app.advance(self._told_us))

    def _pass_to(self, at_us: int) -> None:
        """The application's time never goes back, nor ahead of the exchange's."""
        self._told_us = min(max(at_us, self._told_us), self._now_us)

    def _is_of_use(self, resource: str) -> bool:
        """Whether the application is told of it: under the scopes, and of a kind it knows."""
        is_within = any(covers(scope, resource) for scope in self._terms.scopes)
        return is_within and tree_of(resource) in self.app.kinds

    async def _measure(self, at_us: int) -> None:
        """Tell the application what was read since it was last told."""
        if self.gauges is None:
            return
        for readings in await self.gauges.news(at_us):
            self._pass_to(readings.at_us)
            measure = functools.partial(self.app.measure, readings.values, self._told_us)
            self._tell(f"what was read of {', '.join(readings.values)}", measure)

    def _actions(self, view: MarketView) -> tuple[Action, ...]:
        """What the adapter wants to do; nothing if the application refuses to answer it."""
        actions: list[Action] = []
        self._tell(
            "what its adapter asks",
            lambda: actions.extend(self.adapter.step(self.app, view, view.at_us)),
        )
        return tuple(actions)

    def _tell(self, what: str, tell: Callable[[], object]) -> None:
        """Tell the application something; warn when it begins to refuse it, and when it ends."""
        try:
            tell()
        except BadApplication as error:
            if what not in self._refused:
                self._refused.add(what)
                self.warn(
                    f"the application refuses {what}, and goes on with what it knows: {error}"
                )
        else:
            if what in self._refused:
                self._refused.discard(what)
                self.warn(f"the application takes {what} again")

    # What is done -----------------------------------------------------------------------------

    def _watch_deadline(self, at_us: int) -> None:
        deadline_us = getattr(self.app, "deadline_us", None)
        is_overdue = deadline_us is not None and at_us > deadline_us and not self.app.is_done
        if is_overdue and not self._is_overdue:
            self.warn("the deadline has passed, and the work is not done; it goes on until stopped")
        self._is_overdue = is_overdue

    async def _do(self, action: Action) -> None:
        do = action.do
        is_again = isinstance(do, PlaceOrder | OrderGang) and do.scope in self._refused_scopes
        if not is_again:
            self._say_action(action)
        if self._dry_run:
            return
        self._explaining.intends(action)
        if isinstance(do, Vacate | Stay):
            self._prepare(do)
            return
        refused = await send(self.client, do)
        if refused is not None:
            self._say_refused(action, refused.code, refused.message)
        elif is_again and isinstance(do, PlaceOrder | OrderGang):
            self._refused_scopes.discard(do.scope)
            self._say_action(action)

    def _prepare(self, do: Vacate | Stay) -> None:
        """Let the application get ready for a loss, or go on; nothing of it is sent."""
        tell = self.app.vacate if isinstance(do, Vacate) else self.app.stay
        self._tell(f"what to do with {do.resource}", lambda: tell(do.resource, self._told_us))
        self.listening.stirred.set()  # it may be worth something else to it now

    def _say_action(self, action: Action) -> None:
        self._log(
            entry_of(
                action.do,
                action.why,
                at=self._now_us,
                name=self._terms.name,
                tenant=self._tenant,
                is_rehearsal=self._dry_run,
            )
        )

    def _remember(self, sequence: int) -> None:
        if not self._dry_run:
            kept = self._memory.kept
            kept.sequence = sequence
            kept.told_us = self._told_us
            kept.whys = self._explaining.whys
            kept.app = msgspec.Raw(self.app.state())
            try:
                self._memory.save()
            except OSError as error:
                self._warn_of_memory(error)

    def _warn_of_memory(self, error: OSError) -> None:
        """Once: it trades on, and only a restart would miss what could not be written."""
        if not self._has_warned:
            self._has_warned = True
            self._say(
                "warning", f"its memory can't be written ({error}); a restart would begin anew"
            )

    # The end ----------------------------------------------------------------------------------

    async def end(self, *, release: bool) -> None:
        """Take back its orders; keep or release what is held; say what remains."""
        try:
            async with asyncio.timeout(FAREWELL_S):
                await self._leave(release=release)
        except (LaissezError, TimeoutError) as error:
            why = (
                "the exchange could not be asked to take back its orders"
                f" ({str(error) or 'no answer'}); they expire by themselves, and what it holds is "
                "charged until it is released"
            )
            self._say("ends", why)
            if release:
                raise ConnectionFailed(f"what it holds could not be released: {why}") from None

    async def _leave(self, *, release: bool) -> None:
        view, sequence = await self._see()
        for order in own_orders(self._terms, view):
            await self._do(Action(CancelOrder(order.order), "the adapter ends"))
        if release:
            all_held = [holding.resource for holding in own_holdings(self._terms, view)]
            for resource in (*all_held, *own_promises(self._terms, view)):
                await self._do(Action(Release(resource), "the adapter ends"))
        view, sequence = await self._see()
        self._advance(view.at_us)
        self._remember(sequence)
        held, promised = own_holdings(self._terms, view), own_promises(self._terms, view)
        self._say("ends", _what_remains(held, promised), charge=view.charge)

    # Saying -----------------------------------------------------------------------------------

    def refused(self, error: LaissezError) -> None:
        """The exchange does not know this tenant any more."""
        if self._has_begun:
            self._say("ends", f"the token is refused; what it holds is charged on: {error}")

    def _time_us(self) -> int:
        """The exchange's time, as far as it has been heard of, and what has passed since."""
        if not self._looked_s:
            return self._now_us
        since_s = asyncio.get_running_loop().time() - self._looked_s
        return self._now_us + round(since_s * US_PER_S)

    def warn(self, why: str) -> None:
        self._say("warning", why)

    def _say(self, what: What, why: str, charge: int | None = None) -> None:
        self._log(
            RunnerEntry(
                at=self._time_us(),
                name=self._terms.name,
                tenant=self._tenant or None,
                what=what,
                why=why,
                charge=charge,
            )
        )

    def _say_refused(self, action: Action, code: str, message: str) -> None:
        """An order that is refused in one step as in the one before is told once."""
        if isinstance(action.do, PlaceOrder | OrderGang):
            if action.do.scope in self._refused_scopes:
                return
            self._refused_scopes.add(action.do.scope)
        entry = entry_of(
            action.do, message, at=self._now_us, name=self._terms.name, tenant=self._tenant
        )
        self._log(msgspec.structs.replace(entry, what="refused", code=code))

    def _tell_outage(self, is_on: bool, why: str) -> None:
        self._say("trouble" if is_on else "mended", why)


def _resume(app: Application, state: bytes) -> None:
    try:
        app.resume(state)
    except ValueError as error:
        raise BadMemory(
            f"what the application remembers does not fit it any more ({error}); begin anew with "
            "--fresh: then budget and deadline count from now again"
        ) from None


def _has(resource: str) -> str:
    return f"that it has {resource}"


def _what_remains(held: Collection[Holding], promised: Collection[str]) -> str:
    coming = f"on its way, and charged from then: {', '.join(promised)}" if promised else ""
    if not held:
        return coming or "nothing is held"
    cost = sum(holding.rate for holding in held)
    most = sum(holding.limit for holding in held)
    names = ", ".join(holding.resource for holding in held)
    return (
        f"still held, and charged until released: {names}; now {show_rate(cost)} together, "
        f"at most {show_rate(most)}{'; ' if coming else ''}{coming}"
    )
