"""Where gangs wait: an index that says which domains may have enough leaves within a limit.

The *ask* of a leaf is the least limit with which a gang finds it open: its floor if it is idle, one
more than the retention limit if somebody holds it, `NEVER` while it is protected. Whose leaves they
are is left out, and what else its holder has ordered, so that an ask is the same for all: what is
found here may fit, what is not found does not fit.

A `GangLevel` is one length of path in one tree: its domains are the scopes with so many names. For
each number of leaves that gangs ask for there, a `Rung` keeps of every domain the ask of the k-th
cheapest leaf and the least that k leaves would take from their holders, and of every branch above
the least of these below it. A search enters only what may hold something better than it has found.

A change costs a note: the domain is stale. It is read again at the next search, and a change of one
domain travels up only as far as it makes a difference. Floors over a domain are not part of it: a
search meets them on its way down, so setting one costs nothing here.

Small domains are read leaf by leaf. Of a wide one (`limits`) the retention limits are kept in
order, from the first gang that looks at it, and every change of a leaf is a change there: then it
can be told at once how many of its leaves somebody could have, whatever waits there.

Numbers of leaves above eight share rungs (four a doubling), so that a tree has a few dozen at most,
whatever is asked for: a rung for fewer leaves is a bound for more.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from operator import attrgetter
from typing import NamedTuple, Protocol

from sortedcontainers import SortedList  # type: ignore[import-untyped]

from laissez.market.book import Gang
from laissez.market.nodes import Branch, Leaf, Scope, SiblingGroup, leaves_under
from laissez.market.steps import NEVER

SMALL = 64
"""Up to so many leaves a domain is read leaf by leaf."""

_limit = attrgetter("limit")

Least = tuple[int, int, int]
"""(ask, sum, idle): the ask of the k-th cheapest leaf, the sum of the limits of the holders that
would be displaced, the number of idle leaves; the last two of the same domain."""

NOTHING: Least = (NEVER, NEVER, NEVER)


class Notes:
    """What the present command has done so far that could make a gang fit.

    `freer` are leaves that some gang may find open that did not before, each with the ask that it
    had. `searches` are gangs to be looked at, each with the domains in which it may fit now: before
    the command it fitted nowhere. None is all of them.
    """

    __slots__ = ("freer", "searches")

    def __init__(self) -> None:
        self.freer: dict[Leaf, int] = {}
        self.searches: dict[Gang, dict[Scope, None] | None] = {}

    def search(self, gang: Gang, domains: dict[Scope, None] | None) -> None:
        """Look at a gang, in these domains too."""
        known = self.searches.get(gang, domains)
        if known is None or domains is None:
            self.searches[gang] = None
        else:
            self.searches[gang] = known | domains


def rung_of(count: int) -> int:
    """The rung on which gangs of `count` leaves wait: the nearest one for as many or fewer."""
    shift = max(0, count.bit_length() - 3)
    return count >> shift << shift


class WantedLeaves(Protocol):
    """The leaves of one domain that somebody could have."""

    def least(self, count: int) -> Least: ...


class SmallWanted(NamedTuple):
    asks: list[int]
    limits: list[int]
    idle: int

    def least(self, count: int) -> Least:
        if len(self.asks) < count:
            return NOTHING
        lost = count - self.idle
        return self.asks[count - 1], sum(self.limits[:lost]) if lost > 0 else 0, self.idle


class WideWanted(NamedTuple):
    """Idle leaves count as if they had no floor, and of many limits only the first are added up:
    both are bounds."""

    limits: SortedList
    idle: int

    def least(self, count: int) -> Least:
        lost = count - self.idle
        if lost <= 0:
            return 0, 0, self.idle
        if len(self.limits) < lost:
            return NOTHING
        return self.limits[lost - 1] + 1, sum(self.limits[: min(lost, SMALL)]), self.idle


class GangLevel:
    """The domains of one tree whose paths have `within` names, and the gangs that wait there.

    `sizes` has the number of leaves of each domain, and of each branch above the most that one
    domain below it has; `gangs` is how many wait. `limits` has, of each wide domain that was looked
    at, the retention limits of all leaves that could be lost, the lowest first.
    """

    __slots__ = ("gangs", "limits", "root", "rungs", "sizes", "within")

    def __init__(self, root: Scope, within: int) -> None:
        self.root = root
        self.within = within
        self.gangs = 0
        self.rungs: dict[int, Rung] = {}
        self.limits: dict[Scope, SortedList] = {}
        self.sizes: dict[Branch, int] = {}
        self._measure(root, 1)

    def _measure(self, branch: Branch, names: int) -> int:
        if names == self.within and not isinstance(branch, SiblingGroup):
            size = leaf_count(branch)
        else:
            size = max(
                (
                    self._measure(member, names + (not isinstance(member, SiblingGroup)))
                    for member in branch.members
                    if isinstance(member, Branch)
                ),
                default=0,
            )
        self.sizes[branch] = size
        return size

    def domain_of(self, leaf: Leaf) -> Scope | None:
        """The domain that a leaf lies in; none if it lies above all of them."""
        up = leaf.path.count("/") - self.within
        if up < 0:
            return None
        scope = leaf.parent
        for _ in range(up):
            assert scope.parent is not None
            scope = scope.parent
        return scope

    def largest_under(self, scope: Scope) -> int:
        """How many leaves the largest domain has that a scope covers or is."""
        return self.sizes.get(scope, 0)

    def is_domain(self, branch: Branch) -> bool:
        return isinstance(branch, Scope) and branch.path.count("/") + 1 == self.within

    def is_small(self, domain: Scope) -> bool:
        """Whether it is cheaper to read a domain leaf by leaf."""
        return self.sizes.get(domain, 0) <= SMALL

    def rung(self, count: int) -> Rung:
        """The rung for gangs of so many leaves; it is made at the first one."""
        place = rung_of(count)
        rung = self.rungs.get(place)
        if rung is None:
            rung = self.rungs[place] = Rung(self, place)
        return rung

    def post(self, gang: Gang) -> None:
        """Let a gang wait here."""
        insort(self.rung(gang.count).waiting, gang, key=_limit)
        self.gangs += 1

    def remove(self, gang: Gang) -> None:
        waiting = self.rung(gang.count).waiting
        place = bisect_left(waiting, gang.limit, key=_limit)
        while waiting[place] is not gang:
            place += 1
        del waiting[place]
        self.gangs -= 1

    def note(self, leaf: Leaf, limit: int | None) -> None:
        """A leaf's ask is not what it was; `limit` is the one with which it could be lost."""
        domain = self.domain_of(leaf) if self.rungs else None
        if domain is None:
            return
        for rung in self.rungs.values():
            rung.stale[domain] = None
        if self.limits and domain in self.limits:
            limits = self.limits[domain]
            if limit is not None:
                limits.remove(limit)
            if leaf.weakest is leaf:
                limits.add(leaf.limit)

    def limits_of(self, domain: Scope) -> SortedList:
        """The retention limits of a wide domain, in order."""
        limits = self.limits.get(domain)
        if limits is None:
            held = (leaf.limit for leaf in leaves_under(domain) if leaf.weakest is leaf)
            limits = self.limits[domain] = SortedList(held)
        return limits

    def wanted(self, domain: Scope, freed: Leaf | None = None) -> WantedLeaves:
        """The leaves of a domain that somebody could have; `freed` is one that counts as idle."""
        if self.is_small(domain):
            return read_small(domain, freed)
        came_free = freed is not None and freed.owner is not None
        return WideWanted(self.limits_of(domain), domain.idle + came_free)

    def leaves_changed(self, parent: Scope) -> None:
        """Leaves came to a scope or went from it: measure the domain that it lies in again."""
        branch: Branch | None = parent
        names = parent.path.count("/") + 1
        while branch is not None:
            if isinstance(branch, Scope):
                if names <= self.within:
                    break
                names -= 1
            branch = branch.up
        if branch is None:
            return
        if names == self.within:
            for rung in self.rungs.values():
                rung.stale[branch] = None
            self.sizes[branch] = leaf_count(branch)
            branch = branch.up
        while branch is not None:
            size = max((self._size(member) for member in branch.members), default=0)
            if self.sizes.get(branch) == size:
                break
            self.sizes[branch] = size
            branch = branch.up

    def _size(self, member: Leaf | Branch) -> int:
        """Of a member; one that has just come, as a group does, has not been measured."""
        if isinstance(member, Leaf):
            return 0
        size = self.sizes.get(member)
        if size is None:
            size = max((self._size(below) for below in member.members), default=0)
            self.sizes[member] = size
        return size

    def forget(self, groups: list[SiblingGroup]) -> None:
        for group in groups:
            self.sizes.pop(group, None)
            for rung in self.rungs.values():
                rung.lowest.pop(group, None)


class Rung:
    """What is known of each domain of a level for one number of leaves; see above.

    `waiting` are the gangs here, the one with the lowest limit first.
    """

    __slots__ = ("count", "level", "lowest", "stale", "waiting")

    def __init__(self, level: GangLevel, count: int) -> None:
        self.level = level
        self.count = count
        self.waiting: list[Gang] = []
        self.lowest: dict[Branch, Least] = {}
        self.stale: dict[Scope, None] = {}

    def refresh(self) -> None:
        """Read again what has changed."""
        if not self.lowest:
            self.stale = {}
            self._build(self.level.root)
        elif self.stale:
            stale, self.stale = self.stale, {}
            for domain in stale:
                self._renew(domain)

    def least(self, branch: Branch) -> Least:
        """What is known of a branch, after `refresh`."""
        least = self.lowest.get(branch)
        if least is None:
            least = self.lowest[branch] = self._of_members(branch)
        return least

    def read_stale(self, domain: Scope) -> int:
        """The ask of the k-th cheapest leaf of one domain, brought up to date."""
        if not self.lowest:
            self.refresh()
        elif domain in self.stale:
            del self.stale[domain]
            self._renew(domain)
        return self.least(domain)[0]

    def _build(self, branch: Branch) -> Least:
        if self.level.is_domain(branch):
            assert isinstance(branch, Scope)
            least = self._read(branch)
        else:
            for member in branch.members:
                if isinstance(member, Branch):
                    self._build(member)
            least = self._of_members(branch)
        self.lowest[branch] = least
        return least

    def _renew(self, domain: Scope) -> None:
        least = self._read(domain)
        branch: Branch | None = domain
        while branch is not None and self.lowest.get(branch) != least:
            self.lowest[branch] = least
            branch = branch.up
            if branch is not None:
                least = self._of_members(branch)

    def _of_members(self, branch: Branch) -> Least:
        lowest = self.lowest
        ask, taken, idle = NOTHING
        for member in branch.members:
            least = lowest.get(member)  # type: ignore[arg-type]
            if least is None:
                if isinstance(member, Leaf):
                    continue
                least = lowest[member] = (
                    NOTHING if self.level.is_domain(member) else self._of_members(member)
                )
            if least[0] < ask:
                ask = least[0]
            if least[1] < taken or (least[1] == taken and least[2] < idle):
                taken, idle = least[1], least[2]
        return ask, taken, idle

    def _read(self, domain: Scope) -> Least:
        if self.level.sizes.get(domain, 0) < self.count:
            return NOTHING
        return self.level.wanted(domain).least(self.count)


def leaf_count(branch: Branch) -> int:
    return branch.idle + sum(branch.holders.values())


def floor_below(leaf: Leaf, domain: Scope) -> int:
    """The highest floor set from a leaf up to its domain."""
    floor = 0 if leaf.book is None else leaf.book.floor
    scope: Scope | None = leaf.parent
    while scope is not None:
        if scope.book is not None and scope.book.floor > floor:
            floor = scope.book.floor
        if scope is domain:
            break
        scope = scope.parent
    return floor


def read_small(domain: Scope, freed: Leaf | None = None) -> SmallWanted:
    """All leaves of a small domain that somebody could have."""
    asks, limits, idle = [], [], 0
    for leaf in leaves_under(domain):
        if leaf.owner is None or leaf is freed:
            idle += 1
            asks.append(floor_below(leaf, domain))
        elif leaf.weakest is leaf:
            limits.append(leaf.limit)
            asks.append(leaf.limit + 1)
    asks.sort()
    limits.sort()
    return SmallWanted(asks, limits, idle)
