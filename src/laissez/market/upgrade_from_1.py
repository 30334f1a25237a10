"""From rules 1 to rules 2: gangs, notice and commitment came, and all of them are off.

Nothing that was there means anything else: who holds what, who waits, who owes what stay as they
are. Only what follows is decided by new rules: which idle leaf an order takes, and the quote from
which the `rise` guard measures where a tenant may not see a scope.
"""

from __future__ import annotations

import msgspec


class _Guard(msgspec.Struct):
    rise: int | None = None
    fall: int | None = None
    hold: int | None = None
    window: int | None = None


class _Descent(msgspec.Struct):
    scope: str
    window_index: int
    floor_at_start: int
    asked: int
    sequence: int
    pending: bool


class _Hold(msgspec.Struct, array_like=True):
    until: int
    cap: int
    sequence: int
    limit_was_put_off: bool
    over: bool


class _Node(msgspec.Struct, array_like=True):
    path: str
    is_leaf: bool
    attributes: tuple[tuple[str, str], ...] = ()
    owner: str | None = None
    limit: int = 0
    since: int = 0
    hold: _Hold | None = None
    metered: int = 0


class _Order(msgspec.Struct, array_like=True):
    id: str
    tenant: str
    scope: str
    price: int
    limit: int
    expires: int | None
    sequence: int


_OldStep = tuple[int, int, int, str | None, int]


class _Book(msgspec.Struct, array_like=True):
    scope: str
    floor: int
    steps: list[_OldStep]


class _Tree(msgspec.Struct, array_like=True):
    name: str
    guard: _Guard
    reference_window: int
    references: list[tuple[str, int]]
    descents: list[_Descent]


class _Account(msgspec.Struct, array_like=True):
    name: str
    settled: int
    holdings: list[str]


class _Market(msgspec.Struct):
    format: str
    version: int
    now: int
    sequence: int
    trees: list[_Tree]
    nodes: list[_Node]
    books: list[_Book]
    orders: list[_Order]
    accounts: list[_Account]


def to_2(data: bytes) -> bytes:
    """A state of rules 1 as one of rules 2."""
    old = msgspec.json.decode(data, type=_Market)
    new = msgspec.to_builtins(old)
    new["version"] = 2
    for tree in new["trees"]:
        guard = tree[1]
        guard["notice"] = guard["commit"] = None
    for node in new["nodes"]:
        node += [None, None, []]  # no commitment, no call, no past calls
    for order in new["orders"]:
        order += [1, None]  # one resource each
    return msgspec.json.encode(new)
