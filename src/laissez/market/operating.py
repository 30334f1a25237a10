"""The operator's side: resources, floors, guards, statement periods.

A floor is set where it is set, in one book. Raising it moves the holders under the scope whose
limit it passes, found as the scope's weakest one after the other. Lowering it moves idle leaves
that have a winner now: the search for the lowest floor, leftmost, enters only branches in which
the furthest order (`furthest_limit`) gets to the cheapest idle leaf (`idle_floor`).
"""

from __future__ import annotations

import msgspec

from laissez.market.calls import drop_promise
from laissez.market.checks import (
    CommandRefused,
    check_not_under_leaf,
    check_path,
    is_name,
    is_rate,
    is_text,
    known_leaf,
    shown,
)
from laissez.market.claims import fill, lose
from laissez.market.gangs import (
    best_candidate,
    collect,
    could_fit,
    idle_leaves,
    note_floor,
)
from laissez.market.guards import OFF, Descent, GuardedTree, GuardSettings
from laissez.market.handover import hand_over, settle_holding
from laissez.market.meters import MeterUpdater
from laissez.market.nodes import Branch, Leaf, Scope, leaves_under
from laissez.market.ordering import place_again
from laissez.market.path import books_on_path, winner_of
from laissez.market.state import State
from laissez.market.steps import NEVER
from laissez.market.summaries import idle_changed, pressure_changed
from laissez.market.timers import FLOOR_STEP
from laissez.market.topology import add_leaf, forget_if_blank, know_scope, remove_leaf, tree_named
from laissez.model.commands import AddResource, SetFloor, SetGuard, Settle, Withdraw
from laissez.model.events import (
    Event,
    FloorSet,
    GuardSet,
    Reason,
    ResourceAdded,
    ResourceWithdrawn,
)
from laissez.model.refusals import Code
from laissez.model.values import MAX_TIME

DAY = 86_400_000_000

CheapestIdle = tuple[int, Leaf | None]


# Resources ------------------------------------------------------------------------------------


def add_resource(state: State, command: AddResource, events: list[Event]) -> None:
    path = command.resource
    check_path(path)
    if "/" not in path:
        raise CommandRefused(
            Code.ROOT_IS_NOT_A_RESOURCE,
            f"{path!r} is a root and can't be a resource; add a name below it: '{path}/...'",
        )
    _check_attributes(command.attributes)
    node = state.nodes.get(path)
    if isinstance(node, Leaf):
        raise CommandRefused(
            Code.RESOURCE_EXISTS, f"resource {path!r} is there already; choose another path"
        )
    if node is not None and (node.placed or node.known_children):
        raise CommandRefused(
            Code.PATH_IS_A_SCOPE, f"{path!r} is a scope with paths below it; add a resource there"
        )
    check_not_under_leaf(state, path)
    events.append(ResourceAdded(state.now, path, command.attributes))
    leaf = add_leaf(state, path, command.attributes)
    _offer(state, leaf, events)


def _offer(state: State, leaf: Leaf, events: list[Event]) -> bool:
    """Give an idle leaf to the best of the orders and gangs that could have it; was there one?"""
    before = len(events)
    while leaf.owner is None:
        order = winner_of(leaf)
        candidate = best_candidate(state, leaf, order) if state.levels else None
        if candidate is not None:
            fill(state, candidate, events)
        elif order is not None:
            hand_over(state, leaf, order, "idle", events)
        else:
            break
    return len(events) > before


def _check_attributes(attributes: object) -> None:
    if type(attributes) is tuple:
        for pair in attributes:
            if not (type(pair) is tuple and len(pair) == 2):
                break
            if not (is_text(pair[0]) and is_text(pair[1])):
                break
        else:
            return
    raise CommandRefused(
        Code.BAD_ATTRIBUTES, "attributes are a mapping of text to text; write numbers as text"
    )


def withdraw(state: State, command: Withdraw, events: list[Event]) -> None:
    _take_out(state, known_leaf(state, command.resource), "withdrawn", events)


def take_back(state: State, resource: str, events: list[Event]) -> None:
    """Its holder gives a resource up, which leaves the market: what leaving costs is owed."""
    _take_out(state, known_leaf(state, resource), "relinquished", events)


def _take_out(state: State, leaf: Leaf, reason: Reason, events: list[Event]) -> None:
    promised = None
    if leaf.owner is not None:
        if leaf.call is not None and leaf.call.order is not None:
            promised = drop_promise(state, leaf)
        hand_over(state, leaf, None, reason, events)
    remove_leaf(state, leaf)
    events.append(ResourceWithdrawn(state.now, leaf.path))
    if promised is not None:
        place_again(state, promised, events)


# Floors ---------------------------------------------------------------------------------------


def set_floor(state: State, command: SetFloor, events: list[Event]) -> None:
    path, asked = command.scope, command.floor
    check_path(path)
    if not is_rate(asked, 0):
        raise CommandRefused(
            Code.BAD_FLOOR,
            f"floor {shown(asked)} is not a whole number of micro-dollars per hour, at least 0",
        )
    check_not_under_leaf(state, path)
    node = know_scope(state, path)
    _ask_floor(state, node, asked, events)
    forget_if_blank(state, node)


def _ask_floor(state: State, node: Leaf | Scope, asked: int, events: list[Event]) -> None:
    """Set a floor as far as the `fall` guard allows now, and plan the rest."""
    floor = asked
    tree, before = node.tree, state.book_at(node).floor
    if tree.guard.fall is not None:
        window = tree.window_index(state.now)
        tree.forget_descents_before(window)
        descent = tree.descents.get(node.path)
        if descent is None or descent.window_index != window:
            _drop_plan(state, descent)
            descent = Descent(node.path, window, before, asked, 0, False)
            tree.descents[node.path] = descent
        floor = max(asked, min(before, descent.floor_at_start - tree.guard.fall))
        descent.asked = asked
        _drop_plan(state, descent)
        if floor > asked:
            _plan_step(state, tree, descent)
    _move_floor(state, node, floor, asked, events)


def _plan_step(state: State, tree: GuardedTree, descent: Descent) -> None:
    """A floor has further to go: at the next boundary of the window, if it may fall at all."""
    descent.pending = True
    descent.sequence = state.next_sequence()
    if tree.guard.fall:
        boundary = tree.next_boundary(state.now)
        state.agenda.add(boundary, FLOOR_STEP, descent.sequence, descent)


def _drop_plan(state: State, descent: Descent | None) -> None:
    if descent is not None and descent.pending:
        descent.pending = False
        state.agenda.note_dead()


def step_floor(state: State, descent: Descent, events: list[Event]) -> None:
    """A window begins: let a falling floor go on."""
    node = state.nodes[descent.scope]
    tree, before = node.tree, state.book_at(node).floor
    assert tree.guard.fall is not None
    descent.window_index = tree.window_index(state.now)
    descent.floor_at_start = before
    floor = max(descent.asked, before - tree.guard.fall)
    descent.pending = floor > descent.asked
    if descent.pending:
        boundary = tree.next_boundary(state.now)
        state.agenda.add(boundary, FLOOR_STEP, descent.sequence, descent)
    _move_floor(state, node, floor, descent.asked, events)
    forget_if_blank(state, node)


def _move_floor(
    state: State, node: Leaf | Scope, floor: int, asked: int, events: list[Event]
) -> None:
    """Let a floor stand at a new value, and whoever must or may move because of it, move."""
    book = state.book_at(node)
    before = book.floor
    book.floor = floor
    events.append(FloorSet(state.now, node.path, floor, asked))
    if floor == before:
        return
    book.remember(state.now)
    pressure_changed(node)
    if node.idle:
        idle_changed(node)
    if state.levels:
        note_floor(state, node, fell=floor < before)
    if floor > before:
        while node.weakest is not None and node.weakest.limit < floor:
            lose(state, node.weakest, "floor", events)
    else:
        _offer_idle(state, node, events)


def _offer_idle(state: State, node: Leaf | Scope, events: list[Event]) -> None:
    """A floor fell: offer idle leaves one by one, the lowest floor first.

    As long as a gang could fit, each of them is offered. Otherwise only those that an order wins
    are looked for.
    """
    if state.levels and _could_any_fit(state):
        for leaf in idle_leaves(node):
            if leaf.owner is None and _offer(state, leaf, events) and not _could_any_fit(state):
                break
    while (winnable := _idle_leaf_with_winner(node)) is not None:
        _offer(state, winnable, events)


def _could_any_fit(state: State) -> bool:
    """Could a gang fit, now or when orders that are about to win are filled?"""
    collect(state)
    searches = state.notes.searches
    for gang in [gang for gang in searches if not (gang.live and could_fit(state, gang))]:
        del searches[gang]
    return bool(searches)


def _idle_leaf_with_winner(node: Leaf | Scope) -> Leaf | None:
    """The idle leaf under a node with the lowest floor, then leftmost, of those with a winner."""
    floor, furthest_limit = 0, -1
    above = node.parent
    while above is not None:
        if above.book is not None:
            floor = max(floor, above.book.floor)
            if above.book.best is not None:
                furthest_limit = max(furthest_limit, above.book.best.limit)
        above = above.parent
    return _search_idle(node, floor, furthest_limit, (NEVER, None))[1]


def _search_idle(
    node: Leaf | Branch, floor: int, furthest_limit: int, found: CheapestIdle
) -> CheapestIdle:
    lowest = max(floor, node.idle_floor)
    if lowest >= found[0] or max(furthest_limit, node.furthest_limit) < lowest:
        return found
    if isinstance(node, Leaf):
        return lowest, node
    if node.book is not None:
        floor = max(floor, node.book.floor)
        if node.book.best is not None:
            furthest_limit = max(furthest_limit, node.book.best.limit)
    for member in node.members:
        found = _search_idle(member, floor, furthest_limit, found)
        if found[0] <= lowest:
            break
    return found


# Guards ---------------------------------------------------------------------------------------


def set_guard(state: State, command: SetGuard, events: list[Event]) -> None:
    check_path(command.tree)
    if not is_name(command.tree) or "/" in command.tree:
        raise CommandRefused(
            Code.NOT_A_TREE,
            f"{command.tree!r} is below a root; guards are for a whole tree: "
            f"{command.tree.partition('/')[0]!r}",
        )
    guard = GuardSettings(
        command.rise,
        command.fall,
        command.hold,
        command.window,
        command.notice,
        command.commit,
    )
    _check_guard(guard)
    tree = tree_named(state, command.tree)
    before, tree.guard = tree.guard, guard
    if guard.rise is None or before.rise is None or guard.window != before.window:
        tree.reference_window, tree.references = -1, {}
    events.append(GuardSet(state.now, tree.name, *msgspec.structs.astuple(guard)))
    _guard_falling_floors(state, tree, before, events)
    if command.tree not in state.nodes and guard == OFF:
        del state.trees[command.tree]


def _check_guard(guard: GuardSettings) -> None:
    for value in (guard.rise, guard.fall, guard.hold):
        if value is not None and not (type(value) is int and 0 <= value <= MAX_TIME):
            raise CommandRefused(
                Code.BAD_GUARD, f"{shown(value)} is not a whole number from 0 on, or None"
            )
    for value in (guard.notice, guard.commit):
        if value is not None and not (type(value) is int and 0 <= value <= DAY):
            raise CommandRefused(
                Code.BAD_GUARD,
                f"{shown(value)} is not a whole number of microseconds from 0 to {DAY}, a day, "
                "or None; give a shorter notice or commitment",
            )
    window = guard.window
    if window is not None and not (type(window) is int and 1 <= window <= MAX_TIME):
        raise CommandRefused(
            Code.BAD_GUARD, f"window {shown(window)} is not a whole number from 1 on"
        )
    if window is None and not (guard.rise is None and guard.fall is None):
        raise CommandRefused(Code.BAD_GUARD, "rise and fall are measured per window; give one")


def _guard_falling_floors(
    state: State, tree: GuardedTree, before: GuardSettings, events: list[Event]
) -> None:
    """Floors on their way down go on under the new guard, or at once where they were asked to."""
    if tree.guard.window != before.window:
        tree.begin_windows_anew()
    if tree.guard.fall is None or tree.guard.window != before.window:
        tree.descents = {
            path: descent for path, descent in tree.descents.items() if descent.pending
        }
    falling = [descent for descent in tree.descents.values() if descent.pending]
    for descent in sorted(falling, key=lambda descent: descent.sequence):
        node = state.nodes[descent.scope]
        _drop_plan(state, descent)
        if tree.guard.fall is None:
            del tree.descents[descent.scope]
            _move_floor(state, node, descent.asked, descent.asked, events)
            forget_if_blank(state, node)
            continue
        if tree.guard.window != before.window:
            descent.window_index = tree.window_index(state.now)
            descent.floor_at_start = state.book_at(node).floor
        _plan_step(state, tree, descent)


# Statement periods ----------------------------------------------------------------------------


def settle(state: State, command: Settle, events: list[Event]) -> None:
    """Close every open holding's period and begin the next; all histories begin anew."""
    for root in state.roots:
        for leaf in leaves_under(root):
            if leaf.owner is not None:
                books = books_on_path(leaf)
                events.append(settle_holding(state, leaf, books, MeterUpdater(books, state.now)))
                leaf.since = leaf.oldest = state.now
                leaf.reading = 0
                state.calls_kept -= len(leaf.past_calls)
                leaf.past_calls = ()
                if leaf.call is not None:
                    leaf.call.since, leaf.call.reading = state.now, 0
                if leaf.hold is not None and leaf.hold.over:
                    leaf.hold = None
        _begin_period(root, state.now)
    for node in [node for node in state.nodes.values() if node.book is not None]:
        assert node.book is not None
        node.book.begin_period(state.now)
        forget_if_blank(state, node)


def _begin_period(branch: Branch, now: int) -> None:
    if branch.oldest != NEVER:
        branch.oldest = now
        for member in branch.members:
            if isinstance(member, Branch):
                _begin_period(member, now)
