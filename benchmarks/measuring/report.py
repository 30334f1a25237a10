"""The figures as tables in a terminal, each beside its goal."""

from rich.console import Console, JustifyMethod
from rich.table import Table
from rich.text import Text

from measuring.figures import Figures
from measuring.goals import (
    BYTES_AT_MOST,
    MASS_NS_BELOW,
    P999_NS_BELOW,
    PER_SECOND_AT_LEAST,
    judge,
)
from measuring.scale import Scale
from measuring.timing import Timing

TIMING_COLUMNS = ("per s", "p50 µs", "p99 µs", "p99.9 µs", "max µs", "preempted")

MEMORY_COLUMNS = {
    "leaf_idle": "idle leaf",
    "leaf_held": "held leaf",
    "order_among_others": "order among others",
    "order_alone_at_host": "order alone at a host",
    "order_alone_at_leaf": "order alone at a leaf",
}


def show(figures: Figures, console: Console) -> None:
    console.print(operations_table(figures))
    console.print(memory_table(figures))
    console.print(mass_table(figures))
    console.print(half_holder_table(figures))
    console.print(naive_table(figures))
    verdicts = judge(figures)
    for verdict in verdicts:
        if not verdict.met:
            goal, measured = f"{verdict.goal:,}", f"{verdict.measured:,} {verdict.unit}"
            console.print(Text(f"not met: {verdict.what}: {measured}, goal {goal}", "red"))
    if verdicts:
        met = sum(verdict.met for verdict in verdicts)
        console.print(f"{met} of {len(verdicts)} goals met")
    console.print(f"{figures.machine}; seed {figures.seed}", highlight=False)


def operations_table(figures: Figures) -> Table:
    scale = figures.scale
    table = numbers(
        f"Operations, {scale.tenants:,} tenants holding everything, {scale.orders:,} orders resting"
        f"; best of {scale.rounds} rounds",
        texts=("leaves", "operation"),
        numbers=(*TIMING_COLUMNS, "goal/s"),
    )
    for leaves, size in figures.sizes.items():
        goals = {} if figures.quick else PER_SECOND_AT_LEAST.get(leaves, {})
        slowest = None if figures.quick else P999_NS_BELOW.get(leaves)
        for name, timing in size.operations.items():
            cells = timing_cells(timing, goals.get(name), slowest)
            of = f" of {size.holdings_per_tenant:,} holdings" if name == "bill" else ""
            table.add_row(f"{leaves:,}", name + of, *cells, count(goals.get(name)))
        table.add_section()
    return table


def memory_table(figures: Figures) -> Table:
    table = numbers(
        "Memory, bytes",
        texts=("leaves", "weighed by"),
        numbers=tuple(MEMORY_COLUMNS.values()),
    )
    goals = {} if figures.quick else BYTES_AT_MOST
    for leaves, memory in figures.memory.items():
        cells = []
        for name in MEMORY_COLUMNS:
            measured = getattr(memory, name)
            goal = goals.get(name)
            cells.append(judged(f"{measured:,}", None if goal is None else measured <= goal))
        table.add_row(f"{leaves:,}", memory.leaves_by, *cells)
    table.add_section()
    table.add_row("goal", "at most", *(count(goals.get(name)) for name in MEMORY_COLUMNS))
    return table


def mass_events(scale: Scale) -> dict[str, str]:
    """What happens in each mass event, in words."""
    return {
        "bills, one holding each": f"{scale.mass_changes:,} price changes at the root, then a bill "
        f"for each of {scale.mass_leaves:,} holdings, one per tenant",
        "bills, many holdings each": f"the same with {scale.tenants:,} tenants",
        "expiry": f"{scale.orders:,} orders expire at one instant",
        "floor falls, orders at the root": "the root floor falls over "
        f"{scale.mass_idle_leaves:,} idle leaves, ten orders waiting at the root",
        "floor falls, orders at all depths": "the same with ten orders waiting at all depths",
        "transfers after a turnover": f"{scale.mass_changes:,} transfers, after all "
        f"{scale.orders:,} orders were replaced",
    }


def mass_table(figures: Figures) -> Table:
    scale = figures.scale
    what = mass_events(scale)
    table = numbers(
        f"Mass events, best of {scale.mass_runs} runs",
        texts=("event",),
        numbers=("ms", "of these", "goal ms"),
    )
    for name, mass in figures.mass.items():
        goal = None if figures.quick else MASS_NS_BELOW.get(name)
        parts = ", ".join(f"{part} {ms(ns)}" for part, ns in mass.parts_ns.items())
        table.add_row(
            what[name],
            judged(ms(mass.total_ns), None if goal is None else mass.total_ns < goal),
            parts if len(mass.parts_ns) > 1 else "",
            "" if goal is None else ms(goal),
        )
    return table


def half_holder_table(figures: Figures) -> Table:
    table = numbers(
        f"Quotes where one tenant holds half of {figures.scale.mass_leaves:,} leaves",
        texts=("asked by",),
        numbers=TIMING_COLUMNS,
    )
    for name, timing in figures.half_holder.items():
        table.add_row(name, *timing_cells(timing))
    return table


def naive_table(figures: Figures) -> Table:
    table = numbers(
        f"Beside the naive expansion, {figures.scale.naive_orders:,} orders resting; per second",
        texts=("leaves", "operation"),
        numbers=("naive", "market", "ratio"),
    )
    for leaves, comparison in figures.naive.items():
        for name, ratio in comparison.ratio.items():
            table.add_row(
                f"{leaves:,}",
                name,
                f"{comparison.naive[name].per_second:,}",
                f"{comparison.market[name].per_second:,}",
                f"{ratio:,}",
            )
        table.add_section()
    return table


def numbers(title: str, *, texts: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left")
    for name in texts:
        justify: JustifyMethod = "right" if name == "leaves" else "left"
        table.add_column(name, justify=justify, no_wrap=name != "event")
    for name in numbers:
        table.add_column(name, justify="right")
    return table


def timing_cells(
    timing: Timing, per_second_goal: int | None = None, p999_goal: int | None = None
) -> list[str | Text]:
    fast = None if per_second_goal is None else timing.per_second >= per_second_goal
    steady = None if p999_goal is None else timing.p999_ns < p999_goal
    return [
        judged(f"{timing.per_second:,}", fast),
        us(timing.p50_ns),
        us(timing.p99_ns),
        judged(us(timing.p999_ns), steady),
        us(timing.max_ns),
        f"{timing.interruptions:,}",
    ]


def judged(text: str, met: bool | None) -> str | Text:
    """Marked by whether a goal was met; as it is where there is none."""
    if met is None:
        return text
    return Text(f"{text} ✓", "green") if met else Text(f"{text} ✗", "red")


def count(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def us(nanoseconds: int) -> str:
    return f"{nanoseconds / 1_000:,.1f}"


def ms(nanoseconds: int) -> str:
    return f"{nanoseconds / 1_000_000:,.1f}"
