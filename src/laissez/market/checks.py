"""Is a command well formed? Each check passes or raises `CommandRefused`, before any change.

`CommandRefused` never leaves the market: `Market.apply` turns it into the answer's last event.
"""

from __future__ import annotations

from typing import Any

from laissez.market.book import Order
from laissez.market.nodes import Leaf, Scope
from laissez.market.state import State
from laissez.model.dollars import show_rate
from laissez.model.refusals import Code
from laissez.model.sentences import nothing_to_order
from laissez.model.values import MAX_RATE, MAX_TIME

MAX_DEPTH = 128
SHOWN_LENGTH = 200


class CommandRefused(Exception):
    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def shown(value: Any) -> str:
    """Whatever was given, in a form that fits into a sentence."""
    try:
        text = repr(value)
    except ValueError:  # an integer with more digits than Python is willing to print
        return f"this {type(value).__name__}"
    return text if len(text) <= SHOWN_LENGTH else text[:SHOWN_LENGTH] + "..."


def is_name(text: Any) -> bool:
    """A name is printable text without white space at its ends."""
    return type(text) is str and text != "" and text.isprintable() and text == text.strip()


def is_text(value: Any) -> bool:
    """Any text that can be written down."""
    if type(value) is not str:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_path(path: Any) -> bool:
    if type(path) is not str:
        return False
    names = path.split("/")
    return len(names) <= MAX_DEPTH and all(is_name(name) for name in names)


def is_rate(value: Any, least: int) -> bool:
    return type(value) is int and least <= value <= MAX_RATE


def is_time(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_TIME


def check_path(path: Any) -> None:
    if not is_path(path):
        raise CommandRefused(
            Code.BAD_PATH,
            f"{shown(path)} is not a path; join up to {MAX_DEPTH} printable names with '/', "
            "for instance 'h100/r1/g0'",
        )


def check_tenant(state: State, tenant: Any) -> None:
    known = type(tenant) is str and tenant in state.accounts
    if not known and not is_name(tenant):
        raise CommandRefused(
            Code.BAD_TENANT, f"{shown(tenant)} can't be a tenant; give a name of printable text"
        )


def check_order_id(order: Any) -> None:
    if not is_name(order):
        raise CommandRefused(
            Code.BAD_ORDER_ID, f"{shown(order)} can't be an order id; give an id of printable text"
        )


def check_price(price: Any) -> None:
    if not is_rate(price, 1):
        raise CommandRefused(
            Code.BAD_PRICE,
            f"price {shown(price)} is not a whole number of micro-dollars per hour above 0",
        )


def check_limit(limit: Any, least: int) -> None:
    if not is_rate(limit, least):
        raise CommandRefused(
            Code.BAD_LIMIT,
            f"limit {shown(limit)} is not a whole number of micro-dollars per hour from {least} on",
        )


def check_price_within_limit(price: int, limit: int) -> None:
    if price > limit:
        raise CommandRefused(
            Code.PRICE_ABOVE_LIMIT,
            f"the price, {show_rate(price)}, is above the limit, {show_rate(limit)}; "
            "raise the limit or lower the price",
        )


def check_count(count: Any) -> None:
    if type(count) is not int or count < 1:
        raise CommandRefused(
            Code.BAD_COUNT, f"count {shown(count)} is not a whole number of resources from 1 on"
        )


def check_expiry(expires: Any, now: int) -> None:
    if not is_time(expires) or expires <= now:
        raise CommandRefused(
            Code.BAD_EXPIRY,
            f"expiry {shown(expires)} is not a time after {now}; give a later one, or none",
        )


def scope_for_order(state: State, path: Any) -> Leaf | Scope:
    """The node at a path that an order may name."""
    node = state.nodes.get(path) if type(path) is str else None
    if node is None:
        check_path(path)
    elif isinstance(node, Leaf) or node.placed:
        return node
    raise CommandRefused(Code.UNKNOWN_SCOPE, nothing_to_order(path))


def known_leaf(state: State, path: Any) -> Leaf:
    node = state.nodes.get(path) if type(path) is str else None
    if isinstance(node, Leaf):
        return node
    check_path(path)
    raise CommandRefused(
        Code.UNKNOWN_RESOURCE, f"there is no resource {path!r}; give the path of one that exists"
    )


def check_holder(leaf: Leaf, tenant: str) -> None:
    if leaf.owner != tenant:
        raise CommandRefused(
            Code.NOT_THE_HOLDER,
            f"{tenant!r} does not hold {leaf.path!r} now; look at its holdings first",
        )


def live_order(state: State, tenant: str, order_id: str) -> Order:
    order = state.orders.get(order_id)
    if order is None or order.tenant != tenant:
        raise CommandRefused(
            Code.UNKNOWN_ORDER,
            f"{tenant!r} has no live order {order_id!r}; it may be filled, expired or cancelled",
        )
    return order


def check_not_under_leaf(state: State, path: str) -> None:
    above = path.rpartition("/")[0]
    while above:
        if isinstance(state.nodes.get(above), Leaf):
            raise CommandRefused(
                Code.PATH_UNDER_A_RESOURCE,
                f"{above!r} is a resource, nothing can be below it; choose another path",
            )
        above = above.rpartition("/")[0]
