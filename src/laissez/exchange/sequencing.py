"""From an instruction to the record of it: the sequencer adds the author and the instant.

What is written down is complete: executing it needs nothing that is not in it. An order without
an id gets one from its sequence number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from laissez.exchange.access import Token
from laissez.exchange.records import (
    Cordon,
    EndToken,
    GrantToken,
    GuardNewTree,
    PartialAdvance,
    PlaceNamed,
    Record,
    SetLevels,
    StartWebhook,
    StopWebhook,
    Uncordon,
    Webhook,
)
from laissez.exchange.views import market_order_id
from laissez.model import (
    AddResource,
    Advance,
    Amend,
    AmendOrder,
    Cancel,
    CancelOrder,
    ChangeFloor,
    ChangeGuard,
    ChangeLimit,
    CloseStatements,
    CordonScope,
    Instruction,
    NameLevels,
    OfferResource,
    Place,
    PlaceOrder,
    Release,
    Relinquish,
    SetFloor,
    SetGuard,
    SetLimit,
    Settle,
    UncordonScope,
    Withdraw,
    WithdrawResource,
)


class LetTimePass(msgspec.Struct, frozen=True):
    """The exchange's own instruction, when something falls due and nobody speaks."""


class LetSomeTimePass(msgspec.Struct, frozen=True):
    """The exchange's own, when so much falls due that it acts in parts."""

    most: int


class GuardNew(msgspec.Struct, frozen=True):
    """The exchange's own, before the first resource of what may be a new tree."""

    tree: str
    notice: int | None
    commit: int | None


class KeepToken(msgspec.Struct, frozen=True):
    """The exchange's own, for an operator who has a token made."""

    token: Token


class DropToken(msgspec.Struct, frozen=True):
    token: str


class KeepWebhook(msgspec.Struct, frozen=True):
    webhook: Webhook


class DropWebhook(msgspec.Struct, frozen=True):
    webhook: str


OwnInstruction = (
    LetTimePass
    | LetSomeTimePass
    | CloseStatements
    | GuardNew
    | KeepToken
    | DropToken
    | KeepWebhook
    | DropWebhook
)


def record_of(
    do: Instruction | OwnInstruction, tenant: str | None, at: int, sequence: int
) -> Record:
    return _MAKERS[type(do)](do, tenant or "", at, sequence)


def _place(do: PlaceOrder, tenant: str, at: int, sequence: int) -> Record:
    order = market_order_id(tenant, f"o-{sequence}" if do.order is None else do.order)
    scope, price, limit, expires, count = do.scope, do.price, do.limit, do.expires, do.count
    if do.together or isinstance(do.within, str):
        within, together = do.within, do.together
        return PlaceNamed(at, tenant, order, scope, price, limit, expires, count, within, together)
    return Place(at, tenant, order, scope, price, limit, expires, count, do.within)


def _amend(do: AmendOrder, tenant: str, at: int, sequence: int) -> Record:
    return Amend(at, tenant, market_order_id(tenant, do.order), do.price, do.limit, do.expires)


def _cancel(do: CancelOrder, tenant: str, at: int, sequence: int) -> Record:
    return Cancel(at, tenant, market_order_id(tenant, do.order))


def _limit(do: ChangeLimit, tenant: str, at: int, sequence: int) -> Record:
    return SetLimit(at, tenant, do.resource, do.limit)


def _release(do: Release, tenant: str, at: int, sequence: int) -> Record:
    return Relinquish(at, tenant, do.resource)


def _offer(do: OfferResource, tenant: str, at: int, sequence: int) -> Record:
    return AddResource(at, do.resource, tuple(sorted(do.attributes.items())))


def _withdraw(do: WithdrawResource, tenant: str, at: int, sequence: int) -> Record:
    return Withdraw(at, do.resource)


def _floor(do: ChangeFloor, tenant: str, at: int, sequence: int) -> Record:
    return SetFloor(at, do.scope, do.floor)


def _guard(do: ChangeGuard, tenant: str, at: int, sequence: int) -> Record:
    return SetGuard(at, do.tree, do.rise, do.fall, do.hold, do.window, do.notice, do.commit)


def _levels(do: NameLevels, tenant: str, at: int, sequence: int) -> Record:
    return SetLevels(at, do.tree, do.levels)


def _guard_new(do: GuardNew, tenant: str, at: int, sequence: int) -> Record:
    return GuardNewTree(at, do.tree, do.notice, do.commit)


def _cordon(do: CordonScope, tenant: str, at: int, sequence: int) -> Record:
    return Cordon(at, do.scope, do.deadline)


def _uncordon(do: UncordonScope, tenant: str, at: int, sequence: int) -> Record:
    return Uncordon(at, do.scope)


def _settle(do: CloseStatements, tenant: str, at: int, sequence: int) -> Record:
    return Settle(at)


def _advance(do: LetTimePass, tenant: str, at: int, sequence: int) -> Record:
    return Advance(at)


def _advance_partly(do: LetSomeTimePass, tenant: str, at: int, sequence: int) -> Record:
    return PartialAdvance(at, do.most)


def _keep_token(do: KeepToken, tenant: str, at: int, sequence: int) -> Record:
    return GrantToken(at, do.token)


def _drop_token(do: DropToken, tenant: str, at: int, sequence: int) -> Record:
    return EndToken(at, do.token)


def _keep_webhook(do: KeepWebhook, tenant: str, at: int, sequence: int) -> Record:
    return StartWebhook(at, do.webhook)


def _drop_webhook(do: DropWebhook, tenant: str, at: int, sequence: int) -> Record:
    return StopWebhook(at, do.webhook)


_MAKERS: dict[type, Callable[[Any, str, int, int], Record]] = {
    PlaceOrder: _place,
    AmendOrder: _amend,
    CancelOrder: _cancel,
    ChangeLimit: _limit,
    Release: _release,
    OfferResource: _offer,
    WithdrawResource: _withdraw,
    ChangeFloor: _floor,
    ChangeGuard: _guard,
    NameLevels: _levels,
    GuardNew: _guard_new,
    CordonScope: _cordon,
    UncordonScope: _uncordon,
    CloseStatements: _settle,
    LetTimePass: _advance,
    LetSomeTimePass: _advance_partly,
    KeepToken: _keep_token,
    DropToken: _drop_token,
    KeepWebhook: _keep_webhook,
    DropWebhook: _drop_webhook,
}
