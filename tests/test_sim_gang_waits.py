"""How long jobs of a fixed size wait: by hand, from histories."""

import pytest
from msgspec.structs import replace

from laissez.experiments.gang_waits import GangWait, gang_waits, summed_up, whole_spans
from laissez.simulation.contracts.setting import History, Stint
from laissez.simulation.demand.projects import Project
from test_sim_contracts import S
from test_sim_gangs import cluster, played_on, rigid


def held(name: str, *spans: tuple[int, int], nodes: int = 2) -> tuple[Stint, ...]:
    return tuple(
        Stint(name, f"h100/r0/h0/g{number}", since * S, until * S, 0, "relinquished")
        for since, until in spans
        for number in range(nodes)
    )


def patient(project: Project, patience_s: int) -> Project:
    """The same, with so much patience."""
    return replace(project, labour=replace(project.labour, patience_us=patience_s * S))


def test_waits_by_hand() -> None:
    """a starts at once and is done. b waits for 40 s, is stopped after 100, and waits 60 s more
    until its end. c never starts. d starts when its patience is over."""
    a, b, c, d = (rigid(name, 10, 210, 50, 2) for name in "abcd")
    projects = [a, b, c, patient(d, 30)]
    history = History(
        (*held("a", (10, 90)), *held("b", (50, 150)), *held("d", (41, 200))),
        (),
        {"a": 1.0, "b": 0.5, "c": 0.0, "d": 1.0},
        {},
    )
    found = gang_waits(played_on(cluster(), projects), history)
    assert found == {
        "a": GangWait(0.0, 0.0, 0, False),
        "b": GangWait(40.0, 100.0, 1, False),
        "c": GangWait(200.0, 200.0, 0, True),
        "d": GangWait(31.0, 31.0, 0, True),
    }
    told = summed_up(found.values())
    assert told is not None
    assert (told.first_wait_p50_s, told.wait_p50_s) == (35.5, 65.5)
    assert told.wait_p95_s == pytest.approx(185.0)
    assert (told.jobs, told.starved, told.stops) == (4, 2, 1)
    assert summed_up([]) is None


def test_only_all_of_them_count() -> None:
    """Part of a gang is waiting; what is held for no time, and changes hands, is no break."""
    stints = [
        *held("a", (0, 10), nodes=1),
        *held("a", (10, 50), (50, 70)),
        *held("a", (70, 90), nodes=1),
        *held("a", (100, 100)),
        *held("a", (120, 130)),
    ]
    assert whole_spans(stints, 2) == [(10 * S, 70 * S), (120 * S, 130 * S)]
