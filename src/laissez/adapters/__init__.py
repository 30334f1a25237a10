"""EconAdapters: what a tenant's application is worth, said to the market as bids and limits.

An adapter is a pure step, `(application, market view, time) -> actions`. It sees what its tenant
may see and nothing else, remembers nothing between two steps, and can't tell whether it trades
with a live service or in a simulation. This room may import the model, `performance` and the
deadline policies; it never waits, never reads a clock or a file, and sends nothing itself.
"""
