"""The operator's runner against the real service: floors follow telemetry, and are explained."""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from client_pool import Pool
from laissez.client import AsyncClient, NotPermitted
from laissez.inframaps import Composition, Gangs, Guards, Maintenance, PowerHeadroom, Window
from laissez.model import ChangeGuard
from laissez.runners.entries import RunnerEntry, sentence
from laissez.runners.operating import run_inframap
from laissez.telemetry import Feed, Reading, Steady, Telemetry
from serving import Served, served

DOLLAR = 1_000_000
US_PER_S = 1_000_000
PATIENCE_S = 20.0


class Meter:
    """Telemetry whose value the test turns."""

    def __init__(self) -> None:
        self.drawn: float | None = 0.5

    async def read(self, at_us: int) -> Reading | None:
        return None if self.drawn is None else Reading(self.drawn, at_us)

    async def close(self) -> None:
        pass

    def telemetry(self) -> Telemetry:
        steady = Steady(stale_after_us=60 * US_PER_S, drift_us=US_PER_S, default=0.7)
        return Telemetry({"row_1": Feed(self, steady)})


class Stage:
    """A composition that runs for the operator, and what it says."""

    def __init__(self, client: AsyncClient, composition: Composition, **options: Any) -> None:
        self.entries: list[RunnerEntry] = []
        self.stop = asyncio.Event()
        self.running = asyncio.create_task(
            run_inframap(
                client,
                composition,
                name="map",
                stop=self.stop,
                log=self.entries.append,
                **options,
            )
        )

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                if self.running.done():
                    self.running.result()
                    raise AssertionError(f"it has ended: {self.entries}")
                await asyncio.sleep(0.005)

    async def end(self) -> None:
        self.stop.set()
        async with asyncio.timeout(PATIENCE_S):
            await self.running

    def said(self, what: str) -> list[RunnerEntry]:
        return [entry for entry in self.entries if entry.what == what]


def composition(tree: str, period_us: int = US_PER_S // 20) -> Composition:
    power = PowerHeadroom({f"{tree}/r1": "row_1"})
    return Composition({tree: 2 * DOLLAR}, {}, ((1.0, power),), period_us=period_us)


def play(real: Served, scene: Callable[[AsyncClient], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with AsyncClient(real.url, real.secrets["operator"]) as client:
            await scene(client)

    asyncio.run(main())


def floors(pool: Pool) -> dict[str, int]:
    found = pool.operator.floors().floors
    return {scope: floor for scope, floor in found.items() if scope.startswith(f"{pool.tree}")}


def test_floors_follow_telemetry(real: Served, pool: Pool) -> None:
    """A row that runs short of power becomes dear, with the reason, and cheap again after."""
    pool.add("r1/a", "r2/a")
    meter = Meter()

    async def scene(client: AsyncClient) -> None:
        stage = Stage(client, composition(pool.tree), telemetry=meter.telemetry())
        await stage.until(lambda: bool(stage.entries))
        meter.drawn = 0.825
        row = f"{pool.tree}/r1"
        await stage.until(lambda: floors(pool).get(row) == 5 * DOLLAR // 2)
        [raised] = stage.said("floor")
        assert (raised.scope, raised.floor) == (row, 5 * DOLLAR // 2)
        assert raised.why == f"base 2.00, power +25.0% at {row}"
        assert sentence(raised).startswith(f"set the floor of {row} to $2.50/h")
        meter.drawn = 0.5
        await stage.until(lambda: row not in floors(pool))
        await stage.end()
        assert stage.entries[-1].why == "the floors stay as they are"

    play(real, scene)


def test_telemetry_that_goes_is_warned_of_once(real: Served, pool: Pool) -> None:
    """The price is held meanwhile, and its return is said, too."""
    pool.add("r1/a", "r2/a")
    meter = Meter()
    meter.drawn = 0.825
    row = f"{pool.tree}/r1"

    async def scene(client: AsyncClient) -> None:
        stage = Stage(client, composition(pool.tree), telemetry=meter.telemetry())
        await stage.until(lambda: row in floors(pool))
        meter.drawn = None
        await stage.until(lambda: bool(stage.said("warning")))
        await asyncio.sleep(0.2)
        assert floors(pool)[row] == 5 * DOLLAR // 2
        meter.drawn = 0.825
        await stage.until(lambda: len(stage.said("warning")) == 2)
        await stage.end()
        assert "is read again" in stage.said("warning")[1].why

    play(real, scene)


def test_a_restart_makes_no_dip(real: Served, pool: Pool) -> None:
    """While a source has not answered yet the floors stay as they are; then they follow it."""
    pool.add("r1/a", "r2/a")
    row = f"{pool.tree}/r1"
    pool.operator.set_floor(pool.tree, "2.00")
    pool.operator.set_floor(row, "2.50")
    meter = Meter()
    meter.drawn = None

    async def scene(client: AsyncClient) -> None:
        stage = Stage(client, composition(pool.tree), telemetry=meter.telemetry())
        await stage.until(lambda: bool(stage.said("warning")))
        await asyncio.sleep(0.2)
        assert "is waited for" in stage.said("warning")[0].why
        assert stage.said("floor") == []
        meter.drawn = 0.9
        await stage.until(lambda: floors(pool)[row] == 4 * DOLLAR)
        await stage.end()
        assert [entry.floor for entry in stage.said("floor")] == [4 * DOLLAR]

    play(real, scene)


def test_a_source_that_never_answers_is_not_waited_for_for_ever(real: Served, pool: Pool) -> None:
    """After the time for which a reading would be held, its default is taken."""
    pool.add("r1/a", "r2/a")
    row = f"{pool.tree}/r1"
    pool.operator.set_floor(row, "2.50")
    meter = Meter()
    meter.drawn = None
    steady = Steady(stale_after_us=US_PER_S // 2, drift_us=US_PER_S, default=0.7)

    async def scene(client: AsyncClient) -> None:
        telemetry = Telemetry({"row_1": Feed(meter, steady)})
        stage = Stage(client, composition(pool.tree), telemetry=telemetry)
        await stage.until(lambda: row not in floors(pool))
        await stage.end()
        said = [entry.why for entry in stage.said("warning")]
        assert ["is waited for" in why for why in said] == [True, False]
        assert "is not known" in said[1]

    play(real, scene)


def test_a_scope_without_a_resource_is_warned_of(real: Served, pool: Pool) -> None:
    """A slip in a name is said once, at the start; what is in the inventory is no slip."""
    pool.add("r1/a")
    scopes = (pool.tree, f"{pool.tree}/r1", f"{pool.tree}/r11", f"{pool.tree}/r2")

    async def scene(client: AsyncClient) -> None:
        stage = Stage(
            client, composition(pool.tree), scopes=scopes, inventory={f"{pool.tree}/r2/a": {}}
        )
        await stage.until(lambda: bool(stage.said("warning")))
        await stage.end()
        [warning] = stage.said("warning")
        assert warning.why.startswith(f"there is no resource under {pool.tree}/r11; check")

    play(real, scene)


def test_a_slow_fall_is_logged_once(real: Served, pool: Pool) -> None:
    """Where a guard brings a floor down slowly it is asked for again, quietly."""
    pool.add("r1/a", "r2/a")
    pool.operator.set_floor(pool.tree, "2.30")
    pool.operator.set_guard(pool.tree, fall="0.10", window="200ms")

    async def scene(client: AsyncClient) -> None:
        stage = Stage(client, composition(pool.tree))
        await stage.until(lambda: floors(pool)[pool.tree] == 2 * DOLLAR)
        await stage.end()
        assert len(stage.said("floor")) == 1

    play(real, scene)


def test_the_base_prices_can_be_restored(real: Served, pool: Pool) -> None:
    """With restore_to, the floors at the end are those of a composition without maps."""
    pool.add("r1/a", "r2/a")
    meter = Meter()
    meter.drawn = 0.9
    at_rest = Composition({pool.tree: 2 * DOLLAR}, {}, ())

    async def scene(client: AsyncClient) -> None:
        stage = Stage(
            client, composition(pool.tree), telemetry=meter.telemetry(), restore_to=at_rest
        )
        await stage.until(lambda: f"{pool.tree}/r1" in floors(pool))
        await stage.end()
        assert stage.entries[-1].why == "the floors are back at the base prices"

    play(real, scene)
    assert floors(pool) == {pool.tree: 2 * DOLLAR}


def test_a_dry_run_changes_nothing(real: Served, pool: Pool) -> None:
    """It says what it would set, and sends nothing."""
    pool.add("r1/a", "r2/a")
    pool.operator.set_floor(pool.tree, "3.00")

    async def scene(client: AsyncClient) -> None:
        before = (await client.status()).sequence
        stage = Stage(client, composition(pool.tree), dry_run=True)
        await stage.running
        [would] = stage.said("floor")
        assert would.is_rehearsal and sentence(would).startswith("would set the floor of")
        assert (await client.status()).sequence == before

    play(real, scene)


@pytest.mark.parametrize("knows_cluster", [True, False])
def test_a_window_empties_its_row_and_fills_it_again(
    real: Served, pool: Pool, knows_cluster: bool
) -> None:
    """At the opening what is there is withdrawn, at the closing it is offered again, at its own
    instant and not at the next period; what was seen will do if no cluster file says it."""
    pool.add("r1/a", "r2/a")
    now_us = pool.operator.status().at
    window = Window(f"{pool.tree}/r1", now_us + US_PER_S // 2, now_us + US_PER_S)
    steered = Composition(
        {pool.tree: 2 * DOLLAR}, {}, ((1.0, Maintenance((window,), lead_us=0)),), period_us=10**9
    )
    path = f"{pool.tree}/r1/a"
    inventory = {path: {"rack": "r1"}} if knows_cluster else None

    async def scene(client: AsyncClient) -> None:
        stage = Stage(client, steered, inventory=inventory)
        await stage.until(lambda: bool(stage.said("withdraw")))
        await stage.until(lambda: bool(stage.said("offer")))
        await stage.until(lambda: bool(pool.operator.resources(path)))
        await stage.end()
        assert stage.said("withdraw")[0].resource == stage.said("offer")[0].resource == path

    play(real, scene)
    [back] = pool.operator.resources(path)
    assert back.attributes == ({"rack": "r1"} if knows_cluster else {"levels": "zone/gpu"})


def test_a_tenant_may_not_steer(real: Served, pool: Pool) -> None:
    """A token that may not do this ends it at once."""

    async def scene(_: AsyncClient) -> None:
        async with AsyncClient(real.url, real.secrets["ada"]) as client:
            stage = Stage(client, composition(pool.tree))
            with pytest.raises(NotPermitted):
                await stage.running

    play(real, scene)


def test_it_outlives_a_lost_exchange(tmp_path: Path) -> None:
    """While the exchange is away it waits, says so once, and steers on when it is back."""
    meter = Meter()

    async def scene() -> None:
        first = served(tmp_path, "operator")
        service = await asyncio.to_thread(first.__enter__)
        url, secret = service.url, service.secrets["operator"]
        client = AsyncClient(url, secret, retry_for_s=0.3)
        await client.add_resource("h100/r1/a")
        stage = Stage(client, composition("h100"), telemetry=meter.telemetry())
        await stage.until(lambda: bool(stage.said("floor")))
        await asyncio.to_thread(first.__exit__, None, None, None)
        await stage.until(lambda: bool(stage.said("trouble")))
        again = served(tmp_path, port=int(url.rpartition(":")[2]))
        await asyncio.to_thread(again.__enter__)
        try:
            await stage.until(lambda: bool(stage.said("mended")))
            meter.drawn = 0.9
            await stage.until(lambda: len(stage.said("floor")) >= 2)
            await stage.end()
            assert len(stage.said("trouble")) == 1
            await client.close()
        finally:
            await asyncio.to_thread(again.__exit__, None, None, None)

    asyncio.run(scene())


# --- gangs and guards -----------------------------------------------------------------------------


def test_a_gang_that_waits_is_heard_and_filled(real: Served, pool: Pool) -> None:
    """Dalia keeps both nodes at any price, and leaves when they cost her too much: the map raises
    what they cost, step by step, until she does, and takes it back once the gang has them."""
    pool.add("d0/a", "d0/b", "d1/a")
    row = f"{pool.tree}/d0"
    pool.dalia.place(pool.tree, count=2, within=2, limit="20.00")
    pool.ada.place(f"{pool.tree}/d1/a", price="2.00", limit="20.00")
    voice = Gangs(patience_us=0, rise_us=US_PER_S, steps=4, lasts_us=60 * US_PER_S)
    maps = Composition({pool.tree: 2 * DOLLAR}, {}, ((1.0, voice),), period_us=US_PER_S // 20)

    async def scene(client: AsyncClient) -> None:
        pool.ada.place(pool.tree, count=2, within=2, limit="6.00", order="crew")
        assert [each.order for each in pool.ada.orders()] == ["crew"]
        stage = Stage(client, maps)
        await stage.until(lambda: floors(pool).get(row) == 6 * DOLLAR)
        raised = [each.floor or 0 for each in stage.said("floor") if each.scope == row]
        assert raised == sorted(raised) and len(raised) > 1, "it rises by steps"
        assert {each.rate for each in pool.dalia.holdings()} == {6 * DOLLAR}
        assert len(pool.ada.holdings()) == 1, "the gang itself throws nobody out"
        for holding in pool.dalia.holdings():
            await asyncio.to_thread(pool.dalia.release, holding.resource)
        assert pool.ada.orders() == () and len(pool.ada.holdings()) == 3
        await stage.until(lambda: row not in floors(pool))
        assert {each.rate for each in pool.ada.holdings()} == {2 * DOLLAR}
        await stage.end()

    play(real, scene)
    for holding in pool.ada.holdings():
        pool.ada.release(holding.resource)


def test_maps_that_ask_for_no_gangs_read_no_orders(
    real: Served, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All orders of all tenants are a long list, and most maps have no use for it."""
    pool.add("r1/a")
    read: list[object] = []
    monkeypatch.setattr(AsyncClient, "orders", read.append)

    async def scene(client: AsyncClient) -> None:
        stage = Stage(client, composition(pool.tree))
        await stage.until(lambda: bool(stage.entries))
        await stage.end()

    play(real, scene)
    assert read == []


def test_guards_leave_the_notice_of_a_tree_alone(real: Served, pool: Pool) -> None:
    """And bring back what they speak of, whoever switched it off; once each."""
    pool.add("a")
    pool.operator.set_guard(pool.tree, notice="30s", commit="40s")

    def stands() -> tuple[int | None, int | None, int | None]:
        guards = {each.tree: each for each in pool.operator.floors().guards}
        guard = guards[pool.tree]
        return guard.hold, guard.notice, guard.commit

    async def scene(client: AsyncClient) -> None:
        guard = ChangeGuard(pool.tree, hold=2 * US_PER_S, commit=20 * US_PER_S)
        maps = ((1.0, Guards((guard,))),)
        steering = Composition({pool.tree: 2 * DOLLAR}, {}, maps, period_us=US_PER_S // 20)
        stage = Stage(client, steering)
        await stage.until(lambda: bool(stage.said("guard")))
        await stage.until(lambda: stands() == (2 * US_PER_S, 30 * US_PER_S, 20 * US_PER_S))
        await asyncio.sleep(0.2)
        assert len(stage.said("guard")) == 1
        pool.operator.set_guard(pool.tree, notice="25s")
        await stage.until(lambda: stands() == (2 * US_PER_S, 25 * US_PER_S, 20 * US_PER_S))
        await stage.end()

    play(real, scene)
    pool.operator.set_guard(pool.tree)
