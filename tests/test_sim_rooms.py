"""The rooms of the simulator and of the experiments, and which of them know which."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from laissez import experiments, simulation

HOUSE = Path(simulation.__file__).parent.parent


def rooms_of(room: str) -> list[str]:
    return [path.parent.name for path in sorted((HOUSE / room).glob("*/__init__.py"))]


def imported(room: str) -> Iterator[tuple[str, str]]:
    """By which room of a room which of its rooms is imported; files of no room have none."""
    for path in sorted((HOUSE / room).rglob("*.py")):
        here = path.relative_to(HOUSE / room).parts[0]
        for node in ast.walk(ast.parse(path.read_text())):
            found = re.match(rf"laissez\.{room}\.(\w+)", getattr(node, "module", None) or "")
            if found:
                yield here, found[1]


def test_rooms_of_the_simulator_import_upwards_in_its_list() -> None:
    """Whoever reads them in the order of the room's docstring has read all that a room needs."""
    order = re.findall(r"^(\w+)  +\w", simulation.__doc__ or "", re.MULTILINE)
    assert sorted(order) == rooms_of("simulation")
    pairs = [pair for pair in imported("simulation") if set(pair) <= {*order}]
    assert ("life", "scenarios") in pairs
    assert [pair for pair in pairs if order.index(pair[1]) > order.index(pair[0])] == []


def test_kinds_of_experiments_do_not_know_each_other() -> None:
    """What they share lies beside them, and knows none of them."""
    rooms = rooms_of("experiments")
    pairs = list(imported("experiments"))
    assert all(f"`{room}`" in (experiments.__doc__ or "") for room in rooms)
    assert ("figures", "runs") in pairs
    assert [(here, there) for here, there in pairs if there in rooms and here != there] == []


def test_only_experiments_draw_and_start_processes() -> None:
    """A room that acts in time, or a policy, can be had without what draws."""
    for room in ("simulation", "deadline", "performance", "adapters"):
        for path in (HOUSE / room).rglob("*.py"):
            text = path.read_text()
            assert not re.search(r"(import|from) (matplotlib|multiprocessing|concurrent)", text), (
                path
            )
