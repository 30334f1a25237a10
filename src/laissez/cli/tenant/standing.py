"""How a holding stands: what it is safe from, bound to, or about to be lost to, and until when.

Several holdings of which the same is to be said share a line. Times are by the local clock, with
how far they are; where somebody looks on they count down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from laissez.cli.terminal.amounts import (
    counted,
    show_charge,
    show_duration,
    show_rate,
    show_time,
)
from laissez.cli.terminal.output import few
from laissez.cli.terminal.sentences import why_called
from laissez.model import Holding, Promise
from laissez.topology import fold

FOLDS_SHOWN = 4


def is_bound(held: Holding, now_us: int) -> bool:
    return held.bound_until is not None and held.bound_until > now_us


def leaving_costs(held: Holding, now_us: int) -> int:
    """What is owed at most, beside the rate, for giving it back now. What is called, also by a
    drain, may be left."""
    if held.bound_until is None or held.bound_price is None or held.called_until is not None:
        return 0
    return max(0, held.bound_until - now_us) * held.bound_price


def giving_back_costs(promise: Promise) -> int:
    """What is owed for giving a promise back."""
    return promise.price * promise.commit


def is_called(held: Holding) -> bool:
    """By the market. What a drain will take is told alike, but goes on being traded till then."""
    return held.called_until is not None and held.called_for != "withdrawn"


def counts_down(held: Iterable[Holding], promised: Sequence[Promise], now_us: int) -> bool:
    """Is there anything that will be different in a second?"""
    return bool(promised) or any(
        until is not None and until > now_us
        for each in held
        for until in (each.safe_until, each.called_until, each.bound_until)
    )


def standing_lines(
    held: Iterable[Holding], promised: Sequence[Promise], now_us: int
) -> Iterator[str]:
    """What is to be said beside the list of holdings, the nearest end first."""
    said: dict[tuple[int, str], list[str]] = {}
    for each in held:
        for until, told in _standings(each, now_us):
            said.setdefault((until, told), []).append(each.resource)
    for promise in promised:
        when = show_time(promise.until, now_us)
        told = (
            f"promised to order {promise.order} ({promise.tenant}): here at {when}, or as soon as "
            "it is left"
        )
        said.setdefault((promise.until, told), []).append(promise.resource)
    for (_, told), resources in sorted(said.items()):
        yield f"{folded(resources)}: {told}"


def _standings(held: Holding, now_us: int) -> Iterator[tuple[int, str]]:
    if held.called_until is not None and held.called_for is not None:
        goes = f"goes at {show_time(held.called_until, now_us)}"
        until_then = "; until then it costs your limit" if is_called(held) else ""
        leave = f"{until_then}; save your work, and leave earlier with 'laissez release'"
        yield held.called_until, f"called, {goes}: {why_called(held.called_for)}{leave}"
    elif held.bound_until is not None and is_bound(held, now_us):
        price, then = show_rate(held.bound_price), ""
        if held.asked_limit is not None:
            then = f"; then its limit is {show_rate(held.asked_limit)}, as you asked"
        until = show_time(held.bound_until, now_us)
        yield held.bound_until, f"bound at {price} until {until}{then}"


def folded(resources: Sequence[str]) -> str:
    if len(resources) == 1:
        return resources[0]
    folds = [each.pattern for each in fold(resources)]
    return few(folds) if len(folds) <= FOLDS_SHOWN else counted(len(resources), "resource")


def cost_in_words(held: Sequence[Holding], now_us: int) -> str:
    """What is owed for giving these back before their commitments are over; empty if nothing is."""
    bound = [each for each in held if leaving_costs(each, now_us)]
    if not bound:
        return ""
    owed = sum(leaving_costs(each, now_us) for each in bound)
    last = max(each.bound_until or 0 for each in bound)
    prices = {each.bound_price or 0 for each in bound}
    at = _from_to(show_rate, prices)
    which = folded([each.resource for each in bound])
    verb = "is" if len(bound) == 1 else "are"
    return (
        f"{which} {verb} bound until {show_time(last, now_us)}: leaving now costs the rest of that "
        f"time at {at}, at most {show_charge(owed)}"
    )


def promises_in_words(promised: Sequence[Promise]) -> str:
    """What it costs to give promises back: as much as to win something and leave at once."""
    if not promised:
        return ""
    which = folded([each.resource for each in promised])
    verb = "is" if len(promised) == 1 else "are"
    told = f"{which} {verb} promised to you, not yet yours: giving that back costs"
    bound = [each for each in promised if giving_back_costs(each)]
    if not bound:
        return f"{told} nothing, because nothing would bind you to it"
    lengths, prices = {each.commit for each in bound}, {each.price for each in bound}
    commitment = f"all of the commitment, {_from_to(show_duration, lengths)}"
    owed = show_charge(sum(giving_back_costs(each) for each in bound))
    return f"{told} {commitment}, at {_from_to(show_rate, prices)}: {owed}"


def _from_to(show: Callable[[int], str], amounts: set[int]) -> str:
    lowest, highest = show(min(amounts)), show(max(amounts))
    return lowest if lowest == highest else f"{lowest} to {highest}"


def together_in_words(others: Sequence[str]) -> str:
    """What else goes, because it was won to go together."""
    if not others:
        return ""
    verb = "goes" if len(others) == 1 else "go"
    return f"{folded(others)} {verb} with it: all of that was won to be kept together or not at all"
