"""`laissez deadline evaluate`: a study, run and told: as tables, as JSON, as a picture.

For people there is the mean over everything, a row per policy; and for a study with several
settings or groups a table of savings, a row for each of them and a column per policy.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from laissez.cli.amounts import counted
from laissez.cli.output import PIPE_WIDTH, json_option, progress_bar, say, say_json, table
from laissez.cli.parameters import duration
from laissez.deadline.evaluation import evaluate as evaluate_study
from laissez.deadline.evaluation import load_traces
from laissez.deadline.job import BadJob
from laissez.deadline.reading import built_in, read_built_in, read_study
from laissez.deadline.registry import POLICIES
from laissez.deadline.statistics import statistics
from laissez.deadline.study import (
    PICTURE_SUFFIXES,
    BadStudy,
    PartResult,
    Result,
    Study,
    Tallies,
    Tally,
    changed,
)
from laissez.deadline.traces import BadTrace, Trace
from laissez.model.message import Message
from laissez.model.wire import encode

DEFAULT = "hours"
SPOT_FOLDER = "spot"
DATA = click.Path(path_type=Path, exists=True, file_okay=False)
PICTURE = click.Path(path_type=Path, dir_okay=False)


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
    """The files that were written."""

    data: str
    files: tuple[str, ...]


@click.command()
@click.argument("study", required=False)
@click.option(
    "--data",
    type=DATA,
    help="The folder in which 'spot' lies, with the traces; without it, sample traces are made up.",
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
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Work as a fraction of the deadline, in all settings.",
)
@click.option("--changeover", type=duration, help="What a move costs, in all settings.")
@click.option(
    "--price-ratio",
    type=click.FloatRange(min=1, min_open=True),
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
    relative to on-demand alone.
    """
    if folder is not None and (study is not None or plot is not None):
        raise click.UsageError("--all runs all studies; leave STUDY and --plot out")
    if plot is not None:
        check_picture(plot)
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
            _write_all(studies, data, folder, processes, as_json)
            return
        result, traces = _evaluated(studies[0], data, processes, as_json)
    except (BadStudy, BadTrace, BadJob) as error:
        raise click.ClickException(str(error)) from None
    if plot is not None:
        _draw(result, traces, plot)
    if as_json:
        say_json(_document(result))
        return
    for shown in _report(result):
        say(shown)
    if plot is not None:
        say(f"The picture is in {plot}.")


def spot_folder(data: Path) -> Path:
    """Where the traces lie in a folder of data."""
    folder = data / SPOT_FOLDER
    if not folder.is_dir():
        raise click.BadParameter(
            f"there is no folder {SPOT_FOLDER!r} in {data}; give the one in which it lies",
            param_hint="--data",
        )
    return folder


def check_picture(path: Path) -> None:
    """Refuse what can't be drawn before anything is computed."""
    if path.suffix.lower() not in PICTURE_SUFFIXES:
        raise click.BadParameter(
            f"a picture is a {' or '.join(PICTURE_SUFFIXES)}, not "
            f"{path.suffix or 'a file without an ending'!r}",
            param_hint="--plot",
        )
    if not path.parent.is_dir():
        raise click.BadParameter(
            f"there is no folder {str(path.parent)!r} for the picture; make it first",
            param_hint="--plot",
        )
    figures()


def figures() -> Any:
    """The room's pictures; only who wants one waits for matplotlib."""
    try:
        from laissez.deadline import figures as found  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        if missing.name != "matplotlib":
            raise
        raise click.ClickException(
            "pictures are drawn by matplotlib, which is not installed: "
            "pip install 'laissez[deadline]'"
        ) from None
    return found


def _read(name: str) -> Study:
    if name in built_in():
        return read_built_in(name)
    path = Path(name)
    if not path.is_file():
        raise click.BadParameter(
            f"{name!r} is neither a YAML file nor a study that comes with laissez "
            f"({', '.join(built_in())})",
            param_hint="STUDY",
        )
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadStudy(f"{name}:1: this is not text in UTF-8; write it as YAML") from None
    return read_study(text, name=path.stem, file_name=name)


def _evaluated(
    study: Study, data: Path | None, processes: int | None, as_json: bool
) -> tuple[Result, list[Trace]]:
    study, traces = load_traces(study, None if data is None else spot_folder(data))
    with progress_bar(study.name, as_json=as_json) as progress:
        return evaluate_study(study, traces, progress=progress, processes=processes), traces


def _draw(result: Result, traces: Sequence[Trace], path: Path) -> None:
    figures().draw_study(result, path, availability=_availability(result, traces))


def _availability(result: Result, traces: Sequence[Trace]) -> dict[str, float]:
    """The share of the time with capacity for what ran, by trace; none where settings differ."""
    kinds = {(each.days, each.nodes, each.zones) for each in result.study.settings}
    (days, nodes, zones), *others = kinds
    if others or zones == "all":
        return {}
    ran = {part.name for part in result.traces}
    seen = [trace if days is None else trace.first(days) for trace in traces if trace.name in ran]
    return {trace.name: statistics(trace, nodes=nodes).availability for trace in seen}


def _write_all(
    studies: Sequence[Study], data: Path | None, folder: Path, processes: int | None, as_json: bool
) -> None:
    figures()
    folder.mkdir(parents=True, exist_ok=True)
    written: list[str] = []
    kind = ""
    for study in studies:
        result, traces = _evaluated(study, data, processes, as_json)
        stem = folder / study.name
        stem.with_suffix(".txt").write_text(_plain_text(_report(result)), encoding="utf-8")
        stem.with_suffix(".json").write_bytes(encode(_document(result)) + b"\n")
        _draw(result, traces, stem.with_suffix(".png"))
        written += [str(stem.with_suffix(suffix)) for suffix in (".txt", ".json", ".png")]
        kind = result.study.data
        if not as_json:
            say(f"{study.title}: {stem}.txt, .json and .png")
    if as_json:
        say_json(EvaluatedAll(kind, tuple(written)))


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
        yield "These are sample traces, made up by a generator; --data takes real ones.\n"
    if len(result.settings) > 1:
        named = [(each.label, each.policies) for each in result.settings]
        published = [each.setting.published for each in result.settings]
        yield _savings("setting", named, study, published)
        yield ""
    if result.groups:
        named = [(each.name, each.policies) for each in result.groups]
        yield _savings("group", named, study, [None] * len(named))
        yield ""
        if any(tally.gap_closed is not None for tally in result.policies.values()):
            yield _gaps(result)
            yield ""
    yield _means(result)
    yield ""
    yield from result.notes
    yield (
        f"{counted(study.starts, 'random start')} on each of "
        f"{counted(len(result.traces), 'trace')}, {counted(len(result.settings), 'setting')}, "
        f"seed {study.seed}."
    )


def _means(result: Result) -> Table:
    """The mean over everything, a row for each policy."""
    tallies = result.policies
    has_bound = any(tally.spot_utilisation is not None for tally in tallies.values())
    has_gap = any(tally.gap_closed is not None for tally in tallies.values())
    columns = ["on-demand h", "spot h", "changeover h", "saving", "half of the runs"]
    columns += ["spot used"] * has_bound + ["gap closed"] * has_gap + ["missed", "runs"]
    rows = []
    for name, tally in tallies.items():
        row = [POLICIES[name].label, *_hours(tally), f"{tally.saving:.1%}"]
        row.append(f"{tally.saving_p25:.0%} to {tally.saving_p75:.0%}")
        row += [_share(tally.spot_utilisation)] * has_bound + [_share(tally.gap_closed)] * has_gap
        rows.append([*row, f"{tally.missed:,}", f"{tally.runs:,}"])
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
    columns = [POLICIES[name].label for name in study.policies] + ["published"] * has_published
    rows = []
    for (label, tallies), found in zip(named, published, strict=True):
        savings = [
            _share(tallies[name].saving if name in tallies else None) for name in study.policies
        ]
        rows.append([label, *savings, *[_share(found)] * has_published])
    return table(what, *columns, rows=rows, right=columns, title=f"Savings by {what}")


def _gaps(result: Result) -> Table:
    """What each policy closes of the gap between uniform progress and omniscient, by group."""
    columns = [POLICIES[name].label for name in result.policies]
    rows = [
        [each.name, *(_share(each.policies[name].gap_closed) for name in result.policies)]
        for each in result.groups
    ]
    title = "Gap closed between uniform progress and omniscient"
    return table("group", *columns, rows=rows, right=columns, title=title)


def _hours(tally: Tally) -> Iterator[str]:
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
