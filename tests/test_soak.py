"""The soak trades, and its slope can say that something grows. Nothing here depends on a clock."""

from collections.abc import Callable
from types import ModuleType

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
    told = soak.Told(10, 0, 0, 1.0, 1.0)
    filling = [
        soak.Look(minute, 10 * minute, min(50.0 + minute, 60.0), told) for minute in range(40)
    ]
    growing = [soak.Look(minute, 10 * minute, 50.0 + minute, told) for minute in range(40)]
    plan = soak.SoakPlan("", [], [], 1.0, 2_400.0, 60.0)
    assert soak.soaked(plan, filling).slope_mb_per_hour == 0
    assert soak.soaked(plan, growing).slope_mb_per_hour == pytest.approx(60)


def test_a_short_soak_is_answered(soak: ModuleType) -> None:
    """Every request of a short run, with nobody refused: what the market remembers is asked for."""
    soaked = soak.soak(0.05, 200.0, as_json=True)
    assert soaked.commands > 0 and soaked.rss_last_mb > 0
    assert sum(look.told.refused for look in soaked.looks) == 0
