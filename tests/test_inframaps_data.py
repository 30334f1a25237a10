"""The maps on measured power and carbon intensity, where the shared data folder is there."""

import csv
import gzip
from pathlib import Path
from statistics import fmean

import msgspec
import pytest

from laissez.inframaps import LIST_PRICE_SHARE, Carbon, Composition, OperatorView, PowerHeadroom
from laissez.model.instructions import ChangeFloor
from laissez.model.questions import Resource

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
BASE, COST = 2_000_000, 1_200_000
STEPS_PER_DAY = 288
CALM_DAY, BUSY_DAY = 0, 9
# The range of all domains over all days: the trace never comes near its capacity.
LOWEST, HIGHEST = 0.61, 0.785


def column(file: str, name: str) -> list[float]:
    path = DATA / file
    if not path.exists():
        pytest.skip("the data folder is not there")
    with gzip.open(path, "rt") as lines:
        return [float(row[name]) for row in csv.DictReader(lines)]


def power(domain: str) -> list[float]:
    return column("google_power/cell_a_pdus.csv.gz", domain)


def rescaled(drawn: float) -> float:
    return (drawn - LOWEST) / (HIGHEST - LOWEST)


class Played:
    """A composition that is stepped through levels; floors are set as it says."""

    def __init__(self, composition: Composition, *leaves: str) -> None:
        self.composition = composition
        self.resources = tuple(Resource(leaf, None, 0, {}) for leaf in leaves)
        self.floors: dict[str, int] = {}
        self.instructions = 0

    def price(self, leaf: str) -> int:
        return max(floor for scope, floor in self.floors.items() if leaf.startswith(scope))

    def step(self, levels: dict[str, float]) -> None:
        view = OperatorView(0, self.resources, dict(self.floors))
        for action in self.composition.step(levels, view, 0):
            assert isinstance(action.do, ChangeFloor)
            self.floors[action.do.scope] = action.do.floor
            self.instructions += 1


def test_a_busy_row_is_dear_and_a_calm_one_is_not() -> None:
    """Two rows play a busy and a calm day, rescaled to the range seen: all day the calm row stays
    at the base, and the busy one is dearer exactly while more than the comfortable share is drawn.
    """
    busy = power("pdu9")[BUSY_DAY * STEPS_PER_DAY :][:STEPS_PER_DAY]
    calm = power("pdu6")[CALM_DAY * STEPS_PER_DAY :][:STEPS_PER_DAY]
    rows = PowerHeadroom({"t/r1": "r1", "t/r2": "r2"})
    played = Played(Composition({"t": BASE}, {}, ((1.0, rows),)), "t/r1/g", "t/r2/g")
    busy_prices = []
    for one, other in zip(busy, calm, strict=True):
        played.step({"r1": rescaled(one), "r2": rescaled(other)})
        exact = BASE * (1 + rows.pressure(rescaled(one)))
        assert played.price("t/r1/g") == pytest.approx(exact, rel=0.0101)
        assert played.price("t/r2/g") == BASE
        busy_prices.append(played.price("t/r1/g"))
    assert fmean(busy_prices) > 1.25 * BASE
    assert max(busy_prices) > 2 * BASE
    assert played.instructions < STEPS_PER_DAY


def test_the_raw_trace_is_within_its_known_range() -> None:
    """Unscaled, the domains stay between 0.61 and 0.785 and hardly push: the map would add at
    most a seventh to the price."""
    for domain in ("pdu6", "pdu7", "pdu8", "pdu9"):
        drawn = power(domain)
        assert min(drawn) >= LOWEST and max(drawn) <= HIGHEST
        assert 0 < PowerHeadroom({}).pressure(max(drawn)) < 1 / 7


@pytest.mark.parametrize("grid", ["CISO", "ERCO", "PJM", "DE"])
def test_carbon_prices_swing_about_the_base(grid: str) -> None:
    """With the mean as the reference, discounts and surcharges balance over the two years, and on
    a summer's month of them no price is below cost."""
    intensity = column(f"carbon_intensity/{grid}_hourly.csv.gz", "g_co2_per_kwh")
    carbon = Carbon({"t/zone": "grid"}, reference_g_per_kwh=fmean(intensity))
    asked = [carbon.adjustments({"grid": g}, OperatorView(0), 0)["t/zone"] for g in intensity]
    assert fmean(asked) == pytest.approx(0, abs=1e-9)
    assert min(asked) < -0.3 and max(asked) > 0.3

    played = Played(Composition({"t": BASE}, {"t": COST}, ((1.0, carbon),)), "t/zone/g", "t/far/g")
    july = intensity[182 * 24 :][: 31 * 24]
    for g in july:
        played.step({"grid": g})
        exact = max(COST, BASE * g / carbon.reference_g_per_kwh)
        assert played.price("t/zone/g") == pytest.approx(exact, rel=0.0101)
        assert played.price("t/zone/g") >= COST
        assert played.price("t/far/g") == BASE


def test_the_share_of_list_prices_is_the_documented_one() -> None:
    """The constant agrees with the table of constants."""
    path = DATA / "constants" / "simulator_constants.json"
    if not path.exists():
        pytest.skip("the data folder is not there")
    constants = msgspec.json.decode(path.read_bytes())
    assert constants["provider_base_price_scale"]["value"] == LIST_PRICE_SHARE
