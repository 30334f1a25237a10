"""What traces of spot capacity look like: when, how much, for how long, and together with whom.

Above, a lane per trace shows when there was capacity, and a heat map how much of it by window. Then
how long it lasts and how long it stays away, as survival curves: thin for each trace, bold for all
together. A straight line on double logarithmic paper says that the older a spell is, the longer it
will still last; the hazard by age says the same, beside the line 1/(age + half an hour) that the
policy `lindy` believes in. Last, for traces that were recorded together, the correlation of zones.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullLocator

from laissez.deadline.job import US_PER_HOUR, Kind
from laissez.deadline.statistics import (
    availability_by_window,
    correlation,
    hazard_by_age,
    lifetimes_us,
    outages_us,
    statistics,
)
from laissez.deadline.traces import US_PER_DAY, SpotTrace
from laissez.experiments.deadline.figures.looks import KIND_COLOURS, LOOKS
from laissez.experiments.page import FAINT, INK, PAPER_GREY, bare, sheet
from laissez.experiments.picture_file import BadPicture

LANE_INCHES = 0.21
LANE_HEIGHT = 0.72
PANEL_INCHES = 2.9
MATRICES_MAX = 6
MATRICES_PER_ROW = 3
SHORT_DAYS = 10
"""Up to so many days, windows are a quarter of a day long; beyond, a day."""
BELIEVED_HOURS = 0.5
FIRST_AGE_US = US_PER_HOUR // 4
CAPACITY_MARKER = "o"
OUTAGE_COLOUR = "#7a5195"
OUTAGE_MARKER = "s"


def draw_traces(traces: Sequence[SpotTrace], path: Path, *, nodes: int = 1) -> None:
    """All that is known of some traces, with capacity there when so many nodes can be had."""
    if not traces:
        raise BadPicture("there is no trace to draw; give at least one")
    groups = _recorded_together(traces)
    together = groups[:MATRICES_MAX]
    lanes_inches = LANE_INCHES * len(traces) + 0.5
    rows = -(-len(together) // MATRICES_PER_ROW)
    matrix_inches = (0.24 * max(map(len, together), default=0) + 1.5) * rows + 0.5
    ratios = [lanes_inches, lanes_inches + 0.3, PANEL_INCHES, *([matrix_inches] * bool(together))]
    title = "Spot capacity: when, how much, how long" + ", and together" * bool(together)
    with sheet(path, height_inches=sum(ratios) + 1.0, title=title) as figure:
        parts = figure.subfigures(len(ratios), 1, height_ratios=ratios, squeeze=False)[:, 0]
        _draw_lanes(parts[0].subplots(), traces, nodes)
        _draw_windows(parts[1], traces, nodes)
        of_capacity, of_outages, of_hazard = parts[2].subplots(1, 3)
        lifetimes = [lifetimes_us(trace, nodes=nodes) for trace in traces]
        outages = [outages_us(trace, nodes=nodes) for trace in traces]
        _draw_survival(of_capacity, lifetimes, "Spells of capacity", KIND_COLOURS[Kind.SPOT])
        _draw_survival(of_outages, outages, "Outages", OUTAGE_COLOUR)
        _draw_hazard(of_hazard, traces, nodes)
        parts[2].legend(handles=_length_keys(len(traces)), loc="outside lower center", ncols=5)
        if together:
            _draw_correlations(parts[3], together, nodes)
            left_out = len(groups) - len(together)
            part_of_all = f": the first {len(together)} of {len(groups)} recordings"
            parts[3].suptitle(
                f"Correlation of zones{part_of_all * bool(left_out)}",
                x=0.01,
                ha="left",
                fontsize=9.5,
            )


def _recorded_together(traces: Sequence[SpotTrace]) -> list[list[SpotTrace]]:
    """The traces by folder, kind and tick, where there are at least two."""
    groups: dict[tuple[str, str, int], list[SpotTrace]] = {}
    for trace in traces:
        groups.setdefault((trace.folder, trace.kind, trace.tick_us), []).append(trace)
    return [group for group in groups.values() if len(group) > 1]


def _draw_lanes(axes: Axes, traces: Sequence[SpotTrace], nodes: int) -> None:
    for row, trace in enumerate(traces):
        there = np.array([False, *trace.is_available(nodes), False], dtype=np.int8)
        begins, ends = np.flatnonzero(np.diff(there) == 1), np.flatnonzero(np.diff(there) == -1)
        day = trace.tick_us / US_PER_DAY
        bars = [(begin * day, (end - begin) * day) for begin, end in zip(begins, ends, strict=True)]
        lane = (row - LANE_HEIGHT / 2, LANE_HEIGHT)
        axes.broken_barh([(0, _days(trace))], lane, color=PAPER_GREY)
        axes.broken_barh(bars, lane, color=KIND_COLOURS[Kind.SPOT], linewidth=0)
        axes.annotate(
            f"{statistics(trace, nodes=nodes).availability:.0%}",
            (1.01, row),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=8,
        )
    _name_rows(axes, traces)
    axes.set_xlim(0, max(map(_days, traces)))
    axes.set_xlabel("time since the trace began (days)")
    of_nodes = "" if nodes == 1 else f" of {nodes} nodes at once"
    axes.set_title(f"When there was capacity{of_nodes} (coloured), and the share of the time")


def _draw_windows(part: SubFigure, traces: Sequence[SpotTrace], nodes: int) -> None:
    axes = part.subplots()
    days = max(map(_days, traces))
    window_us = US_PER_DAY if days > SHORT_DAYS else US_PER_DAY // 4
    rows = [availability_by_window(trace, window_us, nodes=nodes) for trace in traces]
    width = max(map(len, rows))
    window = "day" if window_us == US_PER_DAY else "six hours"
    axes.set_title(f"Share of the time with capacity, by {window}")
    axes.set_xlabel("time since the trace began (days)")
    if width == 0:
        axes.text(0.5, 0.5, "shorter than a window", ha="center", transform=axes.transAxes)
        axes.set_yticks([])
        return
    cells = np.full((len(rows), width), np.nan)
    for number, row in enumerate(rows):
        cells[number, : len(row)] = row
    edges = np.arange(width + 1) * window_us / US_PER_DAY
    heat = axes.pcolormesh(
        edges, np.arange(len(rows) + 1) - 0.5, 100 * cells, cmap="cividis", vmin=0, vmax=100
    )
    _name_rows(axes, traces)
    axes.set_xlim(0, days)
    part.colorbar(heat, ax=axes, label="share (%)", pad=0.01, fraction=0.03)


def _draw_survival(
    axes: Axes, lengths_us: Sequence[Sequence[int]], title: str, colour: str
) -> None:
    for lengths in lengths_us:
        _plot_survival(axes, lengths, FAINT, 0.8)
    pooled = sorted(length for lengths in lengths_us for length in lengths)
    axes.set_title(f"{title} ({len(pooled)})")
    axes.set_xlabel("length (h)")
    axes.set_ylabel("share that lasts longer")
    if not pooled:
        axes.text(0.5, 0.5, "none that began and ended", ha="center", transform=axes.transAxes)
        return
    _plot_survival(axes, pooled, colour, 2.2)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylim(0.5 / len(pooled), 1.3)
    _plain_ticks(axes)
    axes.grid()


def _plot_survival(axes: Axes, lengths_us: Sequence[int], colour: str, width: float) -> None:
    if not lengths_us:
        return
    hours = np.sort(np.array(lengths_us)) / US_PER_HOUR
    lasting = 1 - np.arange(1, len(hours) + 1) / len(hours)
    axes.step(
        [hours[0] / 2, *hours[:-1]], [1, *lasting[:-1]], where="post", color=colour, linewidth=width
    )


def _draw_hazard(axes: Axes, traces: Sequence[SpotTrace], nodes: int) -> None:
    longest_us = max(trace.duration_us for trace in traces)
    edges_us = [0, FIRST_AGE_US]
    while edges_us[-1] < longest_us:
        edges_us.append(2 * edges_us[-1])
    middle = [FIRST_AGE_US / US_PER_HOUR / 2]
    middle += [edge * 2**0.5 / US_PER_HOUR for edge in edges_us[1:-1]]
    oldest = middle[0]
    for of_capacity, colour, marker in (
        (True, KIND_COLOURS[Kind.SPOT], CAPACITY_MARKER),
        (False, OUTAGE_COLOUR, OUTAGE_MARKER),
    ):
        rates = hazard_by_age(traces, of_capacity, edges_us, nodes=nodes)
        seen = [(age, rate) for age, rate in zip(middle, rates, strict=True) if rate > 0]
        if seen:
            axes.plot(*zip(*seen, strict=True), color=colour, marker=marker)
            oldest = max(oldest, seen[-1][0])
    ages = np.geomspace(middle[0], max(oldest, 2 * middle[0]), 60)
    axes.plot(ages, 1 / (ages + BELIEVED_HOURS), color=LOOKS["lindy"].colour, linestyle="--")
    axes.set_xscale("log")
    axes.set_yscale("log")
    _plain_ticks(axes)
    axes.grid()
    axes.set_title("How soon spells end, by age")
    axes.set_xlabel("age (h)")
    axes.set_ylabel("ends per hour")


def _length_keys(count: int) -> list[Artist]:
    capacity, believed = KIND_COLOURS[Kind.SPOT], LOOKS["lindy"].colour
    keys: list[Artist] = [
        Line2D([], [], color=capacity, marker=CAPACITY_MARKER, label="capacity"),
        Line2D([], [], color=OUTAGE_COLOUR, marker=OUTAGE_MARKER, label="outage"),
        Line2D([], [], color=believed, linestyle="--", label="1/(age + 0.5 h)"),
    ]
    if count > 1:
        keys.append(Line2D([], [], color=FAINT, linewidth=0.8, label="each trace alone"))
    return keys


def _draw_correlations(part: SubFigure, groups: Sequence[Sequence[SpotTrace]], nodes: int) -> None:
    columns = max(2, min(MATRICES_PER_ROW, len(groups)))
    grid = part.subplots(-(-len(groups) // columns), columns, squeeze=False)
    panels = list(grid.flat)
    for axes in panels[len(groups) :]:
        axes.set_axis_off()
    for axes, group in zip(panels, groups, strict=False):
        heat = _draw_correlation(axes, group, nodes)
    part.colorbar(heat, ax=panels, label="correlation", fraction=0.02, pad=0.03, shrink=0.6)


def _draw_correlation(axes: Axes, group: Sequence[SpotTrace], nodes: int) -> AxesImage:
    cells = np.array(correlation(group, nodes=nodes))
    heat = axes.imshow(cells, cmap="PuOr", vmin=-1, vmax=1)
    short = [trace.name.rpartition("/")[2] for trace in group]
    axes.set_xticks(range(len(group)), short, rotation=90, fontsize=6.5)
    axes.set_yticks(range(len(group)), short, fontsize=6.5)
    for row, line in enumerate(cells):
        for column, value in enumerate(line):
            text = "?" if np.isnan(value) else f"{value:.1f}".replace("-0.0", "0.0")
            colour = "white" if abs(value) > 0.65 else INK
            axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=6.5)
    axes.set_title(group[0].folder or "these traces", fontsize=8.5)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return heat


def _name_rows(axes: Axes, traces: Sequence[SpotTrace]) -> None:
    bare(axes)
    axes.set_yticks(range(len(traces)), [trace.name for trace in traces], fontsize=7.5)
    axes.set_ylim(len(traces) - 0.5, -0.5)


def _plain_ticks(axes: Axes) -> None:
    """Numbers as people write them, also on a logarithmic axis."""
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())


def _days(trace: SpotTrace) -> float:
    return trace.duration_us / US_PER_DAY
