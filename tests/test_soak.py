"""The soak trades, and its slope can say that something grows. Nothing here depends on a clock."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import msgspec
import pytest


@pytest.fixture(scope="module")
def soak(load_benchmark: Callable[[str], ModuleType]) -> ModuleType:
    return load_benchmark("soak")


def test_the_slope_is_that_of_a_line(soak: ModuleType) -> None:
    """What goes up and down around a level is flat; what grows is told by how much an hour."""
    assert soak.slope([(0.0, 50.0), (0.5, 60.0), (1.0, 70.0)]) == pytest.approx(20)
    assert soak.slope([(0.0, 50.0), (0.25, 60.0), (0.75, 60.0), (1.0, 50.0)]) == pytest.approx(0)
    assert soak.slope([(0.5, 50.0)]) == 0


def test_what_only_fills_up_is_flat(soak: ModuleType) -> None:
    """The first half is not looked at: what has a bound fills up in it."""
    told = soak.Told(60, 0, 0, 1.0, 1.0)
    filling = [
        soak.Look(minute, 10 * minute, min(50.0 + minute, 60.0), told) for minute in range(40)
    ]
    growing = [soak.Look(minute, 10 * minute, 50.0 + minute, told) for minute in range(40)]
    plan = soak.SoakPlan("", [], [], 1.0, 2_400.0, 60.0)
    assert soak.soaked(plan, filling).slope_mb_per_hour == 0
    assert soak.soaked(plan, growing).slope_mb_per_hour == pytest.approx(60)


@pytest.mark.parametrize(
    ("changed", "status", "looks", "reason"),
    [
        ({}, 0, 40, None),
        ({"answered": 0}, 0, 40, "were answered"),
        ({"answered": 50}, 0, 40, "were answered"),
        ({"refused": 2}, 0, 40, "were refused"),
        ({"unsent": 2}, 0, 40, "could not be sent"),
        ({"connected": 0}, 0, 40, "were connected"),
        ({"visits": 0}, 0, 40, "visits"),
        ({"visits_failed": 4}, 0, 40, "visits"),
        ({}, 1, 40, "the load ended"),
        ({}, 0, 0, "0 looks"),
        ({}, 0, 19, "19 looks"),
    ],
)
def test_there_is_a_verdict_only_on_a_service_that_worked(
    soak: ModuleType, changed: dict[str, int], status: int, looks: int, reason: str | None
) -> None:
    """Memory is level in all of these: a load that did not come about is not taken for flat."""
    told = soak.Told(60, 0, 0, 1.0, 1.0, 1, 300, 0)
    told = msgspec.structs.replace(told, **changed)
    seen = [soak.Look(minute, 60 * minute, 50.0, told) for minute in range(looks)]
    plan = soak.SoakPlan("", ["token"], [], 1.0, 2_400.0, 60.0)
    found = soak.soaked(plan, seen, status)
    assert found.slope_mb_per_hour == 0
    if reason is None:
        assert found.no_verdict == []
    else:
        assert any(reason in each for each in found.no_verdict)


def test_a_dead_service_is_not_flat(
    soak: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has no memory at all; the program says so, and fails."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    assert soak.rss_mb(dead.pid) == 0
    told = soak.Told(60, 0, 0, 1.0, 1.0, 1, 300, 0)
    plan = soak.SoakPlan("", ["token"], [], 1.0, 2_400.0, 60.0)
    seen = [soak.Look(minute, 60 * minute, 0.0, told) for minute in range(40)]
    found = soak.soaked(plan, seen)
    monkeypatch.setattr(soak, "soak", lambda *_, as_json: found)
    monkeypatch.setattr("sys.argv", ["soak.py"])
    assert soak.main() == 1
    assert "the service ended" in capsys.readouterr().out
    level = [msgspec.structs.replace(each, rss_mb=50.0) for each in seen]
    assert soak.soaked(plan, level).no_verdict == []
    assert soak.soaked(plan, level, is_alive=False).no_verdict != []
    short = msgspec.structs.replace(plan, seconds=40.0)
    assert any("less than 5 minutes" in each for each in soak.soaked(short, level).no_verdict)


def test_a_short_soak_is_answered(soak: ModuleType) -> None:
    """Every request of a short run, with nobody refused: what the market remembers is asked for."""
    soaked = soak.soak(0.05, 200.0, as_json=True)
    assert not any("ended" in reason for reason in soaked.no_verdict)
    assert all(look.told.connected == soak.TENANTS for look in soaked.looks)
    assert sum(look.told.visits for look in soaked.looks) > 0
    assert sum(look.told.visits_failed for look in soaked.looks) == 0
    assert soaked.commands > 0 and soaked.rss_last_mb > 0
    assert sum(look.told.refused for look in soaked.looks) == 0


def test_the_exchange_is_heard_in_one_place() -> None:
    """Those who load it and measure take its messages apart in the same way."""
    benchmarks = Path(__file__).parents[1] / "benchmarks"
    listening = [each.name for each in benchmarks.rglob("*.py") if "WSListener" in each.read_text()]
    assert listening == ["talking.py"]
