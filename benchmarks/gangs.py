"""What gangs cost: `python benchmarks/gangs.py --help`.

Domains of 8 leaves under racks of 64, everything held by 500 tenants with limits of their own, and
200 gangs of 2 to 8 that wait within domains. Measured in one run, each beside the same market
without gangs or beside single orders, so that most of it is ratios. Nothing fails for being slow.
"""

import argparse
import gc
import random
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter_ns

import msgspec
from measuring.machine import this_machine
from rich.console import Console
from rich.progress import track
from rich.table import Table

from laissez.market import Market, Rejected

BUILD = Path(__file__).parents[1] / "build"
SIZES = (10_240, 1_048_576)
TENANTS = 500
WAITING = 200
DOMAIN, RACK = 8, 64
WITHIN = 3  # tree / rack / domain / leaf
LOWEST, HIGHEST = 2_000_000, 9_000_000
CALLS = 4_000
ROUNDS = 5

GOALS = {
    "first gang, s": "at most 1",
    "bytes a leaf": "at most 150",
    "bytes a leaf, all counts": "",
    "bytes a gang": "at most 1,024",
    "unfilled/s": "at least 20,000",
    "fills of 8/s": "at least 4,000 (10k), 2,500 (1M)",
    "fill / 8 singles": "at most 1",
    "transfer, times": "at most 2",
    "limit, times": "at most 5",
}


class Cluster:
    """A market in which everything is held, and the random numbers that act on it."""

    def __init__(self, leaves: int, seed: int) -> None:
        self.random = random.Random(seed)
        self.market = Market()
        self.at = 0
        self.made = 0
        self.market.set_floor("h", 1_000_000, at=0)
        self.paths = [f"h/r{n // RACK}/d{n // DOMAIN}/g{n}" for n in range(leaves // RACK * RACK)]
        for path in self.paths:
            self.market.add_resource(path, at=0)
        for number, path in enumerate(self.paths):
            self.place(f"t{number % TENANTS}", path, 1_000_000, self.any_limit())

    def any_limit(self) -> int:
        return self.random.randrange(LOWEST, HIGHEST)

    def name(self) -> str:
        self.made += 1
        return f"o{self.made}"

    def place(self, tenant: str, scope: str, price: int, limit: int) -> str:
        order = self.name()
        self.at += 1
        self.market.place(tenant, scope, price=price, limit=limit, order=order, at=self.at)
        return order

    def gang(self, tenant: str, limit: int, count: int, scope: str = "h") -> str:
        order = self.name()
        self.at += 1
        events = self.market.place(
            tenant, scope, limit=limit, count=count, within=WITHIN, order=order, at=self.at
        )
        assert not isinstance(events[-1], Rejected), events[-1]
        return order

    def change_limit(self) -> None:
        path = self.random.choice(self.paths)
        owner = self.market.owner(path)
        assert owner is not None
        self.at += 1
        self.market.set_limit(owner, path, self.any_limit(), at=self.at)

    def transfer(self) -> None:
        """A stranger wins a random leaf from its holder, and follows as far as somebody would."""
        path = self.random.choice(self.paths)
        limit = self.market.limit(path)
        assert limit is not None
        price = limit + 1
        self.place(f"s{self.random.randrange(50)}", path, price, max(price, self.any_limit()))

    def wait(self) -> None:
        """Let gangs wait that nothing fits: below what all but a few of a domain would go for."""
        for number in range(WAITING):
            count = 2 + number % (DOMAIN - 1)
            self.gang(f"w{number}", LOWEST + 1 + self.random.randrange(1_000), count)


def per_call(act: Callable[[], object], calls: int) -> float:
    """Microseconds a call, the median of some rounds."""
    took = []
    for _ in range(ROUNDS):
        begin = perf_counter_ns()
        for _ in range(calls // ROUNDS):
            act()
        took.append((perf_counter_ns() - begin) / 1000 / (calls // ROUNDS))
    return median(took)


def measure(leaves: int, seed: int) -> dict[str, float]:
    cluster = Cluster(leaves, seed)
    found: dict[str, float] = {"leaves": len(cluster.paths)}
    gc.collect()
    gc.freeze()
    limit_before = per_call(cluster.change_limit, CALLS)
    transfer_before = per_call(cluster.transfer, CALLS)
    tracemalloc.start()
    begin = tracemalloc.get_traced_memory()[0]
    first = cluster.gang("first", LOWEST, 8)
    index = tracemalloc.get_traced_memory()[0] - begin
    cluster.market.cancel("first", first, at=cluster.at)
    begin = tracemalloc.get_traced_memory()[0]
    cluster.wait()
    for _ in range(2):
        cluster.change_limit()
    gangs = tracemalloc.get_traced_memory()[0] - begin
    tracemalloc.stop()
    found["bytes a leaf"] = index / len(cluster.paths)
    # The other six numbers of leaves came with the gangs that wait.
    found["bytes a gang"] = bytes_a_gang(seed)
    more = gangs - WAITING * found["bytes a gang"]
    found["bytes a leaf, all counts"] = (index + more) / len(cluster.paths)
    found["first gang, s"] = first_gang(leaves, seed)
    found["limit, times"] = per_call(cluster.change_limit, CALLS) / limit_before
    found["transfer, times"] = per_call(cluster.transfer, CALLS) / transfer_before

    def unfilled() -> None:
        order = cluster.gang("u", LOWEST, 8)
        cluster.market.cancel("u", order, at=cluster.at)

    def limit_and_unfilled() -> None:
        cluster.change_limit()
        unfilled()

    per_call(limit_and_unfilled, 500)
    both = per_call(limit_and_unfilled, CALLS)
    found["unfilled/s"] = 1e6 / (both - per_call(cluster.change_limit, CALLS))
    fills = iter_of_fills(cluster)
    took_gang, took_single = zip(*(next(fills) for _ in range(300)), strict=True)
    found["fills of 8/s"] = 1e6 / median(took_gang)
    found["fill / 8 singles"] = median(took_gang) / median(took_single)
    gc.unfreeze()
    return found


def iter_of_fills(cluster: Cluster) -> Iterator[tuple[float, float]]:
    """Microseconds of a gang that displaces 8 wherever that is cheapest, and of 8 single orders
    at the root that displace as many."""
    market = cluster.market
    while True:
        name = f"f{cluster.made}"
        begin = perf_counter_ns()
        order = cluster.gang(name, HIGHEST, 8)
        took_gang = perf_counter_ns() - begin
        won = market.holdings(name)
        assert len(won) == 8, (order, won)
        for path in won:  # as they were: held by others, with other limits
            cluster.place(f"t{cluster.random.randrange(TENANTS)}", path, HIGHEST + 1, HIGHEST + 1)
            owner = market.owner(path)
            assert owner is not None
            market.set_limit(owner, path, cluster.any_limit(), at=cluster.at)
        name = f"e{cluster.made}"
        begin = perf_counter_ns()
        for _ in range(8):
            cluster.place(name, "h", HIGHEST, HIGHEST)
        took_single = perf_counter_ns() - begin
        won = market.holdings(name)
        assert len(won) == 8
        for path in won:
            cluster.place(f"t{cluster.random.randrange(TENANTS)}", path, HIGHEST + 1, HIGHEST + 1)
            owner = market.owner(path)
            assert owner is not None
            market.set_limit(owner, path, cluster.any_limit(), at=cluster.at)
        yield took_gang / 1000, took_single / 1000


def bytes_a_gang(seed: int) -> float:
    cluster = Cluster(RACK * 4, seed)
    cluster.wait()
    gc.collect()
    tracemalloc.start()
    begin = tracemalloc.get_traced_memory()[0]
    cluster.wait()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return (after - begin) / WAITING


def first_gang(leaves: int, seed: int) -> float:
    """Seconds of the first gang of a level."""
    cluster = Cluster(leaves, seed)
    gc.collect()
    gc.freeze()
    begin = perf_counter_ns()
    cluster.gang("first", LOWEST, 8)
    took = (perf_counter_ns() - begin) / 1e9
    gc.unfreeze()
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure gangs.")
    parser.add_argument("--sizes", type=int, nargs="+", metavar="LEAVES", default=list(SIZES))
    parser.add_argument("--seed", type=int, default=1, help="of all that is random (1)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    console = Console(stderr=True)
    sizes = track(options.sizes, "gangs", console=console)
    figures = [measure(size, options.seed) for size in sizes]
    whole = {"machine": msgspec.to_builtins(this_machine()), "gangs": figures}
    BUILD.mkdir(exist_ok=True)
    (BUILD / "bench-gangs.json").write_bytes(msgspec.json.encode(whole))
    if options.json:
        print(msgspec.json.encode(whole).decode())
        return
    table = Table(title="Gangs", caption="200 gangs wait; times: against none")
    table.add_column("")
    for size in options.sizes:
        table.add_column(f"{size:,}", justify="right")
    table.add_column("goal")
    for name, goal in GOALS.items():
        table.add_row(name, *(f"{each[name]:,.2f}" for each in figures), goal)
    Console().print(table)


if __name__ == "__main__":
    main()
