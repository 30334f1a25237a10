"""Tenants' holdings: retention limits, relinquishing, and the end of a hold."""

from __future__ import annotations

from laissez.market.checks import check_holder, check_limit, check_tenant, held_leaf, known_leaf
from laissez.market.handover import hand_to_winner
from laissez.market.nodes import Leaf
from laissez.market.path import floor_at, uncapped_rate
from laissez.market.state import State
from laissez.market.summaries import weakest_changed
from laissez.model.commands import Relinquish, SetLimit
from laissez.model.events import Event, LimitSet, Reason


def set_limit(state: State, command: SetLimit, events: list[Event]) -> None:
    tenant, limit = command.tenant, command.limit
    check_tenant(state, tenant)
    leaf = known_leaf(state, command.resource)
    check_limit(limit, 0)
    check_holder(leaf, tenant)
    leaf.limit = limit
    events.append(LimitSet(state.now, tenant, leaf.path, limit))
    must_leave = uncapped_rate(leaf) > limit
    if leaf.hold is not None and not leaf.hold.over:
        leaf.hold.limit_was_put_off = must_leave
    elif must_leave:
        hand_to_winner(state, leaf, "limit", events)
    else:
        weakest_changed(leaf)


def relinquish(state: State, command: Relinquish, events: list[Event]) -> None:
    leaf = held_leaf(state, command.tenant, command.resource)
    hand_to_winner(state, leaf, "relinquished", events)


def end_hold(state: State, leaf: Leaf, events: list[Event]) -> None:
    """From now on the holding can be lost; what was put off acts."""
    hold = leaf.hold
    assert hold is not None
    hold.over = True
    if uncapped_rate(leaf) <= leaf.limit:
        weakest_changed(leaf)
        return
    reason: Reason = "outbid"
    if hold.limit_was_put_off:
        reason = "limit"
    elif floor_at(leaf) > leaf.limit:
        reason = "floor"
    hand_to_winner(state, leaf, reason, events)
