"""Tasks on several processes: what they give, and how they end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from laissez.experiments.processes import run_all

SLEEPS = """
import os, time
from pathlib import Path
from laissez.experiments.processes import run_all

def work(folder):
    Path(folder, str(os.getpid())).touch()
    time.sleep(600)

def worker():
    return work

if __name__ == "__main__":
    list(run_all(worker, [{folder!r}] * 2, processes=2))
"""


def squarer() -> Callable[[int], int]:
    return _square


def _square(number: int) -> int:
    return number * number


def test_every_task_has_its_place() -> None:
    """Whatever the order in which they are done; one process does them itself."""
    for processes in (1, 2):
        found = dict(run_all(squarer, range(5), processes))
        assert found == {at: at * at for at in range(5)}


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_nobody_outlives_the_first(name: str, tmp_path: Path) -> None:
    """Not even if it has no time to end the others; they had ten minutes to go."""
    working = tmp_path / "working"
    working.mkdir()
    script = tmp_path / "sleeps.py"
    script.write_text(SLEEPS.format(folder=str(working)))
    with subprocess.Popen([sys.executable, str(script)]) as first:
        pids = _wait_for(lambda: [int(each.name) for each in working.iterdir()], count=2)
        assert all(map(_is_running, pids))
        first.send_signal(signal.Signals[name])
    _wait_for(lambda: [pid for pid in pids if not _is_running(pid)], count=2)


def _wait_for(look: Callable[[], list[int]], count: int) -> list[int]:
    until = time.monotonic() + 30
    while len(found := look()) < count:
        assert time.monotonic() < until, found
        time.sleep(0.02)
    return found


def _is_running(pid: int) -> bool:
    """One that has ended, and that nobody has asked how, is no more than a name."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text()
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self").exists()
    return stat.rpartition(")")[2].split()[0] != "Z"
