"""The naive expansion beside the market, under the same load.

The naive market of the tests looks at every order for every leaf at every instant, so it gets a
load that it can stand: few leaves, few orders, few operations. The market gets the same leaves
and orders. With more of either the ratio only grows.
"""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec

from laissez.market import Market
from measuring.load import Venue, whole_load
from measuring.operations import measure_operations
from measuring.scale import Scale
from measuring.timing import Timing, with_collector_frozen

TESTS = Path(__file__).parents[2] / "tests"


class ComparisonFigures(msgspec.Struct, frozen=True):
    """`ratio` is how many operations the market does in the time of one naive one."""

    orders: int
    naive: dict[str, Timing]
    market: dict[str, Timing]
    ratio: dict[str, int]


def naive_market() -> Venue:
    sys.path.append(str(TESTS))  # the oracle is several files
    return cast(Venue, importlib.import_module("naive").NaiveMarket())


def compare(
    leaves: int, scale: Scale, seed: int, *, say: Callable[[str], None]
) -> ComparisonFigures:
    with_collector_frozen()
    few, many = scale.naive_operations, scale.operations
    naive = _figures(naive_market(), leaves, scale, seed, scale.naive_rounds, few, say)
    market = _figures(Market(), leaves, scale, seed, scale.rounds, many, say)
    ratio = {name: market[name].per_second // max(1, naive[name].per_second) for name in naive}
    return ComparisonFigures(scale.naive_orders, naive, market, ratio)


def _figures(
    market: Venue,
    leaves: int,
    scale: Scale,
    seed: int,
    rounds: int,
    count: int,
    say: Callable[[str], None],
) -> dict[str, Timing]:
    load = whole_load(
        market,
        leaves=leaves,
        tenants=scale.tenants,
        orders=scale.naive_orders,
        seed=seed,
        anywhere=False,
        say=say,
    )
    return measure_operations(load, rounds=rounds, count=count, bills=count, say=say)
