"""All contracts, by name."""

from __future__ import annotations

from laissez.simulation.contracts.queueing import Queueing
from laissez.simulation.contracts.rules import FairShare, FirstCome, Preempting
from laissez.simulation.contracts.setting import Contract
from laissez.simulation.contracts.trading import Trading

CONTRACTS: dict[str, Contract] = {
    contract.name: contract
    for contract in (
        Trading("market"),
        Queueing("fcfs", FirstCome()),
        Queueing("fcfs_p", Preempting()),
        Queueing("fair", FairShare()),
        Trading("no_displacement"),
    )
}
CLAIRVOYANT = "clairvoyant"
"""The bound is none of them: it knows what nobody can, and holds nothing."""
PLAYED: dict[str, Contract] = {**CONTRACTS, "with_map": Trading("with_map")}
"""Those, and the market with a map for gangs, which only figures that have gangs ask for."""
