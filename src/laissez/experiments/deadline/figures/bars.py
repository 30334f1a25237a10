"""Studies without a swept field: bars, by policy and by setting or group.

`hours` is lying bars, stacked: work on each kind, with its changeovers hatched beside it. The rest
is standing bars in groups. Where groups are by availability, the figure is the extra cost over the
best that could have been done, because what can be saved at all differs from group to group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill

import msgspec
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from laissez.deadline.job import Kind
from laissez.experiments.deadline.figures.looks import (
    KIND_COLOURS,
    KIND_LABELS,
    in_order,
    label,
    look,
)
from laissez.experiments.deadline.figures.scales import GAUGES, footnote, shown_policies
from laissez.experiments.deadline.study import BOUND, PolicyTally, Result, Tallies
from laissez.experiments.page import HATCH, INK, WARNING, bare, legend_below, sheet

BAR_SHARE = 0.82
"""The share of a group's room that its bars fill."""
NAME_WIDTH = 22
GROUPS_PER_ROW = 6


class BarGroup(msgspec.Struct, frozen=True):
    """A group of bars."""

    name: str
    policies: Tallies
    published: float | None = None


class Bar(msgspec.Struct, frozen=True):
    """A height, and between which heights the middle half of the runs lies."""

    height: float
    low: float | None = None
    high: float | None = None


def entries(result: Result) -> list[BarGroup]:
    """The groups of a study that has groups, or else its settings."""
    if result.groups:
        return [BarGroup(group.name, group.policies) for group in result.groups]
    return [
        BarGroup(each.label or "all runs", each.policies, each.setting.published)
        for each in result.settings
    ]


def draw_hours(result: Result, path: Path) -> None:
    """The work on each kind, by policy: a panel for each setting or group."""
    panels = entries(result)
    policies = in_order({name for entry in panels for name in entry.policies})
    inches = 0.32 * len(policies) + 0.7
    with sheet(path, height_inches=inches * len(panels) + 1.5, title=result.study.title) as figure:
        rows = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        for axes, entry in zip(rows, panels, strict=True):
            _draw_hours(axes, policies, entry)
            if len(panels) > 1:
                axes.set_title(entry.name, pad=14)
        rows[-1].set_xlabel("mean time per run (h)")
        keys: list[Artist] = []
        for kind in (Kind.ON_DEMAND, Kind.SPOT):
            colour, name = KIND_COLOURS[kind], KIND_LABELS[kind]
            keys.append(Patch(color=colour, label=f"work on {name}"))
            keys.append(
                Patch(
                    facecolor="white", edgecolor=colour, hatch=HATCH, label=f"changeover to {name}"
                )
            )
        legend_below(figure, keys, footnote=footnote(result))


def _draw_hours(axes: Axes, policies: Sequence[str], entry: BarGroup) -> None:
    for row, policy in enumerate(policies):
        tally = entry.policies.get(policy)
        if tally is None:
            continue
        at = 0.0
        for kind, hours, is_changeover in _pieces(tally):
            if hours <= 0:
                continue
            colour = KIND_COLOURS[kind]
            axes.barh(
                row,
                hours,
                left=at,
                height=0.68,
                facecolor="white" if is_changeover else colour,
                edgecolor=colour,
                hatch=HATCH if is_changeover else None,
                linewidth=0.6,
            )
            if not is_changeover and hours > 3:
                axes.text(
                    at + hours / 2, row, f"{hours:.1f}", color="white", ha="center", va="center"
                )
            at += hours
        used = tally.spot_utilisation
        _write_beside(axes, row, f"{tally.saving:.1%}", "" if used is None else f"{used:.0%}")
    _write_beside(axes, -0.5, "saving", "spot use,\nof omniscient's")
    bare(axes)
    axes.set_yticks(range(len(policies)), [label(policy) for policy in policies])
    axes.set_ylim(len(policies) - 0.5, -0.5)
    axes.grid(axis="x")


def _pieces(tally: PolicyTally) -> list[tuple[Kind, float, bool]]:
    return [
        (Kind.ON_DEMAND, tally.on_demand_hours, False),
        (Kind.ON_DEMAND, tally.on_demand_changeover_hours, True),
        (Kind.SPOT, tally.spot_hours, False),
        (Kind.SPOT, tally.spot_changeover_hours, True),
    ]


def _write_beside(axes: Axes, row: float, saving: str, used: str) -> None:
    """Two columns right of the bars; above the first row, their names."""
    is_name = row < 0
    for place, text in ((1.02, saving), (1.09, used)):
        axes.annotate(
            text,
            (place, row),
            xytext=(0, 3 if is_name else 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="bottom" if is_name else "center",
            fontsize=8,
        )


def draw_groups(result: Result, path: Path) -> None:
    """Standing bars, one for each policy in each setting or group."""
    groups = entries(result)
    measure = result.study.plot.y
    is_extra = (
        measure == "saving"
        and result.study.group_by == "availability"
        and all(BOUND in entry.policies for entry in groups)
    )
    policies = shown_policies([entry.policies for entry in groups], measure)
    if is_extra:
        policies = [policy for policy in policies if policy != BOUND]
    read = _extra_cost if is_extra else _of_measure(result)
    name = "extra cost over omniscient (%)" if is_extra else GAUGES[measure].name
    rows = -(-len(groups) // GROUPS_PER_ROW)
    per_row = -(-len(groups) // rows)
    with sheet(path, height_inches=3.1 * rows + 1.6, title=result.study.title) as figure:
        panels = figure.subplots(rows, 1, sharey=True, squeeze=False)[:, 0]
        for row, axes in enumerate(panels):
            some = groups[row * per_row : (row + 1) * per_row]
            _draw_groups(axes, policies, some, read)
            axes.set_xlim(-0.5, per_row - 0.5)
            axes.set_ylabel(name)
            _draw_bound(axes, result)
        keys: list[Artist] = [
            Patch(color=look(each).colour, label=label(each)) for each in policies
        ]
        keys += _mark_keys(result, groups, has_quartiles=measure == "saving" and not is_extra)
        legend_below(figure, keys, footnote=footnote(result))


BarReader = Callable[[PolicyTally, Tallies], Bar | None]


def _of_measure(result: Result) -> BarReader:
    measure = result.study.plot.y

    def read(tally: PolicyTally, beside: Tallies) -> Bar | None:
        height = GAUGES[measure].read(tally)
        if height is None:
            return None
        if measure != "saving":
            return Bar(height)
        return Bar(height, 100 * tally.saving_p25, 100 * tally.saving_p75)

    return read


def _extra_cost(tally: PolicyTally, beside: Tallies) -> Bar | None:
    """Over the mean cost of the best. No quartiles: those of a policy's own runs, laid against
    that mean, would look as if it had beaten the best."""
    best = beside[BOUND].cost
    return Bar(100 * (tally.cost / best - 1)) if best > 0 else None


def _draw_groups(
    axes: Axes, policies: Sequence[str], groups: Sequence[BarGroup], read: BarReader
) -> None:
    width = BAR_SHARE / len(policies)
    for at, entry in enumerate(groups):
        for number, policy in enumerate(policies):
            tally = entry.policies.get(policy)
            bar = None if tally is None else read(tally, entry.policies)
            if bar is None:
                continue
            x = at + (number + 0.5) * width - BAR_SHARE / 2
            axes.bar(x, bar.height, width=0.9 * width, color=look(policy).colour)
            if bar.low is not None and bar.high is not None:
                for colour, line in (("white", 2.4), (INK, 1.0)):
                    axes.plot([x, x], [bar.low, bar.high], color=colour, linewidth=line)
            axes.annotate(
                f"{bar.height:z.0f}",
                (x, 0),
                xytext=(0, -4),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                ha="center",
                va="top",
                fontsize=7.5,
            )
        if entry.published is not None:
            half = BAR_SHARE / 2
            axes.plot(
                [at - half, at + half], [100 * entry.published] * 2, color=WARNING, linestyle="--"
            )
    axes.axhline(0, color=INK, linewidth=0.8)
    axes.spines["bottom"].set_visible(False)
    axes.set_xticks(range(len(groups)), [_folded(entry.name) for entry in groups])
    axes.tick_params(axis="x", length=0, pad=17)
    axes.grid(axis="y")


def _folded(name: str) -> str:
    """A line for each part of it, or more where one is long."""
    return "\n".join(fill(part, NAME_WIDTH) for part in name.replace(", ", ",\n").split("\n"))


def _single_zone_best(result: Result) -> float | None:
    """What the omniscient saves in one zone, if others may choose from all."""
    has_all = any(each.setting.zones == "all" for each in result.settings)
    singles = [
        100 * each.policies[BOUND].saving
        for each in result.settings
        if each.setting.zones == "single" and BOUND in each.policies
    ]
    return sum(singles) / len(singles) if singles and has_all else None


def _draw_bound(axes: Axes, result: Result) -> None:
    best = _single_zone_best(result)
    if best is not None and result.study.plot.y == "saving":
        axes.axhline(best, color=INK, linestyle=":", linewidth=1.2)


def _mark_keys(result: Result, groups: Sequence[BarGroup], *, has_quartiles: bool) -> list[Artist]:
    keys: list[Artist] = []
    if has_quartiles:
        keys.append(Line2D([], [], color=INK, linewidth=0.9, label="middle half of the runs"))
    if result.study.plot.y == "saving" and _single_zone_best(result) is not None:
        name = "Omniscient, mean of single zones"
        keys.append(Line2D([], [], color=INK, linestyle=":", linewidth=1.2, label=name))
    if any(entry.published is not None for entry in groups):
        name = "published saving of uniform progress"
        keys.append(Line2D([], [], color=WARNING, linestyle="--", label=name))
    return keys
