"""The benchmark of the simulator at scale measures what it says, here on a small cluster.

Nothing depends on a clock.
"""

import importlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from laissez.adapters.intent import TradingTerms
from laissez.model import Instruction, OfferResource, PlaceOrder, Release, WithdrawResource
from laissez.simulation.demand.projects import Serving, Training
from laissez.simulation.kernel.world import Tenant, World

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SECOND_US = 1_000_000


@pytest.fixture(scope="module")
def simulator() -> Any:
    """The benchmark as a module; it imports others from its own folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        return importlib.import_module("simulator")


def test_a_quick_run_has_every_figure() -> None:
    """The stream and one run with adapters, with as many requests as the tenants' rates say."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "simulator.py"), "--quick", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)
    alone, deciding = measured["figures"]
    assert measured["seed"] == 1
    assert (alone["what"], alone["goal"]) == ("requests alone", 5.0)
    assert (deciding["what"], deciding["goal"]) == ("deciding every 10 s", 1.0)
    # For 3 s, 8 tenants send 3 a second and 8 send 10.
    assert (alone["simulated_s"], alone["requests"]) == (3, 3 * 8 * 3 + 3 * 8 * 10)
    assert alone["nodes_held"] == measured["scale"]["nodes"]
    # For 10 s, 16 tenants step at least once each.
    assert deciding["steps"] >= measured["scale"]["tenants"] == 16
    assert min(deciding["requests"], deciding["nodes_held"]) > 0
    assert all(each["peak_bytes"] > 1 << 20 for each in measured["figures"])


def test_the_cluster_has_so_many_nodes_of_each_kind(simulator: Any) -> None:
    """10,000 nodes, half of each kind, in zones, racks, domains of 8; no two are the same."""
    paths = simulator.cluster(10_000)
    assert len(set(paths)) == 10_000
    assert Counter(path.split("/")[0] for path in paths) == {"h100": 5_000, "a100": 5_000}
    assert set(Counter(path.rpartition("/")[0] for path in paths).values()) == {8}
    assert [len({"/".join(path.split("/")[:n]) for path in paths}) for n in (2, 3, 4)] == [
        2 * 4,
        2 * 125,
        2 * 625,
    ]


def test_the_stream_is_what_it_says(simulator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """All nodes stay held, kinds of request come in their shares, and tenants know what the market
    knows of them."""
    stream = simulator.Stream(simulator.QUICK, seed=1)
    world: World = stream.world
    world.run(SECOND_US - 1)
    sent: Counter[str] = Counter()
    act = world.act

    def counted(who: str, do: Instruction, at_us: int) -> Any:
        sent[type(do).__name__] += 1
        return act(who, do, at_us)

    monkeypatch.setattr(world, "act", counted)
    world.run(60 * SECOND_US)
    total = sum(sent.values())
    assert total == pytest.approx(59 * (8 * 3 + 8 * 10), rel=0.01)
    mix = simulator.MIX
    assert sent["ChangeLimit"] / total == pytest.approx(mix["limit"], abs=0.02)
    assert sent["AmendOrder"] / total == pytest.approx(mix["amend"], abs=0.02)
    assert sent["CancelOrder"] / total == pytest.approx(mix["replace"], abs=0.02)
    assert 0.003 < sent["Release"] / total < mix["move"]
    assert 0 < stream.count.moves < 0.1 * total
    market = world.market
    for name, tenant in world.tenants.items():
        assert {*tenant.app.nodes, *tenant.arriving} == {*market.holdings(name)}
    assert sum(len(market.holdings(name)) for name in world.tenants) == simulator.QUICK.nodes


def test_the_stream_is_repeatable(simulator: Any) -> None:
    """The same seed gives the same market; another seed another one."""

    def digest(seed: int) -> str:
        stream = simulator.Stream(simulator.QUICK, seed)
        stream.world.run(5 * SECOND_US)
        return str(stream.world.market.digest())

    assert digest(1) == digest(1) != digest(2)


def test_half_train_and_half_serve(simulator: Any) -> None:
    """They arrive within a minute, stay as long as they were drawn to, and want more."""
    found = simulator.projects(8, seed=3)
    assert Counter(type(each.labour) for each in found) == {Serving: 4, Training: 4}
    assert all(0 <= each.arrives_us < 60 * SECOND_US for each in found)
    for each in found:
        drawn = simulator.project(3, int(each.name.split("-")[1]), simulator.FittedRequests())
        assert each.ends_us - each.arrives_us == drawn.ends_us - drawn.arrives_us
        if isinstance(each.labour, Serving):
            assert each.labour.trace.steps[0][0] == each.arrives_us
            assert each.labour.trace.end_us == each.ends_us
            wanted, usual = each.labour.requests, drawn.labour.requests
        else:
            assert each.labour.spec.deadline_us == each.ends_us
            wanted, usual = each.labour.spec.samples, drawn.labour.spec.samples
        assert wanted == pytest.approx(simulator.DEMAND * usual)


def test_what_is_won_back_at_once_is_never_on_its_way(simulator: Any) -> None:
    """A tenant gives up a node that its own order wins back, and then loses it to the operator
    before a handover would be over: its application does not keep it."""
    world = World(handover_us=lambda tenant: 50_000, keeps_log=False)
    node = "h100/z/g0"
    world.operate(OfferResource(node), 0)
    app = simulator.Held()
    quiet = simulator.Quiet(TradingTerms("t", ("h100",), SECOND_US), simulator.Count())
    world.join(Tenant("ada", quiet, app))
    world.act("ada", PlaceOrder("h100", 1, 1, "first"), 0)
    world.run(SECOND_US)
    assert app.nodes == [node]
    world.act("ada", PlaceOrder("h100", 1, 1, "second"), SECOND_US)
    world.act("ada", Release(node), SECOND_US)
    assert world.market.holdings("ada") == (node,)
    assert app.nodes == [node]
    world.operate_at(SECOND_US + 20_000, WithdrawResource(node))
    world.run(2 * SECOND_US)
    assert world.market.holdings("ada") == ()
    assert app.nodes == []
