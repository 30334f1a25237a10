"""The interface of every adapter: what a runner asks of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from laissez.adapters.intent import Terms
from laissez.adapters.view import Action, MarketView
from laissez.model import Holding


class Adapter(Protocol):
    @property
    def terms(self) -> Terms:
        """Under what name it trades, within which scopes, how often, for how much."""

    def scopes_to_quote(self, app: Any, holdings: Sequence[Holding]) -> tuple[str, ...]:
        """The scopes whose quotes the next step wants to know, as far as they are visible."""

    def step(self, app: Any, view: MarketView, at_us: int) -> tuple[Action, ...]:
        """What to do now; the same for the same application, view and time."""
