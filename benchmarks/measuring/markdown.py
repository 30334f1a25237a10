"""The figures as a compact Markdown table, kept between two marks in a file."""

from pathlib import Path

from measuring.figures import Figures
from measuring.goals import BYTES_AT_MOST, MASS_NS_BELOW, PER_SECOND_AT_LEAST
from measuring.report import MEMORY_COLUMNS, mass_events, ms, us

BEGIN = "<!-- bench:begin -->"
END = "<!-- bench:end -->"
HALF_HOLDER_ROWS = ("others, anywhere", "half-holder, anywhere")


def check_marks(path: Path) -> None:
    """Stop before anything is measured if there is nowhere to write it."""
    text = path.read_text()
    if BEGIN not in text or END not in text.partition(BEGIN)[2]:
        raise SystemExit(f"{path} has no {BEGIN} ... {END} to write between")


def replace_between_marks(path: Path, figures: Figures) -> None:
    before, _, rest = path.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    path.write_text(f"{before}{BEGIN}\n{markdown(figures)}{END}{after}")


def markdown(figures: Figures) -> str:
    blocks = (operations(figures), others(figures))
    scale = figures.scale
    return (
        f"{scale.tenants:,} tenants hold everything, {scale.orders:,} orders rest at all depths; "
        f"operations per second, best of {scale.rounds} rounds.\n\n"
        + "\n".join("".join(f"{row}\n" for row in block) for block in blocks)
        + f"\nMeasured on: {figures.machine}; seed {figures.seed}.\n"
    )


def operations(figures: Figures) -> list[str]:
    """One row per operation, one column per size; latencies at the size that has goals."""
    sizes = list(figures.sizes)
    detailed = max((size for size in sizes if size <= 10_240), default=sizes[0])
    goals = PER_SECOND_AT_LEAST.get(detailed, {})
    heads = [f"{size:,} leaves" for size in sizes]
    rows = [
        row("operation", *heads, f"p50 / p99 / p99.9 µs at {detailed:,}", f"goal at {detailed:,}"),
        row("---", *["---:"] * (len(sizes) + 2)),
    ]
    for name, timing in figures.sizes[detailed].operations.items():
        latencies = " / ".join(us(ns) for ns in (timing.p50_ns, timing.p99_ns, timing.p999_ns))
        speeds = [f"{size.operations[name].per_second:,}" for size in figures.sizes.values()]
        if name == "bill":
            speeds = [
                f"{speed} ({size.holdings_per_tenant:,} holdings)"
                for speed, size in zip(speeds, figures.sizes.values(), strict=True)
            ]
        rows.append(row(name, *speeds, latencies, f"{goals[name]:,}" if name in goals else ""))
    return rows


def others(figures: Figures) -> list[str]:
    rows = [row("what", "measured", "goal"), row("---", "---:", "---:")]
    for name, title in MEMORY_COLUMNS.items():
        measured = " / ".join(f"{getattr(memory, name):,}" for memory in figures.memory.values())
        goal = f"{BYTES_AT_MOST[name]:,}" if name in BYTES_AT_MOST else ""
        rows.append(row(f"bytes: {title}, at the sizes above", measured, goal))
    what = mass_events(figures.scale)
    for name, mass in figures.mass.items():
        goal = f"{ms(MASS_NS_BELOW[name])} ms" if name in MASS_NS_BELOW else ""
        rows.append(row(what[name], f"{ms(mass.total_ns)} ms", goal))
    speeds = " / ".join(f"{figures.half_holder[name].per_second:,}" for name in HALF_HOLDER_ROWS)
    rows.append(row("quotes/s if one tenant holds half the pool: others / that one", speeds, ""))
    if figures.naive:
        leaves, comparison = max(figures.naive.items())
        ratios = ", ".join(f"{name} {ratio:,}" for name, ratio in comparison.ratio.items())
        size = f"{leaves:,} leaves, {comparison.orders} orders"
        rows.append(row(f"times as fast as the naive expansion ({size})", ratios, ""))
    return rows


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
