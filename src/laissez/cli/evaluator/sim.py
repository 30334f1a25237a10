"""What a market would do to somebody's own cluster: `laissez sim`.

A scenario is a file with a cluster and its tenants. `check` says how it is understood, `run` plays
one contract, `compare` plays several; all of them first let every tenant run alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from laissez.cli.evaluator.comparing import (
    ScenarioExplained,
    check_report,
    checked,
    compare_report,
    compared,
    run_report,
)
from laissez.cli.terminal.exits import ExtraMissing
from laissez.cli.terminal.output import CommandFunction, json_option, progress_bar, say, say_json
from laissez.cli.terminal.pictures import PICTURE, check_picture
from laissez.cli.terminal.running import FILE, mistakes_shown
from laissez.experiments.figures.contention import LABELS
from laissez.experiments.runs import BadCache, Cache, CodeChanged, Runs, cache_folder
from laissez.experiments.scenario.comparing import (
    ScenarioComparison,
    ScenarioFile,
    alone_of,
    files_of,
    setting_of,
)
from laissez.experiments.scenario.comparing import (
    compare as compare_contracts,
)
from laissez.model.message import Message
from laissez.simulation.contracts.registry import CLAIRVOYANT, CONTRACTS
from laissez.simulation.demand.requests import BadData
from laissez.simulation.life.life import UnknownTenant, life_of
from laissez.simulation.life.telling import tell
from laissez.simulation.scenarios.example import EXAMPLE

FIRST_SEED = 1
EXTRA = "laissez[simulation]"


class ScenarioBegun(Message, frozen=True):
    """A file was written to begin with."""

    path: str


class ScenarioSession:
    """What the options say: the file, the seeds, and how to run."""

    def __init__(
        self,
        file: Path,
        *,
        seed: int,
        seeds: int = 1,
        data: Path | None,
        processes: int | None = 1,
        cache: Cache | None = None,
        as_json: bool,
    ) -> None:
        with mistakes_shown(file):
            text = file.read_text(encoding="utf-8")
            self.source = ScenarioFile(text, str(file), str(file.parent))
            self.scenario = self.source.scenario()
        self.file = file
        self.seeds = range(seed, seed + seeds)
        self.data = data
        self.title = self.scenario.spec.title or file.stem
        self._processes = processes
        self._cache = cache
        self._as_json = as_json

    @contextmanager
    def runs(self, title: str) -> Iterator[Runs]:
        """To run tasks with; whatever goes wrong in them becomes a sentence."""
        try:
            with (
                mistakes_shown(self.file),
                progress_bar(title, as_json=self._as_json) as progress,
            ):
                yield Runs(
                    data=self.data,
                    files=files_of(self.source, self.data),
                    cache=self._cache,
                    processes=self._processes,
                    progress=progress,
                )
        except (BadData, CodeChanged, UnknownTenant) as error:
            raise click.ClickException(str(error)) from None

    def compare(self, contracts: tuple[str, ...]) -> ScenarioComparison:
        with self.runs("playing") as runs:
            return compare_contracts(self.source, contracts, self.seeds, runs)


def running_options(function: CommandFunction) -> CommandFunction:
    """What `run` and `compare` have in common."""
    for option in (
        json_option,
        click.option(
            "--plot",
            type=PICTURE,
            help="Draw the result into this file: .png or .svg.",
        ),
        click.option("--no-cache", is_flag=True, help="Keep no results, and use none."),
        click.option(
            "--cache",
            "folder",
            type=click.Path(path_type=Path, file_okay=False),
            help="Where results are kept; ~/.cache/laissez if not said.",
        ),
        click.option(
            "--processes",
            type=click.IntRange(1),
            help="How many to use; as many as cores if not said.",
        ),
        data_option,
        click.option(
            "--seeds",
            type=click.IntRange(1, 1_000),
            default=1,
            show_default=True,
            help="How many seeds; several have intervals.",
        ),
        seed_option,
        click.argument("file", type=FILE),
    ):
        function = option(function)
    return function


def seed_option(function: CommandFunction) -> CommandFunction:
    return click.option(
        "--seed",
        type=click.IntRange(0),
        default=FIRST_SEED,
        show_default=True,
        help="For all that is left to chance; of several, the first.",
    )(function)


def data_option(function: CommandFunction) -> CommandFunction:
    return click.option(
        "--data",
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        help="The folder with the Azure traces; without it, requests are made up like theirs.",
    )(function)


@click.group()
def sim() -> None:
    """Try a market on your own cluster.

    The market and today's contracts are played with the same tenants. A scenario is a YAML file: a
    cluster, prices, tenants. docs/evaluate-your-cluster.md says what it may say, and examples are
    in examples/scenarios. Nothing here needs a service.
    """


@sim.command("init")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@json_option
def init(file: Path, as_json: bool) -> None:
    """Write a scenario to begin with to FILE."""
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(EXAMPLE)
    except FileExistsError:
        raise click.ClickException(f"{file} is there already; name another file") from None
    if as_json:
        say_json(ScenarioBegun(str(file)))
    else:
        say(f"{file} is written; next: laissez sim check {file}")


@sim.command("check")
@click.argument("file", type=FILE)
@seed_option
@data_option
@json_option
def check(file: Path, seed: int, data: Path | None, as_json: bool) -> None:
    """Read FILE, let every tenant run alone, and say what would be played.

    What is wrong with the file is shown at its line.
    """
    desk = ScenarioSession(file, seed=seed, data=data, as_json=as_json)
    with desk.runs("alone") as runs:
        (alone,) = alone_of(desk.source, desk.seeds, runs)
        setting = setting_of(desk.source, seed, alone, data)
    found = checked(desk.scenario, setting, alone, title=desk.title, seed=seed)
    if as_json:
        say_json(found)
        return
    for shown in check_report(found, setting):
        say(shown)


@sim.command("run")
@running_options
@click.option(
    "--contract",
    "contracts",
    type=click.Choice(list(CONTRACTS)),
    multiple=True,
    default=("market",),
    show_default=True,
    help="Which contract to play.",
)
@click.option("--explain", "tenant", help="Tell the life of this tenant, move by move.")
def run(
    file: Path,
    seed: int,
    seeds: int,
    data: Path | None,
    processes: int | None,
    folder: Path | None,
    no_cache: bool,
    plot: Path | None,
    contracts: tuple[str, ...],
    tenant: str | None,
    as_json: bool,
) -> None:
    """Play one contract on the scenario of FILE, and say what becomes of each tenant.

    The picture shows the first seed: who holds how many nodes, and what a node costs.
    """
    if len(contracts) > 1:
        raise click.UsageError("run plays one contract; sim compare plays several")
    (contract,) = contracts
    check_picture(plot, EXTRA)
    desk = ScenarioSession(
        file,
        seed=seed,
        seeds=seeds,
        data=data,
        processes=processes,
        cache=_cache(folder, no_cache),
        as_json=as_json,
    )
    if tenant is not None:
        if plot is not None or seeds > 1:
            raise click.UsageError("--explain looks at one run; leave --plot and --seeds out")
        _explain(desk, contract, tenant, as_json)
        return
    comparison = desk.compare((contract,))
    found = compared(desk.scenario, comparison, title=desk.title, data=_requests(data))
    if as_json:
        say_json(found)
    else:
        for shown in run_report(found, contract):
            say(shown)
    if plot is not None:
        title = f"{desk.title}: {LABELS.get(contract, contract)}, seed {seed}"
        nodes = sum(desk.scenario.sizes.values())
        _pictures().draw_run(plot, comparison.played[contract][0], title=title, nodes=nodes)
        if not as_json:
            say(f"The picture is in {plot}.")


@sim.command("compare")
@running_options
@click.option(
    "--contract",
    "contracts",
    type=click.Choice(list(CONTRACTS)),
    multiple=True,
    help="Play this one instead of those of the file; may be given several times.",
)
@click.option(
    "--bound", is_flag=True, help="Also say what nobody could exceed who knew the future."
)
def compare(
    file: Path,
    seed: int,
    seeds: int,
    data: Path | None,
    processes: int | None,
    folder: Path | None,
    no_cache: bool,
    plot: Path | None,
    contracts: tuple[str, ...],
    bound: bool,
    as_json: bool,
) -> None:
    """Play the contracts of FILE on the same tenants, and compare what becomes of them."""
    check_picture(plot, EXTRA)
    if bound and find_spec("highspy") is None:
        raise ExtraMissing("'laissez sim' needs highspy for --bound", EXTRA)
    desk = ScenarioSession(
        file,
        seed=seed,
        seeds=seeds,
        data=data,
        processes=processes,
        cache=_cache(folder, no_cache),
        as_json=as_json,
    )
    played = tuple(dict.fromkeys(contracts or desk.scenario.spec.contracts))
    comparison = desk.compare((*played, CLAIRVOYANT) if bound else played)
    found = compared(desk.scenario, comparison, title=desk.title, data=_requests(data))
    if as_json:
        say_json(found)
    else:
        for shown in compare_report(found, comparison):
            say(shown)
    if plot is not None:
        _pictures().draw_comparison(plot, comparison, title=desk.title, labels=LABELS)
        if not as_json:
            say(f"The picture is in {plot}.")


def _explain(desk: ScenarioSession, contract: str, tenant: str, as_json: bool) -> None:
    with desk.runs("alone") as runs:
        seed = desk.seeds[0]
        (alone,) = alone_of(desk.source, (seed,), runs)
        setting = setting_of(desk.source, seed, alone, desk.data)
        life = life_of(setting, alone, CONTRACTS[contract], seed, tenant)
    if as_json:
        say_json(ScenarioExplained(life))
    else:
        say("\n".join(tell(life)))


def _cache(folder: Path | None, no_cache: bool) -> Cache | None:
    if folder is not None and no_cache:
        raise click.UsageError("give either --cache or --no-cache, not both")
    try:
        return None if no_cache else Cache(folder or cache_folder())
    except BadCache as error:
        raise click.ClickException(str(error)) from None


def _requests(data: Path | None) -> str:
    return "fitted" if data is None else "azure"


def _pictures() -> Any:
    from laissez.experiments.scenario import picture as scenario_picture  # noqa: PLC0415

    return scenario_picture
