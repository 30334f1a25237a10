"""`laissez deadline evaluate`: a study, run and told: as tables, as JSON, as a picture.

For people there is the mean over everything, a row per policy; and for a study with several
settings or groups a table of savings, a row for each of them and a column per policy.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from laissez.cli.terminal.amounts import counted
from laissez.cli.terminal.output import (
    PIPE_WIDTH,
    json_option,
    progress_bar,
    say,
    say_json,
    table,
    warn,
)
from laissez.cli.terminal.parameters import FiniteRange, duration
from laissez.cli.terminal.pictures import PICTURE, check_picture, need_matplotlib
from laissez.deadline.job import BadJob
from laissez.deadline.registry import POLICIES
from laissez.deadline.statistics import statistics
from laissez.deadline.traces import US_PER_DAY, BadTrace, SpotTrace, load
from laissez.experiments.deadline.evaluation import NeedsTraces, load_traces, on_traces
from laissez.experiments.deadline.evaluation import evaluate as evaluate_study
from laissez.experiments.deadline.reading import built_in, read_built_in, read_study
from laissez.experiments.deadline.study import (
    BadStudy,
    PartResult,
    PolicyTally,
    Result,
    Study,
    Tallies,
    changed,
)
from laissez.model.message import Message
from laissez.model.wire import encode

DEFAULT = "hours"
SPOT_FOLDER = "spot"
KIND_FOLDERS = ("availability", "preemption")
STUDY_SUFFIXES = (".yaml", ".yml")
PUBLISHED = "published,\nuniform\nprogress"
PRICE_RATIO_MAX = 1_000_000
TRACE = click.Path(path_type=Path, exists=True, dir_okay=False)
EXTRA = "laissez[deadline]"

data_option = click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The folder in which 'spot' lies, with the traces; without it, sample traces are made up.",
)


class Evaluated(Message, frozen=True):
    """A study's numbers: over all runs, and by setting, trace and group."""

    study: str
    title: str
    data: str
    seed: int
    starts: int
    policies: Tallies
    settings: tuple[dict[str, Any], ...]
    groups: tuple[PartResult, ...]
    traces: tuple[PartResult, ...]
    notes: tuple[str, ...]


class EvaluatedAll(Message, frozen=True):
    """The files that were written, and the studies that need real traces where there are none."""

    data: str
    files: tuple[str, ...]
    left_out: tuple[str, ...]


class TraceSource(msgspec.Struct, frozen=True):
    """Where the traces come from: a folder of data, single files, or what the study says."""

    folder: Path | None
    files: tuple[Path, ...]


@click.command(epilog=f"Studies that come with laissez: {', '.join(built_in())}.")
@click.argument("study", required=False)
@data_option
@click.option(
    "--trace",
    "paths",
    type=TRACE,
    multiple=True,
    help="A file with a trace, instead of those of the study; may be given several times.",
)
@click.option(
    "--policy",
    "policies",
    type=click.Choice(list(POLICIES)),
    multiple=True,
    help="Run this policy instead of the study's; may be given several times.",
)
@click.option("--starts", type=click.IntRange(1), help="Random starts on each trace.")
@click.option("--seed", type=int, help="For the starts, and all else that is left to chance.")
@click.option(
    "--processes", type=click.IntRange(1), help="How many to use; as many as cores if not said."
)
@click.option("--work", type=duration, help="How much work the job is, in all settings.")
@click.option(
    "--fraction",
    type=FiniteRange(0, 1, min_open=True, max_open=True),
    help="Work as a fraction of the deadline, in all settings.",
)
@click.option("--changeover", type=duration, help="What a move costs, in all settings.")
@click.option(
    "--price-ratio",
    type=FiniteRange(1, PRICE_RATIO_MAX, min_open=True, max_open=True),
    help="How many times dearer on-demand is than spot, in all settings.",
)
@click.option("--plot", type=PICTURE, help="Draw the result into this file: .png or .svg.")
@click.option(
    "--all",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Run all studies that come with laissez; table, JSON and picture of each go here.",
)
@json_option
def evaluate(
    study: str | None,
    data: Path | None,
    paths: tuple[Path, ...],
    policies: tuple[str, ...],
    starts: int | None,
    seed: int | None,
    processes: int | None,
    work: int | None,
    fraction: float | None,
    changeover: int | None,
    price_ratio: float | None,
    plot: Path | None,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Compare policies for jobs with a deadline, on traces of spot capacity.

    STUDY is the name of a study that comes with laissez, or a YAML file: which traces, jobs and
    policies. Without one, it is 'hours'. Each policy runs from the same random starts. A saving is
    relative to on-demand alone. The traces that a study names lie in the folder 'spot' of --data;
    without --data, beside the YAML file.
    """
    if data is not None and paths:
        raise click.UsageError("give either --data or --trace, not both")
    if folder is not None and (study is not None or plot is not None):
        raise click.UsageError("--all runs all studies; leave STUDY and --plot out")
    check_picture(plot, EXTRA)
    source = TraceSource(None if data is None else spot_folder(data), paths)
    others = {"policies": policies or None, "starts": starts, "seed": seed}
    others = {name: value for name, value in others.items() if value is not None}
    try:
        studies = [
            changed(
                msgspec.structs.replace(_read(name), **others),
                work_us=work,
                fraction=fraction,
                changeover_us=changeover,
                price_ratio=price_ratio,
            )
            for name in (built_in() if folder is not None else [study or DEFAULT])
        ]
        if folder is not None:
            _write_all(studies, source, folder, processes, as_json)
            return
        beside = None if study in (None, *built_in()) else Path(str(study)).parent
        result, traces = _evaluated(studies[0], source, beside, processes, as_json)
    except (BadStudy, BadTrace, BadJob) as error:
        raise click.ClickException(str(error)) from None
    # The numbers first: they took long, and a picture may fail.
    if as_json:
        say_json(_document(result))
    else:
        for shown in _report(result):
            say(shown)
    if plot is not None:
        _draw(result, traces, plot)
        if not as_json:
            say(f"The picture is in {plot}.")


def spot_folder(data: Path) -> Path:
    """Where the traces lie in a folder of data, which may be that place itself."""
    folder = data / SPOT_FOLDER
    if folder.is_dir():
        return folder
    if any((data / kind).is_dir() for kind in KIND_FOLDERS):
        return data
    raise click.BadParameter(
        f"there is no folder {SPOT_FOLDER!r} in {data}; give the one in which it lies",
        param_hint="--data",
    )


def figures() -> Any:
    """The room's pictures."""
    from laissez.experiments.deadline import figures as found  # noqa: PLC0415

    return found


def _read(name: str) -> Study:
    if name in built_in():
        return read_built_in(name)
    path = Path(name)
    if not path.is_file():
        raise click.BadParameter(_no_study(name), param_hint="STUDY")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadStudy(f"{name}:1: this is not text in UTF-8; write it as YAML") from None
    return read_study(text, name=path.stem, file_name=name)


def _no_study(name: str) -> str:
    if Path(name).is_dir():
        return f"{name} is a folder; give a YAML file in it"
    if Path(name).suffix in STUDY_SUFFIXES or os.sep in name:
        return f"there is no file {name}"
    close = get_close_matches(name, built_in(), n=1)
    meant = f"did you mean {close[0]!r}?" if close else f"take one of {', '.join(built_in())}"
    return f"{name!r} is neither a YAML file nor a study that comes with laissez; {meant}"


def _evaluated(
    study: Study, source: TraceSource, beside: Path | None, processes: int | None, as_json: bool
) -> tuple[Result, list[SpotTrace]]:
    if source.files:
        traces = list(dict.fromkeys(load(path) for path in source.files))
        study = on_traces(study, traces)
    else:
        study, traces = load_traces(study, source.folder, beside=beside)
    with progress_bar(study.name, as_json=as_json) as progress:
        result = evaluate_study(study, traces, progress=progress, processes=processes)
    if source.files:
        result = msgspec.structs.replace(result, notes=(*_days_note(result, traces), *result.notes))
    return result, traces


def _days_note(result: Result, traces: Sequence[SpotTrace]) -> Iterator[str]:
    """That a study takes a part of somebody's traces only."""
    days = {each.days for each in result.study.settings if each.days is not None}
    longest_us = max(trace.duration_us for trace in traces)
    for each in sorted(days):
        if each * US_PER_DAY < longest_us:
            yield f"of each trace the first {counted(each, 'day')} are taken, as the study says"


def _draw(result: Result, traces: Sequence[SpotTrace], path: Path) -> None:
    drawing = figures()
    try:
        drawing.draw_study(result, path, availability=_availability(result, traces))
    except drawing.BadPicture as error:
        raise click.ClickException(str(error)) from None


def _availability(result: Result, traces: Sequence[SpotTrace]) -> dict[str, float]:
    """The share of the time with capacity for what ran, by trace; none where settings differ."""
    kinds = {(each.days, each.nodes, each.zones) for each in result.study.settings}
    (days, nodes, zones), *others = kinds
    if others or zones == "all":
        return {}
    ran = {part.name for part in result.traces}
    seen = [trace if days is None else trace.first(days) for trace in traces if trace.name in ran]
    return {trace.name: statistics(trace, nodes=nodes).availability for trace in seen}


def _write_all(
    studies: Sequence[Study],
    source: TraceSource,
    folder: Path,
    processes: int | None,
    as_json: bool,
) -> None:
    need_matplotlib(EXTRA)
    folder.mkdir(parents=True, exist_ok=True)
    written: list[str] = []
    left_out: list[str] = []
    kind = ""
    for study in studies:
        try:
            result, traces = _evaluated(study, source, None, processes, as_json)
        except NeedsTraces as error:
            left_out.append(study.name)
            warn(f"laissez: left out: {error}")
            continue
        stem = folder / study.name
        stem.with_suffix(".txt").write_text(_plain_text(_report(result)), encoding="utf-8")
        stem.with_suffix(".json").write_bytes(encode(_document(result)) + b"\n")
        _draw(result, traces, stem.with_suffix(".png"))
        written += [str(stem.with_suffix(suffix)) for suffix in (".txt", ".json", ".png")]
        kind = result.study.data
        if not as_json:
            say(f"{study.title}: {stem}.txt, .json and .png")
    if as_json:
        say_json(EvaluatedAll(kind, tuple(written), tuple(left_out)))


def _document(result: Result) -> Evaluated:
    study = result.study
    return Evaluated(
        study.name,
        study.title,
        study.data,
        study.seed,
        study.starts,
        result.policies,
        tuple(
            msgspec.structs.asdict(each.setting) | {"label": each.label, "policies": each.policies}
            for each in result.settings
        ),
        result.groups,
        result.traces,
        result.notes,
    )


# --- for people ---------------------------------------------------------------------------------


def _report(result: Result) -> Iterator[RenderableType]:
    study = result.study
    if study.data == "sample":
        yield (
            "These are sample traces, made up by a generator; the traces that the study names are "
            "not used.\nGive real ones with --data or --trace.\n"
        )
    if len(result.settings) > 1:
        named = [(each.label, each.policies) for each in result.settings]
        published = [each.setting.published for each in result.settings]
        yield _savings("setting", named, study, published)
        yield ""
    if result.groups:
        named = [(each.name, each.policies) for each in result.groups]
        yield _savings("group", named, study, [None] * len(named))
        yield ""
        if _shows_gap(result):
            yield _gaps(result)
            yield ""
    yield _means(result)
    yield ""
    yield from result.notes
    if any(POLICIES[name].label.startswith("UP,") for name in study.policies):
        yield "UP is uniform progress."
    missed = sum(tally.missed for each in result.settings for tally in each.policies.values())
    runs = {tally.runs for tally in result.policies.values()}
    yield (
        f"{counted(study.starts, 'random start')} on each of "
        f"{counted(len(result.traces), 'trace')}, {counted(len(result.settings), 'setting')}, "
        f"seed {study.seed}"
        + "".join(f": {counted(each, 'run')} of each policy" for each in runs)
        + (f"; {counted(missed, 'deadline')} missed." if missed else "; no deadline missed.")
    )


def _shows_gap(result: Result) -> bool:
    """If the study is about it, and has what makes the gap."""
    is_asked = result.study.plot.y == "gap_closed"
    return is_asked and any(tally.gap_closed is not None for tally in result.policies.values())


def _heading(policy: str) -> str:
    """The name of a policy over a narrow column: a line for each word."""
    return POLICIES[policy].label.replace(" ", "\n").replace("-", "-\n")


def _means(result: Result) -> Table:
    """The mean over everything, a row for each policy."""
    tallies = result.policies
    has_bound = any(tally.spot_utilisation is not None for tally in tallies.values())
    has_gap, has_missed = _shows_gap(result), any(tally.missed for tally in tallies.values())
    columns = ["on-dem.\nh", "spot\nh", "change-\nover h", "saving", "half of\nthe runs"]
    columns += ["spot\nused"] * has_bound + ["gap\nclosed"] * has_gap + ["missed"] * has_missed
    rows = []
    for name, tally in tallies.items():
        row = [POLICIES[name].label, *_hours(tally), f"{tally.saving:.1%}"]
        row.append(f"{tally.saving_p25:.0%} to {tally.saving_p75:.0%}")
        row += [_share(tally.spot_utilisation)] * has_bound + [_share(tally.gap_closed)] * has_gap
        rows.append(row + [f"{tally.missed:,}"] * has_missed)
    title = result.study.title + ": all settings together" * (len(result.settings) > 1)
    return table("policy", *columns, rows=rows, right=columns, title=title)


def _savings(
    what: str,
    named: Sequence[tuple[str, Tallies]],
    study: Study,
    published: Sequence[float | None],
) -> Table:
    """The saving of each policy in each setting or group."""
    has_published = any(each is not None for each in published)
    columns = [_heading(name) for name in study.policies] + [PUBLISHED] * has_published
    rows = []
    for (label, tallies), found in zip(named, published, strict=True):
        savings = [
            _share(tallies[name].saving if name in tallies else None) for name in study.policies
        ]
        rows.append([label, *savings, *[_share(found)] * has_published])
    return table(what, *columns, rows=rows, right=columns, title=f"Savings by {what}")


def _gaps(result: Result) -> Table:
    """What each policy closes of the gap between uniform progress and omniscient, by group."""
    columns = [_heading(name) for name in result.policies]
    rows = [
        [each.name, *(_share(each.policies[name].gap_closed) for name in result.policies)]
        for each in result.groups
    ]
    title = "Gap closed between uniform progress and omniscient"
    return table("group", *columns, rows=rows, right=columns, title=title)


def _hours(tally: PolicyTally) -> Iterator[str]:
    changeover_hours = tally.on_demand_changeover_hours + tally.spot_changeover_hours
    for hours in (tally.on_demand_hours, tally.spot_hours, changeover_hours):
        yield f"{hours:.1f}"


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def _plain_text(shown: Iterator[RenderableType]) -> str:
    """What `say` would print into a pipe."""
    file = io.StringIO()
    console = Console(file=file, width=PIPE_WIDTH, highlight=False, markup=False, emoji=False)
    for each in shown:
        console.print(Text(each) if isinstance(each, str) else each)
    return "\n".join(line.rstrip() for line in file.getvalue().split("\n"))
