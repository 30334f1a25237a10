"""The interface of every adapter, and the part that all of them share.

`decide` says what an adapter wants; `step` turns that into the fewest actions. Nothing is
remembered between two steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from laissez.adapters.acting import actions_for
from laissez.adapters.intent import Intent, TradingTerms
from laissez.adapters.leaving import leaving
from laissez.adapters.view import Action, GangAsk, MarketView
from laissez.model import Holding


class Adapter(Protocol):
    """What a runner asks of an adapter."""

    @property
    def terms(self) -> TradingTerms:
        """Under what name it trades, within which scopes, how often, for how much."""

    def scopes_to_quote(self, app: Any, holdings: Sequence[Holding]) -> tuple[str, ...]:
        """The scopes whose quotes the next step wants to know, as far as they are visible."""

    def gangs_to_quote(self, app: Any, holdings: Sequence[Holding]) -> tuple[GangAsk, ...]:
        """The same for several nodes at once."""

    def step(self, app: Any, view: MarketView, at_us: int) -> tuple[Action, ...]:
        """What to do now; the same for the same application, view and time."""


class Trader(msgspec.Struct, frozen=True):
    """An adapter that says what it wants."""

    terms: TradingTerms

    def decide(self, app: Any, view: MarketView) -> Intent:
        raise NotImplementedError

    def step(self, app: Any, view: MarketView, at_us: int) -> tuple[Action, ...]:
        intent = Intent(why_release="the work is done") if app.is_done else self.decide(app, view)
        called = leaving(app, self.terms, view)
        return (*called, *actions_for(intent, self.terms, view))

    def scopes_to_quote(self, app: Any, holdings: Sequence[Holding]) -> tuple[str, ...]:
        return self.terms.scopes_and_trees

    def gangs_to_quote(self, app: Any, holdings: Sequence[Holding]) -> tuple[GangAsk, ...]:
        return ()
