"""Maintenance: a domain that is to be empty when its window opens. First the soft lever, then the
hard one.

Over the lead time the price mounts, gently at first, up to `peak`: whoever can move does so when
it suits, those with the least to lose first. At the opening, whoever stayed is reclaimed. While
the window is open nothing under its scope is on the market. When it closes, what the inventory has
there is offered again, except under another open window or a cordon.

Where one window lies within another they do not add up: what is under both is pressed as hard as by
the harder of the two.

Nothing is remembered: what to do follows from the clock and the view. So for `return_us` after a
closing, whatever is missing there is offered again, whoever withdrew it; to keep a resource out in
that time, cordon it or take it from the inventory. Give all windows to one map, because a map
knows only its own.
"""

from collections.abc import Iterator
from math import fsum
from typing import ClassVar

from msgspec import Struct

from laissez.inframaps.curve import steep
from laissez.inframaps.policy import Levels
from laissez.inframaps.view import MapAction, OperatorView
from laissez.model.instructions import OfferResource, WithdrawResource
from laissez.model.paths import covers

US_PER_HOUR = 3_600_000_000


class Window(Struct, frozen=True):
    """From its opening up to, and without, its closing."""

    scope: str
    opens_us: int
    closes_us: int

    def __post_init__(self) -> None:
        if not self.opens_us < self.closes_us:
            raise ValueError(f"maintenance: the window of {self.scope} closes before it opens")


class Maintenance(Struct, frozen=True):
    """`peak` is the adjustment at the opening: 9 is ten times the base price."""

    label: ClassVar[str] = "maintenance"

    windows: tuple[Window, ...]
    lead_us: int = US_PER_HOUR
    peak: float = 9.0
    steepness: float = 5.0
    return_us: int = 24 * US_PER_HOUR

    def adjustments(self, levels: Levels, view: OperatorView, at_us: int) -> dict[str, float]:
        pressures: dict[str, float] = {}
        for window in self.windows:
            if window.opens_us - self.lead_us <= at_us < window.closes_us:
                gone = 1.0 - (window.opens_us - at_us) / self.lead_us if self.lead_us else 1.0
                pressure = self.peak * steep(gone, self.steepness)
                pressures[window.scope] = max(pressure, pressures.get(window.scope, 0.0))
        return _added(pressures)

    def commands(self, levels: Levels, view: OperatorView, at_us: int) -> tuple[MapAction, ...]:
        opened = [each for each in self.windows if each.opens_us <= at_us < each.closes_us]
        closed = [
            each
            for each in self.windows
            if each.closes_us <= at_us < each.closes_us + self.return_us
        ]
        return (*_withdrawals(opened, view), *_offers(closed, opened, view))

    def next_us(self, at_us: int) -> int | None:
        instants = (at for each in self.windows for at in (each.opens_us, each.closes_us))
        return min((at for at in instants if at > at_us), default=None)


def _added(pressures: dict[str, float]) -> dict[str, float]:
    """What each scope adds to the scopes above it, so that together they are the hardest."""
    added: dict[str, float] = {}
    for scope in sorted(pressures):  # what encloses a scope comes before it
        enclosing = fsum(more for above, more in added.items() if covers(above, scope))
        added[scope] = max(0.0, pressures[scope] - enclosing)
    return added


def _withdrawals(opened: list[Window], view: OperatorView) -> Iterator[MapAction]:
    if opened:
        for each in view.resources:
            window = _covering(opened, each.resource)
            if window is not None:
                why = f"the maintenance window of {window.scope} is open"
                yield MapAction(WithdrawResource(each.resource), why)


def _offers(closed: list[Window], opened: list[Window], view: OperatorView) -> Iterator[MapAction]:
    if closed:
        on_market = {each.resource for each in view.resources}
        for path, attributes in view.inventory.items():
            window = _covering(closed, path)
            if (
                window is not None
                and path not in on_market
                and _covering(opened, path) is None
                and not any(covers(cordon, path) for cordon in view.cordons)
            ):
                why = f"the maintenance window of {window.scope} is over"
                yield MapAction(OfferResource(path, dict(attributes)), why)


def _covering(windows: list[Window], path: str) -> Window | None:
    return next((each for each in windows if covers(each.scope, path)), None)
