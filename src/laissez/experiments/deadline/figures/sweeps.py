"""Studies along a swept field: lines, one for each policy, and heat maps where two fields vary.

Averages hide that zones differ, so a study of few traces has a small panel for each beside that of
the average, all on the same scales. Where a second field varies, each of its values has a panel of
averages; for the share of the gap closed there is a heat map for each policy instead, and below it
the same figure for each trace and group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from laissez.experiments.deadline.figures.looks import label, line_key, look
from laissez.experiments.deadline.figures.scales import (
    GAUGES,
    SCALES,
    Gauge,
    Scale,
    footnote,
    number_of_values,
    shown_policies,
)
from laissez.experiments.deadline.study import (
    Axis,
    Result,
    SettingResult,
    StudySetting,
    Tallies,
    labels,
)
from laissez.experiments.page import INK, bare, legend_below, sheet

AVERAGE = "Average"
TRACES_MAX = 16
COLUMNS = 4
PANEL_INCHES = 2.0
TICKS_MAX = 6
HEAT_COLUMNS = 3
GAP_LIMIT = 100
HALVES = ("dev", "held out")

SweepPoint = tuple[float, Tallies]


class Panel(NamedTuple):
    """A title, and what was measured at each point of the swept field."""

    title: str
    points: list[SweepPoint]


def draw_lines(
    result: Result, path: Path, x: Axis, availability: Mapping[str, float] | None = None
) -> None:
    """A line for each policy along `x`, in a panel for each trace or each other setting."""
    panels = panels_of(result, x, availability or {})
    measure = result.study.plot.y
    policies = shown_policies((tallies for panel in panels for _, tallies in panel.points), measure)
    # A last row with a single panel looks like a mistake.
    columns = min(COLUMNS - (len(panels) % COLUMNS == 1), len(panels))
    rows = -(-len(panels) // columns)
    inches = PANEL_INCHES * (1.8 if rows == 1 else 1.1) * rows
    with sheet(path, height_inches=inches + 1.6, title=result.study.title) as figure:
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for number, axes in enumerate(grid.flat):
            if number >= len(panels):
                axes.set_axis_off()
                continue
            _draw_lines(axes, panels[number], policies, GAUGES[measure])
            _mark_values(axes, _values(result, SCALES[x]))
            if number + columns >= len(panels):
                axes.tick_params(labelbottom=True)
                axes.set_xlabel(SCALES[x].name)
        if measure == "saving":
            grid[0, 0].set_ylim(bottom=min(0.0, grid[0, 0].get_ylim()[0]))
        figure.supylabel(GAUGES[measure].name, fontsize=9)
        keys: list[Artist] = [line_key(policy) for policy in policies]
        legend_below(figure, keys, footnote=footnote(result))


def panels_of(result: Result, x: Axis, availability: Mapping[str, float]) -> list[Panel]:
    """The average and each trace if these are few; or the average of each other setting."""
    read = SCALES[x].read
    others = _by_others(result, x)
    averages = [Panel(title or AVERAGE, _averages(alike, read)) for title, alike in others.items()]
    if len(averages) > 1:
        return averages
    names = [part.name for part in result.traces]
    if not 1 < len(names) <= TRACES_MAX:
        return averages
    return averages + [Panel(_title(name, availability), _cells(result, name, x)) for name in names]


def _title(trace: str, availability: Mapping[str, float]) -> str:
    folder, _, name = trace.rpartition("/")
    details = [folder] if folder else []
    if trace in availability:
        details.append(f"spot {availability[trace]:.0%}")
    return f"{name}\n{', '.join(details)}"


def _averages(
    alike: Sequence[SettingResult], read: Callable[[StudySetting], float]
) -> list[SweepPoint]:
    return sorted(((read(each.setting), each.policies) for each in alike), key=_place)


def _cells(result: Result, trace: str, x: Axis) -> list[SweepPoint]:
    """What was measured on one trace; cells are numbered like the settings of the study."""
    points = [
        (SCALES[x].read(setting), result.cells[number, trace])
        for number, setting in enumerate(result.study.settings)
        if (number, trace) in result.cells
    ]
    return sorted(points, key=_place)


def _place(point: SweepPoint) -> float:
    return point[0]


def _by_others(result: Result, x: Axis) -> dict[str, list[SettingResult]]:
    """The settings that differ in nothing but `x`, by what tells them from the others."""
    rest = [_without(each.setting, x) for each in result.settings]
    distinct = list(dict.fromkeys(rest))
    if len(distinct) == len(rest):
        # Another field goes along with it, as the fraction does with work until one deadline.
        return {AVERAGE: list(result.settings)}
    titles = dict(zip(distinct, labels(distinct), strict=True))
    found: dict[str, list[SettingResult]] = {}
    for each, setting in zip(result.settings, rest, strict=True):
        found.setdefault(titles[setting], []).append(each)
    return found


def _without(setting: StudySetting, x: Axis) -> StudySetting:
    """The setting with nothing in the swept field, nor in those that follow from it."""
    blank: dict[Axis, dict[str, Any]] = {
        "work": {"work_us": 0, "deadline_us": 0},
        "fraction": {"fraction": 0.0, "deadline_us": 0},
        "changeover": {"changeover_us": 0},
        "nodes": {"nodes": 0},
        "work_error": {"work_error": 0.0},
        "changeover_error": {"changeover_error": 0.0},
    }
    return msgspec.structs.replace(setting, published=None, **blank[x])


def _draw_lines(axes: Axes, panel: Panel, policies: Sequence[str], gauge: Gauge) -> None:
    for policy in policies:
        seen = [
            (x, y)
            for x, tallies in panel.points
            if policy in tallies and (y := gauge.read(tallies[policy])) is not None
        ]
        if not seen:
            continue
        its = look(policy)
        axes.plot(
            [x for x, _ in seen],
            [y for _, y in seen],
            color=its.colour,
            linestyle=its.dash,
            marker=its.marker,
            markersize=5,
            linewidth=1.3,
        )
    axes.set_title(panel.title, fontsize=8.5, fontweight="bold" if panel.title == AVERAGE else None)
    axes.grid()


def _mark_values(axes: Axes, values: Sequence[float]) -> None:
    """Ticks at the values that were tried if they are far enough apart, or else at round ones."""
    closest = min((b - a for a, b in pairwise(values)), default=1.0)
    if closest * TICKS_MAX >= values[-1] - values[0]:
        axes.set_xticks(values, [f"{value:g}" for value in values])
    else:
        axes.xaxis.set_major_locator(MaxNLocator(TICKS_MAX, steps=[1, 2, 5, 10]))


def draw_gap(result: Result, path: Path) -> None:
    """Where the gap to the omniscient is closed: by two fields, by trace, by group."""
    policies = shown_policies([result.policies], "gap_closed")
    x, second = _swept(result)
    columns = min(HEAT_COLUMNS, len(policies))
    rows = -(-len(policies) // columns)
    parts = 1 + len(result.groups) + len(result.traces)
    heights = [2.5 * rows, (0.08 + 0.1 * len(policies)) * parts + 1.2]
    with sheet(path, height_inches=sum(heights) + 1.4, title=result.study.title) as figure:
        above, below = figure.subfigures(2, 1, height_ratios=heights, squeeze=False)[:, 0]
        _draw_heat(above, result, policies, (x, second), columns)
        _draw_parts(below.subplots(), result, policies)
        keys: list[Artist] = [
            Patch(color=look(each).colour, label=label(each)) for each in policies
        ]
        legend_below(below, keys, footnote=footnote(result))


def _swept(result: Result) -> tuple[Axis, Axis]:
    """The swept field, or else the one with most values; and of the others that with most."""
    by_values = sorted(SCALES, key=lambda axis: -number_of_values(result, axis))
    x = result.study.plot.x or by_values[0]
    return x, next(axis for axis in by_values if axis != x)


def _draw_heat(
    part: SubFigure,
    result: Result,
    policies: Sequence[str],
    axes_of: tuple[Axis, Axis],
    columns: int,
) -> None:
    x, y = (SCALES[axis] for axis in axes_of)
    columns_at, rows_at = _values(result, x), _values(result, y)
    grid = part.subplots(-(-len(policies) // columns), columns, squeeze=False)
    for axes in list(grid.flat)[len(policies) :]:
        axes.set_axis_off()
    for axes, policy in zip(grid.flat, policies, strict=False):
        cells = _mean_gap(result, policy, x, y)
        heat = axes.imshow(
            cells, cmap="PuOr", vmin=-GAP_LIMIT, vmax=GAP_LIMIT, aspect="auto", origin="lower"
        )
        for (row, column), value in np.ndenumerate(cells):
            if not np.isnan(value):
                colour = "white" if abs(value) > 0.6 * GAP_LIMIT else INK
                axes.text(
                    column, row, f"{value:.0f}", ha="center", va="center", color=colour, fontsize=8
                )
        axes.set_xticks(range(len(columns_at)), [f"{each:g}" for each in columns_at])
        axes.set_yticks(range(len(rows_at)), [f"{each:g}" for each in rows_at])
        axes.set_xlabel(x.name)
        axes.set_ylabel(y.name)
        axes.set_title(label(policy))
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
    part.colorbar(
        heat, ax=list(grid.flat), label="share of the gap closed (%)", extend="both", pad=0.02
    )


def _values(result: Result, scale: Scale) -> list[float]:
    return sorted({scale.read(each.setting) for each in result.settings})


def _mean_gap(result: Result, policy: str, x: Scale, y: Scale) -> npt.NDArray[np.float64]:
    columns, rows = _values(result, x), _values(result, y)
    found: dict[tuple[int, int], list[float]] = {}
    for each in result.settings:
        value = GAUGES["gap_closed"].read(each.policies[policy])
        if value is not None:
            at = rows.index(y.read(each.setting)), columns.index(x.read(each.setting))
            found.setdefault(at, []).append(value)
    cells = np.full((len(rows), len(columns)), np.nan)
    for at, values in found.items():
        cells[at] = sum(values) / len(values)
    return cells


def _draw_parts(axes: Axes, result: Result, policies: Sequence[str]) -> None:
    """Bars for all runs, each group and each trace; what is far below nothing is cut off."""
    sums = [("all runs", result.policies), *((part.name, part.policies) for part in result.groups)]
    parts = [*sums, *((part.name, part.policies) for part in result.traces)]
    height = 0.8 / len(policies)
    for at, (_, tallies) in enumerate(parts):
        for number, policy in enumerate(policies):
            value = GAUGES["gap_closed"].read(tallies[policy]) if policy in tallies else None
            if value is None:
                continue
            y = at + (number + 0.5) * height - 0.4
            end = max(value, -GAP_LIMIT)
            axes.barh(y, end, height=0.92 * height, color=look(policy).colour)
            axes.annotate(
                f"{value:.0f}",
                (end, y),
                xytext=(3 if value >= 0 else -3, 0),
                textcoords="offset points",
                ha="left" if value >= 0 else "right",
                va="center",
                fontsize=6.5,
            )
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.axhline(len(sums) - 0.5, color=INK, linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(parts)), [name for name, _ in sums] + marked_traces(result))
    axes.set_ylim(len(parts) - 0.5, -0.5)
    axes.margins(x=0.06)
    axes.set_xlabel(GAUGES["gap_closed"].name)
    axes.set_title("All runs, and each trace alone")
    bare(axes)
    axes.grid(axis="x")


def marked_traces(result: Result) -> list[str]:
    """The names of the traces, each with the half that it belongs to where a study has halves."""
    names = [part.name for part in result.traces]
    if result.study.group_by != "halves":
        return names
    return [f"{name} ({HALVES[name in result.held_out]})" for name in names]
