"""Elastic training: a shadow plan of what would be best at these prices, and orders to get there.

Before each step a planner makes a plan that nobody carries out: the best configuration of what is
held, at its rates, and of what could be had, at its quotes, by value of the pace less the cost. A
GPU is worth most beside those it works with, so what could be had is looked for near what is held:
in the same scale-up domain, in the same rack, and at last anywhere, there one at a time. What the
plan uses and is not held yet is ordered, scope by scope, each priced by what it adds after those
before it. What was acquired is assigned by the job itself, when it looks around next; a node that
its assignment does not use is redundant, and is given back.

To keep, a crew is looked at twice. If one of its nodes is lost all have to stop, so each is held at
far more than its own worth. But to pay that for all of them at once makes no sense, and who stops
anyway may as well leave: if their rates together are more than what all of them are worth, with
what stopping costs once, the job lets go of all. That is cheapest right after a checkpoint, so that
is when it leaves.

A plan is made anew only if prices, holdings or the pace that is needed have changed: the planner
remembers, and is asked in round numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from laissez.adapters.asking import scope_to_ask
from laissez.adapters.budget import Budget
from laissez.adapters.econ import WISHES_MAX, EconAdapter
from laissez.adapters.intent import Intent, Wish, own_holdings
from laissez.adapters.pricing import Pricing
from laissez.adapters.view import MarketView
from laissez.model import Holding
from laissez.model.paths import covers, tree_of
from laissez.model.values import MICROS_PER_DOLLAR
from laissez.performance.training import GpuGroup, TrainingJob, TrainingPlan, plan

TRAINING_PRICING = Pricing(hysteresis=0.0)
"""What a crew loses with a node is reckoned in full, so there is nothing to add for safety."""
PER_SCOPE = 8
"""So many nodes are planned for under one scope at a time."""
WHY_LEFT = "its crew of {} costs ${:.2f} an hour; it and a new start are worth ${:.2f}"
DIGITS = 2
"""Of the pace that is needed and the value, for the planner."""


class TrainingAdapter(EconAdapter, frozen=True):
    """Keeps like any other application, and wishes for what its shadow plan lacks. One that does
    not look near takes nodes wherever they are; it is there for comparison."""

    pricing: Pricing = TRAINING_PRICING
    looks_near: bool = True

    def scopes_to_quote(self, app: TrainingJob, holdings: Sequence[Holding]) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.near(app, holdings), *self.terms.scopes_and_trees)))

    def value(self, app: TrainingJob, view: MarketView, spend_micros_per_hour: int) -> float:
        """Its money has to last until it is done, which may be long before the deadline."""
        budget = self.terms.budget
        if budget is None:
            return self.micros_per_unit
        done_us = app.done_us
        ends_us = budget.ends_us
        if done_us is not None:
            ends_us = done_us if ends_us is None else min(ends_us, done_us)
        pace = Budget(budget.total_micros, ends_us).pace(view, spend_micros_per_hour)
        return self.micros_per_unit * pace

    def decide(self, app: TrainingJob, view: MarketView) -> Intent:
        """Each node for what is lost with it, unless all of the crew together are too dear."""
        held = own_holdings(self.terms, view)
        why = self._why_leave(app, view, held)
        if why is None:
            return super().decide(app, view)
        keep = (each for each in self.keeps(app, view, held) if each.resource not in app.crew)
        return Intent(tuple(keep), why_release=why, is_too_dear=True)

    def _why_leave(self, app: TrainingJob, view: MarketView, held: Sequence[Holding]) -> str | None:
        """None if the crew stays."""
        crew = [each for each in held if each.resource in app.crew]
        if not crew or self.pricing.variant == "paper":
            return None
        cost = sum(each.rate for each in crew)
        value = self.value(app, view, sum(each.rate for each in held))
        limit = self.limit(app, crew[0], app.worth_of_crew, value)
        if cost <= limit:
            return None
        return WHY_LEFT.format(len(crew), cost / MICROS_PER_DOLLAR, limit / MICROS_PER_DOLLAR)

    def starts_in_s(self, app: TrainingJob, scope: str) -> float:
        """A crew that works takes nobody in before it looks around."""
        return app.joins_in_s

    def near(self, app: TrainingJob, held: Sequence[Holding]) -> tuple[str, ...]:
        """The domains of what is held, then the racks, as far as the adapter may order there."""
        if not self.looks_near:
            return ()
        spots = [app.spec.setup.spot(each.resource) for each in held]
        places = dict.fromkeys(
            place
            for place in (*(spot.domain for spot in spots), *(spot.rack for spot in spots))
            if place is not None
        )
        return tuple(
            place for place in places if any(covers(scope, place) for scope in self.terms.scopes)
        )

    def shadow_plan(
        self, app: TrainingJob, view: MarketView, held: Sequence[Holding]
    ) -> TrainingPlan:
        """The best configuration at these prices, with what is held and what could be had.

        It is planned for what the deadline asks, also where something is free: a node beyond that
        becomes one of the crew, and then all have to stop for it when somebody else wants it.
        """
        places = [
            place
            for scope in dict.fromkeys((*self.near(app, held), *self.terms.scopes))
            if tree_of(scope) in app.kinds and (place := scope_to_ask(view, scope)) is not None
        ]
        free = [place for place in places if place.is_free]
        room = max(0, min(PER_SCOPE, app.spec.nodes_max - len(held)))
        groups = [
            GpuGroup(each.resource, 1, rounded(each.rate))
            for each in held
            if tree_of(each.resource) in app.kinds
        ]
        groups += [GpuGroup(place.scope, room, rounded(place.rate)) for place in free or places]
        spend = sum(each.rate for each in held)
        return plan(
            app.spec.setup,
            groups,
            value_per_unit=rounded(self.value(app, view, spend)),
            needed_pace=rounded(app.needed_pace),
        )

    def wishes(
        self,
        app: TrainingJob,
        view: MarketView,
        held: Sequence[Holding],
        nodes_max: int = WISHES_MAX,
    ) -> tuple[Wish, ...]:
        """An order for each node of the shadow plan that is not held yet."""
        near = self.near(app, held)
        own = {each.resource for each in held}
        spend = sum(each.rate for each in held)
        wishes: list[Wish] = []
        coming: list[str] = []
        uses = self.shadow_plan(app, view, held).uses
        nodes_max = min(nodes_max, max(1, sum(use.count for use in uses) - len(held)))
        for use in uses:
            for _ in range(0 if use.place in own else use.count):
                offer = self.offer(app, view, use.place, coming, spend)
                if offer is None or len(wishes) == min(nodes_max, self.wishes_max):
                    break
                wishes.append(offer.wish)
                coming.append(use.place)
                spend += offer.wish.rate
                if offer.is_free and use.place not in near:
                    break  # free nodes are spread; once it has one, the others are wanted near it
        return tuple(wishes)


def rounded(number: float) -> float:
    """In so few digits that it rarely changes."""
    return float(f"{number:.{DIGITS}g}")
