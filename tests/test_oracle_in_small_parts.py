"""The oracle once more, against a market whose parts are all as small as they can be.

Books turn to heaps after a few orders, scopes to groups after some children, meters to grounds
after some changes, a ground's changes to sorted blocks after dozens, and only after dozens do the
holdings under a hold, or the books under a scope, share a trunk. Markets of a test's size seldom
get there. Here each of these begins at once, so that a short run goes through all of them.
"""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from laissez.market import book, grounds, meters, nodes, trunks
from test_oracle import Chain, Deep, Flat, Trading, budget

MACHINES = [(Deep, budget(0.6)), (Flat, budget(0.3)), (Chain, budget(1.2))]


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "FEW", 2)
    monkeypatch.setattr(nodes, "WIDTH", 3)
    monkeypatch.setattr(grounds, "BLOCK", 2)
    monkeypatch.setattr(grounds, "BLOCKS_PER_BLOCK", 2)
    monkeypatch.setattr(meters, "BUSY_CHANGES", 0)
    monkeypatch.setattr(meters, "FEW_CHANGES", 1)
    monkeypatch.setattr(meters, "QUIET_CHANGES", 4)
    monkeypatch.setattr(meters, "QUIET_SHARE", 1)
    monkeypatch.setattr(trunks, "FEW_LOOKED_AT", 0)
    monkeypatch.setattr(meters, "FEW_BETWEEN", 1)
    monkeypatch.setattr(trunks, "LOOKS_PER_CHANGE", 1)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize(("machine", "settings"), MACHINES)
def test_the_market_is_the_oracle_however_it_is_cut(
    machine: type[Trading], settings: settings
) -> None:
    """How a market is cut into parts makes no difference to anything it says."""
    run_state_machine_as_test(machine, settings=settings)
