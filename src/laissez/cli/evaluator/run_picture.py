"""A run of a deadline job drawn with letters: a lane for spot capacity, and one for each policy.

Each column stands for some part of the time until the deadline, and shows what most of it was.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from laissez.deadline.job import Job, Kind, hours
from laissez.deadline.plan import (
    Example,
)
from laissez.deadline.registry import POLICIES
from laissez.deadline.world import RunStep, Zone

SPOT, ON_DEMAND, CHANGEOVER, IDLE, DONE = "█", "▒", "|", "·", " "
SIGNS = {Kind.SPOT: SPOT, Kind.ON_DEMAND: ON_DEMAND, None: IDLE}
LEGEND = f"{SPOT} spot  {ON_DEMAND} on-demand  {CHANGEOVER} a changeover  {IDLE} idle"
CAPACITY = "spot there"
COLUMNS_MIN = 20
STYLES = {SPOT: "green", ON_DEMAND: "red", CHANGEOVER: "bold", IDLE: "dim", DONE: ""}


def picture(example: Example, width: int) -> Text:
    """A typical run, with a lane for what was there and one for each policy and its cost."""
    labels = {name: POLICIES[name].label for name in example.outcomes}
    room = max(len(CAPACITY), *map(len, labels.values())) + 1
    columns = max(width - room - len(" 100%"), COLUMNS_MIN)
    drawn = Text("A typical run, and what it cost\n", style="bold")
    drawn.append(_line(CAPACITY.ljust(room), _capacity(example, columns), ""))
    for name, outcome in example.outcomes.items():
        signs = _lane(outcome.steps, example.job, columns)
        cost = f"{outcome.cost_micros / example.on_demand_cost_micros:.0%}"
        drawn.append(_line(labels[name].ljust(room), signs, f"{cost:>5}"))
    drawn.append(f"{' ' * room}{_ruler(example.job, columns)}\n", style="not bold dim")
    drawn.append(" " * room + LEGEND, style="not bold dim")
    return drawn


def _line(label: str, signs: str, end: str) -> Text:
    line = Text(label, style="not bold")
    for sign in signs:
        line.append(sign, style=STYLES[sign])
    return line.append(f"{end}\n")


def _capacity(example: Example, columns: int) -> str:
    """Where at least half of the time some zone had capacity."""
    return "".join(
        SPOT if _share_there(example, *_span(example.job, columns, column)) >= 0.5 else IDLE
        for column in range(columns)
    )


def _share_there(example: Example, from_us: int, to_us: int) -> float:
    tick_us = example.job.tick_us
    first = example.start + from_us // tick_us
    last = max(first + 1, example.start + to_us // tick_us)
    there = [any(_has(zone, tick) for zone in example.zones) for tick in range(first, last)]
    return sum(there) / len(there)


def _has(zone: Zone, tick: int) -> bool:
    return tick < len(zone) and zone.offers[tick] is not None


def _lane(steps: Sequence[RunStep], job: Job, columns: int) -> str:
    """For each column what took most of it; a changeover shows however short it is."""
    signs = []
    at = 0
    for column in range(columns):
        from_us, to_us = _span(job, columns, column)
        while at < len(steps) and steps[at].to_us <= from_us:
            at += 1
        signs.append(_sign(steps[at:], from_us, to_us))
    return "".join(signs)


def _sign(steps: Sequence[RunStep], from_us: int, to_us: int) -> str:
    spent: dict[str, int] = {}
    for step in steps:
        if step.from_us >= to_us:
            break
        works_from_us = step.from_us + step.changeover_us
        if max(step.from_us, from_us) < min(works_from_us, to_us):
            return CHANGEOVER
        sign = SIGNS[step.running.kind if step.running else None]
        spent[sign] = spent.get(sign, 0) + min(step.to_us, to_us) - max(works_from_us, from_us)
    return max(spent, key=lambda sign: spent[sign], default=DONE)


def _span(job: Job, columns: int, column: int) -> tuple[int, int]:
    return job.deadline_us * column // columns, job.deadline_us * (column + 1) // columns


def _ruler(job: Job, columns: int) -> str:
    """Hours under the columns, from the release to the deadline."""
    ruler = "0 h".ljust(columns)
    parts = 4 if columns >= 40 else 2
    for part in range(1, parts + 1):
        mark = hours(job.deadline_us * part // parts)
        at = columns * part // parts - (len(mark) if part == parts else len(mark) // 2)
        ruler = ruler[:at] + mark + ruler[at + len(mark) :]
    return ruler
