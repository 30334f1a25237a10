"""What runs in the background of a script: the shell has Ctrl-C ignored there, and so it stays.

Ctrl-C is meant for what is in front. SIGTERM ends a job in the background, as tidily as ever.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from serving import Served

PATIENCE_S = 60
ADAPTER = """\
adapter: spot
name: nights
scopes: [h100]
nodes: 2
limit: 3.00
period: 100ms
"""


@contextmanager
def in_the_background(*words: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """One that must end well when it is told so, and not before."""
    job = subprocess.Popen(
        ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", sys.executable, "-m", *words],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield job
        for _ in range(3):  # a second one would end at once what heeds it
            job.send_signal(signal.SIGINT)
            time.sleep(0.1)
            assert job.poll() is None
        job.send_signal(signal.SIGTERM)
        _, said = job.communicate(timeout=PATIENCE_S)
        assert (job.returncode, said) == (0, "")
    finally:
        job.kill()
        job.communicate()


def first_line(output: IO[str] | None) -> str:
    assert output is not None
    return output.readline()


@pytest.mark.parametrize(
    "words", [("laissez.cli.main", "up", "FOLDER", "--port", "0"), ("laissez.service", "FOLDER")]
)
def test_the_service_does_not_heed_ctrl_c(tmp_path: Path, words: tuple[str, ...]) -> None:
    """However it is started."""
    folder = str(tmp_path / "journal")
    with in_the_background(*(folder if word == "FOLDER" else word for word in words)) as job:
        assert "http" in first_line(job.stdout)


def test_an_adapter_does_not_heed_ctrl_c(tmp_path: Path, real: Served) -> None:
    """Nor anything else that runs until it is stopped."""
    file = tmp_path / "job.yaml"
    file.write_text(ADAPTER)
    login = {"LAISSEZ_URL": real.url, "LAISSEZ_TOKEN": real.secrets["ada"]}
    words = ("laissez.cli.main", "adapter", "run", str(file))
    with in_the_background(*words, **login) as job:
        assert "begins" in first_line(job.stdout)
