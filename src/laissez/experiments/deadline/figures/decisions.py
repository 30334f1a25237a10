"""The decision trace of one run: what was on offer, what each policy did, and how far it got.

Lanes share one axis of hours since the job's release. Above, where the zones had spot capacity;
then one lane per policy, where the colour says on what it ran, hatching that it was changing over,
and a gap that it idled; below, the work done, against the line of uniform progress. If there are
several zones, they are numbered, and a number in a bar says whose capacity it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from laissez.deadline.job import US_PER_HOUR, Job, Kind, Offer
from laissez.deadline.world import RunStep, Zone
from laissez.experiments.deadline.figures.looks import (
    KIND_COLOURS,
    KIND_LABELS,
    in_order,
    label,
    look,
)
from laissez.experiments.page import HATCH, INK, PAPER_GREY, WARNING, bare, legend_below, sheet
from laissez.experiments.picture_file import BadPicture

LANE_INCHES = 0.34
LANE_HEIGHT = 0.66
WORK_INCHES = 2.9
NUMBER_ROOM = 0.018
"""A bar shows its zone's number if it is at least this share of the axis wide."""


class LaneStretch(msgspec.Struct, frozen=True):
    """A time in which a run did one thing."""

    from_us: int
    to_us: int
    running: Offer | None
    is_changeover: bool


def stretches(steps: Sequence[RunStep]) -> list[LaneStretch]:
    """The steps cut into changeover and work, and those that go on joined."""
    found: list[LaneStretch] = []
    for piece in _pieces(steps):
        last = found[-1] if found else None
        if (
            last is not None
            and last.to_us == piece.from_us
            and last.running == piece.running
            and last.is_changeover == piece.is_changeover
        ):
            found[-1] = msgspec.structs.replace(last, to_us=piece.to_us)
        else:
            found.append(piece)
    return found


def _pieces(steps: Sequence[RunStep]) -> Iterator[LaneStretch]:
    for step in steps:
        works_from_us = step.from_us + step.changeover_us
        if step.changeover_us:
            yield LaneStretch(step.from_us, works_from_us, step.running, True)
        if works_from_us < step.to_us:
            yield LaneStretch(works_from_us, step.to_us, step.running, False)


def draw_decisions(
    job: Job,
    outcome_steps_by_policy: Mapping[str, Sequence[RunStep]],
    zones: Sequence[Zone],
    start: int,
    path: Path,
    *,
    shows_dollars: bool = True,
    on_demand_micros_per_hour: int | None = None,
) -> None:
    """What each policy did with a job that was released at the tick `start` of the zones.

    Where prices are made up, what a run cost is better not shown in dollars, but as a share of
    what on-demand alone costs: at this rate, or if not said, at that which a run paid.
    """
    runs = {
        policy: stretches(outcome_steps_by_policy[policy])
        for policy in in_order(set(outcome_steps_by_policy))
    }
    if not runs or not all(runs.values()):
        raise BadPicture("a decision trace needs the steps of its runs; run with keeps_steps=True")
    end_us = max(job.deadline_us, *(run[-1].to_us for run in runs.values()))
    rows = [max(1, len(zones)), len(runs)]
    lanes_inches = [LANE_INCHES * row + 0.3 for row in rows]
    title = (
        f"{_hours(job.work_us):.4g} h of work, due after {_hours(job.deadline_us):.4g} h: "
        "what each policy did"
    )
    with sheet(path, height_inches=sum(lanes_inches) + WORK_INCHES + 1.6, title=title) as figure:
        above, middle, below = figure.subplots(
            3, 1, sharex=True, height_ratios=[*lanes_inches, WORK_INCHES]
        )
        _draw_zones(above, zones, start, end_us)
        whole = None if shows_dollars else _on_demand_alone(job, runs, on_demand_micros_per_hour)
        costs = [_cost(run, shows_dollars, whole) for run in runs.values()]
        _draw_runs(middle, runs, zones, end_us, costs)
        _draw_work(below, job, runs)
        for axes in (above, middle, below):
            axes.axvline(_hours(job.deadline_us), color=WARNING, linewidth=1.4, zorder=4)
            axes.grid(axis="x")
        below.set_xlim(0, _hours(end_us) * 1.015)
        legend_below(figure, _keys(runs), columns=5)


def _draw_zones(axes: Axes, zones: Sequence[Zone], start: int, end_us: int) -> None:
    names = []
    for row, zone in enumerate(zones):
        bars = _available_bars(zone, start, end_us)
        axes.broken_barh(
            [(0, _hours(end_us))], (row - LANE_HEIGHT / 2, LANE_HEIGHT), color=PAPER_GREY
        )
        axes.broken_barh(
            bars, (row - LANE_HEIGHT / 2, LANE_HEIGHT), color=KIND_COLOURS[Kind.SPOT], linewidth=0
        )
        names.append(zone.name if len(zones) == 1 else f"{row + 1}  {zone.name}")
    _name_lanes(axes, names)
    axes.set_title("Spot capacity available")


def _available_bars(zone: Zone, start: int, end_us: int) -> list[tuple[float, float]]:
    """From and for how long there was capacity, in hours since the start."""
    bars = []
    at = start
    while at < len(zone) and (at - start) * zone.tick_us < end_us:
        ends = zone.spell_ends[at]
        if zone.offers[at] is not None:
            from_us = (at - start) * zone.tick_us
            to_us = min((ends - start) * zone.tick_us, end_us)
            bars.append((_hours(from_us), _hours(to_us - from_us)))
        at = ends
    return bars


def _draw_runs(
    axes: Axes,
    runs: Mapping[str, Sequence[LaneStretch]],
    zones: Sequence[Zone],
    end_us: int,
    costs: Sequence[str],
) -> None:
    numbers = {zone.name: str(row + 1) for row, zone in enumerate(zones)} if zones[1:] else {}
    for row, run in enumerate(runs.values()):
        base = row - LANE_HEIGHT / 2
        for stretch in run:
            if stretch.running is None:
                continue
            from_h, for_h = _hours(stretch.from_us), _hours(stretch.to_us - stretch.from_us)
            colour = KIND_COLOURS[stretch.running.kind]
            if stretch.is_changeover:
                axes.broken_barh(
                    [(from_h, for_h)],
                    (base, LANE_HEIGHT),
                    facecolor="white",
                    edgecolor=colour,
                    hatch=HATCH,
                    linewidth=0.6,
                )
                continue
            axes.broken_barh([(from_h, for_h)], (base, LANE_HEIGHT), color=colour, linewidth=0)
            number = numbers.get(stretch.running.zone) if _is_spot(stretch.running) else None
            if number and for_h > NUMBER_ROOM * _hours(end_us):
                axes.text(
                    from_h + for_h / 2, row, number, color="white", ha="center", va="center"
                ).set_fontsize(8)
        _draw_end(axes, row, run, costs[row])
    _name_lanes(axes, [label(policy) for policy in runs])
    axes.set_title("Where the job ran")
    axes.annotate(
        f"with changeovers:\non-demand + spot{', cost' * any(costs)}",
        (1.01, 1),
        xytext=(0, 4),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=8,
    )


def _draw_end(axes: Axes, row: int, run: Sequence[LaneStretch], cost: str) -> None:
    """Where the run ended, and beside the lane what it used and what that cost."""
    ended_h = _hours(run[-1].to_us)
    axes.plot([ended_h], [row], marker="o", color="white", markeredgecolor=INK, zorder=5)
    used = {
        kind: _hours(
            sum(
                s.to_us - s.from_us for s in run if s.running is not None and s.running.kind is kind
            )
        )
        for kind in Kind
    }
    axes.annotate(
        f"{used[Kind.ON_DEMAND]:.1f} h + {used[Kind.SPOT]:.1f} h{', ' * bool(cost)}{cost}",
        (1.01, row),
        xycoords=("axes fraction", "data"),
        va="center",
        fontsize=8,
    )


def _draw_work(axes: Axes, job: Job, runs: Mapping[str, Sequence[LaneStretch]]) -> None:
    axes.plot(
        [0, _hours(job.deadline_us)],
        [0, _hours(job.work_us)],
        color=INK,
        linewidth=0.9,
        linestyle=(0, (1, 1.5)),
    )
    for policy, run in runs.items():
        at_h, done_h = [0.0], [0.0]
        for stretch in run:
            works = stretch.running is not None and not stretch.is_changeover
            at_h.append(_hours(stretch.to_us))
            done_h.append(done_h[-1] + works * _hours(stretch.to_us - stretch.from_us))
        its = look(policy)
        axes.plot(at_h, done_h, color=its.colour, linestyle=its.dash, linewidth=1.6)
        axes.plot(at_h[-1], done_h[-1], marker="o", color=its.colour, markeredgecolor=INK)
    axes.set_ylim(0, None)
    axes.grid(axis="y")
    axes.set_ylabel("work done (h)")
    axes.set_xlabel("time since the job was released (h)")
    axes.set_title("Work done")
    axes.annotate(
        f"deadline {_hours(job.deadline_us):.4g} h",
        (_hours(job.deadline_us), 0.04 * _hours(job.work_us)),
        xytext=(-4, 0),
        textcoords="offset points",
        ha="right",
        color=WARNING,
    )


def _keys(runs: Mapping[str, Sequence[LaneStretch]]) -> list[Artist]:
    finish = Line2D([], [], marker="o", color="white", markeredgecolor=INK, label="finish")
    even = Line2D([], [], color=INK, linewidth=0.9, linestyle=(0, (1, 1.5)), label="even pace")
    deadline = Line2D([], [], color=WARNING, linewidth=1.4, label="deadline")
    kinds = [Patch(color=KIND_COLOURS[kind], label=KIND_LABELS[kind]) for kind in Kind]
    changeover = Patch(facecolor="white", edgecolor=INK, hatch=HATCH, label="changeover")
    idle = Patch(facecolor="white", edgecolor=PAPER_GREY, label="idle")
    lines = [
        Line2D([], [], color=look(policy).colour, linestyle=look(policy).dash, label=label(policy))
        for policy in runs
    ]
    return [*kinds, changeover, idle, finish, deadline, even, *lines]


def _name_lanes(axes: Axes, names: Sequence[str]) -> None:
    bare(axes)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
    axes.tick_params(axis="x", labelbottom=False, length=0)
    axes.spines["bottom"].set_visible(False)


def _is_spot(offer: Offer) -> bool:
    return offer.kind is Kind.SPOT


def _hours(duration_us: int) -> float:
    return duration_us / US_PER_HOUR


def _cost(run: Sequence[LaneStretch], shows_dollars: bool, on_demand_dollars: float | None) -> str:
    """In dollars, or as a share of on-demand alone; nothing where that is not known."""
    if shows_dollars:
        return f"${_dollars(run):,.2f}"
    return "" if on_demand_dollars is None else f"{_dollars(run) / on_demand_dollars:.0%}"


def _on_demand_alone(
    job: Job, runs: Mapping[str, Sequence[LaneStretch]], micros_per_hour: int | None
) -> float | None:
    """What on-demand alone would cost, if its rate is known."""
    paid = (
        stretch.running.micros_per_hour
        for run in runs.values()
        for stretch in run
        if stretch.running is not None and stretch.running.kind is Kind.ON_DEMAND
    )
    rate = next(paid, None) if micros_per_hour is None else micros_per_hour
    if rate is None:
        return None
    alone = Offer("", Kind.ON_DEMAND, rate)
    return _dollars([LaneStretch(0, job.work_us + job.changeover_us, alone, False)])


def _dollars(run: Sequence[LaneStretch]) -> float:
    charge = sum(
        (stretch.to_us - stretch.from_us) * stretch.running.micros_per_hour
        for stretch in run
        if stretch.running is not None
    )
    return charge / US_PER_HOUR / 1_000_000
