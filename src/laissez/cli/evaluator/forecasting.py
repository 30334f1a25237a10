"""A forecast for a deadline job in words: what to do, what to expect, and how sure that is.

A sentence says what to do, tables say what to expect, and a picture shows one typical run. The last
lines say how to follow the advice. What rests on too little is said to, and shown with less
precision.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.table import Table

from laissez.cli.evaluator.run_picture import SPOT, picture
from laissez.cli.terminal.amounts import counted, show_duration
from laissez.cli.terminal.output import table
from laissez.deadline.job import Job, hours
from laissez.deadline.plan import (
    Ending,
    Example,
    Expectation,
    Forecast,
    JobTerms,
    WhatIf,
)
from laissez.deadline.traces import SpotTrace
from laissez.model.values import MICROS_PER_DOLLAR

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
STARTS_MIN = 20
DEADLINES_COVERED_MIN = 3
"""Fewer different starts, or traces that cover less, are hardly grounds for a forecast."""
STARTS_SPREAD_MIN = 10
"""With fewer different starts there is no saying what 8 cases of 10 are."""
NEARLY = 0.01
"""What costs this much more of on-demand is worth it, if it is simpler."""


def report(
    forecast: Forecast, traces: Sequence[SpotTrace], example: Example, *, has_picture: bool
) -> Iterator[RenderableType]:
    """All that is said, piece by piece, with a run drawn with letters if it `has_picture`."""
    yield "\n".join(_recommendation(forecast, traces, example))
    if forecast.terms.price_ratio > 1:
        yield "\n".join((*_grounds(forecast, traces), *_doubts(forecast)))
        yield ""
        yield _policies(forecast)
    if forecast.recommended != "on_demand" and _has_spread(forecast):
        yield ""
        yield _chances(forecast)
    if forecast.what_ifs:
        yield ""
        yield _what_ifs(forecast)
    if has_picture and forecast.terms.price_ratio > 1:
        yield ""
        yield picture(example, min(shutil.get_terminal_size().columns, WIDTH_MAX))
    if forecast.recommended != "on_demand":
        yield ""
        yield "\n".join(_how_to_follow(forecast))


def _has_spread(forecast: Forecast) -> bool:
    return forecast.different_starts >= STARTS_SPREAD_MIN


def _recommendation(
    forecast: Forecast, traces: Sequence[SpotTrace], example: Example
) -> Iterator[str]:
    terms, best = forecast.terms, forecast.best
    job = terms.job(forecast.tick_us)
    if terms.price_ratio <= 1:
        yield "Take on-demand: spot is no cheaper here, and may be taken away."
    elif forecast.recommended != "on_demand":
        yield (
            f"Take {best.label}: {_as_tried(forecast)} {best.cost:.0%} of on-demand"
            f"{_in_dollars(forecast)}."
        )
        if _has_spread(forecast):
            yield f"In 8 cases of 10 it costs {_most(best)}."
        if forecast.equals:
            yield f"{_listed([each.label for each in forecast.equals])} equally well here."
        yield (
            f"{best.missed} of {best.runs} runs missed the deadline. None can if work and "
            "changeovers are as said."
        )
        if job.slack_us < job.hop_us + job.tick_us:
            yield (
                f"There is hardly time to wait for spot with a look every "
                f"{show_duration(job.tick_us)}. {_look_more_often(job)}"
            )
    elif job.slack_us < job.hop_us:
        yield (
            f"Take on-demand at once: the deadline leaves {hours(job.slack_us)} beside the work,\n"
            f"and a try on spot needs {hours(job.hop_us)}."
        )
    elif traces and len(_bare(forecast, traces)) == len(traces):
        where = "the trace" if len(traces) == 1 else "any of the traces"
        yield (
            f"Take on-demand at once: there was never spot capacity{_for_all(terms)}\nin {where}."
        )
    elif traces and not any(offer is not None for zone in example.zones for offer in zone.offers):
        yield (
            "Take on-demand at once: spot capacity never lasted from one look to the next,\n"
            f"{show_duration(job.tick_us)} later. Looking more often (--tick) is what would help."
        )
    elif job.slack_us < job.hop_us + job.tick_us:
        yield (
            f"Take on-demand at once: the deadline leaves {hours(job.slack_us)} beside the work, "
            "too little\n"
            f"to wait for spot with a look every {show_duration(job.tick_us)}. "
            f"{_look_more_often(job)}"
        )
    else:
        yield "Take on-demand at once: nothing that was tried costs noticeably less."


def _as_tried(forecast: Forecast) -> str:
    if _has_spread(forecast):
        return "on average it costs"
    if forecast.different_starts == 1:
        return "from the one start that was tried it cost"
    return f"from {forecast.different_starts} different starts it cost on average"


def _listed(labels: Sequence[str]) -> str:
    """`Greedy does`, `Greedy and Time-sliced do`."""
    *others, last = labels
    return f"{', '.join(others)} and {last} do" if others else f"{last} does"


def _look_more_often(job: Job) -> str:
    often_us = job.slack_us - job.hop_us
    if often_us < TICK_US_MIN:
        return "A later deadline is what would help."
    often = show_duration(often_us)
    return f"Looking more often is what would\nhelp: at least every {often} (--tick)."


def _for_all(terms: JobTerms) -> str:
    return "" if terms.nodes == 1 else f" for {terms.nodes} instances at once"


def _bare(forecast: Forecast, traces: Sequence[SpotTrace]) -> list[str]:
    """The zones that never had capacity."""
    nodes = forecast.terms.nodes
    return [
        zone
        for zone, trace in zip(forecast.zones, traces, strict=True)
        if not any(trace.is_available(nodes))
    ]


def _how_to_follow(forecast: Forecast) -> Iterator[str]:
    """What to do with the recommendation, by program or by hand."""
    tick = show_duration(forecast.tick_us)
    yield f"To follow {forecast.best.label}, ask at least every {tick} what to do:"
    yield f'laissez.deadline.pilot.Pilot(job, "{forecast.recommended}"), see docs/deadline.md.'
    greedy = forecast.of("greedy")
    if greedy.cost - forecast.best.cost > NEARLY:
        return
    job = forecast.terms.job(forecast.tick_us)
    way = show_duration(job.hop_us + job.tick_us)
    if forecast.recommended == "greedy":
        yield "It can be followed by hand too: take spot when there is some, else wait."
    else:
        yield (
            f"Greedy costs hardly more, {greedy.cost:.1%}, and can be followed by hand:\n"
            "take spot when there is some, else wait."
        )
    yield f"Not on spot, and the time left is less than the work left and {way}?"
    yield "Then take on-demand, to the end."


def _grounds(forecast: Forecast, traces: Sequence[SpotTrace]) -> Iterator[str]:
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
    if len(traces) > 1:
        yield from _together(forecast, traces)


def _together(forecast: Forecast, traces: Sequence[SpotTrace]) -> Iterator[str]:
    """What is taken for granted of several traces, and what one of them alone would not say."""
    yield "The traces are taken to begin at the same instant."
    ticks = sorted({trace.tick_us for trace in traces})
    if len(ticks) > 1:
        known = f"{', '.join(map(show_duration, ticks[:-1]))} and {show_duration(ticks[-1])}"
        used = show_duration(forecast.tick_us)
        which = ", the longest," if forecast.tick_us == ticks[-1] else ""
        yield f"They were recorded every {known}; {used}{which} is used for all."
    bare = _bare(forecast, traces)
    if 0 < len(bare) < len(traces):
        yield f"There was never spot capacity{_for_all(forecast.terms)} in {', '.join(bare)}."


def _doubts(forecast: Forecast) -> Iterator[str]:
    """Why it is hardly a forecast, if so."""
    different, possible = forecast.different_starts, forecast.possible_starts
    deadline_us = forecast.terms.deadline_us
    if possible < STARTS_MIN:
        yield (
            f"The traces leave only {counted(possible, 'different start')}: this is hardly a "
            "forecast."
        )
    elif different < STARTS_MIN:
        yield (
            f"Only {counted(different, 'start')} {'was' if different == 1 else 'were'} tried: this "
            "is hardly a forecast; give --starts 300."
        )
    elif not forecast.is_guess and forecast.covered_us < DEADLINES_COVERED_MIN * deadline_us:
        yield (
            f"The traces cover less than {DEADLINES_COVERED_MIN} times the deadline, so that all "
            "starts see\nmuch the same: this is hardly a forecast; give longer traces."
        )


def _most(each: Expectation) -> str:
    """From one decile of its cost to the other."""
    low, high = f"{each.cost_p10:.0%}", f"{each.cost_p90:.0%}"
    return high if low == high else f"{low.rstrip('%')}-{high}"


def _in_dollars(forecast: Forecast) -> str:
    whole = forecast.on_demand_cost_micros
    if whole is None:
        return ""
    return f" ({_dollars(forecast.best.cost * whole)} instead of {_dollars(whole)})"


def _dollars(micros: float) -> str:
    amount = micros / MICROS_PER_DOLLAR
    return f"${amount:,.2f}" if amount < CENTS_BELOW else f"${amount:,.0f}"


def _cost(forecast: Forecast, share: float) -> str:
    """A share of on-demand, and what it is in dollars if these are known."""
    whole = forecast.on_demand_cost_micros
    return f"{share:.1%}" if whole is None else f"{share:.0%}, {_dollars(share * whole)}"


def _policies(forecast: Forecast) -> Table:
    spread = ("median", "8 of 10") if _has_spread(forecast) else ()
    columns = ("mean cost", *spread, "spot h", "on-dem. h", "moves")
    rows = [
        (
            each.label,
            _cost(forecast, each.cost),
            *((f"{each.cost_p50:.0%}", _most(each)) if spread else ()),
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
