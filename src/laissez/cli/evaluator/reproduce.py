"""`laissez reproduce`: a figure of ours, run again on this machine: tables, JSON, a picture.

The figures lie in `laissez.experiments.figures`, a file each. Here is only what all of them have in
common: what to run of it, where results are kept, and how they are shown. `--explain` runs no
figure but one of its runs, and tells the life of one tenant in it.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

import click
import msgspec
from rich.text import Text

from laissez.cli.terminal.exits import ExtraMissing
from laissez.cli.terminal.output import json_option, printable, progress_bar, say, say_table, table
from laissez.cli.terminal.parameters import FiniteRange
from laissez.cli.terminal.pictures import PICTURE, check_picture

EXTRA = "laissez[simulation]"

try:
    from laissez.experiments.figures import FIGURES
    from laissez.experiments.figures.figure import (
        QUICK_SEEDS,
        SEEDS,
        Closeup,
        Figure,
        FigureTable,
        Wanted,
    )
    from laissez.experiments.runs import BadCache, Cache, CodeChanged, Runs, cache_folder
    from laissez.simulation.contracts.registry import PLAYED
    from laissez.simulation.demand.fitted import requests_of
    from laissez.simulation.demand.requests import BadData, files_of
    from laissez.simulation.life.life import UnknownTenant, life_of
    from laissez.simulation.life.telling import tell
    from laissez.simulation.scenarios.regimes import BASE_SHARES, READINGS, BudgetReading
except ModuleNotFoundError as missing:
    if missing.name != "numpy":
        raise
    raise ExtraMissing("'laissez reproduce' needs numpy", EXTRA) from None

CACHE = click.Path(path_type=Path, file_okay=False)


class Described(msgspec.Struct, frozen=True):
    """A figure that can be made."""

    figure: str
    title: str


class LifeAsked(msgspec.Struct, frozen=True):
    """Whose life is asked for, and in which of the runs."""

    tenant: str
    seed: int
    reading: BudgetReading
    base_share: float
    way: str | None


@click.command(epilog=f"Figures: {', '.join(f'{key} {f.title}' for key, f in FIGURES.items())}.")
@click.argument("figure", required=False)
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The folder with the Azure traces of requests; without it, requests are made up by a "
    "model fitted to them.",
)
@click.option("--quick", "is_quick", is_flag=True, help="Few seeds and regimes, a small cluster.")
@click.option(
    "--seeds", type=click.IntRange(1, 1_000), help=f"How many seeds; {len(SEEDS)} if not said."
)
@click.option(
    "--regime",
    "regimes",
    type=FiniteRange(0, min_open=True),
    multiple=True,
    help="Only this demand over capacity; may be given several times.",
)
@click.option(
    "--contract", "contracts", multiple=True, help="Only this one; may be given several times."
)
@click.option(
    "--processes", type=click.IntRange(1), help="How many to use; as many as cores if not said."
)
@click.option("--cache", type=CACHE, help="Where results are kept; ~/.cache/laissez if not said.")
@click.option("--no-cache", is_flag=True, help="Keep no results, and use none.")
@click.option("--plot", type=PICTURE, help="Draw the figure into this file: .png or .svg.")
@click.option(
    "--explain",
    "tenant",
    metavar="TENANT",
    help="Tell one tenant's life instead, in the run of one --regime and --contract.",
)
@click.option(
    "--seed", type=click.IntRange(0), help=f"Of the run to explain; {SEEDS[0]} if not said."
)
@click.option(
    "--reading", type=click.Choice(get_args(BudgetReading)), help="Of the run to explain."
)
@click.option("--base-share", type=float, help="Of the run to explain.")
@click.option("--way", help="In which jobs bid in the run to explain, of figure 10.")
@json_option
def reproduce(
    figure: str | None,
    data: Path | None,
    is_quick: bool,
    seeds: int | None,
    regimes: tuple[float, ...],
    contracts: tuple[str, ...],
    processes: int | None,
    cache: Path | None,
    no_cache: bool,
    plot: Path | None,
    tenant: str | None,
    seed: int | None,
    reading: BudgetReading | None,
    base_share: float | None,
    way: str | None,
    as_json: bool,
) -> None:
    """Run the simulations behind a figure, and show it.

    FIGURE is its number; without one, the figures are listed. Runs are spread over all cores, and
    their results are kept: what was run before, with the same code and data, is not run again.
    """
    if figure is None:
        if tenant is not None or plot is not None:
            raise click.UsageError(f"which figure? name one of {', '.join(FIGURES)}")
        _list(as_json)
        return
    found = _figure(figure)
    if cache is not None and no_cache:
        raise click.UsageError("give either --cache or --no-cache, not both")
    check_picture(plot, EXTRA)
    if data is not None:
        _check_data(data)
    wanted = _wanted(found, is_quick, seeds, regimes, contracts)
    if tenant is not None:
        if seeds is not None:
            raise click.UsageError("--explain looks at one run; give its --seed, not --seeds")
        look = LifeAsked(
            tenant,
            SEEDS[0] if seed is None else seed,
            reading or READINGS[0],
            BASE_SHARES[0] if base_share is None else base_share,
            way,
        )
        _check_look(found, wanted, look, bool(regimes))
        _explain(found, wanted, look, data, plot, as_json)
        return
    if not {*found.always} <= {*wanted.contracts}:
        raise click.UsageError(
            f"figure {found.name} is about {' and '.join(found.always)}; name it, too, or no "
            "contract"
        )
    if not (seed is None and reading is None and base_share is None and way is None):
        raise click.UsageError(
            "--seed, --reading, --base-share and --way say which run to --explain"
        )
    try:
        kept = None if no_cache else Cache(cache_folder() if cache is None else cache)
        _show(found, wanted, data, kept, processes, plot, as_json)
    except (BadCache, CodeChanged) as error:
        raise click.ClickException(str(error)) from None


def _list(as_json: bool) -> None:
    described = [Described(name, figure.title) for name, figure in FIGURES.items()]
    if as_json:
        click.echo(msgspec.json.encode(described))
        return
    say_table(
        "figure",
        "",
        rows=[(each.figure, each.title) for each in described],
        nothing="there are no figures",
    )


def _show(
    figure: Figure,
    wanted: Wanted,
    data: Path | None,
    cache: Cache | None,
    processes: int | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    with progress_bar(f"figure {figure.name}", as_json=as_json) as progress:
        runs = Runs(
            data=data,
            files=files_of(data),
            cache=cache,
            processes=processes,
            progress=progress,
        )
        report = figure.compute(wanted, runs)
    # The numbers first: they took long, and a picture may fail.
    if as_json:
        click.echo(msgspec.json.encode(report))
    else:
        if wanted.is_quick:
            say("A quick look at a small cluster: these are not the figures that we report.\n")
        for shown in figure.tell(report):
            _say(shown)
    if plot is not None:
        figure.draw(report, plot)
        if not as_json:
            say(f"The picture is in {plot}.")


def _say(shown: FigureTable | str) -> None:
    if isinstance(shown, str):
        say(shown)
        return
    say(
        Text(printable(shown.title), style="bold")
    )  # a title within would be as narrow as its table
    say(table(*shown.columns, rows=shown.rows, right=shown.columns[1:]))
    say("")


# --- what is asked for --------------------------------------------------------------------------


def _figure(name: str) -> Figure:
    if name not in FIGURES:
        raise click.BadParameter(
            f"there is no figure {name!r}; take one of {', '.join(FIGURES)}", param_hint="FIGURE"
        )
    return FIGURES[name]


def _wanted(
    figure: Figure,
    is_quick: bool,
    seeds: int | None,
    regimes: tuple[float, ...],
    contracts: tuple[str, ...],
) -> Wanted:
    for regime in regimes:
        if regime not in figure.regimes:
            raise click.BadParameter(
                _none_such(figure, "regime", str(regime), [str(each) for each in figure.regimes]),
                param_hint="--regime",
            )
    for contract in contracts:
        if contract not in figure.contracts:
            raise click.BadParameter(
                _none_such(figure, "contract", contract, figure.contracts), param_hint="--contract"
            )
    usual = QUICK_SEEDS if is_quick else SEEDS
    chosen = tuple(name for name in figure.contracts if name in contracts) or figure.contracts
    if "clairvoyant" in chosen and find_spec("highspy") is None:
        raise ExtraMissing("'laissez reproduce' needs highspy for the clairvoyant", EXTRA)
    return Wanted(
        usual if seeds is None else tuple(range(SEEDS[0], SEEDS[0] + seeds)),
        tuple(each for each in figure.regimes if each in regimes)
        or (figure.quick_regimes if is_quick else figure.regimes),
        chosen,
        is_quick,
    )


def _none_such(figure: Figure, what: str, name: str, known: list[str] | tuple[str, ...]) -> str:
    if not known:
        return f"figure {figure.name} has no choice of a {what}; leave it out"
    close = get_close_matches(name, known, n=1, cutoff=0.75)
    meant = f"did you mean {close[0]!r}?" if close else f"take one of {', '.join(known)}"
    return f"figure {figure.name} has no {what} {name!r}; {meant}"


def _check_data(data: Path) -> None:
    """Refuse what can't be read before anything runs."""
    try:
        requests_of(data)
    except BadData as error:
        raise click.BadParameter(str(error), param_hint="--data") from None


# --- one tenant ---------------------------------------------------------------------------------


def _check_look(figure: Figure, wanted: Wanted, look: LifeAsked, has_regime: bool) -> None:
    if figure.scene is None:
        raise click.UsageError(f"figure {figure.name} has no tenants to explain")
    if not has_regime or len(wanted.regimes) != 1 or len(wanted.contracts) != 1:
        raise click.UsageError("--explain looks at one run; give one --regime and one --contract")
    if look.base_share not in BASE_SHARES:
        raise click.BadParameter(
            f"it is one of {', '.join(map(str, BASE_SHARES))}, not {look.base_share}",
            param_hint="--base-share",
        )
    if look.way is not None and look.way not in figure.ways:
        raise click.BadParameter(
            _none_such(figure, "way", look.way, figure.ways), param_hint="--way"
        )
    (name,) = wanted.contracts
    if look.way is not None and name != "market":
        raise click.UsageError(f"nobody bids under {name!r}; leave --way out")
    if name not in PLAYED:
        known = ", ".join(each for each in figure.contracts if each in PLAYED)
        raise click.BadParameter(
            f"nobody lives under {name!r}, which is a bound; take one of {known}",
            param_hint="--contract",
        )


def _explain(
    figure: Figure,
    wanted: Wanted,
    look: LifeAsked,
    data: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    assert figure.scene is not None, "that was checked"
    (regime,), (name,) = wanted.regimes, wanted.contracts
    closeup = Closeup(
        seed=look.seed,
        regime=regime,
        reading=look.reading,
        base_share=look.base_share,
        is_quick=wanted.is_quick,
        way=look.way,
    )
    scene = figure.scene(closeup, data)
    try:
        life = life_of(scene.setting, scene.alone, PLAYED[name], look.seed, look.tenant)
    except UnknownTenant as error:
        raise click.BadParameter(str(error), param_hint="--explain") from None
    if as_json:
        click.echo(msgspec.json.encode(life))
    else:
        say(_where(figure, closeup))
        say("\n".join(tell(life)))
    if plot is not None:
        from laissez.experiments.life_picture import picture  # noqa: PLC0415

        picture(life, plot)
        if not as_json:
            say(f"The picture is in {plot}.")


def _where(figure: Figure, closeup: Closeup) -> str:
    """Which run it is, as far as a life does not say so itself."""
    words = [f"figure {figure.name} at {closeup.regime}", f"{closeup.reading} budgets"]
    words.append(f"floors at {closeup.base_share} of list prices")
    if figure.ways:
        words.append(f"bidding {closeup.way or figure.ways[0]}")
    if closeup.is_quick:
        words.append("the small cluster")
    return ", ".join(words)
