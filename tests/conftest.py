"""What tests share: exchanges to talk to, and how hard Hypothesis looks (HYPOTHESIS_PROFILE).

`ci`, the default, tries the same examples each time: a change is judged by what it changed.
`long` looks for new ones; `make fuzz` runs it and prints the seed that repeats it.
"""

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

from client_pool import Pool, open_pool
from fake_exchange import FakeExchange, fake_exchange
from hand_clock import HandClock
from laissez.exchange.access import Principal
from laissez.exchange.new_trees import NewTrees
from laissez.exchange.questions import Desk
from laissez.model import Question, Told
from serving import Served, served
from shop import Shop, open_shop

pytest_plugins = ["children"]

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

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


_GUARDED = NewTrees.guarded


@pytest.fixture(scope="session", autouse=True)
def without_default_guards() -> Iterator[None]:
    """Exchanges inside the test's process leave new trees alone, so that an order displaces at
    once; `default_guards` takes that back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NewTrees, "guarded", lambda self, waiting: waiting)
        yield


@pytest.fixture
def default_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    """New trees have notice and commitment, as in an exchange that nobody has told otherwise."""
    monkeypatch.setattr(NewTrees, "guarded", _GUARDED)


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
def clock(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    """The time by which a service measures work, moved by hand; for one that is not shared."""
    return HandClock(monkeypatch)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whose questions are answered, in this order, in a service inside the test's process."""
    names: list[str] = []
    answer = Desk.answer

    def noted(desk: Desk, asker: Principal, question: Question) -> Told:
        names.append(asker.name)
        return answer(desk, asker, question)

    monkeypatch.setattr(Desk, "answer", noted)
    return names


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


@pytest.fixture(scope="module")
def load_benchmark() -> Iterator[Callable[[str], ModuleType]]:
    """Loads a benchmark by its name; it, and what it starts, finds its own folder and this one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        paths = [str(BENCHMARKS), str(BENCHMARKS.parent / "tests"), os.environ.get("PYTHONPATH")]
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))

        def load(name: str) -> ModuleType:
            spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            patch.setitem(sys.modules, name, module)
            spec.loader.exec_module(module)
            return module

        yield load
