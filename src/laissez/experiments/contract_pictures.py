"""Pictures of contracts: a row of panels for each reading, means on the left, spread on the right.

A contract looks the same in every picture, and any two differ in more than the colour: marker and
dash for lines, hatch for boxes. Paper and legend are those of the pictures of deadlines. Regimes
stand side by side at equal distances, as nothing is known between them; within one, contracts stand
beside each other in the order of the legend.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from laissez.experiments.intervals import Interval
from laissez.experiments.page import INK, Dash, legend_below, sheet
from laissez.experiments.picture_file import BadPicture
from laissez.experiments.summaries import ContractSummary

ROW_INCHES = 3.1
BOXES_ROOM = 0.8
LINES_ROOM = 0.3
"""The share of a regime's room that its contracts fill: lines would lean if they took more."""

RegimeRow = Mapping[str, Mapping[str, ContractSummary]]
"""By regime, by contract."""


class ContractLook(msgspec.Struct, frozen=True):
    """How a contract is drawn."""

    colour: str
    marker: str
    dash: Dash = "-"
    hatch: str = ""

    @property
    def box(self) -> dict[str, Any]:
        return {
            "facecolor": "white" if self.hatch else self.colour,
            "edgecolor": self.colour,
            "hatch": self.hatch,
            "linewidth": 0.9,
        }


LOOKS = {
    "market": ContractLook("#d55e00", "*"),
    "with_map": ContractLook("#cc79a7", "X", "-", "oo"),
    "fcfs": ContractLook("#0072b2", "o", "--", "///"),
    "fcfs_p": ContractLook("#56b4e9", "s", "-.", "\\\\\\"),
    "fair": ContractLook("#009e73", "^", ":", "..."),
    "no_displacement": ContractLook("#e69f00", "D", "--", "xxx"),
    "clairvoyant": ContractLook("#222222", "P", ":", "|||"),
}
UNKNOWN_LOOK = ContractLook("#777777", "v", "-.", "+++")


def look(contract: str) -> ContractLook:
    return LOOKS.get(contract, UNKNOWN_LOOK)


def draw_retention(
    path: Path,
    *,
    title: str,
    rows: Mapping[str, RegimeRow],
    labels: Mapping[str, str],
    footnote: str,
) -> None:
    """Mean retention with its interval, and the quartiles over projects, regime by regime."""
    shown = {name for row in rows.values() for each in row.values() for name in each}
    contracts = [name for name in labels if name in shown]
    if not contracts:
        raise BadPicture("no contract was run; there is nothing to draw")
    with sheet(path, height_inches=ROW_INCHES * len(rows) + 1.1, title=title) as figure:
        grid = figure.subplots(len(rows), 2, squeeze=False, sharex=True)
        for (name, row), (means, spreads) in zip(rows.items(), grid, strict=True):
            _draw_means(means, row, contracts)
            _draw_quartiles(spreads, row, contracts)
            means.set_title(f"Mean retention: {name}")
            spreads.set_title(f"Half of all projects, and the median: {name}")
        for axes in grid[-1]:
            axes.set_xlabel("demand over capacity")
        boxed = {
            name
            for row in rows.values()
            for each in row.values()
            for name, its in each.items()
            if its.quartiles
        }
        keys = [key for name in contracts for key in _keys(name, labels[name], name in boxed)]
        legend_below(figure, keys, columns=len(contracts), footnote=footnote)


def draw_bars(
    path: Path,
    *,
    title: str,
    groups: Mapping[str, Mapping[str, Interval]],
    labels: Mapping[str, str],
    looks: Mapping[str, ContractLook],
    axis: str,
    footnote: str,
) -> None:
    """A group of bars with their intervals beside the other; each of a group has its own look."""
    shown = [name for name in labels if any(name in group for group in groups.values())]
    width = BOXES_ROOM / len(shown)
    with sheet(path, height_inches=ROW_INCHES + 1.1, title=title) as figure:
        axes = figure.subplots()
        for at, name in enumerate(shown):
            bars = {
                place + BOXES_ROOM * _offset(at, len(shown)): group[name]
                for place, group in enumerate(groups.values())
                if name in group
            }
            axes.bar(
                list(bars),
                [each.estimate for each in bars.values()],
                width * 0.8,
                yerr=[
                    [_margin(each.estimate, each.low) for each in bars.values()],
                    [_margin(each.estimate, each.high) for each in bars.values()],
                ],
                capsize=4,
                **looks[name].box,
            )
        axes.set_xticks(range(len(groups)), list(groups))
        axes.set_ylabel(axis)
        keys: list[Artist] = [Patch(label=labels[name], **looks[name].box) for name in shown]
        legend_below(figure, keys, columns=len(keys), footnote=footnote)


def _draw_means(axes: Axes, row: RegimeRow, contracts: Sequence[str]) -> None:
    _prepare(axes, row, "retention (%)")
    for at, contract in enumerate(contracts):
        its = look(contract)
        points = [
            (place + LINES_ROOM * _offset(at, len(contracts)), by_contract[contract])
            for place, by_contract in enumerate(row.values())
            if contract in by_contract
        ]
        axes.errorbar(
            [place for place, _ in points],
            [100 * each.mean_retention for _, each in points],
            yerr=[
                [100 * _margin(each.mean_retention, each.ci95[0]) for _, each in points],
                [100 * _margin(each.mean_retention, each.ci95[1]) for _, each in points],
            ],
            color=its.colour,
            marker=its.marker,
            linestyle=its.dash,
            linewidth=1.2,
            markersize=8 if its.marker == "*" else 5,
            capsize=2.5,
            elinewidth=0.9,
        )


def _draw_quartiles(axes: Axes, row: RegimeRow, contracts: Sequence[str]) -> None:
    _prepare(axes, row, None)
    width = BOXES_ROOM / len(contracts)
    for place, by_contract in enumerate(row.values()):
        for at, contract in enumerate(contracts):
            each = by_contract[contract].quartiles if contract in by_contract else None
            if each is None:
                continue
            its = look(contract)
            centre = place + BOXES_ROOM * _offset(at, len(contracts))
            axes.bar(
                centre,
                100 * (each.p75 - each.p25),
                width * 0.8,
                bottom=100 * each.p25,
                **its.box,
            )
            axes.plot(
                [centre - width * 0.45, centre + width * 0.45],
                [100 * each.median] * 2,
                color=INK,
                linewidth=2,
                solid_capstyle="butt",
            )


def _prepare(axes: Axes, row: RegimeRow, name: str | None) -> None:
    axes.set_xticks(range(len(row)), list(row))
    axes.set_xlim(-0.5, len(row) - 0.5)
    axes.set_ylim(0, 103)
    axes.tick_params(labelbottom=True)
    axes.grid(axis="y")
    if name is not None:
        axes.set_ylabel(name)


def _offset(at: int, count: int) -> float:
    """Where a contract stands within the room that there is, from -0.5 to 0.5."""
    return (at + 0.5) / count - 0.5


def _margin(mean: float, side: float | None) -> float:
    return 0.0 if side is None else abs(side - mean)


def _keys(contract: str, label: str, has_box: bool) -> tuple[Artist, Artist]:
    """A column of the legend: the line, and below it the box, if it has one."""
    its = look(contract)
    line = Line2D(
        [], [], color=its.colour, marker=its.marker, linestyle=its.dash, markersize=6, label=label
    )
    return line, Patch(**its.box, label=" ") if has_box else Line2D([], [], linestyle="", label=" ")
