"""Jobs with a deadline on capacity that comes and goes: `laissez deadline`.

These commands need no service. They need numpy, and matplotlib for pictures, which come with the
extra `deadline`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import click

from laissez.cli.terminal.amounts import counted
from laissez.cli.terminal.exits import ExtraMissing
from laissez.cli.terminal.output import json_option, say, say_json, say_table
from laissez.cli.terminal.pictures import PICTURE, check_picture
from laissez.model.message import Message

try:
    from laissez.cli.evaluator.evaluating import (
        EXTRA,
        TRACE,
        data_option,
        evaluate,
        figures,
        spot_folder,
    )
    from laissez.cli.evaluator.planning import plan
    from laissez.deadline.generator import sample_traces
    from laissez.deadline.statistics import (
        MeanAndQuartiles,
        TraceStatistics,
        correlation,
        statistics,
    )
    from laissez.deadline.traces import BadTrace, SpotTrace, load, load_all
except ModuleNotFoundError as missing:
    if missing.name != "numpy":
        raise
    raise ExtraMissing("deadlines are reckoned with numpy", "laissez[deadline]") from None

ALL_TRACES = "**/*.json"


class Correlated(Message, frozen=True):
    """Traces that were recorded together, and how far their capacity comes at the same time."""

    traces: tuple[str, ...]
    correlation: tuple[tuple[float | None, ...], ...]


class TracesDescribed(Message, frozen=True):
    data: str
    nodes: int
    traces: tuple[TraceStatistics, ...]
    together: tuple[Correlated, ...]


@click.group()
def deadline() -> None:
    """Finish in time on capacity that comes and goes."""


deadline.add_command(plan)
deadline.add_command(evaluate)


@deadline.command("traces")
@data_option
@click.option(
    "--trace",
    "paths",
    type=TRACE,
    multiple=True,
    help="A file with a trace; may be given several times.",
)
@click.option(
    "--nodes",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Capacity is there when so many can be had together.",
)
@click.option("--plot", type=PICTURE, help="Draw the traces into this file: .png or .svg.")
@json_option
def traces(
    data: Path | None, paths: tuple[Path, ...], nodes: int, plot: Path | None, as_json: bool
) -> None:
    """Describe traces of spot capacity: how much there is, how long it lasts.

    Hours are of whole spells: those that the trace begins or ends with are left out. Zones that
    were recorded together have capacity at the same time (a correlation of 1), independently (0),
    or in turns (-1); with --json, there is the correlation of any two. With --nodes, traces of
    fewer nodes are left out.
    """
    if data is not None and paths:
        raise click.UsageError("give either --data or --trace, not both")
    check_picture(plot, EXTRA)
    try:
        found = _traces(data, paths, nodes)
    except BadTrace as error:
        raise click.ClickException(str(error)) from None
    described = TracesDescribed(
        "traces" if data is not None or paths else "sample",
        nodes,
        tuple(statistics(trace, nodes=nodes) for trace in found),
        _together(found, nodes),
    )
    if as_json:
        say_json(described)
    else:
        _tell(described)
    if plot is not None:
        figures().draw_traces(found, plot, nodes=nodes)
        if not as_json:
            say(f"The picture is in {plot}.")


def _traces(data: Path | None, paths: Sequence[Path], nodes: int) -> list[SpotTrace]:
    if data is not None:
        found = load_all(spot_folder(data), ALL_TRACES)
    else:
        found = [load(path) for path in paths] or sample_traces()
    large = [trace for trace in found if max(trace.nodes, *trace.counts) >= nodes]
    if not large:
        raise BadTrace(f"none of the traces tells of {nodes} nodes; ask for fewer")
    return large


def _together(found: Sequence[SpotTrace], nodes: int) -> tuple[Correlated, ...]:
    groups: dict[tuple[str, str, int], list[SpotTrace]] = {}
    for trace in found:
        groups.setdefault((trace.folder, trace.kind, trace.tick_us), []).append(trace)
    return tuple(
        Correlated(
            tuple(trace.name for trace in group),
            tuple(tuple(row) for row in correlation(group, nodes=nodes)),
        )
        for group in groups.values()
        if len(group) > 1
    )


def _tell(described: TracesDescribed) -> None:
    if described.data == "sample":
        say("These are sample traces, made up by a generator; --data takes real ones.\n")
    right = ("days", "available", "spells", "lifetime h", "outage h")
    say_table(
        "trace",
        *right,
        rows=[
            (
                each.name,
                f"{each.days:.1f}",
                f"{each.availability:.0%}",
                f"{each.spells:,}",
                _middle(each.lifetime_hours),
                _middle(each.outage_hours),
            )
            for each in described.traces
        ],
        right=right,
        nothing="there are no traces",
    )
    say("\nHours: the mean, and in brackets the quarter, the half and three quarters.")
    if described.together:
        say("\nCapacity at the same time, as correlation of any two traces recorded together:")
    for group in described.together:
        say(_correlation(group))


def _correlation(group: Correlated) -> str:
    """One line: the mean over all pairs, and the range."""
    folder = group.traces[0].rpartition("/")[0] or "these"
    pairs = [
        each
        for at, row in enumerate(group.correlation)
        for each in row[:at]
        if each is not None and not math.isnan(each)
    ]
    where = f"{folder}, {counted(len(group.traces), 'trace')}"
    if not pairs:
        return f"{where}: at most one of them ever changes, so there is none"
    mean = sum(pairs) / len(pairs)
    return f"{where}: mean {mean:z.2f}, from {min(pairs):z.2f} to {max(pairs):z.2f}"


def _middle(summary: MeanAndQuartiles | None) -> str:
    if summary is None:
        return ""
    return f"{summary.mean:.1f} ({summary.p25:.1f} {summary.median:.1f} {summary.p75:.1f})"
