"""The cluster at one instant, as the operator sees it: who holds what, at what rate, and why.

The market says why by itself: the explanation of a holding, asked for one microsecond ahead, ends
with the stretch that begins now. That is always allowed, because after a command whatever fell
due has acted, so that the next timer lies ahead.
"""

from collections.abc import Iterable
from typing import NamedTuple

from laissez.market import Market
from laissez.model import OpenOrder
from laissez.model.values import Cause


class ClusterRow(NamedTuple):
    """One resource; `rival` is the waiting order that presses hardest on it."""

    resource: str
    holder: str | None
    rate: int
    limit: int | None
    cause: Cause
    rival: OpenOrder | None


class ClusterView(NamedTuple):
    rows: dict[str, ClusterRow]
    waiting: tuple[OpenOrder, ...]


def look(market: Market, tenants: Iterable[str]) -> ClusterView:
    waiting = tuple(order for tenant in tenants for order in market.orders(tenant))
    rows = (_row(market, resource, waiting) for resource in market.resources())
    return ClusterView({row.resource: row for row in rows}, waiting)


def _row(market: Market, resource: str, waiting: tuple[OpenOrder, ...]) -> ClusterRow:
    holder = market.owner(resource)
    cause: Cause = "floor"
    if holder is not None:
        *_, (_, _, _, cause) = market.segments(holder, at=market.now + 1)[resource]
    rival = None if cause == "floor" else _hardest(waiting, resource, holder)
    return ClusterRow(resource, holder, market.rate(resource), market.limit(resource), cause, rival)


def _hardest(waiting: tuple[OpenOrder, ...], resource: str, holder: str | None) -> OpenOrder | None:
    others = (order for order in waiting if order.tenant != holder and _covers(order, resource))
    return max(others, key=lambda order: order.price or 0, default=None)


def _covers(order: OpenOrder, resource: str) -> bool:
    return f"{resource}/".startswith(f"{order.scope}/")
