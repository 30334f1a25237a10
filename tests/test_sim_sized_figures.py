"""Figures gangs and notice: who comes, what is measured, what is told."""

import json

import msgspec

from laissez.experiments.figures import gangs, notice
from laissez.experiments.figures.contention import AloneTask
from laissez.experiments.figures.contention import run_alone as run_crowd_alone
from laissez.experiments.figures.figure import FigureTable, Wanted
from laissez.experiments.figures.gangs import SizedOutcome, SizedPlay, SizedSeed
from laissez.experiments.figures.notice import NoticePlay
from laissez.experiments.runs import Runs
from laissez.simulation.contracts.registry import CONTRACTS, PLAYED
from laissez.simulation.contracts.setting import History, MarketGuards, Stint
from laissez.simulation.demand.fitted import FittedRequests
from laissez.simulation.demand.fixed_sizes import PATIENCE_US, SIZES, project
from laissez.simulation.demand.projects import Project, Rigid
from laissez.simulation.scenarios.regimes import is_satisfiable
from test_sim_contracts import S

TODAY = ("fcfs", "fair")


def test_who_comes_where_sizes_are_fixed() -> None:
    """About half are rigid, of every size, the smaller the more often; each is there before the
    hour is over, and could be done in time."""
    comers = [project(3, number, FittedRequests()) for number in range(120)]
    rigid = [each for each in comers if isinstance(each.labour, Rigid)]
    assert 45 <= len(rigid) <= 75
    sizes = [
        sum(isinstance(each.labour, Rigid) and each.labour.spec.count == size for each in rigid)
        for size in SIZES
    ]
    assert sorted(sizes, reverse=True) == sizes
    assert min(sizes) > 0
    for each in rigid:
        assert isinstance(each.labour, Rigid)
        spec = each.labour.spec
        work_us = round(spec.work.hours * 3_600 * S + spec.cold_start_s * S)
        assert each.ends_us - each.arrives_us >= work_us + 600 * S
        assert each.labour.patience_us == PATIENCE_US
        assert each.ends_us <= 3_600 * S


def test_everybody_who_comes_could_be_done_alone() -> None:
    """On the small cluster, too, whose domains hold the largest of them."""
    crowd = gangs.run_alone(SizedSeed(1, True, (0.5, 1.0)), None)
    assert 0 < crowd.joining[0] < crowd.joining[1] == len(crowd.comers)
    for each in crowd.comers:
        assert is_satisfiable(project(1, each.number, FittedRequests()), each.alone)


def test_the_quick_figure_of_todays_contracts() -> None:
    """Everything is told of both, in JSON and in tables."""
    wanted = Wanted((1, 2), (1.0,), TODAY, is_quick=True)
    report = gangs.compute(wanted, Runs(processes=1))
    document = json.loads(msgspec.json.encode(report))
    assert list(document["regimes"]["1.0"]) == list(TODAY)
    measured = {*SizedOutcome.__struct_fields__} - {"starved_by_size"}
    for its in document["regimes"]["1.0"].values():
        assert its.keys() == measured
        assert 0 <= its["starved_share"]["estimate"] <= 1
        assert its["first_wait_p50_s"]["estimate"] <= its["wait_p50_s"]["estimate"]
    told = list(gangs.tell(report))
    assert sum(isinstance(each, FigureTable) for each in told) == 3
    assert any("longer than 15 minutes" in each for each in told if isinstance(each, str))


def test_notice_binds_the_market_of_its_figure() -> None:
    """Who is urgent waits for holders that have two minutes, and not where they have none."""
    crowd = run_crowd_alone(AloneTask(1, True, (notice.REGIME,)), None)
    setting, done = notice.setting_with(NoticePlay(1, True, 30, crowd.comers[:4]), None)
    assert setting.guards["h100"] == MarketGuards(30 * S, 30 * S)
    assert {each.name for each in setting.projects} == done.keys()
    told = {
        each: notice.run_play(NoticePlay(1, True, each, crowd.comers), None) for each in (0, 120)
    }
    assert told[0].urgent_wait_p95_s == 0.0 < told[120].urgent_wait_p95_s <= 120.0
    assert all(each.displaced > 0 and each.urgent_retention > 0.9 for each in told.values())


def test_a_map_has_a_say_in_its_figure() -> None:
    """The same crowd, with and without: floors go up for gangs, so it comes out otherwise."""
    crowd = gangs.run_alone(SizedSeed(1, True, (1.5,)), None)
    played = {
        name: gangs.run_play(SizedPlay(1, True, name, crowd.comers), None)
        for name in ("with_map", "market")
    }
    assert played["with_map"] != played["market"]
    assert {*gangs.WAYS} <= {*PLAYED} and "with_map" not in CONTRACTS
    assert list(gangs.WAYS)[:2] == list(gangs.LABELS)[:2] == ["with_map", "market"]


def test_the_first_wait_by_hand() -> None:
    """Until the first node; of whoever never gets one, all of its time."""
    buyer: Project = notice.urgent_buyers(1)[0]
    at_us = buyer.arrives_us
    stints = [
        Stint(buyer.name, "h100/a", at_us + each * S, at_us + 99 * S, 0, None) for each in (7, 3)
    ]
    assert notice.first_wait_s(buyer, History(tuple(stints), (), {}, {})) == 3.0
    assert notice.first_wait_s(buyer, History((), (), {}, {})) == 900.0


def test_a_run_hangs_on_its_seed_alone() -> None:
    """Played again it comes to the same."""
    crowd = gangs.run_alone(SizedSeed(2, True, (1.0,)), None)
    task = SizedPlay(2, True, "fcfs", crowd.comers)
    assert gangs.run_play(task, None) == gangs.run_play(task, None)
