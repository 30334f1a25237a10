"""One tenant's life under one contract: what it asked for, received and lost, and what each move
gained or cost.

A life is what really happened: the contract is played with the tenant watched (`watching`),
and what is told comes from its diary, from the log of the run and from its history. Worth is what
the application says a node adds or takes away, in units of its utility, and in money as the
tenant's adapter values a unit. `writing` makes the events, `telling` words of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Literal

import msgspec

from laissez.model.paths import tree_of
from laissez.simulation.contracts.recording import micros
from laissez.simulation.contracts.setting import Contract, History, Setting, Stint
from laissez.simulation.demand.projects import US_PER_HOUR, Class, Project
from laissez.simulation.life.events import (
    CoursePoint,
    GivesBack,
    Lack,
    LifeEvent,
    Loses,
    Receives,
    Written,
)
from laissez.simulation.life.watching import Diary
from laissez.simulation.life.writing import Writing
from laissez.simulation.scenarios.regimes import Alone

UtilityUnit = Literal["requests/s", "hours/h"]


class UnknownTenant(ValueError):
    """No project of the setting has this name; the sentence has the names that there are."""


class WatchedProject(msgspec.Struct, frozen=True):
    """The project. All of it is worth its budget; without one, it is worth any amount."""

    name: str
    kind: Class
    unit: UtilityUnit
    arrives_us: int
    ends_us: int
    budget_micros: int | None
    micros_per_unit: float | None
    """What a unit of utility is worth an hour to the adapter, before its budget is paced."""
    alone_node_hours: float
    alone_performance: float


class LifeSummary(Written, frozen=True):
    retention: float
    performance: float
    node_hours: Mapping[str, float]
    """By kind."""
    charge: int
    cost_micros: float
    mean_rate_micros_per_hour: float
    """What a node cost on average while it was held."""
    lasts_us: int
    empty_us: int
    """How long it had nothing, and lacked something."""
    cold_node_hours: float
    """Held and paid for, and not at work yet."""
    receives: int
    losses: int
    given_back: int
    wasted: float
    """Work done twice, in the unit of performance."""
    lacks: tuple[Lack, ...]
    """What kept it from more, the most first."""


class Life(msgspec.Struct, frozen=True):
    contract: str
    seed: int
    who: WatchedProject
    events: tuple[LifeEvent, ...]
    stints: tuple[Stint, ...]
    course: tuple[CoursePoint, ...]
    summary: LifeSummary


def life_of(
    setting: Setting, alone: Mapping[str, Alone], contract: Contract, seed: int, tenant: str
) -> Life:
    """Plays the contract, and follows one tenant."""
    project = _found(setting, tenant)
    diary = Diary()
    watched = tuple(diary.watched(each) if each is project else each for each in setting.projects)
    playing = msgspec.structs.replace(setting, projects=watched)
    history = contract.play(playing, seed, keeps_log=True)
    stints = tuple(stint for stint in history.stints if stint.tenant == tenant)
    writing = Writing(project, setting, diary, history.log, stints)
    events = writing.events()
    who = _who(project, setting, diary, alone[tenant])
    summary = _summary(who, history, stints, events, writing)
    return Life(contract.name, seed, who, events, stints, tuple(writing.course), summary)


def _found(setting: Setting, tenant: str) -> Project:
    names = [project.name for project in setting.projects]
    if tenant not in names:
        close = get_close_matches(tenant, names, n=5)
        known = ", ".join([*close, *(name for name in names if name not in close)])
        raise UnknownTenant(
            f"no tenant is called {tenant!r}; say one of {known}"
            if names
            else f"no tenant is called {tenant!r}: there are none"
        )
    return next(project for project in setting.projects if project.name == tenant)


def _who(project: Project, setting: Setting, diary: Diary, alone: Alone) -> WatchedProject:
    return WatchedProject(
        project.name,
        project.kind,
        "requests/s" if project.kind == "inference" else "hours/h",
        project.arrives_us,
        min(project.ends_us, setting.horizon_us),
        setting.budgets.get(project.name),
        diary.micros_per_unit,
        alone.node_hours,
        alone.performance,
    )


def _summary(
    who: WatchedProject,
    history: History,
    stints: tuple[Stint, ...],
    events: tuple[LifeEvent, ...],
    writing: Writing,
) -> LifeSummary:
    performance = history.performance[who.name]
    hours: dict[str, float] = {}
    for stint in stints:
        kind = tree_of(stint.resource)
        hours[kind] = hours.get(kind, 0.0) + (stint.to_us - stint.from_us) / US_PER_HOUR
    charge = sum(stint.charge for stint in stints)
    all_hours = sum(hours.values())
    return LifeSummary(
        min(1.0, performance / who.alone_performance) if who.alone_performance else 1.0,
        performance,
        dict(sorted(hours.items(), reverse=True)),
        charge,
        micros(charge),
        micros(charge) / all_hours if all_hours else 0.0,
        who.ends_us - who.arrives_us,
        writing.empty_us,
        writing.cold_node_us / US_PER_HOUR,
        sum(isinstance(event, Receives) for event in events),
        sum(isinstance(event, Loses) for event in events),
        sum(isinstance(event, GivesBack) for event in events),
        sum(loss.wasted for loss in history.losses if loss.tenant == who.name),
        writing.lacks(),
    )
