"""The live runner with notice, commitment and gangs: what its adapter sees, and what in time."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from client_pool import Pool
from laissez.adapters.econ import EconAdapter
from laissez.adapters.intent import TradingTerms
from laissez.adapters.view import (
    Action,
    GangAsk,
    HoldingCall,
    MarketView,
    NodeBond,
    OrderGang,
    PromisedNode,
    TreeTerms,
)
from laissez.client import AsyncClient
from laissez.model import Amended, Holding, OpenOrder, Placed, PlaceOrder, Promise, Release
from laissez.model.values import CHARGE_UNITS_PER_MICRO_DOLLAR
from laissez.runners.entries import RunnerEntry, sentence
from laissez.runners.live import LiveRun
from serving import Served
from test_live_runner import DOLLAR, US_PER_S, Stage, play
from toy import Crew

WHY = "the test asks for it"


class Scripted:
    """Does what a test tells it to, once, and keeps what it sees."""

    def __init__(self, tree: str, *asks: GangAsk) -> None:
        self.terms = TradingTerms("keeper", (tree,), 60 * US_PER_S)
        self.asks = asks
        self.views: list[MarketView] = []
        self.todo: list[Action] = []

    def scopes_to_quote(self, app: Any, holdings: Sequence[Holding]) -> tuple[str, ...]:
        return self.terms.scopes

    def gangs_to_quote(self, app: Any, holdings: Sequence[Holding]) -> tuple[GangAsk, ...]:
        return self.asks

    def step(self, app: Any, view: MarketView, at_us: int) -> tuple[Action, ...]:
        self.views.append(view)
        todo, self.todo = tuple(self.todo), []
        return todo


class Scene:
    """A run for Ada with a script, stepped by the test."""

    def __init__(self, client: AsyncClient, pool: Pool, *asks: GangAsk) -> None:
        self.script = Scripted(pool.tree, *asks)
        self.app = Crew(0, speeds={pool.tree: 1.0})
        self.entries: list[RunnerEntry] = []
        self.run = LiveRun(client, self.script, self.app, None, self.entries.append, False)

    async def does(self, *actions: OrderGang | PlaceOrder | Release) -> MarketView:
        """What it sees in the step after these."""
        self.script.todo += [Action(do, WHY) for do in actions]
        await self.run.step()
        return await self.sees()

    async def sees(self) -> MarketView:
        await self.run.step()
        return self.script.views[-1]

    def said(self, what: str) -> list[RunnerEntry]:
        return [entry for entry in self.entries if entry.what == what]


@pytest.fixture(autouse=True)
def _leave_nothing(pool: Pool) -> Any:
    yield
    pool.operator.set_guard(pool.tree)
    for client in (pool.ada, pool.dalia):
        for order in client.orders():
            client.cancel(order.order)
        own: list[Holding | Promise] = [*client.holdings(), *client.promises()]
        for each in own:
            client.release(each.resource)


def gang_of_two(pool: Pool, order: str, dollars: int = 4) -> OrderGang:
    return OrderGang(pool.tree, 2, 2, dollars * DOLLAR, f"keeper.{order}", None)


# --- what it sees ---------------------------------------------------------------------------------


def test_the_view_has_calls_promises_bonds_terms_and_quotes_for_several(
    real: Served, pool: Pool
) -> None:
    """All that binds a tenant is there, as the exchange tells it; what is called binds no more."""
    pool.operator.set_guard(pool.tree, notice="20s", commit="30s")
    pool.add("d0/a", "d0/b", "d1/a", "d1/b", "d2/a", "d2/b")
    pool.dalia.place(pool.tree, count=2, within=2, limit="9.00")
    theirs = {each.resource.split("/")[1] for each in pool.dalia.holdings()}
    pool.dalia.place(pool.tree, count=2, within=2, limit="3.00")
    ask = GangAsk(pool.tree, 2, 2)

    async def scene(client: AsyncClient) -> None:
        acts = Scene(client, pool, ask, GangAsk(pool.tree, 5, 2), GangAsk(f"{pool.tree}/no", 2))
        view = await acts.does(gang_of_two(pool, "own"), gang_of_two(pool, "coming"))
        assert view.terms == {pool.tree: TreeTerms(20 * US_PER_S, 30 * US_PER_S)}
        own = {each.resource: each for each in view.holdings}
        assert len(own) == len(view.promises) == 2 and not view.calls
        assert view.bonds == {
            path: NodeBond(held.since + 30 * US_PER_S, 4 * DOLLAR) for path, held in own.items()
        }
        until_us = {each.resource: each.until for each in pool.ada.promises()}
        assert view.promises == {
            path: PromisedNode(until_us[path], 4 * DOLLAR, "keeper.coming") for path in until_us
        }
        assert not {path.split("/")[1] for path in view.promises} & theirs
        quote = await client.quote(pool.tree, count=2, within=2)
        assert quote.rate is not None and view.gang_quotes[ask].rate == quote.rate
        assert view.gang_quotes[GangAsk(pool.tree, 5, 2)].rate is None
        assert len(view.gang_quotes) == 2, "what it may not see has no quote"
        assert [*view.quotes] == [pool.tree]

        left, right = sorted(own)
        await asyncio.to_thread(pool.dalia.place, left, price="5.00", limit="6.00")
        [called] = [each for each in await client.holdings() if each.resource == left]
        assert called.called_until is not None
        view = await acts.sees()
        assert view.calls == {left: HoldingCall(called.called_until, "outbid")}
        assert [*view.bonds] == [right]

    play(real, scene)


def test_a_tree_without_terms_has_none(real: Served, pool: Pool) -> None:
    pool.add("a")

    async def scene(client: AsyncClient) -> None:
        view = await Scene(client, pool).does(PlaceOrder(pool.tree, None, 3 * DOLLAR, "keeper.0"))
        assert len(view.holdings) == 1
        assert not (view.calls or view.promises or view.bonds or view.gang_quotes)
        assert pool.tree not in view.terms

    play(real, scene)


# --- gangs ----------------------------------------------------------------------------------------


def test_a_gang_is_ordered_and_each_of_its_nodes_is_explained(real: Served, pool: Pool) -> None:
    """One order of two; both wins name it and give its reason, not only the first."""
    pool.add("d0/a", "d1/a", "d1/b")

    async def scene(client: AsyncClient) -> None:
        acts = Scene(client, pool)
        await acts.does(gang_of_two(pool, "0"))
        [placed], won = acts.said("place"), acts.said("won")
        assert (placed.count, placed.limit, placed.price) == (2, 4 * DOLLAR, None)
        assert sentence(placed).startswith(f"order 2 together under {pool.tree} (keeper.0)")
        assert [each.resource for each in won] == [f"{pool.tree}/d1/a", f"{pool.tree}/d1/b"]
        for each in won:
            assert (each.order, each.why, each.limit) == ("keeper.0", WHY, 4 * DOLLAR)
        assert not acts.said("refused")

    play(real, scene)


def test_a_refused_gang_says_so_once(real: Served, pool: Pool) -> None:
    pool.add("d0/a")

    async def scene(client: AsyncClient) -> None:
        acts = Scene(client, pool)
        for _ in range(2):
            await acts.does(gang_of_two(pool, "0"))
        assert [each.code for each in acts.said("refused")] == ["domain_too_small"]

    play(real, scene)


def test_everybody_who_may_see_a_gang_sees_how_many_within_what(real: Served, pool: Pool) -> None:
    """Its tenant and the operator, in lists and streams, when it is placed and when amended."""
    pool.add("d0/a", "d0/b")
    pool.dalia.place(pool.tree, count=2, within=2, limit="9.00")

    async def scene(client: AsyncClient) -> None:
        async with AsyncClient(real.url, real.secrets["operator"]) as operator:
            readers = [await each.open_reader(None, True, ()) for each in (client, operator)]
            view = await Scene(client, pool).does(gang_of_two(pool, "0"))
            waiting = OpenOrder("ada", "keeper.0", pool.tree, None, 4 * DOLLAR, None, 2, 2)
            assert view.orders == (waiting,) == await operator.orders("ada")
            await client.amend("keeper.0", limit="5.00")
            for reader, order in zip(readers, ("keeper.0", "ada/keeper.0"), strict=True):
                heard: list[Any] = []
                async with asyncio.timeout(10):
                    while not any(isinstance(each, Amended) for each in heard):
                        for said in await reader.take():
                            heard += getattr(said, "events", ())
                told = [each for each in heard if isinstance(each, Placed | Amended)]
                assert [type(each) for each in told] == [Placed, Amended]
                for each in told:
                    assert (each.order, each.price, each.count, each.within) == (order, None, 2, 2)
            for asker, reader in zip((client, operator), readers, strict=True):
                asker.close_reader(reader)

    play(real, scene)


def test_what_was_promised_is_told_and_explained_when_it_comes(real: Served, pool: Pool) -> None:
    """The order is gone from the list meanwhile, and its reason is not."""
    pool.operator.set_guard(pool.tree, notice="20s")
    pool.add("d0/a", "d0/b")
    pool.dalia.place(pool.tree, count=2, within=2, limit="3.00")

    async def scene(client: AsyncClient) -> None:
        acts = Scene(client, pool)
        view = await acts.does(gang_of_two(pool, "0"))
        assert view.orders == () and len(view.promises) == 2
        promised = acts.said("promised")
        assert {each.resource for each in promised} == set(view.promises)
        for each in promised:
            assert (each.order, each.limit, each.why) == ("keeper.0", 4 * DOLLAR, WHY)
            assert each.until == each.at + 20 * US_PER_S
            assert sentence(each).startswith(f"promised {each.resource} with the order keeper.0")
        await acts.sees()
        for path in sorted(view.promises):
            await asyncio.to_thread(pool.dalia.release, path)
            await acts.sees()
        assert [each.why for each in acts.said("won")] == [WHY, WHY]
        assert [each.limit for each in acts.said("won")] == [4 * DOLLAR] * 2

    play(real, scene)


def test_it_does_not_end_before_what_is_promised_has_come(real: Served, pool: Pool) -> None:
    """Its work is done, but what is on its way will be charged; at the end it is given back, or
    said to be coming."""
    pool.operator.set_guard(pool.tree, notice="20s", commit="1s")
    pool.add("d0/a", "d0/b")
    pool.dalia.place(pool.tree, count=2, within=2, limit="3.00")

    async def scene(client: AsyncClient) -> None:
        acts = Scene(client, pool)
        await acts.does(gang_of_two(pool, "0"))
        acts.app._ends_us = 0
        assert not await acts.run.step()
        await acts.run.end(release=False)
        assert acts.entries[-1].why.startswith("on its way, and charged from then: ")
        again = Scene(client, pool)
        await again.run.end(release=True)
        assert again.entries[-1].why == "nothing is held" and await client.promises() == ()
        await acts.run.listening.close()
        await again.run.listening.close()

    play(real, scene)


# --- in time --------------------------------------------------------------------------------------


def crew_stage(client: AsyncClient, pool: Pool, vacate_s: float | None) -> Stage:
    """A crew of one worth $3/h, which steps once a minute unless it is woken."""
    stage = Stage(client, pool.tree)
    stage.app = Crew(speeds={pool.tree: 1.0}, vacate_s=vacate_s)  # type: ignore[assignment]
    stage.adapter = EconAdapter(stage.terms, 3.0 * DOLLAR)  # type: ignore[assignment]
    return stage


def test_a_called_job_saves_and_releases_within_its_notice(real: Served, pool: Pool) -> None:
    """Called by a bid, it takes 1.5 s to save and is gone at once then; the notice is 8 s."""
    pool.operator.set_guard(pool.tree, notice="8s")
    pool.add("a")

    async def scene(client: AsyncClient) -> None:
        stage = crew_stage(client, pool, 1.5)
        stage.start()
        await stage.until(lambda: len(stage.said("won")) == 1)
        await asyncio.sleep(0.6)
        await asyncio.to_thread(pool.dalia.place, pool.tree, price="9.00", order="rival")
        await stage.until(lambda: bool(stage.said("lost")))
        [called], [vacate], [lost] = (stage.said(what) for what in ("called", "vacate", "lost"))
        assert called.until == called.at + 8 * US_PER_S
        assert sentence(called).startswith(
            f"called from {pool.tree}/a (outbid), to be gone within 8 s: somebody offered more"
        )
        assert f'"until_us":{called.until}' in msgspec.json.encode(called).decode()
        assert vacate.at - called.at < US_PER_S, "it was woken at once"
        assert 1.5 <= (lost.at - vacate.at) / US_PER_S < 3.5, "it left when it was ready"
        assert lost.reason == "relinquished" and "nothing to lose any more" in lost.why
        assert [each.resource for each in await asyncio.to_thread(pool.dalia.holdings)]
        await stage.end()

    play(real, scene)


def test_whoever_is_called_no_more_goes_on_at_once(real: Served, pool: Pool) -> None:
    pool.operator.set_guard(pool.tree, notice="20s")
    pool.add("a")

    async def scene(client: AsyncClient) -> None:
        stage = crew_stage(client, pool, 10.0)
        stage.start()
        await stage.until(lambda: len(stage.said("won")) == 1)
        await asyncio.to_thread(pool.dalia.place, pool.tree, price="9.00")
        await stage.until(lambda: bool(stage.said("vacate")))
        await asyncio.sleep(1.2)  # it looks once more by itself, now that it saves
        begun = time.monotonic()
        await asyncio.to_thread(pool.dalia.release, f"{pool.tree}/a")
        await stage.until(lambda: bool(stage.said("stay")))
        assert time.monotonic() - begun < 3
        assert len(stage.said("uncalled")) == 1 and stage.app.vacating == {}
        await stage.end()
        assert len(await client.holdings()) == 1

    play(real, scene)


def test_a_promise_wakes(real: Served, pool: Pool) -> None:
    """A gang that waits is promised its nodes when their holder follows less far."""
    pool.operator.set_guard(pool.tree, notice="20s")
    pool.add("d0/a", "d0/b")
    pool.dalia.place(pool.tree, count=2, within=2, limit="9.00")

    async def scene(client: AsyncClient) -> None:
        stage = Stage(client, pool.tree)
        script = Scripted(pool.tree)
        script.todo = [Action(gang_of_two(pool, "0"), WHY)]
        stage.adapter, stage.app = script, Crew(0)  # type: ignore[assignment]
        stage.start()
        await stage.until(lambda: bool(stage.said("place")))
        await asyncio.sleep(0.6)
        begun = time.monotonic()
        for path in ("d0/a", "d0/b"):
            await asyncio.to_thread(pool.dalia.set_limit, f"{pool.tree}/{path}", "3.00")
        await stage.until(lambda: len(script.views[-1].promises) == 2)
        assert time.monotonic() - begun < 3
        await stage.end()

    play(real, scene)


def test_who_is_drained_and_bound_saves_and_stays_till_the_end(real: Served, pool: Pool) -> None:
    """What is withdrawn is charged no further; to leave before would cost the whole commitment."""
    pool.operator.set_guard(pool.tree, commit="1h")
    pool.add("a")

    async def scene(client: AsyncClient) -> None:
        stage = crew_stage(client, pool, 0.2)
        before = (await client.bill()).charge
        stage.start()
        await stage.until(lambda: len(stage.said("won")) == 1)
        deadline_us = (await client.status()).at + 3 * US_PER_S
        cordon = pool.operator.cordon
        await asyncio.to_thread(lambda: cordon(pool.tree, deadline=deadline_us))
        await stage.until(lambda: bool(stage.said("lost")))
        assert len(stage.said("vacate")) == 1 and stage.said("release") == []
        [called], [lost] = stage.said("called"), stage.said("lost")
        assert called.reason == lost.reason == "withdrawn" and called.until == deadline_us
        charge = (await client.bill()).charge - before
        assert charge < CHARGE_UNITS_PER_MICRO_DOLLAR * DOLLAR // 10, "no commitment was charged"
        await stage.end()

    play(real, scene)
    pool.operator.uncordon(pool.tree)
