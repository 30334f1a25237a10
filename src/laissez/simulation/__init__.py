"""The simulator: what a market, and the contracts of today, would do to a cluster and its tenants.

A contract plays a setting (cluster, prices, projects, budgets) and gives its history. Time jumps,
chance has names, and a run is a function of the setting and the seed. The market, the exchange's
rules, the models of performance and the adapters are those that run live; nothing in them knows
that it is simulated. Each room opens with what lies in it; to be read in this order, in which they
also import each other:

kernel        time that jumps, chance by name, the stage, and the market on it
demand        what tenants want done, and who comes
contracts     the market, the contracts of today, and the bound: a setting in, a history out
scenarios     settings: our regimes, and somebody's own from a YAML file
life          one tenant's life under one contract, told

It may import the rooms model, amounts, documents, performance, adapters, deadline, market, exchange
and topology; and highspy and numpy, only where the bound is sought. It never reads a clock, draws
nothing but from a stream with a name, talks to no service, starts no process, writes nothing, and
reads no file but those that it is given. Who plays many runs, measures and draws them is
`laissez.experiments`.
"""
