"""How fast the policies for deadline jobs are evaluated: `python benchmarks/deadline.py --help`.

Each policy runs 2,400 jobs (48 h of work in 60 h, a changeover of 12 minutes) on one core, in eight
zones with a tick of ten minutes: invented ones, or the real two-week traces with `--data`. The
policies that see the future do a tenth of that. Beside the seconds stands the cost of a run
against that of a job that asks nobody anything, in the same run of this program: on-demand only.
Nothing fails for being slow.
"""

import argparse
from pathlib import Path
from random import Random
from time import perf_counter

import msgspec
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from laissez.deadline.generator import sample_traces
from laissez.deadline.job import US_PER_HOUR, Job, Kind, Offer
from laissez.deadline.registry import POLICIES, Brief, make
from laissez.deadline.traces import SpotTrace, load_all
from laissez.deadline.world import Future, Zone, run

TICK_US = 600_000_000
JOB = Job(48 * US_PER_HOUR, 60 * US_PER_HOUR, US_PER_HOUR // 5, TICK_US)
SPOT_RATE = 1_000_000
ON_DEMAND = Offer("any", Kind.ON_DEMAND, 3 * SPOT_RATE)
STARTS = 300
ZONES = 8
SEES_EVERYTHING_PART = 10
REFERENCE = "on_demand"


class Figure(msgspec.Struct, frozen=True):
    policy: str
    runs: int
    seconds: float
    ms_per_run: float
    times_on_demand: float


def traces(data: Path | None) -> list[SpotTrace]:
    if data is None:
        return sample_traces(days=13, tick_us=TICK_US)[:ZONES]
    return [trace.first(13) for trace in load_all(data / "spot", "availability/1-node/aws-10*/*")]


def seconds(name: str, zones: list[Zone], starts: list[int], random: Random) -> float:
    """Everything that a policy costs: made anew for each run, with its table if it needs one."""
    began = perf_counter()
    for zone in zones:
        for start in starts:
            brief = Brief(
                JOB,
                SPOT_RATE,
                ON_DEMAND.micros_per_hour,
                random.randrange(1 << 30),
                Future([zone], start),
            )
            run(JOB, make(name, brief), [zone], ON_DEMAND, start=start)
    return perf_counter() - began


def measure(zones: list[Zone], progress: Progress) -> list[Figure]:
    random = Random(1)
    ticks = JOB.deadline_us // TICK_US
    starts = [random.randrange(min(map(len, zones)) - ticks) for _ in range(STARTS)]
    names = [name for name in POLICIES if name != "shifted_greedy"]  # it needs a later deadline
    task = progress.add_task("policies", total=len(names))
    figures: dict[str, Figure] = {}
    for name in names:
        part = STARTS // (SEES_EVERYTHING_PART if POLICIES[name].sees_future else 1)
        taken = seconds(name, zones, starts[:part], random)
        runs = part * len(zones)
        reference = figures[REFERENCE].ms_per_run if figures else 1_000 * taken / runs
        ms = 1_000 * taken / runs
        figures[name] = Figure(name, runs, round(taken, 2), round(ms, 3), round(ms / reference, 2))
        progress.advance(task)
    return list(figures.values())


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the policies for deadline jobs.")
    parser.add_argument("--data", type=Path, help="folder with spot/, the real traces")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    zones = [trace.as_zone(SPOT_RATE) for trace in traces(arguments.data)]
    with Progress(console=Console(stderr=True), transient=True) as progress:
        figures = measure(zones, progress)
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(figures)).decode())
        return
    table = Table("policy", "runs", "seconds", "ms/run", "x on-demand", title="Deadline jobs")
    for figure in figures:
        table.add_row(*(str(value) for value in msgspec.structs.astuple(figure)))
    Console().print(table)


if __name__ == "__main__":
    main()
