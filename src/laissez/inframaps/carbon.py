"""Carbon intensity: dear while the grid is dirty, cheap while it is clean.

The adjustment is the distance from a reference, such as the year's mean of the grid, as a fraction
of the reference: 20% dirtier is 20% dearer at a strength of 1. Below the reference it is a
discount; that the price never falls below cost is seen to where the maps are composed.
"""

from typing import ClassVar

from msgspec import Struct

from laissez.inframaps.policy import Levels
from laissez.inframaps.view import OperatorView


class Carbon(Struct, frozen=True):
    """`scopes`: for each scope the name of the telemetry that gives its grid's intensity."""

    label: ClassVar[str] = "carbon"

    scopes: dict[str, str]
    reference_g_per_kwh: float
    strength: float = 1.0

    def __post_init__(self) -> None:
        if not self.reference_g_per_kwh > 0:
            raise ValueError("carbon: the reference is an intensity above 0, in g/kWh")

    def adjustments(self, levels: Levels, view: OperatorView, at_us: int) -> dict[str, float]:
        reference = self.reference_g_per_kwh
        return {
            scope: self.strength * (levels[name] - reference) / reference
            for scope, name in self.scopes.items()
            if name in levels
        }

    def meters(self) -> dict[str, str]:
        return self.scopes
