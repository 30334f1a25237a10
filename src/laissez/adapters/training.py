"""Elastic training: a shadow plan of what would be best at these prices, and orders to get there.

Before each step a planner makes a plan that nobody carries out: the best configuration of what is
held, at its rates, and of what could be had, at its quotes, by value of the pace less the cost. A
GPU is worth most beside those it works with, so what could be had is looked for near what is held:
in the same scale-up domain, in the same rack, and at last anywhere, there one at a time. What the
plan uses and is not held yet is ordered, scope by scope, each priced by what it adds after those
before it. What was acquired is assigned by the job itself, when it looks around next; a node that
its assignment does not use is redundant, and is given back.

A crew to begin with is ordered as a gang, if several nodes of one domain together are worth more
than the same bought one by one, and the gang waits for as long as it has nothing. Where it would be
filled at once nothing else is ordered; where it would not, nodes are looked for one by one as well,
for a gang presses on nobody. What comes later is ordered one by one.

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

import msgspec

from laissez.adapters.asking import scope_to_ask
from laissez.adapters.budget import Budget
from laissez.adapters.econ import WISHES_MAX, EconAdapter, bound_share, restart_of
from laissez.adapters.intent import Intent, Wish, own_promises, staying_holdings
from laissez.adapters.pricing import Pricing
from laissez.adapters.view import GangAsk, MarketView
from laissez.model import Holding, Quoted
from laissez.model.paths import covers, tree_of
from laissez.model.values import MICROS_PER_DOLLAR
from laissez.performance.training import GpuGroup, TrainingJob, TrainingPlan, plan

TRAINING_PRICING = Pricing(hysteresis=0.0)
"""What a crew loses with a node is reckoned in full, so there is nothing to add for safety."""
PER_SCOPE = 8
"""So many nodes are planned for under one scope at a time."""
GANG_SIZES = (2, 4, 8, 16, 32)
"""Of so many nodes its first crew may be."""
WHY_GANG = "a crew of {:.0f} in one domain is worth ${:.2f}/h to begin with"
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
        held = staying_holdings(self.terms, view)
        why = self._why_leave(app, view, held)
        if why is None:
            intent = super().decide(app, view)
            gang = None if held or intent.keep else self._gang(app, view)
            if gang is None:
                return intent
            is_filled = gang.rate <= gang.limit and self._is_idle(view, gang)
            wishes = (gang,) if is_filled else (gang, *intent.wishes)
            return msgspec.structs.replace(intent, wishes=wishes)
        keep = (each for each in self.keeps(app, view, held) if each.resource not in app.crew)
        return Intent(tuple(keep), why_release=why, is_too_dear=True)

    def _why_leave(self, app: TrainingJob, view: MarketView, held: Sequence[Holding]) -> str | None:
        """None if the crew stays."""
        crew = [each for each in held if each.resource in app.crew]
        if not crew or self.pricing.variant == "paper":
            return None
        cost = sum(each.rate for each in crew)
        value = self.value(app, view, sum(each.rate for each in held))
        path = crew[0].resource
        limit = int(
            self.pricing.limit(
                value * app.worth_of_crew.now,
                restart_of(app, path),
                app.since_checkpoint_s(path),
                at_stake=value * app.at_stake(path),
                ends_in_s=app.ends_in_s(path),
            )
        )
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
        coming = len(own_promises(self.terms, view))
        room = max(0, min(PER_SCOPE, app.spec.nodes_max - len(held) - coming))
        groups = [
            GpuGroup(each.resource, 1, rounded(each.rate))
            for each in held
            if tree_of(each.resource) in app.kinds
        ]
        groups += [GpuGroup(path) for path in own_promises(self.terms, view)]
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
        promised = own_promises(self.terms, view)
        own = {*promised, *(each.resource for each in held)}
        spend = sum(each.rate for each in held)
        wishes: list[Wish] = []
        coming = list(promised)
        uses = self.shadow_plan(app, view, held).uses
        nodes_max = min(nodes_max, max(1, sum(use.count for use in uses) - len(own)))
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

    # A crew to begin with --------------------------------------------------------------------

    def gangs_to_quote(self, app: TrainingJob, holdings: Sequence[Holding]) -> tuple[GangAsk, ...]:
        """Of every size, as long as it has nothing."""
        if holdings or app.is_done or not self.looks_near:
            return ()
        return tuple(
            GangAsk(scope, count, max(scope.count("/") + 1, names))
            for scope in self.terms.scopes
            if tree_of(scope) in app.kinds
            and (names := app.spec.setup.domain_names(tree_of(scope))) is not None
            for count in GANG_SIZES
            if count <= app.spec.nodes_max
        )

    def _gang(self, app: TrainingJob, view: MarketView) -> Wish | None:
        """The crew of one domain that is worth most beyond its cost, if that is more than as many
        nodes would be worth wherever they can be had one by one."""
        if own_promises(self.terms, view):
            return None
        best, most = None, 0.0
        for ask, quoted in view.gang_quotes.items():
            if quoted.rate is None or tree_of(ask.scope) not in app.kinds:
                continue
            crew = self._crew_of(app, view, _somewhere_in(ask), ask.count, quoted.rate)
            count = sum(use.count for use in crew.uses)
            if count < 2 or crew.score <= most:
                continue
            single = scope_to_ask(view, ask.scope)
            one_rate = quoted.rate if single is None else single.rate
            if crew.score <= self._crew_of(app, view, ask.scope, count, one_rate).score:
                continue
            wish = self._gang_wish(app, view, ask, count, quoted)
            if wish is not None:
                best, most = wish, crew.score
        return best

    def _crew_of(
        self, app: TrainingJob, view: MarketView, place: str, count: int, rate: int
    ) -> TrainingPlan:
        """The best that can be done with so many nodes at a place."""
        value = self.value(app, view, count * rate)
        return plan(
            app.spec.setup,
            [GpuGroup(place, count, rounded(rate))],
            value_per_unit=rounded(value),
            needed_pace=rounded(app.needed_pace),
        )

    def _gang_wish(
        self, app: TrainingJob, view: MarketView, ask: GangAsk, count: int, quoted: Quoted
    ) -> Wish | None:
        """Each is offered its part of what they are worth together."""
        rate, place = quoted.rate or 0, _somewhere_in(ask)
        value = self.value(app, view, count * rate)
        worths = [app.worth_of_gaining(place, (place,) * before) for before in range(count)]
        now, full = (sum(each) / count for each in zip(*worths, strict=True))
        starts_in_s, ends_in_s = self.starts_in_s(app, place), app.ends_in_s(place)
        share = bound_share(view, ask.scope, ends_in_s)
        limit = int(share * self.pricing.bid(value * now, starts_in_s, rate, ends_in_s))
        if quoted.idle and share * self.pricing.idle(value * full, starts_in_s, ends_in_s) >= rate:
            limit = max(limit, rate)
        if limit < 1:
            return None
        dollars = count * value * now / MICROS_PER_DOLLAR
        figures = (float(count), dollars)
        return Wish(ask.scope, limit, limit, WHY_GANG, figures, rate, count, ask.within)

    def _is_idle(self, view: MarketView, gang: Wish) -> bool:
        quoted = (
            quoted
            for ask, quoted in view.gang_quotes.items()
            if (ask.scope, ask.within) == (gang.scope, gang.within) and ask.count >= gang.count
        )
        return any(each.idle for each in quoted)


def _somewhere_in(ask: GangAsk) -> str:
    """A place in one of its domains, whichever."""
    names = ask.within or 0
    return "/".join((ask.scope, *("+" for _ in range(names - ask.scope.count("/") - 1))))


def rounded(number: float) -> float:
    """In so few digits that it rarely changes."""
    return float(f"{number:.{DIGITS}g}")
