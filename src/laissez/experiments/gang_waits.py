"""How long jobs of a fixed size wait, and which of them starve.

A job waits while it is there, is not done, and has not all of its nodes: before it starts, and
again whenever it was stopped. So a contract does not look better for starting jobs that it stops at
once. How long it waited until it first started is told beside that; one that never did waited all
of its time, which is less than it would have taken. It starves if it never starts, or not within
its patience, where it has any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from laissez.experiments.intervals import quantile
from laissez.performance.application import US_PER_S
from laissez.simulation.contracts.setting import History, Setting, Stint
from laissez.simulation.demand.projects import Project, Rigid


class GangWait(msgspec.Struct, frozen=True):
    """What became of one job."""

    first_wait_s: float
    wait_s: float
    stops: int
    """How often it ran and was stopped before it was done, or its time over."""
    is_starved: bool


class GangWaits(msgspec.Struct, frozen=True):
    """Of all jobs of a fixed size, in one run or in several."""

    jobs: int
    first_wait_p50_s: float
    first_wait_p95_s: float
    wait_p50_s: float
    wait_p95_s: float
    starved: int
    stops: int


def gang_waits(setting: Setting, history: History) -> dict[str, GangWait]:
    """By project; of those that need no fixed size nothing."""
    own: dict[str, list[Stint]] = {}
    for stint in history.stints:
        own.setdefault(stint.tenant, []).append(stint)
    return {
        project.name: _wait(project, own.get(project.name, ()), setting, history)
        for project in setting.projects
        if isinstance(project.labour, Rigid)
    }


def summed_up(waits: Iterable[GangWait]) -> GangWaits | None:
    """None of none."""
    found = list(waits)
    if not found:
        return None
    first, all_in_all = [each.first_wait_s for each in found], [each.wait_s for each in found]
    return GangWaits(
        jobs=len(found),
        first_wait_p50_s=quantile(first, 0.5),
        first_wait_p95_s=quantile(first, 0.95),
        wait_p50_s=quantile(all_in_all, 0.5),
        wait_p95_s=quantile(all_in_all, 0.95),
        starved=sum(each.is_starved for each in found),
        stops=sum(each.stops for each in found),
    )


def _wait(
    project: Project, stints: Sequence[Stint], setting: Setting, history: History
) -> GangWait:
    labour = project.labour
    assert isinstance(labour, Rigid)
    spans = whole_spans(stints, labour.spec.count)
    ends_us = max(project.arrives_us, min(project.ends_us, setting.horizon_us))
    if history.performance[project.name] >= 1 and spans:
        ends_us = spans[-1][1]
    began_us = spans[0][0] if spans else ends_us
    waited_us = ends_us - project.arrives_us - sum(until - since for since, until in spans)
    first_us = began_us - project.arrives_us
    patience_us = labour.patience_us
    return GangWait(
        first_us / US_PER_S,
        waited_us / US_PER_S,
        sum(until < ends_us for _, until in spans),
        not spans or (patience_us is not None and first_us > patience_us),
    )


def whole_spans(stints: Iterable[Stint], count: int) -> list[tuple[int, int]]:
    """From when to when somebody had so many nodes at once, for any time at all."""
    changes: dict[int, int] = {}
    for stint in stints:
        changes[stint.from_us] = changes.get(stint.from_us, 0) + 1
        changes[stint.to_us] = changes.get(stint.to_us, 0) - 1
    spans: list[tuple[int, int]] = []
    held, since_us = 0, None
    for at_us in sorted(changes):
        held += changes[at_us]
        if held >= count and since_us is None:
            since_us = at_us
        elif held < count and since_us is not None:
            spans.append((since_us, at_us))
            since_us = None
    return spans
