"""How much is measured: everything, or just enough to see that it all still works."""

import msgspec


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes are in leaves; `operations` are those of one round."""

    sizes: tuple[int, ...]
    tenants: int
    orders: int
    rounds: int
    operations: int
    holdings_billed: int  # per round of bills: tenants of a large market hold many

    mass_leaves: int
    mass_changes: int
    mass_idle_leaves: int
    mass_runs: int

    naive_sizes: tuple[int, ...]
    naive_orders: int
    naive_rounds: int
    naive_operations: int


FULL = Scale(
    sizes=(1_024, 10_240, 102_400, 1_048_576),
    tenants=500,
    orders=10_000,
    rounds=5,
    operations=4_000,
    holdings_billed=200_000,
    mass_leaves=10_240,
    mass_changes=1_000,
    mass_idle_leaves=100_000,
    mass_runs=3,
    naive_sizes=(64, 256, 1_024),
    naive_orders=50,
    naive_rounds=2,
    naive_operations=8,
)

QUICK = Scale(
    sizes=(64, 256),
    tenants=20,
    orders=100,
    rounds=2,
    operations=100,
    holdings_billed=1_000,
    mass_leaves=256,
    mass_changes=20,
    mass_idle_leaves=500,
    mass_runs=2,
    naive_sizes=(16, 64),
    naive_orders=10,
    naive_rounds=1,
    naive_operations=5,
)
