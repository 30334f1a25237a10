"""The market: who holds what, at what rate, and what moves when somebody says something.

May import `model` and nothing else of the house. No clock, no I/O, no randomness, no async: a
market is a function of the commands it was given. To read how a leaf changes hands, start with
`handover`, then `ordering`, `holding`, `operating` and `falling_due` (the rules), then `path`,
`book`, `nodes`, `summaries`, `quotes`, `charges` (what makes them cheap). `snapshot` and `upgrades`
are how a state outlives the program.
"""

from laissez.market.market import Market
from laissez.market.upgrades import CONVERTERS, RULES, UnknownRules, rules_of
from laissez.model import (
    Amended,
    Called,
    Cancelled,
    Code,
    Expired,
    FloorSet,
    GuardSet,
    LimitSet,
    Placed,
    Promised,
    Quote,
    Rejected,
    ResourceAdded,
    ResourceWithdrawn,
    Settled,
    Transferred,
    Unanswerable,
    Uncalled,
)

__all__ = [
    "CONVERTERS",
    "RULES",
    "Amended",
    "Called",
    "Cancelled",
    "Code",
    "Expired",
    "FloorSet",
    "GuardSet",
    "LimitSet",
    "Market",
    "Placed",
    "Promised",
    "Quote",
    "Rejected",
    "ResourceAdded",
    "ResourceWithdrawn",
    "Settled",
    "Transferred",
    "Unanswerable",
    "Uncalled",
    "UnknownRules",
    "rules_of",
]
