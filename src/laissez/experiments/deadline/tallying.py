"""From runs to means: of a case, a setting, a trace, a group, and of all.

A run is a row of integers. The costs of a case are divided by the mean cost of on-demand alone in
the same case; after that, runs of different settings can stand in one mean, each counting the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from laissez.deadline.job import US_PER_HOUR
from laissez.deadline.traces import SpotTrace
from laissez.experiments.deadline.study import (
    BASELINE,
    BOUND,
    PRESENT_BEST,
    PartResult,
    PolicyTally,
    Result,
    SettingResult,
    Study,
    StudySetting,
    Tallies,
    is_held_out,
    labels,
)

ON_DEMAND, SPOT, ON_DEMAND_CHANGEOVER, SPOT_CHANGEOVER, COST, MISSED = range(6)
"""The columns of a row: microseconds, micro-dollars, and 1 for a run that was late."""

PLENTY = 0.5
TIGHT = 0.75

Records = NDArray[np.int64]
PolicyRuns = Mapping[str, NDArray[np.float64]]
"""The rows of each policy, with hours and relative costs."""


class TraceCase(msgspec.Struct, frozen=True):
    """A setting, the `setting_at`th of its study, on a trace, or on several zones at once."""

    setting_at: int
    setting: StudySetting
    members: tuple[int, ...]
    policies: tuple[str, ...]
    stream: str
    starts: tuple[int, ...]


def result_of(
    study: Study,
    traces: Sequence[SpotTrace],
    cases: Sequence[TraceCase],
    records: Sequence[Mapping[str, Records]],
    notes: Sequence[str],
) -> Result:
    runs = [_runs(case, each) for case, each in zip(cases, records, strict=True)]
    names = [traces[case.members[0]].name for case in cases]
    at = [case.setting_at for case in cases]
    held_out = _held_out(traces)
    settings = [
        SettingResult(label, setting, tallies(study, _those(runs, at, number)))
        for number, (label, setting) in enumerate(
            zip(labels(study.settings), study.settings, strict=True)
        )
        if number in at
    ]
    return Result(
        study,
        tallies(study, runs),
        tuple(settings),
        tuple(
            PartResult(name, tallies(study, _those(runs, names, name)))
            for name in dict.fromkeys(names)
        ),
        _groups(study, traces, cases, runs, held_out),
        {
            (number, name): tallies(study, [each])
            for number, name, each in zip(at, names, runs, strict=True)
        },
        tuple(notes),
        tuple(name for name in dict.fromkeys(names) if name in held_out),
    )


def tallies(study: Study, parts: Iterable[PolicyRuns]) -> Tallies:
    """The means over some runs, of the policies that took part in all of them.

    A mean over other, maybe easier runs can't stand beside them.
    """
    parts = list(parts)
    found: Tallies = {}
    for name in study.policies:
        rows = [part[name] for part in parts if name in part]
        if len(rows) == len(parts) and any(len(each) for each in rows):
            found[name] = _tally(np.concatenate(rows))
    return {name: _compared(tally, found) for name, tally in found.items()}


def _runs(case: TraceCase, records: Mapping[str, Records]) -> PolicyRuns:
    baseline_micros = records[BASELINE][:, COST].mean()
    scale = np.full(6, 1 / US_PER_HOUR)
    scale[COST] = 1 / baseline_micros
    scale[MISSED] = 1
    return {name: records[name] * scale for name in case.policies}


def _those(runs: Sequence[PolicyRuns], keys: Sequence[object], wanted: object) -> list[PolicyRuns]:
    return [each for each, key in zip(runs, keys, strict=True) if key == wanted]


def _tally(rows: NDArray[np.float64]) -> PolicyTally:
    means = [float(mean) for mean in rows.mean(axis=0)]
    low, high = np.quantile(1 - rows[:, COST], [0.25, 0.75])
    return PolicyTally(
        on_demand_hours=means[ON_DEMAND],
        spot_hours=means[SPOT],
        on_demand_changeover_hours=means[ON_DEMAND_CHANGEOVER],
        spot_changeover_hours=means[SPOT_CHANGEOVER],
        cost=means[COST],
        saving=1 - means[COST],
        saving_p25=float(low),
        saving_p75=float(high),
        missed=int(rows[:, MISSED].sum()),
        runs=len(rows),
    )


def _compared(tally: PolicyTally, all_tallies: Tallies) -> PolicyTally:
    bound = all_tallies.get(BOUND)
    present = all_tallies.get(PRESENT_BEST)
    if bound is None or bound.runs != tally.runs:
        return tally
    used = tally.spot_hours / bound.spot_hours if bound.spot_hours else None
    closed = None
    if present is not None and present.runs == bound.runs and bound.saving > present.saving:
        closed = (tally.saving - present.saving) / (bound.saving - present.saving)
    return msgspec.structs.replace(tally, spot_utilisation=used, gap_closed=closed)


# --- groups -------------------------------------------------------------------------------------


def _held_out(traces: Sequence[SpotTrace]) -> set[str]:
    """Of all traces there are: which of them have room for a deadline moves none."""
    names = [trace.name for trace in traces]
    return {name for name in names if is_held_out(name, names)}


def _groups(
    study: Study,
    traces: Sequence[SpotTrace],
    cases: Sequence[TraceCase],
    runs: Sequence[PolicyRuns],
    held_out: set[str],
) -> tuple[PartResult, ...]:
    """The runs by what their study groups them by; a case may have some in each group."""
    if study.group_by is None:
        return ()
    groups: dict[str, list[PolicyRuns]] = {}
    for case, rows in zip(cases, runs, strict=True):
        trace = traces[case.members[0]]
        if study.group_by == "halves":
            half = "held-out traces" if trace.name in held_out else "development traces"
            kinds = np.full(len(case.starts), half)
        else:
            kinds = _circumstances(case, trace)
        for kind in np.unique(kinds):
            part = {name: each[kinds == kind] for name, each in rows.items()}
            groups.setdefault(str(kind), []).append(part)
    return tuple(PartResult(kind, tallies(study, groups[kind])) for kind in sorted(groups))


def _circumstances(case: TraceCase, trace: SpotTrace) -> NDArray[np.str_]:
    """For each start how much spot there is until the deadline, and how tight that is."""
    setting = case.setting
    ticks = -(-setting.deadline_us // trace.tick_us)
    before = np.concatenate([[0], np.cumsum(trace.is_available(setting.nodes))])
    starts = np.array(case.starts)
    share = (before[starts + ticks] - before[starts]) / ticks
    deadline = "tight" if setting.fraction > TIGHT else "loose"
    return np.where(
        share > PLENTY,
        f"availability over 50%, {deadline} deadline",
        f"availability up to 50%, {deadline} deadline",
    )
