"""What a newcomer sees first: a small cluster with tenants that trade, live or as a story.

`make up` is live: an ordinary operator's client puts up the cluster, each tenant trades with a
token of its own, and the screen shows what the operator may see. `play` runs it, `tenants` are the
four minds, `scene` is what is known and `screen` how it is painted. `make demo` is the `story`, a
script played to a market of its own. Both know the client, the market and the topology, and decide
nothing in them; only the command line imports this room.
"""
