"""What became of one run, and of one contract over many seeds: means, intervals, quartiles."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import msgspec

from laissez.experiments.gang_waits import GangWaits, summed_up
from laissez.experiments.intervals import Interval, mean_interval, quantile, ratio
from laissez.experiments.metrics import Metrics, Moves, Quartiles, Throughput


class RunOutcome(msgspec.Struct, frozen=True):
    """What a run of one contract came to; of a bound there is nothing but retention."""

    retention: dict[str, float]
    metrics: Metrics | None = None

    @property
    def mean_retention(self) -> float:
        return fmean(self.retention.values())

    @property
    def degradation(self) -> float:
        return 1 - self.mean_retention


Sides = tuple[float | None, float | None]
"""From where to where; None where nothing is known to bound it."""


class ContractSummary(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A contract over all seeds: means, and quartiles over the projects of all seeds. Of a bound
    there is the mean retention only: nobody has all of it at once, so its quartiles bound nothing.
    """

    mean_retention: float
    ci95: Sides
    degradation: float
    market_lower_by: Interval | None = None
    """Of another contract: by which share of it the market's degradation is lower, paired."""
    p25: float | None = None
    median: float | None = None
    p75: float | None = None
    cost_dollars: float | None = None
    """Of all projects, per run: the operator's revenue."""
    retention_per_dollar: float | None = None
    credits_dollars: float | None = None
    """What all services of a run give back to their customers."""
    throughput: dict[str, float] | None = None
    utilisation: float | None = None
    moves: dict[str, float] | None = None
    wasted_projects: float | None = None
    volatility: dict[str, float] | None = None
    fairness: float | None = None
    starved: float | None = None
    starved_share: float | None = None
    gangs: GangWaits | None = None
    """Of the jobs of a fixed size of all seeds, if there are any."""
    ci95_of: dict[str, Sides] | None = None
    """The intervals of all other figures by their names, such as `moves.displaced`; none of a
    single seed."""

    @property
    def quartiles(self) -> Quartiles | None:
        """All three of them, or none."""
        if self.p25 is None or self.median is None or self.p75 is None:
            return None
        return Quartiles(self.p25, self.median, self.p75)


def summary_of(outcomes: Sequence[RunOutcome]) -> ContractSummary:
    """Of one outcome per seed."""
    mean = mean_interval([each.mean_retention for each in outcomes])
    retained = ContractSummary(
        mean_retention=mean.estimate, ci95=(mean.low, mean.high), degradation=1 - mean.estimate
    )
    found = [each.metrics for each in outcomes if each.metrics is not None]
    return _with_metrics(retained, found) if found else retained


def _with_metrics(retained: ContractSummary, found: Sequence[Metrics]) -> ContractSummary:
    shares = [share for each in found for share in each.retention.values()]
    means = {name: mean_interval(values) for name, values in _by_name(found).items()}
    per_dollar = ratio(
        {at: sum(each.retention.values()) for at, each in enumerate(found)},
        {at: each.total_cost_dollars for at, each in enumerate(found)},
    )
    intervals = means if per_dollar is None else {**means, "retention_per_dollar": per_dollar}

    def part(group: str) -> dict[str, float]:
        return {
            name.removeprefix(f"{group}."): its.estimate
            for name, its in means.items()
            if name.startswith(f"{group}.")
        }

    return msgspec.structs.replace(
        retained,
        p25=quantile(shares, 0.25),
        median=quantile(shares, 0.5),
        p75=quantile(shares, 0.75),
        gangs=summed_up(wait for each in found for wait in each.gangs.values()),
        retention_per_dollar=None if per_dollar is None else per_dollar.estimate,
        **{name: its.estimate for name, its in means.items() if "." not in name},
        **{group: part(group) for group in ("throughput", "moves", "volatility")},
        ci95_of={name: (its.low, its.high) for name, its in intervals.items()}
        if len(found) > 1
        else None,
    )


def _by_name(found: Sequence[Metrics]) -> dict[str, list[float]]:
    """What is measured of every run, in the order of runs."""
    by_name = {
        "cost_dollars": [each.total_cost_dollars for each in found],
        "credits_dollars": [sum(each.credits_dollars.values()) for each in found],
    }
    for name in ("utilisation", "wasted_projects", "fairness", "starved", "starved_share"):
        by_name[name] = [getattr(each, name) for each in found]
    for group, kind in (("throughput", Throughput), ("moves", Moves)):
        for name in kind.__struct_fields__:
            by_name[f"{group}.{name}"] = [getattr(getattr(each, group), name) for each in found]
    for tree in found[0].volatility:
        by_name[f"volatility.{tree}"] = [each.volatility[tree] for each in found]
    return by_name
