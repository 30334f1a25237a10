"""Figure 6 for people: what `contention` found out, as tables and as a picture.

Nothing here changes a number, so other words or columns need no new runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from laissez.experiments.figures.contention import (
    LABELS,
    ByRegime,
    ContentionReport,
    Goal,
    compute,
    scene,
)
from laissez.experiments.figures.figure import (
    Figure,
    FigureTable,
    drawn_title,
    means_over,
    percent,
    spread,
)
from laissez.experiments.intervals import Interval
from laissez.experiments.summaries import ContractSummary
from laissez.simulation.scenarios.regimes import REGIMES

TITLE = "Retention under contention"
READ_AS = {"equal": "equal budgets", "demand": "budgets by demand"}


def tell(report: ContentionReport) -> Iterator[FigureTable | str]:
    for reading, by_share in report.readings.items():
        for share, by_regime in by_share.items():
            yield _retentions(f"{READ_AS[reading]}, floor at {share} of list prices", by_regime)
    for reading, by_share in report.readings.items():
        for share, by_regime in by_share.items():
            if share == str(report.base_share):
                yield from _lowerings(f"{READ_AS[reading]}, floor at {share}", by_regime)
    yield _details(report)
    if report.goals:
        yield _goal_table(report.goals)
    yield _realised(report)
    requests = "of the Azure traces" if report.data == "azure" else "made up by the fitted model"
    yield f"{means_over(report.seeds)}; requests {requests}."


def _realised(report: ContentionReport) -> str:
    """How near regimes are met."""
    parts = [
        f"{its.mean:.2f} at {regime}"
        + (f" ({its.lowest:.2f} to {its.highest:.2f})" if len(report.seeds) > 1 else "")
        for regime, its in report.demand_over_capacity.items()
    ]
    return f"Demand over capacity, with whole projects: {', '.join(parts)}."


def _retentions(title: str, by_regime: ByRegime) -> FigureTable:
    contracts = _contracts(by_regime)
    rows = (
        (regime, *(_mean(by_regime[regime][contract]) for contract in contracts))
        for regime in by_regime
    )
    return FigureTable(
        f"Mean retention in %: {title}",
        ("demand /\ncapacity", *(LABELS[each].replace(" ", "\n") for each in contracts)),
        tuple(rows),
    )


def _lowerings(title: str, by_regime: ByRegime) -> Iterator[FigureTable]:
    """Where there is something to compare."""
    others = [
        name
        for name in _contracts(by_regime)
        if any(_lower(by_contract.get(name)) for by_contract in by_regime.values())
    ]
    if others:
        yield FigureTable(
            f"By how much the market's degradation is lower than that of others, in %: {title}",
            ("demand /\ncapacity", *(LABELS[each].replace(" ", "\n") for each in others)),
            tuple(
                (regime, *(_lower(by_contract.get(name)) for name in others))
                for regime, by_contract in by_regime.items()
            ),
        )


def _lower(summary: ContractSummary | None) -> str:
    lower = None if summary is None else summary.market_lower_by
    return "" if lower is None else f"{100 * lower.estimate:z.1f}{spread(lower)}"


def _contracts(by_regime: ByRegime) -> list[str]:
    return [name for name in LABELS if any(name in each for each in by_regime.values())]


def _mean(summary: ContractSummary) -> str:
    low = summary.ci95[0]
    margin = "" if low is None else f" ±{100 * (summary.mean_retention - low):.1f}"
    return f"{100 * summary.mean_retention:.1f}{margin}"


def _details(report: ContentionReport) -> FigureTable:
    money = ("$ a\nrun", "projects\nper $1,000")
    nodes = ("nodes\nheld", "displaced", "given\nup", "projects'\nwork lost")
    columns = ("", "quartiles of\nretention", *money, *nodes, "Jain's\nindex", "starved")
    rows = [
        (f"{regime} {LABELS[contract]}", *_detail(by_contract[contract]))
        for regime, by_contract in report.regimes.items()
        for contract in _contracts({regime: by_contract})
    ]
    title = f"In detail: {READ_AS[report.reading]}, floor at {report.base_share} of list prices"
    return FigureTable(title, columns, tuple(rows))


def _detail(its: ContractSummary) -> Iterator[str]:
    middle = its.quartiles
    if middle is None or its.moves is None:  # a bound
        yield from [""] * 9
        return
    yield f"{100 * middle.p25:.0f} {100 * middle.median:.0f} {100 * middle.p75:.0f}"
    per_dollar = its.retention_per_dollar
    yield f"{its.cost_dollars:.0f}"
    yield "" if per_dollar is None else f"{1_000 * per_dollar:.1f}"
    yield percent(its.utilisation or 0)
    yield f"{its.moves['displaced']:.1f}"
    yield f"{its.moves['given_up']:.1f}"
    yield f"{its.wasted_projects:.2f}"
    yield f"{its.fairness:.2f}"
    yield percent(its.starved_share or 0)


def _goal_table(goals: Sequence[Goal]) -> FigureTable:
    """A row for each goal; a column for each reading and floor."""
    cases = list(dict.fromkeys((goal.reading, goal.base_share) for goal in goals))
    rows: dict[str, dict[tuple[str, float], str]] = {}
    for goal in goals:
        row = rows.setdefault(f"{goal.regime}: {goal.goal}", {})
        row[goal.reading, goal.base_share] = _measured(goal)
    return FigureTable(
        "Goals: how much lower, in % with the interval, and whether that is enough",
        ("", *(f"{reading},\nfloor {share}" for reading, share in cases)),
        tuple((name, *(row[case] for case in cases)) for name, row in rows.items()),
    )


def _measured(goal: Goal) -> str:
    verdict = "met" if goal.is_met else "NOT MET"
    if goal.measured is None:
        return f"nothing to lower, {verdict}"
    interval = Interval(goal.measured, *goal.ci95)
    return f"{100 * goal.measured:z.1f}{spread(interval)}, {verdict}"


def draw(report: ContentionReport, path: Path) -> None:
    """Only who wants a picture waits for matplotlib."""
    from laissez.experiments.contract_pictures import draw_retention  # noqa: PLC0415

    share = str(report.base_share)
    draw_retention(
        path,
        title=drawn_title(TITLE, is_quick=report.is_quick),
        rows={READ_AS[reading]: by[share] for reading, by in report.readings.items()},
        labels=LABELS,
        footnote=f"{len(report.seeds)} seeds, 95% intervals; floor at {share} of list prices",
    )


FIGURE = Figure(
    name="6",
    title=TITLE,
    regimes=REGIMES,
    quick_regimes=(0.4, 1.0),
    contracts=tuple(LABELS),
    compute=compute,
    tell=tell,
    draw=draw,
    scene=scene,
)
