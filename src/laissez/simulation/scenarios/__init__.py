"""Where settings come from: our regimes, and somebody's own scenario.

`regimes` say how much demand meets how much capacity, and the budgets that follow; a `scenario` is
read from a YAML file.

Of a scenario, `tenants` are read by their kind and `loads` by how they are given; `example` is the
file that `laissez sim init` writes. A scenario is built once when it is read, so what can't be is
said at its line, before anything runs. This room imports demand and contracts, plays a contract
only to see what a project does alone, and draws no pictures.
"""
