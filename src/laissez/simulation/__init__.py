"""The simulator: what a market, and the contracts of today, would do to a cluster and its tenants.

A contract plays a setting (cluster, prices, projects, budgets) and gives its history. Time jumps,
chance has names, and a run is a function of the setting and the seed. The market, the exchange's
rules, the workloads and the adapters are those that run live; nothing in them knows that it is
simulated. To be read in this order:

kernel, streams           time that jumps; chance by name
stage                     where tenants step, receive nodes and lose them
world                     the market on a stage
projects, setting         what tenants want done; what a contract plays, and the history it gives
recording                 what all contracts write down alike
trading                   the market as a contract, with and without displacement
rules, queueing           who is next and who makes room; the contracts of today
contracts                 all of them by name
requests, fitted          windows of the public traces, or made up like them
population, regimes       who comes; how much demand meets how much capacity; budgets
clairvoyant               what no contract can exceed
metrics, intervals        what a run was like; what a few seeds say about all
runs                      many runs: on all cores, and each only once
figures                   our figures, a file each
life and its files        one tenant's life under one contract, told and drawn
scenario and its files    somebody's own cluster and tenants, from a YAML file

It may import the rooms model, amounts, documents, workloads, adapters, deadline, market, exchange
and topology; and highspy, numpy and matplotlib, each only where a bound is sought or a picture
drawn. It never reads a clock, draws nothing but from a stream with a name, talks to no service, and
reads no file but those that it is given; only `runs` writes any beside pictures, and starts
processes.
"""
