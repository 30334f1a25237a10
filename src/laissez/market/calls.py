"""Notice: a holding that is to be lost is called, and goes on until its time is over.

A called holding is protected: nothing else takes it, no gang finds it open, no quote counts it, and
its limit stays. It is charged that limit, the most that its holder said it would pay, so the meters
do not matter meanwhile: what they have counted is noted at the beginning (`RunningCall.reading`)
and, if the call ends and the holder stays, at the end (`Leaf.past_calls`).

What called it, an order or a gang, is gone from where it waited: the leaf is promised to it. Its
tenant may give the promise back, at the price of having won and left at once.
"""

from __future__ import annotations

from laissez.market.book import Order
from laissez.market.charges import metered
from laissez.market.gangs import note_ask
from laissez.market.handover import remove_order
from laissez.market.nodes import Leaf, RunningCall
from laissez.market.state import State
from laissez.market.steps import NEVER
from laissez.market.summaries import pressure_changed, weakest_changed
from laissez.market.timers import CALL_END
from laissez.model.events import Called, Event, Promised, Reason, Settled, Uncalled
from laissez.model.values import Segments


def call(
    state: State, leaf: Leaf, reason: Reason, order: Order | None, events: list[Event]
) -> None:
    """Begin the notice of a holding, and promise the leaf to an order or gang, if one takes it."""
    owner, notice = leaf.owner, leaf.parent.tree.guard.notice
    assert owner is not None and notice is not None
    if order is not None and order.id in state.orders:
        remove_order(state, order)
    until = state.now + notice
    leaf.call = RunningCall(state.now, until, reason, state.next_sequence(), order)
    leaf.call.reading = metered(leaf, state.now)
    state.agenda.add(until, CALL_END, leaf.call.sequence, leaf)
    limit = leaf.limit if leaf.weakest is leaf else None
    _protection_changed(leaf)
    if state.levels:
        note_ask(state, leaf, limit, 0)
    events.append(Called(state.now, owner, leaf.path, until, reason))
    if order is not None:
        account = state.account(order.tenant)
        order.tenant = account.name
        account.promises[leaf.path] = leaf
        state.promised[order.id] = state.promised.get(order.id, 0) + 1
        events.append(Promised(state.now, order.tenant, order.id, leaf.path, until))


def uncall(state: State, leaf: Leaf, events: list[Event]) -> int | None:
    """End a call whose holder keeps the leaf; the limit that it has asked for meanwhile, if any."""
    ended, now = leaf.call, state.now
    assert ended is not None and leaf.owner is not None
    counted = metered(leaf, now) - ended.reading
    if ended.since < now:
        leaf.past_calls = (*leaf.past_calls, (ended.since, now, leaf.limit, counted))
        state.calls_kept += 1
    leaf.call = None
    if not ended.over:
        state.agenda.note_dead()
    _protection_changed(leaf)
    if state.levels:
        note_ask(state, leaf, None, NEVER)
    events.append(Uncalled(now, leaf.owner, leaf.path))
    return ended.asked


def _protection_changed(leaf: Leaf) -> None:
    weakest_changed(leaf)
    pressure_changed(leaf)


def drop_promise(state: State, leaf: Leaf) -> Order:
    """A promise is over, kept or not."""
    assert leaf.call is not None and leaf.call.order is not None
    order, leaf.call.order = leaf.call.order, None
    account = state.accounts[order.tenant]
    del account.promises[leaf.path]
    state.promised[order.id] -= 1
    if not state.promised[order.id]:
        del state.promised[order.id]
    state.forget_if_unused(account)
    return order


def give_back(state: State, leaf: Leaf, events: list[Event]) -> None:
    """Whoever is promised a leaf does not want it any more, and pays as if it had won and left."""
    order = drop_promise(state, leaf)
    commit, now = leaf.parent.tree.guard.commit, state.now
    if commit:
        owed = order.price * commit
        state.account(order.tenant).settled += owed
        state.revenue_settled += owed
        segments = Segments(((now, now + commit, order.price, "commit"),))
        events.append(Settled(now, order.tenant, leaf.path, now, owed, segments))
