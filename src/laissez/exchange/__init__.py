"""The market made durable: who may speak, in what order it happened, and that it is not lost.

Here a request becomes a journaled, applied and answered command (`pipeline` shows the whole way
in one file). This room knows the market and the model, an SQLite file and a clock; it knows
nothing of HTTP, sockets or terminals.
"""
