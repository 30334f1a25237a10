"""Elastic training: a shadow plan of what would be best at these prices, and orders to get there.

Before each step a planner makes a plan that nobody carries out: the best configuration of what is
held, at its rates, and of what could be had, at its quotes, by value of the pace less the cost. A
GPU is worth most beside those it works with, so what could be had is looked for near what is held:
in the same scale-up domain, in the same rack, and at last anywhere, there one at a time. What the
plan uses and is not held yet is ordered, scope by scope, each priced by what it adds after those
before it. What was acquired is assigned by the job itself, at its next checkpoint; a node that its
assignment does not use is redundant, and is given back.

A plan is made anew only if prices, holdings or the pace that is needed have changed: the planner
remembers, and is asked in round numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from laissez.adapters.econ import EconAdapter, quote_of
from laissez.adapters.intent import Intent, Terms, Wish, actions_for, own_holdings
from laissez.adapters.view import Action, MarketView
from laissez.model import Holding
from laissez.model.paths import covers, tree_of
from laissez.workloads.training import Group, Plan, TrainingJob, plan, spot_of

PER_SCOPE = 8
"""So many nodes are planned for under one scope at a time."""
DIGITS = 2
"""Of the pace that is needed and the value, for the planner."""


class TrainingAdapter(msgspec.Struct, frozen=True):
    """`econ` prices what the shadow plan wants and what is held."""

    econ: EconAdapter

    @property
    def terms(self) -> Terms:
        return self.econ.terms

    def step(self, app: TrainingJob, view: MarketView, at_us: int) -> tuple[Action, ...]:
        return actions_for(self.decide(app, view), self.terms, view)

    def scopes_to_quote(self, app: TrainingJob, holdings: Sequence[Holding]) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.near(app, holdings), *self.terms.scopes_and_trees)))

    def decide(self, app: TrainingJob, view: MarketView) -> Intent:
        if app.is_done:
            return Intent(why_release="the training is done")
        budget = self.terms.budget
        value = self.econ.micros_per_unit * (1.0 if budget is None else budget.pace(view))
        held = own_holdings(self.terms, view)
        wishes = self._wishes(app, view, held, value)
        return Intent(self.econ.keeps(app, held, value), wishes, "its configuration has no use")

    def near(self, app: TrainingJob, held: Sequence[Holding]) -> tuple[str, ...]:
        """The domains of what is held, then the racks, as far as the adapter may order there."""
        spots = [spot_of(each.resource, app.spec.setup.levels) for each in held]
        places = dict.fromkeys(
            place
            for place in (*(spot.domain for spot in spots), *(spot.rack for spot in spots))
            if place is not None
        )
        return tuple(
            place for place in places if any(covers(scope, place) for scope in self.terms.scopes)
        )

    def shadow_plan(
        self, app: TrainingJob, view: MarketView, held: Sequence[Holding], value: float
    ) -> Plan:
        """The best configuration at these prices, with what is held and what could be had.

        Where something is free, all the pace that it brings counts, as if it were needed; what
        others hold is planned for only as far as the deadline asks.
        """
        offers = [
            (scope, quote)
            for scope in dict.fromkeys((*self.near(app, held), *self.terms.scopes))
            if tree_of(scope) in app.kinds
            and (quote := quote_of(view, scope)) is not None
            and quote.rate is not None
        ]
        free = [offer for offer in offers if offer[1].idle]
        room = min(PER_SCOPE, app.spec.nodes_max - len(held))
        groups = [
            Group(each.resource, 1, float(each.rate))
            for each in held
            if tree_of(each.resource) in app.kinds
        ]
        groups += [Group(scope, room, float(quote.rate or 0)) for scope, quote in free or offers]
        return plan(
            app.spec.setup,
            groups,
            value_per_unit=rounded(value),
            needed_pace=None if free else rounded(app.needed_pace),
        )

    def _wishes(
        self, app: TrainingJob, view: MarketView, held: Sequence[Holding], value: float
    ) -> tuple[Wish, ...]:
        """An order for each node of the shadow plan that is not held yet."""
        near = self.near(app, held)
        own = {each.resource for each in held}
        wishes: list[Wish] = []
        coming: list[str] = []
        for use in self.shadow_plan(app, view, held, value).uses:
            for _ in range(0 if use.place in own else use.count):
                offer = self.econ.offer(app, view, use.place, coming, value)
                if offer is None or len(wishes) == self.econ.wishes_max:
                    break
                wishes.append(offer.wish)
                coming.append(use.place)
                if offer.is_free and use.place not in near:
                    break  # free nodes are spread; once it has one, the others are wanted near it
        return tuple(wishes)


def rounded(number: float) -> float:
    """In so few digits that it rarely changes."""
    return float(f"{number:.{DIGITS}g}")
