"""Who gets a leaf, and when.

A leaf that comes free goes to the best of the orders that cover it and of the gangs that fit
somewhere now if it counts as idle (`give`). A holding that is lost to an order, a gang or a floor
(`lose`) comes free at once, or where its tree gives notice, is called first (see `calls`); what its
holder does itself, and what goes to an order or gang of its own, knows no notice.

A gang takes all of its leaves at one instant, or has them promised. The best gang of all that fit
is filled as soon as a command has done the rest of its work, then the best of those that are left
(`fill_gangs`).
"""

from __future__ import annotations

from laissez.market.book import Order
from laissez.market.calls import call, drop_promise
from laissez.market.gangs import FittingGang, InVain, best_candidate, choose, collect, rank
from laissez.market.handover import hand_over, remove_order
from laissez.market.nodes import Leaf
from laissez.market.path import books_and_winner, floor_at, uncapped_rate
from laissez.market.state import State
from laissez.model.events import Event, Reason


def give(state: State, leaf: Leaf, reason: Reason, events: list[Event]) -> None:
    """Let a leaf go at once to whoever comes first, or else back to the operator."""
    while True:
        books, order = books_and_winner(leaf)
        candidate = best_candidate(state, leaf, order) if state.levels else None
        if candidate is None:
            hand_over(state, leaf, order, reason, events, books)
            return
        fill(state, candidate, events, freed=leaf, reason=reason)
        if leaf in candidate.leaves:
            return


def lose(state: State, leaf: Leaf, reason: Reason, events: list[Event]) -> None:
    """Let a holding be lost to an order, a gang or a floor; with notice where its tree gives it."""
    if not leaf.parent.tree.guard.notice:
        give(state, leaf, reason, events)
    elif reason == "floor":
        _lose_to_floor(state, leaf, events)
    else:
        while displace(state, leaf, None, events) is None:
            pass


def _lose_to_floor(state: State, leaf: Leaf, events: list[Event]) -> None:
    """A call by a floor promises nothing; only who follows with an order of its own stays."""
    while True:
        books, order = books_and_winner(leaf)
        candidate = best_candidate(state, leaf, order) if state.levels else None
        if candidate is None or leaf in candidate.leaves:
            break
        fill(state, candidate, events)  # it fits elsewhere, and the leaf is offered again
    if candidate is not None and candidate.gang.tenant == leaf.owner:
        fill(state, candidate, events, freed=leaf, reason="floor")
    elif candidate is None and order is not None and order.tenant == leaf.owner:
        hand_over(state, leaf, order, "floor", events, books)
    else:
        call(state, leaf, "floor", None, events)


def displace(state: State, leaf: Leaf, newcomer: Order | None, events: list[Event]) -> Order | None:
    """Let a holder lose a leaf to whoever comes first, perhaps an order that is posted nowhere yet;
    None if that is a gang that fits without it, and the leaf is where it was."""
    books, best = books_and_winner(leaf)
    if newcomer is not None and (best is None or _beats(newcomer, best)):
        best = newcomer
    if state.levels:
        candidate = best_candidate(state, leaf, best)
        if candidate is not None:
            fill(state, candidate, events, freed=leaf, reason="outbid", is_called=True)
            return candidate.gang if leaf in candidate.leaves else None
    assert best is not None
    if leaf.parent.tree.guard.notice and leaf.owner != best.tenant:
        call(state, leaf, "outbid", best, events)
    else:
        hand_over(state, leaf, best, "outbid", events, books)
    return best


def _beats(order: Order, incumbent: Order) -> bool:
    """Does a new order win over the best of those that were there before it?"""
    if order.limit != incumbent.limit:
        return order.limit > incumbent.limit
    return order.scope.count("/") > incumbent.scope.count("/")


def fill(
    state: State,
    candidate: FittingGang,
    events: list[Event],
    *,
    freed: Leaf | None = None,
    reason: Reason = "idle",
    is_called: bool = False,
) -> None:
    """Give a gang its leaves, all at this instant.

    `freed` is a leaf that comes free and may be among them, for this reason; `is_called`: its
    holder has a right to notice.
    """
    gang = candidate.gang
    if gang.id in state.orders:
        remove_order(state, gang)
    for leaf in candidate.leaves:
        if leaf is freed and not is_called:
            hand_over(state, leaf, gang, reason, events)
        elif leaf.owner is None:
            hand_over(state, leaf, gang, "idle", events)
        elif leaf.parent.tree.guard.notice and leaf.owner != gang.tenant:
            call(state, leaf, "outbid", gang, events)
        else:
            hand_over(state, leaf, gang, "outbid", events)
    state.forget_if_unused(state.account(gang.tenant))


def fill_gangs(state: State, events: list[Event]) -> None:
    """Fill the best gang that fits, then the best of those that are left, until none does."""
    notes = state.notes
    while True:
        collect(state)
        if not notes.searches:
            return
        searches, notes.searches = notes.searches, {}
        in_vain = InVain()
        for gang in sorted(searches, key=rank):
            among = searches.pop(gang)
            # At the instant of its end a gang is dead before all else, also before that is said.
            is_over = not gang.live or gang.expires == state.now
            leaves = None if is_over else choose(state, gang, among=among, in_vain=in_vain)
            if leaves is not None:
                fill(state, FittingGang(gang, leaves), events)
                break
        for gang, domains in searches.items():
            notes.search(gang, domains)


# What was promised ----------------------------------------------------------------------------


def keep_promise(state: State, leaf: Leaf, reason: Reason, events: list[Event]) -> None:
    """Give a called leaf to the one to whom it is promised, and on, if its rate has gone beyond."""
    order = drop_promise(state, leaf)
    hand_over(state, leaf, order, reason, events)
    if not leaf.is_protected and uncapped_rate(leaf) > leaf.limit:
        give(state, leaf, "floor" if floor_at(leaf) > leaf.limit else "outbid", events)
