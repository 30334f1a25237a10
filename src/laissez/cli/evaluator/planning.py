"""`laissez deadline plan`: what a deadline job will probably cost, and how to run it.

Here are its options and what becomes of them; the words are in `forecasting`, and the run drawn
with letters in `run_picture`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from laissez.cli.evaluator.evaluating import EXTRA, TRACE, figures
from laissez.cli.evaluator.forecasting import TICK_US_MIN, report
from laissez.cli.terminal.output import json_option, progress_bar, say, say_json
from laissez.cli.terminal.parameters import FiniteRange, dollars, duration
from laissez.cli.terminal.pictures import PICTURE, check_picture
from laissez.deadline.job import BadJob
from laissez.deadline.plan import (
    Example,
    Forecast,
    JobTerms,
    at_trace_prices,
    typical_example,
)
from laissez.deadline.plan import plan as forecast_of
from laissez.deadline.traces import BadTrace, SpotTrace, load_zones

USUAL_PRICE_RATIO = 3.0


@click.command()
@click.option("--work", type=duration, required=True, help="How long the job runs undisturbed.")
@click.option("--deadline", type=duration, required=True, help="In how long it must be done.")
@click.option(
    "--changeover",
    type=duration,
    required=True,
    help="What it loses with each move: boot, fetch, go on from the last checkpoint.",
)
@click.option(
    "--price-ratio",
    type=FiniteRange(min=0, min_open=True),
    help=f"How many times dearer on-demand is than spot; {USUAL_PRICE_RATIO:g} if not said.",
)
@click.option(
    "--trace",
    "paths",
    type=TRACE,
    multiple=True,
    help="What is known of a zone's spot capacity; several are zones that the job may use.",
)
@click.option("--tick", type=duration, help="How often you look; the trace's own tick if not said.")
@click.option(
    "--nodes",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Instances that it needs at once.",
)
@click.option(
    "--on-demand-price",
    type=dollars,
    help="Dollars per hour and instance; with it, costs are shown in dollars too, and spot costs "
    "what it did in the traces if all of them have prices.",
)
@click.option(
    "--starts",
    type=click.IntRange(1),
    default=300,
    show_default=True,
    help="From how many random instants to try it.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="For these instants.")
@click.option(
    "--plot",
    type=PICTURE,
    help="Draw a typical run into this file: .png or .svg.",
)
@json_option
def plan(
    work: int,
    deadline: int,
    changeover: int,
    price_ratio: float | None,
    paths: tuple[Path, ...],
    tick: int | None,
    nodes: int,
    on_demand_price: int | None,
    starts: int,
    seed: int,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Say how to run a job with a deadline on spot and on-demand instances.

    The job is tried from random instants of the traces under each policy that needs no knowledge of
    the future; the one that costs least on average is recommended. None of them misses the
    deadline if work and changeover take no longer than you say. Without a trace, invented zones
    take its place. A trace is a JSON file {"metadata": {"gap_seconds": 600}, "data": [1, 0, ...]}
    with the number of spot instances that could be had at each look, and "prices" beside "data" if
    they are known, in dollars per hour and instance.
    """
    if tick is not None and tick < TICK_US_MIN:
        raise click.BadParameter("once a second is the most that is tried", param_hint="--tick")
    check_picture(plot, EXTRA)
    try:
        terms = JobTerms(work, deadline, changeover, USUAL_PRICE_RATIO, nodes, on_demand_price)
        terms.job(tick or TICK_US_MIN)
        traces = load_zones(paths)
        terms = _priced(terms, traces, price_ratio)
        with progress_bar("Trying it", as_json=as_json) as progress:
            forecast = forecast_of(
                terms, traces, tick_us=tick, starts=starts, seed=seed, progress=progress
            )
        example = typical_example(forecast, traces)
    except (BadJob, BadTrace) as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        say_json(forecast)
    else:
        for shown in report(forecast, traces, example, has_picture=plot is None):
            say(shown)
    if plot is not None:
        _draw(forecast, example, plot)
        if not as_json:
            say(f"\nA typical run is drawn in {plot}.")


def _priced(terms: JobTerms, traces: Sequence[SpotTrace], price_ratio: float | None) -> JobTerms:
    """The terms at the prices of the traces if all are known, or else at a ratio."""
    at_own = at_trace_prices(terms, traces)
    if at_own is None:
        ratio = USUAL_PRICE_RATIO if price_ratio is None else price_ratio
        return msgspec.structs.replace(terms, price_ratio=ratio)
    if price_ratio is not None:
        raise click.UsageError(
            "the traces and --on-demand-price already say what spot and on-demand cost; leave out "
            "--price-ratio, or else --on-demand-price"
        )
    return at_own


def _draw(forecast: Forecast, example: Example, path: Path) -> None:
    steps = {name: outcome.steps for name, outcome in example.outcomes.items()}
    figures().draw_decisions(
        example.job,
        steps,
        example.zones,
        example.start,
        path,
        shows_dollars=forecast.on_demand_cost_micros is not None,
        on_demand_micros_per_hour=forecast.terms.on_demand_rate,
    )
