"""Processes that tests start: Ctrl-C reaches them, and none outlives the run.

Each test here is a run of other tests.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faults.process import is_running

TESTS = Path(__file__).parent
IN_THE_BACKGROUND = ("sh", "-c", "trap '' INT; exec \"$@\"", "sh")
"""So does a shell begin what a script has in the background."""

LEAVES_ONE = """
import subprocess, sys
from pathlib import Path

ORPHAN = "import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(600)"
PARENT = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {ORPHAN!r}])"

def test_it():
    subprocess.run([sys.executable, "-c", PARENT], check=True)
    while not Path("pid").exists() or not Path("pid").read_text():
        pass
"""

SENDS_CTRL_C = """
import signal, subprocess, sys

WAITS = "print(flush=True); import time; time.sleep(600)"

def test_it():
    words = [sys.executable, "-c", WAITS]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        try:
            assert child.wait(30) == -signal.SIGINT
        finally:
            child.kill()
"""


START_WORKERS_AND_WAIT = """
import os, subprocess, sys, time
import pytest

CHILD = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"

@pytest.mark.parametrize("number", range(2))
def test_it(number):
    child = subprocess.Popen([sys.executable, "-c", CHILD])
    with open(f"begun-{number}.txt", "w") as file:
        print(os.getpid(), child.pid, file=file)
    os.rename(f"begun-{number}.txt", f"pids-{number}.txt")
    time.sleep(600)
"""

HANGS = """
import time

def test_it(): pass

def test_that_hangs(): time.sleep(600)

def test_after_it(): pass
"""


def words(folder: Path, text: str, *options: str, by: tuple[str, ...] = ()) -> list[str]:
    """A run of some tests."""
    file = folder / "test_it.py"
    file.write_text(text)
    plugins = [f"-p{name}" for name in ("children", "xdist.plugin", "pytest_timeout")]
    ours = [*by, sys.executable, "-m", "pytest", "-q", *plugins, "-p", "no:cacheprovider"]
    return [*ours, "-c", os.devnull, "--rootdir", str(folder), *options, str(file)]


def environment() -> dict[str, str]:
    """With no plugin but those that are named: finding them all takes longer than the tests."""
    paths = f"{TESTS}:{TESTS.parent / 'src'}"
    return os.environ | {"PYTHONPATH": paths, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def run(
    folder: Path, text: str, *options: str, by: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words(folder, text, *options, by=by),
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="orphans can't be adopted")
@pytest.mark.parametrize("processes", ["0", "1"])
def test_what_outlives_the_tests_fails_the_run(tmp_path: Path, processes: str) -> None:
    """Even an orphan, started by whichever process: it is named, and killed."""
    done = run(tmp_path, LEAVES_ONE, "-n", processes, "--children-end-within-s", "0.5")
    pid = int((tmp_path / "pid").read_text())
    assert not is_running(pid)
    assert (done.returncode, f"process {pid} outlived the tests: " in done.stdout) == (1, True)
    assert "1 passed" in done.stdout


def test_a_run_that_leaves_nothing_is_left_alone(tmp_path: Path) -> None:
    """What all tests waited for does not count."""
    done = run(tmp_path, "def test_it(): pass", "-n", "1")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_ctrl_c_reaches_what_tests_start(tmp_path: Path) -> None:
    """Also where the tests run in the background of a script, which has it ignored."""
    done = run(tmp_path, SENDS_CTRL_C, "-n", "0", by=IN_THE_BACKGROUND)
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="orphans can't be adopted")
@pytest.mark.parametrize("processes", [0, 2])
def test_sigterm_ends_a_run_and_all_that_it_has_started(tmp_path: Path, processes: int) -> None:
    """Those to whom tests were handed, and what the tests have started, though that ignores it."""
    begun = subprocess.Popen(
        words(tmp_path, START_WORKERS_AND_WAIT, "-n", str(processes)),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        for _ in range(6_000):
            files = list(tmp_path.glob("pids-*.txt"))
            if len(files) == max(processes, 1):
                break
            time.sleep(0.01)
        pids = {int(pid) for file in files for pid in file.read_text().split()}
        assert len(pids) == 2 * max(processes, 1)
        begun.send_signal(signal.SIGTERM)
        said, _ = begun.communicate(timeout=120)
        assert (begun.returncode, "told to end by SIGTERM" in said) == (128 + signal.SIGTERM, True)
        assert [pid for pid in pids if is_running(pid)] == []
    finally:
        begun.kill()
        begun.communicate()


def test_a_test_that_hangs_fails_and_is_named(tmp_path: Path) -> None:
    """With the line at which it hangs; the others are run."""
    done = run(tmp_path, HANGS, "-n", "1", "-o", "timeout=2")
    assert "FAILED test_it.py::test_that_hangs" in done.stdout
    assert "test_that_hangs(): time.sleep(600)" in done.stdout
    assert "1 failed, 2 passed" in done.stdout


def test_no_test_may_take_for_ever(pytestconfig: pytest.Config) -> None:
    """Here, too."""
    assert 0 < float(pytestconfig.getini("timeout")) <= 600
