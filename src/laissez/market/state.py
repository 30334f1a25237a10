"""All that a market is: nodes, orders, accounts, what falls due, the time.

Rules (the other modules) read and change it; nothing else is remembered anywhere. Caches inside
books, branches and heaps follow from it and are not part of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from laissez.market.asks import GangLevel, Notes
from laissez.market.book import Book, Order
from laissez.market.guards import GuardedTree
from laissez.market.nodes import Leaf, Scope
from laissez.market.timers import Agenda


class Account:
    """One tenant: what it holds, what it has ordered, what its closed holdings cost.

    Holdings are kept per tree, in the order in which they were won; `promises` are the called
    leaves of others that it will have.
    """

    __slots__ = ("holdings", "name", "orders", "promises", "settled")

    def __init__(self, name: str) -> None:
        self.name = name
        self.settled = 0
        self.holdings: dict[str, dict[str, Leaf]] = {}
        self.orders: dict[str, Order] = {}
        self.promises: dict[str, Leaf] = {}

    def leaves(self) -> Iterator[Leaf]:
        """What it holds: trees by name, in each in the order of winning."""
        for tree in sorted(self.holdings):
            yield from self.holdings[tree].values()

    def newest_in(self, tree: str) -> Leaf | None:
        """What it won last of the leaves that it holds in a tree."""
        held = self.holdings.get(tree)
        return None if held is None else held[next(reversed(held))]

    def take(self, leaf: Leaf) -> None:
        tree = leaf.parent.tree.name
        if tree in self.holdings:
            self.holdings[tree][leaf.path] = leaf
        else:
            self.holdings[tree] = {leaf.path: leaf}

    def is_unused(self) -> bool:
        return not (self.settled or self.holdings or self.orders or self.promises)


class State:
    """`promised` counts the promises that stand per order: until the last is over, its id is
    taken. `calls_kept` counts calls that are over and yet to be explained. `levels` are where gangs
    wait, per tree and length of path; `notes` is what the present command has done that could make
    a gang fit (see `gangs`)."""

    __slots__ = (
        "accounts",
        "agenda",
        "calls_kept",
        "levels",
        "nodes",
        "notes",
        "now",
        "orders",
        "promised",
        "revenue_settled",
        "roots",
        "sequence",
        "trees",
    )

    def __init__(self, agenda: Agenda) -> None:
        self.now = 0
        self.sequence = 0
        self.nodes: dict[str, Leaf | Scope] = {}
        self.roots: list[Scope] = []
        self.trees: dict[str, GuardedTree] = {}
        self.orders: dict[str, Order] = {}
        self.promised: dict[str, int] = {}
        self.calls_kept = 0
        self.accounts: dict[str, Account] = {}
        self.agenda = agenda
        self.revenue_settled = 0
        self.levels: dict[str, dict[int, GangLevel]] = {}
        self.notes = Notes()

    def next_sequence(self) -> int:
        self.sequence += 1
        return self.sequence

    def account(self, tenant: str) -> Account:
        account = self.accounts.get(tenant)
        if account is None:
            account = self.accounts[tenant] = Account(tenant)
        return account

    def forget_if_unused(self, account: Account) -> None:
        if account.is_unused():
            del self.accounts[account.name]

    def book_at(self, node: Leaf | Scope) -> Book:
        if node.book is None:
            node.book = Book(node, self.now)
        return node.book
