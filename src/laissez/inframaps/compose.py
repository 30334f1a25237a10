"""Maps composed into one price for every resource, and the price into instructions.

The price of a leaf is its tree's base price times 1 + the weighted adjustments of all maps at all
scopes on its path, and never below cost. A cost may be given for a tree or for any scope; the
deepest on a path counts. From prices to floors: see `floors`.

A step is a function of what it is told. It steers the trees that have a base price, and of those
every floor: one that is not needed is taken away. Other trees are left alone. A scope that is named
but has no resource, on the market or in the inventory, has no price until it has one; the root has
its floor in any case.

Where telemetry was not read yet, just after a start, nobody knows the price: the floors that stand
there are kept. So a restart makes neither a dip nor a spike. Hard levers wait for nothing.

A change of price within the deadband is not worth a command, and the standing floor is kept. But
the base price and the cost are exact: prices always come home, and no floor below cost is kept.

Where a `fall` guard brings a floor down slowly, the view shows it on its way and the step asks for
the same floor again. The market measures a fall from where its window began and not from the last
command, so asking again neither speeds a fall up nor slows it down. If the price has turned in the
meantime, the next step catches the floor.
"""

from collections.abc import Collection, Mapping
from math import isfinite

from laissez.inframaps.floors import changes, fewest_floors, kept_floors, standing_prices
from laissez.inframaps.forest import forest_of
from laissez.inframaps.policy import HardLever, InfraMap, Levels, Lifting, TelemetryDriven
from laissez.inframaps.pricing import Push, TreePricing
from laissez.inframaps.view import MapAction, OperatorView
from laissez.model.instructions import ChangeFloor, OfferResource
from laissez.model.paths import tree_of
from laissez.model.values import MAX_RATE

DEADBAND = 0.01
PERIOD_US = 10_000_000


class BadComposition(ValueError):
    """What can't be composed, and what to do about it; `field` is where."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(sentence)
        self.field = field


class Composition:
    """Base prices, costs and maps; `period_us` is how often whoever runs it should step."""

    def __init__(
        self,
        base: Mapping[str, int],
        cost: Mapping[str, int],
        maps: tuple[tuple[float, InfraMap], ...],
        *,
        deadband: float = DEADBAND,
        period_us: int = PERIOD_US,
    ) -> None:
        check(base, cost, deadband)
        self.base = dict(base)
        self._costs = {
            tree: {scope: each for scope, each in cost.items() if tree_of(scope) == tree}
            for tree in base
        }
        self.maps = maps
        self.deadband = deadband
        self.period_us = period_us

    def step(
        self, levels: Levels, view: OperatorView, at_us: int, awaited: Collection[str] = ()
    ) -> tuple[MapAction, ...]:
        """What to do now, in this order. What is offered comes last, to floors that are right.
        `awaited` are names of telemetry that is not among the levels yet, and soon will be."""
        levels = {name: level for name, level in levels.items() if isfinite(level)}
        commands = self._commands(levels, view, at_us)
        offers = [each for each in commands if isinstance(each.do, OfferResource)]
        others = [each for each in commands if not isinstance(each.do, OfferResource)]
        floors = self._floor_changes(levels, view, at_us, self._unread(awaited))
        return (*others, *floors, *offers)

    def next_us(self, at_us: int) -> int | None:
        """The next instant at which a step is due, whatever the period says."""
        levers = (each for _, each in self.maps if isinstance(each, HardLever))
        instants = (lever.next_us(at_us) for lever in levers)
        return min((at for at in instants if at is not None), default=None)

    def _commands(self, levels: Levels, view: OperatorView, at_us: int) -> list[MapAction]:
        return [
            action
            for _, each in self.maps
            if isinstance(each, HardLever)
            for action in each.commands(levels, view, at_us)
        ]

    def _unread(self, awaited: Collection[str]) -> dict[str, list[str]]:
        """By tree, the scopes whose price depends on what is awaited."""
        unread: dict[str, list[str]] = {tree: [] for tree in self.base}
        for _, each in self.maps:
            for scope, name in each.meters().items() if isinstance(each, TelemetryDriven) else ():
                if name in awaited and tree_of(scope) in unread:
                    unread[tree_of(scope)].append(scope)
        return unread

    def _floor_changes(
        self, levels: Levels, view: OperatorView, at_us: int, unread: Mapping[str, list[str]]
    ) -> list[MapAction]:
        paths = tuple(each.resource for each in view.resources)
        forest = forest_of(paths, tuple(view.inventory))
        pushes, lifts = self._pushes(levels, view, at_us), self._lifts(view, at_us)
        actions: list[MapAction] = []
        for tree, standing in self._standing(view.floors).items():
            costs = self._costs[tree]
            kept = kept_floors(forest, standing, unread[tree])
            pricing = TreePricing(
                tree, self.base[tree], costs, pushes[tree], forest, kept, lifts[tree]
            )
            prices = pricing.near(standing_prices(forest, pricing.regions, standing), self.deadband)
            for scope, floor in changes(standing, fewest_floors(forest, prices)):
                why = pricing.why(scope, floor, prices)
                actions.append(MapAction(ChangeFloor(scope, floor), why))
        return actions

    def _standing(self, floors: Mapping[str, int]) -> dict[str, dict[str, int]]:
        """The floors that stand in the trees that are steered."""
        standing: dict[str, dict[str, int]] = {tree: {} for tree in self.base}
        for scope, floor in floors.items():
            tree = tree_of(scope)
            if tree in standing:
                standing[tree][scope] = floor
        return standing

    @property
    def sees_gangs(self) -> bool:
        """Whether any map wants to know which gangs wait."""
        return any(isinstance(each, Lifting) for _, each in self.maps)

    def _lifts(self, view: OperatorView, at_us: int) -> dict[str, dict[str, int]]:
        """By tree and scope, below which price nothing is sold."""
        lifts: dict[str, dict[str, int]] = {tree: {} for tree in self.base}
        for _, each in self.maps:
            for scope, price in (
                each.lifts(view, at_us).items() if isinstance(each, Lifting) else ()
            ):
                if tree_of(scope) in lifts:
                    own = lifts[tree_of(scope)]
                    own[scope] = max(price, own.get(scope, 0))
        return lifts

    def _pushes(self, levels: Levels, view: OperatorView, at_us: int) -> dict[str, list[Push]]:
        """What the maps ask for, by tree."""
        pushes: dict[str, list[Push]] = {tree: [] for tree in self.base}
        for weight, each in self.maps:
            name = getattr(each, "label", type(each).__name__)
            for scope, adjustment in each.adjustments(levels, view, at_us).items():
                weighted = weight * adjustment
                if not isfinite(weighted):
                    raise BadComposition(
                        "maps",
                        f"{name} adjusts the price of {scope} by {weighted}; "
                        "an adjustment is a fraction of the base price, such as 0.4",
                    )
                if weighted and tree_of(scope) in pushes:
                    pushes[tree_of(scope)].append(Push(name, scope, weighted))
        return pushes


def check(base: Mapping[str, int], cost: Mapping[str, int], deadband: float) -> None:
    """What a composition is made of has to make sense; else BadComposition."""
    for tree in base:
        if "/" in tree:
            raise BadComposition(
                "base", f"{tree} has a base price; give one to its tree, {tree_of(tree)}"
            )
    for scope in cost:
        if tree_of(scope) not in base:
            raise BadComposition(
                "cost", f"{scope} has a cost, but {tree_of(scope)} has no base price; give it one"
            )
    for field, prices in (("base", base), ("cost", cost)):
        for scope, price in prices.items():
            if not 0 <= price <= MAX_RATE:
                raise BadComposition(
                    field, f"the {field} of {scope} is {price}; give micro-dollars per hour"
                )
    if not 0 <= deadband < 1:
        raise BadComposition("deadband", f"the deadband is {deadband}; give one such as 0.01")
