"""Somebody's own cluster and tenants, under one contract or several: `laissez sim`.

`comparing` runs a scenario's file for every seed and contract and says what became of each tenant;
`picture` draws it. What the file means is read by `laissez.simulation.scenarios`.
"""
