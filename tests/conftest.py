"""What tests share: exchanges to talk to, and how hard Hypothesis looks (HYPOTHESIS_PROFILE).

`ci`, the default, tries the same examples each time: a change is judged by what it changed.
`long` looks for new ones; `make fuzz` runs it and prints the seed that repeats it.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from client_pool import Pool, open_pool
from fake_exchange import FakeExchange, fake_exchange
from serving import Served, served
from shop import Shop, open_shop

pytest_plugins = ["children"]

# A slow machine is not a failure.
settings.register_profile(
    "patient",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "ci",
    parent=settings.get_profile("patient"),
    derandomize=True,
    max_examples=100,
    stateful_step_count=50,
)
settings.register_profile(
    "long",
    parent=settings.get_profile("patient"),
    derandomize=False,
    max_examples=1_000,
    stateful_step_count=200,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture
def exchange() -> Iterator[FakeExchange]:
    """An exchange that does what a test tells it to."""
    with fake_exchange() as exchange:
        yield exchange


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The real service, one for a file of tests."""
    with served(tmp_path_factory.mktemp("journal"), "operator", "ada", "dalia") as service:
        yield service


@pytest.fixture
def pool(real: Served, request: pytest.FixtureRequest) -> Iterator[Pool]:
    """A tree of its own in the real service."""
    with open_pool(real, request.node.name) as pool:
        yield pool


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Shop]:
    """A market of three GPUs, and somebody who types commands."""
    with open_shop(monkeypatch, tmp_path) as shop:
        yield shop
