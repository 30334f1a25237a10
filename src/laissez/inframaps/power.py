"""Power headroom: a row becomes dearer as the power that is left for it runs out.

Telemetry says for each row which fraction of its capacity is drawn. Up to `comfortable` that costs
nothing; from there the price rises with what is used of the headroom over what is left of it, and
`steepness` is the adjustment at half way. At `full` and beyond it is `peak`, and never more.
"""

from typing import ClassVar

from msgspec import Struct

from laissez.inframaps.policy import Levels
from laissez.inframaps.view import OperatorView


class PowerHeadroom(Struct, frozen=True):
    """`rows`: for each scope the name of the telemetry that measures its power."""

    label: ClassVar[str] = "power"

    rows: dict[str, str]
    comfortable: float = 0.7
    full: float = 0.95
    steepness: float = 0.25
    peak: float = 3.0

    def __post_init__(self) -> None:
        if not self.comfortable < self.full:
            raise ValueError(
                f"power: comfortable ({self.comfortable}) has to be below full ({self.full})"
            )

    def adjustments(self, levels: Levels, view: OperatorView, at_us: int) -> dict[str, float]:
        return {
            row: self.pressure(levels[name]) for row, name in self.rows.items() if name in levels
        }

    def meters(self) -> dict[str, str]:
        return self.rows

    def pressure(self, drawn: float) -> float:
        used, left = drawn - self.comfortable, self.full - drawn
        if used <= 0:
            return 0.0
        return min(self.peak, self.steepness * used / left) if left > 0 else self.peak
