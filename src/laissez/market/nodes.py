"""The forest: leaves, scopes, and how they are hung together.

`path` names a node, `parent` leads up to the root: that is the tree that people see, and the way
along which a leaf's rate, floor and winner are read.

Every inner node also keeps a summary of what lies below it (see `summaries`), and renewing a
summary means looking at all members of a node. So that this costs little however many children a
scope has, children beyond `WIDTH` are put into nameless groups, and groups into groups, in the
order in which they were added: a tree that only ever grows at its right end. `up` leads along
these members; `members` of a scope are its children, or groups that hold them.

A scope without a place in the tree is one that is known only by its floor, or by the orders that
rest on a withdrawn leaf. It gets its place with its first resource and then keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator

from laissez.market.book import Book, Order
from laissez.market.guards import GuardedTree
from laissez.market.steps import NEVER
from laissez.model.events import Reason

WIDTH = 16
NO_LIMIT = -1

LowestRates = tuple[int, str | None, bool, int, str | None, bool]
NO_RATES: LowestRates = (NEVER, None, True, NEVER, None, True)

PastCall = tuple[int, int, int, int]
"""(from, to, limit, what the meters counted meanwhile): a call after which its holder stayed."""


class Hold:
    """A guard's promise: until then nothing is lost to price, and `cap` is the most charged.

    When it is over it is still remembered, because the charge since then depends on it. `spared` is
    what it has saved its holder up to `counted`, and was not settled yet (see `charges`).
    """

    __slots__ = ("cap", "counted", "limit_was_put_off", "over", "sequence", "spared", "until")

    def __init__(self, until: int, cap: int, sequence: int) -> None:
        self.until = until
        self.cap = cap
        self.sequence = sequence
        self.limit_was_put_off = False
        self.over = False
        self.spared = 0
        self.counted = 0


class RunningCall:
    """A holding that will be lost at `until`: protected, and charged its retention limit.

    `order` is the order or gang to which the leaf is promised, if it is. `since` and `reading` are
    where the charge of the call begins: the instant, and what the meters had counted by then.
    `asked` is a limit that was to act meanwhile, when a commitment ended. `over`: its timer acts.
    """

    __slots__ = ("asked", "order", "over", "reading", "reason", "sequence", "since", "until")

    def __init__(
        self, since: int, until: int, reason: Reason, sequence: int, order: Order | None
    ) -> None:
        self.since = since
        self.until = until
        self.reason = reason
        self.sequence = sequence
        self.order = order
        self.reading = 0
        self.asked: int | None = None
        self.over = False


class Commitment:
    """What a holder owes a leaf it has won: to keep it until then, or to pay `price` for it.

    `asked` is a retention limit below the price, which acts when the time is over.
    """

    __slots__ = ("asked", "price", "sequence", "until")

    def __init__(self, until: int, price: int, sequence: int) -> None:
        self.until = until
        self.price = price
        self.sequence = sequence
        self.asked: int | None = None


class Member:
    """What a leaf, a scope and a group have in common: a summary, and a place under another."""

    __slots__ = (
        "book",
        "fewest_idle",
        "furthest_limit",
        "idle",
        "idle_floor",
        "lowest_rates",
        "oldest",
        "other",
        "up",
        "weakest",
    )

    def __init__(self) -> None:
        self.up: Branch | None = None
        self.book: Book | None = None
        self.idle = 0
        self.fewest_idle = NEVER
        self.idle_floor = NEVER
        self.furthest_limit = NO_LIMIT
        self.weakest: Leaf | None = None
        self.other: Leaf | None = None
        self.lowest_rates = NO_RATES
        self.oldest = NEVER


class Leaf(Member):
    """One tradable resource; `owner` None is the operator."""

    __slots__ = (
        "attributes",
        "call",
        "commitment",
        "hold",
        "limit",
        "owner",
        "parent",
        "past_calls",
        "path",
        "reading",
        "since",
    )

    def __init__(self, path: str, parent: Scope) -> None:
        super().__init__()
        self.path = path
        self.parent = parent
        self.attributes: tuple[tuple[str, str], ...] = ()
        self.owner: str | None = None
        self.limit = 0
        self.since = 0
        self.reading = 0
        self.hold: Hold | None = None
        self.call: RunningCall | None = None
        self.commitment: Commitment | None = None
        self.past_calls: tuple[PastCall, ...] = ()

    @property
    def is_leaf(self) -> bool:
        return True

    @property
    def tree(self) -> GuardedTree:
        return self.parent.tree

    @property
    def holders(self) -> tuple[str, ...]:
        return () if self.owner is None else (self.owner,)

    @property
    def held(self) -> int:
        return int(self.owner is not None)

    @property
    def is_protected(self) -> bool:
        """Can the holding not be lost to a price now?"""
        return self.call is not None or (self.hold is not None and not self.hold.over)


class Branch(Member):
    """An inner node, with or without a name."""

    __slots__ = ("holders", "inner", "members")

    def __init__(self) -> None:
        super().__init__()
        self.members: list[Leaf | Scope | SiblingGroup] = []
        self.inner = NO_RATES
        self.holders: dict[str, int] = {}


class Scope(Branch):
    """A named inner node; `known_children` counts every node below it that has a name."""

    __slots__ = ("known_children", "parent", "path", "placed", "tree")

    def __init__(self, path: str, parent: Scope | None, tree: GuardedTree) -> None:
        super().__init__()
        self.path = path
        self.parent = parent
        self.tree = tree
        self.placed = False
        self.known_children = 0

    @property
    def is_leaf(self) -> bool:
        return False

    @property
    def held(self) -> int:
        """How many leaves below have a holder."""
        return sum(self.holders.values())


class SiblingGroup(Branch):
    """Some neighbouring children of a scope that has many."""

    __slots__ = ()


def hang(scope: Scope, child: Leaf | Scope) -> SiblingGroup | None:
    """Make `child` the last child of `scope`; the group, if any, that took over all the others."""
    spine: list[Branch] = [scope]
    while spine[-1].members and isinstance(spine[-1].members[-1], SiblingGroup):
        spine.append(spine[-1].members[-1])
    height = len(spine)
    while spine and len(spine[-1].members) == WIDTH:
        spine.pop()
    new_group = None
    if not spine:
        new_group = SiblingGroup()
        _move(scope.members, new_group)
        scope.members = []
        _put(new_group, scope)
        spine = [scope]
        height += 1
    while len(spine) < height:
        group = SiblingGroup()
        _put(group, spine[-1])
        spine.append(group)
    _put(child, spine[-1])
    return new_group


def unhang(child: Leaf | Scope) -> tuple[Branch, list[SiblingGroup]]:
    """Take a child out of its place; the branch from which summaries are to be renewed, and the
    groups that are no longer needed."""
    branch = child.up
    assert branch is not None
    branch.members.remove(child)
    child.up = None
    dropped: list[SiblingGroup] = []
    while isinstance(branch, SiblingGroup) and not branch.members:
        above = branch.up
        assert above is not None
        above.members.remove(branch)
        dropped.append(branch)
        branch = above
    while isinstance(branch, Scope) and len(branch.members) == 1:
        only = branch.members[0]
        if not isinstance(only, SiblingGroup):
            break
        _move(only.members, branch)
        dropped.append(only)
    return branch, dropped


def _put(member: Leaf | Scope | SiblingGroup, branch: Branch) -> None:
    branch.members.append(member)
    member.up = branch


def _move(members: list[Leaf | Scope | SiblingGroup], branch: Branch) -> None:
    branch.members = members
    for member in members:
        member.up = branch


def leaves_under(node: Leaf | Branch) -> list[Leaf]:
    """All leaves under a node, in tree order."""
    if isinstance(node, Leaf):
        return [node]
    return [leaf for member in node.members for leaf in leaves_under(member)]


def children_of(scope: Branch) -> list[Leaf | Scope]:
    """The children of a scope, in tree order, without the groups."""
    children: list[Leaf | Scope] = []
    for member in scope.members:
        if isinstance(member, SiblingGroup):
            children.extend(children_of(member))
        else:
            children.append(member)
    return children


def walk(node: Leaf | Branch) -> Iterator[Leaf]:
    """All leaves under a node, in tree order, one by one: for those who stop somewhere."""
    if isinstance(node, Leaf):
        yield node
    else:
        for member in node.members:
            yield from walk(member)


def walk_on(leaf: Leaf, top: Branch | None) -> Iterator[Leaf]:
    """The leaves under a node, or of a whole tree, that come after one of them in tree order."""
    member: Leaf | Scope | SiblingGroup = leaf
    while member is not top and member.up is not None:
        branch = member.up
        for later in branch.members[branch.members.index(member) + 1 :]:
            yield from walk(later)
        assert isinstance(branch, Scope | SiblingGroup)
        member = branch
