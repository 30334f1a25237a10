"""A tenant's life, told as it was.

The small stories have one node, jobs of six minutes with a minute of cold start and a checkpoint
every two minutes, and limits that are written in the test: so what happens can be worked out by
hand, and does not depend on any policy of pricing. The mixed stories have real adapters, and there
only what must hold is tested, whatever they decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from laissez.adapters.adapter import Adapter
from laissez.adapters.footprint import Footprint
from laissez.adapters.intent import TradingTerms
from laissez.performance.application import Worth
from laissez.performance.inference import InferenceSpec, Load, LoadTrace, preset
from laissez.performance.training import Setup, TrainingSpec
from laissez.simulation.contracts.recording import micros
from laissez.simulation.contracts.registry import CONTRACTS
from laissez.simulation.contracts.setting import MarketGuards, Prices, Setting, Stint
from laissez.simulation.demand.population import HARDWARE
from laissez.simulation.demand.projects import Batch, Project, Serving, Training
from laissez.simulation.life.events import (
    Arrives,
    Bid,
    Bids,
    Ends,
    GivesBack,
    LimitMove,
    Loses,
    Misses,
    MovesLimits,
    RateMove,
    RatesMove,
    Receives,
)
from laissez.simulation.life.life import Life, UnknownTenant, life_of
from laissez.simulation.life.telling import tell, told_events
from laissez.simulation.life.watching import Diary, Moved
from laissez.simulation.life.writing import Writing
from laissez.simulation.scenarios.regimes import Alone, alone
from test_sim_gangs import rigid

MINUTE_US = 60_000_000
DOLLAR = 1_000_000
NODE = "h100/z0/r0/n0/h0/g0"
PRICES = Prices(
    {"h100": 6 * DOLLAR, "a100": 3 * DOLLAR},
    {"h100": 2 * DOLLAR, "a100": 1 * DOLLAR},
    {"h100": 3 * DOLLAR, "a100": 2 * DOLLAR},
)


class Fixed(Batch, frozen=True, kw_only=True, tag="fixed"):
    """A batch job that bids and keeps at one limit, whatever happens."""

    limit: int

    def adapter(self, app: Any, terms: TradingTerms, worth_micros: int) -> Adapter:
        return Footprint(terms, 1, self.limit)


def job(name: str, arrives_us: int, limit: int, *, may_preempt: bool = False) -> Project:
    """Who may not preempt may be preempted."""
    ends_us = arrives_us + 30 * MINUTE_US
    labour = Fixed(
        hours=0.1,
        speeds={"h100": 1.0},
        deadline_us=ends_us,
        cold_start_s=60.0,
        checkpoint_every_s=120.0,
        limit=limit,
        may_preempt=may_preempt,
        is_preemptible=not may_preempt,
    )
    return Project(name, arrives_us, ends_us, labour, ("h100",))


def story(budget_micros: int = 2 * DOLLAR) -> tuple[Setting, dict[str, Alone]]:
    """One node, and two who want it; the second arrives when the first has worked for three
    minutes, and offers more."""
    projects = (
        job("patient", 0, 4 * DOLLAR),
        job("pushy", 4 * MINUTE_US, 7 * DOLLAR, may_preempt=True),
    )
    budgets = {project.name: budget_micros for project in projects}
    setting = Setting((NODE,), PRICES, projects, budgets, 40 * MINUTE_US)
    return setting, {each.name: alone(each, setting, 0) for each in projects}


def lived(contract: str, tenant: str, budget_micros: int = 2 * DOLLAR) -> Life:
    setting, own = story(budget_micros)
    return life_of(setting, own, CONTRACTS[contract], 0, tenant)


def test_a_life_in_the_market_is_told() -> None:
    """It is outbid a minute after its checkpoint, waits until the other is done, and goes on."""
    assert tell(lived("market", "patient")) == [
        "patient under market, seed 0",
        "batch, from 00:00 to 30:00; budget $2.00",
        "alone: 0.119 node-hours for 100.0% of the work",
        "",
        "00:00  arrives",
        "00:00  bids $4.00/h for h100 (free, quoted at $3.00/h): it is to hold 1, and this is "
        "number 1",
        f"00:00  receives {NODE} at $3.00/h, having bid $4.00/h: adds 0.298 hours/h (1 at full "
        "use), once warm, in 60 s",
        f"04:00  loses {NODE}: pushy offered $7.00/h, more than its limit of $4.00/h; it costs "
        "0.214 hours/h (1 at full use); 60 s of work are to be done again; a successor is cold for "
        "60 s; had for 04:00, $0.20",
        "04:00  bids $4.00/h for h100 (not free, quoted at $3.00/h): it is to hold 1, and this is "
        "number 1",
        f"11:10  receives {NODE} at $3.00/h, having bid $4.00/h, after 07:10 of lacking: adds 0.31 "
        "hours/h (1 at full use), once warm, in 60 s",
        "16:20  is done",
        f"16:20  gives back {NODE}: the work is done; had for 05:10, $0.26",
        "30:00  ends",
        "",
        "retention 1.000: 100.0% of the work",
        "node-hours: 0.153 h100, of them 0.0389 cold; $0.46 spent, $3.00/h a node",
        "moves: 2 received, 1 lost, 1 given back; 16.6% of the work done twice",
        "had nothing, and lacked something, for 07:10 of 30:00",
        "lacked 0.179 hours/h for 23.9% of the time: nothing was free, and others keep their nodes "
        "at more than it bid",
    ]


def test_a_call_is_told() -> None:
    """Both sides of it. Nothing is saved in time, so the node is left at once, and the other has it
    a moment after it was promised."""
    setting, own = story()
    guards = {"h100": MarketGuards(10_000_000, None)}
    called = msgspec.structs.replace(setting, guards=guards)
    lives = {name: told_events(life_of(called, own, CONTRACTS["market"], 0, name)) for name in own}
    assert (
        f"04:00  is called to leave {NODE} by 04:10: others offered more than its limit"
        in lives["patient"]
    )
    assert any(f"gives back {NODE}: it is called" in line for line in lives["patient"])
    assert f"04:00  is promised {NODE}, by 04:10" in lives["pushy"]


def test_a_gang_that_waits_is_told() -> None:
    """Its order has no price; a gang that is not free is not free, though one node is."""
    projects = (job("patient", 0, 4 * DOLLAR), rigid("g", 60, 1_800, 200, 2))
    nodes = tuple(NODE.replace("g0", f"g{number}") for number in range(2))
    setting = Setting(
        nodes, PRICES, projects, {each.name: 2 * DOLLAR for each in projects}, 40 * MINUTE_US
    )
    own = {each.name: alone(each, setting, 0) for each in projects}
    told = told_events(life_of(setting, own, CONTRACTS["market"], 0, "g"))
    assert "for 2 together of h100 (not free, quoted at $3.00/h)" in told[1]


def test_a_life_in_a_line_is_told() -> None:
    """First come first served: who arrives second waits until the first is done."""
    life = lived("fcfs", "pushy")
    assert told_events(life) == [
        "04:00  arrives",
        "04:00  asks for 1 of h100",
        f"07:10  receives {NODE} at $6.00/h, after 03:10 of lacking: adds 0.321 hours/h (1 at full "
        "use), once warm, in 60 s",
        "07:10  asks for nothing",
        "14:20  is done",
        f"14:20  gives back {NODE}: the work is done; had for 07:10, $0.72",
        "34:00  ends",
    ]
    assert [(lack.reason, round(lack.lasts_us / 1e6)) for lack in life.summary.lacks] == [
        ("line", 190)
    ]


def test_a_preemption_is_told() -> None:
    """With preemption, who may be preempted loses its node to who may preempt, by name, and pays
    spot prices: four minutes at $2.00 an hour are 13 cents."""
    assert told_events(lived("fcfs_p", "patient"))[2:6] == [
        f"00:00  receives {NODE} at $2.00/h: adds 0.298 hours/h (1 at full use), once warm, in "
        "60 s",
        "00:00  asks for nothing",
        f"04:00  loses {NODE}: pushy may preempt it; it costs 0.214 hours/h (1 at full use); 60 s "
        "of work are to be done again; a successor is cold for 60 s; had for 04:00, $0.13",
        "04:00  asks for 1 of h100",
    ]


def test_a_budget_that_ends_is_told() -> None:
    """A node that can't be paid is given back, and what is lacking then lacks for want of money.

    Thirty cents pay for three minutes; two steps before, 20 s, it stops.
    """
    life = lived("fcfs", "patient", budget_micros=300_000)
    given = [event for event in life.events if isinstance(event, GivesBack)]
    assert [(event.at_us // 1_000_000, event.why) for event in given] == [
        (170, "the budget does not pay for it any more")
    ]
    assert told_events(life)[-2:] == [
        "02:50  would ask for 1 of h100; its budget pays for none",
        "30:00  ends",
    ]
    assert life.summary.lacks[0].reason == "budget"
    assert life.summary.cost_micros <= 300_000


def test_what_a_loss_wastes_is_what_the_history_says() -> None:
    """Three minutes of six were done, two of them saved: a sixth is wasted, less the handover."""
    life = lived("market", "patient")
    (loss,) = [event for event in life.events if isinstance(event, Loses)]
    assert loss.to == "pushy"
    assert loss.price == 7 * DOLLAR
    assert loss.wasted == pytest.approx(1 / 6, abs=0.1 / 360)
    assert life.summary.wasted == loss.wasted


# Real adapters ------------------------------------------------------------------------------------


@lru_cache
def crowded() -> tuple[Setting, dict[str, Alone]]:
    """Four nodes for a service, a training job and two batch jobs, for a quarter of an hour."""
    nodes = tuple(f"{tree}/z0/r0/n0/h0/g{gpu}" for tree in ("h100", "a100") for gpu in range(2))
    end_us = 15 * MINUTE_US
    spec = InferenceSpec(
        model="Llama-3.1-8B",
        kinds=HARDWARE,
        objective=preset("planner-default"),
        expected=Load(30.0, 1_000.0, 200.0),
    )
    trace = LoadTrace(
        ((MINUTE_US, 15.0, 1_000.0, 200.0), (6 * MINUTE_US, 55.0, 1_000.0, 200.0)), 12 * MINUTE_US
    )
    training = TrainingSpec(
        12_000, Setup("OPT-350", (("h100", "H100"), ("a100", "A100-80"))), end_us, 4, 60.0, 30.0
    )
    speeds = {"h100": 1.0, "a100": 0.5}
    projects = (
        Project("trains", 0, end_us, Training(training)),
        Project("serves", MINUTE_US, 12 * MINUTE_US, Serving(spec, trace)),
        Project("first", 0, end_us, Batch(0.05, speeds, end_us, 30.0, 60.0)),
        Project("second", 2 * MINUTE_US, end_us, Batch(0.08, speeds, end_us, 30.0, 60.0)),
    )
    budgets = {"trains": 3 * DOLLAR, "serves": 6 * DOLLAR, "first": DOLLAR, "second": 2 * DOLLAR}
    setting = Setting(nodes, PRICES, projects, budgets, end_us)
    return setting, {each.name: alone(each, setting, 0) for each in projects}


TENANTS = ("trains", "serves", "first", "second")


@lru_cache
def crowded_life(contract: str, tenant: str) -> Life:
    return life_of(*crowded(), CONTRACTS[contract], 0, tenant)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_watching_changes_nothing(contract: str) -> None:
    """A run with a tenant watched is the same run: its stints, its losses, its performance."""
    setting, own = crowded()
    history = CONTRACTS[contract].play(setting, 0)
    for tenant in TENANTS:
        life = crowded_life(contract, tenant)
        stints = tuple(stint for stint in history.stints if stint.tenant == tenant)
        assert life.stints == stints
        assert life.summary.performance == history.performance[tenant]
        assert life.summary.wasted == sum(
            loss.wasted for loss in history.losses if loss.tenant == tenant
        )
        assert life.summary.charge == sum(stint.charge for stint in stints)
        hours = sum(stint.to_us - stint.from_us for stint in stints) / 3.6e9
        assert sum(life.summary.node_hours.values()) == pytest.approx(hours)
        most = own[tenant].performance
        assert life.summary.retention == min(1.0, life.summary.performance / most)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_events_are_in_order_and_moves_alternate(contract: str) -> None:
    """Time never goes back, a life has a beginning and an end, and a node is received before it
    is lost, and lost before it is received again."""
    moves = 0
    for tenant in TENANTS:
        events = crowded_life(contract, tenant).events
        times = [event.at_us for event in events]
        assert times == sorted(times)
        assert isinstance(events[0], Arrives)
        assert isinstance(events[-1], Ends)
        held: set[str] = set()
        for event in events:
            if isinstance(event, Receives):
                assert event.resource not in held
                assert event.rate is not None
                held.add(event.resource)
                moves += 1
            elif isinstance(event, Loses | GivesBack):
                held.remove(event.resource)
        assert held == set(events[-1].nodes)
    assert moves >= len(TENANTS)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_every_charge_belongs_to_a_move(contract: str) -> None:
    """What was paid for nodes lost, given back, missed and held to the end is all that was paid."""
    for tenant in TENANTS:
        life = crowded_life(contract, tenant)
        ended = sum(
            event.charge for event in life.events if isinstance(event, Loses | GivesBack | Misses)
        )
        (end,) = [event for event in life.events if isinstance(event, Ends)]
        held = 0
        for node in end.nodes:
            since_us = max(
                event.won_us
                for event in life.events
                if isinstance(event, Receives) and event.resource == node
            )
            held += sum(
                stint.charge
                for stint in life.stints
                if stint.resource == node and stint.from_us >= since_us
            )
        assert ended + held == life.summary.charge


@pytest.mark.parametrize("contract", CONTRACTS)
def test_lacking_never_lasts_longer_than_life(contract: str) -> None:
    """Reasons share the time in which something was lacking, and to have nothing is part of it."""
    for tenant in TENANTS:
        sums = crowded_life(contract, tenant).summary
        lacked_us = sum(lack.lasts_us for lack in sums.lacks)
        assert sums.empty_us <= lacked_us <= sums.lasts_us
        assert all(lack.mean_gap > 0 for lack in sums.lacks)
        assert 0 <= sums.cold_node_hours <= sum(sums.node_hours.values()) + 1e-9


def test_worth_is_in_the_adapters_money() -> None:
    """A unit is worth its budget over all the units: a batch job of 0.08 hours has $2 for them."""
    life = crowded_life("market", "second")
    assert life.who.micros_per_unit == pytest.approx(2 * DOLLAR / 0.08)
    received = [event for event in life.events if isinstance(event, Receives)]
    assert received
    for event in received:
        assert event.micros_per_hour == pytest.approx(event.units_now * 2 * DOLLAR / 0.08)


def test_the_contracts_differ() -> None:
    """The mixed story has something to tell: limits that move and nodes that others take."""
    in_market = [crowded_life("market", tenant) for tenant in TENANTS]
    assert any(isinstance(event, MovesLimits) for life in in_market for event in life.events)
    preempted = [
        event
        for tenant in TENANTS
        for event in crowded_life("fcfs_p", tenant).events
        if isinstance(event, Loses)
    ]
    assert {event.reason for event in preempted} == {"preempted"}


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_life_survives_json(contract: str) -> None:
    """What is written as JSON reads back as the same life, and tells the same."""
    for tenant in TENANTS:
        life = crowded_life(contract, tenant)
        again = msgspec.json.decode(msgspec.json.encode(life), type=Life)
        assert again == life
        assert tell(again) == tell(life)


def test_in_json_money_carries_its_unit() -> None:
    """As in every message: who reads a number sees what it is a number of."""
    lives = [crowded_life("market", tenant) for tenant in TENANTS]
    names = {
        name
        for life in lives
        for part in (life.summary, *life.events, *life.stints, *life.course, *_parts(life))
        for name in msgspec.json.decode(msgspec.json.encode(part))
    }
    bare = {"price", "limit", "rate", "charge", "was", "quoted"}
    assert names.isdisjoint(bare)
    units = {"charge": "charge_micros_us_per_hour"}
    assert names >= {units.get(name, f"{name}_micros_per_hour") for name in bare}


def _parts(life: Life) -> list[Bid | LimitMove | RateMove]:
    parts: list[Bid | LimitMove | RateMove] = []
    for event in life.events:
        if isinstance(event, Bids):
            parts += event.bids
        elif isinstance(event, MovesLimits | RatesMove):
            parts += event.moves
    return parts


def test_a_life_is_told_in_detail_on_request() -> None:
    """In detail every event has its line; else what shifts between two moves is folded."""
    for tenant in TENANTS:
        life = crowded_life("market", tenant)
        assert len(told_events(life, detail=True)) == len(life.events)
        assert len(told_events(life)) < len(life.events)
    lines = [line for tenant in TENANTS for line in told_events(crowded_life("market", tenant))]
    assert any(" moved " in line and " times until " in line for line in lines)


# Corners ------------------------------------------------------------------------------------------


def test_an_unknown_tenant_is_refused_with_the_names() -> None:
    """The names that are near come first."""
    setting, own = crowded()
    with pytest.raises(UnknownTenant) as refused:
        life_of(setting, own, CONTRACTS["fcfs"], 0, "secnd")
    assert str(refused.value) == (
        "no tenant is called 'secnd'; say one of second, trains, serves, first"
    )


def written(moves: Mapping[int, bool], stints: tuple[Stint, ...]) -> tuple[Any, ...]:
    """The events of a diary in which one node comes and goes at these seconds."""
    setting, _ = story()
    diary = Diary()
    for at_s, is_gained in moves.items():
        worth = Worth(1.0, 1.0)
        diary.entries.append(Moved(at_s * 1_000_000, NODE, is_gained, worth, 0.0, 0.0, 0.0))
    writing = Writing(setting.projects[0], setting, diary, (), stints)
    return writing.events()


def stint(from_s: int, to_s: int, charge: int) -> Stint:
    return Stint("patient", NODE, from_s * 1_000_000, to_s * 1_000_000, charge, "outbid")


def test_a_node_won_back_at_once_never_left() -> None:
    """Two stints without a moment between them are one time with the node, and cost their sum."""
    _, _, lost, _ = written({10: True, 90: False}, (stint(10, 50, 7), stint(50, 90, 5)))
    assert isinstance(lost, Loses)
    assert (lost.had_us, lost.charge) == (80_000_000, 12)


def test_a_node_that_never_came_is_missed() -> None:
    """Won and lost before its handover: it was paid for, and the application never had it."""
    _, received, lost, missed, _ = written(
        {10: True, 20: False}, (stint(10, 20, 7), stint(30, 31, 1))
    )
    assert isinstance(received, Receives)
    assert isinstance(lost, Loses)
    assert missed == Misses(31_000_000, NODE, "outbid", 1)


@pytest.mark.parametrize(("contract", "suffix"), [("market", ".png"), ("fcfs_p", ".svg")])
def test_a_life_is_drawn(contract: str, suffix: str, tmp_path: Path) -> None:
    """A picture is written, the same bytes for the same life."""
    pytest.importorskip("matplotlib")
    from laissez.experiments.life_picture import picture  # noqa: PLC0415

    paths = [tmp_path / f"{name}{suffix}" for name in ("one", "two")]
    for path in paths:
        picture(crowded_life(contract, "trains"), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert paths[0].stat().st_size > 5_000


def test_money_of_the_summary_is_the_charge() -> None:
    """The cost is the charge in micro-dollars."""
    sums = lived("fcfs", "pushy").summary
    assert sums.cost_micros == micros(sums.charge)
    assert sums.mean_rate_micros_per_hour == pytest.approx(6 * DOLLAR)


def test_a_node_that_comes_and_goes_is_told_once() -> None:
    """One node that is received and given back again and again has one line."""
    life = lived("fcfs", "patient")
    received = next(event for event in life.events if isinstance(event, Receives))
    given = next(event for event in life.events if isinstance(event, GivesBack))
    moves = [
        msgspec.structs.replace(event, at_us=at_s * 500_000)
        for at_s, event in enumerate([received, given] * 3)
    ]
    (line,) = told_events(msgspec.structs.replace(life, events=tuple(moves)))
    assert line == (
        f"00:00  receives {NODE} and gives it back 3 times until 00:02 at $6.00/h: the work is "
        "done; had for 07:10, $2.15"
    )


def test_nodes_that_come_together_are_told_together() -> None:
    """Several of one kind within a second have one line, and what they add is added up."""
    life = lived("fcfs", "patient")
    first = next(event for event in life.events if isinstance(event, Receives))
    second = msgspec.structs.replace(first, resource=NODE[:-1] + "1", at_us=first.at_us + 1)
    (line,) = told_events(msgspec.structs.replace(life, events=(first, second)))
    assert line == (
        "00:00  receives 2 of h100 at $6.00/h: adds 0.596 hours/h (2 at full use), once warm, in "
        "60 s"
    )
