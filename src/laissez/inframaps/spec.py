"""How a composition is written down, for a YAML document that `documents` reads.

    base: {h100: 2.50}
    cost: {h100: 1.20, h100/west: 1.40}
    every: 10s
    deadband: 1%
    maps:
      - map: power
        rows: {h100/east/r1: row_1}
        comfortable: 70%
      - map: maintenance
        lead: 1h
        windows:
          - {scope: h100/east/r2, opens: 2026-11-20T22:00Z, closes: 2026-11-21T02:00Z}
      - map: carbon
        weight: 0.5
        scopes: {h100/west: grid_west}
        reference: 300
      - map: utilisation
        children_of: [h100]
        peak: 0.5
      - map: gangs
        patience: 15m
      - map: guards
        trees:
          h100: {rise: 25%, hold: 2s, window: 1s, notice: 30s, commit: 30s}

A tree without a base price has the one at which its cost breaks even at `break_even_at`. The names
beside scopes are those of telemetry.
"""

import re
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta, Struct

from laissez.amounts import BadAmount
from laissez.documents import BadField, DollarsPerHour, Duration, Percentage, PositiveNumber, Share
from laissez.inframaps.base_prices import break_even
from laissez.inframaps.carbon import Carbon
from laissez.inframaps.compose import (
    DEADBAND,
    PERIOD_US,
    BadComposition,
    Composition,
    check,
)
from laissez.inframaps.gangs import MINUTE_US, Gangs
from laissez.inframaps.guards import Guards
from laissez.inframaps.instants import instant_us
from laissez.inframaps.maintenance import US_PER_HOUR, Maintenance, Window
from laissez.inframaps.policy import InfraMap
from laissez.inframaps.power import PowerHeadroom
from laissez.inframaps.utilisation import Utilisation
from laissez.model.instructions import ChangeGuard
from laissez.model.paths import tree_of

NotNegative = Annotated[float, Meta(ge=0)]
FieldPath = tuple[str | int, ...]

DAY_US = 24 * US_PER_HOUR
NO_WINDOW = "rise and fall are bounds within a window; give one, such as window: 1s"

_SCOPE = re.compile(r"[^/\s*]+(/[^/\s*]+)*")


class _MapSpec(Struct, frozen=True, kw_only=True, tag_field="map"):
    weight: NotNegative = 1.0


class PowerSpec(_MapSpec, frozen=True, kw_only=True, tag="power"):
    rows: dict[str, str]
    comfortable: Share = 0.7
    full: Share = 0.95
    steepness: NotNegative = 0.25
    peak: NotNegative = 3.0

    def __post_init__(self) -> None:
        if self.comfortable >= self.full:
            raise BadField("comfortable", "comfortable is not below full; lower it, or raise full")

    def scopes_named(self) -> Iterator[tuple[FieldPath, str]]:
        return ((("rows", scope), scope) for scope in self.rows)

    def build(self) -> PowerHeadroom:
        return PowerHeadroom(self.rows, self.comfortable, self.full, self.steepness, self.peak)


class WindowSpec(Struct, frozen=True, kw_only=True):
    scope: str
    opens: str
    closes: str

    def __post_init__(self) -> None:
        for field, text in (("opens", self.opens), ("closes", self.closes)):
            try:
                instant_us(text)
            except BadAmount as error:
                raise BadField(field, f"{text!r} {error}") from None
        if instant_us(self.closes) <= instant_us(self.opens):
            raise BadField("closes", "the window closes before it opens; write a later instant")

    def build(self) -> Window:
        return Window(self.scope, instant_us(self.opens), instant_us(self.closes))


class MaintenanceSpec(_MapSpec, frozen=True, kw_only=True, tag="maintenance"):
    windows: tuple[WindowSpec, ...]
    lead: Duration = US_PER_HOUR
    peak: NotNegative = 9.0
    steepness: NotNegative = 5.0

    def scopes_named(self) -> Iterator[tuple[FieldPath, str]]:
        return (
            (("windows", number, "scope"), each.scope) for number, each in enumerate(self.windows)
        )

    def build(self) -> Maintenance:
        windows = tuple(window.build() for window in self.windows)
        return Maintenance(windows, self.lead, self.peak, self.steepness)


class CarbonSpec(_MapSpec, frozen=True, kw_only=True, tag="carbon"):
    """`reference` is in grams of CO2 per kWh."""

    scopes: dict[str, str]
    reference: PositiveNumber

    def scopes_named(self) -> Iterator[tuple[FieldPath, str]]:
        return ((("scopes", scope), scope) for scope in self.scopes)

    def build(self) -> Carbon:
        return Carbon(self.scopes, self.reference)


class UtilisationSpec(_MapSpec, frozen=True, kw_only=True, tag="utilisation"):
    pools: tuple[str, ...] = ()
    children_of: tuple[str, ...] = ()
    peak: NotNegative = 1.0
    steepness: NotNegative = 5.0

    def scopes_named(self) -> Iterator[tuple[FieldPath, str]]:
        for field in ("pools", "children_of"):
            for number, scope in enumerate(getattr(self, field)):
                yield (field, number), scope

    def build(self) -> Utilisation:
        return Utilisation(self.pools, self.children_of, self.peak, self.steepness)


class GangsSpec(_MapSpec, frozen=True, kw_only=True, tag="gangs"):
    """Its weight means nothing: a floor is raised to the gang's limit, or not at all."""

    patience: Duration = 10 * MINUTE_US
    rise: Duration = 10 * MINUTE_US
    steps: Annotated[int, Meta(ge=1)] = 10
    lasts: Duration = 30 * MINUTE_US
    rests: Duration = 60 * MINUTE_US
    most: Annotated[int, Meta(ge=1)] = 1

    def __post_init__(self) -> None:
        if self.lasts < self.rise:
            raise BadField("lasts", "a voice lasts as long as it rises, or longer")

    def scopes_named(self) -> Iterator[tuple[FieldPath, str]]:
        return iter(())

    def build(self) -> Gangs:
        return Gangs(
            patience_us=self.patience,
            rise_us=self.rise,
            steps=self.steps,
            lasts_us=self.lasts,
            rests_us=self.rests,
            most=self.most,
        )


class GuardSpec(Struct, frozen=True, kw_only=True):
    """`rise` in percent of a window, `fall` in dollars; `rise` and `fall` need a `window`. What is
    left out is off; `notice` and `commit` are then as they were."""

    rise: Percentage | None = None
    fall: DollarsPerHour | None = None
    hold: Duration | None = None
    window: Duration | None = None
    notice: Duration | None = None
    commit: Duration | None = None

    def __post_init__(self) -> None:
        for name in ("notice", "commit"):
            if (getattr(self, name) or 0) > DAY_US:
                raise BadField(name, f"a {name} of more than a day is too long; write {name}: 30s")
        if self.window is None and (self.rise is not None or self.fall is not None):
            raise BadField("rise" if self.rise is not None else "fall", NO_WINDOW)


class GuardsSpec(_MapSpec, frozen=True, kw_only=True, tag="guards"):
    trees: dict[str, GuardSpec]

    def __post_init__(self) -> None:
        for tree in self.trees:
            if "/" in tree:
                raise BadField(
                    ("trees", tree), f"guards are those of a whole tree; write {tree_of(tree)}"
                )

    def scopes_named(self) -> Iterator[tuple[FieldPath, str]]:
        return ((("trees", tree), tree) for tree in self.trees)

    def build(self) -> Guards:
        return Guards(
            tuple(
                ChangeGuard(
                    tree, each.rise, each.fall, each.hold, each.window, each.notice, each.commit
                )
                for tree, each in self.trees.items()
            )
        )


class InfraMapSpec(Struct, frozen=True, kw_only=True):
    base: dict[str, DollarsPerHour] = {}
    cost: dict[str, DollarsPerHour] = {}
    break_even_at: Share | None = None
    every: Duration = PERIOD_US
    deadband: Share = DEADBAND
    maps: tuple[
        PowerSpec | MaintenanceSpec | CarbonSpec | UtilisationSpec | GangsSpec | GuardsSpec, ...
    ] = ()

    def __post_init__(self) -> None:
        if not self.every:
            raise BadField("every", "there must be some time between two steps; write 10s")
        if self.break_even_at == 0:
            raise BadField("break_even_at", "nothing breaks even unsold; write a share such as 70%")
        self._check_scopes()
        bases = self.base_prices()
        if not bases:
            raise BadField("base", "no tree has a base price; write one, such as base: {h100: 2.5}")
        try:
            check(bases, self.cost, self.deadband)
        except BadComposition as error:
            raise BadField(error.field, str(error)) from None
        for place, scope in self.scopes_named():
            tree = tree_of(scope)
            if tree not in bases:
                which = tree if scope == tree else f"{tree}, the tree of {scope},"
                raise BadField(place, f"{which} has no base price; give it one")
        maintenance = [at for at, each in enumerate(self.maps) if isinstance(each, MaintenanceSpec)]
        if len(maintenance) > 1:
            sentence = "there are two maintenance maps; put all windows into one"
            raise BadField(("maps", maintenance[1]), sentence)

    def scopes_named(self) -> Iterator[tuple[FieldPath, str]]:
        """Every scope that is written, and where."""
        for field in ("base", "cost"):
            yield from (((field, scope), scope) for scope in getattr(self, field))
        for number, each in enumerate(self.maps):
            for place, scope in each.scopes_named():
                yield ("maps", number, *place), scope

    def _check_scopes(self) -> None:
        for place, scope in self.scopes_named():
            if not _SCOPE.fullmatch(scope):
                raise BadField(
                    place,
                    f"{scope!r} is not a scope; write one such as h100/east: it covers all that is "
                    "below it, without a slash at its end or a *",
                )

    def base_prices(self) -> dict[str, int]:
        """As given, and for other trees where their cost breaks even."""
        bases = dict(self.base)
        if self.break_even_at:
            for tree in self.cost:
                if "/" not in tree:
                    bases.setdefault(tree, break_even(self.cost[tree], self.break_even_at))
        return bases


def build(spec: InfraMapSpec) -> Composition:
    """The composition that is written down."""
    maps: list[tuple[float, InfraMap]] = [(each.weight, each.build()) for each in spec.maps]
    return Composition(
        spec.base_prices(),
        spec.cost,
        tuple(maps),
        deadband=spec.deadband,
        period_us=spec.every,
    )
