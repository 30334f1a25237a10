"""Installations as people have them, in a second and without network.

Each is a virtual environment with nothing in it but the distributions that were asked for, linked
file by file from where these tests run. pip, which finds nothing else anywhere, then installs a
wheel of laissez on top, and so is the judge of whether everything is there that the wheel and its
extras ask for.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PATIENCE_S = 120


def installed() -> dict[str, Distribution]:
    """What is installed beside these tests, by its name in pip's spelling."""
    here = distributions(path=[sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    return {canonicalize_name(each.metadata["Name"]): each for each in here}


def closure(asked: Iterable[str], there: Mapping[str, Distribution]) -> set[str]:
    """The names of all that these requirements come to, as far as it is there.

    What a distribution asks for with an extra counts only if somebody asks for that extra.
    """
    waiting = [Requirement(each) for each in asked]
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        if name not in there:
            continue
        for extra in {"", *requirement.extras}:
            if (name, extra) not in seen:
                seen.add((name, extra))
                waiting += _asked_by(there[name].requires or [], extra)
    return {name for name, _ in seen}


def _asked_by(requires: Iterable[str], extra: str) -> Iterator[Requirement]:
    for line in requires:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


class Installation:
    """A virtual environment, and a folder to work in, as of somebody who has nothing else."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.root = folder / ".venv"
        words = [sys.executable, "-m", "venv", "--without-pip", str(self.root)]
        subprocess.run(words, check=True, timeout=PATIENCE_S)
        variables = {"base": str(self.root), "platbase": str(self.root)}
        self.packages = Path(sysconfig.get_path("purelib", "venv", variables))

    def link(self, names: Iterable[str]) -> None:
        """Have these distributions, where they are not there yet."""
        there = installed()
        for name in names:
            for file in there[name].files or []:
                if ".." in file.parts or "__pycache__" in file.parts:
                    continue  # a script has the path of its interpreter in it
                link = self.packages / file
                link.parent.mkdir(parents=True, exist_ok=True)
                if not link.exists():
                    link.symlink_to(Path(str(there[name].locate_file(file))))

    def install(self, wanted: str) -> None:
        """Let pip do it, with what is there and nothing else; it must have nothing to say."""
        pip = [sys.executable, "-I", "-m", "pip", "--isolated", "--disable-pip-version-check"]
        pip += ["--python", str(self.root / "bin" / "python"), "-q"]
        done = self.run(*pip, "install", "--no-index", "--no-compile", wanted)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    def laissez(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """The command, as it is found by whoever has activated the environment."""
        return self.run(str(self.root / "bin" / "laissez"), *words, **environment)

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words,
            cwd=self.home,
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    @property
    def environment(self) -> dict[str, str]:
        """What people have in theirs, without what leads elsewhere."""
        ours = ("PIP_", "PYTHON", "LAISSEZ_", "VIRTUAL_ENV", "MAKE", "MFLAGS")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        home = str(self.home)
        return kept | {
            "HOME": home,
            "XDG_CACHE_HOME": f"{home}/.cache",
            "LAISSEZ_CONFIG": f"{home}/login",
            "PIP_CONFIG_FILE": os.devnull,
            "COLUMNS": "200",
        }
