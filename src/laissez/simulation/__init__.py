"""The simulator: what a market, and the contracts of today, would do to a cluster and its tenants.

kernel, streams   time that jumps, chance by name
world             the market with everybody who acts in it
"""
