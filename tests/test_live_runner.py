"""The live runner against the real service: it follows the market, explains it, leaves tidily."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from client_pool import Pool
from laissez.adapters.budget import Budget
from laissez.adapters.footprint import Footprint
from laissez.adapters.intent import TradingTerms
from laissez.client import AsyncClient, Unauthenticated
from laissez.model.paths import tree_of
from laissez.model.values import CHARGE_UNITS_PER_MICRO_DOLLAR
from laissez.performance.application import BadApplication
from laissez.performance.standing import Standing
from laissez.runners.entries import RunnerEntry, sentence
from laissez.runners.live import run_adapter
from laissez.runners.memory import AdapterMemory, BadMemory, Remembered, alone_with, read_memory
from laissez.runners.waiting import pause, unless_stopped
from laissez.service import following
from laissez.telemetry import Feed, Reading, Steady, Telemetry
from serving import Served, served

US_PER_S = 1_000_000
DOLLAR = 1_000_000
LONG_US = 60 * US_PER_S
PATIENCE_S = 20.0


class Brief(Standing):
    """Wants its nodes until it is told that it is done, and keeps the instants it is told of."""

    def __init__(self, kinds: Sequence[str], wanted: int) -> None:
        super().__init__(kinds, wanted)
        self.is_over = False
        self.told_us: list[int] = []
        self.deadline_us: int | None = None

    def advance(self, at_us: int) -> None:
        self.told_us.append(at_us)

    @property
    def is_done(self) -> bool:
        return self.is_over


class Doubting(Brief):
    """Refuses to believe what is below nothing, and gives no answer while it is stubborn."""

    def __init__(self, kinds: Sequence[str], wanted: int) -> None:
        super().__init__(kinds, wanted)
        self.measured: list[tuple[dict[str, float], int]] = []
        self.is_stubborn = False

    def gain(self, resource: str, at_us: int) -> None:
        if self.is_stubborn:
            raise BadApplication("there is no room")
        super().gain(resource, at_us)

    def measure(self, readings: Mapping[str, float], at_us: int) -> None:
        if readings["load"] < 0:
            raise BadApplication(f"a load of {readings['load']:g} can't be")
        self.measured.append((dict(readings), at_us))


class Meter:
    """Telemetry whose value the test turns."""

    def __init__(self) -> None:
        self.load: float | None = 1.0

    async def read(self, at_us: int) -> Reading | None:
        return None if self.load is None else Reading(self.load, at_us)

    async def close(self) -> None:
        pass

    def telemetry(self) -> Telemetry:
        steady = Steady(stale_after_us=60 * US_PER_S, drift_us=US_PER_S, default=0.0)
        return Telemetry({"load": Feed(self, steady)})


class Stage:
    """An adapter that runs for one tenant, and what it says."""

    def __init__(
        self,
        client: AsyncClient,
        tree: str,
        *,
        nodes: int = 1,
        limit: int = 4 * DOLLAR,
        period_us: int = LONG_US,
        budget: Budget | None = None,
        memory: AdapterMemory | None = None,
        app: Brief | None = None,
        **options: Any,
    ) -> None:
        self.client = client
        self.entries: list[RunnerEntry] = []
        self.stop = asyncio.Event()
        self.app = app or Brief((tree_of(tree),), nodes)
        self.terms = TradingTerms("keeper", (tree,), period_us, budget)
        self.adapter = Footprint(self.terms, nodes, limit)
        self.running: asyncio.Task[None] | None = None
        self.memory = memory
        self.options = options

    def start(self) -> None:
        self.running = asyncio.create_task(
            run_adapter(
                self.client,
                self.adapter,
                self.app,
                memory=self.memory,
                stop=self.stop,
                log=self.entries.append,
                **self.options,
            )
        )

    async def until(self, condition: Callable[[], bool | Awaitable[bool]]) -> None:
        """Wait until something is true; the run must not fail meanwhile."""
        assert self.running is not None
        async with asyncio.timeout(PATIENCE_S):
            while True:
                met = condition()
                if await met if isinstance(met, Awaitable) else met:
                    return
                if self.running.done():
                    self.running.result()
                    raise AssertionError(f"it has ended: {self.entries}")
                await asyncio.sleep(0.005)

    async def end(self) -> None:
        assert self.running is not None
        self.stop.set()
        async with asyncio.timeout(PATIENCE_S):
            await self.running

    async def kill(self) -> None:
        """As a crash would: no farewell."""
        assert self.running is not None
        self.running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.running

    def said(self, what: str) -> list[RunnerEntry]:
        return [entry for entry in self.entries if entry.what == what]


def play(real: Served, scene: Callable[[AsyncClient], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with AsyncClient(real.url, real.secrets["ada"]) as client:
            await scene(client)

    asyncio.run(main())


@pytest.fixture(autouse=True)
def _leave_nothing(pool: Pool) -> Any:
    yield
    for client in (pool.ada, pool.dalia):
        for order in client.orders():
            client.cancel(order.order)
        for holding in client.holdings():
            client.release(holding.resource)


# --- trading ------------------------------------------------------------------------------------


def test_it_takes_what_it_wants_and_explains_it(real: Served, pool: Pool) -> None:
    """A win is logged with its order, rate, limit and the reason of its order."""
    pool.add("a", "b", "c")

    async def scene(client: AsyncClient) -> None:
        stage = Stage(client, pool.tree, nodes=2)
        stage.start()
        await stage.until(lambda: len(stage.said("won")) == 2)
        won = stage.said("won")[0]
        assert (won.rate, won.limit, won.tenant) == (2 * DOLLAR, 4 * DOLLAR, "ada")
        assert won.order is not None and won.order.startswith("keeper.")
        assert won.why == "it is to hold 2, and this is number 1"
        assert sorted(stage.app.nodes) == sorted(h.resource for h in await client.holdings())
        await stage.end()

    play(real, scene)
    assert len(pool.ada.holdings()) == 2


def test_it_steps_at_once_on_a_loss(real: Served, pool: Pool) -> None:
    """With a period of a minute, a lost node is explained and asked for again at once."""
    pool.add("a")

    async def scene(client: AsyncClient) -> None:
        stage = Stage(client, pool.tree)
        stage.start()
        await stage.until(lambda: bool(stage.app.nodes))
        pool.dalia.place(pool.tree, price="5.00", limit="6.00")
        await stage.until(lambda: bool(stage.said("lost")))
        lost = stage.said("lost")[0]
        assert (lost.reason, lost.limit, lost.rate) == ("outbid", 4 * DOLLAR, 2 * DOLLAR)
        assert lost.why == "somebody offered more than its limit of $4.00/h"
        await stage.until(lambda: len(stage.said("place")) == 2)
        assert stage.app.nodes == ()
        await stage.end()

    play(real, scene)


def test_it_steps_at_once_on_a_fill(real: Served, pool: Pool) -> None:
    """An order that waits is filled when a node comes, and the application knows at once."""

    async def scene(client: AsyncClient) -> None:
        pool.add("a")
        pool.dalia.place(pool.tree, limit="9.00")
        stage = Stage(client, pool.tree)
        stage.start()
        await stage.until(lambda: bool(stage.said("place")))
        assert stage.app.nodes == ()
        pool.add("b")
        await stage.until(lambda: stage.app.nodes == (f"{pool.tree}/b",))
        await stage.end()

    play(real, scene)


@pytest.mark.parametrize(
    ("take_away", "reason", "why"),
    [
        (lambda pool: pool.operator.set_floor(pool.tree, "4.50"), "floor", "the floor rose"),
        (lambda pool: pool.operator.withdraw(f"{pool.tree}/a"), "withdrawn", "the operator took"),
        (lambda pool: pool.ada.release(f"{pool.tree}/a"), "relinquished", "somebody else of this"),
    ],
)
def test_every_loss_has_its_reason(
    real: Served, pool: Pool, take_away: Callable[[Pool], object], reason: str, why: str
) -> None:
    """What the market says of a loss is in the log, in words too."""
    pool.add("a")

    async def scene(client: AsyncClient) -> None:
        stage = Stage(client, pool.tree)
        stage.start()
        await stage.until(lambda: bool(stage.said("won")))
        take_away(pool)
        await stage.until(lambda: bool(stage.said("lost")))
        assert stage.said("lost")[0].reason == reason
        assert why in sentence(stage.said("lost")[0])
        await stage.end()

    play(real, scene)


def test_a_refusal_is_logged_and_looked_at_anew(real: Served, pool: Pool) -> None:
    """An order for a scope that is not there yet is refused; it is placed when it is there."""

    pool.add("a")

    async def scene(client: AsyncClient) -> None:
        stage = Stage(client, f"{pool.tree}/late", period_us=US_PER_S // 20)
        stage.start()
        await stage.until(lambda: bool(stage.said("refused")))
        assert stage.said("refused")[0].code == "unknown_scope"
        pool.add("late/a")
        await stage.until(lambda: bool(stage.said("won")))
        await stage.end()

    play(real, scene)


def test_what_the_application_refuses_is_warned_of_once(real: Served, pool: Pool) -> None:
    """A reading that can't be is not the end: it trades on with what it knows, says so when that
    begins and when it is over, and nothing else is lost."""
    pool.add("a")
    meter = Meter()
    meter.load = -1.0
    app = Doubting((pool.tree,), 1)

    async def scene(client: AsyncClient) -> None:
        stage = Stage(
            client, pool.tree, app=app, period_us=US_PER_S // 50, telemetry=meter.telemetry()
        )
        stage.start()
        await stage.until(lambda: bool(stage.app.nodes))
        meter.load = -2.0
        await asyncio.sleep(0.1)
        assert app.measured == []
        [refused] = stage.said("warning")
        assert refused.why == (
            "the application refuses what was read of load, and goes on with what it knows: "
            "a load of -1 can't be"
        )
        meter.load = 3.0
        await stage.until(lambda: bool(app.measured))
        await stage.end()
        assert app.measured[0][0] == {"load": 3.0}
        assert [entry.why for entry in stage.said("warning")[1:]] == [
            "the application takes what was read of load again"
        ]

    play(real, scene)


def test_what_is_held_of_a_reading_is_not_told_again(real: Served, pool: Pool) -> None:
    """Each reading is told once, of its own instant; a gap is a gap, in which the application
    goes on by itself."""
    pool.add("a")
    meter, app = Meter(), Doubting((pool.tree,), 1)

    async def scene(client: AsyncClient) -> None:
        stage = Stage(
            client, pool.tree, app=app, period_us=US_PER_S // 50, telemetry=meter.telemetry()
        )
        stage.start()
        await stage.until(lambda: len(app.measured) > 2)
        meter.load = None
        await stage.until(lambda: bool(stage.said("warning")))
        told, steps = len(app.measured), len(app.told_us)
        await stage.until(lambda: len(app.told_us) > steps + 3)
        assert len(app.measured) == told
        meter.load = 1.0
        await stage.until(lambda: len(app.measured) > told)
        await stage.end()
        instants = [at_us for _, at_us in app.measured]
        assert instants == sorted(set(instants))

    play(real, scene)


def test_a_node_that_the_application_refuses_is_found_once(real: Served, pool: Pool) -> None:
    """It is offered to it again at every step, and talked of when that changes."""
    pool.add("a")
    app = Doubting((pool.tree,), 1)
    app.is_stubborn = True

    async def scene(client: AsyncClient) -> None:
        stage = Stage(client, pool.tree, app=app, period_us=US_PER_S // 50)
        stage.start()
        await stage.until(lambda: bool(stage.said("warning")))
        steps = len(app.told_us)
        await stage.until(lambda: len(app.told_us) > steps + 5)
        assert (len(stage.said("won")), len(stage.said("warning"))) == (1, 1)
        assert "there is no room" in stage.said("warning")[0].why
        app.is_stubborn = False
        await stage.until(lambda: bool(stage.app.nodes))
        await stage.end()
        assert len(stage.said("warning")) == 2

    play(real, scene)


# --- the end ------------------------------------------------------------------------------------


def test_a_stop_leaves_no_order_and_says_what_is_held(real: Served, pool: Pool) -> None:
    """Its own orders are cancelled, other people's stay, and the last word is what is owed."""
    pool.add("a")
    pool.ada.place(pool.tree, limit="1.00", order="by-hand")

    async def scene(client: AsyncClient) -> None:
        stage = Stage(client, pool.tree, nodes=3)
        stage.start()
        await stage.until(lambda: len(stage.said("place")) == 3 and bool(stage.said("won")))
        await stage.end()
        last = stage.entries[-1]
        assert last.what == "ends" and last.charge is not None and last.charge > 0
        assert f"{pool.tree}/a" in last.why and "$2.00/h" in last.why

    play(real, scene)
    assert [order.order for order in pool.ada.orders()] == ["by-hand"]
    assert len(pool.ada.holdings()) == 1


def test_a_stop_can_release(real: Served, pool: Pool) -> None:
    """With release_on_stop nothing is held afterwards, and each loss is explained."""
    pool.add("a", "b")

    async def scene(client: AsyncClient) -> None:
        stage = Stage(client, pool.tree, nodes=2, release_on_stop=True)
        stage.start()
        await stage.until(lambda: len(stage.app.nodes) == 2)
        await stage.end()
        assert {entry.why for entry in stage.said("lost")} == {"given back; the adapter ends"}
        assert len(stage.said("lost")) == 2
        assert stage.entries[-1].why == "nothing is held"

    play(real, scene)
    assert pool.ada.holdings() == ()


def test_it_ends_by_itself_when_the_work_is_done(real: Served, pool: Pool) -> None:
    """Done means everything released and no order left, without being stopped."""
    pool.add("a")

    async def scene(client: AsyncClient) -> None:
        stage = Stage(client, pool.tree, nodes=2, period_us=US_PER_S // 20)
        stage.start()
        await stage.until(lambda: bool(stage.app.nodes))
        stage.app.is_over = True
        assert stage.running is not None
        async with asyncio.timeout(PATIENCE_S):
            await stage.running
        assert stage.said("lost")[0].why == "given back; the work is done"

    play(real, scene)
    assert pool.ada.holdings() == () and pool.ada.orders() == ()


# --- restarts -----------------------------------------------------------------------------------


def test_a_restart_doubles_nothing(real: Served, pool: Pool) -> None:
    """After a crash it goes on from the order and the holding that it finds."""
    pool.add("z")
    pool.dalia.place(pool.tree, limit="9.00")
    pool.add("a")

    async def scene(client: AsyncClient) -> None:
        first = Stage(client, pool.tree, nodes=2)
        first.start()
        await first.until(lambda: bool(first.app.nodes) and len(first.said("place")) == 2)
        before = await client.orders(), await client.holdings()
        await first.kill()
        second = Stage(client, pool.tree, nodes=2, period_us=US_PER_S // 20)
        second.start()
        await second.until(lambda: bool(second.said("begins")))
        assert second.app.nodes == first.app.nodes
        pool.add("b")
        await second.until(lambda: len(second.app.nodes) == 2)
        assert (len(before[0]), len(before[1])) == (1, 1)
        await second.end()

    play(real, scene)
    assert len(pool.ada.holdings()) == 2 and pool.ada.orders() == ()


def test_what_happened_while_it_was_down_is_explained(
    real: Served, pool: Pool, tmp_path: Path
) -> None:
    """With its memory it tells after a restart what its orders won meanwhile, and why it asked."""
    pool.add("z")
    pool.dalia.place(pool.tree, limit="9.00")
    pool.add("a")
    path = tmp_path / "memory"

    def has_an_order_and_remembers_a() -> bool:
        kept = read_memory(path, "keeper")
        return kept is not None and bool(kept.whys) and b"/a" in bytes(kept.app)

    async def scene(client: AsyncClient) -> None:
        first = Stage(
            client, pool.tree, nodes=2, memory=AdapterMemory(Remembered("keeper", 5), path)
        )
        first.start()
        await first.until(has_an_order_and_remembers_a)
        await first.kill()
        pool.add("b")
        pool.operator.withdraw(f"{pool.tree}/a")
        kept = read_memory(path, "keeper")
        assert kept is not None and kept.began_us == 5
        whys = dict(kept.whys)
        second = Stage(client, pool.tree, nodes=2, memory=AdapterMemory(kept, path))
        second.start()
        await second.until(lambda: bool(second.said("lost")))
        [won] = second.said("won")
        assert won.resource == f"{pool.tree}/b"
        assert won.why == whys[won.order or ""]
        assert second.said("lost")[0].reason == "withdrawn"
        assert second.app.nodes == (f"{pool.tree}/b",)
        await second.end()

    play(real, scene)


def test_a_long_past_is_heard_before_the_state_is_explained(
    real: Served, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was missed comes in pieces, and answers overtake them: it is heard all the same before
    anything is said of what is held, so that a loss has its reason and not only was found."""
    monkeypatch.setattr(following, "PIECE_MAX", 1)
    pool.add("a")
    pool.ada.place(pool.tree, limit="4.00")
    before = Brief((pool.tree,), 1)
    before.gain(f"{pool.tree}/a", 0)
    sequence = pool.ada.status().sequence
    for number in range(350):
        pool.ada.place(pool.tree, limit="1.00", order=f"x{number}")
        pool.ada.cancel(f"x{number}")
    pool.operator.withdraw(f"{pool.tree}/a")
    kept = Remembered("keeper", 0, sequence=sequence, app=msgspec.Raw(before.state()))

    async def scene(client: AsyncClient) -> None:
        stage = Stage(client, pool.tree, memory=AdapterMemory(kept))
        stage.start()
        await stage.until(lambda: bool(stage.said("lost")))
        [lost] = stage.said("lost")
        assert (lost.resource, lost.reason) == (f"{pool.tree}/a", "withdrawn")
        await stage.end()
        assert stage.said("lost") == [lost]

    play(real, scene)


def test_what_was_not_heard_is_found(real: Served, pool: Pool) -> None:
    """A memory that is too old for the stream does not matter: the state is read anew."""
    pool.add("a")
    before = Brief((pool.tree,), 1)
    before.gain(f"{pool.tree}/gone", 0)
    kept = Remembered("keeper", 0, 0, app=msgspec.Raw(before.state()))
    pool.ada.place(pool.tree, limit="4.00")
    kept.sequence = 2**40  # the exchange does not know this number, and says Resync

    async def scene(client: AsyncClient) -> None:
        stage = Stage(client, pool.tree, memory=AdapterMemory(kept))
        stage.start()
        await stage.until(lambda: stage.app.nodes == (f"{pool.tree}/a",))
        assert [entry.resource for entry in stage.said("lost")] == [f"{pool.tree}/gone"]
        assert [entry.resource for entry in stage.said("won")] == [f"{pool.tree}/a"]
        await stage.end()

    play(real, scene)


def test_time_never_goes_back_for_the_application(real: Served, pool: Pool) -> None:
    """Whatever its memory and the exchange say of time, the application is told of a later one."""
    pool.add("a")
    pool.ada.place(pool.tree, limit="4.00")
    future_us = pool.ada.status().at + 3_600 * US_PER_S
    state = msgspec.Raw(Brief((pool.tree,), 1).state())
    kept = Remembered("keeper", 0, 0, told_us=future_us, app=state)

    async def scene(client: AsyncClient) -> None:
        stage = Stage(client, pool.tree, memory=AdapterMemory(kept))
        stage.start()
        await stage.until(lambda: bool(stage.app.nodes))
        await stage.end()
        assert set(stage.app.told_us) == {future_us}

    play(real, scene)


def test_a_stop_before_the_first_step(real: Served, pool: Pool) -> None:
    """It takes back what an earlier run left, tells the application what is held, and ends."""
    pool.add("a")
    pool.ada.place(pool.tree, limit="4.00")
    pool.ada.place(pool.tree, limit="4.00", order="keeper.0")

    async def scene(client: AsyncClient) -> None:
        stage = Stage(client, pool.tree, nodes=2)
        stage.stop.set()
        stage.start()
        await stage.end()
        assert [entry.what for entry in stage.entries] == ["begins", "cancel", "ends"]
        assert stage.app.nodes == (f"{pool.tree}/a",)

    play(real, scene)


# --- trouble ------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def background(start: Callable[[], Any]) -> AsyncIterator[Served]:
    """A service that can be started and stopped while the loop goes on."""
    context = await asyncio.to_thread(start)
    running = await asyncio.to_thread(context.__enter__)
    try:
        yield running
    finally:
        await asyncio.to_thread(context.__exit__, None, None, None)


def test_it_outlives_a_lost_exchange(tmp_path: Path) -> None:
    """While the exchange is away it waits, says so once, and goes on when it is back."""

    async def scene() -> None:
        async with background(lambda: served(tmp_path, "operator", "ada")) as first:
            url, secrets = first.url, first.secrets
            client = AsyncClient(url, secrets["ada"], retry_for_s=0.3)
            stage = Stage(client, "h100", nodes=2, period_us=US_PER_S // 20)
            async with AsyncClient(url, secrets["operator"]) as operator:
                await operator.add_resource("h100/a")
            stage.start()
            await stage.until(lambda: bool(stage.app.nodes))
        await stage.until(lambda: bool(stage.said("trouble")))
        await asyncio.sleep(1.0)
        port = int(url.rpartition(":")[2])
        async with background(lambda: served(tmp_path, port=port)):
            await stage.until(lambda: bool(stage.said("mended")))
            async with AsyncClient(url, secrets["operator"]) as operator:
                await operator.add_resource("h100/b")
            await stage.until(lambda: len(stage.app.nodes) == 2)
            await stage.end()
            assert len(stage.said("trouble")) == len(stage.said("mended")) == 1
            assert len(await client.holdings()) == 2
            await client.close()

    asyncio.run(scene())


def test_a_stop_while_the_exchange_is_away(tmp_path: Path) -> None:
    """A stop does not wait for an exchange that is gone; the last word says what that means."""

    async def scene() -> None:
        async with background(lambda: served(tmp_path, "operator", "ada")) as service:
            client = AsyncClient(service.url, service.secrets["ada"], retry_for_s=0.2)
            stage = Stage(client, "h100", period_us=US_PER_S // 20)
            stage.start()
            await stage.until(lambda: bool(stage.said("begins")))
        await stage.until(lambda: bool(stage.said("trouble")))
        await stage.end()
        assert "they expire by themselves" in stage.entries[-1].why
        await client.close()

    asyncio.run(scene())


def test_a_revoked_token_ends_it(real: Served, pool: Pool) -> None:
    """There is no use in trying again with a token that is no longer good."""
    made = pool.operator.create_token("tenant", tenant="ada")

    async def scene(_: AsyncClient) -> None:
        async with AsyncClient(real.url, made.secret) as client:
            stage = Stage(client, pool.tree, period_us=US_PER_S // 20)
            pool.add("a")
            stage.start()
            await stage.until(lambda: bool(stage.app.nodes))
            await asyncio.to_thread(pool.operator.revoke_token, made.info.token)
            assert stage.running is not None
            with pytest.raises(Unauthenticated):
                async with asyncio.timeout(PATIENCE_S):
                    await stage.running

    play(real, scene)


# --- money --------------------------------------------------------------------------------------


def test_it_never_owes_more_than_its_budget(real: Served, pool: Pool) -> None:
    """At ten dollars a second and a budget of eight, it stops in time, whatever was owed before."""
    pool.add("a", "b")
    pool.operator.set_floor(pool.tree, "36000")
    budget_micros = 8 * DOLLAR

    async def scene(client: AsyncClient) -> None:
        before = (await client.bill()).charge
        budget = Budget(budget_micros)
        stage = Stage(
            client, pool.tree, limit=40_000 * DOLLAR, period_us=US_PER_S // 10, budget=budget
        )
        stage.start()
        await stage.until(lambda: bool(stage.said("won")))
        await stage.until(lambda: bool(stage.said("lost")))
        await stage.end()
        owed = (await client.bill()).charge - before
        assert 0 < owed <= budget_micros * CHARGE_UNITS_PER_MICRO_DOLLAR
        assert "budget" in stage.said("release")[0].why

    play(real, scene)


def test_a_budget_goes_on_after_a_restart(real: Served, pool: Pool, tmp_path: Path) -> None:
    """What was charged before the restart is still charged to the budget."""
    pool.add("a")
    path = tmp_path / "memory"
    bill = pool.ada.bill().charge
    spent = 7_900_000 * CHARGE_UNITS_PER_MICRO_DOLLAR  # ten cents are left, for two minutes
    AdapterMemory(Remembered("keeper", 0, bill - spent), path).save()

    async def scene(client: AsyncClient) -> None:
        kept = read_memory(path, "keeper")
        assert kept is not None
        stage = Stage(
            client, pool.tree, budget=Budget(8 * DOLLAR), memory=AdapterMemory(kept, path)
        )
        stage.start()
        await stage.until(lambda: bool(stage.said("place")))
        # An order has two thirds of what two minutes bear.
        assert stage.said("place")[0].limit == 2 * DOLLAR
        await stage.end()

    play(real, scene)


# --- a dry run, and memory ----------------------------------------------------------------------


def test_a_dry_run_sends_nothing(real: Served, pool: Pool, tmp_path: Path) -> None:
    """It says what it would do, and the market's sequence number stays where it is."""
    pool.add("a")
    path = tmp_path / "memory"

    async def scene(client: AsyncClient) -> None:
        before = (await client.status()).sequence
        stage = Stage(
            client, pool.tree, dry_run=True, memory=AdapterMemory(Remembered("keeper", 0), path)
        )
        stage.start()
        assert stage.running is not None
        await stage.running
        [would] = stage.said("place")
        assert would.is_rehearsal and sentence(would).startswith("would order one under")
        assert (await client.status()).sequence == before
        assert not path.exists()

    play(real, scene)


def test_a_memory_that_is_damaged_is_refused(tmp_path: Path) -> None:
    """Half a file, no JSON and somebody else's memory are each refused with what to do."""
    path = tmp_path / "memory"
    assert read_memory(path, "keeper") is None
    memory = AdapterMemory(Remembered("keeper", 3, whys={"keeper.0": "why"}), path)
    memory.save()
    whole = path.read_bytes()
    assert read_memory(path, "keeper") == memory.kept
    for damaged in (whole[:-5], b"", b"\xff", b"[]"):
        path.write_bytes(damaged)
        with pytest.raises(BadMemory, match="--fresh"):
            read_memory(path, "keeper")
    path.write_bytes(whole)
    with pytest.raises(BadMemory, match="named 'keeper', not 'other'"):
        read_memory(path, "other")
    assert [each.name for each in tmp_path.iterdir()] == ["memory"]


def test_two_can_not_run_with_one_memory(tmp_path: Path) -> None:
    """The second is told so while the first runs, and no longer; what can't be locked, because
    nothing can be written there, is not."""
    path = tmp_path / "memory"
    with (
        alone_with(path),
        pytest.raises(BadMemory, match="is running already; stop it first"),
        alone_with(path),
    ):
        raise AssertionError("there are two")
    with alone_with(path), alone_with(tmp_path / "other"):
        pass
    with alone_with(tmp_path / "no-such-folder" / "memory"):
        pass


def test_a_memory_that_cannot_be_written_is_warned_of_once(
    real: Served, pool: Pool, tmp_path: Path
) -> None:
    """It trades on, because a runner that stops holds its nodes without anybody stepping."""
    pool.add("a")
    memory = AdapterMemory(Remembered("keeper", 0), tmp_path / "no-such-folder" / "memory")

    async def scene(client: AsyncClient) -> None:
        stage = Stage(client, pool.tree, memory=memory, period_us=US_PER_S // 50)
        stage.start()
        await stage.until(lambda: bool(stage.app.nodes))
        await asyncio.sleep(0.1)
        await stage.end()
        assert len(stage.said("warning")) == 1

    play(real, scene)


def test_a_wait_never_swallows_that_it_is_cancelled() -> None:
    """Whoever is cancelled while it waits ends, at whatever moment that comes."""

    async def for_ever(stop: asyncio.Event) -> None:
        while True:
            await unless_stopped(asyncio.sleep(0), stop)
            await pause(0, stop)

    async def scene() -> None:
        for turns in range(40):
            waiting = asyncio.create_task(for_ever(asyncio.Event()))
            for _ in range(turns):
                await asyncio.sleep(0)
            waiting.cancel()
            async with asyncio.timeout(PATIENCE_S):
                with pytest.raises(asyncio.CancelledError):
                    await waiting

    asyncio.run(scene())


# --- what a person should be told -----------------------------------------------------------------


def test_a_scope_that_does_not_exist_is_told_once_and_holds_nothing_up(
    real: Served, pool: Pool
) -> None:
    """The next scope is taken beside it, and the refusal is one line, however many steps."""
    pool.add("g0")

    async def scene(client: AsyncClient) -> None:
        stage = Stage(client, pool.tree, period_us=US_PER_S // 20)
        scopes = (f"{pool.tree}/nowhere", pool.tree)
        stage.adapter = msgspec.structs.replace(
            stage.adapter, terms=msgspec.structs.replace(stage.terms, scopes=scopes), nodes=2
        )
        stage.start()
        await stage.until(lambda: len(stage.said("won")) == 1)
        steps = len(stage.said("order"))
        await asyncio.sleep(0.5)
        assert [entry.code for entry in stage.said("refused")] == ["unknown_scope"]
        assert len(stage.said("order")) <= steps + 1
        await stage.end()

    play(real, scene)


def test_a_tree_that_does_not_exist_is_warned_of(real: Served, pool: Pool) -> None:
    """With the names of those that there are."""
    pool.add("g0")

    async def scene(client: AsyncClient) -> None:
        stage = Stage(client, "B200", dry_run=True)
        stage.start()
        assert stage.running is not None
        await stage.running
        [warning] = stage.said("warning")
        assert "there is no tree B200" in warning.why and pool.tree in warning.why

    play(real, scene)


def test_a_deadline_that_has_passed_is_told_once(real: Served, pool: Pool) -> None:
    """The work goes on, and somebody should know."""
    pool.add("g0")

    async def scene(client: AsyncClient) -> None:
        stage = Stage(client, pool.tree, period_us=US_PER_S // 20)
        stage.app.deadline_us = 1
        stage.start()
        await stage.until(lambda: len(stage.said("warning")) == 1)
        await asyncio.sleep(0.3)
        await stage.end()
        [warning] = stage.said("warning")
        assert warning.why.startswith("the deadline has passed")

    play(real, scene)
