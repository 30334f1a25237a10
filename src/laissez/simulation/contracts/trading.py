"""The market as a contract: tenants bid for what nodes are worth to them.

Without displacement a guard holds every holding for ever: once won it can't be taken away, and only
who leaves makes room. The bidding, and who gets what is free, is the same. A crew that trains may
still leave when it costs more than it is worth to itself.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from functools import partial
from itertools import pairwise
from typing import Literal

from laissez.model import ChangeFloor, ChangeGuard, Event, OfferResource, Settled, Transferred
from laissez.simulation.contracts.recording import MINUTE_US, Recorder, tenant_for
from laissez.simulation.contracts.setting import TOO_DEAR, History, Setting, Stint
from laissez.simulation.kernel.stage import Tenant
from laissez.simulation.kernel.streams import Handovers
from laissez.simulation.kernel.world import World

FOR_EVER_US = 1 << 50


class Trading:
    """`market`, or `no_displacement`."""

    def __init__(self, name: Literal["market", "no_displacement"] = "market") -> None:
        self.name = name

    def play(self, setting: Setting, seed: int, *, keeps_log: bool = False) -> History:
        recorder = Recorder(setting)
        stints: list[Stint] = []
        world = World(
            handover_us=Handovers(seed),
            keeps_log=keeps_log,
            listener=lambda events: stints.extend(ended(events, world.too_dear)),
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
        if setting.guards:
            raise NotImplementedError("the market knows neither notice nor commitment yet")
        for tree, floor in setting.prices.base.items():
            world.operate(ChangeFloor(tree, floor), 0)
            if self.name == "no_displacement":
                world.operate(ChangeGuard(tree, hold=FOR_EVER_US), 0)
        for resource in setting.resources:
            world.operate(OfferResource(resource), 0)


def ended(
    events: tuple[Event, ...], too_dear: Container[tuple[str, str, int]] = ()
) -> Iterator[Stint]:
    """The stints that end with these events: the market settles what changes hands directly before
    it says so, also if one resource does that several times at once. What is settled alone is a
    promise that was given back: nothing was held. The market does not ask why somebody relinquishes
    a resource; here it is known."""
    for settled, moved in pairwise(events):
        if isinstance(settled, Settled) and isinstance(moved, Transferred):
            assert moved.resource == settled.resource
            is_too_dear = (settled.tenant, settled.resource, settled.at) in too_dear
            is_own = moved.reason == "relinquished"
            yield _stint(settled, TOO_DEAR if is_own and is_too_dear else moved.reason)


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
