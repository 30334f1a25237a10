"""Tenants' holdings: retention limits, relinquishing, and the ends of holds, commitments, calls."""

from __future__ import annotations

from laissez.market.calls import give_back, uncall
from laissez.market.checks import (
    CommandRefused,
    check_holder,
    check_limit,
    check_tenant,
    known_leaf,
)
from laissez.market.claims import give, keep_promise, lose
from laissez.market.gangs import note_ask
from laissez.market.nodes import Leaf
from laissez.market.path import floor_at, uncapped_rate
from laissez.market.state import State
from laissez.market.steps import NEVER
from laissez.market.summaries import weakest_changed
from laissez.model.commands import Relinquish, SetLimit
from laissez.model.events import Event, LimitSet, Reason
from laissez.model.refusals import Code


def set_limit(state: State, command: SetLimit, events: list[Event]) -> None:
    tenant, limit = command.tenant, command.limit
    check_tenant(state, tenant)
    leaf = known_leaf(state, command.resource)
    check_limit(limit, 0)
    check_holder(leaf, tenant)
    if leaf.call is not None:
        raise CommandRefused(
            Code.ALREADY_CALLED,
            f"{leaf.path!r} is called, and its limit stays as it is until then; "
            "save your work and release it",
        )
    bound = leaf.commitment
    if bound is not None:
        bound.asked = limit if limit < bound.price else None
        limit = max(limit, bound.price)
    before, leaf.limit = leaf.limit, limit
    events.append(LimitSet(state.now, tenant, leaf.path, limit))
    must_leave = uncapped_rate(leaf) > limit
    if leaf.hold is not None and not leaf.hold.over:
        leaf.hold.limit_was_put_off = must_leave
        return
    if state.levels:
        note_ask(state, leaf, before, before + 1)
    if must_leave:
        give(state, leaf, "limit", events)
    else:
        weakest_changed(leaf)


def _let_asked_limit_act(state: State, leaf: Leaf, asked: int, events: list[Event]) -> None:
    """What the holder asked for while it was bound comes as if it asked now."""
    assert leaf.owner is not None
    set_limit(state, SetLimit(state.now, leaf.owner, leaf.path, asked), events)


def relinquish(state: State, command: Relinquish, events: list[Event]) -> None:
    tenant = command.tenant
    check_tenant(state, tenant)
    leaf = known_leaf(state, command.resource)
    promised = None if leaf.call is None else leaf.call.order
    if promised is not None and promised.tenant == tenant:
        give_back(state, leaf, events)
        if uncapped_rate(leaf) <= leaf.limit:
            _keep(state, leaf, events)
        return
    check_holder(leaf, tenant)
    if promised is not None:
        keep_promise(state, leaf, "relinquished", events)
    else:
        give(state, leaf, "relinquished", events)


def end_hold(state: State, leaf: Leaf, events: list[Event]) -> None:
    """From now on the holding can be lost; what was put off acts."""
    hold = leaf.hold
    assert hold is not None
    hold.over = True
    if uncapped_rate(leaf) <= leaf.limit:
        weakest_changed(leaf)
        if state.levels:
            note_ask(state, leaf, None, NEVER)
    elif hold.limit_was_put_off:
        give(state, leaf, "limit", events)
    else:
        lose(state, leaf, _why_lost(leaf), events)


def end_commitment(state: State, leaf: Leaf, events: list[Event]) -> None:
    """The holder is bound no longer; a lower limit that it has asked for acts, or after a call."""
    bound = leaf.commitment
    assert bound is not None
    leaf.commitment = None
    if leaf.call is not None:
        leaf.call.asked = bound.asked
    elif bound.asked is not None:
        _let_asked_limit_act(state, leaf, bound.asked, events)


def end_call(state: State, leaf: Leaf, events: list[Event]) -> None:
    """The notice is over: the leaf goes, unless nothing is against its holder any more."""
    ending = leaf.call
    assert ending is not None
    ending.over = True
    if ending.order is not None:
        keep_promise(state, leaf, ending.reason, events)
    elif uncapped_rate(leaf) > leaf.limit:
        give(state, leaf, ending.reason, events)
    else:
        _keep(state, leaf, events)


def _keep(state: State, leaf: Leaf, events: list[Event]) -> None:
    """A call is over, and the holder keeps the leaf, with the limit that it asked for meanwhile."""
    asked = uncall(state, leaf, events)
    if asked is not None:
        _let_asked_limit_act(state, leaf, asked, events)


def _why_lost(leaf: Leaf) -> Reason:
    return "floor" if floor_at(leaf) > leaf.limit else "outbid"
