"""Who lets adapters and maps act: a runner against the live service, and a simulated world.

Both ask the same step for the same actions; they differ in the market that they stand at. This
room may import adapters, maps, telemetry, the client and the exchange's market; it decides nothing
about prices.
"""
