"""Who lets adapters and maps act, against the live service: at every step they look, ask, and act.

A runner (`live` for an adapter, `operating` for a composition of maps) asks its policy for actions,
sends them, and says what was done and why (`entries`); it is given a client, and remembers what has
to outlive it (`memory`). The rest reads the files in which people write policies down. The same
steps are asked for the same actions in the simulator. This room may import adapters, maps,
telemetry, the models of work and the client; it never decides about prices, and never sees a
market but through the client.
"""
