"""`laissez deadline plan`: what a deadline job will probably cost, and how to run it.

A sentence says what to do, tables say what to expect, and a picture shows one typical run: drawn
with letters, a column for some part of the time, or into a file with `--plot`.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from laissez.cli.amounts import counted, show_duration
from laissez.cli.evaluating import PICTURE, check_picture, figures
from laissez.cli.output import json_option, progress_bar, say, say_json, table
from laissez.cli.parameters import dollars, duration
from laissez.deadline.job import BadJob, Job, Kind, hours
from laissez.deadline.plan import (
    MICROS_PER_DOLLAR,
    Ending,
    Example,
    Expectation,
    Forecast,
    Terms,
    Try,
    WhatIf,
    at_trace_prices,
    typical_example,
)
from laissez.deadline.plan import plan as forecast_of
from laissez.deadline.registry import POLICIES
from laissez.deadline.traces import BadTrace, Trace, load
from laissez.deadline.world import Step, Zone
from laissez.model.message import Message

ENDINGS = {
    Ending.ALL_ON_SPOT: "all on spot",
    Ending.SAVES_OVER_50: "partly on-demand, saves more than 50%",
    Ending.SAVES_25_TO_50: "saves 25 to 50%",
    Ending.SAVES_UP_TO_25: "saves less than 25%",
    Ending.SAVES_NOTHING: "saves nothing, or costs more",
    Ending.MISSES: "misses the deadline",
}
BAR_WIDTH = 30
WIDTH_MAX = 120
CENTS_BELOW = 100
TICK_US_MIN = 1_000_000
USUAL_PRICE_RATIO = 3.0

SPOT, ON_DEMAND, CHANGEOVER, IDLE, DONE = "█", "▒", "|", "·", " "
SIGNS = {Kind.SPOT: SPOT, Kind.ON_DEMAND: ON_DEMAND, None: IDLE}
LEGEND = f"{SPOT} spot  {ON_DEMAND} on-demand  {CHANGEOVER} a changeover  {IDLE} idle"
CAPACITY = "spot there"
COLUMNS_MIN = 20
STYLES = {SPOT: "green", ON_DEMAND: "red", CHANGEOVER: "bold", IDLE: "dim", DONE: ""}


class Planned(Message, frozen=True):
    """What is to be expected of a job: the fields of a forecast."""

    terms: Terms
    tick_us: int
    recommended: str
    on_demand_cost_micros: int
    policies: tuple[Expectation, ...]
    chances: dict[Ending, float]
    what_ifs: tuple[WhatIf, ...]
    typical: Try
    zones: tuple[str, ...]
    is_guess: bool
    starts: int
    seed: int


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
    type=click.FloatRange(min=0, min_open=True),
    help=f"How many times dearer on-demand is than spot; {USUAL_PRICE_RATIO:g} if not said.",
)
@click.option(
    "--trace",
    "paths",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
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
    if plot is not None:
        check_picture(plot)
    try:
        terms = Terms(work, deadline, changeover, USUAL_PRICE_RATIO, nodes, on_demand_price)
        traces = [load(path) for path in paths]
        terms = _priced(terms, traces, price_ratio)
        with progress_bar("Trying it", as_json=as_json) as progress:
            forecast = forecast_of(
                terms, traces, tick_us=tick, starts=starts, seed=seed, progress=progress
            )
        example = typical_example(forecast, traces)
    except (BadJob, BadTrace) as error:
        raise click.ClickException(str(error)) from None
    if plot is not None:
        _draw(example, plot)
    if as_json:
        fields = {name: getattr(forecast, name) for name in Planned.__struct_fields__}
        say_json(Planned(**fields))
        return
    for shown in _report(forecast, example, plot):
        say(shown)


def _priced(terms: Terms, traces: Sequence[Trace], price_ratio: float | None) -> Terms:
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


def _draw(example: Example, path: Path) -> None:
    steps = {name: outcome.steps for name, outcome in example.outcomes.items()}
    figures().draw_decisions(example.job, steps, example.zones, example.start, path)


def _report(forecast: Forecast, example: Example, plot: Path | None) -> Iterator[RenderableType]:
    yield "\n".join(_recommendation(forecast))
    if forecast.terms.price_ratio > 1:
        yield "\n".join(_grounds(forecast))
        yield ""
        yield _policies(forecast)
    if forecast.recommended != "on_demand":
        yield ""
        yield _chances(forecast)
    if forecast.what_ifs:
        yield ""
        yield _what_ifs(forecast)
    if plot is not None:
        yield ""
        yield f"A typical run is drawn in {plot}{_assumed_price(forecast)}."
    elif forecast.terms.price_ratio > 1:
        yield ""
        yield picture(forecast, example, min(shutil.get_terminal_size().columns, WIDTH_MAX))


def _assumed_price(forecast: Forecast) -> str:
    is_known = forecast.terms.on_demand_micros_per_hour is not None
    return "" if is_known else ", as if on-demand were $1 an hour"


def _recommendation(forecast: Forecast) -> Iterator[str]:
    terms, best = forecast.terms, forecast.best
    job = terms.job(forecast.tick_us)
    if terms.price_ratio <= 1:
        yield "Take on-demand: spot is no cheaper here, and may be taken away."
    elif forecast.recommended != "on_demand":
        yield (
            f"Take {best.label}: on average it costs {best.cost:.0%} of on-demand"
            f"{_in_dollars(forecast)}."
        )
        yield f"In 8 cases of 10 it costs {_most(best)}."
        yield (
            f"{best.missed} of {best.runs} runs missed the deadline. None can if work and "
            "changeovers are as said."
        )
    elif job.slack_us < job.hop_us:
        yield (
            f"Take on-demand at once: the deadline leaves {hours(job.slack_us)} beside the work,\n"
            f"and a try on spot needs {hours(job.hop_us)}."
        )
    else:
        yield "Take on-demand at once: nothing that was tried costs less on average."


def _grounds(forecast: Forecast) -> Iterator[str]:
    yield (
        f"Tried from {counted(forecast.starts, 'random start')}, seed {forecast.seed}, with a look "
        f"every {show_duration(forecast.tick_us)}."
    )
    terms = forecast.terms
    if terms.has_trace_prices:
        usual = terms.spot_rate / terms.nodes / MICROS_PER_DOLLAR
        yield (
            f"Spot costs what it did in the traces: ${usual:.3f} an hour on average;\n"
            f"on-demand costs {terms.price_ratio:.3g} times that."
        )
    else:
        yield f"On-demand is taken to cost {terms.price_ratio:g} times as much as spot."
    if forecast.is_guess:
        yield (
            f"No trace given: {len(forecast.zones)} invented zones like those on AWS in 2022/23, "
            "one at a time.\nThis is only a guess; give --trace for each zone that you can use."
        )
    else:
        yield f"Spot: {', '.join(forecast.zones)}."


def _most(each: Expectation) -> str:
    """From one decile of its cost to the other."""
    low, high = f"{each.cost_p10:.0%}", f"{each.cost_p90:.0%}"
    return high if low == high else f"{low.rstrip('%')}-{high}"


def _in_dollars(forecast: Forecast) -> str:
    if forecast.terms.on_demand_micros_per_hour is None:
        return ""
    return f" ({_dollars(forecast, forecast.best.cost)} instead of {_dollars(forecast, 1)})"


def _dollars(forecast: Forecast, share: float) -> str:
    amount = share * forecast.on_demand_cost_micros / MICROS_PER_DOLLAR
    return f"${amount:,.2f}" if amount < CENTS_BELOW else f"${amount:,.0f}"


def _cost(forecast: Forecast, share: float) -> str:
    """A share of on-demand, and what it is in dollars if these are known."""
    if forecast.terms.on_demand_micros_per_hour is None:
        return f"{share:.1%}"
    return f"{share:.0%}, {_dollars(forecast, share)}"


def _policies(forecast: Forecast) -> Table:
    columns = ("mean cost", "median", "8 of 10", "spot h", "on-dem. h", "moves")
    rows = [
        (
            each.label,
            _cost(forecast, each.cost),
            f"{each.cost_p50:.0%}",
            _most(each),
            f"{each.spot_hours:.1f}",
            f"{each.on_demand_hours:.1f}",
            f"{each.moves:.1f}",
        )
        for each in sorted(forecast.policies, key=lambda each: each.cost)
    ]
    title = "Cost as a share of on-demand, and mean hours of work"
    return table("policy", *columns, rows=rows, right=columns, title=title)


def _chances(forecast: Forecast) -> Table:
    rows = [
        (ENDINGS[ending], f"{share:.0%}" if share == 0 or share >= 0.01 else "<1%", _bar(share))
        for ending, share in forecast.chances.items()
    ]
    title = f"Chances with {forecast.best.label}"
    return table("outcome", "chance", "", rows=rows, right=("chance",), title=title)


def _bar(share: float) -> str:
    return SPOT * round(share * BAR_WIDTH)


def _what_ifs(forecast: Forecast) -> Table:
    now_us = forecast.terms.deadline_us
    now = WhatIf(now_us, forecast.best.cost)
    rows = [
        (
            hours(each.deadline_us),
            f"+{each.deadline_us / now_us - 1:.0%}",
            _cost(forecast, each.cost),
        )
        for each in (now, *forecast.what_ifs)
    ]
    columns = ("deadline", "later", "mean cost")
    title = "If the deadline were later"
    return table(*columns, rows=rows, right=columns, title=title)


def picture(forecast: Forecast, example: Example, width: int) -> Text:
    """A typical run, with a lane for what was there and one for each policy and its cost."""
    labels = {name: POLICIES[name].label for name in example.outcomes}
    room = max(len(CAPACITY), *map(len, labels.values())) + 1
    columns = max(width - room - len(" 100%"), COLUMNS_MIN)
    drawn = Text("A typical run, and what it cost\n", style="bold")
    drawn.append(_line(CAPACITY.ljust(room), _capacity(example, columns), ""))
    for name, outcome in example.outcomes.items():
        signs = _lane(outcome.steps, example.job, columns)
        cost = f"{outcome.cost_micros / forecast.on_demand_cost_micros:.0%}"
        drawn.append(_line(labels[name].ljust(room), signs, f"{cost:>5}"))
    drawn.append(f"{' ' * room}{_ruler(example.job, columns)}\n", style="not bold dim")
    drawn.append(" " * room + LEGEND, style="not bold dim")
    return drawn


def _line(label: str, signs: str, end: str) -> Text:
    line = Text(label, style="not bold")
    for sign in signs:
        line.append(sign, style=STYLES[sign])
    return line.append(f"{end}\n")


def _capacity(example: Example, columns: int) -> str:
    """Where at least half of the time some zone had capacity."""
    return "".join(
        SPOT if _share_there(example, *_span(example.job, columns, column)) >= 0.5 else IDLE
        for column in range(columns)
    )


def _share_there(example: Example, from_us: int, to_us: int) -> float:
    tick_us = example.job.tick_us
    first = example.start + from_us // tick_us
    last = max(first + 1, example.start + to_us // tick_us)
    there = [any(_has(zone, tick) for zone in example.zones) for tick in range(first, last)]
    return sum(there) / len(there)


def _has(zone: Zone, tick: int) -> bool:
    return tick < len(zone) and zone.offers[tick] is not None


def _lane(steps: Sequence[Step], job: Job, columns: int) -> str:
    """For each column what took most of it; a changeover shows however short it is."""
    signs = []
    at = 0
    for column in range(columns):
        from_us, to_us = _span(job, columns, column)
        while at < len(steps) and steps[at].to_us <= from_us:
            at += 1
        signs.append(_sign(steps[at:], from_us, to_us))
    return "".join(signs)


def _sign(steps: Sequence[Step], from_us: int, to_us: int) -> str:
    spent: dict[str, int] = {}
    for step in steps:
        if step.from_us >= to_us:
            break
        works_from_us = step.from_us + step.changeover_us
        if max(step.from_us, from_us) < min(works_from_us, to_us):
            return CHANGEOVER
        sign = SIGNS[step.running.kind if step.running else None]
        spent[sign] = spent.get(sign, 0) + min(step.to_us, to_us) - max(works_from_us, from_us)
    return max(spent, key=lambda sign: spent[sign], default=DONE)


def _span(job: Job, columns: int, column: int) -> tuple[int, int]:
    return job.deadline_us * column // columns, job.deadline_us * (column + 1) // columns


def _ruler(job: Job, columns: int) -> str:
    """Hours under the columns, from the release to the deadline."""
    ruler = "0 h".ljust(columns)
    parts = 4 if columns >= 40 else 2
    for part in range(1, parts + 1):
        mark = hours(job.deadline_us * part // parts)
        at = columns * part // parts - (len(mark) if part == parts else len(mark) // 2)
        ruler = ruler[:at] + mark + ruler[at + len(mark) :]
    return ruler
