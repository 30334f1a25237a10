"""What acts in time: `heap` lets it jump, `streams` gives chance by name, `stage` is where tenants
step and where nodes reach or leave them, and `world` puts the market on a stage.

Nothing here knows what a tenant wants, or which contract is played. It imports the adapters' step,
the exchange's rules and the market, and no other part of the simulator.
"""
