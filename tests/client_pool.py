"""A tree of its own in a real exchange, with somebody to run it and two to trade."""

from collections.abc import Iterator
from contextlib import contextmanager

from laissez.client import Client
from serving import Served


class Pool:
    def __init__(self, real: Served, tree: str) -> None:
        self.tree = tree
        self.operator = Client(real.url, real.secrets["operator"])
        self.ada = Client(real.url, real.secrets["ada"])
        self.dalia = Client(real.url, real.secrets["dalia"])

    def add(self, *names: str) -> None:
        for name in names:
            self.operator.add_resource(f"{self.tree}/{name}", {"levels": "zone/gpu"})


@contextmanager
def open_pool(real: Served, test_name: str) -> Iterator[Pool]:
    """A pool named for its test, with a floor of $2.00."""
    pool = Pool(real, test_name.replace("_", "-")[:60])
    with pool.operator, pool.ada, pool.dalia:
        pool.operator.set_floor(pool.tree, "2.00")
        yield pool
