"""How much the service survives: `python benchmarks/torture.py --help`.

The service is killed under load, again and again, on the same journal; after each kill everything
that clients were told is held against the journal (see `tests/faults`). Ends with status 1 and
one sentence at the first promise that was broken, and then leaves the journal for a look.
"""

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
from pathlib import Path

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

sys.path.append(str(Path(__file__).parents[1] / "tests"))

from faults.ledger import Violation
from faults.ordeal import Death, Ordeal, Outcome, deaths

KILLS = 50


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Kill the service, and see what it lost.")
    parser.add_argument("--kills", type=int, default=KILLS, help=f"how often ({KILLS})")
    parser.add_argument("--seed", type=int, help="of all that is random; repeats the choices")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args()


def run(folder: Path, plan: list[Death], seed: int) -> Outcome:
    columns = (
        TextColumn("{task.description:<44}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task("starting", total=len(plan))

        def say(outcome: Outcome) -> None:
            told = f"{outcome.acknowledged:,} acknowledged, nothing lost"
            progress.update(task, advance=1, description=told)

        return asyncio.run(Ordeal(folder, seed).run(plan, say))


def show(outcome: Outcome) -> None:
    table = Table(title="nothing was lost, nothing acted twice", show_header=False)
    for name, value in msgspec.structs.asdict(outcome).items():
        if isinstance(value, dict):
            value = ", ".join(f"{count} {death}" for death, count in value.items())
        table.add_row(name.replace("_", " "), f"{value:,}" if type(value) is int else str(value))
    Console().print(table)


def main() -> int:
    options = arguments()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 31)
    print(f"torture: {options.kills} kills, --seed {seed}", file=sys.stderr)
    place = Path(tempfile.mkdtemp(prefix="laissez-torture-"))
    try:
        outcome = run(place / "journal", deaths(options.kills, seed), seed)
    except Violation as violation:
        print(f"torture: {violation}", file=sys.stderr)
        print(f"torture: --seed {seed}; the journal is in {place}", file=sys.stderr)
        return 1
    shutil.rmtree(place)
    if options.json:
        print(msgspec.json.encode(outcome).decode())
    else:
        show(outcome)
    return 0


if __name__ == "__main__":
    sys.exit(main())
