"""All that a market is: nodes, orders, accounts, what falls due, the time.

Rules (the other modules) read and change it; nothing else is remembered anywhere. Caches inside
books, branches and heaps follow from it and are not part of it.
"""

from __future__ import annotations

from laissez.market.book import Book, Order
from laissez.market.guards import GuardedTree
from laissez.market.nodes import Leaf, Scope
from laissez.market.timers import Agenda


class Account:
    """One tenant: what it holds, what it has ordered, what its closed holdings cost."""

    __slots__ = ("holdings", "name", "orders", "settled")

    def __init__(self, name: str) -> None:
        self.name = name
        self.settled = 0
        self.holdings: dict[str, Leaf] = {}
        self.orders: dict[str, Order] = {}


class State:
    __slots__ = (
        "accounts",
        "agenda",
        "nodes",
        "now",
        "orders",
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
        self.accounts: dict[str, Account] = {}
        self.agenda = agenda
        self.revenue_settled = 0

    def next_sequence(self) -> int:
        self.sequence += 1
        return self.sequence

    def account(self, tenant: str) -> Account:
        account = self.accounts.get(tenant)
        if account is None:
            account = self.accounts[tenant] = Account(tenant)
        return account

    def forget_if_unused(self, account: Account) -> None:
        if not (account.settled or account.holdings or account.orders):
            del self.accounts[account.name]

    def book_at(self, node: Leaf | Scope) -> Book:
        if node.book is None:
            node.book = Book(node, self.now)
        return node.book
