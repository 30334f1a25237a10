"""Runs a study: every policy in every setting, on every trace, from many random starts.

A case is a setting on a trace. Its starts are drawn from a stream of its own, named after seed,
trace and deadline, so that a number doesn't depend on what else is evaluated, nor on how many
processes do it. All policies of a case run from the same starts, and settings that differ only in
changeover or price share theirs. A start leaves the whole deadline inside the trace.

Where work or changeovers are uncertain, each run has a stream for what they really are, the same
for all policies. A run is then late if it ends after the relaxed guarantee: the deadline, plus the
work that nobody knew of, plus twice what a changeover can take longer than it should.

Processes are handed tasks: a case with some of its starts. They send back integers, one row per
run, and only here do these become means.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from fnmatch import fnmatch
from functools import lru_cache, partial
from glob import escape
from pathlib import Path

import msgspec
import numpy as np

from laissez.deadline.generator import sample_traces
from laissez.deadline.job import Job, Kind, Offer
from laissez.deadline.registry import POLICIES, Brief
from laissez.deadline.traces import BadTrace, SpotTrace, load
from laissez.deadline.world import Future, Outcome, Truth, Zone, run
from laissez.experiments.deadline.study import BASELINE, BadStudy, Result, Study, StudySetting
from laissez.experiments.deadline.tallying import Records, TraceCase, result_of
from laissez.experiments.processes import ReportDone, run_all

SPOT_MICROS_PER_HOUR = 1_000_000
STARTS_PER_TASK = 25


class NeedsTraces(BadStudy):
    """A study for which no sample traces can be made up."""


class Task(msgspec.Struct, frozen=True):
    """Some starts of a case; `members` are the places of its traces in the list of all."""

    setting: StudySetting
    members: tuple[int, ...]
    policies: tuple[str, ...]
    stream: str
    starts: tuple[int, ...]


def load_traces(
    study: Study, folder: Path | None, *, beside: Path | None = None
) -> tuple[Study, list[SpotTrace]]:
    """The traces that a study asks for, and the study on them.

    What it asks for lies in the folder, the one with `availability` and `preemption`; or where
    there is none, `beside` the study. If nothing lies there either, sample traces take its place.
    """
    if folder is None and beside is not None and _asks_for_some(study, beside):
        folder = beside
    if folder is None:
        return _on_samples(study)
    patterns = dict.fromkeys(pattern for setting in study.settings for pattern in setting.traces)
    found = {pattern: _load(folder, pattern) for pattern in patterns}
    # From here on a setting names its traces: a folder may be laid out in another way.
    named = tuple(
        msgspec.structs.replace(
            setting,
            traces=tuple(
                sorted(
                    {
                        escape(_address(each))
                        for pattern in setting.traces
                        for each in found[pattern]
                    }
                )
            ),
        )
        for setting in study.settings
    )
    traces = {trace for each in found.values() for trace in each}
    return msgspec.structs.replace(study, settings=named), sorted(traces, key=_address)


def on_traces(study: Study, traces: Sequence[SpotTrace]) -> Study:
    """The jobs of a study on other traces, all of them in all settings.

    What was published is not about these; nor do they have halves, as nothing was developed on
    some of them.
    """
    nodes = max(setting.nodes for setting in study.settings)
    for trace in traces:
        if nodes > max(trace.nodes, *trace.counts):
            raise NeedsTraces(
                f"the study {study.name} runs {nodes} nodes at once, and {trace.name} tells of "
                "fewer; give traces of so many with --data or --trace"
            )
    settings = tuple(
        msgspec.structs.replace(each, traces=("*",), published=None) for each in study.settings
    )
    return msgspec.structs.replace(
        study,
        settings=tuple(dict.fromkeys(settings)),
        group_by=None if study.group_by == "halves" else study.group_by,
    )


def _on_samples(study: Study) -> tuple[Study, list[SpotTrace]]:
    if any(setting.nodes > 1 for setting in study.settings):
        raise NeedsTraces(
            f"the study {study.name} runs several nodes at once, of which sample traces tell "
            "nothing; give real ones with --data or --trace"
        )
    samples = sample_traces()
    return msgspec.structs.replace(on_traces(study, samples), data="sample"), samples


def _asks_for_some(study: Study, folder: Path) -> bool:
    """Whether anything lies where the study says; what it says in full has to."""
    patterns = {pattern for setting in study.settings for pattern in setting.traces}
    return any(Path(each).is_absolute() or _paths(folder, each) for each in patterns)


def _load(folder: Path, pattern: str) -> list[SpotTrace]:
    found = _paths(folder, pattern)
    if not found:
        where = "" if Path(pattern).is_absolute() else f" in {folder}"
        raise BadTrace(f"no trace fits {pattern!r}{where}; check --data, and 'traces' in the study")
    return [load(path) for path in found]


def _paths(folder: Path, pattern: str) -> list[Path]:
    path = Path(pattern)
    if path.is_absolute():
        folder, path = Path(path.anchor), path.relative_to(path.anchor)
    try:
        return sorted(found for found in folder.glob(str(path)) if found.is_file())
    except (ValueError, IndexError):
        raise BadStudy(
            f"{pattern!r} is no pattern for the paths of traces; write one such as '*/*.json'"
        ) from None


def evaluate(
    study: Study,
    traces: Sequence[SpotTrace],
    *,
    progress: ReportDone | None = None,
    processes: int | None = None,
) -> Result:
    """Run a study on those of the traces that its settings ask for."""
    cases, notes = _cases(study, traces)
    if not cases:
        raise BadStudy(
            f"the study {study.name} has no run: no trace fits it, or none is longer than the "
            "deadline; check 'traces', 'days' and 'deadline' or 'fraction'"
        )
    tasks = [task for case in cases for task in _tasks(case)]
    found: dict[int, Records] = {}
    total = sum(len(task.starts) * len(task.policies) for task in tasks)
    runs = 0
    with closing(run_all(partial(_worker, tuple(traces)), tasks, processes)) as all_records:
        for at, records in all_records:
            found[at] = records
            runs += len(tasks[at].starts) * len(tasks[at].policies)
            if progress is not None:
                progress(runs, total)
    done = [found[at] for at in range(len(tasks))]
    return result_of(study, traces, cases, _by_case(tasks, done, cases), notes)


# --- what is to be run --------------------------------------------------------------------------


def _cases(study: Study, traces: Sequence[SpotTrace]) -> tuple[list[TraceCase], list[str]]:
    cases, notes = [], []
    places_of = [_places(setting, traces) for setting in study.settings]
    _refuse_namesakes(traces[place] for place in sorted({at for each in places_of for at in each}))
    for at, (setting, places) in enumerate(zip(study.settings, places_of, strict=True)):
        for place in places:
            trace = traces[place]
            members: tuple[int, ...] = (place,)
            if setting.zones == "all":
                members += tuple(
                    other for other in places if other != place and _is_beside(traces[other], trace)
                )
            ticks = min(_ticks(traces[member], setting.days) for member in members)
            # A deadline within a tick needs the whole of it, here only: jobs have their own.
            room = ticks - -(-setting.deadline_us // trace.tick_us) + 1
            if room <= 0:
                notes.append(f"{trace.name} is shorter than the deadline, and was left out")
                continue
            if room < study.starts:
                notes.append(f"{trace.name} has {room} starts before the last deadline; all ran")
            policies = tuple(
                name
                for name in study.policies
                if len(members) == 1 or not POLICIES[name].sees_future
            )
            if not policies:
                notes.append(
                    f"no policy of the study knows all zones of {trace.name}; it was left out"
                )
                continue
            stream = f"{study.seed}/{trace.name}/{setting.deadline_us}/{setting.days}"
            starts = random.Random(stream).sample(range(room), min(room, study.starts))
            cases.append(TraceCase(at, setting, members, policies, stream, tuple(starts)))
    return cases, list(dict.fromkeys(notes))


def _places(setting: StudySetting, traces: Sequence[SpotTrace]) -> list[int]:
    """Where the traces of a setting stand among all."""
    return [
        place
        for place, trace in enumerate(traces)
        if any(fnmatch(_address(trace), pattern) for pattern in setting.traces)
    ]


def _refuse_namesakes(traces: Iterable[SpotTrace]) -> None:
    """Results, starts and halves know a trace by its name."""
    seen: dict[str, SpotTrace] = {}
    for trace in traces:
        other = seen.setdefault(trace.name, trace)
        if other is not trace:
            raise BadStudy(
                f"two traces are called {trace.name}, {_address(other)} and {_address(trace)}; "
                "take them in two studies, or rename the folder or file of one"
            )


def _address(trace: SpotTrace) -> str:
    return f"{trace.kind}/{trace.nodes}-node/{trace.name}.json"


def _is_beside(one: SpotTrace, other: SpotTrace) -> bool:
    """Another zone that was watched at the same time, for the same kind of instance."""
    return (one.folder, one.resource, one.kind, one.nodes, one.tick_us) == (
        other.folder,
        other.resource,
        other.kind,
        other.nodes,
        other.tick_us,
    )


def _ticks(trace: SpotTrace, days: int | None) -> int:
    return len(trace.counts) if days is None else len(trace.first(days).counts)


def _tasks(case: TraceCase) -> Iterator[Task]:
    policies = tuple(dict.fromkeys((BASELINE, *case.policies)))
    for at in range(0, len(case.starts), STARTS_PER_TASK):
        starts = case.starts[at : at + STARTS_PER_TASK]
        yield Task(case.setting, case.members, policies, case.stream, starts)


def _by_case(
    tasks: Sequence[Task], done: Sequence[Records], cases: Sequence[TraceCase]
) -> list[dict[str, Records]]:
    """The rows of each policy in each case; tasks are in the order of their cases."""
    found = []
    at = 0
    for case in cases:
        count = -(-len(case.starts) // STARTS_PER_TASK)
        rows = np.concatenate(done[at : at + count], axis=1)
        found.append(dict(zip(tasks[at].policies, rows, strict=True)))
        at += count
    return found


# --- running it ---------------------------------------------------------------------------------


class _Laboratory:
    """The traces, and the zones that were made of them so far."""

    def __init__(self, traces: Sequence[SpotTrace]) -> None:
        self._traces = traces
        self._zone = lru_cache(maxsize=None)(self._make_zone)

    def _make_zone(self, place: int, days: int | None, nodes: int) -> Zone:
        trace = self._traces[place]
        whole = trace if days is None else trace.first(days)
        return whole.as_zone(SPOT_MICROS_PER_HOUR * nodes, nodes)

    def run(self, task: Task) -> Records:
        """A row for each policy and start."""
        setting = task.setting
        zones = [self._zone(member, setting.days, setting.nodes) for member in task.members]
        tick_us = zones[0].tick_us
        job = Job(setting.work_us, setting.deadline_us, setting.changeover_us, tick_us)
        rows = [_rows(job, name, zones, task) for name in task.policies]
        return np.array(rows, dtype=np.int64)


def _worker(traces: Sequence[SpotTrace]) -> Callable[[Task], Records]:
    return _Laboratory(traces).run


def _rows(job: Job, name: str, zones: Sequence[Zone], task: Task) -> list[tuple[int, ...]]:
    """How a policy fares from each start."""
    setting = task.setting
    if name == BASELINE and not _is_uncertain(setting):
        # On-demand sees nothing of the trace: one run tells all.
        return [_row(job, name, zones, task, task.starts[0])] * len(task.starts)
    return [_row(job, name, zones, task, start) for start in task.starts]


def _row(job: Job, name: str, zones: Sequence[Zone], task: Task, start: int) -> tuple[int, ...]:
    setting = task.setting
    stream = f"{task.stream}/{start}"
    spot_micros_per_hour = SPOT_MICROS_PER_HOUR * setting.nodes
    on_demand_micros_per_hour = round(spot_micros_per_hour * setting.price_ratio)
    known = POLICIES[name]
    policy = known.make(
        Brief(
            job,
            spot_micros_per_hour,
            on_demand_micros_per_hour,
            random.Random(stream).getrandbits(32),
            Future(zones, start) if known.sees_future else None,
        )
    )
    on_demand = Offer("", Kind.ON_DEMAND, on_demand_micros_per_hour)
    truth = _truth(setting, stream) if _is_uncertain(setting) else None
    outcome = run(job, policy, zones, on_demand, start=start, truth=truth)
    return (
        outcome.on_demand_us,
        outcome.spot_us,
        outcome.on_demand_changeover_us,
        outcome.spot_changeover_us,
        outcome.cost_micros,
        _is_missed(job, outcome, setting, truth),
    )


# --- what is not known beforehand ---------------------------------------------------------------


def _is_uncertain(setting: StudySetting) -> bool:
    return bool(setting.work_error or setting.changeover_error)


def _truth(setting: StudySetting, stream: str) -> Truth:
    chance = random.Random(f"{stream}/truth")
    work_us = _about(setting.work_us, setting.work_error, chance)
    return Truth(work_us, lambda: _about(setting.changeover_us, setting.changeover_error, chance))


def _about(estimate_us: int, error: float, chance: random.Random) -> int:
    return round(estimate_us * (1 + chance.uniform(-error, error)))


def _is_missed(job: Job, outcome: Outcome, setting: StudySetting, truth: Truth | None) -> bool:
    if truth is None:
        return outcome.is_late
    extra_work_us = max(0, truth.work_us - job.work_us)
    # A changeover that takes longest is rounded like the others.
    extra_changeover_us = round(job.changeover_us * (1 + setting.changeover_error))
    extra_changeover_us -= job.changeover_us
    ends_us = job.deadline_us + extra_work_us + 2 * extra_changeover_us
    return outcome.finished_us is None or outcome.finished_us > ends_us
