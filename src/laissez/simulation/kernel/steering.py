"""An operator's maps in a simulated market: they step as often as they would live."""

from __future__ import annotations

from laissez.inframaps import Composition, OperatorView, gangs_among
from laissez.model import Resource
from laissez.simulation.kernel.world import World


def steer(world: World, composition: Composition, *, begins_us: int = 0) -> None:
    """Let maps set the floors of a world, once every period."""

    def step(at_us: int) -> None:
        view = operator_view(world, at_us)
        for action in composition.step({}, view, at_us):
            world.operate(action.do, at_us, action.why)

    world.every(composition.period_us, step, begins_us=begins_us)


def operator_view(world: World, at_us: int) -> OperatorView:
    """What the service would tell the operator now."""
    market = world.market
    resources = tuple(
        Resource(path, market.owner(path), market.rate(path), {}) for path in market.resources()
    )
    orders = (order for tenant in market.tenants() for order in market.orders(tenant))
    return OperatorView(
        at_us, resources, market.floors(), market.guards(), gangs=gangs_among(orders)
    )
