"""What every inner node knows about the leaves below it, so that nobody has to look at them.

A summary is computed from the summaries of at most `WIDTH` members, and a change travels up only
as far as it changes something: for a random leaf that is a level or two. Kept at each node:

* the weakest holder that is not a given tenant's own: `weakest`, the leaf with the lowest
  retention limit, and `other`, the lowest among leaves of any other owner. For tenant T it is
  `other` if T owns `weakest`, otherwise `weakest`. Leaves under a hold or a call do not count.
  Members are read from the left and only a lower limit replaces, so ties fall in tree order.
* the cheapest idle leaf, with floors at any level: `idle_floor` = max(own floor, lowest
  `idle_floor` of the members). A floor is thus applied where it was set, once, and not written
  to leaves. `idle` counts idle leaves; `fewest_idle` is the fewest that any one child
  with an idle leaf has (of a group: of the children in it), to keep whole domains whole.
* the furthest that any order resting on a scope with an idle leaf would follow:
  `furthest_limit`. Where it is below `idle_floor` no idle leaf can have a winner.
* the lowest charged rates, for quotes: `lowest_rates` = (rate, owner, exact, rate, owner, exact),
  the lowest rate caused by the books from here down, by whom it is paid, and the lowest paid by any
  other owner. Own orders do not press on their tenant, so a book presses with `second` on the
  leaves of `by` and with `first` on all others. If `by` holds something below but is neither of
  the two owners we know, its leaves pay at least the second rate: that is a bound, marked not
  exact, and a quote that hits it looks further down. `inner` is the same without the own book.
* the start of the oldest holding, `oldest`: what books need not remember.
* how many leaves each tenant holds, `holders`.
"""

from __future__ import annotations

from laissez.market.nodes import (
    NO_LIMIT,
    NO_RATES,
    Branch,
    Leaf,
    LowestRates,
    Scope,
)
from laissez.market.steps import NEVER


def renew(branch: Branch) -> None:
    """Work out the whole summary of one branch from its members."""
    _renew_idle(branch)
    _renew_weakest(branch)
    branch.oldest = min((member.oldest for member in branch.members), default=NEVER)
    branch.holders = {}
    for member in branch.members:
        if isinstance(member, Branch):
            for owner, count in member.holders.items():
                branch.holders[owner] = branch.holders.get(owner, 0) + count
        elif member.owner is not None:
            branch.holders[member.owner] = branch.holders.get(member.owner, 0) + 1
    branch.inner = _lowest_two(branch)
    branch.lowest_rates = _under_own_book(branch)


def renew_upwards(branch: Branch | None) -> None:
    """Work out everything anew from here to the root, after members came or went."""
    while branch is not None:
        renew(branch)
        branch = branch.up


def renew_all(node: Leaf | Branch) -> None:
    """Work out the summaries of a node and of everything below it."""
    if isinstance(node, Leaf):
        _read_idle_leaf(node)
        held = node.owner is not None
        node.weakest = node if held and not node.is_protected else None
        node.oldest = node.since if held else NEVER
        node.lowest_rates = _rates_of_leaf(node)
    else:
        for member in node.members:
            renew_all(member)
        renew(node)


# Idle leaves ----------------------------------------------------------------------------------


def idle_changed(node: Leaf | Branch) -> None:
    """A leaf became idle or was taken, or the floor or the furthest limit at a node changed."""
    if isinstance(node, Leaf):
        _read_idle_leaf(node)
    elif not _renew_idle(node):
        return
    branch = node.up
    while branch is not None and _renew_idle(branch):
        branch = branch.up


def _read_idle_leaf(leaf: Leaf) -> None:
    if leaf.owner is not None:
        leaf.idle, leaf.fewest_idle = 0, NEVER
        leaf.idle_floor, leaf.furthest_limit = NEVER, NO_LIMIT
        return
    leaf.idle = leaf.fewest_idle = 1
    leaf.idle_floor, leaf.furthest_limit = 0, NO_LIMIT
    if leaf.book is not None:
        leaf.idle_floor = leaf.book.floor
        if leaf.book.best is not None:
            leaf.furthest_limit = leaf.book.best.limit


def _renew_idle(branch: Branch) -> bool:
    idle, fewest_idle, floor, furthest_limit = 0, NEVER, NEVER, NO_LIMIT
    for member in branch.members:
        if member.idle:
            idle += member.idle
            if member.fewest_idle < fewest_idle:
                fewest_idle = member.fewest_idle
            if member.idle_floor < floor:
                floor = member.idle_floor
            if member.furthest_limit > furthest_limit:
                furthest_limit = member.furthest_limit
    if idle and type(branch) is Scope:
        # To those above, a scope is one child; a group only stands for its children.
        fewest_idle = idle
        book = branch.book
        if book is not None:
            if book.floor > floor:
                floor = book.floor
            if book.best is not None and book.best.limit > furthest_limit:
                furthest_limit = book.best.limit
    if (
        idle == branch.idle
        and floor == branch.idle_floor
        and furthest_limit == branch.furthest_limit
        and fewest_idle == branch.fewest_idle
    ):
        return False
    branch.idle, branch.fewest_idle = idle, fewest_idle
    branch.idle_floor, branch.furthest_limit = floor, furthest_limit
    return True


# The weakest holder ---------------------------------------------------------------------------


def weakest_changed(leaf: Leaf) -> None:
    """A leaf's limit, hold or call is not what it was."""
    leaf.weakest = leaf if leaf.owner is not None and not leaf.is_protected else None
    branch = leaf.up
    while branch is not None and _weakest_changed_at(branch, leaf):
        branch = branch.up


def _weakest_changed_at(branch: Branch, leaf: Leaf) -> bool:
    """Renew one branch; False if its own weakest are what they were."""
    weakest, other = branch.weakest, branch.other
    if weakest is leaf or other is leaf:
        _renew_weakest(branch)
        return True
    if leaf.weakest is None:
        return False
    limit = leaf.limit
    if weakest is None:
        branch.weakest = leaf
    elif limit < weakest.limit:
        branch.weakest = leaf
        if leaf.owner != weakest.owner:
            branch.other = weakest
    elif limit == weakest.limit or (other is not None and limit == other.limit):
        # Which of two equals stands further left, only the members can tell.
        _renew_weakest(branch)
        return branch.weakest is not weakest or branch.other is not other
    elif leaf.owner == weakest.owner or (other is not None and limit > other.limit):
        return False
    else:
        branch.other = leaf
    return True


def _renew_weakest(branch: Branch) -> None:
    # Two of each member are enough: whichever tenant is left out, one of the two is another's, and
    # no other leaf of the member that is not this tenant's has a lower limit.
    weakest: Leaf | None = None
    other: Leaf | None = None
    for member in branch.members:
        leaf = member.weakest
        while leaf is not None:
            if weakest is None:
                weakest = leaf
            elif leaf.owner == weakest.owner:
                if leaf.limit < weakest.limit:
                    weakest = leaf
            elif leaf.limit < weakest.limit:
                weakest, other = leaf, weakest
            elif other is None or leaf.limit < other.limit:
                other = leaf
            leaf = member.other if leaf is member.weakest else None
    branch.weakest, branch.other = weakest, other


# Rates ----------------------------------------------------------------------------------------


def pressure_changed(node: Leaf | Scope) -> None:
    """The floor or the highest prices in a node's own book are not what they were."""
    lowest_rates = _rates_of_leaf(node) if isinstance(node, Leaf) else _under_own_book(node)
    if lowest_rates != node.lowest_rates:
        _rates_changed(node, lowest_rates)


def _rates_changed(node: Leaf | Branch, lowest_rates: LowestRates) -> None:
    """Give a node new `lowest_rates`, and whoever is above it too, as far as it matters."""
    before, node.lowest_rates = node.lowest_rates, lowest_rates
    branch = node.up
    while branch is not None and _matters(before, lowest_rates, branch.inner):
        inner = _lowest_two(branch)
        if inner == branch.inner:
            return
        branch.inner = inner
        lowest_rates = inner if branch.book is None else _under_own_book(branch)
        if lowest_rates == branch.lowest_rates:
            return
        before, branch.lowest_rates = branch.lowest_rates, lowest_rates
        branch = branch.up


def _matters(before: LowestRates, after: LowestRates, inner: LowestRates) -> bool:
    """Can a member's change make a difference? If it was one of the two lowest, or is now."""
    if after[0] < inner[3]:
        return True
    lowest = (inner[1], inner[4])
    return before[1] in lowest or (before[4] is not None and before[4] in lowest)


def _rates_of_leaf(leaf: Leaf) -> LowestRates:
    if leaf.owner is None or leaf.call is not None:
        return NO_RATES
    book = leaf.book
    if book is None:
        return (0, leaf.owner, True, NEVER, None, True)
    price = book.second if book.by == leaf.owner else book.first
    return (max(price, book.floor), leaf.owner, True, NEVER, None, True)


def _lowest_two(branch: Branch) -> LowestRates:
    rate1, owner1, exact1 = NEVER, None, True
    rate2, owner2, exact2 = NEVER, None, True
    for member in branch.members:
        # First the lower of the member's two, then the other, as long as they matter.
        rate, owner, exact, next_rate, next_owner, next_exact = member.lowest_rates
        while rate < rate2:
            if owner == owner1:
                if rate < rate1:
                    rate1, exact1 = rate, exact
            elif rate < rate1:
                rate2, owner2, exact2 = rate1, owner1, exact1
                rate1, owner1, exact1 = rate, owner, exact
            else:
                rate2, owner2, exact2 = rate, owner, exact
            if owner == next_owner:
                break
            rate, owner, exact = next_rate, next_owner, next_exact
        if rate2 == 0:  # no rate is lower
            break
    return (rate1, owner1, exact1, rate2, owner2, exact2)


def _under_own_book(branch: Branch) -> LowestRates:
    """`inner` under the branch's own book."""
    book = branch.book
    if book is None:
        return branch.inner
    rate1, owner1, exact1, rate2, owner2, exact2 = branch.inner
    if owner1 is None:
        return NO_RATES
    by = book.by
    on_others = max(book.floor, book.first)
    on_by = max(book.floor, book.second)
    rate1 = max(rate1, on_by if owner1 == by else on_others)
    if owner2 is None:
        return (rate1, owner1, exact1, NEVER, None, True)
    # Of all other owners we know that they pay at least the second rate. The one whose own order
    # presses most here is pressed by less than the others: what it pays may now be among the two
    # lowest, and this is the least that it can be.
    at_least = rate2
    rate2 = max(rate2, on_by if owner2 == by else on_others)
    if on_by < on_others and by != owner1 and by != owner2 and by in branch.holders:
        rate3 = max(at_least, on_by)
        if rate3 < rate1:
            return (rate3, by, False, rate1, owner1, exact1)
        if rate3 < rate2:
            return (rate1, owner1, exact1, rate3, by, False)
    if rate2 < rate1:
        return (rate2, owner2, exact2, rate1, owner1, exact1)
    return (rate1, owner1, exact1, rate2, owner2, exact2)


# A leaf changes hands -------------------------------------------------------------------------


def owner_changed(leaf: Leaf, old: str | None) -> None:
    """Renew all that depends on who holds a leaf, since when, and with which limit.

    One walk to the root: tenants are counted at every branch, and of the rest each part goes on
    up only as long as it makes a difference.
    """
    new = leaf.owner
    if old is None or new is None:
        idle_changed(leaf)
    # A holding that begins is not called.
    leaf.weakest = leaf if new is not None and leaf.hold is None else None
    oldest_before, leaf.oldest = leaf.oldest, NEVER if new is None else leaf.since
    rates_before, leaf.lowest_rates = leaf.lowest_rates, _rates_of_leaf(leaf)
    lowest_rates = leaf.lowest_rates
    weakest_goes_on = oldest_goes_on = rates_go_on = True
    branch = leaf.up
    while branch is not None:
        holders = branch.holders
        if old is not None:
            if holders[old] == 1:
                del holders[old]
            else:
                holders[old] -= 1
        if new is not None:
            holders[new] = holders.get(new, 0) + 1
        if weakest_goes_on:
            weakest_goes_on = _weakest_changed_at(branch, leaf)
        if oldest_goes_on:
            oldest_goes_on = _oldest_changed_at(branch, oldest_before, leaf.oldest)
        if rates_go_on and _matters(rates_before, lowest_rates, branch.inner):
            inner = _lowest_two(branch)
            rates_go_on = inner != branch.inner
            branch.inner = inner
        else:
            rates_go_on = False
        book = branch.book
        # What a book makes of the rates below it also depends on whether `by` holds any of them.
        if rates_go_on or (book is not None and (book.by == new or book.by == old)):
            rates_before = branch.lowest_rates
            lowest_rates = branch.lowest_rates = (
                branch.inner if book is None else _under_own_book(branch)
            )
            rates_go_on = lowest_rates != rates_before
        branch = branch.up


def _oldest_changed_at(branch: Branch, before: int, now: int) -> bool:
    """Renew one branch; False if its oldest holding is as old as it was."""
    if branch.oldest > now:
        branch.oldest = now
        return True
    if branch.oldest != before:
        return False
    for member in branch.members:
        if member.oldest == before:
            return False
    branch.oldest = min(member.oldest for member in branch.members)
    return True
