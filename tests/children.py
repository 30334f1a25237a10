"""Processes that tests start: Ctrl-C reaches them, and none of them outlives the run.

This is a plugin of pytest. The process that runs the tests, or hands them to others, adopts
whatever the rest leaves behind: Linux lets it ask for that. So at the end its children are all that
still run. They are named and killed, and the run has failed.

A run that is told to end before by SIGTERM, as `kill`, CI and the end of a script do, goes through
the same end: it would otherwise be gone at once, and xdist's processes, and what they have started,
would go on.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from faults.process import children_of, is_running

ADOPT_ORPHANS = 36
"""PR_SET_CHILD_SUBREAPER, see prctl(2)."""
ENDS_WITH_US = b"multiprocessing.resource_tracker"
TOLD_TO_END = 128 + signal.SIGTERM
PATIENCE_WHEN_TOLD_S = 2.0


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_reaches_children() -> Iterator[None]:
    """A child inherits that Ctrl-C is ignored, and a script has it ignored for what it runs in the
    background; but a handler, even one that does nothing, is not inherited."""
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: None)
    yield
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--children-end-within-s",
        type=float,
        default=10,
        help="how long a process may take to end after the last test (default: %(default)s)",
    )


def pytest_configure(config: pytest.Config) -> None:
    if _is_first(config) and sys.platform == "linux":
        ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1, 0, 0, 0)
    _end_when_told()


def pytest_runtest_setup() -> None:
    _end_when_told()  # what was tested before may have had another idea of SIGTERM


def _end_when_told() -> None:
    """From now on SIGTERM is the end of the run, and not only of this process."""
    runs_tests = os.getpid()

    def end(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        if os.getpid() != runs_tests:  # a copy of us, which a test has made
            os.kill(os.getpid(), number)
        for pid in _running():  # xdist's, which then end what they have started
            os.kill(pid, number)
        pytest.exit("told to end by SIGTERM", TOLD_TO_END)

    signal.signal(signal.SIGTERM, end)


@pytest.hookimpl(trylast=True)  # when all fixtures are torn down, and xdist's processes have ended
def pytest_sessionfinish(session: pytest.Session) -> None:
    if not _is_first(session.config):
        return
    patience_s = session.config.option.children_end_within_s
    if session.exitstatus == TOLD_TO_END:
        patience_s = min(patience_s, PATIENCE_WHEN_TOLD_S)
    left = {pid: _command(pid) for pid in _left_after(patience_s)}
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    for pid, command in left.items():
        if reporter is not None:
            reporter.write_line(f"\nprocess {pid} outlived the tests: {command}", red=True)
    while remaining := _running():  # the children of a child are ours when it is gone
        for pid in remaining:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    if left and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _is_first(config: pytest.Config) -> bool:
    """Not one of those to which xdist hands tests."""
    return not hasattr(config, "workerinput")


def _left_after(patience_s: float) -> list[int]:
    """What still runs, after some time for what is about to end."""
    latest = time.monotonic() + patience_s
    while (running := _running()) and time.monotonic() < latest:
        time.sleep(0.02)
    return running


def _running() -> list[int]:
    ours = [pid for pid in children_of(os.getpid()) if is_running(pid)]
    return [pid for pid in ours if ENDS_WITH_US not in _words(pid)]


def _command(pid: int) -> str:
    return _words(pid).replace(b"\0", b" ").decode(errors="replace").strip() or "?"


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
