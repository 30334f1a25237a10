"""The operator's side: what it knows of power, carbon, maintenance and load, turned into prices.

A map (`policy`) turns telemetry and a view of the market into adjustments, fractions of a base
price at any scope. A `Composition` adds up the maps, and says with the fewest instructions what the
floors are to be. Ready-made are `power`, `maintenance`, `carbon`, `utilisation`, `gangs` and
`guards`; `base_prices` says where prices start, and `spec` is how all this is written down. This
room may import the model, and for what people write `amounts` and `documents`. It never touches a
market, a network or a clock: whoever runs it asks, steps and acts.
"""

from laissez.inframaps.base_prices import LIST_PRICE_SHARE, break_even, cost_from_list
from laissez.inframaps.carbon import Carbon
from laissez.inframaps.compose import BadComposition, Composition
from laissez.inframaps.gangs import Gangs
from laissez.inframaps.guards import Guards
from laissez.inframaps.maintenance import Maintenance, Window
from laissez.inframaps.policy import HardLever, InfraMap, Levels, Lifting, TelemetryDriven
from laissez.inframaps.power import PowerHeadroom
from laissez.inframaps.utilisation import Utilisation
from laissez.inframaps.view import MapAction, OperatorView, WaitingGang, gangs_among

__all__ = [
    "LIST_PRICE_SHARE",
    "BadComposition",
    "Carbon",
    "Composition",
    "Gangs",
    "Guards",
    "HardLever",
    "InfraMap",
    "Levels",
    "Lifting",
    "Maintenance",
    "MapAction",
    "OperatorView",
    "PowerHeadroom",
    "TelemetryDriven",
    "Utilisation",
    "WaitingGang",
    "Window",
    "break_even",
    "cost_from_list",
    "gangs_among",
]
