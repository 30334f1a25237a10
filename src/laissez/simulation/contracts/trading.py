"""The market as a contract: tenants bid for what nodes are worth to them.

Without displacement a guard holds every holding for ever: once won it can't be taken away, and only
who leaves makes room. The bidding, and who gets what is free, is the same. A crew that trains may
still leave when it costs more than it is worth to itself.

With an operator's map that lends gangs a voice the floor of a domain goes up for a gang that waits
(`inframaps.gangs`). An hour with jobs of minutes is short: a gang speaks for the first time after
half a minute, its voice rises for two, and speaks again two after it fell silent.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from functools import partial
from itertools import zip_longest
from typing import Literal

from laissez.inframaps import Composition, Gangs
from laissez.model import (
    Called,
    ChangeFloor,
    ChangeGuard,
    Event,
    OfferResource,
    Reason,
    Settled,
    Transferred,
    Uncalled,
)
from laissez.simulation.contracts.recording import MINUTE_US, Recorder, tenant_for
from laissez.simulation.contracts.setting import TOO_DEAR, History, Setting, Stint
from laissez.simulation.kernel.stage import Tenant
from laissez.simulation.kernel.steering import steer
from laissez.simulation.kernel.streams import Handovers
from laissez.simulation.kernel.world import World

FOR_EVER_US = 1 << 50


class Trading:
    """`market`, the same `with_map`, or `no_displacement`."""

    def __init__(self, name: Literal["market", "with_map", "no_displacement"] = "market") -> None:
        self.name = name

    def play(self, setting: Setting, seed: int, *, keeps_log: bool = False) -> History:
        recorder = Recorder(setting)
        stints: list[Stint] = []
        calls: dict[str, Reason] = {}
        world = World(
            handover_us=Handovers(seed),
            keeps_log=keeps_log,
            listener=lambda events: stints.extend(ended(events, world.too_dear, calls)),
            witness=recorder,
        )
        self._open(world, setting)
        for project in setting.projects:
            tenant = tenant_for(project, setting)
            world.join(tenant)
            world.at(project.ends_us, partial(_end, world, recorder, tenant))
        world.every(MINUTE_US, lambda at_us: recorder.minute(_held(world, setting)))
        world.run(setting.horizon_us)
        for tenant in world.tenants.values():
            recorder.ends(tenant, setting.horizon_us)
        settled = world.market.settle(at=setting.horizon_us)
        stints += [_stint(event, None) for event in settled if isinstance(event, Settled)]
        return History(
            tuple(stints),
            tuple(recorder.losses),
            recorder.performance,
            {tree: tuple(rates) for tree, rates in recorder.rates.items()},
            tuple(world.log),
        )

    def _open(self, world: World, setting: Setting) -> None:
        for tree, floor in setting.prices.base.items():
            world.operate(ChangeFloor(tree, floor), 0)
            if self.name == "no_displacement":
                world.operate(ChangeGuard(tree, hold=FOR_EVER_US), 0)
        for tree, guards in setting.guards.items():
            if self.name != "no_displacement":
                world.bind(tree, notice_us=guards.notice_us or 0, commit_us=guards.commit_us or 0)
        for resource in setting.resources:
            world.operate(OfferResource(resource), 0)
        if self.name == "with_map":
            steer(world, Composition(setting.prices.base, {}, ((1.0, voices()),)))


def voices() -> Gangs:
    """One domain of each kind at a time."""
    return Gangs(
        patience_us=MINUTE_US // 2,
        rise_us=2 * MINUTE_US,
        steps=8,
        lasts_us=4 * MINUTE_US,
        rests_us=2 * MINUTE_US,
        most=2,
    )


def ended(
    events: tuple[Event, ...],
    too_dear: Container[tuple[str, str, int]] = (),
    calls: dict[str, Reason] | None = None,
) -> Iterator[Stint]:
    """The stints that end with these events: the market settles what changes hands directly before
    it says so, also if one resource does that several times at once. What is settled alone is a
    promise that was given back: nothing was held, and what it was bound to is paid all the same. So
    is what is left of a commitment, which is part of the charge. The market does not ask why
    somebody relinquishes a resource; here it is known. Who is called and leaves before the end has
    lost it; `calls`, by resource, are those that stand."""
    calls = {} if calls is None else calls
    for event, after in zip_longest(events, events[1:]):
        if isinstance(event, Called):
            calls[event.resource] = event.reason
        elif isinstance(event, Uncalled):
            calls.pop(event.resource, None)
        elif isinstance(event, Settled):
            if isinstance(after, Transferred) and _is_of(after, event):
                yield _stint(event, _reason(event, after.reason, too_dear, calls))
            else:
                yield _stint(event, "relinquished")


def _is_of(moved: Transferred, settled: Settled) -> bool:
    return (moved.resource, moved.old) == (settled.resource, settled.tenant)


def _reason(
    settled: Settled,
    reason: Reason,
    too_dear: Container[tuple[str, str, int]],
    calls: dict[str, Reason],
) -> str:
    called = calls.pop(settled.resource, None)
    if reason != "relinquished":
        return reason
    if called is not None:
        return called
    is_too_dear = (settled.tenant, settled.resource, settled.at) in too_dear
    return TOO_DEAR if is_too_dear else reason


def _end(world: World, recorder: Recorder, tenant: Tenant, at_us: int) -> None:
    recorder.ends(tenant, at_us)
    world.leave(tenant.name)


def _held(world: World, setting: Setting) -> list[tuple[str, int]]:
    market = world.market
    return [
        (resource, market.rate(resource))
        for resource in setting.resources
        if market.owner(resource) is not None
    ]


def _stint(event: Settled, reason: str | None) -> Stint:
    return Stint(event.tenant, event.resource, event.since, event.at, event.charge, reason)
