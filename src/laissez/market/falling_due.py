"""Everything that falls due by itself, in one table.

A row says when a timer of its kind is still alive, what acts when it falls due, and which timers of
the kind a state implies, so that an agenda need not be written down. At one instant the rows act
from the top down: an order that expires takes part in nothing else at that instant, then a floor is
where it belongs, and only then can a holding whose hold is over be lost to either, or a limit that
a commitment put off act; last of all a call ends, when all that could end it otherwise has been.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from laissez.market.book import Order
from laissez.market.guards import Descent
from laissez.market.holding import end_call, end_commitment, end_hold
from laissez.market.nodes import Leaf
from laissez.market.operating import step_floor
from laissez.market.ordering import expire
from laissez.market.state import State
from laissez.market.timers import (
    CALL_END,
    COMMIT_END,
    EXPIRY,
    FLOOR_STEP,
    HOLD_END,
    Agenda,
    IsAlive,
)
from laissez.model.events import Event

Planned = Iterator[tuple[int, int, Any]]
"""(instant, sequence, subject)"""


class TimerKind(NamedTuple):
    kind: int
    is_alive: IsAlive
    act: Callable[[State, Any, list[Event]], None]
    planned: Callable[[State], Planned]


# An order that is filled, cancelled or amended is not live, and an amended one is another order.


def _expiry_is_alive(order: Order, sequence: int) -> bool:
    return order.live


def _expiries(state: State) -> Planned:
    for order in state.orders.values():
        if order.expires is not None:
            yield order.expires, order.sequence, order


# A floor that is asked for anew on its way down has a new sequence: its old step is dead.


def _step_is_alive(descent: Descent, sequence: int) -> bool:
    return descent.pending and descent.sequence == sequence


def _floor_steps(state: State) -> Planned:
    # While orders of the present instant have yet to expire, so have its floors to step.
    is_ahead = any(order.expires == state.now for order in state.orders.values())
    since = state.now - is_ahead
    for tree in state.trees.values():
        for descent in tree.descents.values():
            if descent.pending and tree.guard.fall:
                yield tree.next_boundary(since), descent.sequence, descent


def is_step_ahead(state: State) -> bool:
    """Is a step of a falling floor the next thing to act at the present instant?"""
    return state.agenda.next() == state.now and state.agenda.heap[0][1] == FLOOR_STEP


# The leaf may have been lost (relinquished, withdrawn) and won again: then it has another hold.


def _hold_end_is_alive(leaf: Leaf, sequence: int) -> bool:
    hold = leaf.hold
    return hold is not None and not hold.over and hold.sequence == sequence


def _hold_ends(state: State) -> Planned:
    for node in state.nodes.values():
        if isinstance(node, Leaf) and node.hold is not None and not node.hold.over:
            yield node.hold.until, node.hold.sequence, node


def _commit_end_is_alive(leaf: Leaf, sequence: int) -> bool:
    bound = leaf.commitment
    return bound is not None and bound.sequence == sequence


def _commit_ends(state: State) -> Planned:
    for node in state.nodes.values():
        if isinstance(node, Leaf) and node.commitment is not None:
            yield node.commitment.until, node.commitment.sequence, node


def _call_end_is_alive(leaf: Leaf, sequence: int) -> bool:
    return leaf.call is not None and leaf.call.sequence == sequence


def _call_ends(state: State) -> Planned:
    for node in state.nodes.values():
        if isinstance(node, Leaf) and node.call is not None:
            yield node.call.until, node.call.sequence, node


TIMER_KINDS = (
    TimerKind(EXPIRY, _expiry_is_alive, expire, _expiries),
    TimerKind(FLOOR_STEP, _step_is_alive, step_floor, _floor_steps),
    TimerKind(HOLD_END, _hold_end_is_alive, end_hold, _hold_ends),
    TimerKind(COMMIT_END, _commit_end_is_alive, end_commitment, _commit_ends),
    TimerKind(CALL_END, _call_end_is_alive, end_call, _call_ends),
)
assert [row.kind for row in TIMER_KINDS] == list(range(len(TIMER_KINDS)))


def empty_state() -> State:
    """A market in which nothing has happened yet."""
    return State(Agenda(tuple(row.is_alive for row in TIMER_KINDS)))


def plan_all(state: State) -> None:
    """Put everything that is to fall due in a state that was read on its agenda, which is empty."""
    for row in TIMER_KINDS:
        for at, sequence, subject in row.planned(state):
            state.agenda.add(at, row.kind, sequence, subject)
