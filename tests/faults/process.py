"""The service as a child process, on a folder and a port that stay the same from life to life."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec

from laissez.exchange.pipeline import Settings

TESTS = Path(__file__).parents[1]
# A machine with other work to do may take long for anything.
START_S = 300
STOP_S = 300
# Below the range from which the system hands out ports by itself, so that nobody gets ours by
# chance while the service is dead.
PORTS = range(21_000, 29_000)


def free_port() -> int:
    """A port that nobody listens on; where to begin looking differs from process to process."""
    for offset in range(len(PORTS)):
        port = PORTS[(os.getpid() * 37 + time.monotonic_ns() + offset) % len(PORTS)]
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise RuntimeError("no port is free")


class Service:
    """Start it, kill it, start it again."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._settings = msgspec.json.encode(settings).decode()
        self._log = folder.with_name(folder.name + ".log")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, module: str = "laissez.service") -> None:
        """Bring it to life; `module` may be another way to run the same service."""
        assert self._process is None
        command = [sys.executable, "-m", module, str(self.folder)]
        command += ["--port", str(self.port), "--settings", self._settings]
        paths = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, env=environment
            )

    def wait_until_ready(self) -> None:
        """Until it listens; raises with its last words if it ends instead."""
        assert self._process is not None and self._process.stdout is not None
        if not self._process.stdout.readline():
            raise RuntimeError(f"the service did not start: {self.last_words()}")

    async def ready(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.wait_for(loop.run_in_executor(None, self.wait_until_ready), START_S)

    def last_words(self) -> str:
        return self._log.read_text()[-2_000:]

    def kill(self) -> None:
        """The end without warning."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """The end as it should be."""
        status = self._end(signal.SIGTERM)
        if status != 0:
            raise RuntimeError(f"the service stopped with status {status}: {self.last_words()}")

    def _end(self, with_signal: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(with_signal)
        return self.wait_for_its_end()

    def wait_for_its_end(self) -> int:
        """Its status, when it ends by itself."""
        process, self._process = self._process, None
        assert process is not None and process.stdout is not None
        try:
            return process.wait(STOP_S)
        finally:
            process.kill()
            process.stdout.close()

    def close(self) -> None:
        """Make sure that nothing is left running."""
        if self._process is not None:
            self.kill()

    def refusal_of_a_second(self) -> str:
        """What a second service on the same folder says; it must not run."""
        done = subprocess.run(
            [sys.executable, "-m", "laissez.service", str(self.folder)],
            capture_output=True,
            text=True,
            check=False,
            timeout=START_S,
        )
        if done.returncode != 1 or done.stdout:
            raise RuntimeError(f"a second service was not refused: {done.returncode} {done.stdout}")
        return done.stderr

    def children(self) -> list[int]:
        """The processes that the service has started; none where the system does not tell."""
        return children_of(self.pid)

    def kill_at_a_child(self, patience_s: float) -> int | None:
        """Wait for a child, kill the service at once, and give the child's id."""
        begun = time.monotonic()
        while time.monotonic() - begun < patience_s:
            children = self.children()
            if children:
                self.kill()
                return children[0]
            time.sleep(0.0005)
        self.kill()
        return None


def children_of(parent: int) -> list[int]:
    """The processes that this one has started or adopted."""
    return [pid for pid in _processes() if _parent(pid) == parent]


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _parent(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return None


def is_running(pid: int) -> bool:
    """Whether a process of this id is there and is not just waiting to be buried."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
