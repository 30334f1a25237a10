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
    CancelOrder,
    ChangeFloor,
    ChangeGuard,
    Instruction,
    OfferResource,
    PlaceOrder,
    Refused,
    ServiceCode,
)
from raw_websocket import RawSocket

WIDE_TREE = "h100"
OTHER_TREE = "a100"
HOLDINGS = 512
PRICE_STEPS = 6_000
STEPS_S_MAX = 15.0
HELD_PRICE_STEPS = 49_000
HOLD_S = 3_600
FLOOR = 1_000
HIGH = 1_000_000_000
RESTING_ORDERS = 100_000
FEED_ORDERS = 490
KEYS_KEPT = 1_000
KEYED_COMMANDS = 4 * KEYS_KEPT
FRAME = 500
TRIES_MAX = 50
PLENTY = 1_000
NAMES = ("operator", "victim", "attacker", "partner")


def generous(settings: Settings) -> Settings:
    """The same, but with an allowance for a long past in a short time."""
    limits = {
        name: getattr(settings.limits, name) * PLENTY
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
                done += len(waiting) - sum(isinstance(told, Refused) for told in refused)
                waiting = again
                if not waiting:
                    break
                time.sleep(0.1)
    return done


def furnish(url: str, tokens: dict[str, str]) -> None:
    """Three trees; the victim's is its own."""
    asked: list[Instruction] = [ChangeFloor(tree, FLOOR) for tree in (TREE, WIDE_TREE, OTHER_TREE)]
    asked += [OfferResource(f"{TREE}/g0"), OfferResource(f"{OTHER_TREE}/g0")]
    asked += [
        OfferResource(f"{WIDE_TREE}/r{number // 64}/h{number // 8}/g{number}")
        for number in range(HOLDINGS)
    ]
    send_all(url, tokens["operator"], asked)


# What an attack needs to be there already ---------------------------------------------------------


def nothing(url: str, tokens: dict[str, str]) -> None:
    """An attack that needs nothing."""


def a_long_feed(url: str, tokens: dict[str, str]) -> None:
    """Messages of the attacker's own, with order ids as long as they may be."""
    names = [f"{number:0128}" for number in range(FEED_ORDERS)]
    asked: list[Instruction] = []
    for name in names:
        asked += [PlaceOrder(WIDE_TREE, 1, 1, name), CancelOrder(name)]
    send_all(url, tokens["attacker"], asked)


def many_price_steps(url: str, tokens: dict[str, str]) -> None:
    """The attacker holds all of a tree, and somebody's price for it has changed often."""
    send_all(url, tokens["attacker"], [PlaceOrder(WIDE_TREE, FLOOR, HIGH)] * HOLDINGS)
    _change_prices(url, tokens, PRICE_STEPS)


def many_price_steps_under_a_hold(url: str, tokens: dict[str, str]) -> None:
    """The same under a hold that lasts, at caps above and below these prices, and with nearly as
    many changes as are kept if there is time for them."""
    send_all(url, tokens["operator"], [ChangeGuard(WIDE_TREE, hold=HOLD_S * 1_000_000)])
    caps = [2_000 + number * 2 for number in range(HOLDINGS)]
    send_all(url, tokens["attacker"], [PlaceOrder(WIDE_TREE, FLOOR, cap) for cap in caps])
    _change_prices(url, tokens, HELD_PRICE_STEPS)


def _change_prices(url: str, tokens: dict[str, str], steps: int) -> None:
    """One by one, because what changes at one instant is one step."""
    ends = time.monotonic() + STEPS_S_MAX
    with RawSocket(url, tokens["partner"]) as raw:
        raw.ask(PlaceOrder(WIDE_TREE, 2_000, HIGH - 1, "p"))
        for number in range(steps):
            raw.ask(AmendOrder("p", price=2_000 + number % 1_000))
            if time.monotonic() > ends:
                break


def many_resting_orders(url: str, tokens: dict[str, str]) -> None:
    send_all(url, tokens["attacker"], [PlaceOrder(WIDE_TREE, 1, 1)] * RESTING_ORDERS)
