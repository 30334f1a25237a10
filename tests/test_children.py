"""Processes that tests start: Ctrl-C reaches them, and none outlives the run.

Each test here is a run of other tests.
"""

import os
import subprocess
import sys
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


def run(
    folder: Path, text: str, *options: str, by: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    file = folder / "test_it.py"
    file.write_text(text)
    ours = [*by, sys.executable, "-m", "pytest", "-q", "-p", "children", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*ours, "-c", os.devnull, "--rootdir", str(folder), *options, str(file)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": f"{TESTS}:{TESTS.parent / 'src'}"},
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
