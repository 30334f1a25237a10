"""A life as a picture: what was held, what it cost, and what was lacking, over time.

Above, the nodes by kind, hatched where they are still cold; losses to others are marked. In the
middle, what all of them cost and up to what they would be kept. Below, what is done and what is
lacking. The only file of lives that imports matplotlib.
"""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes

from laissez.experiments.page import FAINT, HATCH, INK, WARNING, sheet
from laissez.model.values import MICROS_PER_DOLLAR
from laissez.simulation.life.events import CoursePoint, Loses
from laissez.simulation.life.life import Life

US_PER_MINUTE = 60_000_000
HEIGHT_INCHES = 7.0
LIMITS_SHOWN = 3
"""Limits are drawn up to so many times the highest rate, or they would hide the rates."""
COLOURS = ("#0072b2", "#56b4e9", "#009e73", "#e69f00", "#cc79a7")
PAPER = "#ffffff"


def picture(life: Life, path: Path) -> None:
    """Draws a life to a PNG or an SVG, by the suffix of the path."""
    who, sums = life.who, life.summary
    title = f"{who.name} under {life.contract}, seed {life.seed}: retention {sums.retention:.2f}"
    with sheet(path, height_inches=HEIGHT_INCHES, title=title) as figure:
        held, costs, work = figure.subplots(3, 1, sharex=True)
        at_minutes = [point.at_us / US_PER_MINUTE for point in life.course]
        _draw_held(held, life, at_minutes)
        _draw_costs(costs, life.course, at_minutes)
        _draw_work(work, life, at_minutes)
        work.set_xlim(who.arrives_us / US_PER_MINUTE, who.ends_us / US_PER_MINUTE)
        work.set_xlabel("minutes")


def _draw_held(axes: Axes, life: Life, at_minutes: list[float]) -> None:
    kinds = sorted({kind for point in life.course for kind in point.nodes}, reverse=True)
    counts = [[point.nodes.get(kind, 0) for point in life.course] for kind in kinds]
    if kinds:
        colours = [COLOURS[number % len(COLOURS)] for number in range(len(kinds))]
        axes.stackplot(at_minutes, *counts, labels=kinds, colors=colours, step="post")
    cold = [point.cold_nodes for point in life.course]
    axes.fill_between(
        at_minutes, cold, step="post", facecolor="none", edgecolor=PAPER, hatch=HATCH, label="cold"
    )
    lost = [event for event in life.events if isinstance(event, Loses)]
    if lost:
        axes.plot(
            [event.at_us / US_PER_MINUTE for event in lost],
            [0] * len(lost),
            linestyle="none",
            marker="v",
            color=WARNING,
            clip_on=False,
            label="lost to others",
        )
    axes.set_ylabel("nodes")
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=len(kinds) + 2,
        facecolor=FAINT,
        frameon=True,
    )


def _draw_costs(axes: Axes, course: tuple[CoursePoint, ...], at_minutes: list[float]) -> None:
    rates = [point.rate / MICROS_PER_DOLLAR for point in course]
    axes.step(at_minutes, rates, where="post", color=INK, label="all its rates")
    if any(point.limit is not None for point in course):
        limits = [(point.limit or 0) / MICROS_PER_DOLLAR for point in course]
        axes.step(at_minutes, limits, where="post", color=INK, linestyle=":", label="all limits")
    axes.set_ylim(0, max(1.0, LIMITS_SHOWN * max(rates, default=0.0)))
    axes.set_ylabel("dollars an hour")
    axes.legend(loc="upper left", ncols=2)


def _draw_work(axes: Axes, life: Life, at_minutes: list[float]) -> None:
    whole = life.who.alone_performance or 1.0
    done = [point.performance / whole for point in life.course]
    axes.step(at_minutes, done, where="post", color=COLOURS[2], label="done, of what it does alone")
    axes.set_ylim(0, 1.05)
    axes.set_ylabel("share done")
    axes.legend(loc="upper left")
    lacking = axes.twinx()
    gaps = [point.gap for point in life.course]
    lacking.step(at_minutes, gaps, where="post", color=WARNING, linewidth=0.8, label="lacking")
    lacking.set_ylim(bottom=0)
    lacking.set_ylabel(f"lacking ({life.who.unit})", color=WARNING)
