"""The interface of a map: private state of the operator in, a pressure on prices out.

A map's soft lever is an adjustment: at a scope, a fraction of the base price. +0.4 makes everything
under the scope 40% dearer, -0.1 makes it 10% cheaper; what lies on one path adds up. A map answers
for the instant that it is asked about and remembers nothing, so a restart changes nothing.

`levels` are telemetry values by name. They come steadied: what is missing or stale was held or let
drift before it gets here. A name that is not among them was never read, and asks for no adjustment.
A map that goes by telemetry says which, so that prices can be left as they are until it is read.

A map may also hold a price up, at a scope, for a while (`lifts`): nothing under it is sold for
less, whatever the adjustments say.

Few maps need the hard lever: instructions that leave no choice, such as a withdrawal.
"""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from laissez.inframaps.view import MapAction, OperatorView

Levels = Mapping[str, float]


class InfraMap(Protocol):
    def adjustments(self, levels: Levels, view: OperatorView, at_us: int) -> Mapping[str, float]:
        """By scope, the fraction of the base price that is added there."""


@runtime_checkable
class TelemetryDriven(Protocol):
    """What a map has beside its adjustments if telemetry decides them."""

    def meters(self) -> Mapping[str, str]:
        """By scope, the name of the telemetry that decides its adjustment."""


@runtime_checkable
class Lifting(Protocol):
    """What a map has beside its adjustments if it holds prices up; it wants to see the gangs."""

    def lifts(self, view: OperatorView, at_us: int) -> Mapping[str, int]:
        """By scope, the price below which nothing there is sold."""


@runtime_checkable
class HardLever(Protocol):
    """What a map has beside its adjustments if it also withdraws, offers or guards."""

    def commands(self, levels: Levels, view: OperatorView, at_us: int) -> tuple[MapAction, ...]:
        """What has to be done now, whatever the price."""

    def next_us(self, at_us: int) -> int | None:
        """The next instant after this one at which there will be something to do."""
