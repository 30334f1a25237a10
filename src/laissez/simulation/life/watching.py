"""One project watched while a contract is played, and nothing changed by that.

The project's labour is replaced by one that does the same and keeps a diary: its application notes
what each node that comes or goes changes, its adapter what it saw and did. A question to an
application changes nothing, so the run is the same to the last digit; and a run that nobody watches
pays nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from laissez.adapters.adapter import Adapter
from laissez.adapters.econ import EconAdapter
from laissez.adapters.intent import TradingTerms, own_holdings
from laissez.adapters.view import Action, GangAsk, MarketView
from laissez.model import Holding
from laissez.performance.application import Application, Worth
from laissez.simulation.demand.projects import Labour, Project

NOTHING = 1e-9


class AppState(msgspec.Struct, frozen=True):
    """How it is with the application at an instant."""

    at_us: int
    nodes: int
    cold_nodes: int
    """Of them, those that have not started to work yet."""
    gap: float
    is_helpless: bool
    """Something is missing, and no node would help any more."""
    is_done: bool
    performance: float


class Moved(msgspec.Struct, frozen=True):
    """A node came or went."""

    at_us: int
    resource: str
    is_gained: bool
    worth: Worth
    """What it adds once it is warm, or what is lost with it."""
    cold_start_s: float
    """Of this node if it is gained, of its successor if it is lost."""
    redone_s: float
    wasted: float
    """In the unit of the project's performance."""


class AdapterTurn(msgspec.Struct, frozen=True):
    """What its adapter saw and did; `pace` is how much of its value the budget bears."""

    view: MarketView
    actions: tuple[Action, ...]
    pace: float


class Diary:
    """All that was noted of one project, in the order in which it happened."""

    def __init__(self) -> None:
        self.entries: list[AppState | Moved | AdapterTurn] = []
        self.micros_per_unit: float | None = None

    def watched(self, project: Project) -> Project:
        """The same project, with this diary."""
        return msgspec.structs.replace(project, labour=WatchedLabour(project.labour, self))


class WatchedLabour:
    """A `Labour` that begins applications and adapters with a diary."""

    def __init__(self, labour: Labour, diary: Diary) -> None:
        self._labour = labour
        self._diary = diary
        self.may_preempt = labour.may_preempt
        self.is_preemptible = labour.is_preemptible
        self.gang = labour.gang

    def begin(self, at_us: int) -> WatchedApplication:
        return WatchedApplication(self._labour.begin(at_us), self._labour, self._diary)

    def adapter(self, app: WatchedApplication, terms: TradingTerms, worth_micros: int) -> Adapter:
        return WatchedAdapter(self._labour.adapter(app.own, terms, worth_micros), self._diary)

    def performance(self, app: WatchedApplication) -> float:
        return self._labour.performance(app.own)


class WatchedApplication:
    """An application that notes what happens to it; its answers are those of its `own`."""

    def __init__(self, own: Application, labour: Labour, diary: Diary) -> None:
        self.own = own
        self._labour = labour
        self._diary = diary

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)

    def advance(self, at_us: int) -> None:
        self.own.advance(at_us)
        self._note(at_us)

    def gain(self, resource: str, at_us: int) -> None:
        own = self.own
        cold_start_s, had_it = own.cold_start_s(resource), resource in own.nodes
        own.gain(resource, at_us)
        if resource in own.nodes and not had_it:
            worth = own.worth_of_losing(resource)
            moved = Moved(at_us, resource, True, worth, cold_start_s, 0.0, 0.0)
            self._diary.entries.append(moved)
        self._note(at_us)

    def lose(self, resource: str, at_us: int) -> None:
        own, before = self.own, self._labour.performance(self.own)
        worth, redone_s = own.worth_of_losing(resource), own.since_checkpoint_s(resource)
        had_it = resource in own.nodes
        own.lose(resource, at_us)
        if had_it:
            wasted = before - self._labour.performance(own)
            cold_start_s = own.cold_start_s(resource)
            moved = Moved(at_us, resource, False, worth, cold_start_s, redone_s, wasted)
            self._diary.entries.append(moved)
        self._note(at_us)

    def _note(self, at_us: int) -> None:
        own = self.own
        gap = 0.0 if own.is_done else own.utility_gap()
        self._diary.entries.append(
            AppState(
                at_us,
                len(own.nodes),
                sum(own.cold_start_s(node) > 0 for node in own.nodes),
                gap,
                gap > NOTHING and not any(own.missing(kind) for kind in own.kinds),
                own.is_done,
                self._labour.performance(own),
            )
        )


class WatchedAdapter:
    """An adapter that notes what it sees and does."""

    def __init__(self, own: Adapter, diary: Diary) -> None:
        self._own = own
        self._diary = diary
        self.terms = own.terms
        if isinstance(own, EconAdapter):
            diary.micros_per_unit = own.micros_per_unit

    def scopes_to_quote(
        self, app: WatchedApplication, holdings: Sequence[Holding]
    ) -> tuple[str, ...]:
        return self._own.scopes_to_quote(app.own, holdings)

    def gangs_to_quote(
        self, app: WatchedApplication, holdings: Sequence[Holding]
    ) -> tuple[GangAsk, ...]:
        return self._own.gangs_to_quote(app.own, holdings)

    def step(self, app: WatchedApplication, view: MarketView, at_us: int) -> tuple[Action, ...]:
        actions = self._own.step(app.own, view, at_us)
        self._diary.entries.append(AdapterTurn(view, actions, self._pace(app.own, view)))
        return actions

    def _pace(self, app: Any, view: MarketView) -> float:
        own = self._own
        if not isinstance(own, EconAdapter) or not own.micros_per_unit:
            return 1.0
        spend = sum(holding.rate for holding in own_holdings(own.terms, view))
        return own.value(app, view, spend) / own.micros_per_unit
