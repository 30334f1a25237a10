"""Of a fresh clone, make installs what requirements.txt names, or says what it lacks.

The first of make's two steps needs the network. It is stood in for by an environment that has what
a lock would have brought, see `installing`; the second step is make's own.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from installing import Installation, installed

REPO = Path(__file__).resolve().parent.parent
LOCK = (REPO / "requirements.txt").read_text()
LOCKED = re.findall(r"^([a-z0-9.-]+)==", LOCK, re.MULTILINE)
PATIENCE_S = 120


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """As much of a checkout as make needs to install it."""
    clone = tmp_path / "clone"
    clone.mkdir()
    for name in ("Makefile", "pyproject.toml", "requirements.in", "requirements.txt", "README.md"):
        shutil.copy(REPO / name, clone)
    shutil.copy(REPO / "LICENSE", clone)
    (clone / "src").symlink_to(REPO / "src")
    return clone


def bring(clone: Path, *, without: str = "") -> Installation:
    """What is there after the first step, of a lock that may lack a line."""
    there = Installation(clone)
    there.link(["pip", *(name for name in LOCKED if name != without)])
    (there.root / ".locked").touch()
    return there


def make(clone: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHONPATH", "MAKE", "MFLAGS"))
    }
    return subprocess.run(
        ["make", f"PYTHON={sys.executable}", ".venv/.ready"],
        cwd=clone,
        env=kept | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def is_ready(clone: Path) -> bool:
    return (clone / ".venv" / ".ready").exists()


def test_the_lock_is_enough(clone: Path) -> None:
    """With all of it, and nothing else to be had, everything is found; pip has nothing to say."""
    there = bring(clone)
    done = make(clone)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "installing laissez, from what is locked alone\n"
    assert is_ready(clone)
    assert there.laissez("--version").stdout.startswith("laissez ")


@pytest.mark.parametrize("missing", ["python-socks", "highspy", "hatchling", "ruff"])
def test_a_lock_that_lacks_a_line_is_refused(clone: Path, missing: str) -> None:
    """Whether others need it, an extra of ours, the build or the checks: it is named, although it
    could be had elsewhere on this machine."""
    bring(clone, without=missing)
    elsewhere = Installation(clone / "elsewhere")
    elsewhere.link([missing])
    done = make(clone, PYTHONPATH=str(elsewhere.packages))
    assert done.returncode != 0
    assert missing in done.stderr
    assert not is_ready(clone)


def test_what_only_an_extra_of_a_package_asks_for_is_missed(clone: Path) -> None:
    """picows asks for python-socks[asyncio], and not for what that extra may ask for one day;
    `pip check` would say that all is well."""
    there = bring(clone)
    python_socks = installed()["python-socks"]
    (metadata,) = (each for each in python_socks.files or [] if each.name == "METADATA")
    link = there.packages / metadata
    first, _, rest = link.read_text().partition("\n")
    link.unlink()
    link.write_text(f'{first}\nRequires-Dist: never-heard-of; extra == "asyncio"\n{rest}')
    python = str(there.root / "bin" / "python")
    assert there.run(python, "-m", "pip", "check").returncode == 0
    done = make(clone)
    assert done.returncode != 0
    assert "never-heard-of" in done.stderr
    assert not is_ready(clone)


def test_an_install_that_breaks_off_is_begun_again(clone: Path) -> None:
    """What it left is not taken for whole, whatever was there before."""
    there = bring(clone)
    (there.root / ".ready").touch()
    os.utime(clone / "requirements.txt")  # a newer lock, and a network that is down
    done = make(clone, PIP_NO_INDEX="1", PIP_CONFIG_FILE=os.devnull)
    assert done.returncode != 0
    assert "installing what is locked" in done.stdout
    assert not is_ready(clone)
    assert not (clone / ".venv" / ".locked").exists()
