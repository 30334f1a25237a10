"""What an attack finds: trees, holdings, tokens, and a past of the attacker's own making."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from attacking.victim import TREE
from laissez.exchange.access import Limits
from laissez.exchange.pipeline import Settings
from laissez.model import (
    AmendOrder,
    Answer,
    CancelOrder,
    ChangeFloor,
    ChangeGuard,
    Instruction,
    OfferResource,
    PlaceOrder,
    Refused,
    Rejected,
    Reply,
    ServiceCode,
    Subscribed,
)
from raw_websocket import RawSocket

WIDE_TREE = "h100"
OTHER_TREE = "a100"
HOLDINGS = 512
PRICE_STEPS = 49_000  # nearly `steps_kept`: with more, a statement closes and they are forgotten
STEPS_S_MAX = 30.0
HOLD_S = 3_600
FLOOR = 1_000
HIGH = 1_000_000_000
RESTING_ORDERS = 100_000
FEED_ORDERS = 490
EXPIRING_ORDERS = 20_000  # as many as may rest
EXPIRE_AFTER_S = 16.0  # they are placed, the service starts anew, and the listeners come
KEYS_KEPT = 1_000
KEYED_COMMANDS = 4 * KEYS_KEPT
FRAME = 500
TRIES_MAX = 50
PLENTY = 1_000
LIMIT_MOST = 1_000_000_000  # more than this the service takes for a slip
NAMES = ("operator", "victim", "attacker", "partner")


class Done(msgspec.Struct, frozen=True):
    """What was done, in words, and how much of it: an attack that did nothing was not held.

    What was prepared may act at one instant, by the monotonic clock.
    """

    note: str = ""
    amount: float = 0.0
    acts_at: float | None = None


class AttackPlan(msgspec.Struct, frozen=True):
    """Which program attacks what, in whose name and how long."""

    program: str
    url: str
    token: str
    seconds: float


def generous(settings: Settings) -> Settings:
    """The same, but with an allowance for a long past in a short time."""
    limits = {
        name: min(getattr(settings.limits, name) * PLENTY, LIMIT_MOST)
        for name in Limits.__struct_fields__
        if type(getattr(settings.limits, name)) is int
    }
    return msgspec.structs.replace(settings, limits=Limits(**limits))


def send_all(url: str, token: str, asked: Sequence[Instruction]) -> int:
    """Ask for everything, in large frames; what is refused for now is asked again for a while.

    How much was done: what the service never takes is left out.
    """
    done = 0
    with RawSocket(url, token) as raw:
        for begin in range(0, len(asked), FRAME):
            waiting = list(asked[begin : begin + FRAME])
            for _ in range(TRIES_MAX):
                ids = raw.send(*waiting)
                answers = raw.answers(ids)
                refused = [answers[number] for number in ids]
                again = [
                    do
                    for do, told in zip(waiting, refused, strict=True)
                    if isinstance(told, Refused)
                    and told.code in (ServiceCode.TOO_MANY_REQUESTS, ServiceCode.BUSY)
                ]
                done += sum(map(_was_done, refused))
                waiting = again
                if not waiting:
                    break
                time.sleep(0.1)
    return done


def _was_done(told: Answer | Reply | Subscribed | Refused) -> bool:
    """Neither the service nor the market refused it."""
    return isinstance(told, Answer) and not any(isinstance(each, Rejected) for each in told.events)


def furnish(url: str, tokens: dict[str, str]) -> None:
    """Three trees, without guards, so that attacks displace at once; the victim's is its own."""
    trees = (TREE, WIDE_TREE, OTHER_TREE)
    asked: list[Instruction] = [ChangeGuard(tree) for tree in trees]
    asked += [ChangeFloor(tree, FLOOR) for tree in trees]
    asked += [OfferResource(f"{TREE}/g0"), OfferResource(f"{OTHER_TREE}/g0")]
    asked += [
        OfferResource(f"{WIDE_TREE}/r{number // 64}/h{number // 8}/g{number}")
        for number in range(HOLDINGS)
    ]
    send_all(url, tokens["operator"], asked)


# What an attack needs to be there already ---------------------------------------------------------


def nothing(url: str, tokens: dict[str, str]) -> Done:
    """An attack that needs nothing."""
    return Done()


def a_long_feed(url: str, tokens: dict[str, str]) -> Done:
    """Messages of the attacker's own, with order ids as long as they may be."""
    names = [f"{number:0128}" for number in range(FEED_ORDERS)]
    asked: list[Instruction] = []
    for name in names:
        asked += [PlaceOrder(WIDE_TREE, 1, 1, name), CancelOrder(name)]
    done = send_all(url, tokens["attacker"], asked)
    return Done(f"{done:,} changes in the feed", done)


def many_price_steps(url: str, tokens: dict[str, str]) -> Done:
    """The attacker holds all of a tree, and somebody's price for it has changed nearly as often as
    is kept, if there is time for it."""
    send_all(url, tokens["attacker"], [PlaceOrder(WIDE_TREE, FLOOR, HIGH)] * HOLDINGS)
    return _change_prices(url, tokens)


def all_of_a_tree(url: str, tokens: dict[str, str]) -> Done:
    """The attacker holds all of a tree, and has an order at each of its scopes."""
    orders = [PlaceOrder(WIDE_TREE, FLOOR, HIGH)] * HOLDINGS
    orders += [PlaceOrder(path, 1, HIGH, path) for path in wide_paths()]
    done = send_all(url, tokens["attacker"], orders)
    return Done(f"{done:,} orders placed", done)


def wide_paths() -> list[str]:
    """Every scope and resource of the wide tree, those of each depth together."""
    leaves = [f"{WIDE_TREE}/r{n // 64}/h{n // 8}/g{n}" for n in range(HOLDINGS)]
    depths = [
        dict.fromkeys("/".join(each.split("/")[:depth]) for each in leaves)
        for depth in (1, 2, 3, 4)
    ]
    return [path for depth in depths for path in depth]


def many_price_steps_under_a_hold(url: str, tokens: dict[str, str]) -> Done:
    """The same under a hold that lasts, at caps above and below these prices."""
    send_all(url, tokens["operator"], [ChangeGuard(WIDE_TREE, hold=HOLD_S * 1_000_000)])
    caps = [2_000 + number * 2 for number in range(HOLDINGS)]
    send_all(url, tokens["attacker"], [PlaceOrder(WIDE_TREE, FLOOR, cap) for cap in caps])
    return _change_prices(url, tokens)


def _change_prices(url: str, tokens: dict[str, str]) -> Done:
    """One by one, because what changes at one instant is one step."""
    ends, changed = time.monotonic() + STEPS_S_MAX, 0
    with RawSocket(url, tokens["partner"]) as raw:
        raw.ask(PlaceOrder(WIDE_TREE, 2_000, HIGH - 1, "p"))
        for number in range(PRICE_STEPS):
            told = raw.ask(AmendOrder("p", price=2_000 + number % 1_000))
            changed += _was_done(told)
            if time.monotonic() > ends:
                break
    return Done(f"{changed:,} price steps of the {PRICE_STEPS:,} wanted", changed)


def many_resting_orders(url: str, tokens: dict[str, str]) -> Done:
    asked: list[Instruction] = [PlaceOrder(WIDE_TREE, 1, 1)] * RESTING_ORDERS
    rest = send_all(url, tokens["attacker"], asked)
    return Done(f"{rest:,} of {RESTING_ORDERS:,} orders came to rest", rest)


def many_expiries(url: str, tokens: dict[str, str]) -> Done:
    """As many orders as a tenant may have, all of which expire at one instant."""
    acts_at = time.monotonic() + EXPIRE_AFTER_S
    expires = time.time_ns() // 1_000 + int(EXPIRE_AFTER_S * 1e6)
    asked: list[Instruction] = [PlaceOrder(WIDE_TREE, 1, 1, expires=expires)] * EXPIRING_ORDERS
    rest = send_all(url, tokens["attacker"], asked)
    return Done(f"{rest:,} of {EXPIRING_ORDERS:,} orders wait for one instant", rest, acts_at)
