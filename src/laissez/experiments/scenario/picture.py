"""Pictures of a scenario: contracts beside each other, or one run from beginning to end.

**Contracts.** Above, the retention of all tenants under each contract: a dot for every tenant and
seed, a box for the middle half, a line for the median, and the contract's own sign at the mean.
Below, each tenant under each contract, on average over the seeds; where there are many, kinds of
tenant stand for them.

**A run.** Above, who holds how many nodes; below, what a node of each tree costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from laissez.experiments.contract_pictures import look
from laissez.experiments.page import FAINT, INK, legend_below, sheet
from laissez.experiments.scenario.comparing import Played, ScenarioComparison
from laissez.experiments.summaries import ContractSummary
from laissez.model.values import MICROS_PER_DOLLAR
from laissez.simulation.contracts.recording import MINUTE_US
from laissez.simulation.kernel.streams import stream

TENANTS_MAX = 30
ROW_INCHES = 0.24
SHADES = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#999933",
    "#882255",
    "#332288",
    "#777777",
)
HATCHES = ("", "///", "...", "xxx")
DASHES = ("-", "--", "-.", ":")


def draw_comparison(
    path: Path, comparison: ScenarioComparison, *, title: str, labels: Mapping[str, str]
) -> None:
    rows = _by_tenant(comparison)
    if len(rows) > TENANTS_MAX:
        rows = _by_kind(comparison)
    heights = (3.2, 1.0 + ROW_INCHES * len(rows))
    with sheet(path, height_inches=sum(heights) + 0.8, title=title) as figure:
        above, below = figure.subplots(2, 1, height_ratios=heights)
        _draw_contracts(above, comparison, labels)
        _draw_tenants(below, rows)
        keys = [_key(name, labels.get(name, name)) for name in comparison.played]
        ratio = comparison.demand_over_capacity
        seeds = "1 seed" if len(comparison.seeds) == 1 else f"{len(comparison.seeds)} seeds"
        footnote = f"Demand over capacity {ratio:.2f}; {seeds}."
        legend_below(figure, keys, columns=len(keys), footnote=footnote)


def _draw_contracts(axes: Axes, comparison: ScenarioComparison, labels: Mapping[str, str]) -> None:
    summaries = comparison.summaries()
    chance = stream(0, "picture")
    for at, (name, runs) in enumerate(comparison.played.items()):
        shares = [100 * share for run in runs for share in run.outcome.retention.values()]
        spread = [at + chance.uniform(-0.3, 0.3) for _ in shares]
        axes.plot(spread, shares, linestyle="", marker="o", markersize=3, color=FAINT, zorder=1)
        _draw_box(axes, at, name, summaries[name])
    names = [_caption(labels.get(name, name), summaries[name]) for name in comparison.played]
    axes.set_xticks(range(len(names)), names)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_ylim(-2, 104)
    axes.set_ylabel("retention (%)")
    axes.set_title("What tenants get done, of what each does alone")
    axes.grid(axis="y")


def _draw_box(axes: Axes, at: int, name: str, its: ContractSummary) -> None:
    colour = look(name).colour
    middle = its.quartiles
    if middle is not None:
        axes.bar(
            at,
            100 * (middle.p75 - middle.p25),
            0.5,
            bottom=100 * middle.p25,
            facecolor="none",
            edgecolor=colour,
            linewidth=1.4,
            zorder=2,
        )
        axes.plot(
            [at - 0.25, at + 0.25], [100 * middle.median] * 2, color=INK, linewidth=2, zorder=3
        )
    mean, (low, high) = its.mean_retention, its.ci95
    margins = None
    if low is not None and high is not None:  # of a few seeds the interval may exceed what can be
        margins = [[100 * (mean - max(0.0, low))], [100 * (min(1.0, high) - mean)]]
    axes.errorbar(
        [at],
        [100 * mean],
        yerr=margins,
        color=colour,
        marker=look(name).marker,
        markersize=9,
        capsize=4,
        zorder=4,
    )


def _caption(label: str, its: ContractSummary) -> str:
    paid = "" if its.cost_dollars is None else f"\n${its.cost_dollars:,.2f} paid"
    return f"{label}\n{100 * its.mean_retention:.1f}%{paid}"


def _draw_tenants(axes: Axes, rows: Mapping[str, Mapping[str, float]]) -> None:
    for at, by_contract in enumerate(rows.values()):
        shares = [100 * share for share in by_contract.values()]
        axes.plot([min(shares), max(shares)], [at, at], color=FAINT, linewidth=1, zorder=1)
        for name, share in by_contract.items():
            its = look(name)
            axes.plot(
                100 * share,
                at,
                marker=its.marker,
                color=its.colour,
                markersize=9 if its.marker == "*" else 6,
                alpha=0.85,
                linestyle="",
                zorder=2,
            )
    axes.set_yticks(range(len(rows)), list(rows))
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(-2, 102)
    axes.set_xlabel("retention (%)")
    axes.set_title("Tenant by tenant")
    axes.grid(axis="x")


def _by_tenant(comparison: ScenarioComparison) -> dict[str, dict[str, float]]:
    """By tenant and contract, the mean over seeds in which it comes."""
    found: dict[str, dict[str, list[float]]] = {}
    for contract, runs in comparison.played.items():
        for run in runs:
            for name, share in run.outcome.retention.items():
                found.setdefault(name, {}).setdefault(contract, []).append(share)
    return _means(found)


def _by_kind(comparison: ScenarioComparison) -> dict[str, dict[str, float]]:
    kinds = {
        name: tenant.kind
        for runs in comparison.played.values()
        for run in runs
        for name, tenant in run.tenants.items()
    }
    found: dict[str, dict[str, list[float]]] = {}
    for contract, runs in comparison.played.items():
        for run in runs:
            for name, share in run.outcome.retention.items():
                kind = kinds.get(name, "all")
                found.setdefault(kind, {}).setdefault(contract, []).append(share)
    return _means(found)


def _means(found: Mapping[str, Mapping[str, list[float]]]) -> dict[str, dict[str, float]]:
    return {
        name: {contract: fmean(shares) for contract, shares in by_contract.items()}
        for name, by_contract in found.items()
    }


def _key(contract: str, label: str) -> Artist:
    its = look(contract)
    return Line2D([], [], color=its.colour, marker=its.marker, linestyle="", label=label)


# --- one run ------------------------------------------------------------------------------------


def draw_run(path: Path, run: Played, *, title: str, nodes: int) -> None:
    with sheet(path, height_inches=6.5, title=title) as figure:
        above, below = figure.subplots(2, 1, height_ratios=(2, 1), sharex=True)
        names = _shown(run)
        _draw_held(above, run, names, nodes)
        _draw_rates(below, run)
        keys: list[Artist] = [
            Patch(facecolor=_shade(at), hatch=_hatch(at), edgecolor="white", label=name)
            for at, name in enumerate(names)
        ]
        legend_below(figure, keys, columns=min(6, len(keys)), footnote="")


def _shown(run: Played) -> list[str]:
    """All tenants, or those that hold the most, and the others together."""
    names = sorted(run.held, key=lambda name: (-sum(run.held[name]), name))
    if len(names) <= TENANTS_MAX:
        return list(run.held)
    return [*names[: TENANTS_MAX - 1], "all others"]


def _draw_held(axes: Axes, run: Played, names: Sequence[str], nodes: int) -> None:
    minutes = range(len(next(iter(run.held.values()))))
    rest = [held for name, held in run.held.items() if name not in names]
    together = tuple(map(sum, zip(*rest, strict=True)))
    bottom = [0.0] * len(minutes)
    for at, name in enumerate(names):
        held = run.held.get(name, together)
        axes.bar(
            [minute + 0.5 for minute in minutes],
            held,
            1.0,
            bottom=bottom,
            color=_shade(at),
            hatch=_hatch(at),
            edgecolor="white",
            linewidth=0,
        )
        bottom = [below + more for below, more in zip(bottom, held, strict=True)]
    axes.axhline(nodes, color=INK, linewidth=1, linestyle=":")
    axes.set_ylim(0, nodes * 1.05)
    axes.set_xlim(0, len(minutes))
    axes.set_ylabel("nodes held")
    axes.set_title("Who holds how much")


def _draw_rates(axes: Axes, run: Played) -> None:
    for at, (tree, rates) in enumerate(run.rates.items()):
        dollars = [rate / MICROS_PER_DOLLAR if rate >= 0 else float("nan") for rate in rates]
        minutes = [(minute + 1) * MINUTE_US / 60e6 for minute in range(len(rates))]
        axes.plot(minutes, dollars, DASHES[at % len(DASHES)], color=INK, label=tree)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("minutes")
    axes.set_ylabel("$ an hour")
    axes.set_title("What a node costs, on average over those that are held")
    axes.legend()
    axes.grid(axis="y")


def _shade(at: int) -> str:
    return SHADES[at % len(SHADES)]


def _hatch(at: int) -> str:
    return HATCHES[at // len(SHADES) % len(HATCHES)]
