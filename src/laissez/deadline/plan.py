"""What a deadline job will probably cost, and under which policy: a forecast for one job.

The job is tried many times, from random instants of what is known of spot capacity: the traces of
its zones, all together, or for want of any some invented zones, each on its own. Every policy gets
the same starts, so that they differ in skill and not in luck, and so does the same job with a later
deadline: a start leaves room for the latest of them. What would leave too little choice of starts
is not tried. The policy with the least mean cost is recommended; on-demand at once wins a draw, and
after it Lindy, for what lies within `DRAW` of each other is luck. How many different starts there
were, and how much the traces cover, is told: few of them make no forecast.

Spot costs a fixed part of on-demand, or what it did in each trace: `at_trace_prices`.

All costs are shares of what on-demand from the first moment to the last costs: 0.4 saves 60%.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from enum import StrEnum
from fractions import Fraction
from itertools import compress
from statistics import fmean, quantiles

import msgspec

from laissez.deadline.generator import STEP_US, sample_traces
from laissez.deadline.job import US_PER_HOUR, BadJob, Job, Kind, Offer, hours
from laissez.deadline.policy import Policy
from laissez.deadline.registry import POLICIES, Brief, make
from laissez.deadline.traces import US_PER_DAY, BadTrace, SpotTrace
from laissez.deadline.world import Outcome, Zone, run
from laissez.model.message import Message
from laissez.model.values import MICROS_PER_DOLLAR

CANDIDATES = ("on_demand", "greedy", "time_sliced", "uniform_progress", "lindy")
"""Without a future to look into, and without a coin: what can be recommended."""
LATER = (1.1, 1.25, 1.5)
STARTS_KEPT_MIN = 0.5
"""A later deadline must leave this part of the starts that there are without it."""
INVENTED_DAYS = 27
ON_DEMAND_ZONE = "on-demand"
DRAW = 0.001
"""Policies whose mean costs are this close, as shares of on-demand, do equally well."""
DRAWN_FIRST = ("on_demand", "lindy")

Progress = Callable[[int, int], None]
"""Told how many runs are done, and of how many."""


class JobTerms(msgspec.Struct, frozen=True):
    """A job as a person describes it. The price is per instance, and all of `nodes` are needed.

    With `has_trace_prices` spot costs what it did in the traces, and the ratio is to their mean.
    """

    work_us: int
    deadline_us: int
    changeover_us: int
    price_ratio: float
    nodes: int = 1
    on_demand_micros_per_hour: int | None = None
    has_trace_prices: bool = False

    def __post_init__(self) -> None:
        if not (math.isfinite(self.price_ratio) and self.price_ratio > 0):
            raise BadJob(
                f"a price ratio of {self.price_ratio} makes no sense; say how many times as much "
                "as spot on-demand costs: 3, for example"
            )
        if self.on_demand_micros_per_hour is not None and self.on_demand_micros_per_hour <= 0:
            raise BadJob(
                "on-demand costs more than nothing; say what an instance costs per hour, or leave "
                "its price out"
            )

    def job(self, tick_us: int) -> Job:
        return Job(self.work_us, self.deadline_us, self.changeover_us, tick_us)

    @property
    def on_demand_rate(self) -> int:
        """For all instances together; a dollar per hour and instance if nobody said."""
        known = self.on_demand_micros_per_hour
        return self.nodes * (MICROS_PER_DOLLAR if known is None else known)

    @property
    def spot_rate(self) -> int:
        """What spot usually costs, for all instances together."""
        return max(1, round(self.on_demand_rate / self.price_ratio))


class Ending(StrEnum):
    """How a run can end. One that was all on spot counts as that alone, whatever it saved."""

    ALL_ON_SPOT = "all_on_spot"
    SAVES_OVER_50 = "saves_over_50"
    SAVES_25_TO_50 = "saves_25_to_50"
    SAVES_UP_TO_25 = "saves_up_to_25"
    SAVES_NOTHING = "saves_nothing"
    MISSES = "misses"


class Expectation(msgspec.Struct, frozen=True):
    """What to expect of one policy. Hours are means, those of work net of changeovers."""

    policy: str
    label: str
    cost: float
    cost_p10: float
    cost_p50: float
    cost_p90: float
    spot_hours: float
    on_demand_hours: float
    changeover_hours: float
    moves: float
    missed: int
    runs: int


class WhatIf(msgspec.Struct, frozen=True):
    """The same job under the recommended policy with a later deadline."""

    deadline_us: int
    cost: float


class Try(msgspec.Struct, frozen=True):
    """An instant to start from: a tick of the zones of one place."""

    place: int
    start: int


class Forecast(Message, frozen=True):
    """What is to be expected of a job; `typical` is a start of median cost, to be looked at.

    It `is_guess` if the zones were invented. `different_starts` of all `starts` differ; the zones
    leave `possible_starts` to draw from, and cover `covered_us`. What on-demand costs is None if
    nobody said.
    """

    terms: JobTerms
    tick_us: int
    recommended: str
    on_demand_cost_micros: int | None
    policies: tuple[Expectation, ...]
    chances: dict[Ending, float]
    what_ifs: tuple[WhatIf, ...]
    typical: Try
    zones: tuple[str, ...]
    is_guess: bool
    starts: int
    different_starts: int
    possible_starts: int
    covered_us: int
    seed: int

    def of(self, policy: str) -> Expectation:
        return next(each for each in self.policies if each.policy == policy)

    @property
    def best(self) -> Expectation:
        return self.of(self.recommended)

    @property
    def equals(self) -> tuple[Expectation, ...]:
        """The policies that do as well as the recommended one."""
        least = min(each.cost for each in self.policies)
        return tuple(
            each
            for each in self.policies
            if each.cost - least <= DRAW and each.policy != self.recommended
        )


def plan(
    terms: JobTerms,
    traces: Sequence[SpotTrace] = (),
    *,
    tick_us: int | None = None,
    starts: int = 300,
    seed: int = 1,
    progress: Progress = lambda done, total: None,
) -> Forecast:
    """What the job will probably cost where these traces were recorded.

    The traces are zones, all of which the job may use. Without any the job is tried in invented
    zones, one at a time. `tick_us` is how often one looks: if nobody says, as often as was looked
    when the traces were recorded.
    """
    places, tick_us = _places(terms, traces, tick_us, seed)
    job = terms.job(tick_us)
    candidates = CANDIDATES if terms.price_ratio > 1 else CANDIDATES[:1]
    dice = random.Random(seed)
    luck = [dice.random() for _ in range(starts)]
    what_if_jobs = _later(job, places) if candidates[1:] else []
    latest = [job, *what_if_jobs][-1]
    drawn = tries(latest, places, luck)
    total = starts * (len(candidates) - 1 + len(what_if_jobs)) + 1
    done = 0

    def tried(job: Job, name: str, starts: Sequence[Try]) -> list[Outcome]:
        nonlocal done
        policy = policy_for(terms, job, name)
        outcomes = []
        for each in starts:
            outcomes.append(_run(terms, job, policy, places[each.place], each.start))
            done += 1
            progress(done, total)
        return outcomes

    # On-demand has no luck: one start tells all.
    by_policy = {
        name: tried(job, name, drawn[:1] if name == "on_demand" else drawn) for name in candidates
    }
    on_demand_cost = by_policy["on_demand"][0].cost_micros
    expected = [_expectation(name, by_policy[name], on_demand_cost) for name in candidates]
    recommended = _recommended(expected)
    best = by_policy[recommended]
    what_ifs = []
    if recommended != "on_demand":
        for later in what_if_jobs:
            cost = fmean(each.cost_micros for each in tried(later, recommended, drawn))
            what_ifs.append(WhatIf(later.deadline_us, cost / on_demand_cost))
    progress(total, total)
    return Forecast(
        terms,
        tick_us,
        recommended,
        None if terms.on_demand_micros_per_hour is None else on_demand_cost,
        tuple(expected),
        _chances(best, on_demand_cost),
        tuple(what_ifs),
        _typical(drawn[: len(best)], best),
        tuple(zone.name for place in places for zone in place),
        not traces,
        starts,
        len(set(drawn)),
        sum(_room(latest, zones) for zones in places),
        tick_us * min(len(zone) for place in places for zone in place),
        seed,
    )


class Example(msgspec.Struct, frozen=True):
    """One start, what some policies did from there, and what on-demand alone would cost."""

    job: Job
    zones: list[Zone]
    start: int
    outcomes: dict[str, Outcome]
    on_demand_cost_micros: int


def typical_example(forecast: Forecast, traces: Sequence[SpotTrace] = ()) -> Example:
    """The typical start of a forecast again, step by step, with policies to compare with."""
    terms = forecast.terms
    places, tick_us = _places(terms, traces, forecast.tick_us, forecast.seed)
    job = terms.job(tick_us)
    zones = places[forecast.typical.place]
    names = dict.fromkeys((forecast.recommended, "uniform_progress", "greedy"))
    start = forecast.typical.start
    outcomes = {
        name: _run(terms, job, policy_for(terms, job, name), zones, start, keeps_steps=True)
        for name in names
    }
    alone = _run(terms, job, policy_for(terms, job, "on_demand"), zones, start)
    return Example(job, zones, start, outcomes, alone.cost_micros)


def at_trace_prices(terms: JobTerms, traces: Sequence[SpotTrace]) -> JobTerms | None:
    """The same, with spot at what it cost in the traces; None unless all prices are known."""
    on_demand = terms.on_demand_micros_per_hour
    if on_demand is None or not traces:
        return None
    paid = spent_us = 0
    for trace in traces:
        if trace.micros_per_hour is None:
            return None
        there = trace.is_available(terms.nodes)
        # Where there never was capacity, the price is what it would have cost.
        counts = there if any(there) else [True] * len(there)
        spent_us += trace.tick_us * sum(counts)
        paid += trace.tick_us * sum(compress(trace.micros_per_hour, counts))
    ratio = on_demand * spent_us / paid
    return msgspec.structs.replace(terms, price_ratio=ratio, has_trace_prices=True)


def policy_for(terms: JobTerms, job: Job, name: str) -> Policy:
    return make(name, Brief(job, terms.spot_rate, terms.on_demand_rate))


def tries(job: Job, places: Sequence[Sequence[Zone]], luck: Sequence[float]) -> list[Try]:
    """Starts from which the whole deadline lies in the trace; the places take turns."""
    found = []
    for number, chance in enumerate(luck):
        place = number % len(places)
        found.append(Try(place, int(chance * _room(job, places[place]))))
    return found


def watched_every(trace: SpotTrace, tick_us: int) -> SpotTrace:
    """The trace as seen by one who looks less or more often.

    Capacity counts for a tick only if it was there during all of it: what went away in between was
    of no use, or less than it seems here. The price is the mean over the tick.
    """
    if tick_us == trace.tick_us:
        return trace
    counts, prices = [], []
    for at_us in range(0, trace.duration_us - tick_us + 1, tick_us):
        first = at_us // trace.tick_us
        last = -(-(at_us + tick_us) // trace.tick_us)
        counts.append(min(trace.counts[first:last]))
        if trace.micros_per_hour is not None:
            prices.append(_mean_price(trace.micros_per_hour, trace.tick_us, at_us, at_us + tick_us))
    return msgspec.structs.replace(
        trace, tick_us=tick_us, counts=tuple(counts), micros_per_hour=tuple(prices) or None
    )


def _mean_price(prices: Sequence[int], tick_us: int, from_us: int, to_us: int) -> int:
    paid = 0
    for at in range(from_us // tick_us, -(-to_us // tick_us)):
        paid += prices[at] * (min(to_us, (at + 1) * tick_us) - max(from_us, at * tick_us))
    return max(1, round(Fraction(paid, to_us - from_us)))


def _places(
    terms: JobTerms, traces: Sequence[SpotTrace], tick_us: int | None, seed: int
) -> tuple[list[list[Zone]], int]:
    """Sets of zones, of which a run has one, and how often one looks there."""
    # What can't be done in any zone is said before zones are looked at.
    terms.job(tick_us or 1)
    if not traces:
        tick_us = tick_us or STEP_US
        return [[zone] for zone in _zones(terms, _invented(terms, tick_us, seed), tick_us)], tick_us
    tick_us = tick_us or max(trace.tick_us for trace in traces)
    return [_zones(terms, traces, tick_us)], tick_us


def _zones(terms: JobTerms, traces: Sequence[SpotTrace], tick_us: int) -> list[Zone]:
    # Two traces of one zone are two kinds of instances, each with capacity of its own.
    is_plain = len({trace.zone for trace in traces}) == len(traces)
    names = [trace.name for trace in traces]
    for at, trace in enumerate(traces):
        if trace in traces[:at]:
            raise BadTrace(f"{trace.name} is given twice; give each trace once")
        if trace.name in names[:at]:
            raise BadTrace(
                f"two traces are called {trace.name}; give each a name of its own, or read them "
                "with load_zones"
            )
    zones = []
    for trace in traces:
        _check_length(terms.job(tick_us), trace)
        named = trace if is_plain else msgspec.structs.replace(trace, zone=trace.name)
        watched = watched_every(named, tick_us)
        zones.append(
            watched.as_zone_at_its_prices(terms.nodes)
            if terms.has_trace_prices
            else watched.as_zone(terms.spot_rate, terms.nodes)
        )
    return zones


def _invented(terms: JobTerms, tick_us: int, seed: int) -> list[SpotTrace]:
    if terms.nodes > 1:
        raise BadTrace(
            f"nothing is known of {terms.nodes} instances at once; give a trace that was recorded "
            "with as many"
        )
    days = INVENTED_DAYS + math.ceil(LATER[-1] * terms.deadline_us / US_PER_DAY)
    return sample_traces(days=days, tick_us=tick_us, seed=seed)


def _check_length(job: Job, trace: SpotTrace) -> None:
    needed_us = job.tick_us * _ticks(job)
    if trace.duration_us < needed_us:
        whole = "" if needed_us == job.deadline_us else f", in whole ticks of {hours(job.tick_us)}"
        raise BadTrace(
            f"{trace.name} covers {hours(trace.duration_us)}; the deadline needs "
            f"{hours(needed_us)}{whole}: give a longer trace, or an earlier deadline"
        )


def _ticks(job: Job) -> int:
    return -(-job.deadline_us // job.tick_us)


def _room(job: Job, zones: Sequence[Zone]) -> int:
    """From how many ticks the job can start, with all of its deadline in the zones."""
    return min(map(len, zones)) - _ticks(job) + 1


def _later(job: Job, places: Sequence[Sequence[Zone]]) -> list[Job]:
    """The job with each later deadline that leaves enough starts to draw from."""
    jobs = [
        msgspec.structs.replace(job, deadline_us=round(job.deadline_us * factor))
        for factor in LATER
    ]
    return [
        later
        for later in jobs
        if all(_room(later, zones) >= STARTS_KEPT_MIN * _room(job, zones) for zones in places)
    ]


def _run(
    terms: JobTerms,
    job: Job,
    policy: Policy,
    zones: Sequence[Zone],
    start: int,
    *,
    keeps_steps: bool = False,
) -> Outcome:
    on_demand = Offer(ON_DEMAND_ZONE, Kind.ON_DEMAND, terms.on_demand_rate)
    return run(job, policy, zones, on_demand, start=start, keeps_steps=keeps_steps)


def _recommended(expected: Sequence[Expectation]) -> str:
    """The cheapest; of those that do equally well the simplest, or else Lindy."""
    least = min(expected, key=lambda each: each.cost)
    equal = {each.policy for each in expected if each.cost - least.cost <= DRAW}
    return next((name for name in DRAWN_FIRST if name in equal), least.policy)


def _expectation(name: str, outcomes: Sequence[Outcome], on_demand_cost: int) -> Expectation:
    costs = [each.cost_micros / on_demand_cost for each in outcomes]
    deciles = quantiles(costs, n=10, method="inclusive") if costs[1:] else costs * 9

    def mean_hours(pick: Callable[[Outcome], int]) -> float:
        return fmean(map(pick, outcomes)) / US_PER_HOUR

    return Expectation(
        name,
        POLICIES[name].label,
        fmean(costs),
        deciles[0],
        deciles[4],
        deciles[8],
        mean_hours(lambda each: each.spot_us),
        mean_hours(lambda each: each.on_demand_us),
        mean_hours(lambda each: each.spot_changeover_us + each.on_demand_changeover_us),
        fmean(each.moves for each in outcomes),
        sum(each.is_late for each in outcomes),
        len(outcomes),
    )


def ending(outcome: Outcome, on_demand_cost: int) -> Ending:
    saved = on_demand_cost - outcome.cost_micros
    if outcome.is_late:
        return Ending.MISSES
    if outcome.on_demand_us + outcome.on_demand_changeover_us == 0:
        return Ending.ALL_ON_SPOT
    if saved * 2 > on_demand_cost:
        return Ending.SAVES_OVER_50
    if saved * 4 >= on_demand_cost:
        return Ending.SAVES_25_TO_50
    return Ending.SAVES_UP_TO_25 if saved > 0 else Ending.SAVES_NOTHING


def _chances(outcomes: Sequence[Outcome], on_demand_cost: int) -> dict[Ending, float]:
    endings = [ending(each, on_demand_cost) for each in outcomes]
    return {each: endings.count(each) / len(endings) for each in Ending}


def _typical(starts: Sequence[Try], outcomes: Sequence[Outcome]) -> Try:
    """A start of median cost; among equals the one with most to see."""
    costs = sorted(each.cost_micros for each in outcomes)
    median = costs[len(costs) // 2]
    return min(
        zip(starts, outcomes, strict=True),
        key=lambda pair: (abs(pair[1].cost_micros - median), -pair[1].moves),
    )[0]
