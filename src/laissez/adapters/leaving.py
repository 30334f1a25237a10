"""What to do about a call: get ready, and be gone as soon as that is done.

A called node is charged its limit, the most that its holder said it would pay, so nobody stays for
longer than it takes to lose nothing. The application says how long that is: until its work is
saved, or the last of its requests is answered. If it takes longer than the notice, all that would
still be done there would be done again, and the node is left at once. Where nobody knows what runs
on a node its holder has the whole notice.

Who leaves when called is bound to nothing, whatever it has bid. A drain alone, a call because the
node will be withdrawn, leaves a bond as it is: who is bound gets ready, and stays until the bond or
the node is gone, for what is withdrawn is charged no further.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from laissez.adapters.intent import TradingTerms, own_holdings, own_promises, tree_terms
from laissez.adapters.view import Action, HoldingCall, MarketView, Stay, Vacate
from laissez.model import Release
from laissez.performance.application import US_PER_S


def leaving(app: Any, terms: TradingTerms, view: MarketView) -> Iterator[Action]:
    """What the adapter does about everything that is called, and about calls that are over."""
    if app.is_done:
        yield from _all_given_back(terms, view)
        return
    for holding in own_holdings(terms, view):
        path = holding.resource
        called = view.calls.get(path)
        if called is not None:
            answer = _answer(app, path, called, view)
            yield from (each for each in answer if not _would_cost(each, called, view))
        elif path in app.vacating:
            yield Action(Stay(path), "the call is over, and the node is kept")


def _answer(app: Any, path: str, called: HoldingCall, view: MarketView) -> Iterator[Action]:
    ready_s, left_s = app.vacate_s(path), (called.until_us - view.at_us) / US_PER_S
    if ready_s is None:
        return
    if ready_s <= 0:
        if path not in app.vacating and app.since_checkpoint_s(path) > 0:
            yield Action(Vacate(path), "it is called, and its work is saved in no time")
        yield Action(Release(path), "it is called, and there is nothing to lose any more")
    elif ready_s > left_s:
        why = f"it is called, and to be ready would take {ready_s:.0f} s of {left_s:.0f} s"
        yield Action(Release(path), why)
    elif path not in app.vacating:
        why = f"it is called, and can be ready in {ready_s:.0f} s of {left_s:.0f} s"
        yield Action(Vacate(path), why)


def _would_cost(action: Action, called: HoldingCall, view: MarketView) -> bool:
    """It would be charged the rest of what it is bound to."""
    if called.reason != "withdrawn" or not isinstance(action.do, Release):
        return False
    bond = view.bonds.get(action.do.resource)
    return bond is not None and bond.until_us > view.at_us


def _all_given_back(terms: TradingTerms, view: MarketView) -> Iterator[Action]:
    """A promise is given back only where that is free: else it costs less to have the node."""
    for holding in own_holdings(terms, view):
        called = view.calls.get(holding.resource)
        give_back = Action(Release(holding.resource), "the work is done")
        if called is not None and not _would_cost(give_back, called, view):
            yield give_back
    for path in own_promises(terms, view):
        if not tree_terms(view, path).commit_us:
            yield Action(Release(path), "the work is done")
