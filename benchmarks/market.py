"""How fast and how small the market is: `python benchmarks/market.py --help`.

Measures every operation at four sizes, memory, mass events, and the naive expansion beside it;
prints tables with the goals, and writes all figures as JSON. Nothing fails for being slow.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns
from typing import Any, TypeVar

import msgspec
from measuring.apart import run_apart
from measuring.comparison import compare
from measuring.figures import Figures
from measuring.goals import judge
from measuring.machine import this_machine
from measuring.markdown import check_marks, replace_between_marks
from measuring.mass import measure_half_holder, measure_mass
from measuring.memory import measure_memory
from measuring.operations import measure_size
from measuring.report import show
from measuring.scale import FULL, QUICK, Scale
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

import laissez

BUILD = Path(__file__).parents[1] / "build"
TABLE_WIDTH = 124
FIXED_WEIGHT = 50_000
"""What a measurement costs besides its leaves, in leaves: for the progress bar only."""

Result = TypeVar("Result")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the market.")
    parser.add_argument("--sizes", type=int, nargs="+", metavar="LEAVES", help="pool sizes")
    parser.add_argument("--quick", action="store_true", help="small sizes: seconds, no goals")
    parser.add_argument("--seed", type=int, default=1, help="of all that is random (1)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument(
        "--output", type=Path, help="where the JSON goes (build/bench-market[-quick].json)"
    )
    parser.add_argument(
        "--markdown",
        type=Path,
        metavar="FILE",
        help="replace what stands between the bench marks in FILE",
    )
    return parser.parse_args()


def run(scale: Scale, seed: int, quick: bool) -> Figures:
    """Measure one thing after the other, each in a process of its own."""
    weight = sum(2 * (size + FIXED_WEIGHT) for size in scale.sizes)
    weight += (len(scale.naive_sizes) + 3) * FIXED_WEIGHT
    columns = (TextColumn("{task.description:<50}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=weight)
        took_ms: dict[str, int] = {}

        def apart(
            title: str, job: Callable[..., Result], *given: Any, weight: int = FIXED_WEIGHT
        ) -> Result:
            def say(stage: str) -> None:
                progress.update(task, description=f"{title}: {stage}")

            say("starting")
            begin = monotonic_ns()
            result = run_apart(job, *given, scale, seed, say=say)
            took_ms[title] = (monotonic_ns() - begin) // 1_000_000
            progress.advance(task, weight)
            return result

        return Figures(
            version=laissez.__version__,
            machine=this_machine(),
            seed=seed,
            quick=quick,
            scale=scale,
            naive={
                size: apart(f"naive, {size:,} leaves", compare, size) for size in scale.naive_sizes
            },
            mass=apart("mass", measure_mass, weight=2 * FIXED_WEIGHT),
            half_holder=apart("half-holder", measure_half_holder),
            memory={
                size: apart(
                    f"memory, {size:,} leaves", measure_memory, size, weight=size + FIXED_WEIGHT
                )
                for size in scale.sizes
            },
            sizes={
                size: apart(f"{size:,} leaves", measure_size, size, weight=size + FIXED_WEIGHT)
                for size in scale.sizes
            },
            took_ms=took_ms,
        )


def as_json(figures: Figures) -> str:
    whole = msgspec.to_builtins(figures, str_keys=True)
    whole["goals"] = msgspec.to_builtins(judge(figures))
    return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode() + "\n"


def main() -> None:
    options = arguments()
    if options.markdown:
        check_marks(options.markdown)
    scale = QUICK if options.quick else FULL
    if options.sizes:
        scale = msgspec.structs.replace(scale, sizes=tuple(options.sizes))
    figures = run(scale, options.seed, options.quick)
    output = options.output or BUILD / f"bench-market{'-quick' if options.quick else ''}.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(as_json(figures))
    if options.markdown:
        replace_between_marks(options.markdown, figures)
    if options.json:
        print(as_json(figures), end="")
    else:
        show(figures, Console(width=max(TABLE_WIDTH, Console().width)))
        print(f"all figures: {output}")


if __name__ == "__main__":
    main()
