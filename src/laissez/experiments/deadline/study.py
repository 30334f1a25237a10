"""What a study is: which policies run, on which traces, in which settings; and what comes out.

A `StudySetting` is one point: a length of work, a deadline, a changeover, a price, the traces. A
`Study` is a list of them with everything else that its numbers depend on, so that the same study on
the same traces always has the same `Result`. `reading` makes one from a YAML document.

A `PolicyTally` is the mean over many runs of one policy. Costs are shares of what on-demand alone
costs in the same setting, so that they can be averaged over settings.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Literal

import msgspec

from laissez.deadline.job import US_PER_HOUR

Axis = Literal["work", "fraction", "changeover", "nodes", "work_error", "changeover_error"]
Measure = Literal["saving", "hours", "gap_closed"]
Grouping = Literal["availability", "halves"]
Zones = Literal["single", "all"]

BASELINE = "on_demand"
"""What savings are relative to."""
PRESENT_BEST = "uniform_progress"
"""Where the gap begins that another policy may close."""
BOUND = "omniscient"
"""Where it ends."""


class BadStudy(ValueError):
    """A study that can't be read or run; the sentence says what to change, and in which line."""


class StudySetting(msgspec.Struct, frozen=True):
    """One point of a study.

    `fraction` is work over deadline. `nodes` run together or not at all. The errors are half-widths
    of what work and changeovers really take, relative to what the policy is told. With `zones` all,
    the traces of one date and resource are the zones of one job. `published` is a saving that the
    literature reports for this setting.
    """

    traces: tuple[str, ...]
    work_us: int
    fraction: float
    deadline_us: int
    changeover_us: int
    price_ratio: float = 3.0
    nodes: int = 1
    work_error: float = 0.0
    changeover_error: float = 0.0
    days: int | None = None
    zones: Zones = "single"
    label: str = ""
    published: float | None = None


class Plot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a study is drawn: a line for each policy along `x`, or without one, bars.

    The bars stand for the groups of a study that has groups, or else for its settings.
    """

    x: Axis | None = None
    y: Measure = "saving"


class Study(msgspec.Struct, frozen=True):
    name: str
    title: str
    settings: tuple[StudySetting, ...]
    policies: tuple[str, ...]
    starts: int = 300
    seed: int = 1
    plot: Plot = Plot()
    group_by: Grouping | None = None
    data: Literal["traces", "sample"] = "traces"


class PolicyTally(msgspec.Struct, frozen=True):
    """The mean of many runs of a policy; the hours are of work, with changeovers beside them.

    `cost` is relative to on-demand alone, `saving` what is missing to 1; a quarter of the runs save
    less than `saving_p25`, and a quarter more than `saving_p75`. `spot_utilisation` is the work on
    spot relative to the omniscient's; `gap_closed` is where the saving lies between that of uniform
    progress (0) and of the omniscient (1). Both need these policies beside.
    """

    on_demand_hours: float
    spot_hours: float
    on_demand_changeover_hours: float
    spot_changeover_hours: float
    cost: float
    saving: float
    saving_p25: float
    saving_p75: float
    missed: int
    runs: int
    spot_utilisation: float | None = None
    gap_closed: float | None = None


Tallies = dict[str, PolicyTally]
"""By the name of the policy, in the order of the study."""


class SettingResult(msgspec.Struct, frozen=True):
    """The label tells the setting from the others of its study."""

    label: str
    setting: StudySetting
    policies: Tallies


class PartResult(msgspec.Struct, frozen=True):
    """Some of the runs: those of a trace, or of a group."""

    name: str
    policies: Tallies


class Result(msgspec.Struct, frozen=True):
    """`policies` is over all runs; `cells` has each setting on each trace by itself.

    Wherever runs stand together, there are only the policies that took part in all of them.

    `held_out` has the names of the traces that ran and belong to that half of all.
    """

    study: Study
    policies: Tallies
    settings: tuple[SettingResult, ...]
    traces: tuple[PartResult, ...]
    groups: tuple[PartResult, ...]
    cells: dict[tuple[int, str], Tallies]
    notes: tuple[str, ...]
    held_out: tuple[str, ...] = ()


def deadline_us(work_us: int, fraction: float) -> int:
    """The deadline at which work is this fraction of the time; exact for what people write."""
    return -(-work_us // Fraction(str(fraction)))


def changed(
    study: Study,
    *,
    work_us: int | None = None,
    fraction: float | None = None,
    changeover_us: int | None = None,
    price_ratio: float | None = None,
) -> Study:
    """The study with something else in all of its settings; those that become equal are one."""
    fields: dict[str, Any] = {
        "work_us": work_us,
        "fraction": fraction,
        "changeover_us": changeover_us,
        "price_ratio": price_ratio,
    }
    fields = {name: value for name, value in fields.items() if value is not None}
    if not fields:
        return study
    settings = []
    for setting in study.settings:
        made = msgspec.structs.replace(setting, published=None, **fields)
        if work_us is not None or fraction is not None:
            later_us = deadline_us(made.work_us, made.fraction)
            made = msgspec.structs.replace(made, deadline_us=later_us)
        settings.append(made)
    return msgspec.structs.replace(study, settings=tuple(dict.fromkeys(settings)))


def is_held_out(name: str, names: Iterable[str]) -> bool:
    """Every second trace, in the order of their names, is for development; the others are not."""
    return sorted(set(names)).index(name) % 2 == 1


def labels(settings: Iterable[StudySetting]) -> tuple[str, ...]:
    """What to call each setting: its own label, and what differs among those of that label."""
    settings = tuple(settings)
    found = []
    for setting in settings:
        alike = [each for each in settings if each.label == setting.label]
        texts = [_texts(each) for each in alike]
        differing = [
            text for at, text in enumerate(_texts(setting)) if len({each[at] for each in texts}) > 1
        ]
        found.append(", ".join(filter(None, [setting.label, *differing])))
    return tuple(found)


def _texts(setting: StudySetting) -> tuple[str, ...]:
    """What may tell settings apart, in words: a job with a name has a deadline, others a share."""
    deadline = f"deadline {_short(setting.deadline_us / US_PER_HOUR)} h"
    return (
        f"work {_short(setting.work_us / US_PER_HOUR)} h",
        deadline if setting.label else f"fraction {_short(setting.fraction)}",
        f"changeover {_short(setting.changeover_us / US_PER_HOUR)} h",
        f"price ratio {_short(setting.price_ratio)}",
        f"{setting.nodes} instance{'s' * (setting.nodes > 1)}",
        f"work ±{_short(100 * setting.work_error)}%",
        f"changeover ±{_short(100 * setting.changeover_error)}%",
        "all zones" if setting.zones == "all" else "one zone",
    )


def _short(number: float) -> str:
    return f"{number:.4g}"
