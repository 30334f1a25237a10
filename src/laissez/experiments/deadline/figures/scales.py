"""What stands on the axes of a study's pictures: how to read it from a result, and its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from laissez.deadline.job import US_PER_HOUR
from laissez.deadline.registry import POLICIES
from laissez.experiments.deadline.figures.looks import in_order
from laissez.experiments.deadline.study import (
    BASELINE,
    BOUND,
    PRESENT_BEST,
    Axis,
    Measure,
    PolicyTally,
    Result,
    StudySetting,
    Tallies,
)


class Scale(msgspec.Struct, frozen=True):
    """A field of a setting as a number, in the unit that its name gives."""

    name: str
    read: Callable[[StudySetting], float]


class Gauge(msgspec.Struct, frozen=True):
    """A figure of a tally, in the unit that its name gives; None where it was not measured."""

    name: str
    read: Callable[[PolicyTally], float | None]


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


SCALES: dict[Axis, Scale] = {
    "work": Scale("work (h)", lambda setting: setting.work_us / US_PER_HOUR),
    "fraction": Scale("job fraction (work / deadline)", lambda setting: setting.fraction),
    "changeover": Scale("changeover (h)", lambda setting: setting.changeover_us / US_PER_HOUR),
    "nodes": Scale("instances at once", lambda setting: setting.nodes),
    "work_error": Scale("work differs by up to (±%)", lambda setting: 100 * setting.work_error),
    "changeover_error": Scale(
        "changeover differs by up to (±%)", lambda setting: 100 * setting.changeover_error
    ),
}

GAUGES: dict[Measure, Gauge] = {
    "saving": Gauge("saving against on-demand (%)", lambda tally: _percent(tally.saving)),
    "hours": Gauge("work on spot (h)", lambda tally: tally.spot_hours),
    "gap_closed": Gauge("share of the gap closed (%)", lambda tally: _percent(tally.gap_closed)),
}


def number_of_values(result: Result, axis: Axis) -> int:
    return len({SCALES[axis].read(each.setting) for each in result.settings})


def shown_policies(tallies: Iterable[Tallies], measure: Measure) -> list[str]:
    """The policies worth a line: not those whose figure is the same by definition."""
    names = {name for each in tallies for name in each}
    if measure == "gap_closed":
        dull = {BASELINE, PRESENT_BEST, BOUND}
        dull |= {name for name in names if name in POLICIES and POLICIES[name].sees_future}
    else:
        dull = {BASELINE} if measure == "saving" else set()
    return in_order(names - dull or names)


def footnote(result: Result) -> str:
    """What every picture of a study says about how it came to be."""
    tallies = [tally for each in result.settings for tally in each.policies.values()]
    missed, runs = sum(tally.missed for tally in tallies), sum(tally.runs for tally in tallies)
    outcome = "no deadline missed" if missed == 0 else f"{missed:,} DEADLINES MISSED"
    study = result.study
    traces = "sample trace" if study.data == "sample" else "trace"
    starts = f"{'up to ' * bool(result.notes)}{study.starts} starts per {traces}"
    return f"{starts}, seed {study.seed}: {runs:,} runs, {outcome}"
