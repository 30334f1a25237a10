"""What an adapter sees, and what it may do.

A view is one tenant's own: its holdings and orders, what it has been charged, and quotes of the
scopes that it may see. Nothing in it tells of anybody else but through a price.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from laissez.model import Holding, OpenOrder, Quoted, TenantInstruction


class MarketView(msgspec.Struct, frozen=True):
    """The market at an instant, as one tenant sees it.

    `charge` is what the tenant owes since the adapter's budget began, in the market's unit.
    `quotes` has the scopes that were asked for and are visible.
    """

    at_us: int
    holdings: tuple[Holding, ...]
    orders: tuple[OpenOrder, ...]
    quotes: Mapping[str, Quoted]
    charge: int = 0


class Action(msgspec.Struct, frozen=True):
    """One thing to do, and why, for the log. Who releases a node may need it no more, or give it up
    because it `is_too_dear`."""

    do: TenantInstruction
    why: str
    is_too_dear: bool = False
