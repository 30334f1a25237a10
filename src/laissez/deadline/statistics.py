"""What traces of spot capacity are like: how much of it there is, how long it lasts, how it ends.

A trace is a row of spells: of availability, each with a lifetime, and of none, each an outage. The
first and the last are cut off by the ends of the trace, and how long they really were is not known.
So a list of lengths has only whole spells, which leaves out long ones more often than short ones:
it errs to the short side, the more so the fewer spells there are. A hazard uses what is known of
every spell whose beginning was seen: the last one counts for as long as it was watched, and not as
an end. The first has no known age and is left out.

Money and time are integers in the traces; here they become floats, and stay so.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np
import numpy.typing as npt

from laissez.deadline.job import US_PER_HOUR
from laissez.deadline.traces import US_PER_DAY, BadTrace, SpotTrace

Lengths = npt.NDArray[np.int64]


class MeanAndQuartiles(msgspec.Struct, frozen=True):
    """The middle of some figures."""

    mean: float
    p25: float
    median: float
    p75: float


class TraceStatistics(msgspec.Struct, frozen=True):
    """A trace in a line. Lifetimes and outages are of whole spells, None if there is no such."""

    name: str
    days: float
    availability: float
    spells: int
    lifetime_hours: MeanAndQuartiles | None
    outage_hours: MeanAndQuartiles | None


def statistics(trace: SpotTrace, *, nodes: int = 1) -> TraceStatistics:
    """The trace in a line, with capacity taken as there when so many nodes can be had."""
    is_available, lengths = _spells(trace, nodes)
    return TraceStatistics(
        name=trace.name,
        days=trace.duration_us / US_PER_DAY,
        availability=float(lengths[is_available].sum() / len(trace.counts)),
        spells=int(is_available.sum()),
        lifetime_hours=_summary(lifetimes_us(trace, nodes=nodes)),
        outage_hours=_summary(outages_us(trace, nodes=nodes)),
    )


def lifetimes_us(trace: SpotTrace, *, nodes: int = 1) -> list[int]:
    """How long capacity lasted, for each time that it came and went within the trace."""
    return _whole_us(trace, nodes, of_availability=True)


def outages_us(trace: SpotTrace, *, nodes: int = 1) -> list[int]:
    """How long there was none, for each time that it went and came back within the trace."""
    return _whole_us(trace, nodes, of_availability=False)


def availability_by_window(trace: SpotTrace, window_us: int, *, nodes: int = 1) -> list[float]:
    """The share of time with capacity in each whole window, from the first tick on.

    What is left after the last whole window is left out. Where windows are no multiple of the
    tick, each begins with the tick that its beginning falls into.
    """
    if window_us < trace.tick_us:
        raise BadTrace(
            f"{trace.name} was looked at every {trace.tick_us / 1e6:g} s; take a window that is "
            "at least as long"
        )
    is_available = np.array(trace.is_available(nodes))
    count = trace.duration_us // window_us
    begins = [number * window_us // trace.tick_us for number in range(count + 1)]
    return [float(is_available[begin:end].mean()) for begin, end in pairwise(begins)]


def correlation(traces: Sequence[SpotTrace], *, nodes: int = 1) -> list[list[float]]:
    """How far the zones have capacity at the same time: one row per trace, -1 to 1.

    The traces must have been recorded together; they are cut to the shortest. It is not a number
    where one of two different traces never changes.
    """
    if len({trace.tick_us for trace in traces}) != 1:
        raise BadTrace("correlation needs traces of one date, all with the same time between looks")
    length = min(len(trace.counts) for trace in traces)
    rows = np.array([trace.is_available(nodes)[:length] for trace in traces], dtype=float)
    rows -= rows.mean(axis=1, keepdims=True)
    spread = np.sqrt((rows**2).mean(axis=1))
    scale = np.outer(spread, spread)
    matrix = np.full_like(scale, np.nan)
    np.divide(rows @ rows.T / length, scale, out=matrix, where=scale > 0)
    np.fill_diagonal(matrix, 1.0)
    return [[float(each) for each in row] for row in matrix]


def hazard_by_age(
    traces: Sequence[SpotTrace], is_available: bool, edges_us: Sequence[int], *, nodes: int = 1
) -> list[float]:
    """At which rate per hour a spell ends, by its age: ends over time watched, in each bucket.

    Bucket `i` is for ages above `edges_us[i]`, up to and with `edges_us[i + 1]`. It is not a number
    where no spell was watched at that age.
    """
    edges = np.array(edges_us, dtype=np.int64)
    if len(edges) < 2 or edges[0] < 0 or (np.diff(edges) <= 0).any():
        raise ValueError("ages need two edges or more, from 0 or above, each beyond the last")
    ends = np.zeros(len(edges) - 1)
    watched_us = np.zeros(len(edges) - 1)
    for trace in traces:
        ended_us, cut_us = _of_known_age_us(trace, nodes, is_available)
        ends += ((ended_us > edges[:-1, None]) & (ended_us <= edges[1:, None])).sum(axis=1)
        seen_us = np.append(ended_us, cut_us)
        inside_us = np.clip(seen_us - edges[:-1, None], 0, np.diff(edges)[:, None])
        watched_us += inside_us.sum(axis=1)
    hazard = np.full(len(ends), np.nan)
    np.divide(ends * US_PER_HOUR, watched_us, out=hazard, where=watched_us > 0)
    return [float(each) for each in hazard]


def _spells(trace: SpotTrace, nodes: int) -> tuple[npt.NDArray[np.bool_], Lengths]:
    """Whether each spell is of availability, and its length in ticks."""
    is_available = np.array(trace.is_available(nodes))
    changes = np.flatnonzero(np.diff(is_available)) + 1
    begins = np.concatenate(([0], changes))
    lengths = np.diff(np.append(begins, len(is_available)))
    return is_available[begins], lengths.astype(np.int64)


def _whole_us(trace: SpotTrace, nodes: int, *, of_availability: bool) -> list[int]:
    is_available, lengths = _spells(trace, nodes)
    whole = lengths[1:-1][is_available[1:-1] == of_availability]
    return [int(length) * trace.tick_us for length in whole]


def _of_known_age_us(
    trace: SpotTrace, nodes: int, of_availability: bool
) -> tuple[Lengths, Lengths]:
    """The spells that ended, and the one that the end of the trace cut off, if it is such."""
    ended_us = np.array(_whole_us(trace, nodes, of_availability=of_availability), dtype=np.int64)
    is_available, lengths = _spells(trace, nodes)
    is_cut = len(lengths) > 1 and is_available[-1] == of_availability
    return ended_us, lengths[-1:] * trace.tick_us if is_cut else lengths[:0]


def _summary(lengths_us: Sequence[int]) -> MeanAndQuartiles | None:
    if not lengths_us:
        return None
    hours = np.array(lengths_us) / US_PER_HOUR
    quartiles = (float(each) for each in np.quantile(hours, (0.25, 0.5, 0.75)))
    return MeanAndQuartiles(float(hours.mean()), *quartiles)
