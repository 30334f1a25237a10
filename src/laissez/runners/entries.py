"""What runners say of themselves: one entry for everything that was done, won, lost or went wrong.

Every entry has its instant, by the exchange's clock, and its reason. For programs it is a line of
JSON, for people the sentence that `sentence` makes of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from laissez.adapters.view import AdapterInstruction, OrderGang, Stay, Vacate
from laissez.client.money import show_charge, show_rate
from laissez.model import (
    AmendOrder,
    CancelOrder,
    ChangeFloor,
    ChangeGuard,
    ChangeLimit,
    Instruction,
    OfferResource,
    PlaceOrder,
    Reason,
    Release,
    WithdrawResource,
)
from laissez.model.message import UNTIL_AN_INSTANT, Message
from laissez.performance.application import US_PER_S

What = Literal[
    "begins",
    "won",
    "lost",
    "called",
    "uncalled",
    "promised",
    "place",
    "amend",
    "cancel",
    "limit",
    "release",
    "vacate",
    "stay",
    "floor",
    "guard",
    "withdraw",
    "offer",
    "other",
    "refused",
    "warning",
    "trouble",
    "mended",
    "ends",
]


class RunnerEntry(Message, frozen=True, kw_only=True, omit_defaults=True, rename=UNTIL_AN_INSTANT):
    """One line of a log. `name` is the adapter or map, `tenant` who it acts for.

    With `is_rehearsal` it is what would have been done. `rate` is the rate when it was last seen.
    What is called goes at `until`, what is promised comes then, each at the latest.
    """

    at: int
    name: str
    tenant: str | None = None
    what: What
    why: str
    is_rehearsal: bool = False
    resource: str | None = None
    scope: str | None = None
    order: str | None = None
    price: int | None = None
    limit: int | None = None
    rate: int | None = None
    floor: int | None = None
    reason: Reason | None = None
    code: str | None = None
    count: int | None = None
    charge: int | None = None
    until: int | None = None


EntryLog = Callable[[RunnerEntry], None]


def sentence(entry: RunnerEntry) -> str:
    """An entry for people, without its instant."""
    said = f"{_WORDS[entry.what](entry)}: {entry.why}" if entry.why else _WORDS[entry.what](entry)
    return f"would {said}" if entry.is_rehearsal else said


def entry_of(
    do: Instruction | AdapterInstruction,
    why: str,
    *,
    at: int,
    name: str,
    tenant: str | None = None,
    is_rehearsal: bool = False,
) -> RunnerEntry:
    """The entry for an instruction."""
    count = getattr(do, "count", 1)
    return RunnerEntry(
        at=at,
        name=name,
        tenant=tenant,
        what=_WHATS.get(type(do), "other"),
        why=why,
        is_rehearsal=is_rehearsal,
        resource=getattr(do, "resource", None),
        scope=getattr(do, "scope", None) or getattr(do, "tree", None),
        order=getattr(do, "order", None),
        price=getattr(do, "price", None),
        limit=getattr(do, "limit", None),
        floor=getattr(do, "floor", None),
        count=count if count > 1 else None,
    )


_WHATS: dict[type, What] = {
    PlaceOrder: "place",
    AmendOrder: "amend",
    CancelOrder: "cancel",
    ChangeLimit: "limit",
    Release: "release",
    OrderGang: "place",
    Vacate: "vacate",
    Stay: "stay",
    ChangeFloor: "floor",
    ChangeGuard: "guard",
    WithdrawResource: "withdraw",
    OfferResource: "offer",
}


def _rate(rate: int | None) -> str:
    return "an unknown rate" if rate is None else show_rate(rate)


def _won(entry: RunnerEntry) -> str:
    order = "" if entry.order is None else f" with the order {entry.order}"
    offered = f", offering {show_rate(entry.price)}" if entry.price is not None else ""
    limit = f", up to {show_rate(entry.limit)}" if entry.limit is not None else ""
    return f"won {entry.resource}{order}{offered}{limit}, at {_rate(entry.rate)}"


def _lost(entry: RunnerEntry) -> str:
    limit = "" if entry.limit is None else f", its limit {show_rate(entry.limit)}"
    reason = entry.reason or "unknown"
    return f"lost {entry.resource} ({reason}); it was at {_rate(entry.rate)}{limit}"


def _called(entry: RunnerEntry) -> str:
    return f"called from {entry.resource} ({entry.reason}), to be gone within {_left(entry)}"


def _promised(entry: RunnerEntry) -> str:
    limit = "" if entry.limit is None else f", up to {show_rate(entry.limit)}"
    return f"promised {entry.resource} with the order {entry.order}{limit}, within {_left(entry)}"


def _left(entry: RunnerEntry) -> str:
    """Whoever reads it should not have to subtract."""
    return f"{((entry.until or entry.at) - entry.at) / US_PER_S:.3g} s"


def _place(entry: RunnerEntry) -> str:
    if entry.count is not None and entry.count > 1:
        many = f"order {entry.count} together under {entry.scope} ({entry.order})"
        return f"{many}, each up to {_rate(entry.limit)}"
    return (
        f"order one under {entry.scope} ({entry.order}) for {_rate(entry.price)}, "
        f"up to {_rate(entry.limit)}"
    )


def _amend(entry: RunnerEntry) -> str:
    if entry.price is None:
        if entry.limit is not None:
            return f"amend the order {entry.order} to up to {_rate(entry.limit)} each"
        return f"renew the order {entry.order}"
    return f"amend the order {entry.order} to {_rate(entry.price)}, up to {_rate(entry.limit)}"


def _floor(entry: RunnerEntry) -> str:
    if entry.floor == 0:
        return f"take the floor of {entry.scope} away"
    return f"set the floor of {entry.scope} to {_rate(entry.floor)}"


def _ends(entry: RunnerEntry) -> str:
    charged = "" if entry.charge is None else f"; it owes {show_charge(entry.charge)} so far"
    return f"{entry.name} ends{charged}"


_WORDS: dict[What, Callable[[RunnerEntry], str]] = {
    "begins": lambda entry: f"{entry.name} begins",
    "won": _won,
    "lost": _lost,
    "called": _called,
    "uncalled": lambda entry: f"no longer called from {entry.resource}",
    "promised": _promised,
    "place": _place,
    "amend": _amend,
    "cancel": lambda entry: f"cancel the order {entry.order}",
    "limit": lambda entry: f"keep {entry.resource} up to {_rate(entry.limit)}",
    "release": lambda entry: f"release {entry.resource}",
    "vacate": lambda entry: f"get ready to lose {entry.resource}",
    "stay": lambda entry: f"go on with {entry.resource}",
    "floor": _floor,
    "guard": lambda entry: f"set the guards of {entry.scope}",
    "withdraw": lambda entry: f"withdraw {entry.resource}",
    "offer": lambda entry: f"offer {entry.resource}",
    "other": lambda entry: f"change {entry.scope or entry.resource}",
    "refused": lambda entry: f"refused ({entry.code})",
    "warning": lambda entry: "warning",
    "trouble": lambda entry: "the exchange is out of reach",
    "mended": lambda entry: "the exchange is back",
    "ends": _ends,
}
